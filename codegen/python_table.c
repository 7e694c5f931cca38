/* codegen/python_table.c: FX's print_tabular: opcode, name, target, args and kwargs in the columns of Python's tabulate.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/python.h"

enum { COLUMNS = 5 };

/* Characters, not bytes. */
static size_t width(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

/* One line of printable text. */
static const char *cell(fx_arena *arena, const char *s)
{
    char *out = fx_arena_dup(arena, s, strlen(s) + 1);
    for (char *c = out; *c; c++) {
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
    }
    return out;
}

static void pad(fx_text *t, size_t n, char c)
{
    for (; n > 0; n--)
        fx_putn(t, &c, 1);
}

static void put_row(fx_text *t, const char *const *cells, const size_t *widths)
{
    int last = COLUMNS - 1;
    while (last > 0 && !*cells[last])
        last--;
    for (int c = 0; c <= last; c++) {
        fx_puts(t, cells[c]);
        if (c < last)
            pad(t, widths[c] - width(cells[c]) + 2, ' ');
    }
    fx_puts(t, "\n");
}

fx_status fx_python_tabular(fx_text *t, const fx_graph *g)
{
    static const char *const titles[COLUMNS] = {"opcode", "name", "target", "args", "kwargs"};
    fx_arena *tmp = fx_arena_create(g->ctx);
    const char *(*rows)[COLUMNS] = (const char *(*)[COLUMNS])FX_NEW_ARRAY(tmp, const char *, (g->n_nodes + 1) * COLUMNS);
    size_t n = 1, widths[COLUMNS] = {0};
    fx_python p;
    fx_python_begin(&p, g, tmp, true);
    memcpy(rows[0], titles, sizeof titles);
    FX_FOR_NODES(g, node) {
        fx_text args, kwargs;
        fx_text_init(&args, tmp);
        fx_text_init(&kwargs, tmp);
        fx_python_put_arg(&p, &args, node->args, node);
        fx_python_put_arg(&p, &kwargs, node->kwargs, node);
        const char *cells[COLUMNS] = {fx_opcode_name(node->opcode), node->name, node->target, args.data, kwargs.data};
        for (int c = 0; c < COLUMNS; c++)
            rows[n][c] = cell(tmp, cells[c]);
        n++;
    }
    for (size_t i = 0; i < n; i++) {
        for (int c = 0; c < COLUMNS; c++) {
            size_t w = width(rows[i][c]) + (i == 0 ? 2 : 0); /* tabulate's columns are wider than their heads */
            widths[c] = w > widths[c] ? w : widths[c];
        }
    }
    for (size_t i = 0; i < n; i++) {
        put_row(t, rows[i], widths);
        for (int c = 0; i == 0 && c < COLUMNS; c++) {
            pad(t, widths[c], '-');
            fx_puts(t, c < COLUMNS - 1 ? "  " : "\n");
        }
    }
    fx_arena_free(tmp);
    return p.status;
}
