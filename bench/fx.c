/* bench/fx.c: times what FX users do, through libfxcc's public API. bench/fx runs it side by side with torch.fx (bench/fx.py).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Reads lines "WORK NODES" and answers each with one line of JSON: seconds that one go takes, the nodes or matches there were, bytes a
 * node where WORK is build. Graphs are made anew where the work uses them up, outside of the time. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fxcc/compile.h"
#include "fxcc/inspect.h"
#include "fxcc/pass.h"
#include "fxcc/pattern.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A benchmark whose calls fail measures nothing. */
static void must(fx_context *ctx, bool ok, const char *what)
{
    char message[1000] = "";
    if (ok)
        return;
    if (fx_diag_count(ctx))
        fx_diag_format(fx_diag_get(ctx, 0), message, sizeof message);
    fprintf(stderr, "bench_fx: %s failed: %s\n", what, message);
    exit(1);
}

typedef struct bench {
    fx_context *ctx;
    fx_graph *g;
    long n;
    double units;   /* nodes, matches, ... of one go */
    double bytes;
    double seconds; /* where the work takes its time itself, else 0 */
} bench;

/* ---- graphs -------------------------------------------------------------------------------------------------------------- */

/* relu, add, relu, add, ...: each add of the last two. every: each so many-th node is used by nobody. */
static void chain(bench *b, long every)
{
    fx_graph *g = b->g;
    fx_node *x = fx_graph_placeholder(g, "x", NULL), *before = x, *last = x;
    for (long i = 0; i < b->n; i++) {
        fx_value args[2] = {fx_v_node(last), fx_v_node(before)};
        fx_node *n = i % 2 ? fx_graph_call_function(g, "torch.add", 2, args) : fx_graph_call_function(g, "torch.relu", 1, args);
        if (every && i % every == every - 1)
            continue;
        before = last;
        last = n;
    }
    must(b->ctx, fx_graph_output(g, fx_v_node(last)) != NULL, "building");
}

static void make_chain(bench *b)
{
    chain(b, 0);
}

static void make_half_dead(bench *b)
{
    chain(b, 2);
}

/* The same, typed: schemas and shapes are there to be checked. */
static void make_typed(bench *b)
{
    fx_pass_options in_place = {.in_place = true, .no_lint = true};
    fx_graph *out;
    chain(b, 0);
    must(b->ctx, fx_graph_run_passes(b->g, "infer(inputs=\"f32[4, 4]\")", &in_place, &out, NULL) == FX_OK, "inferring shapes");
}

/* Ten nodes of which add -> relu is what is looked for. */
static void make_matches(bench *b)
{
    static const char *const unary[] = {"torch.neg", "torch.sigmoid", "torch.tanh", "torch.exp", "torch.neg", "torch.sigmoid", "torch.tanh", "torch.neg"};
    fx_graph *g = b->g;
    fx_node *x = fx_graph_placeholder(g, "x", NULL), *n = x;
    for (long i = 0; i < b->n; i++) {
        fx_value args[2] = {fx_v_node(n), fx_v_node(x)};
        n = i % 10 == 8   ? fx_graph_call_function(g, "torch.add", 2, args)
            : i % 10 == 9 ? fx_graph_call_function(g, "torch.relu", 1, args)
                          : fx_graph_call_function(g, unary[i % 10], 1, args);
    }
    must(b->ctx, fx_graph_output(g, fx_v_node(n)) != NULL, "building");
}

static fx_status parameter(fx_context *ctx, fx_graph *g, const char *path, const char *name, int rank, const int64_t *sizes, bool buffer)
{
    char full[200];
    fx_tensor t;
    fx_status status = fx_tensor_create(ctx, FX_F32, rank, sizes, &t);
    for (int64_t i = 0; status == FX_OK && i < fx_tensor_numel(&t); i++)
        ((float *)t.data)[i] = 0.5f + (float)(i % 7) * 0.01f;
    snprintf(full, sizeof full, "%s.%s", path, name);
    return status != FX_OK ? status : buffer ? fx_graph_set_buffer(g, full, &t, true) : fx_graph_set_parameter(g, full, &t);
}

/* BigModel of the tests: n times conv, batch norm, relu, as torch.fx captures it, of so many channels. */
static void big_model(bench *b, int64_t channels)
{
    static const char *const conv_keys[] = {"in_channels", "out_channels", "kernel_size", "padding"}, *const bn_keys[] = {"num_features"};
    static const char *const of_bn[] = {"weight", "bias", "running_mean", "running_var"};
    fx_value config[] = {fx_v_int(channels), fx_v_int(channels), fx_v_int(3), fx_v_int(1)};
    const int64_t weight[] = {channels, channels, 3, 3};
    fx_node *n = fx_graph_placeholder(b->g, "x", NULL);
    for (long i = 0; i < b->n; i++) {
        char conv[60], bn[60], relu[60];
        snprintf(conv, sizeof conv, "layers.%ld", 3 * i);
        snprintf(bn, sizeof bn, "layers.%ld", 3 * i + 1);
        snprintf(relu, sizeof relu, "layers.%ld", 3 * i + 2);
        bool ok = fx_graph_add_submodule(b->g, conv, "torch.nn.Conv2d", 4, conv_keys, config) &&
                  fx_graph_add_submodule(b->g, bn, "torch.nn.BatchNorm2d", 1, bn_keys, config) &&
                  fx_graph_add_submodule(b->g, relu, "torch.nn.ReLU", 0, NULL, NULL) &&
                  parameter(b->ctx, b->g, conv, "weight", 4, weight, false) == FX_OK &&
                  parameter(b->ctx, b->g, conv, "bias", 1, weight, false) == FX_OK;
        for (int k = 0; ok && k < 4; k++)
            ok = parameter(b->ctx, b->g, bn, of_bn[k], 1, weight, k > 1) == FX_OK;
        must(b->ctx, ok, "adding modules");
        fx_value x = fx_v_node(n);
        n = fx_graph_call_module(b->g, conv, 1, &x);
        x = fx_v_node(n);
        n = fx_graph_call_module(b->g, bn, 1, &x);
        x = fx_v_node(n);
        n = fx_graph_call_module(b->g, relu, 1, &x);
    }
    must(b->ctx, fx_graph_output(b->g, fx_v_node(n)) != NULL, "building");
}

static void make_thin_model(bench *b)
{
    big_model(b, 1);
}

static void make_big_model(bench *b)
{
    big_model(b, 64);
}

static void make_nothing(bench *b)
{
    (void)b;
}

/* ---- work ---------------------------------------------------------------------------------------------------------------- */

static size_t memory_in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void build(bench *b)
{
    size_t before = memory_in_use();
    chain(b, 0);
    b->bytes = (double)(memory_in_use() - before) / (double)b->n;
    b->units = (double)b->n;
}

static void iterate(bench *b)
{
    long count = 0, calls = 0;
    for (const fx_node *n = fx_graph_first(b->g); n; n = fx_node_next(n), count++)
        calls += fx_node_opcode(n) == FX_CALL_FUNCTION;
    must(b->ctx, calls == b->n && count == b->n + 2, "iterating");
    b->units = (double)count;
}

static void lint(bench *b)
{
    must(b->ctx, fx_graph_lint(b->g, FX_LINT_STRUCTURE) == FX_OK, "lint");
    b->units = (double)fx_graph_node_count(b->g);
}

static void lint_all(bench *b)
{
    must(b->ctx, fx_graph_lint(b->g, FX_LINT_ALL) == FX_OK, "lint with schemas and shapes");
    b->units = (double)fx_graph_node_count(b->g);
}

static void dead_code(bench *b)
{
    size_t removed = 0, all = fx_graph_node_count(b->g);
    must(b->ctx, fx_graph_eliminate_dead_code(b->g, NULL, NULL, &removed) == FX_OK && removed == (size_t)b->n / 2, "eliminating dead code");
    b->units = (double)all;
}

static void copy(bench *b)
{
    must(b->ctx, fx_graph_deepcopy(b->g) != NULL, "copying");
    b->units = (double)fx_graph_node_count(b->g);
}

static void code(bench *b)
{
    const char *text;
    must(b->ctx, fx_graph_format(b->g, FX_FORM_CODE, &text) == FX_OK && strlen(text) > (size_t)b->n, "printing code");
    b->units = (double)fx_graph_node_count(b->g);
}

static void fuse(bench *b)
{
    fx_pass_options in_place = {.in_place = true};
    fx_graph *out;
    must(b->ctx, fx_graph_run_passes(b->g, "fuse_conv_bn", &in_place, &out, NULL) == FX_OK, "fusing");
    b->units = (double)b->n;
    must(b->ctx, fx_graph_node_count(out) == (size_t)(2 * b->n + 2), "fusing all");
}

/* What fusing cannot do without: every weight read once and written once. */
static void read_and_write(bench *b)
{
    for (size_t i = 0; i < fx_graph_attr_count(b->g); i++) {
        fx_attr_info info;
        fx_tensor from, to;
        bool ok = fx_graph_attr_info(b->g, i, &info) && fx_graph_tensor(b->g, info.path, &from) == FX_OK;
        if (!ok || info.rank != 4)
            continue;
        must(b->ctx, fx_tensor_create(b->ctx, from.dtype, from.rank, from.sizes, &to) == FX_OK, "a tensor");
        memcpy(to.data, from.data, (size_t)fx_tensor_numel(&from) * fx_dtype_size(from.dtype));
    }
    b->units = (double)b->n;
}

static void matches(bench *b)
{
    fx_graph *p = fx_graph_create(b->ctx, "pattern");
    fx_value args[2] = {fx_v_node(fx_graph_placeholder(p, "a", NULL)), fx_v_node(fx_graph_placeholder(p, "b", NULL))};
    fx_value sum = fx_v_node(fx_graph_call_function(p, "torch.add", 2, args));
    fx_graph_output(p, fx_v_node(fx_graph_call_function(p, "torch.relu", 1, &sum)));
    size_t count = 0;
    const fx_match *found;
    must(b->ctx, fx_graph_find_pattern(b->g, p, NULL, &count, &found) == FX_OK && count == (size_t)b->n / 10, "finding a pattern");
    b->units = (double)count;
}

static bool is_relu(void *user, const fx_node *n)
{
    (void)user;
    return !strcmp(fx_node_target(n), "torch.relu");
}

static void partition(bench *b)
{
    size_t parts = 0;
    int *of = malloc(fx_graph_node_count(b->g) * sizeof *of);
    must(b->ctx, of && fx_graph_partition(b->g, is_relu, NULL, 1, of, &parts) == FX_OK && parts > 0, "partitioning");
    free(of);
    b->units = (double)parts;
}

/* What the machine's memory does to any list: items of 200 bytes, one after another. No graph at all. */
static void plain_list(bench *b)
{
    typedef struct item {
        struct item *next;
        char rest[192];
    } item;
    item *items = calloc((size_t)b->n, sizeof *items);
    long count = 0;
    double best = 1e30;
    must(b->ctx, items != NULL, "a list");
    for (long i = 0; i + 1 < b->n; i++)
        items[i].next = &items[i + 1];
    for (int go = 0; go < 5; go++) {
        double t = now();
        for (const volatile item *i = items; i; i = i->next)
            count++;
        t = now() - t;
        best = t < best ? t : best;
    }
    must(b->ctx, count == 5 * b->n, "walking a list");
    free(items);
    b->units = (double)b->n;
    b->seconds = best;
}

/* ---- the table of work ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*make)(bench *b), (*work)(bench *b);
    bool uses_up; /* the graph: made anew for each go */
} table[] = {
    {"build", make_nothing, build, true},         {"iterate", make_chain, iterate, false}, {"lint", make_chain, lint, false},
    {"lint_all", make_typed, lint_all, false},    {"dead_code", make_half_dead, dead_code, true}, {"copy", make_chain, copy, true},
    {"code", make_chain, code, true},             {"fuse", make_thin_model, fuse, true},  {"fuse_weights", make_big_model, fuse, true},
    {"read_write", make_big_model, read_and_write, true}, {"matches", make_matches, matches, false}, {"partition", make_chain, partition, false},
    {"plain_list", make_nothing, plain_list, true},
};

static bool start(bench *b, size_t i)
{
    b->ctx = fx_context_create();
    b->g = b->ctx ? fx_graph_create(b->ctx, "bench") : NULL;
    if (b->g)
        table[i].make(b);
    return b->g != NULL;
}

/* Goes for a fiftieth of a second at least, three of them at least (where the work is short): the best counts. */
static bool measure(size_t i, long n)
{
    bench b = {.n = n};
    double best = 1e30, spent = 0;
    bool started = false;
    for (int go = 0; go < 1000 && (go == 0 || spent < 0.02 || (go < 3 && spent < 1)); go++) {
        if (!started && !start(&b, i))
            return false;
        started = true;
        double t = now();
        table[i].work(&b);
        t = b.seconds > 0 ? b.seconds : now() - t;
        spent += t;
        best = t < best ? t : best;
        if (table[i].uses_up) {
            fx_context_free(b.ctx);
            started = false;
        }
    }
    if (started)
        fx_context_free(b.ctx);
    printf("{\"seconds\": %.9g, \"units\": %.9g, \"bytes\": %.9g}\n", best, b.units, b.bytes);
    fflush(stdout);
    return true;
}

int main(void)
{
    char line[200], name[100];
    long n;
    while (fgets(line, sizeof line, stdin)) {
        size_t i = 0, count = sizeof table / sizeof *table;
        if (sscanf(line, "%99s %ld", name, &n) != 2 || n < 1) {
            fprintf(stderr, "bench_fx: expected WORK NODES, got '%s'\n", line);
            return 2;
        }
        while (i < count && strcmp(table[i].name, name))
            i++;
        if (i == count || !measure(i, n)) {
            fprintf(stderr, "bench_fx: '%s' is no work, or there is no memory\n", name);
            return 2;
        }
    }
    return 0;
}
