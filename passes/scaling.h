/* passes/scaling.h: batch norm as a scale and shift of channels, and weights that take one. Shared by users' passes and lowering.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PASSES_SCALING_H
#define FXCC_PASSES_SCALING_H

#include "ir/ir.h"

/* y[channel] = scale[channel] * x[channel] + shift[channel]; NULL: 1, 0. count 1: the same for all channels. */
typedef struct fx_scaling {
    int64_t count;
    double *scale, *shift;
} fx_scaling;

/* What batch norm does to a channel, from its tensors of `channels` numbers each (gamma, beta may be NULL). */
fx_status fx_scaling_of_batch_norm(fx_context *ctx, fx_arena *scratch, int64_t channels, const fx_tensor *gamma, const fx_tensor *beta,
                                  const fx_tensor *mean, const fx_tensor *var, double eps, fx_scaling *out);
bool fx_scaling_is_finite(const fx_scaling *a);

/* A fresh weight, each output channel scaled; computed in double, rounded once. Output channels are dim 0, but for transposed convolutions,
 * where dim 0 counts the input channels of all groups and dim 1 the output channels of one. */
fx_status fx_scaled_weight(fx_context *ctx, fx_arena *scratch, const fx_tensor *weight, bool transposed, int64_t groups, const fx_scaling *a, fx_tensor *out);
/* The same of a float32 weight, made at its first touch (ir/weight_rows.c): the weight stays as it is until then. */
fx_status fx_scaled_weight_later(fx_context *ctx, fx_arena *scratch, const fx_tensor *weight, bool transposed, int64_t groups, const fx_scaling *a,
                                 fx_tensor *out);
/* A fresh bias of `channels` numbers of the dtype; bias NULL: zeros. */
fx_status fx_scaled_bias(fx_context *ctx, const fx_tensor *bias, fx_dtype dtype, int64_t channels, const fx_scaling *a, fx_tensor *out);

#endif
