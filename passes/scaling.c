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

/* Eight at a time: compilers make vectors of a count they know. */
static void scale_row(float *restrict to, const float *restrict from, int64_t n, double scale)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            to[i + k] = (float)(from[i + k] * scale);
    for (; i < n; i++)
        to[i] = (float)(from[i] * scale);
}

fx_status fx_scaled_weight(fx_context *ctx, const fx_tensor *weight, bool transposed, int64_t groups, const fx_scaling *a, fx_tensor *out)
{
    fx_tensor dense;
    int64_t inner = 1, rows = transposed ? weight->sizes[0] * weight->sizes[1] : weight->sizes[0];
    FX_TRY(fx_tensor_contiguous(ctx, weight, &dense));
    FX_TRY(fx_tensor_create(ctx, weight->dtype, weight->rank, weight->sizes, out));
    for (int i = transposed ? 2 : 1; i < weight->rank; i++)
        inner *= weight->sizes[i];
    for (int64_t r = 0; r < rows; r++) {
        int64_t channel = r;
        if (transposed)
            channel = r / weight->sizes[1] / (weight->sizes[0] / groups) * weight->sizes[1] + r % weight->sizes[1];
        double scale = a->scale[a->count == 1 ? 0 : channel];
        if (weight->dtype == FX_F32) {
            scale_row((float *)out->data + r * inner, (const float *)dense.data + r * inner, inner, scale);
        } else {
            for (int64_t i = r * inner; i < (r + 1) * inner; i++)
                fx_tensor_set(out, i, fx_tensor_get(&dense, i) * scale);
        }
    }
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
