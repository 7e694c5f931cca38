/* conv_panels.h: which 16-bit convolutions conv2d_half.h can make by products of im2col panels, and its workspace. Plain C: the compiler includes the same
 * text. Follows conv_share.h and conv_gemm.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * cuBLASLt multiplies 16-bit matrices on tensor cores, ten times and more as fast as sums of floats. What it costs is the panel [pixels][kh*kw*ic], which
 * goes out to memory and in again; so that this is the second cache where it may be, and the workspace stays small, pixels are taken in shares. Rows
 * are padded with zeros to 16 bytes, without which there are no tensor cores; so are then the weights' rows, each time, in the workspace too. */
#ifndef FXRT_PANEL_BYTES
#define FXRT_PANEL_BYTES (16 << 20) /* of a panel, but for FXRT_PANEL_LEAST pixels */
#endif
enum {
    FXRT_PANEL_ROW = 8,   /* a row has a multiple of so many elements */
    FXRT_PANEL_LEAST = 64 /* pixels of a panel, and what it has a multiple of: so all results begin at equally aligned places */
};

/* Elements of a row, with and without padding. */
static inline int64_t fxrt_cuda_panel_terms(const fxrt_conv2d_desc *d) { return (int64_t)d->kh * d->kw * d->ic; }
static inline int64_t fxrt_cuda_panel_row(const fxrt_conv2d_desc *d)
{
    return (fxrt_cuda_panel_terms(d) + FXRT_PANEL_ROW - 1) / FXRT_PANEL_ROW * FXRT_PANEL_ROW;
}

/* Whether results lie evenly apart, as a product's rows do; *to is then how. What x has for strides does not matter to a panel. */
static inline int fxrt_cuda_panel_results(const fxrt_conv2d_desc *d, fxrt_cuda_pixel_dim *to)
{
    fxrt_conv2d_desc results = *d;
    fxrt_cuda_pixel_dim dims[3];
    results.xs_n = results.xs_h = results.xs_w = 0;
    if (fxrt_cuda_pixel_dims(&results, dims) != 1)
        return 0;
    *to = dims[0];
    return to->size <= INT32_MAX - FXRT_PANEL_LEAST;
}

/* Pixels of a panel: all, or equal shares of them. */
static inline int32_t fxrt_cuda_panel_pixels(const fxrt_conv2d_desc *d)
{
    const int64_t least = FXRT_PANEL_LEAST, pixels = (int64_t)d->n * d->oh * d->ow, fit = FXRT_PANEL_BYTES / (2 * fxrt_cuda_panel_row(d));
    const int64_t share = fxrt_cuda_equal_share(pixels, fit > least ? fit : least), even = (share + least - 1) / least * least;
    return (int32_t)(even < pixels ? even : pixels);
}

/* Whether it can be made so: one group, and results that are a product's. */
static inline int fxrt_cuda_conv2d_in_panels(const fxrt_conv2d_desc *d)
{
    fxrt_cuda_pixel_dim results;
    return d->groups == 1 && d->ic > 0 && fxrt_cuda_panel_results(d, &results);
}

/* For the compiler: bytes. */
static inline __attribute__((unused)) size_t fxrt_cuda_conv2d_half_workspace(const fxrt_conv2d_desc *d)
{
    const int64_t row = fxrt_cuda_panel_row(d), rows = fxrt_cuda_panel_pixels(d) + (row > fxrt_cuda_panel_terms(d) ? (int64_t)d->oc : 0);
    return (size_t)(2 * rows * row);
}
