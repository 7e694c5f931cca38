/* ir/graph.c: nodes, their operands and uses, editing, copying; the accessors of fxcc/graph.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A node's template numbers its operands 0, 1, 2, ... from left to right, each number once (x * x has two operands), so
 * that equal calls have equal templates whatever edits made them. */
#include <string.h>

#include "ir/context.h"

/* ---- names: FX's rules --------------------------------------------------------------------------------------------- */

static bool in_list(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

/* Python's keywords can be no node's name; its builtins are not given to nodes by us, as in FX, but kept when a file does. */
static bool is_reserved(const char *name, bool given)
{
    static const char *const keywords[] = {"False", "None", "True", "and", "as", "assert", "async", "await", "break", "class",
        "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
        "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield"};
    static const char *const builtins[] = {"abs", "all", "any", "ascii", "bin", "bool", "breakpoint", "bytearray", "bytes",
        "callable", "chr", "classmethod", "compile", "complex", "copyright", "credits", "delattr", "dict", "dir", "divmod",
        "enumerate", "eval", "exec", "exit", "filter", "float", "format", "frozenset", "getattr", "globals", "hasattr", "hash",
        "help", "hex", "id", "input", "int", "isinstance", "issubclass", "iter", "len", "license", "list", "locals", "map", "max",
        "memoryview", "min", "next", "object", "oct", "open", "ord", "pow", "print", "property", "quit", "range", "repr",
        "reversed", "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type", "vars",
        "zip", "device", "dtype", "inf", "nan", "torch", "fx_pytree", "pytree"};
    return in_list(name, keywords, sizeof keywords / sizeof *keywords) ||
           (!given && in_list(name, builtins, sizeof builtins / sizeof *builtins));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A Python identifier from any text: each run of illegal bytes becomes "_". */
static const char *identifier(fx_context *ctx, const char *text)
{
    size_t n = strlen(text), k = 0;
    char small[256], *out = n + 2 <= sizeof small ? small : fx_arena_alloc(ctx->arena, n + 2);
    if (is_digit(*text))
        out[k++] = '_';
    for (const char *p = text; *p; p++) {
        if (is_word(*p))
            out[k++] = *p;
        else if (p == text || is_word(p[-1]))
            out[k++] = '_';
    }
    return k == 0 ? fx_intern(ctx, "_unnamed") : fx_intern_n(ctx, out, k);
}

/* "base_num", interned. The most common formatting there is, so not by printf. */
static const char *numbered_name(fx_context *ctx, const char *base, uintptr_t num)
{
    char buf[256], *p = buf + sizeof buf;
    size_t n = strlen(base);
    if (n > sizeof buf - 24)
        return fx_intern_f(ctx, "%s_%zu", base, (size_t)num);
    do
        *--p = (char)('0' + num % 10);
    while (num /= 10);
    *--p = '_';
    p -= n;
    memcpy(p, base, n);
    return fx_intern_n(ctx, p, (size_t)(buf + sizeof buf - p));
}

/* FX's _Namespace.create_name: the candidate (an interned identifier) if it is free, else its base with the next number. */
static const char *unique_name(fx_graph *g, const char *name, bool given)
{
    size_t n = strlen(name), end = n;
    while (end > 0 && is_digit(name[end - 1]))
        end--;
    uintptr_t num = 0;
    bool numbered = end < n && n - end <= 9 && end > 1 && name[end - 1] == '_';
    const char *base = numbered ? fx_intern_n(g->ctx, name, end - 1) : name;
    for (size_t i = end; numbered && i < n; i++)
        num = num * 10 + (uintptr_t)(name[i] - '0');
    bool taken = fx_map_get(&g->by_name, name) != NULL;
    if (!numbered || taken) {
        num = (uintptr_t)fx_map_get(&g->name_counts, base);
        taken = taken || is_reserved(name, given);
    }
    while (taken) {
        name = numbered_name(g->ctx, base, ++num);
        taken = fx_map_get(&g->by_name, name) != NULL;
    }
    if (num)
        fx_map_put(g->arena, &g->name_counts, base, (void *)num);
    return name;
}

/* A name from a target: the function's ("aten.relu_.default" -> "relu_", "_operator.mul" -> "mul"), or the whole path of a
 * module or attribute; lower case with "_" before capitals. */
static const char *name_of_target(fx_context *ctx, fx_opcode opcode, const char *target)
{
    const char *p = target;
    size_t n = strlen(p);
    if (opcode == FX_CALL_FUNCTION) {
        const char *const spaces[] = {"torch.ops.aten.", "aten."};
        bool packet = false;
        for (size_t i = 0; i < 2 && !packet; i++)
            if (strncmp(p, spaces[i], strlen(spaces[i])) == 0) {
                p += strlen(spaces[i]);
                n = strcspn(p, ".");
                packet = true;
            }
        const char *dot = packet ? NULL : strrchr(p, '.');
        if (dot && dot[1]) {
            p = dot + 1;
            n = strlen(p);
        }
    }
    if (n > 4 && strncmp(p, "__", 2) == 0 && strncmp(p + n - 2, "__", 2) == 0) {
        p += 2;
        n -= 4;
    }
    if (n > 2000)
        n = 2000;
    char small[256], *out = 2 * n < sizeof small ? small : fx_arena_alloc(ctx->arena, 2 * n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        bool capital = p[i] >= 'A' && p[i] <= 'Z';
        if (capital && i > 0 && p[i - 1] >= 'a' && p[i - 1] <= 'z')
            out[k++] = '_';
        out[k++] = capital ? (char)(p[i] - 'A' + 'a') : p[i];
    }
    out[k] = '\0';
    return identifier(ctx, out);
}

static const char *name_of(fx_graph *g, const fx_node *n, const char *given)
{
    if (given)
        return unique_name(g, identifier(g->ctx, given), true);
    if (n->opcode != FX_CALL_FUNCTION)
        return unique_name(g, name_of_target(g->ctx, n->opcode, n->target), false);
    fx_target_info *info = fx_target_lookup(g->ctx, n->target);
    if (!info->base)
        info->base = name_of_target(g->ctx, FX_CALL_FUNCTION, n->target);
    return unique_name(g, info->base, false);
}

fx_node *fx_graph_find_node(const fx_graph *g, const char *name)
{
    return fx_map_get(&g->by_name, fx_intern(g->ctx, name));
}

/* ---- operands and uses ------------------------------------------------------------------------------------------------ */

static void link_use(fx_use *u, fx_node *def, fx_node *user)
{
    u->def = def;
    u->user = user;
    u->prev = def->last_use;
    u->next = NULL;
    if (u->prev)
        u->prev->next = u;
    else
        def->first_use = u;
    def->last_use = u;
    def->n_uses++;
}

static void unlink_use(fx_use *u)
{
    fx_node *def = u->def;
    if (u->prev)
        u->prev->next = u->next;
    else
        def->first_use = u->next;
    if (u->next)
        u->next->prev = u->prev;
    else
        def->last_use = u->prev;
    u->prev = u->next = NULL;
    u->def = NULL;
    def->n_uses--;
}

typedef struct walk {
    fx_context *ctx;
    fx_arena *arena;
    int64_t n;            /* operands seen */
    bool in_order;
    fx_node *const *from; /* operands by the given numbers */
    int n_from;
    fx_node **to;         /* operands by the new ones */
} walk;

static void count_operand(void *user, int64_t operand)
{
    walk *w = user;
    w->in_order = w->in_order && operand == w->n;
    w->n++;
}

static const fx_arg *renumber(void *user, const fx_arg *leaf)
{
    walk *w = user;
    if (leaf->kind != FX_ARG_NODE)
        return leaf;
    if (leaf->i < 0 || leaf->i >= w->n_from || !w->from[leaf->i])
        return fx_arg_none(w->ctx); /* only a caller's mistake; the verifier has no operand to complain about */
    w->to[w->n] = w->from[leaf->i];
    return fx_arg_operand(w->ctx, (int)w->n++);
}

static void set_operands(fx_node *n, const fx_arg *args, const fx_arg *kwargs, int n_operands, fx_node *const *operands)
{
    fx_graph *g = n->graph;
    fx_context *ctx = g->ctx;
    if (!args)
        args = ctx->empty_tuple;
    if (!kwargs)
        kwargs = ctx->empty_dict;
    walk w = {.ctx = ctx, .in_order = true, .from = operands, .n_from = n_operands};
    fx_arg_operands(args, count_operand, &w);
    fx_arg_operands(kwargs, count_operand, &w);
    int count = (int)w.n;
    /* Taken aside first: `operands` may be read from the very array that is overwritten below. */
    fx_node *small[16], **defs = w.to = count <= 16 ? small : FX_NEW_ARRAY(g->arena, fx_node *, count);
    bool direct = w.in_order && count <= n_operands;
    for (int i = 0; direct && i < count; i++) {
        defs[i] = operands[i];
        direct = operands[i] != NULL;
    }
    if (!direct) {
        w.n = 0;
        args = fx_arg_map(ctx, args, renumber, &w);
        kwargs = fx_arg_map(ctx, kwargs, renumber, &w);
        count = (int)w.n;
    }
    fx_use *array = count > n->n_operands ? FX_NEW_ARRAY(g->arena, fx_use, count) : n->operands;
    for (int i = 0; i < n->n_operands; i++)
        unlink_use(&n->operands[i]);
    n->args = args;
    n->kwargs = kwargs;
    n->operands = array;
    n->n_operands = count;
    for (int i = 0; i < count; i++)
        link_use(&array[i], defs[i], n);
}

void fx_node_assign(fx_node *n, const fx_arg *args, const fx_arg *kwargs, int n_operands, fx_node *const *operands)
{
    set_operands(n, args, kwargs, n_operands, operands);
    n->type = NULL;
}

/* What a user computes does not change when an operand gives way to one of the same type. */
static bool same_value_type(const fx_type *a, const fx_type *b)
{
    return a && (a == b || (fx_type_same_shape(a, b) && a->dtype == b->dtype));
}

void fx_node_set_operand(fx_node *n, int operand, fx_node *by)
{
    fx_use *u = &n->operands[operand];
    if (u->def == by)
        return;
    if (!same_value_type(u->def->type, by->type))
        n->type = NULL;
    unlink_use(u);
    link_use(u, by, n);
}

void fx_node_replace_uses(fx_node *old, fx_node *by)
{
    if (old == by)
        return;
    bool same = same_value_type(old->type, by->type);
    while (old->first_use) {
        fx_use *u = old->first_use;
        fx_node *user = u->user;
        unlink_use(u);
        link_use(u, by, user);
        if (!same)
            user->type = NULL;
    }
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

static void insert_before(fx_node *n, fx_node *at)
{
    fx_graph *g = n->graph;
    n->next = at;
    n->prev = at ? at->prev : g->last;
    if (n->prev)
        n->prev->next = n;
    else
        g->first = n;
    if (at)
        at->prev = n;
    else
        g->last = n;
}

/* n keeps its own prev and next, so that a walk standing on n goes on. */
static void take_out(fx_node *n)
{
    fx_graph *g = n->graph;
    if (n->prev)
        n->prev->next = n->next;
    else
        g->first = n->next;
    if (n->next)
        n->next->prev = n->prev;
    else
        g->last = n->prev;
    if (g->insert_before == n)
        g->insert_before = n->next;
}

fx_node *fx_node_new(fx_graph *g, fx_opcode opcode, const char *target, const fx_arg *args, const fx_arg *kwargs,
                     int n_operands, fx_node *const *operands, const char *name)
{
    fx_node *n = FX_NEW(g->arena, fx_node);
    n->graph = g;
    n->opcode = (uint8_t)opcode;
    n->target = fx_intern(g->ctx, target);
    if (opcode == FX_CALL_FUNCTION)
        n->op = fx_target_lookup(g->ctx, n->target)->op;
    set_operands(n, args, kwargs, n_operands, operands);
    n->name = name_of(g, n, name);
    fx_map_put(g->arena, &g->by_name, n->name, n);
    n->loc = (fx_loc){.file = g->file, .node = n->name};
    n->id = g->n_ids++;
    g->n_nodes++;
    insert_before(n, g->insert_before);
    return n;
}

fx_status fx_node_erase(fx_node *n)
{
    fx_graph *g = n->graph;
    if (n->erased)
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, &n->loc, "the node is already erased");
    if (n->first_use) {
        fx_text users;
        fx_text_init(&users, g->ctx->diag_arena);
        const fx_use *u = n->first_use;
        for (int i = 0; u && i < 5; u = u->next, i++)
            fx_printf(&users, "%s'%s'", i ? ", " : "", u->user->name);
        return fx_fail(g->ctx, FX_ERR_ARGUMENT, &n->loc, "cannot be erased: expected no uses, got %d, by %s%s", n->n_uses, users.data,
                       u ? ", ..." : "");
    }
    for (int i = 0; i < n->n_operands; i++)
        unlink_use(&n->operands[i]);
    fx_map_remove(&g->by_name, n->name);
    take_out(n);
    n->n_operands = 0;
    n->erased = true;
    g->n_nodes--;
    return FX_OK;
}

void fx_node_move_before(fx_node *n, fx_node *at)
{
    if (n == at || n->next == at)
        return;
    fx_node *insertion = n->graph->insert_before;
    take_out(n);
    n->graph->insert_before = insertion;
    insert_before(n, at);
}

bool fx_node_is_inplace(const fx_node *n)
{
    return n->op && fx_target_lookup(n->graph->ctx, n->target)->inplace;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------------------- */

fx_graph *fx_graph_new(fx_context *ctx, const char *name)
{
    fx_arena *arena = fx_arena_create(ctx);
    fx_graph *g = FX_NEW(arena, fx_graph);
    g->ctx = ctx;
    g->arena = arena;
    g->name = fx_intern(ctx, name);
    g->root = FX_NEW(arena, fx_module);
    g->root->graph = g;
    g->root->name = g->root->path = fx_intern(ctx, "");
    return g;
}

fx_node *fx_graph_output_node(const fx_graph *g)
{
    for (fx_node *n = g->last; n; n = n->prev)
        if (n->opcode == FX_OUTPUT)
            return n;
    return NULL;
}

/* ---- copying ----------------------------------------------------------------------------------------------------------------- */

fx_meta *fx_meta_copy(fx_graph *to, const fx_meta *from)
{
    fx_meta *first = NULL, **end = &first;
    for (; from; from = from->next, end = &(*end)->next) {
        *end = fx_arena_dup(to->arena, from, sizeof *from);
        (*end)->next = NULL;
    }
    return first;
}

static void copy_module(fx_graph *to, fx_module *into, const fx_module *from)
{
    into->class_name = from->class_name;
    into->config = from->config;
    into->body = from->body ? fx_graph_copy(from->body) : NULL;
    into->meta = fx_meta_copy(to, from->meta);
    for (size_t i = 0; i < from->n_attrs; i++) {
        const fx_attr *a = from->attrs[i];
        fx_attr *b = fx_attr_add(to, a->path, &a->tensor, false);
        b->is_parameter = a->is_parameter;
        b->persistent = a->persistent;
        b->hash = a->hash;
        b->type = a->type;
    }
    for (size_t i = 0; i < from->n_children; i++)
        copy_module(to, fx_module_make(to, from->children[i]->path), from->children[i]);
}

/* Subgraphs of control flow are part of the graph. */
static const fx_arg *copy_subgraph(void *user, const fx_arg *leaf)
{
    return leaf->kind == FX_ARG_GRAPH ? fx_arg_graph(user, fx_graph_copy(leaf->graph)) : leaf;
}

fx_graph *fx_graph_copy(const fx_graph *g)
{
    fx_context *ctx = g->ctx;
    fx_graph *c = fx_graph_new(ctx, g->name);
    c->file = g->file;
    c->stage = g->stage;
    c->in_tree = g->in_tree;
    c->out_tree = g->out_tree;
    c->symbols = fx_arena_dup(c->arena, g->symbols, g->n_symbols * sizeof *g->symbols);
    c->n_symbols = c->cap_symbols = g->n_symbols;
    copy_module(c, c->root, g->root);
    fx_node **by_id = FX_NEW_ARRAY(c->arena, fx_node *, g->n_ids);
    fx_node **operands = NULL;
    size_t cap = 0;
    FX_FOR_NODES(g, n) {
        while (cap < (size_t)n->n_operands)
            operands = fx_arena_grow(c->arena, operands, cap, &cap, sizeof *operands);
        for (int i = 0; i < n->n_operands; i++)
            operands[i] = by_id[n->operands[i].def->id];
        fx_node *m = fx_node_new(c, n->opcode, n->target, fx_arg_map(ctx, n->args, copy_subgraph, ctx),
                                 fx_arg_map(ctx, n->kwargs, copy_subgraph, ctx), n->n_operands, operands, n->name);
        m->op = n->op;
        m->type = n->type;
        m->loc = n->loc;
        m->loc.node = m->name;
        m->meta = fx_meta_copy(c, n->meta);
        by_id[n->id] = m;
    }
    return c;
}

/* ---- fxcc/graph.h ---------------------------------------------------------------------------------------------------------------- */

const char *fx_opcode_name(fx_opcode opcode)
{
    static const char *const names[] = {"placeholder", "get_attr", "call_function", "call_method", "call_module", "output"};
    return (unsigned)opcode < sizeof names / sizeof *names ? names[opcode] : "unknown";
}

fx_node *fx_graph_first(const fx_graph *graph)
{
    return graph->first;
}

fx_node *fx_node_next(const fx_node *node)
{
    return node->next;
}

fx_opcode fx_node_opcode(const fx_node *node)
{
    return node->opcode;
}

const char *fx_node_name(const fx_node *node)
{
    return node->name;
}

const char *fx_node_target(const fx_node *node)
{
    return node->target;
}

size_t fx_graph_node_count(const fx_graph *graph)
{
    return graph->n_nodes;
}
