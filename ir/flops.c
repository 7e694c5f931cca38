/* ir/flops.c: floating-point operations of a node. A multiply and an add count as two; views and copies as none.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"

/* Elements of the value's first tensor; 0 when unknown, INT64_MAX when more than that. */
static int64_t numel(const fx_type *t)
{
    while (t && t->kind == FX_TYPE_TUPLE && t->n > 0)
        t = t->items[0];
    if (!t || !fx_type_is_static(t))
        return 0;
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i].value == 0)
            return 0;
    }
    for (int i = 0; i < t->rank; i++) {
        if (__builtin_mul_overflow(n, t->dims[i].value, &n))
            return INT64_MAX;
    }
    return n;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static const fx_type *input_type(const fx_node *n, int param)
{
    const fx_node *in = fx_node_input(n, param);
    return in && in->type && in->type->kind == FX_TYPE_TENSOR && fx_type_is_static(in->type) ? in->type : NULL;
}

/* Convolutions: each output (transposed: each input) meets every weight of one filter. */
static int64_t filter_flops(const fx_type *w, const fx_type *places)
{
    int64_t filter = 2;
    if (!w || !places || w->rank < 2)
        return 0;
    for (int i = 1; i < w->rank; i++)
        filter = times(filter, w->dims[i].value);
    return times(filter, numel(places));
}

static int64_t conv_flops(const fx_node *n, bool transposed)
{
    const fx_type *x = input_type(n, 0), *w = input_type(n, 1);
    return x ? filter_flops(w, transposed ? x : n->type) : 0;
}

/* Matrix products: `param` is a matrix whose dimension `dim` (from the end) is summed over. */
static int64_t product_flops(const fx_node *n, int param, int dim)
{
    const fx_type *x = input_type(n, param);
    if (!x || x->rank < dim)
        return 0;
    return times(2 * x->dims[x->rank - dim].value, numel(n->type));
}

static int64_t pool_flops(const fx_node *n)
{
    int64_t window[FX_MAX_RANK];
    int k = fx_node_param(n, "kernel_size");
    if (k < 0) /* adaptive pools read each input about once; resampling is counted by its outputs */
        return fx_node_param(n, "output_size") == 1 && input_type(n, 0) && numel(n->type) < numel(input_type(n, 0))
                   ? numel(input_type(n, 0))
                   : numel(n->type);
    int dims = fx_node_ints(n, k, window, FX_MAX_RANK);
    int64_t taps = 1;
    for (int i = 0; i < dims; i++)
        taps = times(taps, window[i]);
    return times(taps, numel(n->type));
}

/* Both products of attention: query x key^T, and that x value. */
static int64_t attention_flops(const fx_node *n)
{
    const fx_type *q = input_type(n, 0), *k = input_type(n, 1), *y = n->type;
    if (!q || !k || q->rank < 2 || k->rank < 2 || y->kind != FX_TYPE_TENSOR || y->rank < 2)
        return 0;
    int64_t rows = 1, columns = q->dims[q->rank - 1].value + y->dims[y->rank - 1].value;
    for (int i = 0; i < y->rank - 1; i++)
        rows = times(rows, y->dims[i].value);
    return times(times(2 * k->dims[k->rank - 2].value, columns), rows);
}

static int64_t contraction_flops(const fx_node *n)
{
    switch (n->op->id) {
    case FX_OP_convolution:
        return conv_flops(n, fx_node_bool(n, fx_node_param(n, "transposed")));
    case FX_OP_conv_transpose1d:
    case FX_OP_conv_transpose2d_input:
        return conv_flops(n, true);
    case FX_OP_convolution_backward: /* each gradient costs what the convolution does */
        return times(fx_node_asks(n, 10, 0) + fx_node_asks(n, 10, 1), filter_flops(input_type(n, 2), input_type(n, fx_node_bool(n, 7) ? 1 : 0)));
    case FX_OP_conv_weight_grad:
        return filter_flops(n->type, input_type(n, 0));
    case FX_OP_linear:
    case FX_OP_mm:
    case FX_OP_bmm:
    case FX_OP_matmul:
        return product_flops(n, 0, 1);
    case FX_OP_addmm:
        return product_flops(n, 1, 1);
    default:
        return conv_flops(n, false);
    }
}

int64_t fx_node_flops(const fx_node *n)
{
    if (n->opcode != FX_CALL_FUNCTION || !n->op || !n->type)
        return 0;
    switch (n->op->cls) {
    case FX_CLASS_CONTRACTION:
        return contraction_flops(n);
    case FX_CLASS_POINTWISE:
        return numel(n->type);
    case FX_CLASS_REDUCTION:
        return input_type(n, 0) ? numel(input_type(n, 0)) : 0;
    case FX_CLASS_POOL:
        return pool_flops(n);
    case FX_CLASS_NORM:
        if (n->op->id == FX_OP_scaled_dot_product_attention || n->op->id == FX_OP_attention)
            return attention_flops(n);
        /* Batch norm scales and shifts; the others also reduce, twice. */
        return times(fx_node_param(n, "running_mean") >= 0 ? 2 : 5, numel(n->type));
    case FX_CLASS_VIEW:
    case FX_CLASS_GATHER:
    case FX_CLASS_CREATE:
    case FX_CLASS_OTHER:
        break;
    }
    return 0;
}
