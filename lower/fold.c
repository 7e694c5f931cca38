/* lower/fold.c: what is known at compile time is computed at compile time, by the reference interpreter.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <string.h>

enum { MAX_FOLDED_BYTES = 64 << 20, SMALL = 4096 };

typedef struct fold {
    fx_lower *l;
    fx_tensor **value;   /* by node id: of constant nodes; get_attr's are filled in when needed */
    bool *constant;      /* by node id */
} fold;

/* Whether a call can be computed: tensors in, one tensor out, always the same. Views of constants cost no memory. */
static bool can_fold(const fold *f, const fx_node *n)
{
    if (n->opcode != FX_CALL_FUNCTION || !n->op || (n->op->flags & (FX_OP_RANDOM | FX_OP_EFFECT)) || !fx_is_tensor(n))
        return false;
    if (n->n_operands == 0 && n->op->cls != FX_CLASS_CREATE)
        return false;
    for (int i = 0; i < n->n_operands; i++)
        if (!f->constant[n->operands[i].def->id])
            return false;
    int64_t numel = fx_type_numel(n->type);
    return n->op->cls == FX_CLASS_VIEW || numel <= MAX_FOLDED_BYTES / (int64_t)fx_dtype_size(n->type->dtype);
}

static fx_status value_of(fold *f, const fx_node *n, fx_tensor **out)
{
    fx_tensor *t = f->value[n->id];
    if (!t) {
        t = f->value[n->id] = FX_NEW(f->l->scratch, fx_tensor);
        FX_TRY(fx_attr_value(f->l->graph, n, t));
    }
    *out = t;
    return FX_OK;
}

static fx_status evaluate(fold *f, const fx_node *n)
{
    const fx_tensor **in = FX_NEW_ARRAY(f->l->scratch, const fx_tensor *, n->n_operands + 1);
    int n_out = 0;
    for (int i = 0; i < n->n_operands; i++) {
        fx_tensor *t;
        FX_TRY(value_of(f, n->operands[i].def, &t));
        in[i] = t;
    }
    fx_tensor *out = f->value[n->id] = FX_NEW(f->l->scratch, fx_tensor);
    return fx_node_eval(n, in, out, 1, &n_out);
}

/* "layer1.0.conv1.weight_folded" when made from a weight, else named by module and node. */
static const char *path_of(fold *f, const fx_node *n)
{
    const fx_node *from = n;
    while (from->opcode == FX_CALL_FUNCTION && from->n_operands > 0)
        from = from->operands[0].def;
    if (from->opcode == FX_GET_ATTR) {
        size_t size = strlen(from->target);
        bool again = size > 7 && !strcmp(from->target + size - 7, "_folded");
        return fx_arena_printf(f->l->scratch, "%s%s", from->target, again ? "" : "_folded");
    }
    bool inside = n->loc.module && *n->loc.module;
    return fx_arena_printf(f->l->scratch, "%s%s%s", inside ? n->loc.module : "", inside ? "." : "", n->name);
}

static fx_status fold_constants(fx_lower *l)
{
    fx_graph *g = l->graph;
    fold f = { .l = l };
    f.value = FX_NEW_ARRAY(l->scratch, fx_tensor *, g->n_ids + 1);
    f.constant = FX_NEW_ARRAY(l->scratch, bool, g->n_ids + 1);
    bool *needed = FX_NEW_ARRAY(l->scratch, bool, g->n_ids + 1); /* by a node that stays */
    bool *wanted = FX_NEW_ARRAY(l->scratch, bool, g->n_ids + 1); /* to compute something needed */

    /* Who is constant; then, from the end, whose value is needed; only then is anything computed. An expanded constant stays
     * expanded where it is used: its readers broadcast. */
    FX_FOR_NODES(g, n)
        f.constant[n->id] = n->opcode == FX_GET_ATTR || can_fold(&f, n);
    for (fx_node *n = g->last; n; n = n->prev) {
        bool stays = !f.constant[n->id];
        if (needed[n->id] && f.constant[n->id] && fx_is_call(n, FX_OP_expand) && fx_type_numel(n->type) > SMALL) {
            stays = true;
            needed[n->id] = false;
        }
        for (int i = 0; stays && i < n->n_operands; i++)
            needed[n->operands[i].def->id] = true;
        if (!needed[n->id] && !wanted[n->id])
            continue;
        wanted[n->id] = f.constant[n->id];
        for (int i = 0; f.constant[n->id] && i < n->n_operands; i++)
            wanted[n->operands[i].def->id] = true;
    }
    FX_FOR_NODES(g, n)
        if (n->opcode == FX_CALL_FUNCTION && wanted[n->id])
            FX_TRY(evaluate(&f, n));
    uint32_t n_ids = g->n_ids; /* of the side arrays */
    FX_FOR_NODES(g, n) {
        if (n->id >= n_ids || n->opcode != FX_CALL_FUNCTION || !f.constant[n->id] || !needed[n->id])
            continue;
        g->insert_before = n;
        fx_node *c = fx_graph_constant(g, path_of(&f, n), f.value[n->id]);
        g->insert_before = NULL;
        if (!c)
            return FX_ERR_TYPE;
        fx_loc loc = n->loc;
        loc.node = c->name;
        c->loc = loc;
        fx_node_replace_uses(n, c);
    }
    fx_remove_dead(g, NULL);
    return FX_OK;
}

fx_status fx_pass_fold(fx_lower *l)
{
    fx_remove_dead(l->graph, NULL);
    FX_TRY(fold_constants(l));
    /* Activations spelled out are recognised before their additions and multiplications go into the weights before them. */
    size_t changed = 0;
    FX_TRY(fx_apply_rules(l, &changed));
    FX_TRY(fx_fold_affine(l));
    FX_TRY(fx_infer_missing(l->graph));
    fx_remove_dead(l->graph, NULL);
    return FX_OK;
}
