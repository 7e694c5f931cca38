/* driver/calls.c: what a run of a model changes beside its outputs, and several runs in a row (fxcc/inspect.h).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "driver/driver.h"
#include "fxcc/inspect.h"
#include "fxcc/pass.h"
#include "ir/ops.h"

/* ---- what changes ----------------------------------------------------------------------------------------------- */

typedef struct changes_job {
    fx_graph *graph;
    size_t n;
    fx_written *v;
} changes_job;

/* Lowering finds out, and says so by notes on a copy; inputs come in the model's order, then buffers as they lie in the state. */
static fx_status find_changes(void *arg)
{
    changes_job *job = arg;
    fx_context *ctx = job->graph->ctx;
    fx_graph *g = fx_graph_copy(job->graph);
    fx_lower_options lower = {.stop_after = "state", .threads = 1};
    size_t input = 0;
    FX_TRY(fx_target_get(ctx, "generic", &lower.target));
    FX_TRY(fx_lower_run(g, &lower, NULL));
    const fx_arg *writes = fx_state_writes(g);
    job->v = FX_NEW_ARRAY(fx_context_arena(ctx), fx_written, (writes ? writes->n : 0) + 1);
    FX_FOR_NODES(g, n) {
        bool changed = fx_state_of(n) != NULL;
        if (n->opcode != FX_PLACEHOLDER)
            continue;
        for (int i = 0; writes && i < writes->n && !changed; i++)
            changed = strcmp(writes->items[i]->s, n->target) == 0;
        if (changed)
            job->v[job->n++] = (fx_written){.input = input, .buffer = fx_state_of(n)};
        input++;
    }
    return FX_OK;
}

fx_status fx_graph_written(fx_graph *graph, size_t *n, const fx_written **changes)
{
    changes_job job = {.graph = graph};
    FX_TRY(fx_protect(graph->ctx, find_changes, &job));
    *n = job.n;
    *changes = job.v;
    return FX_OK;
}

/* ---- several runs ------------------------------------------------------------------------------------------------- */

typedef struct calls_job {
    fx_graph *graph;
    size_t calls, n_in;
    const fx_tensor *in;
    size_t n_out;
    fx_tensor *out;
} calls_job;

static fx_status run_calls(void *arg)
{
    calls_job *job = arg;
    fx_context *ctx = job->graph->ctx;
    fx_arena *arena = fx_context_arena(ctx);
    const fx_written *changes;
    size_t n_changes, n_out = fx_graph_output_count(job->graph), n;
    FX_TRY(fx_graph_written(job->graph, &n_changes, &changes));
    fx_graph *g = job->graph;
    FX_TRY(fx_graph_add_philox_state(g, false, &g));
    g = g == job->graph ? fx_graph_copy(g) : g;
    fx_tensor *in = FX_NEW_ARRAY(arena, fx_tensor, job->n_in + 1), *made;
    for (size_t i = 0; i < job->n_in; i++) {
        in[i] = job->in[i];
        FX_TRY(fx_tensor_touch(ctx, &in[i]));
    }
    for (size_t i = 0; i < n_changes; i++)
        if (!changes[i].buffer && changes[i].input < job->n_in)
            FX_TRY(fx_tensor_copy(ctx, &job->in[changes[i].input], &in[changes[i].input]));
    job->out = FX_NEW_ARRAY(arena, fx_tensor, job->calls * (n_out + n_changes) + 1);
    for (size_t c = 0; c < job->calls; c++) {
        FX_TRY(fx_graph_interpret(g, job->n_in, in, &n, &made));
        for (size_t i = 0; i < n && i < n_out; i++)
            job->out[job->n_out++] = made[i];
        for (size_t i = 0; i < n_changes; i++) {
            fx_tensor now = changes[i].buffer ? (fx_tensor){0} : in[changes[i].input];
            if (changes[i].buffer)
                FX_TRY(fx_graph_tensor(g, changes[i].buffer, &now));
            FX_TRY(fx_tensor_copy(ctx, &now, &job->out[job->n_out++]));
        }
    }
    return FX_OK;
}

fx_status fx_graph_calls(fx_graph *graph, size_t calls, size_t n_inputs, const fx_tensor *inputs, size_t *n_outputs, fx_tensor **outputs)
{
    calls_job job = {.graph = graph, .calls = calls, .n_in = n_inputs, .in = inputs};
    FX_TRY(fx_protect(graph->ctx, run_calls, &job));
    *n_outputs = job.n_out;
    *outputs = job.out;
    return FX_OK;
}
