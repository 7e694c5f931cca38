/* matmul.h: product of two computed matrices: packs the second one, then as gemm.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* w[k][n] by strides -> panels [ceil(n / NR)][k][NR], zero padded. */
static inline void fxrt_matmul_pack(const fxrt_gemm_desc *d, const float *w, float *packed)
{
    for (int column = 0; column < d->n; column += FXRT_NR) {
        const int cols = fxrt_min_int(FXRT_NR, d->n - column);
        for (int p = 0; p < d->k; p++, packed += FXRT_NR) {
            const float *row = w + ((ptrdiff_t)p * d->w_k + (ptrdiff_t)column * d->w_n);
            for (int j = 0; j < cols; j++)
                packed[j] = row[(ptrdiff_t)j * d->w_n];
            for (int j = cols; j < FXRT_NR; j++)
                packed[j] = 0;
        }
    }
}

FXRT_KERNEL void fxrt_matmul(const fxrt_gemm_desc *d, const float *x, const float *w, const float *b, const float *r, float *y,
                             float *ws)
{
    for (ptrdiff_t i = 0; i < d->batch; i++) {
        if (i == 0 || d->w_b != 0)
            fxrt_matmul_pack(d, w + i * d->w_b, ws);
        fxrt_gemm_one(d, x + i * d->x_b, ws, b, r ? r + i * d->r_b : NULL, y + i * d->y_b);
    }
}
