/* ir/lex_sym.c: symbolic integers in both text forms: 2*s27 + 1, Max(a, b//2).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/lex.h"

typedef struct sym_parser {
    fx_lexer *lx;
    fx_arena *tmp;
} sym_parser;

typedef struct syms {
    const fx_sym **p;
    size_t n, cap;
} syms;

static void push(sym_parser *p, syms *l, const fx_sym *s)
{
    FX_PUSH(p->tmp, l->p, l->n, l->cap) = s;
}

static fx_status parse_sym(sym_parser *p, const fx_sym **out);

static const struct {
    const char *name;
    fx_sym_kind kind;
    int min, max;
} functions[] = {
    {"Add", FX_SYM_ADD, 1, 1000}, {"Mul", FX_SYM_MUL, 1, 1000}, {"Max", FX_SYM_MAX, 1, 1000}, {"Min", FX_SYM_MIN, 1, 1000},
    {"FloorDiv", FX_SYM_FLOORDIV, 2, 2}, {"Mod", FX_SYM_MOD, 2, 2}, {"Pow", FX_SYM_POW, 2, 2}, {"CeilDiv", FX_SYM_CEILDIV, 2, 2},
};

static const fx_sym *combine(sym_parser *p, fx_sym_kind kind, const fx_sym *a, const fx_sym *b)
{
    const fx_sym *args[2] = {a, b};
    return fx_sym_make(p->lx->ctx, kind, 2, args);
}

/* Behind NAME "(": a function of expressions, or Symbol("..") and Opaque(".."). */
static fx_status parse_sym_function(sym_parser *p, const char *name, const fx_sym **out)
{
    fx_lexer *lx = p->lx;
    const char *text;
    if (strcmp(name, "Symbol") == 0 || strcmp(name, "Opaque") == 0) {
        FX_TRY(fx_lex_string(lx, "its text", &text));
        *out = *name == 'S' ? fx_sym_symbol(p->lx->ctx, text) : fx_sym_opaque(p->lx->ctx, text);
        return fx_lex_expect(lx, ")");
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(name, functions[i].name) != 0)
            continue;
        syms args = {0};
        do {
            const fx_sym *s;
            FX_TRY(parse_sym(p, &s));
            push(p, &args, s);
        } while ((int)args.n < functions[i].max && fx_lex_accept(lx, ","));
        if ((int)args.n < functions[i].min)
            return fx_lex_error(lx, "%s takes %d operands, got %zu", name, functions[i].min, args.n);
        *out = fx_sym_make(p->lx->ctx, functions[i].kind, (int)args.n, args.p);
        return fx_lex_expect(lx, ")");
    }
    return fx_lex_error(lx, "there is no function %s of integers", name);
}

static fx_status parse_sym_atom(sym_parser *p, const fx_sym **out)
{
    fx_lexer *lx = p->lx;
    if (lx->kind == FX_T_NUMBER) {
        uint64_t v;
        FX_TRY(fx_lex_uint(lx, &v));
        if (v > INT64_MAX)
            return fx_lex_error(lx, "an integer does not fit 64 bits with sign");
        *out = fx_sym_int(p->lx->ctx, (int64_t)v);
        return FX_OK;
    }
    FX_TRY(fx_lex_enter(lx));
    if (fx_lex_accept(lx, "(")) {
        FX_TRY(parse_sym(p, out));
        FX_TRY(fx_lex_expect(lx, ")"));
    } else if (lx->kind == FX_T_NAME) {
        const char *name;
        FX_TRY(fx_lex_name(lx, "a symbol", &name));
        if (fx_lex_accept(lx, "("))
            FX_TRY(parse_sym_function(p, name, out));
        else
            *out = fx_sym_symbol(p->lx->ctx, name);
    } else {
        return fx_lex_fail(lx, "an integer, a symbol or '('");
    }
    lx->depth--;
    return lx->status;
}

/* a ** b, right to left */
static fx_status parse_sym_power(sym_parser *p, const fx_sym **out)
{
    FX_TRY(parse_sym_atom(p, out));
    if (!fx_lex_accept(p->lx, "**"))
        return FX_OK;
    const fx_sym *by;
    FX_TRY(fx_lex_enter(p->lx));
    FX_TRY(parse_sym_power(p, &by));
    p->lx->depth--;
    *out = combine(p, FX_SYM_POW, *out, by);
    return FX_OK;
}

/* A factor with its sign, which belongs to it alone, as in Python: -a*b is (-a)*b, but -2**a is -(2**a). */
static fx_status parse_sym_factor(sym_parser *p, const fx_sym **out)
{
    fx_lexer *lx = p->lx;
    if (!fx_lex_accept(lx, "-"))
        return parse_sym_power(p, out);
    fx_lexer ahead = *lx;
    fx_lex_next(&ahead);
    if (lx->kind == FX_T_NUMBER && !fx_lex_is(&ahead, "**")) {
        uint64_t v;
        FX_TRY(fx_lex_uint(lx, &v));
        if (v > (uint64_t)INT64_MAX + 1)
            return fx_lex_error(lx, "an integer does not fit 64 bits with sign");
        *out = fx_sym_int(p->lx->ctx, (int64_t)-v);
        return lx->status;
    }
    FX_TRY(parse_sym_power(p, out));
    *out = combine(p, FX_SYM_MUL, fx_sym_int(p->lx->ctx, -1), *out);
    return lx->status;
}

static fx_status parse_sym_product(sym_parser *p, const fx_sym **out)
{
    fx_lexer *lx = p->lx;
    FX_TRY(parse_sym_factor(p, out));
    for (;;) {
        fx_sym_kind kind = fx_lex_is(lx, "*") ? FX_SYM_MUL : fx_lex_is(lx, "//") ? FX_SYM_FLOORDIV : FX_SYM_MOD;
        if (kind == FX_SYM_MOD && !fx_lex_is(lx, "%"))
            break;
        const fx_sym *b;
        fx_lex_next(lx);
        FX_TRY(parse_sym_factor(p, &b));
        *out = combine(p, kind, *out, b);
    }
    return lx->status;
}

static fx_status parse_sym(sym_parser *p, const fx_sym **out)
{
    fx_lexer *lx = p->lx;
    syms terms = {0};
    const fx_sym *s;
    FX_TRY(parse_sym_product(p, &s));
    if (!fx_lex_is(lx, "-") && !fx_lex_is(lx, "+")) { /* most sizes are a number or a name */
        *out = s;
        return lx->status;
    }
    push(p, &terms, s);
    for (;;) {
        bool minus = fx_lex_is(lx, "-");
        if (!minus && !fx_lex_is(lx, "+"))
            break;
        fx_lex_next(lx);
        FX_TRY(parse_sym_product(p, &s));
        push(p, &terms, minus ? combine(p, FX_SYM_MUL, fx_sym_int(p->lx->ctx, -1), s) : s);
    }
    *out = fx_sym_make(p->lx->ctx, FX_SYM_ADD, (int)terms.n, terms.p);
    return lx->status;
}

fx_status fx_lex_sym(fx_lexer *lx, fx_arena *tmp, const fx_sym **out)
{
    return parse_sym(&(sym_parser){lx, tmp}, out);
}

const fx_sym *fx_sym_read(fx_context *ctx, const char *text)
{
    if (fx_is_identifier(text))
        return fx_sym_symbol(ctx, fx_intern(ctx, text));
    size_t before = fx_diag_count(ctx);
    const fx_sym *s;
    fx_lexer lx;
    fx_lex_init(&lx, ctx, NULL, text, strlen(text), false, false);
    if (fx_lex_sym(&lx, fx_context_arena(ctx), &s) == FX_OK && lx.kind == FX_T_END && lx.status == FX_OK)
        return s;
    fx_diag_truncate(ctx, before);
    return fx_sym_opaque(ctx, fx_intern(ctx, text));
}
