/* ir/interp_cast.c: conversions of elements between dtypes and the three kinds the interpreter computes in.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ops.h"

fx_kind fx_kind_of(fx_dtype dtype)
{
    return dtype == FX_F64 ? FX_KIND_F64 : fx_dtype_is_float(dtype) ? FX_KIND_F32 : FX_KIND_INT;
}

size_t fx_kind_size(fx_kind kind)
{
    return kind == FX_KIND_F32 ? 4 : 8;
}

/* C's conversion is undefined out of range; torch on x86 gets what cvttss2si gives: the least integer of the register's
 * width, which is 64 bits for int64 and uint8 (torch converts by way of int64), 32 for the others. */
int64_t fx_float_to_int(double v, fx_dtype dtype)
{
    if (dtype == FX_BOOL)
        return v != 0;
    if (dtype == FX_I64 || dtype == FX_U8)
        return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
    return v > -0x1p31 - 1 && v < 0x1p31 ? (int64_t)v : INT32_MIN;
}

/* The low bits of v as a value of an integer dtype. */
static int64_t wrap(int64_t v, fx_dtype dtype)
{
    uint64_t u = (uint64_t)v;
    switch (dtype) {
    case FX_BOOL: return v != 0;
    case FX_U8: return (int64_t)(u & 0xFF);
    case FX_I8: return (int64_t)((u & 0xFF) ^ 0x80) - 0x80;
    case FX_I16: return (int64_t)((u & 0xFFFF) ^ 0x8000) - 0x8000;
    case FX_I32: return (int64_t)((u & 0xFFFFFFFF) ^ 0x80000000) - INT64_C(0x80000000);
    default: return v;
    }
}

/* Rows of one dtype pair; `get` reads element s[i * stride] of type S. */
#define LOAD(S, T, get)                        \
    do {                                       \
        const S *s_ = src;                     \
        T *d_ = dst;                           \
        for (int64_t i = 0; i < n; i++) {      \
            S e = s_[i * stride];              \
            d_[i] = (T)(get);                  \
        }                                      \
    } while (0)

#define LOADS(T, WHOLE)                                        \
    switch (dtype) {                                           \
    case FX_F32: LOAD(float, T, WHOLE); break;                 \
    case FX_F64: LOAD(double, T, WHOLE); break;                \
    case FX_F16: LOAD(uint16_t, T, HALF(fx_half_to_float)); break; \
    case FX_BF16: LOAD(uint16_t, T, HALF(fx_bf16_to_float)); break; \
    case FX_I8: LOAD(int8_t, T, e); break;                     \
    case FX_I16: LOAD(int16_t, T, e); break;                   \
    case FX_I32: LOAD(int32_t, T, e); break;                   \
    case FX_I64: LOAD(int64_t, T, e); break;                   \
    case FX_U8: LOAD(uint8_t, T, e); break;                    \
    case FX_BOOL: LOAD(uint8_t, T, e != 0); break;             \
    default: memset(dst, 0, (size_t)n * sizeof(T)); break;     \
    }

void fx_row_load(fx_kind kind, void *dst, fx_dtype dtype, const void *src, int64_t stride, int64_t n)
{
#define HALF(f) f(e)
    if (kind == FX_KIND_F32) {
        LOADS(float, e)
    } else if (kind == FX_KIND_F64) {
        LOADS(double, e)
    } else {
#undef HALF
#define HALF(f) fx_float_to_int((double)f(e), FX_I64)
        LOADS(int64_t, fx_float_to_int((double)e, FX_I64))
    }
#undef HALF
}

#define STORE(T, D, put)                       \
    do {                                       \
        const T *s_ = src;                     \
        D *d_ = dst;                           \
        for (int64_t i = 0; i < n; i++) {      \
            T e = s_[i];                       \
            d_[i * stride] = (D)(put);         \
        }                                      \
    } while (0)

/* e of kind T to every dtype. INTEGER gives an int64 in the dtype's range. */
#define STORES(T, INTEGER)                                         \
    switch (dtype) {                                               \
    case FX_F32: STORE(T, float, e); break;                        \
    case FX_F64: STORE(T, double, e); break;                       \
    case FX_F16: STORE(T, uint16_t, fx_float_to_half((float)e)); break; \
    case FX_BF16: STORE(T, uint16_t, fx_float_to_bf16((float)e)); break; \
    case FX_I8: STORE(T, int8_t, INTEGER); break;                  \
    case FX_I16: STORE(T, int16_t, INTEGER); break;                \
    case FX_I32: STORE(T, int32_t, INTEGER); break;                \
    case FX_I64: STORE(T, int64_t, INTEGER); break;                \
    case FX_U8: STORE(T, uint8_t, INTEGER); break;                 \
    case FX_BOOL: STORE(T, uint8_t, e != 0); break;                \
    default: break;                                                \
    }

void fx_row_store(fx_dtype dtype, void *dst, int64_t stride, fx_kind kind, const void *src, int64_t n)
{
    if (kind == FX_KIND_F32) {
        STORES(float, wrap(fx_float_to_int((double)e, dtype), dtype))
    } else if (kind == FX_KIND_F64) {
        STORES(double, wrap(fx_float_to_int(e, dtype), dtype))
    } else {
        STORES(int64_t, wrap(e, dtype))
    }
}
