/* driver/least.c: the least bytes that a program for a graph moves: inputs, outputs and weights once, and what has to pass from one kernel to another.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Told from the graph in core form (docs/cuda.md, "Bytes"), not from the program it became. Contractions, reductions, norms, attention and pools are
 * heavy: one kernel makes one of them. All else is light: views, pointwise nodes, concatenations, gathers are computed by the kernel that makes what
 * they read, or by the one that reads what they make, and stored nowhere else. Then
 *   - what a heavy node makes is written once, in the smallest of the forms it has on its way (a slice, a sum of it): `kept`;
 *   - a heavy node reads each operand, in its smallest form or that of what it is made from: `cost`; where slices of one result meet again (gate and value
 *     of a merged product), all of them, since the kernel that makes them has one at a time;
 *   - a pointwise node that joins what different kernels made (a residual) has the smaller of them read, since only one is at hand.
 * Reductions of one value, or of what others made of the same rows, are one kernel. */
#include "driver/traffic.h"

#include <string.h>

enum { MOST_SOURCES = 32 };

/* What a light value is made from, by position, descending: results of heavy nodes, or slices of them; `cut`: those before the last one are not told. */
typedef struct sources {
    int n;
    bool cut;
    uint32_t at[MOST_SOURCES];
} sources;

typedef struct least {
    const fx_graph *g;
    fx_arena *arena;
    fx_symbols symbols;
    const int64_t *values;
    uint32_t *position;            /* by id, as all of these */
    const fx_node **node;          /* by position */
    uint64_t *size, *cost;
    sources **from;                /* NULL: of inputs and constants alone */
    uint32_t *part_of;             /* by position: of a slice of what a heavy node makes, its operand, one more than its position; 0: none */
    bool *constant, *output;
    uint64_t *kept; bool *known;
    uint64_t *joins; size_t n_joins; /* open addressing: pairs of sources that were joined */
    fx_least sum;
} least;

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t type_bytes(const least *l, const fx_type *t)
{
    uint64_t n = t && t->kind == FX_TYPE_TENSOR ? fx_dtype_size(t->dtype) : 0;
    for (int i = 0; n && i < t->rank; i++) {
        int64_t d;
        if (!fx_dim_eval(l->symbols, l->values, t->dims[i], &d) || d <= 0)
            return 0;
        if (__builtin_mul_overflow(n, (uint64_t)d, &n))
            return UINT64_MAX;
    }
    return n;
}

static bool calls(const fx_node *n, fx_opid op)
{
    return n->opcode == FX_CALL_FUNCTION && n->op && n->op->id == op;
}

/* Of a tensor; of several, those that are taken. */
static uint64_t bytes_of(const least *l, const fx_node *n)
{
    if (!n->type || n->type->kind != FX_TYPE_TUPLE)
        return type_bytes(l, n->type);
    uint64_t sum = 0;
    for (const fx_use *u = n->first_use; u; u = u->next)
        if (calls(u->user, FX_OP_getitem))
            sum = plus(sum, type_bytes(l, u->user->type));
    return sum;
}

static bool is_heavy(const fx_node *n)
{
    if (n->opcode != FX_CALL_FUNCTION || !n->op)
        return false;
    switch (n->op->cls) {
    case FX_CLASS_CONTRACTION: case FX_CLASS_REDUCTION: case FX_CLASS_POOL:
        return true;
    case FX_CLASS_NORM:
        return n->op->id != FX_OP__native_batch_norm_legit_no_training; /* a scale and a shift */
    default:
        return n->op->id == FX_OP_cumsum || n->op->id == FX_OP_cumprod || n->op->id == FX_OP_topk || n->op->id == FX_OP_sort_stable;
    }
}

static bool is_reduction(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && n->op && n->op->cls == FX_CLASS_REDUCTION;
}

/* ---- sources -------------------------------------------------------------------------------------------------------------- */

static void add_source(sources *s, uint32_t at)
{
    int i = 0;
    while (i < s->n && s->at[i] > at)
        i++;
    if (i < s->n && s->at[i] == at)
        return;
    if (i == MOST_SOURCES) {
        s->cut = true;
        return;
    }
    s->cut |= s->n == MOST_SOURCES;
    s->n = s->n < MOST_SOURCES ? s->n + 1 : MOST_SOURCES;
    memmove(&s->at[i + 1], &s->at[i], (size_t)(s->n - 1 - i) * sizeof s->at[0]);
    s->at[i] = at;
}

static void add_sources(sources *to, const sources *s)
{
    for (int i = 0; s && i < s->n; i++)
        add_source(to, s->at[i]);
    to->cut |= s && s->cut;
}

/* The result of a heavy node that a slice is a slice of, itself perhaps. */
static uint32_t whole(const least *l, uint32_t at)
{
    while (l->part_of[at])
        at = l->part_of[at] - 1;
    return at;
}

/* Whether source `at` or what it is a slice of is one of s. */
static bool has_source(const least *l, const sources *s, uint32_t at)
{
    for (;; at = l->part_of[at] - 1) {
        for (int k = 0; s && k < s->n; k++)
            if (s->at[k] == at)
                return true;
        if (!l->part_of[at])
            return false;
    }
}

/* Whether all of a are in b, as far as b tells. */
static bool within(const least *l, const sources *a, const sources *b, bool but_reductions)
{
    for (int i = 0; a && i < a->n; i++)
        if (!has_source(l, b, a->at[i]) && !(b && b->cut && a->at[i] < b->at[b->n - 1]) && !(but_reductions && is_reduction(l->node[a->at[i]])))
            return false;
    return true;
}

/* Bytes of several slices of what one heavy node made: no kernel has them at hand together, so all of them are read. 0: it is one value, or from several nodes. */
static uint64_t of_slices(const least *l, const sources *s)
{
    uint64_t sum = 0;
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (whole(l, s->at[i]) != whole(l, s->at[0]))
            return 0;
        if (l->part_of[s->at[i]] && has_source(l, s, l->part_of[s->at[i]] - 1))
            continue; /* a slice of another one of them */
        sum = plus(sum, l->size[l->node[s->at[i]]->id]);
        n++;
    }
    return n > 1 && !s->cut ? sum : 0;
}

/* Whether both are of one heavy node's result: its slices are told apart by of_slices. */
static bool of_one(const least *l, const sources *a, const sources *b)
{
    for (int i = 0; i < a->n + b->n; i++)
        if (whole(l, i < a->n ? a->at[i] : b->at[i - a->n]) != whole(l, a->at[0]))
            return false;
    return true;
}

/* Whether the pair is joined for the first time. */
static bool first_join(least *l, const sources *a, const sources *b)
{
    uint64_t h = fx_hash_block(fx_hash_block(7, a->at, (size_t)a->n * sizeof a->at[0]), b->at, (size_t)b->n * sizeof b->at[0]) | 1;
    size_t i = h % l->n_joins;
    while (l->joins[i] && l->joins[i] != h)
        i = (i + 1) % l->n_joins;
    bool first = !l->joins[i];
    l->joins[i] = h;
    return first;
}

/* ---- light nodes ------------------------------------------------------------------------------------------------------------ */

static void see_light(least *l, const fx_node *n)
{
    sources *all = FX_NEW_ARRAY(l->arena, sources, 1);
    uint64_t cost = 0, read = 0; /* of all operands; of those that have different sources */
    for (int i = 0; i < n->n_operands; i++) {
        const fx_node *d = n->operands[i].def;
        const sources *f = l->from[d->id];
        uint64_t c = l->cost[d->id];
        cost = plus(cost, c);
        if (!f)
            continue;
        bool shared = !all->n || within(l, f, all, false) || within(l, all, f, false);
        if (n->op->cls == FX_CLASS_POINTWISE && !shared && !of_one(l, all, f) && first_join(l, all, f))
            l->sum.intermediates = plus(l->sum.intermediates, smaller(read, c));
        read = !shared ? plus(read, c) : read > c ? read : c;
        add_sources(all, f);
    }
    l->cost[n->id] = all->n ? smaller(l->size[n->id], cost) : 0;
    if (n->op->cls == FX_CLASS_POINTWISE && all->n) {
        uint64_t slices = of_slices(l, all);
        l->cost[n->id] = slices ? slices : l->cost[n->id];
    } else if (all->n == 1 && !all->cut && (n->op->id == FX_OP_slice_Tensor || n->op->id == FX_OP_select_int)) {
        uint32_t at = l->position[n->id];
        l->part_of[at] = all->at[0] + 1;
        *all = (sources){.n = 1, .at = {at}};
    }
    l->from[n->id] = all->n ? all : NULL;
}

/* ---- heavy nodes ------------------------------------------------------------------------------------------------------------ */

/* Whether a reduction reads nothing that another one of its kernel does not: the same value, or what was made of its rows. */
static bool read_already(const least *l, const fx_node *n, const fx_node *d)
{
    const sources *s = l->from[d->id];
    if (!is_reduction(n) || !s)
        return false;
    for (const fx_use *u = d->first_use; u; u = u->next)
        if (is_reduction(u->user) && l->position[u->user->id] < l->position[n->id])
            return true;
    for (int i = 0; i < s->n; i++) {
        const fx_node *r = l->node[s->at[i]];
        if (is_reduction(r) && r->n_operands && within(l, s, l->from[r->operands[0].def->id], true))
            return true;
    }
    return false;
}

/* At most so many bytes of a convolution's input lie under its windows: of what is between windows further apart than they are large, none. */
static uint64_t under_windows(const least *l, const fx_node *n)
{
    const fx_node *x = fx_node_input(n, 0), *w = fx_node_input(n, 1);
    int transposed = n->op->id == FX_OP_convolution ? fx_node_param(n, "transposed") : -1;
    if (transposed < 0 || fx_node_bool(n, transposed) || !x->type->rank || n->type->rank != x->type->rank || w->type->rank != x->type->rank)
        return UINT64_MAX;
    uint64_t bytes = fx_dtype_size(x->type->dtype);
    for (int i = 0; i < x->type->rank; i++) {
        int64_t d, taps;
        fx_dim size = i < 2 ? x->type->dims[i] : n->type->dims[i];
        if (!fx_dim_eval(l->symbols, l->values, size, &d) || !fx_dim_eval(l->symbols, l->values, i < 2 ? fx_dim_of(1) : w->type->dims[i], &taps) ||
            __builtin_mul_overflow(bytes, (uint64_t)d, &bytes) || __builtin_mul_overflow(bytes, (uint64_t)taps, &bytes))
            return UINT64_MAX;
    }
    return bytes;
}

static void see_heavy(least *l, const fx_node *n)
{
    for (int i = 0; i < n->n_operands; i++) {
        const fx_node *d = n->operands[i].def;
        uint64_t most = d == fx_node_input(n, 0) ? under_windows(l, n) : UINT64_MAX;
        if (!read_already(l, n, d))
            l->sum.intermediates = plus(l->sum.intermediates, smaller(l->cost[d->id], most));
    }
    l->from[n->id] = FX_NEW_ARRAY(l->arena, sources, 1);
    add_source(l->from[n->id], l->position[n->id]);
    l->cost[n->id] = l->size[n->id];
}

/* The least that has to be written of n, so that who uses it may: nothing where that is an output anyway. Users come later: backwards. */
static uint64_t kept(const least *l, const fx_node *n)
{
    uint64_t sum = 0;
    if (l->output[n->id])
        return 0;
    for (const fx_use *u = n->first_use; u; u = u->next) {
        if (is_heavy(u->user))
            return l->size[n->id];
        if (u->user->opcode == FX_CALL_FUNCTION)
            sum = plus(sum, l->kept[u->user->id]);
    }
    return smaller(sum, l->size[n->id]);
}

/* ---- weights ----------------------------------------------------------------------------------------------------------------- */

/* The least that has to be read of a constant: of a table, the rows that are looked up. */
static uint64_t looked_at(const least *l, const fx_node *n)
{
    uint64_t sum = 0;
    for (const fx_use *u = n->first_use; u; u = u->next) {
        const fx_node *user = u->user;
        bool table = user->op && user->op->cls == FX_CLASS_GATHER && user->n_operands && user->operands[0].def == n;
        if (l->constant[user->id])
            sum = plus(sum, l->kept[user->id]);
        else
            sum = plus(sum, table ? l->size[user->id] : l->size[n->id]);
    }
    return smaller(sum, l->size[n->id]);
}

static void see_weights(least *l)
{
    fx_map seen = {0}; /* from the first of those that share storage to what was counted of it */
    for (const fx_node *n = l->g->last; n; n = n->prev) {
        if (!l->constant[n->id])
            continue;
        l->kept[n->id] = looked_at(l, n);
        const fx_attr *a = n->opcode == FX_GET_ATTR ? fx_attr_find(l->g, n->target) : NULL;
        if (!a)
            continue;
        a = fx_attr_first_alias(a);
        uint64_t *counted = fx_map_get(&seen, a);
        if (!counted)
            fx_map_put(l->arena, &seen, a, counted = FX_NEW_ARRAY(l->arena, uint64_t, 1));
        if (l->kept[n->id] > *counted) {
            l->sum.weights = plus(l->sum.weights, l->kept[n->id] - *counted);
            *counted = l->kept[n->id];
        }
    }
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------------ */

fx_least fx_least_traffic(const fx_graph *g, fx_arena *arena, const int64_t *values)
{
    least l = {.g = g, .arena = arena, .symbols = {g->n_symbols, g->symbols}, .values = values};
    size_t ids = g->n_ids + 1, n_nodes = 0;
    l.position = FX_NEW_ARRAY(arena, uint32_t, ids);
    l.node = FX_NEW_ARRAY(arena, const fx_node *, ids);
    l.size = FX_NEW_ARRAY(arena, uint64_t, ids);
    l.cost = FX_NEW_ARRAY(arena, uint64_t, ids);
    l.kept = FX_NEW_ARRAY(arena, uint64_t, ids);
    l.from = FX_NEW_ARRAY(arena, sources *, ids);
    l.part_of = FX_NEW_ARRAY(arena, uint32_t, ids);
    l.constant = FX_NEW_ARRAY(arena, bool, ids);
    l.output = FX_NEW_ARRAY(arena, bool, ids);
    l.n_joins = 4 * ids;
    l.joins = FX_NEW_ARRAY(arena, uint64_t, l.n_joins);
    for (const fx_node *n = g->first; n; n = n->next) {
        l.position[n->id] = (uint32_t)n_nodes;
        l.node[n_nodes++] = n;
        l.size[n->id] = bytes_of(&l, n);
        if (n->opcode == FX_PLACEHOLDER && n->n_uses) {
            l.sum.inputs = plus(l.sum.inputs, l.size[n->id]);
        } else if (n->opcode == FX_GET_ATTR) {
            l.constant[n->id] = true;
        } else if (n->opcode == FX_CALL_FUNCTION) {
            bool constant = n->n_operands > 0;
            for (int i = 0; i < n->n_operands; i++)
                constant &= l.constant[n->operands[i].def->id];
            l.constant[n->id] = constant && !is_heavy(n);
            (is_heavy(n) ? see_heavy : see_light)(&l, n);
        } else if (n->opcode == FX_OUTPUT) {
            for (int i = 0; i < n->n_operands; i++) {
                const fx_node *d = n->operands[i].def;
                l.output[d->id] = true;
                l.sum.outputs = plus(l.sum.outputs, l.size[d->id]);
            }
        }
    }
    for (size_t i = n_nodes; i-- > 0;) {
        const fx_node *n = l.node[i];
        l.kept[n->id] = kept(&l, n);
        if (is_heavy(n))
            l.sum.intermediates = plus(l.sum.intermediates, l.kept[n->id]);
    }
    see_weights(&l);
    return l.sum;
}
