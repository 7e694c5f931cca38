/* fxcc/pass.h: passes over graphs, run by name or as a pipeline.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PASS_H
#define FXCC_PASS_H

#include "fxcc/module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a pass takes: "fraction=0.5" in a pipeline. */
typedef struct fx_pass_param {
    const char *name, *type; /* "float", "int", "bool", "str" */
    const char *def;         /* as text; NULL when it must be given */
    const char *doc;
} fx_pass_param;

/* A row of passes/pass.def. */
typedef struct fx_graph_pass {
    const char *name, *doc;
    size_t n_params;
    const fx_pass_param *params;
    const char *after;       /* names of passes that must stand before it when both are in a pipeline, space separated */
    bool idempotent;         /* run twice it changes nothing more */
} fx_graph_pass;
/* The i-th pass in the order of the table; NULL past the last. */
const fx_graph_pass *fx_graph_pass_get(size_t i);

/* One thing a pass did: replaced, removed, added, changed. */
typedef struct fx_change {
    const char *pass, *node; /* the node's name when it was changed; NULL: the graph or module tree */
    const char *what;        /* "removed: unused", "fused batch_norm 'bn1' into 'conv1'" */
} fx_change;

typedef struct fx_pass_time {
    const char *pass;
    double seconds;
    size_t changes;
    size_t nodes_after;
} fx_pass_time;

/* What a run did. Arrays live in the graph's context. */
typedef struct fx_pass_report {
    size_t n_changes;
    const fx_change *changes;
    size_t n_times;
    const fx_pass_time *times;
    size_t n_notes;            /* what passes say that is no change: costs counted, why nothing was done */
    const fx_change *notes;
} fx_pass_report;

typedef struct fx_pass_options {
    bool in_place;           /* change the graph given; else it is untouched and a copy is changed */
    bool no_lint;            /* leave out the check after each pass */
    /* Called after each pass with the graph as it is; a status other than OK stops. May be NULL. */
    fx_status (*check)(void *user, const char *pass, fx_graph *graph);
    void *user;
} fx_pass_options;

/* Runs a pipeline, "fuse_conv_bn,prune(amount=0.5),eliminate_dead_code", in its order; passes and their options: fxcc passes, docs/passes.md.
 * options and report may be NULL. *out: the changed graph (graph itself in place). An unknown pass, option or order is FX_ERR_ARGUMENT with
 * the nearest name, before anything runs; a pass that fails leaves *out and (in place too) the graph unchanged. */
fx_status fx_graph_run_passes(fx_graph *graph, const char *pipeline, const fx_pass_options *options, fx_graph **out, fx_pass_report *report);

/* A captured graph (as torch.fx made it or a caller built it) as a graph of aten operators: calls of torch.nn's modules, tensors' methods and
 * Python's functions become calls of operators, shapes become numbers, everything is typed from the placeholders. fx_compile does so first.
 * Pure; graph itself when it is past that. FX_ERR_UNSUPPORTED naming all nodes that cannot be taken, FX_ERR_TYPE where shapes contradict. */
fx_status fx_graph_legalize(fx_graph *graph, fx_graph **out);

/* Every random operator (dropout in training mode, rand, bernoulli, ...) draws from Philox 4x32-10 with a state, int64[2]: a seed, and the number
 * of the call; which of them element i gets depends on nothing else. input: the state is a new input, the last, named FX_PHILOX_STATE; else a
 * buffer of that name, whose number each run raises by one (its seed is 0 until the caller sets one). A graph without random operators stays
 * as it is; a captured one that calls aten's is legalised. fx_compile does the latter. Pure. The pass "philox". */
#define FX_PHILOX_STATE "philox_state"
fx_status fx_graph_add_philox_state(fx_graph *graph, bool input, fx_graph **out);

/* FLOPs (multiply-adds count 2), elements of parameters, bytes of parameters and buffers (aliases once), largest sum of live activations
 * in bytes (each freed after its last use). Dims must be static. */
typedef struct fx_graph_cost {
    int64_t flops, parameters, weight_bytes, peak_activation_bytes;
} fx_graph_cost;
fx_status fx_graph_count(fx_graph *graph, fx_graph_cost *out);

/* ---- replacing ---------------------------------------------------------------------------------------------------------- */

/* Every call of one operator becomes one of another with the same arguments by name ("aten.relu.default" -> "aten.silu.default"); module
 * calls of a class whose operator it is ("torch.nn.ReLU") change class. In place. *count: how many. FX_ERR_TYPE, nothing changed, when the
 * other does not take the arguments of one of them. */
fx_status fx_graph_replace_op(fx_graph *graph, const char *from, const char *to, size_t *count);
/* Every module of class `from` gets class `to` with the given settings; parameters of the same name and shape stay. In place. */
fx_status fx_graph_replace_module(fx_graph *graph, const char *from, const char *to, int n_config, const char *const *keys,
                                  const fx_value *config, size_t *count);

/* ---- splitting ------------------------------------------------------------------------------------------------------------ */

/* FX's split_module: cuts the graph into parts numbered by part(user, node) (any numbers from 0; placeholders, get_attr and output are not
 * asked). The result calls submodules "submod_0", ... each holding a graph (fx_module_graph); values that cross become their inputs and
 * outputs. Parameters and buffers that one part alone uses move into it, others are passed; modules go where they are called. An item of a
 * call's tuple goes where the call is. FX_ERR_ARGUMENT naming the nodes when parts depend on each other in a circle (through values, or
 * because one writes what the other reads). Pure. */
fx_status fx_graph_split_module(fx_graph *graph, int (*part)(void *user, const fx_node *node), void *user, fx_graph **out);
/* FX's split_by_tags: parts by the text in the nodes' meta "tag", in the order given; every call must have one of them. */
fx_status fx_graph_split_by_tags(fx_graph *graph, size_t n_tags, const char *const *tags, fx_graph **out);
/* The graph a submodule holds, or NULL. */
fx_graph *fx_module_graph(const fx_module *m);

/* FX's CapabilityBasedPartitioner: groups of nodes for which supported returns true, as large as can be without making the graph of
 * groups and single nodes cyclic. partition[i] of the i-th node in order gets its group from 0, or -1; *n_partitions how many: no two of
 * them could be one. Groups of fewer than min_size calls (taking tuples apart is none) are dissolved. Linear in nodes and uses. */
fx_status fx_graph_partition(fx_graph *graph, bool (*supported)(void *user, const fx_node *node), void *user, size_t min_size,
                             int *partition, size_t *n_partitions);
/* Makes each group a submodule call "fused_0", ...; pure. */
fx_status fx_graph_fuse_partitions(fx_graph *graph, const int *partition, fx_graph **out);

/* A graph of what lies between: inputs become placeholders, outputs are returned. FX_ERR_ARGUMENT naming a placeholder that outputs
 * need and inputs do not cut off. Pure. */
fx_status fx_graph_extract_subgraph(fx_graph *graph, size_t n_inputs, fx_node *const *inputs, size_t n_outputs, fx_node *const *outputs,
                                    fx_graph **out);

/* FX's minimizer by bisection: the smallest run of consecutive call nodes it finds for whose extracted graph fails(user, part) is still true
 * (it must be for the whole graph). *tries: how often fails was called, O(log n) for a single culprit. */
fx_status fx_graph_minimize(fx_graph *graph, bool (*fails)(void *user, fx_graph *part), void *user, fx_graph **out, size_t *tries);

#ifdef __cplusplus
}
#endif
#endif
