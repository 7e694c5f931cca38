/* matmul.h: product of two computed matrices: packs the second one, then as gemm.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* w[k][n] by strides -> panels [ceil(n / NR)][k][NR], zero padded. */
static inline void fxrt_matmul_pack(const fxrt_gemm_desc *d, const float *w, float *packed)
{
    for (int column = 0; column < d->n; column += FXRT_NR, packed += (ptrdiff_t)d->k * FXRT_NR) {
        const int cols = fxrt_min_int(FXRT_NR, d->n - column);
        const float *from = w + (ptrdiff_t)column * d->w_n;
        if (d->w_n == 1) { /* rows are dense */
            for (ptrdiff_t p = 0; p < d->k; p++)
                for (int j = 0; j < FXRT_NR; j += FXRT_LANES)
                    fxrt_v_store(packed + p * FXRT_NR + j, fxrt_v_load_some(from + p * d->w_k + j, cols - j));
            continue;
        }
        for (ptrdiff_t j = 0; j < FXRT_NR; j++) /* columns are, or nothing is */
            for (ptrdiff_t p = 0; p < d->k; p++)
                packed[p * FXRT_NR + j] = j < cols ? from[p * d->w_k + j * d->w_n] : 0;
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
