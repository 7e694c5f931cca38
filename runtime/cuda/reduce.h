/* reduce.h: the sum, product, maximum, minimum, and, or over a warp's or a block's threads, for all of them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Values are combined along one tree, whatever runs first, and each pair with the lower lane's value first: every thread gets the same bits,
 * run after run. The tree of a warp: lane i with i ^ 16, then i ^ 8, 4, 2, 1; so the halves are combined element by element, then their halves.
 * The tree of a block: the same within each warp, then over the warps' results, again by halves. */

/* Integers wrap: they are computed without a sign. */
struct fxrt_cuda_add {
    template <class T> __device__ T operator()(T a, T b) const { return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
    __device__ float operator()(float a, float b) const { return a + b; }
    __device__ double operator()(double a, double b) const { return a + b; }
};
struct fxrt_cuda_mul {
    template <class T> __device__ T operator()(T a, T b) const { return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
    __device__ float operator()(float a, float b) const { return a * b; }
    __device__ double operator()(double a, double b) const { return a * b; }
};
struct fxrt_cuda_and {
    template <class T> __device__ T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
struct fxrt_cuda_or {
    template <class T> __device__ T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
/* As torch.maximum and torch.minimum: a NaN in either stays. */
struct fxrt_cuda_max {
    template <class T> __device__ T operator()(T a, T b) const { return a > b ? a : b; }
    __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
    __device__ double operator()(double a, double b) const { return a > b || a != a ? a : b; }
};
struct fxrt_cuda_min {
    template <class T> __device__ T operator()(T a, T b) const { return a < b ? a : b; }
    __device__ float operator()(float a, float b) const { return a < b || a != a ? a : b; }
    __device__ double operator()(double a, double b) const { return a < b || a != a ? a : b; }
};

/* Over `lanes` neighbouring lanes, a power of two up to 32. All 32 lanes of the warp must come here. */
template <class Op, class T> FXRT_DEVICE T fxrt_cuda_warp(Op op, T x, int lanes = 32)
{
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
        const T other = static_cast<T>(__shfl_xor_sync(0xffffffffu, x, distance));
        x = threadIdx.x & static_cast<unsigned>(distance) ? op(other, x) : op(x, other);
    }
    return x;
}

/* Over a block of one dimension, of 32 threads times a power of two. All of them must come here. Its first barrier also orders all
 * that the threads did before the call, its second one all that they do after it. */
template <class Op, class T> FXRT_DEVICE T fxrt_cuda_block(Op op, T x)
{
    __shared__ T parts[32];
    const unsigned warps = blockDim.x / 32;
    x = fxrt_cuda_warp(op, x);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = fxrt_cuda_warp(op, parts[threadIdx.x % warps], static_cast<int>(warps));
    __syncthreads(); /* parts may be written again */
    return x;
}
