/* lower/memory.c: buffers get offsets in one arena; weights in theirs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Lifetimes come from the accesses of the steps. Buffers that overlay one another form a block. Blocks are placed largest
 * first in the smallest gap that is free for their whole life (greedy by size: Pisarchyk and Lee, "Efficient Memory
 * Management for Deep Neural Net Inference", 2020); when that misses the lower bound, other orders are tried, then the
 * best one is varied by moving single blocks within it. Sizes that are expressions: memory_slots.c.
 * ir/program_lives.c checks the result without the help of these files. */
#include <stdlib.h>
#include <string.h>

#include "lower/memory.h"

enum { WEIGHTS_HEADER = 64, MAX_TRIES = 32, MAX_MOVES = 1500 };

uint64_t fx_memory_align(uint64_t n)
{
    return (n + FX_MEMORY_ALIGN - 1) / FX_MEMORY_ALIGN * FX_MEMORY_ALIGN;
}

static void note_access(void *user, int buf, bool written, fx_dim lo, fx_dim hi, fx_symbols where, const fx_stmt *at)
{
    (void)written, (void)where, (void)at;
    fx_planner *pl = user;
    if (fx_dim_known(lo) && fx_dim_known(hi) && hi.value < lo.value)
        return;
    if (pl->first[buf] < 0)
        pl->first[buf] = pl->step;
    pl->last[buf] = pl->step;
}

/* Steps of a region run in any order: what one of them touches is alive in all. */
static void widen_lives(fx_planner *pl)
{
    const fx_program *p = pl->p;
    for (size_t i = 0; i < p->n_bufs; i++) {
        if (pl->first[i] < 0)
            continue;
        int at = p->steps[pl->first[i]].region;
        if (at && p->bufs[i].workspace)
            pl->chain_of[i] = at * FX_MOST_STREAMS + p->steps[pl->first[i]].stream;
        while (at && pl->first[i] > 0 && p->steps[pl->first[i] - 1].region == at)
            pl->first[i]--;
        at = p->steps[pl->last[i]].region;
        while (at && pl->last[i] + 1 < (int64_t)p->n_steps && p->steps[pl->last[i] + 1].region == at)
            pl->last[i]++;
    }
}

static fx_dim buf_bytes(const fx_planner *pl, const fx_buf *b)
{
    return fx_dim_scale(pl->p->ctx, b->numel, (int64_t)fx_dtype_size(b->dtype));
}

/* Workspace of one chain of a region is one block. */
static bool joins_chain(fx_planner *pl, int *blocks, size_t i)
{
    fx_dim bytes = buf_bytes(pl, &pl->p->bufs[i]);
    int *block = &blocks[pl->chain_of[i]];
    if (!pl->chain_of[i] || !*block) {
        *block = pl->n_blocks + 1; /* which the caller makes; of 0 nobody asks */
        return false;
    }
    fx_block *b = &pl->blocks[*block - 1];
    if (!fx_dim_equal(bytes, b->bytes) && (!fx_dim_known(bytes) || !fx_dim_known(b->bytes)))
        return false;
    if (fx_dim_known(bytes) && bytes.value > b->bytes.value) {
        b->bytes = bytes;
        b->size = fx_memory_align((uint64_t)bytes.value);
    }
    pl->block_of[i] = *block - 1;
    return true;
}

/* A buffer joins the block of the one it overlays when that one dies in the step that makes it. */
static void make_blocks(fx_planner *pl, int *of_chain)
{
    fx_program *p = pl->p;
    for (size_t i = 0; i < p->n_bufs; i++) {
        fx_buf *b = &p->bufs[i];
        pl->block_of[i] = -1;
        if (b->kind != FX_BUF_ARENA || pl->first[i] < 0) {
            b->overlay = -1;
            continue;
        }
        if (joins_chain(pl, of_chain, i)) {
            b->overlay = -1;
            continue;
        }
        int o = b->overlay;
        bool fits = o >= 0 && o < (int)i && pl->block_of[o] >= 0 && pl->last[o] == pl->first[i] && pl->first[o] < pl->first[i] &&
                    fx_dim_equal(buf_bytes(pl, &p->bufs[o]), buf_bytes(pl, b)) && pl->blocks[pl->block_of[o]].last == pl->last[o];
        if (fits) {
            pl->block_of[i] = pl->block_of[o];
            pl->blocks[pl->block_of[o]].last = pl->last[i];
        } else {
            b->overlay = -1;
            pl->block_of[i] = pl->n_blocks;
            fx_dim bytes = buf_bytes(pl, b);
            uint64_t size = fx_dim_known(bytes) ? fx_memory_align((uint64_t)bytes.value) : 0; /* of an expression: memory_slots.c */
            pl->blocks[pl->n_blocks] = (fx_block){.id = pl->n_blocks, .size = size, .bytes = bytes, .first = pl->first[i], .last = pl->last[i]};
            pl->n_blocks++;
        }
    }
}

uint64_t fx_memory_live(const fx_planner *pl, fx_arena *scratch)
{
    size_t n = pl->p->n_steps;
    int64_t *live_at = FX_NEW_ARRAY(scratch, int64_t, n + 2);
    for (int i = 0; i < pl->n_blocks; i++) {
        live_at[pl->blocks[i].first] += (int64_t)pl->blocks[i].size;
        live_at[pl->blocks[i].last + 1] -= (int64_t)pl->blocks[i].size;
    }
    int64_t now = 0, most = 0;
    for (size_t i = 0; i <= n; i++) {
        now += live_at[i];
        most = now > most ? now : most;
    }
    return (uint64_t)most;
}

static int by_key(const void *a, const void *b)
{
    const fx_block *x = *(fx_block *const *)a, *y = *(fx_block *const *)b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->last < y->last ? -1 : x->last > y->last;
}

static int by_offset(const void *a, const void *b)
{
    const fx_block *x = *(fx_block *const *)a, *y = *(fx_block *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

fx_timeline fx_timeline_new(fx_arena *arena, size_t n_steps)
{
    fx_timeline t = {.arena = arena, .leaves = 1};
    while ((size_t)t.leaves < n_steps)
        t.leaves *= 2;
    t.head = FX_NEW_ARRAY(arena, int, 2 * (size_t)t.leaves);
    t.below = FX_NEW_ARRAY(arena, int, 2 * (size_t)t.leaves);
    return t;
}

void fx_timeline_clear(fx_timeline *t)
{
    t->n = 0;
    memset(t->head, -1, 2 * (size_t)t->leaves * sizeof *t->head);
    memset(t->below, 0, 2 * (size_t)t->leaves * sizeof *t->below);
}

static void timeline_at(fx_timeline *t, int64_t node, fx_block *b)
{
    FX_PUSH(t->arena, t->entries, t->n, t->cap) = (struct fx_timeline_entry){b, t->head[node]};
    t->head[node] = (int)t->n - 1;
    for (; node; node /= 2)
        t->below[node]++;
}

void fx_timeline_add(fx_timeline *t, fx_block *b)
{
    int64_t lo = b->first + t->leaves, hi = b->last + t->leaves + 1;
    for (; lo < hi; lo /= 2, hi /= 2) {
        if (lo % 2)
            timeline_at(t, lo++, b);
        if (hi % 2)
            timeline_at(t, --hi, b);
    }
}

/* The blocks that live at some step of [first, last], once each: they have not been seen by `search`. node covers [lo, hi]. */
static int timeline_find(const fx_timeline *t, int64_t node, int64_t lo, int64_t hi, int64_t first, int64_t last, int search, fx_block **found, int n)
{
    if (hi < first || last < lo || !t->below[node])
        return n;
    for (int e = t->head[node]; e >= 0; e = t->entries[e].next) {
        fx_block *b = t->entries[e].b;
        if (b->seen != search)
            found[n++] = b;
        b->seen = search;
    }
    if (lo == hi)
        return n;
    int64_t middle = lo + (hi - lo) / 2;
    n = timeline_find(t, 2 * node, lo, middle, first, last, search, found, n);
    return timeline_find(t, 2 * node + 1, middle + 1, hi, first, last, search, found, n);
}

int fx_timeline_near(const fx_timeline *t, const fx_block *b, int search, fx_block **found)
{
    return timeline_find(t, 1, 0, t->leaves - 1, b->first, b->last, search, found, 0);
}

uint64_t fx_memory_place(fx_timeline *t, int n, fx_block **order, fx_block **near)
{
    uint64_t total = 0;
    fx_timeline_clear(t);
    for (int i = 0; i < n; i++)
        order[i]->seen = -1;
    for (int i = 0; i < n; i++) {
        fx_block *b = order[i];
        int n_near = fx_timeline_near(t, b, i, near);
        qsort(near, (size_t)n_near, sizeof *near, by_offset);
        uint64_t at = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
        for (int j = 0; j < n_near; j++) { /* the smallest gap that is large enough */
            if (near[j]->offset > at) {
                uint64_t gap = near[j]->offset - at;
                if (gap >= b->size && gap < best_gap) {
                    best_gap = gap;
                    best = at;
                }
            }
            uint64_t end = near[j]->offset + near[j]->size;
            at = end > at ? end : at;
        }
        b->offset = best != UINT64_MAX ? best : at;
        fx_timeline_add(t, b);
        total = b->offset + b->size > total ? b->offset + b->size : total;
    }
    return total;
}

static uint32_t next_noise(uint32_t *noise)
{
    *noise ^= *noise << 13;
    *noise ^= *noise >> 17;
    *noise ^= *noise << 5;
    return *noise;
}

void fx_memory_vary(uint32_t *noise, int n, fx_block **order)
{
    int from = (int)(next_noise(noise) % (uint32_t)n), to = (int)(next_noise(noise) % (uint32_t)n);
    fx_block *b = order[from];
    int step = from < to ? 1 : -1;
    for (int i = from; i != to; i += step)
        order[i] = order[i + step];
    order[to] = b;
}

void fx_memory_order(fx_planner *pl, int attempt, fx_block **order)
{
    uint32_t noise = 2463534242u + (uint32_t)attempt * 2654435761u;
    for (int i = 0; i < pl->n_blocks; i++) {
        fx_block *b = &pl->blocks[i];
        int64_t size = (int64_t)(b->size / FX_MEMORY_ALIGN), life = b->last - b->first + 1;
        next_noise(&noise);
        switch (attempt) {
        case 0: b->key = size; break;
        case 1: b->key = life; break;
        case 2: b->key = size * life; break;
        case 3: b->key = -b->first; break;
        default: b->key = size * (int64_t)(700 + noise % 600); break;
        }
        order[i] = b;
    }
    qsort(order, (size_t)pl->n_blocks, sizeof *order, by_key);
}

static void plan_arena(fx_planner *pl, fx_arena *scratch)
{
    fx_program *p = pl->p;
    int n = pl->n_blocks;
    p->live_size = fx_memory_live(pl, scratch);
    fx_block **order = FX_NEW_ARRAY(scratch, fx_block *, n + 1), **near = FX_NEW_ARRAY(scratch, fx_block *, n + 1);
    uint64_t *best = FX_NEW_ARRAY(scratch, uint64_t, n + 1);
    p->arena_size = UINT64_MAX;
    fx_block **best_order = FX_NEW_ARRAY(scratch, fx_block *, n + 1);
    fx_timeline lives = fx_timeline_new(scratch, p->n_steps + 1);
    int tries = n > 2000 ? 4 : MAX_TRIES, moves = n > 400 ? 0 : MAX_MOVES;
    uint32_t noise = 362436069u;
    for (int t = 0; t < tries + moves && p->arena_size > p->live_size; t++) {
        if (t < tries) {
            fx_memory_order(pl, t, order);
        } else {
            memcpy(order, best_order, (size_t)n * sizeof *order);
            fx_memory_vary(&noise, n, order);
        }
        uint64_t size = fx_memory_place(&lives, n, order, near);
        if (size > p->arena_size || (size == p->arena_size && t < tries))
            continue;
        p->arena_size = size;
        memcpy(best_order, order, (size_t)n * sizeof *order);
        for (int i = 0; i < n; i++)
            best[i] = pl->blocks[i].offset;
    }
    for (size_t i = 0; i < p->n_bufs; i++)
        if (pl->block_of[i] >= 0)
            p->bufs[i].offset = best[pl->block_of[i]];
}

/* Weights lie one after another behind the header of the file form. Unused ones take no room. */
static void plan_weights(fx_planner *pl)
{
    fx_program *p = pl->p;
    uint64_t at = WEIGHTS_HEADER;
    for (size_t i = 0; i < p->n_bufs; i++) {
        fx_buf *b = &p->bufs[i];
        if (b->kind != FX_BUF_WEIGHT)
            continue;
        b->offset = at;
        at += fx_memory_align((uint64_t)buf_bytes(pl, b).value);
    }
    p->weights_size = at;
}

/* State lies in the order of the model's buffers, in a block that is the caller's. */
static void plan_state(fx_planner *pl)
{
    fx_program *p = pl->p;
    p->state_size = 0;
    for (size_t i = 0; i < p->n_states; i++) {
        fx_buf *b = &p->bufs[p->states[i].buf];
        b->offset = p->state_size;
        p->state_size += fx_memory_align((uint64_t)buf_bytes(pl, b).value);
    }
}

/* Counters are each call's own: steps of several streams run at once. */
static void plan_counters(fx_planner *pl)
{
    fx_program *p = pl->p;
    p->counters_size = 0;
    for (size_t i = 0; i < p->n_bufs; i++) {
        fx_buf *b = &p->bufs[i];
        if (b->kind != FX_BUF_COUNTER)
            continue;
        b->offset = p->counters_size;
        p->counters_size += fx_memory_align((uint64_t)buf_bytes(pl, b).value);
    }
}

fx_status fx_pass_memory(fx_lower *l)
{
    fx_program *p = l->program;
    fx_arena *s = l->scratch;
    fx_planner pl = {.p = p};
    for (size_t i = 0; i < p->n_bufs; i++)
        p->bufs[i].slot = -1;
    pl.first = FX_NEW_ARRAY(s, int64_t, p->n_bufs + 1);
    pl.last = FX_NEW_ARRAY(s, int64_t, p->n_bufs + 1);
    pl.block_of = FX_NEW_ARRAY(s, int, p->n_bufs + 1);
    pl.chain_of = FX_NEW_ARRAY(s, int, p->n_bufs + 1);
    pl.blocks = FX_NEW_ARRAY(s, fx_block, p->n_bufs + 1);
    for (size_t i = 0; i < p->n_bufs; i++)
        pl.first[i] = -1;
    for (size_t i = 0; i < p->n_steps; i++) {
        pl.step = (int64_t)i;
        fx_stmt_accesses(p, p->steps[i].body, note_access, &pl);
    }
    widen_lives(&pl);
    for (size_t i = 0; l->opt && l->opt->fault == FX_FAULT_FREE_EARLY && i < p->n_bufs; i++)
        pl.last[i] -= pl.last[i] > pl.first[i];
    make_blocks(&pl, FX_NEW_ARRAY(s, int, (p->n_steps + 1) * FX_MOST_STREAMS));
    if (p->n_symbols)
        fx_memory_slots(&pl, s);
    else
        plan_arena(&pl, s);
    plan_weights(&pl);
    plan_state(&pl);
    plan_counters(&pl);
    return FX_OK;
}
