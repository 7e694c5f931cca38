/* examples/jit/main.c: a saved model compiled in memory and called: the digits classifier (../digits).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *   jit digits.pt2    compiles it, tells what it takes and gives, and reads 100 pictures
 *
 * docs/jit.md explains it. No Python, no compiler: libfxcc loads libLLVM when it first compiles. */
#include <stdio.h>

#include <fxcc/compile.h>
#include <fxcc/inspect.h>
#include <fxcc/jit.h>

#include "../digits/pictures.h"

static void tell(const char *what, const fx_value_info *v)
{
    printf("%s %s: %s [", what, v->name, fx_dtype_name(v->dtype));
    for (int d = 0; d < v->rank; d++) {
        if (v->min[d] == v->max[d])
            printf("%s%lld", d ? ", " : "", (long long)v->min[d]);
        else
            printf("%s%lld..%lld", d ? ", " : "", (long long)v->min[d], (long long)v->max[d]);
    }
    printf("]\n");
}

/* The digit on a picture, -1 on an error. */
static int classify(fx_function *f, const struct picture *p)
{
    float x[64], y[10];
    char error[200];
    /* Tensors are windows on memory of the caller's: nothing is copied. */
    const fx_tensor in = {.dtype = FX_F32, .rank = 4, .sizes = {1, 1, 8, 8}, .strides = {64, 64, 8, 1}, .data = x};
    const fx_tensor out = {.dtype = FX_F32, .rank = 2, .sizes = {1, 10}, .strides = {10, 1}, .data = y};
    int best = 0;

    for (int i = 0; i < 64; i++)
        x[i] = (float)p->pixel[i] / 16;
    if (fx_function_call(f, 1, &in, 1, &out, error, sizeof error) != FX_OK) {
        fprintf(stderr, "jit: %s\n", error);
        return -1;
    }
    for (int i = 1; i < 10; i++)
        if (y[i] > y[best])
            best = i;
    return best;
}

static int run(fx_context *ctx, const char *path)
{
    fx_graph *graph;
    fx_function *f;
    uint64_t arena, weights;
    int right = 0;

    if (fx_load_model(ctx, path, &graph) != FX_OK || fx_jit_compile(graph, NULL, &f) != FX_OK)
        return 1;
    for (size_t i = 0; i < fx_function_input_count(f); i++)
        tell("input", fx_function_input(f, i));
    for (size_t i = 0; i < fx_function_output_count(f); i++)
        tell("output", fx_function_output(f, i));
    fx_function_memory(f, &arena, &weights);
    printf("weights %llu bytes, scratch memory %llu\n", (unsigned long long)weights, (unsigned long long)arena);

    for (int i = 0; i < N_PICTURES; i++)
        right += classify(f, &pictures[i]) == pictures[i].label;
    printf("%d of %d pictures that were kept from training are read right.\n", right, N_PICTURES);
    fx_function_free(f);
    return right < N_PICTURES * 9 / 10;
}

int main(int argc, char **argv)
{
    fx_context *ctx = fx_context_create();
    int rc = 1;

    if (argc != 2)
        fprintf(stderr, "usage: jit MODEL.pt2\n");
    else if (ctx)
        rc = run(ctx, argv[1]);
    for (size_t i = 0; ctx && i < fx_diag_count(ctx); i++) {
        char text[1024];
        fx_diag_format(fx_diag_get(ctx, i), text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
    fx_context_free(ctx);
    return rc;
}
