/* ir/infer_copy.c: result types of operators that repeat, move, mask or overwrite the elements of a tensor.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>

#include "ir/ops.h"

/* repeat, tile: dims in front are added; tile takes fewer repeats than dims, too. */
fx_status infer_repeat(fx_infer *c)
{
    const fx_type *x;
    fx_dim by[FX_MAX_RANK], dims[FX_MAX_RANK];
    int n;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_dims(c, 1, by, FX_MAX_RANK, &n));
    if (n < x->rank && c->node->op->id == FX_OP_repeat)
        return fx_infer_fail(c, "argument 'repeats': expected at least %d, got %d", x->rank, n);
    int rank = n > x->rank ? n : x->rank;
    for (int i = 0; i < rank; i++) {
        int a = i - (rank - x->rank), b = i - (rank - n);
        fx_dim one = fx_dim_of(1);
        dims[i] = fx_dim_mul(c->ctx, a >= 0 ? x->dims[a] : one, b >= 0 ? by[b] : one);
    }
    return fx_infer_set(c, x->dtype, rank, dims);
}

fx_status infer_repeat_interleave(fx_infer *c)
{
    const fx_type *x;
    fx_dim by, dims[FX_MAX_RANK];
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_dim(c, 1, &by));
    if (!by.sym && by.value < 0)
        return fx_infer_fail(c, "argument 'repeats': expected a number of at least 0, got %" PRId64, by.value);
    if (fx_node_is_none(c->node, 2)) { /* of all elements */
        dims[0] = by;
        for (int i = 0; i < x->rank; i++)
            dims[0] = fx_dim_mul(c->ctx, dims[0], x->dims[i]);
        return fx_infer_set(c, x->dtype, 1, dims);
    }
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank, &axis));
    if (!x->rank)
        return fx_infer_set(c, x->dtype, 1, &by);
    for (int i = 0; i < x->rank; i++)
        dims[i] = i == axis ? fx_dim_mul(c->ctx, x->dims[i], by) : x->dims[i];
    return fx_infer_set(c, x->dtype, x->rank, dims);
}

fx_status infer_roll(fx_infer *c)
{
    const fx_type *x;
    fx_dim by[FX_MAX_RANK];
    int64_t dims[FX_MAX_RANK];
    int n, m = fx_node_ints(c->node, 2, dims, FX_MAX_RANK), axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_dims(c, 1, by, FX_MAX_RANK, &n));
    if (m < 0 || m > FX_MAX_RANK || (m == 0 ? n != 1 : n != m))
        return fx_infer_fail(c, "expected as many shifts as dims, got %d and %d", n, m);
    for (int i = 0; i < m; i++)
        FX_TRY(fx_infer_axis(c, dims[i], x->rank, &axis));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

fx_status infer_triangle(fx_infer *c)
{
    const fx_type *x;
    fx_dim d;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_dim(c, 1, &d));
    if (x->rank < 2)
        return fx_infer_fail(c, "expected rank 2 or more, got %s", fx_infer_text(c, x));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

/* select_scatter, slice_scatter: self with what a select or slice of it shows replaced. */
fx_status infer_overwrite(fx_infer *c)
{
    const fx_type *x, *src;
    int axis;
    bool slice = c->node->op->id == FX_OP_slice_scatter;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_tensor(c, 1, &src));
    if (!x->rank || src->rank != x->rank - !slice)
        return fx_infer_fail(c, "argument 'src': %s does not fit in %s", fx_infer_text(c, src), fx_infer_text(c, x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank, &axis));
    if (slice && fx_node_arg(c->node, 5)->kind == FX_ARG_INT && fx_node_int(c->node, 5) < 1)
        return fx_infer_fail(c, "argument 'step': expected a positive number, got %" PRId64, fx_node_int(c->node, 5));
    bool ok = true;
    for (int i = 0, k = 0; i < x->rank; i++)
        if (i != axis)
            ok = ok && !fx_dim_differ(x->dims[i], src->dims[slice ? i : k++]);
    if (!ok)
        return fx_infer_fail(c, "argument 'src': %s does not fit in %s", fx_infer_text(c, src), fx_infer_text(c, x));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

/* One dim more of num_classes, all 0 but where the index says. */
fx_status infer_one_hot(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK + 1];
    int64_t n = fx_node_int(c->node, 1);
    FX_TRY(fx_infer_tensor(c, 0, &x));
    if (x->dtype != FX_I64)
        return fx_infer_fail(c, "expected int64, got %s", fx_infer_text(c, x));
    if (n <= 0)
        return fx_infer_refuse(c, "without num_classes: the size of its result depends on data");
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    dims[x->rank] = fx_dim_of(n);
    return fx_infer_set(c, FX_I64, x->rank + 1, dims);
}

/* Vectors (or numbers) as the axes of a grid; "xy" swaps the first two. */
fx_status infer_meshgrid(fx_infer *c)
{
    const fx_type *t[FX_MAX_RANK], *items[FX_MAX_RANK];
    fx_dim dims[FX_MAX_RANK];
    int n;
    const fx_arg *mode = fx_op_schema(c->ctx, c->node->op)->n > 1 ? fx_node_arg(c->node, 1) : NULL;
    bool xy = mode && mode->kind == FX_ARG_STR && !strcmp(mode->s, "xy");
    FX_TRY(fx_infer_tensors(c, 0, t, FX_MAX_RANK, &n));
    for (int i = 0; i < n; i++) {
        if (t[i]->rank > 1)
            return fx_infer_fail(c, "expected vectors, got %s", fx_infer_text(c, t[i]));
        dims[xy && n >= 2 && i < 2 ? 1 - i : i] = t[i]->rank ? t[i]->dims[0] : fx_dim_of(1);
    }
    for (int i = 0; i < n; i++) {
        FX_TRY(fx_infer_set(c, t[i]->dtype, n, dims));
        items[i] = c->result;
    }
    c->result = fx_type_tuple(c->ctx, n, items);
    return FX_OK;
}

/* A new dim pair of which the last dim is a diagonal. */
fx_status infer_diag_embed(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK + 1];
    int64_t offset = fx_node_int(c->node, 1);
    int d0, d1, k = 0;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank + 1, &d0));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 3), x->rank + 1, &d1));
    if (!x->rank || d0 == d1)
        return fx_infer_fail(c, "expected two different dims and a tensor with dims, got %s", fx_infer_text(c, x));
    fx_dim size = fx_dim_add(c->ctx, x->dims[x->rank - 1], fx_dim_of(offset < 0 ? -offset : offset));
    for (int i = 0; i <= x->rank; i++)
        dims[i] = i == d0 || i == d1 ? size : x->dims[k++];
    return fx_infer_set(c, x->dtype, x->rank + 1, dims);
}

/* bucketize, searchsorted: for each value, how many of the sorted boundaries lie before it. */
fx_status infer_bucketize(fx_infer *c)
{
    const fx_type *x, *edges;
    bool search = c->node->op->id == FX_OP_searchsorted_Tensor;
    FX_TRY(fx_infer_tensor(c, search ? 1 : 0, &x));
    FX_TRY(fx_infer_tensor(c, search ? 0 : 1, &edges));
    if (search && !fx_node_is_none(c->node, 5))
        return fx_infer_refuse(c, "a sorter is not supported");
    bool ok = edges->rank == 1 || (search && edges->rank == x->rank && edges->rank);
    for (int i = 0; ok && edges->rank > 1 && i + 1 < edges->rank; i++)
        ok = !fx_dim_differ(edges->dims[i], x->dims[i]);
    if (!ok)
        return fx_infer_fail(c, "expected a vector of boundaries, got %s", fx_infer_text(c, edges));
    if (fx_dtype_is_complex(x->dtype) || fx_dtype_is_complex(edges->dtype))
        return fx_infer_refuse(c, "complex numbers are not supported");
    return fx_infer_set(c, fx_node_bool(c->node, 2) ? FX_I32 : FX_I64, x->rank, x->dims);
}

/* diff: what is before and behind along dim counts; every time one less. */
fx_status infer_diff(fx_infer *c)
{
    const fx_type *x, *t;
    fx_dim dims[FX_MAX_RANK];
    int axis;
    int64_t times = fx_node_int(c->node, 1);
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank, &axis));
    if (!x->rank || times < 0)
        return fx_infer_fail(c, "expected a tensor with dims and a number of times, got %s and %" PRId64, fx_infer_text(c, x), times);
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    for (int p = 3; p < 5; p++) {
        FX_TRY(fx_infer_optional(c, p, &t));
        if (!t)
            continue;
        bool ok = t->rank == x->rank && t->dtype == x->dtype;
        for (int i = 0; ok && i < x->rank; i++)
            ok = i == axis || !fx_dim_differ(t->dims[i], x->dims[i]);
        if (!ok)
            return fx_infer_fail(c, "argument %d: %s cannot be joined with %s", p, fx_infer_text(c, t), fx_infer_text(c, x));
        dims[axis] = fx_dim_add(c->ctx, dims[axis], t->dims[axis]);
    }
    if (dims[axis].sym)
        dims[axis] = fx_dim_sub(c->ctx, dims[axis], fx_dim_of(times));
    else
        dims[axis] = fx_dim_of(dims[axis].value > times ? dims[axis].value - times : 0);
    return fx_infer_set(c, x->dtype, x->rank, dims);
}
