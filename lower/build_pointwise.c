/* lower/build_pointwise.c: regions of pointwise nodes: one loop nest over scalar expressions.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "lower/build.h"

/* Tensors a region reads. */
enum { MAX_LEAVES = FX_MAX_REGION_READS };

typedef struct region {
    fx_build *b;
    fx_node *root;
    fx_node *leaf[MAX_LEAVES];
    int n_leaves;
    fx_nest_access access[MAX_LEAVES + 1]; /* of the leaves, then of the result */
    fx_nest nest;
    fx_status status;
} region;

static bool in_region(const region *r, const fx_node *n)
{
    return n->opcode == FX_CALL_FUNCTION && r->b->root[n->id] == r->root && !r->b->group[r->root->id].anchor;
}

/* Finds the leaves of the region below n and where they lie, broadcast to the root's dims. */
static fx_status collect_leaves(region *r, fx_node *n)
{
    fx_build *b = r->b;
    for (int i = 0; i < n->n_operands; i++) {
        fx_node *d = n->operands[i].def;
        if (in_region(r, d)) {
            FX_TRY(collect_leaves(r, d));
            continue;
        }
        if (fx_build_number(b, d))
            continue;
        int k = 0;
        while (k < r->n_leaves && r->leaf[k] != d)
            k++;
        if (k < r->n_leaves)
            continue;
        if (k == MAX_LEAVES)
            return fx_fail(b->ctx, FX_INTERNAL, &r->root->loc, "a pointwise region reads more than %d tensors", MAX_LEAVES);
        fx_window v;
        FX_TRY(fx_build_value(b, d, &v));
        fx_window wide = v;
        int rank = r->root->type->rank, shift = rank - v.rank;
        for (int j = 0; j < rank; j++) {
            bool broadcast = j < shift || fx_dim_is(v.dims[j - shift], 1);
            wide.strides[j] = broadcast ? fx_dim_of(0) : v.strides[j - shift];
        }
        r->leaf[k] = d;
        r->access[k] = (fx_nest_access){.buf = v.buf, .offset = v.offset};
        memcpy(r->access[k].strides, wide.strides, sizeof wide.strides);
        r->n_leaves++;
    }
    return FX_OK;
}

static const fx_sexpr *region_expr(void *user, fx_node *n)
{
    region *r = user;
    fx_build *b = r->b;
    if (!in_region(r, n)) {
        const fx_sexpr *number = fx_build_number(b, n);
        if (number)
            return number;
        for (int k = 0; k < r->n_leaves; k++)
            if (r->leaf[k] == n) {
                fx_affine index = fx_nest_index(b, &r->nest, &r->access[k]);
                return fx_s_load(b->p, r->access[k].buf, &index);
            }
        return fx_s_const(b->p, n->type->dtype, NAN); /* not reached: collect_leaves saw all */
    }
    if (b->made[n->id])
        return b->made[n->id];
    const fx_sexpr *e = NULL;
    fx_status st = fx_build_expr(b, n, region_expr, r, &e);
    if (st != FX_OK) {
        r->status = st;
        return fx_s_const(b->p, n->type->dtype, 0);
    }
    if (n != r->root && n->n_uses > 1)
        e = fx_build_share(b, e);
    b->made[n->id] = e;
    return e;
}

/* Ops of the region in order, for the title: "mul + add + relu". */
static const char *region_title(fx_build *b, fx_node *root)
{
    fx_text t;
    fx_text_init(&t, b->scratch);
    int shown = 0;
    for (fx_node *n = b->group[root->id].first ? b->group[root->id].first : root;; n = n->next) {
        if (b->root[n->id] == root) {
            const char *name = strchr(n->op->name, '.') + 1;
            if (shown < 8)
                fx_printf(&t, "%s%.*s", shown ? " + " : "", (int)strcspn(name, "."), name);
            else if (shown == 8)
                fx_puts(&t, " + ...");
            shown++;
        }
        if (n == root)
            break;
    }
    return t.data;
}

/* The order in memory that a region's result takes: that of its first operand of full size. */
static const fx_window *layout_model(fx_build *b, const region *r, fx_window *model)
{
    fx_node *root = r->root;
    if (b->home[root->id].output >= 0 && root->n_uses == 1)
        return NULL; /* only the caller wants it: in the caller's layout */
    for (int k = 0; k < r->n_leaves; k++) {
        const fx_node *d = r->leaf[k];
        if (fx_build_is_constant(d) || !fx_type_same_shape(d->type, root->type))
            continue;
        *model = b->value[d->id];
        for (int i = 0; i < model->rank; i++)
            model->strides[i] = fx_window_magnitude(b, model->strides[i]);
        return model;
    }
    return NULL;
}

/* The result may take the place of an operand that is read at the same index only. */
static void allow_overlay(fx_build *b, const region *r, const fx_window *out)
{
    if (b->opt->off & FX_OFF(INPLACE))
        return;
    fx_buf *to = &b->p->bufs[out->buf];
    fx_dim numel = fx_type_count(b->ctx, r->root->type);
    if (to->kind != FX_BUF_ARENA || !fx_dim_equal(to->numel, numel))
        return;
    const fx_nest_access *w = &r->access[r->n_leaves];
    for (int k = 0; k < r->n_leaves; k++) {
        const fx_nest_access *a = &r->access[k];
        const fx_buf *from = &b->p->bufs[a->buf];
        if (from->kind != FX_BUF_ARENA || !fx_dim_equal(from->numel, numel) || from->dtype != to->dtype)
            continue;
        if (b->opt->fault == FX_FAULT_FUSE_ACROSS_WRITE) {
            to->overlay = a->buf;
            return;
        }
        bool same = fx_dim_equal(a->offset, w->offset);
        for (int j = 0; same && j < r->nest.n; j++)
            same = fx_dim_equal(a->strides[j], w->strides[j]);
        for (int j = 0; same && j < r->n_leaves; j++)
            same = j == k || r->access[j].buf != a->buf;
        if (same) {
            to->overlay = a->buf;
            return;
        }
    }
}

fx_status fx_build_pointwise(fx_build *b, fx_node *root)
{
    region r = {.b = b, .root = root};
    FX_TRY(collect_leaves(&r, root));
    fx_window out, model;
    FX_TRY(fx_build_place(b, root, layout_model(b, &r, &model), &out));
    r.access[r.n_leaves] = (fx_nest_access){.buf = out.buf, .offset = out.offset};
    memcpy(r.access[r.n_leaves].strides, out.strides, sizeof out.strides);
    fx_step *step = fx_build_step(b, root, region_title(b, root));
    int order[FX_MAX_RANK];
    fx_window_order(b, &out, order);
    r.nest = fx_nest_make(b, out.rank, out.dims, order, r.n_leaves + 1, r.access);
    fx_stmt *first = NULL;
    b->tail = &first;
    const fx_sexpr *e = region_expr(&r, root);
    FX_TRY(r.status);
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = out.buf;
    store->index = fx_nest_index(b, &r.nest, &r.access[r.n_leaves]);
    store->value = e;
    *b->tail = store;
    step->body = fx_nest_wrap(b, &r.nest, first);
    allow_overlay(b, &r, &out);
    b->value[root->id] = out;
    return FX_OK;
}
