/* passes/order.c: what must stay before what beside values.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/passes.h"

fx_node *fx_order_pred(const fx_order *o, const fx_node *n, size_t i)
{
    if (i < (size_t)n->n_operands)
        return n->operands[i].def;
    if (!o->start)
        return NULL;
    size_t at = o->start[n->id] + i - (size_t)n->n_operands;
    return at < o->start[n->id + 1] ? o->pred[at] : NULL;
}

fx_order fx_order_new(const fx_graph *g, fx_arena *arena)
{
    (void)g;
    (void)arena;
    return (fx_order){0};
}
