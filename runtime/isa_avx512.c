/* isa_avx512.c: the kernels for x86-64 with AVX-512.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define FXRT_ISA avx512
#define FXRT_LANES 16
#define FXRT_MR 12
#define FXRT_NR 32
#define FXRT_FMA 1
#include "isa.h"
