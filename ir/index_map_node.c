/* ir/index_map_node.c: the index map of a node of a graph.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/index_map.h"

static int axis_of(const fx_node *n, int param, int rank)
{
    int64_t d = fx_node_int(n, param);
    d += d < 0 ? rank : 0;
    return d >= 0 && d < rank ? (int)d : -1;
}

/* An integer argument, perhaps an expression. */
static bool dim_of(const fx_arg *a, fx_dim *out)
{
    *out = a->kind == FX_ARG_SYM ? fx_dim_sym(a->sym) : fx_dim_of(a->i);
    return a->kind == FX_ARG_SYM || a->kind == FX_ARG_INT;
}

static int dims_of(const fx_node *n, int param, fx_dim *out)
{
    const fx_arg *list = fx_node_arg(n, param);
    if (list->kind != FX_ARG_LIST && list->kind != FX_ARG_TUPLE)
        return dim_of(list, out) ? 1 : -1;
    if (list->n > FX_MAX_RANK * 2)
        return -1;
    for (int i = 0; i < list->n; i++)
        if (!dim_of(list->items[i], &out[i]))
            return -1;
    return list->n;
}

static bool at_least(const fx_imaps *m, fx_dim a, int64_t v)
{
    return fx_dim_at_least(m->ctx, m->symbols, a, v);
}

/* A start as torch counts it: from the end when negative, clipped to the size. */
static bool start_of(const fx_imaps *m, fx_dim start, fx_dim size, fx_dim *out)
{
    if (at_least(m, start, 0))
        *out = start;
    else if (at_least(m, fx_dim_scale(m->ctx, start, -1), 1))
        *out = fx_dim_add(m->ctx, start, size);
    else
        return false;
    if (fx_dim_known(*out) && fx_dim_known(size))
        *out = fx_dim_of(out->value < 0 ? 0 : out->value > size.value ? size.value : out->value);
    return true;
}

static const fx_imap *slice(const fx_imaps *m, const fx_node *n, const fx_type *x)
{
    int d = axis_of(n, 1, x->rank);
    fx_dim start = fx_dim_of(0), step;
    if (d < 0 || (!fx_node_is_none(n, 2) && (!dim_of(fx_node_arg(n, 2), &start) || !start_of(m, start, x->dims[d], &start))) ||
        !dim_of(fx_node_arg(n, 4), &step))
        return NULL;
    return fx_imap_slice(m, x->rank, x->dims, d, start, step, n->type->dims[d]);
}

static const fx_imap *cat(const fx_imaps *m, const fx_node *n)
{
    int count = fx_node_inputs(n, 0, NULL, 0);
    if (count < 1 || !n->type->rank)
        return NULL;
    fx_node **in = FX_NEW_ARRAY(m->arena, fx_node *, count);
    fx_dim *size = FX_NEW_ARRAY(m->arena, fx_dim, count);
    fx_node_inputs(n, 0, in, count);
    int d = axis_of(n, 1, n->type->rank);
    if (d < 0)
        return NULL;
    for (int i = 0; i < count; i++) {
        if (!in[i] || !in[i]->type || in[i]->type->kind != FX_TYPE_TENSOR)
            return NULL;
        /* cat skips an old-style empty tensor of one dim */
        size[i] = in[i]->type->rank == n->type->rank ? in[i]->type->dims[d] : fx_dim_of(0);
    }
    return fx_imap_cat(m, n->type->rank, n->type->dims, d, count, size);
}

static const fx_imap *pad(const fx_imaps *m, const fx_node *n, const fx_type *x)
{
    fx_dim v[2 * FX_MAX_RANK], before[FX_MAX_RANK], after[FX_MAX_RANK];
    int count = dims_of(n, 1, v);
    if (count < 0 || count > 2 * x->rank)
        return NULL;
    for (int i = 0; i < x->rank; i++) {
        int from_end = x->rank - 1 - i;
        bool has = 2 * from_end + 1 < count;
        before[i] = has ? v[2 * from_end] : fx_dim_of(0);
        after[i] = has ? v[2 * from_end + 1] : fx_dim_of(0);
    }
    return fx_imap_pad(m, x->rank, x->dims, before, after);
}

static const fx_imap *flip(const fx_imaps *m, const fx_node *n, const fx_type *x)
{
    int64_t dims[FX_MAX_RANK];
    unsigned which = 0;
    int count = fx_node_ints(n, 1, dims, FX_MAX_RANK);
    for (int i = 0; i < count; i++)
        which |= 1u << (dims[i] < 0 ? dims[i] + x->rank : dims[i]);
    return count < 0 ? NULL : fx_imap_flip(m, x->rank, x->dims, which);
}

static const fx_imap *permute(const fx_imaps *m, const fx_node *n, const fx_type *x)
{
    int64_t dims[FX_MAX_RANK];
    int order[FX_MAX_RANK];
    if (fx_node_ints(n, 1, dims, FX_MAX_RANK) != x->rank)
        return NULL;
    for (int i = 0; i < x->rank; i++)
        order[i] = (int)(dims[i] < 0 ? dims[i] + x->rank : dims[i]);
    return fx_imap_permute(m, x->rank, x->dims, order);
}

static const fx_imap *transpose(const fx_imaps *m, const fx_type *x, int a, int b)
{
    int order[FX_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        order[i] = i == a ? b : i == b ? a : i;
    return fx_imap_permute(m, x->rank, x->dims, order);
}

static const fx_imap *unfold(const fx_imaps *m, const fx_node *n, const fx_type *x)
{
    int d = axis_of(n, 1, x->rank);
    if (d < 0 || x->rank == FX_MAX_RANK)
        return NULL;
    return fx_imap_unfold(m, x->rank, x->dims, d, fx_dim_of(fx_node_int(n, 2)), fx_dim_of(fx_node_int(n, 3)));
}

static const fx_imap *diagonal(const fx_imaps *m, const fx_node *n, const fx_type *x)
{
    int a = axis_of(n, 2, x->rank), b = axis_of(n, 3, x->rank);
    if (a < 0 || b < 0 || a == b)
        return NULL;
    return fx_imap_diagonal(m, x->rank, x->dims, fx_node_int(n, 1), a, b, n->type->dims[n->type->rank - 1]);
}

static const fx_imap *repeat(const fx_imaps *m, const fx_node *n, const fx_type *x)
{
    fx_dim times[2 * FX_MAX_RANK];
    int count = dims_of(n, 1, times);
    return count < x->rank || count > FX_MAX_RANK ? NULL : fx_imap_repeat(m, x->rank, x->dims, count, times);
}

/* Dims rolled one after another; without dims, of the tensor made flat. */
static const fx_imap *roll(const fx_imaps *m, const fx_node *n, const fx_type *x)
{
    fx_dim shifts[2 * FX_MAX_RANK];
    int64_t dims[FX_MAX_RANK];
    int count = dims_of(n, 1, shifts), given = fx_node_ints(n, 2, dims, FX_MAX_RANK);
    if (count < 1 || given != count)
        return NULL;
    const fx_imap *all = fx_imap_identity(m, x->rank, x->dims);
    for (int i = 0; i < count && all; i++) {
        int d = (int)(dims[i] < 0 ? dims[i] + x->rank : dims[i]);
        if (!fx_dim_known(shifts[i]) || !fx_dim_known(x->dims[d]) || x->dims[d].value == 0)
            return NULL;
        int64_t size = x->dims[d].value, by = shifts[i].value % size;
        all = fx_imap_compose(m, all, 0, fx_imap_roll(m, x->rank, x->dims, d, fx_dim_of(by < 0 ? by + size : by)), 0);
    }
    return all;
}

const fx_imap *fx_imap_of_node(const fx_imaps *m, const fx_node *n)
{
    const fx_type *t = n->type;
    if (!n->op || !t || t->kind != FX_TYPE_TENSOR)
        return NULL;
    if (n->op->id == FX_OP_cat)
        return cat(m, n);
    fx_node *in = fx_node_input(n, 0);
    const fx_type *x = in ? in->type : NULL;
    if (!x || x->kind != FX_TYPE_TENSOR)
        return NULL;
    fx_dim index;
    int d;
    switch (n->op->id) {
    case FX_OP_view: case FX_OP_reshape: case FX_OP__unsafe_view: case FX_OP_flatten_using_ints: case FX_OP_unflatten_int:
    case FX_OP_view_as: case FX_OP_unsqueeze: case FX_OP_squeeze: case FX_OP_squeeze_dim: case FX_OP_squeeze_dims:
        return fx_imap_reshape(m, x->rank, x->dims, t->rank, t->dims);
    case FX_OP_alias: case FX_OP_detach: case FX_OP_clone: case FX_OP_contiguous:
        return fx_imap_identity(m, x->rank, x->dims);
    case FX_OP_permute:
        return permute(m, n, x);
    case FX_OP_t:
        return x->rank == 2 ? transpose(m, x, 0, 1) : fx_imap_identity(m, x->rank, x->dims);
    case FX_OP_transpose_int:
        return x->rank ? transpose(m, x, axis_of(n, 1, x->rank), axis_of(n, 2, x->rank)) : fx_imap_identity(m, 0, NULL);
    case FX_OP_expand: case FX_OP_expand_as:
        return fx_imap_expand(m, x->rank, x->dims, t->rank, t->dims);
    case FX_OP_slice_Tensor:
        return slice(m, n, x);
    case FX_OP_select_int:
        d = axis_of(n, 1, x->rank);
        if (d < 0 || !dim_of(fx_node_arg(n, 2), &index) || !start_of(m, index, x->dims[d], &index))
            return NULL;
        return fx_imap_select(m, x->rank, x->dims, d, index);
    case FX_OP_flip:
        return flip(m, n, x);
    case FX_OP_constant_pad_nd:
        return pad(m, n, x);
    case FX_OP_unfold:
        return unfold(m, n, x);
    case FX_OP_diagonal:
        return diagonal(m, n, x);
    case FX_OP_repeat:
        return repeat(m, n, x);
    case FX_OP_roll:
        return roll(m, n, x);
    default:
        return NULL;
    }
}
