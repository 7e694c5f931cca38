/* lower/merge.c: linears that share an input become one linear, whose result is sliced.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Pays for small products: a call's start, the start of its threads, the last panel of columns and the last tile of rows, which are not
 * full, then cost a measurable part, and the input is read once. Large products gain nothing. It must not cost anything later: users of
 * the results read slices by their strides. So each result is only viewed, attended to or multiplied by, or all results are
 * combined element by element in one region (silu(gate) * up); activations and additions that the product could do itself stay with it. */
#include <string.h>

#include "lower/rewrite.h"

/* Multiply-adds above which a product is left alone: about 1 ms of one core. */
enum { MOST_WORK = 1 << 27 };
enum { MOST_SIBLINGS = 8 };

/* Whether all users of v, past views, read windows of any row stride. */
static bool read_by_strides(const fx_node *v, int depth)
{
    for (const fx_use *u = v->first_use; u; u = u->next) {
        const fx_node *user = u->user;
        switch (user->op ? user->op->id : FX_OP_getitem) {
        case FX_OP_view:
        case FX_OP_permute:
        case FX_OP_slice_Tensor:
        case FX_OP_select_int:
        case FX_OP_unsqueeze:
            if (depth == 0 || !read_by_strides(user, depth - 1))
                return false;
            break;
        case FX_OP_attention:
        case FX_OP_scaled_dot_product_attention:
        case FX_OP_bmm:
        case FX_OP_mm:
            break;
        case FX_OP_linear:
            if (fx_node_input(user, 0) != v)
                return false;
            break;
        default:
            return false;
        }
    }
    return v->n_uses > 0;
}

/* The pointwise node at which a chain of nodes with one user each, that starts at v, meets something else; NULL: v goes elsewhere. */
static const fx_node *meeting(const fx_node *v)
{
    for (int steps = 0; steps < 4; steps++) {
        if (v->n_uses != 1 || !v->first_use->user->op || v->first_use->user->op->cls != FX_CLASS_POINTWISE)
            return NULL;
        const fx_node *user = v->first_use->user;
        if (user->n_operands > 1)
            return user;
        v = user;
    }
    return NULL;
}

/* A linear of constant weights of a type that its kernel takes, small enough. */
static bool is_candidate(const fx_lower *l, const fx_node *n)
{
    const fx_node *w, *b;
    if (!fx_is_call(n, FX_OP_linear) || !n->type || n->type->kind != FX_TYPE_TENSOR || !fx_lower_takes(l->opt, FX_K_matmul, n->type->dtype) || n->type->rank < 1)
        return false;
    w = fx_node_input(n, 1);
    b = fx_node_input(n, 2);
    if (!w || w->opcode != FX_GET_ATTR || !fx_is_tensor(w) || w->type->rank != 2 || (b && (b->opcode != FX_GET_ATTR || b->type->rank != 1)))
        return false;
    if (fx_dim_size(w, 0) == 0 || fx_dim_size(w, 1) == 0)
        return false;
    double work = (double)fx_dim_size(w, 0) * (double)fx_dim_size(w, 1);
    for (int i = 0; i < n->type->rank - 1; i++) /* a size that is a symbol counts as 1 */
        work *= n->type->dims[i].sym ? 1 : (double)n->type->dims[i].value;
    return work <= MOST_WORK;
}

static const fx_tensor *tensor_of(fx_rw *w, const fx_node *n)
{
    const fx_attr *a = fx_attr_find(w->g, n->target);
    if (!a)
        w->status = fx_fail(w->ctx, FX_INTERNAL, &n->loc, "there is no attribute '%s'", n->target);
    return a ? &a->tensor : NULL;
}

/* The same of 16-bit floats, at once. */
static fx_status stacked(fx_context *ctx, const fx_weight_rows *r, fx_dtype dtype, const int64_t *sizes, fx_tensor *out)
{
    FX_TRY(fx_tensor_create(ctx, dtype, 2, sizes, out));
    char *to = out->data;
    for (int i = 0; i < r->n_pieces; i++) {
        size_t bytes = (size_t)(r->pieces[i].rows * r->width) * fx_dtype_size(dtype);
        FX_TRY(fx_tensor_touch(ctx, &r->pieces[i].t));
        memcpy(to, r->pieces[i].t.data, bytes);
        to += bytes;
    }
    return FX_OK;
}

/* Rows of all weights, one below the other. */
static fx_node *joined_weight(fx_rw *w, fx_node *const *nodes, int n)
{
    fx_row_piece pieces[MOST_SIBLINGS];
    const fx_node *first = fx_node_input(nodes[0], 1);
    fx_weight_rows r = {.width = fx_dim_size(first, 1), .n_pieces = n, .pieces = pieces};
    fx_tensor t;
    for (int i = 0; i < n; i++) {
        const fx_tensor *src = tensor_of(w, fx_node_input(nodes[i], 1));
        if (!src)
            return w->at;
        pieces[i] = (fx_row_piece){.t = *src, .rows = src->sizes[0]};
        r.n += src->sizes[0];
        if (!fx_tensor_is_contiguous(src) && (w->status = fx_tensor_contiguous(w->ctx, src, &pieces[i].t)) != FX_OK)
            return w->at;
    }
    const int64_t sizes[2] = {r.n, r.width};
    w->status = first->type->dtype == FX_F32 ? fx_weight_rows_later(w->ctx, &r, 2, sizes, &t) : stacked(w->ctx, &r, first->type->dtype, sizes, &t);
    if (w->status != FX_OK)
        return w->at;
    return fx_rw_constant(w, fx_arena_printf(w->scratch, "%s_merged", first->target), &t);
}

/* All biases; a missing one is 0. */
static fx_node *joined_bias(fx_rw *w, fx_node *const *nodes, int n)
{
    const fx_node *first = fx_node_input(nodes[0], 1);
    int64_t size = 0, at = 0;
    fx_tensor t, src, dense;
    for (int i = 0; i < n; i++)
        size += fx_dim_size(fx_node_input(nodes[i], 1), 0);
    const fx_dtype dtype = first->type->dtype;
    if ((w->status = fx_tensor_create(w->ctx, dtype, 1, &size, &t)) != FX_OK)
        return w->at;
    for (int i = 0; i < n; i++) {
        fx_node *from = fx_node_input(nodes[i], 2);
        int64_t count = fx_dim_size(fx_node_input(nodes[i], 1), 0);
        char *to = (char *)t.data + (size_t)at * fx_dtype_size(dtype);
        at += count;
        if (!from) {
            memset(to, 0, (size_t)count * fx_dtype_size(dtype));
            continue;
        }
        if ((w->status = fx_attr_value(w->g, from, &src)) != FX_OK || (w->status = fx_tensor_contiguous(w->ctx, &src, &dense)) != FX_OK)
            return w->at;
        memcpy(to, dense.data, (size_t)count * fx_dtype_size(dtype));
    }
    return fx_rw_constant(w, fx_arena_printf(w->scratch, "%s_bias_merged", first->target), &t);
}

/* place: of a node, by its id, in the graph's order. */
static fx_status merge(fx_lower *l, fx_node **nodes, int n, const size_t *place)
{
    bool bias = false;
    for (int i = 1; i < n; i++) /* in order: the new linear comes before the first */
        for (int j = i; j > 0 && place[nodes[j]->id] < place[nodes[j - 1]->id]; j--) {
            fx_node *swap = nodes[j];
            nodes[j] = nodes[j - 1];
            nodes[j - 1] = swap;
        }
    fx_rw w = fx_rw_at(l->graph, l->scratch, nodes[0]);
    for (int i = 0; i < n; i++)
        bias |= fx_node_input(nodes[i], 2) != NULL;
    fx_node *weight = joined_weight(&w, nodes, n), *add = bias && w.status == FX_OK ? joined_bias(&w, nodes, n) : NULL;
    FX_TRY(w.status);
    fx_call c = fx_rw_call(&w, FX_OP_linear);
    fx_call_copy(&c, nodes[0], 0);
    fx_call_node(&c, weight);
    fx_call_node(&c, add);
    fx_node *all = fx_rw_node(&w, &c, "merged");
    FX_TRY(w.status);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        fx_rw each = fx_rw_at(l->graph, l->scratch, nodes[i]);
        int64_t size = fx_dim_size(fx_node_input(nodes[i], 1), 0);
        fx_rw_slice(&each, all, nodes[i]->type->rank - 1, at, at + size, 1, NULL);
        FX_TRY(each.status);
        at += size;
    }
    return FX_OK;
}

fx_status fx_pass_merge(fx_lower *l)
{
    fx_graph *g = l->graph;
    if (l->opt->off & FX_OFF(MERGE))
        return FX_OK;
    bool changed = false;
    fx_node **nodes = FX_NEW_ARRAY(l->scratch, fx_node *, g->n_nodes + 1);
    size_t count = 0, *place = FX_NEW_ARRAY(l->scratch, size_t, g->n_ids + 1);
    FX_FOR_NODES(g, n) {
        place[n->id] = count;
        nodes[count++] = n;
    }
    for (size_t i = 0; i < count; i++) {
        fx_node *x = nodes[i], *viewed[MOST_SIBLINGS], *met[MOST_SIBLINGS];
        const fx_node *where = NULL;
        int n_viewed = 0, n_met = 0;
        if (x->n_uses < 2)
            continue;
        for (const fx_use *u = x->first_use; u; u = u->next) {
            fx_node *n = u->user;
            if (!is_candidate(l, n) || fx_node_input(n, 0) != x)
                continue;
            const fx_node *m = meeting(n);
            if (n_viewed < MOST_SIBLINGS && read_by_strides(n, 4)) {
                viewed[n_viewed++] = n;
            } else if (m && n_met < MOST_SIBLINGS && (!where || m == where)) {
                where = m;
                met[n_met++] = n;
            }
        }
        if (n_viewed > 1)
            FX_TRY(merge(l, viewed, n_viewed, place));
        if (n_met > 1)
            FX_TRY(merge(l, met, n_met, place));
        changed |= n_viewed > 1 || n_met > 1;
    }
    if (changed)
        fx_remove_dead(g);
    return FX_OK;
}
