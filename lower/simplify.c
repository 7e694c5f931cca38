/* lower/simplify.c: exact algebra, common subexpressions, dead code.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

fx_status fx_apply_rules(fx_lower *l, size_t *changed)
{
    fx_graph *g = l->graph;
    size_t count = 0;
    fx_node **nodes = FX_NEW_ARRAY(l->scratch, fx_node *, g->n_nodes + 1);
    FX_FOR_NODES(g, n)
        nodes[count++] = n;
    for (size_t i = 0; i < count; i++) {
        fx_node *n = nodes[i];
        while (!n->erased && n->opcode == FX_CALL_FUNCTION && n->op) {
            /* What a rule leaves unused goes at once: other rules ask whether a value has one use only. */
            int n_before = n->n_operands;
            fx_node **before = FX_NEW_ARRAY(l->scratch, fx_node *, n_before + 1);
            for (int k = 0; k < n_before; k++)
                before[k] = n->operands[k].def;
            fx_rw w = fx_rw_at(l->graph, l->scratch, n);
            bool again = fx_simplify_node(&w) || (w.status == FX_OK && fx_simplify_pattern(&w));
            FX_TRY(w.status);
            if (!again)
                break;
            ++*changed;
            for (int k = 0; k < n_before; k++)
                if (fx_is_dead(before[k]))
                    FX_TRY(fx_node_erase(before[k]));
        }
    }
    *changed += fx_remove_dead(g);
    return FX_OK;
}

fx_status fx_pass_simplify(fx_lower *l)
{
    fx_graph *g = l->graph;
    /* Rules look at operands, so one walk in order does nearly all; rules that look further back need another. */
    enum { MOST_ROUNDS = 16 };
    for (int round = 0; round < MOST_ROUNDS; round++) {
        size_t changed = 0;
        FX_TRY(fx_apply_rules(l, &changed));
        changed += fx_merge_equal(g, l->scratch, NULL);
        if (!changed)
            break;
    }
    FX_TRY(fx_infer_missing(g));
    fx_remove_dead(g);
    return FX_OK;
}
