/* ir/interp_order.c: reference evaluation of operators about the order of a dim: sort, topk, extremes with their places, cumulative sums.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ops.h"

/* t with one dim last. */
static fx_tensor axis_last(const fx_tensor *x, int axis)
{
    fx_tensor t = *x;
    for (int i = axis; i + 1 < x->rank; i++) {
        t.sizes[i] = x->sizes[i + 1];
        t.strides[i] = x->strides[i + 1];
    }
    if (x->rank) {
        t.sizes[x->rank - 1] = x->sizes[axis];
        t.strides[x->rank - 1] = x->strides[axis];
    }
    return t;
}

static int axis_of(const fx_eval *c, int param, int rank)
{
    int64_t v = fx_node_int(c->node, param);
    return (int)(v < 0 ? v + (rank ? rank : 1) : v);
}

/* The rows of a dim as int64 (integers) or double. */
typedef struct rows {
    bool ints;
    int64_t n, count;
    const void *p;
} rows;

static fx_status read_rows(fx_eval *c, const fx_tensor *x, int axis, rows *r)
{
    fx_tensor t = axis_last(x, axis);
    r->ints = fx_dtype_is_int(x->dtype);
    r->n = x->rank ? x->sizes[axis] : 1;
    r->count = r->n ? fx_tensor_numel(x) / r->n : 0;
    return fx_eval_array(c, &t, r->ints ? FX_KIND_INT : FX_KIND_F64, 0, NULL, &r->p);
}

/* Whether element a of row k comes before b; NaN is the greatest. */
static bool before(const rows *r, int64_t k, int64_t a, int64_t b, bool descending)
{
    if (r->ints) {
        const int64_t *v = (const int64_t *)r->p + k * r->n;
        return descending ? v[a] > v[b] : v[a] < v[b];
    }
    const double *v = (const double *)r->p + k * r->n;
    bool nan_a = v[a] != v[a], nan_b = v[b] != v[b];
    return descending ? (nan_a && !nan_b) || v[a] > v[b] : (nan_b && !nan_a) || v[a] < v[b];
}

/* Merge sort, stable: order[0..n) of row k, with room for as many more behind it. */
static void sort_row(const rows *r, int64_t k, bool descending, int64_t *order, int64_t *spare)
{
    int64_t n = r->n;
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * width) {
            int64_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n, a = lo, b = mid;
            for (int64_t i = lo; i < hi; i++)
                spare[i] = a < mid && (b >= hi || !before(r, k, order[b], order[a], descending)) ? order[a++] : order[b++];
        }
        memcpy(order, spare, (size_t)n * sizeof *order);
    }
}

/* Results: the first m of the row's order; index may be NULL, and so may values. */
static fx_status give_order(fx_eval *c, const fx_tensor *x, int axis, const rows *r, int64_t m, bool descending, fx_tensor *values,
                            fx_tensor *index)
{
    int64_t *order = fx_eval_scratch(c, r->n, sizeof *order), *spare = fx_eval_scratch(c, r->n, sizeof *spare);
    fx_tensor from = axis_last(x, axis), v, ix;
    int64_t at[FX_MAX_RANK] = {0};
    size_t size = fx_dtype_size(x->dtype);
    if (values)
        v = axis_last(values, axis);
    if (index)
        ix = axis_last(index, axis);
    for (int64_t k = 0; k < r->count; k++) {
        int64_t f = 0, to_v = 0, to_i = 0;
        for (int d = 0; d + 1 < from.rank; d++) {
            f += at[d] * from.strides[d];
            to_v += values ? at[d] * v.strides[d] : 0;
            to_i += index ? at[d] * ix.strides[d] : 0;
        }
        int64_t step = x->rank ? from.strides[x->rank - 1] : 0;
        sort_row(r, k, descending, order, spare);
        for (int64_t i = 0; i < m; i++) {
            if (values)
                memcpy((char *)v.data + (size_t)(to_v + (x->rank ? i * v.strides[x->rank - 1] : 0)) * size,
                       (const char *)from.data + (f + order[i] * step) * (int64_t)size, size);
            if (index)
                ((int64_t *)ix.data)[to_i + (x->rank ? i * ix.strides[x->rank - 1] : 0)] = order[i];
        }
        for (int d = from.rank - 2; d >= 0 && ++at[d] == from.sizes[d]; d--)
            at[d] = 0;
    }
    return FX_OK;
}

/* sort, sort.stable and argsort; all are stable, as eager's are on CPU. */
fx_status eval_sort(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_opid id = c->node->op->id;
    bool stable = id == FX_OP_sort_stable || id == FX_OP_argsort_stable, args = id == FX_OP_argsort || id == FX_OP_argsort_stable;
    int axis = axis_of(c, stable ? 2 : 1, x->rank);
    rows r;
    FX_TRY(read_rows(c, x, axis, &r));
    fx_tensor *values = args ? NULL : fx_eval_out(c, 0), *index = fx_eval_out(c, args ? 0 : 1);
    return give_order(c, x, axis, &r, r.n, fx_node_bool(c->node, stable ? 3 : 2), values, index);
}

/* Of equal elements the first comes first; eager leaves that open. */
fx_status eval_topk(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    int axis = axis_of(c, 2, x->rank);
    int64_t m;
    rows r;
    FX_TRY(fx_eval_int(c, 1, &m));
    if (x->rank == 0)
        m = 1; /* a scalar is given whatever k is */
    FX_TRY(read_rows(c, x, axis, &r));
    fx_tensor *values = fx_eval_out(c, 0), *index = fx_eval_out(c, 1);
    return give_order(c, x, axis, &r, m, fx_node_bool(c->node, 3), values, index);
}

/* max.dim, min.dim: the extreme and the first place of it; the first NaN wins. */
fx_status eval_extreme_dim(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    bool max = c->node->op->id == FX_OP_max_dim;
    int axis = axis_of(c, 1, x->rank);
    rows r;
    FX_TRY(read_rows(c, x, axis, &r));
    fx_kind kind = r.ints ? FX_KIND_INT : FX_KIND_F64;
    char *v = fx_eval_target(c, 0, kind);
    int64_t *index = fx_eval_out(c, 1)->data;
    for (int64_t k = 0; k < r.count; k++) {
        const double *f = (const double *)r.p + k * r.n;
        const int64_t *q = (const int64_t *)r.p + k * r.n;
        int64_t best = 0;
        for (int64_t i = 1; i < r.n; i++)
            if (r.ints ? (max ? q[i] > q[best] : q[i] < q[best])
                       : f[best] == f[best] && (f[i] != f[i] || (max ? f[i] > f[best] : f[i] < f[best])))
                best = i;
        memcpy(v + k * 8, (const char *)r.p + (k * r.n + best) * 8, 8);
        index[k] = best;
    }
    fx_eval_finish(c, 0, kind, v);
    return FX_OK;
}

/* Sums and products of all elements up to each; integers wrap. */
fx_status eval_cumulative(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    bool product = c->node->op->id == FX_OP_cumprod;
    fx_tensor *out = fx_eval_out(c, 0);
    int axis = axis_of(c, 1, x->rank);
    bool ints = fx_dtype_is_int(out->dtype);
    fx_tensor t = axis_last(x, axis), to = axis_last(out, axis), from = to;
    int64_t n = x->rank ? x->sizes[axis] : 1, count = n ? fx_tensor_numel(x) / n : 0;
    const void *p;
    fx_tensor converted = t;
    if (out->dtype != x->dtype) { /* converted first, as eager does: to uint8 perhaps */
        converted = *out;
        converted.data = fx_eval_scratch(c, fx_tensor_numel(x), fx_dtype_size(out->dtype));
        for (int d = t.rank - 1, first = 1; d >= 0; d--) {
            converted.sizes[d] = t.sizes[d];
            converted.strides[d] = first ? 1 : converted.strides[d + 1] * converted.sizes[d + 1];
            first = 0;
        }
        fx_tensor_assign(&converted, &t);
    }
    FX_TRY(fx_eval_array(c, &converted, ints ? FX_KIND_INT : FX_KIND_F64, 0, NULL, &p));
    int64_t *y = fx_eval_scratch(c, fx_tensor_numel(x), 8);
    for (int64_t k = 0; k < count; k++) {
        const double *f = (const double *)p + k * n;
        const uint64_t *q = (const uint64_t *)p + k * n;
        double sum = product;
        uint64_t total = product;
        for (int64_t i = 0; i < n; i++) {
            sum = ints ? 0 : product ? sum * f[i] : sum + f[i];
            total = !ints ? 0 : product ? total * q[i] : total + q[i];
            memcpy(&y[k * n + i], ints ? (const void *)&total : (const void *)&sum, 8);
        }
    }
    from.data = y;
    from.dtype = ints ? FX_I64 : FX_F64;
    for (int64_t d = to.rank - 1, stride = 1; d >= 0; d--) {
        from.strides[d] = stride;
        stride *= from.sizes[d];
    }
    if (count > 0)
        fx_tensor_assign(&to, &from);
    return FX_OK;
}
