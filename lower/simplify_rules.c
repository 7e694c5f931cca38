/* lower/simplify_rules.c: identities that hold exactly, bit for bit, NaN, infinities and signed zeros included.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "lower/rewrite.h"

/* `at` gives way to x, if x is of its type. */
static bool becomes(fx_rw *w, fx_node *x)
{
    if (!x || !fx_same_type(x, w->at))
        return false;
    fx_rw_replace(w, x);
    return true;
}

static bool order_kept(int rank, const fx_dim *sizes, const int64_t *dims)
{
    int64_t last = -1;
    for (int i = 0; i < rank; i++) {
        if (fx_dim_is(sizes[dims[i]], 1))
            continue;
        if (dims[i] < last)
            return false;
        last = dims[i];
    }
    return true;
}

/* ---- views ---- */

/* Decompositions flatten the rows of a linear layer and bring their dims back after it; it takes any dims as they are. */
static bool linear_of_rows(fx_rw *w, fx_node *linear, int rank, const fx_dim *sizes)
{
    const fx_node *rows = fx_node_input(linear, 0);
    fx_dim in[FX_MAX_RANK];
    if (linear->n_uses != 1 || !fx_is_call(rows, FX_OP_view))
        return false;
    fx_node *x = fx_node_input(rows, 0);
    if (fx_sizes(x, in) != rank || rank < 2 || !fx_dim_equal(in[rank - 1], rows->type->dims[rows->type->rank - 1]) ||
        !fx_dim_equal(sizes[rank - 1], linear->type->dims[linear->type->rank - 1]))
        return false;
    for (int i = 0; i < rank - 1; i++)
        if (!fx_dim_equal(in[i], sizes[i]))
            return false;
    fx_call c = fx_rw_call(w, FX_OP_linear);
    fx_call_node(&c, x);
    fx_call_copy(&c, linear, 1);
    fx_call_copy(&c, linear, 2);
    fx_rw_become(w, &c);
    return true;
}

static bool view(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(w->at, sizes);
    if (becomes(w, x))
        return true;
    if (fx_is_call(x, FX_OP_linear))
        return linear_of_rows(w, x, rank, sizes);
    if (!fx_is_call(x, FX_OP_view))
        return false;
    fx_rw_view_to(w, fx_node_input(x, 0), rank, sizes, NULL);
    return true;
}

static bool permute(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int64_t dims[FX_MAX_RANK], inner[FX_MAX_RANK];
    fx_dim sizes[FX_MAX_RANK], out[FX_MAX_RANK];
    int rank = fx_sizes(x, sizes);
    if (fx_node_ints(w->at, 1, dims, FX_MAX_RANK) != rank)
        return false;
    for (int i = 0; i < rank; i++)
        dims[i] = fx_wrap_dim(dims[i], rank);
    if (order_kept(rank, sizes, dims)) { /* only dims of size 1 move */
        if (becomes(w, x))
            return true;
        fx_sizes(w->at, out);
        fx_rw_view_to(w, x, rank, out, NULL);
        return true;
    }
    if (!fx_is_call(x, FX_OP_permute) || fx_node_ints(x, 1, inner, FX_MAX_RANK) != rank)
        return false;
    for (int i = 0; i < rank; i++)
        dims[i] = fx_wrap_dim(inner[dims[i]], rank);
    fx_rw_permute(w, fx_node_input(x, 0), rank, dims, NULL);
    return true;
}

static bool expand(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(w->at, sizes);
    if (becomes(w, x))
        return true;
    if (!fx_is_call(x, FX_OP_expand))
        return false;
    fx_rw_expand_to(w, fx_node_input(x, 0), rank, sizes, NULL);
    return true;
}

/* dim, start, stop, step of a slice as decompose leaves it, of a dim whose size is known. */
typedef struct range {
    int dim;
    int64_t start, stop, step;
} range;

static bool range_of(const fx_node *n, range *r)
{
    if (!fx_is_call(n, FX_OP_slice_Tensor))
        return false;
    const fx_node *x = fx_node_input(n, 0);
    r->dim = fx_wrap_dim(fx_node_int(n, 1), x->type->rank);
    if (x->type->dims[r->dim].sym || n->type->dims[r->dim].sym || fx_node_arg(n, 2)->kind == FX_ARG_SYM)
        return false;
    int64_t size = fx_dim_size(x, r->dim), count = fx_dim_size(n, r->dim);
    r->start = fx_node_is_none(n, 2) ? 0 : fx_node_int(n, 2);
    r->step = fx_node_int(n, 4);
    if (r->start < 0 || r->start > size || r->step < 1)
        return false;
    r->stop = count ? r->start + (count - 1) * r->step + 1 : r->start;
    return true;
}

static bool slice(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    range r, inner;
    if (becomes(w, x))
        return true;
    if (!range_of(w->at, &r))
        return false;
    if (range_of(x, &inner) && inner.dim == r.dim) {
        int64_t start = inner.start + r.start * inner.step, step = inner.step * r.step;
        int64_t count = fx_dim_size(w->at, r.dim);
        fx_rw_slice(w, fx_node_input(x, 0), r.dim, start, count ? start + (count - 1) * step + 1 : start, step, NULL);
        return true;
    }
    /* Within one tensor of a concatenation: of that tensor. */
    if (!fx_is_call(x, FX_OP_cat) || fx_wrap_dim(fx_node_int(x, 1), x->type->rank) != r.dim || r.stop == r.start)
        return false;
    int n = fx_node_inputs(x, 0, NULL, 0);
    fx_node **in = FX_NEW_ARRAY(w->scratch, fx_node *, n + 1);
    fx_node_inputs(x, 0, in, n);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        if (in[i]->type->rank != x->type->rank || in[i]->type->dtype != x->type->dtype || in[i]->type->dims[r.dim].sym)
            return false;
        int64_t size = fx_dim_size(in[i], r.dim);
        if (r.start >= at && r.stop <= at + size) {
            fx_rw_slice(w, in[i], r.dim, r.start - at, r.stop - at, r.step, NULL);
            return true;
        }
        at += size;
    }
    return false;
}

/* Empty tensors contribute nothing; a concatenation used only here is spread out; neighbouring slices of one tensor are one. */
static bool cat(fx_rw *w)
{
    enum { MOST = 200 };
    int n = fx_node_inputs(w->at, 0, NULL, 0), count = 0, dim = fx_wrap_dim(fx_node_int(w->at, 1), w->at->type->rank);
    fx_node **in = FX_NEW_ARRAY(w->scratch, fx_node *, n + 1), *out[MOST];
    bool changed = false;
    fx_node_inputs(w->at, 0, in, n);
    for (int i = 0; i < n; i++) {
        range a, b;
        int inner = fx_is_call(in[i], FX_OP_cat) && in[i]->n_uses == 1 && in[i]->type->dtype == w->at->type->dtype &&
                            fx_wrap_dim(fx_node_int(in[i], 1), in[i]->type->rank) == dim
                        ? fx_node_inputs(in[i], 0, NULL, 0)
                        : 0;
        if (fx_is_tensor(in[i]) && fx_type_numel(in[i]->type) == 0 && in[i]->type->dtype == w->at->type->dtype) {
            changed = true;
        } else if (inner > 0 && count + inner + (n - i - 1) <= MOST) {
            count += fx_node_inputs(in[i], 0, out + count, inner);
            changed = true;
        } else if (count > 0 && in[i]->n_uses == 1 && out[count - 1]->n_uses == 1 && range_of(in[i], &b) &&
                   range_of(out[count - 1], &a) && a.dim == dim && b.dim == dim && a.step == 1 && b.step == 1 &&
                   a.stop == b.start && fx_node_input(in[i], 0) == fx_node_input(out[count - 1], 0)) {
            out[count - 1] = fx_rw_slice(w, fx_node_input(in[i], 0), dim, a.start, b.stop, 1, "slice");
            changed = true;
        } else if (count < MOST) {
            out[count++] = in[i];
        } else {
            return false;
        }
    }
    if (count == 1 && becomes(w, out[0]))
        return true;
    if (!changed || count == 0)
        return false;
    fx_rw_cat(w, count, out, dim, NULL);
    return true;
}

/* ---- pointwise ---- */

/* The value of a constant of one element that converts to the dtype of `like` as a Python number does. */
static bool constant_number(fx_rw *w, const fx_node *c, const fx_node *like, double *v)
{
    fx_tensor t;
    if (!c || c->opcode != FX_GET_ATTR || !fx_is_tensor(c) || !fx_is_tensor(like) || fx_type_numel(c->type) != 1 ||
        c->type->rank > like->type->rank || !fx_dtype_is_float(c->type->dtype) || like->type->dtype != FX_F32 ||
        (c->type->rank > 0 && c->type->dtype != FX_F32))
        return false;
    w->status = fx_attr_value(w->g, c, &t);
    if (w->status != FX_OK)
        return false;
    *v = fx_tensor_get(&t, 0);
    return true;
}

/* Constants of one element become numbers, constants stand second, and numbers that change nothing go. */
static bool binary(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    bool has_alpha = id == FX_OP_add_Tensor || id == FX_OP_sub_Tensor;
    double v, alpha = has_alpha ? fx_node_float(w->at, 2) : 1;
    fx_node *x = fx_node_input(w->at, 0), *y = fx_node_input(w->at, 1);
    bool commutes = (id == FX_OP_add_Tensor && alpha == 1) || id == FX_OP_mul_Tensor;

    if (commutes && x && y && x->opcode == FX_GET_ATTR && y->opcode != FX_GET_ATTR) {
        fx_rw_binary(w, id, y, x, NULL);
        return true;
    }
    if (x && y && x != y && fx_same_type(x, w->at) && constant_number(w, y, x, &v)) {
        fx_call c = fx_rw_call(w, id);
        fx_call_node(&c, x);
        fx_call_float(&c, v);
        if (has_alpha)
            fx_call_copy(&c, w->at, 2);
        fx_rw_become(w, &c);
        return true;
    }
    /* An expanded operand broadcasts by itself. */
    if (x && y && x != y) {
        fx_node *ex = fx_is_call(x, FX_OP_expand) ? fx_node_input(x, 0) : x, *ey = fx_is_call(y, FX_OP_expand) ? fx_node_input(y, 0) : y;
        if (ey != y && fx_same_type(x, w->at)) {
            fx_call c = fx_rw_call(w, id);
            fx_call_node(&c, x);
            fx_call_node(&c, ey);
            if (has_alpha)
                fx_call_copy(&c, w->at, 2);
            fx_rw_become(w, &c);
            return true;
        }
        if (ex != x && fx_same_type(y, w->at)) {
            fx_call c = fx_rw_call(w, id);
            fx_call_node(&c, ex);
            fx_call_node(&c, y);
            if (has_alpha)
                fx_call_copy(&c, w->at, 2);
            fx_rw_become(w, &c);
            return true;
        }
    }
    if (!x || !fx_is_number(w->at, 1, &v))
        return false;
    switch (id) {
    case FX_OP_mul_Tensor:
    case FX_OP_div_Tensor:
        return v == 1 && becomes(w, x);
    case FX_OP_sub_Tensor: /* x - 0 is x, also for -0 */
        return v == 0 && !signbit(v) && alpha == 1 && becomes(w, x);
    case FX_OP_add_Tensor: /* x + 0 makes 0 of -0, x + -0 is x */
        return v == 0 && signbit(v) && alpha == 1 && becomes(w, x);
    default:
        return false;
    }
}

/* As eager computes powers by special cases. */
static bool power(fx_rw *w)
{
    double e;
    fx_node *x = fx_node_input(w->at, 0);
    if (!fx_is_number(w->at, 1, &e) || !fx_same_type(x, w->at) || !fx_dtype_is_float(x->type->dtype))
        return false;
    if (e == 1)
        return becomes(w, x);
    if (e == 2)
        fx_rw_binary(w, FX_OP_mul_Tensor, x, x, NULL);
    else if (e == 3)
        fx_rw_binary(w, FX_OP_mul_Tensor, fx_rw_binary(w, FX_OP_mul_Tensor, x, x, "square"), x, NULL);
    else if (e == 0.5)
        fx_rw_unary(w, FX_OP_sqrt, x, NULL);
    else if (e == -0.5)
        fx_rw_unary(w, FX_OP_rsqrt, x, NULL);
    else if (e == -1)
        fx_rw_unary(w, FX_OP_reciprocal, x, NULL);
    else
        return false;
    return true;
}

/* The interval x is known to lie in, NaN aside, from the op that made it. */
static void bounds(const fx_node *x, int depth, double *lo, double *hi)
{
    *lo = -INFINITY;
    *hi = INFINITY;
    if (x->opcode != FX_CALL_FUNCTION || !x->op || depth == 0)
        return;
    switch (x->op->id) {
    case FX_OP_abs: /* of the least integer it is that itself */
        *lo = fx_dtype_is_float(x->type->dtype) ? 0 : -INFINITY;
        break;
    case FX_OP_relu:
    case FX_OP_exp:
        *lo = 0;
        break;
    case FX_OP_sigmoid:
    case FX_OP_hardsigmoid:
    case FX_OP__softmax:
        *lo = 0;
        *hi = 1;
        break;
    case FX_OP_hardtanh:
    case FX_OP_clamp:
        if (!fx_node_is_none(x, 1))
            *lo = fx_node_float(x, 1);
        if (!fx_node_is_none(x, 2))
            *hi = fx_node_float(x, 2);
        if (*hi < *lo)
            *lo = *hi;
        break;
    case FX_OP_max_pool2d: /* padding never wins */
    case FX_OP_view:
    case FX_OP_permute:
        bounds(fx_node_input(x, 0), depth - 1, lo, hi);
        break;
    default:
        break;
    }
}

/* The limits of relu, hardtanh and clamp; false for other ops. */
static bool limits(const fx_node *n, double *min, double *max)
{
    *min = -INFINITY;
    *max = INFINITY;
    switch (n->op ? n->op->id : FX_OP_NONE) {
    case FX_OP_relu:
        *min = 0;
        return true;
    case FX_OP_hardtanh:
        *min = fx_node_float(n, 1);
        *max = fx_node_float(n, 2);
        return true;
    case FX_OP_clamp:
        if (!fx_node_is_none(n, 1))
            *min = fx_node_float(n, 1);
        if (!fx_node_is_none(n, 2))
            *max = fx_node_float(n, 2);
        return true;
    default:
        return false;
    }
}

/* Clamping what already lies between; clamping twice; clamps in the form kernels know: relu or hardtanh. */
static bool clamps(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    double lo, hi, min, max, inner_min, inner_max;
    limits(w->at, &min, &max);
    bounds(x, 8, &lo, &hi);
    if (!(min <= max) || !fx_same_type(x, w->at))
        return false;
    if (lo >= min && hi <= max)
        return becomes(w, x);
    bool is_float = fx_dtype_is_float(x->type->dtype), changed = false;
    if (is_float && limits(x, &inner_min, &inner_max) && inner_min <= inner_max && fx_same_type(x, fx_node_input(x, 0)) &&
        fmax(min, inner_min) <= fmin(max, inner_max)) {
        min = fmax(min, inner_min);
        max = fmin(max, inner_max);
        x = fx_node_input(x, 0);
        changed = true;
    }
    bool relu = min == 0 && !signbit(min) && max == INFINITY, both = isfinite(min) && isfinite(max);
    fx_opid form = relu ? FX_OP_relu : both ? FX_OP_hardtanh : FX_OP_clamp;
    if (!is_float || (!changed && fx_is_call(w->at, form)))
        return false;
    fx_call c = fx_rw_call(w, form);
    fx_call_node(&c, x);
    for (int i = 0; !relu && i < 2; i++) {
        double v = i ? max : min;
        if (isinf(v))
            fx_call_node(&c, NULL);
        else
            fx_call_float(&c, v);
    }
    fx_rw_become(w, &c);
    return true;
}

static bool twice(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    if (!fx_is_call(x, w->at->op->id))
        return false;
    return becomes(w, w->at->op->id == FX_OP_neg ? fx_node_input(x, 0) : x);
}

/* ---- windows ---- */

static bool all_are(const fx_node *n, int param, int64_t v)
{
    int64_t list[2 * FX_MAX_RANK];
    int count = fx_node_ints(n, param, list, 2 * FX_MAX_RANK);
    for (int i = 0; i < count; i++)
        if (list[i] != v)
            return false;
    return count >= 0;
}

static bool no_dims(const fx_node *n, int param)
{
    int64_t list[FX_MAX_RANK];
    return fx_node_ints(n, param, list, FX_MAX_RANK) == 0;
}

/* Windows of one element. */
static bool pool(fx_rw *w)
{
    bool avg = w->at->op->id == FX_OP_avg_pool2d;
    if (!all_are(w->at, 1, 1) || !all_are(w->at, 2, 1) || !all_are(w->at, 3, 0) || (avg && !fx_node_is_none(w->at, 6)))
        return false;
    return becomes(w, fx_node_input(w->at, 0));
}

/* Nearest only: bilinear adds 0 times an element to it, which is NaN for an infinity. */
static bool upsample(fx_rw *w)
{
    for (int i = 2; i < 4; i++)
        if (!fx_node_is_none(w->at, i) && fx_node_float(w->at, i) != 1)
            return false;
    return becomes(w, fx_node_input(w->at, 0));
}

/* A border of zeros before a convolution is the convolution's own padding, if it is the same on both sides. */
static bool convolution(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    int64_t pad[2 * FX_MAX_RANK], padding[2], outer[2] = { 0, 0 };
    double v;
    if (!fx_is_call(x, FX_OP_constant_pad_nd) || fx_node_bool(w->at, 6) || !fx_is_number(x, 2, &v) || v != 0)
        return false;
    int n = fx_node_ints(x, 1, pad, 2 * FX_MAX_RANK);
    if (n < 0 || n % 2 || fx_node_ints(w->at, 4, padding, 2) != 2)
        return false;
    for (int i = 0; i < n / 2; i++) {
        bool spatial = i < 2;
        if (pad[2 * i] != pad[2 * i + 1] || pad[2 * i] < 0 || (!spatial && pad[2 * i]))
            return false;
        if (spatial)
            outer[1 - i] = pad[2 * i];
    }
    fx_call c = fx_rw_call(w, FX_OP_convolution);
    fx_call_node(&c, fx_node_input(x, 0));
    for (int p = 1; p < 9; p++) {
        if (p == 4)
            fx_call_ints(&c, 2, (const int64_t[]){ padding[0] + outer[0], padding[1] + outer[1] });
        else
            fx_call_copy(&c, w->at, p);
    }
    fx_rw_become(w, &c);
    return true;
}

bool fx_simplify_node(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    switch (w->at->op->id) {
    case FX_OP_view: return view(w);
    case FX_OP_permute: return permute(w);
    case FX_OP_expand: return expand(w);
    case FX_OP_slice_Tensor: return slice(w);
    case FX_OP_cat: return cat(w);
    case FX_OP_clone: return becomes(w, x);
    case FX_OP__to_copy: return becomes(w, x);
    case FX_OP_flip: return no_dims(w->at, 1) && becomes(w, x);
    case FX_OP_add_Tensor:
    case FX_OP_sub_Tensor:
    case FX_OP_mul_Tensor:
    case FX_OP_div_Tensor: return binary(w);
    case FX_OP_pow_Tensor_Scalar: return power(w);
    case FX_OP_relu:
    case FX_OP_hardtanh:
    case FX_OP_clamp: return clamps(w);
    case FX_OP_neg:
    case FX_OP_abs: return twice(w);
    case FX_OP_constant_pad_nd: return all_are(w->at, 1, 0) && becomes(w, x);
    case FX_OP_adaptive_avg_pool2d: return becomes(w, x);
    case FX_OP_max_pool2d:
    case FX_OP_avg_pool2d: return pool(w);
    case FX_OP_upsample_nearest2d: return upsample(w);
    case FX_OP_convolution: return convolution(w);
    default: return false;
    }
}
