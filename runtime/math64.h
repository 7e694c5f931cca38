/* math64.h: functions of doubles that C's library lacks.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
static inline double fxrt_max_f64(double a, double b) { return ((a > b) | (a != a)) ? a : b; }
static inline double fxrt_min_f64(double a, double b) { return ((a < b) | (a != a)) ? a : b; }

/* torch.floor_divide: the quotient of a - a mod b, which is whole but for rounding. */
static inline double fxrt_floor_div_f64(double a, double b)
{
    const double m = fmod(a, b);
    double q = (a - m) / b, f;
    if (b == 0)
        return a / b;
    if (m != 0 && (b < 0) != (m < 0))
        q -= 1;
    f = floor(q);
    return q != 0 ? (q - f > 0.5 ? f + 1 : f) : copysign(0, a / b);
}

static inline double fxrt_remainder_f64(double a, double b)
{
    const double m = fmod(a, b);
    return ((m != 0) & ((m < 0) != (b < 0))) ? m + b : m;
}
static inline double fxrt_sign_f64(double x) { return (x > 0) - (x < 0); }
static inline double fxrt_relu_f64(double x) { return x < 0 ? 0 : x; }
static inline double fxrt_clamp_f64(double x, double lo, double hi)
{
    const double y = x < lo ? lo : x;
    return y > hi ? hi : y;
}
static inline double fxrt_leaky_relu_f64(double x, double a) { return x > 0 ? x : a * x; }
static inline double fxrt_elu_f64(double x, double a, double b) { return x > 0 ? b * x : b * a * expm1(x); }
static inline double fxrt_sigmoid_f64(double x) { return 1 / (1 + exp(-x)); }
static inline double fxrt_silu_f64(double x) { return x / (1 + exp(-x)); }
static inline double fxrt_hardsigmoid_f64(double x) { return fxrt_clamp_f64(x + 3, 0, 6) / 6; }
static inline double fxrt_hardswish_f64(double x) { return x * fxrt_clamp_f64(x + 3, 0, 6) / 6; }
static inline double fxrt_gelu_f64(double x) { return x * 0.5 * (1 + erf(x * 0.70710678118654752440)); }
static inline double fxrt_gelu_tanh_f64(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * (x * x * x))));
}
static inline double fxrt_softplus_f64(double x, double a, double b) { return a * x > b ? x : log1p(exp(a * x)) / a; }
static inline double fxrt_mish_f64(double x) { return x * tanh(x > 30 ? x : log1p(exp(x))); }
