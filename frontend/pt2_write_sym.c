/* frontend/pt2_write_sym.c: symbolic sizes as torch writes them: sympy's srepr, with the value each has in an example.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/pt2.h"

static const fx_sym_range *range_of(const fx_pt2_out *w, const char *name)
{
    for (size_t i = 0; i < w->g->n_symbols; i++)
        if (w->g->symbols[i].name == name)
            return &w->g->symbols[i];
    return NULL;
}

/* torch gives each symbol the size of the example input. Ours is any in its range, different ones where that allows. */
static int64_t example(const fx_pt2_out *w, const char *name)
{
    const fx_sym_range *r = range_of(w, name);
    int64_t v = 4 + (r ? r - w->g->symbols : 0);
    if (r && v < r->min)
        v = r->min;
    return r && v > r->max ? r->max : v;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* The value in the example; false when it has none or none of 64 bits. Expressions are as deep as their texts were. */
static bool value_of(const fx_pt2_out *w, const fx_sym *s, int64_t *out)
{
    int64_t v = 0, a;
    switch (s->kind) {
    case FX_SYM_INT: *out = s->value; return true;
    case FX_SYM_SYMBOL: *out = example(w, s->name); return true;
    case FX_SYM_OPAQUE: return false;
    default: break;
    }
    if (s->n < 1 || !value_of(w, s->args[0], &v))
        return false;
    for (int i = 1; i < s->n; i++) {
        bool bad = !value_of(w, s->args[i], &a);
        switch (bad ? FX_SYM_OPAQUE : s->kind) {
        case FX_SYM_ADD: bad = __builtin_add_overflow(v, a, &v); break;
        case FX_SYM_MUL: bad = __builtin_mul_overflow(v, a, &v); break;
        case FX_SYM_MAX: v = a > v ? a : v; break;
        case FX_SYM_MIN: v = a < v ? a : v; break;
        case FX_SYM_FLOORDIV:
        case FX_SYM_MOD:
            bad = a <= 0;
            v = bad ? 0 : s->kind == FX_SYM_MOD ? v - a * floor_div(v, a) : floor_div(v, a);
            break;
        default: bad = true; break;
        }
        if (bad)
            return false;
    }
    *out = v;
    return true;
}

static bool put_srepr(const fx_pt2_out *w, fx_text *t, const fx_sym *s)
{
    static const char *const names[] = {[FX_SYM_ADD] = "Add", [FX_SYM_MUL] = "Mul", [FX_SYM_FLOORDIV] = "FloorDiv", [FX_SYM_MOD] = "Mod",
                                        [FX_SYM_MAX] = "Max", [FX_SYM_MIN] = "Min"};
    const fx_sym_range *r = s->kind == FX_SYM_SYMBOL ? range_of(w, s->name) : NULL;
    switch (s->kind) {
    case FX_SYM_INT: fx_printf(t, "Integer(%lld)", (long long)s->value); return true;
    case FX_SYM_SYMBOL:
        if (strpbrk(s->name, "'\\\n"))
            return false;
        fx_printf(t, "Symbol('%s'%s, integer=True)", s->name, r && r->min > 0 ? ", positive=True" : "");
        return true;
    default: break;
    }
    if ((size_t)s->kind >= sizeof names / sizeof *names || !names[s->kind])
        return false;
    fx_printf(t, "%s(", names[s->kind]);
    for (int i = 0; i < s->n; i++) {
        fx_puts(t, i ? ", " : "");
        if (!put_srepr(w, t, s->args[i]))
            return false;
    }
    fx_puts(t, ")");
    return true;
}

void fx_pt2_put_dim(fx_pt2_out *w, fx_dim d)
{
    fx_text t;
    int64_t hint;
    if (!d.sym) {
        fx_printf(&w->json, "{\"as_int\": %lld}", (long long)d.value);
        return;
    }
    fx_text_init(&t, w->tmp);
    if (!value_of(w, d.sym, &hint) || !put_srepr(w, &t, d.sym)) {
        fx_text shown;
        fx_text_init(&shown, w->tmp);
        fx_sym_print(&shown, d.sym);
        if (w->status == FX_OK)
            w->status = fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &w->loc, "a .pt2 cannot hold the size %s: write a .fx", shown.data);
        return;
    }
    fx_puts(&w->json, "{\"as_expr\": {\"expr_str\": ");
    fx_pt2_put(w, t.data);
    fx_printf(&w->json, ", \"hint\": {\"as_int\": %lld}}}", (long long)hint);
}

void fx_pt2_put_ranges(fx_pt2_out *w)
{
    fx_puts(&w->json, "{");
    for (size_t i = 0; i < w->g->n_symbols; i++) {
        const fx_sym_range *r = &w->g->symbols[i];
        fx_puts(&w->json, i ? ", " : "");
        fx_pt2_put(w, r->name);
        fx_puts(&w->json, ": {\"min_val\": ");
        r->min == INT64_MIN ? fx_puts(&w->json, "null") : fx_printf(&w->json, "%lld", (long long)r->min);
        fx_puts(&w->json, ", \"max_val\": ");
        r->max == INT64_MAX ? fx_puts(&w->json, "null") : fx_printf(&w->json, "%lld", (long long)r->max);
        fx_puts(&w->json, "}");
    }
    fx_puts(&w->json, "}");
}
