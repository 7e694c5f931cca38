/* passes/functionalize_view.c: which results share memory with their operand in eager PyTorch, and how such views are taken again
 * or undone.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "passes/rewrite.h"

#include <string.h>

static void dense_strides(int rank, const int64_t *sizes, int64_t *strides)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= sizes[i] > 0 ? sizes[i] : 1;
    }
}

static bool same_strides(int rank, const int64_t *sizes, const int64_t *a, const int64_t *b)
{
    for (int i = 0; i < rank; i++)
        if (sizes[i] != 1 && a[i] != b[i])
            return false;
    return true;
}

/* Strides that let a tensor be seen under other sizes without a copy, by torch's rule (computeStride): every run of new dims
 * must lie within a run of old dims that are dense among themselves. */
static bool view_strides(int rank, const int64_t *sizes, const int64_t *strides, int new_rank, const int64_t *new_sizes,
                         int64_t *new_strides)
{
    int64_t numel = 1, run = 1, seen = 1, base = rank ? strides[rank - 1] : 1;
    int v = new_rank - 1;
    for (int i = 0; i < rank; i++)
        numel *= sizes[i];
    if (numel == 0 || rank == 0) {
        dense_strides(new_rank, new_sizes, new_strides);
        return true;
    }
    for (int i = rank - 1; i >= 0; i--) {
        run *= sizes[i];
        if (i > 0 && (sizes[i - 1] == 1 || strides[i - 1] == run * base))
            continue;
        while (v >= 0 && (seen < run || new_sizes[v] == 1)) {
            new_strides[v] = seen * base;
            seen *= new_sizes[v--];
        }
        if (seen != run)
            return false;
        if (i > 0) {
            base = strides[i - 1];
            run = seen = 1;
        }
    }
    return v < 0;
}

static const fx_node *operand0(const fx_node *n)
{
    return fx_node_input(n, 0);
}

/* The dims of permute, transpose.int, t, T, mT, movedim; false for other views. */
static bool permuted(const fx_node *view, int *rank, int64_t *dims)
{
    int64_t given[FX_MAX_RANK];
    int order[FX_MAX_RANK];
    *rank = view->type->rank;
    for (int i = 0; i < *rank; i++)
        dims[i] = i;
    if (view->opcode != FX_CALL_FUNCTION || !view->op)
        return false;
    switch (view->op->id) {
    case FX_OP_permute:
        fx_node_ints(view, 1, given, FX_MAX_RANK);
        for (int i = 0; i < *rank; i++)
            dims[i] = fx_wrap_dim(given[i], *rank);
        return true;
    case FX_OP_movedim_int: case FX_OP_movedim_intlist: {
        const fx_infer infer = {.ctx = view->graph->ctx, .node = view};
        if (fx_move_dims(&infer, *rank, order) != FX_OK)
            return false;
        for (int i = 0; i < *rank; i++)
            dims[i] = order[i];
        return true;
    }
    case FX_OP_numpy_T:
        for (int i = 0; i < *rank; i++)
            dims[i] = *rank - 1 - i;
        return true;
    case FX_OP_t: case FX_OP_mT: case FX_OP_transpose_int:
        if (*rank >= 2) {
            bool given_dims = view->op->id == FX_OP_transpose_int;
            int a = given_dims ? fx_wrap_dim(fx_node_int(view, 1), *rank) : *rank - 2;
            int b = given_dims ? fx_wrap_dim(fx_node_int(view, 2), *rank) : *rank - 1;
            dims[a] = b;
            dims[b] = a;
        }
        return true;
    default:
        return false;
    }
}

/* The strides a value has in eager mode: as the model's file says, else as its ops make them, else dense. */
static void strides_of(fx_graph *g, const fx_node *n, int depth, int64_t *strides)
{
    int64_t sizes[FX_MAX_RANK], from[FX_MAX_RANK], inner[FX_MAX_RANK];
    int rank = fx_dims(n, sizes);
    dense_strides(rank, sizes, strides);
    if (rank == 0)
        return;
    /* The file has the strides of a clone here, because that is what tracing makes of it. Eager returns its input. */
    bool same = (fx_is_call(n, FX_OP_dropout) || fx_is_call(n, FX_OP_feature_dropout)) && !fx_is_random(n);
    if (same && depth > 0 && operand0(n)) {
        strides_of(g, operand0(n), depth - 1, strides);
        return;
    }
    bool known = n->type->strides != NULL;
    for (int i = 0; known && i < rank; i++)
        known = !n->type->strides[i].sym;
    if (known) {
        for (int i = 0; i < rank; i++)
            strides[i] = n->type->strides[i].value;
        return;
    }
    fx_attr *a = n->opcode == FX_GET_ATTR ? fx_attr_find(g, n->target) : NULL;
    if (a && a->tensor.rank == rank) {
        memcpy(strides, a->tensor.strides, (size_t)rank * sizeof *strides);
        return;
    }
    if (n->opcode != FX_CALL_FUNCTION || !n->op || depth == 0)
        return;
    const fx_node *x = n->op->cls == FX_CLASS_VIEW ? operand0(n) : NULL;
    if (!x || !fx_is_tensor(x))
        return;
    int x_rank = fx_dims(x, from);
    strides_of(g, x, depth - 1, inner);
    int64_t dims[FX_MAX_RANK];
    int same_rank;
    if (permuted(n, &same_rank, dims)) {
        for (int i = 0; i < rank; i++)
            strides[i] = inner[dims[i]];
        return;
    }
    switch (n->op->id) {
    case FX_OP_narrow:
        memcpy(strides, inner, (size_t)rank * sizeof *strides);
        break;
    case FX_OP_expand:
    case FX_OP_expand_as:
        for (int i = 0; i < rank; i++) {
            int j = i - (rank - x_rank);
            strides[i] = j < 0 || from[j] != sizes[i] ? 0 : inner[j];
        }
        break;
    case FX_OP_slice_Tensor:
        memcpy(strides, inner, (size_t)rank * sizeof *strides);
        strides[fx_wrap_dim(fx_node_int(n, 1), rank)] *= fx_node_int(n, 4);
        break;
    case FX_OP_select_int: {
        int d = fx_wrap_dim(fx_node_int(n, 1), x_rank);
        for (int i = 0; i < rank; i++)
            strides[i] = inner[i < d ? i : i + 1];
        break;
    }
    case FX_OP_unfold: {
        int d = fx_wrap_dim(fx_node_int(n, 1), x_rank);
        memcpy(strides, inner, (size_t)x_rank * sizeof *strides);
        strides[rank - 1] = inner[d];
        strides[d] *= fx_node_int(n, 3);
        break;
    }
    case FX_OP_diagonal: {
        int d0 = fx_wrap_dim(fx_node_int(n, 2), x_rank), d1 = fx_wrap_dim(fx_node_int(n, 3), x_rank), k = 0;
        for (int i = 0; i < x_rank; i++)
            if (i != d0 && i != d1)
                strides[k++] = inner[i];
        strides[k] = inner[d0] + inner[d1];
        break;
    }
    default:
        if (!view_strides(x_rank, from, inner, rank, sizes, strides))
            dense_strides(rank, sizes, strides);
        break;
    }
}

enum { STRIDE_DEPTH = 64 };

/* Whether eager's reshape of x to n's sizes is a view. */
static bool reshapes_in_place(fx_graph *g, const fx_node *x, const fx_node *n)
{
    int64_t sizes[FX_MAX_RANK], strides[FX_MAX_RANK], out[FX_MAX_RANK], out_strides[FX_MAX_RANK];
    int rank = fx_dims(x, sizes), out_rank = fx_dims(n, out);
    strides_of(g, x, STRIDE_DEPTH, strides);
    return view_strides(rank, sizes, strides, out_rank, out, out_strides);
}

static bool is_dense(fx_graph *g, const fx_node *x, const fx_arg *format)
{
    int64_t sizes[FX_MAX_RANK], strides[FX_MAX_RANK], dense[FX_MAX_RANK];
    int rank = fx_dims(x, sizes);
    strides_of(g, x, STRIDE_DEPTH, strides);
    if (format->kind == FX_ARG_MEMORY_FORMAT && !strcmp(format->s, "torch.channels_last") && rank == 4) {
        dense[1] = 1;
        dense[3] = sizes[1];
        dense[2] = sizes[1] * sizes[3];
        dense[0] = dense[2] * sizes[2];
    } else {
        dense_strides(rank, sizes, dense);
    }
    return same_strides(rank, sizes, strides, dense);
}

static bool is_split(const fx_node *n)
{
    return fx_is_call(n, FX_OP_chunk) || fx_is_call(n, FX_OP_split_Tensor) || fx_is_call(n, FX_OP_split_with_sizes) ||
           fx_is_call(n, FX_OP_unsafe_split_Tensor) || fx_is_call(n, FX_OP_tensor_split_sections) || fx_is_call(n, FX_OP_unbind_int);
}

fx_sharing fx_node_sharing(fx_graph *g, const fx_node *n)
{
    if (n->opcode != FX_CALL_FUNCTION || !n->op)
        return FX_FRESH;
    const fx_node *x = operand0(n);
    if (!x)
        return FX_FRESH;
    switch (n->op->id) {
    case FX_OP_getitem:
        return is_split(x) ? FX_VIEW_OF : FX_FRESH;
    case FX_OP_chunk:
    case FX_OP_split_Tensor:
    case FX_OP_unsafe_split_Tensor: /* what is unsafe is to write; eager's share memory, too */
    case FX_OP_split_with_sizes:
    case FX_OP_tensor_split_sections:
    case FX_OP_unbind_int:
        return FX_VIEWS_OF;
    case FX_OP_alias:
    case FX_OP_detach:
        return FX_SAME_TENSOR;
    case FX_OP_dropout: /* evaluation mode: eager returns its input */
    case FX_OP_feature_dropout:
        return fx_is_random(n) ? FX_FRESH : FX_SAME_TENSOR;
    case FX_OP_contiguous:
        return is_dense(g, x, fx_node_arg(n, 1)) ? FX_SAME_TENSOR : FX_FRESH;
    case FX_OP_to_dtype: case FX_OP_to_dtype_layout: case FX_OP_to_device: case FX_OP_to_other: case FX_OP_type_as: {
        int format_param = fx_node_param(n, "memory_format"), copy = fx_node_param(n, "copy");
        const fx_arg *format = format_param < 0 ? NULL : fx_node_arg(n, format_param);
        bool keeps = !format || format->kind != FX_ARG_MEMORY_FORMAT || !strcmp(format->s, "torch.preserve_format") || is_dense(g, x, format);
        return fx_same_type(x, n) && (copy < 0 || !fx_node_bool(n, copy)) && keeps ? FX_SAME_TENSOR : FX_FRESH;
    }
    case FX_OP_reshape:
    case FX_OP_reshape_as:
    case FX_OP_ravel:
    case FX_OP_flatten_using_ints:
        if (!reshapes_in_place(g, x, n))
            return FX_FRESH;
        return fx_same_type(x, n) ? FX_SAME_TENSOR : FX_VIEW_OF;
    case FX_OP_channel_shuffle:
    case FX_OP_pixel_shuffle:
    case FX_OP_pixel_unshuffle:
        return FX_FRESH;
    default:
        return n->op->cls == FX_CLASS_VIEW ? FX_VIEW_OF : FX_FRESH;
    }
}

/* A part of a dim: what slice, select and the items of a split show. */
typedef struct part {
    int dim;
    int64_t start, stop, step;
    bool drops; /* select: the dim goes */
} part;

static bool part_of(const fx_node *view, part *p)
{
    const fx_node *x = operand0(view);
    if (fx_is_call(view, FX_OP_getitem) && is_split(x)) {
        const fx_node *of = operand0(x);
        int64_t index = fx_node_int(view, 1);
        if (index < 0)
            index += x->type->n;
        bool unbind = fx_is_call(x, FX_OP_unbind_int);
        *p = (part){ .dim = fx_wrap_dim(fx_node_int(x, unbind ? 1 : 2), of->type->rank), .step = 1, .drops = unbind };
        if (unbind) {
            p->start = index;
            p->stop = index + 1;
            return true;
        }
        for (int i = 0; i < index && i < x->type->n; i++)
            p->start += x->type->items[i]->dims[p->dim].value;
        p->stop = p->start + fx_dim_size(view, p->dim);
        return true;
    }
    if (fx_is_call(view, FX_OP_slice_Tensor)) {
        *p = (part){ .dim = fx_wrap_dim(fx_node_int(view, 1), x->type->rank), .step = fx_node_int(view, 4) };
        int64_t size = fx_dim_size(x, p->dim), start = fx_node_is_none(view, 2) ? 0 : fx_node_int(view, 2);
        if (start < 0)
            start += size;
        p->start = start < 0 ? 0 : start > size ? size : start;
        int64_t count = fx_dim_size(view, p->dim);
        p->stop = count ? p->start + (count - 1) * p->step + 1 : p->start;
        return true;
    }
    if (fx_is_call(view, FX_OP_narrow)) {
        *p = (part){ .dim = fx_wrap_dim(fx_node_int(view, 1), x->type->rank), .step = 1 };
        int64_t start = fx_node_int(view, 2);
        p->start = start < 0 ? start + fx_dim_size(x, p->dim) : start;
        p->stop = p->start + fx_dim_size(view, p->dim);
        return true;
    }
    if (fx_is_call(view, FX_OP_select_int)) {
        *p = (part){ .dim = fx_wrap_dim(fx_node_int(view, 1), x->type->rank), .step = 1, .drops = true };
        int64_t index = fx_node_int(view, 2);
        p->start = index < 0 ? index + fx_dim_size(x, p->dim) : index;
        p->stop = p->start + 1;
        return true;
    }
    return false;
}

bool fx_view_is_part(const fx_node *view)
{
    part p;
    return part_of(view, &p);
}

static bool is_static(const fx_node *view, const fx_node *base)
{
    return fx_is_tensor(view) && fx_is_tensor(base);
}

/* The view's own call with another operand, for sizes that are expressions. */
static fx_node *same_call(fx_rw *w, const fx_node *view, fx_node *base)
{
    fx_call c = fx_rw_call(w, view->op->id);
    fx_call_node(&c, base);
    for (int i = 1; i < view->args->n; i++)
        fx_call_copy(&c, view, i);
    return fx_rw_node(w, &c, "again");
}

/* base with what a slice or select of it shows replaced by value; other parts NULL. */
static fx_node *scatter(fx_rw *w, const fx_node *view, fx_node *base, fx_node *value)
{
    bool slice = fx_is_call(view, FX_OP_slice_Tensor);
    if (!slice && !fx_is_call(view, FX_OP_select_int))
        return NULL;
    fx_call c = fx_rw_call(w, slice ? FX_OP_slice_scatter : FX_OP_select_scatter);
    fx_call_node(&c, base);
    fx_call_node(&c, value);
    for (int i = 1; i < view->args->n; i++)
        fx_call_copy(&c, view, i);
    return fx_rw_node(w, &c, "base");
}

/* The same as fx_view_write where sizes are expressions. */
static fx_node *write_dynamic(fx_rw *w, const fx_node *view, fx_node *base, fx_node *value)
{
    int rank;
    int64_t dims[FX_MAX_RANK], inverse[FX_MAX_RANK];
    fx_dim sizes[FX_MAX_RANK];
    fx_node *put = scatter(w, view, base, value);
    const fx_node *x = operand0(view);
    if (put)
        return put;
    if (permuted(view, &rank, dims)) {
        for (int i = 0; i < rank; i++)
            inverse[dims[i]] = i;
        return fx_rw_permute(w, value, rank, inverse, "base");
    }
    switch (view->op->id) {
    case FX_OP_view: case FX_OP_reshape: case FX_OP_flatten_using_ints: case FX_OP_unsqueeze: case FX_OP_squeeze_dim: case FX_OP_unflatten_int:
        rank = fx_sizes(x, sizes);
        return fx_rw_view_to(w, value, rank, sizes, "base");
    default:
        if (w->status == FX_OK)
            w->status = fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &view->loc, "%s: a write in place through this view of dynamic size cannot be compiled",
                                view->target);
        return base;
    }
}

fx_node *fx_view_again(fx_rw *w, const fx_node *view, fx_node *base)
{
    if (!is_static(view, base) && fx_is_call(view, FX_OP_getitem)) {
        w->origin = view;
        fx_node *split = same_call(w, operand0(view), base);
        return fx_rw_item(w, split, (int)fx_node_int(view, 1), "again");
    }
    if (!is_static(view, base)) {
        w->origin = view;
        return same_call(w, view, base);
    }
    part p;
    int rank;
    int64_t dims[FX_MAX_RANK], sizes[FX_MAX_RANK];
    w->origin = view;
    int out_rank = fx_dims(view, sizes);
    if (part_of(view, &p)) {
        fx_node *s = fx_rw_slice(w, base, p.dim, p.start, p.stop, p.step, "again");
        return p.drops ? fx_rw_view(w, s, out_rank, sizes, "again") : s;
    }
    if (permuted(view, &rank, dims))
        return fx_rw_permute(w, base, rank, dims, "again");
    if (fx_is_call(view, FX_OP_expand) || fx_is_call(view, FX_OP_expand_as))
        return fx_rw_expand(w, base, out_rank, sizes, "again");
    if (fx_is_call(view, FX_OP_unfold) || fx_is_call(view, FX_OP_diagonal)) {
        fx_call c = fx_rw_call(w, view->op->id);
        fx_call_node(&c, base);
        for (int i = 1; i < 4; i++)
            fx_call_copy(&c, view, i);
        return fx_rw_node(w, &c, "again");
    }
    return fx_rw_view(w, base, out_rank, sizes, "again");
}

fx_node *fx_view_write(fx_rw *w, const fx_node *view, fx_node *base, fx_node *value)
{
    w->origin = view;
    if (!is_static(view, base))
        return write_dynamic(w, view, base, value);
    part p;
    int rank;
    int64_t dims[FX_MAX_RANK], inverse[FX_MAX_RANK], sizes[FX_MAX_RANK];
    const fx_node *x = operand0(view);
    if (is_split(x))
        x = operand0(x);
    int x_rank = fx_dims(x, sizes);
    if (part_of(view, &p)) {
        fx_node *piece[3];
        int n = 0;
        int64_t size = sizes[p.dim];
        if (p.stop == p.start)
            return base;
        if (p.step != 1 && p.stop > p.start + 1)
            return scatter(w, view, base, value); /* only a slice has a step */
        if (p.drops) {
            sizes[p.dim] = 1;
            value = fx_rw_view(w, value, x_rank, sizes, "written");
        }
        if (p.start > 0)
            piece[n++] = fx_rw_slice(w, base, p.dim, 0, p.start, 1, "before");
        piece[n++] = value;
        if (p.stop < size)
            piece[n++] = fx_rw_slice(w, base, p.dim, p.stop, size, 1, "after");
        return n == 1 ? value : fx_rw_cat(w, n, piece, p.dim, "base");
    }
    if (permuted(view, &rank, dims)) {
        for (int i = 0; i < rank; i++)
            inverse[dims[i]] = i;
        return fx_rw_permute(w, value, rank, inverse, "base");
    }
    if (fx_is_call(view, FX_OP_expand) || fx_is_call(view, FX_OP_expand_as)) {
        if (fx_same_type(x, view))
            return value;
        w->status = fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &view->loc, "%s: a write in place into an expanded tensor has no defined "
                            "result", view->target);
        return base;
    }
    if (fx_is_call(view, FX_OP_unfold) || fx_is_call(view, FX_OP_diagonal)) {
        w->status = fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &view->loc, "%s: a write in place through this view cannot be compiled", view->target);
        return base;
    }
    return fx_rw_view(w, value, x_rank, sizes, "base");
}

void fx_rw_meshgrid(fx_rw *w)
{
    fx_node *x[FX_MAX_RANK];
    int n = fx_node_inputs(w->at, 0, x, FX_MAX_RANK);
    const fx_arg *mode = fx_op_schema(w->ctx, w->at->op)->n > 1 ? fx_node_arg(w->at, 1) : NULL;
    bool xy = mode && mode->kind == FX_ARG_STR && !strcmp(mode->s, "xy");
    fx_dim sizes[FX_MAX_RANK], one[FX_MAX_RANK];
    for (int i = 0; i < n; i++)
        sizes[xy && n >= 2 && i < 2 ? 1 - i : i] = x[i]->type->rank ? x[i]->type->dims[0] : fx_dim_of(1);
    for (int i = 0; i < n; i++) {
        int at = xy && n >= 2 && i < 2 ? 1 - i : i;
        for (int d = 0; d < n; d++)
            one[d] = d == at ? sizes[at] : fx_dim_of(1);
        x[i] = fx_rw_expand_to(w, fx_rw_view_to(w, x[i], n, one, "axis"), n, sizes, "grid");
    }
    fx_rw_results(w, n, x);
}
