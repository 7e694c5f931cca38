/* half_types.h: float16 and bfloat16 for kernels compiled by NVRTC, which has neither cuda_fp16.h nor cuda_bf16.h: what the texts of this folder ask of
 * the types there, conversions from and to float, rounded to the nearest, ties to even. A conversion of float16 is one instruction on a device, and the
 * same by integers elsewhere. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifdef __CUDACC_RTC__
FXRT_DEVICE unsigned short fxrt_cuda_to_f16(float x)
{
#ifdef __CUDA_ARCH__
    unsigned short to;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to) : "f"(x));
    return to;
#else
    const unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    unsigned to;
    if (magnitude > 0x7f800000) {
        return 0x7fff;
    }
    if (magnitude >= 0x477ff000) { /* 65520 and more are infinity */
        to = 0x7c00;
    } else if (magnitude < 0x38800000) { /* below the smallest normal number: 0.5 is where the digits end */
        to = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000;
    } else {
        to = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    }
    return static_cast<unsigned short>(sign | to);
#endif
}

FXRT_DEVICE float fxrt_cuda_from_f16(unsigned short x)
{
#ifdef __CUDA_ARCH__
    float to;
    asm("cvt.f32.f16 %0, %1;" : "=f"(to) : "h"(x));
    return to;
#else
    const unsigned sign = static_cast<unsigned>(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 0x3ff;
    const unsigned magnitude = exponent == 31 ? 0x7f800000 | fraction << 13
                               : exponent     ? (exponent + 112) << 23 | fraction << 13
                                              : __float_as_uint(static_cast<float>(fraction) * 5.9604644775390625e-8f);
    return __uint_as_float(sign | magnitude);
#endif
}

struct __half {
    unsigned short bits;
    __half() = default;
    __device__ __half(float x) : bits(fxrt_cuda_to_f16(x)) {}
    __device__ operator float() const { return fxrt_cuda_from_f16(bits); }
};

struct __nv_bfloat16 {
    unsigned short bits;
    __nv_bfloat16() = default;
    __device__ __nv_bfloat16(float x)
    {
        const unsigned from = __float_as_uint(x);
        bits = static_cast<unsigned short>(x != x ? 0x7fff : (from + 0x7fff + (from >> 16 & 1)) >> 16);
    }
    __device__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};
#endif
