/* attention.h: softmax(scale q k^T + mask) v without the matrix of scores.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A unit of work is up to FXRT_ATTENTION_ROWS queries of one head. It goes over the keys in tiles. Scores of a tile are computed
 * transposed, [key][query]: the queries, packed once into panels, are the columns of register tiles; keys, read where they lie, are
 * their rows. So maxima and sums over keys are vector operations that never cross lanes, and the product with v, whose rows are
 * dense, needs no packing either. Each query keeps the maximum and the sum of exponentials so far; when a tile raises the
 * maximum, what was summed before is scaled down. Results grow in o itself and are divided by the sum with the last tile.
 *
 * A few queries (a model that writes word after word has one) would leave most columns of the panels idle: for those each score is a dot
 * product along the dense rows of q and k, and the scores of one query lie side by side. */
enum { FXRT_ATTENTION_KEYS = 64 }; /* keys a tile: the scores of a unit stay in L1, or close to it */
enum { FXRT_ATTENTION_ROWS = ((FXRT_LANES > 1 ? 96 : 16) + FXRT_NR - 1) / FXRT_NR * FXRT_NR };

/* Vectors of a tile of half the width. Without vectors: the whole width, because gcc 12 makes vectors of half a row and fills them up
 * from the next row of v, which the last row does not have. */
enum { FXRT_ATTENTION_HALF = FXRT_LANES > 1 ? (FXRT_NV + 1) / 2 : FXRT_NV };

/* A unit, and its scratch memory: workspace.c knows the sizes. */
typedef struct fxrt_attention_unit {
    const float *q, *k, *v, *bias, *mask;
    float *o;
    int first, rows;  /* queries [first, first + rows) */
    int width;        /* of a row of scores: rows, filled up to panels */
    float *panels;    /* the queries, [width / NR][dk][NR] */
    float *max, *sum; /* of each query so far; max becomes the factor 1 / sum in the end */
    float *fade;      /* what earlier sums are worth after this tile */
    float *scores;    /* [keys][width], and room for MR floats of one more row that register tiles may load, but not use */
    float *rest;      /* [keys][NR] columns of v that fill neither a tile nor half of one */
} fxrt_attention_unit;

static inline void fxrt_attention_pack(const fxrt_attention_desc *d, const fxrt_attention_unit *u)
{
    float *to = u->panels;
    for (int at = 0; at < u->width; at += FXRT_NR, to += (ptrdiff_t)d->dk * FXRT_NR)
        for (int i = 0; i < FXRT_NR; i++) {
            const float *row = u->q + (ptrdiff_t)fxrt_min_int(at + i, u->rows - 1) * d->q_m;
            for (int p = 0; p < d->dk; p++)
                to[(ptrdiff_t)p * FXRT_NR + i] = row[p];
        }
}

/* mr keys by nv vectors of queries. Keys past the last repeat it. */
FXRT_INLINE void fxrt_attention_score_tile(const int mr, const int nv, const fxrt_attention_desc *d, const float *k, const float *panel,
                                           float *scores, int width, int keys)
{
    const fxrt_v scale = fxrt_v_set1(d->scale);
    fxrt_v acc[FXRT_MR][FXRT_NV];
    const float *in[FXRT_MR];
#define FXRT_ROW(i) in[i] = k + (ptrdiff_t)fxrt_min_int(i, keys - 1) * d->k_n;
    FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
    fxrt_tile_begin(mr, nv, acc, NULL);
    fxrt_tile_run(mr, nv, acc, in, panel, d->dk);
#define FXRT_COL(i, j) if (j < nv) fxrt_v_store(scores + (ptrdiff_t)i * width + j * FXRT_LANES, fxrt_v_mul(acc[i][j], scale));
#define FXRT_ROW(i) if (i < mr && i < keys) { FXRT_COLS(FXRT_COL, i) }
    FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL
}

/* scores[key][query] = scale * k q^T */
FXRT_NOINLINE void fxrt_attention_scores(const fxrt_attention_desc *d, const fxrt_attention_unit *u, int key, int keys)
{
    for (int column = 0; column < u->rows; column += FXRT_NR) {
        const float *panel = u->panels + (ptrdiff_t)column * d->dk;
        const int half = u->rows - column <= FXRT_ATTENTION_HALF * FXRT_LANES && FXRT_ATTENTION_HALF < FXRT_NV;
        for (int at = 0; at < keys; at += FXRT_MR) {
            const float *k = u->k + (ptrdiff_t)(key + at) * d->k_n;
            float *scores = u->scores + (ptrdiff_t)at * u->width + column;
#define FXRT_TILE(height) fxrt_attention_score_tile(height, FXRT_NV, d, k, panel, scores, u->width, keys - at)
#define FXRT_TILE_HALF(height) fxrt_attention_score_tile(height, FXRT_ATTENTION_HALF, d, k, panel, scores, u->width, keys - at)
            if (half && keys - at >= FXRT_MR)
                FXRT_TILE_HALF(FXRT_MR);
            else if (half)
                FXRT_REST(keys - at, FXRT_TILE_HALF);
            else if (keys - at >= FXRT_MR)
                FXRT_TILE(FXRT_MR);
            else
                FXRT_REST(keys - at, FXRT_TILE);
#undef FXRT_TILE_HALF
#undef FXRT_TILE
        }
    }
}

/* Adds rows of numbers to the scores, or puts them there where they are below -1e30 (`fill`). Where columns are dense, as in a mask that
 * was turned over beforehand, whole vectors of queries are done. */
static inline void fxrt_attention_add(const fxrt_attention_unit *u, const float *from, int s_m, int s_n, int fills, int keys)
{
    if (s_m == 0)
        for (int j = 0; j < keys; j++) {
            const float m = from[(ptrdiff_t)j * s_n];
            const int fill = fills && m < -1e30f;
            float *s = u->scores + (ptrdiff_t)j * u->width;
            for (int i = 0; i < u->rows; i += FXRT_LANES)
                fxrt_v_store(s + i, fill ? fxrt_v_set1(m) : fxrt_v_add(fxrt_v_load(s + i), fxrt_v_set1(m)));
        }
    else if (s_m == 1 && !fills)
        for (int j = 0; j < keys; j++) {
            const float *m = from + (ptrdiff_t)j * s_n;
            float *s = u->scores + (ptrdiff_t)j * u->width;
            for (int i = 0; i < u->rows; i += FXRT_LANES)
                fxrt_v_store(s + i, fxrt_v_add(fxrt_v_load(s + i), fxrt_v_load_some(m + i, u->rows - i)));
        }
    else
        for (int i = 0; i < u->rows; i++) {
            const float *m = from + (ptrdiff_t)i * s_m;
            for (int j = 0; j < keys; j++) {
                const float a = m[(ptrdiff_t)j * s_n];
                float *s = u->scores + ((ptrdiff_t)j * u->width + i);
                *s = fills && a < -1e30f ? a : *s + a;
            }
        }
}

static inline void fxrt_attention_mask(const fxrt_attention_desc *d, const fxrt_attention_unit *u, int key, int keys)
{
    if (u->bias)
        fxrt_attention_add(u, u->bias + (ptrdiff_t)key * d->bias_n, d->bias_m, d->bias_n, 0, keys);
    if (u->mask)
        fxrt_attention_add(u, u->mask + (ptrdiff_t)key * d->mask_n, d->mask_m, d->mask_n, d->fill, keys);
    if (d->causal)
        for (int j = fxrt_max_int(u->first + 1 - key, 0); j < keys; j++) { /* hidden from queries before key + j */
            float *s = u->scores + (ptrdiff_t)j * u->width;
            const int hidden = fxrt_min_int(key + j - u->first, u->rows);
            for (int i = 0; i < hidden; i++)
                s[i] = -INFINITY;
        }
}

/* Scores become exponentials of their distance to the maximum. The maximum of none is the least finite number, so that a row of
 * -inf gives zeros (and a sum of 0), not NaN. */
FXRT_NOINLINE void fxrt_attention_exp(const fxrt_attention_unit *u, int keys)
{
    for (int i = 0; i < u->rows; i += FXRT_LANES) {
        float *s = u->scores + i;
        const fxrt_v before = fxrt_v_load(u->max + i);
        fxrt_v m0 = before, m1 = before, m2 = before, m3 = before;
        int j = 0;
        for (; j + 4 <= keys; j += 4) {
            m0 = fxrt_v_max(m0, fxrt_v_load(s + (ptrdiff_t)j * u->width));
            m1 = fxrt_v_max(m1, fxrt_v_load(s + (ptrdiff_t)(j + 1) * u->width));
            m2 = fxrt_v_max(m2, fxrt_v_load(s + (ptrdiff_t)(j + 2) * u->width));
            m3 = fxrt_v_max(m3, fxrt_v_load(s + (ptrdiff_t)(j + 3) * u->width));
        }
        for (; j < keys; j++)
            m0 = fxrt_v_max(m0, fxrt_v_load(s + (ptrdiff_t)j * u->width));
        const fxrt_v max = fxrt_v_max(fxrt_v_max(m0, m1), fxrt_v_max(m2, m3)), fade = fxrt_v_exp_neg(fxrt_v_sub(before, max));
        fxrt_v sum = fxrt_v_mul(fxrt_v_load(u->sum + i), fade);
        for (j = 0; j < keys; j++) {
            float *at = s + (ptrdiff_t)j * u->width;
            const fxrt_v e = fxrt_v_exp_neg(fxrt_v_sub(fxrt_v_load(at), max));
            fxrt_v_store(at, e);
            sum = fxrt_v_add(sum, e);
        }
        fxrt_v_store(u->max + i, max);
        fxrt_v_store(u->sum + i, sum);
        fxrt_v_store(u->fade + i, fade);
    }
}

/* mr queries by nv vectors of columns of v, over the keys of a tile. `rows` of the queries and `cols` of the columns count. */
FXRT_INLINE void fxrt_attention_value_tile(const int mr, const int nv, const float *scores, int width, const float *v, ptrdiff_t v_n,
                                           int keys, float *o, ptrdiff_t o_m, const float *fade, const float *factor, int rows, int cols)
{
    const int full = cols >= nv * FXRT_LANES;
    fxrt_v acc[FXRT_MR][FXRT_NV];
    fxrt_tile_begin(mr, nv, acc, NULL);
    if (fade) {
#define FXRT_COL(i, j) if (j < nv) acc[i][j] = fxrt_v_mul(fxrt_v_set1(fade[i]), full ? fxrt_v_load(o + i * o_m + j * FXRT_LANES) : fxrt_v_load_some(o + i * o_m + j * FXRT_LANES, cols - j * FXRT_LANES));
#define FXRT_ROW(i) if (i < mr && i < rows) { FXRT_COLS(FXRT_COL, i) }
        FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL
    }
#define FXRT_WEIGHT(i, j) if (j < nv) wv[j] = fxrt_v_load(v + j * FXRT_LANES);
#define FXRT_COL(i, j) if (j < nv) acc[i][j] = fxrt_v_fma(p, wv[j], acc[i][j]);
#define FXRT_ROW(i) if (i < mr) { const fxrt_v p = fxrt_v_set1(scores[i]); FXRT_COLS(FXRT_COL, i) }
    for (int key = 0; key < keys; key++, scores += width, v += v_n) {
        fxrt_v wv[FXRT_NV];
        FXRT_COLS(FXRT_WEIGHT, 0)
        FXRT_ROWS(FXRT_ROW)
    }
#undef FXRT_ROW
#undef FXRT_COL
#undef FXRT_WEIGHT
#define FXRT_SCALE(i, j) if (j < nv) acc[i][j] = fxrt_v_mul(acc[i][j], f);
#define FXRT_COL(i, j) if (j < nv) fxrt_v_store(o + i * o_m + j * FXRT_LANES, acc[i][j]);
#define FXRT_COL_N(i, j) if (j < nv) fxrt_v_store_some(o + i * o_m + j * FXRT_LANES, acc[i][j], cols - j * FXRT_LANES);
#define FXRT_ROW(i)                                                                                                     \
    if (i < mr && i < rows) {                                                                                           \
        if (factor) {                                                                                                   \
            const fxrt_v f = fxrt_v_set1(factor[i]);                                                                    \
            FXRT_COLS(FXRT_SCALE, i)                                                                                    \
        }                                                                                                               \
        if (full) {                                                                                                     \
            FXRT_COLS(FXRT_COL, i)                                                                                      \
        } else {                                                                                                        \
            FXRT_COLS(FXRT_COL_N, i)                                                                                    \
        }                                                                                                               \
    }
    FXRT_ROWS(FXRT_ROW)
#undef FXRT_ROW
#undef FXRT_COL_N
#undef FXRT_COL
#undef FXRT_SCALE
}

/* o = (fade * o) + scores^T v, times factor with the last tile. */
FXRT_NOINLINE void fxrt_attention_values(const fxrt_attention_desc *d, const fxrt_attention_unit *u, int key, int keys, int last)
{
    for (int column = 0; column < d->dv; column += FXRT_NR) {
        const int cols = fxrt_min_int(FXRT_NR, d->dv - column), half = cols <= FXRT_ATTENTION_HALF * FXRT_LANES && FXRT_ATTENTION_HALF < FXRT_NV;
        const float *v = u->v + (ptrdiff_t)key * d->v_n + column;
        ptrdiff_t v_n = d->v_n;
        if (cols != FXRT_NR && cols != FXRT_ATTENTION_HALF * FXRT_LANES) { /* a tile would reach over the end: a padded copy */
            for (int j = 0; j < keys; j++)
                for (int i = 0; i < FXRT_NR; i += FXRT_LANES)
                    fxrt_v_store(u->rest + (ptrdiff_t)j * FXRT_NR + i, fxrt_v_load_some(v + j * v_n + i, cols - i));
            v = u->rest;
            v_n = FXRT_NR;
        }
        for (int at = 0; at < u->rows; at += FXRT_MR) {
            const int rows = u->rows - at;
            const float *fade = key ? u->fade + at : NULL, *factor = last ? u->max + at : NULL, *scores = u->scores + at;
            float *o = u->o + (ptrdiff_t)at * d->o_m + column;
#define FXRT_TILE_OF(height, nv) fxrt_attention_value_tile(height, nv, scores, u->width, v, v_n, keys, o, d->o_m, fade, factor, rows, cols)
#define FXRT_TILE(height) FXRT_TILE_OF(height, FXRT_NV)
#define FXRT_TILE_HALF(height) FXRT_TILE_OF(height, FXRT_ATTENTION_HALF)
            if (half && rows >= FXRT_MR)
                FXRT_TILE_HALF(FXRT_MR);
            else if (half)
                FXRT_REST(rows, FXRT_TILE_HALF);
            else if (rows >= FXRT_MR)
                FXRT_TILE(FXRT_MR);
            else
                FXRT_REST(rows, FXRT_TILE);
#undef FXRT_TILE_HALF
#undef FXRT_TILE
#undef FXRT_TILE_OF
        }
    }
}

static inline void fxrt_attention_unit_run(const fxrt_attention_desc *d, const fxrt_attention_unit *u)
{
    const int n = d->causal ? fxrt_min_int(d->n, u->first + u->rows) : d->n;
    if (n == 0)
        for (int i = 0; i < u->rows; i++)
            memset(u->o + (ptrdiff_t)i * d->o_m, 0, (size_t)d->dv * sizeof *u->o);
    fxrt_attention_pack(d, u);
    for (int i = 0; i < u->width; i++) {
        u->max[i] = -3.40282346638528859812e38f;
        u->sum[i] = 0;
    }
    for (int key = 0; key < n; key += FXRT_ATTENTION_KEYS) {
        const int keys = fxrt_min_int(FXRT_ATTENTION_KEYS, n - key), last = key + keys == n;
        fxrt_attention_scores(d, u, key, keys);
        fxrt_attention_mask(d, u, key, keys);
        fxrt_attention_exp(u, keys);
        if (last)
            for (int i = 0; i < u->rows; i++)
                u->max[i] = d->zero_empty && u->sum[i] == 0 ? 0 : 1 / u->sum[i];
        fxrt_attention_values(d, u, key, keys, last);
    }
}

/* ---- few queries ------------------------------------------------------------------------------------------------ */

enum { FXRT_ATTENTION_FEW = FXRT_LANES > 1 ? 4 : 1 };

/* p[j] = scale * q . k[j], for keys filled up to fours: the last is then repeated. */
FXRT_NOINLINE void fxrt_attention_dots(const fxrt_attention_desc *d, const float *q, const float *k, int keys, float *p)
{
    const int whole = d->dk / FXRT_LANES * FXRT_LANES;
    for (int j = 0; j < keys; j += 4) {
        const float *k0 = k + (ptrdiff_t)j * d->k_n, *k1 = k + (ptrdiff_t)fxrt_min_int(j + 1, keys - 1) * d->k_n;
        const float *k2 = k + (ptrdiff_t)fxrt_min_int(j + 2, keys - 1) * d->k_n, *k3 = k + (ptrdiff_t)fxrt_min_int(j + 3, keys - 1) * d->k_n;
        fxrt_v a0 = fxrt_v_set1(0.0f), a1 = a0, a2 = a0, a3 = a0;
        int i = 0;
        for (; i < whole; i += FXRT_LANES) {
            const fxrt_v x = fxrt_v_load(q + i);
            a0 = fxrt_v_fma(x, fxrt_v_load(k0 + i), a0);
            a1 = fxrt_v_fma(x, fxrt_v_load(k1 + i), a1);
            a2 = fxrt_v_fma(x, fxrt_v_load(k2 + i), a2);
            a3 = fxrt_v_fma(x, fxrt_v_load(k3 + i), a3);
        }
        if (i < d->dk) {
            const fxrt_v x = fxrt_v_load_some(q + i, d->dk - i);
            a0 = fxrt_v_fma(x, fxrt_v_load_some(k0 + i, d->dk - i), a0);
            a1 = fxrt_v_fma(x, fxrt_v_load_some(k1 + i, d->dk - i), a1);
            a2 = fxrt_v_fma(x, fxrt_v_load_some(k2 + i, d->dk - i), a2);
            a3 = fxrt_v_fma(x, fxrt_v_load_some(k3 + i, d->dk - i), a3);
        }
        p[j] = d->scale * fxrt_v_sum(a0);
        p[j + 1] = d->scale * fxrt_v_sum(a1);
        p[j + 2] = d->scale * fxrt_v_sum(a2);
        p[j + 3] = d->scale * fxrt_v_sum(a3);
    }
}

/* Adds numbers to the scores of one query, or puts them there. */
static inline void fxrt_attention_add_row(const float *from, int s_n, int fills, int keys, float *p)
{
    for (int j = 0; j < keys; j++) {
        const float a = from[(ptrdiff_t)j * s_n];
        p[j] = fills && a < -1e30f ? a : p[j] + a;
    }
}

/* p becomes exponentials, filled up with zeros; returns what earlier sums are worth after this tile. */
static inline float fxrt_attention_exp_row(float *p, int keys, float *max, float *sum)
{
    float lanes[FXRT_LANES], most = *max, fade = most;
    fxrt_v m = fxrt_v_set1(most), s = fxrt_v_set1(0.0f);
    for (int j = keys; j % FXRT_LANES; j++)
        p[j] = -INFINITY;
    for (int j = 0; j < keys; j += FXRT_LANES)
        m = fxrt_v_max(m, fxrt_v_load(p + j));
    fxrt_v_store(lanes, m);
    for (int i = 0; i < FXRT_LANES; i++)
        most = lanes[i] > most ? lanes[i] : most;
    m = fxrt_v_set1(most);
    for (int j = 0; j < keys; j += FXRT_LANES) {
        const fxrt_v e = fxrt_v_exp_neg(fxrt_v_sub(fxrt_v_load(p + j), m));
        fxrt_v_store(p + j, e);
        s = fxrt_v_add(s, e);
    }
    fxrt_v_store(lanes, fxrt_v_exp_neg(fxrt_v_sub(fxrt_v_set1(fade), m)));
    fade = lanes[0];
    *max = most;
    *sum = *sum * fade + fxrt_v_sum(s);
    return fade;
}

/* o = (fade * o + p v) * factor, over the keys of a tile; without fade o starts at 0. */
FXRT_NOINLINE void fxrt_attention_sum_row(const fxrt_attention_desc *d, const float *p, const float *v, int keys, float *o, const float *fade,
                                          float factor)
{
    int c = 0;
    for (; c + 4 * FXRT_LANES <= d->dv; c += 4 * FXRT_LANES) {
        fxrt_v a0 = fxrt_v_set1(0.0f), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
        const float *row = v + c;
        int j = 0;
        for (; j + 2 <= keys; j += 2, row += 2 * (ptrdiff_t)d->v_n) {
            const float *next = row + d->v_n;
            const fxrt_v x = fxrt_v_set1(p[j]), y = fxrt_v_set1(p[j + 1]);
            a0 = fxrt_v_fma(x, fxrt_v_load(row), a0);
            a1 = fxrt_v_fma(x, fxrt_v_load(row + FXRT_LANES), a1);
            a2 = fxrt_v_fma(x, fxrt_v_load(row + 2 * FXRT_LANES), a2);
            a3 = fxrt_v_fma(x, fxrt_v_load(row + 3 * FXRT_LANES), a3);
            b0 = fxrt_v_fma(y, fxrt_v_load(next), b0);
            b1 = fxrt_v_fma(y, fxrt_v_load(next + FXRT_LANES), b1);
            b2 = fxrt_v_fma(y, fxrt_v_load(next + 2 * FXRT_LANES), b2);
            b3 = fxrt_v_fma(y, fxrt_v_load(next + 3 * FXRT_LANES), b3);
        }
        if (j < keys) {
            const fxrt_v x = fxrt_v_set1(p[j]);
            a0 = fxrt_v_fma(x, fxrt_v_load(row), a0);
            a1 = fxrt_v_fma(x, fxrt_v_load(row + FXRT_LANES), a1);
            a2 = fxrt_v_fma(x, fxrt_v_load(row + 2 * FXRT_LANES), a2);
            a3 = fxrt_v_fma(x, fxrt_v_load(row + 3 * FXRT_LANES), a3);
        }
        if (fade) {
            const fxrt_v f = fxrt_v_set1(*fade);
            a0 = fxrt_v_fma(f, fxrt_v_load(o + c), a0);
            a1 = fxrt_v_fma(f, fxrt_v_load(o + c + FXRT_LANES), a1);
            a2 = fxrt_v_fma(f, fxrt_v_load(o + c + 2 * FXRT_LANES), a2);
            a3 = fxrt_v_fma(f, fxrt_v_load(o + c + 3 * FXRT_LANES), a3);
        }
        const fxrt_v by = fxrt_v_set1(factor);
        fxrt_v_store(o + c, fxrt_v_mul(by, fxrt_v_add(a0, b0)));
        fxrt_v_store(o + c + FXRT_LANES, fxrt_v_mul(by, fxrt_v_add(a1, b1)));
        fxrt_v_store(o + c + 2 * FXRT_LANES, fxrt_v_mul(by, fxrt_v_add(a2, b2)));
        fxrt_v_store(o + c + 3 * FXRT_LANES, fxrt_v_mul(by, fxrt_v_add(a3, b3)));
    }
    for (; c < d->dv; c += FXRT_LANES) {
        fxrt_v a = fxrt_v_set1(0.0f);
        for (int j = 0; j < keys; j++)
            a = fxrt_v_fma(fxrt_v_set1(p[j]), fxrt_v_load_some(v + j * (ptrdiff_t)d->v_n + c, d->dv - c), a);
        if (fade)
            a = fxrt_v_fma(fxrt_v_set1(*fade), fxrt_v_load_some(o + c, d->dv - c), a);
        fxrt_v_store_some(o + c, fxrt_v_mul(fxrt_v_set1(factor), a), d->dv - c);
    }
}

/* A unit of at most FXRT_ATTENTION_FEW queries, which are copied first: o may be q. */
FXRT_NOINLINE void fxrt_attention_few(const fxrt_attention_desc *d, const fxrt_attention_unit *u)
{
    const int n = d->causal ? fxrt_min_int(d->n, u->first + u->rows) : d->n;
    for (int i = 0; i < u->rows; i++) {
        memcpy(u->panels + (ptrdiff_t)i * d->dk, u->q + (ptrdiff_t)i * d->q_m, (size_t)d->dk * sizeof *u->panels);
        u->max[i] = -3.40282346638528859812e38f;
        u->sum[i] = 0;
        if (n == 0)
            memset(u->o + (ptrdiff_t)i * d->o_m, 0, (size_t)d->dv * sizeof *u->o);
    }
    for (int key = 0; key < n; key += FXRT_ATTENTION_KEYS)
        for (int i = 0; i < u->rows; i++) {
            const int keys = fxrt_min_int(FXRT_ATTENTION_KEYS, n - key), last = key + keys == n;
            float *p = u->scores;
            fxrt_attention_dots(d, u->panels + (ptrdiff_t)i * d->dk, u->k + (ptrdiff_t)key * d->k_n, keys, p);
            if (u->bias)
                fxrt_attention_add_row(u->bias + ((ptrdiff_t)i * d->bias_m + (ptrdiff_t)key * d->bias_n), d->bias_n, 0, keys, p);
            if (u->mask)
                fxrt_attention_add_row(u->mask + ((ptrdiff_t)i * d->mask_m + (ptrdiff_t)key * d->mask_n), d->mask_n, d->fill, keys, p);
            for (int j = fxrt_max_int(u->first + i + 1 - key, 0); d->causal && j < keys; j++)
                p[j] = -INFINITY;
            const float fade = fxrt_attention_exp_row(p, keys, &u->max[i], &u->sum[i]), sum = u->sum[i];
            const float factor = !last ? 1 : d->zero_empty && sum == 0 ? 0 : 1 / sum;
            fxrt_attention_sum_row(d, p, u->v + (ptrdiff_t)key * d->v_n, keys, u->o + (ptrdiff_t)i * d->o_m, key ? &fade : NULL, factor);
        }
}

/* One query a head, and heads that share keys: the queries of a group are rows of one unit, so that its keys and values are read once. */
static inline fxrt_attention_desc fxrt_attention_groups(const fxrt_attention_desc *d)
{
    fxrt_attention_desc g = *d;
    const int group = d->heads / d->kv_heads;
    if (d->m != 1 || group > FXRT_ATTENTION_FEW || d->causal)
        return g;
    g.heads = d->kv_heads, g.m = group;
    g.q_m = d->q_h, g.o_m = d->o_h, g.bias_m = d->bias_h, g.mask_m = d->mask_h;
    if (d->kv_heads > 1)
        g.q_h *= group, g.o_h *= group, g.bias_h *= group, g.mask_h *= group;
    return g;
}

FXRT_KERNEL void fxrt_attention(const fxrt_attention_desc *call, const float *q, const float *k, const float *v, const float *bias,
                                const float *mask, float *o, float *ws)
{
    const fxrt_attention_desc groups = fxrt_attention_groups(call), *const d = &groups;
    const int most = fxrt_min_int(FXRT_ATTENTION_ROWS, (d->m + FXRT_NR - 1) / FXRT_NR * FXRT_NR); /* queries a unit, filled up */
    const ptrdiff_t tiles = most ? (d->m + most - 1) / most : 0, units = (ptrdiff_t)d->batch * d->heads * tiles;
    const ptrdiff_t slots = units < d->slots ? units : d->slots;
    const int tail = d->dv % FXRT_NR;
    const ptrdiff_t rest = tail != 0 && tail != FXRT_ATTENTION_HALF * FXRT_LANES ? FXRT_ATTENTION_KEYS * FXRT_NR : 0;
    const ptrdiff_t size = most * ((ptrdiff_t)d->dk + 4 + FXRT_ATTENTION_KEYS) + FXRT_MR + rest;
#ifdef _OPENMP
    const double work = (double)units * most * d->n * ((double)d->dk + d->dv);
    _Pragma("omp parallel for schedule(dynamic) if (work > 5e5)")
#endif
    for (ptrdiff_t slot = 0; slot < slots; slot++)
        for (ptrdiff_t unit = slot; unit < units; unit += slots) {
            const ptrdiff_t tile = unit % tiles, h = unit / tiles % d->heads, b = unit / tiles / d->heads, kv = h / (d->heads / d->kv_heads);
            float *scratch = ws + slot * size;
            fxrt_attention_unit u = { .first = (int)(tile * most) };
            u.rows = fxrt_min_int(most, d->m - u.first);
            u.width = (u.rows + FXRT_NR - 1) / FXRT_NR * FXRT_NR;
            u.q = q + (b * d->q_b + h * d->q_h + (ptrdiff_t)u.first * d->q_m);
            u.k = k + (b * d->k_b + kv * d->k_h);
            u.v = v + (b * d->v_b + kv * d->v_h);
            u.o = o + (b * d->o_b + h * d->o_h + (ptrdiff_t)u.first * d->o_m);
            u.bias = bias ? bias + (b * d->bias_b + h * d->bias_h + (ptrdiff_t)u.first * d->bias_m) : NULL;
            u.mask = mask ? mask + (b * d->mask_b + h * d->mask_h + (ptrdiff_t)u.first * d->mask_m) : NULL;
            u.panels = scratch;
            u.max = u.panels + (ptrdiff_t)most * d->dk;
            u.sum = u.max + most;
            u.fade = u.sum + most;
            u.rest = u.fade + most;
            u.scores = u.rest + rest;
            if (u.rows <= FXRT_ATTENTION_FEW)
                fxrt_attention_few(d, &u);
            else
                fxrt_attention_unit_run(d, &u);
        }
}
