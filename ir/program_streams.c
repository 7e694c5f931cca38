/* ir/program_streams.c: what steps touch, and whether steps of different streams may run at once.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/program_check.h"

/* ---- touches ------------------------------------------------------------------------------------------------------------ */

/* What a call writes are rows of a dense end, a stride apart: of any larger stride that is a multiple of it, only residues count. */
static void find_rows(const fx_call_stmt *c, int buf, fx_touch *t)
{
    static const char *const windows[][3] = {{"ys_w", "ys_h", "ys_n"}, {"y_m", "y_b", NULL}};
    const fx_kernel *k = fx_kernel_get(c->kernel);
    const int y = fx_kernel_buf(k, "y");
    if (y < 0 || c->buf[y] != buf)
        return;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        const bool image = i == 0;
        fx_dim columns, period = fx_call_dim(c, windows[i][0]);
        if (fx_kernel_field(k, windows[i][0]) < 0 || !fx_dim_known(period) || period.value < 1)
            continue;
        if (image) {
            fx_dim groups = fx_kernel_field(k, "groups") >= 0 ? fx_call_dim(c, "groups") : fx_dim_of(1);
            columns = fx_call_dim(c, fx_kernel_field(k, "oc") >= 0 ? "oc" : "c");
            columns = fx_dim_known(columns) && fx_dim_known(groups) ? fx_dim_of(columns.value * groups.value) : fx_dim_of(0);
        } else {
            columns = fx_call_dim(c, "n");
        }
        bool multiples = true;
        for (int s = 1; s < 3 && windows[i][s]; s++)
            multiples &= fx_kernel_field(k, windows[i][s]) < 0 || fx_dim_content(fx_call_dim(c, windows[i][s]), 0) % period.value == 0;
        if (!multiples || !fx_dim_known(columns) || columns.value < 1 || !fx_dim_known(c->offset[y]))
            continue;
        t->from = c->offset[y].value % period.value;
        t->to = t->from + columns.value - 1;
        t->period = t->to < period.value ? period.value : 0;
        return;
    }
}

static void on_touch(void *user, int buf, bool written, fx_dim lo, fx_dim hi, fx_symbols where, const fx_stmt *at)
{
    (void)where;
    fx_touches *all = user;
    fx_touch t = {.step = all->step, .buf = buf, .written = written, .call = at->kind == FX_ST_CALL, .lo = lo, .hi = hi};
    if (fx_dim_known(lo) && fx_dim_known(hi) && hi.value < lo.value)
        return;
    if (written && t.call)
        find_rows(at->call, buf, &t);
    FX_PUSH(all->arena, all->v, all->n, all->cap) = t;
}

void fx_step_touches(const fx_program *p, const fx_stmt *body, fx_touches *t)
{
    fx_stmt_accesses(p, body, on_touch, t);
}

bool fx_touches_meet(const fx_program *p, const fx_touch *a, const fx_touch *b)
{
    if (a->buf != b->buf || (!a->written && !b->written) || p->bufs[a->buf].kind == FX_BUF_LOCAL)
        return false;
    fx_symbols symbols = fx_program_symbols(p);
    if (fx_dim_at_least(p->ctx, symbols, fx_dim_sub(p->ctx, a->lo, b->hi), 1) || fx_dim_at_least(p->ctx, symbols, fx_dim_sub(p->ctx, b->lo, a->hi), 1))
        return false;
    return !a->period || a->period != b->period || (a->from <= b->to && b->from <= a->to);
}

/* ---- the verifier's part ------------------------------------------------------------------------------------------------ */

/* Steps [from, to) are a region. */
static void check_region(fx_check *c, size_t from, size_t to)
{
    const fx_program *p = c->p;
    fx_touches t = {.arena = c->arena};
    for (size_t i = from; i < to; i++) {
        t.step = (int)i;
        fx_step_touches(p, p->steps[i].body, &t);
    }
    for (size_t i = 0; i < t.n; i++) {
        for (size_t k = i + 1; k < t.n; k++) {
            const fx_step *a = &p->steps[t.v[i].step], *b = &p->steps[t.v[k].step];
            if (a->stream == b->stream || !fx_touches_meet(p, &t.v[i], &t.v[k]))
                continue;
            fx_check_bad(c, "steps %s and %s run at once, on streams %d and %d of region %d, and both touch '%s', which one of them writes", a->name, b->name, a->stream,
                         b->stream, a->region, p->bufs[t.v[i].buf].name);
            return;
        }
    }
}

void fx_check_streams(fx_check *c)
{
    const fx_program *p = c->p;
    int *first = FX_NEW_ARRAY(c->arena, int, p->n_steps + 1), *last = FX_NEW_ARRAY(c->arena, int, p->n_steps + 1), most = 0;
    for (size_t i = 0, end; i < p->n_steps; i = end) {
        const int region = p->steps[i].region;
        for (end = i; end < p->n_steps && p->steps[end].region == region; end++)
            if (p->steps[end].stream < 0 || p->steps[end].stream >= FX_MOST_STREAMS || (!region && p->steps[end].stream))
                fx_check_bad(c, "step %s: expected a stream of a region, below %d, got stream %d of region %d", p->steps[end].name, FX_MOST_STREAMS,
                             p->steps[end].stream, region);
        for (size_t k = i; k < end; k++) {
            first[k] = region ? (int)i : (int)k;
            last[k] = region ? (int)end - 1 : (int)k;
        }
        if (!region)
            continue;
        if (region <= most)
            fx_check_bad(c, "step %s: expected regions in ascending order, each in one piece, got %d after %d", p->steps[i].name, region, most);
        most = region > most ? region : most;
        if (!c->findings)
            check_region(c, i, end);
    }
    for (size_t i = 0; i < p->n_bufs; i++) {
        fx_life *l = &c->lives[i];
        if (l->first < 0)
            continue;
        l->alone = l->first == l->last ? l->first : -1;
        l->first = first[l->first];
        l->last = last[l->last];
    }
}
