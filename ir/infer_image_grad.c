/* ir/infer_image_grad.c: result types of batch norm in training and of gradients; what the rows of both share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>

#include "ir/ops.h"

fx_status fx_infer_grad_of(const fx_infer *c, const fx_type *g, const fx_type *y)
{
    bool same = g->dtype == y->dtype && g->rank == y->rank;
    for (int i = 0; same && i < g->rank; i++)
        same = !fx_dim_differ(g->dims[i], y->dims[i]);
    return same ? FX_OK : fx_infer_fail(c, "argument 'grad_output': expected %s, got %s", fx_infer_text(c, y), fx_infer_text(c, g));
}

fx_status fx_infer_grad_indices(const fx_infer *c, const fx_type *g, const fx_type *indices)
{
    bool same = indices->dtype == FX_I64 && g->rank == indices->rank;
    for (int i = 0; same && i < g->rank; i++)
        same = !fx_dim_differ(g->dims[i], indices->dims[i]);
    return same ? FX_OK : fx_infer_fail(c, "argument 'indices': expected int64 of the sizes of %s, got %s", fx_infer_text(c, g),
                                        fx_infer_text(c, indices));
}

bool fx_node_asks(const fx_node *n, int mask, int result)
{
    const fx_arg *a = fx_node_arg(n, mask);
    return (a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE) && result < a->n && a->items[result]->kind == FX_ARG_BOOL && a->items[result]->b;
}

fx_status fx_infer_masked(fx_infer *c, int mask, const fx_type *const *types)
{
    const fx_type *items[3];
    const fx_arg *a = fx_node_arg(c->node, mask);
    if ((a->kind != FX_ARG_LIST && a->kind != FX_ARG_TUPLE) || a->n != 3)
        return fx_infer_fail(c, "argument 'output_mask': expected three bools");
    for (int i = 0; i < 3; i++)
        items[i] = fx_node_asks(c->node, mask, i) ? fx_type_tensor(c->ctx, types[i]->dtype, types[i]->rank, types[i]->dims, NULL)
                                                  : fx_type_scalar(c->ctx, FX_TYPE_NONE);
    c->result = fx_type_tuple(c->ctx, 3, items);
    return FX_OK;
}

/* ---- elementwise ------------------------------------------------------------------------------------------------------ */

/* (grad_output, self, numbers): both tensors broadcast, of one float dtype. */
fx_status infer_image_grad_pointwise(fx_infer *c)
{
    const fx_type *g, *x;
    fx_dim dims[FX_MAX_RANK];
    int rank;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(fx_infer_tensor(c, c->node->op->id == FX_OP_elu_backward ? 5 : 1, &x));
    if (!fx_dtype_is_float(g->dtype) || g->dtype != x->dtype)
        return fx_infer_refuse(c, "expected floats of one dtype, got %s and %s", fx_infer_text(c, g), fx_infer_text(c, x));
    rank = g->rank;
    for (int i = 0; i < rank; i++)
        dims[i] = g->dims[i];
    FX_TRY(fx_infer_broadcast(c, &rank, dims, x));
    return fx_infer_set(c, g->dtype, rank, dims);
}

/* ---- batch norm ------------------------------------------------------------------------------------------------------- */

fx_batch_norm fx_batch_norm_of(const fx_node *n)
{
    fx_batch_norm b = {.results = 3, .running = 3, .momentum = 6, .eps = 7, .training = true};
    switch (n->op->id) {
    case FX_OP__native_batch_norm_legit_no_training:
        b.training = false;
        b.momentum = 5;
        b.eps = 6;
        return b;
    case FX_OP__native_batch_norm_legit_no_stats:
        b.running = -1;
        b.momentum = 4;
        b.eps = 5;
        b.training = fx_node_bool(n, 3);
        return b;
    case FX_OP__batch_norm_with_update:
    case FX_OP__batch_norm_with_update_functional:
        b.results = 4;
        b.momentum = 5;
        b.eps = 6;
        b.functional = n->op->id == FX_OP__batch_norm_with_update_functional;
        break;
    case FX_OP_batch_norm:
        b.results = 1;
        b.training = fx_node_bool(n, 5);
        break;
    default:
        b.training = fx_node_bool(n, 5);
        b.functional = n->op->id == FX_OP__native_batch_norm_legit_functional;
        break;
    }
    b.writes = b.training && !b.functional && !fx_node_is_none(n, b.running) && !fx_node_is_none(n, b.running + 1);
    return b;
}

static fx_status image(const fx_infer *c, int param, const fx_type **x)
{
    FX_TRY(fx_infer_tensor(c, param, x));
    if (!fx_dtype_is_float((*x)->dtype) || (*x)->rank < 2)
        return fx_infer_fail(c, "expected floats of rank 2 or more, got %s", fx_infer_text(c, *x));
    return FX_OK;
}

/* One result, or: the result, mean and 1 / sqrt(var + eps) of training (empty without), a reserve that is empty, the new running statistics. */
fx_status infer_batch_norm(fx_infer *c)
{
    fx_batch_norm b = fx_batch_norm_of(c->node);
    const fx_type *x, *t, *items[6];
    int n = 0;
    FX_TRY(image(c, 0, &x));
    fx_dtype dtype = x->dtype;
    FX_TRY(fx_infer_vectors(c, 1, 2, x->dims[1], &dtype));
    if (b.running >= 0)
        FX_TRY(fx_infer_vectors(c, b.running, 2, x->dims[1], &dtype));
    if (!b.training && b.running < 0)
        return fx_infer_refuse(c, "without statistics it has to be in training mode");
    for (int i = b.running; (!b.training || b.functional) && i < b.running + 2; i++)
        FX_TRY(fx_infer_tensor(c, i, &t));
    if (b.running >= 0 && fx_node_is_none(c->node, b.running) != fx_node_is_none(c->node, b.running + 1))
        return fx_infer_fail(c, "expected both of running_mean and running_var, or none");
    FX_TRY(fx_infer_set(c, x->dtype, x->rank, x->dims));
    if (b.results == 1)
        return FX_OK;
    const fx_type *empty = fx_type_tensor(c->ctx, x->dtype, 1, (fx_dim[]){fx_dim_of(0)}, NULL);
    items[n++] = c->result;
    for (; n < 3; n++)
        items[n] = b.training ? fx_type_tensor(c->ctx, dtype, 1, &x->dims[1], NULL) : empty;
    if (b.results == 4)
        items[n++] = fx_type_tensor(c->ctx, FX_U8, 1, (fx_dim[]){fx_dim_of(0)}, NULL);
    for (int i = 0; b.functional && i < 2; i++) {
        FX_TRY(fx_infer_tensor(c, b.running + i, &t));
        items[n++] = fx_type_tensor(c->ctx, t->dtype, 1, &x->dims[1], NULL);
    }
    c->result = fx_type_tuple(c->ctx, n, items);
    return FX_OK;
}

/* (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train or update, eps, output_mask[, reserve]) */
fx_status infer_batch_norm_backward(fx_infer *c)
{
    const fx_type *g, *x, *t;
    fx_dtype dtype;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(image(c, 1, &x));
    FX_TRY(fx_infer_grad_of(c, g, x));
    dtype = x->dtype;
    FX_TRY(fx_infer_vectors(c, 2, 1, x->dims[1], &dtype));
    bool train = fx_node_bool(c->node, 7);
    int used = train ? 5 : 3;
    fx_dtype ignored;
    FX_TRY(fx_infer_vectors(c, used, 2, x->dims[1], &ignored));
    for (int i = used; i < used + 2; i++)
        FX_TRY(fx_infer_tensor(c, i, &t));
    const fx_type *vector = fx_type_tensor(c->ctx, dtype, 1, &x->dims[1], NULL);
    return fx_infer_masked(c, 9, (const fx_type *[]){x, vector, vector});
}
