/* tests/fuzz/rows_loss.c: arguments for calls of losses, gradients and random numbers.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/fuzz/fuzz.h"

enum { FLOATS = 1 << FX_F32 | 1 << FX_F64 | 1 << FX_F16 | 1 << FX_BF16 };

static const struct {
    fx_opid id;
    const char *why;
} excluded[] = {
#define RANDOM(id) {FX_OP_##id, "random: lowering makes philox of it, which is drawn (tests/ops/test_random.py)"}
    RANDOM(native_dropout), RANDOM(bernoulli), RANDOM(bernoulli_p), RANDOM(uniform), RANDOM(normal_functional), RANDOM(exponential), RANDOM(rand),
    RANDOM(randn), RANDOM(rand_like), RANDOM(randn_like), RANDOM(randint), RANDOM(randint_low), RANDOM(randint_like), RANDOM(randint_like_low_dtype),
#undef RANDOM
};

const char *fz_loss_excluded(fx_opid id)
{
    for (size_t i = 0; i < sizeof excluded / sizeof excluded[0]; i++)
        if (excluded[i].id == id)
            return excluded[i].why;
    return NULL;
}

static fx_node *like(fz_gen *g, const fx_node *x)
{
    fz_shape s = fz_shape_of(x);
    return fz_value(g, x->type->dtype, &s);
}

/* Losses and elementwise gradients: operands of one shape; what a reduced loss gives has no dims. */
static fx_node *elementwise(fz_gen *g, const fx_op *op)
{
    const fx_schema *s = fx_op_schema(g->ctx, op);
    fx_node *x = fz_any(g, FLOATS, 0, 4);
    int64_t reduction = -1;
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->params[i].name, "reduction"))
            reduction = fz_below(g->rng, 3);
    for (int i = 0; i < s->n; i++) {
        const fx_param *p = &s->params[i];
        fz_shape shape = fz_shape_of(x);
        if (p->kind == FX_PARAM_TENSOR && p->optional && fz_one_in(g->rng, 2))
            fx_call_node(&c, NULL);
        else if (!strcmp(p->name, "grad_output") && reduction > 0)
            fx_call_node(&c, fz_value(g, x->type->dtype, &(fz_shape){0}));
        else if (!strcmp(p->name, "mask"))
            fx_call_node(&c, fz_value(g, fz_one_in(g->rng, 4) ? x->type->dtype : FX_BOOL, &shape));
        else if (p->kind == FX_PARAM_TENSOR)
            fx_call_node(&c, !strcmp(p->name, "self") ? x : like(g, x));
        else if (p->kind == FX_PARAM_INT)
            fx_call_int(&c, reduction);
        else if (p->kind == FX_PARAM_STR)
            fx_call_arg(&c, fx_arg_text(g->ctx, FX_ARG_STR, fx_intern(g->ctx, fz_one_in(g->rng, 2) ? "tanh" : "none")));
        else
            fx_call_float(&c, (double)fz_in(g->rng, 1, 12) / 4);
    }
    return fx_call_end(&c, NULL);
}

static fx_node *glu(fz_gen *g, const fx_op *op)
{
    fx_node *grad = fz_any(g, FLOATS, 1, 4);
    fz_shape s = fz_shape_of(grad);
    int dim = (int)fz_below(g->rng, s.rank);
    s.dims[dim] *= 2;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, grad);
    fx_call_node(&c, fz_value(g, grad->type->dtype, &s));
    fx_call_int(&c, fz_one_in(g->rng, 2) ? dim : dim - s.rank);
    return fx_call_end(&c, NULL);
}

static fx_node *likelihood(fz_gen *g, const fx_op *op)
{
    bool images = strstr(op->name, "2d") != NULL, backward = strstr(op->name, "backward") != NULL;
    int64_t n = fz_in(g->rng, 0, 6), classes = fz_in(g->rng, 1, 5), reduction = fz_below(g->rng, 3);
    fz_shape x = {images ? 4 : fz_one_in(g->rng, 4) ? 1 : 2, {n, classes, fz_in(g->rng, 1, 3), fz_in(g->rng, 1, 3)}}, place = {x.rank - 1, {n, x.dims[2], x.dims[3]}};
    fx_dtype d = fz_draw_dtype(g);
    if (x.rank == 1)
        x.dims[0] = classes;
    d = fx_dtype_is_float(d) ? d : FX_F32;
    fx_node *target = fz_indices(g, &place, 0, classes);
    if (!target || target->type->dtype != FX_I64)
        return NULL;
    fx_call c = fx_call_begin(g->g, op->id);
    if (backward)
        fx_call_node(&c, fz_value(g, d, reduction == 0 ? &place : &(fz_shape){0}));
    fx_call_node(&c, fz_value(g, d, &x));
    fx_call_node(&c, target);
    fx_call_node(&c, fz_one_in(g->rng, 2) ? NULL : fz_value(g, d, &(fz_shape){1, {classes}}));
    fx_call_int(&c, reduction);
    fx_call_int(&c, fz_one_in(g->rng, 2) ? -100 : fz_below(g->rng, classes));
    if (backward)
        fx_call_node(&c, fz_value(g, d, &(fz_shape){0}));
    return fx_call_end(&c, NULL);
}

static fx_node *softmax(fz_gen *g, const fx_op *op)
{
    fx_node *y = fz_any(g, FLOATS, 1, 4);
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, like(g, y));
    fx_call_node(&c, y);
    fx_call_int(&c, fz_in(g->rng, -y->type->rank, y->type->rank - 1));
    fx_call_arg(&c, fx_arg_dtype(g->ctx, y->type->dtype));
    return fx_call_end(&c, NULL);
}

static void mask(fz_gen *g, fx_call *c)
{
    const fx_arg *items[3];
    for (int i = 0; i < 3; i++)
        items[i] = fx_arg_bool(g->ctx, !fz_one_in(g->rng, 4));
    fx_call_arg(c, fx_arg_seq(g->ctx, FX_ARG_LIST, 3, items));
}

static fx_node *layer_norm(fz_gen *g, const fx_op *op)
{
    fx_node *x = fz_any(g, FLOATS, 1, 4);
    fz_shape s = fz_shape_of(x), stat = s, last = {0};
    int n = (int)fz_in(g->rng, 1, s.rank);
    for (int i = s.rank - n; i < s.rank; i++) {
        last.dims[last.rank++] = s.dims[i];
        stat.dims[i] = 1;
    }
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, like(g, x));
    fx_call_node(&c, x);
    fx_call_ints(&c, last.rank, last.dims);
    for (int i = 0; i < 4; i++)
        fx_call_node(&c, i > 1 && fz_one_in(g->rng, 3) ? NULL : fz_value(g, x->type->dtype, i < 2 ? &stat : &last));
    mask(g, &c);
    return fx_call_end(&c, NULL);
}

static fx_node *group_norm(fz_gen *g, const fx_op *op)
{
    int64_t groups = fz_in(g->rng, 1, 3), n = fz_in(g->rng, 1, 2), channels = groups * fz_in(g->rng, 1, 3), rest = fz_in(g->rng, 1, 5);
    fz_shape s = {fz_one_in(g->rng, 4) ? 2 : 3, {n, channels, rest}}, stat = {2, {n, groups}};
    fx_dtype d = fz_draw_dtype(g);
    d = fx_dtype_is_float(d) ? d : FX_F32;
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0; i < 4; i++)
        fx_call_node(&c, fz_value(g, d, i < 2 ? &s : &stat));
    fx_call_node(&c, fz_one_in(g->rng, 3) ? NULL : fz_value(g, d, &(fz_shape){1, {channels}}));
    fx_call_int(&c, n);
    fx_call_int(&c, channels);
    fx_call_int(&c, s.rank == 2 ? 1 : rest);
    fx_call_int(&c, groups);
    mask(g, &c);
    return fx_call_end(&c, NULL);
}

static fx_node *attention(fz_gen *g, const fx_op *op)
{
    int64_t b = fz_in(g->rng, 1, 2), h = fz_in(g->rng, 1, 2), l = fz_in(g->rng, 1, 5), s = fz_in(g->rng, 1, 5), e = fz_in(g->rng, 1, 6), v = fz_in(g->rng, 1, 6);
    fz_shape out = {4, {b, h, l, v}}, q = {4, {b, h, l, e}}, k = {4, {b, h, s, e}}, value = {4, {b, h, s, v}}, sums = {3, {b, h, l}}, scores = {2, {l, s}};
    const fz_shape *shapes[] = {&out, &q, &k, &value, &out};
    fx_dtype d = fz_one_in(g->rng, 3) ? fz_draw_dtype(g) : FX_F32;
    d = fx_dtype_is_float(d) ? d : FX_F32;
    fx_call c = fx_call_begin(g->g, op->id);
    for (int i = 0; i < 5; i++)
        fx_call_node(&c, fz_value(g, d, shapes[i]));
    fx_call_node(&c, fz_value(g, d == FX_F64 ? FX_F64 : FX_F32, &sums));
    fx_call_float(&c, 0);
    bool causal = fz_one_in(g->rng, 3);
    fx_call_bool(&c, causal);
    fx_call_node(&c, causal || fz_one_in(g->rng, 2) ? NULL : fz_value(g, fz_one_in(g->rng, 2) ? FX_BOOL : d, &scores));
    if (fz_one_in(g->rng, 3))
        fx_call_float(&c, 0.3);
    return fx_call_end(&c, NULL);
}

static fx_node *embedding(fz_gen *g, const fx_op *op)
{
    fz_shape place = fz_draw_shape(g, (int)fz_in(g->rng, 0, 2)), rows = place;
    int64_t n = fz_in(g->rng, 1, 6);
    fx_dtype d = fz_draw_dtype(g);
    rows.dims[rows.rank++] = fz_in(g->rng, 1, 5);
    fx_node *index = fz_indices(g, &place, 0, n);
    if (!index || (index->type->dtype != FX_I64 && index->type->dtype != FX_I32))
        return NULL;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, fz_value(g, fx_dtype_is_float(d) ? d : FX_F32, &rows));
    fx_call_node(&c, index);
    fx_call_int(&c, n);
    fx_call_int(&c, fz_one_in(g->rng, 2) ? -1 : fz_below(g->rng, n));
    fx_call_bool(&c, fz_one_in(g->rng, 4));
    return fx_call_end(&c, NULL);
}

/* select_backward, slice_backward: a value as a part of a larger one. */
static fx_node *part(fz_gen *g, const fx_op *op)
{
    bool select = op->id == FX_OP_select_backward;
    fx_node *x = fz_any(g, 0, select ? 0 : 1, 4);
    fz_shape s = fz_shape_of(x), whole = s;
    int dim = (int)fz_below(g->rng, select ? s.rank + 1 : s.rank);
    int64_t before = fz_in(g->rng, 0, 3), after = fz_in(g->rng, 0, 3), step = select || fz_one_in(g->rng, 2) ? 1 : fz_in(g->rng, 1, 3);
    if (select) {
        memmove(whole.dims + dim + 1, whole.dims + dim, (size_t)(s.rank - dim) * sizeof *s.dims);
        whole.rank++;
        whole.dims[dim] = 1;
    }
    int64_t n = whole.dims[dim], span = n ? (n - 1) * step + 1 : 0;
    whole.dims[dim] = before + span + after;
    fx_call c = fx_call_begin(g->g, op->id);
    fx_call_node(&c, x);
    fx_call_ints(&c, whole.rank, whole.dims);
    fx_call_int(&c, fz_one_in(g->rng, 2) ? dim : dim - whole.rank);
    fx_call_int(&c, before);
    if (!select) {
        fx_call_int(&c, before + span);
        fx_call_int(&c, step);
    }
    return fx_call_end(&c, NULL);
}

static fx_node *philox(fz_gen *g, const fx_op *op)
{
    fz_shape s = fz_draw_shape(g, -1), two = {1, {2}};
    fx_call c = fx_call_begin(g->g, op->id);
    if (!(g->dtypes >> FX_I64 & 1))
        return NULL;
    fx_call_node(&c, fz_value(g, FX_I64, &two));
    fx_call_ints(&c, s.rank, s.dims);
    fx_call_int(&c, fz_in(g->rng, 0, 3));
    if (fz_one_in(g->rng, 2))
        fx_call_arg(&c, fx_arg_dtype(g->ctx, fz_one_in(g->rng, 2) ? FX_F32 : FX_I64));
    return fx_call_end(&c, NULL);
}

static const struct {
    fx_opid id;
    fz_maker *draw;
} makers[] = {
    {FX_OP_tanh_backward, elementwise}, {FX_OP_sigmoid_backward, elementwise}, {FX_OP_gelu_backward, elementwise}, {FX_OP_softplus_backward, elementwise},
    {FX_OP_log_sigmoid_backward, elementwise}, {FX_OP_log_sigmoid_forward, elementwise}, {FX_OP_native_dropout_backward, elementwise},
    {FX_OP_mse_loss, elementwise}, {FX_OP_mse_loss_backward, elementwise}, {FX_OP_l1_loss, elementwise}, {FX_OP_smooth_l1_loss, elementwise},
    {FX_OP_smooth_l1_loss_backward, elementwise}, {FX_OP_huber_loss, elementwise}, {FX_OP_huber_loss_backward, elementwise},
    {FX_OP_binary_cross_entropy, elementwise}, {FX_OP_binary_cross_entropy_backward, elementwise}, {FX_OP_binary_cross_entropy_with_logits, elementwise},
    {FX_OP_glu_backward, glu}, {FX_OP_nll_loss_forward, likelihood}, {FX_OP_nll_loss2d_forward, likelihood}, {FX_OP_nll_loss_backward, likelihood},
    {FX_OP_nll_loss2d_backward, likelihood}, {FX_OP__softmax_backward_data, softmax}, {FX_OP__log_softmax_backward_data, softmax},
    {FX_OP_native_layer_norm_backward, layer_norm}, {FX_OP_native_group_norm_backward, group_norm},
    {FX_OP__scaled_dot_product_flash_attention_for_cpu_backward, attention}, {FX_OP_embedding_dense_backward, embedding}, {FX_OP_select_backward, part},
    {FX_OP_slice_backward, part}, {FX_OP_philox, philox},
};

fz_maker *fz_loss_maker(fx_opid id)
{
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        if (makers[i].id == id)
            return makers[i].draw;
    return NULL;
}
