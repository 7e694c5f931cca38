/* ir/dim.c: arithmetic on dimensions: numbers, or expressions over symbols; their values and bounds.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Expressions stay polynomials in canonical form (sums of products), so that equal sizes are the same pointer. */
#include <string.h>

#include "ir/context.h"

fx_symbols fx_graph_symbols(const fx_graph *g)
{
    return (fx_symbols){g->n_symbols, g->symbols};
}

fx_dim fx_dim_of(int64_t v)
{
    return (fx_dim){.value = v};
}

fx_dim fx_dim_sym(const fx_sym *s)
{
    return s->kind == FX_SYM_INT ? fx_dim_of(s->value) : (fx_dim){.sym = s};
}

const fx_sym *fx_dim_as_sym(fx_context *ctx, fx_dim d)
{
    return d.sym ? d.sym : fx_sym_int(ctx, d.value);
}

bool fx_dim_known(fx_dim d)
{
    return !d.sym;
}

bool fx_dim_is(fx_dim d, int64_t v)
{
    return !d.sym && d.value == v;
}

bool fx_dim_equal(fx_dim a, fx_dim b)
{
    return a.sym == b.sym && (a.sym || a.value == b.value);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------- */

static fx_dim make(fx_context *ctx, fx_sym_kind kind, fx_dim a, fx_dim b)
{
    const fx_sym *args[2] = {fx_dim_as_sym(ctx, a), fx_dim_as_sym(ctx, b)};
    return fx_dim_sym(fx_sym_make(ctx, kind, 2, args));
}

fx_dim fx_dim_add(fx_context *ctx, fx_dim a, fx_dim b)
{
    int64_t v;
    if (!a.sym && !b.sym && !__builtin_add_overflow(a.value, b.value, &v))
        return fx_dim_of(v);
    return make(ctx, FX_SYM_ADD, a, b);
}

fx_dim fx_dim_scale(fx_context *ctx, fx_dim a, int64_t factor)
{
    return fx_dim_mul(ctx, a, fx_dim_of(factor));
}

fx_dim fx_dim_plus(fx_context *ctx, fx_dim a, int64_t v)
{
    return fx_dim_add(ctx, a, fx_dim_of(v));
}

fx_dim fx_dim_sub(fx_context *ctx, fx_dim a, fx_dim b)
{
    int64_t v;
    if (!a.sym && !b.sym && !__builtin_sub_overflow(a.value, b.value, &v))
        return fx_dim_of(v);
    return fx_dim_add(ctx, a, fx_dim_scale(ctx, b, -1));
}

/* Sums are multiplied out, so that a product has one form. */
fx_dim fx_dim_mul(fx_context *ctx, fx_dim a, fx_dim b)
{
    int64_t v;
    if (!a.sym && !b.sym && !__builtin_mul_overflow(a.value, b.value, &v))
        return fx_dim_of(v);
    if (fx_dim_is(a, 1))
        return b;
    if (fx_dim_is(b, 1))
        return a;
    if (!a.sym || (b.sym && b.sym->kind == FX_SYM_ADD && a.sym->kind != FX_SYM_ADD)) {
        fx_dim t = a;
        a = b;
        b = t;
    }
    /* Products that no sizes have stay as they are, so that no text can make one grow without bound. */
    int n_b = b.sym && b.sym->kind == FX_SYM_ADD ? b.sym->n : 1;
    if (a.sym && a.sym->kind == FX_SYM_ADD && b.sym && a.sym->n * n_b <= 256) {
        fx_dim sum = fx_dim_of(0);
        for (int i = 0; i < a.sym->n; i++)
            sum = fx_dim_add(ctx, sum, fx_dim_mul(ctx, fx_dim_sym(a.sym->args[i]), b));
        return sum;
    }
    return make(ctx, FX_SYM_MUL, a, b);
}

fx_dim fx_dim_max(fx_context *ctx, fx_dim a, fx_dim b)
{
    if (!a.sym && !b.sym)
        return a.value > b.value ? a : b;
    return make(ctx, FX_SYM_MAX, a, b);
}

/* A term as coefficient times factors. */
int64_t fx_sym_factors(const fx_sym *term, int *n, const fx_sym *const **args, const fx_sym **one)
{
    *n = 1;
    *one = term;
    *args = one;
    if (term->kind == FX_SYM_INT) {
        *n = 0;
        return term->value;
    }
    if (term->kind != FX_SYM_MUL)
        return 1;
    *args = term->args;
    *n = term->n;
    if (term->args[0]->kind != FX_SYM_INT)
        return 1;
    ++*args;
    --*n;
    return term->args[0]->value;
}

int64_t fx_gcd(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

int64_t fx_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t fx_dim_content(fx_dim d, int64_t with)
{
    const fx_sym *one, *const *args, *alone = d.sym;
    int n, terms = d.sym && d.sym->kind == FX_SYM_ADD ? d.sym->n : 1;
    for (int i = 0; i < terms; i++) {
        const fx_sym *term = d.sym && d.sym->kind == FX_SYM_ADD ? d.sym->args[i] : alone;
        int64_t c = d.sym ? fx_sym_factors(term, &n, &args, &one) : d.value;
        if (c == INT64_MIN)
            return 1;
        with = fx_gcd(with, c);
    }
    return with;
}

/* term / by for single terms. */
static bool divide_term(fx_context *ctx, const fx_sym *term, const fx_sym *by, fx_dim *out)
{
    const fx_sym *one_t, *one_b, *const *ft, *const *fb;
    int nt, nb;
    int64_t ct = fx_sym_factors(term, &nt, &ft, &one_t), cb = fx_sym_factors(by, &nb, &fb, &one_b);
    if (cb == 0 || (cb == -1 && ct == INT64_MIN) || ct % cb || nt > 16)
        return false;
    bool used[16] = {false};
    for (int i = 0; i < nb; i++) {
        int k = 0;
        while (k < nt && (used[k] || ft[k] != fb[i]))
            k++;
        if (k == nt)
            return false;
        used[k] = true;
    }
    *out = fx_dim_of(ct / cb);
    for (int k = 0; k < nt; k++)
        if (!used[k])
            *out = fx_dim_mul(ctx, *out, fx_dim_sym(ft[k]));
    return true;
}

/* Whether one product of symbols comes after another in an order that multiplying by a third keeps: more factors first, then the last of those
 * that differ (a graded reverse lexicographic one: factors of a product are sorted). */
static bool is_after(const fx_sym *a, const fx_sym *b)
{
    const fx_sym *one_a, *one_b, *const *fa, *const *fb;
    int na, nb;
    fx_sym_factors(a, &na, &fa, &one_a);
    fx_sym_factors(b, &nb, &fb, &one_b);
    for (int i = 0; na == nb && i < na; i++)
        if (fa[i] != fb[i])
            return fx_sym_compare(fa[i], fb[i]) > 0;
    return na > nb;
}

static const fx_sym *leading(const fx_sym *s)
{
    const fx_sym *last = s->kind == FX_SYM_ADD ? s->args[0] : s;
    for (int i = 1; s->kind == FX_SYM_ADD && i < s->n; i++)
        if (is_after(s->args[i], last))
            last = s->args[i];
    return last;
}

/* Long division of polynomials: the leading term of what is left by b's, until nothing is. */
static bool divide_by_sum(fx_context *ctx, fx_dim a, fx_dim b, fx_dim *quotient)
{
    enum { STEPS = 32 };
    fx_dim rest = a, part, q = fx_dim_of(0);
    for (int step = 0; step < STEPS && !fx_dim_is(rest, 0); step++) {
        if (!divide_term(ctx, leading(fx_dim_as_sym(ctx, rest)), leading(b.sym), &part))
            return false;
        q = fx_dim_add(ctx, q, part);
        rest = fx_dim_sub(ctx, rest, fx_dim_mul(ctx, part, b));
    }
    if (!fx_dim_is(rest, 0))
        return false;
    *quotient = q;
    return true;
}

bool fx_dim_divide(fx_context *ctx, fx_dim a, fx_dim b, fx_dim *quotient)
{
    if (fx_dim_is(b, 0))
        return false;
    if (fx_dim_equal(a, b) || fx_dim_is(b, 1)) {
        *quotient = fx_dim_is(b, 1) ? a : fx_dim_of(1);
        return true;
    }
    if (!a.sym && !b.sym) {
        if (b.value == -1) {
            *quotient = fx_dim_scale(ctx, a, -1);
            return true;
        }
        if (a.value % b.value)
            return false;
        *quotient = fx_dim_of(a.value / b.value);
        return true;
    }
    const fx_sym *sa = fx_dim_as_sym(ctx, a), *sb = fx_dim_as_sym(ctx, b);
    bool sum = sa->kind == FX_SYM_ADD;
    int n = sum ? sa->n : 1;
    const fx_sym *const *terms = sum ? sa->args : &sa;
    if (sb->kind == FX_SYM_ADD)
        return divide_by_sum(ctx, a, b, quotient);
    fx_dim q = fx_dim_of(0);
    for (int i = 0; i < n; i++) {
        fx_dim part;
        if (!divide_term(ctx, terms[i], sb, &part))
            return false;
        q = fx_dim_add(ctx, q, part);
    }
    *quotient = q;
    return true;
}

fx_dim fx_dim_floordiv(fx_context *ctx, fx_dim a, fx_dim b)
{
    fx_dim q, whole = fx_dim_of(0), rest = fx_dim_of(0);
    if (fx_dim_divide(ctx, a, b, &q))
        return q;
    for (int i = 0; a.sym && a.sym->kind == FX_SYM_ADD && i < a.sym->n; i++) { /* (2*s - 1)//2 is s + -1//2, as torch has it */
        fx_dim term = fx_dim_sym(a.sym->args[i]);
        if (fx_dim_divide(ctx, term, b, &q))
            whole = fx_dim_add(ctx, whole, q);
        else
            rest = fx_dim_add(ctx, rest, term);
    }
    if (fx_dim_is(whole, 0))
        return make(ctx, FX_SYM_FLOORDIV, a, b);
    return fx_dim_add(ctx, whole, fx_dim_floordiv(ctx, rest, b));
}

fx_dim fx_dim_mod(fx_context *ctx, fx_dim a, fx_dim b)
{
    fx_dim q;
    return fx_dim_divide(ctx, a, b, &q) ? fx_dim_of(0) : make(ctx, FX_SYM_MOD, a, b);
}

/* ---- values and bounds ----------------------------------------------------------------------------------------- */

/* INT64_MIN and INT64_MAX stand for no bound. */
static bool is_bounded(int64_t v)
{
    return v != INT64_MIN && v != INT64_MAX;
}

static int64_t clip(__int128 v)
{
    return v >= INT64_MAX ? INT64_MAX : v <= INT64_MIN ? INT64_MIN : (int64_t)v;
}

static int64_t times(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return 0;
    if (!is_bounded(a) || !is_bounded(b))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return clip((__int128)a * b);
}

static int64_t plus(int64_t a, int64_t b)
{
    if (!is_bounded(a))
        return a;
    return is_bounded(b) ? clip((__int128)a + b) : b;
}

static int64_t floor_of(int64_t a, int64_t b)
{
    if (!is_bounded(a))
        return a;
    if (!is_bounded(b))
        return a < 0 ? -1 : 0;
    return fx_floor_div(a, b);
}

static int symbol_at(fx_symbols symbols, const char *name)
{
    for (size_t i = 0; i < symbols.n; i++)
        if (symbols.v[i].name == name || strcmp(symbols.v[i].name, name) == 0)
            return (int)i;
    return -1;
}

static void bounds(fx_symbols symbols, const fx_sym *s, int64_t *lo, int64_t *hi)
{
    int64_t l, h;
    *lo = INT64_MIN;
    *hi = INT64_MAX;
    switch (s->kind) {
    case FX_SYM_INT:
        *lo = *hi = s->value;
        return;
    case FX_SYM_SYMBOL: {
        int at = symbol_at(symbols, s->name);
        if (at >= 0) {
            *lo = symbols.v[at].min;
            *hi = symbols.v[at].max;
        }
        return;
    }
    case FX_SYM_ADD:
        *lo = *hi = 0;
        for (int i = 0; i < s->n; i++) {
            bounds(symbols, s->args[i], &l, &h);
            *lo = *lo == INT64_MIN || l == INT64_MIN ? INT64_MIN : plus(*lo, l);
            *hi = *hi == INT64_MAX || h == INT64_MAX ? INT64_MAX : plus(*hi, h);
        }
        return;
    case FX_SYM_MUL:
        *lo = *hi = 1;
        for (int i = 0; i < s->n; i++) {
            bounds(symbols, s->args[i], &l, &h);
            int64_t p[4] = {times(*lo, l), times(*lo, h), times(*hi, l), times(*hi, h)};
            *lo = *hi = p[0];
            for (int k = 1; k < 4; k++) {
                *lo = p[k] < *lo ? p[k] : *lo;
                *hi = p[k] > *hi ? p[k] : *hi;
            }
        }
        return;
    case FX_SYM_MAX:
    case FX_SYM_MIN:
        bounds(symbols, s->args[0], lo, hi);
        for (int i = 1; i < s->n; i++) {
            bounds(symbols, s->args[i], &l, &h);
            bool max = s->kind == FX_SYM_MAX;
            *lo = (l > *lo) == max ? l : *lo;
            *hi = (h > *hi) == max ? h : *hi;
        }
        return;
    case FX_SYM_FLOORDIV:
    case FX_SYM_CEILDIV:
    case FX_SYM_MOD: {
        int64_t bl, bh;
        bounds(symbols, s->args[0], &l, &h);
        bounds(symbols, s->args[1], &bl, &bh);
        if (bl < 1)
            return;
        if (s->kind == FX_SYM_MOD) {
            *lo = 0;
            *hi = bh == INT64_MAX ? INT64_MAX : bh - 1;
            if (l >= 0 && h < *hi)
                *hi = h;
            return;
        }
        int64_t up = s->kind == FX_SYM_CEILDIV;
        *lo = floor_of(l, l >= 0 ? bh : bl);
        *hi = floor_of(h, h >= 0 ? bl : bh);
        if (up && is_bounded(*hi))
            ++*hi;
        return;
    }
    case FX_SYM_POW:
    case FX_SYM_OPAQUE:
        return;
    }
}

void fx_dim_bounds(fx_symbols symbols, fx_dim d, int64_t *lo, int64_t *hi)
{
    *lo = *hi = d.value;
    if (d.sym)
        bounds(symbols, d.sym, lo, hi);
}

/* How far the range of symbol i can be cut from `from` towards `to`, since d is below 1 there. */
static int64_t cut_range(fx_symbols symbols, const fx_sym_range *all, size_t i, int64_t from, int64_t to, fx_dim d)
{
    enum { MOST_STEPS = 512, MOST_SYMBOLS = 16 };
    fx_sym_range ranges[MOST_SYMBOLS];
    int64_t lo, hi;
    if (symbols.n > MOST_SYMBOLS || !is_bounded(from))
        return from;
    memcpy(ranges, all, symbols.n * sizeof *ranges);
    for (int k = 0; k < MOST_STEPS && from != to; k++) {
        ranges[i].min = ranges[i].max = from;
        fx_dim_bounds((fx_symbols){symbols.n, ranges}, d, &lo, &hi);
        if (hi >= 1)
            break;
        from += from < to ? 1 : -1;
    }
    return from;
}

fx_symbols fx_dim_where_positive(fx_arena *arena, fx_symbols symbols, fx_dim d)
{
    fx_sym_range *own = NULL; /* a copy, once something changes */
    for (size_t i = 0; d.sym && i < symbols.n; i++) {
        const fx_sym_range *v = own ? own : symbols.v;
        int64_t min = cut_range(symbols, v, i, v[i].min, v[i].max, d), max = cut_range(symbols, v, i, v[i].max, min, d);
        if (min == v[i].min && max == v[i].max)
            continue;
        if (!own)
            own = fx_arena_dup(arena, symbols.v, symbols.n * sizeof *own);
        own[i].min = min;
        own[i].max = max;
    }
    return own ? (fx_symbols){symbols.n, own} : symbols;
}

static bool eval(fx_symbols symbols, const int64_t *values, const fx_sym *s, int64_t *out)
{
    if (s->kind == FX_SYM_INT) {
        *out = s->value;
        return true;
    }
    if (s->kind == FX_SYM_SYMBOL) {
        int at = symbol_at(symbols, s->name);
        if (at >= 0)
            *out = values[at];
        return at >= 0;
    }
    if (s->kind == FX_SYM_OPAQUE || s->n < 1 || !eval(symbols, values, s->args[0], out))
        return false;
    for (int i = 1; i < s->n; i++) {
        int64_t v, a = *out;
        if (!eval(symbols, values, s->args[i], &v))
            return false;
        switch (s->kind) {
        case FX_SYM_ADD:
            if (__builtin_add_overflow(a, v, out))
                return false;
            break;
        case FX_SYM_MUL:
            if (__builtin_mul_overflow(a, v, out))
                return false;
            break;
        case FX_SYM_MAX: *out = v > a ? v : a; break;
        case FX_SYM_MIN: *out = v < a ? v : a; break;
        case FX_SYM_POW:
            if (v < 0)
                return false;
            *out = 1;
            for (; v > 0; v--)
                if (__builtin_mul_overflow(*out, a, out) || v > 64)
                    return false;
            break;
        default:
            if (v == 0 || (a == INT64_MIN && v == -1))
                return false;
            *out = floor_of(a, v);
            if (s->kind == FX_SYM_CEILDIV)
                *out += a % v != 0;
            else if (s->kind == FX_SYM_MOD)
                *out = a - *out * v;
        }
    }
    return true;
}

bool fx_dim_eval(fx_symbols symbols, const int64_t *values, fx_dim d, int64_t *out)
{
    *out = d.value;
    return !d.sym || eval(symbols, values, d.sym, out);
}

void fx_dim_print(fx_text *t, fx_dim d)
{
    if (d.sym)
        fx_sym_print(t, d.sym);
    else
        fx_printf(t, "%lld", (long long)d.value);
}
