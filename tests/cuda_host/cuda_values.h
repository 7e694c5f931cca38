/* What tests of kernels with several types share: numbers as a type has them, a check of all of a buffer, and kernels without one of their barriers.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_VALUES_H
#define FXCU_VALUES_H
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../unit/random.h"

/* What a result that was rounded (twice at most) may differ by, for results of about 1. */
template <class T> constexpr double tolerance_of = 1e-5;
template <> constexpr double tolerance_of<__half> = 2e-3;
template <> constexpr double tolerance_of<__nv_bfloat16> = 1.6e-2;

template <class T> static std::vector<T> nothing(size_t n) { return std::vector<T>(n, static_cast<T>(NAN)); }
template <class T> static std::vector<T> random_values(size_t n, float scale) {
    std::vector<T> v(n);
    for (T &one : v) {
        one = static_cast<T>(random_float() * scale);
    }
    return v;
}
template <class T> static double number(T x) { return static_cast<double>(static_cast<float>(x)); }

/* Values where they were set; all else must keep the NaN it began with. */
struct wanted {
    std::vector<double> value;
    explicit wanted(size_t n) : value(n, NAN) {}
    template <class T> bool right(const std::vector<T> &got, double tolerance, const char *what) const {
        CHECK(got.size() == value.size());
        for (size_t i = 0; i < value.size(); i++) {
            const double x = number(got[i]);
            if (isnan(value[i]) ? !isnan(x) : !(x == value[i] || fabs(x - value[i]) <= tolerance * fmax(1.0, fabs(value[i])))) {
                if (what) {
                    fprintf(stderr, "%s: element %zu: expected %.9g, got %.9g\n", what, i, value[i], x);
                }
                return false;
            }
        }
        return true;
    }
};

#ifdef FXCU_HOST
/* Barriers of kernels by their lines: those met, and the one that is missing. Kernels included between these two see them:
 *     #define __syncthreads() barrier(__FILE__, __LINE__)
 *     #undef __syncthreads */
struct barrier_place {
    const char *file;
    int line;
};
static barrier_place barriers_met[16], missing_barrier;
static size_t n_barriers_met;
/* Not the kernel's: its own accesses are nobody's race. */
[[maybe_unused]] __attribute__((no_sanitize("thread"))) static bool is_met(const char *file, int line) {
    size_t i = 0;
    while (i < n_barriers_met && (barriers_met[i].line != line || barriers_met[i].file != file)) {
        i++;
    }
    if (i == n_barriers_met && i < sizeof barriers_met / sizeof barriers_met[0]) {
        barriers_met[n_barriers_met].file = file;
        barriers_met[n_barriers_met++].line = line;
    }
    return missing_barrier.line != line || missing_barrier.file != file;
}
[[maybe_unused]] __attribute__((no_sanitize("thread"))) static void barrier(const char *file, int line) {
    if (is_met(file, line)) {
        __syncthreads(file, line);
    }
}

/* The same for fences between blocks, which only the race checker misses:
 *     #define __threadfence() fence(__FILE__, __LINE__) */
[[maybe_unused]] __attribute__((no_sanitize("thread"))) static void fence(const char *file, int line) {
    if (is_met(file, line)) {
        __threadfence();
    }
}

/* Takes away each barrier that the test, which is right with all of them, meets: some schedule must find it, and a launch under all, whose
 * message must be one that `told` takes. */
template <class F> void each_barrier_missing(const char *name, size_t barriers, F test, bool (*told)(const char *message) = nullptr) {
    fxcu_reset();
    n_barriers_met = 0;
    CHECK(test());
    CHECK(n_barriers_met == barriers);
    for (size_t i = 0; i < barriers; i++) {
        missing_barrier = barriers_met[i];
        const int failed = schedules_that_fail(test);
        fxcu_quiet(1);
        fxcu_set_schedule(FXCU_EACH, 1);
        const bool passed = test();
        printf("%s without the barrier of %s:%d: caught by %d of %d schedules; %s\n", name, missing_barrier.file, missing_barrier.line, failed, FXCU_SCHEDULES, fxcu_message());
        CHECK(failed > 0 && !passed && (!told || told(fxcu_message())));
        fxcu_quiet(0);
        fxcu_reset();
        fxcu_set_schedule(FXCU_FORWARD, 1);
        missing_barrier = {};
    }
}
#endif
#endif
