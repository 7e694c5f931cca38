/* passes/dead.c: values nobody uses go.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/passes.h"

static bool is_dead(const fx_node *n, bool unknown_too)
{
    if (n->erased || n->n_uses || n->opcode == FX_PLACEHOLDER || n->opcode == FX_OUTPUT)
        return false;
    unsigned effects = fx_node_effects(n);
    return (effects & ~(unsigned)(unknown_too ? FX_EFFECT_UNKNOWN : 0)) == 0;
}

bool fx_is_dead(const fx_node *n)
{
    return is_dead(n, false);
}

static size_t remove_dead(fx_graph *g, bool unknown_too, fx_pass_run *run)
{
    size_t removed = 0;
    for (fx_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        if (!is_dead(n, unknown_too) || fx_node_erase(n) != FX_OK)
            continue;
        removed++;
        if (run)
            fx_pass_note(run, n, "removed: unused");
    }
    return removed;
}

size_t fx_remove_dead(fx_graph *g)
{
    return remove_dead(g, false, NULL);
}

fx_status fx_gpass_eliminate_dead_code(fx_pass_run *run)
{
    remove_dead(run->graph, fx_pass_bool(run, "unknown"), run);
    return FX_OK;
}
