/* simd.h: one vector of FXRT_LANES floats, spelled for AVX-512, AVX2, NEON, any other vector unit, or none.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Kernels stay out of line: one body serves all layers. Their parts must be in line, or sums would leave the registers. */
#if defined(__GNUC__)
#define FXRT_KERNEL FXRT_API __attribute__((noinline))
#define FXRT_INLINE static inline __attribute__((always_inline))
#define FXRT_NOINLINE static __attribute__((noinline, unused))
#define FXRT_RESTRICT __restrict__
#else
#define FXRT_KERNEL FXRT_API
#define FXRT_INLINE static inline
#define FXRT_NOINLINE static inline
#define FXRT_RESTRICT restrict
#endif
#ifndef FXRT_SHARED
#define FXRT_SHARED FXRT_NOINLINE
#endif

#if FXRT_LANES == 16
/* ---- AVX-512 ------------------------------------------------------------------------------------------------ */
#ifndef __AVX512F__
#error "this file is for CPUs with AVX-512: compile it with -mavx512f -mavx2 -mfma"
#endif
#include <immintrin.h>
typedef __m512 fxrt_v;
FXRT_INLINE fxrt_v fxrt_v_set1(float a) { return _mm512_set1_ps(a); }
FXRT_INLINE fxrt_v fxrt_v_load(const float *p) { return _mm512_loadu_ps(p); }
FXRT_INLINE void fxrt_v_store(float *p, fxrt_v a) { _mm512_storeu_ps(p, a); }
FXRT_INLINE fxrt_v fxrt_v_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
FXRT_INLINE void fxrt_v_store_n(float *p, fxrt_v a, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a); }
FXRT_INLINE fxrt_v fxrt_v_add(fxrt_v a, fxrt_v b) { return _mm512_add_ps(a, b); }
FXRT_INLINE fxrt_v fxrt_v_sub(fxrt_v a, fxrt_v b) { return _mm512_sub_ps(a, b); }
FXRT_INLINE fxrt_v fxrt_v_mul(fxrt_v a, fxrt_v b) { return _mm512_mul_ps(a, b); }
FXRT_INLINE fxrt_v fxrt_v_div(fxrt_v a, fxrt_v b) { return _mm512_div_ps(a, b); }
FXRT_INLINE fxrt_v fxrt_v_fma(fxrt_v a, fxrt_v b, fxrt_v c) { return _mm512_fmadd_ps(a, b, c); }
/* As a < b ? b : a and a > b ? b : a: a NaN in a stays. */
FXRT_INLINE fxrt_v fxrt_v_max(fxrt_v a, fxrt_v b) { return _mm512_max_ps(b, a); }
FXRT_INLINE fxrt_v fxrt_v_min(fxrt_v a, fxrt_v b) { return _mm512_min_ps(b, a); }
/* As a > b || a is NaN ? a : b: a NaN in either stays. */
FXRT_INLINE fxrt_v fxrt_v_maxnan(fxrt_v a, fxrt_v b)
{
    return _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}
/* 2^n of t = n + 1.5 * 2^23, an integer n of -127 (which gives 0) to 127. */
FXRT_INLINE fxrt_v fxrt_v_pow2(fxrt_v t)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(127)), 23));
}

#elif FXRT_LANES == 8
/* ---- AVX2 --------------------------------------------------------------------------------------------------- */
#if !defined(__AVX2__) || !defined(__FMA__)
#error "this file is for CPUs with AVX2: compile it with -mavx2 -mfma"
#endif
#include <immintrin.h>
typedef __m256 fxrt_v;
/* All ones in the first n of 8 lanes. */
FXRT_INLINE __m256i fxrt_v_mask(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
FXRT_INLINE fxrt_v fxrt_v_set1(float a) { return _mm256_set1_ps(a); }
FXRT_INLINE fxrt_v fxrt_v_load(const float *p) { return _mm256_loadu_ps(p); }
FXRT_INLINE void fxrt_v_store(float *p, fxrt_v a) { _mm256_storeu_ps(p, a); }
FXRT_INLINE fxrt_v fxrt_v_load_n(const float *p, int n) { return _mm256_maskload_ps(p, fxrt_v_mask(n)); }
FXRT_INLINE void fxrt_v_store_n(float *p, fxrt_v a, int n) { _mm256_maskstore_ps(p, fxrt_v_mask(n), a); }
FXRT_INLINE fxrt_v fxrt_v_add(fxrt_v a, fxrt_v b) { return _mm256_add_ps(a, b); }
FXRT_INLINE fxrt_v fxrt_v_sub(fxrt_v a, fxrt_v b) { return _mm256_sub_ps(a, b); }
FXRT_INLINE fxrt_v fxrt_v_mul(fxrt_v a, fxrt_v b) { return _mm256_mul_ps(a, b); }
FXRT_INLINE fxrt_v fxrt_v_div(fxrt_v a, fxrt_v b) { return _mm256_div_ps(a, b); }
FXRT_INLINE fxrt_v fxrt_v_fma(fxrt_v a, fxrt_v b, fxrt_v c) { return _mm256_fmadd_ps(a, b, c); }
/* As a < b ? b : a and a > b ? b : a: a NaN in a stays. */
FXRT_INLINE fxrt_v fxrt_v_max(fxrt_v a, fxrt_v b) { return _mm256_max_ps(b, a); }
FXRT_INLINE fxrt_v fxrt_v_min(fxrt_v a, fxrt_v b) { return _mm256_min_ps(b, a); }
/* As a > b || a is NaN ? a : b: a NaN in either stays. */
FXRT_INLINE fxrt_v fxrt_v_maxnan(fxrt_v a, fxrt_v b)
{
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}
/* 2^n of t = n + 1.5 * 2^23, an integer n of -127 (which gives 0) to 127. */
FXRT_INLINE fxrt_v fxrt_v_pow2(fxrt_v t)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127)), 23));
}

#elif FXRT_LANES == 4 && defined(__aarch64__)
/* ---- NEON --------------------------------------------------------------------------------------------------- */
#include <arm_neon.h>
typedef float32x4_t fxrt_v;
FXRT_INLINE fxrt_v fxrt_v_set1(float a) { return vdupq_n_f32(a); }
FXRT_INLINE fxrt_v fxrt_v_load(const float *p) { return vld1q_f32(p); }
FXRT_INLINE void fxrt_v_store(float *p, fxrt_v a) { vst1q_f32(p, a); }
FXRT_INLINE fxrt_v fxrt_v_add(fxrt_v a, fxrt_v b) { return vaddq_f32(a, b); }
FXRT_INLINE fxrt_v fxrt_v_sub(fxrt_v a, fxrt_v b) { return vsubq_f32(a, b); }
FXRT_INLINE fxrt_v fxrt_v_mul(fxrt_v a, fxrt_v b) { return vmulq_f32(a, b); }
FXRT_INLINE fxrt_v fxrt_v_div(fxrt_v a, fxrt_v b) { return vdivq_f32(a, b); }
FXRT_INLINE fxrt_v fxrt_v_fma(fxrt_v a, fxrt_v b, fxrt_v c) { return vfmaq_f32(c, a, b); }
/* As a < b ? b : a and a > b ? b : a: a NaN in a stays. */
FXRT_INLINE fxrt_v fxrt_v_max(fxrt_v a, fxrt_v b) { return vbslq_f32(vcltq_f32(a, b), b, a); }
FXRT_INLINE fxrt_v fxrt_v_min(fxrt_v a, fxrt_v b) { return vbslq_f32(vcgtq_f32(a, b), b, a); }
/* As a > b || a is NaN ? a : b: a NaN in either stays (FMAX does just that). */
FXRT_INLINE fxrt_v fxrt_v_maxnan(fxrt_v a, fxrt_v b) { return vmaxq_f32(a, b); }
/* 2^n of t = n + 1.5 * 2^23, an integer n of -127 (which gives 0) to 127. */
FXRT_INLINE fxrt_v fxrt_v_pow2(fxrt_v t)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vreinterpretq_s32_f32(t), vdupq_n_s32(127)), 23));
}
#define FXRT_PARTIAL_BY_COPY

#elif FXRT_LANES > 1
/* ---- any vector unit, by the vector types of gcc and clang ------------------------------------------------- */
typedef float fxrt_v __attribute__((vector_size(4 * FXRT_LANES)));
typedef int32_t fxrt_vi __attribute__((vector_size(4 * FXRT_LANES)));
typedef uint32_t fxrt_vu __attribute__((vector_size(4 * FXRT_LANES)));
FXRT_INLINE fxrt_v fxrt_v_load(const float *p)
{
    fxrt_v a;
    memcpy(&a, p, sizeof a);
    return a;
}
FXRT_INLINE void fxrt_v_store(float *p, fxrt_v a) { memcpy(p, &a, sizeof a); }
FXRT_INLINE fxrt_v fxrt_v_set1(float a)
{
    fxrt_v v;
    for (int i = 0; i < FXRT_LANES; i++)
        v[i] = a;
    return v;
}
FXRT_INLINE fxrt_v fxrt_v_add(fxrt_v a, fxrt_v b) { return a + b; }
FXRT_INLINE fxrt_v fxrt_v_sub(fxrt_v a, fxrt_v b) { return a - b; }
FXRT_INLINE fxrt_v fxrt_v_mul(fxrt_v a, fxrt_v b) { return a * b; }
FXRT_INLINE fxrt_v fxrt_v_div(fxrt_v a, fxrt_v b) { return a / b; }
FXRT_INLINE fxrt_v fxrt_v_fma(fxrt_v a, fxrt_v b, fxrt_v c) { return a * b + c; }
/* b where the mask is set, else a. */
FXRT_INLINE fxrt_v fxrt_v_pick(fxrt_vi mask, fxrt_v b, fxrt_v a) { return (fxrt_v)((mask & (fxrt_vi)b) | (~mask & (fxrt_vi)a)); }
/* As a < b ? b : a and a > b ? b : a: a NaN in a stays. */
FXRT_INLINE fxrt_v fxrt_v_max(fxrt_v a, fxrt_v b) { return fxrt_v_pick((fxrt_vi)(a < b), b, a); }
FXRT_INLINE fxrt_v fxrt_v_min(fxrt_v a, fxrt_v b) { return fxrt_v_pick((fxrt_vi)(a > b), b, a); }
/* As a > b || a is NaN ? a : b: a NaN in either stays. */
FXRT_INLINE fxrt_v fxrt_v_maxnan(fxrt_v a, fxrt_v b) { return fxrt_v_pick((fxrt_vi)((a > b) | (a != a)), a, b); }
/* 2^n of t = n + 1.5 * 2^23, an integer n of -127 (which gives 0) to 127. */
FXRT_INLINE fxrt_v fxrt_v_pow2(fxrt_v t) { return (fxrt_v)(((fxrt_vu)t + 127) << 23); }
#define FXRT_PARTIAL_BY_COPY

#else
/* ---- no vectors: a vector is one float ---------------------------------------------------------------------- */
typedef float fxrt_v;
FXRT_INLINE fxrt_v fxrt_v_set1(float a) { return a; }
FXRT_INLINE fxrt_v fxrt_v_load(const float *p) { return *p; }
FXRT_INLINE void fxrt_v_store(float *p, fxrt_v a) { *p = a; }
FXRT_INLINE fxrt_v fxrt_v_load_n(const float *p, int n) { return n > 0 ? *p : 0.0f; }
FXRT_INLINE void fxrt_v_store_n(float *p, fxrt_v a, int n)
{
    if (n > 0)
        *p = a;
}
FXRT_INLINE fxrt_v fxrt_v_add(fxrt_v a, fxrt_v b) { return a + b; }
FXRT_INLINE fxrt_v fxrt_v_sub(fxrt_v a, fxrt_v b) { return a - b; }
FXRT_INLINE fxrt_v fxrt_v_mul(fxrt_v a, fxrt_v b) { return a * b; }
FXRT_INLINE fxrt_v fxrt_v_div(fxrt_v a, fxrt_v b) { return a / b; }
#if FXRT_FMA
FXRT_INLINE fxrt_v fxrt_v_fma(fxrt_v a, fxrt_v b, fxrt_v c) { return fmaf(a, b, c); }
#else
FXRT_INLINE fxrt_v fxrt_v_fma(fxrt_v a, fxrt_v b, fxrt_v c) { return a * b + c; }
#endif
FXRT_INLINE fxrt_v fxrt_v_max(fxrt_v a, fxrt_v b) { return a < b ? b : a; } /* a NaN in a stays */
FXRT_INLINE fxrt_v fxrt_v_min(fxrt_v a, fxrt_v b) { return a > b ? b : a; }
FXRT_INLINE fxrt_v fxrt_v_maxnan(fxrt_v a, fxrt_v b) { return a > b || a != a ? a : b; } /* a NaN in either stays */
/* 2^n of t = n + 1.5 * 2^23, an integer n of -127 (which gives 0) to 127. */
FXRT_INLINE fxrt_v fxrt_v_pow2(fxrt_v t)
{
    uint32_t u;
    memcpy(&u, &t, sizeof u);
    u = (u + 127) << 23;
    memcpy(&t, &u, sizeof t);
    return t;
}
#endif

#ifdef FXRT_PARTIAL_BY_COPY
/* The first n lanes; never a byte beyond them is touched. The other lanes load as zeros. */
FXRT_INLINE fxrt_v fxrt_v_load_n(const float *p, int n)
{
    float lanes[FXRT_LANES] = { 0 };
    memcpy(lanes, p, (size_t)n * sizeof(float));
    return fxrt_v_load(lanes);
}
FXRT_INLINE void fxrt_v_store_n(float *p, fxrt_v a, int n)
{
    float lanes[FXRT_LANES];
    fxrt_v_store(lanes, a);
    memcpy(p, lanes, (size_t)n * sizeof(float));
}
#undef FXRT_PARTIAL_BY_COPY
#endif

/* As load_n and store_n for any n: none, some or all lanes. */
FXRT_INLINE fxrt_v fxrt_v_load_some(const float *p, int n)
{
    return n >= FXRT_LANES ? fxrt_v_load(p) : n > 0 ? fxrt_v_load_n(p, n) : fxrt_v_set1(0.0f);
}
FXRT_INLINE void fxrt_v_store_some(float *p, fxrt_v a, int n)
{
    if (n >= FXRT_LANES)
        fxrt_v_store(p, a);
    else if (n > 0)
        fxrt_v_store_n(p, a, n);
}

/* The sum of all lanes, pairwise: the second half is added to the first, and so on. */
FXRT_INLINE float fxrt_v_sum(fxrt_v a)
{
#if FXRT_LANES == 16 || FXRT_LANES == 8
#if FXRT_LANES == 16
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)));
#else
    const __m256 h = a;
#endif
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)), e = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(e, _mm_shuffle_ps(e, e, 1)));
#else
    float lanes[FXRT_LANES];
    fxrt_v_store(lanes, a);
    for (int step = FXRT_LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++)
            lanes[i] += lanes[i + step];
    return lanes[0];
#endif
}

FXRT_INLINE int fxrt_min_int(int a, int b) { return a < b ? a : b; }
FXRT_INLINE int fxrt_max_int(int a, int b) { return a > b ? a : b; }
