/* lower/build_read.c: values that are read through an index map instead of being stored: views that strides cannot express, concatenations
 * and pads that only loops read.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A loop nest that reads through maps is cut into boxes on which each map has one piece, and its dims are split until every access is
 * affine in the loops. Whoever wants a place in memory instead gets a copy, made once, when first asked for. */
#include <string.h>

#include "lower/build.h"

static fx_imaps maps_of(fx_build *b)
{
    return (fx_imaps){.ctx = b->ctx, .arena = b->scratch, .symbols = fx_build_symbols(b)};
}

/* ---- which values are not stored ---------------------------------------------------------------------------- */

static bool is_lazy(const fx_build *b, const fx_node *n)
{
    return b->value[n->id].buf < 0 && b->lazy[n->id];
}

/* Whether every user of n is a pointwise region, which reads through maps, maybe behind views. */
static bool only_loops_read(const fx_build *b, const fx_node *n, int depth)
{
    enum { DEEPEST = 6 };
    for (const fx_use *u = n->first_use; u; u = u->next) {
        const fx_node *user = u->user;
        if (user->opcode != FX_CALL_FUNCTION)
            return false;
        const fx_node *root = b->root[user->id];
        bool joins = (user->op->id == FX_OP_cat || user->op->id == FX_OP_constant_pad_nd) && !b->home[user->id].cat && b->home[user->id].output < 0;
        if (user->op->cls == FX_CLASS_VIEW || joins) {
            if (depth == DEEPEST || !only_loops_read(b, user, depth + 1))
                return false;
        } else if (user->op->cls != FX_CLASS_POINTWISE || !root || b->group[root->id].anchor || b->group[root->id].rows) {
            return false;
        }
    }
    return n->n_uses > 0;
}

bool fx_build_only_loops_read(const fx_build *b, const fx_node *n)
{
    return only_loops_read(b, n, 0);
}

/* n as a map over the values of `src` (those of lazy operands are read through in turn). false: no map says it. */
static bool make_lazy(fx_build *b, fx_node *n, int n_src, fx_node *const *src, const fx_sexpr *fill)
{
    fx_imaps m = maps_of(b);
    const fx_imap *map = fx_imap_of_node(&m, n);
    if (!map)
        return false;
    fx_lazy *lazy = FX_NEW(b->scratch, fx_lazy);
    int cap = 0;
    for (int i = 0; i < n_src; i++) {
        const fx_lazy *of = is_lazy(b, src[i]) ? b->lazy[src[i]->id] : NULL;
        cap += of ? of->n_src : 1;
    }
    lazy->src = FX_NEW_ARRAY(b->scratch, fx_node *, cap + n_src + 1);
    lazy->fill = fill;
    /* direct sources keep their numbers; what is read through lazy ones comes behind */
    for (int i = 0; i < n_src; i++)
        lazy->src[i] = src[i];
    lazy->n_src = lazy->n_operands = n_src;
    for (int i = 0; i < n_src; i++) {
        const fx_lazy *of = is_lazy(b, src[i]) ? b->lazy[src[i]->id] : NULL;
        if (!of)
            continue;
        if (of->fill && lazy->fill) /* one number for the pieces that read nothing */
            return false;
        map = fx_imap_compose(&m, map, i, of->map, lazy->n_src);
        if (!map)
            return false;
        for (int k = 0; k < of->n_src; k++)
            lazy->src[lazy->n_src++] = of->src[k];
        lazy->fill = of->fill ? of->fill : lazy->fill;
    }
    lazy->map = map;
    b->lazy[n->id] = lazy;
    return true;
}

/* A chain of views that strides can express after all (heads merged with the batch and split again) is a window: no one copies. */
static void settle(fx_build *b, fx_node *n)
{
    fx_imaps m = maps_of(b);
    const fx_lazy *lazy = b->lazy[n->id];
    if (lazy->map->n != 1 || lazy->map->piece[0].source < 0)
        return;
    int source = lazy->map->piece[0].source;
    const fx_window *v = &b->value[lazy->src[source]->id];
    if (v->buf < 0)
        return;
    const fx_imap *flat = fx_imap_flat(&m, lazy->map, source, v->offset, v->strides);
    fx_window r = {.buf = v->buf, .dtype = v->dtype, .rank = n->type->rank};
    if (!fx_ix_strided(flat->piece[0].index[0], r.rank, &r.offset, r.strides))
        return;
    memcpy(r.dims, n->type->dims, sizeof(fx_dim) * (size_t)r.rank);
    b->value[n->id] = r;
}

bool fx_build_lazy_view(fx_build *b, fx_node *n)
{
    fx_node *x = fx_node_input(n, 0);
    if (!make_lazy(b, n, 1, &x, NULL))
        return false;
    settle(b, n);
    return true;
}

bool fx_build_lazy_join(fx_build *b, fx_node *n, int n_src, fx_node *const *src, const fx_sexpr *fill)
{
    enum { MOST_PARTS = 8 };
    const fx_home *home = &b->home[n->id];
    if (home->cat || home->output >= 0 || n_src > MOST_PARTS || !only_loops_read(b, n, 0))
        return false;
    for (int i = 0; i < n_src; i++)
        if (b->home[src[i]->id].cat == n) /* computed in place: nothing is copied */
            return false;
    return make_lazy(b, n, n_src, src, fill);
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

/* The strides of v under dims it is broadcast to. */
static void widen(const fx_window *v, int rank, fx_dim *strides)
{
    int shift = rank - v->rank;
    for (int i = 0; i < rank; i++)
        strides[i] = i < shift || fx_dim_is(v->dims[i - shift], 1) ? fx_dim_of(0) : v->strides[i - shift];
}

fx_status fx_build_read(fx_build *b, fx_node *n, int rank, const fx_dim *dims, fx_read *out)
{
    fx_imaps m = maps_of(b);
    const fx_lazy *lazy = is_lazy(b, n) ? b->lazy[n->id] : NULL;
    *out = (fx_read){0};
    if (lazy) {
        const fx_imap *wide = fx_imap_expand(&m, n->type->rank, n->type->dims, rank, dims);
        out->map = wide ? fx_imap_compose(&m, wide, 0, lazy->map, 1) : NULL;
    }
    if (out->map) {
        int *buf = FX_NEW_ARRAY(b->scratch, int, lazy->n_src + 1);
        for (int i = 0; i < lazy->n_src; i++) {
            bool used = false;
            for (int k = 0; k < out->map->n; k++)
                used = used || out->map->piece[k].source == i + 1;
            if (!used)
                continue;
            fx_window v;
            FX_TRY(fx_build_value(b, lazy->src[i], &v));
            buf[i + 1] = v.buf;
            out->map = fx_imap_flat(&m, out->map, i + 1, v.offset, v.strides);
        }
        out->buf = buf;
        out->fill = lazy->fill;
        return FX_OK;
    }
    fx_window v;
    FX_TRY(fx_build_value(b, n, &v));
    out->strided = true;
    out->access = (fx_nest_access){.buf = v.buf, .offset = v.offset};
    widen(&v, rank, out->access.strides);
    return FX_OK;
}

static const fx_imap *strided_map(const fx_imaps *m, int rank, const fx_dim *dims, const fx_nest_access *a)
{
    return fx_imap_flat(m, fx_imap_identity(m, rank, dims), 0, a->offset, a->strides);
}

/* One box: its loops and what each read is there. */
static bool make_box(fx_build *b, const fx_imaps *m, int rank, const fx_imap_box *box, const int *order, int n, const fx_read *reads,
                     const fx_imap *const *maps, fx_read_box *out)
{
    const fx_ix **x = FX_NEW_ARRAY(b->scratch, const fx_ix *, n + 1);
    fx_dim dims[FX_MAX_RANK];
    int n_x = 0;
    for (int i = 0; i < rank; i++)
        dims[i] = fx_dim_sub(b->ctx, box->hi[i], box->lo[i]);
    for (int k = 0; k < n; k++) {
        const fx_imap_piece *p = &maps[k]->piece[box->piece[k]];
        if (p->source >= 0)
            x[n_x++] = fx_ix_within(m, rank, box->lo, box->hi, p->index[0]);
    }
    fx_split split;
    if (!fx_ix_refine(m, rank, dims, n_x, x, &split))
        return false;
    n_x = 0;
    for (int k = 0; k < n; k++) {
        const fx_imap_piece *p = &maps[k]->piece[box->piece[k]];
        out->fill[k] = p->source < 0 ? reads[k].fill : NULL;
        out->access[k] = (fx_nest_access){.buf = -1};
        if (p->source < 0)
            continue;
        out->access[k].buf = reads[k].strided ? reads[k].access.buf : reads[k].buf[p->source];
        if (!fx_ix_over(m, x[n_x++], &split, &out->access[k].offset, out->access[k].strides))
            return false;
    }
    /* the parts in the order that their dims lie in memory in, the parts of a dim outermost first */
    int parts[FX_NEST_DIMS], n_parts = 0;
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < split.n; k++)
            if (split.dim[k] == order[i])
                parts[n_parts++] = k;
    out->nest = fx_nest_make(b, split.n, split.extent, parts, n, out->access);
    return true;
}

bool fx_build_read_boxes(fx_build *b, const fx_window *dst, int n, const fx_read *reads, int *n_boxes, fx_read_box **boxes)
{
    fx_imaps m = maps_of(b);
    const fx_imap **maps = FX_NEW_ARRAY(b->scratch, const fx_imap *, n + 1);
    int order[FX_MAX_RANK], n_cuts;
    const fx_imap_box *cuts;
    for (int k = 0; k < n; k++)
        maps[k] = reads[k].strided ? strided_map(&m, dst->rank, dst->dims, &reads[k].access) : reads[k].map;
    if (!fx_imap_boxes(&m, n, maps, &n_cuts, &cuts))
        return false;
    fx_window_order(b, dst, order);
    *boxes = FX_NEW_ARRAY(b->scratch, fx_read_box, n_cuts + 1);
    *n_boxes = n_cuts;
    for (int i = 0; i < n_cuts; i++)
        if (!make_box(b, &m, dst->rank, &cuts[i], order, n, reads, maps, &(*boxes)[i]))
            return false;
    return true;
}

/* ---- copies of what is not stored ------------------------------------------------------------------------------ */

/* Stores what the lazy operands of n read, so that n reads through a map of its own op only. */
static fx_status shorten(fx_build *b, fx_node *n)
{
    const fx_lazy *lazy = b->lazy[n->id];
    for (int i = 0; i < lazy->n_operands; i++) {
        fx_node *d = lazy->src[i];
        if (!is_lazy(b, d))
            continue;
        if (d->op->cls == FX_CLASS_VIEW && is_lazy(b, fx_node_input(d, 0))) {
            fx_window v; /* a view of what is stored is often a window */
            FX_TRY(fx_build_value(b, fx_node_input(d, 0), &v));
            b->lazy[d->id] = NULL;
            FX_TRY(fx_build_view(b, d));
        }
        if (is_lazy(b, d))
            FX_TRY(fx_build_store(b, d, NULL));
    }
    b->lazy[n->id] = NULL;
    if (n->op->cls == FX_CLASS_VIEW)
        return fx_build_view(b, n);
    return make_lazy(b, n, lazy->n_operands, lazy->src, lazy->fill) ? FX_OK : FX_INTERNAL;
}

/* The boxes of a copy of n into a place; false when no loops read through its map. */
static bool copy_boxes(fx_build *b, const fx_read *from, const fx_window *out, int *n_boxes, fx_read_box **boxes)
{
    fx_read reads[2] = {*from, {.strided = true, .access = {.buf = out->buf, .offset = out->offset}}};
    memcpy(reads[1].access.strides, out->strides, sizeof out->strides);
    b->n_vars = b->n_locals = 0;
    return fx_build_read_boxes(b, out, 2, reads, n_boxes, boxes);
}

fx_status fx_build_store(fx_build *b, fx_node *n, const fx_window *like)
{
    fx_window out;
    fx_read read;
    fx_read_box *boxes;
    int n_boxes;
    FX_TRY(fx_build_read(b, n, n->type->rank, n->type->dims, &read));
    FX_TRY(fx_build_place(b, n, like, &out));
    bool made = copy_boxes(b, &read, &out, &n_boxes, &boxes);
    if (!made) {
        FX_TRY(shorten(b, n));
        if (b->value[n->id].buf >= 0)
            return FX_OK; /* a window now */
        FX_TRY(fx_build_read(b, n, n->type->rank, n->type->dims, &read));
        made = copy_boxes(b, &read, &out, &n_boxes, &boxes);
    }
    if (!made)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: no loops read through it to sizes %s", n->target,
                       fx_build_dims(b, out.rank, out.dims));
    const char *why = n->op->cls == FX_CLASS_VIEW ? "view" : n->op->id == FX_OP_cat ? "cat" : "pad";
    fx_step *s = fx_program_step(b->p, fx_arena_printf(b->scratch, "%s_copy", n->name));
    s->loc = n->loc;
    s->title = fx_arena_printf(b->p->arena, "%s: %s for the %s [%s]", n->name, like ? "NHWC" : "row-major", why, fx_build_dims(b, out.rank, out.dims));
    s->shapes = fx_build_dims(b, out.rank, out.dims);
    fx_stmt **tail = &s->body;
    for (int i = 0; i < n_boxes; i++) {
        fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
        store->buf = out.buf;
        store->index = fx_nest_index(b, &boxes[i].nest, &boxes[i].access[1]);
        store->value = boxes[i].fill[0];
        if (!store->value) {
            fx_affine from = fx_nest_index(b, &boxes[i].nest, &boxes[i].access[0]);
            store->value = fx_s_load(b->p, boxes[i].access[0].buf, &from);
        }
        *tail = fx_nest_wrap(b, &boxes[i].nest, store);
        tail = &(*tail)->next;
    }
    b->value[n->id] = out;
    return FX_OK;
}
