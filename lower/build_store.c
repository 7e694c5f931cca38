/* lower/build_store.c: copies of values that are read through maps: for kernels, reductions and outputs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/build.h"

/* Stores what the lazy operands of n read, so that n reads through a map of its own op only. */
static fx_status shorten(fx_build *b, fx_node *n)
{
    const fx_lazy *lazy = b->lazy[n->id];
    for (int i = 0; i < lazy->n_operands; i++) {
        fx_node *d = lazy->src[i];
        if (!fx_build_is_lazy(b, d))
            continue;
        if (d->op->cls == FX_CLASS_VIEW && fx_build_is_lazy(b, fx_node_input(d, 0))) {
            fx_window v; /* a view of what is stored is often a window */
            FX_TRY(fx_build_value(b, fx_node_input(d, 0), &v));
            b->lazy[d->id] = NULL;
            FX_TRY(fx_build_view(b, d));
        }
        if (fx_build_is_lazy(b, d))
            FX_TRY(fx_build_store(b, d, NULL));
    }
    b->lazy[n->id] = NULL;
    if (n->op->cls == FX_CLASS_VIEW)
        return fx_build_view(b, n);
    return fx_build_make_lazy(b, n, lazy->n_operands, lazy->src, lazy->fill) ? FX_OK : FX_INTERNAL;
}

/* One nest a box: what reads[1] says is stored, from where reads[0] says, or its number. */
static fx_stmt *copy_nests(fx_build *b, int n_boxes, const fx_read_box *boxes)
{
    fx_stmt *body = NULL, **tail = &body;
    for (int i = 0; i < n_boxes; i++) {
        fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
        store->buf = boxes[i].access[1].buf;
        store->index = fx_nest_index(b, &boxes[i].nest, &boxes[i].access[1]);
        store->value = boxes[i].fill[0];
        if (!store->value) {
            fx_affine from = fx_nest_index(b, &boxes[i].nest, &boxes[i].access[0]);
            store->value = fx_s_load(b->p, boxes[i].access[0].buf, &from);
        }
        *tail = fx_nest_wrap(b, &boxes[i].nest, store);
        tail = &(*tail)->next;
    }
    return body;
}

/* A step that copies reads[0] to reads[1] over dims, in the order that they lie in; false when no loops read through the maps. */
static bool copy_step(fx_build *b, const fx_node *n, const fx_window *dims, const fx_read *reads, const char *title, const char *name)
{
    fx_read_box *boxes;
    int n_boxes;
    b->n_vars = b->n_locals = 0;
    if (!fx_build_read_boxes(b, dims, 2, reads, &n_boxes, &boxes))
        return false;
    fx_step *s = fx_program_step(b->p, name);
    s->loc = n->loc;
    s->title = fx_arena_printf(b->p->arena, "%s", title);
    s->shapes = fx_arena_printf(b->p->arena, "%s", fx_build_dims(b, n->type->rank, n->type->dims));
    s->body = copy_nests(b, n_boxes, boxes);
    return true;
}

fx_status fx_build_store_at(fx_build *b, fx_node *n, const fx_window *out, const char *title, const char *name)
{
    fx_read reads[2];
    fx_read_at(out, &reads[1]);
    FX_TRY(fx_build_read(b, n, n->type->rank, n->type->dims, &reads[0]));
    if (!copy_step(b, n, out, reads, title, name)) {
        FX_TRY(shorten(b, n));
        if (b->value[n->id].buf >= 0)
            return FX_OK; /* a window now */
        FX_TRY(fx_build_read(b, n, n->type->rank, n->type->dims, &reads[0]));
        if (!copy_step(b, n, out, reads, title, name))
            return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: no loops read through it to sizes %s", n->target,
                           fx_build_dims(b, out->rank, out->dims));
    }
    b->value[n->id] = *out;
    return FX_OK;
}

/* "x: row-major for the view [4x6]" */
static const char *why(fx_build *b, const fx_node *n, const fx_window *like)
{
    const char *what = n->op->cls == FX_CLASS_VIEW ? "view" : n->op->id == FX_OP_cat ? "cat" : "pad";
    return fx_arena_printf(b->piece, "%s: %s for the %s [%s]", n->name, like ? "NHWC" : "row-major", what,
                           fx_build_dims(b, n->type->rank, n->type->dims));
}

fx_status fx_build_store(fx_build *b, fx_node *n, const fx_window *like)
{
    fx_window out;
    FX_TRY(fx_build_place(b, n, like, &out));
    return fx_build_store_at(b, n, &out, why(b, n, like), fx_arena_printf(b->piece, "%s_copy", n->name));
}

/* ---- writing through views -------------------------------------------------------------------------------------- */

/* The map from the result of a view that only orders and splits dims back to its operand: for an index of the operand, that of the result. */
static const fx_imap *undone(const fx_imaps *m, const fx_node *view)
{
    const fx_type *to = view->type, *from = fx_node_input(view, 0)->type;
    int64_t dims[FX_MAX_RANK];
    int order[FX_MAX_RANK];
    switch (view->op->id) {
    case FX_OP_view:
    case FX_OP_unsqueeze:
    case FX_OP_squeeze_dims:
        return fx_imap_reshape(m, to->rank, to->dims, from->rank, from->dims);
    case FX_OP_permute:
        fx_node_ints(view, 1, dims, FX_MAX_RANK);
        for (int i = 0; i < to->rank; i++)
            order[dims[i] < 0 ? dims[i] + to->rank : dims[i]] = i;
        return fx_imap_permute(m, to->rank, to->dims, order);
    default:
        return NULL;
    }
}

/* Kernels for images, which want theirs channels-last. */
static bool wants_image(const fx_build *b, const fx_node *n)
{
    for (const fx_use *u = n->first_use; b->channels_last && u; u = u->next)
        if (u->user->opcode == FX_CALL_FUNCTION && n->type->rank == 4 && (u->user->op->id == FX_OP_convolution || u->user->op->cls == FX_CLASS_POOL))
            return true;
    return false;
}

bool fx_build_through(fx_build *b, fx_node *n, fx_through *t)
{
    fx_imaps m = fx_build_imaps(b, b->piece);
    fx_window v = {.dtype = n->type->dtype, .rank = n->type->rank}, to;
    const fx_imap *map = NULL, *next;
    fx_node *at = n;
    memcpy(v.dims, n->type->dims, sizeof(fx_dim) * (size_t)v.rank);
    fx_window_set_dense(b, &v);
    for (bool strided = true; strided; at = t->last) {
        if (at->n_uses != 1 || b->home[at->id].cat || b->home[at->id].output >= 0)
            return false;
        t->last = at->first_use->user;
        if (t->last->opcode != FX_CALL_FUNCTION || t->last->op->cls != FX_CLASS_VIEW || !(next = undone(&m, t->last)))
            return false;
        strided = fx_window_view(b, &v, t->last, &to);
        v = to;
        map = map ? fx_imap_compose(&m, map, 0, next, 0) : next;
        if (!map)
            return false;
    }
    if (fx_build_only_loops_read(b, t->last) || map->n != 1)
        return false;
    t->image = wants_image(b, t->last);
    t->map = map;
    return true;
}

fx_status fx_build_through_place(fx_build *b, const fx_through *t, fx_window *out, fx_read *to)
{
    fx_imaps m = fx_build_imaps(b, b->piece);
    fx_window pattern = fx_build_channels_last(b, t->last);
    FX_TRY(fx_build_place(b, t->last, t->image ? &pattern : NULL, out));
    *to = (fx_read){.map = fx_imap_flat(&m, t->map, 0, out->offset, out->strides), .buf = fx_arena_dup(b->piece, &out->buf, sizeof out->buf)};
    return FX_OK;
}

void fx_build_through_settle(fx_build *b, fx_node *n, const fx_through *t, const fx_window *out)
{
    for (fx_node *at = n->first_use->user; at != t->last; at = at->first_use->user)
        b->passed[at->id] = true;
    b->value[t->last->id] = *out;
}

fx_status fx_build_store_through(fx_build *b, fx_node *n, bool *done)
{
    fx_through t;
    fx_window out, dims = {.rank = n->type->rank};
    fx_read reads[2];
    *done = false;
    if (!fx_build_through(b, n, &t))
        return FX_OK;
    FX_TRY(fx_build_read(b, n, n->type->rank, n->type->dims, &reads[0]));
    FX_TRY(fx_build_through_place(b, &t, &out, &reads[1]));
    memcpy(dims.dims, n->type->dims, sizeof(fx_dim) * (size_t)dims.rank);
    fx_window_set_dense(b, &dims);
    *done = copy_step(b, t.last, &dims, reads, why(b, t.last, t.image ? &out : NULL), fx_arena_printf(b->piece, "%s_copy", t.last->name));
    if (*done)
        fx_build_through_settle(b, n, &t, &out);
    return FX_OK;
}
