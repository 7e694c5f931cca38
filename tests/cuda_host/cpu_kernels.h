/* The CPU's kernels (runtime/), to which those of runtime/cuda/ are compared, and what the tests of these share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_CPU_KERNELS_H
#define FXCU_CPU_KERNELS_H
#include "../../include/fxcc/runtime.h"
#include "check.h"

#include <algorithm>

#define FXRT_LANES 1
#define FXRT_FMA 0
#define FXRT_API static inline
#include "../../runtime/simd.h"

#include "../../runtime/math.h"
#include "../../runtime/vexp.h"

#include "../../runtime/cuda/vec.h"

#include "../../runtime/cuda/reduce.h"

struct chance {
    uint64_t state = 88172645463325252u;
    int between(int low, int high) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const uint64_t wide = static_cast<uint64_t>(static_cast<int64_t>(high) - low) + 1;
        return static_cast<int>(low + static_cast<int64_t>((state >> 16) % wide));
    }
    bool one_of(int n) { return between(1, n) == 1; }
    float number() { return static_cast<float>(between(-1000000, 1000000)) * 1e-6f; }
    std::vector<float> numbers(size_t n) {
        std::vector<float> to(n);
        for (float &x : to) {
            x = number();
        }
        return to;
    }
};

/* A device buffer of floats that begins `off` elements after an aligned address; NULL where there are none to give. */
struct shifted {
    buffer<float> all;
    size_t off;
    shifted(const std::vector<float> &from, size_t by) : all(from.size() + by), off(by) {
        std::vector<float> padded(by, NAN);
        padded.insert(padded.end(), from.begin(), from.end());
        all.put(padded);
    }
    float *at() const { return all.count > off ? all.at + off : nullptr; }
    std::vector<float> get() const {
        const std::vector<float> padded = all.get();
        return std::vector<float>(padded.begin() + static_cast<ptrdiff_t>(off), padded.end());
    }
};

/* NaN where NaN is wanted (that is also where nothing is to be written), else within the tolerance of max(1, |want|). */
static inline void check_near(const std::vector<float> &got, const std::vector<float> &want, double tolerance, const char *what) {
    CHECK(got.size() == want.size());
    for (size_t i = 0; i < got.size(); i++) {
        const double g = static_cast<double>(got[i]), w = static_cast<double>(want[i]);
        if (w != w ? g == g : !(g == w || fabs(g - w) <= tolerance * fmax(1, fabs(w)))) {
            fprintf(stderr, "%s: element %zu: expected %.9g, got %.9g\n", what, i, w, g);
            exit(1);
        }
    }
}
#endif
