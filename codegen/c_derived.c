/* codegen/c_derived.c: names for sizes that are quotients, remainders or extrema of others: what a strided convolution leaves of a picture.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * With h2 for (h - 1) / 2 + 1, sizes and strides multiply out to h2 * w2 * 8 instead of four products of quotients. Functions that use such a
 * name define it first. */
#include <string.h>

#include "codegen/emit.h"

static bool is_derived(fx_sym_kind k)
{
    return k == FX_SYM_FLOORDIV || k == FX_SYM_CEILDIV || k == FX_SYM_MOD || k == FX_SYM_MAX || k == FX_SYM_MIN;
}

/* s with the derived sizes before `limit` by name. */
static const fx_sym *replace(fx_emit *e, const fx_sym *s, size_t limit)
{
    if (s->kind == FX_SYM_INT || s->kind == FX_SYM_SYMBOL || s->kind == FX_SYM_OPAQUE)
        return s;
    for (size_t i = 0; i < limit && is_derived(s->kind); i++)
        if (e->derived[i].what == s)
            return fx_dim_as_sym(e->ctx, fx_dim_plus(e->ctx, fx_dim_sym(e->derived[i].symbol), -e->derived[i].offset));
    const fx_sym **args = FX_NEW_ARRAY(e->arena, const fx_sym *, s->n);
    bool same = true;
    for (int i = 0; i < s->n; i++) {
        args[i] = replace(e, s->args[i], limit);
        same &= args[i] == s->args[i];
    }
    if (same)
        return s;
    if (s->kind != FX_SYM_MUL)
        return fx_sym_make(e->ctx, s->kind, s->n, args);
    fx_dim product = fx_dim_of(1); /* which multiplies sums out */
    for (int i = 0; i < s->n; i++)
        product = fx_dim_mul(e->ctx, product, fx_dim_sym(args[i]));
    return fx_dim_as_sym(e->ctx, product);
}

fx_dim fx_c_derive(fx_emit *e, fx_dim d)
{
    if (!d.sym || !e->deriving || e->n_derived == 0)
        return d;
    const fx_sym *done = fx_map_get(&e->replaced, d.sym);
    if (!done) {
        done = replace(e, d.sym, e->n_derived);
        fx_map_put(e->arena, &e->replaced, d.sym, (void *)(uintptr_t)done);
    }
    return fx_dim_sym(done);
}

/* A size that is one such expression, and maybe a number more. */
static void consider(fx_emit *e, fx_names *names, fx_dim d)
{
    enum { MOST = 64 };
    const fx_sym *s = d.sym, *what = NULL;
    int64_t offset = 0;
    if (!s)
        return;
    if (is_derived(s->kind)) {
        what = s;
    } else if (s->kind == FX_SYM_ADD && s->n == 2) {
        for (int i = 0; i < 2; i++)
            if (is_derived(s->args[i]->kind) && s->args[1 - i]->kind == FX_SYM_INT) {
                what = s->args[i];
                offset = s->args[1 - i]->value;
            }
    }
    for (size_t i = 0; what && i < e->n_derived; i++)
        if (e->derived[i].what == what)
            return;
    if (!what || e->n_derived == MOST)
        return;
    const fx_sym *base = what;
    while (base->n > 0)
        base = base->args[0]->kind == FX_SYM_INT && base->n > 1 ? base->args[1] : base->args[0];
    const char *wanted = base->kind == FX_SYM_SYMBOL ? fx_arena_printf(e->arena, "%s_%zu", base->name, e->n_derived + 1) : "size";
    fx_derived made = {.what = what, .offset = offset, .name = fx_names_make(names, wanted, 32, "size")};
    made.symbol = fx_sym_symbol(e->ctx, fx_intern(e->ctx, fx_arena_printf(e->arena, "#%s", made.name))); /* no model's name */
    const fx_sym **args = FX_NEW_ARRAY(e->arena, const fx_sym *, what->n);
    for (int i = 0; i < what->n; i++)
        args[i] = replace(e, what->args[i], e->n_derived);
    made.value = fx_dim_plus(e->ctx, fx_dim_sym(fx_sym_make(e->ctx, what->kind, what->n, args)), offset);
    fx_dim_bounds(fx_program_symbols(e->p), d, &made.min, &made.max);
    FX_PUSH(e->arena, e->derived, e->n_derived, e->cap_derived) = made;
}

void fx_c_find_derived(fx_emit *e, fx_names *names)
{
    const fx_program *p = e->p;
    for (size_t i = 0; p->n_symbols && i < p->n_bufs; i++)
        for (int d = 0; d < p->bufs[i].rank; d++)
            consider(e, names, p->bufs[i].dims[d]);
    e->n_sizes = p->n_symbols + e->n_derived;
    fx_sym_range *all = FX_NEW_ARRAY(e->arena, fx_sym_range, e->n_sizes + 1);
    const char **called = FX_NEW_ARRAY(e->arena, const char *, e->n_sizes + 1);
    for (size_t i = 0; i < e->n_sizes; i++) {
        const fx_derived *d = i < p->n_symbols ? NULL : &e->derived[i - p->n_symbols];
        all[i] = d ? (fx_sym_range){d->symbol->name, d->min, d->max} : p->symbols[i];
        called[i] = d ? d->name : e->symbols[i];
    }
    e->sizes = all;
    e->symbols = called;
}

void fx_c_derived_locals(fx_emit *e, fx_text *t, const char *type, const bool *used)
{
    bool deriving = e->deriving;
    e->deriving = false; /* definitions name those before them, not themselves */
    for (size_t i = 0; i < e->n_derived; i++)
        if (used[e->p->n_symbols + i])
            fx_printf(t, "%s    const %s %s = %s;\n", e->roughly ? "    " : "", type, e->derived[i].name, fx_c_dim(e, e->derived[i].value));
    e->deriving = deriving;
}
