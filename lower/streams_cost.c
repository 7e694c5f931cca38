/* lower/streams_cost.c: what a step costs a GPU, in time and memory, as the pass streams reckons.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * No figure of a device is at hand, so times come from the architecture's data sheet (target_gpu.c) and rules of thumb: a multiprocessor has two blocks at
 * once; each has its share of half the peak of arithmetic, and four times its share of the memory's rate, until all come to that; a kernel takes 2 us more,
 * to start and to end. A kernel with fewer blocks than a device has room for leaves the rest of it idle: that is what a kernel beside it can have. */
#include <string.h>

#include "fxcc/runtime.h"
#include "lower/conv_ways.h"
#include "lower/streams.h"
#include "runtime/cuda/conv_split.h"

enum { KERNEL_US = 2, BLOCKS_AT_ONCE = 2, MEMORY_SHARES = 4 };
static const double reached = 0.5; /* of the peak of arithmetic */

typedef struct sizes {
    const fx_program *p;
    int64_t *values;              /* of the symbols */
} sizes;

static double value_of(const sizes *s, fx_dim d)
{
    int64_t v;
    return fx_dim_eval(fx_program_symbols(s->p), s->values, d, &v) && v > 0 ? (double)v : 0;
}

static double field(const sizes *s, const fx_call_stmt *c, const char *name)
{
    return value_of(s, fx_call_dim(c, name));
}

static double up(double n, double by)
{
    return (double)(int64_t)((n + by - 1) / by);
}

/* ---- time ---------------------------------------------------------------------------------------------------------------- */

/* Tiles, of long sums each part, as runtime/cuda/ launches them; cuBLASLt is taken to do as these do. */
static double tiles(double rows, double columns, double matrices, double terms)
{
    const fxrt_cuda_conv_way way = fxrt_cuda_conv_way_of((int64_t)rows, (int64_t)columns, (int64_t)matrices, (int64_t)terms);
    return (double)way.tiles * way.parts;
}

static double blocks_of_call(const sizes *s, const fx_call_stmt *c, double written)
{
    if (fx_kernel_is_conv2d(c->kernel))
        return tiles(field(s, c, "n") * field(s, c, "oh") * field(s, c, "ow"), field(s, c, "oc"), field(s, c, "groups"),
                     field(s, c, "kh") * field(s, c, "kw") * field(s, c, "ic"));
    if (c->kernel == FX_K_conv2d_half)
        return tiles(field(s, c, "n") * field(s, c, "oh") * field(s, c, "ow"), field(s, c, "oc"), 1, field(s, c, "kh") * field(s, c, "kw") * field(s, c, "ic"));
    if (c->kernel == FX_K_conv2d_wino)
        return tiles(field(s, c, "n") * up(field(s, c, "oh"), 4) * up(field(s, c, "ow"), 4), field(s, c, "oc"), 36, field(s, c, "ic"));
    if (c->kernel == FX_K_matmul)
        return tiles(field(s, c, "m"), field(s, c, "n"), field(s, c, "batch"), field(s, c, "k"));
    return written / 1024;
}

/* Kernels of a call: of a convolution by transforms or panels several. */
static int launches_of(const fx_call_stmt *c)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    const int ws = fx_kernel_buf(k, "ws");
    if (strcmp(k->desc, "conv2d") != 0 || !fx_call_is_static(c))
        return 1;
    return fx_conv_cost_of(c, ws >= 0 && c->buf[ws] >= 0).launches;
}

/* touches[0, n): the step's. */
static fx_step_cost cost_of(const sizes *s, const fx_step *step, const fx_touch *touches, size_t n)
{
    const fx_program *p = s->p;
    double bytes = 0, written = 0, blocks = 0;
    const fx_gpu_sheet *on = fx_target_sheet(&p->target);
    double peak = on->floats;
    const double most = (double)BLOCKS_AT_ONCE * on->multiprocessors;
    fx_step_cost cost = {0};
    for (size_t i = 0; i < n; i++) {
        const fx_touch *a = &touches[i];
        const fx_buf *b = &p->bufs[a->buf];
        bool again = b->kind == FX_BUF_LOCAL || b->kind == FX_BUF_COUNTER || b->workspace;
        for (size_t k = 0; k < i && !again; k++)
            again = touches[k].buf == a->buf && touches[k].written == a->written;
        double elements = again ? 0 : value_of(s, fx_dim_plus(p->ctx, fx_dim_sub(p->ctx, a->hi, a->lo), 1));
        bytes += elements * (double)fx_dtype_size(b->dtype) / (a->period ? (double)a->period / (double)(a->to - a->from + 1) : 1);
        written += a->written ? elements : 0;
    }
    for (const fx_stmt *at = step->body; at; at = at->next) {
        cost.kernels += at->kind == FX_ST_LOOP ? 1 : at->kind == FX_ST_CALL ? launches_of(at->call) : 0;
        if (at->kind != FX_ST_CALL)
            continue;
        blocks += blocks_of_call(s, at->call, written);
        if (fx_kernel_products(at->call->kernel) && fx_call_dtype(p, at->call) != FX_F32)
            peak = on->tensors;
    }
    blocks = blocks > 0 ? blocks : written / 1024; /* 256 threads with 4 elements each */
    blocks = blocks < 1 ? 1 : blocks > most ? most : blocks;
    const double flops = 1e-6 * (double)step->flops / (reached * peak), traffic = 1e-3 * bytes / on->memory; /* microseconds of all the device */
    const double share = blocks / most, memory_share = MEMORY_SHARES * share < 1 ? MEMORY_SHARES * share : 1;
    const double alone = flops / share > traffic / memory_share ? flops / share : traffic / memory_share;
    cost.us = KERNEL_US * cost.kernels + alone;
    cost.full_us = KERNEL_US * cost.kernels * share + (flops > traffic ? flops : traffic);
    return cost;
}

/* ---- memory -------------------------------------------------------------------------------------------------------------- */

size_t fx_stream_workspace_less(const fx_program *p, const fx_step *step)
{
    const size_t usual = fx_target_products_workspace(&p->target);
    for (const fx_stmt *s = step->body; s; s = s->next)
        if (s->kind == FX_ST_CALL && fx_kernel_products(s->call->kernel))
            return usual - usual / FX_MOST_STREAMS;
    return 0;
}

static fx_step_memory memory_of(fx_arena *arena, const sizes *s, const int *first, const int *last)
{
    const fx_program *p = s->p;
    const size_t n = p->n_steps;
    fx_step_memory m = {.enter = FX_NEW_ARRAY(arena, double, n + 1), .born = FX_NEW_ARRAY(arena, double, n + 1), .workspace = FX_NEW_ARRAY(arena, double, n + 1)};
    double *taken = FX_NEW_ARRAY(arena, double, n + 1); /* by step: what takes the place of what dies there */
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (b->kind != FX_BUF_ARENA || first[i] < 0)
            continue;
        const double bytes = value_of(s, b->numel) * (double)fx_dtype_size(b->dtype);
        if (b->workspace) {
            m.workspace[first[i]] += bytes;
            continue;
        }
        m.born[first[i] + 1] += bytes;
        m.enter[first[i] + 1] += bytes;
        m.enter[last[i] + 1] -= bytes;
        const int o = b->overlay;
        if (o >= 0 && last[o] == first[i] && first[o] < first[i])
            taken[first[i]] += bytes;
    }
    for (size_t k = 0; k < n; k++) {
        const double lives = m.enter[k] + m.born[k + 1] + m.workspace[k] - taken[k];
        m.peak = lives > m.peak ? lives : m.peak;
        m.workspace[k] -= (double)fx_stream_workspace_less(p, &p->steps[k]);
        m.born[k + 1] += m.born[k];
        m.enter[k + 1] += m.enter[k];
    }
    return m;
}

/* ---- both ---------------------------------------------------------------------------------------------------------------- */

fx_stream_costs fx_stream_costs_of(fx_arena *arena, const fx_program *p, const fx_touches *t)
{
    enum { USUAL = 1024, LARGE = 1 << 20 }; /* of a size without an end */
    fx_stream_costs c = {.step = FX_NEW_ARRAY(arena, fx_step_cost, p->n_steps + 1), .n_memory = p->n_symbols ? 2 : 1};
    int *first = FX_NEW_ARRAY(arena, int, p->n_bufs + 1), *last = FX_NEW_ARRAY(arena, int, p->n_bufs + 1);
    sizes s = {p, FX_NEW_ARRAY(arena, int64_t, p->n_symbols + 1)};
    memset(first, -1, p->n_bufs * sizeof *first);
    for (size_t i = 0; i < t->n; i++) {
        const fx_touch *a = &t->v[i];
        first[a->buf] = first[a->buf] < 0 ? a->step : first[a->buf];
        last[a->buf] = a->step;
    }
    for (int at = c.n_memory - 1; at >= 0; at--) {
        for (size_t i = 0; i < p->n_symbols; i++) {
            const fx_sym_range *r = &p->symbols[i];
            s.values[i] = at == 0 ? (r->min > 1 ? r->min : 1) : r->max <= LARGE ? r->max : r->min > USUAL ? r->min : USUAL;
        }
        c.memory[at] = memory_of(arena, &s, first, last);
    }
    for (size_t i = 0, from = 0; i < p->n_steps; i++) { /* at the lower ends, as flops are */
        size_t to = from;
        while (to < t->n && t->v[to].step == (int)i)
            to++;
        c.step[i] = cost_of(&s, &p->steps[i], &t->v[from], to - from);
        from = to;
    }
    return c;
}
