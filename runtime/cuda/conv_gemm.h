/* conv_gemm.h: convolutions that are a matrix product as they lie. Plain C: the compiler, which then selects a product, includes the same text.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* One dim of the result's pixels, and how far its elements lie apart in x, y and r. */
typedef struct fxrt_cuda_pixel_dim {
    int64_t size, x, y, r;
} fxrt_cuda_pixel_dim;

/* The pixels [n][oh][ow] of a result in as few dims as x (read at every pixel of the result), y and r allow, 1 to 3 of them, the outermost
 * first. Dims of size 1 go, so that nobody asks for their strides; where there is no residual its strides are zeros, which fit with everything. */
static inline int fxrt_cuda_pixel_dims(const fxrt_conv2d_desc *d, fxrt_cuda_pixel_dim to[3])
{
    const fxrt_cuda_pixel_dim all[3] = {
        {d->n, d->xs_n, d->ys_n, d->rs_n}, {d->oh, d->xs_h, d->ys_h, d->rs_h}, {d->ow, d->xs_w, d->ys_w, d->rs_w}};
    int count = 0;
    for (int i = 0; i < 3; i++) {
        const fxrt_cuda_pixel_dim in = all[i];
        fxrt_cuda_pixel_dim *const out = count > 0 ? &to[count - 1] : NULL;
        if (in.size == 1 && (i < 2 || count > 0))
            continue;
        if (out && out->x == in.size * in.x && out->y == in.size * in.y && out->r == in.size * in.r) {
            const fxrt_cuda_pixel_dim both = {out->size * in.size, in.x, in.y, in.r};
            *out = both;
        } else {
            to[count++] = in;
        }
    }
    return count;
}

/* Whether the convolution is a product of its pixels [m][k] with the weights [n][k], which lie in both alike: 1 x 1, no stride, no padding, one
 * group, and pixels that lie evenly apart, or do so within each matrix of a batch. Then *to says which product. */
static inline __attribute__((unused)) int fxrt_cuda_conv2d_as_gemm(const fxrt_conv2d_desc *d, fxrt_gemm_desc *to)
{
    fxrt_cuda_pixel_dim dims[3];
    if (d->kh != 1 || d->kw != 1 || d->sh != 1 || d->sw != 1 || d->ph != 0 || d->pw != 0 || d->groups != 1 || d->oh != d->ih || d->ow != d->iw)
        return 0;
    const int count = fxrt_cuda_pixel_dims(d, dims);
    const fxrt_cuda_pixel_dim rows = dims[count - 1];
    fxrt_cuda_pixel_dim batch = {1, 0, 0, 0};
    if (count == 2)
        batch = dims[0];
    if (count == 3 || rows.size > INT32_MAX)
        return 0;
    const fxrt_gemm_desc gemm = {
        (int32_t)batch.size, (int32_t)rows.size, d->oc, d->ic, (int32_t)batch.x, (int32_t)rows.x, (int32_t)batch.y, (int32_t)rows.y, (int32_t)batch.r,
        (int32_t)rows.r, 0, 1, d->ic, d->act, d->act_a, d->act_b};
    *to = gemm;
    return 1;
}
