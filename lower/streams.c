/* lower/streams.c: for a GPU, chains of steps that need nothing of one another go on streams of their own, where it pays.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Steps that follow one another are a region where they fall into several chains, no step of one needing a step of another: the branches of an inception
 * block, up to the concatenation. The caller's stream takes one chain, side streams the others, from an event before the region to one behind it.
 *
 * Streams win what would lie idle. On one stream a region takes what its kernels take, one after another, each with as much of the device as its blocks
 * fill (streams_cost.c). On several it takes as long as its longest stream; never less than a full device needs for all of it, so that two kernels that
 * each fill the device win nothing; never less than the host needs to launch the kernels, 2 us each, so that kernels which take no longer than that win
 * nothing; and 1.5 us for each call that records an event or waits for one, of which there are three a side stream and one more. That must be less.
 *
 * Nor may it take much memory. What a region touches lives as long as the region (the pass stands before memory, which keeps it apart), and the arena may
 * come to 5/4 of what the model needs on one stream, or a MiB more. Products would take most: each stream needs a workspace of its own for cuBLASLt, which
 * works with any. In a region they have a quarter of the usual one, so that the streams together have no more than one product elsewhere.
 *
 * --disable=pays asks none of this: the longest regions there are. */
#include <stdlib.h>
#include <string.h>

#include "lower/streams.h"

enum { MOST_STEPS = 64, LAUNCH_US = 2 };
static const double event_us = 1.5;

typedef struct chain {
    fx_step_cost all;
    double workspace[2];          /* the most that one step has, as fx_step_memory */
    int stream;
} chain;

typedef struct search {
    fx_lower *l;
    fx_program *p;
    fx_stream_costs costs;
    int *needs, *next, *head;     /* lists of steps that a step may not run beside, all before it; head by step, -1: end */
    size_t n_needs, cap_needs;
    int chain_of[MOST_STEPS];     /* of the window: union-find */
    chain chains[MOST_STEPS];     /* by its first step */
    int streams;
} search;

/* ---- who waits for whom -------------------------------------------------------------------------------------------------- */

/* Parts of one buffer are told apart between calls alone, whose forms mapping does not change. */
static bool meet(const fx_program *p, const fx_touch *a, const fx_touch *b)
{
    if (a->buf != b->buf || (!a->written && !b->written) || p->bufs[a->buf].kind == FX_BUF_LOCAL)
        return false;
    return !a->call || !b->call || fx_touches_meet(p, a, b);
}

/* By buffer, the touches of the steps not far before, latest first. Returns all touches. */
static fx_touches find_needs(search *s, fx_arena *arena)
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
    return t;
}

static int root(int *of, int i)
{
    while (of[i] != i)
        i = of[i] = of[of[i]];
    return i;
}

/* ---- which regions pay --------------------------------------------------------------------------------------------------- */

static void add_cost(chain *to, const chain *more)
{
    to->all.us += more->all.us;
    to->all.full_us += more->all.full_us;
    to->all.kernels += more->all.kernels;
    for (int m = 0; m < 2; m++)
        to->workspace[m] = more->workspace[m] > to->workspace[m] ? more->workspace[m] : to->workspace[m];
}

/* The window gets step i: the chains that it needs become one. */
static void add_step(search *s, size_t from, size_t i)
{
    int self = (int)(i - from);
    s->chain_of[self] = self;
    s->chains[self] = (chain){.all = s->costs.step[i]};
    for (int m = 0; m < s->costs.n_memory; m++)
        s->chains[self].workspace[m] = s->costs.memory[m].workspace[i];
    for (int e = s->head[i]; e >= 0; e = s->next[e]) {
        if (s->needs[e] < (int)from)
            continue;
        int a = root(s->chain_of, s->needs[e] - (int)from), b = root(s->chain_of, self);
        if (a == b)
            continue;
        int first = a < b ? a : b, other = a < b ? b : a;
        s->chain_of[other] = first;
        add_cost(&s->chains[first], &s->chains[other]);
    }
}

static int by_time(const void *x, const void *y)
{
    const chain *a = *(chain *const *)x, *b = *(chain *const *)y;
    return a->all.us != b->all.us ? (a->all.us < b->all.us ? 1 : -1) : a < b ? -1 : a > b;
}

/* The window's chains on at most `most` streams: longest first, each where least is waiting. */
static int place(int n_chains, chain **order, int most, chain stream[FX_MOST_STREAMS])
{
    int streams = 0;
    memset(stream, 0, FX_MOST_STREAMS * sizeof *stream);
    for (int i = 0; i < n_chains; i++) {
        int to = 0;
        for (int k = 1; k < streams; k++)
            to = stream[k].all.us < stream[to].all.us ? k : to;
        to = streams < most ? streams++ : to;
        order[i]->stream = to;
        add_cost(&stream[to], order[i]);
    }
    return streams;
}

/* Microseconds that the streams win. */
static double won(const chain *stream, int n)
{
    double longest = 0;
    fx_step_cost all = {0};
    for (int i = 0; i < n; i++) {
        longest = stream[i].all.us > longest ? stream[i].all.us : longest;
        all.us += stream[i].all.us;
        all.full_us += stream[i].all.full_us;
        all.kernels += stream[i].all.kernels;
    }
    const double launches = (double)LAUNCH_US * all.kernels;
    longest = longest > all.full_us ? longest : all.full_us;
    longest = longest > launches ? longest : launches;
    return all.us - longest - event_us * (1 + 3 * (n - 1));
}

/* Whether the arena has room for all that steps [from, to] touch, and a workspace for each of the streams. */
static bool fits(const search *s, size_t from, size_t to, const chain *stream, int n)
{
    enum { MIB = 1 << 20 };
    for (int i = 0; i < s->costs.n_memory; i++) {
        const fx_step_memory *m = &s->costs.memory[i];
        double bytes = m->enter[from] + m->born[to + 1] - m->born[from];
        for (int k = 0; k < n; k++)
            bytes += stream[k].workspace[i];
        if (bytes > m->peak * 5 / 4 && bytes > m->peak + MIB)
            return false;
    }
    return true;
}

/* What steps [from, to] win, the window, with the number of streams that wins most; leaves s->streams, and each chain's. */
static double gain(search *s, size_t from, size_t to)
{
    const int n = (int)(to - from) + 1;
    const bool all = s->l->opt->off & FX_OFF(PAYS);
    chain *order[MOST_STEPS], stream[FX_MOST_STREAMS];
    int n_chains = 0;
    double best = 0;
    for (int i = 0; i < n; i++)
        if (root(s->chain_of, i) == i)
            order[n_chains++] = &s->chains[i];
    s->streams = 1;
    if (n_chains < 2)
        return 0;
    qsort(order, (size_t)n_chains, sizeof *order, by_time);
    for (int most = 2; most <= FX_MOST_STREAMS && most <= n_chains; most++) {
        const int streams = place(n_chains, order, most, stream);
        const double here = all ? n : won(stream, streams);
        if ((here > best || (all && here == best)) && (all || fits(s, from, to, stream, streams))) {
            best = here;
            s->streams = streams;
        }
    }
    (void)place(n_chains, order, s->streams, stream);
    return best;
}

/* The end of the best region that begins at `from`; `from`: there is none. */
static size_t best_end(search *s, size_t from)
{
    double best = 0;
    size_t end = from;
    for (size_t i = from; i < s->p->n_steps && i - from < MOST_STEPS; i++) {
        add_step(s, from, i);
        double here = gain(s, from, i);
        if (s->streams > 1 && here > best) {
            best = here;
            end = i + 1;
        }
        if (end > from && s->streams == 1)
            break; /* all came together */
    }
    return end;
}

/* The step becomes one of a region: its product, if it is one, has less workspace. */
static void share_workspace(search *s, fx_step *step)
{
    const size_t less = fx_stream_workspace_less(s->p, step);
    for (const fx_stmt *at = step->body; less && at; at = at->next)
        if (at->kind == FX_ST_CALL) {
            fx_buf *ws = &s->p->bufs[at->call->buf[fx_kernel_buf(fx_kernel_get(at->call->kernel), "ws")]];
            ws->numel = ws->dims[0] = fx_dim_plus(s->p->ctx, ws->numel, -(int64_t)(less / fx_dtype_size(ws->dtype)));
        }
}

fx_status fx_pass_streams(fx_lower *l)
{
    fx_program *p = l->program;
    if (!fx_target_is_gpu(&p->target) || (l->opt->off & FX_OFF(STREAMS)))
        return FX_OK;
    search s = {.l = l, .p = p, .head = FX_NEW_ARRAY(l->scratch, int, p->n_steps + 1)};
    int regions = 0;
    const fx_touches touches = find_needs(&s, l->scratch);
    s.costs = fx_stream_costs_of(l->scratch, p, &touches);
    for (size_t i = 0, end; i < p->n_steps; i = end > i ? end : i + 1) {
        end = best_end(&s, i);
        if (end == i)
            continue;
        for (size_t k = i; k < end; k++)
            add_step(&s, i, k);
        (void)gain(&s, i, end - 1);
        regions++;
        int number[FX_MOST_STREAMS] = {0}, sides = 0; /* side streams in the order of their first steps */
        for (size_t k = i; k < end; k++) {
            const int stream = s.chains[root(s.chain_of, (int)(k - i))].stream;
            if (stream && !number[stream])
                number[stream] = ++sides;
            p->steps[k].region = regions;
            p->steps[k].stream = number[stream];
            share_workspace(&s, &p->steps[k]);
        }
    }
    return FX_OK;
}
