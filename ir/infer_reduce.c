/* ir/infer_reduce.c: result types of reductions, softmax and norms.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>

#include "ir/ops.h"

static int reduced_dims(const fx_type *x, uint32_t mask, bool keep, fx_dim *dims)
{
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (!(mask & (1u << i)))
            dims[rank++] = x->dims[i];
        else if (keep)
            dims[rank++] = fx_dim_of(1);
    }
    return rank;
}

fx_status infer_reduce(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    uint32_t mask;
    bool keep = false;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    fx_dtype dtype = x->dtype;
    fx_opid id = c->node->op->id;
    if (fx_dtype_is_complex(dtype))
        return fx_infer_refuse(c, "dtype %s is not supported", fx_dtype_name(dtype));
    switch (id) {
    case FX_OP_max: case FX_OP_min:
        mask = (1u << x->rank) - 1;
        for (int i = 0; i < x->rank; i++)
            if (fx_dim_is(x->dims[i], 0))
                return fx_infer_fail(c, "expected at least one element to reduce, got %s", fx_infer_text(c, x));
        break;
    case FX_OP_std: case FX_OP_var:
        mask = (1u << x->rank) - 1;
        break;
    case FX_OP_sum: case FX_OP_mean:
        mask = (1u << x->rank) - 1;
        dtype = fx_infer_dtype(c, 1, dtype);
        break;
    case FX_OP_sum_dim_IntList: case FX_OP_mean_dim:
        FX_TRY(fx_infer_axes(c, 1, x->rank, true, &mask));
        keep = fx_node_bool(c->node, 2);
        dtype = fx_infer_dtype(c, 3, dtype);
        break;
    case FX_OP_var_correction: case FX_OP_std_correction: case FX_OP_var_mean_correction: case FX_OP_std_mean_correction: case FX_OP_std_dim:
    case FX_OP_var_dim:
        FX_TRY(fx_infer_axes(c, 1, x->rank, true, &mask));
        keep = fx_node_bool(c->node, 3);
        break;
    default: /* amax, amin */
        FX_TRY(fx_infer_axes(c, 1, x->rank, true, &mask));
        keep = fx_node_bool(c->node, 2);
        for (int i = 0; i < x->rank; i++)
            if ((mask & (1u << i)) && fx_dim_is(x->dims[i], 0))
                return fx_infer_fail(c, "expected at least one element to reduce on dim %d of %s", i, fx_infer_text(c, x));
        break;
    }
    bool sum = id == FX_OP_sum || id == FX_OP_sum_dim_IntList;
    if (sum && fx_dtype_is_int(x->dtype) && dtype == x->dtype && fx_node_arg(c->node, id == FX_OP_sum ? 1 : 3)->kind != FX_ARG_DTYPE)
        dtype = FX_I64;
    bool exact = sum || id == FX_OP_max || id == FX_OP_min || id == FX_OP_amax || id == FX_OP_amin;
    if (!exact && !fx_dtype_is_float(dtype))
        return fx_infer_fail(c, "expected a float type, got %s", fx_dtype_name(dtype));
    FX_TRY(fx_infer_set(c, dtype, reduced_dims(x, mask, keep, dims), dims));
    if (id == FX_OP_var_mean_correction || id == FX_OP_std_mean_correction)
        c->result = fx_type_tuple(c->ctx, 2, (const fx_type *[]){c->result, c->result});
    return FX_OK;
}

fx_status infer_argmax(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    uint32_t mask = ~0u;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    if (fx_dtype_is_complex(x->dtype) || x->dtype == FX_BOOL)
        return fx_infer_fail(c, "expected numbers, got %s", fx_infer_text(c, x));
    if (!fx_node_is_none(c->node, 1)) {
        int axis;
        FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
        mask = 1u << axis;
    }
    for (int i = 0; i < x->rank; i++)
        if ((mask & (1u << i)) && fx_dim_is(x->dims[i], 0))
            return fx_infer_fail(c, "expected at least one element to reduce on dim %d of %s", i, fx_infer_text(c, x));
    return fx_infer_set(c, FX_I64, reduced_dims(x, mask, fx_node_bool(c->node, 2), dims), dims);
}

/* Norms, logsumexp, count_nonzero. */
fx_status infer_norm(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    fx_opid id = c->node->op->id;
    uint32_t mask;
    bool keep = false;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    fx_dtype dtype = x->dtype;
    mask = (1u << x->rank) - 1;
    switch (id) {
    case FX_OP_linalg_vector_norm:
        FX_TRY(fx_infer_axes(c, 2, x->rank, true, &mask));
        keep = fx_node_bool(c->node, 3);
        dtype = fx_infer_dtype(c, 4, dtype);
        break;
    case FX_OP_norm_ScalarOpt_dim:
        FX_TRY(fx_infer_axes(c, 2, x->rank, true, &mask));
        keep = fx_node_bool(c->node, 3);
        break;
    case FX_OP_logsumexp:
        FX_TRY(fx_infer_axes(c, 1, x->rank, true, &mask));
        keep = fx_node_bool(c->node, 2);
        dtype = fx_dtype_is_int(dtype) ? FX_F32 : dtype;
        break;
    case FX_OP_count_nonzero_dim_IntList:
        FX_TRY(fx_infer_axes(c, 1, x->rank, true, &mask));
        return fx_infer_set(c, FX_I64, reduced_dims(x, mask, false, dims), dims);
    default:
        break;
    }
    if (!fx_dtype_is_float(dtype))
        return fx_infer_fail(c, "expected a float type, got %s", fx_dtype_name(dtype));
    return fx_infer_set(c, dtype, reduced_dims(x, mask, keep, dims), dims);
}

/* prod: over one dim or all; integers are summed up in int64 as in a sum. */
fx_status infer_prod(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    bool all = c->node->op->id == FX_OP_prod;
    uint32_t mask;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    if (fx_dtype_is_complex(x->dtype))
        return fx_infer_refuse(c, "dtype %s is not supported", fx_dtype_name(x->dtype));
    mask = (1u << x->rank) - 1;
    if (!all)
        FX_TRY(fx_infer_axes(c, 1, x->rank, false, &mask));
    fx_dtype dtype = fx_infer_dtype(c, all ? 1 : 3, fx_dtype_is_int(x->dtype) ? FX_I64 : x->dtype);
    return fx_infer_set(c, dtype, reduced_dims(x, mask, !all && fx_node_bool(c->node, 2), dims), dims);
}

/* any, all: bool, but uint8 stays uint8. */
fx_status infer_any(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    fx_opid id = c->node->op->id;
    bool all = id == FX_OP_any || id == FX_OP_all;
    uint32_t mask;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    mask = (1u << x->rank) - 1;
    if (!all)
        FX_TRY(fx_infer_axes(c, 1, x->rank, fx_node_is_none(c->node, 1), &mask));
    return fx_infer_set(c, x->dtype == FX_U8 ? FX_U8 : FX_BOOL, reduced_dims(x, mask, !all && fx_node_bool(c->node, 2), dims), dims);
}

fx_status infer_softmax(fx_infer *c)
{
    const fx_type *x;
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    fx_opid id = c->node->op->id;
    fx_dtype dtype = x->dtype;
    if (id == FX_OP_softmax_int || id == FX_OP_log_softmax_int || id == FX_OP__safe_softmax)
        dtype = fx_infer_dtype(c, 2, dtype);
    else if (fx_node_bool(c->node, 2))
        return fx_infer_refuse(c, "half_to_float is not supported");
    if (!fx_dtype_is_float(dtype))
        return fx_infer_fail(c, "expected floats, got %s", fx_infer_text(c, x));
    return fx_infer_set(c, dtype, x->rank, x->dims);
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

fx_status fx_infer_vectors(const fx_infer *c, int first, int count, fx_dim n, fx_dtype *dtype)
{
    for (int i = first; i < first + count; i++) {
        const fx_type *t;
        FX_TRY(fx_infer_optional(c, i, &t));
        if (t && (t->rank != 1 || fx_dim_differ(t->dims[0], n) || !fx_dtype_is_float(t->dtype)))
            return fx_infer_fail(c, "argument %d: expected a float vector of %" PRId64 " elements, got %s", i, n.value,
                                 fx_infer_text(c, t));
        if (t && dtype)
            *dtype = t->dtype;
    }
    return FX_OK;
}

static fx_status float_input(const fx_infer *c, const fx_type **x, int min_rank)
{
    FX_TRY(fx_infer_tensor(c, 0, x));
    if (!fx_dtype_is_float((*x)->dtype) || (*x)->rank < min_rank)
        return fx_infer_fail(c, "expected floats of rank %d or more, got %s", min_rank, fx_infer_text(c, *x));
    return FX_OK;
}

bool fx_infer_ends_with(const fx_type *x, int n, const fx_dim *dims)
{
    bool ok = n >= 1 && n <= x->rank;
    for (int i = 0; ok && i < n; i++)
        ok = !fx_dim_differ(dims[i], x->dims[x->rank - n + i]);
    return ok;
}

/* The type of a statistic of x over its last n dims, which stay with size 1. */
static const fx_type *row_statistic(fx_infer *c, const fx_type *x, int n, fx_dtype dtype)
{
    fx_dim dims[FX_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        dims[i] = i < x->rank - n ? x->dims[i] : fx_dim_of(1);
    return fx_type_tensor(c->ctx, dtype, x->rank, dims, NULL);
}

fx_status infer_layer_norm(fx_infer *c)
{
    const fx_type *x, *t;
    fx_dim shape[FX_MAX_RANK];
    int n;
    FX_TRY(float_input(c, &x, 1));
    FX_TRY(fx_infer_dims(c, 1, shape, FX_MAX_RANK, &n));
    if (!fx_infer_ends_with(x, n, shape))
        return fx_infer_fail(c, "argument 'normalized_shape': expected the last sizes of %s", fx_infer_text(c, x));
    for (int p = 2; p < 4; p++) {
        FX_TRY(fx_infer_optional(c, p, &t));
        if (t && (t->rank != n || !fx_dtype_is_float(t->dtype) || !fx_infer_ends_with(t, n, shape)))
            return fx_infer_fail(c, "argument %d: expected the last sizes of %s, got %s", p, fx_infer_text(c, x), fx_infer_text(c, t));
    }
    FX_TRY(fx_infer_set(c, x->dtype, x->rank, x->dims));
    if (c->node->op->id == FX_OP_layer_norm)
        return FX_OK;
    const fx_type *stat = row_statistic(c, x, n, x->dtype);
    c->result = fx_type_tuple(c->ctx, 3, (const fx_type *[]){c->result, stat, stat});
    return FX_OK;
}

/* Root mean square: no mean is taken away, nothing is added. The second result is in the dtype eager accumulates in. */
fx_status infer_rms_norm(fx_infer *c)
{
    const fx_type *x, *w;
    fx_dim shape[FX_MAX_RANK];
    int n;
    FX_TRY(float_input(c, &x, 1));
    FX_TRY(fx_infer_dims(c, 1, shape, FX_MAX_RANK, &n));
    FX_TRY(fx_infer_optional(c, 2, &w));
    if (!fx_infer_ends_with(x, n, shape) || (w && (w->rank != n || !fx_infer_ends_with(w, n, shape))))
        return fx_infer_fail(c, "argument 'normalized_shape': expected the last sizes of %s, and a weight of them", fx_infer_text(c, x));
    if (w && !fx_dtype_is_float(w->dtype))
        return fx_infer_fail(c, "argument 'weight': expected floats, got %s", fx_infer_text(c, w));
    FX_TRY(fx_infer_set(c, w ? fx_promote_types(x->dtype, w->dtype) : x->dtype, x->rank, x->dims));
    if (c->node->op->id == FX_OP_rms_norm)
        return FX_OK;
    const fx_type *stat = row_statistic(c, x, n, x->dtype == FX_F64 ? FX_F64 : FX_F32);
    c->result = fx_type_tuple(c->ctx, 2, (const fx_type *[]){c->result, stat});
    return FX_OK;
}

/* query [.., Hq, L, E], key [.., H, S, E], value [.., H, S, Ev]: [.., Hq, L, Ev]. Hq is a multiple of H where enable_gqa; batches broadcast. */
fx_status infer_attention(fx_infer *c)
{
    const fx_type *t[3], *mask;
    fx_dim batch[FX_MAX_RANK], dims[FX_MAX_RANK];
    bool flash = c->node->op->id == FX_OP__scaled_dot_product_flash_attention_for_cpu, gqa = !flash && fx_node_bool(c->node, 7);
    int n = 0;
    for (int i = 0; i < 3; i++) {
        FX_TRY(fx_infer_tensor(c, i, &t[i]));
        if (!fx_dtype_is_float(t[i]->dtype) || t[i]->rank < 2 || t[i]->dtype != t[0]->dtype)
            return fx_infer_fail(c, "expected floats of one dtype, of rank 2 or more, got %s", fx_infer_text(c, t[i]));
    }
    int r = t[0]->rank;
    if (fx_dim_differ(t[0]->dims[r - 1], t[1]->dims[t[1]->rank - 1]) ||
        fx_dim_differ(t[1]->dims[t[1]->rank - 2], t[2]->dims[t[2]->rank - 2]))
        return fx_infer_fail(c, "expected key [.., S, E] and value [.., S, Ev] for query [.., L, E], got %s, %s, %s", fx_infer_text(c, t[0]),
                             fx_infer_text(c, t[1]), fx_infer_text(c, t[2]));
    if (fx_node_float(c->node, flash ? 3 : 4) != 0)
        return fx_infer_refuse(c, "dropout in attention: call model.eval() before torch.export");
    for (int i = 0; i < 3; i++) {
        fx_dim lead[FX_MAX_RANK];
        memcpy(lead, t[i]->dims, (size_t)(t[i]->rank - 2) * sizeof *lead);
        if (gqa && i && t[i]->rank >= 3 && r >= 3) {
            fx_dim hq = t[0]->dims[r - 3], h = lead[t[i]->rank - 3];
            if (!hq.sym && !h.sym && (h.value == 0 || hq.value % h.value))
                return fx_infer_fail(c, "expected query heads that are a multiple of key heads, got %s and %s", fx_infer_text(c, t[0]),
                                     fx_infer_text(c, t[i]));
            lead[t[i]->rank - 3] = hq;
        }
        const fx_type *b = fx_type_tensor(c->ctx, t[i]->dtype, t[i]->rank - 2, lead, NULL);
        FX_TRY(fx_infer_broadcast(c, &n, batch, b));
    }
    memcpy(dims, batch, (size_t)n * sizeof *dims);
    dims[n] = t[0]->dims[r - 2];
    dims[n + 1] = t[1]->dims[t[1]->rank - 2];
    for (int k = 0; k < (c->node->op->id == FX_OP_attention ? 2 : 1); k++) {
        const char *name = k ? "bias" : "attn_mask";
        FX_TRY(fx_infer_optional(c, k ? 9 : flash ? 5 : 3, &mask));
        if (!mask)
            continue;
        if ((k || mask->dtype != FX_BOOL) && mask->dtype != t[0]->dtype && mask->dtype != FX_F32)
            return fx_infer_fail(c, "argument '%s': expected %s%s, got %s", name, k ? "" : "bool or ", fx_dtype_name(t[0]->dtype), fx_infer_text(c, mask));
        bool ok = mask->rank <= n + 2;
        for (int i = 0; ok && i < mask->rank; i++)
            ok = fx_dim_is(mask->dims[i], 1) || !fx_dim_differ(mask->dims[i], dims[n + 2 - mask->rank + i]);
        if (!ok)
            return fx_infer_fail(c, "argument '%s': %s does not broadcast to the scores", name, fx_infer_text(c, mask));
    }
    dims[n + 1] = t[2]->dims[t[2]->rank - 1];
    FX_TRY(fx_infer_set(c, t[0]->dtype, n + 2, dims));
    if (flash) { /* the logarithms of the sums, which only training reads */
        const fx_type *sums = fx_type_tensor(c->ctx, t[0]->dtype == FX_F64 ? FX_F64 : FX_F32, n + 1, dims, NULL);
        c->result = fx_type_tuple(c->ctx, 2, (const fx_type *[]){c->result, sums});
    }
    return FX_OK;
}

fx_status infer_instance_norm(fx_infer *c)
{
    const fx_type *x;
    FX_TRY(float_input(c, &x, 2));
    if (!fx_node_bool(c->node, 5))
        return fx_infer_refuse(c, "with running statistics is not supported");
    FX_TRY(fx_infer_vectors(c, 1, 2, x->dims[1], NULL));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

fx_status infer_group_norm(fx_infer *c)
{
    const fx_type *x;
    bool native = c->node->op->id == FX_OP_native_group_norm;
    FX_TRY(float_input(c, &x, 2));
    int64_t groups = fx_node_int(c->node, native ? 6 : 1);
    if (groups <= 0 || (!x->dims[1].sym && x->dims[1].value % groups))
        return fx_infer_fail(c, "expected channels that %" PRId64 " groups divide, got %s", groups, fx_infer_text(c, x));
    FX_TRY(fx_infer_vectors(c, native ? 1 : 2, 2, x->dims[1], NULL));
    FX_TRY(fx_infer_set(c, x->dtype, x->rank, x->dims));
    if (native) {
        const fx_type *stat = fx_type_tensor(c->ctx, x->dtype, 2, (fx_dim[]){x->dims[0], fx_dim_of(groups)}, NULL);
        c->result = fx_type_tuple(c->ctx, 3, (const fx_type *[]){c->result, stat, stat});
    }
    return FX_OK;
}
