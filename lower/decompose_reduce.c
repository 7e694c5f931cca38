/* lower/decompose_reduce.c: reductions that are made of others, and orders of a dim.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "lower/rewrite.h"

#include <math.h>

/* x as a vector. */
static fx_node *flattened(fx_rw *w, fx_node *x)
{
    fx_dim n = fx_dim_of(1);
    for (int i = 0; i < x->type->rank; i++)
        n = fx_dim_mul(w->ctx, n, x->type->dims[i]);
    return x->type->rank == 1 ? x : fx_rw_view_to(w, x, 1, &n, "flat");
}

static fx_node *any_over(fx_rw *w, fx_node *x, int dim, bool keep)
{
    fx_call c = fx_rw_call(w, FX_OP_any_dim);
    fx_call_node(&c, x);
    fx_call_int(&c, dim);
    fx_call_bool(&c, keep);
    return fx_rw_node(w, &c, "any");
}

/* any, all over one dim, some or all of them: any.dim of bools, dim after dim from the back; all is none that is not. */
void fx_d_any(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    bool over_all = id == FX_OP_any || id == FX_OP_all, all = id == FX_OP_all || id == FX_OP_all_dim || id == FX_OP_all_dims;
    fx_node *x = fx_node_input(w->at, 0), *y;
    int rank = x->type->rank;
    bool keep = !over_all && fx_node_bool(w->at, 2);
    if (id == FX_OP_any_dim && x->type->dtype == FX_BOOL && rank > 0) {
        if (fx_node_int(w->at, 1) < 0)
            fx_rw_finish(w, any_over(w, x, fx_wrap_dim(fx_node_int(w->at, 1), rank), keep));
        return;
    }
    if (all)
        y = x->type->dtype == FX_BOOL ? fx_rw_unary(w, FX_OP_logical_not, x, "not") : fx_rw_number(w, FX_OP_eq_Scalar, x, 0, "not");
    else
        y = x->type->dtype == FX_BOOL ? x : fx_rw_number(w, FX_OP_ne_Scalar, x, 0, "truth");
    int64_t dims[FX_MAX_RANK];
    int n = over_all || fx_node_is_none(w->at, 1) ? 0 : fx_node_ints(w->at, 1, dims, FX_MAX_RANK);
    bool on[FX_MAX_RANK + 1] = {false}, every = over_all || fx_node_is_none(w->at, 1);
    for (int i = 0; i < n; i++)
        on[fx_wrap_dim(dims[i], rank)] = true;
    if (over_all) {
        y = any_over(w, flattened(w, y), 0, false);
    } else {
        for (int d = rank - 1; d >= 0; d--)
            if (every || on[d])
                y = any_over(w, y, d, keep);
    }
    if (all)
        y = fx_rw_unary(w, FX_OP_logical_not, y, "all");
    fx_rw_finish(w, y);
}

void fx_narrow_dtype(fx_rw *w, fx_call *c, fx_dtype dtype)
{
    if (fx_dtype_is_int(dtype) && dtype != FX_I64)
        fx_call_arg(c, fx_arg_dtype(w->ctx, dtype));
}

/* prod of all: of a vector. prod.dim_int in its result's dtype. */
void fx_d_prod(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dtype dtype = w->at->type->dtype;
    bool all = w->at->op->id == FX_OP_prod;
    int rank = x->type->rank, dim = all ? 0 : fx_wrap_dim(fx_node_int(w->at, 1), rank);
    if (x->type->dtype != dtype)
        x = fx_rw_cast(w, x, dtype, "cast");
    if (rank == 0) {
        fx_rw_finish(w, x);
        return;
    }
    fx_call c = fx_rw_call(w, FX_OP_prod_dim_int);
    fx_call_node(&c, all ? flattened(w, x) : x);
    fx_call_int(&c, dim);
    fx_call_bool(&c, !all && fx_node_bool(w->at, 2));
    fx_narrow_dtype(w, &c, dtype);
    fx_rw_become(w, &c);
}

/* cumsum, cumprod in their result's dtype. */
void fx_d_cumulative(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dtype dtype = w->at->type->dtype;
    int rank = x->type->rank;
    if (x->type->dtype != dtype)
        x = fx_rw_cast(w, x, dtype, "cast");
    if (rank == 0) {
        fx_rw_finish(w, x);
        return;
    }
    fx_call c = fx_rw_call(w, w->at->op->id);
    fx_call_node(&c, x);
    fx_call_int(&c, fx_wrap_dim(fx_node_int(w->at, 1), rank));
    fx_narrow_dtype(w, &c, dtype);
    fx_rw_become(w, &c);
}

/* sort, argsort: the stable one. */
void fx_d_sort(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    bool stable = id == FX_OP_sort_stable || id == FX_OP_argsort_stable, args = id == FX_OP_argsort || id == FX_OP_argsort_stable;
    fx_node *x = fx_node_input(w->at, 0);
    fx_call c = fx_rw_call(w, FX_OP_sort_stable);
    fx_call_node(&c, x);
    fx_call_bool(&c, true);
    fx_call_int(&c, fx_wrap_dim(fx_node_int(w->at, stable ? 2 : 1), x->type->rank));
    fx_call_bool(&c, fx_node_bool(w->at, stable ? 3 : 2));
    if (args)
        fx_rw_finish(w, fx_rw_item(w, fx_rw_node(w, &c, "sort"), 1, "indices"));
    else
        fx_rw_become(w, &c);
}

/* topk, argmax, max.dim and the like: dims from 0. */
void fx_d_wrap_dim(fx_rw *w)
{
    int param = w->at->op->id == FX_OP_topk ? 2 : 1, rank = fx_node_input(w->at, 0)->type->rank;
    if (fx_node_is_none(w->at, param) || fx_node_int(w->at, param) >= 0)
        return;
    fx_call c = fx_rw_call(w, w->at->op->id);
    for (int i = 0, n = fx_op_schema(w->ctx, w->at->op)->n; i < n; i++)
        if (i == param)
            fx_call_int(&c, fx_wrap_dim(fx_node_int(w->at, i), rank));
        else
            fx_call_copy(&c, w->at, i);
    fx_rw_become(w, &c);
}

/* ---- variances, norms, sums of exponentials ----------------------------------------------------------------------------- */

/* The dims of a reduction: those of `param`, all when there are none or param < 0. */
static int dims_of(fx_rw *w, int param, int rank, int64_t *dims)
{
    int64_t given[FX_MAX_RANK];
    int n = param < 0 || fx_node_is_none(w->at, param) ? 0 : fx_node_ints(w->at, param, given, FX_MAX_RANK), kept = 0;
    bool on[FX_MAX_RANK + 1] = {false};
    for (int i = 0; i < n; i++)
        on[fx_wrap_dim(given[i], rank)] = true;
    for (int i = 0; i < rank; i++)
        if (on[i] || n <= 0)
            dims[kept++] = i;
    return kept;
}

/* A tensor of rank 0 as a vector, so that there is something to reduce over. */
static fx_node *with_dims(fx_rw *w, fx_node *x)
{
    static const int64_t one = 1;
    return x->type->rank ? x : fx_rw_view(w, x, 1, &one, "vector");
}

/* std and var in all forms: var.correction, and its root; half precision is float32 within. */
void fx_d_variance(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    bool root = id == FX_OP_std || id == FX_OP_std_dim || id == FX_OP_std_correction || id == FX_OP_std_mean_correction;
    bool means = id == FX_OP_std_mean_correction || id == FX_OP_var_mean_correction, all = id == FX_OP_std || id == FX_OP_var;
    bool unbiased = id == FX_OP_std_dim || id == FX_OP_var_dim;
    fx_node *x = with_dims(w, fx_rw_wide(w, fx_node_input(w->at, 0)));
    int64_t dims[FX_MAX_RANK];
    int n = dims_of(w, all ? -1 : 1, x->type->rank, dims);
    bool keep = !all && fx_node_bool(w->at, 3) && fx_node_input(w->at, 0)->type->rank;
    fx_call c = fx_rw_call(w, FX_OP_var_correction);
    fx_call_node(&c, x);
    fx_call_ints(&c, n, dims);
    if (all || unbiased)
        fx_call_int(&c, fx_node_bool(w->at, all ? 1 : 2));
    else if (fx_node_is_none(w->at, 2))
        fx_call_int(&c, 1);
    else
        fx_call_copy(&c, w->at, 2);
    fx_call_bool(&c, keep);
    fx_node *y = fx_rw_node(w, &c, "var");
    if (root)
        y = fx_rw_unary(w, FX_OP_sqrt, y, "root");
    if (!means) {
        fx_rw_finish(w, y);
        return;
    }
    fx_dtype dtype = w->at->type->items[0]->dtype;
    fx_node *mean = fx_rw_reduce(w, FX_OP_mean_dim, x, n, dims, keep, "mean"), *both[2] = {y, mean};
    for (int i = 0; i < 2; i++)
        if (w->status == FX_OK && both[i]->type->dtype != dtype)
            both[i] = fx_rw_cast(w, both[i], dtype, "cast");
    if (w->status == FX_OK)
        fx_rw_results(w, 2, both);
}

/* sum(|x|^p)^(1/p), with the cases eager has too: of one element no powers are taken, which might leave the dtype's range. */
static fx_node *norm(fx_rw *w, fx_node *x, double p, int n, const int64_t *dims, bool keep)
{
    bool single = true;
    for (int i = 0; i < n && w->status == FX_OK; i++)
        single = single && fx_dim_is(x->type->dims[dims[i]], 1);
    if (single && p != 0)
        return fx_rw_reduce(w, FX_OP_amax, fx_rw_unary(w, FX_OP_abs, x, "abs"), n, dims, keep, "single");
    if (p == 2) {
        fx_node *squares = fx_rw_binary(w, FX_OP_mul_Tensor, x, x, "squares");
        return fx_rw_unary(w, FX_OP_sqrt, fx_rw_reduce(w, FX_OP_sum_dim_IntList, squares, n, dims, keep, "sum"), "root");
    }
    if (p == 0) {
        fx_node *count = fx_rw_cast(w, fx_rw_number(w, FX_OP_ne_Scalar, x, 0, "nonzero"), x->type->dtype, "ones");
        return fx_rw_reduce(w, FX_OP_sum_dim_IntList, count, n, dims, keep, "count");
    }
    fx_node *a = fx_rw_unary(w, FX_OP_abs, x, "abs");
    if (isinf(p))
        return fx_rw_reduce(w, p > 0 ? FX_OP_amax : FX_OP_amin, a, n, dims, keep, "extreme");
    if (p == 1)
        return fx_rw_reduce(w, FX_OP_sum_dim_IntList, a, n, dims, keep, "sum");
    fx_node *powers = fx_rw_number(w, FX_OP_pow_Tensor_Scalar, a, p, "powers");
    return fx_rw_number(w, FX_OP_pow_Tensor_Scalar, fx_rw_reduce(w, FX_OP_sum_dim_IntList, powers, n, dims, keep, "sum"), 1 / p, "root");
}

void fx_d_norm(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    fx_node *given = fx_node_input(w->at, 0), *x = given;
    int64_t dims[FX_MAX_RANK];
    if (x->type->dtype != w->at->type->dtype)
        x = fx_rw_cast(w, x, w->at->type->dtype, "cast");
    x = with_dims(w, fx_rw_wide(w, x));
    int n = dims_of(w, id == FX_OP_norm_Scalar ? -1 : 2, x->type->rank, dims);
    bool keep = id != FX_OP_norm_Scalar && fx_node_bool(w->at, 3) && given->type->rank;
    fx_rw_finish(w, norm(w, x, fx_node_is_none(w->at, 1) ? 2 : fx_node_float(w->at, 1), n, dims, keep));
}

void fx_d_count_nonzero(fx_rw *w)
{
    fx_node *x = with_dims(w, fx_node_input(w->at, 0));
    int64_t dims[FX_MAX_RANK];
    int n = dims_of(w, 1, x->type->rank, dims);
    if (x->type->dtype != FX_BOOL)
        x = fx_rw_number(w, FX_OP_ne_Scalar, x, 0, "nonzero");
    fx_rw_finish(w, fx_rw_reduce(w, FX_OP_sum_dim_IntList, fx_rw_cast(w, x, FX_I64, "ones"), n, dims, false, "count"));
}

fx_node *fx_log_sum_exp(fx_rw *w, fx_node *x, int n, const int64_t *dims)
{
    fx_node *max = fx_rw_reduce(w, FX_OP_amax, x, n, dims, true, "max");
    fx_node *infinite = fx_rw_unary(w, FX_OP_isinf, max, "infinite");
    max = fx_rw_where(w, infinite, fx_rw_scalar(w, 0, x->type->dtype, "zero"), max, "by");
    fx_node *e = fx_rw_unary(w, FX_OP_exp, fx_rw_binary(w, FX_OP_sub_Tensor, x, max, "shifted"), "exp");
    fx_node *sum = fx_rw_unary(w, FX_OP_log, fx_rw_reduce(w, FX_OP_sum_dim_IntList, e, n, dims, true, "sum"), "log");
    return fx_rw_binary(w, FX_OP_add_Tensor, sum, max, "back");
}

void fx_d_logsumexp(fx_rw *w)
{
    fx_node *given = fx_node_input(w->at, 0), *x = given;
    fx_dim out[FX_MAX_RANK];
    int64_t dims[FX_MAX_RANK];
    if (!fx_dtype_is_float(x->type->dtype))
        x = fx_rw_cast(w, x, w->at->type->dtype, "float");
    x = with_dims(w, fx_rw_wide(w, x));
    int n = dims_of(w, 1, x->type->rank, dims), rank = fx_sizes(w->at, out);
    if (fx_type_is_static(x->type) && fx_type_numel(x->type) == 0) { /* nothing has no maximum: log(0) */
        fx_call c = fx_rw_call(w, FX_OP_full);
        fx_call_sizes(&c, rank, out);
        fx_call_float(&c, -INFINITY);
        fx_call_arg(&c, fx_arg_dtype(w->ctx, w->at->type->dtype));
        fx_rw_become(w, &c);
        return;
    }
    fx_node *y = fx_log_sum_exp(w, x, n, dims);
    fx_rw_finish(w, w->status != FX_OK || y->type->rank == rank ? y : fx_rw_view_to(w, y, rank, out, "shape"));
}

/* max, min of all. */
void fx_d_extreme_all(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int64_t dims[FX_MAX_RANK];
    int n = dims_of(w, -1, x->type->rank, dims);
    fx_opid op = w->at->op->id == FX_OP_max ? FX_OP_amax : FX_OP_amin;
    fx_rw_finish(w, n ? fx_rw_reduce(w, op, x, n, dims, false, "extreme") : x);
}
