/* passes/cse.c: of equal calls the first is kept, where nobody can tell the difference.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Two calls are equal when target, arguments and operands are. The second may become the first when
 *   - neither does anything but give its value: no random state, no writes, nothing unknown,
 *   - what they read is not written between them, and
 *   - giving both uses one memory is not seen: neither value is written after the second call, and not both may be returned.
 * Views of one tensor, and two get_attr of one attribute, are one memory already: they are merged whatever is written. */
#include <string.h>

#include "passes/rewrite.h"

typedef struct cse {
    fx_graph *g;
    fx_alias *alias;    /* NULL: nothing in the graph writes */
    bool *returned;     /* by node id; NULL: results are copied out, aliases among them are not seen */
} cse;

static bool equal_nodes(const fx_node *a, const fx_node *b)
{
    bool spelled = a->target == b->target || (a->op && a->op == b->op && a->graph->stage != FX_STAGE_CAPTURED);
    if (a->opcode != b->opcode || !spelled || a->args != b->args || a->kwargs != b->kwargs || a->n_operands != b->n_operands ||
        (a->type && b->type && a->type != b->type))
        return false;
    for (int i = 0; i < a->n_operands; i++)
        if (a->operands[i].def != b->operands[i].def)
            return false;
    return true;
}

static size_t hash_node(const fx_node *n)
{
    bool by_op = n->op && n->graph->stage != FX_STAGE_CAPTURED;
    uint64_t h = (uintptr_t)n->args ^ ((uint64_t)(uintptr_t)(by_op ? (const void *)n->op : (const void *)n->target) << 1);
    for (int i = 0; i < n->n_operands; i++)
        h = (h ^ n->operands[i].def->id) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return (size_t)(h ^ h >> 32);
}

/* Whether a value surely is memory of its first operand: then equal calls share it anyway. */
static bool is_sure_view(const fx_node *n)
{
    if (n->opcode == FX_GET_ATTR)
        return true;
    const fx_op *op = n->opcode == FX_CALL_FUNCTION || n->opcode == FX_CALL_METHOD ? fx_node_row(n, NULL) : NULL;
    switch (op ? op->id : FX_OP_NONE) {
    case FX_OP_view:
    case FX_OP_permute:
    case FX_OP_transpose_int:
    case FX_OP_t:
    case FX_OP_expand:
    case FX_OP_unsqueeze:
    case FX_OP_squeeze_dim:
    case FX_OP_squeeze_dims:
    case FX_OP_squeeze:
    case FX_OP_slice_Tensor:
    case FX_OP_select_int:
    case FX_OP_alias:
    case FX_OP_detach: return true;
    case FX_OP_getitem: return n->n_operands == 1 && n->operands[0].def->type && n->operands[0].def->type->kind == FX_TYPE_TUPLE;
    default: return false;
    }
}

static bool may_merge(const cse *c, const fx_node *a, const fx_node *b)
{
    if (is_sure_view(a))
        return true;
    if (c->returned && c->returned[a->id] && c->returned[b->id])
        return false;
    if (!c->alias)
        return true;
    for (int i = 0; i < a->n_operands; i++)
        if (fx_alias_written(c->alias, a->operands[i].def, a, b))
            return false;
    return !fx_alias_written(c->alias, a, a, NULL) && !fx_alias_written(c->alias, b, b, NULL);
}

static bool is_candidate(const fx_node *n)
{
    return n->opcode == FX_GET_ATTR ||
           ((n->opcode == FX_CALL_FUNCTION || n->opcode == FX_CALL_METHOD || n->opcode == FX_CALL_MODULE) && fx_node_effects(n) == 0);
}

size_t fx_merge_equal(fx_graph *g, fx_arena *scratch, fx_pass_run *run)
{
    size_t cap = 16, merged = 0;
    cse c = {.g = g};
    while (cap < 2 * g->n_nodes)
        cap *= 2;
    fx_node **table = FX_NEW_ARRAY(scratch, fx_node *, cap);
    if (run) {
        c.alias = fx_alias_new(g, scratch);
        c.returned = FX_NEW_ARRAY(scratch, bool, g->n_ids + 1);
        FX_FOR_NODES(g, n)
            c.returned[n->id] = fx_alias_is_returned(c.alias, n);
    }
    for (fx_node *n = g->first, *next; n; n = next) {
        next = n->next;
        if (!is_candidate(n))
            continue;
        size_t i = hash_node(n) & (cap - 1);
        while (table[i] && !equal_nodes(table[i], n))
            i = (i + 1) & (cap - 1);
        if (!table[i] || !may_merge(&c, table[i], n)) {
            table[i] = n; /* the latest: what is written since does not count for those to come */
            continue;
        }
        fx_node *first = table[i];
        if (c.returned)
            c.returned[first->id] = c.returned[first->id] || c.returned[n->id];
        if (!first->type)
            first->type = n->type;
        fx_node_replace_uses(n, first);
        if (run)
            fx_pass_note(run, n, "is '%s'", first->name);
        if (fx_node_erase(n) == FX_OK)
            merged++;
    }
    return merged;
}

fx_status fx_gpass_common_subexpressions(fx_pass_run *run)
{
    fx_merge_equal(run->graph, run->scratch, run);
    return FX_OK;
}
