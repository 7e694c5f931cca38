/* lower/decompose_grad_pool.c: gradients of pools and resampling.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Means and resampling treat rows and columns alike, one after the other: a gradient's element o goes to some places of the image, by a
 * weight each. Where these tile the image, the gradient is a view; elsewhere it is spread by lists that are known at compile time. Maxima are
 * scattered by their indices. */
#include <math.h>
#include <stdlib.h>

#include "lower/rewrite.h"

/* Where the elements of one dim go: entry k adds weight[k] times element from[k] at place to[k]. */
typedef struct spread {
    int64_t in, out, n, cap; /* sizes of the gradient and of the image */
    int64_t *from, *to;
    double *weight;
    bool plain;              /* all weights are 1 */
} spread;

static spread begin(fx_rw *w, int64_t in, int64_t out, int64_t most)
{
    spread s = {.in = in, .out = out, .cap = most, .plain = true};
    s.from = FX_NEW_ARRAY(w->scratch, int64_t, most + 1);
    s.to = FX_NEW_ARRAY(w->scratch, int64_t, most + 1);
    s.weight = FX_NEW_ARRAY(w->scratch, double, most + 1);
    return s;
}

static void put(spread *s, int64_t from, int64_t to, double weight)
{
    if (s->n == s->cap)
        return;
    s->from[s->n] = from;
    s->to[s->n] = to;
    s->weight[s->n++] = weight;
    s->plain = s->plain && weight == 1;
}

static fx_node *list(fx_rw *w, int64_t n, const int64_t *v, const char *name)
{
    fx_tensor t;
    if (w->status == FX_OK)
        w->status = fx_tensor_create(w->ctx, FX_I64, 1, &n, &t);
    if (w->status != FX_OK)
        return w->at;
    for (int64_t i = 0; i < n; i++)
        fx_tensor_set_int(&t, i, v[i]);
    return fx_rw_constant(w, fx_arena_printf(w->scratch, "%s_%s", w->at->name, name), &t);
}

/* Each element of dim `by` times, side by side. */
static fx_node *repeated(fx_rw *w, fx_node *x, int dim, int64_t by)
{
    fx_dim sizes[FX_MAX_RANK], wide[FX_MAX_RANK];
    int rank = fx_sizes(x, sizes);
    if (by == 1)
        return x;
    for (int i = 0; i < rank; i++)
        wide[i + (i > dim)] = sizes[i];
    wide[dim + 1] = fx_dim_of(1);
    fx_node *y = fx_rw_view_to(w, x, rank + 1, wide, "each");
    wide[dim + 1] = fx_dim_of(by);
    sizes[dim] = fx_dim_scale(w->ctx, sizes[dim], by);
    return fx_rw_view_to(w, fx_rw_expand_to(w, y, rank + 1, wide, "all"), rank, sizes, "repeated");
}

/* Every `by` neighbours of dim as their sum. */
static fx_node *summed(fx_rw *w, fx_node *x, int dim, int64_t by)
{
    fx_dim sizes[FX_MAX_RANK], wide[FX_MAX_RANK];
    int rank = fx_sizes(x, sizes);
    int64_t at = dim + 1;
    if (by == 1)
        return x;
    for (int i = 0; i < rank; i++)
        wide[i + (i > dim)] = sizes[i];
    wide[dim] = fx_dim_floordiv(w->ctx, sizes[dim], fx_dim_of(by));
    wide[dim + 1] = fx_dim_of(by);
    fx_node *y = fx_rw_view_to(w, x, rank + 1, wide, "neighbours");
    return fx_rw_reduce(w, FX_OP_sum_dim_IntList, y, 1, &at, false, "sum");
}

/* Whether entries are from = k / by, to = k: each element to `by` places of its own. Returns by, or 0. */
static int64_t tiles(const spread *s)
{
    if (!s->in || s->n != s->out || s->n % s->in || !s->plain)
        return 0;
    for (int64_t k = 0; k < s->n; k++)
        if (s->to[k] != k || s->from[k] != k / (s->n / s->in))
            return 0;
    return s->n / s->in;
}

/* Whether entries are from = k, to = k / by: `by` neighbours meet. */
static int64_t meets(const spread *s)
{
    if (!s->out || s->n != s->in || s->n % s->out || !s->plain)
        return 0;
    for (int64_t k = 0; k < s->n; k++)
        if (s->from[k] != k || s->to[k] != k / (s->n / s->out))
            return 0;
    return s->n / s->out;
}

/* The gradient spread along dim. */
static fx_node *spread_out(fx_rw *w, fx_node *g, int dim, const spread *s, const char *name)
{
    fx_dim sizes[FX_MAX_RANK], line[FX_MAX_RANK];
    int rank = fx_sizes(g, sizes);
    if (w->status != FX_OK)
        return g;
    if (tiles(s))
        return repeated(w, g, dim, tiles(s));
    if (meets(s))
        return summed(w, g, dim, meets(s));
    for (int i = 0; i < rank; i++)
        line[i] = i == dim ? fx_dim_of(s->n) : fx_dim_of(1);
    fx_node *from = list(w, s->n, s->from, fx_arena_printf(w->scratch, "%s_from", name));
    fx_node *to = list(w, s->n, s->to, fx_arena_printf(w->scratch, "%s_to", name));
    fx_call c = fx_rw_call(w, FX_OP_index_select);
    fx_call_node(&c, g);
    fx_call_int(&c, dim);
    fx_call_node(&c, from);
    fx_node *y = fx_rw_node(w, &c, "from");
    if (!s->plain && w->status == FX_OK) {
        fx_tensor t;
        w->status = fx_tensor_create(w->ctx, g->type->dtype, 1, &s->n, &t);
        for (int64_t i = 0; i < s->n && w->status == FX_OK; i++)
            fx_tensor_set(&t, i, s->weight[i]);
        if (w->status != FX_OK)
            return g;
        fx_node *weight = fx_rw_constant(w, fx_arena_printf(w->scratch, "%s_%s_weight", w->at->name, name), &t);
        y = fx_rw_binary(w, FX_OP_mul_Tensor, y, fx_rw_view_to(w, weight, rank, line, "weight"), "weighted");
    }
    if (w->status != FX_OK)
        return g;
    to = fx_rw_view_to(w, to, rank, line, "line");
    sizes[dim] = fx_dim_of(s->n);
    to = fx_rw_expand_to(w, to, rank, sizes, "places");
    sizes[dim] = fx_dim_of(s->out);
    fx_node *zeros = fx_rw_expand_to(w, fx_rw_scalar(w, 0, g->type->dtype, "zero"), rank, sizes, "zeros");
    c = fx_rw_call(w, FX_OP_scatter_add);
    fx_call_node(&c, zeros);
    fx_call_int(&c, dim);
    fx_call_node(&c, to);
    fx_call_node(&c, y);
    return fx_rw_node(w, &c, "spread");
}

/* Rows and columns of the image: the last two dims, of known sizes. */
static bool pixels(fx_rw *w, fx_node *g, const fx_type *image, int64_t in[2], int64_t out[2])
{
    for (int i = 0; i < 2; i++) {
        fx_dim a = g->type->dims[g->type->rank - 2 + i], b = image->dims[image->rank - 2 + i];
        if (!fx_dim_known(a) || !fx_dim_known(b)) {
            fx_rw_refuse(w, "expected rows and columns of known numbers, got expressions");
            return false;
        }
        in[i] = a.value;
        out[i] = b.value;
    }
    return true;
}

/* The scale or shift of rows and columns as one vector each, multiplied with g. */
static fx_node *scaled(fx_rw *w, fx_node *g, int dim, int64_t n, const int64_t *counts, const char *name)
{
    fx_tensor t;
    fx_dim line[FX_MAX_RANK];
    int rank = g->type->rank;
    bool same = true;
    for (int64_t i = 1; i < n; i++)
        same = same && counts[i] == counts[0];
    if (w->status != FX_OK || n == 0 || (same && counts[0] == 1))
        return g;
    if (same)
        return fx_rw_number(w, FX_OP_div_Tensor, g, (double)counts[0], "share");
    w->status = fx_tensor_create(w->ctx, g->type->dtype, 1, &n, &t);
    if (w->status != FX_OK)
        return g;
    for (int64_t i = 0; i < n; i++)
        fx_tensor_set(&t, i, (double)counts[i]);
    for (int i = 0; i < rank; i++)
        line[i] = i == dim ? fx_dim_of(n) : fx_dim_of(1);
    fx_node *v = fx_rw_constant(w, fx_arena_printf(w->scratch, "%s_%s", w->at->name, name), &t);
    return fx_rw_binary(w, FX_OP_div_Tensor, g, fx_rw_view_to(w, v, rank, line, name), "share");
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The part of its window that element o goes to, and by how many it is divided. */
typedef struct window {
    int64_t begin, end, count;
} window;

static window adaptive_window(int64_t o, int64_t in, int64_t out)
{
    int64_t begin = o / out * in + o % out * in / out, end = 1 + ((o + 1) * in - 1) / out;
    return (window){begin, end, end - begin};
}

/* Of one dim of avg_pool2d_backward (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override). */
static window fixed_window(const fx_node *n, int64_t o, int64_t size, int64_t k, int64_t stride, int64_t pad)
{
    int64_t begin = o * stride - pad, end = least(begin + k, size + pad);
    window v = {begin < 0 ? 0 : begin, least(end, size), end - begin};
    if (!fx_node_is_none(n, 7))
        v.count = 1;
    else if (!fx_node_bool(n, 6))
        v.count = v.end - v.begin;
    return v;
}

/* Where windows move by 1 and are padded evenly, the places of an element are a window of the gradient: a pool itself. */
static bool as_pool(fx_rw *w, fx_node *g, const int64_t p[3][2], const int64_t in[2], const int64_t out[2], fx_node **y)
{
    int64_t ones[2] = {1, 1}, pad[2];
    for (int i = 0; i < 2; i++) {
        pad[i] = p[0][i] - 1 - p[2][i];
        if (p[1][i] != 1 || pad[i] < 0 || pad[i] > p[0][i] / 2 || in[i] + 2 * pad[i] - p[0][i] + 1 != out[i])
            return false;
    }
    if (g->type->rank != 4)
        return false;
    fx_call c = fx_rw_call(w, FX_OP_avg_pool2d);
    fx_call_node(&c, g);
    fx_call_ints(&c, 2, p[0]);
    fx_call_ints(&c, 2, ones);
    fx_call_ints(&c, 2, pad);
    fx_call_bool(&c, false);
    fx_call_bool(&c, true);
    fx_call_int(&c, 1);
    *y = fx_rw_node(w, &c, "windows");
    return true;
}

void fx_d_avg_pool_backward(fx_rw *w)
{
    bool fixed = w->at->op->id == FX_OP_avg_pool2d_backward;
    fx_node *g = fx_rw_wide(w, fx_node_input(w->at, 0));
    int64_t in[2], out[2], p[3][2] = {{0}};
    static const int64_t none[2] = {0, 0};
    int rank = g->type->rank;
    if (fixed && (!fx_int_list(w->at, 2, 2, NULL, p[0]) || !fx_int_list(w->at, 3, 2, p[0], p[1]) || !fx_int_list(w->at, 4, 2, none, p[2]))) {
        fx_rw_refuse(w, "expected two numbers in kernel_size, stride and padding");
        return;
    }
    if (!pixels(w, g, w->at->type, in, out))
        return;
    if (fixed && !fx_node_is_none(w->at, 7))
        g = fx_rw_number(w, FX_OP_div_Tensor, g, (double)fx_node_int(w->at, 7), "share");
    spread s[2];
    for (int i = 0; i < 2; i++) {
        int64_t *counts = FX_NEW_ARRAY(w->scratch, int64_t, in[i] + 1), most = 0;
        window *v = FX_NEW_ARRAY(w->scratch, window, in[i] + 1);
        for (int64_t o = 0; o < in[i]; o++) {
            v[o] = fixed ? fixed_window(w->at, o, out[i], p[0][i], p[1][i], p[2][i]) : adaptive_window(o, out[i], in[i]);
            counts[o] = v[o].count;
            most += v[o].end > v[o].begin ? v[o].end - v[o].begin : 0;
        }
        s[i] = begin(w, in[i], out[i], most);
        for (int64_t o = 0; o < in[i]; o++)
            for (int64_t at = v[o].begin; at < v[o].end; at++)
                put(&s[i], o, at, 1);
        g = scaled(w, g, rank - 2 + i, in[i], counts, i ? "columns" : "rows");
    }
    fx_node *y = g;
    if (!fixed || !as_pool(w, g, (const int64_t (*)[2])p, in, out, &y))
        for (int i = 0; i < 2; i++)
            y = spread_out(w, y, rank - 2 + i, &s[i], i ? "columns" : "rows");
    if (w->status == FX_OK)
        fx_rw_finish(w, y);
}

/* ---- maxima ----------------------------------------------------------------------------------------------------------- */

/* Planes as rows: each element of the gradient is added at its index. */
void fx_d_max_pool_backward(fx_rw *w)
{
    fx_node *g = fx_rw_wide(w, fx_node_input(w->at, 0)), *index = fx_node_input(w->at, w->at->op->id == FX_OP_adaptive_max_pool2d_backward ? 2 : 7);
    fx_dim in[FX_MAX_RANK], out[FX_MAX_RANK], planes = fx_dim_of(1), flat[2][2];
    int rank = fx_sizes(g, in);
    fx_sizes(w->at, out);
    for (int i = 0; i < rank - 2; i++)
        planes = fx_dim_mul(w->ctx, planes, in[i]);
    flat[0][0] = flat[1][0] = planes;
    flat[0][1] = fx_dim_mul(w->ctx, in[rank - 2], in[rank - 1]);
    flat[1][1] = fx_dim_mul(w->ctx, out[rank - 2], out[rank - 1]);
    g = fx_rw_view_to(w, g, 2, flat[0], "grads");
    index = fx_rw_view_to(w, index, 2, flat[0], "places");
    fx_node *zeros = fx_rw_expand_to(w, fx_rw_scalar(w, 0, g->type->dtype, "zero"), 2, flat[1], "zeros");
    fx_call c = fx_rw_call(w, FX_OP_scatter_add);
    fx_call_node(&c, zeros);
    fx_call_int(&c, 1);
    fx_call_node(&c, index);
    fx_call_node(&c, g);
    fx_node *y = fx_rw_view_to(w, fx_rw_node(w, &c, "added"), rank, out, "planes");
    if (w->status == FX_OK)
        fx_rw_finish(w, y);
}

/* ---- resampling ------------------------------------------------------------------------------------------------------- */

/* The factor given for dim i, or 0: what eager takes rather than the quotient of the sizes. */
static double given_scale(const fx_node *n, int i)
{
    int first = n->op->id == FX_OP_upsample_bilinear2d_backward ? 4 : 3;
    double s = fx_node_is_none(n, first + i) ? 0 : fx_node_float(n, first + i);
    return s > 0 ? s : 0;
}

/* As the forward row finds its source, in float32 whatever the dtype. */
static int64_t nearest(int64_t o, int64_t in, int64_t out, double given)
{
    if (in == out)
        return o;
    if (out == 2 * in)
        return o >> 1;
    float scale = given > 0 ? (float)(1 / given) : (float)in / (float)out;
    return least((int64_t)floorf((float)o * scale), in - 1);
}

/* The place between two rows, or columns, that o comes from; in float32 but for float64. */
static void bilinear(const fx_node *n, int dim, int64_t o, int64_t in, int64_t out, spread *s)
{
    bool align = fx_node_bool(n, 3), single = n->type->dtype != FX_F64;
    double given = given_scale(n, dim), scale, pos;
    if (in == out) { /* the neighbour is the element itself, by a weight of 0, which makes NaN of an infinity */
        put(s, o, o, 1);
        put(s, o, o, 0);
        return;
    }
    if (align)
        scale = out > 1 ? (single ? (double)((float)(in - 1) / (float)(out - 1)) : (double)(in - 1) / (double)(out - 1)) : 0;
    else
        scale = given > 0 ? 1 / given : single ? (double)((float)in / (float)out) : (double)in / (double)out;
    if (single) {
        float f = (float)scale;
        pos = align ? f * (float)o : f * ((float)o + 0.5F) - 0.5F;
    } else {
        pos = align ? scale * (double)o : scale * ((double)o + 0.5) - 0.5;
    }
    if (!align && pos < 0)
        pos = 0;
    int64_t low = least((int64_t)pos, in - 1);
    double weight = single ? (double)((float)pos - (float)low) : pos - (double)low;
    weight = weight < 0 ? 0 : weight > 1 ? 1 : weight;
    put(s, o, low, single ? (double)(1 - (float)weight) : 1 - weight);
    put(s, o, low + (low < in - 1), weight);
}

/* (grad_output, output_size, input_size, [align_corners,] scales_h, scales_w) */
void fx_d_upsample_backward(fx_rw *w)
{
    bool two = w->at->op->id == FX_OP_upsample_bilinear2d_backward;
    fx_node *y = fx_rw_wide(w, fx_node_input(w->at, 0));
    int64_t in[2], out[2];
    if (!pixels(w, y, w->at->type, in, out))
        return;
    for (int i = 0; i < 2; i++) {
        spread s = begin(w, in[i], out[i], 2 * in[i]);
        for (int64_t o = 0; o < in[i]; o++)
            if (two)
                bilinear(w->at, i, o, out[i], in[i], &s);
            else
                put(&s, o, nearest(o, out[i], in[i], given_scale(w->at, i)), 1);
        y = spread_out(w, y, 2 + i, &s, i ? "columns" : "rows");
    }
    if (w->status == FX_OK)
        fx_rw_finish(w, y);
}
