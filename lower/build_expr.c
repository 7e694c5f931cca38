/* lower/build_expr.c: pointwise ops as scalar expressions of the loop program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Eager's semantics op by op: every operation rounds in the dtype of its result; comparisons give bool. */
#include <math.h>
#include <string.h>

#include "lower/build.h"

typedef struct expr {
    fx_build *b;
    fx_node *n;
    fx_dtype dtype;               /* of the result */
    const fx_sexpr *(*get)(void *user, fx_node *n);
    void *user;
} expr;

static const fx_sexpr *num(const expr *e, fx_dtype dtype, double v)
{
    return fx_s_const(e->b->p, dtype, v);
}

static const fx_sexpr *op1(const expr *e, fx_sop op, const fx_sexpr *a)
{
    return fx_s_op(e->b->p, op, a->dtype, a, NULL, NULL);
}

static const fx_sexpr *op2(const expr *e, fx_sop op, const fx_sexpr *a, const fx_sexpr *b)
{
    return fx_s_op(e->b->p, op, a->dtype, a, b, NULL);
}

static const fx_sexpr *cmp(const expr *e, fx_sop op, const fx_sexpr *a, const fx_sexpr *b)
{
    return fx_s_op(e->b->p, op, FX_BOOL, a, b, NULL);
}

static const fx_sexpr *select_(const expr *e, const fx_sexpr *c, const fx_sexpr *a, const fx_sexpr *b)
{
    return fx_s_op(e->b->p, FX_S_select, a->dtype, c, a, b);
}

static const fx_sexpr *cast(const expr *e, fx_dtype dtype, const fx_sexpr *a)
{
    if (a->dtype == dtype)
        return a;
    if (a->op == FX_S_CONST && fx_dtype_is_float(dtype))
        return num(e, dtype, fx_dtype_is_float(a->dtype) ? a->imm : (double)a->ival);
    return fx_s_op(e->b->p, FX_S_CAST, dtype, a, NULL, NULL);
}

/* Operand `param` of the node, tensor or number, converted to dtype. */
static const fx_sexpr *operand(const expr *e, int param, fx_dtype dtype)
{
    fx_node *d = fx_node_input(e->n, param);
    return d ? cast(e, dtype, e->get(e->user, d)) : num(e, dtype, fx_node_float(e->n, param));
}

static const fx_sexpr *param_number(const expr *e, int param)
{
    return num(e, e->dtype, fx_node_float(e->n, param));
}

/* The dtype two operands meet in before they are compared. */
static fx_dtype common_dtype(const expr *e)
{
    fx_node *a = fx_node_input(e->n, 0), *c = fx_node_input(e->n, 1);
    if (!a)
        return c->type->dtype;
    if (!c || c->type->dtype == a->type->dtype)
        return a->type->dtype;
    if (fx_dtype_is_float(a->type->dtype) != fx_dtype_is_float(c->type->dtype))
        return fx_dtype_is_float(a->type->dtype) ? a->type->dtype : c->type->dtype;
    return fx_dtype_size(a->type->dtype) >= fx_dtype_size(c->type->dtype) ? a->type->dtype : c->type->dtype;
}

static const fx_sexpr *compare(const expr *e, fx_sop op)
{
    fx_dtype t = common_dtype(e);
    return cmp(e, op, operand(e, 0, t), operand(e, 1, t));
}

static const fx_sexpr *nonzero(const expr *e, int param)
{
    fx_node *d = fx_node_input(e->n, param);
    const fx_sexpr *a = e->get(e->user, d);
    return cmp(e, FX_S_ne, a, num(e, a->dtype, 0));
}

/* x + alpha * y */
static const fx_sexpr *scaled(const expr *e, fx_sop op)
{
    const fx_sexpr *a = operand(e, 0, e->dtype), *c = operand(e, 1, e->dtype);
    double alpha = fx_node_float(e->n, 2);
    if (alpha != 1)
        c = op2(e, FX_S_mul, num(e, e->dtype, alpha), c);
    return op2(e, op, a, c);
}

/* Powers that eager computes by multiplication, by the same ones. */
static const fx_sexpr *power(const expr *e)
{
    const fx_sexpr *a = operand(e, 0, e->dtype);
    if (fx_node_input(e->n, 1))
        return op2(e, FX_S_pow, a, operand(e, 1, e->dtype));
    double p = fx_node_float(e->n, 1);
    const fx_sexpr *one = num(e, e->dtype, 1);
    if (p == 1)
        return a;
    if (p == 2)
        return op2(e, FX_S_mul, a, a);
    if (p == 3)
        return op2(e, FX_S_mul, op2(e, FX_S_mul, a, a), a);
    if (p == 0.5)
        return op1(e, FX_S_sqrt, a);
    if (p == -0.5)
        return op2(e, FX_S_div, one, op1(e, FX_S_sqrt, a));
    if (p == -1)
        return op2(e, FX_S_div, one, a);
    if (p == -2)
        return op2(e, FX_S_div, one, op2(e, FX_S_mul, a, a));
    return op2(e, FX_S_pow, a, num(e, e->dtype, p));
}

static const fx_sexpr *clamped(const expr *e)
{
    const fx_sexpr *a = operand(e, 0, e->dtype);
    bool lo = !fx_node_is_none(e->n, 1), hi = !fx_node_is_none(e->n, 2);
    if (lo && hi)
        return fx_s_op(e->b->p, FX_S_clamp, e->dtype, a, param_number(e, 1), param_number(e, 2));
    /* not max or min: a zero that equals the bound keeps its sign */
    if (lo)
        return select_(e, cmp(e, FX_S_lt, a, param_number(e, 1)), param_number(e, 1), a);
    return hi ? select_(e, cmp(e, FX_S_gt, a, param_number(e, 2)), param_number(e, 2), a) : a;
}

/* -1, 0 or 1; NaN gives 0 as eager's (x > 0) - (x < 0). */
static const fx_sexpr *sign(const expr *e)
{
    const fx_sexpr *a = operand(e, 0, e->dtype), *zero = num(e, e->dtype, 0);
    const fx_sexpr *neg = select_(e, cmp(e, FX_S_lt, a, zero), num(e, e->dtype, -1), zero);
    return select_(e, cmp(e, FX_S_gt, a, zero), num(e, e->dtype, 1), neg);
}

/* ATen's div_floor_floating: the quotient rounded down, made consistent with the remainder. */
static const fx_sexpr *floor_quotient(const expr *e, const fx_sexpr *x, const fx_sexpr *y)
{
    const fx_sexpr *zero = num(e, e->dtype, 0), *one = num(e, e->dtype, 1), *quotient = op2(e, FX_S_div, x, y), *mod = op2(e, FX_S_fmod, x, y);
    const fx_sexpr *below = op2(e, FX_S_and, cmp(e, FX_S_ne, mod, zero), op2(e, FX_S_xor, cmp(e, FX_S_lt, y, zero), cmp(e, FX_S_lt, mod, zero)));
    const fx_sexpr *div = op2(e, FX_S_div, op2(e, FX_S_sub, x, mod), y);
    div = select_(e, below, op2(e, FX_S_sub, div, one), div);
    const fx_sexpr *whole = op1(e, FX_S_floor, div);
    whole = select_(e, cmp(e, FX_S_gt, op2(e, FX_S_sub, div, whole), num(e, e->dtype, 0.5)), op2(e, FX_S_add, whole, one), whole);
    /* a zero has the sign of the quotient: 0 times it, which is finite here */
    whole = select_(e, cmp(e, FX_S_eq, div, zero), op2(e, FX_S_mul, quotient, zero), whole);
    return select_(e, cmp(e, FX_S_eq, y, zero), quotient, whole);
}

static const fx_sexpr *divided(const expr *e)
{
    const fx_sexpr *x = operand(e, 0, e->dtype), *y = operand(e, 1, e->dtype);
    if (e->n->op->id == FX_OP_div_Tensor || fx_node_is_none(e->n, 2))
        return op2(e, FX_S_div, x, y);
    if (strcmp(fx_node_arg(e->n, 2)->s, "floor") == 0)
        return floor_quotient(e, x, y);
    return op1(e, FX_S_trunc, op2(e, FX_S_div, x, y));
}

static const fx_sexpr *parametrised(const expr *e, fx_sop op, int first, int second)
{
    const fx_sexpr *p1 = first >= 0 ? param_number(e, first) : NULL, *p2 = second >= 0 ? param_number(e, second) : NULL;
    return fx_s_op(e->b->p, op, e->dtype, operand(e, 0, e->dtype), p1, p2);
}

/* NULL when the op has no expression. */
static const fx_sexpr *make(const expr *e)
{
    const fx_node *n = e->n;
    switch (n->op->id) {
#define UNARY(name)     \
    case FX_OP_##name:  \
        return op1(e, FX_S_##name, operand(e, 0, e->dtype));
        UNARY(relu)
        UNARY(sigmoid)
        UNARY(tanh)
        UNARY(exp)
        UNARY(expm1)
        UNARY(log)
        UNARY(log1p)
        UNARY(sqrt)
        UNARY(neg)
        UNARY(abs)
        UNARY(erf)
        UNARY(sin)
        UNARY(cos)
        UNARY(floor)
        UNARY(ceil)
        UNARY(round)
        UNARY(trunc)
        UNARY(silu)
        UNARY(hardswish)
        UNARY(hardsigmoid)
        UNARY(mish)
#undef UNARY
#define COMPARE(name)                  \
    case FX_OP_##name##_Tensor:        \
    case FX_OP_##name##_Scalar:        \
        return compare(e, FX_S_##name);
        COMPARE(eq)
        COMPARE(ne)
        COMPARE(lt)
        COMPARE(le)
        COMPARE(gt)
        COMPARE(ge)
#undef COMPARE
    case FX_OP_rsqrt:
        return op2(e, FX_S_div, num(e, e->dtype, 1), op1(e, FX_S_sqrt, operand(e, 0, e->dtype)));
    case FX_OP_reciprocal:
        return op2(e, FX_S_div, num(e, e->dtype, 1), operand(e, 0, e->dtype));
    case FX_OP_sign:
        return sign(e);
    case FX_OP_logical_not: {
        const fx_sexpr *a = e->get(e->user, fx_node_input(n, 0));
        return cmp(e, FX_S_eq, a, num(e, a->dtype, 0));
    }
    case FX_OP_isnan: {
        const fx_sexpr *a = e->get(e->user, fx_node_input(n, 0));
        return cmp(e, FX_S_ne, a, a);
    }
    case FX_OP_isinf: {
        const fx_sexpr *a = e->get(e->user, fx_node_input(n, 0));
        return cmp(e, FX_S_eq, op1(e, FX_S_abs, a), num(e, a->dtype, INFINITY));
    }
    case FX_OP_logical_and:
        return op2(e, FX_S_and, nonzero(e, 0), nonzero(e, 1));
    case FX_OP_logical_or:
        return op2(e, FX_S_or, nonzero(e, 0), nonzero(e, 1));
    case FX_OP_bitwise_and_Tensor:
        return op2(e, FX_S_and, operand(e, 0, e->dtype), operand(e, 1, e->dtype));
    case FX_OP_bitwise_or_Tensor:
        return op2(e, FX_S_or, operand(e, 0, e->dtype), operand(e, 1, e->dtype));
    case FX_OP_bitwise_xor_Tensor:
        return op2(e, FX_S_xor, operand(e, 0, e->dtype), operand(e, 1, e->dtype));
    case FX_OP_bitwise_not:
        if (e->dtype == FX_BOOL)
            return cmp(e, FX_S_eq, operand(e, 0, FX_BOOL), num(e, FX_BOOL, 0));
        return op1(e, FX_S_not, operand(e, 0, e->dtype));
    case FX_OP_gelu:
        return op1(e, strcmp(fx_node_arg(n, 1)->s, "tanh") == 0 ? FX_S_gelu_tanh : FX_S_gelu, operand(e, 0, e->dtype));
    case FX_OP_hardtanh:
        return parametrised(e, FX_S_clamp, 1, 2);
    case FX_OP_clamp:
        return clamped(e);
    case FX_OP_leaky_relu:
        return parametrised(e, FX_S_leaky_relu, 1, -1);
    case FX_OP_elu:
        return fx_node_float(n, 3) == 1 ? parametrised(e, FX_S_elu, 1, 2) : NULL;
    case FX_OP_softplus:
        return parametrised(e, FX_S_softplus, 1, 2);
    case FX_OP_pow_Tensor_Scalar:
    case FX_OP_pow_Tensor_Tensor:
        return power(e);
    case FX_OP_add_Tensor:
        return scaled(e, FX_S_add);
    case FX_OP_sub_Tensor:
        return scaled(e, FX_S_sub);
    case FX_OP_mul_Tensor:
        return op2(e, FX_S_mul, operand(e, 0, e->dtype), operand(e, 1, e->dtype));
    case FX_OP_div_Tensor:
    case FX_OP_div_Tensor_mode:
        return divided(e);
    case FX_OP_maximum:
        return op2(e, FX_S_max, operand(e, 0, e->dtype), operand(e, 1, e->dtype));
    case FX_OP_minimum:
        return op2(e, FX_S_min, operand(e, 0, e->dtype), operand(e, 1, e->dtype));
    case FX_OP_fmod_Tensor:
        return op2(e, FX_S_fmod, operand(e, 0, e->dtype), operand(e, 1, e->dtype));
    case FX_OP_remainder_Tensor:
        return op2(e, FX_S_remainder, operand(e, 0, e->dtype), operand(e, 1, e->dtype));
    case FX_OP_where_self:
        return select_(e, operand(e, 0, FX_BOOL), operand(e, 1, e->dtype), operand(e, 2, e->dtype));
    case FX_OP__prelu_kernel: {
        const fx_sexpr *a = operand(e, 0, e->dtype);
        return select_(e, cmp(e, FX_S_gt, a, num(e, e->dtype, 0)), a, op2(e, FX_S_mul, operand(e, 1, e->dtype), a));
    }
    case FX_OP__to_copy:
    case FX_OP_clone:
        return operand(e, 0, e->dtype);
    case FX_OP_full:
        return param_number(e, 1);
    default:
        return NULL;
    }
}

fx_status fx_build_expr(fx_build *b, fx_node *n, const fx_sexpr *(*get)(void *user, fx_node *n), void *user, const fx_sexpr **out)
{
    expr e = {.b = b, .n = n, .dtype = n->type->dtype, .get = get, .user = user};
    *out = make(&e);
    if (!*out)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s with these arguments cannot be compiled yet", n->op->name);
    return FX_OK;
}
