/* ir/op.c: the table of operators expanded from op.def, finding a row by name, parsing its schema.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "ir/context.h"
#include "ir/ops.h"

const fx_op fx_ops[FX_OP_COUNT] = {
#define OP(id, name, schema, doc, cls, flags, infer, eval) [FX_OP_##id] = {FX_OP_##id, name, schema, cls, flags, infer, eval, doc},
#include "ir/op.def"
#undef OP
};

static const struct {
    const char *name;
    fx_opid id;
    bool inplace;
} aliases[] = {
#define ALIAS(name, id) {name, FX_OP_##id, false},
#define ALIAS_INPLACE(name, id) {name, FX_OP_##id, true},
#include "ir/op_alias.def"
#undef ALIAS
#undef ALIAS_INPLACE
};

/* ---- names ------------------------------------------------------------------------------------------------------ */

static const fx_op *row_named(const char *name)
{
    for (int i = 1; i < FX_OP_COUNT; i++)
        if (strcmp(fx_ops[i].name, name) == 0)
            return &fx_ops[i];
    return NULL;
}

static bool starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* "aten.relu_.default" -> "aten.relu.default" in out; false when name is not that of an in-place variant. Dunder names and a
 * lone "_" are not. */
static bool functional_name(const char *name, char *out, size_t size)
{
    const char *op = strchr(name, '.');
    if (!op || strlen(name) >= size)
        return false;
    op++;
    size_t n = strcspn(op, ".");
    if (n < 2 || op[n - 1] != '_' || op[n - 2] == '_')
        return false;
    size_t head = (size_t)(op - name) + n - 1;
    memcpy(out, name, head);
    strcpy(out + head, op + n);
    return true;
}

/* Longer names are no row's. */
enum { NAME_MAX_LENGTH = 120 };

/* "Tensor.mean", a method: what torch.mean is, else the first row of that packet; "Tensor.mean_" its in-place variant. */
static const fx_op *find_method(const char *method, bool *inplace)
{
    char name[NAME_MAX_LENGTH + 16];
    size_t n = strlen(method);
    snprintf(name, sizeof name, "torch.%s", method);
    const fx_op *op = strchr(method, '.') ? NULL : fx_op_find(name, inplace);
    if (!op && n > 1 && method[n - 1] == '_' && method[n - 2] != '_') {
        name[strlen("torch.") + n - 1] = '\0';
        op = find_method(name + strlen("torch."), inplace);
        *inplace = op != NULL;
        return op;
    }
    snprintf(name, sizeof name, "aten.%s.", method);
    for (int i = 1; i < FX_OP_COUNT && !op; i++)
        op = starts(fx_ops[i].name, name) ? &fx_ops[i] : NULL;
    return op;
}

const fx_op *fx_op_find(const char *target, bool *inplace)
{
    bool ignored;
    char full[NAME_MAX_LENGTH + 16], functional[NAME_MAX_LENGTH + 16];
    if (!inplace)
        inplace = &ignored;
    *inplace = false;
    if (strlen(target) > NAME_MAX_LENGTH)
        return NULL;
    if (starts(target, "torch.Tensor."))
        target += strlen("torch.");
    if (starts(target, "operator.")) { /* CPython's own name of the module is "_operator" */
        snprintf(full, sizeof full, "_%s", target);
        return fx_op_find(full, inplace);
    }
    if (starts(target, "Tensor."))
        return find_method(target + strlen("Tensor."), inplace);
    if (starts(target, "operator.")) { /* Python's module; its functions say "_operator" */
        snprintf(full, sizeof full, "_%s", target);
        return fx_op_find(full, inplace);
    }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].name, target) == 0) {
            *inplace = aliases[i].inplace;
            return &fx_ops[aliases[i].id];
        }
    if (starts(target, "torch.ops."))
        target += strlen("torch.ops.");
    /* To "aten.name.overload": "aten::name", "aten::name.overload", "torch.name", "aten.name". */
    if (starts(target, "aten::"))
        snprintf(full, sizeof full, "aten.%s", target + strlen("aten::"));
    else if (starts(target, "torch.") && !strchr(target + strlen("torch."), '.'))
        snprintf(full, sizeof full, "aten.%s", target + strlen("torch."));
    else
        snprintf(full, sizeof full, "%s", target);
    if (starts(full, "aten.") && !strchr(full + strlen("aten."), '.'))
        strcat(full, ".default");
    const fx_op *op = row_named(full);
    op = op ? op : row_named(target); /* torch.sym_max */
    if (!op && functional_name(full, functional, sizeof functional)) {
        op = row_named(functional);
        *inplace = op != NULL;
    }
    /* A function all of whose rows are overloads: torch.masked_fill. Which one the arguments tell (fx_call_view). */
    if (!op && starts(target, "torch.") && !strchr(target + strlen("torch."), '.')) {
        snprintf(full, sizeof full, "aten.%s.", target + strlen("torch."));
        for (int i = 1; i < FX_OP_COUNT && !op; i++)
            op = starts(fx_ops[i].name, full) ? &fx_ops[i] : NULL;
    }
    return op;
}

fx_target_facts *fx_target_lookup(fx_context *ctx, const char *interned)
{
    fx_target_facts *t = fx_map_get(&ctx->targets, interned);
    if (!t) {
        t = FX_NEW(ctx->arena, fx_target_facts);
        t->op = fx_op_find(interned, &t->inplace);
        fx_map_put(ctx->arena, &ctx->targets, interned, t);
    }
    return t;
}

const char *fx_target_intern(fx_context *ctx, const char *target, fx_target_facts **info)
{
    size_t i = (uintptr_t)target / 8 % FX_CACHED;
    const char *interned = ctx->recent[i].interned;
    if (ctx->recent[i].text != target || strcmp(interned, target) != 0) {
        interned = fx_intern(ctx, target);
        ctx->recent[i].text = target;
        ctx->recent[i].interned = interned;
        ctx->recent[i].info = NULL;
    }
    if (info && !ctx->recent[i].info)
        ctx->recent[i].info = fx_target_lookup(ctx, interned);
    if (info)
        *info = ctx->recent[i].info;
    return interned;
}

fx_target_facts *fx_method_lookup(fx_context *ctx, const char *interned)
{
    fx_target_facts *t = fx_map_get(&ctx->methods, interned);
    if (!t) {
        t = fx_target_lookup(ctx, fx_intern_f(ctx, "Tensor.%s", interned));
        fx_map_put(ctx->arena, &ctx->methods, interned, t);
    }
    return t;
}

const fx_op *fx_op_lookup(fx_context *ctx, const char *target, bool *inplace)
{
    const fx_target_facts *t = fx_target_lookup(ctx, fx_intern(ctx, target));
    if (inplace)
        *inplace = t->inplace;
    return t->op;
}

/* ---- schemas ------------------------------------------------------------------------------------------------------ */

typedef struct parser {
    fx_context *ctx;
    const char *p;
} parser;

static bool accept(parser *s, const char *token)
{
    while (*s->p == ' ')
        s->p++;
    if (!starts(s->p, token))
        return false;
    s->p += strlen(token);
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const char *word(parser *s)
{
    while (*s->p == ' ')
        s->p++;
    size_t n = 0;
    while (is_word(s->p[n]))
        n++;
    const char *w = fx_intern_n(s->ctx, s->p, n);
    s->p += n;
    return w;
}

/* (a), (a!), (a -> *): who aliases whom; views are known by class, in-place ops by name. */
static void alias_mark(parser *s)
{
    if (*s->p == '(')
        s->p += strcspn(s->p, ")") + 1;
}

static bool base_kind(const char *w, fx_param_kind *kind, fx_param_kind *list)
{
    static const struct {
        const char *name;
        fx_param_kind kind, list;
    } kinds[] = {
        {"Tensor", FX_PARAM_TENSOR, FX_PARAM_TENSORS}, {"Scalar", FX_PARAM_SCALAR, FX_PARAM_ANY},
        {"int", FX_PARAM_INT, FX_PARAM_INTS},          {"SymInt", FX_PARAM_INT, FX_PARAM_INTS},
        {"float", FX_PARAM_FLOAT, FX_PARAM_FLOATS},    {"bool", FX_PARAM_BOOL, FX_PARAM_BOOLS},
        {"str", FX_PARAM_STR, FX_PARAM_ANY},           {"ScalarType", FX_PARAM_DTYPE, FX_PARAM_ANY},
        {"Layout", FX_PARAM_LAYOUT, FX_PARAM_ANY},     {"Device", FX_PARAM_DEVICE, FX_PARAM_ANY},
        {"MemoryFormat", FX_PARAM_MEMORY_FORMAT, FX_PARAM_ANY}, {"Any", FX_PARAM_ANY, FX_PARAM_ANY},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(w, kinds[i].name) == 0) {
            *kind = kinds[i].kind;
            *list = kinds[i].list;
            return true;
        }
    return false;
}

/* Tensor(a)? int[2]? Tensor?[] */
static bool type(parser *s, fx_param *out)
{
    fx_param_kind list;
    const char *w = word(s);
    if (!base_kind(w, &out->kind, &list))
        return false;
    fx_text spelled;
    fx_text_init(&spelled, s->ctx->arena);
    out->symbolic = strcmp(w, "SymInt") == 0;
    fx_puts(&spelled, out->symbolic ? "int" : w);
    alias_mark(s);
    out->optional = accept(s, "?");
    fx_puts(&spelled, out->optional ? "?" : "");
    if (accept(s, "[")) {
        out->kind = list;
        out->list_size = atoi(s->p);
        s->p += strspn(s->p, "0123456789");
        if (!accept(s, "]"))
            return false;
        out->optional_items = out->optional;
        alias_mark(s);
        out->optional = accept(s, "?");
        if (out->list_size)
            fx_printf(&spelled, "[%d]%s", out->list_size, out->optional ? "?" : "");
        else
            fx_printf(&spelled, "[]%s", out->optional ? "?" : "");
    }
    out->type = fx_intern(s->ctx, spelled.data);
    return true;
}

static const fx_arg *memory_format(fx_context *ctx, const char *w)
{
    static const char *const names[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
    if (w[0] >= '0' && w[0] <= '3' && !w[1]) /* c10::MemoryFormat's numbers */
        w = names[w[0] - '0'];
    return fx_arg_text(ctx, FX_ARG_MEMORY_FORMAT, fx_intern_f(ctx, "torch.%s", w));
}

static const fx_arg *literal(parser *s, const fx_param *p)
{
    fx_context *ctx = s->ctx;
    while (*s->p == ' ')
        s->p++;
    if (*s->p == '"')
        return fx_arg_text(ctx, FX_ARG_STR, fx_parse_quoted(ctx, s->p, s->p + strlen(s->p), &s->p));
    if (accept(s, "[")) {
        const fx_arg *items[8];
        int n = 0;
        while (!accept(s, "]")) {
            if (n == 8 || !(items[n] = literal(s, p)))
                return NULL;
            n++;
            accept(s, ",");
        }
        return fx_arg_seq(ctx, FX_ARG_LIST, n, items);
    }
    const char *after;
    double v = fx_parse_double(s->p, &after);
    if (after != s->p) {
        bool integral = true;
        for (const char *c = s->p; c < after; c++)
            integral = integral && *c != '.' && *c != 'e' && *c != 'n';
        if (p->kind == FX_PARAM_MEMORY_FORMAT)
            return memory_format(ctx, word(s));
        s->p = after;
        if (p->kind == FX_PARAM_FLOAT || p->kind == FX_PARAM_FLOATS || !integral)
            return fx_arg_float(ctx, v);
        return fx_arg_int(ctx, (int64_t)v);
    }
    const char *w = word(s);
    if (strcmp(w, "None") == 0)
        return fx_arg_none(ctx);
    if (strcmp(w, "True") == 0 || strcmp(w, "False") == 0)
        return fx_arg_bool(ctx, *w == 'T');
    return p->kind == FX_PARAM_MEMORY_FORMAT && *w ? memory_format(ctx, w) : NULL;
}

/* A lone number as the default of int[2]. */
static const fx_arg *broadcast(fx_context *ctx, const fx_param *p, const fx_arg *v)
{
    const fx_arg *items[8];
    if (!v || !p->list_size || p->list_size > 8 || v->kind == FX_ARG_LIST || v->kind == FX_ARG_NONE)
        return v;
    for (int i = 0; i < p->list_size; i++)
        items[i] = v;
    return fx_arg_seq(ctx, FX_ARG_LIST, p->list_size, items);
}

static bool parse_schema(parser *s, fx_schema *out)
{
    fx_param params[32];
    bool keyword_only = false;
    if (!accept(s, "("))
        return false;
    while (!accept(s, ")")) {
        if (out->n > 0 && !accept(s, ",") && !keyword_only)
            return false;
        if (accept(s, "*")) {
            keyword_only = true;
            accept(s, ",");
        }
        if (out->n == 32)
            return false;
        fx_param *p = &params[out->n];
        *p = (fx_param){.keyword_only = keyword_only};
        if (!type(s, p))
            return false;
        p->name = word(s);
        if (!*p->name)
            return false;
        if (accept(s, "=") && !(p->def = broadcast(s->ctx, p, literal(s, p))))
            return false;
        out->n++;
    }
    if (out->n) {
        out->params = fx_arena_dup(s->ctx->arena, params, (size_t)out->n * sizeof *params);
        const char **names = FX_NEW_ARRAY(s->ctx->arena, const char *, out->n);
        for (int i = 0; i < out->n; i++)
            names[i] = params[i].name;
        out->names = names;
    }
    if (!accept(s, "->"))
        return *s->p == '\0'; /* a constructor's */
    fx_param result = {0};
    if (!accept(s, "(")) {
        if (!type(s, &result))
            return false;
        out->n_returns = result.kind == FX_PARAM_TENSORS ? -1 : 1;
    } else if (!accept(s, ")")) { /* "()": nothing is returned */
        do {
            if (!type(s, &result))
                return false;
            word(s); /* a name, perhaps */
            out->n_returns++;
        } while (accept(s, ","));
        if (!accept(s, ")"))
            return false;
    }
    return *s->p == '\0';
}

const fx_schema *fx_schema_parse(fx_context *ctx, const char *text, const char *name)
{
    fx_schema *schema = FX_NEW(ctx->arena, fx_schema);
    parser s = {ctx, text};
    if (!parse_schema(&s, schema)) {
        /* A row of ours that does not parse: no parameters, so that every call of it is refused. */
        fx_fail(ctx, FX_INTERNAL, NULL, "cannot read the schema of %s at '%s'", name, s.p);
        *schema = (fx_schema){0};
    }
    return schema;
}

const fx_schema *fx_op_schema(fx_context *ctx, const fx_op *op)
{
    if (!ctx->schemas[op->id])
        ctx->schemas[op->id] = fx_schema_parse(ctx, op->schema, op->name);
    return ctx->schemas[op->id];
}
