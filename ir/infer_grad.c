/* ir/infer_grad.c: result types of losses and gradients.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>

#include "ir/ops.h"

enum { NONE, MEAN, SUM }; /* reductions */

/* A reduction argument: 0, 1 or 2. */
static fx_status reduction(const fx_infer *c, int param, int64_t *v)
{
    *v = fx_node_int(c->node, param);
    if (*v < NONE || *v > SUM)
        return fx_infer_fail(c, "argument 'reduction': expected 0 (none), 1 (mean) or 2 (sum), got %" PRId64, *v);
    return FX_OK;
}

static bool same_shape(const fx_type *a, const fx_type *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = !fx_dim_differ(a->dims[i], b->dims[i]);
    return same;
}

static const fx_type *nothing(const fx_infer *c, fx_dtype dtype)
{
    return fx_type_tensor(c->ctx, dtype, 1, (fx_dim[]){fx_dim_of(0)}, NULL);
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

/* All tensors broadcast to one shape; the dtype they promote to, a float's. A mask (of dropout) is bool. */
fx_status infer_grad(fx_infer *c)
{
    const fx_schema *s = fx_op_schema(c->ctx, c->node->op);
    fx_promote p = fx_promote_begin();
    fx_dim dims[FX_MAX_RANK];
    int rank = 0, wanted = fx_node_param(c->node, "reduction");
    int64_t v;
    for (int i = 0; i < s->n; i++) {
        const fx_type *t = NULL;
        if (s->params[i].kind != FX_PARAM_TENSOR)
            continue;
        FX_TRY(s->params[i].optional ? fx_infer_optional(c, i, &t) : fx_infer_tensor(c, i, &t));
        if (!t)
            continue;
        bool mask = c->node->op->id == FX_OP_native_dropout_backward && i == 1;
        if (!fx_dtype_is_float(t->dtype) && !(mask && t->dtype == FX_BOOL))
            return fx_infer_fail(c, "argument '%s': expected floats%s, got %s", s->params[i].name, mask ? " or bool" : "", fx_infer_text(c, t));
        fx_promote_tensor(&p, t->dtype, t->rank);
        FX_TRY(fx_infer_broadcast(c, &rank, dims, t));
    }
    if (wanted >= 0)
        FX_TRY(reduction(c, wanted, &v));
    return fx_infer_set(c, fx_promote_end(&p), rank, dims);
}

fx_status infer_log_sigmoid_forward(fx_infer *c)
{
    const fx_type *x;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    if (!fx_dtype_is_float(x->dtype))
        return fx_infer_fail(c, "expected floats, got %s", fx_infer_text(c, x));
    FX_TRY(fx_infer_set(c, x->dtype, x->rank, x->dims));
    c->result = fx_type_tuple(c->ctx, 2, (const fx_type *[]){c->result, c->result});
    return FX_OK;
}

/* grad_output [.., n, ..] and self [.., 2 n, ..] */
fx_status infer_glu_backward(fx_infer *c)
{
    const fx_type *g, *x;
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(fx_infer_tensor(c, 1, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank, &axis));
    bool ok = fx_dtype_is_float(x->dtype) && g->dtype == x->dtype && g->rank == x->rank && x->rank > 0;
    for (int i = 0; ok && i < x->rank; i++)
        ok = !fx_dim_differ(x->dims[i], i == axis ? fx_dim_scale(c->ctx, g->dims[i], 2) : g->dims[i]);
    if (!ok)
        return fx_infer_fail(c, "expected floats of one dtype, and twice the size of grad_output in dim %d, got %s and %s", axis, fx_infer_text(c, g),
                             fx_infer_text(c, x));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

/* ---- losses -------------------------------------------------------------------------------------------------------- */

/* (self, target, ..., reduction, ...): both broadcast, and what weighs them; then all are reduced. */
fx_status infer_loss(fx_infer *c)
{
    int64_t r;
    FX_TRY(infer_grad(c));
    FX_TRY(reduction(c, fx_node_param(c->node, "reduction"), &r));
    const fx_type *t = c->result;
    if (c->node->op->id == FX_OP_binary_cross_entropy && c->node->n_operands > 1) {
        const fx_type *x, *y;
        FX_TRY(fx_infer_tensor(c, 0, &x));
        FX_TRY(fx_infer_tensor(c, 1, &y));
        if (!same_shape(x, y))
            return fx_infer_fail(c, "argument 'target': expected the sizes of %s, got %s", fx_infer_text(c, x), fx_infer_text(c, y));
    }
    return r == NONE ? FX_OK : fx_infer_set(c, t->dtype, 0, NULL);
}

/* self [N, C] or [C], or [N, C, H, W] for images; target the same without C; a weight of C. params: where self is. */
static fx_status nll(const fx_infer *c, int first, const fx_type **x, const fx_type **target)
{
    bool images = c->node->op->id == FX_OP_nll_loss2d_forward || c->node->op->id == FX_OP_nll_loss2d_backward;
    const fx_type *w;
    int64_t r;
    FX_TRY(fx_infer_tensor(c, first, x));
    FX_TRY(fx_infer_tensor(c, first + 1, target));
    FX_TRY(fx_infer_optional(c, first + 2, &w));
    FX_TRY(reduction(c, first + 3, &r));
    int rank = (*x)->rank, axis = rank > 1;
    bool ok = fx_dtype_is_float((*x)->dtype) && (images ? rank == 4 : rank == 1 || rank == 2);
    if (!ok)
        return fx_infer_fail(c, "argument 'self': expected floats %s, got %s", images ? "[N, C, H, W]" : "[N, C] or [C]", fx_infer_text(c, *x));
    ok = (*target)->rank == rank - 1;
    for (int i = 0; ok && i < rank - 1; i++)
        ok = !fx_dim_differ((*target)->dims[i], (*x)->dims[i < axis ? i : i + 1]);
    if (!ok)
        return fx_infer_fail(c, "argument 'target': expected the sizes of %s without its classes, got %s", fx_infer_text(c, *x),
                             fx_infer_text(c, *target));
    if ((*target)->dtype != FX_I64)
        return fx_infer_refuse(c, "argument 'target': expected int64, got %s", fx_infer_text(c, *target));
    if (w && (w->rank != 1 || w->dtype != (*x)->dtype || fx_dim_differ(w->dims[0], (*x)->dims[axis])))
        return fx_infer_fail(c, "argument 'weight': expected one for each class of %s, got %s", fx_infer_text(c, *x), fx_infer_text(c, w));
    return FX_OK;
}

fx_status infer_nll(fx_infer *c)
{
    const fx_type *x, *target;
    FX_TRY(nll(c, 0, &x, &target));
    bool each = fx_node_int(c->node, 3) == NONE;
    FX_TRY(fx_infer_set(c, x->dtype, each ? target->rank : 0, target->dims));
    const fx_type *total = fx_type_tensor(c->ctx, x->dtype, 0, NULL, NULL);
    c->result = fx_type_tuple(c->ctx, 2, (const fx_type *[]){c->result, total});
    return FX_OK;
}

fx_status infer_nll_backward(fx_infer *c)
{
    const fx_type *g, *x, *target, *total;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(nll(c, 1, &x, &target));
    FX_TRY(fx_infer_tensor(c, 6, &total));
    bool each = fx_node_int(c->node, 4) == NONE;
    if (g->dtype != x->dtype || (each ? !same_shape(g, target) : g->rank > 1 || (g->rank == 1 && fx_dim_differ(g->dims[0], fx_dim_of(1)))))
        return fx_infer_fail(c, "argument 'grad_output': expected %s of self's dtype, got %s", each ? "the sizes of target" : "one number",
                             fx_infer_text(c, g));
    if (total->dtype != x->dtype || total->rank != 0)
        return fx_infer_fail(c, "argument 'total_weight': expected one number of self's dtype, got %s", fx_infer_text(c, total));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

/* ---- softmax, norms ------------------------------------------------------------------------------------------------- */

fx_status infer_softmax_backward(fx_infer *c)
{
    const fx_type *g, *y;
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(fx_infer_tensor(c, 1, &y));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), y->rank, &axis));
    fx_dtype dtype = fx_infer_dtype(c, 3, y->dtype);
    if (!fx_dtype_is_float(y->dtype) || g->dtype != y->dtype || !same_shape(g, y))
        return fx_infer_fail(c, "expected floats of one dtype and shape, got %s and %s", fx_infer_text(c, g), fx_infer_text(c, y));
    if (dtype != y->dtype)
        return fx_infer_refuse(c, "an input of another dtype than the output (half_to_float) is not supported");
    return fx_infer_set(c, dtype, y->rank, y->dims);
}

/* output_mask, the last parameter: which of the results are wanted; others are empty. */
static fx_status masked(fx_infer *c, int n, const fx_type **t)
{
    const fx_arg *mask = fx_node_arg(c->node, fx_op_schema(c->ctx, c->node->op)->n - 1);
    if ((mask->kind != FX_ARG_LIST && mask->kind != FX_ARG_TUPLE) || mask->n != n)
        return fx_infer_fail(c, "argument 'output_mask': expected %d truth values", n);
    for (int i = 0; i < n; i++)
        if (mask->items[i]->kind == FX_ARG_BOOL && !mask->items[i]->b)
            t[i] = nothing(c, t[i]->dtype);
    c->result = fx_type_tuple(c->ctx, n, t);
    return FX_OK;
}

/* grad_out and input: floats of one dtype and shape. */
static fx_status with_input(const fx_infer *c, const fx_type **x, int rank)
{
    const fx_type *g;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(fx_infer_tensor(c, 1, x));
    if (!fx_dtype_is_float((*x)->dtype) || g->dtype != (*x)->dtype || !same_shape(g, *x) || (*x)->rank < rank)
        return fx_infer_fail(c, "expected floats of one dtype and shape, of rank %d or more, got %s and %s", rank, fx_infer_text(c, g),
                             fx_infer_text(c, *x));
    return FX_OK;
}

fx_status infer_layer_norm_backward(fx_infer *c)
{
    const fx_type *x, *t;
    fx_dim shape[FX_MAX_RANK];
    int n;
    FX_TRY(with_input(c, &x, 1));
    FX_TRY(fx_infer_dims(c, 2, shape, FX_MAX_RANK, &n));
    if (!fx_infer_ends_with(x, n, shape))
        return fx_infer_fail(c, "argument 'normalized_shape': expected the last sizes of %s", fx_infer_text(c, x));
    for (int p = 3; p < 7; p++) {
        fx_dim want[FX_MAX_RANK];
        int rank = p < 5 ? x->rank : n;
        for (int i = 0; i < rank; i++)
            want[i] = p >= 5 ? shape[i] : i < x->rank - n ? x->dims[i] : fx_dim_of(1);
        FX_TRY(p < 5 ? fx_infer_tensor(c, p, &t) : fx_infer_optional(c, p, &t));
        if (t && (!fx_dtype_is_float(t->dtype) || !same_shape(t, fx_type_tensor(c->ctx, t->dtype, rank, want, NULL))))
            return fx_infer_fail(c, "argument '%s': %s does not fit %s", fx_op_schema(c->ctx, c->node->op)->params[p].name, fx_infer_text(c, t),
                                 fx_infer_text(c, x));
    }
    FX_TRY(fx_infer_optional(c, 5, &t));
    fx_dtype dtype = t ? t->dtype : x->dtype;
    const fx_type *w = fx_type_tensor(c->ctx, dtype, n, shape, NULL);
    return masked(c, 3, (const fx_type *[]){fx_type_tensor(c->ctx, x->dtype, x->rank, x->dims, NULL), w, w});
}

fx_status infer_group_norm_backward(fx_infer *c)
{
    const fx_type *x, *t;
    FX_TRY(with_input(c, &x, 2));
    int64_t groups = fx_node_int(c->node, 8);
    if (groups <= 0 || (!x->dims[1].sym && x->dims[1].value % groups))
        return fx_infer_fail(c, "expected channels that %" PRId64 " groups divide, got %s", groups, fx_infer_text(c, x));
    const fx_type *stat = fx_type_tensor(c->ctx, x->dtype, 2, (fx_dim[]){x->dims[0], fx_dim_of(groups)}, NULL);
    for (int p = 2; p < 4; p++) {
        FX_TRY(fx_infer_tensor(c, p, &t));
        if (!fx_dtype_is_float(t->dtype) || !same_shape(t, stat))
            return fx_infer_fail(c, "expected mean and rstd for each group of %s, got %s", fx_infer_text(c, x), fx_infer_text(c, t));
    }
    FX_TRY(fx_infer_optional(c, 4, &t));
    if (t && (!fx_dtype_is_float(t->dtype) || t->rank != 1 || fx_dim_differ(t->dims[0], x->dims[1])))
        return fx_infer_fail(c, "argument 'weight': expected one for each channel of %s, got %s", fx_infer_text(c, x), fx_infer_text(c, t));
    const fx_type *w = fx_type_tensor(c->ctx, t ? t->dtype : x->dtype, 1, &x->dims[1], NULL);
    return masked(c, 3, (const fx_type *[]){fx_type_tensor(c->ctx, x->dtype, x->rank, x->dims, NULL), w, w});
}

/* grad_out, out [B, H, L, Ev]; query [B, H, L, E]; key [B, H, S, E]; value [B, H, S, Ev]; logsumexp [B, H, L]. */
fx_status infer_attention_backward(fx_infer *c)
{
    const fx_type *t[6], *mask;
    for (int i = 0; i < 6; i++)
        FX_TRY(fx_infer_tensor(c, i, &t[i]));
    bool ok = fx_dtype_is_float(t[1]->dtype);
    for (int i = 0; ok && i < 5; i++)
        ok = t[i]->rank == 4 && t[i]->dtype == t[1]->dtype && !fx_dim_differ(t[i]->dims[0], t[1]->dims[0]) && !fx_dim_differ(t[i]->dims[1], t[1]->dims[1]);
    ok = ok && same_shape(t[0], t[4]) && !fx_dim_differ(t[0]->dims[2], t[1]->dims[2]) && !fx_dim_differ(t[0]->dims[3], t[3]->dims[3]) &&
         !fx_dim_differ(t[1]->dims[3], t[2]->dims[3]) && !fx_dim_differ(t[2]->dims[2], t[3]->dims[2]) && t[5]->rank == 3 &&
         fx_dtype_is_float(t[5]->dtype);
    for (int i = 0; ok && i < 3; i++)
        ok = !fx_dim_differ(t[5]->dims[i], t[1]->dims[i]);
    if (!ok)
        return fx_infer_fail(c, "expected grad_out and out [B, H, L, Ev], query [B, H, L, E], key [B, H, S, E], value [B, H, S, Ev] and logsumexp "
                             "[B, H, L], got %s, %s, %s, %s, %s, %s", fx_infer_text(c, t[0]), fx_infer_text(c, t[4]), fx_infer_text(c, t[1]),
                             fx_infer_text(c, t[2]), fx_infer_text(c, t[3]), fx_infer_text(c, t[5]));
    if (fx_node_float(c->node, 6) != 0)
        return fx_infer_refuse(c, "dropout in attention's own kernel is not supported");
    FX_TRY(fx_infer_optional(c, 8, &mask));
    if (mask) {
        fx_dim scores[4] = {t[1]->dims[0], t[1]->dims[1], t[1]->dims[2], t[2]->dims[2]};
        ok = mask->rank <= 4 && (mask->dtype == FX_BOOL || mask->dtype == t[1]->dtype || mask->dtype == FX_F32);
        for (int i = 0; ok && i < mask->rank; i++)
            ok = fx_dim_is(mask->dims[i], 1) || !fx_dim_differ(mask->dims[i], scores[4 - mask->rank + i]);
        if (!ok)
            return fx_infer_fail(c, "argument 'attn_mask': %s does not broadcast to the scores", fx_infer_text(c, mask));
    }
    for (int i = 0; i < 3; i++)
        t[i] = fx_type_tensor(c->ctx, t[1]->dtype, 4, t[i + 1]->dims, NULL);
    c->result = fx_type_tuple(c->ctx, 3, t);
    return FX_OK;
}

/* ---- what gathers ------------------------------------------------------------------------------------------------------- */

/* grad_output [.., D], indices [..]: [num_weights, D] */
fx_status infer_embedding_backward(fx_infer *c)
{
    const fx_type *g, *index;
    fx_dim dims[2];
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(fx_infer_tensor(c, 1, &index));
    FX_TRY(fx_infer_dim(c, 2, &dims[0]));
    bool ok = fx_dtype_is_float(g->dtype) && g->rank == index->rank + 1 && (index->dtype == FX_I64 || index->dtype == FX_I32);
    for (int i = 0; ok && i < index->rank; i++)
        ok = !fx_dim_differ(g->dims[i], index->dims[i]);
    if (!ok)
        return fx_infer_fail(c, "expected indices of int64 or int32 and a row of floats for each, got %s and %s", fx_infer_text(c, index),
                             fx_infer_text(c, g));
    if (!dims[0].sym && dims[0].value < 0)
        return fx_infer_fail(c, "argument 'num_weights': expected no negative number, got %" PRId64, dims[0].value);
    dims[1] = g->dims[g->rank - 1];
    return fx_infer_set(c, g->dtype, 2, dims);
}

/* select_backward, slice_backward: the sizes given; grad_output is the part of them. */
fx_status infer_part_backward(fx_infer *c)
{
    const fx_type *g;
    fx_dim dims[FX_MAX_RANK], at;
    int n, axis;
    bool select = c->node->op->id == FX_OP_select_backward;
    FX_TRY(fx_infer_tensor(c, 0, &g));
    FX_TRY(fx_infer_dims(c, 1, dims, FX_MAX_RANK, &n));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), n, &axis));
    FX_TRY(fx_infer_dim(c, 3, &at));
    bool ok = n > 0 && g->rank == (select ? n - 1 : n) && !fx_dtype_is_complex(g->dtype);
    for (int i = 0, k = 0; ok && i < n; i++) {
        if (i != axis)
            ok = !fx_dim_differ(g->dims[k], dims[i]);
        k += !(select && i == axis);
    }
    if (!ok)
        return fx_infer_fail(c, "argument 'grad_output': %s is no part of the sizes given", fx_infer_text(c, g));
    if (select && !at.sym && !dims[axis].sym && (at.value < -dims[axis].value || at.value >= dims[axis].value))
        return fx_infer_fail(c, "argument 'index': expected one of the %" PRId64 " of dim %d, got %" PRId64, dims[axis].value, axis, at.value);
    if (!select) {
        fx_dim end;
        int64_t step = fx_node_int(c->node, 5);
        FX_TRY(fx_infer_dim(c, 4, &end));
        if (step < 1)
            return fx_infer_fail(c, "argument 'step': expected 1 or more, got %" PRId64, step);
        if (!at.sym && !end.sym && !dims[axis].sym && !g->dims[axis].sym) {
            int64_t size = dims[axis].value, lo = at.value < 0 ? at.value + size : at.value, hi = end.value < 0 ? end.value + size : end.value;
            lo = lo < 0 ? 0 : lo > size ? size : lo;
            hi = hi < lo ? lo : hi > size ? size : hi;
            if (g->dims[axis].value != (hi - lo + step - 1) / step)
                return fx_infer_fail(c, "argument 'grad_output': expected %" PRId64 " elements in dim %d, got %s", (hi - lo + step - 1) / step, axis,
                                     fx_infer_text(c, g));
        }
    }
    return fx_infer_set(c, g->dtype, n, dims);
}
