/* lower/schedule_fuse.c: a step whose result only the next one reads, element by element, becomes part of it: what passes is a local scalar.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/nest_edit.h"
#include "lower/schedule.h"

/* ---- who uses what ---------------------------------------------------------------------------------------------------------- */

typedef struct use {
    int first, last;              /* steps; -1: none */
    int loads, stores, others;    /* in those steps, by text */
} use;

static void note(use *u, int buf, int step, int *count)
{
    if (u[buf].first < 0)
        u[buf].first = step;
    u[buf].last = step;
    ++*count;
}

static void uses_of_expr(use *u, const fx_sexpr *e, int step)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD)
        note(u, e->buf, step, &u[e->buf].loads);
    for (int k = 0; k < fx_sop_arity(e->op); k++)
        uses_of_expr(u, e->arg[k], step);
}

static void uses_of(use *u, const fx_stmt *s, int step)
{
    for (; s; s = s->next) {
        uses_of_expr(u, s->value, step);
        if (s->kind == FX_ST_STORE)
            note(u, s->buf, step, &u[s->buf].stores);
        for (int k = 0; s->kind == FX_ST_CALL && k < FX_MAX_BUF_ARGS; k++)
            if (s->call->buf[k] >= 0)
                note(u, s->call->buf[k], step, &u[s->call->buf[k]].others);
        uses_of(u, s->body, step);
    }
}

/* ---- shape ------------------------------------------------------------------------------------------------------------------ */

static fx_stmt *only_loop(fx_stmt *s)
{
    while (s && s->kind == FX_ST_COMMENT)
        s = s->next;
    return s && s->kind == FX_ST_LOOP && !s->next ? s : NULL;
}

/* The loops around the store of buf, one inside the other with nothing beside them; 0: not so. *place: the list that the store ends. */
static int loops_around_store(fx_stmt *body, int buf, fx_stmt **loops)
{
    int n = 0;
    for (fx_stmt *s = only_loop(body); s && n < FX_MAX_LOOPS; s = only_loop(s->body)) {
        loops[n++] = s;
        fx_stmt *last = s->body;
        while (last && last->next)
            last = last->next;
        if (last && last->kind == FX_ST_STORE && last->buf == buf)
            return n;
    }
    return 0;
}

static bool loads_at(const fx_sexpr *e, int buf, const fx_affine *index)
{
    if (!e)
        return true;
    if (e->op == FX_S_LOAD && e->buf == buf && !fx_affine_equal(&e->index, index))
        return false;
    for (int k = 0; k < fx_sop_arity(e->op); k++)
        if (!loads_at(e->arg[k], buf, index))
            return false;
    return true;
}

static bool all_loads_at(const fx_stmt *s, int buf, const fx_affine *index)
{
    for (; s; s = s->next)
        if (!loads_at(s->value, buf, index) || !all_loads_at(s->body, buf, index))
            return false;
    return true;
}

/* Whether any statement touches a buffer. */
static bool touches_expr(const fx_sexpr *e, int buf)
{
    if (!e)
        return false;
    bool yes = e->op == FX_S_LOAD && e->buf == buf;
    for (int k = 0; k < fx_sop_arity(e->op) && !yes; k++)
        yes = touches_expr(e->arg[k], buf);
    return yes;
}

static bool touches(const fx_stmt *s, int buf)
{
    for (; s; s = s->next)
        if ((s->kind == FX_ST_STORE && s->buf == buf) || touches_expr(s->value, buf) || touches(s->body, buf))
            return true;
    return false;
}

/* ---- one pair ----------------------------------------------------------------------------------------------------------------- */

typedef struct pair {
    fx_scheduler *s;
    fx_step *a, *b;
    int buf;                      /* what passes */
    int depth;
    fx_stmt *la[FX_MAX_LOOPS], *lb[FX_MAX_LOOPS];
    const fx_stmt *store;
} pair;

/* Whether what the second step writes takes the place of something that the first touches; but it may take over the place of what passes. */
static bool takes_place(const pair *q, const fx_stmt *s)
{
    const fx_program *p = q->s->p;
    for (; s; s = s->next) {
        int o = s->kind == FX_ST_STORE ? p->bufs[s->buf].overlay : -1;
        if ((o >= 0 && o != q->buf && touches(q->a->body, o)) || takes_place(q, s->body))
            return true;
    }
    return false;
}

static bool shapes_fit(pair *q)
{
    fx_program *p = q->s->p;
    q->depth = loops_around_store(q->a->body, q->buf, q->la);
    if (q->depth == 0)
        return false;
    fx_stmt *s = only_loop(q->b->body);
    for (int k = 0; k < q->depth; k++, s = s ? only_loop(s->body) : NULL) {
        if (!s || !fx_dim_equal(s->extent, q->la[k]->extent))
            return false;
        q->lb[k] = s;
    }
    q->store = q->la[q->depth - 1]->body;
    while (q->store->next)
        q->store = q->store->next;
    /* The second step reads what this iteration of the first wrote. */
    fx_nest_edit e = {.p = p, .load = -1, .n_vars = q->depth};
    fx_affine to[FX_MAX_LOOPS];
    for (int k = 0; k < q->depth; k++) {
        to[k] = fx_affine_const(0);
        fx_affine_add(p->ctx, &to[k], q->lb[k]->var, fx_dim_of(1));
        e.var[k] = q->la[k]->var;
        e.to[k] = &to[k];
    }
    fx_affine index = fx_nest_affine(&e, &q->store->index);
    if (!all_loads_at(q->b->body, q->buf, &index) || touches_expr(q->store->value, q->buf))
        return false;
    return !takes_place(q, q->b->body);
}

/* What isl said of a pair. */
typedef struct verdict {
    fx_isl_answer legal, apart;
} verdict;

static verdict ask(pair *q)
{
    fx_scheduler *s = q->s;
    /* The two as one statement, for the key. */
    fx_stmt *first = only_loop(q->a->body), *second = only_loop(q->b->body), a = fx_stmt_alone(first), b = fx_stmt_alone(second), both = {.kind = FX_ST_IF, .body = &a};
    a.next = &b;
    void **known = fx_nest_keys_find(s->pairs, s->p, &both, NULL, NULL);
    if (*known)
        return *(verdict *)*known;
    if (s->fusions >= FX_SCHEDULE_QUESTIONS)
        return (verdict){FX_ISL_UNKNOWN, FX_ISL_UNKNOWN};
    s->fusions++;
    verdict *v = FX_NEW(s->l->scratch, verdict);
    a.next = NULL;
    v->legal = fx_isl_fusion_legal(s->isl, s->p, &a, &b, q->depth, &v->apart);
    *known = v;
    return *v;
}

/* How the fused loop k runs: at once where one of the two did and no dependence is between iterations. */
static fx_loop_kind kind_of(const pair *q, int k, fx_isl_answer apart)
{
    fx_loop_kind a = q->la[k]->loop, b = q->lb[k]->loop;
    if (apart != FX_ISL_YES)
        return FX_LOOP_SERIAL;
    if (a == FX_LOOP_PARALLEL || b == FX_LOOP_PARALLEL)
        return FX_LOOP_PARALLEL;
    return a == b ? a : FX_LOOP_SERIAL;
}

/* The first step's statements, a local instead of the store, then the second's. The second's loops and variables stay. */
static void fuse(pair *q, fx_isl_answer apart, const int *placed_on)
{
    fx_scheduler *s = q->s;
    fx_program *p = s->p;
    int local = fx_nest_next_local(q->b->body);
    fx_nest_edit ea = {.p = p, .load = -1, .shift_vars = fx_nest_next_var(q->b->body), .shift_locals = local + 1}, eb = {.p = p, .load = q->buf, .load_local = local};
    fx_affine to[FX_MAX_LOOPS];
    for (int k = 0; k < q->depth; k++) {
        to[k] = fx_affine_const(0);
        fx_affine_add(p->ctx, &to[k], q->lb[k]->var, fx_dim_of(1));
        ea.var[k] = q->la[k]->var;
        ea.to[k] = &to[k];
    }
    ea.n_vars = q->depth;
    fx_stmt *first = fx_nest_copy(&ea, q->la[q->depth - 1]->body), **tail = &first;
    while ((*tail)->next)
        tail = &(*tail)->next;
    fx_stmt *set = fx_stmt_new(p, FX_ST_LOCAL);
    set->local = local;
    set->value = (*tail)->value;
    set->next = fx_nest_copy(&eb, q->lb[q->depth - 1]->body);
    *tail = set;
    for (int k = 0; k < q->depth; k++)
        q->lb[k]->loop = kind_of(q, k, apart);
    q->lb[q->depth - 1]->body = first;
    /* What lay in the place of what passed now takes the place that that took. */
    if (placed_on[q->buf] >= 0)
        p->bufs[placed_on[q->buf]].overlay = p->bufs[q->buf].overlay;
    fx_arena *mem = p->arena;
    const char *arrow = q->b->shapes ? strstr(q->b->shapes, "->") : NULL, *start = q->a->shapes ? strstr(q->a->shapes, "->") : NULL;
    if (arrow && start)
        q->b->shapes = fx_arena_printf(mem, "%.*s%s", (int)(start - q->a->shapes), q->a->shapes, arrow);
    if (q->a->title && q->b->title)
        q->b->title = fx_arena_printf(mem, "%s; %s", q->a->title, q->b->title);
    q->b->flops += q->a->flops;
    fx_remark(p->ctx, &q->b->loc, "step %s: fused with %s before it; '%s' is a local", q->b->name, q->a->name, p->bufs[q->buf].name);
}

void fx_schedule_fuse(fx_scheduler *s)
{
    fx_program *p = s->p;
    use *u = FX_NEW_ARRAY(s->l->scratch, use, p->n_bufs + 1);
    int *passes = FX_NEW_ARRAY(s->l->scratch, int, p->n_steps + 1), *placed_on = FX_NEW_ARRAY(s->l->scratch, int, p->n_bufs + 1);
    for (size_t i = 0; i < p->n_bufs; i++)
        u[i].first = u[i].last = placed_on[i] = -1;
    for (size_t i = 0; i < p->n_bufs; i++)
        if (p->bufs[i].overlay >= 0)
            placed_on[p->bufs[i].overlay] = placed_on[p->bufs[i].overlay] == -1 ? (int)i : -2; /* -2: several wish to */
    for (size_t i = 0; i < p->n_steps; i++) {
        uses_of(u, p->steps[i].body, (int)i);
        passes[i] = -1;
    }
    for (size_t i = 0; i < p->n_bufs; i++)
        if (p->bufs[i].kind == FX_BUF_ARENA && u[i].first >= 0 && u[i].last == u[i].first + 1 && u[i].stores == 1 && u[i].loads > 0 && !u[i].others)
            passes[u[i].first] = (int)i;
    size_t kept = 0;
    for (size_t i = 0; i < p->n_steps; i++) {
        pair q = {.s = s, .a = &p->steps[i], .b = i + 1 < p->n_steps ? &p->steps[i + 1] : NULL, .buf = passes[i]};
        if (q.b && q.buf >= 0 && placed_on[q.buf] != -2 && shapes_fit(&q)) {
            verdict v = ask(&q);
            if (v.legal == FX_ISL_YES) {
                fuse(&q, v.apart, placed_on);
                continue; /* the first is gone */
            }
            fx_remark(p->ctx, &q.b->loc, "step %s: not fused with %s: %s", q.b->name, q.a->name,
                      v.legal == FX_ISL_NO ? "dependences forbid it" : "isl did not decide");
        }
        p->steps[kept++] = p->steps[i];
    }
    p->n_steps = kept;
}
