/* ir/sym.c: symbolic integers in a canonical form, so that equal expressions are (mostly) the same pointer.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A sum is flat, holds each term once with its coefficient, terms ordered, the constant last; a product is flat with its
 * constant first; a constant times a sum is distributed, as sympy does. Python's rules hold for // and %. */
#include <string.h>

#include "ir/context.h"

static bool same_sym(const void *entry, const void *key)
{
    const fx_sym *a = entry, *b = key;
    return a->kind == b->kind && a->value == b->value && a->name == b->name && a->n == b->n &&
           (a->n == 0 || memcmp(a->args, b->args, (size_t)a->n * sizeof *a->args) == 0);
}

static const fx_sym *intern_sym(fx_context *ctx, fx_sym s)
{
    uint64_t h = fx_mix_ptr(fx_mix((uint64_t)s.kind + 1, (uint64_t)s.value), s.name);
    for (int i = 0; i < s.n; i++)
        h = fx_mix_ptr(h, s.args[i]);
    fx_sym *found = fx_set_find(&ctx->syms, h, same_sym, &s);
    if (found)
        return found;
    if (s.n)
        s.args = fx_arena_dup(ctx->arena, s.args, (size_t)s.n * sizeof *s.args);
    found = fx_arena_dup(ctx->arena, &s, sizeof s);
    fx_set_add(ctx->arena, &ctx->syms, h, found);
    return found;
}

const fx_sym *fx_sym_int(fx_context *ctx, int64_t v)
{
    return intern_sym(ctx, (fx_sym){.kind = FX_SYM_INT, .value = v});
}

const fx_sym *fx_sym_symbol(fx_context *ctx, const char *name)
{
    return intern_sym(ctx, (fx_sym){.kind = FX_SYM_SYMBOL, .name = fx_intern(ctx, name)});
}

const fx_sym *fx_sym_opaque(fx_context *ctx, const char *text)
{
    return intern_sym(ctx, (fx_sym){.kind = FX_SYM_OPAQUE, .name = fx_intern(ctx, text)});
}

/* An order that does not depend on addresses: symbols by name, then by kind and operands. */
int fx_sym_compare(const fx_sym *a, const fx_sym *b)
{
    if (a == b)
        return 0;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    if (a->name != b->name)
        return strcmp(a->name, b->name);
    for (int i = 0; i < a->n && i < b->n; i++) {
        int c = fx_sym_compare(a->args[i], b->args[i]);
        if (c)
            return c;
    }
    return a->n < b->n ? -1 : 1;
}

/* Insertion sort: expressions are short. */
static void sort(const fx_sym **v, int n)
{
    for (int i = 1; i < n; i++) {
        const fx_sym *s = v[i];
        int k = i;
        for (; k > 0 && fx_sym_compare(v[k - 1], s) > 0; k--)
            v[k] = v[k - 1];
        v[k] = s;
    }
}

static const fx_sym *make(fx_context *ctx, fx_sym_kind kind, int n, const fx_sym **args)
{
    return intern_sym(ctx, (fx_sym){.kind = kind, .n = n, .args = args});
}

/* The expression as it was written, as text: when its value would not fit int64_t. */
static const fx_sym *opaque(fx_context *ctx, fx_sym_kind kind, int n, const fx_sym *const *args)
{
    fx_text t;
    fx_text_init(&t, ctx->arena);
    fx_sym s = {.kind = kind, .n = n, .args = args};
    fx_sym_print(&t, &s);
    return fx_sym_opaque(ctx, t.data);
}

/* All operands, those of nested nodes of the same kind in their place; *count of them. */
static const fx_sym **flatten(fx_context *ctx, fx_sym_kind kind, int n, const fx_sym *const *args, int *count)
{
    int total = 0;
    for (int i = 0; i < n; i++)
        total += args[i]->kind == kind ? args[i]->n : 1;
    const fx_sym **flat = FX_NEW_ARRAY(ctx->arena, const fx_sym *, total + 1);
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (args[i]->kind != kind)
            flat[k++] = args[i];
        else
            for (int j = 0; j < args[i]->n; j++)
                flat[k++] = args[i]->args[j];
    }
    *count = k;
    return flat;
}

/* term = coefficient * rest, rest NULL for a number. */
static int64_t split_term(fx_context *ctx, const fx_sym *term, const fx_sym **rest)
{
    if (term->kind == FX_SYM_INT) {
        *rest = NULL;
        return term->value;
    }
    *rest = term;
    if (term->kind != FX_SYM_MUL || term->args[0]->kind != FX_SYM_INT)
        return 1;
    *rest = term->n == 2 ? term->args[1] : make(ctx, FX_SYM_MUL, term->n - 1, (const fx_sym **)term->args + 1);
    return term->args[0]->value;
}

static const fx_sym *scale(fx_context *ctx, int64_t factor, const fx_sym *s)
{
    if (factor == 1)
        return s;
    const fx_sym *args[2] = {fx_sym_int(ctx, factor), s};
    return fx_sym_make(ctx, FX_SYM_MUL, 2, args);
}

static const fx_sym *make_sum(fx_context *ctx, int n, const fx_sym *const *args)
{
    int m;
    const fx_sym **terms = flatten(ctx, FX_SYM_ADD, n, args, &m);
    int64_t *coef = FX_NEW_ARRAY(ctx->arena, int64_t, m + 1), constant = 0;
    const fx_sym **rest = FX_NEW_ARRAY(ctx->arena, const fx_sym *, m + 1);
    int k = 0;
    for (int i = 0; i < m; i++) {
        const fx_sym *r;
        int64_t c = split_term(ctx, terms[i], &r);
        int at = 0;
        while (r && at < k && rest[at] != r)
            at++;
        if (r && at == k) {
            rest[k] = r;
            coef[k++] = c;
        } else if (__builtin_add_overflow(r ? coef[at] : constant, c, r ? &coef[at] : &constant)) {
            return opaque(ctx, FX_SYM_ADD, n, args);
        }
    }
    int out = 0;
    for (int i = 0; i < k; i++)
        if (coef[i] != 0)
            terms[out++] = scale(ctx, coef[i], rest[i]);
    sort(terms, out);
    if (constant != 0 || out == 0)
        terms[out++] = fx_sym_int(ctx, constant);
    return out == 1 ? terms[0] : make(ctx, FX_SYM_ADD, out, terms);
}

static const fx_sym *make_product(fx_context *ctx, int n, const fx_sym *const *args)
{
    int m, k = 1;
    const fx_sym **f = flatten(ctx, FX_SYM_MUL, n, args, &m);
    const fx_sym **out = FX_NEW_ARRAY(ctx->arena, const fx_sym *, m + 1);
    int64_t constant = 1;
    for (int i = 0; i < m; i++) {
        if (f[i]->kind != FX_SYM_INT)
            out[k++] = f[i];
        else if (__builtin_mul_overflow(constant, f[i]->value, &constant))
            return opaque(ctx, FX_SYM_MUL, n, args);
    }
    if (constant == 0 || k == 1)
        return fx_sym_int(ctx, constant);
    if (k == 2 && constant != 1 && out[1]->kind == FX_SYM_ADD) {
        const fx_sym *sum = out[1];
        const fx_sym **terms = FX_NEW_ARRAY(ctx->arena, const fx_sym *, sum->n);
        for (int i = 0; i < sum->n; i++) {
            terms[i] = scale(ctx, constant, sum->args[i]);
            if (terms[i]->kind == FX_SYM_OPAQUE && sum->args[i]->kind != FX_SYM_OPAQUE)
                return opaque(ctx, FX_SYM_MUL, n, args);
        }
        return make_sum(ctx, sum->n, terms);
    }
    sort(out + 1, k - 1);
    if (constant == 1)
        return k == 2 ? out[1] : make(ctx, FX_SYM_MUL, k - 1, out + 1);
    out[0] = fx_sym_int(ctx, constant);
    return make(ctx, FX_SYM_MUL, k, out);
}

/* Max, Min: the greatest number and each other operand once. */
static const fx_sym *make_extremum(fx_context *ctx, fx_sym_kind kind, int n, const fx_sym *const *args)
{
    int m, k = 0;
    const fx_sym **f = flatten(ctx, kind, n, args, &m);
    const fx_sym *number = NULL;
    for (int i = 0; i < m; i++) {
        if (f[i]->kind == FX_SYM_INT) {
            if (!number || (kind == FX_SYM_MAX ? f[i]->value > number->value : f[i]->value < number->value))
                number = f[i];
            continue;
        }
        int at = 0;
        while (at < k && f[at] != f[i])
            at++;
        if (at == k)
            f[k++] = f[i];
    }
    sort(f, k);
    if (number)
        f[k++] = number;
    return k == 1 ? f[0] : make(ctx, kind, k, f);
}

/* The value of a op b with the rules of Python's integers; false where there is none or it does not fit. */
static bool fold(fx_sym_kind kind, int64_t a, int64_t b, int64_t *out)
{
    if (kind == FX_SYM_POW) {
        if (b < 0)
            return false;
        *out = 1;
        if (a == 0 || a == 1 || a == -1) {
            *out = b == 0 ? 1 : a == -1 && b % 2 == 0 ? 1 : a;
            return true;
        }
        for (; b > 0; b--)
            if (__builtin_mul_overflow(*out, a, out))
                return false;
        return true;
    }
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    int64_t q = a / b, r = a % b;
    bool differ = r != 0 && (r < 0) != (b < 0);
    switch (kind) {
    case FX_SYM_FLOORDIV: *out = q - differ; return true;
    case FX_SYM_CEILDIV: *out = q + (r != 0 && !differ); return true;
    case FX_SYM_MOD: *out = r + (differ ? b : 0); return true;
    default: return false;
    }
}

const fx_sym *fx_sym_make(fx_context *ctx, fx_sym_kind kind, int n, const fx_sym *const *args)
{
    switch (kind) {
    case FX_SYM_ADD: return make_sum(ctx, n, args);
    case FX_SYM_MUL: return make_product(ctx, n, args);
    case FX_SYM_MAX:
    case FX_SYM_MIN:
        if (n > 0)
            return make_extremum(ctx, kind, n, args);
        break;
    case FX_SYM_FLOORDIV:
    case FX_SYM_CEILDIV:
    case FX_SYM_MOD:
    case FX_SYM_POW:
        if (n != 2)
            break;
        int64_t v;
        if (args[1]->kind == FX_SYM_INT && args[1]->value == 1)
            return kind == FX_SYM_MOD ? fx_sym_int(ctx, 0) : args[0];
        if (args[0]->kind == FX_SYM_INT && args[1]->kind == FX_SYM_INT)
            return fold(kind, args[0]->value, args[1]->value, &v) ? fx_sym_int(ctx, v) : opaque(ctx, kind, n, args);
        if (kind == FX_SYM_FLOORDIV && args[0]->kind == FX_SYM_FLOORDIV && args[0]->args[1]->kind == FX_SYM_INT && args[1]->kind == FX_SYM_INT &&
            args[0]->args[1]->value > 0 && args[1]->value > 0 && !__builtin_mul_overflow(args[0]->args[1]->value, args[1]->value, &v)) {
            const fx_sym *once[2] = {args[0]->args[0], fx_sym_int(ctx, v)}; /* x // a // b, as torch writes it */
            return fx_sym_make(ctx, kind, 2, once);
        }
        if (kind == FX_SYM_POW && args[1]->kind == FX_SYM_INT && args[1]->value == 0)
            return fx_sym_int(ctx, 1);
        return intern_sym(ctx, (fx_sym){.kind = kind, .n = n, .args = args});
    default:
        break;
    }
    return opaque(ctx, kind, n, args);
}

/* ---- printing ---------------------------------------------------------------------------------------------- */

enum { PREC_SUM, PREC_PRODUCT, PREC_POWER, PREC_ATOM };

static void print(fx_text *t, const fx_sym *s, int prec);

static void print_call(fx_text *t, const char *f, const fx_sym *s)
{
    fx_printf(t, "%s(", f);
    for (int i = 0; i < s->n; i++) {
        fx_puts(t, i ? ", " : "");
        print(t, s->args[i], PREC_SUM);
    }
    fx_puts(t, ")");
}

static void print_infix(fx_text *t, const char *op, const fx_sym *s, int prec)
{
    for (int i = 0; i < s->n; i++) {
        fx_puts(t, i ? op : "");
        /* The right side of // and % binds tighter than the left, so that a // (b // c) keeps its parentheses. */
        print(t, s->args[i], prec + (i > 0 && s->kind != FX_SYM_MUL) + (i == 0 && s->kind == FX_SYM_POW));
    }
}

/* Whether a term of a sum is printed after " - ": then with its sign turned. */
static bool negative(const fx_sym *s)
{
    const fx_sym *c = s->kind == FX_SYM_MUL && s->n > 1 ? s->args[0] : s;
    return c->kind == FX_SYM_INT && c->value < 0 && c->value != INT64_MIN;
}

static void print_term(fx_text *t, const fx_sym *s, bool turned)
{
    if (!turned) {
        print(t, s, PREC_PRODUCT);
    } else if (s->kind == FX_SYM_INT) {
        fx_printf(t, "%lld", -(long long)s->value);
    } else {
        if (s->args[0]->value != -1)
            fx_printf(t, "%lld*", -(long long)s->args[0]->value);
        for (int i = 1; i < s->n; i++) {
            fx_puts(t, i > 1 ? "*" : "");
            print(t, s->args[i], PREC_POWER);
        }
    }
}

static void print(fx_text *t, const fx_sym *s, int prec)
{
    static const int own[] = {[FX_SYM_INT] = PREC_ATOM, [FX_SYM_SYMBOL] = PREC_ATOM, [FX_SYM_ADD] = PREC_SUM,
                              [FX_SYM_MUL] = PREC_PRODUCT, [FX_SYM_FLOORDIV] = PREC_PRODUCT, [FX_SYM_MOD] = PREC_PRODUCT,
                              [FX_SYM_MAX] = PREC_ATOM, [FX_SYM_MIN] = PREC_ATOM, [FX_SYM_POW] = PREC_POWER,
                              [FX_SYM_CEILDIV] = PREC_ATOM, [FX_SYM_OPAQUE] = PREC_ATOM};
    bool wrap = own[s->kind] < prec || (s->kind == FX_SYM_INT && s->value < 0 && prec == PREC_ATOM);
    fx_puts(t, wrap ? "(" : "");
    switch (s->kind) {
    case FX_SYM_INT: fx_printf(t, "%lld", (long long)s->value); break;
    case FX_SYM_SYMBOL:
    case FX_SYM_OPAQUE: fx_puts(t, s->name); break;
    case FX_SYM_ADD:
        for (int i = 0; i < s->n; i++) {
            bool turned = i > 0 && negative(s->args[i]);
            fx_puts(t, i == 0 ? "" : turned ? " - " : " + ");
            print_term(t, s->args[i], turned);
        }
        break;
    case FX_SYM_MUL:
        if (s->n > 1 && s->args[0]->kind == FX_SYM_INT && s->args[0]->value == -1) {
            fx_puts(t, "-");
            print_term(t, s, true);
        } else {
            print_infix(t, "*", s, PREC_POWER);
        }
        break;
    case FX_SYM_FLOORDIV: print_infix(t, "//", s, PREC_PRODUCT); break;
    case FX_SYM_MOD: print_infix(t, "%", s, PREC_PRODUCT); break;
    case FX_SYM_POW: print_infix(t, "**", s, PREC_POWER); break;
    case FX_SYM_MAX: print_call(t, "Max", s); break;
    case FX_SYM_MIN: print_call(t, "Min", s); break;
    case FX_SYM_CEILDIV: print_call(t, "CeilDiv", s); break;
    }
    fx_puts(t, wrap ? ")" : "");
}

void fx_sym_print(fx_text *t, const fx_sym *s)
{
    print(t, s, PREC_SUM);
}
