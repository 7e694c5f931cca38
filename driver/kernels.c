/* driver/kernels.c: the kernels that a program for a GPU launches, one by one: what they read, write and compute; and the least that any program moves.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "driver/driver.h"
#include "driver/traffic.h"
#include "fxcc/inspect.h"

typedef struct kernels_job {
    fx_graph *graph;
    const fx_compile_options *options;
    void (*kernel)(void *user, const fx_kernel_info *kernel);
    void *user;
    fx_kernel_totals total;
    fx_program *program;           /* freed when the job is done, however it ends */
} kernels_job;

/* ---- one launch -------------------------------------------------------------------------------------------------------- */

/* Blocks and threads of nested loops over a grid; of calls, the launcher knows, and of several nests in one launch it reckons. */
static void shape_of(const fx_stmt *s, fx_kernel_info *k)
{
    for (; s && s->kind == FX_ST_COMMENT; s = s->next)
        ;
    for (; s && s->kind == FX_ST_LOOP; s = s->body) {
        int64_t n = s->extent.value;
        if (s->loop == FX_LOOP_GRID) {
            k->grid[s->axis] = (k->grid[s->axis] ? k->grid[s->axis] : 1) * ((n + s->threads - 1) / s->threads); /* blocks of z are counted by several loops */
            k->block[s->axis] = s->threads;
        } else if (s->loop == FX_LOOP_BLOCK) {
            k->grid[s->axis] = n;
        } else if (s->loop == FX_LOOP_THREAD) {
            k->block[s->axis] = n;
        } else {
            break;
        }
    }
    for (int a = 0; a < 3 && (k->grid[0] || k->grid[1] || k->grid[2] || k->block[0]); a++) {
        k->grid[a] = k->grid[a] ? k->grid[a] : 1;
        k->block[a] = k->block[a] ? k->block[a] : 1;
    }
}

static const fx_stmt *first_call(const fx_stmt *s, const fx_stmt *last)
{
    for (; s; s = s == last ? NULL : s->next) {
        const fx_stmt *inner = s->kind == FX_ST_CALL ? s : first_call(s->body, NULL);
        if (inner)
            return inner;
    }
    return NULL;
}

static void tell(kernels_job *job, const fx_program *p, fx_arena *arena, const fx_step *step, const fx_stmt *first, const fx_stmt *last)
{
    fx_traffic t = fx_traffic_of(p, arena, first, last);
    const fx_stmt *call = first_call(first, last);
    fx_kernel_info k = {.step = step->name, .title = step->title ? step->title : "", .kernel = call ? fx_kernel_get(call->call->kernel)->name : "",
                        .flops = t.flops, .read = t.read, .written = t.written, .workspace = t.workspace};
    if (call) { /* of open sizes, steps know the operations of the smallest */
        double flops = fx_call_flops(call->call);
        k.flops += flops > 0 ? flops : (double)step->flops;
    }
    k.launches = call ? fx_launches_of(p, call->call) : 1;
    bool several = false;
    for (const fx_stmt *s = first; s != last; s = s->next)
        several |= s->next->beside;
    if (!call && !several)
        shape_of(first, &k);
    job->total.launches += (size_t)k.launches;
    job->total.flops += k.flops;
    job->total.read += k.read;
    job->total.written += k.written;
    job->total.workspace += k.workspace;
    if (job->kernel)
        job->kernel(job->user, &k);
}

/* ---- all ------------------------------------------------------------------------------------------------------------------- */

static fx_status least(kernels_job *job, fx_arena *arena)
{
    fx_lower_options lower;
    fx_graph *core;
    fx_program *none;
    FX_TRY(fx_lower_options_from(job->graph->ctx, job->options, &lower));
    lower.dump_before = lower.dump_after = NULL;
    lower.time_passes = false;
    lower.stop_after = "merge";
    FX_TRY(fx_sized_copy(job->graph, job->options, &core));
    FX_TRY(fx_lower_run(core, &lower, &none));
    int64_t *sizes = FX_NEW_ARRAY(arena, int64_t, core->n_symbols + 1);
    for (size_t i = 0; i < core->n_symbols; i++)
        sizes[i] = fx_large_size(&core->symbols[i]);
    fx_least l = fx_least_traffic(core, arena, sizes);
    job->total.inputs = l.inputs;
    job->total.outputs = l.outputs;
    job->total.weights = l.weights;
    job->total.intermediates = l.intermediates;
    return FX_OK;
}

static fx_status tell_kernels(void *arg)
{
    kernels_job *job = arg;
    fx_context *ctx = job->graph->ctx;
    fx_arena *arena = fx_context_arena(ctx);
    FX_TRY(least(job, arena));
    FX_TRY(fx_lower_quietly(job->graph, job->options, &job->program));
    if (!fx_target_is_gpu(&job->program->target))
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "kernels are launched on GPUs: expected such a target (cuda, cuda-sm_90, ...), got %s", job->program->target.name);
    fx_program *p;
    FX_TRY(fx_at_largest(job->program, &p));
    for (size_t i = 0; i < p->n_steps; i++) {
        const fx_step *step = &p->steps[i];
        for (const fx_stmt *s = step->body, *last; s; s = last->next) {
            for (last = s; last->next && (last->kind == FX_ST_COMMENT || last->next->beside); last = last->next)
                ;
            tell(job, p, arena, step, s, last);
        }
    }
    return FX_OK;
}

fx_status fx_report_kernels(fx_graph *graph, const fx_compile_options *options, void (*kernel)(void *user, const fx_kernel_info *kernel), void *user,
                            fx_kernel_totals *out)
{
    static const fx_compile_options defaults = {0};
    kernels_job job = {.graph = graph, .options = options ? options : &defaults, .kernel = kernel, .user = user};
    fx_status status = fx_protect(graph->ctx, tell_kernels, &job);
    if (job.program)
        fx_arena_free(job.program->arena);
    if (status == FX_OK && out)
        *out = job.total;
    return status;
}
