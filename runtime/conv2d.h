/* conv2d.h: convolution of channels-last images as an implicit matrix product.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A tile is FXRT_MR output pixels x FXRT_NR output channels; its sums run over the kernel's taps and the input channels in the
 * order of the packed panel [kh][kw][ic][NR]. Inputs are read in place: a pointer for each pixel and tap, taps that
 * fall outside the image read a row of zeros (the workspace). */

/* MR output pixels, by number from `first`: where they read, where they write. */
typedef struct fxrt_conv2d_pixels {
    int iy[FXRT_MR], ix[FXRT_MR];   /* input row and column of the first tap */
    ptrdiff_t at[FXRT_MR];          /* the same as an offset from the image */
    float *y[FXRT_MR];
    const float *r[FXRT_MR];
    int inside;                     /* no tap of any pixel falls outside */
} fxrt_conv2d_pixels;

FXRT_INLINE void fxrt_conv2d_locate(const fxrt_conv2d_desc *d, int first, int mr, float *y, const float *r, fxrt_conv2d_pixels *p)
{
    int oy = first / d->ow, ox = first % d->ow;
    p->inside = 1;
    for (int i = 0; i < mr; i++) {
        const int iy = oy * d->sh - d->ph, ix = ox * d->sw - d->pw;
        p->iy[i] = iy;
        p->ix[i] = ix;
        p->at[i] = (ptrdiff_t)iy * d->xs_h + (ptrdiff_t)ix * d->xs_w;
        p->y[i] = y + (ptrdiff_t)oy * d->ys_h + (ptrdiff_t)ox * d->ys_w;
        p->r[i] = r ? r + (ptrdiff_t)oy * d->rs_h + (ptrdiff_t)ox * d->rs_w : NULL;
        p->inside &= iy >= 0 && ix >= 0 && iy + (d->kh - 1) * d->dh < d->ih && ix + (d->kw - 1) * d->dw < d->iw;
        if (++ox == d->ow) {
            ox = 0;
            oy++;
        }
    }
}

/* One tile: mr pixels x one panel. */
FXRT_INLINE void fxrt_conv2d_tile(const int mr, const fxrt_conv2d_desc *d, const fxrt_conv2d_pixels *p, const float *x, const float *w,
                                  const float *bias, const float *zeros, int channel, int cols, const fxrt_tail *tail)
{
    fxrt_v acc[FXRT_MR][FXRT_NV];
    const float *in[FXRT_MR];
    fxrt_tile_begin(mr, acc, bias);
    /* Where a kernel row's taps lie side by side in memory they are one run. */
    const int merged = p->inside && d->dw == 1 && d->xs_w == d->ic;
    const int taps = merged ? 1 : d->kw, run = merged ? d->kw * d->ic : d->ic;
    for (int r = 0; r < d->kh; r++)
        for (int c = 0; c < taps; c++) {
            const int dy = r * d->dh, dx = c * d->dw;
            const ptrdiff_t tap = (ptrdiff_t)dy * d->xs_h + (ptrdiff_t)dx * d->xs_w;
            if (p->inside) {
#define FXRT_IN(i) if (i < mr) in[i] = x + (p->at[i] + tap);
                FXRT_ROWS(FXRT_IN)
#undef FXRT_IN
            } else {
#define FXRT_IN(i)                                                                                                        \
    if (i < mr)                                                                                                         \
        in[i] = (unsigned)(p->iy[i] + dy) < (unsigned)d->ih && (unsigned)(p->ix[i] + dx) < (unsigned)d->iw              \
                    ? x + (p->at[i] + tap)                                                                                \
                    : zeros;
                FXRT_ROWS(FXRT_IN)
#undef FXRT_IN
            }
            w = fxrt_tile_run(mr, acc, in, w, run);
        }
    float *y[FXRT_MR];
    const float *res[FXRT_MR];
    const int residual = p->r[0] != NULL;
#define FXRT_OUT(i) if (i < mr) { y[i] = p->y[i] + channel; res[i] = residual ? p->r[i] + channel : NULL; }
    FXRT_ROWS(FXRT_OUT)
#undef FXRT_OUT
    fxrt_tile_end(mr, acc, y, residual, res, cols, tail);
}

/* Pixels [first, last) of an image x one panel of channels. */
FXRT_NOINLINE void fxrt_conv2d_panel(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *bias, float *y,
                                     const float *r, const float *zeros, int first, int last, int channel, int cols)
{
    const fxrt_tail tail = { d->act, d->act_a, d->act_b };
    for (int at = first; at < last; at += FXRT_MR) {
        const int mr = fxrt_min_int(FXRT_MR, last - at);
        fxrt_conv2d_pixels p;
        fxrt_conv2d_locate(d, at, mr, y, r, &p);
        if (mr == FXRT_MR) {
            fxrt_conv2d_tile(FXRT_MR, d, &p, x, w, bias, zeros, channel, cols, &tail);
            continue;
        }
        switch (mr) { /* the last pixels */
#define FXRT_CASE(i)                                                                                                    \
    case i: if (i > 0 && i < FXRT_MR) fxrt_conv2d_tile(i, d, &p, x, w, bias, zeros, channel, cols, &tail); break;
            FXRT_ROWS(FXRT_CASE)
#undef FXRT_CASE
        }
    }
}

FXRT_KERNEL void fxrt_conv2d(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y,
                             float *ws)
{
    const int pixels = d->oh * d->ow, panels = (d->oc + FXRT_NR - 1) / FXRT_NR;
    const ptrdiff_t taps = (ptrdiff_t)d->kh * d->kw * d->ic;
    if (ws)
        memset(ws, 0, (size_t)d->ic * sizeof *ws);
    /* Blocks of pixels whose inputs stay in L2 while every panel passes over them. */
    const ptrdiff_t pixel_bytes = (ptrdiff_t)d->ic * d->sh * d->sw * (ptrdiff_t)sizeof(float);
    int block = (int)(131072 / pixel_bytes) / FXRT_MR * FXRT_MR;
    block = fxrt_max_int(block, 4 * FXRT_MR);
    const int blocks = (pixels + block - 1) / block;
    const ptrdiff_t units = (ptrdiff_t)d->n * d->groups * blocks * panels;
#ifdef _OPENMP
    const double work = (double)d->n * d->groups * d->oc * pixels * (double)taps;
    _Pragma("omp parallel for schedule(dynamic) if (work > 5e5)")
#endif
    for (ptrdiff_t unit = 0; unit < units; unit++) {
        const int panel = (int)(unit % panels), at = (int)(unit / panels % blocks) * block;
        const int g = (int)(unit / panels / blocks % d->groups), n = (int)(unit / panels / blocks / d->groups);
        const ptrdiff_t column = ((ptrdiff_t)g * panels + panel) * FXRT_NR;
        fxrt_conv2d_panel(d, x + (ptrdiff_t)n * d->xs_n + (ptrdiff_t)g * d->ic, w + column * taps, b ? b + column : NULL,
                          y + (ptrdiff_t)n * d->ys_n, r ? r + (ptrdiff_t)n * d->rs_n : NULL, ws, at,
                          fxrt_min_int(pixels, at + block), g * d->oc + panel * FXRT_NR,
                          fxrt_min_int(FXRT_NR, d->oc - panel * FXRT_NR));
    }
}
