/* passes/dead.c: values nobody uses go.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/passes.h"

/* Calls of modules, methods and functions that the operator table does not know may do anything. */
bool fx_is_dead(const fx_node *n)
{
    if (n->erased || n->n_uses)
        return false;
    if (n->opcode == FX_GET_ATTR)
        return true;
    return n->opcode == FX_CALL_FUNCTION && n->op && !(n->op->flags & (FX_OP_EFFECT | FX_OP_RANDOM)) && !fx_node_is_inplace(n);
}

size_t fx_remove_dead(fx_graph *g, fx_pass_run *run)
{
    size_t removed = 0;
    for (fx_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        if (!fx_is_dead(n) || fx_node_erase(n) != FX_OK)
            continue;
        removed++;
        if (run)
            fx_pass_note(run, n, "removed: unused");
    }
    return removed;
}

fx_status fx_gpass_eliminate_dead_code(fx_pass_run *run)
{
    fx_remove_dead(run->graph, run);
    return FX_OK;
}
