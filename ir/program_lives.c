/* ir/program_lives.c: the verifier's part about memory: accesses within their buffers, written before read, and no two buffers that
 * live at once in one place. Shares no code with the memory planner: lives and overlaps are recomputed from the accesses.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "ir/program_check.h"

enum { ALIGN = 64 };

/* ---- accesses: bounds, written before read, lives ---------------------------------------------------------------------- */

static void tell_once(fx_check *c, int buf, const char *text)
{
    if (!c->lives[buf].told)
        fx_check_bad(c, "%s", text);
    c->lives[buf].told = true;
}

/* Grows the hull where it can be told that it must. */
static void widen(const fx_check *c, fx_life *l, fx_dim lo, fx_dim hi)
{
    if (fx_check_le(c, lo, l->lo))
        l->lo = lo;
    if (fx_check_le(c, l->hi, hi))
        l->hi = hi;
}

/* Whether a buffer has no elements whatever the sizes are, also where its size is an expression: nobody need write it. */
static bool is_empty(const fx_check *c, const fx_buf *b)
{
    return fx_check_le(c, b->numel, fx_dim_of(0));
}

static void on_access(void *user, int buf, bool written, fx_dim lo, fx_dim hi, fx_symbols where, const fx_stmt *at)
{
    fx_check *c = user, running = *c;
    running.symbols = where;
    if (!fx_check_buf(c, buf))
        return;
    const fx_buf *b = &c->p->bufs[buf];
    fx_life *l = &c->lives[buf];
    if (!fx_check_le(&running, fx_dim_of(0), lo) || !fx_check_le(&running, fx_dim_plus(c->ctx, hi, 1), b->numel))
        tell_once(c, buf, fx_arena_printf(c->arena, "%s%s%s [%s, %s] of '%s', which has %s", at->kind == FX_ST_CALL ? "call " : "",
                                          at->kind == FX_ST_CALL ? at->call->name : "",
                                          at->kind != FX_ST_CALL ? (written ? "a store touches elements" : "a load touches elements")
                                                                 : (written ? " writes elements" : " reads elements"),
                                          fx_check_text(c, lo), fx_check_text(c, hi), b->name, fx_check_text(c, b->numel)));
    if (l->first < 0)
        l->first = c->step;
    l->last = c->step;
    if (written) {
        if (l->first_write < 0) {
            l->first_write = c->step;
            l->lo = lo;
            l->hi = hi;
        }
        widen(c, l, lo, hi);
    } else if (b->kind == FX_BUF_ARENA || b->kind == FX_BUF_OUTPUT || b->kind == FX_BUF_LOCAL) {
        if (l->first_write < 0) {
            if (!is_empty(c, b))
                tell_once(c, buf, fx_arena_printf(c->arena, "'%s' is read before anything is written to it", b->name));
        } else if (!fx_check_le(&running, l->lo, lo) || !fx_check_le(&running, hi, l->hi))
            tell_once(c, buf, fx_arena_printf(c->arena, "elements [%s, %s] of '%s' are read, only [%s, %s] were written before",
                                              fx_check_text(c, lo), fx_check_text(c, hi), b->name, fx_check_text(c, l->lo),
                                              fx_check_text(c, l->hi)));
    }
}

void fx_check_accesses(fx_check *c)
{
    fx_program *p = c->p;
    for (size_t i = 0; i < p->n_bufs; i++)
        c->lives[i].first = c->lives[i].last = c->lives[i].first_write = -1;
    for (size_t i = 0; i < p->n_steps; i++) {
        c->step = (int)i;
        fx_stmt_accesses(p, p->steps[i].body, on_access, c);
    }
    c->step = -1;
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        const fx_life *l = &c->lives[i];
        bool none = l->first_write < 0;
        if (b->kind == FX_BUF_OUTPUT && !fx_dim_is(b->numel, 0) &&
            (none || !fx_check_le(c, l->lo, fx_dim_of(0)) || !fx_check_le(c, b->numel, fx_dim_plus(c->ctx, l->hi, 1))) && !is_empty(c, b))
            fx_check_bad(c, "output '%s': expected all %s elements to be written, got [%s, %s]", b->name, fx_check_text(c, b->numel),
                         none ? "0" : fx_check_text(c, l->lo), none ? "-1" : fx_check_text(c, l->hi));
        if (b->kind == FX_BUF_COUNTER && l->first != l->last) /* of different streams they would count one another's blocks */
            fx_check_bad(c, "counters '%s' are used by steps %s and %s", b->name, p->steps[l->first].name, p->steps[l->last].name);
        if (b->workspace && l->first != l->last)
            fx_check_bad(c, "workspace '%s' is used by steps %s and %s", b->name, p->steps[l->first].name, p->steps[l->last].name);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

/* Looks for how a step reads one buffer and writes the one that takes its place. */
typedef struct inplace {
    const fx_check *c;
    int old, new;
    const fx_affine *index;      /* of all stores to `new` and loads of `old` seen */
    bool stored;                 /* a store to `new` came already: no load of `old` may follow */
    bool broken;
    struct { int var; fx_dim extent; } loops[64];
    int n_loops;
} inplace;

static void inplace_index(inplace *w, const fx_affine *index)
{
    if (w->index && !fx_affine_equal(w->index, index))
        w->broken = true;
    w->index = index;
    if (index->n > 0 && index->var[0] < 0)
        w->broken = true; /* data: nothing is known of it */
    /* Two iterations at one index: the second would read what the first wrote. */
    for (int i = 0; i < w->n_loops; i++) {
        if ((w->loops[i].extent.sym || w->loops[i].extent.value > 1) && fx_dim_is(fx_affine_coef(index, w->loops[i].var), 0))
            w->broken = true;
    }
}

static void inplace_expr(inplace *w, const fx_sexpr *e)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD && e->buf == w->old) {
        if (w->stored)
            w->broken = true;
        inplace_index(w, &e->index);
    }
    for (int i = 0; i < fx_sop_arity(e->op); i++)
        inplace_expr(w, e->arg[i]);
}

/* A contraction adds the residual to an element when it stores it; softmax and norms read a row whole before they write it, and attention a
 * row of queries. */
static void inplace_call(inplace *w, const fx_call_stmt *call)
{
    const fx_kernel *k = fx_kernel_get(call->kernel);
    int r = fx_kernel_in_step(k), y = fx_kernel_buf(k, "y");
    bool reads = false, writes = false;
    for (int i = 0; i < k->n_bufs; i++) {
        if (call->buf[i] == w->old && i != r)
            w->broken = true;
        if (call->buf[i] == w->new && i != y)
            w->broken = true;
    }
    reads = r >= 0 && call->buf[r] == w->old;
    writes = call->buf[y] == w->new;
    if (!reads && !writes)
        return;
    if (w->stored || w->index)
        w->broken = true; /* mixed with other statements: not looked into */
    w->stored = true;
    if (!reads)
        return;
    static const char *const residual[][2] = {{"rs_n", "ys_n"}, {"rs_h", "ys_h"}, {"rs_w", "ys_w"}, {"r_b", "y_b"}, {"r_m", "y_m"}};
    static const char *const rows[][2] = {{"x_m", "y_m"}, {"q_b", "o_b"}, {"q_h", "o_h"}, {"q_m", "o_m"}, {"dk", "dv"}};
    const char *const(*pairs)[2] = r == fx_kernel_buf(k, "r") ? residual : rows;
    if (!fx_dim_equal(call->offset[r], call->offset[y]))
        w->broken = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!fx_dim_equal(fx_call_dim(call, pairs[i][0]), fx_call_dim(call, pairs[i][1])))
            w->broken = true;
    }
}

static void inplace_stmts(inplace *w, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_LOOP) {
            if (w->n_loops == 64) {
                w->broken = true;
                return;
            }
            w->loops[w->n_loops].var = s->var;
            w->loops[w->n_loops++].extent = s->extent;
            inplace_stmts(w, s->body);
            w->n_loops--;
        } else if (s->kind == FX_ST_IF || s->kind == FX_ST_CHECK) {
            inplace_stmts(w, s->body);
        } else if (s->kind == FX_ST_CALL) {
            inplace_call(w, s->call);
        } else if (s->kind != FX_ST_COMMENT) {
            inplace_expr(w, s->value);
            if (s->kind == FX_ST_STORE && s->buf == w->new) {
                inplace_index(w, &s->index);
                w->stored = true;
            }
            if (s->kind == FX_ST_STORE && s->buf == w->old)
                w->broken = true;
        }
    }
}

/* Whether b may lie on a though both live in the step that makes b: a ends there, and is read element by element. */
static bool overlay_holds(const fx_check *c, const fx_buf *b, const fx_buf *a)
{
    const fx_life *lb = &c->lives[b->id], *la = &c->lives[a->id];
    if (b->overlay != a->id || b->offset != a->offset || b->slot != a->slot || fx_dtype_size(a->dtype) != fx_dtype_size(b->dtype) || la->last != lb->first ||
        la->first_write >= lb->first)
        return false;
    inplace w = {.old = a->id, .new = b->id};
    inplace_stmts(&w, c->p->steps[lb->first].body);
    return !w.broken;
}

typedef struct placed {
    const fx_buf *b;
    int first, last;
} placed;

static int by_first(const void *x, const void *y)
{
    const placed *a = x, *b = y;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->b->id < b->b->id ? -1 : a->b->id > b->b->id;
}

static int by_offset(const void *x, const void *y)
{
    const placed *a = x, *b = y;
    if (a->b->offset != b->b->offset)
        return a->b->offset < b->b->offset ? -1 : 1;
    return a->b->id < b->b->id ? -1 : a->b->id > b->b->id;
}

static void check_place(fx_check *c, const fx_buf *b, uint64_t total, const char *what)
{
    if (b->offset % ALIGN != 0)
        fx_check_bad(c, "'%s': expected an offset that is a multiple of %d, got %llu", b->name, ALIGN, (unsigned long long)b->offset);
    if (b->offset > total || fx_buf_bytes(b) > total - b->offset)
        fx_check_bad(c, "'%s' ends at %llu, past the %s of %llu bytes", b->name, (unsigned long long)(b->offset + fx_buf_bytes(b)), what,
            (unsigned long long)total);
}

/* Whether slot `high` stands above slot `low`, directly or through others. Slots stand above ones before them (check_symbols). */
static bool stands_above(fx_check *c, int high, int low)
{
    int n = 0;
    c->slot_stack[n++] = high;
    for (c->slot_search++; n > 0;) {
        const fx_slot *s = &c->p->slots[c->slot_stack[--n]];
        for (int k = 0; k < s->n_above; k++) {
            int below = s->above[k];
            if (below == low)
                return true;
            if (below <= low || c->slot_seen[below] == c->slot_search)
                continue;
            c->slot_seen[below] = c->slot_search;
            c->slot_stack[n++] = below;
        }
    }
    return false;
}

static bool disjoint(fx_check *c, const fx_buf *a, const fx_buf *b)
{
    if (c->p->n_symbols > 0)
        return a->slot > b->slot ? stands_above(c, a->slot, b->slot) : a->slot < b->slot && stands_above(c, b->slot, a->slot);
    return a->offset >= b->offset + fx_buf_bytes(b) || b->offset >= a->offset + fx_buf_bytes(a);
}

/* Each is of one step, and these of one stream of a region: one after the other. */
static bool take_turns(const fx_check *c, const fx_buf *a, const fx_buf *b)
{
    const int i = c->lives[a->id].alone, k = c->lives[b->id].alone;
    const fx_step *steps = c->p->steps;
    return i >= 0 && k >= 0 && i != k && steps[i].region == steps[k].region && steps[i].stream == steps[k].stream;
}

static void check_lives(fx_check *c, placed *arena, size_t n)
{
    const fx_program *p = c->p;
    qsort(arena, n, sizeof arena[0], by_first);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n && arena[j].first <= arena[i].last; j++) {
            const fx_buf *a = arena[i].b, *b = arena[j].b;
            if (!disjoint(c, a, b) && !take_turns(c, a, b) && !overlay_holds(c, b, a))
                fx_check_bad(c, "'%s' and '%s' overlap in the arena while both live (steps %s to %s)", a->name, b->name,
                             p->steps[arena[j].first].name, p->steps[arena[i].last < arena[j].last ? arena[i].last : arena[j].last].name);
        }
    }
}

static void check_arena(fx_check *c)
{
    fx_program *p = c->p;
    placed *arena = FX_NEW_ARRAY(c->arena, placed, p->n_bufs + 1);
    size_t n = 0;
    uint64_t end = 0;
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        const fx_life *l = &c->lives[i];
        if (b->kind != FX_BUF_ARENA || l->first < 0 || fx_buf_bytes(b) == 0)
            continue;
        arena[n++] = (placed){b, l->first, l->last};
        check_place(c, b, p->arena_size, "arena");
        end = b->offset + fx_buf_bytes(b) > end ? b->offset + fx_buf_bytes(b) : end;
    }
    if (p->arena_size != end && p->arena_size != (end + ALIGN - 1) / ALIGN * ALIGN)
        fx_check_bad(c, "arena_size: expected %llu, where the last buffer ends, got %llu", (unsigned long long)end,
                     (unsigned long long)p->arena_size);
    check_lives(c, arena, n);
}

/* Buffers of a kind that live all the time lie apart. */
static void check_block(fx_check *c, fx_buf_kind kind, uint64_t size, const char *what)
{
    fx_program *p = c->p;
    placed *all = FX_NEW_ARRAY(c->arena, placed, p->n_bufs + 1);
    size_t n = 0;
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (b->kind != kind || fx_buf_bytes(b) == 0)
            continue;
        all[n++] = (placed){b, 0, 0};
        check_place(c, b, size, what);
    }
    qsort(all, n, sizeof all[0], by_offset);
    for (size_t i = 1; i < n; i++) {
        const fx_buf *a = all[i - 1].b, *b = all[i].b;
        if (a->offset + fx_buf_bytes(a) > b->offset)
            fx_check_bad(c, "%s: '%s' and '%s' overlap", what, a->name, b->name);
    }
}

/* The same for a program with symbols, whose buffers lie in slots. */
static void check_slots(fx_check *c)
{
    fx_program *p = c->p;
    placed *arena = FX_NEW_ARRAY(c->arena, placed, p->n_bufs + 1);
    size_t n = 0;
    for (size_t i = 0; i < p->n_slots; i++)
        for (int k = 0; k < p->slots[i].n_above; k++)
            if (p->slots[i].above[k] < 0 || (size_t)p->slots[i].above[k] >= i)
                return; /* told by check_symbols */
    c->slot_seen = FX_NEW_ARRAY(c->arena, int, p->n_slots + 1);
    c->slot_stack = FX_NEW_ARRAY(c->arena, int, p->n_slots + 1);
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        const fx_life *l = &c->lives[i];
        if (b->kind != FX_BUF_ARENA || l->first < 0 || fx_dim_is(b->numel, 0))
            continue;
        if (b->slot < 0 || (size_t)b->slot >= p->n_slots) {
            fx_check_bad(c, "'%s': expected one of %zu slots, got %d", b->name, p->n_slots, b->slot);
            continue;
        }
        const fx_slot *slot = &p->slots[b->slot];
        fx_dim bytes = fx_dim_scale(c->ctx, b->numel, (int64_t)fx_dtype_size(b->dtype));
        bool covered = false;
        for (int k = 0; k < slot->n && !covered; k++)
            covered = fx_check_le(c, bytes, slot->bytes[k]);
        if (!covered)
            fx_check_bad(c, "'%s': none of slot %d's sizes is proved to be at least its %s bytes", b->name, b->slot, fx_check_text(c, bytes));
        arena[n++] = (placed){b, l->first, l->last};
    }
    check_lives(c, arena, n);
    int64_t *top = FX_NEW_ARRAY(c->arena, int64_t, p->n_symbols + 1);
    bool bounded = true;
    for (size_t i = 0; i < p->n_symbols; i++) {
        top[i] = p->symbols[i].max;
        bounded &= top[i] != INT64_MAX;
    }
    uint64_t size = 0;
    if (bounded && !fx_program_arena(p, top, &size, NULL))
        size = 0;
    if (p->arena_size != size)
        fx_check_bad(c, "arena_size: expected %llu at the upper ends of the symbols' ranges, got %llu", (unsigned long long)size,
                     (unsigned long long)p->arena_size);
}

void fx_check_memory(fx_check *c)
{
    fx_program *p = c->p;
    if (p->n_symbols > 0)
        check_slots(c);
    else
        check_arena(c);
    check_block(c, FX_BUF_WEIGHT, p->weights_size, "weights");
    check_block(c, FX_BUF_STATE, p->state_size, "state");
    check_block(c, FX_BUF_COUNTER, p->counters_size, "counters");
}
