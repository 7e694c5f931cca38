/* lower/decompose_batch_norm.c: batch norm, in evaluation and training, and its gradients.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Statistics are reductions over all dims but that of channels; what is made of them is elementwise, and fuses with them. */
#include "ir/ops.h"
#include "lower/rewrite.h"

/* A vector over channels under sizes that broadcast over x. */
fx_node *fx_by_channel(fx_rw *w, fx_node *v, const fx_node *x, const char *suffix)
{
    fx_dim sizes[FX_MAX_RANK], in[FX_MAX_RANK];
    int rank = fx_sizes(x, in);
    for (int i = 0; i < rank; i++)
        sizes[i] = i == 1 ? in[1] : fx_dim_of(1);
    return fx_rw_view_to(w, v, rank, sizes, suffix);
}

/* The same vector again. */
static fx_node *flat(fx_rw *w, fx_node *v, const char *suffix)
{
    return fx_rw_view_to(w, v, 1, &v->type->dims[1], suffix);
}

static fx_node *in_dtype(fx_rw *w, fx_node *v, fx_dtype dtype, const char *suffix)
{
    return w->status != FX_OK || v->type->dtype == dtype ? v : fx_rw_cast(w, v, dtype, suffix);
}

/* The vector of a parameter over x's channels, in x's dtype; NULL when it is None. */
static fx_node *channel_vector(fx_rw *w, int param, const fx_node *x, const char *name)
{
    fx_node *v = fx_node_input(w->at, param);
    return v ? fx_by_channel(w, in_dtype(w, v, x->type->dtype, "wide"), x, name) : NULL;
}

/* Whether fold makes weights, or a multiplication and an addition, of a batch norm. */
static bool folds(const fx_rw *w)
{
    bool good = fx_node_input(w->at, 0)->type->dtype == FX_F32;
    for (int p = 1; p < 5; p++) {
        const fx_node *v = fx_node_input(w->at, p);
        good = good && (!v || (v->type->dtype == FX_F32 && fx_is_constant(v)));
    }
    return good;
}

/* (x - mean) * (weight / std) + bias; std is sqrt(var + eps). */
static fx_node *normalized(fx_rw *w, fx_node *x, fx_node *mean, fx_node *std)
{
    fx_node *weight = channel_vector(w, 1, x, "weight"), *bias = channel_vector(w, 2, x, "bias");
    fx_node *scale = weight ? fx_rw_binary(w, FX_OP_div_Tensor, weight, std, "scale") : fx_rw_unary(w, FX_OP_reciprocal, std, "scale");
    fx_node *y = fx_rw_binary(w, FX_OP_mul_Tensor, fx_rw_binary(w, FX_OP_sub_Tensor, x, mean, "centered"), scale, "scaled");
    return bias ? fx_rw_binary(w, FX_OP_add_Tensor, y, bias, "shifted") : y;
}

static fx_node *deviation(fx_rw *w, fx_node *var, double eps)
{
    return fx_rw_unary(w, FX_OP_sqrt, fx_rw_number(w, FX_OP_add_Tensor, var, eps, "var_eps"), "std");
}

/* By the running statistics; in float32 for half-wide floats. */
static fx_node *by_running(fx_rw *w, int running, double eps)
{
    fx_node *x = fx_rw_wide(w, fx_node_input(w->at, 0));
    fx_node *mean = channel_vector(w, running, x, "mean"), *var = channel_vector(w, running + 1, x, "var");
    return normalized(w, x, mean, deviation(w, var, eps));
}

/* All dims but that of channels. */
static int others(const fx_node *x, int64_t *dims)
{
    int n = 0;
    for (int i = 0; i < x->type->rank; i++)
        if (i != 1)
            dims[n++] = i;
    return n;
}

static fx_node *mean_of(fx_rw *w, fx_node *x, const char *suffix)
{
    int64_t dims[FX_MAX_RANK];
    int n = others(x, dims);
    return fx_rw_reduce(w, FX_OP_mean_dim, x, n, dims, true, suffix);
}

static fx_node *variance_of(fx_rw *w, fx_node *x, int correction, const char *suffix)
{
    int64_t dims[FX_MAX_RANK];
    fx_call c = fx_rw_call(w, FX_OP_var_correction);
    fx_call_node(&c, x);
    fx_call_ints(&c, others(x, dims), dims);
    fx_call_int(&c, correction);
    fx_call_bool(&c, true);
    return fx_rw_node(w, &c, suffix);
}

/* The elements of a channel; 0 when they are an expression. */
static int64_t elements(const fx_node *x)
{
    int64_t n = 1;
    for (int i = 0; i < x->type->rank; i++)
        n *= i == 1 ? 1 : fx_dim_known(x->type->dims[i]) ? x->type->dims[i].value : 0;
    return n;
}

/* running * (1 - momentum) + momentum * now, of the running dtype. */
static fx_node *updated(fx_rw *w, int param, fx_node *now, const char *suffix)
{
    double momentum = fx_node_float(w->at, fx_batch_norm_of(w->at).momentum);
    fx_node *running = fx_node_input(w->at, param);
    fx_node *kept = fx_rw_number(w, FX_OP_mul_Tensor, in_dtype(w, running, now->type->dtype, "wide"), 1 - momentum, "kept");
    fx_node *y = fx_rw_binary(w, FX_OP_add_Tensor, kept, fx_rw_number(w, FX_OP_mul_Tensor, now, momentum, "new"), suffix);
    return in_dtype(w, y, running->type->dtype, "cast");
}

static fx_node *empty(fx_rw *w, fx_dtype dtype)
{
    fx_call c = fx_rw_call(w, FX_OP_full);
    fx_call_ints(&c, 1, (int64_t[]){0});
    fx_call_int(&c, 0);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, dtype));
    return fx_rw_node(w, &c, "empty");
}

/* Results of training: by the mean and variance of x, which are results too, with the running ones where the row returns them. */
static void training(fx_rw *w, const fx_batch_norm *b, fx_node **y)
{
    fx_node *x = fx_rw_wide(w, fx_node_input(w->at, 0)), *mean = mean_of(w, x, "mean"), *var = variance_of(w, x, 0, "var");
    if (w->status != FX_OK)
        return;
    fx_node *std = deviation(w, var, fx_node_float(w->at, b->eps));
    y[0] = normalized(w, x, mean, std);
    if (b->results == 1 || w->status != FX_OK)
        return;
    if (fx_uses_result(w, 1))
        y[1] = flat(w, mean, "save_mean");
    if (fx_uses_result(w, 2))
        y[2] = flat(w, fx_rw_unary(w, FX_OP_reciprocal, std, "invstd"), "save_invstd");
    if (b->functional && fx_uses_result(w, b->results) && w->status == FX_OK)
        y[b->results] = updated(w, b->running, flat(w, mean, "batch_mean"), "running_mean");
    if (b->functional && fx_uses_result(w, b->results + 1) && w->status == FX_OK) {
        int64_t n = elements(x);
        fx_node *unbiased = n > 1 ? fx_rw_number(w, FX_OP_mul_Tensor, var, (double)n / (double)(n - 1), "unbiased") : variance_of(w, x, 1, "unbiased");
        y[b->results + 1] = updated(w, b->running + 1, flat(w, unbiased, "batch_var"), "running_var");
    }
}

/* Every row but batch_norm and _native_batch_norm_legit_no_training where these fold. */
static void general(fx_rw *w)
{
    fx_batch_norm b = fx_batch_norm_of(w->at);
    fx_node *y[6] = {NULL};
    const fx_type *t = w->at->type;
    if (b.writes) {
        fx_rw_refuse(w, "writes running statistics in a functional graph");
        return;
    }
    if (b.training) {
        training(w, &b, y);
    } else {
        y[0] = by_running(w, b.running, fx_node_float(w->at, b.eps));
        for (int i = 0; b.functional && i < 2; i++)
            y[b.results + i] = fx_node_input(w->at, b.running + i);
    }
    if (w->status == FX_OK && b.results == 1)
        fx_rw_finish(w, y[0]);
    if (w->status != FX_OK || b.results == 1)
        return;
    for (int i = 0; i < t->n && w->status == FX_OK; i++) {
        if (!y[i] && fx_uses_result(w, i)) /* what evaluation does not save, and the reserve */
            y[i] = empty(w, t->items[i]->dtype);
        else if (y[i])
            y[i] = in_dtype(w, y[i], t->items[i]->dtype, "cast");
    }
    if (w->status == FX_OK)
        fx_rw_results(w, t->n, y);
}

/* (input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn): result 0 of the native row. */
void fx_d_batch_norm(fx_rw *w)
{
    if (fx_node_bool(w->at, 5) || !folds(w)) {
        general(w);
        return;
    }
    fx_call c = fx_rw_call(w, FX_OP__native_batch_norm_legit_no_training);
    for (int p = 0; p < 5; p++)
        fx_call_copy(&c, w->at, p);
    fx_call_copy(&c, w->at, 6);
    fx_call_copy(&c, w->at, 7);
    fx_rw_item(w, fx_rw_node(w, &c, "all"), 0, NULL);
}

/* The other results are what training saves: empty in evaluation. */
void fx_d_native_batch_norm(fx_rw *w)
{
    bool core = w->at->op->id == FX_OP__native_batch_norm_legit_no_training;
    if (!core || !folds(w) || fx_uses_result(w, 1) || fx_uses_result(w, 2))
        general(w);
}

/* The sum over a channel, as an expression where its elements are one. */
static fx_node *sum_of(fx_rw *w, fx_node *x, const char *suffix)
{
    int64_t dims[FX_MAX_RANK];
    int n = others(x, dims);
    return fx_rw_reduce(w, FX_OP_sum_dim_IntList, x, n, dims, true, suffix);
}

/* (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train or update, eps, output_mask): with c = input - mean, in training
 * grad_input = (g - mean(g) - c * invstd^2 * mean(g * c)) * invstd * weight, else g * invstd * weight. */
void fx_d_batch_norm_backward(fx_rw *w)
{
    bool train = fx_node_bool(w->at, 7);
    fx_node *g = fx_rw_wide(w, fx_node_input(w->at, 0)), *x = fx_rw_wide(w, fx_node_input(w->at, 1)), *y[3] = {NULL, NULL, NULL};
    fx_node *mean = channel_vector(w, train ? 5 : 3, x, "mean"), *invstd = channel_vector(w, train ? 6 : 4, x, "invstd");
    if (!train && w->status == FX_OK)
        invstd = fx_rw_unary(w, FX_OP_reciprocal, deviation(w, invstd, fx_node_float(w->at, 8)), "invstd");
    fx_node *weight = channel_vector(w, 2, x, "weight");
    bool uses[3];
    for (int i = 0; i < 3; i++)
        uses[i] = fx_uses_result(w, i);
    if (w->status != FX_OK)
        return;
    fx_node *centered = NULL, *sum = NULL, *dot = NULL;
    if (uses[1] || (uses[0] && train)) {
        centered = fx_rw_binary(w, FX_OP_sub_Tensor, x, mean, "centered");
        dot = sum_of(w, fx_rw_binary(w, FX_OP_mul_Tensor, g, centered, "product"), "dot");
    }
    if (uses[2] || (uses[0] && train))
        sum = sum_of(w, g, "sum");
    if (uses[0]) {
        fx_node *scale = weight ? fx_rw_binary(w, FX_OP_mul_Tensor, invstd, weight, "scale") : invstd, *d = g;
        if (train) {
            int64_t n = elements(x);
            fx_node *of_g = n ? fx_rw_number(w, FX_OP_mul_Tensor, sum, 1 / (double)n, "mean_grad") : mean_of(w, g, "mean_grad");
            fx_node *of_dot = n ? fx_rw_number(w, FX_OP_mul_Tensor, dot, 1 / (double)n, "mean_dot")
                                : mean_of(w, fx_rw_binary(w, FX_OP_mul_Tensor, g, centered, "product"), "mean_dot");
            fx_node *k = fx_rw_binary(w, FX_OP_mul_Tensor, fx_rw_binary(w, FX_OP_mul_Tensor, invstd, invstd, "square"), of_dot, "slope");
            d = fx_rw_binary(w, FX_OP_sub_Tensor, d, of_g, "balanced");
            d = fx_rw_binary(w, FX_OP_sub_Tensor, d, fx_rw_binary(w, FX_OP_mul_Tensor, centered, k, "along"), "across");
        }
        y[0] = fx_rw_binary(w, FX_OP_mul_Tensor, d, scale, "grad_input");
    }
    if (uses[1])
        y[1] = flat(w, fx_rw_binary(w, FX_OP_mul_Tensor, dot, invstd, "scaled"), "grad_weight");
    if (uses[2])
        y[2] = flat(w, sum, "grad_bias");
    for (int i = 0; i < 3 && w->status == FX_OK; i++)
        if (y[i] && w->at->type->items[i]->kind == FX_TYPE_TENSOR)
            y[i] = in_dtype(w, y[i], w->at->type->items[i]->dtype, "cast");
    if (w->status == FX_OK)
        fx_rw_results(w, 3, y);
}
