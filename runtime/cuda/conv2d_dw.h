/* conv2d_dw.h: depthwise convolution (ic = oc = 1, a group a channel) of channels-last images. Follows conv_points.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A thread makes V channels of a pixel (4, or 1 where sizes or places do not allow 16 bytes). Memory is the limit, and what taps share is
 * in the caches. Weights lie as those of the CPU's kernel without padding, w[kh][kw][channels]: the channels of a tap are neighbours too. */

/* K: the kernel is K x K, its loops are written out; 0: that of d. */
template <int V, int K, class T>
static __global__ void __launch_bounds__(FXRT_CUDA_POINTS)
    fxrt_cuda_dw(fxrt_conv2d_desc d, const T *__restrict__ x, const T *__restrict__ w, const T *__restrict__ b, const T *r, T *y)
{
    const fxrt_cuda_point p = fxrt_cuda_point_here<V>(d, d.groups);
    if (p.at < 0) {
        return;
    }
    const int kh = K ? K : d.kh, kw = K ? K : d.kw;
    const int iy = p.oy * d.sh - d.ph, ix = p.ox * d.sw - d.pw;
    fxrt_cuda_vec<V> sum = b ? fxrt_cuda_floats<V>(b + p.c) : fxrt_cuda_vec<V>{};
    const long long first = p.n * d.xs_n + static_cast<long long>(iy) * d.xs_h + static_cast<long long>(ix) * d.xs_w + p.c;
    FXRT_UNROLL
    for (int ky = 0; ky < kh; ky++) {
        if (static_cast<unsigned>(iy + ky * d.dh) >= static_cast<unsigned>(d.ih)) {
            continue;
        }
        FXRT_UNROLL
        for (int kx = 0; kx < kw; kx++) {
            if (static_cast<unsigned>(ix + kx * d.dw) < static_cast<unsigned>(d.iw)) {
                const long long tap = static_cast<long long>(ky * d.dh) * d.xs_h + static_cast<long long>(kx * d.dw) * d.xs_w;
                const fxrt_cuda_vec<V> xv = fxrt_cuda_floats<V>(x + (first + tap));
                const fxrt_cuda_vec<V> wv = fxrt_cuda_floats<V>(w + (static_cast<long long>(ky * kw + kx) * d.groups + p.c));
                FXRT_UNROLL
                for (int i = 0; i < V; i++) {
                    sum.at[i] = fmaf(xv.at[i], wv.at[i], sum.at[i]);
                }
            }
        }
    }
    fxrt_cuda_point_end(d, p, sum, r, y);
}

/* ws is not used. */
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_conv2d_dw(const fxrt_conv2d_desc *d, const T *x, const T *w, fxrt_cuda_optional<T> b, fxrt_cuda_optional<T> r, T *y,
                                          float *ws, cudaStream_t stream)
{
    static_cast<void>(ws);
    const bool four = fxrt_cuda_aligned(x, w) && fxrt_cuda_fours(d->xs_n, d->xs_h, d->xs_w) && fxrt_cuda_points_by_four(d, b, r, y);
    dim3 grid, block;
    if (d->ic != 1 || d->oc != 1 || !fxrt_cuda_points_grid(d, four ? d->groups / 4 : d->groups, four ? 4 : 1, &grid, &block)) {
        return cudaErrorInvalidValue;
    }
    if (grid.x == 0 || grid.y == 0) {
        return cudaSuccess;
    }
    if (four && d->kh == 3 && d->kw == 3) {
        return FXCC_LAUNCH((fxrt_cuda_dw<4, 3, T>), grid, block, 0, stream, *d, x, w, b, r, y);
    }
    if (four && d->kh == 5 && d->kw == 5) {
        return FXCC_LAUNCH((fxrt_cuda_dw<4, 5, T>), grid, block, 0, stream, *d, x, w, b, r, y);
    }
    if (four) {
        return FXCC_LAUNCH((fxrt_cuda_dw<4, 0, T>), grid, block, 0, stream, *d, x, w, b, r, y);
    }
    return FXCC_LAUNCH((fxrt_cuda_dw<1, 0, T>), grid, block, 0, stream, *d, x, w, b, r, y);
}
