/* conv_share.h: how conv_wino.h and conv_panels.h divide pixels, so that a workspace stays small. Plain C: the compiler includes the same text.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* So many of `total` at once that all shares are equal, but for the last one, and none is above `most`; 0 of nothing. */
static inline int64_t fxrt_cuda_equal_share(int64_t total, int64_t most)
{
    const int64_t shares = (total + most - 1) / most;
    return shares > 0 ? (total + shares - 1) / shares : 0;
}
