/* ir/program_races.c: the verifier's part about loops whose iterations run at once: parallel, vector, grid, block and thread loops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Two accesses race when one of them stores and they can touch one element in different iterations. Of the guards that both are under, those that
 * bound a sum of variables from above count (the last tile of a row: 32 * tile + thread < width), and that which the first iteration alone passes
 * (-v >= 0); no others do. An array
 * declared inside the loop belongs to one iteration. Threads of a block wait for each other at barriers: what a barrier stands between
 * does not race. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ir/program_check.h"

const char *fx_check_loop_kind(fx_loop_kind kind)
{
    static const char *const names[] = {"serial", "parallel", "vector", "unrolled", "grid", "block", "thread"};
    return (unsigned)kind <= FX_LOOP_THREAD ? names[kind] : "?";
}

/* What holds at a statement: cond >= 0, and those around it. */
typedef struct guard {
    const fx_affine *cond;
    const struct guard *around;
} guard;

typedef struct access {
    int buf;
    const fx_affine *index;
    const guard *guards;
    bool stored;
    int phase;                /* what no barrier parts has one number */
} access;

typedef struct race {
    fx_check *c;
    const fx_stmt *loop;
    fx_check_var *vars; size_t n, cap;
    size_t at;                /* vars[at] is the loop's; those before it stand still */
    bool threads;             /* barriers count */
    const guard *guards;      /* within the loop, at the statement at hand */
    access *v; size_t n_accesses, cap_accesses;
    int *parent; size_t n_phases, cap_phases; /* union-find */
    bool told;
} race;

/* ---- whether two indices can be equal -------------------------------------------------------------------------------- */

/* A variable of the question whether two accesses can meet: coef * x, lo <= x <= hi, perhaps x != 0. */
typedef struct term {
    int64_t coef, lo, hi;
    bool not_zero;
    __int128 rest_lo, rest_hi; /* what the terms behind this one can add up to */
} term;

/* The same with dims. */
typedef struct sym_term {
    fx_dim coef, lo, hi;
    bool not_zero;
} sym_term;

enum { MAX_TERMS = 4 * FX_CHECK_DEPTH };

/* Whether sum(coef * x) = d has a solution; terms are sorted, largest coefficient first, so that few values of each remain. When the
 * budget is spent, yes. */
static bool solvable(const term *t, int n, __int128 d, int *budget)
{
    if (n == 0)
        return d == 0;
    for (int64_t x = t->lo; x <= t->hi; x++) {
        __int128 left = d - (__int128)t->coef * x;
        if (left < t->rest_lo || left > t->rest_hi) {
            /* Jump to the first value that leaves enough for the others. */
            __int128 far = t->coef > 0 ? left - t->rest_hi : t->rest_lo - left, size = t->coef > 0 ? t->coef : -(__int128)t->coef;
            if (far <= 0)
                return false;
            __int128 skip = (far - 1) / size;
            if (skip > t->hi - x)
                return false;
            x += (int64_t)skip;
            continue;
        }
        if (--*budget < 0)
            return true;
        if (!(t->not_zero && x == 0) && solvable(t + 1, n - 1, left, budget))
            return true;
    }
    return false;
}

static bool meet_dims(const fx_check *c, sym_term *t, int n, fx_dim d);

static bool meet_numbers(const fx_check *c, sym_term *s, int n, int64_t d)
{
    term t[MAX_TERMS];
    int budget = 20000;
    for (int i = 0; i < n; i++) {
        int64_t coef = s[i].coef.value;
        if (llabs(coef) > INT64_MAX / 4)
            return false; /* runs out of bounds, which is told elsewhere */
        t[i] = (term){.coef = coef, .lo = s[i].lo.value, .hi = s[i].hi.value, .not_zero = s[i].not_zero};
        for (int j = i; j > 0 && llabs(t[j - 1].coef) < llabs(t[j].coef); j--) {
            term swapped = t[j];
            t[j] = t[j - 1];
            t[j - 1] = swapped;
        }
    }
    __int128 lo = 0, hi = 0;
    for (int i = n - 1; i >= 0; i--) {
        __int128 x = (__int128)t[i].coef * t[i].lo, y = (__int128)t[i].coef * t[i].hi;
        t[i].rest_lo = lo;
        t[i].rest_hi = hi;
        lo += x < y ? x : y;
        hi += x < y ? y : x;
    }
    return solvable(t, n, d, &budget) && (budget >= 0 || meet_dims(c, s, n, fx_dim_of(d)));
}

/* |d| as far as its sign can be told. */
static bool size_of(const fx_check *c, fx_dim d, fx_dim *size)
{
    *size = d;
    if (fx_check_le(c, fx_dim_of(0), d))
        return true;
    *size = fx_dim_scale(c->ctx, d, -1);
    return fx_check_le(c, fx_dim_of(0), *size);
}

/* Makes the coefficient positive; false when its sign cannot be told. */
static bool turn(const fx_check *c, sym_term *t)
{
    fx_dim size, lo = t->lo, minus = fx_dim_of(-1);
    if (!size_of(c, t->coef, &size))
        return false;
    if (!fx_dim_equal(size, t->coef)) {
        t->lo = fx_dim_mul(c->ctx, t->hi, minus);
        t->hi = fx_dim_mul(c->ctx, lo, minus);
    }
    t->coef = size;
    return true;
}

/* With expressions: a coefficient larger than what the other terms can leave of d leaves its variable only 0. Variables are taken away
 * so, largest first; when the one that is not 0 comes to it, the indices never meet. Nor do they when d is out of reach: two parts of
 * a buffer, apart. */
static bool meet_dims(const fx_check *c, sym_term *t, int n, fx_dim d)
{
    fx_dim lo[MAX_TERMS], hi[MAX_TERMS], least = fx_dim_of(0), most = fx_dim_of(0);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (!turn(c, &t[i]))
            return true;
        /* Two with one coefficient are one: nests that walk a buffer alike, each in its own variable. */
        int k = 0;
        while (k < kept && (t[i].not_zero || t[k].not_zero || !fx_dim_equal(t[k].coef, t[i].coef)))
            k++;
        if (k == kept) {
            t[kept++] = t[i];
        } else {
            t[k].lo = fx_dim_add(c->ctx, t[k].lo, t[i].lo);
            t[k].hi = fx_dim_add(c->ctx, t[k].hi, t[i].hi);
        }
    }
    n = kept;
    for (int i = 0; i < n; i++) {
        lo[i] = fx_dim_mul(c->ctx, t[i].coef, t[i].lo);
        hi[i] = fx_dim_mul(c->ctx, t[i].coef, t[i].hi);
        least = fx_dim_add(c->ctx, least, lo[i]);
        most = fx_dim_add(c->ctx, most, hi[i]);
    }
    if (fx_check_le(c, fx_dim_plus(c->ctx, most, 1), d) || fx_check_le(c, fx_dim_plus(c->ctx, d, 1), least))
        return false;
    for (int i = 0; i < n; i++) { /* all else is a multiple of g, and so is coef * x, which is less: 0 */
        int64_t g = fx_dim_content(d, 0);
        for (int k = 0; k < n; k++)
            g = k == i ? g : fx_dim_content(t[k].coef, g);
        if (t[i].not_zero && g > 1 && fx_check_le(c, hi[i], fx_dim_of(g - 1)) && fx_check_le(c, fx_dim_of(1 - g), lo[i]))
            return false;
    }
    for (bool found = true; found;) {
        found = false;
        for (int i = 0; i < n; i++) {
            /* coef * x is d less the rest */
            fx_dim rest_least = fx_dim_sub(c->ctx, least, lo[i]), rest_most = fx_dim_sub(c->ctx, most, hi[i]);
            if (!fx_check_le(c, fx_dim_plus(c->ctx, fx_dim_sub(c->ctx, d, rest_least), 1), t[i].coef) ||
                !fx_check_le(c, fx_dim_plus(c->ctx, fx_dim_sub(c->ctx, rest_most, d), 1), t[i].coef))
                continue;
            if (t[i].not_zero)
                return false;
            least = rest_least;
            most = rest_most;
            if (fx_check_le(c, fx_dim_plus(c->ctx, most, 1), d) || fx_check_le(c, fx_dim_plus(c->ctx, d, 1), least))
                return false; /* out of reach of what is left */
            found = true;
            n--;
            t[i] = t[n];
            lo[i] = lo[n];
            hi[i] = hi[n];
            i--;
        }
    }
    return true;
}

/* The question whether two indices can be equal: variables before `shared` have one value in both, vars[apart] has two that differ. */
typedef struct question {
    const fx_check *c;
    const fx_check_var *vars;
    size_t n, shared, apart;
} question;

static bool indices_meet(const question *q, const fx_affine *a, const fx_affine *b)
{
    const fx_check *c = q->c;
    sym_term t[MAX_TERMS];
    int n = 0;
    fx_dim d = fx_dim_sub(c->ctx, b->base, a->base), zero = fx_dim_of(0);
    fx_symbols where = c->symbols;
    bool numbers = !d.sym;
    for (size_t i = 0; i < q->n; i++) {
        fx_dim ca = fx_affine_coef(a, q->vars[i].var), cb = fx_affine_coef(b, q->vars[i].var), last = fx_dim_plus(c->ctx, q->vars[i].extent, -1);
        bool in_a = !fx_dim_is(ca, 0), in_b = !fx_dim_is(cb, 0), same = fx_dim_equal(ca, cb);
        if (i <= q->shared || in_a || in_b) /* around one of the two */
            where = fx_dim_where_positive(c->arena, where, q->vars[i].extent);
        if (!in_a && !in_b)
            continue;
        if (i < q->shared) {
            if (!same)
                t[n++] = (sym_term){.coef = fx_dim_sub(c->ctx, ca, cb), .lo = zero, .hi = last};
        } else if (same) {
            t[n++] = (sym_term){.coef = ca, .lo = fx_dim_scale(c->ctx, last, -1), .hi = last, .not_zero = i == q->apart};
        } else {
            if (in_a)
                t[n++] = (sym_term){.coef = ca, .lo = zero, .hi = last};
            if (in_b)
                t[n++] = (sym_term){.coef = fx_dim_scale(c->ctx, cb, -1), .lo = zero, .hi = last};
        }
        numbers &= !ca.sym && !cb.sym && !last.sym;
    }
    if (numbers)
        return meet_numbers(c, t, n, d.value);
    fx_check running = *c;
    running.symbols = where;
    return meet_dims(&running, t, n, d);
}

/* ---- guards ---------------------------------------------------------------------------------------------------------- */

/* Whether the conditions are one but for loops inside the one in question that go round equally often: two passes over a row. */
static bool alike(const race *r, const fx_affine *a, const fx_affine *b)
{
    if (a->n != b->n || !fx_dim_equal(a->base, b->base))
        return false;
    for (int i = 0; i < a->n; i++) {
        if (fx_dim_equal(fx_affine_coef(b, a->var[i]), a->coef[i]))
            continue;
        bool found = false;
        for (size_t k = r->at + 1; k < r->n && !found; k++)
            found = fx_dim_equal(fx_affine_coef(b, r->vars[k].var), a->coef[i]) && fx_dim_is(fx_affine_coef(a, r->vars[k].var), 0) && a->var[i] != r->loop->var;
        if (!found)
            return false;
    }
    return true;
}

static const fx_affine *find_guard(const race *r, const guard *g, const fx_affine *cond)
{
    for (; g; g = g->around)
        if (alike(r, cond, g->cond))
            return g->cond;
    return NULL;
}

/* The iteration is the first. */
static bool only_first(const race *r, const guard *g)
{
    for (; g; g = g->around)
        if (g->cond->n == 1 && g->cond->var[0] == r->loop->var && fx_dim_is(g->cond->coef[0], -1) && fx_dim_is(g->cond->base, 0))
            return true;
    return false;
}

/* The sum of variables, each some times, that the guard says is at most its base. */
static bool bounded_sum(const fx_check *c, const fx_affine *cond, fx_affine *sum)
{
    *sum = fx_affine_const(0);
    for (int i = 0; i < cond->n; i++) {
        if (cond->coef[i].sym || cond->coef[i].value >= 0)
            return false;
        fx_affine_add(c->ctx, sum, cond->var[i], fx_dim_scale(c->ctx, cond->coef[i], -1));
    }
    return cond->n > 0;
}

/* How often the sum is in the index. */
static bool find_sum(const fx_check *c, const fx_affine *index, const fx_affine *sum, fx_dim *times)
{
    for (int i = 0; i < sum->n; i++) {
        fx_dim one;
        if (!fx_dim_divide(c->ctx, fx_affine_coef(index, sum->var[i]), sum->coef[i], &one) || fx_dim_is(one, 0) || (i && !fx_dim_equal(one, *times)))
            return false;
        *times = one;
    }
    return true;
}

/* The index with the variable in the sum's place. */
static fx_affine with_sum(const fx_check *c, const fx_affine *index, const fx_affine *sum, int var, fx_dim times)
{
    fx_affine r = *index;
    for (int i = 0; i < sum->n; i++)
        fx_affine_add(c->ctx, &r, sum->var[i], fx_dim_mul(c->ctx, times, fx_dim_scale(c->ctx, sum->coef[i], -1)));
    fx_affine_add(c->ctx, &r, var, times);
    return r;
}

/* Whether the index of one access in one iteration and that of the other in another one can be the same element. A sum of variables that a guard on both
 * bounds counts as one variable; where the loop's is among them, the sums of two iterations must differ. */
static bool can_meet(const race *r, const access *a, const access *b)
{
    enum { MOST = 4 };
    const fx_check *c = r->c;
    question q = {.c = c, .vars = r->vars, .n = r->n, .shared = r->at, .apart = r->at};
    if (!indices_meet(&q, a->index, b->index))
        return false;
    fx_check_var *vars = NULL;
    fx_affine ia = *a->index, ib = *b->index, sum, other;
    fx_dim ta = fx_dim_of(0), tb = ta;
    for (const guard *g = a->guards; g && q.n < r->n + MOST; g = g->around) {
        const fx_affine *cond = find_guard(r, b->guards, g->cond);
        if (!cond || !bounded_sum(c, g->cond, &sum) || !bounded_sum(c, cond, &other) || !find_sum(c, &ia, &sum, &ta) || !find_sum(c, &ib, &other, &tb))
            continue;
        bool differ = !fx_dim_is(fx_affine_coef(&sum, r->vars[r->at].var), 0);
        if (differ && (q.apart != r->at || indices_meet(&q, &sum, &other)))
            continue;
        if (!vars) {
            vars = FX_NEW_ARRAY(c->arena, fx_check_var, r->n + MOST);
            memcpy(vars, r->vars, r->n * sizeof *vars);
            q.vars = vars;
        }
        int var = INT_MAX - (int)q.n;
        vars[q.n] = (fx_check_var){.var = var, .extent = fx_dim_plus(c->ctx, g->cond->base, 1)};
        q.apart = differ ? q.n : q.apart;
        q.n++;
        ia = with_sum(c, &ia, &sum, var, ta);
        ib = with_sum(c, &ib, &other, var, tb);
    }
    return !vars || indices_meet(&q, &ia, &ib);
}

/* ---- collecting ------------------------------------------------------------------------------------------------------ */

static int phase_of(const race *r, int p)
{
    while (r->parent[p] != p)
        p = r->parent[p];
    return p;
}

static int new_phase(race *r)
{
    int p = (int)r->n_phases;
    FX_PUSH(r->c->arena, r->parent, r->n_phases, r->cap_phases) = p;
    return p;
}

/* Whether the buffer is one that iterations share: not an array declared inside the loop. */
static bool shared(const race *r, int buf)
{
    return r->c->p->bufs[buf].kind != FX_BUF_LOCAL || fx_check_sees_array(r->c, buf);
}

static void collect_access(race *r, int buf, const fx_affine *index, bool stored)
{
    if (fx_check_buf(r->c, buf) && shared(r, buf))
        FX_PUSH(r->c->arena, r->v, r->n_accesses, r->cap_accesses) = (access){buf, index, r->guards, stored, (int)r->n_phases - 1};
}

static void collect_expr(race *r, const fx_sexpr *e, int depth)
{
    if (!e || depth > 400)
        return;
    if (e->op == FX_S_LOAD)
        collect_access(r, e->buf, &e->index, false);
    for (int i = 0; i < fx_sop_arity(e->op); i++)
        collect_expr(r, e->arg[i], depth + 1);
}

static void collect(race *r, const fx_stmt *s);

static void collect_inside(race *r, int var, fx_dim extent, const fx_stmt *s)
{
    if (!extent.sym && extent.value <= 0)
        return; /* never runs */
    FX_PUSH(r->c->arena, r->vars, r->n, r->cap) = (fx_check_var){var, extent, s->loop, s};
    size_t before = r->n_phases;
    collect(r, s->body);
    /* What runs after the last barrier of one round runs with what comes before the first of the next. */
    if (r->threads && s->kind == FX_ST_LOOP && r->n_phases > before)
        r->parent[phase_of(r, (int)r->n_phases - 1)] = phase_of(r, (int)before - 1);
}

static void collect(race *r, const fx_stmt *s)
{
    for (; s; s = s->next) {
        switch (s->kind) {
        case FX_ST_STORE:
            collect_expr(r, s->value, 0);
            collect_access(r, s->buf, &s->index, true);
            break;
        case FX_ST_LOCAL:
        case FX_ST_SET:
            collect_expr(r, s->value, 0);
            break;
        case FX_ST_LOOP:
            collect_inside(r, s->var, s->extent, s);
            break;
        case FX_ST_CHECK:
            collect_inside(r, FX_VAR_LOCAL(s->local), s->extent, s);
            break;
        case FX_ST_IF: {
            const guard *around = r->guards;
            for (int i = 0; i < s->n_cond; i++) {
                guard *g = FX_NEW(r->c->arena, guard);
                *g = (guard){&s->cond[i], r->guards};
                r->guards = g;
            }
            collect(r, s->body);
            r->guards = around;
            break;
        }
        case FX_ST_BARRIER:
            if (r->threads)
                new_phase(r);
            break;
        case FX_ST_CALL:
            if (!r->told)
                fx_check_bad(r->c, "a kernel is called in the %s loop v%d", fx_check_loop_kind(r->loop->loop), r->loop->var);
            r->told = true;
            break;
        case FX_ST_COMMENT:
        case FX_ST_ARRAY:
        case FX_ST_REDUCE:
            break;
        }
    }
}

/* ---- the loop -------------------------------------------------------------------------------------------------------- */

static int by_buf(const void *x, const void *y)
{
    const access *a = x, *b = y;
    return a->buf != b->buf ? (a->buf < b->buf ? -1 : 1) : b->stored - a->stored;
}

/* An access of the pair stores; pairs are looked at once. */
static bool race_of(const race *r, const access *a, const access *b)
{
    if (phase_of(r, a->phase) != phase_of(r, b->phase) || (only_first(r, a->guards) && only_first(r, b->guards)))
        return false;
    /* An index without the loop's variable meets itself at once. */
    return (a == b && fx_dim_is(fx_affine_coef(a->index, r->loop->var), 0)) || can_meet(r, a, b);
}

/* Whether at most one iteration runs at every size, also where sizes are expressions: of the loop, or as a loop around it has none. */
static bool runs_once(const fx_check *c, const fx_stmt *s)
{
    for (int i = 0; i < c->n_vars; i++)
        if (c->vars[i].extent.sym && fx_check_le(c, c->vars[i].extent, fx_dim_of(0)))
            return true;
    return fx_check_le(c, s->extent, fx_dim_of(1));
}

void fx_check_parallel(fx_check *c, const fx_stmt *s)
{
    race r = {.c = c, .loop = s, .at = (size_t)c->n_vars - 1, .threads = s->loop == FX_LOOP_THREAD};
    const char *kind = fx_check_loop_kind(s->loop);
    for (int i = 0; i < c->n_vars; i++) {
        if (!c->vars[i].extent.sym && c->vars[i].extent.value <= 0)
            return; /* never runs */
        FX_PUSH(c->arena, r.vars, r.n, r.cap) = c->vars[i];
    }
    new_phase(&r);
    collect(&r, s->body);
    if (r.n_accesses)
        qsort(r.v, r.n_accesses, sizeof r.v[0], by_buf);
    for (size_t i = 0; i < r.n_accesses && !r.told; i++) {
        for (size_t k = i; k < r.n_accesses && r.v[k].buf == r.v[i].buf && r.v[i].stored && !r.told; k++) {
            if (!race_of(&r, &r.v[i], &r.v[k]))
                continue;
            if (runs_once(c, s))
                return;
            r.told = true;
            if (r.v[k].stored)
                fx_check_bad(c, "iterations of the %s loop v%d store to the same elements of '%s'", kind, s->var,
                             fx_check_buf_name(c, r.v[i].buf));
            else
                fx_check_bad(c, "the %s loop v%d loads elements of '%s' that other iterations store", kind, s->var,
                             fx_check_buf_name(c, r.v[i].buf));
        }
    }
}

/* ---- nests of one launch ------------------------------------------------------------------------------------------------ */

bool fx_check_apart(fx_check *c, const fx_stmt *a, const fx_stmt *b, int *buf)
{
    race r = {.c = c, .loop = a};
    new_phase(&r);
    collect_inside(&r, a->var, a->extent, a);
    size_t of_a = r.n_accesses;
    collect_inside(&r, b->var, b->extent, b);
    question q = {.c = c, .vars = r.vars, .n = r.n, .apart = r.n};
    for (size_t i = 0; i < of_a; i++)
        for (size_t k = of_a; k < r.n_accesses; k++) {
            *buf = r.v[i].buf;
            if (r.v[k].buf == *buf && (r.v[i].stored || r.v[k].stored) && indices_meet(&q, r.v[i].index, r.v[k].index))
                return false;
        }
    return true;
}

bool fx_nests_apart(fx_program *p, const fx_stmt *a, const fx_stmt *b)
{
    int buf;
    fx_check c = {.p = p, .ctx = p->ctx, .symbols = fx_program_symbols(p), .step = -1, .arena = fx_arena_create(p->ctx)};
    bool apart = fx_check_apart(&c, a, b, &buf);
    fx_arena_free(c.arena);
    return apart;
}
