/* passes/order.c: what must stay before what beside values.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Values that may share memory are put into classes. In each, a reader stands behind the last writer before it, a writer behind that and the
 * readers since; draws of random numbers stay in their order, and so do calls of a module that writes its buffers. Each reader is named by
 * one writer at most, so edges are as many as uses. */
#include "passes/passes.h"

fx_node *fx_order_pred(const fx_order *o, const fx_node *n, size_t i)
{
    if (i < (size_t)n->n_operands)
        return n->operands[i].def;
    if (!o->start)
        return NULL;
    size_t at = o->start[n->id] + i - (size_t)n->n_operands;
    return at < o->end[n->id] ? o->pred[at] : NULL;
}

typedef struct reader {
    fx_node *n;
    struct reader *next;
} reader;

typedef struct orderer {
    const fx_graph *g;
    fx_arena *arena;
    uint32_t *class;         /* by id: union-find */
    fx_node **writer;        /* by class: the last one */
    reader **readers;        /* by class: since then */
    fx_node *drawn;          /* the last that draws */
    fx_map called;           /* target of a module that writes its buffers -> the last call */
    fx_node **pred;
    size_t n, cap;
} orderer;

static uint32_t find(orderer *o, uint32_t id)
{
    while (o->class[id] != id)
        id = o->class[id] = o->class[o->class[id]];
    return id;
}

static void classify(orderer *o)
{
    fx_map by_storage = {0};
    for (uint32_t i = 0; i < o->g->n_ids; i++)
        o->class[i] = i;
    FX_FOR_NODES(o->g, n) {
        for (int i = 0; i < n->n_operands; i++)
            if (fx_node_may_return(n, i))
                o->class[find(o, n->id)] = find(o, n->operands[i].def->id);
        const fx_attr *a = n->opcode == FX_GET_ATTR ? fx_attr_find(o->g, n->target) : NULL;
        const void *key = a ? (a->tensor.storage ? (const void *)a->tensor.storage : a->tensor.data ? a->tensor.data : (const void *)a) : NULL;
        const fx_node *same = key ? fx_map_get(&by_storage, key) : NULL;
        if (same)
            o->class[find(o, n->id)] = find(o, same->id);
        else if (key)
            fx_map_put(o->arena, &by_storage, key, n);
    }
}

static void after(orderer *o, const fx_node *n, fx_node *pred)
{
    if (pred && pred != n)
        FX_PUSH(o->arena, o->pred, o->n, o->cap) = pred;
}

static void operand(orderer *o, fx_node *n, int i)
{
    uint32_t k = find(o, n->operands[i].def->id);
    after(o, n, o->writer[k]);
    if (fx_node_effects(n) & FX_EFFECT_WRITES && fx_node_writes(n, i)) {
        for (; o->readers[k]; o->readers[k] = o->readers[k]->next)
            after(o, n, o->readers[k]->n);
        o->writer[k] = n;
    } else if (!o->readers[k] || o->readers[k]->n != n) {
        reader *r = FX_NEW(o->arena, reader);
        *r = (reader){n, o->readers[k]};
        o->readers[k] = r;
    }
}

static bool writes_module(const fx_node *n, unsigned effects)
{
    return n->opcode == FX_CALL_MODULE && effects & FX_EFFECT_WRITES;
}

/* Behind the last of its kind. */
static void sequential(orderer *o, fx_node *n)
{
    unsigned effects = fx_node_effects(n);
    if (effects & FX_EFFECT_RANDOM) {
        after(o, n, o->drawn);
        o->drawn = n;
    }
    if (writes_module(n, effects)) {
        after(o, n, fx_map_get(&o->called, n->target));
        fx_map_put(o->arena, &o->called, n->target, n);
    }
}

fx_order fx_order_new(const fx_graph *g, fx_arena *arena)
{
    bool writes = false, draws = false;
    FX_FOR_NODES(g, n) {
        unsigned effects = fx_node_effects(n);
        writes = writes || effects & FX_EFFECT_WRITES;
        draws = draws || effects & FX_EFFECT_RANDOM;
    }
    if (!writes && !draws)
        return (fx_order){0};
    orderer o = {.g = g, .arena = arena};
    fx_order out = {.start = FX_NEW_ARRAY(arena, size_t, g->n_ids), .end = FX_NEW_ARRAY(arena, size_t, g->n_ids)};
    if (writes) {
        o.class = FX_NEW_ARRAY(arena, uint32_t, g->n_ids);
        o.writer = FX_NEW_ARRAY(arena, fx_node *, g->n_ids);
        o.readers = FX_NEW_ARRAY(arena, reader *, g->n_ids);
        classify(&o);
    }
    FX_FOR_NODES(g, n) {
        out.start[n->id] = o.n;
        sequential(&o, n);
        for (int i = 0; writes && i < n->n_operands; i++)
            operand(&o, n, i);
        out.end[n->id] = o.n;
    }
    out.pred = o.pred;
    return out;
}
