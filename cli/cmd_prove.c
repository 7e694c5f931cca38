/* cli/cmd_prove.c: fxcc prove: what is proved of a model's loops, a line each.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "cli/cli.h"
#include "fxcc/prove.h"

typedef struct arguments {
    fx_compile_options options;
    const char *model;
    bool quiet;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->options; return 0;
    case 'q': a->quiet = true; return 0;
    case ARGP_KEY_ARG: return one_argument(state, &a->model, arg, "model");
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to prove");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {{"quiet", 'q', NULL, 0, "print only what is not proved, and the summary", 0}, {0}};

static const struct argp_child children[] = {{&lowering_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .children = children,
    .doc = "Proves of each loop of the model's program that its accesses lie within their buffers and that iterations which run at once touch "
           "different elements; of each kernel call its preconditions; of buffers that live at once that they lie apart. One line each: step, "
           "loop, what is proved, by what, in how long. Exits 1 when something is not proved, unless --unproved=warn."};

static void line(void *user, const fx_proof *p)
{
    const arguments *a = user;
    if (p->proved && !a->quiet)
        printf("proved    %s: %s: %s; by %s; %.3f ms\n", p->step, p->loop, p->what, p->by, 1e3 * p->seconds);
    else if (!p->proved)
        printf("UNPROVED  %s: %s: %s: %s\n", p->step, p->loop, p->what, p->missing);
}

int cmd_prove(int argc, char **argv)
{
    arguments a = {0};
    const char *command = argv[0];
    fx_graph *graph;
    fx_prove_summary sum = {0};

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    progress_begin("proving");
    fx_status status = fx_load_model(ctx, a.model, &graph);
    if (status == FX_OK)
        status = fx_prove(graph, &a.options, line, &a, &sum);
    progress_end();
    report(command, ctx, false);
    if (status == FX_OK)
        printf("%zu proved, %zu not; %.3f ms, isl %d queries in %.3f ms\n", sum.proved, sum.unproved, 1e3 * sum.seconds, sum.isl_queries,
               1e3 * sum.isl_seconds);
    fx_context_free(ctx);
    end_options(&a.options);
    return status != FX_OK || (sum.unproved && !a.options.unproved_warn);
}
