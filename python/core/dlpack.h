/* python/core/dlpack.h: the structs of DLPack 1.x (https://dmlc.github.io/dlpack), as far as tensors of the CPU and of CUDA's devices need them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PYTHON_DLPACK_H
#define FXCC_PYTHON_DLPACK_H

#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CPU_PINNED = 3 };
enum { DL_READ_ONLY = 1 }; /* of flags */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

typedef struct dl_device {
    int32_t type, id;
} dl_device;

typedef struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} dl_dtype;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape, *strides;    /* in elements; strides may be NULL: dense */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor t;
    void *manager;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_version {
    uint32_t major, minor;
} dl_version;

typedef struct dl_managed_versioned {
    dl_version version;
    void *manager;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    dl_tensor t;
} dl_managed_versioned;

/* What a type's __dlpack_c_exchange_api__ holds, a capsule "dlpack_exchange_api" (DLPack 1.2 on). */
typedef struct dl_exchange {
    dl_version version;
    struct dl_exchange *previous;
    int (*allocate)(dl_tensor *prototype, dl_managed_versioned **out, void *user, void (*error)(void *user, const char *kind, const char *message));
    int (*managed_from)(void *object, dl_managed_versioned **out);
    int (*to_object)(dl_managed_versioned *tensor, void **object);
    int (*tensor_from)(void *object, dl_tensor *out);
    int (*stream)(int32_t device_type, int32_t device_id, void **out);
} dl_exchange;

#endif
