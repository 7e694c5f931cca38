/* act.h: activations in the tails of CUDA kernels, the formulas of runtime/math.h over CUDA's own functions (at most 2 ulp; never the fast ones).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * An activation is a number in a descriptor, so one kernel serves all of them: the branch is the same for every thread. Those that do not
 * occur (FXRT_ACT_MASK, as for the CPU) compile to nothing. A NaN stays a NaN. */
#ifndef FXRT_ACT_MASK
#define FXRT_ACT_MASK 0xffffffffu
#endif

FXRT_DEVICE float fxrt_cuda_clamp(float x, float lo, float hi)
{
    const float y = x < lo ? lo : x;
    return y > hi ? hi : y;
}
FXRT_DEVICE float fxrt_cuda_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
FXRT_DEVICE float fxrt_cuda_gelu(float x) { return x * 0.5f * (1.0f + erff(x * 0.70710678118654752f)); }
FXRT_DEVICE float fxrt_cuda_gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * (x * x * x))));
}
FXRT_DEVICE float fxrt_cuda_softplus(float x, float a, float b)
{
    const float t = a * x;
    return t > b ? x : ((t < 0.0f ? 0.0f : t) + log1pf(expf(-fabsf(t)))) / a;
}
FXRT_DEVICE float fxrt_cuda_mish(float x)
{
    const float e = expf(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f); /* tanh(log(1 + e)) = n / (n + 2) */
    return x * (n / (n + 2.0f));
}

/* v[i] = act(v[i]) of N values in registers. */
template <int N> FXRT_DEVICE void fxrt_cuda_act(float (&v)[N], int act, float a, float b)
{
#define FXRT_CUDA_ACT(ID, expr)                                                                                         \
    case FXRT_ACT_##ID:                                                                                                 \
        if ((FXRT_ACT_MASK) >> FXRT_ACT_##ID & 1u) {                                                                    \
            FXRT_UNROLL                                                                                                 \
            for (int i = 0; i < N; i++) {                                                                               \
                const float x = v[i];                                                                                   \
                v[i] = expr;                                                                                            \
            }                                                                                                           \
        }                                                                                                               \
        break;
    switch (act) {
        FXRT_CUDA_ACT(RELU, x < 0.0f ? 0.0f : x)
        FXRT_CUDA_ACT(CLAMP, fxrt_cuda_clamp(x, a, b))
        FXRT_CUDA_ACT(LEAKY_RELU, x > 0.0f ? x : a * x)
        FXRT_CUDA_ACT(ELU, x > 0.0f ? b * x : b * a * expm1f(x))
        FXRT_CUDA_ACT(SIGMOID, fxrt_cuda_sigmoid(x))
        FXRT_CUDA_ACT(TANH, tanhf(x))
        FXRT_CUDA_ACT(SILU, x / (1.0f + expf(-x)))
        FXRT_CUDA_ACT(HARDSWISH, x * fxrt_cuda_clamp(x + 3.0f, 0.0f, 6.0f) / 6.0f)
        FXRT_CUDA_ACT(HARDSIGMOID, fxrt_cuda_clamp(x + 3.0f, 0.0f, 6.0f) / 6.0f)
        FXRT_CUDA_ACT(GELU, fxrt_cuda_gelu(x))
        FXRT_CUDA_ACT(GELU_TANH, fxrt_cuda_gelu_tanh(x))
        FXRT_CUDA_ACT(SOFTPLUS, fxrt_cuda_softplus(x, a, b))
        FXRT_CUDA_ACT(MISH, fxrt_cuda_mish(x))
    default: break;
    }
#undef FXRT_CUDA_ACT
}

/* The first `live` of four neighbours, zeros behind them; at once where `wide` (then live is 4 or more, or 0 or less). */
template <class T> FXRT_DEVICE fxrt_cuda_vec<4> fxrt_cuda_load_four(const T *from, bool wide, int live)
{
    fxrt_cuda_vec<4> v = {};
    if (wide && live > 0) {
        v = fxrt_cuda_floats<4>(from);
    } else {
        FXRT_UNROLL
        for (int i = 0; i < 4; i++) {
            v.at[i] = i < live ? static_cast<float>(from[i]) : 0.0f;
        }
    }
    return v;
}
/* v[i] += from[i], v[i] *= from[i] and to[i] = v[i] for such four. */
template <class T> FXRT_DEVICE void fxrt_cuda_add_four(float *v, const T *from, bool wide, int live)
{
    if (!from || live <= 0) {
        return;
    }
    const fxrt_cuda_vec<4> add = fxrt_cuda_load_four(from, wide, live);
    FXRT_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] += add.at[i];
    }
}
template <class T> FXRT_DEVICE void fxrt_cuda_scale_four(float *v, const T *from, bool wide, int live)
{
    if (live <= 0) {
        return;
    }
    const fxrt_cuda_vec<4> by = fxrt_cuda_load_four(from, wide, live);
    FXRT_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] *= by.at[i];
    }
}
template <class T> FXRT_DEVICE void fxrt_cuda_store_four(T *to, const float *v, bool wide, int live)
{
    if (live <= 0) {
        return;
    }
    if (wide) {
        fxrt_cuda_put<4>(to, {{v[0], v[1], v[2], v[3]}});
        return;
    }
    FXRT_UNROLL
    for (int i = 0; i < 4; i++) {
        if (i < live) {
            to[i] = static_cast<T>(v[i]);
        }
    }
}
