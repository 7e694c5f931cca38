/* driver/jit.h: what a compiled function is. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_DRIVER_JIT_H
#define FXCC_DRIVER_JIT_H

#include <pthread.h>

#include "driver/driver.h"
#include "fxcc/jit.h"
#include "jit/code.h"
#include "jit/cuda.h"

enum { FX_FUNCTION_SYMBOLS = 64 }; /* most open sizes: calls keep their values on the stack */

/* Memory of one call at a time, kept for the next. */
typedef struct fx_scratch {
    struct fx_scratch *next;
    void *arena;                 /* 64-byte aligned */
    uint64_t size, need;         /* need: for the sizes below */
    int64_t *values;             /* the symbols' of the call before */
    bool sized;                  /* need and values are told */
    void **io;
    uint64_t *bytes;             /* of each */
    struct fx_span *spans;
} fx_scratch;

/* Calls use none of the graph's context but its memory, and that they only read. */
struct fx_function {
    fx_context *own;             /* holds the program and the weights that lowering made */
    fx_lease *lease;             /* of the graph's context */
    fx_program *program;
    fx_open_sizes open;          /* of its inputs */
    fx_code *code;               /* NULL: it is for a device */
    fx_gpu_code *gpu;            /* NULL: it is for this machine's processor */
    const void **weights;
    fx_value_info *inputs, *outputs, *states;
    const char **expected;       /* "float32[n in 1..64, 3]" by input, for messages */
    unsigned char *state;        /* what calls change and the next call reads; NULL: nothing */
    pthread_mutex_t turn;        /* calls that use the state come one after another */
    pthread_mutex_t lock;        /* of free, last_arena */
    fx_scratch *free;
    uint64_t last_arena;
    volatile uint64_t magic;     /* between what allocators write into memory that was freed: at its begin, and at its end */
    uint64_t unused;
};

#define FX_FUNCTION_LIVE UINT64_C(0x6c6976656678636a)
#define FX_FUNCTION_FREED UINT64_C(0x676f6e656678636a)

/* NULL when f can be used; else why not. */
const char *fx_function_fault(const fx_function *f);
void fx_scratch_free(fx_scratch *s);

#endif
