/* conv2d_dw.h: depthwise convolution of channels-last images: each channel by its own kernel.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Vectors run over channels. Several neighbouring output pixels are summed at once, so that a weight is loaded once for
 * all of them; taps outside the image are left out. Weights are [kh][kw][channels padded to lanes]. */

enum { FXRT_DW_PIXELS = 4 };

/* Stores act(acc + r) of n channels. */
FXRT_INLINE void fxrt_conv2d_dw_end(const fxrt_conv2d_desc *d, fxrt_v acc, float *y, const float *r, int n)
{
    if (r)
        acc = fxrt_v_add(acc, n >= FXRT_LANES ? fxrt_v_load(r) : fxrt_v_load_n(r, n));
    if (d->act == FXRT_ACT_RELU)
        acc = fxrt_v_max(acc, fxrt_v_set1(0.0f));
    else if (d->act == FXRT_ACT_CLAMP)
        acc = fxrt_v_min(fxrt_v_max(acc, fxrt_v_set1(d->act_a)), fxrt_v_set1(d->act_b));
    if (n >= FXRT_LANES)
        fxrt_v_store(y, acc);
    else
        fxrt_v_store_n(y, acc, n);
}

/* One row of output pixels: x is the image, y and r the rows. */
FXRT_INLINE void fxrt_conv2d_dw_row(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r,
                                    float *y, int oy)
{
    const int c_all = d->groups;
    const ptrdiff_t w_tap = (ptrdiff_t)(c_all + FXRT_LANES - 1) / FXRT_LANES * FXRT_LANES;
    const int iy0 = oy * d->sh - d->ph;
    int k_first = 0, k_last = d->kh; /* kernel rows inside the image */
    while (k_first < k_last && iy0 + k_first * d->dh < 0)
        k_first++;
    while (k_last > k_first && iy0 + (k_last - 1) * d->dh >= d->ih)
        k_last--;
    for (int ox = 0; ox < d->ow;) {
        const int ix0 = ox * d->sw - d->pw;
        /* All taps of FXRT_DW_PIXELS pixels inside? */
        const int whole = ox + FXRT_DW_PIXELS <= d->ow && ix0 >= 0 &&
                          ix0 + (FXRT_DW_PIXELS - 1) * d->sw + (d->kw - 1) * d->dw < d->iw;
        if (whole) {
            const ptrdiff_t step = (ptrdiff_t)d->sw * d->xs_w;
            for (int c = 0; c < c_all; c += FXRT_LANES) {
                const int n = c_all - c;
                fxrt_v s0 = b ? fxrt_v_load(b + c) : fxrt_v_set1(0.0f), s1 = s0, s2 = s0, s3 = s0;
                for (int kr = k_first; kr < k_last; kr++) {
                    const float *in = x + ((ptrdiff_t)(iy0 + kr * d->dh) * d->xs_h + (ptrdiff_t)ix0 * d->xs_w + c);
                    const float *wk = w + ((ptrdiff_t)kr * d->kw * w_tap + c);
                    for (int kc = 0; kc < d->kw; kc++, in += (ptrdiff_t)d->dw * d->xs_w, wk += w_tap) {
                        const fxrt_v wv = fxrt_v_load(wk);
                        if (n >= FXRT_LANES) {
                            s0 = fxrt_v_fma(fxrt_v_load(in), wv, s0);
                            s1 = fxrt_v_fma(fxrt_v_load(in + step), wv, s1);
                            s2 = fxrt_v_fma(fxrt_v_load(in + 2 * step), wv, s2);
                            s3 = fxrt_v_fma(fxrt_v_load(in + 3 * step), wv, s3);
                        } else {
                            s0 = fxrt_v_fma(fxrt_v_load_n(in, n), wv, s0);
                            s1 = fxrt_v_fma(fxrt_v_load_n(in + step, n), wv, s1);
                            s2 = fxrt_v_fma(fxrt_v_load_n(in + 2 * step, n), wv, s2);
                            s3 = fxrt_v_fma(fxrt_v_load_n(in + 3 * step, n), wv, s3);
                        }
                    }
                }
                float *out = y + (ptrdiff_t)ox * d->ys_w + c;
                const float *res = r ? r + (ptrdiff_t)ox * d->rs_w + c : NULL;
                fxrt_conv2d_dw_end(d, s0, out, res, n);
                fxrt_conv2d_dw_end(d, s1, out + d->ys_w, res ? res + d->rs_w : NULL, n);
                fxrt_conv2d_dw_end(d, s2, out + 2 * (ptrdiff_t)d->ys_w, res ? res + 2 * (ptrdiff_t)d->rs_w : NULL, n);
                fxrt_conv2d_dw_end(d, s3, out + 3 * (ptrdiff_t)d->ys_w, res ? res + 3 * (ptrdiff_t)d->rs_w : NULL, n);
            }
            ox += FXRT_DW_PIXELS;
            continue;
        }
        int c_first = 0, c_last = d->kw; /* kernel columns inside the image */
        while (c_first < c_last && ix0 + c_first * d->dw < 0)
            c_first++;
        while (c_last > c_first && ix0 + (c_last - 1) * d->dw >= d->iw)
            c_last--;
        for (int c = 0; c < c_all; c += FXRT_LANES) {
            const int n = c_all - c;
            fxrt_v s0 = b ? fxrt_v_load(b + c) : fxrt_v_set1(0.0f);
            for (int kr = k_first; kr < k_last; kr++)
                for (int kc = c_first; kc < c_last; kc++) {
                    const float *in = x + ((ptrdiff_t)(iy0 + kr * d->dh) * d->xs_h + (ptrdiff_t)(ix0 + kc * d->dw) * d->xs_w + c);
                    s0 = fxrt_v_fma(n >= FXRT_LANES ? fxrt_v_load(in) : fxrt_v_load_n(in, n),
                                    fxrt_v_load(w + (((ptrdiff_t)kr * d->kw + kc) * w_tap + c)), s0);
                }
            fxrt_conv2d_dw_end(d, s0, y + (ptrdiff_t)ox * d->ys_w + c, r ? r + (ptrdiff_t)ox * d->rs_w + c : NULL, n);
        }
        ox++;
    }
    if (d->act != FXRT_ACT_NONE && d->act != FXRT_ACT_RELU && d->act != FXRT_ACT_CLAMP)
        for (int ox = 0; ox < d->ow; ox++)
            fxrt_act_apply(y + (ptrdiff_t)ox * d->ys_w, c_all, d->act, d->act_a, d->act_b);
}

FXRT_KERNEL void fxrt_conv2d_dw(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y,
                                float *ws)
{
    (void)ws;
    const ptrdiff_t rows = (ptrdiff_t)d->n * d->oh;
#ifdef _OPENMP
    const double work = (double)rows * d->ow * d->groups * d->kh * d->kw;
    _Pragma("omp parallel for schedule(static) if (work > 5e5)")
#endif
    for (ptrdiff_t row = 0; row < rows; row++) {
        const ptrdiff_t n = row / d->oh, oy = row % d->oh;
        fxrt_conv2d_dw_row(d, x + n * d->xs_n, w, b, r ? r + (n * d->rs_n + oy * d->rs_h) : NULL, y + (n * d->ys_n + oy * d->ys_h),
                           (int)oy);
    }
}
