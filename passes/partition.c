/* passes/partition.c: groups of supported calls that can be fused without a circle (FX's CapabilityBasedPartitioner).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A call's level is the largest number of times that a path to it leaves supported calls and comes back. All supported calls of one level
 * make a group: a path that leaves the group comes back on a higher level, so groups and the other nodes stay free of circles; and as each
 * level has a path from a call of the level below through an unsupported one, no two groups could be one. FX merges pairs of groups while
 * that makes no circle, which asks for reachability each time; levels need one walk. */
#include "passes/passes.h"

typedef struct request {
    fx_graph *g;
    bool (*supported)(void *user, const fx_node *node);
    void *user;
    size_t min_size;
    int *partition;
    size_t *n_partitions;
} request;

static bool is_getitem(const fx_node *n)
{
    return fx_node_row(n, NULL) == &fx_ops[FX_OP_getitem];
}

/* Whether n is a tuple that is only taken apart: its items then go where it goes, so that no tuple crosses. What n is may be unknown. */
static bool is_taken_apart(const fx_node *n)
{
    for (const fx_use *u = n->first_use; u; u = u->next)
        if (u->user->opcode != FX_CALL_FUNCTION || !is_getitem(u->user))
            return false;
    return n->n_uses > 0 && (fx_gives_tuple(n) || (!n->type && !fx_node_row(n, NULL)));
}

static bool is_call(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION || n->opcode == FX_CALL_METHOD || n->opcode == FX_CALL_MODULE;
}

/* What is known of a node, by id. */
typedef struct place {
    int level;
    bool in;                 /* supported */
    bool apart;              /* a tuple whose items go with it */
} place;

static place place_of(const request *r, const fx_order *order, const place *places, const fx_node *n)
{
    const fx_node *first = n->n_operands ? n->operands[0].def : NULL;
    if (!is_call(n))
        return (place){.level = -1};
    if (first && places[first->id].apart) {
        place at = places[first->id];
        at.apart = is_taken_apart(n);
        return at;
    }
    place at = {.in = r->supported(r->user, n), .apart = is_taken_apart(n)};
    at.level = at.in ? 0 : -1;
    const fx_node *p;
    for (size_t i = 0; (p = fx_order_pred(order, n, i)); i++) {
        int through = places[p->id].level + (at.in && !places[p->id].in);
        at.level = through > at.level ? through : at.level;
    }
    return at;
}

/* Nodes are walked once, as they are what does not fit into caches. */
static fx_status partition_in(const request *r, fx_arena *scratch)
{
    const fx_graph *g = r->g;
    fx_order order = fx_order_new(g, scratch);
    place *places = FX_NEW_ARRAY(scratch, place, g->n_ids);
    size_t *size = FX_NEW_ARRAY(scratch, size_t, g->n_nodes + 1), count = 0, i = 0;
    int *number = FX_NEW_ARRAY(scratch, int, g->n_nodes + 1);
    FX_FOR_NODES(g, n) {
        place at = places[n->id] = place_of(r, &order, places, n);
        r->partition[i++] = at.in ? at.level : -1;
        size[at.in ? at.level : 0] += at.in && !is_getitem(n);
    }
    for (size_t k = 0; k <= g->n_nodes; k++)
        number[k] = size[k] > 0 && size[k] >= r->min_size ? (int)count++ : -1;
    for (i = 0; i < g->n_nodes; i++)
        if (r->partition[i] >= 0)
            r->partition[i] = number[r->partition[i]];
    *r->n_partitions = count;
    return FX_OK;
}

static fx_status partition(void *arg)
{
    const request *r = arg;
    fx_arena *scratch = fx_arena_create(r->g->ctx);
    fx_status st = partition_in(r, scratch);
    fx_arena_free(scratch);
    return st;
}

fx_status fx_graph_partition(fx_graph *graph, bool (*supported)(void *user, const fx_node *node), void *user, size_t min_size,
                             int *partition_out, size_t *n_partitions)
{
    request r = {graph, supported, user, min_size, partition_out, n_partitions};
    if (!graph || !supported || !partition_out || !n_partitions)
        return FX_ERR_ARGUMENT;
    return fx_protect(graph->ctx, partition, &r);
}
