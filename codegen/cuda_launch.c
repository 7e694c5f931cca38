/* codegen/cuda_launch.c: in NAME_run, a launch for each kernel.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

static bool is_axis(const fx_stmt *s)
{
    return s && s->kind == FX_ST_LOOP && (s->loop == FX_LOOP_GRID || s->loop == FX_LOOP_BLOCK);
}

/* Several nests have their blocks one after another along x. */
fx_grid fx_cuda_grid(fx_emit *e, const fx_step *step)
{
    fx_grid g = {.nest = fx_cuda_nest(step->body), .threads = {1, 1, 1}};
    const fx_stmt *next = fx_cuda_nest(g.nest->next);
    fx_cuda_threads(g.nest, g.threads);
    for (const fx_stmt *s = g.nest; is_axis(s); s = s->body)
        if (s->loop == FX_LOOP_GRID && s->threads > g.threads[s->axis])
            g.threads[s->axis] = s->threads;
    for (int a = 0; a < 3; a++)
        g.blocks[a] = next ? fx_dim_of(a ? 1 : 0) : fx_cuda_blocks(e, g.nest, a);
    for (const fx_stmt *n = g.nest; n && next; n = fx_cuda_nest(n->next))
        g.blocks[0] = fx_dim_add(e->ctx, g.blocks[0], fx_cuda_blocks(e, n, -1));
    return g;
}

static const char *blocks(fx_emit *e, const fx_grid *g, int axis)
{
    fx_dim n = g->blocks[axis];
    return fx_dim_known(n) ? fx_c_dim(e, n) : fx_arena_printf(e->local, "(unsigned)%s", fx_c_factor(e, n));
}

static const char *threads(fx_emit *e, const fx_grid *g, int axis)
{
    return fx_arena_printf(e->local, "%lld", (long long)g->threads[axis]);
}

/* "dim3(4, 56)": axes at the end that are flat are left out. */
static const char *dim3(fx_emit *e, const fx_grid *g, const char *along(fx_emit *e, const fx_grid *g, int axis))
{
    fx_text t;
    fx_text_init(&t, e->local);
    int n = 3;
    while (n > 1 && strcmp(along(e, g, n - 1), "1") == 0)
        n--;
    for (int a = 0; a < n; a++)
        fx_printf(&t, "%s%s", a ? ", " : "dim3(", along(e, g, a));
    fx_puts(&t, ")");
    return t.data;
}

/* A grid may have no blocks at some sizes, and CUDA refuses to launch it. */
static const char *condition(fx_emit *e, const fx_grid *g)
{
    fx_symbols symbols = fx_program_symbols(e->p);
    fx_text t;
    fx_text_init(&t, e->local);
    if (fx_cuda_nest(g->nest->next))
        return fx_dim_at_least(e->ctx, symbols, g->blocks[0], 1) ? NULL : fx_arena_printf(e->local, "%s > 0", fx_c_dim(e, g->blocks[0]));
    for (const fx_stmt *s = g->nest; is_axis(s); s = s->body)
        if (!fx_dim_at_least(e->ctx, symbols, s->extent, 1))
            fx_printf(&t, "%s%s > 0", t.size ? " && " : "", fx_c_dim(e, s->extent));
    return t.size ? t.data : NULL;
}

static void put_argument(fx_text *line, size_t *size, const char *name)
{
    bool wrap = *size + strlen(name) > 104;
    fx_printf(line, wrap ? ",\n               %s" : ", %s", name);
    *size = (wrap ? 15 : *size + 2) + strlen(name);
}

/* ---- streams -------------------------------------------------------------------------------------------------------------- */

int fx_cuda_side_streams(const fx_emit *e)
{
    int most = 0;
    for (size_t i = 0; i < e->p->n_steps; i++)
        most = e->p->steps[i].stream > most ? e->p->steps[i].stream : most;
    return most;
}

/* Where the step runs: the caller's stream, or one of the context. */
static const char *stream_of(fx_emit *e, size_t step)
{
    const int stream = e->p->steps[step].stream;
    return stream ? fx_arena_printf(e->local, "ctx->side[%d]", stream - 1) : "stream";
}

/* "NAME_LAUNCH(", "NAME_LAUNCH_ON(ctx->side[0], " */
static const char *on_stream(fx_emit *e, size_t step, const char *macro)
{
    return e->p->steps[step].stream ? fx_arena_printf(e->local, "%s_%s_ON(%s, ", e->PREFIX, macro, stream_of(e, step)) : fx_arena_printf(e->local, "%s_%s(", e->PREFIX, macro);
}

/* Side streams of the region that begins or ends with the step; the program may have other regions with more. */
static unsigned streams_of_region(const fx_emit *e, size_t step)
{
    const int region = e->p->steps[step].region;
    unsigned used = 0;
    size_t from = step, to = step;
    while (from > 0 && e->p->steps[from - 1].region == region)
        from--;
    while (to + 1 < e->p->n_steps && e->p->steps[to + 1].region == region)
        to++;
    for (size_t i = from; i <= to; i++)
        used |= 1u << e->p->steps[i].stream;
    return used & ~1u;
}

static void put_fork(fx_emit *e, fx_text *t, size_t step)
{
    const unsigned used = streams_of_region(e, step);
    if (!used)
        return;
    fx_printf(t, "    %s_CUDA(\"starting side streams\", cudaEventRecord(ctx->forked, stream));\n", e->PREFIX);
    for (int i = 1; i < FX_MOST_STREAMS; i++)
        if (used >> i & 1)
            fx_printf(t, "    %s_CUDA(\"starting side streams\", cudaStreamWaitEvent(ctx->side[%d], ctx->forked, 0));\n", e->PREFIX, i - 1);
}

static void put_join(fx_emit *e, fx_text *t, size_t step)
{
    const unsigned used = streams_of_region(e, step);
    for (int i = 1; i < FX_MOST_STREAMS; i++)
        if (used >> i & 1)
            fx_printf(t, "    %s_CUDA(\"joining side streams\", cudaEventRecord(ctx->joined[%d], ctx->side[%d]));\n"
                         "    %s_CUDA(\"joining side streams\", cudaStreamWaitEvent(stream, ctx->joined[%d], 0));\n", e->PREFIX, i - 1, i - 1, e->PREFIX, i - 1);
}

/* Sizes, weights, buffers, behind what the line has. */
static void put_arguments(fx_emit *e, fx_text *line, size_t step)
{
    const fx_step_facts *f = &e->facts[step];
    size_t size = line->size;
    for (size_t i = 0; i < e->p->n_symbols; i++)
        if (f->symbols[i])
            put_argument(line, &size, e->symbols[i]);
    if (f->weights)
        put_argument(line, &size, "weights");
    for (size_t i = 0; i < f->n_params; i++)
        put_argument(line, &size, e->bufs[f->params[i].buf]);
    if (f->checks)
        put_argument(line, &size, "ctx->status");
    if (f->calls)
        put_argument(line, &size, stream_of(e, step));
}

static void put_launch(fx_emit *e, fx_text *t, size_t step)
{
    fx_grid g = fx_cuda_grid(e, &e->p->steps[step]);
    const char *only = condition(e, &g);
    if (only)
        fx_printf(t, "    if (%s)\n    ", only);
    fx_text line;
    fx_text_init(&line, e->local);
    fx_printf(&line, "    %s%s, %s, %s", on_stream(e, step, "LAUNCH"), e->steps[step], dim3(e, &g, blocks), dim3(e, &g, threads));
    put_arguments(e, &line, step);
    fx_printf(t, "%s);\n", line.data);
    fx_emit_done(e);
}

/* A call of the function that launches a kernel of runtime/cuda/, or asks cuBLASLt to. */
static void put_call(fx_emit *e, fx_text *t, size_t step)
{
    const fx_step_facts *f = &e->facts[step];
    fx_text line;
    fx_text_init(&line, e->local);
    fx_printf(&line, "    %s\"%s\", %s(", on_stream(e, step, "CALL"), e->p->steps[step].name, e->steps[step]);
    size_t start = line.size;
    if (f->products)
        fx_puts(&line, ", &ctx->products");
    put_arguments(e, &line, step);
    fx_printf(t, "%.*s%s));\n", (int)start, line.data, line.data + start + 2); /* without the first comma */
    fx_emit_done(e);
}

void fx_cuda_grid_sizes(fx_emit *e, bool *used)
{
    e->deriving = true;
    for (size_t i = 0; i < e->p->n_steps; i++) {
        if (e->facts[i].calls)
            continue;
        fx_grid g = fx_cuda_grid(e, &e->p->steps[i]);
        for (int a = 0; a < 3; a++)
            (void)fx_c_scan_dim(e, g.blocks[a], used); /* has a spelling: steps were scanned */
        for (const fx_stmt *s = g.nest; is_axis(s) && !fx_cuda_nest(g.nest->next); s = s->body)
            if (!fx_dim_at_least(e->ctx, fx_program_symbols(e->p), s->extent, 1))
                (void)fx_c_scan_dim(e, s->extent, used); /* the launch's condition */
    }
    e->deriving = false;
}

void fx_cuda_launch_all(fx_emit *e, fx_text *t)
{
    e->deriving = true;
    for (size_t s = 0; s < e->p->n_steps; s++) {
        const int region = e->p->steps[s].region;
        if (region && (s == 0 || e->p->steps[s - 1].region != region))
            put_fork(e, t, s);
        (e->facts[s].calls ? put_call : put_launch)(e, t, s);
        if (region && (s + 1 == e->p->n_steps || e->p->steps[s + 1].region != region))
            put_join(e, t, s);
    }
    e->deriving = false;
}
