/* upsample2d.h: nearest and bilinear resampling of channels-last images, by PyTorch's index rules.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

static inline int fxrt_upsample_nearest_index(int o, int in, int out, float scale)
{
    if (out == in)
        return o;
    if ((int64_t)out == 2 * (int64_t)in)
        return o >> 1;
    return fxrt_min_int((int)floorf((float)o * scale), in - 1);
}

/* Output o lies between inputs *i0 and *i1, at weight *t of the second. */
static inline void fxrt_upsample_linear_index(int o, int in, int out, float scale, int align_corners, int *i0, int *i1, float *t)
{
    if (out == in) {
        *i0 = *i1 = o;
        *t = 0;
        return;
    }
    float at = scale * (float)o;
    if (!align_corners) {
        at = scale * ((float)o + 0.5f) - 0.5f;
        at = at < 0 ? 0 : at;
    }
    *i0 = fxrt_min_int((int)at, in - 1);
    *i1 = fxrt_min_int(*i0 + 1, in - 1);
    at -= (float)*i0;
    *t = at < 0 ? 0 : at > 1 ? 1 : at;
}

FXRT_KERNEL void fxrt_upsample_nearest2d(const fxrt_resize2d_desc *d, const float *x, float *y)
{
    const ptrdiff_t rows = (ptrdiff_t)d->n * d->oh;
    for (ptrdiff_t row = 0; row < rows; row++) {
        const ptrdiff_t n = row / d->oh, oy = row % d->oh;
        const float *in = x + (n * d->xs_n + (ptrdiff_t)fxrt_upsample_nearest_index((int)oy, d->ih, d->oh, d->scale_h) * d->xs_h);
        float *out = y + (n * d->ys_n + oy * d->ys_h);
        for (int ox = 0; ox < d->ow; ox++, out += d->ys_w)
            memcpy(out, in + (ptrdiff_t)fxrt_upsample_nearest_index(ox, d->iw, d->ow, d->scale_w) * d->xs_w,
                   (size_t)d->c * sizeof(float));
    }
}

FXRT_KERNEL void fxrt_upsample_bilinear2d(const fxrt_resize2d_desc *d, const float *x, float *y)
{
    const ptrdiff_t rows = (ptrdiff_t)d->n * d->oh;
    for (ptrdiff_t row = 0; row < rows; row++) {
        const ptrdiff_t n = row / d->oh, oy = row % d->oh;
        int y0, y1, x0, x1;
        float ty, tx;
        fxrt_upsample_linear_index((int)oy, d->ih, d->oh, d->scale_h, d->align_corners, &y0, &y1, &ty);
        const float *top = x + (n * d->xs_n + (ptrdiff_t)y0 * d->xs_h), *bottom = x + (n * d->xs_n + (ptrdiff_t)y1 * d->xs_h);
        float *out = y + (n * d->ys_n + oy * d->ys_h);
        for (int ox = 0; ox < d->ow; ox++, out += d->ys_w) {
            fxrt_upsample_linear_index(ox, d->iw, d->ow, d->scale_w, d->align_corners, &x0, &x1, &tx);
            const float *a = top + (ptrdiff_t)x0 * d->xs_w, *b = top + (ptrdiff_t)x1 * d->xs_w;
            const float *e = bottom + (ptrdiff_t)x0 * d->xs_w, *f = bottom + (ptrdiff_t)x1 * d->xs_w;
            for (int c = 0; c < d->c; c++)
                out[c] = (1 - ty) * ((1 - tx) * a[c] + tx * b[c]) + ty * ((1 - tx) * e[c] + tx * f[c]);
        }
    }
}
