/* ir/infer_view.c: result types of views.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>

#include "ir/ops.h"

static fx_dim product(fx_context *ctx, const fx_dim *d, int n)
{
    fx_dim p = fx_dim_of(1);
    for (int i = 0; i < n; i++)
        p = fx_dim_mul(ctx, p, d[i]);
    return p;
}

/* The size a -1 stands for: total / rest. Symbolic factors that occur on both sides cancel; what is left must be numbers, or
 * the quotient stays an expression. */
static fx_status infer_minus_one(const fx_infer *c, const fx_type *x, const fx_dim *dims, int n, int at, fx_dim *out)
{
    bool used[FX_MAX_RANK] = {false};
    fx_dim total = fx_dim_of(1), numbers = fx_dim_of(1), rest = fx_dim_of(1);
    for (int i = 0; i < n; i++) {
        if (i == at)
            continue;
        int k = 0;
        while (dims[i].sym && k < x->rank && (used[k] || !fx_dim_same(x->dims[k], dims[i])))
            k++;
        if (dims[i].sym && k < x->rank)
            used[k] = true;
        else
            rest = fx_dim_mul(c->ctx, rest, dims[i]);
    }
    for (int k = 0; k < x->rank; k++) {
        fx_dim *into = x->dims[k].sym ? &total : &numbers;
        if (!used[k])
            *into = fx_dim_mul(c->ctx, *into, x->dims[k]);
    }
    if (rest.sym)
        return fx_infer_refuse(c, "a size of -1 beside the symbolic sizes of %s is not supported", fx_infer_text(c, x));
    if (rest.value == 0)
        return fx_infer_fail(c, "a size of -1 beside a size of 0 is not defined");
    if (!total.sym && numbers.value % rest.value)
        return fx_infer_fail(c, "%s does not divide into pieces of %" PRId64 " elements", fx_infer_text(c, x), rest.value);
    if (numbers.value % rest.value == 0)
        *out = fx_dim_mul(c->ctx, total, fx_dim_of(numbers.value / rest.value));
    else
        *out = fx_dim_floordiv(c->ctx, fx_dim_mul(c->ctx, total, numbers), rest);
    return FX_OK;
}

/* view, reshape: sizes with at most one -1 for the elements of x. */
static fx_status reshape(fx_infer *c, const fx_type *x, fx_dim *dims, int n)
{
    int at = -1;
    for (int i = 0; i < n; i++) {
        if (dims[i].sym || dims[i].value >= 0)
            continue;
        if (dims[i].value != -1 || at >= 0)
            return fx_infer_fail(c, "expected sizes of at least 0 and at most one -1, got %" PRId64, dims[i].value);
        at = i;
    }
    if (at >= 0)
        FX_TRY(infer_minus_one(c, x, dims, n, at, &dims[at]));
    fx_dim have = product(c->ctx, x->dims, x->rank), want = product(c->ctx, dims, n);
    if (fx_dim_differ(have, want))
        return fx_infer_fail(c, "expected sizes for the %" PRId64 " elements of %s, got %" PRId64, have.value, fx_infer_text(c, x),
                             want.value);
    return fx_infer_set(c, x->dtype, n, dims);
}

fx_dim fx_slice_end(const fx_graph *g, fx_dim v, fx_dim size)
{
    const fx_symbols symbols = fx_graph_symbols(g);
    bool negative = v.sym ? fx_dim_at_least(g->ctx, symbols, fx_dim_scale(g->ctx, v, -1), 1) : v.value < 0;
    return negative ? fx_dim_add(g->ctx, size, v) : v;
}

/* Start and length of a slice of a dim as torch clamps them. */
static fx_status slice_dim(const fx_infer *c, fx_dim size, fx_dim *out)
{
    fx_dim start = fx_dim_of(0), end = fx_dim_of(INT64_MAX), step;
    if (!fx_node_is_none(c->node, 2))
        FX_TRY(fx_infer_dim(c, 2, &start));
    if (!fx_node_is_none(c->node, 3))
        FX_TRY(fx_infer_dim(c, 3, &end));
    FX_TRY(fx_infer_dim(c, 4, &step));
    if (step.sym || step.value <= 0)
        return fx_infer_fail(c, "argument 'step': expected a positive number");
    if (size.sym || start.sym || end.sym) {
        bool from_zero = fx_dim_is(start, 0), to_end = !end.sym && end.value == INT64_MAX;
        start = fx_slice_end(c->node->graph, start, size);
        end = fx_slice_end(c->node->graph, end, size);
        if (to_end)
            end = size;
        if (from_zero && to_end && step.value == 1) {
            *out = size;
            return FX_OK;
        }
        /* Ends past the size are clipped, which shows only where the ranges do not tell. */
        const fx_graph *g = c->node->graph;
        const fx_symbols symbols = fx_graph_symbols(g);
        if (fx_dim_le(c->ctx, symbols, size, end)) {
            end = size;
        } else if (!fx_dim_le(c->ctx, symbols, end, size)) {
            const fx_sym *args[2] = {fx_dim_as_sym(c->ctx, end), fx_dim_as_sym(c->ctx, size)};
            end = fx_dim_sym(fx_sym_make(c->ctx, FX_SYM_MIN, 2, args));
        }
        fx_dim n = fx_dim_add(c->ctx, fx_dim_sub(c->ctx, end, start), fx_dim_of(step.value - 1));
        *out = fx_dim_floordiv(c->ctx, n, step);
        return FX_OK;
    }
    int64_t s = start.value, e = end.value, n = size.value;
    s = s < 0 ? (s < -n ? 0 : s + n) : s > n ? n : s;
    e = e < 0 ? (e < -n ? 0 : e + n) : e > n ? n : e;
    *out = fx_dim_of(e <= s ? 0 : (e - s - 1) / step.value + 1);
    return FX_OK;
}

static fx_status infer_permute(fx_infer *c, const fx_type *x)
{
    int64_t v[FX_MAX_RANK];
    fx_dim dims[FX_MAX_RANK];
    uint32_t seen = 0;
    int n = fx_node_ints(c->node, 1, v, FX_MAX_RANK);
    if (n != x->rank)
        return fx_infer_fail(c, "argument 'dims': expected %d dims, got %d", x->rank, n);
    for (int i = 0; i < n; i++) {
        int axis;
        FX_TRY(fx_infer_axis(c, v[i], x->rank, &axis));
        if (seen & (1u << axis))
            return fx_infer_fail(c, "argument 'dims': dim %d appears twice", axis);
        seen |= 1u << axis;
        dims[i] = x->dims[axis];
    }
    return fx_infer_set(c, x->dtype, n, dims);
}

static fx_status infer_expand(fx_infer *c, const fx_type *x, fx_dim *dims, int n)
{
    if (n < x->rank)
        return fx_infer_fail(c, "argument 'size': expected at least %d sizes, got %d", x->rank, n);
    for (int i = 0; i < n; i++) {
        int k = i - (n - x->rank);
        if (fx_dim_is(dims[i], -1)) {
            if (k < 0)
                return fx_infer_fail(c, "a size of -1 stands for an existing dim only");
            dims[i] = x->dims[k];
        } else if (k >= 0 && !fx_dim_is(x->dims[k], 1) && fx_dim_differ(x->dims[k], dims[i])) {
            return fx_infer_fail(c, "dim %d of %s does not expand to %" PRId64, k, fx_infer_text(c, x), dims[i].value);
        }
    }
    return fx_infer_set(c, x->dtype, n, dims);
}

static fx_status infer_squeeze(fx_infer *c, const fx_type *x, uint32_t mask)
{
    fx_dim dims[FX_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (!(mask & (1u << i)) || !fx_dim_is(x->dims[i], 1))
            dims[rank++] = x->dims[i];
    return fx_infer_set(c, x->dtype, rank, dims);
}

static fx_status infer_flatten(fx_infer *c, const fx_type *x)
{
    fx_dim dims[FX_MAX_RANK];
    int start, end, rank = 0;
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &start));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank, &end));
    if (start > end)
        return fx_infer_fail(c, "expected start_dim at or before end_dim, got %d and %d", start, end);
    for (int i = 0; i < start; i++)
        dims[rank++] = x->dims[i];
    dims[rank++] = product(c->ctx, x->dims + start, x->rank ? end - start + 1 : 0);
    for (int i = end + 1; i < x->rank; i++)
        dims[rank++] = x->dims[i];
    return fx_infer_set(c, x->dtype, rank, dims);
}

static fx_status infer_unflatten(fx_infer *c, const fx_type *x)
{
    fx_dim dims[2 * FX_MAX_RANK], sizes[FX_MAX_RANK];
    int axis, n, rank = 0;
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    FX_TRY(fx_infer_dims(c, 2, sizes, FX_MAX_RANK, &n));
    if (!x->rank || n < 1 || x->rank - 1 + n > FX_MAX_RANK)
        return fx_infer_fail(c, "expected sizes for a dim of %s", fx_infer_text(c, x));
    for (int i = 0; i < axis; i++)
        dims[rank++] = x->dims[i];
    const fx_type *one = fx_type_tensor(c->ctx, x->dtype, 1, &x->dims[axis], NULL);
    FX_TRY(reshape(c, one, sizes, n));
    for (int i = 0; i < n; i++)
        dims[rank++] = sizes[i];
    for (int i = axis + 1; i < x->rank; i++)
        dims[rank++] = x->dims[i];
    return fx_infer_set(c, x->dtype, rank, dims);
}

/* channel_shuffle keeps the shape; pixel_shuffle: [.., C r r, H, W] to [.., C, H r, W r]. */
static fx_status infer_shuffle(fx_infer *c, const fx_type *x)
{
    fx_dim dims[FX_MAX_RANK];
    int64_t r = fx_node_int(c->node, 1);
    bool pixels = c->node->op->id == FX_OP_pixel_shuffle;
    if (x->rank < 3 || r <= 0 || r > INT32_MAX)
        return fx_infer_fail(c, "expected rank 3 or more and a positive number, got %s and %" PRId64, fx_infer_text(c, x), r);
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    int at = pixels ? x->rank - 3 : 1;
    int64_t by = pixels ? r * r : r;
    if (!dims[at].sym && dims[at].value % by)
        return fx_infer_fail(c, "expected a multiple of %" PRId64 " channels, got %s", by, fx_infer_text(c, x));
    if (pixels) {
        dims[at] = fx_dim_floordiv(c->ctx, dims[at], fx_dim_of(by));
        dims[at + 1] = fx_dim_mul(c->ctx, dims[at + 1], fx_dim_of(r));
        dims[at + 2] = fx_dim_mul(c->ctx, dims[at + 2], fx_dim_of(r));
    }
    return fx_infer_set(c, x->dtype, x->rank, dims);
}

/* Windows of `size` elements of a dim, `step` apart, as a new last dim. */
static fx_status infer_unfold(fx_infer *c, const fx_type *x)
{
    fx_dim dims[FX_MAX_RANK + 1];
    int axis;
    int64_t size = fx_node_int(c->node, 2), step = fx_node_int(c->node, 3);
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    fx_dim have = x->rank ? x->dims[axis] : fx_dim_of(1);
    if (size < 0 || step <= 0 || (!have.sym && size > have.value))
        return fx_infer_fail(c, "expected a size of at most that of dim %d of %s and a positive step, got %" PRId64 " and %" PRId64, axis,
                             fx_infer_text(c, x), size, step);
    if (x->rank)
        dims[axis] = fx_dim_add(c->ctx, fx_dim_floordiv(c->ctx, fx_dim_sub(c->ctx, have, fx_dim_of(size)), fx_dim_of(step)), fx_dim_of(1));
    dims[x->rank] = fx_dim_of(size);
    return fx_infer_set(c, x->dtype, x->rank + 1, dims);
}

/* The elements of which two indices are equal, but for an offset, as a new last dim. */
static fx_status infer_diagonal(fx_infer *c, const fx_type *x)
{
    fx_dim dims[FX_MAX_RANK];
    int d0, d1, rank = 0;
    int64_t offset = fx_node_int(c->node, 1);
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank, &d0));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 3), x->rank, &d1));
    if (d0 == d1 || x->rank < 2)
        return fx_infer_fail(c, "expected two dims of %s, got %d and %d", fx_infer_text(c, x), d0, d1);
    fx_dim n0 = x->dims[d0], n1 = x->dims[d1];
    for (int i = 0; i < x->rank; i++)
        if (i != d0 && i != d1)
            dims[rank++] = x->dims[i];
    if (n0.sym || n1.sym) {
        if (offset != 0 || !fx_dim_same(n0, n1))
            return fx_infer_refuse(c, "a diagonal of %s is not supported", fx_infer_text(c, x));
        dims[rank] = n0;
    } else {
        int64_t n = offset >= 0 ? (n0.value < n1.value - offset ? n0.value : n1.value - offset)
                                : (n0.value + offset < n1.value ? n0.value + offset : n1.value);
        dims[rank] = fx_dim_of(n > 0 ? n : 0);
    }
    return fx_infer_set(c, x->dtype, rank + 1, dims);
}

/* Dims `source` go to `destination`; the others keep their order. *order: by new place, the old one. */
fx_status fx_move_dims(const fx_infer *c, int rank, int *order)
{
    int64_t from[FX_MAX_RANK], to[FX_MAX_RANK];
    int n = fx_node_ints(c->node, 1, from, FX_MAX_RANK), m = fx_node_ints(c->node, 2, to, FX_MAX_RANK), rest = 0;
    uint32_t taken = 0;
    if (n < 0 || n != m || n > rank)
        return fx_infer_fail(c, "expected as many destinations as sources, at most %d, got %d and %d", rank, m, n);
    for (int i = 0; i < rank; i++)
        order[i] = -1;
    for (int i = 0; i < n; i++) {
        int a, b;
        FX_TRY(fx_infer_axis(c, from[i], rank, &a));
        FX_TRY(fx_infer_axis(c, to[i], rank, &b));
        if ((taken >> a & 1) || order[b] >= 0)
            return fx_infer_fail(c, "a dim appears twice");
        taken |= 1u << a;
        order[b] = a;
    }
    for (int i = 0; i < rank; i++) {
        if (order[i] >= 0)
            continue;
        while (taken >> rest & 1)
            rest++;
        order[i] = rest++;
    }
    return FX_OK;
}

static fx_status infer_narrow(fx_infer *c, const fx_type *x)
{
    fx_dim dims[FX_MAX_RANK], start, length;
    int axis;
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    FX_TRY(fx_infer_dim(c, 2, &start));
    FX_TRY(fx_infer_dim(c, 3, &length));
    if (!x->rank)
        return fx_infer_fail(c, "expected a tensor with dims, got %s", fx_infer_text(c, x));
    for (int i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    if (!start.sym && !length.sym && !dims[axis].sym) {
        int64_t at = start.value + (start.value < 0 ? dims[axis].value : 0);
        if (at < 0 || length.value < 0 || at > dims[axis].value - length.value)
            return fx_infer_fail(c, "%" PRId64 " elements from %" PRId64 " lie outside dim %d of %s", length.value, start.value, axis,
                                 fx_infer_text(c, x));
    }
    dims[axis] = length;
    return fx_infer_set(c, x->dtype, x->rank, dims);
}

/* [.., C, H r, W r] to [.., C r r, H, W] */
static fx_status infer_unshuffle(fx_infer *c, const fx_type *x)
{
    fx_dim dims[FX_MAX_RANK];
    int64_t r = fx_node_int(c->node, 1);
    bool ok = x->rank >= 3 && r > 0 && r <= INT32_MAX;
    for (int i = 0; ok && i < x->rank; i++) {
        dims[i] = x->dims[i];
        ok = i < x->rank - 2 || dims[i].sym || dims[i].value % r == 0;
    }
    if (!ok)
        return fx_infer_fail(c, "expected rank 3 or more and sizes that %" PRId64 " divides, got %s", r, fx_infer_text(c, x));
    dims[x->rank - 3] = fx_dim_mul(c->ctx, dims[x->rank - 3], fx_dim_of(r * r));
    for (int i = x->rank - 2; i < x->rank; i++)
        dims[i] = fx_dim_floordiv(c->ctx, dims[i], fx_dim_of(r));
    return fx_infer_set(c, x->dtype, x->rank, dims);
}

fx_status infer_view(fx_infer *c)
{
    int order[FX_MAX_RANK];
    const fx_type *x, *other;
    fx_dim dims[FX_MAX_RANK + 1];
    uint32_t mask;
    int n, axis, second;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    switch (c->node->op->id) {
    case FX_OP_view: case FX_OP_reshape: case FX_OP__unsafe_view:
        FX_TRY(fx_infer_dims(c, 1, dims, FX_MAX_RANK, &n));
        return reshape(c, x, dims, n);
    case FX_OP_ravel:
        dims[0] = fx_dim_of(-1);
        return reshape(c, x, dims, 1);
    case FX_OP_narrow:
        return infer_narrow(c, x);
    case FX_OP_movedim_int: case FX_OP_movedim_intlist:
        FX_TRY(fx_move_dims(c, x->rank, order));
        for (int i = 0; i < x->rank; i++)
            dims[i] = x->dims[order[i]];
        return fx_infer_set(c, x->dtype, x->rank, dims);
    case FX_OP_numpy_T: case FX_OP_mT:
        if (c->node->op->id == FX_OP_mT && x->rank < 2)
            return fx_infer_fail(c, "expected rank 2 or more, got %s", fx_infer_text(c, x));
        for (int i = 0; i < x->rank; i++)
            dims[i] = x->dims[c->node->op->id == FX_OP_numpy_T ? x->rank - 1 - i : i < x->rank - 2 ? i : 2 * x->rank - 3 - i];
        return fx_infer_set(c, x->dtype, x->rank, dims);
    case FX_OP_pixel_unshuffle:
        return infer_unshuffle(c, x);
    case FX_OP_view_as: case FX_OP_expand_as: case FX_OP_reshape_as:
        FX_TRY(fx_infer_tensor(c, 1, &other));
        for (int i = 0; i < other->rank; i++)
            dims[i] = other->dims[i];
        return c->node->op->id != FX_OP_expand_as ? reshape(c, x, dims, other->rank) : infer_expand(c, x, dims, other->rank);
    case FX_OP_flatten_using_ints:
        return infer_flatten(c, x);
    case FX_OP_unflatten_int:
        return infer_unflatten(c, x);
    case FX_OP_permute:
        return infer_permute(c, x);
    case FX_OP_t:
        if (x->rank > 2)
            return fx_infer_fail(c, "expected rank 2 at most, got %s", fx_infer_text(c, x));
        for (int i = 0; i < x->rank; i++)
            dims[i] = x->dims[x->rank - 1 - i];
        return fx_infer_set(c, x->dtype, x->rank, dims);
    case FX_OP_transpose_int:
        FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
        FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 2), x->rank, &second));
        for (int i = 0; i < x->rank; i++)
            dims[i] = x->dims[i == axis ? second : i == second ? axis : i];
        return fx_infer_set(c, x->dtype, x->rank, dims);
    case FX_OP_expand:
        FX_TRY(fx_infer_dims(c, 1, dims, FX_MAX_RANK, &n));
        return infer_expand(c, x, dims, n);
    case FX_OP_unsqueeze:
        FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank + 1, &axis));
        for (int i = 0, s = 0; i <= x->rank; i++)
            dims[i] = i == axis ? fx_dim_of(1) : x->dims[s++];
        return fx_infer_set(c, x->dtype, x->rank + 1, dims);
    case FX_OP_squeeze:
        return infer_squeeze(c, x, ~0u);
    case FX_OP_squeeze_dim: case FX_OP_squeeze_dims:
        FX_TRY(fx_infer_axes(c, 1, x->rank, false, &mask));
        return infer_squeeze(c, x, mask);
    case FX_OP_slice_Tensor: case FX_OP_select_int:
        if (!x->rank)
            return fx_infer_fail(c, "expected a tensor with dims, got %s", fx_infer_text(c, x));
        FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
        for (int i = 0; i < x->rank; i++)
            dims[i] = x->dims[i];
        if (c->node->op->id == FX_OP_slice_Tensor) {
            FX_TRY(slice_dim(c, x->dims[axis], &dims[axis]));
            return fx_infer_set(c, x->dtype, x->rank, dims);
        }
        FX_TRY(fx_infer_dim(c, 2, &dims[FX_MAX_RANK]));
        if (!dims[FX_MAX_RANK].sym && !x->dims[axis].sym &&
            (dims[FX_MAX_RANK].value < -x->dims[axis].value || dims[FX_MAX_RANK].value >= x->dims[axis].value))
            return fx_infer_fail(c, "index %" PRId64 " lies outside dim %d of %s", dims[FX_MAX_RANK].value, axis,
                                 fx_infer_text(c, x));
        for (int i = axis; i + 1 < x->rank; i++)
            dims[i] = x->dims[i + 1];
        return fx_infer_set(c, x->dtype, x->rank - 1, dims);
    case FX_OP_alias: case FX_OP_detach:
        return fx_infer_set(c, x->dtype, x->rank, x->dims);
    case FX_OP_channel_shuffle: case FX_OP_pixel_shuffle:
        return infer_shuffle(c, x);
    case FX_OP_unfold:
        return infer_unfold(c, x);
    case FX_OP_diagonal:
        return infer_diagonal(c, x);
    default:
        return fx_infer_refuse(c, "no rule for this row");
    }
}

/* Sizes and strides are those of a dense row-major tensor (sizes of 1 aside). */
static bool row_major(const fx_dim *dims, const fx_dim *strides, int rank)
{
    int64_t want = 1;
    for (int i = rank - 1; i >= 0; i--) {
        if (dims[i].sym || strides[i].sym || (dims[i].value != 1 && strides[i].value != want))
            return false;
        if (__builtin_mul_overflow(want, dims[i].value > 0 ? dims[i].value : 1, &want))
            return false;
    }
    return true;
}

/* as_strided reads memory, of which we know only what the model's file says about the operand. It is taken where operand and
 * result both are row-major, as decompositions write it after pooling: then it is a reshape. */
fx_status infer_as_strided(fx_infer *c)
{
    const fx_type *x;
    fx_dim sizes[FX_MAX_RANK], strides[FX_MAX_RANK];
    int n, m, wide = 0;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_dims(c, 1, sizes, FX_MAX_RANK, &n));
    FX_TRY(fx_infer_dims(c, 2, strides, FX_MAX_RANK, &m));
    if (n != m)
        return fx_infer_fail(c, "expected as many strides as sizes, got %d and %d", m, n);
    const fx_type *file = c->node->operands[fx_node_arg(c->node, 0)->i].def->type;
    for (int i = 0; i < x->rank; i++)
        wide += !fx_dim_is(x->dims[i], 1);
    bool dense = wide <= 1 || (file && file->kind == FX_TYPE_TENSOR && file->strides && file->rank == x->rank &&
                               row_major(x->dims, file->strides, x->rank));
    if (!dense || !row_major(sizes, strides, n) || fx_node_int(c->node, 3) != 0 ||
        fx_dim_differ(product(c->ctx, sizes, n), product(c->ctx, x->dims, x->rank)))
        return fx_infer_refuse(c, "only a view of all elements of a contiguous tensor in order is supported");
    return reshape(c, x, sizes, n);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------- */

enum { MAX_PIECES = 1024 };

static fx_status infer_unbind(fx_infer *c, const fx_type *x, int axis)
{
    fx_dim dims[FX_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != axis)
            dims[rank++] = x->dims[i];
    if (x->dims[axis].sym)
        return FX_OK; /* the file's type stands */
    if (x->dims[axis].value > MAX_PIECES)
        return fx_infer_refuse(c, "expected at most %d pieces, got %" PRId64, MAX_PIECES, x->dims[axis].value);
    const fx_type *items[MAX_PIECES];
    FX_TRY(fx_infer_set(c, x->dtype, rank, dims));
    for (int i = 0; i < x->dims[axis].value; i++)
        items[i] = c->result;
    c->result = fx_type_tuple(c->ctx, (int)x->dims[axis].value, items);
    return FX_OK;
}

fx_status infer_split(fx_infer *c)
{
    const fx_type *x;
    fx_dim sizes[MAX_PIECES];
    int axis, n = 0;
    fx_opid id = c->node->op->id;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, id == FX_OP_unbind_int ? 1 : 2), x->rank, &axis));
    if (!x->rank)
        return fx_infer_fail(c, "expected a tensor with dims, got %s", fx_infer_text(c, x));
    fx_dim size = x->dims[axis];
    if (id == FX_OP_unbind_int)
        return infer_unbind(c, x, axis);
    if (id == FX_OP_tensor_split_sections) {
        fx_dim arg;
        FX_TRY(fx_infer_dim(c, 1, &arg));
        if (size.sym || arg.sym)
            return FX_OK;
        if (arg.value <= 0 || arg.value > MAX_PIECES)
            return fx_infer_fail(c, "expected 1 to %d sections, got %" PRId64, MAX_PIECES, arg.value);
        for (; n < arg.value; n++)
            sizes[n] = fx_dim_of(size.value / arg.value + (n < size.value % arg.value));
    } else if (id == FX_OP_split_with_sizes) {
        FX_TRY(fx_infer_dims(c, 1, sizes, MAX_PIECES, &n));
        fx_dim sum = fx_dim_of(0);
        for (int i = 0; i < n; i++) {
            if (!sizes[i].sym && sizes[i].value < 0)
                return fx_infer_fail(c, "expected sizes of at least 0, got %" PRId64, sizes[i].value);
            sum = fx_dim_add(c->ctx, sum, sizes[i]);
        }
        if (fx_dim_differ(sum, size))
            return fx_infer_fail(c, "expected sizes that sum to %" PRId64 ", got %" PRId64, size.value, sum.value);
    } else {
        fx_dim arg;
        FX_TRY(fx_infer_dim(c, 1, &arg));
        bool chunk = c->node->op->id == FX_OP_chunk;
        if (size.sym || arg.sym)
            return FX_OK; /* how many pieces is not known here; the file's type stands */
        if (arg.value < (chunk ? 1 : 0) || (arg.value == 0 && size.value))
            return fx_infer_fail(c, "expected a positive number of pieces or elements, got %" PRId64, arg.value);
        int64_t step = !chunk ? arg.value : size.value / arg.value + (size.value % arg.value != 0);
        if (chunk && step == 0) {
            /* torch gives `chunks` empty pieces of an empty dim. */
            for (n = 0; n < arg.value && n < MAX_PIECES; n++)
                sizes[n] = fx_dim_of(0);
            if (n < arg.value)
                return fx_infer_refuse(c, "expected at most %d pieces, got %" PRId64, MAX_PIECES, arg.value);
        } else {
            int64_t left = size.value;
            do {
                if (n == MAX_PIECES)
                    return fx_infer_refuse(c, "expected at most %d pieces", MAX_PIECES);
                sizes[n] = fx_dim_of(left < step ? left : step);
                left -= sizes[n++].value;
            } while (left > 0);
        }
    }
    const fx_type *items[MAX_PIECES];
    fx_dim dims[FX_MAX_RANK];
    for (int i = 0; i < n; i++) {
        for (int d = 0; d < x->rank; d++)
            dims[d] = d == axis ? sizes[i] : x->dims[d];
        FX_TRY(fx_infer_set(c, x->dtype, x->rank, dims));
        items[i] = c->result;
    }
    c->result = fx_type_tuple(c->ctx, n, items);
    return FX_OK;
}
