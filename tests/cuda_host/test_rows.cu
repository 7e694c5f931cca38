/* runtime/cuda/reduce.h along its tree, bit for bit; softmax and norms (rows.h) against the CPU's kernels.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "cpu_kernels.h"

#include "../../runtime/softmax.h"

#include "../../runtime/layer_norm.h"

#include "../../runtime/group_norm.h"

#include "../../runtime/cuda/rows.h"

/* ---- reductions ---------------------------------------------------------------------------------------------------------------------- */

template <class Op, class T> static __global__ void reduce_both(const T *in, T *of_warps, T *of_block) {
    const unsigned i = threadIdx.x;
    of_warps[i] = fxrt_cuda_warp(Op(), in[i]);
    of_block[i] = fxrt_cuda_block(Op(), in[i]);
}

/* The halves of n values combined element by element, until one is left. */
template <class Op, class T> static T tree(std::vector<T> v) {
    for (size_t half = v.size() / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++) {
            v[i] = Op()(v[i], v[i + half]);
        }
    }
    return v[0];
}
template <class T> static bool same_bits(T a, T b) { return memcmp(&a, &b, sizeof a) == 0; }

template <class Op, class T> static void reduce_one(const std::vector<T> &in) {
    const buffer<T> from(in), warps(in.size()), block(in.size());
    CHECK_CUDA(FXCC_LAUNCH((reduce_both<Op, T>), 1, static_cast<unsigned>(in.size()), 0, nullptr, from.at, warps.at, block.at));
    const std::vector<T> of_warps = warps.get(), of_block = block.get();
    std::vector<T> parts;
    for (size_t i = 0; i < in.size(); i += 32) {
        parts.push_back(tree<Op>(std::vector<T>(in.begin() + static_cast<ptrdiff_t>(i), in.begin() + static_cast<ptrdiff_t>(i) + 32)));
    }
    const T whole = tree<Op>(parts);
    for (size_t i = 0; i < in.size(); i++) {
        CHECK(same_bits(of_warps[i], parts[i / 32]));
        CHECK(same_bits(of_block[i], whole));
    }
}
template <class T> static void reduce_all(const std::vector<T> &in) {
    reduce_one<fxrt_cuda_add>(in);
    reduce_one<fxrt_cuda_mul>(in);
    reduce_one<fxrt_cuda_max>(in);
    reduce_one<fxrt_cuda_min>(in);
}

template <class T> static void reduce_bits(const std::vector<T> &in) {
    reduce_one<fxrt_cuda_and>(in);
    reduce_one<fxrt_cuda_or>(in);
}

static void test_reduce() {
    chance c;
    for (size_t threads = 32; threads <= 1024; threads *= 2) {
        std::vector<float> floats(threads);
        std::vector<double> doubles(threads);
        std::vector<int> ints(threads);
        std::vector<unsigned long long> longs(threads);
        std::vector<int64_t> signed_longs(threads);
        std::vector<uint8_t> bytes(threads), bools(threads);
        for (size_t i = 0; i < threads; i++) {
            floats[i] = c.number();
            doubles[i] = static_cast<double>(c.number()) * 1e100;
            ints[i] = c.between(-(1 << 30), 1 << 30); /* wraps */
            bytes[i] = static_cast<uint8_t>(c.between(0, 255));
            bools[i] = static_cast<uint8_t>(c.one_of(2));
            longs[i] = static_cast<unsigned long long>(c.between(0, 1 << 30)) << 33;
            signed_longs[i] = static_cast<int64_t>(longs[i]) - (INT64_C(1) << 62);
        }
        reduce_all(floats);
        reduce_all(doubles);
        reduce_all(ints);
        reduce_all(longs);
        reduce_all(signed_longs);
        reduce_all(bytes);
        reduce_bits(ints);
        reduce_bits(signed_longs);
        reduce_bits(bytes);
        reduce_bits(bools);
        for (float &x : floats) { /* zeros of both signs tell in which order they meet */
            x = c.one_of(2) ? 0.0f : -0.0f;
        }
        reduce_one<fxrt_cuda_max>(floats);
        reduce_one<fxrt_cuda_min>(floats);
        floats[threads - 3] = NAN;
        reduce_one<fxrt_cuda_max>(floats);
        reduce_one<fxrt_cuda_min>(floats);
    }
}

/* ---- softmax ------------------------------------------------------------------------------------------------------------------------- */

static void softmax_one(const fxrt_softmax_desc &d, const std::vector<float> &in, size_t off, bool in_place) {
    const shifted x(in, off), y(std::vector<float>(in.size(), NAN), off);
    std::vector<float> want(in.size());
    char what[100];
    for (const bool log_of : {false, true}) {
        snprintf(what, sizeof what, "%s of %d x %d x %d", log_of ? "log_softmax" : "softmax", d.outer, d.n, d.inner);
        (log_of ? fxrt_log_softmax : fxrt_softmax)(&d, in.data(), want.data());
        const shifted over(in, off);
        const shifted &to = in_place ? over : y;
        CHECK_CUDA((log_of ? fxrt_cuda_log_softmax<float> : fxrt_cuda_softmax<float>)(&d, in_place ? over.at() : x.at(), to.at(), nullptr));
        check_near(to.get(), want, 2e-6, what);
    }
}

/* Ordinary numbers, large ones, and -infinity here and there. */
static void test_softmax() {
    chance c;
    for (int round = 0; round < 30; round++) {
        const fxrt_softmax_desc d = {c.between(1, 4), c.between(0, 150), c.one_of(2) ? 1 : c.between(0, 70), 0};
        std::vector<float> in = c.numbers(static_cast<size_t>(d.outer * d.n * d.inner));
        const float scale = c.one_of(2) ? 3 : 60;
        for (size_t i = 0; i < in.size(); i++) {
            in[i] = !c.one_of(50) ? in[i] * scale : d.n > 1 && i % 2 ? -INFINITY : 0;
        }
        softmax_one(d, in, static_cast<size_t>(c.between(0, 1)), c.one_of(2));
    }
    for (const int n : {1, 2, 128, 256, 257, 768, 1024, 1025, 4096, 4097, 6000}) { /* ends of the kinds of kernels */
        const fxrt_softmax_desc d = {n < 1000 ? 9 : 2, n, 1, 0};
        std::vector<float> in = c.numbers(static_cast<size_t>(d.outer * n));
        for (float &x : in) {
            x *= 30;
        }
        softmax_one(d, in, 0, false);
        softmax_one(d, in, 1, true);
    }
    softmax_one({1026, 5, 1, 0}, c.numbers(1026 * 5), 0, false); /* four rows a block, the last of two */
}

/* One value of a row, or all: what makes a row NaN, and what does not. */
static void test_softmax_specials() {
    const float largest = 3.402823466e+38f;
    chance c;
    for (const int n : {1, 7, 300, 1100, 4100}) {
        for (const int inner : {1, 3}) {
            const fxrt_softmax_desc d = {9, n, inner, 0};
            std::vector<float> in = c.numbers(static_cast<size_t>(9 * n * inner));
            const auto row = [&](int o) { return in.begin() + static_cast<ptrdiff_t>(o) * n * inner; };
            std::fill(row(0), row(1), -INFINITY);
            std::fill(row(1), row(2), -largest);
            row(2)[n / 2] = INFINITY;
            row(3)[n - 1] = NAN;
            std::fill(row(4), row(5), -INFINITY);
            row(4)[n / 3] = 5;
            row(5)[n / 2] = largest;
            std::fill(row(6), row(7), largest);
            std::fill(row(7), row(8), 0.0f);
            row(7)[0] = -largest;
            softmax_one(d, in, 0, false);
        }
    }
}

/* ---- norms --------------------------------------------------------------------------------------------------------------------------- */

static void norm_one(const fxrt_layer_norm_desc &d, bool layer, int affine, size_t off, bool in_place, float scale, chance *c) {
    const auto size = [&](int pitch) { return d.rows ? static_cast<size_t>((d.rows - 1) * pitch + d.n) : 0; };
    std::vector<float> in(size(d.x_m), NAN), want(size(d.y_m), NAN);
    for (int r = 0; r < d.rows; r++) {
        for (int i = 0; i < d.n; i++) { /* a mean that is not small beside the deviation */
            in[static_cast<size_t>(r * d.x_m + i)] = scale * (c->number() * 2 + (layer ? 5.0f : 0.0f));
        }
    }
    const std::vector<float> w = c->numbers(affine > 0 ? static_cast<size_t>(d.n) : 0), b = c->numbers(affine > 1 ? static_cast<size_t>(d.n) : 0);
    const shifted x(in, off), dw(w, 0), db(b, 0), y(want, off);
    const shifted &to = in_place ? x : y;
    char what[100];
    snprintf(what, sizeof what, "%s norm of %d x %d, strides %d, %d", layer ? "layer" : "rms", d.rows, d.n, d.x_m, d.y_m);
    if (layer) {
        fxrt_layer_norm(&d, in.data(), w.empty() ? nullptr : w.data(), b.empty() ? nullptr : b.data(), want.data());
        CHECK_CUDA(fxrt_cuda_layer_norm(&d, x.at(), dw.at(), db.at(), to.at(), nullptr));
    } else {
        fxrt_rms_norm(&d, in.data(), w.empty() ? nullptr : w.data(), want.data());
        CHECK_CUDA(fxrt_cuda_rms_norm(&d, x.at(), dw.at(), to.at(), nullptr));
    }
    check_near(to.get(), want, d.n < 4 ? 2e-3 : 1e-5, what);
}

static void test_norms() {
    chance c;
    for (int round = 0; round < 40; round++) {
        const bool layer = round % 2, in_place = c.one_of(4);
        fxrt_layer_norm_desc d = {c.between(0, 9), c.between(0, 200), 0, 0, 1e-5f};
        d.x_m = d.n + c.between(0, 3);
        d.y_m = in_place ? d.x_m : d.n + c.between(0, 3);
        norm_one(d, layer, c.between(0, 2), static_cast<size_t>(c.between(0, 1)), in_place, 1, &c);
    }
    for (const int n : {1, 2, 128, 256, 260, 768, 1024, 1025, 1536, 4096, 4097, 6000}) { /* ends of the kinds of kernels */
        const fxrt_layer_norm_desc d = {n < 1000 ? 5 : 2, n, n, n + 4, 1e-5f};
        norm_one(d, true, 2, 0, false, 1, &c);
        norm_one(d, false, 1, 0, false, 1, &c);
        norm_one({d.rows, n, n + 1, n + 1, 1e-5f}, true, 1, 1, true, 1, &c);
        norm_one(d, true, 2, 0, false, 1e15f, &c); /* squares near the largest number */
        norm_one(d, false, 1, 0, false, 1e-15f, &c);
    }
    norm_one({1025, 12, 12, 12, 1e-5f}, true, 2, 0, false, 1, &c); /* four rows a block, the last of one */
    const fxrt_layer_norm_desc again = {3, 40, 0, 40, 1e-5f}; /* one row again and again */
    norm_one(again, true, 2, 0, false, 1, &c);
}

/* A NaN or an infinity spoils its own row alone; a row of equal numbers is its bias. */
static void test_norm_specials() {
    for (const int n : {7, 300, 1100, 4100}) {
        const fxrt_layer_norm_desc d = {4, n, n, n, 1e-5f};
        chance c;
        std::vector<float> in = c.numbers(static_cast<size_t>(4 * n)), want(in.size());
        in[0] = NAN;
        in[static_cast<size_t>(2 * n - 1)] = -INFINITY;
        std::fill(in.begin() + 2 * n, in.begin() + 3 * n, 4.0f);
        const std::vector<float> w = c.numbers(static_cast<size_t>(n)), b = c.numbers(static_cast<size_t>(n));
        const shifted x(in, 0), dw(w, 0), db(b, 0), y(std::vector<float>(in.size(), NAN), 0);
        fxrt_layer_norm(&d, in.data(), w.data(), b.data(), want.data());
        CHECK_CUDA(fxrt_cuda_layer_norm(&d, x.at(), dw.at(), db.at(), y.at(), nullptr));
        check_near(y.get(), want, 1e-5, "layer norm of special values");
        fxrt_rms_norm(&d, in.data(), w.data(), want.data());
        CHECK_CUDA(fxrt_cuda_rms_norm(&d, x.at(), dw.at(), y.at(), nullptr));
        check_near(y.get(), want, 1e-5, "rms norm of special values");
    }
}

static void group_norm_one(const fxrt_group_norm_desc &d, int affine, size_t off, chance *c) {
    const std::vector<float> in = c->numbers(static_cast<size_t>((d.n - 1) * d.xs_n + (d.hw - 1) * d.xs_p + d.c));
    const std::vector<float> w = c->numbers(affine > 0 ? static_cast<size_t>(d.c) : 0), b = c->numbers(affine > 1 ? static_cast<size_t>(d.c) : 0);
    std::vector<float> want(static_cast<size_t>((d.n - 1) * d.ys_n + (d.hw - 1) * d.ys_p + d.c), NAN);
    const shifted x(in, off), dw(w, off), db(b, off), y(want, off);
    char what[100];
    snprintf(what, sizeof what, "group norm of %d x %d x %d in %d groups", d.n, d.hw, d.c, d.groups);
    fxrt_group_norm(&d, in.data(), w.empty() ? nullptr : w.data(), b.empty() ? nullptr : b.data(), want.data());
    CHECK_CUDA(fxrt_cuda_group_norm(&d, x.at(), dw.at(), db.at(), y.at(), nullptr));
    check_near(y.get(), want, 1e-5, what);
}

static void test_group_norm() {
    chance c;
    for (int round = 0; round < 30; round++) {
        fxrt_group_norm_desc d = {c.between(1, 3), c.between(1, 30), 0, c.between(1, 5), 0, 0, 0, 0, 1e-5f};
        d.c = d.groups * (c.one_of(3) ? 8 : c.between(2, 19));
        d.xs_p = d.c + (c.one_of(2) ? 4 : c.between(0, 3));
        d.ys_p = d.c + (c.one_of(2) ? 4 : c.between(0, 3));
        d.xs_n = d.hw * d.xs_p;
        d.ys_n = d.hw * d.ys_p;
        group_norm_one(d, c.between(0, 2), static_cast<size_t>(c.between(0, 1)), &c);
    }
    const int sizes[][3] = {{100, 12, 3}, {130, 32, 4}, {500, 15, 3}, {600, 16, 2}, {1500, 6, 2}}; /* 400 to 4,800 elements a group */
    for (const auto &s : sizes) {
        group_norm_one({2, s[0], s[1], s[2], s[0] * s[1], s[1], s[0] * s[1], s[1], 1e-5f}, 2, 0, &c);
    }
    const fxrt_group_norm_desc none = {0, 4, 8, 2, 32, 8, 32, 8, 1e-5f};
    CHECK_CUDA(fxrt_cuda_group_norm<float>(&none, nullptr, nullptr, nullptr, nullptr, nullptr));
}

int main() {
    each_schedule("reductions", test_reduce);
    each_schedule("softmax", test_softmax);
    each_schedule("softmax of special values", test_softmax_specials);
    each_schedule("layer and rms norm", test_norms);
    each_schedule("norms of special values", test_norm_specials);
    each_schedule("group norm", test_group_norm);
    return 0;
}
