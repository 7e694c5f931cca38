/* fxcc/graph.h: captured graphs, built and edited. FX's model in C: a list of nodes of six kinds over a tree of modules.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Names and meanings follow torch.fx as of torch 2.13 (Graph, Node); where they differ the comment says so. Graphs, nodes and what
 * accessors return belong to their context and live until it is freed; an erased node stays readable, so that a pointer to it is
 * refused and never dangles.
 *
 * An edit happens whole or not at all: functions that fail add a diagnostic to the context and leave the graph as it was. Functions
 * that return a node return NULL then (fx_graph_status tells the status). A NULL graph or node has no context to complain to: such a
 * call returns FX_ERR_ARGUMENT, NULL, 0 or false. Nodes of other graphs and erased nodes are refused by name. */
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

typedef struct fx_graph fx_graph;
typedef struct fx_node fx_node;

/* ---- arguments ------------------------------------------------------------------------------------------------------ */

/* What an argument can be (FX's Argument). */
typedef enum fx_arg_kind {
    FX_ARG_NONE, FX_ARG_NODE, FX_ARG_BOOL, FX_ARG_INT, FX_ARG_FLOAT, FX_ARG_COMPLEX, FX_ARG_STR, FX_ARG_DTYPE,
    FX_ARG_DEVICE, FX_ARG_LAYOUT, FX_ARG_MEMORY_FORMAT, FX_ARG_LIST, FX_ARG_TUPLE, FX_ARG_DICT, FX_ARG_SLICE,
    FX_ARG_ELLIPSIS, FX_ARG_SYM, FX_ARG_GRAPH
} fx_arg_kind;

/* An argument as FX shows it: nested, with nodes as leaves. Plain data, made by the fx_v_ functions below and passed by value; what
 * it points to need only live for the call. Values that accessors return are read with fx_value_item and live as their node's
 * arguments do: until they are edited. */
typedef struct fx_value {
    fx_arg_kind kind;
    int n;                            /* LIST, TUPLE, DICT: items; SLICE: 3 (start, stop, step) */
    union {
        bool b;
        int64_t i;
        double f[2];                  /* FLOAT; COMPLEX: real, imaginary */
        const char *s;                /* STR; DEVICE "cpu"; LAYOUT "torch.strided"; MEMORY_FORMAT "torch.channels_last"; SYM as text */
        fx_dtype dtype;
        fx_node *node;
        fx_graph *graph;
        const struct fx_value *items; /* of values the caller made; NULL in values read from nodes: use fx_value_item */
    } as;
    const char *const *keys;          /* DICT: n of them */
    const void *tree;                 /* of values read from nodes */
    const fx_node *of;
} fx_value;

static inline fx_value fx_v_none(void) { fx_value v = {FX_ARG_NONE, 0, {0}, 0, 0, 0}; return v; }
static inline fx_value fx_v_ellipsis(void) { fx_value v = fx_v_none(); v.kind = FX_ARG_ELLIPSIS; return v; }
/* A NULL node makes the call that gets it fail, so that a chain of creations need be checked only at its end. */
static inline fx_value fx_v_node(fx_node *n) { fx_value v = fx_v_none(); v.kind = FX_ARG_NODE; v.as.node = n; return v; }
static inline fx_value fx_v_bool(bool b) { fx_value v = fx_v_none(); v.kind = FX_ARG_BOOL; v.as.b = b; return v; }
static inline fx_value fx_v_int(int64_t i) { fx_value v = fx_v_none(); v.kind = FX_ARG_INT; v.as.i = i; return v; }
static inline fx_value fx_v_float(double f) { fx_value v = fx_v_none(); v.kind = FX_ARG_FLOAT; v.as.f[0] = f; return v; }
static inline fx_value fx_v_complex(double re, double im) { fx_value v = fx_v_none(); v.kind = FX_ARG_COMPLEX; v.as.f[0] = re; v.as.f[1] = im; return v; }
static inline fx_value fx_v_dtype(fx_dtype d) { fx_value v = fx_v_none(); v.kind = FX_ARG_DTYPE; v.as.dtype = d; return v; }
/* kind: STR, DEVICE, LAYOUT, MEMORY_FORMAT */
static inline fx_value fx_v_text(fx_arg_kind kind, const char *s) { fx_value v = fx_v_none(); v.kind = kind; v.as.s = s; return v; }
static inline fx_value fx_v_str(const char *s) { return fx_v_text(FX_ARG_STR, s); }
/* kind: LIST, TUPLE, SLICE (n = 3) */
static inline fx_value fx_v_seq(fx_arg_kind kind, int n, const fx_value *items) { fx_value v = fx_v_none(); v.kind = kind; v.n = n; v.as.items = items; return v; }
static inline fx_value fx_v_list(int n, const fx_value *items) { return fx_v_seq(FX_ARG_LIST, n, items); }
static inline fx_value fx_v_tuple(int n, const fx_value *items) { return fx_v_seq(FX_ARG_TUPLE, n, items); }
static inline fx_value fx_v_dict(int n, const char *const *keys, const fx_value *items) { fx_value v = fx_v_seq(FX_ARG_DICT, n, items); v.keys = keys; return v; }
static inline fx_value fx_v_graph(fx_graph *g) { fx_value v = fx_v_none(); v.kind = FX_ARG_GRAPH; v.as.graph = g; return v; }

/* Item i of a LIST, TUPLE, DICT or SLICE, made or read; NONE when there is no such item. */
fx_value fx_value_item(const fx_value *v, int i);
/* Key i of a DICT, or NULL. */
const char *fx_value_key(const fx_value *v, int i);
/* "[%x, (1, 2.5), torch.float32]" into buf as snprintf does: at most size bytes with the zero; returns the whole length. */
size_t fx_value_format(const fx_value *v, char *buf, size_t size);

/* ---- graphs ----------------------------------------------------------------------------------------------------------- */

/* An empty graph over an empty module tree. name: an identifier for texts and emitted code. NULL when out of memory. */
fx_graph *fx_graph_create(fx_context *ctx, const char *name);

/* The status of the last call on this graph that failed and returned a node or a pointer. */
fx_status fx_graph_status(const fx_graph *graph);

const char *fx_graph_name(const fx_graph *graph);

/* Nodes in order; NULL at the end (or for an empty graph). Editing while walking is defined: an inserted node is met if it stands
 * further on; next of an erased node goes on where it stood. */
fx_node *fx_graph_first(const fx_graph *graph);
fx_node *fx_graph_last(const fx_graph *graph);
fx_node *fx_node_next(const fx_node *node);
fx_node *fx_node_prev(const fx_node *node);
size_t fx_graph_node_count(const fx_graph *graph);

/* The node of that name, or NULL. */
fx_node *fx_graph_find_node(const fx_graph *graph, const char *name);

/* FX's find_nodes: the nodes of this opcode and target (NULL: any target; for call_function, also every spelling of the same operator:
 * "torch.relu" finds "aten.relu.default"), in order. Fills out up to max, returns how many there are. */
size_t fx_graph_find_nodes(const fx_graph *graph, fx_opcode opcode, const char *target, fx_node **out, size_t max);

/* The output node, or NULL. */
fx_node *fx_graph_output_node(const fx_graph *graph);

/* FX's deepcopy of a GraphModule: nodes, module tree, meta. Storages are shared until one side writes them (weights are copied only
 * when changed), aliases stay aliases. NULL on failure. */
fx_graph *fx_graph_deepcopy(const fx_graph *graph);

/* ---- creating nodes --------------------------------------------------------------------------------------------------- */

/* FX's create_node, at the insertion point (at first, the end). target: the operator ("aten.relu.default", "torch.relu",
 * "operator.add"; known spellings in docs/ops.md, others are kept as they are), method name, module path, attribute path or input's
 * name; "output" for FX_OUTPUT. name: NULL to make one by FX's rules (snake case of the target, "_1", "_2", ...); one that is taken
 * gets a number. A submodule or attribute that does not exist yet is allowed here (FX warns) and an error of fx_graph_lint. */
fx_node *fx_graph_create_node(fx_graph *graph, fx_opcode opcode, const char *target, int n_args, const fx_value *args, int n_kwargs,
                              const char *const *keys, const fx_value *kwargs, const char *name);

/* The same for each opcode. default_value: NULL for none. */
fx_node *fx_graph_placeholder(fx_graph *graph, const char *name, const fx_value *default_value);
fx_node *fx_graph_get_attr(fx_graph *graph, const char *path);
fx_node *fx_graph_call_function(fx_graph *graph, const char *target, int n_args, const fx_value *args);
fx_node *fx_graph_call_method(fx_graph *graph, const char *method, int n_args, const fx_value *args);
fx_node *fx_graph_call_module(fx_graph *graph, const char *path, int n_args, const fx_value *args);
fx_node *fx_graph_output(fx_graph *graph, fx_value result);

/* FX's node_copy: a copy of a node of another graph (or this one); map gives for each node in its arguments the one to use here.
 * The name is kept if free; type, location and meta are copied. */
fx_node *fx_graph_node_copy(fx_graph *graph, const fx_node *node, fx_node *(*map)(void *user, fx_node *arg), void *user);

/* FX's graph_copy: copies all nodes of from but its output. inputs: what stands for from's placeholders, n_inputs of them in order
 * (0: the placeholders are copied too). results gets up to max of the nodes in from's output, flattened left to right, as they are
 * here; *n_results how many there are. Attributes and submodules that copied nodes name must exist in graph (fx_graph_lint). */
fx_status fx_graph_graph_copy(fx_graph *graph, const fx_graph *from, int n_inputs, fx_node *const *inputs, size_t *n_results,
                              fx_node **results, size_t max);

/* FX's inserting_before / inserting_after: where nodes are created from now on; nest freely, restoring in reverse:
 *     fx_insert_point at = fx_graph_inserting_after(g, n);  ...  fx_graph_restore_insert_point(at);
 * node NULL: before: the end of the graph; after: its beginning. Nodes created after `node` follow one another in order of creation
 * (FX reverses them). When the remembered node is erased meanwhile, the point moves to the node after it. */
typedef struct fx_insert_point {
    fx_graph *graph;
    fx_node *before;
} fx_insert_point;
fx_insert_point fx_graph_inserting_before(fx_graph *graph, fx_node *node);
fx_insert_point fx_graph_inserting_after(fx_graph *graph, fx_node *node);
void fx_graph_restore_insert_point(fx_insert_point point);

/* ---- looking at a node -------------------------------------------------------------------------------------------------- */

fx_graph *fx_node_graph(const fx_node *node);
fx_opcode fx_node_opcode(const fx_node *node);
const char *fx_node_name(const fx_node *node);
const char *fx_node_target(const fx_node *node);
bool fx_node_is_erased(const fx_node *node);
/* The operator of op.def a call_function is, by its table name ("aten.add.Tensor" for "operator.add"), or NULL. */
const char *fx_node_operator(const fx_node *node);

int fx_node_arg_count(const fx_node *node);
fx_value fx_node_arg_at(const fx_node *node, int i);                 /* NONE when there is no such argument */
int fx_node_kwarg_count(const fx_node *node);
const char *fx_node_kwarg_key(const fx_node *node, int i);           /* NULL when there is no such argument */
fx_value fx_node_kwarg_at(const fx_node *node, int i);
bool fx_node_kwarg(const fx_node *node, const char *key, fx_value *out); /* false when absent */

/* FX's all_input_nodes: each node in the arguments once, in order of first appearance. Fills up to max, returns how many. */
size_t fx_node_all_input_nodes(const fx_node *node, fx_node **out, size_t max);
/* FX's users: each user once, in order of first use. Fills up to max, returns how many. */
size_t fx_node_users(const fx_node *node, fx_node **out, size_t max);
size_t fx_node_use_count(const fx_node *node);                       /* uses: x * x uses x twice */

/* dtype, rank and sizes of a node whose type is a tensor of static shape; false otherwise. */
bool fx_node_shape(const fx_node *node, fx_tensor *out);
/* The type as text: "f32[1, 3, s0, 32]", "(f32[2], i64[2])"; NULL when unknown. Lives in the context. */
const char *fx_node_type_text(fx_node *node);
/* The type from such a text; NULL: unknown. Placeholders of a graph built by hand need one; the others' follow. FX_ERR_ARGUMENT when it is none. */
fx_status fx_node_set_type(fx_node *node, const char *text);

/* The symbols that sizes may name, and their ranges, inclusive (INT64_MIN, INT64_MAX: open); one that is not set is at least 0. Setting
 * one that is there changes its range. The i-th one's name; NULL past the last. */
fx_status fx_graph_set_symbol(fx_graph *graph, const char *name, int64_t min, int64_t max);
const char *fx_graph_symbol(const fx_graph *graph, size_t i, int64_t *min, int64_t *max);

/* FX's is_impure: removing an unused one would change what the program does (placeholders, output, writes, random state, asserts). */
bool fx_node_is_impure(const fx_node *node);

/* Arguments by the operator's schema: every parameter by position, defaults filled in. count and names of the schema; item i by
 * fx_node_normalized_argument. FX_ERR_TYPE naming the parameter when they do not fit; FX_ERR_UNSUPPORTED for an unknown operator. */
fx_status fx_node_normalized_arguments(fx_node *node, int *count, const char *const **names, fx_value *out, int max);

/* Where a node comes from: module path ("layer1.0.conv2") and Python source line; NULL when unknown. */
const char *fx_node_module(const fx_node *node);
const char *fx_node_frame(const fx_node *node);
fx_status fx_node_set_location(fx_node *node, const char *module, const char *frame);

/* ---- editing ------------------------------------------------------------------------------------------------------------- */

/* New arguments, all at once; types of the node are forgotten. */
fx_status fx_node_set_args(fx_node *node, int n_args, const fx_value *args);
fx_status fx_node_set_kwargs(fx_node *node, int n_kwargs, const char *const *keys, const fx_value *kwargs);
/* FX's update_arg, insert_arg (i up to the count; beyond: appended), update_kwarg (adds or replaces; remove_kwarg removes). */
fx_status fx_node_update_arg(fx_node *node, int i, fx_value v);
fx_status fx_node_insert_arg(fx_node *node, int i, fx_value v);
fx_status fx_node_update_kwarg(fx_node *node, const char *key, fx_value v);
fx_status fx_node_remove_kwarg(fx_node *node, const char *key);
/* Another function, method, module path or attribute. */
fx_status fx_node_set_target(fx_node *node, const char *target);
/* Renames; a taken name gets a number (the name it got: fx_node_name). Names of erased and renamed nodes are free again (FX keeps them taken). */
fx_status fx_node_set_name(fx_node *node, const char *name);

/* FX's replace_all_uses_with: users of node for which filter (NULL: all) returns true use `by`; with propagate_meta, by gets node's meta
 * (it must have none). *changed (may be NULL): users changed. by itself keeps using node. */
fx_status fx_node_replace_all_uses_with(fx_node *node, fx_node *by, bool (*filter)(void *user, fx_node *user_node), void *user,
                                        bool propagate_meta, size_t *changed);
/* FX's replace_input_with: every use of old in node's arguments becomes by. */
fx_status fx_node_replace_input_with(fx_node *node, fx_node *old, fx_node *by);

/* FX's erase_node: FX_ERR_ARGUMENT naming the users while it has any. */
fx_status fx_graph_erase_node(fx_graph *graph, fx_node *node);
/* FX's node.prepend(other) and node.append(other): moves other before / after node. Order is checked by lint, as in FX. */
fx_status fx_node_prepend(fx_node *node, fx_node *other);
fx_status fx_node_append(fx_node *node, fx_node *other);

/* Removes nodes without uses that are not impure, last first; *removed may be NULL. impure (may be NULL) may add to what the operator
 * table says: return 1 impure, 0 pure, -1 to leave it to the table. */
fx_status fx_graph_eliminate_dead_code(fx_graph *graph, int (*impure)(void *user, const fx_node *node), void *user, size_t *removed);

/* Moves nodes so that definitions come before uses, changing as little of the order as possible (stable; placeholders stay first,
 * the output last). FX_ERR_ARGUMENT naming the nodes of a cycle. */
fx_status fx_graph_topological_sort(fx_graph *graph);

/* Checks all a graph must hold: list, order, uses, names, one output at the end, targets that exist; with FX_LINT_SCHEMA arguments
 * against operator schemas; with FX_LINT_TYPES recorded types against inferred ones. All findings are recorded. */
enum { FX_LINT_STRUCTURE = 0, FX_LINT_SCHEMA = 1, FX_LINT_TYPES = 2, FX_LINT_ALL = 3 };
fx_status fx_graph_lint(fx_graph *graph, unsigned what);

/* ---- meta: users' notes ---------------------------------------------------------------------------------------------------- */

/* Free-form notes by key, copied with the node. Values hold no nodes. Setting None removes. */
fx_status fx_node_set_meta(fx_node *node, const char *key, fx_value v);
bool fx_node_meta(const fx_node *node, const char *key, fx_value *out); /* false when absent */
const char *fx_node_meta_key(const fx_node *node, int i);              /* in order of setting; NULL past the last */

/* ---- running --------------------------------------------------------------------------------------------------------------- */

/* Runs the graph by the reference interpreter on n_inputs tensors in placeholder order. *outputs gets an array of
 * *n_outputs tensors in the order of the output node, owned by the graph's context. As in eager, a graph that writes its inputs changes the
 * caller's tensors, and one that writes its buffers finds them changed in its next run. FX_ERR_TYPE when an input's shape or
 * dtype is not the placeholder's. Callbacks, single steps and rebuilding: fxcc/interpreter.h. */
fx_status fx_graph_interpret(fx_graph *graph, size_t n_inputs, const fx_tensor *inputs, size_t *n_outputs, fx_tensor **outputs);

#ifdef __cplusplus
}
#endif
#endif
