/* lower/decompose_conv.c: convolutions of all kinds as aten.convolution over two spatial dims, with a batch.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <string.h>

typedef struct conv {
    fx_node *input, *weight, *bias;
    int nd; /* spatial dims */
    int64_t stride[2], padding[2], dilation[2], output_padding[2], groups;
    bool transposed;
} conv;

/* The number of spatial dims, from the weight; refuses what is not 1 or 2. */
static bool spatial_dims(fx_rw *w, conv *c)
{
    int rank = fx_is_tensor(c->weight) ? c->weight->type->rank : 0; /* weights have known sizes */
    c->nd = rank - 2;
    if (c->nd == 1 || c->nd == 2)
        return true;
    fx_rw_refuse(w, "convolutions over 1 or 2 dims can be compiled, this is over %d", c->nd);
    return false;
}

static bool lists(fx_rw *w, conv *c, int stride, int padding, int dilation)
{
    if (fx_int_list(w->at, stride, c->nd, NULL, c->stride) && fx_int_list(w->at, dilation, c->nd, NULL, c->dilation) &&
        (padding < 0 || fx_int_list(w->at, padding, c->nd, NULL, c->padding)))
        return true;
    w->status = fx_fail(w->ctx, FX_ERR_TYPE, &w->at->loc, "%s: expected %d numbers in stride, padding and dilation",
                        w->at->target, c->nd);
    return false;
}

/* A size of 1 is put before the last of n numbers, or n sizes. */
static void widen(int64_t v[2], int64_t by)
{
    v[1] = v[0];
    v[0] = by;
}

/* `at` becomes the convolution; a missing batch dim and a second spatial dim of size 1 are added and taken away by views. */
static void emit(fx_rw *w, conv *c)
{
    fx_dim in[FX_MAX_RANK], out[FX_MAX_RANK], weight[FX_MAX_RANK], sizes[4];
    int rank = fx_sizes(c->input, in), out_rank = fx_sizes(w->at, out);
    fx_sizes(c->weight, weight);
    bool batched = rank == c->nd + 2, reshaped = c->nd == 1 || !batched;
    fx_node *x = c->input, *wt = c->weight;
    if (reshaped) {
        const fx_dim *s = in + (batched ? 1 : 0);
        sizes[0] = batched ? in[0] : fx_dim_of(1);
        sizes[1] = s[0];
        sizes[2] = c->nd == 1 ? fx_dim_of(1) : s[1];
        sizes[3] = s[c->nd];
        x = fx_rw_view_to(w, x, 4, sizes, "in");
    }
    if (c->nd == 1) {
        sizes[0] = weight[0];
        sizes[1] = weight[1];
        sizes[2] = fx_dim_of(1);
        sizes[3] = weight[2];
        wt = fx_rw_view_to(w, wt, 4, sizes, "weight");
        widen(c->stride, 1);
        widen(c->padding, 0);
        widen(c->dilation, 1);
        widen(c->output_padding, 0);
    }
    fx_call call = fx_rw_call(w, FX_OP_convolution);
    fx_call_node(&call, x);
    fx_call_node(&call, wt);
    fx_call_node(&call, c->bias);
    fx_call_ints(&call, 2, c->stride);
    fx_call_ints(&call, 2, c->padding);
    fx_call_ints(&call, 2, c->dilation);
    fx_call_bool(&call, c->transposed);
    fx_call_ints(&call, 2, c->output_padding);
    fx_call_int(&call, c->groups);
    if (!reshaped) {
        fx_rw_become(w, &call);
        return;
    }
    fx_node *y = fx_rw_node(w, &call, "2d");
    fx_rw_view_to(w, y, out_rank, out, NULL);
}

static conv begin(fx_rw *w)
{
    return (conv){ .input = fx_node_input(w->at, 0), .weight = fx_node_input(w->at, 1), .bias = fx_node_input(w->at, 2) };
}

/* (input, weight, bias, stride, padding, dilation, groups) */
void fx_d_conv(fx_rw *w)
{
    conv c = begin(w);
    if (!spatial_dims(w, &c) || !lists(w, &c, 3, 4, 5))
        return;
    c.groups = fx_node_int(w->at, 6);
    emit(w, &c);
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups): core, but for rank and short lists. */
void fx_d_convolution(fx_rw *w)
{
    conv c = begin(w);
    if (!spatial_dims(w, &c) || !lists(w, &c, 3, 4, 5))
        return;
    c.transposed = fx_node_bool(w->at, 6);
    const int64_t none[2] = { 0, 0 };
    if (!fx_int_list(w->at, 7, c.nd, none, c.output_padding))
        memset(c.output_padding, 0, sizeof c.output_padding);
    if (!c.transposed)
        memset(c.output_padding, 0, sizeof c.output_padding); /* without meaning there */
    c.groups = fx_node_int(w->at, 8);
    emit(w, &c);
}

/* (input, weight, bias, stride, padding, output_padding, groups, dilation) */
void fx_d_conv_transpose(fx_rw *w)
{
    conv c = begin(w);
    if (!spatial_dims(w, &c) || !lists(w, &c, 3, 4, 7))
        return;
    const int64_t none[2] = { 0, 0 };
    if (!fx_int_list(w->at, 5, c.nd, none, c.output_padding)) {
        fx_rw_refuse(w, "expected %d numbers in output_padding", c.nd);
        return;
    }
    c.transposed = true;
    c.groups = fx_node_int(w->at, 6);
    emit(w, &c);
}

/* padding "valid" or "same". "same" with an odd total pads one more at the end, which convolution cannot: the
 * surplus is padded before, as eager does. */
void fx_d_conv_padding(fx_rw *w)
{
    conv c = begin(w);
    if (!spatial_dims(w, &c) || !lists(w, &c, 3, -1, 5))
        return;
    c.groups = fx_node_int(w->at, 6);
    const fx_arg *mode = fx_node_arg(w->at, 4);
    if (mode->kind != FX_ARG_STR || (strcmp(mode->s, "valid") && strcmp(mode->s, "same"))) {
        fx_rw_refuse(w, "expected padding 'valid' or 'same'");
        return;
    }
    if (!strcmp(mode->s, "same")) {
        int64_t pad[4] = { 0 };
        bool odd = false;
        for (int i = 0; i < c.nd; i++) {
            int64_t total = c.dilation[i] * (fx_dim_size(c.weight, 2 + i) - 1);
            c.padding[i] = total / 2;
            pad[2 * (c.nd - 1 - i) + 1] = total % 2;
            odd |= total % 2;
        }
        if (odd) {
            fx_call p = fx_rw_call(w, FX_OP_constant_pad_nd);
            fx_call_node(&p, c.input);
            fx_call_ints(&p, 2 * c.nd, pad);
            fx_call_float(&p, 0);
            c.input = fx_rw_node(w, &p, "pad");
        }
    }
    emit(w, &c);
}
