/* lower/map_points.c: nests as grids, a thread an element: pointwise code, gathers, copies, and whatever else runs at once at its outer loops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The outer loops that may run at once become axes of a grid. Loops that step through every access as one loop would are one; the loop along which most
 * accesses are dense is x, since neighbouring threads are neighbours along x. Where x is short, y is the loop that goes on where x ends, so that the
 * threads of a warp still write neighbours. All others share z, which blocks count together. What cannot be counted so stays in the thread.
 * Where all accesses are dense along x or do not depend on it, and begin where they may, a thread takes 16 bytes of neighbours. */
#include <string.h>

#include "lower/map_gpu.h"

enum { AXES = 3, BYTES = 16, WARP = 32 };

/* ---- axes ------------------------------------------------------------------------------------------------------------------- */

/* How well threads that are neighbours along the loop read and write: together, the same element, or apart. */
static int density(const fx_map_nest *w, const fx_map_loop *l)
{
    int sum = 0;
    for (size_t i = 0; i < w->n_accesses; i++) {
        fx_dim c = fx_affine_coef(w->accesses[i].index, l->loop->var);
        int one = fx_dim_is(c, 1) || fx_dim_is(c, -1) ? 2 : fx_dim_is(c, 0) ? 1 : 0;
        sum += w->accesses[i].write ? 2 * one : one;
    }
    return sum;
}

/* More than y and z take blocks, whatever the threads. */
static bool is_long(const fx_map_loop *l)
{
    return fx_dim_known(l->extent) && l->extent.value > FX_MOST_BLOCKS;
}

static fx_map_loop *choose_x(fx_map_nest *w)
{
    fx_map_loop *x = NULL;
    for (int i = 0; i < w->n_loops; i++) {
        fx_map_loop *l = &w->loops[i];
        if (!x || density(w, l) > density(w, x))
            x = l;
    }
    return x;
}

/* Whether stores go on along the loop where they end along x. */
static bool goes_on(const fx_map_nest *w, const fx_map_loop *l, const fx_map_loop *x)
{
    bool stores = false;
    for (size_t i = 0; i < w->n_accesses; i++) {
        const fx_affine *a = w->accesses[i].index;
        if (!w->accesses[i].write)
            continue;
        stores = true;
        if (!fx_dim_is(fx_affine_coef(a, x->loop->var), 1) || !fx_dim_equal(fx_affine_coef(a, l->loop->var), x->extent))
            return false;
    }
    return stores;
}

static fx_map_loop *choose_y(fx_map_nest *w, const fx_map_loop *x)
{
    fx_map_loop *y = NULL;
    bool is_short = fx_map_most(w->m, x->extent) < WARP;
    for (int i = 0; i < w->n_loops; i++) {
        fx_map_loop *l = &w->loops[i];
        if (l == x)
            continue;
        if (is_short && goes_on(w, l, x))
            return l;
        if (!y || fx_map_most(w->m, l->extent) > fx_map_most(w->m, y->extent))
            y = l;
    }
    return y;
}

/* z takes all others whose numbers multiply to what it may have; one whose size is open only alone. */
void fx_map_choose_z(fx_map_nest *w)
{
    int64_t blocks = 1;
    bool any = false;
    for (int i = 0; i < w->n_loops; i++) {
        fx_map_loop *l = &w->loops[i];
        bool known = fx_dim_known(l->extent);
        if (l->axis >= 0 || (any && (!known || blocks > FX_MOST_BLOCKS || l->extent.value > FX_MOST_BLOCKS / blocks)) || is_long(l))
            continue;
        l->axis = 2;
        any = true;
        blocks = known ? blocks * (l->extent.value > 0 ? l->extent.value : 1) : FX_MOST_BLOCKS + 1;
    }
}

/* A loop that is too long for y is x, whatever is dense. */
static void choose_axes(fx_map_nest *w)
{
    fx_map_loop *x = choose_x(w);
    if (!x)
        return;
    fx_map_loop *y = choose_y(w, x);
    if (y && is_long(y) && fx_map_most(w->m, y->extent) / (fx_map_most(w->m, x->extent) < 256 ? 256 / fx_map_most(w->m, x->extent) : 1) > FX_MOST_BLOCKS) {
        fx_map_loop *t = x;
        x = y;
        y = is_long(t) ? NULL : t;
    }
    x->axis = 0;
    if (y)
        y->axis = 1;
    fx_map_choose_z(w);
}

/* ---- neighbours --------------------------------------------------------------------------------------------------------------- */

/* Whether so many neighbours of the access along x are one piece of memory, or one element. */
static bool is_piece(const fx_map_nest *w, const fx_map_access *a, int var, int width)
{
    fx_context *ctx = w->m->p->ctx;
    fx_dim along = fx_affine_coef(a->index, var), rest, by = fx_dim_of(width);
    if (fx_dim_is(along, 0))
        return !a->write;
    bool piece = fx_dim_is(along, 1) && fx_dim_divide(ctx, a->index->base, by, &rest);
    for (int i = 0; i < a->index->n && piece; i++)
        piece = a->index->var[i] == var || fx_map_is_gone(w, a->index->var[i]) || fx_dim_divide(ctx, a->index->coef[i], by, &rest);
    return piece && (size_t)width * fx_dtype_size(w->m->p->bufs[a->buf].dtype) <= BYTES;
}

static bool depends_on(fx_map_nest *w, fx_map *seen, const fx_sexpr *x, int var)
{
    if (!x || fx_map_get(seen, x))
        return false;
    fx_map_put(w->m->l->piece, seen, x, w);
    bool depends = (x->op == FX_S_LOAD || x->op == FX_S_INDEX) && !fx_dim_is(fx_affine_coef(&x->index, var), 0);
    for (int i = 0; i < fx_sop_arity(x->op) && !depends; i++)
        depends = depends_on(w, seen, x->arg[i], var);
    return depends;
}

/* The innermost list, of stores and locals alone, which only locals, checks and guards that do not depend on the variable are around; NULL: there is none. */
static const fx_stmt *inner_list(fx_map_nest *w, const fx_stmt *s, int var)
{
    fx_map seen = {0};
    for (const fx_stmt *list = s; s; s = s->next) {
        bool around = s->kind == FX_ST_LOOP || s->kind == FX_ST_CHECK || s->kind == FX_ST_IF;
        if (around && s->next)
            return NULL;
        for (int i = 0; i < s->n_cond; i++)
            if (!fx_dim_is(fx_affine_coef(&s->cond[i], var), 0))
                return NULL;
        for (const fx_stmt *l = list; around && l != s; l = l->next)
            if (l->kind == FX_ST_STORE || depends_on(w, &seen, l->value, var))
                return NULL;
        if (around)
            return inner_list(w, s->body, var);
        if (s->kind != FX_ST_STORE && s->kind != FX_ST_LOCAL && s->kind != FX_ST_COMMENT)
            return NULL;
        if (!s->next)
            return list;
    }
    return NULL;
}

/* As many neighbours as the widest elements allow. */
static void choose_width(fx_map_nest *w)
{
    fx_context *ctx = w->m->p->ctx;
    fx_map_loop *x = NULL;
    for (int i = 0; i < w->n_loops; i++)
        x = w->loops[i].axis == 0 ? &w->loops[i] : x;
    if (!x || !(w->inner = inner_list(w, w->nest, x->loop->var)))
        return;
    for (size_t i = 0; i < w->n_accesses; i++)
        if (!w->accesses[i].write && fx_map_is_stored(w, w->accesses[i].buf))
            return;
    for (int width = BYTES; width > 1; width /= 2) {
        fx_dim extent;
        bool fits = fx_dim_divide(ctx, x->extent, fx_dim_of(width), &extent);
        for (size_t i = 0; i < w->n_accesses && fits; i++)
            fits = is_piece(w, &w->accesses[i], x->loop->var, width);
        if (!fits)
            continue;
        w->width = width;
        w->width_var = w->m->next_var++;
        fx_affine to = fx_affine_const(0);
        fx_affine_add(ctx, &to, x->loop->var, fx_dim_of(width));
        fx_affine_add(ctx, &to, w->width_var, fx_dim_of(1));
        fx_map_replace(w, x->loop->var, to);
        x->extent = extent;
        return;
    }
}

/* ---- the grid ------------------------------------------------------------------------------------------------------------------ */

/* Threads of a block along an axis: all iterations, or so many of them that the last block has few too many. */
static int threads_for(int64_t iterations, int most, int whole)
{
    if (iterations <= whole)
        return iterations > 1 ? (int)iterations : 1;
    int best = most;
    for (int n = most; n >= most / 2 && n >= WARP && iterations < 64 * (int64_t)most; n -= WARP)
        if ((iterations + n - 1) / n * n < (iterations + best - 1) / best * best)
            best = n;
    return best;
}

/* The last of the loops on an axis that counts blocks alone has threads, too. */
static int axis_threads(const fx_map_nest *w, const fx_map_loop *l, int budget)
{
    int on_axis = 0;
    for (int i = 0; i < w->n_loops; i++)
        on_axis += w->loops[i].axis == l->axis;
    int most = l->axis == 2 && budget > FX_MOST_THREADS_Z ? FX_MOST_THREADS_Z : budget;
    int64_t iterations = fx_map_most(w->m, l->extent);
    if (on_axis > 1)
        return 1;
    int n = threads_for(iterations, most, l->axis == 0 ? w->m->p->target.threads : most);
    if (l->axis > 0 && iterations > n && iterations < 64 * (int64_t)n) { /* as many blocks, evenly filled */
        int64_t blocks = (iterations + n - 1) / n;
        n = (int)((iterations + blocks - 1) / blocks);
    }
    return n;
}

/* Few threads in all are spread over more multiprocessors. */
static int block_size(const fx_map_nest *w)
{
    const int64_t few = 512 * (int64_t)w->m->p->target.threads;
    int64_t all = 1;
    for (int i = 0; i < w->n_loops && all < few; i++) {
        int64_t n = w->loops[i].axis < 0 ? 1 : fx_map_most(w->m, w->loops[i].extent);
        all = n >= few ? few : all * (n > 0 ? n : 1);
    }
    return all < few ? w->m->p->target.threads / 2 : w->m->p->target.threads;
}

static fx_stmt *grid_of(fx_map_nest *w, fx_stmt *body)
{
    int budget = block_size(w);
    fx_stmt *grid = body;
    for (int a = 0; a < AXES; a++)
        for (int i = 0; i < w->n_loops; i++) {
            const fx_map_loop *l = &w->loops[i];
            if (l->axis != a)
                continue;
            fx_stmt *s = fx_stmt_new(w->m->p, FX_ST_LOOP);
            s->var = l->loop->var;
            s->extent = l->extent;
            s->hint = l->merged ? "i" : l->loop->hint;
            s->loop = FX_LOOP_GRID;
            s->axis = a;
            s->threads = axis_threads(w, l, budget);
            budget = budget > s->threads ? budget / s->threads : 1;
            if (a)
                fx_program_limit(w->m->p, fx_dim_of((int64_t)FX_MOST_BLOCKS * s->threads), l->extent, "a grid has 65535 blocks along y and z");
            s->body = grid;
            grid = s;
        }
    return grid == body ? fx_map_one_thread(w->m, body) : grid; /* nothing runs at once */
}

fx_stmt *fx_map_points(fx_map_nest *w)
{
    choose_axes(w);
    choose_width(w);
    return grid_of(w, fx_map_body(w, w->nest));
}
