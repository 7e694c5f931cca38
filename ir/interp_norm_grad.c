/* ir/interp_norm_grad.c: reference evaluation of the gradients of softmax, norms, attention, embedding and of views that show a part. In
 * double, rounded once.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ir/ops.h"

/* A Tensor parameter as doubles; NULL where it is None. */
static fx_status doubles(fx_eval *c, int param, const double **out)
{
    const fx_tensor *t = fx_eval_input(c, param);
    const void *p = NULL;
    if (t)
        FX_TRY(fx_eval_array(c, t, FX_KIND_F64, 0, NULL, &p));
    *out = p;
    return FX_OK;
}

fx_status eval_softmax_backward(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 1);
    bool log = c->node->op->id == FX_OP__log_softmax_backward_data;
    int64_t dim = fx_node_int(c->node, 2), inner = 1, n = 1, outer = 1;
    int axis = (int)(dim < 0 ? dim + x->rank : dim);
    const double *g, *y;
    FX_TRY(doubles(c, 0, &g));
    FX_TRY(doubles(c, 1, &y));
    for (int i = 0; i < x->rank; i++)
        *(i < axis ? &outer : i == axis ? &n : &inner) *= x->sizes[i];
    double *r = fx_eval_target(c, 0, FX_KIND_F64);
    for (int64_t o = 0; o < outer * inner; o++) {
        int64_t at = o / inner * n * inner + o % inner;
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += log ? g[at + i * inner] : g[at + i * inner] * y[at + i * inner];
        for (int64_t i = at; i < at + n * inner; i += inner) {
            double e = exp(y[i]);
            e = x->dtype == FX_F64 ? e : (float)e;
            r[i] = log ? g[i] - e * sum : (g[i] - sum) * y[i];
        }
    }
    fx_eval_finish(c, 0, FX_KIND_F64, r);
    return FX_OK;
}

/* ---- norms ------------------------------------------------------------------------------------------------------------ */

static bool wanted(const fx_eval *c, int i)
{
    const fx_arg *mask = fx_node_arg(c->node, fx_op_schema(c->ctx, c->node->op)->n - 1);
    return mask->items[i]->kind == FX_ARG_BOOL && mask->items[i]->b;
}

/* Rows of n elements with their mean and rstd; each element has a weight: layer norm's by its place in the row, group norm's by its channel. */
typedef struct norm_grad {
    int64_t rows, n, weights;
    const double *g, *x, *mean, *rstd, *weight;
    int64_t groups, inner;       /* group norm: row r has channels r % groups * n / inner on, each of inner elements; 0: layer norm */
} norm_grad;

static int64_t weight_of(const norm_grad *v, int64_t r, int64_t k)
{
    return v->inner ? r % v->groups * (v->n / v->inner) + k / v->inner : k;
}

static fx_status norm_backward(fx_eval *c, const norm_grad *v)
{
    int64_t total = v->rows * v->n;
    double *dx = fx_eval_scratch(c, total, sizeof *dx), *dw = fx_eval_scratch(c, v->weights, sizeof *dw), *db = fx_eval_scratch(c, v->weights, sizeof *db);
    for (int64_t r = 0; r < v->rows; r++) {
        const double *g = v->g + r * v->n, *x = v->x + r * v->n;
        double sum = 0, dot = 0, m = v->mean[r], s = v->rstd[r];
        for (int64_t k = 0; k < v->n; k++) {
            int64_t at = weight_of(v, r, k);
            double by = v->weight ? g[k] * v->weight[at] : g[k], y = (x[k] - m) * s;
            sum += by;
            dot += by * y;
            dw[at] += g[k] * y;
            db[at] += g[k];
        }
        for (int64_t k = 0; k < v->n; k++) {
            double by = v->weight ? g[k] * v->weight[weight_of(v, r, k)] : g[k];
            dx[r * v->n + k] = s * (by - sum / (double)v->n - (x[k] - m) * s * dot / (double)v->n);
        }
    }
    const double *results[3] = {dx, dw, db};
    for (int i = 0; i < 3; i++) {
        fx_tensor *out = fx_eval_out(c, i);
        if (wanted(c, i))
            fx_row_store(out->dtype, out->data, 1, FX_KIND_F64, results[i], fx_tensor_numel(out));
    }
    return FX_OK;
}

fx_status eval_layer_norm_backward(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 1);
    int dims = fx_node_arg(c->node, 2)->kind == FX_ARG_INT ? 1 : fx_node_arg(c->node, 2)->n;
    norm_grad v = {.rows = 1, .n = 1};
    for (int i = 0; i < x->rank; i++)
        *(i < x->rank - dims ? &v.rows : &v.n) *= x->sizes[i];
    v.weights = v.n;
    FX_TRY(doubles(c, 0, &v.g));
    FX_TRY(doubles(c, 1, &v.x));
    FX_TRY(doubles(c, 3, &v.mean));
    FX_TRY(doubles(c, 4, &v.rstd));
    FX_TRY(doubles(c, 5, &v.weight));
    return norm_backward(c, &v);
}

fx_status eval_group_norm_backward(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 1);
    norm_grad v = {.groups = fx_node_int(c->node, 8), .inner = 1, .weights = x->sizes[1]};
    for (int i = 2; i < x->rank; i++)
        v.inner *= x->sizes[i];
    v.rows = x->sizes[0] * v.groups;
    v.n = x->sizes[1] / v.groups * v.inner;
    FX_TRY(doubles(c, 0, &v.g));
    FX_TRY(doubles(c, 1, &v.x));
    FX_TRY(doubles(c, 2, &v.mean));
    FX_TRY(doubles(c, 3, &v.rstd));
    FX_TRY(doubles(c, 4, &v.weight));
    v.inner = v.inner ? v.inner : 1;
    return norm_backward(c, &v);
}

/* ---- attention ---------------------------------------------------------------------------------------------------------- */

/* p = exp(scale * q k^T + mask - logsumexp); dv = p^T g; ds = p (g v^T - sum(g out)); dq = scale * ds k; dk = scale * ds^T q. */
fx_status eval_attention_backward(fx_eval *c)
{
    const fx_tensor *q = fx_eval_input(c, 1), *k = fx_eval_input(c, 2), *mask = fx_eval_input(c, 8);
    int64_t heads = q->sizes[0] * q->sizes[1], l = q->sizes[2], e = q->sizes[3], s = k->sizes[2], ev = fx_eval_input(c, 3)->sizes[3];
    const double *in[6], *add = NULL;
    for (int i = 0; i < 6; i++)
        FX_TRY(doubles(c, i, &in[i]));
    if (mask) {
        int64_t sizes[4] = {q->sizes[0], q->sizes[1], l, s};
        const void *p;
        FX_TRY(fx_eval_array(c, mask, FX_KIND_F64, 4, sizes, &p));
        add = p;
    }
    double scale = fx_node_is_none(c->node, 9) ? 1 / sqrt((double)e) : fx_node_float(c->node, 9);
    bool causal = fx_node_bool(c->node, 7), truth = mask && mask->dtype == FX_BOOL;
    double *dq = fx_eval_scratch(c, heads * l * e, sizeof *dq), *dk = fx_eval_scratch(c, heads * s * e, sizeof *dk),
           *dv = fx_eval_scratch(c, heads * s * ev, sizeof *dv);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < l; i++) {
            const double *qi = in[1] + (h * l + i) * e, *g = in[0] + (h * l + i) * ev, *out = in[4] + (h * l + i) * ev;
            double delta = 0;
            for (int64_t d = 0; d < ev; d++)
                delta += g[d] * out[d];
            for (int64_t j = 0; j < s; j++) {
                const double *kj = in[2] + (h * s + j) * e, *vj = in[3] + (h * s + j) * ev;
                double dot = 0, dp = 0, m = add ? add[(h * l + i) * s + j] : 0;
                for (int64_t d = 0; d < e; d++)
                    dot += qi[d] * kj[d];
                if ((causal && j > i) || (truth && m == 0))
                    continue;
                double p = exp(dot * scale + (truth ? 0 : m) - in[5][h * l + i]);
                for (int64_t d = 0; d < ev; d++) {
                    dp += g[d] * vj[d];
                    dv[(h * s + j) * ev + d] += p * g[d];
                }
                double ds = p * (dp - delta) * scale;
                for (int64_t d = 0; d < e; d++) {
                    dq[(h * l + i) * e + d] += ds * kj[d];
                    dk[(h * s + j) * e + d] += ds * qi[d];
                }
            }
        }
    const double *results[3] = {dq, dk, dv};
    for (int i = 0; i < 3; i++) {
        fx_tensor *to = fx_eval_out(c, i);
        fx_row_store(to->dtype, to->data, 1, FX_KIND_F64, results[i], fx_tensor_numel(to));
    }
    return FX_OK;
}

/* ---- what gathers --------------------------------------------------------------------------------------------------------- */

fx_status eval_embedding_backward(fx_eval *c)
{
    const fx_tensor *index = fx_eval_input(c, 1);
    fx_tensor *out = fx_eval_out(c, 0);
    int64_t rows = out->sizes[0], n = out->sizes[1], padding;
    const double *g;
    const void *p;
    FX_TRY(fx_eval_int(c, 3, &padding));
    FX_TRY(doubles(c, 0, &g));
    FX_TRY(fx_eval_array(c, index, FX_KIND_INT, 0, NULL, &p));
    const int64_t *at = p;
    double *r = fx_eval_scratch(c, rows * n, sizeof *r), *count = fx_eval_scratch(c, rows, sizeof *count);
    for (int64_t i = 0; i < fx_tensor_numel(index); i++) {
        if (at[i] < 0 || at[i] >= rows)
            return fx_eval_fail(c, FX_ERR_ARGUMENT, "expected an index below %" PRId64 ", got %" PRId64, rows, at[i]);
        count[at[i]]++;
    }
    for (int64_t i = 0; i < fx_tensor_numel(index); i++)
        for (int64_t k = 0; at[i] != padding && k < n; k++)
            r[at[i] * n + k] += fx_node_bool(c->node, 4) ? g[i * n + k] / count[at[i]] : g[i * n + k];
    fx_row_store(out->dtype, out->data, 1, FX_KIND_F64, r, rows * n);
    return FX_OK;
}

/* select_backward, slice_backward: zeros, and the part. */
fx_status eval_part_backward(fx_eval *c)
{
    const fx_tensor *g = fx_eval_input(c, 0);
    fx_tensor *out = fx_eval_out(c, 0), to = *out, from = *g;
    bool select = c->node->op->id == FX_OP_select_backward;
    int64_t dim = fx_node_int(c->node, 2), at, step = select ? 1 : fx_node_int(c->node, 5);
    int axis = (int)(dim < 0 ? dim + out->rank : dim);
    FX_TRY(fx_eval_int(c, 3, &at));
    at = at < 0 ? at + out->sizes[axis] : at;
    at = at < 0 ? 0 : at > out->sizes[axis] ? out->sizes[axis] : at;
    memset(out->data, 0, (size_t)fx_tensor_numel(out) * fx_dtype_size(out->dtype));
    if (select) {
        from.rank = out->rank;
        for (int i = out->rank - 1; i >= axis; i--) {
            from.sizes[i] = i == axis ? 1 : g->sizes[i - 1];
            from.strides[i] = i == axis ? 1 : g->strides[i - 1];
        }
    }
    int64_t n = from.sizes[axis];
    if (n > 0 && at + (n - 1) * step >= out->sizes[axis])
        return fx_eval_fail(c, FX_ERR_ARGUMENT, "expected a part of %" PRId64 " elements of dim %d, got %" PRId64 " from %" PRId64 " on", out->sizes[axis],
                            axis, n, at);
    if (fx_tensor_numel(&from) == 0)
        return FX_OK;
    to.sizes[axis] = n;
    to.data = (char *)to.data + at * to.strides[axis] * (int64_t)fx_dtype_size(to.dtype);
    to.strides[axis] *= step;
    fx_tensor_assign(&to, &from);
    return FX_OK;
}
