/* resize2d.h: nearest and bilinear resampling of channels-last images, by PyTorch's index rules. Needs vec.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

FXRT_DEVICE int fxrt_cuda_nearest_index(int o, int in, int out, float scale)
{
    if (out == in)
        return o;
    if (static_cast<long long>(out) == 2 * static_cast<long long>(in))
        return o >> 1;
    return min(static_cast<int>(floorf(static_cast<float>(o) * scale)), in - 1);
}

/* An output between inputs *i0 and *i1, at weight *t of the second. Without contraction to fma, which would move indices. */
FXRT_DEVICE void fxrt_cuda_linear_index(int o, int in, int out, float scale, int align_corners, int *i0, int *i1, float *t)
{
    if (out == in) {
        *i0 = *i1 = o;
        *t = 0;
        return;
    }
    const float middle = __fsub_rn(__fmul_rn(scale, static_cast<float>(o) + 0.5f), 0.5f);
    const float at = align_corners ? __fmul_rn(scale, static_cast<float>(o)) : middle < 0 ? 0 : middle;
    *i0 = min(static_cast<int>(at), in - 1);
    *i1 = min(*i0 + 1, in - 1);
    const float past = at - static_cast<float>(*i0);
    *t = past < 0 ? 0 : past > 1 ? 1 : past;
}

/* The nearest input's offset. */
struct fxrt_cuda_nearest {
    ptrdiff_t from;
    __device__ fxrt_cuda_nearest(const fxrt_resize2d_desc &d, int oy, int ox)
        : from(static_cast<ptrdiff_t>(fxrt_cuda_nearest_index(oy, d.ih, d.oh, d.scale_h)) * d.xs_h +
               static_cast<ptrdiff_t>(fxrt_cuda_nearest_index(ox, d.iw, d.ow, d.scale_w)) * d.xs_w)
    {
    }
    template <int V, class T> __device__ fxrt_cuda_vec<V> at(const T *x) const { return fxrt_cuda_floats<V>(x + from); }
};

/* Four neighbours' offsets, and the weights of the lower two and of the right two. */
struct fxrt_cuda_bilinear {
    ptrdiff_t from[4];
    float ty, tx;
    __device__ fxrt_cuda_bilinear(const fxrt_resize2d_desc &d, int oy, int ox)
    {
        int y0, y1, x0, x1;
        fxrt_cuda_linear_index(oy, d.ih, d.oh, d.scale_h, d.align_corners, &y0, &y1, &ty);
        fxrt_cuda_linear_index(ox, d.iw, d.ow, d.scale_w, d.align_corners, &x0, &x1, &tx);
        from[0] = static_cast<ptrdiff_t>(y0) * d.xs_h + static_cast<ptrdiff_t>(x0) * d.xs_w;
        from[1] = static_cast<ptrdiff_t>(y0) * d.xs_h + static_cast<ptrdiff_t>(x1) * d.xs_w;
        from[2] = static_cast<ptrdiff_t>(y1) * d.xs_h + static_cast<ptrdiff_t>(x0) * d.xs_w;
        from[3] = static_cast<ptrdiff_t>(y1) * d.xs_h + static_cast<ptrdiff_t>(x1) * d.xs_w;
    }
    template <int V, class T> __device__ fxrt_cuda_vec<V> at(const T *x) const
    {
        fxrt_cuda_vec<V> a = fxrt_cuda_floats<V>(x + from[0]);
        const fxrt_cuda_vec<V> b = fxrt_cuda_floats<V>(x + from[1]), e = fxrt_cuda_floats<V>(x + from[2]), f = fxrt_cuda_floats<V>(x + from[3]);
        for (int j = 0; j < V; j++)
            a.at[j] = (1 - ty) * ((1 - tx) * a.at[j] + tx * b.at[j]) + ty * ((1 - tx) * e.at[j] + tx * f.at[j]);
        return a;
    }
};

/* A thread V channels of an output position; blocks in y take images in turn. */
template <class Sample, int V, class T>
static __global__ void __launch_bounds__(128) fxrt_cuda_upsample(fxrt_resize2d_desc d, const T *__restrict__ x, T *__restrict__ y)
{
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), vectors = d.c / V, pixel = i / vectors;
    if (pixel >= d.oh * d.ow)
        return;
    const int c = i % vectors * V, oy = pixel / d.ow, ox = pixel % d.ow;
    const Sample sample(d, oy, ox);
    y += static_cast<ptrdiff_t>(oy) * d.ys_h + static_cast<ptrdiff_t>(ox) * d.ys_w + c;
    for (int n = static_cast<int>(blockIdx.y); n < d.n; n += static_cast<int>(gridDim.y))
        fxrt_cuda_put<V>(y + static_cast<ptrdiff_t>(n) * d.ys_n, sample.template at<V>(x + (static_cast<ptrdiff_t>(n) * d.xs_n + c)));
}

template <class Sample, class T> FXRT_HOST cudaError_t fxrt_cuda_upsample_any(const fxrt_resize2d_desc *d, const T *x, T *y, cudaStream_t stream)
{
    const bool wide = fxrt_cuda_fours(d->c, d->xs_n, d->xs_h, d->xs_w, d->ys_n, d->ys_h, d->ys_w) && fxrt_cuda_aligned(x, y);
    const long long threads = static_cast<long long>(d->oh) * d->ow * (wide ? d->c / 4 : d->c);
    if (threads == 0 || d->n == 0)
        return cudaSuccess;
    if (threads > INT32_MAX - 128)
        return cudaErrorInvalidValue;
    const dim3 grid(static_cast<unsigned>((threads + 127) / 128), static_cast<unsigned>(d->n < 65535 ? d->n : 65535));
    return wide ? FXCC_LAUNCH((fxrt_cuda_upsample<Sample, 4, T>), grid, dim3(128), 0, stream, *d, x, y)
                : FXCC_LAUNCH((fxrt_cuda_upsample<Sample, 1, T>), grid, dim3(128), 0, stream, *d, x, y);
}
template <class T> FXRT_HOST cudaError_t fxrt_cuda_upsample_nearest2d(const fxrt_resize2d_desc *d, const T *x, T *y, cudaStream_t stream)
{
    return fxrt_cuda_upsample_any<fxrt_cuda_nearest>(d, x, y, stream);
}
template <class T> FXRT_HOST cudaError_t fxrt_cuda_upsample_bilinear2d(const fxrt_resize2d_desc *d, const T *x, T *y, cudaStream_t stream)
{
    return fxrt_cuda_upsample_any<fxrt_cuda_bilinear>(d, x, y, stream);
}
