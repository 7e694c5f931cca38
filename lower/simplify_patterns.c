/* lower/simplify_patterns.c: activations spelled out by a model, or by run_decompositions, become the one op they are, which
 * kernels can apply to a result in registers. Only where eager computes that op by the very same operations.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

/* A call of `op` used by one node only, so that nothing is computed twice. */
static bool only(const fx_node *n, fx_opid op)
{
    return n && fx_is_call(n, op) && n->n_uses == 1;
}

static bool number_is(const fx_node *n, int param, double want)
{
    double v;
    return fx_is_number(n, param, &v) && v == want;
}

/* min(max(x + 3, 0), 6): returns x */
static fx_node *ramp(const fx_node *n)
{
    if (!only(n, FX_OP_hardtanh) || !number_is(n, 1, 0) || !number_is(n, 2, 6))
        return NULL;
    const fx_node *sum = fx_node_input(n, 0);
    if (!only(sum, FX_OP_add_Tensor) || !number_is(sum, 1, 3) || !number_is(sum, 2, 1))
        return NULL;
    return fx_node_input(sum, 0);
}

/* ramp / 6 is hardsigmoid, x * ramp / 6 is hardswish. */
static bool hard_activation(fx_rw *w)
{
    const fx_node *a = fx_node_input(w->at, 0);
    if (!a || !number_is(w->at, 1, 6))
        return false;
    fx_node *x = ramp(a);
    if (x) {
        fx_rw_unary(w, FX_OP_hardsigmoid, x, NULL);
        return true;
    }
    if (!only(a, FX_OP_mul_Tensor))
        return false;
    fx_node *p = fx_node_input(a, 0), *q = fx_node_input(a, 1);
    if (!p || !q || ((x = ramp(q)) != p && (x = ramp(p)) != q) || !fx_same_type(x, w->at))
        return false;
    fx_rw_unary(w, FX_OP_hardswish, x, NULL);
    return true;
}

/* x > 0 ? x : slope * x */
static bool leaky(fx_rw *w, fx_node *x, const fx_node *condition, const fx_node *other)
{
    double slope;
    if (!fx_is_call(condition, FX_OP_gt_Scalar) || fx_node_input(condition, 0) != x || !number_is(condition, 1, 0) ||
        !only(other, FX_OP_mul_Tensor))
        return false;
    fx_node *a = fx_node_input(other, 0), *b = fx_node_input(other, 1);
    if (a == x && fx_is_number(other, 1, &slope)) {
        fx_call c = fx_rw_call(w, FX_OP_leaky_relu);
        fx_call_node(&c, x);
        fx_call_float(&c, slope);
        fx_rw_become(w, &c);
        return true;
    }
    fx_node *weight = a == x ? b : b == x ? a : NULL;
    if (!weight || weight->type->rank > x->type->rank || weight->type->dtype != x->type->dtype || weight == x)
        return false;
    fx_rw_binary(w, FX_OP__prelu_kernel, x, weight, NULL);
    return true;
}

/* The operand of n times beta; x itself for beta 1. */
static bool scaled(const fx_node *n, const fx_node *x, double *beta)
{
    *beta = 1;
    return n == x || (fx_is_call(n, FX_OP_mul_Tensor) && fx_node_input(n, 0) == x && fx_is_number(n, 1, beta));
}

/* beta * x > threshold ? x : log1p(exp(beta * x)) / beta */
static bool softplus(fx_rw *w, fx_node *x, const fx_node *condition, const fx_node *other)
{
    double beta, inner, threshold;
    if (!fx_is_call(condition, FX_OP_gt_Scalar) || !scaled(fx_node_input(condition, 0), x, &beta) ||
        !fx_is_number(condition, 1, &threshold))
        return false;
    if (beta != 1) {
        if (!only(other, FX_OP_div_Tensor) || !number_is(other, 1, beta))
            return false;
        other = fx_node_input(other, 0);
    }
    const fx_node *e = only(other, FX_OP_log1p) ? fx_node_input(other, 0) : NULL;
    if (!only(e, FX_OP_exp) || !scaled(fx_node_input(e, 0), x, &inner) || inner != beta)
        return false;
    fx_call c = fx_rw_call(w, FX_OP_softplus);
    fx_call_node(&c, x);
    fx_call_float(&c, beta);
    fx_call_float(&c, threshold);
    fx_rw_become(w, &c);
    return true;
}

static bool choice(fx_rw *w)
{
    fx_node *condition = fx_node_input(w->at, 0), *x = fx_node_input(w->at, 1), *other = fx_node_input(w->at, 2);
    if (!condition || !x || !other || !fx_same_type(x, w->at) || x->type->dtype != FX_F32)
        return false;
    return leaky(w, x, condition, other) || softplus(w, x, condition, other);
}

/* x * tanh(softplus(x)); above the threshold of 20 tanh is 1 in float either way. */
static bool mish(fx_rw *w)
{
    fx_node *a = fx_node_input(w->at, 0), *b = fx_node_input(w->at, 1);
    for (int i = 0; i < 2 && a && b; i++) {
        const fx_node *s = only(b, FX_OP_tanh) ? fx_node_input(b, 0) : NULL;
        if (only(s, FX_OP_softplus) && fx_node_input(s, 0) == a && number_is(s, 1, 1) && number_is(s, 2, 20) &&
            a->type->dtype == FX_F32) {
            fx_rw_unary(w, FX_OP_mish, a, NULL);
            return true;
        }
        fx_node *swap = a;
        a = b;
        b = swap;
    }
    return false;
}

bool fx_simplify_pattern(fx_rw *w)
{
    switch (w->at->op->id) {
    case FX_OP_div_Tensor: return hard_activation(w);
    case FX_OP_mul_Tensor: return mish(w);
    case FX_OP_where_self: return choice(w);
    default: return false;
    }
}
