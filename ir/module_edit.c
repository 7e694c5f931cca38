/* ir/module_edit.c: the module tree as users build and edit it, the public functions of fxcc/module.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

/* ---- paths --------------------------------------------------------------------------------------------------------------------- */

enum { MAX_COMPONENTS = 1000 };

/* A path that can be added: components that are not empty, none of those before the last an attribute. */
static fx_status check_path(const fx_graph *g, const char *path)
{
    fx_context *ctx = g->ctx;
    int n = 1;
    if (!path || !*path)
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "expected a path like 'layer1.0.weight', got %s", path ? "an empty one" : "NULL");
    for (const char *p = path; *p; p++) {
        if (*p != '.')
            continue;
        if (p == path || p[-1] == '.' || !p[1])
            return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "the path '%s' has an empty component", path);
        if (++n > MAX_COMPONENTS)
            return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "the path '%.60s...' has more than %d components", path, MAX_COMPONENTS);
        const char *above = fx_intern_n(ctx, path, (size_t)(p - path));
        if (fx_map_get(&g->attrs_by_path, above))
            return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "the path '%s' leads through '%s', which is no module but a tensor", path, above);
    }
    return FX_OK;
}

/* The first module on the way to path (its end left out when `inner`) that is not there yet: what to take back when adding fails. */
static const char *first_missing(const fx_graph *g, const char *path, bool inner)
{
    for (const char *p = path;; p++) {
        p += strcspn(p, ".");
        if (!*p && inner)
            return NULL;
        const char *here = fx_intern_n(g->ctx, path, (size_t)(p - path));
        if (!fx_map_get(&g->modules_by_path, here))
            return here;
        if (!*p)
            return NULL;
    }
}

/* Runs add(arg), which fills *missing first; what it made of the tree is gone when it fails. */
static fx_status adding(fx_graph *g, fx_status (*add)(void *arg), void *arg, const char **missing)
{
    fx_status status = fx_protect(g->ctx, add, arg);
    if (status == FX_OK)
        return status;
    g->status = status;
    fx_module *m = *missing ? fx_map_get(&g->modules_by_path, *missing) : NULL;
    if (m)
        fx_module_remove(m);
    return status;
}

/* ---- modules --------------------------------------------------------------------------------------------------------------------- */

/* A setting of a class of torch.nn fits its parameter. */
static fx_status check_setting(fx_context *ctx, const fx_loc *loc, const fx_class *c, const char *key, const fx_arg *value)
{
    const fx_schema *s = fx_class_schema(ctx, c);
    if (strcmp(key, "training") == 0)
        return value->kind == FX_ARG_BOOL ? FX_OK : fx_fail(ctx, FX_ERR_TYPE, loc, "'training' of %s: expected bool, got %s", c->short_name,
                                                            fx_arg_kind_name(value->kind));
    for (int i = 0; i < s->n; i++) {
        const char *got;
        if (strcmp(s->params[i].name, key) != 0)
            continue;
        if (fx_param_fit(ctx, &s->params[i], value, &got))
            return FX_OK;
        return fx_fail(ctx, FX_ERR_TYPE, loc, "'%s' of %s: expected %s, got %s", key, c->short_name, s->params[i].type, got);
    }
    return fx_fail(ctx, FX_ERR_TYPE, loc, "%s has no setting '%s'", c->short_name, key);
}

typedef struct new_module {
    fx_graph *graph;
    const char *path, *class_name;
    int n_config;
    const char *const *keys;
    const fx_value *config;
    const char *missing;
    fx_module *out;
} new_module;

static fx_status add_module(void *arg)
{
    new_module *r = arg;
    fx_graph *g = r->graph;
    fx_context *ctx = g->ctx;
    const fx_class *c = fx_class_find(r->class_name);
    const fx_arg *config;
    fx_values v;
    FX_TRY(check_path(g, r->path));
    fx_loc here = {.file = g->file, .module = r->path};
    if (fx_attr_find(g, r->path))
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, "there is a tensor at the path '%s'", r->path);
    fx_values_begin(&v, ctx, NULL, &here);
    FX_TRY(fx_values_dict(&v, r->n_config, r->keys, r->config, &config));
    for (int i = 0; c && i < config->n; i++)
        FX_TRY(check_setting(ctx, &here, c, config->keys[i], config->items[i]));
    const char *class_name = c ? fx_intern(ctx, c->name) : r->class_name ? fx_intern(ctx, r->class_name) : NULL;
    r->missing = first_missing(g, r->path, false);
    fx_module *m = fx_module_make(g, r->path);
    /* Replaced in its place: nothing below can fail. */
    while (m->n_children)
        fx_module_remove(m->children[m->n_children - 1]);
    while (m->n_attrs)
        fx_attr_remove(m->attrs[m->n_attrs - 1]);
    m->class_name = class_name;
    m->config = config;
    m->body = NULL;
    m->meta = NULL;
    r->out = m;
    return FX_OK;
}

fx_module *fx_graph_add_submodule(fx_graph *graph, const char *path, const char *class_name, int n_config, const char *const *keys,
                                  const fx_value *config)
{
    new_module r = {graph, path, class_name, n_config, keys, config, NULL, NULL};
    return graph && adding(graph, add_module, &r, &r.missing) == FX_OK ? r.out : NULL;
}

fx_module *fx_graph_get_submodule(const fx_graph *graph, const char *path)
{
    return graph && path ? fx_module_find(graph, path) : NULL;
}

fx_status fx_graph_delete_submodule(fx_graph *graph, const char *path)
{
    fx_module *m = fx_graph_get_submodule(graph, path);
    if (!graph)
        return FX_ERR_ARGUMENT;
    if (!m || !m->parent)
        return fx_fail(graph->ctx, FX_ERR_ARGUMENT, NULL, m ? "the root module cannot be deleted" : "there is no module '%s' to delete",
                       path ? path : "NULL");
    fx_module_remove(m);
    return FX_OK;
}

/* ---- what no node names -------------------------------------------------------------------------------------------------------------- */

enum { NAMED = 1, WHOLE = 2 }; /* WHOLE: with all below */

typedef struct sweep {
    fx_graph *graph;
    fx_map marks; /* of modules and attributes */
    fx_arena *scratch;
    size_t deleted;
} sweep;

static void note(sweep *s, const void *what, uintptr_t mark)
{
    fx_map_put(s->scratch, &s->marks, what, (void *)((uintptr_t)fx_map_get(&s->marks, what) | mark));
}

static void note_above(sweep *s, const fx_module *m)
{
    for (; m && !fx_map_get(&s->marks, m); m = m->parent)
        note(s, m, NAMED);
}

static fx_status delete_unused(void *arg)
{
    sweep *s = arg;
    fx_graph *g = s->graph;
    FX_FOR_NODES(g, n) {
        if (n->opcode != FX_GET_ATTR && n->opcode != FX_CALL_MODULE)
            continue;
        const fx_attr *a = n->opcode == FX_GET_ATTR ? fx_attr_find(g, n->target) : NULL;
        const fx_module *m = a ? a->module : fx_module_find(g, n->target);
        note_above(s, m);
        if (a)
            note(s, a, NAMED);
        else if (m)
            note(s, m, WHOLE);
    }
    note(s, g->root, NAMED);
    fx_module **modules = NULL;
    fx_attr **attrs = NULL;
    size_t n_modules = 0, cap_modules = 0, n_attrs = 0, cap_attrs = 0;
    for (fx_module *m = g->root; m; m = fx_graph_next_module(g, m)) {
        uintptr_t above = m->parent ? (uintptr_t)fx_map_get(&s->marks, m->parent) : 0;
        note(s, m, above & WHOLE);
        uintptr_t mark = (uintptr_t)fx_map_get(&s->marks, m);
        if (!mark)
            FX_PUSH(s->scratch, modules, n_modules, cap_modules) = m;
        for (size_t i = 0; i < m->n_attrs && !(mark & WHOLE); i++)
            if (!fx_map_get(&s->marks, m->attrs[i]))
                FX_PUSH(s->scratch, attrs, n_attrs, cap_attrs) = m->attrs[i];
    }
    fx_tree_delete(g, n_modules, modules, n_attrs, attrs);
    s->deleted = n_modules + n_attrs;
    return FX_OK;
}

static fx_status sweep_tree(void *arg)
{
    sweep *s = arg;
    s->scratch = fx_arena_scratch(s->graph->ctx);
    return delete_unused(s);
}

fx_status fx_graph_delete_all_unused_submodules(fx_graph *graph, size_t *deleted)
{
    sweep s = {.graph = graph};
    fx_status status = graph ? fx_protect(graph->ctx, sweep_tree, &s) : FX_ERR_ARGUMENT;
    if (deleted)
        *deleted = s.deleted;
    return status;
}

/* ---- settings and notes ---------------------------------------------------------------------------------------------------------------- */

const char *fx_module_class(const fx_module *m)
{
    return m ? m->class_name : NULL;
}

const char *fx_module_target(const fx_module *m)
{
    return m ? m->path : NULL;
}

typedef struct setting {
    const fx_module *module;
    const char *key;
    const fx_value *value;
    const fx_arg *found;
} setting;

static fx_status get_setting(void *arg)
{
    setting *r = arg;
    const fx_module *m = r->module;
    for (int i = 0; m->config && i < m->config->n && !r->found; i++)
        if (strcmp(m->config->keys[i], r->key) == 0)
            r->found = m->config->items[i];
    if (!r->found)
        r->found = fx_module_config(m, r->key);
    return FX_OK;
}

bool fx_module_setting(const fx_module *m, const char *key, fx_value *out)
{
    setting r = {m, key, NULL, NULL};
    if (!m || !key || fx_protect(m->graph->ctx, get_setting, &r) != FX_OK || !r.found)
        return false;
    if (out)
        *out = fx_value_of(m->graph->ctx, NULL, r.found);
    return true;
}

static fx_status set_setting(void *arg)
{
    setting *r = arg;
    fx_module *m = (fx_module *)r->module;
    fx_context *ctx = m->graph->ctx;
    fx_loc here = {.file = m->graph->file, .module = m->path};
    fx_values v;
    const fx_arg *value;
    if (!r->key || m->erased)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, r->key ? "the module was deleted" : "the setting's name is NULL");
    fx_values_begin(&v, ctx, NULL, &here);
    FX_TRY(fx_values_add(&v, r->value, &value));
    const fx_class *c = fx_module_class_of(m);
    if (c)
        FX_TRY(check_setting(ctx, &here, c, r->key, value));
    int n = m->config ? m->config->n : 0, at = 0;
    const fx_arg **items = FX_NEW_ARRAY(ctx->arena, const fx_arg *, n + 1);
    const char **keys = FX_NEW_ARRAY(ctx->arena, const char *, n + 1);
    for (int i = 0; i < n; i++) {
        items[i] = m->config->items[i];
        keys[i] = m->config->keys[i];
        at += at == i && strcmp(keys[i], r->key) != 0;
    }
    items[at] = value;
    keys[at] = r->key;
    m->config = fx_arg_dict(ctx, at == n ? n + 1 : n, keys, items);
    return FX_OK;
}

fx_status fx_module_set_setting(fx_module *m, const char *key, fx_value v)
{
    setting r = {m, key, &v, NULL};
    return m ? fx_protect(m->graph->ctx, set_setting, &r) : FX_ERR_ARGUMENT;
}

fx_status fx_module_set_meta(fx_module *m, const char *key, fx_value v)
{
    if (!m)
        return FX_ERR_ARGUMENT;
    fx_loc here = {.file = m->graph->file, .module = m->path};
    return fx_meta_set(m->graph->ctx, m->graph->arena, &here, &m->meta, key, &v);
}

bool fx_module_meta(const fx_module *m, const char *key, fx_value *out)
{
    const fx_arg *a = m ? fx_meta_get(m->meta, key) : NULL;
    if (a && out)
        *out = fx_value_of(m->graph->ctx, NULL, a);
    return a != NULL;
}

/* ---- parameters and buffers -------------------------------------------------------------------------------------------------------------- */

/* Bytes from the first element to the end of the last; false when that overflows. */
static bool extent(const fx_tensor *t, size_t *bytes)
{
    size_t last = 0;
    *bytes = 0;
    for (int i = 0; i < t->rank; i++) {
        size_t step;
        if (t->sizes[i] == 0)
            return true;
        if (t->strides[i] < 0 || __builtin_mul_overflow((size_t)t->sizes[i] - 1, (size_t)t->strides[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    return !__builtin_mul_overflow(last + 1, fx_dtype_size(t->dtype), bytes) && *bytes <= PTRDIFF_MAX;
}

bool fx_tensor_in_storage(const fx_tensor *t)
{
    const fx_storage *st = t->storage;
    size_t bytes;
    if (!extent(t, &bytes))
        return false;
    if (!st || bytes == 0)
        return bytes == 0 || t->data;
    uintptr_t at = (uintptr_t)t->data, base = (uintptr_t)st->data;
    uintptr_t offset = base && at >= base && at - base <= st->nbytes ? at - base : at;
    return offset <= st->nbytes && bytes <= st->nbytes - offset;
}

static fx_status check_tensor(fx_context *ctx, const char *path, const fx_tensor *t)
{
    fx_loc here = {.module = path};
    if (!t)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, "the tensor for '%s' is NULL", path);
    if ((unsigned)t->dtype >= FX_DTYPE_COUNT || t->rank < 0 || t->rank > FX_MAX_RANK)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, "the tensor for '%s' has dtype %d and rank %d, expected below %d and up to %d", path,
                       (int)t->dtype, t->rank, FX_DTYPE_COUNT, FX_MAX_RANK);
    for (int i = 0; i < t->rank; i++)
        if (t->sizes[i] < 0)
            return fx_fail(ctx, FX_ERR_ARGUMENT, &here, "the tensor for '%s' has size %lld in dimension %d", path, (long long)t->sizes[i], i);
    if (t->storage && t->storage->ctx != ctx)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, "the tensor for '%s' belongs to another context", path);
    if (!fx_tensor_in_storage(t))
        return fx_fail(ctx, FX_ERR_ARGUMENT, &here, "the tensor for '%s' reaches past its storage", path);
    return FX_OK;
}

typedef struct new_attr {
    fx_graph *graph;
    const char *path;
    const fx_tensor *tensor;
    bool is_parameter, persistent;
    const char *to; /* tied */
    const char *missing;
} new_attr;

static fx_status set_attr(void *arg)
{
    new_attr *r = arg;
    fx_graph *g = r->graph;
    FX_TRY(check_path(g, r->path));
    if (fx_module_find(g, r->path))
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "there is a module at the path '%s'", r->path);
    FX_TRY(check_tensor(g->ctx, r->path, r->tensor));
    r->missing = first_missing(g, r->path, true);
    fx_attr *a = fx_attr_add(g, r->path, r->tensor, false);
    a->is_parameter = r->is_parameter;
    a->persistent = r->persistent;
    r->missing = NULL;
    return FX_OK;
}

fx_status fx_graph_set_parameter(fx_graph *graph, const char *path, const fx_tensor *t)
{
    new_attr r = {graph, path, t, true, true, NULL, NULL};
    return graph ? adding(graph, set_attr, &r, &r.missing) : FX_ERR_ARGUMENT;
}

fx_status fx_graph_set_buffer(fx_graph *graph, const char *path, const fx_tensor *t, bool persistent)
{
    new_attr r = {graph, path, t, false, persistent, NULL, NULL};
    return graph ? adding(graph, set_attr, &r, &r.missing) : FX_ERR_ARGUMENT;
}

/* The attribute at path, or NULL with a message. */
static fx_attr *need_attr(fx_graph *g, const char *path)
{
    fx_attr *a = path ? fx_attr_find(g, path) : NULL;
    if (!a)
        fx_fail(g->ctx, FX_ERR_ARGUMENT, NULL, "there is no parameter or buffer '%s'", path ? path : "NULL");
    return a;
}

fx_status fx_graph_tie_parameter(fx_graph *graph, const char *path, const char *to)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    const fx_attr *a = need_attr(graph, to);
    if (!a)
        return FX_ERR_ARGUMENT;
    fx_tensor t = a->tensor;
    new_attr r = {graph, path, &t, a->is_parameter, a->persistent, to, NULL};
    uint64_t hash = a->hash;
    FX_TRY(adding(graph, set_attr, &r, &r.missing));
    fx_attr_find(graph, path)->hash = hash;
    return FX_OK;
}

fx_status fx_graph_delete_attr(fx_graph *graph, const char *path)
{
    fx_attr *a = graph ? need_attr(graph, path) : NULL;
    if (!a)
        return FX_ERR_ARGUMENT;
    fx_attr_remove(a);
    return FX_OK;
}

typedef struct access {
    fx_graph *graph;
    const char *path;
    bool write;
    fx_tensor *out;
} access;

/* The caller's own memory, which may end before us: elements of the attribute and its aliases move to a storage. */
static void own(fx_attr *a)
{
    fx_graph *g = a->module->graph;
    const char *data = a->tensor.data;
    size_t most = 0, bytes;
    const fx_attr *b = a;
    do {
        if (extent(&b->tensor, &bytes) && bytes > most)
            most = bytes;
        b = b->alias;
    } while (b != a);
    fx_storage *st = fx_storage_new(g->ctx, most);
    if (most)
        memcpy(st->data, data, most);
    fx_attr_rehang_memory(g, data, st);
}

static fx_status get_tensor(void *arg)
{
    access *r = arg;
    fx_graph *g = r->graph;
    fx_attr *a = need_attr(g, r->path);
    if (!a)
        return FX_ERR_ARGUMENT;
    FX_TRY(fx_tensor_touch(g->ctx, &a->tensor));
    fx_storage *st = a->tensor.storage;
    if (r->write && !st && a->tensor.data) {
        own(a);
    } else if (r->write && st && (st->readonly || st->shared)) {
        fx_storage *fresh = fx_storage_new(g->ctx, st->nbytes);
        if (st->nbytes && st->data)
            memcpy(fresh->data, st->data, st->nbytes);
        fx_attr_rehang(g, st, fresh);
    }
    if (r->write) {
        fx_attr *b = a;
        do
            b->hash = 0; /* of the elements as they were */
        while ((b = b->alias) != a);
    }
    *r->out = a->tensor;
    return FX_OK;
}

fx_status fx_graph_tensor(fx_graph *graph, const char *path, fx_tensor *out)
{
    access r = {graph, path, false, out};
    return graph && out ? fx_protect(graph->ctx, get_tensor, &r) : FX_ERR_ARGUMENT;
}

fx_status fx_graph_writable_tensor(fx_graph *graph, const char *path, fx_tensor *out)
{
    access r = {graph, path, true, out};
    return graph && out ? fx_protect(graph->ctx, get_tensor, &r) : FX_ERR_ARGUMENT;
}

bool fx_graph_attr_info(const fx_graph *graph, size_t i, fx_attr_info *out)
{
    if (!graph || i >= graph->n_attrs)
        return false;
    const fx_attr *a = graph->attrs[i];
    if (!out)
        return true;
    *out = (fx_attr_info){.path = a->path, .is_parameter = a->is_parameter, .persistent = a->persistent};
    out->dtype = a->tensor.dtype;
    out->rank = a->tensor.rank;
    memcpy(out->sizes, a->tensor.sizes, sizeof out->sizes);
    const fx_attr *first = fx_attr_first_alias(a);
    out->tied_to = first == a ? NULL : first->path;
    return true;
}

size_t fx_graph_attr_count(const fx_graph *graph)
{
    return graph ? graph->n_attrs : 0;
}
