/* adaptive_pool2d.h: pooling to a given size; 1 x 1 is the global pool.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* Output o of `out` covers inputs [floor(o in / out), ceil((o + 1) in / out)). */
static inline int fxrt_adaptive_first(int o, int in, int out) { return (int)((int64_t)o * in / out); }
static inline int fxrt_adaptive_last(int o, int in, int out) { return (int)(((int64_t)(o + 1) * in + out - 1) / out); }

/* One window, all channels. `max`: the maximum, where NaN wins; else the mean. */
FXRT_INLINE void fxrt_adaptive_window(const int max, const fxrt_resize2d_desc *d, const float *x, float *y, int oy, int ox)
{
    const int y0 = fxrt_adaptive_first(oy, d->ih, d->oh), y1 = fxrt_adaptive_last(oy, d->ih, d->oh);
    const int x0 = fxrt_adaptive_first(ox, d->iw, d->ow), x1 = fxrt_adaptive_last(ox, d->iw, d->ow);
    const fxrt_v rows = fxrt_v_set1((float)(y1 - y0)), cols = fxrt_v_set1((float)(x1 - x0));
    for (int c = 0; c < d->c; c += FXRT_LANES) {
        const int n = d->c - c;
        fxrt_v s = fxrt_v_set1(max ? -INFINITY : 0.0f);
        for (int r = y0; r < y1; r++) {
            const float *in = x + ((ptrdiff_t)r * d->xs_h + (ptrdiff_t)x0 * d->xs_w + c);
            for (int k = x0; k < x1; k++, in += d->xs_w) {
                const fxrt_v v = n >= FXRT_LANES ? fxrt_v_load(in) : fxrt_v_load_n(in, n);
                s = max ? fxrt_v_maxnan(s, v) : fxrt_v_add(s, v);
            }
        }
        if (!max)
            s = fxrt_v_div(fxrt_v_div(s, rows), cols);
        if (n >= FXRT_LANES)
            fxrt_v_store(y + c, s);
        else
            fxrt_v_store_n(y + c, s, n);
    }
}

FXRT_INLINE void fxrt_adaptive_pool2d(const int max, const fxrt_resize2d_desc *d, const float *x, float *y)
{
    const ptrdiff_t rows = (ptrdiff_t)d->n * d->oh;
    for (ptrdiff_t row = 0; row < rows; row++) {
        const ptrdiff_t n = row / d->oh, oy = row % d->oh;
        for (int ox = 0; ox < d->ow; ox++)
            fxrt_adaptive_window(max, d, x + n * d->xs_n, y + (n * d->ys_n + oy * d->ys_h + (ptrdiff_t)ox * d->ys_w), (int)oy, ox);
    }
}

FXRT_KERNEL void fxrt_adaptive_avg_pool2d(const fxrt_resize2d_desc *d, const float *x, float *y) { fxrt_adaptive_pool2d(0, d, x, y); }
FXRT_KERNEL void fxrt_adaptive_max_pool2d(const fxrt_resize2d_desc *d, const float *x, float *y) { fxrt_adaptive_pool2d(1, d, x, y); }
