/* conv2d_wino.h: 3 x 3 convolution of channels-last f32 images by Winograd's F(4 x 4, 3 x 3). Follows act.h, gemm.h and conv_wino.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Three kernels for each chunk of tiles: B^T x B for every tile and input channel into [36][tiles][ic]; 36 products with w[36][oc][ic] (wino_weights.h)
 * into [36][tiles][oc], in one call of gemm.h; A^T m A for every tile and output channel, with the tail. In the first and the last a thread has one
 * tile of one channel, neighbouring threads neighbouring channels: what a warp reads and writes are whole lines of 128 bytes.
 *
 * Error, with u = 2^-24: of a sum (before the tail) at most R u / (1 - R u) times |A|^T (sum over channels (|G| |w| |G|^T) * (|B|^T |x| |B|)) |A|, * by
 * element, R = ic + 17: each line of a transform rounds four times in a row, in two directions and twice (x, m); a weight once; a channel's product and sum
 * ic times together (Barabasz and others, "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020, theorem 2).
 * That is at most 55 R u times 9 ic max |w| max |x|, where plain sums have 9 ic u. As independent noise, each rounding u / sqrt(3), it is
 * 4.8 u sqrt((ic / 2 + 17) / 3) of the results' root mean square, 1.7 to 2 times that of plain sums, u sqrt(9 ic / 6): 1.2e-6 for 64
 * channels, 2.7e-6 for 512. tests/cuda_emit/winograd.py computes these numbers from the points. */

enum { FXRT_CUDA_WINO_TILES = 8 }; /* of a block, each with 32 channels */

/* A thread's tile, counted in the chunk, and where its results begin. */
struct fxrt_cuda_wino_place {
    int tile, c, n, oy, ox;
};
FXRT_DEVICE fxrt_cuda_wino_place fxrt_cuda_wino_here(const fxrt_conv2d_desc &d, int first)
{
    fxrt_cuda_wino_place p;
    const int across = (d.ow + FXRT_WINO_OUT - 1) / FXRT_WINO_OUT, down = (d.oh + FXRT_WINO_OUT - 1) / FXRT_WINO_OUT;
    p.tile = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
    p.c = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
    const int tile = first + p.tile;
    p.n = tile / across / down;
    p.oy = tile / across % down * FXRT_WINO_OUT;
    p.ox = tile % across * FXRT_WINO_OUT;
    return p;
}

/* v = B^T v: the remainders of a line's polynomial, what is even in it and what is odd apart. */
FXRT_DEVICE void fxrt_cuda_wino_in(float (&v)[FXRT_WINO_IN])
{
    constexpr float a = FXRT_WINO_A, b = FXRT_WINO_B, aa = a * a, bb = b * b;
    const float even_a = v[4] - bb * v[2], odd_a = a * (v[3] - bb * v[1]), even_b = v[4] - aa * v[2], odd_b = b * (v[3] - aa * v[1]);
    v[0] = (v[4] - (aa + bb) * v[2]) + aa * bb * v[0];
    v[5] = (v[5] - (aa + bb) * v[3]) + aa * bb * v[1];
    v[1] = even_a + odd_a;
    v[2] = even_a - odd_a;
    v[3] = even_b + odd_b;
    v[4] = even_b - odd_b;
}

/* The line A^T m: the products' polynomial has these coefficients. */
FXRT_DEVICE void fxrt_cuda_wino_out(const float (&m)[FXRT_WINO_IN], float (&to)[FXRT_WINO_OUT])
{
    constexpr float a = FXRT_WINO_A, b = FXRT_WINO_B;
    const float even_a = m[1] + m[2], odd_a = m[1] - m[2], even_b = m[3] + m[4], odd_b = m[3] - m[4];
    to[0] = m[0] + (even_a + even_b);
    to[1] = a * odd_a + b * odd_b;
    to[2] = a * a * even_a + b * b * even_b;
    to[3] = (a * a * a * odd_a + b * b * b * odd_b) + m[5];
}

/* Tiles [first, first + tiles) into v[36][tiles][ic]. */
template <int Tiles>
static __global__ void __launch_bounds__(32 * Tiles, 2) /* of three, sm_75 spills a few registers */
    fxrt_cuda_wino_input(fxrt_conv2d_desc d, int first, int tiles, const float *__restrict__ x, float *__restrict__ v)
{
    const fxrt_cuda_wino_place p = fxrt_cuda_wino_here(d, first);
    if (p.tile >= tiles || p.c >= d.ic) {
        return;
    }
    const int iy = p.oy - d.ph, ix = p.ox - d.pw;
    x += static_cast<long long>(p.n) * d.xs_n + static_cast<long long>(iy) * d.xs_h + static_cast<long long>(ix) * d.xs_w + p.c;
    float all[FXRT_WINO_IN][FXRT_WINO_IN];
    FXRT_UNROLL
    for (int j = 0; j < FXRT_WINO_IN; j++) {
        const bool inside = static_cast<unsigned>(ix + j) < static_cast<unsigned>(d.iw);
        float line[FXRT_WINO_IN];
        FXRT_UNROLL
        for (int i = 0; i < FXRT_WINO_IN; i++) {
            const bool there = inside && static_cast<unsigned>(iy + i) < static_cast<unsigned>(d.ih);
            line[i] = there ? x[static_cast<long long>(i) * d.xs_h + static_cast<long long>(j) * d.xs_w] : 0.0f;
        }
        fxrt_cuda_wino_in(line);
        FXRT_UNROLL
        for (int i = 0; i < FXRT_WINO_IN; i++) {
            all[i][j] = line[i];
        }
    }
    const long long matrix = static_cast<long long>(tiles) * d.ic;
    v += static_cast<long long>(p.tile) * d.ic + p.c;
    FXRT_UNROLL
    for (int i = 0; i < FXRT_WINO_IN; i++) {
        fxrt_cuda_wino_in(all[i]);
        FXRT_UNROLL
        for (int j = 0; j < FXRT_WINO_IN; j++) {
            v[(i * FXRT_WINO_IN + j) * matrix] = all[i][j];
        }
    }
}

/* y = act(A^T m A + b + r) for tiles [first, first + tiles), from m[36][tiles][oc]. */
template <int Tiles>
static __global__ void __launch_bounds__(32 * Tiles, 3)
    fxrt_cuda_wino_output(fxrt_conv2d_desc d, int first, int tiles, const float *__restrict__ m, const float *__restrict__ b, const float *r, float *y)
{
    const fxrt_cuda_wino_place p = fxrt_cuda_wino_here(d, first);
    if (p.tile >= tiles || p.c >= d.oc) {
        return;
    }
    const long long matrix = static_cast<long long>(tiles) * d.oc;
    m += static_cast<long long>(p.tile) * d.oc + p.c;
    float rows[FXRT_WINO_OUT][FXRT_WINO_IN];
    FXRT_UNROLL
    for (int j = 0; j < FXRT_WINO_IN; j++) {
        float line[FXRT_WINO_IN], column[FXRT_WINO_OUT];
        FXRT_UNROLL
        for (int i = 0; i < FXRT_WINO_IN; i++) {
            line[i] = m[(i * FXRT_WINO_IN + j) * matrix];
        }
        fxrt_cuda_wino_out(line, column);
        FXRT_UNROLL
        for (int i = 0; i < FXRT_WINO_OUT; i++) {
            rows[i][j] = column[i];
        }
    }
    const float bias = b ? b[p.c] : 0.0f;
    y += static_cast<long long>(p.n) * d.ys_n + static_cast<long long>(p.ox) * d.ys_w + p.c;
    r = r ? r + (static_cast<long long>(p.n) * d.rs_n + static_cast<long long>(p.ox) * d.rs_w + p.c) : r;
    /* A row after the other in a loop that is not unrolled: it holds each activation's code once. The rows move up (conv_tile.h). */
    FXRT_ROLLED
    for (int oy = p.oy; oy < p.oy + FXRT_WINO_OUT && oy < d.oh; oy++) {
        float to[FXRT_WINO_OUT];
        fxrt_cuda_wino_out(rows[0], to);
        FXRT_UNROLL
        for (int j = 0; j < FXRT_WINO_OUT; j++) {
            to[j] += bias;
            if (r && p.ox + j < d.ow) {
                to[j] += r[static_cast<long long>(oy) * d.rs_h + static_cast<long long>(j) * d.rs_w];
            }
        }
        fxrt_cuda_act(to, d.act, d.act_a, d.act_b);
        FXRT_UNROLL
        for (int j = 0; j < FXRT_WINO_OUT; j++) {
            if (p.ox + j < d.ow) {
                y[static_cast<long long>(oy) * d.ys_h + static_cast<long long>(j) * d.ys_w] = to[j];
            }
        }
        FXRT_UNROLL
        for (int i = 0; i + 1 < FXRT_WINO_OUT; i++) {
            FXRT_UNROLL
            for (int j = 0; j < FXRT_WINO_IN; j++) {
                rows[i][j] = rows[i + 1][j];
            }
        }
    }
}

/* The 36 products of so many tiles. */
FXRT_HOST fxrt_gemm_desc fxrt_cuda_wino_product(const fxrt_conv2d_desc *d, int32_t tiles)
{
    fxrt_gemm_desc to = {};
    to.batch = FXRT_WINO_POINTS;
    to.m = tiles;
    to.n = d->oc;
    to.k = d->ic;
    to.x_m = d->ic;
    to.x_b = tiles * d->ic;
    to.y_m = d->oc;
    to.y_b = tiles * d->oc;
    to.w_k = 1;
    to.w_n = d->ic;
    to.w_b = d->oc * d->ic;
    to.act = FXRT_ACT_NONE;
    return to;
}

/* Where the products of the tiles lie in the workspace: behind the tiles. */
FXRT_HOST float *fxrt_cuda_wino_products(const fxrt_conv2d_desc *d, int32_t tiles, float *ws)
{
    return ws + static_cast<size_t>(FXRT_WINO_POINTS) * static_cast<size_t>(tiles) * static_cast<size_t>(d->ic);
}

/* Plans the products: at most two shapes, the last chunk's may be smaller. */
FXRT_HOST cudaError_t fxrt_cuda_conv2d_wino_plan(fxrt_cuda_products *products, const fxrt_conv2d_desc *d, const float *w, float *ws)
{
    const int64_t tiles = fxrt_cuda_wino_tiles(d);
    const int32_t chunk = fxrt_cuda_wino_chunk(d), last = chunk > 0 ? static_cast<int32_t>(tiles % chunk) : 0;
    const int32_t shapes[] = {chunk, last};
    cudaError_t error = cudaSuccess;
    for (int32_t one : shapes) {
        if (one > 0 && error == cudaSuccess) {
            const fxrt_gemm_desc product = fxrt_cuda_wino_product(d, one);
            const float *const none = nullptr;
            error = fxrt_cuda_gemm(products, &product, static_cast<const float *>(ws), w, none, none, fxrt_cuda_wino_products(d, one, ws), nullptr, nullptr);
        }
    }
    return error;
}

/* y = act(conv(x, w) + b + r); b and r may be null, y may be r. ws begins with what gemm.h needs (products->workspace bytes), behind it are
 * fxrt_cuda_conv2d_wino_workspace bytes. Where products are only planned, nothing starts. */
FXRT_HOST cudaError_t fxrt_cuda_conv2d_wino(fxrt_cuda_products *products, const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b,
                                            const float *r, float *y, float *ws, cudaStream_t stream)
{
    if (!fxrt_cuda_conv2d_wino_fits(d)) {
        return cudaErrorInvalidValue;
    }
    float *const own = ws + products->workspace / sizeof(float);
    if (products->planning) {
        return fxrt_cuda_conv2d_wino_plan(products, d, w, own);
    }
    const int tiles = d->oc > 0 ? static_cast<int>(fxrt_cuda_wino_tiles(d)) : 0, chunk = fxrt_cuda_wino_chunk(d);
    for (int first = 0, here; first < tiles; first += here) {
        here = tiles - first < chunk ? tiles - first : chunk;
        const dim3 threads(32, FXRT_CUDA_WINO_TILES);
        const unsigned blocks = (static_cast<unsigned>(here) + threads.y - 1) / threads.y;
        const dim3 in(blocks, (static_cast<unsigned>(d->ic) + 31) / 32), out(blocks, (static_cast<unsigned>(d->oc) + 31) / 32);
        const fxrt_gemm_desc product = fxrt_cuda_wino_product(d, here);
        float *const m = fxrt_cuda_wino_products(d, here, own);
        const float *const none = nullptr;
        cudaError_t error = FXCC_LAUNCH(fxrt_cuda_wino_input<FXRT_CUDA_WINO_TILES>, in, threads, 0, stream, *d, first, here, x, own);
        if (error == cudaSuccess) {
            error = fxrt_cuda_gemm(products, &product, static_cast<const float *>(own), w, none, none, m, ws, stream);
        }
        if (error == cudaSuccess) {
            error = FXCC_LAUNCH(fxrt_cuda_wino_output<FXRT_CUDA_WINO_TILES>, out, threads, 0, stream, *d, first, here, m, b, r, y);
        }
        if (error != cudaSuccess) {
            return error;
        }
    }
    return cudaSuccess;
}
