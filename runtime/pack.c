/* pack.c: weights and biases in the order the kernels read them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "fxcc/runtime.h"

static size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

size_t fxrt_conv2d_packed_size(const fxrt_conv2d_desc *d, const fxrt_tile *t)
{
    return (size_t)d->groups * round_up((size_t)d->oc, (size_t)t->nr) * (size_t)d->kh * (size_t)d->kw * (size_t)d->ic;
}

/* Columns [0, n) of a panel, n <= nr, from rows k = (tap, i), element w[j * s_o + i * s_i + tap * s_t]; behind them zeros. Some i at a time, of all
 * taps: columns lie far apart, often by a power of two, of which the nearest cache holds few; each is gone through in stretches. */
static void pack_panel(size_t n, size_t nr, size_t taps, size_t ic, const float *w, size_t s_o, size_t s_i, size_t s_t, float *packed)
{
    enum { FLOATS = 4096, STRETCH = 16 };
    float part[FLOATS];
    size_t most = FLOATS / (taps * nr);
    most = most > STRETCH ? STRETCH : most;
    if (most == 0) { /* as large as that: directly */
        for (size_t tap = 0; tap < taps; tap++)
            for (size_t i = 0; i < ic; i++)
                for (size_t j = 0; j < nr; j++)
                    *packed++ = j < n ? w[j * s_o + i * s_i + tap * s_t] : 0.0f;
        return;
    }
    for (size_t k = 0; k < FLOATS; k++)
        part[k] = 0;
    for (size_t i = 0; i < ic; i += most) {
        const size_t count = ic - i < most ? ic - i : most;
        for (size_t j = 0; j < n; j++) {
            const float *from = w + j * s_o + i * s_i;
            for (size_t k = 0; k < count; k++)
                for (size_t tap = 0; tap < taps; tap++)
                    part[(tap * most + k) * nr + j] = from[k * s_i + tap * s_t];
        }
        for (size_t tap = 0; tap < taps; tap++)
            memcpy(packed + (tap * ic + i) * nr, part + tap * most * nr, count * nr * sizeof(float));
    }
}

/* Panels [group][oc / nr][kh][kw][ic][nr] from weights whose element (g, o, i, tap) is w[g * s_g + o * s_o + i * s_i + tap]. */
static void pack_panels(const fxrt_conv2d_desc *d, const fxrt_tile *t, const float *w, size_t s_g, size_t s_o, size_t s_i,
                        float *packed)
{
    const size_t nr = (size_t)t->nr, oc = (size_t)d->oc, taps = (size_t)d->kh * (size_t)d->kw, ic = (size_t)d->ic;
    for (size_t g = 0; g < (size_t)d->groups; g++)
        for (size_t column = 0; column < oc; column += nr, packed += nr * taps * ic)
            pack_panel(oc - column < nr ? oc - column : nr, nr, taps, ic, w + g * s_g + column * s_o, s_o, s_i, 1, packed);
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
    const size_t nr = (size_t)t->nr, n = (size_t)d->n, k = (size_t)d->k;
    for (size_t column = 0; column < n; column += nr, packed += nr * k)
        pack_panel(n - column < nr ? n - column : nr, nr, 1, k, w + column * (size_t)d->w_n, (size_t)d->w_n, (size_t)d->w_k, 0, packed);
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
