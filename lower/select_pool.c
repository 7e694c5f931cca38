/* lower/select_pool.c: pooling and resampling become kernel calls.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/select.h"

/* Sizes and strides of input and result; pool2d and resize2d name them alike. */
static void set_images(fx_call_stmt *c, const fx_window *x, const fx_window *y)
{
    fx_call_set_dim(c, "n", x->dims[0]);
    fx_call_set_dim(c, "c", x->dims[1]);
    fx_call_set_dim(c, "ih", x->dims[2]);
    fx_call_set_dim(c, "iw", x->dims[3]);
    fx_call_set_dim(c, "oh", y->dims[2]);
    fx_call_set_dim(c, "ow", y->dims[3]);
    fx_call_set_dim(c, "xs_n", x->strides[0]);
    fx_call_set_dim(c, "xs_h", x->strides[2]);
    fx_call_set_dim(c, "xs_w", x->strides[3]);
    fx_call_set_dim(c, "ys_n", y->strides[0]);
    fx_call_set_dim(c, "ys_h", y->strides[2]);
    fx_call_set_dim(c, "ys_w", y->strides[3]);
}

static fx_status pool_values(fx_build *b, fx_node *n, fx_window *x, fx_window *y)
{
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    if (t->rank != 4)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s of a tensor of rank %d cannot be compiled yet", n->op->name, t->rank);
    fx_dtype type;
    FX_TRY(fx_select_type(b, n, FX_K_avg_pool2d, t->dtype, &type));
    FX_TRY(fx_select_input(b, fx_node_input(n, 0), type, FX_CHANNELS_LAST, x));
    fx_window pattern = fx_build_channels_last(b, n);
    FX_TRY(fx_select_place(b, n, type, &pattern, y));
    FX_TRY(fx_select_fits(b, n, x));
    return fx_select_fits(b, n, y);
}

static fx_status build_window_pool(fx_build *b, fx_node *n)
{
    fx_window x, y;
    FX_TRY(pool_values(b, n, &x, &y));
    bool max = n->op->id != FX_OP_avg_pool2d;
    int64_t k[2], s[2], p[2], dil[2] = {1, 1};
    int count = fx_node_ints(n, 1, k, 2);
    if (count == 1)
        k[1] = k[0];
    count = fx_node_ints(n, 2, s, 2);
    if (count <= 0)
        memcpy(s, k, sizeof s);
    else if (count == 1)
        s[1] = s[0];
    if (fx_node_ints(n, 3, p, 2) == 1)
        p[1] = p[0];
    if (max && fx_node_ints(n, 4, dil, 2) == 1)
        dil[1] = dil[0];
    fxrt_pool2d_desc d = {
        .kh = (int32_t)k[0], .kw = (int32_t)k[1], .sh = (int32_t)s[0], .sw = (int32_t)s[1], .ph = (int32_t)p[0], .pw = (int32_t)p[1],
        .dh = (int32_t)dil[0], .dw = (int32_t)dil[1],
    };
    if (!max) {
        d.count_include_pad = fx_node_bool(n, 5);
        d.divisor = fx_node_is_none(n, 6) ? 0 : (int32_t)fx_node_int(n, 6);
    }
    fx_call_stmt *c = fx_call_new(b, max ? FX_K_max_pool2d : FX_K_avg_pool2d);
    fx_call_from_desc(c, &d);
    set_images(c, &x, &y);
    return fx_select_finish(b, n, c, &x, &y, fx_arena_printf(b->piece, "%s %dx%d/%d", max ? "max_pool2d" : "avg_pool2d", d.kh, d.kw, d.sh));
}

/* Input steps per output step as aten's area_pixel_compute_scale: from the given factor if there is one. */
static fx_status set_step(fx_build *b, fx_call_stmt *c, const char *field, const fx_node *n, int param, bool align_corners, fx_dim in, fx_dim out)
{
    if (!align_corners && !fx_node_is_none(n, param) && fx_node_float(n, param) > 0) {
        fx_call_set(c, field, (float)(1.0 / fx_node_float(n, param)));
        return FX_OK;
    }
    if (!fx_dim_known(in) || !fx_dim_known(out))
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s of a dynamic size without a scale factor cannot be compiled", n->op->name);
    if (align_corners)
        fx_call_set(c, field, out.value > 1 ? (float)(in.value - 1) / (float)(out.value - 1) : 0);
    else
        fx_call_set(c, field, (float)in.value / (float)out.value);
    return FX_OK;
}

static fx_status build_resize(fx_build *b, fx_node *n)
{
    fx_window x, y;
    FX_TRY(pool_values(b, n, &x, &y));
    fx_kernel_id kernel = n->op->id == FX_OP_adaptive_max_pool2d   ? FX_K_adaptive_max_pool2d
                          : n->op->id == FX_OP_upsample_nearest2d  ? FX_K_upsample_nearest2d
                          : n->op->id == FX_OP_upsample_bilinear2d ? FX_K_upsample_bilinear2d
                                                                   : FX_K_adaptive_avg_pool2d;
    fx_call_stmt *c = fx_call_new(b, kernel);
    set_images(c, &x, &y);
    if (kernel == FX_K_upsample_nearest2d || kernel == FX_K_upsample_bilinear2d) {
        bool bilinear = kernel == FX_K_upsample_bilinear2d, corners = bilinear && fx_node_bool(n, 2);
        fx_call_set(c, "align_corners", corners);
        FX_TRY(set_step(b, c, "scale_h", n, bilinear ? 3 : 2, corners, x.dims[2], y.dims[2]));
        FX_TRY(set_step(b, c, "scale_w", n, bilinear ? 4 : 3, corners, x.dims[3], y.dims[3]));
    }
    return fx_select_finish(b, n, c, &x, &y, fx_arena_printf(b->piece, "%s to %s", fx_kernel_get(kernel)->name, fx_build_dims(b, 2, &y.dims[2])));
}

/* Kernels compute in float32 and give no indices; of float64 they only resample. */
static bool takes_kernel(const fx_node *n)
{
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    for (const fx_use *u = n->type->kind == FX_TYPE_TUPLE ? n->first_use : NULL; u; u = u->next)
        if (fx_node_int(u->user, 1) != 0)
            return false;
    return t->dtype != FX_F64 || n->op->id == FX_OP_upsample_nearest2d || n->op->id == FX_OP_upsample_bilinear2d;
}

/* For a GPU, a pool whose result is an output is loops that write it as the caller wants it: one kernel, where the image would be put into another order
 * by a second one. */
static bool is_output_image(const fx_build *b, const fx_node *n)
{
    if (!fx_target_is_gpu(&b->p->target) || n->type->kind != FX_TYPE_TENSOR || n->type->rank != 4 || b->home[n->id].output < 0 || n->n_uses != 1)
        return false;
    bool resized = n->op->id == FX_OP_upsample_nearest2d || n->op->id == FX_OP_upsample_bilinear2d;
    return !resized && !(fx_dim_is(n->type->dims[2], 1) && fx_dim_is(n->type->dims[3], 1));
}

fx_status fx_build_pool(fx_build *b, fx_node *n)
{
    if (!takes_kernel(n) || is_output_image(b, n))
        return fx_build_pool_loops(b, n);
    bool window = n->op->id == FX_OP_max_pool2d || n->op->id == FX_OP_max_pool2d_with_indices || n->op->id == FX_OP_avg_pool2d;
    return window ? build_window_pool(b, n) : build_resize(b, n);
}

fx_status fx_build_global_mean(fx_build *b, fx_node *n, bool *done)
{
    int64_t dims[FX_MAX_RANK];
    fx_node *x_node = fx_node_input(n, 0);
    const fx_dtype type = x_node->type->dtype;
    *done = false;
    if (x_node->type->rank != 4 || !fx_lower_takes(b->opt, FX_K_adaptive_avg_pool2d, type) || (type != FX_F32 && n->type->dtype != type) ||
        fx_node_ints(n, 1, dims, FX_MAX_RANK) != 2)
        return FX_OK;
    int64_t a = dims[0] < 0 ? dims[0] + 4 : dims[0], c = dims[1] < 0 ? dims[1] + 4 : dims[1];
    if (!((a == 2 && c == 3) || (a == 3 && c == 2)) || b->home[n->id].cat)
        return FX_OK;
    fx_window x, y;
    FX_TRY(fx_select_input(b, x_node, type, FX_CHANNELS_LAST, &x));
    FX_TRY(fx_select_place(b, n, type, NULL, &y));
    FX_TRY(fx_select_fits(b, n, &x));
    /* One pixel, whether the result keeps the dims or not. */
    fx_window pixel = y;
    pixel.dims[2] = pixel.dims[3] = fx_dim_of(1);
    pixel.strides[2] = pixel.strides[3] = x.dims[1];
    fx_call_stmt *call = fx_call_new(b, FX_K_adaptive_avg_pool2d);
    set_images(call, &x, &pixel);
    FX_TRY(fx_select_finish(b, n, call, &x, &y, fx_arena_printf(b->piece, "mean over %s", fx_build_dims(b, 2, &x.dims[2]))));
    *done = true;
    return FX_OK;
}
