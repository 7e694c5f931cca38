/* ir/toposort.c: definitions before uses, changing as little of the order as possible.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * As torch.fx's stable_topological_sort: nodes are taken in order; one whose inputs are not all there waits for them and follows the last
 * of them at once. Each use is looked at once. */
#include <stdlib.h>

#include "ir/context.h"

typedef struct sorter {
    fx_graph *graph;
    int *missing;      /* by id: uses of nodes that are not placed yet */
    bool *waiting;     /* by id: was met, but could not be placed */
    fx_node **stack;
    fx_node **order;
    size_t n;
} sorter;

static int later_first(const void *a, const void *b)
{
    uint32_t x = (*(fx_node *const *)a)->mark, y = (*(fx_node *const *)b)->mark;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Places n and all that waited only for it, these in the order they had. */
static void place(sorter *s, fx_node *n)
{
    size_t depth = 0;
    s->stack[depth++] = n;
    while (depth > 0) {
        n = s->stack[--depth];
        s->order[s->n++] = n;
        s->waiting[n->id] = false;
        size_t from = depth;
        for (const fx_use *u = n->first_use; u; u = u->next)
            if (--s->missing[u->user->id] == 0 && s->waiting[u->user->id])
                s->stack[depth++] = u->user;
        if (depth > from + 1)
            qsort(&s->stack[from], depth - from, sizeof *s->stack, later_first);
    }
}

static void meet(sorter *s, fx_node *n)
{
    if (s->missing[n->id] == 0)
        place(s, n);
    else
        s->waiting[n->id] = true;
}

/* From a node that waits, along inputs that wait, until one comes again. */
static fx_status report_cycle(const sorter *s)
{
    fx_graph *g = s->graph;
    fx_node *n = g->first;
    while (!s->waiting[n->id])
        n = n->next;
    uint32_t mark = fx_graph_mark(g);
    while (n->mark != mark) {
        n->mark = mark;
        for (int i = 0; i < n->n_operands; i++)
            if (s->waiting[n->operands[i].def->id]) {
                n = n->operands[i].def;
                break;
            }
    }
    fx_text names;
    fx_text_init(&names, g->ctx->arena);
    const fx_node *start = n, *at = n;
    int shown = 0;
    do {
        if (shown++ == 8) {
            fx_puts(&names, " <- ...");
            break;
        }
        fx_printf(&names, "%s'%s'", shown > 1 ? " <- " : "", at->name);
        for (int i = 0; i < at->n_operands; i++)
            if (s->waiting[at->operands[i].def->id]) {
                at = at->operands[i].def;
                break;
            }
    } while (at != start);
    return fx_fail(g->ctx, FX_ERR_ARGUMENT, &start->loc, "the nodes form a cycle and cannot be sorted: %s <- '%s'", names.data, start->name);
}

static fx_status sort(void *arg)
{
    fx_graph *g = arg;
    fx_arena *scratch = fx_arena_scratch(g->ctx);
    sorter s = {.graph = g};
    s.missing = FX_NEW_ARRAY(scratch, int, g->n_ids);
    s.waiting = FX_NEW_ARRAY(scratch, bool, g->n_ids);
    s.stack = FX_NEW_ARRAY(scratch, fx_node *, g->n_nodes);
    s.order = FX_NEW_ARRAY(scratch, fx_node *, g->n_nodes);
    /* Marks hold the place in the old order meanwhile. */
    g->mark = 0;
    FX_FOR_NODES(g, n) {
        n->mark = ++g->mark;
        s.missing[n->id] = n->n_operands;
    }
    /* Inputs stay first and the output last. */
    FX_FOR_NODES(g, n)
        if (n->opcode == FX_PLACEHOLDER)
            meet(&s, n);
    FX_FOR_NODES(g, n)
        if (n->opcode != FX_PLACEHOLDER && n->opcode != FX_OUTPUT)
            meet(&s, n);
    FX_FOR_NODES(g, n)
        if (n->opcode == FX_OUTPUT)
            meet(&s, n);
    if (s.n < g->n_nodes)
        return report_cycle(&s);
    for (size_t i = 0; i < s.n; i++) {
        s.order[i]->prev = i > 0 ? s.order[i - 1] : NULL;
        s.order[i]->next = i + 1 < s.n ? s.order[i + 1] : NULL;
    }
    g->first = s.n ? s.order[0] : NULL;
    g->last = s.n ? s.order[s.n - 1] : NULL;
    return FX_OK;
}

fx_status fx_graph_topological_sort(fx_graph *graph)
{
    return graph ? fx_protect(graph->ctx, sort, graph) : FX_ERR_ARGUMENT;
}
