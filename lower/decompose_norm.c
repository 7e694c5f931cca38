/* lower/decompose_norm.c: norms but batch norm, softmax and reductions in core rows, their dims spelled out.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <math.h>

void fx_d_layer_norm(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP_native_layer_norm);
    for (int p = 0; p < 5; p++)
        fx_call_copy(&c, w->at, p);
    fx_rw_item(w, fx_rw_node(w, &c, "all"), 0, NULL);
}

/* Layer norm of rows of [N, groups, the rest], then scale and shift by channels: the result, mean and rstd. In float32 for half-wide
 * floats. What no kernel takes: statistics, which only training reads, and float64. */
static void group_rows(fx_rw *w, fx_dim groups, fx_node *const *vectors, int eps, fx_node **y)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim in[FX_MAX_RANK], rest = fx_dim_of(1);
    int rank = fx_sizes(x, in);
    for (int i = 1; i < rank; i++)
        rest = fx_dim_mul(w->ctx, rest, in[i]);
    rest = fx_dim_floordiv(w->ctx, rest, groups);
    fx_call c = fx_rw_call(w, FX_OP_native_layer_norm);
    fx_call_node(&c, fx_rw_view_to(w, fx_rw_wide(w, x), 3, (fx_dim[]){in[0], groups, rest}, "rows"));
    fx_call_sizes(&c, 1, &rest);
    fx_call_node(&c, NULL);
    fx_call_node(&c, NULL);
    fx_call_copy(&c, w->at, eps);
    fx_node *all = fx_rw_node(w, &c, "all");
    static const char *const names[] = {"norm", "mean", "rstd"};
    for (int i = 0; i < 3; i++) {
        y[i] = fx_rw_item(w, all, i, names[i]);
        y[i] = i ? fx_rw_view_to(w, y[i], 2, (fx_dim[]){in[0], groups}, "stat") : fx_rw_view_to(w, y[i], rank, in, "shape");
    }
    for (int k = 0; k < 2; k++) {
        if (!vectors[k])
            continue;
        fx_node *v = fx_by_channel(w, fx_rw_wide(w, vectors[k]), x, k ? "bias" : "weight");
        y[0] = fx_rw_binary(w, k ? FX_OP_add_Tensor : FX_OP_mul_Tensor, y[0], v, k ? "shifted" : "scaled");
    }
}

/* What the kernel does not take: float64, groups whose number is an expression, and images that may have no pixels. */
static bool needs_rows(const fx_rw *w, const fx_type *x, bool instance)
{
    bool rows = x->dtype == FX_F64 || (instance && !fx_dim_known(x->dims[1]));
    for (int i = 1; i < x->rank; i++)
        rows = rows || !fx_dim_at_least(w->ctx, fx_graph_symbols(w->g), x->dims[i], 1);
    return rows;
}

/* group_norm (input, num_groups, weight, bias, eps, cudnn); instance_norm (input, weight, bias, running_mean, running_var, use_input_stats,
 * momentum, eps, cudnn) has a group a channel. */
void fx_d_group_norm(fx_rw *w)
{
    fx_dim in[FX_MAX_RANK], inner = fx_dim_of(1);
    int rank = fx_sizes(fx_node_input(w->at, 0), in);
    bool instance = w->at->op->id == FX_OP_instance_norm;
    if (rank < 2) {
        fx_rw_refuse(w, "expected an input of rank 2 or more");
        return;
    }
    if (needs_rows(w, fx_node_input(w->at, 0)->type, instance)) {
        fx_node *y[3], *vectors[2] = {fx_node_input(w->at, instance ? 1 : 2), fx_node_input(w->at, instance ? 2 : 3)};
        group_rows(w, instance ? in[1] : fx_dim_of(fx_node_int(w->at, 1)), vectors, instance ? 7 : 4, y);
        fx_rw_finish(w, y[0]);
        return;
    }
    for (int i = 2; i < rank; i++)
        inner = fx_dim_mul(w->ctx, inner, in[i]);
    fx_call c = fx_rw_call(w, FX_OP_native_group_norm);
    fx_call_copy(&c, w->at, 0);
    fx_call_copy(&c, w->at, instance ? 1 : 2);
    fx_call_copy(&c, w->at, instance ? 2 : 3);
    fx_call_size(&c, in[0]);
    fx_call_size(&c, in[1]);
    fx_call_size(&c, inner);
    if (instance)
        fx_call_size(&c, in[1]);
    else
        fx_call_copy(&c, w->at, 1);
    fx_call_copy(&c, w->at, instance ? 7 : 4);
    fx_rw_item(w, fx_rw_node(w, &c, "all"), 0, NULL);
}

/* With its statistics, where they are used. */
void fx_d_native_group_norm(fx_rw *w)
{
    if (!needs_rows(w, fx_node_input(w->at, 0)->type, false) && !fx_uses_result(w, 1) && !fx_uses_result(w, 2))
        return;
    fx_node *y[3], *vectors[2] = {fx_node_input(w->at, 1), fx_node_input(w->at, 2)};
    group_rows(w, fx_dim_of(fx_node_int(w->at, 6)), vectors, 7, y);
    for (int i = 0; i < 3 && w->status == FX_OK; i++)
        if (y[i]->type->dtype != w->at->type->items[i]->dtype)
            y[i] = fx_rw_cast(w, y[i], w->at->type->items[i]->dtype, "cast");
    if (w->status == FX_OK)
        fx_rw_results(w, 3, y);
}

/* softmax.int(self, dim, dtype) converts first; _softmax's half_to_float is the same for float16. */
void fx_d_softmax(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    bool log = id == FX_OP_log_softmax_int || id == FX_OP__log_softmax;
    fx_node *x = fx_node_input(w->at, 0);
    int dim = fx_wrap_dim(fx_node_int(w->at, 1), x->type->rank);
    if (x->type->dtype != w->at->type->dtype)
        x = fx_rw_cast(w, x, w->at->type->dtype, "cast");
    fx_call c = fx_rw_call(w, log ? FX_OP__log_softmax : FX_OP__softmax);
    fx_call_node(&c, x);
    fx_call_int(&c, dim);
    fx_call_bool(&c, false);
    fx_rw_become(w, &c);
}

/* softmax, but zeros where there is nothing but -inf; that is looked for before the conversion, which may make more of them. */
void fx_d_safe_softmax(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int dim = fx_wrap_dim(fx_node_int(w->at, 1), x->type->rank);
    fx_call c = fx_rw_call(w, FX_OP_any_dim);
    fx_call_node(&c, fx_rw_number(w, FX_OP_ne_Scalar, x, -(double)INFINITY, "seen"));
    fx_call_int(&c, dim);
    fx_call_bool(&c, true);
    fx_node *any = fx_rw_node(w, &c, "any");
    if (x->type->dtype != w->at->type->dtype)
        x = fx_rw_cast(w, x, w->at->type->dtype, "cast");
    c = fx_rw_call(w, FX_OP__softmax);
    fx_call_node(&c, x);
    fx_call_int(&c, dim);
    fx_call_bool(&c, false);
    fx_node *y = fx_rw_node(w, &c, "softmax");
    fx_rw_where(w, any, y, fx_rw_scalar(w, 0, x->type->dtype, "zero"), NULL);
}

/* The dims of a reduction, non-negative, ascending and each once; none given means all. */
static int reduced_dims(const fx_node *n, int param, int rank, int64_t *dims)
{
    int64_t given[FX_MAX_RANK];
    int count = fx_node_is_none(n, param) ? 0 : fx_node_ints(n, param, given, FX_MAX_RANK), kept = 0;
    bool on[FX_MAX_RANK + 1] = { false };
    for (int i = 0; i < count; i++)
        on[fx_wrap_dim(given[i], rank)] = true;
    for (int i = 0; i < rank; i++)
        if (on[i] || count <= 0)
            dims[kept++] = i;
    return kept;
}

/* What is summed is converted first: integers to int64, others where a dtype is given; what a mean in half precision is of, to float32. */
static fx_node *in_dtype(fx_rw *w, fx_node *x)
{
    fx_dtype dtype = w->at->type->dtype;
    bool mean = w->at->op->id == FX_OP_mean || w->at->op->id == FX_OP_mean_dim;
    if (mean && (dtype == FX_F16 || dtype == FX_BF16) && x->type->dtype != dtype)
        return x->type->dtype == FX_F32 ? x : fx_rw_cast(w, x, FX_F32, "cast");
    return x->type->dtype == w->at->type->dtype ? x : fx_rw_cast(w, x, w->at->type->dtype, "cast");
}

/* A sum or mean of x's dtype, rounded to the node's where that is another. */
static void become_reduction(fx_rw *w, fx_call *c, fx_dtype dtype)
{
    fx_dtype half = w->at->type->dtype;
    if (dtype == FX_F32 && (half == FX_F16 || half == FX_BF16)) {
        fx_rw_finish(w, fx_rw_node(w, c, "mean"));
        return;
    }
    fx_narrow_dtype(w, c, half);
    fx_rw_become(w, c);
}

/* sum, mean (self, dtype) over everything. */
void fx_d_reduce_all(fx_rw *w)
{
    int64_t dims[FX_MAX_RANK];
    fx_node *x = fx_node_input(w->at, 0);
    int rank = x->type->rank;
    for (int i = 0; i < rank; i++)
        dims[i] = i;
    x = in_dtype(w, x);
    fx_call c = fx_rw_call(w, w->at->op->id == FX_OP_sum ? FX_OP_sum_dim_IntList : FX_OP_mean_dim);
    fx_call_node(&c, x);
    fx_call_ints(&c, rank, dims);
    fx_call_bool(&c, false);
    become_reduction(w, &c, x->type->dtype);
}

/* (self, dim, keepdim, dtype), amax and amin without dtype, var (self, dim, correction, keepdim): the same with all dims written
 * out. A tensor of rank 0 has nothing to reduce over and stays. */
void fx_d_reduce_dims(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    fx_node *x = fx_node_input(w->at, 0);
    int64_t dims[FX_MAX_RANK];
    bool sum = id == FX_OP_sum_dim_IntList || id == FX_OP_mean_dim;
    if (x->type->rank == 0 && (!sum || x->type->dtype == w->at->type->dtype))
        return;
    if (sum)
        x = in_dtype(w, x);
    int n = reduced_dims(w->at, 1, x->type->rank, dims);
    fx_call c = fx_rw_call(w, id);
    fx_call_node(&c, x);
    fx_call_ints(&c, n, dims);
    fx_call_copy(&c, w->at, 2);
    if (id == FX_OP_var_correction)
        fx_call_copy(&c, w->at, 3);
    if (sum)
        become_reduction(w, &c, x->type->dtype);
    else
        fx_rw_become(w, &c);
}
