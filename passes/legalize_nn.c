/* passes/legalize_nn.c: rules of legalize.def: torch.nn's modules and functions.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "passes/legalize.h"

static bool is_none(const fx_arg *a)
{
    return !a || a->kind == FX_ARG_NONE;
}

/* "BatchNorm2d 'layer1.bn'" or the function's name. */
static const char *called(const fx_lg *l)
{
    if (!l->module)
        return l->at->target;
    const char *dot = strrchr(l->module->class_name, '.');
    return fx_arena_printf(l->scratch, "%s '%s'", dot ? dot + 1 : l->module->class_name, l->module->path);
}

static void refuse_training(fx_lg *l)
{
    fx_lg_refuse(l, "%s is in training mode: call model.eval() before exporting", called(l));
}

/* ---- contractions -------------------------------------------------------------------------------------------------------- */

static bool is_text(const fx_arg *a, const char *s)
{
    return a && a->kind == FX_ARG_STR && strcmp(a->s, s) == 0;
}

/* Item i of a list that may be one number. */
static int64_t int_at(const fx_arg *a, int i)
{
    if (a->kind == FX_ARG_INT)
        return a->i;
    return a->n ? a->items[i < a->n ? i : a->n - 1]->i : 0;
}

/* A positive number or a list of such. */
static bool are_ints(const fx_arg *a)
{
    bool list = a && (a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE);
    for (int i = 0; list && i < a->n; i++)
        if (a->items[i]->kind != FX_ARG_INT || a->items[i]->i < 0)
            return false;
    return list || (a && a->kind == FX_ARG_INT && a->i >= 0);
}

/* Conv2d(padding_mode="reflect") pads first; by how much, for "same", depends on the kernel. */
static const fx_arg *conv_padded(fx_lg *l, int rank, const char *mode)
{
    const fx_arg *padding = fx_lg_arg(l, "padding"), *kernel = fx_lg_arg(l, "kernel_size"), *dilation = fx_lg_arg(l, "dilation");
    int64_t amounts[6];
    if ((!are_ints(padding) && !(padding && padding->kind == FX_ARG_STR)) || !are_ints(kernel) || !are_ints(dilation)) {
        fx_lg_refuse(l, "%s: expected integers as padding, kernel_size and dilation", called(l));
        return l->bound[0];
    }
    for (int i = 0; i < rank; i++) {
        int64_t before = 0, after = 0;
        if (is_text(padding, "same")) {
            int64_t total;
            if (__builtin_mul_overflow(int_at(dilation, i), int_at(kernel, i) - 1, &total))
                fx_lg_refuse(l, "%s: the padding overflows 64 bits", called(l));
            before = total / 2;
            after = total - before;
        } else if (padding->kind != FX_ARG_STR) {
            before = after = int_at(padding, i);
        }
        amounts[2 * (rank - 1 - i)] = before;
        amounts[2 * (rank - 1 - i) + 1] = after;
    }
    return FX_LG_EMIT(l, "pad", FX_OP_pad, l->bound[0], fx_arg_ints(l->ctx, 2 * rank, amounts), fx_arg_text(l->ctx, FX_ARG_STR, mode));
}

void fx_lg_conv(fx_lg *l)
{
    int rank = l->row->op == FX_OP_conv1d ? 1 : l->row->op == FX_OP_conv2d ? 2 : 3;
    const fx_arg *mode = fx_lg_arg(l, "padding_mode"), *padding = fx_lg_arg(l, "padding"), *x = l->bound[0];
    fx_opid op = l->row->op;
    if (!is_text(mode, "zeros")) {
        if (!mode || mode->kind != FX_ARG_STR) {
            fx_lg_refuse(l, "%s: expected a text as padding_mode", called(l));
            return;
        }
        x = conv_padded(l, rank, fx_intern(l->ctx, mode->s));
        padding = fx_lg_int(l, 0);
    } else if (padding->kind == FX_ARG_STR) {
        if (rank == 3) {
            fx_lg_refuse(l, "%s: padding \"%s\" is not supported", called(l), padding->s);
            return;
        }
        op = rank == 1 ? FX_OP_conv1d_padding : FX_OP_conv2d_padding;
    }
    FX_LG_BECOME(l, op, x, fx_lg_attr(l, "weight"), fx_lg_attr(l, "bias"), fx_lg_arg(l, "stride"), padding, fx_lg_arg(l, "dilation"),
                 fx_lg_arg(l, "groups"));
}

/* Negative padding_idx counts from the end; it matters to gradients only. */
void fx_lg_embedding(fx_lg *l)
{
    const fx_arg *pad = fx_lg_arg(l, "padding_idx");
    FX_LG_BECOME(l, FX_OP_embedding, fx_lg_attr(l, "weight"), l->bound[0], is_none(pad) ? fx_lg_int(l, -1) : pad);
}

/* softmax(q k^T / sqrt(d)) v */
void fx_lg_attention(fx_lg *l)
{
    const fx_arg *q = l->bound[0], *k = l->bound[1], *v = l->bound[2], *scale = fx_lg_arg(l, "scale");
    const fx_type *t = fx_lg_type(l, q);
    if (!t || t->rank < 2 || t->dims[t->rank - 1].sym || t->dims[t->rank - 1].value == 0) {
        fx_lg_refuse(l, "%s: expected a query of at least two dims of known size", called(l));
        return;
    }
    double by = is_none(scale) ? 1 / sqrt((double)t->dims[t->rank - 1].value) : scale->f;
    const fx_arg *kt = FX_LG_EMIT(l, "key", FX_OP_transpose_int, k, fx_lg_int(l, -2), fx_lg_int(l, -1));
    const fx_arg *scores = FX_LG_EMIT(l, "scores", FX_OP_matmul, q, kt);
    const fx_arg *scaled = FX_LG_EMIT(l, "scaled", FX_OP_mul_Tensor, scores, fx_lg_float(l, by));
    const fx_arg *weights = FX_LG_EMIT(l, "weights", FX_OP_softmax_int, scaled, fx_lg_int(l, -1));
    FX_LG_BECOME(l, FX_OP_matmul, weights, v);
}

/* ---- norms ------------------------------------------------------------------------------------------------------------------ */

void fx_lg_batch_norm(fx_lg *l)
{
    bool training = fx_lg_true(l, "training");
    /* A module in training counts its calls, too. */
    if (training && l->module)
        refuse_training(l);
    const fx_arg *mean = fx_lg_attr(l, "running_mean"), *var = fx_lg_attr(l, "running_var");
    if (!training && (is_none(mean) || is_none(var)))
        fx_lg_refuse(l, "%s has no running statistics (track_running_stats=False)", called(l));
    const fx_arg *momentum = fx_lg_arg(l, "momentum");
    FX_LG_BECOME(l, FX_OP_batch_norm, l->bound[0], fx_lg_attr(l, "weight"), fx_lg_attr(l, "bias"), mean, var, fx_lg_bool(l, training),
                 is_none(momentum) ? fx_lg_float(l, 0) : momentum, fx_lg_arg(l, "eps"), fx_lg_bool(l, true));
}

/* A group norm of one channel a group; with running statistics, a batch norm. */
void fx_lg_instance_norm(fx_lg *l)
{
    const fx_type *t = fx_lg_type(l, l->bound[0]);
    bool tracks = l->module && !is_none(fx_lg_attr(l, "running_mean"));
    const fx_class *c = l->module ? fx_class_find(l->module->class_name) : NULL;
    int rank = !c ? 0 : c->id == FX_MODULE_InstanceNorm1d ? 3 : c->id == FX_MODULE_InstanceNorm2d ? 4 : 5;
    if (tracks && fx_lg_true(l, "training"))
        refuse_training(l);
    else if (!t || t->rank < 2 || (rank && t->rank != rank) || t->dims[1].sym)
        fx_lg_refuse(l, "%s: expected a batch (N, C, ...) of known channels", called(l));
    if (l->status != FX_OK)
        return;
    if (tracks)
        fx_lg_batch_norm(l);
    else
        FX_LG_BECOME(l, FX_OP_group_norm, l->bound[0], fx_lg_int(l, t->dims[1].value), fx_lg_attr(l, "weight"), fx_lg_attr(l, "bias"),
                     fx_lg_arg(l, "eps"));
}

/* x / sqrt(mean(x^2) + eps) * weight over the last dims. */
void fx_lg_rms_norm(fx_lg *l)
{
    const fx_arg *x = l->bound[0], *shape = fx_lg_arg(l, "normalized_shape"), *eps = fx_lg_arg(l, "eps");
    const fx_type *t = fx_lg_type(l, x);
    int n = shape && (shape->kind == FX_ARG_LIST || shape->kind == FX_ARG_TUPLE) ? shape->n : 1;
    bool fits = t && shape && n > 0 && n <= t->rank && (t->dtype == FX_F32 || t->dtype == FX_F64);
    int64_t dims[FX_MAX_RANK];
    for (int i = 0; fits && i < n; i++) {
        const fx_arg *size = shape->n ? shape->items[i] : shape;
        dims[i] = t->rank - n + i;
        fits = size->kind == FX_ARG_INT && !t->dims[dims[i]].sym && t->dims[dims[i]].value == size->i;
    }
    if (!fits) {
        fx_lg_refuse(l, "%s: expected float32 or float64 whose last dims are normalized_shape", called(l));
        return;
    }
    double least = t->dtype == FX_F32 ? 0x1p-23 : 0x1p-52; /* torch.finfo(dtype).eps */
    const fx_arg *weight = fx_lg_attr(l, "weight");
    const fx_arg *square = FX_LG_EMIT(l, "square", FX_OP_pow_Tensor_Scalar, x, fx_lg_int(l, 2));
    const fx_arg *mean = FX_LG_EMIT(l, "mean", FX_OP_mean_dim, square, fx_arg_ints(l->ctx, n, dims), fx_lg_bool(l, true));
    const fx_arg *more = FX_LG_EMIT(l, "add", FX_OP_add_Tensor, mean, is_none(eps) ? fx_lg_float(l, least) : eps);
    const fx_arg *by = FX_LG_EMIT(l, "rsqrt", FX_OP_rsqrt, more);
    if (is_none(weight)) {
        FX_LG_BECOME(l, FX_OP_mul_Tensor, x, by);
    } else {
        const fx_arg *normal = FX_LG_EMIT(l, "normal", FX_OP_mul_Tensor, x, by);
        FX_LG_BECOME(l, FX_OP_mul_Tensor, normal, weight);
    }
}

/* ---- activations ------------------------------------------------------------------------------------------------------------- */

void fx_lg_selu(fx_lg *l)
{
    FX_LG_BECOME(l, FX_OP_elu, l->bound[0], fx_lg_float(l, 1.6732632423543772848170429916717), fx_lg_float(l, 1.0507009873554804934193349852946));
}

void fx_lg_celu(fx_lg *l)
{
    const fx_arg *alpha = fx_lg_arg(l, "alpha");
    if (alpha->kind != FX_ARG_FLOAT || alpha->f == 0) {
        fx_lg_refuse(l, "%s: expected an alpha that is not 0", called(l));
        return;
    }
    FX_LG_BECOME(l, FX_OP_elu, l->bound[0], alpha, fx_lg_float(l, 1), fx_lg_float(l, 1 / alpha->f));
}

void fx_lg_softsign(fx_lg *l)
{
    const fx_arg *size = FX_LG_EMIT(l, "abs", FX_OP_abs, l->bound[0]);
    const fx_arg *more = FX_LG_EMIT(l, "add", FX_OP_add_Tensor, size, fx_lg_int(l, 1));
    FX_LG_BECOME(l, FX_OP_div_Tensor, l->bound[0], more);
}

void fx_lg_tanhshrink(fx_lg *l)
{
    const fx_arg *tanh_x = FX_LG_EMIT(l, "tanh", FX_OP_tanh, l->bound[0]);
    FX_LG_BECOME(l, FX_OP_sub_Tensor, l->bound[0], tanh_x);
}

/* -log(1 + exp(-x)) */
void fx_lg_log_sigmoid(fx_lg *l)
{
    const fx_arg *minus = FX_LG_EMIT(l, "neg", FX_OP_neg, l->bound[0]);
    const fx_arg *soft = FX_LG_EMIT(l, "softplus", FX_OP_softplus, minus);
    FX_LG_BECOME(l, FX_OP_neg, soft);
}

/* The first half times the sigmoid of the second. */
void fx_lg_glu(fx_lg *l)
{
    const fx_arg *dim = fx_lg_arg(l, "dim");
    const fx_type *t = fx_lg_type(l, l->bound[0]);
    int64_t at = dim->i < 0 && t ? dim->i + t->rank : dim->i;
    if (!t || at < 0 || at >= t->rank || t->dims[at].sym || t->dims[at].value % 2) {
        fx_lg_refuse(l, "%s: expected an even size of dim %lld", called(l), (long long)dim->i);
        return;
    }
    int64_t half = t->dims[at].value / 2;
    const fx_arg *a = FX_LG_EMIT(l, "a", FX_OP_slice_Tensor, l->bound[0], dim, fx_lg_int(l, 0), fx_lg_int(l, half));
    const fx_arg *b = FX_LG_EMIT(l, "b", FX_OP_slice_Tensor, l->bound[0], dim, fx_lg_int(l, half), fx_lg_int(l, 2 * half));
    const fx_arg *gate = FX_LG_EMIT(l, "gate", FX_OP_sigmoid, b);
    FX_LG_BECOME(l, FX_OP_mul_Tensor, a, gate);
}

/* A random slope in training, its mean otherwise. */
void fx_lg_rrelu(fx_lg *l)
{
    const fx_arg *lower = fx_lg_arg(l, "lower"), *upper = fx_lg_arg(l, "upper");
    if (fx_lg_true(l, "training"))
        refuse_training(l);
    FX_LG_BECOME(l, FX_OP_leaky_relu, l->bound[0], fx_lg_float(l, (lower->f + upper->f) / 2));
}

/* value where x <= threshold; NaN stays. */
void fx_lg_threshold(fx_lg *l)
{
    if (l->inplace)
        fx_lg_refuse(l, "%s: inplace=True is not supported", called(l));
    const fx_arg *low = FX_LG_EMIT(l, "le", FX_OP_le_Scalar, l->bound[0], fx_lg_arg(l, "threshold"));
    FX_LG_BECOME(l, FX_OP_where_ScalarSelf, low, fx_lg_arg(l, "value"), l->bound[0]);
}

/* 0 where |x| <= lambd; NaN stays. */
void fx_lg_hardshrink(fx_lg *l)
{
    const fx_arg *size = FX_LG_EMIT(l, "abs", FX_OP_abs, l->bound[0]);
    const fx_arg *small = FX_LG_EMIT(l, "le", FX_OP_le_Scalar, size, fx_lg_arg(l, "lambd"));
    FX_LG_BECOME(l, FX_OP_where_ScalarSelf, small, fx_lg_float(l, 0), l->bound[0]);
}

/* x moved by lambd towards 0, where it stays. */
void fx_lg_softshrink(fx_lg *l)
{
    const fx_arg *lambd = fx_lg_arg(l, "lambd");
    const fx_arg *inner = FX_LG_EMIT(l, "clamp", FX_OP_clamp, l->bound[0], fx_lg_float(l, -lambd->f), lambd);
    FX_LG_BECOME(l, FX_OP_sub_Tensor, l->bound[0], inner);
}

static bool softmax_dim(fx_lg *l, const fx_arg **dim)
{
    *dim = fx_lg_arg(l, "dim");
    if (is_none(*dim))
        fx_lg_refuse(l, "%s: expected a dim, got None", called(l));
    return !is_none(*dim);
}

void fx_lg_softmax(fx_lg *l)
{
    const fx_arg *dim;
    if (softmax_dim(l, &dim))
        FX_LG_BECOME(l, l->row->op, l->bound[0], dim, l->module ? NULL : fx_lg_arg(l, "dtype"));
}

void fx_lg_softmin(fx_lg *l)
{
    const fx_arg *dim;
    if (!softmax_dim(l, &dim))
        return;
    const fx_arg *minus = FX_LG_EMIT(l, "neg", FX_OP_neg, l->bound[0]);
    FX_LG_BECOME(l, FX_OP_softmax_int, minus, dim, l->module ? NULL : fx_lg_arg(l, "dtype"));
}

void fx_lg_softmax2d(fx_lg *l)
{
    FX_LG_BECOME(l, FX_OP_softmax_int, l->bound[0], fx_lg_int(l, -3));
}

/* ---- pools and sizes ------------------------------------------------------------------------------------------------------------ */

/* None keeps the input's size. */
void fx_lg_adaptive_pool(fx_lg *l)
{
    const fx_arg *size = fx_lg_arg(l, "output_size"), *items[2];
    const fx_type *t = fx_lg_type(l, l->bound[0]);
    int n = l->row->op == FX_OP_adaptive_avg_pool1d ? 1 : 2;
    if (!size || !t || t->rank < n) {
        fx_lg_refuse(l, "%s: expected an output_size and an input of at least %d dims", called(l), n);
        return;
    }
    for (int i = 0; i < n; i++) {
        const fx_arg *one = size->kind != FX_ARG_LIST ? size : size->n ? size->items[i < size->n ? i : 0] : NULL;
        fx_dim have = t->dims[t->rank - n + i];
        if (!is_none(one))
            items[i] = one;
        else if (have.sym)
            items[i] = fx_arg_sym(l->ctx, have.sym);
        else
            items[i] = fx_lg_int(l, have.value);
    }
    const fx_arg *sizes = fx_arg_seq(l->ctx, FX_ARG_LIST, n, items);
    if (l->row->op != FX_OP_adaptive_max_pool2d) {
        FX_LG_BECOME(l, l->row->op, l->bound[0], sizes);
        return;
    }
    const fx_arg *both = FX_LG_EMIT(l, "pair", FX_OP_adaptive_max_pool2d, l->bound[0], sizes);
    FX_LG_BECOME(l, FX_OP_getitem, both, fx_lg_int(l, 0));
}

/* size and scale_factor as lists of n; whether one of them is given. */
static bool resize_lists(fx_lg *l, int n, const fx_arg **size, const fx_arg **scale)
{
    const fx_arg *given[2] = {fx_lg_arg(l, "size"), fx_lg_arg(l, "scale_factor")}, *lists[2];
    for (int k = 0; k < 2; k++) {
        const fx_arg *items[3], *a = given[k];
        lists[k] = NULL;
        if (is_none(a))
            continue;
        bool list = a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE;
        for (int i = 0; i < n; i++) {
            const fx_arg *one = !list ? a : a->n == n ? a->items[i] : NULL;
            bool fits = one && (one->kind == FX_ARG_INT || (k == 1 && one->kind == FX_ARG_FLOAT));
            if (!fits) {
                fx_lg_refuse(l, "%s: expected %s to be a number or %d of them", called(l), k ? "scale_factor" : "size", n);
                return false;
            }
            items[i] = k == 1 && one->kind == FX_ARG_INT ? fx_lg_float(l, (double)one->i) : one;
        }
        lists[k] = fx_arg_seq(l->ctx, FX_ARG_LIST, n, items);
    }
    *size = lists[0];
    *scale = lists[1];
    if (!*size == !*scale)
        fx_lg_refuse(l, "%s: expected one of size and scale_factor", called(l));
    return l->status == FX_OK;
}

void fx_lg_interpolate(fx_lg *l)
{
    const fx_class *c = l->module ? fx_class_find(l->module->class_name) : NULL;
    const fx_arg *mode = fx_lg_arg(l, "mode"), *size, *scale, *x = l->bound[0];
    const fx_type *t = fx_lg_type(l, x);
    bool nearest = c && c->id == FX_MODULE_UpsamplingNearest2d, bilinear = c && c->id == FX_MODULE_UpsamplingBilinear2d;
    bool corners = bilinear || fx_lg_true(l, "align_corners");
    nearest |= is_text(mode, "nearest");
    bilinear |= is_text(mode, "bilinear");
    if (!nearest && !bilinear) {
        fx_lg_refuse(l, "%s: mode \"%.40s\" is not supported, \"nearest\" and \"bilinear\" are", called(l),
                     mode && mode->kind == FX_ARG_STR ? mode->s : "?");
        return;
    }
    if (!t || t->rank != 4 || (nearest && corners)) {
        fx_lg_refuse(l, !t || t->rank != 4 ? "%s: expected pictures (N, C, H, W)" : "%s: align_corners does not go with \"nearest\"", called(l));
        return;
    }
    if (!resize_lists(l, 2, &size, &scale))
        return;
    if (scale && fx_lg_true(l, "recompute_scale_factor")) { /* the scales are those of the sizes, then */
        const fx_arg *items[2];
        for (int i = 0; i < 2; i++) {
            if (t->dims[2 + i].sym) {
                fx_lg_refuse(l, "%s: recompute_scale_factor of dynamic sizes is not supported", called(l));
                return;
            }
            double size_i = floor((double)t->dims[2 + i].value * scale->items[i]->f);
            if (!(size_i >= 1 && size_i < 0x1p62)) {
                fx_lg_refuse(l, "%s: expected a scale_factor that gives a size", called(l));
                return;
            }
            items[i] = fx_lg_int(l, (int64_t)size_i);
        }
        size = fx_arg_seq(l->ctx, FX_ARG_LIST, 2, items);
        scale = NULL;
    }
    if (nearest)
        FX_LG_BECOME(l, FX_OP_upsample_nearest2d_vec, x, size, scale);
    else
        FX_LG_BECOME(l, FX_OP_upsample_bilinear2d_vec, x, size, fx_lg_bool(l, corners), scale);
}

void fx_lg_pad(fx_lg *l)
{
    const char *name = strrchr(l->module->class_name, '.') + 1;
    const char *mode = name[0] == 'R' ? (name[2] == 'f' ? "reflect" : "replicate") : "constant";
    const fx_arg *value = fx_lg_arg(l, "value");
    if (value && value->kind == FX_ARG_INT)
        value = fx_lg_float(l, (double)value->i);
    FX_LG_BECOME(l, FX_OP_pad, l->bound[0], fx_lg_arg(l, "padding"), fx_arg_text(l->ctx, FX_ARG_STR, fx_intern(l->ctx, mode)), value);
}

/* ---- nothing, in evaluation mode ------------------------------------------------------------------------------------------------- */

void fx_lg_dropout(fx_lg *l)
{
    const fx_arg *p = fx_lg_arg(l, "p");
    if (fx_lg_true(l, "training") && !(p && p->kind == FX_ARG_FLOAT && p->f == 0))
        refuse_training(l);
    FX_LG_BECOME(l, FX_OP_dropout, l->bound[0], p, fx_lg_bool(l, false));
}

void fx_lg_identity(fx_lg *l)
{
    fx_lg_same(l, l->bound[0]);
}

void fx_lg_assert(fx_lg *l)
{
    if (!fx_lg_true(l, "condition"))
        fx_lg_refuse(l, "the condition of an assertion does not hold, or is no constant");
    fx_lg_value(l, fx_arg_none(l->ctx));
}
