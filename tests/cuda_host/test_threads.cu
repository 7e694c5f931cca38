/* Several threads of the host at once, each with a stream, buffers and errors of its own work.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

#include <thread>

__global__ void running_sums(const float *in, float *out) {
    __shared__ float x[128];
    const int i = static_cast<int>(threadIdx.x);
    x[i] = in[i];
    __syncthreads();
    for (int distance = 1; distance < 128; distance *= 2) {
        const float below = i >= distance ? x[i - distance] : 0.0f;
        __syncthreads();
        x[i] += below;
        __syncthreads();
    }
    out[i] = x[i];
}

static void work(unsigned seed) {
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
        const std::vector<float> in = numbers(128, seed);
        buffer<float> din(in), dout(128);
        for (int again = 0; again < 20; again++) {
            CHECK_CUDA(FXCC_LAUNCH(running_sums, 1, 128, 0, stream, din.at, dout.at));
            CHECK_CUDA(cudaStreamSynchronize(stream));
            std::vector<float> out(128);
            CHECK_CUDA(cudaMemcpyAsync(out.data(), dout.at, 128 * sizeof(float), cudaMemcpyDeviceToHost, stream));
            CHECK_CUDA(cudaStreamSynchronize(stream));
            float sum = 0.0f;
            for (size_t i = 0; i < 128; i++) {
                sum += in[i];
                CHECK(out[i] == sum);
            }
        }
    }
    CHECK_CUDA(cudaStreamDestroy(stream));
}

static void test_threads() {
    std::thread one(work, 1u), two(work, 2u), three(work, 3u);
    work(4);
    one.join();
    two.join();
    three.join();
}

int main() {
    each_schedule("threads", test_threads);
    return 0;
}
