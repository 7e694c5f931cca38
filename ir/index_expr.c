/* ir/index_expr.c: index expressions: sums of dims and of (sum // D) % M, kept in a simplified form.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Everything rests on one step: g*A + r with 0 <= r < g, divided by or taken modulo something that g divides, leaves r whole.
 * Candidates for g are common divisors of coefficients, divisor and modulus; 0 <= r < g is proved from the bounds of the dims. */
#include <stdlib.h>
#include <string.h>

#include "ir/index_expr.h"

/* ---- dims ---------------------------------------------------------------------------------------------------- */

static bool at_least(const fx_imaps *m, fx_dim a, fx_dim b)
{
    return !a.sym && !b.sym ? a.value >= b.value : fx_dim_equal(a, b) || fx_dim_le(m->ctx, m->symbols, b, a);
}

static bool is_negative(const fx_imaps *m, fx_dim a)
{
    return at_least(m, fx_dim_of(-1), a);
}

static bool divides(const fx_imaps *m, fx_dim g, fx_dim a)
{
    fx_dim q;
    return !fx_dim_is(g, 0) && fx_dim_divide(m->ctx, a, g, &q);
}

static fx_dim quotient(const fx_imaps *m, fx_dim a, fx_dim g)
{
    fx_dim q = fx_dim_of(0);
    fx_dim_divide(m->ctx, a, g, &q);
    return q;
}

/* A product as number times factors; sums and the rest are one factor. */
static int64_t factors(const fx_sym *s, int *n, const fx_sym *const **f, const fx_sym **one)
{
    *one = s;
    *f = one;
    *n = s->kind != FX_SYM_INT;
    if (s->kind == FX_SYM_INT)
        return s->value;
    if (s->kind != FX_SYM_MUL)
        return 1;
    bool number = s->args[0]->kind == FX_SYM_INT;
    *f = s->args + number;
    *n = s->n - number;
    return number ? s->args[0]->value : 1;
}

/* A common divisor of two dims, the largest that products show; not negative. */
static fx_dim common(const fx_imaps *m, fx_dim a, fx_dim b)
{
    if (fx_dim_is(a, 0) || fx_dim_is(b, 0))
        return fx_dim_is(a, 0) ? b : a;
    if (!a.sym && !b.sym)
        return fx_dim_of(fx_gcd(a.value, b.value));
    if (divides(m, a, b) && (a.sym || a.value > 0))
        return a;
    if (divides(m, b, a) && (b.sym || b.value > 0))
        return b;
    const fx_sym *oa, *ob, *const *fa, *const *fb;
    int na, nb;
    int64_t ca = factors(fx_dim_as_sym(m->ctx, a), &na, &fa, &oa), cb = factors(fx_dim_as_sym(m->ctx, b), &nb, &fb, &ob);
    fx_dim g = fx_dim_of(fx_gcd(ca, cb));
    bool used[16] = {false};
    for (int i = 0; i < na; i++)
        for (int k = 0; k < nb && k < 16; k++)
            if (!used[k] && fa[i] == fb[k]) {
                used[k] = true;
                g = fx_dim_mul(m->ctx, g, fx_dim_sym(fa[i]));
                break;
            }
    return g;
}

/* a = by * q + r, where r keeps what by does not divide: of numbers the remainder, of sums the terms left over. */
static void split_dim(const fx_imaps *m, fx_dim a, fx_dim by, fx_dim *q, fx_dim *r)
{
    *q = fx_dim_of(0);
    *r = a;
    if (!a.sym && !by.sym) {
        int64_t v = a.value / by.value - (a.value % by.value < 0);
        *q = fx_dim_of(v);
        *r = fx_dim_of(a.value - v * by.value);
        return;
    }
    if (fx_dim_divide(m->ctx, a, by, q)) {
        *r = fx_dim_of(0);
        return;
    }
    *q = *r = fx_dim_of(0);
    bool sum = a.sym && a.sym->kind == FX_SYM_ADD;
    for (int i = 0; i < (sum ? a.sym->n : 1); i++) {
        fx_dim t = sum ? fx_dim_sym(a.sym->args[i]) : a, part;
        if (fx_dim_divide(m->ctx, t, by, &part))
            *q = fx_dim_add(m->ctx, *q, part);
        else if (!t.sym && !by.sym) { /* the number in a sum */
            int64_t v = t.value / by.value - (t.value % by.value < 0);
            *q = fx_dim_plus(m->ctx, *q, v);
            *r = fx_dim_plus(m->ctx, *r, t.value - v * by.value);
        } else
            *r = fx_dim_add(m->ctx, *r, t);
    }
}

/* floor(a / by), without a division where the parts show it. */
fx_dim fx_ix_floor(const fx_imaps *m, fx_dim a, fx_dim by)
{
    fx_dim q, r;
    split_dim(m, a, by, &q, &r);
    if (at_least(m, r, fx_dim_of(0))) {
        if (at_least(m, by, fx_dim_plus(m->ctx, r, 1)))
            return q;
    } else if (is_negative(m, r) && at_least(m, fx_dim_add(m->ctx, by, r), fx_dim_of(0))) {
        return fx_dim_plus(m->ctx, q, -1);
    }
    return fx_dim_floordiv(m->ctx, a, by);
}

/* ---- sums ---------------------------------------------------------------------------------------------------- */

bool fx_ix_equal(const fx_ix *a, const fx_ix *b)
{
    if (a == b)
        return true;
    if (a->n != b->n || !fx_dim_equal(a->base, b->base))
        return false;
    for (int i = 0; i < a->n; i++) {
        int k = 0;
        while (k < b->n && !(fx_ix_same_atom(&a->term[i], &b->term[k]) && fx_dim_equal(a->term[i].coef, b->term[k].coef)))
            k++;
        if (k == b->n)
            return false;
    }
    return true;
}

bool fx_ix_same_atom(const fx_ix_term *a, const fx_ix_term *b)
{
    if (a->var >= 0 || b->var >= 0)
        return a->var == b->var;
    return fx_dim_equal(a->div, b->div) && fx_dim_equal(a->mod, b->mod) && fx_ix_equal(a->of, b->of);
}

typedef struct sum {
    fx_dim base;
    size_t n, cap;
    fx_ix_term *t;
} sum;

static void add_term(const fx_imaps *m, sum *s, fx_ix_term t)
{
    if (fx_dim_is(t.coef, 0))
        return;
    for (size_t i = 0; i < s->n; i++) {
        if (!fx_ix_same_atom(&s->t[i], &t))
            continue;
        s->t[i].coef = fx_dim_add(m->ctx, s->t[i].coef, t.coef);
        if (fx_dim_is(s->t[i].coef, 0)) {
            memmove(&s->t[i], &s->t[i + 1], (s->n - i - 1) * sizeof *s->t);
            s->n--;
        }
        return;
    }
    FX_PUSH(m->arena, s->t, s->n, s->cap) = t;
}

static void add_scaled(const fx_imaps *m, sum *s, const fx_ix *x, fx_dim factor)
{
    s->base = fx_dim_add(m->ctx, s->base, fx_dim_mul(m->ctx, x->base, factor));
    for (int i = 0; i < x->n; i++) {
        fx_ix_term t = x->term[i];
        t.coef = fx_dim_mul(m->ctx, t.coef, factor);
        add_term(m, s, t);
    }
}

static const fx_ix *digit(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, fx_dim div, fx_dim mod);

/* Two digits of one number, next to one another, are one: M*((x // (D*M)) % N) + (x // D) % M is (x // D) % (M*N). */
static bool join_digits(const fx_imaps *m, const fx_ix_space *space, sum *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->n; k++) {
            fx_ix_term hi = s->t[i], lo = s->t[k];
            if (i == k || hi.var >= 0 || lo.var >= 0 || fx_dim_is(lo.mod, 0) || !fx_ix_equal(hi.of, lo.of) ||
                !fx_dim_equal(hi.div, fx_dim_mul(m->ctx, lo.div, lo.mod)) ||
                !fx_dim_equal(hi.coef, fx_dim_mul(m->ctx, lo.coef, lo.mod)))
                continue;
            fx_dim mod = fx_dim_is(hi.mod, 0) ? fx_dim_of(0) : fx_dim_mul(m->ctx, lo.mod, hi.mod);
            size_t first = i < k ? i : k, second = i < k ? k : i;
            memmove(&s->t[second], &s->t[second + 1], (s->n - second - 1) * sizeof *s->t);
            memmove(&s->t[first], &s->t[first + 1], (s->n - first - 2) * sizeof *s->t);
            s->n -= 2;
            add_scaled(m, s, digit(m, space, lo.of, lo.div, mod), lo.coef);
            return true;
        }
    return false;
}

/* Where a term stands: plain dims first, by number; then digits by the dims in them. */
static int order_of(const fx_ix_term *t)
{
    int depth = 0;
    for (; t->var < 0 && t->of->n; t = &t->of->term[0])
        depth += 64;
    return depth + (t->var >= 0 ? t->var : 0);
}

static const fx_ix *finish(const fx_imaps *m, const fx_ix_space *space, sum *s)
{
    while (join_digits(m, space, s))
        ;
    for (size_t i = 1; i < s->n; i++) {
        fx_ix_term t = s->t[i];
        size_t k = i;
        for (; k > 0 && order_of(&s->t[k - 1]) > order_of(&t); k--)
            s->t[k] = s->t[k - 1];
        s->t[k] = t;
    }
    fx_ix *x = FX_NEW(m->arena, fx_ix);
    x->base = s->base;
    x->n = (int)s->n;
    x->term = s->t;
    return x;
}

/* ---- bounds ---------------------------------------------------------------------------------------------------- */

static bool atom_bounds(const fx_imaps *m, const fx_ix_space *s, const fx_ix_term *t, fx_dim *lo, fx_dim *hi)
{
    if (t->var >= 0) {
        if (!s || t->var >= s->rank)
            return false;
        *lo = s->lo ? s->lo[t->var] : fx_dim_of(0);
        *hi = fx_dim_plus(m->ctx, s->hi[t->var], -1);
        return true;
    }
    if (!fx_dim_is(t->mod, 0)) {
        *lo = fx_dim_of(0);
        *hi = fx_dim_plus(m->ctx, t->mod, -1);
        return true;
    }
    fx_dim l, h;
    if (!fx_ix_bounds(m, s, t->of, &l, &h))
        return false;
    *lo = fx_ix_floor(m, l, t->div);
    *hi = fx_ix_floor(m, h, t->div);
    return true;
}

static bool range(const fx_imaps *m, const fx_ix_space *s, fx_dim base, int n, const fx_ix_term *terms, fx_dim *lo, fx_dim *hi)
{
    *lo = *hi = base;
    for (int i = 0; i < n; i++) {
        const fx_ix_term *t = &terms[i];
        fx_dim l, h;
        if (!atom_bounds(m, s, t, &l, &h))
            return false;
        bool up = at_least(m, t->coef, fx_dim_of(0));
        if (!up && !is_negative(m, t->coef))
            return false;
        *lo = fx_dim_add(m->ctx, *lo, fx_dim_mul(m->ctx, t->coef, up ? l : h));
        *hi = fx_dim_add(m->ctx, *hi, fx_dim_mul(m->ctx, t->coef, up ? h : l));
    }
    return true;
}

bool fx_ix_bounds(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, fx_dim *lo, fx_dim *hi)
{
    return range(m, s, x->base, x->n, x->term, lo, hi);
}

/* ---- digits ---------------------------------------------------------------------------------------------------- */

bool fx_ix_split(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, fx_dim g, const fx_ix **whole, const fx_ix **rest)
{
    sum a = {.base = fx_dim_of(0)}, r = {.base = fx_dim_of(0)};
    split_dim(m, x->base, g, &a.base, &r.base);
    for (int i = 0; i < x->n; i++) {
        fx_ix_term t = x->term[i];
        if (divides(m, g, t.coef)) {
            t.coef = quotient(m, t.coef, g);
            add_term(m, &a, t);
        } else {
            add_term(m, &r, t);
        }
    }
    fx_dim lo, hi;
    if (!range(m, s, r.base, (int)r.n, r.t, &lo, &hi))
        return false;
    fx_dim shift = fx_ix_floor(m, lo, g); /* r may lie in [k*g, (k + 1)*g) */
    if (!fx_dim_is(shift, 0)) {
        a.base = fx_dim_add(m->ctx, a.base, shift);
        shift = fx_dim_mul(m->ctx, shift, g);
        r.base = fx_dim_sub(m->ctx, r.base, shift);
        lo = fx_dim_sub(m->ctx, lo, shift);
        hi = fx_dim_sub(m->ctx, hi, shift);
    }
    /* g is a divisor of something positive: not below 0 it is at least 1. */
    if (!at_least(m, lo, fx_dim_of(0)) || !(fx_dim_is(hi, 0) ? at_least(m, g, hi) : at_least(m, fx_dim_plus(m->ctx, g, -1), hi)))
        return false;
    *whole = finish(m, s, &a);
    *rest = finish(m, s, &r);
    return true;
}

/* Candidates for g: common divisors of `of` and the coefficients, alone and the largest ones together. */
int fx_ix_divisors(const fx_imaps *m, const fx_ix *x, fx_dim of, fx_dim *out)
{
    int n = 0;
    for (int i = 0; i < x->n && n + 2 <= FX_IX_DIVISORS; i++) {
        fx_dim alone = common(m, x->term[i].coef, of), group = alone;
        for (int k = 0; k < x->n; k++) {
            const fx_dim c = x->term[k].coef;
            bool numbers = !c.sym && !x->term[i].coef.sym;
            if (numbers ? llabs(c.value) >= llabs(x->term[i].coef.value) : divides(m, x->term[i].coef, c))
                group = common(m, c, group);
        }
        fx_dim both[2] = {alone, group};
        for (int b = 0; b < 2; b++) {
            bool known = fx_dim_is(both[b], 1) || fx_dim_is(both[b], 0);
            for (int k = 0; k < n && !known; k++)
                known = fx_dim_equal(out[k], both[b]);
            if (!known)
                out[n++] = both[b];
        }
    }
    return n;
}

static const fx_ix *sum_of(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, fx_dim fa, const fx_ix *b, fx_dim fb)
{
    sum r = {.base = fx_dim_of(0)};
    add_scaled(m, &r, a, fa);
    if (b)
        add_scaled(m, &r, b, fb);
    return finish(m, s, &r);
}

/* x = base - y, all of whose terms fall: the digits of kD - 1 - y are those of y turned around. */
static const fx_ix *turned(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, fx_dim div, fx_dim mod)
{
    fx_dim k, one = fx_dim_of(1), minus = fx_dim_of(-1);
    for (int i = 0; i < x->n; i++)
        if (!is_negative(m, x->term[i].coef))
            return NULL;
    bool has_mod = !fx_dim_is(mod, 0);
    if (!x->n || !fx_dim_divide(m->ctx, fx_dim_plus(m->ctx, x->base, 1), div, &k) || (has_mod && !divides(m, mod, k)))
        return NULL;
    fx_ix base = {.base = x->base}, top = {.base = fx_dim_plus(m->ctx, has_mod ? mod : k, -1)};
    return sum_of(m, s, &top, one, digit(m, s, sum_of(m, s, &base, one, x, minus), div, mod), minus);
}

/* A digit of a digit. */
static const fx_ix *nested(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, fx_dim div, fx_dim mod)
{
    const fx_ix_term *t = x->term;
    if (x->n != 1 || t->var >= 0 || !fx_dim_is(t->coef, 1))
        return NULL;
    fx_dim d = fx_dim_mul(m->ctx, t->div, div), left;
    if (fx_dim_is(t->mod, 0)) {
        fx_ix base = {.base = fx_dim_mul(m->ctx, x->base, t->div)};
        return digit(m, s, sum_of(m, s, t->of, fx_dim_of(1), &base, fx_dim_of(1)), d, mod);
    }
    if (!fx_dim_is(x->base, 0) || !fx_dim_divide(m->ctx, t->mod, div, &left))
        return NULL;
    if (fx_dim_is(mod, 0))
        return digit(m, s, t->of, d, left);
    return divides(m, mod, left) ? digit(m, s, t->of, d, mod) : NULL;
}

/* (x // div) % mod; mod 0: none. */
static const fx_ix *digit(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, fx_dim div, fx_dim mod)
{
    const fx_dim one = fx_dim_of(1), zero = fx_dim_of(0);
    bool has_mod = !fx_dim_is(mod, 0);
    if (fx_dim_is(mod, 1) || (!div.sym && div.value < 1) || (!mod.sym && mod.value < 0)) /* or of an empty tensor: never evaluated */
        return fx_ix_const(m, zero);
    if (!has_mod && fx_dim_is(div, 1))
        return x;
    fx_dim all = has_mod ? fx_dim_mul(m->ctx, div, mod) : div; /* not 0: both are positive */

    /* Multiples of div come out, those of div * mod vanish. */
    sum out = {.base = zero}, in = {.base = zero};
    fx_dim q;
    split_dim(m, x->base, all, &q, &in.base);
    if (!has_mod)
        out.base = q;
    for (int i = 0; i < x->n; i++) {
        fx_ix_term t = x->term[i];
        if (!divides(m, all, t.coef)) {
            add_term(m, &in, t);
        } else if (!has_mod) {
            t.coef = quotient(m, t.coef, div);
            add_term(m, &out, t);
        }
    }
    const fx_ix *rest = finish(m, s, &in);

    fx_dim lo, hi;
    if (fx_ix_bounds(m, s, rest, &lo, &hi)) {
        fx_dim at = fx_ix_floor(m, lo, all);
        fx_dim from = fx_dim_mul(m->ctx, at, all), to = fx_dim_plus(m->ctx, fx_dim_add(m->ctx, from, all), -1);
        if (at_least(m, lo, from) && at_least(m, to, hi)) { /* one digit throughout */
            if (!has_mod) {
                out.base = fx_dim_add(m->ctx, out.base, at);
                return finish(m, s, &out);
            }
            fx_ix shift = {.base = from};
            return digit(m, s, sum_of(m, s, rest, one, &shift, fx_dim_of(-1)), div, zero);
        }
    }
    if (rest->n == 0) { /* an expression over the symbols */
        fx_dim v = fx_ix_floor(m, rest->base, div);
        out.base = fx_dim_add(m->ctx, out.base, has_mod ? fx_dim_mod(m->ctx, v, mod) : v);
        return finish(m, s, &out);
    }
    fx_dim g[FX_IX_DIVISORS];
    const fx_ix *whole, *left, *r = NULL;
    int n = fx_ix_divisors(m, rest, div, g);
    for (int i = 0; i < n && !r; i++)
        if (divides(m, g[i], div) && fx_ix_split(m, s, rest, g[i], &whole, &left))
            r = digit(m, s, whole, quotient(m, div, g[i]), mod);
    n = has_mod && !r ? fx_ix_divisors(m, rest, all, g) : 0;
    for (int i = 0; i < n && !r; i++)
        if (divides(m, div, g[i]) && divides(m, g[i], all) && fx_ix_split(m, s, rest, g[i], &whole, &left))
            r = sum_of(m, s, digit(m, s, whole, one, quotient(m, all, g[i])), quotient(m, g[i], div),
                       digit(m, s, left, div, zero), one);
    if (!r)
        r = turned(m, s, rest, div, mod);
    if (!r)
        r = nested(m, s, rest, div, mod);
    if (r)
        add_scaled(m, &out, r, one);
    else
        add_term(m, &out, (fx_ix_term){.coef = one, .var = -1, .of = rest, .div = div, .mod = mod});
    return finish(m, s, &out);
}

/* ---- building -------------------------------------------------------------------------------------------------- */

const fx_ix *fx_ix_const(const fx_imaps *m, fx_dim v)
{
    fx_ix *x = FX_NEW(m->arena, fx_ix);
    x->base = v;
    return x;
}

const fx_ix *fx_ix_dim(const fx_imaps *m, int var)
{
    sum s = {.base = fx_dim_of(0)};
    add_term(m, &s, (fx_ix_term){.coef = fx_dim_of(1), .var = var});
    return finish(m, NULL, &s);
}

const fx_ix *fx_ix_add(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, const fx_ix *b)
{
    return sum_of(m, s, a, fx_dim_of(1), b, fx_dim_of(1));
}

const fx_ix *fx_ix_scale(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, fx_dim factor)
{
    return sum_of(m, s, a, factor, NULL, factor);
}

const fx_ix *fx_ix_digit(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, fx_dim div, fx_dim mod)
{
    return digit(m, s, a, div, mod);
}

const fx_ix *fx_ix_floordiv(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, fx_dim by)
{
    return digit(m, s, a, by, fx_dim_of(0));
}

const fx_ix *fx_ix_mod(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, fx_dim by)
{
    return digit(m, s, a, fx_dim_of(1), by);
}

const fx_ix *fx_ix_replace(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, const fx_ix *const *to)
{
    sum r = {.base = x->base};
    for (int i = 0; i < x->n; i++) {
        const fx_ix_term *t = &x->term[i];
        add_scaled(m, &r, t->var >= 0 ? to[t->var] : digit(m, s, fx_ix_replace(m, s, t->of, to), t->div, t->mod), t->coef);
    }
    return finish(m, s, &r);
}

int fx_ix_size(const fx_ix *x)
{
    int n = 1;
    for (int i = 0; i < x->n && n < FX_IX_MOST; i++)
        n += x->term[i].var >= 0 ? 1 : 1 + fx_ix_size(x->term[i].of);
    return n;
}

bool fx_ix_eval(const fx_imaps *m, const int64_t *values, const fx_ix *x, const int64_t *point, int64_t *out)
{
    int64_t v, c, d;
    if (!fx_dim_eval(m->symbols, values, x->base, out))
        return false;
    for (int i = 0; i < x->n; i++) {
        const fx_ix_term *t = &x->term[i];
        if (!fx_dim_eval(m->symbols, values, t->coef, &c))
            return false;
        if (t->var >= 0) {
            v = point[t->var];
        } else {
            if (!fx_ix_eval(m, values, t->of, point, &v) || !fx_dim_eval(m->symbols, values, t->div, &d) || d <= 0)
                return false;
            v = v / d - (v % d < 0);
            if (!fx_dim_is(t->mod, 0)) {
                if (!fx_dim_eval(m->symbols, values, t->mod, &d) || d <= 0)
                    return false;
                v = v % d + (v % d < 0 ? d : 0);
            }
        }
        if (__builtin_mul_overflow(v, c, &v) || __builtin_add_overflow(*out, v, out))
            return false;
    }
    return true;
}

bool fx_ix_strided(const fx_ix *x, int rank, fx_dim *offset, fx_dim *strides)
{
    for (int i = 0; i < rank; i++)
        strides[i] = fx_dim_of(0);
    *offset = x->base;
    for (int i = 0; i < x->n; i++) {
        if (x->term[i].var < 0 || x->term[i].var >= rank)
            return false;
        strides[x->term[i].var] = x->term[i].coef;
    }
    return true;
}

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static void print_operand(fx_text *t, fx_dim d)
{
    bool plain = d.sym ? d.sym->kind == FX_SYM_SYMBOL : d.value >= 0;
    fx_puts(t, plain ? "" : "(");
    fx_dim_print(t, d);
    fx_puts(t, plain ? "" : ")");
}

static void print_atom(fx_text *t, const fx_ix_term *a, bool alone)
{
    if (a->var >= 0) {
        fx_printf(t, "d%d", a->var);
        return;
    }
    bool div = !fx_dim_is(a->div, 1), mod = !fx_dim_is(a->mod, 0);
    const fx_ix *x = a->of;
    bool plain = x->n == 1 && fx_dim_is(x->base, 0) && fx_dim_is(x->term[0].coef, 1) && x->term[0].var >= 0;
    fx_puts(t, alone ? "" : "(");
    fx_puts(t, plain ? "" : "(");
    fx_ix_print(t, x);
    fx_puts(t, plain ? "" : ")");
    if (div) {
        fx_puts(t, " // ");
        print_operand(t, a->div);
    }
    if (mod) {
        fx_puts(t, " % ");
        print_operand(t, a->mod);
    }
    fx_puts(t, alone ? "" : ")");
}

void fx_ix_print(fx_text *t, const fx_ix *x)
{
    bool some = false;
    for (int i = 0; i < x->n; i++) {
        fx_dim c = x->term[i].coef;
        bool minus = !c.sym && c.value < 0 && c.value != INT64_MIN;
        if (minus)
            c.value = -c.value;
        fx_puts(t, !some ? (minus ? "-" : "") : minus ? " - " : " + ");
        if (!fx_dim_is(c, 1)) {
            print_operand(t, c);
            fx_puts(t, "*");
        }
        print_atom(t, &x->term[i], x->n == 1 && fx_dim_is(c, 1) && !minus && fx_dim_is(x->base, 0));
        some = true;
    }
    if (!some) {
        fx_dim_print(t, x->base);
    } else if (!fx_dim_is(x->base, 0)) {
        bool minus = !x->base.sym && x->base.value < 0 && x->base.value != INT64_MIN;
        fx_puts(t, minus ? " - " : " + ");
        fx_dim_print(t, minus ? fx_dim_of(-x->base.value) : x->base);
    }
}
