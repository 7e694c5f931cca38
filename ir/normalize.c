/* ir/normalize.c: calls of known ops brought to one form: every parameter of the schema by position.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

typedef struct call {
    fx_node *node;
    fx_context *ctx;
    const fx_schema *schema;
} call;

/* "argument 'stride' of aten.conv2d.default: " */
static const char *about(const call *c, const fx_param *p)
{
    const char *target = c->node->target;
    if (strncmp(target, "torch.ops.", 10) == 0)
        target += 10;
    return fx_intern_f(c->ctx, "argument '%s' of %s", p->name, target);
}

static fx_status wrong(const call *c, const fx_param *p, const fx_arg *got)
{
    const char *what = got->kind == FX_ARG_NONE ? "None" : fx_arg_kind_name(got->kind);
    return fx_fail(c->ctx, FX_ERR_TYPE, &c->node->loc, "%s: expected %s, got %s", about(c, p), p->type, what);
}

static bool is_sequence(const fx_arg *a)
{
    return a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE;
}

/* What one value of the kind may be; NULL when it is none, else the value in its normal form. */
static const fx_arg *one(const call *c, fx_param_kind kind, const fx_arg *a)
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
            return fx_arg_float(c->ctx, (double)a->i);
        ok = a->kind == FX_ARG_FLOAT || a->kind == FX_ARG_SYM || a->kind == FX_ARG_NODE;
        break;
    case FX_PARAM_BOOL: ok = a->kind == FX_ARG_BOOL || a->kind == FX_ARG_NODE; break;
    case FX_PARAM_STR: ok = a->kind == FX_ARG_STR; break;
    case FX_PARAM_DTYPE: ok = a->kind == FX_ARG_DTYPE; break;
    case FX_PARAM_LAYOUT: ok = a->kind == FX_ARG_LAYOUT; break;
    case FX_PARAM_DEVICE:
        if (a->kind == FX_ARG_STR)
            return fx_arg_text(c->ctx, FX_ARG_DEVICE, a->s);
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
static fx_status list(const call *c, const fx_param *p, fx_param_kind item, const fx_arg *a, const fx_arg **out)
{
    const fx_arg *small[32];
    int n = is_sequence(a) ? a->n : 1;
    if (!is_sequence(a) && (p->list_size == 0 || !one(c, item, a)))
        return wrong(c, p, a);
    if (p->list_size > 1 && n > 1 && n != p->list_size)
        return fx_fail(c->ctx, FX_ERR_TYPE, &c->node->loc, "%s: expected %s, got a list of %d", about(c, p), p->type, n);
    int count = n == 1 && p->list_size > 1 ? p->list_size : n;
    const fx_arg **items = count <= 32 ? small : FX_NEW_ARRAY(c->ctx->arena, const fx_arg *, count);
    for (int i = 0; i < count; i++) {
        const fx_arg *v = is_sequence(a) ? a->items[i < n ? i : 0] : a;
        items[i] = one(c, item, v);
        if (!items[i] && p->optional_items && v->kind == FX_ARG_NONE)
            items[i] = v;
        if (!items[i])
            return fx_fail(c->ctx, FX_ERR_TYPE, &c->node->loc, "%s: expected %s, got %s as item %d", about(c, p), p->type,
                           fx_arg_kind_name(v->kind), i);
    }
    *out = fx_arg_seq(c->ctx, FX_ARG_LIST, count, items);
    return FX_OK;
}

/* x * 2 of Python: a number where the schema has a tensor. run_decompositions makes sub.Tensor(1, x) of rsub: the first too. */
static bool takes_number(const call *c, const fx_param *p)
{
    if (c->node->op->cls != FX_CLASS_POINTWISE || c->schema->n < 2)
        return false;
    const fx_param *first = &c->schema->params[0], *second = &c->schema->params[1];
    return (p == first || p == second) && second->kind == FX_PARAM_TENSOR &&
           (strcmp(second->name, "other") == 0 || strcmp(second->name, "exponent") == 0);
}

static fx_status convert(const call *c, const fx_param *p, const fx_arg *a, const fx_arg **out)
{
    fx_param_kind item;
    if (a->kind == FX_ARG_NONE && (p->optional || p->kind == FX_PARAM_ANY)) {
        *out = a;
        return FX_OK;
    }
    if (item_kind(p->kind, &item))
        return list(c, p, item, a, out);
    *out = one(c, p->kind, a);
    if (!*out && p->kind == FX_PARAM_TENSOR && takes_number(c, p))
        *out = one(c, FX_PARAM_SCALAR, a);
    return *out ? FX_OK : wrong(c, p, a);
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
    call c = {n, n->graph->ctx, fx_op_schema(n->graph->ctx, n->op)};
    const fx_schema *s = c.schema;
    if (n->args->n > s->n)
        return fx_fail(c.ctx, FX_ERR_TYPE, &n->loc, "%s takes at most %d arguments, got %d", n->target, s->n, n->args->n);
    for (int i = 0; i < n->args->n; i++)
        value[i] = n->args->items[i];
    for (int i = 0; i < n->kwargs->n; i++) {
        const char *key = n->kwargs->keys[i];
        int at = position(s, key);
        if (at < 0)
            return fx_fail(c.ctx, FX_ERR_TYPE, &n->loc, "%s has no argument '%s'", n->target, key);
        if (value[at])
            return fx_fail(c.ctx, FX_ERR_TYPE, &n->loc, "argument '%s' of %s is given twice", key, n->target);
        value[at] = n->kwargs->items[i];
    }
    for (int i = 0; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        if (value[i]) {
            FX_TRY(convert(&c, p, value[i], &value[i]));
        } else if (p->def) {
            value[i] = p->def;
        } else {
            return fx_fail(c.ctx, FX_ERR_TYPE, &n->loc, "%s: expected %s, but it is missing", about(&c, p), p->type);
        }
    }
    const fx_arg *args = fx_arg_seq(c.ctx, FX_ARG_TUPLE, s->n, value);
    if (args == n->args && n->kwargs->n == 0)
        return FX_OK;
    /* The same operands, but keywords among them may have changed places. */
    fx_node *small[32], **operands = n->n_operands <= 32 ? small : FX_NEW_ARRAY(n->graph->arena, fx_node *, n->n_operands);
    for (int i = 0; i < n->n_operands; i++)
        operands[i] = n->operands[i].def;
    const fx_type *type = n->type;
    fx_node_set_args(n, args, NULL, n->n_operands, operands);
    n->type = type;
    return FX_OK;
}
