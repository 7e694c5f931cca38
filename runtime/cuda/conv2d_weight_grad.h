/* conv2d_weight_grad.h: the gradient of a convolution's weight, from channels-last f32 images. Follows vec.h, act.h and weight_grad_split.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * y[kh][kw][ic][groups*oc], dense, is a matrix product for each group: rows are taps and input channels, columns output channels, and what is summed
 * over are the gradient's pixels. Both images are read where they lie, neighbouring channels by neighbouring threads. Parts of the sums go to
 * the workspace [parts][kh][kw][ic][groups*oc], and a second kernel adds them in their order: the same bits, run after run. */
enum { FXRT_CUDA_GRAD_THREADS = 256, FXRT_CUDA_GRAD_STEPS = 16 /* pixels at a time */ };

/* A pixel of the gradient: its number, image, row and column; or so many pixels to go ahead. */
struct fxrt_cuda_grad_pixel {
    int at, n, oy, ox;
};
FXRT_DEVICE fxrt_cuda_grad_pixel fxrt_cuda_grad_pixel_at(const fxrt_conv2d_desc &d, int at)
{
    return {at, at / d.ow / d.oh, at / d.ow % d.oh, at % d.ow};
}
FXRT_DEVICE void fxrt_cuda_grad_ahead(const fxrt_conv2d_desc &d, fxrt_cuda_grad_pixel *p, const fxrt_cuda_grad_pixel &by)
{
    p->at += by.at;
    p->ox += by.ox;
    p->oy += by.oy;
    p->n += by.n;
    if (p->ox >= d.ow) {
        p->ox -= d.ow;
        p->oy++;
    }
    if (p->oy >= d.oh) {
        p->oy -= d.oh;
        p->n++;
    }
}

/* What a pixel reads by one tap, for which dy and dx are the input's row and column at the result's first: its place in x, or -1 outside. */
FXRT_DEVICE long long fxrt_cuda_grad_place(const fxrt_conv2d_desc &d, const fxrt_cuda_grad_pixel &p, int dy, int dx)
{
    const int iy = p.oy * d.sh + dy, ix = p.ox * d.sw + dx;
    const bool inside = static_cast<unsigned>(iy) < static_cast<unsigned>(d.ih) && static_cast<unsigned>(ix) < static_cast<unsigned>(d.iw);
    return inside ? static_cast<long long>(p.n) * d.xs_n + static_cast<long long>(iy) * d.xs_h + static_cast<long long>(ix) * d.xs_w : -1;
}
FXRT_DEVICE long long fxrt_cuda_grad_at(const fxrt_conv2d_desc &d, const fxrt_cuda_grad_pixel &p)
{
    return static_cast<long long>(p.n) * d.ys_n + static_cast<long long>(p.oy) * d.ys_h + static_cast<long long>(p.ox) * d.ys_w;
}

/* The first pixel of a part. */
FXRT_DEVICE int fxrt_cuda_grad_first(const fxrt_conv2d_desc &d, int part, int parts)
{
    return static_cast<int>(static_cast<long long>(d.n) * d.oh * d.ow * part / parts);
}

/* A block makes 64 rows x 64 columns of one group and part, a thread 4 x 4 of them. V: neighbouring channels per access of x and g. wide: y allows
 * 16 bytes. Two buffers of shared memory: while one is multiplied, what the next one needs is on its way to registers. */
template <int V>
static __global__ void __launch_bounds__(FXRT_CUDA_GRAD_THREADS, 3)
    fxrt_cuda_weight_grad(fxrt_conv2d_desc d, bool wide, int parts, const float *__restrict__ x, const float *__restrict__ g, float *y)
{
    constexpr int tile = FXRT_CUDA_GRAD_TILE, steps = FXRT_CUDA_GRAD_STEPS;
    constexpr int lanes = tile / V, at_once = FXRT_CUDA_GRAD_THREADS / lanes, fetches = steps / at_once; /* pixels that all threads fetch at once */
    __align__(16) __shared__ float xs[2][steps][tile], gs[2][steps][tile];
    const int thread = static_cast<int>(threadIdx.x), lane = thread % lanes * V, pixel = thread / lanes;
    const int group = static_cast<int>(blockIdx.z) % d.groups, part = static_cast<int>(blockIdx.z) / d.groups;
    const int rows = d.kh * d.kw * d.ic, first_row = static_cast<int>(blockIdx.x) * tile, first_column = static_cast<int>(blockIdx.y) * tile;

    const int row = first_row + lane, tap = row / d.ic, dy = tap / d.kw * d.dh - d.ph, dx = tap % d.kw * d.dw - d.pw;
    const bool row_there = row < rows, column_there = first_column + lane < d.oc;
    x += static_cast<long long>(group) * d.ic + row % d.ic;
    g += static_cast<long long>(group) * d.oc + first_column + lane;
    const int first = fxrt_cuda_grad_first(d, part, parts), last = fxrt_cuda_grad_first(d, part + 1, parts);
    const fxrt_cuda_grad_pixel ahead = fxrt_cuda_grad_pixel_at(d, at_once);
    fxrt_cuda_grad_pixel p = fxrt_cuda_grad_pixel_at(d, first + pixel);
    fxrt_cuda_vec<V> x_next[fetches], g_next[fetches];

    const auto fetch = [&]() {
        FXRT_UNROLL
        for (int i = 0; i < fetches; i++) {
            const long long at = p.at < last && row_there ? fxrt_cuda_grad_place(d, p, dy, dx) : -1;
            x_next[i] = at >= 0 ? fxrt_cuda_load<V>(x + at) : fxrt_cuda_vec<V>{};
            g_next[i] = p.at < last && column_there ? fxrt_cuda_load<V>(g + fxrt_cuda_grad_at(d, p)) : fxrt_cuda_vec<V>{};
            fxrt_cuda_grad_ahead(d, &p, ahead);
        }
    };
    const auto keep = [&](int buffer) {
        FXRT_UNROLL
        for (int i = 0; i < fetches; i++) {
            fxrt_cuda_store<V>(&xs[buffer][pixel + i * at_once][lane], x_next[i]);
            fxrt_cuda_store<V>(&gs[buffer][pixel + i * at_once][lane], g_next[i]);
        }
    };

    const int at_row = thread / 16 * 4, at_column = thread % 16 * 4;
    float sum[4][4] = {};
    fetch();
    keep(0);
    __syncthreads();
    FXRT_ROLLED
    for (int from = first, buffer = 0; from < last; from += steps, buffer ^= 1) {
        const bool more = from + steps < last;
        if (more) {
            fetch();
        }
        FXRT_UNROLL
        for (int k = 0; k < steps; k++) {
            const fxrt_cuda_vec<4> xv = fxrt_cuda_load<4>(&xs[buffer][k][at_row]), gv = fxrt_cuda_load<4>(&gs[buffer][k][at_column]);
            FXRT_UNROLL
            for (int i = 0; i < 4; i++) {
                FXRT_UNROLL
                for (int j = 0; j < 4; j++) {
                    sum[i][j] += xv.at[i] * gv.at[j];
                }
            }
        }
        if (more) {
            keep(buffer ^ 1);
            __syncthreads();
        }
    }

    const int width = d.groups * d.oc, column = first_column + at_column;
    y += (static_cast<long long>(part) * rows + first_row + at_row) * width + group * d.oc + column;
    FXRT_UNROLL
    for (int i = 0; i < 4; i++) {
        if (first_row + at_row + i < rows) {
            fxrt_cuda_store_four(y + static_cast<long long>(i) * width, sum[i], wide, d.oc - column);
        }
    }
}

/* Depthwise: a block of 32 x Warps threads makes 32 channels of one tap and part; each warp takes every Warps-th pixel, the first adds up. */
template <int Warps>
static __global__ void __launch_bounds__(32 * Warps)
    fxrt_cuda_weight_grad_dw(fxrt_conv2d_desc d, int parts, const float *__restrict__ x, const float *__restrict__ g, float *y)
{
    __shared__ float sums[Warps][32];
    const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
    const int channel = static_cast<int>(blockIdx.x) * 32 + lane, tap = static_cast<int>(blockIdx.y), part = static_cast<int>(blockIdx.z);
    const int dy = tap / d.kw * d.dh - d.ph, dx = tap % d.kw * d.dw - d.pw;
    const int first = fxrt_cuda_grad_first(d, part, parts), last = channel < d.groups ? fxrt_cuda_grad_first(d, part + 1, parts) : first;
    const fxrt_cuda_grad_pixel ahead = fxrt_cuda_grad_pixel_at(d, Warps);
    float sum = 0.0f;
    for (fxrt_cuda_grad_pixel p = fxrt_cuda_grad_pixel_at(d, first + warp); p.at < last; fxrt_cuda_grad_ahead(d, &p, ahead)) {
        const long long at = fxrt_cuda_grad_place(d, p, dy, dx);
        if (at >= 0) {
            sum += x[at + channel] * g[fxrt_cuda_grad_at(d, p) + channel];
        }
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && channel < d.groups) {
        for (int i = 1; i < Warps; i++) {
            sum += sums[i][lane];
        }
        y[(static_cast<long long>(part) * d.kh * d.kw + tap) * d.groups + channel] = sum;
    }
}

/* y = the sum of the parts, a thread Each elements. */
template <int Each>
static __global__ void __launch_bounds__(256) fxrt_cuda_weight_grad_sum(int parts, long long elements, const float *__restrict__ ws, float *__restrict__ y)
{
    const long long first = static_cast<long long>(blockIdx.x) * (256 * Each) + threadIdx.x;
    FXRT_UNROLL
    for (int i = 0; i < Each; i++) {
        const long long at = first + 256 * i;
        float sum = 0.0f;
        for (int part = 0; at < elements && part < parts; part++) {
            sum += ws[part * elements + at];
        }
        if (at < elements) {
            y[at] = sum;
        }
    }
}

/* ws of fxrt_cuda_conv2d_weight_grad_workspace bytes, or null: sums are not split. g has the descriptor's strides ys_*. */
FXRT_HOST cudaError_t fxrt_cuda_conv2d_weight_grad_split(const fxrt_conv2d_desc *d, const float *x, const float *g, float *y, float *ws, cudaStream_t stream)
{
    const long long elements = fxrt_cuda_grad_elements(d), pixels = fxrt_cuda_grad_pixels(d), tile = FXRT_CUDA_GRAD_TILE;
    const long long rows = static_cast<long long>(d->kh) * d->kw * d->ic, columns = (d->oc + tile - 1) / tile;
    if (elements == 0) {
        return cudaSuccess;
    }
    if (pixels == 0) {
        return cudaMemsetAsync(y, 0, static_cast<size_t>(elements) * sizeof(float), stream);
    }
    if (pixels > INT32_MAX - 2 * FXRT_CUDA_GRAD_STEPS || elements > INT32_MAX) {
        return cudaErrorInvalidValue;
    }
    const int parts = ws ? fxrt_cuda_grad_parts(d) : 1;
    float *const to = parts > 1 ? ws : y;
    cudaError_t error;
    if (fxrt_cuda_grad_depthwise(d)) {
        const dim3 grid(static_cast<unsigned>((d->groups + 31) / 32), static_cast<unsigned>(d->kh * d->kw), static_cast<unsigned>(parts));
        error = FXCC_LAUNCH(fxrt_cuda_weight_grad_dw<8>, grid, dim3(32, 8), 0, stream, *d, parts, x, g, to);
    } else {
        const dim3 grid(static_cast<unsigned>((rows + tile - 1) / tile), static_cast<unsigned>(columns), static_cast<unsigned>(d->groups * parts));
        const bool wide = d->oc % 4 == 0 && fxrt_cuda_aligned(to, nullptr);
        if (fxrt_cuda_aligned(x, g) && fxrt_cuda_fours(d->ic, d->oc, d->xs_n, d->xs_h, d->xs_w, d->ys_n, d->ys_h, d->ys_w)) {
            error = FXCC_LAUNCH(fxrt_cuda_weight_grad<4>, grid, FXRT_CUDA_GRAD_THREADS, 0, stream, *d, wide, parts, x, g, to);
        } else {
            error = FXCC_LAUNCH(fxrt_cuda_weight_grad<1>, grid, FXRT_CUDA_GRAD_THREADS, 0, stream, *d, wide, parts, x, g, to);
        }
    }
    if (parts == 1 || error != cudaSuccess) {
        return error;
    }
    return FXCC_LAUNCH(fxrt_cuda_weight_grad_sum<2>, static_cast<unsigned>((elements + 511) / 512), 256, 0, stream, parts, elements, ws, y);
}

/* Without a workspace. */
FXRT_HOST cudaError_t fxrt_cuda_conv2d_weight_grad(const fxrt_conv2d_desc *d, const float *x, const float *g, float *y, cudaStream_t stream)
{
    return fxrt_cuda_conv2d_weight_grad_split(d, x, g, y, nullptr, stream);
}
