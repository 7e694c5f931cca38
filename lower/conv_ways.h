/* lower/conv_ways.h: the ways in which a GPU makes a convolution, and what each costs: the decisions of runtime/cuda/conv_*.h, for selection and for reports.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_CONV_WAYS_H
#define FXCC_CONV_WAYS_H

#include "fxcc/runtime.h"
#include "lower/lower.h"

/* The kernel that makes what `c` is as conv2d or conv2d_weight_grad, where its elements are of type; constant: its weights are known now. For other targets, and
 * where a size is not known, c's own. */
fx_kernel_id fx_conv_way(const fx_lower_options *opt, const fx_call_stmt *c, fx_dtype type, bool constant);

/* Whether it makes a convolution of floats by Winograd's transforms; of d only sizes are read. */
bool fx_conv_is_wino(const fx_lower_options *opt, const fxrt_conv2d_desc *d, bool constant);

/* Bytes of workspace, cuBLASLt's with it, of a call for a GPU. */
size_t fx_conv_workspace(const fx_target *target, const fx_call_stmt *c);

/* Counters of a call for a GPU whose sums blocks make in parts (runtime/cuda/conv_split.h); 0: of others. */
size_t fx_conv_counters(const fx_call_stmt *c);

typedef struct fx_conv_cost {
    int launches;
    uint64_t left, found;         /* bytes that one of its kernels, or blocks, writes to the workspace and another one reads */
    bool tail;                    /* a kernel after the product reads and writes the result once more */
} fx_conv_cost;
/* Of a call for a GPU whose sizes are known. split: it has a workspace, so that sums may be in parts. */
fx_conv_cost fx_conv_cost_of(const fx_call_stmt *c, bool split);

#endif
