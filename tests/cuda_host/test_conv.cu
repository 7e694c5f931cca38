/* Convolutions of runtime/cuda against loops in double, over the random descriptors of the CPU kernels' test: all tiles, aligned and not,
 * residuals in place, all activations; sums in parts, the same bits in every schedule; each barrier and fence taken away in turn.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "conv_values.h"

#ifdef FXCU_HOST
#define __syncthreads() barrier(__FILE__, __LINE__)
#define __threadfence() fence(__FILE__, __LINE__)
#endif
#include "../../runtime/cuda/vec.h"

#include "../../runtime/cuda/act.h"
#include "../../runtime/cuda/conv_points.h"
#include "../../runtime/cuda/conv_split.h"
#include "../../runtime/cuda/conv_tile.h"

#include "../../runtime/cuda/conv2d.h"
#include "../../runtime/cuda/conv2d_dw.h"
#include "../../runtime/cuda/conv2d_post.h"
#include "../../runtime/cuda/conv2d_pre.h"
#include "../../runtime/cuda/conv_transpose2d.h"
#ifdef FXCU_HOST
#undef __syncthreads
#undef __threadfence
#endif

typedef cudaError_t conv_fn(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y,
                            float *ws, int *counts, cudaStream_t stream);

struct conv_case {
    fxrt_conv2d_desc d;
    conv_kind kind;
    bool bias, residual, in_place;
    int shift;  /* elements by which x and y begin past an aligned place */
    bool fours; /* all strides are multiples of four */
    enum { NOTHING, PRE, POST } more = NOTHING; /* of max(0, x scale + shift); act(sum + b) gain + r */
    bool scale = true, shift_x = true;          /* which of them conv2d_pre is given */
};
static const float *case_scale, *case_shift, *case_gain; /* on the device, of the case at hand */
static std::vector<float> result; /* of the last run */
static int cases, by_fours, splits; /* run; of these whose x and w allow 16 bytes; whose sums are split */

/* From PyTorch's order, which conv_reference reads, to the kernels'. */
static std::vector<float> unpacked(const conv_case &c, const std::vector<float> &w) {
    const fxrt_conv2d_desc &d = c.d;
    const int taps = d.kh * d.kw;
    std::vector<float> to(w.size());
    for (int g = 0; g < d.groups; g++) {
        for (int o = 0; o < d.oc; o++) {
            for (int i = 0; i < d.ic; i++) {
                for (int tap = 0; tap < taps; tap++) {
                    const int from = c.kind == TRANSPOSED ? ((g * d.ic + i) * d.oc + o) * taps + tap : ((g * d.oc + o) * d.ic + i) * taps + tap;
                    const int at = c.kind == DEPTHWISE ? tap * d.groups + g : ((g * d.oc + o) * taps + tap) * d.ic + i;
                    to[static_cast<size_t>(at)] = w[static_cast<size_t>(from)];
                }
            }
        }
    }
    return to;
}

/* Whether y is what it should be, and nothing outside the result was written; says what is not. */
static bool right(const conv_case &c, const wanted &want, const std::vector<float> &y, bool tell) {
    for (size_t i = 0; i < want.value.size(); i++) {
        const double got = static_cast<double>(y[static_cast<size_t>(c.shift) + i]), expected = want.value[i];
        if (!(isnan(expected) ? isnan(got) : got == expected || fabs(got - expected) <= 2e-5 * fmax(1.0, fabs(expected)))) {
            const fxrt_conv2d_desc &d = c.d;
            if (tell) {
                fprintf(stderr,
                        "kind %d n%d %dx%dx%d -> %dx%dx%d groups %d k %dx%d s %d,%d p %d,%d d %d,%d act %d b%d r%d%s shift %d: "
                        "more %d element %zu: expected %.9g, got %.9g\n",
                        c.kind, d.n, d.ih, d.iw, d.ic, d.oh, d.ow, d.oc, d.groups, d.kh, d.kw, d.sh, d.sw, d.ph, d.pw, d.dh, d.dw, d.act,
                        c.bias, c.residual, c.in_place ? " in place" : "", c.shift, c.more, i, expected, got);
            }
            return false;
        }
    }
    return true;
}

static bool run(conv_fn *f, conv_case c, bool tell = true) {
    fxrt_conv2d_desc &d = c.d;
    const int xc = d.groups * d.ic, yc = d.groups * d.oc;
    size_t x_size, y_size, r_size;
    do {
        x_size = random_strides(d.n, d.ih, d.iw, xc, &d.xs_n, &d.xs_h, &d.xs_w);
        y_size = random_strides(d.n, d.oh, d.ow, yc, &d.ys_n, &d.ys_h, &d.ys_w);
        r_size = random_strides(d.n, d.oh, d.ow, yc, &d.rs_n, &d.rs_h, &d.rs_w);
    } while (c.fours && !fxrt_cuda_fours(d.xs_n, d.xs_h, d.xs_w, d.ys_n, d.ys_h, d.ys_w, d.rs_n, d.rs_h, d.rs_w));
    if (c.in_place) {
        d.rs_n = d.ys_n;
        d.rs_h = d.ys_h;
        d.rs_w = d.ys_w;
        r_size = y_size;
    }
    const size_t shift = static_cast<size_t>(c.shift);
    const std::vector<float> x = random_image<float>(d.n, d.ih, d.iw, xc, d.xs_n, d.xs_h, d.xs_w, x_size);
    const std::vector<float> r = random_image<float>(d.n, d.oh, d.ow, yc, d.rs_n, d.rs_h, d.rs_w, r_size);
    const std::vector<float> b = random_values<float>(static_cast<size_t>(yc), 1.0f);
    const float scale = 2.0f / sqrtf(static_cast<float>(d.ic * d.kh * d.kw)); /* results of about 1: the rounding of long sums stays small */
    const std::vector<float> w = random_values<float>(static_cast<size_t>(yc * d.ic * d.kh * d.kw), scale);
    const bool pre = c.more == conv_case::PRE, post = c.more == conv_case::POST;
    const std::vector<float> scales = pre && c.scale ? random_values<float>(static_cast<size_t>(xc), 2.0f) : std::vector<float>(static_cast<size_t>(xc), 1.0f);
    const std::vector<float> shifts = pre && c.shift_x ? random_values<float>(static_cast<size_t>(xc), 1.0f) : std::vector<float>(static_cast<size_t>(xc), 0.0f);
    const std::vector<float> gains = random_values<float>(static_cast<size_t>(yc), 2.0f);
    std::vector<float> read = x;
    for (int at = 0; pre && at < d.n * d.ih * d.iw * xc; at++) {
        const int pixel = at / xc, row = pixel / d.iw;
        float &v = read[static_cast<size_t>(row / d.ih * d.xs_n + row % d.ih * d.xs_h + pixel % d.iw * d.xs_w + at % xc)];
        v = fmaxf(0.0f, v * scales[static_cast<size_t>(at % xc)] + shifts[static_cast<size_t>(at % xc)]);
    }
    wanted want(y_size);
    conv_reference(&d, c.kind == TRANSPOSED, read.data(), w.data(), c.bias ? b.data() : nullptr, c.residual && !post ? r.data() : nullptr, set_wanted, &want);
    for (int at = 0; post && at < d.n * d.oh * d.ow * yc; at++) {
        const int pixel = at / yc, column = pixel % d.ow, row = pixel / d.ow % d.oh, image = pixel / d.ow / d.oh;
        double &v = want.value[static_cast<size_t>(image * d.ys_n + row * d.ys_h + column * d.ys_w + at % yc)];
        v = v * static_cast<double>(gains[static_cast<size_t>(at % yc)]);
        v += c.residual ? static_cast<double>(r[static_cast<size_t>(image * d.rs_n + row * d.rs_h + column * d.rs_w + at % yc)]) : 0.0;
    }

    std::vector<float> x_shifted(shift, NAN), y_shifted(shift, NAN);
    x_shifted.insert(x_shifted.end(), x.begin(), x.end());
    if (c.in_place) {
        y_shifted.insert(y_shifted.end(), r.begin(), r.end());
    } else {
        y_shifted.resize(shift + y_size, NAN);
    }
    buffer<float> dx(x_shifted), dw(unpacked(c, w)), db(b), dr(r), dy(y_shifted), scale_at(scales), shift_at(shifts), gain_at(gains);
    case_scale = pre && c.scale ? scale_at.at : nullptr;
    case_shift = pre && c.shift_x ? shift_at.at : nullptr;
    case_gain = post ? gain_at.at : nullptr;
    const size_t split = fxrt_cuda_conv2d_workspace(&d) / sizeof(float);
    buffer<float> ws(std::vector<float>(split + 1, NAN));
    const std::vector<int> zeros(fxrt_cuda_conv2d_counters(&d) + 1, 0);
    buffer<int> counts(zeros);
    float *const y = dy.at + shift;
    const int neighbours = c.kind == DEPTHWISE ? d.groups : d.ic;
    by_fours += fxrt_cuda_aligned(dx.at + shift, nullptr) && fxrt_cuda_fours(neighbours, d.xs_n, d.xs_h, d.xs_w);
    splits += split > 0;
    cases++;
    const float *add = !c.residual ? nullptr : c.in_place ? y : dr.at;
    if (f(&d, dx.at + shift, dw.at, c.bias ? db.at : nullptr, add, y, split ? ws.at : nullptr, split ? counts.at : nullptr, nullptr) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess) {
        return false;
    }
    result = dy.get();
    return right(c, want, result, tell) && counts.get() == zeros;
}

/* fours: everything allows 16 bytes, as in most of a network. */
static conv_case random_case(conv_kind kind, bool fours) {
    conv_case c = {random_desc(kind), kind, random_int(0, 2) > 0, random_int(0, 1) != 0, false, fours ? 0 : random_int(0, 1), fours};
    if (fours) {
        c.d.ic = kind == DEPTHWISE ? 1 : (c.d.ic + 3) / 4 * 4;
        c.d.oc = kind == DEPTHWISE ? 1 : (c.d.oc + 3) / 4 * 4;
        c.d.groups = kind == DEPTHWISE ? (c.d.groups + 3) / 4 * 4 : c.d.groups;
    }
    c.in_place = c.residual && random_int(0, 1);
    return c;
}

template <class Tile, int Kind>
static cudaError_t with_tile(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y, float *,
                             int *, cudaStream_t stream) {
    return fxrt_cuda_conv_launch<Tile, Kind>(d, {1, nullptr, nullptr}, x, w, b, r, y, stream, case_scale, case_shift, case_gain);
}
static cudaError_t transposed(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y, float *ws, int *,
                              cudaStream_t stream) {
    return fxrt_cuda_conv_transpose2d(d, x, w, b, r, y, ws, stream);
}
static cudaError_t depthwise(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y, float *ws, int *,
                             cudaStream_t stream) {
    return fxrt_cuda_conv2d_dw(d, x, w, b, r, y, ws, stream);
}
static cudaError_t with_pre(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y, float *ws,
                            int *counts, cudaStream_t stream) {
    return fxrt_cuda_conv2d_pre(d, x, w, b, r, case_scale, case_shift, y, ws, counts, stream);
}
static cudaError_t with_post(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y, float *ws,
                             int *counts, cudaStream_t stream) {
    return fxrt_cuda_conv2d_post(d, x, w, b, r, case_gain, y, ws, counts, stream);
}

/* Races show under any schedule, and looking for them is slow. */
template <class F> static void schedules(const char *name, F test) {
#ifdef FXCU_RACES
    printf("%s\n", name);
    test();
#else
    each_schedule(name, test);
#endif
}

static void test_random(const char *name, conv_kind kind, std::initializer_list<conv_fn *> functions, int count,
                        decltype(conv_case::more) more = conv_case::NOTHING) {
    cases = by_fours = splits = 0;
    schedules(name, [=] {
        for (int i = 0; i < count; i++) {
            conv_case c = random_case(kind, i % 2 == 0);
            c.more = more;
            c.scale = i % 4 < 2;
            c.shift_x = i % 6 < 3;
            for (conv_fn *f : functions) {
                CHECK(run(f, c));
            }
        }
    });
    CHECK(2 * by_fours >= cases && by_fours < cases);
}

/* Each activation by itself, at full and at partial width, by both kinds of kernels; parameters as the CPU kernels' test has them. */
static void test_activations() {
    for (int act = 0; act < FXRT_ACT_COUNT; act++) {
        for (int oc = 13; oc <= 64; oc += 51) {
            fxrt_conv2d_desc d = square(1, 5, 6, oc, 1, 0, 1);
            d.act = act;
            d.act_a = act == FXRT_ACT_CLAMP ? -0.5f : 0.7f;
            d.act_b = 0.5f;
            CHECK(run(fxrt_cuda_conv2d, {d, CONV, true, false, false, 0, false}));
            d.groups = oc;
            d.ic = d.oc = 1;
            CHECK(run(depthwise, {d, DEPTHWISE, true, true, false, 0, false}));
        }
    }
}

/* What conv2d_pre pads is the result of scale, shift and ReLU: with x = 0, shift = 1 and weights of 1, sums count the taps inside the image. Were x
 * padded in front of them, each would count all nine. */
static void test_padding() {
    const int side = 4;
    for (int ic = 3; ic <= 4; ic++) { /* by one and by four channels */
        fxrt_conv2d_desc d = square(1, side, ic, 1, 3, 1, 1);
        d.xs_w = ic;
        d.xs_h = side * d.xs_w;
        d.xs_n = side * d.xs_h;
        d.ys_w = 1;
        d.ys_h = side;
        d.ys_n = side * side;
        const size_t channels = static_cast<size_t>(ic), pixels = static_cast<size_t>(side * side);
        buffer<float> x(std::vector<float>(pixels * channels, 0.0f)), w(std::vector<float>(9 * channels, 1.0f)), y(pixels), one(std::vector<float>(channels, 1.0f));
        CHECK_CUDA(fxrt_cuda_conv2d_pre(&d, x.at, w.at, nullptr, nullptr, one.at, one.at, y.at, nullptr, nullptr, nullptr));
        const std::vector<float> got = y.get();
        for (int at = 0; at < side * side; at++) {
            const int rows = at / side % (side - 1) == 0 ? 2 : 3, columns = at % side % (side - 1) == 0 ? 2 : 3;
            CHECK(got[static_cast<size_t>(at)] == static_cast<float>(rows * columns * ic));
        }
    }
}

/* A NaN comes out of every activation as a NaN: a fused tail hides no error. */
static void test_nan() {
    const std::vector<float> x(4, NAN), w(4, 1.0f);
    buffer<float> dx(x), dw(w), dy(4), one(std::vector<float>(1, 1.0f));
    for (int act = 0; act < FXRT_ACT_COUNT; act++) {
        fxrt_conv2d_desc d = square(1, 1, 1, 4, 1, 0, 1);
        d.xs_n = d.xs_h = d.xs_w = 1;
        d.ys_n = d.ys_h = d.ys_w = 4;
        d.act = act;
        d.act_a = 1.0f;
        d.act_b = 2.0f;
        dy.put(std::vector<float>(4, 0.0f));
        CHECK_CUDA(fxrt_cuda_conv2d(&d, dx.at, dw.at, nullptr, nullptr, dy.at, nullptr, nullptr, nullptr));
        for (float y : dy.get()) {
            CHECK(isnan(y));
        }
        dy.put(std::vector<float>(4, 0.0f));
        CHECK_CUDA(fxrt_cuda_conv2d_pre(&d, dx.at, dw.at, nullptr, nullptr, one.at, one.at, dy.at, nullptr, nullptr, nullptr));
        for (float y : dy.get()) {
            CHECK(isnan(y));
        }
    }
}

/* More than a tile in each direction, and the depth of networks: several images in a tile, a stem of three channels, a group's slice. */
static void test_blocks() {
    fxrt_conv2d_desc d = square(1, 12, 20, 70, 3, 1, 1);
    d.n = 2;
    d.act = FXRT_ACT_RELU;
    CHECK(run(fxrt_cuda_conv2d, {d, CONV, true, true, true, 0, false}));
    CHECK(run(with_tile<fxrt_cuda_conv_large, FXRT_CUDA_CONV_PLAIN>, {d, CONV, true, true, true, 0, false}));
    d = square(1, 23, 3, 16, 7, 3, 1);
    d.sh = d.sw = 2;
    d.oh = d.ow = 12;
    d.act = FXRT_ACT_SILU;
    CHECK(run(with_tile<fxrt_cuda_conv_large, FXRT_CUDA_CONV_PLAIN>, {d, CONV, true, false, false, 0, false}));
    d = square(1, 6, 4, 4, 3, 1, 1);
    d.groups = 8;
    CHECK(run(fxrt_cuda_conv2d, {d, CONV, true, false, false, 0, false}));
    d = square(1, 5, 1, 1, 7, 3, 1);
    d.groups = 300;
    CHECK(run(depthwise, {d, DEPTHWISE, true, false, false, 0, false}));
}

/* Long sums of few pixels are made in parts, and these added with the tail. */
static void test_split() {
    cases = splits = 0;
    const struct {
        int size, ic, oc, k, groups;
        bool residual, in_place;
        size_t tiles, parts;
    } all[] = {{4, 115, 5, 3, 1, true, false, 1, 2}, {6, 116, 40, 3, 1, true, true, 4, 2},
               {3, 62, 8, 5, 2, false, false, 2, 3}, {1, 515, 3, 2, 3, false, false, 3, 4}};
    for (const auto &one : all) {
        fxrt_conv2d_desc d = square(1, one.size, one.ic, one.oc, one.k, one.k / 2, 1);
        d.groups = one.groups;
        d.act = FXRT_ACT_GELU;
        CHECK(fxrt_cuda_conv2d_workspace(&d) == one.tiles * one.parts * 1024 * sizeof(float) && fxrt_cuda_conv2d_counters(&d) == one.tiles);
        CHECK(run(fxrt_cuda_conv2d, {d, CONV, true, one.residual, one.in_place, 0, false}));
        CHECK(run(fxrt_cuda_conv2d, {d, CONV, false, one.residual, one.in_place, 1, false}));
        CHECK(run(with_pre, {d, CONV, true, one.residual, one.in_place, 1, false, conv_case::PRE}));
        CHECK(run(with_post, {d, CONV, true, one.residual, one.in_place, 0, false, conv_case::POST}));
    }
    CHECK(splits == 16 && cases == 16);
    /* Few terms, or enough tiles, or nothing at all. */
    fxrt_conv2d_desc d = square(1, 7, 1023, 64, 1, 0, 1);
    CHECK(fxrt_cuda_conv2d_workspace(&d) == 0 && fxrt_cuda_conv2d_counters(&d) == 0);
    d = square(1, 28, 1024, 128, 1, 0, 1);
    CHECK(fxrt_cuda_conv2d_workspace(&d) == 0 && fxrt_cuda_conv2d_way(&d).tiles == 100);
    d = square(1, 7, 1024, 64, 1, 0, 1);
    CHECK(fxrt_cuda_conv2d_workspace(&d) == 2 * 4 * 1024 * sizeof(float));
    d = square(1, 7, 512, 512, 3, 1, 1); /* ResNet-18's last */
    CHECK(fxrt_cuda_conv2d_way(&d).tiles == 32 && fxrt_cuda_conv2d_way(&d).parts == 4);
    d.n = 0;
    CHECK(fxrt_cuda_conv2d_workspace(&d) == 0);
}

/* Parts are added in their order, whichever block is the last; without room for them, sums are made whole. */
static bool run_parts(bool room) {
    const uint64_t numbers_from = random_state;
    const conv_case c = {square(1, 4, 115, 5, 3, 1, 1), CONV, true, true, false, 0, false};
    conv_fn *const in_parts = fxrt_cuda_conv2d, *const whole = with_tile<fxrt_cuda_conv_sliced, FXRT_CUDA_CONV_PLAIN>;
    const bool good = run(room ? in_parts : whole, c, false);
    random_state = numbers_from;
    return good;
}
static bool parts_right() { return run_parts(true); }

static void test_same_bits() {
    CHECK(parts_right());
    const std::vector<float> first = result;
    schedules("the same bits", [&first] { CHECK(parts_right() && memcmp(first.data(), result.data(), first.size() * sizeof(float)) == 0); });
    CHECK(run_parts(false));
}

/* Large tiles are taken where there are many, small ones elsewhere; what nothing can make is refused, nothing at all is made at once. */
static void test_choice() {
    fxrt_conv2d_desc d = square(1, 181, 1, 33, 1, 0, 1);
    CHECK(181 * 181 > 128 * (FXRT_CUDA_CONV_LARGE_BLOCKS - 1));
#ifdef FXCU_HOST
    const auto tiles = [&d] {
        const uint64_t before = fxcu_get_counts().blocks;
        CHECK(run(fxrt_cuda_conv2d, {d, CONV, false, false, false, 0, false}));
        return static_cast<int>(fxcu_get_counts().blocks - before);
    };
    CHECK(tiles() == 256); /* of 128 x 64 */
    d = square(1, 9, 1, 33, 1, 0, 1);
    d.n = 3;
    CHECK(tiles() == 16); /* of 32 x 32 */
    d = square(1, 91, 1, 33, 1, 0, 1);
    CHECK(tiles() == 130); /* of 64 x 64 */
    d = square(1, 129, 1, 3, 1, 0, 1);
    CHECK(tiles() == 261); /* of 64 x 32 */
#endif
    buffer<float> none(4);
    d = square(1, 181, 1, 1, 1, 0, 1);
    d.ic = 0;
    CHECK(fxrt_cuda_conv2d(&d, none.at, none.at, nullptr, nullptr, none.at, nullptr, nullptr, nullptr) == cudaErrorInvalidValue);
    d.ic = 1;
    d.n = 1 << 17; /* more pixels than an int counts */
    CHECK(fxrt_cuda_conv2d(&d, none.at, none.at, nullptr, nullptr, none.at, nullptr, nullptr, nullptr) == cudaErrorInvalidValue);
    CHECK(fxrt_cuda_conv2d_dw(&d, none.at, none.at, nullptr, nullptr, none.at, nullptr, nullptr) == cudaErrorInvalidValue);
    d.n = 1;
    d.oc = 2; /* not a channel by itself */
    CHECK(fxrt_cuda_conv2d_dw(&d, none.at, none.at, nullptr, nullptr, none.at, nullptr, nullptr) == cudaErrorInvalidValue);
    d.oc = 1;
    d.n = 0;
    CHECK_CUDA(fxrt_cuda_conv2d(&d, none.at, none.at, nullptr, nullptr, none.at, nullptr, nullptr, nullptr));
    CHECK_CUDA(fxrt_cuda_conv_transpose2d(&d, none.at, none.at, nullptr, nullptr, none.at, nullptr, nullptr));
    CHECK_CUDA(fxrt_cuda_conv2d_dw(&d, none.at, none.at, nullptr, nullptr, none.at, nullptr, nullptr));
}

#ifdef FXCU_HOST
template <class Tile> static bool barriers_right() {
    const uint64_t numbers_from = random_state;
    const bool good = run(with_tile<Tile, FXRT_CUDA_CONV_PLAIN>, {square(1, 9, 12, 20, 3, 1, 1), CONV, true, false, false, 0, true}, false);
    random_state = numbers_from; /* the same for every schedule */
    return good;
}

/* A race, or shared memory that is read before it is written. */
static bool is_told(const char *message) { return strstr(message, "race") || strstr(message, "which no thread of this block has written"); }

/* The table of pixels, the first buffer, the next ones; of a sliced tile the last buffer, and the slices' sums. */
template <class Tile> static void test_missing(const char *name) { each_barrier_missing(name, Tile::slices > 1 ? 5 : 3, barriers_right<Tile>, is_told); }
#endif

enum { SOME = 12 };

int main() {
    test_random("conv2d", CONV, {fxrt_cuda_conv2d, with_tile<fxrt_cuda_conv_small, FXRT_CUDA_CONV_PLAIN>, with_tile<fxrt_cuda_conv_large, FXRT_CUDA_CONV_PLAIN>}, SOME);
    test_random("conv2d_pre", CONV, {with_pre, with_tile<fxrt_cuda_conv_small, FXRT_CUDA_CONV_PRE>, with_tile<fxrt_cuda_conv_large, FXRT_CUDA_CONV_PRE>}, SOME,
                conv_case::PRE);
    test_random("conv2d_post", CONV, {with_post, with_tile<fxrt_cuda_conv_small, FXRT_CUDA_CONV_PLAIN>, with_tile<fxrt_cuda_conv_large, FXRT_CUDA_CONV_PLAIN>}, SOME,
                conv_case::POST);
    test_random("conv_transpose2d", TRANSPOSED, {transposed, with_tile<fxrt_cuda_conv_small, FXRT_CUDA_CONV_TRANSPOSED>, with_tile<fxrt_cuda_conv_large, FXRT_CUDA_CONV_TRANSPOSED>}, SOME);
    test_random("conv2d_dw", DEPTHWISE, {depthwise}, 3 * SOME);
    schedules("activations", test_activations);
    schedules("padding", test_padding);
    schedules("blocks", test_blocks);
    schedules("split sums", test_split);
    test_same_bits();
    test_nan();
    test_choice();
#ifdef FXCU_HOST
    fxcu_reset();
    test_missing<fxrt_cuda_conv_narrow>("narrow tile");
    test_missing<fxrt_cuda_conv_small>("small tile");
    test_missing<fxrt_cuda_conv_large>("large tile");
    test_missing<fxrt_cuda_conv_sliced>("sliced tile");
#ifdef FXCU_RACES
    each_barrier_missing("parts", 9, parts_right, is_told); /* and two barriers and two fences of parts */
#endif
#endif
    return 0;
}
