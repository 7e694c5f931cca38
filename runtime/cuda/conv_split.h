/* conv_split.h: where conv2d.h splits its sums. Plain C: the compiler, which plans the workspace, includes the same text.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The late layers of a network at a small batch have few pixels and long sums: a device would be mostly idle. Blocks then make parts of the
 * sums, into the workspace [parts][n][oh][ow][groups*oc], and a second kernel adds the parts in their order: the result does not depend on
 * which block was first. */
enum {
    FXRT_CUDA_SPLIT_BLOCKS = 256, /* blocks to aim at: with tiles of 64 x 64 never more than 4 MiB of workspace */
    FXRT_CUDA_SPLIT_LEAST = 256   /* terms of a part */
};

/* Bytes; 0: sums are not split. */
static inline size_t fxrt_cuda_conv2d_workspace(const fxrt_conv2d_desc *d)
{
    const int64_t pixels = (int64_t)d->n * d->oh * d->ow, terms = (int64_t)d->kh * d->kw * d->ic;
    const int64_t blocks = (pixels + 63) / 64 * ((d->oc + 63) / 64) * d->groups;
    int64_t parts = blocks > 0 ? FXRT_CUDA_SPLIT_BLOCKS / blocks : 0;
    if (parts > terms / FXRT_CUDA_SPLIT_LEAST)
        parts = terms / FXRT_CUDA_SPLIT_LEAST;
    return parts > 1 ? (size_t)(parts * pixels * d->groups * d->oc) * sizeof(float) : 0;
}
