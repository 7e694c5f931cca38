/* lower/decompose.c: the pass that makes core rows of all others, by the table decompose.def.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

static fx_decompose_fn *const rules[FX_OP_COUNT] = {
#define FX_DECOMPOSE(id, fn) [FX_OP_##id] = fn,
#include "lower/decompose.def"
#undef FX_DECOMPOSE
};

bool fx_uses_result(const fx_rw *w, int64_t k)
{
    for (const fx_use *u = w->at->first_use; u; u = u->next)
        if (fx_is_call(u->user, FX_OP_getitem) && fx_node_int(u->user, 1) == k && u->user->n_uses)
            return true;
    return false;
}

fx_status fx_pass_decompose(fx_lower *l)
{
    fx_graph *g = l->graph;
    FX_TRY(fx_infer_missing(g));
    fx_remove_dead(g);
    size_t count = 0;
    fx_node **nodes = FX_NEW_ARRAY(l->scratch, fx_node *, g->n_nodes + 1);
    FX_FOR_NODES(g, n)
        nodes[count++] = n;

    /* In order, so that a rewrite sees operands in core form. All that is refused is said in one go. */
    fx_status status = FX_OK;
    for (size_t i = 0; i < count; i++) {
        fx_node *n = nodes[i];
        if (n->erased || n->opcode != FX_CALL_FUNCTION || !n->op || !rules[n->op->id])
            continue;
        fx_rw w = fx_rw_at(l->graph, l->scratch, n);
        rules[n->op->id](&w);
        if (w.status != FX_OK && w.status != FX_ERR_UNSUPPORTED)
            return w.status;
        if (status == FX_OK)
            status = w.status;
    }
    FX_TRY(status);
    FX_TRY(fx_infer_missing(g));
    fx_remove_dead(g);
    return FX_OK;
}
