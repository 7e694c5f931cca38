/* lower/nest_edit.c: copies of statements and expressions under other variables and locals.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/nest_edit.h"

fx_affine fx_nest_affine(const fx_nest_edit *e, const fx_affine *a)
{
    fx_context *ctx = e->p->ctx;
    fx_affine r = fx_affine_dim(a->base);
    for (int i = 0; i < a->n; i++) {
        int k = 0;
        while (k < e->n_vars && e->var[k] != a->var[i])
            k++;
        if (k == e->n_vars) {
            int var = a->var[i] < 0 ? FX_VAR_LOCAL(FX_VAR_LOCAL(a->var[i]) + e->shift_locals) : a->var[i] + e->shift_vars;
            fx_affine_add(ctx, &r, var, a->coef[i]);
            continue;
        }
        r.base = fx_dim_add(ctx, r.base, fx_dim_mul(ctx, e->to[k]->base, a->coef[i]));
        for (int j = 0; j < e->to[k]->n; j++)
            fx_affine_add(ctx, &r, e->to[k]->var[j], fx_dim_mul(ctx, e->to[k]->coef[j], a->coef[i]));
    }
    return r;
}

static int array_of(const fx_nest_edit *e, int local)
{
    for (int k = 0; k < e->n_arrays; k++)
        if (e->local[k] == local)
            return e->array[k];
    return -1;
}

const fx_sexpr *fx_nest_expr(const fx_nest_edit *e, const fx_sexpr *x)
{
    if (!x)
        return NULL;
    if (x->op == FX_S_LOAD && x->buf == e->load)
        return fx_s_local(e->p, e->load_local, x->dtype);
    if (x->op == FX_S_LOCAL && array_of(e, x->local) >= 0)
        return fx_s_load(e->p, array_of(e, x->local), e->index);
    fx_sexpr *c = e->copies ? fx_map_get(e->copies, x) : NULL;
    if (c)
        return c;
    c = fx_s_copy(e->p, x);
    if (e->copies)
        fx_map_put(e->copies_in, e->copies, x, c);
    if (x->op == FX_S_LOCAL)
        c->local += e->shift_locals;
    if (x->op == FX_S_LOAD || x->op == FX_S_INDEX)
        c->index = fx_nest_affine(e, &x->index);
    for (int i = 0; i < fx_sop_arity(x->op); i++)
        c->arg[i] = fx_nest_expr(e, x->arg[i]);
    return c;
}

fx_stmt *fx_nest_copy(const fx_nest_edit *e, const fx_stmt *s)
{
    fx_stmt *first = NULL, **tail = &first;
    for (; s; s = s->next) {
        bool names = s->kind == FX_ST_LOCAL || s->kind == FX_ST_SET || s->kind == FX_ST_CHECK || s->kind == FX_ST_REDUCE; /* a local */
        int array = names ? array_of(e, s->local) : -1;
        fx_stmt *c = array >= 0 ? fx_stmt_new(e->p, FX_ST_STORE) : fx_stmt_copy(e->p, s);
        c->value = fx_nest_expr(e, s->value);
        if (s->kind == FX_ST_LOOP)
            c->var += e->shift_vars;
        if (s->kind == FX_ST_STORE)
            c->index = fx_nest_affine(e, &s->index);
        for (int k = 0; k < s->n_cond; k++)
            c->cond[k] = fx_nest_affine(e, &s->cond[k]);
        if (array >= 0) {
            c->buf = array;
            c->index = *e->index;
        } else if (names) {
            c->local += e->shift_locals;
        }
        c->body = fx_nest_copy(e, s->body);
        *tail = c;
        tail = &c->next;
    }
    return first;
}

static int above(int a, int b)
{
    return a > b ? a : b;
}

int fx_nest_next_var(const fx_stmt *s)
{
    int n = 0;
    for (; s; s = s->next)
        n = above(above(n, s->kind == FX_ST_LOOP ? s->var + 1 : 0), fx_nest_next_var(s->body));
    return n;
}

int fx_nest_next_local(const fx_stmt *s)
{
    int n = 0;
    for (; s; s = s->next)
        n = above(above(n, s->kind == FX_ST_LOCAL ? s->local + 1 : 0), fx_nest_next_local(s->body));
    return n;
}
