/* passes/extract.c: what lies between some nodes as a graph of its own.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/passes.h"

typedef struct request {
    fx_graph *g;
    size_t n_inputs, n_outputs;
    fx_node *const *inputs, *const *outputs;
    fx_graph **out;
} request;

static fx_status check_nodes(const request *r, const char *what, size_t n, fx_node *const *nodes, uint8_t *seen)
{
    fx_context *ctx = r->g->ctx;
    for (size_t i = 0; i < n; i++) {
        if (!nodes[i])
            return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "%s %zu is NULL, expected a node", what, i);
        if (nodes[i]->erased || nodes[i]->graph != r->g)
            return fx_fail(ctx, FX_ERR_ARGUMENT, &nodes[i]->loc, "%s %zu %s", what, i,
                           nodes[i]->erased ? "is erased" : "belongs to another graph");
        if (nodes[i]->opcode == FX_OUTPUT)
            return fx_fail(ctx, FX_ERR_ARGUMENT, &nodes[i]->loc, "%s %zu is the output node, expected one that has a value", what, i);
        if (seen && seen[nodes[i]->id]++)
            return fx_fail(ctx, FX_ERR_ARGUMENT, &nodes[i]->loc, "%s %zu is there twice", what, i);
    }
    return FX_OK;
}

/* Marks what outputs need, up to the inputs. needed: 1 an input, 2 inside. */
static fx_status find_needed(const request *r, fx_arena *scratch, uint8_t *needed)
{
    fx_order order = fx_order_new(r->g, scratch);
    fx_node **todo = NULL, *p;
    size_t n = 0, cap = 0;
    for (size_t i = 0; i < r->n_inputs; i++)
        needed[r->inputs[i]->id] = 1;
    for (size_t i = 0; i < r->n_outputs; i++)
        FX_PUSH(scratch, todo, n, cap) = r->outputs[i];
    while (n > 0) {
        fx_node *t = todo[--n];
        if (needed[t->id])
            continue;
        if (t->opcode == FX_PLACEHOLDER)
            return fx_fail(r->g->ctx, FX_ERR_ARGUMENT, &t->loc, "the outputs need this placeholder, and the inputs given do not cut it off");
        needed[t->id] = 2;
        for (size_t i = 0; (p = fx_order_pred(&order, t, i)); i++) {
            /* Readers that a write had to wait for are none of ours. */
            if (i < (size_t)t->n_operands || fx_node_effects(p) & FX_EFFECT_WRITES)
                FX_PUSH(scratch, todo, n, cap) = p;
        }
    }
    return FX_OK;
}

static fx_status extract_in(const request *r, fx_arena *scratch)
{
    fx_graph *g = r->g;
    uint8_t *needed = FX_NEW_ARRAY(scratch, uint8_t, g->n_ids), *twice = FX_NEW_ARRAY(scratch, uint8_t, g->n_ids);
    FX_TRY(check_nodes(r, "input", r->n_inputs, r->inputs, twice));
    FX_TRY(check_nodes(r, "output", r->n_outputs, r->outputs, NULL));
    FX_TRY(find_needed(r, scratch, needed));
    fx_node **nodes = NULL;
    size_t n_nodes = 0, cap = 0;
    FX_FOR_NODES(g, n) {
        if (needed[n->id] == 2)
            FX_PUSH(scratch, nodes, n_nodes, cap) = n;
    }
    fx_copier c = {.scratch = scratch, .node = FX_NEW_ARRAY(scratch, fx_node *, g->n_ids)};
    const fx_subgraph_parts p = {r->n_inputs, r->inputs, n_nodes, nodes, r->n_outputs, r->outputs};
    *r->out = fx_subgraph(g, &p, g->name, &c);
    return FX_OK;
}

static fx_status extract(void *arg)
{
    const request *r = arg;
    fx_arena *scratch = fx_arena_create(r->g->ctx);
    fx_status st = extract_in(r, scratch);
    fx_arena_free(scratch);
    return st;
}

fx_status fx_graph_extract_subgraph(fx_graph *graph, size_t n_inputs, fx_node *const *inputs, size_t n_outputs, fx_node *const *outputs,
                                    fx_graph **out)
{
    request r = {graph, n_inputs, n_outputs, inputs, outputs, out};
    if (!graph || !out || (n_inputs && !inputs) || (n_outputs && !outputs))
        return FX_ERR_ARGUMENT;
    return fx_protect(graph->ctx, extract, &r);
}
