/* cli/jitted.c: compiles a model in memory and runs it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* One call: outputs, then what it changed, into results. */
static int call(const char *command, fx_context *ctx, fx_function *f, size_t n_in, const fx_tensor *in, size_t n_out, size_t n_changes,
                const fx_written *changes, fx_tensor *results)
{
    char error[512];
    size_t state = 0;
    if (fx_function_outputs(f, n_in, in, n_out, results, error, sizeof error) != FX_OK)
        return complain(command, "%s", error);
    for (size_t i = 0; i < n_out; i++)
        if (tensor_like(ctx, &results[i], NULL, &results[i]) != FX_OK)
            return 1;
    if (fx_function_call(f, n_in, in, n_out, results, error, sizeof error) != FX_OK)
        return complain(command, "%s", error);
    for (size_t i = 0; i < n_changes; i++) {
        fx_tensor now;
        if (!changes[i].buffer)
            now = in[changes[i].input];
        else if (!fx_function_state(f, state++, &now))
            return complain(command, "buffer '%s' is not among what the compiled model keeps", changes[i].buffer);
        if (tensor_like(ctx, &now, now.data, &results[n_out + i]) != FX_OK)
            return 1;
    }
    return 0;
}

int run_jitted(const char *command, fx_context *ctx, fx_graph *graph, const fx_jit_options *options, const fx_tensor *inputs, size_t calls,
               size_t *n_results, fx_tensor **results)
{
    size_t n_in = fx_graph_input_count(graph), n_out = fx_graph_output_count(graph), n_changes;
    const fx_written *changes;
    fx_function *f;
    int rc = 1;
    if (fx_graph_written(graph, &n_changes, &changes) != FX_OK || fx_jit_compile(graph, options, &f) != FX_OK)
        return 1;
    size_t a_call = n_out + n_changes;
    fx_tensor *in = malloc((n_in + 1) * sizeof *in), *all = calloc(calls * a_call + 1, sizeof *all);
    if (!in || !all) {
        complain(command, "out of memory");
        goto done;
    }
    memcpy(in, inputs, n_in * sizeof *in);
    for (size_t i = 0; i < n_changes; i++)
        if (!changes[i].buffer && tensor_like(ctx, &inputs[changes[i].input], inputs[changes[i].input].data, &in[changes[i].input]) != FX_OK)
            goto done;
    for (size_t c = 0; c < calls; c++)
        if (call(command, ctx, f, n_in, in, n_out, n_changes, changes, all + c * a_call))
            goto done;
    *n_results = calls * a_call;
    *results = all;
    all = NULL;
    rc = 0;
done:
    free(in);
    free(all);
    fx_function_free(f);
    return rc;
}
