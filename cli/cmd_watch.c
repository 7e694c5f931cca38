/* cli/cmd_watch.c: fxcc watch: compiles and runs a model each time its file changes, and tells what changed.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/cli.h"
#include "fxcc/pass.h"

typedef struct arguments {
    fx_compile_options options;
    const char *model, *output;
    char **files;                /* inputs */
    int n_files, level;
    long count;                  /* runs until it ends; 0: no end */
    bool no_cache, verbose;
} arguments;

enum { KEY_COUNT = 0x100, KEY_ONCE, KEY_NO_CACHE, POLL_MS = 100, SETTLE_MS = 50 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    double v;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->options;
        return 0;
    case 'i': {
        char **files = realloc(a->files, (size_t)(a->n_files + 1) * sizeof *files);
        if (!files)
            argp_failure(state, 1, 0, "out of memory");
        files[a->n_files++] = arg;
        a->files = files;
        return 0;
    }
    case 'o':
        a->output = arg;
        if (!has_suffix(arg, ".npz"))
            argp_error(state, "expected an output file named .npz, got '%s'", arg);
        return 0;
    case KEY_ONCE:
        a->count = 1;
        return 0;
    case KEY_COUNT:
        if (!parse_number(arg, &v) || v < 1 || v > 1e9 || v != (long)v)
            argp_error(state, "expected a number of runs from 1 to 1000000000, got '%s'", arg);
        a->count = (long)v;
        return 0;
    case KEY_NO_CACHE:
        a->no_cache = true;
        return 0;
    case 'O':
        return parse_level(state, arg, &a->level);
    case 'v':
        a->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        return one_argument(state, &a->model, arg, "model");
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to watch");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"in", 'i', "FILE", 0, "an input, .npy, or .npz of several; give it again for more, in the model's order. Without any, inputs are drawn, as by 'fxcc bench'", 0},
    {"output", 'o', "FILE.npz", 0, "write the outputs of the last run here", 0},
    {"once", KEY_ONCE, NULL, 0, "end after the first run", 0},
    {"count", KEY_COUNT, "N", 0, "end after N runs, those that fail among them", 0},
    {"no-cache", KEY_NO_CACHE, NULL, 0, "neither take compiled code of an earlier run nor keep it; see 'fxcc cache'", 0},
    {NULL, 'O', "LEVEL", 0, "how much LLVM optimises: 1 (default) to 3", 0},
    {"verbose", 'v', NULL, 0, "print remarks", 0},
    {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .doc = "Compiles a model in memory and runs it, and does so again whenever its file or an input's changes: tells which nodes and parameters came, went or "
           "changed and how far outputs are from those before. A file that is broken, or half written, is told of and waited for. Ctrl-C ends it.",
    .children = (const struct argp_child[]){{&jit_argp, 0, NULL, 0}, {0}}};

/* ---- files that change --------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); /* a signal may end it early */
}

/* Of all files: changes with each of them. */
static uint64_t stamp_of(const char *path, uint64_t stamp)
{
    struct stat st = {0};
    uint64_t parts[5] = {0};

    if (stat(path, &st) == 0) {
        const uint64_t seen[5] = {(uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec, (uint64_t)st.st_size, st.st_ino, st.st_dev};
        memcpy(parts, seen, sizeof parts);
    }
    for (int i = 0; i < 5; i++)
        stamp = (stamp ^ parts[i]) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    return stamp;
}

/* What lies beside a .fx text with its weights; NULL: nothing. For the caller to free. */
static char *weights_beside(const char *model)
{
    size_t n = strlen(model);
    char *path = has_suffix(model, ".fx") ? malloc(n + sizeof ".safetensors") : NULL;

    if (path)
        sprintf(path, "%.*s.safetensors", (int)n - 3, model);
    return path;
}

static uint64_t stamp(const arguments *a, const char *beside)
{
    uint64_t s = stamp_of(a->model, 1);

    if (beside)
        s = stamp_of(beside, s);
    for (int i = 0; i < a->n_files; i++)
        s = stamp_of(a->files[i], s);
    return s;
}

static int copy_into(const char *command, const char *path, const char *dir, char **copy)
{
    const char *slash = strrchr(path, '/');
    size_t size;
    char *text = read_text(path, &size);
    int rc = 1;

    *copy = path_join(dir, slash ? slash + 1 : path);
    if (!text)
        complain(command, "%s: expected a file to read", path);
    else if (!*copy)
        complain(command, "out of memory");
    else
        rc = write_text(command, *copy, text, size);
    free(text);
    return rc;
}

/* ---- a run --------------------------------------------------------------------------------------------------------------- */

/* A model that ran, and what it gave. */
typedef struct ran {
    fx_context *ctx;
    fx_graph *graph;
    fx_tensor *results;
    size_t n;
} ran;

static void drop(ran *r)
{
    free(r->results);
    fx_context_free(r->ctx);
    *r = (ran){0};
}

/* Weights are mapped from the file, which may be written to while we run: so it is a copy that is read. */
static int load(const char *command, const arguments *a, const char *beside, ran *r)
{
    char *dir = temp_folder(command), *copy = NULL, *weights = NULL;
    int rc = 1;
    struct stat st;

    if (!dir)
        return 1;
    if (copy_into(command, a->model, dir, &copy) == 0 && (!beside || stat(beside, &st) != 0 || copy_into(command, beside, dir, &weights) == 0)) {
        rc = fx_load_model(r->ctx, copy, &r->graph) != FX_OK;
        report_renamed(command, r->ctx, a->verbose, copy, a->model);
        fx_diag_clear(r->ctx);
    }
    temp_remove(dir); /* what is mapped stays */
    free(copy);
    free(weights);
    free(dir);
    return rc;
}

static int run(const char *command, const arguments *a, const char *beside, bool first, ran *r)
{
    const way_options o = {.lowering = &a->options, .level = a->level, .no_cache = a->no_cache};
    fx_graph *legal;
    fx_tensor *in = NULL;
    int rc = 1;

    r->ctx = fx_context_create();
    if (!r->ctx)
        return complain(command, "out of memory");
    double begin = seconds_now();
    if (load(command, a, beside, r))
        return 1;
    if (take_inputs(command, r->ctx, r->graph, a->model, a->n_files, a->files, &a->options, 0, first ? stdout : NULL, &in))
        return 1;
    if (fx_graph_shapes_for(r->graph, fx_graph_input_count(r->graph), in, NULL) != FX_OK || fx_graph_legalize(r->graph, &legal) != FX_OK ||
        run_way(command, r->ctx, legal, WAY_JIT, &o, in, 1, &r->n, &r->results))
        goto done;
    printf("%s: loaded, compiled and run in %.1f ms\n", a->model, 1e3 * (seconds_now() - begin));
    rc = a->output && write_tensors(r->ctx, a->output, r->n, r->results) != FX_OK;
done:
    free(in);
    return rc;
}

static void print_outputs(const ran *before, const ran *now)
{
    char was[256], is[256];

    for (size_t i = 0; i < now->n; i++) {
        if (i >= before->n || !before->ctx)
            printf("  output %zu: %s\n", i, shape_text(&now->results[i], is, sizeof is));
        else if (!same_shape(&before->results[i], &now->results[i]))
            printf("  output %zu: %s, was %s\n", i, shape_text(&now->results[i], is, sizeof is), shape_text(&before->results[i], was, sizeof was));
        else
            printf("  output %zu: %s, max abs difference %.4g\n", i, shape_text(&now->results[i], is, sizeof is),
                   compare(&now->results[i], &before->results[i], 0, 0).abs);
    }
}

static int watch(const char *command, const arguments *a)
{
    char *beside = weights_beside(a->model);
    ran before = {0};
    uint64_t seen = 0;
    long runs = 0;
    int rc = 0;

    while (!stopped && (!a->count || runs < a->count)) {
        uint64_t now = stamp(a, beside), settled;
        if (runs && now == seen) {
            sleep_ms(POLL_MS);
            continue;
        }
        while (runs && !stopped && (sleep_ms(SETTLE_MS), (settled = stamp(a, beside)) != now)) /* who writes it is done */
            now = settled;
        if (stopped)
            break;
        seen = now;
        ran next = {0};
        rc = run(command, a, beside, !before.ctx, &next);
        runs++;
        if (next.ctx)
            report(command, next.ctx, a->verbose);
        if (rc) {
            drop(&next);
            if (!a->count || runs < a->count)
                fprintf(stderr, "%s: waiting for a change of %s\n", command, a->model);
        } else {
            if (before.ctx)
                print_changes(command, before.graph, next.graph);
            print_outputs(&before, &next);
            drop(&before);
            before = next;
        }
        fflush(stdout);
    }
    drop(&before);
    free(beside);
    return stopped ? 0 : rc;
}

int cmd_watch(int argc, char **argv)
{
    arguments a = {0};
    const char *command = argv[0];
    struct sigaction action = {.sa_handler = stop, .sa_flags = (int)SA_RESETHAND}; /* a second Ctrl-C ends it at once */

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    fx_context_free(ctx); /* each run has its own */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int rc = watch(command, &a);
    end_options(&a.options);
    free(a.files);
    return rc;
}
