/* tests/unit/draw.h: numbers drawn from a seed, which each test sets.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_UNIT_DRAW_H
#define FXCC_UNIT_DRAW_H

#include <stdint.h>

static uint32_t seed; /* not 0 */

/* 0 to below - 1: Marsaglia, "Xorshift RNGs", 2003. */
static inline uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % below;
}

#endif
