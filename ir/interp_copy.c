/* ir/interp_copy.c: reference evaluation of operators that repeat, move, mask or overwrite the elements of a tensor.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <string.h>

#include "ir/ops.h"

static int wrap_axis(int64_t v, int rank)
{
    int n = rank ? rank : 1;
    return (int)(v < 0 ? v + n : v);
}

/* The result element at `at` is x's at from[], set by one of the functions below; false: it is zero. */
typedef struct rearrangement {
    fx_opid id;
    int rank, axis;                     /* of x */
    const fx_tensor *x;
    int64_t by[FX_MAX_RANK];
} rearrangement;

static bool source(const rearrangement *m, int out_rank, const int64_t *at, int64_t *from)
{
    int lead = out_rank - m->rank;
    switch (m->id) {
    case FX_OP_repeat: case FX_OP_tile:
        for (int d = 0; d < m->rank; d++)
            from[d] = m->x->sizes[d] ? at[lead + d] % m->x->sizes[d] : 0;
        return true;
    case FX_OP_repeat_interleave_self_int: {
        if (m->axis >= 0) {
            for (int d = 0; d < m->rank; d++)
                from[d] = d == m->axis ? at[d] / m->by[0] : at[d];
            return true;
        }
        int64_t k = at[0] / m->by[0];
        for (int d = m->rank - 1; d >= 0; d--) {
            from[d] = k % m->x->sizes[d];
            k /= m->x->sizes[d];
        }
        return true;
    }
    case FX_OP_roll: {
        if (m->axis >= 0) { /* every dim by its shift */
            for (int d = 0; d < m->rank; d++)
                from[d] = (at[d] + m->by[d]) % m->x->sizes[d];
            return true;
        }
        int64_t k = 0, n = 1; /* as a vector */
        for (int d = 0; d < m->rank; d++) {
            k = k * m->x->sizes[d] + at[d];
            n *= m->x->sizes[d];
        }
        k = (k + m->by[0]) % n;
        for (int d = m->rank - 1; d >= 0; d--) {
            from[d] = k % m->x->sizes[d];
            k /= m->x->sizes[d];
        }
        return true;
    }
    case FX_OP_tril: case FX_OP_triu: {
        memcpy(from, at, (size_t)m->rank * sizeof *from);
        int64_t gap = at[m->rank - 1] - at[m->rank - 2];
        return m->id == FX_OP_tril ? gap <= m->by[0] : gap >= m->by[0];
    }
    default: { /* diag_embed: by = offset, and the two dims */
        int64_t row = at[m->by[1]], col = at[m->by[2]], offset = m->by[0];
        int k = 0;
        for (int d = 0; d < out_rank; d++)
            if (d != m->by[1] && d != m->by[2])
                from[k++] = at[d];
        from[k] = offset >= 0 ? row : col;
        return col - row == offset;
    }
    }
}

static int64_t mod(int64_t a, int64_t n)
{
    int64_t m = n ? a % n : 0;
    return m < 0 ? m + n : m;
}

static fx_status read_arguments(fx_eval *c, rearrangement *m)
{
    int64_t v[FX_MAX_RANK], dims[FX_MAX_RANK], total = 1;
    int n, k;
    switch (m->id) {
    case FX_OP_repeat_interleave_self_int:
        m->axis = fx_node_is_none(c->node, 2) ? -1 : wrap_axis(fx_node_int(c->node, 2), m->rank);
        return fx_eval_int(c, 1, &m->by[0]);
    case FX_OP_roll:
        FX_TRY(fx_eval_ints(c, 1, v, FX_MAX_RANK, &n));
        k = fx_node_ints(c->node, 2, dims, FX_MAX_RANK);
        m->axis = k > 0 ? 0 : -1;
        for (int d = 0; d < m->rank; d++)
            total *= m->x->sizes[d];
        if (k <= 0)
            m->by[0] = mod(-v[0], total);
        for (int i = 0; i < k && m->rank; i++) {
            int d = wrap_axis(dims[i], m->rank);
            m->by[d] = mod(m->by[d] - v[i], m->x->sizes[d]);
        }
        return FX_OK;
    case FX_OP_tril: case FX_OP_triu:
        return fx_eval_int(c, 1, &m->by[0]);
    case FX_OP_diag_embed:
        m->by[0] = fx_node_int(c->node, 1);
        m->by[1] = wrap_axis(fx_node_int(c->node, 2), m->rank + 1);
        m->by[2] = wrap_axis(fx_node_int(c->node, 3), m->rank + 1);
        return FX_OK;
    default: /* repeat, tile: sizes say it */
        return FX_OK;
    }
}

fx_status eval_rearrange(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    rearrangement m = {.id = c->node->op->id, .rank = x->rank, .x = x};
    int64_t at[FX_MAX_RANK] = {0}, from[FX_MAX_RANK] = {0};
    size_t size = fx_dtype_size(x->dtype);
    FX_TRY(read_arguments(c, &m));
    fx_tensor *out = fx_eval_out(c, 0);
    for (int64_t k = 0, n = fx_tensor_numel(out); k < n; k++) {
        if (source(&m, out->rank, at, from)) {
            int64_t o = 0;
            for (int d = 0; d < x->rank; d++)
                o += from[d] * x->strides[d];
            memcpy((char *)out->data + (size_t)k * size, (const char *)x->data + o * (int64_t)size, size);
        }
        for (int d = out->rank - 1; d >= 0 && ++at[d] == out->sizes[d]; d--)
            at[d] = 0;
    }
    return FX_OK;
}

/* select_scatter(self, src, dim, index), slice_scatter(self, src, dim, start, end, step) */
fx_status eval_overwrite(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0), *src = fx_eval_input(c, 1);
    fx_tensor *out = fx_eval_out(c, 0);
    bool slice = c->node->op->id == FX_OP_slice_scatter;
    int axis = wrap_axis(fx_node_int(c->node, 2), x->rank);
    int64_t n = x->sizes[axis], start = 0, end = n, step = 1;
    fx_tensor_assign(out, x);
    if (!slice || !fx_node_is_none(c->node, 3))
        FX_TRY(fx_eval_int(c, 3, &start));
    if (slice && !fx_node_is_none(c->node, 4))
        FX_TRY(fx_eval_int(c, 4, &end));
    if (slice)
        FX_TRY(fx_eval_int(c, 5, &step));
    if (step <= 0)
        return fx_eval_fail(c, FX_ERR_ARGUMENT, "expected a positive step, got %" PRId64, step);
    start += start < 0 ? n : 0;
    end = slice ? end + (end < 0 ? n : 0) : start + 1;
    if (!slice && (start < 0 || start >= n))
        return fx_eval_fail(c, FX_ERR_ARGUMENT, "expected an index below %" PRId64 ", got %" PRId64, n, start);
    start = start < 0 ? 0 : start > n ? n : start;
    end = end < start ? start : end > n ? n : end;
    fx_tensor to = *out, from = *src;
    to.sizes[axis] = (end - start + step - 1) / step;
    to.data = (char *)out->data + start * out->strides[axis] * (int64_t)fx_dtype_size(out->dtype);
    to.strides[axis] *= step;
    if (!slice) {
        from.rank = x->rank;
        for (int d = x->rank - 1; d > axis; d--) {
            from.sizes[d] = src->sizes[d - 1];
            from.strides[d] = src->strides[d - 1];
        }
        from.sizes[axis] = 1;
        from.strides[axis] = 0;
    }
    if (from.sizes[axis] != to.sizes[axis])
        return fx_eval_fail(c, FX_ERR_TYPE, "argument 'src': expected %" PRId64 " elements in dim %d, got %" PRId64, to.sizes[axis], axis,
                            from.sizes[axis]);
    if (fx_tensor_numel(&to))
        fx_tensor_assign(&to, &from);
    return FX_OK;
}

fx_status eval_one_hot(fx_eval *c)
{
    const void *p;
    const fx_tensor *x = fx_eval_input(c, 0);
    int64_t classes = fx_node_int(c->node, 1);
    FX_TRY(fx_eval_array(c, x, FX_KIND_INT, 0, NULL, &p));
    int64_t *y = fx_eval_out(c, 0)->data;
    for (int64_t k = 0, n = fx_tensor_numel(x); k < n; k++) {
        int64_t v = ((const int64_t *)p)[k];
        if (v < 0 || v >= classes)
            return fx_eval_fail(c, FX_ERR_ARGUMENT, "expected an index below %" PRId64 ", got %" PRId64, classes, v);
        y[k * classes + v] = 1;
    }
    return FX_OK;
}

fx_status eval_meshgrid(fx_eval *c)
{
    const fx_arg *list = fx_node_arg(c->node, 0);
    const fx_arg *mode = fx_op_schema(c->ctx, c->node->op)->n > 1 ? fx_node_arg(c->node, 1) : NULL;
    bool xy = mode && mode->kind == FX_ARG_STR && !strcmp(mode->s, "xy");
    for (int i = 0; i < list->n; i++) {
        const fx_tensor *x = c->in[list->items[i]->i];
        const fx_type *type = fx_eval_type(c, i);
        fx_tensor t = *x;
        t.rank = type->rank;
        for (int d = 0; d < t.rank; d++) {
            t.sizes[d] = type->dims[d].value;
            t.strides[d] = 0;
        }
        t.strides[xy && list->n >= 2 && i < 2 ? 1 - i : i] = x->rank ? x->strides[0] : 0;
        c->out[i] = t;
    }
    return FX_OK;
}

/* How many boundaries are less than v (right: or equal). */
static int64_t place(const double *edges, int64_t n, double v, bool right)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (right ? !(edges[mid] > v) : !(edges[mid] >= v))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

fx_status eval_bucketize(fx_eval *c)
{
    bool search = c->node->op->id == FX_OP_searchsorted_Tensor, right = fx_node_bool(c->node, 3);
    const fx_tensor *x = fx_eval_input(c, search), *edges = fx_eval_input(c, !search);
    const void *v, *e;
    if (search && fx_node_arg(c->node, 4)->kind == FX_ARG_STR)
        right = !strcmp(fx_node_arg(c->node, 4)->s, "right");
    FX_TRY(fx_eval_array(c, x, FX_KIND_F64, 0, NULL, &v));
    FX_TRY(fx_eval_array(c, edges, FX_KIND_F64, 0, NULL, &e));
    int64_t *y = fx_eval_target(c, 0, FX_KIND_INT), n = edges->sizes[edges->rank - 1];
    int64_t row = edges->rank > 1 ? x->sizes[x->rank - 1] : fx_tensor_numel(x);
    for (int64_t k = 0, count = fx_tensor_numel(x); k < count; k++)
        y[k] = place((const double *)e + (edges->rank > 1 ? k / row * n : 0), n, ((const double *)v)[k], right);
    fx_eval_finish(c, 0, FX_KIND_INT, y);
    return FX_OK;
}

/* Rounded every time, as eager's subtractions. */
fx_status eval_diff(fx_eval *c)
{
    const fx_tensor *part[3] = {fx_eval_input(c, 3), fx_eval_input(c, 0), fx_eval_input(c, 4)};
    const fx_tensor *x = part[1];
    int64_t times = fx_node_int(c->node, 1), at = 0;
    int axis = wrap_axis(fx_node_int(c->node, 2), x->rank);
    fx_tensor *out = fx_eval_out(c, 0), all = *x;
    size_t size = fx_dtype_size(x->dtype);
    for (int k = 0; k < 3; k += 2)
        all.sizes[axis] += part[k] ? part[k]->sizes[axis] : 0;
    for (int d = x->rank - 1, first = 1; d >= 0; d--, first = 0)
        all.strides[d] = first ? 1 : all.strides[d + 1] * all.sizes[d + 1];
    all.data = fx_eval_scratch(c, fx_tensor_numel(&all), size);
    for (int k = 0; k < 3; k++) {
        if (!part[k])
            continue;
        fx_tensor to = all;
        to.sizes[axis] = part[k]->sizes[axis];
        to.data = (char *)all.data + at * all.strides[axis] * (int64_t)size;
        at += to.sizes[axis];
        if (fx_tensor_numel(&to))
            fx_tensor_assign(&to, part[k]);
    }
    fx_kind kind = fx_kind_of(x->dtype);
    for (int64_t t = 0; t < times && all.sizes[axis] > 0; t++) {
        fx_tensor before = all, after = all;
        const void *a, *b;
        before.sizes[axis] = after.sizes[axis] = --all.sizes[axis];
        after.data = (char *)all.data + all.strides[axis] * (int64_t)size;
        FX_TRY(fx_eval_array(c, &after, kind, 0, NULL, &a));
        FX_TRY(fx_eval_array(c, &before, kind, 0, NULL, &b));
        int64_t n = fx_tensor_numel(&all);
        void *r = fx_eval_scratch(c, n, 8);
        for (int64_t i = 0; i < n; i++)
            if (kind == FX_KIND_F32)
                ((float *)r)[i] = ((const float *)a)[i] - ((const float *)b)[i];
            else if (kind == FX_KIND_F64)
                ((double *)r)[i] = ((const double *)a)[i] - ((const double *)b)[i];
            else
                ((uint64_t *)r)[i] = x->dtype == FX_BOOL ? ((const uint64_t *)a)[i] ^ ((const uint64_t *)b)[i]
                                                         : ((const uint64_t *)a)[i] - ((const uint64_t *)b)[i];
        all.data = fx_eval_scratch(c, n, size);
        for (int d = x->rank - 1, first = 1; d >= 0; d--, first = 0)
            all.strides[d] = first ? 1 : all.strides[d + 1] * all.sizes[d + 1];
        fx_row_store(x->dtype, all.data, 1, kind, r, n);
    }
    if (fx_tensor_numel(out))
        fx_tensor_assign(out, &all);
    return FX_OK;
}
