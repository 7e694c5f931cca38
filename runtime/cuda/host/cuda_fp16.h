/* cuda_fp16.h for a host compiler. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_CUDA_FP16_H
#define FXCU_CUDA_FP16_H
#include "cuda_host/half.h"

FXCU_HALF_TYPE(__half, __half2, to_f16, from_f16)
typedef __half half;
typedef __half2 half2;

static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline float __half2float(__half x) { return float(x); }
static inline __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
static inline __half2 __float22half2_rn(float2 v) { return __floats2half2_rn(v.x, v.y); }
static inline __half2 __float2half2_rn(float x) { return __floats2half2_rn(x, x); }
static inline float2 __half22float2(__half2 v) { return make_float2(float(v.x), float(v.y)); }
static inline __half2 __half2half2(__half x) { return __half2(x, x); }
static inline __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
static inline __half __low2half(__half2 v) { return v.x; }
static inline __half __high2half(__half2 v) { return v.y; }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline __half __ushort_as_half(unsigned short bits) { return fxcu::same_bits<__half>(bits); }
#endif
