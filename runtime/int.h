/* int.h: integer functions that C leaves undefined for some values: here they wrap, and dividing by zero gives 0.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Types narrower than 32 bits are computed in 32 and cut off by the caller, which gives the same low bits. Shifts by less than 0 or more
 * than the width shift all bits out, as torch's do. */
#define FXRT_INTEGERS(name, T, U, BITS)                                                                             \
    static inline T fxrt_abs_##name(T x) { return x < 0 ? (T)(0 - (U)x) : x; }                                      \
    static inline T fxrt_sign_##name(T x) { return (x > 0) - (x < 0); }                                             \
    static inline T fxrt_clamp_##name(T x, T lo, T hi)                                                              \
    {                                                                                                               \
        const T y = x < lo ? lo : x;                                                                                \
        return y > hi ? hi : y;                                                                                     \
    }                                                                                                               \
    /* toward zero */                                                                                               \
    static inline T fxrt_div_##name(T x, T y) { return y == 0 ? 0 : y == -1 ? (T)(0 - (U)x) : x / y; }              \
    /* the sign of x */                                                                                             \
    static inline T fxrt_fmod_##name(T x, T y) { return y == 0 || y == -1 ? 0 : x % y; }                            \
    static inline T fxrt_floor_div_##name(T x, T y)                                                                  \
    {                                                                                                               \
        const T q = fxrt_div_##name(x, y), r = fxrt_fmod_##name(x, y);                                              \
        return q - ((r != 0) & ((r < 0) != (y < 0)));                                                               \
    }                                                                                                               \
    /* the sign of y */                                                                                             \
    static inline T fxrt_remainder_##name(T x, T y)                                                                 \
    {                                                                                                               \
        const T r = fxrt_fmod_##name(x, y);                                                                         \
        return ((r != 0) & ((r < 0) != (y < 0))) ? r + y : r;                                                       \
    }                                                                                                               \
    static inline T fxrt_pow_##name(T x, T y)                                                                       \
    {                                                                                                               \
        U r = 1, b = (U)x;                                                                                          \
        if (y < 0)                                                                                                  \
            return x == 1 ? 1 : x == -1 ? ((y & 1) ? -1 : 1) : 0;                                                   \
        for (; y; y >>= 1, b *= b)                                                                                  \
            r *= (y & 1) ? b : 1;                                                                                   \
        return (T)r;                                                                                                \
    }                                                                                                               \
    static inline T fxrt_shl_##name(T x, T n) { return n < 0 || n >= BITS ? 0 : (T)((U)x << n); }                   \
    static inline T fxrt_shr_##name(T x, T n)                                                                       \
    {                                                                                                               \
        const T m = n < 0 || n >= BITS ? BITS - 1 : n;                                                              \
        return x < 0 ? ~(~x >> m) : x >> m;                                                                         \
    }
FXRT_INTEGERS(i32, int32_t, uint32_t, 32)
FXRT_INTEGERS(i64, int64_t, uint64_t, 64)
