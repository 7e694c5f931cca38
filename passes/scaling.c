/* passes/scaling.c: the arithmetic of putting batch norm and per-channel scales and shifts into weights.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "passes/scaling.h"

bool fx_scaling_is_finite(const fx_scaling *a)
{
    for (int64_t i = 0; i < a->count; i++)
        if ((a->scale && !isfinite(a->scale[i])) || (a->shift && !isfinite(a->shift[i])))
            return false;
    return true;
}

fx_status fx_scaling_of_batch_norm(fx_context *ctx, fx_arena *scratch, int64_t channels, const fx_tensor *gamma, const fx_tensor *beta,
                                  const fx_tensor *mean, const fx_tensor *var, double eps, fx_scaling *out)
{
    const fx_tensor *given[] = {gamma, beta, mean, var};
    fx_tensor t[4];
    for (int i = 0; i < 4; i++) {
        if (!given[i])
            continue;
        t[i] = *given[i];
        FX_TRY(fx_tensor_touch(ctx, &t[i]));
    }
    *out = (fx_scaling){channels, FX_NEW_ARRAY(scratch, double, channels + 1), FX_NEW_ARRAY(scratch, double, channels + 1)};
    for (int64_t i = 0; i < channels; i++) {
        out->scale[i] = (gamma ? fx_tensor_get(&t[0], i) : 1) / sqrt(fx_tensor_get(&t[3], i) + eps);
        out->shift[i] = (beta ? fx_tensor_get(&t[1], i) : 0) - fx_tensor_get(&t[2], i) * out->scale[i];
    }
    return FX_OK;
}

/* A weight's rows are output channels, or, transposed, pairs of an input channel and an output channel of its group. piece: one, for *r. */
static fx_status scaled_rows(fx_context *ctx, fx_arena *scratch, const fx_tensor *weight, bool transposed, int64_t groups, const fx_scaling *a,
                             fx_row_piece *piece, fx_weight_rows *r)
{
    const int64_t *sizes = weight->sizes, n = transposed ? sizes[0] * sizes[1] : sizes[0];
    double *scale = FX_NEW_ARRAY(scratch, double, n + 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t channel = transposed ? i / sizes[1] / (sizes[0] / groups) * sizes[1] + i % sizes[1] : i;
        scale[i] = a->scale[a->count == 1 ? 0 : channel];
    }
    *piece = (fx_row_piece){.t = *weight, .rows = n};
    *r = (fx_weight_rows){.n = n, .width = n ? fx_tensor_numel(weight) / n : 0, .n_pieces = 1, .pieces = piece, .scale = scale};
    return fx_tensor_is_contiguous(weight) ? FX_OK : fx_tensor_contiguous(ctx, weight, &piece->t);
}

fx_status fx_scaled_weight_later(fx_context *ctx, fx_arena *scratch, const fx_tensor *weight, bool transposed, int64_t groups, const fx_scaling *a,
                                 fx_tensor *out)
{
    fx_row_piece piece;
    fx_weight_rows r;
    FX_TRY(scaled_rows(ctx, scratch, weight, transposed, groups, a, &piece, &r));
    return fx_weight_rows_later(ctx, &r, weight->rank, weight->sizes, out);
}

fx_status fx_scaled_weight(fx_context *ctx, fx_arena *scratch, const fx_tensor *weight, bool transposed, int64_t groups, const fx_scaling *a, fx_tensor *out)
{
    fx_row_piece piece;
    fx_weight_rows r;
    FX_TRY(scaled_rows(ctx, scratch, weight, transposed, groups, a, &piece, &r));
    FX_TRY(fx_tensor_touch(ctx, &piece.t));
    FX_TRY(fx_tensor_create(ctx, weight->dtype, weight->rank, weight->sizes, out));
    if (weight->dtype == FX_F32)
        fx_weight_rows_make(&r, 0, r.n, out->data);
    else
        for (int64_t i = 0; i < r.n * r.width; i++)
            fx_tensor_set(out, i, fx_tensor_get(&piece.t, i) * r.scale[i / r.width]);
    return FX_OK;
}

fx_status fx_scaled_bias(fx_context *ctx, const fx_tensor *bias, fx_dtype dtype, int64_t channels, const fx_scaling *a, fx_tensor *out)
{
    fx_tensor b = {0};
    if (bias) {
        b = *bias;
        FX_TRY(fx_tensor_touch(ctx, &b));
    }
    FX_TRY(fx_tensor_create(ctx, dtype, 1, &channels, out));
    for (int64_t i = 0; i < channels; i++) {
        int64_t c = a->count == 1 ? 0 : i;
        fx_tensor_set(out, i, (bias ? fx_tensor_get(&b, i) : 0) * (a->scale ? a->scale[c] : 1) + (a->shift ? a->shift[c] : 0));
    }
    return FX_OK;
}
