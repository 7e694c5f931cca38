/* CUDA's arithmetic functions beyond those of math.h. Fast ones (__expf) are the exact ones here.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_MATH_H
#define FXCU_MATH_H
#include <cmath>
#include <limits>
#include <math.h>
#include <stdint.h>
#include <string.h>

namespace fxcu {
template <class To, class From> To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits of one size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
/* As the GPU converts: what does not fit saturates, a NaN is 0. */
template <class To, class From> To saturate(From from) {
    if (from != from) {
        return 0;
    }
    /* 2 to the number of bits: what a To holds is below it, and any floating type holds it exactly. */
    const From limit = static_cast<From>(2) * static_cast<From>(std::numeric_limits<To>::max() / 2 + 1);
    if (from >= limit) {
        return std::numeric_limits<To>::max();
    }
    if (from <= static_cast<From>(std::numeric_limits<To>::min())) {
        return std::numeric_limits<To>::min();
    }
    return static_cast<To>(from);
}
} // namespace fxcu

#define FXCU_MINMAX(T)                                                                                                                         \
    static inline T min(T a, T b) { return b < a ? b : a; }                                                                                    \
    static inline T max(T a, T b) { return a < b ? b : a; }
FXCU_MINMAX(int)
FXCU_MINMAX(unsigned)
FXCU_MINMAX(long)
FXCU_MINMAX(unsigned long)
FXCU_MINMAX(long long)
FXCU_MINMAX(unsigned long long)
#undef FXCU_MINMAX
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float fdividef(float a, float b) { return a / b; }
static inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
static inline float __fdividef(float a, float b) { return a / b; }
/* Macros, since glibc's math.h declares some of these names for itself. */
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
static inline float __saturatef(float x) { return x != x ? 0.0f : x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; }

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline double __dsqrt_rn(double x) { return sqrt(x); }

static inline int __float_as_int(float x) { return fxcu::same_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return fxcu::same_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return fxcu::same_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return fxcu::same_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return fxcu::same_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return fxcu::same_bits<double>(x); }

#define FXCU_CONVERT(T, short_name)                                                                                                            \
    static inline T __float2##short_name##_rz(float x) { return fxcu::saturate<T>(truncf(x)); }                                                \
    static inline T __float2##short_name##_rn(float x) { return fxcu::saturate<T>(nearbyintf(x)); }                                            \
    static inline T __float2##short_name##_rd(float x) { return fxcu::saturate<T>(floorf(x)); }                                                \
    static inline T __float2##short_name##_ru(float x) { return fxcu::saturate<T>(ceilf(x)); }                                                 \
    static inline T __double2##short_name##_rz(double x) { return fxcu::saturate<T>(trunc(x)); }                                               \
    static inline T __double2##short_name##_rn(double x) { return fxcu::saturate<T>(nearbyint(x)); }                                           \
    static inline float __##short_name##2float_rn(T x) { return static_cast<float>(x); }                                                       \
    static inline double __##short_name##2double_rn(T x) { return static_cast<double>(x); }
FXCU_CONVERT(int, int)
FXCU_CONVERT(unsigned, uint)
FXCU_CONVERT(long long, ll)
FXCU_CONVERT(unsigned long long, ull)
#undef FXCU_CONVERT
static inline float __double2float_rn(double x) { return static_cast<float>(x); }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) {
        r |= (x >> i & 1u) << (31 - i);
    }
    return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
static inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
__extension__ typedef unsigned __int128 fxcu_u128;
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<fxcu_u128>(a) * b >> 64);
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    uint64_t both = static_cast<uint64_t>(y) << 32 | x;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        unsigned pick = selector >> (4 * i) & 15u;
        unsigned byte = static_cast<unsigned>(both >> (8 * (pick & 7u))) & 255u;
        r |= ((pick & 8u) ? ((byte & 128u) ? 255u : 0u) : byte) << (8 * i);
    }
    return r;
}
#endif
