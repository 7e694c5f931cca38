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

/* For each slot: packed queries, three numbers a query, a tile of scores and a row more, and columns of v that do not fill a tile (attention.h). */
size_t fxrt_attention_workspace(const fxrt_attention_desc *d, const fxrt_tile *t)
{
    const int32_t half = t->lanes > 1 ? (t->nr / t->lanes + 1) / 2 * t->lanes : t->nr, tail = d->dv % t->nr;
    const size_t keys = 64, nr = (size_t)t->nr, m = ((size_t)d->m + nr - 1) / nr * nr, most = ((t->lanes > 1 ? 96 : 16) + nr - 1) / nr * nr;
    const size_t rows = m < most ? m : most, units = rows ? (size_t)d->batch * (size_t)d->heads * (((size_t)d->m + rows - 1) / rows) : 0;
    const size_t slots = units < (size_t)d->slots ? units : (size_t)d->slots, rest = tail != 0 && tail != half ? keys * nr : 0;
    return slots * (rows * ((size_t)d->dk + 4 + keys) + (size_t)t->mr + rest) * sizeof(float);
}
