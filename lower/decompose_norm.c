/* lower/decompose_norm.c: norms, softmax and reductions in core rows, their dims spelled out.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <math.h>

/* (input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn): result 0 of the native row. */
void fx_d_batch_norm(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP__native_batch_norm_legit_no_training);
    for (int p = 0; p < 5; p++)
        fx_call_copy(&c, w->at, p);
    fx_call_copy(&c, w->at, 6);
    fx_call_copy(&c, w->at, 7);
    fx_rw_item(w, fx_rw_node(w, &c, "all"), 0, NULL);
}

void fx_d_layer_norm(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP_native_layer_norm);
    for (int p = 0; p < 5; p++)
        fx_call_copy(&c, w->at, p);
    fx_rw_item(w, fx_rw_node(w, &c, "all"), 0, NULL);
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

/* softmax, but zeros where there is nothing but -inf. */
void fx_d_safe_softmax(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int dim = fx_wrap_dim(fx_node_int(w->at, 1), x->type->rank);
    if (x->type->dtype != w->at->type->dtype)
        x = fx_rw_cast(w, x, w->at->type->dtype, "cast");
    fx_call c = fx_rw_call(w, FX_OP_any_dim);
    fx_call_node(&c, fx_rw_number(w, FX_OP_ne_Scalar, x, -(double)INFINITY, "seen"));
    fx_call_int(&c, dim);
    fx_call_bool(&c, true);
    fx_node *any = fx_rw_node(w, &c, "any");
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

/* What is summed is converted first: integers to int64, others where a dtype is given. */
static fx_node *in_dtype(fx_rw *w, fx_node *x)
{
    return x->type->dtype == w->at->type->dtype ? x : fx_rw_cast(w, x, w->at->type->dtype, "cast");
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
    fx_narrow_dtype(w, &c, w->at->type->dtype);
    fx_rw_become(w, &c);
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
        fx_narrow_dtype(w, &c, w->at->type->dtype);
    fx_rw_become(w, &c);
}
