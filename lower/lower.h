/* lower/lower.h: graph to loop program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_H
#define FXCC_LOWER_H

#include "ir/ir.h"
#include "ir/program.h"

typedef struct fx_lower_options {
    fx_target target;
    int threads;                  /* most threads the emitted code may use (workspace) */
    const char *dump_before, *dump_after, *stop_after; /* pass names, NULL: none; "all" dumps all */
    bool time_passes;
    /* Text of dumps and times goes here. */
    void (*out)(void *user, const char *text);
    void *user;
} fx_lower_options;

/* Runs the passes of pass.def in order on g (changed) and builds the program. With stop_after *out may be NULL.
 * Passes over graphs:    fx_status fx_pass_NAME(fx_lower *l)    l->graph
 * Passes over programs:  the same,                               l->program */
typedef struct fx_lower {
    fx_context *ctx;
    fx_graph *graph;
    fx_program *program;
    const fx_lower_options *opt;
    fx_arena *scratch;            /* freed after each pass */
} fx_lower;

fx_status fx_lower_run(fx_graph *g, const fx_lower_options *opt, fx_program **out);

#define PASS(name, ...) fx_status fx_pass_##name(fx_lower *l);
#include "lower/pass.def"
#undef PASS

#endif
