/* bench/jit.c: where the time of compiling a model in memory goes, by parts, in a process that has done nothing yet. bench/jit runs it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *   bench_jit MODEL LEVEL    one line of JSON: milliseconds */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "driver/driver.h"
#include "jit/code.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

typedef struct job {
    fx_graph *graph;
    int level;
    fx_program *program;
    fx_code *code;
} job;

static fx_status lower(void *user)
{
    job *j = user;
    const fx_compile_options o = {0};
    return fx_lower_quietly(j->graph, &o, &j->program);
}

static fx_status compile(void *user)
{
    job *j = user;
    const fx_code_options o = {.level = j->level, .threads = 1};
    return fx_code_compile(j->program, &o, &j->code);
}

int main(int argc, char **argv)
{
    fx_context *ctx = fx_context_create();
    job j = {.level = argc == 3 ? atoi(argv[2]) : 0};
    char text[1000];
    if (!ctx || argc != 3)
        return 2;
    double start = now();
    fx_status status = fx_load_model(ctx, argv[1], &j.graph);
    double opened = now();
    if (status == FX_OK)
        status = fx_protect(ctx, lower, &j);
    double lowered = now();
    if (status == FX_OK)
        status = fx_protect(ctx, compile, &j);
    double done = now();
    if (status != FX_OK) {
        fx_diag_format(fx_diag_get(ctx, fx_diag_count(ctx) - 1), text, sizeof text);
        fprintf(stderr, "bench_jit: %s\n", text);
        return 1;
    }
    fx_code_times t = fx_code_took(j.code);
    printf("{\"open\": %.3f, \"lower\": %.3f, \"jit\": %.3f, \"libllvm\": %.3f, \"emit\": %.3f, \"passes\": %.3f, \"codegen\": %.3f, \"link\": %.3f}\n",
           opened - start, lowered - opened, done - lowered, t.load, t.emit, t.passes, t.codegen, t.link);
    fx_code_free(j.code);
    fx_arena_free(j.program->arena);
    fx_context_free(ctx);
    return 0;
}
