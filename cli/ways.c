/* cli/ways.c: the ways a model is run: interpreted, as emitted C, compiled in memory.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"

const char *const way_names[N_WAYS] = {[WAY_INTERPRETER] = "interpreter", [WAY_C] = "c", [WAY_JIT] = "jit"};

bool parse_ways(const char *list, unsigned *ways)
{
    *ways = 0;
    for (const char *s = list; *s;) {
        size_t n = strcspn(s, ",");
        int w = 0;
        while (w < N_WAYS && (strlen(way_names[w]) != n || memcmp(way_names[w], s, n)))
            w++;
        if (w == N_WAYS)
            return false;
        *ways |= 1u << w;
        s += n + (s[n] == ',');
    }
    return *ways != 0;
}

int refuse_gpu(const char *command, fx_context *ctx, const fx_compile_options *options)
{
    fx_target_info target;

    if (!options->target)
        return 0;
    if (fx_target_describe(ctx, options->target, &target) != FX_OK)
        return 1;
    return !target.gpu ? 0 : complain(command, "target %s: expected that of a CPU; 'fxcc run --device=cuda' and 'fxcc check --device=cuda' compile "
                                                     "for a GPU in memory, 'fxcc compile --check' writes CUDA sources and a program that judges them", target.name);
}

double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

long runs_to_time(long wanted, double seconds)
{
    double n = 1 / (seconds > 1e-9 ? seconds : 1e-9);

    return wanted ? wanted : n < 5 ? 5 : n > 1000 ? 1000 : (long)n;
}

fx_jit_options jit_options(const fx_compile_options *options, int level, bool no_cache)
{
    return (fx_jit_options){.level = level, .threads = options->threads, .dims = options->dims, .n_dims = options->n_dims, .disable = options->disable,
                            .cache = no_cache ? "" : NULL};
}

static int run_interpreted(const char *command, fx_graph *graph, size_t n_in, const fx_tensor *inputs, size_t calls, size_t *n_results, fx_tensor **results)
{
    size_t n;
    fx_tensor *made;

    if (fx_graph_calls(graph, calls, n_in, inputs, &n, &made) != FX_OK)
        return 1;
    *results = malloc((n + 1) * sizeof **results);
    if (!*results)
        return complain(command, "out of memory");
    memcpy(*results, made, n * sizeof **results);
    *n_results = n;
    return 0;
}

int run_way(const char *command, fx_context *ctx, fx_graph *graph, way w, const way_options *o, const fx_tensor *inputs, size_t calls, size_t *n_results,
            fx_tensor **results)
{
    if (w == WAY_INTERPRETER)
        return run_interpreted(command, graph, fx_graph_input_count(graph), inputs, calls, n_results, results);
    if (w == WAY_JIT) {
        fx_jit_options jit = jit_options(o->lowering, o->level, o->no_cache);
        jit.debug = o->debug;
        jit.device = o->device;
        return run_jitted(command, ctx, graph, &jit, inputs, calls, n_results, results);
    }
    char *dir = temp_folder(command);
    int rc = dir ? run_emitted(command, ctx, graph, o->lowering, dir, inputs, calls, n_results, results, NULL) : 1;
    if (dir)
        temp_remove(dir);
    free(dir);
    return rc;
}
