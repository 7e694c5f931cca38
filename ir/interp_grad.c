/* ir/interp_grad.c: reference evaluation of losses and elementwise gradients, in eager's own steps.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "ir/ops.h"

enum { NONE, MEAN, SUM };

/* ---- elementwise gradients ---------------------------------------------------------------------------------------- */

typedef struct grad_args {
    int64_t n;
    const void *in[4];           /* grad_output and the other tensors, broadcast; NULL: none */
    double norm, a, b;           /* what a reduction multiplies by; numbers among the arguments */
    bool tanh;                   /* gelu's approximation */
} grad_args;

#define EACH(expr)                         \
    for (int64_t i = 0; i < v->n; i++) {   \
        g = in[0][i];                      \
        x = in[1][i];                      \
        t = in[2] ? in[2][i] : 0;          \
        r[i] = (expr);                     \
    }                                      \
    return

/* g: grad_output; x: the function's input or output; t: a target. */
#define GRADS(NAME, T)                                                                                             \
    static T NAME##_gelu(T x, bool approximate)                                                                    \
    {                                                                                                              \
        T beta = (T)0.79788456080286535588, k = (T)0.044715, k3 = (T)(3 * 0.044715), square = x * x;               \
        if (!approximate) {                                                                                        \
            T cdf = ((T)erf((double)(x * (T)0.70710678118654752440)) + 1) * (T)0.5;                                \
            return cdf + x * ((T)exp((double)(x * (T)-0.5 * x)) * (T)0.39894228040143267794);                      \
        }                                                                                                          \
        T h = (T)tanh((double)((x + square * x * k) * beta));                                                      \
        return (h + 1) * (T)0.5 + x * (T)0.5 * (1 - h * h) * ((square * k3 + 1) * beta);                           \
    }                                                                                                              \
    static void NAME(fx_opid id, const grad_args *v, T *r)                                                         \
    {                                                                                                              \
        const T *in[4] = {v->in[0], v->in[1], v->in[2], v->in[3]};                                                 \
        T g, x, t, z, a = (T)v->a, b = (T)v->b, norm = (T)v->norm;                                                 \
        switch (id) {                                                                                              \
        case FX_OP_tanh_backward: EACH(g * (1 - x * x));                                                           \
        case FX_OP_sigmoid_backward: EACH(g * (1 - x) * x);                                                        \
        case FX_OP_gelu_backward: EACH(g * NAME##_gelu(x, v->tanh));                                               \
        case FX_OP_softplus_backward: EACH((z = x * a) > b ? g : (z = (T)exp((double)z), g * z / (z + 1)));        \
        case FX_OP_log_sigmoid_backward: EACH(g * ((T)(x < 0) - (x < 0 ? 1 : -1) * (t / (1 + t))));                \
        case FX_OP_native_dropout_backward: EACH(g * x * a);                                                       \
        case FX_OP_mse_loss_backward: EACH(norm * (x - t) * g);                                                    \
        case FX_OP_smooth_l1_loss_backward:                                                                        \
            EACH((z = x - t) <= -a ? -norm * g : z >= a ? norm * g : norm * z * g / a);                            \
        case FX_OP_huber_loss_backward:                                                                            \
            EACH((z = x - t) <= -a ? -norm * g * a : z >= a ? norm * g * a : norm * z * g);                        \
        case FX_OP_binary_cross_entropy_backward:                                                                  \
            EACH((z = (1 - x) * x, z = g * (x - t) / (z < (T)1e-12 ? (T)1e-12 : z),                                \
                  (in[3] ? z * in[3][i] : z) / norm));                                                             \
        default: return;                                                                                           \
        }                                                                                                          \
    }
GRADS(grads_f32, float)
GRADS(grads_f64, double)

/* A number argument by name; `otherwise` where there is none. */
static double number_or(const fx_eval *c, const char *name, double otherwise)
{
    int p = fx_node_param(c->node, name);
    return p >= 0 ? fx_node_float(c->node, p) : otherwise;
}

static int reduction_of(const fx_eval *c)
{
    int p = fx_node_param(c->node, "reduction");
    return p >= 0 ? (int)fx_node_int(c->node, p) : NONE;
}

fx_status eval_grad(fx_eval *c)
{
    const fx_tensor *out = fx_eval_out(c, 0);
    const fx_schema *s = fx_op_schema(c->ctx, c->node->op);
    fx_opid id = c->node->op->id;
    fx_kind kind = fx_kind_of(out->dtype);
    grad_args v = {.n = fx_tensor_numel(out), .norm = 1};
    for (int i = 0, k = 0; i < s->n && k < 4; i++) {
        const fx_tensor *t = s->params[i].kind == FX_PARAM_TENSOR ? fx_eval_input(c, i) : NULL;
        if (t)
            FX_TRY(fx_eval_array(c, t, kind, out->rank, out->sizes, &v.in[k]));
        k += s->params[i].kind == FX_PARAM_TENSOR;
    }
    v.a = number_or(c, "beta", number_or(c, "delta", number_or(c, "scale", 1)));
    v.b = number_or(c, "threshold", 0);
    v.tanh = id == FX_OP_gelu_backward && fx_node_arg(c->node, 2)->kind == FX_ARG_STR && !strcmp(fx_node_arg(c->node, 2)->s, "tanh");
    v.norm = reduction_of(c) == MEAN ? (double)v.n : 1;
    if (id != FX_OP_binary_cross_entropy_backward) /* there eager divides */
        v.norm = (id == FX_OP_mse_loss_backward ? 2 : 1) / v.norm;
    void *r = fx_eval_target(c, 0, kind);
    if (kind == FX_KIND_F64)
        grads_f64(id, &v, r);
    else
        grads_f32(id, &v, r);
    fx_eval_finish(c, 0, kind, r);
    return FX_OK;
}

fx_status eval_log_sigmoid_forward(fx_eval *c)
{
    const void *p;
    FX_TRY(fx_eval_array(c, fx_eval_input(c, 0), FX_KIND_F64, 0, NULL, &p));
    double *y = fx_eval_target(c, 0, FX_KIND_F64), *e = fx_eval_target(c, 1, FX_KIND_F64);
    for (int64_t i = 0, n = fx_tensor_numel(fx_eval_input(c, 0)); i < n; i++) {
        double x = ((const double *)p)[i];
        e[i] = exp(-fabs(x));
        y[i] = (x < 0 ? x : 0) - log1p(e[i]);
    }
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    fx_eval_finish(c, 1, FX_KIND_F64, e);
    return FX_OK;
}

/* self = [a, b] along dim: [g * sigmoid(b), (1 - sigmoid(b)) * (g * sigmoid(b)) * a]. */
fx_status eval_glu_backward(fx_eval *c)
{
    const fx_tensor *g = fx_eval_input(c, 0), *x = fx_eval_input(c, 1);
    fx_tensor *out = fx_eval_out(c, 0), half[2] = {*x, *x};
    int64_t dim = fx_node_int(c->node, 2), n = fx_tensor_numel(g);
    int axis = (int)(dim < 0 ? dim + x->rank : dim);
    fx_kind kind = fx_kind_of(x->dtype);
    const void *p[3];
    double *r[2];
    FX_TRY(fx_eval_array(c, g, FX_KIND_F64, 0, NULL, &p[2]));
    for (int k = 0; k < 2; k++) {
        half[k].sizes[axis] /= 2;
        half[k].data = (char *)half[k].data + k * half[k].sizes[axis] * half[k].strides[axis] * (int64_t)fx_dtype_size(x->dtype);
        FX_TRY(fx_eval_array(c, &half[k], FX_KIND_F64, 0, NULL, &p[k]));
        r[k] = fx_eval_scratch(c, n, sizeof(double));
    }
    for (int64_t i = 0; i < n; i++) {
        double s = 1 / (1 + exp(-((const double *)p[1])[i]));
        s = kind == FX_KIND_F32 ? (float)s : s;
        r[0][i] = ((const double *)p[2])[i] * s;
        r[0][i] = kind == FX_KIND_F32 ? (float)r[0][i] : r[0][i];
        r[1][i] = (1 - s) * r[0][i];
        r[1][i] = kind == FX_KIND_F32 ? (float)r[1][i] : r[1][i];
        r[1][i] *= ((const double *)p[0])[i];
    }
    for (int k = 0; k < 2; k++) {
        fx_tensor from = half[k], to = *out;
        from.dtype = FX_F64;
        from.data = r[k];
        to.sizes[axis] /= 2;
        to.data = (char *)to.data + k * to.sizes[axis] * to.strides[axis] * (int64_t)fx_dtype_size(to.dtype);
        for (int64_t d = from.rank - 1, stride = 1; d >= 0; d--) {
            from.strides[d] = stride;
            stride *= from.sizes[d];
        }
        fx_tensor_assign(&to, &from);
    }
    return FX_OK;
}

/* ---- losses ---------------------------------------------------------------------------------------------------------- */

typedef struct loss_args {
    int64_t n;
    const void *in[4];           /* input, target, weight, pos_weight */
    double a;
    fx_dtype dtype;              /* eager rounds mse_loss's difference to it, and nothing else before the end */
} loss_args;

static double to_dtype(fx_dtype d, double v)
{
    return d == FX_F16 ? (double)fx_half_to_float(fx_float_to_half((float)v)) : d == FX_BF16 ? (double)fx_bf16_to_float(fx_float_to_bf16((float)v)) : v;
}

#define LOSSES(NAME, T)                                                                                            \
    static void NAME(fx_opid id, const loss_args *v, T *r)                                                         \
    {                                                                                                              \
        const T *in[4] = {v->in[0], v->in[1], v->in[2], v->in[3]};                                                 \
        T a = (T)v->a;                                                                                             \
        for (int64_t i = 0; i < v->n; i++) {                                                                       \
            T x = in[0][i], t = in[1][i], z = x - t, y = 0;                                                        \
            switch (id) {                                                                                          \
            case FX_OP_mse_loss: z = (T)to_dtype(v->dtype, z); y = z * z; break;                                   \
            case FX_OP_l1_loss: y = z < 0 ? -z : z; break;                                                         \
            case FX_OP_smooth_l1_loss:                                                                             \
                z = z < 0 ? -z : z;                                                                                \
                y = z < a ? (T)0.5 * z * z / a : z - (T)0.5 * a;                                                   \
                break;                                                                                             \
            case FX_OP_huber_loss:                                                                                 \
                z = z < 0 ? -z : z;                                                                                \
                y = z <= a ? (T)0.5 * z * z : a * (z - (T)0.5 * a);                                                \
                break;                                                                                             \
            case FX_OP_binary_cross_entropy: {                                                                     \
                T none = (T)log1p((double)-x), all = (T)log((double)x);                                            \
                y = (t - 1) * (none < -100 ? -100 : none) - t * (all < -100 ? -100 : all);                         \
                break;                                                                                             \
            }                                                                                                      \
            default: { /* binary_cross_entropy_with_logits */                                                      \
                T s = (T)((x < 0 ? (double)x : 0) - log1p(exp(-fabs((double)x))));                                 \
                y = (1 - t) * x - (in[3] ? ((in[3][i] - 1) * t + 1) * s : s);                                      \
                break;                                                                                             \
            }                                                                                                      \
            }                                                                                                      \
            r[i] = in[2] ? y * in[2][i] : y;                                                                       \
        }                                                                                                          \
    }
LOSSES(losses_f32, float)
LOSSES(losses_f64, double)

fx_status eval_loss(fx_eval *c)
{
    static const char *const names[] = {"self", "target", "weight", "pos_weight"};
    const fx_tensor *t[4];
    loss_args v = {.n = 1, .a = number_or(c, "beta", number_or(c, "delta", 1))};
    int64_t sizes[FX_MAX_RANK];
    int rank = 0, r = reduction_of(c);
    fx_dtype dtype = fx_eval_type(c, 0)->dtype;
    fx_kind kind = fx_kind_of(dtype);
    v.dtype = dtype;
    for (int k = 0; k < 4; k++) {
        int p = fx_node_param(c->node, names[k]);
        t[k] = p >= 0 ? fx_eval_input(c, p) : NULL;
        rank = t[k] && t[k]->rank > rank ? t[k]->rank : rank;
    }
    for (int d = 0; d < rank; d++) {
        sizes[d] = 1;
        for (int k = 0; k < 4; k++) {
            int at = t[k] ? d - (rank - t[k]->rank) : -1;
            sizes[d] = at >= 0 && t[k]->sizes[at] != 1 ? t[k]->sizes[at] : sizes[d];
        }
        v.n *= sizes[d];
    }
    for (int k = 0; k < 4; k++)
        if (t[k])
            FX_TRY(fx_eval_array(c, t[k], kind, rank, sizes, &v.in[k]));
    void *y = r == NONE ? fx_eval_target(c, 0, kind) : fx_eval_scratch(c, v.n, fx_kind_size(kind));
    if (kind == FX_KIND_F64)
        losses_f64(c->node->op->id, &v, y);
    else
        losses_f32(c->node->op->id, &v, y);
    if (r == NONE) {
        fx_eval_finish(c, 0, kind, y);
        return FX_OK;
    }
    /* Eager rounds each element to the dtype before it adds them up. */
    fx_tensor each = {.dtype = dtype, .rank = 1, .sizes = {v.n}, .strides = {1}, .data = fx_eval_scratch(c, v.n, fx_dtype_size(dtype))};
    const void *p;
    fx_row_store(dtype, each.data, 1, kind, y, v.n);
    FX_TRY(fx_eval_array(c, &each, FX_KIND_F64, 0, NULL, &p));
    double *sum = fx_eval_target(c, 0, FX_KIND_F64), all = 0;
    for (int64_t i = 0; i < v.n; i++)
        all += ((const double *)p)[i];
    *sum = r == MEAN ? all / (double)v.n : all;
    fx_eval_finish(c, 0, FX_KIND_F64, sum);
    return FX_OK;
}

/* ---- negative log likelihood --------------------------------------------------------------------------------------------- */

/* self as [N, C, inner]: element (n, class, i). */
typedef struct nll {
    int64_t n, classes, inner, ignore;
    const double *x, *weight;
    const int64_t *target;
    int reduction;
} nll;

static fx_status read_nll(fx_eval *c, int first, nll *v)
{
    const fx_tensor *x = fx_eval_input(c, first), *w = fx_eval_input(c, first + 2);
    const void *p;
    v->n = x->rank > 1 ? x->sizes[0] : 1;
    v->classes = x->sizes[x->rank > 1];
    v->inner = x->rank == 4 ? x->sizes[2] * x->sizes[3] : 1;
    v->reduction = (int)fx_node_int(c->node, first + 3);
    FX_TRY(fx_eval_int(c, first + 4, &v->ignore));
    FX_TRY(fx_eval_array(c, x, FX_KIND_F64, 0, NULL, &p));
    v->x = p;
    FX_TRY(fx_eval_array(c, fx_eval_input(c, first + 1), FX_KIND_INT, 0, NULL, &p));
    v->target = p;
    p = NULL;
    if (w)
        FX_TRY(fx_eval_array(c, w, FX_KIND_F64, 0, NULL, &p));
    v->weight = p;
    return FX_OK;
}

static fx_status is_class(fx_eval *c, const nll *v, int64_t t)
{
    return t >= 0 && t < v->classes ? FX_OK : fx_eval_fail(c, FX_ERR_ARGUMENT, "expected a target below %lld, got %lld", (long long)v->classes, (long long)t);
}

fx_status eval_nll(fx_eval *c)
{
    nll v;
    FX_TRY(read_nll(c, 0, &v));
    bool batch = fx_eval_input(c, 0)->rank > 1;
    double *y = fx_eval_target(c, 0, FX_KIND_F64), *total = fx_eval_target(c, 1, FX_KIND_F64), sum = 0, weights = 0;
    for (int64_t k = 0; k < v.n * v.inner; k++) {
        int64_t t = v.target[k], at = k / (v.inner ? v.inner : 1) * v.classes * v.inner + k % (v.inner ? v.inner : 1);
        double w = 0, loss = 0;
        if (t != v.ignore) {
            FX_TRY(is_class(c, &v, t));
            w = v.weight ? v.weight[t] : 1;
            loss = -v.x[at + t * v.inner] * w;
        }
        if (v.reduction == NONE)
            y[k] = loss;
        sum += loss;
        weights += w;
    }
    if (v.reduction != NONE)
        *y = v.reduction == MEAN ? sum / weights : sum;
    *total = v.reduction == NONE && batch ? 0 : weights; /* as eager */
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    fx_eval_finish(c, 1, FX_KIND_F64, total);
    return FX_OK;
}

fx_status eval_nll_backward(fx_eval *c)
{
    nll v;
    const void *g, *total;
    FX_TRY(read_nll(c, 1, &v));
    FX_TRY(fx_eval_array(c, fx_eval_input(c, 0), FX_KIND_F64, 0, NULL, &g));
    FX_TRY(fx_eval_array(c, fx_eval_input(c, 6), FX_KIND_F64, 0, NULL, &total));
    double *r = fx_eval_target(c, 0, FX_KIND_F64);
    for (int64_t k = 0; k < v.n * v.inner; k++)
        if (v.target[k] != v.ignore)
            FX_TRY(is_class(c, &v, v.target[k]));
    for (int64_t n = 0, i = 0; n < v.n; n++)
        for (int64_t k = 0; k < v.classes; k++)
            for (int64_t j = 0; j < v.inner; j++, i++) {
                int64_t at = n * v.inner + j, t = v.target[at];
                double by = ((const double *)g)[v.reduction == NONE ? at : 0];
                by = v.reduction == MEAN ? by / *(const double *)total : by;
                r[i] = t == k && t != v.ignore ? -by * (v.weight ? v.weight[k] : 1) : 0;
            }
    fx_eval_finish(c, 0, FX_KIND_F64, r);
    return FX_OK;
}
