/* ir/program_access.c: which elements the statements of a loop program touch.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Intervals over the loops and checks, sharpened by the guards: a guard on one variable narrows it; a guard on several bounds their
 * combination, and an index that contains this combination is bounded by it (a padded window reads row o*s + k - p under
 * 0 <= o*s + k - p < h: neither o nor k alone tells that the row is inside). Ends are dims: of two bounds the better one is taken
 * where it can be told which that is. */
#include <string.h>

#include "ir/program.h"

typedef struct interval {
    fx_dim lo, hi;
} interval;

/* A combination of variables (base 0) known to lie in `in`. */
typedef struct fact {
    const fx_affine *form;
    int64_t divisor;     /* form / divisor is the combination; form's coefficients are numbers */
    interval in;
} fact;

enum { MAX_DEPTH = 96, MAX_FACTS = 64 };

typedef struct scope {
    int n_vars;
    struct { int var; interval in; } vars[MAX_DEPTH];
    int n_facts;
    fact facts[MAX_FACTS];
} scope;

typedef struct walk {
    const fx_program *p;
    fx_context *ctx;
    fx_symbols symbols, where;    /* where: those for which the loops around have iterations */
    fx_access_fn *f;
    void (*never)(void *user, const fx_stmt *guard); /* told each guard that cannot hold; NULL: nobody asks */
    void *user;
    scope scope;
} walk;

static fx_dim unknown(const walk *w)
{
    return fx_dim_sym(fx_sym_opaque(w->ctx, "unknown"));
}

static bool is_unknown(fx_dim d)
{
    return d.sym && d.sym->kind == FX_SYM_OPAQUE;
}

static bool le(const walk *w, fx_dim a, fx_dim b)
{
    if (!a.sym && !b.sym)
        return a.value <= b.value;
    return fx_dim_equal(a, b) || fx_dim_le(w->ctx, w->symbols, a, b);
}

/* The tighter of two lower bounds; `preferred` when it cannot be told. */
static fx_dim better_lo(const walk *w, fx_dim preferred, fx_dim other)
{
    return is_unknown(preferred) || (!is_unknown(other) && le(w, preferred, other)) ? other : preferred;
}

static fx_dim better_hi(const walk *w, fx_dim preferred, fx_dim other)
{
    return is_unknown(preferred) || (!is_unknown(other) && le(w, other, preferred)) ? other : preferred;
}

static interval scaled(const walk *w, interval in, fx_dim c)
{
    int sign = !c.sym ? (c.value > 0) - (c.value < 0) : 0;
    if (c.sym && fx_dim_at_least(w->ctx, w->symbols, c, 0))
        sign = 1;
    else if (c.sym && fx_dim_le(w->ctx, w->symbols, c, fx_dim_of(0)))
        sign = -1;
    if (sign == 0)
        return fx_dim_is(c, 0) ? (interval){fx_dim_of(0), fx_dim_of(0)} : (interval){unknown(w), unknown(w)};
    fx_dim lo = is_unknown(in.lo) ? in.lo : fx_dim_mul(w->ctx, in.lo, c), hi = is_unknown(in.hi) ? in.hi : fx_dim_mul(w->ctx, in.hi, c);
    return sign > 0 ? (interval){lo, hi} : (interval){hi, lo};
}

static fx_dim plus(const walk *w, fx_dim a, fx_dim b)
{
    return is_unknown(a) ? a : is_unknown(b) ? b : fx_dim_add(w->ctx, a, b);
}

/* The range of an affine expression; variables that nothing around it defines count as 0 (the verifier names them). */
static interval range_by(const walk *w, const fx_affine *a, bool use_facts)
{
    const scope *s = &w->scope;
    fx_dim coef[FX_MAX_LOOPS];
    interval r = {a->base, a->base};
    for (int i = 0; i < a->n; i++)
        coef[i] = a->coef[i];
    for (int k = 0; use_facts && k < s->n_facts; k++) {
        const fact *f = &s->facts[k];
        /* How many times the fact's combination is in what remains: equal ratios at all its variables. */
        fx_dim ratio = fx_dim_of(0);
        bool fits = true;
        for (int j = 0; j < f->form->n && fits; j++) {
            fx_dim unit = fx_dim_of(f->form->coef[j].value / f->divisor), have = fx_dim_of(0), q;
            for (int i = 0; i < a->n; i++) {
                if (a->var[i] == f->form->var[j])
                    have = coef[i];
            }
            fits = !fx_dim_is(have, 0) && fx_dim_divide(w->ctx, have, unit, &q) && (j == 0 || fx_dim_equal(q, ratio));
            if (fits)
                ratio = q;
        }
        if (!fits || fx_dim_is(ratio, 0))
            continue;
        for (int i = 0; i < a->n; i++) {
            fx_dim c = fx_affine_coef(f->form, a->var[i]);
            coef[i] = fx_dim_sub(w->ctx, coef[i], fx_dim_scale(w->ctx, ratio, c.value / f->divisor));
        }
        interval part = scaled(w, f->in, ratio);
        r = (interval){plus(w, r.lo, part.lo), plus(w, r.hi, part.hi)};
    }
    for (int i = 0; i < a->n; i++) {
        for (int v = 0; !fx_dim_is(coef[i], 0) && v < s->n_vars; v++) {
            if (s->vars[v].var == a->var[i]) {
                interval part = scaled(w, s->vars[v].in, coef[i]);
                r = (interval){plus(w, r.lo, part.lo), plus(w, r.hi, part.hi)};
                break;
            }
        }
    }
    return r;
}

static interval range_of(const walk *w, const fx_affine *a)
{
    interval r = range_by(w, a, false);
    if (w->scope.n_facts > 0) {
        interval by_facts = range_by(w, a, true);
        r.lo = better_lo(w, by_facts.lo, r.lo);
        r.hi = better_hi(w, by_facts.hi, r.hi);
    }
    return r;
}

static bool empty(interval in)
{
    return !in.lo.sym && !in.hi.sym && in.lo.value > in.hi.value;
}

/* Adds cond >= 0 to the scope; false when it can never hold. */
static bool assume(walk *w, const fx_affine *cond)
{
    scope *s = &w->scope;
    fx_context *ctx = w->ctx;
    interval all = range_of(w, cond);
    if (!all.hi.sym && all.hi.value < 0)
        return false;
    if (cond->n == 0 || le(w, fx_dim_of(0), all.lo) || !fx_affine_is_static(cond))
        return true;
    /* c1 * (combination) + base >= 0, where the combination's coefficients have no common divisor. */
    uint64_t g = 0;
    for (int i = 0; i < cond->n; i++) {
        int64_t c = cond->coef[i].value;
        if (c == INT64_MIN)
            return true;
        for (uint64_t b = c < 0 ? -(uint64_t)c : (uint64_t)c; b;) {
            uint64_t r = g % b;
            g = b;
            b = r;
        }
    }
    if (g == 0 || g > INT64_MAX)
        return true;
    int64_t divisor = cond->coef[0].value < 0 ? -(int64_t)g : (int64_t)g;
    fx_dim size = fx_dim_of((int64_t)g), minus = fx_dim_of(-1);
    /* The combination without its base, over divisor; then |divisor| * combination >= -base or <= base. */
    fx_dim lo = plus(w, all.lo, fx_dim_mul(ctx, cond->base, minus)), hi = plus(w, all.hi, fx_dim_mul(ctx, cond->base, minus));
    if (divisor < 0) {
        fx_dim t = lo;
        lo = fx_dim_mul(ctx, hi, minus);
        hi = fx_dim_mul(ctx, t, minus);
    }
    interval in = {is_unknown(lo) ? lo : fx_dim_floordiv(ctx, lo, size), is_unknown(hi) ? hi : fx_dim_floordiv(ctx, hi, size)};
    fx_dim end = fx_dim_floordiv(ctx, cond->base, size);
    if (divisor > 0)
        in.lo = better_lo(w, fx_dim_mul(ctx, end, minus), in.lo);
    else
        in.hi = better_hi(w, end, in.hi);
    if (empty(in))
        return false;
    if (cond->n == 1) {
        for (int v = 0; v < s->n_vars; v++) {
            if (s->vars[v].var != cond->var[0])
                continue;
            s->vars[v].in.lo = better_lo(w, in.lo, s->vars[v].in.lo);
            s->vars[v].in.hi = better_hi(w, in.hi, s->vars[v].in.hi);
            return !empty(s->vars[v].in);
        }
        return true;
    }
    /* Another bound on a combination already known narrows it. */
    for (int k = 0; k < s->n_facts; k++) {
        fact *f = &s->facts[k];
        bool same = f->form->n == cond->n;
        for (int i = 0; same && i < cond->n; i++)
            same = f->form->var[i] == cond->var[i] && f->form->coef[i].value / f->divisor == cond->coef[i].value / divisor;
        if (same) {
            f->in.lo = better_lo(w, in.lo, f->in.lo);
            f->in.hi = better_hi(w, in.hi, f->in.hi);
            return !empty(f->in);
        }
    }
    if (s->n_facts < MAX_FACTS)
        s->facts[s->n_facts++] = (fact){cond, divisor, in};
    return true;
}

static void report(walk *w, int buf, bool written, const fx_affine *index, const fx_stmt *at)
{
    interval r = range_of(w, index);
    w->f(w->user, buf, written, r.lo, r.hi, w->where, at);
}

static void walk_expr(walk *w, const fx_sexpr *e, const fx_stmt *at)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD)
        report(w, e->buf, false, &e->index, at);
    for (int i = 0; i < fx_sop_arity(e->op); i++)
        walk_expr(w, e->arg[i], at);
}

static void walk_call(walk *w, const fx_stmt *at)
{
    const fx_call_stmt *c = at->call;
    const fx_kernel *k = fx_kernel_get(c->kernel);
    for (int written = 0; written < 2; written++) {
        for (int i = 0; k && i < k->n_bufs; i++) {
            fx_dim lo, hi;
            if (c->buf[i] < 0 || k->buf[i].written != (written != 0))
                continue;
            fx_call_footprint(w->p, c, i, &lo, &hi);
            if (lo.sym || hi.sym || lo.value <= hi.value)
                w->f(w->user, c->buf[i], written, lo, hi, w->where, at);
        }
    }
}

static void walk_stmts(walk *w, const fx_stmt *s);

static void walk_range(walk *w, int var, fx_dim extent, const fx_stmt *body)
{
    if ((!extent.sym && extent.value <= 0) || w->scope.n_vars == MAX_DEPTH)
        return;
    w->scope.vars[w->scope.n_vars].var = var;
    w->scope.vars[w->scope.n_vars++].in = (interval){fx_dim_of(0), fx_dim_plus(w->ctx, extent, -1)};
    fx_symbols outside = w->where;
    w->where = fx_dim_where_positive(w->p->arena, outside, extent);
    walk_stmts(w, body);
    w->where = outside;
    w->scope.n_vars--;
}

static void walk_stmts(walk *w, const fx_stmt *s)
{
    for (; s; s = s->next) {
        switch (s->kind) {
        case FX_ST_LOOP:
            walk_range(w, s->var, s->extent, s->body);
            break;
        case FX_ST_CHECK:
            walk_range(w, FX_VAR_LOCAL(s->local), s->extent, s->body);
            break;
        case FX_ST_IF: {
            scope saved = w->scope;
            bool possible = true;
            /* Twice, since a later guard may sharpen what an earlier one tells. */
            for (int i = 0; possible && i < 2 * s->n_cond; i++)
                possible = assume(w, &s->cond[i % s->n_cond]);
            if (possible)
                walk_stmts(w, s->body);
            else if (w->never)
                w->never(w->user, s);
            w->scope = saved;
            break;
        }
        case FX_ST_STORE:
            walk_expr(w, s->value, s);
            report(w, s->buf, true, &s->index, s);
            break;
        case FX_ST_LOCAL:
        case FX_ST_SET:
            walk_expr(w, s->value, s);
            break;
        case FX_ST_CALL:
            walk_call(w, s);
            break;
        case FX_ST_COMMENT:
        case FX_ST_ARRAY:
        case FX_ST_BARRIER:
        case FX_ST_REDUCE:
            break;
        }
    }
}

void fx_stmt_accesses(const fx_program *p, const fx_stmt *body, fx_access_fn *f, void *user)
{
    walk w = {.p = p, .ctx = p->ctx, .symbols = fx_program_symbols(p), .where = fx_program_symbols(p), .f = f, .user = user};
    walk_stmts(&w, body);
}

static void no_access(void *user, int buf, bool written, fx_dim lo, fx_dim hi, fx_symbols where, const fx_stmt *at)
{
    (void)user, (void)buf, (void)written, (void)lo, (void)hi, (void)where, (void)at;
}

void fx_stmt_impossible(const fx_program *p, const fx_stmt *body, void (*f)(void *user, const fx_stmt *guard), void *user)
{
    walk w = {.p = p, .ctx = p->ctx, .symbols = fx_program_symbols(p), .where = fx_program_symbols(p), .f = no_access, .never = f, .user = user};
    walk_stmts(&w, body);
}
