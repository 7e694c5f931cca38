/* ir/build.c: building calls of rows of op.def.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/context.h"

enum { MAX_ARGS = sizeof((fx_call *)0)->args / sizeof(fx_arg *), MAX_OPERANDS = sizeof((fx_call *)0)->operands / sizeof(fx_node *) };

fx_call fx_call_begin(fx_graph *g, fx_opid op)
{
    return (fx_call){.g = g, .op = &fx_ops[op]};
}

/* One argument too many is counted, not stored: fx_call_end refuses such a call. */
void fx_call_arg(fx_call *c, const fx_arg *a)
{
    if (c->n < MAX_ARGS)
        c->args[c->n] = a;
    c->n++;
}

static const fx_arg *operand(fx_call *c, fx_node *n)
{
    if (!n)
        return fx_arg_none(c->g->ctx);
    if (c->n_operands < MAX_OPERANDS)
        c->operands[c->n_operands] = n;
    return fx_arg_operand(c->g->ctx, c->n_operands++);
}

void fx_call_node(fx_call *c, fx_node *n)
{
    fx_call_arg(c, operand(c, n));
}

void fx_call_nodes(fx_call *c, int n, fx_node *const *nodes)
{
    const fx_arg *items[MAX_OPERANDS];
    int k = 0;
    for (; k < n && k < MAX_OPERANDS; k++)
        items[k] = operand(c, nodes[k]);
    c->n_operands += n - k;
    fx_call_arg(c, fx_arg_seq(c->g->ctx, FX_ARG_LIST, k, items));
}

void fx_call_int(fx_call *c, int64_t v)
{
    fx_call_arg(c, fx_arg_int(c->g->ctx, v));
}

void fx_call_float(fx_call *c, double v)
{
    fx_call_arg(c, fx_arg_float(c->g->ctx, v));
}

void fx_call_bool(fx_call *c, bool v)
{
    fx_call_arg(c, fx_arg_bool(c->g->ctx, v));
}

void fx_call_ints(fx_call *c, int n, const int64_t *v)
{
    fx_call_arg(c, fx_arg_ints(c->g->ctx, n, v));
}

typedef struct copier {
    fx_call *call;
    const fx_node *from;
} copier;

static const fx_arg *copy_leaf(void *user, const fx_arg *leaf)
{
    copier *c = user;
    return leaf->kind == FX_ARG_NODE ? operand(c->call, c->from->operands[leaf->i].def) : leaf;
}

void fx_call_copy(fx_call *c, const fx_node *from, int param)
{
    copier user = {c, from};
    fx_call_arg(c, fx_arg_map(c->g->ctx, fx_node_arg(from, param), copy_leaf, &user));
}

fx_node *fx_call_end(fx_call *c, const char *name)
{
    fx_context *ctx = c->g->ctx;
    const fx_schema *s = fx_op_schema(ctx, c->op);
    if (c->n > s->n || c->n > MAX_ARGS || c->n_operands > MAX_OPERANDS) {
        fx_fail(ctx, FX_INTERNAL, NULL, "a call of %s: expected at most %d arguments and %d operands, got %d and %d", c->op->name, s->n,
                MAX_OPERANDS, c->n, c->n_operands);
        return NULL;
    }
    fx_node *n = fx_node_new(c->g, FX_CALL_FUNCTION, c->op->name, fx_arg_seq(ctx, FX_ARG_TUPLE, c->n, c->args), NULL,
                             c->n_operands, c->operands, name);
    if (fx_node_normalize(n) == FX_OK && fx_node_infer(n) == FX_OK)
        return n;
    fx_node_erase(n);
    return NULL;
}
