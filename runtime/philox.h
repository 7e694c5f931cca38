/* philox.h: the counter-based random numbers Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* Word position % 4 of the block with counter (position / 4, call) and the seed as key. Without branches and tables, so that loops of it
 * become vector code. */
static inline int64_t fxrt_philox(int64_t position, int64_t seed, int64_t call)
{
    const uint64_t p = (uint64_t)position, s = (uint64_t)seed, n = (uint64_t)call;
    uint32_t c0 = (uint32_t)(p >> 2), c1 = (uint32_t)(p >> 34), c2 = (uint32_t)n, c3 = (uint32_t)(n >> 32);
    uint32_t k0 = (uint32_t)s, k1 = (uint32_t)(s >> 32);
    const uint32_t word = (uint32_t)p & 3;
#define FXRT_PHILOX_ROUND                                                                         \
    {                                                                                             \
        const uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;            \
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;                                                       \
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;                                                       \
        c1 = (uint32_t)b;                                                                         \
        c3 = (uint32_t)a;                                                                         \
        k0 += 0x9E3779B9u;                                                                        \
        k1 += 0xBB67AE85u;                                                                        \
    }
    FXRT_PHILOX_ROUND FXRT_PHILOX_ROUND FXRT_PHILOX_ROUND FXRT_PHILOX_ROUND FXRT_PHILOX_ROUND
    FXRT_PHILOX_ROUND FXRT_PHILOX_ROUND FXRT_PHILOX_ROUND FXRT_PHILOX_ROUND FXRT_PHILOX_ROUND
#undef FXRT_PHILOX_ROUND
    return (int64_t)(word < 2 ? (word ? c1 : c0) : word == 2 ? c2 : c3);
}
