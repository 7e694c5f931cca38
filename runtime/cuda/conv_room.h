/* conv_room.h: what conv2d.h needs where it splits sums: for the compiler, which plans it; no kernel's text. Follows conv_split.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* Bytes; 0: sums are not split. */
static inline size_t fxrt_cuda_conv2d_workspace(const fxrt_conv2d_desc *d)
{
    const fxrt_cuda_conv_way way = fxrt_cuda_conv2d_way(d);
    return way.parts > 1 ? (size_t)(way.tiles * way.parts) * (FXRT_CUDA_CONV_SLICED_SIDE * FXRT_CUDA_CONV_SLICED_SIDE * sizeof(float)) : 0;
}

/* Counters that a split convolution needs: one for each tile, zero before, and zero again when it has run. */
static inline size_t fxrt_cuda_conv2d_counters(const fxrt_conv2d_desc *d)
{
    const fxrt_cuda_conv_way way = fxrt_cuda_conv2d_way(d);
    return way.parts > 1 ? (size_t)way.tiles : 0;
}
