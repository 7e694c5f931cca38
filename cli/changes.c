/* cli/changes.c: what changed from one model to another: by name, from their .fx texts.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE /* memmem */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* A line that names something: "%relu : ... = ...", "parameter w : ...". */
typedef struct line {
    const char *name, *rest;
    size_t n_name, n_rest;       /* rest: without the place in the source */
    bool node;
} line;

enum { MOST_SHOWN = 20 };

/* The line at s; false: it names nothing that is told of. */
static bool read_line(const char *s, size_t n, line *l)
{
    static const char *const kinds[] = {"parameter ", "buffer ", "constant "};
    const char *end = s + n;

    *l = (line){.name = s, .node = n && *s == '%'};
    for (size_t i = 0; i < 3 && !l->node; i++)
        if (n > strlen(kinds[i]) && !memcmp(s, kinds[i], strlen(kinds[i])))
            l->name = s + strlen(kinds[i]);
    if (!l->node && l->name == s)
        return false;
    const char *space = memchr(l->name, ' ', (size_t)(end - l->name));
    if (!space)
        return false;
    l->n_name = (size_t)(space - l->name);
    l->rest = space;
    for (const char *c = end; l->node && c > space + 4; c--)
        if (!memcmp(c - 4, "  # ", 4)) {
            end = c - 4;
            break;
        }
    l->n_rest = (size_t)(end - space);
    return !l->node || !memmem(space, l->n_rest, "= get_attr[", 11); /* their parameters are told of */
}

static int by_name(const void *a, const void *b)
{
    const line *x = a, *y = b;
    size_t n = x->n_name < y->n_name ? x->n_name : y->n_name;
    int order = memcmp(x->name, y->name, n);

    return x->node != y->node ? x->node - y->node : order ? order : (x->n_name > y->n_name) - (x->n_name < y->n_name);
}

static line *read_lines(const char *text, size_t *n)
{
    size_t most = 1;
    for (const char *s = text; *s; s++)
        most += *s == '\n';
    line *lines = malloc(most * sizeof *lines);
    *n = 0;
    for (const char *s = text; lines && *s;) {
        size_t length = strcspn(s, "\n");
        *n += read_line(s, length, &lines[*n]);
        s += length + (s[length] == '\n');
    }
    if (lines)
        qsort(lines, *n, sizeof *lines, by_name);
    return lines;
}

/* "changed: a, b, c and 7 more" */
typedef struct list {
    const char *what;
    size_t n;
} list;

static void add(list *l, const line *what)
{
    l->n++;
    if (l->n <= MOST_SHOWN)
        printf("%s%.*s", l->n == 1 ? l->what : ", ", (int)what->n_name, what->name);
}

static void end_list(const list *l)
{
    if (l->n > MOST_SHOWN)
        printf(" and %zu more", l->n - MOST_SHOWN);
    if (l->n)
        printf("\n");
}

/* What a list says of a pair of lines: -1 only before, 1 only after, 2 both but not the same, 0 the same. */
static int how(const line *a, const line *b)
{
    if (!a || !b)
        return a ? -1 : 1;
    return a->n_rest != b->n_rest || memcmp(a->rest, b->rest, a->n_rest) ? 2 : 0;
}

int print_changes(const char *command, fx_graph *before, fx_graph *after)
{
    static const struct { bool node; int how; const char *what; } lists[] = {
        {true, -1, "  nodes removed: "}, {true, 1, "  nodes added: "}, {true, 2, "  nodes changed: "},
        {false, -1, "  parameters removed: "}, {false, 1, "  parameters added: "}, {false, 2, "  parameters changed: "}};
    const char *old_text, *new_text;
    size_t n_old, n_new, told = 0;
    int rc = 1;

    if (fx_graph_format(before, FX_FORM_TEXT, &old_text) != FX_OK || fx_graph_format(after, FX_FORM_TEXT, &new_text) != FX_OK)
        return 1;
    line *a = read_lines(old_text, &n_old), *b = read_lines(new_text, &n_new);
    if (!a || !b) {
        complain(command, "out of memory");
        goto done;
    }
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        list l = {lists[k].what, 0};
        for (size_t i = 0, j = 0; i < n_old || j < n_new;) {
            int order = i == n_old ? 1 : j == n_new ? -1 : by_name(&a[i], &b[j]);
            const line *x = order <= 0 ? &a[i++] : NULL, *y = order >= 0 ? &b[j++] : NULL, *any = x ? x : y;
            if (any->node == lists[k].node && how(x, y) == lists[k].how)
                add(&l, any);
        }
        end_list(&l);
        told += l.n;
    }
    if (!told)
        printf("  the graph and its parameters are as before\n");
    rc = 0;
done:
    free(a);
    free(b);
    return rc;
}
