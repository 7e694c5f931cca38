/* ir/index_map_text.c: the text form of index maps.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "ir/index_expr.h"
#include "ir/lex.h"

/* ---- printing ---------------------------------------------------------------------------------------------------- */

void fx_imap_print(fx_text *t, const fx_imap *map)
{
    fx_puts(t, "(");
    for (int i = 0; i < map->rank; i++) {
        fx_puts(t, i ? ", " : "");
        fx_dim_print(t, map->dims[i]);
    }
    fx_puts(t, ") ->");
    for (int k = 0; k < map->n; k++) {
        const fx_imap_piece *p = &map->piece[k];
        bool all = true;
        for (int i = 0; i < map->rank; i++)
            all = all && fx_dim_is(p->lo[i], 0) && fx_dim_equal(p->hi[i], map->dims[i]);
        fx_puts(t, k ? "; " : " ");
        for (int i = 0; !all && i < map->rank; i++) {
            fx_puts(t, i ? ", " : "{");
            fx_dim_print(t, p->lo[i]);
            fx_puts(t, ":");
            fx_dim_print(t, p->hi[i]);
        }
        fx_puts(t, all ? "" : "} ");
        if (p->source < 0) {
            fx_puts(t, "pad");
            continue;
        }
        fx_printf(t, "in%d[", p->source);
        for (int d = 0; d < p->rank; d++) {
            fx_puts(t, d ? ", " : "");
            fx_ix_print(t, p->index[d]);
        }
        fx_puts(t, "]");
    }
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

typedef struct reader {
    fx_lexer lx;
    const fx_imaps *m;
    fx_ix_space space; /* of the piece being read; rank 0: no dims yet */
} reader;

static fx_status read_sum(reader *r, const fx_ix **out);

static fx_status need_dim(reader *r, const fx_ix *x, const char *what, fx_dim *out)
{
    if (x->n)
        return fx_lex_error(&r->lx, "%s must not depend on d0, d1, ...", what);
    *out = x->base;
    return FX_OK;
}

static fx_status need_divisor(reader *r, const fx_ix *x, fx_dim *out)
{
    FX_TRY(need_dim(r, x, "a divisor", out));
    if (fx_dim_known(*out) && out->value < 1)
        return fx_lex_error(&r->lx, "a divisor is positive, got %lld", (long long)out->value);
    return FX_OK;
}

static fx_status read_call(reader *r, const char *name, const fx_ix **out)
{
    static const struct { const char *name; fx_sym_kind kind; } calls[] = {
        {"Max", FX_SYM_MAX}, {"Min", FX_SYM_MIN}, {"CeilDiv", FX_SYM_CEILDIV}};
    const fx_sym *args[8];
    int n = 0;
    size_t k = 0;
    while (k < 3 && strcmp(calls[k].name, name))
        k++;
    if (k == 3)
        return fx_lex_fail(&r->lx, "Max, Min or CeilDiv before '('");
    fx_lex_next(&r->lx);
    do {
        const fx_ix *x;
        fx_dim d;
        if (n == 8)
            return fx_lex_fail(&r->lx, "at most 8 arguments");
        FX_TRY(read_sum(r, &x));
        FX_TRY(need_dim(r, x, "an argument", &d));
        args[n++] = fx_dim_as_sym(r->m->ctx, d);
    } while (fx_lex_accept(&r->lx, ","));
    if (n < 2 || (n > 2 && calls[k].kind == FX_SYM_CEILDIV))
        return fx_lex_fail(&r->lx, "two arguments");
    *out = fx_ix_const(r->m, fx_dim_sym(fx_sym_make(r->m->ctx, calls[k].kind, n, args)));
    return fx_lex_expect(&r->lx, ")");
}

static fx_status read_atom(reader *r, const fx_ix **out)
{
    fx_lexer *lx = &r->lx;
    *out = fx_ix_const(r->m, fx_dim_of(0));
    FX_TRY(fx_lex_enter(lx));
    if (fx_lex_accept(lx, "(")) {
        FX_TRY(read_sum(r, out));
        FX_TRY(fx_lex_expect(lx, ")"));
    } else if (fx_lex_accept(lx, "-")) {
        FX_TRY(read_atom(r, out));
        *out = fx_ix_scale(r->m, &r->space, *out, fx_dim_of(-1));
    } else if (lx->kind == FX_T_NAME) {
        const char *name;
        FX_TRY(fx_lex_name(lx, "a dim or symbol", &name));
        char *end = NULL;
        long var = name[0] == 'd' && name[1] >= '0' && name[1] <= '9' ? strtol(name + 1, &end, 10) : -1;
        if (fx_lex_is(lx, "("))
            FX_TRY(read_call(r, name, out));
        else if (var >= 0 && !*end) {
            if (var >= r->space.rank)
                return fx_lex_error(lx, "%s: the map has %d dims here", name, r->space.rank);
            *out = fx_ix_dim(r->m, (int)var);
        } else {
            *out = fx_ix_const(r->m, fx_dim_sym(fx_sym_symbol(r->m->ctx, name)));
        }
    } else {
        int64_t v;
        FX_TRY(fx_lex_int(lx, &v));
        *out = fx_ix_const(r->m, fx_dim_of(v));
    }
    lx->depth--;
    return FX_OK;
}

static fx_status read_product(reader *r, const fx_ix **out)
{
    fx_lexer *lx = &r->lx;
    FX_TRY(read_atom(r, out));
    for (;;) {
        const fx_ix *by;
        fx_dim d;
        bool times = fx_lex_is(lx, "*"), power = fx_lex_is(lx, "**"), div = fx_lex_is(lx, "//");
        if (!times && !power && !div && !fx_lex_is(lx, "%"))
            return FX_OK;
        fx_lex_next(lx);
        FX_TRY(read_atom(r, &by));
        if (times) {
            const fx_ix *x = (*out)->n ? *out : by, *c = (*out)->n ? by : *out;
            FX_TRY(need_dim(r, c, "one side of a product", &d));
            *out = fx_ix_scale(r->m, &r->space, x, d);
            continue;
        }
        if (power) {
            fx_dim of;
            FX_TRY(need_dim(r, by, "an exponent", &d));
            FX_TRY(need_dim(r, *out, "a power", &of));
            const fx_sym *args[2] = {fx_dim_as_sym(r->m->ctx, of), fx_dim_as_sym(r->m->ctx, d)};
            *out = fx_ix_const(r->m, fx_dim_sym(fx_sym_make(r->m->ctx, FX_SYM_POW, 2, args)));
            continue;
        }
        FX_TRY(need_divisor(r, by, &d));
        fx_dim mod;
        if ((*out)->n && div && fx_lex_accept(lx, "%")) { /* one digit, as printed */
            FX_TRY(read_atom(r, &by));
            FX_TRY(need_divisor(r, by, &mod));
            *out = fx_ix_digit(r->m, &r->space, *out, d, mod);
        } else if ((*out)->n)
            *out = div ? fx_ix_floordiv(r->m, &r->space, *out, d) : fx_ix_mod(r->m, &r->space, *out, d);
        else
            *out = fx_ix_const(r->m, div ? fx_dim_floordiv(r->m->ctx, (*out)->base, d) : fx_dim_mod(r->m->ctx, (*out)->base, d));
    }
}

static fx_status read_sum(reader *r, const fx_ix **out)
{
    FX_TRY(read_product(r, out));
    for (;;) {
        const fx_ix *more;
        bool minus = fx_lex_is(&r->lx, "-");
        if (!minus && !fx_lex_is(&r->lx, "+"))
            return FX_OK;
        fx_lex_next(&r->lx);
        FX_TRY(read_product(r, &more));
        if (minus)
            more = fx_ix_scale(r->m, &r->space, more, fx_dim_of(-1));
        *out = fx_ix_add(r->m, &r->space, *out, more);
        if (fx_ix_size(*out) >= FX_IX_MOST)
            return fx_lex_error(&r->lx, "an index of more than %d terms", (int)FX_IX_MOST);
    }
}

static fx_status read_dim(reader *r, const char *what, fx_dim *out)
{
    const fx_ix *x;
    FX_TRY(read_sum(r, &x));
    return need_dim(r, x, what, out);
}

static fx_status read_piece(reader *r, const fx_imap *map, fx_imap_piece *p)
{
    fx_lexer *lx = &r->lx;
    r->space = (fx_ix_space){0, NULL, NULL};
    for (int i = 0; i < map->rank; i++) {
        p->lo[i] = fx_dim_of(0);
        p->hi[i] = map->dims[i];
    }
    if (fx_lex_accept(lx, "{")) {
        for (int i = 0; i < map->rank; i++) {
            if (i)
                FX_TRY(fx_lex_expect(lx, ","));
            FX_TRY(read_dim(r, "a bound", &p->lo[i]));
            FX_TRY(fx_lex_expect(lx, ":"));
            FX_TRY(read_dim(r, "a bound", &p->hi[i]));
        }
        FX_TRY(fx_lex_expect(lx, "}"));
    }
    p->source = -1;
    if (fx_lex_accept(lx, "pad"))
        return FX_OK;
    const char *name;
    char *end;
    FX_TRY(fx_lex_name(lx, "pad or in0, in1, ...", &name));
    long source = strncmp(name, "in", 2) || name[2] < '0' || name[2] > '9' ? -1 : strtol(name + 2, &end, 10);
    if (source < 0 || *end || source > INT32_MAX)
        return fx_lex_error(lx, "expected pad or in0, in1, ..., got '%s'", name);
    p->source = (int)source;
    r->space = (fx_ix_space){map->rank, p->lo, p->hi};
    FX_TRY(fx_lex_expect(lx, "["));
    while (!fx_lex_accept(lx, "]")) {
        if (p->rank == FX_MAX_RANK)
            return fx_lex_fail(lx, "at most %d indices", FX_MAX_RANK);
        if (p->rank)
            FX_TRY(fx_lex_expect(lx, ","));
        FX_TRY(read_sum(r, &p->index[p->rank++]));
    }
    return FX_OK;
}

fx_status fx_imap_parse(const fx_imaps *m, const char *text, const fx_imap **out)
{
    reader r = {.m = m};
    fx_imap *map = FX_NEW(m->arena, fx_imap);
    fx_imap_piece *pieces = NULL;
    size_t n = 0, cap = 0;
    fx_lex_init(&r.lx, m->ctx, "index map", text, strlen(text), false, false);
    FX_TRY(fx_lex_expect(&r.lx, "("));
    while (!fx_lex_accept(&r.lx, ")")) {
        if (map->rank == FX_MAX_RANK)
            return fx_lex_fail(&r.lx, "at most %d dims", FX_MAX_RANK);
        if (map->rank)
            FX_TRY(fx_lex_expect(&r.lx, ","));
        FX_TRY(read_dim(&r, "a size", &map->dims[map->rank]));
        map->rank++;
    }
    FX_TRY(fx_lex_expect(&r.lx, "->"));
    do {
        fx_imap_piece p = {0};
        if (n == FX_IMAP_MOST)
            return fx_lex_fail(&r.lx, "at most %d pieces", FX_IMAP_MOST);
        FX_TRY(read_piece(&r, map, &p));
        FX_PUSH(m->arena, pieces, n, cap) = p;
    } while (fx_lex_accept(&r.lx, ";"));
    if (r.lx.kind != FX_T_END)
        return fx_lex_fail(&r.lx, "';' or the end");
    map->n = (int)n;
    map->piece = pieces;
    *out = map;
    return FX_OK;
}
