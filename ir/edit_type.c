/* ir/edit_type.c: types of nodes given as text, ranges of symbols: the public functions of fxcc/graph.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/parse.h"

typedef struct typing {
    fx_node *node;
    const char *text;
    const fx_type *type;
} typing;

static fx_status read_type(void *arg)
{
    typing *r = arg;
    fx_context *ctx = r->node->graph->ctx;
    fx_parser p = {.ctx = ctx, .tmp = fx_arena_create(ctx), .g = r->node->graph, .whole = r->node->graph};
    fx_lex_init(&p.lx, ctx, NULL, r->text, strlen(r->text), true, true);
    fx_status status = fx_parse_type(&p, &r->type);
    if (status == FX_OK && p.lx.kind != FX_T_END)
        status = fx_lex_fail(&p.lx, "the type's end");
    fx_arena_free(p.tmp);
    return status;
}

fx_status fx_node_set_type(fx_node *node, const char *text)
{
    if (!node)
        return FX_ERR_ARGUMENT;
    fx_context *ctx = node->graph->ctx;
    if (node->erased)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &node->loc, "the node is erased");
    typing r = {node, text, NULL};
    size_t before = fx_diag_count(ctx);
    fx_status status = text ? fx_protect(ctx, read_type, &r) : FX_OK;
    if (status == FX_ERR_FORMAT) {
        fx_diag_truncate(ctx, before);
        return fx_fail(ctx, FX_ERR_ARGUMENT, &node->loc, "expected a type such as f32[1, 3, s0, 32], got '%.200s'", text);
    }
    if (status == FX_OK)
        node->type = r.type;
    return status;
}

/* ---- symbols ---------------------------------------------------------------------------------------------------------- */

typedef struct ranging {
    fx_graph *graph;
    fx_sym_range range;
} ranging;

static fx_status set_symbol(void *arg)
{
    ranging *r = arg;
    fx_graph *g = r->graph;
    if (!fx_is_identifier(r->range.name))
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "expected an identifier as a symbol's name, got '%.200s'", r->range.name ? r->range.name : "NULL");
    if (r->range.min > r->range.max)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "the range of '%s', %lld to %lld, is empty", r->range.name, (long long)r->range.min,
                       (long long)r->range.max);
    for (size_t i = 0; i < g->n_symbols; i++)
        if (strcmp(g->symbols[i].name, r->range.name) == 0) {
            g->symbols[i].min = r->range.min;
            g->symbols[i].max = r->range.max;
            return FX_OK;
        }
    r->range.name = fx_intern(g->ctx, r->range.name);
    FX_PUSH(g->arena, g->symbols, g->n_symbols, g->cap_symbols) = r->range;
    return FX_OK;
}

fx_status fx_graph_set_symbol(fx_graph *graph, const char *name, int64_t min, int64_t max)
{
    ranging r = {graph, {name, min, max}};
    return graph ? fx_protect(graph->ctx, set_symbol, &r) : FX_ERR_ARGUMENT;
}

const char *fx_graph_symbol(const fx_graph *graph, size_t i, int64_t *min, int64_t *max)
{
    if (!graph || i >= graph->n_symbols)
        return NULL;
    *min = graph->symbols[i].min;
    *max = graph->symbols[i].max;
    return graph->symbols[i].name;
}
