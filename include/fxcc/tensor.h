/* fxcc/tensor.h: element types and host tensors.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_TENSOR_H
#define FXCC_TENSOR_H

#include "fxcc/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types: X(enumerator, torch's name, C99 type in emitted code, bytes). */
#define FX_DTYPES(X)                                                                              \
    X(FX_F32, "float32", "float", 4)                                                              \
    X(FX_F64, "float64", "double", 8)                                                             \
    X(FX_F16, "float16", "uint16_t", 2)                                                           \
    X(FX_BF16, "bfloat16", "uint16_t", 2)                                                         \
    X(FX_I8, "int8", "int8_t", 1)                                                                 \
    X(FX_I16, "int16", "int16_t", 2)                                                              \
    X(FX_I32, "int32", "int32_t", 4)                                                              \
    X(FX_I64, "int64", "int64_t", 8)                                                              \
    X(FX_U8, "uint8", "uint8_t", 1)                                                               \
    X(FX_BOOL, "bool", "uint8_t", 1)                                                              \
    X(FX_C64, "complex64", "float", 8)                                                            \
    X(FX_C128, "complex128", "double", 16)

typedef enum fx_dtype {
#define FX_X(e, name, c, bytes) e,
    FX_DTYPES(FX_X)
#undef FX_X
    FX_DTYPE_COUNT
} fx_dtype;

const char *fx_dtype_name(fx_dtype dtype); /* "float32" */
size_t fx_dtype_size(fx_dtype dtype);      /* bytes of an element */
bool fx_dtype_is_float(fx_dtype dtype);    /* float64, float32, float16, bfloat16 */

enum { FX_MAX_RANK = 8 };

/* A block of bytes shared by tensors: heap memory or a mapped range of a file. */
typedef struct fx_storage fx_storage;

/* A host tensor: a strided window on a storage. Plain data: copying the struct does not copy elements.
 * sizes and strides count elements; data points at element [0,...,0]. */
typedef struct fx_tensor {
    fx_dtype dtype;
    int rank;
    int64_t sizes[FX_MAX_RANK];
    int64_t strides[FX_MAX_RANK];
    void *data;
    fx_storage *storage; /* what keeps data alive, or NULL: the caller's memory */
} fx_tensor;

/* Elements of a tensor (1 for rank 0). */
int64_t fx_tensor_numel(const fx_tensor *t);

/* A fresh contiguous, zeroed tensor whose storage belongs to ctx.
 * FX_ERR_ARGUMENT for a bad rank, a negative size or a size in bytes that overflows. */
fx_status fx_tensor_create(fx_context *ctx, fx_dtype dtype, int rank, const int64_t *sizes, fx_tensor *out);

/* Whether strides are those of a dense row-major tensor (sizes of 1 aside). */
bool fx_tensor_is_contiguous(const fx_tensor *t);

/* NumPy's .npy (format 1.0-3.0, little endian, both orders) and .npz (stored or deflated).
 * Reading refuses pickled objects. names of an archive are in file order and live in ctx. */
fx_status fx_npy_read(fx_context *ctx, const char *path, fx_tensor *out);
fx_status fx_npy_write(fx_context *ctx, const char *path, const fx_tensor *t);
fx_status fx_npz_read(fx_context *ctx, const char *path, size_t *count, fx_tensor **tensors, const char ***names);
fx_status fx_npz_write(fx_context *ctx, const char *path, size_t count, const fx_tensor *tensors, const char *const *names);

#ifdef __cplusplus
}
#endif
#endif
