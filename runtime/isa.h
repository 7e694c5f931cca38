/* isa.h: the kernels of one instruction set, from the same texts that standalone files contain. Included by isa_*.c, which
 * define FXRT_ISA, FXRT_LANES, FXRT_MR, FXRT_NR, FXRT_FMA; the numbers are those of the target presets (ir/target.c).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "fxcc/runtime.h"

#define FXRT_API
#define FXRT_ACT_MASK 0xffffffffu
#define FXRT_JOIN_(a, b, c) a##b##_##c
#define FXRT_JOIN(a, b, c) FXRT_JOIN_(a, b, c)
#define FXRT_NAME(id) FXRT_JOIN(fxrt_, FXRT_ISA, id)

#define fxrt_conv2d FXRT_NAME(conv2d)
#define fxrt_conv2d_dw FXRT_NAME(conv2d_dw)
#define fxrt_conv_transpose2d FXRT_NAME(conv_transpose2d)
#define fxrt_conv2d_weight_grad FXRT_NAME(conv2d_weight_grad)
#define fxrt_gemm FXRT_NAME(gemm)
#define fxrt_matmul FXRT_NAME(matmul)
#define fxrt_max_pool2d FXRT_NAME(max_pool2d)
#define fxrt_avg_pool2d FXRT_NAME(avg_pool2d)
#define fxrt_adaptive_avg_pool2d FXRT_NAME(adaptive_avg_pool2d)
#define fxrt_adaptive_max_pool2d FXRT_NAME(adaptive_max_pool2d)
#define fxrt_upsample_nearest2d FXRT_NAME(upsample_nearest2d)
#define fxrt_upsample_bilinear2d FXRT_NAME(upsample_bilinear2d)
#define fxrt_softmax FXRT_NAME(softmax)
#define fxrt_log_softmax FXRT_NAME(log_softmax)
#define fxrt_layer_norm FXRT_NAME(layer_norm)
#define fxrt_rms_norm FXRT_NAME(rms_norm)
#define fxrt_group_norm FXRT_NAME(group_norm)
#define fxrt_attention FXRT_NAME(attention)

/* What kernels share is libfxrt's too: copies of kernels that the JIT makes (jit/bitcode.c) call it. */
#define FXRT_SHARED __attribute__((noinline, visibility("hidden")))
#define fxrt_conv2d_half FXRT_NAME(part_conv2d_half)
#define fxrt_conv2d_rest FXRT_NAME(part_conv2d_rest)
#define fxrt_gemm_panel FXRT_NAME(part_gemm_panel)
#define fxrt_act_apply FXRT_NAME(part_act_apply)

#include "simd.h"
#include "math.h"
#include "vexp.h"
#include "act.h"
#include "tile.h"
#include "conv2d.h"
#include "conv2d_dw.h"
#include "conv_transpose2d.h"
#include "conv2d_weight_grad.h"
#include "gemm.h"
#include "matmul.h"
#include "pool2d.h"
#include "adaptive_pool2d.h"
#include "upsample2d.h"
#include "softmax.h"
#include "layer_norm.h"
#include "group_norm.h"
#include "attention.h"
#include "scalars.h"
