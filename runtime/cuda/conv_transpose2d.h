/* conv_transpose2d.h: transposed convolution. Follows conv_tile.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Each output gathers from the inputs that reach it, so nothing is added twice and no order matters. Outputs that lie a stride apart are
 * reached by the same taps: a phase is a convolution of its own, with the taps it has, and the grid's z counts groups and phases (65,535 at
 * most). w[groups*oc][kh][kw][ic], b and r as in conv2d.h: PyTorch's weight [groups*ic][oc][kh][kw] with its channels exchanged. ws is not used. */
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_conv_transpose2d(const fxrt_conv2d_desc *d, const T *x, const T *w, fxrt_cuda_optional<T> b, fxrt_cuda_optional<T> r,
                                                 T *y, float *ws, cudaStream_t stream)
{
    static_cast<void>(ws);
    if (d->sh < 1 || d->sw < 1) {
        return cudaErrorInvalidValue;
    }
    fxrt_conv2d_desc phase = *d; /* the first, which has the most pixels; all are as many planes */
    phase.oh = (d->oh + d->sh - 1) / d->sh;
    phase.ow = (d->ow + d->sw - 1) / d->sw;
    phase.groups = d->groups * d->sh * d->sw;
    return fxrt_cuda_conv_by<FXRT_CUDA_CONV_TRANSPOSED, T>(d, fxrt_cuda_conv2d_way(&phase), x, w, b, r, y, nullptr, nullptr, stream);
}
