/* lower/build_prune.c: what a step computes and nobody reads is left out: locals, local arrays, loops that do nothing; and what never runs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/build.h"

typedef struct uses {
    fx_build *b;
    bool *local;               /* read by something else than its own SET */
    bool *array;               /* LOCAL buffers from `first` on, likewise */
    int first;
} uses;

static void use_affine(uses *u, const fx_affine *a)
{
    for (int i = 0; i < a->n; i++) {
        if (a->var[i] < 0)
            u->local[FX_VAR_LOCAL(a->var[i])] = true;
    }
}

static void use_expr(uses *u, const fx_sexpr *e, int own_local, int own_buf)
{
    if (!e)
        return;
    if (e->op == FX_S_LOCAL && e->local != own_local)
        u->local[e->local] = true;
    if (e->op == FX_S_LOAD && e->buf != own_buf && e->buf >= u->first)
        u->array[e->buf - u->first] = true;
    if (e->op == FX_S_LOAD || e->op == FX_S_INDEX)
        use_affine(u, &e->index);
    for (int i = 0; i < fx_sop_arity(e->op); i++)
        use_expr(u, e->arg[i], own_local, own_buf);
}

static void find_uses(uses *u, const fx_stmt *s)
{
    for (; s; s = s->next) {
        use_expr(u, s->value, s->kind == FX_ST_SET ? s->local : -1, s->kind == FX_ST_STORE ? s->buf : -1);
        if (s->kind == FX_ST_STORE)
            use_affine(u, &s->index);
        if (s->kind == FX_ST_CHECK)
            u->local[s->local] = true;
        for (int i = 0; s->kind == FX_ST_IF && i < s->n_cond; i++)
            use_affine(u, &s->cond[i]);
        find_uses(u, s->body);
    }
}

static bool is_dead(const uses *u, const fx_stmt *s)
{
    switch (s->kind) {
    case FX_ST_LOCAL:
    case FX_ST_SET:
        return !u->local[s->local];
    case FX_ST_STORE:
    case FX_ST_ARRAY:
        return s->buf >= u->first && u->b->p->bufs[s->buf].kind == FX_BUF_LOCAL && !u->array[s->buf - u->first];
    case FX_ST_LOOP:
        return !s->body || (fx_dim_known(s->extent) && s->extent.value <= 0);
    case FX_ST_IF:
        return !s->body;
    default:
        return false;
    }
}

static bool drop(const uses *u, fx_stmt **at)
{
    bool any = false;
    while (*at) {
        fx_stmt *s = *at;
        any |= drop(u, &s->body);
        if (is_dead(u, s)) {
            *at = s->next;
            any = true;
        } else {
            at = &s->next;
        }
    }
    return any;
}

fx_stmt *fx_build_prune(fx_build *b, fx_stmt *body, int first)
{
    size_t n = b->p->n_bufs - (size_t)first + 1;
    for (bool again = true; again;) {
        uses u = {b, FX_NEW_ARRAY(b->piece, bool, b->n_locals + 1), FX_NEW_ARRAY(b->piece, bool, n), first};
        find_uses(&u, body);
        again = drop(&u, &body);
    }
    return body;
}

/* Guards that never hold. */
typedef struct never {
    fx_arena *arena;
    const fx_stmt **v;
    size_t n, cap;
} never;

static void note_never(void *user, const fx_stmt *guard)
{
    never *q = user;
    FX_PUSH(q->arena, q->v, q->n, q->cap) = guard;
}

static bool has_guard(const fx_stmt *s)
{
    for (; s; s = s->next)
        if (s->kind == FX_ST_IF || has_guard(s->body))
            return true;
    return false;
}

static void drop_listed(const never *q, fx_stmt **at)
{
    while (*at) {
        bool listed = false;
        for (size_t i = 0; i < q->n; i++)
            listed |= q->v[i] == *at;
        if (!listed)
            drop_listed(q, &(*at)->body);
        if (listed || (((*at)->kind == FX_ST_IF || (*at)->kind == FX_ST_LOOP) && !(*at)->body))
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

void fx_build_drop_impossible(fx_build *b)
{
    for (size_t i = 0; i < b->p->n_steps; i++) {
        never q = {.arena = b->scratch};
        if (has_guard(b->p->steps[i].body))
            fx_stmt_impossible(b->p, b->p->steps[i].body, note_never, &q);
        if (q.n)
            drop_listed(&q, &b->p->steps[i].body);
    }
}
