/* Kernels of the kinds that are emitted, each against a plain loop: pointwise, reduction, transpose, scan, softmax, gemm, histogram.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

static __global__ void add_relu(const float4 *a, const float4 *b, float4 *out, int n) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        float4 x = __ldg(a + i), y = __ldg(b + i);
        out[i] = make_float4(fmaxf(x.x + y.x, 0.0f), fmaxf(x.y + y.y, 0.0f), fmaxf(x.z + y.z, 0.0f), fmaxf(x.w + y.w, 0.0f));
    }
}

static void test_pointwise() {
    const int n = 1000;
    const std::vector<float> a = numbers(4 * n, 1), b = numbers(4 * n, 2);
    buffer<float> da(a), db(b), dout(4 * n);
    CHECK_CUDA(FXCC_LAUNCH(add_relu, (n + 255) / 256, 256, 0, nullptr, reinterpret_cast<const float4 *>(da.at),
                           reinterpret_cast<const float4 *>(db.at), reinterpret_cast<float4 *>(dout.at), n));
    const std::vector<float> out = dout.get();
    for (size_t i = 0; i < out.size(); i++) {
        CHECK(out[i] == fmaxf(a[i] + b[i], 0.0f));
    }
}

__device__ static float warp_sum(float x) {
    for (int distance = 16; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffff, x, distance);
    }
    return x;
}

/* The sum over the block, for every thread. */
__device__ static float block_sum(float x) {
    __shared__ float parts[32];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = x;
    }
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0.0f;
    x = warp_sum(x);
    __syncthreads(); /* parts may be written again */
    return x;
}

static __global__ void sum_rows(const float *in, float *out, int width) {
    float sum = 0.0f;
    for (int i = static_cast<int>(threadIdx.x); i < width; i += static_cast<int>(blockDim.x)) {
        sum += in[static_cast<size_t>(blockIdx.x) * static_cast<size_t>(width) + static_cast<size_t>(i)];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = sum;
    }
}

static void test_reduction() {
    const size_t rows = 5, width = 1000;
    const std::vector<float> in = numbers(rows * width, 3);
    buffer<float> din(in), dout(rows);
    CHECK_CUDA(FXCC_LAUNCH(sum_rows, rows, 256, 0, nullptr, din.at, dout.at, static_cast<int>(width)));
    const std::vector<float> out = dout.get();
    for (size_t r = 0; r < rows; r++) {
        float want = 0.0f;
        for (size_t i = 0; i < width; i++) {
            want += in[r * width + i];
        }
        CHECK(out[r] == want);
    }
}

static __global__ void softmax_rows(const float *in, float *out, int width) {
    const float *row = in + static_cast<size_t>(blockIdx.x) * static_cast<size_t>(width);
    const int lane = static_cast<int>(threadIdx.x);
    float most = -INFINITY;
    for (int i = lane; i < width; i += 32) {
        most = fmaxf(most, row[i]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_down_sync(0xffffffff, most, static_cast<unsigned>(distance)));
    }
    most = __shfl_sync(0xffffffff, most, 0);
    float sum = 0.0f;
    for (int i = lane; i < width; i += 32) {
        sum += __expf(row[i] - most);
    }
    sum = warp_sum(sum);
    for (int i = lane; i < width; i += 32) {
        out[static_cast<size_t>(blockIdx.x) * static_cast<size_t>(width) + static_cast<size_t>(i)] = __fdividef(__expf(row[i] - most), sum);
    }
}

static void test_softmax() {
    const size_t rows = 4, width = 77;
    const std::vector<float> in = numbers(rows * width, 4);
    buffer<float> din(in), dout(rows * width);
    CHECK_CUDA(FXCC_LAUNCH(softmax_rows, rows, 32, 0, nullptr, din.at, dout.at, static_cast<int>(width)));
    const std::vector<float> out = dout.get();
    for (size_t r = 0; r < rows; r++) {
        double sum = 0.0;
        for (size_t i = 0; i < width; i++) {
            sum += exp(static_cast<double>(in[r * width + i]));
        }
        for (size_t i = 0; i < width; i++) {
            CHECK(fabs(static_cast<double>(out[r * width + i]) - exp(static_cast<double>(in[r * width + i])) / sum) < 1e-6);
        }
    }
}

template <class T, int Tile> __global__ void transpose(const T *in, T *out, int rows, int columns) {
    __shared__ T tile[Tile][Tile + 1];
    int x = static_cast<int>(blockIdx.x) * Tile + static_cast<int>(threadIdx.x),
        y = static_cast<int>(blockIdx.y) * Tile + static_cast<int>(threadIdx.y);
    if (x < columns && y < rows) {
        tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
    }
    __syncthreads();
    x = static_cast<int>(blockIdx.y) * Tile + static_cast<int>(threadIdx.x);
    y = static_cast<int>(blockIdx.x) * Tile + static_cast<int>(threadIdx.y);
    if (x < rows && y < columns) {
        out[y * rows + x] = tile[threadIdx.x][threadIdx.y];
    }
}

template <class T> static void test_transpose() {
    const int rows = 37, columns = 50, tile = 16;
    std::vector<T> in(rows * columns);
    for (size_t i = 0; i < in.size(); i++) {
        in[i] = static_cast<T>(i);
    }
    buffer<T> din(in), dout(in.size());
    const dim3 grid((columns + tile - 1) / tile, (rows + tile - 1) / tile);
    CHECK_CUDA(FXCC_LAUNCH((transpose<T, tile>), grid, dim3(tile, tile), 0, nullptr, din.at, dout.at, rows, columns));
    const std::vector<T> out = dout.get();
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            CHECK(out[static_cast<size_t>(c * rows + r)] == in[static_cast<size_t>(r * columns + c)]);
        }
    }
}

/* Inclusive sums of one block's numbers: in warps by shuffles, over the warps in dynamic shared memory. */
static __global__ void scan(const int *in, int *out, int n) {
    FXCC_DYN_SMEM(int, parts);
    const int i = static_cast<int>(threadIdx.x), lane = i % 32;
    int x = i < n ? in[i] : 0;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        const int below = __shfl_up_sync(0xffffffff, x, distance);
        x += lane >= static_cast<int>(distance) ? below : 0;
    }
    if (lane == 31) {
        parts[i / 32] = x;
    }
    __syncthreads();
    for (int w = 0; w < i / 32; w++) {
        x += parts[w];
    }
    if (i < n) {
        out[i] = x;
    }
}

static void test_scan() {
    const int n = 1000;
    std::vector<int> in(n);
    for (int i = 0; i < n; i++) {
        in[static_cast<size_t>(i)] = (i * 37) % 101 - 50;
    }
    buffer<int> din(in), dout(n);
    CHECK_CUDA(FXCC_LAUNCH(scan, 1, 1024, 32 * sizeof(int), nullptr, din.at, dout.at, n));
    const std::vector<int> out = dout.get();
    for (int i = 0, sum = 0; i < n; i++) {
        sum += in[static_cast<size_t>(i)];
        CHECK(out[static_cast<size_t>(i)] == sum);
    }
}

/* A tile of C a block; the next tiles of A and B are fetched into the other half of shared memory while these are multiplied. */
template <int Tile> __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float as[2][Tile][Tile], bs[2][Tile][Tile];
    const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    const int row = static_cast<int>(blockIdx.y) * Tile + y, column = static_cast<int>(blockIdx.x) * Tile + x;
    float sum = 0.0f;
    as[0][y][x] = row < m && x < k ? a[row * k + x] : 0.0f;
    bs[0][y][x] = y < k && column < n ? b[y * n + column] : 0.0f;
    __syncthreads();
    for (int from = 0, now = 0; from < k; from += Tile, now ^= 1) {
        const int next = from + Tile;
        if (next < k) {
            as[now ^ 1][y][x] = row < m && next + x < k ? a[row * k + next + x] : 0.0f;
            bs[now ^ 1][y][x] = next + y < k && column < n ? b[(next + y) * n + column] : 0.0f;
        }
        for (int i = 0; i < Tile; i++) {
            sum += as[now][y][i] * bs[now][i][x];
        }
        __syncthreads();
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}

static void test_gemm() {
    const int m = 33, n = 20, k = 45;
    const std::vector<float> a = numbers(m * k, 5), b = numbers(k * n, 6);
    buffer<float> da(a), db(b), dc(m * n);
    CHECK_CUDA(FXCC_LAUNCH(gemm<16>, dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16), 0, nullptr, da.at, db.at, dc.at, m, n, k));
    const std::vector<float> c = dc.get();
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            float want = 0.0f;
            for (int l = 0; l < k; l++) {
                want += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
            }
            CHECK(c[static_cast<size_t>(i * n + j)] == want);
        }
    }
}

/* Counts into shared memory by atomics, then into device memory; the last block, told by a counter, takes the total. */
static __global__ void histogram(const int *in, int n, unsigned *counts, unsigned *done, unsigned *total) {
    __shared__ unsigned mine[16];
    __shared__ bool last;
    if (threadIdx.x < 16) {
        mine[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += static_cast<int>(gridDim.x * blockDim.x)) {
        atomicAdd(&mine[in[i] & 15], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 16) {
        atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        *total = 0;
        for (int i = 0; i < 16; i++) {
            *total += atomicAdd(&counts[i], 0u);
        }
    }
}

static void test_histogram() {
    const int n = 3000;
    std::vector<int> in(n);
    std::vector<unsigned> want(16);
    for (int i = 0; i < n; i++) {
        in[static_cast<size_t>(i)] = i * i;
        want[static_cast<size_t>(i * i & 15)]++;
    }
    buffer<int> din(in);
    buffer<unsigned> counts(16), done(1), total(1);
    CHECK_CUDA(cudaMemset(counts.at, 0, 16 * sizeof(unsigned)));
    CHECK_CUDA(cudaMemset(done.at, 0, sizeof(unsigned)));
    CHECK_CUDA(FXCC_LAUNCH(histogram, 7, 64, 0, nullptr, din.at, n, counts.at, done.at, total.at));
    CHECK(counts.get() == want);
    CHECK(total.get()[0] == static_cast<unsigned>(n));
    CHECK(done.get()[0] == 0);
}

/* Votes, matches and segments of warps, with whole and partial masks. */
static __global__ void warps(unsigned *out) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    unsigned *mine = out + 8 * threadIdx.x;
    mine[0] = __ballot_sync(0xffffffff, lane % 3 == 0);
    mine[1] = static_cast<unsigned>(__any_sync(0xffffffff, lane == 7)) + 2u * static_cast<unsigned>(__all_sync(0xffffffff, lane < 31));
    mine[2] = __match_any_sync(0xffffffff, lane / 8);
    mine[3] = static_cast<unsigned>(__shfl_down_sync(0xffffffff, lane, 3, 8));
    mine[4] = static_cast<unsigned>(__shfl_xor_sync(0xffffffff, lane, 5, 16));
    if (lane < 12) {
        mine[5] = static_cast<unsigned>(__shfl_sync(0x00000fff, lane * 10, (lane + 1) % 12));
        __syncwarp(0x00000fff);
    } else {
        mine[5] = __ballot_sync(0xfffff000, 1);
    }
    __syncwarp();
    mine[6] = static_cast<unsigned>(__syncthreads_count(lane < 5));
    mine[7] = static_cast<unsigned>(__syncthreads_or(threadIdx.x == 40)) + 2u * static_cast<unsigned>(__syncthreads_and(threadIdx.x != 40));
}

static void test_warps() {
    buffer<unsigned> dout(64 * 8);
    CHECK_CUDA(FXCC_LAUNCH(warps, 1, 64, 0, nullptr, dout.at));
    const std::vector<unsigned> out = dout.get();
    for (unsigned t = 0; t < 64; t++) {
        const unsigned *mine = &out[8 * t], lane = t % 32;
        CHECK(mine[0] == 0x49249249u);
        CHECK(mine[1] == 1u);
        CHECK(mine[2] == 0xffu << lane / 8 * 8);
        CHECK(mine[3] == (lane % 8 < 5 ? lane + 3 : lane));
        CHECK(mine[4] == (lane ^ 5u));
        CHECK(mine[5] == (lane < 12 ? (lane + 1) % 12 * 10 : 0xfffff000u));
        CHECK(mine[6] == 10u);
        CHECK(mine[7] == 1u);
    }
}

/* A structure of pointers and numbers as an argument; a pair of blocks in z; threads that leave early where no barrier follows. */
struct view {
    const float *from;
    float *to;
    int n, scale;
};
static __global__ void scale(view v) {
    const int i = static_cast<int>((blockIdx.z * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x);
    if (i >= v.n) {
        return;
    }
    v.to[i] = v.from[i] * static_cast<float>(v.scale);
}

static void test_structure() {
    const std::vector<float> in = numbers(300, 7);
    buffer<float> din(in), dout(300);
    CHECK_CUDA(FXCC_LAUNCH(scale, dim3(2, 1, 2), 100, 0, nullptr, view{din.at, dout.at, 300, 3}));
    const std::vector<float> out = dout.get();
    for (size_t i = 0; i < out.size(); i++) {
        CHECK(out[i] == 3.0f * in[i]);
    }
}

int main() {
    each_schedule("pointwise", test_pointwise);
    each_schedule("reduction", test_reduction);
    each_schedule("softmax", test_softmax);
    each_schedule("transpose of float", test_transpose<float>);
    each_schedule("transpose of double", test_transpose<double>);
    each_schedule("scan", test_scan);
    each_schedule("gemm", test_gemm);
    each_schedule("histogram", test_histogram);
    each_schedule("warps", test_warps);
    each_schedule("structure", test_structure);
    return 0;
}
