/* passes/copy.c: copies of nodes and modules between graphs, with trees of arguments standing for nodes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "passes/passes.h"

fx_copier fx_copier_new(const fx_graph *from, fx_graph *to, fx_arena *scratch)
{
    return (fx_copier){.to = to, .scratch = scratch, .node = FX_NEW_ARRAY(scratch, fx_node *, from->n_ids)};
}

static const fx_arg *push_operand(fx_copier *c, fx_node *n)
{
    FX_PUSH(c->scratch, c->operands, c->n_operands, c->cap_operands) = n;
    return fx_arg_operand(c->to->ctx, (int)c->n_operands - 1);
}

typedef struct leaf_map {
    fx_copier *c;
    const fx_node *n;        /* whose leaves are mapped, or */
    const fx_stand *stand;   /* that tree's */
} leaf_map;

static const fx_arg *map_stand(void *user, const fx_arg *leaf)
{
    leaf_map *m = user;
    return leaf->kind == FX_ARG_NODE ? push_operand(m->c, m->stand->nodes[leaf->i]) : leaf;
}

static const fx_arg *map_leaf(void *user, const fx_arg *leaf)
{
    leaf_map *m = user;
    fx_copier *c = m->c;
    if (leaf->kind == FX_ARG_GRAPH && m->n->graph != c->to)
        return fx_arg_graph(c->to->ctx, fx_graph_copy(leaf->graph));
    if (leaf->kind != FX_ARG_NODE)
        return leaf;
    fx_node *def = m->n->operands[leaf->i].def;
    fx_node *node = c->node ? c->node[def->id] : NULL;
    const fx_stand *stand = def == c->one ? c->one_stand : c->stand && !node ? c->stand[def->id] : NULL;
    if (stand) {
        leaf_map inner = {c, NULL, stand};
        return fx_arg_map(c->to->ctx, stand->tree, map_stand, &inner);
    }
    return push_operand(c, node ? node : def);
}

void fx_copier_args(fx_copier *c, const fx_node *n, const fx_arg **args, const fx_arg **kwargs)
{
    leaf_map m = {c, n, NULL};
    c->n_operands = 0;
    *args = fx_arg_map(c->to->ctx, n->args, map_leaf, &m);
    *kwargs = fx_arg_map(c->to->ctx, n->kwargs, map_leaf, &m);
}

fx_node *fx_copier_node(fx_copier *c, const fx_node *n, const char *name)
{
    const fx_arg *args, *kwargs;
    fx_copier_args(c, n, &args, &kwargs);
    const char *target = n->target;
    if (c->target && (n->opcode == FX_GET_ATTR || n->opcode == FX_CALL_MODULE))
        target = c->target(c->user, n);
    fx_node *m = fx_node_new(c->to, n->opcode, target, args, kwargs, (int)c->n_operands, c->operands, name);
    m->type = n->type;
    m->loc = n->loc;
    m->loc.node = m->name;
    m->meta = fx_meta_copy(c->to, n->meta);
    c->node[n->id] = m;
    return m;
}

/* ---- modules and attributes ------------------------------------------------------------------------------------------------- */

void fx_attr_copy_to(fx_graph *to, const char *path, const fx_attr *from)
{
    fx_attr *a = fx_attr_add(to, path, &from->tensor, false);
    a->is_parameter = from->is_parameter;
    a->persistent = from->persistent;
    a->hash = from->hash;
    a->type = from->type;
}

static const char *join(fx_context *ctx, const char *path, const char *name)
{
    return *path ? fx_intern_f(ctx, "%s.%s", path, name) : name;
}

/* The depth is that of the tree, which its paths' length bounds. */
void fx_module_copy_to(fx_graph *to, const char *path, const fx_module *from)
{
    fx_module *m = fx_module_make(to, path);
    m->class_name = from->class_name;
    m->config = from->config;
    m->body = from->body ? fx_graph_copy(from->body) : NULL;
    m->meta = fx_meta_copy(to, from->meta);
    for (size_t i = 0; i < from->n_attrs; i++)
        fx_attr_copy_to(to, join(to->ctx, path, from->attrs[i]->name), from->attrs[i]);
    for (size_t i = 0; i < from->n_children; i++)
        fx_module_copy_to(to, join(to->ctx, path, from->children[i]->name), from->children[i]);
}

void fx_copy_target(fx_graph *to, const fx_node *n)
{
    if (n->opcode == FX_GET_ATTR) {
        const fx_attr *a = fx_attr_find(n->graph, n->target);
        if (a && !fx_attr_find(to, n->target))
            fx_attr_copy_to(to, n->target, a);
    } else if (n->opcode == FX_CALL_MODULE) {
        const fx_module *m = fx_module_find(n->graph, n->target);
        const fx_module *there = fx_module_find(to, n->target);
        if (m && (!there || (!there->class_name && !there->body)))
            fx_module_copy_to(to, n->target, m);
    }
}

fx_graph *fx_graph_like(const fx_graph *g, const char *name)
{
    fx_graph *c = fx_graph_new(g->ctx, name);
    c->file = g->file;
    c->stage = g->stage;
    c->symbols = fx_arena_dup(c->arena, g->symbols, g->n_symbols * sizeof *g->symbols);
    c->n_symbols = c->cap_symbols = g->n_symbols;
    return c;
}
