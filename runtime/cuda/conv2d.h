/* conv2d.h: convolution, any kernel, stride, padding, dilation and groups. Follows conv_tile.h and conv_split.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * w[groups*oc][kh][kw][ic], b[groups*oc] or null, r or null (it may be y); ws of fxrt_cuda_conv2d_workspace bytes, or null: sums are not split.
 * More than 65,535 groups are refused by the launch. */

/* y = act(the sum of the parts + b + r), or with a gain as the tile kernel has it; parts are dense, one after the other. */
template <int V, class T>
static __global__ void __launch_bounds__(FXRT_CUDA_POINTS)
    fxrt_cuda_conv_sum(fxrt_conv2d_desc d, int parts, const float *__restrict__ ws, const T *__restrict__ b, const T *r, const T *__restrict__ gain, T *y)
{
    const int channels = d.groups * d.oc;
    const fxrt_cuda_point p = fxrt_cuda_point_here<V>(d, channels);
    if (p.at < 0) {
        return;
    }
    const long long all = static_cast<long long>(d.n) * d.oh * d.ow * channels;
    fxrt_cuda_vec<V> sum = b ? fxrt_cuda_floats<V>(b + p.c) : fxrt_cuda_vec<V>{};
    ws += static_cast<long long>(p.at) * channels + p.c;
    FXRT_ROLLED
    for (int part = 0; part < parts; part++) {
        const fxrt_cuda_vec<V> add = fxrt_cuda_load<V>(ws + part * all);
        FXRT_UNROLL
        for (int i = 0; i < V; i++) {
            sum.at[i] += add.at[i];
        }
    }
    fxrt_cuda_point_end(d, p, sum, r, y, gain);
}

/* T: float, __half or __nv_bfloat16; sums and tail are floats. Kind, scale, shift and gain as conv_tile.h has them. */
template <int Kind, class T>
FXRT_HOST cudaError_t fxrt_cuda_conv2d_kind(const fxrt_conv2d_desc *d, const T *x, const T *w, const T *b, const T *r, const T *scale, const T *shift,
                                            const T *gain, T *y, float *ws, cudaStream_t stream)
{
    const size_t bytes = ws ? fxrt_cuda_conv2d_workspace(d) : 0;
    if (bytes == 0) {
        return fxrt_cuda_conv_choose<Kind, T>(d, x, w, b, r, y, stream, scale, shift, gain);
    }
    const int channels = d->groups * d->oc, pixels = d->n * d->oh * d->ow;
    const int parts = static_cast<int>(bytes / sizeof(float) / static_cast<size_t>(channels) / static_cast<size_t>(pixels));
    fxrt_conv2d_desc part = *d;
    part.act = FXRT_ACT_NONE;
    part.ys_w = channels;
    part.ys_h = d->ow * channels;
    part.ys_n = d->oh * d->ow * channels;
    const cudaError_t error = fxrt_cuda_conv_small_tiles<Kind, T>(&part, parts, x, w, nullptr, nullptr, ws, stream, scale, shift);
    const bool four = fxrt_cuda_aligned(ws, nullptr) && fxrt_cuda_points_by_four(d, b, r, y, gain);
    dim3 grid, block;
    if (error != cudaSuccess || !fxrt_cuda_points_grid(d, four ? channels / 4 : channels, four ? 4 : 1, &grid, &block)) {
        return error != cudaSuccess ? error : cudaErrorInvalidValue;
    }
    if (four) {
        return FXCC_LAUNCH((fxrt_cuda_conv_sum<4, T>), grid, block, 0, stream, *d, parts, ws, b, r, gain, y);
    }
    return FXCC_LAUNCH((fxrt_cuda_conv_sum<1, T>), grid, block, 0, stream, *d, parts, ws, b, r, gain, y);
}

template <class T>
FXRT_HOST cudaError_t fxrt_cuda_conv2d(const fxrt_conv2d_desc *d, const T *x, const T *w, fxrt_cuda_optional<T> b, fxrt_cuda_optional<T> r, T *y,
                                       float *ws, cudaStream_t stream)
{
    return fxrt_cuda_conv2d_kind<FXRT_CUDA_CONV_PLAIN, T>(d, x, w, b, r, nullptr, nullptr, nullptr, y, ws, stream);
}
