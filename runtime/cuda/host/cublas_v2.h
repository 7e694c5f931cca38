/* cublas_v2.h for a host compiler: the products that emitted sources call (src/blas.cpp). Names and values are cuBLAS's.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_CUBLAS_H
#define FXCU_CUBLAS_H
#include <cuda_runtime.h>

#include "library_types.h"

#define FXCU_CUBLAS_STATUSES(X)                                                                                                                \
    X(CUBLAS_STATUS_SUCCESS, 0)                                                                                                                \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1)                                                                                                        \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3)                                                                                                           \
    X(CUBLAS_STATUS_INVALID_VALUE, 7)                                                                                                          \
    X(CUBLAS_STATUS_ARCH_MISMATCH, 8)                                                                                                          \
    X(CUBLAS_STATUS_MAPPING_ERROR, 11)                                                                                                         \
    X(CUBLAS_STATUS_EXECUTION_FAILED, 13)                                                                                                      \
    X(CUBLAS_STATUS_INTERNAL_ERROR, 14)                                                                                                        \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15)
typedef enum cublasStatus_t {
#define FXCU_ROW(name, value) name = value,
    FXCU_CUBLAS_STATUSES(FXCU_ROW)
#undef FXCU_ROW
} cublasStatus_t;
typedef enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;
typedef enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3 } cublasMath_t;
typedef enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
} cublasComputeType_t;
typedef enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;
typedef struct cublasContext *cublasHandle_t;

cublasStatus_t cublasCreate(cublasHandle_t *handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
const char *cublasGetStatusName(cublasStatus_t status);
const char *cublasGetStatusString(cublasStatus_t status);

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const float *alpha,
                           const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc);
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                                         const float *alpha, const float *a, int lda, long long stridea, const float *b, int ldb,
                                         long long strideb, const float *beta, float *c, int ldc, long long stridec, int batches);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const void *alpha,
                            const void *a, cudaDataType atype, int lda, const void *b, cudaDataType btype, int ldb, const void *beta, void *c,
                            cudaDataType ctype, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algo);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType atype, int lda, long long stridea, const void *b,
                                          cudaDataType btype, int ldb, long long strideb, const void *beta, void *c, cudaDataType ctype,
                                          int ldc, long long stridec, int batches, cublasComputeType_t compute, cublasGemmAlgo_t algo);
#endif
