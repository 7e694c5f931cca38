/* fxcc/graph.h: captured graphs. FX's model in C: a list of nodes of six kinds over a tree of modules.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_GRAPH_H
#define FXCC_GRAPH_H

#include "fxcc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* FX's opcodes. */
typedef enum fx_opcode {
    FX_PLACEHOLDER, FX_GET_ATTR, FX_CALL_FUNCTION, FX_CALL_METHOD, FX_CALL_MODULE, FX_OUTPUT
} fx_opcode;

/* "placeholder", "get_attr", ... */
const char *fx_opcode_name(fx_opcode opcode);

/* Graphs and nodes belong to their context and live until it is freed. */
typedef struct fx_graph fx_graph;
typedef struct fx_node fx_node;

/* Nodes in topological order; NULL at the end (or for an empty graph). */
fx_node *fx_graph_first(const fx_graph *graph);
fx_node *fx_node_next(const fx_node *node);

fx_opcode fx_node_opcode(const fx_node *node);
const char *fx_node_name(const fx_node *node);
const char *fx_node_target(const fx_node *node);
size_t fx_graph_node_count(const fx_graph *graph);

/* Runs the graph by the reference interpreter on n_inputs tensors in placeholder order. *outputs gets an array of
 * *n_outputs tensors in the order of the output node, owned by the graph's context. FX_ERR_TYPE when an input's shape or
 * dtype is not the placeholder's. */
fx_status fx_graph_interpret(fx_graph *graph, size_t n_inputs, const fx_tensor *inputs, size_t *n_outputs, fx_tensor **outputs);

#ifdef __cplusplus
}
#endif
#endif
