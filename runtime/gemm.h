/* gemm.h: matrix product of computed rows with packed weights.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* Long sums are cut into blocks of so many steps, kept in y between them. */
enum { FXRT_GEMM_STEPS = 1024 };

/* Steps [from, to) of rows [first, last) of one matrix x one panel of columns. */
FXRT_SHARED void fxrt_gemm_panel(const fxrt_gemm_desc *d, const float *x, const float *w, const float *bias, const float *r,
                                   float *y, int first, int last, int column, int from, int to)
{
    /* In one block the residual comes in the end. In several it comes in the beginning: it may lie in y. */
    const fxrt_tail tail = { to == d->k ? d->act : FXRT_ACT_NONE, d->act_a, d->act_b };
    const int cols = fxrt_min_int(FXRT_NR, d->n - column), more = from > 0 || (r && to < d->k), residual = r && from == 0 && to == d->k;
    const float *init = from > 0 ? y : r;
    const ptrdiff_t init_m = from > 0 ? d->y_m : d->r_m;
    x += from;
    w += (ptrdiff_t)from * FXRT_NR;
    for (int at = first; at < last; at += FXRT_MR) {
        const int mr = fxrt_min_int(FXRT_MR, last - at);
        fxrt_v acc[FXRT_MR][FXRT_NV];
        const float *in[FXRT_MR], *res[FXRT_MR];
        float *out[FXRT_MR];
#define FXRT_ROW(i)                                                                                                     \
    in[i] = x + (ptrdiff_t)(at + fxrt_min_int(i, mr - 1)) * d->x_m;                                                     \
    out[i] = y + ((ptrdiff_t)(at + fxrt_min_int(i, mr - 1)) * d->y_m + column);                                         \
    res[i] = more || residual ? init + ((ptrdiff_t)(at + fxrt_min_int(i, mr - 1)) * init_m + column) : NULL;
        FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#define FXRT_TILE(rows)                                                                                                 \
    do {                                                                                                                \
        fxrt_tile_begin(rows, FXRT_NV, acc, from > 0 ? NULL : bias);                                                    \
        if (more)                                                                                                       \
            fxrt_tile_add(rows, FXRT_NV, acc, res, cols);                                                               \
        fxrt_tile_run(rows, FXRT_NV, acc, in, w, to - from);                                                            \
        fxrt_tile_end(rows, FXRT_NV, acc, out, residual, res, cols, &tail);                                             \
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
    /* Blocks of rows that stay in L2 (512 KB) while panels pass over them, a block of steps at a time: weights, which come from
     * memory, are read once for each block of rows. A unit of work is a block of rows x some panels. */
    const int panels = (d->n + FXRT_NR - 1) / FXRT_NR, parts = (d->k + FXRT_GEMM_STEPS - 1) / FXRT_GEMM_STEPS;
    const int steps = parts > 1 ? (d->k + parts - 1) / parts : d->k;
    const int most = fxrt_max_int(524288 / (int)sizeof(float) / fxrt_max_int(steps, 1) / FXRT_MR, 4) * FXRT_MR;
    const int blocks = (d->m + most - 1) / most, block = ((d->m + blocks - 1) / fxrt_max_int(blocks, 1) + FXRT_MR - 1) / FXRT_MR * FXRT_MR;
    const int group = parts > 1 ? fxrt_max_int((panels + 7) / 8, 1) : 1, groups = (panels + group - 1) / group;
    const ptrdiff_t units = (ptrdiff_t)blocks * groups;
#ifdef _OPENMP
    const double work = (double)d->m * d->n * d->k;
    _Pragma("omp parallel for schedule(dynamic) if (work > 5e5)")
#endif
    for (ptrdiff_t unit = 0; unit < units; unit++) {
        const int from = (int)(unit % groups) * group, to = fxrt_min_int(panels, from + group), first = (int)(unit / groups) * block;
        for (int step = 0; step < d->k || step == 0; step += fxrt_max_int(steps, 1))
            for (int panel = from; panel < to; panel++)
                fxrt_gemm_panel(d, x, w + (ptrdiff_t)panel * d->k * FXRT_NR, b ? b + (ptrdiff_t)panel * FXRT_NR : NULL, r, y, first,
                                fxrt_min_int(d->m, first + block), panel * FXRT_NR, step, fxrt_min_int(d->k, step + steps));
    }
}

FXRT_KERNEL void fxrt_gemm(const fxrt_gemm_desc *d, const float *x, const float *w, const float *b, const float *r, float *y)
{
    for (ptrdiff_t i = 0; i < d->batch; i++)
        fxrt_gemm_one(d, x + i * d->x_b, w, b, r ? r + i * d->r_b : NULL, y + i * d->y_b);
}
