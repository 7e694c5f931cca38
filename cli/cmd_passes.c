/* cli/cmd_passes.c: fxcc passes: the passes over graphs with their options, and the passes of lowering in their order.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "cli/cli.h"
#include "fxcc/pass.h"

enum { KEY_GRAPH = 0x100, KEY_LOWERING };

typedef struct arguments {
    bool graph, lowering;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    (void)arg;
    switch (key) {
    case KEY_GRAPH: a->graph = true; return 0;
    case KEY_LOWERING: a->lowering = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"graph", KEY_GRAPH, NULL, 0, "names of the passes over graphs, a line each", 0},
    {"lowering", KEY_LOWERING, NULL, 0, "the passes of lowering, a line each", 0},
    {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .doc = "Lists the passes that 'fxcc opt' runs over a model's graph, with their options, and the passes of lowering in the order they run: what "
           "each works on (the graph, or the loop program it becomes), and what it does."};

static void list_graph(bool short_form)
{
    for (size_t i = 0; fx_graph_pass_get(i); i++) {
        const fx_graph_pass *p = fx_graph_pass_get(i);
        if (short_form) {
            printf("%s\n", p->name);
            continue;
        }
        printf("  %-27s %s%s%s%s\n", p->name, p->doc, *p->after ? " (stands after " : "", p->after, *p->after ? ")" : "");
        for (size_t k = 0; k < p->n_params; k++) {
            const fx_pass_param *q = &p->params[k];
            printf("  %27s   %s=%s", "", q->name, q->type);
            if (q->def)
                printf(" (%s) %s\n", *q->def ? q->def : "\"\"", q->doc);
            else
                printf(", needed: %s\n", q->doc);
        }
    }
}

static void list_lowering(const char *indent)
{
    for (size_t i = 0; fx_pass_get(i); i++)
        printf("%s%-14s %-8s %s\n", indent, fx_pass_get(i)->name, fx_pass_get(i)->over, fx_pass_get(i)->doc);
}

int cmd_passes(int argc, char **argv)
{
    arguments a = {0};

    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return 1;
    if (a.graph)
        list_graph(true);
    if (a.lowering)
        list_lowering("");
    if (!a.graph && !a.lowering) {
        printf("Over graphs, for 'fxcc opt --passes=':\n\n");
        list_graph(false);
        printf("\nOf lowering, for the --dump- and --stop-after options of 'fxcc compile', in their order:\n\n");
        list_lowering("  ");
    }
    return 0;
}
