/* The 16-bit types: every value there and back, rounding to nearest even, arithmetic rounded once; and a kernel that loads pairs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifdef FXCU_HOST /* the types that texts for NVRTC have, without a device's instructions */
namespace nvrtc {
#define __CUDACC_RTC__
#include "../../runtime/cuda/half_types.h"
#undef __CUDACC_RTC__
} // namespace nvrtc
template <class T> static float own_to_float(T x) { return x; }
template <class T> static T own_from_float(float x) { return x; }
template <class T> static unsigned short own_bits(T x) { return x.bits; }
template <class T> static T own_of(unsigned short bits) {
    T x;
    x.bits = bits;
    return x;
}
#endif

/* The value that the bits mean, by definition. */
static double value_of(unsigned bits, int fraction_bits, int bias) {
    const unsigned exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1u << fraction_bits) - 1), most = 0x7fffu >> fraction_bits;
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == most) {
        return fraction ? NAN : sign * INFINITY;
    }
    return sign * (exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                 : ldexp(fraction + (1u << fraction_bits), static_cast<int>(exponent) - bias - fraction_bits));
}

template <class T> static void test_conversions(int fraction_bits, int bias, float (*to_float)(T), T (*from_float)(float),
                                                unsigned short (*bits_of)(T), T (*of_bits)(unsigned short)) {
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        const double want = value_of(bits, fraction_bits, bias);
        const float got = to_float(of_bits(static_cast<unsigned short>(bits)));
        CHECK(isnan(want) ? isnan(got) : static_cast<double>(got) == want);
        const unsigned back = bits_of(from_float(got));
        CHECK(isnan(want) ? back == 0x7fff : back == bits);
        /* Between this one and the next: below the middle here, above it there, in the middle to the even one. */
        const double next = value_of(bits + 1, fraction_bits, bias), middle = (want + next) / 2;
        if ((bits & 0x8000) == 0 && isfinite(want) && isfinite(next)) {
            CHECK(bits_of(from_float(static_cast<float>(middle))) == (bits & 1 ? bits + 1 : bits));
            CHECK(bits_of(from_float(nextafterf(static_cast<float>(middle), 0.0f))) == bits);
            CHECK(bits_of(from_float(nextafterf(static_cast<float>(middle), INFINITY))) == bits + 1);
            CHECK(bits_of(from_float(-nextafterf(static_cast<float>(middle), INFINITY))) == (0x8000 | (bits + 1)));
        }
    }
    CHECK(bits_of(from_float(INFINITY)) == 0x7fffu >> fraction_bits << fraction_bits);
    CHECK(bits_of(from_float(3.4028235e38f)) == 0x7fffu >> fraction_bits << fraction_bits); /* the largest float is past the largest of these */
}

static __global__ void axpy(const __half2 *x, __half2 *y, int pairs, __half a) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < pairs) {
        y[i] = __hfma2(__half2half2(a), x[i], y[i]);
    }
}
static __global__ void sum_bf16(const __nv_bfloat16 *x, float *sum, int n) {
    float mine = 0.0f;
    for (int i = static_cast<int>(threadIdx.x); i < n; i += 32) {
        mine += __bfloat162float(x[i]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        mine += __shfl_down_sync(0xffffffff, mine, static_cast<unsigned>(distance));
    }
    if (threadIdx.x == 0) {
        *sum = mine;
    }
}

static __global__ void through_shared(const __half *in, __nv_bfloat16 *out) {
    __shared__ __half turned[64];
    __shared__ __nv_bfloat162 pairs[32];
    FXCC_DYN_SMEM(__half2, more);
    const int i = static_cast<int>(threadIdx.x);
    turned[63 - i] = in[i];
    if (i < 32) {
        pairs[i] = __floats2bfloat162_rn(1.0f, 2.0f);
        more[i] = __floats2half2_rn(3.0f, 4.0f);
    }
    __syncthreads();
    out[i] = __float2bfloat16(__half2float(turned[i]) + __low2float(pairs[i / 2]) + __high2float(more[i / 2]));
}

static void test_kernels() {
    std::vector<__half> steps(64);
    for (size_t i = 0; i < 64; i++) {
        steps[i] = __float2half(static_cast<float>(i));
    }
    buffer<__half> dsteps(steps);
    buffer<__nv_bfloat16> dturned(64);
    CHECK_CUDA(FXCC_LAUNCH(through_shared, 1, 64, 32 * sizeof(__half2), nullptr, dsteps.at, dturned.at));
    const std::vector<__nv_bfloat16> turned = dturned.get();
    for (size_t i = 0; i < 64; i++) {
        CHECK(__bfloat162float(turned[i]) == static_cast<float>(63 - i) + 5.0f);
    }
    const int pairs = 50;
    std::vector<__half2> x(pairs), y(pairs);
    for (size_t i = 0; i < pairs; i++) {
        x[i] = __floats2half2_rn(static_cast<float>(i), static_cast<float>(i) / 4.0f);
        y[i] = __float2half2_rn(0.5f);
    }
    buffer<__half2> dx(x), dy(y);
    CHECK_CUDA(FXCC_LAUNCH(axpy, 1, 64, 0, nullptr, dx.at, dy.at, pairs, __float2half(2.0f)));
    y = dy.get();
    for (size_t i = 0; i < pairs; i++) {
        const float2 got = __half22float2(y[i]);
        CHECK(got.x == 2.0f * static_cast<float>(i) + 0.5f && got.y == 0.5f * static_cast<float>(i) + 0.5f);
    }
    std::vector<__nv_bfloat16> z(100);
    for (size_t i = 0; i < z.size(); i++) {
        z[i] = __float2bfloat16(static_cast<float>(i));
    }
    buffer<__nv_bfloat16> dz(z);
    buffer<float> dsum(1);
    CHECK_CUDA(FXCC_LAUNCH(sum_bf16, 1, 32, 0, nullptr, dz.at, dsum.at, 100));
    CHECK(dsum.get()[0] == 4950.0f);
}

static float half_to_float(__half x) { return __half2float(x); }
static __half half_from_float(float x) { return __float2half(x); }
static unsigned short half_bits(__half x) { return __half_as_ushort(x); }
static __half half_of(unsigned short bits) { return __ushort_as_half(bits); }
static float bf16_to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
static __nv_bfloat16 bf16_from_float(float x) { return __float2bfloat16(x); }
static unsigned short bf16_bits(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
static __nv_bfloat16 bf16_of(unsigned short bits) { return __ushort_as_bfloat16(bits); }

int main() {
    test_conversions<__half>(10, 15, half_to_float, half_from_float, half_bits, half_of);
    test_conversions<__nv_bfloat16>(7, 127, bf16_to_float, bf16_from_float, bf16_bits, bf16_of);
#ifdef FXCU_HOST
    using half = nvrtc::__half;
    using bfloat16 = nvrtc::__nv_bfloat16;
    test_conversions<half>(10, 15, own_to_float<half>, own_from_float<half>, own_bits<half>, own_of<half>);
    test_conversions<bfloat16>(7, 127, own_to_float<bfloat16>, own_from_float<bfloat16>, own_bits<bfloat16>, own_of<bfloat16>);
#endif
    const __half third = __float2half(1.0f) / __float2half(3.0f);
    CHECK(__half_as_ushort(third) == 0x3555);
    CHECK(__half2float(__hmul(third, __float2half(3.0f))) == 1.0f); /* 3 * 0x555 / 0x1000 lies in the middle of the last one below 1 and 1 */
    CHECK(__half2float(__hadd(__float2half(2048.0f), __float2half(1.0f))) == 2048.0f);
    CHECK(__half2float(__hmax(__float2half(-1.0f), __float2half(2.0f))) == 2.0f && __hlt(__float2half(1.0f), __float2half(2.0f)));
    CHECK(__bfloat162float(__hsub(__float2bfloat16(1.0f), __float2bfloat16(0.5f))) == 0.5f);
    each_schedule("kernels of 16-bit types", test_kernels);
    return 0;
}
