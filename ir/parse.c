/* ir/parse.c: .fx text to graphs. The grammar is that of print.c; docs are there. Names, numbers and nesting are checked, so that
 * any bytes give a graph or one message with line and column. What a graph means is verify.c's to judge.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/lex.h"

typedef struct parser {
    fx_lexer lx;
    fx_context *ctx;
    fx_graph *g;
    const char *entry;                     /* what nodes say when they say nothing */
    /* operands of the node being read */
    fx_node **operands; size_t n_operands, cap_operands;
    fx_storage **shared; size_t n_shared, cap_shared; /* by number */
} parser;

/* A growing list of pointers: items of a sequence, keys of a dict. */
typedef struct list {
    const void **p;
    size_t n, cap;
} list;

static void push(parser *p, list *l, const void *v)
{
    FX_PUSH(fx_context_arena(p->ctx), l->p, l->n, l->cap) = v;
}

/* ---- symbolic integers ------------------------------------------------------------------------------------------------- */

static fx_status parse_sym(parser *p, const fx_sym **out);

static const struct {
    const char *name;
    fx_sym_kind kind;
    int min, max;
} functions[] = {
    {"Add", FX_SYM_ADD, 1, 1000}, {"Mul", FX_SYM_MUL, 1, 1000}, {"Max", FX_SYM_MAX, 1, 1000}, {"Min", FX_SYM_MIN, 1, 1000},
    {"FloorDiv", FX_SYM_FLOORDIV, 2, 2}, {"Mod", FX_SYM_MOD, 2, 2}, {"Pow", FX_SYM_POW, 2, 2}, {"CeilDiv", FX_SYM_CEILDIV, 2, 2},
};

static const fx_sym *combine(parser *p, fx_sym_kind kind, const fx_sym *a, const fx_sym *b)
{
    const fx_sym *args[2] = {a, b};
    return fx_sym_make(p->ctx, kind, 2, args);
}

/* Behind NAME "(": a function of expressions, or Symbol("..") and Opaque(".."). */
static fx_status parse_sym_function(parser *p, const char *name, const fx_sym **out)
{
    fx_lexer *lx = &p->lx;
    const char *text;
    if (strcmp(name, "Symbol") == 0 || strcmp(name, "Opaque") == 0) {
        FX_TRY(fx_lex_string(lx, "its text", &text));
        *out = *name == 'S' ? fx_sym_symbol(p->ctx, text) : fx_sym_opaque(p->ctx, text);
        return fx_lex_expect(lx, ")");
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(name, functions[i].name) != 0)
            continue;
        list args = {0};
        do {
            const fx_sym *s;
            FX_TRY(parse_sym(p, &s));
            push(p, &args, s);
        } while ((int)args.n < functions[i].max && fx_lex_accept(lx, ","));
        if ((int)args.n < functions[i].min)
            return fx_lex_error(lx, "%s takes %d operands, got %zu", name, functions[i].min, args.n);
        *out = fx_sym_make(p->ctx, functions[i].kind, (int)args.n, (const fx_sym *const *)args.p);
        return fx_lex_expect(lx, ")");
    }
    return fx_lex_error(lx, "there is no function %s of integers", name);
}

static fx_status parse_sym_atom(parser *p, const fx_sym **out)
{
    fx_lexer *lx = &p->lx;
    if (lx->kind == FX_T_NUMBER) {
        uint64_t v;
        FX_TRY(fx_lex_uint(lx, &v));
        if (v > INT64_MAX)
            return fx_lex_error(lx, "an integer does not fit 64 bits with sign");
        *out = fx_sym_int(p->ctx, (int64_t)v);
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
            *out = fx_sym_symbol(p->ctx, name);
    } else {
        return fx_lex_fail(lx, "an integer, a symbol or '('");
    }
    lx->depth--;
    return lx->status;
}

/* a ** b, right to left */
static fx_status parse_sym_power(parser *p, const fx_sym **out)
{
    FX_TRY(parse_sym_atom(p, out));
    if (!fx_lex_accept(&p->lx, "**"))
        return FX_OK;
    const fx_sym *by;
    FX_TRY(fx_lex_enter(&p->lx));
    FX_TRY(parse_sym_power(p, &by));
    p->lx.depth--;
    *out = combine(p, FX_SYM_POW, *out, by);
    return FX_OK;
}

static fx_status parse_sym_product(parser *p, const fx_sym **out)
{
    fx_lexer *lx = &p->lx;
    /* The sign belongs to the first factor: -2*s0 is (-2)*s0. */
    bool minus = fx_lex_accept(lx, "-");
    if (minus && lx->kind == FX_T_NUMBER) {
        uint64_t v;
        FX_TRY(fx_lex_uint(lx, &v));
        if (v > (uint64_t)INT64_MAX + 1)
            return fx_lex_error(lx, "an integer does not fit 64 bits with sign");
        *out = fx_sym_int(p->ctx, (int64_t)-v);
        minus = false;
    } else {
        FX_TRY(parse_sym_power(p, out));
    }
    for (;;) {
        fx_sym_kind kind = fx_lex_is(lx, "*") ? FX_SYM_MUL : fx_lex_is(lx, "//") ? FX_SYM_FLOORDIV : FX_SYM_MOD;
        if (kind == FX_SYM_MOD && !fx_lex_is(lx, "%"))
            break;
        const fx_sym *b;
        fx_lex_next(lx);
        FX_TRY(parse_sym_power(p, &b));
        *out = combine(p, kind, *out, b);
    }
    if (minus)
        *out = combine(p, FX_SYM_MUL, fx_sym_int(p->ctx, -1), *out);
    return lx->status;
}

static fx_status parse_sym(parser *p, const fx_sym **out)
{
    fx_lexer *lx = &p->lx;
    list terms = {0};
    const fx_sym *s;
    FX_TRY(parse_sym_product(p, &s));
    push(p, &terms, s);
    for (;;) {
        bool minus = fx_lex_is(lx, "-");
        if (!minus && !fx_lex_is(lx, "+"))
            break;
        fx_lex_next(lx);
        FX_TRY(parse_sym_product(p, &s));
        push(p, &terms, minus ? combine(p, FX_SYM_MUL, fx_sym_int(p->ctx, -1), s) : s);
    }
    *out = terms.n == 1 ? terms.p[0] : fx_sym_make(p->ctx, FX_SYM_ADD, (int)terms.n, (const fx_sym *const *)terms.p);
    return lx->status;
}

static fx_status parse_dim(parser *p, fx_dim *d)
{
    const fx_sym *s;
    FX_TRY(parse_sym(p, &s));
    *d = s->kind == FX_SYM_INT ? (fx_dim){.value = s->value} : (fx_dim){.sym = s};
    return FX_OK;
}

/* ---- types ---------------------------------------------------------------------------------------------------------------- */

static fx_status parse_dims(parser *p, const char *close, int *n, fx_dim *dims, bool sizes)
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

static fx_status parse_type(parser *p, const fx_type **out)
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
        list items = {0};
        FX_TRY(fx_lex_enter(lx));
        while (!fx_lex_accept(lx, ")")) {
            const fx_type *item = NULL;
            if (!fx_lex_accept(lx, "?"))
                FX_TRY(parse_type(p, &item));
            push(p, &items, item);
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
    FX_TRY(parse_dims(p, "]", &rank, dims, true));
    bool given = fx_lex_accept(lx, "{");
    if (given) {
        FX_TRY(parse_dims(p, "}", &n_strides, strides, false));
        if (n_strides != rank)
            return fx_lex_error(lx, "expected %d strides, got %d", rank, n_strides);
    }
    *out = fx_type_tensor(p->ctx, dtype, rank, dims, given ? strides : NULL);
    return FX_OK;
}

/* ---- arguments --------------------------------------------------------------------------------------------------------------- */

static fx_status parse_arg(parser *p, const fx_arg **out);

/* Items up to `close`; keys too where it is a dict. */
static fx_status parse_items(parser *p, const char *close, list *items, list *keys)
{
    fx_lexer *lx = &p->lx;
    while (!fx_lex_accept(lx, close)) {
        const fx_arg *a;
        const char *key;
        if (keys) {
            FX_TRY(fx_lex_string(lx, "a key", &key));
            for (size_t i = 0; i < keys->n; i++) {
                if (keys->p[i] == key)
                    return fx_lex_error(lx, "the key \"%.40s\" is there twice", key);
            }
            FX_TRY(fx_lex_expect(lx, ":"));
            push(p, keys, key);
        }
        FX_TRY(parse_arg(p, &a));
        push(p, items, a);
        if (!fx_lex_accept(lx, ",") && !fx_lex_is(lx, close))
            return fx_lex_fail(lx, "',' or '%s'", close);
    }
    return lx->status;
}

static fx_status parse_sequence(parser *p, const char *close, fx_arg_kind kind, const fx_arg **out)
{
    list items = {0}, keys = {0};
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

static fx_status parse_operand(parser *p, const fx_arg **out)
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
    FX_PUSH(fx_context_arena(p->ctx), p->operands, p->n_operands, p->cap_operands) = n;
    *out = fx_arg_operand(p->ctx, (int)p->n_operands - 1);
    return FX_OK;
}

/* An int, or a float when it has a point or exponent. */
static fx_status parse_number(parser *p, const fx_arg **out)
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
static fx_status parse_torch(parser *p, const fx_arg **out)
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
static fx_status parse_constructor(parser *p, const fx_arg **out)
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
        FX_TRY(parse_sym(p, &s));
        *out = fx_arg_sym(p->ctx, s);
        return fx_lex_expect(lx, ")");
    }
    if (fx_lex_accept(lx, "slice")) {
        FX_TRY(fx_lex_expect(lx, "("));
        return parse_sequence(p, ")", FX_ARG_SLICE, out);
    }
    if (fx_lex_is(lx, "graph"))
        return fx_lex_error(lx, "subgraphs cannot be read from a text");
    return fx_lex_fail(lx, "an argument");
}

static fx_status parse_arg(parser *p, const fx_arg **out)
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

/* ---- tensors ------------------------------------------------------------------------------------------------------------------ */

/* Storages of tensors whose data the text does not have: to use it is an error, not a guess. Files beside it are frontend/'s to open. */
static fx_status missing_data(fx_storage *st)
{
    fx_loc loc = {.file = st->user};
    if (st->file)
        return fx_fail(st->ctx, FX_ERR_UNSUPPORTED, &loc, "the tensor '%s' lies in the file '%s', which was not opened with the text", st->name,
                       st->file);
    return fx_fail(st->ctx, FX_ERR_UNSUPPORTED, &loc, "the text this graph was read from has no data for the tensor '%s', only a hash",
                   st->name ? st->name : "");
}

static fx_status parse_element(parser *p, fx_tensor *t, int64_t at)
{
    fx_lexer *lx = &p->lx;
    if (t->dtype == FX_C64 || t->dtype == FX_C128) {
        double re, im;
        FX_TRY(fx_lex_expect(lx, "complex"));
        FX_TRY(fx_lex_expect(lx, "("));
        FX_TRY(fx_lex_double(lx, &re));
        FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(fx_lex_double(lx, &im));
        FX_TRY(fx_lex_expect(lx, ")"));
        if (t->dtype == FX_C64) {
            ((float *)t->data)[2 * at] = (float)re;
            ((float *)t->data)[2 * at + 1] = (float)im;
        } else {
            ((double *)t->data)[2 * at] = re;
            ((double *)t->data)[2 * at + 1] = im;
        }
    } else if (t->dtype == FX_BOOL) {
        bool yes = fx_lex_is(lx, "True");
        if (!yes && !fx_lex_is(lx, "False"))
            return fx_lex_fail(lx, "True or False");
        fx_lex_next(lx);
        fx_tensor_set_int(t, at, yes);
    } else if (fx_dtype_is_float(t->dtype)) {
        double v;
        FX_TRY(fx_lex_double(lx, &v));
        fx_tensor_set(t, at, v);
    } else {
        int bits = (int)fx_dtype_size(t->dtype) * 8;
        int64_t min = t->dtype == FX_U8 ? 0 : INT64_MIN >> (64 - bits), max = t->dtype == FX_U8 ? 255 : INT64_MAX >> (64 - bits), v;
        FX_TRY(fx_lex_range(lx, "an element", min, max, &v));
        fx_tensor_set_int(t, at, v);
    }
    return lx->status;
}

/* "= [..]", "= all v": into a dense tensor. */
static fx_status parse_values(parser *p, fx_tensor *dense)
{
    fx_lexer *lx = &p->lx;
    int64_t n = fx_tensor_numel(dense);
    if (fx_lex_accept(lx, "all")) {
        if (n == 0)
            return fx_lex_error(lx, "an empty tensor has no elements to set");
        FX_TRY(parse_element(p, dense, 0));
        size_t size = fx_dtype_size(dense->dtype);
        for (int64_t i = 1; i < n; i++)
            memcpy((char *)dense->data + (size_t)i * size, dense->data, size);
        return FX_OK;
    }
    FX_TRY(fx_lex_expect(lx, "["));
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(parse_element(p, dense, i));
    }
    return fx_lex_expect(lx, "]");
}

/* Elements between the first and the last of a strided tensor, both included; -1 when more than a text may ask for. */
static int64_t span(const fx_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t step;
        if (t->sizes[i] == 0)
            return 0;
        if (t->strides[i] < 0 || __builtin_mul_overflow(t->sizes[i] - 1, t->strides[i], &step) || __builtin_add_overflow(last, step, &last))
            return -1;
    }
    return last < INT64_MAX / 64 ? last + 1 : -1;
}

/* Paths of a thousand components are no model's; texts that walk over trees may then take a frame for each. */
static fx_status check_path(parser *p, const char *path)
{
    int dots = 0;
    for (const char *c = path; *c; c++)
        dots += *c == '.';
    return dots < 1000 ? FX_OK : fx_lex_error(&p->lx, "a path of %d components is too deep", dots + 1);
}

/* What a line says of a tensor before its content. */
typedef struct attr_line {
    const char *path;
    bool is_parameter, persistent, is_shared;
    int64_t shared, offset; /* storage number, elements */
    const char *file, *key; /* of a tensor that lies in a file */
    fx_tensor t;
} attr_line;

static fx_status parse_attr_head(parser *p, attr_line *a)
{
    fx_lexer *lx = &p->lx;
    fx_tensor *t = &a->t;
    fx_dim dims[FX_MAX_RANK], strides[FX_MAX_RANK];
    int n_strides;
    FX_TRY(fx_lex_name(lx, "the path of a tensor", &a->path));
    if (fx_attr_find(p->g, a->path) || *a->path == 0)
        return fx_lex_error(lx, "the tensor '%.60s' is there twice or has no name", a->path);
    FX_TRY(check_path(p, a->path));
    FX_TRY(fx_lex_expect(lx, ":"));
    FX_TRY(fx_lex_dtype(lx, &t->dtype));
    FX_TRY(fx_lex_expect(lx, "["));
    FX_TRY(parse_dims(p, "]", &t->rank, dims, true));
    bool given = fx_lex_accept(lx, "{");
    if (given) {
        FX_TRY(parse_dims(p, "}", &n_strides, strides, false));
        if (n_strides != t->rank)
            return fx_lex_error(lx, "expected %d strides, got %d", t->rank, n_strides);
    }
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->sizes[i] = dims[i].value;
        t->strides[i] = given ? strides[i].value : step;
        if (dims[i].sym || (given && strides[i].sym))
            return fx_lex_error(lx, "the sizes of a tensor with data are numbers");
        if (__builtin_mul_overflow(step, t->sizes[i] > 0 ? t->sizes[i] : 1, &step) || step > INT64_MAX / 64)
            return fx_lex_error(lx, "the tensor's size does not fit 64 bits");
    }
    a->persistent = !fx_lex_accept(lx, "transient");
    if (fx_lex_accept(lx, "shares")) {
        a->is_shared = true;
        FX_TRY(fx_lex_range(lx, "a storage number", 0, 1 << 20, &a->shared));
        FX_TRY(fx_lex_expect(lx, "+"));
        FX_TRY(fx_lex_range(lx, "an offset", 0, INT64_MAX / 64, &a->offset));
    }
    return lx->status;
}

/* A text may not ask for much memory by a few bytes. */
static bool too_big(int64_t elements)
{
    return elements < 0 || elements > INT64_C(1) << 26;
}

/* Storage number a->shared with room for the tensor. Tensors that were put on it before move along when it grows. */
static fx_status shared_storage(parser *p, const attr_line *a, size_t bytes, bool with_data, fx_storage **out)
{
    while (p->n_shared <= (size_t)a->shared)
        FX_PUSH(fx_context_arena(p->ctx), p->shared, p->n_shared, p->cap_shared) = NULL;
    fx_storage *old = p->shared[a->shared];
    if (old && !!old->file != !!a->file)
        return fx_lex_error(&p->lx, "tensors of one storage lie either all in a file or none");
    if (old && a->file && (old->file != a->file || old->name != a->key))
        return fx_lex_error(&p->lx, "tensors of one storage must name the same tensor of the same file");
    if (old && !a->file && (old->data != NULL || old->nbytes == 0) != with_data)
        return fx_lex_error(&p->lx, "tensors of one storage have either all values or all a hash");
    if (old && old->nbytes >= bytes) {
        *out = old;
        return FX_OK;
    }
    fx_storage *st = with_data ? fx_storage_new(p->ctx, bytes)
                               : fx_storage_lazy(p->ctx, bytes, missing_data, NULL, (void *)(uintptr_t)p->lx.loc.file,
                                                 a->file ? a->key : a->path);
    st->file = a->file;
    if (old && old->data)
        memcpy(st->data, old->data, old->nbytes);
    p->shared[a->shared] = st;
    *out = st;
    /* Rehang what lies on the old one. */
    for (fx_module *m = p->g->root; old && m;) {
        for (size_t i = 0; i < m->n_attrs; i++) {
            fx_tensor *t = &m->attrs[i]->tensor;
            if (t->storage != old)
                continue;
            if (old->data)
                t->data = (char *)st->data + ((char *)t->data - (char *)old->data);
            t->storage = st;
        }
        /* The next module in preorder. */
        fx_module *next = m->n_children ? m->children[0] : NULL;
        while (!next && m->parent) {
            fx_module *up = m->parent;
            size_t i = 0;
            while (up->children[i] != m)
                i++;
            next = i + 1 < up->n_children ? up->children[i + 1] : NULL;
            m = up;
        }
        m = next;
    }
    return FX_OK;
}

static fx_status parse_attr(parser *p, bool is_parameter)
{
    fx_lexer *lx = &p->lx;
    attr_line a = {.is_parameter = is_parameter};
    uint64_t hash = 0;
    FX_TRY(parse_attr_head(p, &a));
    fx_tensor *t = &a.t;
    bool values = fx_lex_accept(lx, "=");
    if (!values && fx_lex_accept(lx, "in")) {
        FX_TRY(fx_lex_string(lx, "a file", &a.file));
        FX_TRY(fx_lex_string(lx, "the tensor's name in it", &a.key));
    }
    int64_t elements = span(t);
    if (elements < 0 || (values && (too_big(elements) || too_big(fx_tensor_numel(t)) || too_big(a.offset))))
        return fx_lex_error(lx, "a tensor of %s is too big for a text", a.path);
    size_t size = fx_dtype_size(t->dtype), bytes = (size_t)(a.offset + elements) * size;
    if (a.is_shared)
        FX_TRY(shared_storage(p, &a, bytes, !a.file && (values || elements == 0), &t->storage));
    else if (values)
        t->storage = fx_storage_new(p->ctx, bytes);
    else
        t->storage = fx_storage_lazy(p->ctx, bytes, missing_data, NULL, (void *)(uintptr_t)lx->loc.file, a.file ? a.key : a.path);
    t->storage->file = a.file;
    t->data = (char *)(t->storage->data ? t->storage->data : NULL) + (size_t)a.offset * size;
    if (values) {
        fx_tensor dense;
        if (fx_tensor_create(p->ctx, t->dtype, t->rank, t->sizes, &dense) != FX_OK)
            return fx_lex_error(lx, "a tensor of these sizes cannot be made");
        FX_TRY(parse_values(p, &dense));
        int64_t n = fx_tensor_numel(&dense), at[FX_MAX_RANK] = {0};
        for (int64_t i = 0; i < n; i++) {
            int64_t to = 0;
            for (int d = 0; d < t->rank; d++)
                to += at[d] * t->strides[d];
            memcpy((char *)t->data + (size_t)to * size, (char *)dense.data + (size_t)i * size, size);
            for (int d = t->rank - 1; d >= 0 && ++at[d] == t->sizes[d]; d--)
                at[d] = 0;
        }
        fx_storage_free(dense.storage);
    } else if (!a.file && !fx_lex_accept(lx, "unreadable")) {
        FX_TRY(fx_lex_expect(lx, "hash"));
        FX_TRY(fx_lex_uint(lx, &hash));
        if (hash == 0)
            return fx_lex_error(lx, "a hash is not 0");
    }
    fx_attr *attr = fx_attr_add(p->g, a.path, t, false);
    attr->is_parameter = a.is_parameter;
    attr->persistent = a.persistent;
    attr->hash = hash;
    return fx_lex_line_end(lx);
}

/* ---- nodes ---------------------------------------------------------------------------------------------------------------------- */

/* "# module, frame, entry, file", read from the text itself since parts are bare. */
static fx_status parse_loc(parser *p, fx_loc *loc)
{
    fx_lexer *lx = &p->lx;
    const char **parts[4] = {&loc->module, &loc->frame, &loc->entry, &loc->file};
    if (!fx_lex_is(lx, "#"))
        return lx->status;
    const char *s = lx->at, *eol = s < lx->end ? memchr(s, '\n', (size_t)(lx->end - s)) : NULL;
    if (!eol)
        eol = lx->end;
    for (int i = 0;; i++) {
        while (s < eol && *s == ' ')
            s++;
        const char *text, *after;
        if (s < eol && *s == '"') {
            text = fx_parse_quoted(p->ctx, s, eol, &after);
            if (!text)
                return fx_lex_error(lx, "behind '#': expected a string that ends on its line");
        } else {
            after = s < eol ? memchr(s, ',', (size_t)(eol - s)) : NULL;
            if (!after)
                after = eol;
            text = after - s == 1 && *s == '-' ? NULL : fx_intern_n(p->ctx, s, (size_t)(after - s));
        }
        if (i == 4)
            return fx_lex_error(lx, "behind '#': expected at most module, frame, entry and file");
        *parts[i] = text;
        s = after;
        if (s >= eol)
            break;
        if (*s != ',')
            return fx_lex_error(lx, "behind '#': expected ',' between module, frame, entry and file");
        s++;
    }
    lx->at = eol;
    fx_lex_next(lx);
    return lx->status;
}

/* ( args, key=value ) */
static fx_status parse_call_args(parser *p, const fx_arg **args, const fx_arg **kwargs)
{
    fx_lexer *lx = &p->lx;
    list items = {0}, keys = {0}, values = {0};
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
        for (size_t i = 0; key && i < keys.n; i++) {
            if (keys.p[i] == key)
                return fx_lex_error(lx, "the keyword '%.40s' is there twice", key);
        }
        FX_TRY(parse_arg(p, &a));
        if (key)
            push(p, &keys, key);
        push(p, key ? &values : &items, a);
        if (!fx_lex_accept(lx, ",") && !fx_lex_is(lx, ")"))
            return fx_lex_fail(lx, "',' or ')'");
    }
    *args = fx_arg_seq(p->ctx, FX_ARG_TUPLE, (int)items.n, (const fx_arg *const *)items.p);
    *kwargs = fx_arg_dict(p->ctx, (int)keys.n, (const char *const *)keys.p, (const fx_arg *const *)values.p);
    return lx->status;
}

static fx_status finish_node(parser *p, fx_opcode opcode, const char *name, const char *target, const fx_type *type, const fx_arg *args,
                             const fx_arg *kwargs)
{
    fx_loc loc = {.file = p->g->file, .entry = p->entry};
    FX_TRY(parse_loc(p, &loc));
    fx_node *n = fx_node_new(p->g, opcode, target, args, kwargs, (int)p->n_operands, p->operands, name);
    n->type = type;
    loc.node = n->name;
    n->loc = loc;
    if (n->name != name)
        return fx_lex_error(&p->lx, "the line above: a node cannot be named '%.60s', as it is a word of Python's", name);
    return fx_lex_line_end(&p->lx);
}

static fx_status parse_node(parser *p)
{
    fx_lexer *lx = &p->lx;
    const char *name, *target;
    const fx_type *type = NULL;
    const fx_arg *args = NULL, *kwargs = NULL;
    fx_lexer before = *lx;
    p->n_operands = 0;
    FX_TRY(fx_lex_name(lx, "a node's name", &name));
    if (!fx_is_word(name, false)) {
        *lx = before;
        return fx_lex_fail(lx, "a name of letters, digits and '_'");
    }
    if (fx_graph_find_node(p->g, name)) {
        *lx = before;
        return fx_lex_error(lx, "the node '%.60s' is there twice", name);
    }
    if (fx_lex_accept(lx, ":"))
        FX_TRY(parse_type(p, &type));
    FX_TRY(fx_lex_expect(lx, "="));
    int opcode = 0;
    while (opcode <= FX_OUTPUT && !fx_lex_is(lx, fx_opcode_name((fx_opcode)opcode)))
        opcode++;
    if (opcode > FX_OUTPUT)
        return fx_lex_fail(lx, "placeholder, get_attr, call_function, call_method, call_module or output");
    fx_lex_next(lx);
    FX_TRY(fx_lex_expect(lx, "["));
    FX_TRY(fx_lex_name(lx, "a target", &target));
    FX_TRY(fx_lex_expect(lx, "]"));
    if (fx_lex_is(lx, "(") || (opcode != FX_PLACEHOLDER && opcode != FX_GET_ATTR))
        FX_TRY(parse_call_args(p, &args, &kwargs));
    return finish_node(p, (fx_opcode)opcode, name, target, type, args, kwargs);
}

static fx_status parse_output(parser *p)
{
    const fx_type *type = NULL;
    const fx_arg *args, *kwargs;
    const char *name = fx_intern(p->ctx, "output");
    p->n_operands = 0;
    FX_TRY(parse_call_args(p, &args, &kwargs));
    if (fx_lex_accept(&p->lx, ":"))
        FX_TRY(parse_type(p, &type));
    if (fx_graph_find_node(p->g, name))
        return fx_lex_error(&p->lx, "the node 'output' is there twice");
    return finish_node(p, FX_OUTPUT, name, "output", type, args, kwargs);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

static fx_status parse_header(parser *p)
{
    fx_lexer *lx = &p->lx;
    const char *name;
    FX_TRY(fx_lex_expect(lx, "graph"));
    FX_TRY(fx_lex_name(lx, "the graph's name", &name));
    p->g = fx_graph_new(p->ctx, name);
    p->g->stage = FX_STAGE_IMPORTED;
    for (int i = 0; i <= FX_STAGE_CORE; i++) {
        if (fx_lex_accept(lx, fx_stage_name((fx_stage)i))) {
            p->g->stage = (fx_stage)i;
            break;
        }
    }
    if (fx_lex_accept(lx, "file"))
        FX_TRY(fx_lex_string(lx, "the model's file", &p->g->file));
    if (fx_lex_accept(lx, "entry"))
        FX_TRY(fx_lex_string(lx, "the archive's entry", &p->entry));
    return fx_lex_line_end(lx);
}

static fx_status parse_symbol(parser *p)
{
    fx_lexer *lx = &p->lx;
    fx_sym_range r = {.min = INT64_MIN, .max = INT64_MAX};
    FX_TRY(fx_lex_name(lx, "a symbol", &r.name));
    FX_TRY(fx_lex_expect(lx, "in"));
    FX_TRY(fx_lex_expect(lx, "["));
    fx_lexer ahead = *lx;
    if (fx_lex_accept(&ahead, "-") && fx_lex_accept(&ahead, "inf"))
        *lx = ahead;
    else
        FX_TRY(fx_lex_int(lx, &r.min));
    FX_TRY(fx_lex_expect(lx, ","));
    if (!fx_lex_accept(lx, "inf"))
        FX_TRY(fx_lex_int(lx, &r.max));
    FX_TRY(fx_lex_expect(lx, "]"));
    if (r.min > r.max)
        return fx_lex_error(lx, "the range of '%.40s' is empty", r.name);
    FX_PUSH(p->g->arena, p->g->symbols, p->g->n_symbols, p->g->cap_symbols) = r;
    return fx_lex_line_end(lx);
}

/* An empty path is the root, whose class can be told too. */
static fx_status parse_module(parser *p)
{
    fx_lexer *lx = &p->lx;
    const char *path;
    FX_TRY(fx_lex_name(lx, "a module's path", &path));
    FX_TRY(check_path(p, path));
    fx_module *m = *path ? fx_module_make(p->g, path) : p->g->root;
    if (fx_lex_accept(lx, ":"))
        FX_TRY(fx_lex_name(lx, "a class", &m->class_name));
    return fx_lex_line_end(lx);
}

static fx_status parse_tree(parser *p, const fx_arg **tree)
{
    p->n_operands = 0;
    FX_TRY(parse_arg(p, tree));
    if (p->n_operands > 0)
        return fx_lex_error(&p->lx, "the leaves of a tree are numbers, not nodes");
    return fx_lex_line_end(&p->lx);
}

static fx_status parse_line(parser *p)
{
    fx_lexer *lx = &p->lx;
    lx->depth = 0;
    if (fx_lex_accept(lx, "%"))
        return parse_node(p);
    if (fx_lex_accept(lx, "symbol"))
        return parse_symbol(p);
    if (fx_lex_accept(lx, "module"))
        return parse_module(p);
    if (fx_lex_accept(lx, "parameter"))
        return parse_attr(p, true);
    if (fx_lex_accept(lx, "buffer"))
        return parse_attr(p, false);
    if (fx_lex_accept(lx, "inputs"))
        return parse_tree(p, &p->g->in_tree);
    if (fx_lex_accept(lx, "outputs"))
        return parse_tree(p, &p->g->out_tree);
    if (fx_lex_accept(lx, "output"))
        return parse_output(p);
    return fx_lex_fail(lx, "a line that begins with %%, symbol, module, parameter, buffer, inputs, outputs or output");
}

typedef struct parse_args {
    fx_context *ctx;
    const char *file, *text;
    size_t size;
    fx_graph **out;
} parse_args;

static fx_status parse(void *arg)
{
    parse_args *a = arg;
    parser p = {.ctx = a->ctx};
    fx_lex_init(&p.lx, a->ctx, a->file, a->text, a->size, true, true);
    FX_TRY(parse_header(&p));
    while (p.lx.kind != FX_T_END)
        FX_TRY(parse_line(&p));
    FX_TRY(p.lx.status);
    *a->out = p.g;
    return FX_OK;
}

fx_status fx_graph_parse(fx_context *ctx, const char *file, const char *text, size_t size, fx_graph **out)
{
    parse_args a = {ctx, file, text, size, out};
    return fx_protect(ctx, parse, &a);
}

/* ---- what a hand-written text leaves out ------------------------------------------------------------------------------------------- */

static bool is_complex(const fx_type *t)
{
    return t && t->kind == FX_TYPE_TENSOR && (t->dtype == FX_C64 || t->dtype == FX_C128);
}

/* Whether inference has a say: complex numbers only pass through graphs, and symbolic sizes may be spelled in other ways. */
static bool is_inferred(const fx_node *n)
{
    bool complex = is_complex(n->type);
    for (int i = 0; i < n->n_operands; i++)
        complex |= is_complex(n->operands[i].def->type);
    return !complex && (!n->type || (n->type->kind == FX_TYPE_TENSOR && fx_type_is_static(n->type)));
}

static fx_status complete(void *arg)
{
    fx_graph *g = arg;
    FX_FOR_NODES(g, n) {
        const fx_type *given = n->type;
        if (g->stage == FX_STAGE_CAPTURED && n->opcode != FX_PLACEHOLDER && n->opcode != FX_GET_ATTR)
            continue; /* passes/legalize.c normalises and infers */
        if (n->opcode == FX_CALL_FUNCTION && n->op) {
            FX_TRY(fx_node_normalize(n));
            n->type = given;
        }
        if (n->opcode == FX_OUTPUT || (n->opcode == FX_CALL_FUNCTION && !n->op) || !is_inferred(n))
            continue;
        FX_TRY(fx_node_infer(n));
        if (given)
            n->type = given;
    }
    return fx_graph_verify(g, g->stage, "reading");
}

fx_status fx_graph_complete(fx_graph *g)
{
    return fx_protect(g->ctx, complete, g);
}
