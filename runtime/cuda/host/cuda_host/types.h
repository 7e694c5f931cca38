/* Qualifiers, vector types and dim3. Sizes and alignments are CUDA's: a misaligned float4 is what UBSan then sees.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_TYPES_H
#define FXCU_TYPES_H
#include <stddef.h>
#include <stdint.h>

#define __host__
#define __device__
#define __global__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) alignas(n)
#define __launch_bounds__(...)

/* Blocks run one at a time, so a block's variables are a function's static ones. src/shared.cpp finds them among the program's symbols,
 * and what tells them from any other static variable is their kind: thread-local for gcc, which refuses one section for variables of
 * templates and of plain functions; a section for clang, whose AddressSanitizer then fences them. */
#ifdef __clang__
#define __shared__ static __attribute__((section(".fxcu_shared")))
#else
#define __shared__ static thread_local
#endif

#define FXCU_VECTORS(T, name, align2, align4)                                                                                                  \
    struct name##1 {                                                                                                                           \
        T x;                                                                                                                                   \
    };                                                                                                                                         \
    struct alignas(align2) name##2 {                                                                                                           \
        T x, y;                                                                                                                                \
    };                                                                                                                                         \
    struct name##3 {                                                                                                                           \
        T x, y, z;                                                                                                                             \
    };                                                                                                                                         \
    struct alignas(align4) name##4 {                                                                                                           \
        T x, y, z, w;                                                                                                                          \
    };                                                                                                                                         \
    static inline name##1 make_##name##1(T x) { return {x}; }                                                                                  \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                                                          \
    static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                                                  \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
FXCU_VECTORS(signed char, char, 2, 4)
FXCU_VECTORS(unsigned char, uchar, 2, 4)
FXCU_VECTORS(short, short, 4, 8)
FXCU_VECTORS(unsigned short, ushort, 4, 8)
FXCU_VECTORS(int, int, 8, 16)
FXCU_VECTORS(unsigned, uint, 8, 16)
FXCU_VECTORS(long long, longlong, 16, 16)
FXCU_VECTORS(unsigned long long, ulonglong, 16, 16)
FXCU_VECTORS(float, float, 8, 16)
FXCU_VECTORS(double, double, 16, 16)
#undef FXCU_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
#endif
