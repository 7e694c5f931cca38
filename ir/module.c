/* ir/module.c: the tree of modules with parameters, buffers and constants.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

/* Path of the module that holds `path`, and the last component: "layer1.0" and "weight". */
static const char *parent_path(fx_graph *g, const char *path, const char **last)
{
    const char *dot = strrchr(path, '.');
    *last = dot ? dot + 1 : path;
    return fx_intern_n(g->ctx, path, dot ? (size_t)(dot - path) : 0);
}

fx_module *fx_module_find(const fx_graph *g, const char *path)
{
    return *path ? fx_map_get(&g->modules_by_path, fx_intern(g->ctx, path)) : g->root;
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
            FX_PUSH(g->arena, m->children, m->n_children, m->cap_children) = child;
            fx_map_put(g->arena, &g->modules_by_path, here, child);
        }
        m = child;
        p += n;
        if (!*p)
            return m;
    }
}

fx_attr *fx_attr_find(const fx_graph *g, const char *path)
{
    return fx_map_get(&g->attrs_by_path, fx_intern(g->ctx, path));
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
        a->module = fx_module_make(g, parent);
        a->name = fx_intern(ctx, last);
        a->path = path;
        a->persistent = true;
        FX_PUSH(g->arena, a->module->attrs, a->module->n_attrs, a->module->cap_attrs) = a;
        fx_map_put(g->arena, &g->attrs_by_path, path, a);
    }
    a->tensor = *t;
    a->hash = 0;
    a->type = fx_type_tensor_static(ctx, t->dtype, t->rank, t->sizes);
    return a;
}

const char *fx_module_path(fx_graph *g, const fx_module *m)
{
    (void)g;
    return m->path;
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
