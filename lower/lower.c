/* lower/lower.c: runs the passes of pass.def in order. It alone checks, dumps, times and stops; passes only change.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "lower/lower.h"
#include "passes/passes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lower/isl.h"
#include "passes/rewrite.h"

/* Shared with the passes users run. */
fx_status fx_pass_functionalize(fx_lower *l)
{
    return fx_functionalize(l->graph, l->scratch);
}

typedef enum over { GRAPH, PROGRAM } over;

typedef struct pass {
    const char *name;
    over over;
    fx_stage requires, provides;
    fx_status (*run)(fx_lower *l);
} pass;

static const pass passes[] = {
#define PASS(name, over, requires, provides, doc) { #name, over, requires, provides, fx_pass_##name },
#include "lower/pass.def"
#undef PASS
};

enum { N_PASSES = sizeof passes / sizeof *passes };

static bool chosen(const char *option, const pass *p)
{
    return option && (!strcmp(option, "all") || !strcmp(option, p->name));
}

static fx_status check_name(fx_context *ctx, const char *option, const char *name, bool all)
{
    if (!name || (all && !strcmp(name, "all")))
        return FX_OK;
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    for (size_t i = 0; i < N_PASSES; i++) {
        if (!strcmp(passes[i].name, name))
            return FX_OK;
        fx_printf(&t, "%s%s", i ? ", " : "", passes[i].name);
    }
    return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "%s: expected a pass (%s%s), got '%s'", option, t.data, all ? ", all" : "", name);
}

/* The text of what a pass is over: the program once there is one. */
static const char *text_of(fx_lower *l)
{
    fx_text t;
    fx_text_init(&t, l->scratch);
    if (l->program)
        fx_program_print(&t, l->program);
    else
        fx_graph_print(&t, l->graph);
    return t.data ? t.data : "";
}

static void say(fx_lower *l, const char *text)
{
    if (l->opt->out)
        l->opt->out(l->opt->user, text);
}

static void dump(fx_lower *l, const char *when, const pass *p, const char *text)
{
    say(l, fx_arena_printf(l->scratch, "# %s %s\n", when, p->name));
    say(l, text);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One pass: what it requires holds because the pass before provided it and was verified. */
static fx_status run_pass(fx_lower *l, const pass *p)
{
    fx_status status;
    const char *before = NULL;
    /* A graph may come in at a later stage: torch.export's is legal, a user may have made it functional. */
    bool past = p->over == GRAPH && p->provides > p->requires && l->graph->stage >= p->provides;
    if (l->graph->stage < p->requires)
        return fx_fail(l->ctx, FX_INTERNAL, NULL, "pass %s requires stage %d, the graph is at %d", p->name, (int)p->requires,
                       (int)l->graph->stage);
    if (chosen(l->opt->dump_before, p))
        dump(l, "before", p, before = text_of(l));
    /* A pass that changed nothing has nothing to show, unless it was asked for by name. */
    bool show = chosen(l->opt->dump_after, p), quiet = show && !strcmp(l->opt->dump_after, "all");
    if (quiet && !before)
        before = text_of(l);

    double start = now();
    status = past ? FX_OK : p->run(l);
    double seconds = now() - start;
    if (status != FX_OK)
        return status;

    if (l->graph->stage < p->provides)
        l->graph->stage = p->provides;
    start = now();
    if (p->over == GRAPH)
        status = fx_graph_verify(l->graph, l->graph->stage, p->name);
    else if (p->run != fx_pass_prove) /* which changes nothing */
        status = fx_program_verify(l->program, p->run == fx_pass_memory || p->run == fx_pass_map_gpu, p->name);
    if (status == FX_OK && p->run == fx_pass_build)
        status = fx_program_check_types(l->program);
    if (l->opt->time_passes)
        say(l, fx_arena_printf(l->scratch, "# time %-14s %9.3f ms, verified in %.3f ms\n", p->name, 1e3 * seconds,
                               1e3 * (now() - start)));
    if (show) {
        const char *after = text_of(l);
        if (!quiet || strcmp(before, after))
            dump(l, "after", p, after);
    }
    return status;
}

fx_status fx_pass_legalize(fx_lower *l)
{
    return fx_legalize(l->graph);
}

fx_isl *fx_lower_isl(fx_lower *l)
{
    if (!l->isl)
        l->isl = fx_isl_open(l->ctx);
    return l->isl;
}

static void tell_isl(fx_lower *l)
{
    char text[100];
    int unknown, n = l->isl ? fx_isl_queries(l->isl, &unknown) : 0;
    if (l->opt->isl_seconds)
        *l->opt->isl_seconds = l->isl ? fx_isl_seconds(l->isl) : 0;
    if (l->opt->isl_queries)
        *l->opt->isl_queries = n;
    if (n == 0 || !l->opt->time_passes)
        return;
    snprintf(text, sizeof text, "# time of it, isl %9.3f ms, %d queries, %d undecided\n", 1e3 * fx_isl_seconds(l->isl), n, unknown);
    say(l, text);
}

bool fx_lower_takes(const fx_lower_options *opt, fx_kernel_id kernel, fx_dtype dtype)
{
    return dtype == FX_F32 || (!(opt->off & FX_OFF(HALF)) && fx_kernel_takes(&opt->target, kernel, dtype));
}

fx_status fx_lower_run(fx_graph *g, const fx_lower_options *opt, fx_program **out)
{
    fx_context *ctx = g->ctx;
    fx_lower l = { .ctx = ctx, .graph = g, .opt = opt };
    FX_TRY(check_name(ctx, "dump-before", opt->dump_before, true));
    FX_TRY(check_name(ctx, "dump-after", opt->dump_after, true));
    FX_TRY(check_name(ctx, "stop-after", opt->stop_after, false));
    if (out)
        *out = NULL;
    FX_TRY(fx_inputs_typed(g));
    FX_TRY(fx_inline_bodies(g)); /* whatever its stage: split graphs */
    for (size_t i = 0; i < N_PASSES; i++) {
        l.scratch = fx_arena_create(ctx);
        l.piece = fx_arena_create(ctx);
        fx_status status = run_pass(&l, &passes[i]);
        fx_arena_free(l.piece);
        fx_arena_free(l.scratch);
        FX_TRY(status);
        if (opt->stop_after && !strcmp(opt->stop_after, passes[i].name))
            break;
    }
    tell_isl(&l);
    if (out)
        *out = l.program;
    return FX_OK;
}
