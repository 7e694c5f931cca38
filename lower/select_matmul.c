/* lower/select_matmul.c: matrix products become kernel calls.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/select.h"

/* A product as the kernels see it: [batch][m][k] times [batch][k][n], and what is added to it, all as windows of the result's dims:
 * x's last dim is k, w is the weight's window of rank 2, or 3 with a batch. */
typedef struct product {
    fx_dtype type;                 /* of all elements */
    fx_window x, w, out, r;
    bool has_r;
    fx_node *packed;               /* w where it is constant, n x k; else NULL */
    fx_dim w_b, w_k, w_n, n, k;
    fx_node *bias;                 /* constant, a vector */
    int split;                     /* dims of the result before this one are the batch, from it on rows */
} product;

static const char *size(fx_build *b, fx_dim d)
{
    return fx_build_dims(b, 1, &d);
}

/* v under the dims of a result of type t: missing and broadcast ones have stride 0. */
static fx_window widened(const fx_window *v, const fx_type *t)
{
    fx_window r = *v;
    r.rank = t->rank;
    int shift = t->rank - v->rank;
    for (int i = 0; i < t->rank; i++) {
        bool repeats = i < shift || (fx_dim_is(v->dims[i - shift], 1) && !fx_dim_is(t->dims[i], 1));
        r.dims[i] = t->dims[i];
        r.strides[i] = repeats ? fx_dim_of(0) : v->strides[i - shift];
    }
    return r;
}

/* What is added: rows that are dense, repeated where it is broadcast. */
static fx_status addend(fx_build *b, fx_dtype type, const fx_type *t, fx_node *n, fx_window *r)
{
    FX_TRY(fx_select_input(b, n, type, FX_AS_IT_LIES, r));
    if (!fx_window_unit(r, r->rank - 1) || !fx_window_forward(b, r))
        FX_TRY(fx_select_input(b, n, type, FX_ROW_MAJOR, r));
    *r = widened(r, t);
    return FX_OK;
}

/* Dims [from, to) of v as one, if one stride walks them. Without such dims the stride is that of a dense row of the rest. */
static bool merged(fx_build *b, const fx_window *v, int from, int to, fx_dim *count, fx_dim *stride)
{
    fx_window part = *v;
    part.rank = to;
    for (int i = 0; i < from; i++)
        part.dims[i] = fx_dim_of(1);
    bool one = fx_window_rows(b, &part, 0, count, stride);
    if (fx_dim_is(*count, 1))
        *stride = v->dims[v->rank - 1];
    return one;
}

static bool splits(fx_build *b, const product *p, int at)
{
    const fx_window *v[3] = {&p->x, &p->out, &p->r};
    fx_dim count, stride;
    for (int i = 0; i < 2 + p->has_r; i++)
        if (!merged(b, v[i], 0, at, &count, &stride) || !merged(b, v[i], at, v[i]->rank - 1, &count, &stride))
            return false;
    return true;
}

/* Where all operands fall into batch and rows; one batch if possible. */
static bool find_split(fx_build *b, product *p)
{
    for (p->split = 0; p->split < p->out.rank; p->split++)
        if (splits(b, p, p->split))
            return true;
    return false;
}

static void set_rows(fx_build *b, fx_call_stmt *c, const product *p, const fx_window *v, const char *batch, const char *row)
{
    fx_dim count, stride;
    merged(b, v, 0, p->split, &count, &stride);
    fx_call_set_dim(c, batch, fx_dim_is(count, 1) && p->split == 0 ? fx_dim_of(0) : stride);
    merged(b, v, p->split, v->rank - 1, &count, &stride);
    fx_call_set_dim(c, row, stride);
}

/* Floats to pack one w into: panels of nr columns. */
static int matmul_workspace(fx_build *b, const fx_call_stmt *c, const char *name)
{
    fxrt_gemm_desc d;
    fx_call_to_desc(c, &d);
    if (fx_target_is_gpu(&b->p->target))
        return fx_select_workspace(b, name, fx_target_products_workspace(&b->p->target));
    if (fx_call_is_static(c))
        return fx_select_workspace(b, name, fxrt_matmul_workspace(&d, &b->tile, b->threads));
    fx_dim nr = fx_dim_of(b->tile.nr);
    fx_dim panels = fx_dim_floordiv(b->ctx, fx_dim_plus(b->ctx, fx_call_dim(c, "n"), b->tile.nr - 1), nr);
    return fx_select_workspace_dim(b, name, fx_dim_mul(b->ctx, fx_dim_mul(b->ctx, panels, nr), fx_call_dim(c, "k")));
}

static fx_status emit(fx_build *b, fx_node *root, product *p, const char *title)
{
    const fx_group g = b->group[root->id];
    fx_node *n = g.anchor;
    FX_TRY(fx_select_fits(b, n, &p->x));
    if (!p->packed)
        FX_TRY(fx_select_fits(b, n, &p->w));
    FX_TRY(fx_select_fits(b, n, &p->out));
    if (p->has_r)
        FX_TRY(fx_select_fits(b, n, &p->r));
    bool gpu = fx_target_is_gpu(&b->p->target); /* panels of one row are a plain matrix, and its kernel takes that */
    fx_call_stmt *c = fx_call_new(b, p->packed && !gpu ? FX_K_gemm : FX_K_matmul);
    fx_dim batch, m, stride;
    merged(b, &p->out, 0, p->split, &batch, &stride);
    merged(b, &p->out, p->split, p->out.rank - 1, &m, &stride);
    fx_call_set_dim(c, "batch", batch);
    fx_call_set_dim(c, "m", m);
    fx_call_set_dim(c, "n", p->n);
    fx_call_set_dim(c, "k", p->k);
    set_rows(b, c, p, &p->x, "x_b", "x_m");
    set_rows(b, c, p, &p->out, "y_b", "y_m");
    set_rows(b, c, p, p->has_r ? &p->r : &p->out, "r_b", "r_m");
    fx_call_set_dim(c, "w_b", p->w_b);
    fx_call_set_dim(c, "w_k", p->w_k);
    fx_call_set_dim(c, "w_n", p->w_n);
    fx_call_set_act(c, &g);
    const char *name = fx_build_name(b, n);
    int bias, wbuf = -1;
    if (p->packed)
        FX_TRY(fx_select_packed_later(b, n, p->packed, p->type, FX_FILL_GEMM, NULL, fx_arena_printf(b->piece, "%s_weight", name),
                                      gpu ? "[out][in]" : fx_arena_printf(b->p->arena, "[in] in panels of %d outputs", b->tile.nr), &wbuf));
    FX_TRY(fx_select_bias(b, n, p->bias, p->type, name, 1, (int32_t)p->n.value, b->tile.nr, &bias));
    fx_call_set_window(c, "x", &p->x);
    if (p->packed)
        fx_call_set_buf(c, "w", wbuf, fx_dim_of(0));
    else
        fx_call_set_window(c, "w", &p->w);
    fx_call_set_buf(c, "b", bias, fx_dim_of(0));
    fx_call_set_window(c, "y", &p->out);
    if (!p->packed || gpu)
        fx_call_set_buf(c, "ws", matmul_workspace(b, c, name), fx_dim_of(0));
    if (p->has_r) {
        fx_call_set_window(c, "r", &p->r);
        if (p->packed || gpu)
            fx_select_overlay(b, &p->out, &p->r, &p->x);
    }
    fx_call_emit(b, root, c, title);
    return fx_select_settle(b, root, &p->out);
}

/* A constant vector is packed as the kernel's bias; anything else is added as rows. */
static fx_status set_bias(fx_build *b, const fx_node *n, fx_node *bias, const fx_type *t, product *p)
{
    if (!bias)
        return FX_OK;
    if (fx_build_is_constant(bias) && bias->type->rank == 1 && fx_dim_equal(bias->type->dims[0], p->n)) {
        p->bias = bias;
        return FX_OK;
    }
    if (p->has_r)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s with a computed bias, and another sum in one step, cannot be compiled yet", n->target);
    p->has_r = true;
    return addend(b, p->type, t, bias, &p->r);
}

fx_status fx_select_linear(fx_build *b, fx_node *root)
{
    const fx_group g = b->group[root->id];
    fx_node *n = g.anchor, *x_node = fx_node_input(n, 0), *w_node = fx_node_input(n, 1);
    product p = {.packed = fx_build_is_constant(w_node) ? w_node : NULL};
    FX_TRY(fx_select_type(b, n, FX_K_matmul, n->type->dtype, &p.type));
    FX_TRY(fx_select_input(b, x_node, p.type, FX_AS_IT_LIES, &p.x));
    int last = p.x.rank - 1;
    p.k = p.x.dims[last];
    p.n = n->type->dims[last];
    if (!fx_window_unit(&p.x, last) || !fx_window_forward(b, &p.x))
        FX_TRY(fx_select_input(b, x_node, p.type, FX_ROW_MAJOR, &p.x));
    p.has_r = g.residual != NULL;
    if (p.has_r)
        FX_TRY(addend(b, p.type, n->type, g.residual, &p.r));
    if (p.packed) {
        p.w_k = fx_dim_of(1);
        p.w_n = p.k;
    } else {
        FX_TRY(fx_select_input(b, w_node, p.type, FX_AS_IT_LIES, &p.w));
        if (!fx_window_forward(b, &p.w))
            FX_TRY(fx_select_input(b, w_node, p.type, FX_ROW_MAJOR, &p.w));
        p.w_k = p.w.strides[1];
        p.w_n = p.w.strides[0];
    }
    FX_TRY(set_bias(b, n, fx_node_input(n, 2), n->type, &p));
    FX_TRY(fx_select_place(b, root, p.type, NULL, &p.out));
    if (!find_split(b, &p)) {
        FX_TRY(fx_select_input(b, x_node, p.type, FX_ROW_MAJOR, &p.x));
        if (!find_split(b, &p))
            return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: what is added is broadcast over dims that no batch of rows can express",
                           n->target);
    }
    return emit(b, root, &p, fx_arena_printf(b->piece, "linear %s->%s%s", size(b, p.k), size(b, p.n), g.tail));
}

/* mm, bmm, addmm: both matrices are computed, or constants that no rewrite made into a linear. */
fx_status fx_select_matmul(fx_build *b, fx_node *root)
{
    const fx_group g = b->group[root->id];
    fx_node *n = g.anchor;
    int at = n->op->id == FX_OP_addmm ? 1 : 0;
    fx_node *x_node = fx_node_input(n, at), *w_node = fx_node_input(n, at + 1);
    product p = {0};
    FX_TRY(fx_select_type(b, n, FX_K_matmul, n->type->dtype, &p.type));
    if (at && (fx_node_float(n, 3) != 1 || fx_node_float(n, 4) != 1))
        return fx_fail(b->ctx, FX_INTERNAL, &n->loc, "addmm with alpha or beta other than 1 in core form");
    FX_TRY(fx_select_input(b, x_node, p.type, FX_AS_IT_LIES, &p.x));
    int rank = p.x.rank, row = rank - 2, col = rank - 1;
    if (!fx_window_unit(&p.x, col) || !fx_window_forward(b, &p.x))
        FX_TRY(fx_select_input(b, x_node, p.type, FX_ROW_MAJOR, &p.x));
    FX_TRY(fx_select_input(b, w_node, p.type, FX_AS_IT_LIES, &p.w));
    if (!fx_window_forward(b, &p.w))
        FX_TRY(fx_select_input(b, w_node, p.type, FX_ROW_MAJOR, &p.w));
    p.k = p.x.dims[col];
    p.n = p.w.dims[col];
    p.w_b = rank == 3 ? p.w.strides[0] : fx_dim_of(0);
    p.w_k = p.w.strides[row];
    p.w_n = p.w.strides[col];
    p.has_r = g.residual != NULL;
    if (p.has_r)
        FX_TRY(addend(b, p.type, n->type, g.residual, &p.r));
    FX_TRY(set_bias(b, n, at ? fx_node_input(n, 0) : NULL, n->type, &p));
    FX_TRY(fx_select_place(b, root, p.type, NULL, &p.out));
    p.split = rank - 2;
    return emit(b, root, &p, fx_arena_printf(b->piece, "matmul %sx%s by %sx%s%s", size(b, p.x.dims[row]), size(b, p.k), size(b, p.k), size(b, p.n),
                                             g.tail));
}
