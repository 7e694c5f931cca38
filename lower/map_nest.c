/* lower/map_nest.c: what a nest is, for those that map it to a grid: which of its loops may run at once and step as one, what it touches, and copies
 * of it under other variables.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/map_gpu.h"

/* ---- what the nest touches ------------------------------------------------------------------------------------------------- */

static void add_affine(fx_map_nest *w, const fx_affine *a)
{
    FX_PUSH(w->m->l->piece, w->affines, w->n_affines, w->cap_affines) = a;
}

static void add_access(fx_map_nest *w, int buf, bool write, const fx_affine *index)
{
    add_affine(w, index);
    FX_PUSH(w->m->l->piece, w->accesses, w->n_accesses, w->cap_accesses) = (fx_map_access){buf, write, index};
}

static void look_at_value(fx_map_nest *w, const fx_sexpr *x)
{
    if (!x || fx_map_get(&w->seen, x))
        return;
    fx_map_put(w->m->l->piece, &w->seen, x, w);
    if (x->op == FX_S_LOAD)
        add_access(w, x->buf, false, &x->index);
    else if (x->op == FX_S_INDEX)
        add_affine(w, &x->index);
    for (int i = 0; i < fx_sop_arity(x->op); i++)
        look_at_value(w, x->arg[i]);
}

static void look_at(fx_map_nest *w, const fx_stmt *s)
{
    for (; s; s = s->next) {
        look_at_value(w, s->value);
        if (s->kind == FX_ST_STORE)
            add_access(w, s->buf, true, &s->index);
        if (s->kind == FX_ST_SET)
            FX_PUSH(w->m->l->piece, w->set, w->n_set, w->cap_set) = s->local;
        for (int i = 0; i < s->n_cond; i++)
            add_affine(w, &s->cond[i]);
        w->n_inside += s->kind == FX_ST_LOOP;
        look_at(w, s->body);
    }
}

/* ---- loops that may run at once ---------------------------------------------------------------------------------------------- */

static bool is_written(const fx_map_nest *w, int buf)
{
    for (size_t i = 0; i < w->n_accesses; i++)
        if (w->accesses[i].write && fx_prove_same_place(&w->m->r, buf, w->accesses[i].buf))
            return true;
    return false;
}

static bool reads_written(const fx_map_nest *w, const fx_sexpr *x)
{
    if (!x)
        return false;
    bool reads = x->op == FX_S_LOAD && is_written(w, x->buf);
    for (int i = 0; i < fx_sop_arity(x->op) && !reads; i++)
        reads = reads_written(w, x->arg[i]);
    return reads;
}

/* Whether each thread may compute the local for itself: it is one value throughout the nest. */
static bool is_constant(const fx_map_nest *w, const fx_stmt *local)
{
    for (size_t i = 0; i < w->n_set; i++)
        if (w->set[i] == local->local)
            return false;
    return !reads_written(w, local->value);
}

/* Follows the nest inwards as long as iterations of its loops may run at once, through guards, checks and locals that may as well be inside. */
static void find_chain(fx_map_nest *w, const fx_stmt *s)
{
    fx_prove_scope scope = {0};
    while (s && w->n_chain < FX_MAX_LOOPS) {
        while (s && (s->kind == FX_ST_COMMENT || (s->kind == FX_ST_LOCAL && is_constant(w, s))))
            s = s->next;
        if (!s || s->next)
            return;
        const char *text;
        if (s->kind == FX_ST_LOOP) {
            bool marked = s->loop == FX_LOOP_PARALLEL || s->loop == FX_LOOP_VECTOR;
            if (!marked && !fx_prove_parallel(&w->m->r, &scope, s, &text))
                return;
            w->chain[w->n_chain++] = s;
            if (s->loop == FX_LOOP_GRID) {
                w->threads = s;
                return;
            }
            scope.v[scope.n++] = (fx_prove_var){s->var, s->extent};
        } else if (s->kind == FX_ST_CHECK && scope.n < FX_PROVE_DEPTH) {
            scope.v[scope.n++] = (fx_prove_var){FX_VAR_LOCAL(s->local), s->extent};
        } else if (s->kind == FX_ST_IF && scope.n_cond + s->n_cond <= FX_PROVE_DEPTH) {
            for (int i = 0; i < s->n_cond; i++)
                scope.cond[scope.n_cond++] = &s->cond[i];
        } else {
            return;
        }
        s = s->body;
    }
}

/* Whether a step of the outer loop is as far as all of the inner one, everywhere. */
static bool steps_as_one(const fx_map_nest *w, int outer, const fx_map_loop *inner)
{
    for (size_t i = 0; i < w->n_affines; i++) {
        fx_dim far = fx_dim_mul(w->m->p->ctx, inner->extent, fx_affine_coef(w->affines[i], inner->loop->var));
        if (!fx_dim_equal(far, fx_affine_coef(w->affines[i], outer)))
            return false;
    }
    return true;
}

/* From the innermost outwards; w->loops holds the innermost first. Loops of one iteration go. */
static void merge_chain(fx_map_nest *w)
{
    for (int i = w->n_chain - 1; i >= 0; i--) {
        const fx_stmt *s = w->chain[i];
        fx_map_loop *inner = w->n_loops ? &w->loops[w->n_loops - 1] : NULL;
        if (fx_dim_is(s->extent, 1))
            continue;
        if (inner && inner->loop != w->threads && steps_as_one(w, s->var, inner)) {
            inner->extent = fx_dim_mul(w->m->p->ctx, inner->extent, s->extent);
            inner->merged = true;
        } else {
            w->loops[w->n_loops++] = (fx_map_loop){.loop = s, .extent = s->extent, .axis = -1};
        }
    }
}

void fx_map_look(fx_map_nest *w)
{
    look_at(w, w->nest);
    find_chain(w, w->nest);
    merge_chain(w);
}

bool fx_map_is_stored(const fx_map_nest *w, int buf)
{
    for (size_t i = 0; i < w->n_accesses; i++)
        if (w->accesses[i].write && w->accesses[i].buf == buf)
            return true;
    return false;
}

bool fx_map_is_gone(const fx_map_nest *w, int var)
{
    bool chained = false;
    for (int i = 0; i < w->n_chain; i++)
        chained |= w->chain[i]->var == var;
    for (int i = 0; i < w->n_loops; i++)
        if (w->loops[i].loop->var == var)
            return false;
    return chained;
}

int64_t fx_map_most(const fx_gpu_map *m, fx_dim extent)
{
    int64_t lo, hi;
    fx_dim_bounds(fx_program_symbols(m->p), extent, &lo, &hi);
    return hi;
}

/* ---- copies ----------------------------------------------------------------------------------------------------------------------- */

void fx_map_replace(fx_map_nest *w, int var, fx_affine to)
{
    int i = 0;
    while (i < w->n_replaced && w->replaced[i].var != var)
        i++;
    w->n_replaced += i == w->n_replaced;
    w->replaced[i].var = var;
    w->replaced[i].to = to;
    memset(&w->copies, 0, sizeof w->copies);
}

fx_affine fx_map_affine(const fx_map_nest *w, const fx_affine *a)
{
    fx_context *ctx = w->m->p->ctx;
    fx_affine r = fx_affine_dim(a->base);
    for (int i = 0; i < a->n; i++) {
        const fx_affine *to = NULL;
        for (int k = 0; k < w->n_replaced && !to; k++)
            to = w->replaced[k].var == a->var[i] ? &w->replaced[k].to : NULL;
        if (!to && (a->var[i] < 0 || !fx_map_is_gone(w, a->var[i])))
            fx_affine_add(ctx, &r, a->var[i], a->coef[i]);
        for (int k = 0; to && k < to->n; k++)
            fx_affine_add(ctx, &r, to->var[k], fx_dim_mul(ctx, to->coef[k], a->coef[i]));
        if (to)
            r.base = fx_dim_add(ctx, r.base, fx_dim_mul(ctx, to->base, a->coef[i]));
    }
    return r;
}

const fx_sexpr *fx_map_value(fx_map_nest *w, const fx_sexpr *x)
{
    if (!x)
        return NULL;
    fx_sexpr *c = fx_map_get(&w->copies, x);
    if (c)
        return c;
    const fx_map_tile *tile = x->op == FX_S_LOAD ? fx_map_find_tile(w, x->buf, &x->index) : NULL;
    if (tile) {
        c = fx_s_load(w->m->p, tile->array, &tile->place);
    } else {
        c = fx_s_copy(w->m->p, x);
        if (x->op == FX_S_LOAD || x->op == FX_S_INDEX)
            c->index = fx_map_affine(w, &x->index);
        for (int i = 0; i < fx_sop_arity(x->op); i++)
            c->arg[i] = fx_map_value(w, x->arg[i]);
    }
    fx_map_put(w->m->l->piece, &w->copies, x, c);
    return c;
}

const fx_map_tile *fx_map_find_tile(const fx_map_nest *w, int buf, const fx_affine *index)
{
    for (int i = 0; i < w->n_tiles; i++)
        if (w->tiles[i].buf == buf && fx_affine_equal(w->tiles[i].index, index))
            return &w->tiles[i];
    return NULL;
}

/* Loops of the chain that are not in the thread any more. */
static bool is_taken(const fx_map_nest *w, const fx_stmt *s)
{
    bool chained = false;
    for (int i = 0; i < w->n_chain; i++)
        chained |= w->chain[i] == s;
    for (int i = 0; i < w->n_loops; i++)
        if (w->loops[i].loop == s && w->loops[i].axis < 0)
            return false;
    return chained;
}

static fx_stmt *neighbours_of(fx_map_nest *w, fx_stmt *body)
{
    fx_stmt *s = fx_stmt_new(w->m->p, FX_ST_LOOP);
    s->var = w->width_var;
    s->extent = fx_dim_of(w->width);
    s->loop = FX_LOOP_VECTOR;
    s->aligned = true;
    s->hint = "k";
    s->body = body;
    return s;
}

fx_stmt *fx_map_body(fx_map_nest *w, const fx_stmt *s)
{
    const bool inner = w->width && s == w->inner;
    fx_stmt *first = NULL, **tail = &first;
    for (; s; s = s->next) {
        if (s->kind == FX_ST_LOOP && is_taken(w, s)) {
            *tail = fx_map_body(w, s->body);
        } else {
            fx_stmt *c = *tail = fx_stmt_copy(w->m->p, s);
            c->value = fx_map_value(w, s->value);
            if (s->kind == FX_ST_STORE)
                c->index = fx_map_affine(w, &s->index);
            for (int i = 0; i < s->n_cond; i++)
                c->cond[i] = fx_map_affine(w, &s->cond[i]);
            for (int i = 0; s->kind == FX_ST_LOOP && i < w->n_loops; i++)
                if (w->loops[i].loop == s)
                    c->extent = w->loops[i].extent;
            c->body = fx_map_body(w, s->body);
        }
        while (*tail)
            tail = &(*tail)->next;
    }
    return inner ? neighbours_of(w, first) : first;
}
