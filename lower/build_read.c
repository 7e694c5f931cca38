/* lower/build_read.c: values that are read through an index map instead of being stored: views that strides cannot express, concatenations
 * and pads that only loops read, or views that are copied anyway.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A loop nest that reads through maps is cut into boxes on which each map has one piece, and its dims are split until every access is
 * affine in the loops. Whoever wants a place in memory instead gets a copy, made once, when first asked for (build_store.c). */
#include <string.h>

#include "lower/build.h"

fx_imaps fx_build_imaps(fx_build *b, fx_arena *arena)
{
    return (fx_imaps){.ctx = b->ctx, .arena = arena, .symbols = fx_build_symbols(b)};
}

/* ---- which values are not stored ---------------------------------------------------------------------------- */

bool fx_build_is_lazy(const fx_build *b, const fx_node *n)
{
    return b->value[n->id].buf < 0 && b->lazy[n->id];
}

/* Where n would lie if it were stored. */
static fx_window stored(fx_build *b, const fx_node *n)
{
    fx_window v = {.dtype = n->type->dtype, .rank = n->type->rank};
    if (n->op->id == FX_OP_cat && fx_build_cat_of_images(b, n))
        return fx_build_channels_last(b, n);
    memcpy(v.dims, n->type->dims, sizeof(fx_dim) * (size_t)v.rank);
    fx_window_set_dense(b, &v);
    return v;
}

/* Whether every user of n, which lies in v, is a pointwise region, which reads through maps, maybe behind views. copies: or a view that no
 * strides express, which is copied whether or not n is stored. */
static bool reads_through(fx_build *b, const fx_node *n, const fx_window *v, bool copies, int depth)
{
    enum { DEEPEST = 8 };
    for (const fx_use *u = n->first_use; u; u = u->next) {
        const fx_node *user = u->user;
        if (user->opcode != FX_CALL_FUNCTION)
            return false;
        const fx_node *root = b->root[user->id];
        fx_window to;
        bool view = user->op->cls == FX_CLASS_VIEW, strided = !copies || !view || fx_window_view(b, v, user, &to);
        bool joins = (user->op->id == FX_OP_cat || user->op->id == FX_OP_constant_pad_nd) && !b->home[user->id].cat && b->home[user->id].output < 0;
        if (view && !strided)
            continue;
        if (joins && copies)
            to = stored(b, user);
        if (view || joins) {
            if (depth == DEEPEST || !reads_through(b, user, &to, copies, depth + 1))
                return false;
        } else if (user->op->cls != FX_CLASS_POINTWISE || !root || b->group[root->id].anchor || b->group[root->id].rows) {
            return false;
        }
    }
    return n->n_uses > 0;
}

bool fx_build_only_loops_read(fx_build *b, const fx_node *n)
{
    return reads_through(b, n, NULL, false, 0);
}

bool fx_build_copies_read(fx_build *b, const fx_node *n)
{
    fx_window v = stored(b, n);
    return reads_through(b, n, &v, true, 0);
}

bool fx_build_make_lazy(fx_build *b, fx_node *n, int n_src, fx_node *const *src, const fx_sexpr *fill)
{
    fx_imaps m = fx_build_imaps(b, b->scratch);
    const fx_imap *map = fx_imap_of_node(&m, n);
    if (!map)
        return false;
    fx_lazy *lazy = FX_NEW(b->scratch, fx_lazy);
    int cap = 0;
    for (int i = 0; i < n_src; i++) {
        const fx_lazy *of = fx_build_is_lazy(b, src[i]) ? b->lazy[src[i]->id] : NULL;
        cap += of ? of->n_src : 1;
    }
    lazy->src = FX_NEW_ARRAY(b->scratch, fx_node *, cap + n_src + 1);
    lazy->fill = fill;
    /* direct sources keep their numbers; what is read through lazy ones comes behind */
    for (int i = 0; i < n_src; i++)
        lazy->src[i] = src[i];
    lazy->n_src = lazy->n_operands = n_src;
    for (int i = 0; i < n_src; i++) {
        const fx_lazy *of = fx_build_is_lazy(b, src[i]) ? b->lazy[src[i]->id] : NULL;
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
    fx_imaps m = fx_build_imaps(b, b->piece);
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
    if (!fx_build_make_lazy(b, n, 1, &x, NULL))
        return false;
    settle(b, n);
    return true;
}

bool fx_build_lazy_join(fx_build *b, fx_node *n, int n_src, fx_node *const *src, const fx_sexpr *fill)
{
    enum { MOST_PARTS = 8 };
    const fx_home *home = &b->home[n->id];
    if (home->cat || home->output >= 0 || n_src > MOST_PARTS || !fx_build_copies_read(b, n))
        return false;
    for (int i = 0; i < n_src; i++)
        if (b->home[src[i]->id].cat == n) /* computed in place: nothing is copied */
            return false;
    return fx_build_make_lazy(b, n, n_src, src, fill);
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
    fx_imaps m = fx_build_imaps(b, b->piece);
    const fx_lazy *lazy = fx_build_is_lazy(b, n) ? b->lazy[n->id] : NULL;
    *out = (fx_read){0};
    if (lazy) {
        const fx_imap *wide = fx_imap_expand(&m, n->type->rank, n->type->dims, rank, dims);
        out->map = wide ? fx_imap_compose(&m, wide, 0, lazy->map, 1) : NULL;
    }
    if (out->map) {
        int *buf = FX_NEW_ARRAY(b->piece, int, lazy->n_src + 1);
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

void fx_read_at(const fx_window *v, fx_read *out)
{
    *out = (fx_read){.strided = true, .access = {.buf = v->buf, .offset = v->offset}};
    memcpy(out->access.strides, v->strides, sizeof v->strides);
}

static const fx_imap *strided_map(const fx_imaps *m, int rank, const fx_dim *dims, const fx_nest_access *a)
{
    return fx_imap_flat(m, fx_imap_identity(m, rank, dims), 0, a->offset, a->strides);
}

/* One box: its loops and what each read is there. */
static bool make_box(fx_build *b, const fx_imaps *m, int rank, const fx_imap_box *box, const int *order, int n, const fx_read *reads,
                     const fx_imap *const *maps, fx_read_box *out)
{
    const fx_ix **x = FX_NEW_ARRAY(b->piece, const fx_ix *, n + 1);
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

/* Where to cut a dim of size `size` so that the digits of index x run through whole periods on one side: at the first or the last multiple. */
static int64_t uneven(const fx_ix *of, int dim, int64_t size, fx_dim period)
{
    int64_t base, coef = 0, step;
    if (!fx_dim_known(period) || period.value < 2 || !fx_dim_known(of->base))
        return 0;
    for (int i = 0; i < of->n; i++) {
        const fx_ix_term *t = &of->term[i];
        if (!fx_dim_known(t->coef) || (t->var != dim && t->coef.value % period.value))
            return 0; /* where periods begin depends on other dims */
        coef = t->var == dim ? t->coef.value : coef;
    }
    base = of->base.value % period.value;
    base = base ? period.value - (base < 0 ? base + period.value : base) : 0; /* as far as the next multiple */
    if (coef < 1 || period.value % coef || base % coef)
        return 0;
    step = period.value / coef;
    base /= coef;
    if (base > 0)
        return base < size ? base : 0;
    return size % step ? size / step * step : 0;
}

/* The first such cut of a box in the digits of x; *at 0: none. */
static void find_cut(const fx_ix *x, int rank, const fx_dim *dims, int *dim, int64_t *at)
{
    for (int i = 0; i < x->n && !*at; i++) {
        const fx_ix_term *t = &x->term[i];
        if (t->var >= 0)
            continue;
        for (int d = 0; d < rank && !*at; d++) {
            if (!fx_dim_known(dims[d]))
                continue;
            *dim = d;
            if (fx_dim_known(t->mod) && fx_dim_known(t->div) && t->mod.value > 0 && t->div.value < INT32_MAX && t->mod.value < INT32_MAX)
                *at = uneven(t->of, d, dims[d].value, fx_dim_of(t->div.value * t->mod.value));
            if (!*at)
                *at = uneven(t->of, d, dims[d].value, t->div);
        }
        if (!*at)
            find_cut(t->of, rank, dims, dim, at);
    }
}

/* Boxes that a nest is cut into; more are not worth their code. */
enum { MOST_BOXES = 24 };

/* What boxes are made of. */
typedef struct boxes {
    fx_build *b;
    fx_imaps m;
    int rank, order[FX_MAX_RANK];
    int n_reads;
    const fx_read *reads;
    const fx_imap **maps;
    int n;
    fx_read_box *box;
} boxes;

/* The box as one nest, or cut in two where digits would begin or end in the middle of a period. */
static bool add_box(boxes *s, const fx_imap_box *box)
{
    if (s->n == MOST_BOXES)
        return false;
    if (make_box(s->b, &s->m, s->rank, box, s->order, s->n_reads, s->reads, s->maps, &s->box[s->n])) {
        s->n++;
        return true;
    }
    fx_dim dims[FX_MAX_RANK];
    int64_t at = 0;
    int dim = 0;
    for (int i = 0; i < s->rank; i++)
        dims[i] = fx_dim_sub(s->b->ctx, box->hi[i], box->lo[i]);
    for (int k = 0; k < s->n_reads && !at; k++) {
        const fx_imap_piece *p = &s->maps[k]->piece[box->piece[k]];
        if (p->source >= 0)
            find_cut(fx_ix_within(&s->m, s->rank, box->lo, box->hi, p->index[0]), s->rank, dims, &dim, &at);
    }
    if (!at)
        return false;
    fx_imap_box part[2] = {*box, *box};
    part[0].hi[dim] = part[1].lo[dim] = fx_dim_plus(s->b->ctx, box->lo[dim], at);
    return add_box(s, &part[0]) && add_box(s, &part[1]);
}

bool fx_build_read_boxes(fx_build *b, const fx_window *dst, int n, const fx_read *reads, int *n_boxes, fx_read_box **out)
{
    boxes s = {.b = b, .m = fx_build_imaps(b, b->piece), .rank = dst->rank, .n_reads = n, .reads = reads};
    int n_cuts;
    const fx_imap_box *cuts;
    s.maps = FX_NEW_ARRAY(b->piece, const fx_imap *, n + 1);
    for (int k = 0; k < n; k++)
        s.maps[k] = reads[k].strided ? strided_map(&s.m, dst->rank, dst->dims, &reads[k].access) : reads[k].map;
    if (!fx_imap_boxes(&s.m, n, s.maps, &n_cuts, &cuts) || n_cuts > MOST_BOXES)
        return false;
    fx_window_order(b, dst, s.order);
    s.box = FX_NEW_ARRAY(b->piece, fx_read_box, MOST_BOXES);
    for (int i = 0; i < n_cuts; i++)
        if (!add_box(&s, &cuts[i]))
            return false;
    *n_boxes = s.n;
    *out = s.box;
    return true;
}
