/* Kernels of runtime/cuda in 16-bit types (rows, pools, resampling, depthwise and transposed convolution) against the same ones of floats, which other tests
 * compare with the CPU's: from the same numbers, results differ by one rounding.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "conv_values.h"

#include "../../runtime/cuda/vec.h"

#include "../../runtime/cuda/act.h"
#include "../../runtime/cuda/reduce.h"

#include "../../runtime/cuda/conv_points.h"
#include "../../runtime/cuda/conv_split.h"
#include "../../runtime/cuda/pool2d.h"
#include "../../runtime/cuda/resize2d.h"
#include "../../runtime/cuda/rows.h"

#include "../../runtime/cuda/conv_tile.h"

#include "../../runtime/cuda/conv2d_dw.h"
#include "../../runtime/cuda/conv_transpose2d.h"

/* Whether f(x, w, b, y), run on T and on floats of the same values, gives the same but for the rounding of the results; what is not written stays. x and y
 * begin `shift` elements past an aligned place. In place: y is x. */
template <class T, class F> static bool same(const std::vector<T> &x, const std::vector<T> &w, const std::vector<T> &b, size_t results, size_t shift, bool in_place, F f) {
    const auto run = [&](const auto &x_values, const auto &w_values, const auto &b_values) {
        using V = typename std::decay<decltype(x_values)>::type;
        using E = typename V::value_type;
        V x_shifted = nothing<E>(shift), y_shifted = nothing<E>(shift + results);
        x_shifted.insert(x_shifted.end(), x_values.begin(), x_values.end());
        const buffer<E> dx(x_shifted), dw(w_values), db(b_values), dy(y_shifted);
        E *const from = dx.at + shift, *const to = in_place ? from : dy.at + shift;
        CHECK_CUDA(f(static_cast<const E *>(from), static_cast<const E *>(dw.at), static_cast<const E *>(db.at), to));
        CHECK_CUDA(cudaDeviceSynchronize());
        return as_floats((in_place ? dx : dy).get());
    };
    const std::vector<float> got = run(x, w, b), want = run(as_floats(x), as_floats(w), as_floats(b));
    for (size_t i = 0; i < want.size(); i++) {
        const float rounded = static_cast<float>(static_cast<T>(want[i])); /* the compiler may add in another order: then the neighbour */
        const double step = tolerance_of<T> * fmax(1e-4, fabs(static_cast<double>(want[i])));
        if (isnan(want[i]) ? !isnan(got[i]) : !(got[i] == rounded || fabs(static_cast<double>(got[i] - want[i])) <= step)) {
            fprintf(stderr, "element %zu: expected %.9g, got %.9g\n", i, static_cast<double>(want[i]), static_cast<double>(got[i]));
            return false;
        }
    }
    return true;
}

template <class T> static void test_rows() {
    for (const int n : {1, 37, 256, 300, 1024, 1500, 4100}) { /* each kind of kernel, aligned and not */
        const int rows = 3, pitch = n + 4;
        const std::vector<T> x = random_values<T>(static_cast<size_t>(rows * pitch), 3.0f), w = random_values<T>(static_cast<size_t>(n), 1.0f),
                             b = random_values<T>(static_cast<size_t>(n), 1.0f);
        const fxrt_layer_norm_desc d = {rows, n, pitch, pitch, 1e-5f};
        const fxrt_softmax_desc s = {rows, n, 1, 0};
        const std::vector<T> dense(x.begin(), x.begin() + rows * n);
        const size_t shift = n % 4 == 0 && random_int(0, 1), size = static_cast<size_t>((rows - 1) * pitch + n);
        const std::vector<T> gaps(x.begin(), x.begin() + static_cast<ptrdiff_t>(size));
        const bool in_place = random_int(0, 1);
        CHECK(same(gaps, w, b, size, shift, in_place, [&](auto x_at, auto w_at, auto b_at, auto y_at) { return fxrt_cuda_layer_norm(&d, x_at, w_at, b_at, y_at, nullptr); }));
        CHECK(same(gaps, w, b, size, shift, false, [&](auto x_at, auto, auto b_at, auto y_at) { return fxrt_cuda_layer_norm(&d, x_at, nullptr, b_at, y_at, nullptr); }));
        CHECK(same(gaps, w, b, size, shift, in_place, [&](auto x_at, auto w_at, auto, auto y_at) { return fxrt_cuda_rms_norm(&d, x_at, w_at, y_at, nullptr); }));
        CHECK(same(dense, w, b, dense.size(), shift, in_place, [&](auto x_at, auto, auto, auto y_at) { return fxrt_cuda_softmax(&s, x_at, y_at, nullptr); }));
        CHECK(same(dense, w, b, dense.size(), shift, in_place, [&](auto x_at, auto, auto, auto y_at) { return fxrt_cuda_log_softmax(&s, x_at, y_at, nullptr); }));
    }
    const fxrt_softmax_desc middle = {2, 19, 35, 0};
    const fxrt_group_norm_desc groups = {2, 21, 12, 3, 21 * 12, 12, 21 * 12, 12, 1e-5f};
    const std::vector<T> x = random_values<T>(2 * 19 * 35, 3.0f), image = random_values<T>(2 * 21 * 12, 1.0f), w = random_values<T>(12, 1.0f);
    CHECK(same(x, w, w, x.size(), 0, true, [&](auto x_at, auto, auto, auto y_at) { return fxrt_cuda_softmax(&middle, x_at, y_at, nullptr); }));
    CHECK(same(image, w, w, image.size(), 0, false, [&](auto x_at, auto w_at, auto b_at, auto y_at) { return fxrt_cuda_group_norm(&groups, x_at, w_at, b_at, y_at, nullptr); }));
}

template <class T> static void test_pools() {
    for (int i = 0; i < 12; i++) {
        const bool fours = i % 2, large = i % 3 == 0; /* a window of 49: a block's */
        const int c = fours ? 4 * random_int(1, 9) : random_int(1, 35), size = large ? 9 : random_int(3, 7), out = large ? 3 : size - 1, k = large ? 7 : 2;
        const fxrt_pool2d_desc p = {2, size, size, c, out, out, k, k, 1, 1, 0, 0, 1, 1, size * size * c, size * c, c, out * out * c, out * c, c, 1, 0, 0};
        const fxrt_resize2d_desc r = {2, size, size, c, 3, 4, size * size * c, size * c, c, 12 * c, 4 * c, c, 0, static_cast<float>(size) / 3, static_cast<float>(size) / 4};
        const std::vector<T> x = random_values<T>(static_cast<size_t>(2 * size * size * c), 2.0f), no(1);
        const size_t pooled = static_cast<size_t>(2 * out * out * c), resized = static_cast<size_t>(24 * c), shift = static_cast<size_t>(i % 4 == 0);
        CHECK(same(x, no, no, pooled, shift, false, [&](auto x_at, auto, auto, auto y_at) { return fxrt_cuda_max_pool2d(&p, x_at, y_at, nullptr); }));
        CHECK(same(x, no, no, pooled, shift, false, [&](auto x_at, auto, auto, auto y_at) { return fxrt_cuda_avg_pool2d(&p, x_at, y_at, nullptr); }));
        CHECK(same(x, no, no, resized, shift, false, [&](auto x_at, auto, auto, auto y_at) { return fxrt_cuda_adaptive_max_pool2d(&r, x_at, y_at, nullptr); }));
        CHECK(same(x, no, no, resized, shift, false, [&](auto x_at, auto, auto, auto y_at) { return fxrt_cuda_adaptive_avg_pool2d(&r, x_at, y_at, nullptr); }));
        CHECK(same(x, no, no, resized, shift, false, [&](auto x_at, auto, auto, auto y_at) { return fxrt_cuda_upsample_nearest2d(&r, x_at, y_at, nullptr); }));
        CHECK(same(x, no, no, resized, shift, false, [&](auto x_at, auto, auto, auto y_at) { return fxrt_cuda_upsample_bilinear2d(&r, x_at, y_at, nullptr); }));
    }
}

/* By the kinds of conv_cases.h; w needs no order here, as both take the same. */
template <class T> static void test_convs() {
    for (int i = 0; i < 16; i++) {
        const conv_kind kind = i % 2 ? DEPTHWISE : TRANSPOSED;
        fxrt_conv2d_desc d = random_desc(kind);
        d.act_b = d.act == FXRT_ACT_SOFTPLUS ? 20 : d.act_b; /* a step that rounding cannot cross */
        const bool fours = i % 4 < 2, bias = random_int(0, 1);
        (kind == DEPTHWISE ? d.groups : d.ic) += fours ? 3 : 0;
        (kind == DEPTHWISE ? d.groups : d.ic) &= fours ? ~3 : ~0;
        d.oc = kind == TRANSPOSED && fours ? (d.oc + 3) & ~3 : d.oc;
        const conv_operands<T> o = draw_conv<T>(d, bias, false, false, fours ? 4 : 1);
        CHECK(same(o.x, o.w, o.b, o.y_size, fours ? 0 : 1, false, [&](auto x, auto w, auto b, auto y) {
            return kind == DEPTHWISE ? fxrt_cuda_conv2d_dw(&o.d, x, w, bias ? b : nullptr, nullptr, y, nullptr, nullptr)
                                     : fxrt_cuda_conv_transpose2d(&o.d, x, w, bias ? b : nullptr, nullptr, y, nullptr, nullptr);
        }));
    }
}

int main() {
    /* One of the types each: the kernels are the same, and each type makes some 50 more of them to compile. */
    each_launch("rows", test_rows<__half>);
    each_launch("pools", test_pools<__half>);
    each_launch("convolutions", test_convs<__nv_bfloat16>);
    return 0;
}
