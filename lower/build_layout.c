/* lower/build_layout.c: one decision a graph: whether rank-4 activations lie channels-last in memory or row-major.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Convolutions, pools and group norms work on channels-last images; views, matrix products and the caller's buffers on row-major
 * tensors. Where a value meets a user of the other kind it is copied. The cost of a layout is the bytes those copies read and write. */
#include <string.h>

#include "lower/build.h"

/* Bytes of a tensor; sizes that are expressions at the least they may be. */
static double bytes_of(const fx_build *b, const fx_type *t)
{
    double n = (double)fx_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++) {
        int64_t lo, hi;
        fx_dim_bounds(fx_build_symbols(b), t->dims[i], &lo, &hi);
        n *= lo > 1 ? (double)lo : 1;
    }
    return n;
}

static const fx_type *tensor_of(const fx_node *n)
{
    const fx_type *t = n->type;
    return t && t->kind == FX_TYPE_TUPLE && t->n ? t->items[0] : t;
}

/* Rank 4, and the two layouts differ. */
static bool is_image(const fx_node *n)
{
    const fx_type *t = tensor_of(n);
    if (!t || t->kind != FX_TYPE_TENSOR || t->rank != 4)
        return false;
    return !fx_dim_is(t->dims[1], 1) && !(fx_dim_is(t->dims[2], 1) && fx_dim_is(t->dims[3], 1));
}

/* Kernels that read and write images channels-last. */
static bool wants_channels_last(const fx_node *n)
{
    if (n->opcode != FX_CALL_FUNCTION || !tensor_of(n) || tensor_of(n)->kind != FX_TYPE_TENSOR || tensor_of(n)->rank != 4)
        return false;
    return n->op->id == FX_OP_convolution || n->op->id == FX_OP_conv_weight_grad || n->op->id == FX_OP_native_group_norm || n->op->cls == FX_CLASS_POOL;
}

/* Loops: they read and write any layout, and take that of their first operand. */
static bool follows(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && (n->op->cls == FX_CLASS_POINTWISE || n->op->id == FX_OP_cat || n->op->id == FX_OP_constant_pad_nd ||
                                             n->op->id == FX_OP_clone || n->op->id == FX_OP_slice_Tensor || n->op->id == FX_OP_getitem);
}

/* Whether a channels-last image serves a user that is no kernel for images: loops and reductions do; views when strides allow. */
static bool serves(fx_build *b, const fx_node *image, const fx_node *user)
{
    if (user->opcode == FX_OUTPUT)
        return false;
    if (follows(user) || user->op->cls == FX_CLASS_REDUCTION || user->op->cls == FX_CLASS_GATHER)
        return true;
    if (user->op->cls != FX_CLASS_VIEW)
        return false;
    fx_window v = fx_build_channels_last(b, image), r;
    const fx_type *t = user->type;
    bool resizes = user->op->id == FX_OP_view || user->op->id == FX_OP_unsqueeze || user->op->id == FX_OP_squeeze_dims;
    return !resizes || fx_window_reshape(b, &v, t->rank, t->dims, &r);
}

bool fx_build_prefers_channels_last(fx_build *b)
{
    if (b->opt->off & FX_OFF(LAYOUT))
        return false;
    bool *last = FX_NEW_ARRAY(b->scratch, bool, b->g->n_ids); /* lies channels-last when the graph's images do */
    double with = 0, without = 0;
    bool any = false;
    FX_FOR_NODES(b->g, n)
    {
        bool kernel = wants_channels_last(n);
        any = any || kernel;
        fx_node *x = n->n_operands ? fx_node_input(n, 0) : NULL;
        if (!x && n->n_operands)
            x = n->operands[0].def;
        last[n->id] = is_image(n) && (kernel || (follows(n) && x && last[x->id]));
        if (kernel && x && is_image(x)) {
            without += 2 * bytes_of(b, tensor_of(x));
            if (!last[x->id])
                with += 2 * bytes_of(b, tensor_of(x));
        }
        if (kernel && is_image(n))
            without += 2 * bytes_of(b, tensor_of(n));
        if (!last[n->id])
            continue;
        for (const fx_use *u = n->first_use; u; u = u->next)
            if (!wants_channels_last(u->user) && !serves(b, n, u->user)) {
                with += 2 * bytes_of(b, tensor_of(n)); /* one copy, however many want it */
                break;
            }
    }
    return any && with <= without;
}
