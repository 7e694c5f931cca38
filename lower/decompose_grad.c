/* lower/decompose_grad.c: losses and elementwise gradients in core rows, in eager's own steps. What eager computes in one kernel it rounds
 * once: float16 and bfloat16 are widened for the whole of it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <math.h>

enum { NONE, MEAN, SUM }; /* reductions */

/* Operand `param` in the node's dtype, widened; NULL where it is None. */
static fx_node *input(fx_rw *w, int param)
{
    fx_node *x = fx_node_input(w->at, param);
    fx_dtype dtype = w->at->type->kind == FX_TYPE_TENSOR ? w->at->type->dtype : w->at->type->items[0]->dtype;
    if (x && x->type->dtype != dtype && x->type->dtype != FX_BOOL)
        x = fx_rw_cast(w, x, dtype, "cast");
    return x ? fx_rw_wide(w, x) : NULL;
}

static fx_node *mul(fx_rw *w, fx_node *a, fx_node *b)
{
    return fx_rw_binary(w, FX_OP_mul_Tensor, a, b, "mul");
}

static fx_node *sub(fx_rw *w, fx_node *a, fx_node *b)
{
    return fx_rw_binary(w, FX_OP_sub_Tensor, a, b, "sub");
}

static fx_node *quotient(fx_rw *w, fx_node *a, fx_node *b)
{
    return fx_rw_binary(w, FX_OP_div_Tensor, a, b, "div");
}

static fx_node *times(fx_rw *w, fx_node *x, double by)
{
    return by == 1 ? x : fx_rw_number(w, FX_OP_mul_Tensor, x, by, "times");
}

static fx_node *plus(fx_rw *w, fx_node *x, double by)
{
    return fx_rw_number(w, FX_OP_add_Tensor, x, by, "plus");
}

/* by - x */
static fx_node *minus_from(fx_rw *w, double by, fx_node *x)
{
    return plus(w, fx_rw_unary(w, FX_OP_neg, x, "neg"), by);
}

static fx_node *test(fx_rw *w, fx_opid op, fx_node *x, double v)
{
    return fx_rw_number(w, op, x, v, "test");
}

static double rounded(const fx_node *x, double v)
{
    return x->type->dtype == FX_F64 ? v : (double)(float)v;
}

/* max(x, least), NaN stays. */
static fx_node *at_least(fx_rw *w, fx_node *x, double least)
{
    fx_call c = fx_rw_call(w, FX_OP_clamp);
    fx_call_node(&c, x);
    fx_call_float(&c, least);
    return fx_rw_node(w, &c, "at_least");
}

static double named(const fx_rw *w, const char *name)
{
    return fx_node_float(w->at, fx_node_param(w->at, name));
}

/* ---- activations -------------------------------------------------------------------------------------------------- */

/* g * (1 - y * y) */
void fx_d_tanh_backward(fx_rw *w)
{
    fx_node *g = input(w, 0), *y = input(w, 1);
    fx_rw_finish(w, mul(w, g, minus_from(w, 1, mul(w, y, y))));
}

/* g * (1 - y) * y */
void fx_d_sigmoid_backward(fx_rw *w)
{
    fx_node *g = input(w, 0), *y = input(w, 1);
    fx_rw_finish(w, mul(w, mul(w, g, minus_from(w, 1, y)), y));
}

/* The derivative of x * Phi(x): Phi(x) + x * phi(x). */
static fx_node *exact_gelu(fx_rw *w, fx_node *x)
{
    fx_node *cdf = times(w, plus(w, fx_rw_unary(w, FX_OP_erf, times(w, x, 0.70710678118654752440), "erf"), 1), 0.5);
    fx_node *pdf = times(w, fx_rw_unary(w, FX_OP_exp, mul(w, times(w, x, -0.5), x), "exp"), 0.39894228040143267794);
    return fx_rw_binary(w, FX_OP_add_Tensor, cdf, mul(w, x, pdf), "derivative");
}

/* The same of 0.5 * x * (1 + tanh(beta * (x + k * x^3))). */
static fx_node *tanh_gelu(fx_rw *w, fx_node *x)
{
    const double beta = 0.79788456080286535588, k = 0.044715;
    fx_node *square = mul(w, x, x), *cube = mul(w, square, x);
    fx_node *inner = times(w, fx_rw_binary(w, FX_OP_add_Tensor, x, times(w, cube, k), "inner"), beta);
    fx_node *h = fx_rw_unary(w, FX_OP_tanh, inner, "tanh"), *left = times(w, plus(w, h, 1), 0.5);
    fx_node *slope = times(w, plus(w, times(w, square, 3 * k), 1), beta);
    fx_node *right = mul(w, mul(w, times(w, x, 0.5), minus_from(w, 1, mul(w, h, h))), slope);
    return fx_rw_binary(w, FX_OP_add_Tensor, left, right, "derivative");
}

void fx_d_gelu_backward(fx_rw *w)
{
    fx_node *g = input(w, 0), *x = input(w, 1);
    const fx_arg *mode = fx_node_arg(w->at, 2);
    bool tanh = mode->kind == FX_ARG_STR && strcmp(mode->s, "tanh") == 0;
    fx_rw_finish(w, mul(w, g, tanh ? tanh_gelu(w, x) : exact_gelu(w, x)));
}

/* g where beta * x > threshold, else g * z / (z + 1), z = exp(beta * x) */
void fx_d_softplus_backward(fx_rw *w)
{
    fx_node *g = input(w, 0), *x = times(w, input(w, 1), named(w, "beta"));
    fx_node *z = fx_rw_unary(w, FX_OP_exp, x, "exp"), *product = mul(w, g, z);
    fx_node *curve = quotient(w, product, plus(w, z, 1));
    fx_rw_finish(w, fx_rw_where(w, test(w, FX_OP_gt_Scalar, x, named(w, "threshold")), g, curve, "either"));
}

/* The logarithm, as min(x, 0) - log1p(z), and z = exp(-|x|). */
void fx_d_log_sigmoid_forward(fx_rw *w)
{
    fx_dtype dtype = w->at->type->items[0]->dtype;
    fx_node *x = input(w, 0), *y[2];
    fx_call c = fx_rw_call(w, FX_OP_clamp);
    fx_call_node(&c, x);
    fx_call_node(&c, NULL);
    fx_call_int(&c, 0);
    fx_node *least = fx_rw_node(w, &c, "least"), *size = fx_rw_unary(w, FX_OP_abs, x, "abs");
    y[1] = fx_rw_unary(w, FX_OP_exp, fx_rw_unary(w, FX_OP_neg, size, "neg"), "exp");
    y[0] = sub(w, least, fx_rw_unary(w, FX_OP_log1p, y[1], "log1p"));
    for (int i = 0; i < 2 && w->status == FX_OK; i++)
        if (y[i]->type->dtype != dtype)
            y[i] = fx_rw_cast(w, y[i], dtype, "result");
    fx_rw_results(w, 2, y);
}

/* g * (where(x < 0, 1, 0) - where(x < 0, 1, -1) * (z / (1 + z))) */
void fx_d_log_sigmoid_backward(fx_rw *w)
{
    fx_node *g = input(w, 0), *x = input(w, 1), *z = input(w, 2);
    fx_node *part = quotient(w, z, plus(w, z, 1)), *below = test(w, FX_OP_lt_Scalar, x, 0);
    fx_node *rest = minus_from(w, 1, part), *same = plus(w, part, 0); /* 0 of -0 */
    fx_rw_finish(w, mul(w, g, fx_rw_where(w, below, rest, same, "either")));
}

/* self = [a, b] along dim: [g * sigmoid(b), g * a * sigmoid(b) * (1 - sigmoid(b))] */
void fx_d_glu_backward(fx_rw *w)
{
    fx_node *g = input(w, 0), *x = input(w, 1), *half[2], *y[2];
    int dim = fx_wrap_dim(fx_node_int(w->at, 2), x->type->rank);
    fx_dim n = g->type->dims[dim];
    for (int k = 0; k < 2; k++)
        half[k] = fx_rw_slice_to(w, x, dim, k ? n : fx_dim_of(0), k ? x->type->dims[dim] : n, 1, k ? "gate" : "value");
    fx_node *s = fx_rw_unary(w, FX_OP_sigmoid, half[1], "sigmoid");
    y[0] = mul(w, g, s);
    fx_node *slope = mul(w, minus_from(w, 1, s), y[0]);
    y[1] = mul(w, slope, half[0]);
    fx_rw_finish(w, fx_rw_cat(w, 2, y, dim, "both"));
}

void fx_d_native_dropout_backward(fx_rw *w)
{
    fx_node *g = input(w, 0), *mask = input(w, 1);
    if (mask->type->dtype != g->type->dtype)
        mask = fx_rw_cast(w, mask, g->type->dtype, "kept");
    fx_rw_finish(w, times(w, mul(w, g, mask), named(w, "scale")));
}

/* ---- losses ----------------------------------------------------------------------------------------------------------- */

/* The loss of all elements: none, mean or sum, in the node's dtype. */
static void reduced(fx_rw *w, fx_node *y)
{
    int64_t dims[FX_MAX_RANK];
    int reduction = (int)fx_node_int(w->at, fx_node_param(w->at, "reduction"));
    if (w->status != FX_OK)
        return;
    if (reduction == NONE || y->type->rank == 0) {
        fx_rw_finish(w, y);
        return;
    }
    for (int i = 0; i < y->type->rank; i++)
        dims[i] = i;
    if (y->type->dtype != w->at->type->dtype) /* as eager: each is rounded before they are added up */
        y = fx_rw_cast(w, y, w->at->type->dtype, "each");
    fx_rw_reduce(w, reduction == MEAN ? FX_OP_mean_dim : FX_OP_sum_dim_IntList, y, y->type->rank, dims, false, NULL);
}

/* Here eager rounds half-wide floats at both steps. */
void fx_d_mse_loss(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0), *t = fx_node_input(w->at, 1);
    fx_dtype dtype = w->at->type->dtype;
    if (x->type->dtype != dtype)
        x = fx_rw_cast(w, x, dtype, "cast");
    if (t->type->dtype != dtype)
        t = fx_rw_cast(w, t, dtype, "cast");
    fx_node *d = sub(w, x, t);
    reduced(w, mul(w, d, d));
}

void fx_d_l1_loss(fx_rw *w)
{
    fx_node *x = input(w, 0), *d = sub(w, x, input(w, 1));
    reduced(w, fx_rw_unary(w, FX_OP_abs, d, "abs"));
}

/* smooth_l1: z < beta ? 0.5 * z * z / beta : z - 0.5 * beta; huber: z <= delta ? 0.5 * z * z : delta * (z - 0.5 * delta) */
void fx_d_smooth_l1_loss(fx_rw *w)
{
    bool huber = w->at->op->id == FX_OP_huber_loss;
    fx_node *x = input(w, 0), *z = fx_rw_unary(w, FX_OP_abs, sub(w, x, input(w, 1)), "abs"), *curve = mul(w, times(w, z, 0.5), z);
    double a = rounded(z, named(w, huber ? "delta" : "beta"));
    fx_node *line = fx_rw_number(w, FX_OP_sub_Tensor, z, rounded(z, 0.5 * a), "line");
    if (huber)
        line = times(w, line, a);
    else
        curve = fx_rw_number(w, FX_OP_div_Tensor, curve, a, "curve");
    fx_node *near = test(w, huber ? FX_OP_le_Scalar : FX_OP_lt_Scalar, z, a);
    reduced(w, fx_rw_where(w, near, curve, line, "either"));
}

/* (t - 1) * max(log1p(-x), -100) - t * max(log(x), -100), weighed */
void fx_d_binary_cross_entropy(fx_rw *w)
{
    fx_node *x = input(w, 0), *t = input(w, 1), *weight = input(w, 2);
    fx_node *none = at_least(w, fx_rw_unary(w, FX_OP_log1p, fx_rw_unary(w, FX_OP_neg, x, "neg"), "log1p"), -100);
    fx_node *all = at_least(w, fx_rw_unary(w, FX_OP_log, x, "log"), -100);
    none = mul(w, plus(w, t, -1), none);
    fx_node *y = sub(w, none, mul(w, t, all));
    reduced(w, weight ? mul(w, y, weight) : y);
}

/* (1 - t) * x - ((pos_weight - 1) * t + 1) * log_sigmoid(x), weighed */
void fx_d_binary_cross_entropy_with_logits(fx_rw *w)
{
    fx_node *x = input(w, 0), *t = input(w, 1), *weight = input(w, 2), *more = input(w, 3);
    fx_call c = fx_rw_call(w, FX_OP_clamp);
    fx_call_node(&c, x);
    fx_call_node(&c, NULL);
    fx_call_int(&c, 0);
    fx_node *least = fx_rw_node(w, &c, "least"), *size = fx_rw_unary(w, FX_OP_abs, x, "abs");
    fx_node *e = fx_rw_unary(w, FX_OP_exp, fx_rw_unary(w, FX_OP_neg, size, "neg"), "exp");
    fx_node *s = sub(w, least, fx_rw_unary(w, FX_OP_log1p, e, "log1p"));
    if (more)
        s = mul(w, plus(w, mul(w, plus(w, more, -1), t), 1), s);
    fx_node *y = sub(w, mul(w, minus_from(w, 1, t), x), s);
    reduced(w, weight ? mul(w, y, weight) : y);
}

/* ---- their gradients ---------------------------------------------------------------------------------------------------- */

/* The elements of the result, which a mean divides by; 1 otherwise. */
static fx_dim elements(fx_rw *w)
{
    fx_dim sizes[FX_MAX_RANK], n = fx_dim_of(1);
    int rank = fx_sizes(w->at, sizes);
    if (fx_node_int(w->at, fx_node_param(w->at, "reduction")) == MEAN)
        for (int i = 0; i < rank; i++)
            n = fx_dim_mul(w->ctx, n, sizes[i]);
    return n;
}

/* A size as a number of rank 0. */
static fx_node *counted_as(fx_rw *w, fx_dim n, fx_dtype dtype)
{
    fx_call c = fx_rw_call(w, FX_OP_full);
    fx_call_ints(&c, 0, NULL);
    fx_call_size(&c, n);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, dtype));
    return fx_rw_node(w, &c, "count");
}

/* x * (by / elements), the quotient in double as eager's. */
static fx_node *normed(fx_rw *w, fx_node *x, double by)
{
    fx_dim n = elements(w);
    if (!n.sym)
        return times(w, x, rounded(x, by / (double)n.value));
    fx_node *count = counted_as(w, n, FX_F64), *norm = quotient(w, fx_rw_scalar(w, by, FX_F64, "by"), count);
    if (x->type->dtype != FX_F64)
        norm = fx_rw_cast(w, norm, x->type->dtype, "norm");
    return mul(w, x, norm);
}

void fx_d_mse_loss_backward(fx_rw *w)
{
    fx_node *g = input(w, 0), *x = input(w, 1), *d = sub(w, x, input(w, 2));
    fx_rw_finish(w, mul(w, normed(w, d, 2), g));
}

/* smooth_l1: -norm * g, norm * g beyond beta, norm * d * g / beta within; huber: these times delta, norm * d * g within */
void fx_d_smooth_l1_loss_backward(fx_rw *w)
{
    bool huber = w->at->op->id == FX_OP_huber_loss_backward;
    fx_node *g = input(w, 0), *x = input(w, 1), *d = sub(w, x, input(w, 2));
    double a = rounded(d, named(w, huber ? "delta" : "beta"));
    fx_node *flat = normed(w, g, 1), *slope = mul(w, normed(w, d, 1), g);
    if (huber)
        flat = times(w, flat, a);
    else
        slope = fx_rw_number(w, FX_OP_div_Tensor, slope, a, "slope");
    fx_node *above = fx_rw_where(w, test(w, FX_OP_ge_Scalar, d, a), flat, slope, "above");
    fx_node *below = fx_rw_unary(w, FX_OP_neg, flat, "below");
    fx_rw_finish(w, fx_rw_where(w, test(w, FX_OP_le_Scalar, d, -a), below, above, "either"));
}

/* g * (x - t) / max((1 - x) * x, 1e-12), weighed */
void fx_d_binary_cross_entropy_backward(fx_rw *w)
{
    fx_dim n = elements(w);
    fx_node *g = input(w, 0), *x = input(w, 1), *t = input(w, 2), *weight = input(w, 3);
    fx_node *product = at_least(w, mul(w, minus_from(w, 1, x), x), rounded(x, 1e-12));
    fx_node *y = quotient(w, mul(w, g, sub(w, x, t)), product);
    if (weight)
        y = mul(w, y, weight);
    if (n.sym)
        y = quotient(w, y, counted_as(w, n, y->type->dtype));
    else if (n.value != 1)
        y = fx_rw_number(w, FX_OP_div_Tensor, y, (double)n.value, "mean");
    fx_rw_finish(w, y);
}

/* ---- negative log likelihood ---------------------------------------------------------------------------------------------- */

/* A tensor with a dim of size 1 put in at `axis`. */
static fx_node *with_dim(fx_rw *w, fx_node *x, int axis, const char *name)
{
    fx_dim in[FX_MAX_RANK], out[FX_MAX_RANK];
    int rank = fx_sizes(x, in);
    for (int i = 0; i <= rank; i++)
        out[i] = i < axis ? in[i] : i == axis ? fx_dim_of(1) : in[i - 1];
    return fx_rw_view_to(w, x, rank + 1, out, name);
}

/* A vector over classes under sizes that broadcast over self. */
static fx_node *by_class(fx_rw *w, fx_node *v, int rank, int axis, const char *name)
{
    fx_dim sizes[FX_MAX_RANK];
    for (int i = 0; i < rank; i++)
        sizes[i] = i == axis ? v->type->dims[0] : fx_dim_of(1);
    return fx_rw_view_to(w, v, rank, sizes, name);
}

/* ignore_index, a number or an expression, compared with. */
static fx_node *is_counted(fx_rw *w, fx_node *target, int param)
{
    fx_call c = fx_rw_call(w, FX_OP_ne_Scalar);
    fx_call_node(&c, target);
    fx_call_copy(&c, w->at, param);
    return fx_rw_node(w, &c, "counted");
}

/* v[index], of as many elements as index: what is out of range is refused. */
static fx_node *looked_up(fx_rw *w, fx_node *v, fx_node *index, const char *name)
{
    fx_dim sizes[FX_MAX_RANK], flat = fx_dim_of(1);
    int n = fx_sizes(index, sizes);
    for (int i = 0; i < n; i++)
        flat = fx_dim_mul(w->ctx, flat, sizes[i]);
    fx_node *list = fx_rw_view_to(w, index, 1, &flat, "list");
    fx_call c = fx_rw_call(w, FX_OP_index_select);
    fx_call_node(&c, v);
    fx_call_int(&c, 0);
    fx_call_node(&c, list);
    return fx_rw_view_to(w, fx_rw_node(w, &c, name), n, sizes, name);
}

/* (self, target, weight, reduction, ignore_index) */
void fx_d_nll_loss_forward(fx_rw *w)
{
    fx_node *x = input(w, 0), *target = fx_node_input(w->at, 1), *weight = input(w, 2), *y[2];
    int rank = x->type->rank, axis = rank > 1, reduction = (int)fx_node_int(w->at, 3), n = target->type->rank;
    fx_dtype dtype = w->at->type->items[0]->dtype, wide = x->type->dtype;
    int64_t dims[FX_MAX_RANK];
    fx_dim sizes[FX_MAX_RANK];
    for (int i = 0; i < n; i++)
        dims[i] = i;
    fx_sizes(target, sizes);
    fx_node *counted = is_counted(w, target, 4), *any = fx_rw_scalar(w, 0, FX_I64, "any"), *zero = fx_rw_scalar(w, 0, wide, "zero");
    fx_node *safe = fx_rw_where(w, counted, target, any, "target");
    fx_call c = fx_rw_call(w, FX_OP_gather);
    fx_call_node(&c, x);
    fx_call_int(&c, axis);
    fx_call_node(&c, with_dim(w, safe, axis, "places"));
    fx_node *picked = fx_rw_view_to(w, fx_rw_node(w, &c, "gathered"), n, sizes, "picked");
    fx_node *by = NULL;
    if (weight) {
        by = fx_rw_where(w, counted, looked_up(w, weight, safe, "weights"), zero, "weight");
    } else {
        by = fx_rw_cast(w, counted, wide, "weight");
    }
    fx_node *loss = fx_rw_unary(w, FX_OP_neg, picked, "neg");
    loss = fx_rw_where(w, counted, weight ? mul(w, loss, by) : loss, zero, "loss");
    y[1] = n ? fx_rw_reduce(w, FX_OP_sum_dim_IntList, by, n, dims, false, "total") : by;
    y[0] = reduction == NONE || !n ? loss : fx_rw_reduce(w, FX_OP_sum_dim_IntList, loss, n, dims, false, "sum");
    if (reduction == MEAN)
        y[0] = quotient(w, y[0], y[1]);
    if (reduction == NONE && rank > 1)
        y[1] = zero;
    for (int i = 0; i < 2 && w->status == FX_OK; i++)
        if (y[i]->type->dtype != dtype)
            y[i] = fx_rw_cast(w, y[i], dtype, "result");
    fx_rw_results(w, 2, y);
}

/* (grad_output, self, target, weight, reduction, ignore_index, total_weight): -grad * weight where the class is the target, else 0; one
 * loop over all elements, nothing is scattered. Targets are looked up among the classes, which refuses those that are none. */
void fx_d_nll_loss_backward(fx_rw *w)
{
    fx_node *g = input(w, 0), *x = fx_node_input(w->at, 1), *target = fx_node_input(w->at, 2), *weight = input(w, 3), *total = input(w, 6);
    int rank = x->type->rank, axis = rank > 1, reduction = (int)fx_node_int(w->at, 4);
    fx_node *counted = is_counted(w, target, 5), *classes = fx_rw_arange(w, fx_dim_of(0), x->type->dims[axis], "class");
    if (g->type->rank == 1 && reduction != NONE)
        g = fx_rw_view(w, g, 0, NULL, "grad");
    if (reduction == MEAN)
        g = quotient(w, g, total);
    if (reduction == NONE)
        g = with_dim(w, g, axis, "grads");
    fx_node *by = fx_rw_unary(w, FX_OP_neg, g, "neg");
    if (weight)
        by = mul(w, by, by_class(w, weight, rank, axis, "weights"));
    fx_node *any = fx_rw_scalar(w, 0, FX_I64, "any");
    target = looked_up(w, classes, fx_rw_where(w, counted, target, any, "safe"), "target");
    classes = by_class(w, classes, rank, axis, "classes");
    fx_node *places = with_dim(w, target, axis, "places"), *same = fx_rw_binary(w, FX_OP_eq_Tensor, places, classes, "same");
    same = fx_rw_binary(w, FX_OP_logical_and, same, with_dim(w, counted, axis, "counts"), "here");
    fx_rw_finish(w, fx_rw_where(w, same, by, fx_rw_scalar(w, 0, g->type->dtype, "zero"), "gradient"));
}
