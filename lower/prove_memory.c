/* lower/prove_memory.c: buffers that live at once lie apart, or one takes the other's place element by element.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lower/prove.h"

/* ---- places ------------------------------------------------------------------------------------------------------------- */

static fx_dim bytes_of(const fx_prover *r, const fx_buf *b)
{
    return fx_dim_scale(r->ctx, b->numel, (int64_t)fx_dtype_size(b->dtype));
}

/* Whether one of two slots surely ends before the other begins: the later one stands above the earlier one, or above one that does, and so on. */
static bool slots_apart(const fx_prover *r, int a, int b)
{
    int low = a < b ? a : b, high = a < b ? b : a;
    if (low < 0 || low == high || (size_t)high >= r->p->n_slots)
        return false;
    const fx_slot *s = &r->p->slots[high];
    for (int k = 0; k < s->n_above; k++)
        if (s->above[k] == low)
            return true;
    bool *over = FX_NEW_ARRAY(r->arena, bool, high - low + 1); /* slot low + i is above low, or low itself */
    over[0] = true;
    for (int i = low + 1; i <= high; i++) {
        s = &r->p->slots[i];
        for (int k = 0; k < s->n_above && !over[i - low]; k++)
            over[i - low] = s->above[k] >= low && s->above[k] < i && over[s->above[k] - low];
    }
    return over[high - low];
}

bool fx_prove_same_place(const fx_prover *r, int a, int b)
{
    const fx_buf *x = &r->p->bufs[a], *y = &r->p->bufs[b];
    if (a == b)
        return true;
    if (x->kind != FX_BUF_ARENA || y->kind != FX_BUF_ARENA)
        return false;
    if (r->p->n_symbols)
        return !slots_apart(r, x->slot, y->slot);
    return x->offset < y->offset + (uint64_t)bytes_of(r, y).value && y->offset < x->offset + (uint64_t)bytes_of(r, x).value;
}

/* ---- lives --------------------------------------------------------------------------------------------------------------- */

typedef struct life {
    int buf, first, last;         /* steps; -1: never touched */
    int only;                     /* the one step that touches it; -1: several */
} life;

typedef struct walk {
    life *lives;
    int step;
    size_t n_bufs;
} walk;

static void touch(walk *w, int buf)
{
    if (buf < 0 || (size_t)buf >= w->n_bufs)
        return;
    if (w->lives[buf].first < 0)
        w->lives[buf].first = w->step;
    w->lives[buf].last = w->step;
}

static void touch_expr(walk *w, const fx_sexpr *e)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD)
        touch(w, e->buf);
    for (int k = 0; k < fx_sop_arity(e->op); k++)
        touch_expr(w, e->arg[k]);
}

static void touch_stmts(walk *w, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_LOOP && fx_dim_known(s->extent) && s->extent.value <= 0)
            continue; /* never runs */
        touch_expr(w, s->value);
        if (s->kind == FX_ST_STORE)
            touch(w, s->buf);
        for (int k = 0; s->kind == FX_ST_CALL && k < FX_MAX_BUF_ARGS; k++)
            touch(w, s->call->buf[k]);
        touch_stmts(w, s->body);
    }
}

/* Nobody knows when in its region a step runs. */
static void in_regions(const fx_program *p, life *l)
{
    if (l->first < 0)
        return;
    l->only = l->first == l->last ? l->first : -1;
    const int from = p->steps[l->first].region, to = p->steps[l->last].region;
    for (; from && l->first > 0 && p->steps[l->first - 1].region == from; l->first--) {
    }
    for (; to && (size_t)l->last + 1 < p->n_steps && p->steps[l->last + 1].region == to; l->last++) {
    }
}

/* Buffers of one step each, on one stream. */
static bool one_by_one(const fx_program *p, const life *a, const life *b)
{
    return a->only >= 0 && b->only >= 0 && a->only != b->only && p->steps[a->only].region == p->steps[b->only].region && p->steps[a->only].stream == p->steps[b->only].stream;
}

/* ---- one buffer in another's place --------------------------------------------------------------------------------------------- */

/* A load of the old buffer or a store to the new one, with the loops around it. */
typedef struct access {
    bool write;
    const fx_affine *index;
    fx_prove_scope scope;
    int top, at;                  /* the top statement it is in, and its number among all */
    const fx_stmt *loops[FX_PROVE_DEPTH];
} access;

typedef struct inplace {
    fx_prover *r;
    int old, new;
    fx_prove_scope scope;
    const fx_stmt *loops[FX_PROVE_DEPTH];
    int top, at;
    access *v; size_t n, cap;
    bool failed, called;
} inplace;

static void add_access(inplace *w, bool write, const fx_affine *index)
{
    access *a = &FX_PUSH(w->r->arena, w->v, w->n, w->cap);
    a->write = write;
    a->index = index;
    a->scope = w->scope;
    a->top = w->top;
    a->at = w->at++;
    memcpy(a->loops, w->loops, sizeof a->loops);
}

static void reads(inplace *w, const fx_sexpr *e)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD && e->buf == w->old)
        add_access(w, false, &e->index);
    for (int k = 0; k < fx_sop_arity(e->op); k++)
        reads(w, e->arg[k]);
}

/* The call reads the old buffer only in step with what it writes to the new one. */
static bool call_is_inplace(const inplace *w, const fx_call_stmt *c)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    bool reads = false;
    for (int i = 0; i < k->n_bufs; i++) {
        if (c->buf[i] == w->new && strcmp(k->buf[i].name, "y"))
            return false;
        if (c->buf[i] != w->old)
            continue;
        if (reads || !fx_prove_in_step(w->r, c, i))
            return false;
        reads = true;
    }
    return reads && c->buf[fx_kernel_buf(k, "y")] == w->new;
}

static void collect(inplace *w, const fx_stmt *s, bool outermost)
{
    for (; s && !w->failed; s = s->next) {
        w->top += outermost;
        reads(w, s->value);
        if (s->kind == FX_ST_STORE && s->buf == w->new)
            add_access(w, true, &s->index);
        w->failed |= s->kind == FX_ST_STORE && s->buf == w->old;
        if (s->kind == FX_ST_CALL) {
            bool uses = false;
            for (int k = 0; k < FX_MAX_BUF_ARGS; k++)
                uses |= s->call->buf[k] == w->old || s->call->buf[k] == w->new;
            w->failed |= uses && (w->called || !call_is_inplace(w, s->call));
            w->called |= uses;
        }
        bool ranges = s->kind == FX_ST_LOOP || s->kind == FX_ST_CHECK;
        if (ranges && w->scope.n == FX_PROVE_DEPTH)
            w->failed = true;
        if (w->failed)
            return;
        int n = w->scope.n_cond;
        if (ranges) {
            w->loops[w->scope.n] = s;
            w->scope.v[w->scope.n++] = (fx_prove_var){s->kind == FX_ST_LOOP ? s->var : FX_VAR_LOCAL(s->local), s->extent};
        }
        for (int k = 0; s->kind == FX_ST_IF && k < s->n_cond && w->scope.n_cond < FX_PROVE_DEPTH; k++)
            w->scope.cond[w->scope.n_cond++] = &s->cond[k];
        collect(w, s->body, false);
        w->scope.n -= ranges;
        w->scope.n_cond = n;
    }
}

/* That no store of `s` runs before the load `l` and touches its element. The loops they share run in order; for each, stores in earlier
 * iterations must touch something else; in one iteration of all, the load comes first in the text. */
static bool load_first(fx_prover *r, const access *s, const access *l)
{
    int common = 0, shared[FX_PROVE_DEPTH];
    while (common < s->scope.n && common < l->scope.n && s->loops[common] == l->loops[common])
        common++;
    for (int i = 0; i < common; i++)
        shared[i] = s->scope.v[i].var;
    fx_prove_form fs = fx_prove_form_of(r, &s->scope, s->index), fl = fx_prove_form_of(r, &l->scope, l->index);
    for (int k = 0; k < common; k++) { /* other iterations of loop k, those around it the same */
        if (fx_dim_known(s->scope.v[k].extent) && s->scope.v[k].extent.value == 1)
            continue;
        if (s->scope.v[k].var < 0)
            return false;
        if (!fx_prove_distinct(r, &fs, &fl, k, shared, shared[k])) {
            if (!fx_prove_distinct_isl(r, &s->scope, s->index, &l->scope, l->index, k, shared[k]))
                return false;
            r->by |= FX_BY_ISL;
        }
    }
    if (l->at < s->at)
        return true;
    if (fx_prove_distinct(r, &fs, &fl, common, shared, INT_MIN))
        return true;
    if (!fx_prove_distinct_isl(r, &s->scope, s->index, &l->scope, l->index, common, INT_MIN))
        return false;
    r->by |= FX_BY_ISL;
    return true;
}

/* `new` is made in the last step that reads `old`, and lies where `old` lies. */
static bool takes_place(fx_prover *r, int old, int new, int step)
{
    const fx_buf *a = &r->p->bufs[old], *b = &r->p->bufs[new];
    if (fx_dtype_size(a->dtype) != fx_dtype_size(b->dtype) || (r->p->n_symbols ? a->slot != b->slot : a->offset != b->offset))
        return false;
    inplace w = {.r = r, .old = old, .new = new};
    collect(&w, r->p->steps[step].body, true);
    if (w.failed || (w.called && w.n))
        return false;
    for (size_t i = 0; i < w.n; i++)
        for (size_t k = 0; k < w.n; k++)
            if (w.v[i].write && !w.v[k].write && !load_first(r, &w.v[i], &w.v[k]))
                return false;
    r->by |= FX_BY_ORDER;
    return true;
}

/* ---- all pairs -------------------------------------------------------------------------------------------------------------------- */

static int by_first(const void *x, const void *y)
{
    const life *a = x, *b = y;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : a->buf < b->buf ? -1 : a->buf > b->buf;
}

/* A place is inside the arena, or its slot is large enough. */
static bool has_room(const fx_prover *r, const fx_buf *b)
{
    if (!r->p->n_symbols)
        return b->offset % 64 == 0 && b->offset + (uint64_t)bytes_of(r, b).value <= r->p->arena_size;
    if (b->slot < 0 || (size_t)b->slot >= r->p->n_slots)
        return false;
    const fx_slot *slot = &r->p->slots[b->slot];
    for (int k = 0; k < slot->n; k++)
        if (fx_prove_le(r, bytes_of(r, b), slot->bytes[k]))
            return true;
    return false;
}

/* State lives from run to run: each lies behind the one before it, all within the block. */
static void prove_state(fx_prover *r, void (*f)(void *user, const char *step, const char *text), void *user)
{
    const fx_program *p = r->p;
    uint64_t end = 0;
    for (size_t i = 0; i < p->n_states; i++) {
        const fx_buf *b = &p->bufs[p->states[i].buf];
        if (b->offset % 64 || b->offset < end)
            f(user, "state", fx_arena_printf(r->kept, "'%s' lies on the state before it, or is not aligned", b->name));
        end = b->offset + (uint64_t)bytes_of(r, b).value;
        if (end > p->state_size)
            f(user, "state", fx_arena_printf(r->kept, "'%s' does not lie within the state", b->name));
    }
}

/* Counters are zeros from run to run: each call has its own, behind those before, all within the block. */
static void prove_counters(fx_prover *r, const life *lives, void (*f)(void *user, const char *step, const char *text), void *user)
{
    const fx_program *p = r->p;
    uint64_t end = 0;
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (b->kind != FX_BUF_COUNTER)
            continue;
        if (b->offset % 64 || b->offset < end)
            f(user, "counters", fx_arena_printf(r->kept, "'%s' lies on the counters before it, or is not aligned", b->name));
        end = b->offset + (uint64_t)bytes_of(r, b).value;
        if (end > p->counters_size)
            f(user, "counters", fx_arena_printf(r->kept, "'%s' does not lie within the counters", b->name));
        if (lives[i].first != lives[i].last)
            f(user, "counters", fx_arena_printf(r->kept, "'%s' is used by several steps", b->name));
    }
}

int fx_prove_memory(fx_prover *r, void (*f)(void *user, const char *step, const char *text), void *user)
{
    fx_program *p = r->p;
    walk w = {.lives = FX_NEW_ARRAY(r->kept, life, p->n_bufs + 1), .n_bufs = p->n_bufs};
    for (size_t i = 0; i < p->n_bufs; i++)
        w.lives[i] = (life){(int)i, -1, -1, -1};
    for (size_t i = 0; i < p->n_steps; i++) {
        w.step = (int)i;
        touch_stmts(&w, p->steps[i].body);
    }
    prove_state(r, f, user);
    prove_counters(r, w.lives, f, user);
    for (size_t i = 0; i < p->n_bufs; i++)
        in_regions(p, &w.lives[i]);
    life *v = FX_NEW_ARRAY(r->kept, life, p->n_bufs + 1), *live = FX_NEW_ARRAY(r->kept, life, p->n_bufs + 1);
    size_t n = 0, n_live = 0;
    for (size_t i = 0; i < p->n_bufs; i++)
        if (p->bufs[i].kind == FX_BUF_ARENA && w.lives[i].first >= 0 && !fx_dim_is(p->bufs[i].numel, 0))
            v[n++] = w.lives[i];
    qsort(v, n, sizeof *v, by_first);
    for (size_t i = 0; i < n; i++) {
        const fx_buf *b = &p->bufs[v[i].buf];
        if (!has_room(r, b))
            f(user, p->steps[v[i].first].name, fx_arena_printf(r->kept, "'%s' does not lie within the arena", b->name));
        size_t kept = 0;
        for (size_t k = 0; k < n_live; k++)
            if (live[k].last >= v[i].first)
                live[kept++] = live[k];
        n_live = kept;
        for (size_t k = 0; k < n_live; k++) {
            if (one_by_one(p, &live[k], &v[i]) || !fx_prove_same_place(r, live[k].buf, v[i].buf))
                continue;
            bool takes = live[k].last == v[i].first && live[k].first < v[i].first && takes_place(r, live[k].buf, v[i].buf, v[i].first);
            fx_arena_reset(r->arena);
            if (takes)
                continue;
            f(user, p->steps[v[i].first].name,
              fx_arena_printf(r->kept, "'%s' and '%s' lie on one another in the arena while both live (steps %s to %s)",
                              p->bufs[live[k].buf].name, b->name, p->steps[v[i].first].name,
                              p->steps[live[k].last < v[i].last ? live[k].last : v[i].last].name));
        }
        live[n_live++] = v[i];
    }
    return (int)n;
}
