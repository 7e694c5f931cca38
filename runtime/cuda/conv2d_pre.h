/* conv2d_pre.h: convolution of max(0, x scale + shift), which is batch norm and ReLU in front of it: x is read once, and nothing else is stored. Follows conv_tile.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * scale and shift [groups*ic], either may be null: 1 and 0; padding is zero all the same, as it is the result that is padded. All else as conv2d.h has it. Where channels go out by more
 * than one tile, x is scaled again for each: two operations for the tile's 64 (32) multiplications. */
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_conv2d_pre(const fxrt_conv2d_desc *d, const T *x, const T *w, fxrt_cuda_optional<T> b, fxrt_cuda_optional<T> r,
                                           fxrt_cuda_optional<T> scale, fxrt_cuda_optional<T> shift, T *y, float *ws, int *counts, cudaStream_t stream)
{
    return fxrt_cuda_conv_by<FXRT_CUDA_CONV_PRE, T>(d, fxrt_cuda_conv2d_way(d), x, w, b, r, y, ws, counts, stream, scale, shift);
}
