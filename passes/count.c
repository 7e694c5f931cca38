/* passes/count.c: what a graph costs: FLOPs, parameters, bytes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <stdlib.h>

#include "passes/rewrite.h"

static int64_t plus(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

/* ---- weights: those that lie on the same memory once ------------------------------------------------------------------ */

typedef struct piece {
    const fx_attr *attr;
    uintptr_t storage, offset;
    int64_t numel, bytes;
} piece;

static int by_place(const void *a, const void *b)
{
    const piece *p = a, *q = b;
    if (p->storage != q->storage)
        return p->storage < q->storage ? -1 : 1;
    if (p->offset != q->offset)
        return p->offset < q->offset ? -1 : 1;
    if (p->bytes != q->bytes)
        return p->bytes > q->bytes ? -1 : 1;
    return p->attr->is_parameter > q->attr->is_parameter ? -1 : p->attr->is_parameter < q->attr->is_parameter;
}

static piece piece_of(const fx_attr *a)
{
    const fx_tensor *t = &a->tensor;
    piece p = {.attr = a, .storage = (uintptr_t)t->storage, .offset = (uintptr_t)t->data, .numel = fx_tensor_numel(t)};
    if (t->storage && t->storage->data && p.offset >= (uintptr_t)t->storage->data)
        p.offset -= (uintptr_t)t->storage->data;
    if (!t->storage && !t->data)
        p.storage = (uintptr_t)a; /* a text without the data: its own */
    p.bytes = p.numel * (int64_t)fx_dtype_size(t->dtype);
    return p;
}

static void count_weights(fx_graph *g, fx_arena *scratch, fx_graph_cost *out)
{
    piece *pieces = NULL;
    fx_module **todo = NULL;
    size_t n = 0, cap = 0, n_todo = 0, cap_todo = 0;
    FX_PUSH(scratch, todo, n_todo, cap_todo) = g->root;
    while (n_todo > 0) {
        fx_module *m = todo[--n_todo];
        for (size_t i = 0; i < m->n_attrs; i++)
            FX_PUSH(scratch, pieces, n, cap) = piece_of(m->attrs[i]);
        for (size_t i = 0; i < m->n_children; i++)
            FX_PUSH(scratch, todo, n_todo, cap_todo) = m->children[i];
    }
    if (n)
        qsort(pieces, n, sizeof *pieces, by_place);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && pieces[i].storage == pieces[i - 1].storage && pieces[i].offset == pieces[i - 1].offset)
            continue; /* the same again */
        out->weight_bytes = plus(out->weight_bytes, pieces[i].bytes);
        if (pieces[i].attr->is_parameter)
            out->parameters = plus(out->parameters, pieces[i].numel);
    }
}

/* ---- activations ----------------------------------------------------------------------------------------------------------- */

static int64_t bytes_of(const fx_type *t)
{
    if (!t)
        return 0;
    int64_t total = 0;
    if (t->kind == FX_TYPE_TENSOR)
        return __builtin_mul_overflow(fx_type_numel(t), (int64_t)fx_dtype_size(t->dtype), &total) ? INT64_MAX : total;
    for (int i = 0; t->kind == FX_TYPE_TUPLE && i < t->n; i++)
        total = plus(total, bytes_of(t->items[i]));
    return total;
}

static bool is_static(const fx_type *t)
{
    if (!t || t->kind == FX_TYPE_TENSOR)
        return t && fx_type_is_static(t);
    for (int i = 0; t->kind == FX_TYPE_TUPLE && i < t->n; i++)
        if (!is_static(t->items[i]))
            return false;
    return true;
}

/* Values live from their node to the last use of them and of what shows the same memory. */
static void count_activations(fx_graph *g, fx_arena *scratch, fx_graph_cost *out)
{
    uint32_t *root = FX_NEW_ARRAY(scratch, uint32_t, g->n_ids + 1);
    const fx_node **last = FX_NEW_ARRAY(scratch, const fx_node *, g->n_ids + 1); /* by root: the last node that reads it */
    int64_t *bytes = FX_NEW_ARRAY(scratch, int64_t, g->n_ids + 1), live = 0;
    FX_FOR_NODES(g, n) {
        root[n->id] = n->id;
        for (int i = 0; i < n->n_operands; i++)
            last[root[n->operands[i].def->id]] = n;
        const fx_node *x = n->op ? fx_node_input(n, 0) : NULL;
        bool shares = x && (fx_node_is_inplace(n) || fx_is_call(n, FX_OP_getitem) || fx_node_sharing(g, n) != FX_FRESH);
        if (shares)
            root[n->id] = root[x->id];
        else if (n->opcode != FX_GET_ATTR && n->opcode != FX_OUTPUT)
            bytes[n->id] = bytes_of(n->type);
        last[root[n->id]] = n;
    }
    FX_FOR_NODES(g, n) {
        live = plus(live, bytes[n->id]);
        if (live > out->peak_activation_bytes)
            out->peak_activation_bytes = live;
        for (int i = 0; i < n->n_operands; i++) {
            uint32_t r = root[n->operands[i].def->id];
            if (last[r] == n) {
                live -= bytes[r];
                bytes[r] = 0; /* x + x reads it twice */
            }
        }
        if (last[n->id] == n) {
            live -= bytes[n->id];
            bytes[n->id] = 0;
        }
    }
}

/* ---- all together ------------------------------------------------------------------------------------------------------------- */

typedef struct job {
    fx_graph *graph, *copy;
    fx_arena *scratch;
    fx_graph_cost cost;
} job;

static fx_status count(void *arg)
{
    job *j = arg;
    fx_graph *g = j->graph;
    j->scratch = fx_arena_create(g->ctx);
    if (g->stage == FX_STAGE_CAPTURED) {
        g = j->copy = fx_graph_copy(g);
        FX_TRY(fx_legalize(g));
    }
    FX_FOR_NODES(g, n) {
        if (n->opcode != FX_OUTPUT && !is_static(n->type))
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, &n->loc, "expected a value of known static shape to count, got %s",
                           n->type ? fx_node_type_text(n) : "one without a type; the pass infer gives types");
        j->cost.flops = plus(j->cost.flops, fx_node_flops(n));
    }
    count_weights(g, j->scratch, &j->cost);
    count_activations(g, j->scratch, &j->cost);
    return FX_OK;
}

fx_status fx_graph_count(fx_graph *graph, fx_graph_cost *out)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    if (!out)
        return fx_fail(graph->ctx, FX_ERR_ARGUMENT, NULL, "fx_graph_count: expected a place for the result, got NULL");
    job j = {.graph = graph};
    fx_status status = fx_protect(graph->ctx, count, &j);
    if (j.copy)
        fx_arena_free(j.copy->arena);
    if (j.scratch)
        fx_arena_free(j.scratch);
    if (status == FX_OK)
        *out = j.cost;
    return status;
}

fx_status fx_gpass_count(fx_pass_run *run)
{
    fx_graph_cost c;
    FX_TRY(fx_graph_count(run->graph, &c));
    fx_pass_tell(run, NULL, "%" PRId64 " flops, %" PRId64 " parameters, %" PRId64 " bytes of weights, %" PRId64 " bytes of activations at most", c.flops,
                 c.parameters, c.weight_bytes, c.peak_activation_bytes);
    return FX_OK;
}
