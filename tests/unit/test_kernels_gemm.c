/* test_kernels_gemm.c: matrix products, softmax and norms against loops in double, between guard pages.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "kernels.h"

/* Elements a window of dense rows reaches over. */
static size_t window_size(int64_t batch, int64_t s_b, int64_t rows, int64_t s_m, int64_t n)
{
    return batch > 0 && rows > 0 && n > 0 ? (size_t)((batch - 1) * s_b + (rows - 1) * s_m + n) : 0;
}

static void random_product(const variant *v, bool computed)
{
    fxrt_gemm_desc d = { .batch = random_int(1, 3), .m = random_int(1, 2) == 1 ? random_int(1, 3) : random_int(1, 40),
                         .n = random_int(1, 70), .k = random_int(1, 2) == 1 ? random_int(1, 9) : random_int(1, 300) };
    if (random_int(0, 9) == 0)
        d.k = random_int(1000, 2600); /* sums in several blocks */
    int32_t *sizes[] = { &d.m, &d.n, &d.k, &d.batch };
    if (random_int(0, 19) == 0)
        *sizes[random_int(0, 3)] = 0;
    const bool bias = random_int(0, 1), residual = random_int(0, 1), transposed = random_int(0, 1);
    d.x_m = d.k + random_int(0, 5);
    d.y_m = d.n + random_int(0, 5);
    d.r_m = d.n + random_int(0, 5);
    d.x_b = d.x_m * d.m + random_int(0, 7);
    d.y_b = d.y_m * d.m + random_int(0, 7);
    d.r_b = random_int(0, 1) ? d.r_m * d.m : 0; /* 0: one residual for all */
    const bool in_place = residual && random_int(0, 1); /* y in the place of r */
    if (in_place) {
        d.r_m = d.y_m;
        d.r_b = d.y_b;
    }
    d.w_k = transposed ? 1 : d.n;
    d.w_n = transposed ? d.k : 1;
    d.w_b = computed && random_int(0, 1) ? d.n * d.k : 0;
    random_act(&d.act, &d.act_a, &d.act_b);
    const size_t y_size = window_size(d.batch, d.y_b, d.m, d.y_m, d.n);
    guarded x = guarded_nan(window_size(d.batch, d.x_b, d.m, d.x_m, d.k));
    for (int i = 0; i < d.batch; i++)
        for (int row = 0; row < d.m; row++)
            for (int p = 0; p < d.k; p++)
                x.p[i * d.x_b + row * d.x_m + p] = random_float() / sqrtf((float)d.k);
    guarded w = guarded_random((size_t)(d.n * d.k * (d.w_b && d.batch > 0 ? d.batch : 1))), b = guarded_random((size_t)d.n);
    guarded r = guarded_random(window_size(d.batch, d.r_b, d.m, d.r_m, d.n)), y = guarded_nan(y_size);
    guarded wp = guarded_nan(fxrt_gemm_packed_size(&d, &v->tile)), bp = guarded_nan(fxrt_bias_packed_size(1, d.n, v->tile.nr));
    fxrt_gemm_pack(&d, &v->tile, w.p, wp.p);
    fxrt_bias_pack(1, d.n, v->tile.nr, b.p, bp.p);
    expected e = expected_new(y_size);
    for (int i = 0; i < d.batch; i++)
        for (int row = 0; row < d.m; row++)
            for (int j = 0; j < d.n; j++) {
                double s = bias ? (double)b.p[j] : 0;
                for (int p = 0; p < d.k; p++)
                    s += (double)x.p[i * d.x_b + row * d.x_m + p] * (double)w.p[i * d.w_b + p * d.w_k + j * d.w_n];
                if (residual)
                    s += (double)r.p[i * d.r_b + row * d.r_m + j];
                expected_set(&e, (size_t)(i * d.y_b + row * d.y_m + j), act_ref(d.act, s, (double)d.act_a, (double)d.act_b));
            }
    for (int i = 0; i < d.batch && in_place; i++)
        for (int row = 0; row < d.m && d.n > 0; row++)
            memcpy(y.p + i * d.y_b + row * d.y_m, r.p + i * d.r_b + row * d.r_m, (size_t)d.n * sizeof(float));
    const float *rp = !residual ? NULL : in_place ? y.p : r.p;
    char what[160];
    snprintf(what, sizeof what, "%s %s batch %d %dx%dx%d act %d b%d r%d t%d", v->name, computed ? "matmul" : "gemm", d.batch, d.m, d.n,
             d.k, d.act, bias, residual, transposed);
    if (computed) {
        guarded ws = guarded_nan(fxrt_matmul_workspace(&d, &v->tile, 1) / sizeof(float));
        v->matmul(&d, x.p, w.p, bias ? bp.p : NULL, rp, y.p, ws.p);
        guarded_free(&ws);
    } else {
        v->gemm(&d, x.p, wp.p, bias ? bp.p : NULL, rp, y.p);
    }
    expected_check(&e, y.p, 1e-5, what);
    expected_free(&e);
    guarded *all[] = { &x, &w, &b, &r, &y, &wp, &bp };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_free(all[i]);
}

START_TEST(gemm_cases)
{
    for (int i = 0; i < 150 && variant_runs_here(&variants[_i]); i++)
        random_product(&variants[_i], false);
}
END_TEST

START_TEST(matmul_cases)
{
    for (int i = 0; i < 100 && variant_runs_here(&variants[_i]); i++)
        random_product(&variants[_i], true);
}
END_TEST

START_TEST(softmax_cases)
{
    const variant *v = &variants[_i];
    for (int round = 0; round < 60 && variant_runs_here(v); round++) {
        const bool log_of = random_int(0, 1), in_place = random_int(0, 1);
        const fxrt_softmax_desc d = { .outer = random_int(1, 4), .n = random_int(0, 150), .inner = random_int(0, 1) ? 1 : random_int(0, 150) };
        const size_t size = (size_t)(d.outer * d.n * d.inner);
        const float scale = random_int(0, 1) ? 3 : 60;
        guarded x = guarded_random(size), y = guarded_nan(size);
        for (size_t i = 0; i < size; i++)
            x.p[i] = random_int(0, 50) ? x.p[i] * scale : random_int(0, 1) && d.n > 1 && i % 2 ? -INFINITY : 0;
        expected e = expected_new(size);
        for (int o = 0; o < d.outer; o++)
            for (int j = 0; j < d.inner; j++) {
                double max = -INFINITY, sum = 0;
                for (int i = 0; i < d.n; i++)
                    max = fmax(max, (double)x.p[(o * d.n + i) * d.inner + j]);
                for (int i = 0; i < d.n; i++)
                    sum += exp((double)x.p[(o * d.n + i) * d.inner + j] - max);
                for (int i = 0; i < d.n; i++) {
                    const double t = (double)x.p[(o * d.n + i) * d.inner + j] - max;
                    expected_set(&e, (size_t)((o * d.n + i) * d.inner + j), log_of ? t - log(sum) : exp(t) / sum);
                }
            }
        if (in_place)
            memcpy(y.p, x.p, size * sizeof(float));
        (log_of ? v->log_softmax : v->softmax)(&d, in_place ? y.p : x.p, y.p);
        expected_check(&e, y.p, 2e-6, v->name);
        expected_free(&e);
        guarded_free(&x);
        guarded_free(&y);
    }
}
END_TEST

/* Layer norm, or without the mean: root mean square norm. */
static void random_norm(const variant *v, bool layer)
{
    fxrt_layer_norm_desc d = { .rows = random_int(0, 9), .n = random_int(0, 200), .eps = 1e-5f };
    d.x_m = d.n + random_int(0, 3);
    d.y_m = d.n + random_int(0, 3);
    const bool affine = random_int(0, 1), bias = layer && affine && random_int(0, 1), in_place = random_int(0, 3) == 0;
    if (in_place)
        d.y_m = d.x_m;
    const size_t y_size = window_size(1, 0, d.rows, d.y_m, d.n);
    guarded x = guarded_nan(window_size(1, 0, d.rows, d.x_m, d.n)), w = guarded_random((size_t)d.n), b = guarded_random((size_t)d.n);
    guarded y = guarded_nan(y_size);
    expected e = expected_new(y_size);
    for (int r = 0; r < d.rows; r++) {
        float *row = x.p + r * d.x_m;
        for (int i = 0; i < d.n; i++)
            row[i] = random_float() * 2 + (layer ? 5 : 0); /* a mean that is not small beside the deviation */
        double mean = 0, var = 0;
        for (int i = 0; i < d.n && layer; i++)
            mean += (double)row[i] / d.n;
        for (int i = 0; i < d.n; i++)
            var += pow((double)row[i] - mean, 2) / d.n;
        for (int i = 0; i < d.n; i++) {
            const double t = ((double)row[i] - mean) / sqrt(var + (double)d.eps);
            expected_set(&e, (size_t)(r * d.y_m + i), (affine ? t * (double)w.p[i] : t) + (bias ? (double)b.p[i] : 0));
        }
    }
    float *out = in_place ? x.p : y.p;
    if (layer)
        v->layer_norm(&d, x.p, affine ? w.p : NULL, bias ? b.p : NULL, out);
    else
        v->rms_norm(&d, x.p, affine ? w.p : NULL, out);
    expected_check(&e, out, d.n < 4 ? 2e-3 : 1e-5, v->name);
    expected_free(&e);
    guarded *all[] = { &x, &w, &b, &y };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_free(all[i]);
}

START_TEST(layer_norm_cases)
{
    for (int i = 0; i < 80 && variant_runs_here(&variants[_i]); i++)
        random_norm(&variants[_i], true);
}
END_TEST

START_TEST(rms_norm_cases)
{
    for (int i = 0; i < 80 && variant_runs_here(&variants[_i]); i++)
        random_norm(&variants[_i], false);
}
END_TEST

START_TEST(group_norm_cases)
{
    const variant *v = &variants[_i];
    for (int round = 0; round < 40 && variant_runs_here(v); round++) {
        fxrt_group_norm_desc d = { .n = random_int(1, 3), .hw = random_int(1, 30), .groups = random_int(1, 5), .eps = 1e-5f };
        d.c = d.groups * random_int(2, 19);
        d.xs_p = d.c + random_int(0, 3);
        d.ys_p = d.c + random_int(0, 3);
        d.xs_n = d.hw * d.xs_p;
        d.ys_n = d.hw * d.ys_p;
        const int c = d.c / d.groups;
        const bool affine = random_int(0, 1), bias = affine && random_int(0, 1);
        const size_t y_size = (size_t)((d.n - 1) * d.ys_n + (d.hw - 1) * d.ys_p + d.c);
        guarded x = guarded_random((size_t)((d.n - 1) * d.xs_n + (d.hw - 1) * d.xs_p + d.c));
        guarded w = guarded_random((size_t)d.c), b = guarded_random((size_t)d.c), y = guarded_nan(y_size);
        expected e = expected_new(y_size);
        for (int n = 0; n < d.n; n++)
            for (int g = 0; g < d.groups; g++) {
                double mean = 0, var = 0;
                for (int pass = 0; pass < 3; pass++)
                    for (int p = 0; p < d.hw; p++)
                        for (int i = 0; i < c; i++) {
                            const int at = g * c + i;
                            const double t = (double)x.p[n * d.xs_n + p * d.xs_p + at];
                            if (pass == 0)
                                mean += t / (c * d.hw);
                            else if (pass == 1)
                                var += (t - mean) * (t - mean) / (c * d.hw);
                            else
                                expected_set(&e, (size_t)(n * d.ys_n + p * d.ys_p + at),
                                             (t - mean) / sqrt(var + (double)d.eps) * (affine ? (double)w.p[at] : 1) +
                                                 (bias ? (double)b.p[at] : 0));
                        }
            }
        v->group_norm(&d, x.p, affine ? w.p : NULL, bias ? b.p : NULL, y.p);
        expected_check(&e, y.p, 1e-5, v->name);
        expected_free(&e);
        guarded *all[] = { &x, &w, &b, &y };
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            guarded_free(all[i]);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { gemm_cases, matmul_cases, softmax_cases, layer_norm_cases, rms_norm_cases, group_norm_cases };
    return run_kernel_tests("kernels: products, softmax, norms", sizeof tests / sizeof *tests, tests);
}
