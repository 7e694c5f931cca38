/* ir/dim_solve.c: what a size says of a symbol that it names.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ir.h"

/* s = factor * symbol + rest, where *symbol is the first symbol met, or the one asked for. */
static bool linear(const fx_sym *s, const char **symbol, int64_t *factor, int64_t *rest)
{
    int64_t f, r;
    *factor = *rest = 0;
    switch (s->kind) {
    case FX_SYM_INT:
        *rest = s->value;
        return true;
    case FX_SYM_SYMBOL:
        if (*symbol && strcmp(*symbol, s->name) != 0)
            return false;
        *symbol = s->name;
        *factor = 1;
        return true;
    case FX_SYM_ADD:
        for (int i = 0; i < s->n; i++)
            if (!linear(s->args[i], symbol, &f, &r) || __builtin_add_overflow(*factor, f, factor) || __builtin_add_overflow(*rest, r, rest))
                return false;
        return true;
    case FX_SYM_MUL:
        *rest = 1;
        for (int i = 0; i < s->n; i++) {
            if (!linear(s->args[i], symbol, &f, &r) || (*factor && f))
                return false;
            int64_t a, b;
            if (__builtin_mul_overflow(*factor, r, &a) || __builtin_mul_overflow(*rest, f, &b) || __builtin_add_overflow(a, b, factor) ||
                __builtin_mul_overflow(*rest, r, rest))
                return false;
        }
        return true;
    default:
        return false;
    }
}

const char *fx_dim_linear(fx_dim d, const char *symbol, int64_t *factor, int64_t *rest)
{
    return d.sym && linear(d.sym, &symbol, factor, rest) && *factor ? symbol : NULL;
}

bool fx_linear_solve(int64_t factor, int64_t rest, int64_t size, int64_t *value)
{
    int64_t product;
    if (__builtin_sub_overflow(size, rest, &product) || (factor == -1 && product == INT64_MIN))
        return false;
    *value = product / factor;
    return product % factor == 0;
}

bool fx_dim_solve(fx_dim d, const char *symbol, int64_t size, int64_t *value)
{
    int64_t factor, rest;
    return fx_dim_linear(d, symbol, &factor, &rest) && fx_linear_solve(factor, rest, size, value);
}

int fx_dim_tells(fx_dim d, const char *symbol)
{
    int64_t factor, rest;
    if (!fx_dim_linear(d, symbol, &factor, &rest))
        return 0;
    return factor == 1 && rest == 0 ? 2 : 1;
}
