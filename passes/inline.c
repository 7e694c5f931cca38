/* passes/inline.c: calls of modules that hold a graph become that graph's nodes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "passes/passes.h"

/* Bodies that call bodies twice grow as powers of two. */
enum { MAX_NODES = 20 * 1000 * 1000 };

/* A module whose body was inlined before: its attributes are moved once. */
typedef struct moved {
    const fx_module *m;
    fx_map tops;             /* first component of a path in the body -> that below the module's path */
} moved;

typedef struct inliner {
    fx_graph *g;
    fx_context *ctx;
    fx_arena *scratch;
    fx_map moved;            /* fx_module -> struct moved */
    fx_module **modules;
    size_t n_modules, cap_modules;
} inliner;

static const char *top_of(fx_context *ctx, const char *path)
{
    return fx_intern_n(ctx, path, strcspn(path, "."));
}

/* A path below m's that is free. */
static const char *fresh_path(fx_graph *g, const fx_module *m, const char *name)
{
    const char *path = fx_intern_f(g->ctx, "%s.%s", m->path, name);
    for (size_t i = 1; fx_attr_find(g, path) || fx_module_find(g, path); i++)
        path = fx_intern_f(g->ctx, "%s.%s_%zu", m->path, name, i);
    return path;
}

static moved *move_attributes(inliner *w, fx_module *m)
{
    moved *done = fx_map_get(&w->moved, m);
    if (done)
        return done;
    done = FX_NEW(w->scratch, moved);
    done->m = m;
    fx_map_put(w->scratch, &w->moved, m, done);
    FX_PUSH(w->scratch, w->modules, w->n_modules, w->cap_modules) = m;
    const fx_module *root = m->body->root;
    for (size_t i = 0; i < root->n_attrs; i++) {
        const char *path = fresh_path(w->g, m, root->attrs[i]->name);
        fx_map_put(w->scratch, &done->tops, root->attrs[i]->name, (void *)path);
        fx_attr_copy_to(w->g, path, root->attrs[i]);
    }
    for (size_t i = 0; i < root->n_children; i++) {
        const char *path = fresh_path(w->g, m, root->children[i]->name);
        fx_map_put(w->scratch, &done->tops, root->children[i]->name, (void *)path);
        fx_module_copy_to(w->g, path, root->children[i]);
    }
    return done;
}

static const char *moved_target(void *user, const fx_node *n)
{
    const moved *m = user;
    fx_context *ctx = n->graph->ctx;
    const char *top = top_of(ctx, n->target), *path = fx_map_get(&m->tops, top);
    if (!path) /* names nothing there: lint says so */
        return fx_intern_f(ctx, "%s.%s", m->m->path, n->target);
    return fx_intern_f(ctx, "%s%s", path, n->target + strlen(top));
}

/* Puts what call n passes in place of the body's placeholders. */
static fx_status bind(inliner *w, const fx_node *n, const fx_graph *body, fx_copier *c)
{
    fx_node **defs = FX_NEW_ARRAY(w->scratch, fx_node *, n->n_operands);
    for (int i = 0; i < n->n_operands; i++)
        defs[i] = n->operands[i].def;
    int at = 0, used = 0;
    FX_FOR_NODES(body, p) {
        if (p->opcode != FX_PLACEHOLDER)
            continue;
        const fx_arg *a = at < n->args->n ? n->args->items[at] : NULL;
        at++;
        for (int i = 0; !a && i < n->kwargs->n; i++)
            if (n->kwargs->keys[i] == p->target) {
                a = n->kwargs->items[i];
                used++;
            }
        if (!a && p->args->n == 1)
            a = p->args->items[0];
        if (!a)
            return fx_fail(w->ctx, FX_ERR_TYPE, &n->loc, "the module '%s' needs the argument '%s'", n->target, p->target);
        if (a->kind == FX_ARG_NODE) {
            c->node[p->id] = defs[a->i];
            continue;
        }
        fx_stand *s = FX_NEW(w->scratch, fx_stand);
        *s = (fx_stand){a, n->n_operands, defs};
        c->stand[p->id] = s;
    }
    if (n->args->n > at || used < n->kwargs->n)
        return fx_fail(w->ctx, FX_ERR_TYPE, &n->loc, "the module '%s' takes %d arguments, got %d", n->target, at,
                       n->args->n + n->kwargs->n);
    return FX_OK;
}

/* Item `key` of a tuple, list or dict; NULL when there is none. */
static const fx_arg *item_of(const fx_arg *tree, const fx_arg *key)
{
    if (tree->kind == FX_ARG_DICT && key->kind == FX_ARG_STR) {
        for (int i = 0; i < tree->n; i++)
            if (tree->keys[i] == key->s)
                return tree->items[i];
        return NULL;
    }
    if ((tree->kind != FX_ARG_LIST && tree->kind != FX_ARG_TUPLE) || key->kind != FX_ARG_INT)
        return NULL;
    int64_t i = key->i < 0 ? key->i + tree->n : key->i;
    return i >= 0 && i < tree->n ? tree->items[i] : NULL;
}

/* The result of a call: users get the tree, users that take one item of it become that item. Nesting of results is bounded by that of
 * arguments. */
static fx_status replace_result(inliner *w, fx_node *n, const fx_stand *s)
{
    if (s->tree->kind == FX_ARG_NODE) {
        fx_node_replace_uses(n, s->nodes[s->tree->i]);
        return fx_node_erase(n);
    }
    bool nested = s->tree->kind == FX_ARG_LIST || s->tree->kind == FX_ARG_TUPLE || s->tree->kind == FX_ARG_DICT;
    while (n->first_use) {
        fx_node *u = n->first_use->user;
        bool item = nested && fx_node_row(u, NULL) == &fx_ops[FX_OP_getitem] && u->args->n == 2 && u->args->items[0]->kind == FX_ARG_NODE &&
                    u->operands[u->args->items[0]->i].def == n && u->n_operands == 1;
        if (item) {
            const fx_arg *a = item_of(s->tree, u->args->items[1]);
            if (!a)
                return fx_fail(w->ctx, FX_ERR_TYPE, &u->loc, "takes an item that the result of '%s' (%d items) does not have", n->name,
                               s->tree->n);
            fx_stand part = {a, s->n, s->nodes};
            FX_TRY(replace_result(w, u, &part));
            continue;
        }
        fx_copier c = {.to = w->g, .scratch = w->scratch, .one = n, .one_stand = s};
        const fx_arg *args, *kwargs;
        fx_copier_args(&c, u, &args, &kwargs);
        const fx_type *type = u->type;
        fx_node_assign(u, args, kwargs, (int)c.n_operands, c.operands);
        u->type = type;
    }
    return fx_node_erase(n);
}

/* An item of what a placeholder stands for needs no node. */
static bool take_item(inliner *w, const fx_node *b, fx_copier *c)
{
    if (b->n_operands != 1 || b->args->n != 2 || fx_node_row(b, NULL) != &fx_ops[FX_OP_getitem])
        return false;
    const fx_node *of = b->operands[0].def;
    const fx_stand *s = c->node[of->id] ? NULL : c->stand[of->id];
    const fx_arg *a = s ? item_of(s->tree, b->args->items[1]) : NULL;
    if (!a)
        return false;
    if (a->kind == FX_ARG_NODE) {
        c->node[b->id] = s->nodes[a->i];
        return true;
    }
    fx_stand *item = FX_NEW(w->scratch, fx_stand);
    *item = (fx_stand){a, s->n, s->nodes};
    c->stand[b->id] = item;
    return true;
}

static void add_symbols(fx_graph *g, const fx_graph *from)
{
    for (size_t i = 0; i < from->n_symbols; i++) {
        bool there = false;
        for (size_t k = 0; k < g->n_symbols && !there; k++)
            there = g->symbols[k].name == from->symbols[i].name;
        if (!there)
            FX_PUSH(g->arena, g->symbols, g->n_symbols, g->cap_symbols) = from->symbols[i];
    }
}

static fx_status inline_call(inliner *w, fx_node *n, fx_module *m)
{
    fx_graph *body = m->body;
    const fx_node *out = fx_graph_output_node(body);
    if (!out || out->args->n != 1)
        return fx_fail(w->ctx, FX_ERR_FORMAT, &n->loc, "the graph of module '%s' has no output", m->path);
    if (w->g->n_nodes + body->n_nodes > MAX_NODES)
        return fx_fail(w->ctx, FX_ERR_UNSUPPORTED, &n->loc, "inlined graphs of modules come to more than %d nodes", MAX_NODES);
    moved *tops = move_attributes(w, m);
    fx_copier c = fx_copier_new(body, w->g, w->scratch);
    c.stand = FX_NEW_ARRAY(w->scratch, const fx_stand *, body->n_ids);
    c.target = moved_target;
    c.user = tops;
    FX_TRY(bind(w, n, body, &c));
    w->g->insert_before = n;
    FX_FOR_NODES(body, b) {
        if (b->opcode != FX_PLACEHOLDER && b->opcode != FX_OUTPUT && !take_item(w, b, &c))
            fx_copier_node(&c, b, b->name);
    }
    add_symbols(w->g, body);
    if (body->stage < w->g->stage)
        w->g->stage = body->stage;
    const fx_arg *args, *kwargs;
    fx_copier_args(&c, out, &args, &kwargs);
    fx_stand s = {args->items[0], (int)c.n_operands, c.operands};
    return replace_result(w, n, &s);
}

static fx_status inline_all(inliner *w)
{
    fx_graph *g = w->g;
    fx_node *next;
    for (fx_node *n = g->first; n; n = next) {
        fx_node *before = n->prev;
        fx_module *m = n->opcode == FX_CALL_MODULE ? fx_module_find(g, n->target) : NULL;
        if (m && m->body) {
            FX_TRY(inline_call(w, n, m));
            next = before ? before->next : g->first; /* what came in may call such modules too */
        } else {
            next = n->next;
        }
    }
    for (size_t i = 0; i < w->n_modules; i++)
        w->modules[i]->body = NULL;
    return FX_OK;
}

static fx_status inline_bodies(void *arg)
{
    fx_graph *g = arg;
    fx_node *at = g->insert_before;
    inliner w = {.g = g, .ctx = g->ctx, .scratch = fx_arena_create(g->ctx)};
    fx_status st = inline_all(&w);
    g->insert_before = at;
    fx_arena_free(w.scratch);
    return st;
}

fx_status fx_inline_bodies(fx_graph *g)
{
    bool any = false;
    FX_FOR_NODES(g, n) {
        const fx_module *m = n->opcode == FX_CALL_MODULE ? fx_module_find(g, n->target) : NULL;
        any = any || (m && m->body);
    }
    return any ? fx_protect(g->ctx, inline_bodies, g) : FX_OK;
}

fx_status fx_gpass_inline_modules(fx_pass_run *run)
{
    fx_graph *g = run->graph;
    fx_node **calls = NULL;
    size_t n_calls = 0, cap = 0;
    FX_FOR_NODES(g, n) {
        const fx_module *m = n->opcode == FX_CALL_MODULE ? fx_module_find(g, n->target) : NULL;
        if (m && m->body)
            FX_PUSH(run->scratch, calls, n_calls, cap) = n;
    }
    FX_TRY(fx_inline_bodies(g));
    for (size_t i = 0; i < n_calls; i++)
        fx_pass_note(run, calls[i], "replaced by the nodes of module '%s'", calls[i]->target);
    return FX_OK;
}
