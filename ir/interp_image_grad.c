/* ir/interp_image_grad.c: reference evaluation of batch norm and its gradients, and of the gradients of pointwise rows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "ir/ops.h"

/* ---- elementwise ------------------------------------------------------------------------------------------------------ */

#define EACH(expr)                      \
    for (int64_t i = 0; i < n; i++) {   \
        x = a[i];                       \
        d = g[i];                       \
        r[i] = (expr);                  \
    }                                   \
    return true

/* g: the gradient; a: what was given or computed; p: the row's numbers in order. Rounded after each operation, as eager does. */
#define GRADS(NAME, T)                                                                                    \
    static bool NAME(fx_opid id, const double *p, bool result, int64_t n, const T *g, const T *a, T *r)   \
    {                                                                                                     \
        T x, d, s, q = (T)p[0], t = (T)p[1], u = (T)p[2], v = (T)(p[0] * p[1]);                             \
        switch (id) {                                                                                     \
        case FX_OP_threshold_backward: EACH(x <= q ? 0 : d);                                              \
        case FX_OP_hardtanh_backward: EACH(x > q && x < t ? d : 0);                                       \
        case FX_OP_hardswish_backward: EACH(x <= -3 ? 0 : x < 3 ? d * (x / 3 + (T)0.5) : d);               \
        case FX_OP_hardsigmoid_backward: EACH(x > -3 && x < 3 ? d * (T)(1.0F / 6.0F) : 0);                     \
        case FX_OP_silu_backward: EACH((s = (T)(1 / (1 + exp(-(double)x))), d * s * (1 + x * (1 - s))));    \
        case FX_OP_mish_backward:                                                                         \
            EACH((s = (T)tanh(log1p(exp((double)x))), d * (s + x * (T)(1 / (1 + exp(-(double)x))) * (1 - s * s))));  \
        case FX_OP_leaky_relu_backward: EACH(x > 0 ? d : d * q);                                          \
        case FX_OP_elu_backward:                                                                          \
            EACH(x > 0 ? d * t : result ? d * u * (x + v) : d * u * v * (T)exp((double)(x * u)));           \
        default: return false;                                                                            \
        }                                                                                                 \
    }
GRADS(grads_f32, float)
GRADS(grads_f64, double)

fx_status eval_image_grad_pointwise(fx_eval *c)
{
    const fx_type *t = fx_eval_type(c, 0);
    fx_opid id = c->node->op->id;
    fx_kind kind = fx_kind_of(t->dtype);
    bool elu = id == FX_OP_elu_backward, leaky = id == FX_OP_leaky_relu_backward, ok;
    double p[3] = {0};
    int64_t sizes[FX_MAX_RANK], n = 1;
    const void *g, *x;
    for (int i = 0; i < t->rank; i++)
        n *= sizes[i] = t->dims[i].value;
    for (int i = 0, at = elu ? 1 : 2, params = fx_op_schema(c->ctx, c->node->op)->n; i < 3 && at < params - (elu ? 2 : leaky); i++, at++)
        p[i] = fx_node_float(c->node, at);
    FX_TRY(fx_eval_array(c, fx_eval_input(c, 0), kind, t->rank, sizes, &g));
    FX_TRY(fx_eval_array(c, fx_eval_input(c, elu ? 5 : 1), kind, t->rank, sizes, &x));
    void *r = fx_eval_target(c, 0, kind);
    bool result = elu && fx_node_bool(c->node, 4);
    if (kind == FX_KIND_F32)
        ok = grads_f32(id, p, result, n, g, x, r);
    else
        ok = grads_f64(id, p, result, n, g, x, r);
    if (!ok)
        return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "not defined on %s", fx_dtype_name(t->dtype));
    fx_eval_finish(c, 0, kind, r);
    return FX_OK;
}

/* ---- batch norm ------------------------------------------------------------------------------------------------------- */

/* An image as [n][channels][inner], in double. */
typedef struct image {
    const double *x;
    int64_t n, channels, inner, each; /* each: elements of a channel */
} image;

static fx_status image_of(fx_eval *c, int param, image *v)
{
    const fx_tensor *x = fx_eval_input(c, param);
    const void *p;
    *v = (image){.n = x->sizes[0], .channels = x->sizes[1], .inner = 1};
    for (int i = 2; i < x->rank; i++)
        v->inner *= x->sizes[i];
    v->each = v->n * v->inner;
    FX_TRY(fx_eval_array(c, x, FX_KIND_F64, 0, NULL, &p));
    v->x = p;
    return FX_OK;
}

/* The vector of a parameter, or n times a number where it is None. */
static fx_status vector(fx_eval *c, int param, int64_t n, double otherwise, const double **p)
{
    const fx_tensor *t = param < 0 ? NULL : fx_eval_input(c, param);
    const void *v;
    if (t) {
        FX_TRY(fx_eval_array(c, t, FX_KIND_F64, 0, NULL, &v));
        *p = v;
        return FX_OK;
    }
    double *all = fx_eval_scratch(c, n, sizeof *all);
    for (int64_t i = 0; i < n; i++)
        all[i] = otherwise;
    *p = all;
    return FX_OK;
}

#define EACH_OF(v, ch, at)                                       \
    for (int64_t b_ = 0; b_ < (v)->n; b_++)                      \
        for (int64_t i_ = 0, at; i_ < (v)->inner; i_++)          \
            if (at = (b_ * (v)->channels + (ch)) * (v)->inner + i_, true)

/* Mean and variance of each channel, by the number of its elements. */
static void statistics(fx_eval *c, const image *x, const double **mean, const double **var)
{
    double *m = fx_eval_scratch(c, x->channels, sizeof *m), *v = fx_eval_scratch(c, x->channels, sizeof *v);
    for (int64_t ch = 0; ch < x->channels; ch++) {
        EACH_OF(x, ch, at) m[ch] += x->x[at];
        m[ch] /= (double)x->each;
        EACH_OF(x, ch, at) v[ch] += (x->x[at] - m[ch]) * (x->x[at] - m[ch]);
        v[ch] /= (double)x->each;
    }
    *mean = m;
    *var = v;
}

/* The running statistics after this batch: of the results where they are two, else of the operands, to which the caller takes them. */
static void update(fx_eval *c, const fx_batch_norm *b, const image *x, const double *const now[2])
{
    double momentum = fx_node_float(c->node, b->momentum), n = (double)x->each;
    for (int i = 0; i < 2; i++) {
        const fx_tensor *running = fx_eval_input(c, b->running + i);
        double *to = fx_eval_scratch(c, x->channels, sizeof *to);
        fx_row_load(FX_KIND_F64, to, running->dtype, running->data, running->strides[0], x->channels);
        for (int64_t ch = 0; b->training && ch < x->channels; ch++)
            to[ch] = (1 - momentum) * to[ch] + momentum * (i ? now[1][ch] * n / (n - 1) : now[0][ch]);
        fx_eval_new(c, b->results + i, running->dtype, 1, &x->channels);
        fx_row_store(running->dtype, c->out[b->results + i].data, 1, FX_KIND_F64, to, x->channels);
    }
}

fx_status eval_batch_norm(fx_eval *c)
{
    fx_batch_norm b = fx_batch_norm_of(c->node);
    const double *weight, *bias, *now[2];
    image x;
    FX_TRY(image_of(c, 0, &x));
    FX_TRY(vector(c, 1, x.channels, 1, &weight));
    FX_TRY(vector(c, 2, x.channels, 0, &bias));
    if (b.training)
        statistics(c, &x, &now[0], &now[1]);
    for (int i = 0; i < 2 && !b.training; i++)
        FX_TRY(vector(c, b.running + i, x.channels, i, &now[i]));
    double eps = fx_node_float(c->node, b.eps);
    double *y = fx_eval_target(c, 0, FX_KIND_F64), *rstd = fx_eval_scratch(c, x.channels, sizeof *rstd);
    for (int64_t ch = 0; ch < x.channels; ch++) {
        double scale = weight[ch] / sqrt(now[1][ch] + eps);
        rstd[ch] = 1 / sqrt(now[1][ch] + eps);
        EACH_OF(&x, ch, at) y[at] = (x.x[at] - now[0][ch]) * scale + bias[ch];
    }
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    for (int i = 1; i < 3 && b.results > 1; i++) {
        fx_eval_out(c, i);
        if (b.training)
            fx_row_store(c->out[i].dtype, c->out[i].data, 1, FX_KIND_F64, i == 1 ? now[0] : rstd, x.channels);
    }
    if (b.results == 4)
        fx_eval_out(c, 3);
    if (b.functional || b.writes)
        update(c, &b, &x, now);
    return FX_OK;
}

fx_status eval_batch_norm_backward(fx_eval *c)
{
    image g, x;
    const double *weight, *mean, *spread;
    bool train = fx_node_bool(c->node, 7);
    FX_TRY(image_of(c, 0, &g));
    FX_TRY(image_of(c, 1, &x));
    FX_TRY(vector(c, 2, x.channels, 1, &weight));
    FX_TRY(vector(c, train ? 5 : 3, x.channels, 0, &mean));
    FX_TRY(vector(c, train ? 6 : 4, x.channels, 1, &spread));
    double *to[3] = {NULL, NULL, NULL}, eps = fx_node_float(c->node, 8), n = (double)x.each;
    for (int i = 0; i < 3; i++)
        to[i] = fx_node_asks(c->node, 9, i) ? fx_eval_target(c, i, FX_KIND_F64) : NULL;
    for (int64_t ch = 0; ch < x.channels; ch++) {
        double sum = 0, dot = 0, rstd = train ? spread[ch] : 1 / sqrt(spread[ch] + eps);
        EACH_OF(&x, ch, at) {
            sum += g.x[at];
            dot += g.x[at] * (x.x[at] - mean[ch]);
        }
        if (to[0])
            EACH_OF(&x, ch, at)
                to[0][at] = (train ? g.x[at] - sum / n - (x.x[at] - mean[ch]) * (dot * rstd * rstd / n) : g.x[at]) * rstd * weight[ch];
        if (to[1])
            to[1][ch] = dot * rstd;
        if (to[2])
            to[2][ch] = sum;
    }
    for (int i = 0; i < 3; i++)
        if (to[i])
            fx_eval_finish(c, i, FX_KIND_F64, to[i]);
    return FX_OK;
}
