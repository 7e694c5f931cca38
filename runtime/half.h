/* half.h: float16 and bfloat16, which are 16-bit patterns in memory and floats in registers, without branches.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Rounding is to nearest, ties to even; subnormals, infinities and NaN as IEEE 754 has them. fxrt_round_* give the float that the type
 * can represent, for results that stay in registers. */
static inline float fxrt_from_bf16(uint16_t h) { return fxrt_from_bits((uint32_t)h << 16); }

static inline float fxrt_round_bf16(float x)
{
    const uint32_t u = fxrt_bits(x), r = (u + 0x7fffu + (u >> 16 & 1)) & 0xffff0000u;
    return fxrt_from_bits(x != x ? (u | 0x400000u) & 0xffff0000u : r);
}

static inline uint16_t fxrt_to_bf16(float x) { return (uint16_t)(fxrt_bits(fxrt_round_bf16(x)) >> 16); }

static inline float fxrt_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    const float small = (float)(int32_t)rest * 5.9604644775390625e-8f;                          /* 2^-24: a zero or subnormal */
    const uint32_t large = (rest << 13) + (rest >= 0x7c00u ? 0x70000000u : 0x38000000u); /* infinity, NaN : a normal number */
    return fxrt_from_bits(sign | (rest < 0x400u ? fxrt_bits(small) : large));
}

static inline float fxrt_round_f16(float x)
{
    const uint32_t u = fxrt_bits(x), sign = u & 0x80000000u, a = u & 0x7fffffffu;
    const float small = (fxrt_from_bits(a < 0x38800000u ? a : 0) + 0.5f) - 0.5f;     /* below 2^-14 steps are 2^-24 */
    const uint32_t normal = (a + 0xfffu + (a >> 13 & 1)) & 0xffffe000u;
    const uint32_t finite = a < 0x38800000u ? fxrt_bits(small) : normal >= 0x47800000u ? 0x7f800000u : normal; /* from 65520 on: infinity */
    return fxrt_from_bits(sign | (a > 0x7f800000u ? ((a | 0x400000u) & 0xffffe000u) : finite));
}

static inline uint16_t fxrt_to_f16(float x)
{
    const uint32_t u = fxrt_bits(fxrt_round_f16(x)), a = u & 0x7fffffffu;
    const uint32_t small = (uint32_t)(int32_t)(fxrt_from_bits(a < 0x38800000u ? a : 0) * 16777216.0f);
    const uint32_t large = (a >> 13) - (a >= 0x7f800000u ? 0x38000u : 0x1c000u);
    return (uint16_t)((u >> 16 & 0x8000u) | (a < 0x38800000u ? small : large));
}
