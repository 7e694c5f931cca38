/* ir/table.c: a graph as a table, in the manner of FX's print_tabular, with shapes, FLOPs and bytes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ir.h"

enum { COLUMNS = 7, WIDEST = 44, NUMBERS = 4 /* columns 4 and 5 are flush right */ };

typedef struct row {
    const char *cell[COLUMNS];
} row;

/* Length of the UTF-8 sequence at s; a byte that begins none counts alone. */
static int char_length(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    int n = p[0] < 0x80 ? 1 : p[0] >= 0xC2 && p[0] < 0xE0 ? 2 : (p[0] & 0xF0) == 0xE0 ? 3 : (p[0] & 0xF8) == 0xF0 ? 4 : 1;
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 1;
    }
    return n;
}

static int width(const char *s)
{
    int w = 0;
    for (; *s; s += char_length(s))
        w++;
    return w;
}

/* Text for a cell: control characters and stray bytes as '?', too long ones shortened in the middle, where names differ least. */
static const char *cell(fx_arena *arena, const char *s)
{
    if (!s)
        return "";
    size_t size = strlen(s);
    char *out = fx_arena_alloc(arena, size + 4);
    int w = width(s), head = w > WIDEST ? (WIDEST - 1) / 2 : w, tail = w > WIDEST ? WIDEST - 1 - head : 0;
    size_t n = 0;
    for (int i = 0; *s; i++) {
        int len = char_length(s);
        if (w > WIDEST && i == head) {
            memcpy(out + n, "\xE2\x80\xA6", 3); /* … */
            n += 3;
        }
        if (i < head || i >= w - tail) {
            bool plain = len > 1 || ((unsigned char)*s >= 32 && (unsigned char)*s < 127);
            if (plain)
                memcpy(out + n, s, (size_t)len);
            else
                out[n] = '?';
            n += plain ? (size_t)len : 1;
        }
        s += len;
    }
    out[n] = 0;
    return out;
}

/* 236.0 M: three places and a prefix; nothing for 0. */
static const char *number(fx_arena *arena, double v)
{
    static const char *const prefixes[] = {"", " k", " M", " G", " T", " P", " E"};
    int p = 0;
    if (v == 0)
        return "";
    while (v >= 999.95 && p < 6) {
        v /= 1000;
        p++;
    }
    return fx_arena_printf(arena, p ? "%.1f%s" : "%.0f%s", v, prefixes[p]);
}

static double attr_bytes(const fx_attr *a)
{
    return (double)fx_tensor_numel(&a->tensor) * (double)fx_dtype_size(a->tensor.dtype);
}

typedef struct totals {
    fx_arena *arena;
    fx_map storages;          /* counted already */
    double parameters, bytes, buffers;
} totals;

/* A storage that several attributes share counts once. */
static void count_attr(totals *sum, const fx_attr *a)
{
    fx_storage *st = a->tensor.storage;
    if (st && fx_map_get(&sum->storages, st))
        return;
    if (st)
        fx_map_put(sum->arena, &sum->storages, st, st);
    if (a->is_parameter) {
        sum->parameters += (double)fx_tensor_numel(&a->tensor);
        sum->bytes += attr_bytes(a);
    } else {
        sum->buffers += attr_bytes(a);
    }
}

/* The tree is walked with a stack of our own: its depth is the file's choice. */
static void count_modules(totals *sum, const fx_module *root)
{
    const fx_module **stack = NULL;
    size_t depth = 0, cap = 0;
    FX_PUSH(sum->arena, stack, depth, cap) = root;
    while (depth > 0) {
        const fx_module *m = stack[--depth];
        for (size_t i = 0; i < m->n_attrs; i++)
            count_attr(sum, m->attrs[i]);
        for (size_t i = 0; i < m->n_children; i++)
            FX_PUSH(sum->arena, stack, depth, cap) = m->children[i];
    }
}

static void put_row(fx_text *t, const row *r, const int *widths)
{
    int last = COLUMNS - 1, due = 0;
    while (last > 0 && !*r->cell[last])
        last--;
    for (int c = 0; c <= last; c++) {
        int pad = widths[c] - width(r->cell[c]);
        bool right = c == NUMBERS || c == NUMBERS + 1;
        due += right ? pad : 0;
        for (; due > 0; due--)
            fx_puts(t, " ");
        fx_puts(t, r->cell[c]);
        due = (right ? 0 : pad) + 2;
    }
    fx_puts(t, "\n");
}

/* What a captured graph's calls give and cost is told by the legalised copy: the calls a node became stand in a row, the last under
 * its name. */
static const fx_node *legal_call(const fx_graph *legal, const fx_node *n, const fx_node **at, double *flops)
{
    const fx_node *last = fx_graph_find_node(legal, n->name);
    for (*flops = 0; last && *at; *at = (*at)->next) {
        *flops += (double)fx_node_flops(*at);
        if (*at == last) {
            *at = last->next;
            return last;
        }
    }
    return NULL;
}

void fx_graph_print_table(fx_text *t, const fx_graph *g, const fx_graph *legal)
{
    fx_arena *arena = fx_arena_create(g->ctx);
    row *rows = FX_NEW_ARRAY(arena, row, g->n_nodes + 1);
    size_t n_rows = 1;
    double flops = 0;
    bool unknown = g->stage == FX_STAGE_CAPTURED && !legal;
    const fx_node *at = legal ? legal->first : NULL;
    totals sum = {.arena = arena};
    rows[0] = (row){{"opcode", "name", "target", "value", "FLOPs", "bytes", "module"}};
    FX_FOR_NODES(g, n) {
        fx_text type;
        fx_text_init(&type, arena);
        double f = (double)fx_node_flops(n);
        const fx_node *call = legal ? legal_call(legal, n, &at, &f) : n;
        const fx_type *value = n->type || !call ? n->type : call->type;
        if (value && n->opcode != FX_OUTPUT)
            fx_type_print(&type, value);
        const fx_attr *a = n->opcode == FX_GET_ATTR ? fx_attr_find(g, n->target) : NULL;
        flops += f;
        rows[n_rows++] = (row){{fx_opcode_name(n->opcode), cell(arena, n->name), cell(arena, n->target), cell(arena, type.data),
                                number(arena, f), a ? number(arena, attr_bytes(a)) : "", cell(arena, n->loc.module)}};
    }
    int widths[COLUMNS] = {0};
    for (size_t i = 0; i < n_rows; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            int w = width(rows[i].cell[c]);
            widths[c] = w > widths[c] ? w : widths[c];
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        put_row(t, &rows[i], widths);
        if (i > 0)
            continue;
        for (int c = 0; c < COLUMNS; c++) {
            for (int k = 0; k < widths[c]; k++)
                fx_puts(t, "-");
            fx_puts(t, c + 1 < COLUMNS ? "  " : "\n");
        }
    }
    count_modules(&sum, g->root);
    const char *parts[4] = {number(arena, flops), number(arena, sum.parameters), number(arena, sum.bytes), number(arena, sum.buffers)};
    for (int i = 0; i < 4; i++)
        parts[i] = i == 0 && unknown ? "unknown" : *parts[i] ? parts[i] : "0";
    fx_printf(t, "\n%zu nodes, %s FLOPs, %s parameters (%s bytes), %s bytes of buffers and constants\n", g->n_nodes, parts[0], parts[1],
              parts[2], parts[3]);
    fx_arena_free(arena);
}
