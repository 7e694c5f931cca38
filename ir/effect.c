/* ir/effect.c: what a node does beside giving a value, and which values may share memory.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Names tell most: PyTorch's in-place functions end in "_", rows of op.def have flags, classes and schemas with alias marks, effect.def
 * has the rest. Functions of namespaces that are not PyTorch's or Python's own are UNKNOWN. In doubt a call writes and shares. */
#include <string.h>

#include "ir/context.h"

enum { /* fx_target_facts.effects, beside FX_EFFECT_... */
    TRAINING_RANDOM = 16,
    TRAINING_WRITES = 32,
    INPLACE = 64,
    VIEW = 128,       /* the result may share memory with argument 0 */
    FRESH = 256,      /* with none; neither VIEW nor FRESH: with any */
    FOUND_OUT = 512,
    RANDOM = FX_EFFECT_RANDOM,
    KEEP = FX_EFFECT_KEEP,
    WRITES = FX_EFFECT_WRITES
};

static const struct {
    const char *name;
    unsigned kind;
    int argument;
} table[] = {
#define EFFECT(name, kind, argument) {name, kind, argument},
#include "ir/effect.def"
#undef EFFECT
};

static bool starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* A function's own name: "relu" of "aten.relu.default" and of "torch.nn.functional.relu"; its length in *n. */
static const char *own_name(const char *target, size_t *n)
{
    const char *dot;
    bool packet = starts(target, "torch.ops.") || starts(target, "aten.") || starts(target, "prims.");
    if (packet) {
        dot = strchr(starts(target, "torch.ops.") ? target + strlen("torch.ops.") : target, '.');
        target = dot ? dot + 1 : target;
        *n = strcspn(target, ".");
        return target;
    }
    dot = strrchr(target, '.');
    target = dot ? dot + 1 : target;
    *n = strlen(target);
    return target;
}

/* Namespaces whose functions keep to PyTorch's conventions. */
static bool is_known_space(const char *target)
{
    static const char *const spaces[] = {"aten.", "aten::", "torch.", "_operator.", "operator.", "math.", "builtins.", "Tensor.", "prims.",
                                         "torch.ops.aten.", "torch.ops.prims."};
    bool known = false;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        known = known || starts(target, spaces[i]);
    bool foreign = starts(target, "torch.ops.") && !starts(target, "torch.ops.aten.") && !starts(target, "torch.ops.prims.");
    return known && !foreign;
}

/* target: with its namespace; a method's is "Tensor." */
static void find_out(fx_target_facts *info, const char *target)
{
    size_t n;
    const char *own = own_name(target, &n);
    unsigned e = FOUND_OUT;
    bool no_stats = info->op && info->op->id == FX_OP__native_batch_norm_legit_no_stats; /* what its name says others write */
    if (starts(target, "operator."))
        target = own - strlen("operator."); /* compared as "_operator." below */
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *name = table[i].name;
        bool whole = strchr(name, '.') != NULL;
        bool same = whole ? strcmp(name, target) == 0 || (name[0] == '_' && strcmp(name + 1, target) == 0)
                          : strlen(name) == n && strncmp(name, own, n) == 0;
        if (!same || (no_stats && table[i].kind == TRAINING_WRITES))
            continue;
        e |= table[i].kind;
        if (table[i].kind == INPLACE)
            info->inplace_argument = table[i].argument;
        else if (table[i].kind & (TRAINING_RANDOM | TRAINING_WRITES))
            info->training_argument = table[i].argument;
    }
    bool operators = starts(target, "_operator.") || starts(target, "operator.");
    if (info->inplace || (n > 1 && own[n - 1] == '_' && own[n - 2] != '_' && !operators))
        e |= WRITES;
    if (info->op) {
        const fx_op *op = info->op;
        e |= (op->flags & FX_OP_RANDOM ? RANDOM : 0) | (op->flags & FX_OP_EFFECT ? KEEP : 0);
        bool view = op->cls == FX_CLASS_VIEW || strstr(op->schema, "(a)") || strstr(op->schema, "(a ->") || op->id == FX_OP_getitem;
        e |= view || (e & VIEW) ? VIEW : FRESH;
    } else if (operators && !(e & WRITES)) {
        e |= n == 7 && strncmp(own, "getitem", n) == 0 ? VIEW : FRESH;
    } else if (!is_known_space(target) && !(e & (KEEP | RANDOM))) {
        e |= FX_EFFECT_UNKNOWN;
    }
    info->effects = e;
}

static const fx_target_facts *info_of(const fx_node *n)
{
    fx_context *ctx = n->graph->ctx;
    bool method = n->opcode == FX_CALL_METHOD;
    fx_target_facts *info = method ? fx_method_lookup(ctx, n->target) : fx_target_lookup(ctx, n->target);
    if (!info->effects)
        find_out(info, method ? fx_intern_f(ctx, "Tensor.%s", n->target) : n->target);
    return info;
}

/* ---- one node --------------------------------------------------------------------------------------------------------------------- */

/* The argument by position or one of two keywords; NULL when not given. */
static const fx_arg *argument(const fx_node *n, int position, const char *key, const char *other)
{
    for (int i = 0; i < n->kwargs->n; i++)
        if (strcmp(n->kwargs->keys[i], key) == 0 || strcmp(n->kwargs->keys[i], other) == 0)
            return n->kwargs->items[i];
    return position >= 0 && position < n->args->n ? n->args->items[position] : NULL;
}

static bool is_false(const fx_arg *a)
{
    return (a->kind == FX_ARG_BOOL && !a->b) || (a->kind == FX_ARG_INT && a->i == 0) || a->kind == FX_ARG_NONE;
}

/* Whether the call says so itself, or does so unless told not to. */
static bool is_training(const fx_node *n, const fx_target_facts *info)
{
    const fx_arg *a = argument(n, info->training_argument, "training", "train");
    if (!a)
        a = argument(n, -1, "use_input_stats", "use_input_stats");
    return a ? !is_false(a) : info->training_argument < 0 || !strstr(n->target, "batch_norm");
}

static bool is_in_place(const fx_node *n, const fx_target_facts *info)
{
    const fx_arg *a;
    if (info->effects & WRITES)
        return true;
    /* Others of that name have no such parameter. */
    int position = starts(n->target, "torch.nn.functional.") ? info->inplace_argument : -1;
    return info->effects & INPLACE && (a = argument(n, position, "inplace", "inplace")) != NULL && !is_false(a);
}

static unsigned graph_effects(const fx_graph *g, int depth);

enum { MAX_DEPTH = 50 }; /* of graphs in graphs */

static bool is_true(const fx_arg *a)
{
    return a && !is_false(a);
}

/* Whether what the module gives may be (part of) what it takes; a chain's: when that is so of all in it. */
static bool gives_input(const fx_module *m, int depth)
{
    const fx_class *c = m->body || depth >= MAX_DEPTH ? NULL : fx_module_class_of(m);
    if (!c)
        return true;
    bool all = true;
    for (size_t i = 0; c->flags & FX_MODULE_CHAIN && i < m->n_children && all; i++)
        all = gives_input(m->children[i], depth + 1);
    return c->flags & FX_MODULE_CHAIN ? all : c->flags & FX_MODULE_VIEW || is_true(fx_module_config(m, "inplace"));
}

/* own: what it takes is memory made since the outermost module began, which nobody else sees. */
static unsigned module_effects(const fx_module *m, int depth, bool own)
{
    if (m->body)
        return graph_effects(m->body, depth + 1);
    const fx_class *c = fx_module_class_of(m);
    if (!c)
        return FX_EFFECT_UNKNOWN;
    unsigned e = !own && is_true(fx_module_config(m, "inplace")) ? FX_EFFECT_WRITES : 0;
    if (is_true(fx_module_config(m, "training"))) {
        e |= c->flags & FX_MODULE_RANDOM ? FX_EFFECT_RANDOM : 0;
        e |= c->flags & FX_MODULE_STATISTICS && is_true(fx_module_config(m, "track_running_stats")) ? FX_EFFECT_WRITES : 0;
    }
    /* A chain: what is in it, which is below it in the tree. */
    for (size_t i = 0; c->flags & FX_MODULE_CHAIN && i < m->n_children; i++) {
        e |= depth < MAX_DEPTH ? module_effects(m->children[i], depth + 1, own) : FX_EFFECT_UNKNOWN;
        own = own || !gives_input(m->children[i], depth + 1);
    }
    return e;
}

typedef struct subgraphs {
    unsigned effects;
    int depth;
} subgraphs;

static const fx_arg *subgraph_effects(void *user, const fx_arg *leaf)
{
    subgraphs *s = user;
    if (leaf->kind == FX_ARG_GRAPH)
        s->effects |= graph_effects(leaf->graph, s->depth + 1);
    return leaf;
}

static unsigned effects(const fx_node *n, int depth)
{
    switch (n->opcode) {
    case FX_GET_ATTR: return 0;
    case FX_CALL_FUNCTION:
    case FX_CALL_METHOD: break;
    case FX_CALL_MODULE: {
        const fx_module *m = fx_module_find(n->graph, n->target);
        return m ? module_effects(m, depth, false) : FX_EFFECT_UNKNOWN;
    }
    default: return FX_EFFECT_KEEP;
    }
    const fx_target_facts *info = info_of(n);
    unsigned e = info->effects & (FX_EFFECT_RANDOM | FX_EFFECT_KEEP | FX_EFFECT_UNKNOWN);
    if (info->effects & (TRAINING_RANDOM | TRAINING_WRITES) && is_training(n, info))
        e |= info->effects & TRAINING_RANDOM ? FX_EFFECT_RANDOM : FX_EFFECT_WRITES;
    for (int i = 0; i < n->n_operands && !(e & FX_EFFECT_WRITES); i++)
        e |= !(e & FX_EFFECT_UNKNOWN) && fx_node_writes(n, i) ? FX_EFFECT_WRITES : 0;
    if (info->effects & FX_EFFECT_UNKNOWN) {
        subgraphs s = {0, depth};
        fx_arg_map(n->graph->ctx, n->args, subgraph_effects, &s);
        e |= s.effects;
    }
    return e;
}

unsigned fx_node_effects(const fx_node *n)
{
    return effects(n, 0);
}

typedef struct search {
    int64_t operand;
    bool found;
} search;

static void look_for(void *user, int64_t operand)
{
    search *s = user;
    s->found = s->found || operand == s->operand;
}

static bool names_operand(const fx_arg *a, int operand)
{
    search s = {operand, false};
    fx_arg_operands(a, look_for, &s);
    return s.found;
}

/* Numbers and texts are not changed in place: n += 1 makes a new number. */
static bool is_immutable(const fx_type *t)
{
    return t && (t->kind == FX_TYPE_INT || t->kind == FX_TYPE_FLOAT || t->kind == FX_TYPE_BOOL || t->kind == FX_TYPE_STR ||
                 t->kind == FX_TYPE_NONE);
}

/* The argument that an in-place call writes. */
static const fx_arg *first_argument(const fx_node *n)
{
    return n->args->n ? n->args->items[0] : argument(n, -1, "self", "input");
}

bool fx_node_writes(const fx_node *n, int operand)
{
    if (operand < 0 || operand >= n->n_operands || is_immutable(n->operands[operand].def->type))
        return false;
    if (n->opcode == FX_CALL_MODULE) {
        const fx_module *m = fx_module_find(n->graph, n->target);
        const fx_class *c = m && !m->body ? fx_module_class_of(m) : NULL;
        if (!c || c->flags & FX_MODULE_CHAIN)
            return !m || (module_effects(m, 0, false) & (FX_EFFECT_WRITES | FX_EFFECT_UNKNOWN));
        const fx_arg *first = first_argument(n);
        return is_true(fx_module_config(m, "inplace")) && first && names_operand(first, operand);
    }
    if (n->opcode != FX_CALL_FUNCTION && n->opcode != FX_CALL_METHOD)
        return false;
    const fx_target_facts *info = info_of(n);
    if (info->effects & FX_EFFECT_UNKNOWN)
        return true;
    if (!(info->effects & (WRITES | INPLACE | TRAINING_WRITES)) && !n->kwargs->n)
        return false;
    const fx_arg *a = is_in_place(n, info) ? first_argument(n) : NULL;
    if (a && names_operand(a, operand))
        return true;
    if ((a = argument(n, -1, "out", "out")) != NULL && names_operand(a, operand))
        return true;
    if (!(info->effects & TRAINING_WRITES) || !is_training(n, info))
        return false;
    /* running_mean and running_var stand among arguments 1 to 4 in all spellings. */
    for (int i = 1; i <= 4 && i < n->args->n; i++)
        if (names_operand(n->args->items[i], operand))
            return true;
    for (int i = 0; i < n->kwargs->n; i++)
        if (starts(n->kwargs->keys[i], "running_") && names_operand(n->kwargs->items[i], operand))
            return true;
    return false;
}

bool fx_node_may_return(const fx_node *n, int operand)
{
    if (operand < 0 || operand >= n->n_operands)
        return false;
    unsigned shares = 0;
    if (n->opcode == FX_CALL_MODULE) {
        const fx_module *m = fx_module_find(n->graph, n->target);
        if (!m || m->body || !fx_module_class_of(m))
            return true;
        shares = gives_input(m, 0) ? VIEW : FRESH;
    } else if (n->opcode == FX_CALL_FUNCTION || n->opcode == FX_CALL_METHOD) {
        const fx_target_facts *info = info_of(n);
        shares = info->effects & (VIEW | FRESH);
        if (!(shares & VIEW) && is_in_place(n, info))
            shares = VIEW;
        const fx_arg *out = n->kwargs->n ? argument(n, -1, "out", "out") : NULL;
        if (out && names_operand(out, operand))
            return true;
    } else {
        return n->opcode == FX_OUTPUT;
    }
    if (shares & VIEW) {
        const fx_arg *first = first_argument(n);
        return !first || names_operand(first, operand);
    }
    return !(shares & FRESH);
}

typedef struct question {
    const fx_node *node;
    bool answer;
} question;

static fx_status ask_impure(void *arg)
{
    question *q = arg;
    q->answer = (fx_node_effects(q->node) & (FX_EFFECT_RANDOM | FX_EFFECT_KEEP | FX_EFFECT_WRITES)) != 0;
    return FX_OK;
}

bool fx_node_is_impure(const fx_node *node)
{
    question q = {node, true};
    return node && (fx_protect(node->graph->ctx, ask_impure, &q) != FX_OK || q.answer);
}

/* ---- which values share memory ---------------------------------------------------------------------------------------------------- */

enum { EXTERNAL = 1, RETURNED = 2 };

struct fx_alias {
    uint32_t n_ids;
    uint32_t *set;      /* by node id: its set, named by a node's id */
    uint32_t *position; /* in the order of the graph */
    uint8_t *flags;     /* by set */
    uint32_t *first;    /* by set: where its writes begin in `writes`; one more at the end */
    uint32_t *writes;   /* positions of writing nodes, in order */
};

static uint32_t find(uint32_t *set, uint32_t i)
{
    while (set[i] != i)
        i = set[i] = set[set[i]];
    return i;
}

/* The greater id joins the smaller: chains stay short because defs mostly come first, and are halved by every find. */
static void unite(uint32_t *set, uint32_t a, uint32_t b)
{
    a = find(set, a);
    b = find(set, b);
    if (a < b)
        set[b] = a;
    else
        set[a] = b;
}

typedef struct write {
    uint32_t id, position;
} write;

typedef struct builder {
    fx_alias *a;
    fx_map memory; /* of attributes -> the first get_attr node of it */
    write *writes;
    size_t n, cap;
    fx_arena *scratch;
} builder;

static const void *memory_of(const fx_graph *g, const char *path)
{
    const fx_attr *a = fx_attr_find(g, path);
    const void *memory = a ? (a->tensor.storage ? (const void *)a->tensor.storage : a->tensor.data) : NULL;
    return memory ? memory : path;
}

static void add_write(builder *b, const fx_node *def, uint32_t position)
{
    FX_PUSH(b->scratch, b->writes, b->n, b->cap) = (write){def->id, position};
}

/* A module that writes buffers of its own or of what is in it. */
static void add_module_writes(builder *b, const fx_module *m, uint32_t position, int depth)
{
    if (!(module_effects(m, 0, false) & (FX_EFFECT_WRITES | FX_EFFECT_UNKNOWN)))
        return;
    for (size_t i = 0; i < m->n_attrs; i++) {
        const fx_node *other = fx_map_get(&b->memory, memory_of(m->graph, m->attrs[i]->path));
        if (other)
            add_write(b, other, position);
    }
    for (size_t i = 0; i < m->n_children && depth < MAX_DEPTH; i++)
        add_module_writes(b, m->children[i], position, depth + 1);
}

static void add_node(builder *b, const fx_node *n, uint32_t position)
{
    fx_alias *a = b->a;
    a->position[n->id] = position;
    if (n->opcode == FX_GET_ATTR) {
        const void *memory = memory_of(n->graph, n->target);
        const fx_node *other = fx_map_get(&b->memory, memory);
        if (other)
            unite(a->set, n->id, other->id);
        else
            fx_map_put(b->scratch, &b->memory, memory, (void *)n);
    }
    a->flags[n->id] = n->opcode == FX_GET_ATTR || n->opcode == FX_PLACEHOLDER ? EXTERNAL : 0;
    for (int i = 0; i < n->n_operands; i++) {
        const fx_node *def = n->operands[i].def;
        if (n->opcode == FX_OUTPUT)
            a->flags[def->id] |= RETURNED;
        else if (fx_node_may_return(n, i))
            unite(a->set, n->id, def->id);
        if (fx_node_writes(n, i))
            add_write(b, def, position);
    }
    const fx_module *m = n->opcode == FX_CALL_MODULE ? fx_module_find(n->graph, n->target) : NULL;
    if (m)
        add_module_writes(b, m, position, 0);
}

fx_alias *fx_alias_new(const fx_graph *g, fx_arena *arena)
{
    fx_alias *a = FX_NEW(arena, fx_alias);
    builder b = {.a = a, .scratch = arena};
    a->n_ids = g->n_ids;
    a->set = FX_NEW_ARRAY(arena, uint32_t, a->n_ids);
    a->position = FX_NEW_ARRAY(arena, uint32_t, a->n_ids);
    a->flags = FX_NEW_ARRAY(arena, uint8_t, a->n_ids);
    for (uint32_t i = 0; i < a->n_ids; i++)
        a->set[i] = i;
    uint32_t position = 0;
    /* get_attr nodes first: a module's buffers may be read by one that comes later. */
    FX_FOR_NODES(g, n)
        add_node(&b, n, ++position);
    for (uint32_t i = 0; i < a->n_ids; i++) {
        a->set[i] = find(a->set, i);
        a->flags[a->set[i]] |= a->flags[i];
    }
    /* Writes by set, in order. */
    a->first = FX_NEW_ARRAY(arena, uint32_t, (size_t)a->n_ids + 2);
    a->writes = FX_NEW_ARRAY(arena, uint32_t, b.n);
    for (size_t i = 0; i < b.n; i++)
        a->first[a->set[b.writes[i].id] + 2]++;
    for (uint32_t i = 2; i < a->n_ids + 2; i++)
        a->first[i] += a->first[i - 1];
    for (size_t i = 0; i < b.n; i++)
        a->writes[a->first[a->set[b.writes[i].id] + 1]++] = b.writes[i].position;
    return a;
}

static bool is_new(const fx_alias *a, const fx_node *n)
{
    return n->id >= a->n_ids;
}

bool fx_alias_may(const fx_alias *a, const fx_node *x, const fx_node *y)
{
    return is_new(a, x) || is_new(a, y) || a->set[x->id] == a->set[y->id];
}

bool fx_alias_written(const fx_alias *a, const fx_node *n, const fx_node *from, const fx_node *to)
{
    if (is_new(a, n))
        return true;
    uint32_t set = a->set[n->id], low = a->first[set], high = a->first[set + 1], end = high;
    uint32_t after = from && !is_new(a, from) ? a->position[from->id] : 0;
    uint32_t before = to && !is_new(a, to) ? a->position[to->id] : UINT32_MAX;
    while (low < high) { /* the first write after `after` */
        uint32_t middle = low + (high - low) / 2;
        if (a->writes[middle] > after)
            high = middle;
        else
            low = middle + 1;
    }
    return low < end && a->writes[low] < before;
}

bool fx_alias_is_external(const fx_alias *a, const fx_node *n)
{
    return is_new(a, n) || (a->flags[a->set[n->id]] & EXTERNAL);
}

bool fx_alias_is_returned(const fx_alias *a, const fx_node *n)
{
    return is_new(a, n) || (a->flags[a->set[n->id]] & RETURNED);
}

/* ---- graphs in graphs --------------------------------------------------------------------------------------------------------------- */

/* A graph that is called: writes count only where they reach what it was given or holds. */
static unsigned graph_effects(const fx_graph *g, int depth)
{
    if (depth > MAX_DEPTH)
        return FX_EFFECT_UNKNOWN;
    unsigned all = 0;
    bool writes = false;
    FX_FOR_NODES(g, n) {
        unsigned e = n->opcode == FX_PLACEHOLDER || n->opcode == FX_OUTPUT ? 0 : effects(n, depth);
        writes = writes || (e & (FX_EFFECT_WRITES | FX_EFFECT_UNKNOWN));
        all |= e & ~(unsigned)FX_EFFECT_WRITES;
    }
    if (!writes || (all & FX_EFFECT_UNKNOWN))
        return all;
    fx_arena *scratch = fx_arena_create(g->ctx);
    const fx_alias *a = fx_alias_new(g, scratch);
    FX_FOR_NODES(g, n)
        if (fx_alias_is_external(a, n) && fx_alias_written(a, n, NULL, NULL))
            all |= FX_EFFECT_WRITES;
    fx_arena_free(scratch);
    return all;
}
