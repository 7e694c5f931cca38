/* conv2d.h: convolution, any kernel, stride, padding, dilation and groups. Follows conv_tile.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * w[groups*oc][kh][kw][ic], b[groups*oc] or null, r or null (it may be y). More than 65,535 groups are refused by the launch. */
FXRT_HOST cudaError_t fxrt_cuda_conv2d(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y,
                                       cudaStream_t stream)
{
    return fxrt_cuda_conv_choose<false>(d, x, w, b, r, y, stream);
}
