/* conv_wino.h: which convolutions conv2d_wino.h can make, and its workspace. Plain C: the compiler includes the same
 * text. Follows conv_share.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Winograd's F(4 x 4, 3 x 3) makes a tile of 4 x 4 results from 6 x 6 inputs by 36 products instead of 144: x and w are transformed, multiplied as 36
 * matrices, and transformed back. What it costs instead is memory: the transformed x and the products, 36 / 16 of the pixels each, go out and in. */

/* The points at which polynomials are multiplied: 0, +-A, +-B and infinity. Those of most texts (1 and 2) lose more: with these the rounding error of
 * 64 channels is 1.7 times that of plain sums, with those 3.6 times. The transforms' numbers (A and B to the third power) are exact as floats. */
#define FXRT_WINO_A (5.0f / 8)
#define FXRT_WINO_B (13.0f / 8)
#ifndef FXRT_WINO_BYTES
#define FXRT_WINO_BYTES (32 << 20) /* of workspace, but for FXRT_WINO_LEAST_TILES: what a device's second cache may hold */
#endif
enum {
    FXRT_WINO_OUT = 4,           /* rows and columns of a tile of results */
    FXRT_WINO_IN = 6,            /* and of inputs */
    FXRT_WINO_POINTS = 36,       /* matrices */
    FXRT_WINO_LEAST_TILES = 64   /* of a product, where there are so many */
};

static inline int64_t fxrt_cuda_wino_tiles(const fxrt_conv2d_desc *d)
{
    return (int64_t)d->n * ((d->oh + FXRT_WINO_OUT - 1) / FXRT_WINO_OUT) * ((d->ow + FXRT_WINO_OUT - 1) / FXRT_WINO_OUT);
}

/* Whether it is a convolution of that kind at all. Any padding, any strides. */
static inline int fxrt_cuda_conv2d_wino_fits(const fxrt_conv2d_desc *d)
{
    return d->kh == 3 && d->kw == 3 && d->sh == 1 && d->sw == 1 && d->dh == 1 && d->dw == 1 && d->groups == 1 && d->ic > 0 &&
           fxrt_cuda_wino_tiles(d) <= INT32_MAX - 8;
}

/* Tiles that are in work at once: all, or equal shares of them. */
static inline int32_t fxrt_cuda_wino_chunk(const fxrt_conv2d_desc *d)
{
    const int64_t tiles = fxrt_cuda_wino_tiles(d), each = (int64_t)FXRT_WINO_POINTS * (d->ic + d->oc) * (int64_t)sizeof(float);
    const int64_t fit = FXRT_WINO_BYTES / each, least = FXRT_WINO_LEAST_TILES, most = fit > least ? fit : least;
    return (int32_t)fxrt_cuda_equal_share(tiles, most);
}

/* For the compiler, bytes: the transformed tiles [36][chunk][ic] and their products [36][chunk][oc]. */
static inline __attribute__((unused)) size_t fxrt_cuda_conv2d_wino_workspace(const fxrt_conv2d_desc *d)
{
    return (size_t)FXRT_WINO_POINTS * (size_t)fxrt_cuda_wino_chunk(d) * (size_t)(d->ic + d->oc) * sizeof(float);
}
