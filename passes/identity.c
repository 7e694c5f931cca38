/* passes/identity.c: calls that give their input back: dropout in evaluation mode, Identity, x + 0, views and slices of all of x, casts to
 * its own dtype.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Some give the very tensor or a view of all of it: their users may as well use x. Others (x + 0) give a copy; they stay when somebody could tell:
 * when x or the copy is written afterwards, or the copy is returned where x itself would be the caller's tensor or another result. */
#include <string.h>

#include "passes/passes.h"

typedef enum sameness { DIFFERENT, SAME_MEMORY, COPY } sameness;

/* ---- what gives its input back ------------------------------------------------------------------------------------- */

static bool is_false(const fx_arg *a)
{
    return a && a->kind == FX_ARG_BOOL && !a->b;
}

static bool is_true(const fx_arg *a)
{
    return a && a->kind == FX_ARG_BOOL && a->b;
}

/* F.dropout(input, p=0.5, training=True, inplace=False) and its kin. */
static bool is_functional_dropout(const fx_node *n, bool *training)
{
    static const char *const names[] = {"torch.nn.functional.dropout", "torch.nn.functional.dropout1d", "torch.nn.functional.dropout2d",
                                        "torch.nn.functional.dropout3d", "torch.nn.functional.alpha_dropout",
                                        "torch.nn.functional.feature_alpha_dropout"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found = found || !strcmp(n->target, names[i]);
    if (!found)
        return false;
    bool plain = strstr(n->target, "alpha") == NULL; /* the alpha kinds have training=False */
    *training = n->args->n > 2 ? !is_false(n->args->items[2]) : plain;
    for (int i = 0; i < n->kwargs->n; i++)
        if (!strcmp(n->kwargs->keys[i], "training"))
            *training = !is_false(n->kwargs->items[i]);
    return true;
}

/* Whether n is dropout of any spelling; *training: it would drop something. */
static bool is_dropout(const fx_node *n, bool *training)
{
    fx_call_args call;
    *training = false;
    if (n->opcode == FX_CALL_MODULE) {
        const fx_module *m = fx_target_module(n);
        const fx_class *c = m ? fx_module_class_of(m) : NULL;
        *training = m && is_true(fx_module_config(m, "training"));
        return c && strstr(c->name, ".dropout.");
    }
    if (n->opcode == FX_CALL_FUNCTION && is_functional_dropout(n, training))
        return true;
    if ((n->opcode != FX_CALL_FUNCTION && n->opcode != FX_CALL_METHOD) || !fx_call_view(n, &call) ||
        (call.op->id != FX_OP_dropout && call.op->id != FX_OP_feature_dropout))
        return false;
    *training = !is_false(call.args[2]);
    return true;
}

static bool is_int(const fx_arg *a, int64_t v)
{
    return a->kind == FX_ARG_INT && a->i == v;
}

static bool is_number(const fx_arg *a, double v)
{
    return (a->kind == FX_ARG_INT && (double)a->i == v) || (a->kind == FX_ARG_FLOAT && a->f == v);
}

static bool all_are(const fx_arg *a, int64_t v)
{
    for (int i = 0; i < a->n; i++)
        if (!is_int(a->items[i], v))
            return false;
    return a->kind == FX_ARG_LIST;
}

/* 0, 1, 2, ...; negative dims count from the end. */
static bool in_order(const fx_arg *dims)
{
    for (int i = 0; i < dims->n; i++)
        if (!is_int(dims->items[i], i) && !is_int(dims->items[i], i - dims->n))
            return false;
    return dims->kind == FX_ARG_LIST;
}

/* slice(x, dim, start, end, step): all of it, when that can be seen without its size or by its type. */
static bool is_whole_slice(const fx_node *x, const fx_node *n, const fx_call_args *c)
{
    if (fx_type_same_tensor(x->type, n->type) && is_int(c->args[4], 1))
        return true;
    bool from_start = c->args[2]->kind == FX_ARG_NONE || is_int(c->args[2], 0);
    bool to_end = c->args[3]->kind == FX_ARG_NONE || (c->args[3]->kind == FX_ARG_INT && c->args[3]->i == INT64_MAX);
    return from_start && to_end && is_int(c->args[4], 1);
}

/* exact: also -0 must stay -0, which x + 0 makes 0. */
static sameness call_gives(const fx_node *x, const fx_node *n, const fx_call_args *c, bool exact)
{
    const fx_arg *second = c->n > 1 ? c->args[1] : NULL;
    bool is_float = x->type && x->type->kind == FX_TYPE_TENSOR && fx_dtype_is_float(x->type->dtype);
    bool alpha = c->n > 2 && (c->op->id == FX_OP_add_Tensor || c->op->id == FX_OP_sub_Tensor) && !is_int(c->args[2], 1) &&
                 !is_number(c->args[2], 1);
    switch (c->op->id) {
    case FX_OP_alias:
    case FX_OP_detach: return SAME_MEMORY;
    case FX_OP_slice_Tensor: return is_whole_slice(x, n, c) ? SAME_MEMORY : DIFFERENT;
    case FX_OP_permute: return in_order(second) ? SAME_MEMORY : DIFFERENT;
    case FX_OP_transpose_int: return second == c->args[2] ? SAME_MEMORY : DIFFERENT;
    case FX_OP_view:
    case FX_OP_reshape:
    case FX_OP__unsafe_view:
    case FX_OP_flatten_using_ints:
    case FX_OP_expand:
    case FX_OP_expand_as:
    case FX_OP_view_as:
    case FX_OP_squeeze:
    case FX_OP_squeeze_dim:
    case FX_OP_squeeze_dims: return fx_type_same_tensor(x->type, n->type) ? SAME_MEMORY : DIFFERENT;
    case FX_OP_to_dtype: /* (self, dtype, non_blocking, copy, memory_format) */
        if (!fx_type_same_tensor(x->type, n->type) || c->args[4]->kind != FX_ARG_NONE)
            return DIFFERENT;
        return is_true(c->args[3]) ? COPY : SAME_MEMORY;
    case FX_OP__to_copy: return fx_type_same_tensor(x->type, n->type) && c->args[c->n - 1]->kind == FX_ARG_NONE ? COPY : DIFFERENT;
    case FX_OP_clone:
        if (second->kind != FX_ARG_NONE && (second->kind != FX_ARG_MEMORY_FORMAT || strcmp(second->s, "torch.preserve_format")))
            return DIFFERENT;
        return COPY;
    case FX_OP_add_Tensor:
    case FX_OP_add_Scalar:
        if (!fx_type_same_tensor(x->type, n->type) || alpha || !is_number(second, 0))
            return DIFFERENT;
        return exact && is_float && !(second->kind == FX_ARG_FLOAT && 1 / second->f < 0) ? DIFFERENT : COPY;
    case FX_OP_sub_Tensor:
    case FX_OP_sub_Scalar:
        if (!fx_type_same_tensor(x->type, n->type) || alpha || !is_number(second, 0))
            return DIFFERENT;
        return exact && is_float && second->kind == FX_ARG_FLOAT && 1 / second->f < 0 ? DIFFERENT : COPY;
    case FX_OP_mul_Tensor:
    case FX_OP_mul_Scalar:
    case FX_OP_div_Tensor:
    case FX_OP_div_Scalar:
    case FX_OP_pow_Tensor_Scalar: return fx_type_same_tensor(x->type, n->type) && is_number(second, 1) ? COPY : DIFFERENT;
    case FX_OP_constant_pad_nd: return fx_type_same_tensor(x->type, n->type) && all_are(second, 0) ? COPY : DIFFERENT;
    case FX_OP_flip: return second->kind == FX_ARG_LIST && second->n == 0 ? COPY : DIFFERENT;
    default: return DIFFERENT;
    }
}

/* What n is to its first operand, *x. */
static sameness gives(const fx_node *n, bool exact, fx_node **x)
{
    fx_call_args call;
    *x = NULL;
    if (n->opcode == FX_CALL_MODULE) {
        const fx_module *m = fx_target_module(n);
        const fx_class *c = m ? fx_module_class_of(m) : NULL;
        if (!c || c->id != FX_MODULE_Identity || n->n_operands != 1 || n->args->n + n->kwargs->n != 1)
            return DIFFERENT;
        *x = n->operands[0].def;
        return SAME_MEMORY;
    }
    if ((n->opcode != FX_CALL_FUNCTION && n->opcode != FX_CALL_METHOD) || !fx_call_view(n, &call) || call.inplace || call.n == 0 ||
        call.args[0]->kind != FX_ARG_NODE)
        return DIFFERENT;
    *x = n->operands[call.args[0]->i].def;
    return call_gives(*x, n, &call, exact);
}

/* ---- taking them out -------------------------------------------------------------------------------------------------------- */

typedef struct removal {
    fx_pass_run *run;
    fx_alias *alias;      /* made when first asked for, of the graph as it came */
    bool *returned;       /* by node id: results, and what has become one */
} removal;

static void look(removal *r)
{
    fx_graph *g = r->run->graph;
    if (r->alias)
        return;
    r->alias = fx_alias_new(g, r->run->scratch);
    r->returned = FX_NEW_ARRAY(r->run->scratch, bool, g->n_ids + 1);
    FX_FOR_NODES(g, n)
        r->returned[n->id] = fx_alias_is_returned(r->alias, n);
}

/* Whether nobody sees that a copy of x has become x. */
static bool copy_may_go(removal *r, const fx_node *x, const fx_node *n)
{
    look(r);
    if (fx_alias_written(r->alias, x, n, NULL) || fx_alias_written(r->alias, n, n, NULL))
        return false;
    if (r->returned[n->id] && (r->returned[x->id] || fx_alias_is_external(r->alias, x)))
        return false;
    r->returned[x->id] = r->returned[x->id] || r->returned[n->id];
    return true;
}

static fx_status take_out(fx_pass_run *run, fx_node *n, fx_node *x, const char *why)
{
    if (!x->type)
        x->type = n->type;
    fx_node_replace_uses(n, x);
    fx_pass_note(run, n, "removed: %s of '%s'", why, x->name);
    return fx_node_erase(n);
}

/* The modules that are not called any more go too. */
static void drop_module(fx_refs **refs, fx_pass_run *run, const fx_node *n)
{
    if (n->opcode != FX_CALL_MODULE)
        return;
    if (!*refs)
        *refs = fx_refs_count(run->graph, run->scratch);
    fx_refs_drop_module(*refs, fx_target_module(n));
}

fx_status fx_gpass_remove_identity(fx_pass_run *run)
{
    removal r = {.run = run};
    fx_refs *refs = NULL;
    bool exact = fx_pass_bool(run, "exact");
    for (fx_node *n = run->graph->first, *next; n; n = next) {
        fx_node *x;
        next = n->next;
        sameness s = gives(n, exact, &x);
        if (s == DIFFERENT || (s == COPY && !copy_may_go(&r, x, n)))
            continue;
        drop_module(&refs, run, n);
        FX_TRY(take_out(run, n, x, s == COPY ? "a copy" : "the same as all"));
    }
    if (refs)
        fx_refs_remove_dropped(refs);
    return FX_OK;
}

fx_status fx_gpass_remove_dropout(fx_pass_run *run)
{
    fx_refs *refs = NULL;
    bool all = fx_pass_bool(run, "training");
    for (fx_node *n = run->graph->first, *next; n; n = next) {
        bool training;
        next = n->next;
        if (!is_dropout(n, &training) || (training && !all) || n->n_operands < 1)
            continue;
        drop_module(&refs, run, n);
        FX_TRY(take_out(run, n, n->operands[0].def, "dropout"));
    }
    if (refs)
        fx_refs_remove_dropped(refs);
    return FX_OK;
}
