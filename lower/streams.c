/* lower/streams.c: for a GPU, chains of steps that need nothing of one another go on streams of their own, where it pays.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Steps that follow one another are a region where they fall into several chains, no step of one needing a step of another: the branches of an inception
 * block, up to the concatenation. The caller's stream takes one chain, side streams the others, from an event before the region to one behind it.
 *
 * Whether it pays is a rule of thumb, as no figure of a device is at hand: a device of 132 multiprocessors with two blocks each, 20 TFLOP/s and
 * 1.5 TB/s when it is full, less in proportion when a kernel has fewer blocks; 2 us a kernel that nothing shortens; 4 us a side stream for its two events.
 * Streams win what would lie idle: a region lasts as long as its longest stream, but never less than the device needs when it is full.
 * It stands before memory, which then keeps a region's buffers apart. */
#include <stdlib.h>
#include <string.h>

#include "fxcc/runtime.h"
#include "lower/lower.h"
#include "runtime/cuda/conv_split.h"

enum { MOST_STEPS = 64, FULL_BLOCKS = 264, KERNEL_US = 2, SIDE_US = 4 };

typedef struct cost {
    double us, full_us;           /* alone; of a full device */
} cost;

typedef struct chain {
    cost all;
    int stream;
} chain;

typedef struct search {
    fx_lower *l;
    fx_program *p;
    cost *cost;                   /* by step */
    int *needs, *next, *head;     /* lists of steps that a step may not run beside, all before it; head by step, -1: end */
    size_t n_needs, cap_needs;
    int chain_of[MOST_STEPS];     /* of the window: union-find */
    chain chains[MOST_STEPS];     /* by its first step */
    int streams;
} search;

/* ---- what a step takes --------------------------------------------------------------------------------------------------- */

static double value_of(fx_dim d)
{
    return fx_dim_known(d) ? (double)d.value : 0;
}

static double up(double n, double by)
{
    return (double)(int64_t)((n + by - 1) / by);
}

/* Blocks of a call, as runtime/cuda/ launches them; cuBLASLt is taken to have tiles as the convolution's. */
static double blocks_of_call(const fx_call_stmt *c, double written)
{
    if (c->kernel == FX_K_conv2d || c->kernel == FX_K_conv2d_pre) {
        double pixels = value_of(fx_call_dim(c, "n")) * value_of(fx_call_dim(c, "oh")) * value_of(fx_call_dim(c, "ow"));
        double blocks = up(pixels, 64) * up(value_of(fx_call_dim(c, "oc")), 64) * value_of(fx_call_dim(c, "groups"));
        double terms = value_of(fx_call_dim(c, "kh")) * value_of(fx_call_dim(c, "kw")) * value_of(fx_call_dim(c, "ic"));
        double parts = blocks > 0 ? FXRT_CUDA_SPLIT_BLOCKS / blocks : 1, most = terms / FXRT_CUDA_SPLIT_LEAST;
        parts = (double)(int64_t)(parts < most ? parts : most);
        return blocks * (parts > 1 ? parts : 1);
    }
    if (c->kernel == FX_K_matmul)
        return up(value_of(fx_call_dim(c, "m")), 64) * up(value_of(fx_call_dim(c, "n")), 64) * value_of(fx_call_dim(c, "batch"));
    return written / 1024;
}

static cost cost_of(const fx_program *p, const fx_step *step, const fx_touches *t, size_t from)
{
    double bytes = 0, written = 0, blocks = 0;
    int kernels = 0;
    for (size_t i = from; i < t->n; i++) {
        const fx_touch *a = &t->v[i];
        const fx_buf *b = &p->bufs[a->buf];
        bool again = b->kind == FX_BUF_LOCAL || b->workspace;
        for (size_t k = from; k < i && !again; k++)
            again = t->v[k].buf == a->buf && t->v[k].written == a->written;
        double n = again ? 0 : value_of(fx_dim_plus(p->ctx, fx_dim_sub(p->ctx, a->hi, a->lo), 1));
        bytes += n * (double)fx_dtype_size(b->dtype) / (a->period ? (double)a->period / (double)(a->to - a->from + 1) : 1);
        written += a->written ? n : 0;
    }
    for (const fx_stmt *s = step->body; s; s = s->next) {
        kernels += s->kind == FX_ST_LOOP || s->kind == FX_ST_CALL;
        blocks += s->kind == FX_ST_CALL ? blocks_of_call(s->call, written) : 0;
    }
    blocks = blocks > 0 ? blocks : written / 1024; /* 256 threads with 4 elements each */
    double full = (double)step->flops / 20e6 + bytes / 1.5e6, share = blocks < 1 ? 1.0 / FULL_BLOCKS : blocks < FULL_BLOCKS ? blocks / FULL_BLOCKS : 1;
    return (cost){.us = KERNEL_US * (double)kernels + full / share, .full_us = full};
}

/* ---- who waits for whom -------------------------------------------------------------------------------------------------- */

/* Parts of one buffer are told apart between calls alone, whose forms mapping does not change. */
static bool meet(const fx_program *p, const fx_touch *a, const fx_touch *b)
{
    if (a->buf != b->buf || (!a->written && !b->written) || p->bufs[a->buf].kind == FX_BUF_LOCAL)
        return false;
    return !a->call || !b->call || fx_touches_meet(p, a, b);
}

/* By buffer, the touches of the steps not far before, latest first. */
static void find_needs(search *s, fx_arena *arena)
{
    fx_program *p = s->p;
    fx_touches t = {.arena = arena};
    int *latest = FX_NEW_ARRAY(arena, int, p->n_bufs + 1), *before = NULL;
    size_t n_before = 0, cap_before = 0, n_next = 0, cap_next = 0;
    memset(latest, -1, p->n_bufs * sizeof *latest);
    for (size_t i = 0; i < p->n_steps; i++) {
        size_t from = t.n;
        t.step = (int)i;
        s->head[i] = -1;
        fx_step_touches(p, p->steps[i].body, &t);
        s->cost[i] = cost_of(p, &p->steps[i], &t, from);
        for (size_t k = from; k < t.n; k++) {
            const fx_touch *a = &t.v[k];
            for (int at = latest[a->buf]; at >= 0 && t.v[at].step + MOST_STEPS > (int)i; at = before[at]) {
                if (t.v[at].step == (int)i || !meet(p, a, &t.v[at]) || (s->head[i] >= 0 && s->needs[s->head[i]] == t.v[at].step))
                    continue;
                FX_PUSH(arena, s->needs, s->n_needs, s->cap_needs) = t.v[at].step;
                FX_PUSH(arena, s->next, n_next, cap_next) = s->head[i];
                s->head[i] = (int)s->n_needs - 1;
            }
            FX_PUSH(arena, before, n_before, cap_before) = latest[a->buf];
            latest[a->buf] = (int)k;
        }
    }
}

static int root(int *of, int i)
{
    while (of[i] != i)
        i = of[i] = of[of[i]];
    return i;
}

/* The window gets step i: the chains that it needs become one. */
static void add_step(search *s, size_t from, size_t i)
{
    int self = (int)(i - from);
    s->chain_of[self] = self;
    s->chains[self].all = s->cost[i];
    for (int e = s->head[i]; e >= 0; e = s->next[e]) {
        if (s->needs[e] < (int)from)
            continue;
        int a = root(s->chain_of, s->needs[e] - (int)from), b = root(s->chain_of, self);
        if (a == b)
            continue;
        int first = a < b ? a : b, other = a < b ? b : a;
        s->chain_of[other] = first;
        s->chains[first].all.us += s->chains[other].all.us;
        s->chains[first].all.full_us += s->chains[other].all.full_us;
    }
}

static int by_time(const void *x, const void *y)
{
    const chain *a = *(chain *const *)x, *b = *(chain *const *)y;
    return a->all.us != b->all.us ? (a->all.us < b->all.us ? 1 : -1) : a < b ? -1 : a > b;
}

/* Microseconds that the window's n steps win on streams; s->streams of them. Longest chains first, each where least is waiting; one that is not longer
 * than its events take opens no stream. */
static double gain(search *s, int n)
{
    chain *order[MOST_STEPS];
    int n_chains = 0;
    cost all = {0, 0};
    double stream[FX_MOST_STREAMS] = {0}, longest = 0;
    for (int i = 0; i < n; i++)
        if (root(s->chain_of, i) == i)
            order[n_chains++] = &s->chains[i];
    s->streams = 1;
    if (n_chains < 2)
        return 0;
    qsort(order, (size_t)n_chains, sizeof *order, by_time);
    for (int i = 0; i < n_chains; i++) {
        int to = 0;
        for (int k = 1; k < s->streams; k++)
            to = stream[k] < stream[to] ? k : to;
        if (i > 0 && s->streams < FX_MOST_STREAMS && order[i]->all.us > SIDE_US)
            to = s->streams++;
        order[i]->stream = to;
        stream[to] += order[i]->all.us;
        longest = stream[to] > longest ? stream[to] : longest;
        all.us += order[i]->all.us;
        all.full_us += order[i]->all.full_us;
    }
    longest = all.full_us > longest ? all.full_us : longest;
    return all.us - longest - SIDE_US * (s->streams - 1);
}

/* The end of the best region that begins at `from`; `from`: there is none. */
static size_t best_end(search *s, size_t from)
{
    double best = 0;
    size_t end = from;
    for (size_t i = from; i < s->p->n_steps && i - from < MOST_STEPS; i++) {
        add_step(s, from, i);
        double won = gain(s, (int)(i - from) + 1);
        if (s->streams > 1 && won > best) {
            best = won;
            end = i + 1;
        }
        if (end > from && s->streams == 1)
            break; /* all came together */
    }
    return end;
}

fx_status fx_pass_streams(fx_lower *l)
{
    fx_program *p = l->program;
    if (!fx_target_is_gpu(&p->target) || (l->opt->off & FX_OFF(STREAMS)))
        return FX_OK;
    search s = {.l = l, .p = p, .cost = FX_NEW_ARRAY(l->scratch, cost, p->n_steps + 1), .head = FX_NEW_ARRAY(l->scratch, int, p->n_steps + 1)};
    int regions = 0;
    find_needs(&s, l->scratch);
    for (size_t i = 0, end; i < p->n_steps; i = end > i ? end : i + 1) {
        end = best_end(&s, i);
        if (end == i)
            continue;
        for (size_t k = i; k < end; k++)
            add_step(&s, i, k);
        (void)gain(&s, (int)(end - i));
        regions++;
        for (size_t k = i; k < end; k++) {
            p->steps[k].region = regions;
            p->steps[k].stream = s.chains[root(s.chain_of, (int)(k - i))].stream;
        }
    }
    return FX_OK;
}
