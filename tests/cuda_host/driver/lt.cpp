/* libcublasLt.so.13 for a machine without a GPU: the library's own names of what src/lt.cpp does, for those who load it. It lives in libcuda.so.1 beside it, where
 * the memory and the streams are. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <cublasLt.h>

/* Beside the header's function of the same name, which C++ spells otherwise. */
#define AS(name, own, parameters) extern "C" cublasStatus_t own parameters __asm__("cublasLt" #name); extern "C" cublasStatus_t own parameters
AS(Create, lt_create, (cublasLtHandle_t *handle)) { return cublasLtCreate(handle); }
AS(Destroy, lt_destroy, (cublasLtHandle_t handle)) { return cublasLtDestroy(handle); }
AS(MatmulDescInit_internal, lt_desc, (cublasLtMatmulDesc_t desc, size_t size, cublasComputeType_t compute, cudaDataType_t scale)) {
    return size == sizeof *desc ? cublasLtMatmulDescInit(desc, compute, scale) : CUBLAS_STATUS_INVALID_VALUE;
}
AS(MatmulDescSetAttribute, lt_desc_set, (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes)) {
    return cublasLtMatmulDescSetAttribute(desc, attribute, value, bytes);
}
AS(MatrixLayoutInit_internal, lt_layout, (cublasLtMatrixLayout_t layout, size_t size, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld)) {
    return size == sizeof *layout ? cublasLtMatrixLayoutInit(layout, type, rows, columns, ld) : CUBLAS_STATUS_INVALID_VALUE;
}
AS(MatrixLayoutSetAttribute, lt_layout_set, (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value, size_t bytes)) {
    return cublasLtMatrixLayoutSetAttribute(layout, attribute, value, bytes);
}
AS(MatmulPreferenceInit_internal, lt_wish, (cublasLtMatmulPreference_t wish, size_t size)) {
    return size == sizeof *wish ? cublasLtMatmulPreferenceInit(wish) : CUBLAS_STATUS_INVALID_VALUE;
}
AS(MatmulPreferenceSetAttribute, lt_wish_set, (cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t attribute, const void *value, size_t bytes)) {
    return cublasLtMatmulPreferenceSetAttribute(wish, attribute, value, bytes);
}
AS(MatmulAlgoGetHeuristic, lt_ask, (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t wish, int asked,
                                    cublasLtMatmulHeuristicResult_t results[], int *found)) {
    return cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, d, wish, asked, results, found);
}
AS(Matmul, lt_matmul, (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a, cublasLtMatrixLayout_t adesc, const void *b,
                       cublasLtMatrixLayout_t bdesc, const void *beta, const void *c, cublasLtMatrixLayout_t cdesc, void *d, cublasLtMatrixLayout_t ddesc,
                       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, cudaStream_t stream)) {
    return cublasLtMatmul(handle, desc, alpha, a, adesc, b, bdesc, beta, c, cdesc, d, ddesc, algo, workspace, bytes, stream);
}
