/* ir/node.c: looking at graphs and nodes, the accessors of fxcc/graph.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

const char *fx_opcode_name(fx_opcode opcode)
{
    static const char *const names[] = {"placeholder", "get_attr", "call_function", "call_method", "call_module", "output"};
    return (unsigned)opcode < sizeof names / sizeof *names ? names[opcode] : "unknown";
}

/* ---- graphs ---------------------------------------------------------------------------------------------------------------------- */

fx_status fx_graph_status(const fx_graph *graph)
{
    return graph ? graph->status : FX_ERR_ARGUMENT;
}

const char *fx_graph_name(const fx_graph *graph)
{
    return graph ? graph->name : NULL;
}

fx_node *fx_graph_first(const fx_graph *graph)
{
    return graph ? graph->first : NULL;
}

fx_node *fx_graph_last(const fx_graph *graph)
{
    return graph ? graph->last : NULL;
}

/* An erased node keeps its links, perhaps to nodes erased since: the walk goes on at the first that is left. */
fx_node *fx_node_next(const fx_node *node)
{
    fx_node *n = node ? node->next : NULL;
    __builtin_prefetch((const void *)((uintptr_t)n + 1024)); /* nodes mostly lie in memory as they were made: four ahead. A hint, harmless anywhere */
    while (n && n->erased)
        n = n->next;
    return n;
}

fx_node *fx_node_prev(const fx_node *node)
{
    fx_node *n = node ? node->prev : NULL;
    while (n && n->erased)
        n = n->prev;
    return n;
}

size_t fx_graph_node_count(const fx_graph *graph)
{
    return graph ? graph->n_nodes : 0;
}

fx_node *fx_graph_find_node(const fx_graph *graph, const char *name)
{
    return graph && name ? fx_map_get(&graph->by_name, fx_interned(graph->ctx, name)) : NULL;
}

typedef struct query {
    const fx_graph *graph;
    fx_opcode opcode;
    const char *target;
    const fx_op *op;
    bool inplace;
} query;

static fx_status look_up(void *arg)
{
    query *q = arg;
    q->target = fx_intern(q->graph->ctx, q->target);
    if (q->opcode == FX_CALL_FUNCTION)
        q->op = fx_op_lookup(q->graph->ctx, q->target, &q->inplace);
    return FX_OK;
}

size_t fx_graph_find_nodes(const fx_graph *graph, fx_opcode opcode, const char *target, fx_node **out, size_t max)
{
    size_t count = 0;
    query q = {graph, opcode, target, NULL, false};
    if (!graph || (target && fx_protect(graph->ctx, look_up, &q) != FX_OK))
        return 0;
    FX_FOR_NODES(graph, n) {
        bool same = n->opcode == opcode && (!target || n->target == q.target || (q.op && n->op == q.op && fx_node_is_inplace(n) == q.inplace));
        if (same && out && count < max)
            out[count] = n;
        count += same;
    }
    return count;
}

fx_node *fx_graph_output_node(const fx_graph *graph)
{
    fx_node *n = graph ? graph->last : NULL;
    while (n && n->opcode != FX_OUTPUT)
        n = n->prev;
    return n;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------------ */

fx_graph *fx_node_graph(const fx_node *node)
{
    return node ? node->graph : NULL;
}

fx_opcode fx_node_opcode(const fx_node *node)
{
    return node ? node->opcode : FX_PLACEHOLDER;
}

const char *fx_node_name(const fx_node *node)
{
    return node ? node->name : NULL;
}

const char *fx_node_target(const fx_node *node)
{
    return node ? node->target : NULL;
}

bool fx_node_is_erased(const fx_node *node)
{
    return node && node->erased;
}

typedef struct viewing {
    fx_node *node;
    fx_call_args call;
    bool fits;
} viewing;

static fx_status view(void *arg)
{
    viewing *r = arg;
    r->fits = fx_call_view(r->node, &r->call);
    return FX_OK;
}

const char *fx_node_operator(const fx_node *node)
{
    viewing r = {.node = (fx_node *)node};
    if (!node || fx_protect(node->graph->ctx, view, &r) != FX_OK)
        return NULL;
    return r.call.op ? r.call.op->name : NULL;
}

int fx_node_arg_count(const fx_node *node)
{
    return node ? node->args->n : 0;
}

fx_value fx_node_arg_at(const fx_node *node, int i)
{
    return node && i >= 0 && i < node->args->n ? fx_value_of(node->graph->ctx, node, node->args->items[i]) : fx_v_none();
}

int fx_node_kwarg_count(const fx_node *node)
{
    return node ? node->kwargs->n : 0;
}

const char *fx_node_kwarg_key(const fx_node *node, int i)
{
    return node && i >= 0 && i < node->kwargs->n ? node->kwargs->keys[i] : NULL;
}

fx_value fx_node_kwarg_at(const fx_node *node, int i)
{
    return node && i >= 0 && i < node->kwargs->n ? fx_value_of(node->graph->ctx, node, node->kwargs->items[i]) : fx_v_none();
}

bool fx_node_kwarg(const fx_node *node, const char *key, fx_value *out)
{
    for (int i = 0; node && key && i < node->kwargs->n; i++)
        if (strcmp(node->kwargs->keys[i], key) == 0) {
            if (out)
                *out = fx_node_kwarg_at(node, i);
            return true;
        }
    return false;
}

/* ---- inputs and users --------------------------------------------------------------------------------------------------------------- */

uint32_t fx_graph_mark(const fx_graph *g)
{
    fx_graph *graph = (fx_graph *)g; /* marks are no part of what a graph says */
    if (++graph->mark == 0) {
        FX_FOR_NODES(g, n)
            n->mark = 0;
        graph->mark = 1;
    }
    return graph->mark;
}

size_t fx_node_all_input_nodes(const fx_node *node, fx_node **out, size_t max)
{
    size_t count = 0;
    if (!node || !node->n_operands)
        return 0;
    uint32_t mark = fx_graph_mark(node->graph);
    for (int i = 0; i < node->n_operands; i++) {
        fx_node *def = node->operands[i].def;
        if (def->mark == mark)
            continue;
        def->mark = mark;
        if (out && count < max)
            out[count] = def;
        count++;
    }
    return count;
}

size_t fx_node_users(const fx_node *node, fx_node **out, size_t max)
{
    size_t count = 0;
    if (!node || !node->first_use)
        return 0;
    uint32_t mark = fx_graph_mark(node->graph);
    for (const fx_use *u = node->first_use; u; u = u->next) {
        if (u->user->mark == mark)
            continue;
        u->user->mark = mark;
        if (out && count < max)
            out[count] = u->user;
        count++;
    }
    return count;
}

size_t fx_node_use_count(const fx_node *node)
{
    return node ? (size_t)node->n_uses : 0;
}

/* ---- types --------------------------------------------------------------------------------------------------------------------------- */

bool fx_node_shape(const fx_node *node, fx_tensor *out)
{
    const fx_type *t = node ? node->type : NULL;
    if (!fx_type_is_static(t) || t->rank > FX_MAX_RANK)
        return false;
    if (!out)
        return true;
    *out = (fx_tensor){.dtype = t->dtype, .rank = t->rank};
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        out->sizes[i] = t->dims[i].value;
        out->strides[i] = step;
        if (__builtin_mul_overflow(step, t->dims[i].value ? t->dims[i].value : 1, &step))
            return false;
    }
    return true;
}

typedef struct type_text {
    const fx_node *node;
    const char *text;
} type_text;

static fx_status print_type(void *arg)
{
    type_text *r = arg;
    fx_text t;
    fx_text_init(&t, r->node->graph->ctx->arena);
    fx_type_print(&t, r->node->type);
    r->text = fx_intern_n(r->node->graph->ctx, t.data, t.size);
    return FX_OK;
}

const char *fx_node_type_text(fx_node *node)
{
    type_text r = {node, NULL};
    if (!node || !node->type || fx_protect(node->graph->ctx, print_type, &r) != FX_OK)
        return NULL;
    return r.text;
}

static fx_status check_call(void *arg)
{
    viewing *r = arg;
    return fx_call_check(r->node, &r->call);
}

fx_status fx_node_normalized_arguments(fx_node *node, int *count, const char *const **names, fx_value *out, int max)
{
    viewing r = {.node = node};
    if (!node)
        return FX_ERR_ARGUMENT;
    if (node->erased)
        return fx_fail(node->graph->ctx, FX_ERR_ARGUMENT, &node->loc, "the node is erased");
    FX_TRY(fx_protect(node->graph->ctx, check_call, &r));
    for (int i = 0; i < r.call.n && out && i < max; i++)
        out[i] = fx_value_of(node->graph->ctx, node, r.call.args[i]);
    if (count)
        *count = r.call.n;
    if (names)
        *names = r.call.schema->names;
    return FX_OK;
}

/* ---- notes ---------------------------------------------------------------------------------------------------------------------------- */

const char *fx_node_module(const fx_node *node)
{
    return node ? node->loc.module : NULL;
}

const char *fx_node_frame(const fx_node *node)
{
    return node ? node->loc.frame : NULL;
}

bool fx_node_meta(const fx_node *node, const char *key, fx_value *out)
{
    const fx_arg *a = node ? fx_meta_get(node->meta, key) : NULL;
    if (a && out)
        *out = fx_value_of(node->graph->ctx, NULL, a);
    return a != NULL;
}

const char *fx_node_meta_key(const fx_node *node, int i)
{
    const fx_meta *m = node && i >= 0 ? node->meta : NULL;
    for (; m && i > 0; i--)
        m = m->next;
    return m ? m->key : NULL;
}
