/* lower/build_rows_value.c: elements, folds and results a row of a region as expressions.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "lower/build_rows.h"

fx_stmt *fx_row_append(fx_build *b, fx_stmt_kind kind)
{
    fx_stmt *s = fx_stmt_new(b->p, kind);
    *b->tail = s;
    b->tail = &s->next;
    return s;
}

/* a += factor * b */
static void add_scaled(fx_row_region *r, fx_affine *a, const fx_affine *by, fx_dim factor)
{
    fx_context *ctx = r->b->ctx;
    if (fx_dim_is(factor, 0))
        return;
    a->base = fx_dim_add(ctx, a->base, fx_dim_mul(ctx, by->base, factor));
    for (int i = 0; i < by->n; i++)
        fx_affine_add(ctx, a, by->var[i], fx_dim_mul(ctx, by->coef[i], factor));
}

fx_affine fx_row_index_of(fx_row_region *r, int access)
{
    fx_affine a = fx_affine_dim(r->stay_access[access].offset);
    for (int i = 0; i < r->stay.n; i++)
        add_scaled(r, &a, &r->stay_at[i], r->stay_access[access].strides[i]);
    for (int i = 0; i < r->row.n; i++)
        add_scaled(r, &a, &r->row_at[i], r->row_access[access].strides[i]);
    return a;
}

/* Where an array over the row's elements holds the current one. */
fx_affine fx_row_row_index(fx_row_region *r)
{
    fx_affine a = fx_affine_const(0);
    int64_t stride = 1;
    for (int i = r->row.n - 1; i >= 0; i--) {
        add_scaled(r, &a, &r->row_at[i], fx_dim_of(stride));
        stride *= r->row.extent[i].value;
    }
    return a;
}

const fx_sexpr *fx_row_op2(fx_row_region *r, fx_sop op, const fx_sexpr *a, const fx_sexpr *c)
{
    return fx_s_op(r->b->p, op, a->dtype, a, c, NULL);
}

static const fx_sexpr *op1(fx_row_region *r, fx_sop op, const fx_sexpr *a)
{
    return fx_s_op(r->b->p, op, a->dtype, a, NULL, NULL);
}

const fx_sexpr *fx_row_cast(fx_row_region *r, fx_dtype dtype, const fx_sexpr *a)
{
    return fx_s_cast(r->b->p, dtype, a);
}

static const fx_sexpr *num(fx_row_region *r, fx_dtype dtype, double v)
{
    return fx_s_const(r->b->p, dtype, v);
}

/* What sums, means and norms of a dtype are computed in. */
fx_dtype fx_row_wide(fx_dtype d)
{
    return d == FX_F16 || d == FX_BF16 ? FX_F32 : d;
}

/* Elements of a row, as a number of the dtype. */
static const fx_sexpr *row_count(fx_row_region *r, fx_dtype dtype)
{
    fx_dim n = fx_dim_of(1);
    for (int i = 0; i < r->s->rank; i++)
        n = r->s->gone[i] ? fx_dim_mul(r->b->ctx, n, r->s->dims[i]) : n;
    if (fx_dim_known(n))
        return num(r, dtype, (double)n.value);
    fx_affine a = fx_affine_dim(n);
    return fx_row_cast(r, dtype, fx_s_index(r->b->p, &a));
}

int fx_row_local_array(fx_row_region *r, const char *name, fx_dtype dtype, int64_t n)
{
    fx_dim dim = fx_dim_of(n);
    int buf = fx_program_buf(r->b->p, FX_BUF_LOCAL, name, dtype, 1, &dim);
    fx_row_append(r->b, FX_ST_ARRAY)->buf = buf;
    return buf;
}

bool fx_row_is_softmax(const fx_node *n)
{
    return n->op->id == FX_OP__softmax || n->op->id == FX_OP__log_softmax;
}

/* What a norm computes in. */
fx_dtype fx_row_norm_dtype(const fx_node *n)
{
    fx_dtype in = fx_node_input(n, 0)->type->dtype, out = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0]->dtype : n->type->dtype;
    return in == FX_F64 || out == FX_F64 ? FX_F64 : FX_F32;
}

/* ---- results a row --------------------------------------------------------------------------------------------------- */

const fx_sexpr *fx_row_stat_value(fx_row_region *r, const fx_row_stat *s)
{
    return r->batched ? fx_s_load(r->b->p, s->buf, &r->lane) : fx_s_local(r->b->p, s->local, s->dtype);
}

/* Batched: the array must be there before the loop over the lanes. */
void fx_row_declare(fx_row_region *r, fx_row_stat *s, fx_dtype dtype)
{
    s->dtype = dtype;
    if (r->batched)
        s->buf = fx_row_local_array(r, "stat", dtype, r->lanes);
}

void fx_row_set_stat(fx_row_region *r, fx_row_stat *s, const fx_sexpr *e)
{
    fx_build *b = r->b;
    if (r->batched) {
        fx_stmt *store = fx_row_append(b, FX_ST_STORE);
        store->buf = s->buf;
        store->index = r->lane;
        store->value = fx_row_cast(r, s->dtype, e);
        return;
    }
    fx_stmt *local = fx_row_append(b, FX_ST_LOCAL);
    local->local = s->local = b->n_locals++;
    local->value = fx_row_cast(r, s->dtype, e);
}

/* The statistic that is the value of a member, or of a norm's result `part`. */
fx_row_stat *fx_row_own_stat(fx_row_region *r, int i, int part)
{
    fx_row_member *m = &r->m[i];
    if (fx_row_is_result(r, m->node))
        return &r->m[fx_row_member_at(r, fx_node_input(m->node, 0))].stat[fx_node_int(m->node, 1)];
    return &m->stat[m->node->op->id == FX_OP_var_correction ? 2 : part];
}

/* ---- elements ---------------------------------------------------------------------------------------------------------- */

const fx_sexpr *fx_row_value_of(void *user, fx_node *n)
{
    fx_row_region *r = user;
    int i = fx_row_member_at(r, n);
    if (i >= 0)
        return r->m[i].cls == FX_ROW_STAT ? fx_row_stat_value(r, fx_row_own_stat(r, i, 0)) : fx_row_full(r, i, 0);
    const fx_sexpr *number = fx_build_number(r->b, n);
    if (number)
        return number;
    for (int k = 0; k < r->n_leaves; k++) {
        if (r->leaf[k].node == n && r->leaf[k].dropped == r->stat_context) {
            fx_affine at = fx_row_index_of(r, k);
            return fx_s_load(r->b->p, r->stay_access[k].buf, &at);
        }
    }
    return fx_s_const(r->b->p, n->type->dtype, NAN); /* not reached: all leaves were found before */
}

static const fx_sexpr *norm_input(fx_row_region *r, const fx_node *n)
{
    return fx_row_cast(r, fx_row_norm_dtype(n), fx_row_value_of(r, fx_node_input(n, 0)));
}

/* The value of a norm: part 1 of a softmax is exp(x - max). */
static const fx_sexpr *norm_value(fx_row_region *r, int i, int part)
{
    fx_node *n = r->m[i].node;
    fx_dtype t = fx_row_norm_dtype(n), out = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0]->dtype : n->type->dtype;
    const fx_sexpr *s1 = fx_row_stat_value(r, &r->m[i].stat[1]);
    if (fx_row_is_softmax(n)) {
        if (part == 1)
            return op1(r, FX_S_exp, fx_row_op2(r, FX_S_sub, norm_input(r, n), s1));
        const fx_sexpr *s2 = fx_row_stat_value(r, &r->m[i].stat[2]);
        if (n->op->id == FX_OP__softmax)
            return fx_row_cast(r, out, fx_row_op2(r, FX_S_div, fx_row_full(r, i, 1), s2));
        return fx_row_cast(r, out, fx_row_op2(r, FX_S_sub, fx_row_op2(r, FX_S_sub, norm_input(r, n), s1), s2));
    }
    bool layer = n->op->id == FX_OP_native_layer_norm;
    const fx_sexpr *e = norm_input(r, n);
    e = layer ? fx_row_op2(r, FX_S_mul, fx_row_op2(r, FX_S_sub, e, s1), fx_row_stat_value(r, &r->m[i].stat[2])) : fx_row_op2(r, FX_S_mul, e, s1);
    for (int p = 2; p <= 2 + layer; p++) {
        fx_node *w = fx_node_input(n, p);
        if (w)
            e = fx_row_op2(r, p == 2 ? FX_S_mul : FX_S_add, e, fx_row_cast(r, t, fx_row_value_of(r, w)));
    }
    return fx_row_cast(r, out, e);
}

const fx_sexpr *fx_row_full(fx_row_region *r, int i, int part)
{
    fx_row_member *m = &r->m[i];
    fx_build *b = r->b;
    if (m->memo[part])
        return m->memo[part];
    const fx_sexpr *e = NULL;
    if (m->kept[part].on && r->pass > m->kept[part].pass) {
        fx_affine at = m->kept[part].buf >= 0 ? fx_row_row_index(r) : fx_row_index_of(r, m->kept[part].access);
        e = fx_s_load(b->p, m->kept[part].buf >= 0 ? m->kept[part].buf : r->stay_access[m->kept[part].access].buf, &at);
    } else if (fx_row_is_norm(m->node)) {
        e = norm_value(r, i, part);
    } else if (fx_row_is_result(r, m->node)) {
        e = fx_row_full(r, fx_row_member_at(r, fx_node_input(m->node, 0)), 0);
    } else {
        fx_status st = fx_build_expr(b, m->node, fx_row_value_of, r, &e);
        if (st != FX_OK) {
            r->status = st;
            e = num(r, m->node->type->dtype, 0);
        }
    }
    if (m->node->n_uses > 1 || part == 1)
        e = fx_build_share(b, e);
    m->memo[part] = e;
    return e;
}

void fx_row_forget(fx_row_region *r)
{
    for (int i = 0; i < r->n; i++)
        r->m[i].memo[0] = r->m[i].memo[1] = NULL;
}

/* ---- what is folded ---------------------------------------------------------------------------------------------------- */

static const fx_sexpr *lowest(fx_row_region *r, fx_dtype d, bool highest)
{
    static const int64_t low[] = {[FX_I8] = INT8_MIN, [FX_I16] = INT16_MIN, [FX_I32] = INT32_MIN, [FX_I64] = INT64_MIN, [FX_U8] = 0, [FX_BOOL] = 0};
    static const int64_t high[] = {[FX_I8] = INT8_MAX, [FX_I16] = INT16_MAX, [FX_I32] = INT32_MAX, [FX_I64] = INT64_MAX, [FX_U8] = 255, [FX_BOOL] = 1};
    if (fx_dtype_is_float(d))
        return num(r, d, highest ? INFINITY : -INFINITY);
    return fx_s_int(r->b->p, d, highest ? high[d] : low[d]);
}

static void add_fold(fx_row_region *r, int i, int part, int pass, fx_sop op, fx_dtype dtype, const fx_sexpr *start)
{
    r->fold[r->n_folds++] = (fx_row_fold){i, part, pass, op, dtype, start, -1, -1};
    r->n_passes = pass + 1 > r->n_passes ? pass + 1 : r->n_passes;
}

static bool wants_more_than_mean(const fx_node *n)
{
    bool more = n->op->id != FX_OP_native_layer_norm;
    for (const fx_use *u = n->first_use; u && !more; u = u->next)
        more = u->user->opcode != FX_CALL_FUNCTION || u->user->op->id != FX_OP_getitem || fx_node_int(u->user, 1) != 1;
    return more;
}

/* The folds of member i, whose input is known after `from` passes; how many passes until its value is. */
int fx_row_find_folds(fx_row_region *r, int i, int from)
{
    fx_node *n = r->m[i].node;
    fx_dtype out = n->type->kind == FX_TYPE_TENSOR ? n->type->dtype : n->type->items[0]->dtype, t = fx_row_wide(out);
    switch (n->op->id) {
    case FX_OP_sum_dim_IntList:
    case FX_OP_mean_dim:
        add_fold(r, i, 0, from, FX_S_add, t, num(r, t, 0));
        return from + 1;
    case FX_OP_prod_dim_int:
        add_fold(r, i, 0, from, FX_S_mul, t, num(r, t, 1));
        return from + 1;
    case FX_OP_amax:
    case FX_OP_amin:
        add_fold(r, i, 0, from, n->op->id == FX_OP_amax ? FX_S_max : FX_S_min, out, lowest(r, out, n->op->id == FX_OP_amin));
        return from + 1;
    case FX_OP_any_dim:
        add_fold(r, i, 0, from, FX_S_or, FX_BOOL, num(r, FX_BOOL, 0));
        return from + 1;
    case FX_OP_var_correction: /* part 1: the mean */
    case FX_OP_native_layer_norm:
        t = n->op->id == FX_OP_var_correction ? t : fx_row_norm_dtype(n);
        add_fold(r, i, 1, from, FX_S_add, t, num(r, t, 0));
        if (wants_more_than_mean(n))
            add_fold(r, i, 2, from + 1, FX_S_add, t, num(r, t, 0));
        return from + 2;
    case FX_OP__softmax:
    case FX_OP__log_softmax:
        t = fx_row_norm_dtype(n);
        add_fold(r, i, 1, from, FX_S_max, t, num(r, t, -INFINITY));
        add_fold(r, i, 2, from + 1, FX_S_add, t, num(r, t, 0));
        return from + 2;
    default: /* RMS norm */
        t = fx_row_norm_dtype(n);
        add_fold(r, i, 1, from, FX_S_add, t, num(r, t, 0));
        return from + 1;
    }
}

bool fx_row_has_elements(fx_row_region *r)
{
    bool some = true;
    for (int i = 0; i < r->s->rank; i++)
        some = some && (!r->s->gone[i] || fx_build_at_least(r->b, r->s->dims[i], 1));
    return some;
}

/* What a fold adds for the current element. */
const fx_sexpr *fx_row_fold_value(fx_row_region *r, const fx_row_fold *f)
{
    fx_node *n = r->m[f->member].node;
    fx_node *x = fx_node_input(n, 0);
    if (fx_row_is_softmax(n))
        return f->part == 1 ? norm_input(r, n) : fx_row_full(r, f->member, 1);
    if (n->op->id == FX_OP_any_dim) {
        const fx_sexpr *v = fx_row_value_of(r, x);
        return v->dtype == FX_BOOL ? v : fx_s_op(r->b->p, FX_S_ne, FX_BOOL, v, num(r, v->dtype, 0), NULL);
    }
    if (n->op->id == FX_OP_var_correction || n->op->id == FX_OP_native_layer_norm) {
        const fx_sexpr *v = fx_row_cast(r, f->dtype, fx_row_value_of(r, x));
        if (f->part == 1) /* less the row's first element, so that the mean of equal elements is exact */
            return fx_row_has_elements(r) ? fx_row_op2(r, FX_S_sub, v, fx_row_stat_value(r, &r->m[f->member].stat[0])) : v;
        const fx_sexpr *d = fx_build_share(r->b, fx_row_op2(r, FX_S_sub, v, fx_row_stat_value(r, &r->m[f->member].stat[1])));
        return fx_row_op2(r, FX_S_mul, d, d);
    }
    if (n->op->id == FX_OP__fused_rms_norm) {
        const fx_sexpr *v = fx_build_share(r->b, norm_input(r, n));
        return fx_row_op2(r, FX_S_mul, v, v);
    }
    /* sums convert to the result's dtype first, then to the accumulator's */
    return fx_row_cast(r, f->dtype, fx_row_cast(r, n->type->dtype, fx_row_value_of(r, x)));
}

/* From the accumulator to the result a row. */
void fx_row_finish_fold(fx_row_region *r, const fx_row_fold *f, const fx_sexpr *acc)
{
    fx_row_member *m = &r->m[f->member];
    fx_node *n = m->node;
    fx_dtype t = f->dtype;
    switch (n->op->id) {
    case FX_OP_mean_dim:
        fx_row_set_stat(r, &m->stat[0], fx_row_op2(r, FX_S_div, acc, row_count(r, t)));
        return;
    case FX_OP_var_correction:
    case FX_OP_native_layer_norm: {
        if (f->part == 1) {
            const fx_sexpr *mean = fx_row_op2(r, FX_S_div, acc, row_count(r, t));
            fx_row_set_stat(r, &m->stat[1], fx_row_has_elements(r) ? fx_row_op2(r, FX_S_add, fx_row_stat_value(r, &m->stat[0]), mean) : mean);
            return;
        }
        if (n->op->id == FX_OP_native_layer_norm) {
            const fx_sexpr *var = fx_row_op2(r, FX_S_add, fx_row_op2(r, FX_S_div, acc, row_count(r, t)), num(r, t, fx_node_float(n, 4)));
            fx_row_set_stat(r, &m->stat[2], fx_row_op2(r, FX_S_div, num(r, t, 1), op1(r, FX_S_sqrt, var)));
            return;
        }
        int p = fx_node_param(n, "correction");
        const fx_sexpr *by = fx_row_op2(r, FX_S_sub, row_count(r, t), num(r, t, fx_node_is_none(n, p) ? 1 : fx_node_float(n, p)));
        fx_row_set_stat(r, &m->stat[2], fx_row_op2(r, FX_S_div, acc, fx_row_op2(r, FX_S_max, by, num(r, t, 0))));
        return;
    }
    case FX_OP__fused_rms_norm: {
        double eps = fx_node_is_none(n, 3) ? (t == FX_F64 ? 0x1p-52 : 0x1p-23) : fx_node_float(n, 3);
        const fx_sexpr *mean = fx_row_op2(r, FX_S_add, fx_row_op2(r, FX_S_div, acc, row_count(r, t)), num(r, t, eps));
        fx_row_set_stat(r, &m->stat[1], fx_row_op2(r, FX_S_div, num(r, t, 1), op1(r, FX_S_sqrt, mean)));
        return;
    }
    case FX_OP__log_softmax:
        fx_row_set_stat(r, &m->stat[f->part], f->part == 2 ? op1(r, FX_S_log, acc) : acc);
        return;
    default:
        fx_row_set_stat(r, &m->stat[f->part], acc);
    }
}
