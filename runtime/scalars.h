/* scalars.h: the functions of math.h as functions of libfxrt, of one float and of a vector of FXRT_LANES, for the JIT. Included by isa.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * fxrt_avx2_s_exp is fxrt_exp with the instructions of that set, fxrt_avx2_v_exp the same of each lane: LLVM puts calls of the second where it
 * turns loops that call the first into vectors. */
#include "scalars.def"

#if FXRT_LANES > 1
#define FXRT_LANEWISE(expression)                          \
    float a[FXRT_LANES], b[FXRT_LANES], c[FXRT_LANES];     \
    fxrt_v_store(a, x);                                    \
    fxrt_v_store(b, y);                                    \
    fxrt_v_store(c, z);                                    \
    for (int i = 0; i < FXRT_LANES; i++)                   \
        a[i] = expression;                                 \
    return fxrt_v_load(a);
#define FXRT_V_1(f) fxrt_v FXRT_NAME(v_##f)(fxrt_v x) { const fxrt_v y = x, z = x; FXRT_LANEWISE(fxrt_##f(a[i])) }
#define FXRT_V_2(f) fxrt_v FXRT_NAME(v_##f)(fxrt_v x, fxrt_v y) { const fxrt_v z = x; FXRT_LANEWISE(fxrt_##f(a[i], b[i])) }
#define FXRT_V_3(f) fxrt_v FXRT_NAME(v_##f)(fxrt_v x, fxrt_v y, fxrt_v z) { FXRT_LANEWISE(fxrt_##f(a[i], b[i], c[i])) }
#else
#define FXRT_V_1(f)
#define FXRT_V_2(f)
#define FXRT_V_3(f)
#endif

#define FXRT_DEFINE_1(f) float FXRT_NAME(s_##f)(float x) { return fxrt_##f(x); } FXRT_V_1(f)
#define FXRT_DEFINE_2(f) float FXRT_NAME(s_##f)(float x, float y) { return fxrt_##f(x, y); } FXRT_V_2(f)
#define FXRT_DEFINE_3(f) float FXRT_NAME(s_##f)(float x, float y, float z) { return fxrt_##f(x, y, z); } FXRT_V_3(f)
FXRT_SCALARS_1(FXRT_DEFINE_1)
FXRT_SCALARS_2(FXRT_DEFINE_2)
FXRT_SCALARS_3(FXRT_DEFINE_3)
