/* passes/passes.h: passes over graphs that users run and lowering shares (fxcc/pass.h is their public face).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A pass is a row of passes/pass.def and a function fx_gpass_NAME. It changes run->graph, notes what it did, and leaves copying, checks, log and
 * time to the manager (manager.c). Passes take graphs of any stage up to core unless their comment says otherwise: arguments of a captured
 * graph are as the user wrote them (read them with fx_call_view), those of later stages by schema. */
#ifndef FXCC_PASSES_H
#define FXCC_PASSES_H

#include "fxcc/interpreter.h"
#include "fxcc/pass.h"
#include "fxcc/pattern.h"
#include "ir/ir.h"

typedef struct fx_pass_run {
    fx_context *ctx;
    fx_graph *graph;
    fx_arena *scratch;          /* freed after the pass */
    const char *name;
    size_t n_changes;
    struct fx_pass_log *log;    /* manager.c's */
} fx_pass_run;

/* Logs one change; n NULL: of the graph as a whole. */
void fx_pass_note(fx_pass_run *run, const fx_node *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Logs what is no change. */
void fx_pass_tell(fx_pass_run *run, const fx_node *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The pass's options, as given or by default; the manager has checked that they are of their type. */
double fx_pass_float(const fx_pass_run *run, const char *name);
int64_t fx_pass_int(const fx_pass_run *run, const char *name);
bool fx_pass_bool(const fx_pass_run *run, const char *name);
const char *fx_pass_str(const fx_pass_run *run, const char *name);

#define GRAPH_PASS(name, ...) fx_status fx_gpass_##name(fx_pass_run *run);
#include "passes/pass.def"
#undef GRAPH_PASS

/* What a user who wrote `word` may have meant, of n names; NULL when nothing is near. */
const char *fx_nearest(const char *word, size_t n, const char *(*name)(const void *of, size_t i), const void *of);

/* ---- dead.c ------------------------------------------------------------------------------------------------------------------ */

/* Whether nobody would notice if n were gone: unused, and no write, random state, assert, input, output or unknown function. */
bool fx_is_dead(const fx_node *n);
/* Erases such nodes; how many went. */
size_t fx_remove_dead(fx_graph *g);

/* ---- tree.c: the module tree as passes change it ----------------------------------------------------------------------------------- */

/* What a get_attr and a call_module name; NULL when it does not exist. Targets are interned. */
static inline fx_attr *fx_target_attr(const fx_node *n)
{
    return fx_map_get(&n->graph->attrs_by_path, n->target);
}

static inline fx_module *fx_target_module(const fx_node *n)
{
    return *n->target ? fx_map_get(&n->graph->modules_by_path, n->target) : n->graph->root;
}

/* How many nodes use each attribute and module, directly or by calling a module above; what loses its last use is removed at the end. */
typedef struct fx_refs fx_refs;
fx_refs *fx_refs_count(fx_graph *g, fx_arena *arena);
size_t fx_refs_of_attr(const fx_refs *r, const fx_attr *a);
size_t fx_refs_of_module(const fx_refs *r, const fx_module *m);  /* of it, its tensors, and what holds it */
void fx_refs_drop_attr(fx_refs *r, fx_attr *a);                  /* one get_attr of it is gone */
void fx_refs_drop_module(fx_refs *r, fx_module *m);              /* one call of it is gone */
void fx_refs_remove_dropped(fx_refs *r);                         /* what was dropped and has no use left leaves the tree */

/* Another tensor in place of that at path; a new parameter when there is none. Tensors tied to the old one keep it. */
void fx_attr_put(fx_graph *g, const char *path, const fx_tensor *t);
void fx_module_put_config(fx_module *m, const char *key, const fx_arg *value);
/* Sets an argument of a call as its caller would: by position where that is possible, else by keyword. The node's type stays. */
void fx_node_put_argument(fx_node *n, int param, const char *name, fx_node *value);

/* ---- cse.c, fold.c: shared with lowering ----------------------------------------------------------------------------------------------- */

/* Of equal calls the first stays; how many went. With a run effects and aliases count, and merges are noted; without (lowering: nothing writes,
 * results are copied out) all equal calls merge. */
size_t fx_merge_equal(fx_graph *g, fx_arena *scratch, fx_pass_run *run);
/* Calls of constants become constants; the graph writes nothing. */
fx_status fx_fold_constants(fx_graph *g, fx_arena *scratch);

/* ---- normalize.c --------------------------------------------------------------------------------------------------------------------- */

/* "aten.add_.Tensor" for "aten.add.Tensor"; NULL when its name has no overload. */
const char *fx_op_inplace_name(fx_context *ctx, const fx_op *op);
/* The node becomes a call of call->op with these arguments (schema filled in), whose operand numbers are the node's. Its type stays. */
void fx_node_become_call(fx_node *n, const fx_call_args *call);

/* ---- copy.c: copies of nodes and modules between graphs -------------------------------------------------------------------------- */

/* What a node becomes in arguments: a tree whose FX_ARG_NODE leaves number `nodes`. */
typedef struct fx_stand {
    const fx_arg *tree;
    int n;
    fx_node *const *nodes;
} fx_stand;

typedef struct fx_copier {
    fx_graph *to;
    fx_arena *scratch;
    fx_node **node;             /* by id of the source graph's nodes: what stands for each (NULL: itself), ... */
    const fx_stand **stand;     /* ... or a tree; either array may be NULL */
    const fx_node *one;         /* a single node with a tree */
    const fx_stand *one_stand;
    const char *(*target)(void *user, const fx_node *n); /* of get_attr and call_module in the copy; NULL: as it is */
    void *user;
    fx_node **operands;         /* of the last fx_copier_args */
    size_t n_operands, cap_operands;
} fx_copier;

fx_copier fx_copier_new(const fx_graph *from, fx_graph *to, fx_arena *scratch);
/* n's arguments with what stands for its operands (an operand without is itself); the new operands are c->operands. */
void fx_copier_args(fx_copier *c, const fx_node *n, const fx_arg **args, const fx_arg **kwargs);
/* A copy of n at the insertion point: arguments by the copier, type, location and notes kept; it stands for n from now on. */
fx_node *fx_copier_node(fx_copier *c, const fx_node *n, const char *name);

/* What lies at and below `from` is made in graph `to` at `path` (storages are shared, so aliases stay aliases). The module or attribute must
 * not exist there. */
void fx_module_copy_to(fx_graph *to, const char *path, const fx_module *from);
void fx_attr_copy_to(fx_graph *to, const char *path, const fx_attr *from);
/* What n, a get_attr or call_module of another graph, needs is made in `to` under the same path, unless it is there. */
void fx_copy_target(fx_graph *to, const fx_node *n);
/* An empty graph with g's file, stage and symbols. */
fx_graph *fx_graph_like(const fx_graph *g, const char *name);

/* ---- order.c ---------------------------------------------------------------------------------------------------------------------- */

/* What must stay before what beside values: nodes that write memory before and after those that read it, random draws in their order. By id: pred[start[id]] .. pred[end[id] - 1]; NULL when values alone order the graph. Near-linear. */
typedef struct fx_order {
    size_t *start, *end;
    fx_node **pred;
} fx_order;
fx_order fx_order_new(const fx_graph *g, fx_arena *arena);
/* The i-th node that must stand before n, operands first; NULL past the last. */
fx_node *fx_order_pred(const fx_order *o, const fx_node *n, size_t i);

/* ---- split.c ---------------------------------------------------------------------------------------------------------------------- */

/* Some nodes of a graph as a graph: what it takes, holds and returns (one value, or a tuple). */
typedef struct fx_subgraph_parts {
    size_t n_inputs;
    fx_node *const *inputs;
    size_t n_nodes;
    fx_node *const *nodes;      /* in order; get_attr among them */
    size_t n_outputs;
    fx_node *const *outputs;
} fx_subgraph_parts;
/* c: its arena, and room by id of g for what stands for the nodes; its graph is set. */
fx_graph *fx_subgraph(const fx_graph *g, const fx_subgraph_parts *p, const char *name, fx_copier *c);

/* Whether n's value is a tuple or list of several, as far as is known. */
bool fx_gives_tuple(const fx_node *n);

/* Calls put into parts; each part with nodes becomes a module that holds a graph, called where it stood. */
typedef struct fx_parts {
    const fx_graph *g;
    int n;
    int *of;                    /* by node id: 0 .. n - 1, or -1: stays in the outer graph */
    const char *const *names;   /* of the modules */
    bool in_order;              /* call them in the order of the parts as far as values allow; else in that of the graph */
} fx_parts;
fx_status fx_parts_build(const fx_parts *p, fx_graph **out);

/* ---- inline.c ------------------------------------------------------------------------------------------------------------------- */

/* Calls of modules that hold a graph (split, fused parts) are replaced by that graph's nodes, nested ones too; their attributes and modules
 * move to paths below the module's ("submod_0.conv.weight"). In place; after a failure the graph is not to be used. */
fx_status fx_inline_bodies(fx_graph *g);

/* ---- legalize*.c: torch.fx's spellings become operators of op.def ------------------------------------------------------------- */

/* A captured graph becomes an imported one, in place: call_module of nn classes, call_method and call_function in any spelling become calls of
 * rows with normalised arguments, everything typed from the placeholders' types. All nodes it cannot take are named at once
 * (FX_ERR_UNSUPPORTED). Of graphs past that stage only modules that hold graphs are inlined. */
fx_status fx_legalize(fx_graph *g);
fx_status fx_inputs_typed(const fx_graph *g); /* of one that is legal, and may have got inputs since */

/* One node of a captured graph, whose operands are typed: the calls it stands for are created before it, its uses moved, it is erased. *out is
 * what stands for it (it itself when it needed no change); NULL when that is a number or tuple, which its users have as argument then. */
fx_status fx_legalize_node(fx_node *n, fx_node **out);

#endif
