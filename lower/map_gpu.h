/* lower/map_gpu.h: what the files of the map_gpu pass share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_MAP_GPU_H
#define FXCC_LOWER_MAP_GPU_H

#include "lower/nest_edit.h"
#include "lower/prove.h"

typedef struct fx_gpu_map {
    fx_lower *l;
    fx_program *p;
    fx_prover r;                  /* asked which loops may run at once */
    int next_var;                 /* of the step: free */
} fx_gpu_map;

/* map_gpu.c: the list as the body of a grid of a single thread. */
fx_stmt *fx_map_one_thread(fx_gpu_map *m, fx_stmt *list);

/* map_points.c: the nest, a loop, as loops over a grid, a thread an iteration of all its outer loops that may run at once. With only such loops
 * around it; never refused. */
fx_stmt *fx_map_points(fx_gpu_map *m, const fx_stmt *nest);

#endif
