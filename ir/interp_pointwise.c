/* ir/interp_pointwise.c: reference evaluation of elementwise operators.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Every operator computes in the kind of its dtype (see fx_kind) and rounds once to the dtype, as eager's CPU kernels do.
 * Transcendental functions go through double, so that f32 results are correctly rounded but for rare ties. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ir/ops.h"

/* Maximum and minimum in which NaN wins; equal operands give the first, so that -0 is kept. */
#define MAX_NAN(a, b) ((a) != (a) || (a) >= (b) ? (a) : (b))
#define MIN_NAN(a, b) ((a) != (a) || (a) <= (b) ? (a) : (b))

#define EACH(expr)                      \
    for (int64_t i = 0; i < n; i++) {   \
        x = a[i];                       \
        r[i] = (expr);                  \
    }                                   \
    return true

/* ---- one operand ------------------------------------------------------------------------------------------------------ */

/* false: the operator is not defined on this kind. */
#define UNARY_FLOATS(NAME, T)                                                                      \
    static bool NAME(fx_opid id, int64_t n, const T *a, T *r)                                             \
    {                                                                                                     \
        T x;                                                                                              \
        switch (id) {                                                                                     \
        case FX_OP_relu: EACH(x < 0 ? 0 : x);                                                             \
        case FX_OP_sigmoid: EACH((T)(1 / (1 + exp(-(double)x))));                                         \
        case FX_OP_tanh: EACH((T)tanh((double)x));                                                        \
        case FX_OP_exp: EACH((T)exp((double)x));                                                          \
        case FX_OP_expm1: EACH((T)expm1((double)x));                                                      \
        case FX_OP_log: EACH((T)log((double)x));                                                          \
        case FX_OP_log1p: EACH((T)log1p((double)x));                                                      \
        case FX_OP_sqrt: EACH((T)sqrt((double)x));                                                        \
        case FX_OP_rsqrt: EACH(1 / (T)sqrt((double)x));                                                   \
        case FX_OP_reciprocal: EACH(1 / x);                                                               \
        case FX_OP_neg: EACH(-x);                                                                         \
        case FX_OP_abs: EACH((T)fabs((double)x));                                                         \
        case FX_OP_sign: case FX_OP_sgn: EACH((T)((x > 0) - (x < 0)));                                    \
        case FX_OP_erf: EACH((T)erf((double)x));                                                          \
        case FX_OP_sin: EACH((T)sin((double)x));                                                          \
        case FX_OP_cos: EACH((T)cos((double)x));                                                          \
        case FX_OP_tan: EACH((T)tan((double)x));                                                          \
        case FX_OP_asin: EACH((T)asin((double)x));                                                        \
        case FX_OP_acos: EACH((T)acos((double)x));                                                        \
        case FX_OP_atan: EACH((T)atan((double)x));                                                        \
        case FX_OP_sinh: EACH((T)sinh((double)x));                                                        \
        case FX_OP_cosh: EACH((T)cosh((double)x));                                                        \
        case FX_OP_asinh: EACH((T)asinh((double)x));                                                      \
        case FX_OP_acosh: EACH((T)acosh((double)x));                                                      \
        case FX_OP_atanh: EACH((T)atanh((double)x));                                                      \
        case FX_OP_erfc: EACH((T)erfc((double)x));                                                        \
        case FX_OP_exp2: EACH((T)exp2((double)x));                                                        \
        case FX_OP_log2: EACH((T)log2((double)x));                                                        \
        case FX_OP_log10: EACH((T)log10((double)x));                                                      \
        case FX_OP_lgamma: EACH((T)lgamma((double)x));                                                    \
        case FX_OP_deg2rad: EACH(x * (T)0.017453292519943295769236907684886);                             \
        case FX_OP_rad2deg: EACH(x * (T)57.295779513082320876798154814105);                               \
        case FX_OP_frac: EACH(x - (T)trunc((double)x));                                                   \
        case FX_OP_log_sigmoid: EACH((T)((x < 0 ? (double)x : 0) - log1p(exp(-fabs((double)x)))));        \
        case FX_OP_floor: EACH((T)floor((double)x));                                                      \
        case FX_OP_ceil: EACH((T)ceil((double)x));                                                        \
        case FX_OP_round: EACH((T)rint((double)x));                                                       \
        case FX_OP_trunc: EACH((T)trunc((double)x));                                                      \
        case FX_OP_silu: EACH((T)((double)x / (1 + exp(-(double)x))));                                    \
        case FX_OP_hardswish: EACH(x *MIN_NAN(MAX_NAN(x + 3, 0), 6) / 6);                                 \
        case FX_OP_hardsigmoid: EACH(MIN_NAN(MAX_NAN(x + 3, 0), 6) / 6);                                  \
        case FX_OP_mish: EACH((T)((double)x * tanh(log1p(exp((double)x)))));                              \
        case FX_OP_square: EACH(x *x);                                                                    \
        case FX_OP_relu6: EACH(MIN_NAN(MAX_NAN(x, 0), 6));                                                \
        default: return false;                                                                            \
        }                                                                                                 \
    }
UNARY_FLOATS(unary_f32, float)
UNARY_FLOATS(unary_f64, double)

static int64_t wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t wrap_neg(int64_t a)
{
    return (int64_t)(0 - (uint64_t)a);
}

static bool unary_int(fx_opid id, fx_dtype dtype, int64_t n, const int64_t *a, int64_t *r)
{
    int64_t x;
    switch (id) {
    case FX_OP_relu: EACH(x < 0 ? 0 : x);
    case FX_OP_relu6: EACH(x < 0 ? 0 : x > 6 ? 6 : x);
    case FX_OP_neg: EACH(wrap_neg(x));
    case FX_OP_abs: EACH(x < 0 ? wrap_neg(x) : x);
    case FX_OP_sign: case FX_OP_sgn: EACH((x > 0) - (x < 0));
    case FX_OP_floor: case FX_OP_ceil: case FX_OP_round: case FX_OP_trunc: EACH(x);
    case FX_OP_bitwise_not: EACH(dtype == FX_BOOL ? !x : ~x);
    case FX_OP_square: EACH(wrap_mul(x, x));
    default: return false;
    }
}

/* Predicates, computed in double: exact for all but the greatest integers, of which only zero matters here. */
static bool predicate(fx_opid id, int64_t n, const double *a, int64_t *r)
{
    double x;
    switch (id) {
    case FX_OP_logical_not: EACH(x == 0);
    case FX_OP_isnan: EACH(x != x);
    case FX_OP_isinf: EACH(isinf(x) != 0);
    case FX_OP_isfinite: EACH(isfinite(x) != 0);
    case FX_OP_isposinf: EACH(x == INFINITY);
    case FX_OP_isneginf: EACH(x == -INFINITY);
    case FX_OP_signbit: EACH(signbit(x) != 0);
    default: return false;
    }
}

static fx_status no_kind(const fx_eval *c, fx_dtype dtype)
{
    return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "not defined on %s", fx_dtype_name(dtype));
}

fx_status eval_unary(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_opid id = c->node->op->id;
    bool test = c->node->op->infer == infer_to_bool, ok;
    const fx_type *type = fx_eval_type(c, 0);
    fx_kind kind = type->kind != FX_TYPE_TENSOR ? FX_KIND_INT : fx_kind_of(type->dtype);
    const void *a;
    int64_t n = fx_tensor_numel(x);
    FX_TRY(fx_eval_array(c, x, test ? FX_KIND_F64 : kind, 0, NULL, &a));
    void *r = fx_eval_target(c, 0, kind);
    if (test)
        ok = predicate(id, n, a, r);
    else
        ok = kind == FX_KIND_F32   ? unary_f32(id, n, a, r)
             : kind == FX_KIND_F64 ? unary_f64(id, n, a, r)
                                   : unary_int(id, x->dtype, n, a, r);
    if (!ok)
        return no_kind(c, x->dtype);
    fx_eval_finish(c, 0, kind, r);
    return FX_OK;
}

/* ---- one operand and numbers ------------------------------------------------------------------------------------------ */

typedef struct numbers {
    double f[3];
    int64_t i[3];
    bool given[3];
} numbers;

#define UNARY_ARGS(NAME, T)                                                                               \
    static bool NAME(fx_opid id, int64_t n, const T *a, T *r, const numbers *p)                           \
    {                                                                                                     \
        T x, p0 = (T)p->f[0], p1 = (T)p->f[1], p2 = (T)p->f[2], z;                                        \
        switch (id) {                                                                                     \
        case FX_OP_gelu:                                                                                  \
            if (p->given[0]) {                                                                            \
                EACH((T)(0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * (double)x * x))))); \
            }                                                                                             \
            EACH((T)(x * 0.5 * (1 + erf(x * 0.70710678118654752440))));                                   \
        case FX_OP_hardtanh: case FX_OP_clamp:                                                            \
            if (p->given[0] && p->given[1]) {                                                             \
                EACH((z = MAX_NAN(x, p0), MIN_NAN(z, p1)));                                               \
            } else if (p->given[0]) {                                                                     \
                EACH(MAX_NAN(x, p0));                                                                     \
            }                                                                                             \
            EACH(MIN_NAN(x, p1));                                                                         \
        case FX_OP_clamp_min: EACH(MAX_NAN(x, p0));                                                       \
        case FX_OP_clamp_max: EACH(MIN_NAN(x, p0));                                                       \
        case FX_OP_leaky_relu: EACH(x > 0 ? x : x * p0);                                                  \
        case FX_OP_elu: EACH(x < 0 ? (T)expm1((double)(x * p2)) * (p0 * p1) : x * p1);                    \
        case FX_OP_softplus: EACH((z = x * p0) > p1 ? x : (T)(log1p(exp((double)z)) / (double)p0));       \
        case FX_OP_selu: case FX_OP_celu: EACH(x < 0 ? (T)expm1((double)(x * p2)) * (p0 * p1) : x * p1);  \
        case FX_OP_hardshrink: EACH(x >= -p0 && x <= p0 ? 0 : x);                                         \
        case FX_OP_softshrink: EACH(x > p0 ? x - p0 : x < -p0 ? x + p0 : x * 0);                          \
        case FX_OP_threshold: EACH(x <= p0 ? p1 : x);                                                     \
        case FX_OP_logit:                                                                                 \
            if (p->given[0]) {                                                                            \
                EACH((z = x < p0 ? p0 : x > 1 - p0 ? 1 - p0 : x, (T)log((double)(z / (1 - z)))));         \
            }                                                                                             \
            EACH((T)log((double)(x / (1 - x))));                                                          \
        case FX_OP_nan_to_num: EACH(x != x ? p0 : x == INFINITY ? p1 : x == -INFINITY ? p2 : x);          \
        default: return false;                                                                            \
        }                                                                                                 \
    }
UNARY_ARGS(unary_args_f32, float)
UNARY_ARGS(unary_args_f64, double)

static bool unary_args_int(fx_opid id, int64_t n, const int64_t *a, int64_t *r, const numbers *p)
{
    int64_t x, z;
    int64_t lo = id == FX_OP_clamp_max || !p->given[0] ? INT64_MIN : p->i[0];
    int64_t hi = id == FX_OP_clamp_max ? p->i[0] : id == FX_OP_clamp_min || !p->given[1] ? INT64_MAX : p->i[1];
    switch (id) {
    case FX_OP_threshold: EACH(x <= p->i[0] ? p->i[1] : x);
    case FX_OP_nan_to_num: EACH(x);
    case FX_OP_hardtanh: case FX_OP_clamp: case FX_OP_clamp_min: case FX_OP_clamp_max:
        EACH((z = x < lo ? lo : x, z > hi ? hi : z));
    default:
        return false;
    }
}

/* Numbers that are not among the arguments. */
static void implied_numbers(fx_opid id, fx_dtype dtype, numbers *p)
{
    switch (id) {
    case FX_OP_selu: /* elu's alpha, scale, input scale */
        *p = (numbers){.f = {1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1}};
        break;
    case FX_OP_celu:
        p->f[1] = 1;
        p->f[2] = 1 / p->f[0];
        break;
    case FX_OP_nan_to_num: {
        double most = dtype == FX_F64 ? DBL_MAX : dtype == FX_F16 ? 65504 : dtype == FX_BF16 ? 0x1.fep127 : FLT_MAX;
        p->f[1] = p->given[1] ? p->f[1] : most;
        p->f[2] = p->given[2] ? p->f[2] : -most;
        break;
    }
    default:
        break;
    }
}

fx_status eval_unary_args(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_opid id = c->node->op->id;
    if (id == FX_OP_relu6)
        return eval_unary(c);
    numbers p = {0};
    int n_params = fx_op_schema(c->ctx, c->node->op)->n;
    if (id == FX_OP_gelu) {
        const fx_arg *mode = fx_node_arg(c->node, 1);
        p.given[0] = mode->kind == FX_ARG_STR && !strcmp(mode->s, "tanh");
        if (!p.given[0] && !(mode->kind == FX_ARG_STR && !strcmp(mode->s, "none")))
            return fx_eval_fail(c, FX_ERR_TYPE, "argument 'approximate': expected 'none' or 'tanh'");
    }
    for (int k = 1; id != FX_OP_gelu && k < n_params && k < 4; k++) {
        fx_arg_kind kind;
        if (fx_node_is_none(c->node, k))
            continue;
        FX_TRY(fx_eval_number(c, k, &kind, &p.f[k - 1], &p.i[k - 1]));
        p.given[k - 1] = true;
    }
    fx_kind kind = fx_kind_of(fx_eval_type(c, 0)->dtype);
    implied_numbers(id, x->dtype, &p);
    const void *a;
    int64_t n = fx_tensor_numel(x);
    FX_TRY(fx_eval_array(c, x, kind, 0, NULL, &a));
    void *r = fx_eval_target(c, 0, kind);
    bool ok = kind == FX_KIND_F32   ? unary_args_f32(id, n, a, r, &p)
              : kind == FX_KIND_F64 ? unary_args_f64(id, n, a, r, &p)
                                    : unary_args_int(id, n, a, r, &p);
    if (!ok)
        return no_kind(c, x->dtype);
    fx_eval_finish(c, 0, kind, r);
    return FX_OK;
}

/* ---- two operands ------------------------------------------------------------------------------------------------------- */

typedef struct operand {
    const void *p;
    int64_t step; /* 0: one element for all */
} operand;

typedef struct binary_args {
    int64_t n;
    operand a, b;
    void *r;
    double alpha;                /* what the second (of rsub: the first) is multiplied by before they are added */
    int64_t ialpha;
    enum { ROUND_NONE, ROUND_TRUNC, ROUND_FLOOR } mode;
    int bits; /* of the result's integers */
} binary_args;

#define EACH2(expr)                                            \
    for (int64_t i = 0; i < v->n; i++) {                       \
        x = a[i * v->a.step];                                  \
        y = b[i * v->b.step];                                  \
        r[i] = (expr);                                         \
    }                                                          \
    return true

/* ATen's div_floor_floating: the quotient rounded down, made consistent with the remainder. */
static double floor_quotient(double x, double y, bool single)
{
    if (y == 0)
        return x / y;
    double mod = fmod(x, y), div = single ? (float)((float)(x - mod) / (float)y) : (x - mod) / y;
    if (mod != 0 && (y < 0) != (mod < 0))
        div -= 1;
    if (div == 0)
        return copysign(0, x / y);
    double whole = floor(div);
    return div - whole > 0.5 ? whole + 1 : whole;
}

static double float_remainder(double x, double y)
{
    double mod = fmod(x, y);
    return mod != 0 && (y < 0) != (mod < 0) ? mod + y : mod;
}

/* Constant exponents that eager computes by products and roots. */
#define POW_SCALAR(NAME, T)                                      \
    static T NAME(T x, T e)                                      \
    {                                                            \
        if (e == 2)                                              \
            return x * x;                                        \
        if (e == 3)                                              \
            return x * x * x;                                    \
        if (e == -1)                                             \
            return 1 / x;                                        \
        if (e == -2)                                             \
            return 1 / (x * x);                                  \
        if (e == (T)0.5)                                         \
            return (T)sqrt((double)x);                           \
        if (e == (T)-0.5)                                        \
            return 1 / (T)sqrt((double)x);                       \
        return (T)pow((double)x, (double)e);                     \
    }
POW_SCALAR(pow_scalar_f32, float)
POW_SCALAR(pow_scalar_f64, double)

#define BINARY_FLOATS(NAME, T, SINGLE, POW)                                                                    \
    static bool NAME(fx_opid id, const binary_args *v)                                                    \
    {                                                                                                     \
        const T *a = v->a.p, *b = v->b.p;                                                                 \
        T *r = v->r, x, y, alpha = (T)v->alpha;                                                           \
        switch (id) {                                                                                     \
        case FX_OP_add_Tensor: case FX_OP_add_Scalar:                                                     \
            if (alpha == 1) {                                                                             \
                EACH2(x + y);                                                                             \
            }                                                                                             \
            EACH2(x + alpha * y);                                                                         \
        case FX_OP_sub_Tensor: case FX_OP_sub_Scalar:                                                     \
            if (alpha == -1) {                                                                            \
                EACH2(x - y);                                                                             \
            }                                                                                             \
            EACH2(x + alpha * y);                                                                         \
        case FX_OP_rsub_Tensor: case FX_OP_rsub_Scalar: EACH2(y + alpha * x);                             \
        case FX_OP_mul_Tensor: case FX_OP_mul_Scalar: EACH2(x *y);                                        \
        case FX_OP_div_Tensor: case FX_OP_div_Scalar: case FX_OP_div_Tensor_mode: case FX_OP_div_Scalar_mode: \
            if (v->mode == ROUND_TRUNC) {                                                                 \
                EACH2((T)trunc((double)(T)(x / y)));                                                      \
            } else if (v->mode == ROUND_FLOOR) {                                                          \
                EACH2((T)floor_quotient((double)x, (double)y, SINGLE));                                   \
            }                                                                                             \
            EACH2(x / y);                                                                                 \
        case FX_OP_maximum: case FX_OP_clamp_min_Tensor: EACH2(MAX_NAN(x, y));                            \
        case FX_OP_minimum: case FX_OP_clamp_max_Tensor: EACH2(MIN_NAN(x, y));                            \
        case FX_OP_fmax: EACH2(x != x ? y : y != y ? x : MAX_NAN(x, y));                                  \
        case FX_OP_fmin: EACH2(x != x ? y : y != y ? x : MIN_NAN(x, y));                                  \
        case FX_OP_atan2: EACH2((T)atan2((double)x, (double)y));                                          \
        case FX_OP_hypot: EACH2((T)hypot((double)x, (double)y));                                          \
        case FX_OP_copysign_Tensor: case FX_OP_copysign_Scalar: EACH2((T)copysign((double)x, (double)y)); \
        case FX_OP_xlogy_Tensor: EACH2(y != y ? y : x == 0 ? 0 : x * (T)log((double)y));                  \
        case FX_OP_floor_divide: case FX_OP_floor_divide_Scalar:                                          \
            EACH2((T)floor_quotient((double)x, (double)y, SINGLE));                                       \
        case FX_OP_fmod_Tensor: case FX_OP_fmod_Scalar: EACH2((T)fmod((double)x, (double)y));             \
        case FX_OP_remainder_Tensor: case FX_OP_remainder_Scalar: EACH2((T)float_remainder((double)x, (double)y)); \
        case FX_OP_pow_Tensor_Scalar: EACH2(POW(x, y));                                                   \
        case FX_OP_pow_Tensor_Tensor: case FX_OP_pow_Scalar: EACH2((T)pow((double)x, (double)y));         \
        case FX_OP__prelu_kernel: case FX_OP_prelu: EACH2(x > 0 ? x : y * x);                             \
        default: return false;                                                                            \
        }                                                                                                 \
    }
BINARY_FLOATS(binary_f32, float, true, pow_scalar_f32)
BINARY_FLOATS(binary_f64, double, false, pow_scalar_f64)

static int64_t int_pow(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t r = 1, b = (uint64_t)x;
    for (; y; y >>= 1, b *= b)
        if (y & 1)
            r *= b;
    return (int64_t)r;
}

/* y is not 0. The one overflow, of the least int64 by -1, wraps. */
static int64_t int_div(int64_t x, int64_t y, bool down)
{
    if (y == -1)
        return wrap_neg(x);
    int64_t q = x / y;
    return down && x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

static int64_t int_mod(int64_t x, int64_t y, bool down)
{
    int64_t m = y == -1 ? 0 : x % y;
    return down && m != 0 && (m < 0) != (y < 0) ? m + y : m;
}

static bool binary_int(fx_opid id, const binary_args *v)
{
    const int64_t *a = v->a.p, *b = v->b.p;
    int64_t *r = v->r, x, y;
    switch (id) {
    case FX_OP_add_Tensor: case FX_OP_add_Scalar: EACH2((int64_t)((uint64_t)x + (uint64_t)wrap_mul(v->ialpha, y)));
    case FX_OP_sub_Tensor: case FX_OP_sub_Scalar: EACH2((int64_t)((uint64_t)x - (uint64_t)wrap_mul(v->ialpha, y)));
    case FX_OP_rsub_Tensor: case FX_OP_rsub_Scalar: EACH2((int64_t)((uint64_t)y - (uint64_t)wrap_mul(v->ialpha, x)));
    case FX_OP_mul_Tensor: case FX_OP_mul_Scalar: EACH2(wrap_mul(x, y));
    case FX_OP_div_Tensor_mode: case FX_OP_div_Scalar_mode: EACH2(int_div(x, y, v->mode == ROUND_FLOOR));
    case FX_OP_floor_divide: case FX_OP_floor_divide_Scalar: EACH2(int_div(x, y, true));
    case FX_OP_maximum: case FX_OP_fmax: case FX_OP_clamp_min_Tensor: EACH2(x > y ? x : y);
    case FX_OP_minimum: case FX_OP_fmin: case FX_OP_clamp_max_Tensor: EACH2(x < y ? x : y);
    case FX_OP_fmod_Tensor: case FX_OP_fmod_Scalar: EACH2(int_mod(x, y, false));
    case FX_OP_remainder_Tensor: case FX_OP_remainder_Scalar: EACH2(int_mod(x, y, true));
    case FX_OP_pow_Tensor_Scalar: case FX_OP_pow_Tensor_Tensor: case FX_OP_pow_Scalar: EACH2(int_pow(x, y));
    case FX_OP_bitwise_and_Tensor: case FX_OP_bitwise_and_Scalar: EACH2(x & y);
    case FX_OP_bitwise_or_Tensor: case FX_OP_bitwise_or_Scalar: EACH2(x | y);
    case FX_OP_bitwise_xor_Tensor: case FX_OP_bitwise_xor_Scalar: EACH2(x ^ y);
    case FX_OP_bitwise_left_shift_Tensor: case FX_OP_bitwise_left_shift_Tensor_Scalar:
        EACH2(y < 0 || y >= v->bits ? 0 : (int64_t)((uint64_t)x << y));
    case FX_OP_bitwise_right_shift_Tensor: case FX_OP_bitwise_right_shift_Tensor_Scalar:
        EACH2(x >> (y < 0 || y >= v->bits ? (v->bits == 64 ? 63 : v->bits) : y));
    default: return false;
    }
}

#define COMPARE(NAME, T)                                                                                  \
    static bool NAME(fx_opid id, const binary_args *v)                                                    \
    {                                                                                                     \
        const T *a = v->a.p, *b = v->b.p;                                                                 \
        T x, y;                                                                                           \
        int64_t *r = v->r;                                                                                \
        switch (id) {                                                                                     \
        case FX_OP_eq_Tensor: case FX_OP_eq_Scalar: EACH2(x == y);                                        \
        case FX_OP_ne_Tensor: case FX_OP_ne_Scalar: EACH2(x != y);                                        \
        case FX_OP_lt_Tensor: case FX_OP_lt_Scalar: EACH2(x < y);                                         \
        case FX_OP_le_Tensor: case FX_OP_le_Scalar: EACH2(x <= y);                                        \
        case FX_OP_gt_Tensor: case FX_OP_gt_Scalar: EACH2(x > y);                                         \
        case FX_OP_ge_Tensor: case FX_OP_ge_Scalar: EACH2(x >= y);                                        \
        case FX_OP_logical_and: EACH2(x != 0 && y != 0);                                                  \
        case FX_OP_logical_or: EACH2(x != 0 || y != 0);                                                   \
        case FX_OP_logical_xor: EACH2((x != 0) != (y != 0));                                              \
        default: return false;                                                                            \
        }                                                                                                 \
    }
COMPARE(compare_f32, float)
COMPARE(compare_f64, double)
COMPARE(compare_int, int64_t)

/* Whether a parameter is a number: a constant, or the value of a node that yields one. */
static bool is_number(const fx_eval *c, int param)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    if (a->kind != FX_ARG_NODE)
        return true;
    const fx_type *t = c->node->operands[a->i].def->type;
    return t && (t->kind == FX_TYPE_INT || t->kind == FX_TYPE_FLOAT || t->kind == FX_TYPE_BOOL);
}

static fx_status promote(const fx_eval *c, int param, fx_promote *p)
{
    const fx_tensor *t = fx_eval_input(c, param);
    if (!is_number(c, param)) {
        fx_promote_tensor(p, t->dtype, t->rank);
        return FX_OK;
    }
    fx_arg_kind kind;
    double f;
    int64_t i;
    FX_TRY(fx_eval_number(c, param, &kind, &f, &i));
    fx_promote_number(p, kind);
    return FX_OK;
}

/* Operators that round a number to a half-wide dtype before they compute; the others take it as it is. */
static bool rounds_numbers(fx_opid id)
{
    switch (id) {
    case FX_OP_add_Tensor: case FX_OP_add_Scalar: case FX_OP_sub_Tensor: case FX_OP_sub_Scalar: case FX_OP_rsub_Tensor: case FX_OP_rsub_Scalar:
    case FX_OP_pow_Tensor_Scalar: case FX_OP_pow_Scalar: case FX_OP_fmod_Tensor: case FX_OP_fmod_Scalar: case FX_OP_remainder_Tensor: case FX_OP_remainder_Scalar:
        return true;
    default:
        return false;
    }
}

static double round_number(fx_dtype dtype, double f)
{
    return dtype == FX_F16    ? fx_half_to_float(fx_float_to_half((float)f))
           : dtype == FX_BF16 ? fx_bf16_to_float(fx_float_to_bf16((float)f))
                              : f;
}

/* An operand of an elementwise operator in `kind`. rounded: numbers are first rounded to dtype, as in comparisons. */
static fx_status get_operand(fx_eval *c, int param, fx_kind kind, fx_dtype common, fx_dtype rounded, int rank, const int64_t *sizes, operand *o)
{
    const fx_tensor *t = fx_eval_input(c, param);
    o->step = 1;
    if (t && !is_number(c, param)) {
        /* Operands become half-wide floats where those are computed with, but for one element that is the second factor, or the divisor. */
        fx_opid id = c->node->op->id;
        bool kept = (id == FX_OP_mul_Tensor || id == FX_OP_div_Tensor) && param == 1 && fx_tensor_numel(t) == 1;
        bool half = (common == FX_F16 || common == FX_BF16) && t->dtype != common && !kept;
        /* a wider integer (of rank 0) is of the other's dtype */
        bool narrow = kind == FX_KIND_INT && fx_dtype_is_int(common) && fx_dtype_is_int(t->dtype) && fx_dtype_size(t->dtype) > fx_dtype_size(common);
        fx_tensor converted = half || narrow ? fx_eval_converted(c, t, common) : *t;
        if (t->rank == 0) {
            o->step = 0;
            return fx_eval_array(c, &converted, kind, 0, NULL, &o->p);
        }
        return fx_eval_array(c, &converted, kind, rank, sizes, &o->p);
    }
    fx_arg_kind number;
    double f;
    int64_t i;
    FX_TRY(fx_eval_number(c, param, &number, &f, &i));
    void *p = fx_eval_scratch(c, 1, 8);
    if (kind == FX_KIND_INT && fx_dtype_is_int(rounded)) { /* a number is converted to the tensor's dtype */
        int64_t wrapped;
        if (rounded == FX_BOOL && number == FX_ARG_FLOAT)
            i = f != 0;
        fx_row_store(rounded, &wrapped, 1, FX_KIND_INT, &i, 1);
        fx_row_load(FX_KIND_INT, p, rounded, &wrapped, 1, 1);
    } else if (kind == FX_KIND_INT)
        *(int64_t *)p = i;
    else if (kind == FX_KIND_F64)
        *(double *)p = f;
    else
        *(float *)p = (float)round_number(rounded, f);
    o->p = p;
    o->step = 0;
    return FX_OK;
}

static fx_status check_divisor(const fx_eval *c, const binary_args *v)
{
    const int64_t *b = v->b.p;
    switch (c->node->op->id) {
    case FX_OP_div_Tensor_mode: case FX_OP_div_Scalar_mode: case FX_OP_fmod_Tensor: case FX_OP_fmod_Scalar:
    case FX_OP_remainder_Tensor: case FX_OP_remainder_Scalar: case FX_OP_floor_divide: case FX_OP_floor_divide_Scalar:
        for (int64_t i = 0; i < (v->b.step ? v->n : v->n > 0); i++)
            if (b[i] == 0)
                return fx_eval_fail(c, FX_ERR_ARGUMENT, "integer division by zero");
        return FX_OK;
    default:
        return FX_OK;
    }
}

/* What only some of the rows have: alpha, rounding mode. */
static fx_status read_extras(const fx_eval *c, binary_args *v)
{
    fx_arg_kind kind;
    bool is_sum = c->node->op->id == FX_OP_add_Tensor || c->node->op->id == FX_OP_add_Scalar;
    v->alpha = 1;
    v->ialpha = 1;
    switch (c->node->op->id) {
    case FX_OP_add_Tensor: case FX_OP_add_Scalar: case FX_OP_sub_Tensor: case FX_OP_sub_Scalar: case FX_OP_rsub_Tensor:
    case FX_OP_rsub_Scalar:
        FX_TRY(fx_eval_number(c, 2, &kind, &v->alpha, &v->ialpha));
        v->alpha = round_number(fx_eval_type(c, 0)->dtype, v->alpha);
        if (!is_sum) /* eager adds -alpha * y: for the integer 0 that is 0 * y */
            v->alpha = kind == FX_ARG_INT && v->ialpha == 0 ? 0 : -v->alpha;
        if (fx_eval_type(c, 0)->dtype == FX_BOOL) /* x or (alpha and y) */
            v->ialpha = v->ialpha != 0;
        return FX_OK;
    case FX_OP_div_Tensor_mode: case FX_OP_div_Scalar_mode: {
        const fx_arg *mode = fx_node_arg(c->node, 2);
        if (mode->kind == FX_ARG_NONE)
            return FX_OK;
        if (mode->kind != FX_ARG_STR || (strcmp(mode->s, "trunc") && strcmp(mode->s, "floor")))
            return fx_eval_fail(c, FX_ERR_TYPE, "argument 'rounding_mode': expected None, 'trunc' or 'floor'");
        v->mode = mode->s[0] == 't' ? ROUND_TRUNC : ROUND_FLOOR;
        return FX_OK;
    }
    default:
        return FX_OK;
    }
}

/* second: what to read as the second operand instead of parameter 1. */
static fx_status binary(fx_eval *c, const fx_tensor *second)
{
    fx_opid id = c->node->op->id;
    fx_promote p = fx_promote_begin();
    binary_args v = {0};
    FX_TRY(promote(c, 0, &p));
    FX_TRY(promote(c, 1, &p));
    FX_TRY(read_extras(c, &v));
    bool test = c->node->op->infer == infer_to_bool, ok;
    const fx_tensor *out = fx_eval_out(c, 0);
    fx_dtype common = test ? fx_promote_end(&p) : out->dtype;
    fx_kind kind = fx_kind_of(common), rkind = test ? FX_KIND_INT : kind;
    if (fx_dtype_is_complex(common))
        return no_kind(c, common);
    v.n = fx_tensor_numel(out);
    v.bits = (int)fx_dtype_size(out->dtype) * 8;
    fx_dtype numbers = test || kind == FX_KIND_INT || rounds_numbers(id) ? common : FX_F32; /* what numbers are rounded or wrapped to */
    FX_TRY(get_operand(c, 0, kind, common, numbers, out->rank, out->sizes, &v.a));
    if (second) {
        v.b.step = 1;
        FX_TRY(fx_eval_array(c, second, kind, out->rank, out->sizes, &v.b.p));
    } else {
        FX_TRY(get_operand(c, 1, kind, common, numbers, out->rank, out->sizes, &v.b));
    }
    v.r = fx_kind_size(rkind) == fx_dtype_size(out->dtype) && fx_kind_of(out->dtype) == rkind
              ? out->data
              : fx_eval_scratch(c, v.n, fx_kind_size(rkind));
    if (test)
        ok = kind == FX_KIND_F32 ? compare_f32(id, &v) : kind == FX_KIND_F64 ? compare_f64(id, &v) : compare_int(id, &v);
    else if (kind == FX_KIND_INT) {
        FX_TRY(check_divisor(c, &v));
        ok = binary_int(id, &v);
    } else {
        ok = kind == FX_KIND_F32 ? binary_f32(id, &v) : binary_f64(id, &v);
    }
    if (!ok)
        return no_kind(c, common);
    fx_eval_finish(c, 0, rkind, v.r);
    return FX_OK;
}

fx_status eval_binary(fx_eval *c)
{
    return binary(c, NULL);
}

/* The weight of channel dim 1 is seen as [1, C, 1, ...]. */
fx_status eval_prelu(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0), *w = fx_eval_input(c, 1);
    fx_tensor seen = *w;
    if (w->rank == 1 && x->rank >= 2) {
        seen.rank = x->rank - 1;
        for (int d = 1; d < seen.rank; d++) {
            seen.sizes[d] = 1;
            seen.strides[d] = 1;
        }
    } else if (w->rank == 1) {
        seen.rank = 0;
    }
    return binary(c, &seen);
}

/* ---- three operands ----------------------------------------------------------------------------------------------------- */

#define EACH3(expr)                                            \
    for (int64_t i = 0; i < n; i++) {                          \
        x = a[i * o[0].step];                                  \
        y = b[i * o[1].step];                                  \
        z = d[i * o[2].step];                                  \
        r[i] = (expr);                                         \
    }                                                          \
    return true

/* limits: which of clamp's are given. */
#define TERNARY(NAME, T)                                                                                  \
    static bool NAME(fx_opid id, int64_t n, const operand *o, const bool *given, double value, T *r)      \
    {                                                                                                     \
        const T *a = o[0].p, *b = o[1].p, *d = o[2].p;                                                    \
        T x, y, z, by = (T)value;                                                                         \
        switch (id) {                                                                                     \
        case FX_OP_clamp_Tensor:                                                                          \
            EACH3((x = given[1] ? MAX_NAN(x, y) : x, given[2] ? MIN_NAN(x, z) : x));                      \
        case FX_OP_lerp_Scalar: case FX_OP_lerp_Tensor:                                                   \
            EACH3((z < 0 ? -z : z) < (T)0.5 ? x + z * (y - x) : y - (y - x) * (1 - z));                   \
        case FX_OP_addcmul: EACH3(x + by * y * z);                                                        \
        case FX_OP_addcdiv: EACH3(x + by * y / z);                                                        \
        default: return false;                                                                            \
        }                                                                                                 \
    }
TERNARY(ternary_f32, float)
TERNARY(ternary_f64, double)

static bool ternary_int(fx_opid id, int64_t n, const operand *o, const bool *given, int64_t by, int64_t *r)
{
    const int64_t *a = o[0].p, *b = o[1].p, *d = o[2].p;
    int64_t x, y, z;
    switch (id) {
    case FX_OP_clamp_Tensor:
        EACH3((x = given[1] && x < y ? y : x, given[2] && x > z ? z : x));
    case FX_OP_addcmul:
        EACH3((int64_t)((uint64_t)x + (uint64_t)wrap_mul(wrap_mul(by, y), z)));
    default:
        return false;
    }
}

fx_status eval_ternary(fx_eval *c)
{
    const fx_tensor *out = fx_eval_out(c, 0);
    fx_opid id = c->node->op->id;
    fx_kind kind = fx_kind_of(out->dtype);
    operand o[3];
    bool given[3];
    fx_arg_kind number;
    double f = 1;
    int64_t by = 1, n = fx_tensor_numel(out);
    for (int i = 0; i < 3; i++) {
        given[i] = !fx_node_is_none(c->node, i);
        o[i] = (operand){fx_eval_scratch(c, 1, 8), 0};
        if (given[i])
            FX_TRY(get_operand(c, i, kind, out->dtype, FX_F32, out->rank, out->sizes, &o[i]));
    }
    if (id == FX_OP_addcmul || id == FX_OP_addcdiv)
        FX_TRY(fx_eval_number(c, 3, &number, &f, &by));
    void *r = fx_eval_scratch(c, n, fx_kind_size(kind));
    bool ok = kind == FX_KIND_F32   ? ternary_f32(id, n, o, given, f, r)
              : kind == FX_KIND_F64 ? ternary_f64(id, n, o, given, f, r)
                                    : ternary_int(id, n, o, given, by, r);
    if (!ok)
        return no_kind(c, out->dtype);
    fx_eval_finish(c, 0, kind, r);
    return FX_OK;
}

/* ---- selection -------------------------------------------------------------------------------------------------------- */

static fx_status select_elements(fx_eval *c, const fx_tensor *cond, operand a, operand b, fx_kind kind)
{
    const fx_tensor *out = &c->out[0];
    const void *p;
    int64_t n = fx_tensor_numel(out);
    FX_TRY(fx_eval_array(c, cond, FX_KIND_INT, out->rank, out->sizes, &p));
    const int64_t *mask = p;
    size_t size = fx_kind_size(kind);
    char *r = fx_eval_scratch(c, n, size);
    for (int64_t i = 0; i < n; i++) {
        const operand *o = mask[i] ? &a : &b;
        memcpy(r + (size_t)i * size, (const char *)o->p + (size_t)(i * o->step) * size, size);
    }
    fx_eval_finish(c, 0, kind, r);
    return FX_OK;
}

fx_status eval_where(fx_eval *c)
{
    const fx_tensor *out = fx_eval_out(c, 0);
    fx_kind kind = fx_kind_of(out->dtype);
    operand a, b;
    FX_TRY(get_operand(c, 1, kind, out->dtype, FX_F32, out->rank, out->sizes, &a));
    FX_TRY(get_operand(c, 2, kind, out->dtype, FX_F32, out->rank, out->sizes, &b));
    return select_elements(c, fx_eval_input(c, 0), a, b, kind);
}

fx_status eval_masked_fill(fx_eval *c)
{
    const fx_tensor *out = fx_eval_out(c, 0);
    fx_kind kind = fx_kind_of(out->dtype);
    operand x, value;
    FX_TRY(get_operand(c, 0, kind, out->dtype, FX_F32, out->rank, out->sizes, &x));
    const fx_tensor *given = fx_eval_input(c, 2);
    if (given) {
        fx_tensor converted = fx_eval_converted(c, given, out->dtype);
        value.step = 1;
        FX_TRY(fx_eval_array(c, &converted, kind, out->rank, out->sizes, &value.p));
    } else {
        FX_TRY(get_operand(c, 2, kind, out->dtype, out->dtype, out->rank, out->sizes, &value));
    }
    return select_elements(c, fx_eval_input(c, 1), value, x, kind);
}

/* ---- quantised values: as torch.ao's decomposed functions compute them, in float -------------------------------------------- */

fx_status eval_quantize(fx_eval *c)
{
    const float *x;
    FX_TRY(fx_eval_floats(c, fx_eval_input(c, 0), &x));
    int64_t n = fx_tensor_numel(fx_eval_out(c, 0));
    float *r = fx_eval_scratch(c, n, sizeof *r), inverse = (float)(1 / fx_node_float(c->node, 1));
    float zero = (float)fx_node_int(c->node, 2), min = (float)fx_node_int(c->node, 3), max = (float)fx_node_int(c->node, 4);
    for (int64_t i = 0; i < n; i++) {
        float v = rintf(x[i] * inverse) + zero;
        r[i] = v < min ? min : v > max ? max : v;
    }
    fx_eval_finish(c, 0, FX_KIND_F32, r);
    return FX_OK;
}

fx_status eval_dequantize(fx_eval *c)
{
    const float *q;
    FX_TRY(fx_eval_floats(c, fx_eval_input(c, 0), &q));
    int64_t n = fx_tensor_numel(fx_eval_out(c, 0));
    float *r = fx_eval_scratch(c, n, sizeof *r), scale = (float)fx_node_float(c->node, 1), zero = (float)fx_node_int(c->node, 2);
    for (int64_t i = 0; i < n; i++)
        r[i] = (q[i] - zero) * scale;
    fx_eval_finish(c, 0, FX_KIND_F32, r);
    return FX_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------------ */

static fx_status alias(fx_eval *c, const fx_tensor *x)
{
    c->out[0] = *x;
    c->n_out = 1;
    return FX_OK;
}

/* Where eager returns the tensor itself, so do we: in-place writes must be seen through it. */
fx_status eval_copy(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_opid id = c->node->op->id;
    if (id == FX_OP_contiguous && fx_tensor_is_contiguous(x))
        return alias(c, x);
    fx_tensor_assign(fx_eval_out(c, 0), x);
    return FX_OK;
}

/* In evaluation mode, or where nothing is dropped, the tensor itself; else it needs random numbers. */
fx_status eval_dropout(fx_eval *c)
{
    if (fx_node_bool(c->node, 2) && fx_node_float(c->node, 1) != 0)
        return eval_random(c);
    return alias(c, fx_eval_input(c, 0));
}

fx_status eval_cast(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    if (c->node->op->id != FX_OP__to_copy && fx_eval_type(c, 0)->dtype == x->dtype) {
        int copy = fx_node_param(c->node, "copy");
        if (copy < 0 || !fx_node_bool(c->node, copy))
            return alias(c, x);
    }
    if (fx_dtype_is_complex(x->dtype))
        return no_kind(c, x->dtype);
    fx_tensor_assign(fx_eval_out(c, 0), x);
    return FX_OK;
}

/* The first half of a dim times sigmoid of the second. */
fx_status eval_glu(fx_eval *c)
{
    fx_tensor half[2] = {*fx_eval_input(c, 0), *fx_eval_input(c, 0)};
    int64_t dim = fx_node_int(c->node, 1);
    int axis = (int)(dim < 0 ? dim + half[0].rank : dim);
    fx_kind kind = fx_kind_of(half[0].dtype);
    const void *p[2];
    for (int i = 0; i < 2; i++) {
        half[i].sizes[axis] /= 2;
        half[i].data = (char *)half[i].data + i * half[i].sizes[axis] * half[i].strides[axis] * (int64_t)fx_dtype_size(half[i].dtype);
        FX_TRY(fx_eval_array(c, &half[i], kind, 0, NULL, &p[i]));
    }
    void *r = fx_eval_target(c, 0, kind);
    for (int64_t i = 0, n = fx_tensor_numel(&half[0]); i < n; i++)
        if (kind == FX_KIND_F64)
            ((double *)r)[i] = ((const double *)p[0])[i] * (1 / (1 + exp(-((const double *)p[1])[i])));
        else
            ((float *)r)[i] = ((const float *)p[0])[i] * (float)(1 / (1 + exp(-(double)((const float *)p[1])[i])));
    fx_eval_finish(c, 0, kind, r);
    return FX_OK;
}

fx_status eval_copy_from(fx_eval *c)
{
    const fx_tensor *src = fx_eval_input(c, 1);
    const fx_tensor *out = fx_eval_out(c, 0);
    bool ok = src && src->rank <= out->rank && !fx_dtype_is_complex(src->dtype);
    for (int i = 0; ok && i < src->rank; i++)
        ok = src->sizes[i] == 1 || src->sizes[i] == out->sizes[out->rank - src->rank + i];
    if (!ok)
        return fx_eval_fail(c, FX_ERR_TYPE, "argument 'src' does not broadcast to 'self'");
    fx_tensor_assign(out, src);
    return FX_OK;
}
