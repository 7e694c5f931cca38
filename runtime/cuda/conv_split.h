/* conv_split.h: by which tiles conv_tile.h makes a convolution, and where it splits sums over blocks. Plain C: the compiler, which plans
 * workspace and counters, includes the same text.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Large tiles read least, where there are enough of them to keep a device at work. The late layers of a network at a small batch have few pixels and long
 * sums: there a tile is small, and the warps of its block take slices of the sum, which shared memory adds. Only where these are still few do several blocks make
 * parts of a tile's sums, in the workspace, where the last one adds them (conv_tile.h). Parts pass through memory: all blocks write, and all but one of a tile
 * are read, 4 KiB each, so that a split convolution moves at most 1 MiB more than one that is not. */
enum {
    FXRT_CUDA_CONV_BLOCKS = 128,      /* about one for each multiprocessor of large devices: so many of 256 threads are enough */
    FXRT_CUDA_CONV_LARGE_BLOCKS = 256, /* the same of a large or narrow tile's 128 threads */
    FXRT_CUDA_CONV_PART = 512         /* terms of a part, at least: to pass parts on takes about as long as to multiply some hundred */
};

/* Pixels by channels; conv_tile.h has them as types. */
typedef enum fxrt_cuda_conv_tile {
    FXRT_CUDA_CONV_LARGE,  /* 128 x 64 */
    FXRT_CUDA_CONV_SMALL,  /* 64 x 64 */
    FXRT_CUDA_CONV_NARROW, /* 64 x 32 */
    FXRT_CUDA_CONV_SLICED  /* 32 x 32, sums in slices */
} fxrt_cuda_conv_tile;
enum { FXRT_CUDA_CONV_SLICED_SIDE = 32 };

/* parts: of each sum, each a block's; tiles: of all planes. */
typedef struct fxrt_cuda_conv_way {
    fxrt_cuda_conv_tile tile;
    int parts;
    int64_t tiles;
} fxrt_cuda_conv_way;

static inline int64_t fxrt_cuda_conv_tiles(int64_t pixels, int64_t channels, int64_t planes, int m, int n)
{
    return (pixels + m - 1) / m * ((channels + n - 1) / n) * planes;
}

/* planes: images of sums that have nothing in common, which are groups, and phases of a transposed convolution; terms: of a sum. */
static inline fxrt_cuda_conv_way fxrt_cuda_conv_way_of(int64_t pixels, int64_t channels, int64_t planes, int64_t terms)
{
    fxrt_cuda_conv_way way = {FXRT_CUDA_CONV_LARGE, 1, fxrt_cuda_conv_tiles(pixels, channels, planes, 128, 64)};
    if (channels > 32 && way.tiles >= FXRT_CUDA_CONV_LARGE_BLOCKS)
        return way;
    way.tile = channels > 32 ? FXRT_CUDA_CONV_SMALL : FXRT_CUDA_CONV_NARROW;
    way.tiles = fxrt_cuda_conv_tiles(pixels, channels, planes, 64, channels > 32 ? 64 : 32);
    if (way.tiles >= (channels > 32 ? FXRT_CUDA_CONV_BLOCKS : FXRT_CUDA_CONV_LARGE_BLOCKS))
        return way;
    way.tile = FXRT_CUDA_CONV_SLICED;
    way.tiles = fxrt_cuda_conv_tiles(pixels, channels, planes, FXRT_CUDA_CONV_SLICED_SIDE, FXRT_CUDA_CONV_SLICED_SIDE);
    int64_t parts = way.tiles > 0 ? FXRT_CUDA_CONV_BLOCKS / way.tiles : 0;
    if (parts > terms / FXRT_CUDA_CONV_PART)
        parts = terms / FXRT_CUDA_CONV_PART;
    way.parts = parts > 1 ? (int)parts : 1;
    return way;
}

static inline fxrt_cuda_conv_way fxrt_cuda_conv2d_way(const fxrt_conv2d_desc *d)
{
    return fxrt_cuda_conv_way_of((int64_t)d->n * d->oh * d->ow, d->oc, d->groups, (int64_t)d->kh * d->kw * d->ic);
}

/* For the compiler: bytes; 0: sums are not split. */
static inline __attribute__((unused)) size_t fxrt_cuda_conv2d_workspace(const fxrt_conv2d_desc *d)
{
    const fxrt_cuda_conv_way way = fxrt_cuda_conv2d_way(d);
    return way.parts > 1 ? (size_t)(way.tiles * way.parts) * (FXRT_CUDA_CONV_SLICED_SIDE * FXRT_CUDA_CONV_SLICED_SIDE * sizeof(float)) : 0;
}

/* For the compiler: counters that a split convolution needs: one for each tile, zero before, and zero again when it has run. */
static inline __attribute__((unused)) size_t fxrt_cuda_conv2d_counters(const fxrt_conv2d_desc *d)
{
    const fxrt_cuda_conv_way way = fxrt_cuda_conv2d_way(d);
    return way.parts > 1 ? (size_t)way.tiles : 0;
}
