/* lower/graph_gpu.c: for a GPU, where each kernel costs a launch and what lies between two of them goes through memory: what stands between nodes that
 * one kernel can compute is moved out of the way.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *   factors   of queries and keys go into attention's scale: the products are scaled instead, as where a model scales those
 *   signs     cat(-a, b) that pointwise nodes read (rotary embeddings) is cat(a, b) times a constant 1 or -1 by part, the same bits: the
 *             concatenation is then read through its map, and nothing is negated in memory
 *   views     of a product's rows that stand before what its kernel could add or apply itself go behind it
 *   flat      images before a linear with constant weights are flattened as they lie, channels last, and the weights' columns are put into that order
 *   numbers   that are equal become one, and equal calls with them: the masks of all layers, which the attention pass made one by one */
#include <math.h>
#include <string.h>

#include "lower/rewrite.h"

/* Of a type that kernels compute in. */
static bool is_real(const fx_lower *l, const fx_node *n)
{
    return n && fx_is_tensor(n) && fx_lower_takes(l->opt, FX_K_matmul, n->type->dtype);
}

static bool is_class(const fx_node *n, fx_op_class cls)
{
    return n->opcode == FX_CALL_FUNCTION && n->op && n->op->cls == cls;
}

/* ---- factors ---------------------------------------------------------------------------------------------------------- */

/* Out of what goes into n as operand `at`, passing views; 1: there is none. */
static double factor_of(const fx_lower *l, const fx_node *n, int at)
{
    fx_node *x = fx_node_input(n, at), *from;
    double v;
    while (x->n_uses == 1 && is_class(x, FX_CLASS_VIEW))
        x = fx_node_input(x, 0);
    if (!fx_is_call(x, FX_OP_mul_Tensor) || x->n_uses != 1 || !is_real(l, x) || !fx_is_number(x, 1, &v) || !isfinite(v) || v == 0)
        return 1;
    from = fx_node_input(x, 0);
    if (!fx_same_type(from, x))
        return 1;
    fx_node_replace_uses(x, from);
    return v;
}

static void take_factors(const fx_lower *l, fx_rw *w)
{
    fx_node *n = w->at;
    double scale;
    if (!fx_is_number(n, 6, &scale)) {
        fx_dim dk = fx_node_input(n, 0)->type->dims[fx_node_input(n, 0)->type->rank - 1];
        if (!fx_dim_known(dk) || dk.value < 1)
            return;
        scale = 1 / sqrt((double)dk.value);
    }
    const double by = factor_of(l, n, 0) * factor_of(l, n, 1);
    if (by == 1)
        return;
    fx_call c = fx_rw_call(w, n->op->id);
    for (int i = 0; i < (n->op->id == FX_OP_attention ? 10 : 8); i++) {
        if (i == 6)
            fx_call_float(&c, scale * by);
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
    fx_tensor t;
    int64_t sizes[FX_MAX_RANK], at = 0;
    int rank = w->at->type->rank - d;
    for (int i = 0; i < rank; i++)
        sizes[i] = i ? 1 : w->at->type->dims[d].value;
    if ((w->status = fx_tensor_create(w->ctx, w->at->type->dtype, rank, sizes, &t)) != FX_OK)
        return w->at;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < parts[i]->type->dims[d].value; k++)
            fx_tensor_set(&t, at++, negative[i] ? -1 : 1);
    return fx_rw_constant(w, fx_arena_printf(w->scratch, "%s_signs", w->at->name), &t);
}

static void take_signs(const fx_lower *l, fx_rw *w)
{
    fx_node *n = w->at, *parts[MOST_PARTS];
    bool negative[MOST_PARTS], any = false;
    int count = n->n_operands <= MOST_PARTS ? fx_node_inputs(n, 0, parts, MOST_PARTS) : 0, d = (int)fx_node_int(n, 1);
    d = d < 0 ? d + n->type->rank : d;
    if (!is_real(l, n) || count < 2 || !fx_dim_known(n->type->dims[d]))
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

/* Whether dims of sizes other than 1 keep their order. */
static bool keeps_order(const fx_node *permute)
{
    const fx_type *from = fx_node_input(permute, 0)->type;
    int64_t order[FX_MAX_RANK], last = -1;
    fx_node_ints(permute, 1, order, FX_MAX_RANK);
    for (int m = 0; m < permute->type->rank; m++) {
        int64_t d = order[m] < 0 ? order[m] + from->rank : order[m];
        if (fx_dim_is(from->dims[d], 1))
            continue;
        if (d < last)
            return false;
        last = d;
    }
    return true;
}

/* Rows of pixels as an image: such lie with their channels dense, where all images do. */
static bool makes_image(const fx_node *n)
{
    int64_t order[FX_MAX_RANK];
    return fx_is_call(n, FX_OP_permute) && fx_node_ints(n, 1, order, FX_MAX_RANK) == 4 && order[0] == 0 && order[1] == 3 && order[2] == 1 && order[3] == 2;
}

/* Whether a view of a product's result leaves its rows, of the last dim, rows in memory. */
static bool keeps_rows(const fx_node *view, bool images)
{
    const fx_type *a = fx_node_input(view, 0)->type, *b = view->type;
    if (a->rank < 1 || b->rank < 1)
        return false;
    bool last = fx_dim_equal(a->dims[a->rank - 1], b->dims[b->rank - 1]);
    switch (view->op->id) {
    case FX_OP_view: case FX_OP_unsqueeze: case FX_OP_squeeze_dims:
        return last;
    case FX_OP_permute:
        return (last && keeps_order(view)) || (images && makes_image(view));
    default:
        return false;
    }
}

/* What a product's kernel does to its own result: adds a tensor of its shape, or an activation. */
static fx_node *tail_of(const fx_lower *l, const fx_node *n, const fx_node *x, bool image, bool *add)
{
    fx_node *a = fx_node_input(n, 0), *b;
    *add = fx_is_call(n, FX_OP_add_Tensor);
    if (!is_real(l, n) || !fx_same_type(n, x))
        return NULL;
    if (!*add)
        return is_class(n, FX_CLASS_POINTWISE) && n->n_operands == 1 && a == x ? a : NULL;
    b = fx_node_input(n, 1);
    if (!a || !b || a == b || fx_node_float(n, 2) != 1)
        return NULL;
    fx_node *other = a == x ? b : a;
    bool lies_so = image ? makes_image(other) || fx_is_call(other, FX_OP_convolution) || is_class(other, FX_CLASS_POINTWISE) : !is_class(other, FX_CLASS_VIEW);
    return fx_same_type(other, x) && lies_so ? other : NULL;
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

enum { MOST_VIEWS = 6 };

/* Computed where the caller wants it, which a view of rows is not. */
static bool is_output(const fx_node *n)
{
    for (const fx_use *u = n->first_use; u; u = u->next)
        if (u->user->opcode == FX_OUTPUT)
            return true;
    return false;
}

/* x, of the type of the last of these views, as what the first one is of. */
static fx_node *undo(fx_rw *w, fx_node *x, int n, fx_node *const *views)
{
    while (n-- > 0) {
        const fx_type *t = fx_node_input(views[n], 0)->type;
        if (makes_image(views[n]))
            x = fx_rw_permute(w, x, 4, (int64_t[]){0, 2, 3, 1}, fx_arena_printf(w->scratch, "rows%d", n));
        else
            x = fx_rw_view_to(w, x, t->rank, t->dims, fx_arena_printf(w->scratch, "rows%d", n));
    }
    return x;
}

/* x seen through the same views; the last one takes w->at's place. */
static void redo(fx_rw *w, fx_node *x, int n, fx_node *const *views)
{
    for (int i = 0; i < n; i++) {
        const char *suffix = i < n - 1 ? fx_arena_printf(w->scratch, "view%d", i) : NULL;
        if (makes_image(views[i]))
            x = fx_rw_permute(w, x, 4, (int64_t[]){0, 3, 1, 2}, suffix);
        else
            x = fx_rw_view_to(w, x, views[i]->type->rank, views[i]->type->dims, suffix);
    }
}

/* product -> views -> tail becomes product -> tail -> views. */
static void push_views(const fx_lower *l, fx_node *product, bool images)
{
    enum { MOST_TAILS = 2 };
    for (int k = 0; k < MOST_TAILS && product->n_uses == 1; k++) {
        fx_node *views[MOST_VIEWS], *x = product, *n = product->first_use->user;
        int n_views = 0;
        bool image = false, add;
        while (n_views < MOST_VIEWS && is_class(n, FX_CLASS_VIEW) && n->n_uses == 1 && keeps_rows(n, images)) {
            image |= makes_image(n);
            views[n_views++] = x = n;
            n = n->first_use->user;
        }
        if (!n_views || n->opcode != FX_CALL_FUNCTION)
            return;
        fx_node *other = tail_of(l, n, x, image, &add);
        if (!other || (!add && !is_act(n)) || is_output(n))
            return;
        fx_rw w = fx_rw_at(l->graph, l->scratch, n);
        fx_node *rows = add ? undo(&w, other, n_views, views) : NULL;
        fx_call c = fx_rw_call(&w, n->op->id);
        fx_call_node(&c, product);
        if (add)
            fx_call_node(&c, rows);
        for (int i = add ? 2 : 1; i < fx_op_schema(w.ctx, n->op)->n; i++)
            fx_call_copy(&c, n, i);
        product = fx_rw_node(&w, &c, "of_rows");
        redo(&w, product, n_views, views);
    }
}

/* ---- flat ----------------------------------------------------------------------------------------------------------------- */

static bool flatten_as_it_lies(const fx_lower *l, fx_rw *w)
{
    fx_node *n = w->at, *flat = fx_node_input(n, 0), *weight = fx_node_input(n, 1), *x;
    if (!fx_is_call(flat, FX_OP_view) || flat->n_uses != 1 || weight->opcode != FX_GET_ATTR || !fx_is_tensor(flat) || flat->type->rank != 2 || !is_real(l, weight))
        return false;
    x = fx_node_input(flat, 0);
    if (!is_real(l, x) || x->type->rank != 4 || !fx_dim_equal(x->type->dims[0], flat->type->dims[0]) || (!is_class(x, FX_CLASS_POOL) && !fx_is_call(x, FX_OP_convolution) && !is_class(x, FX_CLASS_POINTWISE)))
        return false;
    int64_t c = fx_dim_size(x, 1), height = fx_dim_size(x, 2), width = fx_dim_size(x, 3), outs = fx_dim_size(weight, 0);
    for (int i = 1; i < 4; i++)
        if (!fx_dim_known(x->type->dims[i]))
            return false;
    if (c < 2 || height * width < 2)
        return false;
    fx_node *columns = fx_rw_view(w, weight, 4, (int64_t[]){outs, c, height, width}, "columns");
    columns = fx_rw_permute(w, columns, 4, (int64_t[]){0, 2, 3, 1}, "columns_last");
    columns = fx_rw_view(w, columns, 2, (int64_t[]){outs, c * height * width}, "rows");
    fx_node *last = fx_rw_permute(w, x, 4, (int64_t[]){0, 2, 3, 1}, "last");
    fx_call call = fx_rw_call(w, FX_OP_linear);
    fx_call_node(&call, fx_rw_view_to(w, last, 2, flat->type->dims, "flat"));
    fx_call_node(&call, columns);
    fx_call_copy(&call, n, 2);
    fx_rw_become(w, &call);
    return true;
}

/* ---- numbers -------------------------------------------------------------------------------------------------------------- */

/* Constants of one element are few. */
static fx_status merge_numbers(fx_lower *l)
{
    enum { MOST = 64 };
    struct { fx_node *node; fx_dtype dtype; uint64_t bits; } seen[MOST];
    int n_seen = 0;
    FX_FOR_NODES(l->graph, n) {
        fx_tensor t;
        if (n->opcode != FX_GET_ATTR || !fx_is_tensor(n) || n->type->rank != 0 || fx_dtype_size(n->type->dtype) > sizeof seen[0].bits)
            continue;
        FX_TRY(fx_attr_value(l->graph, n, &t));
        uint64_t bits = 0;
        int k = 0;
        memcpy(&bits, t.data, fx_dtype_size(t.dtype));
        while (k < n_seen && (seen[k].dtype != t.dtype || seen[k].bits != bits))
            k++;
        if (k < n_seen) {
            fx_node_replace_uses(n, seen[k].node);
        } else if (n_seen < MOST) {
            seen[n_seen].node = n;
            seen[n_seen].dtype = t.dtype;
            seen[n_seen++].bits = bits;
        }
    }
    fx_remove_dead(l->graph);
    return fx_pass_simplify(l);
}

fx_status fx_pass_graph_gpu(fx_lower *l)
{
    fx_graph *g = l->graph;
    if (!fx_target_is_gpu(&l->opt->target) || (l->opt->off & FX_OFF(FUSE)))
        return FX_OK;
    FX_TRY(merge_numbers(l));
    size_t count = 0;
    bool flattened = false, images = false; /* they lie with channels dense: build_layout.c */
    fx_node **nodes = FX_NEW_ARRAY(l->scratch, fx_node *, g->n_nodes + 1);
    FX_FOR_NODES(g, n) {
        nodes[count++] = n;
        images |= fx_is_call(n, FX_OP_convolution);
    }
    for (size_t i = 0; i < count; i++) {
        fx_node *n = nodes[i];
        if (n->erased || n->opcode != FX_CALL_FUNCTION)
            continue;
        fx_rw w = fx_rw_at(g, l->scratch, n);
        if (fx_is_call(n, FX_OP_attention) || fx_is_call(n, FX_OP_scaled_dot_product_attention))
            take_factors(l, &w);
        else if (fx_is_call(n, FX_OP_cat))
            take_signs(l, &w);
        if (images && fx_is_call(n, FX_OP_linear))
            flattened |= flatten_as_it_lies(l, &w);
        FX_TRY(w.status);
        if ((fx_is_call(n, FX_OP_linear) || fx_is_call(n, FX_OP_mm) || fx_is_call(n, FX_OP_bmm) || fx_is_call(n, FX_OP_addmm)) && is_real(l, n))
            push_views(l, n, images);
        FX_TRY(w.status);
    }
    fx_remove_dead(g);
    if (flattened)
        FX_TRY(fx_fold_constants(g, l->scratch));
    return fx_pass_simplify(l);
}
