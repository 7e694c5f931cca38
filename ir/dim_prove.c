/* ir/dim_prove.c: proofs on dimensions: an expression is at least a number for all values of its symbols.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * By intervals; by values, which tell most of what is false; as a polynomial in the symbols and in whatever is no sum or product, each
 * shifted by the end of its range: sufficient where no coefficient is negative then, cheap, and enough for most sizes and indices of tensors, whose
 * coefficients are sizes; with quotients spelled by rests, minima and maxima by their arguments; last by cases (dim_cases.c). */
#include <string.h>

#include "ir/context.h"

/* INT64_MIN and INT64_MAX stand for no bound. */
static bool is_bounded(int64_t v)
{
    return v != INT64_MIN && v != INT64_MAX;
}

/* A polynomial in unknowns ("atoms"): symbols and whatever is not a sum or product. */
enum { MAX_ATOMS = 12, MAX_FACTORS = 8, MAX_TERMS = 256 };

typedef struct term {
    __int128 coef;
    int n, atom[MAX_FACTORS];     /* sorted */
} term;

typedef struct poly {
    int n;
    term t[MAX_TERMS];
} poly;

typedef struct proof {
    fx_symbols symbols;
    int n_atoms;
    const fx_sym *atom[MAX_ATOMS];
} proof;

static bool same_factors(const term *a, const term *b)
{
    return a->n == b->n && memcmp(a->atom, b->atom, sizeof(int) * (size_t)a->n) == 0;
}

static bool add_term(poly *p, term t)
{
    const __int128 most = (__int128)1 << 100;
    for (int i = 0; i < p->n; i++)
        if (same_factors(&p->t[i], &t)) {
            p->t[i].coef += t.coef;
            return p->t[i].coef < most && p->t[i].coef > -most;
        }
    if (p->n == MAX_TERMS || t.coef >= most || t.coef <= -most)
        return false;
    p->t[p->n++] = t;
    return true;
}

static void insert_atom(term *t, int k)
{
    int at = t->n++;
    for (; at > 0 && t->atom[at - 1] > k; at--)
        t->atom[at] = t->atom[at - 1];
    t->atom[at] = k;
}

static bool add_atom(proof *f, term *t, const fx_sym *s)
{
    int k = 0;
    while (k < f->n_atoms && f->atom[k] != s)
        k++;
    if (k == MAX_ATOMS || t->n == MAX_FACTORS || s->kind == FX_SYM_OPAQUE)
        return false;
    if (k == f->n_atoms)
        f->atom[f->n_atoms++] = s;
    insert_atom(t, k);
    return true;
}

static bool read_term(proof *f, const fx_sym *s, term *t)
{
    const fx_sym *one, *const *args;
    int n;
    *t = (term){0};
    t->coef = fx_sym_factors(s, &n, &args, &one);
    for (int i = 0; i < n; i++)
        if (!add_atom(f, t, args[i]))
            return false;
    return true;
}

/* p with atom k = end + t (or end - t), t >= 0: the atom's number now stands for t. */
static bool shift(poly *p, int k, int64_t end, bool down, poly *out)
{
    out->n = 0;
    for (int i = 0; i < p->n; i++) {
        /* (end +- t)^m times the rest, by repeated multiplication */
        term rest = {.coef = p->t[i].coef};
        int m = 0;
        for (int j = 0; j < p->t[i].n; j++) {
            if (p->t[i].atom[j] == k)
                m++;
            else
                rest.atom[rest.n++] = p->t[i].atom[j];
        }
        __int128 choose = 1;
        for (int power = 0; power <= m; power++) { /* t^power end^(m - power) */
            term t = rest;
            t.coef *= choose * (down && power % 2 ? -1 : 1);
            for (int e = 0; e < m - power; e++) {
                if (t.coef > ((__int128)1 << 62) || t.coef < -((__int128)1 << 62))
                    return false;
                t.coef *= end;
            }
            for (int e = 0; e < power; e++) {
                insert_atom(&t, k);
            }
            if (!add_term(out, t))
                return false;
            choose = choose * (m - power) / (power + 1);
        }
    }
    return true;
}

static bool no_negative(const poly *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->t[i].coef < 0)
            return false;
    return true;
}

/* Tries both ends of each atom's range, at most 2^5 ways. */
static bool prove(const proof *f, poly *p, int k, int *budget)
{
    if (k == f->n_atoms)
        return no_negative(p);
    if (--*budget < 0)
        return false;
    int64_t lo, hi;
    fx_dim_bounds(f->symbols, fx_dim_sym(f->atom[k]), &lo, &hi);
    poly next;
    if (is_bounded(lo) && shift(p, k, lo, false, &next) && prove(f, &next, k + 1, budget))
        return true;
    return is_bounded(hi) && shift(p, k, hi, true, &next) && prove(f, &next, k + 1, budget);
}

static bool read_poly(proof *f, const fx_sym *s, poly *p)
{
    bool sum = s->kind == FX_SYM_ADD;
    const fx_sym *const *terms = sum ? s->args : &s;
    p->n = 0;
    for (int i = 0; i < (sum ? s->n : 1); i++) {
        term t;
        if (!read_term(f, terms[i], &t) || !add_term(p, t))
            return false;
    }
    return true;
}

/* p with `what` (a polynomial) in the place of factor * atom k. False when k is in p otherwise, or not at all. */
static bool substitute(poly *p, int k, int64_t factor, const poly *what)
{
    const __int128 most = (__int128)1 << 62;
    bool found = false;
    poly out;
    out.n = 0;
    for (int i = 0; i < p->n; i++) {
        term rest = p->t[i];
        int at = 0, times = 0;
        for (int j = 0; j < rest.n; j++) {
            if (rest.atom[j] == k) {
                at = j;
                times++;
            }
        }
        if (times == 0) {
            if (!add_term(&out, rest))
                return false;
            continue;
        }
        if (times > 1 || rest.coef % factor)
            return false;
        found = true;
        rest.n--;
        memmove(&rest.atom[at], &rest.atom[at + 1], sizeof(int) * (size_t)(rest.n - at));
        rest.coef /= factor;
        for (int w = 0; w < what->n; w++) {
            term t = rest;
            if (t.n + what->t[w].n > MAX_FACTORS || what->t[w].coef >= most || what->t[w].coef <= -most || t.coef >= most || t.coef <= -most)
                return false;
            for (int j = 0; j < what->t[w].n; j++)
                insert_atom(&t, what->t[w].atom[j]);
            t.coef *= what->t[w].coef;
            if (!add_term(&out, t))
                return false;
        }
    }
    if (found)
        *p = out;
    return found;
}

/* a // (b m) is (a // b) // m: m times it is a // b less a rest. For quotient k, when a // b is there too. */
static bool replace_coarse(fx_context *ctx, proof *f, poly *p, int k)
{
    const fx_sym *q = f->atom[k];
    for (int j = 0; j < f->n_atoms; j++) {
        const fx_sym *fine = f->atom[j];
        if (fine->kind != FX_SYM_FLOORDIV || fine->args[0] != q->args[0] || fine->args[1]->kind != FX_SYM_INT || fine->args[1]->value < 1 ||
            q->args[1]->value <= fine->args[1]->value || q->args[1]->value % fine->args[1]->value)
            continue;
        fx_dim a = fx_dim_sym(fine), m = fx_dim_of(q->args[1]->value / fine->args[1]->value);
        poly whole;
        if (read_poly(f, fx_dim_as_sym(ctx, fx_dim_sub(ctx, a, fx_dim_mod(ctx, a, m))), &whole) && substitute(p, k, m.value, &whole))
            return true;
    }
    return false;
}

/* by * (a // by) is a - a % by, where the rest is within [0, by): with that in place of the quotient, by how much the last window
 * of a strided one falls short is bounded. The other way round (`mods`) a rest is what whole pieces leave: no more than a. True when
 * something was replaced. */
static bool replace_quotient(fx_context *ctx, proof *f, poly *p, bool mods)
{
    for (int k = 0; k < f->n_atoms; k++) {
        const fx_sym *q = f->atom[k];
        bool up = q->kind == FX_SYM_CEILDIV;
        if ((mods ? q->kind != FX_SYM_MOD : q->kind != FX_SYM_FLOORDIV && !up) || q->args[1]->kind != FX_SYM_INT || q->args[1]->value < 1)
            continue;
        fx_dim a = fx_dim_sym(q->args[0]), by = fx_dim_of(q->args[1]->value), what;
        if (!mods && !up && replace_coarse(ctx, f, p, k))
            return true;
        if (mods)
            what = fx_dim_sub(ctx, a, fx_dim_mul(ctx, by, fx_dim_floordiv(ctx, a, by)));
        else if (up)
            what = fx_dim_add(ctx, a, fx_dim_mod(ctx, fx_dim_scale(ctx, a, -1), by));
        else
            what = fx_dim_sub(ctx, a, fx_dim_mod(ctx, a, by));
        poly whole;
        if (read_poly(f, fx_dim_as_sym(ctx, what), &whole) && substitute(p, k, mods ? 1 : by.value, &whole))
            return true;
    }
    return false;
}

static bool at_least(fx_context *ctx, fx_symbols symbols, fx_dim d, int64_t v);

/* Bound number a of a part of an expression, from above or from below: arguments of minima and maxima; a rest is less than what it is
 * divided by, and no more than what is divided. False: there is none. */
static bool part_bound(fx_context *ctx, fx_symbols symbols, const fx_sym *part, bool above, int a, fx_dim *out)
{
    int64_t lo, hi;
    if (part->kind == (above ? FX_SYM_MIN : FX_SYM_MAX)) {
        *out = fx_dim_sym(part->args[a]);
        return true;
    }
    fx_dim_bounds(symbols, fx_dim_sym(part->args[1]), &lo, &hi);
    if (part->kind != FX_SYM_MOD || !above || lo < 1)
        return false;
    *out = fx_dim_sym(part->args[a]);
    if (a == 1)
        *out = fx_dim_plus(ctx, *out, -1);
    else
        fx_dim_bounds(symbols, *out, &lo, &hi);
    return lo >= 0;
}

/* A minimum is no more than each of its arguments, a maximum no less: where that can only make d smaller, one takes the other's place. */
static bool at_least_by_parts(fx_context *ctx, fx_symbols symbols, fx_dim d, int64_t v, int depth)
{
    enum { DEEPEST = 3 };
    const fx_sym *sum = d.sym;
    int n = sum && sum->kind == FX_SYM_ADD ? sum->n : 1;
    for (int i = 0; sum && depth < DEEPEST && i < n; i++) {
        const fx_sym *one = sum->kind == FX_SYM_ADD ? sum->args[i] : sum, *const *part, *alone;
        int n_parts;
        int64_t coef = fx_sym_factors(one, &n_parts, &part, &alone);
        for (int k = 0; k < n_parts; k++) {
            if (part[k]->kind != (coef < 0 ? FX_SYM_MIN : FX_SYM_MAX) && (part[k]->kind != FX_SYM_MOD || coef > 0))
                continue;
            fx_dim others = fx_dim_of(coef);
            bool positive = true;
            for (int j = 0; j < n_parts; j++) {
                int64_t lo, hi;
                if (j == k)
                    continue;
                fx_dim_bounds(symbols, fx_dim_sym(part[j]), &lo, &hi);
                positive = positive && lo >= 0;
                others = fx_dim_mul(ctx, others, fx_dim_sym(part[j]));
            }
            fx_dim rest = fx_dim_sub(ctx, d, fx_dim_sym(one));
            for (int a = 0; positive && a < part[k]->n; a++) {
                fx_dim bound;
                if (!part_bound(ctx, symbols, part[k], coef < 0, a, &bound))
                    continue;
                fx_dim less = fx_dim_add(ctx, rest, fx_dim_mul(ctx, others, bound));
                if (at_least(ctx, symbols, less, v) || at_least_by_parts(ctx, symbols, less, v, depth + 1))
                    return true;
            }
        }
    }
    return false;
}

/* Most claims that do not hold fail near the ends of the ranges already: that is told by values, before a proof is sought. */
static bool refuted(fx_symbols symbols, const fx_sym *s, int64_t v)
{
    static const uint8_t above[] = {0, 1, 2, 3, 5, 8, 17, 100};
    enum { MOST_SYMBOLS = 8, N = sizeof above };
    int64_t values[MOST_SYMBOLS], got;
    if (symbols.n > MOST_SYMBOLS)
        return false;
    for (int k = 0; k < 2 * N; k++) { /* all symbols near the starts, or one and the other turned; the last ones near their ends */
        for (size_t i = 0; i < symbols.n; i++) {
            const fx_sym_range *r = &symbols.v[i];
            int64_t add = above[k < N ? k : i % 2 ? N - 1 - k % N : k % N];
            if (r->min == INT64_MIN || r->min > r->max)
                return false;
            values[i] = r->max - r->min < add || (k >= N && k % 4 == 3 && r->max != INT64_MAX) ? r->max : r->min + add;
        }
        if (fx_dim_eval(symbols, values, fx_dim_sym(s), &got) && got < v)
            return true;
    }
    return false;
}

bool fx_dim_at_least(fx_context *ctx, fx_symbols symbols, fx_dim d, int64_t v)
{
    int64_t lo, hi;
    fx_dim_bounds(symbols, d, &lo, &hi);
    if (lo != INT64_MIN && lo >= v)
        return true;
    if (hi < v || !d.sym || d.sym->kind == FX_SYM_OPAQUE || refuted(symbols, d.sym, v))
        return false;
    return at_least(ctx, symbols, d, v) || at_least_by_parts(ctx, symbols, d, v, 0) || fx_dim_at_least_by_cases(symbols, d.sym, v);
}

static bool at_least(fx_context *ctx, fx_symbols symbols, fx_dim d, int64_t v)
{
    int64_t lo, hi;
    fx_dim_bounds(symbols, d, &lo, &hi);
    if (lo != INT64_MIN && lo >= v)
        return true;
    if (!d.sym || d.sym->kind == FX_SYM_OPAQUE)
        return false;
    proof f = {.symbols = symbols};
    poly p;
    if (!read_poly(&f, d.sym, &p) || !add_term(&p, (term){.coef = -(__int128)v}))
        return false;
    poly other = p;
    for (int mods = 0; mods < 2; mods++, p = other) {
        for (int round = 0; round < 4; round++) {
            int budget = 64;
            if (prove(&f, &p, 0, &budget))
                return true;
            if (!replace_quotient(ctx, &f, &p, mods))
                break;
        }
    }
    return false;
}

bool fx_dim_le(fx_context *ctx, fx_symbols symbols, fx_dim a, fx_dim b)
{
    return fx_dim_at_least(ctx, symbols, fx_dim_sub(ctx, b, a), 0);
}

/* The terms of a sum, or the one of anything else. */
static const fx_sym *const *terms_of(const fx_sym *const *d, int *n)
{
    *n = (*d)->kind == FX_SYM_ADD ? (*d)->n : 1;
    return (*d)->kind == FX_SYM_ADD ? (*d)->args : d;
}

static bool has_minus(const fx_sym *term)
{
    const fx_sym *first = term->kind == FX_SYM_MUL ? term->args[0] : term;
    return first->kind == FX_SYM_INT && first->value < 0;
}

/* Tries each limit once, and times what lets a term of it take a term with a minus out of d; `more` others after that. */
static bool given(fx_context *ctx, fx_symbols symbols, fx_dim d, size_t n, const fx_dim *limits, int more, int *budget)
{
    for (size_t l = 0; l < n && d.sym; l++) {
        const fx_sym *limit = fx_dim_as_sym(ctx, limits[l]);
        int n_terms, n_parts;
        const fx_sym *const *terms = terms_of(&d.sym, &n_terms), *const *parts = terms_of(&limit, &n_parts);
        if (fx_dim_at_least(ctx, symbols, fx_dim_sub(ctx, d, limits[l]), 0))
            return true;
        for (int k = 0; k < n_terms * n_parts; k++) {
            const fx_sym *term = terms[k / n_parts], *part = parts[k % n_parts];
            fx_dim c;
            int64_t lo, hi;
            if (!has_minus(term) || !has_minus(part) || !fx_dim_divide(ctx, fx_dim_sym(term), fx_dim_sym(part), &c))
                continue;
            fx_dim_bounds(symbols, c, &lo, &hi);
            if (lo < 0 || --*budget < 0)
                continue;
            fx_dim left = fx_dim_sub(ctx, d, fx_dim_mul(ctx, c, limits[l]));
            if (fx_dim_at_least(ctx, symbols, left, 0) || (more > 0 && given(ctx, symbols, left, n, limits, more - 1, budget)))
                return true;
        }
    }
    return false;
}

bool fx_dim_not_negative_given(fx_context *ctx, fx_symbols symbols, fx_dim d, size_t n, const fx_dim *limits)
{
    enum { MOST = 4, MOST_TRIES = 64 };
    int budget = MOST_TRIES;
    return fx_dim_at_least(ctx, symbols, d, 0) || given(ctx, symbols, d, n, limits, MOST - 1, &budget);
}
