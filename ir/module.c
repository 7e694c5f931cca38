/* ir/module.c: the tree of modules with parameters, buffers and constants.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

/* ---- modules ------------------------------------------------------------------------------------------------------------------ */

/* Path of the module that holds `path`, and the last component: "layer1.0" and "weight". */
static const char *parent_path(fx_graph *g, const char *path, const char **last)
{
    const char *dot = strrchr(path, '.');
    *last = dot ? dot + 1 : path;
    return fx_intern_n(g->ctx, path, dot ? (size_t)(dot - path) : 0);
}

fx_module *fx_module_find(const fx_graph *g, const char *path)
{
    fx_module *m = *path ? fx_map_get(&g->modules_by_path, path) : g->root; /* most callers have it interned */
    return m ? m : fx_map_get(&g->modules_by_path, fx_interned(g->ctx, path));
}

/* Components are made from the left, in a loop: a path of a hostile file may have as many as it likes. */
fx_module *fx_module_make(fx_graph *g, const char *path)
{
    fx_module *m = fx_module_find(g, path);
    if (m)
        return m;
    m = g->root;
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, ".");
        const char *here = fx_intern_n(g->ctx, path, (size_t)(p - path) + n);
        fx_module *child = fx_map_get(&g->modules_by_path, here);
        if (!child) {
            child = FX_NEW(g->arena, fx_module);
            child->graph = g;
            child->name = fx_intern_n(g->ctx, p, n);
            child->path = here;
            child->parent = m;
            child->index = m->n_children;
            fx_map_reserve(g->arena, &g->modules_by_path, 1);
            FX_PUSH(g->arena, m->children, m->n_children, m->cap_children) = child;
            fx_map_put(g->arena, &g->modules_by_path, here, child);
        }
        m = child;
        p += n;
        if (!*p)
            return m;
    }
}

fx_module *fx_graph_next_module(const fx_graph *graph, const fx_module *after)
{
    if (!graph || !after)
        return graph ? graph->root : NULL;
    if (after->n_children)
        return after->children[0];
    for (; after->parent; after = after->parent)
        if (after->index + 1 < after->parent->n_children)
            return after->parent->children[after->index + 1];
    return NULL;
}

const char *fx_module_path(fx_graph *g, const fx_module *m)
{
    (void)g;
    return m->path;
}

/* ---- attributes ---------------------------------------------------------------------------------------------------------------- */

fx_attr *fx_attr_find(const fx_graph *g, const char *path)
{
    fx_attr *a = fx_map_get(&g->attrs_by_path, path); /* most callers have it interned */
    return a ? a : fx_map_get(&g->attrs_by_path, fx_interned(g->ctx, path));
}

/* What tells tensors that share memory: their storage; of a caller's memory, its address. */
static const void *memory_of(const fx_tensor *t)
{
    return t->storage ? (const void *)t->storage : t->data;
}

/* Takes a out of its ring of aliases. */
static void part(fx_attr *a)
{
    fx_map *rings = &a->module->graph->attrs_by_storage;
    const void *memory = memory_of(&a->tensor);
    if (!a->alias)
        return;
    fx_attr *before = a->alias_before;
    before->alias = a->alias;
    a->alias->alias_before = before;
    if (before == a)
        fx_map_remove(rings, memory);
    else if (fx_map_get(rings, memory) == a)
        fx_map_put(a->module->graph->arena, rings, memory, before);
    a->alias = a->alias_before = NULL;
}

/* The map holds the last of the ring, whose next is the first. There must be room in the map. */
static void join(fx_attr *a)
{
    fx_graph *g = a->module->graph;
    fx_storage *st = a->tensor.storage;
    const void *memory = memory_of(&a->tensor);
    fx_attr *last = fx_map_get(&g->attrs_by_storage, memory);
    a->alias = last ? last->alias : a;
    a->alias_before = last ? last : a;
    a->alias->alias_before = a;
    a->alias_before->alias = a;
    if (memory)
        fx_map_put(g->arena, &g->attrs_by_storage, memory, a);
    if (st && !st->graph)
        st->graph = g;
    else if (st && st->graph != g)
        st->shared = true;
}

/* The type of t, which is mostly that of the tensor before it. */
static const fx_type *type_of(const fx_attr *a, const fx_tensor *t)
{
    const fx_type *was = a->type;
    bool same = was && was->kind == FX_TYPE_TENSOR && !was->strides && was->dtype == t->dtype && was->rank == t->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = !was->dims[i].sym && was->dims[i].value == t->sizes[i];
    return same ? was : fx_type_tensor_static(a->module->graph->ctx, t->dtype, t->rank, t->sizes);
}

void fx_attr_set_tensor(fx_attr *a, const fx_tensor *t)
{
    fx_graph *g = a->module->graph;
    const fx_type *type = type_of(a, t);
    fx_map_reserve(g->arena, &g->attrs_by_storage, 1);
    part(a);
    a->tensor = *t;
    a->hash = 0;
    a->type = type;
    join(a);
}

/* Before `data` is there, tensors hold offsets into it. */
static uintptr_t offset_in(const fx_storage *st, const fx_tensor *t)
{
    uintptr_t at = (uintptr_t)t->data, base = (uintptr_t)st->data;
    return base && at >= base && at - base <= st->nbytes ? at - base : at;
}

static void rehang(fx_graph *g, const void *memory, const fx_storage *from, fx_storage *to)
{
    fx_attr *last = fx_map_get(&g->attrs_by_storage, memory), *a = last;
    if (!last)
        return;
    fx_map_reserve(g->arena, &g->attrs_by_storage, 1);
    do {
        a->tensor.data = (char *)to->data + (from ? offset_in(from, &a->tensor) : 0);
        a->tensor.storage = to;
        a = a->alias;
    } while (a != last);
    fx_map_remove(&g->attrs_by_storage, memory);
    fx_map_put(g->arena, &g->attrs_by_storage, to, last);
    if (to->graph && to->graph != g)
        to->shared = true;
    else
        to->graph = g;
}

void fx_attr_rehang(fx_graph *g, fx_storage *from, fx_storage *to)
{
    rehang(g, from, from, to);
}

void fx_attr_rehang_memory(fx_graph *g, const void *data, fx_storage *to)
{
    rehang(g, data, NULL, to);
}

const fx_attr *fx_attr_first_alias(const fx_attr *a)
{
    const fx_attr *last = fx_map_get(&a->module->graph->attrs_by_storage, memory_of(&a->tensor));
    return last ? last->alias : a;
}

fx_attr *fx_attr_add(fx_graph *g, const char *path, const fx_tensor *t, bool fresh)
{
    fx_context *ctx = g->ctx;
    path = fx_intern(ctx, path);
    fx_attr *a = fx_map_get(&g->attrs_by_path, path);
    if (fresh && (a || fx_map_get(&g->modules_by_path, path))) {
        const char *base = path;
        uintptr_t num = (uintptr_t)fx_map_get(&g->attr_counts, base);
        do
            path = fx_intern_f(ctx, "%s_%zu", base, (size_t)++num);
        while (fx_map_get(&g->attrs_by_path, path) || fx_map_get(&g->modules_by_path, path));
        fx_map_put(g->arena, &g->attr_counts, base, (void *)num);
        a = NULL;
    }
    if (!a) {
        const char *last, *parent = parent_path(g, path, &last);
        a = FX_NEW(g->arena, fx_attr);
        a->name = fx_intern(ctx, last);
        a->path = path;
        a->persistent = true;
        a->type = fx_type_tensor_static(ctx, t->dtype, t->rank, t->sizes);
        fx_map_reserve(g->arena, &g->attrs_by_path, 1);
        fx_map_reserve(g->arena, &g->attrs_by_storage, 1);
        g->attrs = fx_arena_grow(g->arena, g->attrs, g->n_attrs, &g->cap_attrs, sizeof *g->attrs);
        a->module = fx_module_make(g, parent);
        FX_PUSH(g->arena, a->module->attrs, a->module->n_attrs, a->module->cap_attrs) = a;
        g->attrs[g->n_attrs++] = a;
        fx_map_put(g->arena, &g->attrs_by_path, path, a);
    }
    fx_attr_set_tensor(a, t);
    return a;
}

/* ---- removing: nothing here allocates ----------------------------------------------------------------------------------------- */

static void forget_attr(fx_attr *a)
{
    part(a);
    fx_map_remove(&a->module->graph->attrs_by_path, a->path);
}

/* Unhooks m and all below from the maps, in a loop: trees may be as deep as a file likes. */
static void forget_module(fx_module *m)
{
    fx_graph *g = m->graph;
    for (fx_module *at = m; at;) {
        at->erased = true;
        fx_map_remove(&g->modules_by_path, at->path);
        for (size_t i = 0; i < at->n_attrs; i++)
            forget_attr(at->attrs[i]);
        if (at->n_children) {
            at = at->children[0];
            continue;
        }
        while (at != m && at->index + 1 == at->parent->n_children)
            at = at->parent;
        at = at == m ? NULL : at->parent->children[at->index + 1];
    }
}

static void compact_attrs(fx_attr **attrs, size_t *n)
{
    size_t k = 0;
    for (size_t i = 0; i < *n; i++)
        if (attrs[i]->alias)
            attrs[k++] = attrs[i];
    *n = k;
}

static void compact_children(fx_module *m)
{
    size_t k = 0;
    for (size_t i = 0; i < m->n_children; i++)
        if (!m->children[i]->erased) {
            m->children[k] = m->children[i];
            m->children[k]->index = k;
            k++;
        }
    m->n_children = k;
}

void fx_tree_delete(fx_graph *g, size_t n_modules, fx_module *const *modules, size_t n_attrs, fx_attr *const *attrs)
{
    for (size_t i = 0; i < n_attrs; i++)
        if (attrs[i]->alias)
            forget_attr(attrs[i]);
    for (size_t i = 0; i < n_modules; i++)
        if (!modules[i]->erased)
            forget_module(modules[i]);
    compact_attrs(g->attrs, &g->n_attrs);
    for (fx_module *m = g->root; m; m = fx_graph_next_module(g, m)) {
        compact_attrs(m->attrs, &m->n_attrs);
        compact_children(m);
    }
}

void fx_attr_remove(fx_attr *a)
{
    forget_attr(a);
    compact_attrs(a->module->attrs, &a->module->n_attrs);
    compact_attrs(a->module->graph->attrs, &a->module->graph->n_attrs);
}

void fx_module_remove(fx_module *m)
{
    forget_module(m);
    compact_children(m->parent);
    compact_attrs(m->graph->attrs, &m->graph->n_attrs);
}

const char *fx_attr_path(fx_graph *g, const fx_attr *a)
{
    (void)g;
    return a->path;
}

fx_node *fx_graph_constant(fx_graph *g, const char *path, const fx_tensor *t)
{
    fx_attr *a = fx_attr_add(g, path, t, true);
    fx_node *n = fx_node_new(g, FX_GET_ATTR, fx_attr_path(g, a), NULL, NULL, 0, NULL, NULL);
    n->type = a->type;
    return n;
}
