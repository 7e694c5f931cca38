/* jit/cuda.h: a loop program for a GPU as kernels on a device of this machine.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_JIT_CUDA_H
#define FXCC_JIT_CUDA_H

#include "ir/program.h"

typedef struct fx_gpu_options {
    int device;                  /* CUDA's number of it */
    const char *cache;           /* as in jit/code.h */
    uint64_t cache_most;
} fx_gpu_options;

/* Kernels, weights and memory on one device. Calls come one after another, whichever threads and streams they are from. */
typedef struct fx_gpu_code fx_gpu_code;

/* Compiles p, which is planned, for the device. p must outlive the code. FX_ERR_UNSUPPORTED: there is no driver, device or NVRTC, or a step has no form;
 * says which. */
fx_status fx_gpu_compile(fx_program *p, const fx_gpu_options *opt, fx_gpu_code **out);
void fx_gpu_free(fx_gpu_code *code);
int fx_gpu_device(const fx_gpu_code *code);
bool fx_gpu_cached(const fx_gpu_code *code);

typedef struct fx_gpu_call {
    void *const *io;             /* inputs, then outputs: dense, on the device or in the host's memory */
    const uint64_t *bytes;       /* of each; 0: nothing is read or written */
    const int64_t *symbols;
    unsigned char *state;        /* the host's; NULL: none */
    void *stream;                /* CUstream; NULL: the default one */
    bool wait;                   /* until all is done; else only where something of it is the host's */
} fx_gpu_call;

/* FX_ERR_NOMEM, FX_ERR_ARGUMENT (an index out of range, memory of another device), FX_ERR_UNSUPPORTED (a call of CUDA fails): words in error. */
fx_status fx_gpu_run(fx_gpu_code *code, const fx_gpu_call *call, char *error, size_t error_size);
/* Whether a pointer is into memory of a device. */
bool fx_gpu_on_device(const fx_gpu_code *code, const void *at);
uint64_t fx_gpu_arena_size(const fx_gpu_code *code); /* of the last call */

#endif
