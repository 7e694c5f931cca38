/* pack.c: weights and biases in the order the kernels read them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "fxcc/runtime.h"

static size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

size_t fxrt_conv2d_packed_size(const fxrt_conv2d_desc *d, const fxrt_tile *t)
{
    return (size_t)d->groups * round_up((size_t)d->oc, (size_t)t->nr) * (size_t)d->kh * (size_t)d->kw * (size_t)d->ic;
}

/* Panels [group][oc / nr][kh][kw][ic][nr] from weights whose element (g, o, i, tap) is w[g * s_g + o * s_o + i * s_i + tap]. */
static void pack_panels(const fxrt_conv2d_desc *d, const fxrt_tile *t, const float *w, size_t s_g, size_t s_o, size_t s_i,
                        float *packed)
{
    const size_t nr = (size_t)t->nr, oc = (size_t)d->oc, taps = (size_t)d->kh * (size_t)d->kw;
    for (size_t g = 0; g < (size_t)d->groups; g++)
        for (size_t column = 0; column < oc; column += nr)
            for (size_t tap = 0; tap < taps; tap++)
                for (size_t i = 0; i < (size_t)d->ic; i++)
                    for (size_t j = 0; j < nr; j++)
                        *packed++ = column + j < oc ? w[g * s_g + (column + j) * s_o + i * s_i + tap] : 0.0f;
}

void fxrt_conv2d_pack(const fxrt_conv2d_desc *d, const fxrt_tile *t, const float *w, float *packed)
{
    const size_t taps = (size_t)d->kh * (size_t)d->kw, ic = (size_t)d->ic, oc = (size_t)d->oc;
    pack_panels(d, t, w, oc * ic * taps, ic * taps, taps, packed);
}

size_t fxrt_conv_transpose2d_packed_size(const fxrt_conv2d_desc *d, const fxrt_tile *t) { return fxrt_conv2d_packed_size(d, t); }

void fxrt_conv_transpose2d_pack(const fxrt_conv2d_desc *d, const fxrt_tile *t, const float *w, float *packed)
{
    const size_t taps = (size_t)d->kh * (size_t)d->kw, ic = (size_t)d->ic, oc = (size_t)d->oc;
    pack_panels(d, t, w, ic * oc * taps, taps, oc * taps, packed);
}

size_t fxrt_conv2d_dw_packed_size(const fxrt_conv2d_desc *d, const fxrt_tile *t)
{
    return (size_t)d->kh * (size_t)d->kw * round_up((size_t)d->groups, (size_t)t->lanes);
}

void fxrt_conv2d_dw_pack(const fxrt_conv2d_desc *d, const fxrt_tile *t, const float *w, float *packed)
{
    const size_t taps = (size_t)d->kh * (size_t)d->kw, channels = (size_t)d->groups;
    const size_t padded = round_up(channels, (size_t)t->lanes);
    for (size_t tap = 0; tap < taps; tap++)
        for (size_t c = 0; c < padded; c++)
            *packed++ = c < channels ? w[c * taps + tap] : 0.0f;
}

size_t fxrt_gemm_packed_size(const fxrt_gemm_desc *d, const fxrt_tile *t)
{
    return round_up((size_t)d->n, (size_t)t->nr) * (size_t)d->k;
}

void fxrt_gemm_pack(const fxrt_gemm_desc *d, const fxrt_tile *t, const float *w, float *packed)
{
    for (int64_t column = 0; column < d->n; column += t->nr)
        for (int64_t p = 0; p < d->k; p++)
            for (int64_t j = column; j < column + t->nr; j++)
                *packed++ = j < d->n ? w[p * d->w_k + j * d->w_n] : 0.0f;
}

size_t fxrt_bias_packed_size(int32_t groups, int32_t n, int32_t multiple)
{
    return (size_t)groups * round_up((size_t)n, (size_t)multiple);
}

void fxrt_bias_pack(int32_t groups, int32_t n, int32_t multiple, const float *b, float *packed)
{
    const size_t padded = round_up((size_t)n, (size_t)multiple);
    for (size_t g = 0; g < (size_t)groups; g++)
        for (size_t i = 0; i < padded; i++)
            *packed++ = i < (size_t)n ? b[g * (size_t)n + i] : 0.0f;
}
