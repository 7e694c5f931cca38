/* driver/prove.c: a model's proofs, told one by one.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "driver/driver.h"
#include "fxcc/prove.h"

#include "lower/lower.h"

typedef struct prove_job {
    fx_graph *graph;
    const fx_compile_options *options;
    void (*line)(void *user, const fx_proof *proof);
    void *user;
    fx_prove_summary sum;
    fx_program *program;
} prove_job;

static void tell(void *user, const fx_proof *proof)
{
    prove_job *job = user;
    *(proof->proved ? &job->sum.proved : &job->sum.unproved) += 1;
    job->sum.seconds += proof->seconds;
    if (job->line)
        job->line(job->user, proof);
}

static fx_status prove(void *arg)
{
    prove_job *job = arg;
    const fx_compile_options *o = job->options;
    fx_lower_options lower;
    fx_graph *g;
    FX_TRY(fx_lower_options_from(job->graph->ctx, o, &lower));
    lower.stop_after = NULL;
    lower.unproved_warn = true;
    lower.proof = tell;
    lower.proof_user = job;
    lower.isl_seconds = &job->sum.isl_seconds;
    lower.isl_queries = &job->sum.isl_queries;
    FX_TRY(fx_sized_copy(job->graph, o, &g));
    return fx_lower_run(g, &lower, &job->program);
}

fx_status fx_prove(fx_graph *graph, const fx_compile_options *options, void (*line)(void *user, const fx_proof *proof), void *user,
                   fx_prove_summary *summary)
{
    static const fx_compile_options defaults = {0};
    prove_job job = {.graph = graph, .options = options ? options : &defaults, .line = line, .user = user};
    fx_status status = fx_protect(graph->ctx, prove, &job);
    if (job.program)
        fx_arena_free(job.program->arena);
    if (summary)
        *summary = job.sum;
    return status;
}
