/* driver/golden.c: golden vectors: inputs and what they should give.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "driver/driver.h"
#include "fxcc/inspect.h"

/* xorshift64*: the same numbers on every machine. */
static double uniform(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return (double)((x * 0x2545f4914f6cdd1du) >> 40) / 16777216.0;
}

/* Floats in [-1, 1), integers 0 to 3, bools; sizes that the model leaves open small. */
static fx_status seeded_inputs(fx_graph *g, size_t n, fx_tensor *in)
{
    uint64_t state = 0x9e3779b97f4a7c15u;
    int64_t *values = FX_NEW_ARRAY(fx_context_arena(g->ctx), int64_t, g->n_symbols + 1);
    fx_sizes_choose(g, values);
    for (size_t i = 0; i < n; i++) {
        fx_tensor shape;
        if (!fx_sizes_shape(g, values, fx_input_node(g, i)->type, &shape))
            FX_TRY(fx_graph_input_shape(g, i, &shape)); /* says why not */
        FX_TRY(fx_tensor_create(g->ctx, shape.dtype, shape.rank, shape.sizes, &in[i]));
        int64_t numel = fx_tensor_numel(&in[i]);
        for (int64_t k = 0; k < numel; k++) {
            double u = uniform(&state);
            if (fx_dtype_is_float(shape.dtype))
                fx_tensor_set(&in[i], k, 2 * u - 1);
            else
                fx_tensor_set_int(&in[i], k, (int64_t)(u * (shape.dtype == FX_BOOL ? 2 : 4)));
        }
    }
    return FX_OK;
}

/* The outputs and the rest of each call, from one list. */
static void split_calls(fx_graph *g, const fx_tensor *all, fx_golden *out)
{
    fx_arena *arena = fx_context_arena(g->ctx);
    size_t n_out = out->n_outputs, n_after = out->n_after;
    fx_tensor *outputs = FX_NEW_ARRAY(arena, fx_tensor, out->calls * n_out + 1), *after = FX_NEW_ARRAY(arena, fx_tensor, out->calls * n_after + 1);
    for (size_t c = 0; c < out->calls; c++) {
        for (size_t i = 0; i < n_out; i++)
            outputs[c * n_out + i] = *all++;
        for (size_t i = 0; i < n_after; i++)
            after[c * n_after + i] = *all++;
    }
    out->outputs = outputs;
    out->after = after;
}

fx_status fx_golden_make(fx_graph *g, const char *npz, fx_golden *out)
{
    enum { CALLS = 2 }; /* where one changes what the next computes */
    size_t n_in = fx_graph_input_count(g), n_out = fx_graph_output_count(g);
    const fx_written *changes;
    *out = (fx_golden){.n_inputs = n_in, .n_outputs = n_out, .rtol = 1e-4, .atol = 1e-6};
    FX_TRY(fx_graph_written(g, &out->n_after, &changes));
    size_t a_call = n_out + out->n_after;
    out->calls = out->n_after ? CALLS : 1;
    if (npz) {
        size_t count;
        fx_tensor *tensors;
        const char **names;
        FX_TRY(fx_npz_read(g->ctx, npz, &count, &tensors, &names));
        fx_loc loc = {.file = npz};
        if (count != n_in + n_out && !out->n_after)
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, &loc, "expected %zu inputs, then %zu outputs, got %zu arrays", n_in, n_out, count);
        if (out->n_after && (count <= n_in || (count - n_in) % a_call))
            return fx_fail(g->ctx, FX_ERR_ARGUMENT, &loc, "expected %zu inputs, then for each call %zu outputs and %zu changed inputs and buffers, got "
                           "%zu arrays", n_in, n_out, out->n_after, count);
        out->calls = out->n_after ? (count - n_in) / a_call : 1;
        out->inputs = tensors;
        split_calls(g, tensors + n_in, out);
        return FX_OK;
    }
    fx_tensor *in = FX_NEW_ARRAY(fx_context_arena(g->ctx), fx_tensor, n_in + 1), *made;
    FX_TRY(seeded_inputs(g, n_in, in));
    FX_TRY(fx_graph_calls(g, out->calls, n_in, in, &n_out, &made));
    if (n_out != out->calls * a_call)
        return fx_fail(g->ctx, FX_INTERNAL, NULL, "expected %zu results of %zu calls, got %zu", out->calls * a_call, out->calls, n_out);
    out->inputs = in;
    split_calls(g, made, out);
    return FX_OK;
}
