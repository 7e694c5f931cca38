/* How emitted CUDA launches a kernel and names its dynamic shared memory. FXCC_LAUNCH is an expression of type cudaError_t. A host
 * compiler takes both from runtime/cuda/host, which also checks the arguments' types against the kernel's.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifdef __CUDACC__
#define FXCC_LAUNCH(kernel, grid, block, smem, stream, ...)                                                                                 \
    ((kernel)<<<(grid), (block), (smem), (stream)>>>(__VA_ARGS__), cudaPeekAtLastError())
#define FXCC_DYN_SMEM(T, name)                                                                                                              \
    extern __shared__ __align__(16) unsigned char fxcc_dynamic_shared[];                                                                    \
    T *const name = reinterpret_cast<T *>(fxcc_dynamic_shared)
#elif !defined(FXCC_LAUNCH)
#error "compile this file with nvcc (or, to check it on a host, against runtime/cuda/host of fxcc)"
#endif

/* What functions of the kernels' texts begin with. A file that pastes a text and does not call one of its functions has no warning of it. */
#define FXRT_DEVICE [[maybe_unused]] static __device__ __forceinline__
#define FXRT_HOST [[maybe_unused]] static
#ifdef __CUDACC__
#define FXRT_UNROLL _Pragma("unroll")
#define FXRT_ROLLED _Pragma("unroll 1")
#else
#define FXRT_UNROLL
#define FXRT_ROLLED
#endif
