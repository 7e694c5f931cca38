/* cli/cmd_opt.c: fxcc opt: a model through passes into a model.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "fxcc/pass.h"

enum { KEY_PASSES = 'p', KEY_LOG = 0x100, KEY_TIME, KEY_DUMP_AFTER, KEY_NO_LINT };

typedef struct arguments {
    const char *model, *out, *passes, *dump_after;
    bool log, time, no_lint;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    switch (key) {
    case 'o': return one_argument(state, &a->out, arg, "-o FILE");
    case KEY_PASSES: return one_argument(state, &a->passes, arg, "--passes=LIST");
    case KEY_LOG: a->log = true; return 0;
    case KEY_TIME: a->time = true; return 0;
    case KEY_NO_LINT: a->no_lint = true; return 0;
    case KEY_DUMP_AFTER:
        a->dump_after = arg;
        if (!strcmp(arg, "all"))
            return 0;
        for (size_t i = 0; fx_graph_pass_get(i); i++)
            if (!strcmp(arg, fx_graph_pass_get(i)->name))
                return 0;
        argp_error(state, "expected the name of a pass or 'all', got '%s'; see 'fxcc passes'", arg);
        return 0;
    case ARGP_KEY_ARG: return one_argument(state, &a->model, arg, "model");
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to change");
        if (!a->passes)
            argp_error(state, "expected --passes=LIST, what to do with it; see 'fxcc passes'");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"passes", KEY_PASSES, "LIST", 0, "passes in their order, with options in brackets: fuse_conv_bn,prune(amount=0.5)", 0},
    {"output", 'o', "FILE", 0, "model to write, .fx (with weights beside it) or .pt2; without it the .fx text goes to standard output", 0},
    {"log", KEY_LOG, NULL, 0, "tell what each pass changed", 0},
    {"time", KEY_TIME, NULL, 0, "tell how long each pass took", 0},
    {"dump-after", KEY_DUMP_AFTER, "PASS", 0, "print the graph after a pass (or 'all')", 0},
    {"no-lint", KEY_NO_LINT, NULL, 0, "leave out the check after each pass", 0},
    {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .doc = "Runs passes over a model's graph and writes the model that comes out. What is told on the way are lines that begin with //, "
           "comments of .fx texts."};

typedef struct dumping {
    const char *pass;
} dumping;

static fx_status dump(void *user, const char *pass, fx_graph *graph)
{
    const dumping *d = user;
    const char *text;

    if (strcmp(d->pass, "all") && strcmp(d->pass, pass))
        return FX_OK;
    fx_status status = fx_graph_format(graph, FX_FORM_TEXT, &text);
    if (status == FX_OK)
        printf("// after %s\n%s\n", pass, text);
    return status;
}

static void tell_all(size_t n, const fx_change *list)
{
    for (const fx_change *c = list; c < list + n; c++) {
        if (c->node)
            printf("// %s: '%s': %s\n", c->pass, c->node, c->what);
        else
            printf("// %s: %s\n", c->pass, c->what);
    }
}

static void tell(const arguments *a, const fx_pass_report *r)
{
    if (a->log) {
        tell_all(r->n_changes, r->changes);
        tell_all(r->n_notes, r->notes);
    }
    for (size_t i = 0; a->time && i < r->n_times; i++)
        printf("// time %-24s %9.3f ms, %zu changes, %zu nodes then\n", r->times[i].pass, 1e3 * r->times[i].seconds, r->times[i].changes,
               r->times[i].nodes_after);
}

int cmd_opt(int argc, char **argv)
{
    arguments a = {0};
    fx_graph *graph = NULL;
    fx_pass_report changes;
    const char *command = argv[0], *text = NULL;

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    progress_begin("changing");
    dumping d = {a.dump_after};
    fx_pass_options run = {.in_place = true, .no_lint = a.no_lint, .check = a.dump_after ? dump : NULL, .user = &d};
    fx_status status = fx_load_model(ctx, a.model, &graph);
    if (status == FX_OK)
        status = fx_graph_run_passes(graph, a.passes, &run, NULL, &changes);
    if (status == FX_OK)
        status = a.out ? fx_model_save(graph, a.out) : fx_graph_format(graph, FX_FORM_TEXT, &text);
    report(command, ctx, false);
    int rc = status != FX_OK;
    if (!rc) {
        tell(&a, &changes);
        if (text)
            fputs(text, stdout);
    }
    fx_context_free(ctx);
    return rc;
}
