/* ir/program.c: building loop programs, affine arithmetic, and which elements statements touch.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <ctype.h>
#include <string.h>

#include "ir/program.h"

/* ---- building -------------------------------------------------------------------------------------------- */

fx_program *fx_program_new(fx_context *ctx, const char *name, const fx_target *target)
{
    fx_arena *arena = fx_arena_create(ctx);
    fx_program *p = FX_NEW(arena, fx_program);
    p->ctx = ctx;
    p->arena = arena;
    p->name = fx_intern(ctx, name ? name : "model");
    p->target = *target;
    return p;
}

static bool is_keyword(const char *s)
{
    /* Of C99 and C++, and names whose macros or types emitted files use. */
    static const char *const words[] = {
        "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "continue",
        "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend",
        "goto", "if", "inline", "int", "long", "main", "mutable", "namespace", "new", "not", "operator", "or", "private",
        "protected", "public", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch",
        "template", "this", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual",
        "void", "volatile", "while", "xor",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], s) == 0)
            return true;
    }
    return false;
}

/* Any text as a C identifier of at most 60 letters, digits and single underscores: "layer1.0.conv1" -> "layer1_0_conv1". */
static const char *identifier(fx_program *p, const char *text)
{
    enum { LONGEST = 60 };
    char buf[LONGEST + 3];
    size_t n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s && n < LONGEST; s++) {
        bool plain = *s < 128 && isalnum(*s);
        if (n == 0 && *s < 128 && isdigit(*s))
            buf[n++] = 'n';
        if (plain)
            buf[n++] = (char)*s;
        else if (n > 0 && buf[n - 1] != '_')
            buf[n++] = '_';
    }
    while (n > 0 && buf[n - 1] == '_')
        n--;
    if (n == 0)
        buf[n++] = 'v';
    buf[n] = 0;
    if (is_keyword(buf)) {
        buf[n++] = '_';
        buf[n] = 0;
    }
    return fx_intern(p->ctx, buf);
}

static bool buf_named(const fx_program *p, const char *name)
{
    for (size_t i = 0; i < p->n_bufs; i++) {
        if (p->bufs[i].name == name)
            return true;
    }
    return false;
}

static bool step_named(const fx_program *p, const char *name)
{
    for (size_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i].name == name)
            return true;
    }
    return false;
}

/* Names are made unique by the buffer's (or step's) own number, so that a thousand equal names cost no search. */
static const char *unique(fx_program *p, const char *text, bool (*taken)(const fx_program *, const char *), size_t number)
{
    const char *name = identifier(p, text && *text ? text : "v");
    if (!taken(p, name))
        return name;
    const char *numbered = fx_intern_f(p->ctx, "%s_%zu", name, number);
    while (taken(p, numbered))
        numbered = fx_intern_f(p->ctx, "%s_%zu", numbered, number);
    return numbered;
}

int fx_program_buf(fx_program *p, fx_buf_kind kind, const char *name, fx_dtype dtype, int rank, const int64_t *dims)
{
    fx_buf b = {.id = (int)p->n_bufs, .kind = kind, .dtype = dtype, .rank = rank, .numel = 1, .io = -1, .overlay = -1};
    b.name = unique(p, name, buf_named, p->n_bufs);
    for (int i = 0; i < rank && i < FX_MAX_RANK; i++) {
        b.dims[i] = dims[i];
        /* A product that overflows becomes -1, which the verifier refuses. */
        if (b.numel < 0 || dims[i] < 0 || __builtin_mul_overflow(b.numel, dims[i], &b.numel))
            b.numel = -1;
    }
    FX_PUSH(p->arena, p->bufs, p->n_bufs, p->cap_bufs) = b;
    return b.id;
}

fx_step *fx_program_step(fx_program *p, const char *name)
{
    fx_step s = {.name = unique(p, name, step_named, p->n_steps)};
    FX_PUSH(p->arena, p->steps, p->n_steps, p->cap_steps) = s;
    return &p->steps[p->n_steps - 1];
}

fx_stmt *fx_stmt_new(fx_program *p, fx_stmt_kind kind)
{
    fx_stmt *s = FX_NEW(p->arena, fx_stmt);
    s->kind = kind;
    s->buf = s->local = s->var = -1;
    if (kind == FX_ST_CALL) {
        s->call = FX_NEW(p->arena, fx_call_stmt);
        for (int i = 0; i < FX_MAX_BUF_ARGS; i++)
            s->call->buf[i] = -1;
    }
    return s;
}

/* ---- affine expressions ------------------------------------------------------------------------------------ */

fx_affine fx_affine_const(int64_t base)
{
    return (fx_affine){.base = base};
}

/* An expression that left int64_t's range or has too many variables: no index is so large, so the verifier refuses it. */
static void poison(fx_affine *a)
{
    a->base = INT64_MAX;
    a->n = 0;
}

void fx_affine_add(fx_affine *a, int var, int64_t coef)
{
    if (coef == 0)
        return;
    int at = 0;
    while (at < a->n && a->var[at] < var)
        at++;
    if (at < a->n && a->var[at] == var) {
        if (__builtin_add_overflow(a->coef[at], coef, &a->coef[at])) {
            poison(a);
        } else if (a->coef[at] == 0) {
            a->n--;
            memmove(&a->var[at], &a->var[at + 1], (size_t)(a->n - at) * sizeof a->var[0]);
            memmove(&a->coef[at], &a->coef[at + 1], (size_t)(a->n - at) * sizeof a->coef[0]);
        }
        return;
    }
    if (a->n == FX_MAX_LOOPS) {
        poison(a);
        return;
    }
    memmove(&a->var[at + 1], &a->var[at], (size_t)(a->n - at) * sizeof a->var[0]);
    memmove(&a->coef[at + 1], &a->coef[at], (size_t)(a->n - at) * sizeof a->coef[0]);
    a->var[at] = var;
    a->coef[at] = coef;
    a->n++;
}

fx_affine fx_affine_sum(const fx_affine *a, const fx_affine *b)
{
    fx_affine s = *a;
    if (__builtin_add_overflow(s.base, b->base, &s.base))
        poison(&s);
    for (int i = 0; i < b->n; i++)
        fx_affine_add(&s, b->var[i], b->coef[i]);
    return s;
}

/* ---- scalar expressions -------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int arity;
} sops[FX_S_COUNT] = {
    [FX_S_CONST] = {"const", 0}, [FX_S_LOAD] = {"load", 0}, [FX_S_LOCAL] = {"local", 0},
    [FX_S_INDEX] = {"index", 0}, [FX_S_CAST] = {"cast", 1},
#define SCALAR(id, n, ...) [FX_S_##id] = {#id, n},
#include "ir/scalar.def"
#undef SCALAR
};

const char *fx_sop_name(fx_sop op)
{
    return (unsigned)op < FX_S_COUNT ? sops[op].name : "?";
}

int fx_sop_arity(fx_sop op)
{
    return (unsigned)op < FX_S_COUNT ? sops[op].arity : 0;
}

fx_sexpr *fx_s_const(fx_program *p, fx_dtype dtype, double v)
{
    fx_sexpr *e = FX_NEW(p->arena, fx_sexpr);
    e->op = FX_S_CONST;
    e->dtype = dtype;
    e->imm = v;
    if (!fx_dtype_is_float(dtype) && v >= -0x1p63 && v < 0x1p63)
        e->ival = (int64_t)v;
    return e;
}

fx_sexpr *fx_s_load(fx_program *p, int buf, const fx_affine *index)
{
    fx_sexpr *e = FX_NEW(p->arena, fx_sexpr);
    e->op = FX_S_LOAD;
    e->dtype = p->bufs[buf].dtype;
    e->buf = buf;
    e->index = *index;
    return e;
}

fx_sexpr *fx_s_local(fx_program *p, int local, fx_dtype dtype)
{
    fx_sexpr *e = FX_NEW(p->arena, fx_sexpr);
    e->op = FX_S_LOCAL;
    e->dtype = dtype;
    e->local = local;
    return e;
}

fx_sexpr *fx_s_op(fx_program *p, fx_sop op, fx_dtype dtype, const fx_sexpr *a, const fx_sexpr *b, const fx_sexpr *c)
{
    fx_sexpr *e = FX_NEW(p->arena, fx_sexpr);
    e->op = op;
    e->dtype = dtype;
    e->arg[0] = a;
    e->arg[1] = b;
    e->arg[2] = c;
    return e;
}

/* ---- accesses -------------------------------------------------------------------------------------------------
 * Interval arithmetic over the loops, sharpened by the guards: a guard on one variable narrows it; a guard on several
 * bounds their combination, and an index that contains this combination is bounded by it (a padded window reads
 * row o*s + k - p under 0 <= o*s + k - p < h: neither o nor k alone tells that the row is inside). */

typedef struct interval {
    __int128 lo, hi;
} interval;

/* A combination of variables (base 0) known to lie in `in`. */
typedef struct fact {
    const fx_affine *form;
    int64_t divisor;     /* form / divisor is the combination */
    interval in;
} fact;

enum { MAX_DEPTH = 64, MAX_FACTS = 64 };

typedef struct scope {
    int n_vars;
    struct { int var; interval in; } vars[MAX_DEPTH];
    int n_facts;
    fact facts[MAX_FACTS];
} scope;

typedef struct walk {
    const fx_program *p;
    fx_access_fn *f;
    void *user;
    scope scope;
} walk;

static int64_t saturate(__int128 v)
{
    return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

static interval scaled(interval in, int64_t c)
{
    /* Bounds are at most 2^63 and coefficients too: their product fits, and so does a sum of 32 of them after clipping. */
    __int128 a = in.lo * c, b = in.hi * c;
    const __int128 top = (__int128)1 << 120;
    a = a > top ? top : a < -top ? -top : a;
    b = b > top ? top : b < -top ? -top : b;
    return a < b ? (interval){a, b} : (interval){b, a};
}

static int64_t coef_of(const fx_affine *a, int var)
{
    for (int i = 0; i < a->n; i++) {
        if (a->var[i] == var)
            return a->coef[i];
    }
    return 0;
}

static int64_t gcd(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

/* The range of an affine expression; variables that no loop defines count as 0 (the verifier names them). */
static interval range_by(const scope *s, const fx_affine *a, bool use_facts)
{
    int64_t coef[FX_MAX_LOOPS];
    interval r = {a->base, a->base};
    for (int i = 0; i < a->n; i++)
        coef[i] = a->coef[i];
    for (int k = 0; use_facts && k < s->n_facts; k++) {
        const fact *f = &s->facts[k];
        /* How many times the fact's combination is in what remains: equal ratios at all its variables. */
        int64_t ratio = 0;
        bool fits = true;
        for (int j = 0; j < f->form->n && fits; j++) {
            int64_t unit = f->form->coef[j] / f->divisor, have = 0;
            for (int i = 0; i < a->n; i++) {
                if (a->var[i] == f->form->var[j])
                    have = coef[i];
            }
            if (have == 0 || have % unit != 0 || (j > 0 && have / unit != ratio))
                fits = false;
            else
                ratio = have / unit;
        }
        if (!fits || ratio == 0)
            continue;
        for (int i = 0; i < a->n; i++)
            coef[i] -= ratio * (coef_of(f->form, a->var[i]) / f->divisor);
        interval part = scaled(f->in, ratio);
        r.lo += part.lo;
        r.hi += part.hi;
    }
    for (int i = 0; i < a->n; i++) {
        for (int v = 0; coef[i] && v < s->n_vars; v++) {
            if (s->vars[v].var == a->var[i]) {
                interval part = scaled(s->vars[v].in, coef[i]);
                r.lo += part.lo;
                r.hi += part.hi;
                break;
            }
        }
    }
    return r;
}

static interval range_of(const scope *s, const fx_affine *a)
{
    interval r = range_by(s, a, false);
    if (s->n_facts > 0) {
        interval by_facts = range_by(s, a, true);
        r.lo = by_facts.lo > r.lo ? by_facts.lo : r.lo;
        r.hi = by_facts.hi < r.hi ? by_facts.hi : r.hi;
    }
    return r;
}

static __int128 floor_div(__int128 a, __int128 b)
{
    __int128 q = a / b;
    return q * b > a ? q - 1 : q;
}

/* Adds cond >= 0 to the scope; false when it can never hold. */
static bool assume(scope *s, const fx_affine *cond)
{
    interval all = range_of(s, cond);
    if (all.hi < 0)
        return false;
    if (cond->n == 0 || all.lo >= 0)
        return true;
    /* c1 * (combination) + base >= 0, where the combination's coefficients have no common divisor. */
    int64_t g = 0;
    for (int i = 0; i < cond->n; i++)
        g = gcd(g, cond->coef[i]);
    if (g <= 0)
        return true;
    if (cond->coef[0] < 0)
        g = -g;
    interval in = scaled((interval){all.lo - cond->base, all.hi - cond->base}, 1);
    in = g > 0 ? (interval){floor_div(in.lo + g - 1, g), floor_div(in.hi, g)}
               : (interval){floor_div(-in.hi - g - 1, -g), floor_div(-in.lo, -g)};
    /* g * comb >= -base */
    if (g > 0) {
        __int128 lo = -floor_div(cond->base, g);
        if (lo > in.lo)
            in.lo = lo;
    } else {
        __int128 hi = floor_div(cond->base, -(__int128)g);
        if (hi < in.hi)
            in.hi = hi;
    }
    if (in.lo > in.hi)
        return false;
    if (cond->n == 1) {
        for (int v = 0; v < s->n_vars; v++) {
            if (s->vars[v].var != cond->var[0])
                continue;
            if (in.lo > s->vars[v].in.lo)
                s->vars[v].in.lo = in.lo;
            if (in.hi < s->vars[v].in.hi)
                s->vars[v].in.hi = in.hi;
            return s->vars[v].in.lo <= s->vars[v].in.hi;
        }
        return true;
    }
    /* Another bound on a combination already known narrows it. */
    for (int k = 0; k < s->n_facts; k++) {
        fact *f = &s->facts[k];
        bool same = f->form->n == cond->n;
        for (int i = 0; same && i < cond->n; i++)
            same = f->form->var[i] == cond->var[i] && f->form->coef[i] / f->divisor == cond->coef[i] / g;
        if (same) {
            if (in.lo > f->in.lo)
                f->in.lo = in.lo;
            if (in.hi < f->in.hi)
                f->in.hi = in.hi;
            return f->in.lo <= f->in.hi;
        }
    }
    if (s->n_facts < MAX_FACTS)
        s->facts[s->n_facts++] = (fact){cond, g, in};
    return true;
}

static void report(walk *w, int buf, bool written, const fx_affine *index, const fx_stmt *at)
{
    interval r = range_of(&w->scope, index);
    w->f(w->user, buf, written, saturate(r.lo), saturate(r.hi), at);
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
            int64_t lo, hi;
            if (c->buf[i] < 0 || k->buf[i].written != (written != 0))
                continue;
            fx_call_footprint(w->p, c, i, &lo, &hi);
            if (lo <= hi)
                w->f(w->user, c->buf[i], written, lo, hi, at);
        }
    }
}

static void walk_stmts(walk *w, const fx_stmt *s)
{
    for (; s; s = s->next) {
        switch (s->kind) {
        case FX_ST_LOOP:
            if (s->extent > 0 && w->scope.n_vars < MAX_DEPTH) {
                w->scope.vars[w->scope.n_vars].var = s->var;
                w->scope.vars[w->scope.n_vars++].in = (interval){0, s->extent - 1};
                walk_stmts(w, s->body);
                w->scope.n_vars--;
            }
            break;
        case FX_ST_IF: {
            scope saved = w->scope;
            bool possible = true;
            /* Twice, since a later guard may sharpen what an earlier one tells. */
            for (int i = 0; possible && i < 2 * s->n_cond; i++)
                possible = assume(&w->scope, &s->cond[i % s->n_cond]);
            if (possible)
                walk_stmts(w, s->body);
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
            break;
        }
    }
}

void fx_stmt_accesses(const fx_program *p, const fx_stmt *body, fx_access_fn *f, void *user)
{
    walk w = {.p = p, .f = f, .user = user};
    walk_stmts(&w, body);
}
