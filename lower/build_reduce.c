/* lower/build_reduce.c: reductions as plain loops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "lower/build.h"

/* Which dims are reduced; none given: all. */
static void reduced_dims(const fx_node *n, int rank, bool *reduced)
{
    int64_t dims[FX_MAX_RANK];
    int count = fx_node_is_none(n, 1) ? 0 : fx_node_ints(n, 1, dims, FX_MAX_RANK);
    for (int i = 0; i < rank; i++)
        reduced[i] = count <= 0;
    for (int i = 0; i < count; i++)
        reduced[dims[i] < 0 ? dims[i] + rank : dims[i]] = true;
}

/* acc = fold(acc, value) over the reduced dims. Statements: LOCAL acc = start; loops { SET acc }. Appended at *tail. */
static fx_stmt **fold_loop(fx_build *b, const fx_nest *inner, int acc, double start, const fx_sexpr *value, fx_stmt **tail)
{
    fx_stmt *local = fx_stmt_new(b->p, FX_ST_LOCAL);
    local->local = acc;
    local->value = fx_s_const(b->p, FX_F32, start);
    fx_stmt *set = fx_stmt_new(b->p, FX_ST_SET);
    set->local = acc;
    set->value = value;
    fx_stmt *loops = fx_nest_wrap(b, inner, set);
    *tail = local;
    local->next = loops;
    for (fx_stmt *s = loops; s && s->kind == FX_ST_LOOP; s = s->body)
        s->loop = b->opt->fault == FX_FAULT_PARALLEL_REDUCTION ? FX_LOOP_PARALLEL : FX_LOOP_SERIAL; /* iterations depend on one another */
    return &loops->next;
}

/* A size as a float. */
static const fx_sexpr *dim_value(fx_build *b, fx_dim d)
{
    if (fx_dim_known(d))
        return fx_s_const(b->p, FX_F32, (double)d.value);
    fx_affine f = fx_affine_dim(d);
    return fx_s_cast(b->p, FX_F32, fx_s_index(b->p, &f));
}

fx_status fx_build_reduction(fx_build *b, fx_node *n)
{
    fx_opid op = n->op->id;
    if (op != FX_OP_sum_dim_IntList && op != FX_OP_mean_dim && op != FX_OP_amax && op != FX_OP_amin && op != FX_OP_var_correction)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s cannot be compiled yet", n->op->name);
    bool done = false;
    if (op == FX_OP_mean_dim)
        FX_TRY(fx_build_global_mean(b, n, &done));
    if (done)
        return FX_OK;
    fx_window x, out;
    FX_TRY(fx_build_value(b, fx_node_input(n, 0), &x));
    if (x.dtype != FX_F32)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: expected float32, got %s", n->op->name, fx_dtype_name(x.dtype));
    bool reduced[FX_MAX_RANK], keepdim = fx_node_bool(n, fx_node_param(n, "keepdim"));
    reduced_dims(n, x.rank, reduced);
    FX_TRY(fx_build_place(b, n, NULL, &out));
    /* Two nests: over what stays (x and the result move), and inside over what goes (only x moves). */
    fx_nest_access outer[2] = {{.buf = x.buf, .offset = x.offset}, {.buf = out.buf, .offset = out.offset}}, inner[1] = {{.buf = x.buf}};
    fx_dim kept_dims[FX_MAX_RANK], gone_dims[FX_MAX_RANK], count = fx_dim_of(1);
    int kept = 0, gone = 0, order[FX_MAX_RANK];
    for (int i = 0, o = 0; i < x.rank; i++) {
        if (reduced[i]) {
            inner[0].strides[gone] = x.strides[i];
            gone_dims[gone++] = x.dims[i];
            count = fx_dim_mul(b->ctx, count, x.dims[i]);
            o += keepdim;
        } else {
            outer[0].strides[kept] = x.strides[i];
            outer[1].strides[kept] = out.strides[o++];
            kept_dims[kept++] = x.dims[i];
        }
    }
    const char *name = strchr(n->op->name, '.') + 1;
    fx_step *step = fx_build_step(b, n, fx_arena_printf(b->scratch, "%.*s over %s", (int)strcspn(name, "."), name, fx_build_dims(b, 1, &count)));
    for (int i = 0; i < FX_MAX_RANK; i++)
        order[i] = i;
    fx_nest over = fx_nest_make(b, kept, kept_dims, order, 2, outer);
    fx_window gone_value = {.rank = gone};
    memcpy(gone_value.dims, gone_dims, sizeof gone_dims);
    memcpy(gone_value.strides, inner[0].strides, sizeof gone_value.strides);
    fx_window_order(b, &gone_value, order);
    fx_nest in = fx_nest_make(b, gone, gone_dims, order, 1, inner);
    fx_affine base = fx_nest_index(b, &over, &outer[0]), moving = fx_nest_index(b, &in, &inner[0]);
    fx_affine index = fx_affine_sum(b->ctx, &base, &moving);
    const fx_sexpr *load = fx_s_load(b->p, x.buf, &index), *result;
    fx_stmt *first = NULL, **tail = &first;
    int acc = b->n_locals++;
    const fx_sexpr *a = fx_s_local(b->p, acc, FX_F32);
    bool max = op == FX_OP_amax, min = op == FX_OP_amin;
    double start = max ? -INFINITY : min ? INFINITY : 0;
    tail = fold_loop(b, &in, acc, start, fx_s_op(b->p, max ? FX_S_max : min ? FX_S_min : FX_S_add, FX_F32, a, load, NULL), tail);
    result = a;
    if (op == FX_OP_mean_dim || op == FX_OP_var_correction)
        result = fx_s_op(b->p, FX_S_div, FX_F32, a, dim_value(b, count), NULL);
    if (op == FX_OP_var_correction) {
        fx_stmt *mean = fx_stmt_new(b->p, FX_ST_LOCAL);
        mean->local = b->n_locals++;
        mean->value = result;
        *tail = mean;
        tail = &mean->next;
        fx_nest again = in;
        for (int i = 0; i < again.n; i++)
            again.var[i] = b->n_vars++;
        fx_affine move2 = fx_nest_index(b, &again, &inner[0]), index2 = fx_affine_sum(b->ctx, &base, &move2);
        const fx_sexpr *d = fx_s_op(b->p, FX_S_sub, FX_F32, fx_s_load(b->p, x.buf, &index2), fx_s_local(b->p, mean->local, FX_F32), NULL);
        int sum = b->n_locals++;
        const fx_sexpr *s = fx_s_local(b->p, sum, FX_F32);
        const fx_sexpr *square = fx_s_op(b->p, FX_S_mul, FX_F32, d, d, NULL);
        tail = fold_loop(b, &again, sum, 0, fx_s_op(b->p, FX_S_add, FX_F32, s, square, NULL), tail);
        int p = fx_node_param(n, "correction");
        double correction = fx_node_is_none(n, p) ? 1 : fx_node_float(n, p), by = (double)count.value - correction;
        const fx_sexpr *divisor = fx_s_const(b->p, FX_F32, by > 0 ? by : 0);
        if (!fx_dim_known(count)) {
            divisor = fx_s_op(b->p, FX_S_sub, FX_F32, dim_value(b, count), fx_s_const(b->p, FX_F32, correction), NULL);
            divisor = fx_s_op(b->p, FX_S_max, FX_F32, divisor, fx_s_const(b->p, FX_F32, 0), NULL);
        }
        result = fx_s_op(b->p, FX_S_div, FX_F32, s, divisor, NULL);
    }
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = out.buf;
    store->index = fx_nest_index(b, &over, &outer[1]);
    store->value = fx_s_cast(b->p, out.dtype, result);
    *tail = store;
    step->body = fx_nest_wrap(b, &over, first);
    b->value[n->id] = out;
    return FX_OK;
}
