/* conv2d.h: convolution, any kernel, stride, padding, dilation and groups. Follows conv_tile.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * w[groups*oc][kh][kw][ic], b[groups*oc] or null, r or null (it may be y); ws of fxrt_cuda_conv2d_workspace bytes and counts of fxrt_cuda_conv2d_counters
 * zeros, which are zeros again afterwards, or null: sums are not split. T: float, __half or __nv_bfloat16; sums and tail are floats. More than 65,535 groups are
 * refused by the launch. */
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_conv2d(const fxrt_conv2d_desc *d, const T *x, const T *w, fxrt_cuda_optional<T> b, fxrt_cuda_optional<T> r, T *y,
                                       float *ws, int *counts, cudaStream_t stream)
{
    return fxrt_cuda_conv_by<FXRT_CUDA_CONV_PLAIN, T>(d, fxrt_cuda_conv2d_way(d), x, w, b, r, y, ws, counts, stream);
}
