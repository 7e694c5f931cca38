/* jit/cuda_inner.h: what the files jit/cuda*.c share. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_JIT_CUDA_INNER_H
#define FXCC_JIT_CUDA_INNER_H

#include <pthread.h>

#include "codegen/codegen.h"
#include "jit/cuda.h"
#include "jit/cuda_kernels.h"
#include "jit/nvrtc.h"

/* Memory of the device that grows. */
typedef struct fx_gpu_block {
    fx_cu_ptr at;
    uint64_t size;
} fx_gpu_block;

/* A kernel of runtime/cuda/ that some call launches. */
typedef struct fx_gpu_kernel {
    const char *site;            /* as fx_cuda_launch_fn has it */
    const char *name;
    fx_cu_function function;     /* NULL: it is not compiled yet */
} fx_gpu_kernel;

struct fx_gpu_code {
    const fx_cuda_driver *D;
    fx_program *p;
    fx_device_code device_code;
    int ordinal;
    fx_cu_device device;
    fx_cu_context context;       /* the device's primary one, as the run-time API and torch use it; NULL: not taken */
    fx_cu_module *modules; size_t n_modules, cap_modules; /* the first has the text's kernels and those that calls were seen to launch; others came later */
    fx_cu_function *functions;   /* by launch that is no call */
    fx_gpu_kernel *kernels; size_t n_kernels, cap_kernels;
    fx_cuda_products *products;  /* NULL: there is no call of one */
    int arch;
    const char *cache;
    uint64_t cache_most;
    fx_context *ctx;             /* of its own, for what is compiled while a call runs, and what lasts of that */
    fx_arena *lasting;           /* of it */
    fx_cu_ptr weights, state, counters, status;
    fx_gpu_block arena;
    fx_gpu_block *staging;              /* by input, then output: for what is not on the device, or not aligned */
    fx_cu_event done;            /* the last call */
    void *last;                  /* its stream */
    bool used;                   /* there was one */
    bool cached;
    pthread_mutex_t turn;
    uint64_t *room, *offsets;    /* of the arena, see fx_program_places */
    fx_cu_ptr *place;            /* by buffer: where it lies in the call at hand */
    void **arguments;            /* of the launch at hand */
    ptrdiff_t *sizes;            /* by symbol */
};

/* cuda.c */
fx_status fx_gpu_check(const fx_gpu_code *g, fx_words w, fx_cu_status status, const char *what); /* what a call of CUDA's tells */

/* cuda_kernel.c: step number's call, which is one of a kernel of runtime/cuda/: launched; or the launches' kernels are only noted (plan), and products planned. */
fx_status fx_gpu_call_step(fx_gpu_code *g, fx_words w, size_t number, const int64_t *symbols, fx_cu_stream stream, bool plan);
/* Compiles the kernels that were noted, with the text's (all) or alone, and loads them. */
fx_status fx_gpu_build(fx_gpu_code *g, fx_context *ctx, fx_arena *arena, bool all);

#endif
