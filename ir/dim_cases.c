/* ir/dim_cases.c: proofs on dimensions by cases: ranges of symbols cut until, in each part, an expression is a polynomial.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * With s = 4*k + 3 the quotient (s + 1)//4 is k + 1, and Min(s, 9) is 9 from s = 9 on. So the range of a symbol is taken apart into
 * residues, where a divisor asks for it, and in two, where a sign is open (of the operands' difference in a Min or Max, or of what is to be
 * proved), until each part shows by the signs of coefficients, or is one point and shows by its value. Parts without end stay
 * without end: what is proved of them holds for all k. One point where the claim fails ends it all. */
#include <string.h>

#include "ir/context.h"

enum { AXES = 4, TERMS = 48, DEGREE = 12, MOST_PARTS = 4096, MOST_RESIDUES = 2048 };

/* Values lo + step * k, 0 <= k <= last; INT64_MAX: no end. */
typedef struct axis {
    int64_t lo, step, last, passed; /* passed: how many lie before lo since the last cut of an endless range */
} axis;

/* A polynomial in the k of the axes. */
typedef struct qterm {
    int64_t coef;
    uint8_t e[AXES];
} qterm;

typedef struct quasi {
    int n;
    qterm t[TERMS];
} quasi;

typedef struct cases {
    fx_symbols symbols;
    int n, symbol[AXES];          /* axis -> symbol's position */
    int budget;
} cases;

/* What keeps an expression from being a polynomial: nothing can be done, residues of an axis, a cut of an axis. */
typedef struct obstacle {
    enum { FAIL, RESIDUES, CUT } kind;
    int at;
    int64_t m;
} obstacle;

static bool q_add(quasi *p, qterm t)
{
    if (t.coef == 0)
        return true;
    for (int i = 0; i < p->n; i++)
        if (memcmp(p->t[i].e, t.e, sizeof t.e) == 0) {
            if (__builtin_add_overflow(p->t[i].coef, t.coef, &p->t[i].coef))
                return false;
            if (p->t[i].coef == 0)
                p->t[i] = p->t[--p->n];
            return true;
        }
    if (p->n == TERMS)
        return false;
    p->t[p->n++] = t;
    return true;
}

static bool q_number(quasi *p, int64_t v)
{
    p->n = 0;
    return q_add(p, (qterm){.coef = v});
}

/* p += factor * q */
static bool q_add_scaled(quasi *p, const quasi *q, int64_t factor)
{
    for (int i = 0; i < q->n; i++) {
        qterm t = q->t[i];
        if (__builtin_mul_overflow(t.coef, factor, &t.coef) || !q_add(p, t))
            return false;
    }
    return true;
}

static bool q_mul(const quasi *p, const quasi *q, quasi *out)
{
    out->n = 0;
    for (int i = 0; i < p->n; i++)
        for (int j = 0; j < q->n; j++) {
            qterm t = p->t[i];
            if (__builtin_mul_overflow(t.coef, q->t[j].coef, &t.coef))
                return false;
            for (int a = 0; a < AXES; a++) {
                t.e[a] = (uint8_t)(t.e[a] + q->t[j].e[a]);
                if (t.e[a] > DEGREE)
                    return false;
            }
            if (!q_add(out, t))
                return false;
        }
    return true;
}

static bool q_is_number(const quasi *p, int64_t *v)
{
    static const uint8_t none[AXES];
    *v = p->n ? p->t[0].coef : 0;
    return p->n == 0 || (p->n == 1 && memcmp(p->t[0].e, none, sizeof none) == 0);
}

/* p with k of axis a counted from its end. */
static bool from_end(const quasi *p, int a, int64_t last, quasi *out)
{
    out->n = 0;
    for (int i = 0; i < p->n; i++) {
        qterm rest = p->t[i];
        int m = rest.e[a];
        int64_t choose = 1;
        for (int power = 0; power <= m; power++) { /* (last - k)^m: its term of k^power */
            qterm t = rest;
            t.e[a] = (uint8_t)power;
            if (__builtin_mul_overflow(t.coef, power % 2 ? -choose : choose, &t.coef))
                return false;
            for (int e = power; e < m; e++)
                if (__builtin_mul_overflow(t.coef, last, &t.coef))
                    return false;
            if (!q_add(out, t))
                return false;
            choose = choose * (m - power) / (power + 1);
        }
    }
    return true;
}

/* Whether p is nowhere negative: no coefficient is, with each axis counted from one of its ends. */
static bool not_negative(const cases *c, const axis *box, const quasi *p, int a)
{
    bool good = true;
    for (int i = 0; i < p->n; i++)
        good = good && p->t[i].coef > 0;
    if (good)
        return true;
    for (; a < c->n; a++) {
        quasi turned;
        if (box[a].last > 0 && box[a].last != INT64_MAX && from_end(p, a, box[a].last, &turned) && not_negative(c, box, &turned, a + 1))
            return true;
    }
    return false;
}

/* An axis that p depends on; the one that was cut least (endless ones have passed less the later they were cut). */
static obstacle cut_of(const cases *c, const axis *box, const quasi *p)
{
    obstacle o = {FAIL, 0, 0};
    int64_t most = 0;
    for (int a = 0; a < c->n; a++) {
        bool there = false;
        for (int i = 0; i < p->n; i++)
            there |= p->t[i].e[a] > 0;
        int64_t size = box[a].last == INT64_MAX ? INT64_MAX - box[a].passed : box[a].last;
        if (there && size > most) {
            most = size;
            o = (obstacle){CUT, a, 0};
        }
    }
    return o;
}

/* p // d, d > 0: exact where d divides each coefficient but the constant's. */
static bool q_floordiv(const cases *c, const quasi *p, int64_t d, quasi *out, obstacle *why)
{
    static const uint8_t none[AXES];
    out->n = 0;
    for (int i = 0; i < p->n; i++) {
        qterm t = p->t[i];
        if (memcmp(t.e, none, sizeof none) != 0 && t.coef % d) {
            int a = 0;
            while (a + 1 < c->n && t.e[a] == 0)
                a++;
            int64_t m = d / fx_gcd(t.coef, d);
            *why = m <= MOST_RESIDUES ? (obstacle){RESIDUES, a, m} : (obstacle){FAIL, 0, 0};
            return false;
        }
        t.coef = fx_floor_div(t.coef, d);
        if (!q_add(out, t))
            return false;
    }
    return true;
}

/* The expression on a box as a polynomial. */
static bool read(const cases *c, const axis *box, const fx_sym *s, quasi *out, obstacle *why)
{
    quasi x, y, difference;
    int64_t d;
    *why = (obstacle){FAIL, 0, 0};
    switch (s->kind) {
    case FX_SYM_INT:
        return q_number(out, s->value);
    case FX_SYM_SYMBOL:
        for (int a = 0; a < c->n; a++) {
            const char *name = c->symbols.v[c->symbol[a]].name;
            if (name != s->name && strcmp(name, s->name) != 0)
                continue;
            qterm t = {.coef = box[a].last > 0 ? box[a].step : 0};
            t.e[a] = 1;
            return q_number(out, box[a].lo) && q_add(out, t);
        }
        return false;
    case FX_SYM_ADD:
        out->n = 0;
        for (int i = 0; i < s->n; i++)
            if (!read(c, box, s->args[i], &x, why) || !q_add_scaled(out, &x, 1))
                return false;
        return true;
    case FX_SYM_MUL:
        if (!q_number(out, 1))
            return false;
        for (int i = 0; i < s->n; i++) {
            if (!read(c, box, s->args[i], &x, why) || !q_mul(out, &x, &y))
                return false;
            *out = y;
        }
        return true;
    case FX_SYM_MAX:
    case FX_SYM_MIN:
        if (!read(c, box, s->args[0], out, why))
            return false;
        for (int i = 1; i < s->n; i++) {
            if (!read(c, box, s->args[i], &x, why))
                return false;
            difference = x;
            if (!q_add_scaled(&difference, out, -1))
                return false;
            bool up = not_negative(c, box, &difference, 0);
            if (!up) {
                y.n = 0;
                if (!q_add_scaled(&y, &difference, -1))
                    return false;
                if (!not_negative(c, box, &y, 0)) {
                    *why = cut_of(c, box, &difference);
                    return false;
                }
            }
            if (up == (s->kind == FX_SYM_MAX))
                *out = x;
        }
        return true;
    case FX_SYM_FLOORDIV:
    case FX_SYM_CEILDIV:
    case FX_SYM_MOD:
        if (!read(c, box, s->args[0], &x, why) || !read(c, box, s->args[1], &y, why))
            return false;
        if (!q_is_number(&y, &d)) { /* a quotient of something less is 0 */
            quasi more = y;
            bool less = q_add_scaled(&more, &x, -1) && q_add(&more, (qterm){.coef = -1}) && not_negative(c, box, &x, 0) && not_negative(c, box, &more, 0);
            if (less && s->kind != FX_SYM_CEILDIV) {
                *out = x;
                return s->kind == FX_SYM_MOD || q_number(out, 0);
            }
            *why = cut_of(c, box, &y);
            return false;
        }
        if (d < 1)
            return false;
        if (s->kind == FX_SYM_FLOORDIV)
            return q_floordiv(c, &x, d, out, why);
        if (s->kind == FX_SYM_MOD) {
            *out = x;
            return q_floordiv(c, &x, d, &y, why) && q_add_scaled(out, &y, -d);
        }
        out->n = 0;
        difference.n = 0;
        return q_add_scaled(&difference, &x, -1) && q_floordiv(c, &difference, d, &y, why) && q_add_scaled(out, &y, -1);
    case FX_SYM_POW:
    case FX_SYM_OPAQUE:
        return false;
    }
    return false;
}

static bool prove(cases *c, const axis *box, const fx_sym *s, int64_t v);

/* The part of axis a from k = from on, every m-th of it, up to k = to. */
static bool prove_part(cases *c, const axis *box, int a, int64_t from, int64_t to, int64_t m, int64_t passed, const fx_sym *s, int64_t v)
{
    axis part[AXES];
    memcpy(part, box, sizeof part);
    int64_t skip;
    if (__builtin_mul_overflow(box[a].step, from, &skip) || __builtin_add_overflow(box[a].lo, skip, &part[a].lo) ||
        __builtin_mul_overflow(box[a].step, m, &part[a].step))
        return false;
    part[a].last = to == INT64_MAX ? INT64_MAX : (to - from) / m;
    part[a].passed = passed;
    return prove(c, part, s, v);
}

static bool prove(cases *c, const axis *box, const fx_sym *s, int64_t v)
{
    enum { FEW = 8 };
    quasi p;
    obstacle why;
    if (c->budget <= 0)
        return false;
    c->budget--;
    if (read(c, box, s, &p, &why)) {
        if (!q_add(&p, (qterm){.coef = -v}))
            return false;
        if (not_negative(c, box, &p, 0))
            return true;
        why = cut_of(c, box, &p);
    }
    const axis *x = &box[why.at];
    int64_t last = x->last;
    if (why.kind == FAIL || (why.kind == RESIDUES && last == 0)) {
        c->budget = 0;
        return false;
    }
    if (why.kind == RESIDUES && (last == INT64_MAX || last >= 2 * why.m)) {
        for (int64_t r = 0; r < why.m; r++)
            if (!prove_part(c, box, why.at, r, last, why.m, x->passed / why.m, s, v))
                return false;
        return true;
    }
    if (last == INT64_MAX) { /* what is near the start alone, as much again as has been passed */
        int64_t n = x->passed + 1;
        return prove_part(c, box, why.at, n, last, 1, x->passed + n, s, v) && prove_part(c, box, why.at, 0, n - 1, 1, 0, s, v);
    }
    if (last > FEW)
        return prove_part(c, box, why.at, 0, last / 2, 1, 0, s, v) && prove_part(c, box, why.at, last / 2 + 1, last, 1, 0, s, v);
    for (int64_t k = 0; k <= last; k++)
        if (!prove_part(c, box, why.at, k, k, 1, 0, s, v))
            return false;
    return true;
}

/* Gives each symbol in s an axis; false when they are too many or a range has no start. */
static bool find_axes(cases *c, const fx_sym *s)
{
    if (s->kind == FX_SYM_SYMBOL) {
        for (int a = 0; a < c->n; a++)
            if (strcmp(c->symbols.v[c->symbol[a]].name, s->name) == 0)
                return true;
        for (size_t i = 0; i < c->symbols.n && c->n < AXES; i++)
            if (strcmp(c->symbols.v[i].name, s->name) == 0) {
                c->symbol[c->n++] = (int)i;
                return c->symbols.v[i].min != INT64_MIN;
            }
        return false;
    }
    for (int i = 0; i < s->n; i++)
        if (!find_axes(c, s->args[i]))
            return false;
    return s->kind != FX_SYM_OPAQUE && s->kind != FX_SYM_POW;
}

bool fx_dim_at_least_by_cases(fx_symbols symbols, const fx_sym *s, int64_t v)
{
    cases c = {.symbols = symbols, .budget = MOST_PARTS};
    axis box[AXES] = {{0, 0, 0, 0}};
    if (v == INT64_MIN || !find_axes(&c, s))
        return false;
    for (int a = 0; a < c.n; a++) {
        const fx_sym_range *r = &symbols.v[c.symbol[a]];
        int64_t last;
        if (r->max < r->min)
            return true;
        if (r->max == INT64_MAX || __builtin_sub_overflow(r->max, r->min, &last))
            last = INT64_MAX;
        box[a] = (axis){r->min, 1, last, 0};
    }
    return prove(&c, box, s, v);
}
