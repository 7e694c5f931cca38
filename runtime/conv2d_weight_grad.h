/* conv2d_weight_grad.h: the gradient of a convolution's weight, from channels-last images.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * y[kh][kw][ic][groups * oc] is a matrix product for each kernel row: rows are taps and input channels, columns output channels, and what is
 * summed over are the gradient's pixels. Both images are read in place. A tile keeps its sums in registers along all rows of a block of the
 * gradient, whose part of the image stays in L2; between blocks they lie in y. */

/* Rows of a tile: offsets into an image's row, and the pixels of the gradient's row whose tap lies in the image. */
typedef struct fxrt_weight_grad_rows {
    ptrdiff_t at[FXRT_MR];
    int lo[FXRT_MR], hi[FXRT_MR];
    int all_lo, all_hi; /* of all rows */
} fxrt_weight_grad_rows;

/* `rows` rows from number `first` of a kernel row's taps x channels on; those beyond repeat the last one. */
FXRT_INLINE void fxrt_weight_grad_locate(const fxrt_conv2d_desc *d, int first, int rows, fxrt_weight_grad_rows *t)
{
    t->all_lo = 0;
    t->all_hi = d->ow;
    for (int i = 0; i < FXRT_MR; i++) {
        const int row = first + fxrt_min_int(i, rows - 1), tap = row / d->ic, place = tap * d->dw - d->pw;
        t->at[i] = (ptrdiff_t)place * d->xs_w + row % d->ic;
        t->lo[i] = place >= 0 ? 0 : fxrt_min_int((-place + d->sw - 1) / d->sw, d->ow);
        t->hi[i] = place >= d->iw ? 0 : fxrt_min_int((d->iw - 1 - place) / d->sw + 1, d->ow);
        t->all_lo = fxrt_max_int(t->all_lo, t->lo[i]);
        t->all_hi = fxrt_min_int(t->all_hi, t->hi[i]);
    }
    if (t->all_lo > t->all_hi)
        t->all_hi = t->all_lo;
}

/* acc += x * g along the pixels [from, to) of one row; x and g at the row's first pixel. */
FXRT_INLINE void fxrt_weight_grad_run(const int mr, const int nv, fxrt_v acc[FXRT_MR][FXRT_NV], const fxrt_weight_grad_rows *t, const float *x,
                                      ptrdiff_t x_step, const float *g, ptrdiff_t g_step, int from, int to, int cols)
{
    const int full = cols >= nv * FXRT_LANES;
    const float *in[FXRT_MR];
#define FXRT_IN(i) if (i < mr) in[i] = x + (t->at[i] + from * x_step);
    FXRT_ROWS(FXRT_IN)
#undef FXRT_IN
    g += from * g_step;
#define FXRT_GRAD(i, j) if (j < nv) gv[j] = fxrt_v_load(g + j * FXRT_LANES);
#define FXRT_GRAD_N(i, j) if (j < nv) gv[j] = fxrt_v_load_some(g + j * FXRT_LANES, cols - j * FXRT_LANES);
#define FXRT_COL(i, j) if (j < nv) acc[i][j] = fxrt_v_fma(xi, gv[j], acc[i][j]);
#define FXRT_ROW(i) if (i < mr) { const fxrt_v xi = fxrt_v_set1(in[i][p * x_step]); FXRT_COLS(FXRT_COL, i) }
    if (full) {
        for (ptrdiff_t p = 0; p < to - from; p++, g += g_step) {
            fxrt_v gv[FXRT_NV];
            FXRT_COLS(FXRT_GRAD, 0)
            FXRT_ROWS(FXRT_ROW)
        }
    } else {
        for (ptrdiff_t p = 0; p < to - from; p++, g += g_step) {
            fxrt_v gv[FXRT_NV];
            FXRT_COLS(FXRT_GRAD_N, 0)
            FXRT_ROWS(FXRT_ROW)
        }
    }
#undef FXRT_ROW
#undef FXRT_COL
#undef FXRT_GRAD_N
#undef FXRT_GRAD
}

/* The same for one row of the tile alone: pixels that the others do not have. */
FXRT_INLINE void fxrt_weight_grad_edge(const int nv, fxrt_v acc[FXRT_NV], const float *x, ptrdiff_t x_step, const float *g, ptrdiff_t g_step,
                                       int from, int to, int cols)
{
    for (ptrdiff_t p = from; p < to; p++) {
        const fxrt_v xi = fxrt_v_set1(x[p * x_step]);
        const float *gp = g + p * g_step;
#define FXRT_COL(i, j) if (j < nv) acc[j] = fxrt_v_fma(xi, fxrt_v_load_some(gp + j * FXRT_LANES, cols - j * FXRT_LANES), acc[j]);
        FXRT_COLS(FXRT_COL, 0)
#undef FXRT_COL
    }
}

/* mr rows of kernel row kr x one panel, over the gradient's rows [first, last), counted through all images. x at the group's first channel, g
 * at the panel's, y at the tile. */
FXRT_INLINE void fxrt_weight_grad_tile(const int mr, const fxrt_conv2d_desc *d, const fxrt_weight_grad_rows *t, int rows, int kr, int first, int last,
                                       const float *x, const float *g, float *y, int cols)
{
    const ptrdiff_t x_step = (ptrdiff_t)d->sw * d->xs_w, width = (ptrdiff_t)d->groups * d->oc;
    fxrt_v acc[FXRT_MR][FXRT_NV];
    float *out[FXRT_MR];
#define FXRT_COL(i, j) acc[i][j] = fxrt_v_load_some(out[i] + j * FXRT_LANES, cols - j * FXRT_LANES);
#define FXRT_ROW(i) if (i < mr) { out[i] = y + fxrt_min_int(i, rows - 1) * width; FXRT_COLS(FXRT_COL, i) }
    FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL
    for (int at = first; at < last; at++) {
        const int n = at / d->oh, oy = at % d->oh, iy = oy * d->sh - d->ph + kr * d->dh;
        if (iy < 0 || iy >= d->ih)
            continue;
        const float *row = x + ((ptrdiff_t)n * d->xs_n + (ptrdiff_t)iy * d->xs_h), *grad = g + ((ptrdiff_t)n * d->ys_n + (ptrdiff_t)oy * d->ys_h);
        fxrt_weight_grad_run(mr, FXRT_NV, acc, t, row, x_step, grad, d->ys_w, t->all_lo, t->all_hi, cols);
#define FXRT_ROW(i)                                                                                                     \
    if (i < mr) {                                                                                                       \
        if (t->lo[i] < t->all_lo)                                                                                       \
            fxrt_weight_grad_edge(FXRT_NV, acc[i], row + t->at[i], x_step, grad, d->ys_w, t->lo[i], fxrt_min_int(t->all_lo, t->hi[i]), cols); \
        if (t->all_hi < t->hi[i])                                                                                       \
            fxrt_weight_grad_edge(FXRT_NV, acc[i], row + t->at[i], x_step, grad, d->ys_w, fxrt_max_int(t->all_hi, t->lo[i]), t->hi[i], cols); \
    }
        FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
    }
#define FXRT_COL(i, j) fxrt_v_store_some(out[i] + j * FXRT_LANES, acc[i][j], cols - j * FXRT_LANES);
#define FXRT_ROW(i) if (i < mr) { FXRT_COLS(FXRT_COL, i) }
    FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL
}

/* One panel of a group, over all of its rows, added to y. */
FXRT_INLINE void fxrt_weight_grad_add(const fxrt_conv2d_desc *d, const float *x, const float *g, float *y, int cols)
{
    const int lines = d->n * d->oh, taps = d->kw * d->ic;
    const ptrdiff_t width = (ptrdiff_t)d->groups * d->oc, line = (ptrdiff_t)d->ow * (d->ic * fxrt_min_int(d->sw, d->kw) * fxrt_min_int(d->sh, d->kh) + FXRT_NR);
    const int block = fxrt_max_int((int)(32768 / line), 1); /* 128 KB */
    for (int first = 0; first < lines; first += block)
        for (int kr = 0; kr < d->kh; kr++)
            for (int at = 0; at < taps; at += FXRT_MR) {
                const int rows = fxrt_min_int(FXRT_MR, taps - at), last = fxrt_min_int(first + block, lines);
                float *to = y + ((ptrdiff_t)kr * taps + at) * width;
                fxrt_weight_grad_rows t;
                fxrt_weight_grad_locate(d, at, rows, &t);
#define FXRT_TILE(mr) fxrt_weight_grad_tile(mr, d, &t, rows, kr, first, last, x, g, to, cols)
                if (rows == FXRT_MR)
                    FXRT_TILE(FXRT_MR);
                else
                    FXRT_REST(rows, FXRT_TILE);
#undef FXRT_TILE
            }
}

/* Whether pixels meet pixels one by one, all of them in one line: the gradient is a plain matrix product. */
FXRT_INLINE int fxrt_weight_grad_pointwise(const fxrt_conv2d_desc *d)
{
    const ptrdiff_t row = d->iw, plane = (ptrdiff_t)d->ih * d->iw;
    return d->kh == 1 && d->kw == 1 && d->sh == 1 && d->sw == 1 && d->ph == 0 && d->pw == 0 && d->oh == d->ih && d->ow == d->iw
        && (d->ih == 1 || (d->xs_h == row * d->xs_w && d->ys_h == row * d->ys_w)) && (d->n == 1 || (d->xs_n == plane * d->xs_w && d->ys_n == plane * d->ys_w));
}

FXRT_NOINLINE void fxrt_weight_grad_panel(const fxrt_conv2d_desc *d, const float *x, const float *g, float *y, int cols)
{
    const ptrdiff_t width = (ptrdiff_t)d->groups * d->oc;
    for (int row = 0; row < d->kh * d->kw * d->ic; row++)
        for (int j = 0; j < cols; j++)
            y[row * width + j] = 0.0f;
    fxrt_conv2d_desc line = *d;
    ptrdiff_t pixels = 1, step = 1;
    if (fxrt_weight_grad_pointwise(d)) { /* rows as long as a block */
        pixels = (ptrdiff_t)d->n * d->oh * d->ow;
        step = fxrt_max_int(32768 / (d->ic + FXRT_NR), 1);
        line.n = line.ih = line.oh = 1;
    }
    for (ptrdiff_t at = 0; at < pixels; at += step) {
        if (step > 1)
            line.iw = line.ow = (int)(pixels - at < step ? pixels - at : step);
        fxrt_weight_grad_add(&line, x + at * d->xs_w, g + at * d->ys_w, y, cols);
    }
}

/* Depthwise: channels side by side, a row of the gradient at a time, all taps. */
FXRT_NOINLINE void fxrt_weight_grad_depthwise(const fxrt_conv2d_desc *d, const float *x, const float *g, float *y, int cols)
{
    const ptrdiff_t x_step = (ptrdiff_t)d->sw * d->xs_w;
    for (int tap = 0; tap < d->kh * d->kw; tap++)
        fxrt_v_store_some(y + (ptrdiff_t)tap * d->groups, fxrt_v_set1(0.0f), cols);
    for (int at = 0; at < d->n * d->oh; at++)
        for (int tap = 0; tap < d->kh * d->kw; tap++) {
            const int n = at / d->oh, oy = at % d->oh, iy = oy * d->sh - d->ph + tap / d->kw * d->dh, place = tap % d->kw * d->dw - d->pw;
            const int lo = place >= 0 ? 0 : (-place + d->sw - 1) / d->sw;
            const int hi = place >= d->iw ? 0 : fxrt_min_int((d->iw - 1 - place) / d->sw + 1, d->ow);
            if (iy < 0 || iy >= d->ih || lo >= hi)
                continue;
            const float *row = x + ((ptrdiff_t)n * d->xs_n + (ptrdiff_t)iy * d->xs_h + (ptrdiff_t)place * d->xs_w);
            const float *grad = g + ((ptrdiff_t)n * d->ys_n + (ptrdiff_t)oy * d->ys_h);
            float *to = y + (ptrdiff_t)tap * d->groups;
            fxrt_v a = fxrt_v_load_some(to, cols), b = fxrt_v_set1(0.0f), c = b, e = b; /* four sums, as each waits for its last product */
            ptrdiff_t p = lo;
            if (cols >= FXRT_LANES) {
                for (; p + 4 <= hi; p += 4) {
                    a = fxrt_v_fma(fxrt_v_load(row + p * x_step), fxrt_v_load(grad + p * d->ys_w), a);
                    b = fxrt_v_fma(fxrt_v_load(row + (p + 1) * x_step), fxrt_v_load(grad + (p + 1) * d->ys_w), b);
                    c = fxrt_v_fma(fxrt_v_load(row + (p + 2) * x_step), fxrt_v_load(grad + (p + 2) * d->ys_w), c);
                    e = fxrt_v_fma(fxrt_v_load(row + (p + 3) * x_step), fxrt_v_load(grad + (p + 3) * d->ys_w), e);
                }
                for (; p < hi; p++)
                    a = fxrt_v_fma(fxrt_v_load(row + p * x_step), fxrt_v_load(grad + p * d->ys_w), a);
            } else {
                for (; p < hi; p++)
                    a = fxrt_v_fma(fxrt_v_load_some(row + p * x_step, cols), fxrt_v_load_some(grad + p * d->ys_w, cols), a);
            }
            fxrt_v_store_some(to, fxrt_v_add(fxrt_v_add(a, b), fxrt_v_add(c, e)), cols);
        }
}

FXRT_KERNEL void fxrt_conv2d_weight_grad(const fxrt_conv2d_desc *d, const float *x, const float *g, float *y)
{
    const int depthwise = d->ic == 1 && d->oc == 1, each = depthwise ? FXRT_LANES : FXRT_NR;
    const int panels = ((depthwise ? d->groups : d->oc) + each - 1) / each, groups = depthwise ? 1 : d->groups;
    const ptrdiff_t units = (ptrdiff_t)groups * panels;
#ifdef _OPENMP
    const double work = (double)d->n * d->oh * d->ow * d->groups * d->oc * d->kh * d->kw * d->ic;
    _Pragma("omp parallel for schedule(dynamic) if (work > 5e5)")
#endif
    for (ptrdiff_t unit = 0; unit < units; unit++) {
        const int group = (int)(unit / panels), panel = (int)(unit % panels) * each;
        if (depthwise)
            fxrt_weight_grad_depthwise(d, x + panel, g + panel, y + panel, fxrt_min_int(each, d->groups - panel));
        else
            fxrt_weight_grad_panel(d, x + (ptrdiff_t)group * d->ic, g + (ptrdiff_t)group * d->oc + panel, y + (ptrdiff_t)group * d->oc + panel,
                                   fxrt_min_int(each, d->oc - panel));
    }
}
