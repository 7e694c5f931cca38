/* lower/decompose_reduce.c: reductions that are made of others, and orders of a dim.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "lower/rewrite.h"

/* x as a vector. */
static fx_node *flattened(fx_rw *w, fx_node *x)
{
    int64_t n = fx_type_numel(x->type);
    return x->type->rank == 1 ? x : fx_rw_view(w, x, 1, &n, "flat");
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

/* The dtype argument of a sum or product in narrow integers; by themselves they are of i64. */
static void narrow(fx_rw *w, fx_call *c, fx_dtype dtype)
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
    narrow(w, &c, dtype);
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
    narrow(w, &c, dtype);
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
