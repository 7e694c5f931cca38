/* tile.h: the register tile under every convolution and matrix product.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A tile holds FXRT_MR rows (pixels) x FXRT_NR columns (output channels) of sums in vector registers. Per step of the inner
 * loop it loads one row of NR weights from the packed panel, and broadcasts one input of each of its rows. Loops over rows and
 * columns are spelled out by macros, so that sums live in registers with any compiler at any optimisation level. */
#define FXRT_NV (FXRT_NR / FXRT_LANES) /* vectors per row of the tile */

#define FXRT_PASTE(a, b) a##b
#define FXRT_PASTE2(a, b) FXRT_PASTE(a, b)
#define FXRT_ROWS_1(X) X(0)
#define FXRT_ROWS_2(X) FXRT_ROWS_1(X) X(1)
#define FXRT_ROWS_3(X) FXRT_ROWS_2(X) X(2)
#define FXRT_ROWS_4(X) FXRT_ROWS_3(X) X(3)
#define FXRT_ROWS_5(X) FXRT_ROWS_4(X) X(4)
#define FXRT_ROWS_6(X) FXRT_ROWS_5(X) X(5)
#define FXRT_ROWS_7(X) FXRT_ROWS_6(X) X(6)
#define FXRT_ROWS_8(X) FXRT_ROWS_7(X) X(7)
#define FXRT_ROWS_9(X) FXRT_ROWS_8(X) X(8)
#define FXRT_ROWS_10(X) FXRT_ROWS_9(X) X(9)
#define FXRT_ROWS_11(X) FXRT_ROWS_10(X) X(10)
#define FXRT_ROWS_12(X) FXRT_ROWS_11(X) X(11)
#define FXRT_ROWS_13(X) FXRT_ROWS_12(X) X(12)
#define FXRT_ROWS_14(X) FXRT_ROWS_13(X) X(13)
#define FXRT_ROWS_15(X) FXRT_ROWS_14(X) X(14)
#define FXRT_ROWS_16(X) FXRT_ROWS_15(X) X(15)
#define FXRT_ROWS(X) FXRT_PASTE2(FXRT_ROWS_, FXRT_MR)(X) /* X(0) ... X(FXRT_MR - 1) */

#if FXRT_NR == FXRT_LANES
#define FXRT_COLS(X, i) X(i, 0)
#elif FXRT_NR == 2 * FXRT_LANES
#define FXRT_COLS(X, i) X(i, 0) X(i, 1)
#elif FXRT_NR == 3 * FXRT_LANES
#define FXRT_COLS(X, i) X(i, 0) X(i, 1) X(i, 2)
#elif FXRT_NR == 4 * FXRT_LANES
#define FXRT_COLS(X, i) X(i, 0) X(i, 1) X(i, 2) X(i, 3)
#else
#error "FXRT_NR must be 1 to 4 vectors"
#endif

/* The rest of a contraction: y = act(sum + residual). Sums start at the bias. */
typedef struct fxrt_tail {
    int act;
    float a, b; /* parameters of act */
} fxrt_tail;

/* Ahead of the inner loop, in steps: far enough for weights to arrive from memory, which happens once for every block of rows. */
#define FXRT_AHEAD 64
#if defined(__GNUC__) && FXRT_LANES > 1
#define FXRT_PREFETCH(p) __builtin_prefetch(p)
#else
#define FXRT_PREFETCH(p) ((void)0)
#endif

/* mr and nv are constants: the rows and the vectors a row that the tile has. The last rows come in tiles of a half, a quarter or
 * one row; their surplus rows repeat the last one and store the same values once more. The last channels may fill half a tile. */
#define FXRT_HALF ((FXRT_MR + 1) / 2)
#define FXRT_QUARTER ((FXRT_MR + 3) / 4)
/* TILE(h) for the smallest such height h that holds `rows` < FXRT_MR rows. */
#define FXRT_REST(rows, TILE)                                                                                           \
    do {                                                                                                                \
        if ((rows) == 1) {                                                                                              \
            TILE(1);                                                                                                    \
        } else if ((rows) <= FXRT_QUARTER) {                                                                            \
            TILE(FXRT_QUARTER);                                                                                         \
        } else if ((rows) <= FXRT_HALF) {                                                                               \
            TILE(FXRT_HALF);                                                                                            \
        } else {                                                                                                        \
            TILE(FXRT_MR);                                                                                              \
        }                                                                                                               \
    } while (0)

/* Sums start at the bias of their columns, or at zero. */
FXRT_INLINE void fxrt_tile_begin(const int mr, const int nv, fxrt_v acc[FXRT_MR][FXRT_NV], const float *bias)
{
#define FXRT_COL(i, j) if (j < nv) acc[i][j] = bias ? fxrt_v_load(bias + j * FXRT_LANES) : fxrt_v_set1(0.0f);
#define FXRT_ROW(i) if (i < mr) { FXRT_COLS(FXRT_COL, i) }
    FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL
}

/* acc[i] += x[i][0..k) * w[0..k)[NR]; returns the end of w. */
FXRT_INLINE const float *fxrt_tile_run(const int mr, const int nv, fxrt_v acc[FXRT_MR][FXRT_NV], const float *const x[FXRT_MR],
                                       const float *w, ptrdiff_t k)
{
#define FXRT_WEIGHT(i, j) if (j < nv) wv[j] = fxrt_v_load(w + j * FXRT_LANES);
#define FXRT_COL(i, j) if (j < nv) acc[i][j] = fxrt_v_fma(xi, wv[j], acc[i][j]);
#define FXRT_ROW(i) if (i < mr) { const fxrt_v xi = fxrt_v_set1(x[i][p]); FXRT_COLS(FXRT_COL, i) }
    for (ptrdiff_t p = 0; p < k; p++, w += FXRT_NR) {
        fxrt_v wv[FXRT_NV];
        FXRT_COLS(FXRT_WEIGHT, 0)
        FXRT_PREFETCH(w + FXRT_AHEAD * FXRT_NR);
        if (nv * FXRT_LANES > 16) /* a second line of the cache */
            FXRT_PREFETCH(w + FXRT_AHEAD * FXRT_NR + 16);
        FXRT_ROWS(FXRT_ROW)
    }
#undef FXRT_ROW
#undef FXRT_COL
#undef FXRT_WEIGHT
    return w;
}

/* acc[i] += r[i][0..cols) */
FXRT_INLINE void fxrt_tile_add(const int mr, const int nv, fxrt_v acc[FXRT_MR][FXRT_NV], const float *const r[FXRT_MR], int cols)
{
#define FXRT_COL(i, j) if (j < nv) acc[i][j] = fxrt_v_add(acc[i][j], fxrt_v_load(r[i] + j * FXRT_LANES));
#define FXRT_COL_N(i, j) if (j < nv) acc[i][j] = fxrt_v_add(acc[i][j], fxrt_v_load_some(r[i] + j * FXRT_LANES, cols - j * FXRT_LANES));
#define FXRT_ROW(i) if (i < mr) { if (cols >= nv * FXRT_LANES) { FXRT_COLS(FXRT_COL, i) } else { FXRT_COLS(FXRT_COL_N, i) } }
    FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL_N
#undef FXRT_COL
}

/* Stores act(acc + r) to the first `cols` columns of rows y[i]. r[i] are rows of the residual where `residual` is set; they may
 * be those of y. */
FXRT_INLINE void fxrt_tile_end(const int mr, const int nv, fxrt_v acc[FXRT_MR][FXRT_NV], float *const y[FXRT_MR], int residual,
                               const float *const r[FXRT_MR], int cols, const fxrt_tail *tail)
{
    const int full = cols >= nv * FXRT_LANES;
    if (residual)
        fxrt_tile_add(mr, nv, acc, r, cols);
    if (tail->act == FXRT_ACT_RELU) {
        const fxrt_v lo = fxrt_v_set1(0.0f);
#define FXRT_COL(i, j) if (j < nv) acc[i][j] = fxrt_v_max(acc[i][j], lo);
#define FXRT_ROW(i) if (i < mr) { FXRT_COLS(FXRT_COL, i) }
        FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL
    } else if (tail->act == FXRT_ACT_CLAMP) {
        const fxrt_v lo = fxrt_v_set1(tail->a), hi = fxrt_v_set1(tail->b);
#define FXRT_COL(i, j) if (j < nv) acc[i][j] = fxrt_v_min(fxrt_v_max(acc[i][j], lo), hi);
#define FXRT_ROW(i) if (i < mr) { FXRT_COLS(FXRT_COL, i) }
        FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL
    } else if (tail->act != FXRT_ACT_NONE) { /* a longer computation: one function for all, by way of memory */
        float part[FXRT_MR * FXRT_NV * FXRT_LANES];
#define FXRT_COL(i, j) if (j < nv) fxrt_v_store(part + (i * nv + j) * FXRT_LANES, acc[i][j]);
#define FXRT_ROW(i) if (i < mr) { FXRT_COLS(FXRT_COL, i) }
        FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL
        fxrt_act_apply(part, mr * nv * FXRT_LANES, tail->act, tail->a, tail->b);
#define FXRT_COL(i, j) if (j < nv) acc[i][j] = fxrt_v_load(part + (i * nv + j) * FXRT_LANES);
#define FXRT_ROW(i) if (i < mr) { FXRT_COLS(FXRT_COL, i) }
        FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL
    }
#define FXRT_COL(i, j) if (j < nv) fxrt_v_store(y[i] + j * FXRT_LANES, acc[i][j]);
#define FXRT_COL_N(i, j) if (j < nv) fxrt_v_store_some(y[i] + j * FXRT_LANES, acc[i][j], cols - j * FXRT_LANES);
#define FXRT_ROW(i) if (i < mr) { FXRT_COLS(FXRT_COL, i) }
#define FXRT_ROW_N(i) if (i < mr) { FXRT_COLS(FXRT_COL_N, i) }
    if (full) {
        FXRT_ROWS(FXRT_ROW)
    } else {
        FXRT_ROWS(FXRT_ROW_N)
    }
#undef FXRT_ROW_N
#undef FXRT_ROW
#undef FXRT_COL_N
#undef FXRT_COL
}
