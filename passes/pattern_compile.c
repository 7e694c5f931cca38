/* passes/pattern_compile.c: a graph checked and prepared as a pattern.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "passes/pattern_match.h"

/* Matching goes as deep as a pattern has outputs and steps between them. */
enum { MAX_PATTERN = 2000 };

fx_status fx_pattern_check_graph(const fx_graph *g, const fx_graph *other, const char *what)
{
    if (other == g)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "the %s is the graph itself", what);
    if (other->ctx != g->ctx)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "the %s '%s' is of another context than the graph '%s'", what, other->name, g->name);
    return FX_OK;
}

static fx_status wrong(const fx_pattern *p, const fx_node *n, const char *message)
{
    return fx_fail(p->ctx, FX_ERR_ARGUMENT, n ? &n->loc : NULL, "pattern '%s': %s", p->graph->name, message);
}

static const fx_arg *note(const fx_node *n, const char *key)
{
    const char *interned = fx_intern(n->graph->ctx, key);
    for (const fx_meta *m = n->meta; m; m = m->next)
        if (m->key == interned)
            return m->value;
    return NULL;
}

/* ---- arguments by schema -------------------------------------------------------------------------------------------------------- */

static int parameter(const fx_schema *s, const char *key)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->params[i].name, key) == 0)
            return i;
    bool first = strcmp(key, "self") == 0 || strcmp(key, "input") == 0;
    return first && s->n > 0 && (strcmp(s->params[0].name, "self") == 0 || strcmp(s->params[0].name, "input") == 0) ? 0 : -1;
}

/* A wildcard stands for any argument, so it is not converted. */
bool fx_pattern_view(const fx_node *n, const fx_op *op, fx_call_args *out)
{
    fx_context *ctx = n->graph->ctx;
    const fx_schema *s = fx_op_schema(ctx, op);
    const fx_arg *given[32] = {0};
    if (n->args->n > s->n)
        return false;
    for (int i = 0; i < n->args->n; i++)
        given[i] = n->args->items[i];
    for (int i = 0; i < n->kwargs->n; i++) {
        int at = parameter(s, n->kwargs->keys[i]);
        if (at < 0 || given[at])
            return false;
        given[at] = n->kwargs->items[i];
    }
    out->op = op;
    out->schema = s;
    out->n = s->n;
    for (int i = 0; i < s->n; i++) {
        const char *got;
        out->args[i] = !given[i] ? s->params[i].def : given[i]->kind == FX_ARG_NODE ? given[i] : fx_param_convert(ctx, op, i, given[i], &got);
        if (!out->args[i])
            return false;
    }
    return true;
}

/* fx_call_view makes [%s, %s] of a lone %s where the schema has int[2]: a lone one is an argument itself. */
static const fx_arg *undo_broadcast(const fx_node *n, const fx_arg *a)
{
    bool same = a->kind == FX_ARG_LIST && a->n > 0 && a->items[0]->kind == FX_ARG_NODE, lone = false;
    for (int i = 1; same && i < a->n; i++)
        same = a->items[i] == a->items[0];
    for (int i = 0; same && i < n->args->n; i++)
        lone = lone || n->args->items[i] == a->items[0];
    for (int i = 0; same && i < n->kwargs->n; i++)
        lone = lone || n->kwargs->items[i] == a->items[0];
    return lone ? a->items[0] : a;
}

/* "aten.mean.dim" and "aten.mean.default" are two rows of one function. */
static const bool *overloads_of(fx_pattern *p, const fx_op *op)
{
    bool *out = FX_NEW_ARRAY(p->arena, bool, FX_OP_COUNT);
    const char *dot = strchr(op->name, '.'), *end = dot ? strchr(dot + 1, '.') : NULL;
    size_t n = end ? (size_t)(end - op->name) + 1 : strlen(op->name) + 1;
    for (int i = 1; i < FX_OP_COUNT; i++)
        out[i] = strncmp(fx_ops[i].name, op->name, n) == 0;
    return out;
}

static fx_status view_call(fx_pattern *p, fx_pat_node *t)
{
    const fx_op *row = fx_node_row(t->n, &t->view.inplace);
    if (!row || t->any_of)
        return FX_OK;
    bool inplace = t->view.inplace;
    t->viewed = fx_call_view(t->n, &t->view);
    for (int i = 0; t->viewed && i < t->view.n; i++)
        t->view.args[i] = undo_broadcast(t->n, t->view.args[i]);
    if (!t->viewed && !fx_pattern_view(t->n, row, &t->view))
        return fx_call_check(t->n, &t->view);
    t->viewed = true;
    t->view.inplace = inplace;
    t->overloads = overloads_of(p, t->view.op);
    p->writes = p->writes || inplace;
    return FX_OK;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------------ */

static fx_status read_names(fx_pattern *p, fx_pat_node *t)
{
    t->any_of = note(t->n, "any_of");
    bool ok = !t->any_of || t->any_of->kind == FX_ARG_LIST || t->any_of->kind == FX_ARG_TUPLE;
    for (int i = 0; ok && t->any_of && i < t->any_of->n; i++)
        ok = t->any_of->items[i]->kind == FX_ARG_STR;
    return ok ? FX_OK : wrong(p, t->n, "the note any_of is not a list of names");
}

static fx_status read_input(fx_pattern *p, fx_pat_node *t)
{
    const fx_arg *dtype = note(t->n, "dtype"), *rank = note(t->n, "rank"), *constant = note(t->n, "constant");
    if ((dtype && dtype->kind != FX_ARG_DTYPE) || (rank && rank->kind != FX_ARG_INT) || (constant && constant->kind != FX_ARG_BOOL))
        return wrong(p, t->n, "the notes of a placeholder are dtype (a dtype), rank (an int) and constant (a bool)");
    t->dtype = dtype ? (int)dtype->i : -1;
    t->rank = rank ? (int)rank->i : -1;
    t->constant = constant ? constant->b : -1;
    return FX_OK;
}

static fx_status read_node(fx_pattern *p, fx_pat_node *t)
{
    if (!t->n->n_uses)
        return wrong(p, t->n, "nothing uses this node");
    switch (t->n->opcode) {
    case FX_PLACEHOLDER:
        t->kind = FX_PAT_INPUT;
        p->inputs[p->n_inputs++] = (int)(t - p->nodes);
        return read_input(p, t);
    case FX_GET_ATTR: {
        const fx_arg *path = note(t->n, "path");
        t->kind = FX_PAT_ATTR;
        t->path = path && path->kind == FX_ARG_STR ? path->s : NULL;
        break;
    }
    default:
        t->kind = FX_PAT_CALL;
        t->module = t->n->opcode == FX_CALL_MODULE ? fx_module_find(p->graph, t->n->target) : NULL;
        FX_TRY(read_names(p, t));
        FX_TRY(view_call(p, t));
        break;
    }
    p->matched[p->n_matched++] = (fx_node *)t->n;
    return FX_OK;
}

static fx_status read_outputs(fx_pattern *p, const fx_node *out)
{
    for (int i = 0; i < out->n_operands; i++) {
        int k = p->index[out->operands[i].def->id];
        if (p->nodes[k].kind != FX_PAT_CALL)
            return wrong(p, p->nodes[k].n, "a pattern returns what its calls give, not what it takes");
        if (p->nodes[k].is_output)
            return wrong(p, p->nodes[k].n, "it is returned twice");
        p->nodes[k].is_output = true;
        p->outputs[p->n_outputs++] = k;
    }
    for (int i = 0; i < p->n_outputs; i++)
        if (p->nodes[p->outputs[i]].n->n_uses == 1)
            p->anchors[p->n_anchors++] = p->outputs[i];
    return p->n_anchors ? FX_OK : wrong(p, out, "returns nothing");
}

/* ---- ways between anchors -------------------------------------------------------------------------------------------------------------- */

/* Marks a node and all it needs. */
static void cover(const fx_pattern *p, int from, bool *covered, int *todo)
{
    int n = 0;
    if (!covered[from])
        todo[n++] = from;
    covered[from] = true;
    while (n > 0) {
        const fx_node *t = p->nodes[todo[--n]].n;
        for (int i = 0; i < t->n_operands; i++) {
            int k = p->index[t->operands[i].def->id];
            if (!covered[k]) {
                covered[k] = true;
                todo[n++] = k;
            }
        }
    }
}

/* Backwards from an anchor to the nearest covered node of the kind asked for. */
static bool find_way(fx_pattern *p, int anchor, bool calls, const bool *covered, fx_pat_path *out)
{
    int *from = FX_NEW_ARRAY(p->arena, int, p->n), *queue = FX_NEW_ARRAY(p->arena, int, p->n), n = 0;
    for (int i = 0; i < p->n; i++)
        from[i] = -1;
    from[anchor] = anchor;
    queue[n++] = anchor;
    for (int at = 0; at < n; at++) {
        int k = queue[at];
        if (covered[k]) {
            if ((p->nodes[k].kind == FX_PAT_CALL) != calls)
                continue;
            out->nodes = FX_NEW_ARRAY(p->arena, int, p->n);
            for (; k != anchor; k = from[k])
                out->nodes[out->n++] = k;
            out->nodes[out->n++] = anchor;
            return true;
        }
        for (int i = 0; i < p->nodes[k].n->n_operands; i++) {
            int def = p->index[p->nodes[k].n->operands[i].def->id];
            if (from[def] < 0) {
                from[def] = k;
                queue[n++] = def;
            }
        }
    }
    return false;
}

static void find_ways(fx_pattern *p)
{
    bool *covered = FX_NEW_ARRAY(p->arena, bool, p->n);
    int *todo = FX_NEW_ARRAY(p->arena, int, p->n);
    p->paths = FX_NEW_ARRAY(p->arena, fx_pat_path, p->n_anchors);
    for (int i = 0; i < p->n_anchors; i++) {
        if (i > 0 && !find_way(p, p->anchors[i], true, covered, &p->paths[i]))
            find_way(p, p->anchors[i], false, covered, &p->paths[i]);
        cover(p, p->anchors[i], covered, todo);
    }
}

fx_status fx_pattern_compile(const fx_graph *graph, fx_arena *arena, fx_pattern *p)
{
    *p = (fx_pattern){.ctx = graph->ctx, .arena = arena, .graph = graph};
    if (graph->n_nodes > MAX_PATTERN)
        return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, NULL, "the pattern '%s' has %zu nodes, expected at most %d", graph->name, graph->n_nodes,
                       MAX_PATTERN);
    const fx_node *out = fx_graph_output_node(graph);
    if (!out)
        return wrong(p, NULL, "has no output");
    p->nodes = FX_NEW_ARRAY(arena, fx_pat_node, graph->n_nodes);
    p->index = FX_NEW_ARRAY(arena, int, graph->n_ids);
    p->inputs = FX_NEW_ARRAY(arena, int, graph->n_nodes);
    p->outputs = FX_NEW_ARRAY(arena, int, graph->n_nodes);
    p->anchors = FX_NEW_ARRAY(arena, int, graph->n_nodes);
    p->matched = FX_NEW_ARRAY(graph->arena, fx_node *, graph->n_nodes);
    FX_FOR_NODES(graph, n) {
        p->index[n->id] = n == out ? -1 : p->n;
        if (n->opcode == FX_OUTPUT && n != out)
            return wrong(p, n, "has two outputs");
        if (n != out)
            p->nodes[p->n++].n = n;
    }
    for (int i = 0; i < p->n; i++)
        FX_TRY(read_node(p, &p->nodes[i]));
    FX_TRY(read_outputs(p, out));
    find_ways(p);
    return FX_OK;
}
