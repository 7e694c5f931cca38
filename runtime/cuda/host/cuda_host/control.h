/* What a test says to the host's CUDA, and asks of it. Nothing here is CUDA's.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_CONTROL_H
#define FXCU_CONTROL_H
#include <stddef.h>
#include <stdint.h>

/* In which order the threads of a block run between barriers, the blocks of a grid, and what is ready on several streams. Any order is
 * legal; a program that depends on one is wrong. */
typedef enum fxcu_schedule {
    FXCU_FORWARD,      /* threads and blocks upwards; work on streams as it is given */
    FXCU_REVERSE,      /* downwards; work on streams as late as can be, what was given last first */
    FXCU_RANDOM,       /* by chance, from the seed */
    FXCU_WARP,         /* a warp runs to its barrier before the next one starts, upwards; streams as in reverse */
    FXCU_WARP_REVERSE, /* the same, downwards */
    FXCU_EACH,         /* every launch under all of FXCU_SCHEDULES, from the same memory: where two results differ, that is an error */
} fxcu_schedule;

/* The schedules that everything is tested with: forward, reverse, random with three seeds, by warps upwards and downwards. A program begins with the
 * first, or with the one whose number the environment's FXCU_SCHEDULE is. */
#define FXCU_SCHEDULES 7
void fxcu_set_schedule(fxcu_schedule schedule, uint64_t seed);
void fxcu_set_schedule_number(int number); /* 0 to FXCU_SCHEDULES - 1 */
const char *fxcu_schedule_name(int number);

/* The last error's message: kernel, block, thread and line where they are known. "" after fxcu_reset. Messages go to stderr too, unless quiet.
 */
const char *fxcu_message(void);
void fxcu_quiet(int quiet);

/* What is alive: device and pinned buffers, streams, events, graphs, cuBLAS handles and descriptions. 0 when nothing leaks. */
size_t fxcu_alive(void);
/* Frees all that is alive, forgets pending work, errors (sticky ones too) and everything set; schedule, seed and quiet stay. */
void fxcu_reset(void);

typedef struct fxcu_device {
    int count;            /* devices; 0: none is there */
    int major, minor;     /* compute capability */
    size_t memory;        /* bytes; a buffer past it fails with cudaErrorMemoryAllocation */
    int image_major;      /* lowest and ... */
    int image_minor;      /* ... compute capability that the program has code for; a lower device: cudaErrorNoKernelImageForDevice */
    long fail_allocation; /* the n-th allocation from now on fails; 0: none */
    int lt_refuses;       /* cuBLASLt's heuristic has no answer for 1: epilogues but the default, 2: any product */
} fxcu_device;
fxcu_device fxcu_get_device(void);
void fxcu_set_device(fxcu_device device);

typedef struct fxcu_counts {
    uint64_t launches, blocks, threads, switches; /* since fxcu_reset */
    uint64_t copies, copied_bytes, gemms;
} fxcu_counts;
fxcu_counts fxcu_get_counts(void);
#endif
