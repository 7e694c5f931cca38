/* ir/program_scalar.c: the operations of scalar.def, said plainly. Shares no code with runtime/math.h, so that it can judge it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/program_scalar.h"

#include <math.h>

#include "ir/ops.h"

static double round_to(fx_dtype dtype, double v)
{
    switch (dtype) {
    case FX_F32:
        return (float)v;
    case FX_F16:
        return fx_half_to_float(fx_float_to_half((float)v));
    case FX_BF16:
        return fx_bf16_to_float(fx_float_to_bf16((float)v));
    default:
        return v;
    }
}

static int64_t wrap_to(fx_dtype dtype, int64_t v)
{
    switch (dtype) {
    case FX_I8:
        return (int8_t)v;
    case FX_I16:
        return (int16_t)v;
    case FX_I32:
        return (int32_t)v;
    case FX_U8:
        return (uint8_t)v;
    case FX_BOOL:
        return v != 0;
    default:
        return v;
    }
}

fx_scalar fx_scalar_make(fx_dtype dtype, double f, int64_t i)
{
    if (fx_dtype_is_float(dtype))
        return (fx_scalar){.dtype = dtype, .f = round_to(dtype, f)};
    return (fx_scalar){.dtype = dtype, .i = wrap_to(dtype, i)};
}

fx_scalar fx_scalar_cast(fx_scalar v, fx_dtype to)
{
    bool from_float = fx_dtype_is_float(v.dtype);
    if (fx_dtype_is_float(to)) /* an integer is rounded once, to float or to double */
        return fx_scalar_make(to, from_float ? v.f : to == FX_F64 ? (double)v.i : (double)(float)v.i, 0);
    if (to == FX_BOOL)
        return fx_scalar_make(to, 0, from_float ? v.f != 0 : v.i != 0);
    return fx_scalar_make(to, 0, from_float ? fx_float_to_int(v.f, to) : v.i);
}

/* ---- floats: in double, then rounded --------------------------------------------------------------------------------- */

/* As the runtime's fxrt_max and fxrt_min, also for zeros of different sign. */
static double max_nan(double a, double b)
{
    return a != a || a > b ? a : b;
}

static double min_nan(double a, double b)
{
    return a != a || a < b ? a : b;
}

/* torch.remainder: the sign of the divisor. */
static double remainder_of(double a, double b)
{
    double m = fmod(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

/* torch.floor_divide rounds at each step, in float for the half-wide dtypes too. */
static double floor_divide(fx_dtype dtype, double a, double b)
{
    if (b == 0)
        return a / b;
    dtype = dtype == FX_F64 ? FX_F64 : FX_F32;
    double m = fmod(a, b), q = round_to(dtype, round_to(dtype, a - m) / b);
    if (m != 0 && (m < 0) != (b < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, a / b);
    return q - floor(q) > 0.5 ? floor(q) + 1 : floor(q);
}

static double clamp_of(double x, double lo, double hi)
{
    double y = x < lo ? lo : x;
    return y > hi ? hi : y;
}

static double float_op(fx_sop op, fx_dtype dtype, double a, double b, double c)
{
    switch (op) {
    case FX_S_add: return a + b;
    case FX_S_sub: return a - b;
    case FX_S_mul: return a * b;
    case FX_S_div: return a / b;
    case FX_S_floor_div: return floor_divide(dtype, a, b);
    case FX_S_neg: return -a;
    case FX_S_abs: return fabs(a);
    case FX_S_sign: return (a > 0) - (a < 0);
    case FX_S_max: return max_nan(a, b);
    case FX_S_min: return min_nan(a, b);
    case FX_S_fmax: return fmax(a, b);
    case FX_S_fmin: return fmin(a, b);
    case FX_S_fmod: return fmod(a, b);
    case FX_S_remainder: return remainder_of(a, b);
    case FX_S_pow: return pow(a, b);
    case FX_S_atan2: return atan2(a, b);
    case FX_S_hypot: return hypot(a, b);
    case FX_S_copysign: return copysign(a, b);
    case FX_S_sqrt: return sqrt(a);
    case FX_S_exp: return exp(a);
    case FX_S_exp2: return exp2(a);
    case FX_S_expm1: return expm1(a);
    case FX_S_log: return log(a);
    case FX_S_log2: return log2(a);
    case FX_S_log10: return log10(a);
    case FX_S_log1p: return log1p(a);
    case FX_S_sin: return sin(a);
    case FX_S_cos: return cos(a);
    case FX_S_tan: return tan(a);
    case FX_S_asin: return asin(a);
    case FX_S_acos: return acos(a);
    case FX_S_atan: return atan(a);
    case FX_S_sinh: return sinh(a);
    case FX_S_cosh: return cosh(a);
    case FX_S_asinh: return asinh(a);
    case FX_S_acosh: return acosh(a);
    case FX_S_atanh: return atanh(a);
    case FX_S_erf: return erf(a);
    case FX_S_erfc: return erfc(a);
    case FX_S_lgamma: return lgamma(a);
    case FX_S_floor: return floor(a);
    case FX_S_ceil: return ceil(a);
    case FX_S_round: return rint(a);
    case FX_S_trunc: return trunc(a);
    case FX_S_relu: return a < 0 ? 0 : a;
    case FX_S_clamp: return clamp_of(a, b, c);
    case FX_S_leaky_relu: return a > 0 ? a : a * b;
    case FX_S_elu: return a > 0 ? c * a : c * b * expm1(a);
    case FX_S_sigmoid: return 1 / (1 + exp(-a));
    case FX_S_tanh: return tanh(a);
    case FX_S_silu: return a / (1 + exp(-a));
    case FX_S_hardswish: return round_to(dtype, a * clamp_of(round_to(dtype, a + 3), 0, 6)) / 6; /* eager rounds each */
    case FX_S_hardsigmoid: return clamp_of(round_to(dtype, a + 3), 0, 6) / 6;
    case FX_S_gelu: return a * 0.5 * (1 + erf(a * 0.70710678118654752440));
    case FX_S_gelu_tanh: return 0.5 * a * (1 + tanh(0.79788456080286535588 * (a + 0.044715 * (a * a * a))));
    case FX_S_softplus: return a * b > c ? a : log1p(exp(a * b)) / b;
    case FX_S_mish: return a * tanh(a > 30 ? a : log1p(exp(a)));
    default: return NAN;
    }
}

/* ---- integers: in 64 bits, then wrapped ------------------------------------------------------------------------------- */

static int64_t negative(int64_t a)
{
    return (int64_t)-(uint64_t)a;
}

/* Toward zero; by 0: 0. */
static int64_t divide(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? negative(a) : a / b;
}

/* What division leaves, with a's sign, or with b's when `floored`. */
static int64_t rest(int64_t a, int64_t b, bool floored)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t m = a % b;
    return floored && m && (m < 0) != (b < 0) ? m + b : m;
}

/* As torch: negative exponents give 0 but for 1 and -1. */
static int64_t power(int64_t a, int64_t b)
{
    if (b < 0)
        return a == 1 ? 1 : a != -1 ? 0 : b % 2 ? -1 : 1;
    uint64_t p = 1, square = (uint64_t)a;
    for (; b; b /= 2) {
        if (b % 2)
            p *= square;
        square *= square;
    }
    return (int64_t)p;
}

static int64_t int_op(fx_sop op, int64_t a, int64_t b, int64_t c)
{
    switch (op) {
    case FX_S_add: return (int64_t)((uint64_t)a + (uint64_t)b);
    case FX_S_sub: return (int64_t)((uint64_t)a - (uint64_t)b);
    case FX_S_mul: return (int64_t)((uint64_t)a * (uint64_t)b);
    case FX_S_div: return divide(a, b);
    case FX_S_floor_div: return divide(a, b) - (rest(a, b, true) != rest(a, b, false));
    case FX_S_fmod: return rest(a, b, false);
    case FX_S_remainder: return rest(a, b, true);
    case FX_S_pow: return power(a, b);
    case FX_S_neg: return negative(a);
    case FX_S_abs: return a < 0 ? negative(a) : a;
    case FX_S_sign: return a > 0 ? 1 : a < 0 ? -1 : 0;
    case FX_S_max: case FX_S_fmax: return a > b ? a : b;
    case FX_S_min: case FX_S_fmin: return a < b ? a : b;
    case FX_S_relu: return a > 0 ? a : 0;
    case FX_S_clamp: a = a < b ? b : a; return a > c ? c : a;
    case FX_S_and: return a & b;
    case FX_S_or: return a | b;
    case FX_S_xor: return a ^ b;
    case FX_S_not: return ~a;
    case FX_S_shl: return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
    case FX_S_philox: return (int64_t)fx_philox((uint64_t)a, (uint64_t)b, (uint64_t)c);
    case FX_S_shr: return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b;
    default: return 0;
    }
}

static bool compare(fx_sop op, fx_scalar a, fx_scalar b)
{
    bool is_float = fx_dtype_is_float(a.dtype);
#define COMPARE(sign) (is_float ? a.f sign b.f : a.i sign b.i)
    switch (op) {
    case FX_S_eq: return COMPARE(==);
    case FX_S_ne: return COMPARE(!=);
    case FX_S_lt: return COMPARE(<);
    case FX_S_le: return COMPARE(<=);
    case FX_S_gt: return COMPARE(>);
    default: return COMPARE(>=);
    }
#undef COMPARE
}

fx_scalar fx_scalar_op(fx_sop op, fx_dtype dtype, const fx_scalar v[3])
{
    if (op >= FX_S_eq && op <= FX_S_ge)
        return fx_scalar_make(dtype, 0, compare(op, v[0], v[1]));
    if (op == FX_S_select)
        return v[v[0].i ? 1 : 2];
    if (op == FX_S_not && dtype == FX_BOOL)
        return fx_scalar_make(dtype, 0, !v[0].i);
    if (fx_dtype_is_float(dtype))
        return fx_scalar_make(dtype, float_op(op, dtype, v[0].f, v[1].f, v[2].f), 0);
    return fx_scalar_make(dtype, 0, int_op(op, v[0].i, v[1].i, v[2].i));
}
