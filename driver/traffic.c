/* driver/traffic.c: bytes that statements read and write.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "driver/traffic.h"

#include "lower/conv_ways.h"

#include <string.h>

/* An access of a statement list: elements that it touches, by the loops its index depends on. */
typedef struct touched {
    int buf;
    bool written;
    const fx_affine *index;
    int64_t count;
} touched;

typedef struct counting {
    const fx_program *p;
    fx_arena *arena;
    int64_t *extents; int n_vars;    /* by loop variable */
    int64_t times;                   /* of the loops around */
    touched *v; size_t n, cap;       /* distinct accesses */
    fx_traffic sum;
} counting;

static int64_t times(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static bool by_data(const fx_affine *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->var[i] < 0)
            return true;
    return false;
}

static void touch(counting *t, int buf, bool written, const fx_affine *index)
{
    if (t->p->bufs[buf].kind == FX_BUF_LOCAL)
        return;
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].buf == buf && t->v[i].written == written && fx_affine_equal(t->v[i].index, index))
            return;
    int64_t count = 1, most = t->p->bufs[buf].numel.value;
    if (by_data(index)) /* an element an iteration, whichever it is */
        count = t->times;
    else
        for (int i = 0; i < index->n; i++)
            count = times(count, t->extents[index->var[i]]);
    FX_PUSH(t->arena, t->v, t->n, t->cap) = (touched){buf, written, index, count < most ? count : most};
}

static void read_value(counting *t, const fx_sexpr *e)
{
    if (!e)
        return;
    if (e->op == FX_S_LOAD)
        touch(t, e->buf, false, &e->index);
    for (int i = 0; i < 3; i++)
        read_value(t, e->arg[i]);
}

/* Operations of an expression on floats. */
static int operations(const fx_sexpr *e)
{
    if (!e)
        return 0;
    int n = e->op > FX_S_CAST && fx_dtype_is_float(e->dtype);
    for (int i = 0; i < 3; i++)
        n += operations(e->arg[i]);
    return n;
}

/* ---- calls: what their descriptors say ----------------------------------------------------------------------------- */

static int64_t field(const fx_call_stmt *c, const char *name)
{
    return (int64_t)fx_call_field(c, name);
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows or columns of an image that windows touch: those between windows further apart than they are large are left out. */
static int64_t windowed(const fx_call_stmt *c, const char *in, const char *out, const char *kernel)
{
    return least_of(field(c, in), times(field(c, out), field(c, kernel)));
}

/* How many distinct elements argument `arg` has; INT64_MAX: as many as from its first to its last. Slices of rows and of channels have gaps. */
static int64_t elements(const fx_call_stmt *c, const fx_kernel *k, char arg)
{
    if (!strcmp(k->desc, "conv2d") && fx_kernel_buf(k, "w") >= 0) {
        bool transposed = c->kernel == FX_K_conv_transpose2d;
        int64_t n = times(field(c, "n"), field(c, "groups"));
        if (arg == 'x') {
            int64_t h = transposed ? field(c, "ih") : windowed(c, "ih", "oh", "kh"), w = transposed ? field(c, "iw") : windowed(c, "iw", "ow", "kw");
            return times(times(n, field(c, "ic")), times(h, w));
        }
        if (arg == 'y' || arg == 'r')
            return times(times(n, field(c, "oc")), times(field(c, "oh"), field(c, "ow")));
    }
    if (!strcmp(k->desc, "gemm")) {
        int64_t batch = field(c, "batch"), m = field(c, "m"), n = field(c, "n"), kk = field(c, "k");
        if (arg == 'x')
            return times(times(field(c, "x_b") ? batch : 1, m), kk);
        if (arg == 'w' && c->kernel == FX_K_matmul)
            return times(times(field(c, "w_b") ? batch : 1, kk), n);
        if (arg == 'y')
            return times(times(batch, m), n);
        if (arg == 'r')
            return times(times(field(c, "r_b") ? batch : 1, field(c, "r_m") ? m : 1), n);
    }
    if (!strcmp(k->desc, "pool2d") || !strcmp(k->desc, "resize2d")) {
        int64_t n = times(field(c, "n"), field(c, "c"));
        if (arg == 'x' && !strcmp(k->desc, "pool2d"))
            return times(n, times(windowed(c, "ih", "oh", "kh"), windowed(c, "iw", "ow", "kw")));
        return times(n, arg == 'x' ? times(field(c, "ih"), field(c, "iw")) : times(field(c, "oh"), field(c, "ow")));
    }
    if (!strcmp(k->desc, "layer_norm") && (arg == 'x' || arg == 'y'))
        return times(field(c, "rows"), field(c, "n"));
    if (!strcmp(k->desc, "attention")) {
        int64_t rows = times(times(field(c, "batch"), field(c, "heads")), field(c, "m"));
        int64_t keys = times(times(field(c, "batch"), field(c, "kv_heads")), field(c, "n"));
        if (arg == 'x' || arg == 'y')
            return times(rows, field(c, arg == 'x' ? "dk" : "dv"));
        if (arg == 'k' || arg == 'v')
            return times(keys, field(c, arg == 'k' ? "dk" : "dv"));
    }
    return INT64_MAX;
}

/* As runtime/cuda/gemm.h has it: what cuBLASLt's epilogues are not leaves the result to a kernel that reads and writes it once more, but for short sums
 * of floats, which a kernel of our own makes whole. */
static bool has_tail(const fx_program *p, const fx_call_stmt *c)
{
    enum { SHORT_SUM = 128 };
    int act = (int)field(c, "act");
    const fx_kernel *k = fx_kernel_get(c->kernel);
    bool residual = c->buf[fx_kernel_buf(k, "r")] >= 0, rows_apart = field(c, "r_m") >= field(c, "n");
    if (!fx_products_activate(act))
        return field(c, "k") > SHORT_SUM || p->bufs[c->buf[fx_kernel_buf(k, "y")]].dtype != FX_F32;
    return residual && !rows_apart;
}

double fx_call_flops(const fx_call_stmt *c)
{
    const char *desc = fx_kernel_get(c->kernel)->desc;
    bool in = c->kernel == FX_K_conv_transpose2d; /* each input meets every weight of a filter */
    if (strcmp(desc, "conv2d") == 0)
        return 2.0 * fx_call_field(c, "n") * fx_call_field(c, "groups") * fx_call_field(c, "ic") * fx_call_field(c, "oc") * fx_call_field(c, "kh") *
               fx_call_field(c, "kw") * fx_call_field(c, in ? "ih" : "oh") * fx_call_field(c, in ? "iw" : "ow");
    if (strcmp(desc, "gemm") == 0)
        return 2.0 * fx_call_field(c, "batch") * fx_call_field(c, "m") * fx_call_field(c, "n") * fx_call_field(c, "k");
    if (strcmp(desc, "attention") == 0)
        return 2.0 * fx_call_field(c, "batch") * fx_call_field(c, "heads") * fx_call_field(c, "m") * fx_call_field(c, "n") * (fx_call_field(c, "dk") + fx_call_field(c, "dv"));
    return 0;
}

static bool has_workspace(const fx_program *p, const fx_call_stmt *c)
{
    int ws = fx_kernel_buf(fx_kernel_get(c->kernel), "ws");
    return ws >= 0 && c->buf[ws] >= 0 && p->bufs[c->buf[ws]].numel.value > 0;
}

int fx_launches_of(const fx_program *p, const fx_call_stmt *c)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    if (strcmp(k->desc, "conv2d") == 0)
        return fx_conv_cost_of(c, has_workspace(p, c)).launches;
    return strcmp(k->desc, "gemm") == 0 && has_tail(p, c) ? 2 : 1;
}

static void touch_call(counting *t, const fx_call_stmt *c)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    bool gpu = fx_target_is_gpu(&t->p->target), tail = false;
    if (gpu && strcmp(k->desc, "conv2d") == 0) { /* panels, transformed tiles, parts of sums: written by one kernel or block and read by another */
        fx_conv_cost cost = fx_conv_cost_of(c, has_workspace(t->p, c));
        t->sum.workspace += cost.left + cost.found;
        t->sum.written += cost.left;
        t->sum.read += cost.found;
        tail = cost.tail;
    } else if (gpu && strcmp(k->desc, "gemm") == 0) {
        tail = has_tail(t->p, c);
    }
    for (int i = 0; i < k->n_bufs; i++) {
        fx_dim lo, hi;
        if (c->buf[i] < 0)
            continue;
        const fx_buf *b = &t->p->bufs[c->buf[i]];
        if (b->workspace || b->kind == FX_BUF_COUNTER) /* what cuBLASLt or a CPU's threads do in theirs is theirs */
            continue;
        fx_call_footprint(t->p, c, i, &lo, &hi);
        int64_t count = hi.value >= lo.value ? hi.value - lo.value + 1 : 0;
        bool two = strlen(k->buf[i].name) > 1; /* "bias", "mask": strides may be 0 */
        count = least_of(count, two ? INT64_MAX : elements(c, k, k->buf[i].name[0]));
        uint64_t bytes = (uint64_t)count * fx_dtype_size(b->dtype);
        *(k->buf[i].written ? &t->sum.written : &t->sum.read) += bytes;
        if (k->buf[i].written && tail) {
            t->sum.read += bytes;
            t->sum.written += bytes;
        }
    }
}

/* ---- statements ------------------------------------------------------------------------------------------------------ */

static void walk(counting *t, const fx_stmt *s, const fx_stmt *last)
{
    for (; s; s = s == last ? NULL : s->next) {
        int64_t around = t->times;
        switch (s->kind) {
        case FX_ST_LOOP:
            if (s->var < t->n_vars)
                t->extents[s->var] = s->extent.value;
            t->times = times(around, s->extent.value);
            if (s->extent.value > 0)
                walk(t, s->body, NULL);
            t->times = around;
            break;
        case FX_ST_CALL:
            touch_call(t, s->call);
            t->sum.computes = true;
            break;
        case FX_ST_STORE:
            read_value(t, s->value);
            touch(t, s->buf, true, &s->index);
            t->sum.flops += (double)around * operations(s->value);
            if (s->value->op == FX_S_LOAD && !by_data(&s->value->index))
                t->sum.moves = true;
            else if (s->value->op != FX_S_CONST)
                t->sum.computes = true;
            break;
        case FX_ST_LOCAL:
        case FX_ST_SET:
            read_value(t, s->value);
            t->sum.flops += (double)around * operations(s->value);
            t->sum.computes = true;
            break;
        default:
            walk(t, s->body, NULL);
        }
    }
}

static int count_vars(const fx_stmt *s)
{
    int n = 0;
    for (; s; s = s->next) {
        int inner = count_vars(s->body);
        n = inner > n ? inner : n;
        if (s->kind == FX_ST_LOOP && s->var >= n)
            n = s->var + 1;
    }
    return n;
}

fx_traffic fx_traffic_of(const fx_program *p, fx_arena *arena, const fx_stmt *first, const fx_stmt *last)
{
    counting t = {.p = p, .arena = arena, .n_vars = count_vars(first), .times = 1};
    t.extents = FX_NEW_ARRAY(arena, int64_t, t.n_vars + 1);
    walk(&t, first, last);
    for (size_t i = 0; i < t.n; i++) {
        const fx_buf *b = &p->bufs[t.v[i].buf];
        int64_t most = b->numel.value, count = 0;
        for (size_t k = i; k < t.n; k++) {
            if (t.v[k].buf != t.v[i].buf || t.v[k].written != t.v[i].written)
                continue;
            count = t.v[k].count < most - count ? count + t.v[k].count : most;
            if (k > i)
                t.v[k].count = 0; /* counted */
        }
        *(t.v[i].written ? &t.sum.written : &t.sum.read) += (uint64_t)count * fx_dtype_size(b->dtype);
        t.v[i].count = 0;
    }
    return t.sum;
}
