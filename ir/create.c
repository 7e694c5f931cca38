/* ir/create.c: creating and copying nodes and graphs, the public functions of fxcc/graph.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Everything is checked and allocated before anything is changed. What creates several nodes takes them back when it fails (take_back). */
#include "ir/context.h"

/* ---- creating ------------------------------------------------------------------------------------------------------------------ */

typedef struct creation {
    fx_graph *graph;
    fx_opcode opcode;
    const char *target;
    int n_args;
    const fx_value *args;
    int n_kwargs;
    const char *const *keys;
    const fx_value *kwargs;
    const char *name;
    fx_node *out;
} creation;

static fx_status create(void *arg)
{
    creation *r = arg;
    fx_graph *g = r->graph;
    fx_context *ctx = g->ctx;
    fx_loc here = {.file = g->file, .node = r->name ? r->name : r->target};
    fx_values v;
    const fx_arg *args, *kwargs;
    if ((unsigned)r->opcode > FX_OUTPUT)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, "the opcode must be 0 to %d, got %d", FX_OUTPUT, (int)r->opcode);
    if (!r->target || !*r->target)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, "a %s node needs a target", fx_opcode_name(r->opcode));
    fx_values_begin(&v, ctx, g, &here);
    FX_TRY(fx_values_tuple(&v, r->n_args, r->args, &args));
    FX_TRY(fx_values_dict(&v, r->n_kwargs, r->keys, r->kwargs, &kwargs));
    r->out = fx_node_make(g, r->opcode, r->target, args, kwargs, (int)v.n, v.nodes, r->name, false);
    fx_node_leave_stage(r->out);
    return FX_OK;
}

/* Runs f, which returns a node through *out. */
static fx_node *finish(fx_graph *g, fx_status (*f)(void *arg), void *arg, fx_node **out)
{
    fx_status status = fx_protect(g->ctx, f, arg);
    if (status == FX_OK)
        return *out;
    g->status = status;
    return NULL;
}

fx_node *fx_graph_create_node(fx_graph *graph, fx_opcode opcode, const char *target, int n_args, const fx_value *args, int n_kwargs,
                              const char *const *keys, const fx_value *kwargs, const char *name)
{
    creation r = {graph, opcode, target, n_args, args, n_kwargs, keys, kwargs, name, NULL};
    return graph ? finish(graph, create, &r, &r.out) : NULL;
}

fx_node *fx_graph_placeholder(fx_graph *graph, const char *name, const fx_value *default_value)
{
    return fx_graph_create_node(graph, FX_PLACEHOLDER, name, default_value != NULL, default_value, 0, NULL, NULL, NULL);
}

fx_node *fx_graph_get_attr(fx_graph *graph, const char *path)
{
    return fx_graph_create_node(graph, FX_GET_ATTR, path, 0, NULL, 0, NULL, NULL, NULL);
}

fx_node *fx_graph_call_function(fx_graph *graph, const char *target, int n_args, const fx_value *args)
{
    return fx_graph_create_node(graph, FX_CALL_FUNCTION, target, n_args, args, 0, NULL, NULL, NULL);
}

fx_node *fx_graph_call_method(fx_graph *graph, const char *method, int n_args, const fx_value *args)
{
    return fx_graph_create_node(graph, FX_CALL_METHOD, method, n_args, args, 0, NULL, NULL, NULL);
}

fx_node *fx_graph_call_module(fx_graph *graph, const char *path, int n_args, const fx_value *args)
{
    return fx_graph_create_node(graph, FX_CALL_MODULE, path, n_args, args, 0, NULL, NULL, NULL);
}

fx_node *fx_graph_output(fx_graph *graph, fx_value result)
{
    return fx_graph_create_node(graph, FX_OUTPUT, "output", 1, &result, 0, NULL, NULL, NULL);
}

typedef struct new_graph {
    fx_context *ctx;
    const char *name;
    const fx_graph *from;
    fx_graph *out;
} new_graph;

static fx_status create_graph(void *arg)
{
    new_graph *r = arg;
    if (!r->name || !*r->name)
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "a graph needs a name");
    r->out = fx_graph_new(r->ctx, r->name);
    r->out->stage = FX_STAGE_CAPTURED;
    return FX_OK;
}

fx_graph *fx_graph_create(fx_context *ctx, const char *name)
{
    new_graph r = {ctx, name, NULL, NULL};
    return ctx && fx_protect(ctx, create_graph, &r) == FX_OK ? r.out : NULL;
}

static fx_status deepcopy(void *arg)
{
    new_graph *r = arg;
    r->out = fx_graph_copy(r->from);
    return FX_OK;
}

fx_graph *fx_graph_deepcopy(const fx_graph *graph)
{
    new_graph r = {graph ? graph->ctx : NULL, NULL, graph, NULL};
    return graph && fx_protect(graph->ctx, deepcopy, &r) == FX_OK ? r.out : NULL;
}

/* ---- copying nodes ----------------------------------------------------------------------------------------------------------------- */

/* Erases the nodes created since the id `from`, which stand one after another before the insertion point. */
static void take_back(fx_graph *g, uint32_t from)
{
    fx_node *n = g->insert_before ? g->insert_before->prev : g->last;
    while (n && n->id >= from) {
        fx_node *before = n->prev;
        fx_node_erase(n);
        n = before;
    }
}

typedef struct node_copy {
    fx_graph *graph;
    const fx_node *node;
    fx_node *(*map)(void *user, fx_node *arg);
    void *user;
    fx_node *out;
} node_copy;

static fx_status copy_node(void *arg)
{
    node_copy *r = arg;
    fx_graph *g = r->graph;
    fx_context *ctx = g->ctx;
    const fx_node *n = r->node;
    fx_loc here = {.file = g->file};
    if (!n || n->erased)
        return fx_fail(ctx, FX_ERR_ARGUMENT, n ? &n->loc : &here, "the node to copy is %s", n ? "erased" : "NULL");
    if (n->graph->ctx != ctx)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &n->loc, "the node to copy belongs to another context");
    if (!r->map && n->n_operands && n->graph != g)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &n->loc, "a copy into another graph needs a map of its arguments");
    fx_node *small[16], **operands = n->n_operands <= 16 ? small : FX_NEW_ARRAY(g->arena, fx_node *, n->n_operands);
    for (int i = 0; i < n->n_operands; i++) {
        operands[i] = r->map ? r->map(r->user, n->operands[i].def) : n->operands[i].def;
        FX_TRY(fx_node_check(ctx, g, operands[i], &n->loc, "what an argument is mapped to"));
    }
    r->out = fx_node_clone(g, n, operands, n->name, false);
    if (n->graph->stage < g->stage)
        g->stage = n->graph->stage;
    return FX_OK;
}

fx_node *fx_graph_node_copy(fx_graph *graph, const fx_node *node, fx_node *(*map)(void *user, fx_node *arg), void *user)
{
    node_copy r = {graph, node, map, user, NULL};
    return graph ? finish(graph, copy_node, &r, &r.out) : NULL;
}

typedef struct graph_copy {
    fx_graph *graph;
    const fx_graph *from;
    int n_inputs;
    fx_node *const *inputs;
    size_t n_results;
    fx_node **results;
    size_t max;
    fx_arena *scratch;
} graph_copy;

static fx_status copy_graph(void *arg)
{
    graph_copy *r = arg;
    fx_graph *g = r->graph;
    const fx_graph *from = r->from;
    fx_context *ctx = g->ctx;
    fx_loc here = {.file = g->file};
    if (!from || from->ctx != ctx)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, from ? "the graph to copy belongs to another context" : "the graph to copy is NULL");
    int n_placeholders = 0, k = 0;
    FX_FOR_NODES(from, n)
        n_placeholders += n->opcode == FX_PLACEHOLDER;
    if (r->n_inputs && (r->n_inputs != n_placeholders || !r->inputs))
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, "expected %d inputs for the placeholders of '%s', got %d", n_placeholders, from->name,
                       r->inputs ? r->n_inputs : 0);
    for (int i = 0; i < r->n_inputs; i++)
        FX_TRY(fx_node_check(ctx, g, r->inputs[i], &here, "an input"));
    fx_arena *scratch = fx_arena_scratch(ctx);
    uint32_t end = from->n_ids;
    fx_node **by_id = FX_NEW_ARRAY(scratch, fx_node *, end), **operands = NULL;
    size_t cap = 0;
    FX_FOR_NODES(from, n) {
        if (n->id >= end)
            continue; /* made here just now: the graph is copied into itself */
        if (n->opcode == FX_PLACEHOLDER && r->n_inputs) {
            by_id[n->id] = r->inputs[k++];
            continue;
        }
        while (cap < (size_t)n->n_operands)
            operands = fx_arena_grow(scratch, operands, cap, &cap, sizeof *operands);
        for (int i = 0; i < n->n_operands; i++) {
            operands[i] = by_id[n->operands[i].def->id];
            if (!operands[i])
                return fx_fail(ctx, FX_ERR_ARGUMENT, &n->loc, "its argument '%s' comes only later", n->operands[i].def->name);
        }
        if (n->opcode != FX_OUTPUT) {
            by_id[n->id] = fx_node_clone(g, n, operands, n->name, false);
            continue;
        }
        for (int i = 0; i < n->n_operands; i++, r->n_results++)
            if (r->results && r->n_results < r->max)
                r->results[r->n_results] = operands[i];
    }
    if (from->stage < g->stage)
        g->stage = from->stage;
    return FX_OK;
}

fx_status fx_graph_graph_copy(fx_graph *graph, const fx_graph *from, int n_inputs, fx_node *const *inputs, size_t *n_results,
                              fx_node **results, size_t max)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    graph_copy r = {.graph = graph, .from = from, .n_inputs = n_inputs, .inputs = inputs, .results = results, .max = max};
    uint32_t before = graph->n_ids;
    fx_status status = fx_protect(graph->ctx, copy_graph, &r);
    if (status != FX_OK)
        take_back(graph, before);
    else if (n_results)
        *n_results = r.n_results;
    return status;
}

