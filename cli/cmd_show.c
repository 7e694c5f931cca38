/* cli/cmd_show.c: fxcc show: a model as a table, text, picture or loop program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "cli/cli.h"

enum { KEY_TEXT = 0x100, KEY_DOT, KEY_PROGRAM };

typedef struct arguments {
    fx_compile_options options;
    const char *model;
    fx_form form;
    bool program;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->options; return 0;
    case KEY_TEXT: a->form = FX_FORM_TEXT; return 0;
    case KEY_DOT: a->form = FX_FORM_DOT; return 0;
    case KEY_PROGRAM: a->program = true; return 0;
    case ARGP_KEY_ARG: return one_argument(state, &a->model, arg, "model");
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to show");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"text", KEY_TEXT, NULL, 0, "the .fx text, which fxcc reads back", 0},
    {"dot", KEY_DOT, NULL, 0, "a picture for Graphviz: fxcc show --dot model.pt2 | dot -Tsvg > model.svg", 0},
    {"program", KEY_PROGRAM, NULL, 0, "the loop program the model is lowered to", 0},
    {0}};

static const struct argp_child children[] = {{&lowering_argp, 0, "With --program:", 1}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .children = children,
    .doc = "Shows a model: a table of its nodes with shapes, FLOPs and bytes, or another form."};

int cmd_show(int argc, char **argv)
{
    arguments a = {.form = FX_FORM_TABLE};
    fx_graph *graph = NULL;
    const char *command = argv[0], *text = NULL;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return 1;
    fx_context *ctx = fx_context_create();
    if (!ctx)
        return complain(command, "out of memory");
    progress_begin("reading");
    fx_status status = fx_load_model(ctx, a.model, &graph);
    if (status == FX_OK)
        status = a.program ? fx_program_format(graph, &a.options, &text) : fx_graph_format(graph, a.form, &text);
    report(command, ctx, false);
    int rc = status != FX_OK;
    if (!rc && (fputs(text, stdout) < 0 || fflush(stdout) != 0))
        rc = complain(command, "expected to write to standard output: it is closed or full");
    fx_context_free(ctx);
    return rc;
}
