/* conv_tile.h: convolution of channels-last images as an implicit matrix product, in tiles of shared memory; conv2d.h and
 * conv_transpose2d.h launch it. Follows
 * conv_points.h and conv_split.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A block makes Tile::M output pixels x Tile::N output channels of one group: grid (pixels, channels, groups x phases or parts). Sums run over the
 * taps and the input channels, in the order of the weights [groups*oc][kh][kw][ic], Tile::K at a time: while the threads multiply one buffer of
 * shared memory, what the next one needs is on its way to their registers. Nothing is unrolled into an im2col matrix: each element is
 * read where it lies, and one outside of the image is zero.
 *
 * Few tiles and long sums would leave a device idle. In a sliced tile the threads fall into slices, each with terms of its own of the buffer at hand, whose
 * sums shared memory adds. And several blocks may make parts of a tile's sums: each leaves its part in the workspace and counts itself; the one that finds itself the
 * last adds all parts, in their order: the result does not depend on who is first. No block waits for another. */

/* What is convolved: x as it lies; transposed; or max(0, x scale + shift), by input channel (no scale is 1, no shift 0), where the image is: what is outside
 * stays zero. */
enum { FXRT_CUDA_CONV_PLAIN, FXRT_CUDA_CONV_TRANSPOSED, FXRT_CUDA_CONV_PRE };

/* What a block makes, and what of it a thread: TM x TN, in pieces of 4 x 4 that lie M / (TM / 4) and N / (TN / 4) apart, so that the
 * lanes of a warp read neighbouring 16 bytes of shared memory and write neighbouring 16 bytes of the result. */
template <int M_, int N_, int K_, int TM_, int TN_, int Slices_ = 1> struct fxrt_cuda_conv_shape {
    static constexpr int M = M_, N = N_, K = K_, TM = TM_, TN = TN_, slices = Slices_;
    static constexpr int of_slice = M / TM * (N / TN), threads = of_slice * slices;
    /* Blocks whose registers a multiprocessor is to hold: of kernels that need many, fewer. */
    static constexpr int resident = (TM * TN >= 64 ? 384 : 768) / threads, resident_few = (TM * TN >= 64 ? 384 : 512) / threads;
    /* Rows of K are columns in shared memory; 4 more floats a row keep the stores of a warp apart in the banks. */
    static constexpr int x_row = M + 4, w_row = N + 4;
    static_assert(M % TM == 0 && N % TN == 0 && TM % 4 == 0 && TN % 4 == 0, "threads fill the tile");
    static_assert(slices == 1 || (threads * 4 == M * N && M == N && slices / 2 * M * N <= 2 * K * x_row && slices % 2 == 0 && K % slices == 0), "a sliced tile ends with four sums a thread");
};
typedef fxrt_cuda_conv_shape<128, 64, 8, 8, 8> fxrt_cuda_conv_large; /* 128 threads */
typedef fxrt_cuda_conv_shape<64, 64, 16, 4, 4> fxrt_cuda_conv_small; /* 256 threads */
typedef fxrt_cuda_conv_shape<64, 32, 16, 4, 4> fxrt_cuda_conv_narrow; /* 128 threads; for up to 32 channels */
typedef fxrt_cuda_conv_shape<FXRT_CUDA_CONV_SLICED_SIDE, FXRT_CUDA_CONV_SLICED_SIDE, 32, 4, 4, 4> fxrt_cuda_conv_sliced; /* 256 threads */

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

/* Where parts of sums go: [tiles][parts][M][N] floats, and by tile how many of its parts are there. n is as wide as a pointer: an argument without
 * gaps, whose bytes would be anything (the host's CUDA looks for pointers of the host in all of them). */
struct fxrt_cuda_conv_parts {
    long long n;
    float *sums;
    int *counts;
};

/* Leaves four sums of a tile's part where the last block of the tile finds them. True in that one, which then has the four of all parts. */
template <int Size> FXRT_DEVICE bool fxrt_cuda_conv_join(const fxrt_cuda_conv_parts &parts, int tile, int part, bool live, float *sum)
{
    __shared__ bool last;
    float *const all = parts.sums + (static_cast<long long>(tile) * parts.n * Size + static_cast<int>(threadIdx.x) * 4);
    if (live) {
        fxrt_cuda_vec<4> mine = {{sum[0], sum[1], sum[2], sum[3]}};
        fxrt_cuda_store<4>(all + static_cast<long long>(part) * Size, mine);
    }
    __syncthreads(); /* the part is there */
    if (threadIdx.x == 0) {
        __threadfence(); /* for all that see it counted */
        last = atomicAdd(parts.counts + tile, 1) == parts.n - 1;
        if (last) {
            atomicExch(parts.counts + tile, 0); /* for the next launch */
        }
        __threadfence(); /* what was counted is seen by this block */
    }
    __syncthreads();
    if (!last) {
        return false;
    }
    float total[4] = {};
    FXRT_ROLLED
    for (int i = 0; i < parts.n && live; i++) {
        float4 add = {sum[0], sum[1], sum[2], sum[3]};
        if (i != part) { /* not by the first cache, which others' stores do not reach */
            add = __ldcg(reinterpret_cast<const float4 *>(all + static_cast<long long>(i) * Size));
        }
        total[0] += add.x;
        total[1] += add.y;
        total[2] += add.z;
        total[3] += add.w;
    }
    FXRT_UNROLL
    for (int j = 0; j < 4; j++) {
        sum[j] = total[j];
    }
    return true;
}

/* V: neighbours in the innermost direction per access of x and w. wide: y, b and r allow four elements at once. parts: more than one for sliced tiles only.
 * Sums are floats always. scale and shift: of FXRT_CUDA_CONV_PRE. The result is act(sum + b + r) or, with a gain by output channel, act(sum + b) gain + r. */
template <class Tile, int V, int Kind, class T>
static __global__ void __launch_bounds__(Tile::threads, V == 1 && Kind == FXRT_CUDA_CONV_TRANSPOSED ? Tile::resident_few : Tile::resident)
    fxrt_cuda_conv(fxrt_conv2d_desc d, bool wide, fxrt_cuda_conv_parts parts, const T *__restrict__ x, const T *__restrict__ w, const T *__restrict__ b,
                   const T *r, const T *__restrict__ scale, const T *__restrict__ shift, const T *__restrict__ gain, T *y)
{
    constexpr bool Transposed = Kind == FXRT_CUDA_CONV_TRANSPOSED, Pre = Kind == FXRT_CUDA_CONV_PRE;
    constexpr int lanes = Tile::K / V;                /* threads that fetch one row of K elements */
    constexpr int fetched = Tile::threads / lanes;    /* rows that all threads fetch at once */
    constexpr int m_fetches = Tile::M / fetched, n_fetches = Tile::N / fetched;
    constexpr int pieces_m = Tile::TM / 4, pieces_n = Tile::TN / 4;
    static_assert(Tile::M % fetched == 0 && Tile::N % fetched == 0, "threads fetch whole rows");
    constexpr bool sliced = Tile::slices > 1;
    __align__(16) __shared__ float xs[2][Tile::K][Tile::x_row];
    __align__(16) __shared__ float ws[2][Tile::K][Tile::w_row];
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
    if (sliced && !Transposed && parts.n > 1) {
        const int first = static_cast<int>(static_cast<long long>(part) * steps / parts.n), tap = first * Tile::K / d.ic;
        steps = static_cast<int>(static_cast<long long>(part + 1) * steps / parts.n) - first;
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

    const int slice = thread / Tile::of_slice, in_slice = thread % Tile::of_slice;
    const int at_m = in_slice / (Tile::N / Tile::TN) * 4, at_n = in_slice % (Tile::N / Tile::TN) * 4;
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
        for (int k = 0; k < Tile::K / Tile::slices; k++) {
            const int row = slice * (Tile::K / Tile::slices) + k;
            fxrt_cuda_vec<4> xv[pieces_m], wv[pieces_n];
            FXRT_UNROLL
            for (int i = 0; i < pieces_m; i++) {
                xv[i] = fxrt_cuda_load<4>(&xs[step % 2][row][at_m + i * (Tile::M / pieces_m)]);
            }
            FXRT_UNROLL
            for (int j = 0; j < pieces_n; j++) {
                wv[j] = fxrt_cuda_load<4>(&ws[step % 2][row][at_n + j * (Tile::N / pieces_n)]);
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

    /* A sliced tile: the slices' sums, half of them where x was and half where w was, and then four of the whole tile a thread, in sum[0]. */
    constexpr int half = (Tile::slices + 1) / 2, quads = Tile::N / 4, rows = sliced ? 1 : Tile::TM, pieces = sliced ? 1 : pieces_n;
    const int row_m = sliced ? thread / quads : at_m, row_n = sliced ? thread % quads * 4 : at_n;
    if (sliced) {
        const auto sums_of = [&](int i) {
            return (i < half ? &xs[0][0][0] : &ws[0][0][0]) + i % half * (Tile::M * Tile::N);
        };
        __syncthreads(); /* the last buffer was read */
        FXRT_UNROLL
        for (int i = 0; i < 4; i++) {
            const fxrt_cuda_vec<4> four = {{sum[i][0], sum[i][1], sum[i][2], sum[i][3]}};
            fxrt_cuda_store<4>(sums_of(slice) + ((at_m + i) * Tile::N + at_n), four);
        }
        __syncthreads();
        FXRT_UNROLL
        for (int i = 0; i < Tile::slices; i++) {
            const fxrt_cuda_vec<4> four = fxrt_cuda_load<4>(sums_of(i) + thread * 4);
            FXRT_UNROLL
            for (int j = 0; j < 4; j++) {
                sum[0][j] = i > 0 ? sum[0][j] + four.at[j] : four.at[j];
            }
        }
        if (!Transposed && parts.n > 1) {
            const int tile = (group * static_cast<int>(gridDim.y) + static_cast<int>(blockIdx.y)) * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
            if (!fxrt_cuda_conv_join<Tile::M * Tile::N>(parts, tile, part, first_m + row_m < total && first_n + row_n < d.oc, sum[0])) {
                return;
            }
        }
    }

    /* The tail, a row of sums after the other: a loop that is not unrolled holds each activation's code once. The rows move up, so
     * that the one at hand is always the same registers. */
    FXRT_ROLLED
    for (int i = 0; i < rows; i++) {
        const int m = first_m + i / 4 * (Tile::M / pieces_m) + row_m + i % 4;
        if (m < total) {
            const int row = m / across.count, image = row / vertical.count;
            const long long oy = vertical.first + vertical.step * (row % vertical.count), ox = across.first + across.step * (m % across.count);
            const int column = group * d.oc;
            T *to = y + (static_cast<long long>(image) * d.ys_n + oy * d.ys_h + ox * d.ys_w + column);
            const T *add = r ? r + (static_cast<long long>(image) * d.rs_n + oy * d.rs_h + ox * d.rs_w + column) : nullptr;
            FXRT_UNROLL
            for (int j = 0; j < pieces; j++) {
                const int n = first_n + row_n + j * (Tile::N / pieces_n);
                fxrt_cuda_add_four(&sum[0][4 * j], b ? b + column + n : nullptr, wide, d.oc - n);
                fxrt_cuda_add_four(&sum[0][4 * j], add && !gain ? add + n : nullptr, wide, d.oc - n);
            }
            fxrt_cuda_act(sum[0], d.act, d.act_a, d.act_b);
            if (gain) {
                FXRT_UNROLL
                for (int j = 0; j < pieces; j++) {
                    const int n = first_n + row_n + j * (Tile::N / pieces_n);
                    fxrt_cuda_scale_four(&sum[0][4 * j], gain + column + n, wide, d.oc - n);
                    fxrt_cuda_add_four(&sum[0][4 * j], add ? add + n : nullptr, wide, d.oc - n);
                }
            }
            FXRT_UNROLL
            for (int j = 0; j < pieces; j++) {
                const int n = first_n + row_n + j * (Tile::N / pieces_n);
                fxrt_cuda_store_four(to + n, &sum[0][4 * j], wide, d.oc - n);
            }
        }
        FXRT_UNROLL
        for (int k = 0; k + 1 < rows; k++) {
            FXRT_UNROLL
            for (int j = 0; j < Tile::TN; j++) {
                sum[k][j] = sum[k + 1][j];
            }
        }
    }
}

/* The largest grid of all phases: phase 0 has the most pixels. Returns false where their number is not an int's. */
template <class Tile, int Kind> FXRT_HOST bool fxrt_cuda_conv_grid(const fxrt_conv2d_desc *d, long long parts, dim3 *grid)
{
    constexpr bool Transposed = Kind == FXRT_CUDA_CONV_TRANSPOSED;
    const long long rows = Transposed ? (d->oh + d->sh - 1) / d->sh : d->oh, columns = Transposed ? (d->ow + d->sw - 1) / d->sw : d->ow;
    const long long pixels = d->n * rows * columns, z = static_cast<long long>(d->groups) * (Transposed ? d->sh * d->sw : parts);
    grid->x = static_cast<unsigned>((pixels + Tile::M - 1) / Tile::M);
    grid->y = static_cast<unsigned>((d->oc + Tile::N - 1) / Tile::N);
    grid->z = static_cast<unsigned>(z);
    return pixels <= 0x7fffffff - Tile::M;
}

template <class Tile, int Kind, class T>
FXRT_HOST cudaError_t fxrt_cuda_conv_launch(const fxrt_conv2d_desc *d, const fxrt_cuda_conv_parts &parts, const T *x, const T *w, const T *b, const T *r, T *y,
                                            cudaStream_t stream, const T *scale = nullptr, const T *shift = nullptr, const T *gain = nullptr)
{
    dim3 grid;
    if (!fxrt_cuda_conv_grid<Tile, Kind>(d, parts.n, &grid) || d->ic < 1) {
        return cudaErrorInvalidValue;
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) { /* an empty result */
        return cudaSuccess;
    }
    const bool wide = d->oc % 4 == 0 && fxrt_cuda_points_by_four(d, b, r, y, gain);
    if (fxrt_cuda_aligned(x, w, scale, shift) && fxrt_cuda_fours(d->ic, d->xs_n, d->xs_h, d->xs_w)) {
        return FXCC_LAUNCH((fxrt_cuda_conv<Tile, 4, Kind, T>), grid, Tile::threads, 0, stream, *d, wide, parts, x, w, b, r, scale, shift, gain, y);
    }
    return FXCC_LAUNCH((fxrt_cuda_conv<Tile, 1, Kind, T>), grid, Tile::threads, 0, stream, *d, wide, parts, x, w, b, r, scale, shift, gain, y);
}

/* As `way` says; in parts only where there is room for them. */
template <int Kind, class T>
FXRT_HOST cudaError_t fxrt_cuda_conv_by(const fxrt_conv2d_desc *d, const fxrt_cuda_conv_way &way, const T *x, const T *w, const T *b, const T *r, T *y,
                                        float *sums, int *counts, cudaStream_t stream, const T *scale = nullptr, const T *shift = nullptr, const T *gain = nullptr)
{
    const fxrt_cuda_conv_parts whole = {1, nullptr, nullptr}, parts = {sums && counts ? way.parts : 1, sums, counts};
    switch (way.tile) {
    case FXRT_CUDA_CONV_LARGE: return fxrt_cuda_conv_launch<fxrt_cuda_conv_large, Kind>(d, whole, x, w, b, r, y, stream, scale, shift, gain);
    case FXRT_CUDA_CONV_SMALL: return fxrt_cuda_conv_launch<fxrt_cuda_conv_small, Kind>(d, whole, x, w, b, r, y, stream, scale, shift, gain);
    case FXRT_CUDA_CONV_NARROW: return fxrt_cuda_conv_launch<fxrt_cuda_conv_narrow, Kind>(d, whole, x, w, b, r, y, stream, scale, shift, gain);
    default: return fxrt_cuda_conv_launch<fxrt_cuda_conv_sliced, Kind>(d, parts, x, w, b, r, y, stream, scale, shift, gain);
    }
}
