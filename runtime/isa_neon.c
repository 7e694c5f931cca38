/* isa_neon.c: the kernels for AArch64.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define FXRT_ISA neon
#define FXRT_LANES 4
#define FXRT_MR 8
#define FXRT_NR 8
#define FXRT_FMA 1
#include "isa.h"
