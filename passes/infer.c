/* passes/infer.c: shapes and dtypes of all values (FX's ShapeProp), symbolic dims too; counting what a graph costs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"

/* ---- types of the placeholders from text ---------------------------------------------------------------------------- */

/* The types "f32[1, 3, s0]; i64[4]", read as a graph text that has just these inputs. */
static fx_status read_types(fx_pass_run *run, const char *text, size_t *n, const fx_type ***types)
{
    fx_context *ctx = run->ctx;
    fx_text t;
    fx_graph *given;
    size_t cap = 0;
    fx_text_init(&t, run->scratch);
    fx_puts(&t, "graph \"inputs\" captured\n\n");
    for (size_t i = 0;; i++) {
        size_t size = strcspn(text, ";");
        fx_printf(&t, "%%x%zu : ", i);
        fx_putn(&t, text, size);
        fx_printf(&t, " = placeholder[x%zu]\n", i);
        text += size;
        if (!*text++)
            break;
    }
    fx_puts(&t, "output(None)\n");
    if (fx_graph_parse(ctx, "inputs", t.data, t.size, &given) != FX_OK)
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "pass infer: option 'inputs': expected types such as f32[1, 3, 32, 32]; i64[s0]");
    *n = 0;
    *types = NULL;
    FX_FOR_NODES(given, p)
        if (p->opcode == FX_PLACEHOLDER)
            FX_PUSH(run->scratch, *types, *n, cap) = p->type;
    for (size_t i = 0; i < given->n_symbols; i++) {
        bool known = false;
        for (size_t k = 0; k < run->graph->n_symbols; k++)
            known = known || run->graph->symbols[k].name == given->symbols[i].name;
        if (!known)
            FX_PUSH(run->graph->arena, run->graph->symbols, run->graph->n_symbols, run->graph->cap_symbols) = given->symbols[i];
    }
    fx_arena_free(given->arena);
    return FX_OK;
}

static fx_status set_inputs(fx_pass_run *run, const char *text)
{
    fx_graph *g = run->graph;
    size_t n = 0, n_inputs = 0, at = 0;
    const fx_type **types = NULL;
    FX_TRY(read_types(run, text, &n, &types));
    FX_FOR_NODES(g, p)
        n_inputs += p->opcode == FX_PLACEHOLDER;
    if (n != n_inputs)
        return fx_fail(run->ctx, FX_ERR_ARGUMENT, NULL, "pass infer: option 'inputs': expected %zu types, one for each placeholder, got %zu",
                       n_inputs, n);
    FX_FOR_NODES(g, p) {
        if (p->opcode == FX_PLACEHOLDER)
            p->type = types[at++];
        else if (p->opcode != FX_GET_ATTR)
            p->type = NULL; /* of other inputs */
    }
    return FX_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------------ */

/* Whether two types cannot both be right: different kinds, dtypes, ranks, or dims that surely differ. */
static bool contradict(const fx_type *a, const fx_type *b)
{
    if (a->kind != b->kind)
        return a->kind != FX_TYPE_OTHER && b->kind != FX_TYPE_OTHER;
    if (a->kind == FX_TYPE_TENSOR) {
        if (a->dtype != b->dtype || a->rank != b->rank)
            return true;
        for (int i = 0; i < a->rank; i++)
            if (!a->dims[i].sym && !b->dims[i].sym && a->dims[i].value != b->dims[i].value)
                return true;
        return false;
    }
    if (a->kind != FX_TYPE_TUPLE)
        return false;
    if (a->n != b->n)
        return true;
    for (int i = 0; i < a->n; i++)
        if (a->items[i] && b->items[i] && contradict(a->items[i], b->items[i]))
            return true;
    return false;
}

static const char *type_text(fx_pass_run *run, const fx_type *t)
{
    fx_text text;
    fx_text_init(&text, run->scratch);
    fx_type_print(&text, t);
    return text.data;
}

/* A node's type as found out; what was noted on it must agree. The strides a file gives are kept. */
static fx_status set_type(fx_pass_run *run, fx_node *n, const fx_type *was, const fx_type *now)
{
    n->type = was;
    if (!now)
        return FX_OK;
    if (was && contradict(was, now))
        return fx_fail(run->ctx, FX_ERR_TYPE, &n->loc, "its type is noted as %s, but its inputs make it %s", type_text(run, was),
                       type_text(run, now));
    bool same = was && was->kind == FX_TYPE_TENSOR && fx_type_same_shape(was, now);
    if (same || was == now)
        return FX_OK;
    n->type = now;
    fx_pass_note(run, n, "has type %s", type_text(run, now));
    return FX_OK;
}

static fx_status infer_one(fx_pass_run *run, fx_node *n)
{
    const fx_type *was = n->type;
    n->type = NULL;
    fx_status status = fx_node_infer(n);
    const fx_type *now = n->type;
    n->type = was;
    FX_TRY(status);
    return set_type(run, n, was, now);
}

/* A captured graph: each node of a copy is turned into operators, and what stands for it tells its type. */
static fx_status infer_captured(fx_pass_run *run)
{
    fx_graph *g = run->graph, *shadow = fx_graph_copy(g);
    fx_node **copies = FX_NEW_ARRAY(run->scratch, fx_node *, g->n_nodes + 1);
    const fx_type **noted = FX_NEW_ARRAY(run->scratch, const fx_type *, g->n_nodes + 1);
    size_t n = 0;
    FX_FOR_NODES(shadow, c) {
        copies[n] = c;
        noted[n++] = c->type;
        if (c->opcode != FX_PLACEHOLDER)
            c->type = NULL;
    }
    size_t i = 0;
    fx_status status = FX_OK;
    for (fx_node *m = g->first; m && status == FX_OK; m = m->next, i++) {
        fx_node *out = copies[i];
        if (m->opcode == FX_OUTPUT)
            continue;
        status = m->opcode == FX_PLACEHOLDER || m->opcode == FX_GET_ATTR ? fx_node_infer(out) : fx_legalize_node(copies[i], &out);
        if (status == FX_OK && out && !out->type)
            status = fx_node_infer(out);
        if (status == FX_OK && out)
            status = set_type(run, m, noted[i], out->type);
    }
    fx_arena_free(shadow->arena);
    return status;
}

fx_status fx_gpass_infer(fx_pass_run *run)
{
    fx_graph *g = run->graph;
    const char *inputs = fx_pass_str(run, "inputs");
    if (*inputs)
        FX_TRY(set_inputs(run, inputs));
    if (g->stage == FX_STAGE_CAPTURED)
        return infer_captured(run);
    FX_FOR_NODES(g, n)
        if (n->opcode != FX_OUTPUT)
            FX_TRY(infer_one(run, n));
    return FX_OK;
}
