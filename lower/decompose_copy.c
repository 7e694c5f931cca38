/* lower/decompose_copy.c: operators that repeat, move, mask or overwrite elements, as views, cats, comparisons of indices and where.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <string.h>

/* Every element of `dim` `by` times: in turns (whole) or one after another. */
static fx_node *repeated(fx_rw *w, fx_node *x, int dim, fx_dim by, bool whole)
{
    fx_dim sizes[FX_MAX_RANK], wide[FX_MAX_RANK + 1];
    int rank = fx_sizes(x, sizes);
    if (fx_dim_is(by, 1))
        return x;
    if (rank + 1 > FX_MAX_RANK) {
        fx_rw_refuse(w, "expected a rank of at most %d", FX_MAX_RANK - 1);
        return x;
    }
    for (int i = 0, k = 0; i < rank; i++) {
        if (i == dim && whole)
            wide[k++] = fx_dim_of(1);
        wide[k++] = sizes[i];
        if (i == dim && !whole)
            wide[k++] = fx_dim_of(1);
    }
    fx_node *y = fx_rw_view_to(w, x, rank + 1, wide, "turn");
    wide[whole ? dim : dim + 1] = by;
    sizes[dim] = fx_dim_mul(w->ctx, sizes[dim], by);
    return fx_rw_view_to(w, fx_rw_expand_to(w, y, rank + 1, wide, "turns"), rank, sizes, "repeated");
}

/* A list of sizes among the arguments, expressions included. */
static int size_list(fx_rw *w, int param, fx_dim *out)
{
    const fx_arg *a = fx_node_arg(w->at, param);
    int n = a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE ? a->n : 1;
    for (int i = 0; i < n && i < FX_MAX_RANK; i++) {
        const fx_arg *v = n == 1 && a->kind != FX_ARG_LIST && a->kind != FX_ARG_TUPLE ? a : a->items[i];
        if (v->kind != FX_ARG_INT && v->kind != FX_ARG_SYM) {
            fx_rw_refuse(w, "expected sizes that are numbers or expressions");
            return 0;
        }
        out[i] = v->kind == FX_ARG_INT ? fx_dim_of(v->i) : fx_dim_sym(v->sym);
    }
    return n < FX_MAX_RANK ? n : FX_MAX_RANK;
}

/* repeat, tile */
void fx_d_repeat(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim by[FX_MAX_RANK], sizes[FX_MAX_RANK], out[FX_MAX_RANK];
    int n = size_list(w, 1, by), rank = fx_sizes(x, sizes), out_rank = n > rank ? n : rank;
    if (w->status != FX_OK)
        return;
    for (int i = 0; i < out_rank; i++)
        out[i] = i < out_rank - rank ? fx_dim_of(1) : sizes[i - (out_rank - rank)];
    if (out_rank > rank)
        x = fx_rw_view_to(w, x, out_rank, out, "wide");
    for (int i = 0; i < n && w->status == FX_OK; i++) {
        int d = i + (out_rank - n);
        if (fx_dim_is(out[d], 1)) { /* no copy in turns: one expand */
            out[d] = by[i];
            if (!fx_dim_is(by[i], 1))
                x = fx_rw_expand_to(w, x, out_rank, out, "expand");
        } else {
            x = repeated(w, x, d, by[i], true);
            out[d] = fx_dim_mul(w->ctx, out[d], by[i]);
        }
    }
    fx_rw_finish(w, x);
}

void fx_d_repeat_interleave(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim by[FX_MAX_RANK], sizes[FX_MAX_RANK], flat = fx_dim_of(1);
    int rank = fx_sizes(x, sizes), dim = 0;
    if (size_list(w, 1, by) != 1)
        return;
    if (fx_node_is_none(w->at, 2) || rank == 0) {
        for (int i = 0; i < rank; i++)
            flat = fx_dim_mul(w->ctx, flat, sizes[i]);
        x = fx_rw_view_to(w, x, 1, &flat, "flat");
    } else {
        dim = fx_wrap_dim(fx_node_int(w->at, 2), rank);
    }
    fx_rw_finish(w, repeated(w, x, dim, by[0], false));
}

/* Both parts of a dim, in the other order. */
static fx_node *rolled(fx_rw *w, fx_node *x, int dim, int64_t by)
{
    fx_dim size = x->type->dims[dim];
    if (size.sym) {
        fx_rw_refuse(w, "dim %d is dynamic, where it is rolled its size must be known", dim);
        return x;
    }
    int64_t n = size.value, at = n ? ((by % n) + n) % n : 0;
    if (at == 0)
        return x;
    fx_node *part[2] = {fx_rw_slice(w, x, dim, n - at, n, 1, "end"), fx_rw_slice(w, x, dim, 0, n - at, 1, "begin")};
    return fx_rw_cat(w, 2, part, dim, "roll");
}

void fx_d_roll(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int64_t by[FX_MAX_RANK], dims[FX_MAX_RANK];
    int n = fx_node_ints(w->at, 1, by, FX_MAX_RANK), m = fx_node_ints(w->at, 2, dims, FX_MAX_RANK), rank = x->type->rank;
    if (n < 1 || (m > 0 && m != n)) {
        fx_rw_refuse(w, "expected shifts that are numbers");
        return;
    }
    if (m <= 0) {
        int64_t sizes[FX_MAX_RANK], flat = fx_is_tensor(x) ? fx_type_numel(x->type) : -1;
        if (flat < 0) {
            fx_rw_refuse(w, "a tensor of dynamic size cannot be rolled as a whole");
            return;
        }
        fx_dims(x, sizes);
        x = rolled(w, fx_rw_view(w, x, 1, &flat, "flat"), 0, by[0]);
        x = fx_rw_view(w, x, rank, sizes, "shape");
    }
    for (int i = 0; i < m && rank; i++)
        x = rolled(w, x, fx_wrap_dim(dims[i], rank), by[i]);
    fx_rw_finish(w, x);
}

/* Where op(column, row + offset) holds, for the last two of sizes. */
static fx_node *indices_compared(fx_rw *w, fx_opid op, fx_dim rows, fx_dim columns, fx_dim offset)
{
    fx_dim shape[2] = {rows, fx_dim_of(1)};
    fx_node *row = fx_rw_arange(w, offset, fx_dim_add(w->ctx, rows, offset), "row");
    fx_node *column = fx_rw_arange(w, fx_dim_of(0), columns, "column");
    return fx_rw_binary(w, op, column, fx_rw_view_to(w, row, 2, shape, "rows"), "mask");
}

/* tril, triu: zero where the column lies too far from the row. */
void fx_d_triangle(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim sizes[FX_MAX_RANK], offset[FX_MAX_RANK];
    int rank = fx_sizes(x, sizes);
    if (size_list(w, 1, offset) != 1)
        return;
    fx_node *mask = indices_compared(w, w->at->op->id == FX_OP_tril ? FX_OP_le_Tensor : FX_OP_ge_Tensor, sizes[rank - 2], sizes[rank - 1],
                                     offset[0]);
    fx_rw_where(w, mask, x, fx_rw_scalar(w, 0, x->type->dtype, "zero"), NULL);
}

/* eye: 1 where row and column are equal. */
void fx_d_eye(fx_rw *w)
{
    fx_dim sizes[FX_MAX_RANK];
    fx_sizes(w->at, sizes);
    fx_node *mask = indices_compared(w, FX_OP_eq_Tensor, sizes[0], sizes[1], fx_dim_of(0));
    if (w->at->type->dtype == FX_BOOL)
        fx_rw_finish(w, mask);
    else
        fx_rw_cast(w, mask, w->at->type->dtype, NULL);
}

/* The last dim on a diagonal of two: where row and column fit, one of them taken for its index. */
void fx_d_diag_embed(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim sizes[FX_MAX_RANK + 1];
    int rank = fx_sizes(x, sizes), d0 = fx_wrap_dim(fx_node_int(w->at, 2), rank + 1), d1 = fx_wrap_dim(fx_node_int(w->at, 3), rank + 1);
    int64_t offset = fx_node_int(w->at, 1), pad[2] = {0, offset < 0 ? -offset : offset}, dims[FX_MAX_RANK];
    if (offset) {
        fx_call c = fx_rw_call(w, FX_OP_constant_pad_nd);
        fx_call_node(&c, x);
        fx_call_ints(&c, 2, pad);
        fx_call_int(&c, 0);
        x = fx_rw_node(w, &c, "pad");
        fx_sizes(x, sizes);
    }
    fx_dim n = sizes[rank - 1];
    sizes[rank - 1] = offset >= 0 ? n : fx_dim_of(1);
    sizes[rank] = offset >= 0 ? fx_dim_of(1) : n;
    x = fx_rw_view_to(w, x, rank + 1, sizes, "wide");
    fx_node *mask = indices_compared(w, FX_OP_eq_Tensor, n, n, fx_dim_of(offset));
    x = fx_rw_where(w, mask, x, fx_rw_scalar(w, 0, x->type->dtype, "zero"), "diagonal");
    for (int i = 0, k = 0; i <= rank; i++)
        dims[i] = i == d0 ? rank - 1 : i == d1 ? rank : k++;
    fx_rw_finish(w, fx_rw_permute(w, x, rank + 1, dims, "order"));
}

/* A vector start, start + step, ... below end. */
static fx_node *steps(fx_rw *w, int64_t start, int64_t stop, int64_t step)
{
    fx_call c = fx_rw_call(w, FX_OP_arange_start_step);
    fx_call_int(&c, start);
    fx_call_int(&c, stop);
    fx_call_int(&c, step);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, FX_I64));
    return fx_rw_node(w, &c, "index");
}

/* select_scatter(self, src, dim, index), slice_scatter(self, src, dim, start, end, step): what is before, src, what is behind. */
void fx_d_overwrite(fx_rw *w)
{
    bool slice = w->at->op->id == FX_OP_slice_scatter;
    fx_node *x = fx_node_input(w->at, 0), *src = fx_node_input(w->at, 1), *part[3];
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(x, sizes), dim = fx_wrap_dim(fx_node_int(w->at, 2), rank), n = 0;
    const fx_arg *from = fx_node_arg(w->at, 3), *to = slice ? fx_node_arg(w->at, 4) : NULL;
    int64_t step = slice ? fx_node_int(w->at, 5) : 1, start = fx_node_int(w->at, 3);
    fx_dim size = sizes[dim], stop = size;
    if (src->type->dtype != w->at->type->dtype)
        src = fx_rw_cast(w, src, w->at->type->dtype, "cast");
    if (slice && from->kind == FX_ARG_NONE && (to->kind == FX_ARG_NONE || (to->kind == FX_ARG_INT && to->i == INT64_MAX)) && step == 1) {
        fx_rw_finish(w, src);
        return;
    }
    bool open = slice && (to->kind == FX_ARG_NONE || (to->kind == FX_ARG_INT && to->i == INT64_MAX));
    if ((from->kind != FX_ARG_INT && from->kind != FX_ARG_NONE) || (size.sym && (start < 0 || step != 1 || (slice && !open && to->kind != FX_ARG_INT)))) {
        fx_rw_refuse(w, "a part of a dynamic dim is overwritten: its ends must be known");
        return;
    }
    if (!size.sym) {
        int64_t m = size.value, end = !slice ? start + 1 : open ? m : fx_node_int(w->at, 4);
        start += start < 0 ? m : 0;
        end = !slice ? start + 1 : end + (end < 0 ? m : 0);
        start = start < 0 ? 0 : start > m ? m : start;
        end = end < start ? start : end > m ? m : end;
        stop = fx_dim_of(end);
    } else if (!open) {
        stop = fx_dim_of(slice ? to->i : start + 1);
    }
    if (step != 1) { /* scattered: by indices */
        fx_rw_put(w, x, dim, steps(w, start, stop.value, step), src, false);
        return;
    }
    if (!slice) {
        sizes[dim] = fx_dim_of(1);
        src = fx_rw_view_to(w, src, rank, sizes, "one");
    }
    if (start > 0)
        part[n++] = fx_rw_slice(w, x, dim, 0, start, 1, "before");
    part[n++] = src;
    if (!fx_dim_equal(stop, size))
        part[n++] = fx_rw_slice_to(w, x, dim, stop, size, 1, "behind");
    fx_rw_finish(w, n == 1 ? src : fx_rw_cat(w, n, part, dim, "whole"));
}

void fx_d_meshgrid(fx_rw *w)
{
    fx_rw_meshgrid(w);
}

/* x with a new last dim of size 1. */
static fx_node *with_last(fx_rw *w, fx_node *x, const char *suffix)
{
    fx_dim sizes[FX_MAX_RANK + 1];
    int rank = fx_sizes(x, sizes);
    sizes[rank] = fx_dim_of(1);
    return fx_rw_view_to(w, x, rank + 1, sizes, suffix);
}

/* Where the index equals 0, 1, ...; it is looked up among them, so that one out of range is found. */
void fx_d_one_hot(fx_rw *w)
{
    fx_dim column[2] = {fx_dim_of(fx_node_int(w->at, 1)), fx_dim_of(1)};
    fx_node *classes = fx_rw_arange(w, fx_dim_of(0), column[0], "classes");
    fx_call c = fx_rw_call(w, FX_OP_embedding);
    fx_call_node(&c, fx_rw_view_to(w, classes, 2, column, "column"));
    fx_call_copy(&c, w->at, 0);
    fx_node *mask = fx_rw_binary(w, FX_OP_eq_Tensor, fx_rw_node(w, &c, "class"), classes, "mask");
    fx_rw_cast(w, mask, FX_I64, NULL);
}

/* bucketize(x, edges), searchsorted(edges, x): the number of edges that are less (right: or equal). Of NaN all are. */
void fx_d_bucketize(fx_rw *w)
{
    bool search = w->at->op->id == FX_OP_searchsorted_Tensor, right = fx_node_bool(w->at, 3);
    fx_node *x = fx_node_input(w->at, search), *edges = fx_node_input(w->at, !search);
    if (search && fx_node_arg(w->at, 4)->kind == FX_ARG_STR)
        right = !strcmp(fx_node_arg(w->at, 4)->s, "right");
    if (edges->type->rank > 1) { /* a row of them for every row of values */
        fx_dim sizes[FX_MAX_RANK + 1];
        int rank = fx_sizes(edges, sizes);
        sizes[rank] = sizes[rank - 1];
        sizes[rank - 1] = fx_dim_of(1);
        edges = fx_rw_view_to(w, edges, rank + 1, sizes, "edges");
    }
    fx_node *behind = fx_rw_binary(w, right ? FX_OP_gt_Tensor : FX_OP_ge_Tensor, edges, with_last(w, x, "value"), "behind");
    fx_node *before = fx_rw_cast(w, fx_rw_unary(w, FX_OP_logical_not, behind, "before"), FX_I64, "count");
    int64_t dim = x->type->rank;
    fx_rw_finish(w, fx_rw_reduce(w, FX_OP_sum_dim_IntList, before, 1, &dim, false, "place"));
}

/* One half of a dim times sigmoid of the other, rounded once. */
void fx_d_glu(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim sizes[FX_MAX_RANK], out[FX_MAX_RANK];
    int rank = fx_sizes(x, sizes), dim = fx_wrap_dim(fx_node_int(w->at, 1), rank);
    fx_sizes(w->at, out);
    fx_node *a = fx_rw_wide(w, fx_rw_slice_to(w, x, dim, fx_dim_of(0), out[dim], 1, "first"));
    fx_node *b = fx_rw_wide(w, fx_rw_slice_to(w, x, dim, out[dim], sizes[dim], 1, "second"));
    fx_rw_finish(w, fx_rw_binary(w, FX_OP_mul_Tensor, a, fx_rw_unary(w, FX_OP_sigmoid, b, "gate"), "product"));
}

/* From both ends, as eager. */
void fx_d_linspace(fx_rw *w)
{
    fx_dtype dtype = w->at->type->dtype == FX_F64 || !fx_dtype_is_float(w->at->type->dtype) ? FX_F64 : FX_F32;
    fx_dim size = w->at->type->dims[0];
    double start = fx_node_float(w->at, 0), stop = fx_node_float(w->at, 1);
    if (size.sym || fx_node_arg(w->at, 0)->kind == FX_ARG_SYM || fx_node_arg(w->at, 1)->kind == FX_ARG_SYM) {
        fx_rw_refuse(w, "expected numbers as ends and number of steps, not sizes of a dynamic dim");
        return;
    }
    if (!fx_dtype_is_float(w->at->type->dtype)) { /* integers: the ends are */
        start = (double)(int64_t)start;
        stop = (double)(int64_t)stop;
    }
    double by = size.value > 1 ? (stop - start) / (double)(size.value - 1) : 0;
    if (dtype == FX_F32) {
        start = (double)(float)start;
        stop = (double)(float)stop;
        by = size.value > 1 ? (double)(((float)stop - (float)start) / (float)(size.value - 1)) : 0;
    }
    fx_node *k = fx_rw_arange(w, fx_dim_of(0), size, "k");
    fx_node *f = fx_rw_cast(w, k, dtype, "float");
    fx_node *up = fx_rw_number(w, FX_OP_add_Tensor, fx_rw_number(w, FX_OP_mul_Tensor, f, by, "up"), start, "from_start");
    fx_node *rest = fx_rw_number(w, FX_OP_add_Tensor, fx_rw_unary(w, FX_OP_neg, f, "back"), (double)(size.value - 1), "rest");
    fx_node *down = fx_rw_number(w, FX_OP_add_Tensor, fx_rw_unary(w, FX_OP_neg, fx_rw_number(w, FX_OP_mul_Tensor, rest, by, "down"), "minus"),
                                 stop, "from_end");
    fx_node *first = fx_rw_number(w, FX_OP_lt_Scalar, k, size.value == 1 ? 1 : (double)(size.value / 2), "first_half");
    fx_rw_finish(w, fx_rw_where(w, first, up, down, "both"));
}

/* x[1:] - x[:-1] along a dim, n times; of bools whether they differ. */
void fx_d_diff(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0), *part[3];
    int rank = x->type->rank, dim = fx_wrap_dim(fx_node_int(w->at, 2), rank), n = 0;
    int64_t times = fx_node_int(w->at, 1);
    if (!fx_node_is_none(w->at, 3))
        part[n++] = fx_node_input(w->at, 3);
    part[n++] = x;
    if (!fx_node_is_none(w->at, 4))
        part[n++] = fx_node_input(w->at, 4);
    if (n > 1) {
        for (int i = 0; i < n; i++)
            if (part[i]->type->dtype != w->at->type->dtype)
                part[i] = fx_rw_cast(w, part[i], w->at->type->dtype, "cast");
        x = fx_rw_cat(w, n, part, dim, "joined");
    }
    for (int64_t i = 0; i < times && w->status == FX_OK; i++) {
        fx_dim size = x->type->dims[dim];
        if (fx_dim_is(size, 0))
            break;
        fx_node *a = fx_rw_slice_to(w, x, dim, fx_dim_of(1), size, 1, "after");
        fx_node *b = fx_rw_slice_to(w, x, dim, fx_dim_of(0), fx_dim_plus(w->ctx, size, -1), 1, "before");
        x = fx_rw_binary(w, x->type->dtype == FX_BOOL ? FX_OP_bitwise_xor_Tensor : FX_OP_sub_Tensor, a, b, "difference");
    }
    fx_rw_finish(w, x);
}
