/* conv2d_half.h: convolution of 16-bit images by products of im2col panels, for which cuBLASLt has tensor cores. Follows act.h, gemm.h and conv_panels.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Sums and tails are floats; w[oc][kh][kw][ic]. T: __half or __nv_bfloat16. */

/* panel[i][tap and channel], padded with zeros to `row` elements, for `pixels` pixels from `first` on; V: elements at once. A block has 32 columns
 * (times V) and 8 pixels, then the 8 behind them, up to 32. */
template <int V, class T>
static __global__ void __launch_bounds__(256)
    fxrt_cuda_im2col(fxrt_conv2d_desc d, int row, int first, int pixels, const T *__restrict__ x, T *__restrict__ panel)
{
    const int column = static_cast<int>(blockIdx.y * 32 + threadIdx.x) * V, tap = column / d.ic, channel = column % d.ic;
    const int dy = tap / d.kw * d.dh - d.ph, dx = tap % d.kw * d.dw - d.pw;
    const int begin = static_cast<int>(blockIdx.x) * 32, end = min(begin + 32, pixels);
    if (column >= row) {
        return;
    }
    for (int at = begin + static_cast<int>(threadIdx.y); at < end; at += 8) {
        const int pixel = first + at;
        const int iy = pixel / d.ow % d.oh * d.sh + dy, ix = pixel % d.ow * d.sw + dx;
        const bool inside = tap < d.kh * d.kw && static_cast<unsigned>(iy) < static_cast<unsigned>(d.ih) && static_cast<unsigned>(ix) < static_cast<unsigned>(d.iw);
        fxrt_cuda_vec<V, T> v = {};
        if (inside) {
            const long long image = static_cast<long long>(pixel / d.ow / d.oh) * d.xs_n;
            v = fxrt_cuda_load<V>(x + (image + static_cast<long long>(iy) * d.xs_h + static_cast<long long>(ix) * d.xs_w + channel));
        }
        fxrt_cuda_store<V>(panel + (static_cast<long long>(at) * row + column), v);
    }
}

template <class T>
FXRT_HOST cudaError_t fxrt_cuda_im2col_launch(const fxrt_conv2d_desc *d, int row, int first, int pixels, const T *x, T *panel, cudaStream_t stream)
{
    const int strides = d->ic | d->xs_n | d->xs_h | d->xs_w;
    const bool wide = strides % 8 == 0 && fxrt_cuda_aligned(x, panel);
    const dim3 threads(32, 8), grid((static_cast<unsigned>(pixels) + 31) / 32, (static_cast<unsigned>(wide ? row / 8 : row) + 31) / 32);
    if (wide) {
        return FXCC_LAUNCH((fxrt_cuda_im2col<8, T>), grid, threads, 0, stream, *d, row, first, pixels, x, panel);
    }
    return FXCC_LAUNCH((fxrt_cuda_im2col<1, T>), grid, threads, 0, stream, *d, row, first, pixels, x, panel);
}

/* The matrix of weights as the image of one pixel a row that im2col copies with padding. */
FXRT_HOST fxrt_conv2d_desc fxrt_cuda_panel_weights(const fxrt_conv2d_desc *d)
{
    const int terms = static_cast<int>(fxrt_cuda_panel_terms(d));
    fxrt_conv2d_desc to = {};
    to.n = to.ih = to.oh = to.kh = to.kw = to.sh = to.sw = to.dh = to.dw = 1;
    to.iw = to.ow = d->oc;
    to.ic = to.xs_w = terms;
    return to;
}

/* One panel's product and where its parts lie. */
template <class T> struct fxrt_cuda_panel {
    fxrt_gemm_desc gemm;
    T *x;
    const T *w, *b, *r;
    T *y;
};
template <class T>
FXRT_HOST fxrt_cuda_panel<T> fxrt_cuda_panel_at(const fxrt_conv2d_desc *d, int first, int pixels, const T *w, const T *b, const T *r, T *y, T *ws)
{
    const int row = static_cast<int>(fxrt_cuda_panel_row(d));
    const bool padded = row > fxrt_cuda_panel_terms(d);
    fxrt_cuda_pixel_dim results = {};
    fxrt_cuda_panel_results(d, &results);
    fxrt_cuda_panel<T> to = {};
    to.gemm.batch = 1;
    to.gemm.m = pixels;
    to.gemm.n = d->oc;
    to.gemm.k = to.gemm.x_m = to.gemm.w_n = row;
    to.gemm.y_m = static_cast<int32_t>(results.y);
    to.gemm.r_m = static_cast<int32_t>(results.r);
    to.gemm.w_k = 1;
    to.gemm.act = d->act;
    to.gemm.act_a = d->act_a;
    to.gemm.act_b = d->act_b;
    to.w = padded ? ws : w;
    to.x = padded ? ws + static_cast<size_t>(d->oc) * static_cast<size_t>(row) : ws;
    to.b = b;
    to.r = r ? r + first * results.r : nullptr;
    to.y = y + first * results.y;
    return to;
}

/* Plans the products, as there are panels of two sizes at most. */
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_conv2d_half_plan(fxrt_cuda_products *products, const fxrt_conv2d_desc *d, const T *w, fxrt_cuda_optional<T> b,
                                                 fxrt_cuda_optional<T> r, T *y, void *ws)
{
    const int pixels = d->n * d->oh * d->ow, share = fxrt_cuda_panel_pixels(d), rest = share > 0 ? pixels % share : 0;
    cudaError_t error = cudaSuccess;
    for (int one = share; one > 0 && error == cudaSuccess; one = one == share ? rest : 0) {
        const int first = one == share ? 0 : pixels - one;
        const fxrt_cuda_panel<T> panel = fxrt_cuda_panel_at<T>(d, first, one, w, b, r, y, static_cast<T *>(ws));
        error = fxrt_cuda_gemm<T>(products, &panel.gemm, panel.x, panel.w, panel.b, panel.r, panel.y, nullptr, nullptr);
    }
    return error;
}

/* y = act(conv(x, w) + b + r); b and r may be null, y may be r. ws begins with what gemm.h needs (products->workspace bytes), behind it are
 * fxrt_cuda_conv2d_half_workspace bytes. Where products are only planned, nothing starts. */
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_conv2d_half(fxrt_cuda_products *products, const fxrt_conv2d_desc *d, const T *x, const T *w, fxrt_cuda_optional<T> b,
                                            fxrt_cuda_optional<T> r, T *y, void *ws, cudaStream_t stream)
{
    static_assert(sizeof(T) == 2, "panels are of 16-bit elements");
    if (!fxrt_cuda_conv2d_in_panels(d)) {
        return cudaErrorInvalidValue;
    }
    void *const own = static_cast<char *>(ws) + products->workspace;
    if (products->planning) {
        return fxrt_cuda_conv2d_half_plan<T>(products, d, w, b, r, y, own);
    }
    const int row = static_cast<int>(fxrt_cuda_panel_row(d)), pixels = d->n * d->oh * d->ow, share = fxrt_cuda_panel_pixels(d);
    cudaError_t error = cudaSuccess;
    if (pixels > 0 && row > fxrt_cuda_panel_terms(d)) {
        const fxrt_conv2d_desc weights = fxrt_cuda_panel_weights(d);
        error = fxrt_cuda_im2col_launch<T>(&weights, row, 0, d->oc, w, static_cast<T *>(own), stream);
    }
    for (int first = 0; first < pixels && error == cudaSuccess; first += share) {
        const int here = pixels - first < share ? pixels - first : share;
        const fxrt_cuda_panel<T> panel = fxrt_cuda_panel_at<T>(d, first, here, w, b, r, y, static_cast<T *>(own));
        error = fxrt_cuda_im2col_launch<T>(d, row, first, here, x, panel.x, stream);
        if (error == cudaSuccess) {
            error = fxrt_cuda_gemm<T>(products, &panel.gemm, panel.x, panel.w, panel.b, panel.r, panel.y, ws, stream);
        }
    }
    return error;
}
