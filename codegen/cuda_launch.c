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

/* The steps [from, to) that run beside one another, on how many streams; a step that runs alone. */
typedef struct region {
    size_t from, to;
    int streams;
} region;

static region region_of(const fx_emit *e, size_t step)
{
    const fx_step *steps = e->p->steps;
    region r = {step, step + 1, 1};
    if (!steps[step].region)
        return r;
    while (r.from > 0 && steps[r.from - 1].region == steps[step].region)
        r.from--;
    while (r.to < e->p->n_steps && steps[r.to].region == steps[step].region)
        r.to++;
    for (size_t i = r.from; i < r.to; i++)
        r.streams = steps[i].stream >= r.streams ? steps[i].stream + 1 : r.streams;
    return r;
}

void fx_cuda_fork_and_join(fx_emit *e, fx_text *t)
{
    if (fx_cuda_side_streams(e))
        fx_cuda_put(e, t,
                    "\n/* Side streams 0 to n - 1 wait for all that the caller's stream was given. */\n"
                    "static cudaError_t net_fork(net_context *ctx, int n, cudaStream_t stream)\n{\n"
                    "    cudaError_t error = cudaEventRecord(ctx->forked, stream);\n"
                    "    for (int i = 0; i < n && error == cudaSuccess; i++)\n"
                    "        error = cudaStreamWaitEvent(ctx->side[i], ctx->forked, 0);\n"
                    "    return error;\n}\n"
                    "\n/* The caller's stream waits for all that side streams 0 to n - 1 were given. */\n"
                    "static cudaError_t net_join(net_context *ctx, int n, cudaStream_t stream)\n{\n"
                    "    cudaError_t error = cudaSuccess;\n"
                    "    for (int i = 0; i < n && error == cudaSuccess; i++) {\n"
                    "        error = cudaEventRecord(ctx->joined[i], ctx->side[i]);\n"
                    "        if (error == cudaSuccess)\n"
                    "            error = cudaStreamWaitEvent(stream, ctx->joined[i], 0);\n"
                    "    }\n"
                    "    return error;\n}\n");
}

/* "     *   ctx->side[0]: branch1_conv, branch1_pool" for each stream of the region. */
static void put_fork(fx_emit *e, fx_text *t, const region *r)
{
    fx_puts(t, "\n    /* Layers beside one another, none of which needs one of another stream:");
    for (int stream = 0; stream < r->streams; stream++) {
        bool any = false;
        size_t width = 0;
        for (size_t i = r->from; i < r->to; i++) {
            if (e->p->steps[i].stream != stream)
                continue;
            const char *name = e->p->steps[i].name, *before = any ? ", " : fx_arena_printf(e->local, "\n     *   %s: ", stream_of(e, i));
            if (any && width + strlen(name) > 100) {
                before = ",\n     *     ";
                width = 0;
            }
            width += strlen(before) + strlen(name);
            fx_printf(t, "%s%s", before, name);
            any = true;
        }
    }
    fx_printf(t, " */\n    %s_CUDA(\"starting side streams\", %s_fork(ctx, %d, stream));\n", e->PREFIX, e->prefix, r->streams - 1);
    fx_emit_done(e);
}

static void put_join(const fx_emit *e, fx_text *t, const region *r)
{
    const bool alone = r->to < e->p->n_steps && !e->p->steps[r->to].region;
    fx_printf(t, "    %s_CUDA(\"joining side streams\", %s_join(ctx, %d, stream));\n%s", e->PREFIX, e->prefix, r->streams - 1, alone ? "\n" : "");
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
        fx_printf(&line, ", &ctx->%s", fx_cuda_products_name(e->p->steps[step].region > 0));
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
        const region r = region_of(e, s);
        if (r.streams > 1 && s == r.from)
            put_fork(e, t, &r);
        (e->facts[s].calls ? put_call : put_launch)(e, t, s);
        if (r.streams > 1 && s + 1 == r.to)
            put_join(e, t, &r);
    }
    e->deriving = false;
}
