/* lower/streams.h: what a step costs a GPU, in time and memory, as the pass streams reckons (lower/streams_cost.c).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_STREAMS_H
#define FXCC_LOWER_STREAMS_H

#include "ir/program_check.h"
#include "lower/lower.h"

typedef struct fx_step_cost {
    double us, full_us;           /* alone on the device; of all the device */
    int kernels;
} fx_step_cost;

/* Bytes of the arena at one choice of sizes. What lives while steps [from, to] do is enter[from] + born[to + 1] - born[from], workspace aside. */
typedef struct fx_step_memory {
    double *enter;                /* by step: made before it, touched by it or behind it */
    double *born;                 /* by step: all that steps before it are the first to touch */
    double *workspace;            /* by step, as it is in a region */
    double peak;                  /* the most that lives in one step, on one stream */
} fx_step_memory;

typedef struct fx_stream_costs {
    fx_step_cost *step;
    int n_memory;                 /* 2 where sizes are open: at their lower and upper ends */
    fx_step_memory memory[2];
} fx_stream_costs;

/* t: all that the steps touch, step by step. */
fx_stream_costs fx_stream_costs_of(fx_arena *arena, const fx_program *p, const fx_touches *t);

/* Bytes by which the workspace of the step is smaller in a region: it begins with cuBLASLt's, of which a region leaves a share. 0: no product. */
size_t fx_stream_workspace_less(const fx_program *p, const fx_step *step);

#endif
