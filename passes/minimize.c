/* passes/minimize.c: the smallest run of calls that still fails, by bisection (FX's net minimizer).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/passes.h"

typedef struct minimizer {
    fx_graph *g;
    bool (*fails)(void *user, fx_graph *part);
    void *user;
    size_t tries;
    fx_graph *last;          /* the smallest part seen to fail */
    fx_node **calls;
    size_t n_calls;
    fx_graph **out;
    size_t *tries_out;
} minimizer;

/* What calls lo .. hi - 1 take from outside, and which of them are used outside or by nobody. */
static fx_graph *part_of(minimizer *m, fx_arena *scratch, size_t lo, size_t hi)
{
    fx_graph *g = m->g;
    fx_node **inputs = NULL, **outputs = NULL, **nodes = NULL;
    size_t n_inputs = 0, n_outputs = 0, n_nodes = 0, cap_inputs = 0, cap_outputs = 0, cap_nodes = 0;
    uint8_t *seen = FX_NEW_ARRAY(scratch, uint8_t, g->n_ids); /* 1: inside, 2: an input, 3: an attribute taken in */
    for (size_t i = lo; i < hi; i++)
        seen[m->calls[i]->id] = 1;
    for (size_t i = lo; i < hi; i++) {
        fx_node *n = m->calls[i];
        for (int k = 0; k < n->n_operands; k++) {
            fx_node *def = n->operands[k].def;
            if (seen[def->id])
                continue;
            bool attr = def->opcode == FX_GET_ATTR;
            seen[def->id] = attr ? 3 : 2;
            if (attr)
                FX_PUSH(scratch, nodes, n_nodes, cap_nodes) = def;
            else
                FX_PUSH(scratch, inputs, n_inputs, cap_inputs) = def;
        }
    }
    for (size_t i = lo; i < hi; i++) {
        fx_node *n = m->calls[i];
        FX_PUSH(scratch, nodes, n_nodes, cap_nodes) = n;
        bool used_inside_only = n->n_uses > 0;
        for (const fx_use *u = n->first_use; u && used_inside_only; u = u->next)
            used_inside_only = seen[u->user->id] == 1;
        if (!used_inside_only)
            FX_PUSH(scratch, outputs, n_outputs, cap_outputs) = n;
    }
    fx_copier c = {.scratch = scratch, .node = FX_NEW_ARRAY(scratch, fx_node *, g->n_ids)};
    const fx_subgraph_parts p = {n_inputs, inputs, n_nodes, nodes, n_outputs, outputs};
    return fx_subgraph(g, &p, g->name, &c);
}

static bool part_fails(minimizer *m, size_t lo, size_t hi)
{
    fx_arena *scratch = fx_arena_create(m->g->ctx);
    fx_graph *part = part_of(m, scratch, lo, hi);
    fx_arena_free(scratch);
    m->tries++;
    if (!m->fails(m->user, part))
        return false;
    m->last = part;
    return true;
}

static fx_status minimize_in(minimizer *m, fx_arena *scratch)
{
    size_t cap = 0;
    FX_FOR_NODES(m->g, n) {
        if (n->opcode != FX_PLACEHOLDER && n->opcode != FX_GET_ATTR && n->opcode != FX_OUTPUT)
            FX_PUSH(scratch, m->calls, m->n_calls, cap) = n;
    }
    if (m->n_calls == 0 || !part_fails(m, 0, m->n_calls))
        return fx_fail(m->g->ctx, FX_ERR_ARGUMENT, NULL, "nothing to minimize: the whole graph of %zu calls does not fail", m->n_calls);
    /* The first end at which it fails, then the last start: each known to fail where the search ends. */
    size_t lo = 0, hi = m->n_calls;
    for (size_t below = 0; below + 1 < hi;) {
        size_t middle = below + (hi - below) / 2;
        if (part_fails(m, 0, middle))
            hi = middle;
        else
            below = middle;
    }
    for (size_t above = hi; lo + 1 < above;) {
        size_t middle = lo + (above - lo) / 2;
        if (part_fails(m, middle, hi))
            lo = middle;
        else
            above = middle;
    }
    return FX_OK;
}

static fx_status minimize(void *arg)
{
    minimizer *m = arg;
    fx_arena *scratch = fx_arena_create(m->g->ctx);
    fx_status st = minimize_in(m, scratch);
    fx_arena_free(scratch);
    if (m->tries_out)
        *m->tries_out = m->tries;
    if (st == FX_OK)
        *m->out = m->last;
    return st;
}

fx_status fx_graph_minimize(fx_graph *graph, bool (*fails)(void *user, fx_graph *part), void *user, fx_graph **out, size_t *tries)
{
    minimizer m = {.g = graph, .fails = fails, .user = user, .out = out, .tries_out = tries};
    if (!graph || !fails || !out)
        return FX_ERR_ARGUMENT;
    return fx_protect(graph->ctx, minimize, &m);
}
