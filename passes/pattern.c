/* passes/pattern.c: finding a pattern in a graph (FX's SubgraphMatcher).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * From an anchor (an output that the pattern itself does not use) pattern and graph are walked backwards together, which leaves no choice: an
 * argument has one definition. Further anchors are looked for among the users of what is matched already, so the work is that of the places
 * where the first anchor's operator stands. Choices made on the way are undone from a trail. */
#include <stdlib.h>
#include <string.h>

#include "passes/pattern_match.h"

typedef struct pair {
    int pattern;
    fx_node *node;
} pair;

typedef struct matcher {
    const fx_pattern *p;
    fx_graph *g;
    fx_context *ctx;
    fx_arena *scratch;
    fx_pattern_options options;
    fx_matches *out;
    fx_node **got;           /* by pattern node; an INPUT that is a node too */
    const fx_arg **tree;     /* by pattern node: an INPUT that is a constant or a list, ... */
    const fx_node **of;      /* ... whose operand numbers are this node's */
    int *trail;              /* pattern nodes in the order they were bound */
    int n_trail;
    uint32_t *owner;         /* by node id: pattern node + 1 it is matched to */
    pair *todo;
    size_t n_todo, cap_todo;
    uint32_t *stamp, serial; /* by node id: seen in this search for a circle */
    uint32_t *group_stamp;
    size_t cap_groups;
    fx_node **stack;
    size_t cap_stack;
    uint32_t *furthest;      /* by place: union-find over places that matches with several outputs span */
    uint32_t *writers;       /* by place: writes and draws up to it; made when first asked for */
    fx_alias *alias;
} matcher;

/* ---- arguments --------------------------------------------------------------------------------------------------------------------- */

static bool is_sequence(const fx_arg *a)
{
    return a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE;
}

static void count_operand(void *user, int64_t operand)
{
    (void)operand;
    ++*(int *)user;
}

static bool has_nodes(const fx_arg *a)
{
    int n = 0;
    fx_arg_operands(a, count_operand, &n);
    return n > 0;
}

/* Whether two trees over the operands of two nodes are the same value. */
static bool same_tree(const fx_arg *a, const fx_node *of_a, const fx_arg *b, const fx_node *of_b)
{
    if (a->kind == FX_ARG_NODE && b->kind == FX_ARG_NODE)
        return of_a->operands[a->i].def == of_b->operands[b->i].def;
    if (a->n == 0 && b->n == 0)
        return a == b;
    if (a->n != b->n || (a->kind != b->kind && !(is_sequence(a) && is_sequence(b))))
        return false;
    for (int i = 0; i < a->n; i++)
        if ((a->kind == FX_ARG_DICT && a->keys[i] != b->keys[i]) || !same_tree(a->items[i], of_a, b->items[i], of_b))
            return false;
    return true;
}

static bool fits_input(const fx_pat_node *t, const fx_node *node)
{
    if (t->constant >= 0 && t->constant != (node == NULL))
        return false;
    if (t->dtype < 0 && t->rank < 0)
        return true;
    const fx_type *type = node ? node->type : NULL;
    return type && type->kind == FX_TYPE_TENSOR && (t->dtype < 0 || (int)type->dtype == t->dtype) &&
           (t->rank < 0 || type->rank == t->rank);
}

static bool bind(matcher *m, int k, const fx_arg *a, const fx_node *of)
{
    fx_node *node = a->kind == FX_ARG_NODE ? of->operands[a->i].def : NULL;
    if (m->got[k] || m->tree[k])
        return node ? m->got[k] == node : m->tree[k] && same_tree(m->tree[k], m->of[k], a, of);
    if (!fits_input(&m->p->nodes[k], node))
        return false;
    m->got[k] = node;
    m->tree[k] = node ? NULL : a;
    m->of[k] = of;
    m->trail[m->n_trail++] = k;
    return true;
}

static bool match_arg(matcher *m, const fx_arg *a, const fx_node *pn, const fx_arg *b, const fx_node *gn)
{
    if (a->kind == FX_ARG_NODE) {
        int k = m->p->index[pn->operands[a->i].def->id];
        if (m->p->nodes[k].kind == FX_PAT_INPUT)
            return bind(m, k, b, gn);
        if (b->kind != FX_ARG_NODE)
            return false;
        FX_PUSH(m->scratch, m->todo, m->n_todo, m->cap_todo) = (pair){k, gn->operands[b->i].def};
        return true;
    }
    if (m->options.ignore_literals && !has_nodes(a) && !has_nodes(b))
        return true;
    bool nested = is_sequence(a) || a->kind == FX_ARG_DICT || a->kind == FX_ARG_SLICE;
    if (!nested)
        return a == b;
    if (a->n != b->n || (a->kind != b->kind && !(is_sequence(a) && is_sequence(b))))
        return false;
    for (int i = 0; i < a->n; i++) {
        int at = a->kind == FX_ARG_DICT ? 0 : i; /* keywords may be written in any order */
        while (a->kind == FX_ARG_DICT && at < b->n && b->keys[at] != a->keys[i])
            at++;
        if (at == b->n || !match_arg(m, a->items[i], pn, b->items[at], gn))
            return false;
    }
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------------------- */

static bool same_class(const char *a, const char *b)
{
    const fx_class *ca = fx_class_find(a), *cb = fx_class_find(b);
    return ca || cb ? ca == cb : a && b && strcmp(a, b) == 0;
}

static bool in_list(const fx_pat_node *t, const char *name, bool (*same)(const char *a, const char *b))
{
    for (int i = 0; i < t->any_of->n; i++)
        if (same(t->any_of->items[i]->s, name))
            return true;
    return false;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static const fx_arg *own_setting(const fx_module *m, const char *key)
{
    const fx_arg *v = fx_module_config(m, key);
    for (int i = 0; !v && m->config && i < m->config->n; i++)
        if (m->config->keys[i] == key)
            v = m->config->items[i];
    return v;
}

/* Classes are compared, and what the pattern's module sets; without a module in the pattern, the paths. */
static bool match_module(const fx_pat_node *t, const fx_node *n)
{
    const fx_module *a = t->module, *b = fx_module_find(n->graph, n->target);
    if (t->any_of)
        return b && in_list(t, b->class_name, same_class);
    if (!a || !b)
        return t->n->target == n->target;
    if (!same_class(a->class_name, b->class_name))
        return false;
    for (int i = 0; a->config && i < a->config->n; i++)
        if (own_setting(a, a->config->keys[i]) != own_setting(b, a->config->keys[i]))
            return false;
    return true;
}

static bool in_operators(const matcher *m, const fx_pat_node *t, const fx_node *n)
{
    bool inplace = false, other;
    const fx_op *row = fx_node_row(n, &inplace);
    for (int i = 0; i < t->any_of->n; i++) {
        const char *name = t->any_of->items[i]->s;
        if (row && fx_op_lookup(m->ctx, name, &other) == row && other == inplace)
            return true;
    }
    return in_list(t, n->target, same_text);
}

/* What can be told without looking at arguments. */
static bool match_target(const matcher *m, const fx_pat_node *t, const fx_node *n)
{
    if (t->kind == FX_PAT_ATTR)
        return n->opcode == FX_GET_ATTR && (!t->path || t->path == n->target);
    if (t->n->opcode == FX_CALL_MODULE || n->opcode == FX_CALL_MODULE)
        return t->n->opcode == n->opcode && match_module(t, n);
    if (n->opcode != FX_CALL_FUNCTION && n->opcode != FX_CALL_METHOD)
        return false;
    if (t->any_of)
        return in_operators(m, t, n);
    if (!t->viewed)
        return t->n->opcode == n->opcode && t->n->target == n->target;
    if (t->n->target == n->target && t->n->opcode == n->opcode)
        return true;
    if (n->opcode == FX_CALL_FUNCTION && (!n->op || !t->overloads[n->op->id]))
        return false;
    bool inplace = false;
    const fx_op *row = fx_node_row(n, &inplace);
    return row && inplace == t->view.inplace && t->overloads[row->id];
}

static bool match_view(matcher *m, const fx_pat_node *t, const fx_call_args *view, const fx_node *n)
{
    const fx_call_args *ours = &t->view;
    fx_call_args other;
    if (t->any_of) {
        if (!fx_pattern_view(t->n, view->op, &other))
            return false;
        ours = &other;
    }
    if (ours->op != view->op)
        return false;
    for (int i = 0; i < view->n; i++)
        if (!match_arg(m, ours->args[i], t->n, view->args[i], n))
            return false;
    return true;
}

static bool match_call_args(matcher *m, const fx_pat_node *t, const fx_node *n)
{
    if (t->viewed || t->any_of) {
        fx_call_args view;
        if (n->opcode != FX_CALL_MODULE && fx_call_view(n, &view))
            return match_view(m, t, &view, n);
        if (t->viewed)
            return false;
    }
    return n->args->n == t->n->args->n && match_arg(m, t->n->args, t->n, n->args, n) && match_arg(m, t->n->kwargs, t->n, n->kwargs, n);
}

static bool is_free(const matcher *m, const fx_node *n)
{
    return !m->owner[n->id] && !m->out->group[n->id];
}

/* Binds pattern node k and all it needs, from n backwards. */
static bool match_back(matcher *m, int k, fx_node *n)
{
    m->n_todo = 0;
    FX_PUSH(m->scratch, m->todo, m->n_todo, m->cap_todo) = (pair){k, n};
    while (m->n_todo > 0) {
        pair at = m->todo[--m->n_todo];
        const fx_pat_node *t = &m->p->nodes[at.pattern];
        if (m->got[at.pattern]) {
            if (m->got[at.pattern] != at.node)
                return false;
            continue;
        }
        if (!is_free(m, at.node) || !match_target(m, t, at.node))
            return false;
        m->got[at.pattern] = at.node;
        m->owner[at.node->id] = (uint32_t)at.pattern + 1;
        m->trail[m->n_trail++] = at.pattern;
        if (t->kind == FX_PAT_CALL && !match_call_args(m, t, at.node))
            return false;
    }
    return true;
}

static void undo(matcher *m, int to)
{
    while (m->n_trail > to) {
        int k = m->trail[--m->n_trail];
        if (m->p->nodes[k].kind != FX_PAT_INPUT)
            m->owner[m->got[k]->id] = 0;
        m->got[k] = NULL;
        m->tree[k] = NULL;
    }
}

/* ---- what makes a match valid ------------------------------------------------------------------------------------------------------------ */

/* Whether n is a call of the match (attributes are shared freely). */
static bool is_inside(const matcher *m, const fx_node *n)
{
    uint32_t k = m->owner[n->id];
    return k && m->p->nodes[k - 1].kind == FX_PAT_CALL;
}

static bool is_contained(const matcher *m)
{
    for (int i = 0; i < m->p->n; i++) {
        const fx_pat_node *t = &m->p->nodes[i];
        if (t->kind == FX_PAT_CALL && !t->is_output)
            for (const fx_use *u = m->got[i]->first_use; u; u = u->next)
                if (!is_inside(m, u->user))
                    return false;
    }
    return true;
}

typedef struct look {
    const matcher *m;
    const fx_node *of;
    bool inside;
} look;

static void look_inside(void *user, int64_t operand)
{
    look *l = user;
    l->inside = l->inside || is_inside(l->m, l->of->operands[operand].def);
}

/* An input must be there without the match. */
static bool inputs_are_outside(const matcher *m)
{
    for (int i = 0; i < m->p->n_inputs; i++) {
        int k = m->p->inputs[i];
        look l = {m, m->of[k], m->got[k] && is_inside(m, m->got[k])};
        if (m->tree[k])
            fx_arg_operands(m->tree[k], look_inside, &l);
        if (l.inside)
            return false;
    }
    return true;
}

static uint32_t find_end(matcher *m, uint32_t place)
{
    while (m->furthest[place] != place)
        place = m->furthest[place] = m->furthest[m->furthest[place]];
    return place;
}

static void push_users(matcher *m, size_t *n, const fx_node *of)
{
    for (const fx_use *u = of->first_use; u; u = u->next)
        FX_PUSH(m->scratch, m->stack, *n, m->cap_stack) = u->user;
}

/* Whether a path leaves the match and comes back: as one call it would then need its own result. Earlier matches count as one call each. Only
 * nodes up to the last matched place can lie on such a path, or up to the end of matches that span it. */
static bool makes_circle(matcher *m, const fx_node *last)
{
    if (m->p->n_outputs < 2)
        return false;
    uint32_t end = find_end(m, m->out->pos[last->id]);
    size_t n = 0;
    m->serial++;
    for (int i = 0; i < m->p->n_outputs; i++)
        for (const fx_use *u = m->got[m->p->outputs[i]]->first_use; u; u = u->next)
            if (!is_inside(m, u->user))
                FX_PUSH(m->scratch, m->stack, n, m->cap_stack) = u->user;
    while (n > 0) {
        fx_node *t = m->stack[--n];
        if (m->stamp[t->id] == m->serial || m->out->pos[t->id] > end)
            continue;
        m->stamp[t->id] = m->serial;
        if (is_inside(m, t))
            return true;
        uint32_t group = m->out->group[t->id];
        if (!group) {
            push_users(m, &n, t);
        } else if (m->group_stamp[group] != m->serial) {
            m->group_stamp[group] = m->serial;
            const fx_match *other = &m->out->all[group - 1].m;
            for (size_t i = 0; i < other->n_outputs; i++)
                push_users(m, &n, other->outputs[i]);
        }
    }
    return false;
}

/* How many nodes up to and with each place write memory or draw random numbers. */
static void count_writers(matcher *m)
{
    uint32_t at = 0, count = 0;
    m->writers = FX_NEW_ARRAY(m->scratch, uint32_t, m->g->n_nodes);
    FX_FOR_NODES(m->g, n) {
        count += (fx_node_effects(n) & (FX_EFFECT_WRITES | FX_EFFECT_RANDOM)) != 0;
        m->writers[at++] = count;
    }
}

/* Whether a result is used before the last node of the match, so that its users have to move behind it. */
static bool has_early_users(const matcher *m, const fx_node *last)
{
    for (int i = 0; i < m->p->n_outputs && m->p->n_outputs > 1; i++)
        for (const fx_use *u = m->got[m->p->outputs[i]]->first_use; u; u = u->next)
            if (!is_inside(m, u->user) && m->out->pos[u->user->id] < m->out->pos[last->id])
                return true;
    return false;
}

static const fx_alias *alias_of(matcher *m)
{
    if (!m->alias)
        m->alias = fx_alias_new(m->g, m->scratch);
    return m->alias;
}

typedef struct written {
    matcher *m;
    const fx_node *of;       /* whose operands are looked at */
    const fx_node *first, *last;
    bool found;
} written;

static void look_written(written *w, const fx_node *n)
{
    w->found = w->found || fx_alias_written(alias_of(w->m), n, w->first, w->last);
}

static void look_written_operand(void *user, int64_t operand)
{
    written *w = user;
    look_written(w, w->of->operands[operand].def);
}

/* Whether memory is written among the nodes of the match so that it tells: the replacement would read the match's operands too late, or users
 * would have to move over the write. */
static bool is_overwritten(matcher *m, const fx_node *first, const fx_node *last)
{
    uint32_t from = m->out->pos[first->id], to = m->out->pos[last->id];
    if (m->p->writes || to - from + 1 <= (uint32_t)m->p->n_matched)
        return false;
    if (!m->writers)
        count_writers(m);
    if (m->writers[to] == m->writers[from])
        return false;
    if (has_early_users(m, last))
        return true;
    for (int i = 0; i < m->p->n; i++) {
        written w = {m, m->of[i], first, last, false};
        if (m->got[i])
            look_written(&w, m->got[i]);
        else if (m->tree[i])
            fx_arg_operands(m->tree[i], look_written_operand, &w);
        if (w.found)
            return true;
    }
    return false;
}

/* Whether an input would stand for a result although one of them is written later, and they are not one memory anyway. */
static bool is_told_apart(matcher *m, const fx_node *last)
{
    if (!m->p->returned)
        return false;
    if (!m->writers)
        count_writers(m);
    if (m->writers[m->g->n_nodes - 1] == m->writers[m->out->pos[last->id]])
        return false;
    for (int i = 0; i < m->p->n_outputs; i++) {
        int k = m->p->returned[i];
        const fx_node *result = m->got[m->p->outputs[i]], *input = k < 0 ? NULL : m->got[m->p->inputs[k]];
        if (input && !fx_alias_may(alias_of(m), result, input) &&
            (fx_alias_written(m->alias, result, last, NULL) || fx_alias_written(m->alias, input, last, NULL)))
            return true;
    }
    return false;
}

/* ---- a match's record ----------------------------------------------------------------------------------------------------------------------- */

/* A value that does not depend on `of`'s arguments, which may be gone when it is read. */
static fx_value value_of(fx_arena *arena, const fx_arg *a, const fx_node *of)
{
    fx_value v = fx_value_of(of->graph->ctx, of, a);
    if (a->n > 0) {
        fx_value *items = FX_NEW_ARRAY(arena, fx_value, a->n);
        for (int i = 0; i < a->n; i++)
            items[i] = value_of(arena, a->items[i], of);
        v.as.items = items;
        v.tree = NULL;
    }
    v.of = NULL;
    return v;
}

static fx_stand stand_of(matcher *m, int k)
{
    fx_arena *arena = m->scratch;
    fx_node **nodes;
    if (m->got[k]) {
        nodes = fx_arena_dup(arena, &m->got[k], sizeof *nodes);
        return (fx_stand){fx_arg_operand(m->ctx, 0), 1, nodes};
    }
    const fx_node *of = m->of[k];
    nodes = FX_NEW_ARRAY(arena, fx_node *, of->n_operands);
    for (int i = 0; i < of->n_operands; i++)
        nodes[i] = of->operands[i].def;
    return (fx_stand){m->tree[k], of->n_operands, nodes};
}

static fx_found record(matcher *m, fx_node *first, fx_node *last)
{
    const fx_pattern *p = m->p;
    fx_arena *arena = m->g->arena;
    fx_found f = {.first = first, .last = last};
    fx_node **nodes = FX_NEW_ARRAY(arena, fx_node *, p->n_matched + p->n_outputs), **outputs = nodes + p->n_matched;
    fx_value *inputs = FX_NEW_ARRAY(arena, fx_value, p->n_inputs);
    f.bound = p->to_replace ? FX_NEW_ARRAY(m->scratch, fx_stand, p->n_inputs) : NULL;
    for (int i = 0; i < p->n_matched; i++)
        nodes[i] = m->got[p->index[p->matched[i]->id]];
    for (int i = 0; i < p->n_outputs; i++)
        outputs[i] = m->got[p->outputs[i]];
    for (int i = 0; i < p->n_inputs; i++) {
        int k = p->inputs[i];
        if (f.bound)
            f.bound[i] = stand_of(m, k);
        inputs[i] = m->got[k] ? fx_v_node(m->got[k]) : value_of(arena, m->tree[k], m->of[k]);
    }
    f.m = (fx_match){.n_nodes = (size_t)p->n_matched, .pattern_nodes = p->matched, .nodes = nodes, .n_inputs = (size_t)p->n_inputs,
                     .inputs = inputs, .n_outputs = (size_t)p->n_outputs, .outputs = outputs};
    return f;
}

/* Takes a full match if it is one; whether the search from here is over. */
static bool accept(matcher *m)
{
    const fx_pattern *p = m->p;
    const uint32_t *pos = m->out->pos;
    fx_node *first = NULL, *last = NULL;
    for (int i = 0; i < p->n; i++) {
        fx_node *n = p->nodes[i].kind == FX_PAT_CALL ? m->got[i] : NULL;
        if (n && (!first || pos[n->id] < pos[first->id]))
            first = n;
        if (n && (!last || pos[n->id] > pos[last->id]))
            last = n;
    }
    if (!is_contained(m) || !inputs_are_outside(m) || makes_circle(m, last) || is_overwritten(m, first, last) ||
        is_told_apart(m, last))
        return false;
    fx_found f = record(m, first, last);
    if (m->options.filter && !m->options.filter(m->options.user, &f.m))
        return false;
    FX_PUSH(m->scratch, m->out->all, m->out->n, m->out->cap) = f;
    if (m->options.overlapping)
        return false;
    for (int i = 0; i < p->n; i++)
        if (p->nodes[i].kind == FX_PAT_CALL)
            m->out->group[m->got[i]->id] = (uint32_t)m->out->n;
    if (p->n_outputs > 1) {
        while (m->out->n + 1 > m->cap_groups)
            m->group_stamp = fx_arena_grow(m->scratch, m->group_stamp, m->cap_groups, &m->cap_groups, sizeof *m->group_stamp);
        uint32_t end = pos[last->id];
        for (uint32_t at = find_end(m, pos[first->id]); at < end; at = find_end(m, at))
            m->furthest[at] = at + 1;
    }
    return true;
}

/* ---- the search ----------------------------------------------------------------------------------------------------------------------------- */

static bool extend(matcher *m, int anchor);

/* Tries n as the anchor; what path says must lie between is checked when all is bound. */
static bool try_anchor(matcher *m, int anchor, fx_node *n, fx_node *const *way)
{
    int mark = m->n_trail, k = m->p->anchors[anchor];
    const fx_pat_path *path = &m->p->paths[anchor];
    bool over = false;
    if (match_target(m, &m->p->nodes[k], n) && match_back(m, k, n)) {
        bool same = true;
        for (int i = 1; way && i < path->n - 1; i++)
            same = same && m->got[path->nodes[i]] == way[i];
        over = same && extend(m, anchor + 1);
    }
    undo(m, mark);
    return over;
}

/* Whether an earlier operand of u is the same node, so that the use was met before. */
static bool is_repeated(const fx_use *u)
{
    for (const fx_use *o = u->user->operands; o < u; o++)
        if (o->def == u->def)
            return true;
    return false;
}

static bool walk(matcher *m, int anchor, int step, fx_node **way)
{
    const fx_pat_path *path = &m->p->paths[anchor];
    if (step == path->n - 1)
        return try_anchor(m, anchor, way[step], way);
    for (const fx_use *u = way[step]->first_use; u; u = u->next) {
        const fx_pat_node *t = &m->p->nodes[path->nodes[step + 1]];
        if (is_repeated(u) || !is_free(m, u->user) || !match_target(m, t, u->user))
            continue;
        way[step + 1] = u->user;
        if (walk(m, anchor, step + 1, way))
            return true;
    }
    return false;
}

static bool extend(matcher *m, int anchor)
{
    if (anchor == m->p->n_anchors)
        return accept(m);
    const fx_pat_path *path = &m->p->paths[anchor];
    if (path->n > 0 && m->got[path->nodes[0]]) {
        fx_node **way = FX_NEW_ARRAY(m->scratch, fx_node *, path->n);
        way[0] = m->got[path->nodes[0]];
        return walk(m, anchor, 0, way);
    }
    FX_FOR_NODES(m->g, n)
        if (try_anchor(m, anchor, n, NULL))
            return true;
    return false;
}

/* In order of the last node; stable. */
static void sort_matches(fx_matches *out, fx_arena *scratch)
{
    const uint32_t *pos = out->pos;
    bool sorted = true;
    for (size_t i = 1; i < out->n && sorted; i++)
        sorted = pos[out->all[i - 1].last->id] <= pos[out->all[i].last->id];
    if (sorted)
        return;
    /* merge sort, from runs of one */
    fx_found *a = out->all, *b = FX_NEW_ARRAY(scratch, fx_found, out->n);
    for (size_t run = 1; run < out->n; run *= 2) {
        for (size_t lo = 0; lo < out->n; lo += 2 * run) {
            size_t mid = lo + run < out->n ? lo + run : out->n, hi = mid + run < out->n ? mid + run : out->n, i = lo, k = mid;
            for (size_t at = lo; at < hi; at++)
                b[at] = k == hi || (i < mid && pos[a[i].last->id] <= pos[a[k].last->id]) ? a[i++] : a[k++];
        }
        fx_found *t = a;
        a = b;
        b = t;
    }
    out->all = a;
    for (size_t i = 0; i < out->n; i++)
        for (size_t k = 0; k < a[i].m.n_nodes; k++)
            if (out->group[a[i].m.nodes[k]->id])
                out->group[a[i].m.nodes[k]->id] = (uint32_t)i + 1;
}

void fx_pattern_find(const fx_pattern *p, fx_graph *g, const fx_pattern_options *options, fx_matches *out)
{
    fx_arena *scratch = p->arena;
    matcher m = {.p = p, .g = g, .ctx = g->ctx, .scratch = scratch, .out = out};
    if (options)
        m.options = *options;
    m.got = FX_NEW_ARRAY(scratch, fx_node *, p->n);
    m.tree = FX_NEW_ARRAY(scratch, const fx_arg *, p->n);
    m.of = FX_NEW_ARRAY(scratch, const fx_node *, p->n);
    m.trail = FX_NEW_ARRAY(scratch, int, p->n);
    m.owner = FX_NEW_ARRAY(scratch, uint32_t, g->n_ids);
    *out = (fx_matches){.group = FX_NEW_ARRAY(scratch, uint32_t, g->n_ids), .pos = FX_NEW_ARRAY(scratch, uint32_t, g->n_ids)};
    /* Of one output nothing behind the anchor is looked at, so that one walk is enough: large graphs do not fit into caches. */
    uint32_t at = 0;
    if (p->n_outputs > 1) {
        FX_FOR_NODES(g, n)
            out->pos[n->id] = at++;
        m.stamp = FX_NEW_ARRAY(scratch, uint32_t, g->n_ids);
        m.furthest = FX_NEW_ARRAY(scratch, uint32_t, g->n_nodes + 1);
        for (uint32_t i = 0; i <= g->n_nodes; i++)
            m.furthest[i] = i;
        m.group_stamp = fx_arena_grow(scratch, NULL, 0, &m.cap_groups, sizeof *m.group_stamp);
    }
    const fx_pat_node *anchor = &p->nodes[p->anchors[0]];
    const bool *rows = anchor->overloads; /* most nodes are none of it, which is quickly said */
    at = 0;
    FX_FOR_NODES(g, n) {
        out->pos[n->id] = at++;
        if (!rows || !n->op || rows[n->op->id])
            try_anchor(&m, 0, n, NULL);
    }
    sort_matches(out, scratch);
}

/* ---- fxcc/pattern.h -------------------------------------------------------------------------------------------------------------------------- */

typedef struct request {
    fx_graph *g, *pattern;
    const fx_pattern_options *options;
    size_t *count;
    const fx_match **matches;
} request;

static fx_status find_in(const request *r, fx_arena *scratch)
{
    fx_pattern p;
    fx_matches found;
    FX_TRY(fx_pattern_check_graph(r->g, r->pattern, "pattern"));
    FX_TRY(fx_pattern_compile(r->pattern, scratch, &p));
    fx_pattern_find(&p, r->g, r->options, &found);
    fx_match *all = FX_NEW_ARRAY(r->g->arena, fx_match, found.n);
    for (size_t i = 0; i < found.n; i++)
        all[i] = found.all[i].m;
    *r->count = found.n;
    if (r->matches)
        *r->matches = all;
    return FX_OK;
}

static fx_status find(void *arg)
{
    const request *r = arg;
    fx_arena *scratch = fx_arena_create(r->g->ctx);
    fx_status st = find_in(r, scratch);
    fx_arena_free(scratch);
    return st;
}

fx_status fx_graph_find_pattern(fx_graph *graph, fx_graph *pattern, const fx_pattern_options *options, size_t *count, const fx_match **matches)
{
    size_t ignored;
    request r = {graph, pattern, options, count ? count : &ignored, matches};
    if (!graph || !pattern)
        return FX_ERR_ARGUMENT;
    *r.count = 0;
    return fx_protect(graph->ctx, find, &r);
}
