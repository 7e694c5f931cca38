/* ir/edit.c: editing graphs, the public functions of fxcc/graph.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Each function checks everything and allocates everything before it changes anything, so that it fails as a whole. */
#include <string.h>

#include "ir/context.h"

/* A graph past the captured stage promises calls in normal form; what the caller writes is kept as it is, so the promise ends. */
void fx_node_leave_stage(fx_node *n)
{
    if (n->opcode == FX_CALL_FUNCTION || n->opcode == FX_CALL_METHOD || n->opcode == FX_CALL_MODULE)
        n->graph->stage = FX_STAGE_CAPTURED;
}

/* ---- the insertion point -------------------------------------------------------------------------------------------------------------- */

static fx_node *alive(fx_node *n)
{
    while (n && n->erased)
        n = n->next;
    return n;
}

static fx_insert_point inserting(fx_graph *g, fx_node *node, bool after)
{
    fx_insert_point old = {g, g ? g->insert_before : NULL};
    if (!g)
        return old;
    if (node && fx_node_check(g->ctx, g, node, NULL, "the insertion point") != FX_OK)
        g->status = FX_ERR_ARGUMENT;
    else
        g->insert_before = !node ? (after ? g->first : NULL) : after ? node->next : node;
    return old;
}

fx_insert_point fx_graph_inserting_before(fx_graph *graph, fx_node *node)
{
    return inserting(graph, node, false);
}

fx_insert_point fx_graph_inserting_after(fx_graph *graph, fx_node *node)
{
    return inserting(graph, node, true);
}

void fx_graph_restore_insert_point(fx_insert_point point)
{
    if (point.graph)
        point.graph->insert_before = alive(point.before);
}

/* ---- arguments --------------------------------------------------------------------------------------------------------------------------- */

/* Whether the node can be edited; its status when not. */
static fx_status editable(const fx_node *n)
{
    return n->erased ? fx_fail(n->graph->ctx, FX_ERR_ARGUMENT, &n->loc, "the node is erased") : FX_OK;
}

typedef struct arguments {
    fx_node *node;
    int n_args; /* -1: as they are */
    const fx_value *args;
    int n_kwargs;
    const char *const *keys;
    const fx_value *kwargs;
} arguments;

static fx_status assign(void *arg)
{
    arguments *r = arg;
    fx_node *n = r->node;
    fx_context *ctx = n->graph->ctx;
    fx_values v;
    const fx_arg *args, *kwargs;
    FX_TRY(editable(n));
    fx_values_begin(&v, ctx, n->graph, &n->loc);
    fx_value old_args = fx_value_of(ctx, n, n->args), old_kwargs = fx_value_of(ctx, n, n->kwargs);
    FX_TRY(r->n_args >= 0 ? fx_values_tuple(&v, r->n_args, r->args, &args) : fx_values_add(&v, &old_args, &args));
    FX_TRY(r->n_kwargs >= 0 ? fx_values_dict(&v, r->n_kwargs, r->keys, r->kwargs, &kwargs) : fx_values_add(&v, &old_kwargs, &kwargs));
    fx_node_assign(n, args, kwargs, (int)v.n, v.nodes);
    fx_node_leave_stage(n);
    return FX_OK;
}

static fx_status negative(const fx_node *n, int count)
{
    return fx_fail(n->graph->ctx, FX_ERR_ARGUMENT, &n->loc, "expected 0 or more arguments, got %d", count);
}

fx_status fx_node_set_args(fx_node *node, int n_args, const fx_value *args)
{
    if (!node)
        return FX_ERR_ARGUMENT;
    arguments r = {node, n_args, args, -1, NULL, NULL};
    return n_args < 0 ? negative(node, n_args) : fx_protect(node->graph->ctx, assign, &r);
}

fx_status fx_node_set_kwargs(fx_node *node, int n_kwargs, const char *const *keys, const fx_value *kwargs)
{
    if (!node)
        return FX_ERR_ARGUMENT;
    arguments r = {node, -1, NULL, n_kwargs, keys, kwargs};
    return n_kwargs < 0 ? negative(node, n_kwargs) : fx_protect(node->graph->ctx, assign, &r);
}

typedef struct one_argument {
    fx_node *node;
    int i;
    const char *key;
    const fx_value *value; /* NULL: removed */
    bool insert;
} one_argument;

static fx_status set_positional(void *arg)
{
    one_argument *r = arg;
    fx_node *n = r->node;
    int count = n->args->n, added = r->insert, at = r->insert && r->i > count ? count : r->i;
    if (r->i < 0 || (!r->insert && r->i >= count))
        return fx_fail(n->graph->ctx, FX_ERR_ARGUMENT, &n->loc, "expected an argument's number from 0 to %d, got %d", count - !r->insert, r->i);
    fx_value small[16], *args = count < 16 ? small : FX_NEW_ARRAY(n->graph->ctx->arena, fx_value, count + 1);
    for (int k = 0; k < count; k++)
        args[k + (added && k >= at)] = fx_node_arg_at(n, k);
    args[at] = *r->value;
    arguments a = {n, count + added, args, -1, NULL, NULL};
    return assign(&a);
}

fx_status fx_node_update_arg(fx_node *node, int i, fx_value v)
{
    one_argument r = {node, i, NULL, &v, false};
    return node ? fx_protect(node->graph->ctx, set_positional, &r) : FX_ERR_ARGUMENT;
}

fx_status fx_node_insert_arg(fx_node *node, int i, fx_value v)
{
    one_argument r = {node, i, NULL, &v, true};
    return node ? fx_protect(node->graph->ctx, set_positional, &r) : FX_ERR_ARGUMENT;
}

static fx_status set_keyword(void *arg)
{
    one_argument *r = arg;
    fx_node *n = r->node;
    fx_context *ctx = n->graph->ctx;
    int count = n->kwargs->n, k = 0;
    bool met = false;
    if (!r->key)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &n->loc, "the keyword is NULL");
    fx_value *kwargs = FX_NEW_ARRAY(ctx->arena, fx_value, count + 1);
    const char **keys = FX_NEW_ARRAY(ctx->arena, const char *, count + 1);
    for (int i = 0; i < count; i++) {
        bool same = strcmp(n->kwargs->keys[i], r->key) == 0;
        met = met || same;
        if (same && !r->value)
            continue;
        keys[k] = n->kwargs->keys[i];
        kwargs[k++] = same ? *r->value : fx_node_kwarg_at(n, i);
    }
    if (!met && !r->value)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &n->loc, "there is no keyword argument '%s'", r->key);
    if (!met) {
        keys[k] = r->key;
        kwargs[k++] = *r->value;
    }
    arguments a = {n, -1, NULL, k, keys, kwargs};
    return assign(&a);
}

fx_status fx_node_update_kwarg(fx_node *node, const char *key, fx_value v)
{
    one_argument r = {node, 0, key, &v, false};
    return node ? fx_protect(node->graph->ctx, set_keyword, &r) : FX_ERR_ARGUMENT;
}

fx_status fx_node_remove_kwarg(fx_node *node, const char *key)
{
    one_argument r = {node, 0, key, NULL, false};
    return node ? fx_protect(node->graph->ctx, set_keyword, &r) : FX_ERR_ARGUMENT;
}

/* ---- target, name, location ------------------------------------------------------------------------------------------------------------------ */

typedef struct texts {
    fx_node *node;
    const char *a, *b;
} texts;

static fx_status set_target(void *arg)
{
    texts *r = arg;
    fx_node *n = r->node;
    FX_TRY(editable(n));
    if (!r->a || !*r->a)
        return fx_fail(n->graph->ctx, FX_ERR_ARGUMENT, &n->loc, "a %s node needs a target", fx_opcode_name(n->opcode));
    const char *target = fx_intern(n->graph->ctx, r->a);
    const fx_op *op = n->opcode == FX_CALL_FUNCTION ? fx_target_lookup(n->graph->ctx, target)->op : NULL;
    n->target = target;
    n->op = op;
    n->type = NULL;
    fx_node_leave_stage(n);
    return FX_OK;
}

fx_status fx_node_set_target(fx_node *node, const char *target)
{
    texts r = {node, target, NULL};
    return node ? fx_protect(node->graph->ctx, set_target, &r) : FX_ERR_ARGUMENT;
}

static fx_status set_name(void *arg)
{
    texts *r = arg;
    fx_node *n = r->node;
    fx_graph *g = n->graph;
    FX_TRY(editable(n));
    if (!r->a)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, &n->loc, "the new name is NULL");
    if (strcmp(r->a, n->name) == 0)
        return FX_OK;
    fx_name made = fx_name_make(g, n->opcode, n->target, NULL, r->a, false);
    fx_map_remove(&g->by_name, n->name);
    fx_name_take(g, &made, n);
    return FX_OK;
}

fx_status fx_node_set_name(fx_node *node, const char *name)
{
    texts r = {node, name, NULL};
    return node ? fx_protect(node->graph->ctx, set_name, &r) : FX_ERR_ARGUMENT;
}

static fx_status set_location(void *arg)
{
    texts *r = arg;
    fx_node *n = r->node;
    FX_TRY(editable(n));
    const char *module = r->a ? fx_intern(n->graph->ctx, r->a) : NULL, *frame = r->b ? fx_intern(n->graph->ctx, r->b) : NULL;
    n->loc.module = module;
    n->loc.frame = frame;
    return FX_OK;
}

fx_status fx_node_set_location(fx_node *node, const char *module, const char *frame)
{
    texts r = {node, module, frame};
    return node ? fx_protect(node->graph->ctx, set_location, &r) : FX_ERR_ARGUMENT;
}

/* ---- meta ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct note {
    fx_context *ctx;
    fx_arena *arena;
    const fx_loc *loc;
    fx_meta **list;
    const char *key;
    const fx_value *value;
} note;

static fx_status set_note(void *arg)
{
    note *r = arg;
    fx_values v;
    const fx_arg *value;
    if (!r->key)
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, r->loc, "the key of a note is NULL");
    fx_values_begin(&v, r->ctx, NULL, r->loc);
    FX_TRY(fx_values_add(&v, r->value, &value));
    const char *key = fx_intern(r->ctx, r->key);
    fx_meta **at = r->list;
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    if (value->kind == FX_ARG_NONE) {
        if (*at)
            *at = (*at)->next;
        return FX_OK;
    }
    if (!*at) {
        fx_meta *m = FX_NEW(r->arena, fx_meta);
        m->key = key;
        *at = m;
    }
    (*at)->value = value;
    return FX_OK;
}

fx_status fx_meta_set(fx_context *ctx, fx_arena *arena, const fx_loc *loc, fx_meta **list, const char *key, const fx_value *v)
{
    note r = {ctx, arena, loc, list, key, v};
    return fx_protect(ctx, set_note, &r);
}

const fx_arg *fx_meta_get(const fx_meta *list, const char *key)
{
    while (list && (!key || strcmp(list->key, key) != 0))
        list = list->next;
    return list ? list->value : NULL;
}

fx_status fx_node_set_meta(fx_node *node, const char *key, fx_value v)
{
    if (!node)
        return FX_ERR_ARGUMENT;
    FX_TRY(editable(node));
    return fx_meta_set(node->graph->ctx, node->graph->arena, &node->loc, &node->meta, key, &v);
}

/* ---- uses ------------------------------------------------------------------------------------------------------------------------------------ */

typedef struct replacement {
    fx_node *node, *by;
    bool (*filter)(void *user, fx_node *user_node);
    void *user;
    bool propagate_meta;
    size_t changed;
} replacement;

static fx_status replace_uses(void *arg)
{
    replacement *r = arg;
    fx_node *n = r->node, *by = r->by;
    fx_graph *g = n->graph;
    FX_TRY(editable(n));
    FX_TRY(fx_node_check(g->ctx, g, by, &n->loc, "the node to use instead"));
    if (r->propagate_meta && by != n && by->meta)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, &by->loc, "it gets the notes of '%s', but has some itself", n->name);
    if (by == n)
        return FX_OK;
    fx_meta *meta = r->propagate_meta ? fx_meta_copy(g, n->meta) : NULL;
    /* All decisions first: the filter sees the graph as it was. */
    fx_arena *scratch = NULL;
    fx_node *small[64], **users = small;
    if (n->n_uses > 64) {
        scratch = fx_arena_scratch(g->ctx);
        users = FX_NEW_ARRAY(scratch, fx_node *, n->n_uses);
    }
    size_t n_users = fx_node_users(n, users, (size_t)n->n_uses), k = 0;
    for (size_t i = 0; i < n_users; i++)
        if (users[i] != by && (!r->filter || r->filter(r->user, users[i])))
            users[k++] = users[i];
    for (size_t i = 0; i < k; i++)
        for (int o = 0; o < users[i]->n_operands; o++)
            if (users[i]->operands[o].def == n)
                fx_node_set_operand(users[i], o, by);
    if (r->propagate_meta)
        by->meta = meta;
    r->changed = k;
    return FX_OK;
}

fx_status fx_node_replace_all_uses_with(fx_node *node, fx_node *by, bool (*filter)(void *user, fx_node *user_node), void *user,
                                        bool propagate_meta, size_t *changed)
{
    if (!node)
        return FX_ERR_ARGUMENT;
    replacement r = {node, by, filter, user, propagate_meta, 0};
    fx_status status = fx_protect(node->graph->ctx, replace_uses, &r);
    if (changed)
        *changed = r.changed;
    return status;
}

fx_status fx_node_replace_input_with(fx_node *node, fx_node *old, fx_node *by)
{
    if (!node)
        return FX_ERR_ARGUMENT;
    fx_graph *g = node->graph;
    FX_TRY(editable(node));
    FX_TRY(fx_node_check(g->ctx, g, old, &node->loc, "the input to replace"));
    FX_TRY(fx_node_check(g->ctx, g, by, &node->loc, "the node to use instead"));
    for (int i = 0; i < node->n_operands; i++)
        if (node->operands[i].def == old)
            fx_node_set_operand(node, i, by);
    return FX_OK;
}

/* ---- erasing and moving ------------------------------------------------------------------------------------------------------------------------ */

static fx_status erase(void *arg)
{
    return fx_node_erase(arg);
}

fx_status fx_graph_erase_node(fx_graph *graph, fx_node *node)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    FX_TRY(fx_node_check(graph->ctx, graph, node, NULL, "the node to erase"));
    return fx_protect(graph->ctx, erase, node);
}

static fx_status move(fx_node *node, fx_node *other, bool after)
{
    if (!node)
        return FX_ERR_ARGUMENT;
    FX_TRY(editable(node));
    FX_TRY(fx_node_check(node->graph->ctx, node->graph, other, &node->loc, "the node to move"));
    if (node != other)
        fx_node_move_before(other, after ? node->next : node);
    return FX_OK;
}

fx_status fx_node_prepend(fx_node *node, fx_node *other)
{
    return move(node, other, false);
}

fx_status fx_node_append(fx_node *node, fx_node *other)
{
    return move(node, other, true);
}

/* ---- dead code ----------------------------------------------------------------------------------------------------------------------------------- */

typedef struct dead_code {
    fx_graph *graph;
    int (*impure)(void *user, const fx_node *node);
    void *user;
    size_t removed;
} dead_code;

static bool is_impure(const dead_code *r, const fx_node *n)
{
    int answer = r->impure ? r->impure(r->user, n) : -1;
    return answer >= 0 ? answer != 0 : fx_node_is_impure(n);
}

/* First it is found out what is dead, last first, with the uses by dead nodes counted off; then nothing can fail any more. */
static fx_status remove_dead(void *arg)
{
    dead_code *r = arg;
    fx_graph *g = r->graph;
    fx_arena *scratch = fx_arena_scratch(g->ctx);
    int *dead_uses = FX_NEW_ARRAY(scratch, int, g->n_ids);
    enum { DEAD = -1 };
    for (fx_node *n = g->last; n; n = n->prev) {
        if (dead_uses[n->id] != n->n_uses || is_impure(r, n))
            continue;
        for (int i = 0; i < n->n_operands; i++)
            dead_uses[n->operands[i].def->id]++;
        dead_uses[n->id] = DEAD;
    }
    for (fx_node *n = g->last, *before; n; n = before) {
        before = n->prev;
        if (dead_uses[n->id] == DEAD && fx_node_erase(n) == FX_OK)
            r->removed++;
    }
    return FX_OK;
}

fx_status fx_graph_eliminate_dead_code(fx_graph *graph, int (*impure)(void *user, const fx_node *node), void *user, size_t *removed)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    dead_code r = {graph, impure, user, 0};
    fx_status status = fx_protect(graph->ctx, remove_dead, &r);
    if (removed)
        *removed = r.removed;
    return status;
}
