/* lower/build_expr.c: pointwise ops as scalar expressions of the loop program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Eager's semantics op by op: every operation rounds or wraps in the dtype of its result; comparisons give bool. Float16 and bfloat16
 * are computed in float32 and rounded once at the op's end, as eager does. */
#include <math.h>
#include <string.h>

#include "ir/ops.h"
#include "lower/build.h"

typedef struct expr {
    fx_build *b;
    fx_node *n;
    fx_dtype dtype;               /* the op computes in: the result's, float32 for float16 and bfloat16 */
    const fx_sexpr *(*get)(void *user, fx_node *n);
    void *user;
} expr;

static fx_dtype computes_in(fx_dtype d)
{
    return d == FX_F16 || d == FX_BF16 ? FX_F32 : d;
}

static bool is_float(const expr *e)
{
    return fx_dtype_is_float(e->dtype);
}

static const fx_sexpr *num(const expr *e, fx_dtype dtype, double v)
{
    return fx_s_const(e->b->p, dtype, v);
}

static const fx_sexpr *lit(const expr *e, double v)
{
    return num(e, e->dtype, v);
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

static const fx_sexpr *mul(const expr *e, const fx_sexpr *a, const fx_sexpr *b)
{
    return op2(e, FX_S_mul, a, b);
}

static const fx_sexpr *quot(const expr *e, const fx_sexpr *a, const fx_sexpr *b)
{
    return op2(e, FX_S_div, a, b);
}

static const fx_sexpr *share(const expr *e, const fx_sexpr *a)
{
    return fx_build_share(e->b, a);
}

static const fx_sexpr *cast(const expr *e, fx_dtype dtype, const fx_sexpr *a)
{
    if (a->op == FX_S_CONST && fx_dtype_is_float(dtype) && dtype == computes_in(dtype) && a->dtype != dtype)
        return num(e, dtype, fx_dtype_is_float(a->dtype) ? a->imm : (double)a->ival);
    return fx_s_cast(e->b->p, dtype, a);
}

/* Constants of the 16-bit types are numbers that exist in them. */
static double round_half(fx_dtype dtype, double v)
{
    return dtype == FX_F16    ? (double)fx_half_to_float(fx_float_to_half((float)v))
           : dtype == FX_BF16 ? (double)fx_bf16_to_float(fx_float_to_bf16((float)v))
                              : v;
}

/* Operators that round a number to a half-wide dtype before they compute; the others take it as it is. */
static bool rounds_numbers(const fx_node *n)
{
    switch (n->op->id) {
    case FX_OP_add_Tensor:
    case FX_OP_sub_Tensor:
    case FX_OP_pow_Tensor_Scalar:
    case FX_OP_fmod_Tensor:
    case FX_OP_remainder_Tensor:
        return true;
    default:
        return false;
    }
}

/* A number of the graph, exact where the dtype is an integer's; or a size. */
static const fx_sexpr *number(const expr *e, int param, fx_dtype dtype)
{
    const fx_arg *a = fx_node_arg(e->n, param);
    if (a->kind == FX_ARG_SYM) {
        fx_affine f = fx_affine_dim(fx_dim_sym(a->sym));
        return cast(e, dtype, fx_s_index(e->b->p, &f));
    }
    if (!fx_dtype_is_float(dtype) && a->kind == FX_ARG_INT)
        return fx_s_int(e->b->p, dtype, dtype == FX_BOOL ? a->i != 0 : a->i);
    double v = round_half(rounds_numbers(e->n) ? e->n->type->dtype : dtype, fx_node_float(e->n, param));
    return fx_dtype_is_float(dtype) ? num(e, dtype, v) : fx_s_int(e->b->p, dtype, fx_float_to_int(v, dtype));
}

/* Operand `param` of the node, tensor or number, converted to dtype. Worth a local when it is used more than once. */
static const fx_sexpr *operand(const expr *e, int param, fx_dtype dtype)
{
    fx_node *d = fx_node_input(e->n, param);
    return d ? cast(e, dtype, e->get(e->user, d)) : number(e, param, dtype);
}

static const fx_sexpr *arg(const expr *e, int param)
{
    return operand(e, param, e->dtype);
}

static const fx_sexpr *arg_shared(const expr *e, int param)
{
    return share(e, arg(e, param));
}

/* ---- comparisons and logic ------------------------------------------------------------------------------- */

static void promote(const expr *e, int param, fx_promote *p)
{
    const fx_node *d = fx_node_input(e->n, param);
    if (d)
        fx_promote_tensor(p, d->type->dtype, d->type->rank);
    else
        fx_promote_number(p, fx_node_arg(e->n, param)->kind == FX_ARG_SYM ? FX_ARG_INT : fx_node_arg(e->n, param)->kind);
}

/* Operands are compared in the dtype they promote to; numbers are first rounded to it. */
static const fx_sexpr *compare(const expr *e, fx_sop op)
{
    fx_promote p = fx_promote_begin();
    promote(e, 0, &p);
    promote(e, 1, &p);
    fx_dtype common = fx_promote_end(&p), work = computes_in(common);
    const fx_sexpr *a = cast(e, work, operand(e, 0, common)), *b = cast(e, work, operand(e, 1, common));
    return cmp(e, op, a, b);
}

static const fx_sexpr *nonzero(const expr *e, int param)
{
    fx_node *d = fx_node_input(e->n, param);
    return d ? cast(e, FX_BOOL, e->get(e->user, d)) : number(e, param, FX_BOOL);
}

static const fx_sexpr *not_(const expr *e, const fx_sexpr *a)
{
    return cmp(e, FX_S_eq, a, num(e, a->dtype, 0));
}

/* A test of floats, false for all else. */
static const fx_sexpr *test(const expr *e, bool nan)
{
    const fx_sexpr *a = e->get(e->user, fx_node_input(e->n, 0));
    if (!fx_dtype_is_float(a->dtype))
        return num(e, FX_BOOL, 0);
    a = share(e, cast(e, computes_in(a->dtype), a));
    return nan ? cmp(e, FX_S_ne, a, a) : cmp(e, FX_S_eq, op1(e, FX_S_abs, a), num(e, a->dtype, INFINITY));
}

/* Whether the sign is negative, also of -0 and NaN. */
static const fx_sexpr *negative(const expr *e)
{
    const fx_sexpr *a = e->get(e->user, fx_node_input(e->n, 0));
    if (a->dtype == FX_BOOL || a->dtype == FX_U8)
        return num(e, FX_BOOL, 0);
    a = cast(e, computes_in(a->dtype), a);
    if (fx_dtype_is_float(a->dtype))
        a = op2(e, FX_S_copysign, num(e, a->dtype, 1), a);
    return cmp(e, FX_S_lt, a, num(e, a->dtype, 0));
}

static const fx_sexpr *bitwise(const expr *e, fx_sop op)
{
    return op2(e, op, arg(e, 0), arg(e, 1));
}

/* ---- arithmetic -------------------------------------------------------------------------------------------- */

/* x + alpha * y; truth values are joined. */
static const fx_sexpr *scaled(const expr *e, fx_sop op)
{
    const fx_sexpr *a = arg(e, 0), *c = arg(e, 1), *alpha = number(e, 2, e->dtype);
    bool one = is_float(e) ? alpha->imm == 1 : alpha->ival == 1;
    const fx_arg *given = fx_node_arg(e->n, 2);
    if (is_float(e) && given->kind == FX_ARG_INT && given->i == 0)
        op = FX_S_add; /* eager adds -alpha * y, and -0 is the integer 0 */
    if (e->dtype == FX_BOOL)
        return op2(e, op == FX_S_add ? FX_S_or : FX_S_xor, a, one ? c : op2(e, FX_S_and, alpha, c));
    return op2(e, op, a, one ? c : mul(e, alpha, c));
}

static const fx_sexpr *product(const expr *e)
{
    return op2(e, e->dtype == FX_BOOL ? FX_S_and : FX_S_mul, arg(e, 0), arg(e, 1));
}

static const fx_sexpr *extremum(const expr *e, fx_sop op)
{
    if (e->dtype == FX_BOOL)
        op = op == FX_S_max ? FX_S_or : FX_S_and;
    return op2(e, op, arg(e, 0), arg(e, 1));
}

/* Quotients and remainders: what eager raises for a divisor of 0 among integers, the run reports. */
static const fx_sexpr *divide(const expr *e, fx_sop op)
{
    const fx_sexpr *by = arg(e, 1);
    return op2(e, op, arg(e, 0), is_float(e) ? by : fx_build_divisor(e->b, e->n, by));
}

static const fx_sexpr *divided(const expr *e)
{
    const fx_arg *mode = e->n->op->id == FX_OP_div_Tensor_mode ? fx_node_arg(e->n, 2) : NULL;
    if (!mode || mode->kind != FX_ARG_STR)
        return divide(e, FX_S_div);
    if (strcmp(mode->s, "floor") == 0)
        return divide(e, FX_S_floor_div);
    return is_float(e) ? op1(e, FX_S_trunc, divide(e, FX_S_div)) : divide(e, FX_S_div);
}

/* Powers that eager computes by multiplication, by the same ones. */
static const fx_sexpr *power(const expr *e)
{
    if (fx_node_input(e->n, 1) || !is_float(e))
        return op2(e, FX_S_pow, arg(e, 0), arg(e, 1));
    const fx_sexpr *a = arg_shared(e, 0), *one = lit(e, 1);
    double p = round_half(e->n->type->dtype, fx_node_float(e->n, 1));
    if (p == 1)
        return a;
    if (p == 2)
        return mul(e, a, a);
    if (p == 3)
        return mul(e, mul(e, a, a), a);
    if (p == 0.5)
        return op1(e, FX_S_sqrt, a);
    if (p == -0.5)
        return quot(e, one, op1(e, FX_S_sqrt, a));
    if (p == -1)
        return quot(e, one, a);
    if (p == -2)
        return quot(e, one, mul(e, a, a));
    return op2(e, FX_S_pow, a, lit(e, p));
}

static const fx_sexpr *absolute(const expr *e)
{
    return e->dtype == FX_BOOL || e->dtype == FX_U8 ? arg(e, 0) : op1(e, FX_S_abs, arg(e, 0));
}

static const fx_sexpr *rounded(const expr *e, fx_sop op)
{
    return is_float(e) ? op1(e, op, arg(e, 0)) : arg(e, 0);
}

/* ---- activations ------------------------------------------------------------------------------------------------ */

static const fx_sexpr *clamp_to(const expr *e, const fx_sexpr *a, const fx_sexpr *lo, const fx_sexpr *hi)
{
    return fx_s_op(e->b->p, FX_S_clamp, e->dtype, a, lo, hi);
}

/* A bound that is no number makes all results that: what no comparison shows. */
static bool bound_is_nan(const fx_node *n)
{
    for (int i = 1; i <= 2; i++)
        if (!fx_node_is_none(n, i) && isnan(fx_node_float(n, i)))
            return true;
    return false;
}

static const fx_sexpr *clamped(const expr *e)
{
    const fx_sexpr *a = arg(e, 0);
    bool lo = !fx_node_is_none(e->n, 1), hi = !fx_node_is_none(e->n, 2);
    if (is_float(e) && bound_is_nan(e->n))
        return lit(e, NAN);
    if (lo && hi)
        return clamp_to(e, a, arg(e, 1), arg(e, 2));
    /* not max or min: a zero that equals the bound keeps its sign */
    a = share(e, a);
    if (lo)
        return select_(e, cmp(e, FX_S_lt, a, arg(e, 1)), arg(e, 1), a);
    return hi ? select_(e, cmp(e, FX_S_gt, a, arg(e, 2)), arg(e, 2), a) : a;
}

/* x where x > 0, else alpha * (exp(x) - 1), scaled */
static const fx_sexpr *elu(const expr *e)
{
    double alpha = fx_node_float(e->n, 1), scale = fx_node_float(e->n, 2), input_scale = fx_node_float(e->n, 3);
    if (!is_float(e))
        return NULL;
    if (input_scale == 1)
        return fx_s_op(e->b->p, FX_S_elu, e->dtype, arg(e, 0), lit(e, alpha), lit(e, scale));
    const fx_sexpr *x = arg_shared(e, 0);
    const fx_sexpr *below = mul(e, op1(e, FX_S_expm1, mul(e, x, lit(e, input_scale))), mul(e, lit(e, alpha), lit(e, scale)));
    return select_(e, cmp(e, FX_S_lt, x, lit(e, 0)), below, mul(e, x, lit(e, scale)));
}

static const fx_sexpr *activation(const expr *e, fx_sop op, int first, int second)
{
    if (!is_float(e))
        return NULL;
    const fx_sexpr *a = first >= 0 ? arg(e, first) : NULL, *b = second >= 0 ? arg(e, second) : NULL;
    return fx_s_op(e->b->p, op, e->dtype, arg(e, 0), a, b);
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

static const fx_sexpr *float_unary(const expr *e, fx_sop op)
{
    return is_float(e) ? op1(e, op, arg(e, 0)) : NULL;
}

/* NULL when the op has no expression. */
static const fx_sexpr *make(const expr *e)
{
    const fx_node *n = e->n;
    switch (n->op->id) {
#define UNARY(name) \
    case FX_OP_##name: return float_unary(e, FX_S_##name);
        UNARY(exp) UNARY(exp2) UNARY(expm1) UNARY(log) UNARY(log2) UNARY(log10) UNARY(log1p) UNARY(sqrt)
        UNARY(sin) UNARY(cos) UNARY(tan) UNARY(asin) UNARY(acos) UNARY(atan)
        UNARY(sinh) UNARY(cosh) UNARY(tanh) UNARY(asinh) UNARY(acosh) UNARY(atanh)
        UNARY(erf) UNARY(erfc) UNARY(lgamma)
#undef UNARY
    case FX_OP_rsqrt: return quot(e, lit(e, 1), op1(e, FX_S_sqrt, arg(e, 0)));
    case FX_OP_reciprocal: return quot(e, lit(e, 1), arg(e, 0));
    case FX_OP_neg: return op1(e, FX_S_neg, arg(e, 0));
    case FX_OP_abs: return absolute(e);
    case FX_OP_sign: return e->dtype == FX_BOOL ? arg(e, 0) : op1(e, FX_S_sign, arg(e, 0));
    case FX_OP_floor: return rounded(e, FX_S_floor);
    case FX_OP_ceil: return rounded(e, FX_S_ceil);
    case FX_OP_round: return rounded(e, FX_S_round);
    case FX_OP_trunc: return rounded(e, FX_S_trunc);

    case FX_OP_relu: return e->dtype == FX_BOOL || e->dtype == FX_U8 ? arg(e, 0) : op1(e, FX_S_relu, arg(e, 0));
    case FX_OP_sigmoid: return activation(e, FX_S_sigmoid, -1, -1);
    case FX_OP_silu: return activation(e, FX_S_silu, -1, -1);
    case FX_OP_hardswish: return activation(e, FX_S_hardswish, -1, -1);
    case FX_OP_hardsigmoid: return activation(e, FX_S_hardsigmoid, -1, -1);
    case FX_OP_mish: return activation(e, FX_S_mish, -1, -1);
    case FX_OP_gelu:
        return activation(e, strcmp(fx_node_arg(n, 1)->s, "tanh") == 0 ? FX_S_gelu_tanh : FX_S_gelu, -1, -1);
    case FX_OP_hardtanh:
    case FX_OP_clamp: return clamped(e);
    case FX_OP_leaky_relu: return activation(e, FX_S_leaky_relu, 1, -1);
    case FX_OP_elu: return elu(e);
    case FX_OP_softplus: return activation(e, FX_S_softplus, 1, 2);
    case FX_OP__prelu_kernel: {
        const fx_sexpr *a = arg_shared(e, 0);
        return select_(e, cmp(e, FX_S_gt, a, lit(e, 0)), a, mul(e, arg(e, 1), a));
    }

    case FX_OP_add_Tensor: return scaled(e, FX_S_add);
    case FX_OP_sub_Tensor: return scaled(e, FX_S_sub);
    case FX_OP_mul_Tensor: return product(e);
    case FX_OP_div_Tensor:
    case FX_OP_div_Tensor_mode: return divided(e);
    case FX_OP_fmod_Tensor: return divide(e, FX_S_fmod);
    case FX_OP_remainder_Tensor: return divide(e, FX_S_remainder);
    case FX_OP_pow_Tensor_Scalar:
    case FX_OP_pow_Tensor_Tensor: return power(e);
    case FX_OP_atan2: return op2(e, FX_S_atan2, arg(e, 0), arg(e, 1));
    case FX_OP_hypot: return op2(e, FX_S_hypot, arg(e, 0), arg(e, 1));
    case FX_OP_copysign_Tensor: return op2(e, FX_S_copysign, arg(e, 0), arg(e, 1));
    case FX_OP_bitwise_left_shift_Tensor: return op2(e, FX_S_shl, arg(e, 0), arg(e, 1));
    case FX_OP_bitwise_right_shift_Tensor: return op2(e, FX_S_shr, arg(e, 0), arg(e, 1));
    case FX_OP_maximum: return extremum(e, FX_S_max);
    case FX_OP_minimum: return extremum(e, FX_S_min);

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
    case FX_OP_isnan: return test(e, true);
    case FX_OP_isinf: return test(e, false);
    case FX_OP_signbit: return negative(e);
    case FX_OP_logical_not: return not_(e, nonzero(e, 0));
    case FX_OP_logical_and: return op2(e, FX_S_and, nonzero(e, 0), nonzero(e, 1));
    case FX_OP_logical_or: return op2(e, FX_S_or, nonzero(e, 0), nonzero(e, 1));
    case FX_OP_bitwise_and_Tensor: return bitwise(e, FX_S_and);
    case FX_OP_bitwise_or_Tensor: return bitwise(e, FX_S_or);
    case FX_OP_bitwise_xor_Tensor: return bitwise(e, FX_S_xor);
    case FX_OP_bitwise_not: return e->dtype == FX_BOOL ? not_(e, arg(e, 0)) : op1(e, FX_S_not, arg(e, 0));
    case FX_OP_where_self: return select_(e, nonzero(e, 0), arg(e, 1), arg(e, 2));

    case FX_OP__to_copy:
    case FX_OP_clone: return arg(e, 0);
    case FX_OP_full: return arg(e, 1);
    default: return NULL;
    }
}

/* ---- what users of expressions share ---------------------------------------------------------------------------- */

const fx_sexpr *fx_build_int(fx_build *b, int64_t v)
{
    return fx_s_int(b->p, FX_I64, v);
}

const fx_sexpr *fx_build_op(fx_build *b, fx_sop op, const fx_sexpr *a, const fx_sexpr *c)
{
    return fx_s_op(b->p, op, a->dtype, a, c, NULL);
}

const fx_sexpr *fx_build_compare(fx_build *b, fx_sop op, const fx_sexpr *a, const fx_sexpr *c)
{
    return fx_s_op(b->p, op, FX_BOOL, a, c, NULL);
}

const fx_sexpr *fx_build_select(fx_build *b, const fx_sexpr *c, const fx_sexpr *a, const fx_sexpr *e)
{
    return fx_s_op(b->p, FX_S_select, a->dtype, c, a, e);
}

fx_stmt *fx_build_append(fx_build *b, fx_stmt_kind kind)
{
    fx_stmt *s = fx_stmt_new(b->p, kind);
    *b->tail = s;
    b->tail = &s->next;
    return s;
}

const fx_sexpr *fx_build_local(fx_build *b, const fx_sexpr *e)
{
    fx_stmt *s = fx_build_append(b, FX_ST_LOCAL);
    s->local = b->n_locals++;
    s->value = e;
    return fx_s_local(b->p, s->local, e->dtype);
}

void fx_build_set(fx_build *b, const fx_sexpr *local, const fx_sexpr *e)
{
    fx_stmt *s = fx_build_append(b, FX_ST_SET);
    s->local = local->local;
    s->value = e;
}

fx_stmt *fx_build_open_loop(fx_build *b, fx_dim extent, const char *hint, fx_affine *at)
{
    fx_stmt *s = fx_build_append(b, FX_ST_LOOP);
    s->var = b->n_vars++;
    s->extent = extent;
    s->hint = hint;
    b->tail = &s->body;
    *at = fx_affine_const(0);
    fx_affine_add(b->ctx, at, s->var, fx_dim_of(1));
    return s;
}

fx_stmt *fx_build_open_check(fx_build *b, const fx_sexpr *local, fx_dim extent, const char *text)
{
    fx_stmt *check = fx_build_append(b, FX_ST_CHECK);
    check->local = local->local;
    check->extent = extent;
    check->text = text;
    b->tail = &check->body;
    return check;
}

const fx_sexpr *fx_build_share(fx_build *b, const fx_sexpr *e)
{
    return e->op == FX_S_LOCAL || e->op == FX_S_CONST ? e : fx_build_local(b, e);
}

const fx_sexpr *fx_build_divisor(fx_build *b, const fx_node *n, const fx_sexpr *e)
{
    if (e->op == FX_S_CONST && e->ival != 0)
        return e;
    e = fx_build_share(b, e);
    const fx_sexpr *zero = fx_s_op(b->p, FX_S_eq, FX_BOOL, e, fx_s_int(b->p, e->dtype, 0), NULL);
    const fx_sexpr *at = fx_build_local(b, fx_s_cast(b->p, FX_I64, zero));
    fx_build_open_check(b, at, fx_dim_of(1), fx_arena_printf(b->p->arena, "integer division by zero in %s", n->name));
    return e;
}

const fx_sexpr *fx_build_param(fx_build *b, fx_node *n, int param, fx_dtype dtype)
{
    expr e = {.b = b, .n = n, .dtype = dtype};
    return number(&e, param, dtype);
}

const fx_sexpr *fx_build_number(fx_build *b, fx_node *n)
{
    fx_dtype dtype = n->type->kind == FX_TYPE_TENSOR ? n->type->dtype : FX_F32;
    if (n->opcode == FX_CALL_FUNCTION && n->op->id == FX_OP_full) {
        expr e = {.b = b, .n = n, .dtype = dtype};
        return number(&e, 1, dtype);
    }
    if (!fx_build_is_constant(n) || n->type->kind != FX_TYPE_TENSOR || !fx_type_is_static(n->type) || fx_type_numel(n->type) != 1)
        return NULL;
    fx_attr *a = fx_attr_find(b->g, n->target);
    if (!a || fx_tensor_touch(b->ctx, &a->tensor) != FX_OK)
        return NULL;
    if (fx_dtype_is_float(dtype))
        return fx_s_const(b->p, dtype, fx_tensor_get(&a->tensor, 0));
    int64_t v;
    fx_row_load(FX_KIND_INT, &v, dtype, a->tensor.data, 1, 1);
    return fx_s_int(b->p, dtype, v);
}

fx_status fx_build_expr(fx_build *b, fx_node *n, const fx_sexpr *(*get)(void *user, fx_node *n), void *user, const fx_sexpr **out)
{
    fx_dtype result = n->type->dtype;
    bool narrow = result == FX_I8 || result == FX_I16 || result == FX_U8;
    expr e = {.b = b, .n = n, .dtype = computes_in(result), .get = get, .user = user};
    /* a conversion goes from one dtype to the other, not by way of a third */
    if (n->op->id == FX_OP__to_copy || n->op->id == FX_OP_clone || n->op->id == FX_OP_full || n->op->id == FX_OP_where_self)
        e.dtype = result;
    else if (narrow && b->opt->fault == FX_FAULT_NO_WRAP)
        e.dtype = FX_I32;
    *out = make(&e);
    if (!*out)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s of %s with these arguments cannot be compiled yet", n->op->name,
                       fx_dtype_name(result));
    if (!narrow || b->opt->fault != FX_FAULT_NO_WRAP || n == b->root[n->id])
        *out = cast(&e, result, *out);
    return FX_OK;
}
