/* conv_cost.h: what the choices between ways of a convolution reckon with (conv_wino.h, conv_panels.h). Plain C: the compiler includes the same text.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Times are given as bytes of memory. They are rules of thumb from what devices can do; nothing was measured. */
#ifndef FXRT_CUDA_MACS_A_BYTE
#define FXRT_CUDA_MACS_A_BYTE 8 /* float multiplications in the time of a byte: devices have 10 to 20 at most, kernels reach some part */
#endif
#ifndef FXRT_CUDA_LAUNCH_BYTES
#define FXRT_CUDA_LAUNCH_BYTES (4 << 20) /* bytes in the time that one more kernel costs */
#endif

/* So many of `total` at once that all shares are equal, but for the last one, and none is above `most`; 0 of nothing. */
static inline int64_t fxrt_cuda_equal_share(int64_t total, int64_t most)
{
    const int64_t shares = (total + most - 1) / most;
    return shares > 0 ? (total + shares - 1) / shares : 0;
}
