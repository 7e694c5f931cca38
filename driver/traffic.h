/* driver/traffic.h: bytes that a program's statements read and write, and the least that any program of a graph must.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_DRIVER_TRAFFIC_H
#define FXCC_DRIVER_TRAFFIC_H

#include "ir/ir.h"
#include "ir/program.h"

/* Of a list of statements: each buffer in each direction at most once whole. workspace: of these, what blocks of one launch
 * pass to one another. */
typedef struct fx_traffic {
    uint64_t read, written, workspace;
    double flops;                /* of the scalar expressions; kernels' calls have theirs from the graph */
    bool moves, computes;        /* stores what it loaded; does anything else */
} fx_traffic;

/* traffic.c. The program has no symbols. what follows `last` is not looked at; NULL: all is. */
fx_traffic fx_traffic_of(const fx_program *p, fx_arena *arena, const fx_stmt *first, const fx_stmt *last);

/* Floating point operations of a product, a convolution or attention, from its sizes; 0: of another kernel. */
double fx_call_flops(const fx_call_stmt *c);

/* How many kernels runtime/cuda/ launches for a call. */
int fx_launches_of(const fx_program *p, const fx_call_stmt *c);

/* least.c: the least bytes that a program for this core graph moves, where one kernel makes one contraction, reduction, norm or pool, whatever
 * is done to single elements on the way being free. sizes: values of the graph's symbols. */
typedef struct fx_least {
    uint64_t inputs, outputs, weights, intermediates;
} fx_least;
fx_least fx_least_traffic(const fx_graph *g, fx_arena *arena, const int64_t *sizes);

#endif
