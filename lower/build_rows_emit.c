/* lower/build_rows_emit.c: the step of a region of rows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Outer loops over the dims that stay; inside, passes over the row: each pass folds what the passes before it allow and stores the
 * elements that are known by then; between passes the results a row (statistics) are computed once. Sums that are folded along memory
 * have `lanes` partial accumulators, combined pairwise at the end; when memory runs along a dim that stays, that many rows are done at
 * a time. An element that costs much and is needed in several passes is kept: in its own result, in the result that is stored last, or
 * in an array when the row is small. */
#include <math.h>
#include <string.h>

#include "lower/build_rows.h"

enum { PARTS = 3, MOST_REDUCES = 2 * FX_ROWS_MEMBERS, MOST_ACCESSES = FX_ROWS_LEAVES + FX_ROWS_OUTPUTS, KEPT_BYTES = 16384 };

/* How a leaf's dims meet the rows': by their ends, or (DROPPED) as those of a result without the dims that go. */
typedef struct leaf {
    fx_node *node;
    bool dropped;
} leaf;

/* A result a row: a local, or an array over the rows that are done at a time. */
typedef struct stat {
    fx_dtype dtype;
    int local, buf;
} stat;

typedef struct fold {
    int member, part, pass;
    fx_sop op;
    fx_dtype dtype;            /* of the accumulator */
    const fx_sexpr *start;
    int local, buf;            /* the accumulator */
} fold;

typedef struct output {
    int member, part;          /* part: which result of a norm */
    fx_row_class cls;
    fx_window w;
    int access;
} output;

typedef struct member {
    fx_node *node;
    fx_row_class cls;
    int avail;                 /* passes that must be done before its value is known */
    stat stat[PARTS];          /* 0: its own; norms and variance: others */
    unsigned needed;           /* passes that compute it, as bits */
    bool costly;
    /* kept[0]: its value; kept[1]: a softmax's exponentials */
    struct { bool on; int pass, access, buf; } kept[2];
    const fx_sexpr *memo[2];   /* in the loop body being made */
} member;

typedef struct rows {
    fx_build *b;
    fx_node *root;
    const fx_row_shape *s;
    member m[FX_ROWS_MEMBERS];
    int n;
    leaf leaf[FX_ROWS_LEAVES];
    int n_leaves;
    output out[FX_ROWS_OUTPUTS];
    int n_outs;
    fold fold[MOST_REDUCES];
    int n_folds, n_passes;
    /* accesses: leaves, then outputs; by the dims that stay and those that go */
    fx_nest_access stay_access[MOST_ACCESSES], row_access[MOST_ACCESSES];
    fx_nest stay, row;
    fx_affine stay_at[FX_MAX_RANK], row_at[FX_MAX_RANK]; /* where the code being made is */
    bool batched;              /* several rows at a time */
    int lanes;                 /* accumulators (1: a local), or rows at a time */
    fx_dim n_lanes;            /* batched: of the rows being done */
    fx_affine lane;            /* the lane of the loop being made */
    fx_affine base;            /* batched: the first of the rows at a time */
    int pass;
    bool stat_context;
    int64_t kept_bytes;
    fx_status status;
} rows;

/* ---- small parts ---------------------------------------------------------------------------------------------------- */

static fx_stmt *append(fx_build *b, fx_stmt_kind kind)
{
    fx_stmt *s = fx_stmt_new(b->p, kind);
    *b->tail = s;
    b->tail = &s->next;
    return s;
}

static fx_stmt *open_loop(rows *r, fx_dim extent, fx_loop_kind kind, const char *hint)
{
    fx_build *b = r->b;
    fx_stmt *s = append(b, FX_ST_LOOP);
    s->var = b->n_vars++;
    s->extent = extent;
    s->loop = kind;
    s->hint = hint;
    b->tail = &s->body;
    return s;
}

static void close_loop(rows *r, fx_stmt *s)
{
    r->b->tail = &s->next;
}

static fx_affine variable(rows *r, int var)
{
    fx_affine a = fx_affine_const(0);
    fx_affine_add(r->b->ctx, &a, var, fx_dim_of(1));
    return a;
}

/* a += factor * b */
static void add_scaled(rows *r, fx_affine *a, const fx_affine *by, fx_dim factor)
{
    fx_context *ctx = r->b->ctx;
    if (fx_dim_is(factor, 0))
        return;
    a->base = fx_dim_add(ctx, a->base, fx_dim_mul(ctx, by->base, factor));
    for (int i = 0; i < by->n; i++)
        fx_affine_add(ctx, a, by->var[i], fx_dim_mul(ctx, by->coef[i], factor));
}

static fx_affine index_of(rows *r, int access)
{
    fx_affine a = fx_affine_dim(r->stay_access[access].offset);
    for (int i = 0; i < r->stay.n; i++)
        add_scaled(r, &a, &r->stay_at[i], r->stay_access[access].strides[i]);
    for (int i = 0; i < r->row.n; i++)
        add_scaled(r, &a, &r->row_at[i], r->row_access[access].strides[i]);
    return a;
}

/* Where an array over the row's elements holds the current one. */
static fx_affine row_index(rows *r)
{
    fx_affine a = fx_affine_const(0);
    int64_t stride = 1;
    for (int i = r->row.n - 1; i >= 0; i--) {
        add_scaled(r, &a, &r->row_at[i], fx_dim_of(stride));
        stride *= r->row.extent[i].value;
    }
    return a;
}

static const fx_sexpr *op2(rows *r, fx_sop op, const fx_sexpr *a, const fx_sexpr *c)
{
    return fx_s_op(r->b->p, op, a->dtype, a, c, NULL);
}

static const fx_sexpr *op1(rows *r, fx_sop op, const fx_sexpr *a)
{
    return fx_s_op(r->b->p, op, a->dtype, a, NULL, NULL);
}

static const fx_sexpr *cast(rows *r, fx_dtype dtype, const fx_sexpr *a)
{
    return fx_s_cast(r->b->p, dtype, a);
}

static const fx_sexpr *num(rows *r, fx_dtype dtype, double v)
{
    return fx_s_const(r->b->p, dtype, v);
}

/* What sums, means and norms of a dtype are computed in. */
static fx_dtype wide(fx_dtype d)
{
    return d == FX_F16 || d == FX_BF16 ? FX_F32 : d;
}

/* Elements of a row, as a number of the dtype. */
static const fx_sexpr *row_count(rows *r, fx_dtype dtype)
{
    fx_dim n = fx_dim_of(1);
    for (int i = 0; i < r->s->rank; i++)
        n = r->s->gone[i] ? fx_dim_mul(r->b->ctx, n, r->s->dims[i]) : n;
    if (fx_dim_known(n))
        return num(r, dtype, (double)n.value);
    fx_affine a = fx_affine_dim(n);
    return cast(r, dtype, fx_s_index(r->b->p, &a));
}

static int local_array(rows *r, const char *name, fx_dtype dtype, int64_t n)
{
    fx_dim dim = fx_dim_of(n);
    int buf = fx_program_buf(r->b->p, FX_BUF_LOCAL, name, dtype, 1, &dim);
    append(r->b, FX_ST_ARRAY)->buf = buf;
    return buf;
}

static int member_at(const rows *r, const fx_node *n)
{
    for (int i = 0; i < r->n; i++) {
        if (r->m[i].node == n)
            return i;
    }
    return -1;
}

static bool is_result(const rows *r, const fx_node *n)
{
    return n->op->id == FX_OP_getitem && member_at(r, fx_node_input(n, 0)) >= 0;
}

static bool is_norm(const fx_node *n)
{
    return fx_row_is_norm(n);
}

static bool is_softmax(const fx_node *n)
{
    return n->op->id == FX_OP__softmax || n->op->id == FX_OP__log_softmax;
}

/* What a norm computes in. */
static fx_dtype norm_dtype(const fx_node *n)
{
    fx_dtype in = fx_node_input(n, 0)->type->dtype, out = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0]->dtype : n->type->dtype;
    return in == FX_F64 || out == FX_F64 ? FX_F64 : FX_F32;
}

/* ---- results a row --------------------------------------------------------------------------------------------------- */

static const fx_sexpr *stat_value(rows *r, const stat *s)
{
    return r->batched ? fx_s_load(r->b->p, s->buf, &r->lane) : fx_s_local(r->b->p, s->local, s->dtype);
}

/* Batched: the array must be there before the loop over the lanes. */
static void declare(rows *r, stat *s, fx_dtype dtype)
{
    s->dtype = dtype;
    if (r->batched)
        s->buf = local_array(r, "stat", dtype, r->lanes);
}

static void set_stat(rows *r, stat *s, const fx_sexpr *e)
{
    fx_build *b = r->b;
    if (r->batched) {
        fx_stmt *store = append(b, FX_ST_STORE);
        store->buf = s->buf;
        store->index = r->lane;
        store->value = cast(r, s->dtype, e);
        return;
    }
    fx_stmt *local = append(b, FX_ST_LOCAL);
    local->local = s->local = b->n_locals++;
    local->value = cast(r, s->dtype, e);
}

/* The statistic that is the value of a member, or of a norm's result `part`. */
static stat *own_stat(rows *r, int i, int part)
{
    member *m = &r->m[i];
    if (is_result(r, m->node))
        return &r->m[member_at(r, fx_node_input(m->node, 0))].stat[fx_node_int(m->node, 1)];
    return &m->stat[m->node->op->id == FX_OP_var_correction ? 2 : part];
}

/* ---- elements ---------------------------------------------------------------------------------------------------------- */

static const fx_sexpr *full(rows *r, int i, int part);

static const fx_sexpr *value_of(void *user, fx_node *n)
{
    rows *r = user;
    int i = member_at(r, n);
    if (i >= 0)
        return r->m[i].cls == FX_ROW_STAT ? stat_value(r, own_stat(r, i, 0)) : full(r, i, 0);
    const fx_sexpr *number = fx_build_number(r->b, n);
    if (number)
        return number;
    for (int k = 0; k < r->n_leaves; k++) {
        if (r->leaf[k].node == n && r->leaf[k].dropped == r->stat_context) {
            fx_affine at = index_of(r, k);
            return fx_s_load(r->b->p, r->stay_access[k].buf, &at);
        }
    }
    return fx_s_const(r->b->p, n->type->dtype, NAN); /* not reached: all leaves were found before */
}

static const fx_sexpr *norm_input(rows *r, const fx_node *n)
{
    return cast(r, norm_dtype(n), value_of(r, fx_node_input(n, 0)));
}

/* The value of a norm: part 1 of a softmax is exp(x - max). */
static const fx_sexpr *norm_value(rows *r, int i, int part)
{
    fx_node *n = r->m[i].node;
    fx_dtype t = norm_dtype(n), out = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0]->dtype : n->type->dtype;
    const fx_sexpr *s1 = stat_value(r, &r->m[i].stat[1]);
    if (is_softmax(n)) {
        if (part == 1)
            return op1(r, FX_S_exp, op2(r, FX_S_sub, norm_input(r, n), s1));
        const fx_sexpr *s2 = stat_value(r, &r->m[i].stat[2]);
        if (n->op->id == FX_OP__softmax)
            return cast(r, out, op2(r, FX_S_div, full(r, i, 1), s2));
        return cast(r, out, op2(r, FX_S_sub, op2(r, FX_S_sub, norm_input(r, n), s1), s2));
    }
    bool layer = n->op->id == FX_OP_native_layer_norm;
    const fx_sexpr *e = norm_input(r, n);
    e = layer ? op2(r, FX_S_mul, op2(r, FX_S_sub, e, s1), stat_value(r, &r->m[i].stat[2])) : op2(r, FX_S_mul, e, s1);
    for (int p = 2; p <= 2 + layer; p++) {
        fx_node *w = fx_node_input(n, p);
        if (w)
            e = op2(r, p == 2 ? FX_S_mul : FX_S_add, e, cast(r, t, value_of(r, w)));
    }
    return cast(r, out, e);
}

static const fx_sexpr *full(rows *r, int i, int part)
{
    member *m = &r->m[i];
    fx_build *b = r->b;
    if (m->memo[part])
        return m->memo[part];
    const fx_sexpr *e = NULL;
    if (m->kept[part].on && r->pass > m->kept[part].pass) {
        fx_affine at = m->kept[part].buf >= 0 ? row_index(r) : index_of(r, m->kept[part].access);
        e = fx_s_load(b->p, m->kept[part].buf >= 0 ? m->kept[part].buf : r->stay_access[m->kept[part].access].buf, &at);
    } else if (is_norm(m->node)) {
        e = norm_value(r, i, part);
    } else if (is_result(r, m->node)) {
        e = full(r, member_at(r, fx_node_input(m->node, 0)), 0);
    } else {
        fx_status st = fx_build_expr(b, m->node, value_of, r, &e);
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

static void forget(rows *r)
{
    for (int i = 0; i < r->n; i++)
        r->m[i].memo[0] = r->m[i].memo[1] = NULL;
}

/* ---- what is folded ---------------------------------------------------------------------------------------------------- */

static const fx_sexpr *lowest(rows *r, fx_dtype d, bool highest)
{
    static const int64_t low[] = {[FX_I8] = INT8_MIN, [FX_I16] = INT16_MIN, [FX_I32] = INT32_MIN, [FX_I64] = INT64_MIN, [FX_U8] = 0, [FX_BOOL] = 0};
    static const int64_t high[] = {[FX_I8] = INT8_MAX, [FX_I16] = INT16_MAX, [FX_I32] = INT32_MAX, [FX_I64] = INT64_MAX, [FX_U8] = 255, [FX_BOOL] = 1};
    if (fx_dtype_is_float(d))
        return num(r, d, highest ? INFINITY : -INFINITY);
    return fx_s_int(r->b->p, d, highest ? high[d] : low[d]);
}

static void add_fold(rows *r, int i, int part, int pass, fx_sop op, fx_dtype dtype, const fx_sexpr *start)
{
    r->fold[r->n_folds++] = (fold){i, part, pass, op, dtype, start, -1, -1};
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
static int find_folds(rows *r, int i, int from)
{
    fx_node *n = r->m[i].node;
    fx_dtype out = n->type->kind == FX_TYPE_TENSOR ? n->type->dtype : n->type->items[0]->dtype, t = wide(out);
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
        t = n->op->id == FX_OP_var_correction ? t : norm_dtype(n);
        add_fold(r, i, 1, from, FX_S_add, t, num(r, t, 0));
        if (wants_more_than_mean(n))
            add_fold(r, i, 2, from + 1, FX_S_add, t, num(r, t, 0));
        return from + 2;
    case FX_OP__softmax:
    case FX_OP__log_softmax:
        t = norm_dtype(n);
        add_fold(r, i, 1, from, FX_S_max, t, num(r, t, -INFINITY));
        add_fold(r, i, 2, from + 1, FX_S_add, t, num(r, t, 0));
        return from + 2;
    default: /* RMS norm */
        t = norm_dtype(n);
        add_fold(r, i, 1, from, FX_S_add, t, num(r, t, 0));
        return from + 1;
    }
}

static bool has_rows_of_one_or_more(rows *r)
{
    bool some = true;
    for (int i = 0; i < r->s->rank; i++)
        some = some && (!r->s->gone[i] || fx_build_at_least(r->b, r->s->dims[i], 1));
    return some;
}

/* What a fold adds for the current element. */
static const fx_sexpr *fold_value(rows *r, const fold *f)
{
    fx_node *n = r->m[f->member].node;
    fx_node *x = fx_node_input(n, 0);
    if (is_softmax(n))
        return f->part == 1 ? norm_input(r, n) : full(r, f->member, 1);
    if (n->op->id == FX_OP_any_dim) {
        const fx_sexpr *v = value_of(r, x);
        return v->dtype == FX_BOOL ? v : fx_s_op(r->b->p, FX_S_ne, FX_BOOL, v, num(r, v->dtype, 0), NULL);
    }
    if (n->op->id == FX_OP_var_correction || n->op->id == FX_OP_native_layer_norm) {
        const fx_sexpr *v = cast(r, f->dtype, value_of(r, x));
        if (f->part == 1) /* less the row's first element, so that the mean of equal elements is exact */
            return has_rows_of_one_or_more(r) ? op2(r, FX_S_sub, v, stat_value(r, &r->m[f->member].stat[0])) : v;
        const fx_sexpr *d = fx_build_share(r->b, op2(r, FX_S_sub, v, stat_value(r, &r->m[f->member].stat[1])));
        return op2(r, FX_S_mul, d, d);
    }
    if (n->op->id == FX_OP__fused_rms_norm) {
        const fx_sexpr *v = fx_build_share(r->b, norm_input(r, n));
        return op2(r, FX_S_mul, v, v);
    }
    /* sums convert to the result's dtype first, then to the accumulator's */
    return cast(r, f->dtype, cast(r, n->type->dtype, value_of(r, x)));
}

/* From the accumulator to the result a row. */
static void finish_fold(rows *r, const fold *f, const fx_sexpr *acc)
{
    member *m = &r->m[f->member];
    fx_node *n = m->node;
    fx_dtype t = f->dtype;
    switch (n->op->id) {
    case FX_OP_mean_dim:
        set_stat(r, &m->stat[0], op2(r, FX_S_div, acc, row_count(r, t)));
        return;
    case FX_OP_var_correction:
    case FX_OP_native_layer_norm: {
        if (f->part == 1) {
            const fx_sexpr *mean = op2(r, FX_S_div, acc, row_count(r, t));
            set_stat(r, &m->stat[1], has_rows_of_one_or_more(r) ? op2(r, FX_S_add, stat_value(r, &m->stat[0]), mean) : mean);
            return;
        }
        if (n->op->id == FX_OP_native_layer_norm) {
            const fx_sexpr *var = op2(r, FX_S_add, op2(r, FX_S_div, acc, row_count(r, t)), num(r, t, fx_node_float(n, 4)));
            set_stat(r, &m->stat[2], op2(r, FX_S_div, num(r, t, 1), op1(r, FX_S_sqrt, var)));
            return;
        }
        int p = fx_node_param(n, "correction");
        const fx_sexpr *by = op2(r, FX_S_sub, row_count(r, t), num(r, t, fx_node_is_none(n, p) ? 1 : fx_node_float(n, p)));
        set_stat(r, &m->stat[2], op2(r, FX_S_div, acc, op2(r, FX_S_max, by, num(r, t, 0))));
        return;
    }
    case FX_OP__fused_rms_norm: {
        double eps = fx_node_is_none(n, 3) ? (t == FX_F64 ? 0x1p-52 : 0x1p-23) : fx_node_float(n, 3);
        const fx_sexpr *mean = op2(r, FX_S_add, op2(r, FX_S_div, acc, row_count(r, t)), num(r, t, eps));
        set_stat(r, &m->stat[1], op2(r, FX_S_div, num(r, t, 1), op1(r, FX_S_sqrt, mean)));
        return;
    }
    case FX_OP__log_softmax:
        set_stat(r, &m->stat[f->part], f->part == 2 ? op1(r, FX_S_log, acc) : acc);
        return;
    default:
        set_stat(r, &m->stat[f->part], acc);
    }
}

/* ---- analysis ----------------------------------------------------------------------------------------------------------- */

static bool costs(const fx_node *n)
{
    switch (n->op->id) {
    case FX_OP_exp: case FX_OP_expm1: case FX_OP_log: case FX_OP_log1p: case FX_OP_sin: case FX_OP_cos: case FX_OP_erf: case FX_OP_tanh:
    case FX_OP_sigmoid: case FX_OP_silu: case FX_OP_gelu: case FX_OP_elu: case FX_OP_softplus: case FX_OP_mish: case FX_OP_pow_Tensor_Tensor:
    case FX_OP_sqrt: case FX_OP_rsqrt:
        return true;
    default:
        return false;
    }
}

static void analyse(rows *r)
{
    for (int i = 0; i < r->n; i++) {
        member *m = &r->m[i];
        m->cls = fx_row_class_of(r->s, m->node);
        m->kept[0].buf = m->kept[1].buf = -1;
        m->costly = costs(m->node) || is_norm(m->node);
        for (int k = 0; k < m->node->n_operands; k++) {
            int d = member_at(r, m->node->operands[k].def);
            if (d < 0)
                continue;
            m->avail = r->m[d].avail > m->avail ? r->m[d].avail : m->avail;
            m->costly |= r->m[d].cls == FX_ROW_FULL && r->m[d].costly;
        }
        if (fx_row_is_fold(m->node) || is_norm(m->node))
            m->avail = find_folds(r, i, m->avail);
    }
}

/* Which passes compute the elements of member i. */
static void need(rows *r, int i, int pass)
{
    member *m = &r->m[i];
    if (m->cls != FX_ROW_FULL || (m->needed >> pass & 1) || pass > 30)
        return;
    m->needed |= 1u << pass;
    for (int k = 0; k < m->node->n_operands; k++) {
        int d = member_at(r, m->node->operands[k].def);
        if (d >= 0)
            need(r, d, pass);
    }
}

static int output_of(const rows *r, int i)
{
    for (int o = 0; o < r->n_outs; o++) {
        if (r->out[o].member == i && r->out[o].cls == FX_ROW_FULL && r->out[o].part == 0)
            return o;
    }
    return -1;
}

/* Passes whose elements member i's own result or a reduction needs; then what is kept, and where. */
static void decide_kept(rows *r)
{
    for (int f = 0; f < r->n_folds; f++) {
        int d = member_at(r, fx_node_input(r->m[r->fold[f].member].node, 0));
        if (d >= 0)
            need(r, d, r->fold[f].pass);
    }
    int last = -1; /* the full result that is stored last */
    for (int o = 0; o < r->n_outs; o++) {
        const output *out = &r->out[o];
        if (out->cls != FX_ROW_FULL)
            continue;
        need(r, out->member, r->m[out->member].avail);
        if (last < 0 || r->m[out->member].avail > r->m[r->out[last].member].avail)
            last = o;
    }
    bool lent = false;
    int64_t row = 1;
    for (int i = 0; i < r->row.n; i++)
        row = row < 0 || r->row.extent[i].sym || r->row.extent[i].value > KEPT_BYTES ? -1 : row * r->row.extent[i].value;
    for (int i = 0; i < r->n; i++) {
        member *m = &r->m[i];
        if (m->cls != FX_ROW_FULL)
            continue;
        int own = output_of(r, i), many = (m->needed & (m->needed - 1)) != 0;
        if (own >= 0) { /* stored when first known; read back in later passes */
            m->kept[0].on = true;
            m->kept[0].pass = m->avail;
            m->kept[0].access = r->out[own].access;
        }
        bool exponentials = m->node->op->id == FX_OP__softmax;
        int part = exponentials ? 1 : 0;
        if (!(exponentials || (many && m->costly && own < 0)))
            continue;
        fx_dtype t = exponentials ? norm_dtype(m->node) : m->node->type->dtype;
        int since = exponentials ? m->avail - 1 : m->avail;
        int64_t bytes = row < 0 ? -1 : row * (int64_t)fx_dtype_size(t);
        if (last >= 0 && !lent && r->out[last].w.dtype == t && r->m[r->out[last].member].avail > since) {
            m->kept[part].access = r->out[last].access;
            lent = true;
        } else if (!r->batched && bytes >= 0 && r->kept_bytes + bytes <= KEPT_BYTES) {
            r->kept_bytes += bytes;
            m->kept[part].buf = -2; /* declared with the row */
        } else {
            continue;
        }
        m->kept[part].on = true;
        m->kept[part].pass = since;
    }
}

/* ---- where things lie ------------------------------------------------------------------------------------------------------ */

/* Strides by the rows' dims. */
static void aligned(const rows *r, const fx_window *v, bool dropped, fx_dim *strides)
{
    int map[FX_MAX_RANK], n = 0;
    for (int i = 0; i < r->s->rank; i++) {
        strides[i] = fx_dim_of(0);
        if (!dropped || !r->s->gone[i])
            map[n++] = i;
    }
    for (int i = 0; i < v->rank; i++) {
        int at = n - v->rank + i;
        if (at >= 0 && !fx_dim_is(v->dims[i], 1))
            strides[map[at]] = v->strides[i];
    }
}

static void add_access(rows *r, int access, const fx_window *v, bool dropped)
{
    fx_dim strides[FX_MAX_RANK];
    int stay = 0, gone = 0;
    aligned(r, v, dropped, strides);
    r->stay_access[access] = (fx_nest_access){.buf = v->buf, .offset = v->offset};
    r->row_access[access] = (fx_nest_access){.buf = v->buf};
    for (int i = 0; i < r->s->rank; i++) {
        if (r->s->gone[i])
            r->row_access[access].strides[gone++] = strides[i];
        else
            r->stay_access[access].strides[stay++] = strides[i];
    }
}

static bool is_dropped(const rows *r, const member *m)
{
    return m->cls == FX_ROW_STAT && m->node->type->kind == FX_TYPE_TENSOR && m->node->type->rank != r->s->rank;
}

static fx_status find_leaves(rows *r)
{
    fx_build *b = r->b;
    for (int i = 0; i < r->n; i++) {
        const member *m = &r->m[i];
        for (int k = 0; k < m->node->n_operands; k++) {
            fx_node *d = m->node->operands[k].def;
            bool dropped = !fx_row_is_fold(m->node) && is_dropped(r, m);
            int at = 0;
            if (member_at(r, d) >= 0 || fx_build_number(b, d))
                continue;
            while (at < r->n_leaves && (r->leaf[at].node != d || r->leaf[at].dropped != dropped))
                at++;
            if (at < r->n_leaves)
                continue;
            if (at == FX_ROWS_LEAVES)
                return fx_fail(b->ctx, FX_INTERNAL, &r->root->loc, "a region of rows reads more than %d tensors", FX_ROWS_LEAVES);
            fx_window v;
            FX_TRY(fx_build_value(b, d, &v));
            r->leaf[r->n_leaves++] = (leaf){d, dropped};
            add_access(r, at, &v, dropped);
        }
    }
    return FX_OK;
}

/* The tensor whose order in memory the loops follow. */
static bool main_window(rows *r, fx_window *v)
{
    for (int constants = 0; constants < 2; constants++) {
        for (int k = 0; k < r->n_leaves; k++) {
            const fx_type *t = r->leaf[k].node->type;
            bool same = !r->leaf[k].dropped && t->kind == FX_TYPE_TENSOR && t->rank == r->s->rank && (constants || !fx_build_is_constant(r->leaf[k].node));
            for (int i = 0; same && i < t->rank; i++)
                same = fx_dim_equal(t->dims[i], r->s->dims[i]);
            if (same)
                return fx_build_value(r->b, r->leaf[k].node, v) == FX_OK;
        }
    }
    return false;
}

static fx_status add_output(rows *r, int i, int part, fx_node *at, const fx_window *like)
{
    fx_build *b = r->b;
    if (r->n_outs == FX_ROWS_OUTPUTS)
        return fx_fail(b->ctx, FX_INTERNAL, &r->root->loc, "a region of rows writes more than %d tensors", FX_ROWS_OUTPUTS);
    output *o = &r->out[r->n_outs];
    bool stat = part > 0 || r->m[i].cls == FX_ROW_STAT;
    *o = (output){.member = i, .part = part, .cls = stat ? FX_ROW_STAT : FX_ROW_FULL, .access = r->n_leaves + r->n_outs};
    FX_TRY(fx_build_place(b, at, stat ? NULL : like, &o->w));
    add_access(r, o->access, &o->w, o->cls == FX_ROW_STAT && o->w.rank != r->s->rank);
    r->n_outs++;
    return FX_OK;
}

/* Members that others use are stored: their results' getitems give norms their places. */
static fx_status find_outputs(rows *r, const fx_window *like)
{
    fx_build *b = r->b;
    for (int i = 0; i < r->n; i++) {
        fx_node *n = r->m[i].node;
        bool tuple = n->type->kind == FX_TYPE_TUPLE;
        if (tuple) {
            b->results[n->id] = FX_NEW_ARRAY(b->scratch, fx_window, n->type->n);
            for (int k = 0; k < n->type->n; k++)
                b->results[n->id][k].buf = -1;
        }
        bool outside = false;
        for (const fx_use *u = n->first_use; u; u = u->next) {
            if (member_at(r, u->user) >= 0)
                continue;
            outside = true;
            int k = tuple && u->user->opcode == FX_CALL_FUNCTION ? (int)fx_node_int(u->user, 1) : 0;
            if (!tuple || b->results[n->id][k].buf >= 0)
                continue;
            FX_TRY(add_output(r, i, k, u->user, like));
            b->results[n->id][k] = r->out[r->n_outs - 1].w;
        }
        if (outside && !tuple) {
            bool result = is_result(r, n);
            int from = result ? member_at(r, fx_node_input(n, 0)) : i;
            FX_TRY(add_output(r, from, result ? (int)fx_node_int(n, 1) : 0, n, like));
            b->value[n->id] = r->out[r->n_outs - 1].w;
        }
    }
    return FX_OK;
}

static void make_nests(rows *r, bool has_main, const fx_window *main)
{
    fx_build *b = r->b;
    fx_dim stay[FX_MAX_RANK], gone[FX_MAX_RANK];
    int order[FX_MAX_RANK], stay_order[FX_MAX_RANK], gone_order[FX_MAX_RANK], at[FX_MAX_RANK], n_stay = 0, n_gone = 0, s = 0, g = 0;
    for (int i = 0; i < r->s->rank; i++) {
        order[i] = i;
        at[i] = r->s->gone[i] ? n_gone : n_stay;
        if (r->s->gone[i])
            gone[n_gone++] = r->s->dims[i];
        else
            stay[n_stay++] = r->s->dims[i];
    }
    if (has_main)
        fx_window_order(b, main, order);
    for (int i = 0; i < r->s->rank; i++) {
        if (r->s->gone[order[i]])
            gone_order[g++] = at[order[i]];
        else
            stay_order[s++] = at[order[i]];
    }
    int n = r->n_leaves + r->n_outs;
    r->stay = fx_nest_make(b, n_stay, stay, stay_order, n, r->stay_access);
    r->row = fx_nest_make(b, n_gone, gone, gone_order, n, r->row_access);
}

/* How the rows are folded: see above. */
static void choose_lanes(rows *r)
{
    int main = 0, most = r->b->tile.lanes * 4;
    most = most < 8 ? 8 : most > 64 ? 64 : most;
    while (main < r->n_leaves && r->row.n > 0 && fx_dim_is(r->row_access[main].strides[r->row.n - 1], 0))
        main++;
    r->lanes = 1;
    if (main == r->n_leaves || r->row.n == 0)
        return;
    fx_dim along = r->row.extent[r->row.n - 1];
    if (fx_dim_is(r->row_access[main].strides[r->row.n - 1], 1)) {
        if (along.sym || along.value >= 8)
            r->lanes = most;
        while (!along.sym && r->lanes > 4 && r->lanes * 2 > along.value)
            r->lanes /= 2;
        return;
    }
    if (r->stay.n == 0 || !fx_dim_is(r->stay_access[main].strides[r->stay.n - 1], 1))
        return;
    fx_dim across = r->stay.extent[r->stay.n - 1];
    if (!across.sym && across.value < 4)
        return;
    r->batched = true;
    r->lanes = !across.sym && across.value < most ? (int)across.value : most;
}

/* ---- passes ------------------------------------------------------------------------------------------------------------- */

/* The loop over the rows done at a time; the body once where rows are done alone. */
static fx_stmt *open_lanes(rows *r)
{
    if (!r->batched)
        return NULL;
    fx_stmt *s = open_loop(r, r->n_lanes, FX_LOOP_VECTOR, "row");
    r->lane = variable(r, s->var);
    r->stay_at[r->stay.n - 1] = fx_affine_sum(r->b->ctx, &r->base, &r->lane);
    return s;
}

static void close_lanes(rows *r, fx_stmt *s)
{
    if (s)
        close_loop(r, s);
}

static void store(rows *r, int access, const fx_sexpr *e)
{
    fx_stmt *s = append(r->b, FX_ST_STORE);
    s->buf = r->stay_access[access].buf;
    s->index = index_of(r, access);
    s->value = cast(r, r->b->p->bufs[s->buf].dtype, e);
}

/* What a pass does with one element; at: which of the accumulators. */
static void element(rows *r, const fx_affine *at)
{
    fx_build *b = r->b;
    forget(r);
    for (int f = 0; f < r->n_folds; f++) {
        const fold *d = &r->fold[f];
        if (d->pass != r->pass)
            continue;
        const fx_sexpr *v = fold_value(r, d);
        if (d->buf >= 0) {
            fx_stmt *s = append(b, FX_ST_STORE);
            s->buf = d->buf;
            s->index = *at;
            s->value = op2(r, d->op, fx_s_load(b->p, d->buf, at), v);
        } else {
            fx_stmt *s = append(b, FX_ST_SET);
            s->local = d->local;
            s->value = op2(r, d->op, fx_s_local(b->p, d->local, d->dtype), v);
        }
    }
    for (int i = 0; i < r->n; i++) {
        for (int part = 1; part >= 0; part--) {
            member *m = &r->m[i];
            if (!m->kept[part].on || m->kept[part].pass != r->pass || (part == 0 && output_of(r, i) >= 0))
                continue;
            const fx_sexpr *v = full(r, i, part);
            if (m->kept[part].buf < 0) {
                store(r, m->kept[part].access, v);
                continue;
            }
            fx_stmt *s = append(b, FX_ST_STORE);
            s->buf = m->kept[part].buf;
            s->index = row_index(r);
            s->value = v;
        }
    }
    for (int o = 0; o < r->n_outs; o++) {
        const output *out = &r->out[o];
        if (out->cls == FX_ROW_FULL && r->m[out->member].avail == r->pass)
            store(r, out->access, full(r, out->member, 0));
    }
    forget(r);
}

static bool pass_folds(const rows *r)
{
    for (int f = 0; f < r->n_folds; f++) {
        if (r->fold[f].pass == r->pass)
            return true;
    }
    return false;
}

static bool pass_stores(const rows *r)
{
    bool any = false;
    for (int o = 0; o < r->n_outs; o++)
        any |= r->out[o].cls == FX_ROW_FULL && r->m[r->out[o].member].avail == r->pass;
    for (int i = 0; i < r->n; i++) {
        for (int part = 0; part < 2; part++)
            any |= r->m[i].kept[part].on && r->m[i].kept[part].pass == r->pass;
    }
    return any;
}

static void declare_accumulators(rows *r)
{
    fx_build *b = r->b;
    bool array = r->lanes > 1;
    for (int f = 0; f < r->n_folds; f++) {
        fold *d = &r->fold[f];
        if (d->pass != r->pass)
            continue;
        d->buf = d->local = -1;
        if (array) {
            d->buf = local_array(r, "acc", d->dtype, r->lanes);
            continue;
        }
        fx_stmt *s = append(b, FX_ST_LOCAL);
        s->local = d->local = b->n_locals++;
        s->value = d->start;
    }
    if (!array)
        return;
    fx_stmt *loop = r->batched ? open_lanes(r) : open_loop(r, fx_dim_of(r->lanes), FX_LOOP_VECTOR, "lane");
    fx_affine at = variable(r, loop->var);
    for (int f = 0; f < r->n_folds; f++) {
        const fold *d = &r->fold[f];
        if (d->pass != r->pass)
            continue;
        fx_stmt *s = append(b, FX_ST_STORE);
        s->buf = d->buf;
        s->index = at;
        s->value = d->start;
    }
    close_loop(r, loop);
}

/* Loops over the row's dims but the last `but`, outermost first; returns the outermost, or NULL. */
static fx_stmt *open_row(rows *r, int but)
{
    fx_stmt *first = NULL;
    for (int i = 0; i < r->row.n - but; i++) {
        bool last = i == r->row.n - 1;
        fx_loop_kind kind = last && !pass_folds(r) && !r->batched ? FX_LOOP_VECTOR : FX_LOOP_SERIAL;
        if (i == 0 && pass_folds(r) && r->b->opt->fault == FX_FAULT_PARALLEL_REDUCTION)
            kind = FX_LOOP_PARALLEL;
        fx_stmt *s = open_loop(r, r->row.extent[i], kind, r->row.hint[i]);
        r->row_at[i] = variable(r, s->var);
        first = first ? first : s;
    }
    return first;
}

static void close_row(rows *r, fx_stmt *first)
{
    if (first)
        close_loop(r, first);
}

/* The last dim of the row in pieces of `lanes` elements, then what is left. */
static void fold_in_lanes(rows *r)
{
    fx_context *ctx = r->b->ctx;
    int last = r->row.n - 1;
    fx_dim n = r->row.extent[last], size = fx_dim_of(r->lanes), whole = fx_dim_floordiv(ctx, n, size), rest = fx_dim_mod(ctx, n, size);
    fx_stmt *row = open_row(r, 1);
    if (!fx_dim_is(whole, 0)) {
        bool fault = !row && r->b->opt->fault == FX_FAULT_PARALLEL_REDUCTION;
        fx_stmt *outer = open_loop(r, whole, fault ? FX_LOOP_PARALLEL : FX_LOOP_SERIAL, r->row.hint[last]);
        fx_stmt *inner = open_loop(r, size, FX_LOOP_VECTOR, "lane");
        fx_affine lane = variable(r, inner->var);
        r->row_at[last] = lane;
        fx_affine_add(ctx, &r->row_at[last], outer->var, size);
        element(r, &lane);
        close_loop(r, inner);
        close_loop(r, outer);
    }
    if (!fx_dim_is(rest, 0)) {
        fx_stmt *left = open_loop(r, rest, FX_LOOP_VECTOR, "lane");
        fx_affine lane = variable(r, left->var);
        r->row_at[last] = fx_affine_dim(fx_dim_mul(ctx, whole, size));
        fx_affine_add(ctx, &r->row_at[last], left->var, fx_dim_of(1));
        element(r, &lane);
        close_loop(r, left);
    }
    close_row(r, row);
    for (int half = r->lanes / 2; half >= 1; half /= 2) {
        fx_stmt *loop = half > 1 ? open_loop(r, fx_dim_of(half), FX_LOOP_VECTOR, "lane") : NULL;
        fx_affine lane = loop ? variable(r, loop->var) : fx_affine_const(0), other = lane;
        other.base = fx_dim_of(half);
        for (int f = 0; f < r->n_folds; f++) {
            const fold *d = &r->fold[f];
            if (d->pass != r->pass)
                continue;
            fx_stmt *s = append(r->b, FX_ST_STORE);
            s->buf = d->buf;
            s->index = lane;
            s->value = op2(r, d->op, fx_s_load(r->b->p, d->buf, &lane), fx_s_load(r->b->p, d->buf, &other));
        }
        close_lanes(r, loop);
    }
}

static void run_pass(rows *r)
{
    bool folds = pass_folds(r);
    if (!folds && !pass_stores(r))
        return;
    if (folds)
        declare_accumulators(r);
    if (folds && r->lanes > 1 && !r->batched) {
        fold_in_lanes(r);
        return;
    }
    fx_stmt *row = open_row(r, 0), *lanes = open_lanes(r);
    element(r, &r->lane);
    close_lanes(r, lanes);
    close_row(r, row);
}

/* The first element of each row whose mean is wanted. */
static bool wants_first(const rows *r, int i, int pass)
{
    for (int f = 0; f < r->n_folds; f++) {
        const fold *d = &r->fold[f];
        fx_opid op = r->m[d->member].node->op->id;
        if (d->member == i && d->pass == pass && d->part == 1 && (op == FX_OP_var_correction || op == FX_OP_native_layer_norm))
            return true;
    }
    return false;
}

/* What is known of the rows after `done` passes and was not before. */
static void between_passes(rows *r, int done)
{
    fx_build *b = r->b;
    bool some = has_rows_of_one_or_more(r);
    for (int f = 0; f < r->n_folds; f++) {
        const fold *d = &r->fold[f];
        if (d->pass == done - 1) {
            fx_node *n = r->m[d->member].node;
            bool own = d->part == 0;
            declare(r, &r->m[d->member].stat[d->part], own ? n->type->dtype : d->dtype);
        }
    }
    for (int i = 0; i < r->n; i++) {
        member *m = &r->m[i];
        bool pointwise = m->cls == FX_ROW_STAT && !fx_row_is_fold(m->node) && !is_result(r, m->node);
        if ((pointwise && m->avail == done) || (some && wants_first(r, i, done)))
            declare(r, &m->stat[0], pointwise ? m->node->type->dtype : wide(fx_node_input(m->node, 0)->type->dtype));
    }
    fx_stmt *lanes = open_lanes(r);
    fx_affine zero = fx_affine_const(0);
    r->pass = done - 1;
    for (int f = 0; f < r->n_folds; f++) {
        fold *d = &r->fold[f];
        if (d->pass == done - 1)
            finish_fold(r, d, d->buf >= 0 ? fx_s_load(b->p, d->buf, r->batched ? &r->lane : &zero) : fx_s_local(b->p, d->local, d->dtype));
    }
    r->pass = done;
    for (int i = 0; i < r->n; i++) {
        member *m = &r->m[i];
        if (m->cls == FX_ROW_STAT && !fx_row_is_fold(m->node) && !is_result(r, m->node) && m->avail == done) {
            const fx_sexpr *e = NULL;
            r->stat_context = is_dropped(r, m);
            fx_status st = fx_build_expr(b, m->node, value_of, r, &e);
            r->stat_context = false;
            if (st != FX_OK)
                r->status = st;
            else
                set_stat(r, &m->stat[0], e);
        } else if (some && wants_first(r, i, done)) {
            for (int k = 0; k < r->row.n; k++)
                r->row_at[k] = fx_affine_const(0);
            forget(r);
            set_stat(r, &m->stat[0], value_of(r, fx_node_input(m->node, 0)));
            forget(r);
        }
    }
    for (int o = 0; o < r->n_outs; o++) {
        const output *out = &r->out[o];
        if (out->cls == FX_ROW_STAT && r->m[out->member].avail == done)
            store(r, out->access, stat_value(r, own_stat(r, out->member, out->part)));
    }
    close_lanes(r, lanes);
}

/* Everything for one row, or for the rows of a batch. */
static void one_row(rows *r)
{
    for (int i = 0; i < r->n; i++) {
        for (int part = 0; part < 2; part++) {
            if (r->m[i].kept[part].on && r->m[i].kept[part].buf != -1) {
                int64_t n = 1;
                for (int k = 0; k < r->row.n; k++)
                    n *= r->row.extent[k].value;
                r->m[i].kept[part].buf = local_array(r, "row", part ? norm_dtype(r->m[i].node) : r->m[i].node->type->dtype, n);
            }
        }
    }
    int last = r->n_passes;
    for (int o = 0; o < r->n_outs; o++)
        last = r->m[r->out[o].member].avail > last ? r->m[r->out[o].member].avail : last;
    for (int p = 0; p <= last; p++) {
        between_passes(r, p);
        r->pass = p;
        run_pass(r);
    }
}

static fx_stmt *loops(rows *r)
{
    fx_build *b = r->b;
    fx_context *ctx = b->ctx;
    fx_stmt *body = NULL;
    bool large = fx_build_is_large(b, r->s->rank, r->s->dims);
    int plain = r->stay.n - (r->batched ? 1 : 0);
    b->tail = &body;
    for (int i = 0; i < plain; i++) {
        fx_stmt *s = open_loop(r, r->stay.extent[i], i == 0 && large ? FX_LOOP_PARALLEL : FX_LOOP_SERIAL, r->stay.hint[i]);
        r->stay_at[i] = variable(r, s->var);
    }
    if (!r->batched) {
        one_row(r);
        return body;
    }
    fx_dim n = r->stay.extent[plain], size = fx_dim_of(r->lanes), whole = fx_dim_floordiv(ctx, n, size), rest = fx_dim_mod(ctx, n, size);
    if (!fx_dim_is(whole, 0)) {
        fx_stmt *s = open_loop(r, whole, plain == 0 && large ? FX_LOOP_PARALLEL : FX_LOOP_SERIAL, r->stay.hint[plain]);
        r->base = fx_affine_const(0);
        fx_affine_add(ctx, &r->base, s->var, size);
        r->n_lanes = size;
        one_row(r);
        close_loop(r, s);
    }
    if (!fx_dim_is(rest, 0)) {
        r->base = fx_affine_dim(fx_dim_mul(ctx, whole, size));
        r->n_lanes = rest;
        one_row(r);
    }
    return body;
}

/* Ops of the region in order: "add + softmax over 64". */
static const char *title(rows *r)
{
    fx_text t;
    fx_text_init(&t, r->b->scratch);
    int shown = 0;
    for (int i = 0; i < r->n; i++) {
        fx_node *n = r->m[i].node;
        if (is_result(r, n))
            continue;
        const char *dot = strchr(n->op->name, '.'), *name = dot[1] == '_' ? dot + 2 : dot + 1;
        if (shown < 8)
            fx_printf(&t, "%s%.*s", shown ? " + " : "", (int)strcspn(name, "."), name);
        else if (shown == 8)
            fx_puts(&t, " + ...");
        shown++;
    }
    fx_dim gone[FX_MAX_RANK];
    int n = 0;
    for (int i = 0; i < r->s->rank; i++) {
        if (r->s->gone[i])
            gone[n++] = r->s->dims[i];
    }
    fx_printf(&t, " over %s", fx_build_dims(r->b, n, gone));
    return t.data;
}

fx_status fx_build_rows(fx_build *b, fx_node *root)
{
    fx_rows *g = b->group[root->id].rows;
    bool done = false;
    if (g->n == 1 && root->op->id == FX_OP_mean_dim)
        FX_TRY(fx_build_global_mean(b, root, &done));
    if (done)
        return FX_OK;
    rows *r = FX_NEW(b->scratch, rows);
    r->b = b;
    r->root = root;
    r->s = &g->shape;
    /* in the graph's order: members were found from anywhere */
    for (fx_node *n = root; r->n < g->n; n = n->prev) {
        if (b->root[n->id] == root)
            r->m[g->n - ++r->n].node = n;
    }
    analyse(r);
    FX_TRY(find_leaves(r));
    fx_window main;
    bool has_main = main_window(r, &main);
    fx_window like = main;
    for (int i = 0; has_main && i < like.rank; i++)
        like.strides[i] = fx_window_magnitude(b, like.strides[i]);
    FX_TRY(find_outputs(r, has_main ? &like : NULL));
    fx_step *step = fx_build_step(b, g->named, title(r));
    make_nests(r, has_main, &main);
    choose_lanes(r);
    decide_kept(r);
    int first = (int)b->p->n_bufs;
    step->body = loops(r);
    step->body = fx_build_prune(b, step->body, first);
    b->tail = NULL;
    return r->status;
}
