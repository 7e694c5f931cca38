/* ir/interp_pool.c: reference evaluation of pooling and resampling. One-dimensional rows run as two-dimensional ones.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "ir/ops.h"

typedef struct pool {
    int64_t planes, ih, iw, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw;
    bool include_pad;
    int64_t divisor;
} pool;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Reads an int or list of ints of one or two dims; the first of two is 1 (or 0) where the row has one. */
static void window(const fx_eval *c, int param, int spatial, int64_t *h, int64_t *w)
{
    int64_t v[2];
    int n = fx_node_ints(c->node, param, v, 2);
    if (n <= 0)
        return;
    if (spatial == 2)
        *h = v[0];
    *w = n == 1 ? v[0] : v[1];
}

static void shape(fx_eval *c, const fx_tensor *x, int spatial, pool *p)
{
    const fx_type *t = fx_eval_type(c, 0);
    *p = (pool){.planes = 1, .ih = 1, .oh = 1, .kh = 1, .kw = 1, .sh = 1, .sw = 1, .dh = 1, .dw = 1};
    for (int i = 0; i < x->rank - spatial; i++)
        p->planes *= x->sizes[i];
    p->iw = x->sizes[x->rank - 1];
    p->ow = t->dims[t->rank - 1].value;
    if (spatial == 2) {
        p->ih = x->sizes[x->rank - 2];
        p->oh = t->dims[t->rank - 2].value;
    }
}

static void windows(fx_eval *c, const fx_tensor *x, int spatial, pool *p)
{
    shape(c, x, spatial, p);
    window(c, 1, spatial, &p->kh, &p->kw);
    p->sh = p->kh;
    p->sw = p->kw;
    window(c, 2, spatial, &p->sh, &p->sw);
    window(c, 3, spatial, &p->ph, &p->pw);
}

/* ---- maximum ---------------------------------------------------------------------------------------------------------- */

/* The first window element inside the input is where a search starts; NaN wins, the last of several. */
#define MAX_POOL(NAME, T, LEAST, IS_NAN)                                                                 \
    static void NAME(const pool *p, const T *x, T *y, int64_t *where)                                    \
    {                                                                                                    \
        for (int64_t n = 0; n < p->planes; n++, x += p->ih * p->iw)                                      \
            for (int64_t o = 0; o < p->oh * p->ow; o++) {                                                \
                int64_t h0 = o / p->ow * p->sh - p->ph, w0 = o % p->ow * p->sw - p->pw, at = -1;         \
                T best = LEAST;                                                                          \
                for (int64_t kh = 0; kh < p->kh; kh++) {                                                 \
                    int64_t h = h0 + kh * p->dh;                                                         \
                    for (int64_t kw = 0; h >= 0 && h < p->ih && kw < p->kw; kw++) {                      \
                        int64_t w = w0 + kw * p->dw;                                                     \
                        if (w < 0 || w >= p->iw)                                                         \
                            continue;                                                                    \
                        T e = x[h * p->iw + w];                                                          \
                        if (at < 0 || e > best || IS_NAN) {                                              \
                            best = e;                                                                    \
                            at = h * p->iw + w;                                                          \
                        }                                                                                \
                    }                                                                                    \
                }                                                                                        \
                *y++ = best;                                                                             \
                if (where)                                                                               \
                    *where++ = at;                                                                       \
            }                                                                                            \
    }
MAX_POOL(max_pool_f32, float, -INFINITY, e != e)
MAX_POOL(max_pool_f64, double, -INFINITY, e != e)
MAX_POOL(max_pool_int, int64_t, INT64_MIN, 0)

fx_status eval_max_pool(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    int spatial = c->node->op->id == FX_OP_max_pool1d ? 1 : 2;
    fx_kind kind = fx_kind_of(x->dtype);
    const void *xs;
    pool p;
    windows(c, x, spatial, &p);
    window(c, 4, spatial, &p.dh, &p.dw);
    FX_TRY(fx_eval_array(c, x, kind, 0, NULL, &xs));
    void *y = fx_eval_target(c, 0, kind);
    int64_t *where = c->node->op->id == FX_OP_max_pool2d_with_indices ? fx_eval_out(c, 1)->data : NULL;
    if (kind == FX_KIND_F32)
        max_pool_f32(&p, xs, y, where);
    else if (kind == FX_KIND_F64)
        max_pool_f64(&p, xs, y, where);
    else
        max_pool_int(&p, xs, y, where);
    fx_eval_finish(c, 0, kind, y);
    return FX_OK;
}

/* ---- mean ------------------------------------------------------------------------------------------------------------- */

static double mean_of(const pool *p, const double *x, int64_t h0, int64_t w0)
{
    int64_t h1 = least(h0 + p->kh, p->ih + p->ph), w1 = least(w0 + p->kw, p->iw + p->pw);
    int64_t count = (h1 - h0) * (w1 - w0);
    int64_t hb = h0 < 0 ? 0 : h0, wb = w0 < 0 ? 0 : w0;
    h1 = least(h1, p->ih);
    w1 = least(w1, p->iw);
    if (hb >= h1 || wb >= w1)
        return 0;
    if (!p->include_pad)
        count = (h1 - hb) * (w1 - wb);
    if (p->divisor)
        count = p->divisor;
    double sum = 0;
    for (int64_t h = hb; h < h1; h++)
        for (int64_t w = wb; w < w1; w++)
            sum += x[h * p->iw + w];
    return sum / (double)count;
}

/* Results computed in double and rounded once. */
static void finish_doubles(fx_eval *c, const double *y)
{
    fx_tensor *out = &c->out[0];
    if (y != out->data)
        fx_row_store(out->dtype, out->data, 1, FX_KIND_F64, y, fx_tensor_numel(out));
}

static fx_status doubles(fx_eval *c, const fx_tensor *x, const double **xs, double **y)
{
    const void *p;
    FX_TRY(fx_eval_array(c, x, FX_KIND_F64, 0, NULL, &p));
    *xs = p;
    *y = fx_eval_target(c, 0, FX_KIND_F64);
    return FX_OK;
}

fx_status eval_avg_pool(fx_eval *c)
{
    const fx_tensor *in = fx_eval_input(c, 0);
    bool one = c->node->op->id == FX_OP_avg_pool1d;
    const double *x;
    double *y;
    pool p;
    windows(c, in, one ? 1 : 2, &p);
    p.include_pad = fx_node_bool(c->node, 5);
    p.divisor = one || fx_node_is_none(c->node, 6) ? 0 : fx_node_int(c->node, 6);
    FX_TRY(doubles(c, in, &x, &y));
    double *to = y;
    for (int64_t n = 0; n < p.planes; n++, x += p.ih * p.iw)
        for (int64_t o = 0; o < p.oh * p.ow; o++)
            *to++ = mean_of(&p, x, o / p.ow * p.sh - p.ph, o % p.ow * p.sw - p.pw);
    finish_doubles(c, y);
    return FX_OK;
}

/* ---- adaptive --------------------------------------------------------------------------------------------------------- */

/* ATen's windows: floor(o * in / out) up to ceil((o + 1) * in / out). */
static int64_t window_start(int64_t o, int64_t in, int64_t out)
{
    return o / out * in + o % out * in / out;
}

static int64_t window_end(int64_t o, int64_t in, int64_t out)
{
    return 1 + ((o + 1) * in - 1) / out;
}

fx_status eval_adaptive_avg_pool(fx_eval *c)
{
    const fx_tensor *in = fx_eval_input(c, 0);
    const double *x;
    double *y;
    pool p;
    shape(c, in, c->node->op->id == FX_OP_adaptive_avg_pool1d ? 1 : 2, &p);
    FX_TRY(doubles(c, in, &x, &y));
    double *to = y;
    for (int64_t n = 0; n < p.planes; n++, x += p.ih * p.iw)
        for (int64_t o = 0; o < p.oh * p.ow; o++) {
            int64_t h0 = window_start(o / p.ow, p.ih, p.oh), h1 = window_end(o / p.ow, p.ih, p.oh);
            int64_t w0 = window_start(o % p.ow, p.iw, p.ow), w1 = window_end(o % p.ow, p.iw, p.ow);
            double sum = 0;
            for (int64_t h = h0; h < h1; h++)
                for (int64_t w = w0; w < w1; w++)
                    sum += x[h * p.iw + w];
            *to++ = sum / (double)((h1 - h0) * (w1 - w0));
        }
    finish_doubles(c, y);
    return FX_OK;
}

fx_status eval_adaptive_max_pool(fx_eval *c)
{
    const fx_tensor *in = fx_eval_input(c, 0);
    const double *x;
    double *y;
    pool p;
    shape(c, in, 2, &p);
    FX_TRY(doubles(c, in, &x, &y));
    int64_t *where = fx_eval_out(c, 1)->data;
    double *to = y;
    for (int64_t n = 0; n < p.planes; n++, x += p.ih * p.iw)
        for (int64_t o = 0; o < p.oh * p.ow; o++) {
            int64_t h0 = window_start(o / p.ow, p.ih, p.oh), h1 = window_end(o / p.ow, p.ih, p.oh);
            int64_t w0 = window_start(o % p.ow, p.iw, p.ow), w1 = window_end(o % p.ow, p.iw, p.ow), at = h0 * p.iw + w0;
            double best = -INFINITY;
            for (int64_t h = h0; h < h1; h++)
                for (int64_t w = w0; w < w1; w++) {
                    double e = x[h * p.iw + w];
                    if (e > best || e != e) {
                        best = e;
                        at = h * p.iw + w;
                    }
                }
            *to++ = best;
            *where++ = at;
        }
    finish_doubles(c, y);
    return FX_OK;
}

/* ---- resampling ------------------------------------------------------------------------------------------------------- */

/* The scale of dim d (0: height): a given factor where it counts, else 0. Eager uses the factor rather than the quotient
 * of the sizes, also where the two differ. */
static double given_scale(const fx_eval *c, int d)
{
    const fx_arg *a = NULL;
    switch (c->node->op->id) {
    case FX_OP_upsample_nearest2d: a = fx_node_arg(c->node, 2 + d); break;
    case FX_OP_upsample_bilinear2d: case FX_OP_upsample_nearest2d_backward: a = fx_node_arg(c->node, 3 + d); break;
    case FX_OP_upsample_bilinear2d_backward: a = fx_node_arg(c->node, 4 + d); break;
    case FX_OP_upsample_nearest2d_vec: a = fx_node_arg(c->node, 2); break;
    case FX_OP_upsample_bilinear2d_vec: a = fx_node_arg(c->node, 3); break;
    default: break;
    }
    if (a && (a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE))
        a = d < a->n ? a->items[d] : NULL;
    double s = !a ? 0 : a->kind == FX_ARG_FLOAT ? a->f : a->kind == FX_ARG_INT ? (double)a->i : 0;
    return s > 0 ? s : 0;
}

/* Source index of nearest: in f32 whatever the dtype, as eager. */
static int64_t nearest(int64_t o, int64_t in, int64_t out, double given)
{
    if (in == out)
        return o;
    if (out == 2 * in)
        return o >> 1;
    float scale = given > 0 ? (float)(1 / given) : (float)in / (float)out;
    return least((int64_t)floorf((float)o * scale), in - 1);
}

fx_status eval_upsample_nearest(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_tensor *out = fx_eval_out(c, 0);
    int64_t ih = x->sizes[2], iw = x->sizes[3], oh = out->sizes[2], ow = out->sizes[3];
    double sh = given_scale(c, 0), sw = given_scale(c, 1);
    size_t size = fx_dtype_size(x->dtype);
    char *to = out->data;
    for (int64_t n = 0; n < x->sizes[0] * x->sizes[1]; n++)
        for (int64_t o = 0; o < oh * ow; o++, to += size) {
            int64_t at = n / x->sizes[1] * x->strides[0] + n % x->sizes[1] * x->strides[1] +
                         nearest(o / ow, ih, oh, sh) * x->strides[2] + nearest(o % ow, iw, ow, sw) * x->strides[3];
            memcpy(to, (const char *)x->data + at * (int64_t)size, size);
        }
    return FX_OK;
}

/* A source row or column between two of the input's: lower index, step to the upper, and its weight. */
typedef struct source {
    int64_t low, step;
    double weight;
} source;

/* Eager computes positions in f32 for f32 inputs; single says so. */
static source linear_source(int64_t o, int64_t in, int64_t out, double given, bool align, bool single)
{
    double scale, pos;
    if (in == out) /* the neighbour is the element itself */
        return (source){o, 0, 0};
    if (align)
        scale = out > 1 ? (single ? (float)(in - 1) / (float)(out - 1) : (double)(in - 1) / (double)(out - 1)) : 0;
    else
        scale = given > 0 ? 1 / given : single ? (float)in / (float)out : (double)in / (double)out;
    if (single) {
        float s = (float)scale;
        pos = align ? s * (float)o : s * ((float)o + 0.5F) - 0.5F;
    } else {
        pos = align ? scale * (double)o : scale * ((double)o + 0.5) - 0.5;
    }
    if (!align && pos < 0)
        pos = 0;
    int64_t low = least((int64_t)pos, in - 1);
    double weight = single ? (float)pos - (float)low : pos - (double)low;
    return (source){low, low < in - 1, weight < 0 ? 0 : weight > 1 ? 1 : weight};
}

fx_status eval_upsample_bilinear(fx_eval *c)
{
    const fx_tensor *in = fx_eval_input(c, 0);
    const fx_type *type = fx_eval_type(c, 0);
    bool single = in->dtype != FX_F64, align = fx_node_bool(c->node, 2);
    int64_t ih = in->sizes[2], iw = in->sizes[3], oh = type->dims[2].value, ow = type->dims[3].value;
    double sh = given_scale(c, 0), sw = given_scale(c, 1);
    const double *x;
    double *y;
    FX_TRY(doubles(c, in, &x, &y));
    double *to = y;
    for (int64_t n = 0; n < in->sizes[0] * in->sizes[1]; n++, x += ih * iw)
        for (int64_t o = 0; o < oh * ow; o++) {
            source h = linear_source(o / ow, ih, oh, sh, align, single), w = linear_source(o % ow, iw, ow, sw, align, single);
            const double *row = x + h.low * iw + w.low, *next = row + h.step * iw;
            *to++ = (1 - h.weight) * ((1 - w.weight) * row[0] + w.weight * row[w.step]) +
                    h.weight * ((1 - w.weight) * next[0] + w.weight * next[w.step]);
        }
    finish_doubles(c, y);
    return FX_OK;
}

/* ---- gradients -------------------------------------------------------------------------------------------------------- */

/* The gradient as doubles, and zeros for that of self; sizes of planes, in pixels. */
static fx_status gradient(fx_eval *c, pool *p, const double **g, double **y)
{
    const fx_tensor *grad = fx_eval_input(c, 0);
    const fx_type *t = fx_eval_type(c, 0);
    *p = (pool){.planes = 1, .dh = 1, .dw = 1};
    for (int i = 0; i < t->rank - 2; i++)
        p->planes *= t->dims[i].value;
    p->ih = t->dims[t->rank - 2].value;
    p->iw = t->dims[t->rank - 1].value;
    p->oh = grad->sizes[t->rank - 2];
    p->ow = grad->sizes[t->rank - 1];
    FX_TRY(doubles(c, grad, g, y));
    memset(*y, 0, (size_t)(p->planes * p->ih * p->iw) * sizeof **y);
    return FX_OK;
}

fx_status eval_max_pool_backward(fx_eval *c)
{
    const double *g;
    double *y;
    const void *indices;
    pool p;
    FX_TRY(gradient(c, &p, &g, &y));
    FX_TRY(fx_eval_array(c, fx_eval_input(c, c->node->op->id == FX_OP_adaptive_max_pool2d_backward ? 2 : 7), FX_KIND_INT, 0, NULL, &indices));
    for (int64_t i = 0; i < p.planes * p.oh * p.ow; i++) {
        int64_t at = ((const int64_t *)indices)[i];
        if (at < 0 || at >= p.ih * p.iw)
            return fx_eval_fail(c, FX_ERR_ARGUMENT, "argument 'indices': expected places from 0 to %lld, got %lld", (long long)(p.ih * p.iw - 1),
                                (long long)at);
        y[i / (p.oh * p.ow) * p.ih * p.iw + at] += g[i];
    }
    finish_doubles(c, y);
    return FX_OK;
}

/* Adds g / count to the elements of a window of a plane. */
static void share(const pool *p, double *y, double g, int64_t h0, int64_t h1, int64_t w0, int64_t w1, int64_t count)
{
    for (int64_t h = h0; h < h1; h++)
        for (int64_t w = w0; w < w1; w++)
            y[h * p->iw + w] += g / (double)count;
}

fx_status eval_avg_pool_backward(fx_eval *c)
{
    const double *g;
    double *y;
    pool p;
    FX_TRY(gradient(c, &p, &g, &y));
    window(c, 2, 2, &p.kh, &p.kw);
    p.sh = p.kh;
    p.sw = p.kw;
    window(c, 3, 2, &p.sh, &p.sw);
    window(c, 4, 2, &p.ph, &p.pw);
    for (int64_t i = 0; i < p.planes * p.oh * p.ow; i++) {
        int64_t o = i % (p.oh * p.ow), h0 = o / p.ow * p.sh - p.ph, w0 = o % p.ow * p.sw - p.pw;
        int64_t h1 = least(h0 + p.kh, p.ih + p.ph), w1 = least(w0 + p.kw, p.iw + p.pw), count = (h1 - h0) * (w1 - w0);
        h0 = h0 < 0 ? 0 : h0;
        w0 = w0 < 0 ? 0 : w0;
        h1 = least(h1, p.ih);
        w1 = least(w1, p.iw);
        if (!fx_node_is_none(c->node, 7))
            count = fx_node_int(c->node, 7);
        else if (!fx_node_bool(c->node, 6))
            count = (h1 - h0) * (w1 - w0);
        share(&p, y + i / (p.oh * p.ow) * p.ih * p.iw, g[i], h0, h1, w0, w1, count);
    }
    finish_doubles(c, y);
    return FX_OK;
}

fx_status eval_adaptive_avg_pool_backward(fx_eval *c)
{
    const double *g;
    double *y;
    pool p;
    FX_TRY(gradient(c, &p, &g, &y));
    for (int64_t i = 0; i < p.planes * p.oh * p.ow; i++) {
        int64_t o = i % (p.oh * p.ow), h0 = window_start(o / p.ow, p.ih, p.oh), h1 = window_end(o / p.ow, p.ih, p.oh);
        int64_t w0 = window_start(o % p.ow, p.iw, p.ow), w1 = window_end(o % p.ow, p.iw, p.ow);
        share(&p, y + i / (p.oh * p.ow) * p.ih * p.iw, g[i], h0, h1, w0, w1, (h1 - h0) * (w1 - w0));
    }
    finish_doubles(c, y);
    return FX_OK;
}

fx_status eval_upsample_nearest_backward(fx_eval *c)
{
    const double *g;
    double *y, sh = given_scale(c, 0), sw = given_scale(c, 1);
    pool p;
    FX_TRY(gradient(c, &p, &g, &y));
    for (int64_t i = 0; i < p.planes * p.oh * p.ow; i++) {
        int64_t o = i % (p.oh * p.ow);
        y[i / (p.oh * p.ow) * p.ih * p.iw + nearest(o / p.ow, p.ih, p.oh, sh) * p.iw + nearest(o % p.ow, p.iw, p.ow, sw)] += g[i];
    }
    finish_doubles(c, y);
    return FX_OK;
}

fx_status eval_upsample_bilinear_backward(fx_eval *c)
{
    bool single = fx_eval_input(c, 0)->dtype != FX_F64, align = fx_node_bool(c->node, 3);
    const double *g;
    double *y, sh = given_scale(c, 0), sw = given_scale(c, 1);
    pool p;
    FX_TRY(gradient(c, &p, &g, &y));
    for (int64_t i = 0; i < p.planes * p.oh * p.ow; i++) {
        int64_t o = i % (p.oh * p.ow);
        source h = linear_source(o / p.ow, p.ih, p.oh, sh, align, single), w = linear_source(o % p.ow, p.iw, p.ow, sw, align, single);
        double *row = y + i / (p.oh * p.ow) * p.ih * p.iw + h.low * p.iw + w.low, *next = row + h.step * p.iw;
        row[0] += (1 - h.weight) * (1 - w.weight) * g[i];
        row[w.step] += (1 - h.weight) * w.weight * g[i];
        next[0] += h.weight * (1 - w.weight) * g[i];
        next[w.step] += h.weight * w.weight * g[i];
    }
    finish_doubles(c, y);
    return FX_OK;
}
