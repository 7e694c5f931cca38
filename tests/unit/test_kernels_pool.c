/* test_kernels_pool.c: pooling and resampling against definitions in double, between guard pages.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "kernels.h"

static size_t random_strides(int n, int h, int w, int c, int32_t *s_n, int32_t *s_h, int32_t *s_w)
{
    *s_w = c + random_int(0, 4);
    *s_h = *s_w * w + random_int(0, 4);
    *s_n = *s_h * h + random_int(0, 4);
    return (size_t)((n - 1) * *s_n + (h - 1) * *s_h + (w - 1) * *s_w + c);
}

START_TEST(pool2d)
{
    const variant *v = &variants[_i];
    for (int round = 0; round < 300 && variant_runs_here(v); round++) {
        const bool max = random_int(0, 1);
        fxrt_pool2d_desc d = { .n = random_int(1, 2), .ih = random_int(1, 12), .iw = random_int(1, 12), .c = random_int(1, 35),
                               .kh = random_int(1, 4), .kw = random_int(1, 4), .sh = random_int(1, 3), .sw = random_int(1, 3),
                               .dh = max ? random_int(1, 2) : 1, .dw = max ? random_int(1, 2) : 1 };
        d.ph = random_int(0, d.kh / 2);
        d.pw = random_int(0, d.kw / 2);
        if (d.ih + 2 * d.ph < (d.kh - 1) * d.dh + 1 || d.iw + 2 * d.pw < (d.kw - 1) * d.dw + 1)
            continue;
        const int ceil_mode = random_int(0, 1); /* as PyTorch: no window starts beyond the padded start plus the input */
        d.oh = (d.ih + 2 * d.ph - d.dh * (d.kh - 1) - 1 + (ceil_mode ? d.sh - 1 : 0)) / d.sh + 1;
        d.ow = (d.iw + 2 * d.pw - d.dw * (d.kw - 1) - 1 + (ceil_mode ? d.sw - 1 : 0)) / d.sw + 1;
        if (ceil_mode) {
            d.oh -= (d.oh - 1) * d.sh >= d.ih + d.ph;
            d.ow -= (d.ow - 1) * d.sw >= d.iw + d.pw;
        }
        d.count_include_pad = random_int(0, 1);
        d.divisor = random_int(0, 3) ? 0 : random_int(1, 5);
        guarded x = guarded_random(random_strides(d.n, d.ih, d.iw, d.c, &d.xs_n, &d.xs_h, &d.xs_w));
        const size_t y_size = random_strides(d.n, d.oh, d.ow, d.c, &d.ys_n, &d.ys_h, &d.ys_w);
        guarded y = guarded_nan(y_size);
        if (random_int(0, 3) == 0)
            x.p[random_u32() % x.n] = random_int(0, 1) ? NAN : -INFINITY;
        expected e = expected_new(y_size);
        for (int n = 0; n < d.n; n++)
            for (int oy = 0; oy < d.oh; oy++)
                for (int ox = 0; ox < d.ow; ox++)
                    for (int c = 0; c < d.c; c++) {
                        double m = -INFINITY, s = 0;
                        int inside = 0, padded = 0;
                        for (int r = 0; r < d.kh; r++)
                            for (int k = 0; k < d.kw; k++) {
                                const int iy = oy * d.sh - d.ph + r * d.dh, ix = ox * d.sw - d.pw + k * d.dw;
                                padded += iy < d.ih + d.ph && ix < d.iw + d.pw;
                                if (iy < 0 || ix < 0 || iy >= d.ih || ix >= d.iw)
                                    continue;
                                inside++;
                                const double t = (double)x.p[n * d.xs_n + iy * d.xs_h + ix * d.xs_w + c];
                                m = isnan(t) || t > m ? t : m;
                                s += t;
                            }
                        const int count = d.divisor ? d.divisor : d.count_include_pad ? padded : inside;
                        expected_set(&e, (size_t)(n * d.ys_n + oy * d.ys_h + ox * d.ys_w + c), max ? m : inside ? s / count : 0);
                    }
        char what[200];
        snprintf(what, sizeof what, "%s %s %dx%dx%d -> %dx%d k %d,%d s %d,%d p %d,%d d %d,%d count %d divisor %d", v->name,
                 max ? "max" : "avg", d.ih, d.iw, d.c, d.oh, d.ow, d.kh, d.kw, d.sh, d.sw, d.ph, d.pw, d.dh, d.dw, d.count_include_pad,
                 d.divisor);
        (max ? v->max_pool2d : v->avg_pool2d)(&d, x.p, y.p);
        expected_check(&e, y.p, 1e-6, what);
        expected_free(&e);
        guarded_free(&x);
        guarded_free(&y);
    }
}
END_TEST

/* PyTorch's rule for one axis (aten/src/ATen/native/UpSample.h), in float as there. */
static void linear_index(int o, int in, float scale, bool align, int *i0, int *i1, double *t)
{
    float at = align ? scale * (float)o : scale * ((float)o + 0.5f) - 0.5f;
    if (!align && at < 0)
        at = 0;
    *i0 = (int)floorf(at);
    *i1 = *i0 < in - 1 ? *i0 + 1 : *i0;
    *t = (double)(at - (float)*i0);
}

enum { AVG, MAX, NEAREST, BILINEAR };

static double resize_ref(int kind, const fxrt_resize2d_desc *d, const float *x, int oy, int ox)
{
    if (kind == NEAREST) {
        const int iy = (int)fminf(floorf((float)oy * d->scale_h), (float)(d->ih - 1));
        const int ix = (int)fminf(floorf((float)ox * d->scale_w), (float)(d->iw - 1));
        return (double)x[iy * d->xs_h + ix * d->xs_w];
    }
    if (kind == BILINEAR) {
        int y0, y1, x0, x1;
        double ty, tx;
        linear_index(oy, d->ih, d->scale_h, d->align_corners, &y0, &y1, &ty);
        linear_index(ox, d->iw, d->scale_w, d->align_corners, &x0, &x1, &tx);
        const double a = (double)x[y0 * d->xs_h + x0 * d->xs_w], b = (double)x[y0 * d->xs_h + x1 * d->xs_w];
        const double e = (double)x[y1 * d->xs_h + x0 * d->xs_w], f = (double)x[y1 * d->xs_h + x1 * d->xs_w];
        return (1 - ty) * ((1 - tx) * a + tx * b) + ty * ((1 - tx) * e + tx * f);
    }
    const int y0 = (int)floor((double)oy * d->ih / d->oh), y1 = (int)ceil((oy + 1.0) * d->ih / d->oh);
    const int x0 = (int)floor((double)ox * d->iw / d->ow), x1 = (int)ceil((ox + 1.0) * d->iw / d->ow);
    double m = -INFINITY, s = 0;
    for (int i = y0; i < y1; i++)
        for (int j = x0; j < x1; j++) {
            m = fmax(m, (double)x[i * d->xs_h + j * d->xs_w]);
            s += (double)x[i * d->xs_h + j * d->xs_w];
        }
    return kind == MAX ? m : s / ((y1 - y0) * (x1 - x0));
}

START_TEST(resize2d)
{
    const variant *v = &variants[_i];
    for (int round = 0; round < 300 && variant_runs_here(v); round++) {
        const int kind = random_int(AVG, BILINEAR);
        fxrt_resize2d_desc d = { .n = random_int(1, 2), .ih = random_int(1, 12), .iw = random_int(1, 12), .c = random_int(1, 35),
                                 .oh = random_int(1, 14), .ow = random_int(1, 14) };
        if (random_int(0, 3) == 0)
            d.oh = d.ow = 1;
        if (random_int(0, 3) == 0) {
            d.oh = 2 * d.ih;
            d.ow = 2 * d.iw;
        }
        if (kind == BILINEAR && random_int(0, 1)) {
            d.align_corners = 1;
            d.scale_h = d.oh > 1 ? (float)(d.ih - 1) / (float)(d.oh - 1) : 0;
            d.scale_w = d.ow > 1 ? (float)(d.iw - 1) / (float)(d.ow - 1) : 0;
        } else {
            d.scale_h = (float)d.ih / (float)d.oh;
            d.scale_w = (float)d.iw / (float)d.ow;
        }
        guarded x = guarded_random(random_strides(d.n, d.ih, d.iw, d.c, &d.xs_n, &d.xs_h, &d.xs_w));
        const size_t y_size = random_strides(d.n, d.oh, d.ow, d.c, &d.ys_n, &d.ys_h, &d.ys_w);
        guarded y = guarded_nan(y_size);
        expected e = expected_new(y_size);
        for (int n = 0; n < d.n; n++)
            for (int oy = 0; oy < d.oh; oy++)
                for (int ox = 0; ox < d.ow; ox++)
                    for (int c = 0; c < d.c; c++)
                        expected_set(&e, (size_t)(n * d.ys_n + oy * d.ys_h + ox * d.ys_w + c),
                                     resize_ref(kind, &d, x.p + n * d.xs_n + c, oy, ox));
        char what[160];
        snprintf(what, sizeof what, "%s kind %d %dx%dx%d -> %dx%d align %d", v->name, kind, d.ih, d.iw, d.c, d.oh, d.ow, d.align_corners);
        resize_fn *f = kind == AVG ? v->adaptive_avg_pool2d : kind == MAX ? v->adaptive_max_pool2d
                     : kind == NEAREST ? v->upsample_nearest2d : v->upsample_bilinear2d;
        f(&d, x.p, y.p);
        expected_check(&e, y.p, 2e-6, what);
        expected_free(&e);
        guarded_free(&x);
        guarded_free(&y);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { pool2d, resize2d };
    return run_kernel_tests("kernels: pooling, resampling", sizeof tests / sizeof *tests, tests);
}
