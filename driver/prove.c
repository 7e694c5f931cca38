/* driver/prove.c: a model's proofs, told one by one.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
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
    fx_lower_options lower = {.threads = o->threads > 0 ? o->threads : 8, .dump_before = o->dump_before, .dump_after = o->dump_after,
                              .time_passes = o->time_passes, .out = o->log, .user = o->log_user, .unproved_warn = true, .proof = tell,
                              .proof_user = job, .isl_seconds = &job->sum.isl_seconds, .isl_queries = &job->sum.isl_queries};
    FX_TRY(fx_target_get(job->graph->ctx, o->target ? o->target : "native", &lower.target));
    return fx_lower_run(fx_graph_copy(job->graph), &lower, &job->program);
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
