/* lower/map_split.c: few long rows, reduced in two launches: parts of them first, by many blocks, then the parts.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Sums over everything, and sums over the outer dims (of columns, as a bias's gradient is). What is folded of each part is stored in an array of the step, and
 * the second launch is the row's code with a pass over these in the place of its own. Nothing is added by atomics: results do not depend on who is first. */
#include "lower/map_rows.h"

enum { LEAST_PARTS = 4, MOST_PARTS = 256 };

typedef struct parts {
    int64_t n;                    /* parts of a row */
    fx_dim size;                  /* elements of a part, at most */
    bool together;                /* a part's elements are neighbours; else every n-th is one */
} parts;

/* Elements that are neighbours stay together, so many that the threads of a block are busy. Of columns, parts are elements apart: a thread a column and part. */
static bool choose_parts(const fx_row_code *w, parts *p)
{
    enum { FEW_ROWS = 32, BUSY = 4096, TOGETHER = 256, FEW_COLUMNS = 4096, THREADS = 16384, LEAST = 64 };
    fx_context *ctx = w->m->p->ctx;
    fx_dim extent = w->pass[0].loop[w->pass[0].at]->extent;
    int64_t most = fx_map_most(w->m, extent);
    p->together = w->along >= w->across;
    if (p->together && (!fx_dim_known(extent) || w->n_rows > FEW_ROWS || w->n_rows < 1))
        return false;
    if (!p->together && (w->n_rows > FEW_COLUMNS || w->n_rows < 1))
        return false;
    int64_t n = p->together ? most / BUSY : most / LEAST, enough = p->together ? MOST_PARTS / w->n_rows : THREADS / w->n_rows;
    n = n < enough ? n : enough;
    n = n < MOST_PARTS ? n : MOST_PARTS;
    if (n < LEAST_PARTS)
        return false;
    if (p->together) {
        int64_t size = (most / n + TOGETHER) / TOGETHER * TOGETHER;
        p->size = fx_dim_of(size);
        n = (most + size - 1) / size;
    } else {
        p->size = fx_dim_floordiv(ctx, fx_dim_plus(ctx, extent, n - 1), fx_dim_of(n));
    }
    p->n = n;
    return true;
}

static bool stores(const fx_stmt *s)
{
    for (; s; s = s->next)
        if (s->kind == FX_ST_STORE || stores(s->body))
            return true;
    return false;
}

/* One pass that folds, and nothing else of a row's size. */
static bool can_split(const fx_row_code *w)
{
    bool can = w->n_passes == 1 && !w->n_arrays && !stores(w->pass[0].loop[0]->body);
    for (int f = 0; f < w->n_folds; f++)
        can &= w->fold[f].place < 0;
    return can;
}

static fx_stmt **append(fx_stmt **tail, fx_stmt *s)
{
    *tail = s;
    return &s->next;
}

static fx_stmt *loop_over(fx_gpu_map *m, int64_t n, fx_stmt *body)
{
    fx_stmt *s = fx_stmt_new(m->p, FX_ST_LOOP);
    s->var = m->next_var++;
    s->extent = fx_dim_of(n);
    s->hint = "part";
    s->body = body;
    return s;
}

/* Where the result of a part lies: rows in the order of their loops; the parts of a row are neighbours where its elements are, else the rows are. */
static fx_affine place_of(const fx_row_code *w, const parts *p, int part)
{
    fx_context *ctx = w->m->p->ctx;
    fx_affine at = fx_affine_const(0);
    fx_dim stride = fx_dim_of(p->together ? p->n : 1);
    for (int i = w->n_outer - 1; i >= 0; i--) {
        fx_affine_add(ctx, &at, w->outer[i]->var, stride);
        stride = fx_dim_mul(ctx, stride, w->outer[i]->extent);
    }
    fx_affine_add(ctx, &at, part, p->together ? fx_dim_of(1) : stride);
    return at;
}

/* The pass over a part's elements alone. */
static fx_stmt *part_of_pass(const fx_row_code *w, const parts *p, int part)
{
    fx_program *prog = w->m->p;
    fx_context *ctx = prog->ctx;
    const fx_row_pass *pass = &w->pass[0];
    const fx_stmt *shared = pass->loop[pass->at];
    int inside = w->m->next_var++;
    fx_affine at = fx_affine_const(0), left = fx_affine_dim(fx_dim_plus(ctx, shared->extent, -1));
    fx_map copies = {0};
    fx_affine_add(ctx, &at, part, p->together ? p->size : fx_dim_of(1));
    fx_affine_add(ctx, &at, inside, fx_dim_of(p->together ? 1 : p->n));
    for (int i = 0; i < at.n; i++)
        fx_affine_add(ctx, &left, at.var[i], fx_dim_scale(ctx, at.coef[i], -1));
    fx_nest_edit edit = {.p = prog, .n_vars = 1, .var = {shared->var}, .to = {&at}, .load = -1, .copies = &copies, .copies_in = w->m->l->piece};
    fx_stmt *code = fx_nest_copy(&edit, shared->body);
    if (!fx_dim_equal(fx_dim_scale(ctx, p->size, p->n), shared->extent)) {
        fx_stmt *guard = fx_stmt_new(prog, FX_ST_IF);
        guard->n_cond = 1;
        guard->cond[0] = left;
        guard->body = code;
        code = guard;
    }
    for (int i = pass->at; i >= 0; i--) {
        fx_stmt *s = fx_stmt_copy(prog, pass->loop[i]);
        s->body = code;
        if (i == pass->at) {
            s->var = inside;
            s->extent = p->size;
        }
        code = s;
    }
    return code;
}

/* The parts' launch: what is before the pass, the pass over a part, its results. Under numbers of its own, as the second launch has the others. */
static fx_stmt *parts_code(const fx_row_code *w, const parts *p, const fx_stmt *list, const int *partial)
{
    fx_gpu_map *m = w->m;
    fx_stmt *loop = loop_over(m, p->n, NULL), **tail = &loop->body;
    fx_affine place = place_of(w, p, loop->var);
    fx_map copies = {0};
    const fx_stmt *s = w->list;
    for (; s->kind != FX_ST_LOOP; s = s->next)
        if (s->kind != FX_ST_STORE)
            tail = append(tail, fx_stmt_copy(m->p, s));
    tail = append(tail, part_of_pass(w, p, loop->var));
    for (int f = 0; f < w->n_folds; f++) {
        fx_stmt *store = fx_stmt_new(m->p, FX_ST_STORE);
        store->buf = partial[f];
        store->index = place;
        store->value = fx_s_local(m->p, w->fold[f].local, w->fold[f].dtype);
        tail = append(tail, store);
    }
    fx_nest_edit own = {.p = m->p, .load = -1, .shift_vars = m->next_var, .shift_locals = m->next_local, .copies = &copies, .copies_in = m->l->piece};
    fx_stmt *code = fx_nest_copy(&own, fx_row_code_around(w, list, loop));
    m->next_var = fx_nest_next_var(code);
    m->next_local = fx_nest_next_local(code);
    return code;
}

/* The row's code with a pass over its parts' results. */
static fx_stmt *whole_code(const fx_row_code *w, const parts *p, const fx_stmt *list, const int *partial)
{
    fx_gpu_map *m = w->m;
    fx_stmt *code = NULL, **tail = &code;
    for (const fx_stmt *s = w->list; s; s = s->next) {
        if (s->kind != FX_ST_LOOP) {
            tail = append(tail, fx_stmt_copy(m->p, s));
            continue;
        }
        fx_stmt *loop = loop_over(m, p->n, NULL), **inside = &loop->body;
        fx_affine place = place_of(w, p, loop->var);
        for (int f = 0; f < w->n_folds; f++) {
            const fx_row_folded *d = &w->fold[f];
            fx_stmt *set = fx_stmt_new(m->p, FX_ST_SET);
            set->local = d->local;
            set->value = fx_s_op(m->p, d->op, d->dtype, fx_s_local(m->p, d->local, d->dtype), fx_s_load(m->p, partial[f], &place), NULL);
            inside = append(inside, set);
        }
        tail = append(tail, loop);
    }
    return fx_row_code_around(w, list, code);
}

bool fx_map_split(fx_gpu_map *m, const fx_stmt *list, fx_stmt **first, bool *columns, fx_stmt **whole)
{
    fx_row_code *w = FX_NEW(m->l->piece, fx_row_code);
    parts p;
    int partial[FX_ROW_FOLDS];
    if (!fx_row_code_find(m, list, w) || !can_split(w) || !choose_parts(w, &p))
        return false;
    fx_dim numel = fx_dim_of(p.n);
    for (int i = 0; i < w->n_outer; i++)
        numel = fx_dim_mul(m->p->ctx, numel, w->outer[i]->extent);
    for (int f = 0; f < w->n_folds; f++)
        partial[f] = fx_map_partial(m, w->fold[f].dtype, numel);
    *columns = !p.together;
    *whole = whole_code(w, &p, list, partial);
    *first = parts_code(w, &p, list, partial);
    return true;
}
