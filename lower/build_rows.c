/* lower/build_rows.c: which nodes make a region of rows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A region begins with a reduction (or a norm that no kernel takes) and grows: forward by the user that comes first in the graph, as
 * long as it is an elementwise op on the same rows or on the results a row, or another reduction of the same rows; backward by
 * elementwise producers. The step is emitted at the place of its last node. Legal by construction: every user outside comes after that
 * place, so all that a region reads is there when it runs, and no path leaves the region and comes back. */
#include <string.h>

#include "lower/build_rows.h"

bool fx_row_is_fold(const fx_node *n)
{
    if (n->opcode != FX_CALL_FUNCTION || n->type->kind != FX_TYPE_TENSOR)
        return false;
    switch (n->op->id) {
    case FX_OP_sum_dim_IntList:
    case FX_OP_mean_dim:
    case FX_OP_amax:
    case FX_OP_amin:
    case FX_OP_var_correction:
    case FX_OP_prod_dim_int:
    case FX_OP_any_dim:
        return true;
    default:
        return false;
    }
}

bool fx_row_is_norm(const fx_node *n)
{
    if (n->opcode != FX_CALL_FUNCTION)
        return false;
    fx_opid op = n->op->id;
    return op == FX_OP__softmax || op == FX_OP__log_softmax || op == FX_OP_native_layer_norm || op == FX_OP__fused_rms_norm;
}

void fx_row_shape_of(const fx_node *n, fx_row_shape *s)
{
    const fx_type *t = fx_node_input(n, 0)->type;
    int64_t dims[FX_MAX_RANK];
    *s = (fx_row_shape){.rank = t->rank};
    memcpy(s->dims, t->dims, sizeof(fx_dim) * (size_t)t->rank);
    if (n->op->id == FX_OP_native_layer_norm || n->op->id == FX_OP__fused_rms_norm) {
        const fx_arg *sizes = fx_node_arg(n, 1);
        int tail = sizes->kind == FX_ARG_LIST || sizes->kind == FX_ARG_TUPLE ? sizes->n : 1;
        for (int i = t->rank - tail; i < t->rank; i++)
            s->gone[i] = true;
        return;
    }
    int count = fx_node_is_none(n, 1) ? 0 : fx_node_ints(n, 1, dims, FX_MAX_RANK);
    for (int i = 0; i < t->rank; i++)
        s->gone[i] = count <= 0;
    for (int i = 0; i < count && t->rank > 0; i++)
        s->gone[dims[i] < 0 ? dims[i] + t->rank : dims[i]] = true;
}

static bool same_rows(const fx_row_shape *a, const fx_row_shape *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = fx_dim_equal(a->dims[i], b->dims[i]) && a->gone[i] == b->gone[i];
    return same;
}

bool fx_row_dropped(const fx_row_shape *s, const fx_type *t)
{
    int k = 0;
    for (int i = 0; i < s->rank; i++) {
        if (!s->gone[i] && (k >= t->rank || !fx_dim_equal(t->dims[k++], s->dims[i])))
            return false;
    }
    return k == t->rank;
}

static bool is_pointwise(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && (n->op->cls == FX_CLASS_POINTWISE || n->op->id == FX_OP_clone) && n->type->kind == FX_TYPE_TENSOR;
}

/* One of a norm's results. */
static bool is_result(const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && n->op->id == FX_OP_getitem && fx_node_input(n, 0) && fx_row_is_norm(fx_node_input(n, 0));
}

fx_row_class fx_row_class_of(const fx_row_shape *s, const fx_node *n)
{
    if (fx_row_is_fold(n))
        return FX_ROW_STAT;
    if (fx_row_is_norm(n))
        return FX_ROW_FULL;
    if (is_result(n))
        return fx_node_int(n, 1) == 0 ? FX_ROW_FULL : FX_ROW_STAT;
    const fx_type *t = n->type;
    bool full = t->rank == s->rank, kept = t->rank == s->rank;
    for (int i = 0; i < s->rank && i < t->rank; i++) {
        full = full && fx_dim_equal(t->dims[i], s->dims[i]);
        kept = kept && (s->gone[i] ? fx_dim_is(t->dims[i], 1) : fx_dim_equal(t->dims[i], s->dims[i]));
    }
    return full ? FX_ROW_FULL : kept || fx_row_dropped(s, t) ? FX_ROW_STAT : FX_ROW_OTHER;
}

/* Whether u, in the region, may use d, in it too. */
static bool may_use(const fx_row_shape *s, const fx_node *d, const fx_node *u)
{
    fx_row_class to = fx_row_class_of(s, u);
    if (is_result(u))
        return true;
    if (fx_row_is_fold(u) || fx_row_is_norm(u)) { /* as what it folds, nothing else */
        for (int i = 0; i < u->n_operands; i++) {
            if (u->operands[i].def == d && (i > 0 || fx_node_input(u, 0) != d))
                return false;
        }
        return fx_row_class_of(s, d) == FX_ROW_FULL;
    }
    if (to != FX_ROW_FULL || fx_row_class_of(s, d) != FX_ROW_STAT || d->type->kind != FX_TYPE_TENSOR)
        return true;
    /* A result a row meets the elements of its row: its dims are there as 1, or they are the first ones. */
    bool first = d->type->rank == s->rank || d->type->rank == 0;
    for (int i = 0, kept = 0; !first && i < s->rank; i++) {
        if (s->gone[i] && kept > 0)
            return false;
        kept += !s->gone[i];
    }
    return true;
}

static bool member_of(const fx_build *b, const fx_node *n, const fx_node *root)
{
    return b->root[n->id] == root;
}

/* Whether rows always have elements: kernels take none without. */
static bool has_elements(fx_build *b, const fx_node *n)
{
    fx_row_shape s;
    bool softmax = n->op->id == FX_OP__softmax || n->op->id == FX_OP__log_softmax;
    fx_row_shape_of(n, &s);
    for (int i = 0; i < s.rank; i++)
        if ((s.gone[i] || (softmax && i > 0)) && !fx_build_at_least(b, s.dims[i], 1))
            return false;
    return true;
}

/* Whether a kernel computes the norm: all of one type that it takes, and weights that are constants. */
static bool has_kernel(fx_build *b, const fx_node *n)
{
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    if (n->op->id == FX_OP__fused_rms_norm || !fx_lower_takes(b->opt, FX_K_layer_norm, t->dtype) || fx_node_input(n, 0)->type->dtype != t->dtype ||
        !has_elements(b, n))
        return false;
    for (int p = 2; n->op->id == FX_OP_native_layer_norm && p <= 3; p++) {
        fx_node *w = fx_node_input(n, p);
        if (w && (!fx_build_is_constant(w) || (t->dtype != FX_F32 && w->type->dtype != t->dtype)))
            return false;
        for (const fx_use *u = n->first_use; u; u = u->next) { /* its mean or factor are wanted too */
            if (u->user->opcode == FX_CALL_FUNCTION && u->user->op->id == FX_OP_getitem && fx_node_int(u->user, 1) != 0)
                return false;
        }
    }
    return true;
}

/* A scale or mask before a softmax is worth more than the kernel. */
static bool wants_rows(fx_build *b, const fx_node *n)
{
    if (fx_row_is_fold(n))
        return true;
    if (!fx_row_is_norm(n))
        return false;
    const fx_node *x = fx_node_input(n, 0);
    bool fuses = !(b->opt->off & FX_OFF(FUSE)) && is_pointwise(x) && !b->root[x->id] && x->n_uses == 1 && fx_type_same_shape(x->type, n->type);
    return !has_kernel(b, n) || (n->op->id != FX_OP_native_layer_norm && fuses);
}

/* Whether n can be in the region as far as its rows and its operands in it tell. */
static bool fits(fx_build *b, const fx_rows *r, const fx_node *root, const fx_node *n)
{
    if (b->root[n->id] || r->n == FX_ROWS_MEMBERS || r->n_reads + n->n_operands > FX_ROWS_LEAVES)
        return false;
    if (wants_rows(b, n)) {
        fx_row_shape s;
        fx_row_shape_of(n, &s);
        if (!same_rows(&s, &r->shape))
            return false;
    } else if (is_result(n)) {
        return member_of(b, fx_node_input(n, 0), root);
    } else if (!is_pointwise(n) || fx_row_class_of(&r->shape, n) == FX_ROW_OTHER) {
        return false;
    }
    for (int i = 0; i < n->n_operands; i++) {
        const fx_node *d = n->operands[i].def;
        if (b->root[d->id] == root && !may_use(&r->shape, d, n))
            return false;
    }
    return true;
}

static void add(fx_build *b, fx_rows *r, fx_node *n, fx_node *root)
{
    int inside = 0;
    for (int i = 0; i < n->n_operands; i++)
        inside += b->root[n->operands[i].def->id] == root;
    r->n_reads += n->n_operands - inside;
    r->member[r->n++] = n;
    b->root[n->id] = root;
}

/* The region's last node becomes `root`. */
static void move_root(fx_build *b, fx_rows *r, fx_node *root)
{
    for (int i = 0; i < r->n; i++)
        b->root[r->member[i]->id] = root;
}

/* The user outside the region that comes first. */
static fx_node *first_user(const fx_build *b, const fx_rows *r, const fx_node *root, const uint32_t *position)
{
    fx_node *first = NULL;
    for (int i = 0; i < r->n; i++) {
        for (const fx_use *u = r->member[i]->first_use; u; u = u->next) {
            if (!member_of(b, u->user, root) && (!first || position[u->user->id] < position[first->id]))
                first = u->user;
        }
    }
    return first;
}

/* How many members have users outside, `next` counted as inside. */
static int count_outputs(const fx_build *b, const fx_rows *r, const fx_node *root, const fx_node *next)
{
    int outputs = 0;
    for (int i = 0; i < r->n; i++) {
        bool outside = false;
        for (const fx_use *u = r->member[i]->first_use; u && !outside; u = u->next)
            outside = u->user != next && !member_of(b, u->user, root);
        outputs += outside;
    }
    return outputs;
}

static void begin(fx_build *b, fx_node *n, const uint32_t *position)
{
    fx_rows *r = FX_NEW(b->scratch, fx_rows);
    fx_node *root = n;
    fx_row_shape_of(n, &r->shape);
    add(b, r, n, root);
    for (;;) {
        fx_node *u = first_user(b, r, root, position);
        if (!u || u->opcode != FX_CALL_FUNCTION || (b->opt->off & FX_OFF(FUSE) && !is_result(u)) || !fits(b, r, root, u) ||
            count_outputs(b, r, root, u) > FX_ROWS_OUTPUTS - 3)
            break;
        add(b, r, u, root);
        move_root(b, r, u);
        root = u;
    }
    r->named = n;
    r->n_writes = count_outputs(b, r, root, NULL);
    b->group[root->id].rows = r;
}

/* Joins the region of a user, when all users outside it come later than its place. */
static bool join(fx_build *b, fx_node *n, const uint32_t *position)
{
    fx_node *root = NULL;
    for (const fx_use *u = n->first_use; u && !root; u = u->next) {
        fx_node *at = b->root[u->user->id];
        root = at && b->group[at->id].rows ? at : NULL;
    }
    fx_rows *r = root ? b->group[root->id].rows : NULL;
    if (!r || r->n_writes == FX_ROWS_OUTPUTS - 2 || !fits(b, r, root, n))
        return false;
    bool outside = false;
    for (const fx_use *u = n->first_use; u; u = u->next) {
        bool inside = member_of(b, u->user, root);
        if (inside ? !may_use(&r->shape, n, u->user) : position[u->user->id] <= position[root->id])
            return false;
        outside |= !inside;
    }
    add(b, r, n, root);
    r->n_reads--;
    r->n_writes += outside;
    return true;
}

void fx_build_row_groups(fx_build *b, const uint32_t *position)
{
    for (fx_node *n = b->g->last; n; n = n->prev) {
        if (n->opcode != FX_CALL_FUNCTION || b->root[n->id])
            continue;
        bool fuse = !(b->opt->off & FX_OFF(FUSE));
        if (fuse && (is_pointwise(n) || wants_rows(b, n)) && join(b, n, position))
            continue;
        if (wants_rows(b, n))
            begin(b, n, position);
    }
}
