/* passes/fold.c: what is known at compile time is computed at compile time, by the reference interpreter.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/rewrite.h"

#include <string.h>

enum { SMALL = 4096 };

typedef struct fold {
    fx_graph *g, *typed;  /* typed: calls of a captured graph as normalised ones, on placeholders; else NULL */
    fx_arena *scratch;
    fx_alias *alias;      /* NULL: nothing writes, results are copied out */
    int64_t max_bytes;
    uint32_t n_ids;       /* of the side arrays */
    fx_tensor **value;    /* by node id: of constant nodes; get_attr's are filled in when needed */
    bool *constant;       /* by node id */
    fx_node **call;       /* by node id: the typed, normalised call; the node itself but in captured graphs */
} fold;

/* ---- who is constant --------------------------------------------------------------------------------------------- */

/* Memory that is written may hold anything; a result that is memory of a parameter must stay that. */
static bool is_steady(const fold *f, const fx_node *n)
{
    if (!f->alias)
        return true;
    if (fx_alias_written(f->alias, n, NULL, NULL))
        return false;
    return n->opcode == FX_GET_ATTR || !fx_alias_is_returned(f->alias, n) || !fx_alias_is_external(f->alias, n);
}

static bool is_real(const fx_type *t)
{
    return t && t->kind == FX_TYPE_TENSOR && t->rank <= FX_MAX_RANK && fx_type_is_static(t) && t->dtype != FX_C64 && t->dtype != FX_C128;
}

/* A tensor without elements, which has the same value whatever the inputs. Only where functions return copies: an empty input that is
 * returned must stay that. */
static bool is_empty(const fold *f, const fx_node *n)
{
    return !f->alias && n->opcode != FX_OUTPUT && is_real(n->type) && fx_type_numel(n->type) == 0;
}

/* A call of a captured graph as a call by schema on typed operands; *out NULL when it is none. */
static fx_status normalised(fold *f, fx_node *n, fx_node **out)
{
    fx_call_args c;
    *out = NULL;
    if (!f->typed) {
        *out = n;
        return FX_OK;
    }
    if (!fx_call_view(n, &c) || c.inplace)
        return FX_OK;
    fx_node **operands = FX_NEW_ARRAY(f->scratch, fx_node *, n->n_operands + 1);
    for (int i = 0; i < n->n_operands; i++)
        operands[i] = f->call[n->operands[i].def->id];
    fx_node *m = fx_node_new(f->typed, FX_CALL_FUNCTION, c.op->name, fx_arg_seq(f->g->ctx, FX_ARG_TUPLE, c.n, c.args), NULL, n->n_operands, operands,
                             NULL);
    m->loc = n->loc;
    FX_TRY(fx_node_infer(m));
    *out = m;
    return FX_OK;
}

/* Sizes that only a run tells. */
static bool has_symbols(const fx_arg *a)
{
    bool yes = a->kind == FX_ARG_SYM;
    for (int i = 0; !yes && i < a->n; i++)
        yes = has_symbols(a->items[i]);
    return yes;
}

/* Whether a call can be computed: tensors in, one tensor out, always the same. Views of constants cost no memory. */
static fx_status can_fold(fold *f, fx_node *n, bool *yes)
{
    *yes = false;
    if ((n->opcode != FX_CALL_FUNCTION && n->opcode != FX_CALL_METHOD) || fx_node_effects(n) || !is_steady(f, n))
        return FX_OK;
    for (int i = 0; i < n->n_operands; i++)
        if (!f->constant[n->operands[i].def->id])
            return FX_OK;
    const fx_op *op = fx_node_row(n, NULL);
    if (has_symbols(n->args) || has_symbols(n->kwargs))
        return FX_OK;
    if (!op || (n->n_operands == 0 && op->cls != FX_CLASS_CREATE))
        return FX_OK;
    fx_node *call;
    FX_TRY(normalised(f, n, &call));
    if (!call || !is_real(call->type))
        return FX_OK;
    f->call[n->id] = call;
    int64_t numel = fx_type_numel(call->type);
    *yes = op->cls == FX_CLASS_VIEW || numel <= f->max_bytes / (int64_t)fx_dtype_size(call->type->dtype);
    return FX_OK;
}

static fx_status find_constants(fold *f)
{
    FX_FOR_NODES(f->g, n) {
        f->call[n->id] = n;
        if (n->opcode == FX_GET_ATTR) {
            const fx_attr *a = fx_attr_find(f->g, n->target);
            f->constant[n->id] = a && is_real(a->type) && is_steady(f, n);
            if (f->typed && f->constant[n->id]) {
                f->call[n->id] = fx_node_new(f->typed, FX_PLACEHOLDER, n->name, NULL, NULL, 0, NULL, NULL);
                f->call[n->id]->type = a->type;
            }
            continue;
        }
        f->constant[n->id] = is_empty(f, n);
        if (!f->constant[n->id])
            FX_TRY(can_fold(f, n, &f->constant[n->id]));
    }
    return FX_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------------ */

static fx_status value_of(fold *f, const fx_node *n, fx_tensor **out)
{
    fx_tensor *t = f->value[n->id];
    if (!t) {
        t = f->value[n->id] = FX_NEW(f->scratch, fx_tensor);
        FX_TRY(fx_attr_value(f->g, n, t));
    }
    *out = t;
    return fx_tensor_touch(f->g->ctx, t);
}

/* A matrix of weights turned is the same memory, which need not even be there yet, by other strides. */
static fx_tensor *turned(fold *f, const fx_node *n)
{
    const fx_node *call = f->call[n->id], *from = !f->alias && fx_is_call(call, FX_OP_permute) ? n->operands[0].def : NULL;
    const fx_attr *a = from && from->opcode == FX_GET_ATTR ? fx_attr_find(f->g, from->target) : NULL;
    int64_t dims[2];
    if (!a || !a->tensor.storage || a->tensor.rank != 2 || fx_node_ints(call, 1, dims, 2) != 2)
        return NULL;
    fx_tensor *t = FX_NEW(f->scratch, fx_tensor);
    *t = a->tensor;
    for (int i = 0; i < 2; i++) {
        t->sizes[i] = a->tensor.sizes[fx_wrap_dim(dims[i], 2)];
        t->strides[i] = a->tensor.strides[fx_wrap_dim(dims[i], 2)];
    }
    return t;
}

static fx_status evaluate(fold *f, const fx_node *n)
{
    const fx_tensor **in = FX_NEW_ARRAY(f->scratch, const fx_tensor *, n->n_operands + 1);
    int n_out = 0;
    if (is_empty(f, n)) {
        f->value[n->id] = FX_NEW(f->scratch, fx_tensor);
        return fx_tensor_like(f->g->ctx, n->type->dtype, n->type, f->value[n->id]);
    }
    f->value[n->id] = turned(f, n);
    if (f->value[n->id])
        return FX_OK;
    for (int i = 0; i < n->n_operands; i++) {
        fx_tensor *t;
        FX_TRY(value_of(f, n->operands[i].def, &t));
        in[i] = t;
    }
    fx_tensor *out = f->value[n->id] = FX_NEW(f->scratch, fx_tensor);
    return fx_node_eval(f->call[n->id], in, out, 1, &n_out);
}

/* "layer1.0.conv1.weight_folded" when made from a weight, else named by module and node. */
static const char *path_of(fold *f, const fx_node *n)
{
    const fx_node *from = n;
    while (from->opcode != FX_GET_ATTR && from->n_operands > 0)
        from = from->operands[0].def;
    if (from->opcode == FX_GET_ATTR) {
        size_t size = strlen(from->target);
        bool again = size > 7 && !strcmp(from->target + size - 7, "_folded");
        return fx_arena_printf(f->scratch, "%s%s", from->target, again ? "" : "_folded");
    }
    bool inside = n->loc.module && *n->loc.module;
    return fx_arena_printf(f->scratch, "%s%s%s", inside ? n->loc.module : "", inside ? "." : "", n->name);
}

static fx_status fold_all(fold *f, fx_pass_run *run)
{
    fx_graph *g = f->g;
    bool *needed = FX_NEW_ARRAY(f->scratch, bool, f->n_ids + 1); /* by a node that stays */
    bool *wanted = FX_NEW_ARRAY(f->scratch, bool, f->n_ids + 1); /* to compute something needed */

    /* Who is constant; then, from the end, whose value is needed; only then is anything computed. An expanded constant stays
     * expanded where it is used: its readers broadcast. */
    FX_TRY(find_constants(f));
    for (fx_node *n = g->last; n; n = n->prev) {
        bool stays = !f->constant[n->id];
        if (needed[n->id] && f->constant[n->id] && f->call[n->id]->op && f->call[n->id]->op->id == FX_OP_expand &&
            fx_type_numel(f->call[n->id]->type) > SMALL) {
            stays = true;
            needed[n->id] = false;
        }
        for (int i = 0; stays && i < n->n_operands; i++)
            needed[n->operands[i].def->id] = true;
        if (!needed[n->id] && !wanted[n->id])
            continue;
        wanted[n->id] = f->constant[n->id];
        for (int i = 0; f->constant[n->id] && !is_empty(f, n) && i < n->n_operands; i++)
            wanted[n->operands[i].def->id] = true;
    }
    FX_FOR_NODES(g, n)
        if (n->opcode != FX_GET_ATTR && wanted[n->id])
            FX_TRY(evaluate(f, n));
    FX_FOR_NODES(g, n) {
        if (n->id >= f->n_ids || n->opcode == FX_GET_ATTR || !f->constant[n->id] || !needed[n->id])
            continue;
        g->insert_before = n;
        fx_node *c = fx_graph_constant(g, path_of(f, n), f->value[n->id]);
        g->insert_before = NULL;
        if (!c)
            return FX_ERR_TYPE;
        fx_loc loc = n->loc;
        loc.node = c->name;
        c->loc = loc;
        fx_node_replace_uses(n, c);
        if (run)
            fx_pass_note(run, n, "computed: is '%s' now", c->target);
    }
    return FX_OK;
}

static fx_status fold_graph(fx_graph *g, fx_arena *scratch, fx_alias *alias, int64_t max_bytes, fx_pass_run *run)
{
    fold f = {.g = g, .scratch = scratch, .alias = alias, .max_bytes = max_bytes, .n_ids = g->n_ids};
    f.value = FX_NEW_ARRAY(scratch, fx_tensor *, g->n_ids + 1);
    f.constant = FX_NEW_ARRAY(scratch, bool, g->n_ids + 1);
    f.call = FX_NEW_ARRAY(scratch, fx_node *, g->n_ids + 1);
    if (g->stage == FX_STAGE_CAPTURED)
        f.typed = fx_graph_new(g->ctx, "constants");
    fx_status status = fold_all(&f, run);
    if (f.typed)
        fx_arena_free(f.typed->arena);
    return status;
}

fx_status fx_fold_constants(fx_graph *g, fx_arena *scratch)
{
    FX_TRY(fold_graph(g, scratch, NULL, 64 << 20, NULL));
    fx_remove_dead(g);
    return FX_OK;
}

fx_status fx_gpass_fold_constants(fx_pass_run *run)
{
    fx_graph *g = run->graph;
    fx_refs *refs = fx_refs_count(g, run->scratch);
    fx_node **gets = NULL;
    size_t n_gets = 0, cap = 0;
    FX_FOR_NODES(g, n)
        if (n->opcode == FX_GET_ATTR && n->n_uses)
            FX_PUSH(run->scratch, gets, n_gets, cap) = n;
    uint32_t before = g->n_ids;
    FX_TRY(fold_graph(g, run->scratch, fx_alias_new(g, run->scratch), fx_pass_int(run, "max_bytes"), run));
    if (g->n_ids == before)
        return FX_OK;
    fx_remove_dead(g); /* what was computed, and what only that used */
    for (size_t i = 0; i < n_gets; i++)
        if (gets[i]->erased && fx_attr_find(g, gets[i]->target))
            fx_refs_drop_attr(refs, fx_attr_find(g, gets[i]->target));
    fx_refs_remove_dropped(refs);
    return FX_OK;
}
