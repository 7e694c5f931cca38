/* lower/lower.h: graph to loop program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_H
#define FXCC_LOWER_H

#include "ir/ir.h"
#include "ir/program.h"

/* Parts of lowering that can be turned off (--disable=fuse,layout,...): for comparison, and drawn by the random tests. What comes
 * out computes the same. */
#define FX_LOWER_PARTS(X)                                                                                              \
    X(FUSE, "fuse", "pointwise chains, tails of contractions, rows of reductions become one step")                     \
    X(LAYOUT, "layout", "channels-last activations: without it they are stored as eager has them, with copies around kernels") \
    X(INPLACE, "inplace", "concatenations and outputs computed in place, buffers that take another's place")           \
    X(ATTENTION, "attention", "attention as one kernel that does not store the score matrix")                          \
    X(MERGE, "merge", "matrix products that share an input become one")                                                \
    X(SCHEDULE, "schedule", "isl reorders and tiles plain loop nests")                                                 \
    X(HALF, "half", "a GPU's kernels take float16 and bfloat16 as they are: without it they are converted around them") \
    X(STREAMS, "streams", "a GPU's independent chains of steps on streams of their own")                               \
    X(PAYS, "pays", "these only where it is reckoned to pay: without it wherever there are some")                       \
    X(WINOGRAD, "winograd", "for a GPU, 3 x 3 convolutions with many multiplications by Winograd's F(4,3)")
enum {
#define FX_X(id, name, doc) FX_PART_##id,
    FX_LOWER_PARTS(FX_X)
#undef FX_X
    FX_PART_COUNT
};
#define FX_OFF(id) (1u << FX_PART_##id)

/* Faults that tests put into lowering, each of a kind that a verifier, a proof or the random test must catch. */
typedef enum fx_fault {
    FX_FAULT_NONE,
    FX_FAULT_FREE_EARLY,          /* the planner ends each life a step too soon */
    FX_FAULT_MAP_OFF_BY_ONE,      /* a slice starts one element late */
    FX_FAULT_FUSE_ACROSS_WRITE,   /* overlay: a result takes the place of an operand that is read again later in the step */
    FX_FAULT_NO_WRAP,             /* integer arithmetic narrower than 32 bits is not wrapped */
    FX_FAULT_PARALLEL_REDUCTION,  /* a reduction's loop is marked parallel */
    FX_FAULT_NO_CHECK,            /* an index that is data is not checked */
    FX_FAULT_COUNT
} fx_fault;

struct fx_proof;

typedef struct fx_lower_options {
    fx_target target;
    int threads;                  /* most threads the emitted code may use (workspace) */
    const char *dump_before, *dump_after, *stop_after; /* pass names, NULL: none; "all" dumps all */
    bool time_passes;
    unsigned off;                 /* FX_OFF_*: what not to do */
    fx_fault fault;               /* tests only: a fault put in on purpose, which must be caught */
    /* Text of dumps and times goes here. */
    void (*out)(void *user, const char *text);
    void *user;
    bool unproved_warn;           /* what is not proved is a warning, not an error */
    void (*proof)(void *user, const struct fx_proof *proof); /* told each proof (fxcc/prove.h); NULL: none */
    void *proof_user;
    double *isl_seconds;          /* set to what isl took in all, and to the number of its queries; NULL: not wanted */
    int *isl_queries;
} fx_lower_options;

/* Whether the kernel is given tensors of dtype as they are. */
bool fx_lower_takes(const fx_lower_options *opt, fx_kernel_id kernel, fx_dtype dtype);

/* Runs the passes of pass.def in order on g (changed) and builds the program. With stop_after *out may be NULL.
 * Passes over graphs:    fx_status fx_pass_NAME(fx_lower *l)    l->graph
 * Passes over programs:  the same,                               l->program */
typedef struct fx_lower {
    fx_context *ctx;
    fx_graph *graph;
    fx_program *program;
    const fx_lower_options *opt;
    fx_arena *scratch;            /* freed after each pass */
    fx_arena *piece;              /* passes that go step by step empty it after each: what only the step at hand needs */
    struct fx_isl *isl;           /* fx_lower_isl */
} fx_lower;

/* state.c: what fx_pass_state leaves, as notes that a text keeps. The buffer that an input stands for; NULL: it is the caller's. */
const char *fx_state_of(const fx_node *input);
/* Targets of the inputs that the last results of the graph are new values of: a list, as a note of the output; NULL: none. */
const fx_arg *fx_state_writes(const fx_graph *g);

/* isl, opened for the first pass that asks (lower/isl.h). */
struct fx_isl *fx_lower_isl(fx_lower *l);

fx_status fx_lower_run(fx_graph *g, const fx_lower_options *opt, fx_program **out);

#define PASS(name, ...) fx_status fx_pass_##name(fx_lower *l);
#include "lower/pass.def"
#undef PASS

#endif
