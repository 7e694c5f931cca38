/* cli/cmd_bench.c: fxcc bench: how long a model takes: interpreted, as emitted C, compiled in memory.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "fxcc/pass.h"

typedef struct arguments {
    fx_compile_options options;
    const char *model;
    char **files; /* points into argv */
    int n_files, level;
    unsigned ways, seed;
    long runs;
    bool json, verbose;
} arguments;

enum { KEY_ONLY = 0x100, KEY_JSON, KEY_SEED, MAX_RUNS = 1000000 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;
    double v;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->options;
        return 0;
    case KEY_ONLY:
        if (!parse_ways(arg, &a->ways))
            argp_error(state, "expected --only=WAYS of interpreter, c and jit, with commas between, got '%s'", arg);
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    case KEY_SEED:
        if (!parse_number(arg, &v) || v < 0 || v > 1e9 || v != (unsigned)v)
            argp_error(state, "expected a seed from 0 to 1000000000, got '%s'", arg);
        a->seed = (unsigned)v;
        return 0;
    case 'n':
        if (!parse_number(arg, &v) || v < 1 || v > MAX_RUNS || v != (long)v)
            argp_error(state, "expected a number of runs from 1 to %d, got '%s'", MAX_RUNS, arg);
        a->runs = (long)v;
        return 0;
    case 'O':
        return parse_level(state, arg, &a->level);
    case 'v':
        a->verbose = true;
        return 0;
    case ARGP_KEY_ARGS:
        model_and_inputs(state, &a->model, &a->files, &a->n_files);
        return 0;
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to time");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"only", KEY_ONLY, "WAYS", 0, "what to time: interpreter, c, jit, with commas between; default c,jit", 0},
    {"runs", 'n', "N", 0, "runs to time after the first (default: as many as fit a second, 5 to 1000); the interpreter runs once", 0},
    {"seed", KEY_SEED, "N", 0, "of drawn inputs (default 0)", 0},
    {"json", KEY_JSON, NULL, 0, "print a JSON object instead of a table", 0},
    {NULL, 'O', "LEVEL", 0, "how much LLVM optimises: 1 (default) to 3", 0},
    {"verbose", 'v', NULL, 0, "print remarks", 0},
    {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL [INPUT...]",
    .doc = "Times a model as emitted C (built with $CC, default cc, and $CFLAGS, default -O3 -fopenmp) and compiled in memory by LLVM: compiling (nothing is "
           "taken from the cache), the first call, and median and minimum of more. Inputs are .npy files in the model's order, or .npz files of several; "
           "without any they are drawn: floats from -1 to 1, integers 0 or 1, open sizes at the low ends of their ranges (see --dim).",
    .children = (const struct argp_child[]){{&lowering_argp, 0, NULL, 0}, {0}}};

/* Seconds; below 0: there is none. */
typedef struct times {
    double compile, first, median, min;
    long runs;
    int64_t arena, weights;      /* bytes; -1 as above */
} times;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(times *t, double *runs, long n)
{
    qsort(runs, (size_t)n, sizeof *runs, ascending);
    t->runs = n;
    t->min = runs[0];
    t->median = n % 2 ? runs[n / 2] : (runs[n / 2 - 1] + runs[n / 2]) / 2;
}

static int time_interpreter(const char *command, fx_context *ctx, fx_graph *graph, const arguments *a, const fx_tensor *in, times *t)
{
    size_t n;
    fx_tensor *out;
    double begin = seconds_now();

    (void)command;
    (void)ctx;
    (void)a;
    if (fx_graph_interpret(graph, fx_graph_input_count(graph), in, &n, &out) != FX_OK)
        return 1;
    t->first = seconds_now() - begin;
    return 0;
}

static int time_c(const char *command, fx_context *ctx, fx_graph *graph, const arguments *a, const fx_tensor *in, times *t)
{
    char *dir = temp_folder(command);
    size_t n_results;
    fx_tensor *results = NULL;
    emitted_times e = {.n = a->runs};
    int rc = dir ? run_emitted(command, ctx, graph, &a->options, dir, in, 1, &n_results, &results, &e) : 1;

    if (!rc) {
        t->compile = e.emit + e.build;
        t->first = e.first;
        t->arena = e.arena ? (int64_t)e.arena : -1;
        t->weights = (int64_t)e.weights;
        summarise(t, e.runs, e.n);
    }
    free(e.runs);
    free(results);
    if (dir)
        temp_remove(dir);
    free(dir);
    return rc;
}

static int time_jit(const char *command, fx_context *ctx, fx_graph *graph, const arguments *a, const fx_tensor *inputs, times *t)
{
    const fx_jit_options o = jit_options(&a->options, a->level, true);
    size_t n_in = fx_graph_input_count(graph), n_out = fx_graph_output_count(graph);
    fx_tensor *in = calloc(n_in + 1, sizeof *in), *out = calloc(n_out + 1, sizeof *out);
    double *runs = NULL, begin = seconds_now();
    fx_function *f = NULL;
    char error[512];
    int rc = 1;

    if (!in || !out) {
        complain(command, "out of memory");
        goto done;
    }
    if (fx_jit_compile(graph, &o, &f) != FX_OK)
        goto done;
    t->compile = seconds_now() - begin;
    memcpy(in, inputs, n_in * sizeof *in);
    for (size_t i = 0; i < n_in; i++) /* what calls change is a copy */
        if (fx_function_input(f, i)->changed && tensor_like(ctx, &inputs[i], inputs[i].data, &in[i]) != FX_OK)
            goto done;
    if (fx_function_outputs(f, n_in, in, n_out, out, error, sizeof error) != FX_OK) {
        complain(command, "%s", error);
        goto done;
    }
    for (size_t i = 0; i < n_out; i++)
        if (tensor_like(ctx, &out[i], NULL, &out[i]) != FX_OK)
            goto done;
    long n = 0, done = -2; /* the first call; a warm one, which tells how many more */
    for (; done < n; done++) {
        begin = seconds_now();
        if (fx_function_call(f, n_in, in, n_out, out, error, sizeof error) != FX_OK) {
            complain(command, "%s", error);
            goto done;
        }
        double took = seconds_now() - begin;
        if (done == -2) {
            t->first = took;
        } else if (done == -1) {
            n = runs_to_time(a->runs, took);
            runs = malloc((size_t)n * sizeof *runs);
            if (!runs) {
                complain(command, "out of memory");
                goto done;
            }
        } else {
            runs[done] = took;
        }
    }
    summarise(t, runs, n);
    uint64_t arena, weights;
    fx_function_memory(f, &arena, &weights);
    t->arena = (int64_t)arena;
    t->weights = (int64_t)weights;
    rc = 0;
done:
    free(runs);
    free(in);
    free(out);
    fx_function_free(f);
    return rc;
}

/* ---- as a table, as JSON ------------------------------------------------------------------------------------------------- */

static const char *time_text(double seconds, char buf[32])
{
    static const struct { double least, scale; const char *unit; } units[] = {{1, 1, "s"}, {1e-3, 1e3, "ms"}, {0, 1e6, "us"}};
    size_t u = 0;

    if (seconds < 0)
        return strcpy(buf, "-");
    while (seconds < units[u].least)
        u++;
    snprintf(buf, 32, "%.4g %s", seconds * units[u].scale, units[u].unit);
    return buf;
}

static const char *bytes_text(int64_t bytes, char buf[32])
{
    if (bytes < 0)
        return strcpy(buf, "-");
    snprintf(buf, 32, bytes < 100000 ? "%.0f B" : "%.1f kB", bytes < 100000 ? (double)bytes : (double)bytes / 1e3);
    return buf;
}

static void print_table(const times *t, const bool *there)
{
    char b[6][32];

    printf("%-12s %12s %12s %12s %12s %8s %12s %12s\n", "by", "compile", "first call", "median", "min", "runs", "arena", "weights");
    for (int w = 0; w < N_WAYS; w++)
        if (there[w])
            printf("%-12s %12s %12s %12s %12s %8ld %12s %12s\n", way_names[w], time_text(t[w].compile, b[0]), time_text(t[w].first, b[1]),
                   time_text(t[w].median, b[2]), time_text(t[w].min, b[3]), t[w].runs, bytes_text(t[w].arena, b[4]), bytes_text(t[w].weights, b[5]));
    if (there[WAY_C] && there[WAY_JIT])
        printf("a call of jit takes %.3f of c's; compiling %.3f\n", t[WAY_JIT].median / t[WAY_C].median, t[WAY_JIT].compile / t[WAY_C].compile);
}

static void print_number(const char *name, double v, bool last)
{
    if (v < 0)
        printf("\"%s\": null%s", name, last ? "" : ", ");
    else
        printf("\"%s\": %.9g%s", name, v, last ? "" : ", ");
}

static void print_json(const arguments *a, const fx_tensor *in, size_t n_in, const times *t, const bool *there)
{
    char shape[256];

    printf("{\"model\": \"");
    for (const char *s = a->model; *s; s++)
        printf((unsigned char)*s < 32 ? "\\u%04x" : *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    printf("\", \"inputs\": [");
    for (size_t i = 0; i < n_in; i++)
        printf("%s\"%s\"", i ? ", " : "", shape_text(&in[i], shape, sizeof shape));
    printf("], \"drawn\": %s, \"seed\": %u", a->n_files ? "false" : "true", a->seed);
    for (int w = 0; w < N_WAYS; w++) {
        if (!there[w])
            continue;
        printf(", \"%s\": {", way_names[w]);
        print_number("compile_s", t[w].compile, false);
        print_number("first_s", t[w].first, false);
        print_number("median_s", t[w].median, false);
        print_number("min_s", t[w].min, false);
        print_number("runs", (double)t[w].runs, false);
        print_number("arena_bytes", (double)t[w].arena, false);
        print_number("weights_bytes", (double)t[w].weights, true);
        printf("}");
    }
    printf("}\n");
}

static int bench(const char *command, fx_context *ctx, const arguments *a)
{
    static int (*const run[N_WAYS])(const char *, fx_context *, fx_graph *, const arguments *, const fx_tensor *, times *) = {
        [WAY_INTERPRETER] = time_interpreter, [WAY_C] = time_c, [WAY_JIT] = time_jit};
    fx_graph *graph;
    fx_tensor *in = NULL;
    size_t n_in;
    times t[N_WAYS];
    bool there[N_WAYS] = {false};
    int rc = 1;

    if (fx_load_model(ctx, a->model, &graph) != FX_OK || fx_graph_legalize(graph, &graph) != FX_OK)
        return 1;
    n_in = fx_graph_input_count(graph);
    if (take_inputs(command, ctx, graph, a->model, a->n_files, a->files, &a->options, a->seed, a->json ? NULL : stdout, &in))
        return 1;
    if (fx_graph_shapes_for(graph, n_in, in, NULL) != FX_OK)
        goto done;
    for (int w = 0; w < N_WAYS; w++) { /* C before the JIT: its process has none of the threads that libgomp keeps */
        t[w] = (times){-1, -1, -1, -1, 0, -1, -1};
        if (!(a->ways >> w & 1))
            continue;
        if (run[w](command, ctx, graph, a, in, &t[w]))
            goto done;
        there[w] = true;
    }
    progress_end();
    if (a->json)
        print_json(a, in, n_in, t, there);
    else
        print_table(t, there);
    rc = 0;
done:
    free(in);
    return rc;
}

int cmd_bench(int argc, char **argv)
{
    arguments a = {.ways = 1u << WAY_C | 1u << WAY_JIT};
    const char *command = argv[0];

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    progress_begin("timing");
    int rc = refuse_gpu(command, ctx, &a.options) || bench(command, ctx, &a);
    report(command, ctx, a.verbose);
    end_options(&a.options);
    fx_context_free(ctx);
    return rc;
}
