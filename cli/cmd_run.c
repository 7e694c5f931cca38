/* cli/cmd_run.c: fxcc run: a model on NumPy files, compiled in memory, as emitted C, or by the reference interpreter.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "fxcc/pass.h"

typedef struct arguments {
    const char *model, *output;
    way way;
    fx_compile_options options;  /* of lowering */
    int level;
    bool interpret, emit_c, no_cache, verbose;
    const char *device;          /* NULL: this machine's processor */
    const char *debug;           /* folder for what debuggers show as source; NULL: nothing for debuggers */
    char **files; /* points into argv */
    int n_files;
    long calls;   /* 0: not asked for */
} arguments;

enum { KEY_CALLS = 0x100, KEY_INTERPRET, KEY_EMIT_C, KEY_NO_CACHE, KEY_DEBUG, KEY_DEVICE, MAX_CALLS = 10000 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->options;
        return 0;
    case KEY_INTERPRET:
        a->way = WAY_INTERPRETER;
        a->interpret = true;
        return 0;
    case KEY_EMIT_C:
        a->way = WAY_C;
        a->emit_c = true;
        return 0;
    case KEY_NO_CACHE:
        a->no_cache = true;
        return 0;
    case 'O':
        return parse_level(state, arg, &a->level);
    case KEY_DEBUG:
        a->debug = arg;
        return 0;
    case KEY_DEVICE:
        a->device = arg;
        return 0;
    case 'v':
        a->verbose = true;
        return 0;
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
    case ARGP_KEY_ARGS:
        model_and_inputs(state, &a->model, &a->files, &a->n_files);
        return 0;
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to run");
        if (a->interpret && a->emit_c)
            argp_error(state, "expected --interpret or --emit-c, got both");
        if ((a->level || a->debug) && a->way != WAY_JIT)
            argp_error(state, "expected %s without %s, since it is of LLVM", a->level ? "-O" : "--debug", a->interpret ? "--interpret" : "--emit-c");
        if (a->device && (a->way != WAY_JIT || a->level || a->debug))
            argp_error(state, "expected --device without %s: it is of code compiled in memory, by NVRTC",
                       a->interpret ? "--interpret" : a->emit_c ? "--emit-c" : a->level ? "-O" : "--debug");
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
    {"output", 'o', "FILE", 0, "write the output (.npy), or all outputs (.npz)", 0},
    {"calls", KEY_CALLS, "N", 0, "call the model N times in a row on the same inputs and write, for each call, the outputs, then the inputs and buffers "
     "that the model changes, as they are after it", 0},
    {"interpret", KEY_INTERPRET, NULL, 0, "by the reference interpreter: slow and simple, the judge of the other two", 0},
    {"emit-c", KEY_EMIT_C, NULL, 0, "as the C that 'fxcc compile' emits, built with $CC (default cc) and $CFLAGS (default -O2)", 0},
    {"device", KEY_DEVICE, "DEVICE", 0, "run it on a GPU, cuda or cuda:N, compiled in memory by NVRTC; needs libnvrtc and a CUDA driver", 0},
    {NULL, 'O', "LEVEL", 0, "how much LLVM optimises: 1 (default) to 3", 0},
    {"no-cache", KEY_NO_CACHE, NULL, 0, "neither take compiled code of an earlier run nor keep it; see 'fxcc cache'", 0},
    {"debug", KEY_DEBUG, "DIR", 0, "let gdb show layers by name, and the loop program, written to DIR/NAME.prog, as their source", 0},
    {"verbose", 'v', NULL, 0, "print remarks", 0},
    {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL INPUT...",
    .doc = "Runs a model, compiled in memory by LLVM. Inputs are .npy files in the model's order, or .npz files of several; one .npz whose "
           "arrays have the names of the inputs may have any order.",
    .children = (const struct argp_child[]){{&lowering_argp, 0, NULL, 0}, {0}}};

static int run(const char *command, fx_context *ctx, const arguments *a)
{
    fx_graph *graph;
    fx_tensor *inputs = NULL, *outputs = NULL;
    size_t n_inputs, n_outputs = 0;
    int rc = 1;

    if (a->options.target && !a->emit_c)
        return complain(command, "expected --emit-c with --target: what LLVM compiles in memory is for this machine");

    if (fx_load_model(ctx, a->model, &graph) != FX_OK || fx_graph_add_philox_state(graph, false, &graph) != FX_OK ||
        read_inputs(ctx, graph, a->n_files, a->files, &n_inputs, &inputs) != FX_OK)
        return 1;
    if (n_inputs != fx_graph_input_count(graph))
        complain(command, "%s: expected %zu inputs, got %zu", a->model, fx_graph_input_count(graph), n_inputs);
    else if (fx_graph_output_count(graph) != 1 && !has_suffix(a->output, ".npz"))
        complain(command, "%s: expected -o FILE.npz for a model of %zu outputs, got '%s'", a->model, fx_graph_output_count(graph), a->output);
    else if (a->calls && !has_suffix(a->output, ".npz"))
        complain(command, "expected -o FILE.npz with --calls, got '%s'", a->output);
    else if (fx_graph_shapes_for(graph, n_inputs, inputs, NULL) == FX_OK) {
        const way_options o = {.lowering = &a->options, .level = a->level, .no_cache = a->no_cache, .debug = a->debug, .device = a->device};
        if (a->way == WAY_INTERPRETER && !a->calls) { /* also what no compile would take */
            fx_tensor *made = NULL;
            rc = fx_graph_interpret(graph, n_inputs, inputs, &n_outputs, &made) != FX_OK || !(outputs = malloc((n_outputs + 1) * sizeof *outputs));
            if (!rc)
                memcpy(outputs, made, n_outputs * sizeof *outputs);
        } else {
            rc = run_way(command, ctx, graph, a->way, &o, inputs, a->calls ? (size_t)a->calls : 1, &n_outputs, &outputs);
        }
        if (!a->calls && !rc) /* what it changes is not asked for */
            n_outputs = fx_graph_output_count(graph);
        if (!rc)
            rc = write_tensors(ctx, a->output, n_outputs, outputs) != FX_OK;
    }
    free(inputs);
    free(outputs);
    return rc;
}

int cmd_run(int argc, char **argv)
{
    arguments a = {.way = WAY_JIT};
    const char *command = argv[0];

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    progress_begin(a.way == WAY_INTERPRETER ? "interpreting" : "running");
    int rc = refuse_gpu(command, ctx, &a.options) || run(command, ctx, &a);
    report(command, ctx, a.verbose);
    end_options(&a.options);
    fx_context_free(ctx);
    return rc;
}
