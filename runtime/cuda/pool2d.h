/* pool2d.h: max and average pooling of channels-last images, by windows and adaptive. Needs vec.h, reduce.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Of type T (vec.h), sums are floats. A thread makes V channels of an output position. Where windows are large (a global pool) a block does that, for 32 times V channels. */

/* The taps of one output that lie inside the image, and what their sum is divided by. */
struct fxrt_cuda_window {
    int y, x, rows, columns, dy, dx;
    float divisor;
};

/* The taps inside [0, size): *count of them (maybe none) from *at on. */
FXRT_DEVICE void fxrt_cuda_taps(int start, int k, int dilation, int size, int *at, int *count)
{
    const int first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int last = min(k, size > start ? (size - start + dilation - 1) / dilation : 0);
    *at = start + first * dilation;
    *count = max(last - first, 0);
}

/* Windows of a mean are not dilated; they end at the padding's edge, and count up to there or up to the image's edge. */
template <bool MAX> FXRT_DEVICE fxrt_cuda_window fxrt_cuda_window_of(const fxrt_pool2d_desc &d, int oy, int ox)
{
    const int y0 = oy * d.sh - d.ph, x0 = ox * d.sw - d.pw;
    fxrt_cuda_window w = {0, 0, 0, 0, MAX ? d.dh : 1, MAX ? d.dw : 1, 1.0f};
    fxrt_cuda_taps(y0, d.kh, w.dy, d.ih, &w.y, &w.rows);
    fxrt_cuda_taps(x0, d.kw, w.dx, d.iw, &w.x, &w.columns);
    const int padded = (min(y0 + d.kh, d.ih + d.ph) - y0) * (min(x0 + d.kw, d.iw + d.pw) - x0);
    if (w.rows > 0 && w.columns > 0)
        w.divisor = static_cast<float>(d.divisor ? d.divisor : d.count_include_pad ? padded : w.rows * w.columns);
    return w;
}

/* Output o of `out` covers inputs [floor(o in / out), ceil((o + 1) in / out)). */
FXRT_DEVICE void fxrt_cuda_adaptive(int o, int in, int out, int *at, int *count)
{
    *at = static_cast<int>(static_cast<long long>(o) * in / out);
    *count = static_cast<int>((static_cast<long long>(o + 1) * in + out - 1) / out) - *at;
}
template <bool MAX> FXRT_DEVICE fxrt_cuda_window fxrt_cuda_window_of(const fxrt_resize2d_desc &d, int oy, int ox)
{
    fxrt_cuda_window w = {0, 0, 0, 0, 1, 1, 1.0f};
    fxrt_cuda_adaptive(oy, d.ih, d.oh, &w.y, &w.rows);
    fxrt_cuda_adaptive(ox, d.iw, d.ow, &w.x, &w.columns);
    w.divisor = static_cast<float>(w.rows * w.columns);
    return w;
}

template <bool MAX, int V> FXRT_DEVICE void fxrt_cuda_pool_take(fxrt_cuda_vec<V> *sum, const fxrt_cuda_vec<V> &v)
{
    for (int j = 0; j < V; j++)
        sum->at[j] = MAX ? fxrt_cuda_max()(sum->at[j], v.at[j]) : sum->at[j] + v.at[j];
}
template <bool MAX, int V> FXRT_DEVICE fxrt_cuda_vec<V> fxrt_cuda_pool_none()
{
    fxrt_cuda_vec<V> sum;
    for (float &t : sum.at)
        t = MAX ? -INFINITY : 0;
    return sum;
}
template <bool MAX, int V, class T> FXRT_DEVICE void fxrt_cuda_pool_put(T *y, fxrt_cuda_vec<V> sum, float divisor)
{
    if (!MAX)
        for (float &t : sum.at)
            t /= divisor;
    fxrt_cuda_put<V>(y, sum);
}

/* A thread an output; blocks in y take images in turn. D: fxrt_pool2d_desc or fxrt_resize2d_desc. */
template <bool MAX, int V, class D, class T>
static __global__ void __launch_bounds__(128, sizeof(T) == 2 || V == 1 || !MAX ? 8 : 0) /* where ptxas may choose 32 registers, sm_80, sm_90 and sm_100 spill a few */
    fxrt_cuda_pool_points(D d, const T *__restrict__ x, T *__restrict__ y)
{
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), vectors = d.c / V, pixel = i / vectors;
    if (pixel >= d.oh * d.ow)
        return;
    const int c = i % vectors * V, oy = pixel / d.ow, ox = pixel % d.ow;
    const fxrt_cuda_window w = fxrt_cuda_window_of<MAX>(d, oy, ox);
    x += static_cast<ptrdiff_t>(w.y) * d.xs_h + static_cast<ptrdiff_t>(w.x) * d.xs_w + c;
    y += static_cast<ptrdiff_t>(oy) * d.ys_h + static_cast<ptrdiff_t>(ox) * d.ys_w + c;
    for (int n = static_cast<int>(blockIdx.y); n < d.n; n += static_cast<int>(gridDim.y)) {
        fxrt_cuda_vec<V> sum = fxrt_cuda_pool_none<MAX, V>();
        for (int r = 0; r < w.rows; r++) {
            const T *in = x + (static_cast<ptrdiff_t>(n) * d.xs_n + static_cast<ptrdiff_t>(r) * w.dy * d.xs_h);
            for (int k = 0; k < w.columns; k++, in += static_cast<ptrdiff_t>(w.dx) * d.xs_w)
                fxrt_cuda_pool_take<MAX, V>(&sum, fxrt_cuda_floats<V>(in));
        }
        fxrt_cuda_pool_put<MAX, V>(y + static_cast<ptrdiff_t>(n) * d.ys_n, sum, w.divisor);
    }
}

/* A block of 32 x 8 threads 32 times V channels of an output position: each warp takes every eighth tap, the first adds up. */
template <bool MAX, int V, class D, class T>
static __global__ void __launch_bounds__(256, sizeof(T) == 2 || V == 1 ? 4 : 0) /* as above, on sm_80 */
    fxrt_cuda_pool_windows(D d, const T *__restrict__ x, T *__restrict__ y)
{
    __shared__ fxrt_cuda_vec<V> parts[8][32];
    const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
    const int blocks = (d.c / V + 31) / 32, block = static_cast<int>(blockIdx.x);
    const int pixel = block / blocks, c = (block % blocks * 32 + lane) * V;
    const int oy = pixel / d.ow, ox = pixel % d.ow;
    const fxrt_cuda_window w = fxrt_cuda_window_of<MAX>(d, oy, ox);
    const int taps = c < d.c ? w.rows * w.columns : 0;
    x += static_cast<ptrdiff_t>(w.y) * d.xs_h + static_cast<ptrdiff_t>(w.x) * d.xs_w + c;
    y += static_cast<ptrdiff_t>(oy) * d.ys_h + static_cast<ptrdiff_t>(ox) * d.ys_w + c;
    for (int n = static_cast<int>(blockIdx.y); n < d.n; n += static_cast<int>(gridDim.y)) {
        fxrt_cuda_vec<V> sum = fxrt_cuda_pool_none<MAX, V>();
        for (int i = warp; i < taps; i += 8) {
            const ptrdiff_t row = i / w.columns * w.dy, column = i % w.columns * w.dx;
            fxrt_cuda_pool_take<MAX, V>(&sum, fxrt_cuda_floats<V>(x + (static_cast<ptrdiff_t>(n) * d.xs_n + row * d.xs_h + column * d.xs_w)));
        }
        parts[warp][lane] = sum;
        __syncthreads();
        if (warp == 0 && c < d.c) {
            for (int i = 1; i < 8; i++)
                fxrt_cuda_pool_take<MAX, V>(&sum, parts[i][lane]);
            fxrt_cuda_pool_put<MAX, V>(y + static_cast<ptrdiff_t>(n) * d.ys_n, sum, w.divisor);
        }
        __syncthreads(); /* parts may be written again */
    }
}

/* taps: of a whole window. */
template <bool MAX, int V, class D, class T>
FXRT_HOST cudaError_t fxrt_cuda_pool_launch(const D *d, long long taps, const T *x, T *y, cudaStream_t stream)
{
    const long long pixels = static_cast<long long>(d->oh) * d->ow, vectors = d->c / V;
    const unsigned images = static_cast<unsigned>(d->n < 65535 ? d->n : 65535);
    if (pixels * (vectors + 32) > INT32_MAX)
        return cudaErrorInvalidValue;
    if (taps >= 32) {
        const dim3 grid(static_cast<unsigned>(pixels * ((vectors + 31) / 32)), images);
        return FXCC_LAUNCH((fxrt_cuda_pool_windows<MAX, V, D, T>), grid, dim3(32, 8), 0, stream, *d, x, y);
    }
    const dim3 grid(static_cast<unsigned>((pixels * vectors + 127) / 128), images);
    return FXCC_LAUNCH((fxrt_cuda_pool_points<MAX, V, D, T>), grid, dim3(128), 0, stream, *d, x, y);
}
template <bool MAX, class D, class T> FXRT_HOST cudaError_t fxrt_cuda_pool_any(const D *d, long long taps, const T *x, T *y, cudaStream_t stream)
{
    if (d->n == 0 || d->oh == 0 || d->ow == 0 || d->c == 0)
        return cudaSuccess;
    if (fxrt_cuda_fours(d->c, d->xs_n, d->xs_h, d->xs_w, d->ys_n, d->ys_h, d->ys_w) && fxrt_cuda_aligned(x, y))
        return fxrt_cuda_pool_launch<MAX, 4>(d, taps, x, y, stream);
    return fxrt_cuda_pool_launch<MAX, 1>(d, taps, x, y, stream);
}

template <class T> FXRT_HOST cudaError_t fxrt_cuda_max_pool2d(const fxrt_pool2d_desc *d, const T *x, T *y, cudaStream_t stream)
{
    return fxrt_cuda_pool_any<true>(d, static_cast<long long>(d->kh) * d->kw, x, y, stream);
}
template <class T> FXRT_HOST cudaError_t fxrt_cuda_avg_pool2d(const fxrt_pool2d_desc *d, const T *x, T *y, cudaStream_t stream)
{
    return fxrt_cuda_pool_any<false>(d, static_cast<long long>(d->kh) * d->kw, x, y, stream);
}
template <bool MAX, class T> FXRT_HOST cudaError_t fxrt_cuda_adaptive_pool2d(const fxrt_resize2d_desc *d, const T *x, T *y, cudaStream_t stream)
{
    const long long rows = d->oh ? (d->ih + d->oh - 1) / d->oh : 0, columns = d->ow ? (d->iw + d->ow - 1) / d->ow : 0;
    return fxrt_cuda_pool_any<MAX>(d, rows * columns, x, y, stream);
}
template <class T> FXRT_HOST cudaError_t fxrt_cuda_adaptive_max_pool2d(const fxrt_resize2d_desc *d, const T *x, T *y, cudaStream_t stream)
{
    return fxrt_cuda_adaptive_pool2d<true>(d, x, y, stream);
}
template <class T> FXRT_HOST cudaError_t fxrt_cuda_adaptive_avg_pool2d(const fxrt_resize2d_desc *d, const T *x, T *y, cudaStream_t stream)
{
    return fxrt_cuda_adaptive_pool2d<false>(d, x, y, stream);
}
