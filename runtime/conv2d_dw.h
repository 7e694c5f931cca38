/* conv2d_dw.h: depthwise convolution of channels-last images: each channel by its own kernel.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Vectors run over channels. Seven neighbouring output pixels (feature maps are 7, 14, 28, 56, 112 wide) are summed at once:
 * a weight is loaded once for all of them, and for the usual kernels an input is loaded once for all its taps. Weights are
 * [kh][kw][channels padded to lanes]. */
#define FXRT_DW_PIXELS 7
#define FXRT_DW_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)
#define FXRT_DW_COLUMNS(X)                                                                                              \
    FXRT_DW_EACH(X) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) /* (7 - 1) * 2 + 5 */

/* Seven output pixels from (oy, ox) on; y, r at the first one. */
typedef struct fxrt_dw_block {
    int iy, ix;               /* input row and column of the first tap */
    int first_row, last_row;  /* kernel rows that fall inside the image */
    int first_col, last_col;  /* columns from ix on that do */
    int pixels;               /* pixels of the seven that exist */
    float *y;
    const float *r;
} fxrt_dw_block;

/* act(acc + r) of n channels, to y. Activations other than relu and clamp follow later. */
FXRT_INLINE void fxrt_dw_end(const fxrt_conv2d_desc *d, fxrt_v acc, float *y, const float *r, const int full, int n)
{
    if (r)
        acc = fxrt_v_add(acc, full ? fxrt_v_load(r) : fxrt_v_load_n(r, n));
    if (d->act == FXRT_ACT_RELU)
        acc = fxrt_v_max(acc, fxrt_v_set1(0.0f));
    else if (d->act == FXRT_ACT_CLAMP)
        acc = fxrt_v_min(fxrt_v_max(acc, fxrt_v_set1(d->act_a)), fxrt_v_set1(d->act_b));
    if (full)
        fxrt_v_store(y, acc);
    else
        fxrt_v_store_n(y, acc, n);
}

/* FXRT_LANES channels from c on (n of them if not `full`) of a block. Constants after inlining: kw, sw (0: those of d, with any
 * dilation); inside: all columns of all seven pixels are in the image; full. */
FXRT_INLINE void fxrt_dw_channels(const int kw, const int sw, const int inside, const int full, const fxrt_conv2d_desc *d,
                                  const float *x, const float *w, ptrdiff_t w_tap, fxrt_v bias, const fxrt_dw_block *k, int c, int n)
{
    const int first_col = k->first_col, last_col = k->last_col;
    fxrt_v acc[FXRT_DW_PIXELS];
#define FXRT_DW_BEGIN(p) acc[p] = bias;
    FXRT_DW_EACH(FXRT_DW_BEGIN)
#undef FXRT_DW_BEGIN
#define FXRT_DW_INSIDE(column) (inside || ((column) >= first_col && (column) < last_col))
#define FXRT_DW_LOAD(column)                                                                                            \
    (full ? fxrt_v_load(in + (ptrdiff_t)(column) * d->xs_w) : fxrt_v_load_n(in + (ptrdiff_t)(column) * d->xs_w, n))
    for (int row = k->first_row; row < k->last_row; row++) {
        const float *in = x + ((ptrdiff_t)(k->iy + row * d->dh) * d->xs_h + (ptrdiff_t)k->ix * d->xs_w + c);
        const float *wr = w + ((ptrdiff_t)row * d->kw * w_tap + c);
        if (kw) {
            fxrt_v wv[7];
#define FXRT_DW_WEIGHT(t) if (t < kw) wv[t] = fxrt_v_load(wr + t * w_tap);
            FXRT_DW_EACH(FXRT_DW_WEIGHT)
#undef FXRT_DW_WEIGHT
/* Input column j is tap t of pixel (j - t) / sw. */
#define FXRT_DW_TAP(j, t)                                                                                               \
    if (t < kw && j >= t && (j - t) % sw == 0 && (j - t) / sw < FXRT_DW_PIXELS)                                         \
        acc[(j - t) / sw % FXRT_DW_PIXELS] = fxrt_v_fma(v, wv[t], acc[(j - t) / sw % FXRT_DW_PIXELS]);
#define FXRT_DW_COLUMN(j)                                                                                               \
    if (j < (FXRT_DW_PIXELS - 1) * sw + kw && FXRT_DW_INSIDE(j)) {                                                                        \
        const fxrt_v v = FXRT_DW_LOAD(j);                                                                               \
        FXRT_DW_TAP(j, 0) FXRT_DW_TAP(j, 1) FXRT_DW_TAP(j, 2) FXRT_DW_TAP(j, 3) FXRT_DW_TAP(j, 4) FXRT_DW_TAP(j, 5)     \
        FXRT_DW_TAP(j, 6)                                                                                               \
    }
            FXRT_DW_COLUMNS(FXRT_DW_COLUMN)
#undef FXRT_DW_COLUMN
#undef FXRT_DW_TAP
        } else {
            for (int t = 0; t < d->kw; t++) {
                const fxrt_v wv = fxrt_v_load(wr + t * w_tap);
#define FXRT_DW_PIXEL(p)                                                                                                \
    if (FXRT_DW_INSIDE(p * d->sw + t * d->dw))                                                                          \
        acc[p] = fxrt_v_fma(FXRT_DW_LOAD(p * d->sw + t * d->dw), wv, acc[p]);
                FXRT_DW_EACH(FXRT_DW_PIXEL)
#undef FXRT_DW_PIXEL
            }
        }
    }
#undef FXRT_DW_LOAD
#undef FXRT_DW_INSIDE
    float *y = k->y + c;
    const float *r = k->r ? k->r + c : NULL;
#define FXRT_DW_END(p)                                                                                                  \
    if (inside || p < k->pixels)                                                                                        \
        fxrt_dw_end(d, acc[p], y + (ptrdiff_t)p * d->ys_w, r ? r + (ptrdiff_t)p * d->rs_w : NULL, full, n);
    FXRT_DW_EACH(FXRT_DW_END)
#undef FXRT_DW_END
}

/* All channels of a block. */
FXRT_INLINE void fxrt_dw_all_channels(const int kw, const int sw, const int inside, const fxrt_conv2d_desc *d, const float *x,
                                      const float *w, const float *b, const fxrt_dw_block *k)
{
    const int channels = d->groups, whole = channels / FXRT_LANES * FXRT_LANES;
    const ptrdiff_t w_tap = (ptrdiff_t)(channels + FXRT_LANES - 1) / FXRT_LANES * FXRT_LANES;
    for (int c = 0; c < whole; c += FXRT_LANES)
        fxrt_dw_channels(kw, sw, inside, 1, d, x, w, w_tap, b ? fxrt_v_load(b + c) : fxrt_v_set1(0.0f), k, c, FXRT_LANES);
    if (whole < channels)
        fxrt_dw_channels(0, 0, 0, 0, d, x, w, w_tap, b ? fxrt_v_load(b + whole) : fxrt_v_set1(0.0f), k, whole, channels - whole);
}

/* One row of output pixels: x is the image, y and r the rows. */
FXRT_INLINE void fxrt_dw_row(const int kw, const int sw, const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b,
                             const float *r, float *y, int oy)
{
    fxrt_dw_block k;
    k.iy = oy * d->sh - d->ph;
    for (k.first_row = 0; k.first_row < d->kh && k.iy + k.first_row * d->dh < 0;)
        k.first_row++;
    for (k.last_row = d->kh; k.last_row > k.first_row && k.iy + (k.last_row - 1) * d->dh >= d->ih;)
        k.last_row--;
    for (int ox = 0; ox < d->ow; ox += FXRT_DW_PIXELS) {
        k.ix = ox * d->sw - d->pw;
        k.first_col = -k.ix;
        k.last_col = d->iw - k.ix;
        k.pixels = d->ow - ox;
        k.y = y + (ptrdiff_t)ox * d->ys_w;
        k.r = r ? r + (ptrdiff_t)ox * d->rs_w : NULL;
        if (k.pixels >= FXRT_DW_PIXELS && k.ix >= 0 && k.ix + (FXRT_DW_PIXELS - 1) * d->sw + (d->kw - 1) * d->dw < d->iw)
            fxrt_dw_all_channels(kw, sw, 1, d, x, w, b, &k);
        else
            fxrt_dw_all_channels(kw, sw, 0, d, x, w, b, &k);
    }
    if (d->act != FXRT_ACT_NONE && d->act != FXRT_ACT_RELU && d->act != FXRT_ACT_CLAMP)
        for (int ox = 0; ox < d->ow; ox++)
            fxrt_act_apply(y + (ptrdiff_t)ox * d->ys_w, d->groups, d->act, d->act_a, d->act_b);
}

/* One function each, so that each has the registers to itself: widths and steps known, and any (0, 0). */
#define FXRT_DW_SHAPES(F) F(3, 1) F(3, 2) F(5, 1) F(5, 2) F(7, 1)
#define FXRT_DW_ROW(KW, SW)                                                                                             \
    FXRT_NOINLINE void fxrt_dw_row_##KW##x##SW(const fxrt_conv2d_desc *d, const float *x, const float *w,               \
                                               const float *b, const float *r, float *y, int oy)                        \
    {                                                                                                                   \
        fxrt_dw_row(KW, SW, d, x, w, b, r, y, oy);                                                                      \
    }
FXRT_DW_SHAPES(FXRT_DW_ROW)
FXRT_DW_ROW(0, 0)
#undef FXRT_DW_ROW

FXRT_KERNEL void fxrt_conv2d_dw(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y,
                                float *ws)
{
    (void)ws;
    const ptrdiff_t rows = (ptrdiff_t)d->n * d->oh;
#ifdef _OPENMP
    const double work = (double)rows * d->ow * d->groups * d->kh * d->kw;
    _Pragma("omp parallel for schedule(static) if (work > 5e5)")
#endif
    for (ptrdiff_t row = 0; row < rows; row++) {
        const ptrdiff_t n = row / d->oh;
        const int oy = (int)(row % d->oh);
        const float *image = x + n * d->xs_n, *res = r ? r + (n * d->rs_n + (ptrdiff_t)oy * d->rs_h) : NULL;
        float *out = y + (n * d->ys_n + (ptrdiff_t)oy * d->ys_h);
#define FXRT_DW_CASE(KW, SW)                                                                                            \
    if (d->dw == 1 && d->kw == KW && d->sw == SW) {                                                                     \
        fxrt_dw_row_##KW##x##SW(d, image, w, b, res, out, oy);                                                          \
        continue;                                                                                                       \
    }
        FXRT_DW_SHAPES(FXRT_DW_CASE)
#undef FXRT_DW_CASE
        fxrt_dw_row_0x0(d, image, w, b, res, out, oy);
    }
}
