/* pool2d.h: max and average pooling of channels-last images.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* The taps of an output position that lie inside [0, size): [*first, *last), maybe none. */
static inline void fxrt_pool2d_range(int start, int k, int dilation, int size, int *first, int *last)
{
    if (start >= 0 && start + (k - 1) * dilation < size) { /* as most do: without dividing */
        *first = 0;
        *last = k;
        return;
    }
    *first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    *last = fxrt_min_int(k, size > start ? (size - start + dilation - 1) / dilation : 0);
    *last = fxrt_max_int(*last, *first);
}

/* One output row: the maximum of each window; NaN wins. */
static inline void fxrt_max_pool2d_row(const fxrt_pool2d_desc *d, const float *x, float *y, int oy)
{
    const int iy = oy * d->sh - d->ph;
    int r0, r1;
    fxrt_pool2d_range(iy, d->kh, d->dh, d->ih, &r0, &r1);
    for (int ox = 0; ox < d->ow; ox++) {
        const int ix = ox * d->sw - d->pw;
        int c0, c1;
        fxrt_pool2d_range(ix, d->kw, d->dw, d->iw, &c0, &c1);
        for (int c = 0; c < d->c; c += FXRT_LANES) {
            const int n = d->c - c;
            fxrt_v m = fxrt_v_set1(-INFINITY);
            for (int r = r0; r < r1; r++)
                for (int k = c0; k < c1; k++) {
                    const float *in = x + ((ptrdiff_t)(iy + r * d->dh) * d->xs_h + (ptrdiff_t)(ix + k * d->dw) * d->xs_w + c);
                    m = fxrt_v_maxnan(m, n >= FXRT_LANES ? fxrt_v_load(in) : fxrt_v_load_n(in, n));
                }
            if (n >= FXRT_LANES)
                fxrt_v_store(y + (ptrdiff_t)ox * d->ys_w + c, m);
            else
                fxrt_v_store_n(y + (ptrdiff_t)ox * d->ys_w + c, m, n);
        }
    }
}

/* One output row: the mean of each window. Windows end at the padding's edge, and count up to there or up to the image's edge. */
static inline void fxrt_avg_pool2d_row(const fxrt_pool2d_desc *d, const float *x, float *y, int oy)
{
    const int y0 = oy * d->sh - d->ph, y1 = fxrt_min_int(y0 + d->kh, d->ih + d->ph);
    const int r0 = fxrt_max_int(y0, 0), r1 = fxrt_min_int(y1, d->ih);
    for (int ox = 0; ox < d->ow; ox++) {
        const int x0 = ox * d->sw - d->pw, x1 = fxrt_min_int(x0 + d->kw, d->iw + d->pw);
        const int c0 = fxrt_max_int(x0, 0), c1 = fxrt_min_int(x1, d->iw);
        const int counted = d->divisor ? d->divisor : d->count_include_pad ? (y1 - y0) * (x1 - x0) : (r1 - r0) * (c1 - c0);
        const int empty = r0 >= r1 || c0 >= c1;
        const fxrt_v divisor = fxrt_v_set1(empty ? 1.0f : (float)counted);
        for (int c = 0; c < d->c; c += FXRT_LANES) {
            const int n = d->c - c;
            fxrt_v s = fxrt_v_set1(0.0f);
            for (int r = r0; r < r1; r++)
                for (int k = c0; k < c1; k++) {
                    const float *in = x + ((ptrdiff_t)r * d->xs_h + (ptrdiff_t)k * d->xs_w + c);
                    s = fxrt_v_add(s, n >= FXRT_LANES ? fxrt_v_load(in) : fxrt_v_load_n(in, n));
                }
            s = fxrt_v_div(s, divisor);
            if (n >= FXRT_LANES)
                fxrt_v_store(y + (ptrdiff_t)ox * d->ys_w + c, s);
            else
                fxrt_v_store_n(y + (ptrdiff_t)ox * d->ys_w + c, s, n);
        }
    }
}

FXRT_KERNEL void fxrt_max_pool2d(const fxrt_pool2d_desc *d, const float *x, float *y)
{
    const ptrdiff_t rows = (ptrdiff_t)d->n * d->oh;
#ifdef _OPENMP
    const double work = (double)rows * d->ow * d->c * d->kh * d->kw;
    _Pragma("omp parallel for schedule(static) if (work > 5e5)")
#endif
    for (ptrdiff_t row = 0; row < rows; row++) {
        const ptrdiff_t n = row / d->oh, oy = row % d->oh;
        fxrt_max_pool2d_row(d, x + n * d->xs_n, y + (n * d->ys_n + oy * d->ys_h), (int)oy);
    }
}

FXRT_KERNEL void fxrt_avg_pool2d(const fxrt_pool2d_desc *d, const float *x, float *y)
{
    const ptrdiff_t rows = (ptrdiff_t)d->n * d->oh;
#ifdef _OPENMP
    const double work = (double)rows * d->ow * d->c * d->kh * d->kw;
    _Pragma("omp parallel for schedule(static) if (work > 5e5)")
#endif
    for (ptrdiff_t row = 0; row < rows; row++) {
        const ptrdiff_t n = row / d->oh, oy = row % d->oh;
        fxrt_avg_pool2d_row(d, x + n * d->xs_n, y + (n * d->ys_n + oy * d->ys_h), (int)oy);
    }
}
