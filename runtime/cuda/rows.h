/* rows.h: softmax, layer norm, root mean square norm and group norm. Needs vec.h, reduce.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A row of up to 1,024 elements is a warp's, a longer one a block's. Up to 4,096 elements stay in registers, so that memory is read once;
 * of longer rows, norms read again what the caches still hold, and softmax goes through the row twice. y may be x but for group
 * norm: a thread writes only where it alone reads, after the row was read. Of type T (vec.h), everything is reckoned in floats. */

/* V neighbours at once, by THREADS threads a row, KEEP elements a thread in registers; 0: none, read again. */
template <int V_, int THREADS_, int KEEP_> struct fxrt_cuda_shape {
    enum { V = V_, THREADS = THREADS_, PER = KEEP_ / V_, MOST_ROWS = THREADS_ == 32 ? 4 : 1 }; /* MOST_ROWS: a block's */
    /* Of few rows, a block takes one, so that they spread over the device. */
#ifndef __CUDACC_RTC__ /* the host's */
    static dim3 block(int rows) { return dim3(THREADS, rows < 1024 ? 1 : static_cast<unsigned>(MOST_ROWS)); }
    static dim3 grid(int rows) { return dim3((static_cast<unsigned>(rows) - 1) / block(rows).y + 1); }
#endif
};

/* f(shape) for rows of n elements; `wide`: 16 bytes at once. */
template <class F> FXRT_HOST cudaError_t fxrt_cuda_by_length(int n, bool wide, F f)
{
    if (n <= 256)
        return wide ? f(fxrt_cuda_shape<4, 32, 8>()) : f(fxrt_cuda_shape<1, 32, 8>());
    if (n <= 1024)
        return wide ? f(fxrt_cuda_shape<4, 32, 32>()) : f(fxrt_cuda_shape<1, 32, 32>());
    if (n <= 4096)
        return wide ? f(fxrt_cuda_shape<4, 256, 16>()) : f(fxrt_cuda_shape<1, 256, 16>());
    return wide ? f(fxrt_cuda_shape<4, 1024, 0>()) : f(fxrt_cuda_shape<1, 1024, 0>());
}

template <class S> FXRT_DEVICE int fxrt_cuda_row()
{
    return static_cast<int>(S::MOST_ROWS > 1 ? blockIdx.x * blockDim.y + threadIdx.y : blockIdx.x);
}

/* f(k, i) for each of this thread's vectors: the k-th begins at element i. */
template <class S, class F> FXRT_DEVICE void fxrt_cuda_each(int n, F f)
{
    const unsigned first = threadIdx.x * static_cast<unsigned>(S::V), step = static_cast<unsigned>(S::THREADS) * S::V;
    if constexpr (S::PER > 0) {
        FXRT_UNROLL
        for (int k = 0; k < S::PER; k++)
            if (first + static_cast<unsigned>(k) * step < static_cast<unsigned>(n))
                f(k, first + static_cast<unsigned>(k) * step);
    } else {
        for (unsigned i = first; i < static_cast<unsigned>(n); i += step)
            f(0, i);
    }
}

/* Over the threads of a row. */
template <class S, class Op> FXRT_DEVICE float fxrt_cuda_row_reduce(Op op, float x)
{
    if constexpr (S::THREADS == 32)
        return fxrt_cuda_warp(op, x);
    else
        return fxrt_cuda_block(op, x);
}

/* ---- softmax ------------------------------------------------------------------------------------------------------------------------
 * A NaN, or a maximum that is infinite, makes NaN of all n elements by way of the sum, as in PyTorch. */

/* Takes x into the sum of e^(x_i - top) over the elements seen, where top is their maximum. It begins at the lowest number that is
 * finite, so that -inf adds 0. */
FXRT_DEVICE void fxrt_cuda_softmax_take(float x, float *top, float *sum)
{
    const float t = x - *top, e = expf(-fabsf(t));
    *sum = t > 0 ? *sum * e + 1 : *sum + e;
    *top = t > 0 ? x : *top;
}
#define FXRT_CUDA_LOWEST (-3.402823466e+38f)

template <bool LOG, class S, class T>
static __global__ void __launch_bounds__(S::THREADS * S::MOST_ROWS) fxrt_cuda_softmax_rows(fxrt_softmax_desc d, const T *x, T *y)
{
    const int row = fxrt_cuda_row<S>();
    if (row >= d.outer)
        return;
    x += static_cast<ptrdiff_t>(row) * d.n;
    y += static_cast<ptrdiff_t>(row) * d.n;
    if constexpr (S::PER > 0) {
        fxrt_cuda_vec<S::V> keep[S::PER];
        float top = -INFINITY, sum = 0;
        fxrt_cuda_each<S>(d.n, [&](int k, unsigned i) {
            keep[k] = fxrt_cuda_floats<S::V>(x + i);
            for (float t : keep[k].at)
                top = fxrt_cuda_max()(top, t);
        });
        top = fxrt_cuda_row_reduce<S>(fxrt_cuda_max(), top);
        fxrt_cuda_each<S>(d.n, [&](int k, unsigned) {
            for (float &t : keep[k].at) {
                const float e = expf(t - top);
                t = LOG ? t - top : e;
                sum += e;
            }
        });
        sum = fxrt_cuda_row_reduce<S>(fxrt_cuda_add(), sum);
        const float scale = LOG ? logf(sum) : 1 / sum;
        fxrt_cuda_each<S>(d.n, [&](int k, unsigned i) {
            for (float &t : keep[k].at)
                t = LOG ? t - scale : t * scale;
            fxrt_cuda_put<S::V>(y + i, keep[k]);
        });
    } else {
        float mine = FXRT_CUDA_LOWEST, sum = 0;
        fxrt_cuda_each<S>(d.n, [&](int, unsigned i) {
            const fxrt_cuda_vec<S::V> v = fxrt_cuda_floats<S::V>(x + i);
            for (float t : v.at)
                fxrt_cuda_softmax_take(t, &mine, &sum);
        });
        const float top = fxrt_cuda_row_reduce<S>(fxrt_cuda_max(), mine);
        sum = fxrt_cuda_row_reduce<S>(fxrt_cuda_add(), sum * expf(mine - top));
        const float scale = LOG ? logf(sum) : 1 / sum;
        fxrt_cuda_each<S>(d.n, [&](int, unsigned i) {
            fxrt_cuda_vec<S::V> v = fxrt_cuda_floats<S::V>(x + i);
            for (float &t : v.at)
                t = LOG ? t - top - scale : expf(t - top) * scale;
            fxrt_cuda_put<S::V>(y + i, v);
        });
    }
}

/* inner > 1: `width` neighbouring columns a block, a power of two up to 32; of each, a thread takes every (256 / width)-th element. */
template <bool LOG, class T> static __global__ void __launch_bounds__(256) fxrt_cuda_softmax_columns(fxrt_softmax_desc d, int width, const T *x, T *y)
{
    __shared__ float tops[256], sums[256];
    const int thread = static_cast<int>(threadIdx.x), blocks = (d.inner + width - 1) / width;
    const int outer = static_cast<int>(blockIdx.x) / blocks, column = static_cast<int>(blockIdx.x) % blocks * width + thread % width;
    const int n = column < d.inner ? d.n : 0;
    const ptrdiff_t base = static_cast<ptrdiff_t>(outer) * d.n * d.inner + column;
    float top = FXRT_CUDA_LOWEST, sum = 0;
    for (int i = thread / width; i < n; i += 256 / width)
        fxrt_cuda_softmax_take(static_cast<float>(x[base + static_cast<ptrdiff_t>(i) * d.inner]), &top, &sum);
    tops[thread] = top;
    sums[thread] = sum;
    for (int half = 128; half >= width; half /= 2) {
        __syncthreads();
        if (thread < half) {
            const float a = tops[thread], b = tops[thread + half];
            tops[thread] = top = a > b ? a : b;
            sums[thread] = sums[thread] * expf(a - top) + sums[thread + half] * expf(b - top);
        }
    }
    __syncthreads();
    top = tops[thread % width];
    sum = sums[thread % width];
    const float scale = LOG ? logf(sum) : 1 / sum;
    for (int i = thread / width; i < n; i += 256 / width) {
        const ptrdiff_t at = base + static_cast<ptrdiff_t>(i) * d.inner;
        const float t = static_cast<float>(x[at]) - top;
        y[at] = static_cast<T>(LOG ? t - scale : expf(t) * scale);
    }
}

template <bool LOG, class T> FXRT_HOST cudaError_t fxrt_cuda_softmax_any(const fxrt_softmax_desc *d, const T *x, T *y, cudaStream_t stream)
{
    if (d->outer == 0 || d->n == 0 || d->inner == 0)
        return cudaSuccess;
    if (d->inner == 1) {
        return fxrt_cuda_by_length(d->n, fxrt_cuda_fours(d->n) && fxrt_cuda_aligned(x, y), [&](auto shape) {
            using S = decltype(shape);
            return FXCC_LAUNCH((fxrt_cuda_softmax_rows<LOG, S, T>), S::grid(d->outer), S::block(d->outer), 0, stream, *d, x, y);
        });
    }
    int width = 1;
    while (width < d->inner && width < 32)
        width *= 2;
    const long long blocks = (static_cast<long long>(d->inner) + width - 1) / width * d->outer;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    return FXCC_LAUNCH((fxrt_cuda_softmax_columns<LOG, T>), dim3(static_cast<unsigned>(blocks)), dim3(256), 0, stream, *d, width, x, y);
}
template <class T> FXRT_HOST cudaError_t fxrt_cuda_softmax(const fxrt_softmax_desc *d, const T *x, T *y, cudaStream_t stream)
{
    return fxrt_cuda_softmax_any<false>(d, x, y, stream);
}
template <class T> FXRT_HOST cudaError_t fxrt_cuda_log_softmax(const fxrt_softmax_desc *d, const T *x, T *y, cudaStream_t stream)
{
    return fxrt_cuda_softmax_any<true>(d, x, y, stream);
}

/* ---- norms -------------------------------------------------------------------------------------------------------------------------- */

/* Rows of n elements: n / run runs of neighbours, x_run and y_run apart; `groups` rows side by side make an image, x_image and y_image
 * apart. A row of layer norm is one run, and an image. Element i of group g is scaled by w[g * run + i % run]. */
struct fxrt_cuda_norm_rows {
    int rows, n, run, groups, x_run, y_run, x_image, y_image;
    float eps;
};

/* y = (x - mean) / sqrt(mean of (x - mean)^2 + eps) * w + b; without MEAN the mean counts as 0. RUNS: rows may be of several runs. */
template <bool MEAN, bool RUNS, class S, class T>
static __global__ void __launch_bounds__(S::THREADS * S::MOST_ROWS)
    fxrt_cuda_norm(fxrt_cuda_norm_rows r, const T *x, const T *__restrict__ w, const T *__restrict__ b, T *y)
{
    using vec = fxrt_cuda_vec<S::V>;
    const int row = fxrt_cuda_row<S>();
    if (row >= r.rows)
        return;
    const int image = RUNS ? row / r.groups : row, channel = RUNS ? row % r.groups * r.run : 0;
    const unsigned run = static_cast<unsigned>(r.run);
    x += static_cast<ptrdiff_t>(image) * r.x_image + channel;
    y += static_cast<ptrdiff_t>(image) * r.y_image + channel;
    const auto at = [&](unsigned i, int pitch) {
        return RUNS ? static_cast<ptrdiff_t>(i / run) * pitch + static_cast<ptrdiff_t>(i % run) : static_cast<ptrdiff_t>(i);
    };
    vec keep[S::PER > 0 ? S::PER : 1] = {};
    const auto value = [&](int k, unsigned i) { return S::PER > 0 ? keep[k] : fxrt_cuda_floats<S::V>(x + at(i, r.x_run)); };
    float mean = 0, square = 0;
    if constexpr (MEAN || S::PER > 0) {
        fxrt_cuda_each<S>(r.n, [&](int k, unsigned i) {
            const vec v = fxrt_cuda_floats<S::V>(x + at(i, r.x_run));
            for (float t : v.at)
                mean += t;
            keep[k] = v;
        });
        mean = MEAN ? fxrt_cuda_row_reduce<S>(fxrt_cuda_add(), mean) / static_cast<float>(r.n) : 0;
    }
    fxrt_cuda_each<S>(r.n, [&](int k, unsigned i) {
        const vec v = value(k, i);
        for (float t : v.at)
            square += (t - mean) * (t - mean);
    });
    square = fxrt_cuda_row_reduce<S>(fxrt_cuda_add(), square);
    const float scale = 1 / sqrtf(square / static_cast<float>(r.n) + r.eps);
    const auto normal = [&](vec v) {
        for (float &t : v.at)
            t = (t - mean) * scale;
        return v;
    };
    const auto times = [&](vec v, unsigned i) {
        const vec by = fxrt_cuda_floats<S::V>(w + channel + (RUNS ? i % run : i));
        for (int j = 0; j < S::V; j++)
            v.at[j] *= by.at[j];
        return v;
    };
    const auto plus = [&](vec v, unsigned i) {
        const vec more = fxrt_cuda_floats<S::V>(b + channel + (RUNS ? i % run : i));
        for (int j = 0; j < S::V; j++)
            v.at[j] += more.at[j];
        return v;
    };
    if constexpr (S::PER > 0) { /* a loop each, so that all loads of w are on their way at once, then all of b */
        fxrt_cuda_each<S>(r.n, [&](int k, unsigned) { keep[k] = normal(keep[k]); });
        if (w)
            fxrt_cuda_each<S>(r.n, [&](int k, unsigned i) { keep[k] = times(keep[k], i); });
        if (b)
            fxrt_cuda_each<S>(r.n, [&](int k, unsigned i) { keep[k] = plus(keep[k], i); });
        fxrt_cuda_each<S>(r.n, [&](int k, unsigned i) { fxrt_cuda_put<S::V>(y + at(i, r.y_run), keep[k]); });
    } else {
        fxrt_cuda_each<S>(r.n, [&](int k, unsigned i) {
            vec v = normal(value(k, i));
            v = w ? times(v, i) : v;
            v = b ? plus(v, i) : v;
            fxrt_cuda_put<S::V>(y + at(i, r.y_run), v);
        });
    }
}

template <bool MEAN, bool RUNS, class T>
FXRT_HOST cudaError_t fxrt_cuda_norm_any(const fxrt_cuda_norm_rows &r, const T *x, fxrt_cuda_optional<T> w, fxrt_cuda_optional<T> b, T *y,
                                         cudaStream_t stream)
{
    if (r.rows == 0 || r.n == 0)
        return cudaSuccess;
    const bool wide = fxrt_cuda_fours(r.run, r.x_run, r.y_run, r.x_image, r.y_image) && fxrt_cuda_aligned(x, y, w, b);
    return fxrt_cuda_by_length(r.n, wide, [&](auto shape) {
        using S = decltype(shape);
        return FXCC_LAUNCH((fxrt_cuda_norm<MEAN, RUNS, S, T>), S::grid(r.rows), S::block(r.rows), 0, stream, r, x, w, b, y);
    });
}
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_layer_norm(const fxrt_layer_norm_desc *d, const T *x, fxrt_cuda_optional<T> w, fxrt_cuda_optional<T> b, T *y,
                                           cudaStream_t stream)
{
    return fxrt_cuda_norm_any<true, false>({d->rows, d->n, d->n, 1, 0, 0, d->x_m, d->y_m, d->eps}, x, w, b, y, stream);
}
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_rms_norm(const fxrt_layer_norm_desc *d, const T *x, fxrt_cuda_optional<T> w, T *y, cudaStream_t stream)
{
    return fxrt_cuda_norm_any<false, false>({d->rows, d->n, d->n, 1, 0, 0, d->x_m, d->y_m, d->eps}, x, w, nullptr, y, stream);
}
/* Sums are float32's, as PyTorch's on a GPU are, where the CPU kernel adds in double. */
template <class T>
FXRT_HOST cudaError_t fxrt_cuda_group_norm(const fxrt_group_norm_desc *d, const T *x, fxrt_cuda_optional<T> w, fxrt_cuda_optional<T> b, T *y,
                                           cudaStream_t stream)
{
    if (d->groups == 0)
        return cudaSuccess;
    const int run = d->c / d->groups;
    const long long n = static_cast<long long>(run) * d->hw, rows = static_cast<long long>(d->n) * d->groups;
    if (n > INT32_MAX || rows > INT32_MAX)
        return cudaErrorInvalidValue;
    const fxrt_cuda_norm_rows r = {static_cast<int>(rows), static_cast<int>(n), run, d->groups, d->xs_p, d->ys_p, d->xs_n, d->ys_n, d->eps};
    return fxrt_cuda_norm_any<true, true>(r, x, w, b, y, stream);
}
