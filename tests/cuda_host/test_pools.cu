/* runtime/cuda/pool2d.h and resize2d.h against the CPU's kernels.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "cpu_kernels.h"

#include "../../runtime/pool2d.h"

#include "../../runtime/adaptive_pool2d.h"

#include "../../runtime/upsample2d.h"

#include "../../runtime/cuda/pool2d.h"

#include "../../runtime/cuda/resize2d.h"

/* Strides of pixels, rows and images, with gaps by chance, of four elements where `by` is 4; how many elements they span. */
static size_t strides(chance *c, int by, int n, int h, int w, int channels, int32_t *s_n, int32_t *s_h, int32_t *s_w) {
    *s_w = channels + by * c->between(0, 4 / by);
    *s_h = *s_w * w + by * c->between(0, 4 / by);
    *s_n = *s_h * h + by * c->between(0, 4 / by);
    return static_cast<size_t>((n - 1) * *s_n + (h - 1) * *s_h + (w - 1) * *s_w + channels);
}

template <class D> using cpu_kernel = void (*)(const D *, const float *, float *);
template <class D> using cuda_kernel = cudaError_t (*)(const D *, const float *, float *, cudaStream_t);

/* Both kernels from the same input; what is not part of the output stays NaN. */
template <class D>
static void compare(const D &d, cpu_kernel<D> cpu, cuda_kernel<D> cuda, const std::vector<float> &in, size_t y_size, size_t off, double tolerance,
                    const char *what) {
    std::vector<float> want(y_size, NAN);
    const shifted x(in, off), y(want, off);
    cpu(&d, in.data(), want.data());
    CHECK_CUDA(cuda(&d, x.at(), y.at(), nullptr));
    check_near(y.get(), want, tolerance, what);
}

/* A pool of an image drawn by chance; `specials`: with a NaN or an infinity. */
static void pool_one(fxrt_pool2d_desc d, bool max, bool ceil_mode, bool specials, int by, chance *c) {
    const auto outputs = [&](int in, int pad, int k, int dilation, int stride) { /* PyTorch's: no window starts beyond the padded start plus the input */
        const int o = (in + 2 * pad - dilation * (k - 1) - 1 + (ceil_mode ? stride - 1 : 0)) / stride + 1;
        return o - (ceil_mode && (o - 1) * stride >= in + pad);
    };
    if (d.ih + 2 * d.ph < (d.kh - 1) * d.dh + 1 || d.iw + 2 * d.pw < (d.kw - 1) * d.dw + 1) {
        return;
    }
    d.oh = outputs(d.ih, d.ph, d.kh, d.dh, d.sh);
    d.ow = outputs(d.iw, d.pw, d.kw, d.dw, d.sw);
    std::vector<float> in = c->numbers(strides(c, by, d.n, d.ih, d.iw, d.c, &d.xs_n, &d.xs_h, &d.xs_w));
    const size_t y_size = strides(c, by, d.n, d.oh, d.ow, d.c, &d.ys_n, &d.ys_h, &d.ys_w);
    if (specials) {
        in[static_cast<size_t>(c->between(0, static_cast<int>(in.size()) - 1))] = NAN;
        in[static_cast<size_t>(c->between(0, static_cast<int>(in.size()) - 1))] = c->one_of(2) ? INFINITY : -INFINITY;
    }
    char what[200];
    snprintf(what, sizeof what, "%s %dx%dx%d -> %dx%d k %d,%d s %d,%d p %d,%d d %d,%d count %d divisor %d", max ? "max" : "avg", d.ih, d.iw, d.c,
             d.oh, d.ow, d.kh, d.kw, d.sh, d.sw, d.ph, d.pw, d.dh, d.dw, d.count_include_pad, d.divisor);
    const size_t off = by == 4 ? 0 : static_cast<size_t>(c->between(0, 1));
    compare<fxrt_pool2d_desc>(d, max ? fxrt_max_pool2d : fxrt_avg_pool2d, max ? fxrt_cuda_max_pool2d<float> : fxrt_cuda_avg_pool2d<float>, in, y_size, off,
                              max ? 0 : 1e-6, what);
}

static void test_pools() {
    chance c;
    for (int round = 0; round < 100; round++) {
        const bool max = c.one_of(2);
        const int by = c.one_of(2) ? 4 : 1;
        fxrt_pool2d_desc d = {};
        d.n = c.between(1, 2);
        d.ih = c.between(1, 12);
        d.iw = c.between(1, 12);
        d.c = by == 4 ? 4 * c.between(1, 9) : c.between(1, 35);
        d.kh = c.between(1, 4);
        d.kw = c.between(1, 4);
        d.sh = c.between(1, 3);
        d.sw = c.between(1, 3);
        d.dh = max ? c.between(1, 2) : 1;
        d.dw = max ? c.between(1, 2) : 1;
        d.ph = c.between(0, d.kh / 2);
        d.pw = c.between(0, d.kw / 2);
        d.count_include_pad = c.between(0, 1);
        d.divisor = c.one_of(4) ? c.between(1, 5) : 0;
        pool_one(d, max, c.one_of(2), c.one_of(4), by, &c);
    }
}

/* Windows that a block takes; more channels than a block has lanes. */
static void test_large_windows() {
    chance c;
    for (int round = 0; round < 24; round++) {
        const int by = round % 2 ? 4 : 1;
        fxrt_pool2d_desc d = {};
        d.n = c.between(1, 3);
        d.ih = c.between(7, 12);
        d.iw = c.between(7, 12);
        d.c = by == 4 ? 4 * c.between(1, 40) : c.between(1, 70);
        d.kh = c.between(5, 7);
        d.kw = 7;
        d.sh = c.between(1, 7);
        d.sw = c.between(1, 7);
        d.dh = d.dw = 1;
        d.ph = c.between(0, 2);
        d.pw = c.between(0, 3);
        d.count_include_pad = c.between(0, 1);
        pool_one(d, round % 4 < 2, c.one_of(2), c.one_of(4), by, &c);
    }
}

struct resize_kind {
    const char *name;
    cpu_kernel<fxrt_resize2d_desc> cpu;
    cuda_kernel<fxrt_resize2d_desc> cuda;
    double tolerance; /* 0: the same bits */
};
static const resize_kind resize_kinds[] = {
    {"adaptive_avg_pool2d", fxrt_adaptive_avg_pool2d, fxrt_cuda_adaptive_avg_pool2d, 1e-6},
    {"adaptive_max_pool2d", fxrt_adaptive_max_pool2d, fxrt_cuda_adaptive_max_pool2d, 0},
    {"upsample_nearest2d", fxrt_upsample_nearest2d, fxrt_cuda_upsample_nearest2d, 0},
    {"upsample_bilinear2d", fxrt_upsample_bilinear2d, fxrt_cuda_upsample_bilinear2d, 1e-6},
};

static void resize_one(const resize_kind &kind, fxrt_resize2d_desc d, int by, bool special, chance *c) {
    std::vector<float> in = c->numbers(strides(c, by, d.n, d.ih, d.iw, d.c, &d.xs_n, &d.xs_h, &d.xs_w));
    const size_t y_size = strides(c, by, d.n, d.oh, d.ow, d.c, &d.ys_n, &d.ys_h, &d.ys_w);
    if (special) {
        in[static_cast<size_t>(c->between(0, static_cast<int>(in.size()) - 1))] = NAN;
    }
    char what[160];
    snprintf(what, sizeof what, "%s %dx%dx%d -> %dx%d align %d", kind.name, d.ih, d.iw, d.c, d.oh, d.ow, d.align_corners);
    compare<fxrt_resize2d_desc>(d, kind.cpu, kind.cuda, in, y_size, by == 4 ? 0 : static_cast<size_t>(c->between(0, 1)), kind.tolerance, what);
}

static void test_resize() {
    chance c;
    for (int round = 0; round < 120; round++) {
        const resize_kind &kind = resize_kinds[round % 4];
        const int by = c.one_of(2) ? 4 : 1;
        fxrt_resize2d_desc d = {};
        d.n = c.between(1, 2);
        d.ih = c.between(1, 12);
        d.iw = c.between(1, 12);
        d.c = by == 4 ? 4 * c.between(1, 9) : c.between(1, 35);
        d.oh = c.between(1, 14);
        d.ow = c.between(1, 14);
        if (c.one_of(4)) {
            d.oh = d.ow = 1;
        }
        if (c.one_of(4)) {
            d.oh = 2 * d.ih;
            d.ow = 2 * d.iw;
        }
        d.align_corners = c.between(0, 1);
        if (d.align_corners) {
            d.scale_h = d.oh > 1 ? static_cast<float>(d.ih - 1) / static_cast<float>(d.oh - 1) : 0;
            d.scale_w = d.ow > 1 ? static_cast<float>(d.iw - 1) / static_cast<float>(d.ow - 1) : 0;
        } else {
            d.scale_h = static_cast<float>(d.ih) / static_cast<float>(d.oh);
            d.scale_w = static_cast<float>(d.iw) / static_cast<float>(d.ow);
        }
        resize_one(kind, d, by, c.one_of(4), &c);
    }
}

/* Global pools, and no images at all. */
static void test_global() {
    chance c;
    for (const int channels : {1, 30, 128, 132}) {
        for (const resize_kind &kind : {resize_kinds[0], resize_kinds[1]}) {
            fxrt_resize2d_desc d = {};
            d.n = 2;
            d.ih = 7;
            d.iw = channels == 30 ? 29 : 7;
            d.oh = d.ow = 1;
            d.c = channels;
            resize_one(kind, d, channels % 4 ? 1 : 4, channels == 132, &c);
            d.n = 0;
            CHECK_CUDA(kind.cuda(&d, nullptr, nullptr, nullptr));
        }
    }
}

/* More images than a grid has blocks in y, so that some blocks take two. */
static void test_many_images() {
    chance c;
    for (const int size : {1, 6}) { /* windows of a thread, of a block */
        fxrt_resize2d_desc many = {};
        many.n = 65540;
        many.ih = many.iw = size;
        many.oh = many.ow = many.c = 1;
        many.xs_w = many.ys_n = many.ys_h = many.ys_w = 1;
        many.xs_h = size;
        many.xs_n = size * size;
        const std::vector<float> in = c.numbers(static_cast<size_t>(many.n * many.xs_n));
        for (const resize_kind &kind : resize_kinds) {
            if (size == 1 || kind.cuda == fxrt_cuda_adaptive_max_pool2d<float>) {
                compare(many, kind.cpu, kind.cuda, in, static_cast<size_t>(many.n), 0, 0, kind.name);
            }
        }
    }
}

int main() {
    each_schedule("pools", test_pools);
    each_schedule("pools of large windows", test_large_windows);
    each_schedule("adaptive pools and resampling", test_resize);
    each_schedule("global pools", test_global);
#ifdef FXCU_HOST
    fxcu_set_schedule(FXCU_WARP_REVERSE, 1);
#endif
    test_many_images();
    return 0;
}
