/* ir/crc32.c: the checksum of zip archives. zlib's goes through about a gigabyte a second, which is most of opening a large model; with carry-less
 * multiplication it takes as long as reading the memory. V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction",
 * Intel, 2009: what was read is kept as 512 bits that leave the same remainder, and moved on by a multiplication.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <zlib.h>

#include "ir/ir.h"

static uint32_t plain(uint32_t crc, const unsigned char *p, size_t n)
{
    for (size_t most = (size_t)1 << 30; n;) {
        uInt part = (uInt)(n < most ? n : most);
        crc = (uint32_t)crc32(crc, p, part);
        p += part;
        n -= part;
    }
    return crc;
}

uint32_t fx_crc32_join(uint32_t first, uint32_t second, size_t n)
{
    return (uint32_t)crc32_combine(first, second, (z_off_t)n);
}

#if defined(__x86_64__)
#include <immintrin.h>

/* x moved on by as many bits as k says, and y added. */
__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i x, __m128i k, __m128i y)
{
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), y);
}

/* Of whole blocks of 64 bytes, at least one. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t folded(uint32_t crc, const unsigned char *p, size_t n)
{
    /* x^(512 + 32), x^(512 - 32), x^(128 + 32), x^(128 - 32) modulo the polynomial, bits reversed */
    const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4), by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i *at = (const __m128i *)(const void *)p;
    __m128i x[4];
    for (int i = 0; i < 4; i++)
        x[i] = _mm_loadu_si128(at + i);
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)~crc));
    for (const __m128i *end = at + n / sizeof *at; (at += 4) < end;)
        for (int i = 0; i < 4; i++)
            x[i] = fold(x[i], by_512, _mm_loadu_si128(at + i));
    for (int i = 1; i < 4; i++)
        x[i] = fold(x[i - 1], by_128, x[i]);
    unsigned char rest[16];
    _mm_storeu_si128((__m128i *)(void *)rest, x[3]);
    return (uint32_t)crc32(UINT32_MAX, rest, sizeof rest); /* which begins with a register of 0 */
}

uint32_t fx_crc32(uint32_t crc, const void *data, size_t n)
{
    const unsigned char *p = data;
    if (n >= 256 && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
        size_t whole = n / 64 * 64;
        crc = folded(crc, p, whole);
        p += whole;
        n -= whole;
    }
    return plain(crc, p, n);
}
#else
uint32_t fx_crc32(uint32_t crc, const void *data, size_t n)
{
    return plain(crc, data, n);
}
#endif
