/* lower/decompose_image_grad.c: gradients of pointwise rows and of convolutions.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "lower/rewrite.h"

/* ---- elementwise ------------------------------------------------------------------------------------------------------ */

static fx_node *number(fx_rw *w, fx_opid op, fx_node *x, double v, const char *suffix)
{
    return fx_rw_number(w, op, x, v, suffix);
}

/* where(x <op> v, a, b); a NULL: 0. */
static fx_node *choose(fx_rw *w, fx_opid op, fx_node *x, double v, fx_node *a, fx_node *b, const char *suffix)
{
    fx_node *test = number(w, op, x, v, "test");
    if (!a)
        a = fx_rw_scalar(w, 0, x->type->dtype, "zero");
    return fx_rw_where(w, test, a, b, suffix);
}

/* g where lo < x < hi, else 0. */
static fx_node *inside(fx_rw *w, fx_node *g, fx_node *x, double lo, double hi)
{
    fx_node *above = number(w, FX_OP_gt_Scalar, x, lo, "above"), *below = number(w, FX_OP_lt_Scalar, x, hi, "below");
    fx_node *both = fx_rw_binary(w, FX_OP_logical_and, above, below, "inside");
    return fx_rw_where(w, both, g, fx_rw_scalar(w, 0, x->type->dtype, "zero"), "where");
}

static fx_node *times(fx_rw *w, fx_node *a, fx_node *b, const char *suffix)
{
    return fx_rw_binary(w, FX_OP_mul_Tensor, a, b, suffix);
}

/* 1 - x */
static fx_node *rest(fx_rw *w, fx_node *x)
{
    return number(w, FX_OP_add_Tensor, fx_rw_unary(w, FX_OP_neg, x, "neg"), 1, "rest");
}

static fx_node *elu_grad(fx_rw *w, fx_node *g, fx_node *x)
{
    double alpha = fx_node_float(w->at, 1), scale = fx_node_float(w->at, 2), input = fx_node_float(w->at, 3);
    fx_node *up = number(w, FX_OP_mul_Tensor, g, scale, "up"), *down = number(w, FX_OP_mul_Tensor, g, input, "down");
    if (fx_node_bool(w->at, 4)) {
        down = times(w, down, number(w, FX_OP_add_Tensor, x, alpha * scale, "moved"), "by_result");
    } else {
        down = number(w, FX_OP_mul_Tensor, down, alpha * scale, "scaled");
        down = times(w, down, fx_rw_unary(w, FX_OP_exp, number(w, FX_OP_mul_Tensor, x, input, "inner"), "exp"), "by_operand");
    }
    return choose(w, FX_OP_gt_Scalar, x, 0, up, down, "where");
}

/* Rounded after each operation, as eager does; half-wide floats at the end only. */
void fx_d_image_grad_pointwise(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    fx_node *g = fx_rw_wide(w, fx_node_input(w->at, 0)), *x = fx_rw_wide(w, fx_node_input(w->at, id == FX_OP_elu_backward ? 5 : 1)), *y = NULL, *s, *t;
    if (w->status != FX_OK)
        return;
    switch (id) {
    case FX_OP_threshold_backward:
        y = choose(w, FX_OP_le_Scalar, x, fx_node_float(w->at, 2), NULL, g, "where");
        break;
    case FX_OP_hardtanh_backward:
        y = inside(w, g, x, fx_node_float(w->at, 2), fx_node_float(w->at, 3));
        break;
    case FX_OP_hardsigmoid_backward:
        y = inside(w, number(w, FX_OP_mul_Tensor, g, (double)(1.0F / 6.0F), "sixth"), x, -3, 3);
        break;
    case FX_OP_hardswish_backward:
        s = times(w, g, number(w, FX_OP_add_Tensor, number(w, FX_OP_div_Tensor, x, 3, "third"), 0.5, "slope"), "sloped");
        y = choose(w, FX_OP_le_Scalar, x, -3, NULL, choose(w, FX_OP_lt_Scalar, x, 3, s, g, "upper"), "where");
        break;
    case FX_OP_leaky_relu_backward:
        y = choose(w, FX_OP_gt_Scalar, x, 0, g, number(w, FX_OP_mul_Tensor, g, fx_node_float(w->at, 2), "down"), "where");
        break;
    case FX_OP_elu_backward:
        y = elu_grad(w, g, x);
        break;
    case FX_OP_silu_backward: /* g * s * (1 + x * (1 - s)) */
        s = fx_rw_unary(w, FX_OP_sigmoid, x, "sigmoid");
        t = number(w, FX_OP_add_Tensor, times(w, x, rest(w, s), "product"), 1, "slope");
        y = times(w, times(w, g, s, "part"), t, "grad");
        break;
    default: /* mish: g * (t + x * sigmoid(x) * (1 - t * t)), t = tanh(softplus(x)) */
        t = fx_rw_unary(w, FX_OP_tanh, fx_rw_unary(w, FX_OP_log1p, fx_rw_unary(w, FX_OP_exp, x, "exp"), "softplus"), "tanh");
        s = times(w, x, fx_rw_unary(w, FX_OP_sigmoid, x, "sigmoid"), "part");
        s = times(w, s, rest(w, times(w, t, t, "square")), "inner");
        y = times(w, g, fx_rw_binary(w, FX_OP_add_Tensor, t, s, "slope"), "grad");
        break;
    }
    if (w->status == FX_OK)
        fx_rw_finish(w, y);
}

/* ---- convolutions ------------------------------------------------------------------------------------------------------ */

/* convolution_backward's settings, over two dims: a missing one is put in front, of size 1. */
typedef struct conv_grad {
    fx_node *g, *x, *weight; /* of rank 4 */
    bool one;                /* over one dim, as given */
    int64_t stride[2], padding[2], dilation[2], groups;
    bool transposed;
} conv_grad;

static fx_node *two_dims(fx_rw *w, fx_node *x, const char *suffix)
{
    fx_dim s[FX_MAX_RANK];
    if (fx_sizes(x, s) == 4)
        return x;
    return fx_rw_view_to(w, x, 4, (fx_dim[]){s[0], s[1], fx_dim_of(1), s[2]}, suffix);
}

static bool read(fx_rw *w, conv_grad *c)
{
    fx_node *weight = fx_node_input(w->at, 2);
    int nd = weight->type->rank - 2;
    int64_t *const v[3] = {c->stride, c->padding, c->dilation};
    if ((nd != 1 && nd != 2) || !fx_is_tensor(weight)) {
        fx_rw_refuse(w, "gradients of convolutions over 1 or 2 dims can be compiled, this is over %d", nd);
        return false;
    }
    c->one = nd == 1;
    for (int i = 0; i < 3; i++) {
        if (!fx_int_list(w->at, 4 + i, nd, NULL, v[i])) {
            fx_rw_refuse(w, "expected %d numbers in stride, padding and dilation", nd);
            return false;
        }
        if (c->one) {
            v[i][1] = v[i][0];
            v[i][0] = i == 1 ? 0 : 1;
        }
    }
    c->transposed = fx_node_bool(w->at, 7);
    c->groups = fx_node_int(w->at, 9);
    c->g = two_dims(w, fx_node_input(w->at, 0), "grad");
    c->x = two_dims(w, fx_node_input(w->at, 1), "in");
    c->weight = two_dims(w, weight, "weight");
    return w->status == FX_OK;
}

/* Seen under the sizes of what it is the gradient of. */
static fx_node *as_given(fx_rw *w, const conv_grad *c, fx_node *y, const fx_node *like, const char *suffix)
{
    fx_dim s[FX_MAX_RANK];
    int rank = fx_sizes(like, s);
    return c->one && w->status == FX_OK ? fx_rw_view_to(w, y, rank, s, suffix) : y;
}

/* The weight that leads back: of each group inputs and outputs changed, taps in reverse. */
static fx_node *turned_weight(fx_rw *w, const conv_grad *c)
{
    static const int64_t two[4] = {1, 0, 2, 3}, three[5] = {0, 2, 1, 3, 4}, taps[2] = {2, 3};
    int64_t s[4];
    fx_node *y = c->weight;
    fx_dims(y, s);
    int64_t outputs = s[0] / c->groups;
    if (c->groups == 1) {
        y = fx_rw_permute(w, y, 4, two, "turned");
    } else if (s[1] != 1 || outputs != 1) {
        y = fx_rw_view(w, y, 5, (int64_t[]){c->groups, outputs, s[1], s[2], s[3]}, "grouped");
        y = fx_rw_view(w, fx_rw_permute(w, y, 5, three, "turned"), 4, (int64_t[]){c->groups * s[1], outputs, s[2], s[3]}, "flat");
    }
    if (s[2] * s[3] == 1)
        return y;
    fx_call k = fx_rw_call(w, FX_OP_flip);
    fx_call_node(&k, y);
    fx_call_ints(&k, 2, taps);
    return fx_rw_node(w, &k, "flipped");
}

/* x with steps - 1 zeros behind each row and column, as far as `sizes`. */
static fx_node *apart(fx_rw *w, fx_node *x, const int64_t steps[2], const fx_dim sizes[2])
{
    fx_dim s[FX_MAX_RANK], wide[6];
    fx_sizes(x, s);
    for (int i = 0; i < 6; i++)
        wide[i] = i == 3 || i == 5 ? fx_dim_of(1) : s[i < 3 ? i : 3];
    fx_call k = fx_rw_call(w, FX_OP_constant_pad_nd);
    fx_call_node(&k, fx_rw_view_to(w, x, 6, wide, "each"));
    fx_call_ints(&k, 6, (int64_t[]){0, steps[1] - 1, 0, 0, 0, steps[0] - 1});
    fx_call_float(&k, 0);
    fx_node *y = fx_rw_node(w, &k, "apart");
    for (int i = 2; i < 4; i++)
        s[i] = fx_dim_scale(w->ctx, s[i], steps[i - 2]);
    y = fx_rw_view_to(w, y, 4, s, "zeros_between");
    for (int i = 2; i < 4 && w->status == FX_OK; i++)
        if (!fx_dim_equal(s[i], sizes[i - 2]))
            y = fx_rw_slice_to(w, y, i, fx_dim_of(0), sizes[i - 2], 1, "cut");
    return y;
}

/* Whether the kernel for plain convolutions is the better one for the way back, where it can be: all that steps by 1, and depthwise ones. */
static bool back_by_plain(const conv_grad *c, const int64_t extra[2])
{
    int64_t s[4];
    fx_dims(c->weight, s);
    for (int i = 0; i < 2; i++)
        if (c->transposed || c->dilation[i] * (s[2 + i] - 1) < c->padding[i] || extra[i] < 0)
            return false;
    return (c->stride[0] == 1 && c->stride[1] == 1) || (c->groups > 1 && s[0] == c->groups && s[1] == 1);
}

/* The gradient, zeros between its elements where the convolution steps over pixels, under a convolution that steps over none. */
static fx_node *plain_back(fx_rw *w, const conv_grad *c)
{
    static const int64_t ones[2] = {1, 1}, none[2] = {0, 0};
    int64_t padding[2];
    fx_dim sizes[2];
    fx_node *g = c->g;
    for (int i = 0; i < 2; i++) {
        int64_t reach = c->dilation[i] * (fx_dim_size(c->weight, 2 + i) - 1);
        padding[i] = reach - c->padding[i];
        sizes[i] = fx_dim_plus(w->ctx, c->x->type->dims[2 + i], 2 * c->padding[i] - reach);
    }
    if (c->stride[0] != 1 || c->stride[1] != 1)
        g = apart(w, g, c->stride, sizes);
    fx_node *weight = turned_weight(w, c);
    fx_call k = fx_rw_call(w, FX_OP_convolution);
    fx_call_node(&k, g);
    fx_call_node(&k, weight);
    fx_call_node(&k, NULL);
    fx_call_ints(&k, 2, ones);
    fx_call_ints(&k, 2, padding);
    fx_call_ints(&k, 2, c->dilation);
    fx_call_bool(&k, false);
    fx_call_ints(&k, 2, none);
    fx_call_int(&k, c->groups);
    return fx_rw_node(w, &k, "grad_input");
}

/* The convolution of the other kind, by the same weight. Its size follows from the gradient's but for what a stride skips, which
 * output_padding says; the gradient of a transposed one may be longer, and then the rest is cut off. */
static fx_node *grad_input(fx_rw *w, const conv_grad *c)
{
    int64_t extra[2] = {0, 0};
    fx_dim in[2], size[2];
    for (int i = 0; i < 2; i++) {
        int64_t reach = c->dilation[i] * (fx_dim_size(c->weight, 2 + i) - 1) + 1;
        fx_dim g = c->g->type->dims[2 + i];
        in[i] = c->x->type->dims[2 + i];
        if (c->transposed) {
            size[i] = fx_dim_plus(w->ctx, g, 2 * c->padding[i] - reach);
            size[i] = fx_dim_plus(w->ctx, fx_dim_floordiv(w->ctx, size[i], fx_dim_of(c->stride[i])), 1);
            continue;
        }
        size[i] = in[i];
        fx_dim least = fx_dim_plus(w->ctx, fx_dim_scale(w->ctx, fx_dim_plus(w->ctx, g, -1), c->stride[i]), reach - 2 * c->padding[i]);
        fx_dim more = fx_dim_sub(w->ctx, in[i], least);
        if (!fx_dim_known(more)) {
            fx_rw_refuse(w, "the size of the input depends on sizes that are open: a stride of %lld leaves out a part that differs", (long long)c->stride[i]);
            return w->at;
        }
        extra[i] = more.value;
    }
    if (back_by_plain(c, extra))
        return plain_back(w, c);
    fx_call k = fx_rw_call(w, FX_OP_convolution);
    fx_call_node(&k, c->g);
    fx_call_node(&k, c->weight);
    fx_call_node(&k, NULL);
    fx_call_ints(&k, 2, c->stride);
    fx_call_ints(&k, 2, c->padding);
    fx_call_ints(&k, 2, c->dilation);
    fx_call_bool(&k, !c->transposed);
    fx_call_ints(&k, 2, extra);
    fx_call_int(&k, c->groups);
    fx_node *y = fx_rw_node(w, &k, "grad_input");
    for (int i = 0; i < 2 && w->status == FX_OK; i++)
        if (!fx_dim_equal(size[i], in[i]))
            y = fx_rw_slice_to(w, y, 2 + i, fx_dim_of(0), in[i], 1, "cut");
    return y;
}

/* Of a transposed one, input and gradient change their roles. */
static fx_node *grad_weight(fx_rw *w, const conv_grad *c)
{
    int64_t size[4];
    fx_dims(c->weight, size);
    fx_call k = fx_rw_call(w, FX_OP_conv_weight_grad);
    fx_call_node(&k, c->transposed ? c->x : c->g);
    fx_call_node(&k, c->transposed ? c->g : c->x);
    fx_call_ints(&k, 4, size);
    fx_call_ints(&k, 2, c->stride);
    fx_call_ints(&k, 2, c->padding);
    fx_call_ints(&k, 2, c->dilation);
    fx_call_int(&k, c->groups);
    return fx_rw_node(w, &k, "grad_weight");
}

void fx_d_convolution_backward(fx_rw *w)
{
    static const int64_t dims[3] = {0, 2, 3};
    conv_grad c = {.one = false};
    fx_node *y[3] = {NULL, NULL, NULL};
    if (!read(w, &c))
        return;
    if (fx_uses_result(w, 0))
        y[0] = as_given(w, &c, grad_input(w, &c), fx_node_input(w->at, 1), "grad_input_1d");
    if (w->status == FX_OK && fx_uses_result(w, 1))
        y[1] = as_given(w, &c, grad_weight(w, &c), fx_node_input(w->at, 2), "grad_weight_1d");
    if (w->status == FX_OK && fx_uses_result(w, 2)) {
        fx_node *g = fx_rw_wide(w, c.g);
        y[2] = fx_rw_reduce(w, FX_OP_sum_dim_IntList, g, 3, dims, false, "grad_bias");
        if (w->status == FX_OK && y[2]->type->dtype != c.g->type->dtype)
            y[2] = fx_rw_cast(w, y[2], c.g->type->dtype, "cast");
    }
    if (w->status == FX_OK)
        fx_rw_results(w, 3, y);
}
