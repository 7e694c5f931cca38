/* tests/models/jit_shim.c: fxcc/jit.h for Python's ctypes: what structs hold, as arguments (jitted.py).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <time.h>

#include "fxcc/compile.h"
#include "fxcc/jit.h"

typedef struct shim {
    fx_context *ctx;
    fx_function *f;
} shim;

shim *shim_open(const char *path, int level, int threads, const char *cache, const char *disable, char *error, size_t size);
void shim_close(shim *s);
int64_t shim_fact(const shim *s, int which);
const char *shim_input(const shim *s, size_t i, int *changed);
const char *shim_state(const shim *s, size_t i, fx_tensor *value);
void shim_reset(shim *s);
int shim_outputs(shim *s, size_t n_in, const fx_tensor *in, size_t n_out, fx_tensor *out, char *error, size_t size);
int shim_call(shim *s, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error, size_t size);
double shim_seconds(shim *s, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, size_t calls);

/* NULL, and why in error. */
shim *shim_open(const char *path, int level, int threads, const char *cache, const char *disable, char *error, size_t size)
{
    shim *s = calloc(1, sizeof *s);
    const fx_jit_options o = {.level = level, .threads = threads, .cache = cache, .disable = disable};
    fx_graph *graph;
    if (!s)
        return NULL;
    s->ctx = fx_context_create();
    if (s->ctx && fx_load_model(s->ctx, path, &graph) == FX_OK && fx_jit_compile(graph, &o, &s->f) == FX_OK)
        return s;
    const fx_diag *d = s->ctx && fx_diag_count(s->ctx) ? fx_diag_get(s->ctx, fx_diag_count(s->ctx) - 1) : NULL;
    if (d)
        fx_diag_format(d, error, size);
    fx_context_free(s->ctx);
    free(s);
    return NULL;
}

void shim_close(shim *s)
{
    fx_function_free(s->f);
    fx_context_free(s->ctx);
    free(s);
}

int64_t shim_fact(const shim *s, int which)
{
    uint64_t arena, weights;
    fx_function_memory(s->f, &arena, &weights);
    const int64_t facts[] = {(int64_t)fx_function_input_count(s->f), (int64_t)fx_function_output_count(s->f), (int64_t)fx_function_state_count(s->f),
                             fx_function_cached(s->f), (int64_t)arena, (int64_t)weights};
    return facts[which];
}

const char *shim_input(const shim *s, size_t i, int *changed)
{
    *changed = fx_function_input(s->f, i)->changed;
    return fx_function_input(s->f, i)->name;
}

const char *shim_state(const shim *s, size_t i, fx_tensor *value)
{
    return fx_function_state(s->f, i, value)->name;
}

void shim_reset(shim *s)
{
    fx_function_reset(s->f);
}

int shim_outputs(shim *s, size_t n_in, const fx_tensor *in, size_t n_out, fx_tensor *out, char *error, size_t size)
{
    return fx_function_outputs(s->f, n_in, in, n_out, out, error, size);
}

int shim_call(shim *s, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error, size_t size)
{
    return fx_function_call(s->f, n_in, in, n_out, out, error, size);
}

/* Of that many calls in a row, for bench/jit; -1 when one fails. */
double shim_seconds(shim *s, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, size_t calls)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (size_t i = 0; i < calls; i++)
        if (fx_function_call(s->f, n_in, in, n_out, out, NULL, 0) != FX_OK)
            return -1;
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}
