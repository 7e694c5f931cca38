/* The gradient of a convolution's weight (runtime/cuda/conv2d_weight_grad.h) against a loop in double, over the random descriptors of the CPU kernels' test:
 * aligned and not, split sums, depthwise; each barrier taken away in turn.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "conv_values.h"

#ifdef FXCU_HOST
#define __syncthreads() barrier(__FILE__, __LINE__)
#endif
#include "../../runtime/cuda/vec.h"

#include "../../runtime/cuda/act.h"
#include "../../runtime/cuda/weight_grad_split.h"

#include "../../runtime/cuda/conv2d_weight_grad.h"
#ifdef FXCU_HOST
#undef __syncthreads
#endif

static int cases, by_fours, splits;

static wanted expect(const fxrt_conv2d_desc &d, const std::vector<float> &x, const std::vector<float> &g) {
    wanted want(static_cast<size_t>(fxrt_cuda_grad_elements(&d)));
    size_t at = 0;
    for (int kr = 0; kr < d.kh; kr++) {
        for (int kc = 0; kc < d.kw; kc++) {
            for (int i = 0; i < d.ic; i++) {
                for (int o = 0; o < d.groups * d.oc; o++) {
                    double sum = 0;
                    for (int pixel = 0; pixel < d.n * d.oh * d.ow; pixel++) {
                        const int n = pixel / d.ow / d.oh, oy = pixel / d.ow % d.oh, ox = pixel % d.ow;
                        const int iy = oy * d.sh - d.ph + kr * d.dh, ix = ox * d.sw - d.pw + kc * d.dw;
                        if (iy >= 0 && iy < d.ih && ix >= 0 && ix < d.iw) {
                            sum += number(x[static_cast<size_t>(n * d.xs_n + iy * d.xs_h + ix * d.xs_w + o / d.oc * d.ic + i)]) *
                                   number(g[static_cast<size_t>(n * d.ys_n + oy * d.ys_h + ox * d.ys_w + o)]);
                        }
                    }
                    want.value[at++] = sum;
                }
            }
        }
    }
    return want;
}

/* shift: elements by which x, g and y begin past an aligned place. */
static bool run(fxrt_conv2d_desc d, bool fours, size_t shift, bool with_workspace, bool tell = true) {
    const int xc = d.groups * d.ic, yc = d.groups * d.oc;
    size_t x_size, g_size;
    do {
        x_size = random_strides(d.n, d.ih, d.iw, xc, &d.xs_n, &d.xs_h, &d.xs_w);
        g_size = random_strides(d.n, d.oh, d.ow, yc, &d.ys_n, &d.ys_h, &d.ys_w);
    } while (fours && !fxrt_cuda_fours(d.xs_n, d.xs_h, d.xs_w, d.ys_n, d.ys_h, d.ys_w));
    const float scale = 2.0f / sqrtf(static_cast<float>(d.n * d.oh * d.ow)); /* results of about 1: the rounding of long sums stays small */
    const std::vector<float> x = random_image<float>(d.n, d.ih, d.iw, xc, d.xs_n, d.xs_h, d.xs_w, x_size);
    const std::vector<float> g = random_image<float>(d.n, d.oh, d.ow, yc, d.ys_n, d.ys_h, d.ys_w, g_size, scale);
    const wanted want = expect(d, x, g);
    std::vector<float> x_shifted = nothing<float>(shift), g_shifted = nothing<float>(shift);
    x_shifted.insert(x_shifted.end(), x.begin(), x.end());
    g_shifted.insert(g_shifted.end(), g.begin(), g.end());
    buffer<float> dx(x_shifted), dg(g_shifted), dy(nothing<float>(shift + want.value.size()));
    const size_t split = with_workspace ? fxrt_cuda_conv2d_weight_grad_workspace(&d) / sizeof(float) : 0;
    buffer<float> ws(nothing<float>(split + 1));
    cases++;
    splits += split > 0;
    by_fours += fxrt_cuda_aligned(dx.at + shift, dg.at + shift) && fxrt_cuda_fours(d.ic, d.oc, d.xs_n, d.xs_h, d.xs_w, d.ys_n, d.ys_h, d.ys_w);
    const cudaError_t error = split ? fxrt_cuda_conv2d_weight_grad_split(&d, dx.at + shift, dg.at + shift, dy.at + shift, ws.at, nullptr)
                                    : fxrt_cuda_conv2d_weight_grad(&d, dx.at + shift, dg.at + shift, dy.at + shift, nullptr);
    if (error != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) {
        return false;
    }
    const std::vector<float> y = dy.get();
    char what[200];
    snprintf(what, sizeof what, "n%d %dx%dx%d -> %dx%dx%d groups %d k %dx%d s %d,%d p %d,%d d %d,%d shift %zu", d.n, d.ih, d.iw, d.ic, d.oh, d.ow, d.oc,
             d.groups, d.kh, d.kw, d.sh, d.sw, d.ph, d.pw, d.dh, d.dw, shift);
    for (size_t i = 0; i < shift; i++) {
        CHECK(isnan(y[i]));
    }
    return want.right(std::vector<float>(y.begin() + static_cast<ptrdiff_t>(shift), y.end()), 2e-5, tell ? what : nullptr);
}

static void test_random() {
    cases = by_fours = 0;
    for (int i = 0; i < 36; i++) {
        const conv_kind kind = i % 3 == 2 ? DEPTHWISE : CONV;
        fxrt_conv2d_desc d = random_desc(kind);
        const bool fours = i % 2 == 0 && kind == CONV;
        d.ic = fours ? (d.ic + 3) / 4 * 4 : d.ic;
        d.oc = fours ? (d.oc + 3) / 4 * 4 : d.oc;
        CHECK(run(d, fours, fours ? 0 : static_cast<size_t>(random_int(0, 1)), true));
    }
    CHECK(by_fours >= 12 && by_fours < cases);
}

/* More than a tile in each direction, many pixels (in parts and not), groups, images of one pixel. */
static void test_blocks() {
    splits = cases = 0;
    const fxrt_conv2d_desc all[] = {square(2, 17, 12, 20, 3, 1, 1), square(1, 25, 3, 70, 1, 0, 2), square(3, 16, 1, 1, 3, 1, 40), square(530, 1, 4, 8, 1, 0, 1)};
    for (const fxrt_conv2d_desc &d : all) {
        CHECK(fxrt_cuda_grad_parts(&d) > 1);
        CHECK(run(d, d.ic % 4 == 0, 0, true) && run(d, false, 1, false));
    }
    CHECK(splits == 4 && cases == 8);
    /* Few pixels, or enough blocks. */
    fxrt_conv2d_desc d = square(1, 22, 512, 512, 3, 1, 1);
    CHECK(fxrt_cuda_conv2d_weight_grad_workspace(&d) == 0);
    d = square(8, 64, 512, 512, 3, 1, 1);
    CHECK(fxrt_cuda_conv2d_weight_grad_workspace(&d) == 0);
    d = square(32, 56, 64, 64, 3, 1, 1);
    CHECK(fxrt_cuda_conv2d_weight_grad_workspace(&d) == 56 * 9 * 64 * 64 * sizeof(float));
}

/* Of no pixels the gradient is zero; one of no elements is nothing; too many pixels are refused. */
static void test_ends() {
    buffer<float> x(4), y(std::vector<float>(36, 1.0f));
    fxrt_conv2d_desc d = square(0, 3, 2, 2, 3, 1, 1);
    CHECK_CUDA(fxrt_cuda_conv2d_weight_grad(&d, x.at, x.at, y.at, nullptr));
    CHECK_CUDA(cudaDeviceSynchronize());
    for (float f : y.get()) {
        CHECK(f == 0.0f);
    }
    d.n = 1;
    d.oc = 0;
    CHECK_CUDA(fxrt_cuda_conv2d_weight_grad(&d, x.at, x.at, y.at, nullptr));
    d = square(1 << 17, 181, 1, 2, 1, 0, 1);
    CHECK(fxrt_cuda_conv2d_weight_grad(&d, x.at, x.at, y.at, nullptr) == cudaErrorInvalidValue);
}

#ifdef FXCU_HOST
static bool again(const fxrt_conv2d_desc &d) {
    const uint64_t numbers_from = random_state;
    const bool good = run(d, false, 0, true, !missing_barrier.file);
    random_state = numbers_from; /* the same for every schedule */
    return good;
}
#endif

int main() {
#ifdef FXCU_RACES
    test_random();
    test_blocks();
#else
    each_schedule("random", test_random);
    each_schedule("blocks", test_blocks);
#endif
    test_ends();
#ifdef FXCU_HOST
    each_barrier_missing("a tile", 2, [] { return again(square(1, 7, 5, 20, 3, 1, 1)); });
    each_barrier_missing("depthwise", 1, [] { return again(square(1, 7, 1, 1, 3, 1, 20)); });
#endif
    return 0;
}
