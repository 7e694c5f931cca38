/* ir/dot.c: a graph for Graphviz, one box a node.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ir.h"

/* Text inside a quoted label: what Graphviz would interpret is escaped, long texts are cut. */
static void put_label(fx_text *t, const char *s)
{
    enum { LONGEST = 60 };
    size_t n = 0;
    for (; *s && n < LONGEST; s++, n++) {
        if (*s == '"' || *s == '\\')
            fx_putn(t, "\\", 1);
        if ((unsigned char)*s < 32)
            fx_puts(t, " ");
        else
            fx_putn(t, s, 1);
    }
    /* Not in the middle of a character. */
    for (; ((unsigned char)*s & 0xC0) == 0x80; s++)
        fx_putn(t, s, 1);
    if (*s)
        fx_puts(t, "...");
}

static const char *color(const fx_node *n)
{
    switch (n->opcode) {
    case FX_PLACEHOLDER:
    case FX_OUTPUT:
        return "#cfe8ff";
    case FX_GET_ATTR:
        return "#eeeeee";
    default:
        break;
    }
    if (!n->op)
        return "#ffd9d9";
    switch (n->op->cls) {
    case FX_CLASS_CONTRACTION:
        return "#ffe0b3";
    case FX_CLASS_POINTWISE:
        return "#dcf5d0";
    case FX_CLASS_VIEW:
        return "#f7f7e8";
    default:
        return "#f0e4ff";
    }
}

void fx_graph_print_dot(fx_text *t, const fx_graph *g)
{
    fx_puts(t, "digraph \"");
    put_label(t, g->name ? g->name : "");
    fx_puts(t, "\" {\n    node [shape=box, style=filled, fontname=\"sans\", fontsize=10];\n");
    FX_FOR_NODES(g, n) {
        fx_printf(t, "    n%u [fillcolor=\"%s\", label=\"", n->id, color(n));
        put_label(t, n->name);
        if (strcmp(n->name, n->target) != 0) {
            fx_puts(t, "\\n");
            put_label(t, n->target);
        }
        if (n->type && n->opcode != FX_OUTPUT) {
            fx_text type;
            fx_text_init(&type, t->arena);
            fx_type_print(&type, n->type);
            fx_puts(t, "\\n");
            put_label(t, type.data);
        }
        fx_puts(t, "\"];\n");
    }
    FX_FOR_NODES(g, n) {
        for (int i = 0; i < n->n_operands; i++)
            fx_printf(t, "    n%u -> n%u;\n", n->operands[i].def->id, n->id);
    }
    fx_puts(t, "}\n");
}
