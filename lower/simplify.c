/* lower/simplify.c: exact algebra, common subexpressions, dead code.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

/* Arguments are interned, so two calls are equal when op, trees and operands are. */
static bool equal_nodes(const fx_node *a, const fx_node *b)
{
    if (a->opcode != b->opcode || a->op != b->op || a->args != b->args || a->kwargs != b->kwargs ||
        a->n_operands != b->n_operands || (!a->op && a->target != b->target) || a->type != b->type)
        return false;
    for (int i = 0; i < a->n_operands; i++)
        if (a->operands[i].def != b->operands[i].def)
            return false;
    return true;
}

static size_t hash_node(const fx_node *n)
{
    uint64_t h = (uintptr_t)n->args ^ ((uint64_t)(uintptr_t)(n->op ? (const void *)n->op : (const void *)n->target) << 1);
    for (int i = 0; i < n->n_operands; i++)
        h = (h ^ n->operands[i].def->id) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return (size_t)(h ^ h >> 32);
}

static size_t merge_equal(fx_lower *l)
{
    fx_graph *g = l->graph;
    size_t cap = 16, merged = 0;
    while (cap < 2 * g->n_nodes)
        cap *= 2;
    fx_node **table = FX_NEW_ARRAY(l->scratch, fx_node *, cap);
    for (fx_node *n = g->first, *next; n; n = next) {
        next = n->next;
        bool call = n->opcode == FX_CALL_FUNCTION && n->op && !(n->op->flags & (FX_OP_RANDOM | FX_OP_EFFECT));
        if (!call && n->opcode != FX_GET_ATTR)
            continue;
        size_t i = hash_node(n) & (cap - 1);
        while (table[i] && !equal_nodes(table[i], n))
            i = (i + 1) & (cap - 1);
        if (!table[i]) {
            table[i] = n;
            continue;
        }
        fx_node_replace_uses(n, table[i]);
        if (fx_node_erase(n) == FX_OK)
            merged++;
    }
    return merged;
}

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
    *changed += fx_remove_dead(g, NULL);
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
        changed += merge_equal(l);
        if (!changed)
            break;
    }
    FX_TRY(fx_infer_missing(g));
    fx_remove_dead(g, NULL);
    return fx_refuse_types(l);
}
