/* tests/fuzz/rows_grad.c: arguments for batch norm in training and for the gradients that networks over images need: operands of the sizes that
 * the forward row gives.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/fuzz/fuzz.h"

enum { FLOATS = 1 << FX_F32 | 1 << FX_F64 | 1 << FX_F16 | 1 << FX_BF16 };

static void draw_ints(fz_gen *g, int n, int64_t lo, int64_t hi, int64_t *out)
{
    for (int i = 0; i < n; i++)
        out[i] = fz_in(g->rng, lo, hi);
}

static void draw_mask(fz_gen *g, fx_call *c)
{
    const fx_arg *items[3];
    int some = (int)fz_below(g->rng, 3);
    for (int i = 0; i < 3; i++)
        items[i] = fx_arg_bool(g->ctx, i == some || fz_below(g->rng, 3));
    fx_call_arg(c, fx_arg_seq(g->ctx, FX_ARG_LIST, 3, items));
}

/* A pointwise row's gradient: another tensor, which may be broadcast, and numbers. */
static fx_node *pointwise(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    fx_node *x = fz_any(g, FLOATS, 0, 5);
    fz_shape shape = fz_shape_of(x);
    fx_node *grad = fz_one_in(g->rng, 4) ? fz_broadcast(g, x, x->type->dtype) : fz_value(g, x->type->dtype, &shape);
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0, numbers = 0; i < s->n; i++)
        if (s->params[i].kind == FX_PARAM_TENSOR)
            fx_call_node(&c, i ? x : grad);
        else if (s->params[i].kind == FX_PARAM_BOOL)
            fx_call_bool(&c, fz_one_in(g->rng, 2));
        else
            fx_call_float(&c, (double)fz_in(g->rng, 1, 6) / 4 * (op->id == FX_OP_hardtanh_backward && !numbers++ ? -1 : 1));
    return fx_call_end(&c, NULL);
}

static fx_node *convolution(fz_gen *g, const fx_op *op)
{
    int nd = fz_one_in(g->rng, 3) ? 1 : 2;
    fx_node *x = fz_any(g, FLOATS, nd + 2, nd + 2);
    fz_shape in = fz_shape_of(x), w = {nd + 2, {0}}, out = {nd + 2, {in.dims[0]}};
    int64_t channels = in.dims[1], groups = 1, v[4][2] = {{1, 1}, {0, 0}, {1, 1}, {0, 0}};
    bool transposed = fz_one_in(g->rng, 3);
    if (channels == 0)
        return NULL;
    if (fz_one_in(g->rng, 3))
        for (groups = fz_in(g->rng, 1, channels); channels % groups; groups--)
            continue;
    int64_t more = fz_in(g->rng, 1, 4);
    w.dims[0] = transposed ? channels : more * groups;
    w.dims[1] = transposed ? more : channels / groups;
    out.dims[1] = more * groups;
    draw_ints(g, nd, 1, fz_in(g->rng, 1, 3), v[0]);
    draw_ints(g, nd, 0, fz_in(g->rng, 0, 2), v[1]);
    draw_ints(g, nd, 1, fz_one_in(g->rng, 4) ? 2 : 1, v[2]);
    for (int i = 0; i < nd; i++) {
        int64_t k = w.dims[2 + i] = fz_in(g->rng, 1, 3), reach = v[2][i] * (k - 1) + 1, size = in.dims[2 + i];
        if (size == 0)
            return NULL;
        if (transposed) {
            v[3][i] = fz_in(g->rng, 0, (v[0][i] > v[2][i] ? v[0][i] : v[2][i]) - 1);
            out.dims[2 + i] = (size - 1) * v[0][i] - 2 * v[1][i] + reach + v[3][i];
        } else {
            out.dims[2 + i] = size + 2 * v[1][i] < reach ? 0 : (size + 2 * v[1][i] - reach) / v[0][i] + 1;
        }
        if (out.dims[2 + i] < 1)
            return NULL;
    }
    /* Without NaN and infinities: what they make of the zeros of padding is free. */
    fx_node *weight = fz_one_in(g->rng, 3) ? fz_constant(g, x->type->dtype, &w, FZ_REAL) : fz_input(g, x->type->dtype, &w, FZ_REAL);
    fx_node *grad = fz_value(g, x->type->dtype, &out);
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, grad);
    fx_call_node(&c, x);
    fx_call_node(&c, weight);
    fx_call_ints(&c, 1, &out.dims[1]);
    for (int i = 0; i < 4; i++) {
        if (i == 3)
            fx_call_bool(&c, transposed);
        fx_call_ints(&c, nd, v[i]);
    }
    fx_call_int(&c, groups);
    draw_mask(g, &c);
    return fx_call_end(&c, NULL);
}

static fx_node *pool(fz_gen *g, const fx_op *op)
{
    bool max = op->id == FX_OP_max_pool2d_with_indices_backward, ceil = fz_one_in(g->rng, 3);
    fx_node *x = fz_any(g, FLOATS, 3, 4);
    fz_shape in = fz_shape_of(x), out = in;
    int64_t v[4][2];
    draw_ints(g, 2, 1, 3, v[0]);
    draw_ints(g, 2, 1, 3, v[1]);
    draw_ints(g, 2, 0, v[0][0] < 2 || v[0][1] < 2 ? 0 : 1, v[2]);
    draw_ints(g, 2, 1, max && fz_one_in(g->rng, 4) ? 2 : 1, v[3]);
    for (int i = 0; i < 2; i++) {
        int64_t size = in.dims[in.rank - 2 + i], rest = size + 2 * v[2][i] - v[3][i] * (v[0][i] - 1) - 1;
        if (rest < 0)
            return NULL;
        int64_t n = (rest + (ceil ? v[1][i] - 1 : 0)) / v[1][i] + 1;
        out.dims[in.rank - 2 + i] = n - (ceil && (n - 1) * v[1][i] >= size + v[2][i]);
    }
    fx_node *grad = fz_value(g, x->type->dtype, &out);
    fx_node *indices = max ? fz_indices(g, &out, 0, in.dims[in.rank - 2] * in.dims[in.rank - 1]) : NULL;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, grad);
    fx_call_node(&c, x);
    for (int i = 0; i < (max ? 4 : 3); i++)
        fx_call_ints(&c, 2, v[i]);
    fx_call_bool(&c, ceil);
    if (max) {
        fx_call_node(&c, indices);
    } else {
        fx_call_bool(&c, fz_one_in(g->rng, 2));
        fx_call_arg(&c, fz_one_in(g->rng, 3) ? fx_arg_int(g->ctx, fz_in(g->rng, 1, 5)) : fx_arg_none(g->ctx));
    }
    return fx_call_end(&c, NULL);
}

static fx_node *adaptive(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, FLOATS, 3, 4);
    fz_shape in = fz_shape_of(x), out = in;
    int rank = in.rank;
    draw_ints(g, 2, 1, 6, out.dims + rank - 2);
    if (in.dims[rank - 2] * in.dims[rank - 1] == 0)
        return NULL;
    fx_node *grad = fz_value(g, x->type->dtype, &out);
    fx_node *indices = op->id == FX_OP_adaptive_max_pool2d_backward ? fz_indices(g, &out, 0, in.dims[rank - 2] * in.dims[rank - 1]) : NULL;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, grad);
    fx_call_node(&c, x);
    if (indices)
        fx_call_node(&c, indices);
    return fx_call_end(&c, NULL);
}

static fx_node *upsample(fz_gen *g, const fx_op *op)
{
    fx_node *grad = fz_any(g, FLOATS, 4, 4);
    fz_shape out = fz_shape_of(grad);
    int64_t in[4] = {out.dims[0], out.dims[1], fz_in(g->rng, 1, 7), fz_in(g->rng, 1, 7)};
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, grad);
    fx_call_ints(&c, 2, out.dims + 2);
    fx_call_ints(&c, 4, in);
    if (op->id == FX_OP_upsample_bilinear2d_backward)
        fx_call_bool(&c, fz_one_in(g->rng, 2));
    fx_call_node(&c, NULL);
    fx_call_node(&c, NULL);
    return fx_call_end(&c, NULL);
}

/* Running variances and what training saves of them are positive. */
static fx_node *positive(fz_gen *g, fx_dtype dtype, const fz_shape *s)
{
    fx_node *v = fz_constant(g, dtype, s, FZ_PLAIN);
    fx_tensor *t = &fx_attr_find(g->g, v->target)->tensor;
    for (int64_t k = 0; k < fx_tensor_numel(t); k++)
        fx_tensor_set(t, k, fx_tensor_get(t, k) * fx_tensor_get(t, k) + 0.125);
    return v;
}

/* In training none has running statistics that it would write. */
static fx_node *batch_norm(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    fx_node *x = fz_any(g, FLOATS, 2, 4);
    fz_shape shape = fz_shape_of(x), w = {1, {shape.dims[1]}};
    bool functional = strstr(op->name, "functional"), none = op->id == FX_OP_native_batch_norm, training = functional || none;
    training = (training && fz_one_in(g->rng, 2)) || op->id == FX_OP__native_batch_norm_legit_no_stats;
    if (shape.dims[1] == 0 || fz_numel(&shape) / shape.dims[1] < 2)
        return NULL;
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        bool var = !strcmp(p->name, "running_var");
        if (i == 0)
            fx_call_node(&c, x);
        else if (p->kind == FX_PARAM_TENSOR && p->optional && (fz_one_in(g->rng, 3) || (training && none && i > 2)) && (i < 3 || training))
            fx_call_node(&c, NULL);
        else if (p->kind == FX_PARAM_TENSOR)
            fx_call_node(&c, training && none && i > 2 ? NULL : var ? positive(g, x->type->dtype, &w) : fz_constant(g, x->type->dtype, &w, FZ_REAL));
        else if (p->kind == FX_PARAM_BOOL)
            fx_call_bool(&c, training);
        else
            fx_call_float(&c, !strcmp(p->name, "momentum") ? 0.25 : 1e-3);
    }
    return fx_call_end(&c, NULL);
}

static fx_node *batch_norm_backward(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    fx_node *x = fz_any(g, FLOATS, 2, 4);
    fz_shape shape = fz_shape_of(x), w = {1, {shape.dims[1]}};
    if (fz_numel(&shape) == 0)
        return NULL;
    fx_node *grad = fz_value(g, x->type->dtype, &shape);
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0; i < s->n; i++) {
        const char *name = s->params[i].name;
        bool spread = !strcmp(name, "running_var") || !strcmp(name, "save_var") || !strcmp(name, "save_invstd");
        if (i < 2)
            fx_call_node(&c, i ? x : grad);
        else if (!strcmp(name, "reserve"))
            fx_call_node(&c, fz_constant(g, FX_U8, &(fz_shape){1, {0}}, FZ_PLAIN));
        else if (s->params[i].kind == FX_PARAM_TENSOR)
            fx_call_node(&c, spread ? positive(g, x->type->dtype, &w) : fz_constant(g, x->type->dtype, &w, FZ_REAL));
        else if (s->params[i].kind == FX_PARAM_BOOL)
            fx_call_bool(&c, fz_one_in(g->rng, 2));
        else if (s->params[i].kind == FX_PARAM_FLOAT)
            fx_call_float(&c, 1e-3);
        else
            draw_mask(g, &c);
    }
    return fx_call_end(&c, NULL);
}

fz_maker *fz_grad_maker(fx_opid id)
{
    switch (id) {
    case FX_OP_threshold_backward: case FX_OP_hardtanh_backward: case FX_OP_hardswish_backward: case FX_OP_hardsigmoid_backward:
    case FX_OP_silu_backward: case FX_OP_mish_backward: case FX_OP_leaky_relu_backward: case FX_OP_elu_backward:
        return pointwise;
    case FX_OP_convolution_backward:
        return convolution;
    case FX_OP_max_pool2d_with_indices_backward: case FX_OP_avg_pool2d_backward:
        return pool;
    case FX_OP__adaptive_avg_pool2d_backward: case FX_OP_adaptive_max_pool2d_backward:
        return adaptive;
    case FX_OP_upsample_nearest2d_backward: case FX_OP_upsample_bilinear2d_backward:
        return upsample;
    case FX_OP__native_batch_norm_legit: case FX_OP__native_batch_norm_legit_no_stats: case FX_OP__native_batch_norm_legit_functional:
    case FX_OP_native_batch_norm: case FX_OP__batch_norm_with_update_functional:
        return batch_norm;
    case FX_OP_native_batch_norm_backward: case FX_OP_batch_norm_backward:
        return batch_norm_backward;
    default:
        return NULL;
    }
}
