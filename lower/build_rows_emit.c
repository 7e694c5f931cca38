/* lower/build_rows_emit.c: the step of a region of rows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Outer loops over the dims that stay; inside, passes over the row: each pass folds what the passes before it allow and stores the
 * elements that are known by then; between passes the results a row (statistics) are computed once. Sums that are folded along memory
 * have `lanes` partial accumulators, combined pairwise at the end; when memory runs along a dim that stays, that many rows are done at
 * a time. An element that costs much and is needed in several passes is kept: in its own result, in the result that is stored last, or
 * in an array when the row is small. */
#include <string.h>

#include "lower/build_rows.h"

static fx_stmt *open_loop(fx_row_region *r, fx_dim extent, fx_loop_kind kind, const char *hint)
{
    fx_build *b = r->b;
    fx_stmt *s = fx_row_append(b, FX_ST_LOOP);
    s->var = b->n_vars++;
    s->extent = extent;
    s->loop = kind;
    s->hint = hint;
    b->tail = &s->body;
    return s;
}

static void close_loop(fx_row_region *r, fx_stmt *s)
{
    r->b->tail = &s->next;
}

static fx_affine variable(fx_row_region *r, int var)
{
    fx_affine a = fx_affine_const(0);
    fx_affine_add(r->b->ctx, &a, var, fx_dim_of(1));
    return a;
}

/* ---- passes ------------------------------------------------------------------------------------------------------------- */

/* The loop over the rows done at a time; the body once where rows are done alone. */
static fx_stmt *open_lanes(fx_row_region *r)
{
    if (!r->batched)
        return NULL;
    fx_stmt *s = open_loop(r, r->n_lanes, FX_LOOP_VECTOR, "row");
    r->lane = variable(r, s->var);
    r->stay_at[r->stay.n - 1] = fx_affine_sum(r->b->ctx, &r->base, &r->lane);
    return s;
}

static void close_lanes(fx_row_region *r, fx_stmt *s)
{
    if (s)
        close_loop(r, s);
}

static void store(fx_row_region *r, int access, const fx_sexpr *e)
{
    fx_stmt *s = fx_row_append(r->b, FX_ST_STORE);
    s->buf = r->stay_access[access].buf;
    s->index = fx_row_index_of(r, access);
    s->value = fx_row_cast(r, r->b->p->bufs[s->buf].dtype, e);
}

/* What a pass does with one element; at: which of the accumulators. */
static void element(fx_row_region *r, const fx_affine *at)
{
    fx_build *b = r->b;
    fx_row_forget(r);
    for (int f = 0; f < r->n_folds; f++) {
        const fx_row_fold *d = &r->fold[f];
        if (d->pass != r->pass)
            continue;
        const fx_sexpr *v = fx_row_fold_value(r, d);
        if (d->buf >= 0) {
            fx_stmt *s = fx_row_append(b, FX_ST_STORE);
            s->buf = d->buf;
            s->index = *at;
            s->value = fx_row_op2(r, d->op, fx_s_load(b->p, d->buf, at), v);
        } else {
            fx_stmt *s = fx_row_append(b, FX_ST_SET);
            s->local = d->local;
            s->value = fx_row_op2(r, d->op, fx_s_local(b->p, d->local, d->dtype), v);
        }
    }
    for (int i = 0; i < r->n; i++) {
        for (int part = 1; part >= 0; part--) {
            fx_row_member *m = &r->m[i];
            if (!m->kept[part].on || m->kept[part].pass != r->pass || (part == 0 && fx_row_output_of(r, i) >= 0))
                continue;
            const fx_sexpr *v = fx_row_full(r, i, part);
            if (m->kept[part].buf < 0) {
                store(r, m->kept[part].access, v);
                continue;
            }
            fx_stmt *s = fx_row_append(b, FX_ST_STORE);
            s->buf = m->kept[part].buf;
            s->index = fx_row_row_index(r);
            s->value = v;
        }
    }
    for (int o = 0; o < r->n_outs; o++) {
        const fx_row_output *out = &r->out[o];
        if (out->cls == FX_ROW_FULL && r->m[out->member].avail == r->pass)
            store(r, out->access, fx_row_full(r, out->member, 0));
    }
    fx_row_forget(r);
}

static bool pass_folds(const fx_row_region *r)
{
    for (int f = 0; f < r->n_folds; f++) {
        if (r->fold[f].pass == r->pass)
            return true;
    }
    return false;
}

static bool pass_stores(const fx_row_region *r)
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

static void declare_accumulators(fx_row_region *r)
{
    fx_build *b = r->b;
    bool array = r->lanes > 1;
    for (int f = 0; f < r->n_folds; f++) {
        fx_row_fold *d = &r->fold[f];
        if (d->pass != r->pass)
            continue;
        d->buf = d->local = -1;
        if (array) {
            d->buf = fx_row_local_array(r, "acc", d->dtype, r->lanes);
            continue;
        }
        fx_stmt *s = fx_row_append(b, FX_ST_LOCAL);
        s->local = d->local = b->n_locals++;
        s->value = d->start;
    }
    if (!array)
        return;
    fx_stmt *loop = r->batched ? open_lanes(r) : open_loop(r, fx_dim_of(r->lanes), FX_LOOP_VECTOR, "lane");
    fx_affine at = variable(r, loop->var);
    for (int f = 0; f < r->n_folds; f++) {
        const fx_row_fold *d = &r->fold[f];
        if (d->pass != r->pass)
            continue;
        fx_stmt *s = fx_row_append(b, FX_ST_STORE);
        s->buf = d->buf;
        s->index = at;
        s->value = d->start;
    }
    close_loop(r, loop);
}

/* Loops over the row's dims but the last `but`, outermost first; returns the outermost, or NULL. */
static fx_stmt *open_row(fx_row_region *r, int but)
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

static void close_row(fx_row_region *r, fx_stmt *first)
{
    if (first)
        close_loop(r, first);
}

/* The last dim of the row in pieces of `lanes` elements, then what is left. */
static void fold_in_lanes(fx_row_region *r)
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
            const fx_row_fold *d = &r->fold[f];
            if (d->pass != r->pass)
                continue;
            fx_stmt *s = fx_row_append(r->b, FX_ST_STORE);
            s->buf = d->buf;
            s->index = lane;
            s->value = fx_row_op2(r, d->op, fx_s_load(r->b->p, d->buf, &lane), fx_s_load(r->b->p, d->buf, &other));
        }
        close_lanes(r, loop);
    }
}

static void run_pass(fx_row_region *r)
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
static bool wants_first(const fx_row_region *r, int i, int pass)
{
    for (int f = 0; f < r->n_folds; f++) {
        const fx_row_fold *d = &r->fold[f];
        fx_opid op = r->m[d->member].node->op->id;
        if (d->member == i && d->pass == pass && d->part == 1 && (op == FX_OP_var_correction || op == FX_OP_native_layer_norm))
            return true;
    }
    return false;
}

/* What is known of the rows after `done` passes and was not before. */
static void between_passes(fx_row_region *r, int done)
{
    fx_build *b = r->b;
    bool some = fx_row_has_elements(r);
    for (int f = 0; f < r->n_folds; f++) {
        const fx_row_fold *d = &r->fold[f];
        if (d->pass == done - 1) {
            fx_node *n = r->m[d->member].node;
            bool own = d->part == 0;
            fx_row_declare(r, &r->m[d->member].stat[d->part], own ? n->type->dtype : d->dtype);
        }
    }
    for (int i = 0; i < r->n; i++) {
        fx_row_member *m = &r->m[i];
        bool pointwise = m->cls == FX_ROW_STAT && !fx_row_is_fold(m->node) && !fx_row_is_result(r, m->node);
        if ((pointwise && m->avail == done) || (some && wants_first(r, i, done)))
            fx_row_declare(r, &m->stat[0], pointwise ? m->node->type->dtype : fx_row_wide(fx_node_input(m->node, 0)->type->dtype));
    }
    fx_stmt *lanes = open_lanes(r);
    fx_affine zero = fx_affine_const(0);
    r->pass = done - 1;
    for (int f = 0; f < r->n_folds; f++) {
        fx_row_fold *d = &r->fold[f];
        if (d->pass == done - 1)
            fx_row_finish_fold(r, d, d->buf >= 0 ? fx_s_load(b->p, d->buf, r->batched ? &r->lane : &zero) : fx_s_local(b->p, d->local, d->dtype));
    }
    r->pass = done;
    for (int i = 0; i < r->n; i++) {
        fx_row_member *m = &r->m[i];
        if (m->cls == FX_ROW_STAT && !fx_row_is_fold(m->node) && !fx_row_is_result(r, m->node) && m->avail == done) {
            const fx_sexpr *e = NULL;
            r->stat_context = fx_row_is_dropped(r, m);
            fx_status st = fx_build_expr(b, m->node, fx_row_value_of, r, &e);
            r->stat_context = false;
            if (st != FX_OK)
                r->status = st;
            else
                fx_row_set_stat(r, &m->stat[0], e);
        } else if (some && wants_first(r, i, done)) {
            for (int k = 0; k < r->row.n; k++)
                r->row_at[k] = fx_affine_const(0);
            fx_row_forget(r);
            fx_row_set_stat(r, &m->stat[0], fx_row_value_of(r, fx_node_input(m->node, 0)));
            fx_row_forget(r);
        }
    }
    for (int o = 0; o < r->n_outs; o++) {
        const fx_row_output *out = &r->out[o];
        if (out->cls == FX_ROW_STAT && r->m[out->member].avail == done)
            store(r, out->access, fx_row_stat_value(r, fx_row_own_stat(r, out->member, out->part)));
    }
    close_lanes(r, lanes);
}

/* Everything for one row, or for the rows of a batch. */
static void one_row(fx_row_region *r)
{
    for (int i = 0; i < r->n; i++) {
        for (int part = 0; part < 2; part++) {
            if (r->m[i].kept[part].on && r->m[i].kept[part].buf != -1) {
                int64_t n = 1;
                for (int k = 0; k < r->row.n; k++)
                    n *= r->row.extent[k].value;
                r->m[i].kept[part].buf = fx_row_local_array(r, "row", part ? fx_row_norm_dtype(r->m[i].node) : r->m[i].node->type->dtype, n);
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

static fx_stmt *loops(fx_row_region *r)
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

fx_status fx_build_rows(fx_build *b, fx_node *root)
{
    fx_rows *g = b->group[root->id].rows;
    bool done = false;
    if (g->n == 1 && root->op->id == FX_OP_mean_dim)
        FX_TRY(fx_build_global_mean(b, root, &done));
    if (done)
        return FX_OK;
    fx_row_region *r = FX_NEW(b->piece, fx_row_region);
    r->b = b;
    r->root = root;
    r->s = &g->shape;
    /* in the graph's order: members were found from anywhere */
    for (fx_node *n = root; r->n < g->n; n = n->prev) {
        if (b->root[n->id] == root)
            r->m[g->n - ++r->n].node = n;
    }
    FX_TRY(fx_row_plan(r));
    int first = (int)b->p->n_bufs;
    fx_stmt *body = loops(r);
    b->p->steps[b->p->n_steps - 1].body = fx_build_prune(b, body, first);
    b->tail = NULL;
    return r->status;
}
