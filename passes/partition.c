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

static void levels(const request *r, fx_arena *scratch, int *level, bool *in)
{
    fx_order order = fx_order_new(r->g, scratch);
    bool *apart = FX_NEW_ARRAY(scratch, bool, r->g->n_ids);
    FX_FOR_NODES(r->g, n) {
        fx_node *first = n->n_operands ? n->operands[0].def : NULL;
        if (first && apart[first->id]) { /* an item of a tuple */
            level[n->id] = level[first->id];
            in[n->id] = in[first->id];
            apart[n->id] = is_taken_apart(n);
            continue;
        }
        in[n->id] = is_call(n) && r->supported(r->user, n);
        int most = in[n->id] ? 0 : -1;
        fx_node *p;
        for (size_t i = 0; (p = fx_order_pred(&order, n, i)); i++) {
            int through = level[p->id] + (in[n->id] && !in[p->id]);
            most = through > most ? through : most;
        }
        level[n->id] = most;
        apart[n->id] = is_call(n) && is_taken_apart(n);
    }
}

static fx_status partition(void *arg)
{
    request *r = arg;
    fx_graph *g = r->g;
    fx_arena *scratch = fx_arena_create(g->ctx);
    int *level = FX_NEW_ARRAY(scratch, int, g->n_ids);
    bool *in = FX_NEW_ARRAY(scratch, bool, g->n_ids);
    levels(r, scratch, level, in);
    size_t *size = FX_NEW_ARRAY(scratch, size_t, g->n_nodes + 1);
    int *number = FX_NEW_ARRAY(scratch, int, g->n_nodes + 1);
    FX_FOR_NODES(g, n) {
        if (in[n->id] && !is_getitem(n))
            size[level[n->id]]++;
    }
    size_t count = 0, i = 0;
    for (size_t k = 0; k <= g->n_nodes; k++)
        number[k] = size[k] > 0 && size[k] >= r->min_size ? (int)count++ : -1;
    FX_FOR_NODES(g, n)
        r->partition[i++] = in[n->id] ? number[level[n->id]] : -1;
    *r->n_partitions = count;
    fx_arena_free(scratch);
    return FX_OK;
}

fx_status fx_graph_partition(fx_graph *graph, bool (*supported)(void *user, const fx_node *node), void *user, size_t min_size,
                             int *partition_out, size_t *n_partitions)
{
    request r = {graph, supported, user, min_size, partition_out, n_partitions};
    if (!graph || !supported || !partition_out || !n_partitions)
        return FX_ERR_ARGUMENT;
    return fx_protect(graph->ctx, partition, &r);
}
