/* ir/index_map.c: index maps: one op's, composed, cut into boxes, refined into loops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/index_expr.h"

static bool at_least(const fx_imaps *m, fx_dim a, fx_dim b)
{
    return !a.sym && !b.sym ? a.value >= b.value : fx_dim_equal(a, b) || fx_dim_le(m->ctx, m->symbols, b, a);
}

static fx_dim later(const fx_imaps *m, fx_dim a, fx_dim b)
{
    return at_least(m, a, b) ? a : at_least(m, b, a) ? b : fx_dim_max(m->ctx, a, b);
}

static fx_dim earlier(const fx_imaps *m, fx_dim a, fx_dim b)
{
    if (at_least(m, a, b) || at_least(m, b, a))
        return at_least(m, a, b) ? b : a;
    const fx_sym *args[2] = {fx_dim_as_sym(m->ctx, a), fx_dim_as_sym(m->ctx, b)};
    return fx_dim_sym(fx_sym_make(m->ctx, FX_SYM_MIN, 2, args));
}

/* ---- one op ---------------------------------------------------------------------------------------------------- */

/* A map whose pieces are being made; each piece starts as the whole domain. */
typedef struct making {
    const fx_imaps *m;
    fx_imap map;
    fx_imap_piece *piece;
    size_t n, cap;
} making;

static making make(const fx_imaps *m, int rank, const fx_dim *dims)
{
    making k = {.m = m, .map = {.rank = rank}};
    for (int i = 0; i < rank; i++)
        k.map.dims[i] = dims[i];
    return k;
}

static fx_imap_piece whole(const making *k, int source, int rank)
{
    fx_imap_piece p = {.source = source, .rank = rank};
    for (int i = 0; i < k->map.rank; i++) {
        p.lo[i] = fx_dim_of(0);
        p.hi[i] = k->map.dims[i];
    }
    return p;
}

static fx_ix_space space_of(const making *k, const fx_imap_piece *p)
{
    return (fx_ix_space){k->map.rank, p->lo, p->hi};
}

static bool is_empty(const fx_imaps *m, const fx_dim *lo, const fx_dim *hi, int rank)
{
    for (int i = 0; i < rank; i++)
        if (at_least(m, lo[i], hi[i]))
            return true;
    return false;
}

static void push(making *k, const fx_imap_piece *p)
{
    if (!is_empty(k->m, p->lo, p->hi, k->map.rank))
        FX_PUSH(k->m->arena, k->piece, k->n, k->cap) = *p;
}

static const fx_imap *made(making *k)
{
    fx_imap *map = FX_NEW(k->m->arena, fx_imap);
    *map = k->map;
    map->n = (int)k->n;
    map->piece = k->piece;
    return map;
}

/* With one more piece; an empty consumer has a piece all the same. */
static const fx_imap *made_of(making *k, const fx_imap_piece *p)
{
    push(k, p);
    if (k->n == 0)
        FX_PUSH(k->m->arena, k->piece, k->n, k->cap) = *p;
    return made(k);
}

/* coef * d(var) + base; d(var) alone counts as 0 where the dim has one element. */
static const fx_ix *linear(const making *k, int var, fx_dim coef, fx_dim base)
{
    const fx_ix *c = fx_ix_const(k->m, base);
    if (fx_dim_is(k->map.dims[var], 1))
        return c;
    return fx_ix_add(k->m, NULL, fx_ix_scale(k->m, NULL, fx_ix_dim(k->m, var), coef), c);
}

static const fx_ix *just(const making *k, int var)
{
    return linear(k, var, fx_dim_of(1), fx_dim_of(0));
}

const fx_imap *fx_imap_identity(const fx_imaps *m, int rank, const fx_dim *dims)
{
    making k = make(m, rank, dims);
    fx_imap_piece p = whole(&k, 0, rank);
    for (int i = 0; i < rank; i++)
        p.index[i] = just(&k, i);
    return made_of(&k, &p);
}

const fx_imap *fx_imap_reshape(const fx_imaps *m, int rank, const fx_dim *dims, int out_rank, const fx_dim *out)
{
    making k = make(m, out_rank, out);
    fx_imap_piece p = whole(&k, 0, rank);
    fx_ix_space s = space_of(&k, &p);
    const fx_ix *flat = fx_ix_const(m, fx_dim_of(0));
    fx_dim stride = fx_dim_of(1);
    for (int i = out_rank - 1; i >= 0; i--) {
        flat = fx_ix_add(m, &s, flat, fx_ix_scale(m, &s, just(&k, i), stride));
        stride = fx_dim_mul(m->ctx, stride, out[i]);
    }
    stride = fx_dim_of(1);
    int first = 0; /* sizes of 1 in front have no digit */
    while (first < rank && fx_dim_is(dims[first], 1))
        first++;
    for (int i = rank - 1; i >= 0; i--) {
        if (i < first || fx_dim_is(dims[i], 1)) {
            p.index[i] = fx_ix_const(m, fx_dim_of(0));
            continue;
        }
        const fx_ix *q = fx_ix_floordiv(m, &s, flat, stride);
        p.index[i] = i == first ? q : fx_ix_mod(m, &s, q, dims[i]);
        stride = fx_dim_mul(m->ctx, stride, dims[i]);
    }
    return made_of(&k, &p);
}

const fx_imap *fx_imap_permute(const fx_imaps *m, int rank, const fx_dim *dims, const int *order)
{
    fx_dim out[FX_MAX_RANK] = {{0}};
    for (int i = 0; i < rank; i++)
        out[i] = dims[order[i]];
    making k = make(m, rank, out);
    fx_imap_piece p = whole(&k, 0, rank);
    for (int i = 0; i < rank; i++)
        p.index[order[i]] = just(&k, i);
    return made_of(&k, &p);
}

const fx_imap *fx_imap_slice(const fx_imaps *m, int rank, const fx_dim *dims, int dim, fx_dim start, fx_dim step, fx_dim length)
{
    making k = make(m, rank, dims);
    k.map.dims[dim] = length;
    fx_imap_piece p = whole(&k, 0, rank);
    for (int i = 0; i < rank; i++)
        p.index[i] = i == dim ? linear(&k, i, step, start) : just(&k, i);
    return made_of(&k, &p);
}

const fx_imap *fx_imap_select(const fx_imaps *m, int rank, const fx_dim *dims, int dim, fx_dim index)
{
    fx_dim out[FX_MAX_RANK] = {{0}};
    for (int i = 0; i < rank - 1; i++)
        out[i] = dims[i + (i >= dim)];
    making k = make(m, rank - 1, out);
    fx_imap_piece p = whole(&k, 0, rank);
    for (int i = 0; i < rank; i++)
        p.index[i] = i == dim ? fx_ix_const(m, index) : just(&k, i - (i > dim));
    return made_of(&k, &p);
}

const fx_imap *fx_imap_expand(const fx_imaps *m, int rank, const fx_dim *dims, int out_rank, const fx_dim *out)
{
    making k = make(m, out_rank, out);
    fx_imap_piece p = whole(&k, 0, rank);
    for (int i = 0; i < rank; i++)
        p.index[i] = fx_dim_is(dims[i], 1) ? fx_ix_const(m, fx_dim_of(0)) : just(&k, out_rank - rank + i);
    return made_of(&k, &p);
}

const fx_imap *fx_imap_flip(const fx_imaps *m, int rank, const fx_dim *dims, unsigned which)
{
    making k = make(m, rank, dims);
    fx_imap_piece p = whole(&k, 0, rank);
    for (int i = 0; i < rank; i++)
        p.index[i] = which >> i & 1 ? linear(&k, i, fx_dim_of(-1), fx_dim_plus(m->ctx, dims[i], -1)) : just(&k, i);
    return made_of(&k, &p);
}

/* What lies before or behind the middle of dim i is a slab: of the dims before i the middle, of those behind everything. */
const fx_imap *fx_imap_pad(const fx_imaps *m, int rank, const fx_dim *dims, const fx_dim *before, const fx_dim *after)
{
    const fx_dim zero = fx_dim_of(0);
    fx_dim out[FX_MAX_RANK] = {{0}};
    for (int i = 0; i < rank; i++)
        out[i] = later(m, fx_dim_add(m->ctx, fx_dim_add(m->ctx, dims[i], before[i]), after[i]), zero);
    making k = make(m, rank, out);
    fx_imap_piece middle = whole(&k, 0, rank);
    for (int i = 0; i < rank; i++) {
        fx_dim lo = earlier(m, later(m, before[i], zero), out[i]);
        fx_dim hi = later(m, earlier(m, fx_dim_add(m->ctx, dims[i], before[i]), out[i]), lo);
        fx_imap_piece slab = middle;
        slab.source = -1;
        slab.rank = 0;
        slab.hi[i] = lo;
        push(&k, &slab);
        slab.lo[i] = hi;
        slab.hi[i] = out[i];
        push(&k, &slab);
        middle.lo[i] = lo;
        middle.hi[i] = hi;
        middle.index[i] = linear(&k, i, fx_dim_of(1), fx_dim_sub(m->ctx, zero, before[i]));
    }
    return made_of(&k, &middle);
}

const fx_imap *fx_imap_cat(const fx_imaps *m, int rank, const fx_dim *dims, int dim, int n, const fx_dim *size)
{
    making k = make(m, rank, dims);
    fx_dim at = fx_dim_of(0);
    for (int o = 0; o < n; o++) {
        fx_imap_piece p = whole(&k, o, rank);
        fx_dim end = fx_dim_add(m->ctx, at, size[o]);
        p.lo[dim] = at;
        p.hi[dim] = end;
        for (int i = 0; i < rank; i++)
            p.index[i] = i == dim ? linear(&k, i, fx_dim_of(1), fx_dim_sub(m->ctx, fx_dim_of(0), at)) : just(&k, i);
        at = end;
        if (o == n - 1)
            return made_of(&k, &p);
        push(&k, &p);
    }
    return made(&k);
}

const fx_imap *fx_imap_repeat(const fx_imaps *m, int rank, const fx_dim *dims, int out_rank, const fx_dim *times)
{
    fx_dim out[FX_MAX_RANK] = {{0}};
    for (int i = 0; i < out_rank; i++)
        out[i] = i < out_rank - rank ? times[i] : fx_dim_mul(m->ctx, times[i], dims[i - (out_rank - rank)]);
    making k = make(m, out_rank, out);
    fx_imap_piece p = whole(&k, 0, rank);
    fx_ix_space s = space_of(&k, &p);
    for (int i = 0; i < rank; i++)
        p.index[i] = fx_ix_mod(m, &s, just(&k, i + out_rank - rank), dims[i]);
    return made_of(&k, &p);
}

const fx_imap *fx_imap_roll(const fx_imaps *m, int rank, const fx_dim *dims, int dim, fx_dim shift)
{
    making k = make(m, rank, dims);
    for (int front = 1; front >= 0; front--) {
        fx_imap_piece p = whole(&k, 0, rank);
        fx_dim base = fx_dim_sub(m->ctx, front ? dims[dim] : fx_dim_of(0), shift);
        *(front ? &p.hi[dim] : &p.lo[dim]) = shift;
        for (int i = 0; i < rank; i++)
            p.index[i] = i == dim ? linear(&k, i, fx_dim_of(1), base) : just(&k, i);
        push(&k, &p);
    }
    return made(&k);
}

const fx_imap *fx_imap_unfold(const fx_imaps *m, int rank, const fx_dim *dims, int dim, fx_dim size, fx_dim step)
{
    fx_dim out[FX_MAX_RANK + 1] = {{0}};
    memcpy(out, dims, sizeof *out * (size_t)rank);
    out[dim] = fx_dim_plus(m->ctx, fx_dim_floordiv(m->ctx, fx_dim_sub(m->ctx, dims[dim], size), step), 1);
    out[rank] = size;
    making k = make(m, rank + 1, out);
    fx_imap_piece p = whole(&k, 0, rank);
    for (int i = 0; i < rank; i++)
        p.index[i] = i == dim ? fx_ix_add(m, NULL, linear(&k, i, step, fx_dim_of(0)), just(&k, rank)) : just(&k, i);
    return made_of(&k, &p);
}

const fx_imap *fx_imap_diagonal(const fx_imaps *m, int rank, const fx_dim *dims, int64_t offset, int dim1, int dim2, fx_dim length)
{
    fx_dim out[FX_MAX_RANK] = {{0}};
    int at[FX_MAX_RANK], n = 0;
    for (int i = 0; i < rank; i++)
        if (i != dim1 && i != dim2) {
            at[i] = n;
            out[n++] = dims[i];
        }
    at[dim1] = at[dim2] = n;
    out[n++] = length;
    making k = make(m, n, out);
    fx_imap_piece p = whole(&k, 0, rank);
    for (int i = 0; i < rank; i++) {
        int64_t base = i == dim1 && offset < 0 ? -offset : i == dim2 && offset > 0 ? offset : 0;
        p.index[i] = linear(&k, at[i], fx_dim_of(1), fx_dim_of(base));
    }
    return made_of(&k, &p);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* Cuts the piece's box to where x < v (upper) or x >= v; false when that is not a box (as far as known). */
static bool cut(making *k, fx_imap_piece *p, const fx_ix *x, fx_dim v, bool upper)
{
    const fx_imaps *m = k->m;
    fx_ix_space s = space_of(k, p);
    fx_dim lo, hi, zero = fx_dim_of(0);
    if (fx_ix_bounds(m, &s, x, &lo, &hi)) {
        bool all = upper ? at_least(m, v, fx_dim_plus(m->ctx, hi, 1)) : at_least(m, lo, v);
        bool none = upper ? at_least(m, lo, v) : at_least(m, v, fx_dim_plus(m->ctx, hi, 1));
        if (none && !all)
            for (int i = 0; i < k->map.rank; i++)
                p->hi[i] = p->lo[i];
        if (none && !all && k->map.rank == 0)
            p->source = -2; /* no point at all */
        if (all || none)
            return true;
    }
    if (x->n == 0)
        return false;
    v = fx_dim_sub(m->ctx, v, x->base);
    const fx_ix_term *t = x->term;
    bool falls = at_least(m, fx_dim_of(-1), t->coef);
    if (falls) { /* -y < v is y >= 1 - v */
        fx_ix base = {.base = x->base};
        const fx_ix *y = fx_ix_scale(m, &s, fx_ix_add(m, &s, x, fx_ix_scale(m, &s, &base, fx_dim_of(-1))), fx_dim_of(-1));
        return cut(k, p, y, fx_dim_sub(m->ctx, fx_dim_of(1), v), !upper);
    }
    if (x->n == 1) {
        if (!at_least(m, t->coef, fx_dim_of(1)))
            return false;
        /* coef * a < v is a < ceil(v / coef) */
        v = fx_ix_floor(m, fx_dim_add(m->ctx, v, fx_dim_plus(m->ctx, t->coef, -1)), t->coef);
        if (t->var < 0) {
            if (!fx_dim_is(t->mod, 0))
                return false;
            return cut(k, p, t->of, fx_dim_mul(m->ctx, v, t->div), upper);
        }
        fx_dim *end = upper ? &p->hi[t->var] : &p->lo[t->var];
        *end = upper ? earlier(m, *end, v) : later(m, *end, v);
        p->hi[t->var] = later(m, p->hi[t->var], p->lo[t->var]); /* a box may be empty, never less */
        return true;
    }
    fx_ix base = {.base = x->base};
    const fx_ix *y = fx_ix_add(m, &s, x, fx_ix_scale(m, &s, &base, fx_dim_of(-1))), *w, *r;
    fx_dim g[FX_IX_DIVISORS], q;
    int n = fx_ix_divisors(m, y, zero, g);
    for (int i = 0; i < n; i++) { /* g*w + r < g*q is w < q */
        bool whole_v = fx_dim_divide(m->ctx, v, g[i], &q);
        if (whole_v && fx_ix_split(m, &s, y, g[i], &w, &r) && w->n < y->n)
            return cut(k, p, w, q, upper);
    }
    return false;
}

const fx_imap *fx_imap_compose(const fx_imaps *m, const fx_imap *outer, int source, const fx_imap *inner, int shift)
{
    making k = make(m, outer->rank, outer->dims);
    fx_imap_piece last = {.source = -1};
    for (int o = 0; o < outer->n; o++) {
        const fx_imap_piece *a = &outer->piece[o];
        last = *a;
        if (a->source != source) {
            push(&k, a);
            continue;
        }
        for (int i = 0; i < inner->n; i++) {
            const fx_imap_piece *b = &inner->piece[i];
            fx_imap_piece p = *a;
            for (int d = 0; d < inner->rank; d++) {
                bool from_start = fx_dim_is(b->lo[d], 0), to_end = fx_dim_equal(b->hi[d], inner->dims[d]);
                if ((!from_start && !cut(&k, &p, a->index[d], b->lo[d], false)) ||
                    (!to_end && !cut(&k, &p, a->index[d], b->hi[d], true)))
                    return NULL;
            }
            if (p.source == -2)
                continue;
            fx_ix_space s = space_of(&k, &p);
            const fx_ix *same[FX_MAX_RANK], *to[FX_MAX_RANK];
            for (int d = 0; d < outer->rank; d++)
                same[d] = just(&k, d);
            for (int d = 0; d < inner->rank; d++) /* the box may be smaller now */
                to[d] = fx_ix_replace(m, &s, a->index[d], same);
            p.source = b->source < 0 ? -1 : b->source + shift;
            p.rank = b->rank;
            for (int d = 0; d < b->rank; d++) {
                p.index[d] = fx_ix_replace(m, &s, b->index[d], to);
                if (fx_ix_size(p.index[d]) >= FX_IX_MOST)
                    return NULL;
            }
            push(&k, &p);
            last = p;
            if (k.n > FX_IMAP_MOST)
                return NULL;
        }
    }
    return k.n ? made(&k) : made_of(&k, &last);
}

const fx_imap *fx_imap_flat(const fx_imaps *m, const fx_imap *map, int source, fx_dim offset, const fx_dim *strides)
{
    making k = make(m, map->rank, map->dims);
    for (int i = 0; i < map->n; i++) {
        fx_imap_piece p = map->piece[i];
        fx_ix_space s = space_of(&k, &p);
        if (p.source == source) {
            const fx_ix *at = fx_ix_const(m, offset);
            for (int d = 0; d < p.rank; d++)
                at = fx_ix_add(m, &s, at, fx_ix_scale(m, &s, p.index[d], strides[d]));
            memset(p.index, 0, sizeof p.index);
            p.rank = 1;
            p.index[0] = at;
        }
        FX_PUSH(m->arena, k.piece, k.n, k.cap) = p;
    }
    return made(&k);
}

const fx_ix *fx_ix_within(const fx_imaps *m, int rank, const fx_dim *lo, const fx_dim *hi, const fx_ix *x)
{
    const fx_ix *to[FX_MAX_RANK];
    fx_dim size[FX_MAX_RANK];
    fx_ix_space s = {rank, NULL, size};
    for (int i = 0; i < rank; i++) {
        size[i] = fx_dim_sub(m->ctx, hi[i], lo[i]);
        to[i] = fx_ix_const(m, lo[i]);
        if (!fx_dim_is(size[i], 1))
            to[i] = fx_ix_add(m, NULL, fx_ix_dim(m, i), to[i]);
    }
    return fx_ix_replace(m, &s, x, to);
}

const fx_imap *fx_imap_part(const fx_imaps *m, const fx_imap *map, int at)
{
    const fx_imap_piece *from = &map->piece[at];
    fx_dim size[FX_MAX_RANK] = {{0}};
    for (int i = 0; i < map->rank; i++)
        size[i] = fx_dim_sub(m->ctx, from->hi[i], from->lo[i]);
    making k = make(m, map->rank, size);
    fx_imap_piece p = whole(&k, from->source, from->rank);
    for (int d = 0; d < from->rank; d++)
        p.index[d] = fx_ix_within(m, map->rank, from->lo, from->hi, from->index[d]);
    return made_of(&k, &p);
}

bool fx_imap_boxes(const fx_imaps *m, int n, const fx_imap *const *maps, int *n_boxes, const fx_imap_box **boxes)
{
    int rank = n ? maps[0]->rank : 0;
    fx_imap_box *now = FX_NEW(m->arena, fx_imap_box);
    int n_now = 1;
    for (int i = 0; i < rank; i++) {
        now[0].lo[i] = fx_dim_of(0);
        now[0].hi[i] = maps[0]->dims[i];
    }
    for (int k = 0; k < n; k++) {
        int n_next = 0, most = n_now * maps[k]->n < FX_IMAP_MOST ? n_now * maps[k]->n : FX_IMAP_MOST;
        fx_imap_box *next = FX_NEW_ARRAY(m->arena, fx_imap_box, most);
        for (int b = 0; b < n_now; b++)
            for (int p = 0; p < maps[k]->n; p++) {
                fx_imap_box box = now[b];
                for (int i = 0; i < rank; i++) {
                    box.lo[i] = later(m, box.lo[i], maps[k]->piece[p].lo[i]);
                    box.hi[i] = later(m, earlier(m, box.hi[i], maps[k]->piece[p].hi[i]), box.lo[i]); /* a box may be empty, never less */
                }
                if (is_empty(m, box.lo, box.hi, rank))
                    continue;
                if (n_next == FX_IMAP_MOST)
                    return false;
                int *piece = FX_NEW_ARRAY(m->arena, int, n);
                if (k > 0)
                    memcpy(piece, now[b].piece, sizeof *piece * (size_t)k);
                piece[k] = p;
                box.piece = piece;
                next[n_next++] = box;
            }
        now = next;
        n_now = n_next;
    }
    *n_boxes = n_now;
    *boxes = now;
    return true;
}

/* ---- refinement ---------------------------------------------------------------------------------------------------- */

/* The cuts of one dim: a chain of divisors, smallest first; they turn into parts. */
typedef struct cuts {
    int n;
    fx_dim at[FX_SPLIT_MOST];
} cuts;

static bool add_cut(const fx_imaps *m, cuts *c, fx_dim extent, fx_dim at)
{
    fx_dim q;
    int k = 0;
    if (fx_dim_is(at, 1) || fx_dim_equal(at, extent))
        return true;
    if (!fx_dim_divide(m->ctx, extent, at, &q))
        return false;
    while (k < c->n && !fx_dim_equal(c->at[k], at) && fx_dim_divide(m->ctx, at, c->at[k], &q))
        k++;
    if (k < c->n && fx_dim_equal(c->at[k], at))
        return true;
    if ((k < c->n && !fx_dim_divide(m->ctx, c->at[k], at, &q)) || c->n == FX_SPLIT_MOST)
        return false;
    memmove(&c->at[k + 1], &c->at[k], sizeof *c->at * (size_t)(c->n - k));
    c->at[k] = at;
    c->n++;
    return true;
}

/* Cuts where the digits of single dims in x want them. */
static bool collect(const fx_imaps *m, const fx_dim *dims, const fx_ix *x, cuts *c)
{
    for (int i = 0; i < x->n; i++) {
        const fx_ix_term *t = &x->term[i];
        if (t->var >= 0)
            continue;
        const fx_ix *of = t->of;
        int var = of->n == 1 && fx_dim_is(of->base, 0) && fx_dim_is(of->term[0].coef, 1) ? of->term[0].var : -1;
        if (var < 0) {
            if (!collect(m, dims, of, c))
                return false;
            continue;
        }
        if (!add_cut(m, &c[var], dims[var], t->div) ||
            (!fx_dim_is(t->mod, 0) && !add_cut(m, &c[var], dims[var], fx_dim_mul(m->ctx, t->div, t->mod))))
            return false;
    }
    return true;
}

static bool to_parts(const fx_imaps *m, int rank, const fx_dim *dims, const cuts *c, fx_split *s)
{
    s->n = 0;
    for (int i = 0; i < rank; i++) {
        fx_dim size = dims[i];
        if (s->n + c[i].n + 1 > FX_SPLIT_MOST)
            return false;
        for (int k = c[i].n; k >= 0; k--) {
            fx_dim coef = k > 0 ? c[i].at[k - 1] : fx_dim_of(1), extent;
            if (!fx_dim_divide(m->ctx, size, coef, &extent))
                return false;
            s->dim[s->n] = i;
            s->extent[s->n] = extent;
            s->coef[s->n++] = coef;
            size = coef;
        }
    }
    return true;
}

/* x with the dims replaced by their parts. */
static const fx_ix *over_parts(const fx_imaps *m, const fx_ix *x, const fx_split *s)
{
    const fx_ix *to[FX_MAX_RANK];
    fx_ix_space space = {s->n, NULL, s->extent};
    for (int i = 0; i < FX_MAX_RANK; i++)
        to[i] = fx_ix_const(m, fx_dim_of(0));
    for (int k = 0; k < s->n; k++)
        if (!fx_dim_is(s->extent[k], 1))
            to[s->dim[k]] = fx_ix_add(m, &space, to[s->dim[k]], fx_ix_scale(m, &space, fx_ix_dim(m, k), s->coef[k]));
    return fx_ix_replace(m, &space, x, to);
}

bool fx_ix_over(const fx_imaps *m, const fx_ix *x, const fx_split *s, fx_dim *base, fx_dim *coef)
{
    return fx_ix_strided(over_parts(m, x, s), s->n, base, coef);
}

bool fx_ix_refine(const fx_imaps *m, int rank, const fx_dim *dims, int n, const fx_ix *const *x, fx_split *out)
{
    cuts c[FX_MAX_RANK] = {{0}};
    fx_dim base, coef[FX_SPLIT_MOST];
    for (int i = 0; i < n; i++)
        if (!collect(m, dims, x[i], c))
            return false;
    if (!to_parts(m, rank, dims, c, out))
        return false;
    for (int i = 0; i < n; i++)
        if (!fx_ix_over(m, x[i], out, &base, coef))
            return false;
    return true;
}

bool fx_imap_refine(const fx_imaps *m, int n, const fx_imap *const *flat, fx_split *out)
{
    const fx_ix **x = FX_NEW_ARRAY(m->arena, const fx_ix *, n + 1);
    for (int i = 0; i < n; i++) {
        if (flat[i]->n != 1)
            return false;
        x[i] = flat[i]->piece[0].source < 0 ? fx_ix_const(m, fx_dim_of(0)) : flat[i]->piece[0].index[0];
    }
    return fx_ix_refine(m, n ? flat[0]->rank : 0, n ? flat[0]->dims : NULL, n, x, out);
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

bool fx_imap_eval(const fx_imaps *m, const int64_t *values, const fx_imap *map, const int64_t *point, int *source, int64_t *index)
{
    for (int k = 0; k < map->n; k++) {
        const fx_imap_piece *p = &map->piece[k];
        bool inside = true;
        for (int i = 0; i < map->rank && inside; i++) {
            int64_t lo, hi;
            if (!fx_dim_eval(m->symbols, values, p->lo[i], &lo) || !fx_dim_eval(m->symbols, values, p->hi[i], &hi))
                return false;
            inside = point[i] >= lo && point[i] < hi;
        }
        if (!inside)
            continue;
        *source = p->source;
        for (int d = 0; d < p->rank; d++)
            if (!fx_ix_eval(m, values, p->index[d], point, &index[d]))
                return false;
        return true;
    }
    return false;
}

bool fx_imap_equal(const fx_imap *a, const fx_imap *b)
{
    bool same = a->rank == b->rank && a->n == b->n;
    for (int i = 0; same && i < a->rank; i++)
        same = fx_dim_equal(a->dims[i], b->dims[i]);
    for (int k = 0; same && k < a->n; k++) {
        const fx_imap_piece *p = &a->piece[k], *q = &b->piece[k];
        same = p->source == q->source && p->rank == q->rank;
        for (int i = 0; same && i < a->rank; i++)
            same = fx_dim_equal(p->lo[i], q->lo[i]) && fx_dim_equal(p->hi[i], q->hi[i]);
        for (int d = 0; same && d < p->rank; d++)
            same = fx_ix_equal(p->index[d], q->index[d]);
    }
    return same;
}
