/* lower/prove_index.c: proofs about indices: within their buffer, and never the same element.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <limits.h>
#include <string.h>

#include "lower/prove.h"

bool fx_prove_le(const fx_prover *r, fx_dim a, fx_dim b)
{
    enum { MOST_LIMITS = 16 };
    if (!a.sym && !b.sym)
        return a.value <= b.value;
    fx_dim limits[MOST_LIMITS]; /* the run's entry checks them */
    size_t n = 0;
    for (; n < r->p->n_limits && n < MOST_LIMITS; n++)
        limits[n] = r->p->limits[n].value;
    return fx_dim_equal(a, b) || fx_dim_not_negative_given(r->ctx, r->symbols, fx_dim_sub(r->ctx, b, a), n, limits);
}

fx_symbols fx_prove_where(const fx_prover *r, const fx_prove_scope *s, fx_symbols symbols)
{
    for (int i = 0; i < s->n; i++)
        symbols = fx_dim_where_positive(r->arena, symbols, s->v[i].extent);
    return symbols;
}

static bool not_negative(const fx_prover *r, fx_dim a)
{
    return fx_prove_le(r, fx_dim_of(0), a);
}

static bool not_positive(const fx_prover *r, fx_dim a)
{
    return fx_prove_le(r, a, fx_dim_of(0));
}

static const fx_prove_var *find(const fx_prove_scope *s, int var)
{
    for (int i = s->n - 1; i >= 0; i--)
        if (s->v[i].var == var)
            return &s->v[i];
    return NULL;
}

/* ---- not negative ----------------------------------------------------------------------------------------------------- */

/* The least value over the ranges of the variables. */
static bool by_intervals(const fx_prover *r, const fx_prove_scope *s, const fx_affine *a)
{
    fx_dim lo = a->base;
    for (int i = 0; i < a->n; i++) {
        const fx_prove_var *v = find(s, a->var[i]);
        if (!v)
            return false;
        if (not_negative(r, a->coef[i]))
            continue;
        if (!not_positive(r, a->coef[i]))
            return false;
        lo = fx_dim_add(r->ctx, lo, fx_dim_mul(r->ctx, a->coef[i], fx_dim_plus(r->ctx, v->extent, -1)));
    }
    return not_negative(r, lo);
}

/* a - c * g for conditions g >= 0 and c > 0: what is left not negative, a is not. */
static bool by_guards(const fx_prover *r, const fx_prove_scope *s, const fx_affine *a, uint64_t used, int depth)
{
    if (by_intervals(r, s, a))
        return true;
    for (int k = 0; depth < 4 && k < s->n_cond; k++) {
        const fx_affine *g = s->cond[k];
        if (used >> k & 1)
            continue;
        for (int i = 0; i < g->n; i++) {
            fx_dim c, have = fx_affine_coef(a, g->var[i]);
            if (fx_dim_is(have, 0) || !fx_dim_divide(r->ctx, have, g->coef[i], &c) || !fx_prove_le(r, fx_dim_of(1), c))
                continue;
            fx_affine minus = fx_affine_dim(fx_dim_mul(r->ctx, g->base, fx_dim_scale(r->ctx, c, -1)));
            for (int j = 0; j < g->n; j++)
                fx_affine_add(r->ctx, &minus, g->var[j], fx_dim_mul(r->ctx, g->coef[j], fx_dim_scale(r->ctx, c, -1)));
            fx_affine left = fx_affine_sum(r->ctx, a, &minus);
            if (by_guards(r, s, &left, used | (uint64_t)1 << k, depth + 1))
                return true;
            break;
        }
    }
    return false;
}

/* ---- isl's rows --------------------------------------------------------------------------------------------------------- */

typedef struct system {
    int n_vars, n_rows;
    int var[FX_ISL_VARS];         /* of the program; a second copy of a variable follows those of the first scope */
    fx_isl_row row[3 * FX_ISL_VARS + 8];
    bool failed;
} system;

static fx_isl_row *new_row(system *y)
{
    if (y->n_rows == (int)(sizeof y->row / sizeof *y->row)) {
        y->failed = true;
        return &y->row[0];
    }
    memset(&y->row[y->n_rows], 0, sizeof y->row[0]);
    return &y->row[y->n_rows++];
}

/* Adds `factor` times a; variables from position `from` on stand for it, or else those before. */
static void add_affine(system *y, fx_isl_row *row, const fx_affine *a, int from, int n_shared, int64_t factor)
{
    y->failed |= !fx_affine_is_static(a);
    if (y->failed)
        return;
    row->constant += factor * a->base.value;
    for (int i = 0; i < a->n; i++) {
        int k = 0;
        while (k < y->n_vars && !(y->var[k] == a->var[i] && (k < n_shared || k >= from)))
            k++;
        if (k == y->n_vars)
            y->failed = true;
        else
            row->coef[k] += factor * a->coef[i].value;
    }
}

/* The scope's variables (those shared only once) and conditions. */
static void add_scope(system *y, const fx_prove_scope *s, int n_shared, bool second)
{
    int from = y->n_vars;
    for (int i = second ? n_shared : 0; i < s->n; i++) {
        if (y->n_vars == FX_ISL_VARS || !fx_dim_known(s->v[i].extent)) {
            y->failed = true;
            return;
        }
        int k = y->n_vars++;
        y->var[k] = s->v[i].var;
        new_row(y)->coef[k] = 1;
        fx_isl_row *top = new_row(y);
        top->coef[k] = -1;
        top->constant = s->v[i].extent.value - 1;
    }
    for (int i = 0; i < s->n_cond; i++)
        add_affine(y, new_row(y), s->cond[i], from, n_shared, 1);
}

/* That a >= 0 by isl; *text gets a point where it is not. */
static bool by_isl(fx_prover *r, const fx_prove_scope *s, const fx_affine *a, const char **text)
{
    system *y = FX_NEW(r->arena, system);
    add_scope(y, s, 0, false);
    fx_isl_row *row = new_row(y);
    add_affine(y, row, a, 0, 0, -1);
    row->constant -= 1;
    if (y->failed)
        return false;
    int64_t point[FX_ISL_VARS];
    fx_isl_answer answer = fx_isl_empty(r->isl, y->n_vars, y->n_rows, y->row, point);
    if (answer == FX_ISL_NO) {
        fx_text t;
        fx_text_init(&t, r->arena);
        for (int k = 0; k < y->n_vars; k++)
            fx_printf(&t, y->var[k] >= 0 ? "%sv%d = %lld" : "%st%d = %lld", k ? ", " : " at ",
                      y->var[k] >= 0 ? y->var[k] : FX_VAR_LOCAL(y->var[k]), (long long)point[k]);
        *text = t.data ? t.data : "";
    }
    return answer == FX_ISL_YES;
}

static bool prove_not_negative(fx_prover *r, const fx_prove_scope *s, const fx_affine *a, const char **text)
{
    bool numbers = fx_affine_is_static(a);
    for (int i = 0; i < a->n; i++) {
        const fx_prove_var *v = find(s, a->var[i]);
        numbers &= v && fx_dim_known(v->extent);
        if (a->var[i] < 0)
            r->by |= FX_BY_CHECKS;
    }
    if (by_intervals(r, s, a)) {
        r->by |= numbers ? FX_BY_INTERVALS : FX_BY_SYMBOLS;
        return true;
    }
    if (by_guards(r, s, a, 0, 0)) {
        r->by |= FX_BY_GUARDS;
        return true;
    }
    if (by_isl(r, s, a, text)) {
        r->by |= FX_BY_ISL;
        return true;
    }
    return false;
}

bool fx_prove_within(fx_prover *r, const fx_prove_scope *s, const fx_affine *a, fx_dim end, const char **text)
{
    *text = "";
    fx_affine above = fx_affine_dim(fx_dim_plus(r->ctx, fx_dim_sub(r->ctx, end, a->base), -1)); /* end - 1 - a */
    for (int i = 0; i < a->n; i++)
        fx_affine_add(r->ctx, &above, a->var[i], fx_dim_scale(r->ctx, a->coef[i], -1));
    fx_symbols all = r->symbols;
    r->symbols = fx_prove_where(r, s, all);
    bool within = prove_not_negative(r, s, a, text) && prove_not_negative(r, s, &above, text);
    r->symbols = all;
    return within;
}

/* ---- never the same element --------------------------------------------------------------------------------------------- */

fx_prove_form fx_prove_form_of(const fx_prover *r, const fx_prove_scope *s, const fx_affine *a)
{
    (void)r;
    fx_prove_form f = {.base = a->base};
    for (int i = 0; i < a->n; i++) {
        const fx_prove_var *v = find(s, a->var[i]);
        if (v && fx_dim_is(v->extent, 1))
            continue; /* always 0 */
        f.t[f.n].var = a->var[i];
        f.t[f.n].coef = a->coef[i];
        f.t[f.n++].extent = v ? v->extent : fx_dim_sym(fx_sym_opaque(r->ctx, "unknown"));
    }
    return f;
}

/* A coefficient of the difference of two forms, and the range of the sum of variables that it multiplies. */
typedef struct digit {
    fx_dim coef, lo, hi;
    bool apart;                   /* the difference of the variable that differs, and nothing else */
    bool alone;
} digit;

static void add_digit(const fx_prover *r, digit *d, int *n, fx_dim coef, fx_dim lo, fx_dim hi, bool apart)
{
    if (!not_negative(r, coef)) { /* as a positive coefficient, where its sign is known */
        coef = fx_dim_scale(r->ctx, coef, -1);
        fx_dim t = fx_dim_scale(r->ctx, lo, -1);
        lo = fx_dim_scale(r->ctx, hi, -1);
        hi = t;
    }
    for (int k = 0; k < *n; k++)
        if (fx_dim_equal(d[k].coef, coef)) {
            d[k].lo = fx_dim_add(r->ctx, d[k].lo, lo);
            d[k].hi = fx_dim_add(r->ctx, d[k].hi, hi);
            d[k].apart = false;
            return;
        }
    d[(*n)++] = (digit){coef, lo, hi, apart, true};
}

static int find_term(const fx_prove_form *f, int var)
{
    for (int i = 0; i < f->n; i++)
        if (f->t[i].var == var)
            return i;
    return -1;
}

static int digits_of(const fx_prover *r, const fx_prove_form *a, const fx_prove_form *b, int n_shared, const int *shared, int apart, digit *d)
{
    const fx_dim zero = fx_dim_of(0);
    int n = 0;
    for (int side = 0; side < 2; side++) {
        const fx_prove_form *f = side ? b : a, *g = side ? a : b;
        for (int i = 0; i < f->n; i++) {
            int var = f->t[i].var, other = find_term(g, var);
            fx_dim top = fx_dim_plus(r->ctx, f->t[i].extent, -1), down = fx_dim_scale(r->ctx, top, -1), coef = f->t[i].coef;
            bool one_value = false;
            for (int k = 0; k < n_shared; k++)
                one_value |= shared[k] == var;
            if (one_value) {
                fx_dim diff = other < 0 ? coef : fx_dim_sub(r->ctx, coef, g->t[other].coef);
                if (side && other >= 0)
                    continue; /* seen from the other side */
                if (!fx_dim_is(diff, 0))
                    add_digit(r, d, &n, side ? fx_dim_scale(r->ctx, diff, -1) : diff, zero, top, false);
                continue;
            }
            if (var == apart && other >= 0 && fx_dim_equal(coef, g->t[other].coef)) {
                if (!side)
                    add_digit(r, d, &n, coef, down, top, true);
                continue;
            }
            add_digit(r, d, &n, coef, side ? down : zero, side ? zero : top, false);
        }
    }
    return n;
}

bool fx_prove_distinct(fx_prover *r, const fx_prove_form *a, const fx_prove_form *b, int n_shared, const int *shared, int apart)
{
    digit d[2 * FX_PROVE_DEPTH];
    int n = digits_of(r, a, b, n_shared, shared, apart, d);
    fx_dim base = fx_dim_sub(r->ctx, a->base, b->base);
    for (;;) {
        fx_dim lo = base, hi = base;
        for (int k = 0; k < n; k++) {
            if (!not_negative(r, d[k].coef))
                return false;
            lo = fx_dim_add(r->ctx, lo, fx_dim_mul(r->ctx, d[k].coef, d[k].lo));
            hi = fx_dim_add(r->ctx, hi, fx_dim_mul(r->ctx, d[k].coef, d[k].hi));
        }
        if (fx_prove_le(r, fx_dim_of(1), lo) || fx_prove_le(r, hi, fx_dim_of(-1)))
            return true;
        /* A coefficient beyond what all others add up to: its sum is 0, or the difference is not. */
        int k = 0;
        for (; k < n; k++) {
            fx_dim rest_lo = fx_dim_sub(r->ctx, lo, fx_dim_mul(r->ctx, d[k].coef, d[k].lo));
            fx_dim rest_hi = fx_dim_sub(r->ctx, hi, fx_dim_mul(r->ctx, d[k].coef, d[k].hi));
            if (fx_prove_le(r, fx_dim_plus(r->ctx, rest_hi, 1), d[k].coef) &&
                fx_prove_le(r, fx_dim_plus(r->ctx, fx_dim_scale(r->ctx, d[k].coef, -1), 1), rest_lo))
                break;
        }
        for (int i = 0; k == n && i < n; i++) { /* all else is a multiple of g, and so is this, which is less: 0 */
            int64_t g = fx_dim_content(base, 0);
            for (int j = 0; j < n; j++)
                g = j == i ? g : fx_dim_content(d[j].coef, g);
            if (d[i].apart && g > 1 && fx_prove_le(r, fx_dim_mul(r->ctx, d[i].coef, d[i].hi), fx_dim_of(g - 1)) &&
                fx_prove_le(r, fx_dim_of(1 - g), fx_dim_mul(r->ctx, d[i].coef, d[i].lo)))
                return true;
        }
        if (k == n)
            return false;
        if (d[k].apart)
            return true;
        d[k] = d[--n];
    }
}

bool fx_prove_distinct_isl(fx_prover *r, const fx_prove_scope *sa, const fx_affine *a, const fx_prove_scope *sb, const fx_affine *b, int n_shared,
                           int apart)
{
    for (int less = 0; less < (apart == INT_MIN ? 1 : 2); less++) { /* an earlier iteration, then a later one */
        system *y = FX_NEW(r->arena, system);
        add_scope(y, sa, n_shared, false);
        int from = y->n_vars;
        add_scope(y, sb, n_shared, true);
        fx_isl_row *same = new_row(y);
        same->equal = true;
        /* a's variables are the first of their number, b's those from `from` on. */
        system first = *y;
        first.n_vars = from;
        add_affine(&first, same, a, 0, 0, 1);
        add_affine(y, same, b, from, n_shared, -1);
        y->failed |= first.failed;
        if (apart != INT_MIN && !y->failed) {
            fx_isl_row *order = new_row(y);
            order->constant = -1;
            for (int k = n_shared; k < y->n_vars; k++)
                if (y->var[k] == apart)
                    order->coef[k] += (k < from) == (less == 0) ? -1 : 1;
        }
        if (y->failed || fx_isl_empty(r->isl, y->n_vars, y->n_rows, y->row, NULL) != FX_ISL_YES)
            return false;
    }
    return true;
}
