/* conv_cases.h: random convolutions and what they give, for the CPU's kernels (test_kernels_conv.c) and CUDA's (tests/cuda_host/test_conv.cu): C and C++.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_TEST_CONV_CASES_H
#define FXCC_TEST_CONV_CASES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../../include/fxcc/runtime.h"
#include "random.h"

typedef enum conv_kind { CONV, DEPTHWISE, TRANSPOSED } conv_kind;

/* y[n][oy][ox][channel] = act(sum + b + r) by definition, from unpacked weights in PyTorch's order; each is given to set(to, place in y, value). */
static inline void conv_reference(const fxrt_conv2d_desc *d, bool transposed, const float *x, const float *w, const float *b, const float *r,
                           void (*set)(void *to, size_t at, double value), void *to)
{
    for (int n = 0; n < d->n; n++)
        for (int g = 0; g < d->groups; g++)
            for (int o = 0; o < d->oc; o++)
                for (int oy = 0; oy < d->oh; oy++)
                    for (int ox = 0; ox < d->ow; ox++) {
                        double s = b ? (double)b[g * d->oc + o] : 0;
                        for (int kr = 0; kr < d->kh; kr++)
                            for (int kc = 0; kc < d->kw; kc++) {
                                int iy = oy * d->sh - d->ph + kr * d->dh, ix = ox * d->sw - d->pw + kc * d->dw;
                                if (transposed) {
                                    iy = oy + d->ph - kr * d->dh;
                                    ix = ox + d->pw - kc * d->dw;
                                    if (iy % d->sh || ix % d->sw)
                                        continue;
                                    iy /= d->sh;
                                    ix /= d->sw;
                                }
                                if (iy < 0 || ix < 0 || iy >= d->ih || ix >= d->iw)
                                    continue;
                                for (int i = 0; i < d->ic; i++) {
                                    const int tap = kr * d->kw + kc, taps = d->kh * d->kw;
                                    const int at = transposed ? ((g * d->ic + i) * d->oc + o) * taps + tap
                                                              : ((g * d->oc + o) * d->ic + i) * taps + tap;
                                    s += (double)w[at] * (double)x[n * d->xs_n + iy * d->xs_h + ix * d->xs_w + g * d->ic + i];
                                }
                            }
                        const int c = g * d->oc + o;
                        if (r)
                            s += (double)r[n * d->rs_n + oy * d->rs_h + ox * d->rs_w + c];
                        set(to, (size_t)(n * d->ys_n + oy * d->ys_h + ox * d->ys_w + c),
                            act_ref(d->act, s, (double)d->act_a, (double)d->act_b));
                    }
}

/* Strides of an image whose rows, pixels and channels may lie apart; returns elements from the first to past the last one. */
static inline size_t random_strides(int n, int h, int w, int c, int32_t *s_n, int32_t *s_h, int32_t *s_w)
{
    const bool dense = random_int(0, 1);
    *s_w = c + (dense ? 0 : random_int(0, 9));
    *s_h = *s_w * w + (dense ? 0 : random_int(0, 11));
    *s_n = *s_h * h + (dense ? 0 : random_int(0, 13));
    return (size_t)((n - 1) * *s_n + (h - 1) * *s_h + (w - 1) * *s_w + c);
}

/* Output size: what fits, at times less, or more than padding at the start explains (asymmetric padding, ceil mode). */
static inline int out_size(int in, int k, int s, int p, int dil)
{
    const int span = (k - 1) * dil + 1;
    int out = (in + 2 * p - span) / s + 1 + random_int(-1, 1);
    return in + 2 * p < span || out < 1 ? 1 : out;
}

static inline fxrt_conv2d_desc random_desc(conv_kind kind)
{
    static const int channels[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 65 };
    enum { N = sizeof channels / sizeof *channels };
    fxrt_conv2d_desc d;
    memset(&d, 0, sizeof d);
    d.n = random_int(1, 2);
    d.ih = random_int(1, 13);
    d.iw = random_int(1, 17);
    d.ic = channels[random_int(0, N - 1)];
    d.oc = channels[random_int(0, N - 1)];
    d.groups = random_int(0, 2) ? 1 : random_int(2, 3);
    d.kh = random_int(1, 4);
    d.kw = random_int(1, 4);
    d.sh = random_int(1, 3);
    d.sw = random_int(1, 3);
    d.dh = random_int(1, 2);
    d.dw = random_int(1, 2);
    if (random_int(0, 1)) { /* what networks have */
        d.kh = d.kw = random_int(0, 1) ? 3 : random_int(0, 1) ? 1 : 5;
        d.sh = d.sw = random_int(1, 2);
        d.dh = d.dw = 1;
    }
    d.ph = random_int(0, d.kh / 2 + 1);
    d.pw = random_int(0, d.kw / 2 + 1);
    if (kind == DEPTHWISE) {
        d.groups = channels[random_int(0, N - 1)];
        d.ic = d.oc = 1;
    }
    if (kind == TRANSPOSED) {
        d.oh = (d.ih - 1) * d.sh - 2 * d.ph + d.dh * (d.kh - 1) + 1 + random_int(0, d.sh - 1);
        d.ow = (d.iw - 1) * d.sw - 2 * d.pw + d.dw * (d.kw - 1) + 1 + random_int(0, d.sw - 1);
        d.oh = d.oh < 1 ? 1 : d.oh;
        d.ow = d.ow < 1 ? 1 : d.ow;
    } else {
        d.oh = out_size(d.ih, d.kh, d.sh, d.ph, d.dh);
        d.ow = out_size(d.iw, d.kw, d.sw, d.pw, d.dw);
    }
    random_act(&d.act, &d.act_a, &d.act_b);
    return d;
}

#endif
