/* ir/value.c: arguments as users see them (fx_value: nested, nodes as leaves) and as the graph keeps them (templates over operands).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/context.h"

enum { MAX_DEPTH = 100 }; /* of nesting, as in texts */

static bool is_container(fx_arg_kind kind)
{
    return kind == FX_ARG_LIST || kind == FX_ARG_TUPLE || kind == FX_ARG_DICT || kind == FX_ARG_SLICE;
}

/* ---- from users -------------------------------------------------------------------------------------------------------------- */

void fx_values_begin(fx_values *v, fx_context *ctx, fx_graph *g, const fx_loc *loc)
{
    v->ctx = ctx;
    v->graph = g;
    v->loc = loc;
    v->n = 0;
    v->cap = sizeof v->small / sizeof *v->small;
    v->nodes = v->small;
}

static fx_status refuse(const fx_values *v, const char *text)
{
    return fx_fail(v->ctx, FX_ERR_ARGUMENT, v->loc, "%s", text);
}

fx_status fx_node_check(fx_context *ctx, const fx_graph *g, const fx_node *n, const fx_loc *loc, const char *role)
{
    if (!n)
        return fx_fail(ctx, FX_ERR_ARGUMENT, loc, "%s is NULL, expected a node of the graph '%s'", role, g->name);
    if (n->graph != g)
        return fx_fail(ctx, FX_ERR_ARGUMENT, loc, "%s, '%s', is a node of another graph, '%s', expected one of '%s'", role, n->name,
                       n->graph->name, g->name);
    if (n->erased)
        return fx_fail(ctx, FX_ERR_ARGUMENT, loc, "%s, '%s', is erased", role, n->name);
    return FX_OK;
}

static fx_status add_node(fx_values *v, fx_node *n, const fx_arg **out)
{
    if (!v->graph)
        return refuse(v, "a node was given where only constants are kept");
    FX_TRY(fx_node_check(v->ctx, v->graph, n, v->loc, "an argument"));
    v->nodes = fx_arena_grow(v->ctx->arena, v->nodes, v->n, &v->cap, sizeof *v->nodes);
    *out = fx_arg_operand(v->ctx, (int)v->n);
    v->nodes[v->n++] = n;
    return FX_OK;
}

/* Graphs that graphs hold, as arguments or modules. */
/* Graphs under one that becomes an argument, with the level each then is at. A graph is looked at again when it turns out to be deeper. */
typedef struct reach {
    fx_context *ctx;
    fx_map level;     /* graph -> level, of those that were met */
    fx_graph **todo, **met;
    size_t n, cap, n_met, cap_met;
    uintptr_t here;   /* the level of what is looked at */
} reach;

static void go_to(reach *r, fx_graph *g, uintptr_t level)
{
    uintptr_t known = g ? (uintptr_t)fx_map_get(&r->level, g) : level;
    if (known >= level)
        return;
    if (!known)
        FX_PUSH(r->ctx->arena, r->met, r->n_met, r->cap_met) = g;
    fx_map_put(r->ctx->arena, &r->level, g, (void *)level);
    FX_PUSH(r->ctx->arena, r->todo, r->n, r->cap) = g;
}

static const fx_arg *go_to_leaf(void *user, const fx_arg *leaf)
{
    reach *r = user;
    if (leaf->kind == FX_ARG_GRAPH)
        go_to(r, leaf->graph, r->here + 1);
    return leaf;
}

/* Graphs that hold graphs are walked by recursion, so their depth is limited. */
enum { MOST_LEVELS = 50 };

/* Puts g a level below `holder`: refused when it holds the holder, or when anything would be too deep. */
static const char *hang_below(fx_context *ctx, fx_graph *g, fx_graph *holder)
{
    reach r = {.ctx = ctx};
    go_to(&r, g, (uintptr_t)holder->level + 1);
    while (r.n > 0) {
        const fx_graph *at = r.todo[--r.n];
        r.here = (uintptr_t)fx_map_get(&r.level, at);
        if (at == holder)
            return "a graph cannot be an argument of its own nodes, nor of those of a graph it holds";
        if (r.here > MOST_LEVELS)
            return "graphs can be nested 50 deep at most";
        FX_FOR_NODES(at, n) {
            fx_arg_map(ctx, n->args, go_to_leaf, &r);
            fx_arg_map(ctx, n->kwargs, go_to_leaf, &r);
        }
        for (const fx_module *m = at->root; m; m = fx_graph_next_module(at, m))
            go_to(&r, m->body, r.here + 1);
    }
    for (size_t i = 0; i < r.n_met; i++) {
        int level = (int)(uintptr_t)fx_map_get(&r.level, r.met[i]);
        if (r.met[i]->level < level)
            r.met[i]->level = level;
    }
    return NULL;
}

typedef struct reread {
    fx_values *v;
    const fx_node *of;
    fx_status status;
} reread;

/* Leaves of a tree read from a node. */
static const fx_arg *reread_leaf(void *user, const fx_arg *leaf)
{
    reread *r = user;
    const fx_arg *out = leaf;
    if (leaf->kind == FX_ARG_NODE && r->status == FX_OK) {
        fx_node *def = r->of && leaf->i >= 0 && leaf->i < r->of->n_operands ? r->of->operands[leaf->i].def : NULL;
        r->status = add_node(r->v, def, &out);
    }
    return out;
}

static fx_status leaf(fx_values *v, const fx_value *value, const fx_arg **out)
{
    fx_context *ctx = v->ctx;
    switch (value->kind) {
    case FX_ARG_NODE: return add_node(v, value->as.node, out);
    case FX_ARG_NONE: *out = fx_arg_none(ctx); return FX_OK;
    case FX_ARG_BOOL: *out = fx_arg_bool(ctx, value->as.b); return FX_OK;
    case FX_ARG_INT: *out = fx_arg_int(ctx, value->as.i); return FX_OK;
    case FX_ARG_FLOAT: *out = fx_arg_float(ctx, value->as.f[0]); return FX_OK;
    case FX_ARG_COMPLEX: *out = fx_arg_complex(ctx, value->as.f[0], value->as.f[1]); return FX_OK;
    case FX_ARG_ELLIPSIS: *out = fx_arg_ellipsis(ctx); return FX_OK;
    case FX_ARG_DTYPE:
        if ((unsigned)value->as.dtype >= FX_DTYPE_COUNT)
            return fx_fail(ctx, FX_ERR_ARGUMENT, v->loc, "a dtype must be below %d, got %d", FX_DTYPE_COUNT, (int)value->as.dtype);
        *out = fx_arg_dtype(ctx, value->as.dtype);
        return FX_OK;
    case FX_ARG_STR:
    case FX_ARG_DEVICE:
    case FX_ARG_LAYOUT:
    case FX_ARG_MEMORY_FORMAT:
        if (!value->as.s)
            return fx_fail(ctx, FX_ERR_ARGUMENT, v->loc, "a %s has no text", fx_arg_kind_name(value->kind));
        *out = fx_arg_text(ctx, value->kind, value->as.s);
        return FX_OK;
    case FX_ARG_SYM:
        if (!value->as.s || !*value->as.s)
            return refuse(v, "a symbol has no name");
        *out = fx_arg_sym(ctx, fx_sym_read(ctx, value->as.s));
        return FX_OK;
    case FX_ARG_GRAPH:
        if (!value->as.graph)
            return refuse(v, "a graph given as an argument is NULL");
        if (value->as.graph->ctx != ctx)
            return refuse(v, "a graph given as an argument belongs to another context");
        if (!v->graph)
            return refuse(v, "a graph was given where only constants are kept");
        const char *why = hang_below(ctx, value->as.graph, v->graph);
        if (why)
            return refuse(v, why);
        *out = fx_arg_graph(ctx, value->as.graph);
        return FX_OK;
    default: return fx_fail(ctx, FX_ERR_ARGUMENT, v->loc, "an argument's kind must be 0 to %d, got %d", FX_ARG_GRAPH, (int)value->kind);
    }
}

/* keys interned into out; a NULL or a repeated one is refused. */
static fx_status read_keys(const fx_values *v, int n, const char *const *keys, const char **out)
{
    fx_map seen = {0}; /* only worth it for many */
    for (int i = 0; i < n; i++) {
        if (!keys[i])
            return fx_fail(v->ctx, FX_ERR_ARGUMENT, v->loc, "key %d of %d is NULL", i, n);
        out[i] = fx_intern(v->ctx, keys[i]);
        bool twice = n > 16 && fx_map_get(&seen, out[i]);
        for (int k = 0; n <= 16 && k < i; k++)
            twice = twice || out[k] == out[i];
        if (twice)
            return fx_fail(v->ctx, FX_ERR_ARGUMENT, v->loc, "the key '%s' is given twice", out[i]);
        if (n > 16)
            fx_map_put(v->ctx->arena, &seen, out[i], (void *)out[i]);
    }
    return FX_OK;
}

static fx_status convert(fx_values *v, const fx_value *value, int depth, const fx_arg **out);

static fx_status convert_items(fx_values *v, fx_arg_kind kind, int n, const char *const *keys, const fx_value *items, int depth,
                               const fx_arg **out)
{
    const fx_arg *small[16], **args = small;
    const char *small_keys[16], **names = small_keys;
    if (n < 0 || (n > 0 && (!items || (kind == FX_ARG_DICT && !keys))))
        return fx_fail(v->ctx, FX_ERR_ARGUMENT, v->loc, "a %s says that it has %d items, but gives %s", fx_arg_kind_name(kind), n,
                       n < 0 || !items ? "none" : "no keys");
    if (kind == FX_ARG_SLICE && n != 3)
        return fx_fail(v->ctx, FX_ERR_ARGUMENT, v->loc, "a slice has 3 items, got %d", n);
    if (n > 16) {
        args = FX_NEW_ARRAY(v->ctx->arena, const fx_arg *, n);
        names = FX_NEW_ARRAY(v->ctx->arena, const char *, n);
    }
    for (int i = 0; i < n; i++)
        FX_TRY(convert(v, &items[i], depth + 1, &args[i]));
    if (kind == FX_ARG_DICT) {
        FX_TRY(read_keys(v, n, keys, names));
        *out = fx_arg_dict(v->ctx, n, names, args);
    } else {
        *out = fx_arg_seq(v->ctx, kind, n, args);
    }
    return FX_OK;
}

static fx_status convert(fx_values *v, const fx_value *value, int depth, const fx_arg **out)
{
    if (!is_container(value->kind) && (value->kind != FX_ARG_SYM || !value->tree))
        return leaf(v, value, out);
    if (value->tree) {
        reread r = {v, value->of, FX_OK};
        *out = fx_arg_map(v->ctx, value->tree, reread_leaf, &r);
        return r.status;
    }
    if (depth >= MAX_DEPTH)
        return fx_fail(v->ctx, FX_ERR_ARGUMENT, v->loc, "arguments are nested more than %d deep", MAX_DEPTH);
    return convert_items(v, value->kind, value->n, value->keys, value->as.items, depth, out);
}

fx_status fx_values_add(fx_values *v, const fx_value *value, const fx_arg **out)
{
    return convert(v, value, 0, out);
}

fx_status fx_values_tuple(fx_values *v, int n, const fx_value *items, const fx_arg **out)
{
    /* Most calls: nodes only. */
    bool plain = n >= 0 && n < FX_CACHED && items && v->n == 0 && v->graph;
    for (int i = 0; plain && i < n; i++) {
        const fx_node *def = items[i].kind == FX_ARG_NODE ? items[i].as.node : NULL;
        plain = def && def->graph == v->graph && !def->erased;
        v->small[i] = items[i].as.node;
    }
    if (plain) {
        *out = fx_arg_operand_tuple(v->ctx, n);
        v->n = (size_t)n;
        return FX_OK;
    }
    return convert_items(v, FX_ARG_TUPLE, n, NULL, items, 0, out);
}

fx_status fx_values_dict(fx_values *v, int n, const char *const *keys, const fx_value *items, const fx_arg **out)
{
    if (n == 0) {
        *out = v->ctx->empty_dict;
        return FX_OK;
    }
    return convert_items(v, FX_ARG_DICT, n, keys, items, 0, out);
}

/* ---- to users --------------------------------------------------------------------------------------------------------------------- */

typedef struct sym_text {
    fx_context *ctx;
    const fx_sym *sym;
    const char *text;
} sym_text;

static fx_status print_sym(void *arg)
{
    sym_text *s = arg;
    fx_text t;
    fx_text_init(&t, s->ctx->arena);
    fx_sym_print(&t, s->sym);
    s->text = fx_intern(s->ctx, t.data);
    return FX_OK;
}

fx_value fx_value_of(fx_context *ctx, const fx_node *of, const fx_arg *a)
{
    fx_value v = fx_v_none();
    v.kind = a->kind;
    switch (a->kind) {
    case FX_ARG_NODE:
        if (!of || a->i < 0 || a->i >= of->n_operands)
            return fx_v_none(); /* of an erased node */
        v.as.node = of->operands[a->i].def;
        break;
    case FX_ARG_BOOL: v.as.b = a->b; break;
    case FX_ARG_INT: v.as.i = a->i; break;
    case FX_ARG_FLOAT:
    case FX_ARG_COMPLEX:
        v.as.f[0] = a->f;
        v.as.f[1] = a->im;
        break;
    case FX_ARG_DTYPE: v.as.dtype = (fx_dtype)a->i; break;
    case FX_ARG_GRAPH: v.as.graph = a->graph; break;
    case FX_ARG_SYM:
        if (a->sym->kind == FX_SYM_SYMBOL || a->sym->kind == FX_SYM_OPAQUE) {
            v.as.s = a->sym->name;
        } else {
            sym_text s = {ctx, a->sym, ""};
            if (ctx) /* of a node's arguments: settings have no expressions */
                fx_protect(ctx, print_sym, &s);
            v.as.s = s.text;
        }
        v.tree = a;
        break;
    case FX_ARG_STR:
    case FX_ARG_DEVICE:
    case FX_ARG_LAYOUT:
    case FX_ARG_MEMORY_FORMAT: v.as.s = a->s; break;
    case FX_ARG_LIST:
    case FX_ARG_TUPLE:
    case FX_ARG_DICT:
    case FX_ARG_SLICE:
        v.n = a->n;
        v.keys = a->keys;
        v.tree = a;
        v.of = of;
        break;
    default: break;
    }
    return v;
}

fx_value fx_value_item(const fx_value *v, int i)
{
    if (!v || !is_container(v->kind) || i < 0 || i >= v->n)
        return fx_v_none();
    if (v->tree) {
        const fx_arg *a = ((const fx_arg *)v->tree)->items[i];
        return fx_value_of(v->of ? v->of->graph->ctx : NULL, v->of, a);
    }
    return v->as.items ? v->as.items[i] : fx_v_none();
}

const char *fx_value_key(const fx_value *v, int i)
{
    return v && v->kind == FX_ARG_DICT && v->keys && i >= 0 && i < v->n ? v->keys[i] : NULL;
}

/* ---- as text -------------------------------------------------------------------------------------------------------------------------- */

typedef struct sink {
    char *buf;
    size_t size, n; /* n: length of the whole text */
} sink;

static void put(sink *s, const char *text)
{
    for (; *text; text++, s->n++)
        if (s->n + 1 < s->size)
            s->buf[s->n] = *text;
}

static void put_quoted(sink *s, const char *text)
{
    put(s, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        char c[8];
        if (*p == '"' || *p == '\\')
            snprintf(c, sizeof c, "\\%c", *p);
        else
            snprintf(c, sizeof c, *p < 0x20 || *p == 0x7F ? "\\%03o" : "%c", *p);
        put(s, c);
    }
    put(s, "\"");
}

static void put_value(sink *s, const fx_value *v, int depth)
{
    char number[64];
    const char *brackets = v->kind == FX_ARG_LIST ? "[]" : v->kind == FX_ARG_DICT ? "{}" : "()";
    switch (v->kind) {
    case FX_ARG_NONE: put(s, "None"); return;
    case FX_ARG_NODE: put(s, "%"); put(s, v->as.node ? v->as.node->name : "NULL"); return;
    case FX_ARG_BOOL: put(s, v->as.b ? "True" : "False"); return;
    case FX_ARG_INT:
        snprintf(number, sizeof number, "%lld", (long long)v->as.i);
        put(s, number);
        return;
    case FX_ARG_FLOAT: put(s, fx_double_text(v->as.f[0], number)); return;
    case FX_ARG_COMPLEX:
        put(s, "complex(");
        put(s, fx_double_text(v->as.f[0], number));
        put(s, ", ");
        put(s, fx_double_text(v->as.f[1], number));
        put(s, ")");
        return;
    case FX_ARG_STR: put_quoted(s, v->as.s ? v->as.s : ""); return;
    case FX_ARG_DTYPE: put(s, "torch."); put(s, fx_dtype_name(v->as.dtype)); return;
    case FX_ARG_DEVICE:
        put(s, "device(");
        put_quoted(s, v->as.s ? v->as.s : "");
        put(s, ")");
        return;
    case FX_ARG_LAYOUT:
    case FX_ARG_MEMORY_FORMAT:
    case FX_ARG_SYM: put(s, v->as.s ? v->as.s : ""); return;
    case FX_ARG_ELLIPSIS: put(s, "..."); return;
    case FX_ARG_GRAPH: put(s, "graph "); put(s, v->as.graph ? v->as.graph->name : "NULL"); return;
    case FX_ARG_SLICE: put(s, "slice"); break;
    default: break;
    }
    if (!is_container(v->kind)) {
        put(s, "?");
        return;
    }
    char c[2] = {brackets[0]};
    put(s, c);
    for (int i = 0; i < v->n && depth < MAX_DEPTH; i++) {
        fx_value item = fx_value_item(v, i);
        put(s, i ? ", " : "");
        if (v->kind == FX_ARG_DICT) {
            const char *key = fx_value_key(v, i);
            put_quoted(s, key ? key : "");
            put(s, ": ");
        }
        put_value(s, &item, depth + 1);
    }
    put(s, depth >= MAX_DEPTH ? "..." : v->kind == FX_ARG_TUPLE && v->n == 1 ? "," : "");
    c[0] = brackets[1];
    put(s, c);
}

size_t fx_value_format(const fx_value *v, char *buf, size_t size)
{
    sink s = {buf, buf ? size : 0, 0};
    if (v)
        put_value(&s, v, 0);
    if (s.size)
        buf[s.n < s.size ? s.n : s.size - 1] = '\0';
    return s.n;
}
