/* lower/decompose_norm_grad.c: gradients of softmax, norms, attention, embedding and of views that show a part, in core rows; in float32 for
 * half-wide floats.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <math.h>

static fx_node *mul(fx_rw *w, fx_node *a, fx_node *b, const char *name)
{
    return fx_rw_binary(w, FX_OP_mul_Tensor, a, b, name);
}

static fx_node *sub(fx_rw *w, fx_node *a, fx_node *b, const char *name)
{
    return fx_rw_binary(w, FX_OP_sub_Tensor, a, b, name);
}

/* Operand `param` in float32, or in float64 where that is what is computed in; NULL where it is None. */
static fx_node *input(fx_rw *w, int param, fx_dtype dtype)
{
    fx_node *x = fx_node_input(w->at, param);
    return !x || x->type->dtype == dtype ? x : fx_rw_cast(w, x, dtype, "wide");
}

static fx_dtype computes_in(const fx_node *x)
{
    return x->type->dtype == FX_F64 ? FX_F64 : FX_F32;
}

/* (grad_output, output, dim, input_dtype) */
void fx_d_softmax_backward(fx_rw *w)
{
    bool log = w->at->op->id == FX_OP__log_softmax_backward_data;
    fx_dtype dtype = computes_in(fx_node_input(w->at, 1));
    fx_node *g = input(w, 0, dtype), *y = input(w, 1, dtype);
    int64_t dim = fx_wrap_dim(fx_node_int(w->at, 2), y->type->rank);
    int n = y->type->rank ? 1 : 0;
    fx_node *terms = log ? g : mul(w, g, y, "terms"), *sum = n ? fx_rw_reduce(w, FX_OP_sum_dim_IntList, terms, n, &dim, true, "sum") : terms;
    if (log) {
        fx_node *part = mul(w, fx_rw_unary(w, FX_OP_exp, y, "exp"), sum, "part");
        fx_rw_finish(w, sub(w, g, part, "gradient"));
    } else {
        fx_rw_finish(w, mul(w, sub(w, g, sum, "rest"), y, "gradient"));
    }
}

/* ---- norms -------------------------------------------------------------------------------------------------------- */

static bool wanted(const fx_rw *w, int i)
{
    const fx_arg *mask = fx_node_arg(w->at, fx_op_schema(w->ctx, w->at->op)->n - 1);
    return mask->items[i]->kind == FX_ARG_BOOL && mask->items[i]->b && fx_uses_result(w, i);
}

/* The results in the dtypes they have; what is not wanted is empty where it is used. */
static void results(fx_rw *w, fx_node **y)
{
    for (int i = 0; i < 3 && w->status == FX_OK; i++) {
        const fx_type *t = w->at->type->items[i];
        if (!y[i] && fx_uses_result(w, i)) {
            fx_call c = fx_rw_call(w, FX_OP_full);
            fx_call_ints(&c, 1, (int64_t[]){0});
            fx_call_int(&c, 0);
            fx_call_arg(&c, fx_arg_dtype(w->ctx, t->dtype));
            y[i] = fx_rw_node(w, &c, "none");
        } else if (y[i] && y[i]->type->dtype != t->dtype) {
            y[i] = fx_rw_cast(w, y[i], t->dtype, "result");
        }
    }
    fx_rw_results(w, 3, y);
}

/* rstd * (g - mean(g) - y * mean(g * y)) over the dims given; g has been weighed, y is the input normalised, both of one shape. */
static fx_node *by_rows(fx_rw *w, fx_node *g, fx_node *y, fx_node *rstd, int n, const int64_t *dims)
{
    fx_node *mean = fx_rw_reduce(w, FX_OP_mean_dim, g, n, dims, true, "mean_grad");
    fx_node *dot = fx_rw_reduce(w, FX_OP_mean_dim, mul(w, g, y, "terms"), n, dims, true, "mean_dot");
    fx_node *centered = sub(w, g, mean, "centered"), *part = mul(w, y, dot, "part");
    return mul(w, sub(w, centered, part, "rest"), rstd, "grad_input");
}

/* (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask) */
void fx_d_layer_norm_backward(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 1), *y[3] = {NULL, NULL, NULL};
    fx_dtype dtype = computes_in(x);
    const fx_arg *shape = fx_node_arg(w->at, 2);
    int rank = x->type->rank, n = shape->kind == FX_ARG_INT || shape->kind == FX_ARG_SYM ? 1 : shape->n, outer = rank - n;
    int64_t rows[FX_MAX_RANK], last[FX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        *(i < outer ? &rows[i] : &last[i - outer]) = i;
    fx_node *g = input(w, 0, dtype), *mean = input(w, 3, dtype), *rstd = input(w, 4, dtype), *weight = input(w, 5, dtype);
    x = input(w, 1, dtype);
    fx_node *normal = NULL;
    if (wanted(w, 0) || wanted(w, 1))
        normal = mul(w, sub(w, x, mean, "from_mean"), rstd, "normalised");
    if (wanted(w, 0)) {
        fx_node *weighed = weight ? mul(w, g, weight, "weighed") : g;
        y[0] = by_rows(w, weighed, normal, rstd, n, last);
    }
    for (int i = 1; i < 3; i++) {
        if (!wanted(w, i))
            continue;
        fx_node *terms = i == 1 ? mul(w, g, normal, "weight_terms") : g;
        y[i] = outer ? fx_rw_reduce(w, FX_OP_sum_dim_IntList, terms, outer, rows, false, i == 1 ? "grad_weight" : "grad_bias") : terms;
    }
    results(w, y);
}

/* (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask): as [N, groups, channels of a group, the rest]. */
void fx_d_group_norm_backward(fx_rw *w)
{
    static const int64_t inner[2] = {2, 3}, others[2] = {0, 3};
    fx_node *x = fx_node_input(w->at, 1), *y[3] = {NULL, NULL, NULL};
    fx_dtype dtype = computes_in(x);
    fx_dim in[FX_MAX_RANK], rest = fx_dim_of(1), groups = fx_dim_of(fx_node_int(w->at, 8)), one = fx_dim_of(1);
    int rank = fx_sizes(x, in);
    for (int i = 2; i < rank; i++)
        rest = fx_dim_mul(w->ctx, rest, in[i]);
    fx_dim part = fx_dim_floordiv(w->ctx, in[1], groups), sizes[4] = {in[0], groups, part, rest}, stat[4] = {in[0], groups, one, one},
           channels[4] = {one, groups, part, one};
    fx_node *g = fx_rw_view_to(w, input(w, 0, dtype), 4, sizes, "grads");
    x = fx_rw_view_to(w, input(w, 1, dtype), 4, sizes, "input");
    fx_node *mean = fx_rw_view_to(w, input(w, 2, dtype), 4, stat, "mean"), *rstd = fx_rw_view_to(w, input(w, 3, dtype), 4, stat, "rstd");
    fx_node *weight = input(w, 4, dtype), *normal = NULL;
    if (wanted(w, 0) || wanted(w, 1))
        normal = mul(w, sub(w, x, mean, "from_mean"), rstd, "normalised");
    if (wanted(w, 0)) {
        fx_node *weighed = weight ? mul(w, g, fx_rw_view_to(w, weight, 4, channels, "weight"), "weighed") : g;
        y[0] = fx_rw_view_to(w, by_rows(w, weighed, normal, rstd, 2, inner), rank, in, "grad");
    }
    for (int i = 1; i < 3; i++) {
        if (!wanted(w, i))
            continue;
        fx_node *terms = i == 1 ? mul(w, g, normal, "weight_terms") : g;
        fx_node *sum = fx_rw_reduce(w, FX_OP_sum_dim_IntList, terms, 2, others, false, i == 1 ? "weight_sums" : "bias_sums");
        y[i] = fx_rw_view_to(w, sum, 1, &in[1], i == 1 ? "grad_weight" : "grad_bias");
    }
    results(w, y);
}

/* ---- attention ------------------------------------------------------------------------------------------------------ */

/* [B, H, rows, columns] as a batch of matrices. */
static fx_node *matrices(fx_rw *w, int param, const char *name)
{
    fx_dim in[FX_MAX_RANK];
    fx_node *x = input(w, param, computes_in(fx_node_input(w->at, 1)));
    fx_sizes(x, in);
    return fx_rw_view_to(w, x, 3, (fx_dim[]){fx_dim_mul(w->ctx, in[0], in[1]), in[2], in[3]}, name);
}

static fx_node *transposed(fx_rw *w, fx_node *x, const char *name)
{
    static const int64_t swapped[3] = {0, 2, 1};
    return fx_rw_permute(w, x, 3, swapped, name);
}

static fx_node *product(fx_rw *w, fx_node *a, fx_node *b, const char *name)
{
    return fx_rw_binary(w, FX_OP_bmm, a, b, name);
}

/* exp(scale * q k^T + mask - logsumexp), 0 where nothing may be seen; [B * H, L, S]. */
static fx_node *probabilities(fx_rw *w, fx_node *q, fx_node *k, double scale)
{
    fx_dtype dtype = q->type->dtype;
    fx_node *mask = fx_node_input(w->at, 8), *sums = input(w, 5, dtype);
    fx_dim in[FX_MAX_RANK], l = q->type->dims[1], s = k->type->dims[1], heads = q->type->dims[0];
    fx_sizes(sums, in);
    fx_dim scores[4] = {in[0], in[1], l, s}, column[4] = {in[0], in[1], l, fx_dim_of(1)};
    fx_node *x = fx_rw_view_to(w, product(w, q, transposed(w, k, "keys_t"), "products"), 4, scores, "scores");
    x = fx_rw_number(w, FX_OP_mul_Tensor, x, scale, "scaled");
    if (mask && mask->type->dtype != FX_BOOL)
        x = fx_rw_binary(w, FX_OP_add_Tensor, x, input(w, 8, dtype), "masked");
    x = sub(w, x, fx_rw_view_to(w, sums, 4, column, "log_sums"), "logarithms");
    x = fx_rw_unary(w, FX_OP_exp, x, "seen");
    if (mask && mask->type->dtype == FX_BOOL)
        x = fx_rw_where(w, mask, x, fx_rw_scalar(w, 0, dtype, "unseen"), "allowed");
    if (fx_node_bool(w->at, 7)) {
        fx_node *row = fx_rw_arange(w, fx_dim_of(0), l, "row"), *keys = fx_rw_arange(w, fx_dim_of(0), s, "column");
        row = fx_rw_view_to(w, row, 2, (fx_dim[]){l, fx_dim_of(1)}, "rows");
        fx_node *before = fx_rw_binary(w, FX_OP_ge_Tensor, row, keys, "before");
        x = fx_rw_where(w, before, x, fx_rw_scalar(w, 0, dtype, "unseen"), "causal");
    }
    return fx_rw_view_to(w, x, 3, (fx_dim[]){heads, l, s}, "probabilities");
}

/* (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale): dv = p^T g; ds = p * (g v^T - sum(g * out)) * scale;
 * dq = ds k; dk = ds^T q. */
void fx_d_attention_backward(fx_rw *w)
{
    static const int64_t last = 2;
    fx_dim head = fx_node_input(w->at, 1)->type->dims[3];
    if (head.sym) {
        fx_rw_refuse(w, "the size of a head is dynamic");
        return;
    }
    double scale = fx_node_is_none(w->at, 9) ? 1 / sqrt((double)head.value) : fx_node_float(w->at, 9);
    fx_node *g = matrices(w, 0, "grads"), *q = matrices(w, 1, "queries"), *k = matrices(w, 2, "keys"), *v = matrices(w, 3, "values");
    fx_node *out = matrices(w, 4, "outs"), *p = probabilities(w, q, k, scale), *y[3] = {NULL, NULL, NULL};
    if (w->status != FX_OK)
        return;
    if (fx_uses_result(w, 0) || fx_uses_result(w, 1)) {
        fx_node *delta = fx_rw_reduce(w, FX_OP_sum_dim_IntList, mul(w, g, out, "terms"), 1, &last, true, "delta");
        fx_node *ds = sub(w, product(w, g, transposed(w, v, "values_t"), "grad_p"), delta, "rest");
        ds = fx_rw_number(w, FX_OP_mul_Tensor, mul(w, ds, p, "grad_scores"), scale, "grad_scaled");
        y[0] = fx_uses_result(w, 0) ? product(w, ds, k, "grad_query") : NULL;
        y[1] = fx_uses_result(w, 1) ? product(w, transposed(w, ds, "grad_scores_t"), q, "grad_key") : NULL;
    }
    if (fx_uses_result(w, 2))
        y[2] = product(w, transposed(w, p, "probabilities_t"), g, "grad_value");
    for (int i = 0; i < 3; i++)
        if (y[i])
            y[i] = fx_rw_view_to(w, y[i], 4, w->at->type->items[i]->dims, "heads");
    results(w, y);
}

/* ---- what gathers ------------------------------------------------------------------------------------------------------ */

static fx_node *zeros(fx_rw *w, int rank, const fx_dim *sizes, fx_dtype dtype, const char *name)
{
    fx_call c = fx_rw_call(w, FX_OP_full);
    fx_call_sizes(&c, rank, sizes);
    fx_call_int(&c, 0);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, dtype));
    return fx_rw_node(w, &c, name);
}

/* zeros with `rows` [n, ..] added by index [n], which a scatter, as eager here, takes no negative numbers of. */
static fx_node *added(fx_rw *w, fx_node *into, fx_node *index, fx_node *rows, const char *name)
{
    if (rows->type->rank == 2) {
        index = fx_rw_view_to(w, index, 2, (fx_dim[]){index->type->dims[0], fx_dim_of(1)}, "places");
        index = fx_rw_expand_to(w, index, 2, rows->type->dims, "all_places");
    }
    fx_call c = fx_rw_call(w, FX_OP_scatter_add);
    fx_call_node(&c, into);
    fx_call_int(&c, 0);
    fx_call_node(&c, index);
    fx_call_node(&c, rows);
    return fx_rw_node(w, &c, name);
}

/* (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
void fx_d_embedding_backward(fx_rw *w)
{
    fx_node *index = fx_node_input(w->at, 1);
    fx_dtype dtype = computes_in(fx_node_input(w->at, 0));
    fx_dim n = fx_dim_of(1), one = fx_dim_of(1), width = w->at->type->dims[1];
    for (int i = 0; i < index->type->rank; i++)
        n = fx_dim_mul(w->ctx, n, index->type->dims[i]);
    fx_node *g = fx_rw_view_to(w, input(w, 0, dtype), 2, (fx_dim[]){n, width}, "rows");
    fx_node *list = index->type->rank == 1 ? index : fx_rw_view_to(w, index, 1, &n, "list");
    if (fx_node_bool(w->at, 4)) { /* divided by how often an index is there */
        fx_node *counts = zeros(w, 1, w->at->type->dims, dtype, "no_counts"), *once = fx_rw_expand_to(w, fx_rw_scalar(w, 1, dtype, "once"), 1, &n, "ones");
        counts = added(w, counts, list, once, "counts");
        fx_call c = fx_rw_call(w, FX_OP_index_select);
        fx_call_node(&c, counts);
        fx_call_int(&c, 0);
        fx_call_node(&c, list);
        fx_node *count = fx_rw_view_to(w, fx_rw_node(w, &c, "count"), 2, (fx_dim[]){n, one}, "times");
        g = fx_rw_binary(w, FX_OP_div_Tensor, g, count, "mean");
    }
    const fx_arg *padding = fx_node_arg(w->at, 3);
    if (padding->kind != FX_ARG_INT || padding->i >= 0) { /* its row gets nothing */
        fx_call c = fx_rw_call(w, FX_OP_ne_Scalar);
        fx_call_node(&c, list);
        fx_call_copy(&c, w->at, 3);
        fx_node *kept = fx_rw_view_to(w, fx_rw_node(w, &c, "kept"), 2, (fx_dim[]){n, one}, "kept_rows");
        g = fx_rw_where(w, kept, g, fx_rw_scalar(w, 0, dtype, "zero"), "counted");
    }
    fx_rw_finish(w, added(w, zeros(w, 2, w->at->type->dims, dtype, "zeros"), list, g, "sums"));
}

/* select_backward (grad_output, input_sizes, dim, index), slice_backward (.., start, end, step): a border of zeros, or where a size is an
 * expression, or elements lie apart, zeros that are overwritten. */
void fx_d_part_backward(fx_rw *w)
{
    bool select = w->at->op->id == FX_OP_select_backward;
    fx_node *g = fx_node_input(w->at, 0);
    const fx_type *t = w->at->type;
    int dim = fx_wrap_dim(fx_node_int(w->at, 2), t->rank);
    const fx_arg *first = fx_node_arg(w->at, 3);
    if (first->kind == FX_ARG_INT && fx_dim_known(t->dims[dim]) && (select || fx_node_int(w->at, 5) == 1) &&
        (select || fx_dim_known(g->type->dims[dim]))) {
        int64_t pad[2 * FX_MAX_RANK] = {0}, size = t->dims[dim].value, at = first->i < 0 ? first->i + size : first->i;
        at = at < 0 ? 0 : at > size ? size : at;
        if (select) {
            fx_dim sizes[FX_MAX_RANK];
            for (int i = 0; i < t->rank; i++)
                sizes[i] = i == dim ? fx_dim_of(1) : t->dims[i];
            g = fx_rw_view_to(w, g, t->rank, sizes, "part");
        }
        int from_last = t->rank - 1 - dim;
        pad[2 * from_last] = at;
        pad[2 * from_last + 1] = size - at - (select ? 1 : g->type->dims[dim].value);
        fx_call c = fx_rw_call(w, FX_OP_constant_pad_nd);
        fx_call_node(&c, g);
        fx_call_ints(&c, 2 * (from_last + 1), pad);
        fx_call_int(&c, 0);
        fx_rw_become(w, &c);
        return;
    }
    fx_node *into = zeros(w, t->rank, t->dims, t->dtype, "zeros");
    fx_call c = fx_rw_call(w, select ? FX_OP_select_scatter : FX_OP_slice_scatter);
    fx_call_node(&c, into);
    fx_call_node(&c, g);
    fx_call_int(&c, dim);
    for (int p = 3; p < (select ? 4 : 6); p++)
        fx_call_copy(&c, w->at, p);
    fx_rw_become(w, &c);
    if (w->status == FX_OK)
        fx_d_overwrite(w);
}
