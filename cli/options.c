/* cli/options.c: option groups that several subcommands have.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { KEY_TARGET = 't', KEY_THREADS = 0x200, KEY_DIM, KEY_DISABLE, KEY_DUMP_BEFORE, KEY_DUMP_AFTER, KEY_STOP_AFTER, KEY_TIME_PASSES, KEY_UNPROVED };

bool parse_number(const char *text, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && !*end;
}

error_t parse_level(struct argp_state *state, const char *arg, int *level)
{
    if (strlen(arg) != 1 || *arg < '1' || *arg > '3')
        argp_error(state, "expected -O1, -O2 or -O3, got '-O%s'", arg);
    *level = *arg - '0';
    return 0;
}

void model_and_inputs(const struct argp_state *state, const char **model, char ***files, int *n_files)
{
    *model = state->argv[state->next];
    *files = state->argv + state->next + 1;
    *n_files = state->argc - state->next - 1;
}

error_t one_argument(struct argp_state *state, const char **argument, char *given, const char *what)
{
    if (*argument)
        argp_error(state, "expected one %s, got also '%s'", what, given);
    *argument = given;
    return 0;
}

fx_context *start(const struct argp *argp, int argc, char **argv, void *input)
{
    if (argp_parse(argp, argc, argv, 0, NULL, input))
        return NULL;
    fx_context *ctx = fx_context_create();
    if (!ctx)
        complain(argv[0], "out of memory");
    return ctx;
}

static void log_to_stdout(void *unused, const char *text)
{
    (void)unused;
    fputs(text, stdout);
}

static error_t parse_jit(int key, char *arg, struct argp_state *state)
{
    fx_compile_options *o = state->input;
    double v;

    switch (key) {
    case KEY_THREADS:
        if (!parse_number(arg, &v) || v < 1 || v > 1024 || v != (int)v)
            argp_error(state, "expected a number of threads from 1 to 1024, got '%s'", arg);
        o->threads = (int)v;
        return 0;
    case KEY_DIM: {
        const char **dims = realloc((void *)(uintptr_t)o->dims, (o->n_dims + 1) * sizeof *dims); /* end_options frees it */
        if (!dims)
            argp_failure(state, 1, 0, "out of memory");
        dims[o->n_dims++] = arg;
        o->dims = dims;
        return 0;
    }
    case KEY_DISABLE:
        o->disable = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void end_options(fx_compile_options *o)
{
    free((void *)(uintptr_t)o->dims);
    o->dims = NULL;
    o->n_dims = 0;
}

static error_t parse_lowering(int key, char *arg, struct argp_state *state)
{
    fx_compile_options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = o;
        return 0;
    case KEY_TARGET:
        o->target = arg;
        return 0;
    case KEY_UNPROVED:
        if (strcmp(arg, "warn") && strcmp(arg, "error"))
            argp_error(state, "expected --unproved=warn or error, got '%s'", arg);
        o->unproved_warn = !strcmp(arg, "warn");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp jit_argp = {
    .options = (const struct argp_option[]){
        {"threads", KEY_THREADS, "N", 0, "most threads the emitted code may use (default 8)", 0},
        {"dim", KEY_DIM, "NAME=N", 0, "fix a size that the model leaves open, or narrow it (NAME=LO..HI); NAME is the symbol's or INPUT:AXIS", 0},
        {"disable", KEY_DISABLE, "PARTS", 0, "parts of lowering not to do, to compare: fuse, layout, inplace, attention, merge, schedule, half, streams, pays, winograd", 0},
        {0}},
    .parser = parse_jit};

const struct argp lowering_argp = {
    .options = (const struct argp_option[]){
        {"target", KEY_TARGET, "NAME", 0,
         "generic, x86_64-avx2, x86_64-avx512, native (default), aarch64, cortex-m4, cuda, cuda-sm_75 ... cuda-sm_120, or a file of 'key = value' lines", 0},
        {"unproved", KEY_UNPROVED, "WHAT", 0, "a loop that is not proved (see 'fxcc prove') is an error (default) or: warn", 0},
        {0}},
    .parser = parse_lowering,
    .children = (const struct argp_child[]){{&jit_argp, 0, NULL, 0}, {0}}};

/* A pass that exists, or "all" where that makes sense: a misspelt name must not silently dump nothing. */
static const char *pass_name(struct argp_state *state, const char *arg, bool all)
{
    if (all && !strcmp(arg, "all"))
        return arg;
    for (size_t i = 0; fx_pass_get(i); i++)
        if (!strcmp(arg, fx_pass_get(i)->name))
            return arg;
    argp_error(state, "expected the name of a pass, got '%s'; see 'fxcc passes'", arg);
    return NULL;
}

static error_t parse_looking(int key, char *arg, struct argp_state *state)
{
    fx_compile_options *o = state->input;

    switch (key) {
    case KEY_DUMP_BEFORE: o->dump_before = pass_name(state, arg, true); break;
    case KEY_DUMP_AFTER: o->dump_after = pass_name(state, arg, true); break;
    case KEY_STOP_AFTER: o->stop_after = pass_name(state, arg, false); break;
    case KEY_TIME_PASSES: o->time_passes = true; break;
    default: return ARGP_ERR_UNKNOWN;
    }
    o->log = log_to_stdout;
    return 0;
}

const struct argp looking_argp = {
    .options = (const struct argp_option[]){
        {"dump-before", KEY_DUMP_BEFORE, "PASS", 0, "print the graph or program before a pass (or 'all')", 0},
        {"dump-after", KEY_DUMP_AFTER, "PASS", 0, "print it after a pass (or 'all')", 0},
        {"stop-after", KEY_STOP_AFTER, "PASS", 0, "stop after a pass and emit nothing", 0},
        {"time-passes", KEY_TIME_PASSES, NULL, 0, "print the time each pass took", 0},
        {0}},
    .parser = parse_looking};
