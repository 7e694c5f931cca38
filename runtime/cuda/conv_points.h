/* conv_points.h: what kernels share in which a thread makes V channels of one pixel of a convolution's result. Follows vec.h and act.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Neighbouring threads have neighbouring channels, then neighbouring pixels: what they read and write are whole lines of 128 bytes. */
#define FXRT_CUDA_POINTS 256 /* threads of a block */

/* Pixel `at` (one of all images) and its first channel; at is -1 where there is nothing to do. */
struct fxrt_cuda_point {
    int at, oy, ox, c;
    long long n;
};
template <int V> FXRT_DEVICE fxrt_cuda_point fxrt_cuda_point_here(const fxrt_conv2d_desc &d, int channels)
{
    fxrt_cuda_point p;
    p.at = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
    p.c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * V;
    p.ox = p.at % d.ow;
    p.oy = p.at / d.ow % d.oh;
    p.n = p.at / d.ow / d.oh;
    if (p.n >= d.n || p.c >= channels) {
        p.at = -1;
    }
    return p;
}

/* y = act(sum + r); a bias is in the sum. */
template <int V, class T>
FXRT_DEVICE void fxrt_cuda_point_end(const fxrt_conv2d_desc &d, const fxrt_cuda_point &p, fxrt_cuda_vec<V> sum, const T *r, T *y)
{
    if (r) {
        const long long at = p.n * d.rs_n + static_cast<long long>(p.oy) * d.rs_h + static_cast<long long>(p.ox) * d.rs_w + p.c;
        const fxrt_cuda_vec<V> add = fxrt_cuda_floats<V>(r + at);
        FXRT_UNROLL
        for (int i = 0; i < V; i++) {
            sum.at[i] += add.at[i];
        }
    }
    fxrt_cuda_act(sum.at, d.act, d.act_a, d.act_b);
    fxrt_cuda_put<V>(y + (p.n * d.ys_n + static_cast<long long>(p.oy) * d.ys_h + static_cast<long long>(p.ox) * d.ys_w + p.c), sum);
}

/* Whether b, r, y and gain allow four elements at once at every pixel. */
FXRT_HOST bool fxrt_cuda_points_by_four(const fxrt_conv2d_desc *d, const void *b, const void *r, const void *y, const void *gain = nullptr)
{
    return fxrt_cuda_aligned(b, r, y, gain) && fxrt_cuda_fours(d->groups * d->oc, d->ys_n, d->ys_h, d->ys_w) &&
           (!r || fxrt_cuda_fours(d->rs_n, d->rs_h, d->rs_w));
}

/* Blocks for all pixels and `columns` times V channels; false where pixels are more than an int counts. */
FXRT_HOST bool fxrt_cuda_points_grid(const fxrt_conv2d_desc *d, int columns, int v, dim3 *grid, dim3 *block)
{
    const long long pixels = static_cast<long long>(d->n) * d->oh * d->ow;
    unsigned wide = 1; /* threads along the channels: 128 bytes, or as few as there are */
    while (wide < 32u / static_cast<unsigned>(v) && wide < static_cast<unsigned>(columns)) {
        wide *= 2;
    }
    *block = dim3(wide, FXRT_CUDA_POINTS / wide);
    *grid = dim3(static_cast<unsigned>((pixels + block->y - 1) / block->y), (static_cast<unsigned>(columns) + wide - 1) / wide);
    return pixels <= 0x7fffffff - FXRT_CUDA_POINTS;
}
