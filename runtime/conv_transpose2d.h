/* conv_transpose2d.h: transposed convolution of channels-last images.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Each output pixel gathers: tap k reaches output row o from input row i where i * sh = o + ph - k * dh. Pixels of one row that are
 * sw apart use the same taps of neighbouring input pixels, so they make up the rows of a register tile. Packed as conv2d. */

/* Output pixels ox, ox + sw, ... (`pixels` of them, at most mr) of row oy x one panel of channels. */
FXRT_INLINE void fxrt_conv_transpose2d_tile(const int mr, int pixels, const fxrt_conv2d_desc *d, const float *x, const float *w, const float *bias,
                                            const float *r, float *y, const float *zeros, int oy, int ox, int cols)
{
    const fxrt_tail tail = { d->act, d->act_a, d->act_b };
    fxrt_v acc[FXRT_MR][FXRT_NV];
    fxrt_tile_begin(mr, FXRT_NV, acc, bias);
    for (int kr = 0; kr < d->kh; kr++) {
        const int ty = oy + d->ph - kr * d->dh;
        if (ty < 0 || ty % d->sh != 0 || ty / d->sh >= d->ih)
            continue;
        for (int kc = 0; kc < d->kw; kc++) {
            const int tx = ox + d->pw - kc * d->dw;
            if (tx % d->sw != 0)
                continue;
            const int ix = tx / d->sw; /* of the first pixel; the next ones follow */
            const float *row = x + (ptrdiff_t)(ty / d->sh) * d->xs_h;
            const float *in[FXRT_MR];
#define FXRT_IN(i)                                                                                                        \
    if (i < mr) {                                                                                                       \
        const int at = ix + fxrt_min_int(i, pixels - 1);                                                                \
        in[i] = (unsigned)at < (unsigned)d->iw ? row + (ptrdiff_t)at * d->xs_w : zeros;                                 \
    }
            FXRT_ROWS(FXRT_IN)
#undef FXRT_IN
            fxrt_tile_run(mr, FXRT_NV, acc, in, w + ((ptrdiff_t)kr * d->kw + kc) * d->ic * FXRT_NR, d->ic);
        }
    }
    float *out[FXRT_MR];
    const float *res[FXRT_MR];
#define FXRT_OUT(i)                                                                                                     \
    if (i < mr) {                                                                                                       \
        const ptrdiff_t at = ox + (ptrdiff_t)fxrt_min_int(i, pixels - 1) * d->sw;                                       \
        out[i] = y + ((ptrdiff_t)oy * d->ys_h + at * d->ys_w);                                                          \
        res[i] = r ? r + ((ptrdiff_t)oy * d->rs_h + at * d->rs_w) : NULL;                                               \
    }
    FXRT_ROWS(FXRT_OUT)
#undef FXRT_OUT
    fxrt_tile_end(mr, FXRT_NV, acc, out, r != NULL, res, cols, &tail);
}

/* One output row x one panel; x, y, r at the image and the panel's first channel. */
FXRT_NOINLINE void fxrt_conv_transpose2d_row(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *bias,
                                             const float *r, float *y, const float *zeros, int oy, int cols)
{
    for (int phase = 0; phase < d->sw && phase < d->ow; phase++) {
        const int pixels = (d->ow - phase + d->sw - 1) / d->sw;
        for (int at = 0; at < pixels; at += FXRT_MR) {
            const int ox = phase + at * d->sw;
            const int mr = fxrt_min_int(FXRT_MR, pixels - at);
#define FXRT_TILE(rows) fxrt_conv_transpose2d_tile(rows, mr, d, x, w, bias, r, y, zeros, oy, ox, cols)
            FXRT_REST(mr, FXRT_TILE);
#undef FXRT_TILE
        }
    }
}

FXRT_KERNEL void fxrt_conv_transpose2d(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r,
                                       float *y, float *ws)
{
    const int panels = (d->oc + FXRT_NR - 1) / FXRT_NR;
    const ptrdiff_t panel_size = (ptrdiff_t)d->kh * d->kw * d->ic * FXRT_NR;
    const ptrdiff_t units = (ptrdiff_t)d->n * d->groups * panels * d->oh;
    memset(ws, 0, (size_t)d->ic * sizeof *ws);
#ifdef _OPENMP
    const double work = (double)units * d->ow * (double)panel_size;
    _Pragma("omp parallel for schedule(static) if (work > 5e5)")
#endif
    for (ptrdiff_t unit = 0; unit < units; unit++) {
        const int oy = (int)(unit % d->oh), panel = (int)(unit / d->oh % panels);
        const ptrdiff_t g = unit / d->oh / panels % d->groups, n = unit / d->oh / panels / d->groups;
        const ptrdiff_t column = g * d->oc + (ptrdiff_t)panel * FXRT_NR;
        fxrt_conv_transpose2d_row(d, x + n * d->xs_n + g * d->ic, w + (g * panels + panel) * panel_size,
                                  b ? b + (g * panels + panel) * FXRT_NR : NULL, r ? r + n * d->rs_n + column : NULL,
                                  y + n * d->ys_n + column, ws, oy, fxrt_min_int(FXRT_NR, d->oc - panel * FXRT_NR));
    }
}
