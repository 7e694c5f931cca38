/* ir/program_aligned.c: the verifier's part about aligned loops, whose iterations' elements are read and written at once.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/program_check.h"

enum { MOST_BYTES = 16 };

typedef struct aligned {
    fx_check *c;
    const fx_stmt *loop;
} aligned;

static void check_access(const aligned *a, int buf, bool stored, const fx_affine *index)
{
    if (!fx_check_buf(a->c, buf))
        return;
    fx_check *c = a->c;
    const char *what = stored ? "stores to" : "loads of", *name = fx_check_buf_name(c, buf);
    fx_dim along = fx_affine_coef(index, a->loop->var), width = a->loop->extent, rest;
    if (fx_dim_is(along, 0) && !stored)
        return;
    if (!fx_dim_is(along, 1)) {
        fx_check_bad(c, "the aligned loop v%d: %s '%s' are not of neighbours", a->loop->var, what, name);
        return;
    }
    bool multiple = fx_dim_divide(c->ctx, index->base, width, &rest);
    for (int i = 0; i < index->n; i++)
        multiple &= index->var[i] == a->loop->var || fx_dim_divide(c->ctx, index->coef[i], width, &rest);
    if (!multiple)
        fx_check_bad(c, "the aligned loop v%d: %s '%s' do not begin at multiples of %lld", a->loop->var, what, name, (long long)width.value);
    const fx_buf *b = &c->p->bufs[buf];
    if (b->kind == FX_BUF_LOCAL || width.value * (int64_t)fx_dtype_size(b->dtype) > MOST_BYTES)
        fx_check_bad(c, "the aligned loop v%d: %s '%s' expected at most %d bytes of a buffer, got %lld elements of %s", a->loop->var, what, name, MOST_BYTES,
                     (long long)width.value, fx_dtype_short(b->dtype));
}

static bool is_stored(const aligned *a, int buf)
{
    for (const fx_stmt *s = a->loop->body; s; s = s->next)
        if (s->kind == FX_ST_STORE && s->buf == buf)
            return true;
    return false;
}

static void check_value(const aligned *a, fx_map *seen, const fx_sexpr *x)
{
    if (!x || fx_map_get(seen, x))
        return;
    fx_map_put(a->c->arena, seen, x, a->c);
    if (x->op == FX_S_LOAD) {
        check_access(a, x->buf, false, &x->index);
        if (is_stored(a, x->buf))
            fx_check_bad(a->c, "the aligned loop v%d stores to '%s', which it loads", a->loop->var, fx_check_buf_name(a->c, x->buf));
    }
    for (int i = 0; i < 3; i++)
        check_value(a, seen, x->arg[i]);
}

void fx_check_aligned(fx_check *c, const fx_stmt *loop, bool grid)
{
    aligned a = {c, loop};
    fx_map seen = {0};
    int64_t width = loop->extent.value;
    if (loop->loop != FX_LOOP_VECTOR || !grid || !fx_dim_known(loop->extent) || width < 2 || width & (width - 1)) {
        fx_check_bad(c, "the aligned loop v%d: expected a vector loop over a power of two inside a grid", loop->var);
        return;
    }
    for (const fx_stmt *s = loop->body; s; s = s->next) {
        if (s->kind != FX_ST_STORE && s->kind != FX_ST_LOCAL && s->kind != FX_ST_COMMENT)
            fx_check_bad(c, "the aligned loop v%d: expected stores and locals inside, got another statement", loop->var);
        if (s->kind == FX_ST_STORE)
            check_access(&a, s->buf, true, &s->index);
        check_value(&a, &seen, s->value);
    }
}
