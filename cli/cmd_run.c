/* cli/cmd_run.c: fxcc run: the reference interpreter on NumPy files.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

typedef struct arguments {
    const char *model, *output;
    char **files; /* points into argv */
    int n_files;
    long calls;   /* 0: not asked for */
} arguments;

enum { KEY_CALLS = 0x100, MAX_CALLS = 10000 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    switch (key) {
    case 'o':
        a->output = arg;
        return 0;
    case KEY_CALLS: {
        char *end;
        a->calls = strtol(arg, &end, 10);
        if (*end || a->calls < 1 || a->calls > MAX_CALLS)
            argp_error(state, "expected a number of calls from 1 to %d, got '%s'", MAX_CALLS, arg);
        return 0;
    }
    case ARGP_KEY_ARGS: /* everything that is no option: the model, then its inputs */
        a->model = state->argv[state->next];
        a->files = state->argv + state->next + 1;
        a->n_files = state->argc - state->next - 1;
        return 0;
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to run");
        if (!a->output)
            argp_error(state, "expected -o FILE, the .npy or .npz to write");
        if (!has_suffix(a->output, ".npy") && !has_suffix(a->output, ".npz"))
            argp_error(state, "expected an output file named .npy or .npz, got '%s'", a->output);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "write the output (.npy) or all outputs (.npz) here", 0},
    {"calls", KEY_CALLS, "N", 0, "call the model N times in a row on the same inputs and write, for each call, the outputs, then the inputs and buffers "
     "that the model changes, as they are after it", 0},
    {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL INPUT...",
    .doc = "Runs a model with the reference interpreter: slow and simple, the judge of what 'fxcc compile' emits. Inputs are .npy files in "
           "the model's order, or .npz files of several."};

static int run(const char *command, fx_context *ctx, const arguments *a)
{
    fx_graph *graph;
    fx_tensor *inputs = NULL, *outputs;
    size_t n_inputs, n_outputs;
    int rc = 1;

    if (fx_load_model(ctx, a->model, &graph) != FX_OK || read_tensors(ctx, a->n_files, a->files, &n_inputs, &inputs) != FX_OK)
        return 1;
    if (n_inputs != fx_graph_input_count(graph))
        complain(command, "%s: expected %zu inputs, got %zu", a->model, fx_graph_input_count(graph), n_inputs);
    else if ((fx_graph_output_count(graph) != 1 || a->calls) && !has_suffix(a->output, ".npz"))
        complain(command, "%s: expected -o FILE.npz for a model of %zu outputs, got '%s'", a->model, fx_graph_output_count(graph), a->output);
    else if (fx_graph_shapes_for(graph, n_inputs, inputs, NULL) == FX_OK &&
             (a->calls ? fx_graph_calls(graph, (size_t)a->calls, n_inputs, inputs, &n_outputs, &outputs)
                       : fx_graph_interpret(graph, n_inputs, inputs, &n_outputs, &outputs)) == FX_OK)
        rc = write_tensors(ctx, a->output, n_outputs, outputs) != FX_OK;
    free(inputs);
    return rc;
}

int cmd_run(int argc, char **argv)
{
    arguments a = {0};
    const char *command = argv[0];

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    progress_begin("interpreting");
    int rc = run(command, ctx, &a);
    report(command, ctx, false);
    fx_context_free(ctx);
    return rc;
}
