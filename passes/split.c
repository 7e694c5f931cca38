/* passes/split.c: a graph cut into parts, each a module that holds a graph (FX's split_module, split_by_tags, fuse_by_partitions).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Units are parts and single nodes. They are put in an order in which each stands after what it needs, by a walk that starts at each unit in
 * turn and takes what it needs first; a unit met again while it is being taken is part of a circle. Parameters and buffers that only one
 * part uses move into it, others are passed to it; modules move (or are shared, when several parts call them) under their own paths. */
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"

/* What a part is made of. */
typedef struct part {
    fx_node **nodes;         /* in order */
    size_t n_nodes;
    fx_node **inputs, **outputs;
    size_t n_inputs, n_outputs, cap_inputs, cap_outputs;
    fx_module *module;       /* in the outer graph */
} part;

typedef struct splitter {
    const fx_parts *p;
    const fx_graph *g;
    fx_context *ctx;
    fx_arena *scratch;
    int *of;                 /* by id; as p->of, with get_attr moved in */
    part *parts;
    fx_order order;
    uint8_t *state;          /* of units: 1 being taken, 2 taken. A part's is at its number, a node's at n parts + id */
    fx_graph *out;
    fx_copier copier;        /* into out */
    fx_status status;
} splitter;

/* ---- who belongs where ----------------------------------------------------------------------------------------------------------- */

/* The one part all users of a get_attr are in, or -1. */
static int home_of(const splitter *s, const fx_node *n)
{
    int home = n->first_use ? s->of[n->first_use->user->id] : -1;
    for (const fx_use *u = n->first_use; u && home >= 0; u = u->next)
        if (s->of[u->user->id] != home)
            home = -1;
    return home;
}

bool fx_gives_tuple(const fx_node *n)
{
    if (n->type)
        return n->type->kind == FX_TYPE_TUPLE;
    const fx_op *row = fx_node_row(n, NULL);
    const fx_module *m = n->opcode == FX_CALL_MODULE ? fx_module_find(n->graph, n->target) : NULL;
    const fx_node *out = m && m->body ? fx_graph_output_node(m->body) : NULL;
    if (out)
        return out->args->n == 1 && out->args->items[0]->kind == FX_ARG_TUPLE;
    return row && fx_op_schema(n->graph->ctx, row)->n_returns != 1;
}

/* An item of a call's tuple goes where the call goes, so that no tuple crosses; that makes no part need another it did not need. */
static bool is_item(const fx_node *n)
{
    const fx_node *of = n->n_operands > 0 ? n->operands[0].def : NULL;
    return of && of->opcode != FX_PLACEHOLDER && fx_node_row(n, NULL) == &fx_ops[FX_OP_getitem] && fx_gives_tuple(of);
}

static void collect(splitter *s)
{
    const fx_graph *g = s->g;
    s->of = fx_arena_dup(s->scratch, s->p->of, g->n_ids * sizeof *s->of);
    FX_FOR_NODES(g, n) {
        if (is_item(n))
            s->of[n->id] = s->of[n->operands[0].def->id];
        if (n->opcode == FX_GET_ATTR)
            s->of[n->id] = home_of(s, n);
        if (s->of[n->id] >= 0)
            s->parts[s->of[n->id]].n_nodes++;
    }
    for (int i = 0; i < s->p->n; i++) {
        s->parts[i].nodes = FX_NEW_ARRAY(s->scratch, fx_node *, s->parts[i].n_nodes);
        s->parts[i].n_nodes = 0;
    }
    FX_FOR_NODES(g, n) {
        if (s->of[n->id] >= 0) {
            part *t = &s->parts[s->of[n->id]];
            t->nodes[t->n_nodes++] = n;
        }
    }
    /* Inputs in order of first use inside, outputs in order of first use outside. */
    int *stamp = FX_NEW_ARRAY(s->scratch, int, g->n_ids);
    for (int i = 0; i < s->p->n; i++) {
        part *t = &s->parts[i];
        for (size_t k = 0; k < t->n_nodes; k++) {
            for (int j = 0; j < t->nodes[k]->n_operands; j++) {
                fx_node *def = t->nodes[k]->operands[j].def;
                if (s->of[def->id] != i && stamp[def->id] != i + 1) {
                    stamp[def->id] = i + 1;
                    FX_PUSH(s->scratch, t->inputs, t->n_inputs, t->cap_inputs) = def;
                }
            }
        }
    }
    memset(stamp, 0, g->n_ids * sizeof *stamp);
    FX_FOR_NODES(g, n) {
        for (int j = 0; j < n->n_operands; j++) {
            fx_node *def = n->operands[j].def;
            int from = s->of[def->id];
            if (from >= 0 && from != s->of[n->id] && !stamp[def->id]) {
                stamp[def->id] = 1;
                part *t = &s->parts[from];
                FX_PUSH(s->scratch, t->outputs, t->n_outputs, t->cap_outputs) = def;
            }
        }
    }
}

/* ---- a part's graph ----------------------------------------------------------------------------------------------------------------- */

static void add_output(fx_copier *c, size_t n, fx_node *const *outputs)
{
    fx_context *ctx = c->to->ctx;
    const fx_arg **items = FX_NEW_ARRAY(c->scratch, const fx_arg *, n);
    fx_node **operands = FX_NEW_ARRAY(c->scratch, fx_node *, n);
    for (size_t i = 0; i < n; i++) {
        items[i] = fx_arg_operand(ctx, (int)i);
        operands[i] = c->node[outputs[i]->id];
    }
    const fx_arg *result = n == 1 ? items[0] : fx_arg_seq(ctx, FX_ARG_TUPLE, (int)n, items);
    fx_node_new(c->to, FX_OUTPUT, "output", fx_arg_seq(ctx, FX_ARG_TUPLE, 1, &result), NULL, (int)n, operands, "output");
}

static void add_placeholder(fx_copier *c, const fx_node *stands_for)
{
    fx_node *n = fx_node_new(c->to, FX_PLACEHOLDER, stands_for->name, NULL, NULL, 0, NULL, stands_for->name);
    n->type = stands_for->type;
    n->meta = fx_meta_copy(c->to, stands_for->meta);
    n->loc = stands_for->loc;
    n->loc.node = n->name;
    c->node[stands_for->id] = n;
}

fx_graph *fx_subgraph(const fx_graph *g, const fx_subgraph_parts *p, const char *name, fx_copier *c)
{
    fx_graph *body = c->to = fx_graph_like(g, name);
    for (size_t i = 0; i < p->n_inputs; i++)
        add_placeholder(c, p->inputs[i]);
    for (size_t i = 0; i < p->n_nodes; i++) {
        fx_copy_target(body, p->nodes[i]);
        fx_copier_node(c, p->nodes[i], p->nodes[i]->name);
    }
    add_output(c, p->n_outputs, p->outputs);
    return body;
}

/* ---- the outer graph ------------------------------------------------------------------------------------------------------------------ */

static const fx_type *tuple_type(splitter *s, const part *t)
{
    const fx_type **items = FX_NEW_ARRAY(s->scratch, const fx_type *, t->n_outputs);
    for (size_t i = 0; i < t->n_outputs; i++) {
        items[i] = t->outputs[i]->type;
        if (!items[i])
            return NULL;
    }
    return fx_type_tuple(s->ctx, (int)t->n_outputs, items);
}

static void add_getitems(splitter *s, const part *t, fx_node *call)
{
    for (size_t i = 0; i < t->n_outputs; i++) {
        const fx_arg *items[] = {fx_arg_operand(s->ctx, 0), fx_arg_int(s->ctx, (int64_t)i)};
        fx_node *n = fx_node_new(s->out, FX_CALL_FUNCTION, fx_ops[FX_OP_getitem].name, fx_arg_seq(s->ctx, FX_ARG_TUPLE, 2, items), NULL, 1,
                                 &call, NULL);
        n->type = t->outputs[i]->type;
        n->loc.module = t->outputs[i]->loc.module;
        n->loc.frame = t->outputs[i]->loc.frame;
        s->copier.node[t->outputs[i]->id] = n;
    }
}

/* A path in the outer graph that nothing has. */
static const char *module_name(splitter *s, const char *name)
{
    const char *path = fx_intern(s->ctx, name);
    for (size_t i = 1; fx_module_find(s->out, path) || fx_attr_find(s->out, path); i++)
        path = fx_intern_f(s->ctx, "%s_%zu", name, i);
    return path;
}

static void emit_part(splitter *s, int number, fx_node **inside)
{
    part *t = &s->parts[number];
    const char *path = module_name(s, s->p->names[number]);
    fx_module *m = fx_module_make(s->out, path);
    m->class_name = fx_intern(s->ctx, "torch.fx.graph_module.GraphModule");
    fx_copier c = {.scratch = s->scratch, .node = inside};
    const fx_subgraph_parts p = {t->n_inputs, t->inputs, t->n_nodes, t->nodes, t->n_outputs, t->outputs};
    m->body = fx_subgraph(s->g, &p, path, &c);
    fx_node **inputs = FX_NEW_ARRAY(s->scratch, fx_node *, t->n_inputs);
    const fx_arg **args = FX_NEW_ARRAY(s->scratch, const fx_arg *, t->n_inputs);
    for (size_t i = 0; i < t->n_inputs; i++) {
        inputs[i] = s->copier.node[t->inputs[i]->id];
        args[i] = fx_arg_operand(s->ctx, (int)i);
    }
    fx_node *call = fx_node_new(s->out, FX_CALL_MODULE, path, fx_arg_seq(s->ctx, FX_ARG_TUPLE, (int)t->n_inputs, args), NULL,
                                (int)t->n_inputs, inputs, NULL);
    if (t->n_outputs == 1) {
        call->type = t->outputs[0]->type;
        s->copier.node[t->outputs[0]->id] = call;
    } else {
        call->type = tuple_type(s, t);
        add_getitems(s, t, call);
    }
}

/* ---- the order of units ------------------------------------------------------------------------------------------------------------------ */

/* A unit being taken, and how far we are in what it needs. */
typedef struct step {
    int part;                /* -1: the node alone */
    fx_node *node;           /* the node of the unit we are at */
    size_t at_node, at_pred;
} step;

static uint8_t *state_of(splitter *s, const fx_node *n)
{
    int k = s->of[n->id];
    return &s->state[k >= 0 ? (size_t)k : (size_t)s->p->n + n->id];
}

static step step_of(splitter *s, fx_node *n)
{
    int k = s->of[n->id];
    return (step){.part = k, .node = k >= 0 ? s->parts[k].nodes[0] : n};
}

/* The next node outside the unit that it needs, or NULL. */
static fx_node *next_need(splitter *s, step *t)
{
    for (;;) {
        fx_node *need = fx_order_pred(&s->order, t->node, t->at_pred);
        if (need) {
            t->at_pred++;
            if (t->part < 0 || s->of[need->id] != t->part)
                return need;
        } else if (t->part >= 0 && t->at_node + 1 < s->parts[t->part].n_nodes) {
            t->node = s->parts[t->part].nodes[++t->at_node];
            t->at_pred = 0;
        } else {
            return NULL;
        }
    }
}

static fx_status circle(splitter *s, const step *stack, size_t n, const fx_node *back)
{
    size_t first = n - 1;
    int target = s->of[back->id];
    while (first > 0 && !(target >= 0 ? stack[first].part == target : stack[first].node == back))
        first--;
    fx_text text;
    fx_text_init(&text, s->scratch);
    for (size_t i = first; i < n && i < first + 8; i++) {
        int k = stack[i].part;
        fx_printf(&text, "%s'%s'", i > first ? " needs " : "", stack[i].node->name);
        if (k >= 0)
            fx_printf(&text, " (in %s)", s->p->names[k]);
    }
    fx_printf(&text, "%s needs '%s'", n - first > 8 ? " needs ... and" : "", back->name);
    if (target >= 0)
        fx_printf(&text, " (in %s)", s->p->names[target]);
    return fx_fail(s->ctx, FX_ERR_ARGUMENT, &back->loc, "parts of the graph depend on each other in a circle: %s", text.data);
}

static void emit(splitter *s, const step *t, fx_node **inside)
{
    if (t->part >= 0) {
        emit_part(s, t->part, inside);
        return;
    }
    fx_copy_target(s->out, t->node);
    fx_copier_node(&s->copier, t->node, t->node->name);
}

/* Takes a unit and all it needs. */
static fx_status take(splitter *s, fx_node *first, step *stack, fx_node **inside)
{
    size_t n = 0;
    if (*state_of(s, first) == 2)
        return FX_OK;
    stack[n++] = step_of(s, first);
    *state_of(s, first) = 1;
    while (n > 0) {
        fx_node *need = next_need(s, &stack[n - 1]);
        if (!need) {
            step *done = &stack[--n];
            *state_of(s, done->node) = 2;
            emit(s, done, inside);
            continue;
        }
        uint8_t *state = state_of(s, need);
        if (*state == 1)
            return circle(s, stack, n, need);
        if (*state == 0) {
            *state = 1;
            stack[n++] = step_of(s, need);
        }
    }
    return FX_OK;
}

static fx_status build(splitter *s)
{
    const fx_graph *g = s->g;
    s->parts = FX_NEW_ARRAY(s->scratch, part, s->p->n);
    s->order = fx_order_new(g, s->scratch);
    collect(s);
    s->state = FX_NEW_ARRAY(s->scratch, uint8_t, (size_t)s->p->n + g->n_ids);
    s->out = fx_graph_like(g, g->name);
    if (s->out->stage > FX_STAGE_IMPORTED)
        s->out->stage = FX_STAGE_IMPORTED; /* it calls modules */
    s->out->in_tree = g->in_tree;
    s->out->out_tree = g->out_tree;
    s->copier = fx_copier_new(g, s->out, s->scratch);
    step *stack = FX_NEW_ARRAY(s->scratch, step, (size_t)s->p->n + g->n_nodes + 1);
    fx_node **inside = FX_NEW_ARRAY(s->scratch, fx_node *, g->n_ids);
    /* Names of modules and attributes that stay are taken before those of parts are chosen. */
    FX_FOR_NODES(g, n) {
        if (s->of[n->id] < 0)
            fx_copy_target(s->out, n);
    }
    FX_FOR_NODES(g, n) {
        if (n->opcode == FX_PLACEHOLDER)
            FX_TRY(take(s, n, stack, inside));
    }
    for (int i = 0; i < s->p->n && s->p->in_order; i++)
        if (s->parts[i].n_nodes)
            FX_TRY(take(s, s->parts[i].nodes[0], stack, inside));
    FX_FOR_NODES(g, n) {
        if (n->opcode != FX_OUTPUT)
            FX_TRY(take(s, n, stack, inside));
    }
    FX_FOR_NODES(g, n) {
        if (n->opcode == FX_OUTPUT)
            FX_TRY(take(s, n, stack, inside));
    }
    return FX_OK;
}

fx_status fx_parts_build(const fx_parts *p, fx_graph **out)
{
    splitter s = {.p = p, .g = p->g, .ctx = p->g->ctx, .scratch = fx_arena_create(p->g->ctx)};
    fx_status st = build(&s);
    fx_arena_free(s.scratch);
    if (st == FX_OK)
        *out = s.out;
    return st;
}

/* ---- fxcc/pass.h ---------------------------------------------------------------------------------------------------------------------------- */

fx_graph *fx_module_graph(const fx_module *m)
{
    return m ? m->body : NULL;
}

static bool is_call(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION || n->opcode == FX_CALL_METHOD || n->opcode == FX_CALL_MODULE;
}

static int *no_parts(fx_arena *scratch, const fx_graph *g)
{
    int *of = FX_NEW_ARRAY(scratch, int, g->n_ids);
    for (uint32_t i = 0; i < g->n_ids; i++)
        of[i] = -1;
    return of;
}

typedef struct request {
    fx_graph *g;
    fx_status (*work)(struct request *r);
    const char *prefix; /* of the names of parts that have a number */
    int (*part)(void *user, const fx_node *node);
    void *user;
    size_t n_tags;
    const char *const *tags;
    const int *partition;
    fx_arena *scratch;
    fx_graph **out;
} request;

static fx_status with_scratch(void *arg)
{
    request *r = arg;
    r->scratch = fx_arena_create(r->g->ctx);
    fx_status st = r->work(r);
    fx_arena_free(r->scratch);
    return st;
}

/* Does the work with a scratch arena. */
static fx_status run(request *r)
{
    if (!r->g || !r->out)
        return FX_ERR_ARGUMENT;
    return fx_protect(r->g->ctx, with_scratch, r);
}

/* Part numbers of the caller's become 0, 1, 2, ... in order of first appearance. */
typedef struct numbers {
    fx_arena *scratch;
    fx_map map;              /* number + 1 -> dense number + 1 */
    const char **names;
    size_t n, cap;
} numbers;

static int dense(numbers *k, fx_context *ctx, int number, const char *prefix)
{
    const void *key = (const void *)((uintptr_t)number + 1);
    uintptr_t found = (uintptr_t)fx_map_get(&k->map, key);
    if (!found) {
        FX_PUSH(k->scratch, k->names, k->n, k->cap) = fx_intern_f(ctx, "%s%d", prefix, number);
        found = k->n;
        fx_map_put(k->scratch, &k->map, key, (void *)found);
    }
    return (int)found - 1;
}

static fx_status split_by_number(request *r)
{
    fx_graph *g = r->g;
    fx_arena *scratch = r->scratch;
    numbers k = {.scratch = scratch};
    int *of = no_parts(scratch, g);
    size_t i = 0;
    FX_FOR_NODES(g, n) {
        size_t at = i++;
        if (!is_call(n) && (!r->partition || r->partition[at] < 0))
            continue;
        int number = r->partition ? r->partition[at] : r->part(r->user, n);
        if (!is_call(n))
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, &n->loc, "is in partition %d, but only calls can be", number);
        if (number < 0 && !r->partition)
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, &n->loc, "the callback put it into part %d, expected a number from 0", number);
        if (number >= 0)
            of[n->id] = dense(&k, g->ctx, number, r->prefix);
    }
    const fx_parts p = {.g = g, .n = (int)k.n, .of = of, .names = k.names};
    return fx_parts_build(&p, r->out);
}

fx_status fx_graph_split_module(fx_graph *graph, int (*part)(void *user, const fx_node *node), void *user, fx_graph **out)
{
    request r = {.g = graph, .work = split_by_number, .prefix = "submod_", .part = part, .user = user, .out = out};
    return part ? run(&r) : FX_ERR_ARGUMENT;
}

fx_status fx_graph_fuse_partitions(fx_graph *graph, const int *partition, fx_graph **out)
{
    request r = {.g = graph, .work = split_by_number, .prefix = "fused_", .partition = partition, .out = out};
    return partition ? run(&r) : FX_ERR_ARGUMENT;
}

static const char *tag_of(const fx_node *n, const char *key)
{
    for (const fx_meta *m = n->meta; m; m = m->next)
        if (m->key == key)
            return m->value->kind == FX_ARG_STR ? m->value->s : NULL;
    return NULL;
}

static fx_status by_tags(request *r)
{
    fx_graph *g = r->g;
    fx_map numbers = {0};
    const char *key = fx_intern(g->ctx, "tag");
    for (size_t i = 0; i < r->n_tags; i++) {
        const char *tag = r->tags[i] ? fx_intern(g->ctx, r->tags[i]) : NULL;
        if (!tag || !*tag || strchr(tag, '.'))
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "tag %zu is %s%s%s, expected a module's name", i, tag ? "'" : "", tag ? tag : "NULL",
                           tag ? "'" : "");
        if (fx_map_get(&numbers, tag))
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "the tag '%s' is given twice", tag);
        fx_map_put(r->scratch, &numbers, tag, (void *)(uintptr_t)(i + 1));
    }
    int *of = no_parts(r->scratch, g);
    FX_FOR_NODES(g, n) {
        if (!is_call(n))
            continue;
        const char *tag = tag_of(n, key);
        uintptr_t number = tag ? (uintptr_t)fx_map_get(&numbers, tag) : 0;
        if (!number)
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, &n->loc, "its tag is %s%s%s, expected one of the %zu given", tag ? "'" : "",
                           tag ? tag : "missing", tag ? "'" : "", r->n_tags);
        of[n->id] = (int)number - 1;
    }
    const fx_parts p = {.g = g, .n = (int)r->n_tags, .of = of, .names = r->tags, .in_order = true};
    return fx_parts_build(&p, r->out);
}

fx_status fx_graph_split_by_tags(fx_graph *graph, size_t n_tags, const char *const *tags, fx_graph **out)
{
    request r = {.g = graph, .work = by_tags, .n_tags = n_tags, .tags = tags, .out = out};
    return tags || n_tags == 0 ? run(&r) : FX_ERR_ARGUMENT;
}
