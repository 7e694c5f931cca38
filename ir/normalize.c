/* ir/normalize.c: calls of known ops brought to one form: every parameter of the schema by position.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

static bool is_sequence(const fx_arg *a)
{
    return a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE;
}

/* What one value of the kind may be; NULL when it is none, else the value in its normal form. */
static const fx_arg *one(fx_context *ctx, fx_param_kind kind, const fx_arg *a)
{
    bool ok = false;
    switch (kind) {
    case FX_PARAM_TENSOR: ok = a->kind == FX_ARG_NODE; break;
    case FX_PARAM_SCALAR:
        ok = a->kind == FX_ARG_INT || a->kind == FX_ARG_FLOAT || a->kind == FX_ARG_BOOL || a->kind == FX_ARG_COMPLEX ||
             a->kind == FX_ARG_SYM || a->kind == FX_ARG_NODE;
        break;
    case FX_PARAM_INT: ok = a->kind == FX_ARG_INT || a->kind == FX_ARG_SYM || a->kind == FX_ARG_NODE; break;
    case FX_PARAM_FLOAT:
        if (a->kind == FX_ARG_INT)
            return fx_arg_float(ctx, (double)a->i);
        ok = a->kind == FX_ARG_FLOAT || a->kind == FX_ARG_SYM || a->kind == FX_ARG_NODE;
        break;
    case FX_PARAM_BOOL: ok = a->kind == FX_ARG_BOOL || a->kind == FX_ARG_NODE; break;
    case FX_PARAM_STR: ok = a->kind == FX_ARG_STR; break;
    case FX_PARAM_DTYPE: ok = a->kind == FX_ARG_DTYPE; break;
    case FX_PARAM_LAYOUT: ok = a->kind == FX_ARG_LAYOUT; break;
    case FX_PARAM_DEVICE:
        if (a->kind == FX_ARG_STR)
            return fx_arg_text(ctx, FX_ARG_DEVICE, a->s);
        ok = a->kind == FX_ARG_DEVICE;
        break;
    case FX_PARAM_MEMORY_FORMAT: ok = a->kind == FX_ARG_MEMORY_FORMAT; break;
    case FX_PARAM_ANY: ok = true; break;
    default: break;
    }
    return ok ? a : NULL;
}

static bool item_kind(fx_param_kind list, fx_param_kind *item)
{
    switch (list) {
    case FX_PARAM_TENSORS: *item = FX_PARAM_TENSOR; return true;
    case FX_PARAM_INTS: *item = FX_PARAM_INT; return true;
    case FX_PARAM_FLOATS: *item = FX_PARAM_FLOAT; return true;
    case FX_PARAM_BOOLS: *item = FX_PARAM_BOOL; return true;
    default: return false;
    }
}

/* Lists: tuples become lists, a lone value or a list of one fills int[2]. A longer list is refused but for int[1], which torch
 * takes as "one or more". */
static const fx_arg *list(fx_context *ctx, const fx_param *p, fx_param_kind item, const fx_arg *a, const char **got)
{
    const fx_arg *small[32];
    int n = is_sequence(a) ? a->n : 1;
    if (!is_sequence(a) && (p->list_size == 0 || !one(ctx, item, a)))
        return NULL;
    if (p->list_size > 1 && n > 1 && n != p->list_size) {
        *got = fx_intern_f(ctx, "a list of %d", n);
        return NULL;
    }
    int count = n == 1 && p->list_size > 1 ? p->list_size : n;
    const fx_arg **items = count <= 32 ? small : FX_NEW_ARRAY(ctx->arena, const fx_arg *, count);
    for (int i = 0; i < count; i++) {
        const fx_arg *v = is_sequence(a) ? a->items[i < n ? i : 0] : a;
        items[i] = one(ctx, item, v);
        if (!items[i] && p->optional_items && v->kind == FX_ARG_NONE)
            items[i] = v;
        if (!items[i]) {
            *got = fx_intern_f(ctx, "%s as item %d", fx_arg_kind_name(v->kind), i);
            return NULL;
        }
    }
    return fx_arg_seq(ctx, FX_ARG_LIST, count, items);
}

/* x * 2 of Python: a number where the schema has a tensor. run_decompositions makes sub.Tensor(1, x) of rsub: the first too. */
static bool takes_number(const fx_op *op, const fx_schema *s, const fx_param *p)
{
    if (op->cls != FX_CLASS_POINTWISE || s->n < 2 || s->params[1].kind != FX_PARAM_TENSOR)
        return false;
    const char *second = s->params[1].name;
    return (p == &s->params[0] || p == &s->params[1]) && (strcmp(second, "other") == 0 || strcmp(second, "exponent") == 0);
}

const fx_arg *fx_param_convert(fx_context *ctx, const fx_op *op, int param, const fx_arg *a, const char **got)
{
    const fx_schema *s = fx_op_schema(ctx, op);
    const fx_param *p = &s->params[param];
    fx_param_kind item;
    *got = fx_arg_kind_name(a->kind);
    if (a->kind == FX_ARG_NONE && (p->optional || p->kind == FX_PARAM_ANY))
        return a;
    if (item_kind(p->kind, &item))
        return list(ctx, p, item, a, got);
    const fx_arg *v = one(ctx, p->kind, a);
    return !v && p->kind == FX_PARAM_TENSOR && takes_number(op, s, p) ? one(ctx, FX_PARAM_SCALAR, a) : v;
}

/* Schema position of a keyword; torch's functions call the first parameter "input" where aten has "self". */
static int position(const fx_schema *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->params[i].name, name) == 0)
            return i;
    bool self = strcmp(name, "self") == 0, input = strcmp(name, "input") == 0;
    return s->n > 0 && (self || input) && strcmp(s->params[0].name, self ? "input" : "self") == 0 ? 0 : -1;
}

fx_status fx_node_normalize(fx_node *n)
{
    enum { MAX_PARAMS = 32 };
    const fx_arg *value[MAX_PARAMS] = {0};
    if (!n->op)
        return FX_OK;
    fx_context *ctx = n->graph->ctx;
    const fx_schema *s = fx_op_schema(ctx, n->op);
    const char *target = strncmp(n->target, "torch.ops.", 10) == 0 ? n->target + 10 : n->target;
    if (n->args->n > s->n)
        return fx_fail(ctx, FX_ERR_TYPE, &n->loc, "%s takes at most %d arguments, got %d", target, s->n, n->args->n);
    for (int i = 0; i < n->args->n; i++)
        value[i] = n->args->items[i];
    for (int i = 0; i < n->kwargs->n; i++) {
        const char *key = n->kwargs->keys[i];
        int at = position(s, key);
        if (at < 0)
            return fx_fail(ctx, FX_ERR_TYPE, &n->loc, "%s has no argument '%s'", target, key);
        if (value[at])
            return fx_fail(ctx, FX_ERR_TYPE, &n->loc, "argument '%s' of %s is given twice", key, target);
        value[at] = n->kwargs->items[i];
    }
    for (int i = 0; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        const char *got = "nothing";
        value[i] = value[i] ? fx_param_convert(ctx, n->op, i, value[i], &got) : p->def;
        if (value[i] && i == 0 && value[i]->kind != FX_ARG_NODE && fx_node_is_inplace(n))
            value[i] = NULL; /* a number cannot be written to */
        if (!value[i])
            return fx_fail(ctx, FX_ERR_TYPE, &n->loc, "argument '%s' of %s: expected %s, got %s", p->name, target, p->type, got);
    }
    const fx_arg *args = fx_arg_seq(ctx, FX_ARG_TUPLE, s->n, value);
    if (args == n->args && n->kwargs->n == 0)
        return FX_OK;
    /* The same operands, but keywords among them may have changed places. */
    fx_node *small[32], **operands = n->n_operands <= 32 ? small : FX_NEW_ARRAY(n->graph->arena, fx_node *, n->n_operands);
    for (int i = 0; i < n->n_operands; i++)
        operands[i] = n->operands[i].def;
    const fx_type *type = n->type;
    fx_node_assign(n, args, NULL, n->n_operands, operands);
    n->type = type;
    return FX_OK;
}
