/* conv2d_dw.h: depthwise convolution (ic = oc = 1, a group a channel) of channels-last f32 images. Follows vec.h and act.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A thread makes V channels of a pixel (4, or 1 where sizes or places do not allow 16 bytes): neighbouring threads read and write neighbouring
 * bytes. Memory is the limit, and what taps share is in the caches. Weights lie as those of the CPU's kernel without padding,
 * w[kh][kw][channels], so that the channels of a tap are neighbours too. */
#define FXRT_CUDA_DW_THREADS 256

/* K: the kernel is K x K, its loops are written out; 0: that of d. */
template <int V, int K>
static __global__ void __launch_bounds__(FXRT_CUDA_DW_THREADS)
    fxrt_cuda_dw(fxrt_conv2d_desc d, const float *__restrict__ x, const float *__restrict__ w, const float *__restrict__ b, const float *r, float *y)
{
    const int pixel = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
    const int c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * V;
    if (pixel >= d.n * d.oh * d.ow || c >= d.groups) {
        return;
    }
    const int kh = K ? K : d.kh, kw = K ? K : d.kw;
    const int row = pixel / d.ow, ox = pixel % d.ow, oy = row % d.oh;
    const long long n = row / d.oh;
    const int iy = oy * d.sh - d.ph, ix = ox * d.sw - d.pw;
    fxrt_cuda_vec<V> sum = b ? fxrt_cuda_load<V>(b + c) : fxrt_cuda_vec<V>{};
    const long long first = n * d.xs_n + static_cast<long long>(iy) * d.xs_h + static_cast<long long>(ix) * d.xs_w + c;
    FXRT_UNROLL
    for (int ky = 0; ky < kh; ky++) {
        if (static_cast<unsigned>(iy + ky * d.dh) >= static_cast<unsigned>(d.ih)) {
            continue;
        }
        FXRT_UNROLL
        for (int kx = 0; kx < kw; kx++) {
            if (static_cast<unsigned>(ix + kx * d.dw) < static_cast<unsigned>(d.iw)) {
                const long long tap = static_cast<long long>(ky * d.dh) * d.xs_h + static_cast<long long>(kx * d.dw) * d.xs_w;
                const fxrt_cuda_vec<V> xv = fxrt_cuda_load<V>(x + (first + tap));
                const fxrt_cuda_vec<V> wv = fxrt_cuda_load<V>(w + (static_cast<long long>(ky * kw + kx) * d.groups + c));
                FXRT_UNROLL
                for (int i = 0; i < V; i++) {
                    sum.at[i] += xv.at[i] * wv.at[i];
                }
            }
        }
    }
    if (r) {
        const long long at = n * d.rs_n + static_cast<long long>(oy) * d.rs_h + static_cast<long long>(ox) * d.rs_w + c;
        const fxrt_cuda_vec<V> add = fxrt_cuda_load<V>(r + at);
        FXRT_UNROLL
        for (int i = 0; i < V; i++) {
            sum.at[i] += add.at[i];
        }
    }
    fxrt_cuda_act(sum.at, d.act, d.act_a, d.act_b);
    fxrt_cuda_store<V>(y + (n * d.ys_n + static_cast<long long>(oy) * d.ys_h + static_cast<long long>(ox) * d.ys_w + c), sum);
}

FXRT_HOST cudaError_t fxrt_cuda_conv2d_dw(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y,
                                          cudaStream_t stream)
{
    const bool four = fxrt_cuda_aligned(x, w, b, r) && fxrt_cuda_aligned(y, nullptr) && fxrt_cuda_fours(d->groups, d->xs_n, d->xs_h, d->xs_w) &&
                      fxrt_cuda_fours(d->ys_n, d->ys_h, d->ys_w) && (!r || fxrt_cuda_fours(d->rs_n, d->rs_h, d->rs_w));
    const int columns = four ? d->groups / 4 : d->groups;
    const long long pixels = static_cast<long long>(d->n) * d->oh * d->ow;
    if (pixels > 0x7fffffff - FXRT_CUDA_DW_THREADS || d->ic != 1 || d->oc != 1) {
        return cudaErrorInvalidValue;
    }
    if (pixels == 0 || columns == 0) {
        return cudaSuccess;
    }
    unsigned wide = 1; /* threads along the channels: 128 bytes, or as few as there are */
    while (wide < (four ? 8u : 32u) && wide < static_cast<unsigned>(columns)) {
        wide *= 2;
    }
    const dim3 block(wide, FXRT_CUDA_DW_THREADS / wide);
    const dim3 grid(static_cast<unsigned>((pixels + block.y - 1) / block.y), (static_cast<unsigned>(columns) + wide - 1) / wide);
    if (four && d->kh == 3 && d->kw == 3) {
        return FXCC_LAUNCH((fxrt_cuda_dw<4, 3>), grid, block, 0, stream, *d, x, w, b, r, y);
    }
    if (four && d->kh == 5 && d->kw == 5) {
        return FXCC_LAUNCH((fxrt_cuda_dw<4, 5>), grid, block, 0, stream, *d, x, w, b, r, y);
    }
    if (four) {
        return FXCC_LAUNCH((fxrt_cuda_dw<4, 0>), grid, block, 0, stream, *d, x, w, b, r, y);
    }
    return FXCC_LAUNCH((fxrt_cuda_dw<1, 0>), grid, block, 0, stream, *d, x, w, b, r, y);
}
