/* act.h: activations in the tails of kernels, by the same scalar functions as everywhere else.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Kernels do none, relu and clamp in registers and hand all other activations to fxrt_act_apply on a block that is still in L1.
 * Activations that do not occur (FXRT_ACT_MASK) compile to nothing. */

/* v[i] = act(v[i]). The block is never part of another array the loop reads: it vectorises. */
FXRT_SHARED void fxrt_act_apply(float *FXRT_RESTRICT v, int n, int act, float a, float b)
{
#define FXRT_ACT_CASE(ID, expr)                                                                                         \
    case FXRT_ACT_##ID:                                                                                                 \
        if ((FXRT_ACT_MASK) >> FXRT_ACT_##ID & 1)                                                                       \
            for (int i = 0; i < n; i++) {                                                                               \
                const float x = v[i];                                                                                   \
                v[i] = expr;                                                                                            \
            }                                                                                                           \
        break;
    switch (act) {
        FXRT_ACT_CASE(RELU, fxrt_relu(x))
        FXRT_ACT_CASE(CLAMP, fxrt_clamp(x, a, b))
        FXRT_ACT_CASE(LEAKY_RELU, fxrt_leaky_relu(x, a))
        FXRT_ACT_CASE(ELU, fxrt_elu(x, a, b))
        FXRT_ACT_CASE(SIGMOID, fxrt_sigmoid(x))
        FXRT_ACT_CASE(TANH, fxrt_tanh(x))
        FXRT_ACT_CASE(SILU, fxrt_silu(x))
        FXRT_ACT_CASE(HARDSWISH, fxrt_hardswish(x))
        FXRT_ACT_CASE(HARDSIGMOID, fxrt_hardsigmoid(x))
        FXRT_ACT_CASE(GELU, fxrt_gelu(x))
        FXRT_ACT_CASE(GELU_TANH, fxrt_gelu_tanh(x))
        FXRT_ACT_CASE(SOFTPLUS, fxrt_softplus(x, a, b))
        FXRT_ACT_CASE(MISH, fxrt_mish(x))
    default: break;
    }
#undef FXRT_ACT_CASE
}
