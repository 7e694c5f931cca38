/* ir/parse_value.c: types and arguments in .fx texts.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/parse.h"

static fx_status parse_dim(fx_parser *p, fx_dim *d)
{
    const fx_sym *s;
    FX_TRY(fx_lex_sym(&p->lx, p->tmp, &s));
    *d = fx_dim_sym(s);
    return FX_OK;
}

/* ---- types ---------------------------------------------------------------------------------------------------------------- */

fx_status fx_parse_dims(fx_parser *p, const char *close, int *n, fx_dim *dims, bool sizes)
{
    fx_lexer *lx = &p->lx;
    *n = 0;
    while (!fx_lex_accept(lx, close)) {
        if (*n == FX_MAX_RANK)
            return fx_lex_error(lx, "more than %d dimensions", FX_MAX_RANK);
        if (*n > 0)
            FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(parse_dim(p, &dims[*n]));
        if (sizes && !dims[*n].sym && dims[*n].value < 0)
            return fx_lex_error(lx, "expected a size of 0 or more, got %lld", (long long)dims[*n].value);
        ++*n;
    }
    return lx->status;
}

fx_status fx_parse_type(fx_parser *p, const fx_type **out)
{
    static const struct { const char *name; fx_type_kind kind; } scalars[] = {{"None", FX_TYPE_NONE}, {"float", FX_TYPE_FLOAT},
        {"str", FX_TYPE_STR}, {"other", FX_TYPE_OTHER}};
    fx_lexer *lx = &p->lx;
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        if (fx_lex_accept(lx, scalars[i].name)) {
            *out = fx_type_scalar(p->ctx, scalars[i].kind);
            return FX_OK;
        }
    }
    if (fx_lex_accept(lx, "int")) {
        fx_dim d = {0};
        if (fx_lex_accept(lx, "(")) {
            FX_TRY(parse_dim(p, &d));
            FX_TRY(fx_lex_expect(lx, ")"));
        }
        *out = fx_type_int(p->ctx, d);
        return FX_OK;
    }
    if (fx_lex_accept(lx, "(")) {
        fx_list items = {0};
        FX_TRY(fx_lex_enter(lx));
        while (!fx_lex_accept(lx, ")")) {
            const fx_type *item = NULL;
            if (!fx_lex_accept(lx, "?"))
                FX_TRY(fx_parse_type(p, &item));
            fx_list_push(p, &items, item);
            if (!fx_lex_accept(lx, ",") && !fx_lex_is(lx, ")"))
                return fx_lex_fail(lx, "',' or ')'");
        }
        lx->depth--;
        *out = fx_type_tuple(p->ctx, (int)items.n, (const fx_type *const *)items.p);
        return FX_OK;
    }
    /* "bool" is a scalar, "bool[2]" a tensor. */
    bool is_bool = fx_lex_is(lx, "bool");
    fx_dtype dtype;
    fx_dim dims[FX_MAX_RANK], strides[FX_MAX_RANK];
    int rank, n_strides;
    FX_TRY(fx_lex_dtype(lx, &dtype));
    if (is_bool && !fx_lex_is(lx, "[")) {
        *out = fx_type_scalar(p->ctx, FX_TYPE_BOOL);
        return FX_OK;
    }
    FX_TRY(fx_lex_expect(lx, "["));
    FX_TRY(fx_parse_dims(p, "]", &rank, dims, true));
    bool given = fx_lex_accept(lx, "{");
    if (given) {
        FX_TRY(fx_parse_dims(p, "}", &n_strides, strides, false));
        if (n_strides != rank)
            return fx_lex_error(lx, "expected %d strides, got %d", rank, n_strides);
    }
    *out = fx_type_tensor(p->ctx, dtype, rank, dims, given ? strides : NULL);
    return FX_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------------------- */

/* Items up to `close`; keys too where it is a dict. */
static fx_status parse_items(fx_parser *p, const char *close, fx_list *items, fx_list *keys)
{
    fx_lexer *lx = &p->lx;
    fx_map seen = {0};
    while (!fx_lex_accept(lx, close)) {
        const fx_arg *a;
        const char *key;
        if (keys) {
            FX_TRY(fx_lex_string(lx, "a key", &key));
            if (fx_map_get(&seen, key))
                return fx_lex_error(lx, "the key \"%.40s\" is there twice", key);
            fx_map_put(p->tmp, &seen, key, lx);
            FX_TRY(fx_lex_expect(lx, ":"));
            fx_list_push(p, keys, key);
        }
        FX_TRY(fx_parse_arg(p, &a));
        fx_list_push(p, items, a);
        if (!fx_lex_accept(lx, ",") && !fx_lex_is(lx, close))
            return fx_lex_fail(lx, "',' or '%s'", close);
    }
    return lx->status;
}

static fx_status parse_sequence(fx_parser *p, const char *close, fx_arg_kind kind, const fx_arg **out)
{
    fx_list items = {0}, keys = {0};
    FX_TRY(fx_lex_enter(&p->lx));
    FX_TRY(parse_items(p, close, &items, kind == FX_ARG_DICT ? &keys : NULL));
    p->lx.depth--;
    if (kind == FX_ARG_SLICE && items.n != 3)
        return fx_lex_error(&p->lx, "a slice has start, stop and step, got %zu items", items.n);
    if (kind == FX_ARG_DICT)
        *out = fx_arg_dict(p->ctx, (int)items.n, (const char *const *)keys.p, (const fx_arg *const *)items.p);
    else
        *out = fx_arg_seq(p->ctx, kind, (int)items.n, (const fx_arg *const *)items.p);
    return FX_OK;
}

static fx_status parse_operand(fx_parser *p, const fx_arg **out)
{
    fx_lexer *lx = &p->lx;
    const char *name;
    fx_lexer before = *lx;
    FX_TRY(fx_lex_name(lx, "a node's name", &name));
    fx_node *n = p->g ? fx_graph_find_node(p->g, name) : NULL;
    if (!n) {
        *lx = before;
        return fx_lex_error(lx, "there is no node '%.60s' before this one", name);
    }
    if (p->n_operands == INT32_MAX)
        return fx_lex_error(lx, "too many operands");
    FX_PUSH(p->tmp, p->operands, p->n_operands, p->cap_operands) = n;
    *out = fx_arg_operand(p->ctx, (int)p->n_operands - 1);
    return FX_OK;
}

fx_status fx_parse_subgraph_number(fx_parser *p, fx_graph **out)
{
    fx_lexer *lx = &p->lx, before = *lx;
    int64_t i;
    FX_TRY(fx_lex_int(lx, &i));
    if (i < 0 || (uint64_t)i >= p->n_subgraphs) {
        *lx = before;
        return fx_lex_error(lx, "there is no subgraph %lld before this line", (long long)i);
    }
    /* Copies and walks take a frame for each level, and each use of a subgraph may become one of its own. */
    enum { MOST_NODES = 1 << 24 };
    const fx_subgraph *s = &p->subgraphs[i];
    p->sub_depth = s->depth > p->sub_depth ? s->depth : p->sub_depth;
    p->sub_nodes += s->nodes;
    if (p->sub_depth >= FX_LEX_DEPTH || p->sub_nodes > MOST_NODES) {
        *lx = before;
        if (p->sub_depth >= FX_LEX_DEPTH)
            return fx_lex_error(lx, "subgraph %lld is nested %d deep", (long long)i, p->sub_depth);
        return fx_lex_error(lx, "subgraph %lld is named too often", (long long)i);
    }
    *out = s->g;
    return FX_OK;
}

/* An int, or a float when it has a point or exponent. */
static fx_status parse_number(fx_parser *p, const fx_arg **out)
{
    fx_lexer *lx = &p->lx;
    fx_lexer ahead = *lx;
    fx_lex_accept(&ahead, "-");
    FX_TRY(lx->status = ahead.status);
    bool word = fx_lex_is(&ahead, "inf") || fx_lex_is(&ahead, "nan");
    bool hex = ahead.kind == FX_T_NUMBER && ahead.n > 1 && ahead.s[1] == 'x';
    if (word || (ahead.kind == FX_T_NUMBER && !hex && (memchr(ahead.s, '.', ahead.n) || memchr(ahead.s, 'e', ahead.n)))) {
        double v;
        FX_TRY(fx_lex_double(lx, &v));
        *out = fx_arg_float(p->ctx, v);
        return FX_OK;
    }
    int64_t i;
    FX_TRY(fx_lex_int(lx, &i));
    *out = fx_arg_int(p->ctx, i);
    return FX_OK;
}

/* torch.float32, torch.strided, torch.channels_last */
static fx_status parse_torch(fx_parser *p, const fx_arg **out)
{
    fx_lexer *lx = &p->lx;
    const char *name = fx_intern_n(p->ctx, lx->s, lx->n);
    for (int i = 0; i < FX_DTYPE_COUNT; i++) {
        if (strcmp(name + 6, fx_dtype_name((fx_dtype)i)) == 0) {
            fx_lex_next(lx);
            *out = fx_arg_dtype(p->ctx, (fx_dtype)i);
            return lx->status;
        }
    }
    fx_arg_kind kind = fx_torch_name(name);
    if (kind == FX_ARG_NONE)
        return fx_lex_fail(lx, "a dtype, layout or memory format");
    fx_lex_next(lx);
    *out = fx_arg_text(p->ctx, kind, name);
    return lx->status;
}

/* NAME ( ... ): complex, device, layout, memory_format, sym, slice. */
static fx_status parse_constructor(fx_parser *p, const fx_arg **out)
{
    static const struct { const char *name; fx_arg_kind kind; } texts[] = {{"device", FX_ARG_DEVICE}, {"layout", FX_ARG_LAYOUT},
        {"memory_format", FX_ARG_MEMORY_FORMAT}};
    fx_lexer *lx = &p->lx;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *s;
        if (!fx_lex_accept(lx, texts[i].name))
            continue;
        FX_TRY(fx_lex_expect(lx, "("));
        FX_TRY(fx_lex_string(lx, "its name", &s));
        *out = fx_arg_text(p->ctx, texts[i].kind, s);
        return fx_lex_expect(lx, ")");
    }
    if (fx_lex_accept(lx, "complex")) {
        double re, im;
        FX_TRY(fx_lex_expect(lx, "("));
        FX_TRY(fx_lex_double(lx, &re));
        FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(fx_lex_double(lx, &im));
        *out = fx_arg_complex(p->ctx, re, im);
        return fx_lex_expect(lx, ")");
    }
    if (fx_lex_accept(lx, "sym")) {
        const fx_sym *s;
        FX_TRY(fx_lex_expect(lx, "("));
        FX_TRY(fx_lex_sym(&p->lx, p->tmp, &s));
        *out = fx_arg_sym(p->ctx, s);
        return fx_lex_expect(lx, ")");
    }
    if (fx_lex_accept(lx, "slice")) {
        FX_TRY(fx_lex_expect(lx, "("));
        return parse_sequence(p, ")", FX_ARG_SLICE, out);
    }
    if (fx_lex_accept(lx, "graph")) {
        fx_graph *g;
        FX_TRY(fx_lex_expect(lx, "("));
        FX_TRY(fx_parse_subgraph_number(p, &g));
        *out = fx_arg_graph(p->ctx, g);
        return fx_lex_expect(lx, ")");
    }
    return fx_lex_fail(lx, "an argument");
}

fx_status fx_parse_arg(fx_parser *p, const fx_arg **out)
{
    fx_lexer *lx = &p->lx;
    if (fx_lex_accept(lx, "%"))
        return parse_operand(p, out);
    if (fx_lex_accept(lx, "["))
        return parse_sequence(p, "]", FX_ARG_LIST, out);
    if (fx_lex_accept(lx, "{"))
        return parse_sequence(p, "}", FX_ARG_DICT, out);
    if (fx_lex_accept(lx, "(")) {
        return parse_sequence(p, ")", FX_ARG_TUPLE, out);
    }
    if (fx_lex_accept(lx, "...")) {
        *out = fx_arg_ellipsis(p->ctx);
        return lx->status;
    }
    if (lx->kind == FX_T_STRING) {
        const char *s;
        FX_TRY(fx_lex_string(lx, "a string", &s));
        *out = fx_arg_text(p->ctx, FX_ARG_STR, s);
        return FX_OK;
    }
    if (lx->kind == FX_T_NUMBER || fx_lex_is(lx, "-") || fx_lex_is(lx, "inf") || fx_lex_is(lx, "nan"))
        return parse_number(p, out);
    if (fx_lex_accept(lx, "None")) {
        *out = fx_arg_none(p->ctx);
        return lx->status;
    }
    if (fx_lex_is(lx, "True") || fx_lex_is(lx, "False")) {
        *out = fx_arg_bool(p->ctx, fx_lex_is(lx, "True"));
        fx_lex_next(lx);
        return lx->status;
    }
    if (lx->kind == FX_T_NAME && lx->n > 6 && memcmp(lx->s, "torch.", 6) == 0)
        return parse_torch(p, out);
    return parse_constructor(p, out);
}

/* ( args, key=value ) */
fx_status fx_parse_call_args(fx_parser *p, const fx_arg **args, const fx_arg **kwargs)
{
    fx_lexer *lx = &p->lx;
    fx_list items = {0}, keys = {0}, values = {0};
    fx_map seen = {0};
    FX_TRY(fx_lex_expect(lx, "("));
    while (!fx_lex_accept(lx, ")")) {
        const fx_arg *a;
        const char *key = NULL;
        fx_lexer ahead = *lx;
        if (ahead.kind == FX_T_NAME || ahead.kind == FX_T_STRING) {
            fx_lex_next(&ahead);
            FX_TRY(lx->status = ahead.status);
            if (fx_lex_is(&ahead, "=")) {
                FX_TRY(fx_lex_name(lx, "a keyword", &key));
                fx_lex_next(lx);
            }
        }
        if (!key && keys.n > 0)
            return fx_lex_error(lx, "an argument by position follows one by keyword");
        if (key && fx_map_get(&seen, key))
            return fx_lex_error(lx, "the keyword '%.40s' is there twice", key);
        if (key)
            fx_map_put(p->tmp, &seen, key, lx);
        FX_TRY(fx_parse_arg(p, &a));
        if (key)
            fx_list_push(p, &keys, key);
        fx_list_push(p, key ? &values : &items, a);
        if (!fx_lex_accept(lx, ",") && !fx_lex_is(lx, ")"))
            return fx_lex_fail(lx, "',' or ')'");
    }
    *args = fx_arg_seq(p->ctx, FX_ARG_TUPLE, (int)items.n, (const fx_arg *const *)items.p);
    *kwargs = fx_arg_dict(p->ctx, (int)keys.n, (const char *const *)keys.p, (const fx_arg *const *)values.p);
    return lx->status;
}

fx_status fx_parse_constant(fx_parser *p, const char *what, const fx_arg **out)
{
    p->n_operands = 0;
    FX_TRY(fx_parse_arg(p, out));
    return p->n_operands == 0 ? FX_OK : fx_lex_error(&p->lx, "%s is made of constants, not of nodes", what);
}
