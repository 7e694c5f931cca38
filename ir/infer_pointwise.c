/* ir/infer_pointwise.c: result types of elementwise operators, copies and creation.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <math.h>

#include "ir/ops.h"

static fx_status no_complex(const fx_infer *c, fx_dtype dtype)
{
    if (fx_dtype_is_complex(dtype))
        return fx_infer_refuse(c, "dtype %s is not supported", fx_dtype_name(dtype));
    return FX_OK;
}

/* ---- one operand ---------------------------------------------------------------------------------------------------- */

/* Shape and dtype of the first operand. Operators that are defined on floats only refuse others as eager does. */
fx_status infer_same(fx_infer *c)
{
    const fx_type *x;
    fx_dim size;
    if (c->node->op->id == FX_OP_neg && fx_infer_is_size(c, 0)) { /* Python's -n */
        FX_TRY(fx_infer_dim(c, 0, &size));
        c->result = fx_type_int(c->ctx, fx_dim_scale(c->ctx, size, -1));
        return FX_OK;
    }
    FX_TRY(fx_infer_tensor(c, 0, &x));
    switch (c->node->op->id) {
    case FX_OP_relu: case FX_OP_neg: case FX_OP_relu6: case FX_OP_hardtanh:
        if (x->dtype == FX_BOOL)
            return fx_infer_fail(c, "expected a number type, got bool");
        break;
    case FX_OP_silu: case FX_OP_hardswish: case FX_OP_hardsigmoid: case FX_OP_mish: case FX_OP_gelu: case FX_OP_leaky_relu:
    case FX_OP_elu: case FX_OP_softplus: case FX_OP_frac: case FX_OP_log_sigmoid: case FX_OP_selu: case FX_OP_celu: case FX_OP_hardshrink:
    case FX_OP_softshrink:
        if (fx_dtype_is_int(x->dtype))
            return fx_infer_fail(c, "expected a float type, got %s", fx_dtype_name(x->dtype));
        break;
    case FX_OP_bitwise_not:
        if (!fx_dtype_is_int(x->dtype))
            return fx_infer_fail(c, "expected an integer type or bool, got %s", fx_dtype_name(x->dtype));
        break;
    case FX_OP_floor: case FX_OP_ceil: case FX_OP_round: case FX_OP_trunc: case FX_OP_threshold:
        if (x->dtype == FX_BOOL)
            return fx_infer_fail(c, "expected a number type, got bool");
        break;
    default:
        break;
    }
    FX_TRY(no_complex(c, x->dtype));
    fx_dtype dtype = c->node->op->id == FX_OP_square && x->dtype == FX_BOOL ? FX_I64 : x->dtype;
    return fx_infer_set(c, dtype, x->rank, x->dims);
}

/* Dropout, in evaluation mode the identity. */
fx_status infer_dropout(fx_infer *c)
{
    double p = fx_node_float(c->node, 1);
    if (!(p >= 0 && p <= 1))
        return fx_infer_fail(c, "argument 'p': expected a probability, got %g", p);
    return infer_same(c);
}

fx_status infer_glu(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    int axis;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), x->rank, &axis));
    if (!x->rank || !fx_dtype_is_float(x->dtype) || (!x->dims[axis].sym && x->dims[axis].value % 2))
        return fx_infer_fail(c, "expected floats with an even dim %d, got %s", axis, fx_infer_text(c, x));
    for (int i = 0; i < x->rank; i++)
        dims[i] = i == axis ? fx_dim_floordiv(c->ctx, x->dims[i], fx_dim_of(2)) : x->dims[i];
    return fx_infer_set(c, x->dtype, x->rank, dims);
}

fx_status infer_flip(fx_infer *c)
{
    const fx_type *x;
    uint32_t mask;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_axes(c, 1, x->rank, false, &mask));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

/* Integers become the default float type. */
fx_status infer_float_unary(fx_infer *c)
{
    const fx_type *x;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(no_complex(c, x->dtype));
    return fx_infer_set(c, fx_dtype_is_float(x->dtype) ? x->dtype : FX_F32, x->rank, x->dims);
}

/* clamp, clamp_min, clamp_max: the limits are numbers, which may raise an integer tensor to a float one. */
fx_status infer_clamp(fx_infer *c)
{
    const fx_type *x, *t;
    fx_promote p = fx_promote_begin();
    FX_TRY(fx_infer_promote(c, 0, &p, &x));
    if (!x)
        return fx_infer_tensor(c, 0, &x);
    int n = c->node->op->id == FX_OP_clamp ? 2 : 1, given = 0;
    for (int i = 1; i <= n; i++) {
        if (fx_node_is_none(c->node, i))
            continue;
        given++;
        FX_TRY(fx_infer_promote(c, i, &p, &t));
    }
    if (!given)
        return fx_infer_fail(c, "expected at least one of 'min' and 'max'");
    FX_TRY(no_complex(c, fx_promote_end(&p)));
    return fx_infer_set(c, fx_promote_end(&p), x->rank, x->dims);
}

/* ---- two operands and more -------------------------------------------------------------------------------------- */

static fx_status broadcast(fx_infer *c, int first, int n, int *rank, fx_dim *dims, fx_dtype *dtype)
{
    fx_promote p = fx_promote_begin();
    *rank = 0;
    for (int i = first; i < first + n; i++) {
        const fx_type *t;
        FX_TRY(fx_infer_promote(c, i, &p, &t));
        if (t)
            FX_TRY(fx_infer_broadcast(c, rank, dims, t));
    }
    *dtype = fx_promote_end(&p);
    return no_complex(c, *dtype);
}

/* Whether neither operand is a tensor: Python's operators on sizes. */
static bool on_numbers(const fx_infer *c)
{
    for (int i = 0; i < 2; i++) {
        const fx_arg *a = fx_node_arg(c->node, i);
        const fx_type *t = a->kind == FX_ARG_NODE ? fx_infer_operand(c, (int)a->i) : NULL;
        if (t && t->kind == FX_TYPE_TENSOR)
            return false;
    }
    return true;
}

/* Sizes computed from sizes. What is not known as an expression is an integer all the same. */
static fx_status infer_numbers(fx_infer *c)
{
    fx_promote p = fx_promote_begin();
    const fx_type *t;
    fx_dim a, b;
    for (int i = 0; i < 2; i++)
        FX_TRY(fx_infer_promote(c, i, &p, &t));
    if (!fx_dtype_is_int(fx_promote_end(&p)) || c->node->op->id == FX_OP_div_Tensor) {
        c->result = fx_type_scalar(c->ctx, FX_TYPE_FLOAT);
        return FX_OK;
    }
    FX_TRY(fx_infer_dim(c, 0, &a));
    FX_TRY(fx_infer_dim(c, 1, &b));
    switch (c->node->op->id) {
    case FX_OP_add_Tensor:
        c->result = fx_type_int(c->ctx, fx_dim_add(c->ctx, a, b));
        return FX_OK;
    case FX_OP_sub_Tensor:
        c->result = fx_type_int(c->ctx, fx_dim_sub(c->ctx, a, b));
        return FX_OK;
    case FX_OP_mul_Tensor:
        c->result = fx_type_int(c->ctx, fx_dim_mul(c->ctx, a, b));
        return FX_OK;
    case FX_OP_floor_divide: case FX_OP_remainder_Tensor:
        if (fx_dim_is(b, 0))
            return fx_infer_fail(c, "a size is divided by zero");
        c->result = fx_type_int(c->ctx, c->node->op->id == FX_OP_floor_divide ? fx_dim_floordiv(c->ctx, a, b) : fx_dim_mod(c->ctx, a, b));
        return FX_OK;
    case FX_OP_pow_Tensor_Scalar: {
        fx_dim power = fx_dim_of(1);
        if (b.sym || b.value < 0 || b.value > 64)
            return fx_infer_refuse(c, "a size to a power that is no small number is not supported");
        for (int64_t i = 0; i < b.value; i++)
            power = fx_dim_mul(c->ctx, power, a);
        c->result = fx_type_int(c->ctx, power);
        return FX_OK;
    }
    default:
        return fx_infer_refuse(c, "not supported on sizes");
    }
}

fx_status infer_binary(fx_infer *c)
{
    int rank;
    fx_dim dims[FX_MAX_RANK];
    fx_dtype dtype;
    if (on_numbers(c))
        return infer_numbers(c);
    FX_TRY(broadcast(c, 0, 2, &rank, dims, &dtype));
    switch (c->node->op->id) {
    case FX_OP_div_Tensor: case FX_OP_div_Scalar:
        if (fx_dtype_is_int(dtype))
            dtype = FX_F32;
        break;
    case FX_OP_div_Tensor_mode: case FX_OP_div_Scalar_mode:
        if (fx_node_is_none(c->node, 2) && fx_dtype_is_int(dtype))
            dtype = FX_F32;
        break;
    case FX_OP_sub_Tensor: case FX_OP_sub_Scalar: case FX_OP_rsub_Tensor: case FX_OP_rsub_Scalar:
        if (dtype == FX_BOOL)
            return fx_infer_fail(c, "bool tensors cannot be subtracted");
        /* fallthrough */
    case FX_OP_add_Tensor: case FX_OP_add_Scalar: {
        const fx_arg *alpha = fx_node_arg(c->node, 2);
        if (alpha->kind == FX_ARG_FLOAT && fx_dtype_is_int(dtype))
            return fx_infer_fail(c, "expected an integer alpha for %s tensors", fx_dtype_name(dtype));
        break;
    }
    case FX_OP_atan2: case FX_OP_copysign_Tensor: case FX_OP_copysign_Scalar: case FX_OP_xlogy_Tensor:
        if (fx_dtype_is_int(dtype))
            dtype = FX_F32;
        break;
    case FX_OP_bitwise_left_shift_Tensor: case FX_OP_bitwise_left_shift_Tensor_Scalar: case FX_OP_bitwise_right_shift_Tensor:
    case FX_OP_bitwise_right_shift_Tensor_Scalar:
        if (dtype == FX_BOOL)
            return fx_infer_fail(c, "expected integers, got bool");
        /* fallthrough */
    case FX_OP_bitwise_and_Tensor: case FX_OP_bitwise_or_Tensor: case FX_OP_bitwise_xor_Tensor: case FX_OP_bitwise_and_Scalar:
    case FX_OP_bitwise_or_Scalar: case FX_OP_bitwise_xor_Scalar:
        if (!fx_dtype_is_int(dtype))
            return fx_infer_fail(c, "expected integers or bool, got %s", fx_dtype_name(dtype));
        break;
    case FX_OP_pow_Tensor_Scalar:
        if (fx_dtype_is_int(dtype) && fx_node_arg(c->node, 1)->kind == FX_ARG_INT && fx_node_int(c->node, 1) < 0)
            return fx_infer_fail(c, "integers to negative integer powers are not defined");
        break;
    default:
        break;
    }
    return fx_infer_set(c, dtype, rank, dims);
}

/* Comparisons and predicates: bool, broadcast over one or two operands. */
fx_status infer_to_bool(fx_infer *c)
{
    int rank;
    fx_dim dims[FX_MAX_RANK];
    fx_dtype dtype;
    bool two = fx_op_schema(c->ctx, c->node->op)->n >= 2;
    FX_TRY(broadcast(c, 0, two ? 2 : 1, &rank, dims, &dtype));
    if (two && on_numbers(c)) {
        c->result = fx_type_scalar(c->ctx, FX_TYPE_BOOL);
        return FX_OK;
    }
    return fx_infer_set(c, FX_BOOL, rank, dims);
}

/* Three operands of one promoted dtype. None is allowed for the limits of clamp. */
fx_status infer_ternary(fx_infer *c)
{
    int rank = 0;
    fx_dim dims[FX_MAX_RANK];
    fx_opid id = c->node->op->id;
    fx_promote p = fx_promote_begin();
    for (int i = 0; i < 3; i++) {
        const fx_type *t;
        if (i && id == FX_OP_clamp_Tensor && fx_node_is_none(c->node, i))
            continue;
        FX_TRY(fx_infer_promote(c, i, &p, &t));
        if (t)
            FX_TRY(fx_infer_broadcast(c, &rank, dims, t));
    }
    fx_dtype dtype = fx_promote_end(&p);
    FX_TRY(no_complex(c, dtype));
    bool floats = id == FX_OP_lerp_Scalar || id == FX_OP_lerp_Tensor || id == FX_OP_addcdiv;
    if (floats && !fx_dtype_is_float(dtype))
        return fx_infer_fail(c, "expected a float type, got %s", fx_dtype_name(dtype));
    if (id == FX_OP_addcmul && fx_node_arg(c->node, 3)->kind == FX_ARG_FLOAT && fx_dtype_is_int(dtype))
        return fx_infer_fail(c, "expected an integer value for %s tensors", fx_dtype_name(dtype));
    return fx_infer_set(c, dtype, rank, dims);
}

fx_status infer_where(fx_infer *c)
{
    const fx_type *cond;
    int rank;
    fx_dim dims[FX_MAX_RANK];
    fx_dtype dtype;
    FX_TRY(fx_infer_tensor(c, 0, &cond));
    if (cond->dtype != FX_BOOL && cond->dtype != FX_U8)
        return fx_infer_fail(c, "argument 'condition': expected bool, got %s", fx_dtype_name(cond->dtype));
    FX_TRY(broadcast(c, 1, 2, &rank, dims, &dtype));
    FX_TRY(fx_infer_broadcast(c, &rank, dims, cond));
    return fx_infer_set(c, dtype, rank, dims);
}

fx_status infer_masked_fill(fx_infer *c)
{
    const fx_type *x, *mask;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_tensor(c, 1, &mask));
    if (mask->dtype != FX_BOOL)
        return fx_infer_fail(c, "argument 'mask': expected bool, got %s", fx_dtype_name(mask->dtype));
    FX_TRY(no_complex(c, x->dtype));
    fx_dim dims[FX_MAX_RANK];
    int rank = 0;
    FX_TRY(fx_infer_broadcast(c, &rank, dims, x));
    FX_TRY(fx_infer_broadcast(c, &rank, dims, mask));
    return fx_infer_set(c, x->dtype, rank, dims);
}

/* weight: one number, or one a channel (dim 1, or dim 0 of a vector). */
fx_status infer_prelu(fx_infer *c)
{
    const fx_type *x, *w;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_tensor(c, 1, &w));
    if (x->dtype != w->dtype || !fx_dtype_is_float(x->dtype))
        return fx_infer_fail(c, "expected floats of one type, got %s and %s", fx_infer_text(c, x), fx_infer_text(c, w));
    if (w->rank > 1)
        return fx_infer_fail(c, "argument 'weight': expected rank 0 or 1, got %s", fx_infer_text(c, w));
    fx_dim channels = x->rank >= 2 ? x->dims[1] : fx_dim_of(1);
    if (w->rank == 1 && !fx_dim_is(w->dims[0], 1) && fx_dim_differ(w->dims[0], channels))
        return fx_infer_fail(c, "argument 'weight': expected 1 or %" PRId64 " elements, got %s", channels.value, fx_infer_text(c, w));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

/* The kernel itself: weight broadcasts. */
fx_status infer_prelu_kernel(fx_infer *c)
{
    const fx_type *x, *w;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_tensor(c, 1, &w));
    if (x->dtype != w->dtype || !fx_dtype_is_float(x->dtype))
        return fx_infer_fail(c, "expected floats of one type, got %s and %s", fx_infer_text(c, x), fx_infer_text(c, w));
    fx_dim dims[FX_MAX_RANK];
    int rank = 0;
    FX_TRY(fx_infer_broadcast(c, &rank, dims, x));
    FX_TRY(fx_infer_broadcast(c, &rank, dims, w));
    return fx_infer_set(c, x->dtype, rank, dims);
}

/* _to_copy and to: the dtype parameter lies second, but for to.device; or another tensor's is meant. */
fx_status infer_to_copy(fx_infer *c)
{
    const fx_type *x, *other;
    fx_opid id = c->node->op->id;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    fx_dtype dtype;
    if (id == FX_OP_to_other || id == FX_OP_type_as) {
        FX_TRY(fx_infer_tensor(c, 1, &other));
        dtype = other->dtype;
    } else {
        dtype = fx_infer_dtype(c, id == FX_OP_to_device ? 2 : 1, x->dtype);
    }
    FX_TRY(no_complex(c, dtype));
    FX_TRY(no_complex(c, x->dtype));
    return fx_infer_set(c, dtype, x->rank, x->dims);
}

/* The integers of a quantised value, and the limits in them. */
static fx_status check_quantized(const fx_infer *c, fx_dtype dtype)
{
    static const struct {
        fx_dtype dtype;
        int64_t min, max;
    } limits[] = {{FX_U8, 0, 255}, {FX_I8, -128, 127}, {FX_I16, -32768, 32767}, {FX_I32, INT32_MIN, INT32_MAX}};
    int64_t min = fx_node_int(c->node, 3), max = fx_node_int(c->node, 4);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].dtype == dtype)
            return min >= limits[i].min && max <= limits[i].max && min <= max
                       ? FX_OK
                       : fx_infer_fail(c, "expected quant_min <= quant_max within %s, got %lld and %lld", fx_dtype_name(dtype), (long long)min,
                                       (long long)max);
    return fx_infer_fail(c, "expected uint8, int8, int16 or int32, got %s", fx_dtype_name(dtype));
}

fx_status infer_quantize(fx_infer *c)
{
    const fx_type *x;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    fx_dtype dtype = fx_infer_dtype(c, 5, FX_I8);
    FX_TRY(check_quantized(c, dtype));
    if (x->dtype != FX_F32 && x->dtype != FX_F16 && x->dtype != FX_BF16)
        return fx_infer_fail(c, "expected float32, float16 or bfloat16, got %s", fx_infer_text(c, x));
    return fx_infer_set(c, dtype, x->rank, x->dims);
}

fx_status infer_dequantize(fx_infer *c)
{
    const fx_type *x;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    fx_dtype said = fx_infer_dtype(c, 5, x->dtype), out = fx_infer_dtype(c, 6, FX_F32);
    FX_TRY(check_quantized(c, said));
    if (said != x->dtype)
        return fx_infer_fail(c, "expected a tensor of %s, got %s", fx_dtype_name(said), fx_infer_text(c, x));
    if (out != FX_F32 && out != FX_F16 && out != FX_BF16)
        return fx_infer_fail(c, "expected float32, float16 or bfloat16 as out_dtype, got %s", fx_dtype_name(out));
    return fx_infer_set(c, out, x->rank, x->dims);
}

/* ---- creation --------------------------------------------------------------------------------------------------- */

static fx_status number_kind(const fx_infer *c, int param, fx_arg_kind *kind)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    const fx_type *t = a->kind == FX_ARG_NODE ? fx_infer_operand(c, (int)a->i) : NULL;
    *kind = a->kind;
    if (a->kind == FX_ARG_SYM || (t && t->kind == FX_TYPE_INT))
        *kind = FX_ARG_INT;
    else if (t && t->kind == FX_TYPE_FLOAT)
        *kind = FX_ARG_FLOAT;
    if (*kind != FX_ARG_INT && *kind != FX_ARG_FLOAT && *kind != FX_ARG_BOOL)
        return fx_infer_fail(c, "expected a number as argument %d", param);
    return FX_OK;
}

/* ceil((end - start) / step): exact for integers, in double otherwise, as eager. */
static fx_status infer_arange(fx_infer *c, int start, int end, int step, int dtype_param)
{
    fx_arg_kind kinds[3] = {FX_ARG_INT, FX_ARG_INT, FX_ARG_INT};
    int params[3] = {start, end, step};
    bool floats = false;
    fx_dim dim;
    for (int i = 0; i < 3; i++) {
        if (params[i] < 0)
            continue;
        FX_TRY(number_kind(c, params[i], &kinds[i]));
        floats |= kinds[i] == FX_ARG_FLOAT;
    }
    fx_dtype dtype = fx_infer_dtype(c, dtype_param, floats ? FX_F32 : FX_I64);
    if (!floats) {
        fx_dim s = fx_dim_of(0), e, d = fx_dim_of(1);
        if (start >= 0)
            FX_TRY(fx_infer_dim(c, start, &s));
        FX_TRY(fx_infer_dim(c, end, &e));
        if (step >= 0)
            FX_TRY(fx_infer_dim(c, step, &d));
        if (d.sym)
            return fx_infer_refuse(c, "a symbolic step is not supported");
        if (d.value == 0 || d.value == INT64_MIN)
            return fx_infer_fail(c, "expected a step other than 0");
        fx_dim span = d.value > 0 ? fx_dim_sub(c->ctx, e, s) : fx_dim_sub(c->ctx, s, e);
        int64_t by = d.value > 0 ? d.value : -d.value;
        dim = fx_dim_floordiv(c->ctx, fx_dim_add(c->ctx, span, fx_dim_of(by - 1)), fx_dim_of(by));
    } else {
        double s = start >= 0 ? fx_node_float(c->node, start) : 0, e = fx_node_float(c->node, end);
        double d = step >= 0 ? fx_node_float(c->node, step) : 1, n = ceil((e - s) / d);
        if (!(d < 0 || d > 0) || !(fabs(n) < 1e15))
            return fx_infer_fail(c, "expected finite limits and a step other than 0");
        dim = fx_dim_of((int64_t)n);
    }
    if (!dim.sym && dim.value < 0)
        return fx_infer_fail(c, "expected limits in the direction of the step");
    return fx_infer_set(c, dtype, 1, &dim);
}

/* Sizes, and strides or an order of dims, which say nothing about values: how a tensor lies is ours. */
static fx_status infer_strided(fx_infer *c)
{
    const fx_type *x = NULL;
    fx_dim dims[FX_MAX_RANK], layout[FX_MAX_RANK];
    int first = c->node->op->id == FX_OP_new_empty_strided, n, m;
    if (first)
        FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(fx_infer_dims(c, first, dims, FX_MAX_RANK, &n));
    FX_TRY(fx_infer_dims(c, first + 1, layout, FX_MAX_RANK, &m));
    if (n != m)
        return fx_infer_fail(c, "expected as many strides as sizes, got %d and %d", m, n);
    return fx_infer_set(c, fx_infer_dtype(c, first + 2, x ? x->dtype : FX_F32), n, dims);
}

fx_status infer_create(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    int n;
    fx_arg_kind kind;
    switch (c->node->op->id) {
    case FX_OP_full:
        FX_TRY(fx_infer_dims(c, 0, dims, FX_MAX_RANK, &n));
        FX_TRY(number_kind(c, 1, &kind));
        return fx_infer_set(c, fx_infer_dtype(c, 2, kind == FX_ARG_BOOL ? FX_BOOL : kind == FX_ARG_INT ? FX_I64 : FX_F32), n,
                            dims);
    case FX_OP_zeros: case FX_OP_ones:
        FX_TRY(fx_infer_dims(c, 0, dims, FX_MAX_RANK, &n));
        return fx_infer_set(c, fx_infer_dtype(c, 1, FX_F32), n, dims);
    case FX_OP_full_like:
        FX_TRY(fx_infer_tensor(c, 0, &x));
        return fx_infer_set(c, fx_infer_dtype(c, 2, x->dtype), x->rank, x->dims);
    case FX_OP_zeros_like: case FX_OP_ones_like: case FX_OP_empty_like:
        FX_TRY(fx_infer_tensor(c, 0, &x));
        return fx_infer_set(c, fx_infer_dtype(c, 1, x->dtype), x->rank, x->dims);
    case FX_OP_new_zeros: case FX_OP_new_ones: case FX_OP_new_empty: case FX_OP_new_full:
        FX_TRY(fx_infer_tensor(c, 0, &x));
        FX_TRY(fx_infer_dims(c, 1, dims, FX_MAX_RANK, &n));
        return fx_infer_set(c, fx_infer_dtype(c, c->node->op->id == FX_OP_new_full ? 3 : 2, x->dtype), n, dims);
    case FX_OP_empty_memory_format:
        FX_TRY(fx_infer_dims(c, 0, dims, FX_MAX_RANK, &n));
        return fx_infer_set(c, fx_infer_dtype(c, 1, FX_F32), n, dims);
    case FX_OP_empty_strided: case FX_OP_empty_permuted: case FX_OP_new_empty_strided:
        return infer_strided(c);
    case FX_OP_eye: case FX_OP_eye_m:
        FX_TRY(fx_infer_dim(c, 0, &dims[0]));
        FX_TRY(fx_infer_dim(c, c->node->op->id == FX_OP_eye ? 0 : 1, &dims[1]));
        return fx_infer_set(c, fx_infer_dtype(c, c->node->op->id == FX_OP_eye ? 1 : 2, FX_F32), 2, dims);
    case FX_OP_linspace:
        FX_TRY(number_kind(c, 0, &kind));
        FX_TRY(number_kind(c, 1, &kind));
        FX_TRY(fx_infer_dim(c, 2, &dims[0]));
        return fx_infer_set(c, fx_infer_dtype(c, 3, FX_F32), 1, dims);
    case FX_OP_arange:
        return infer_arange(c, -1, 0, -1, 1);
    case FX_OP_arange_start:
        return infer_arange(c, 0, 1, -1, 2);
    case FX_OP_arange_start_step:
        return infer_arange(c, 0, 1, 2, 3);
    case FX_OP_scalar_tensor:
        FX_TRY(number_kind(c, 0, &kind));
        return fx_infer_set(c, fx_infer_dtype(c, 1, FX_F32), 0, dims);
    default:
        return fx_infer_refuse(c, "no rule for this row");
    }
}

/* ---- joining and padding ---------------------------------------------------------------------------------------- */

enum { MAX_JOINED = 1024 };

/* Old torch lets 1-d empty tensors stand anywhere in a cat; they are skipped. */
static bool legacy_empty(const fx_type *t)
{
    return t->rank == 1 && fx_dim_is(t->dims[0], 0);
}

fx_status infer_cat(fx_infer *c)
{
    const fx_type *t[MAX_JOINED];
    fx_dim dims[FX_MAX_RANK];
    int n, axis = 0, rank = -1;
    fx_promote p = fx_promote_begin();
    FX_TRY(fx_infer_tensors(c, 0, t, MAX_JOINED, &n));
    if (!n)
        return fx_infer_fail(c, "expected at least one tensor");
    for (int i = 0; i < n; i++) {
        fx_promote_tensor(&p, t[i]->dtype, t[i]->rank);
        if (t[i]->rank == 0)
            return fx_infer_fail(c, "tensors of rank 0 cannot be joined");
        if (legacy_empty(t[i]))
            continue;
        if (rank < 0) {
            rank = t[i]->rank;
            FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), rank, &axis));
            for (int d = 0; d < rank; d++)
                dims[d] = t[i]->dims[d];
            continue;
        }
        if (t[i]->rank != rank)
            return fx_infer_fail(c, "expected tensors of one rank, got %s and %s", fx_infer_text(c, t[0]), fx_infer_text(c, t[i]));
        for (int d = 0; d < rank; d++) {
            if (d == axis)
                dims[d] = fx_dim_add(c->ctx, dims[d], t[i]->dims[d]);
            else if (fx_dim_differ(dims[d], t[i]->dims[d]))
                return fx_infer_fail(c, "sizes of dim %d differ: %" PRId64 " and, in tensor %d, %" PRId64, d, dims[d].value, i,
                                     t[i]->dims[d].value);
        }
    }
    if (rank < 0) {
        rank = 1;
        dims[0] = fx_dim_of(0);
    }
    return fx_infer_set(c, fx_promote_end(&p), rank, dims);
}

fx_status infer_stack(fx_infer *c)
{
    const fx_type *t[MAX_JOINED];
    fx_dim dims[FX_MAX_RANK + 1];
    int n, axis;
    fx_promote p = fx_promote_begin();
    FX_TRY(fx_infer_tensors(c, 0, t, MAX_JOINED, &n));
    if (!n)
        return fx_infer_fail(c, "expected at least one tensor");
    FX_TRY(fx_infer_axis(c, fx_node_int(c->node, 1), t[0]->rank + 1, &axis));
    for (int i = 0; i < n; i++) {
        fx_promote_tensor(&p, t[i]->dtype, t[i]->rank);
        bool ok = t[i]->rank == t[0]->rank;
        for (int d = 0; ok && d < t[0]->rank; d++)
            ok = !fx_dim_differ(t[i]->dims[d], t[0]->dims[d]);
        if (!ok)
            return fx_infer_fail(c, "expected tensors of one shape, got %s and %s", fx_infer_text(c, t[0]), fx_infer_text(c, t[i]));
    }
    for (int d = 0, s = 0; d <= t[0]->rank; d++)
        dims[d] = d == axis ? fx_dim_of(n) : t[0]->dims[s++];
    return fx_infer_set(c, fx_promote_end(&p), t[0]->rank + 1, dims);
}

fx_status infer_pad(fx_infer *c)
{
    const fx_type *x;
    fx_dim pad[2 * FX_MAX_RANK], dims[FX_MAX_RANK];
    int n;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    FX_TRY(no_complex(c, x->dtype));
    FX_TRY(fx_infer_dims(c, 1, pad, 2 * FX_MAX_RANK, &n));
    if (n % 2 || n > 2 * x->rank)
        return fx_infer_fail(c, "argument 'pad': expected an even number up to %d of integers, got %d", 2 * x->rank, n);
    bool constant = c->node->op->id == FX_OP_constant_pad_nd;
    bool reflect = false;
    if (!constant) {
        const fx_arg *mode = fx_node_arg(c->node, 2);
        const char *s = mode->kind == FX_ARG_STR ? mode->s : "";
        constant = s[0] == 'c' && s[1] == 'o';
        reflect = s[0] == 'r' && s[1] == 'e' && s[2] == 'f';
        if (!constant && !reflect && !(s[0] == 'r' && s[1] == 'e' && s[2] == 'p') && !(s[0] == 'c' && s[1] == 'i'))
            return fx_infer_fail(c, "argument 'mode': expected constant, reflect, replicate or circular, got '%s'", s);
    }
    for (int i = 0; i < x->rank; i++) {
        int k = x->rank - 1 - i;
        fx_dim before = 2 * k < n ? pad[2 * k] : fx_dim_of(0), after = 2 * k < n ? pad[2 * k + 1] : fx_dim_of(0), d = x->dims[i];
        if (!constant && !d.sym && !before.sym && !after.sym && (before.value || after.value)) {
            int64_t most = reflect ? d.value - 1 : d.value;
            bool far = !(c->node->op->id == FX_OP_pad && fx_node_arg(c->node, 2)->s[2] == 'p') &&
                       (before.value > most || after.value > most);
            if (far || d.value == 0)
                return fx_infer_fail(c, "expected a border of at most %" PRId64 " on dim %d, got %" PRId64 " and %" PRId64, most, i,
                                     before.value, after.value);
        }
        dims[i] = fx_dim_add(c->ctx, d, fx_dim_add(c->ctx, before, after));
    }
    return fx_infer_set(c, x->dtype, x->rank, dims);
}
