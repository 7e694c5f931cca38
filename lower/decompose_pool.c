/* lower/decompose_pool.c: pools and resampling as their two-dimensional, batched core rows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

static const int64_t zeros[2] = { 0, 0 }, ones[2] = { 1, 1 };

/* The input as [N, C, H, W]: `nd` spatial dims, with or without a batch. */
static fx_node *batched(fx_rw *w, fx_node *x, int nd)
{
    fx_dim in[FX_MAX_RANK], sizes[4];
    int rank = fx_sizes(x, in);
    if (rank == 4 && nd == 2)
        return x;
    bool batch = rank == nd + 2;
    const fx_dim *s = in + (batch ? 1 : 0);
    sizes[0] = batch ? in[0] : fx_dim_of(1);
    sizes[1] = s[0];
    sizes[2] = nd == 1 ? fx_dim_of(1) : s[1];
    sizes[3] = s[nd];
    return fx_rw_view_to(w, x, 4, sizes, "in");
}

/* `at` becomes the call, seen under at's sizes. */
static void finish(fx_rw *w, fx_call *c, bool reshaped)
{
    fx_dim out[FX_MAX_RANK];
    int rank = fx_sizes(w->at, out);
    if (reshaped)
        fx_rw_view_to(w, fx_rw_node(w, c, "2d"), rank, out, NULL);
    else
        fx_rw_become(w, c);
}

static bool rank_fits(fx_rw *w, fx_node *x, int nd)
{
    if (x->type && x->type->kind == FX_TYPE_TENSOR && (x->type->rank == nd + 1 || x->type->rank == nd + 2))
        return true;
    fx_rw_refuse(w, "expected an input of rank %d or %d", nd + 1, nd + 2);
    return false;
}

/* Window parameters from position 1 on: kernel, stride (default: kernel), padding and, for max pools, dilation. */
static bool windows(fx_rw *w, int nd, bool dilated, int64_t p[4][2])
{
    if (!fx_int_list(w->at, 1, nd, NULL, p[0]) || !fx_int_list(w->at, 2, nd, p[0], p[1]) ||
        !fx_int_list(w->at, 3, nd, zeros, p[2]) || (dilated && !fx_int_list(w->at, 4, nd, ones, p[3]))) {
        fx_rw_refuse(w, "expected %d numbers in kernel_size, stride, padding and dilation", nd);
        return false;
    }
    if (nd == 1)
        for (int i = 0; i < 4; i++) {
            p[i][1] = p[i][0];
            p[i][0] = i == 2 ? 0 : 1;
        }
    return true;
}

static fx_call max_pool(fx_rw *w, fx_opid op, fx_node *x, int64_t p[4][2])
{
    fx_call c = fx_rw_call(w, op);
    fx_call_node(&c, x);
    for (int i = 0; i < 4; i++)
        fx_call_ints(&c, 2, p[i]);
    fx_call_copy(&c, w->at, 5);
    return c;
}

static fx_call avg_pool(fx_rw *w, fx_node *x, int64_t p[4][2], bool divisor)
{
    fx_call c = fx_rw_call(w, FX_OP_avg_pool2d);
    fx_call_node(&c, x);
    for (int i = 0; i < 3; i++)
        fx_call_ints(&c, 2, p[i]);
    fx_call_copy(&c, w->at, 4);
    fx_call_copy(&c, w->at, 5);
    if (divisor)
        fx_call_copy(&c, w->at, 6);
    return c;
}

static void pool(fx_rw *w, int nd)
{
    fx_node *x = fx_node_input(w->at, 0);
    bool max = w->at->op->id == FX_OP_max_pool1d || w->at->op->id == FX_OP_max_pool2d;
    int64_t p[4][2];
    if (!rank_fits(w, x, nd) || !windows(w, nd, max, p))
        return;
    fx_node *in = batched(w, x, nd);
    fx_call c = max ? max_pool(w, FX_OP_max_pool2d, in, p) : avg_pool(w, in, p, nd == 2);
    finish(w, &c, in != x);
}

void fx_d_pool1d(fx_rw *w)
{
    pool(w, 1);
}

void fx_d_pool2d(fx_rw *w)
{
    pool(w, 2);
}

static fx_node *unbatched(fx_rw *w, fx_node *y, const char *suffix)
{
    fx_dim out[FX_MAX_RANK];
    int rank = fx_sizes(y, out);
    return w->status == FX_OK ? fx_rw_view_to(w, y, rank - 1, out + 1, suffix) : y;
}

/* Values and indices of `both`, seen without a batch where x has none, are the results. Indices count within an image. */
static void finish_both(fx_rw *w, fx_node *both, bool batch)
{
    fx_node *y[2] = {fx_rw_item(w, both, 0, "values"), NULL};
    if (fx_uses_result(w, 1))
        y[1] = fx_rw_item(w, both, 1, "indices");
    if (!batch) {
        y[0] = unbatched(w, y[0], "unbatched");
        y[1] = y[1] ? unbatched(w, y[1], "indices_unbatched") : NULL;
    }
    if (w->status == FX_OK)
        fx_rw_results(w, 2, y);
}

/* The run_decompositions form of max_pool2d: its indices are rarely used. Core where they are. */
void fx_d_max_pool2d_with_indices(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int64_t p[4][2];
    if (!rank_fits(w, x, 2) || !windows(w, 2, true, p))
        return;
    fx_node *in = batched(w, x, 2);
    bool both = fx_uses_result(w, 1);
    fx_call c = max_pool(w, both ? FX_OP_max_pool2d_with_indices : FX_OP_max_pool2d, in, p);
    fx_node *y = fx_rw_node(w, &c, both ? "both" : "values");
    if (both)
        finish_both(w, y, in == x);
    else
        fx_rw_single_result(w, in == x ? y : unbatched(w, y, "unbatched"), "the indices of the maxima");
}

void fx_d_adaptive_avg_pool(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int nd = w->at->op->id == FX_OP_adaptive_avg_pool1d ? 1 : 2;
    if (!rank_fits(w, x, nd))
        return;
    fx_dim out[FX_MAX_RANK];
    int rank = fx_sizes(w->at, out);
    fx_dim size[2] = { nd == 1 ? fx_dim_of(1) : out[rank - 2], out[rank - 1] };
    fx_node *in = batched(w, x, nd);
    fx_call c = fx_rw_call(w, FX_OP_adaptive_avg_pool2d);
    fx_call_node(&c, in);
    fx_call_sizes(&c, 2, size);
    finish(w, &c, in != x);
}

/* Core, with its two results. */
void fx_d_adaptive_max_pool(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    if (!rank_fits(w, x, 2))
        return;
    int64_t size[2];
    if (!fx_int_list(w->at, 1, 2, NULL, size)) {
        fx_rw_refuse(w, "expected an output_size of two numbers");
        return;
    }
    fx_node *in = batched(w, x, 2);
    fx_call c = fx_rw_call(w, FX_OP_adaptive_max_pool2d);
    fx_call_node(&c, in);
    fx_call_ints(&c, 2, size);
    finish_both(w, fx_rw_node(w, &c, "both"), in == x);
}

/* (input, output_size?, [align_corners,] scale_factors?): the size is that of the result, the scales are as given. */
void fx_d_upsample_vec(fx_rw *w)
{
    bool bilinear = w->at->op->id == FX_OP_upsample_bilinear2d_vec;
    int scales = bilinear ? 3 : 2;
    const fx_dim *size = w->at->type->dims + 2;
    fx_call c = fx_rw_call(w, bilinear ? FX_OP_upsample_bilinear2d : FX_OP_upsample_nearest2d);
    fx_call_copy(&c, w->at, 0);
    fx_call_sizes(&c, 2, size);
    if (bilinear)
        fx_call_copy(&c, w->at, 2);
    const fx_arg *f = fx_node_arg(w->at, scales);
    for (int i = 0; i < 2; i++) {
        if ((f->kind == FX_ARG_LIST || f->kind == FX_ARG_TUPLE) && f->n == 2)
            fx_call_arg(&c, f->items[i]);
        else
            fx_call_node(&c, NULL);
    }
    fx_rw_become(w, &c);
}
