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
    fx_read reads[MAX_LEAVES + 1];         /* of the leaves, then the result */
    bool strided;                          /* all of them are */
    fx_nest_access access[MAX_LEAVES + 1]; /* in the nest being made */
    const fx_sexpr *const *fill;           /* numbers read instead, or NULL */
    fx_nest nest;
    fx_status status;
} region;

static bool in_region(const region *r, const fx_node *n)
{
    const fx_build *b = r->b;
    return n->opcode == FX_CALL_FUNCTION && (b->again[n->id] || b->root[n->id] == r->root) && !b->group[r->root->id].anchor;
}

/* Finds the leaves of the region below n and where they lie, broadcast to the root's dims. */
static fx_status collect_leaves(region *r, fx_node *n)
{
    fx_build *b = r->b;
    for (int i = 0; i < n->n_operands; i++) {
        fx_node *d = n->operands[i].def;
        if (in_region(r, d)) {
            if (b->seen[d->id] != r->root) {
                b->seen[d->id] = r->root;
                FX_TRY(collect_leaves(r, d));
            }
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
        r->leaf[k] = d;
        FX_TRY(fx_build_read(b, d, r->root->type->rank, r->root->type->dims, &r->reads[k]));
        r->strided = r->strided && r->reads[k].strided;
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
                if (r->fill && r->fill[k])
                    return r->fill[k];
                fx_affine index = fx_nest_index(b, &r->nest, &r->access[k]);
                return fx_s_load(b->p, r->access[k].buf, &index);
            }
        return fx_s_const(b->p, n->type->dtype, NAN); /* not reached: collect_leaves saw all */
    }
    if (b->made_in[n->id] == b->n_nests)
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
    b->made_in[n->id] = b->n_nests;
    return e;
}

/* Ops of the region in order, for the title: "mul + add + relu". */
static const char *region_title(fx_build *b, fx_node *root)
{
    fx_text t;
    fx_text_init(&t, b->piece);
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
        if (b->value[d->id].buf < 0)
            continue; /* not stored */
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

/* The nest r->nest with its locals and the store. */
static fx_status emit_nest(region *r, const fx_window *out, fx_stmt **at)
{
    fx_build *b = r->b;
    fx_stmt *first = NULL;
    b->tail = &first;
    b->n_nests++;
    const fx_sexpr *e = region_expr(r, r->root);
    FX_TRY(r->status);
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = out->buf;
    store->index = fx_nest_index(b, &r->nest, &r->access[r->n_leaves]);
    store->value = e;
    *b->tail = store;
    *at = fx_nest_wrap(b, &r->nest, first);
    return FX_OK;
}

/* One nest a box, over the dims of the result in the order of `dims`; *done false, and nothing is made, when no split of the loops makes all accesses affine. */
static fx_status emit_boxes(region *r, const fx_window *dims, const fx_window *out, bool *done)
{
    fx_build *b = r->b;
    fx_read_box *boxes;
    int n_boxes;
    b->n_vars = b->n_locals = 0;
    *done = fx_build_read_boxes(b, dims, r->n_leaves + 1, r->reads, &n_boxes, &boxes);
    if (!*done)
        return FX_OK;
    int vars = b->n_vars;
    fx_stmt *body = NULL, **at = &body;
    fx_step *step = fx_build_step(b, r->root, region_title(b, r->root));
    b->n_vars = vars;
    for (int i = 0; i < n_boxes; i++) {
        r->nest = boxes[i].nest;
        r->fill = boxes[i].fill;
        memcpy(r->access, boxes[i].access, sizeof(fx_nest_access) * (size_t)(r->n_leaves + 1));
        FX_TRY(emit_nest(r, out, at));
        while (*at)
            at = &(*at)->next;
    }
    step->body = body;
    return FX_OK;
}

/* Right to where a view of the result has to be stored, which no strides express and which alone reads it. */
static fx_status write_through(region *r, bool *done)
{
    fx_build *b = r->b;
    const fx_type *t = r->root->type;
    fx_through to;
    fx_window out, dims = {.rank = t->rank};
    if ((b->opt->off & FX_OFF(FUSE)) || !fx_build_through(b, r->root, &to))
        return FX_OK;
    memcpy(dims.dims, t->dims, sizeof(fx_dim) * (size_t)t->rank);
    fx_window_set_dense(b, &dims);
    FX_TRY(fx_build_through_place(b, &to, &out, &r->reads[r->n_leaves]));
    FX_TRY(emit_boxes(r, &dims, &out, done));
    if (*done)
        fx_build_through_settle(b, r->root, &to, &out);
    return FX_OK;
}

fx_status fx_build_pointwise(fx_build *b, fx_node *root)
{
    region r = {.b = b, .root = root, .strided = true};
    FX_TRY(collect_leaves(&r, root));
    fx_window out, model;
    bool done = false;
    FX_TRY(write_through(&r, &done));
    if (done)
        return FX_OK;
    FX_TRY(fx_build_place(b, root, layout_model(b, &r, &model), &out));
    fx_read_at(&out, &r.reads[r.n_leaves]);
    if (!r.strided)
        FX_TRY(emit_boxes(&r, &out, &out, &done));
    if (!done) {
        for (int k = 0; k < r.n_leaves; k++) { /* now all are stored */
            fx_window v;
            FX_TRY(fx_build_value(b, r.leaf[k], &v));
            FX_TRY(fx_build_read(b, r.leaf[k], out.rank, out.dims, &r.reads[k]));
        }
        fx_step *step = fx_build_step(b, root, region_title(b, root));
        int order[FX_MAX_RANK];
        fx_window_order(b, &out, order);
        for (int k = 0; k <= r.n_leaves; k++)
            r.access[k] = r.reads[k].access;
        r.nest = fx_nest_make(b, out.rank, out.dims, order, r.n_leaves + 1, r.access);
        fx_stmt *body;
        FX_TRY(emit_nest(&r, &out, &body));
        step->body = body;
        allow_overlay(b, &r, &out);
    }
    b->value[root->id] = out;
    return FX_OK;
}
