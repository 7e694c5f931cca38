/* random.h: random numbers, and activations in double, for the tests of kernels: C and C++.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_TEST_RANDOM_H
#define FXCC_TEST_RANDOM_H

#include <math.h>
#include <stdint.h>

#include "../../include/fxcc/runtime.h"

static uint64_t random_state = 88172645463325252u;
static inline uint32_t random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16);
}
static inline int random_int(int lo, int hi) { return lo + (int)(random_u32() % (uint32_t)(hi - lo + 1)); }
static inline float random_float(void) { return (float)random_u32() * 0x1p-31f - 1.0f; }

static inline double act_ref(int act, double x, double a, double b)
{
    switch (act) {
    case FXRT_ACT_RELU: return x < 0 ? 0 : x;
    case FXRT_ACT_CLAMP: return x < a ? a : x > b ? b : x;
    case FXRT_ACT_LEAKY_RELU: return x > 0 ? x : a * x;
    case FXRT_ACT_ELU: return x > 0 ? b * x : b * a * expm1(x);
    case FXRT_ACT_SIGMOID: return 1 / (1 + exp(-x));
    case FXRT_ACT_TANH: return tanh(x);
    case FXRT_ACT_SILU: return x / (1 + exp(-x));
    case FXRT_ACT_HARDSWISH: return x * (x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6;
    case FXRT_ACT_HARDSIGMOID: return (x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6;
    case FXRT_ACT_GELU: return x * (1 + erf(x / sqrt(2.0))) / 2;
    case FXRT_ACT_GELU_TANH: return x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))) / 2;
    case FXRT_ACT_SOFTPLUS: return a * x > b ? x : log1p(exp(a * x)) / a;
    case FXRT_ACT_MISH: return x * tanh(log1p(exp(x)));
    default: return x;
    }
}
static inline void random_act(int32_t *act, float *a, float *b)
{
    *act = random_int(0, 2) ? random_int(0, FXRT_ACT_COUNT - 1) : FXRT_ACT_NONE;
    *a = *act == FXRT_ACT_CLAMP ? -0.5f : *act == FXRT_ACT_SOFTPLUS ? 1.5f : 0.3f;
    *b = *act == FXRT_ACT_CLAMP ? 0.75f : *act == FXRT_ACT_SOFTPLUS ? 2.0f : 1.25f;
}

#endif
