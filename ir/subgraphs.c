/* ir/subgraphs.c: what printers walk over: modules in order, graphs inside a graph.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/lex.h"

const fx_module **fx_modules_in_order(fx_arena *arena, const fx_graph *g, size_t *n)
{
    const fx_module **all = NULL, **stack = NULL;
    size_t cap = 0, depth = 0, cap_stack = 0;
    *n = 0;
    FX_PUSH(arena, stack, depth, cap_stack) = g->root;
    while (depth > 0) {
        const fx_module *m = stack[--depth];
        FX_PUSH(arena, all, *n, cap) = m;
        for (size_t i = m->n_children; i > 0; i--)
            FX_PUSH(arena, stack, depth, cap_stack) = m->children[i - 1];
    }
    return all;
}

/* A graph whose subgraphs are being looked for. */
typedef struct level {
    const fx_graph *g;
    fx_arena *tmp;
    bool searched;
    const fx_graph **found;
    size_t n, cap, next;
} level;

static const fx_arg *find_graph(void *user, const fx_arg *leaf)
{
    level *l = user;
    if (leaf->kind == FX_ARG_GRAPH)
        FX_PUSH(l->tmp, l->found, l->n, l->cap) = leaf->graph;
    return leaf;
}

/* The graphs that l->g names itself. */
static void search(level *l)
{
    size_t n;
    const fx_module **all = fx_modules_in_order(l->tmp, l->g, &n);
    fx_context *ctx = l->g->ctx;
    for (size_t i = 0; i < n; i++) {
        if (all[i]->body)
            FX_PUSH(l->tmp, l->found, l->n, l->cap) = all[i]->body;
        if (all[i]->config)
            fx_arg_map(ctx, all[i]->config, find_graph, l);
        for (const fx_meta *m = all[i]->meta; m; m = m->next)
            fx_arg_map(ctx, m->value, find_graph, l);
    }
    FX_FOR_NODES(l->g, node) {
        fx_arg_map(ctx, node->args, find_graph, l);
        fx_arg_map(ctx, node->kwargs, find_graph, l);
        for (const fx_meta *m = node->meta; m; m = m->next)
            fx_arg_map(ctx, m->value, find_graph, l);
    }
    if (l->g->in_tree)
        fx_arg_map(ctx, l->g->in_tree, find_graph, l);
    if (l->g->out_tree)
        fx_arg_map(ctx, l->g->out_tree, find_graph, l);
    l->searched = true;
}

/* A stack of our own: nesting is the caller's choice. */
void fx_find_subgraphs(fx_subgraphs *s, fx_arena *tmp, const fx_graph *whole)
{
    level *stack = NULL;
    size_t depth = 0, cap = 0;
    fx_map entered = {0};
    *s = (fx_subgraphs){0};
    FX_PUSH(tmp, stack, depth, cap) = (level){.g = whole, .tmp = tmp};
    fx_map_put(tmp, &entered, whole, tmp);
    for (;;) {
        level *top = &stack[depth - 1];
        if (!top->searched)
            search(top);
        if (top->next < top->n) {
            const fx_graph *sub = top->found[top->next++];
            if (fx_map_get(&entered, sub))
                continue;
            fx_map_put(tmp, &entered, sub, tmp);
            FX_PUSH(tmp, stack, depth, cap) = (level){.g = sub, .tmp = tmp};
            continue;
        }
        if (--depth == 0)
            return;
        FX_PUSH(tmp, s->graphs, s->n, s->cap) = stack[depth].g;
        fx_map_put(tmp, &s->number, stack[depth].g, (void *)(uintptr_t)s->n);
    }
}

int fx_subgraph_number(const fx_subgraphs *s, const fx_graph *g)
{
    return (int)(uintptr_t)fx_map_get(&s->number, g) - 1;
}
