/* frontend/sympy.c: symbolic integers as torch writes them: sympy's srepr, "Add(Integer(1), Symbol('s0', integer=True))".
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/pt2.h"

enum { MAX_DEPTH = 64, MAX_ARGS = 256 };

typedef struct reader {
    const fx_json *r;
    fx_arena *arena;
    fx_sympy_symbol **symbols;
    const char *text, *at;
    int depth;
} reader;

static fx_status expected(const reader *p, const char *what)
{
    return fx_fail(p->r->ctx, FX_ERR_FORMAT, &p->r->loc, "symbolic integer \"%.200s\": expected %s at \"%.40s\"", p->text, what, p->at);
}

static void blank(reader *p)
{
    while (*p->at == ' ' || *p->at == '\n' || *p->at == '\t')
        p->at++;
}

static bool eat(reader *p, char c)
{
    blank(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static fx_status word(reader *p, const char **out)
{
    blank(p);
    const char *start = p->at;
    while (word_char(*p->at))
        p->at++;
    if (p->at == start)
        return expected(p, "a name");
    *out = fx_intern_n(p->r->ctx, start, (size_t)(p->at - start));
    return FX_OK;
}

static fx_status integer(reader *p, int64_t *out)
{
    blank(p);
    char *end;
    errno = 0;
    long long v = strtoll(p->at, &end, 10);
    if (end == p->at || isspace((unsigned char)*p->at))
        return expected(p, "an integer");
    if (errno)
        return expected(p, "an integer of at most 64 bits");
    p->at = end;
    *out = v;
    return FX_OK;
}

static fx_status quoted(reader *p, const char **out)
{
    blank(p);
    char quote = *p->at;
    if (quote != '\'' && quote != '"')
        return expected(p, "a quoted name");
    const char *start = ++p->at;
    while (*p->at && *p->at != quote && *p->at != '\\')
        p->at++;
    if (*p->at != quote)
        return expected(p, "a closing quote");
    *out = fx_intern_n(p->r->ctx, start, (size_t)(p->at - start));
    p->at++;
    return FX_OK;
}

/* After "Symbol(": the name and assumptions. Symbols of shapes are integers; positive ones are at least 1. */
static fx_status symbol(reader *p, const fx_sym **out)
{
    const char *name = NULL, *key = NULL, *value = NULL;
    FX_TRY(quoted(p, &name));
    if (!*name)
        return expected(p, "a symbol with a name");
    int64_t min = INT64_MIN;
    while (eat(p, ',')) {
        FX_TRY(word(p, &key));
        if (!eat(p, '='))
            return expected(p, "'='");
        FX_TRY(word(p, &value));
        if (!strcmp(value, "True")) {
            if (!strcmp(key, "positive"))
                min = 1;
            else if (!strcmp(key, "nonnegative") && min < 0)
                min = 0;
        }
    }
    if (!eat(p, ')'))
        return expected(p, "')'");
    fx_sympy_symbol *s = FX_NEW(p->arena, fx_sympy_symbol);
    *s = (fx_sympy_symbol){.name = name, .min = min, .next = *p->symbols};
    *p->symbols = s;
    *out = fx_sym_symbol(p->r->ctx, name);
    return FX_OK;
}

/* torch.utils._sympy.functions and sympy's own, where they are exact over the integers. */
static const struct function {
    const char *name;
    fx_sym_kind kind;
    int n; /* operands, -1: any */
} functions[] = {
    {"Add", FX_SYM_ADD, -1},      {"Mul", FX_SYM_MUL, -1},          {"FloorDiv", FX_SYM_FLOORDIV, 2}, {"CleanDiv", FX_SYM_FLOORDIV, 2},
    {"CeilDiv", FX_SYM_CEILDIV, 2}, {"Mod", FX_SYM_MOD, 2},         {"PythonMod", FX_SYM_MOD, 2},     {"Max", FX_SYM_MAX, -1},
    {"Min", FX_SYM_MIN, -1},      {"Pow", FX_SYM_POW, 2},           {"PowByNatural", FX_SYM_POW, 2},
};

static fx_status expression(reader *p, const fx_sym **out);

/* After "Name(": operands up to ')'. */
static fx_status call(reader *p, const char *name, const char *start, const fx_sym **out)
{
    const fx_sym *args[MAX_ARGS];
    int n = 0;
    bool opaque = false;
    if (!eat(p, ')')) {
        do {
            if (n == MAX_ARGS)
                return expected(p, "fewer operands");
            FX_TRY(expression(p, &args[n]));
            opaque |= args[n++]->kind == FX_SYM_OPAQUE;
        } while (eat(p, ','));
        if (!eat(p, ')'))
            return expected(p, "',' or ')'");
    }
    fx_context *ctx = p->r->ctx;
    for (size_t i = 0; !opaque && i < sizeof functions / sizeof *functions; i++) {
        const struct function *f = &functions[i];
        if (strcmp(f->name, name) != 0)
            continue;
        if (f->n < 0 ? n == 0 : n != f->n)
            return expected(p, "another number of operands");
        *out = fx_sym_make(ctx, f->kind, n, args);
        return FX_OK;
    }
    if (!opaque && !strcmp(name, "ModularIndexing") && n == 3) { /* (x // d) % m */
        const fx_sym *mod[2] = {fx_sym_make(ctx, FX_SYM_FLOORDIV, 2, args), args[2]};
        *out = fx_sym_make(ctx, FX_SYM_MOD, 2, mod);
        return FX_OK;
    }
    *out = fx_sym_opaque(ctx, fx_intern_n(ctx, start, (size_t)(p->at - start)));
    return FX_OK;
}

static fx_status expression(reader *p, const fx_sym **out)
{
    if (p->depth == MAX_DEPTH)
        return expected(p, "less nesting");
    blank(p);
    const char *start = p->at;
    if (*start == '-' || isdigit((unsigned char)*start)) {
        int64_t v = 0;
        FX_TRY(integer(p, &v));
        *out = fx_sym_int(p->r->ctx, v);
        return FX_OK;
    }
    const char *name = NULL;
    FX_TRY(word(p, &name));
    if (!eat(p, '(')) { /* "oo", "true": a name alone */
        *out = fx_sym_opaque(p->r->ctx, name);
        return FX_OK;
    }
    if (!strcmp(name, "Integer")) {
        int64_t v = 0;
        FX_TRY(integer(p, &v));
        if (!eat(p, ')'))
            return expected(p, "')'");
        *out = fx_sym_int(p->r->ctx, v);
        return FX_OK;
    }
    if (!strcmp(name, "Symbol"))
        return symbol(p, out);
    if (!strcmp(name, "Float")) { /* Float('0.5', precision=53): kept as text */
        const char *close = strchr(p->at, ')');
        if (!close)
            return expected(p, "')'");
        p->at = close + 1;
        *out = fx_sym_opaque(p->r->ctx, fx_intern_n(p->r->ctx, start, (size_t)(p->at - start)));
        return FX_OK;
    }
    p->depth++;
    fx_status status = call(p, name, start, out);
    p->depth--;
    return status;
}

fx_status fx_sympy_parse(const fx_json *r, const char *text, fx_arena *arena, fx_sympy_symbol **symbols, const fx_sym **out)
{
    reader p = {.r = r, .arena = arena, .symbols = symbols, .text = text, .at = text};
    const fx_sym *s = NULL;
    FX_TRY(expression(&p, &s));
    blank(&p);
    if (*p.at)
        return expected(&p, "the end");
    *out = s;
    return FX_OK;
}
