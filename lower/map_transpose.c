/* lower/map_transpose.c: nests that read along one loop and write along another, through tiles of shared memory.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Stores are dense along loop `to`, some loads along loop `from`. A block takes a tile of 32 x 32 iterations of the two: its 32 x 8 threads read those
 * loads along `from`, four rows each, into an array of the block; then the nest's statements run along `to` and take them from there. So all memory is
 * read and written by neighbours. A row of the array has an element more than it needs: threads that read a column then are in different banks. Other
 * loops count blocks along z. The last tiles of a row have guards. */
#include <string.h>

#include "lower/map_gpu.h"

enum { SIDE = 32, ROWS = 8, LEAST = 16 };

typedef struct transpose {
    fx_map_nest *w;
    fx_map_loop *to, *from;
    int to_tile, from_tile;       /* variables of the loops over tiles */
} transpose;

/* The statements inside all loops; NULL where anything else is around them or among them. */
static const fx_stmt *innermost(const fx_stmt *s)
{
    while (s && s->kind == FX_ST_LOOP && !s->next)
        s = s->body;
    for (const fx_stmt *t = s; t; t = t->next)
        if (t->kind != FX_ST_STORE && t->kind != FX_ST_LOCAL && t->kind != FX_ST_COMMENT)
            return NULL;
    return s;
}

/* The loop that the access is dense along; NULL: it is none. */
static fx_map_loop *dense_along(fx_map_nest *w, const fx_map_access *a)
{
    for (int i = 0; i < w->n_loops; i++)
        if (fx_dim_is(fx_affine_coef(a->index, w->loops[i].loop->var), 1))
            return &w->loops[i];
    return NULL;
}

/* Whether the load is read apart by neighbours along `to`, and by neighbours along another loop together. */
static bool is_transposed(const transpose *t, const fx_map_access *a)
{
    fx_dim along = fx_affine_coef(a->index, t->to->loop->var);
    fx_map_loop *dense = dense_along(t->w, a);
    return !a->write && dense && dense != t->to && !fx_dim_is(along, 0) && !fx_dim_is(along, 1) && !fx_dim_is(along, -1);
}

static bool is_long_enough(const fx_map_nest *w, const fx_map_loop *l)
{
    return fx_map_most(w->m, l->extent) >= LEAST;
}

/* Whether something the nest stores to may lie where the buffer does: a tile of it is read before others are written. */
static bool is_overwritten(const fx_map_nest *w, int buf)
{
    for (size_t i = 0; i < w->n_accesses; i++)
        if (w->accesses[i].write && fx_prove_same_place(&w->m->r, buf, w->accesses[i].buf))
            return true;
    return false;
}

/* The two loops, and what goes through tiles. */
static bool find_loops(transpose *t)
{
    fx_map_nest *w = t->w;
    for (size_t i = 0; i < w->n_accesses; i++) {
        const fx_map_access *a = &w->accesses[i];
        fx_map_loop *dense = a->write ? dense_along(w, a) : NULL;
        if (a->write && (!dense || (t->to && dense != t->to)))
            return false;
        t->to = a->write ? dense : t->to;
    }
    for (size_t i = 0; t->to && i < w->n_accesses; i++) {
        const fx_map_access *a = &w->accesses[i];
        if (!is_transposed(t, a) || is_overwritten(w, a->buf) || !is_long_enough(w, dense_along(w, a)))
            continue;
        t->from = t->from ? t->from : dense_along(w, a);
        if (t->from != dense_along(w, a) || fx_map_find_tile(w, a->buf, a->index))
            continue;
        if (w->n_tiles == FX_MAP_TILES)
            return false;
        w->tiles[w->n_tiles++] = (fx_map_tile){.buf = a->buf, .index = a->index};
    }
    return t->from && is_long_enough(w, t->to);
}

/* The other loops are of z: several, if their numbers are known to multiply to no more than it may have. */
static bool others_fit(const transpose *t)
{
    int64_t blocks = 1, n = 0;
    bool open = false;
    for (int i = 0; i < t->w->n_loops; i++) {
        const fx_map_loop *l = &t->w->loops[i];
        if (l == t->to || l == t->from)
            continue;
        n++;
        open |= !fx_dim_known(l->extent);
        if (fx_dim_known(l->extent) && l->extent.value > 0 && (blocks *= l->extent.value) > FX_MOST_BLOCKS)
            return false;
    }
    return (!open || n == 1) && !(fx_dim_known(t->from->extent) && t->from->extent.value > (int64_t)FX_MOST_BLOCKS * SIDE);
}

/* ---- statements ----------------------------------------------------------------------------------------------------------------- */

static fx_stmt *loop_over(const transpose *t, int var, fx_dim extent, fx_loop_kind kind, int axis, const char *hint, fx_stmt *body)
{
    fx_stmt *s = fx_stmt_new(t->w->m->p, FX_ST_LOOP);
    s->var = var;
    s->extent = extent;
    s->loop = kind;
    s->axis = axis;
    s->hint = hint;
    s->body = body;
    return s;
}

static fx_affine sum3(fx_context *ctx, int x, int64_t cx, int y, int64_t cy, int z, int64_t cz)
{
    fx_affine a = fx_affine_const(0);
    fx_affine_add(ctx, &a, x, fx_dim_of(cx));
    fx_affine_add(ctx, &a, y, fx_dim_of(cy));
    if (cz)
        fx_affine_add(ctx, &a, z, fx_dim_of(cz));
    return a;
}

/* place < extent, where the last tile has too many. */
static void add_guard(const transpose *t, fx_stmt *guard, fx_dim extent, const fx_affine *place)
{
    fx_context *ctx = t->w->m->p->ctx;
    fx_dim whole;
    if (fx_dim_divide(ctx, extent, fx_dim_of(SIDE), &whole))
        return;
    fx_affine *cond = &guard->cond[guard->n_cond++];
    *cond = fx_affine_dim(fx_dim_plus(ctx, extent, -1));
    for (int i = 0; i < place->n; i++)
        fx_affine_add(ctx, cond, place->var[i], fx_dim_scale(ctx, place->coef[i], -1));
}

/* A thread's rows of the tile: `across` is dense for its neighbours, `down` counts rows. What is inside: the loads into the tiles, or the nest's statements. */
static fx_stmt *sweep(transpose *t, const fx_map_loop *across, int across_tile, const fx_map_loop *down, int down_tile, const fx_stmt *inner)
{
    fx_map_nest *w = t->w;
    fx_context *ctx = w->m->p->ctx;
    int x = w->m->next_var++, y = w->m->next_var++, k = w->m->next_var++;
    fx_affine a = sum3(ctx, across_tile, SIDE, x, 1, x, 0), d = sum3(ctx, down_tile, SIDE, y, 1, k, ROWS);
    fx_map_replace(w, across->loop->var, a);
    fx_map_replace(w, down->loop->var, d);
    fx_stmt *body = NULL, **tail = &body;
    for (int i = 0; i < w->n_tiles; i++) {
        fx_map_tile *tile = &w->tiles[i];
        tile->place = inner ? sum3(ctx, x, SIDE + 1, y, 1, k, ROWS) : sum3(ctx, y, SIDE + 1, x, 1, k, ROWS * (SIDE + 1));
        if (inner)
            continue;
        fx_affine from = fx_map_affine(w, tile->index);
        fx_stmt *s = *tail = fx_stmt_new(w->m->p, FX_ST_STORE);
        s->buf = tile->array;
        s->index = tile->place;
        s->value = fx_s_load(w->m->p, tile->buf, &from);
        tail = &s->next;
    }
    if (inner)
        body = fx_map_body(w, inner);
    fx_stmt *guard = fx_stmt_new(w->m->p, FX_ST_IF);
    add_guard(t, guard, across->extent, &a);
    add_guard(t, guard, down->extent, &d);
    if (guard->n_cond) {
        guard->body = body;
        body = guard;
    }
    body = loop_over(t, k, fx_dim_of(SIDE / ROWS), FX_LOOP_SERIAL, 0, "k", body);
    body = loop_over(t, x, fx_dim_of(SIDE), FX_LOOP_THREAD, 0, NULL, body);
    return loop_over(t, y, fx_dim_of(ROWS), FX_LOOP_THREAD, 1, NULL, body);
}

static const char *tile_hint(const transpose *t, const fx_map_loop *l, const char *other)
{
    return !l->merged && l->loop->hint ? fx_intern_f(t->w->m->p->ctx, "%s_tile", l->loop->hint) : other;
}

static fx_stmt *blocks(const transpose *t, fx_stmt *body)
{
    fx_program *p = t->w->m->p;
    const fx_dim side = fx_dim_of(SIDE);
    fx_dim columns = fx_dim_floordiv(p->ctx, fx_dim_plus(p->ctx, t->to->extent, SIDE - 1), side);
    fx_dim rows = fx_dim_floordiv(p->ctx, fx_dim_plus(p->ctx, t->from->extent, SIDE - 1), side);
    body = loop_over(t, t->to_tile, columns, FX_LOOP_BLOCK, 0, tile_hint(t, t->to, "column"), body);
    body = loop_over(t, t->from_tile, rows, FX_LOOP_BLOCK, 1, tile_hint(t, t->from, "row"), body);
    fx_program_limit(p, fx_dim_of((int64_t)FX_MOST_BLOCKS * SIDE), t->from->extent, "a grid has 65535 blocks along y and z");
    for (int i = 0; i < t->w->n_loops; i++) {
        const fx_map_loop *l = &t->w->loops[i];
        if (l == t->to || l == t->from)
            continue;
        body = loop_over(t, l->loop->var, l->extent, FX_LOOP_BLOCK, 2, l->merged ? "i" : l->loop->hint, body);
        fx_program_limit(p, fx_dim_of(FX_MOST_BLOCKS), l->extent, "a grid has 65535 blocks along y and z");
    }
    return body;
}

fx_stmt *fx_map_transpose(fx_map_nest *w)
{
    transpose t = {.w = w};
    const fx_stmt *inner = innermost(w->nest);
    if (!inner || w->n_inside != w->n_chain || !find_loops(&t) || !others_fit(&t)) {
        w->n_tiles = 0;
        return NULL;
    }
    const fx_dim sizes[] = {fx_dim_of(SIDE), fx_dim_of(SIDE + 1)};
    t.to_tile = w->m->next_var++;
    t.from_tile = w->m->next_var++;
    for (int i = w->n_tiles - 1; i >= 0; i--)
        w->tiles[i].array = fx_program_buf(w->m->p, FX_BUF_LOCAL, "tile", w->m->p->bufs[w->tiles[i].buf].dtype, 2, sizes);
    fx_stmt *body = sweep(&t, t.from, t.from_tile, t.to, t.to_tile, NULL);
    body->next = sweep(&t, t.to, t.to_tile, t.from, t.from_tile, inner);
    for (int i = w->n_tiles - 1; i >= 0; i--) {
        fx_stmt *array = fx_stmt_new(w->m->p, FX_ST_ARRAY);
        array->buf = w->tiles[i].array;
        array->next = body;
        body = array;
    }
    return blocks(&t, body);
}
