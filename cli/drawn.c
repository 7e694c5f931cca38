/* cli/drawn.c: inputs for a model where none are given.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* xorshift64*: the same numbers everywhere. */
static uint32_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)(*state * UINT64_C(0x2545F4914F6CDD1D) >> 32);
}

/* An element: floats -1 to 1, of 16-bit kinds by truncation; integers 0 or 1, which any table of two rows takes. */
static void put(fx_tensor *t, int64_t i, uint32_t bits)
{
    float v = (float)(int32_t)bits / 2147483648.0f;
    uint32_t pattern;
    int64_t one = bits >> 31;
    memcpy(&pattern, &v, sizeof v);
    switch (t->dtype) {
    case FX_F32: ((float *)t->data)[i] = v; break;
    case FX_F64: ((double *)t->data)[i] = v; break;
    case FX_BF16: ((uint16_t *)t->data)[i] = (uint16_t)(pattern >> 16); break;
    case FX_F16: { /* steps of 1/1024 below 1 in magnitude: bias 15, ten bits */
        int e = (int)(pattern >> 23 & 255) - 127 + 15;
        ((uint16_t *)t->data)[i] = (uint16_t)((pattern >> 16 & 0x8000) | (e > 0 ? (unsigned)e << 10 | (pattern >> 13 & 0x3ff) : 0));
        break;
    }
    case FX_I16: ((int16_t *)t->data)[i] = (int16_t)one; break;
    case FX_I32: ((int32_t *)t->data)[i] = (int32_t)one; break;
    case FX_I64: ((int64_t *)t->data)[i] = one; break;
    case FX_C64: ((float *)t->data)[2 * i] = v; break;
    case FX_C128: ((double *)t->data)[2 * i] = v; break;
    default: ((uint8_t *)t->data)[i] = (uint8_t)one;
    }
}

int draw_inputs(const char *command, fx_context *ctx, fx_graph *graph, const fx_compile_options *options, unsigned seed, FILE *told, fx_tensor **inputs)
{
    size_t n = fx_graph_input_count(graph);
    fx_tensor *all = calloc(n + 1, sizeof *all);
    char shape[256];

    if (!all)
        return complain(command, "out of memory");
    if (fx_graph_least_inputs(graph, options->dims, options->n_dims, all) != FX_OK) {
        free(all);
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t state = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + i;
        if (fx_tensor_create(ctx, all[i].dtype, all[i].rank, all[i].sizes, &all[i]) != FX_OK) {
            free(all);
            return 1;
        }
        for (int64_t k = 0; k < fx_tensor_numel(&all[i]); k++)
            put(&all[i], k, draw(&state));
        if (told)
            fprintf(told, "input %zu: %s, drawn: %s, seed %u\n", i, shape_text(&all[i], shape, sizeof shape),
                    fx_dtype_is_float(all[i].dtype) || all[i].dtype == FX_C64 || all[i].dtype == FX_C128 ? "-1 to 1" : "0 or 1", seed);
    }
    *inputs = all;
    return 0;
}

int take_inputs(const char *command, fx_context *ctx, fx_graph *graph, const char *model, int n_files, char *const *files,
                const fx_compile_options *options, unsigned seed, FILE *told, fx_tensor **inputs)
{
    size_t n = fx_graph_input_count(graph), given;

    if (!n_files)
        return draw_inputs(command, ctx, graph, options, seed, told, inputs);
    if (read_inputs(ctx, graph, n_files, files, &given, inputs) != FX_OK)
        return 1;
    if (given == n)
        return 0;
    free(*inputs);
    *inputs = NULL;
    return complain(command, "%s: expected %zu inputs, or none to draw them, got %zu", model, n, given);
}
