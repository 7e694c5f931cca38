/* ir/infer_index.c: result types of operators that read or write where other tensors say: gather, index, scatter; and of those that
 * order a dim: topk, sort, cumulative sums.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>

#include "ir/ops.h"

static bool is_index(const fx_type *t)
{
    return t->dtype == FX_I64 || t->dtype == FX_I32;
}

/* ---- gathering -------------------------------------------------------------------------------------------------- */

fx_status infer_embedding(fx_infer *c)
{
    const fx_type *w, *index;
    fx_dim dims[FX_MAX_RANK + 1];
    FX_TRY(fx_infer_tensor(c, 0, &w));
    FX_TRY(fx_infer_tensor(c, 1, &index));
    if (w->rank != 2 || (index->dtype != FX_I64 && index->dtype != FX_I32))
        return fx_infer_fail(c, "expected a weight of rank 2 and indices of int64 or int32, got %s and %s", fx_infer_text(c, w),
                             fx_infer_text(c, index));
    for (int i = 0; i < index->rank; i++)
        dims[i] = index->dims[i];
    dims[index->rank] = w->dims[1];
    return fx_infer_set(c, w->dtype, index->rank + 1, dims);
}

fx_status infer_index_select(fx_infer *c)
{
    const fx_type *x, *index;
    fx_dim dims[FX_MAX_RANK];
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    FX_TRY(fx_infer_tensor(c, 2, &index));
    if (index->rank > 1 || (index->dtype != FX_I64 && index->dtype != FX_I32))
        return fx_infer_fail(c, "argument 'index': expected a vector of int64 or int32, got %s", fx_infer_text(c, index));
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    if (x->rank)
        dims[axis] = index->rank ? index->dims[0] : fx_dim_of(1);
    return fx_infer_set(c, x->dtype, x->rank, dims);
}

/* gather: the index's shape; it may be smaller than x in every dim but `dim`, where anything goes. */
fx_status infer_gather(fx_infer *c)
{
    const fx_type *x, *index;
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    FX_TRY(fx_infer_tensor(c, 2, &index));
    if (!is_index(index))
        return fx_infer_fail(c, "argument 'index': expected int64 or int32, got %s", fx_infer_text(c, index));
    bool ok = (index->rank ? index->rank : 1) == (x->rank ? x->rank : 1);
    for (int i = 0; ok && i < index->rank && i < x->rank; i++)
        ok = i == axis || index->dims[i].sym || x->dims[i].sym || index->dims[i].value <= x->dims[i].value;
    if (!ok)
        return fx_infer_fail(c, "argument 'index': expected the rank of %s and no greater sizes but in dim %d, got %s", fx_infer_text(c, x),
                             axis, fx_infer_text(c, index));
    return fx_infer_set(c, x->dtype, index->rank, index->dims);
}

/* scatter: like self; index within src, and within self but in `dim`. */
fx_status infer_scatter(fx_infer *c)
{
    const fx_type *x, *index, *src = NULL;
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    FX_TRY(fx_infer_tensor(c, 2, &index));
    if (c->node->op->id != FX_OP_scatter_value) {
        FX_TRY(fx_infer_tensor(c, 3, &src));
        if (src->dtype != x->dtype)
            return fx_infer_fail(c, "expected one dtype, got %s and %s", fx_infer_text(c, x), fx_infer_text(c, src));
    }
    if (!is_index(index))
        return fx_infer_fail(c, "argument 'index': expected int64 or int32, got %s", fx_infer_text(c, index));
    int rank = x->rank ? x->rank : 1;
    bool ok = (index->rank ? index->rank : 1) == rank && (!src || (src->rank ? src->rank : 1) == rank);
    for (int i = 0; ok && i < index->rank; i++) {
        fx_dim d = index->dims[i];
        ok = d.sym || ((i == axis || i >= x->rank || x->dims[i].sym || d.value <= x->dims[i].value) &&
                       (!src || i >= src->rank || src->dims[i].sym || d.value <= src->dims[i].value));
    }
    if (!ok)
        return fx_infer_fail(c, "argument 'index': expected no greater sizes than those of %s%s%s, got %s", fx_infer_text(c, x),
                             src ? " and of " : "", src ? fx_infer_text(c, src) : "", fx_infer_text(c, index));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

/* The shape of x[indices]: index tensors broadcast to one shape, which stands where they stood if they stood side by side, else first. */
static fx_status indexed(const fx_infer *c, const fx_type *x, fx_dim *dims, int *rank)
{
    const fx_arg *list = fx_node_arg(c->node, 1);
    fx_dim shape[FX_MAX_RANK];
    int n_shape = 0, first = -1, last = -1;
    if ((list->kind != FX_ARG_LIST && list->kind != FX_ARG_TUPLE) || list->n > x->rank)
        return fx_infer_fail(c, "argument 'indices': expected at most %d indices", x->rank);
    for (int i = 0; i < list->n; i++) {
        const fx_arg *a = list->items[i];
        if (a->kind == FX_ARG_NONE)
            continue;
        const fx_type *t = a->kind == FX_ARG_NODE ? fx_infer_operand(c, (int)a->i) : NULL;
        if (!t || t->kind != FX_TYPE_TENSOR)
            return fx_infer_fail(c, "argument 'indices': expected a tensor or None as item %d", i);
        if (t->dtype == FX_BOOL || t->dtype == FX_U8)
            return fx_infer_refuse(c, "indexing by a mask: the result's size would depend on data");
        if (!is_index(t))
            return fx_infer_fail(c, "argument 'indices': expected int64 or int32, got %s", fx_infer_text(c, t));
        FX_TRY(fx_infer_broadcast(c, &n_shape, shape, t));
        if (first < 0)
            first = i;
        last = i;
    }
    if (first < 0)
        return fx_infer_fail(c, "argument 'indices': expected at least one tensor");
    bool adjacent = true;
    for (int i = first; i <= last; i++)
        adjacent = adjacent && list->items[i]->kind != FX_ARG_NONE;
    int at = adjacent ? first : 0, n = 0, kept = 0;
    fx_dim out[2 * FX_MAX_RANK];
    for (int i = 0; i <= x->rank; i++) {
        if (kept == at && n == kept)
            for (int k = 0; k < n_shape; k++)
                out[n++] = shape[k];
        if (i < x->rank && (i >= list->n || list->items[i]->kind == FX_ARG_NONE)) {
            out[n++] = x->dims[i];
            kept++;
        }
    }
    if (n > FX_MAX_RANK)
        return fx_infer_refuse(c, "expected a result of rank at most %d, got %d", FX_MAX_RANK, n);
    memcpy(dims, out, (size_t)n * sizeof *dims);
    *rank = n;
    return FX_OK;
}

fx_status infer_index(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    int rank;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(indexed(c, x, dims, &rank));
    return fx_infer_set(c, x->dtype, rank, dims);
}

/* values broadcast to the shape of self[indices]. */
fx_status infer_index_put(fx_infer *c)
{
    const fx_type *x, *v;
    fx_dim dims[FX_MAX_RANK];
    int rank;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_tensor(c, 2, &v));
    FX_TRY(indexed(c, x, dims, &rank));
    if (v->dtype != x->dtype)
        return fx_infer_fail(c, "expected one dtype, got %s and %s", fx_infer_text(c, x), fx_infer_text(c, v));
    bool ok = v->rank <= rank;
    for (int i = 0; ok && i < v->rank; i++)
        ok = fx_dim_is(v->dims[i], 1) || !fx_dim_differ(v->dims[i], dims[rank - v->rank + i]);
    if (!ok)
        return fx_infer_fail(c, "argument 'values': %s does not broadcast to the elements indexed", fx_infer_text(c, v));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

/* index_fill, index_copy, index_add: slices of dim by a vector of indices. */
fx_status infer_index_write(fx_infer *c)
{
    const fx_type *x, *index, *src;
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    FX_TRY(fx_infer_tensor(c, 2, &index));
    if (index->rank > 1 || !is_index(index))
        return fx_infer_fail(c, "argument 'index': expected a vector of int64 or int32, got %s", fx_infer_text(c, index));
    if (c->node->op->id != FX_OP_index_fill_int_Scalar) {
        FX_TRY(fx_infer_tensor(c, 3, &src));
        bool ok = src->rank == x->rank && src->dtype == x->dtype;
        for (int i = 0; ok && i < x->rank; i++)
            ok = !fx_dim_differ(src->dims[i], i != axis ? x->dims[i] : index->rank ? index->dims[0] : fx_dim_of(1));
        if (!ok)
            return fx_infer_fail(c, "argument 'source': %s does not fit %s", fx_infer_text(c, src), fx_infer_text(c, x));
    }
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

/* The sizes of self and indices broadcast, but for dim; without dim self is a vector. */
fx_status infer_take_along(fx_infer *c)
{
    const fx_type *x, *index;
    fx_dim dims[FX_MAX_RANK];
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_tensor(c, 1, &index));
    if (index->dtype != FX_I64)
        return fx_infer_fail(c, "argument 'indices': expected int64, got %s", fx_infer_text(c, index));
    if (fx_node_is_none(c->node, 2)) {
        dims[0] = fx_dim_of(1);
        for (int i = 0; i < index->rank; i++)
            dims[0] = fx_dim_mul(c->ctx, dims[0], index->dims[i]);
        return fx_infer_set(c, x->dtype, 1, dims);
    }
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank, &axis));
    if (x->rank != index->rank || !x->rank)
        return fx_infer_fail(c, "argument 'indices': expected the rank of %s, got %s", fx_infer_text(c, x), fx_infer_text(c, index));
    for (int i = 0; i < x->rank; i++) {
        fx_dim a = x->dims[i], b = index->dims[i];
        if (i != axis && fx_dim_differ(a, b) && !fx_dim_is(a, 1) && !fx_dim_is(b, 1))
            return fx_infer_fail(c, "sizes of dim %d do not broadcast: %s and %s", i, fx_infer_text(c, x), fx_infer_text(c, index));
        dims[i] = i == axis || fx_dim_is(a, 1) ? b : a;
    }
    return fx_infer_set(c, x->dtype, x->rank, dims);
}

/* ---- the order of a dim ------------------------------------------------------------------------------------------ */

/* Values and indices of one shape. */
static fx_status with_indices(fx_infer *c, fx_dtype dtype, int rank, const fx_dim *dims)
{
    FX_TRY(fx_infer_set(c, dtype, rank, dims));
    const fx_type *index = fx_type_tensor(c->ctx, FX_I64, rank, dims, NULL);
    c->result = fx_type_tuple(c->ctx, 2, (const fx_type *[]){c->result, index});
    return FX_OK;
}

fx_status infer_topk(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK], k;
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_dim(c, 1, &k));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank, &axis));
    if (fx_dtype_is_complex(x->dtype) || x->dtype == FX_BOOL)
        return fx_infer_fail(c, "expected numbers, got %s", fx_infer_text(c, x));
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    fx_dim have = x->rank ? x->dims[axis] : fx_dim_of(1);
    if (!k.sym && (k.value < 0 || (!have.sym && k.value > have.value)))
        return fx_infer_fail(c, "argument 'k': expected at most the size of dim %d of %s, got %" PRId64, axis, fx_infer_text(c, x), k.value);
    dims[axis] = k;
    return with_indices(c, x->dtype, x->rank, dims);
}

fx_status infer_sort(fx_infer *c)
{
    const fx_type *x;
    int axis;
    fx_opid id = c->node->op->id;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, id == FX_OP_sort_stable || id == FX_OP_argsort_stable ? 2 : 1), x->rank, &axis));
    if (fx_dtype_is_complex(x->dtype))
        return fx_infer_fail(c, "expected numbers, got %s", fx_infer_text(c, x));
    if (id == FX_OP_argsort || id == FX_OP_argsort_stable)
        return fx_infer_set(c, FX_I64, x->rank, x->dims);
    return with_indices(c, x->dtype, x->rank, x->dims);
}

/* max.dim, min.dim */
fx_status infer_extreme_dim(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    int axis, rank = 0;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    if (fx_dtype_is_complex(x->dtype))
        return fx_infer_fail(c, "expected numbers, got %s", fx_infer_text(c, x));
    if (x->rank && fx_dim_is(x->dims[axis], 0))
        return fx_infer_fail(c, "expected at least one element to reduce on dim %d of %s", axis, fx_infer_text(c, x));
    for (int i = 0; i < x->rank; i++)
        if (i != axis)
            dims[rank++] = x->dims[i];
        else if (fx_node_bool(c->node, 2))
            dims[rank++] = fx_dim_of(1);
    return with_indices(c, x->dtype, rank, dims);
}

fx_status infer_cumulative(fx_infer *c)
{
    const fx_type *x;
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    if (fx_dtype_is_complex(x->dtype))
        return fx_infer_refuse(c, "dtype %s is not supported", fx_dtype_name(x->dtype));
    return fx_infer_set(c, fx_infer_dtype(c, 2, fx_dtype_is_int(x->dtype) ? FX_I64 : x->dtype), x->rank, x->dims);
}
