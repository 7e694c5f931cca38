/* ir/infer_conv.c: result types of contractions, pooling and resampling.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/ops.h"

enum { MAX_SPATIAL = 3 };

static fx_status same_dtype(const fx_infer *c, const fx_type *a, const fx_type *b)
{
    if (fx_dtype_is_complex(a->dtype))
        return fx_infer_refuse(c, "dtype %s is not supported", fx_dtype_name(a->dtype));
    if (b && a->dtype != b->dtype)
        return fx_infer_fail(c, "expected operands of one dtype, got %s and %s", fx_infer_text(c, a), fx_infer_text(c, b));
    return FX_OK;
}

/* ---- convolution ------------------------------------------------------------------------------------------------ */

/* What all spellings of a convolution come to. */
typedef struct conv {
    const fx_type *x, *w, *b;
    int spatial;
    int64_t stride[MAX_SPATIAL], pad[MAX_SPATIAL], dilation[MAX_SPATIAL], out_pad[MAX_SPATIAL], groups;
    int64_t pad_extra[MAX_SPATIAL]; /* added at the end only: "same" of even kernels */
    bool transposed;
} conv;

static fx_status conv_check(const fx_infer *c, conv *v)
{
    const fx_type *x = v->x, *w = v->w;
    FX_TRY(same_dtype(c, x, w));
    FX_TRY(same_dtype(c, x, v->b));
    if (!fx_dtype_is_float(x->dtype))
        return fx_infer_refuse(c, "convolution of %s is not supported", fx_dtype_name(x->dtype));
    if (x->rank != v->spatial + 2 && x->rank != v->spatial + 1)
        return fx_infer_fail(c, "argument 'input': expected rank %d, or %d without a batch, got %s", v->spatial + 2, v->spatial + 1,
                             fx_infer_text(c, x));
    if (v->groups <= 0)
        return fx_infer_fail(c, "argument 'groups': expected a positive number, got %" PRId64, v->groups);
    for (int i = 0; i < v->spatial; i++) {
        if (v->stride[i] <= 0 || v->stride[i] > INT32_MAX)
            return fx_infer_fail(c, "argument 'stride': expected positive numbers, got %" PRId64, v->stride[i]);
        if (v->dilation[i] <= 0 || v->dilation[i] > INT32_MAX)
            return fx_infer_fail(c, "argument 'dilation': expected positive numbers, got %" PRId64, v->dilation[i]);
        if (v->pad[i] < 0 || v->pad[i] > INT32_MAX)
            return fx_infer_fail(c, "argument 'padding': expected numbers of at least 0, got %" PRId64, v->pad[i]);
        if (v->transposed && (v->out_pad[i] < 0 || (v->out_pad[i] >= v->stride[i] && v->out_pad[i] >= v->dilation[i])))
            return fx_infer_fail(c, "argument 'output_padding': expected less than stride or dilation, got %" PRId64, v->out_pad[i]);
        if (fx_dim_is(w->dims[2 + i], 0))
            return fx_infer_fail(c, "argument 'weight': expected a kernel of at least 1, got %s", fx_infer_text(c, w));
    }
    fx_dim channels = x->dims[x->rank - v->spatial - 1];
    fx_dim want = v->transposed ? w->dims[0] : fx_dim_mul(c->ctx, w->dims[1], fx_dim_of(v->groups));
    if (fx_dim_differ(channels, want))
        return fx_infer_fail(c, "expected an input of %" PRId64 " channels by weight %s and groups %" PRId64 ", got %s", want.value,
                             fx_infer_text(c, w), v->groups, fx_infer_text(c, x));
    if (!w->dims[0].sym && w->dims[0].value % v->groups)
        return fx_infer_fail(c, "argument 'weight': expected a multiple of %" PRId64 " groups of output channels, got %s", v->groups,
                             fx_infer_text(c, w));
    fx_dim out = v->transposed ? fx_dim_mul(c->ctx, w->dims[1], fx_dim_of(v->groups)) : w->dims[0];
    if (v->b && (v->b->rank != 1 || fx_dim_differ(v->b->dims[0], out)))
        return fx_infer_fail(c, "argument 'bias': expected %" PRId64 " elements, got %s", out.value, fx_infer_text(c, v->b));
    return FX_OK;
}

static fx_status conv_set(fx_infer *c, conv *v)
{
    fx_context *ctx = c->ctx;
    fx_dim dims[FX_MAX_RANK];
    FX_TRY(conv_check(c, v));
    int lead = v->x->rank - v->spatial - 1;
    if (lead)
        dims[0] = v->x->dims[0];
    dims[lead] = v->transposed ? fx_dim_mul(ctx, v->w->dims[1], fx_dim_of(v->groups)) : v->w->dims[0];
    for (int i = 0; i < v->spatial; i++) {
        fx_dim in = v->x->dims[lead + 1 + i];
        fx_dim reach = fx_dim_mul(ctx, fx_dim_sub(ctx, v->w->dims[2 + i], fx_dim_of(1)), fx_dim_of(v->dilation[i]));
        fx_dim out;
        if (v->transposed) {
            out = fx_dim_mul(ctx, fx_dim_sub(ctx, in, fx_dim_of(1)), fx_dim_of(v->stride[i]));
            out = fx_dim_add(ctx, fx_dim_add(ctx, out, reach), fx_dim_of(v->out_pad[i] + 1 - 2 * v->pad[i]));
        } else {
            out = fx_dim_sub(ctx, fx_dim_add(ctx, in, fx_dim_of(2 * v->pad[i] + v->pad_extra[i] - 1)), reach);
            if (!out.sym && out.value < 0)
                return fx_infer_fail(c, "the kernel of %s is larger than the padded input %s", fx_infer_text(c, v->w),
                                     fx_infer_text(c, v->x));
            out = fx_dim_add(ctx, fx_dim_floordiv(ctx, out, fx_dim_of(v->stride[i])), fx_dim_of(1));
        }
        if (!out.sym && out.value <= 0)
            return fx_infer_fail(c, "expected an output of at least 1 on dim %d, got %" PRId64, lead + 1 + i, out.value);
        dims[lead + 1 + i] = out;
    }
    return fx_infer_set(c, v->x->dtype, lead + 1 + v->spatial, dims);
}

/* input: the position of the input, which the weight follows. */
static fx_status conv_operands(fx_infer *c, conv *v, int input)
{
    memset(v, 0, sizeof *v);
    v->groups = 1;
    FX_TRY(fx_infer_tensor(c, input, &v->x));
    FX_TRY(fx_infer_tensor(c, input + 1, &v->w));
    v->spatial = v->w->rank - 2;
    if (v->spatial < 1 || v->spatial > MAX_SPATIAL)
        return fx_infer_fail(c, "argument 'weight': expected rank 3 to 5, got %s", fx_infer_text(c, v->w));
    return FX_OK;
}

static fx_status conv_begin(fx_infer *c, conv *v)
{
    FX_TRY(conv_operands(c, v, 0));
    return fx_infer_optional(c, 2, &v->b);
}

/* The number of spatial dims a row has by its name; 0: any. */
static int named_spatial(fx_opid id)
{
    switch (id) {
    case FX_OP_conv1d: case FX_OP_conv1d_padding: case FX_OP_conv_transpose1d: return 1;
    case FX_OP_conv2d: case FX_OP_conv2d_padding: case FX_OP_conv_transpose2d_input: return 2;
    case FX_OP_conv3d: return 3;
    default: return 0;
    }
}

static fx_status check_spatial(const fx_infer *c, const conv *v)
{
    int n = named_spatial(c->node->op->id);
    if (n && n != v->spatial)
        return fx_infer_fail(c, "argument 'weight': expected rank %d, got %s", n + 2, fx_infer_text(c, v->w));
    return FX_OK;
}

/* (stride, padding, dilation, transposed, output_padding, groups) from position `first` on. */
static fx_status conv_settings(fx_infer *c, conv *v, int first)
{
    FX_TRY(fx_infer_ints(c, first, v->stride, v->spatial));
    FX_TRY(fx_infer_ints(c, first + 1, v->pad, v->spatial));
    FX_TRY(fx_infer_ints(c, first + 2, v->dilation, v->spatial));
    v->transposed = fx_node_bool(c->node, first + 3);
    FX_TRY(fx_infer_ints(c, first + 4, v->out_pad, v->spatial));
    v->groups = fx_node_int(c->node, first + 5);
    return conv_set(c, v);
}

fx_status infer_convolution(fx_infer *c)
{
    conv v;
    FX_TRY(conv_begin(c, &v));
    return conv_settings(c, &v, 3);
}

/* (grad_output, input, weight, bias_sizes, then as convolution, output_mask): gradients of input, weight and bias. */
fx_status infer_convolution_backward(fx_infer *c)
{
    conv v;
    const fx_type *g;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(conv_operands(c, &v, 1));
    FX_TRY(conv_settings(c, &v, 4));
    FX_TRY(fx_infer_grad_of(c, g, c->result));
    if (v.x->rank != v.spatial + 2)
        return fx_infer_fail(c, "argument 'input': expected rank %d, got %s", v.spatial + 2, fx_infer_text(c, v.x));
    for (int i = 2; i < v.x->rank; i++)
        if (fx_dim_is(v.x->dims[i], 0))
            return fx_infer_refuse(c, "argument 'input': expected pixels, got %s", fx_infer_text(c, v.x));
    const fx_type *bias = fx_type_tensor(c->ctx, g->dtype, 1, &g->dims[1], NULL);
    return fx_infer_masked(c, 10, (const fx_type *[]){v.x, v.w, bias});
}

/* (grad_output, input, weight_size, stride, padding, dilation, groups): what lowering makes of the gradient of the weight of a convolution
 * over two dims that is not transposed. */
fx_status infer_conv_weight_grad(fx_infer *c)
{
    conv v = {.spatial = 2};
    const fx_type *g;
    int64_t size[4];
    fx_dim dims[4];
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(fx_infer_tensor(c, 1, &v.x));
    FX_TRY(fx_infer_ints(c, 2, size, 4));
    for (int i = 0; i < 4; i++)
        dims[i] = fx_dim_of(size[i]);
    v.w = fx_type_tensor(c->ctx, v.x->dtype, 4, dims, NULL);
    FX_TRY(fx_infer_ints(c, 3, v.stride, 2));
    FX_TRY(fx_infer_ints(c, 4, v.pad, 2));
    FX_TRY(fx_infer_ints(c, 5, v.dilation, 2));
    v.groups = fx_node_int(c->node, 6);
    FX_TRY(conv_set(c, &v));
    /* Of what the image has beyond the last window nothing is read: the gradient may be of a smaller image. */
    if (g->dtype != v.x->dtype || g->rank != 4 || fx_dim_differ(g->dims[0], v.x->dims[0]) || fx_dim_differ(g->dims[1], dims[0]))
        return fx_infer_fail(c, "argument 'grad_output': expected %s, got %s", fx_infer_text(c, c->result), fx_infer_text(c, g));
    return fx_infer_set(c, v.x->dtype, 4, dims);
}

fx_status infer_conv(fx_infer *c)
{
    conv v;
    FX_TRY(conv_begin(c, &v));
    FX_TRY(check_spatial(c, &v));
    FX_TRY(fx_infer_ints(c, 3, v.stride, v.spatial));
    FX_TRY(fx_infer_ints(c, 4, v.pad, v.spatial));
    FX_TRY(fx_infer_ints(c, 5, v.dilation, v.spatial));
    v.groups = fx_node_int(c->node, 6);
    return conv_set(c, &v);
}

fx_status infer_conv_padding(fx_infer *c)
{
    conv v;
    FX_TRY(conv_begin(c, &v));
    FX_TRY(check_spatial(c, &v));
    FX_TRY(fx_infer_ints(c, 3, v.stride, v.spatial));
    FX_TRY(fx_infer_ints(c, 5, v.dilation, v.spatial));
    v.groups = fx_node_int(c->node, 6);
    const fx_arg *mode = fx_node_arg(c->node, 4);
    bool same = mode->kind == FX_ARG_STR && !strcmp(mode->s, "same");
    if (!same && !(mode->kind == FX_ARG_STR && !strcmp(mode->s, "valid")))
        return fx_infer_fail(c, "argument 'padding': expected 'same' or 'valid'");
    for (int i = 0; same && i < v.spatial; i++) {
        if (v.stride[i] != 1)
            return fx_infer_fail(c, "padding 'same' needs stride 1, got %" PRId64, v.stride[i]);
        if (v.w->dims[2 + i].sym)
            return fx_infer_refuse(c, "a kernel of symbolic size is not supported");
        int64_t total;
        if (v.dilation[i] < 1 || __builtin_mul_overflow(v.dilation[i], v.w->dims[2 + i].value - 1, &total))
            return fx_infer_fail(c, "a dilation of %" PRId64 " is out of range", v.dilation[i]);
        v.pad[i] = total / 2;
        v.pad_extra[i] = total % 2;
    }
    return conv_set(c, &v);
}

fx_status infer_conv_transpose(fx_infer *c)
{
    conv v;
    FX_TRY(conv_begin(c, &v));
    FX_TRY(check_spatial(c, &v));
    v.transposed = true;
    FX_TRY(fx_infer_ints(c, 3, v.stride, v.spatial));
    FX_TRY(fx_infer_ints(c, 4, v.pad, v.spatial));
    FX_TRY(fx_infer_ints(c, 5, v.out_pad, v.spatial));
    v.groups = fx_node_int(c->node, 6);
    FX_TRY(fx_infer_ints(c, 7, v.dilation, v.spatial));
    return conv_set(c, &v);
}

/* ---- matrix products -------------------------------------------------------------------------------------------- */

static fx_status inner(const fx_infer *c, const fx_type *a, fx_dim ka, const fx_type *b, fx_dim kb)
{
    FX_TRY(same_dtype(c, a, b));
    if (a->dtype == FX_BOOL)
        return fx_infer_refuse(c, "products of bool matrices are not supported");
    if (fx_dim_differ(ka, kb))
        return fx_infer_fail(c, "sizes %" PRId64 " and %" PRId64 " do not match: %s and %s", ka.value, kb.value, fx_infer_text(c, a),
                             fx_infer_text(c, b));
    return FX_OK;
}

fx_status infer_linear(fx_infer *c)
{
    const fx_type *x, *w, *b;
    fx_dim dims[FX_MAX_RANK];
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_tensor(c, 1, &w));
    FX_TRY(fx_infer_optional(c, 2, &b));
    if (x->rank < 1 || w->rank < 1 || w->rank > 2)
        return fx_infer_fail(c, "expected an input of rank 1 or more and a weight of rank 2, got %s and %s", fx_infer_text(c, x),
                             fx_infer_text(c, w));
    FX_TRY(inner(c, x, x->dims[x->rank - 1], w, w->dims[w->rank - 1]));
    FX_TRY(same_dtype(c, x, b));
    int rank = 0;
    for (; rank < x->rank - 1; rank++)
        dims[rank] = x->dims[rank];
    if (w->rank == 2)
        dims[rank++] = w->dims[0];
    if (b && (b->rank > 1 || (b->rank && w->rank == 2 && !fx_dim_is(b->dims[0], 1) && fx_dim_differ(b->dims[0], w->dims[0])) ||
              (b->rank && w->rank == 1)))
        return fx_infer_fail(c, "argument 'bias': expected a bias for weight %s, got %s", fx_infer_text(c, w), fx_infer_text(c, b));
    return fx_infer_set(c, x->dtype, rank, dims);
}

fx_status infer_mm(fx_infer *c)
{
    const fx_type *a, *b;
    FX_TRY(fx_infer_tensor(c, 0, &a));
    FX_TRY(fx_infer_tensor(c, 1, &b));
    if (a->rank != 2 || b->rank != 2)
        return fx_infer_fail(c, "expected two matrices, got %s and %s", fx_infer_text(c, a), fx_infer_text(c, b));
    FX_TRY(inner(c, a, a->dims[1], b, b->dims[0]));
    return fx_infer_set(c, a->dtype, 2, (fx_dim[]){a->dims[0], b->dims[1]});
}

fx_status infer_bmm(fx_infer *c)
{
    const fx_type *a, *b;
    FX_TRY(fx_infer_tensor(c, 0, &a));
    FX_TRY(fx_infer_tensor(c, 1, &b));
    if (a->rank != 3 || b->rank != 3 || fx_dim_differ(a->dims[0], b->dims[0]))
        return fx_infer_fail(c, "expected two batches of matrices, got %s and %s", fx_infer_text(c, a), fx_infer_text(c, b));
    FX_TRY(inner(c, a, a->dims[2], b, b->dims[1]));
    return fx_infer_set(c, a->dtype, 3, (fx_dim[]){a->dims[0], a->dims[1], b->dims[2]});
}

fx_status infer_addmm(fx_infer *c)
{
    const fx_type *s, *a, *b;
    FX_TRY(fx_infer_tensor(c, 0, &s));
    FX_TRY(fx_infer_tensor(c, 1, &a));
    FX_TRY(fx_infer_tensor(c, 2, &b));
    if (a->rank != 2 || b->rank != 2)
        return fx_infer_fail(c, "expected two matrices, got %s and %s", fx_infer_text(c, a), fx_infer_text(c, b));
    FX_TRY(inner(c, a, a->dims[1], b, b->dims[0]));
    FX_TRY(same_dtype(c, a, s));
    fx_dim dims[2] = {a->dims[0], b->dims[1]};
    bool ok = s->rank <= 2;
    for (int i = 0; ok && i < s->rank; i++)
        ok = fx_dim_is(s->dims[i], 1) || !fx_dim_differ(s->dims[i], dims[2 - s->rank + i]);
    if (!ok)
        return fx_infer_fail(c, "argument 'self': %s does not broadcast to the product of %s and %s", fx_infer_text(c, s),
                             fx_infer_text(c, a), fx_infer_text(c, b));
    return fx_infer_set(c, a->dtype, 2, dims);
}

/* Vectors gain a dim that goes again; batches broadcast. */
fx_status infer_matmul(fx_infer *c)
{
    const fx_type *a, *b;
    FX_TRY(fx_infer_tensor(c, 0, &a));
    FX_TRY(fx_infer_tensor(c, 1, &b));
    if (!a->rank || !b->rank)
        return fx_infer_fail(c, "expected operands of rank 1 or more, got %s and %s", fx_infer_text(c, a), fx_infer_text(c, b));
    FX_TRY(inner(c, a, a->dims[a->rank - 1], b, b->dims[b->rank == 1 ? 0 : b->rank - 2]));
    fx_dim dims[FX_MAX_RANK];
    int rank = a->rank > 2 ? a->rank - 2 : 0;
    for (int i = 0; i < rank; i++)
        dims[i] = a->dims[i];
    if (b->rank > 2) {
        const fx_type *batch = fx_type_tensor(c->ctx, b->dtype, b->rank - 2, b->dims, NULL);
        FX_TRY(fx_infer_broadcast(c, &rank, dims, batch));
    }
    if (a->rank > 1)
        dims[rank++] = a->dims[a->rank - 2];
    if (b->rank > 1)
        dims[rank++] = b->dims[b->rank - 1];
    return fx_infer_set(c, a->dtype, rank, dims);
}

/* ---- pooling ---------------------------------------------------------------------------------------------------- */

typedef struct pool {
    const fx_type *x;
    int spatial;
    int64_t kernel[2], stride[2], pad[2], dilation[2];
    bool ceil_mode;
} pool;

/* self: its position; kernel_size, stride and padding follow. */
static fx_status pool_at(const fx_infer *c, pool *p, int spatial, int self)
{
    memset(p, 0, sizeof *p);
    p->spatial = spatial;
    p->dilation[0] = p->dilation[1] = 1;
    FX_TRY(fx_infer_tensor(c, self, &p->x));
    if (fx_dtype_is_complex(p->x->dtype) || p->x->dtype == FX_BOOL)
        return fx_infer_refuse(c, "dtype %s is not supported", fx_dtype_name(p->x->dtype));
    if (p->x->rank != spatial + 1 && p->x->rank != spatial + 2)
        return fx_infer_fail(c, "argument 'self': expected rank %d or %d, got %s", spatial + 1, spatial + 2, fx_infer_text(c, p->x));
    FX_TRY(fx_infer_ints(c, self + 1, p->kernel, spatial));
    const fx_arg *stride = fx_node_arg(c->node, self + 2);
    if (stride->kind == FX_ARG_NONE || (stride->n == 0 && (stride->kind == FX_ARG_LIST || stride->kind == FX_ARG_TUPLE)))
        memcpy(p->stride, p->kernel, sizeof p->stride);
    else
        FX_TRY(fx_infer_ints(c, self + 2, p->stride, spatial));
    return fx_infer_ints(c, self + 3, p->pad, spatial);
}

static fx_status pool_begin(const fx_infer *c, pool *p, int spatial)
{
    return pool_at(c, p, spatial, 0);
}

/* ATen's pooling_output_shape: in ceil mode the last window must start inside the input or its left padding. */
static fx_status pool_dims(const fx_infer *c, const pool *p, fx_dim *dims)
{
    fx_context *ctx = c->ctx;
    int lead = p->x->rank - p->spatial;
    for (int i = 0; i < lead; i++)
        dims[i] = p->x->dims[i];
    for (int i = 0; i < p->spatial; i++) {
        int64_t k = p->kernel[i], s = p->stride[i], d = p->dilation[i], pad = p->pad[i];
        if (k <= 0 || s <= 0 || d <= 0 || k > INT32_MAX || s > INT32_MAX || d > INT32_MAX)
            return fx_infer_fail(c, "expected a positive kernel, stride and dilation, got %" PRId64 ", %" PRId64 ", %" PRId64, k, s, d);
        if (pad < 0 || pad > ((k - 1) * d + 1) / 2)
            return fx_infer_fail(c, "expected a padding from 0 to half the kernel (%" PRId64 "), got %" PRId64, k, pad);
        fx_dim in = p->x->dims[lead + i];
        fx_dim out = fx_dim_add(ctx, in, fx_dim_of(2 * pad - d * (k - 1) - 1 + (p->ceil_mode ? s - 1 : 0)));
        out = fx_dim_add(ctx, fx_dim_floordiv(ctx, out, fx_dim_of(s)), fx_dim_of(1));
        if (p->ceil_mode && !out.sym && (out.value - 1) * s >= in.value + pad)
            out.value--;
        else if (p->ceil_mode && out.sym)
            return fx_infer_refuse(c, "ceil_mode over a symbolic size is not supported");
        if (!out.sym && out.value < 1)
            return fx_infer_fail(c, "the window of %" PRId64 " is larger than the padded input %s", k, fx_infer_text(c, p->x));
        dims[lead + i] = out;
    }
    return FX_OK;
}

fx_status infer_max_pool(fx_infer *c)
{
    pool p;
    fx_dim dims[FX_MAX_RANK];
    int spatial = c->node->op->id == FX_OP_max_pool1d ? 1 : 2;
    FX_TRY(pool_begin(c, &p, spatial));
    FX_TRY(fx_infer_ints(c, 4, p.dilation, spatial));
    p.ceil_mode = fx_node_bool(c->node, 5);
    FX_TRY(pool_dims(c, &p, dims));
    FX_TRY(fx_infer_set(c, p.x->dtype, p.x->rank, dims));
    if (c->node->op->id == FX_OP_max_pool2d_with_indices)
        c->result = fx_type_tuple(c->ctx, 2, (const fx_type *[]){c->result, fx_type_tensor(c->ctx, FX_I64, p.x->rank, dims, NULL)});
    return FX_OK;
}

fx_status infer_avg_pool(fx_infer *c)
{
    pool p;
    fx_dim dims[FX_MAX_RANK];
    bool one = c->node->op->id == FX_OP_avg_pool1d;
    FX_TRY(pool_begin(c, &p, one ? 1 : 2));
    if (fx_dtype_is_int(p.x->dtype) && p.x->dtype != FX_I64)
        return fx_infer_fail(c, "expected floats, got %s", fx_infer_text(c, p.x));
    p.ceil_mode = fx_node_bool(c->node, 4);
    if (!one && !fx_node_is_none(c->node, 6) && fx_node_int(c->node, 6) == 0)
        return fx_infer_fail(c, "argument 'divisor_override': expected a number other than 0");
    FX_TRY(pool_dims(c, &p, dims));
    return fx_infer_set(c, p.x->dtype, p.x->rank, dims);
}

/* Gradients of pools with windows: (grad_output, self, kernel_size, stride, padding, ...). */
fx_status infer_pool_backward(fx_infer *c)
{
    pool p;
    const fx_type *g, *indices;
    fx_dim dims[FX_MAX_RANK];
    bool max = c->node->op->id == FX_OP_max_pool2d_with_indices_backward;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(pool_at(c, &p, 2, 1));
    if (max)
        FX_TRY(fx_infer_ints(c, 5, p.dilation, 2));
    p.ceil_mode = fx_node_bool(c->node, max ? 6 : 5);
    if (!max && !fx_node_is_none(c->node, 7) && fx_node_int(c->node, 7) == 0)
        return fx_infer_fail(c, "argument 'divisor_override': expected a number other than 0");
    FX_TRY(pool_dims(c, &p, dims));
    FX_TRY(fx_infer_set(c, p.x->dtype, p.x->rank, dims));
    FX_TRY(fx_infer_grad_of(c, g, c->result));
    if (max) {
        FX_TRY(fx_infer_tensor(c, 7, &indices));
        FX_TRY(fx_infer_grad_indices(c, g, indices));
    }
    return fx_infer_set(c, p.x->dtype, p.x->rank, p.x->dims);
}

/* Gradients of adaptive pools: (grad_output, self[, indices]); any output size is one. */
fx_status infer_adaptive_pool_backward(fx_infer *c)
{
    const fx_type *g, *x, *indices;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(fx_infer_tensor(c, 1, &x));
    if ((x->rank != 3 && x->rank != 4) || g->rank != x->rank || g->dtype != x->dtype || !fx_dtype_is_float(x->dtype))
        return fx_infer_fail(c, "expected floats of one dtype and rank 3 or 4, got %s and %s", fx_infer_text(c, g), fx_infer_text(c, x));
    for (int i = 0; i < x->rank; i++)
        if (i < x->rank - 2 ? fx_dim_differ(g->dims[i], x->dims[i]) : fx_dim_is(x->dims[i], 0) || fx_dim_is(g->dims[i], 0))
            return fx_infer_fail(c, "argument 'grad_output': expected a gradient of a pool of %s, got %s", fx_infer_text(c, x), fx_infer_text(c, g));
    if (c->node->op->id == FX_OP_adaptive_max_pool2d_backward) {
        FX_TRY(fx_infer_tensor(c, 2, &indices));
        FX_TRY(fx_infer_grad_indices(c, g, indices));
    }
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

fx_status infer_adaptive_pool(fx_infer *c)
{
    const fx_type *x;
    fx_dim out[2], dims[FX_MAX_RANK];
    int n, spatial = c->node->op->id == FX_OP_adaptive_avg_pool1d ? 1 : 2;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_dims(c, 1, out, 2, &n));
    if (n == 1 && spatial == 2) {
        out[1] = out[0];
        n = 2;
    }
    if (n != spatial || (x->rank != spatial + 1 && x->rank != spatial + 2))
        return fx_infer_fail(c, "expected rank %d or %d and %d output sizes, got %s and %d", spatial + 1, spatial + 2, spatial,
                             fx_infer_text(c, x), n);
    if (!fx_dtype_is_float(x->dtype))
        return fx_infer_fail(c, "expected floats, got %s", fx_infer_text(c, x));
    int lead = x->rank - spatial;
    for (int i = 0; i < x->rank; i++) {
        dims[i] = i < lead ? x->dims[i] : out[i - lead];
        if (i >= lead && fx_dim_is(x->dims[i], 0))
            return fx_infer_fail(c, "expected spatial sizes of at least 1, got %s", fx_infer_text(c, x));
    }
    FX_TRY(fx_infer_set(c, x->dtype, x->rank, dims));
    if (c->node->op->id == FX_OP_adaptive_max_pool2d)
        c->result = fx_type_tuple(c->ctx, 2, (const fx_type *[]){c->result, fx_type_tensor(c->ctx, FX_I64, x->rank, dims, NULL)});
    return FX_OK;
}

/* ---- resampling ------------------------------------------------------------------------------------------------- */

fx_status infer_upsample(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[4];
    int n;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    if (x->rank != 4)
        return fx_infer_fail(c, "expected rank 4, got %s", fx_infer_text(c, x));
    if (!fx_dtype_is_float(x->dtype))
        return fx_infer_refuse(c, "dtype %s is not supported", fx_dtype_name(x->dtype));
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    if (!fx_node_is_none(c->node, 1)) {
        FX_TRY(fx_infer_dims(c, 1, dims + 2, 2, &n));
        if (n != 2)
            return fx_infer_fail(c, "argument 'output_size': expected 2 sizes, got %d", n);
    } else {
        bool bilinear = c->node->op->id == FX_OP_upsample_bilinear2d_vec;
        const fx_arg *scales = fx_node_arg(c->node, bilinear ? 3 : 2);
        if ((scales->kind != FX_ARG_LIST && scales->kind != FX_ARG_TUPLE) || scales->n != 2)
            return fx_infer_fail(c, "expected either 'output_size' or two 'scale_factors'");
        for (int i = 0; i < 2; i++) {
            const fx_arg *a = scales->items[i];
            double s = a->kind == FX_ARG_FLOAT ? a->f : a->kind == FX_ARG_INT ? (double)a->i : -1;
            if (!(s > 0) || !(s < 1e9))
                return fx_infer_fail(c, "argument 'scale_factors': expected positive numbers, got %g", s);
            if (x->dims[2 + i].sym) {
                if (s != floor(s))
                    return fx_infer_refuse(c, "a symbolic size scaled by %g is not supported", s);
                dims[2 + i] = fx_dim_mul(c->ctx, x->dims[2 + i], fx_dim_of((int64_t)s));
            } else {
                double size = floor((double)x->dims[2 + i].value * s);
                dims[2 + i] = fx_dim_of(size < 9e15 ? (int64_t)size : INT64_MAX);
            }
        }
    }
    for (int i = 2; i < 4; i++)
        if ((!dims[i].sym && dims[i].value < 1) || fx_dim_is(x->dims[i], 0))
            return fx_infer_fail(c, "expected spatial sizes of at least 1, got %s", fx_infer_text(c, x));
    return fx_infer_set(c, x->dtype, 4, dims);
}

/* (grad_output, output_size, input_size, ...): the result has input_size. */
fx_status infer_upsample_backward(fx_infer *c)
{
    const fx_type *g;
    fx_dim out[2], in[4];
    int n, m;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(fx_infer_dims(c, 1, out, 2, &n));
    FX_TRY(fx_infer_dims(c, 2, in, 4, &m));
    if (n != 2 || m != 4 || g->rank != 4 || !fx_dtype_is_float(g->dtype))
        return fx_infer_fail(c, "expected floats of rank 4, 2 output and 4 input sizes, got %s, %d and %d", fx_infer_text(c, g), n, m);
    for (int i = 0; i < 4; i++)
        if (fx_dim_differ(g->dims[i], i < 2 ? in[i] : out[i - 2]) || (i > 1 && (fx_dim_is(in[i], 0) || fx_dim_is(out[i - 2], 0))))
            return fx_infer_fail(c, "argument 'grad_output': expected the sizes of the output, got %s", fx_infer_text(c, g));
    return fx_infer_set(c, g->dtype, 4, in);
}
