/* lower/decompose_pointwise.c: pointwise ops, constants, casts and identities in core rows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <string.h>

/* Nothing happens in a functional graph in evaluation mode (training mode is refused before). */
void fx_d_identity(fx_rw *w)
{
    fx_rw_replace(w, fx_node_input(w->at, 0));
}

/* What torch.export notes of a tensor beside `.to()`; types say it already, and nothing uses the node. */
void fx_d_assertion(fx_rw *w)
{
    w->status = fx_node_erase(w->at);
}

void fx_d_relu6(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP_hardtanh);
    fx_call_copy(&c, w->at, 0);
    fx_call_int(&c, 0);
    fx_call_int(&c, 6);
    fx_rw_become(w, &c);
}

void fx_d_square(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    if (x->type->dtype != w->at->type->dtype) /* the square of a bool is of i64 */
        x = fx_rw_cast(w, x, w->at->type->dtype, "cast");
    fx_call c = fx_rw_call(w, FX_OP_mul_Tensor);
    fx_call_node(&c, x);
    fx_call_node(&c, x);
    fx_rw_become(w, &c);
}

static fx_node *with_number(fx_rw *w, fx_opid op, fx_node *x, double v, const char *suffix)
{
    fx_call c = fx_rw_call(w, op);
    fx_call_node(&c, x);
    fx_call_float(&c, v);
    return fx_rw_node(w, &c, suffix);
}

void fx_d_quantize(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    if (x->type->dtype != FX_F32)
        x = fx_rw_cast(w, x, FX_F32, "float");
    x = with_number(w, FX_OP_mul_Tensor, x, 1 / fx_node_float(w->at, 1), "scaled");
    x = fx_rw_unary(w, FX_OP_round, x, "round");
    x = with_number(w, FX_OP_add_Tensor, x, (double)fx_node_int(w->at, 2), "shifted");
    fx_call c = fx_rw_call(w, FX_OP_clamp);
    fx_call_node(&c, x);
    fx_call_copy(&c, w->at, 3);
    fx_call_copy(&c, w->at, 4);
    fx_rw_cast(w, fx_rw_node(w, &c, "clamp"), w->at->type->dtype, NULL);
}

void fx_d_dequantize(fx_rw *w)
{
    fx_node *x = fx_rw_cast(w, fx_node_input(w->at, 0), FX_F32, "float");
    x = with_number(w, FX_OP_sub_Tensor, x, (double)fx_node_int(w->at, 2), "shifted");
    x = with_number(w, FX_OP_mul_Tensor, x, fx_node_float(w->at, 1), "scaled");
    if (w->at->type->dtype == FX_F32)
        fx_rw_replace(w, x);
    else
        fx_rw_cast(w, x, w->at->type->dtype, NULL);
}

void fx_d_clamp_min(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP_clamp);
    fx_call_copy(&c, w->at, 0);
    fx_call_copy(&c, w->at, 1);
    fx_call_node(&c, NULL);
    fx_rw_become(w, &c);
}

void fx_d_clamp_max(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP_clamp);
    fx_call_copy(&c, w->at, 0);
    fx_call_node(&c, NULL);
    fx_call_copy(&c, w->at, 1);
    fx_rw_become(w, &c);
}

/* The core rows take a number in place of the second tensor. */
void fx_d_scalar(fx_rw *w)
{
    static const struct { fx_opid from, to; int params; } map[] = {
        { FX_OP_add_Scalar, FX_OP_add_Tensor, 3 },   { FX_OP_sub_Scalar, FX_OP_sub_Tensor, 3 },
        { FX_OP_mul_Scalar, FX_OP_mul_Tensor, 2 },   { FX_OP_div_Scalar, FX_OP_div_Tensor, 2 },
        { FX_OP_fmod_Scalar, FX_OP_fmod_Tensor, 2 }, { FX_OP_remainder_Scalar, FX_OP_remainder_Tensor, 2 },
        { FX_OP_copysign_Scalar, FX_OP_copysign_Tensor, 2 },
        { FX_OP_bitwise_and_Scalar, FX_OP_bitwise_and_Tensor, 2 },
        { FX_OP_bitwise_or_Scalar, FX_OP_bitwise_or_Tensor, 2 },
        { FX_OP_bitwise_xor_Scalar, FX_OP_bitwise_xor_Tensor, 2 },
        { FX_OP_bitwise_left_shift_Tensor_Scalar, FX_OP_bitwise_left_shift_Tensor, 2 },
        { FX_OP_bitwise_right_shift_Tensor_Scalar, FX_OP_bitwise_right_shift_Tensor, 2 },
    };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
        if (map[i].from != w->at->op->id)
            continue;
        fx_call c = fx_rw_call(w, map[i].to);
        for (int p = 0; p < map[i].params; p++)
            fx_call_copy(&c, w->at, p);
        fx_rw_become(w, &c);
        return;
    }
}

/* A number as a half-wide dtype has it. */
static double rounded(fx_dtype dtype, double v)
{
    return dtype == FX_F16 ? fx_half_to_float(fx_float_to_half((float)v)) : fx_bf16_to_float(fx_float_to_bf16((float)v));
}

/* other - alpha * self, other a number, by the positions of the three. A number cannot stand first in core form, so -alpha * self is
 * made first; negation is exact. */
static void other_minus_self(fx_rw *w, int self, int other, int alpha_param)
{
    fx_node *x = fx_node_input(w->at, self), *negated;
    double alpha = fx_node_float(w->at, alpha_param);
    fx_dtype dtype = w->at->type->dtype;
    if (alpha != 1 && (dtype == FX_F16 || dtype == FX_BF16)) { /* eager rounds the numbers, and the result once */
        bool zero = fx_node_arg(w->at, alpha_param)->kind == FX_ARG_INT && alpha == 0; /* -0 of integers has no sign */
        fx_node *y = fx_rw_number(w, FX_OP_mul_Tensor, fx_rw_wide(w, x), zero ? 0 : -rounded(dtype, alpha), "scaled");
        fx_rw_finish(w, fx_rw_number(w, FX_OP_add_Tensor, y, rounded(dtype, fx_node_float(w->at, other)), "sum"));
        return;
    }
    if (alpha == 1) {
        negated = fx_rw_unary(w, FX_OP_neg, x, "neg");
    } else {
        fx_call m = fx_rw_call(w, FX_OP_mul_Tensor);
        fx_call_node(&m, x);
        if (fx_node_arg(w->at, alpha_param)->kind == FX_ARG_INT)
            fx_call_int(&m, -fx_node_int(w->at, alpha_param));
        else
            fx_call_float(&m, -alpha);
        negated = fx_rw_node(w, &m, "scaled");
    }
    fx_call c = fx_rw_call(w, FX_OP_add_Tensor);
    fx_call_node(&c, negated);
    fx_call_copy(&c, w->at, other);
    fx_rw_become(w, &c);
}

void fx_d_rsub_scalar(fx_rw *w)
{
    other_minus_self(w, 0, 1, 2);
}

/* A constant of rank 0 and the node's dtype. */
static fx_node *scalar_of(fx_rw *w, int param, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_full);
    fx_call_ints(&c, 0, NULL);
    fx_call_copy(&c, w->at, param);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, w->at->type->dtype));
    return fx_rw_node(w, &c, suffix);
}

/* sub.Tensor(1, x), as run_decompositions writes it. Nothing of core form has a number first: it moves, or becomes a constant. */
static void number_first(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    bool sum = id == FX_OP_add_Tensor || id == FX_OP_sub_Tensor;
    double alpha = sum ? fx_node_float(w->at, 2) : 1;
    if (id == FX_OP_sub_Tensor && fx_node_input(w->at, 1)) {
        other_minus_self(w, 1, 0, 2);
        return;
    }
    bool swap = (id == FX_OP_add_Tensor && alpha == 1) || id == FX_OP_mul_Tensor;
    fx_node *number = swap ? NULL : scalar_of(w, 0, "number");
    fx_call c = fx_rw_call(w, id);
    if (swap) {
        fx_call_copy(&c, w->at, 1);
        fx_call_copy(&c, w->at, 0);
    } else {
        fx_call_node(&c, number);
        fx_call_copy(&c, w->at, 1);
    }
    if (sum || id == FX_OP_div_Tensor_mode)
        fx_call_copy(&c, w->at, 2);
    fx_rw_become(w, &c);
}

/* Operands of another dtype than the result are converted first, as eager does: a constant among them then folds away. */
void fx_d_promote(fx_rw *w)
{
    double number;
    if (w->at->op->cls == FX_CLASS_POINTWISE && fx_is_number(w->at, 0, &number)) {
        number_first(w);
        return;
    }
    fx_opid id = w->at->op->id;
    fx_dtype dtype = w->at->type->dtype;
    fx_node *y = id == FX_OP_mul_Tensor || id == FX_OP_div_Tensor ? fx_node_input(w->at, 1) : NULL;
    if (y && (dtype == FX_F16 || dtype == FX_BF16) && y->type->dtype != dtype && fx_is_tensor(y) && fx_type_numel(y->type) == 1) {
        fx_node *x = fx_rw_wide(w, fx_node_input(w->at, 0)); /* eager does not round a factor, or divisor, of one element */
        fx_rw_finish(w, fx_rw_binary(w, id, x, fx_rw_cast(w, y, FX_F32, "cast"), "wide"));
        return;
    }
    bool where = id == FX_OP_where_self;
    const fx_node *condition = where ? fx_node_input(w->at, 0) : NULL;
    for (int i = 0; i < w->at->n_operands && w->status == FX_OK; i++) {
        fx_node *x = w->at->operands[i].def;
        if (x == condition || x->type->kind != FX_TYPE_TENSOR || x->type->dtype == w->at->type->dtype)
            continue;
        const fx_type *type = w->at->type;
        fx_node *cast = fx_rw_cast(w, x, type->dtype, "cast");
        fx_node_set_operand(w->at, i, cast);
        w->at->type = type;
    }
}

void fx_d_rsub_tensor(fx_rw *w)
{
    double number;
    if (fx_is_number(w->at, 1, &number)) {
        fx_d_rsub_scalar(w); /* parameters stand in the same order */
        return;
    }
    fx_call c = fx_rw_call(w, FX_OP_sub_Tensor);
    fx_call_copy(&c, w->at, 1);
    fx_call_copy(&c, w->at, 0);
    fx_call_copy(&c, w->at, 2);
    fx_rw_become(w, &c);
}

/* Without a rounding mode it is plain division. */
void fx_d_div_mode(fx_rw *w)
{
    bool plain = fx_node_is_none(w->at, 2);
    if (!plain && w->at->op->id == FX_OP_div_Tensor_mode) {
        fx_d_promote(w);
        return;
    }
    fx_call c = fx_rw_call(w, plain ? FX_OP_div_Tensor : FX_OP_div_Tensor_mode);
    fx_call_copy(&c, w->at, 0);
    fx_call_copy(&c, w->at, 1);
    if (!plain)
        fx_call_copy(&c, w->at, 2);
    fx_rw_become(w, &c);
}

void fx_d_pow_scalar(fx_rw *w)
{
    fx_rw_binary(w, FX_OP_pow_Tensor_Tensor, scalar_of(w, 0, "base"), fx_node_input(w->at, 1), NULL);
}

/* where with numbers for one or both values. */
void fx_d_where_scalar(fx_rw *w)
{
    fx_node *value[2];
    for (int i = 0; i < 2; i++) {
        value[i] = fx_node_input(w->at, i + 1);
        if (!value[i])
            value[i] = scalar_of(w, i + 1, i ? "other" : "value");
        else if (value[i]->type->dtype != w->at->type->dtype)
            value[i] = fx_rw_cast(w, value[i], w->at->type->dtype, "cast");
    }
    fx_call c = fx_rw_call(w, FX_OP_where_self);
    fx_call_copy(&c, w->at, 0);
    fx_call_node(&c, value[0]);
    fx_call_node(&c, value[1]);
    fx_rw_become(w, &c);
}

void fx_d_arange(fx_rw *w)
{
    bool start = w->at->op->id == FX_OP_arange_start;
    fx_call c = fx_rw_call(w, FX_OP_arange_start_step);
    if (start)
        fx_call_copy(&c, w->at, 0);
    else
        fx_call_int(&c, 0);
    fx_call_copy(&c, w->at, start ? 1 : 0);
    fx_call_int(&c, 1);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, w->at->type->dtype));
    fx_rw_become(w, &c);
}

void fx_d_masked_fill(fx_rw *w)
{
    fx_node *value = fx_node_input(w->at, 2);
    if (!value)
        value = scalar_of(w, 2, "value");
    else if (value->type->dtype != w->at->type->dtype)
        value = fx_rw_cast(w, value, w->at->type->dtype, "cast");
    fx_call c = fx_rw_call(w, FX_OP_where_self);
    fx_call_copy(&c, w->at, 1);
    fx_call_node(&c, value);
    fx_call_copy(&c, w->at, 0);
    fx_rw_become(w, &c);
}

/* One slope, or one a channel: channels are dim 1. */
void fx_d_prelu(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0), *slope = fx_node_input(w->at, 1);
    fx_dim sizes[FX_MAX_RANK], slopes[FX_MAX_RANK];
    int rank = x->type->rank, slope_rank = fx_sizes(slope, slopes);
    fx_dim count = slope_rank == 0 ? fx_dim_of(1) : slopes[slope_rank - 1];
    for (int i = 0; i < rank; i++)
        sizes[i] = i == 1 ? count : fx_dim_of(1);
    if (rank < 2 && !fx_dim_is(count, 1)) {
        fx_rw_refuse(w, "expected one slope for an input of rank %d", rank);
        return;
    }
    slope = fx_rw_view_to(w, slope, rank, sizes, "slope");
    fx_rw_binary(w, FX_OP__prelu_kernel, x, slope, NULL);
}

/* to in all forms, type_as and _to_copy: device and memory format do not matter here; the same dtype is no work at all. */
void fx_d_cast(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    if (x->type && fx_same_type(x, w->at))
        fx_rw_replace(w, x);
    else if (!fx_is_call(w->at, FX_OP__to_copy))
        fx_rw_cast(w, x, w->at->type->dtype, NULL);
}

/* copy(self, src): src in the dtype and shape of self. */
void fx_d_copy(fx_rw *w)
{
    fx_node *self = fx_node_input(w->at, 0), *src = fx_node_input(w->at, 1);
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(self, sizes);
    if (src->type->dtype != self->type->dtype)
        src = fx_rw_cast(w, src, self->type->dtype, "cast");
    if (fx_same_type(src, w->at))
        fx_rw_replace(w, src);
    else
        fx_rw_expand_to(w, src, rank, sizes, NULL);
}

void fx_d_full(fx_rw *w)
{
    fx_opid op = w->at->op->id;
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(w->at, sizes);
    fx_call c = fx_rw_call(w, FX_OP_full);
    fx_call_sizes(&c, rank, sizes);
    if (op == FX_OP_full_like || op == FX_OP_fill_Scalar)
        fx_call_copy(&c, w->at, 1);
    else if (op == FX_OP_new_full)
        fx_call_copy(&c, w->at, 2);
    else if (op == FX_OP_scalar_tensor)
        fx_call_copy(&c, w->at, 0);
    else
        fx_call_int(&c, op == FX_OP_ones || op == FX_OP_ones_like || op == FX_OP_new_ones);
    fx_call_arg(&c, fx_arg_dtype(w->ctx, w->at->type->dtype));
    fx_rw_become(w, &c);
}
