/* ir/interp_gemm.c: the matrix products of the reference interpreter: linear, mm, bmm, addmm, matmul, and the tile that
 * convolution shares. Sums are in double, so that results are the correctly rounded ones but for rare ties; the small
 * register tile makes that quick enough to run whole networks.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ops.h"

typedef double pair __attribute__((vector_size(16)));

/* Four rows of w interleaved, as doubles; missing rows are zero. */
static void pack_rows(const fx_gemm *g, int64_t o)
{
    int64_t rows = g->n_o - o < FX_PANEL ? g->n_o - o : FX_PANEL, n_k = g->n_i * g->n_j;
    if (rows < FX_PANEL)
        memset(g->buffer, 0, (size_t)(n_k * FX_PANEL) * sizeof(double));
    for (int64_t row = 0; row < rows; row++) {
        double *b = g->buffer + row;
        for (int64_t i = 0; i < g->n_i; i++) {
            int64_t at = (o + row) * g->wo + i * g->wi;
            if (g->kind == FX_KIND_F32)
                for (int64_t j = 0; j < g->n_j; j++, b += FX_PANEL)
                    *b = ((const float *)g->w)[at + j * g->wj];
            else
                for (int64_t j = 0; j < g->n_j; j++, b += FX_PANEL)
                    *b = ((const double *)g->w)[at + j * g->wj];
        }
    }
}

/* r[4][4] = sum over k of w[k][4] x[k][4]. */
static void tile4x4(int64_t n_k, const double *w, const double *x, double *r, int64_t rs, int64_t rows)
{
    pair a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0}, c0 = {0}, c1 = {0}, d0 = {0}, d1 = {0};
    for (int64_t k = 0; k < n_k; k++, w += 4, x += 4) {
        pair x0 = {x[0], x[1]}, x1 = {x[2], x[3]};
        pair wa = {w[0], w[0]}, wb = {w[1], w[1]}, wc = {w[2], w[2]}, wd = {w[3], w[3]};
        a0 += wa * x0;
        a1 += wa * x1;
        b0 += wb * x0;
        b1 += wb * x1;
        c0 += wc * x0;
        c1 += wc * x1;
        d0 += wd * x0;
        d1 += wd * x1;
    }
    const double out[4][4] = {{a0[0], a0[1], a1[0], a1[1]}, {b0[0], b0[1], b1[0], b1[1]}, {c0[0], c0[1], c1[0], c1[1]},
                              {d0[0], d0[1], d1[0], d1[1]}};
    for (int64_t i = 0; i < rows; i++)
        memcpy(r + i * rs, out[i], sizeof out[i]);
}

void fx_gemm_tile(const fx_gemm *g)
{
    int64_t n_k = g->n_i * g->n_j;
    for (int64_t o = 0; o < g->n_o; o += FX_PANEL) {
        pack_rows(g, o);
        int64_t rows = g->n_o - o < FX_PANEL ? g->n_o - o : FX_PANEL;
        for (int64_t p = 0; p < g->n_p; p += FX_PANEL)
            tile4x4(n_k, g->buffer, g->x + p * n_k, g->r + o * g->rs + p, g->rs, rows);
    }
}

int64_t fx_gemm_columns(int64_t n_k, int64_t n_p)
{
    int64_t most = n_k > 0 ? 65536 / n_k : 65536;
    most = most < 16 ? 16 : most > 256 ? 256 : most;
    if (n_p <= most)
        return n_p > 0 ? n_p : 1;
    int64_t tiles = (n_p + most - 1) / most, even = (n_p + tiles - 1) / tiles;
    return (even + FX_PANEL - 1) / FX_PANEL * FX_PANEL;
}

/* ---- products of matrices -------------------------------------------------------------------------------------------- */

/* y[b][m][n] = beta * add[m][n] + alpha * sum over k of x[b][m][k] * w[b][k][n]; x, y dense, w by strides. */
typedef struct product {
    int64_t batch, m, n, k, wb, wk, wn;
    const void *x, *w;
    const void *add; /* dense [m][n], or [n] when add_m is 0; NULL: none */
    int64_t add_m, add_n;
    double alpha, beta;
    int64_t ialpha, ibeta;
} product;

static double element(fx_kind kind, const void *p, int64_t i)
{
    return kind == FX_KIND_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static void product_floats(fx_eval *c, const product *v, fx_kind kind, void *y)
{
    int64_t tile = fx_gemm_columns(v->k, v->m), room = (tile + FX_PANEL - 1) / FX_PANEL * FX_PANEL;
    size_t size = fx_kind_size(kind);
    double *x = fx_eval_scratch(c, room * v->k, sizeof *x), *r = fx_eval_scratch(c, room * v->n, sizeof *r);
    fx_gemm g = {.n_o = v->n, .n_i = v->k, .n_j = 1, .kind = kind, .wo = v->wn, .wi = v->wk, .x = x, .r = r, .rs = room};
    g.buffer = fx_eval_scratch(c, FX_PANEL * v->k, sizeof *g.buffer);
    for (int64_t b = 0; b < v->batch; b++) {
        g.w = (const char *)v->w + (size_t)(b * v->wb) * size;
        for (int64_t m = 0; m < v->m; m += tile) {
            g.n_p = v->m - m < tile ? v->m - m : tile;
            for (int64_t p = 0; p < (g.n_p + FX_PANEL - 1) / FX_PANEL * FX_PANEL; p++) {
                double *to = x + p / FX_PANEL * v->k * FX_PANEL + p % FX_PANEL;
                for (int64_t k = 0; k < v->k; k++)
                    to[k * FX_PANEL] = p < g.n_p ? element(kind, v->x, (b * v->m + m + p) * v->k + k) : 0;
            }
            fx_gemm_tile(&g);
            for (int64_t p = 0; p < g.n_p; p++)
                for (int64_t n = 0; n < v->n; n++) {
                    double e = r[n * room + p] * v->alpha;
                    if (v->add)
                        e += v->beta * element(kind, v->add, (m + p) * v->add_m + n * v->add_n);
                    int64_t at = (b * v->m + m + p) * v->n + n;
                    if (kind == FX_KIND_F32)
                        ((float *)y)[at] = (float)e;
                    else
                        ((double *)y)[at] = e;
                }
        }
    }
}

static void product_ints(const product *v, int64_t *y)
{
    const int64_t *x = v->x, *w = v->w, *add = v->add;
    for (int64_t b = 0; b < v->batch; b++)
        for (int64_t m = 0; m < v->m; m++)
            for (int64_t n = 0; n < v->n; n++) {
                uint64_t sum = 0;
                for (int64_t k = 0; k < v->k; k++)
                    sum += (uint64_t)x[(b * v->m + m) * v->k + k] * (uint64_t)w[b * v->wb + k * v->wk + n * v->wn];
                sum *= (uint64_t)v->ialpha;
                if (add)
                    sum += (uint64_t)v->ibeta * (uint64_t)add[m * v->add_m + n * v->add_n];
                y[(b * v->m + m) * v->n + n] = (int64_t)sum;
            }
}

static fx_status evaluate(fx_eval *c, const product *v)
{
    fx_kind kind = fx_kind_of(fx_eval_type(c, 0)->dtype);
    void *y = fx_eval_target(c, 0, kind);
    if (kind == FX_KIND_INT)
        product_ints(v, y);
    else
        product_floats(c, v, kind, y);
    fx_eval_finish(c, 0, kind, y);
    return FX_OK;
}

static fx_status array(fx_eval *c, const fx_tensor *t, const void **p)
{
    return fx_eval_array(c, t, fx_kind_of(t->dtype), 0, NULL, p);
}

fx_status eval_linear(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0), *w = fx_eval_input(c, 1), *b = fx_eval_input(c, 2);
    product v = {.batch = 1, .m = 1, .k = w->sizes[w->rank - 1], .wk = 1, .alpha = 1, .beta = 1, .ialpha = 1, .ibeta = 1};
    for (int i = 0; i < x->rank - 1; i++)
        v.m *= x->sizes[i];
    v.n = w->rank == 2 ? w->sizes[0] : 1;
    v.wn = v.k;
    FX_TRY(array(c, x, &v.x));
    FX_TRY(array(c, w, &v.w));
    if (b) {
        FX_TRY(array(c, b, &v.add));
        v.add_n = b->rank && b->sizes[0] > 1 ? 1 : 0;
    }
    return evaluate(c, &v);
}

static fx_status plain(fx_eval *c, const fx_tensor *a, const fx_tensor *b, int rank, product *v)
{
    *v = (product){.batch = rank == 3 ? a->sizes[0] : 1, .m = a->sizes[rank - 2], .k = a->sizes[rank - 1], .n = b->sizes[rank - 1],
                   .alpha = 1, .beta = 1, .ialpha = 1, .ibeta = 1};
    v->wk = v->n;
    v->wn = 1;
    v->wb = v->k * v->n;
    FX_TRY(array(c, a, &v->x));
    return array(c, b, &v->w);
}

fx_status eval_mm(fx_eval *c)
{
    product v;
    FX_TRY(plain(c, fx_eval_input(c, 0), fx_eval_input(c, 1), 2, &v));
    return evaluate(c, &v);
}

fx_status eval_bmm(fx_eval *c)
{
    product v;
    FX_TRY(plain(c, fx_eval_input(c, 0), fx_eval_input(c, 1), 3, &v));
    return evaluate(c, &v);
}

/* With beta 0, NaN and infinities of self do not count, as in eager. */
fx_status eval_addmm(fx_eval *c)
{
    const fx_tensor *s = fx_eval_input(c, 0);
    product v;
    fx_arg_kind kind;
    FX_TRY(plain(c, fx_eval_input(c, 1), fx_eval_input(c, 2), 2, &v));
    FX_TRY(fx_eval_number(c, 3, &kind, &v.beta, &v.ibeta));
    FX_TRY(fx_eval_number(c, 4, &kind, &v.alpha, &v.ialpha));
    if (v.beta != 0) {
        int64_t sizes[2] = {v.m, v.n};
        FX_TRY(fx_eval_array(c, s, fx_kind_of(s->dtype), 2, sizes, &v.add));
        v.add_m = v.n;
        v.add_n = 1;
    }
    return evaluate(c, &v);
}

/* Both operands are brought to [batch..., m, k] and [batch..., k, n], with the batches broadcast. */
fx_status eval_matmul(fx_eval *c)
{
    const fx_tensor *a = fx_eval_input(c, 0), *b = fx_eval_input(c, 1);
    fx_tensor left = *a, right = *b;
    if (a->rank == 1) {
        left.rank = 2;
        left.sizes[1] = a->sizes[0];
        left.strides[1] = a->strides[0];
        left.sizes[0] = 1;
        left.strides[0] = 0;
    }
    if (b->rank == 1) {
        right.rank = 2;
        right.sizes[1] = 1;
        right.strides[1] = 0;
    }
    int lead = (left.rank > right.rank ? left.rank : right.rank) - 2;
    int64_t ls[FX_MAX_RANK + 2], rs[FX_MAX_RANK + 2];
    product v = {.batch = 1, .alpha = 1, .beta = 1, .ialpha = 1, .ibeta = 1};
    for (int i = 0; i < lead; i++) {
        int li = i - (lead + 2 - left.rank), ri = i - (lead + 2 - right.rank);
        int64_t l = li < 0 ? 1 : left.sizes[li], r = ri < 0 ? 1 : right.sizes[ri];
        ls[i] = rs[i] = l == 1 ? r : l;
        v.batch *= ls[i];
    }
    for (int i = 0; i < 2; i++) {
        ls[lead + i] = left.sizes[left.rank - 2 + i];
        rs[lead + i] = right.sizes[right.rank - 2 + i];
    }
    v.m = ls[lead];
    v.k = ls[lead + 1];
    v.n = v.wk = rs[lead + 1];
    v.wn = 1;
    v.wb = v.k * v.n;
    fx_kind kind = fx_kind_of(a->dtype);
    FX_TRY(fx_eval_array(c, &left, kind, lead + 2, ls, &v.x));
    FX_TRY(fx_eval_array(c, &right, kind, lead + 2, rs, &v.w));
    return evaluate(c, &v);
}
