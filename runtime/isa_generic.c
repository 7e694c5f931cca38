/* isa_generic.c: the kernels for plain C, no vectors.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define FXRT_ISA generic
#define FXRT_LANES 1
#define FXRT_MR 4
#define FXRT_NR 4
#define FXRT_FMA 0
#include "isa.h"
