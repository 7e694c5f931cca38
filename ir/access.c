/* ir/access.c: reading normalised arguments by schema position.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "ir/context.h"

const fx_arg *fx_node_arg(const fx_node *n, int param)
{
    return param >= 0 && param < n->args->n ? n->args->items[param] : fx_arg_none(n->graph->ctx);
}

static fx_node *node_of(const fx_node *n, const fx_arg *a)
{
    return a->kind == FX_ARG_NODE && a->i >= 0 && a->i < n->n_operands ? n->operands[a->i].def : NULL;
}

fx_node *fx_node_input(const fx_node *n, int param)
{
    return node_of(n, fx_node_arg(n, param));
}

int fx_node_inputs(const fx_node *n, int param, fx_node **out, int max)
{
    const fx_arg *a = fx_node_arg(n, param);
    for (int i = 0; i < a->n && i < max; i++)
        out[i] = node_of(n, a->items[i]);
    return a->n;
}

bool fx_node_is_none(const fx_node *n, int param)
{
    return fx_node_arg(n, param)->kind == FX_ARG_NONE;
}

static bool as_int(const fx_arg *a, int64_t *v)
{
    switch (a->kind) {
    case FX_ARG_INT: *v = a->i; return true;
    case FX_ARG_BOOL: *v = a->b; return true;
    case FX_ARG_FLOAT:
        if (!(a->f >= -0x1p63 && a->f < 0x1p63) || a->f != trunc(a->f))
            return false;
        *v = (int64_t)a->f;
        return true;
    default: return false;
    }
}

int64_t fx_node_int(const fx_node *n, int param)
{
    int64_t v = 0;
    return as_int(fx_node_arg(n, param), &v) ? v : 0;
}

double fx_node_float(const fx_node *n, int param)
{
    const fx_arg *a = fx_node_arg(n, param);
    return a->kind == FX_ARG_FLOAT ? a->f : a->kind == FX_ARG_INT ? (double)a->i : a->kind == FX_ARG_BOOL ? a->b : 0;
}

bool fx_node_bool(const fx_node *n, int param)
{
    const fx_arg *a = fx_node_arg(n, param);
    return a->kind == FX_ARG_BOOL ? a->b : a->kind == FX_ARG_INT && a->i != 0;
}

int fx_node_ints(const fx_node *n, int param, int64_t *out, int max)
{
    const fx_arg *a = fx_node_arg(n, param);
    const fx_arg *const *items = a->items;
    int count = a->n;
    int64_t v;
    if (a->kind != FX_ARG_LIST && a->kind != FX_ARG_TUPLE) {
        items = &a;
        count = 1;
    }
    for (int i = 0; i < count; i++) {
        if (items[i]->kind == FX_ARG_FLOAT || !as_int(items[i], &v))
            return -1;
        if (i < max)
            out[i] = v;
    }
    return count;
}

int fx_node_param(const fx_node *n, const char *name)
{
    if (!n->op)
        return -1;
    const fx_schema *s = fx_op_schema(n->graph->ctx, n->op);
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->params[i].name, name) == 0)
            return i;
    return -1;
}
