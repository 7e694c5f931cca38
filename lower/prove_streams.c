/* lower/prove_streams.c: steps of a region on different streams run at once: what one writes, those of other streams do not touch.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <limits.h>

#include "lower/prove.h"

typedef struct touch {
    int step, buf;
    bool write;
    fx_prove_form form;
} touch;

typedef struct touches {
    fx_prover *r;
    int step;
    fx_prove_scope scope;
    touch *v; size_t n, cap;
} touches;

static void touch_at(touches *t, int buf, bool write, fx_prove_form form)
{
    if (buf >= 0 && t->r->p->bufs[buf].kind != FX_BUF_LOCAL && t->r->p->bufs[buf].kind != FX_BUF_WEIGHT)
        FX_PUSH(t->r->kept, t->v, t->n, t->cap) = (touch){t->step, buf, write, form};
}

static void touch_loads(touches *t, const fx_sexpr *e)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD)
        touch_at(t, e->buf, false, fx_prove_form_of(t->r, &t->scope, &e->index));
    for (int k = 0; k < fx_sop_arity(e->op); k++)
        touch_loads(t, e->arg[k]);
}

static bool touch_list(touches *t, const fx_stmt *s)
{
    for (; s; s = s->next) {
        if (s->kind == FX_ST_LOOP && fx_dim_known(s->extent) && s->extent.value <= 0)
            continue; /* never runs */
        touch_loads(t, s->value);
        if (s->kind == FX_ST_STORE)
            touch_at(t, s->buf, true, fx_prove_form_of(t->r, &t->scope, &s->index));
        const fx_kernel *k = s->kind == FX_ST_CALL ? fx_kernel_get(s->call->kernel) : NULL;
        for (int i = 0; k && i < k->n_bufs; i++)
            if (s->call->buf[i] >= 0)
                touch_at(t, s->call->buf[i], k->buf[i].written, fx_prove_window(t->r, s->call, i));
        bool ranges = s->kind == FX_ST_LOOP || s->kind == FX_ST_CHECK;
        if (ranges && t->scope.n == FX_PROVE_DEPTH)
            return false;
        if (ranges)
            t->scope.v[t->scope.n++] = (fx_prove_var){s->kind == FX_ST_LOOP ? s->var : FX_VAR_LOCAL(s->local), s->extent};
        if (!touch_list(t, s->body))
            return false;
        t->scope.n -= ranges;
    }
    return true;
}

static int64_t down(int64_t a, int64_t by)
{
    return a / by - (a % by < 0);
}

/* Adds what the form's terms can be, those left out that are multiples of `period`; false: an end is not known. */
static bool add_rest(const fx_prove_form *f, int64_t sign, int64_t period, int64_t *lo, int64_t *hi)
{
    enum { SMALL = 1 << 30 };
    for (int i = 0; i < f->n; i++) {
        if (fx_dim_content(f->t[i].coef, 0) % period == 0)
            continue;
        if (!fx_dim_known(f->t[i].coef) || !fx_dim_known(f->t[i].extent) || f->t[i].extent.value > SMALL || f->t[i].coef.value > SMALL || f->t[i].coef.value < -SMALL)
            return false;
        const int64_t end = sign * f->t[i].coef.value * (f->t[i].extent.value - 1);
        *(end < 0 ? lo : hi) += end;
    }
    return true;
}

/* Rows of one length: the difference of two indices, but for multiples of it, never is a multiple of it. */
static bool in_other_columns(const fx_prover *r, const fx_prove_form *a, const fx_prove_form *b)
{
    const fx_dim base = fx_dim_sub(r->ctx, a->base, b->base);
    for (int i = 0; i < a->n && fx_dim_known(base); i++) {
        const int64_t period = fx_dim_known(a->t[i].coef) ? a->t[i].coef.value : 0;
        int64_t lo = base.value, hi = base.value;
        if (period > 1 && add_rest(a, 1, period, &lo, &hi) && add_rest(b, -1, period, &lo, &hi) && down(lo - 1, period) == down(hi, period))
            return true;
    }
    return false;
}

static bool meet(fx_prover *r, const touch *a, const touch *b)
{
    if (a->buf != b->buf || (!a->write && !b->write))
        return false;
    const bool apart = in_other_columns(r, &a->form, &b->form) || fx_prove_distinct(r, &a->form, &b->form, 0, NULL, INT_MIN);
    fx_arena_reset(r->arena);
    return !apart;
}

/* The first of two steps that may meet, of the region [from, to); -1: they are proved apart. */
static int first_meeting(fx_prover *r, size_t from, size_t to, const touch **one, const touch **other)
{
    const fx_program *p = r->p;
    touches t = {.r = r};
    for (size_t i = from; i < to; i++) {
        t.step = (int)i;
        t.scope.n = 0;
        *one = *other = NULL;
        if (!touch_list(&t, p->steps[i].body))
            return (int)i;
    }
    for (size_t i = 0; i < t.n; i++)
        for (size_t k = i + 1; k < t.n; k++)
            if (p->steps[t.v[i].step].stream != p->steps[t.v[k].step].stream && meet(r, &t.v[i], &t.v[k])) {
                *one = &t.v[i];
                *other = &t.v[k];
                return t.v[i].step;
            }
    return -1;
}

int fx_prove_streams(fx_prover *r, void (*f)(void *user, const char *step, const char *text), void *user)
{
    const fx_program *p = r->p;
    int regions = 0;
    for (size_t i = 0, end; i < p->n_steps; i = end) {
        const touch *one, *other;
        for (end = i + 1; end < p->n_steps && p->steps[i].region && p->steps[end].region == p->steps[i].region; end++) {
        }
        if (!p->steps[i].region)
            continue;
        regions++;
        int at = first_meeting(r, i, end, &one, &other);
        if (at >= 0 && !one)
            f(user, p->steps[at].name, "loops too deep to tell what the step touches beside others");
        else if (at >= 0)
            f(user, p->steps[at].name,
              fx_arena_printf(r->kept, "runs beside %s, and both may touch the same elements of '%s'", p->steps[other->step].name, p->bufs[one->buf].name));
    }
    return regions;
}
