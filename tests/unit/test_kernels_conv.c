/* test_kernels_conv.c: convolutions against loops in double, over random descriptors, between guard pages.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "conv_cases.h"
#include "kernels.h"

static void set_expected(void *to, size_t at, double value) { expected_set((expected *)to, at, value); }

/* NaN in the gaps: nothing outside the tensor may find its way into a result. */
static guarded random_image(int n, int h, int w, int c, int s_n, int s_h, int s_w, size_t size)
{
    guarded g = guarded_nan(size);
    for (int i = 0; i < n; i++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                for (int k = 0; k < c; k++)
                    g.p[i * s_n + y * s_h + x * s_w + k] = random_float();
    return g;
}

static void run_case(const variant *v, conv_kind kind, fxrt_conv2d_desc d, bool bias, bool residual, bool in_place)
{
    char what[256];
    const int xc = d.groups * d.ic, yc = d.groups * d.oc;
    const size_t x_size = random_strides(d.n, d.ih, d.iw, xc, &d.xs_n, &d.xs_h, &d.xs_w);
    const size_t y_size = random_strides(d.n, d.oh, d.ow, yc, &d.ys_n, &d.ys_h, &d.ys_w);
    size_t r_size = random_strides(d.n, d.oh, d.ow, yc, &d.rs_n, &d.rs_h, &d.rs_w);
    if (in_place) {
        d.rs_n = d.ys_n;
        d.rs_h = d.ys_h;
        d.rs_w = d.ys_w;
        r_size = y_size;
    }
    snprintf(what, sizeof what, "%s kind %d n%d %dx%dx%d -> %dx%dx%d groups %d k %dx%d s %d,%d p %d,%d d %d,%d act %d b%d r%d", v->name,
             (int)kind, d.n, d.ih, d.iw, d.ic, d.oh, d.ow, d.oc, d.groups, d.kh, d.kw, d.sh, d.sw, d.ph, d.pw, d.dh, d.dw, d.act, bias,
             residual);
    guarded x = random_image(d.n, d.ih, d.iw, xc, d.xs_n, d.xs_h, d.xs_w, x_size);
    guarded w = guarded_random((size_t)(d.groups * d.oc * d.ic * d.kh * d.kw)), b = guarded_random((size_t)yc), wp, bp, y, ws = { 0 };
    for (size_t i = 0; i < w.n; i++) /* results of about 1: the rounding of long sums stays small */
        w.p[i] *= 2 / sqrtf((float)(d.ic * d.kh * d.kw));
    guarded r = random_image(d.n, d.oh, d.ow, yc, d.rs_n, d.rs_h, d.rs_w, r_size);
    const fxrt_tile *t = &v->tile;
    size_t need;
    conv_fn *f;
    if (kind == DEPTHWISE) {
        wp = guarded_nan(fxrt_conv2d_dw_packed_size(&d, t));
        fxrt_conv2d_dw_pack(&d, t, w.p, wp.p);
        bp = guarded_nan(fxrt_bias_packed_size(1, d.groups, t->lanes));
        fxrt_bias_pack(1, d.groups, t->lanes, b.p, bp.p);
        need = fxrt_conv2d_dw_workspace(&d, t, 1);
        f = v->conv2d_dw;
    } else {
        if (kind == TRANSPOSED) {
            wp = guarded_nan(fxrt_conv_transpose2d_packed_size(&d, t));
            fxrt_conv_transpose2d_pack(&d, t, w.p, wp.p);
            need = fxrt_conv_transpose2d_workspace(&d, t, 1);
        } else {
            wp = guarded_nan(fxrt_conv2d_packed_size(&d, t));
            fxrt_conv2d_pack(&d, t, w.p, wp.p);
            need = fxrt_conv2d_workspace(&d, t, 1);
        }
        bp = guarded_nan(fxrt_bias_packed_size(d.groups, d.oc, t->nr));
        fxrt_bias_pack(d.groups, d.oc, t->nr, b.p, bp.p);
        f = kind == TRANSPOSED ? v->conv_transpose2d : v->conv2d;
    }
    expected e = expected_new(y_size);
    conv_reference(&d, kind == TRANSPOSED, x.p, w.p, bias ? b.p : NULL, residual ? r.p : NULL, set_expected, &e);
    if (in_place) {
        y = guarded_new(y_size);
        memcpy(y.p, r.p, y_size * sizeof(float));
    } else {
        y = guarded_nan(y_size);
    }
    if (need)
        ws = guarded_nan(need / sizeof(float));
    f(&d, x.p, wp.p, bias ? bp.p : NULL, residual ? (in_place ? y.p : r.p) : NULL, y.p, ws.p);
    expected_check(&e, y.p, 2e-5, what);
    expected_free(&e);
    guarded *all[] = { &x, &w, &b, &wp, &bp, &r, &y, &ws };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_free(all[i]);
}

static void random_cases(const variant *v, conv_kind kind, int count)
{
    if (!variant_runs_here(v))
        return;
    for (int i = 0; i < count; i++) {
        const fxrt_conv2d_desc d = random_desc(kind);
        const bool residual = random_int(0, 1);
        run_case(v, kind, d, random_int(0, 2) > 0, residual, residual && random_int(0, 1));
    }
}

START_TEST(conv2d) { random_cases(&variants[_i], CONV, 80); }
END_TEST

START_TEST(conv2d_dw) { random_cases(&variants[_i], DEPTHWISE, 200); }
END_TEST

START_TEST(conv_transpose2d) { random_cases(&variants[_i], TRANSPOSED, 60); }
END_TEST

/* y[kh][kw][ic][groups * oc]: sums of x * g over all pixels of the gradient g whose tap lies in the image. */
static void run_weight_grad(const variant *v, fxrt_conv2d_desc d, bool dense)
{
    char what[200];
    const int xc = d.groups * d.ic, yc = d.groups * d.oc;
    size_t x_size = random_strides(d.n, d.ih, d.iw, xc, &d.xs_n, &d.xs_h, &d.xs_w);
    size_t g_size = random_strides(d.n, d.oh, d.ow, yc, &d.ys_n, &d.ys_h, &d.ys_w), size = (size_t)(d.kh * d.kw * d.ic * yc);
    if (dense) {
        d.xs_w = xc, d.xs_h = d.iw * xc, d.xs_n = d.ih * d.iw * xc;
        d.ys_w = yc, d.ys_h = d.ow * yc, d.ys_n = d.oh * d.ow * yc;
        x_size = (size_t)(d.n * d.xs_n);
        g_size = (size_t)(d.n * d.ys_n);
    }
    snprintf(what, sizeof what, "%s n%d %dx%dx%d -> %dx%dx%d groups %d k %dx%d s %d,%d p %d,%d d %d,%d", v->name, d.n, d.ih, d.iw, d.ic, d.oh, d.ow,
             d.oc, d.groups, d.kh, d.kw, d.sh, d.sw, d.ph, d.pw, d.dh, d.dw);
    guarded x = random_image(d.n, d.ih, d.iw, xc, d.xs_n, d.xs_h, d.xs_w, x_size);
    guarded g = random_image(d.n, d.oh, d.ow, yc, d.ys_n, d.ys_h, d.ys_w, g_size), y = guarded_nan(size);
    for (size_t i = 0; i < g.n; i++) /* results of about 1 */
        g.p[i] *= 2 / sqrtf((float)(d.n * d.oh * d.ow));
    expected e = expected_new(size);
    for (int row = 0; row < d.kh * d.kw * d.ic; row++)
        for (int o = 0; o < yc; o++) {
            const int tap = row / d.ic;
            double s = 0;
            for (int at = 0; at < d.n * d.oh * d.ow; at++) {
                const int n = at / (d.oh * d.ow), oy = at / d.ow % d.oh, ox = at % d.ow;
                const int iy = oy * d.sh - d.ph + tap / d.kw * d.dh, ix = ox * d.sw - d.pw + tap % d.kw * d.dw;
                if (iy >= 0 && ix >= 0 && iy < d.ih && ix < d.iw)
                    s += (double)x.p[n * d.xs_n + iy * d.xs_h + ix * d.xs_w + o / d.oc * d.ic + row % d.ic] *
                         (double)g.p[n * d.ys_n + oy * d.ys_h + ox * d.ys_w + o];
            }
            expected_set(&e, (size_t)(row * yc + o), s);
        }
    v->conv2d_weight_grad(&d, x.p, g.p, y.p);
    expected_check(&e, y.p, 2e-5, what);
    expected_free(&e);
    guarded_free(&x);
    guarded_free(&g);
    guarded_free(&y);
}

START_TEST(conv2d_weight_grad)
{
    const variant *v = &variants[_i];
    if (!variant_runs_here(v))
        return;
    for (int i = 0; i < 80; i++)
        run_weight_grad(v, random_desc(i % 4 ? CONV : DEPTHWISE), i % 3 == 0);
    /* several blocks of rows, in several images */
    const fxrt_conv2d_desc big = { .n = 3, .ih = 19, .iw = 23, .ic = 70, .oh = 19, .ow = 23, .oc = 35, .groups = 1, .kh = 3, .kw = 3,
                                   .sh = 1, .sw = 1, .ph = 1, .pw = 1, .dh = 1, .dw = 1 };
    run_weight_grad(v, big, false);
    const fxrt_conv2d_desc stem = { .n = 2, .ih = 64, .iw = 61, .ic = 3, .oh = 32, .ow = 31, .oc = 33, .groups = 1, .kh = 7, .kw = 7,
                                    .sh = 2, .sw = 2, .ph = 3, .pw = 3, .dh = 1, .dw = 1 };
    run_weight_grad(v, stem, false);
    /* pixel by pixel, in one line of several blocks */
    const fxrt_conv2d_desc pointwise = { .n = 2, .ih = 31, .iw = 29, .ic = 70, .oh = 31, .ow = 29, .oc = 35, .groups = 1, .kh = 1, .kw = 1,
                                         .sh = 1, .sw = 1, .dh = 1, .dw = 1 };
    run_weight_grad(v, pointwise, true);
    run_weight_grad(v, pointwise, false);
}
END_TEST

/* More pixels and channels than one block of the loops around the tiles. */
START_TEST(conv2d_blocks)
{
    const variant *v = &variants[_i];
    if (!variant_runs_here(v))
        return;
    const fxrt_conv2d_desc big = { .n = 1, .ih = 19, .iw = 23, .ic = 130, .oh = 19, .ow = 23, .oc = 35, .groups = 1, .kh = 3, .kw = 3,
                                   .sh = 1, .sw = 1, .ph = 1, .pw = 1, .dh = 1, .dw = 1, .act = FXRT_ACT_RELU };
    run_case(v, CONV, big, true, true, true);
    const fxrt_conv2d_desc stem = { .n = 2, .ih = 64, .iw = 61, .ic = 3, .oh = 32, .ow = 31, .oc = 33, .groups = 1, .kh = 7, .kw = 7,
                                    .sh = 2, .sw = 2, .ph = 3, .pw = 3, .dh = 1, .dw = 1, .act = FXRT_ACT_SILU };
    run_case(v, CONV, stem, true, false, false);
}
END_TEST

/* Each activation, by itself, at full and at partial width. */
START_TEST(activations)
{
    const variant *v = &variants[_i];
    if (!variant_runs_here(v))
        return;
    for (int act = 0; act < FXRT_ACT_COUNT; act++)
        for (int oc = 13; oc <= 64; oc += 51) {
            fxrt_conv2d_desc d = { .n = 1, .ih = 5, .iw = 5, .ic = 6, .oh = 5, .ow = 5, .oc = oc, .groups = 1, .kh = 1, .kw = 1, .sh = 1,
                                   .sw = 1, .dh = 1, .dw = 1, .act = act, .act_a = -0.5f, .act_b = 0.5f };
            d.act_a = act == FXRT_ACT_CLAMP ? -0.5f : 0.7f;
            run_case(v, CONV, d, true, false, false);
            d.groups = oc;
            d.ic = d.oc = 1;
            run_case(v, DEPTHWISE, d, true, true, false);
        }
}
END_TEST

/* relu(NaN) is NaN, and so is clamp(NaN): a fused tail hides no error. */
START_TEST(nan_stays)
{
    const variant *v = &variants[_i];
    if (!variant_runs_here(v))
        return;
    for (int act = 0; act < FXRT_ACT_COUNT; act++) {
        const fxrt_gemm_desc d = { .batch = 1, .m = 1, .n = 64, .k = 1, .x_m = 1, .y_m = 64, .w_k = 64, .w_n = 1, .act = act,
                                   .act_a = 1, .act_b = 2 };
        float x = NAN, w[64], wp[64], y[64];
        for (int i = 0; i < 64; i++)
            w[i] = 1;
        fxrt_gemm_pack(&d, &v->tile, w, wp);
        v->gemm(&d, &x, wp, NULL, NULL, y);
        for (int i = 0; i < 64; i++)
            ck_assert_msg(isnan(y[i]), "act %d of NaN gives %g", act, (double)y[i]);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { conv2d, conv2d_dw, conv_transpose2d, conv2d_weight_grad, conv2d_blocks, activations, nan_stays };
    return run_kernel_tests("kernels: convolution", sizeof tests / sizeof *tests, tests);
}
