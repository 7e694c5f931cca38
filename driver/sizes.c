/* driver/sizes.c: sizes that a graph leaves open: narrowed by the user, told by inputs, chosen for golden vectors.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "fxcc/inspect.h"

/* ---- putting numbers for symbols ------------------------------------------------------------------------------ */

/* What becomes of a symbol; types and expressions that were met are kept. */
typedef struct replacement {
    fx_context *ctx;
    fx_arena *arena;
    const char *name;
    const fx_sym *by;
    fx_map types;
} replacement;

static const fx_sym *replace_sym(replacement *r, const fx_sym *s)
{
    if (s->kind == FX_SYM_SYMBOL)
        return strcmp(s->name, r->name) == 0 ? r->by : s;
    if (s->kind == FX_SYM_INT || s->kind == FX_SYM_OPAQUE)
        return s;
    const fx_sym **args = FX_NEW_ARRAY(r->arena, const fx_sym *, s->n);
    bool same = true;
    for (int i = 0; i < s->n; i++) {
        args[i] = replace_sym(r, s->args[i]);
        same &= args[i] == s->args[i];
    }
    return same ? s : fx_sym_make(r->ctx, s->kind, s->n, args);
}

static fx_dim replace_dim(replacement *r, fx_dim d)
{
    return d.sym ? fx_dim_sym(replace_sym(r, d.sym)) : d;
}

static const fx_type *replace_type(replacement *r, const fx_type *t)
{
    const fx_type *done = t ? fx_map_get(&r->types, t) : NULL;
    if (!t || done)
        return done;
    done = t;
    if (t->kind == FX_TYPE_TENSOR && t->rank <= FX_MAX_RANK) {
        fx_dim dims[FX_MAX_RANK], strides[FX_MAX_RANK];
        for (int i = 0; i < t->rank; i++) {
            dims[i] = replace_dim(r, t->dims[i]);
            if (t->strides)
                strides[i] = replace_dim(r, t->strides[i]);
        }
        done = fx_type_tensor(r->ctx, t->dtype, t->rank, dims, t->strides ? strides : NULL);
    } else if (t->kind == FX_TYPE_TUPLE) {
        const fx_type **items = FX_NEW_ARRAY(r->arena, const fx_type *, t->n + 1);
        for (int i = 0; i < t->n; i++)
            items[i] = replace_type(r, t->items[i]);
        done = fx_type_tuple(r->ctx, t->n, items);
    } else if (t->kind == FX_TYPE_INT && t->value.sym) {
        done = fx_type_int(r->ctx, replace_dim(r, t->value));
    }
    fx_map_put(r->arena, &r->types, t, (void *)(uintptr_t)done);
    return done;
}

static void replace_in_graph(replacement *r, fx_graph *g);

static const fx_arg *replace_leaf(void *user, const fx_arg *leaf)
{
    replacement *r = user;
    if (leaf->kind == FX_ARG_GRAPH && leaf->graph)
        replace_in_graph(r, leaf->graph);
    if (leaf->kind != FX_ARG_SYM)
        return leaf;
    const fx_sym *s = replace_sym(r, leaf->sym);
    return s->kind == FX_SYM_INT ? fx_arg_int(r->ctx, s->value) : fx_arg_sym(r->ctx, s);
}

static void replace_in_graph(replacement *r, fx_graph *g)
{
    FX_FOR_NODES(g, n)
    {
        n->args = fx_arg_map(r->ctx, n->args, replace_leaf, r);
        if (n->kwargs)
            n->kwargs = fx_arg_map(r->ctx, n->kwargs, replace_leaf, r);
        n->type = replace_type(r, n->type);
    }
}

/* ---- narrowing ------------------------------------------------------------------------------------------------- */

static const fx_node *input_node(const fx_graph *g, const char *name, size_t n)
{
    FX_FOR_NODES(g, p)
        if (p->opcode == FX_PLACEHOLDER && strlen(p->name) == n && memcmp(p->name, name, n) == 0)
            return p;
    return NULL;
}

/* The symbol of the given name, or that tells size AXIS of an input, as "x:0": the size is factor * symbol + rest. */
static fx_sym_range *find_symbol(fx_graph *g, const char *name, size_t n, int64_t *factor, int64_t *rest)
{
    const char *colon = memchr(name, ':', n);
    *factor = 1;
    *rest = 0;
    if (colon) {
        const fx_node *in = input_node(g, name, (size_t)(colon - name));
        char *end;
        long axis = strtol(colon + 1, &end, 10);
        if (!in || !in->type || in->type->kind != FX_TYPE_TENSOR || end != name + n || axis < 0 || axis >= in->type->rank)
            return NULL;
        name = fx_dim_linear(in->type->dims[axis], NULL, factor, rest);
        if (!name)
            return NULL;
        n = strlen(name);
    }
    for (size_t i = 0; i < g->n_symbols; i++)
        if (strlen(g->symbols[i].name) == n && memcmp(g->symbols[i].name, name, n) == 0)
            return &g->symbols[i];
    return NULL;
}

/* The symbol's range where factor * symbol + rest lies in [*lo, *hi]; ends that are open stay so. */
static void solve_range(int64_t factor, int64_t rest, int64_t *lo, int64_t *hi)
{
    if (factor == 1 && rest == 0)
        return;
    __int128 low = *lo == INT64_MIN ? 0 : (__int128)*lo - rest, high = *hi == INT64_MAX ? 0 : (__int128)*hi - rest;
    bool no_low = *lo == INT64_MIN, no_high = *hi == INT64_MAX;
    if (factor < 0) {
        __int128 swap = low;
        bool none = no_low;
        low = -high;
        high = -swap;
        no_low = no_high;
        no_high = none;
    }
    __int128 by = factor < 0 ? -(__int128)factor : factor;
    low = low / by + (low % by > 0); /* up */
    high = high / by - (high % by < 0); /* down */
    *lo = no_low || low < INT64_MIN ? INT64_MIN : low > INT64_MAX ? INT64_MAX : (int64_t)low;
    *hi = no_high || high > INT64_MAX ? INT64_MAX : high < INT64_MIN ? INT64_MIN : (int64_t)high;
}

static const char *range_text(fx_arena *arena, const fx_sym_range *s)
{
    const char *lo = s->min == INT64_MIN ? "" : fx_arena_printf(arena, "%lld", (long long)s->min);
    return s->max == INT64_MAX ? fx_arena_printf(arena, "%s=%s..", s->name, lo) : fx_arena_printf(arena, "%s=%s..%lld", s->name, lo, (long long)s->max);
}

static fx_status unknown_symbol(fx_graph *g, const char *spec)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(g->ctx));
    for (size_t i = 0; i < g->n_symbols; i++)
        fx_printf(&t, "%s%s", i ? ", " : "", range_text(t.arena, &g->symbols[i]));
    return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "size '%s': expected the name of a size the model leaves open (%s) or INPUT:AXIS, then =N or =LO..HI", spec,
                   t.size ? t.data : "there is none");
}

/* "8", "2..16", "2..", "..16" */
static bool parse_range(const char *s, int64_t *lo, int64_t *hi)
{
    char *end;
    *lo = INT64_MIN;
    *hi = INT64_MAX;
    const char *dots = strstr(s, "..");
    if (s != dots) {
        *lo = strtoll(s, &end, 10);
        if (end == s || (*end && end != dots))
            return false;
        if (!dots)
            *hi = *lo;
    }
    if (dots && dots[2]) {
        *hi = strtoll(dots + 2, &end, 10);
        if (*end)
            return false;
    }
    return *lo <= *hi;
}

fx_status fx_sizes_narrow(fx_graph *g, const char *spec)
{
    const char *equals = strchr(spec, '=');
    int64_t lo, hi, factor, rest;
    fx_sym_range *s = equals ? find_symbol(g, spec, (size_t)(equals - spec), &factor, &rest) : NULL;
    if (!s || !parse_range(equals + 1, &lo, &hi))
        return unknown_symbol(g, spec);
    solve_range(factor, rest, &lo, &hi);
    if (lo > hi)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "size '%s': no value of %s gives such a size", spec, s->name);
    if ((lo != INT64_MIN && (lo < s->min || lo > s->max)) || (hi != INT64_MAX && (hi < s->min || hi > s->max)))
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "size '%s': expected numbers within the model's own range, %s", spec,
                       range_text(fx_context_arena(g->ctx), s));
    s->min = lo > s->min ? lo : s->min;
    s->max = hi < s->max ? hi : s->max;
    if (s->min == s->max) {
        replacement r = {.ctx = g->ctx, .arena = g->arena, .name = s->name, .by = fx_sym_int(g->ctx, s->min)};
        replace_in_graph(&r, g);
        *s = g->symbols[--g->n_symbols];
    }
    return FX_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Around 4, and different from symbol to symbol, so that mixed-up sizes show. */
void fx_sizes_choose(const fx_graph *g, int64_t *values)
{
    for (size_t i = 0; i < g->n_symbols; i++) {
        const fx_sym_range *s = &g->symbols[i];
        int64_t v = 3 + 2 * (int64_t)(i % 4);
        values[i] = v < s->min ? s->min : v > s->max ? s->max : v;
    }
}

bool fx_sizes_shape(const fx_graph *g, const int64_t *values, const fx_type *type, fx_tensor *out)
{
    if (!type || type->kind != FX_TYPE_TENSOR)
        return false;
    *out = (fx_tensor){.dtype = type->dtype, .rank = type->rank};
    int64_t stride = 1;
    for (int d = type->rank - 1; d >= 0; d--) {
        if (!fx_dim_eval(fx_graph_symbols(g), values, type->dims[d], &out->sizes[d]) || out->sizes[d] < 0)
            return false;
        out->strides[d] = stride;
        stride *= out->sizes[d];
    }
    return true;
}

/* A symbol's value follows from the first input size that is it, or else from the first that is linear in it; others keep what they are. Where
 * no value gives the size, one near it does: the comparison of shapes will tell. */
static void read_values(const fx_graph *g, size_t n, const fx_node *const *nodes, const fx_tensor *in, int64_t *values)
{
    for (size_t k = 0; k < g->n_symbols; k++) {
        int best = 0;
        for (size_t i = 0; i < n; i++) {
            const fx_type *t = nodes[i]->type;
            for (int d = 0; t && t->kind == FX_TYPE_TENSOR && d < t->rank && d < in[i].rank; d++) {
                int tells = fx_dim_tells(t->dims[d], g->symbols[k].name);
                if (tells <= best)
                    continue;
                best = tells;
                fx_dim_solve(t->dims[d], g->symbols[k].name, in[i].sizes[d], &values[k]);
            }
        }
    }
}

fx_status fx_sizes_of_inputs(const fx_graph *g, size_t n, const fx_node *const *nodes, const fx_tensor *in, int64_t *values)
{
    fx_arena *arena = fx_context_arena(g->ctx);
    fx_sizes_choose(g, values);
    read_values(g, n, nodes, in, values);
    for (size_t k = 0; k < g->n_symbols; k++)
        if (values[k] < g->symbols[k].min || values[k] > g->symbols[k].max)
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "the inputs' size %s is %lld: expected %s", g->symbols[k].name, (long long)values[k],
                           range_text(arena, &g->symbols[k]));
    for (size_t i = 0; i < n; i++) {
        fx_tensor want;
        if (!fx_sizes_shape(g, values, nodes[i]->type, &want))
            return fx_fail(g->ctx, FX_ERR_UNSUPPORTED, &nodes[i]->loc, "expected input %zu to be a tensor whose sizes the inputs tell", i);
        bool same = want.dtype == in[i].dtype && want.rank == in[i].rank;
        for (int d = 0; same && d < want.rank; d++)
            same = want.sizes[d] == in[i].sizes[d];
        char expected[256], got[256];
        if (!same)
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "input %zu '%s': expected %s, got %s", i, nodes[i]->target, fx_tensor_text(&want, expected, sizeof expected),
                           fx_tensor_text(&in[i], got, sizeof got));
    }
    return FX_OK;
}
