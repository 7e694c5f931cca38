/* lower/decompose_elementwise.c: elementwise functions that are compositions of core ones, in eager's own steps. What eager computes
 * in one kernel it rounds once: float16 and bfloat16 are widened for the whole of it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <math.h>

static fx_node *input(fx_rw *w, int param)
{
    return fx_rw_wide(w, fx_node_input(w->at, param));
}

static fx_node *negated(fx_rw *w, fx_node *x)
{
    return fx_rw_unary(w, FX_OP_neg, x, "neg");
}

void fx_d_frac(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_rw_binary(w, FX_OP_sub_Tensor, x, fx_rw_unary(w, FX_OP_trunc, x, "trunc"), NULL);
}

void fx_d_sgn(fx_rw *w)
{
    fx_rw_unary(w, FX_OP_sign, fx_node_input(w->at, 0), NULL);
}

/* deg2rad, rad2deg: integers become float32 first. */
void fx_d_degrees(fx_rw *w)
{
    fx_node *x = input(w, 0);
    if (!fx_dtype_is_float(x->type->dtype))
        x = fx_rw_cast(w, x, w->at->type->dtype, "float");
    double by = w->at->op->id == FX_OP_deg2rad ? 0.017453292519943295769236907684886 : 57.295779513082320876798154814105;
    fx_rw_finish(w, fx_rw_number(w, FX_OP_mul_Tensor, x, by, "times"));
}

/* x - x is 0 just where x is finite. Integers always are. */
void fx_d_isfinite(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dtype dtype = x->type->dtype;
    fx_node *zero = fx_dtype_is_float(dtype) ? fx_rw_binary(w, FX_OP_sub_Tensor, x, x, "zero")
                    : dtype == FX_BOOL       ? fx_rw_binary(w, FX_OP_bitwise_xor_Tensor, x, x, "zero")
                                             : fx_rw_number(w, FX_OP_mul_Tensor, x, 0, "zero");
    fx_rw_number(w, FX_OP_eq_Scalar, zero, 0, NULL);
}

void fx_d_isinf_sign(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    if (!fx_dtype_is_float(x->type->dtype)) /* never, and a bool has no infinity to be compared with */
        x = fx_rw_cast(w, x, FX_F32, "float");
    fx_rw_number(w, FX_OP_eq_Scalar, x, w->at->op->id == FX_OP_isposinf ? (double)INFINITY : -(double)INFINITY, NULL);
}

/* min(x, 0) - log1p(exp(-|x|)) */
void fx_d_log_sigmoid(fx_rw *w)
{
    fx_node *x = input(w, 0);
    fx_call c = fx_rw_call(w, FX_OP_clamp);
    fx_call_node(&c, x);
    fx_call_node(&c, NULL);
    fx_call_int(&c, 0);
    fx_node *least = fx_rw_node(w, &c, "least");
    fx_node *e = fx_rw_unary(w, FX_OP_exp, negated(w, fx_rw_unary(w, FX_OP_abs, x, "abs")), "exp");
    fx_rw_finish(w, fx_rw_binary(w, FX_OP_sub_Tensor, least, fx_rw_unary(w, FX_OP_log1p, e, "log1p"), "sub"));
}

/* selu, celu: elu with its three numbers. */
void fx_d_elu_like(fx_rw *w)
{
    bool selu = w->at->op->id == FX_OP_selu;
    double alpha = selu ? 1.6732632423543772848170429916717 : fx_node_float(w->at, 1);
    fx_call c = fx_rw_call(w, FX_OP_elu);
    fx_call_copy(&c, w->at, 0);
    fx_call_float(&c, alpha);
    fx_call_float(&c, selu ? 1.0507009873554804934193349852946 : 1);
    fx_call_float(&c, selu ? 1 : 1 / alpha);
    fx_rw_become(w, &c);
}

/* 0 within [-lambd, lambd]; NaN is not within. */
void fx_d_hardshrink(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    double lambd = fx_node_float(w->at, 1);
    fx_node *low = fx_rw_number(w, FX_OP_ge_Scalar, x, -lambd, "low"), *high = fx_rw_number(w, FX_OP_le_Scalar, x, lambd, "high");
    fx_node *within = fx_rw_binary(w, FX_OP_logical_and, low, high, "within");
    fx_rw_where(w, within, fx_rw_scalar(w, 0, x->type->dtype, "zero"), x, NULL);
}

/* x - lambd above, x + lambd below, x * 0 (NaN stays) within. */
void fx_d_softshrink(fx_rw *w)
{
    fx_node *x = input(w, 0);
    double lambd = fx_node_float(w->at, 1);
    fx_node *below = fx_rw_number(w, FX_OP_lt_Scalar, x, -lambd, "below"), *up = fx_rw_number(w, FX_OP_add_Tensor, x, lambd, "up");
    fx_node *inner = fx_rw_where(w, below, up, fx_rw_number(w, FX_OP_mul_Tensor, x, 0, "zero"), "inner");
    fx_node *above = fx_rw_number(w, FX_OP_gt_Scalar, x, lambd, "above"), *down = fx_rw_number(w, FX_OP_sub_Tensor, x, lambd, "down");
    fx_rw_finish(w, fx_rw_where(w, above, down, inner, "shrunk"));
}

void fx_d_threshold(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_node *wide = fx_rw_wide(w, x); /* eager does not round the threshold */
    fx_call c = fx_rw_call(w, FX_OP_le_Scalar);
    fx_call_node(&c, wide);
    fx_call_copy(&c, w->at, 1);
    fx_node *low = fx_rw_node(w, &c, "low");
    c = fx_rw_call(w, FX_OP_full);
    fx_call_ints(&c, 0, NULL);
    fx_call_copy(&c, w->at, 2);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, x->type->dtype));
    fx_rw_where(w, low, fx_rw_node(w, &c, "value"), x, NULL);
}

/* log(x / (1 - x)), x clamped first where there is an eps (NaN stays). */
void fx_d_logit(fx_rw *w)
{
    fx_node *x = input(w, 0);
    if (!fx_dtype_is_float(x->type->dtype))
        x = fx_rw_cast(w, x, w->at->type->dtype, "float");
    if (!fx_node_is_none(w->at, 1)) {
        double eps = fx_node_float(w->at, 1);
        fx_call c = fx_rw_call(w, FX_OP_clamp);
        fx_call_node(&c, x);
        fx_call_float(&c, eps);
        fx_call_float(&c, x->type->dtype == FX_F64 ? 1 - eps : (double)(1 - (float)eps));
        x = fx_rw_node(w, &c, "clamp");
    }
    fx_node *rest = fx_rw_number(w, FX_OP_add_Tensor, negated(w, x), 1, "rest");
    fx_rw_finish(w, fx_rw_unary(w, FX_OP_log, fx_rw_binary(w, FX_OP_div_Tensor, x, rest, "ratio"), "log"));
}

/* `by` where `test` holds, else y. */
static fx_node *replaced(fx_rw *w, fx_node *test, double by, const char *by_name, fx_node *y, const char *name)
{
    return fx_rw_where(w, test, fx_rw_scalar(w, by, y->type->dtype, by_name), y, name);
}

void fx_d_nan_to_num(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0), *y = x;
    fx_dtype dtype = x->type->dtype;
    double most = dtype == FX_F64 ? 0x1.fffffffffffffp1023 : dtype == FX_F16 ? 65504 : dtype == FX_BF16 ? 0x1.fep127 : 0x1.fffffep127;
    if (fx_dtype_is_float(dtype)) {
        double low = fx_node_is_none(w->at, 3) ? -most : fx_node_float(w->at, 3), high = fx_node_is_none(w->at, 2) ? most : fx_node_float(w->at, 2);
        y = replaced(w, fx_rw_number(w, FX_OP_eq_Scalar, x, -(double)INFINITY, "is_low"), low, "low", y, "lows");
        y = replaced(w, fx_rw_number(w, FX_OP_eq_Scalar, x, (double)INFINITY, "is_high"), high, "high", y, "highs");
        y = replaced(w, fx_rw_unary(w, FX_OP_isnan, x, "is_nan"), fx_node_float(w->at, 1), "nan", y, "nans");
    }
    fx_rw_finish(w, y);
}

/* ---- two operands ------------------------------------------------------------------------------------------------ */

/* Operands of a binary function in the result's dtype, widened; a number becomes a constant. */
static void operands(fx_rw *w, int n, fx_node **x)
{
    fx_dtype dtype = w->at->type->dtype;
    for (int i = 0; i < n; i++) {
        x[i] = fx_node_input(w->at, i);
        if (!x[i]) {
            fx_call c = fx_rw_call(w, FX_OP_full);
            fx_call_ints(&c, 0, NULL);
            fx_call_copy(&c, w->at, i);
            fx_call_arg(&c, fx_arg_dtype(w->ctx, dtype == FX_F16 || dtype == FX_BF16 ? FX_F32 : dtype));
            x[i] = fx_rw_node(w, &c, "number");
        } else if (x[i]->type->dtype != dtype) {
            x[i] = fx_rw_cast(w, x[i], dtype, "cast");
        }
        x[i] = fx_rw_wide(w, x[i]);
    }
}

/* (x != 0) ^ (y != 0) */
void fx_d_logical_xor(fx_rw *w)
{
    fx_node *x[2];
    for (int i = 0; i < 2; i++) {
        x[i] = fx_node_input(w->at, i);
        if (x[i]->type->dtype != FX_BOOL)
            x[i] = fx_rw_number(w, FX_OP_ne_Scalar, x[i], 0, "truth");
    }
    fx_rw_binary(w, FX_OP_bitwise_xor_Tensor, x[0], x[1], NULL);
}

/* fmax, fmin: a number wins over NaN. */
void fx_d_fmax(fx_rw *w)
{
    fx_node *x[2];
    fx_opid op = w->at->op->id == FX_OP_fmax ? FX_OP_maximum : FX_OP_minimum;
    operands(w, 2, x);
    fx_node *both = fx_rw_binary(w, op, x[0], x[1], "both");
    if (fx_dtype_is_float(x[0]->type->dtype)) {
        fx_node *inner = fx_rw_where(w, fx_rw_unary(w, FX_OP_isnan, x[1], "other_nan"), x[0], both, "inner");
        both = fx_rw_where(w, fx_rw_unary(w, FX_OP_isnan, x[0], "nan"), x[1], inner, "outer");
    }
    fx_rw_finish(w, both);
}

/* x * log(y), but 0 where x is 0 and y is a number. */
void fx_d_xlogy(fx_rw *w)
{
    fx_node *x[2];
    operands(w, 2, x);
    fx_node *product = fx_rw_binary(w, FX_OP_mul_Tensor, x[0], fx_rw_unary(w, FX_OP_log, x[1], "log"), "product");
    fx_node *zero = fx_rw_scalar(w, 0, x[0]->type->dtype, "zero");
    fx_node *inner = fx_rw_where(w, fx_rw_number(w, FX_OP_eq_Scalar, x[0], 0, "is_zero"), zero, product, "inner");
    fx_rw_finish(w, fx_rw_where(w, fx_rw_unary(w, FX_OP_isnan, x[1], "nan"), x[1], inner, "outer"));
}

void fx_d_floor_divide(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP_div_Tensor_mode);
    fx_call_copy(&c, w->at, 0);
    fx_call_copy(&c, w->at, 1);
    fx_call_arg(&c, fx_arg_text(w->ctx, FX_ARG_STR, fx_intern(w->ctx, "floor")));
    fx_rw_become(w, &c);
    if (w->status == FX_OK)
        fx_d_div_mode(w);
}

/* ---- three operands ---------------------------------------------------------------------------------------------- */

/* clamp, clamp_min, clamp_max by tensors. */
void fx_d_clamp_tensor(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    fx_node *low = id == FX_OP_clamp_max_Tensor ? NULL : fx_node_input(w->at, 1);
    fx_node *high = id == FX_OP_clamp_max_Tensor ? fx_node_input(w->at, 1) : id == FX_OP_clamp_Tensor ? fx_node_input(w->at, 2) : NULL;
    fx_node *x = fx_node_input(w->at, 0);
    fx_dtype dtype = w->at->type->dtype;
    if (x->type->dtype != dtype)
        x = fx_rw_cast(w, x, dtype, "cast");
    if (low)
        x = fx_rw_binary(w, FX_OP_maximum, x, low->type->dtype != dtype ? fx_rw_cast(w, low, dtype, "min") : low, "max");
    if (high)
        x = fx_rw_binary(w, FX_OP_minimum, x, high->type->dtype != dtype ? fx_rw_cast(w, high, dtype, "max") : high, "min");
    fx_rw_finish(w, x);
}

/* From the nearer end, so that both ends are met: self + weight * (end - self), or end - (end - self) * (1 - weight). */
void fx_d_lerp(fx_rw *w)
{
    fx_node *x[3];
    double by;
    bool number = fx_is_number(w->at, 2, &by);
    operands(w, number ? 2 : 3, x);
    fx_node *span = fx_rw_binary(w, FX_OP_sub_Tensor, x[1], x[0], "span");
    if (number && x[0]->type->dtype != FX_F64)
        by = (double)(float)by;
    fx_node *near = NULL, *far = NULL;
    if (!number || fabs(by) < 0.5)
        near = fx_rw_binary(w, FX_OP_add_Tensor, x[0], number ? fx_rw_number(w, FX_OP_mul_Tensor, span, by, "part")
                                                              : fx_rw_binary(w, FX_OP_mul_Tensor, x[2], span, "part"), "near");
    if (!number || !(fabs(by) < 0.5)) {
        fx_node *part;
        if (number) {
            part = fx_rw_number(w, FX_OP_mul_Tensor, span, x[0]->type->dtype == FX_F64 ? 1 - by : (double)(1 - (float)by), "rest");
        } else {
            fx_node *rest = fx_rw_number(w, FX_OP_add_Tensor, negated(w, x[2]), 1, "one_minus");
            part = fx_rw_binary(w, FX_OP_mul_Tensor, span, rest, "rest");
        }
        far = fx_rw_binary(w, FX_OP_sub_Tensor, x[1], part, "far");
    }
    if (near && far) {
        fx_node *closer = fx_rw_number(w, FX_OP_lt_Scalar, fx_rw_unary(w, FX_OP_abs, x[2], "abs"), 0.5, "closer");
        near = fx_rw_where(w, closer, near, far, "either");
    }
    fx_rw_finish(w, near ? near : far);
}

/* addcmul, addcdiv: self + value * a * b (or / b), from left to right. */
void fx_d_addc(fx_rw *w)
{
    fx_node *x[3];
    operands(w, 3, x);
    fx_node *a = x[1];
    if (fx_node_float(w->at, 3) != 1)
        a = fx_rw_number(w, FX_OP_mul_Tensor, a, fx_node_float(w->at, 3), "scaled");
    a = fx_rw_binary(w, w->at->op->id == FX_OP_addcmul ? FX_OP_mul_Tensor : FX_OP_div_Tensor, a, x[2], "part");
    fx_rw_finish(w, fx_rw_binary(w, FX_OP_add_Tensor, x[0], a, "sum"));
}
