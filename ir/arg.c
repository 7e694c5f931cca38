/* ir/arg.c: interned argument templates.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

static uint64_t bits(double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static bool same_pointers(size_t n, const void *a, const void *b)
{
    return n == 0 || memcmp(a, b, n * sizeof(void *)) == 0;
}

/* Floats are equal when their bits are: NaN equals itself, -0 differs from 0. */
static bool same_arg(const void *entry, const void *key)
{
    const fx_arg *a = entry, *b = key;
    return a->kind == b->kind && a->b == b->b && a->i == b->i && bits(a->f) == bits(b->f) && bits(a->im) == bits(b->im) &&
           a->s == b->s && a->sym == b->sym && a->graph == b->graph && a->n == b->n &&
           same_pointers((size_t)a->n, a->items, b->items) &&
           (a->kind != FX_ARG_DICT || same_pointers((size_t)a->n, a->keys, b->keys));
}

static const fx_arg *intern_arg(fx_context *ctx, fx_arg a)
{
    uint64_t h = fx_mix(fx_mix((uint64_t)a.kind + 1, (uint64_t)a.i + a.b), (uint64_t)a.n);
    h = fx_mix(fx_mix(h, bits(a.f)), bits(a.im));
    h = fx_mix_ptr(fx_mix_ptr(fx_mix_ptr(h, a.s), a.sym), a.graph);
    for (int i = 0; i < a.n; i++) {
        h = fx_mix_ptr(h, a.items[i]);
        if (a.keys)
            h = fx_mix_ptr(h, a.keys[i]);
    }
    fx_arg *found = fx_set_find(&ctx->args, h, same_arg, &a);
    if (found)
        return found;
    a.items = a.n ? fx_arena_dup(ctx->arena, a.items, (size_t)a.n * sizeof *a.items) : NULL;
    a.keys = a.n && a.keys ? fx_arena_dup(ctx->arena, a.keys, (size_t)a.n * sizeof *a.keys) : NULL;
    found = fx_arena_dup(ctx->arena, &a, sizeof a);
    fx_set_add(ctx->arena, &ctx->args, h, found);
    return found;
}

const fx_arg *fx_arg_none(fx_context *ctx)
{
    return intern_arg(ctx, (fx_arg){.kind = FX_ARG_NONE});
}

const fx_arg *fx_arg_operand(fx_context *ctx, int index)
{
    if (index >= 0 && index < FX_CACHED && ctx->operands[index])
        return ctx->operands[index];
    const fx_arg *a = intern_arg(ctx, (fx_arg){.kind = FX_ARG_NODE, .i = index});
    if (index >= 0 && index < FX_CACHED)
        ctx->operands[index] = a;
    return a;
}

const fx_arg *fx_arg_operand_tuple(fx_context *ctx, int n)
{
    const fx_arg *items[FX_CACHED] = {0};
    for (int i = 0; i < n && !ctx->operand_tuples[n]; i++)
        items[i] = fx_arg_operand(ctx, i);
    if (!ctx->operand_tuples[n])
        ctx->operand_tuples[n] = fx_arg_seq(ctx, FX_ARG_TUPLE, n, items);
    return ctx->operand_tuples[n];
}

const fx_arg *fx_arg_bool(fx_context *ctx, bool v)
{
    return intern_arg(ctx, (fx_arg){.kind = FX_ARG_BOOL, .b = v});
}

const fx_arg *fx_arg_int(fx_context *ctx, int64_t v)
{
    return intern_arg(ctx, (fx_arg){.kind = FX_ARG_INT, .i = v});
}

const fx_arg *fx_arg_float(fx_context *ctx, double v)
{
    return intern_arg(ctx, (fx_arg){.kind = FX_ARG_FLOAT, .f = v});
}

const fx_arg *fx_arg_complex(fx_context *ctx, double re, double im)
{
    return intern_arg(ctx, (fx_arg){.kind = FX_ARG_COMPLEX, .f = re, .im = im});
}

const fx_arg *fx_arg_text(fx_context *ctx, fx_arg_kind kind, const char *s)
{
    return intern_arg(ctx, (fx_arg){.kind = kind, .s = fx_intern(ctx, s)});
}

const fx_arg *fx_arg_dtype(fx_context *ctx, fx_dtype v)
{
    return intern_arg(ctx, (fx_arg){.kind = FX_ARG_DTYPE, .i = v});
}

const fx_arg *fx_arg_sym(fx_context *ctx, const fx_sym *s)
{
    return s->kind == FX_SYM_INT ? fx_arg_int(ctx, s->value) : intern_arg(ctx, (fx_arg){.kind = FX_ARG_SYM, .sym = s});
}

const fx_arg *fx_arg_graph(fx_context *ctx, fx_graph *g)
{
    return intern_arg(ctx, (fx_arg){.kind = FX_ARG_GRAPH, .graph = g});
}

const fx_arg *fx_arg_seq(fx_context *ctx, fx_arg_kind kind, int n, const fx_arg *const *items)
{
    return intern_arg(ctx, (fx_arg){.kind = kind, .n = n, .items = items});
}

const fx_arg *fx_arg_dict(fx_context *ctx, int n, const char *const *keys, const fx_arg *const *items)
{
    const char *small[16];
    const char **interned = n <= 16 ? small : FX_NEW_ARRAY(ctx->arena, const char *, n);
    for (int i = 0; i < n; i++)
        interned[i] = fx_intern(ctx, keys[i]);
    return intern_arg(ctx, (fx_arg){.kind = FX_ARG_DICT, .n = n, .items = items, .keys = interned});
}

const fx_arg *fx_arg_ints(fx_context *ctx, int n, const int64_t *v)
{
    const fx_arg *small[16];
    const fx_arg **items = n <= 16 ? small : FX_NEW_ARRAY(ctx->arena, const fx_arg *, n);
    for (int i = 0; i < n; i++)
        items[i] = fx_arg_int(ctx, v[i]);
    return fx_arg_seq(ctx, FX_ARG_LIST, n, items);
}

const fx_arg *fx_arg_ellipsis(fx_context *ctx)
{
    return intern_arg(ctx, (fx_arg){.kind = FX_ARG_ELLIPSIS});
}

const char *fx_arg_kind_name(fx_arg_kind kind)
{
    static const char *const names[] = {"None", "a node", "bool", "int", "float", "complex", "str", "dtype", "device", "layout",
                                        "memory format", "list", "tuple", "dict", "slice", "Ellipsis", "SymInt", "graph"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

/* ---- walking ---------------------------------------------------------------------------------------------------- */

void fx_arg_operands(const fx_arg *a, void (*f)(void *user, int64_t operand), void *user)
{
    if (a->kind == FX_ARG_NODE)
        f(user, a->i);
    for (int i = 0; i < a->n; i++)
        fx_arg_operands(a->items[i], f, user);
}

const fx_arg *fx_arg_map(fx_context *ctx, const fx_arg *a, const fx_arg *(*f)(void *user, const fx_arg *leaf), void *user)
{
    if (a->kind != FX_ARG_LIST && a->kind != FX_ARG_TUPLE && a->kind != FX_ARG_DICT && a->kind != FX_ARG_SLICE)
        return f(user, a);
    const fx_arg *small[32];
    const fx_arg **items = a->n <= 32 ? small : FX_NEW_ARRAY(ctx->arena, const fx_arg *, a->n);
    bool same = true;
    for (int i = 0; i < a->n; i++) {
        items[i] = fx_arg_map(ctx, a->items[i], f, user);
        same = same && items[i] == a->items[i];
    }
    if (same)
        return a;
    return intern_arg(ctx, (fx_arg){.kind = a->kind, .n = a->n, .items = items, .keys = a->keys});
}
