/* driver/report.c: what a model costs as compiled: memory, traffic with and without fusion, loops, kernel calls, copies.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include "driver/driver.h"
#include "fxcc/inspect.h"

#include <string.h>
#include <time.h>

typedef struct report_job {
    fx_graph *graph;
    const fx_compile_options *options;
    void (*copy)(void *user, const fx_copy_info *copy);
    void *user;
    fx_model_report result;
    fx_program *program; /* freed when the job is done, however it ends */
} report_job;

/* ---- bytes moved ---------------------------------------------------------------------------------------------- */

/* An access of a step: elements that it touches, by the loops its index depends on. */
typedef struct touched {
    int buf;
    bool written;
    const fx_affine *index;
    int64_t count;
} touched;

typedef struct traffic {
    const fx_program *p;
    fx_arena *arena;
    int64_t *extents; int n_vars;    /* by loop variable */
    touched *v; size_t n, cap;       /* distinct accesses of the step */
    uint64_t bytes;
    bool moves, computes;            /* stores what it loaded; does anything else */
} traffic;

static void touch(traffic *t, int buf, bool written, const fx_affine *index)
{
    if (t->p->bufs[buf].kind == FX_BUF_LOCAL)
        return;
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].buf == buf && t->v[i].written == written && fx_affine_equal(t->v[i].index, index))
            return;
    int64_t count = 1, most = t->p->bufs[buf].numel.value;
    for (int i = 0; i < index->n; i++) {
        if (index->var[i] < 0) { /* by data: a row for each iteration that picks one, at most all */
            count = most;
            break;
        }
        if (__builtin_mul_overflow(count, t->extents[index->var[i]], &count) || count > most)
            count = most;
    }
    FX_PUSH(t->arena, t->v, t->n, t->cap) = (touched){buf, written, index, count};
}

static void read_value(traffic *t, const fx_sexpr *e)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD)
        touch(t, e->buf, false, &e->index);
    for (int i = 0; i < 3; i++)
        read_value(t, e->arg[i]);
}

/* By the footprint that the kernel declares, from its first element to its last. */
static void touch_call(traffic *t, const fx_call_stmt *c)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    for (int i = 0; i < k->n_bufs; i++) {
        fx_dim lo, hi;
        if (c->buf[i] < 0)
            continue;
        fx_call_footprint(t->p, c, i, &lo, &hi);
        if (hi.value >= lo.value)
            t->bytes += (uint64_t)(hi.value - lo.value + 1) * fx_dtype_size(t->p->bufs[c->buf[i]].dtype);
    }
}

static bool by_data(const fx_affine *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->var[i] < 0)
            return true;
    return false;
}

static void walk(traffic *t, const fx_stmt *s)
{
    for (; s; s = s->next) {
        switch (s->kind) {
        case FX_ST_LOOP:
            if (s->var < t->n_vars)
                t->extents[s->var] = s->extent.value;
            if (s->extent.value > 0)
                walk(t, s->body);
            break;
        case FX_ST_CALL:
            touch_call(t, s->call);
            t->computes = true;
            break;
        case FX_ST_STORE:
            read_value(t, s->value);
            touch(t, s->buf, true, &s->index);
            if (s->value->op == FX_S_LOAD && !by_data(&s->value->index))
                t->moves = true;
            else if (s->value->op != FX_S_CONST)
                t->computes = true;
            break;
        case FX_ST_LOCAL:
        case FX_ST_SET:
            read_value(t, s->value);
            t->computes = true;
            break;
        default:
            walk(t, s->body);
        }
    }
}

static int count_vars(const fx_stmt *s)
{
    int n = 0;
    for (; s; s = s->next) {
        int inner = count_vars(s->body);
        n = inner > n ? inner : n;
        if (s->kind == FX_ST_LOOP && s->var >= n)
            n = s->var + 1;
    }
    return n;
}

/* What a step reads and writes: each buffer in each direction at most once whole. */
static traffic step_traffic(const fx_program *p, fx_arena *arena, const fx_step *step)
{
    traffic t = {.p = p, .arena = arena, .n_vars = count_vars(step->body)};
    t.extents = FX_NEW_ARRAY(arena, int64_t, t.n_vars + 1);
    walk(&t, step->body);
    for (size_t i = 0; i < t.n; i++) {
        int64_t most = p->bufs[t.v[i].buf].numel.value, count = 0;
        for (size_t k = i; k < t.n; k++) {
            if (t.v[k].buf != t.v[i].buf || t.v[k].written != t.v[i].written)
                continue;
            count = t.v[k].count < most - count ? count + t.v[k].count : most;
            if (k > i)
                t.v[k].count = 0; /* counted */
        }
        t.bytes += (uint64_t)count * fx_dtype_size(p->bufs[t.v[i].buf].dtype);
        t.v[i].count = 0;
    }
    return t;
}

/* ---- the report ------------------------------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A size that says something of a range: its upper end, or a usual one where there is none. */
static int64_t large(const fx_sym_range *r)
{
    return r->max < INT64_MAX ? r->max : r->min > 128 ? r->min : 128;
}

/* Sizes that are open are taken at the ends of their ranges, or small where there are none. */
static fx_status at_largest(fx_program *p, fx_program **out)
{
    *out = p;
    if (!p->n_symbols)
        return FX_OK;
    int64_t *values = FX_NEW_ARRAY(p->arena, int64_t, p->n_symbols);
    for (size_t i = 0; i < p->n_symbols; i++)
        values[i] = large(&p->symbols[i]);
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
            int64_t lo = p->symbols[i].min > 1 ? p->symbols[i].min : 1, hi = large(&p->symbols[i]);
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
    FX_TRY(at_largest(job->program, &p));
    r->arena_size = p->arena_size;
    r->live_size = largest_live(p, arena);
    over_sizes(job);
    r->weights_size = p->weights_size;
    r->steps = p->n_steps;
    for (size_t i = 0; i < p->n_steps; i++) {
        traffic t = step_traffic(p, arena, &p->steps[i]);
        fx_compile_result counts = {0};
        fx_count_statements(p->steps[i].body, &counts);
        r->loops += counts.kernels == 0;
        r->kernels += counts.kernels;
        r->bytes_moved += t.bytes;
        if (!t.moves || t.computes)
            continue;
        r->copies++;
        r->bytes_copied += t.bytes;
        if (job->copy)
            job->copy(job->user, &(fx_copy_info){p->steps[i].name, p->steps[i].title ? p->steps[i].title : "", t.bytes});
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
    FX_TRY(at_largest(job->program, &p));
    for (size_t i = 0; i < p->n_steps; i++)
        job->result.bytes_unfused += step_traffic(p, arena, &p->steps[i]).bytes;
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
