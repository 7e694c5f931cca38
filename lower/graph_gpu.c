/* lower/graph_gpu.c: for a GPU, where each kernel costs a launch and what lies between two of them goes through memory: what stands between nodes that
 * one kernel can compute is moved out of the way.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *   factors   of queries go into attention's scale: the products are scaled instead, as where a model scales those
 *   signs     cat(-a, b) that pointwise nodes read (rotary embeddings) is cat(a, b) times a constant 1 or -1 by part, the same bits: the
 *             concatenation is then read through its map, and nothing is negated in memory
 *   views     of a product's rows that stand before what its kernel could add or apply itself go behind it */
#include <math.h>
#include <string.h>

#include "lower/rewrite.h"

static bool is_f32(const fx_node *n)
{
    return n && fx_is_tensor(n) && n->type->dtype == FX_F32;
}

static bool is_class(const fx_node *n, fx_op_class cls)
{
    return n->opcode == FX_CALL_FUNCTION && n->op && n->op->cls == cls;
}

/* ---- factors ---------------------------------------------------------------------------------------------------------- */

static void take_factor(fx_rw *w)
{
    fx_node *n = w->at, *q = fx_node_input(n, 0), *from;
    double v, scale;
    while (q->n_uses == 1 && is_class(q, FX_CLASS_VIEW))
        q = fx_node_input(q, 0);
    if (!fx_is_call(q, FX_OP_mul_Tensor) || q->n_uses != 1 || !is_f32(q) || !fx_is_number(q, 1, &v) || !isfinite(v) || v == 0)
        return;
    from = fx_node_input(q, 0);
    if (!fx_same_type(from, q))
        return;
    if (!fx_is_number(n, 6, &scale)) {
        fx_dim dk = fx_node_input(n, 0)->type->dims[fx_node_input(n, 0)->type->rank - 1];
        if (!fx_dim_known(dk) || dk.value < 1)
            return;
        scale = 1 / sqrt((double)dk.value);
    }
    fx_node_replace_uses(q, from);
    fx_call c = fx_rw_call(w, n->op->id);
    for (int i = 0; i < (n->op->id == FX_OP_attention ? 10 : 8); i++) {
        if (i == 6)
            fx_call_float(&c, scale * v);
        else
            fx_call_copy(&c, n, i);
    }
    fx_rw_become(w, &c);
}

/* ---- signs -------------------------------------------------------------------------------------------------------------- */

enum { MOST_PARTS = 8 };

/* A vector with -1 where `negative` parts lie along dim d, else 1; sizes of the dims behind it are 1. */
static fx_node *signs_of(fx_rw *w, int n, fx_node *const *parts, const bool *negative, int d)
{
    fx_tensor t = {.dtype = FX_F32, .rank = w->at->type->rank - d};
    for (int i = 0; i < t.rank; i++)
        t.sizes[i] = t.strides[i] = 1;
    t.sizes[0] = w->at->type->dims[d].value;
    float *v = FX_NEW_ARRAY(w->g->arena, float, t.sizes[0] + 1);
    int64_t at = 0;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < parts[i]->type->dims[d].value; k++)
            v[at++] = negative[i] ? -1 : 1;
    t.data = v;
    return fx_rw_constant(w, fx_arena_printf(w->scratch, "%s_signs", w->at->name), &t);
}

static void take_signs(fx_rw *w)
{
    fx_node *n = w->at, *parts[MOST_PARTS];
    bool negative[MOST_PARTS], any = false;
    int count = n->n_operands <= MOST_PARTS ? fx_node_inputs(n, 0, parts, MOST_PARTS) : 0, d = (int)fx_node_int(n, 1);
    d = d < 0 ? d + n->type->rank : d;
    if (!is_f32(n) || count < 2 || !fx_dim_known(n->type->dims[d]))
        return;
    for (const fx_use *u = n->first_use; u; u = u->next)
        if (!is_class(u->user, FX_CLASS_POINTWISE))
            return;
    for (int i = 0; i < count; i++) {
        if (parts[i]->type->rank != n->type->rank || !fx_dim_known(parts[i]->type->dims[d]))
            return;
        negative[i] = fx_is_call(parts[i], FX_OP_neg) && parts[i]->n_uses == 1;
        any |= negative[i];
        parts[i] = negative[i] ? fx_node_input(parts[i], 0) : parts[i];
    }
    if (!any)
        return;
    fx_node *signs = signs_of(w, count, parts, negative, d);
    fx_node *cat = fx_rw_cat(w, count, parts, d, "plain");
    fx_call c = fx_rw_call(w, FX_OP_mul_Tensor);
    fx_call_node(&c, cat);
    fx_call_node(&c, signs);
    fx_rw_become(w, &c);
}

/* ---- views ---------------------------------------------------------------------------------------------------------------- */

/* Whether two shapes hold the same elements in the same order, rows of the last dim being rows in both. */
static bool is_reshape(const fx_node *view)
{
    const fx_node *x = fx_node_input(view, 0);
    const fx_type *a = x->type, *b = view->type;
    if (a->rank < 1 || b->rank < 1 || !fx_dim_equal(a->dims[a->rank - 1], b->dims[b->rank - 1]))
        return false;
    switch (view->op->id) {
    case FX_OP_view: case FX_OP_unsqueeze: case FX_OP_squeeze_dims:
        return true;
    case FX_OP_permute: { /* that moves dims of size 1 only */
        int i = 0, k = 0;
        for (;; i++, k++) {
            while (i < a->rank && fx_dim_is(a->dims[i], 1))
                i++;
            while (k < b->rank && fx_dim_is(b->dims[k], 1))
                k++;
            if (i == a->rank || k == b->rank || !fx_dim_equal(a->dims[i], b->dims[k]))
                break;
        }
        int64_t order[FX_MAX_RANK], last = -1;
        fx_node_ints(view, 1, order, FX_MAX_RANK);
        for (int m = 0; m < b->rank; m++) {
            int64_t from = order[m] < 0 ? order[m] + a->rank : order[m];
            if (fx_dim_is(b->dims[m], 1))
                continue;
            if (from < last)
                return false;
            last = from;
        }
        return i == a->rank && k == b->rank;
    }
    default:
        return false;
    }
}

/* What a product's kernel does to its own result: adds a tensor of its shape, or an activation. */
static fx_node *tail_of(const fx_node *n, const fx_node *x, bool *add)
{
    fx_node *a = fx_node_input(n, 0), *b;
    *add = fx_is_call(n, FX_OP_add_Tensor);
    if (!is_f32(n) || !fx_same_type(n, x))
        return NULL;
    if (!*add)
        return is_class(n, FX_CLASS_POINTWISE) && n->n_operands == 1 && a == x ? a : NULL;
    b = fx_node_input(n, 1);
    if (!a || !b || a == b || fx_node_float(n, 2) != 1)
        return NULL;
    fx_node *other = a == x ? b : a;
    return fx_same_type(other, x) && !is_class(other, FX_CLASS_VIEW) ? other : NULL;
}

/* Whether a node with one operand is one of the kernels' activations. */
static bool is_act(const fx_node *n)
{
    switch (n->op->id) {
    case FX_OP_relu: case FX_OP_hardtanh: case FX_OP_sigmoid: case FX_OP_tanh: case FX_OP_silu: case FX_OP_hardswish: case FX_OP_hardsigmoid:
    case FX_OP_gelu:
        return true;
    default:
        return false;
    }
}

/* product -> views -> tail becomes product -> tail -> a view. */
static void push_views(fx_graph *g, fx_arena *scratch, fx_node *product)
{
    enum { MOST_TAILS = 2 };
    for (int k = 0; k < MOST_TAILS && product->n_uses == 1; k++) {
        fx_node *x = product, *n = product->first_use->user;
        while (is_class(n, FX_CLASS_VIEW) && n->n_uses == 1 && is_reshape(n)) {
            x = n;
            n = n->first_use->user;
        }
        bool add;
        if (x == product || n->opcode != FX_CALL_FUNCTION)
            return;
        fx_node *other = tail_of(n, x, &add);
        if (!other || (!add && !is_act(n)))
            return;
        fx_rw w = fx_rw_at(g, scratch, n);
        fx_call c = fx_rw_call(&w, n->op->id);
        fx_call_node(&c, product);
        if (add)
            fx_call_node(&c, fx_rw_view_to(&w, other, product->type->rank, product->type->dims, "rows"));
        for (int i = add ? 2 : 1; i < fx_op_schema(w.ctx, n->op)->n; i++)
            fx_call_copy(&c, n, i);
        fx_node *y = fx_rw_node(&w, &c, "of_rows");
        fx_rw_view_to(&w, y, n->type->rank, n->type->dims, NULL);
        product = y;
    }
}

fx_status fx_pass_graph_gpu(fx_lower *l)
{
    fx_graph *g = l->graph;
    if (!fx_target_is_gpu(&l->opt->target) || (l->opt->off & FX_OFF(FUSE)))
        return FX_OK;
    size_t count = 0;
    fx_node **nodes = FX_NEW_ARRAY(l->scratch, fx_node *, g->n_nodes + 1);
    FX_FOR_NODES(g, n)
        nodes[count++] = n;
    for (size_t i = 0; i < count; i++) {
        fx_node *n = nodes[i];
        if (n->erased || n->opcode != FX_CALL_FUNCTION)
            continue;
        fx_rw w = fx_rw_at(g, l->scratch, n);
        if (fx_is_call(n, FX_OP_attention) || fx_is_call(n, FX_OP_scaled_dot_product_attention))
            take_factor(&w);
        else if (fx_is_call(n, FX_OP_cat))
            take_signs(&w);
        else if ((fx_is_call(n, FX_OP_linear) || fx_is_call(n, FX_OP_mm) || fx_is_call(n, FX_OP_bmm) || fx_is_call(n, FX_OP_addmm)) && is_f32(n))
            push_views(g, l->scratch, n);
        FX_TRY(w.status);
    }
    fx_remove_dead(g);
    return FX_OK;
}
