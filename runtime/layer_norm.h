/* layer_norm.h: layer norm over the last dimension.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

FXRT_INLINE void fxrt_layer_norm_row(const fxrt_layer_norm_desc *d, const float *x, const float *w, const float *b, float *y)
{
    const int n = d->n, whole = n / FXRT_LANES * FXRT_LANES, rest = n - whole;
    fxrt_v s = fxrt_v_set1(0.0f);
    for (int i = 0; i < whole; i += FXRT_LANES)
        s = fxrt_v_add(s, fxrt_v_load(x + i));
    if (rest)
        s = fxrt_v_add(s, fxrt_v_load_n(x + whole, rest));
    const float mean = fxrt_v_sum(s) / (float)n;
    fxrt_v q = fxrt_v_set1(0.0f);
    for (int i = 0; i < whole; i += FXRT_LANES) {
        const fxrt_v t = fxrt_v_sub(fxrt_v_load(x + i), fxrt_v_set1(mean));
        q = fxrt_v_fma(t, t, q);
    }
    float sum = fxrt_v_sum(q);
    for (int i = whole; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    const float scale = 1 / sqrtf(sum / (float)n + d->eps);
    for (int i = 0; i < n; i++) {
        const float t = (x[i] - mean) * scale;
        y[i] = (w ? t * w[i] : t) + (b ? b[i] : 0);
    }
}

FXRT_KERNEL void fxrt_layer_norm(const fxrt_layer_norm_desc *d, const float *x, const float *w, const float *b, float *y)
{
#ifdef _OPENMP
    const double work = (double)d->rows * d->n;
    _Pragma("omp parallel for schedule(static) if (work > 1e5)")
#endif
    for (ptrdiff_t row = 0; row < d->rows; row++)
        fxrt_layer_norm_row(d, x + row * d->x_m, w, b, y + row * d->y_m);
}
