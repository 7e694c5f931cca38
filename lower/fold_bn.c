/* lower/fold_bn.c: batch norm and other per-channel scales and shifts by constants go into the weights and bias of the
 * convolution or linear before them. Computed in double, rounded once; so are those of 16 bits, where a GPU's kernels take them: eager rounds the
 * convolution's result instead, and batch norm's, which are two roundings of a sum, not one of each of its terms (docs/cuda.md).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "lower/rewrite.h"
#include "passes/scaling.h"

static bool is_foldable_type(fx_dtype d)
{
    return d == FX_F32 || d == FX_F16 || d == FX_BF16;
}

static bool is_constant(const fx_node *n, int64_t count)
{
    return n->opcode == FX_GET_ATTR && fx_is_tensor(n) && is_foldable_type(n->type->dtype) && fx_type_numel(n->type) == count;
}

/* Reads a constant of `count` elements as doubles; NULL when it is not one. */
static fx_status read_constant(fx_graph *g, fx_arena *scratch, const fx_node *n, int64_t count, double **out)
{
    fx_tensor t;
    *out = NULL;
    if (!is_constant(n, count))
        return FX_OK;
    FX_TRY(fx_attr_value(g, n, &t));
    double *v = FX_NEW_ARRAY(scratch, double, count + 1);
    for (int64_t i = 0; i < count; i++)
        v[i] = fx_tensor_get(&t, i);
    *out = v;
    return FX_OK;
}

/* Float32, or 16 bits that kernels take. */
static bool is_folded(const fx_lower *l, const fx_node *x)
{
    return x->type && x->type->kind == FX_TYPE_TENSOR && is_foldable_type(x->type->dtype) && fx_lower_takes(l->opt, FX_K_conv2d, x->type->dtype);
}

/* Where dim `d` of a view's result lies in its operand; -1 when it does not lie there alone. */
static int dim_before_view(const fx_node *view, int d)
{
    fx_context *ctx = view->graph->ctx;
    fx_dim in[FX_MAX_RANK], out[FX_MAX_RANK], before = fx_dim_of(1), seen = fx_dim_of(1);
    int rank = fx_sizes(fx_node_input(view, 0), in);
    fx_sizes(view, out);
    for (int i = 0; i < d; i++)
        before = fx_dim_mul(ctx, before, out[i]);
    for (int e = 0; e < rank; e++) {
        if (fx_dim_equal(seen, before) && fx_dim_equal(in[e], out[d]))
            return e;
        seen = fx_dim_mul(ctx, seen, in[e]);
    }
    return -1;
}

/* The convolution or linear whose output channels are dim *dim (-1: whichever) of x, looking through permutes and views; NULL
 * when there is none, or something else reads a value on the way. */
static fx_node *producer_of(const fx_lower *l, fx_node *x, int *dim)
{
    for (;;) {
        if (x->n_uses != 1 || !is_folded(l, x))
            return NULL;
        int rank = x->type->rank;
        if (fx_is_call(x, FX_OP_convolution) || fx_is_call(x, FX_OP_linear)) {
            int channels = fx_is_call(x, FX_OP_convolution) ? 1 : rank - 1;
            if (*dim >= 0 && *dim != channels)
                return NULL;
            *dim = channels;
            return x;
        }
        if (fx_is_call(x, FX_OP_permute)) {
            int64_t dims[FX_MAX_RANK];
            if (fx_node_ints(x, 1, dims, FX_MAX_RANK) != rank)
                return NULL;
            if (*dim >= 0)
                *dim = fx_wrap_dim(dims[*dim], rank);
        } else if (fx_is_call(x, FX_OP_view)) {
            if (*dim >= 0 && (*dim = dim_before_view(x, *dim)) < 0)
                return NULL;
        } else {
            return NULL;
        }
        x = fx_node_input(x, 0);
    }
}

static const char *folded_path(fx_arena *scratch, const char *path)
{
    size_t n = strlen(path);
    bool again = n > 7 && !strcmp(path + n - 7, "_folded");
    return fx_arena_printf(scratch, "%s%s", path, again ? "" : "_folded");
}

/* A path beside `path` ("features.norm0.weight", "scale" -> "features.norm0.scale"). */
static const char *sibling_path(fx_arena *scratch, const char *path, const char *name)
{
    const char *dot = strrchr(path, '.');
    return fx_arena_printf(scratch, "%.*s%s", dot ? (int)(dot + 1 - path) : 0, path, name);
}

/* Whether float16 has place for folded weights or biases: none overflows, and the largest of weights is far enough above the numbers that lose digits
 * for each to be right to half a unit in the largest one's last place. */
static bool has_place(const fx_tensor *t, bool weights)
{
    double most = 0;
    if (t->dtype != FX_F16)
        return true;
    for (int64_t i = 0, n = fx_tensor_numel(t); i < n; i++)
        most = fmax(most, fabs(fx_tensor_get(t, i)));
    return most <= 65504 && (!weights || most == 0 || most >= 0x1p-13);
}

/* *out stays NULL where the weights' type has no place for them. */
static fx_status scaled_weight(fx_rw *w, const fx_node *p, const fx_node *weight, const fx_scaling *a, fx_node **out)
{
    fx_tensor t;
    bool transposed = fx_is_call(p, FX_OP_convolution) && fx_node_bool(p, 6);
    const int64_t groups = transposed ? fx_node_int(p, 8) : 1;
    const fx_attr *attr = fx_attr_find(w->g, weight->target);
    if (!attr)
        return fx_fail(w->ctx, FX_INTERNAL, &weight->loc, "there is no attribute '%s'", weight->target);
    if (attr->tensor.dtype == FX_F32)
        FX_TRY(fx_scaled_weight_later(w->ctx, w->scratch, &attr->tensor, transposed, groups, a, &t));
    else
        FX_TRY(fx_scaled_weight(w->ctx, w->scratch, &attr->tensor, transposed, groups, a, &t));
    *out = has_place(&t, true) ? fx_rw_constant(w, folded_path(w->scratch, weight->target), &t) : NULL;
    return w->status;
}

static fx_status new_bias(fx_rw *w, const fx_node *weight, const fx_node *bias, const fx_tensor *t, fx_node **out)
{
    const char *path = bias ? folded_path(w->scratch, bias->target) : sibling_path(w->scratch, weight->target, "bias_folded");
    *out = fx_rw_constant(w, path, t);
    return w->status;
}

/* Puts `a`, which is applied to dim `dim` of x (-1: everywhere), into what makes x; false when that cannot be. */
static fx_status absorb(fx_lower *l, fx_node *x, int dim, const fx_scaling *a, bool *done)
{
    *done = false;
    fx_node *p = producer_of(l, x, &dim);
    if (!p || !fx_scaling_is_finite(a))
        return FX_OK;
    fx_node *weight = fx_node_input(p, 1), *bias = fx_node_input(p, 2);
    int64_t channels = fx_dim_size(p, dim);
    if (weight->opcode != FX_GET_ATTR || weight->type->dtype != p->type->dtype || (bias && bias->opcode != FX_GET_ATTR) ||
        (bias && (bias->type->dtype != p->type->dtype || fx_type_numel(bias->type) != channels)) ||
        (a->count != 1 && a->count != channels))
        return FX_OK;
    fx_rw w = fx_rw_at(l->graph, l->scratch, p);
    fx_node *new_weight = weight, *b = bias;
    fx_tensor old, biases;
    const bool biased = a->shift || bias;
    if (bias)
        FX_TRY(fx_attr_value(l->graph, bias, &old));
    if (biased)
        FX_TRY(fx_scaled_bias(l->ctx, bias ? &old : NULL, p->type->dtype, channels, a, &biases));
    if (biased && !has_place(&biases, false))
        return FX_OK;
    if (a->scale)
        FX_TRY(scaled_weight(&w, p, weight, a, &new_weight));
    if (!new_weight)
        return FX_OK;
    if (biased)
        FX_TRY(new_bias(&w, weight, bias, &biases, &b));
    fx_call c = fx_rw_call(&w, p->op->id);
    fx_call_copy(&c, p, 0);
    fx_call_node(&c, new_weight);
    fx_call_node(&c, b);
    if (fx_is_call(p, FX_OP_convolution))
        for (int i = 3; i < 9; i++)
            fx_call_copy(&c, p, i);
    fx_rw_become(&w, &c);
    *done = w.status == FX_OK;
    return w.status;
}

/* ---- batch norm ---- */

/* A per-channel constant of the shape that broadcasts over x: [1, C, 1, 1]. */
static fx_status channel_constant(fx_rw *w, const fx_node *x, const char *path, const double *v, fx_node **out)
{
    fx_tensor t;
    int64_t sizes[FX_MAX_RANK];
    int rank = x->type->rank;
    for (int i = 0; i < rank; i++)
        sizes[i] = i == 1 ? fx_dim_size(x, 1) : 1;
    FX_TRY(fx_tensor_create(w->ctx, FX_F32, rank, sizes, &t));
    for (int64_t i = 0; i < sizes[1]; i++)
        ((float *)t.data)[i] = (float)v[i];
    *out = fx_rw_constant(w, path, &t);
    return w->status;
}

/* Into the weights before it, else a multiplication and an addition. Statistics that are not constants: left alone. */
static fx_status fold_batch_norm(fx_lower *l, fx_node *n)
{
    fx_node *x = fx_node_input(n, 0), *gamma = fx_node_input(n, 1), *beta = fx_node_input(n, 2);
    fx_node *mean = fx_node_input(n, 3), *var = fx_node_input(n, 4), *item = NULL;
    fx_node *const numbers[] = {gamma, beta, mean, var};
    fx_tensor t[4];
    for (fx_use *u = n->first_use, *next; u; u = next) {
        next = u->next;
        if (!fx_is_call(u->user, FX_OP_getitem))
            return FX_OK;
        if (fx_node_int(u->user, 1) != 0) {
            if (u->user->n_uses)
                return FX_OK;
            FX_TRY(fx_node_erase(u->user));
        } else if (item) {
            fx_node_replace_uses(u->user, item);
            FX_TRY(fx_node_erase(u->user));
        } else {
            item = u->user;
        }
    }
    if (!item || x->type->dtype != FX_F32 || x->type->rank < 2)
        return FX_OK;
    int64_t channels = fx_dim_size(x, 1);
    for (int i = 0; i < 4; i++) {
        if (numbers[i] && !is_constant(numbers[i], channels))
            return FX_OK;
        if (numbers[i])
            FX_TRY(fx_attr_value(l->graph, numbers[i], &t[i]));
    }
    if (!mean || !var)
        return FX_OK;
    fx_scaling a;
    FX_TRY(fx_scaling_of_batch_norm(l->ctx, l->scratch, channels, gamma ? &t[0] : NULL, beta ? &t[1] : NULL, &t[2], &t[3],
                                   fx_node_float(n, 6), &a));
    bool done;
    FX_TRY(absorb(l, x, 1, &a, &done));
    if (!done) {
        fx_rw w = fx_rw_at(l->graph, l->scratch, item);
        w.origin = item;
        fx_node *scale, *shift;
        FX_TRY(channel_constant(&w, x, sibling_path(l->scratch, mean->target, "scale"), a.scale, &scale));
        FX_TRY(channel_constant(&w, x, sibling_path(l->scratch, mean->target, "shift"), a.shift, &shift));
        fx_node *y = fx_rw_binary(&w, FX_OP_mul_Tensor, x, scale, "scale");
        fx_rw_binary(&w, FX_OP_add_Tensor, y, shift, NULL);
        FX_TRY(w.status);
    } else {
        fx_node_replace_uses(item, x);
        FX_TRY(fx_node_erase(item));
    }
    return fx_node_erase(n);
}

/* ---- multiplications and additions ---- */

/* `c` as values per channel of a tensor like x: at most one dim differs from 1; *dim is that dim, -1 when there is none. */
static fx_status channel_values(fx_lower *l, const fx_node *x, const fx_node *c, int *dim, int64_t *count, double **out)
{
    int64_t sizes[FX_MAX_RANK];
    *out = NULL;
    *dim = -1;
    *count = 1;
    if (c->opcode != FX_GET_ATTR || !fx_is_tensor(c) || c->type->rank > x->type->rank)
        return FX_OK;
    int rank = fx_dims(c, sizes);
    for (int i = 0; i < rank; i++) {
        if (sizes[i] == 1)
            continue;
        if (*dim >= 0)
            return FX_OK;
        *dim = x->type->rank - rank + i;
        *count = sizes[i];
    }
    return read_constant(l->graph, l->scratch, c, *count, out);
}

/* Whether n multiplies or adds a constant to *x by channel: by dim *dim of it (-1: everywhere). */
static fx_status affine_of(fx_lower *l, const fx_node *n, fx_node **of, int *dim, fx_scaling *a)
{
    fx_opid id = n->opcode == FX_CALL_FUNCTION && n->op ? n->op->id : FX_OP_getitem;
    bool sum = id == FX_OP_add_Tensor || id == FX_OP_sub_Tensor, commutes = id == FX_OP_add_Tensor || id == FX_OP_mul_Tensor;
    double number;
    *of = NULL;
    if (!sum && id != FX_OP_mul_Tensor && id != FX_OP_div_Tensor)
        return FX_OK;
    double alpha = sum ? fx_node_float(n, 2) : 1;
    fx_node *x = fx_node_input(n, 0), *c = fx_node_input(n, 1);
    double *v = NULL;
    *a = (fx_scaling){1, NULL, NULL};
    *dim = -1;
    if (commutes && alpha == 1 && x && c && x->opcode == FX_GET_ATTR) {
        fx_node *swap = x;
        x = c;
        c = swap;
    }
    if (!x || !is_folded(l, x) || !fx_same_type(x, n) || x->opcode == FX_GET_ATTR)
        return FX_OK;
    if (fx_is_number(n, 1, &number)) {
        v = FX_NEW(l->scratch, double);
        *v = (float)number;
    } else if (c) {
        FX_TRY(channel_values(l, x, c, dim, &a->count, &v));
    }
    if (!v)
        return FX_OK;
    for (int64_t i = 0; i < a->count; i++)
        v[i] = id == FX_OP_div_Tensor ? 1 / v[i] : id == FX_OP_sub_Tensor ? -alpha * v[i] : sum ? alpha * v[i] : v[i];
    if (sum)
        a->shift = v;
    else
        a->scale = v;
    *of = x;
    return FX_OK;
}

static fx_status fold_arithmetic(fx_lower *l, fx_node *n)
{
    fx_node *x;
    fx_scaling a;
    int dim;
    bool done;
    FX_TRY(affine_of(l, n, &x, &dim, &a));
    if (!x)
        return FX_OK;
    FX_TRY(absorb(l, x, dim, &a, &done));
    if (!done)
        return FX_OK;
    fx_node_replace_uses(n, x);
    return fx_node_erase(n);
}

/* a after b, both by channel where one is. */
static fx_scaling composed(fx_arena *scratch, const fx_scaling *a, const fx_scaling *b)
{
    fx_scaling y = {a->count > b->count ? a->count : b->count, NULL, NULL};
    y.scale = FX_NEW_ARRAY(scratch, double, y.count + 1);
    y.shift = FX_NEW_ARRAY(scratch, double, y.count + 1);
    for (int64_t i = 0; i < y.count; i++) {
        const int64_t ia = a->count == 1 ? 0 : i, ib = b->count == 1 ? 0 : i;
        const double scale = a->scale ? a->scale[ia] : 1;
        y.scale[i] = scale * (b->scale ? b->scale[ib] : 1);
        y.shift[i] = scale * (b->shift ? b->shift[ib] : 0) + (a->shift ? a->shift[ia] : 0);
    }
    return y;
}

/* Multiplications and additions in float32 between casts from and to 16 bits, as batch norm has been spelled out: all go at once, so that weights
 * are rounded once. */
static fx_status fold_widened(fx_lower *l, fx_node *n)
{
    enum { MOST = 8 };
    fx_node *chain[MOST], *x = fx_node_input(n, 0), *of;
    fx_scaling all = {1, NULL, NULL}, a;
    int count = 0, dim = -1, at;
    if (!x || !is_folded(l, n) || n->type->dtype == FX_F32 || !is_folded(l, x) || x->type->dtype != FX_F32)
        return FX_OK;
    for (;;) {
        if (x->n_uses != 1 || count == MOST)
            return FX_OK;
        chain[count++] = x;
        if (fx_is_call(x, FX_OP__to_copy))
            break;
        FX_TRY(affine_of(l, x, &of, &at, &a));
        if (!of || (at >= 0 && dim >= 0 && at != dim))
            return FX_OK;
        dim = at >= 0 ? at : dim;
        all = composed(l->scratch, &all, &a);
        x = of;
    }
    bool done;
    x = fx_node_input(x, 0);
    if (count < 2 || !x || !fx_same_type(x, n))
        return FX_OK;
    FX_TRY(absorb(l, x, dim, &all, &done));
    if (!done)
        return FX_OK;
    fx_node_replace_uses(n, x);
    FX_TRY(fx_node_erase(n));
    for (int i = 0; i < count; i++)
        FX_TRY(fx_node_erase(chain[i]));
    return FX_OK;
}

fx_status fx_fold_affine(fx_lower *l)
{
    fx_graph *g = l->graph;
    size_t count = 0;
    fx_node **nodes = FX_NEW_ARRAY(l->scratch, fx_node *, g->n_nodes + 1);
    FX_FOR_NODES(g, n)
        nodes[count++] = n;
    for (size_t i = 0; i < count; i++) {
        fx_node *n = nodes[i];
        if (n->erased || n->opcode != FX_CALL_FUNCTION || !n->op)
            continue;
        switch (n->op->id) {
        case FX_OP__native_batch_norm_legit_no_training:
            FX_TRY(fold_batch_norm(l, n));
            break;
        case FX_OP_add_Tensor:
        case FX_OP_sub_Tensor:
        case FX_OP_mul_Tensor:
        case FX_OP_div_Tensor:
            FX_TRY(fold_arithmetic(l, n));
            break;
        case FX_OP__to_copy:
            FX_TRY(fold_widened(l, n));
            break;
        default:
            break;
        }
    }
    return FX_OK;
}
