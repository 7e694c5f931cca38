/* lower/prove_race.c: iterations that run at once touch different elements.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Threads of a block wait for one another at barriers. All threads run through the same barriers (prove.c looks at that), so what two of them do at
 * once lies on a piece of the program's course that has no barrier in it. The text is cut into segments at barriers and where loops begin and end;
 * two segments are near when such a piece runs from one to the other: forward, once round a loop, or past a loop that may not run at all. */
#include <limits.h>
#include <string.h>

#include "lower/prove.h"

enum { SEGMENTS = 64 };

typedef struct touch {
    int buf, segment;
    bool write;
    const fx_affine *index;
    const fx_prove_scope *scope;
} touch;

typedef struct race {
    fx_prover *r;
    const fx_stmt *loop;
    fx_prove_scope scope;         /* at the statement being looked at */
    int n_shared;                 /* variables of the scope around the loop */
    touch *t; size_t n, cap;
    const int *own; size_t n_own, cap_own; /* arrays and locals declared inside: each iteration's own; locals as -1 - local */
    int *own_list;
    const fx_prove_scope *copy;   /* of the scope, while it stays the same */
    /* Segments, for loops over threads; else all is segment 0. A word is a set of segments. */
    bool threads;
    int segment, n_segments;
    bool again;                   /* a loop's second round: what it touches is known */
    uint64_t open;                /* those from which no barrier leads here */
    uint64_t near[SEGMENTS];
    const char *text;
} race;

static void fail(race *c, const char *text)
{
    if (!c->text)
        c->text = text;
}

static bool is_own(const race *c, int what)
{
    for (size_t i = 0; i < c->n_own; i++)
        if (c->own_list[i] == what)
            return true;
    return false;
}

static void add_own(race *c, int what)
{
    FX_PUSH(c->r->arena, c->own_list, c->n_own, c->cap_own) = what;
}

static void add_touch(race *c, int buf, bool write, const fx_affine *index)
{
    if (c->again || is_own(c, buf))
        return;
    if (!c->copy)
        c->copy = fx_arena_dup(c->r->arena, &c->scope, sizeof c->scope);
    FX_PUSH(c->r->arena, c->t, c->n, c->cap) = (touch){buf, c->segment, write, index, c->copy};
}

static void collect_expr(race *c, const fx_sexpr *e)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD)
        add_touch(c, e->buf, false, &e->index);
    for (int k = 0; k < fx_sop_arity(e->op); k++)
        collect_expr(c, e->arg[k]);
}

/* ---- segments ------------------------------------------------------------------------------------------------------------ */

/* A segment begins here; it is near all that no barrier parts from it. */
static void cut(race *c, bool barrier)
{
    if (!c->threads)
        return;
    if (c->n_segments == SEGMENTS) {
        fail(c, "too many loops and barriers");
        return;
    }
    c->segment = c->n_segments++;
    c->open = (barrier ? 0 : c->open) | (uint64_t)1 << c->segment;
    c->near[c->segment] |= c->open;
}

static bool has_barrier(const fx_stmt *s)
{
    for (; s; s = s->next)
        if (s->kind == FX_ST_BARRIER || has_barrier(s->body))
            return true;
    return false;
}

static void collect(race *c, const fx_stmt *s);

/* The body of a loop with barriers: a first round, a next one, and what follows, which may come at once when there is none. */
static void collect_rounds(race *c, fx_dim extent, const fx_stmt *body)
{
    uint64_t before = fx_dim_known(extent) && extent.value > 0 ? 0 : c->open;
    bool again = c->again;
    int first = c->n_segments;
    cut(c, false);
    collect(c, body);
    c->again = true;
    c->n_segments = first; /* the same segments, from what is open now */
    cut(c, false);
    collect(c, body);
    c->again = again;
    c->open |= before;
    cut(c, false);
}

static void collect_in(race *c, int var, fx_dim extent, const fx_stmt *body)
{
    if (c->scope.n == FX_PROVE_DEPTH) {
        fail(c, "too many loops");
        return;
    }
    c->scope.v[c->scope.n++] = (fx_prove_var){var, extent};
    c->copy = NULL;
    if (c->threads && var != c->loop->var && has_barrier(body))
        collect_rounds(c, extent, body);
    else
        collect(c, body);
    c->scope.n--;
    c->copy = NULL;
}

static void collect(race *c, const fx_stmt *s)
{
    for (; s && !c->text; s = s->next) {
        switch (s->kind) {
        case FX_ST_LOOP:
            collect_in(c, s->var, s->extent, s->body);
            break;
        case FX_ST_CHECK:
            collect_in(c, FX_VAR_LOCAL(s->local), s->extent, s->body);
            break;
        case FX_ST_IF: {
            int n = c->scope.n_cond;
            for (int k = 0; k < s->n_cond && c->scope.n_cond < FX_PROVE_DEPTH; k++)
                c->scope.cond[c->scope.n_cond++] = &s->cond[k];
            c->copy = NULL;
            collect(c, s->body);
            c->scope.n_cond = n;
            c->copy = NULL;
            break;
        }
        case FX_ST_ARRAY:
            add_own(c, s->buf);
            break;
        case FX_ST_LOCAL:
            collect_expr(c, s->value);
            add_own(c, FX_VAR_LOCAL(s->local));
            break;
        case FX_ST_SET:
            collect_expr(c, s->value);
            if (!is_own(c, FX_VAR_LOCAL(s->local)))
                fail(c, fx_arena_printf(c->r->arena, "all iterations set t%d, which is defined outside", s->local));
            break;
        case FX_ST_STORE:
            collect_expr(c, s->value);
            add_touch(c, s->buf, true, &s->index);
            break;
        case FX_ST_CALL:
            fail(c, fx_arena_printf(c->r->arena, "a call of kernel %s inside", fx_kernel_get(s->call->kernel)->name));
            break;
        case FX_ST_REDUCE: /* orders no accesses */
            if (!is_own(c, FX_VAR_LOCAL(s->local)))
                fail(c, fx_arena_printf(c->r->arena, "all iterations reduce t%d, which is defined outside", s->local));
            break;
        case FX_ST_BARRIER:
            cut(c, true);
            break;
        case FX_ST_COMMENT:
            break;
        }
    }
}

/* Whether a statement in the scope never runs: one of its loops has no iteration at any size. */
static bool never_runs(const fx_prover *r, const fx_prove_scope *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->v[i].extent.sym && fx_prove_le(r, s->v[i].extent, fx_dim_of(0)))
            return true;
    return false;
}

/* ---- guards ---------------------------------------------------------------------------------------------------------------- */

/* How often the sum that the guard bounds from above is in the form; false: it is not in it whole. */
static bool find_bounded(const fx_prover *r, const fx_prove_form *f, const fx_affine *cond, fx_dim *times)
{
    int found = 0;
    for (int i = 0; i < cond->n; i++) {
        fx_dim one, g = fx_dim_scale(r->ctx, cond->coef[i], -1);
        if (!fx_dim_known(g) || g.value <= 0)
            return false;
        for (int k = 0; k < f->n; k++)
            if (f->t[k].var == cond->var[i]) {
                if (!fx_dim_divide(r->ctx, f->t[k].coef, g, &one) || (found && !fx_dim_equal(one, *times)))
                    return false;
                *times = one;
                found++;
            }
    }
    return found > 0;
}

/* The sum as one variable, which the guard bounds. Loops of one iteration are in no form. */
static void put_bounded(const fx_prover *r, fx_prove_form *f, const fx_affine *cond, int var, fx_dim times)
{
    int n = 0;
    for (int k = 0; k < f->n; k++)
        if (fx_dim_is(fx_affine_coef(cond, f->t[k].var), 0))
            f->t[n++] = f->t[k];
    f->t[n].var = var;
    f->t[n].coef = times;
    f->t[n].extent = fx_dim_plus(r->ctx, cond->base, 1);
    f->n = n + 1;
}

/* How often the loop around a statement goes, where it is inside the one in question; false: it is not. */
static bool inner_extent(const race *c, const fx_prove_scope *s, int var, fx_dim *extent)
{
    for (int i = c->n_shared; i < s->n; i++)
        if (s->v[i].var == var) {
            *extent = s->v[i].extent;
            return var != c->loop->var;
        }
    return false;
}

/* The condition of the scope that is the other scope's but for inner loops that go round equally often: two passes over a row; NULL: none. */
static const fx_affine *find_cond(const race *c, const fx_prove_scope *s, const fx_prove_scope *other, const fx_affine *cond)
{
    for (int i = 0; i < s->n_cond; i++) {
        const fx_affine *b = s->cond[i];
        bool alike = b->n == cond->n && fx_dim_equal(b->base, cond->base);
        for (int k = 0; k < cond->n && alike; k++) {
            fx_dim mine, its;
            bool found = fx_dim_equal(fx_affine_coef(b, cond->var[k]), cond->coef[k]);
            for (int j = 0; j < b->n && !found; j++)
                found = fx_dim_equal(b->coef[j], cond->coef[k]) && inner_extent(c, other, cond->var[k], &mine) && inner_extent(c, s, b->var[j], &its) &&
                        fx_dim_equal(mine, its) && fx_dim_is(fx_affine_coef(cond, b->var[j]), 0);
            alike = found;
        }
        if (alike)
            return b;
    }
    return NULL;
}

static fx_affine sum_of(const fx_prover *r, const fx_affine *cond)
{
    fx_affine sum = fx_affine_const(0);
    for (int k = 0; k < cond->n; k++)
        fx_affine_add(r->ctx, &sum, cond->var[k], fx_dim_scale(r->ctx, cond->coef[k], -1));
    return sum;
}

/* Whether a guard leaves the loop's first iteration alone. */
static bool only_first(const race *c, const fx_prove_scope *s)
{
    for (int i = 0; i < s->n_cond; i++) {
        const fx_affine *a = s->cond[i];
        if (a->n == 1 && a->var[0] == c->loop->var && fx_dim_is(a->coef[0], -1) && fx_dim_is(a->base, 0))
            return true;
    }
    return false;
}

/* Whether the forms never are one element, where a guard of both keeps a tile's threads within a row: 32 * tile + thread < width. The sum counts as a
 * variable, which differs where the loop's does, when what is in it says so. */
static bool distinct_by_guards(race *c, const touch *a, const touch *b, fx_prove_form *fa, fx_prove_form *fb, int n_shared, const int *shared)
{
    fx_prover *r = c->r;
    int apart = c->loop->var, var = INT_MAX;
    for (int i = 0; i < a->scope->n_cond; i++) {
        const fx_affine *cond = a->scope->cond[i], *other = find_cond(c, b->scope, a->scope, cond);
        fx_dim ta, tb;
        if (!other || !find_bounded(r, fa, cond, &ta) || !find_bounded(r, fb, other, &tb))
            continue;
        if (!fx_dim_is(fx_affine_coef(cond, c->loop->var), 0)) {
            fx_affine sum = sum_of(r, cond), its = sum_of(r, other);
            fx_prove_form sa = fx_prove_form_of(r, a->scope, &sum), sb = fx_prove_form_of(r, b->scope, &its);
            if (apart != c->loop->var || !fx_prove_distinct(r, &sa, &sb, n_shared, shared, apart))
                continue;
            apart = var;
        }
        put_bounded(r, fa, cond, var, ta);
        put_bounded(r, fb, other, var--, tb);
    }
    return var < INT_MAX && fx_prove_distinct(r, fa, fb, n_shared, shared, apart);
}

/* Whether the two accesses touch different elements in different iterations of the loop. */
static bool apart(race *c, const touch *a, const touch *b)
{
    fx_prover *r = c->r;
    int shared[FX_PROVE_DEPTH];
    if (only_first(c, a->scope) && only_first(c, b->scope)) {
        r->by |= FX_BY_GUARDS;
        return true;
    }
    for (int i = 0; i < c->n_shared; i++)
        shared[i] = c->scope.v[i].var;
    fx_prove_form fa = fx_prove_form_of(r, a->scope, a->index), fb = fx_prove_form_of(r, b->scope, b->index);
    fx_symbols all = r->symbols;
    r->symbols = fx_prove_where(r, b->scope, fx_prove_where(r, a->scope, all));
    bool distinct = fx_prove_distinct(r, &fa, &fb, c->n_shared, shared, c->loop->var), guarded = false;
    if (!distinct)
        guarded = distinct_by_guards(c, a, b, &fa, &fb, c->n_shared, shared);
    r->symbols = all;
    if (distinct || guarded || never_runs(r, a->scope) || never_runs(r, b->scope)) {
        r->by |= FX_BY_STRIDES | (guarded ? FX_BY_GUARDS : 0);
        return true;
    }
    if (fx_prove_distinct_isl(r, a->scope, a->index, b->scope, b->index, c->n_shared, c->loop->var)) {
        r->by |= FX_BY_ISL;
        return true;
    }
    return false;
}

static const char *index_text(fx_prover *r, const fx_affine *a)
{
    fx_text t;
    fx_text_init(&t, r->arena);
    for (int i = 0; i < a->n; i++) {
        fx_puts(&t, i ? " + " : "");
        if (!fx_dim_is(a->coef[i], 1)) {
            fx_dim_print(&t, a->coef[i]);
            fx_puts(&t, "*");
        }
        fx_printf(&t, a->var[i] >= 0 ? "v%d" : "t%d", a->var[i] >= 0 ? a->var[i] : FX_VAR_LOCAL(a->var[i]));
    }
    if (!a->n || !fx_dim_is(a->base, 0)) {
        fx_puts(&t, a->n ? " + " : "");
        fx_dim_print(&t, a->base);
    }
    return t.data;
}

/* Whether two threads may be at the two at one time. */
static bool at_once(const race *c, const touch *a, const touch *b)
{
    return !c->threads || (c->near[a->segment] >> b->segment & 1) || (c->near[b->segment] >> a->segment & 1);
}

/* Equal accesses (an operand read twice) need one look. */
static bool same_touch(const touch *a, const touch *b)
{
    return a->buf == b->buf && a->segment == b->segment && a->write == b->write && a->scope == b->scope && fx_affine_equal(a->index, b->index);
}

bool fx_prove_parallel(fx_prover *r, const fx_prove_scope *outer, const fx_stmt *loop, const char **text)
{
    race c = {.r = r, .loop = loop, .scope = *outer, .n_shared = outer->n, .threads = loop->loop == FX_LOOP_THREAD};
    if (fx_dim_known(loop->extent) && loop->extent.value <= 1)
        return true;
    cut(&c, false);
    collect_in(&c, loop->var, loop->extent, loop->body);
    size_t n = 0;
    for (size_t i = 0; i < c.n; i++) {
        size_t k = 0;
        while (k < n && !same_touch(&c.t[k], &c.t[i]))
            k++;
        if (k == n)
            c.t[n++] = c.t[i];
    }
    for (size_t i = 0; i < n && !c.text; i++) {
        for (size_t k = 0; k < n && !c.text; k++) {
            const touch *a = &c.t[i], *b = &c.t[k];
            if (!a->write || (b->write && k < i) || !at_once(&c, a, b) || !fx_prove_same_place(r, a->buf, b->buf) || apart(&c, a, b))
                continue;
            fail(&c, fx_arena_printf(r->arena, "iterations of v%d may meet: the store to '%s' at %s and the %s '%s' at %s", loop->var,
                                     r->p->bufs[a->buf].name, index_text(r, a->index), b->write ? "store to" : "load of",
                                     r->p->bufs[b->buf].name, index_text(r, b->index)));
        }
    }
    *text = c.text;
    return !c.text;
}

/* ---- nests of one launch ---------------------------------------------------------------------------------------------------- */

static bool never_meet(fx_prover *r, const touch *a, const touch *b)
{
    if (a->buf != b->buf) /* two that share a place do so from one end, if at all: nothing is known of their elements */
        return false;
    fx_prove_form fa = fx_prove_form_of(r, a->scope, a->index), fb = fx_prove_form_of(r, b->scope, b->index);
    fx_symbols all = r->symbols;
    r->symbols = fx_prove_where(r, b->scope, fx_prove_where(r, a->scope, all));
    bool distinct = fx_prove_distinct(r, &fa, &fb, 0, NULL, INT_MIN);
    r->symbols = all;
    if (distinct || never_runs(r, a->scope) || never_runs(r, b->scope)) {
        r->by |= FX_BY_STRIDES;
        return true;
    }
    if (fx_prove_distinct_isl(r, a->scope, a->index, b->scope, b->index, 0, INT_MIN)) {
        r->by |= FX_BY_ISL;
        return true;
    }
    return false;
}

bool fx_prove_apart(fx_prover *r, const fx_stmt *a, const fx_stmt *b, const char **text)
{
    race c[2] = {{.r = r, .loop = a}, {.r = r, .loop = b}};
    for (int k = 0; k < 2; k++)
        collect_in(&c[k], c[k].loop->var, c[k].loop->extent, c[k].loop->body);
    *text = c[0].text ? c[0].text : c[1].text;
    for (size_t i = 0; i < c[0].n && !*text; i++)
        for (size_t k = 0; k < c[1].n && !*text; k++) {
            const touch *x = &c[0].t[i], *y = &c[1].t[k];
            if ((x->write || y->write) && fx_prove_same_place(r, x->buf, y->buf) && !never_meet(r, x, y))
                *text = fx_arena_printf(r->arena, "v%d and v%d, of one launch, may meet: the %s '%s' at %s and the %s '%s' at %s", a->var, b->var,
                                        x->write ? "store to" : "load of", r->p->bufs[x->buf].name, index_text(r, x->index), y->write ? "store to" : "load of",
                                        r->p->bufs[y->buf].name, index_text(r, y->index));
        }
    return !*text;
}
