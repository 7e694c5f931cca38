/* driver/report.c: what a model costs as compiled: memory, traffic with and without fusion, loops, kernel calls, copies.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include "driver/driver.h"
#include "driver/traffic.h"
#include "fxcc/inspect.h"

#include <time.h>

typedef struct report_job {
    fx_graph *graph;
    const fx_compile_options *options;
    void (*copy)(void *user, const fx_copy_info *copy);
    void *user;
    fx_model_report result;
    fx_program *program; /* freed when the job is done, however it ends */
} report_job;

/* ---- the report ------------------------------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int64_t fx_large_size(const fx_sym_range *r)
{
    return r->max < INT64_MAX ? r->max : r->min > 128 ? r->min : 128;
}

/* Sizes that are open are taken at the ends of their ranges, or small where there are none. */
fx_status fx_at_largest(fx_program *p, fx_program **out)
{
    *out = p;
    if (!p->n_symbols)
        return FX_OK;
    int64_t *values = FX_NEW_ARRAY(p->arena, int64_t, p->n_symbols);
    for (size_t i = 0; i < p->n_symbols; i++)
        values[i] = fx_large_size(&p->symbols[i]);
    if (!fx_program_bind(p, values, out))
        return fx_fail(p->ctx, FX_ERR_ARGUMENT, NULL, "the sizes of '%s' at the upper ends of their ranges cannot be computed: --dim narrows them", p->name);
    return FX_OK;
}

/* ---- the arena at other sizes ----------------------------------------------------------------------------------- */

typedef struct lives {
    int64_t *first, *last;        /* by buffer: steps; -1: never touched */
    int64_t step;
} lives;

static void note_life(void *user, int buf, bool written, fx_dim lo, fx_dim hi, fx_symbols where, const fx_stmt *at)
{
    (void)written, (void)where, (void)at;
    lives *l = user;
    if (hi.value < lo.value)
        return;
    if (l->first[buf] < 0)
        l->first[buf] = l->step;
    l->last[buf] = l->step;
}

/* The most bytes that live in one step of a program without symbols, each buffer rounded up as the arena does; a result that takes an operand's
 * place counts once. */
static uint64_t largest_live(const fx_program *p, fx_arena *arena)
{
    lives l = {FX_NEW_ARRAY(arena, int64_t, p->n_bufs + 1), FX_NEW_ARRAY(arena, int64_t, p->n_bufs + 1), 0};
    for (size_t i = 0; i < p->n_bufs; i++)
        l.first[i] = -1;
    for (size_t i = 0; i < p->n_steps; i++) {
        l.step = (int64_t)i;
        fx_stmt_accesses(p, p->steps[i].body, note_life, &l);
    }
    int64_t *change = FX_NEW_ARRAY(arena, int64_t, p->n_steps + 2), now = 0, most = 0;
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (b->kind != FX_BUF_ARENA || l.first[i] < 0)
            continue;
        int64_t bytes = (b->numel.value * (int64_t)fx_dtype_size(b->dtype) + 63) / 64 * 64;
        bool in_place = b->overlay >= 0 && p->bufs[b->overlay].offset == b->offset && l.last[b->overlay] == l.first[i];
        change[l.first[i] + in_place] += bytes; /* what it replaces is counted for the step that makes it */
        change[l.last[i] + 1] -= bytes;
    }
    for (size_t i = 0; i <= p->n_steps; i++) {
        now += change[i];
        most = now > most ? now : most;
    }
    return (uint64_t)most;
}

static int64_t drawn(uint32_t *noise, int64_t lo, int64_t hi)
{
    *noise ^= *noise << 13;
    *noise ^= *noise >> 17;
    *noise ^= *noise << 5;
    return lo + (int64_t)(*noise % (uint64_t)(hi - lo + 1));
}

/* The worst ratio of arena to largest live set with all sizes large, all small, and at drawn ones (always the same) that a run may have. */
static void over_sizes(report_job *job)
{
    enum { DRAWN = 10 };
    fx_program *p = job->program, *at;
    fx_model_report *r = &job->result;
    fx_symbols symbols = fx_program_symbols(p);
    int64_t *values = FX_NEW_ARRAY(p->arena, int64_t, p->n_symbols + 1);
    uint32_t noise = 2463534242u;
    for (int k = 0; k < 2 + DRAWN; k++) {
        for (size_t i = 0; i < p->n_symbols; i++) {
            int64_t lo = p->symbols[i].min > 1 ? p->symbols[i].min : 1, hi = fx_large_size(&p->symbols[i]);
            hi = hi > INT32_MAX ? INT32_MAX : hi;
            values[i] = hi <= lo || k == 0 ? hi : k == 1 ? lo : drawn(&noise, lo, k % 2 ? hi : lo + (hi - lo) / 8); /* every other one in the lower eighth */
        }
        bool allowed = true;
        for (size_t i = 0; i < p->n_limits && allowed; i++) {
            int64_t v;
            allowed = fx_dim_eval(symbols, values, p->limits[i].value, &v) && v >= 0;
        }
        if (!allowed || !fx_program_bind(p, values, &at))
            continue;
        uint64_t live = largest_live(at, p->arena);
        double ratio = live ? (double)at->arena_size / (double)live : 1;
        r->worst_ratio = ratio > r->worst_ratio ? ratio : r->worst_ratio;
        r->sizes++;
        if (!p->n_symbols)
            return;
    }
}

static fx_status lower(report_job *job, const char *disable, fx_program **out)
{
    fx_compile_options o = *job->options;
    o.disable = disable;
    return fx_lower_quietly(job->graph, &o, out);
}

/* "fuse,inplace" and what the user disabled anyway. */
static const char *without_fusion(fx_arena *arena, const char *disabled)
{
    const char *parts = "fuse,inplace,attention,merge,schedule";
    return disabled && *disabled ? fx_arena_printf(arena, "%s,%s", parts, disabled) : parts;
}

static fx_status measure(report_job *job)
{
    fx_model_report *r = &job->result;
    fx_arena *arena = fx_context_arena(job->graph->ctx);
    double start = now();
    FX_TRY(lower(job, job->options->disable, &job->program));
    fx_emit_options emit = {.prefix = job->options->prefix, .weights = FX_WEIGHTS_BIN};
    size_t n_files;
    fx_file *files;
    FX_TRY((fx_target_is_gpu(&job->program->target) ? fx_emit_cuda : fx_emit_c)(job->program, &emit, &n_files, &files));
    r->seconds = now() - start;
    fx_program *p;
    FX_TRY(fx_at_largest(job->program, &p));
    r->arena_size = p->arena_size;
    r->live_size = largest_live(p, arena);
    over_sizes(job);
    r->weights_size = p->weights_size;
    r->steps = p->n_steps;
    for (size_t i = 0; i < p->n_steps; i++) {
        fx_traffic t = fx_traffic_of(p, arena, p->steps[i].body, NULL);
        fx_compile_result counts = {0};
        fx_count_statements(p->steps[i].body, &counts);
        r->loops += counts.kernels == 0;
        r->kernels += counts.kernels;
        r->bytes_moved += t.read + t.written;
        if (!t.moves || t.computes)
            continue;
        r->copies++;
        r->bytes_copied += t.read + t.written;
        if (job->copy)
            job->copy(job->user, &(fx_copy_info){p->steps[i].name, p->steps[i].title ? p->steps[i].title : "", t.read + t.written});
    }
    fx_arena_free(job->program->arena);
    job->program = NULL;
    return FX_OK;
}

static fx_status report(void *arg)
{
    report_job *job = arg;
    fx_arena *arena = fx_context_arena(job->graph->ctx);
    fx_program *p;
    FX_TRY(measure(job));
    FX_TRY(lower(job, without_fusion(arena, job->options->disable), &job->program));
    FX_TRY(fx_at_largest(job->program, &p));
    for (size_t i = 0; i < p->n_steps; i++) {
        fx_traffic t = fx_traffic_of(p, arena, p->steps[i].body, NULL);
        job->result.bytes_unfused += t.read + t.written;
    }
    return FX_OK;
}

fx_status fx_report(fx_graph *graph, const fx_compile_options *options, void (*copy)(void *user, const fx_copy_info *copy), void *user,
                    fx_model_report *out)
{
    static const fx_compile_options defaults = {0};
    report_job job = {.graph = graph, .options = options ? options : &defaults, .copy = copy, .user = user};
    fx_status status = fx_protect(graph->ctx, report, &job);
    if (job.program)
        fx_arena_free(job.program->arena);
    if (status == FX_OK && out)
        *out = job.result;
    return status;
}
