/* pack.c: weights and biases in the order the kernels read them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "fxcc/runtime.h"

static size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

size_t fxrt_conv2d_packed_size(const fxrt_conv2d_desc *d, const fxrt_tile *t)
{
    return (size_t)d->groups * round_up((size_t)d->oc, (size_t)t->nr) * (size_t)d->kh * (size_t)d->kw * (size_t)d->ic;
}

#if defined(__SSE2__)
#include <emmintrin.h>

/* Sixteen elements of each of four rows become columns of sixteen rows. */
static void turn(const float *w, size_t stride, float *const to[16], size_t column)
{
    for (int k = 0; k < 16; k += 4) {
        __m128 a = _mm_loadu_ps(w + k), b = _mm_loadu_ps(w + stride + k), c = _mm_loadu_ps(w + 2 * stride + k), d = _mm_loadu_ps(w + 3 * stride + k);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        _mm_storeu_ps(to[k] + column, a);
        _mm_storeu_ps(to[k + 1] + column, b);
        _mm_storeu_ps(to[k + 2] + column, c);
        _mm_storeu_ps(to[k + 3] + column, d);
    }
}
#else
static void turn(const float *w, size_t stride, float *const to[16], size_t column)
{
    for (size_t j = 0; j < 4; j++)
        for (size_t k = 0; k < 16; k++)
            to[k][column + j] = w[j * stride + k];
}
#endif

/* Columns [0, n) of a panel, n <= nr, from as many rows of elements w[j * s_o + i * s_i + tap * s_t]; behind them zeros. */
static void pack_panel(size_t n, size_t nr, size_t taps, size_t ic, const float *w, size_t s_o, size_t s_i, size_t s_t, float *packed)
{
    size_t done = 0;
    if (n == nr && nr % 4 == 0 && s_i == taps && (taps == 1 || s_t == 1)) {
        /* Rows lie far apart, often by a power of two, of which the nearest cache holds few: of each a whole cache line at a time. */
        size_t i = 0, tap = 0;
        for (; done + 16 <= taps * ic; done += 16) {
            float *to[16];
            for (int k = 0; k < 16; k++) {
                to[k] = packed + (tap * ic + i) * nr;
                i += ++tap == taps;
                tap = tap == taps ? 0 : tap;
            }
            for (size_t j = 0; j < nr; j += 4)
                turn(w + j * s_o + done, s_o, to, j);
        }
    }
    if (n == nr && taps == 1 && s_o == 1)
        for (; done < ic; done++)
            memcpy(packed + done * nr, w + done * s_i, nr * sizeof *w);
    for (size_t i = done / taps; i < ic; i++)
        for (size_t tap = i == done / taps ? done % taps : 0; tap < taps; tap++)
            for (size_t j = 0; j < nr; j++)
                packed[(tap * ic + i) * nr + j] = j < n ? w[j * s_o + i * s_i + tap * s_t] : 0.0f;
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
