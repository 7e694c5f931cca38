/* weight_grad_split.h: into how many parts conv2d_weight_grad.h splits its sums. Plain C: the compiler, which plans the workspace, includes the
 * same text.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A weight has few elements and each sums over all pixels of all images: without parts, a device would be mostly idle. */
enum {
    FXRT_CUDA_GRAD_TILE = 64,    /* taps times input channels of a block, and output channels; depthwise: 32 channels of a tap */
    FXRT_CUDA_GRAD_BLOCKS = 512, /* blocks to aim at: never more than 8 MiB of workspace */
    FXRT_CUDA_GRAD_LEAST = 256   /* pixels of a part */
};

static inline int64_t fxrt_cuda_grad_elements(const fxrt_conv2d_desc *d) { return (int64_t)d->kh * d->kw * d->ic * d->groups * d->oc; }
static inline int64_t fxrt_cuda_grad_pixels(const fxrt_conv2d_desc *d) { return (int64_t)d->n * d->oh * d->ow; }
static inline int fxrt_cuda_grad_depthwise(const fxrt_conv2d_desc *d) { return d->ic == 1 && d->oc == 1; }

/* At least 1. */
static inline int fxrt_cuda_grad_parts(const fxrt_conv2d_desc *d)
{
    const int64_t tile = FXRT_CUDA_GRAD_TILE, taps = (int64_t)d->kh * d->kw;
    const int64_t blocks = fxrt_cuda_grad_depthwise(d) ? (d->groups + 31) / 32 * taps
                                                       : (taps * d->ic + tile - 1) / tile * ((d->oc + tile - 1) / tile) * d->groups;
    const int64_t most = fxrt_cuda_grad_pixels(d) / FXRT_CUDA_GRAD_LEAST;
    int64_t parts = blocks > 0 ? FXRT_CUDA_GRAD_BLOCKS / blocks : 1;
    if (parts > most)
        parts = most;
    return parts > 1 ? (int)parts : 1;
}

/* For the compiler: bytes; 0: sums are not split. */
static inline __attribute__((unused)) size_t fxrt_cuda_conv2d_weight_grad_workspace(const fxrt_conv2d_desc *d)
{
    const int parts = fxrt_cuda_grad_parts(d);
    return parts > 1 ? (size_t)(parts * fxrt_cuda_grad_elements(d)) * sizeof(float) : 0;
}
