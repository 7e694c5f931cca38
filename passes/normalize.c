/* passes/normalize.c: calls of known operators in one spelling: the operator's name in the table, all arguments of its schema, in order.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "passes/passes.h"

/* "aten.add.Tensor" -> "aten.add_.Tensor" */
const char *fx_op_inplace_name(fx_context *ctx, const fx_op *op)
{
    const char *dot = strchr(op->name, '.'), *end = dot ? strchr(dot + 1, '.') : NULL;
    return end ? fx_intern_f(ctx, "%.*s_%s", (int)(end - op->name), op->name, end) : NULL;
}

/* Graphs of operators have everything by position; a captured graph is Python still, where parameters after the * are keywords. */
static void spell(const fx_graph *g, const fx_call_args *call, const fx_arg **args, const fx_arg **kwargs)
{
    const fx_param *p = call->schema->params;
    const char *keys[sizeof call->args / sizeof *call->args];
    int n = call->n;
    while (g->stage == FX_STAGE_CAPTURED && n > 0 && p[n - 1].keyword_only)
        n--;
    for (int i = n; i < call->n; i++)
        keys[i - n] = p[i].name;
    *args = fx_arg_seq(g->ctx, FX_ARG_TUPLE, n, call->args);
    *kwargs = fx_arg_dict(g->ctx, call->n - n, keys, call->args + n);
}

void fx_node_become_call(fx_node *n, const fx_call_args *call)
{
    fx_graph *g = n->graph;
    fx_context *ctx = g->ctx;
    fx_node *small[32], **operands = n->n_operands <= 32 ? small : FX_NEW_ARRAY(g->arena, fx_node *, n->n_operands);
    const fx_type *type = n->type;
    const fx_arg *args, *kwargs;
    for (int i = 0; i < n->n_operands; i++)
        operands[i] = n->operands[i].def;
    spell(g, call, &args, &kwargs);
    n->opcode = FX_CALL_FUNCTION;
    n->target = call->inplace ? fx_op_inplace_name(ctx, call->op) : fx_intern(ctx, call->op->name);
    n->op = call->op;
    fx_node_assign(n, args, kwargs, n->n_operands, operands);
    n->type = type;
}

/* Python's operators work on numbers too: only where a tensor comes out are they the table's. */
static bool may_be_of_numbers(const fx_node *n)
{
    return !strncmp(n->target, "_operator.", 10) || !strncmp(n->target, "operator.", 9);
}

fx_status fx_gpass_normalize_args(fx_pass_run *run)
{
    FX_FOR_NODES(run->graph, n) {
        fx_call_args call;
        if ((n->opcode != FX_CALL_FUNCTION && n->opcode != FX_CALL_METHOD) || !fx_call_view(n, &call))
            continue;
        if (call.op->id == FX_OP_getitem || (may_be_of_numbers(n) && !(n->type && n->type->kind == FX_TYPE_TENSOR)))
            continue;
        const char *name = call.inplace ? fx_op_inplace_name(run->ctx, call.op) : fx_intern(run->ctx, call.op->name);
        const fx_arg *args, *kwargs;
        spell(run->graph, &call, &args, &kwargs);
        if (!name || (n->opcode == FX_CALL_FUNCTION && n->target == name && n->args == args && n->kwargs == kwargs))
            continue;
        const char *was = n->target;
        fx_node_become_call(n, &call);
        fx_pass_note(run, n, "%s is %s with all %d arguments", was, name, call.n);
    }
    return FX_OK;
}
