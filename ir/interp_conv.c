/* ir/interp_conv.c: reference evaluation of convolutions: the columns a tile of output positions reads are gathered, then
 * multiplied (interp_gemm.c). One form serves all spellings: up to three spatial dims, any stride, padding, dilation, groups,
 * transposed or not.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ops.h"

enum { SPATIAL = 3 };

typedef struct conv {
    const fx_tensor *x, *w, *b;
    int64_t stride[SPATIAL], pad[SPATIAL], dilation[SPATIAL], groups;
    bool transposed;
    /* derived; spatial dims are filled up with 1 in front */
    int spatial;
    int64_t n, in[SPATIAL], out[SPATIAL], kernel[SPATIAL], ic, oc; /* ic, oc: of a group */
} conv;

/* For each position of the tile and one kernel element: where in a channel's plane it reads, -1 for the padding. */
static void offsets(const conv *v, int64_t first, int64_t count, int64_t kernel, int64_t *at)
{
    int64_t k[SPATIAL] = {kernel / (v->kernel[1] * v->kernel[2]), kernel / v->kernel[2] % v->kernel[1], kernel % v->kernel[2]};
    for (int64_t p = 0; p < count; p++) {
        int64_t o = first + p, pos[SPATIAL] = {o / (v->out[1] * v->out[2]), o / v->out[2] % v->out[1], o % v->out[2]}, offset = 0;
        for (int d = 0; d < SPATIAL && offset >= 0; d++) {
            int64_t i;
            if (v->transposed) {
                i = pos[d] + v->pad[d] - k[d] * v->dilation[d];
                i = i < 0 || i % v->stride[d] ? -1 : i / v->stride[d];
            } else {
                i = pos[d] * v->stride[d] - v->pad[d] + k[d] * v->dilation[d];
            }
            offset = i < 0 || i >= v->in[d] ? -1 : offset * v->in[d] + i;
        }
        at[p] = offset;
    }
}

#define GATHER(NAME, T)                                                                                  \
    static void NAME(const T *x, int64_t plane, int64_t ic, int64_t n_k, int64_t kernels, int64_t kernel, \
                     int64_t count, const int64_t *at, double *panels)                                    \
    {                                                                                                    \
        for (int64_t i = 0; i < ic; i++) {                                                               \
            const T *row = x + i * plane;                                                                \
            double *to = panels + (i * kernels + kernel) * FX_PANEL;                                     \
            for (int64_t p = 0; p < count; p++)                                                          \
                to[p / FX_PANEL * n_k * FX_PANEL + p % FX_PANEL] = at[p] < 0 ? 0 : (double)row[at[p]];   \
        }                                                                                                \
    }
GATHER(gather_f32, float)
GATHER(gather_f64, double)

static void store(fx_kind kind, void *y, int64_t at, const double *r, int64_t n, double bias)
{
    if (kind == FX_KIND_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)y)[at + i] = (float)(r[i] + bias);
    else
        for (int64_t i = 0; i < n; i++)
            ((double *)y)[at + i] = r[i] + bias;
}

static fx_status evaluate(fx_eval *c, conv *v)
{
    const fx_tensor *x = v->x, *w = v->w;
    const fx_type *type = fx_eval_type(c, 0);
    int lead = x->rank - v->spatial - 1;
    fx_kind kind = fx_kind_of(x->dtype);
    if (kind == FX_KIND_INT)
        return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "convolution of %s is not supported", fx_dtype_name(x->dtype));
    int64_t plane = 1, places = 1, kernels = 1;
    for (int d = 0; d < SPATIAL; d++) {
        int k = d - (SPATIAL - v->spatial);
        v->in[d] = k < 0 ? 1 : x->sizes[lead + 1 + k];
        v->out[d] = k < 0 ? 1 : type->dims[lead + 1 + k].value;
        v->kernel[d] = k < 0 ? 1 : w->sizes[2 + k];
        plane *= v->in[d];
        places *= v->out[d];
        kernels *= v->kernel[d];
    }
    v->n = lead ? x->sizes[0] : 1;
    v->ic = x->sizes[lead] / v->groups;
    v->oc = type->dims[lead].value / v->groups;
    const void *xs, *ws, *bs = NULL;
    FX_TRY(fx_eval_array(c, x, kind, 0, NULL, &xs));
    FX_TRY(fx_eval_array(c, w, kind, 0, NULL, &ws));
    if (v->b)
        FX_TRY(fx_eval_array(c, v->b, FX_KIND_F64, 0, NULL, &bs));
    void *y = fx_eval_target(c, 0, kind);
    int64_t n_k = v->ic * kernels, tile = fx_gemm_columns(n_k, places), room = (tile + FX_PANEL - 1) / FX_PANEL * FX_PANEL;
    int64_t *at = fx_eval_scratch(c, room, sizeof *at);
    double *panels = fx_eval_scratch(c, room * n_k, sizeof *panels);
    fx_gemm g = {.n_o = v->oc, .n_i = v->ic, .n_j = kernels, .kind = kind, .wj = 1, .x = panels, .rs = room};
    g.wo = v->transposed ? kernels : v->ic * kernels;
    g.wi = v->transposed ? v->oc * kernels : kernels;
    g.r = fx_eval_scratch(c, room * v->oc, sizeof *g.r);
    g.buffer = fx_eval_scratch(c, FX_PANEL * n_k, sizeof *g.buffer);
    size_t size = fx_kind_size(kind);
    for (int64_t n = 0; n < v->n; n++)
        for (int64_t group = 0; group < v->groups; group++) {
            const char *xg = (const char *)xs + (size_t)((n * v->groups + group) * v->ic * plane) * size;
            g.w = (const char *)ws + (size_t)(group * v->oc * v->ic * kernels) * size;
            for (int64_t p = 0; p < places; p += tile) {
                g.n_p = places - p < tile ? places - p : tile;
                for (int64_t k = 0; k < kernels; k++) {
                    offsets(v, p, g.n_p, k, at);
                    if (kind == FX_KIND_F32)
                        gather_f32((const float *)(const void *)xg, plane, v->ic, n_k, kernels, k, g.n_p, at, panels);
                    else
                        gather_f64((const double *)(const void *)xg, plane, v->ic, n_k, kernels, k, g.n_p, at, panels);
                }
                fx_gemm_tile(&g);
                for (int64_t o = 0; o < v->oc; o++)
                    store(kind, y, ((n * v->groups + group) * v->oc + o) * places + p, g.r + o * room, g.n_p,
                          bs ? ((const double *)bs)[group * v->oc + o] : 0);
            }
        }
    fx_eval_finish(c, 0, kind, y);
    return FX_OK;
}

/* ---- spellings -------------------------------------------------------------------------------------------------------- */

static conv begin(fx_eval *c)
{
    conv v = {.x = fx_eval_input(c, 0), .w = fx_eval_input(c, 1), .b = fx_eval_input(c, 2), .groups = 1};
    v.spatial = v.w->rank - 2;
    for (int d = 0; d < SPATIAL; d++)
        v.stride[d] = v.dilation[d] = 1;
    return v;
}

/* Inference has checked that there are v->spatial of them, or one for all. */
static void ints(const fx_eval *c, const conv *v, int param, int64_t *to)
{
    int64_t p[SPATIAL];
    int n = fx_node_ints(c->node, param, p, SPATIAL);
    for (int d = 0; d < v->spatial; d++)
        to[SPATIAL - v->spatial + d] = n == 1 ? p[0] : p[d];
}

fx_status eval_convolution(fx_eval *c)
{
    conv v = begin(c);
    ints(c, &v, 3, v.stride);
    ints(c, &v, 4, v.pad);
    ints(c, &v, 5, v.dilation);
    v.transposed = fx_node_bool(c->node, 6);
    v.groups = fx_node_int(c->node, 8);
    return evaluate(c, &v);
}

fx_status eval_conv(fx_eval *c)
{
    conv v = begin(c);
    ints(c, &v, 3, v.stride);
    ints(c, &v, 4, v.pad);
    ints(c, &v, 5, v.dilation);
    v.groups = fx_node_int(c->node, 6);
    return evaluate(c, &v);
}

fx_status eval_conv_padding(fx_eval *c)
{
    conv v = begin(c);
    ints(c, &v, 3, v.stride);
    ints(c, &v, 5, v.dilation);
    v.groups = fx_node_int(c->node, 6);
    if (!strcmp(fx_node_arg(c->node, 4)->s, "same"))
        for (int d = 0; d < v.spatial; d++) {
            int at = SPATIAL - v.spatial + d;
            v.pad[at] = v.dilation[at] * (v.w->sizes[2 + d] - 1) / 2;
        }
    return evaluate(c, &v);
}

fx_status eval_conv_transpose(fx_eval *c)
{
    conv v = begin(c);
    v.transposed = true;
    ints(c, &v, 3, v.stride);
    ints(c, &v, 4, v.pad);
    v.groups = fx_node_int(c->node, 6);
    ints(c, &v, 7, v.dilation);
    return evaluate(c, &v);
}
