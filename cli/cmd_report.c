/* cli/cmd_report.c: fxcc report: a table of what models cost as compiled.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct arguments {
    fx_compile_options options;
    char **models; /* points into argv */
    int n_models;
    bool verbose, json;
} arguments;

enum { KEY_JSON = 0x100 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->options;
        return 0;
    case 'v':
        a->verbose = true;
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        a->models = state->argv + state->next;
        a->n_models = state->argc - state->next;
        return 0;
    case ARGP_KEY_END:
        if (!a->n_models)
            argp_error(state, "expected models to report on");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"verbose", 'v', NULL, 0, "also a line for each copy that is left, with its reason; for a GPU, for each kernel (as with one model)", 0},
    {"json", KEY_JSON, NULL, 0, "for a GPU: all of it as JSON", 0}, {0}};

static const struct argp_child children[] = {{&lowering_argp, 0, NULL, 0}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL...",
    .children = children,
    .doc = "Compiles models without writing anything and prints a table (in Markdown): arena, largest set of tensors that live at once and their "
           "ratio (the worst of several choices of sizes, where the model leaves sizes open), weights, bytes that all steps "
           "read and write, the same without fusion, steps of plain loops, kernel calls, copies that are left, seconds. For a GPU: the kernels, what each computes, "
           "reads and writes, and how much that is of the least that any program for the graph moves."};

/* "12.3 MB" */
static const char *size_text(uint64_t bytes, char buf[32])
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    int u = 0;

    while (v >= 999.5 && u < 4) {
        v /= 1000;
        u++;
    }
    snprintf(buf, 32, u == 0 || v >= 99.95 ? "%.0f %s" : v >= 9.995 ? "%.1f %s" : "%.2f %s", v, unit[u]);
    return buf;
}

void model_name(const char *path, char *buf, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(buf, size, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(buf, '.');
    if (dot && dot > buf)
        *dot = 0;
}

/* Lines of copies, printed after the table. */
typedef struct copies {
    const char *model;
    char *text;
    size_t size;
    bool failed;
} copies;

static void note_copy(void *user, const fx_copy_info *copy)
{
    copies *c = user;
    char bytes[32];
    int n = snprintf(NULL, 0, "%s: %s, %s: %s\n", c->model, copy->step, size_text(copy->bytes, bytes), copy->why);
    char *text = n < 0 ? NULL : realloc(c->text, c->size + (size_t)n + 1);

    if (!text) {
        c->failed = true;
        return;
    }
    c->text = text;
    snprintf(text + c->size, (size_t)n + 1, "%s: %s, %s: %s\n", c->model, copy->step, bytes, copy->why);
    c->size += (size_t)n;
}

static int report_model(const char *command, const arguments *a, const char *path, copies *c)
{
    fx_graph *graph;
    fx_model_report r;
    char name[200], text[6][32];
    bool list = a->verbose || a->n_models == 1;
    fx_context *ctx = fx_context_create();

    if (!ctx)
        return complain(command, "out of memory");
    model_name(path, name, sizeof name);
    c->model = name;
    fx_status status = fx_load_model(ctx, path, &graph);
    if (status == FX_OK)
        status = fx_report(graph, &a->options, list ? note_copy : NULL, c, &r);
    report(command, ctx, false);
    if (status == FX_OK) {
        printf("| %s | %s | %s | %.3f | %s | %s | %s | %zu | %zu | %zu", name, size_text(r.arena_size, text[0]), size_text(r.live_size, text[1]),
               r.worst_ratio, size_text(r.weights_size, text[2]),
               size_text(r.bytes_moved, text[3]), size_text(r.bytes_unfused, text[4]), r.loops, r.kernels, r.copies);
        if (r.copies)
            printf(" (%s)", size_text(r.bytes_copied, text[5]));
        printf(" | %.2f |\n", r.seconds);
    }
    fx_context_free(ctx);
    return status != FX_OK;
}

/* 1: options name the target of a GPU; -1: none at all, with a message. */
static int is_for_gpu(const char *command, const fx_compile_options *options)
{
    fx_target_info info;
    fx_context *ctx = fx_context_create();

    if (!ctx)
        return complain(command, "out of memory") ? -1 : 0;
    fx_status status = options->target ? fx_target_describe(ctx, options->target, &info) : FX_OK;
    int gpu = status != FX_OK ? -1 : options->target && strcmp(info.isa, "cuda") == 0;
    report(command, ctx, false);
    fx_context_free(ctx);
    return gpu;
}

int cmd_report(int argc, char **argv)
{
    arguments a = {0};
    const char *command = argv[0];
    copies c = {0};
    int rc = 0;

    if (argp_parse(&argp, argc, argv, 0, NULL, &a))
        return 1;
    int gpu = is_for_gpu(command, &a.options);
    if (a.json && !gpu)
        rc = complain(command, "--json: expected the target of a GPU (--target=cuda)");
    else if (gpu)
        rc = gpu < 0 || report_kernels(command, &a.options, a.n_models, a.models, a.verbose || a.n_models == 1, a.json);
    if (a.json || gpu) {
        end_options(&a.options);
        return rc;
    }
    printf("| model | arena | largest live | ratio | weights | moved | without fusion | loops | kernels | copies | s |\n"
           "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    progress_begin("compiling");
    for (int i = 0; i < a.n_models; i++) {
        rc |= report_model(command, &a, a.models[i], &c);
        fflush(stdout);
    }
    progress_end();
    if (c.failed)
        rc = complain(command, "out of memory");
    if (c.text)
        printf("\nCopies that are left:\n%s", c.text);
    free(c.text);
    end_options(&a.options);
    return rc;
}
