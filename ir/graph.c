/* ir/graph.c: nodes, their operands and uses, editing, copying; the accessors of fxcc/graph.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A node's template numbers its operands 0, 1, 2, ... from left to right, each number once (x * x has two operands), so
 * that equal calls have equal templates whatever edits made them. */
#include <string.h>

#include "ir/context.h"

/* ---- operands and uses ------------------------------------------------------------------------------------------------ */

static void link_use(fx_use *u, fx_node *def, fx_node *user)
{
    u->def = def;
    u->user = user;
    u->prev = def->last_use;
    u->next = NULL;
    if (u->prev)
        u->prev->next = u;
    else
        def->first_use = u;
    def->last_use = u;
    def->n_uses++;
}

static void unlink_use(fx_use *u)
{
    fx_node *def = u->def;
    if (u->prev)
        u->prev->next = u->next;
    else
        def->first_use = u->next;
    if (u->next)
        u->next->prev = u->prev;
    else
        def->last_use = u->prev;
    u->prev = u->next = NULL;
    u->def = NULL;
    def->n_uses--;
}

typedef struct walk {
    fx_context *ctx;
    fx_arena *arena;
    int64_t n;            /* operands seen */
    bool in_order;
    fx_node *const *from; /* operands by the given numbers */
    int n_from;
    fx_node **to;         /* operands by the new ones */
} walk;

static void count_operand(void *user, int64_t operand)
{
    walk *w = user;
    w->in_order = w->in_order && operand == w->n;
    w->n++;
}

static const fx_arg *renumber(void *user, const fx_arg *leaf)
{
    walk *w = user;
    if (leaf->kind != FX_ARG_NODE)
        return leaf;
    if (leaf->i < 0 || leaf->i >= w->n_from || !w->from[leaf->i])
        return fx_arg_none(w->ctx); /* only a caller's mistake; the verifier has no operand to complain about */
    w->to[w->n] = w->from[leaf->i];
    return fx_arg_operand(w->ctx, (int)w->n++);
}

/* New arguments of a node, with all done that may run out of memory. */
typedef struct plan {
    const fx_arg *args, *kwargs;
    int count;
    fx_node **defs, *small[16];
} plan;

static void make_plan(fx_graph *g, const fx_arg *args, const fx_arg *kwargs, int n_operands, fx_node *const *operands, plan *p)
{
    fx_context *ctx = g->ctx;
    p->args = args ? args : ctx->empty_tuple;
    p->kwargs = kwargs ? kwargs : ctx->empty_dict;
    walk w = {.ctx = ctx, .in_order = true, .from = operands, .n_from = n_operands};
    if (n_operands < FX_CACHED && p->args == ctx->operand_tuples[n_operands] && !p->kwargs->n) {
        w.n = n_operands;
    } else {
        fx_arg_operands(p->args, count_operand, &w);
        fx_arg_operands(p->kwargs, count_operand, &w);
    }
    p->count = (int)w.n;
    /* Taken aside: `operands` may be read from the very array that is overwritten later. */
    p->defs = w.to = p->count <= 16 ? p->small : FX_NEW_ARRAY(g->arena, fx_node *, p->count);
    bool direct = w.in_order && p->count <= n_operands;
    for (int i = 0; direct && i < p->count; i++) {
        p->defs[i] = operands[i];
        direct = operands[i] != NULL;
    }
    if (!direct) {
        w.n = 0;
        p->args = fx_arg_map(ctx, p->args, renumber, &w);
        p->kwargs = fx_arg_map(ctx, p->kwargs, renumber, &w);
        p->count = (int)w.n;
    }
}

static void carry_out(fx_node *n, const plan *p, fx_use *array)
{
    n->args = p->args;
    n->kwargs = p->kwargs;
    n->operands = array;
    n->n_operands = p->count;
    for (int i = 0; i < p->count; i++)
        link_use(&array[i], p->defs[i], n);
}

void fx_node_assign(fx_node *n, const fx_arg *args, const fx_arg *kwargs, int n_operands, fx_node *const *operands)
{
    fx_graph *g = n->graph;
    plan p;
    make_plan(g, args, kwargs, n_operands, operands, &p);
    fx_use *array = p.count > n->n_operands ? FX_NEW_ARRAY(g->arena, fx_use, p.count) : n->operands;
    for (int i = 0; i < n->n_operands; i++)
        unlink_use(&n->operands[i]);
    carry_out(n, &p, array);
    n->type = NULL;
}

/* What a user computes does not change when an operand gives way to one of the same type. */
static bool same_value_type(const fx_type *a, const fx_type *b)
{
    return a && (a == b || (fx_type_same_shape(a, b) && a->dtype == b->dtype));
}

void fx_node_set_operand(fx_node *n, int operand, fx_node *by)
{
    fx_use *u = &n->operands[operand];
    if (u->def == by)
        return;
    if (!same_value_type(u->def->type, by->type))
        n->type = NULL;
    unlink_use(u);
    link_use(u, by, n);
}

void fx_node_replace_uses(fx_node *old, fx_node *by)
{
    if (old == by)
        return;
    bool same = same_value_type(old->type, by->type);
    while (old->first_use) {
        fx_use *u = old->first_use;
        fx_node *user = u->user;
        unlink_use(u);
        link_use(u, by, user);
        if (!same)
            user->type = NULL;
    }
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

static void insert_before(fx_node *n, fx_node *at)
{
    fx_graph *g = n->graph;
    n->next = at;
    n->prev = at ? at->prev : g->last;
    if (n->prev)
        n->prev->next = n;
    else
        g->first = n;
    if (at)
        at->prev = n;
    else
        g->last = n;
}

/* n keeps its own prev and next, so that a walk standing on n goes on. */
static void take_out(fx_node *n)
{
    fx_graph *g = n->graph;
    if (n->prev)
        n->prev->next = n->next;
    else
        g->first = n->next;
    if (n->next)
        n->next->prev = n->prev;
    else
        g->last = n->prev;
    if (g->insert_before == n)
        g->insert_before = n->next;
}

/* A node and room for its uses behind it. */
static fx_node *allocate(fx_graph *g, int n_operands)
{
    return fx_arena_alloc(g->arena, sizeof(fx_node) + (size_t)n_operands * sizeof(fx_use));
}

/* All that may run out of memory comes first: the graph is then changed as a whole. */
fx_node *fx_node_make(fx_graph *g, fx_opcode opcode, const char *target, const fx_arg *args, const fx_arg *kwargs, int n_operands,
                      fx_node *const *operands, const char *name, bool keep)
{
    plan p;
    fx_target_facts *info = NULL;
    target = fx_target_intern(g->ctx, target, opcode == FX_CALL_FUNCTION ? &info : NULL);
    make_plan(g, args, kwargs, n_operands, operands, &p);
    fx_node *n = allocate(g, p.count);
    fx_name made = fx_name_make(g, opcode, target, info, name, keep);
    n->graph = g;
    n->opcode = (uint8_t)opcode;
    n->target = target;
    n->op = info ? info->op : NULL;
    n->loc.file = g->file;
    fx_name_take(g, &made, n);
    carry_out(n, &p, p.count ? (fx_use *)(n + 1) : NULL);
    n->id = g->n_ids++;
    g->n_nodes++;
    insert_before(n, g->insert_before);
    return n;
}

fx_node *fx_node_new(fx_graph *g, fx_opcode opcode, const char *target, const fx_arg *args, const fx_arg *kwargs,
                     int n_operands, fx_node *const *operands, const char *name)
{
    return fx_node_make(g, opcode, target, args, kwargs, n_operands, operands, name, true);
}

fx_status fx_node_erase(fx_node *n)
{
    fx_graph *g = n->graph;
    if (n->erased)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, &n->loc, "the node is already erased");
    if (n->first_use) {
        fx_text users;
        fx_text_init(&users, g->ctx->diag_arena);
        const fx_use *u = n->first_use;
        for (int i = 0; u && i < 5; u = u->next, i++)
            fx_printf(&users, "%s'%s'", i ? ", " : "", u->user->name);
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, &n->loc, "cannot be erased: expected no uses, got %d, by %s%s", n->n_uses, users.data,
                       u ? ", ..." : "");
    }
    for (int i = 0; i < n->n_operands; i++)
        unlink_use(&n->operands[i]);
    fx_map_remove(&g->by_name, n->name);
    take_out(n);
    n->n_operands = 0;
    n->erased = true;
    g->n_nodes--;
    return FX_OK;
}

void fx_node_move_before(fx_node *n, fx_node *at)
{
    if (n == at || n->next == at)
        return;
    fx_node *insertion = n->graph->insert_before;
    take_out(n);
    n->graph->insert_before = insertion;
    insert_before(n, at);
}

bool fx_node_is_inplace(const fx_node *n)
{
    return n->op && fx_target_lookup(n->graph->ctx, n->target)->inplace;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------------------- */

fx_graph *fx_graph_new(fx_context *ctx, const char *name)
{
    fx_arena *arena = fx_arena_create(ctx);
    fx_graph *g = FX_NEW(arena, fx_graph);
    g->ctx = ctx;
    g->arena = arena;
    g->name = fx_intern(ctx, name);
    g->root = FX_NEW(arena, fx_module);
    g->root->graph = g;
    g->root->name = g->root->path = fx_intern(ctx, "");
    return g;
}

/* ---- copying ----------------------------------------------------------------------------------------------------------------- */

fx_meta *fx_meta_copy(fx_graph *to, const fx_meta *from)
{
    fx_meta *first = NULL, **end = &first;
    for (; from; from = from->next, end = &(*end)->next) {
        *end = fx_arena_dup(to->arena, from, sizeof *from);
        (*end)->next = NULL;
    }
    return first;
}

/* Copies of one graph with all it holds: what is held twice is copied once. */
typedef struct copying {
    fx_context *ctx;
    fx_arena *scratch; /* there once a graph holds another */
    fx_map done;
} copying;

static fx_graph *copy_held(copying *c, const fx_graph *g);

static void copy_module(copying *c, fx_graph *to, const fx_module *from)
{
    fx_module *into = fx_module_make(to, from->path);
    into->class_name = from->class_name;
    into->config = from->config;
    into->body = from->body ? copy_held(c, from->body) : NULL;
    into->meta = fx_meta_copy(to, from->meta);
    for (size_t i = 0; i < from->n_attrs; i++) {
        const fx_attr *a = from->attrs[i];
        fx_attr *b = fx_attr_add(to, a->path, &a->tensor, false);
        b->is_parameter = a->is_parameter;
        b->persistent = a->persistent;
        b->hash = a->hash;
        b->type = a->type;
    }
}

/* Subgraphs of control flow are part of the graph. */
static const fx_arg *copy_subgraph(void *user, const fx_arg *leaf)
{
    return leaf->kind == FX_ARG_GRAPH ? fx_arg_graph(leaf->graph->ctx, copy_held(user, leaf->graph)) : leaf;
}

static const fx_arg *copy_subgraphs(fx_context *ctx, const fx_arg *tree)
{
    copying c = {.ctx = ctx};
    tree = fx_arg_map(ctx, tree, copy_subgraph, &c);
    fx_arena_free(c.scratch);
    return tree;
}

fx_node *fx_node_clone(fx_graph *g, const fx_node *n, fx_node *const *operands, const char *name, bool keep)
{
    const fx_arg *args = n->args, *kwargs = n->kwargs;
    if (g != n->graph) {
        args = copy_subgraphs(g->ctx, args);
        kwargs = copy_subgraphs(g->ctx, kwargs);
    }
    fx_meta *meta = fx_meta_copy(g, n->meta);
    fx_node *m = fx_node_make(g, n->opcode, n->target, args, kwargs, n->n_operands, operands, name, keep);
    m->meta = meta;
    m->op = n->op;
    m->type = n->type;
    m->loc = n->loc;
    m->loc.node = m->name;
    return m;
}

/* Names and templates are shared with the original, so that nodes are copied without looking anything up. */
static fx_node *duplicate(copying *all, fx_graph *c, const fx_node *n, fx_node *const *by_id)
{
    fx_node *m = allocate(c, n->n_operands);
    fx_use *uses = n->n_operands ? (fx_use *)(m + 1) : NULL;
    *m = (fx_node){.graph = c, .opcode = n->opcode, .name = n->name, .target = n->target, .op = n->op, .type = n->type, .loc = n->loc};
    bool plain = n->n_operands < FX_CACHED && n->args == c->ctx->operand_tuples[n->n_operands];
    m->args = plain ? n->args : fx_arg_map(c->ctx, n->args, copy_subgraph, all);
    m->kwargs = n->kwargs->n ? fx_arg_map(c->ctx, n->kwargs, copy_subgraph, all) : n->kwargs;
    m->meta = fx_meta_copy(c, n->meta);
    m->operands = uses;
    m->n_operands = n->n_operands;
    for (int i = 0; i < n->n_operands; i++)
        link_use(&uses[i], by_id[n->operands[i].def->id], m);
    m->id = c->n_ids++;
    c->n_nodes++;
    insert_before(m, NULL);
    return m;
}

static fx_graph *copy(copying *all, const fx_graph *g)
{
    fx_context *ctx = g->ctx;
    fx_graph *c = fx_graph_new(ctx, g->name);
    c->level = g->level;
    c->file = g->file;
    c->stage = g->stage;
    c->in_tree = g->in_tree;
    c->out_tree = g->out_tree;
    c->symbols = fx_arena_dup(c->arena, g->symbols, g->n_symbols * sizeof *g->symbols);
    c->n_symbols = c->cap_symbols = g->n_symbols;
    for (const fx_module *m = g->root; m; m = fx_graph_next_module(g, m))
        copy_module(all, c, m);
    fx_node **by_id = FX_NEW_ARRAY(c->arena, fx_node *, g->n_ids);
    fx_map_reserve(c->arena, &c->by_name, g->by_name.n);
    FX_FOR_NODES(g, n) {
        by_id[n->id] = duplicate(all, c, n, by_id);
        fx_map_put(c->arena, &c->by_name, n->name, by_id[n->id]);
        if (n == g->insert_before)
            c->insert_before = by_id[n->id];
    }
    fx_map_copy(c->arena, &c->name_counts, &g->name_counts);
    return c;
}

static fx_graph *copy_held(copying *all, const fx_graph *g)
{
    fx_graph *c = fx_map_get(&all->done, g);
    if (c)
        return c;
    c = copy(all, g);
    if (!all->scratch)
        all->scratch = fx_arena_create(all->ctx);
    fx_map_put(all->scratch, &all->done, g, c);
    return c;
}

fx_graph *fx_graph_copy(const fx_graph *g)
{
    copying all = {.ctx = g->ctx};
    fx_graph *c = copy(&all, g);
    fx_arena_free(all.scratch);
    return c;
}
