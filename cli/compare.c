/* cli/compare.c: how far tensors are from others.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "cli/cli.h"

/* A 16-bit pattern with so many bits of mantissa. */
static double half(uint16_t h, int mantissa)
{
    int exponents = 1 << (15 - mantissa), e = h >> mantissa & (exponents - 1), m = h & ((1 << mantissa) - 1), bias = exponents / 2 - 1;
    double v = e == exponents - 1 ? (m ? NAN : INFINITY) : e ? ldexp(m + (1 << mantissa), e - bias - mantissa) : ldexp(m, 1 - bias - mantissa);

    return h & 0x8000 ? -v : v;
}

static double element(const fx_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case FX_F16: return half(((const uint16_t *)t->data)[i], 10);
    case FX_BF16: return half(((const uint16_t *)t->data)[i], 7);
    case FX_F32: return ((const float *)t->data)[i];
    case FX_F64: return ((const double *)t->data)[i];
    case FX_I8: return ((const int8_t *)t->data)[i];
    case FX_I16: return ((const int16_t *)t->data)[i];
    case FX_I32: return ((const int32_t *)t->data)[i];
    case FX_I64: return (double)((const int64_t *)t->data)[i];
    case FX_U8:
    case FX_BOOL: return ((const uint8_t *)t->data)[i];
    default: return NAN;
    }
}

difference compare(const fx_tensor *got, const fx_tensor *ref, double rtol, double atol)
{
    difference d = {0};
    int64_t n = fx_tensor_numel(ref);

    for (int64_t i = 0; i < n; i++) {
        double a = element(got, i), b = element(ref, i);
        if (isfinite(b) && fabs(b) > d.max_ref)
            d.max_ref = fabs(b);
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        double diff = fabs(a - b);
        if (!isfinite(diff))
            diff = INFINITY;
        if (diff > d.abs)
            d.abs = diff;
    }
    d.rel = d.abs == 0 ? 0 : d.abs / d.max_ref;
    d.agrees = d.abs <= atol + rtol * d.max_ref;
    return d;
}

bool same_shape(const fx_tensor *a, const fx_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int d = 0; d < a->rank; d++)
        if (a->sizes[d] != b->sizes[d])
            return false;
    return true;
}
