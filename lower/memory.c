/* lower/memory.c: buffers get offsets in one arena; weights in theirs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Lifetimes come from the accesses of the steps. Buffers that overlay one another form a block. Blocks are placed largest
 * first in the smallest gap that is free for their whole life (greedy by size: Pisarchyk and Lee, "Efficient Memory
 * Management for Deep Neural Net Inference", 2020); when that misses the lower bound, other orders are tried, then the
 * best one is varied by moving single blocks within it. Where sizes are expressions, blocks share slots instead. ir/program_verify.c checks the result without this file's help. */
#include <stdlib.h>
#include <string.h>

#include "lower/lower.h"

enum { ALIGN = 64, WEIGHTS_HEADER = 64, MAX_TRIES = 32, MAX_MOVES = 1500 };

/* Buffers that share a place. Steps are numbered; first > last: never used. */
typedef struct block {
    uint64_t size, offset;         /* size: with symbols, at the values the planner takes for them */
    fx_dim bytes;
    int64_t first, last;
    int slot;                      /* with symbols */
    int64_t key;                   /* what the present order sorts by */
    int seen;                      /* the last search that found it */
} block;

/* Placed blocks by the steps of their lives, so that those alive with another one are found without looking at all: a tree over the steps
 * whose nodes are halves of halves; a block stands at the few nodes that make up its life. */
typedef struct timeline {
    fx_arena *arena;
    int64_t leaves;                /* a power of two; node i has the halves 2 i and 2 i + 1 */
    int *head;                     /* of a list of entries, by node; -1: none */
    int *below;                    /* entries at the node and below */
    struct entry { block *b; int next; } *entries;
    size_t n, cap;
} timeline;

typedef struct planner {
    fx_program *p;
    int64_t *first, *last;         /* by buffer id */
    int *block_of;                 /* by buffer id, -1: none */
    block *blocks;
    int n_blocks;
    int64_t step;                  /* being scanned */
    int64_t *nominal;              /* values of the symbols that sizes are compared at */
} planner;

static uint64_t align_up(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static void note_access(void *user, int buf, bool written, fx_dim lo, fx_dim hi, const fx_stmt *at)
{
    (void)written, (void)at;
    planner *pl = user;
    if (fx_dim_known(lo) && fx_dim_known(hi) && hi.value < lo.value)
        return;
    if (pl->first[buf] < 0)
        pl->first[buf] = pl->step;
    pl->last[buf] = pl->step;
}

static fx_dim buf_bytes(const planner *pl, const fx_buf *b)
{
    return fx_dim_scale(pl->p->ctx, b->numel, (int64_t)fx_dtype_size(b->dtype));
}

/* A size as a number: as it is, or at the nominal values of the symbols. */
static uint64_t number_of(const planner *pl, fx_dim d)
{
    int64_t v;
    return fx_dim_eval(fx_program_symbols(pl->p), pl->nominal, d, &v) && v > 0 ? (uint64_t)v : 0;
}

/* A buffer joins the block of the one it overlays when that one dies in the step that makes it. */
static void make_blocks(planner *pl)
{
    fx_program *p = pl->p;
    for (size_t i = 0; i < p->n_bufs; i++) {
        fx_buf *b = &p->bufs[i];
        pl->block_of[i] = -1;
        if (b->kind != FX_BUF_ARENA || pl->first[i] < 0) {
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
            pl->blocks[pl->n_blocks++] = (block){.size = align_up(number_of(pl, bytes)), .bytes = bytes, .first = pl->first[i], .last = pl->last[i]};
        }
    }
}

/* The most bytes alive in one step: no plan can be smaller. */
static uint64_t live_bound(const planner *pl, int64_t *live_at)
{
    size_t n = pl->p->n_steps;
    memset(live_at, 0, (n + 1) * sizeof *live_at);
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
    const block *x = *(block *const *)a, *y = *(block *const *)b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->last < y->last ? -1 : x->last > y->last;
}

static int by_offset(const void *a, const void *b)
{
    const block *x = *(block *const *)a, *y = *(block *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static timeline timeline_new(fx_arena *arena, size_t n_steps)
{
    timeline t = {.arena = arena, .leaves = 1};
    while ((size_t)t.leaves < n_steps)
        t.leaves *= 2;
    t.head = FX_NEW_ARRAY(arena, int, 2 * (size_t)t.leaves);
    t.below = FX_NEW_ARRAY(arena, int, 2 * (size_t)t.leaves);
    return t;
}

static void timeline_clear(timeline *t)
{
    t->n = 0;
    memset(t->head, -1, 2 * (size_t)t->leaves * sizeof *t->head);
    memset(t->below, 0, 2 * (size_t)t->leaves * sizeof *t->below);
}

static void timeline_at(timeline *t, int64_t node, block *b)
{
    FX_PUSH(t->arena, t->entries, t->n, t->cap) = (struct entry){b, t->head[node]};
    t->head[node] = (int)t->n - 1;
    for (; node; node /= 2)
        t->below[node]++;
}

static void timeline_add(timeline *t, block *b)
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
static int timeline_find(const timeline *t, int64_t node, int64_t lo, int64_t hi, int64_t first, int64_t last, int search, block **found, int n)
{
    if (hi < first || last < lo || !t->below[node])
        return n;
    for (int e = t->head[node]; e >= 0; e = t->entries[e].next) {
        block *b = t->entries[e].b;
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

/* Places blocks in the given order; returns the arena's size. `near` is scratch of n pointers. */
static uint64_t place(timeline *t, int n, block **order, block **near)
{
    uint64_t total = 0;
    timeline_clear(t);
    for (int i = 0; i < n; i++)
        order[i]->seen = -1;
    for (int i = 0; i < n; i++) {
        block *b = order[i];
        int n_near = timeline_find(t, 1, 0, t->leaves - 1, b->first, b->last, i, near, 0);
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
        timeline_add(t, b);
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

/* Takes block `from` out of the order and puts it in at `to`. */
static void move_block(block **order, int from, int to)
{
    block *b = order[from];
    int step = from < to ? 1 : -1;
    for (int i = from; i != to; i += step)
        order[i] = order[i + step];
    order[to] = b;
}

/* How a try orders blocks: by size, by life, by size x life, by start; then sizes perturbed by a fixed sequence. */
static void set_keys(planner *pl, int attempt)
{
    uint32_t noise = 2463534242u + (uint32_t)attempt * 2654435761u;
    for (int i = 0; i < pl->n_blocks; i++) {
        block *b = &pl->blocks[i];
        int64_t size = (int64_t)(b->size / ALIGN), life = b->last - b->first + 1;
        next_noise(&noise);
        switch (attempt) {
        case 0: b->key = size; break;
        case 1: b->key = life; break;
        case 2: b->key = size * life; break;
        case 3: b->key = -b->first; break;
        default: b->key = size * (int64_t)(700 + noise % 600); break;
        }
    }
}

static void plan_arena(planner *pl, fx_arena *scratch)
{
    fx_program *p = pl->p;
    int n = pl->n_blocks;
    p->live_size = live_bound(pl, FX_NEW_ARRAY(scratch, int64_t, p->n_steps + 2));
    block **order = FX_NEW_ARRAY(scratch, block *, n + 1), **near = FX_NEW_ARRAY(scratch, block *, n + 1);
    uint64_t *best = FX_NEW_ARRAY(scratch, uint64_t, n + 1);
    p->arena_size = UINT64_MAX;
    block **best_order = FX_NEW_ARRAY(scratch, block *, n + 1);
    timeline lives = timeline_new(scratch, p->n_steps + 1);
    int tries = n > 2000 ? 4 : MAX_TRIES, moves = n > 400 ? 0 : MAX_MOVES;
    uint32_t noise = 362436069u;
    for (int t = 0; t < tries + moves && p->arena_size > p->live_size; t++) {
        if (t < tries) {
            set_keys(pl, t);
            for (int i = 0; i < n; i++)
                order[i] = &pl->blocks[i];
            qsort(order, (size_t)n, sizeof *order, by_key);
        } else {
            memcpy(order, best_order, (size_t)n * sizeof *order);
            int from = (int)(next_noise(&noise) % (uint32_t)n), to = (int)(next_noise(&noise) % (uint32_t)n);
            move_block(order, from, to);
        }
        uint64_t size = place(&lives, n, order, near);
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

/* ---- sizes that are expressions ------------------------------------------------------------------------------ */

/* Sizes are compared where the symbols are largest, or, where that says nothing, at a usual size. */
static void choose_nominal(planner *pl, fx_arena *scratch)
{
    enum { USUAL = 128, LARGE = 1 << 20 };
    fx_program *p = pl->p;
    pl->nominal = FX_NEW_ARRAY(scratch, int64_t, p->n_symbols + 1);
    for (size_t i = 0; i < p->n_symbols; i++) {
        const fx_sym_range *r = &p->symbols[i];
        pl->nominal[i] = r->max <= LARGE ? r->max : r->min > USUAL ? r->min : USUAL;
    }
}

static bool meets(const block *a, const block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Slots of blocks, as lists: next[i] of block number i in the order, head[slot]; most[slot]: the largest. */
typedef struct slots {
    int n;
    int *next, *head;
    uint64_t *most, total;
} slots;

/* Blocks in the given order take the slot that grows least for them, of those whose blocks all live at other times, or one of their own. */
static void fill_slots(slots *s, int n, block **order)
{
    s->n = 0;
    s->total = 0;
    for (int i = 0; i < n; i++) {
        int best = -1;
        uint64_t best_cost = order[i]->size, best_waste = 0; /* of a slot of its own */
        for (int k = 0; k < s->n; k++) {
            uint64_t cost = order[i]->size > s->most[k] ? order[i]->size - s->most[k] : 0;
            uint64_t waste = s->most[k] > order[i]->size ? s->most[k] - order[i]->size : 0;
            if (cost > best_cost || (cost == best_cost && waste >= best_waste))
                continue;
            int at = s->head[k];
            while (at >= 0 && !meets(order[at], order[i]))
                at = s->next[at];
            if (at >= 0)
                continue;
            best = k;
            best_cost = cost;
            best_waste = waste;
        }
        if (best < 0) {
            best = s->n++;
            s->head[best] = -1;
            s->most[best] = 0;
        }
        s->next[i] = s->head[best];
        s->head[best] = i;
        s->total += order[i]->size > s->most[best] ? order[i]->size - s->most[best] : 0;
        s->most[best] = order[i]->size > s->most[best] ? order[i]->size : s->most[best];
    }
}

/* Several orders are tried; the arena is the sum of the slots whatever the sizes turn out to be. */
static void plan_slots(planner *pl, fx_arena *scratch)
{
    fx_program *p = pl->p;
    int n = pl->n_blocks, tries = n > 400 ? 4 : MAX_TRIES;
    p->live_size = live_bound(pl, FX_NEW_ARRAY(scratch, int64_t, p->n_steps + 2));
    block **order = FX_NEW_ARRAY(scratch, block *, n + 1), **best_order = FX_NEW_ARRAY(scratch, block *, n + 1);
    slots now = {.next = FX_NEW_ARRAY(scratch, int, n + 1), .head = FX_NEW_ARRAY(scratch, int, n + 1), .most = FX_NEW_ARRAY(scratch, uint64_t, n + 1)};
    uint64_t best = UINT64_MAX;
    for (int t = 0; t < tries && best > p->live_size; t++) {
        set_keys(pl, t);
        for (int i = 0; i < n; i++)
            order[i] = &pl->blocks[i];
        qsort(order, (size_t)n, sizeof *order, by_key);
        fill_slots(&now, n, order);
        if (now.total >= best)
            continue;
        best = now.total;
        memcpy(best_order, order, (size_t)n * sizeof *order);
    }
    order = best_order;
    fill_slots(&now, n, order);
    const int n_slots = now.n, *next = now.next, *head = now.head;
    for (int s = 0; s < n_slots; s++)
        for (int k = head[s]; k >= 0; k = next[k])
            order[k]->slot = s;
    for (int s = 0; s < n_slots; s++) {
        int count = 0;
        for (int k = head[s]; k >= 0; k = next[k])
            count++;
        fx_dim *bytes = FX_NEW_ARRAY(p->arena, fx_dim, count);
        count = 0;
        for (int k = head[s]; k >= 0; k = next[k]) {
            int seen = 0;
            while (seen < count && !fx_dim_equal(bytes[seen], order[k]->bytes))
                seen++;
            if (seen == count)
                bytes[count++] = order[k]->bytes;
        }
        FX_PUSH(p->arena, p->slots, p->n_slots, p->cap_slots) = (fx_slot){.n = count, .bytes = bytes};
    }
    for (size_t i = 0; i < p->n_bufs; i++)
        p->bufs[i].slot = pl->block_of[i] >= 0 ? pl->blocks[pl->block_of[i]].slot : -1;
    int64_t *most = FX_NEW_ARRAY(scratch, int64_t, p->n_symbols + 1);
    bool bounded = true;
    for (size_t i = 0; i < p->n_symbols; i++) {
        most[i] = p->symbols[i].max;
        bounded = bounded && most[i] < INT64_MAX;
    }
    if (!bounded || !fx_program_arena(p, most, &p->arena_size, NULL))
        p->arena_size = 0;
}

/* Weights lie one after another behind the header of the file form. Unused ones take no room. */
static void plan_weights(planner *pl)
{
    fx_program *p = pl->p;
    uint64_t at = WEIGHTS_HEADER;
    for (size_t i = 0; i < p->n_bufs; i++) {
        fx_buf *b = &p->bufs[i];
        if (b->kind != FX_BUF_WEIGHT)
            continue;
        b->offset = at;
        at += align_up((uint64_t)buf_bytes(pl, b).value);
    }
    p->weights_size = at;
}

fx_status fx_pass_memory(fx_lower *l)
{
    fx_program *p = l->program;
    fx_arena *s = l->scratch;
    planner pl = {.p = p};
    for (size_t i = 0; i < p->n_bufs; i++)
        p->bufs[i].slot = -1;
    pl.first = FX_NEW_ARRAY(s, int64_t, p->n_bufs + 1);
    pl.last = FX_NEW_ARRAY(s, int64_t, p->n_bufs + 1);
    pl.block_of = FX_NEW_ARRAY(s, int, p->n_bufs + 1);
    pl.blocks = FX_NEW_ARRAY(s, block, p->n_bufs + 1);
    for (size_t i = 0; i < p->n_bufs; i++)
        pl.first[i] = -1;
    for (size_t i = 0; i < p->n_steps; i++) {
        pl.step = (int64_t)i;
        fx_stmt_accesses(p, p->steps[i].body, note_access, &pl);
    }
    for (size_t i = 0; l->opt && l->opt->fault == FX_FAULT_FREE_EARLY && i < p->n_bufs; i++)
        pl.last[i] -= pl.last[i] > pl.first[i];
    choose_nominal(&pl, s);
    make_blocks(&pl);
    if (p->n_symbols)
        plan_slots(&pl, s);
    else
        plan_arena(&pl, s);
    plan_weights(&pl);
    return FX_OK;
}
