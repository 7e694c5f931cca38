/* ir/dot.c: a graph for Graphviz, in the manner of torch.fx.passes.graph_drawer.FxGraphDrawer: a record a node, with a colour by its opcode
 * or target, and the parameters of called modules beside them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ir.h"

enum { LONGEST = 60, MOST_ITEMS = 8 };

/* Text inside a quoted record label: what Graphviz reads as more than text is escaped, long texts are cut. */
static void put_label(fx_text *t, const char *s)
{
    size_t n = 0;
    while (*s && n < LONGEST) {
        int len = fx_utf8_length(s);
        unsigned char c = (unsigned char)*s;
        if (len == 0 || c < 32 || c == 127)
            fx_puts(t, "?");
        else if (strchr("\"\\{}|<>", c))
            fx_printf(t, "\\%c", c);
        else
            fx_putn(t, s, (size_t)len);
        s += len ? len : 1;
        n++;
    }
    if (*s)
        fx_puts(t, "...");
}

/* The colours of FxGraphDrawer. */
static const char *color(const fx_node *n)
{
    static const char *const by_target[] = {"CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1", "LavenderBlush1",
        "LightSkyBlue", "MistyRose1", "MistyRose2", "PaleTurquoise2", "PeachPuff1", "Salmon", "Thistle1", "Thistle3", "Wheat1"};
    switch ((fx_opcode)n->opcode) {
    case FX_PLACEHOLDER: return "AliceBlue";
    case FX_GET_ATTR: return "LightGrey";
    case FX_CALL_MODULE: return "LemonChiffon1";
    case FX_OUTPUT: return "PowderBlue";
    case FX_CALL_FUNCTION:
    case FX_CALL_METHOD: break;
    }
    uint32_t h = 2166136261u; /* FNV-1a: the same colour for the same target in every picture */
    for (const char *c = n->target; *c; c++)
        h = (h ^ (unsigned char)*c) * 16777619u;
    return by_target[(h >> 8) % (sizeof by_target / sizeof *by_target)];
}

static void put_field(fx_text *t, const char *key, const char *value)
{
    fx_printf(t, "|%s=", key);
    put_label(t, value);
}

static bool has_operand(const fx_arg *a)
{
    bool found = a->kind == FX_ARG_NODE;
    for (int i = 0; i < a->n && !found; i++)
        found = has_operand(a->items[i]);
    return found;
}

/* What is no node (those are arrows), a line each between `open` and `close`: "|args=(1,)", "|kwargs={\ldim: 1,\ldtype: torch.float32,\l}". */
static void put_constants(fx_text *t, const fx_arg *args, const fx_node *n, const char *open, const char *close)
{
    fx_text lines, item;
    int shown = 0;
    fx_text_init(&lines, t->arena);
    for (int i = 0; i < args->n && shown <= MOST_ITEMS; i++) {
        if (has_operand(args->items[i]))
            continue;
        fx_puts(&lines, shown ? "\\l" : "");
        if (shown++ == MOST_ITEMS) {
            fx_puts(&lines, "...");
            break;
        }
        fx_text_init(&item, t->arena);
        fx_arg_print(&item, args->items[i], n);
        if (args->kind == FX_ARG_DICT) {
            put_label(&lines, args->keys[i]);
            fx_puts(&lines, ": ");
        }
        put_label(&lines, item.data);
        fx_puts(&lines, *open ? "," : "");
    }
    if (shown == 0)
        return;
    bool several = shown > 1 || !*open;
    fx_printf(t, "|%s%s%s%s%s%s", open, several && *open ? "\\l" : "", lines.data, several ? "\\l" : "", close, several && *close ? "\\l" : "");
}

static void put_type(fx_text *t, const fx_type *type)
{
    if (!type)
        return;
    fx_text text;
    fx_text_init(&text, t->arena);
    fx_type_print(&text, type);
    fx_puts(t, "|");
    put_label(t, text.data);
}

static int count_users(const fx_node *n)
{
    fx_map seen = {0};
    int users = 0;
    fx_arena *tmp = fx_arena_create(n->graph->ctx);
    for (const fx_use *u = n->first_use; u; u = u->next) {
        users += fx_map_get(&seen, u->user) == NULL;
        fx_map_put(tmp, &seen, u->user, u->user);
    }
    fx_arena_free(tmp);
    return users;
}

static void put_node(fx_text *t, const fx_node *n, const fx_module *m)
{
    fx_printf(t, "    n%u [fillcolor=\"%s\", label=\"{%%", n->id, color(n));
    put_label(t, n->name);
    put_field(t, "op_code", fx_opcode_name(n->opcode));
    put_field(t, "target", n->target);
    if (m && m->class_name) {
        const char *dot = strrchr(m->class_name, '.');
        fx_puts(t, "|");
        put_label(t, dot && dot[1] ? dot + 1 : m->class_name);
        if (m->config)
            put_constants(t, m->config, NULL, "", "");
    }
    if (n->opcode != FX_OUTPUT) {
        put_constants(t, n->args, n, "args=(", ")");
        put_constants(t, n->kwargs, n, "kwargs=\\{", "\\}");
        fx_printf(t, "|num_users=%d", count_users(n));
        put_type(t, n->type);
    }
    fx_puts(t, "}\"];\n");
}

/* The parameters and buffers of a called module and of those inside it, and arrows from them to the call. */
static void put_attrs(fx_text *t, const fx_node *n, const fx_module *m)
{
    const fx_module **stack = NULL;
    size_t depth = 0, cap = 0, number = 0;
    FX_PUSH(t->arena, stack, depth, cap) = m;
    while (depth > 0) {
        m = stack[--depth];
        for (size_t i = 0; i < m->n_attrs; i++, number++) {
            const fx_attr *a = m->attrs[i];
            fx_printf(t, "    n%u_%zu [fillcolor=\"Salmon\", label=\"{", n->id, number);
            put_label(t, a->path);
            fx_printf(t, "|%s", a->is_parameter ? "parameter" : "buffer");
            put_type(t, a->type);
            fx_printf(t, "}\"];\n    n%u_%zu -> n%u;\n", n->id, number, n->id);
        }
        for (size_t i = m->n_children; i > 0; i--)
            FX_PUSH(t->arena, stack, depth, cap) = m->children[i - 1];
    }
}

void fx_graph_print_dot(fx_text *t, const fx_graph *g)
{
    fx_puts(t, "digraph \"");
    for (const char *c = g->name ? g->name : ""; *c; c++) {
        if (*c == '"' || *c == '\\')
            fx_puts(t, "\\");
        fx_putn(t, (unsigned char)*c < 32 ? "?" : c, 1);
    }
    fx_puts(t, "\" {\n    rankdir=TB;\n"
               "    node [shape=record, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=10, fontcolor=\"#000000\"];\n"
               "    edge [arrowsize=0.7];\n");
    FX_FOR_NODES(g, n) {
        const fx_module *m = n->opcode == FX_CALL_MODULE ? fx_module_find(g, n->target) : NULL;
        put_node(t, n, m);
        if (m)
            put_attrs(t, n, m);
    }
    /* One arrow a user, however often it uses the value. */
    const fx_node **last_user = FX_NEW_ARRAY(t->arena, const fx_node *, g->n_ids + 1);
    FX_FOR_NODES(g, n) {
        for (int i = 0; i < n->n_operands; i++) {
            const fx_node *def = n->operands[i].def;
            if (def->graph == g && last_user[def->id] != n)
                fx_printf(t, "    n%u -> n%u;\n", def->id, n->id);
            if (def->graph == g)
                last_user[def->id] = n;
        }
    }
    fx_puts(t, "}\n");
}
