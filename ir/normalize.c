/* ir/normalize.c: calls of known ops brought to one form: every parameter of the schema by position.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

static bool is_sequence(const fx_arg *a)
{
    return a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE;
}

/* What one value of the kind may be; NULL when it is none, else the value in its normal form. Whether an int may be symbolic is fx_param_fit's. */
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
    bool other = strcmp(second, "other") == 0;
    return (p == &s->params[0] && other) || (p == &s->params[1] && (other || strcmp(second, "exponent") == 0));
}

static bool has_symbol(const fx_arg *a)
{
    bool has = a->kind == FX_ARG_SYM;
    for (int i = 0; is_sequence(a) && i < a->n; i++)
        has |= a->items[i]->kind == FX_ARG_SYM;
    return has;
}

const fx_arg *fx_param_fit(fx_context *ctx, const fx_param *p, const fx_arg *a, const char **got)
{
    fx_param_kind item;
    *got = fx_arg_kind_name(a->kind);
    if (a->kind == FX_ARG_NONE && (p->optional || p->kind == FX_PARAM_ANY))
        return a;
    if ((p->kind == FX_PARAM_INT || p->kind == FX_PARAM_INTS) && !p->symbolic && has_symbol(a)) {
        *got = fx_arg_kind_name(FX_ARG_SYM);
        return NULL;
    }
    return item_kind(p->kind, &item) ? list(ctx, p, item, a, got) : one(ctx, p->kind, a);
}

const fx_arg *fx_param_convert(fx_context *ctx, const fx_op *op, int param, const fx_arg *a, const char **got)
{
    const fx_schema *s = fx_op_schema(ctx, op);
    const fx_param *p = &s->params[param];
    const fx_arg *v = fx_param_fit(ctx, p, a, got);
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

enum { MAX_PARAMS = sizeof((fx_call_args *)0)->args / sizeof(fx_arg *) };

/* What does not fit goes to fail(), which is quiet while overloads are tried. */
typedef struct attempt {
    const fx_node *n;
    bool quiet, typed; /* typed: nodes must be of the parameters' kinds */
} attempt;

static fx_status fail(const attempt *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static fx_status fail(const attempt *t, const char *fmt, ...)
{
    fx_context *ctx = t->n->graph->ctx;
    va_list ap;
    if (t->quiet)
        return FX_ERR_TYPE;
    va_start(ap, fmt);
    const char *text = fx_arena_vprintf(ctx->arena, fmt, ap);
    va_end(ap);
    return fx_fail(ctx, FX_ERR_TYPE, &t->n->loc, "%s", text);
}

/* What a node in the place of a parameter must be, where its type is known: tensors are no numbers. Only overloads are told apart so. */
static bool has_kind(const fx_node *n, const fx_param *p, const fx_arg *v)
{
    const fx_type *t = v->kind == FX_ARG_NODE && v->i < n->n_operands ? n->operands[v->i].def->type : NULL;
    if (!t || t->kind == FX_TYPE_OTHER)
        return true;
    if (p->kind == FX_PARAM_TENSOR)
        return t->kind == FX_TYPE_TENSOR;
    bool number = p->kind == FX_PARAM_SCALAR || p->kind == FX_PARAM_INT || p->kind == FX_PARAM_FLOAT || p->kind == FX_PARAM_BOOL;
    return !number || t->kind != FX_TYPE_TENSOR;
}

/* Python's methods take a list's numbers one by one too: x.view(2, 3), x.permute(0, 2, 1). */
static bool takes_varargs(const fx_node *n, const fx_schema *s)
{
    return n->opcode == FX_CALL_METHOD && s->n > 1 && s->params[1].kind == FX_PARAM_INTS && (s->n == 2 || s->params[2].keyword_only) &&
           n->args->n > 1 && !is_sequence(n->args->items[1]) && n->args->items[1]->kind != FX_ARG_DTYPE;
}

static fx_status fit(const attempt *t, fx_call_args *out)
{
    const fx_node *n = t->n;
    fx_context *ctx = n->graph->ctx;
    const fx_schema *s = out->schema = fx_op_schema(ctx, out->op);
    const fx_arg **value = out->args;
    const char *target = strncmp(n->target, "torch.ops.", 10) == 0 ? n->target + 10 : n->target;
    int n_args = n->args->n;
    memset(out->args, 0, (size_t)s->n * sizeof *out->args);
    out->n = s->n;
    if (takes_varargs(n, s)) {
        n_args = 2;
        value[0] = n->args->items[0];
        value[1] = fx_arg_seq(ctx, FX_ARG_LIST, n->args->n - 1, n->args->items + 1);
    } else if (n_args > s->n) {
        return fail(t, "%s takes at most %d arguments, got %d", target, s->n, n_args);
    } else {
        for (int i = 0; i < n_args; i++)
            value[i] = n->args->items[i];
    }
    for (int i = 0; i < n->kwargs->n; i++) {
        const char *key = n->kwargs->keys[i];
        int at = position(s, key);
        if (at < 0)
            return fail(t, "%s has no argument '%s'", target, key);
        if (value[at])
            return fail(t, "argument '%s' of %s is given twice", key, target);
        value[at] = n->kwargs->items[i];
    }
    for (int i = 0; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        const char *got = "nothing";
        value[i] = value[i] ? fx_param_convert(ctx, out->op, i, value[i], &got) : p->def;
        if (value[i] && i == 0 && value[i]->kind != FX_ARG_NODE && out->inplace)
            value[i] = NULL; /* a number cannot be written to */
        if (value[i] && t->typed && !has_kind(n, p, value[i])) {
            value[i] = NULL;
            got = p->kind == FX_PARAM_TENSOR ? "a node that is no tensor" : "a tensor";
        }
        if (!value[i])
            return fail(t, "argument '%s' of %s: expected %s, got %s", p->name, target, p->type, got);
    }
    return FX_OK;
}

fx_status fx_node_normalize(fx_node *n)
{
    if (!n->op)
        return FX_OK;
    fx_context *ctx = n->graph->ctx;
    attempt t = {n, false, false};
    fx_call_args v = {.op = n->op, .inplace = fx_node_is_inplace(n)};
    FX_TRY(fit(&t, &v));
    const fx_arg *args = fx_arg_seq(ctx, FX_ARG_TUPLE, v.n, v.args);
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

/* ---- looking without changing -------------------------------------------------------------------------------------- */

const fx_op *fx_node_row(const fx_node *n, bool *inplace)
{
    fx_context *ctx = n->graph->ctx;
    const fx_target_facts *info = NULL;
    if (n->opcode == FX_CALL_FUNCTION)
        info = fx_target_lookup(ctx, n->target);
    else if (n->opcode == FX_CALL_METHOD)
        info = fx_method_lookup(ctx, n->target);
    if (inplace)
        *inplace = info && info->inplace;
    return info ? info->op : NULL;
}

/* The next row of the same packet ("aten.mean."), around the table to op itself; remembered. */
static const fx_op *next_overload(fx_context *ctx, const fx_op *op)
{
    if (ctx->overloads[op->id])
        return ctx->overloads[op->id];
    const char *dot = strrchr(op->name, '.');
    size_t length = dot ? (size_t)(dot - op->name) + 1 : strlen(op->name);
    int i = op->id;
    do
        i = i + 1 == FX_OP_COUNT ? 1 : i + 1;
    while (strncmp(fx_ops[i].name, op->name, length) != 0);
    return ctx->overloads[op->id] = &fx_ops[i];
}

/* Foreign spellings only: "aten.add.Tensor" says which overload it is. */
static bool may_be_overloaded(const fx_node *n)
{
    return strncmp(n->target, "aten.", 5) != 0 && strncmp(n->target, "torch.ops.", 10) != 0;
}

bool fx_call_view(const fx_node *n, fx_call_args *out)
{
    attempt t = {n, true, may_be_overloaded(n)};
    const fx_op *op = out->op = fx_node_row(n, &out->inplace);
    if (!op)
        return false;
    if (fit(&t, out) == FX_OK)
        return true;
    for (const fx_op *o = next_overload(n->graph->ctx, op); o != op && may_be_overloaded(n); o = next_overload(n->graph->ctx, o)) {
        out->op = o;
        if (fit(&t, out) == FX_OK)
            return true;
    }
    out->op = op;
    return false;
}

fx_status fx_call_check(const fx_node *n, fx_call_args *out)
{
    if (fx_call_view(n, out))
        return FX_OK;
    if (!out->op)
        return fx_fail(n->graph->ctx, FX_ERR_UNSUPPORTED, &n->loc, "'%s' is no known operator", n->target);
    attempt t = {n, false, may_be_overloaded(n)};
    return fit(&t, out);
}
