/* lower/build_pool.c: pools that no kernel takes, as plain loops: max pools whose indices are used, and pools of float64.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Windows are fixed or adaptive; both begin at some row and column and have so many places, some of them outside the input or beyond the
 * window's end. Those are looked at as place 0 and left out of the sum or comparison, so that loops have no bounds that depend on each other. */
#include <math.h>

#include "lower/build.h"

/* Windows along one of the two dims. */
typedef struct side {
    fx_dim in, out;            /* sizes */
    bool adaptive;
    int64_t k, s, p, d;        /* kernel, stride, padding, dilation; of fixed windows */
    /* within the loops */
    const fx_sexpr *begin, *end, *at, *inside;
} side;

typedef struct pool {
    fx_build *b;
    fx_node *n;
    fx_dtype work;             /* what is compared or summed */
    side side[2];
} pool;

static const fx_sexpr *size(fx_build *b, fx_dim d)
{
    fx_affine a = fx_affine_dim(d);
    return fx_dim_known(d) ? fx_build_int(b, d.value) : fx_s_index(b->p, &a);
}

/* Places that a window has at most. */
static fx_dim places(const pool *p, const side *s)
{
    fx_context *ctx = p->b->ctx;
    if (!s->adaptive)
        return fx_dim_of(s->k);
    if (fx_dim_known(s->in) && fx_dim_known(s->out) && s->in.value % s->out.value == 0)
        return fx_dim_of(s->in.value / s->out.value);
    fx_dim up = fx_dim_floordiv(ctx, fx_dim_plus(ctx, fx_dim_add(ctx, s->in, s->out), -1), s->out);
    return fx_dim_plus(ctx, up, 1);
}

/* Where the window of output o begins and ends: floor(o * in / out) up to ceil((o + 1) * in / out), or steps of the stride from the padding on. */
static void open_window(pool *p, side *s, const fx_affine *o)
{
    fx_build *b = p->b;
    fx_affine begin = fx_affine_dim(s->adaptive ? fx_dim_of(0) : fx_dim_of(-s->p)), end;
    fx_affine_add(b->ctx, &begin, o->var[0], s->adaptive ? s->in : fx_dim_of(s->s));
    if (!s->adaptive) {
        s->begin = fx_build_local(b, fx_s_index(b->p, &begin));
        s->end = NULL;
        return;
    }
    end = begin;
    end.base = fx_dim_plus(b->ctx, fx_dim_add(b->ctx, s->in, s->out), -1);
    s->begin = fx_build_local(b, fx_build_op(b, FX_S_floor_div, fx_s_index(b->p, &begin), size(b, s->out)));
    s->end = fx_build_local(b, fx_build_op(b, FX_S_floor_div, fx_s_index(b->p, &end), size(b, s->out)));
}

/* A loop over the window's places: s->at is where in the input, s->inside whether it counts. */
static fx_stmt *open_places(pool *p, side *s, const char *hint)
{
    fx_build *b = p->b;
    fx_affine i, step = fx_affine_const(0);
    fx_stmt *loop = fx_build_open_loop(b, places(p, s), hint, &i);
    fx_affine_add(b->ctx, &step, i.var[0], fx_dim_of(s->adaptive ? 1 : s->d));
    const fx_sexpr *at = fx_build_local(b, fx_build_op(b, FX_S_add, s->begin, fx_s_index(b->p, &step)));
    const fx_sexpr *behind = fx_build_compare(b, FX_S_ge, at, fx_build_int(b, 0));
    const fx_sexpr *before = fx_build_compare(b, FX_S_lt, at, s->end ? s->end : size(b, s->in));
    s->inside = fx_build_local(b, fx_build_op(b, FX_S_and, behind, before));
    s->at = fx_build_local(b, fx_build_select(b, s->inside, at, fx_build_int(b, 0)));
    fx_build_open_check(b, s->at, s->in, fx_arena_printf(b->p->arena, "place in a window of %s", p->n->name));
    return loop;
}

/* The elements that a mean is taken of: all places of the window up to the padding's end, or those in the input. */
static const fx_sexpr *counted(pool *p, const side *s, bool padding)
{
    fx_build *b = p->b;
    if (s->end)
        return fx_build_op(b, FX_S_sub, s->end, s->begin);
    const fx_sexpr *most = size(b, padding ? fx_dim_plus(b->ctx, s->in, s->p) : s->in), *begin = s->begin;
    const fx_sexpr *end = fx_build_op(b, FX_S_min, fx_build_op(b, FX_S_add, s->begin, fx_build_int(b, s->k)), most);
    if (!padding)
        begin = fx_build_op(b, FX_S_max, begin, fx_build_int(b, 0));
    return fx_build_op(b, FX_S_sub, end, begin);
}

static const fx_sexpr *divisor(pool *p)
{
    fx_build *b = p->b;
    bool fixed = !p->side[0].adaptive, padding = fixed && fx_node_bool(p->n, 5);
    if (fixed && !fx_node_is_none(p->n, 6))
        return fx_s_const(b->p, p->work, (double)fx_node_int(p->n, 6));
    const fx_sexpr *rows = counted(p, &p->side[0], padding), *columns = counted(p, &p->side[1], padding);
    return fx_s_cast(b->p, p->work, fx_build_op(b, FX_S_max, fx_build_op(b, FX_S_mul, rows, columns), fx_build_int(b, 1)));
}

/* Parameters of fixed windows: kernel, stride, padding, dilation from position 1 on. */
static void read_windows(pool *p, bool max)
{
    for (int i = 0; i < 2; i++) {
        side *s = &p->side[i];
        int64_t v[4][2] = {{0, 0}, {0, 0}, {0, 0}, {1, 1}};
        for (int k = 0; k < (max ? 4 : 3); k++) {
            int n = fx_node_ints(p->n, 1 + k, v[k], 2);
            if (n == 1)
                v[k][1] = v[k][0];
            else if (n <= 0 && k == 1)
                v[1][i] = v[0][i];
        }
        s->k = v[0][i];
        s->s = v[1][i];
        s->p = v[2][i];
        s->d = v[3][i];
    }
}

static void store(pool *p, const fx_window *to, const fx_affine *at, const fx_sexpr *e)
{
    fx_build *b = p->b;
    if (to->buf < 0)
        return;
    fx_stmt *s = fx_build_append(b, FX_ST_STORE);
    s->buf = to->buf;
    s->index = fx_affine_dim(to->offset);
    for (int i = 0; i < 4; i++)
        fx_affine_add(b->ctx, &s->index, at[i].var[0], to->strides[i]);
    s->value = fx_s_cast(b->p, to->dtype, e);
}

/* One window: the greatest element, the first of equal ones, the last NaN; or the mean. */
static void emit_window(pool *p, bool max, const fx_window *x, const fx_affine *at, const fx_window *value, const fx_window *index)
{
    fx_build *b = p->b;
    for (int i = 0; i < 2; i++)
        open_window(p, &p->side[i], &at[2 + i]);
    const fx_sexpr *best = fx_build_local(b, fx_s_const(b->p, p->work, max ? -INFINITY : 0));
    const fx_sexpr *where = fx_build_local(b, fx_build_int(b, max ? -1 : 0));
    fx_stmt *loop = open_places(p, &p->side[0], "kh");
    open_places(p, &p->side[1], "kw");
    fx_affine from = fx_affine_dim(x->offset);
    for (int i = 0; i < 4; i++)
        fx_affine_add(b->ctx, &from, i < 2 ? at[i].var[0] : FX_VAR_LOCAL(p->side[i - 2].at->local), x->strides[i]);
    const fx_sexpr *v = fx_build_local(b, fx_s_cast(b->p, p->work, fx_s_load(b->p, x->buf, &from)));
    const fx_sexpr *take = fx_build_op(b, FX_S_and, p->side[0].inside, p->side[1].inside);
    if (max) {
        const fx_sexpr *better = fx_build_op(b, FX_S_or, fx_build_compare(b, FX_S_gt, v, best), fx_build_compare(b, FX_S_ne, v, v));
        const fx_sexpr *first = fx_build_compare(b, FX_S_lt, where, fx_build_int(b, 0));
        take = fx_build_local(b, fx_build_op(b, FX_S_and, take, fx_build_op(b, FX_S_or, better, first)));
        const fx_sexpr *here = fx_build_op(b, FX_S_add, fx_build_op(b, FX_S_mul, p->side[0].at, size(b, p->side[1].in)), p->side[1].at);
        fx_build_set(b, where, fx_build_select(b, take, here, where));
        fx_build_set(b, best, fx_build_select(b, take, v, best));
    } else {
        fx_build_set(b, best, fx_build_op(b, FX_S_add, best, fx_build_select(b, take, v, fx_s_const(b->p, p->work, 0))));
    }
    b->tail = &loop->next;
    store(p, value, at, max ? best : fx_build_op(b, FX_S_div, best, divisor(p)));
    if (index)
        store(p, index, at, where);
}

fx_status fx_build_pool_loops(fx_build *b, fx_node *n)
{
    static const char *const hints[] = {"n", "c", "h", "w"};
    fx_opid id = n->op->id;
    bool max = id == FX_OP_max_pool2d || id == FX_OP_max_pool2d_with_indices || id == FX_OP_adaptive_max_pool2d;
    bool adaptive = id == FX_OP_adaptive_max_pool2d || id == FX_OP_adaptive_avg_pool2d || id == FX_OP__adaptive_avg_pool2d;
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    fx_window x, y, *results = &y;
    FX_TRY(fx_build_value(b, fx_node_input(n, 0), &x));
    if (x.rank != 4)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s of a tensor of rank %d cannot be compiled yet", n->op->name, x.rank);
    if (n->type->kind == FX_TYPE_TUPLE) {
        FX_TRY(fx_build_results(b, n));
        results = b->results[n->id];
    } else {
        FX_TRY(fx_build_place(b, n, NULL, &y));
        b->value[n->id] = y;
    }
    pool p = {.b = b, .n = n, .work = t->dtype == FX_F64 ? FX_F64 : FX_F32};
    for (int i = 0; i < 2; i++)
        p.side[i] = (side){.in = x.dims[2 + i], .out = t->dims[2 + i], .adaptive = adaptive};
    if (!adaptive)
        read_windows(&p, max);
    const char *name = strchr(n->op->name, '.') + 1;
    fx_step *step = fx_build_step(b, n, fx_arena_printf(b->piece, "%.*s to %s", (int)strcspn(name, "."), name, fx_build_dims(b, 2, &t->dims[2])));
    fx_affine at[4];
    fx_stmt *body = NULL, *outer = NULL;
    b->tail = &body;
    for (int i = 0; i < 4; i++) {
        fx_stmt *loop = fx_build_open_loop(b, t->dims[i], hints[i], &at[i]);
        outer = outer ? outer : loop;
    }
    if (fx_build_is_large(b, 4, t->dims))
        outer->loop = FX_LOOP_PARALLEL;
    emit_window(&p, max, &x, at, &results[0], n->type->kind == FX_TYPE_TUPLE ? &results[1] : NULL);
    step->body = fx_build_prune(b, body, (int)b->p->n_bufs);
    b->tail = NULL;
    return FX_OK;
}
