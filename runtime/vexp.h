/* vexp.h: the exponential of a vector of numbers that are not positive, for softmax and attention.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */

/* e^x for x <= 0 within 2 ulp; 0 below 2^-126 or so; NaN of NaN. As fxrt_exp, with one factor 2^n instead of two. */
FXRT_INLINE fxrt_v fxrt_v_exp_neg(fxrt_v x)
{
    const fxrt_v magic = fxrt_v_set1(12582912.0f);
    x = fxrt_v_max(x, fxrt_v_set1(-88.0f));
    const fxrt_v t = fxrt_v_fma(x, fxrt_v_set1(1.44269504089f), magic), n = fxrt_v_sub(t, magic);
    const fxrt_v r = fxrt_v_fma(n, fxrt_v_set1(2.12194440e-4f), fxrt_v_fma(n, fxrt_v_set1(-0.693359375f), x));
    fxrt_v p = fxrt_v_fma(fxrt_v_set1(1.395052182e-03f), r, fxrt_v_set1(8.368908428e-03f));
    p = fxrt_v_fma(p, r, fxrt_v_set1(4.166620597e-02f));
    p = fxrt_v_fma(p, r, fxrt_v_set1(1.666651815e-01f));
    p = fxrt_v_fma(p, r, fxrt_v_set1(5.000000000e-01f));
    p = fxrt_v_fma(p, fxrt_v_mul(r, r), r);
    return fxrt_v_mul(fxrt_v_add(p, fxrt_v_set1(1.0f)), fxrt_v_pow2(t));
}
