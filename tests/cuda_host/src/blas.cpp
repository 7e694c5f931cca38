/* cuBLAS: handles, and products in columns.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "blas.h"

#include "cuda_fp16.h"

#include <stdarg.h>
#include <stdio.h>

struct cublasContext {
    cudaStream_t stream = nullptr;
    cublasMath_t mode = CUBLAS_DEFAULT_MATH;
    void *workspace = nullptr;
    size_t workspace_bytes = 0;
};

namespace fxcu {

size_t live_blas;

size_t type_bytes(cudaDataType type) {
    switch (type) {
    case CUDA_R_64F:
        return 8;
    case CUDA_R_32F:
        return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    default:
        return 0;
    }
}

cublasStatus_t blas_error(cublasStatus_t status, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    keep_message(cublasGetStatusName(status), text);
    return status;
}

bool read_scale(const void *at, cudaDataType type, double *to) {
    if (at == nullptr) {
        return false;
    }
    switch (type) {
    case CUDA_R_64F:
        *to = *static_cast<const double *>(at);
        return true;
    case CUDA_R_32F:
        *to = static_cast<double>(*static_cast<const float *>(at));
        return true;
    case CUDA_R_16F:
        *to = static_cast<double>(from_f16(*static_cast<const uint16_t *>(at)));
        return true;
    default:
        return false;
    }
}

/* All of the matrix lies in one live device buffer, and is aligned to its elements. */
static cublasStatus_t check_matrix(const char *call, const char *name, const matrix &m, int64_t batches) {
    const size_t bytes = type_bytes(m.type);
    if (bytes == 0) {
        return blas_error(CUBLAS_STATUS_NOT_SUPPORTED, "%s: %s has type %d", call, name, static_cast<int>(m.type));
    }
    if (m.rows == 0 || m.columns == 0 || batches == 0) {
        return CUBLAS_STATUS_SUCCESS;
    }
    const size_t elements = static_cast<size_t>((m.rows - 1) * m.row + (m.columns - 1) * m.column + (batches - 1) * m.batch + 1);
    const range *r = find_range(m.at);
    const char *at = static_cast<const char *>(m.at);
    if (r == nullptr || r->kind != memory::device || r->freed || at < r->at || at + elements * bytes > r->at + r->bytes) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: %s is %s, where %zu bytes of device memory are to be accessed", call, name,
                          describe(m.at).c_str(), elements * bytes);
    }
    if (reinterpret_cast<uintptr_t>(m.at) % bytes != 0) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: %s is not aligned to its elements of %zu bytes", call, name, bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_product(const char *call, const product &p) {
    const bool wide = p.d.type == CUDA_R_64F;
    if (p.a.type != p.b.type || p.c.type != p.d.type || (p.a.type == CUDA_R_64F) != wide || (p.compute == CUBLAS_COMPUTE_64F) != wide ||
        (p.d.type != p.a.type && p.d.type != CUDA_R_32F) || (p.compute == CUBLAS_COMPUTE_16F && p.a.type != CUDA_R_16F)) {
        return blas_error(CUBLAS_STATUS_NOT_SUPPORTED, "%s: types %d x %d + %d to %d, computed as %d", call, p.a.type, p.b.type, p.c.type,
                          p.d.type, p.compute);
    }
    if (p.a.rows != p.d.rows || p.b.columns != p.d.columns || p.a.columns != p.b.rows || p.c.rows != p.d.rows || p.c.columns != p.d.columns) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: (%ld x %ld) (%ld x %ld) + (%ld x %ld) to (%ld x %ld)", call, p.a.rows, p.a.columns,
                          p.b.rows, p.b.columns, p.c.rows, p.c.columns, p.d.rows, p.d.columns);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t run_product(const char *call, const product &p, cudaStream_t stream) {
    if (cublasStatus_t failed = check_product(call, p)) {
        return failed;
    }
    const struct {
        const char *name;
        const matrix *m;
        int64_t batches;
    } parts[] = {{"A", &p.a, p.batches}, {"B", &p.b, p.batches}, {"C", &p.c, p.beta != 0.0 ? p.batches : 0}, {"D", &p.d, p.batches}};
    for (auto &part : parts) {
        if (cublasStatus_t failed = check_matrix(call, part.name, *part.m, part.batches)) {
            return failed;
        }
    }
    if (p.bias) {
        if (cublasStatus_t failed = check_matrix(call, "the bias", {p.bias, p.bias_type, p.d.rows, 1, 1, 0, 0}, 1)) {
            return failed;
        }
    }
    if (p.workspace) {
        if (cublasStatus_t failed =
                check_matrix(call, "the workspace", {p.workspace, CUDA_R_32F, static_cast<int64_t>(p.workspace_bytes / 4), 1, 1, 0, 0}, 1)) {
            return failed;
        }
    }
    if (check_stream(stream) != cudaSuccess) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    trace("%s\n", call);
    return enqueue(stream, [p] {
        unlock_device();
        compute_product(p);
    }) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* A matrix in columns, transposed if asked for; rows and columns are those after it. */
static bool in_columns(const void *at, cudaDataType type, cublasOperation_t op, int64_t rows, int64_t columns, int ld, int64_t batch,
                       matrix *to) {
    const bool transposed = op != CUBLAS_OP_N;
    *to = {at, type, rows, columns, transposed ? ld : 1, transposed ? 1 : ld, batch};
    return ld >= (transposed ? columns : rows) && ld >= 1;
}

static cublasStatus_t gemm(const char *call, cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                           const void *alpha, const void *a, cudaDataType atype, int lda, long long stridea, const void *b, cudaDataType btype,
                           int ldb, long long strideb, const void *beta, void *c, cudaDataType ctype, int ldc, long long stridec, int batches,
                           cublasComputeType_t compute) {
    entry e;
    if (handle == nullptr) {
        return blas_error(CUBLAS_STATUS_NOT_INITIALIZED, "%s: no handle", call);
    }
    if (e.failed) {
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    product p = {};
    const cudaDataType scale = compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : compute == CUBLAS_COMPUTE_16F ? CUDA_R_16F : CUDA_R_32F;
    if (m < 0 || n < 0 || k < 0 || batches < 0 || !read_scale(alpha, scale, &p.alpha) || !read_scale(beta, scale, &p.beta)) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: m %d, n %d, k %d, %d batches, alpha at %p, beta at %p", call, m, n, k, batches,
                          alpha, beta);
    }
    if (!in_columns(a, atype, transa, m, k, lda, stridea, &p.a) || !in_columns(b, btype, transb, k, n, ldb, strideb, &p.b) ||
        !in_columns(c, ctype, CUBLAS_OP_N, m, n, ldc, stridec, &p.d)) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "%s: leading dimensions %d, %d, %d are too small for m %d, n %d, k %d", call, lda, ldb,
                          ldc, m, n, k);
    }
    p.c = p.d;
    p.batches = batches;
    p.compute = compute == CUBLAS_COMPUTE_32F && handle->mode == CUBLAS_TF32_TENSOR_OP_MATH ? CUBLAS_COMPUTE_32F_FAST_TF32 : compute;
    p.workspace = handle->workspace;
    p.workspace_bytes = handle->workspace_bytes;
    return run_product(call, p, handle->stream);
}

} // namespace fxcu

using namespace fxcu;

const char *cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define FXCU_ROW(name, value)                                                                                                                  \
    case name:                                                                                                                                 \
        return #name;
        FXCU_CUBLAS_STATUSES(FXCU_ROW)
#undef FXCU_ROW
    }
    return "<unknown>";
}
const char *cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasCreate(cublasHandle_t *handle) {
    entry e;
    if (e.failed || device_error()) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (fail_this_allocation()) {
        return blas_error(CUBLAS_STATUS_ALLOC_FAILED, "cublasCreate: no memory");
    }
    *handle = new cublasContext;
    live_blas++;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    entry e;
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    delete handle;
    live_blas--;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    entry e;
    if (handle == nullptr || check_stream(stream) != cudaSuccess) {
        return handle ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_NOT_INITIALIZED;
    }
    handle->stream = stream;
    handle->workspace = nullptr; /* as cuBLAS: a new stream takes the handle's own workspace again */
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream) {
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes) {
    entry e;
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) {
        return blas_error(CUBLAS_STATUS_INVALID_VALUE, "cublasSetWorkspace: %p is not aligned to 256 bytes", workspace);
    }
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    handle->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    return mode == CUBLAS_POINTER_MODE_HOST
               ? CUBLAS_STATUS_SUCCESS
               : blas_error(CUBLAS_STATUS_NOT_SUPPORTED, "cublasSetPointerMode: scales on the device are not supported here");
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const float *alpha,
                           const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc) {
    return gemm("cublasSgemm", handle, transa, transb, m, n, k, alpha, a, CUDA_R_32F, lda, 0, b, CUDA_R_32F, ldb, 0, beta, c, CUDA_R_32F, ldc,
                0, 1, CUBLAS_COMPUTE_32F);
}
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                                         const float *alpha, const float *a, int lda, long long stridea, const float *b, int ldb,
                                         long long strideb, const float *beta, float *c, int ldc, long long stridec, int batches) {
    return gemm("cublasSgemmStridedBatched", handle, transa, transb, m, n, k, alpha, a, CUDA_R_32F, lda, stridea, b, CUDA_R_32F, ldb, strideb,
                beta, c, CUDA_R_32F, ldc, stridec, batches, CUBLAS_COMPUTE_32F);
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k, const void *alpha,
                            const void *a, cudaDataType atype, int lda, const void *b, cudaDataType btype, int ldb, const void *beta, void *c,
                            cudaDataType ctype, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
    return gemm("cublasGemmEx", handle, transa, transb, m, n, k, alpha, a, atype, lda, 0, b, btype, ldb, 0, beta, c, ctype, ldc, 0, 1, compute);
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType atype, int lda, long long stridea, const void *b,
                                          cudaDataType btype, int ldb, long long strideb, const void *beta, void *c, cudaDataType ctype,
                                          int ldc, long long stridec, int batches, cublasComputeType_t compute, cublasGemmAlgo_t) {
    return gemm("cublasGemmStridedBatchedEx", handle, transa, transb, m, n, k, alpha, a, atype, lda, stridea, b, btype, ldb, strideb, beta, c,
                ctype, ldc, stridec, batches, compute);
}
