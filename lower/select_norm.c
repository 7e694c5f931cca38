/* lower/select_norm.c: norms and softmax become kernel calls.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/select.h"

/* A plain vector that the kernel reads as it is, constant or computed. */
static fx_status set_vector(fx_build *b, const fx_node *n, fx_call_stmt *c, fx_dtype type, const char *arg, fx_node *from, const char *what)
{
    if (!from)
        return FX_OK;
    if (!fx_build_is_constant(from) || type != FX_F32) {
        fx_window v;
        FX_TRY(fx_select_input(b, from, type, FX_ROW_MAJOR, &v));
        fx_call_set_window(c, arg, &v);
        return FX_OK;
    }
    const float *data;
    FX_TRY(fx_build_constant(b, n, from, what, &data));
    fx_dim numel = fx_type_count(b->ctx, from->type);
    int id = fx_program_buf(b->p, FX_BUF_WEIGHT, from->target, FX_F32, 1, &numel);
    b->p->bufs[id].data = data;
    b->p->bufs[id].loc = from->loc;
    fx_call_set_buf(c, arg, id, fx_dim_of(0));
    return FX_OK;
}

/* Softmax works on memory order: whatever order the dims lie in, the tensor is [outer][n][inner]. */
static fx_status build_softmax(fx_build *b, fx_node *n)
{
    fx_node *x_node = fx_node_input(n, 0);
    fx_window x, y;
    fx_dtype type;
    FX_TRY(fx_select_type(b, n, FX_K_softmax, n->type->dtype, &type));
    FX_TRY(fx_select_input(b, x_node, type, FX_AS_IT_LIES, &x));
    int order[FX_MAX_RANK];
    fx_dim stride = fx_dim_of(1);
    fx_window_order(b, &x, order);
    bool dense = true;
    for (int i = x.rank - 1; i >= 0; i--) {
        dense = dense && (fx_dim_is(x.dims[order[i]], 1) || fx_dim_equal(x.strides[order[i]], stride));
        stride = fx_dim_mul(b->ctx, stride, x.dims[order[i]]);
    }
    if (!dense || b->home[n->id].output >= 0) {
        FX_TRY(fx_select_input(b, x_node, type, FX_ROW_MAJOR, &x));
        fx_window_order(b, &x, order);
    }
    FX_TRY(fx_select_place(b, n, type, &x, &y));
    int64_t d64 = fx_node_int(n, 1);
    fx_dim outer = fx_dim_of(1), inner = fx_dim_of(1);
    int dim = (int)(d64 < 0 ? d64 + x.rank : d64);
    bool before = true;
    for (int i = 0; i < x.rank; i++) {
        if (order[i] == dim)
            before = false;
        else if (before)
            outer = fx_dim_mul(b->ctx, outer, x.dims[order[i]]);
        else
            inner = fx_dim_mul(b->ctx, inner, x.dims[order[i]]);
    }
    FX_TRY(fx_select_fits(b, n, &x));
    bool log = n->op->id == FX_OP__log_softmax;
    fx_call_stmt *c = fx_call_new(b, log ? FX_K_log_softmax : FX_K_softmax);
    fx_dim size = x.rank ? x.dims[dim] : fx_dim_of(1);
    fx_call_set_dim(c, "outer", outer);
    fx_call_set_dim(c, "n", size);
    fx_call_set_dim(c, "inner", inner);
    return fx_select_finish(b, n, c, &x, &y, fx_arena_printf(b->piece, "%s over %s", log ? "log_softmax" : "softmax", fx_build_dims(b, 1, &size)));
}

/* Layer norm, or root mean square norm: the same without mean and bias. */
static fx_status build_layer_norm(fx_build *b, fx_node *n)
{
    bool rms = n->op->id == FX_OP__fused_rms_norm;
    fx_node *x_node = fx_node_input(n, 0);
    fx_window x, y;
    const fx_arg *shape = fx_node_arg(n, 1);
    fx_dim rows, x_m, size = fx_dim_of(1);
    fx_dtype type;
    FX_TRY(fx_select_type(b, n, FX_K_layer_norm, n->type->items[0]->dtype, &type));
    int tail = shape->n;
    FX_TRY(fx_select_input(b, x_node, type, FX_AS_IT_LIES, &x));
    bool dense = true;
    for (int i = 0; i < tail; i++) {
        int d = x.rank - 1 - i;
        dense = dense && (fx_dim_is(x.dims[d], 1) || fx_dim_equal(x.strides[d], size));
        size = fx_dim_mul(b->ctx, size, x.dims[d]);
    }
    if (!dense || !fx_window_rows(b, &x, tail, &rows, &x_m) || !fx_build_at_least(b, x_m, 0)) {
        FX_TRY(fx_select_input(b, x_node, type, FX_ROW_MAJOR, &x));
        fx_window_rows(b, &x, tail, &rows, &x_m);
    }
    if (fx_dim_is(rows, 1))
        x_m = size;
    FX_TRY(fx_select_place(b, n, type, NULL, &y));
    FX_TRY(fx_select_fits(b, n, &x));
    fx_call_stmt *c = fx_call_new(b, rms ? FX_K_rms_norm : FX_K_layer_norm);
    fx_call_set_dim(c, "rows", rows);
    fx_call_set_dim(c, "n", size);
    fx_call_set_dim(c, "x_m", x_m);
    fx_call_set_dim(c, "y_m", size);
    fx_call_set(c, "eps", (float)fx_node_float(n, rms ? 3 : 4));
    FX_TRY(set_vector(b, n, c, type, "w", fx_node_input(n, 2), "weight"));
    if (!rms)
        FX_TRY(set_vector(b, n, c, type, "b", fx_node_input(n, 3), "bias"));
    return fx_select_finish(b, n, c, &x, &y,
                            fx_arena_printf(b->piece, "%s over %s", rms ? "rms_norm" : "layer_norm", fx_build_dims(b, 1, &size)));
}

/* A buffer for [images][pixels][channels], as a window of dims [images, channels, pixels]. */
static fx_window new_pixels(fx_build *b, fx_node *n, fx_dtype type, const char *suffix, const fx_dim *dims)
{
    fx_window v = {.dtype = type, .rank = 3, .dims = {dims[0], dims[1], dims[2]}};
    fx_dim order[3] = {dims[0], dims[2], dims[1]};
    v.strides[0] = fx_dim_mul(b->ctx, dims[1], dims[2]);
    v.strides[1] = fx_dim_of(1);
    v.strides[2] = dims[1];
    v.buf = fx_program_buf(b->p, FX_BUF_ARENA, fx_arena_printf(b->piece, "%s_%s", fx_build_name(b, n), suffix), type, 3, order);
    b->p->bufs[v.buf].loc = n->loc;
    return v;
}

static fx_status call_group_norm(fx_build *b, fx_node *n, fx_dtype type, const fx_window *x, const fx_window *y, fx_dim pixels, int pixel_dim, fx_call_stmt **out)
{
    fx_call_stmt *c = fx_call_new(b, FX_K_group_norm);
    fx_call_set_dim(c, "n", x->dims[0]);
    fx_call_set_dim(c, "hw", pixels);
    fx_call_set_dim(c, "c", x->dims[1]);
    fx_call_set(c, "groups", (double)fx_node_int(n, 6));
    fx_call_set_dim(c, "xs_n", x->strides[0]);
    fx_call_set_dim(c, "xs_p", fx_dim_is(x->dims[pixel_dim], 1) ? x->strides[2] : x->strides[pixel_dim]);
    fx_call_set_dim(c, "ys_n", y->strides[0]);
    fx_call_set_dim(c, "ys_p", y->strides[pixel_dim]);
    fx_call_set(c, "eps", (float)fx_node_float(n, 7));
    FX_TRY(set_vector(b, n, c, type, "w", fx_node_input(n, 1), "weight"));
    FX_TRY(set_vector(b, n, c, type, "b", fx_node_input(n, 2), "bias"));
    *out = c;
    return FX_OK;
}

/* Of any rank: pixels are whatever is behind the channels. Row-major tensors of more than one pixel go by copies with channels last. */
static fx_status build_group_norm_rows(fx_build *b, fx_node *n, fx_dtype type, const char *title)
{
    const fx_type *t = n->type->items[0];
    fx_node *x_node = fx_node_input(n, 0);
    fx_window x, y, from, to;
    fx_dim dims[3] = {t->dims[0], t->dims[1], fx_dim_of(1)};
    for (int i = 2; i < t->rank; i++)
        dims[2] = fx_dim_mul(b->ctx, dims[2], t->dims[i]);
    bool pixels = !fx_dim_is(dims[2], 1);
    FX_TRY(fx_select_input(b, x_node, type, FX_ROW_MAJOR, &x));
    FX_TRY(fx_select_fits(b, n, &x));
    FX_TRY(fx_select_place(b, n, type, NULL, &y));
    if (!fx_window_reshape(b, &x, 3, dims, &from) || !fx_window_reshape(b, &y, 3, dims, &to))
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "group_norm of a tensor of sizes %s cannot be compiled", fx_build_dims(b, t->rank, t->dims));
    fx_window in = from, out = to;
    if (pixels) {
        in = new_pixels(b, n, type, "in", dims);
        out = new_pixels(b, n, type, "norm", dims);
        FX_TRY(fx_build_copy(b, fx_arena_printf(b->piece, "%s_in", n->name), fx_arena_printf(b->piece, "%s: channels last for group_norm", n->name), n, &from,
                             &in));
    } else {
        in.strides[2] = out.strides[2] = dims[1];
    }
    fx_call_stmt *c;
    FX_TRY(call_group_norm(b, n, type, &in, &out, dims[2], 2, &c));
    fx_call_set_window(c, "x", &in);
    fx_call_set_window(c, "y", &out);
    fx_call_emit(b, n, c, title);
    if (pixels)
        FX_TRY(fx_build_copy(b, fx_arena_printf(b->piece, "%s_out", n->name), fx_arena_printf(b->piece, "%s: back from channels last", n->name), n, &out, &to));
    return fx_select_settle(b, n, &y);
}

static fx_status build_group_norm(fx_build *b, fx_node *n)
{
    fx_node *x_node = fx_node_input(n, 0);
    const fx_type *t = n->type->items[0];
    fx_window x, y;
    fx_dtype type;
    FX_TRY(fx_select_type(b, n, FX_K_group_norm, t->dtype, &type));
    const char *title = fx_arena_printf(b->piece, "group_norm in %lld groups", (long long)fx_node_int(n, 6));
    if (t->rank != 4)
        return build_group_norm_rows(b, n, type, title);
    FX_TRY(fx_select_input(b, x_node, type, FX_CHANNELS_LAST, &x));
    if (!fx_dim_is(x.dims[2], 1) && !fx_dim_equal(x.strides[2], fx_dim_mul(b->ctx, x.strides[3], x.dims[3])))
        return build_group_norm_rows(b, n, type, title);
    fx_window pattern = fx_build_channels_last(b, n);
    FX_TRY(fx_select_place(b, n, type, &pattern, &y));
    FX_TRY(fx_select_fits(b, n, &x));
    fx_call_stmt *c;
    FX_TRY(call_group_norm(b, n, type, &x, &y, fx_dim_mul(b->ctx, x.dims[2], x.dims[3]), 3, &c));
    return fx_select_finish(b, n, c, &x, &y, title);
}

fx_status fx_build_norm(fx_build *b, fx_node *n)
{
    switch (n->op->id) {
    case FX_OP__softmax:
    case FX_OP__log_softmax:
        return build_softmax(b, n);
    case FX_OP_native_layer_norm:
    case FX_OP__fused_rms_norm:
        return build_layer_norm(b, n);
    case FX_OP_native_group_norm:
        return build_group_norm(b, n);
    case FX_OP_scaled_dot_product_attention:
    case FX_OP_attention:
        return fx_select_attention(b, n);
    default:
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s cannot be compiled yet", n->op->name);
    }
}
