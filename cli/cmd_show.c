/* cli/cmd_show.c: fxcc show: a model as a table, text, Python, picture, JSON or loop program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { KEY_FORM = 0x100, KEY_SVG = KEY_FORM + 32, KEY_PROGRAM };

typedef struct arguments {
    fx_compile_options options;
    const char *model, *output;
    fx_form form;
    int chosen; /* the key of the form asked for, 0 for none */
} arguments;

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "write to FILE instead of standard output", 0},
    {"text", KEY_FORM + FX_FORM_TEXT, NULL, 0, "the .fx text, which fxcc reads back", 1},
    {"tabular", KEY_FORM + FX_FORM_TABULAR, NULL, 0, "FX's print_tabular: opcode, name, target, args, kwargs", 1},
    {"code", KEY_FORM + FX_FORM_CODE, NULL, 0, "FX's code: Python that runs under torch", 1},
    {"readable", KEY_FORM + FX_FORM_READABLE, NULL, 0, "FX's print_readable: Python with shapes, dtypes and source lines", 1},
    {"json", KEY_FORM + FX_FORM_JSON, NULL, 0, "all there is, for programs to read", 1},
    {"dot", KEY_FORM + FX_FORM_DOT, NULL, 0, "a picture in Graphviz's language", 1},
    {"svg", KEY_SVG, NULL, 0, "the picture, drawn by Graphviz", 1},
    {"program", KEY_PROGRAM, NULL, 0, "the loop program the model is lowered to", 1},
    {0}};

static const char *option_name(int key)
{
    const struct argp_option *o = options;

    while (o->key != key)
        o++;
    return o->name;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->options; return 0;
    case 'o':
        if (a->output)
            argp_error(state, "expected one --output, got '%s' and '%s'", a->output, arg);
        a->output = arg;
        return 0;
    case ARGP_KEY_ARG: return one_argument(state, &a->model, arg, "model");
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to show");
        return 0;
    default: break;
    }
    if (key < KEY_FORM || key > KEY_PROGRAM)
        return ARGP_ERR_UNKNOWN;
    if (a->chosen && a->chosen != key)
        argp_error(state, "expected one form, got --%s and --%s", option_name(a->chosen), option_name(key));
    a->chosen = key;
    a->form = key == KEY_SVG ? FX_FORM_DOT : key == KEY_PROGRAM ? FX_FORM_TEXT : (fx_form)(key - KEY_FORM);
    return 0;
}

static const struct argp_child children[] = {{&lowering_argp, 0, "With --program:", 2}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .children = children,
    .doc = "Shows a model: a table of its nodes with shapes, FLOPs and bytes, or another form."};

static int write_out(const char *command, const char *path, const char *text, size_t size)
{
    if (path)
        return write_text(command, path, text, size);
    fwrite(text, 1, size, stdout); /* whether it can be written, main sees */
    return 0;
}

/* Has Graphviz draw the picture in the folder dir. */
static int draw_in(const char *command, const char *dir, const char *dot, const char *output)
{
    char *in = path_join(dir, "graph.dot"), *out = path_join(dir, "graph.svg"), *log = path_join(dir, "log"), *drawn = NULL, *said = NULL;
    size_t size = 0, n_said = 0;
    int rc = 1;

    if (!in || !out || !log) {
        complain(command, "out of memory");
    } else if ((rc = write_text(command, in, dot, strlen(dot))) == 0) {
        char *argv[] = {"dot", "-Tsvg", "-o", out, in, NULL};
        int status = run_program(argv, log);
        said = read_text(log, &n_said);
        drawn = status == 0 ? read_text(out, &size) : NULL;
        if (drawn)
            rc = write_out(command, output, drawn, size);
        else if (status == 127 || status == -1)
            rc = complain(command, "expected Graphviz's program 'dot' on the PATH to draw an SVG: install graphviz, or use --dot");
        else
            rc = complain(command, "expected 'dot -Tsvg' to draw the graph, got exit status %d: %.*s", status,
                          said ? (int)strcspn(said, "\n") : 0, said ? said : "");
    }
    free(in);
    free(out);
    free(log);
    free(drawn);
    free(said);
    return rc;
}

static int draw(const char *command, const char *dot, const char *output)
{
    char *dir = temp_folder(command);

    if (!dir)
        return 1;
    int rc = draw_in(command, dir, dot, output);
    temp_remove(dir);
    free(dir);
    return rc;
}

int cmd_show(int argc, char **argv)
{
    arguments a = {.form = FX_FORM_TABLE};
    fx_graph *graph = NULL;
    const char *command = argv[0], *text = NULL;

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    progress_begin("reading");
    fx_status status = fx_load_model(ctx, a.model, &graph);
    if (status == FX_OK)
        status = a.chosen == KEY_PROGRAM ? fx_program_format(graph, &a.options, &text) : fx_graph_format(graph, a.form, &text);
    report(command, ctx, false);
    int rc = status != FX_OK;
    if (!rc && a.chosen == KEY_SVG)
        rc = draw(command, text, a.output);
    else if (!rc)
        rc = write_out(command, a.output, text, strlen(text));
    fx_context_free(ctx);
    end_options(&a.options);
    return rc;
}
