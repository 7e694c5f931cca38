/* What cuda_fp16.h and cuda_bf16.h have in common: two 16-bit types, each operation in float and rounded once to nearest even.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_HALF_H
#define FXCU_HALF_H
#include <cuda_runtime.h>

namespace fxcu {

inline uint16_t to_bf16(float value) {
    const uint32_t bits = same_bits<uint32_t>(value);
    if (value != value) {
        return 0x7fff;
    }
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float from_bf16(uint16_t bits) { return same_bits<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t to_f16(float value) {
    const uint32_t bits = same_bits<uint32_t>(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return 0x7fff;
    }
    if (magnitude >= 0x477ff000) { /* 65520 and more round to infinity */
        return static_cast<uint16_t>(sign | 0x7c00);
    }
    if (magnitude < 0x38800000) { /* below the smallest normal: adding 0.5 rounds at the right place */
        const float shifted = same_bits<float>(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (same_bits<uint32_t>(shifted) - 0x3f000000));
    }
    const uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
    return static_cast<uint16_t>(sign | rounded >> 13);
}
inline float from_f16(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (exponent == 31) {
        return same_bits<float>(sign | 0x7f800000 | fraction << 13);
    }
    if (exponent == 0) {
        const float small = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -small : small;
    }
    return same_bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

} // namespace fxcu

/* A type T with pairs T2: convert_to and convert_from are fxcu's functions above. */
#define FXCU_HALF_TYPE(T, T2, convert_to, convert_from)                                                                                        \
    struct T {                                                                                                                                 \
        uint16_t bits;                                                                                                                         \
        T() = default;                                                                                                                         \
        T(float x) : bits(fxcu::convert_to(x)) {}                                                                                              \
        T(double x) : bits(fxcu::convert_to(static_cast<float>(x))) {}                                                                         \
        T(int x) : bits(fxcu::convert_to(static_cast<float>(x))) {}                                                                            \
        operator float() const { return fxcu::convert_from(bits); }                                                                            \
    };                                                                                                                                         \
    struct alignas(4) T2 {                                                                                                                     \
        T x, y;                                                                                                                                \
        T2() = default;                                                                                                                        \
        T2(T a, T b) : x(a), y(b) {}                                                                                                           \
    };                                                                                                                                         \
    static inline T2 make_##T2(T x, T y) { return T2(x, y); }                                                                                  \
    FXCU_HALF_OPERATOR(T, T2, +, __hadd)                                                                                                       \
    FXCU_HALF_OPERATOR(T, T2, -, __hsub)                                                                                                       \
    FXCU_HALF_OPERATOR(T, T2, *, __hmul)                                                                                                       \
    FXCU_HALF_OPERATOR(T, T2, /, __hdiv)                                                                                                       \
    static inline T operator-(T a) { return T(-float(a)); }                                                                                    \
    FXCU_HALF_COMPARE(T, ==, __heq)                                                                                                            \
    FXCU_HALF_COMPARE(T, !=, __hne)                                                                                                            \
    FXCU_HALF_COMPARE(T, <, __hlt)                                                                                                             \
    FXCU_HALF_COMPARE(T, <=, __hle)                                                                                                            \
    FXCU_HALF_COMPARE(T, >, __hgt)                                                                                                             \
    FXCU_HALF_COMPARE(T, >=, __hge)                                                                                                            \
    FXCU_HALF_FUNCTION(T, __hneg, -x)                                                                                                          \
    FXCU_HALF_FUNCTION(T, __habs, fabsf(x))                                                                                                    \
    FXCU_HALF_FUNCTION(T, hexp, expf(x))                                                                                                       \
    FXCU_HALF_FUNCTION(T, hlog, logf(x))                                                                                                       \
    FXCU_HALF_FUNCTION(T, hsqrt, sqrtf(x))                                                                                                     \
    FXCU_HALF_FUNCTION(T, hrsqrt, 1.0f / sqrtf(x))                                                                                             \
    static inline bool __hisnan(T a) { return float(a) != float(a); }                                                                          \
    static inline T __hmax(T a, T b) { return T(fmaxf(float(a), float(b))); }                                                                  \
    static inline T __hmin(T a, T b) { return T(fminf(float(a), float(b))); }                                                                  \
    static inline T __hfma(T a, T b, T c) { return T(static_cast<float>(double(float(a)) * double(float(b)) + double(float(c)))); }            \
    static inline T2 __hmax2(T2 a, T2 b) { return T2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }                                                    \
    static inline T2 __hmin2(T2 a, T2 b) { return T2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }                                                    \
    static inline T2 __hfma2(T2 a, T2 b, T2 c) { return T2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }                                    \
    static inline float __low2float(T2 a) { return float(a.x); }                                                                               \
    static inline float __high2float(T2 a) { return float(a.y); }

#define FXCU_HALF_OPERATOR(T, T2, sign, name)                                                                                                  \
    static inline T operator sign(T a, T b) { return T(float(a) sign float(b)); }                                                              \
    static inline T &operator sign##=(T &a, T b) { return a = a sign b; }                                                                      \
    static inline T name(T a, T b) { return a sign b; }                                                                                        \
    static inline T2 name##2(T2 a, T2 b) { return T2(a.x sign b.x, a.y sign b.y); }
#define FXCU_HALF_COMPARE(T, sign, name)                                                                                                       \
    static inline bool operator sign(T a, T b) { return float(a) sign float(b); }                                                              \
    static inline bool name(T a, T b) { return a sign b; }
#define FXCU_HALF_FUNCTION(T, name, result)                                                                                                    \
    static inline T name(T a) {                                                                                                                \
        const float x = float(a);                                                                                                              \
        return T(result);                                                                                                                      \
    }
#endif
