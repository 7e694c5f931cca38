/* conv2d.h: convolution of channels-last images as an implicit matrix product.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A tile is FXRT_MR output pixels x FXRT_NR output channels; its sums run over the kernel's taps and the input channels in the
 * order of the packed panel [kh][kw][ic][NR]. Inputs are read in place: a pointer for each pixel and tap, taps that
 * fall outside the image read a row of zeros (the workspace). */

/* MR output pixels: where they read, where they write. */
typedef struct fxrt_conv2d_pixels {
    int iy[FXRT_MR], ix[FXRT_MR];   /* input row and column of the first tap */
    ptrdiff_t at[FXRT_MR];          /* the same as an offset from the image */
    float *y[FXRT_MR];
    const float *r[FXRT_MR];
    int inside;                     /* no tap of any pixel falls outside */
} fxrt_conv2d_pixels;

/* mr pixels from number `first` on; rows beyond them, up to MR, repeat the last one. */
FXRT_INLINE void fxrt_conv2d_locate(const fxrt_conv2d_desc *d, int first, int mr, float *y, const float *r, fxrt_conv2d_pixels *p)
{
    /* first taps of pixels that have no tap outside; steps from one pixel of a row to the next */
    const int rows = fxrt_max_int(d->ih - (d->kh - 1) * d->dh, 0), cols = fxrt_max_int(d->iw - (d->kw - 1) * d->dw, 0);
    const ptrdiff_t x_step = (ptrdiff_t)d->sw * d->xs_w, y_step = d->ys_w, r_step = r ? d->rs_w : 0;
    int oy = first / d->ow, ox = first % d->ow, iy = oy * d->sh - d->ph, ix = ox * d->sw - d->pw, inside = 1;
    ptrdiff_t at = (ptrdiff_t)iy * d->xs_h + (ptrdiff_t)ix * d->xs_w;
    float *to = y + ((ptrdiff_t)oy * d->ys_h + (ptrdiff_t)ox * d->ys_w);
    const float *from = r ? r + ((ptrdiff_t)oy * d->rs_h + (ptrdiff_t)ox * d->rs_w) : NULL;
    for (int i = 0; i < FXRT_MR; i++) {
        p->iy[i] = iy;
        p->ix[i] = ix;
        p->at[i] = at;
        p->y[i] = to;
        p->r[i] = from;
        inside &= ((unsigned)iy < (unsigned)rows) & ((unsigned)ix < (unsigned)cols);
        if (i + 1 >= mr)
            continue;
        if (++ox < d->ow) {
            ix += d->sw;
            at += x_step;
            to += y_step;
            from = r ? from + r_step : NULL;
        } else {
            ox = 0;
            oy++;
            iy += d->sh;
            ix = -d->pw;
            at = (ptrdiff_t)iy * d->xs_h + (ptrdiff_t)ix * d->xs_w;
            to = y + (ptrdiff_t)oy * d->ys_h;
            from = r ? r + (ptrdiff_t)oy * d->rs_h : NULL;
        }
    }
    p->inside = inside;
}

/* One tile: mr pixels x one panel. */
FXRT_INLINE void fxrt_conv2d_tile(const int mr, const int nv, const fxrt_conv2d_desc *d, const fxrt_conv2d_pixels *p, const float *x,
                                  const float *w, const float *bias, const float *zeros, int channel, int cols, const fxrt_tail *tail)
{
    fxrt_v acc[FXRT_MR][FXRT_NV];
    const float *in[FXRT_MR];
    float *y[FXRT_MR];
    const float *res[FXRT_MR];
    const int residual = p->r[0] != NULL;
#define FXRT_OUT(i)                                                                                                       \
    if (i < mr) {                                                                                                       \
        y[i] = p->y[i] + channel;                                                                                       \
        res[i] = residual ? p->r[i] + channel : NULL;                                                                   \
        FXRT_PREFETCH(y[i]);                                                                                            \
        if (residual)                                                                                                   \
            FXRT_PREFETCH(res[i]);                                                                                      \
    }
    FXRT_ROWS(FXRT_OUT)
#undef FXRT_OUT
    fxrt_tile_begin(mr, nv, acc, bias);
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
            w = fxrt_tile_run(mr, nv, acc, in, w, run);
        }
    fxrt_tile_end(mr, nv, acc, y, residual, res, cols, tail);
}

/* A tile whose columns are at most half used. */
enum { FXRT_HALF_NV = (FXRT_NV + 1) / 2 };
FXRT_SHARED void fxrt_conv2d_half(const fxrt_conv2d_desc *d, const fxrt_conv2d_pixels *p, const float *x, const float *w,
                                    const float *bias, const float *zeros, int channel, int cols, const fxrt_tail *tail)
{
    fxrt_conv2d_tile(FXRT_MR, FXRT_HALF_NV, d, p, x, w, bias, zeros, channel, cols, tail);
}

/* The last pixels of a block. */
FXRT_SHARED void fxrt_conv2d_rest(int mr, const fxrt_conv2d_desc *d, const fxrt_conv2d_pixels *p, const float *x, const float *w,
                                    const float *bias, const float *zeros, int channel, int cols, const fxrt_tail *tail)
{
#define FXRT_TILE(rows) fxrt_conv2d_tile(rows, FXRT_NV, d, p, x, w, bias, zeros, channel, cols, tail)
    FXRT_REST(mr, FXRT_TILE);
#undef FXRT_TILE
}

FXRT_KERNEL void fxrt_conv2d(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y,
                             float *ws)
{
    const int pixels = d->oh * d->ow, panels = (d->oc + FXRT_NR - 1) / FXRT_NR;
    const ptrdiff_t panel_size = (ptrdiff_t)d->kh * d->kw * d->ic * FXRT_NR;
    const fxrt_tail tail = { d->act, d->act_a, d->act_b };
    if (ws)
        memset(ws, 0, (size_t)d->ic * sizeof *ws);
    /* The work is cut into units: a block of pixels, whose inputs and outputs stay in L2 (192 KB) while all panels pass over them,
     * times a few panels that stay in L1 (16 KB), so that every tile takes all of them at once. */
    const ptrdiff_t pixel_size = (ptrdiff_t)d->ic * fxrt_min_int(d->sh, d->kh) * fxrt_min_int(d->sw, d->kw) + (r ? 2 : 1) * (ptrdiff_t)d->oc;
    const int block = fxrt_max_int((int)(49152 / pixel_size) / FXRT_MR, 8) * FXRT_MR;
    const int few = (int)fxrt_max_int((int)(4096 / panel_size), 1);
    const int blocks = (pixels + block - 1) / block, parts = (panels + few - 1) / few;
    const ptrdiff_t units = (ptrdiff_t)d->n * d->groups * blocks * parts;
#ifdef _OPENMP
    const double work = (double)d->n * d->groups * panels * pixels * (double)panel_size;
    _Pragma("omp parallel for schedule(dynamic) if (work > 5e5)")
#endif
    for (ptrdiff_t unit = 0; unit < units; unit++) {
        const int part = (int)(unit % parts), first = (int)(unit / parts % blocks) * block;
        const int g = (int)(unit / parts / blocks % d->groups), n = (int)(unit / parts / blocks / d->groups);
        const int last = fxrt_min_int(pixels, first + block);
        const float *image = x + ((ptrdiff_t)n * d->xs_n + (ptrdiff_t)g * d->ic);
        for (int at = first; at < last; at += FXRT_MR) {
            const int mr = fxrt_min_int(FXRT_MR, last - at);
            fxrt_conv2d_pixels p;
            fxrt_conv2d_locate(d, at, mr, y + (ptrdiff_t)n * d->ys_n, r ? r + (ptrdiff_t)n * d->rs_n : NULL, &p);
            for (int panel = part * few; panel < panels && panel < (part + 1) * few; panel++) {
                const ptrdiff_t which = (ptrdiff_t)g * panels + panel;
                const float *weights = w + which * panel_size, *bias = b ? b + which * FXRT_NR : NULL;
                const int channel = g * d->oc + panel * FXRT_NR, cols = fxrt_min_int(FXRT_NR, d->oc - panel * FXRT_NR);
                if (mr == FXRT_MR && cols <= FXRT_HALF_NV * FXRT_LANES && FXRT_HALF_NV < FXRT_NV)
                    fxrt_conv2d_half(d, &p, image, weights, bias, ws, channel, cols, &tail);
                else if (mr == FXRT_MR)
                    fxrt_conv2d_tile(FXRT_MR, FXRT_NV, d, &p, image, weights, bias, ws, channel, cols, &tail);
                else
                    fxrt_conv2d_rest(mr, d, &p, image, weights, bias, ws, channel, cols, &tail);
            }
        }
    }
}
