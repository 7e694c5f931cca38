/* test_kernels_attention.c: attention against sums in double, between guard pages.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "kernels.h"

/* A matrix [b][h][rows][cols] in one of the orders models leave it in: b h r c, b r h c (heads split off a row), or with gaps. */
typedef struct matrix {
    int32_t b, h, r;
    size_t size;
} matrix;

static matrix draw_matrix(int batch, int heads, int rows, int cols)
{
    const int gap = random_int(0, 1) ? random_int(0, 5) : 0;
    matrix m;
    if (random_int(0, 1)) {
        m.r = cols + gap;
        m.h = m.r * rows + random_int(0, 3);
        m.b = m.h * heads;
    } else {
        m.h = cols + gap;
        m.r = m.h * heads + random_int(0, 3);
        m.b = m.r * rows;
    }
    m.size = rows > 0 && cols > 0 && batch > 0 && heads > 0
                 ? (size_t)((batch - 1) * m.b + (heads - 1) * m.h + (rows - 1) * m.r + cols) : 0;
    return m;
}

static guarded fill_matrix(const matrix *m, int batch, int heads, int rows, int cols, float scale)
{
    guarded g = guarded_nan(m->size);
    for (int b = 0; b < batch; b++)
        for (int h = 0; h < heads; h++)
            for (int r = 0; r < rows; r++)
                for (int c = 0; c < cols; c++)
                    g.p[b * m->b + h * m->h + r * m->r + c] = random_float() * scale;
    return g;
}

/* Half of the time at most 9, else up to `most`; now and then a size at which tiles end, whatever `most` is. */
static int draw_size(int most)
{
    static const int edges[] = { 1, 6, 12, 16, 32, 48, 64, 65, 96, 97, 128, 197 };
    if (random_int(0, 3) == 0) {
        const int e = edges[random_int(0, (int)(sizeof edges / sizeof *edges) - 1)];
        return most > 100 || e <= most ? e : most;
    }
    return random_int(0, 1) ? random_int(1, 9) : random_int(1, most);
}

typedef struct problem {
    fxrt_attention_desc d;
    guarded q, k, v, bias, mask, o;
    matrix out;
    bool has_bias, has_mask;
} problem;

static float mask_value(int kind)
{
    if (kind == 0)
        return random_float() * 3;
    return random_int(0, 2) ? 0 : kind == 1 ? -INFINITY : -3.40282346638528859812e38f;
}

/* What is added to scores: strides of keys, queries, heads and batch, 0 where one number serves all; at times columns are dense. */
static guarded draw_mask(const fxrt_attention_desc *d, bool there, int32_t *const stride[4], int kind)
{
    const int32_t count[] = { d->n, d->m, d->heads, d->batch };
    const int turned = random_int(0, 1);
    int32_t at = 1;
    size_t size = there && d->n > 0;
    for (int k = 0; k < 4 && size > 0; k++) {
        const int i = k < 2 && turned ? 1 - k : k;
        *stride[i] = random_int(0, 2) ? at : 0;
        size += (size_t)(count[i] - 1) * (size_t)*stride[i];
        at *= *stride[i] ? count[i] : 1;
    }
    guarded g = guarded_new(size);
    for (size_t i = 0; i < size; i++)
        g.p[i] = mask_value(kind);
    return g;
}

static problem draw(void)
{
    problem t = { .has_bias = random_int(0, 2) == 0, .has_mask = random_int(0, 1) };
    fxrt_attention_desc *d = &t.d;
    const int groups = random_int(1, 2);
    d->batch = random_int(1, 2);
    d->kv_heads = random_int(1, 2);
    d->heads = d->kv_heads * groups;
    d->m = draw_size(110);
    d->n = random_int(0, 20) ? draw_size(140) : 0;
    d->dk = random_int(0, 30) ? draw_size(40) : 0;
    d->dv = draw_size(50);
    d->causal = random_int(0, 2) == 0;
    d->zero_empty = random_int(0, 1);
    d->fill = random_int(0, 1);
    d->slots = random_int(1, 5);
    d->scale = random_int(0, 1) ? 1 / sqrtf((float)d->dk + 1) : 1.75f;
    const matrix q = draw_matrix(d->batch, d->heads, d->m, d->dk), k = draw_matrix(d->batch, d->kv_heads, d->n, d->dk);
    const matrix v = draw_matrix(d->batch, d->kv_heads, d->n, d->dv);
    t.out = draw_matrix(d->batch, d->heads, d->m, d->dv);
    d->q_b = q.b, d->q_h = q.h, d->q_m = q.r;
    d->k_b = k.b, d->k_h = k.h, d->k_n = k.r;
    d->v_b = v.b, d->v_h = v.h, d->v_n = v.r;
    d->o_b = t.out.b, d->o_h = t.out.h, d->o_m = t.out.r;
    t.q = fill_matrix(&q, d->batch, d->heads, d->m, d->dk, random_int(0, 3) ? 2 : 8);
    t.k = fill_matrix(&k, d->batch, d->kv_heads, d->n, d->dk, 2);
    t.v = fill_matrix(&v, d->batch, d->kv_heads, d->n, d->dv, 1);
    t.o = guarded_nan(t.out.size);
    int32_t *const bias[] = { &d->bias_n, &d->bias_m, &d->bias_h, &d->bias_b }, *const mask[] = { &d->mask_n, &d->mask_m, &d->mask_h, &d->mask_b };
    t.bias = draw_mask(d, t.has_bias, bias, 0);
    t.mask = draw_mask(d, t.has_mask, mask, random_int(0, 2));
    return t;
}

static void expect(const problem *t, expected *e)
{
    const fxrt_attention_desc *d = &t->d;
    double *s = calloc((size_t)d->n + 1, sizeof *s);
    ck_assert(s != NULL);
    for (int b = 0; b < d->batch; b++)
        for (int h = 0; h < d->heads; h++)
            for (int i = 0; i < d->m; i++) {
                const int g = h / (d->heads / d->kv_heads);
                double max = -INFINITY, sum = 0;
                for (int j = 0; j < d->n; j++) {
                    double dot = 0;
                    for (int p = 0; p < d->dk; p++)
                        dot += (double)t->q.p[b * d->q_b + h * d->q_h + i * d->q_m + p] * (double)t->k.p[b * d->k_b + g * d->k_h + j * d->k_n + p];
                    s[j] = dot * (double)d->scale;
                    if (t->has_bias)
                        s[j] += (double)t->bias.p[b * d->bias_b + h * d->bias_h + i * d->bias_m + j * d->bias_n];
                    if (t->has_mask) {
                        const float m = t->mask.p[b * d->mask_b + h * d->mask_h + i * d->mask_m + j * d->mask_n];
                        s[j] = d->fill && m < -1e30f ? (double)m : (double)(float)(s[j] + (double)m);
                    }
                    if (d->causal && j > i)
                        s[j] = -INFINITY;
                    max = fmax(max, s[j]);
                }
                const bool empty = isinf(max) && max < 0; /* exp(-inf - -inf) is NaN */
                for (int j = 0; j < d->n; j++) {
                    s[j] = exp(s[j] - max);
                    sum += s[j];
                }
                for (int c = 0; c < d->dv; c++) {
                    double v = 0;
                    for (int j = 0; j < d->n; j++)
                        v += s[j] / sum * (double)t->v.p[b * d->v_b + g * d->v_h + j * d->v_n + c];
                    if (empty && d->zero_empty)
                        v = 0;
                    expected_set(e, (size_t)(b * t->out.b + h * t->out.h + i * t->out.r + c), v);
                }
            }
    free(s);
}

static void finish(problem *t)
{
    guarded *all[] = { &t->q, &t->k, &t->v, &t->bias, &t->mask, &t->o };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_free(all[i]);
}

START_TEST(attention_cases)
{
    const variant *v = &variants[_i];
    for (int round = 0; round < 100 && variant_runs_here(v); round++) {
        problem t = draw();
        expected e = expected_new(t.out.size);
        expect(&t, &e);
        guarded ws = guarded_nan(fxrt_attention_workspace(&t.d, &v->tile) / sizeof(float));
        v->attention(&t.d, t.q.p, t.k.p, t.v.p, t.has_bias ? t.bias.p : NULL, t.has_mask ? t.mask.p : NULL, t.o.p, ws.p);
        char what[200];
        snprintf(what, sizeof what, "%s attention round %d: %dx%d(%d) %dx%d by %d, %d, causal %d, bias %d, mask %d, zero %d", v->name, round, t.d.batch,
                 t.d.heads, t.d.kv_heads, t.d.m, t.d.n, t.d.dk, t.d.dv, t.d.causal, t.has_bias, t.has_mask, t.d.zero_empty);
        expected_check(&e, t.o.p, 1e-4, what);
        expected_free(&e);
        guarded_free(&ws);
        finish(&t);
    }
}
END_TEST

/* o in the place of q. */
START_TEST(attention_in_place)
{
    const variant *v = &variants[_i];
    for (int round = 0; round < 40 && variant_runs_here(v); round++) {
        problem t = draw();
        fxrt_attention_desc *d = &t.d;
        if (d->dk != d->dv) {
            finish(&t);
            continue;
        }
        d->o_b = d->q_b, d->o_h = d->q_h, d->o_m = d->q_m;
        t.out = (matrix){ d->q_b, d->q_h, d->q_m, t.q.n };
        expected e = expected_new(t.q.n);
        expect(&t, &e);
        guarded ws = guarded_nan(fxrt_attention_workspace(d, &v->tile) / sizeof(float));
        v->attention(d, t.q.p, t.k.p, t.v.p, t.has_bias ? t.bias.p : NULL, t.has_mask ? t.mask.p : NULL, t.q.p, ws.p);
        expected_check(&e, t.q.p, 1e-4, v->name);
        expected_free(&e);
        guarded_free(&ws);
        finish(&t);
    }
}
END_TEST

/* With `fill` a masked score does not matter, whatever it is. */
START_TEST(attention_fill)
{
    const variant *v = &variants[_i];
    enum { M = 5, N = 70, D = 3 };
    for (int round = 0; round < 30 && variant_runs_here(v); round++) {
        const fxrt_attention_desc d = { .batch = 1, .heads = 1, .kv_heads = 1, .m = M, .n = N, .dk = D, .dv = D, .q_m = D, .k_n = D, .v_n = D,
                                        .o_m = D, .slots = 1, .scale = 1, .mask_n = 1, .mask_m = round % 2 ? N : 0, .fill = 1 };
        guarded q = guarded_random(M * D), k = guarded_random(N * D), x = guarded_random(N * D), o = guarded_nan(M * D);
        guarded ws = guarded_nan(fxrt_attention_workspace(&d, &v->tile) / sizeof(float)), mask = guarded_new(round % 2 ? M * N : N);
        for (size_t i = 0; i < mask.n; i++)
            mask.p[i] = i % N == 7 ? -INFINITY : 0;
        k.p[7 * D] = NAN;
        v->attention(&d, q.p, k.p, x.p, NULL, mask.p, o.p, ws.p);
        for (int i = 0; i < M * D; i++)
            ck_assert_msg(fabsf(o.p[i]) <= 1, "%s: element %d is %g", v->name, i, (double)o.p[i]);
        guarded *all[] = { &q, &k, &x, &o, &ws, &mask };
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            guarded_free(all[i]);
    }
}
END_TEST

/* NaN and infinities of scores and values go where eager has them: into the whole row of the query. */
START_TEST(attention_special)
{
    const variant *v = &variants[_i];
    enum { M = 5, N = 70, D = 3 };
    const fxrt_attention_desc d = { .batch = 1, .heads = 1, .kv_heads = 1, .m = M, .n = N, .dk = D, .dv = D, .q_m = D, .k_n = D, .v_n = D,
                                    .o_m = D, .slots = 1, .scale = 1 };
    for (int round = 0; round < 30 && variant_runs_here(v); round++) {
        guarded q = guarded_random(M * D), k = guarded_random(N * D), x = guarded_random(N * D), o = guarded_nan(M * D);
        guarded ws = guarded_nan(fxrt_attention_workspace(&d, &v->tile) / sizeof(float));
        q.p[2 * D] = round % 2 ? NAN : INFINITY; /* its scores: NaN, or both infinities */
        x.p[random_int(0, N - 1) * D + 1] = NAN; /* the second column of all results */
        v->attention(&d, q.p, k.p, x.p, NULL, NULL, o.p, ws.p);
        for (int i = 0; i < M; i++)
            for (int c = 0; c < D; c++)
                ck_assert_msg(!isnan(o.p[i * D + c]) == (i != 2 && c != 1), "%s: row %d column %d is %g", v->name, i, c, (double)o.p[i * D + c]);
        guarded *all[] = { &q, &k, &x, &o, &ws };
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            guarded_free(all[i]);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { attention_cases, attention_in_place, attention_fill, attention_special };
    return run_kernel_tests("attention", sizeof tests / sizeof *tests, tests);
}
