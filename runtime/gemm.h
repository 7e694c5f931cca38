/* gemm.h: matrix product of computed rows with packed weights.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* Rows [first, last) of one matrix x one panel of columns. */
FXRT_NOINLINE void fxrt_gemm_panel(const fxrt_gemm_desc *d, const float *x, const float *w, const float *bias, const float *r,
                                   float *y, int first, int last, int column)
{
    const fxrt_tail tail = { d->act, d->act_a, d->act_b };
    const int cols = fxrt_min_int(FXRT_NR, d->n - column);
    for (int at = first; at < last; at += FXRT_MR) {
        const int mr = fxrt_min_int(FXRT_MR, last - at);
        fxrt_v acc[FXRT_MR][FXRT_NV];
        const float *in[FXRT_MR], *res[FXRT_MR];
        float *out[FXRT_MR];
#define FXRT_ROW(i)                                                                                                     \
    in[i] = x + (ptrdiff_t)(at + fxrt_min_int(i, mr - 1)) * d->x_m;                                                     \
    out[i] = y + ((ptrdiff_t)(at + fxrt_min_int(i, mr - 1)) * d->y_m + column);                                         \
    res[i] = r ? r + ((ptrdiff_t)(at + fxrt_min_int(i, mr - 1)) * d->r_m + column) : NULL;
        FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#define FXRT_TILE(rows)                                                                                                 \
    do {                                                                                                                \
        fxrt_tile_begin(rows, FXRT_NV, acc, bias);                                                                      \
        fxrt_tile_run(rows, FXRT_NV, acc, in, w, d->k);                                                                 \
        fxrt_tile_end(rows, FXRT_NV, acc, out, r != NULL, res, cols, &tail);                                            \
    } while (0)
        if (mr == FXRT_MR)
            FXRT_TILE(FXRT_MR);
        else
            FXRT_REST(mr, FXRT_TILE);
#undef FXRT_TILE
    }
}

/* One matrix of the batch. */
static inline void fxrt_gemm_one(const fxrt_gemm_desc *d, const float *x, const float *w, const float *b, const float *r, float *y)
{
    /* Blocks of rows that stay in L2 while every panel passes over them. */
    const int panels = (d->n + FXRT_NR - 1) / FXRT_NR;
    const int block = fxrt_max_int(131072 / (int)sizeof(float) / fxrt_max_int(d->k, 1) / FXRT_MR, 4) * FXRT_MR;
    const int blocks = (d->m + block - 1) / block;
    const ptrdiff_t units = (ptrdiff_t)blocks * panels;
#ifdef _OPENMP
    const double work = (double)d->m * d->n * d->k;
    _Pragma("omp parallel for schedule(dynamic) if (work > 5e5)")
#endif
    for (ptrdiff_t unit = 0; unit < units; unit++) {
        const int panel = (int)(unit % panels), first = (int)(unit / panels) * block;
        fxrt_gemm_panel(d, x, w + (ptrdiff_t)panel * d->k * FXRT_NR, b ? b + (ptrdiff_t)panel * FXRT_NR : NULL, r, y, first,
                        fxrt_min_int(d->m, first + block), panel * FXRT_NR);
    }
}

FXRT_KERNEL void fxrt_gemm(const fxrt_gemm_desc *d, const float *x, const float *w, const float *b, const float *r, float *y)
{
    for (ptrdiff_t i = 0; i < d->batch; i++)
        fxrt_gemm_one(d, x + i * d->x_b, w, b, r ? r + i * d->r_b : NULL, y + i * d->y_b);
}
