/* passes/pattern_replace.c: matches of a pattern replaced (FX's subgraph_rewriter).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * First all replacements are made beside what they replace and checked; only then uses are moved and the matched nodes erased, which allocates
 * nothing and cannot fail. So a replacement that does not fit leaves the graph as it was. */
#include <stdlib.h>
#include <string.h>

#include "ir/ops.h"
#include "passes/pattern_match.h"

typedef struct replacer {
    fx_graph *g, *pattern, *replacement;
    const fx_pattern_options *options;
    size_t *count;
    const fx_match **result;
    fx_context *ctx;
    fx_arena *scratch;
    fx_pattern p;
    fx_matches found;
    fx_node ***outs;             /* by match: what stands for its outputs */
    size_t *first_new;           /* by match, and one past the last: id of its first new node */
    uint32_t id_before;
    fx_node *insert_before;      /* the graph's insertion point, put back at the end */
    fx_snapshot *before;         /* where more than nodes may change */
    fx_copier copier;            /* from the replacement */
    const char **targets;        /* by id of the replacement's nodes: get_attr, call_module */
    fx_node **replaced;          /* by node id: what a matched output became */
    bool done;
    /* commit of matches with several outputs */
    uint64_t *label;             /* by node id: grows along the graph */
    fx_node **stack;
    struct moved *moved;
    uint32_t *stamp;
} replacer;

/* ---- the replacement graph -------------------------------------------------------------------------------------------------------- */

static fx_status wrong(const replacer *r, const fx_node *n, const char *message)
{
    return fx_fail(r->ctx, FX_ERR_ARGUMENT, n ? &n->loc : NULL, "replacement '%s': %s", r->replacement->name, message);
}

static bool same_tensor(const fx_attr *a, const fx_attr *b)
{
    const fx_tensor *s = &a->tensor, *t = &b->tensor;
    bool same = s->storage == t->storage && s->data == t->data && s->dtype == t->dtype && s->rank == t->rank;
    for (int i = 0; same && i < s->rank; i++)
        same = s->sizes[i] == t->sizes[i] && s->strides[i] == t->strides[i];
    return same;
}

static bool same_module(const fx_module *a, const fx_module *b)
{
    bool same = a->class_name == b->class_name && a->config == b->config && a->body == b->body && a->n_attrs == b->n_attrs &&
                a->n_children == b->n_children;
    for (size_t i = 0; same && i < a->n_attrs; i++)
        same = a->attrs[i]->name == b->attrs[i]->name && same_tensor(a->attrs[i], b->attrs[i]);
    for (size_t i = 0; same && i < a->n_children; i++)
        same = a->children[i]->name == b->children[i]->name && same_module(a->children[i], b->children[i]);
    return same;
}

static const char *free_path(const fx_graph *g, const char *path)
{
    const char *p = path;
    for (size_t i = 1; fx_attr_find(g, p) || fx_module_find(g, p); i++)
        p = fx_intern_f(g->ctx, "%s_%zu", path, i);
    return p;
}

/* Brings what the replacement's own tree has at n's target into the graph, under another path when that one is taken by something else. */
static fx_status bring_target(replacer *r, const fx_node *n, fx_map *brought)
{
    fx_graph *g = r->g;
    bool attr = n->opcode == FX_GET_ATTR;
    const fx_attr *a = attr ? fx_attr_find(r->replacement, n->target) : NULL, *there = attr ? fx_attr_find(g, n->target) : NULL;
    const fx_module *m = attr ? NULL : fx_module_find(r->replacement, n->target), *module_there = attr ? NULL : fx_module_find(g, n->target);
    const char *path = fx_map_get(brought, n->target);
    if (!path && !a && !m) {
        if (!there && !module_there)
            return fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "replacement '%s': neither it nor the graph has '%s'", r->replacement->name,
                           n->target);
        path = n->target;
    }
    if (!path && ((a && there && same_tensor(a, there)) || (m && module_there && same_module(m, module_there))))
        path = n->target;
    if (!path) {
        path = free_path(g, n->target);
        if (attr)
            fx_attr_copy_to(g, path, a);
        else
            fx_module_copy_to(g, path, m);
    }
    fx_map_put(r->scratch, brought, n->target, (void *)path);
    r->targets[n->id] = path;
    return FX_OK;
}

static const char *target_in_graph(void *user, const fx_node *n)
{
    return ((const replacer *)user)->targets[n->id];
}

/* A graph past the imported stage holds only known operators, in core form only core rows. */
static fx_status check_stage(const replacer *r, const fx_node *n)
{
    if (r->g->stage <= FX_STAGE_IMPORTED || n->opcode == FX_PLACEHOLDER || n->opcode == FX_GET_ATTR || n->opcode == FX_OUTPUT)
        return FX_OK;
    bool ok = n->opcode == FX_CALL_FUNCTION && n->op && !fx_node_is_inplace(n) &&
              (r->g->stage < FX_STAGE_CORE || n->op->flags & FX_OP_CORE);
    return ok ? FX_OK
              : fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "replacement '%s': a %s of '%s' is not allowed in a %s graph",
                        r->replacement->name, fx_opcode_name((fx_opcode)n->opcode), n->target, fx_stage_name(r->g->stage));
}

static fx_status read_replacement(replacer *r)
{
    const fx_graph *by = r->replacement;
    const fx_node *out = fx_graph_output_node(by);
    int inputs = 0;
    bool targets = false;
    fx_map brought = {0};
    if (!out)
        return wrong(r, NULL, "has no output");
    FX_FOR_NODES(by, n) {
        inputs += n->opcode == FX_PLACEHOLDER;
        targets = targets || n->opcode == FX_GET_ATTR || n->opcode == FX_CALL_MODULE;
        FX_TRY(check_stage(r, n));
    }
    if (inputs != r->p.n_inputs)
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, NULL, "replacement '%s' has %d placeholders, expected the %d of pattern '%s'", by->name, inputs,
                       r->p.n_inputs, r->pattern->name);
    if (out->n_operands != r->p.n_outputs)
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, &out->loc, "replacement '%s' returns %d nodes, expected the %d of pattern '%s'", by->name,
                       out->n_operands, r->p.n_outputs, r->pattern->name);
    r->targets = FX_NEW_ARRAY(r->scratch, const char *, by->n_ids);
    if (targets && r->found.n > 0) {
        r->before = fx_snapshot_take(r->g, r->scratch);
        FX_FOR_NODES(by, n)
            if (n->opcode == FX_GET_ATTR || n->opcode == FX_CALL_MODULE)
                FX_TRY(bring_target(r, n, &brought));
    }
    r->copier = fx_copier_new(by, r->g, r->scratch);
    r->copier.stand = FX_NEW_ARRAY(r->scratch, const fx_stand *, by->n_ids);
    r->copier.target = target_in_graph;
    r->copier.user = r;
    return FX_OK;
}

/* ---- one replacement ------------------------------------------------------------------------------------------------------------------- */

static const char *type_text(const replacer *r, const fx_type *type)
{
    fx_text t;
    fx_text_init(&t, r->scratch);
    fx_type_print(&t, type);
    return t.data;
}

/* Whether values of these types are surely different. */
static bool types_differ(const fx_type *a, const fx_type *b)
{
    if (!a || !b || a == b)
        return false;
    if (a->kind != b->kind)
        return true;
    if (a->kind != FX_TYPE_TENSOR)
        return false;
    bool differ = a->dtype != b->dtype || a->rank != b->rank;
    for (int i = 0; !differ && i < a->rank; i++)
        differ = fx_dim_differ(a->dims[i], b->dims[i]);
    return differ;
}

static fx_status check_outputs(const replacer *r, const fx_found *f, fx_node *const *outs)
{
    for (size_t i = 0; i < f->m.n_outputs; i++) {
        const fx_node *old = f->m.outputs[i];
        if (types_differ(old->type, outs[i]->type))
            return fx_fail(r->ctx, FX_ERR_TYPE, &old->loc, "the replacement of output %zu is %s, expected %s as '%s' is", i,
                           type_text(r, outs[i]->type), type_text(r, old->type), old->name);
    }
    return FX_OK;
}

static fx_status copy_replacement(replacer *r, fx_found *f, fx_node **outs)
{
    fx_copier *c = &r->copier;
    fx_node **made = FX_NEW_ARRAY(r->g->arena, fx_node *, r->replacement->n_nodes);
    size_t k = 0;
    f->m.new_nodes = made;
    FX_FOR_NODES(r->replacement, n) {
        c->node[n->id] = NULL;
        if (n->opcode == FX_PLACEHOLDER) {
            const fx_stand *s = &f->bound[k++];
            c->stand[n->id] = s;
            if (s->tree->kind == FX_ARG_NODE)
                c->node[n->id] = s->nodes[s->tree->i];
            continue;
        }
        if (n->opcode == FX_OUTPUT)
            continue;
        fx_node *m = fx_copier_node(c, n, n->name);
        made[f->m.n_new++] = m;
        m->type = NULL;
        m->loc.file = f->last->loc.file;
        m->loc.entry = f->last->loc.entry;
        m->loc.module = f->last->loc.module;
        m->loc.frame = f->last->loc.frame;
        if (r->g->stage > FX_STAGE_CAPTURED || m->opcode == FX_GET_ATTR) {
            FX_TRY(fx_node_normalize(m));
            FX_TRY(fx_node_infer(m));
        }
    }
    const fx_node *out = fx_graph_output_node(r->replacement);
    for (int i = 0; i < out->n_operands; i++) {
        const fx_node *def = out->operands[i].def;
        outs[i] = c->node[def->id];
        if (!outs[i])
            return fx_fail(r->ctx, FX_ERR_TYPE, &f->m.outputs[i]->loc,
                           "output %d of the replacement is its placeholder '%s', which matched a constant, expected a node", i, def->name);
    }
    return FX_OK;
}

/* What a callback made must not hang on what goes away, and must stand where its operands are. */
static fx_status check_built(const replacer *r, size_t k, uint32_t from, fx_node *const *outs)
{
    const fx_found *f = &r->found.all[k];
    const fx_graph *g = r->g;
    for (size_t i = 0; i < f->m.n_outputs; i++) {
        const fx_node *n = outs[i];
        if (!n)
            return fx_fail(r->ctx, FX_ERR_ARGUMENT, &f->m.outputs[i]->loc, "the callback gave no node for output %zu", i);
        if (n->graph != g || n->erased)
            return fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "the callback's node for output %zu %s", i,
                           n->erased ? "is erased" : "belongs to another graph");
        if (n->opcode == FX_OUTPUT || (n->id < r->id_before && r->found.group[n->id] == k + 1))
            return fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "the callback's node for output %zu is %s", i,
                           n->opcode == FX_OUTPUT ? "the output" : "one of those replaced");
    }
    for (const fx_node *n = f->last->prev; n && n->id >= from; n = n->prev)
        for (int i = 0; i < n->n_operands; i++) {
            const fx_node *def = n->operands[i].def;
            uint32_t group = def->id < r->id_before ? r->found.group[def->id] : 0;
            if (group == k + 1)
                return fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "the callback made it use '%s', which is replaced", def->name);
            if (def->id < r->id_before && r->found.pos[def->id] >= r->found.pos[f->last->id])
                return fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "the callback made it use '%s', which comes only later", def->name);
        }
    return FX_OK;
}

static fx_status make_replacement(replacer *r, size_t k)
{
    fx_found *f = &r->found.all[k];
    fx_graph *g = r->g;
    uint32_t from = g->n_ids;
    fx_node **outs = r->outs[k] = FX_NEW_ARRAY(g->arena, fx_node *, f->m.n_outputs);
    f->m.results = outs;
    r->first_new[k] = from;
    g->insert_before = f->last;
    if (r->replacement) {
        FX_TRY(copy_replacement(r, f, outs));
    } else {
        FX_TRY(r->options->build(r->options->user, g, &f->m, outs));
        FX_TRY(check_built(r, k, from, outs));
    }
    return check_outputs(r, f, outs);
}

/* ---- commit: allocates nothing ------------------------------------------------------------------------------------------------------------ */

static fx_node *now(const replacer *r, fx_node *n)
{
    fx_node *end = n;
    while (r->replaced[end->id])
        end = r->replaced[end->id];
    while (r->replaced[n->id]) { /* later looks are short */
        fx_node *next = r->replaced[n->id];
        r->replaced[n->id] = end;
        n = next;
    }
    return end;
}

static void relabel(const replacer *r)
{
    uint64_t at = 0;
    FX_FOR_NODES(r->g, n)
        r->label[n->id] = at += UINT64_C(1) << 32;
}

typedef struct moved {
    uint64_t label;
    fx_node *n;
} moved;

static int by_label(const void *a, const void *b)
{
    uint64_t x = ((const moved *)a)->label, y = ((const moved *)b)->label;
    return (x > y) - (x < y);
}

static size_t push_early_users(const replacer *r, const fx_node *of, uint32_t group, uint64_t end, uint32_t serial, size_t n)
{
    for (const fx_use *u = of->first_use; u; u = u->next) {
        fx_node *t = u->user;
        bool inside = t->id < r->id_before && r->found.group[t->id] == group;
        if (!inside && r->stamp[t->id] != serial && r->label[t->id] < end) {
            r->stamp[t->id] = serial;
            r->stack[n++] = t;
        }
    }
    return n;
}

/* Definitions before uses: users of match k's outputs that stand before its last node, and what depends on them, move behind it. */
static void move_users(const replacer *r, size_t k)
{
    const fx_found *f = &r->found.all[k];
    uint32_t serial = (uint32_t)k + 1;
    uint64_t end = r->label[f->last->id];
    size_t n = 0, n_moved = 0;
    for (size_t i = 0; i < f->m.n_outputs; i++)
        n = push_early_users(r, f->m.outputs[i], serial, end, serial, n);
    while (n > 0) {
        fx_node *t = r->stack[--n];
        r->moved[n_moved++] = (moved){r->label[t->id], t};
        n = push_early_users(r, t, serial, end, serial, n);
    }
    if (n_moved == 0)
        return;
    qsort(r->moved, n_moved, sizeof *r->moved, by_label);
    fx_node *at = f->last->next;
    uint64_t step = at ? (r->label[at->id] - end) / (n_moved + 1) : UINT64_C(1) << 32;
    for (size_t i = 0; i < n_moved; i++) {
        fx_node_move_before(r->moved[i].n, at);
        r->label[r->moved[i].n->id] = end + (i + 1) * step;
    }
    if (step == 0)
        relabel(r);
}

static void commit_match(const replacer *r, size_t k)
{
    const fx_found *f = &r->found.all[k];
    if (f->m.n_outputs > 1)
        move_users(r, k);
    for (size_t i = 0; i < f->m.n_outputs; i++) {
        fx_node *old = f->m.outputs[i], *by = now(r, r->outs[k][i]);
        fx_node_replace_uses(old, by);
        r->replaced[old->id] = by;
    }
    for (size_t i = f->m.n_nodes; i-- > 0;)
        if (!f->m.nodes[i]->first_use && !f->m.nodes[i]->erased)
            fx_node_erase(f->m.nodes[i]);
}

static void update_value(const replacer *r, fx_value *v)
{
    if (v->kind == FX_ARG_NODE)
        v->as.node = now(r, v->as.node);
    bool nested = v->kind == FX_ARG_LIST || v->kind == FX_ARG_TUPLE || v->kind == FX_ARG_DICT || v->kind == FX_ARG_SLICE;
    for (int i = 0; nested && i < v->n; i++)
        update_value(r, (fx_value *)&v->as.items[i]);
}

/* Only callbacks can make a circle: what they use beside the inputs of the match is up to them. */
static fx_status check_order(const replacer *r)
{
    relabel(r);
    FX_FOR_NODES(r->g, n)
        for (int i = 0; i < n->n_operands; i++)
            if (r->label[n->operands[i].def->id] >= r->label[n->id])
                return fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "what the callback made closes a circle: '%s' needs '%s', which needs it", n->name,
                               n->operands[i].def->name);
    return FX_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------------------------ */

/* Puts the graph back unless all went well; frees what was needed. Allocates nothing. */
static void finish(void *arg)
{
    replacer *r = arg;
    if (!r->done && r->before) {
        fx_snapshot_restore(r->before);
    } else if (!r->done) {
        for (fx_node *n = r->g->last, *prev; n; n = prev) {
            prev = n->prev;
            if (n->id >= r->id_before)
                fx_node_erase(n);
        }
    }
    if (!r->done)
        r->g->insert_before = r->insert_before;
    if (r->scratch)
        fx_arena_free(r->scratch);
}

/* A callback may have made nodes anywhere, and erased some. */
static void collect_anywhere(replacer *r)
{
    fx_graph *g = r->g;
    fx_node **made = FX_NEW_ARRAY(g->arena, fx_node *, g->n_ids - r->id_before);
    FX_FOR_NODES(g, n)
        if (n->id >= r->id_before)
            made[n->id - r->id_before] = n;
    for (size_t k = 0; k < r->found.n; k++) {
        fx_match *m = &r->found.all[k].m;
        fx_node **all = made + (r->first_new[k] - r->id_before);
        for (size_t id = r->first_new[k]; id < r->first_new[k + 1]; id++)
            if (made[id - r->id_before])
                all[m->n_new++] = made[id - r->id_before];
        m->new_nodes = all;
    }
}

/* Which inputs the replacement returns as they are. */
static int *returned_inputs(const replacer *r)
{
    const fx_node *out = fx_graph_output_node(r->replacement);
    int *returned = FX_NEW_ARRAY(r->scratch, int, r->p.n_outputs);
    bool any = false;
    for (int i = 0; i < r->p.n_outputs; i++) {
        const fx_node *def = out && i < out->n_operands ? out->operands[i].def : NULL;
        int at = 0;
        returned[i] = -1;
        FX_FOR_NODES(r->replacement, n) {
            if (n == def && n->opcode == FX_PLACEHOLDER && at < r->p.n_inputs)
                returned[i] = at;
            at += n->opcode == FX_PLACEHOLDER;
        }
        any = any || returned[i] >= 0;
    }
    return any ? returned : NULL;
}

static fx_status make_all(replacer *r)
{
    fx_graph *g = r->g;
    FX_TRY(fx_pattern_check_graph(g, r->pattern, "pattern"));
    if (r->replacement)
        FX_TRY(fx_pattern_check_graph(g, r->replacement, "replacement"));
    r->scratch = fx_arena_create(g->ctx);
    FX_TRY(fx_pattern_compile(r->pattern, r->scratch, &r->p));
    r->p.to_replace = true;
    if (r->replacement)
        r->p.returned = returned_inputs(r);
    fx_pattern_options options = r->options ? *r->options : (fx_pattern_options){0};
    options.overlapping = false;
    fx_pattern_find(&r->p, g, &options, &r->found);
    if (r->replacement)
        FX_TRY(read_replacement(r));
    else if (r->found.n > 0)
        r->before = fx_snapshot_take(g, r->scratch);
    r->outs = FX_NEW_ARRAY(r->scratch, fx_node **, r->found.n);
    r->first_new = FX_NEW_ARRAY(r->scratch, size_t, r->found.n + 1);
    for (size_t k = 0; k < r->found.n; k++)
        FX_TRY(make_replacement(r, k));
    r->first_new[r->found.n] = g->n_ids;
    return FX_OK;
}

static fx_status replace(void *arg)
{
    replacer *r = arg;
    fx_graph *g = r->g;
    fx_defer(r->ctx, finish, r);
    FX_TRY(make_all(r));
    if (!r->replacement)
        collect_anywhere(r);
    fx_match *all = FX_NEW_ARRAY(g->arena, fx_match, r->found.n);
    r->replaced = FX_NEW_ARRAY(r->scratch, fx_node *, g->n_ids);
    if (r->p.n_outputs > 1 || !r->replacement)
        r->label = FX_NEW_ARRAY(r->scratch, uint64_t, g->n_ids);
    if (r->p.n_outputs > 1) {
        r->stack = FX_NEW_ARRAY(r->scratch, fx_node *, g->n_ids);
        r->moved = FX_NEW_ARRAY(r->scratch, moved, g->n_ids);
        r->stamp = FX_NEW_ARRAY(r->scratch, uint32_t, g->n_ids);
        relabel(r);
    }
    g->insert_before = r->insert_before;
    for (size_t k = 0; k < r->found.n; k++)
        commit_match(r, k);
    if (!r->replacement)
        FX_TRY(check_order(r));
    for (size_t k = 0; k < r->found.n; k++) {
        fx_match *m = &r->found.all[k].m;
        for (size_t i = 0; i < m->n_inputs; i++)
            update_value(r, (fx_value *)&m->inputs[i]);
        for (size_t i = 0; i < m->n_outputs; i++)
            r->outs[k][i] = now(r, r->outs[k][i]);
        all[k] = *m;
    }
    r->done = true;
    *r->count = r->found.n;
    if (r->result)
        *r->result = all;
    return FX_OK;
}

fx_status fx_graph_replace_pattern(fx_graph *graph, fx_graph *pattern, fx_graph *replacement, const fx_pattern_options *options,
                                   size_t *count, const fx_match **matches)
{
    size_t ignored;
    if (!graph || !pattern)
        return FX_ERR_ARGUMENT;
    replacer r = {.g = graph, .pattern = pattern, .replacement = replacement, .options = options, .count = count ? count : &ignored,
                  .result = matches, .ctx = graph->ctx, .id_before = graph->n_ids, .insert_before = graph->insert_before};
    *r.count = 0;
    if ((replacement != NULL) == (options && options->build))
        return fx_fail(graph->ctx, FX_ERR_ARGUMENT, NULL, "a pattern is replaced by a graph or by a callback: %s given",
                       replacement ? "both are" : "neither is");
    return fx_protect(graph->ctx, replace, &r);
}
