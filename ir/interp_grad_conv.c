/* ir/interp_grad_conv.c: reference evaluation of the gradients of convolutions.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A convolution relates two images, a small one at places o and a large one at places o * stride - padding + k * dilation, by the weight
 * [small channels][large channels of a group][k]. The small one is its output, or its input where it is transposed. Each of the three is
 * a sum of products of the other two. */
#include <string.h>

#include "ir/ops.h"

enum { SPATIAL = 3 };
typedef enum part { SMALL, LARGE, WEIGHT } part;

typedef struct relation {
    double *v[3];                                     /* by part */
    int64_t n, groups, channels[2];                   /* of a group; by part */
    int64_t size[3][SPATIAL];                         /* by part; filled up with 1 in front */
    int64_t stride[SPATIAL], pad[SPATIAL], dilation[SPATIAL];
} relation;

static int64_t volume(const int64_t size[SPATIAL])
{
    return size[0] * size[1] * size[2];
}

/* Places o of a row that have their place in the large image: from *lo up to *hi. */
static void reach(const relation *r, int64_t k, int64_t *lo, int64_t *hi)
{
    int64_t s = r->stride[2], at = k * r->dilation[2] - r->pad[2], large = r->size[LARGE][2];
    *lo = at >= 0 ? 0 : (-at + s - 1) / s;
    *hi = at >= large ? 0 : (large - 1 - at) / s + 1;
    if (*hi > r->size[SMALL][2])
        *hi = r->size[SMALL][2];
}

/* One kernel element between two planes. */
static void along(const relation *r, part sum, double *small, double *large, double *weight, const int64_t k[SPATIAL])
{
    int64_t lo, hi, s = r->stride[2];
    reach(r, k[2], &lo, &hi);
    for (int64_t a = 0; a < r->size[SMALL][0]; a++)
        for (int64_t b = 0; b < r->size[SMALL][1]; b++) {
            int64_t d = a * r->stride[0] - r->pad[0] + k[0] * r->dilation[0], h = b * r->stride[1] - r->pad[1] + k[1] * r->dilation[1];
            if (d < 0 || d >= r->size[LARGE][0] || h < 0 || h >= r->size[LARGE][1] || lo >= hi)
                continue;
            double *from = small + (a * r->size[SMALL][1] + b) * r->size[SMALL][2], total = 0;
            double *to = large + (d * r->size[LARGE][1] + h) * r->size[LARGE][2] + (k[2] * r->dilation[2] - r->pad[2]);
            if (sum == WEIGHT) {
                for (int64_t o = lo; o < hi; o++)
                    total += from[o] * to[o * s];
                *weight += total;
            } else if (sum == LARGE)
                for (int64_t o = lo; o < hi; o++)
                    to[o * s] += from[o] * *weight;
            else
                for (int64_t o = lo; o < hi; o++)
                    from[o] += to[o * s] * *weight;
        }
}

/* Adds to one part, which begins at 0, the products of the others. */
static void relate(const relation *r, part sum)
{
    int64_t planes[3] = {volume(r->size[SMALL]), volume(r->size[LARGE]), volume(r->size[WEIGHT])};
    for (int64_t n = 0; n < r->n * r->groups; n++)
        for (int64_t s = 0; s < r->channels[SMALL]; s++)
            for (int64_t l = 0; l < r->channels[LARGE]; l++)
                for (int64_t k = 0; k < planes[WEIGHT]; k++) {
                    int64_t at[SPATIAL] = {k / (r->size[WEIGHT][1] * r->size[WEIGHT][2]), k / r->size[WEIGHT][2] % r->size[WEIGHT][1],
                                           k % r->size[WEIGHT][2]};
                    int64_t group = n % r->groups;
                    along(r, sum, r->v[SMALL] + (n * r->channels[SMALL] + s) * planes[SMALL],
                          r->v[LARGE] + (n * r->channels[LARGE] + l) * planes[LARGE],
                          r->v[WEIGHT] + ((group * r->channels[SMALL] + s) * r->channels[LARGE] + l) * planes[WEIGHT] + k, at);
                }
}

static void sizes(relation *r, part p, const int64_t *v, int spatial)
{
    for (int d = 0; d < SPATIAL; d++)
        r->size[p][d] = d < SPATIAL - spatial ? 1 : v[d - (SPATIAL - spatial)];
}

static void ints(const fx_eval *c, int spatial, int param, int64_t *to)
{
    int64_t p[SPATIAL];
    int n = fx_node_ints(c->node, param, p, SPATIAL);
    for (int d = 0; d < spatial; d++)
        to[SPATIAL - spatial + d] = n == 1 ? p[0] : p[d];
}

/* The elements of an operand, in double, to be read only. */
static fx_status doubles(fx_eval *c, int param, double **v)
{
    const fx_tensor *t = fx_eval_input(c, param);
    *v = fx_eval_scratch(c, fx_tensor_numel(t), sizeof **v);
    const void *p;
    FX_TRY(fx_eval_array(c, t, FX_KIND_F64, 0, NULL, &p));
    memcpy(*v, p, (size_t)fx_tensor_numel(t) * sizeof **v);
    return FX_OK;
}

/* Result i, of part p, as zeros; after the sum it is stored. */
static double *target(fx_eval *c, int i)
{
    double *v = fx_eval_target(c, i, FX_KIND_F64);
    const fx_type *t = fx_eval_type(c, i);
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++)
        n *= t->dims[d].value;
    memset(v, 0, (size_t)n * sizeof *v);
    return v;
}

static void settings(fx_eval *c, relation *r, int first, int spatial)
{
    for (int d = 0; d < SPATIAL; d++)
        r->stride[d] = r->dilation[d] = 1;
    ints(c, spatial, first, r->stride);
    ints(c, spatial, first + 1, r->pad);
    ints(c, spatial, first + 2, r->dilation);
}

fx_status eval_convolution_backward(fx_eval *c)
{
    const fx_tensor *g = fx_eval_input(c, 0), *x = fx_eval_input(c, 1), *w = fx_eval_input(c, 2);
    relation r = {.n = x->sizes[0], .groups = fx_node_int(c->node, 9)};
    int spatial = w->rank - 2;
    bool transposed = fx_node_bool(c->node, 7);
    part in = transposed ? SMALL : LARGE, out = transposed ? LARGE : SMALL;
    settings(c, &r, 4, spatial);
    sizes(&r, in, x->sizes + 2, spatial);
    sizes(&r, out, g->sizes + 2, spatial);
    sizes(&r, WEIGHT, w->sizes + 2, spatial);
    r.channels[in] = x->sizes[1] / r.groups;
    r.channels[out] = g->sizes[1] / r.groups;
    FX_TRY(doubles(c, 0, &r.v[out]));
    if (fx_node_asks(c->node, 10, 0)) {
        FX_TRY(doubles(c, 2, &r.v[WEIGHT]));
        double *y = r.v[in] = target(c, 0);
        relate(&r, in);
        fx_eval_finish(c, 0, FX_KIND_F64, y);
    }
    if (fx_node_asks(c->node, 10, 1)) {
        FX_TRY(doubles(c, 1, &r.v[in]));
        double *y = r.v[WEIGHT] = target(c, 1);
        relate(&r, WEIGHT);
        fx_eval_finish(c, 1, FX_KIND_F64, y);
    }
    if (fx_node_asks(c->node, 10, 2)) {
        double *y = target(c, 2);
        int64_t plane = volume(r.size[out]);
        for (int64_t i = 0; i < g->sizes[0] * g->sizes[1] * plane; i++)
            y[i / plane % g->sizes[1]] += r.v[out][i];
        fx_eval_finish(c, 2, FX_KIND_F64, y);
    }
    return FX_OK;
}

fx_status eval_conv_weight_grad(fx_eval *c)
{
    const fx_tensor *g = fx_eval_input(c, 0), *x = fx_eval_input(c, 1);
    relation r = {.n = x->sizes[0], .groups = fx_node_int(c->node, 6)};
    int64_t size[4];
    fx_node_ints(c->node, 2, size, 4);
    settings(c, &r, 3, 2);
    sizes(&r, LARGE, x->sizes + 2, 2);
    sizes(&r, SMALL, g->sizes + 2, 2);
    sizes(&r, WEIGHT, size + 2, 2);
    r.channels[LARGE] = x->sizes[1] / r.groups;
    r.channels[SMALL] = g->sizes[1] / r.groups;
    FX_TRY(doubles(c, 0, &r.v[SMALL]));
    FX_TRY(doubles(c, 1, &r.v[LARGE]));
    double *y = r.v[WEIGHT] = target(c, 0);
    relate(&r, WEIGHT);
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    return FX_OK;
}
