/* workspace.c: the scratch memory a kernel call needs, in bytes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "fxcc/runtime.h"

int fxrt_abi_version(void) { return FXRT_ABI_VERSION; }

/* Does any tap of any output pixel fall outside [0, in)? */
static int reads_padding(int64_t in, int64_t out, int64_t k, int64_t stride, int64_t pad, int64_t dilation)
{
    return pad > 0 || (out - 1) * stride - pad + (k - 1) * dilation >= in;
}

/* A row of zeros that stands for pixels outside the image. */
size_t fxrt_conv2d_workspace(const fxrt_conv2d_desc *d, const fxrt_tile *t, int32_t threads)
{
    (void)t;
    (void)threads;
    if (!reads_padding(d->ih, d->oh, d->kh, d->sh, d->ph, d->dh) && !reads_padding(d->iw, d->ow, d->kw, d->sw, d->pw, d->dw))
        return 0;
    return (size_t)d->ic * sizeof(float);
}

size_t fxrt_conv2d_dw_workspace(const fxrt_conv2d_desc *d, const fxrt_tile *t, int32_t threads)
{
    (void)d;
    (void)t;
    (void)threads;
    return 0;
}

/* As conv2d; taps beyond the edge are the rule here. */
size_t fxrt_conv_transpose2d_workspace(const fxrt_conv2d_desc *d, const fxrt_tile *t, int32_t threads)
{
    (void)t;
    (void)threads;
    return (size_t)d->ic * sizeof(float);
}

/* The packed second matrix, one of the batch at a time. */
size_t fxrt_matmul_workspace(const fxrt_gemm_desc *d, const fxrt_tile *t, int32_t threads)
{
    (void)threads;
    return fxrt_gemm_packed_size(d, t) * sizeof(float);
}
