/* jit/nvrtc.h: CUDA text to an image that a device loads. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_JIT_NVRTC_H
#define FXCC_JIT_NVRTC_H

#include "ir/ir.h"
#include "jit/cuda_api.h"

typedef struct fx_nvrtc_source {
    const char *text;
    size_t n_kernels;
    const char *const *kernels;  /* as C++ names them: "net_relu", "fxrt_cuda_dw<4, 3>" */
    int arch;                    /* of the device: 10 * major + minor of its compute capability */
    const char *cache;           /* as in jit/code.h */
    uint64_t cache_most;
} fx_nvrtc_source;

typedef struct fx_nvrtc_image {
    void *data;                  /* to be freed by free() */
    size_t size;
    const char **symbols;        /* by kernel: its name in the image; in the arena */
    bool cached;
} fx_nvrtc_image;

/* Compiles it, or takes it from the cache. FX_ERR_UNSUPPORTED: there is no NVRTC, or it has no code for the device. */
fx_status fx_nvrtc_build(fx_context *ctx, fx_arena *arena, const fx_nvrtc_source *source, fx_nvrtc_image *out);

#endif
