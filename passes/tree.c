/* passes/tree.c: the module tree as passes change it: who uses a tensor or module, new tensors in place of old, what nobody uses any more.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "passes/passes.h"

struct fx_refs {
    fx_graph *g;
    fx_arena *arena;
    fx_map count;                 /* fx_attr: get_attr nodes; fx_module: call_module and get_attr nodes */
    size_t n_gets;                /* get_attr nodes of tensors there were; 0: no tensor is in count */
    fx_attr **attrs; size_t n_attrs, cap_attrs;           /* dropped */
    fx_module **modules; size_t n_modules, cap_modules;
};

static size_t count_of(const fx_refs *r, const void *key)
{
    return (size_t)(uintptr_t)fx_map_get(&r->count, key);
}

static void add(fx_refs *r, const void *key, int by)
{
    size_t n = count_of(r, key);
    if (by > 0 || n > 0)
        fx_map_put(r->arena, &r->count, key, (void *)(uintptr_t)(by > 0 ? n + 1 : n - 1));
}

fx_refs *fx_refs_count(fx_graph *g, fx_arena *arena)
{
    fx_refs *r = FX_NEW(arena, fx_refs);
    r->g = g;
    r->arena = arena;
    fx_map_reserve(arena, &r->count, g->modules_by_path.n < g->n_nodes ? g->modules_by_path.n : g->n_nodes);
    FX_FOR_NODES(g, n) {
        const void *key = n->opcode == FX_GET_ATTR ? fx_target_attr(n) : NULL;
        r->n_gets += key != NULL;
        if (!key && (n->opcode == FX_CALL_MODULE || n->opcode == FX_GET_ATTR))
            key = fx_target_module(n);
        if (key)
            add(r, key, 1);
    }
    return r;
}

/* Calls of m and of modules that hold it. */
static size_t calls_of(const fx_refs *r, const fx_module *m)
{
    size_t n = 0;
    for (; m; m = m->parent)
        n += count_of(r, m);
    return n;
}

size_t fx_refs_of_attr(const fx_refs *r, const fx_attr *a)
{
    return count_of(r, a) + calls_of(r, a->module);
}

size_t fx_refs_of_module(const fx_refs *r, const fx_module *m)
{
    size_t n = calls_of(r, m);
    for (size_t i = 0; r->n_gets && i < m->n_attrs; i++)
        n += count_of(r, m->attrs[i]);
    for (size_t i = 0; i < m->n_children; i++) /* layers have none; containers are asked about rarely */
        n += fx_refs_of_module(r, m->children[i]) - calls_of(r, m);
    return n;
}

void fx_refs_drop_attr(fx_refs *r, fx_attr *a)
{
    add(r, a, -1);
    FX_PUSH(r->arena, r->attrs, r->n_attrs, r->cap_attrs) = a;
}

void fx_refs_drop_module(fx_refs *r, fx_module *m)
{
    add(r, m, -1);
    FX_PUSH(r->arena, r->modules, r->n_modules, r->cap_modules) = m;
}

/* Modules that lose their last tensor go with it, unless they are called or hold others. */
void fx_refs_remove_dropped(fx_refs *r)
{
    size_t n_attrs = 0, n_modules = 0, n_emptied = 0, cap = 0;
    fx_module **emptied = NULL, **modules = NULL;
    fx_map leaving = {0}; /* module -> how many of its tensors go */
    for (size_t i = 0; i < r->n_attrs; i++) {
        fx_attr *a = r->attrs[i];
        if (fx_refs_of_attr(r, a) || fx_map_get(&r->g->attrs_by_path, a->path) != a)
            continue;
        size_t count = (size_t)(uintptr_t)fx_map_get(&leaving, a->module);
        if (count == 0)
            FX_PUSH(r->arena, emptied, n_emptied, cap) = a->module;
        fx_map_put(r->arena, &leaving, a->module, (void *)(uintptr_t)(count + 1));
        r->attrs[n_attrs++] = a;
    }
    modules = FX_NEW_ARRAY(r->arena, fx_module *, n_emptied + r->n_modules + 1);
    for (size_t i = 0; i < n_emptied; i++) {
        fx_module *m = emptied[i];
        if (m->parent && (size_t)(uintptr_t)fx_map_get(&leaving, m) == m->n_attrs && m->n_children == 0 && calls_of(r, m) == 0)
            modules[n_modules++] = m;
    }
    for (size_t i = 0; i < r->n_modules; i++) {
        fx_module *m = r->modules[i];
        if (m->parent && fx_refs_of_module(r, m) == 0 && fx_map_get(&r->g->modules_by_path, m->path) == m)
            modules[n_modules++] = m;
    }
    fx_tree_delete(r->g, n_modules, modules, n_attrs, r->attrs);
}

void fx_attr_put(fx_graph *g, const char *path, const fx_tensor *t)
{
    fx_attr *a = fx_map_get(&g->attrs_by_path, path);
    if (a)
        fx_attr_set_tensor(a, t);
    else
        fx_attr_add(g, path, t, false)->is_parameter = true;
}

void fx_module_put_config(fx_module *m, const char *key, const fx_arg *value)
{
    fx_context *ctx = m->graph->ctx;
    int n = m->config ? m->config->n : 0, at = 0;
    const char **keys = FX_NEW_ARRAY(m->graph->arena, const char *, n + 1);
    const fx_arg **items = FX_NEW_ARRAY(m->graph->arena, const fx_arg *, n + 1);
    for (int i = 0; i < n; i++) {
        keys[i] = m->config->keys[i];
        items[i] = m->config->items[i];
    }
    while (at < n && strcmp(keys[at], key))
        at++;
    keys[at] = fx_intern(ctx, key);
    items[at] = value;
    m->config = fx_arg_dict(ctx, at == n ? n + 1 : n, keys, items);
}

void fx_node_put_argument(fx_node *n, int param, const char *name, fx_node *value)
{
    fx_graph *g = n->graph;
    fx_context *ctx = g->ctx;
    const fx_type *type = n->type;
    const fx_arg *args = n->args, *kwargs = n->kwargs, *leaf = fx_arg_operand(ctx, n->n_operands);
    fx_node **operands = FX_NEW_ARRAY(g->arena, fx_node *, n->n_operands + 1);
    for (int i = 0; i < n->n_operands; i++)
        operands[i] = n->operands[i].def;
    operands[n->n_operands] = value;
    if (param <= args->n) {
        int count = param == args->n ? param + 1 : args->n;
        const fx_arg **items = FX_NEW_ARRAY(g->arena, const fx_arg *, count);
        for (int i = 0; i < count; i++)
            items[i] = i == param ? leaf : args->items[i];
        args = fx_arg_seq(ctx, FX_ARG_TUPLE, count, items);
    }
    int at = 0, count = kwargs->n;
    while (at < count && strcmp(kwargs->keys[at], name))
        at++;
    if (at < count || args == n->args) { /* it is a keyword, or becomes one */
        const char **keys = FX_NEW_ARRAY(g->arena, const char *, count + 1);
        const fx_arg **items = FX_NEW_ARRAY(g->arena, const fx_arg *, count + 1);
        for (int i = 0; i < count; i++) {
            keys[i] = kwargs->keys[i];
            items[i] = kwargs->items[i];
        }
        keys[at] = fx_intern(ctx, name);
        items[at] = leaf;
        args = n->args;
        kwargs = fx_arg_dict(ctx, at == count ? count + 1 : count, keys, items);
    }
    fx_node_assign(n, args, kwargs, n->n_operands + 1, operands);
    n->type = type;
}
