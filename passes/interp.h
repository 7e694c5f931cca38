/* passes/interp.h: what the files interp*.c of the interpreter of graphs share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PASSES_INTERP_H
#define FXCC_PASSES_INTERP_H

#include "ir/ops.h"
#include "passes/passes.h"

/* The value of a node: tensors, or something of Python that is none. */
typedef struct fx_run_value {
    int count;               /* tensors; -1: no value (not run yet, or freed) */
    fx_tensor *tensors;
    const fx_type *type;     /* with all sizes known; never NULL when there is a value */
    const fx_arg *constant;  /* None, numbers, dtypes, tuples of these: the value as an argument; else NULL */
    int uses;                /* still to come */
} fx_run_value;

/* A graph being run: the caller's, a module's body, or what a node was legalised to. */
typedef struct fx_run_frame {
    fx_graph *g;
    fx_graph *attrs;         /* where parameters are looked up first */
    fx_run_value *values;    /* by node id */
    uint32_t n_values;
    const fx_run_value *const *inputs; /* of the placeholders in order (NULL: the default); NULL at the top: the caller's tensors */
    size_t n_inputs;
    struct fx_run_frame *outer;
} fx_run_frame;

struct fx_interpreter {
    fx_context *ctx;
    fx_graph *g;
    fx_interpreter_options opt;
    fx_arena *arena;         /* this, and what outlives a run */
    fx_arena *run;           /* of one run */
    fx_heap *heap;
    fx_run_frame *frames;    /* running, the innermost first */
    fx_run_frame *top;       /* of the last run, or NULL */
    int depth;               /* of frames */
    fx_map expansions;       /* node -> what it was legalised to */
    struct fx_expansion *all;
    fx_map owners;           /* storage -> where it was read from by a get_attr */
    bool running;
    size_t n_in;
    const fx_tensor *in;
    int64_t *symbols;        /* values of g->symbols; INT64_MIN: not bound */
    size_t n_out, cap_out;
    fx_tensor *out;
};

/* interpreter.c */
void fx_run_take(fx_interpreter *in, fx_run_value *v, const fx_type *type, int count, const fx_tensor *tensors);
bool fx_run_constant(fx_interpreter *in, const fx_arg *a, fx_run_value *v); /* false when the value has no form here: a dict, a graph */
void fx_run_drop(fx_interpreter *in, fx_run_value *v);
const fx_arg *fx_run_as_constant(fx_interpreter *in, const fx_run_value *v);     /* NULL: not one */
fx_status fx_run_operand(fx_interpreter *in, fx_run_frame *f, const fx_node *n, int operand, const fx_run_value **v);
/* Runs all nodes of f->g; values stay where the last use is not met: fx_run_leave frees them. */
fx_status fx_run_enter(fx_interpreter *in, fx_run_frame *f, const fx_node *from);
fx_status fx_run_nodes(fx_interpreter *in, fx_run_frame *f);
void fx_run_leave(fx_interpreter *in, fx_run_frame *f);

/* interp_call.c: calls that are no rows with arguments by schema. */
fx_status fx_run_call(fx_interpreter *in, fx_run_frame *f, const fx_node *n);
void fx_run_forget(fx_interpreter *in);  /* all that was legalised */

/* interp_python.c: a call that computes with Python's numbers, tuples and shapes: n with args in which constants stand for their nodes, other
 * values by number. *out is NULL when it is no such call. */
fx_status fx_run_python(fx_interpreter *in, const fx_node *n, const fx_arg *args, const fx_arg *kwargs, const fx_run_value *const *values,
                        const fx_arg **out);

#endif
