/* lower/memory_slots.c: places in the arena for buffers whose sizes are expressions.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Which size is the largest changes with the symbols, so no offsets can be written down. What a plan decides is which of two blocks that live
 * at once lies below the other: a block starts where the highest of those below it ends, whatever the sizes turn out to be (fx_slot).
 * Plans are made as for numbers, at samples of the symbols' values; each is then judged at all samples, by the ratios of arena to
 * largest live set, and the best one is varied. */
#include <stdlib.h>
#include <string.h>

#include "lower/memory.h"

enum { MAX_SAMPLES = 6, MAX_TRIES = 24, MAX_MOVES = 1500, MANY = 400, TOO_MANY = 2000 };

/* The symbols at some values, and what follows. */
typedef struct sample {
    int64_t *values;
    uint64_t *size;                /* by block */
    uint64_t live;
} sample;

typedef struct search {
    fx_planner *pl;
    fx_arena *arena;
    sample samples[MAX_SAMPLES];
    int n_samples;
    fx_timeline lives;
    fx_block **order, **near;
    uint64_t *end[MAX_SAMPLES];    /* where a block ends, by block */
} search;

/* ---- samples ------------------------------------------------------------------------------------------------------- */

/* The largest value that says anything: of a range without an end, a usual size. */
static int64_t large(const fx_sym_range *r)
{
    enum { USUAL = 128, LARGE = 1 << 20 };
    return r->max <= LARGE ? r->max : r->min > USUAL ? r->min : USUAL;
}

/* share / 16 of the way from the smallest size with anything in it to the largest, in steps of equal ratio. */
static int64_t between(const fx_sym_range *r, int share)
{
    int64_t lo = r->min > 1 ? r->min : 1, hi = large(r), at = lo;
    if (hi <= lo || share >= 16)
        return hi;
    int doublings = 0;
    while (at <= hi / 2) {
        at *= 2;
        doublings++;
    }
    int steps = doublings * share / 16;
    at = lo << steps;
    return share > 0 && steps == 0 ? lo + (hi - lo) * share / 16 : at;
}

/* Whether a run may have these sizes, and all that the planner asks for can be computed. */
static bool possible(search *s, sample *m)
{
    fx_program *p = s->pl->p;
    fx_symbols symbols = fx_program_symbols(p);
    int64_t v;
    for (size_t i = 0; i < p->n_limits; i++)
        if (!fx_dim_eval(symbols, m->values, p->limits[i].value, &v) || v < 0)
            return false;
    m->size = FX_NEW_ARRAY(s->arena, uint64_t, s->pl->n_blocks + 1);
    for (int i = 0; i < s->pl->n_blocks; i++) {
        if (!fx_dim_eval(symbols, m->values, s->pl->blocks[i].bytes, &v) || v < 0 || v > INT64_MAX / 4)
            return false;
        m->size[i] = fx_memory_align((uint64_t)v);
    }
    return true;
}

static void use(search *s, int sample)
{
    for (int i = 0; i < s->pl->n_blocks; i++)
        s->pl->blocks[i].size = s->samples[sample].size[i];
}

/* All sizes large, small, between; some large while others are small. */
static void take_samples(search *s)
{
    static const int shares[MAX_SAMPLES][2] = {{16, 16}, {0, 0}, {8, 8}, {16, 0}, {0, 16}, {5, 11}};
    fx_program *p = s->pl->p;
    for (int k = 0; k < MAX_SAMPLES; k++) {
        sample *m = &s->samples[s->n_samples];
        m->values = FX_NEW_ARRAY(s->arena, int64_t, p->n_symbols + 1);
        for (size_t i = 0; i < p->n_symbols; i++)
            m->values[i] = between(&p->symbols[i], shares[k][i % 2]);
        bool seen = false;
        for (int j = 0; j < s->n_samples; j++)
            seen |= memcmp(s->samples[j].values, m->values, p->n_symbols * sizeof *m->values) == 0;
        if (seen || !possible(s, m))
            continue;
        use(s, s->n_samples++);
        m->live = fx_memory_live(s->pl, s->arena);
    }
    if (s->n_samples)
        return;
    s->samples[0].size = FX_NEW_ARRAY(s->arena, uint64_t, s->pl->n_blocks + 1); /* none is possible: any plan will do */
    s->n_samples = 1;
}

/* ---- plans ----------------------------------------------------------------------------------------------------------- */

/* By where they lie. Those of no bytes at the sample come before what starts at the same place. */
static int by_place(const void *a, const void *b)
{
    const fx_block *x = *(fx_block *const *)a, *y = *(fx_block *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Begins a walk over the blocks as they are placed, from below. */
static void from_below(search *s, fx_block **blocks)
{
    int n = s->pl->n_blocks;
    for (int i = 0; i < n; i++) {
        blocks[i] = &s->pl->blocks[i];
        blocks[i]->seen = -1;
    }
    qsort(blocks, (size_t)n, sizeof *blocks, by_place);
    fx_timeline_clear(&s->lives);
}

/* How good the blocks as placed are, 1 being the best there can be: the mean of the ratios of arena to largest live set, to the fourth power
 * so that the worst counts most. Anything >= most once it is that. */
static double judge(search *s, fx_block **blocks, double most)
{
    uint64_t total[MAX_SAMPLES] = {0};
    double part[MAX_SAMPLES] = {0}, sum = 0;
    from_below(s, blocks);
    for (int i = 0; i < s->pl->n_blocks; i++) {
        fx_block *b = blocks[i];
        int n_near = fx_timeline_near(&s->lives, b, i, s->near);
        for (int k = 0; k < s->n_samples; k++) {
            uint64_t at = 0;
            for (int j = 0; j < n_near; j++)
                at = s->end[k][s->near[j]->id] > at ? s->end[k][s->near[j]->id] : at;
            at += s->samples[k].size[b->id];
            s->end[k][b->id] = at;
            if (at <= total[k])
                continue;
            total[k] = at;
            double ratio = s->samples[k].live ? (double)at / (double)s->samples[k].live : 1;
            sum -= part[k];
            part[k] = ratio * ratio * ratio * ratio;
            sum += part[k];
        }
        if (sum >= most * s->n_samples)
            return most;
        fx_timeline_add(&s->lives, b);
    }
    return sum / s->n_samples;
}

/* Leaves the blocks placed by the best plan found: offset and size at the sample it was made at. */
static void find_plan(search *s)
{
    const double near_enough = 1.01;
    fx_planner *pl = s->pl;
    int n = pl->n_blocks, best_sample = 0;
    int orders = s->n_samples * FX_MEMORY_ORDERS, tries = n > TOO_MANY ? s->n_samples : orders + (n > MANY ? 0 : MAX_TRIES);
    int moves = n > MANY || n < 2 ? 0 : MAX_MOVES;
    double best = 1e300;
    uint32_t noise = 362436069u;
    fx_block **best_order = FX_NEW_ARRAY(s->arena, fx_block *, n + 1), **blocks = FX_NEW_ARRAY(s->arena, fx_block *, n + 1);
    uint64_t *offset = FX_NEW_ARRAY(s->arena, uint64_t, n + 1);
    for (int t = 0; t < tries + moves && best > (t < tries ? 1 : near_enough); t++) {
        int at = t < tries ? t % s->n_samples : best_sample;
        use(s, at);
        if (t < tries) {
            fx_memory_order(pl, t < orders ? t / s->n_samples : t, s->order);
        } else {
            memcpy(s->order, best_order, (size_t)n * sizeof *s->order);
            fx_memory_vary(&noise, n, s->order);
        }
        fx_memory_place(&s->lives, n, s->order, s->near);
        double found = judge(s, blocks, best);
        if (found >= best)
            continue;
        best = found;
        best_sample = at;
        memcpy(best_order, s->order, (size_t)n * sizeof *s->order);
        for (int i = 0; i < n; i++)
            offset[i] = pl->blocks[i].offset;
    }
    use(s, best_sample);
    for (int i = 0; i < n; i++)
        pl->blocks[i].offset = offset[i];
}

/* ---- slots -------------------------------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

/* Drops from `above` (n slots, ascending) those that others of it stand above anyway; seen[slot] is `search` of the last walk that met it. */
static int without_implied(const search *s, int n, int *above, int *seen, int *stack, int search)
{
    const fx_program *p = s->pl->p;
    int n_stack = 0, kept = 0;
    for (int i = n - 1; i > 0; i--)
        stack[n_stack++] = above[i];
    while (n_stack) {
        const fx_slot *slot = &p->slots[stack[--n_stack]];
        for (int k = 0; k < slot->n_above; k++) {
            int below = slot->above[k];
            if (below < above[0] || seen[below] == search)
                continue;
            seen[below] = search;
            stack[n_stack++] = below;
        }
    }
    for (int i = 0; i < n; i++)
        if (seen[above[i]] != search)
            above[kept++] = above[i];
    return kept;
}

/* What makes blocks share a slot: the size, and the slots below. */
static const char *slot_key(const search *s, fx_dim bytes, int n, const int *above)
{
    fx_text t;
    fx_text_init(&t, s->arena);
    fx_dim_print(&t, bytes);
    for (int i = 0; i < n; i++)
        fx_printf(&t, ",%d", above[i]);
    return fx_intern(s->pl->p->ctx, t.data);
}

/* Slots for the blocks as they are placed. */
static void make_slots(search *s)
{
    fx_program *p = s->pl->p;
    int n = s->pl->n_blocks;
    fx_block **blocks = s->order;
    int *above = FX_NEW_ARRAY(s->arena, int, n + 1), *seen = FX_NEW_ARRAY(s->arena, int, n + 1), *stack = FX_NEW_ARRAY(s->arena, int, 2 * n + 1);
    fx_map slots = {0};
    from_below(s, blocks);
    for (int i = 0; i < n; i++)
        seen[i] = -1;
    for (int i = 0; i < n; i++) {
        fx_block *b = blocks[i];
        int n_near = fx_timeline_near(&s->lives, b, i, s->near), n_above = 0;
        for (int k = 0; k < n_near; k++)
            above[n_above++] = s->near[k]->slot;
        qsort(above, (size_t)n_above, sizeof *above, by_number);
        int distinct = 0;
        for (int k = 0; k < n_above; k++)
            if (!distinct || above[distinct - 1] != above[k])
                above[distinct++] = above[k];
        n_above = n > TOO_MANY ? distinct : without_implied(s, distinct, above, seen, stack, i);
        const char *key = slot_key(s, b->bytes, n_above, above);
        int *known = fx_map_get(&slots, key);
        if (!known) {
            known = FX_NEW(s->arena, int);
            *known = (int)p->n_slots;
            fx_map_put(s->arena, &slots, key, known);
            FX_PUSH(p->arena, p->slots, p->n_slots, p->cap_slots) =
                (fx_slot){.n = 1, .bytes = fx_arena_dup(p->arena, &b->bytes, sizeof b->bytes), .n_above = n_above,
                          .above = fx_arena_dup(p->arena, above, (size_t)n_above * sizeof *above)};
        }
        b->slot = *known;
        fx_timeline_add(&s->lives, b);
    }
}

void fx_memory_slots(fx_planner *pl, fx_arena *scratch)
{
    fx_program *p = pl->p;
    int n = pl->n_blocks;
    search s = {.pl = pl, .arena = scratch, .lives = fx_timeline_new(scratch, p->n_steps + 1)};
    s.order = FX_NEW_ARRAY(scratch, fx_block *, n + 1);
    s.near = FX_NEW_ARRAY(scratch, fx_block *, n + 1);
    for (int k = 0; k < MAX_SAMPLES; k++)
        s.end[k] = FX_NEW_ARRAY(scratch, uint64_t, n + 1);
    take_samples(&s);
    p->live_size = s.samples[0].live;
    find_plan(&s);
    make_slots(&s);
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
