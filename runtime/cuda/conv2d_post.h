/* conv2d_post.h: convolution whose result is scaled and added to another tensor after the activation: y = act(x * w + b) gain + r. Follows conv_tile.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * gain [groups*oc]. All else as conv2d.h has it, where r is added before the activation. */
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_conv2d_post(const fxrt_conv2d_desc *d, const T *x, const T *w, fxrt_cuda_optional<T> b, fxrt_cuda_optional<T> r, const T *gain,
                                            T *y, float *ws, int *counts, cudaStream_t stream)
{
    return fxrt_cuda_conv_by<FXRT_CUDA_CONV_PLAIN, T>(d, fxrt_cuda_conv2d_way(d), x, w, b, r, y, ws, counts, stream, nullptr, nullptr, gain);
}
