/* lower/build_rows_plan.c: what the step of a region of rows reads, stores, folds and keeps, and how its loops lie.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/build_rows.h"

enum { KEPT_BYTES = 16384 };

int fx_row_member_at(const fx_row_region *r, const fx_node *n)
{
    for (int i = 0; i < r->n; i++) {
        if (r->m[i].node == n)
            return i;
    }
    return -1;
}

bool fx_row_is_result(const fx_row_region *r, const fx_node *n)
{
    return n->op->id == FX_OP_getitem && fx_row_member_at(r, fx_node_input(n, 0)) >= 0;
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

static void analyse(fx_row_region *r)
{
    for (int i = 0; i < r->n; i++) {
        fx_row_member *m = &r->m[i];
        m->cls = fx_row_class_of(r->s, m->node);
        m->kept[0].buf = m->kept[1].buf = -1;
        m->costly = costs(m->node) || fx_row_is_norm(m->node);
        for (int k = 0; k < m->node->n_operands; k++) {
            int d = fx_row_member_at(r, m->node->operands[k].def);
            if (d < 0)
                continue;
            m->avail = r->m[d].avail > m->avail ? r->m[d].avail : m->avail;
            m->costly |= r->m[d].cls == FX_ROW_FULL && r->m[d].costly;
        }
        if (fx_row_is_fold(m->node) || fx_row_is_norm(m->node))
            m->avail = fx_row_find_folds(r, i, m->avail);
    }
}

/* Which passes compute the elements of member i. */
static void need(fx_row_region *r, int i, int pass)
{
    fx_row_member *m = &r->m[i];
    if (m->cls != FX_ROW_FULL || (m->needed >> pass & 1) || pass > 30)
        return;
    m->needed |= 1u << pass;
    for (int k = 0; k < m->node->n_operands; k++) {
        int d = fx_row_member_at(r, m->node->operands[k].def);
        if (d >= 0)
            need(r, d, pass);
    }
}

int fx_row_output_of(const fx_row_region *r, int i)
{
    for (int o = 0; o < r->n_outs; o++) {
        if (r->out[o].member == i && r->out[o].cls == FX_ROW_FULL && r->out[o].part == 0)
            return o;
    }
    return -1;
}

/* Passes whose elements member i's own result or a reduction needs; then what is kept, and where. */
static void decide_kept(fx_row_region *r)
{
    for (int f = 0; f < r->n_folds; f++) {
        int d = fx_row_member_at(r, fx_node_input(r->m[r->fold[f].member].node, 0));
        if (d >= 0)
            need(r, d, r->fold[f].pass);
    }
    int last = -1; /* the full result that is stored last, also of those that are stored in one pass */
    for (int o = 0; o < r->n_outs; o++) {
        const fx_row_output *out = &r->out[o];
        if (out->cls != FX_ROW_FULL)
            continue;
        need(r, out->member, r->m[out->member].avail);
        if (last < 0 || r->m[out->member].avail >= r->m[r->out[last].member].avail)
            last = o;
    }
    bool lent = false, gpu = fx_target_is_gpu(&r->b->p->target);
    int64_t row = 1;
    for (int i = 0; i < r->row.n; i++)
        row = row < 0 || r->row.extent[i].sym || r->row.extent[i].value > KEPT_BYTES ? -1 : row * r->row.extent[i].value;
    for (int i = 0; i < r->n; i++) {
        fx_row_member *m = &r->m[i];
        if (m->cls != FX_ROW_FULL)
            continue;
        int own = fx_row_output_of(r, i), many = (m->needed & (m->needed - 1)) != 0;
        if (own >= 0) { /* stored when first known; read back in later passes */
            m->kept[0].on = true;
            m->kept[0].pass = m->avail;
            m->kept[0].access = r->out[own].access;
        }
        bool exponentials = m->node->op->id == FX_OP__softmax;
        int part = exponentials ? 1 : 0;
        if (!(exponentials || (many && m->costly && own < 0)))
            continue;
        fx_dtype t = exponentials ? fx_row_norm_dtype(m->node) : m->node->type->dtype;
        int since = exponentials ? m->avail - 1 : m->avail;
        int64_t bytes = row < 0 ? -1 : row * (int64_t)fx_dtype_size(t);
        if (last >= 0 && !lent && r->out[last].w.dtype == t && r->m[r->out[last].member].avail > since) {
            m->kept[part].access = r->out[last].access;
            lent = true;
        } else if (!r->batched && !(gpu && r->across) && bytes >= 0 && r->kept_bytes + bytes <= KEPT_BYTES) {
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
static void aligned(const fx_row_region *r, const fx_window *v, bool dropped, fx_dim *strides)
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

static void add_access(fx_row_region *r, int access, const fx_window *v, bool dropped)
{
    r->access[access] = (fx_nest_access){.buf = v->buf, .offset = v->offset};
    aligned(r, v, dropped, r->access[access].strides);
}

/* A leaf that is not stored, read through its map where that has one piece; false: it has to be stored. */
static fx_status read_leaf(fx_row_region *r, int at, bool *done)
{
    fx_row_leaf *leaf = &r->leaf[at];
    fx_read read;
    *done = false;
    if (leaf->dropped || !fx_build_is_lazy(r->b, leaf->node) || leaf->node->type->rank > r->s->rank)
        return FX_OK;
    FX_TRY(fx_build_read(r->b, leaf->node, r->s->rank, r->s->dims, &read));
    if (read.strided || read.map->n != 1 || read.map->piece[0].source < 0)
        return FX_OK;
    leaf->through = read.map->piece[0].index[0];
    r->access[at] = (fx_nest_access){.buf = read.buf[read.map->piece[0].source]};
    *done = true;
    return FX_OK;
}

static fx_status store_leaf(fx_row_region *r, int at)
{
    fx_window v;
    FX_TRY(fx_build_value(r->b, r->leaf[at].node, &v));
    r->leaf[at].through = NULL;
    add_access(r, at, &v, r->leaf[at].dropped);
    return FX_OK;
}

bool fx_row_is_dropped(const fx_row_region *r, const fx_row_member *m)
{
    return m->cls == FX_ROW_STAT && m->node->type->kind == FX_TYPE_TENSOR && m->node->type->rank != r->s->rank;
}

static fx_status find_leaves(fx_row_region *r)
{
    fx_build *b = r->b;
    for (int i = 0; i < r->n; i++) {
        const fx_row_member *m = &r->m[i];
        for (int k = 0; k < m->node->n_operands; k++) {
            fx_node *d = m->node->operands[k].def;
            bool dropped = !fx_row_is_fold(m->node) && fx_row_is_dropped(r, m);
            int at = 0;
            if (fx_row_member_at(r, d) >= 0 || fx_build_number(b, d))
                continue;
            while (at < r->n_leaves && (r->leaf[at].node != d || r->leaf[at].dropped != dropped))
                at++;
            if (at < r->n_leaves)
                continue;
            if (at == FX_ROWS_LEAVES)
                return fx_fail(b->ctx, FX_INTERNAL, &r->root->loc, "a region of rows reads more than %d tensors", FX_ROWS_LEAVES);
            bool done;
            r->leaf[r->n_leaves++] = (fx_row_leaf){d, dropped, NULL};
            FX_TRY(read_leaf(r, at, &done));
            if (!done)
                FX_TRY(store_leaf(r, at));
        }
    }
    return FX_OK;
}

/* The tensor whose order in memory the loops follow. */
static bool main_window(fx_row_region *r, fx_window *v)
{
    for (int constants = 0; constants < 2; constants++) {
        for (int k = 0; k < r->n_leaves; k++) {
            const fx_type *t = r->leaf[k].node->type;
            bool same = !r->leaf[k].dropped && !r->leaf[k].through && t->kind == FX_TYPE_TENSOR && t->rank == r->s->rank && (constants || !fx_build_is_constant(r->leaf[k].node));
            for (int i = 0; same && i < t->rank; i++)
                same = fx_dim_equal(t->dims[i], r->s->dims[i]);
            if (same)
                return fx_build_value(r->b, r->leaf[k].node, v) == FX_OK;
        }
    }
    return false;
}

static fx_status add_output(fx_row_region *r, int i, int part, fx_node *at, const fx_window *like)
{
    fx_build *b = r->b;
    if (r->n_outs == FX_ROWS_OUTPUTS)
        return fx_fail(b->ctx, FX_INTERNAL, &r->root->loc, "a region of rows writes more than %d tensors", FX_ROWS_OUTPUTS);
    fx_row_output *o = &r->out[r->n_outs];
    bool stat = part > 0 || r->m[i].cls == FX_ROW_STAT;
    *o = (fx_row_output){.member = i, .part = part, .cls = stat ? FX_ROW_STAT : FX_ROW_FULL, .access = r->n_leaves + r->n_outs};
    FX_TRY(fx_build_place(b, at, stat ? NULL : like, &o->w));
    add_access(r, o->access, &o->w, o->cls == FX_ROW_STAT && o->w.rank != r->s->rank);
    r->n_outs++;
    return FX_OK;
}

/* Members that others use are stored: their results' getitems give norms their places. */
static fx_status find_outputs(fx_row_region *r, const fx_window *like)
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
            if (fx_row_member_at(r, u->user) >= 0)
                continue;
            outside = true;
            int k = tuple && u->user->opcode == FX_CALL_FUNCTION ? (int)fx_node_int(u->user, 1) : 0;
            if (!tuple || b->results[n->id][k].buf >= 0)
                continue;
            FX_TRY(add_output(r, i, k, u->user, like));
            b->results[n->id][k] = r->out[r->n_outs - 1].w;
        }
        if (outside && !tuple) {
            bool result = fx_row_is_result(r, n);
            int from = result ? fx_row_member_at(r, fx_node_input(n, 0)) : i;
            FX_TRY(add_output(r, from, result ? (int)fx_node_int(n, 1) : 0, n, like));
            b->value[n->id] = r->out[r->n_outs - 1].w;
        }
    }
    return FX_OK;
}

/* The rows' dims as loops: parts of them where something is read through a map. */
typedef struct row_parts {
    fx_split split;
    int order[FX_NEST_DIMS];       /* as the main tensor lies in memory, the parts of a dim outermost first */
} row_parts;

static void order_parts(fx_row_region *r, const fx_window *main, row_parts *p)
{
    int order[FX_MAX_RANK], n = 0;
    for (int i = 0; i < r->s->rank; i++)
        order[i] = i;
    if (main)
        fx_window_order(r->b, main, order);
    for (int i = 0; i < r->s->rank; i++)
        for (int k = 0; k < p->split.n; k++)
            if (p->split.dim[k] == order[i])
                p->order[n++] = k;
}

/* The strides of access `at` by the parts; false when its index is not affine in them. */
static bool over_parts(fx_row_region *r, const fx_imaps *m, const row_parts *p, int at, fx_dim *offset, fx_dim *strides)
{
    const fx_ix *through = at < r->n_leaves ? r->leaf[at].through : NULL;
    if (through)
        return fx_ix_over(m, through, &p->split, offset, strides);
    *offset = r->access[at].offset;
    for (int k = 0; k < p->split.n; k++)
        strides[k] = fx_dim_mul(r->b->ctx, r->access[at].strides[p->split.dim[k]], p->split.coef[k]);
    return true;
}

/* Whether the innermost loop over the row, or that over rows done at a time, is worth vectors and goes through memory without gaps: passes over the
 * row read it several times, which costs more than a copy where lines of memory are fetched for an element each. */
static bool reads_dense(const fx_row_region *r, const row_parts *p, const fx_dim *strides)
{
    enum { DENSE_FROM = 8 };
    bool seen[2] = {false, false}, dense = false;
    for (int i = p->split.n - 1; i >= 0; i--) {
        int k = p->order[i];
        bool gone = r->s->gone[p->split.dim[k]];
        if (seen[gone] || fx_dim_is(p->split.extent[k], 1))
            continue;
        seen[gone] = true;
        dense |= fx_dim_is(strides[k], 1) && (!fx_dim_known(p->split.extent[k]) || p->split.extent[k].value >= DENSE_FROM);
    }
    return dense;
}

/* Splits the rows' dims for what is read through maps, or stores that. */
static fx_status split_dims(fx_row_region *r, const fx_window *main, row_parts *p)
{
    fx_imaps m = fx_build_imaps(r->b, r->b->piece);
    const fx_ix *x[FX_ROWS_LEAVES];
    int n = 0;
    for (int k = 0; k < r->n_leaves; k++)
        if (r->leaf[k].through)
            x[n++] = r->leaf[k].through;
    enum { MOST_PARTS = FX_MAX_LOOPS - 4 }; /* lanes are loops too */
    bool split = n > 0 && fx_ix_refine(&m, r->s->rank, r->s->dims, n, x, &p->split) && p->split.n <= MOST_PARTS;
    if (split)
        order_parts(r, main, p);
    for (int k = 0; split && k < r->n_leaves; k++) {
        fx_dim offset, strides[FX_NEST_DIMS];
        split = !r->leaf[k].through || (over_parts(r, &m, p, k, &offset, strides) && reads_dense(r, p, strides));
    }
    if (split)
        return FX_OK;
    for (int k = 0; k < r->n_leaves; k++)
        if (r->leaf[k].through)
            FX_TRY(store_leaf(r, k));
    p->split = (fx_split){.n = r->s->rank};
    for (int i = 0; i < r->s->rank; i++) {
        p->split.dim[i] = i;
        p->split.extent[i] = r->s->dims[i];
        p->split.coef[i] = fx_dim_of(1);
    }
    order_parts(r, main, p);
    return FX_OK;
}

static void make_nests(fx_row_region *r, const row_parts *p)
{
    fx_imaps m = fx_build_imaps(r->b, r->b->piece);
    fx_dim extent[2][FX_NEST_DIMS];
    int order[2][FX_NEST_DIMS], at[FX_NEST_DIMS], n_of[2] = {0, 0}, placed[2] = {0, 0}, n = r->n_leaves + r->n_outs;
    for (int k = 0; k < p->split.n; k++) {
        bool gone = r->s->gone[p->split.dim[k]];
        at[k] = n_of[gone]++;
        extent[gone][at[k]] = p->split.extent[k];
    }
    for (int i = 0; i < p->split.n; i++) {
        bool gone = r->s->gone[p->split.dim[p->order[i]]];
        order[gone][placed[gone]++] = at[p->order[i]];
    }
    for (int a = 0; a < n; a++) {
        fx_dim strides[FX_NEST_DIMS];
        r->stay_access[a] = r->row_access[a] = (fx_nest_access){.buf = r->access[a].buf};
        over_parts(r, &m, p, a, &r->stay_access[a].offset, strides);
        for (int k = 0; k < p->split.n; k++)
            (r->s->gone[p->split.dim[k]] ? r->row_access : r->stay_access)[a].strides[at[k]] = strides[k];
    }
    r->stay = fx_nest_make(r->b, n_of[0], extent[0], order[0], n, r->stay_access);
    r->row = fx_nest_make(r->b, n_of[1], extent[1], order[1], n, r->row_access);
}

/* How the rows are folded: see above. */
static void choose_lanes(fx_row_region *r)
{
    int main = 0, lanes = r->b->tile.lanes, along_most = lanes < 4 ? 8 : lanes * 2, across_most = lanes < 4 ? 8 : lanes * 4;
    while (main < r->n_leaves && r->row.n > 0 && fx_dim_is(r->row_access[main].strides[r->row.n - 1], 0))
        main++;
    r->lanes = 1;
    if (main == r->n_leaves || r->row.n == 0)
        return;
    bool gpu = fx_target_is_gpu(&r->b->p->target); /* its threads are the accumulators: lower/map_rows.c */
    fx_dim along = r->row.extent[r->row.n - 1];
    r->across = r->stay.n > 0 && fx_dim_is(r->stay_access[main].strides[r->stay.n - 1], 1) && !fx_dim_is(r->row_access[main].strides[r->row.n - 1], 1);
    if (gpu)
        return;
    if (fx_dim_is(r->row_access[main].strides[r->row.n - 1], 1)) {
        if (along.sym || along.value >= 8)
            r->lanes = along_most;
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
    r->lanes = !across.sym && across.value < across_most ? (int)across.value : across_most;
}

/* Ops of the region in order: "add + softmax over 64". */
static const char *title(fx_row_region *r)
{
    fx_text t;
    fx_text_init(&t, r->b->piece);
    int shown = 0;
    for (int i = 0; i < r->n; i++) {
        fx_node *n = r->m[i].node;
        if (fx_row_is_result(r, n))
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

fx_status fx_row_plan(fx_row_region *r)
{
    fx_build *b = r->b;
    analyse(r);
    FX_TRY(find_leaves(r));
    fx_window main;
    bool has_main = main_window(r, &main);
    fx_window like = main;
    for (int i = 0; has_main && i < like.rank; i++)
        like.strides[i] = fx_window_magnitude(b, like.strides[i]);
    row_parts parts;
    FX_TRY(split_dims(r, has_main ? &main : NULL, &parts));
    FX_TRY(find_outputs(r, has_main ? &like : NULL));
    fx_build_step(b, b->group[r->root->id].rows->named, title(r));
    make_nests(r, &parts);
    choose_lanes(r);
    decide_kept(r);
    return FX_OK;
}
