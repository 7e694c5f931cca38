/* ir/interp_view.c: reference evaluation of views, which share their operand's memory as in eager, so that in-place
 * writes are seen through them; joining, padding and creation.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <math.h>
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

static fx_status give(fx_eval *c, const fx_tensor *t)
{
    c->out[0] = *t;
    c->n_out = 1;
    return FX_OK;
}

/* ---- other sizes for the same elements -------------------------------------------------------------------------------- */

/* Strides under which x's memory has the new sizes, as ATen's computeStride; false when only a copy has. */
static bool view_strides(const fx_tensor *x, int rank, const int64_t *sizes, int64_t *strides)
{
    int64_t base = x->rank ? x->strides[x->rank - 1] : 1, tensor_n = 1, view_n = 1;
    int v = rank - 1;
    for (int i = 0; i < rank; i++)
        if (sizes[i] == 0)
            return false;
    if (x->rank == 0) {
        for (int i = 0; i < rank; i++)
            strides[i] = 1;
        return true;
    }
    for (int i = x->rank - 1; i >= 0; i--) {
        tensor_n *= x->sizes[i];
        /* The end of a run of dims that lie in memory as one. */
        if (i > 0 && (x->sizes[i - 1] == 1 || x->strides[i - 1] == tensor_n * base))
            continue;
        while (v >= 0 && (view_n < tensor_n || sizes[v] == 1)) {
            strides[v] = view_n * base;
            view_n *= sizes[v];
            v--;
        }
        if (view_n != tensor_n)
            return false;
        if (i > 0) {
            base = x->strides[i - 1];
            tensor_n = view_n = 1;
        }
    }
    return v < 0;
}

/* Whether eager's op copies where no strides are a view; the others refuse. Here they copy, too, as strides in eager may be others. */
static bool may_copy(fx_opid id)
{
    return id == FX_OP_reshape || id == FX_OP_reshape_as || id == FX_OP_ravel || id == FX_OP_flatten_using_ints;
}

static fx_status reshape(fx_eval *c, const fx_tensor *x)
{
    const fx_type *type = fx_eval_type(c, 0);
    fx_tensor t = *x;
    t.rank = type->rank;
    for (int i = 0; i < t.rank; i++)
        t.sizes[i] = type->dims[i].value;
    if (view_strides(x, t.rank, t.sizes, t.strides))
        return give(c, &t);
    fx_tensor *out = fx_eval_out(c, 0);
    fx_tensor flat = *out;
    flat.rank = x->rank;
    int64_t stride = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        flat.sizes[i] = x->sizes[i];
        flat.strides[i] = stride;
        stride *= x->sizes[i] > 0 ? x->sizes[i] : 1;
    }
    fx_tensor_assign(&flat, x);
    if (!may_copy(c->node->op->id) && fx_tensor_numel(x))
        fx_eval_copied(c, 0, x);
    return FX_OK;
}

static fx_status permute(fx_eval *c, const fx_tensor *x, const int *order)
{
    fx_tensor t = *x;
    for (int i = 0; i < x->rank; i++) {
        t.sizes[i] = x->sizes[order[i]];
        t.strides[i] = x->strides[order[i]];
    }
    return give(c, &t);
}

static fx_status expand(fx_eval *c, const fx_tensor *x)
{
    const fx_type *type = fx_eval_type(c, 0);
    fx_tensor t = *x;
    t.rank = type->rank;
    for (int i = 0; i < t.rank; i++) {
        int k = i - (t.rank - x->rank);
        t.sizes[i] = type->dims[i].value;
        t.strides[i] = k < 0 || (x->sizes[k] == 1 && t.sizes[i] != 1) ? 0 : x->strides[k];
    }
    return give(c, &t);
}

static fx_status slice(fx_eval *c, const fx_tensor *x)
{
    int axis = wrap_axis(fx_node_int(c->node, 1), x->rank);
    int64_t start = 0, step = 1, n = x->sizes[axis];
    if (!fx_node_is_none(c->node, 2))
        FX_TRY(fx_eval_int(c, 2, &start));
    FX_TRY(fx_eval_int(c, 4, &step));
    start = start < 0 ? (start < -n ? 0 : start + n) : start > n ? n : start;
    fx_tensor t = *x;
    t.sizes[axis] = fx_eval_type(c, 0)->dims[axis].value;
    if (t.sizes[axis])
        move(&t, axis, start);
    t.strides[axis] = t.sizes[axis] > 1 ? t.strides[axis] * step : t.strides[axis];
    return give(c, &t);
}

static fx_status select_index(fx_eval *c, const fx_tensor *x)
{
    int axis = wrap_axis(fx_node_int(c->node, 1), x->rank);
    int64_t index;
    FX_TRY(fx_eval_int(c, 2, &index));
    index += index < 0 ? x->sizes[axis] : 0;
    if (index < 0 || index >= x->sizes[axis])
        return fx_eval_fail(c, FX_ERR_TYPE, "index %" PRId64 " lies outside dim %d of size %" PRId64, index, axis, x->sizes[axis]);
    fx_tensor t = *x;
    move(&t, axis, index);
    t.rank--;
    for (int i = axis; i < t.rank; i++) {
        t.sizes[i] = x->sizes[i + 1];
        t.strides[i] = x->strides[i + 1];
    }
    return give(c, &t);
}

static fx_status squeeze(fx_eval *c, const fx_tensor *x, uint32_t mask)
{
    fx_tensor t = *x;
    t.rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if ((mask & (1u << i)) && x->sizes[i] == 1)
            continue;
        t.sizes[t.rank] = x->sizes[i];
        t.strides[t.rank++] = x->strides[i];
    }
    return give(c, &t);
}

static fx_status unsqueeze(fx_eval *c, const fx_tensor *x)
{
    int axis = wrap_axis(fx_node_int(c->node, 1), x->rank + 1);
    fx_tensor t = *x;
    t.rank = x->rank + 1;
    for (int i = t.rank - 1; i > axis; i--) {
        t.sizes[i] = x->sizes[i - 1];
        t.strides[i] = x->strides[i - 1];
    }
    t.strides[axis] = axis < x->rank ? x->sizes[axis] * x->strides[axis] : 1;
    t.sizes[axis] = 1;
    return give(c, &t);
}

/* A permutation of a split of dims, merged again: [.., g, C/g, ..] or [.., C, r, r, H, W]. Always a copy. */
static fx_status shuffle(fx_eval *c, const fx_tensor *x)
{
    int64_t r = fx_node_int(c->node, 1);
    fx_tensor *out = fx_eval_out(c, 0);
    fx_tensor from = *x, to = *out;
    bool back = c->node->op->id == FX_OP_pixel_unshuffle;
    if (fx_tensor_numel(x) == 0)
        return FX_OK;
    if (c->node->op->id == FX_OP_channel_shuffle) {
        /* from [N, r, C/r, rest] by strides; to the same dims seen as [N, C/r, r, rest] */
        if (x->rank + 1 > FX_MAX_RANK)
            return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "expected rank below %d", FX_MAX_RANK);
        from.rank = to.rank = x->rank + 1;
        for (int i = x->rank; i > 2; i--) {
            from.sizes[i] = to.sizes[i] = x->sizes[i - 1];
            from.strides[i] = x->strides[i - 1];
            to.strides[i] = out->strides[i - 1];
        }
        from.sizes[1] = to.sizes[1] = r;
        from.sizes[2] = to.sizes[2] = x->sizes[1] / r;
        from.strides[1] = x->strides[1] * (x->sizes[1] / r);
        from.strides[2] = x->strides[1];
        to.strides[1] = out->strides[1];
        to.strides[2] = out->strides[1] * r;
    } else {
        /* dims: lead.., C, r, r, H, W on both sides */
        int lead = x->rank - 3;
        const fx_tensor *deep = back ? out : x, *wide = back ? x : out; /* with more channels, with more space */
        from = *deep;
        to = *wide;
        if (x->rank + 2 > FX_MAX_RANK)
            return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "expected rank below %d", FX_MAX_RANK - 1);
        from.rank = to.rank = x->rank + 2;
        const int64_t sizes[5] = {deep->sizes[lead] / (r * r), r, r, deep->sizes[lead + 1], deep->sizes[lead + 2]};
        const int64_t s[5] = {deep->strides[lead] * r * r, deep->strides[lead] * r, deep->strides[lead], deep->strides[lead + 1],
                              deep->strides[lead + 2]};
        const int64_t d[5] = {wide->strides[lead], wide->strides[lead + 1], wide->strides[lead + 2], wide->strides[lead + 1] * r,
                              wide->strides[lead + 2] * r};
        for (int i = 0; i < 5; i++) {
            from.sizes[lead + i] = to.sizes[lead + i] = sizes[i];
            from.strides[lead + i] = s[i];
            to.strides[lead + i] = d[i];
        }
    }
    if (back)
        fx_tensor_assign(&from, &to);
    else
        fx_tensor_assign(&to, &from);
    return FX_OK;
}

static fx_status unfold(fx_eval *c, const fx_tensor *x)
{
    int axis = wrap_axis(fx_node_int(c->node, 1), x->rank);
    fx_tensor t = *x;
    t.sizes[x->rank] = fx_node_int(c->node, 2);
    t.strides[x->rank] = x->rank ? x->strides[axis] : 1;
    if (x->rank) {
        t.sizes[axis] = fx_eval_type(c, 0)->dims[axis].value;
        t.strides[axis] = x->strides[axis] * fx_node_int(c->node, 3);
    }
    t.rank++;
    return give(c, &t);
}

static fx_status diagonal(fx_eval *c, const fx_tensor *x)
{
    const fx_type *type = fx_eval_type(c, 0);
    int64_t offset = fx_node_int(c->node, 1);
    int d0 = wrap_axis(fx_node_int(c->node, 2), x->rank), d1 = wrap_axis(fx_node_int(c->node, 3), x->rank), k = 0;
    fx_tensor t = *x;
    if (type->dims[type->rank - 1].value > 0)
        move(&t, offset < 0 ? d0 : d1, offset < 0 ? -offset : offset);
    t.rank = type->rank;
    for (int i = 0; i < x->rank; i++) {
        if (i == d0 || i == d1)
            continue;
        t.sizes[k] = x->sizes[i];
        t.strides[k++] = x->strides[i];
    }
    t.sizes[k] = type->dims[k].value;
    t.strides[k] = x->strides[d0] + x->strides[d1];
    return give(c, &t);
}

fx_status eval_view(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    int order[FX_MAX_RANK];
    int64_t v[FX_MAX_RANK];
    int n, a, b;
    for (int i = 0; i < FX_MAX_RANK; i++)
        order[i] = i;
    switch (c->node->op->id) {
    case FX_OP_permute:
        n = fx_node_ints(c->node, 1, v, FX_MAX_RANK);
        for (int i = 0; i < n && i < x->rank; i++)
            order[i] = wrap_axis(v[i], x->rank);
        return permute(c, x, order);
    case FX_OP_transpose_int:
        a = wrap_axis(fx_node_int(c->node, 1), x->rank);
        b = wrap_axis(fx_node_int(c->node, 2), x->rank);
        order[a] = b;
        order[b] = a;
        return permute(c, x, order);
    case FX_OP_t:
        if (x->rank == 2) {
            order[0] = 1;
            order[1] = 0;
        }
        return permute(c, x, order);
    case FX_OP_movedim_int: case FX_OP_movedim_intlist: {
        const fx_infer infer = {.ctx = c->ctx, .node = c->node};
        FX_TRY(fx_move_dims(&infer, x->rank, order));
        return permute(c, x, order);
    }
    case FX_OP_numpy_T:
        for (int i = 0; i < x->rank; i++)
            order[i] = x->rank - 1 - i;
        return permute(c, x, order);
    case FX_OP_mT:
        order[x->rank - 2] = x->rank - 1;
        order[x->rank - 1] = x->rank - 2;
        return permute(c, x, order);
    case FX_OP_narrow: {
        fx_tensor t = *x;
        int64_t start;
        a = wrap_axis(fx_node_int(c->node, 1), x->rank);
        FX_TRY(fx_eval_int(c, 2, &start));
        t.sizes[a] = fx_eval_type(c, 0)->dims[a].value;
        if (t.sizes[a])
            move(&t, a, start < 0 ? start + x->sizes[a] : start);
        return give(c, &t);
    }
    case FX_OP_expand: case FX_OP_expand_as:
        return expand(c, x);
    case FX_OP_unsqueeze:
        return unsqueeze(c, x);
    case FX_OP_squeeze:
        return squeeze(c, x, ~0u);
    case FX_OP_squeeze_dim: case FX_OP_squeeze_dims: {
        uint32_t mask = 0;
        n = fx_node_ints(c->node, 1, v, FX_MAX_RANK);
        for (int i = 0; i < n && i < FX_MAX_RANK; i++)
            mask |= 1u << wrap_axis(v[i], x->rank);
        return squeeze(c, x, mask);
    }
    case FX_OP_slice_Tensor:
        return slice(c, x);
    case FX_OP_select_int:
        return select_index(c, x);
    case FX_OP_alias: case FX_OP_detach:
        return give(c, x);
    case FX_OP_channel_shuffle: case FX_OP_pixel_shuffle: case FX_OP_pixel_unshuffle:
        return shuffle(c, x);
    case FX_OP_unfold:
        return unfold(c, x);
    case FX_OP_diagonal:
        return diagonal(c, x);
    default:
        return reshape(c, x);
    }
}

fx_status eval_split(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    const fx_type *type = ((fx_eval_run *)c)->type;
    if (c->node->op->id == FX_OP_unbind_int) {
        int gone = wrap_axis(fx_node_int(c->node, 1), x->rank);
        for (int i = 0; i < type->n; i++) {
            fx_tensor t = *x;
            move(&t, gone, i);
            t.rank--;
            for (int d = gone; d < t.rank; d++) {
                t.sizes[d] = x->sizes[d + 1];
                t.strides[d] = x->strides[d + 1];
            }
            c->out[i] = t;
        }
        return FX_OK;
    }
    int axis = wrap_axis(fx_node_int(c->node, 2), x->rank);
    int64_t at = 0;
    for (int i = 0; i < type->n; i++) {
        fx_tensor t = *x;
        t.sizes[axis] = type->items[i]->dims[axis].value;
        if (t.sizes[axis])
            move(&t, axis, at);
        at += t.sizes[axis];
        c->out[i] = t;
    }
    return FX_OK;
}

/* ---- joining ------------------------------------------------------------------------------------------------------------ */

static fx_status join(fx_eval *c, bool stack)
{
    fx_tensor *out = fx_eval_out(c, 0);
    const fx_arg *list = fx_node_arg(c->node, 0);
    int axis = wrap_axis(fx_node_int(c->node, 1), out->rank);
    int64_t at = 0;
    for (int i = 0; i < list->n; i++) {
        const fx_tensor *x = c->in[list->items[i]->i];
        if (!stack && x->rank == 1 && x->sizes[0] == 0)
            continue;
        if (fx_dtype_is_complex(x->dtype) && x->dtype != out->dtype)
            return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "dtype %s is not supported", fx_dtype_name(x->dtype));
        fx_tensor part = *out, seen = *x;
        part.sizes[axis] = stack ? 1 : x->sizes[axis];
        if (stack) {
            seen.rank = out->rank;
            for (int d = out->rank - 1; d > axis; d--) {
                seen.sizes[d] = x->sizes[d - 1];
                seen.strides[d] = x->strides[d - 1];
            }
            seen.sizes[axis] = 1;
            seen.strides[axis] = 0;
        }
        if (fx_tensor_numel(&part)) {
            move(&part, axis, at);
            fx_tensor_assign(&part, &seen);
        }
        at += part.sizes[axis];
    }
    return FX_OK;
}

fx_status eval_cat(fx_eval *c)
{
    return join(c, false);
}

fx_status eval_stack(fx_eval *c)
{
    return join(c, true);
}

fx_status eval_flip(fx_eval *c)
{
    fx_tensor t = *fx_eval_input(c, 0);
    int64_t v[FX_MAX_RANK];
    int n = fx_node_ints(c->node, 1, v, FX_MAX_RANK);
    fx_tensor *out = fx_eval_out(c, 0);
    if (fx_tensor_numel(&t) == 0)
        return FX_OK;
    for (int i = 0; i < n && t.rank; i++) {
        int axis = wrap_axis(v[i], t.rank);
        move(&t, axis, t.sizes[axis] - 1);
        t.strides[axis] = -t.strides[axis];
    }
    fx_tensor_assign(out, &t);
    return FX_OK;
}

/* ---- padding ------------------------------------------------------------------------------------------------------------ */

/* Sets every element of a dense tensor to a number argument, or zero when there is none. */
static fx_status fill(fx_eval *c, fx_tensor *t, int param)
{
    fx_arg_kind kind = FX_ARG_INT;
    double f = 0;
    int64_t i = 0, n = fx_tensor_numel(t);
    size_t size = fx_dtype_size(t->dtype);
    if (!fx_node_is_none(c->node, param))
        FX_TRY(fx_eval_number(c, param, &kind, &f, &i));
    if (n == 0)
        return FX_OK;
    if (kind == FX_ARG_FLOAT)
        fx_row_store(t->dtype, t->data, 1, FX_KIND_F64, &f, 1);
    else if (fx_dtype_is_float(t->dtype))
        fx_row_store(t->dtype, t->data, 1, FX_KIND_F64, &f, 1);
    else
        fx_row_store(t->dtype, t->data, 1, FX_KIND_INT, &i, 1);
    for (int64_t k = 1; k < n; k++)
        memcpy((char *)t->data + (size_t)k * size, t->data, size);
    return FX_OK;
}

/* The index a border element is read from. */
static int64_t border(int64_t i, int64_t n, char mode)
{
    switch (mode) {
    case 'f': /* reflect */
        i = i < 0 ? -i : i;
        return i >= n ? 2 * (n - 1) - i : i;
    case 'c': /* circular */
        return ((i % n) + n) % n;
    default: /* replicate */
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    }
}

static void pad_by_index(const fx_tensor *x, fx_tensor *out, const int64_t *before, char mode)
{
    size_t size = fx_dtype_size(x->dtype);
    int64_t at[FX_MAX_RANK] = {0}, n = fx_tensor_numel(out);
    for (int64_t k = 0; k < n; k++) {
        int64_t from = 0;
        for (int d = 0; d < x->rank; d++)
            from += border(at[d] - before[d], x->sizes[d], mode) * x->strides[d];
        memcpy((char *)out->data + (size_t)k * size, (const char *)x->data + from * (int64_t)size, size);
        for (int d = x->rank - 1; d >= 0 && ++at[d] == out->sizes[d]; d--)
            at[d] = 0;
    }
}

fx_status eval_pad(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    int64_t pad[2 * FX_MAX_RANK], before[FX_MAX_RANK] = {0};
    int n;
    FX_TRY(fx_eval_ints(c, 1, pad, 2 * FX_MAX_RANK, &n));
    fx_tensor *out = fx_eval_out(c, 0);
    for (int k = 0; k < n / 2; k++)
        before[x->rank - 1 - k] = pad[2 * k];
    bool named = c->node->op->id == FX_OP_pad;
    const char *mode = named ? fx_node_arg(c->node, 2)->s : "constant";
    if (strcmp(mode, "constant")) {
        pad_by_index(x, out, before, mode[0] == 'c' ? 'c' : mode[2] == 'f' ? 'f' : 'p');
        return FX_OK;
    }
    FX_TRY(fill(c, out, named ? 3 : 2));
    fx_tensor from = *x, to = *out;
    for (int d = 0; d < x->rank; d++) {
        int64_t lo = before[d] < 0 ? -before[d] : 0, hi = out->sizes[d] - before[d] < x->sizes[d] ? out->sizes[d] - before[d] : x->sizes[d];
        from.sizes[d] = to.sizes[d] = hi > lo ? hi - lo : 0;
        if (hi <= lo)
            return FX_OK;
        move(&from, d, lo);
        move(&to, d, lo + before[d]);
    }
    fx_tensor_assign(&to, &from);
    return FX_OK;
}

/* ---- creation ----------------------------------------------------------------------------------------------------------- */

static fx_status arange(fx_eval *c, int start, int step)
{
    fx_tensor *out = fx_eval_out(c, 0);
    fx_arg_kind kind;
    double fs = 0, fd = 1;
    int64_t is = 0, id = 1, n = fx_tensor_numel(out);
    bool floats = fx_dtype_is_float(out->dtype);
    if (start >= 0)
        FX_TRY(fx_eval_number(c, start, &kind, &fs, &is));
    if (step >= 0)
        FX_TRY(fx_eval_number(c, step, &kind, &fd, &id));
    size_t size = fx_dtype_size(out->dtype);
    for (int64_t k = 0; k < n; k++) {
        double f = fs + (double)k * fd;
        int64_t i = (int64_t)((uint64_t)is + (uint64_t)k * (uint64_t)id);
        fx_row_store(out->dtype, (char *)out->data + (size_t)k * size, 1, floats ? FX_KIND_F64 : FX_KIND_INT,
                     floats ? (const void *)&f : (const void *)&i, 1);
    }
    return FX_OK;
}

/* From both ends, as eager. */
static fx_status linspace(fx_eval *c, fx_tensor *t)
{
    fx_arg_kind kind;
    double start, end;
    int64_t is, n = t->sizes[0];
    FX_TRY(fx_eval_number(c, 0, &kind, &start, &is));
    FX_TRY(fx_eval_number(c, 1, &kind, &end, &is));
    bool single = t->dtype != FX_F64;
    if (!fx_dtype_is_float(t->dtype)) { /* integers: the ends are */
        start = trunc(start);
        end = trunc(end);
    }
    double step = n > 1 ? (end - start) / (double)(n - 1) : 0;
    for (int64_t k = 0; k < n; k++) {
        double v = k < n / 2 || n == 1 ? start + step * (double)k : end - step * (double)(n - 1 - k);
        if (single) {
            float fs = (float)start, fe = (float)end, by = n > 1 ? (fe - fs) / (float)(n - 1) : 0;
            v = fx_dtype_is_float(t->dtype) ? (k < n / 2 || n == 1 ? fs + by * (float)k : fe - by * (float)(n - 1 - k)) : v;
        }
        fx_row_store(t->dtype, (char *)t->data + (size_t)k * fx_dtype_size(t->dtype), 1, FX_KIND_F64, &v, 1);
    }
    return FX_OK;
}

fx_status eval_create(fx_eval *c)
{
    fx_tensor *t;
    switch (c->node->op->id) {
    case FX_OP_arange: return arange(c, -1, -1);
    case FX_OP_arange_start: return arange(c, 0, -1);
    case FX_OP_arange_start_step: return arange(c, 0, 2);
    default: break;
    }
    t = fx_eval_out(c, 0);
    switch (c->node->op->id) {
    case FX_OP_full: case FX_OP_full_like:
        return fill(c, t, 1);
    case FX_OP_new_full:
        return fill(c, t, 2);
    case FX_OP_eye: case FX_OP_eye_m: {
        double one = 1;
        for (int64_t k = 0; k < t->sizes[0] && k < t->sizes[1]; k++)
            fx_row_store(t->dtype, (char *)t->data + (size_t)(k * (t->sizes[1] + 1)) * fx_dtype_size(t->dtype), 1, FX_KIND_F64, &one, 1);
        return FX_OK;
    }
    case FX_OP_linspace:
        return linspace(c, t);
    case FX_OP_scalar_tensor:
        return fill(c, t, 0);
    case FX_OP_ones: case FX_OP_ones_like: case FX_OP_new_ones: {
        double one = 1;
        size_t size = fx_dtype_size(t->dtype);
        for (int64_t k = 0, n = fx_tensor_numel(t); k < n; k++)
            fx_row_store(t->dtype, (char *)t->data + (size_t)k * size, 1, FX_KIND_F64, &one, 1);
        return FX_OK;
    }
    default: /* zeros, and what is to be overwritten: fresh memory is zero */
        return FX_OK;
    }
}

fx_status eval_fill(fx_eval *c)
{
    if (c->node->op->id == FX_OP_zero) {
        fx_eval_out(c, 0); /* fresh memory is zero */
        return FX_OK;
    }
    return fill(c, fx_eval_out(c, 0), 1);
}
