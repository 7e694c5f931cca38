/* math.h: scalar functions without branches, within 1 to 3 ulp, that compilers turn into vector code.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * NaN in gives NaN out; infinities, overflow and denormals are as PyTorch's. Constants are minimax fits of our own. */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* a * b + c, in one rounding where the CPU does that. */
#if FXRT_FMA
static inline float fxrt_fma(float a, float b, float c) { return fmaf(a, b, c); }
#else
static inline float fxrt_fma(float a, float b, float c) { return a * b + c; }
#endif

static inline uint32_t fxrt_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float fxrt_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* As torch.maximum and torch.minimum: a NaN in either stays. */
static inline float fxrt_max(float a, float b) { return ((a > b) | (a != a)) ? a : b; }
static inline float fxrt_min(float a, float b) { return ((a < b) | (a != a)) ? a : b; }

/* Python's %: the result has the sign of b. */
static inline float fxrt_remainder(float a, float b)
{
    const float m = fmodf(a, b);
    return ((m != 0) & ((m < 0) != (b < 0))) ? m + b : m;
}

static inline float fxrt_relu(float x) { return x < 0 ? 0 : x; }
static inline float fxrt_clamp(float x, float lo, float hi)
{
    const float y = x < lo ? lo : x;
    return y > hi ? hi : y;
}
static inline float fxrt_leaky_relu(float x, float a) { return x > 0 ? x : a * x; }
static inline float fxrt_hardsigmoid(float x) { return fxrt_clamp(x + 3, 0, 6) / 6; }
static inline float fxrt_hardswish(float x) { return x * fxrt_clamp(x + 3, 0, 6) / 6; }

/* x = n ln 2 + r with |r| <= ln 2 / 2: returns e^r - 1, and n as the integer in the low bits of *t (offset 1.5 * 2^23). */
static inline float fxrt_exp_reduce(float x, float *t)
{
    *t = fxrt_fma(x, 1.44269504089f, 12582912.0f);
    const float n = *t - 12582912.0f;
    float r = fxrt_fma(n, -0.693359375f, x);
    r = fxrt_fma(n, 2.12194440e-4f, r);
    float p = fxrt_fma(1.395052182e-03f, r, 8.368908428e-03f);
    p = fxrt_fma(p, r, 4.166620597e-02f);
    p = fxrt_fma(p, r, 1.666651815e-01f);
    p = fxrt_fma(p, r, 5.000000000e-01f);
    return fxrt_fma(p, r * r, r);
}

static inline float fxrt_exp(float x)
{
    x = fxrt_clamp(x, -104, 89); /* beyond: 0 and infinity, which the scaling below gives */
    float t;
    const float p = fxrt_exp_reduce(x, &t) + 1;
    const uint32_t k = fxrt_bits(t) - 0x4b400000u + 256, k1 = k >> 1, k2 = k - k1; /* 2^n in two factors */
    return p * fxrt_from_bits((k1 - 1) << 23) * fxrt_from_bits((k2 - 1) << 23);
}

/* e^x - 1 without cancellation near 0: with 2^n = s1 s2 it is s2 (s1 p + (s1 - 1 / s2)). */
static inline float fxrt_expm1(float x)
{
    float t;
    const float p = fxrt_exp_reduce(fxrt_clamp(x, -20, 89), &t);
    const uint32_t k = fxrt_bits(t) - 0x4b400000u + 256, k1 = k >> 1, k2 = k - k1;
    const float s1 = fxrt_from_bits((k1 - 1) << 23), s2 = fxrt_from_bits((k2 - 1) << 23);
    return fxrt_fma(p, s1, s1 - fxrt_from_bits((255 - k2) << 23)) * s2;
}

/* log(1 + u), 0 <= u <= 1, by 2 atanh(u / (2 + u)). */
static inline float fxrt_log1p_unit(float u)
{
    const float s = u / (2 + u), z = s * s;
    float p = fxrt_fma(2.430093884e-01f, z, 2.142765671e-01f);
    p = fxrt_fma(p, z, 2.861688435e-01f);
    p = fxrt_fma(p, z, 3.999887705e-01f);
    p = fxrt_fma(p, z, 6.666667461e-01f);
    return fxrt_fma(p, s * z, 2 * s);
}

static inline float fxrt_tanh(float x)
{
    const float e = fxrt_expm1(2 * fxrt_clamp(fabsf(x), 0, 10));
    return copysignf(e / (e + 2), x);
}

static inline float fxrt_erf(float x)
{
    const float t = fxrt_clamp(fabsf(x), 0, 4), s = t * t;
    float a = fxrt_fma(-5.976893590e-04f, s, 4.990980029e-03f); /* t < 0.92: t + t P(t^2) */
    a = fxrt_fma(a, s, -2.676556632e-02f);
    a = fxrt_fma(a, s, 1.128180251e-01f);
    a = fxrt_fma(a, s, -3.761249483e-01f);
    a = fxrt_fma(a, s, 1.283791512e-01f);
    a = fxrt_fma(a, t, t);
    float b = fxrt_fma(-1.906588295e-04f, t, 2.994512906e-03f); /* else 1 - exp(-t - Q(t)) */
    b = fxrt_fma(b, t, -2.204506844e-02f);
    b = fxrt_fma(b, t, 1.035797521e-01f);
    b = fxrt_fma(b, t, 6.375545263e-01f);
    b = fxrt_fma(b, t, 1.274711937e-01f);
    b = fxrt_fma(b, t, 2.412380418e-04f);
    b = 1 - fxrt_exp(-(b + t));
    return copysignf(t < 0.92f ? a : b, x);
}

static inline float fxrt_elu(float x, float a, float b) { return x > 0 ? b * x : b * a * fxrt_expm1(fxrt_clamp(x, -104, 0)); }
static inline float fxrt_sigmoid(float x) { return 1 / (1 + fxrt_exp(-x)); }
static inline float fxrt_silu(float x) { return x / (1 + fxrt_exp(-x)); }
static inline float fxrt_gelu(float x) { return x * 0.5f * (1 + fxrt_erf(x * 0.70710678118654752f)); }
static inline float fxrt_gelu_tanh(float x)
{
    return 0.5f * x * (1 + fxrt_tanh(0.79788456080286536f * (x + 0.044715f * (x * x * x))));
}
static inline float fxrt_softplus(float x, float a, float b)
{
    const float t = a * x, l = fxrt_log1p_unit(fxrt_exp(-fabsf(t)));
    return t > b ? x : (fxrt_relu(t) + l) / a;
}
static inline float fxrt_mish(float x)
{
    const float e = fxrt_exp(x > 20 ? 20 : x), n = e * (e + 2); /* tanh(log(1 + e)) = n / (n + 2) */
    return x * (n / (n + 2));
}

static inline float fxrt_sign(float x) { return (float)((x > 0) - (x < 0)); }

/* torch.floor_divide: the quotient of a - a mod b, which is whole but for rounding. */
static inline float fxrt_floor_div(float a, float b)
{
    const float m = fmodf(a, b);
    float q = (a - m) / b, f;
    if (b == 0)
        return a / b;
    if (m != 0 && (b < 0) != (m < 0))
        q -= 1;
    f = floorf(q);
    return q != 0 ? (q - f > 0.5f ? f + 1 : f) : copysignf(0, a / b);
}
