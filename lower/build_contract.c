/* lower/build_contract.c: contractions that no kernel takes (other dtypes), as plain loops: a sum in a local for each element of the result.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/build.h"
#include "passes/rewrite.h"

/* What is being summed: loops around one element of the result, and around one product. */
typedef struct sum {
    fx_build *b;
    fx_dtype dtype;
    fx_stmt *outer, **at_outer;    /* loops over the result; where the next goes */
    fx_stmt *inner, **at_inner;    /* loops and guards over what is summed */
    int local;
} sum;

static sum sum_begin(fx_build *b, fx_dtype dtype)
{
    return (sum){.b = b, .dtype = dtype == FX_F16 || dtype == FX_BF16 ? FX_F32 : dtype};
}

/* A loop of d iterations at *at; its variable. A size of 1 needs no loop: the variable then is -1. */
static int add_loop(fx_build *b, fx_stmt **first, fx_stmt ***at, fx_dim d, fx_loop_kind kind, const char *hint)
{
    if (fx_dim_is(d, 1))
        return -1;
    fx_stmt *loop = fx_stmt_new(b->p, FX_ST_LOOP);
    loop->var = b->n_vars++;
    loop->extent = d;
    loop->loop = kind;
    loop->hint = hint;
    if (*at)
        **at = loop;
    else
        *first = loop;
    *at = &loop->body;
    return loop->var;
}

static int over(sum *s, fx_dim d, bool parallel, const char *hint)
{
    return add_loop(s->b, &s->outer, &s->at_outer, d, parallel ? FX_LOOP_PARALLEL : FX_LOOP_SERIAL, hint);
}

static int along(sum *s, fx_dim d, const char *hint)
{
    return add_loop(s->b, &s->inner, &s->at_inner, d, FX_LOOP_SERIAL, hint);
}

static void step_by(fx_build *b, fx_affine *f, int var, fx_dim coef)
{
    if (var >= 0 && !fx_dim_is(coef, 0))
        fx_affine_add(b->ctx, f, var, coef);
}

/* The index of v at the variables of its dims; var[i] -1: at 0. */
static fx_affine index_of(fx_build *b, const fx_window *v, const int *var)
{
    fx_affine f = fx_affine_dim(v->offset);
    for (int i = 0; i < v->rank; i++)
        step_by(b, &f, var[i], v->strides[i]);
    return f;
}

static const fx_sexpr *load(const sum *s, const fx_window *v, const int *var)
{
    fx_affine f = index_of(s->b, v, var);
    return fx_s_cast(s->b->p, s->dtype, fx_s_load(s->b->p, v->buf, &f));
}

/* The innermost statement is done where `at` says: everything is linked, and the step has its body. */
static void sum_end(sum *s, fx_step *step, const fx_sexpr *product, const fx_sexpr *bias, const fx_window *out, const fx_affine *index)
{
    fx_program *p = s->b->p;
    fx_stmt *acc = fx_stmt_new(p, FX_ST_LOCAL), *set = fx_stmt_new(p, FX_ST_SET), *store = fx_stmt_new(p, FX_ST_STORE);
    acc->local = set->local = s->b->n_locals++;
    acc->value = fx_s_cast(p, s->dtype, fx_dtype_is_float(s->dtype) ? fx_s_const(p, s->dtype, 0) : fx_s_int(p, s->dtype, 0));
    const fx_sexpr *total = fx_s_local(p, acc->local, s->dtype);
    set->value = fx_s_op(p, FX_S_add, s->dtype, total, product, NULL);
    if (s->at_inner)
        *s->at_inner = set;
    else
        s->inner = set;
    acc->next = s->inner;
    s->inner->next = store;
    store->buf = out->buf;
    store->index = *index;
    store->value = fx_s_cast(p, out->dtype, bias ? fx_s_op(p, FX_S_add, s->dtype, total, bias, NULL) : total);
    if (s->at_outer)
        *s->at_outer = acc;
    else
        s->outer = acc;
    step->body = s->outer;
}

/* y[.., i, j] = sum over k of x[.., i, k] w[.., k, j] + bias, every window given with the dims of y ([.., i, j]) and of k. */
static fx_status products(fx_build *b, fx_node *root, const fx_window *x, fx_dim x_k, const fx_window *w, fx_dim w_k, fx_dim k,
                          const fx_window *bias, const char *title)
{
    fx_window out;
    FX_TRY(fx_build_place(b, root, NULL, &out));
    fx_step *step = fx_build_step(b, root, title);
    sum s = sum_begin(b, out.dtype);
    int var[FX_MAX_RANK];
    for (int i = 0; i < out.rank; i++)
        var[i] = over(&s, out.dims[i], i == 0, fx_build_axis(out.rank, i));
    int at = along(&s, k, "k");
    fx_affine xi = index_of(b, x, var), wi = index_of(b, w, var);
    step_by(b, &xi, at, x_k);
    step_by(b, &wi, at, w_k);
    const fx_sexpr *product = fx_s_op(b->p, FX_S_mul, s.dtype, fx_s_cast(b->p, s.dtype, fx_s_load(b->p, x->buf, &xi)),
                                      fx_s_cast(b->p, s.dtype, fx_s_load(b->p, w->buf, &wi)), NULL);
    fx_affine index = index_of(b, &out, var);
    sum_end(&s, step, product, bias ? load(&s, bias, var) : NULL, &out, &index);
    b->value[root->id] = out;
    return FX_OK;
}

/* v under the dims of the result: missing and broadcast ones have stride 0. */
static fx_window widened(const fx_window *v, const fx_type *t)
{
    fx_window r = *v;
    r.rank = t->rank;
    int shift = t->rank - v->rank;
    for (int i = 0; i < t->rank; i++) {
        r.dims[i] = t->dims[i];
        r.strides[i] = i < shift || fx_dim_is(v->dims[i - shift], 1) ? fx_dim_of(0) : v->strides[i - shift];
    }
    return r;
}

static fx_status build_linear(fx_build *b, fx_node *root, fx_node *n)
{
    fx_window x, w, bias;
    FX_TRY(fx_build_value(b, fx_node_input(n, 0), &x));
    FX_TRY(fx_build_value(b, fx_node_input(n, 1), &w));
    int last = x.rank - 1;
    fx_dim k = x.dims[last], x_k = x.strides[last], w_k = w.strides[1];
    fx_window xs = x, ws = {.buf = w.buf, .offset = w.offset, .rank = x.rank};
    xs.strides[last] = fx_dim_of(0);
    for (int i = 0; i < last; i++)
        ws.strides[i] = fx_dim_of(0);
    ws.strides[last] = w.strides[0];
    bool has_bias = fx_node_input(n, 2) != NULL;
    if (has_bias) {
        FX_TRY(fx_build_value(b, fx_node_input(n, 2), &bias));
        bias = widened(&bias, n->type);
    }
    return products(b, root, &xs, x_k, &ws, w_k, k, has_bias ? &bias : NULL,
                    fx_arena_printf(b->piece, "linear %s->%s in %s", fx_build_dims(b, 1, &k), fx_build_dims(b, 1, &n->type->dims[last]),
                                    fx_dtype_name(n->type->dtype)));
}

static fx_status build_matmul(fx_build *b, fx_node *root, fx_node *n)
{
    int at = n->op->id == FX_OP_addmm ? 1 : 0;
    fx_window x, w, add;
    FX_TRY(fx_build_value(b, fx_node_input(n, at), &x));
    FX_TRY(fx_build_value(b, fx_node_input(n, at + 1), &w));
    if (at) {
        if (fx_node_float(n, 3) != 1 || fx_node_float(n, 4) != 1)
            return fx_fail(b->ctx, FX_INTERNAL, &n->loc, "addmm with alpha or beta other than 1 in core form");
        FX_TRY(fx_build_value(b, fx_node_input(n, 0), &add));
        add = widened(&add, n->type);
    }
    int row = x.rank - 2, col = x.rank - 1;
    fx_dim k = x.dims[col], x_k = x.strides[col], w_k = w.strides[row];
    x.strides[col] = fx_dim_of(0);
    w.strides[row] = fx_dim_of(0);
    return products(b, root, &x, x_k, &w, w_k, k, at ? &add : NULL,
                    fx_arena_printf(b->piece, "matmul %sx%s by %sx%s in %s", fx_build_dims(b, 1, &n->type->dims[row]), fx_build_dims(b, 1, &k),
                                    fx_build_dims(b, 1, &k), fx_build_dims(b, 1, &n->type->dims[col]), fx_dtype_name(n->type->dtype)));
}

/* Guards 0 <= f < d around what is summed. */
static void guard(sum *s, const fx_affine *f, fx_dim d)
{
    fx_stmt *st = fx_stmt_new(s->b->p, FX_ST_IF);
    st->cond[st->n_cond++] = *f;
    fx_affine rest = fx_affine_dim(fx_dim_plus(s->b->ctx, d, -1));
    for (int i = 0; i < f->n; i++)
        fx_affine_add(s->b->ctx, &rest, f->var[i], fx_dim_scale(s->b->ctx, f->coef[i], -1));
    rest.base = fx_dim_sub(s->b->ctx, rest.base, f->base);
    st->cond[st->n_cond++] = rest;
    if (s->at_inner)
        *s->at_inner = st;
    else
        s->inner = st;
    s->at_inner = &st->body;
}

/* A convolution over two dims. Where it is transposed, an output row o gets input row i when i * stride + k * dilation = o + padding: the
 * quotient is no affine index, so all i are tried; small work beside what such graphs do in float32. */
static fx_status build_convolution(fx_build *b, fx_node *root, fx_node *n)
{
    fx_window x, w, bias, out;
    FX_TRY(fx_build_value(b, fx_node_input(n, 0), &x));
    FX_TRY(fx_build_value(b, fx_node_input(n, 1), &w));
    bool has_bias = fx_node_input(n, 2) != NULL, transposed = fx_node_bool(n, 6);
    if (n->type->rank != 4)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "convolution over %d spatial dims cannot be compiled, only over 1 or 2",
                       n->type->rank - 2);
    if (has_bias)
        FX_TRY(fx_build_value(b, fx_node_input(n, 2), &bias));
    FX_TRY(fx_build_place(b, root, &x, &out));
    int64_t stride[2], pad[2], dil[2], groups = fx_node_int(n, 8);
    fx_node_ints(n, 3, stride, 2);
    fx_node_ints(n, 4, pad, 2);
    fx_node_ints(n, 5, dil, 2);
    int64_t ic = x.dims[1].value / groups, oc = out.dims[1].value / groups;
    fx_context *c = b->ctx;
    fx_step *step = fx_build_step(b, root, fx_arena_printf(b->piece, "%s in %s", transposed ? "conv_transpose2d" : "conv2d", fx_dtype_name(out.dtype)));
    sum s = sum_begin(b, out.dtype);
    int vn = over(&s, out.dims[0], true, "n"), vg = over(&s, fx_dim_of(groups), false, "g"), vc = over(&s, fx_dim_of(oc), false, "c");
    int vo[2] = {over(&s, out.dims[2], false, "h"), over(&s, out.dims[3], false, "w")};
    int vi = along(&s, fx_dim_of(ic), "i"), vk[2] = {along(&s, w.dims[2], "kh"), along(&s, w.dims[3], "kw")};
    fx_affine xi = fx_affine_dim(x.offset), wi = fx_affine_dim(w.offset), yi = fx_affine_dim(out.offset), bi = fx_affine_const(0);
    step_by(b, &xi, vn, x.strides[0]);
    step_by(b, &yi, vn, out.strides[0]);
    step_by(b, &xi, vg, fx_dim_scale(c, x.strides[1], ic));
    step_by(b, &xi, vi, x.strides[1]);
    step_by(b, &yi, vg, fx_dim_scale(c, out.strides[1], oc));
    step_by(b, &yi, vc, out.strides[1]);
    /* the weight is [groups * oc][ic] or, transposed, [groups * ic][oc] */
    step_by(b, &wi, vg, fx_dim_scale(c, w.strides[0], transposed ? ic : oc));
    step_by(b, &wi, vc, w.strides[transposed]);
    step_by(b, &wi, vi, w.strides[!transposed]);
    for (int d = 0; d < 2; d++) {
        step_by(b, &yi, vo[d], out.strides[2 + d]);
        step_by(b, &wi, vk[d], w.strides[2 + d]);
        fx_affine at = fx_affine_const(-pad[d]);
        if (!transposed) {
            step_by(b, &at, vo[d], fx_dim_of(stride[d]));
            step_by(b, &at, vk[d], fx_dim_of(dil[d]));
            guard(&s, &at, x.dims[2 + d]);
            xi.base = fx_dim_add(c, xi.base, fx_dim_scale(c, x.strides[2 + d], -pad[d]));
            step_by(b, &xi, vo[d], fx_dim_scale(c, x.strides[2 + d], stride[d]));
            step_by(b, &xi, vk[d], fx_dim_scale(c, x.strides[2 + d], dil[d]));
        } else {
            int in = along(&s, x.dims[2 + d], d ? "iw" : "ih");
            fx_affine diff = fx_affine_const(-pad[d]); /* i * stride - pad + k * dilation - o == 0 */
            step_by(b, &diff, in, fx_dim_of(stride[d]));
            step_by(b, &diff, vk[d], fx_dim_of(dil[d]));
            step_by(b, &diff, vo[d], fx_dim_of(-1));
            guard(&s, &diff, fx_dim_of(1));
            step_by(b, &xi, in, x.strides[2 + d]);
        }
    }
    const fx_sexpr *product = fx_s_op(b->p, FX_S_mul, s.dtype, fx_s_cast(b->p, s.dtype, fx_s_load(b->p, x.buf, &xi)),
                                      fx_s_cast(b->p, s.dtype, fx_s_load(b->p, w.buf, &wi)), NULL);
    const fx_sexpr *add = NULL;
    if (has_bias) {
        bi.base = bias.offset;
        step_by(b, &bi, vg, fx_dim_scale(c, bias.strides[0], oc));
        step_by(b, &bi, vc, bias.strides[0]);
        add = fx_s_cast(b->p, s.dtype, fx_s_load(b->p, bias.buf, &bi));
    }
    sum_end(&s, step, product, add, &out, &yi);
    b->value[root->id] = out;
    return FX_OK;
}

/* The gradient of a weight (grad_output, input, weight_size, stride, padding, dilation, groups): for each of its elements the sum over all
 * places of the gradient that reach into the image. */
static fx_status build_weight_grad(fx_build *b, fx_node *root, fx_node *n)
{
    fx_window g, x, out;
    FX_TRY(fx_build_value(b, fx_node_input(n, 0), &g));
    FX_TRY(fx_build_value(b, fx_node_input(n, 1), &x));
    FX_TRY(fx_build_place(b, root, NULL, &out));
    int64_t stride[2], pad[2], dil[2], groups = fx_node_int(n, 6);
    fx_node_ints(n, 3, stride, 2);
    fx_node_ints(n, 4, pad, 2);
    fx_node_ints(n, 5, dil, 2);
    int64_t oc = out.dims[0].value / groups;
    fx_context *c = b->ctx;
    fx_step *step = fx_build_step(b, root, fx_arena_printf(b->piece, "gradient of a weight in %s", fx_dtype_name(out.dtype)));
    sum s = sum_begin(b, out.dtype);
    int vg = over(&s, fx_dim_of(groups), true, "g"), vo = over(&s, fx_dim_of(oc), groups == 1, "o"), vi = over(&s, out.dims[1], false, "i");
    int vk[2] = {over(&s, out.dims[2], false, "kh"), over(&s, out.dims[3], false, "kw")};
    int vn = along(&s, g.dims[0], "n"), at[2] = {along(&s, g.dims[2], "h"), along(&s, g.dims[3], "w")};
    fx_affine gi = fx_affine_dim(g.offset), xi = fx_affine_dim(x.offset), yi = fx_affine_dim(out.offset);
    step_by(b, &yi, vg, fx_dim_scale(c, out.strides[0], oc));
    step_by(b, &yi, vo, out.strides[0]);
    step_by(b, &yi, vi, out.strides[1]);
    step_by(b, &gi, vg, fx_dim_scale(c, g.strides[1], oc));
    step_by(b, &gi, vo, g.strides[1]);
    step_by(b, &gi, vn, g.strides[0]);
    step_by(b, &xi, vg, fx_dim_mul(c, x.strides[1], out.dims[1]));
    step_by(b, &xi, vi, x.strides[1]);
    step_by(b, &xi, vn, x.strides[0]);
    for (int d = 0; d < 2; d++) {
        fx_affine place = fx_affine_const(-pad[d]);
        step_by(b, &place, at[d], fx_dim_of(stride[d]));
        step_by(b, &place, vk[d], fx_dim_of(dil[d]));
        guard(&s, &place, x.dims[2 + d]);
        step_by(b, &yi, vk[d], out.strides[2 + d]);
        step_by(b, &gi, at[d], g.strides[2 + d]);
        xi.base = fx_dim_add(c, xi.base, fx_dim_scale(c, x.strides[2 + d], -pad[d]));
        step_by(b, &xi, at[d], fx_dim_scale(c, x.strides[2 + d], stride[d]));
        step_by(b, &xi, vk[d], fx_dim_scale(c, x.strides[2 + d], dil[d]));
    }
    const fx_sexpr *gradient = fx_s_cast(b->p, s.dtype, fx_s_load(b->p, g.buf, &gi));
    const fx_sexpr *image = fx_s_cast(b->p, s.dtype, fx_s_load(b->p, x.buf, &xi));
    sum_end(&s, step, fx_s_op(b->p, FX_S_mul, s.dtype, gradient, image, NULL), NULL, &out, &yi);
    b->value[root->id] = out;
    return FX_OK;
}

bool fx_build_has_kernel(const fx_node *n)
{
    fx_dtype d = n->type->dtype;
    bool sized = n->op->id != FX_OP_convolution || fx_is_tensor(fx_node_input(n, 1));
    return (d == FX_F32 || d == FX_F16 || d == FX_BF16) && sized;
}

fx_status fx_build_sums(fx_build *b, fx_node *root)
{
    fx_node *n = b->group[root->id].anchor;
    switch (n->op->id) {
    case FX_OP_linear:
        return build_linear(b, root, n);
    case FX_OP_convolution:
        return build_convolution(b, root, n);
    case FX_OP_conv_weight_grad:
        return build_weight_grad(b, root, n);
    default:
        return build_matmul(b, root, n);
    }
}
