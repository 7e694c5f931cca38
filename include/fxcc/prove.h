/* fxcc/prove.h: what is proved of a model's loops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Every compile proves that each access of each loop lies within its buffer, that iterations which run at once touch different elements,
 * that kernels' preconditions hold and that buffers which live at once lie apart; what is not proved fails it. fx_prove tells each proof. */
#ifndef FXCC_PROVE_H
#define FXCC_PROVE_H

#include "fxcc/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fx_proof {
    const char *step;     /* the step's name; "arena" for the lives of buffers */
    const char *loop;     /* "for 112 h parallel, 112 w, 64 c vector", "call conv2d" */
    const char *what;     /* "3 accesses within their buffers, iterations of h apart" */
    const char *by;       /* "intervals, strides"; "as layer1_0_relu": the same statements were proved before */
    double seconds;
    bool proved;
    const char *missing;  /* what is not proved; NULL when all is */
} fx_proof;

typedef struct fx_prove_summary {
    size_t proved, unproved;          /* lines */
    double seconds, isl_seconds;      /* in all proofs; isl's part */
    int isl_queries;
} fx_prove_summary;

/* Lowers graph (left unchanged) and calls line for each proof in order; strings are good during the call. FX_OK even when some are not
 * proved: see the summary. Options as for fx_compile. */
fx_status fx_prove(fx_graph *graph, const fx_compile_options *options, void (*line)(void *user, const fx_proof *proof), void *user,
                   fx_prove_summary *summary);

#ifdef __cplusplus
}
#endif
#endif
