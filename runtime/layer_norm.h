/* layer_norm.h: layer norm and root mean square norm over the last dimension.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * y may be x: a row is read whole before any of it is written, element by element. */

/* The sum of (x - mean)^2. */
FXRT_INLINE float fxrt_norm_squares(const float *x, int n, float mean)
{
    const int pairs = n / (2 * FXRT_LANES) * (2 * FXRT_LANES);
    const fxrt_v m = fxrt_v_set1(mean);
    fxrt_v q0 = fxrt_v_set1(0.0f), q1 = q0;
    for (int i = 0; i < pairs; i += 2 * FXRT_LANES) {
        const fxrt_v t0 = fxrt_v_sub(fxrt_v_load(x + i), m), t1 = fxrt_v_sub(fxrt_v_load(x + i + FXRT_LANES), m);
        q0 = fxrt_v_fma(t0, t0, q0);
        q1 = fxrt_v_fma(t1, t1, q1);
    }
    float sum = fxrt_v_sum(fxrt_v_add(q0, q1));
    for (int i = pairs; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

/* y = (x - mean) * scale * w + b; w and b may be NULL. */
FXRT_INLINE void fxrt_norm_apply(const float *x, int n, float mean, float scale, const float *w, const float *b, float *y)
{
    const fxrt_v m = fxrt_v_set1(mean), s = fxrt_v_set1(scale);
    for (int i = 0; i < n; i += FXRT_LANES) {
        fxrt_v t = fxrt_v_mul(fxrt_v_sub(fxrt_v_load_some(x + i, n - i), m), s);
        if (w)
            t = fxrt_v_mul(t, fxrt_v_load_some(w + i, n - i));
        if (b)
            t = fxrt_v_add(t, fxrt_v_load_some(b + i, n - i));
        fxrt_v_store_some(y + i, t, n - i);
    }
}

FXRT_INLINE float fxrt_norm_mean(const float *x, int n)
{
    const int pairs = n / (2 * FXRT_LANES) * (2 * FXRT_LANES);
    fxrt_v s0 = fxrt_v_set1(0.0f), s1 = s0;
    for (int i = 0; i < pairs; i += 2 * FXRT_LANES) {
        s0 = fxrt_v_add(s0, fxrt_v_load(x + i));
        s1 = fxrt_v_add(s1, fxrt_v_load(x + i + FXRT_LANES));
    }
    float sum = fxrt_v_sum(fxrt_v_add(s0, s1));
    for (int i = pairs; i < n; i++)
        sum += x[i];
    return sum / (float)n;
}

FXRT_KERNEL void fxrt_layer_norm(const fxrt_layer_norm_desc *d, const float *x, const float *w, const float *b, float *y)
{
#ifdef _OPENMP
    const double work = (double)d->rows * d->n;
    _Pragma("omp parallel for schedule(static) if (work > 1e5)")
#endif
    for (ptrdiff_t row = 0; row < d->rows; row++) {
        const float *from = x + row * d->x_m;
        const float mean = fxrt_norm_mean(from, d->n);
        const float scale = 1 / sqrtf(fxrt_norm_squares(from, d->n, mean) / (float)d->n + d->eps);
        fxrt_norm_apply(from, d->n, mean, scale, w, b, y + row * d->y_m);
    }
}

FXRT_KERNEL void fxrt_rms_norm(const fxrt_layer_norm_desc *d, const float *x, const float *w, float *y)
{
#ifdef _OPENMP
    const double work = (double)d->rows * d->n;
    _Pragma("omp parallel for schedule(static) if (work > 1e5)")
#endif
    for (ptrdiff_t row = 0; row < d->rows; row++) {
        const float *from = x + row * d->x_m;
        const float scale = 1 / sqrtf(fxrt_norm_squares(from, d->n, 0) / (float)d->n + d->eps);
        fxrt_norm_apply(from, d->n, 0, scale, w, NULL, y + row * d->y_m);
    }
}
