/* A product of matrices as cuBLAS and cuBLASLt describe it, and what both share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_BLAS_H
#define FXCU_BLAS_H
#include "internal.h"

#include "cublasLt.h"

namespace fxcu {

/* Element (i, j) of batch b lies at i * row + j * column + b * batch. */
struct matrix {
    const void *at;
    cudaDataType type;
    int64_t rows, columns, row, column, batch;
};
/* d = tail(alpha * a b + beta * c + bias): a is m x k, b k x n, transposed already by their strides; bias has one number a row. */
struct product {
    matrix a, b, c, d;
    int64_t batches;
    double alpha, beta;
    cublasComputeType_t compute;
    const void *bias;
    cudaDataType bias_type;
    enum { plain, relu, gelu } tail;
    void *workspace; /* filled with NaNs: it is the product's to write */
    size_t workspace_bytes;
};

size_t type_bytes(cudaDataType type); /* 0: not a type of products */
/* Keeps the message and returns the status. */
cublasStatus_t blas_error(cublasStatus_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));
cublasStatus_t check_product(const char *call, const product &p); /* types and shapes */
/* Checks types, shapes and pointers and puts the product on the stream. */
cublasStatus_t run_product(const char *call, const product &p, cudaStream_t stream);
void compute_product(const product &p); /* gemm.cpp */
bool read_scale(const void *at, cudaDataType type, double *to);

extern size_t live_blas; /* handles and descriptions */

} // namespace fxcu
#endif
