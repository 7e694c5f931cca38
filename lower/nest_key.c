/* lower/nest_key.c: keys of statements: their structure, sizes and strides, with buffers and variables numbered as they come.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/lex.h"
#include "lower/nest_key.h"

enum { BUCKETS = 4096 };

typedef struct entry {
    struct entry *next;
    size_t n;
    const int64_t *words;
    void *value;
} entry;

typedef struct number {
    int64_t what;
    int as;
} number;

struct fx_nest_keys {
    fx_arena *arena;
    entry *bucket[BUCKETS];
    /* the key being made */
    int64_t *words; size_t n, cap;
    number *numbers; size_t n_numbers, cap_numbers;
    int n_bufs, *bufs; size_t cap_bufs;
    const fx_program *p;
    bool (*same)(void *user, int a, int b);
    void *user;
};

fx_nest_keys *fx_nest_keys_new(fx_arena *arena)
{
    fx_nest_keys *k = FX_NEW(arena, fx_nest_keys);
    k->arena = arena;
    return k;
}

static void put(fx_nest_keys *k, int64_t v)
{
    FX_PUSH(k->arena, k->words, k->n, k->cap) = v;
}

static void put_dim(fx_nest_keys *k, fx_dim d)
{
    put(k, d.sym ? (int64_t)(intptr_t)d.sym : d.value);
    put(k, d.sym != NULL);
}

/* The number of a buffer, loop variable or local: by first appearance. */
static bool put_number(fx_nest_keys *k, int64_t what)
{
    size_t i = 0;
    while (i < k->n_numbers && k->numbers[i].what != what)
        i++;
    bool fresh = i == k->n_numbers;
    if (fresh)
        FX_PUSH(k->arena, k->numbers, k->n_numbers, k->cap_numbers) = (number){what, (int)i};
    put(k, (int64_t)i);
    return fresh;
}

static void put_var(fx_nest_keys *k, int var)
{
    put_number(k, (int64_t)var * 2 + 1);
}

static void put_buf(fx_nest_keys *k, int buf)
{
    if (buf < 0) {
        put(k, -1);
        return;
    }
    if (!put_number(k, (int64_t)buf * 2))
        return;
    const fx_buf *b = &k->p->bufs[buf];
    put_dim(k, b->numel);
    put(k, b->dtype);
    put(k, b->kind);
    for (int i = 0; i < k->n_bufs; i++)
        if (k->same && k->same(k->user, k->bufs[i], buf))
            put(k, -100 - i);
    size_t n = (size_t)k->n_bufs;
    FX_PUSH(k->arena, k->bufs, n, k->cap_bufs) = buf;
    k->n_bufs = (int)n;
}

static void put_affine(fx_nest_keys *k, const fx_affine *a)
{
    put_dim(k, a->base);
    put(k, a->n);
    for (int i = 0; i < a->n; i++) {
        put_var(k, a->var[i]);
        put_dim(k, a->coef[i]);
    }
}

static void put_expr(fx_nest_keys *k, const fx_sexpr *e)
{
    if (!e) {
        put(k, -1);
        return;
    }
    int64_t imm;
    memcpy(&imm, &e->imm, sizeof imm);
    put(k, e->op);
    put(k, e->dtype);
    put(k, imm);
    put(k, e->ival);
    if (e->op == FX_S_LOAD)
        put_buf(k, e->buf);
    if (e->op == FX_S_LOCAL)
        put_var(k, FX_VAR_LOCAL(e->local));
    if (e->op == FX_S_LOAD || e->op == FX_S_INDEX)
        put_affine(k, &e->index);
    for (int i = 0; i < fx_sop_arity(e->op); i++)
        put_expr(k, e->arg[i]);
}

static void put_call(fx_nest_keys *k, const fx_call_stmt *c)
{
    const fx_kernel *kernel = fx_kernel_get(c->kernel);
    put(k, c->kernel);
    for (int i = 0; i < kernel->n_fields; i++) {
        int64_t v;
        memcpy(&v, &c->field[i], sizeof v);
        put(k, v);
        put(k, (int64_t)(intptr_t)c->sym[i]);
    }
    for (int i = 0; i < kernel->n_bufs; i++) {
        put_buf(k, c->buf[i]);
        put_dim(k, c->offset[i]);
    }
}

static void put_list(fx_nest_keys *k, const fx_stmt *s, bool all)
{
    for (; s; s = all ? s->next : NULL) {
        put(k, s->kind);
        switch (s->kind) {
        case FX_ST_LOOP:
            put_var(k, s->var);
            put_dim(k, s->extent);
            put(k, s->loop);
            put(k, s->axis);
            put(k, s->threads);
            put(k, s->aligned);
            put(k, s->beside);
            break;
        case FX_ST_STORE:
            put_buf(k, s->buf);
            put_affine(k, &s->index);
            put_expr(k, s->value);
            break;
        case FX_ST_LOCAL: case FX_ST_SET:
            put_var(k, FX_VAR_LOCAL(s->local));
            put_expr(k, s->value);
            break;
        case FX_ST_CHECK:
            put_var(k, FX_VAR_LOCAL(s->local));
            put_dim(k, s->extent);
            break;
        case FX_ST_IF:
            put(k, s->n_cond);
            for (int i = 0; i < s->n_cond; i++)
                put_affine(k, &s->cond[i]);
            break;
        case FX_ST_ARRAY:
            put_buf(k, s->buf);
            break;
        case FX_ST_CALL:
            put_call(k, s->call);
            break;
        case FX_ST_REDUCE:
            put_var(k, FX_VAR_LOCAL(s->local));
            put(k, s->op);
            break;
        case FX_ST_COMMENT: case FX_ST_BARRIER:
            break;
        }
        if (s->kind == FX_ST_LOOP || s->kind == FX_ST_IF || s->kind == FX_ST_CHECK)
            put_list(k, s->body, true);
    }
    put(k, -2);
}

void **fx_nest_keys_find(fx_nest_keys *k, const fx_program *p, const fx_stmt *s, bool (*same)(void *user, int a, int b), void *user)
{
    k->n = k->n_numbers = 0;
    k->n_bufs = 0;
    k->p = p;
    k->same = same;
    k->user = user;
    put_list(k, s, false);
    entry **at = &k->bucket[fx_hash_bytes(k->words, k->n * sizeof *k->words) % BUCKETS];
    for (entry *e = *at; e; e = e->next)
        if (e->n == k->n && !memcmp(e->words, k->words, k->n * sizeof *k->words))
            return &e->value;
    entry *e = FX_NEW(k->arena, entry);
    *e = (entry){.next = *at, .n = k->n, .words = fx_arena_dup(k->arena, k->words, k->n * sizeof *k->words)};
    *at = e;
    return &e->value;
}
