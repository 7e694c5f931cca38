/* Convolutions of runtime/cuda that are made by products of matrices, against loops in double: Winograd's F(4 x 4, 3 x 3) and its error's bound; 1 x 1
 * as they lie; 16-bit ones by im2col panels.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "conv_values.h"

#include <cublasLt.h>

static int wino_bytes = 32 << 20; /* less: several chunks of few tiles */
#define FXRT_WINO_BYTES wino_bytes
static int panel_bytes = 16 << 20; /* less: smaller panels */
#define FXRT_PANEL_BYTES panel_bytes
#include "../../runtime/cuda/vec.h"

#include "../../runtime/cuda/act.h"
#include "../../runtime/cuda/conv_gemm.h"
#include "../../runtime/cuda/conv_share.h"
#include "../../runtime/cuda/gemm_tile.h"

#include "../../runtime/cuda/conv_panels.h"
#include "../../runtime/cuda/conv_wino.h"
#include "../../runtime/cuda/gemm.h"
#include "../../runtime/cuda/wino_weights.h"

#include "../../runtime/cuda/conv2d_wino.h"

#include "../../runtime/cuda/conv2d_half.h"

enum { WORKSPACE = 1 << 16 };

struct products {
    fxrt_cuda_products p;
    buffer<char> ws;
    products() : ws(WORKSPACE) { CHECK_CUDA(fxrt_cuda_products_create(&p, WORKSPACE, 0)); }
    products(const products &) = delete;
    products &operator=(const products &) = delete;
    ~products() { CHECK_CUDA(fxrt_cuda_products_destroy(&p)); }
    int count() const {
        int n = 0;
        for (const fxrt_cuda_gemm_plan &plan : p.plans) {
            n += plan.used;
        }
        return n;
    }
};

/* ---- Winograd ------------------------------------------------------------------------------------------------------ */

static std::vector<float> wino_weights(const conv_operands<float> &o) {
    std::vector<float> to(fxrt_cuda_wino_weights_size(&o.d));
    fxrt_cuda_wino_weights(&o.d, 0, o.d.oc / 2, o.w.data(), to.data()); /* in two parts */
    fxrt_cuda_wino_weights(&o.d, o.d.oc / 2, o.d.oc - o.d.oc / 2, o.w.data() + o.d.oc / 2 * 9 * o.d.ic, to.data());
    return to;
}

/* Plans, runs, and sees that running planned nothing more. */
static std::vector<float> run_wino(products &with, const conv_operands<float> &o, size_t shift = 0) {
    const buffer<float> ws(nothing<float>((WORKSPACE + fxrt_cuda_conv2d_wino_workspace(&o.d)) / sizeof(float)));
    return run_conv(o, wino_weights(o), [&](const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y) {
        with.p.planning = 1;
        CHECK_CUDA(fxrt_cuda_conv2d_wino(&with.p, d, x, w, b, r, y, ws.at, nullptr));
        with.p.planning = 0;
        const int plans = with.count();
        const cudaError_t error = fxrt_cuda_conv2d_wino(&with.p, d, x, w, b, r, y, ws.at, nullptr);
        CHECK(with.count() == plans);
        return error;
    }, shift);
}

static fxrt_conv2d_desc random_wino() {
    fxrt_conv2d_desc d = random_desc(CONV);
    d.kh = d.kw = 3;
    d.sh = d.sw = d.dh = d.dw = d.groups = 1;
    d.oh = out_size(d.ih, 3, 1, d.ph, 1);
    d.ow = out_size(d.iw, 3, 1, d.pw, 1);
    return d;
}

static void test_wino() {
    products with;
    for (int i = 0; i < 24; i++) {
        const bool residual = random_int(0, 1);
        const conv_operands<float> o = draw_conv<float>(random_wino(), random_int(0, 1), residual, residual && random_int(0, 1));
        char what[200];
        describe_conv(o.d, what, sizeof what);
        CHECK(fxrt_cuda_conv2d_wino_fits(&o.d));
        CHECK(expect(o).right(run_wino(with, o, static_cast<size_t>(random_int(0, 1))), 2e-5, what));
    }
}

/* Several chunks, the last one smaller: no tile is missing, none done twice. */
static void test_chunks() {
    products with;
    wino_bytes = 1 << 20;
    fxrt_conv2d_desc d = square(1, 39, 44, 24, 3, 1, 1);
    CHECK(fxrt_cuda_wino_tiles(&d) == 100 && fxrt_cuda_wino_chunk(&d) == 100);
    d.oh = 49; /* 13 x 11 tiles, of which 107 would fit */
    d.ow = 41;
    d.act = FXRT_ACT_GELU;
    CHECK(fxrt_cuda_wino_tiles(&d) == 143 && fxrt_cuda_wino_chunk(&d) == 72);
    CHECK(fxrt_cuda_conv2d_wino_workspace(&d) == 36 * 72 * (44 + 24) * sizeof(float));
    const conv_operands<float> o = draw_conv<float>(d, true, true, true);
    CHECK(expect(o).right(run_wino(with, o), 2e-5, "chunks"));
    CHECK(with.count() == 2);
    wino_bytes = 32 << 20;
}

static void test_activations() {
    products with;
    for (int act = 0; act < FXRT_ACT_COUNT; act++) {
        fxrt_conv2d_desc d = square(1, 5, 3, 5, 3, 1, 1);
        d.act = act;
        d.act_a = act == FXRT_ACT_CLAMP ? -0.5f : 0.7f;
        d.act_b = 0.5f;
        const conv_operands<float> o = draw_conv<float>(d, true, act % 2 == 0, false);
        CHECK(expect(o).right(run_wino(with, o), 2e-5, "an activation"));
    }
}

/* Absolute values of F(4, 3)'s matrices, from its points. */
struct wino_matrices {
    double a[4][6], g[6][3], b[6][6];
    wino_matrices() {
        const double s = static_cast<double>(FXRT_WINO_A), t = static_cast<double>(FXRT_WINO_B), points[] = {0, s, -s, t, -t};
        memset(this, 0, sizeof *this);
        for (int j = 0; j < 5; j++) {
            double rest[6] = {1}, divisor = 1; /* the product of x - q over the other points q */
            for (int k = 0, degree = 0; k < 5; k++) {
                if (k != j) {
                    divisor *= points[j] - points[k];
                    for (int i = ++degree; i >= 0; i--) {
                        rest[i] = (i > 0 ? rest[i - 1] : 0) - points[k] * rest[i];
                    }
                }
            }
            for (int i = 0; i < 6; i++) {
                b[j][i] = fabs(rest[i]);
                b[5][i] += i > 0 && j == 0 ? fabs(rest[i - 1]) : 0; /* of all points: x times that of 0 */
            }
            for (int i = 0; i < 4; i++) {
                a[i][j] = fabs(pow(points[j], i));
            }
            for (int i = 0; i < 3; i++) {
                g[j][i] = fabs(pow(points[j], i) / divisor);
            }
        }
        a[3][5] = g[5][2] = 1;
    }
};

/* The noise of roundings that do not depend on one another, u / sqrt(3) each, of the results' root mean square: tests/cuda_emit/winograd.py says why. */
static double usual_error(const wino_matrices &with, int ic) {
    double more = 0; /* than of plain sums, in the mean square of a direction's four results */
    for (const double (&row)[6] : with.a) {
        for (int j = 0; j < 6; j++) {
            double g = 0, b = 0;
            for (int i = 0; i < 6; i++) {
                g += i < 3 ? with.g[j][i] * with.g[j][i] : 0;
                b += with.b[j][i] * with.b[j][i];
            }
            more += row[j] * row[j] * g * b / 3 / 4;
        }
    }
    return more * 0x1p-24 * sqrt((ic / 2.0 + 17) / 3);
}

/* Each sum is as near to the exact one as conv2d_wino.h says, and all together as near as independent roundings are. Many channels, as where it is used. */
static void test_error() {
    const wino_matrices with;
    products p;
    for (int ic : {64, 200}) {
        const fxrt_conv2d_desc d = square(1, 12, ic, 12, 3, 1, 1);
        const conv_operands<float> o = draw_conv<float>(d, false, false, false);
        const std::vector<float> y = run_wino(p, o);
        const wanted want = expect(o);
        CHECK(y.size() == want.value.size());
        const double gamma = (ic + 17) * 0x1p-24 / (1 - (ic + 17) * 0x1p-24), w_most = 2 / sqrt(9.0 * ic);
        double errors = 0, values = 0, nearest = 0;
        for (int at = 0; at < 9 * d.oc; at++) { /* a tile of a channel */
            const int channel = at % d.oc, oy = at / d.oc / 3 * 4, ox = at / d.oc % 3 * 4;
            double sums[6][6] = {};
            for (int c = 0; c < ic; c++) {
                double w[6][3] = {}, x[6][6] = {};
                for (int i = 0; i < 36; i++) {
                    for (int k = 0; k < 6; k++) { /* rows; the columns follow where they are used */
                        const int iy = oy - 1 + k, ix = ox - 1 + i % 6;
                        const bool inside = iy >= 0 && ix >= 0 && iy < 12 && ix < 12;
                        x[i / 6][i % 6] += inside ? with.b[i / 6][k] * fabs(number(o.x[static_cast<size_t>(iy * o.d.xs_h + ix * o.d.xs_w + c)])) : 0;
                        w[i / 6][i % 3] += i % 6 < 3 && k < 3 ? with.g[i / 6][k] * fabs(number(o.w[static_cast<size_t>((channel * ic + c) * 9 + 3 * k + i % 3)])) : 0;
                    }
                }
                for (int i = 0; i < 36; i++) {
                    double wv = 0, xv = 0;
                    for (int k = 0; k < 6; k++) {
                        xv += x[i / 6][k] * with.b[i % 6][k];
                        wv += k < 3 ? w[i / 6][k] * with.g[i % 6][k] : 0;
                    }
                    sums[i / 6][i % 6] += wv * xv;
                }
            }
            for (int i = 0; i < 16; i++) {
                double bound = 0;
                for (int k = 0; k < 36; k++) {
                    bound += with.a[i / 4][k / 6] * with.a[i % 4][k % 6] * sums[k / 6][k % 6];
                }
                CHECK(bound <= 55.1 * 9 * ic * w_most);
                const size_t to = static_cast<size_t>((oy + i / 4) * o.d.ys_h + (ox + i % 4) * o.d.ys_w + channel);
                const double error = fabs(number(y[to]) - want.value[to]);
                CHECK(error <= gamma * bound);
                nearest = fmax(nearest, error / (gamma * bound));
                errors += error * error;
                values += want.value[to] * want.value[to];
            }
        }
        printf("Winograd of %d channels: error %.2g of the results (root mean square), at most %.2g of its bound\n", ic, sqrt(errors / values), nearest);
        CHECK(sqrt(errors / values) <= usual_error(with, ic));
    }
}

/* What it cannot make is refused; of nothing it makes nothing. */
static void test_refused() {
    products with;
    fxrt_conv2d_desc d = square(0, 28, 128, 128, 3, 1, 1);
    CHECK(fxrt_cuda_conv2d_wino_workspace(&d) == 0);
    const buffer<float> ws(WORKSPACE / sizeof(float));
    CHECK_CUDA(fxrt_cuda_conv2d_wino(&with.p, &d, nullptr, nullptr, nullptr, nullptr, nullptr, ws.at, nullptr));
    int32_t *const others[] = {&d.kh, &d.kw, &d.sh, &d.sw, &d.dh, &d.dw, &d.groups};
    for (int32_t *other : others) {
        const int32_t was = *other;
        *other = 2;
        CHECK(!fxrt_cuda_conv2d_wino_fits(&d));
        CHECK(fxrt_cuda_conv2d_wino(&with.p, &d, nullptr, nullptr, nullptr, nullptr, nullptr, ws.at, nullptr) == cudaErrorInvalidValue);
        *other = was;
    }
}

/* ---- 1 x 1 as it lies ---------------------------------------------------------------------------------------------- */

/* Where pixel p lies in x, y and r. */
static void pixel_places(const fxrt_conv2d_desc &d, int p, int64_t to[3]) {
    const int n = p / d.ow / d.oh, oy = p / d.ow % d.oh, ox = p % d.ow;
    to[0] = static_cast<int64_t>(n) * d.xs_n + oy * d.xs_h + ox * d.xs_w;
    to[1] = static_cast<int64_t>(n) * d.ys_n + oy * d.ys_h + ox * d.ys_w;
    to[2] = static_cast<int64_t>(n) * d.rs_n + oy * d.rs_h + ox * d.rs_w;
}

/* Whether the pixels are matrices of `rows` rows, evenly apart in all three: tried out. */
static bool even(const fxrt_conv2d_desc &d, int rows) {
    const int pixels = d.n * d.oh * d.ow;
    int64_t row[3], matrix[3], at[3];
    pixel_places(d, rows > 1 ? 1 : 0, row);
    pixel_places(d, pixels > rows ? rows : 0, matrix);
    for (int p = 0; p < pixels; p++) {
        pixel_places(d, p, at);
        for (int i = 0; i < 3; i++) {
            if (at[i] != p / rows * matrix[i] + p % rows * row[i]) {
                return false;
            }
        }
    }
    return true;
}

static void test_as_gemm() {
    products with;
    int taken = 0, refused = 0, batches = 0;
    for (int i = 0; i < 60; i++) {
        fxrt_conv2d_desc d = random_desc(CONV);
        d.kh = d.kw = d.sh = d.sw = d.groups = 1; /* dilation says nothing */
        d.ph = d.pw = 0;
        d.ih = d.oh = random_int(0, 2) ? random_int(1, 6) : 1;
        d.iw = d.ow = random_int(0, 2) ? random_int(1, 6) : 1;
        const bool residual = random_int(0, 1);
        conv_operands<float> o = draw_conv<float>(d, random_int(0, 1), residual, residual && random_int(0, 1));
        o.d.rs_n *= residual; /* as the compiler has it */
        o.d.rs_h *= residual;
        o.d.rs_w *= residual;
        fxrt_gemm_desc gemm;
        if (!fxrt_cuda_conv2d_as_gemm(&o.d, &gemm)) {
            for (int rows = 1; rows <= d.n * d.oh * d.ow; rows++) {
                CHECK(d.n * d.oh * d.ow % rows != 0 || !even(o.d, rows));
            }
            refused++;
            continue;
        }
        taken++;
        batches += gemm.batch > 1;
        CHECK(gemm.batch * gemm.m == d.n * d.oh * d.ow);
        const std::vector<float> y =
            run_conv(o, o.w, [&](const fxrt_conv2d_desc *, const float *x, const float *w, const float *b, const float *r, float *to) {
                return fxrt_cuda_gemm(&with.p, &gemm, x, w, b, r, to, with.ws.at, nullptr);
            });
        char what[200];
        describe_conv(o.d, what, sizeof what);
        CHECK(expect(o).right(y, 2e-5, what));
    }
    CHECK(taken >= 20 && refused >= 5 && batches >= 5);
    fxrt_gemm_desc gemm;
    fxrt_conv2d_desc d = square(2, 5, 3, 4, 1, 0, 1);
    CHECK(fxrt_cuda_conv2d_as_gemm(&d, &gemm));
    int32_t *const others[] = {&d.kh, &d.kw, &d.sh, &d.sw, &d.ph, &d.pw, &d.groups, &d.ih, &d.iw};
    for (int32_t *other : others) {
        const int32_t was = *other;
        *other = was + 1;
        CHECK(!fxrt_cuda_conv2d_as_gemm(&d, &gemm));
        *other = was;
    }
}

/* ---- 16 bits ------------------------------------------------------------------------------------------------------- */

/* From PyTorch's order to [groups*oc][kh][kw][ic]. */
template <class T> static std::vector<T> channels_last(const conv_operands<T> &o) {
    const size_t taps = static_cast<size_t>(o.d.kh * o.d.kw), ic = static_cast<size_t>(o.d.ic);
    std::vector<T> to(o.w.size());
    for (size_t i = 0; i < to.size(); i++) {
        to[i] = o.w[i / (taps * ic) * taps * ic + i % ic * taps + i / ic % taps];
    }
    return to;
}

template <class T> static bool run_half(products &with, const conv_operands<T> &o, size_t shift = 0) {
    const buffer<char> ws(WORKSPACE + fxrt_cuda_conv2d_half_workspace(&o.d) + 16);
    const std::vector<T> y =
        run_conv(o, channels_last(o), [&](const fxrt_conv2d_desc *d, const T *x, const T *w, const T *b, const T *r, T *to) {
            with.p.planning = 1;
            CHECK_CUDA(fxrt_cuda_conv2d_half(&with.p, d, x, w, b, r, to, ws.at, nullptr));
            with.p.planning = 0;
            const int plans = with.count();
            const cudaError_t error = fxrt_cuda_conv2d_half(&with.p, d, x, w, b, r, to, ws.at, nullptr);
            CHECK(with.count() == plans);
            return error;
        }, shift);
    char what[200];
    describe_conv(o.d, what, sizeof what);
    return expect(o).right(y, tolerance_of<T>, what);
}

/* Small panels: aligned ones and others. What was met is counted over all schedules. */
static int made, refused, padded, wide, several;
template <class T> static void test_half() {
    products with;
    panel_bytes = 0;
    for (int i = 0; i < 16; i++) {
        fxrt_conv2d_desc d = random_desc(CONV);
        const bool eights = i % 3 == 0, residual = random_int(0, 1);
        d.oc = random_int(0, 2) ? random_int(34, 50) : d.oc;
        d.ic = eights ? 8 : d.ic > 9 ? random_int(1, 9) : d.ic;
        d.groups = random_int(0, 7) ? 1 : d.groups;
        d.act_b = d.act == FXRT_ACT_SOFTPLUS ? 20 : d.act_b; /* a step that rounding cannot cross */
        conv_operands<T> o = draw_conv<T>(d, random_int(0, 1), residual, residual && random_int(0, 1), eights ? 8 : 1);
        for (int again = 0; again < 20 && !fxrt_cuda_conv2d_in_panels(&o.d); again++) { /* mostly for gaps between rows of results */
            o = draw_conv<T>(d, o.bias, o.residual, o.in_place, eights ? 8 : 1);
        }
        if (!fxrt_cuda_conv2d_in_panels(&o.d)) {
            refused++;
            CHECK(fxrt_cuda_conv2d_half<T>(&with.p, &o.d, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) == cudaErrorInvalidValue);
            continue;
        }
        made++;
        padded += fxrt_cuda_panel_row(&d) > fxrt_cuda_panel_terms(&d);
        wide += eights;
        several += d.n * d.oh * d.ow > fxrt_cuda_panel_pixels(&d);
        CHECK(run_half(with, o, eights ? 0 : static_cast<size_t>(random_int(0, 1))));
    }
    panel_bytes = 16 << 20;
}

/* The workspace, and what panels cannot make: of layers that networks have. */
static void test_panels() {
    fxrt_conv2d_desc d = square(1, 56, 64, 64, 3, 1, 1);
    const auto dense = [&d] {
        d.xs_w = d.ic * d.groups;
        d.xs_h = d.xs_w * d.iw;
        d.xs_n = d.xs_h * d.ih;
        d.ys_w = d.oc * d.groups;
        d.ys_h = d.ys_w * d.ow;
        d.ys_n = d.ys_h * d.oh;
    };
    dense();
    CHECK(fxrt_cuda_conv2d_in_panels(&d) && fxrt_cuda_conv2d_half_workspace(&d) == 2u * 576 * 3136);
    d.n = 32; /* 100,352 pixels, of which 14,563 would fit: seven shares */
    dense();
    CHECK(fxrt_cuda_panel_pixels(&d) == 14336 && fxrt_cuda_conv2d_half_workspace(&d) == 2u * 576 * 14336);
    d.ys_h += 8; /* results with a gap after each row */
    CHECK(!fxrt_cuda_conv2d_in_panels(&d));
    d = square(2, 224, 3, 64, 7, 3, 1); /* a stem: rows of 147 become 152, weights too */
    d.sh = d.sw = 2;
    d.oh = d.ow = 112;
    dense();
    CHECK(fxrt_cuda_conv2d_in_panels(&d) && fxrt_cuda_conv2d_half_workspace(&d) == 2u * 152 * (2 * 12544 + 64));
    d = square(1, 14, 4, 4, 3, 1, 32);
    dense();
    CHECK(!fxrt_cuda_conv2d_in_panels(&d));
    d = square(0, 14, 4, 4, 3, 1, 1);
    dense();
    products with;
    CHECK(fxrt_cuda_conv2d_half_workspace(&d) == 2u * 40 * 4);
    CHECK_CUDA(fxrt_cuda_conv2d_half<__half>(&with.p, &d, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr));
}

int main() {
    each_schedule("Winograd", test_wino);
    each_schedule("Winograd in chunks", test_chunks);
    each_schedule("Winograd, activations", test_activations);
    each_schedule("1 x 1 as it lies", test_as_gemm);
    each_schedule("16 bits, half", test_half<__half>);
    each_launch("16 bits, bfloat16", test_half<__nv_bfloat16>);
    printf("16 bits: %d in panels (%d padded, %d aligned, %d several), %d refused\n", made, padded, wide, several, refused);
    CHECK(made > 0 && refused > 0 && padded > 0 && wide > 0 && several > 0);
    test_error();
    test_refused();
    test_panels();
    return 0;
}
