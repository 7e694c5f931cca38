/* jit/cuda_kernels.h: calls of the kernels of runtime/cuda/: what their functions for the host launch, told to who launches.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_JIT_CUDA_KERNELS_H
#define FXCC_JIT_CUDA_KERNELS_H

#include "jit/cuda_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One launch. kernel: as C++ names it, "fxrt_cuda_dw<4, 3, float>", the same pointer whenever it is the same kernel; name has its length. Returns 0 or CUDA's
 * error, which ends the call. */
typedef int fx_cuda_launch_fn(void *user, const char *kernel, size_t length, const unsigned grid[3], const unsigned block[3], size_t shared,
                              fx_cu_stream stream, void **arguments);

/* What products of matrices need: cuBLASLt's handle, and its answers. NULL: no memory; *why: there is no cuBLASLt. */
typedef struct fx_cuda_products fx_cuda_products;
int fx_cuda_products_create(size_t workspace, bool tf32, fx_cuda_products **out, const char **why);
void fx_cuda_products_free(fx_cuda_products *products);

typedef enum fx_cuda_element { FX_CUDA_FLOAT, FX_CUDA_HALF, FX_CUDA_BFLOAT16 } fx_cuda_element;

typedef struct fx_cuda_kernel_call {
    const char *kernel;          /* a row of kernel.def: "conv2d" */
    const void *descriptor;
    void *const *buffers;        /* in the row's order; NULL: not there */
    fx_cuda_element element;     /* of all buffers but workspaces */
    bool float_masks;            /* attention's bias and mask are float32, whatever the element */
    fx_cuda_products *products;  /* NULL: the kernel is none */
    bool planning;               /* cuBLASLt is asked how, and starts nothing; what would be launched is told as ever */
    fx_cu_stream stream;
    fx_cuda_launch_fn *launch;
    int (*fill)(void *user, void *at, size_t words, fx_cu_stream stream); /* with zeros of 4 bytes */
    void *user;
} fx_cuda_kernel_call;

enum { FX_CUDA_NO_KERNEL = -1 };
/* 0, CUDA's error, or FX_CUDA_NO_KERNEL: the row has none that this fxcc calls. */
int fx_cuda_call_kernel(const fx_cuda_kernel_call *call);

/* cuda_load.c: cuBLASLt's functions. */
#define FX_CUBLASLT(X) X(Create) X(Destroy) X(MatmulDescInit_internal) X(MatmulDescSetAttribute) X(MatrixLayoutInit_internal) X(MatrixLayoutSetAttribute) \
    X(MatmulPreferenceInit_internal) X(MatmulPreferenceSetAttribute) X(MatmulAlgoGetHeuristic) X(Matmul)
typedef struct fx_cublaslt {
#define FX_X(name) void *name;
    FX_CUBLASLT(FX_X)
#undef FX_X
} fx_cublaslt;
const fx_cublaslt *fx_cublaslt_load(const char **why);

#ifdef __cplusplus
}
#endif
#endif
