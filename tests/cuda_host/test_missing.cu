/* A barrier taken away, in each place where one stands, changes a result under some schedule, and is a race where each launch runs under all of
 * them. With all barriers in place, none is seen.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

/* Barrier number N, but for the one that is missing. */
#define BARRIER(n)                                                                                                                             \
    if (Missing != (n)) {                                                                                                                      \
        __syncthreads();                                                                                                                       \
    }
#define WARP_BARRIER(n)                                                                                                                        \
    if (Missing != (n)) {                                                                                                                      \
        __syncwarp();                                                                                                                          \
    }

/* Two sums over the block in a row, which use the same scratch: 1 before the partial sums are read, 2 before they are written again. */
template <int Missing> __global__ void two_sums(const float *in, float *out) {
    __shared__ float parts[8];
    for (int pass = 0; pass < 2; pass++) {
        float x = in[threadIdx.x] * static_cast<float>(pass + 1);
        for (int distance = 16; distance > 0; distance /= 2) {
            x += __shfl_xor_sync(0xffffffff, x, distance);
        }
        if (threadIdx.x % 32 == 0) {
            parts[threadIdx.x / 32] = x;
        }
        BARRIER(1)
        x = parts[threadIdx.x % 8];
        for (int distance = 4; distance > 0; distance /= 2) {
            x += __shfl_xor_sync(0xffffffff, x, distance);
        }
        BARRIER(2)
        out[static_cast<unsigned>(pass) * blockDim.x + threadIdx.x] = x;
    }
}
template <int Missing> static bool two_sums_right() {
    const std::vector<float> in = numbers(256, 1);
    buffer<float> din(in), dout(512);
    if (FXCC_LAUNCH(two_sums<Missing>, 1, 256, 0, nullptr, din.at, dout.at) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) {
        return false;
    }
    float sum = 0.0f;
    for (float x : in) {
        sum += x;
    }
    const std::vector<float> out = dout.get();
    for (size_t i = 0; i < 512; i++) {
        if (!(out[i] == (i < 256 ? sum : 2.0f * sum))) {
            return false;
        }
    }
    return true;
}

/* A tree in shared memory: 1 before the tree, 2 between its steps, 3 and 4 within the last warp. */
template <int Missing> __global__ void tree(const float *in, float *out) {
    __shared__ float x[128];
    const int i = static_cast<int>(threadIdx.x);
    x[i] = in[i];
    BARRIER(1)
    for (int half = 64; half >= 32; half /= 2) {
        if (i < half) {
            x[i] += x[i + half];
        }
        BARRIER(2)
    }
    if (i < 32) {
        for (int half = 16; half > 0; half /= 2) {
            const float other = i < half ? x[i + half] : 0.0f;
            WARP_BARRIER(3)
            x[i] = i < half ? x[i] + other : 0.0f;
            WARP_BARRIER(4)
        }
    }
    if (i == 0) {
        *out = x[0];
    }
}
template <int Missing> static bool tree_right() {
    const std::vector<float> in = numbers(128, 2);
    buffer<float> din(in), dout(1);
    if (FXCC_LAUNCH(tree<Missing>, 1, 128, 0, nullptr, din.at, dout.at) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) {
        return false;
    }
    float sum = 0.0f;
    for (float x : in) {
        sum += x;
    }
    return dout.get()[0] == sum;
}

/* Tiles through double-buffered shared memory: 1 after the first fetch, 2 at the end of each step. */
template <int Missing> __global__ void product(const float *a, const float *b, float *c, int k) {
    __shared__ float as[2][16][16], bs[2][16][16];
    const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    float sum = 0.0f;
    as[0][y][x] = a[y * k + x];
    bs[0][y][x] = b[y * 16 + x];
    BARRIER(1)
    for (int from = 0, now = 0; from < k; from += 16, now ^= 1) {
        if (from + 16 < k) {
            as[now ^ 1][y][x] = a[y * k + from + 16 + x];
            bs[now ^ 1][y][x] = b[(from + 16 + y) * 16 + x];
        }
        for (int i = 0; i < 16; i++) {
            sum += as[now][y][i] * bs[now][i][x];
        }
        BARRIER(2)
    }
    c[y * 16 + x] = sum;
}
template <int Missing> static bool product_right() {
    const int k = 64;
    const std::vector<float> a = numbers(16 * k, 3), b = numbers(k * 16, 4);
    buffer<float> da(a), db(b), dc(256);
    if (FXCC_LAUNCH(product<Missing>, 1, dim3(16, 16), 0, nullptr, da.at, db.at, dc.at, k) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess) {
        return false;
    }
    const std::vector<float> c = dc.get();
    for (size_t i = 0; i < 256; i++) {
        float want = 0.0f;
        for (size_t l = 0; l < k; l++) {
            want += a[i / 16 * k + l] * b[l * 16 + i % 16];
        }
        if (!(c[i] == want)) {
            return false;
        }
    }
    return true;
}

/* A write in place that other blocks read. */
__global__ void shift_in_place(float *x, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 1 < n) {
        x[i] = x[i + 1] + 1.0f;
    }
}

#ifdef FXCU_HOST
static void expect_race(const char *name, bool (*test)()) {
    fxcu_reset();
    fxcu_quiet(1);
    fxcu_set_schedule(FXCU_EACH, 1);
    CHECK(!test());
    printf("%s: %s\n", name, fxcu_message());
    CHECK(strstr(fxcu_message(), "schedules forward and ") && strstr(fxcu_message(), ": a race"));
    fxcu_quiet(0);
    fxcu_reset();
}

static bool shift_right() {
    buffer<float> x(numbers(256, 5));
    return FXCC_LAUNCH(shift_in_place, 8, 32, 0, nullptr, x.at, 256) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
}

static void expect_caught(const char *name, bool (*test)()) {
    const int failed = schedules_that_fail(test);
    printf("%s: caught by %d of %d schedules\n", name, failed, FXCU_SCHEDULES);
    CHECK(failed > 0);
    expect_race(name, test);
}
#endif

int main() {
    each_schedule("two sums", [] { CHECK(two_sums_right<0>()); });
    each_schedule("tree", [] { CHECK(tree_right<0>()); });
    each_schedule("product", [] { CHECK(product_right<0>()); });
#ifdef FXCU_HOST
    expect_caught("two sums without barrier 1", two_sums_right<1>);
    expect_caught("two sums without barrier 2", two_sums_right<2>);
    expect_caught("tree without barrier 1", tree_right<1>);
    expect_caught("tree without barrier 2", tree_right<2>);
    expect_caught("tree without barrier 3", tree_right<3>);
    expect_caught("tree without barrier 4", tree_right<4>);
    expect_caught("product without barrier 1", product_right<1>);
    expect_caught("product without barrier 2", product_right<2>);
    expect_race("shift in place", shift_right);
#endif
    return 0;
}
