/* lower/build_order.c: what depends on the order along a dim: the place of an extreme, sums and products up to each element, the k best,
 * sorting.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Each line along the dim is done by loops of its own. The k best are found one after the other, each as the best of those that come
 * behind the one before: k * n steps. Sorting counts for each element those that come before it, which is its place: n * n steps, of
 * which compilers make vector code. NaN is greater than all; equal elements keep their order. */
#include <math.h>
#include <string.h>

#include "lower/build.h"

/* Accesses: 0 is what is read, then the results. */
typedef struct lines {
    fx_build *b;
    fx_node *n;
    fx_dtype dtype;            /* of what is read */
    fx_nest_access access[3];  /* by the other dims */
    fx_dim along[3];           /* strides of the dim */
    fx_dim extent;             /* of the dim, where it is read */
    int n_access;
    bool made[3];              /* results that somebody uses */
    fx_nest nest;
    fx_step *step;
    fx_stmt *body;             /* of a line, appended at b->tail */
} lines;

static const fx_sexpr *local(lines *l, const fx_sexpr *e)
{
    return fx_build_local(l->b, e);
}

static void set(lines *l, const fx_sexpr *to, const fx_sexpr *e)
{
    fx_build_set(l->b, to, e);
}

static fx_stmt *open_loop(lines *l, fx_dim extent, fx_affine *at)
{
    return fx_build_open_loop(l->b, extent, "i", at);
}

static void close_loop(lines *l, fx_stmt *s)
{
    l->b->tail = &s->next;
}

/* The element of access k at place `at` of the line. */
static fx_affine index_of(lines *l, int k, const fx_affine *at)
{
    fx_context *ctx = l->b->ctx;
    fx_affine a = fx_nest_index(l->b, &l->nest, &l->access[k]);
    a.base = fx_dim_add(ctx, a.base, fx_dim_mul(ctx, at->base, l->along[k]));
    for (int i = 0; i < at->n; i++)
        fx_affine_add(ctx, &a, at->var[i], fx_dim_mul(ctx, at->coef[i], l->along[k]));
    return a;
}

static const fx_sexpr *load(lines *l, const fx_affine *at)
{
    fx_affine i = index_of(l, 0, at);
    return fx_s_load(l->b->p, l->access[0].buf, &i);
}

static void store(lines *l, int k, const fx_affine *at, const fx_sexpr *e)
{
    if (!l->made[k])
        return;
    fx_stmt *s = fx_build_append(l->b, FX_ST_STORE);
    s->buf = l->access[k].buf;
    s->index = index_of(l, k, at);
    s->value = fx_s_cast(l->b->p, l->b->p->bufs[s->buf].dtype, e);
}

/* a comes before c, were they not equal: the greater, or the lesser, first. */
static const fx_sexpr *better(lines *l, bool greatest, const fx_sexpr *a, const fx_sexpr *c)
{
    const fx_sexpr *wins = fx_build_compare(l->b, greatest ? FX_S_gt : FX_S_lt, a, c);
    if (!fx_dtype_is_float(a->dtype))
        return wins;
    const fx_sexpr *nan = greatest ? a : c, *other = greatest ? c : a;
    return fx_build_op(l->b, FX_S_or, wins,
                       fx_build_op(l->b, FX_S_and, fx_build_compare(l->b, FX_S_ne, nan, nan), fx_build_compare(l->b, FX_S_eq, other, other)));
}

/* ---- lines -------------------------------------------------------------------------------------------------------------- */

static int wrap_dim(int64_t d, int rank)
{
    return (int)(d < 0 ? d + (rank ? rank : 1) : d);
}

static void add_access(lines *l, const fx_window *v, int rank, int dim)
{
    fx_nest_access *a = &l->access[l->n_access];
    bool has_dim = v->rank == rank;
    *a = (fx_nest_access){.buf = v->buf, .offset = v->offset};
    l->along[l->n_access] = has_dim && rank > 0 ? v->strides[dim] : fx_dim_of(0);
    for (int i = 0, k = 0; i < rank; i++) {
        if (i != dim)
            a->strides[k++] = v->strides[has_dim ? i : i - (i > dim)];
    }
    l->made[l->n_access++] = true;
}

/* Places for the results: of an op with several, where getitems take them. */
static fx_status add_results(lines *l, int rank, int dim)
{
    fx_build *b = l->b;
    fx_node *n = l->n;
    fx_window v;
    if (n->type->kind != FX_TYPE_TUPLE) {
        FX_TRY(fx_build_place(b, n, NULL, &v));
        b->value[n->id] = v;
        add_access(l, &v, rank, dim);
        return FX_OK;
    }
    FX_TRY(fx_build_results(b, n));
    const fx_window *results = b->results[n->id];
    for (int k = 0; k < n->type->n && k < 2; k++) {
        v = results[k];
        if (v.buf < 0) /* as the other result: sizes are the same */
            v = results[1 - k];
        add_access(l, &v, rank, dim);
        l->made[l->n_access - 1] = results[k].buf >= 0;
    }
    return FX_OK;
}

/* dim -1 with flat: over all elements in order. */
static fx_status begin(lines *l, fx_build *b, fx_node *n, int64_t dim, bool flat)
{
    fx_window x;
    *l = (lines){.b = b, .n = n};
    if (flat) {
        FX_TRY(fx_build_dense(b, fx_node_input(n, 0), &x));
        x.dims[0] = fx_window_count(b, &x);
        x.strides[0] = fx_dim_of(1);
        x.rank = 1;
        dim = 0;
    } else {
        FX_TRY(fx_build_value(b, fx_node_input(n, 0), &x));
    }
    int at = wrap_dim(dim, x.rank), order[FX_MAX_RANK], rank = 0;
    fx_dim dims[FX_MAX_RANK];
    l->dtype = x.dtype;
    l->extent = x.rank ? x.dims[at] : fx_dim_of(1);
    add_access(l, &x, x.rank, at);
    if (flat) { /* one result, whatever its sizes */
        fx_window v;
        FX_TRY(fx_build_place(b, n, NULL, &v));
        b->value[n->id] = v;
        l->access[1] = (fx_nest_access){.buf = v.buf, .offset = v.offset};
        l->made[l->n_access++] = true;
    } else {
        FX_TRY(add_results(l, x.rank, at));
    }
    for (int i = 0; i < x.rank; i++) {
        if (i == at)
            continue;
        order[rank] = rank;
        dims[rank++] = x.dims[i];
    }
    const char *name = strchr(n->op->name, '.') + 1;
    l->step = fx_build_step(b, n, fx_arena_printf(b->piece, "%.*s over %s", (int)strcspn(name, "."), name, fx_build_dims(b, 1, &l->extent)));
    l->nest = fx_nest_make(b, rank, dims, order, l->n_access, l->access);
    b->tail = &l->body;
    return FX_OK;
}

static fx_status finish(lines *l)
{
    fx_build *b = l->b;
    fx_dim all[2] = {l->extent, fx_dim_of(1)};
    fx_stmt *body = l->body;
    for (int i = 0; i < l->nest.n; i++)
        all[1] = fx_dim_mul(b->ctx, all[1], l->nest.extent[i]);
    for (int i = l->nest.n - 1; i >= 0; i--) {
        fx_stmt *loop = fx_stmt_new(b->p, FX_ST_LOOP);
        loop->var = l->nest.var[i];
        loop->extent = l->nest.extent[i];
        loop->hint = l->nest.hint[i];
        loop->loop = i == 0 && fx_build_is_large(b, 2, all) ? FX_LOOP_PARALLEL : FX_LOOP_SERIAL;
        loop->body = body;
        body = loop;
    }
    l->step->body = body;
    b->tail = NULL;
    return FX_OK;
}

/* ---- the ops --------------------------------------------------------------------------------------------------------------- */

/* argmax, argmin, max.dim, min.dim: the first of the best. */
static fx_status build_extreme(fx_build *b, fx_node *n)
{
    lines l;
    fx_opid op = n->op->id;
    bool arg = op == FX_OP_argmax || op == FX_OP_argmin, greatest = op == FX_OP_argmax || op == FX_OP_max_dim;
    bool flat = arg && fx_node_is_none(n, 1);
    FX_TRY(begin(&l, b, n, flat ? 0 : fx_node_int(n, 1), flat));
    static const int64_t low[] = {[FX_I8] = INT8_MIN, [FX_I16] = INT16_MIN, [FX_I32] = INT32_MIN, [FX_I64] = INT64_MIN, [FX_U8] = 0, [FX_BOOL] = 0};
    static const int64_t high[] = {[FX_I8] = INT8_MAX, [FX_I16] = INT16_MAX, [FX_I32] = INT32_MAX, [FX_I64] = INT64_MAX, [FX_U8] = 255, [FX_BOOL] = 1};
    const fx_sexpr *worst = fx_dtype_is_float(l.dtype) ? fx_s_const(b->p, l.dtype, greatest ? -INFINITY : INFINITY)
                                                       : fx_s_int(b->p, l.dtype, greatest ? low[l.dtype] : high[l.dtype]);
    fx_affine i, zero = fx_affine_const(0);
    const fx_sexpr *best = local(&l, worst), *place = local(&l, fx_build_int(b, 0));
    fx_stmt *loop = open_loop(&l, l.extent, &i);
    const fx_sexpr *v = local(&l, load(&l, &i)), *take = fx_build_compare(b, greatest ? FX_S_gt : FX_S_lt, v, best);
    if (fx_dtype_is_float(l.dtype)) /* the first NaN wins */
        take = fx_build_op(b, FX_S_or, take,
                           fx_build_op(b, FX_S_and, fx_build_compare(b, FX_S_ne, v, v), fx_build_compare(b, FX_S_eq, best, best)));
    take = local(&l, take);
    set(&l, place, fx_build_select(b, take, fx_s_index(b->p, &i), place));
    set(&l, best, fx_build_select(b, take, v, best));
    close_loop(&l, loop);
    if (!arg)
        store(&l, 1, &zero, best);
    store(&l, arg ? 1 : 2, &zero, place);
    return finish(&l);
}

/* Sums are kept in double, of half precision in float, as eager does it. */
static fx_status build_cumulative(fx_build *b, fx_node *n)
{
    lines l;
    FX_TRY(begin(&l, b, n, fx_node_int(n, 1), false));
    bool product = n->op->id == FX_OP_cumprod;
    fx_dtype out = n->type->dtype, t = out == FX_F32 ? FX_F64 : out == FX_F16 || out == FX_BF16 ? FX_F32 : out;
    fx_affine i;
    const fx_sexpr *acc = local(&l, fx_s_const(b->p, t, product));
    fx_stmt *loop = open_loop(&l, l.extent, &i);
    set(&l, acc, fx_build_op(b, product ? FX_S_mul : FX_S_add, acc, fx_s_cast(b->p, t, fx_s_cast(b->p, out, load(&l, &i)))));
    store(&l, 1, &i, acc);
    close_loop(&l, loop);
    return finish(&l);
}

static fx_status build_topk(fx_build *b, fx_node *n)
{
    lines l;
    FX_TRY(begin(&l, b, n, fx_node_int(n, 2), false));
    bool greatest = fx_node_bool(n, 3);
    const fx_type *t = n->type->items[0];
    fx_dim k = t->rank ? t->dims[wrap_dim(fx_node_int(n, 2), t->rank)] : fx_dim_of(1);
    fx_affine at, i;
    const fx_sexpr *last = local(&l, fx_s_const(b->p, l.dtype, 0)), *last_place = local(&l, fx_build_int(b, -1));
    fx_stmt *rounds = open_loop(&l, k, &at);
    const fx_sexpr *best = local(&l, fx_s_const(b->p, l.dtype, 0)), *place = local(&l, fx_build_int(b, -1));
    fx_stmt *loop = open_loop(&l, l.extent, &i);
    const fx_sexpr *v = local(&l, load(&l, &i)), *here = fx_s_index(b->p, &i), *none = fx_build_int(b, 0);
    const fx_sexpr *worse = better(&l, greatest, last, v), *ahead = better(&l, greatest, v, last);
    const fx_sexpr *tie = fx_build_op(b, FX_S_and, fx_s_op(b->p, FX_S_not, FX_BOOL, ahead, NULL, NULL),
                                      fx_build_compare(b, FX_S_lt, last_place, here));
    const fx_sexpr *behind = fx_build_op(b, FX_S_or, fx_build_compare(b, FX_S_lt, last_place, none), fx_build_op(b, FX_S_or, worse, tie));
    const fx_sexpr *wins = fx_build_op(b, FX_S_or, fx_build_compare(b, FX_S_lt, place, none), better(&l, greatest, v, best));
    const fx_sexpr *take = local(&l, fx_build_op(b, FX_S_and, behind, wins));
    set(&l, place, fx_build_select(b, take, here, place));
    set(&l, best, fx_build_select(b, take, v, best));
    close_loop(&l, loop);
    store(&l, 1, &at, best);
    store(&l, 2, &at, place);
    set(&l, last, best);
    set(&l, last_place, place);
    close_loop(&l, rounds);
    return finish(&l);
}

static fx_status build_sort(fx_build *b, fx_node *n)
{
    lines l;
    FX_TRY(begin(&l, b, n, fx_node_int(n, fx_node_param(n, "dim")), false));
    bool greatest = fx_node_bool(n, fx_node_param(n, "descending"));
    fx_affine i, j, to = fx_affine_const(0);
    fx_stmt *each = open_loop(&l, l.extent, &i);
    const fx_sexpr *v = local(&l, load(&l, &i)), *place = local(&l, fx_build_int(b, 0));
    fx_stmt *loop = open_loop(&l, l.extent, &j);
    const fx_sexpr *w = local(&l, load(&l, &j));
    const fx_sexpr *same = fx_s_op(b->p, FX_S_not, FX_BOOL, better(&l, greatest, v, w), NULL, NULL);
    const fx_sexpr *tie = fx_build_op(b, FX_S_and, same, fx_build_compare(b, FX_S_lt, fx_s_index(b->p, &j), fx_s_index(b->p, &i)));
    const fx_sexpr *before = fx_build_op(b, FX_S_or, better(&l, greatest, w, v), tie);
    set(&l, place, fx_build_op(b, FX_S_add, place, fx_s_cast(b->p, FX_I64, before)));
    close_loop(&l, loop);
    fx_stmt *check = fx_build_open_check(b, place, l.extent, fx_arena_printf(b->p->arena, "place in %s", n->name));
    fx_affine_add(b->ctx, &to, FX_VAR_LOCAL(place->local), fx_dim_of(1));
    store(&l, 1, &to, v);
    store(&l, 2, &to, fx_s_index(b->p, &i));
    b->tail = &check->next;
    close_loop(&l, each);
    return finish(&l);
}

fx_status fx_build_order(fx_build *b, fx_node *n)
{
    switch (n->op->id) {
    case FX_OP_argmax:
    case FX_OP_argmin:
    case FX_OP_max_dim:
    case FX_OP_min_dim:
        return build_extreme(b, n);
    case FX_OP_cumsum:
    case FX_OP_cumprod:
        return build_cumulative(b, n);
    case FX_OP_topk:
        return build_topk(b, n);
    case FX_OP_sort_stable:
        return build_sort(b, n);
    default:
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s cannot be compiled to loops or kernels yet", n->op->name);
    }
}
