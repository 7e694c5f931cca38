/* lower/sizes.c: the pass that takes size arithmetic out of a graph: what nodes compute of sizes becomes an expression in its users'
 * arguments, and guards become conditions on the symbols, unless their ranges imply them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

/* The tree `a` with operand `drop` replaced by a constant and the operands after it renumbered. */
static const fx_arg *without_operand(fx_context *ctx, fx_arena *scratch, const fx_arg *a, int drop, const fx_arg *by)
{
    if (a->kind == FX_ARG_NODE)
        return a->i == drop ? by : fx_arg_operand(ctx, (int)(a->i > drop ? a->i - 1 : a->i));
    if (a->n == 0)
        return a;
    const fx_arg **items = FX_NEW_ARRAY(scratch, const fx_arg *, a->n);
    for (int i = 0; i < a->n; i++)
        items[i] = without_operand(ctx, scratch, a->items[i], drop, by);
    return a->kind == FX_ARG_DICT ? fx_arg_dict(ctx, a->n, a->keys, items) : fx_arg_seq(ctx, a->kind, a->n, items);
}

/* `value` takes the node's place in all its users. */
static void put_in_users(fx_rw *w, const fx_arg *value)
{
    while (w->at->first_use) {
        fx_node *user = w->at->first_use->user;
        int drop = 0, kept = 0;
        while (user->operands[drop].def != w->at)
            drop++;
        fx_node **operands = FX_NEW_ARRAY(w->scratch, fx_node *, user->n_operands);
        for (int i = 0; i < user->n_operands; i++)
            if (i != drop)
                operands[kept++] = user->operands[i].def;
        const fx_type *type = user->type;
        fx_node_assign(user, without_operand(w->ctx, w->scratch, user->args, drop, value),
                       without_operand(w->ctx, w->scratch, user->kwargs, drop, value), kept, operands);
        user->type = type;
    }
}

/* Whether every symbol of an expression is one of the graph's. */
static bool known(const fx_sym *s)
{
    if (s->kind == FX_SYM_OPAQUE)
        return false;
    for (int i = 0; s->kind != FX_SYM_INT && s->kind != FX_SYM_SYMBOL && i < s->n; i++)
        if (!known(s->args[i]))
            return false;
    return true;
}

/* A node that is a size: its users get the number or expression. */
void fx_d_size(fx_rw *w)
{
    const fx_type *t = w->at->type;
    if (!t || t->kind != FX_TYPE_INT || (t->value.sym && !known(t->value.sym))) {
        fx_rw_refuse(w, "expected a size that is a number or an expression of the inputs' sizes");
        return;
    }
    put_in_users(w, t->value.sym ? fx_arg_sym(w->ctx, t->value.sym) : fx_arg_int(w->ctx, t->value.value));
    w->status = fx_node_erase(w->at);
}

/* ---- guards ------------------------------------------------------------------------------------------------------ */

/* An argument as a size; false when it is none. */
static bool size_of(const fx_node *n, int param, fx_dim *out)
{
    const fx_arg *a = fx_node_arg(n, param);
    const fx_type *t = a->kind == FX_ARG_NODE ? n->operands[a->i].def->type : NULL;
    if (a->kind == FX_ARG_INT || a->kind == FX_ARG_BOOL)
        *out = fx_dim_of(a->kind == FX_ARG_INT ? a->i : a->b);
    else if (a->kind == FX_ARG_SYM)
        *out = fx_dim_sym(a->sym);
    else if (t && t->kind == FX_TYPE_INT)
        *out = t->value;
    else
        return false;
    return true;
}

/* value >= 0 becomes a condition of the graph, unless that is known. */
static void require(fx_rw *w, fx_dim value, const char *text)
{
    fx_graph *g = w->g;
    const fx_symbols symbols = fx_graph_symbols(g);
    int64_t least, most;
    if (fx_dim_at_least(w->ctx, symbols, value, 0))
        return;
    fx_dim_bounds(symbols, value, &least, &most);
    if (most < 0 || (value.sym && !known(value.sym))) {
        fx_rw_refuse(w, "a condition that no size of the inputs fulfils, or that depends on data: %s", text);
        return;
    }
    for (size_t i = 0; i < g->n_limits; i++)
        if (fx_dim_equal(g->limits[i].value, value))
            return;
    FX_PUSH(g->arena, g->limits, g->n_limits, g->cap_limits) = (fx_size_limit){value, text};
}

/* A comparison of sizes, or a truth value known already; false when it is neither. */
static bool require_comparison(fx_rw *w, const fx_node *n, const char *text)
{
    fx_dim a, b;
    if (!n->op || !size_of(n, 0, &a) || !size_of(n, 1, &b))
        return false;
    fx_dim up = fx_dim_sub(w->ctx, a, b), down = fx_dim_sub(w->ctx, b, a);
    switch (n->op->id) {
    case FX_OP_ge_Tensor: case FX_OP_ge_Scalar: require(w, up, text); return true;
    case FX_OP_gt_Tensor: case FX_OP_gt_Scalar: require(w, fx_dim_plus(w->ctx, up, -1), text); return true;
    case FX_OP_le_Tensor: case FX_OP_le_Scalar: require(w, down, text); return true;
    case FX_OP_lt_Tensor: case FX_OP_lt_Scalar: require(w, fx_dim_plus(w->ctx, down, -1), text); return true;
    case FX_OP_eq_Tensor: case FX_OP_eq_Scalar:
        require(w, up, text);
        require(w, down, text);
        return true;
    case FX_OP_ne_Tensor: case FX_OP_ne_Scalar: { /* of two conditions one would have to hold: only what is known */
        const fx_symbols symbols = fx_graph_symbols(w->g);
        return fx_dim_at_least(w->ctx, symbols, up, 1) || fx_dim_at_least(w->ctx, symbols, down, 1);
    }
    default:
        return false;
    }
}

/* sym_constrain_range(size, min, max), _assert_scalar(condition, text) */
void fx_d_guard(fx_rw *w)
{
    fx_node *n = w->at;
    if (n->op->id == FX_OP__assert_scalar) {
        const fx_arg *text = fx_node_arg(n, 1), *condition = fx_node_arg(n, 0);
        fx_node *what = fx_node_input(n, 0);
        const char *words = text->kind == FX_ARG_STR ? text->s : "a condition of the model";
        bool holds = condition->kind == FX_ARG_BOOL ? condition->b : what && require_comparison(w, what, words);
        if (!holds && w->status == FX_OK)
            fx_rw_refuse(w, "expected a comparison of sizes: %s", words);
    } else {
        fx_dim size, end;
        if (!size_of(n, 0, &size)) {
            fx_rw_refuse(w, "expected a size");
            return;
        }
        if (size_of(n, 1, &end))
            require(w, fx_dim_sub(w->ctx, size, end), "a size is less than the model allows");
        if (size_of(n, 2, &end))
            require(w, fx_dim_sub(w->ctx, end, size), "a size is more than the model allows");
    }
    if (w->status == FX_OK)
        w->status = fx_node_erase(n);
}

/* Sizes that are compared, divided as floats or the like and used by nothing but such are dead once the guards are gone. */
fx_status fx_pass_sizes(fx_lower *l)
{
    fx_graph *g = l->graph;
    fx_status status = FX_OK;
    FX_TRY(fx_infer_missing(g));
    for (int pass = 0; pass < 2; pass++) { /* guards first: they read what nodes say */
        for (fx_node *n = g->first, *next; n; n = next) {
            next = n->next;
            if (n->opcode != FX_CALL_FUNCTION || !n->op || !n->type)
                continue;
            fx_rw w = fx_rw_at(g, l->scratch, n);
            bool guard = n->op->id == FX_OP__assert_scalar || n->op->id == FX_OP_sym_constrain_range || n->op->id == FX_OP_sym_constrain_range_for_size;
            if (pass == 0 && guard)
                fx_d_guard(&w);
            else if (pass == 1 && n->type->kind == FX_TYPE_INT)
                fx_d_size(&w);
            if (w.status != FX_OK && w.status != FX_ERR_UNSUPPORTED)
                return w.status;
            status = status == FX_OK ? w.status : status;
        }
        fx_remove_dead(g);
    }
    FX_TRY(status);
    FX_FOR_NODES(g, n)
        if (n->opcode == FX_CALL_FUNCTION && n->type && (n->type->kind == FX_TYPE_FLOAT || n->type->kind == FX_TYPE_BOOL))
            return fx_fail(l->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: a number computed of sizes that is no size (used by '%s') cannot be compiled",
                           n->target, n->n_uses ? n->first_use->user->name : "nothing");
    return FX_OK;
}
