/* group_norm.h: group norm of channels-last images.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* One group of one image. Sums run over many pixels: in double. */
static inline void fxrt_group_norm_one(const fxrt_group_norm_desc *d, const float *x, const float *w, const float *b, float *y)
{
    const int c = d->c / d->groups;
    double sum = 0, square = 0;
    for (ptrdiff_t p = 0; p < d->hw; p++)
        for (int i = 0; i < c; i++)
            sum += (double)x[p * d->xs_p + i];
    const double count = (double)c * d->hw, mean = sum / count;
    for (ptrdiff_t p = 0; p < d->hw; p++)
        for (int i = 0; i < c; i++) {
            const double t = (double)x[p * d->xs_p + i] - mean;
            square += t * t;
        }
    const float scale = (float)(1 / sqrt(square / count + (double)d->eps)), m = (float)mean;
    for (ptrdiff_t p = 0; p < d->hw; p++)
        for (int i = 0; i < c; i++) {
            const float t = (x[p * d->xs_p + i] - m) * scale;
            y[p * d->ys_p + i] = (w ? t * w[i] : t) + (b ? b[i] : 0);
        }
}

FXRT_KERNEL void fxrt_group_norm(const fxrt_group_norm_desc *d, const float *x, const float *w, const float *b, float *y)
{
    const ptrdiff_t units = (ptrdiff_t)d->n * d->groups, c = d->c / d->groups;
#ifdef _OPENMP
    const double work = (double)d->n * d->hw * d->c;
    _Pragma("omp parallel for schedule(static) if (work > 1e5)")
#endif
    for (ptrdiff_t unit = 0; unit < units; unit++) {
        const ptrdiff_t n = unit / d->groups, at = unit % d->groups * c;
        fxrt_group_norm_one(d, x + n * d->xs_n + at, w ? w + at : NULL, b ? b + at : NULL, y + n * d->ys_n + at);
    }
}
