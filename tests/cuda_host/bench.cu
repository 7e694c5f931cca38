/* How fast the host's CUDA is: what a thread costs without barriers, at barriers, in warp operations; and a product.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

#include <cublas_v2.h>
#include <time.h>

static __global__ void pointwise(const float *in, float *out, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        out[i] = in[i] * 2.0f + 1.0f;
    }
}
static __global__ void barriers(float *out, int times) {
    for (int i = 0; i < times; i++) {
        __syncthreads();
    }
    out[threadIdx.x] = 1.0f;
}
static __global__ void shuffles(float *out, int times) {
    float x = 1.0f;
    for (int i = 0; i < times; i++) {
        x = __shfl_xor_sync(0xffffffff, x, 1);
    }
    out[threadIdx.x] = x;
}

/* A product as it would be emitted: tiles of 64 x 64, 8 deep, 4 x 4 sums a thread. Sides are multiples of 64. */
static __global__ void product(const float *a, const float *b, float *c, int side) {
    __shared__ float as[8][64], bs[8][64];
    const int t = static_cast<int>(threadIdx.x), top = static_cast<int>(blockIdx.y) * 64, left = static_cast<int>(blockIdx.x) * 64,
              y = t / 16 * 4, x = t % 16 * 4;
    float sums[4][4] = {};
    for (int from = 0; from < side; from += 8) {
        for (int i = t; i < 512; i += 256) {
            as[i % 8][i / 8] = a[(top + i / 8) * side + from + i % 8];
            bs[i / 64][i % 64] = b[(from + i / 64) * side + left + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 8; k++) {
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++) {
                    sums[i][j] += as[k][y + i] * bs[k][x + j];
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            c[(top + y + i) * side + left + x + j] = sums[i][j];
        }
    }
}

template <class F> static double seconds(F run) { /* of the processor's time, the best of five */
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        const clock_t start = clock();
        run();
        CHECK_CUDA(cudaDeviceSynchronize());
        best = fmin(best, static_cast<double>(clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
}

int main() {
    const int n = 1 << 22, times = 2000, threads = 256;
    buffer<float> in(static_cast<size_t>(n)), out(static_cast<size_t>(n));
    const double p = seconds([&] { CHECK_CUDA(FXCC_LAUNCH(pointwise, n / threads, threads, 0, nullptr, in.at, out.at, n)); });
    printf("pointwise, %d threads a block: %.1f ns a thread\n", threads, p / n * 1e9);
    const double b = seconds([&] { CHECK_CUDA(FXCC_LAUNCH(barriers, 1, threads, 0, nullptr, out.at, times)); });
    printf("barrier, %d threads: %.1f ns a thread and barrier\n", threads, b / times / threads * 1e9);
    const double s = seconds([&] { CHECK_CUDA(FXCC_LAUNCH(shuffles, 1, threads, 0, nullptr, out.at, times)); });
    printf("shuffle, %d threads: %.1f ns a thread and shuffle\n", threads, s / times / threads * 1e9);
    const double l = seconds([&] {
        for (int i = 0; i < times; i++) {
            CHECK_CUDA(FXCC_LAUNCH(pointwise, 1, 32, 0, nullptr, in.at, out.at, 0));
        }
    });
    printf("launch of one warp: %.2f us\n", l / times * 1e6);
    const int side = 768;
    cublasHandle_t handle;
    const float one = 1.0f, zero = 0.0f;
    CHECK(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    CHECK_CUDA(cudaMemset(in.at, 0, static_cast<size_t>(n) * sizeof(float)));
    const double g = seconds([&] {
        CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &one, in.at, side, in.at, side, &zero, out.at, side) ==
              CUBLAS_STATUS_SUCCESS);
    });
    const double k =
        seconds([&] { CHECK_CUDA(FXCC_LAUNCH(product, dim3(side / 64, side / 64), 256, 0, nullptr, in.at, in.at, out.at, side)); });
    printf("the same by a tiled kernel: %.2f GFLOP/s\n", 2.0 * side * side * side / k * 1e-9);
    printf("product of %d x %d: %.1f GFLOP/s\n", side, side, 2.0 * side * side * side / g * 1e-9);
    CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
    return 0;
}
