/* codegen/c_dim.c: sizes in C: numbers, or expressions over the program's symbols.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Division in a size rounds down, in C toward zero: they agree where the ranges of the symbols say that nothing is negative. */
#include <string.h>

#include "codegen/emit.h"

/* How tightly a text binds. */
typedef enum binding { B_SUM, B_PRODUCT, B_ATOM } binding;

static void put(fx_emit *e, fx_text *t, const fx_sym *s, binding around);

static bool at_least(fx_emit *e, const fx_sym *s, int64_t v)
{
    return fx_dim_at_least(e->ctx, (fx_symbols){e->n_sizes, e->sizes}, fx_dim_sym(s), v);
}

static int symbol_at(const fx_emit *e, const char *name)
{
    for (size_t i = 0; i < e->n_sizes; i++)
        if (strcmp(e->sizes[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* ---- what a size needs ------------------------------------------------------------------------------------- */

static fx_status scan(fx_emit *e, const fx_sym *s, bool *used)
{
    const fx_loc *loc = e->step ? &e->step->loc : NULL;
    switch (s->kind) {
    case FX_SYM_INT:
        return FX_OK;
    case FX_SYM_SYMBOL: {
        int at = symbol_at(e, s->name);
        if (at < 0)
            return fx_fail(e->ctx, FX_INTERNAL, loc, "a size names '%s', which is none of the program's symbols", s->name);
        used[at] = true;
        return (size_t)at < e->p->n_symbols ? FX_OK : scan(e, e->derived[(size_t)at - e->p->n_symbols].value.sym, used);
    }
    case FX_SYM_FLOORDIV:
    case FX_SYM_CEILDIV:
    case FX_SYM_MOD:
        if (!at_least(e, s->args[1], 1))
            break;
        /* fall through */
    case FX_SYM_ADD:
    case FX_SYM_MUL:
    case FX_SYM_MAX:
    case FX_SYM_MIN:
        for (int i = 0; i < s->n; i++)
            FX_TRY(scan(e, s->args[i], used));
        return FX_OK;
    case FX_SYM_POW:
        if (s->args[1]->kind == FX_SYM_INT && s->args[1]->value > 0 && s->args[1]->value <= 8)
            return scan(e, s->args[0], used);
        break;
    case FX_SYM_OPAQUE:
        break;
    }
    fx_text t;
    fx_text_init(&t, e->local);
    fx_sym_print(&t, s);
    return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, loc, "the size %s has no spelling in C: expected sums, products, minima, maxima, and divisions "
                   "by what is surely positive", t.data);
}

fx_status fx_c_scan_dim(fx_emit *e, fx_dim d, bool *used)
{
    d = fx_c_derive(e, d);
    return d.sym ? scan(e, d.sym, used) : FX_OK;
}

/* ---- spelling ------------------------------------------------------------------------------------------------ */

static void put_number(fx_text *t, int64_t v)
{
    if (v == INT64_MIN)
        fx_puts(t, "(-INT64_C(9223372036854775807) - 1)");
    else
        fx_printf(t, "%lld", (long long)v);
}

/* A term of a sum: its number, and what it is a multiple of. */
static int64_t number_of(const fx_sym *s)
{
    return s->kind == FX_SYM_INT ? s->value : s->kind == FX_SYM_MUL && s->args[0]->kind == FX_SYM_INT ? s->args[0]->value : 1;
}

/* factor times the rest of the product s: "batch * seq * 12". factor > 0 */
static void put_product(fx_emit *e, fx_text *t, const fx_sym *s, int64_t factor)
{
    bool any = false;
    int n = s->kind == FX_SYM_MUL ? s->n : 1;
    const fx_sym *const *args = s->kind == FX_SYM_MUL ? s->args : &s;
    for (int i = 0; i < n; i++) {
        if (args[i]->kind == FX_SYM_INT)
            continue;
        fx_puts(t, any ? " * " : "");
        put(e, t, args[i], any ? B_ATOM : B_PRODUCT);
        any = true;
    }
    if (any && factor != 1)
        fx_puts(t, " * ");
    if (!any || factor != 1)
        put_number(t, factor);
}

static void put_sum(fx_emit *e, fx_text *t, const fx_sym *s)
{
    bool first = true;
    for (int pass = 0; pass < 2; pass++) { /* what is subtracted goes last */
        for (int i = 0; i < s->n; i++) {
            int64_t factor = number_of(s->args[i]);
            bool minus = factor < 0 && factor != INT64_MIN;
            if (minus != (pass == 1))
                continue;
            fx_puts(t, first ? minus ? "-" : "" : minus ? " - " : " + ");
            put_product(e, t, s->args[i], minus ? -factor : factor);
            first = false;
        }
    }
}

/* Always in parentheses. */
static void put_extremum(fx_emit *e, fx_text *t, const fx_sym *s, int n)
{
    if (n == 1) {
        put(e, t, s->args[0], B_SUM);
        return;
    }
    fx_text first, last;
    fx_text_init(&first, e->local);
    fx_text_init(&last, e->local);
    put_extremum(e, &first, s, n - 1);
    put(e, &last, s->args[n - 1], B_SUM);
    fx_printf(t, "(%s %s %s ? %s : %s)", first.data, s->kind == FX_SYM_MAX ? ">" : "<", last.data, first.data, last.data);
}

static void put(fx_emit *e, fx_text *t, const fx_sym *s, binding around)
{
    bool atom = s->kind == FX_SYM_SYMBOL || (s->kind == FX_SYM_INT && s->value >= 0) || s->kind == FX_SYM_MAX || s->kind == FX_SYM_MIN;
    binding own = s->kind == FX_SYM_ADD ? B_SUM : atom ? B_ATOM : B_PRODUCT;
    bool turned = (s->kind == FX_SYM_MUL || s->kind == FX_SYM_INT) && number_of(s) < 0;
    bool below = (s->kind == FX_SYM_FLOORDIV || s->kind == FX_SYM_MOD || s->kind == FX_SYM_CEILDIV) && !at_least(e, s->args[0], 0);
    if (turned)
        own = B_SUM;
    if (below)
        own = B_ATOM; /* in parentheses of its own */
    bool close = own < around;
    fx_puts(t, close ? "(" : "");
    fx_text a, b;
    if (s->n == 2) {
        fx_text_init(&a, e->local);
        fx_text_init(&b, e->local);
    }
    switch (s->kind) {
    case FX_SYM_INT:
        put_number(t, s->value);
        break;
    case FX_SYM_SYMBOL:
        fx_printf(t, "%s%s", e->symbol_prefix ? e->symbol_prefix : "", e->symbols[symbol_at(e, s->name)]);
        break;
    case FX_SYM_ADD:
        put_sum(e, t, s);
        break;
    case FX_SYM_MUL:
        if (turned)
            fx_puts(t, "-");
        put_product(e, t, s, turned ? -number_of(s) : number_of(s));
        break;
    case FX_SYM_MAX:
    case FX_SYM_MIN:
        put_extremum(e, t, s, s->n);
        break;
    case FX_SYM_POW:
        for (int64_t i = 0; i < s->args[1]->value; i++) {
            fx_puts(t, i ? " * " : "");
            put(e, t, s->args[0], B_ATOM);
        }
        break;
    case FX_SYM_FLOORDIV:
        put(e, &a, s->args[0], below ? B_ATOM : B_PRODUCT);
        put(e, &b, s->args[1], B_ATOM);
        if (below && !e->roughly)
            fx_printf(t, "(%s >= 0 ? %s / %s : -((%s - 1 - %s) / %s))", a.data, a.data, b.data, b.data, a.data, b.data);
        else
            fx_printf(t, "%s / %s", a.data, b.data);
        break;
    case FX_SYM_CEILDIV:
        put(e, &a, s->args[0], below ? B_ATOM : B_SUM);
        put(e, &b, s->args[1], B_ATOM);
        if (below && !e->roughly)
            fx_printf(t, "(%s > 0 ? (%s + %s - 1) / %s : %s / %s)", a.data, a.data, b.data, b.data, a.data, b.data);
        else
            fx_printf(t, "(%s + %s - 1) / %s", a.data, b.data, b.data);
        break;
    case FX_SYM_MOD:
        put(e, &a, s->args[0], below ? B_ATOM : B_PRODUCT);
        put(e, &b, s->args[1], B_ATOM);
        if (e->roughly)
            fx_puts(t, b.data);
        else if (below)
            fx_printf(t, "((%s %% %s + %s) %% %s)", a.data, b.data, b.data, b.data);
        else
            fx_printf(t, "%s %% %s", a.data, b.data);
        break;
    case FX_SYM_OPAQUE: /* refused by the scan */
        fx_puts(t, "0");
        break;
    }
    fx_puts(t, close ? ")" : "");
}

const char *fx_c_dim(fx_emit *e, fx_dim d)
{
    fx_text t;
    fx_text_init(&t, e->local);
    d = fx_c_derive(e, d);
    if (d.sym)
        put(e, &t, d.sym, B_SUM);
    else
        put_number(&t, d.value);
    return t.data;
}

const char *fx_c_factor(fx_emit *e, fx_dim d)
{
    fx_text t;
    fx_text_init(&t, e->local);
    put(e, &t, fx_dim_as_sym(e->ctx, fx_c_derive(e, d)), B_ATOM);
    return t.data;
}

const char *fx_c_multiplier(fx_emit *e, fx_dim d)
{
    d = fx_c_derive(e, d);
    return d.sym && d.sym->kind == FX_SYM_MUL && number_of(d.sym) > 0 ? fx_c_dim(e, d) : fx_c_factor(e, d);
}

bool fx_c_dim_negative(fx_dim d)
{
    return d.sym ? d.sym->kind == FX_SYM_MUL && number_of(d.sym) < 0 : d.value < 0;
}

void fx_put_dims(fx_emit *e, fx_text *t, int rank, const fx_dim *dims, const char *between)
{
    if (rank == 0)
        fx_puts(t, "scalar");
    bool by = strcmp(between, "x") == 0; /* 1x3x32x32, batch x 3 x 32 x 32 */
    for (int i = 0; by && i < rank; i++)
        if (!fx_dim_known(dims[i]))
            between = " x ";
    for (int i = 0; i < rank; i++)
        fx_printf(t, "%s%s", i ? between : "", by ? fx_c_factor(e, dims[i]) : fx_c_dim(e, dims[i]));
}
