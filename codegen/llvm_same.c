/* codegen/llvm_same.c: steps that are the same but for the buffers they are given (the layers of a transformer) share a function.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A step is written down as words, buffers by their place among the function's parameters; equal words, equal function. Expressions over the
 * symbols and operands that are shared are told by where they are: the context has each symbol expression once. */
#include <string.h>

#include "codegen/llvm_emit.h"
#include "ir/lex.h"

typedef struct words {
    fx_ll *e;
    fx_text *t;
    fx_map numbers;              /* of expressions written down: the count when they were, as a pointer */
    intptr_t n;
    bool alone;                  /* something that no other step can have */
} words;

static void put(words *w, int64_t v)
{
    fx_putn(w->t, (const char *)&v, sizeof v);
}

static void put_double(words *w, double v)
{
    fx_putn(w->t, (const char *)&v, sizeof v);
}

static void put_dim(words *w, fx_dim d)
{
    put(w, d.value);
    put(w, (int64_t)(intptr_t)d.sym);
}

static void put_affine(words *w, const fx_affine *a)
{
    put(w, a->n);
    put_dim(w, a->base);
    for (int i = 0; i < a->n; i++) {
        put(w, a->var[i]);
        put_dim(w, a->coef[i]);
    }
}

static void put_buf(words *w, int buf)
{
    put(w, buf < 0 ? -1 : w->e->number[buf]);
}

static void put_value(words *w, const fx_sexpr *x)
{
    intptr_t number = (intptr_t)fx_map_get(&w->numbers, x);
    put(w, number);
    if (number)
        return;
    put(w, x->op);
    put(w, x->dtype);
    put_double(w, x->imm);
    put(w, x->ival);
    if (x->op == FX_S_LOAD)
        put_buf(w, x->buf);
    if (x->op == FX_S_LOCAL)
        put(w, x->local);
    if (x->op == FX_S_LOAD || x->op == FX_S_INDEX)
        put_affine(w, &x->index);
    for (int i = 0; i < 3; i++) {
        put(w, x->arg[i] != NULL);
        if (x->arg[i])
            put_value(w, x->arg[i]);
    }
    fx_map_put(w->e->arena, &w->numbers, x, (void *)++w->n);
}

static void put_call(words *w, const fx_call_stmt *c)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    put(w, c->kernel);
    for (int i = 0; i < k->n_fields; i++) {
        put_double(w, c->field[i]);
        put(w, (int64_t)(intptr_t)c->sym[i]);
    }
    for (int i = 0; i < k->n_bufs; i++) {
        put_buf(w, c->buf[i]);
        put_dim(w, c->offset[i]);
    }
}

static void put_list(words *w, const fx_stmt *s)
{
    for (; s; s = s->next) {
        const fx_buf *b;
        put(w, s->kind);
        switch (s->kind) {
        case FX_ST_LOOP:
            put(w, s->var);
            put(w, s->loop);
            put_dim(w, s->extent);
            break;
        case FX_ST_STORE:
            put_buf(w, s->buf);
            put_affine(w, &s->index);
            put_value(w, s->value);
            break;
        case FX_ST_LOCAL:
        case FX_ST_SET:
            put(w, s->local);
            put_value(w, s->value);
            break;
        case FX_ST_IF:
            put(w, s->n_cond);
            for (int i = 0; i < s->n_cond; i++)
                put_affine(w, &s->cond[i]);
            break;
        case FX_ST_CALL:
            put_call(w, s->call);
            break;
        case FX_ST_ARRAY:
            b = &w->e->p->bufs[s->buf];
            w->e->number[s->buf] = (int)++w->n;
            put(w, w->n);
            put(w, b->dtype);
            put(w, b->numel.value);
            break;
        case FX_ST_CHECK: /* it knows its own number */
        case FX_ST_BARRIER:
        case FX_ST_REDUCE:
            w->alone = true;
            break;
        case FX_ST_COMMENT:
            break;
        }
        put_list(w, s->body);
    }
    put(w, -1);
}

fx_ll_same *fx_ll_find_same(fx_ll *e, const fx_step *step)
{
    fx_text t;
    fx_text_init(&t, e->arena);
    words w = {.e = e, .t = &t};
    put(&w, (int64_t)e->n_bufs);
    for (size_t i = 0; i < e->n_bufs; i++) {
        const fx_buf *b = &e->p->bufs[e->bufs[i]];
        e->number[b->id] = (int)i;
        put(&w, b->dtype);
        put(&w, (e->written[b->id] ? 1 : 0) + (fx_ll_alone(e, b->id) ? 2 : 0) + (b->kind == FX_BUF_WEIGHT && fx_dim_is(b->numel, 0) ? 4 : 0));
    }
    w.n = (intptr_t)e->n_bufs;
    put_list(&w, step->body);
    if (w.alone)
        return FX_NEW(e->arena, fx_ll_same);
    const void *hash = (const void *)(uintptr_t)(fx_hash_bytes(t.data, t.size) | 1);
    fx_ll_same *first = fx_map_get(&e->same, hash), *s = first;
    while (s && (s->size != t.size || memcmp(s->words, t.data, t.size) != 0))
        s = s->next;
    if (!s) {
        s = FX_NEW(e->arena, fx_ll_same);
        *s = (fx_ll_same){.words = t.data, .size = t.size, .next = first};
        fx_map_put(e->arena, &e->same, hash, s);
    }
    return s;
}
