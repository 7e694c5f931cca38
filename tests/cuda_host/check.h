/* What the tests of tests/cuda_host share. They also compile with nvcc, where each runs once, in the GPU's own order.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_CHECK_H
#define FXCU_CHECK_H
#include <cuda_runtime.h>

#include "../../runtime/cuda/launch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

static inline void check_failed(const char *what, const char *file, int line) {
    fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
    exit(1);
}
#define CHECK(condition) ((condition) ? static_cast<void>(0) : check_failed(#condition, __FILE__, __LINE__))
#define CHECK_CUDA(call) check_cuda(call, cudaSuccess, #call, __FILE__, __LINE__)
static inline void check_cuda(cudaError_t got, cudaError_t want, const char *what, const char *file, int line) {
    if (got != want) {
        fprintf(stderr, "%s:%d: %s gives %s, not %s\n", file, line, what, cudaGetErrorName(got), cudaGetErrorName(want));
        exit(1);
    }
}

/* A device buffer, filled from the host or left as it comes. */
template <class T> struct buffer {
    T *at = nullptr;
    size_t count;
    explicit buffer(size_t n) : count(n) { CHECK_CUDA(cudaMalloc(&at, n * sizeof(T))); }
    explicit buffer(const std::vector<T> &from) : buffer(from.size()) { put(from); }
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    ~buffer() { cudaFree(at); }
    void put(const std::vector<T> &from) { CHECK_CUDA(cudaMemcpy(at, from.data(), count * sizeof(T), cudaMemcpyHostToDevice)); }
    std::vector<T> get() const {
        std::vector<T> to(count);
        CHECK_CUDA(cudaMemcpy(to.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost));
        return to;
    }
};

/* Small numbers whose sums are exact, so that every order of adding gives the same bits. */
static inline std::vector<float> numbers(size_t n, unsigned seed) {
    std::vector<float> to(n);
    for (float &x : to) {
        seed = seed * 1664525u + 1013904223u;
        x = static_cast<float>(static_cast<int>(seed >> 24) - 128) / 16.0f;
    }
    return to;
}

#ifdef FXCU_HOST
#ifdef FXCU_ASAN
constexpr bool with_asan = true;
#else
constexpr bool with_asan = false;
#endif

/* Runs a test under each of the schedules, and once with every launch under all of them. Nothing may leak. */
template <class F> void each_schedule(const char *name, F test) {
    for (int i = 0; i <= FXCU_SCHEDULES; i++) {
        fxcu_reset();
        if (i < FXCU_SCHEDULES) {
            fxcu_set_schedule_number(i);
        } else {
            fxcu_set_schedule(FXCU_EACH, 1);
        }
        printf("%s, %s\n", name, i < FXCU_SCHEDULES ? fxcu_schedule_name(i) : "each launch under all");
        test();
        CHECK_CUDA(cudaDeviceSynchronize());
        CHECK(fxcu_alive() == 0);
    }
    fxcu_set_schedule(FXCU_FORWARD, 1);
}
/* Runs it once, each launch under all schedules; RACES=1 under one, since races show under any: for kernels whose other forms each_schedule runs. */
template <class F> void each_launch(const char *name, F test) {
    fxcu_reset();
#ifndef FXCU_RACES
    fxcu_set_schedule(FXCU_EACH, 1);
#endif
    printf("%s\n", name);
    test();
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK(fxcu_alive() == 0);
    fxcu_set_schedule(FXCU_FORWARD, 1);
}
/* How many schedules make test() false: what is wrong has to show under one. */
template <class F> int schedules_that_fail(F test) {
    int failed = 0;
    fxcu_quiet(1);
    for (int i = 0; i < FXCU_SCHEDULES; i++) {
        fxcu_reset();
        fxcu_set_schedule_number(i);
        failed += !test();
    }
    fxcu_quiet(0);
    fxcu_reset();
    fxcu_set_schedule(FXCU_FORWARD, 1);
    return failed;
}
#else
template <class F> void each_schedule(const char *name, F test) {
    printf("%s\n", name);
    test();
    CHECK_CUDA(cudaDeviceSynchronize());
}
template <class F> void each_launch(const char *name, F test) { each_schedule(name, test); }
#endif
#endif
