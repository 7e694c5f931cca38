/* lower/prove_call.c: preconditions of kernel calls: what a kernel declares to touch lies within its buffers, what it writes is nothing that
 * it still reads, sizes are sizes. The kernels' bodies are tested with guard pages (tests/runtime).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lower/prove.h"
#include "runtime/cuda/conv_split.h"

typedef struct call {
    fx_prover *r;
    const fx_call_stmt *c;
    const fx_kernel *k;
} call;

static bool has(const call *q, const char *name)
{
    return fx_kernel_field(q->k, name) >= 0;
}

static fx_dim field(const call *q, const char *name)
{
    return fx_call_dim(q->c, name);
}

/* ---- fields ----------------------------------------------------------------------------------------------------------------- */

static bool is_listed(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (!strcmp(*names, name))
            return true;
    return false;
}

/* Integers that kernels count to, stride or divide by. */
static bool check_fields(call *q, const char **text)
{
    static const char *const divisors[] = {"sh", "sw", "dh", "dw", "kh", "kw", "groups", NULL};
    fx_prover *r = q->r;
    for (int i = 0; i < q->k->n_fields; i++) {
        const char *name = q->k->field[i].name;
        if (q->k->field[i].is_float)
            continue;
        fx_dim v = q->c->sym[i] ? fx_dim_sym(q->c->sym[i]) : fx_dim_of((int64_t)q->c->field[i]);
        fx_dim room = fx_dim_sub(r->ctx, fx_dim_of(INT32_MAX), v);
        bool fits = fx_prove_le(r, fx_dim_of(0), room);
        int64_t least = is_listed(divisors, name) ? 1 : 0;
        if (!fits || (least && !fx_prove_le(r, fx_dim_of(least), v)) || (!least && fx_dim_known(v) && v.value < INT32_MIN)) {
            fx_text t;
            fx_text_init(&t, r->arena);
            fx_printf(&t, "%s = ", name);
            fx_dim_print(&t, v);
            fx_printf(&t, " is not proved to be %s", !fits ? "of 32 bits" : "at least 1");
            *text = t.data;
            return false;
        }
    }
    return true;
}

/* ---- windows ------------------------------------------------------------------------------------------------------------------ */

static void add(fx_prove_form *f, fx_dim coef, fx_dim extent)
{
    f->t[f->n].var = f->n;
    f->t[f->n].coef = coef;
    f->t[f->n++].extent = extent;
}

/* The elements of an argument, as sharp as its strides tell; else everything from the first to the last. */
static fx_prove_form window(const call *q, int arg)
{
    fx_prove_form f = {.base = q->c->offset[arg]};
    const char *a = q->k->buf[arg].name;
    bool x = a[0] == 'x';
    char s_n[8], s_h[8], s_w[8], s_p[8], b[8], m[8];
    const struct { char *to; const char *end; } names[] = {{s_n, "s_n"}, {s_h, "s_h"}, {s_w, "s_w"}, {s_p, "s_p"}, {b, "_b"}, {m, "_m"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        names[i].to[0] = a[0];
        strcpy(names[i].to + 1, names[i].end);
    }
    if (strlen(a) == 1 && has(q, s_n) && has(q, s_h) && has(q, s_w)) {
        add(&f, field(q, s_n), field(q, "n"));
        add(&f, field(q, s_h), field(q, x ? "ih" : "oh"));
        add(&f, field(q, s_w), field(q, x ? "iw" : "ow"));
        add(&f, fx_dim_of(1), has(q, "groups") ? fx_dim_mul(q->r->ctx, field(q, "groups"), field(q, x ? "ic" : "oc")) : field(q, "c"));
        return f;
    }
    if (strlen(a) == 1 && has(q, b) && has(q, m) && has(q, "k")) {
        add(&f, field(q, b), field(q, "batch"));
        add(&f, field(q, m), field(q, "m"));
        add(&f, fx_dim_of(1), field(q, x ? "k" : "n"));
        return f;
    }
    fx_dim hi;
    fx_call_footprint(q->r->p, q->c, arg, &f.base, &hi);
    add(&f, fx_dim_of(1), fx_dim_plus(q->r->ctx, fx_dim_sub(q->r->ctx, hi, f.base), 1));
    return f;
}

fx_prove_form fx_prove_window(const fx_prover *r, const fx_call_stmt *c, int arg)
{
    call q = {(fx_prover *)(uintptr_t)r, c, fx_kernel_get(c->kernel)};
    return window(&q, arg);
}

/* A stride over a dim of one element is never taken. */
static bool never_taken(const fx_kernel *k, const fx_call_stmt *c, const char *stride)
{
    static const char *const counts[][2] = {{"_b", "batch"}, {"_h", "heads"}, {"_m", "m"}, {"_m", "rows"}, {"s_n", "n"}, {"s_h", "oh"}, {"s_w", "ow"}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp(stride + 1, counts[i][0]) && fx_kernel_field(k, counts[i][1]) >= 0 && fx_dim_is(fx_call_dim(c, counts[i][1]), 1))
            return true;
    return false;
}

bool fx_prove_in_step(const fx_prover *r, const fx_call_stmt *c, int arg)
{
    static const char prefixes[][2] = {{'r', 'y'}, {'x', 'y'}, {'q', 'o'}};
    const fx_kernel *k = fx_kernel_get(c->kernel);
    int y = fx_kernel_buf(k, "y");
    bool residual = !strcmp(k->buf[arg].name, "r");
    if (y < 0 || arg != fx_kernel_in_step(k) || !fx_dim_equal(c->offset[arg], c->offset[y]))
        return false;
    for (int i = 0; i < k->n_fields; i++) {
        const char *name = k->field[i].name;
        for (int p = residual ? 0 : 1; p < (residual ? 1 : 3); p++) {
            if (name[0] != prefixes[p][0] || (name[1] != '_' && strncmp(name + 1, "s_", 2)) || never_taken(k, c, name))
                continue;
            const char *other = fx_arena_printf(r->arena, "%c%s", prefixes[p][1], name + 1);
            if (fx_kernel_field(k, other) < 0 || !fx_dim_equal(fx_call_dim(c, name), fx_call_dim(c, other)))
                return false;
        }
    }
    /* attention: rows of x are dk long, those of y dv */
    return fx_kernel_field(k, "dv") < 0 || fx_dim_equal(fx_call_dim(c, "dk"), fx_call_dim(c, "dv"));
}

static bool same_window(const fx_prove_form *a, const fx_prove_form *b)
{
    bool same = a->n == b->n && fx_dim_equal(a->base, b->base);
    for (int i = 0; same && i < a->n; i++)
        same = fx_dim_equal(a->t[i].extent, b->t[i].extent) && (fx_dim_is(a->t[i].extent, 1) || fx_dim_equal(a->t[i].coef, b->t[i].coef));
    return same;
}

/* Where blocks make sums in parts, each part has room, and each tile a counter. */
static bool check_parts(call *q, const char **text)
{
    int counts = fx_kernel_buf(q->k, "counts"), ws = fx_kernel_buf(q->k, "ws");
    fxrt_conv2d_desc d;
    if (counts < 0 || q->c->buf[counts] < 0)
        return true;
    fx_call_to_desc(q->c, &d);
    int64_t floats = (int64_t)(fxrt_cuda_conv2d_workspace(&d) / sizeof(float)), tiles = (int64_t)fxrt_cuda_conv2d_counters(&d);
    fx_dim room = q->c->buf[ws] < 0 ? fx_dim_of(0) : q->r->p->bufs[q->c->buf[ws]].numel, counters = q->r->p->bufs[q->c->buf[counts]].numel;
    if (fx_call_is_static(q->c) && fx_prove_le(q->r, fx_dim_of(floats), room) && fx_prove_le(q->r, fx_dim_of(tiles), counters))
        return true;
    *text = fx_arena_printf(q->r->arena, "its sums are made in parts, which need sizes that are numbers, %lld floats of workspace and %lld counters", (long long)floats, (long long)tiles);
    return false;
}

bool fx_prove_call(fx_prover *r, const fx_stmt *s, const char **text)
{
    call q = {r, s->call, fx_kernel_get(s->call->kernel)};
    for (int i = 0; i < q.k->n_bufs; i++) {
        if (q.c->buf[i] < 0)
            continue;
        const fx_buf *b = &r->p->bufs[q.c->buf[i]];
        fx_dim lo, hi;
        fx_call_footprint(r->p, q.c, i, &lo, &hi);
        if (!fx_prove_le(r, fx_dim_of(0), lo) || !fx_prove_le(r, fx_dim_plus(r->ctx, hi, 1), b->numel)) {
            fx_text t;
            fx_text_init(&t, r->arena);
            fx_printf(&t, "argument %s: elements [", q.k->buf[i].name);
            fx_dim_print(&t, lo);
            fx_puts(&t, ", ");
            fx_dim_print(&t, hi);
            fx_printf(&t, "] of '%s' are not proved to be below ", b->name);
            fx_dim_print(&t, b->numel);
            *text = t.data;
            return false;
        }
    }
    for (int i = 0; i < q.k->n_bufs; i++) {
        for (int j = 0; q.k->buf[i].written && j < q.k->n_bufs; j++) {
            if (i == j || q.c->buf[i] < 0 || q.c->buf[i] != q.c->buf[j])
                continue;
            fx_prove_form a = window(&q, i), b = window(&q, j);
            bool in_step = (!strcmp(q.k->buf[j].name, "r") && same_window(&a, &b)) || fx_prove_in_step(r, q.c, j);
            if (!in_step && !fx_prove_distinct(r, &a, &b, 0, NULL, INT_MIN)) {
                *text = fx_arena_printf(r->arena, "argument %s may overlap %s, both in '%s'", q.k->buf[i].name, q.k->buf[j].name,
                                        r->p->bufs[q.c->buf[i]].name);
                return false;
            }
        }
    }
    r->by |= FX_BY_FOOTPRINT;
    return check_parts(&q, text) && check_fields(&q, text);
}
