/* fxcc/interpreter.h: running a graph node by node, and rebuilding it so (FX's Interpreter and Transformer).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_INTERPRETER_H
#define FXCC_INTERPRETER_H

#include "fxcc/module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values of a node: one tensor, or several of a tuple; numbers are tensors of rank 0 (i64, f64, bool). */
typedef struct fx_result {
    size_t count;
    const fx_tensor *tensors;
    bool is_tuple;
} fx_result;

typedef struct fx_interpreter fx_interpreter;

typedef struct fx_interpreter_options {
    /* For each opcode, instead of the built-in meaning: sets *out from the values of all_input_nodes in order and returns FX_OK, or leaves
     * *handled false for the built-in. Any may be NULL. What it makes comes from fx_interpreter_tensor and is freed as other values are, or
     * must live until the next run. Of FX_OUTPUT: the outputs. */
    fx_status (*run[FX_OUTPUT + 1])(void *user, fx_interpreter *interpreter, const fx_node *node, size_t n_inputs, const fx_result *inputs,
                                    fx_result *out, bool *handled);
    /* Around every node; a status other than FX_OK stops the run with it. */
    fx_status (*before)(void *user, fx_interpreter *interpreter, const fx_node *node);
    fx_status (*after)(void *user, fx_interpreter *interpreter, const fx_node *node, const fx_result *value);
    void *user;
    bool keep_values;  /* keep all values (FX's garbage_collect_values=False); else each is freed after its last use */
    /* Writes reach the caller's inputs and the graph's parameters and buffers, as in eager. Else inputs are copied before they are first
     * written, and a write to a parameter or buffer is refused. */
    bool in_place;
} fx_interpreter_options;

/* options may be NULL. NULL on failure. The graph may be edited between runs, not during one. Freed with the context at latest. */
fx_interpreter *fx_interpreter_create(fx_graph *graph, const fx_interpreter_options *options);
void fx_interpreter_free(fx_interpreter *interpreter);

/* Runs all nodes of a graph of any stage. A captured graph's calls are legalised one by one on the values they meet, and calls of modules
 * that hold a graph run it. Outputs are those of fx_graph_interpret, but views where eager's are; they and kept values live until the next
 * run (whose inputs they may be) or until the interpreter is freed. Errors name the node, its module and its source line; the values
 * there were then can be looked at. */
fx_status fx_interpreter_run(fx_interpreter *interpreter, size_t n_inputs, const fx_tensor *inputs, size_t *n_outputs, const fx_tensor **outputs);

/* In a callback: a zeroed dense tensor in the interpreter's memory, to be what the callback yields. */
fx_status fx_interpreter_tensor(fx_interpreter *interpreter, fx_dtype dtype, int rank, const int64_t *sizes, fx_tensor *out);

/* FX's interpreter.env: the value a node has now; false when it has none (not run yet, freed). */
bool fx_interpreter_value(const fx_interpreter *interpreter, const fx_node *node, fx_result *out);
/* Bytes of values alive now, and the most there were in the last run. */
size_t fx_interpreter_bytes(const fx_interpreter *interpreter, size_t *peak);

/* FX's Transformer: builds a new graph by walking this one. Each callback gets the node and the new graph (insertion point at its end) and
 * may create nodes there; *out gets the node that stands for it (NULL with FX_OK: the node is copied as it is). args[i] are the new nodes
 * for all_input_nodes. Callbacks by opcode; NULL copies. Pure. */
typedef struct fx_transformer {
    fx_status (*transform[FX_OUTPUT + 1])(void *user, fx_graph *to, const fx_node *node, size_t n_args, fx_node *const *args, fx_node **out);
    void *user;
} fx_transformer;
fx_status fx_graph_transform(const fx_graph *graph, const fx_transformer *transformer, fx_graph **out);

#ifdef __cplusplus
}
#endif
#endif
