/* ir/interp_index.c: reference evaluation of operators that read or write where other tensors say.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <string.h>

#include "ir/ops.h"

static int wrap_axis(int64_t v, int rank)
{
    int n = rank ? rank : 1;
    return (int)(v < 0 ? v + n : v);
}

static void move(fx_tensor *t, int axis, int64_t by)
{
    t->data = (char *)t->data + by * t->strides[axis] * (int64_t)fx_dtype_size(t->dtype);
}

/* Slices of dim `axis` by a list of indices. */
static fx_status take(fx_eval *c, const fx_tensor *x, int axis, const fx_tensor *index)
{
    fx_tensor *out = fx_eval_out(c, 0);
    int64_t n = fx_tensor_numel(index);
    const void *p;
    FX_TRY(fx_eval_array(c, index, FX_KIND_INT, 0, NULL, &p));
    const int64_t *at = p;
    /* The index dims of the result, merged into one. */
    fx_tensor flat = *out;
    flat.rank = x->rank;
    int64_t stride = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        flat.sizes[d] = d == axis ? n : x->sizes[d];
        flat.strides[d] = stride;
        stride *= flat.sizes[d] > 0 ? flat.sizes[d] : 1;
    }
    for (int64_t i = 0; i < n; i++) {
        if (at[i] < 0 || at[i] >= x->sizes[axis])
            return fx_eval_fail(c, FX_ERR_ARGUMENT, "expected an index below %" PRId64 ", got %" PRId64, x->sizes[axis], at[i]);
        fx_tensor from = *x, to = flat;
        from.sizes[axis] = to.sizes[axis] = 1;
        if (fx_tensor_numel(&from) == 0)
            continue;
        move(&from, axis, at[i]);
        move(&to, axis, i);
        fx_tensor_assign(&to, &from);
    }
    return FX_OK;
}

fx_status eval_embedding(fx_eval *c)
{
    return take(c, fx_eval_input(c, 0), 0, fx_eval_input(c, 1));
}

fx_status eval_index_select(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    if (x->rank == 0) {
        fx_tensor_assign(fx_eval_out(c, 0), x);
        return FX_OK;
    }
    int axis = wrap_axis(fx_node_int(c->node, 1), x->rank);
    return take(c, x, axis, fx_eval_input(c, 2));
}

/* ---- element by element --------------------------------------------------------------------------------------------- */

/* The next position of a shape, row-major; false at its end. */
static bool next(int rank, const int64_t *sizes, int64_t *at)
{
    for (int d = rank - 1; d >= 0; d--) {
        if (++at[d] < sizes[d])
            return true;
        at[d] = 0;
    }
    return false;
}

static char *element(const fx_tensor *t, const int64_t *at)
{
    int64_t k = 0;
    for (int d = 0; d < t->rank; d++)
        k += at[d] * t->strides[d];
    return (char *)t->data + k * (int64_t)fx_dtype_size(t->dtype);
}

static fx_status check_index(const fx_eval *c, int64_t i, int64_t size)
{
    if (i < 0 || i >= size)
        return fx_eval_fail(c, FX_ERR_ARGUMENT, "expected an index below %" PRId64 ", got %" PRId64, size, i);
    return FX_OK;
}

/* out[at] = x[at with at[axis] = index[at]] */
fx_status eval_gather(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0), *index = fx_eval_input(c, 2);
    fx_tensor *out = fx_eval_out(c, 0);
    int axis = wrap_axis(fx_node_int(c->node, 1), x->rank);
    const void *p;
    FX_TRY(fx_eval_array(c, index, FX_KIND_INT, 0, NULL, &p));
    int64_t at[FX_MAX_RANK] = {0}, k = 0;
    size_t size = fx_dtype_size(x->dtype);
    if (fx_tensor_numel(out) == 0)
        return FX_OK;
    do {
        int64_t i = ((const int64_t *)p)[k], from[FX_MAX_RANK];
        FX_TRY(check_index(c, i, x->rank ? x->sizes[axis] : 1));
        memcpy(from, at, sizeof from);
        from[axis] = i;
        memcpy((char *)out->data + (size_t)k++ * size, element(x, from), size);
    } while (next(index->rank, index->sizes, at));
    return FX_OK;
}

/* Adds the element at s to the one at d, as dtype. */
static void add_to(fx_dtype dtype, void *d, const void *s)
{
    fx_kind kind = fx_kind_of(dtype);
    union {
        float f;
        double d;
        int64_t i;
    } a, b;
    fx_row_load(kind, &a, dtype, d, 0, 1);
    fx_row_load(kind, &b, dtype, s, 0, 1);
    if (kind == FX_KIND_F32)
        a.f += b.f;
    else if (kind == FX_KIND_F64)
        a.d += b.d;
    else
        a.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i);
    fx_row_store(dtype, d, 0, kind, &a, 1);
}

/* A number argument as one element of dtype. */
static fx_status number(fx_eval *c, int param, fx_dtype dtype, void *to)
{
    fx_arg_kind kind;
    double f;
    int64_t i;
    FX_TRY(fx_eval_number(c, param, &kind, &f, &i));
    if (kind == FX_ARG_FLOAT || fx_dtype_is_float(dtype))
        fx_row_store(dtype, to, 0, FX_KIND_F64, &f, 1);
    else
        fx_row_store(dtype, to, 0, FX_KIND_INT, &i, 1);
    return FX_OK;
}

/* A copy of self in which out[at with at[axis] = index[at]] = src[at], in order: the last of several wins. */
fx_status eval_scatter(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0), *index = fx_eval_input(c, 2), *src = fx_eval_input(c, 3);
    fx_opid id = c->node->op->id;
    fx_tensor *out = fx_eval_out(c, 0);
    int axis = wrap_axis(fx_node_int(c->node, 1), x->rank);
    char value[16];
    const void *p;
    fx_tensor_assign(out, x);
    FX_TRY(fx_eval_array(c, index, FX_KIND_INT, 0, NULL, &p));
    if (id == FX_OP_scatter_value)
        FX_TRY(number(c, 3, out->dtype, value));
    int64_t at[FX_MAX_RANK] = {0}, k = 0;
    if (fx_tensor_numel(index) == 0)
        return FX_OK;
    do {
        int64_t i = ((const int64_t *)p)[k++], to[FX_MAX_RANK];
        FX_TRY(check_index(c, i, x->rank ? x->sizes[axis] : 1));
        memcpy(to, at, sizeof to);
        to[axis] = i;
        const void *s = id == FX_OP_scatter_value ? value : element(src, at);
        if (id == FX_OP_scatter_add)
            add_to(out->dtype, element(out, to), s);
        else
            memcpy(element(out, to), s, fx_dtype_size(out->dtype));
    } while (next(index->rank, index->sizes, at));
    return FX_OK;
}

/* Index tensors of x[indices], broadcast to one shape. */
typedef struct indices {
    const int64_t *v[FX_MAX_RANK]; /* by dim of x; NULL: the whole dim */
    int n_shape, at;               /* of the shape they have together; the dim of x[indices] it begins at */
    int64_t shape[FX_MAX_RANK];
} indices;

static fx_status read_indices(fx_eval *c, const fx_tensor *x, indices *ix)
{
    const fx_arg *list = fx_node_arg(c->node, 1);
    int first = -1, last = -1;
    *ix = (indices){.n_shape = 0};
    for (int i = 0; i < list->n; i++) {
        if (list->items[i]->kind == FX_ARG_NONE)
            continue;
        const fx_tensor *t = c->in[list->items[i]->i];
        int r = t->rank > ix->n_shape ? t->rank : ix->n_shape;
        for (int d = r - 1; d >= 0; d--) {
            int a = d - (r - ix->n_shape), b = d - (r - t->rank);
            int64_t sa = a >= 0 ? ix->shape[a] : 1, sb = b >= 0 ? t->sizes[b] : 1;
            ix->shape[d] = sa == 1 ? sb : sa;
        }
        ix->n_shape = r;
        first = first < 0 ? i : first;
        last = i;
    }
    ix->at = first;
    for (int i = first; i <= last; i++)
        if (list->items[i]->kind == FX_ARG_NONE)
            ix->at = 0;
    int64_t n = 1;
    for (int d = 0; d < ix->n_shape; d++)
        n *= ix->shape[d];
    for (int i = 0; i < list->n; i++) {
        const void *p;
        if (list->items[i]->kind == FX_ARG_NONE)
            continue;
        FX_TRY(fx_eval_array(c, c->in[list->items[i]->i], FX_KIND_INT, ix->n_shape, ix->shape, &p));
        ix->v[i] = p;
        for (int64_t k = 0; k < n; k++)
            if (ix->v[i][k] < -x->sizes[i] || ix->v[i][k] >= x->sizes[i])
                return fx_eval_fail(c, FX_ERR_ARGUMENT, "expected an index from %" PRId64 " to %" PRId64 ", got %" PRId64, -x->sizes[i],
                                    x->sizes[i] - 1, ix->v[i][k]);
    }
    return FX_OK;
}

/* Where in x the element `at` of x[indices] lies. */
static char *indexed(const fx_tensor *x, const indices *ix, const int64_t *at)
{
    int64_t k = 0, from[FX_MAX_RANK];
    for (int d = 0; d < ix->n_shape; d++)
        k = k * ix->shape[d] + at[ix->at + d];
    for (int d = 0, a = 0; d < x->rank; d++) {
        if (a == ix->at)
            a += ix->n_shape;
        from[d] = ix->v[d] ? ix->v[d][k] + (ix->v[d][k] < 0 ? x->sizes[d] : 0) : at[a++];
    }
    return element(x, from);
}

fx_status eval_index(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_tensor *out = fx_eval_out(c, 0);
    indices ix;
    int64_t at[FX_MAX_RANK] = {0}, k = 0;
    size_t size = fx_dtype_size(x->dtype);
    FX_TRY(read_indices(c, x, &ix));
    if (fx_tensor_numel(out) == 0)
        return FX_OK;
    do
        memcpy((char *)out->data + (size_t)k++ * size, indexed(x, &ix, at), size);
    while (next(out->rank, out->sizes, at));
    return FX_OK;
}

fx_status eval_index_put(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0), *values = fx_eval_input(c, 2);
    fx_tensor *out = fx_eval_out(c, 0);
    bool accumulate = fx_node_bool(c->node, 3);
    const fx_arg *list = fx_node_arg(c->node, 1);
    indices ix;
    int64_t at[FX_MAX_RANK] = {0}, sizes[FX_MAX_RANK];
    int rank = 0;
    fx_tensor_assign(out, x);
    FX_TRY(read_indices(c, x, &ix));
    for (int d = 0; d <= x->rank; d++) {
        if (rank == ix.at)
            for (int k = 0; k < ix.n_shape; k++)
                sizes[rank++] = ix.shape[k];
        if (d < x->rank && (d >= list->n || list->items[d]->kind == FX_ARG_NONE))
            sizes[rank++] = x->sizes[d];
    }
    for (int d = 0; d < rank; d++)
        if (sizes[d] == 0)
            return FX_OK;
    fx_tensor seen = *values;
    seen.rank = rank;
    for (int d = 0; d < rank; d++) {
        int k = d - (rank - values->rank);
        seen.sizes[d] = sizes[d];
        seen.strides[d] = k < 0 || values->sizes[k] != sizes[d] ? 0 : values->strides[k];
    }
    do {
        if (accumulate)
            add_to(out->dtype, indexed(out, &ix, at), element(&seen, at));
        else
            memcpy(indexed(out, &ix, at), element(&seen, at), fx_dtype_size(out->dtype));
    } while (next(rank, sizes, at));
    return FX_OK;
}

/* index_fill, index_copy, index_add: slice by slice. */
fx_status eval_index_write(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0), *index = fx_eval_input(c, 2), *src = fx_eval_input(c, 3);
    fx_opid id = c->node->op->id;
    fx_tensor *out = fx_eval_out(c, 0);
    int axis = wrap_axis(fx_node_int(c->node, 1), x->rank);
    char value[16] = {0};
    fx_arg_kind kind;
    double f = 1;
    int64_t alpha = 1;
    const void *p;
    fx_tensor_assign(out, x);
    FX_TRY(fx_eval_array(c, index, FX_KIND_INT, 0, NULL, &p));
    if (id == FX_OP_index_fill_int_Scalar)
        FX_TRY(number(c, 3, out->dtype, value));
    if (id == FX_OP_index_add)
        FX_TRY(fx_eval_number(c, 4, &kind, &f, &alpha));
    for (int64_t k = 0, n = fx_tensor_numel(index); k < n; k++) {
        int64_t i = ((const int64_t *)p)[k], at[FX_MAX_RANK] = {0}, size = x->rank ? x->sizes[axis] : 1;
        i += i < 0 && id == FX_OP_index_fill_int_Scalar ? size : 0;
        FX_TRY(check_index(c, i, size));
        fx_tensor slice = *out, from = src ? *src : *out;
        slice.sizes[axis] = 1;
        if (fx_tensor_numel(&slice) == 0)
            continue;
        if (x->rank) {
            move(&slice, axis, i);
            if (src)
                move(&from, axis, k);
        }
        do {
            char *to = element(&slice, at);
            if (id == FX_OP_index_fill_int_Scalar) {
                memcpy(to, value, fx_dtype_size(out->dtype));
            } else if (id == FX_OP_index_copy) {
                memcpy(to, element(&from, at), fx_dtype_size(out->dtype));
            } else {
                double scaled[1];
                fx_kind in = fx_kind_of(out->dtype);
                char term[8];
                if (in == FX_KIND_INT) {
                    int64_t v;
                    fx_row_load(in, &v, out->dtype, element(&from, at), 0, 1);
                    v = (int64_t)((uint64_t)v * (uint64_t)alpha);
                    fx_row_store(out->dtype, term, 0, in, &v, 1);
                } else {
                    fx_row_load(FX_KIND_F64, scaled, out->dtype, element(&from, at), 0, 1);
                    scaled[0] *= f;
                    fx_row_store(out->dtype, term, 0, FX_KIND_F64, scaled, 1);
                }
                add_to(out->dtype, to, term);
            }
        } while (next(slice.rank, slice.sizes, at));
    }
    return FX_OK;
}

fx_status eval_take_along(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0), *index = fx_eval_input(c, 1);
    fx_tensor *out = fx_eval_out(c, 0);
    bool flat = fx_node_is_none(c->node, 2);
    int axis = flat ? 0 : wrap_axis(fx_node_int(c->node, 2), x->rank);
    int64_t at[FX_MAX_RANK] = {0}, k = 0, n = fx_tensor_numel(x);
    size_t width = fx_dtype_size(x->dtype);
    const void *p;
    FX_TRY(fx_eval_array(c, index, FX_KIND_INT, out->rank, flat ? NULL : out->sizes, &p));
    if (fx_tensor_numel(out) == 0)
        return FX_OK;
    do {
        int64_t i = ((const int64_t *)p)[k], from[FX_MAX_RANK] = {0};
        if (flat) {
            FX_TRY(check_index(c, i, n));
            for (int d = x->rank - 1; d >= 0; d--) {
                from[d] = i % x->sizes[d];
                i /= x->sizes[d];
            }
        } else {
            int64_t size = x->sizes[axis];
            FX_TRY(check_index(c, 0, size));
            i = i % size + (i % size < 0 ? size : 0); /* as eager */
            for (int d = 0; d < x->rank; d++)
                from[d] = d == axis ? i : x->sizes[d] == 1 ? 0 : at[d];
        }
        memcpy((char *)out->data + (size_t)k++ * width, element(x, from), width);
    } while (next(out->rank, out->sizes, at));
    return FX_OK;
}
