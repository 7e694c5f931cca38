/* isa_avx2.c: the kernels for x86-64 with AVX2 and FMA.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define FXRT_ISA avx2
#define FXRT_LANES 8
#define FXRT_MR 6
#define FXRT_NR 16
#define FXRT_FMA 1
#include "isa.h"
