/* passes/transform.c: FX's Transformer: a graph rebuilt by walking another (fxcc/interpreter.h).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/passes.h"

typedef struct rebuild {
    const fx_graph *from;
    const fx_transformer *by;
    fx_graph *to;
    fx_arena *arena;
    fx_copier copier;        /* what nodes of from became */
} rebuild;

static void free_arena(void *arg)
{
    fx_arena_free(arg);
}

/* What all_input_nodes of n became: each node once, in order of first appearance. */
static size_t mapped_inputs(const rebuild *r, const fx_node *n, fx_node **out)
{
    size_t count = 0;
    for (int i = 0; i < n->n_operands; i++) {
        bool again = false;
        for (int k = 0; k < i && !again; k++)
            again = n->operands[k].def == n->operands[i].def;
        if (!again)
            out[count++] = r->copier.node[n->operands[i].def->id];
    }
    return count;
}

static fx_node *copy(rebuild *r, const fx_node *n)
{
    fx_node *c = fx_copier_node(&r->copier, n, n->name);
    for (int i = 0; i < n->n_operands; i++)
        if (r->copier.node[n->operands[i].def->id]->type != n->operands[i].def->type)
            c->type = NULL;
    return c;
}

static fx_status transform_node(rebuild *r, const fx_node *n)
{
    fx_graph *g = r->to;
    fx_context *ctx = g->ctx;
    fx_node *out = NULL, *last = g->last;
    for (int i = 0; i < n->n_operands; i++)
        if (!r->copier.node[n->operands[i].def->id])
            return fx_fail(ctx, FX_ERR_ARGUMENT, &n->loc, "uses '%s' before it is defined", n->operands[i].def->name);
    if (r->by && r->by->transform[n->opcode]) {
        fx_node **args = FX_NEW_ARRAY(r->arena, fx_node *, n->n_operands + 1);
        size_t n_args = mapped_inputs(r, n, args), diags = fx_diag_count(ctx);
        fx_status status = r->by->transform[n->opcode](r->by->user, g, n, n_args, args, &out);
        if (status != FX_OK)
            return fx_diag_count(ctx) != diags ? status
                                               : fx_fail(ctx, status, &n->loc, "%s '%s': stopped by the caller's callback",
                                                         fx_opcode_name(n->opcode), n->target);
        if (out && (out->graph != g || out->erased))
            return fx_fail(ctx, FX_ERR_ARGUMENT, &n->loc, "what the callback gave for it is no node of the new graph: '%s'%s", out->name,
                           out->erased ? " is erased" : "");
        g->insert_before = NULL;
    }
    const fx_node *copied = out ? NULL : copy(r, n);
    if (copied)
        out = r->copier.node[n->id];
    /* What a callback made is brought to the form its graph's nodes have; a captured graph's stay as they are. */
    for (fx_node *m = last ? last->next : g->first; m && g->stage != FX_STAGE_CAPTURED; m = m->next) {
        FX_TRY(fx_node_normalize(m));
        if (!m->type && (m != copied || n->type))
            FX_TRY(fx_node_infer(m));
    }
    r->copier.node[n->id] = out;
    return FX_OK;
}

static fx_status transform(void *arg)
{
    rebuild *r = arg;
    r->arena = fx_arena_create(r->from->ctx);
    fx_defer(r->from->ctx, free_arena, r->arena);
    r->to = fx_graph_like(r->from, r->from->name);
    r->to->in_tree = r->from->in_tree;
    r->to->out_tree = r->from->out_tree;
    fx_module_copy_to(r->to, "", r->from->root);
    if (r->to->stage > FX_STAGE_IMPORTED) /* nobody knows what a callback makes */
        r->to->stage = FX_STAGE_IMPORTED;
    r->copier = fx_copier_new(r->from, r->to, r->arena);
    FX_FOR_NODES(r->from, n)
        FX_TRY(transform_node(r, n));
    return fx_graph_verify(r->to, r->to->stage, "fx_graph_transform");
}

fx_status fx_graph_transform(const fx_graph *graph, const fx_transformer *transformer, fx_graph **out)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    if (!out)
        return fx_fail(graph->ctx, FX_ERR_ARGUMENT, NULL, "expected where to put the new graph, got NULL");
    rebuild r = {.from = graph, .by = transformer};
    fx_status status = fx_protect(graph->ctx, transform, &r);
    if (status == FX_OK)
        *out = r.to;
    return status;
}
