/* conv_tile.h: convolution of channels-last images as an implicit matrix product, in tiles of shared memory; conv2d.h and
 * conv_transpose2d.h launch it. Follows
 * conv_points.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A block makes Tile::M output pixels x Tile::N output channels of one group: grid (pixels, channels, groups x phases or parts). Sums run over the
 * taps and the input channels, in the order of the weights [groups*oc][kh][kw][ic], Tile::K at a time: while the threads multiply one buffer of
 * shared memory, what the next one needs is on its way to their registers. Nothing is unrolled into an im2col matrix: each element is
 * read where it lies, and one outside of the image is zero. */

/* What is convolved: x as it lies; transposed; or max(0, x scale + shift), by input channel (no scale is 1, no shift 0), where the image is: what is outside
 * stays zero. */
enum { FXRT_CUDA_CONV_PLAIN, FXRT_CUDA_CONV_TRANSPOSED, FXRT_CUDA_CONV_PRE };

/* What a block makes, and what of it a thread: TM x TN, in pieces of 4 x 4 that lie M / (TM / 4) and N / (TN / 4) apart, so that the
 * lanes of a warp read neighbouring 16 bytes of shared memory and write neighbouring 16 bytes of the result. */
template <int M_, int N_, int K_, int TM_, int TN_> struct fxrt_cuda_conv_shape {
    static constexpr int M = M_, N = N_, K = K_, TM = TM_, TN = TN_, threads = M / TM * (N / TN);
    static constexpr int resident = (TM * TN >= 64 ? 384 : 768) / threads; /* blocks whose registers a multiprocessor is to hold */
    static_assert(M % TM == 0 && N % TN == 0 && TM % 4 == 0 && TN % 4 == 0, "threads fill the tile");
};
typedef fxrt_cuda_conv_shape<128, 64, 8, 8, 8> fxrt_cuda_conv_large; /* 128 threads */
typedef fxrt_cuda_conv_shape<64, 64, 16, 4, 4> fxrt_cuda_conv_small; /* 256 threads */
typedef fxrt_cuda_conv_shape<64, 32, 16, 4, 4> fxrt_cuda_conv_narrow; /* 128 threads; for up to 32 channels */

/* One of the image's two directions: output o = first + step * i reads, by tap k = tap + tap_step * j, input in + in_step * i + in_tap * j. */
struct fxrt_cuda_conv_axis {
    int first, step, count;
    int tap, tap_step, taps;
    int in, in_step, in_tap;
};

/* Plain convolution: one phase, all taps. */
FXRT_DEVICE fxrt_cuda_conv_axis fxrt_cuda_conv_plain(int out, int k, int stride, int pad, int dilation)
{
    return {0, 1, out, 0, 1, k, -pad, stride, dilation};
}

/* Transposed: outputs `phase` modulo the stride gather from neighbouring inputs, by the taps k for which phase + pad - k * dilation is a multiple
 * of the stride. They are apart by a fixed number, if there are any. */
FXRT_DEVICE fxrt_cuda_conv_axis fxrt_cuda_conv_phase(int phase, int out, int k, int stride, int pad, int dilation)
{
    int step = 1, tap = 0;
    while (step * dilation % stride != 0) {
        step++;
    }
    while (tap < step && (phase + pad - tap * dilation) % stride != 0) {
        tap++;
    }
    const int taps = tap < step && tap < k ? (k - tap + step - 1) / step : 0;
    return {phase, stride, (out - phase + stride - 1) / stride, tap, step, taps, taps > 0 ? (phase + pad - tap * dilation) / stride : 0, 1,
            -(step * dilation / stride)};
}

/* Where a pixel of the tile reads: its first tap's place in x, row and column. */
struct __align__(16) fxrt_cuda_conv_pixel {
    long long at;
    int iy, ix;
};

/* V: neighbours in the innermost direction per access of x and w. wide: y, b and r allow four elements at once. parts: of each sum; each is a
 * result of its own in y, one after the other, and then of floats. Sums are floats always. scale and shift: of FXRT_CUDA_CONV_PRE. The result is
 * act(sum + b + r) or, with a gain by output channel, act(sum + b) gain + r. */
template <class Tile, int V, int Kind, class T, class Y>
static __global__ void __launch_bounds__(Tile::threads, Tile::resident)
    fxrt_cuda_conv(fxrt_conv2d_desc d, bool wide, int parts, const T *__restrict__ x, const T *__restrict__ w, const T *__restrict__ b, const T *r,
                   const T *__restrict__ scale, const T *__restrict__ shift, const T *__restrict__ gain, Y *y)
{
    constexpr bool Transposed = Kind == FXRT_CUDA_CONV_TRANSPOSED, Pre = Kind == FXRT_CUDA_CONV_PRE;
    constexpr int lanes = Tile::K / V;                /* threads that fetch one row of K elements */
    constexpr int fetched = Tile::threads / lanes;    /* rows that all threads fetch at once */
    constexpr int m_fetches = Tile::M / fetched, n_fetches = Tile::N / fetched;
    constexpr int pieces_m = Tile::TM / 4, pieces_n = Tile::TN / 4;
    static_assert(Tile::M % fetched == 0 && Tile::N % fetched == 0, "threads fetch whole rows");
    /* Rows of K are columns here; 4 more floats a row keep the stores of a warp apart in the banks. */
    __align__(16) __shared__ float xs[2][Tile::K][Tile::M + 4];
    __align__(16) __shared__ float ws[2][Tile::K][Tile::N + 4];
    __shared__ fxrt_cuda_conv_pixel pixels[Tile::M];

    const int thread = static_cast<int>(threadIdx.x);
    int group = static_cast<int>(blockIdx.z), part = 0;
    fxrt_cuda_conv_axis vertical = fxrt_cuda_conv_plain(d.oh, d.kh, d.sh, d.ph, d.dh);
    fxrt_cuda_conv_axis across = fxrt_cuda_conv_plain(d.ow, d.kw, d.sw, d.pw, d.dw);
    if (Transposed) {
        const int phase = group / d.groups;
        group %= d.groups;
        vertical = fxrt_cuda_conv_phase(phase / d.sw, d.oh, d.kh, d.sh, d.ph, d.dh);
        across = fxrt_cuda_conv_phase(phase % d.sw, d.ow, d.kw, d.sw, d.pw, d.dw);
    } else {
        part = group / d.groups;
        group %= d.groups;
        y += static_cast<long long>(part) * d.n * d.ys_n;
    }
    const int total = d.n * vertical.count * across.count, first_m = static_cast<int>(blockIdx.x) * Tile::M;
    const int first_n = static_cast<int>(blockIdx.y) * Tile::N;
    if (first_m >= total) { /* a phase with fewer pixels: the whole block has nothing to do */
        return;
    }

    for (int i = thread; i < Tile::M; i += Tile::threads) {
        const int m = first_m + i;
        fxrt_cuda_conv_pixel p = {0, -(1 << 30), 0}; /* outside, whatever the tap */
        if (m < total) {
            const int row = m / across.count, column = m % across.count;
            p.iy = vertical.in + vertical.in_step * (row % vertical.count);
            p.ix = across.in + across.in_step * column;
            p.at = static_cast<long long>(row / vertical.count) * d.xs_n + static_cast<long long>(p.iy) * d.xs_h +
                   static_cast<long long>(p.ix) * d.xs_w + static_cast<long long>(group) * d.ic;
        }
        pixels[i] = p;
    }
    __syncthreads();

    /* What this thread fetches: V elements from `channel` on of tap (tap_y, tap_x), for some pixels and some output channels. */
    const int lane = thread % lanes, fetch_row = thread / lanes;
    int steps = (vertical.taps * across.taps * d.ic + Tile::K - 1) / Tile::K;
    int tap_y = 0, tap_x = 0, channel = lane * V;
    if (!Transposed && parts > 1) {
        const int first = static_cast<int>(static_cast<long long>(part) * steps / parts), tap = first * Tile::K / d.ic;
        steps = static_cast<int>(static_cast<long long>(part + 1) * steps / parts) - first;
        tap_y = tap / d.kw;
        tap_x = tap % d.kw;
        channel += first * Tile::K % d.ic;
    }
    fxrt_cuda_vec<V, T> x_next[m_fetches], w_next[n_fetches]; /* floats when they are needed, so that nobody waits for them before */
    unsigned inside_next = 0; /* for Pre: which of x_next are in the image, */
    int channel_next = 0;     /* and the first of their channels */
    const long long w_row = static_cast<long long>(d.kh) * d.kw * d.ic;
    w += (static_cast<long long>(group) * d.oc + first_n) * w_row;

    const auto fetch = [&]() {
        inside_next = 0;
        while (channel >= d.ic) {
            channel -= d.ic;
            if (++tap_x == across.taps) {
                tap_x = 0;
                tap_y++;
            }
        }
        const bool live = tap_y < vertical.taps;
        const int dy = vertical.in_tap * tap_y, dx = across.in_tap * tap_x;
        const long long tap = static_cast<long long>(dy) * d.xs_h + static_cast<long long>(dx) * d.xs_w + channel;
        FXRT_UNROLL
        for (int i = 0; i < m_fetches; i++) {
            const fxrt_cuda_conv_pixel p = pixels[fetch_row + i * fetched];
            const unsigned iy = static_cast<unsigned>(p.iy + dy), ix = static_cast<unsigned>(p.ix + dx);
            const bool inside = live && iy < static_cast<unsigned>(d.ih) && ix < static_cast<unsigned>(d.iw);
            x_next[i] = inside ? fxrt_cuda_load<V>(x + (p.at + tap)) : fxrt_cuda_vec<V, T>{};
            inside_next |= inside ? 1u << i : 0u;
        }
        const int k = ((vertical.tap + vertical.tap_step * tap_y) * d.kw + across.tap + across.tap_step * tap_x) * d.ic + channel;
        FXRT_UNROLL
        for (int i = 0; i < n_fetches; i++) {
            const int row = fetch_row + i * fetched;
            w_next[i] = live && first_n + row < d.oc ? fxrt_cuda_load<V>(w + (row * w_row + k)) : fxrt_cuda_vec<V, T>{};
        }
        channel_next = group * d.ic + channel;
        channel += Tile::K;
    };
    const auto keep = [&](int buffer) {
        fxrt_cuda_vec<V> by = {}, plus = {};
        if (Pre && inside_next && scale) { /* they are the same for all pixels, and soon in the first cache */
            by = fxrt_cuda_floats<V>(scale + channel_next);
        }
        if (Pre && inside_next && shift) {
            plus = fxrt_cuda_floats<V>(shift + channel_next);
        }
        FXRT_UNROLL
        for (int j = 0; j < V; j++) {
            FXRT_UNROLL
            for (int i = 0; i < m_fetches; i++) {
                float value = static_cast<float>(x_next[i].at[j]);
                if (Pre) {
                    value = (scale ? value * by.at[j] : value) + plus.at[j];
                    value = value < 0.0f || (inside_next >> i & 1) == 0 ? 0.0f : value; /* NaN stays */
                }
                xs[buffer][lane * V + j][fetch_row + i * fetched] = value;
            }
            FXRT_UNROLL
            for (int i = 0; i < n_fetches; i++) {
                ws[buffer][lane * V + j][fetch_row + i * fetched] = static_cast<float>(w_next[i].at[j]);
            }
        }
    };

    const int at_m = thread / (Tile::N / Tile::TN) * 4, at_n = thread % (Tile::N / Tile::TN) * 4;
    float sum[Tile::TM][Tile::TN];
    FXRT_UNROLL
    for (int i = 0; i < Tile::TM; i++) {
        FXRT_UNROLL
        for (int j = 0; j < Tile::TN; j++) {
            sum[i][j] = 0.0f;
        }
    }
    if (steps > 0) {
        fetch();
        keep(0);
        __syncthreads();
    }
    FXRT_ROLLED
    for (int step = 0; step < steps; step++) {
        const bool more = step + 1 < steps;
        if (more) {
            fetch();
        }
        FXRT_UNROLL
        for (int k = 0; k < Tile::K; k++) {
            fxrt_cuda_vec<4> xv[pieces_m], wv[pieces_n];
            FXRT_UNROLL
            for (int i = 0; i < pieces_m; i++) {
                xv[i] = fxrt_cuda_load<4>(&xs[step % 2][k][at_m + i * (Tile::M / pieces_m)]);
            }
            FXRT_UNROLL
            for (int j = 0; j < pieces_n; j++) {
                wv[j] = fxrt_cuda_load<4>(&ws[step % 2][k][at_n + j * (Tile::N / pieces_n)]);
            }
            FXRT_UNROLL
            for (int i = 0; i < Tile::TM; i++) {
                FXRT_UNROLL
                for (int j = 0; j < Tile::TN; j++) {
                    sum[i][j] = fmaf(xv[i / 4].at[i % 4], wv[j / 4].at[j % 4], sum[i][j]);
                }
            }
        }
        if (more) {
            keep((step + 1) % 2);
            __syncthreads();
        }
    }

    /* The tail, a row of sums after the other: a loop that is not unrolled holds each activation's code once. The rows move up, so
     * that the one at hand is always the same registers. */
    FXRT_ROLLED
    for (int i = 0; i < Tile::TM; i++) {
        const int m = first_m + i / 4 * (Tile::M / pieces_m) + at_m + i % 4;
        if (m < total) {
            const int row = m / across.count, image = row / vertical.count;
            const long long oy = vertical.first + vertical.step * (row % vertical.count), ox = across.first + across.step * (m % across.count);
            const int column = group * d.oc;
            Y *to = y + (static_cast<long long>(image) * d.ys_n + oy * d.ys_h + ox * d.ys_w + column);
            const T *add = r ? r + (static_cast<long long>(image) * d.rs_n + oy * d.rs_h + ox * d.rs_w + column) : nullptr;
            FXRT_UNROLL
            for (int j = 0; j < pieces_n; j++) {
                const int n = first_n + at_n + j * (Tile::N / pieces_n);
                fxrt_cuda_add_four(&sum[0][4 * j], b ? b + column + n : nullptr, wide, d.oc - n);
                fxrt_cuda_add_four(&sum[0][4 * j], add && !gain ? add + n : nullptr, wide, d.oc - n);
            }
            fxrt_cuda_act(sum[0], d.act, d.act_a, d.act_b);
            if (gain) {
                FXRT_UNROLL
                for (int j = 0; j < pieces_n; j++) {
                    const int n = first_n + at_n + j * (Tile::N / pieces_n);
                    fxrt_cuda_scale_four(&sum[0][4 * j], gain + column + n, wide, d.oc - n);
                    fxrt_cuda_add_four(&sum[0][4 * j], add ? add + n : nullptr, wide, d.oc - n);
                }
            }
            FXRT_UNROLL
            for (int j = 0; j < pieces_n; j++) {
                const int n = first_n + at_n + j * (Tile::N / pieces_n);
                fxrt_cuda_store_four(to + n, &sum[0][4 * j], wide, d.oc - n);
            }
        }
        FXRT_UNROLL
        for (int k = 0; k + 1 < Tile::TM; k++) {
            FXRT_UNROLL
            for (int j = 0; j < Tile::TN; j++) {
                sum[k][j] = sum[k + 1][j];
            }
        }
    }
}

/* The largest grid of all phases: phase 0 has the most pixels. Returns false where their number is not an int's. */
template <class Tile, int Kind> FXRT_HOST bool fxrt_cuda_conv_grid(const fxrt_conv2d_desc *d, int parts, dim3 *grid)
{
    constexpr bool Transposed = Kind == FXRT_CUDA_CONV_TRANSPOSED;
    const long long rows = Transposed ? (d->oh + d->sh - 1) / d->sh : d->oh, columns = Transposed ? (d->ow + d->sw - 1) / d->sw : d->ow;
    const long long pixels = d->n * rows * columns, z = static_cast<long long>(d->groups) * (Transposed ? d->sh * d->sw : parts);
    grid->x = static_cast<unsigned>((pixels + Tile::M - 1) / Tile::M);
    grid->y = static_cast<unsigned>((d->oc + Tile::N - 1) / Tile::N);
    grid->z = static_cast<unsigned>(z);
    return pixels <= 0x7fffffff - Tile::M;
}

template <class Tile, int Kind, class T, class Y>
FXRT_HOST cudaError_t fxrt_cuda_conv_launch(const fxrt_conv2d_desc *d, int parts, const T *x, const T *w, const T *b, const T *r, Y *y, cudaStream_t stream,
                                            const T *scale = nullptr, const T *shift = nullptr, const T *gain = nullptr)
{
    dim3 grid;
    if (!fxrt_cuda_conv_grid<Tile, Kind>(d, parts, &grid) || d->ic < 1) {
        return cudaErrorInvalidValue;
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) { /* an empty result */
        return cudaSuccess;
    }
    const bool wide = d->oc % 4 == 0 && fxrt_cuda_points_by_four(d, b, r, y, gain);
    if (fxrt_cuda_aligned(x, w, scale, shift) && fxrt_cuda_fours(d->ic, d->xs_n, d->xs_h, d->xs_w)) {
        return FXCC_LAUNCH((fxrt_cuda_conv<Tile, 4, Kind, T, Y>), grid, Tile::threads, 0, stream, *d, wide, parts, x, w, b, r, scale, shift, gain, y);
    }
    return FXCC_LAUNCH((fxrt_cuda_conv<Tile, 1, Kind, T, Y>), grid, Tile::threads, 0, stream, *d, wide, parts, x, w, b, r, scale, shift, gain, y);
}

/* The tile that a group's channels fill best; `parts` as the kernel has them. */
template <int Kind, class T, class Y>
FXRT_HOST cudaError_t fxrt_cuda_conv_small_tiles(const fxrt_conv2d_desc *d, int parts, const T *x, const T *w, const T *b, const T *r, Y *y,
                                                 cudaStream_t stream, const T *scale = nullptr, const T *shift = nullptr, const T *gain = nullptr)
{
    if (d->oc <= fxrt_cuda_conv_narrow::N) {
        return fxrt_cuda_conv_launch<fxrt_cuda_conv_narrow, Kind>(d, parts, x, w, b, r, y, stream, scale, shift, gain);
    }
    return fxrt_cuda_conv_launch<fxrt_cuda_conv_small, Kind>(d, parts, x, w, b, r, y, stream, scale, shift, gain);
}

/* Large tiles do most arithmetic per byte, where there are enough of them to keep a device at work. */
#define FXRT_CUDA_CONV_ENOUGH 256
template <int Kind, class T>
FXRT_HOST cudaError_t fxrt_cuda_conv_choose(const fxrt_conv2d_desc *d, const T *x, const T *w, const T *b, const T *r, T *y, cudaStream_t stream,
                                            const T *scale = nullptr, const T *shift = nullptr, const T *gain = nullptr)
{
    dim3 grid;
    const bool fits = fxrt_cuda_conv_grid<fxrt_cuda_conv_large, Kind>(d, 1, &grid) && d->oc > fxrt_cuda_conv_narrow::N;
    if (fits && static_cast<unsigned long long>(grid.x) * grid.y * grid.z >= FXRT_CUDA_CONV_ENOUGH) {
        return fxrt_cuda_conv_launch<fxrt_cuda_conv_large, Kind>(d, 1, x, w, b, r, y, stream, scale, shift, gain);
    }
    return fxrt_cuda_conv_small_tiles<Kind>(d, 1, x, w, b, r, y, stream, scale, shift, gain);
}
