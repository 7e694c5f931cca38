/* Images for the tests of convolutions, in several types.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_CONV_VALUES_H
#define FXCU_CONV_VALUES_H
#include "cuda_values.h"

#include "../unit/conv_cases.h"

/* NaN in the gaps: nothing outside the tensor may find its way into a result. */
template <class T> static std::vector<T> random_image(int n, int h, int w, int c, int s_n, int s_h, int s_w, size_t size, float scale = 1.0f) {
    std::vector<T> v = nothing<T>(size);
    for (int at = 0; at < n * h * w * c; at++) {
        const int pixel = at / c, row = pixel / w;
        v[static_cast<size_t>(row / h * s_n + row % h * s_h + pixel % w * s_w + at % c)] = static_cast<T>(scale * random_float());
    }
    return v;
}

/* A square convolution without strides; its images' strides are not set. */
static inline fxrt_conv2d_desc square(int n, int size, int ic, int oc, int k, int pad, int groups) {
    fxrt_conv2d_desc d;
    memset(&d, 0, sizeof d);
    d.n = n;
    d.groups = groups;
    d.sh = d.sw = d.dh = d.dw = 1;
    d.ih = d.iw = size;
    d.ic = ic;
    d.oc = oc;
    d.kh = d.kw = k;
    d.ph = d.pw = pad;
    d.oh = d.ow = size + 2 * pad - k + 1;
    return d;
}

/* What a convolution is given; w is in PyTorch's order. Everything is a value that T has. */
template <class T> struct conv_operands {
    fxrt_conv2d_desc d;
    std::vector<T> x, w, b, r;
    bool bias, residual, in_place;
    size_t y_size;
};

/* Strides are drawn, and multiples of `multiple`. */
template <class T> static conv_operands<T> draw_conv(fxrt_conv2d_desc d, bool bias, bool residual, bool in_place, int multiple = 1) {
    const int xc = d.groups * d.ic, yc = d.groups * d.oc;
    size_t x_size, y_size, r_size;
    do {
        x_size = random_strides(d.n, d.ih, d.iw, xc, &d.xs_n, &d.xs_h, &d.xs_w);
        y_size = random_strides(d.n, d.oh, d.ow, yc, &d.ys_n, &d.ys_h, &d.ys_w);
        r_size = random_strides(d.n, d.oh, d.ow, yc, &d.rs_n, &d.rs_h, &d.rs_w);
    } while ((d.xs_n | d.xs_h | d.xs_w | d.ys_n | d.ys_h | d.ys_w | d.rs_n | d.rs_h | d.rs_w) % multiple);
    if (in_place) {
        d.rs_n = d.ys_n;
        d.rs_h = d.ys_h;
        d.rs_w = d.ys_w;
        r_size = y_size;
    }
    conv_operands<T> o;
    o.d = d;
    o.bias = bias;
    o.residual = residual;
    o.in_place = in_place;
    o.y_size = y_size;
    const float scale = 2.0f / sqrtf(static_cast<float>(d.ic * d.kh * d.kw)); /* results of about 1: the rounding of long sums stays small */
    o.x = random_image<T>(d.n, d.ih, d.iw, xc, d.xs_n, d.xs_h, d.xs_w, x_size);
    o.r = random_image<T>(d.n, d.oh, d.ow, yc, d.rs_n, d.rs_h, d.rs_w, r_size);
    o.b = random_values<T>(static_cast<size_t>(yc), 1.0f);
    o.w = random_values<T>(static_cast<size_t>(yc * d.ic * d.kh * d.kw), scale);
    return o;
}

template <class T> static std::vector<float> as_floats(const std::vector<T> &from) {
    std::vector<float> to(from.size());
    for (size_t i = 0; i < to.size(); i++) {
        to[i] = static_cast<float>(from[i]);
    }
    return to;
}
static inline void set_wanted(void *to, size_t at, double value) { static_cast<wanted *>(to)->value.at(at) = value; }

template <class T> static wanted expect(const conv_operands<T> &o) {
    wanted want(o.y_size);
    const std::vector<float> x = as_floats(o.x), w = as_floats(o.w), b = as_floats(o.b), r = as_floats(o.r);
    conv_reference(&o.d, false, x.data(), w.data(), o.bias ? b.data() : nullptr, o.residual ? r.data() : nullptr, set_wanted, &want);
    return want;
}

/* Runs f(descriptor, x, w, b, r, y) on device buffers, w as `weights` has it, and gives the result; nothing where it failed. x, b, r and y begin
 * `shift` elements past an aligned place. */
template <class T, class F> static std::vector<T> run_conv(const conv_operands<T> &o, const std::vector<T> &weights, F f, size_t shift = 0) {
    const auto shifted = [shift](const std::vector<T> &from) {
        std::vector<T> to = nothing<T>(shift);
        to.insert(to.end(), from.begin(), from.end());
        return to;
    };
    const buffer<T> x(shifted(o.x)), w(weights), b(shifted(o.b)), r(shifted(o.r)), y(shifted(o.in_place ? o.r : nothing<T>(o.y_size)));
    const T *const residual = !o.residual ? nullptr : (o.in_place ? y.at : r.at) + shift;
    const cudaError_t error = f(&o.d, x.at + shift, w.at, o.bias ? b.at + shift : nullptr, residual, y.at + shift);
    if (error != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) {
        return {};
    }
    const std::vector<T> all = y.get();
    for (size_t i = 0; i < shift; i++) {
        CHECK(isnan(number(all[i])));
    }
    return std::vector<T>(all.begin() + static_cast<ptrdiff_t>(shift), all.end());
}

static inline void describe_conv(const fxrt_conv2d_desc &d, char *what, size_t size) {
    snprintf(what, size, "n%d %dx%dx%d -> %dx%dx%d groups %d k %dx%d s %d,%d p %d,%d d %d,%d act %d", d.n, d.ih, d.iw, d.ic, d.oh, d.ow, d.oc, d.groups,
             d.kh, d.kw, d.sh, d.sw, d.ph, d.pw, d.dh, d.dw, d.act);
}
#endif
