/* Launches that must not compile, with either compiler: BAD says which. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See
 * LICENSE. */
#include "check.h"

__global__ void scale(float *x, const float *y, int n) {
    if (static_cast<int>(threadIdx.x) < n) {
        x[threadIdx.x] = y[threadIdx.x];
    }
}

int main() {
    buffer<float> x(1), y(1);
    buffer<double> wide(1);
    const float *fixed = y.at;
#if BAD == 0
    CHECK_CUDA(FXCC_LAUNCH(scale, 1, 1, 0, nullptr, x.at, fixed, 1));
#elif BAD == 1 /* a pointer to another type */
    CHECK_CUDA(FXCC_LAUNCH(scale, 1, 1, 0, nullptr, wide.at, fixed, 1));
#elif BAD == 2 /* const is dropped */
    CHECK_CUDA(FXCC_LAUNCH(scale, 1, 1, 0, nullptr, fixed, fixed, 1));
#elif BAD == 3 /* an argument is missing */
    CHECK_CUDA(FXCC_LAUNCH(scale, 1, 1, 0, nullptr, x.at, fixed));
#elif BAD == 4 /* one too many */
    CHECK_CUDA(FXCC_LAUNCH(scale, 1, 1, 0, nullptr, x.at, fixed, 1, 2));
#elif BAD == 5 /* no kernel's stream */
    CHECK_CUDA(FXCC_LAUNCH(scale, 1, 1, 0, fixed, x.at, fixed, 1));
#endif
    static_cast<void>(fixed);
    return 0;
}
