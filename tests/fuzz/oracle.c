/* tests/fuzz/oracle.c: what a graph has to compute, and how near a result must come.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Values are the reference interpreter's. Everything is asked for bit for bit but what the design allows: sums may be taken in any
 * order and weights folded (contractions, reductions, norms, pools), and transcendental functions are right within some ulp. From such
 * nodes on, each element carries a bound. An op's own error is measured by its sensitivity: it is evaluated again on operands changed in
 * their last places. Errors of operands go through an op likewise: it is evaluated on operands moved to the ends of their bounds.
 * Steps (floor, comparisons, conversions) so get wide bounds exactly where an operand is near one. */
#include <float.h>
#include <math.h>

#include "ir/ops.h"
#include "passes/rewrite.h"
#include "tests/fuzz/fuzz.h"

enum { SAMPLES = 6, OWN_SAMPLES = 6 };

/* ---- what ops may do --------------------------------------------------------------------------------------------------------- */

/* Pointwise functions that are not correctly rounded, by name without overload: the most ulp of the result; WIDE: also of the greatest
 * operand, where the function cancels; INNER: it rounds a product inside, which is as if the operand moved; FADES: it is an operand times what may be
 * too small for a normal number, and is then 0 in eager too (silu of -90 in float32: exp(90) is infinite). */
typedef enum how { PLAIN, WIDE, INNER, FADES } how;
static const struct {
    const char *name;
    double ulp;
    how how;
} functions[] = {
    {"sigmoid", 4, PLAIN}, {"tanh", 4, PLAIN}, {"exp", 3, PLAIN}, {"expm1", 3, PLAIN}, {"log", 2, PLAIN}, {"log1p", 2, PLAIN}, {"erf", 4, PLAIN},
    {"sin", 2, PLAIN}, {"cos", 2, PLAIN}, {"silu", 4, FADES}, {"mish", 6, FADES}, {"gelu", 4, WIDE}, {"elu", 5, PLAIN}, {"softplus", 5, INNER},
    {"pow", 3, PLAIN}, {"_native_batch_norm_legit_no_training", 4, WIDE}, {"batch_norm", 4, WIDE}, {"selu", 5, PLAIN}, {"celu", 5, PLAIN},
    {"log_sigmoid", 5, PLAIN}, {"erfc", 4, PLAIN}, {"exp2", 3, PLAIN}, {"log2", 2, PLAIN}, {"log10", 2, PLAIN}, {"tan", 3, PLAIN}, {"asin", 3, PLAIN},
    {"acos", 3, PLAIN}, {"atan", 3, PLAIN}, {"sinh", 3, PLAIN}, {"cosh", 3, PLAIN}, {"asinh", 3, PLAIN}, {"acosh", 3, PLAIN}, {"atanh", 3, PLAIN},
    {"lgamma", 5, WIDE}, {"logit", 4, WIDE}, {"atan2", 3, PLAIN}, {"hypot", 2, PLAIN}, {"xlogy", 4, PLAIN}, {"glu", 6, FADES}, {"cosine_similarity", 8, PLAIN}, {"logaddexp", 6, PLAIN},
    {"gelu_backward", 8, WIDE}, {"softplus_backward", 8, INNER}, {"log_sigmoid_forward", 5, PLAIN}, {"glu_backward", 8, WIDE}, {"nll_loss_backward", 3, PLAIN},
    {"nll_loss2d_backward", 3, PLAIN},
    {"silu_backward", 12, WIDE}, {"mish_backward", 24, WIDE}, {"elu_backward", 6, INNER},
};

static int function_of(const fx_op *op)
{
    const char *name = strchr(op->name, '.');
    size_t n = name ? strcspn(name + 1, ".") : 0;
    for (size_t i = 0; name && i < sizeof functions / sizeof functions[0]; i++)
        if (strlen(functions[i].name) == n && !strncmp(functions[i].name, name + 1, n))
            return (int)i;
    return -1;
}

/* Which of two equal zeros the greater is depends on the width of eager's vectors: the sign is free. */
static bool zero_is_free(const fx_op *op)
{
    static const char *const names[] = {"aten.maximum", "aten.minimum", "aten.amax", "aten.amin", "aten.max", "aten.min", "aten.adaptive_max", "aten.fmax", "aten.fmin", "aten.topk",
                                        "aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strncmp(op->name, names[i], strlen(names[i])))
            return true;
    return false;
}

/* Functions that go up and down, or have poles: where samples tell results apart by much, those between may be anything. */
static bool is_periodic(const fx_op *op)
{
    static const char *const names[] = {"aten.fmod", "aten.remainder", "aten.sin.", "aten.cos.", "aten.tan.", "aten.frac", "aten.lgamma"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strncmp(op->name, names[i], strlen(names[i])))
            return true;
    return false;
}

/* Sums over several elements, in whatever order. */
static bool is_sum(const fx_op *op)
{
    static const char *const exact[] = {"max", "min", "nearest", "any", "all", "sort", "topk"};
    static const char *const sums[] = {"cumsum", "cumprod", "scatter_add", "scatter_reduce", "index_add", "einsum", "std", "var", "logsumexp", "norm", "attention", "aten.tensordot", "aten.dist", "linspace",
                                       "nll_loss_forward", "nll_loss2d_forward", "embedding_dense"};
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++)
        if (strstr(op->name, exact[i]) && op->cls != FX_CLASS_NORM && !strstr(op->name, "_backward."))
            return false;
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        if (strstr(op->name, sums[i]))
            return true;
    return op->cls == FX_CLASS_CONTRACTION || op->cls == FX_CLASS_NORM || op->cls == FX_CLASS_POOL || op->cls == FX_CLASS_REDUCTION;
}

static double eps_of(fx_dtype d)
{
    return d == FX_F64 ? 0x1p-52 : d == FX_F16 ? 0x1p-10 : d == FX_BF16 ? 0x1p-7 : 0x1p-23;
}

static double ulp_of(fx_dtype d, double v)
{
    double least = d == FX_F64 ? 0x1p-1074 : d == FX_F16 ? 0x1p-24 : d == FX_BF16 ? 0x1p-133 : 0x1p-149;
    double u = fabs(v) * eps_of(d);
    return u > least ? u : least;
}

/* ---- evaluation with errors -------------------------------------------------------------------------------------------------- */

typedef struct value {
    int n;
    fx_tensor t[16];
    double *error[16];           /* NULL: exact */
} value;

typedef struct oracle {
    fz_case *c;
    fx_context *ctx;
    fx_arena *arena;
    fz_rng rng;
    value **values;              /* by node id */
} oracle;

static double *new_errors(oracle *o, const fx_tensor *t)
{
    return FX_NEW_ARRAY(o->arena, double, fx_tensor_numel(t) + 1);
}

static value *value_of(oracle *o, const fx_node *n)
{
    return o->values[n->id];
}

static fx_tensor dense(oracle *o, const fx_tensor *t)
{
    fx_tensor d = {0};
    if (fx_tensor_create(o->ctx, t->dtype, t->rank, t->sizes, &d) != FX_OK)
        fx_out_of_memory(o->ctx);
    fx_tensor_assign(&d, t);
    return d;
}

/* v + by, by cut to a whole number, as near as int64 comes. */
static int64_t moved_int(int64_t v, double by)
{
    int64_t to;
    if (fabs(by) >= 0x1p63 || __builtin_add_overflow(v, (int64_t)by, &to))
        return by < 0 ? INT64_MIN : INT64_MAX;
    return to;
}

/* The operand moved by sample s: by its errors, or relatively by `relative`. Up, down, at random, neighbours against each other (of two elements
 * that make a mean, random signs are the same too often), at random. */
static fx_tensor moved(oracle *o, const fx_tensor *t, const double *error, double relative, int s)
{
    fx_tensor d = dense(o, t);
    for (int64_t i = 0; i < fx_tensor_numel(&d); i++) {
        double v = fx_tensor_get(&d, i), by = error ? error[i] : relative * fabs(v);
        if (!isfinite(v) || by == 0)
            continue;
        if (s > 1 ? s == 3 ? i % 2 : fz_below(&o->rng, 2) : s)
            by = -by;
        if (s == 2 && fabs(v) <= fabs(by)) /* it may be 0, which is a step for much */
            by = -v;
        if (fx_dtype_is_float(d.dtype))
            fx_tensor_set(&d, i, v + by);
        else if (d.dtype == FX_BOOL)
            fx_tensor_set_int(&d, i, v + by >= 0.5);
        else
            fx_tensor_set_int(&d, i, moved_int(fx_tensor_get_int(t, i), by));
    }
    return d;
}

/* Widens error[] of each result of n by how far it moves when operands do. False: it cannot be told. */
static bool sensitivity(oracle *o, const fx_node *n, const value *v, double relative, int samples, double **error)
{
    for (int s = 0; s < samples; s++) {
        const fx_tensor *in[256];
        fx_tensor out[16], *other = FX_NEW_ARRAY(o->arena, fx_tensor, n->n_operands + 1);
        int n_out = 0;
        size_t said = fx_diag_count(o->ctx);
        for (int i = 0; i < n->n_operands; i++) {
            const value *a = value_of(o, n->operands[i].def);
            /* an integer sum in floats rounds: large integers move, indices are too small for it */
            bool move = relative > 0 ? a->t[0].dtype != FX_BOOL : a->error[0] != NULL;
            other[i] = move ? moved(o, &a->t[0], relative > 0 ? NULL : a->error[0], relative, s) : a->t[0];
            in[i] = &other[i];
        }
        fx_status status = fx_node_eval(n, in, out, 16, &n_out);
        fx_diag_truncate(o->ctx, said);
        if (status != FX_OK)
            return false;
        for (int k = 0; k < v->n; k++)
            for (int64_t i = 0; i < fx_tensor_numel(&v->t[k]); i++) {
                double a = fx_tensor_get(&v->t[k], i), b = fx_tensor_get(&out[k], i), by = 1.5 * fabs(a - b);
                if (isnan(a) != isnan(b) || (isinf(a) || isinf(b) ? !isnan(a) && a != b : false))
                    error[k][i] = INFINITY;
                else if (isfinite(a) && by > error[k][i])
                    error[k][i] = by;
            }
    }
    return true;
}

/* Halves are too coarse to be moved by what a sum's float32 steps lose: error[0] grows by that part of the sum over magnitudes. One that is infinite
 * as a half may be anything to what follows: a kernel's tail has it in float32, where it need not be. */
static void widen_half_sum(oracle *o, const fx_node *n, const value *v, double relative)
{
    const fx_tensor *in[256];
    fx_tensor out[16], *size = FX_NEW_ARRAY(o->arena, fx_tensor, n->n_operands + 1);
    int n_out = 0;
    size_t said = fx_diag_count(o->ctx);
    for (int i = 0; i < n->n_operands; i++) {
        size[i] = value_of(o, n->operands[i].def)->t[0];
        if (fx_dtype_is_float(size[i].dtype)) {
            size[i] = dense(o, &size[i]);
            for (int64_t k = 0; k < fx_tensor_numel(&size[i]); k++)
                fx_tensor_set(&size[i], k, fabs(fx_tensor_get(&size[i], k)));
        }
        in[i] = &size[i];
    }
    bool good = fx_node_eval(n, in, out, 16, &n_out) == FX_OK;
    fx_diag_truncate(o->ctx, said);
    for (int64_t i = 0; i < fx_tensor_numel(&v->t[0]); i++) {
        double sum = good ? fx_tensor_get(&out[0], i) : INFINITY;
        if (isfinite(fx_tensor_get(&v->t[0], i)))
            v->error[0][i] += isfinite(sum) ? relative * sum : INFINITY;
        else if (v->t[0].dtype == FX_F16 && isinf(fx_tensor_get(&v->t[0], i)))
            v->error[0][i] = INFINITY;
    }
}

static double largest(const fx_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < fx_tensor_numel(t); i++) {
        double v = fabs(fx_tensor_get(t, i));
        if (isfinite(v) && v > most)
            most = v;
    }
    return most;
}

/* By ulps of the values and what comes on top. Where exponentials are in play, what lies below the normal numbers is free; with `times`, what such
 * a number times an element of it is: as many of them as results, or (glu) twice as many, the first half of dim. */
static void widen(const fx_tensor *t, double *error, double ulps, double floor, const fx_tensor *times, int64_t dim)
{
    double least = t->dtype == FX_F64 ? DBL_MIN : t->dtype == FX_F16 ? 0x1p-24 : FLT_MIN;
    int64_t n = fx_tensor_numel(t), block = 1, stride = 1;
    if (times && fx_tensor_numel(times) == 2 * n) {
        for (int64_t d = t->rank - 1; d >= (dim < 0 ? dim + t->rank : dim); d--)
            block *= t->sizes[d];
        stride = 2;
    }
    for (int64_t i = 0; i < n; i++) {
        double v = fx_tensor_get(t, i), by = times ? fmax(1, fabs(fx_tensor_get(times, i / block * block * stride + i % block))) : 1;
        if (isfinite(v))
            error[i] += ulps * ulp_of(t->dtype, v) + floor + (ulps > 2 && fabs(v) < by * least ? by * least : 0);
    }
}

static bool has_zero(const fx_tensor *t)
{
    for (int64_t i = 0; i < fx_tensor_numel(t); i++)
        if (fx_tensor_get(t, i) == 0)
            return true;
    return false;
}

static void free_zeros(oracle *o, value *v)
{
    v->error[0] = new_errors(o, &v->t[0]);
    for (int64_t i = 0; i < fx_tensor_numel(&v->t[0]); i++)
        v->error[0][i] = fx_tensor_get(&v->t[0], i) == 0 ? ulp_of(v->t[0].dtype, 0) : 0;
}

/* Whether two elements of an operand may be equal, or come in the other order within their errors; `exact`: also those that are equal
 * without any error. */
static bool has_ties(const value *a, bool exact)
{
    const fx_tensor *x = &a->t[0];
    for (int64_t i = 0; i < fx_tensor_numel(x); i++)
        for (int64_t k = 0; k < i; k++) {
            double p = fx_tensor_get(x, i), q = fx_tensor_get(x, k), by = a->error[0] ? a->error[0][i] + a->error[0][k] : 0;
            if (exact && isnan(p) && isnan(q))
                return true;
            if ((exact || by > 0) && (p == q || fabs(p - q) <= by))
                return true;
        }
    return false;
}

/* Places found by comparing elements: where elements tie, which it is is free. */
static void free_ties(oracle *o, const fx_node *n, value *v)
{
    static const char *const names[] = {"sort", "topk", "aten.argm", "aten.max.dim", "aten.min.dim", "aten.median", "aten.mode", "kthvalue"};
    bool places = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        places |= strstr(n->op->name, names[i]) != NULL;
    const value *a = places ? value_of(o, n->operands[0].def) : NULL;
    int k = v->n - 1;
    if (!places || fx_dtype_is_float(v->t[k].dtype) || !has_ties(a, strstr(n->op->name, "topk") != NULL))
        return;
    v->error[k] = new_errors(o, &v->t[k]);
    for (int64_t i = 0; i < fx_tensor_numel(&v->t[k]); i++)
        v->error[k][i] = INFINITY;
}

/* What a value is compared with for being equal, or is tested for being 0, it may be anywhere within its error: samples at the ends of the error
 * do not meet the one point between. */
static bool meets(const value *x, const value *y, double point, int64_t i, int64_t count)
{
    int64_t n = fx_tensor_numel(&x->t[0]), m = y ? fx_tensor_numel(&y->t[0]) : 1;
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < m; j++) {
            if ((n == count && k != i) || (y && m == count && j != i)) /* else of another shape: any may be what it is compared with */
                continue;
            double by = (x->error[0] ? x->error[0][k] : 0) + (y && y->error[0] ? y->error[0][j] : 0);
            if (by > 0 && fabs(fx_tensor_get(&x->t[0], k) - (y ? fx_tensor_get(&y->t[0], j) : point)) <= by)
                return true;
        }
    return false;
}

static void free_points(oracle *o, const fx_node *n, value *v)
{
    static const char *const equal[] = {"aten.eq.", "aten.eq_.", "aten.ne.", "aten.ne_."}, *const zero[] = {"aten.logical_", "aten.any", "aten.all.", "aten.to.", "aten._to_copy", "aten.count_nonzero"};
    bool equals = false, zeros = false;
    for (size_t i = 0; i < sizeof equal / sizeof equal[0]; i++)
        equals |= !strncmp(n->op->name, equal[i], strlen(equal[i]));
    for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++)
        zeros |= !strncmp(n->op->name, zero[i], strlen(zero[i])) && !fx_dtype_is_float(v->t[0].dtype);
    int64_t count = fx_tensor_numel(&v->t[0]);
    for (int64_t i = 0; (equals || zeros) && i < count; i++) {
        bool free = false;
        if (equals)
            free = meets(value_of(o, n->operands[0].def), n->n_operands > 1 ? value_of(o, n->operands[1].def) : NULL, n->n_operands > 1 ? 0 : fx_node_float(n, 1), i, count);
        for (int k = 0; zeros && !free && k < n->n_operands; k++)
            free = meets(value_of(o, n->operands[k].def), NULL, 0, i, count);
        if (free)
            v->error[0][i] = INFINITY;
    }
}

static void know_nothing(oracle *o, value *v)
{
    for (int k = 0; k < v->n; k++) {
        if (!v->error[k])
            v->error[k] = new_errors(o, &v->t[k]);
        for (int64_t i = 0; i < fx_tensor_numel(&v->t[k]); i++)
            v->error[k][i] = INFINITY;
    }
}

/* The period of such a function at element i. */
static double period_of(const fx_node *n, const value *divisor, int64_t i, int64_t count)
{
    if (strncmp(n->op->name, "aten.fmod", 9) && strncmp(n->op->name, "aten.remainder", 14))
        return 1;
    if (!divisor)
        return fabs(fx_node_float(n, 1));
    const fx_tensor *t = &divisor->t[0];
    if (fx_tensor_numel(t) == count)
        return fabs(fx_tensor_get(t, i));
    double least = INFINITY;
    for (int64_t k = 0; k < fx_tensor_numel(t); k++)
        least = fmin(least, fabs(fx_tensor_get(t, k)));
    return least;
}

/* Whether the operand of a periodic function may move by a good part of the period at element i: samples need not show it. */
static bool wanders(oracle *o, const fx_node *n, const value *v, int64_t i)
{
    const value *x = value_of(o, n->operands[0].def), *by = n->n_operands > 1 ? value_of(o, n->operands[1].def) : NULL;
    int64_t count = fx_tensor_numel(&v->t[0]);
    double error = 0;
    for (int64_t k = 0; x->error[0] && k < fx_tensor_numel(&x->t[0]); k++)
        if (fx_tensor_numel(&x->t[0]) != count || k == i)
            error = fmax(error, x->error[0][k]);
    return error > 0.05 * period_of(n, by, i, count);
}

static bool has_negative_base(oracle *o, const fx_node *n)
{
    if (!strncmp(n->op->name, "aten.pow.Scalar", 15))
        return fx_node_float(n, 0) < 0;
    const fx_tensor *t = &value_of(o, n->operands[0].def)->t[0];
    for (int64_t i = 0; i < fx_tensor_numel(t); i++)
        if (fx_tensor_get(t, i) < 0)
            return true;
    return false;
}

/* Whether factors, taken in some order, may leave the range though their product does not. */
static bool overflows(oracle *o, const fx_node *n)
{
    const fx_tensor *x = &value_of(o, n->operands[0].def)->t[0];
    double up = 0, down = 0;
    for (int64_t i = 0; i < fx_tensor_numel(x); i++) {
        double a = fabs(fx_tensor_get(x, i));
        if (isfinite(a) && a > 0)
            *(a > 1 ? &up : &down) += fabs(log2(a));
    }
    return up > 100 || down > 100;
}

/* How many elements make one sum of a call of x, as a mean. Norms sum what their result has an element for each of. */
static double terms_of(const fx_node *n, const fx_tensor *x, const fx_tensor *out)
{
    bool groups = n->op->id == FX_OP_group_norm || n->op->id == FX_OP_native_group_norm;
    double all = (double)fx_tensor_numel(x);
    if ((groups || n->op->id == FX_OP_instance_norm) && x->rank >= 2 && all > 0) {
        int64_t parts = n->op->id == FX_OP_group_norm ? fx_node_int(n, 1) : groups ? fx_node_int(n, 6) : x->sizes[1];
        return all / (double)x->sizes[0] / (double)parts;
    }
    if (n->op->id == FX_OP_layer_norm || n->op->id == FX_OP_native_layer_norm || n->op->id == FX_OP_rms_norm) {
        const fx_arg *shape = fx_node_arg(n, 1);
        double row = 1;
        for (int i = x->rank - shape->n; i < x->rank; i++)
            row *= (double)x->sizes[i];
        return row;
    }
    return all / (double)(fx_tensor_numel(out) + 1);
}

/* Whether weights are so small that float32 loses digits of them and of their products: a mean over them is then anything. */
static bool has_tiny_weights(oracle *o, const fx_node *n)
{
    for (int k = 0; strstr(n->op->name, "nll_loss") && k < n->n_operands; k++) {
        const fx_tensor *t = &value_of(o, n->operands[k].def)->t[0];
        for (int64_t i = 0; fx_dtype_is_float(t->dtype) && i < fx_tensor_numel(t); i++) {
            double v = fabs(fx_tensor_get(t, i));
            if (v > 0 && v < 1e-30)
                return true;
        }
    }
    return false;
}

static double largest_input(oracle *o, const fx_node *n, int param)
{
    const fx_node *a = fx_node_input(n, param);
    return a ? largest(&value_of(o, a)->t[0]) : 0;
}

/* Whether the weights that a gradient of attention computes anew may leave float32: the sums of exponentials it is given are then not those of
 * its queries and keys. */
static bool weights_overflow(oracle *o, const fx_node *n)
{
    if (n->op->id != FX_OP__scaled_dot_product_flash_attention_for_cpu_backward)
        return false;
    const fx_tensor *q = &value_of(o, fx_node_input(n, 1))->t[0];
    double size = (double)q->sizes[q->rank - 1], scale = fx_node_is_none(n, 9) ? 1 / sqrt(fmax(size, 1)) : fabs(fx_node_float(n, 9));
    return size * scale * largest_input(o, n, 1) * largest_input(o, n, 2) + largest_input(o, n, 5) + largest_input(o, n, 8) > 80;
}

/* Errors of a call's results. */
static void find_errors(oracle *o, const fx_node *n, value *v)
{
    bool inexact = false, unknown = false, floats = false;
    double most = 0;
    for (int i = 0; i < n->n_operands; i++) {
        const value *a = value_of(o, n->operands[i].def);
        double here = largest(&a->t[0]);
        most = here > most ? here : most;
        inexact |= a->error[0] != NULL;
        for (int64_t k = 0; a->error[0] && k < fx_tensor_numel(&a->t[0]); k++)
            unknown |= isinf(a->error[0][k]);
    }
    for (int k = 0; k < v->n; k++)
        floats |= fx_dtype_is_float(v->t[k].dtype);
    double ulp = 0;
    bool sum = floats && is_sum(n->op);
    how how = PLAIN;
    int function = floats ? function_of(n->op) : -1;
    if (function >= 0) {
        ulp = functions[function].ulp;
        how = functions[function].how;
    }
    free_ties(o, n, v);
    if (floats && zero_is_free(n->op) && has_zero(&v->t[0]))
        free_zeros(o, v);
    bool sign = !strncmp(n->op->name, "aten.signbit", 12) || !strncmp(n->op->name, "aten.copysign", 13);
    if (!inexact && !sum && !sign && ulp == 0)
        return;
    for (int k = 0; k < v->n; k++)
        if (!v->error[k])
            v->error[k] = new_errors(o, &v->t[k]);
    /* A convolution may multiply an infinite weight by the zeros around its input, or not. */
    if (n->op->cls == FX_CLASS_CONTRACTION && strstr(n->op->name, "conv"))
        for (int64_t i = 0; n->n_operands > 1 && i < fx_tensor_numel(&value_of(o, n->operands[1].def)->t[0]); i++)
            unknown |= !isfinite(fx_tensor_get(&value_of(o, n->operands[1].def)->t[0], i));
    /* What only one side has is summed before it is multiplied: infinities meet in another order. So are keys without weight. */
    if (strstr(n->op->name, "tensordot") || strstr(n->op->name, "einsum") || strstr(n->op->name, "attention"))
        for (int k = 0; k < n->n_operands; k++) {
            const fx_tensor *t = &value_of(o, n->operands[k].def)->t[0];
            for (int64_t i = 0; i < fx_tensor_numel(t); i++)
                unknown |= !isfinite(fx_tensor_get(t, i));
        }
    /* The sign of a NaN is nobody's. */
    if (sign) {
        const value *a = value_of(o, n->operands[n->n_operands - 1].def);
        for (int64_t i = 0; i < fx_tensor_numel(&a->t[0]); i++)
            unknown |= isnan(fx_tensor_get(&a->t[0], i));
    }
    if (sign && !unknown && !inexact) {
        v->error[0] = NULL;
        return;
    }
    /* Large sums may leave the range on the way. */
    bool powers = strstr(n->op->name, "norm.") || strstr(n->op->name, "vector_norm");
    bool range = sum && (most > (v->t[0].dtype == FX_F64 ? 1e150 : powers ? 1e9 : 1e18) || (powers && most < (v->t[0].dtype == FX_F64 ? 1e-100 : 1e-12)) || (strstr(n->op->name, "prod") && overflows(o, n)));
    range |= has_tiny_weights(o, n) || weights_overflow(o, n);
    if (unknown || range || (inexact && !sensitivity(o, n, v, 0, SAMPLES, v->error))) {
        know_nothing(o, v);
        return;
    }
    if (inexact)
        free_points(o, n, v);
    if (is_periodic(n->op))
        for (int64_t i = 0; i < fx_tensor_numel(&v->t[0]); i++)
            if (v->error[0][i] > 1e-2 * fabs(fx_tensor_get(&v->t[0], i)) || wanders(o, n, v, i))
                v->error[0][i] = INFINITY;
    /* A power of a negative number is one only where the exponent is whole. */
    const value *exponent = n->n_operands ? value_of(o, n->operands[n->n_operands - 1].def) : NULL;
    if (!strncmp(n->op->name, "aten.pow.Scalar", 15) || !strncmp(n->op->name, "aten.pow.Tensor_Tensor", 22))
        if (exponent->error[0] && has_negative_base(o, n)) {
            know_nothing(o, v);
            return;
        }
    if (sum) {
        double eps = eps_of(v->t[0].dtype == FX_F64 ? FX_F64 : FX_F32);
        double terms = n->n_operands ? terms_of(n, &value_of(o, n->operands[0].def)->t[0], &v->t[0]) : 1;
        if (!sensitivity(o, n, v, (64 + terms / 4) * eps, OWN_SAMPLES, v->error)) {
            know_nothing(o, v);
            return;
        }
        if ((v->t[0].dtype == FX_F16 || v->t[0].dtype == FX_BF16) && (n->op->cls == FX_CLASS_CONTRACTION || n->op->cls == FX_CLASS_REDUCTION))
            widen_half_sum(o, n, v, (8 + terms / 4) * eps);
        for (int k = 0; k < v->n; k++)
            widen(&v->t[k], v->error[k], 4, 8 * eps * fmax(largest(&v->t[k]), strstr(n->op->name, "logsumexp") ? 1 : 0), NULL, 0); /* the sum is rounded near 1 */
        if (n->op->cls == FX_CLASS_NORM && !strstr(n->op->name, "softmax")) /* what infinities give depends on how moments are taken */
            for (int k = 0; k < v->n; k++)
                for (int64_t i = 0; i < fx_tensor_numel(&v->t[k]); i++)
                    if (!isfinite(fx_tensor_get(&v->t[k], i)))
                        v->error[k][i] = INFINITY;
    } else {
        if (how == INNER && !sensitivity(o, n, v, 2 * eps_of(v->t[0].dtype), OWN_SAMPLES, v->error))
            know_nothing(o, v);
        const fx_tensor *fades = how == FADES && v->t[0].dtype != FX_F16 ? &value_of(o, n->operands[0].def)->t[0] : NULL; /* float16 is computed in float32 */
        int64_t dim = n->op->id == FX_OP_glu ? fx_node_int(n, 1) : 0;
        for (int k = 0; k < v->n; k++)
            if (fx_dtype_is_float(v->t[k].dtype))
                widen(&v->t[k], v->error[k], ulp + 2 * inexact, how == WIDE ? ulp * ulp_of(v->t[k].dtype, most) : 0, fades, dim);
    }
}

static fx_status run_node(oracle *o, const fx_node *n, size_t *input)
{
    value *v = o->values[n->id] = FX_NEW(o->arena, value);
    switch (n->opcode) {
    case FX_PLACEHOLDER:
        v->n = 1;
        v->t[0] = o->c->in[(*input)++];
        return FX_OK;
    case FX_GET_ATTR: {
        fx_attr *a = fx_attr_find(n->graph, n->target);
        v->n = 1;
        FX_TRY(fx_tensor_touch(o->ctx, &a->tensor));
        v->t[0] = a->tensor;
        return FX_OK;
    }
    case FX_CALL_FUNCTION:
        break;
    default:
        return FX_OK;
    }
    if (n->op->id == FX_OP_getitem) {
        const value *from = value_of(o, n->operands[0].def);
        int64_t k = fx_node_int(n, 1);
        k = k < 0 ? k + from->n : k;
        v->n = 1;
        v->t[0] = from->t[k];
        v->error[0] = from->error[k];
        return FX_OK;
    }
    const fx_tensor *in[256];
    for (int i = 0; i < n->n_operands; i++)
        in[i] = &value_of(o, n->operands[i].def)->t[0];
    FX_TRY(fx_node_eval(n, in, v->t, 16, &v->n));
    find_errors(o, n, v);
    return FX_OK;
}

/* Whether elements of a and b are the same bits; NaN is NaN. */
static bool same_element(const fx_tensor *a, const fx_tensor *b, int64_t i)
{
    if (fx_dtype_is_float(a->dtype)) {
        double x = fx_tensor_get(a, i), y = fx_tensor_get(b, i);
        return isnan(x) ? isnan(y) : x == y && signbit(x) == signbit(y);
    }
    return fx_tensor_get_int(a, i) == fx_tensor_get_int(b, i);
}

static bool same_sizes(const fx_tensor *a, const fx_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes) == 0;
}

fx_status fz_interpret(const fz_case *c, fx_tensor *own, size_t *n_out, fx_tensor **out)
{
    for (size_t i = 0; i < c->n_in; i++)
        FX_TRY(fx_tensor_copy(c->ctx, &c->in[i], &own[i]));
    return fx_graph_interpret(fx_graph_copy(c->g), c->n_in, own, n_out, out);
}

/* One bit may tell them apart: the values as the graph's interpreter and the oracle have them. */
static bool same_values(const fx_tensor *a, const fx_tensor *b)
{
    bool same = same_sizes(a, b);
    for (int64_t k = 0; same && k < fx_tensor_numel(b); k++)
        same = same_element(a, b, k);
    return same;
}

/* A write-back of the functional graph: what the input is then. */
static fx_status note_changed(oracle *o, const fx_node *n, const fx_tensor *own)
{
    fz_case *c = o->c;
    const fx_node *to = fx_node_input(n, 0);
    size_t input = 0, at = c->n_out + c->n_changed;
    if (to->opcode != FX_PLACEHOLDER) /* a constant: what runs leave there, the next begins with; here each is the first */
        return FX_OK;
    for (const fx_node *p = to->graph->first; p != to; p = p->next)
        input += p->opcode == FX_PLACEHOLDER;
    const value *v = value_of(o, fx_node_input(n, 1));
    if (!same_values(&v->t[0], &own[input]))
        return fx_fail(o->ctx, FX_INTERNAL, NULL, "the graph without in-place ops leaves input %zu otherwise", input);
    c->out[at] = own[input];
    c->error[at] = v->error[0];
    c->changed[c->n_changed++] = input;
    return FX_OK;
}

static fx_status reference(void *arg)
{
    fz_case *c = arg;
    fx_context *ctx = c->ctx;
    fx_tensor *out, own[FZ_MAX_INPUTS];
    size_t n_out, input = 0;
    FX_TRY(fz_interpret(c, own, &n_out, &out));
    if (n_out > FZ_MAX_OUTPUTS)
        return fx_fail(ctx, FX_INTERNAL, NULL, "%zu outputs", n_out);
    c->n_out = n_out;
    c->n_changed = 0;
    memcpy(c->out, out, n_out * sizeof *out);
    memset(c->error, 0, sizeof c->error);

    oracle o = {.c = c, .ctx = ctx, .arena = fx_context_arena(ctx), .rng = {c->seed ^ 0x5bd1e995}};
    fx_graph *g = fx_graph_copy(c->g);
    FX_TRY(fx_functionalize(g, o.arena));
    o.values = FX_NEW_ARRAY(o.arena, value *, g->n_ids + 1);
    FX_FOR_NODES(g, n)
        FX_TRY(fx_node_is_inplace(n) ? note_changed(&o, n, own) : run_node(&o, n, &input));
    const fx_node *end = fx_graph_output_node(g);
    for (size_t i = 0; i < n_out; i++) {
        const value *v = value_of(&o, end->operands[i].def);
        if (!same_values(&v->t[0], &c->out[i]))
            return fx_fail(ctx, FX_INTERNAL, NULL, "the graph without in-place ops gives another output");
        c->error[i] = v->error[0];
    }
    c->reference = true;
    if (c->sizes.n)
        fz_make_symbolic(c);
    if (c->spoil)
        fz_make_wrong(c);
    return FX_OK;
}

fx_status fz_reference(fz_case *c)
{
    return fx_protect(c->ctx, reference, c);
}

bool fz_compare(const fz_case *c, size_t i, const fx_tensor *got, fz_tally *tally, char *text, size_t size)
{
    const fx_tensor *want = &c->out[i];
    const double *error = c->error[i];
    fz_tally none = {0}, *count = tally ? tally : &none;
    if (!same_sizes(want, got)) {
        snprintf(text, size, "output %zu: another type than the reference's", i);
        return false;
    }
    for (int64_t k = 0; k < fx_tensor_numel(want); k++) {
        double x = fx_tensor_get(want, k), y = fx_tensor_get(got, k);
        bool good;
        if (!error) {
            good = same_element(want, got, k);
            count->exact++;
        } else {
            good = isinf(error[k]) || (isnan(x) ? isnan(y) : x == y || fabs(x - y) <= error[k]);
            isinf(error[k]) ? count->unknown++ : count->bounded++;
        }
        if (!good) {
            char within[40] = ", bit for bit";
            if (error)
                snprintf(within, sizeof within, " within %.3g", error[k]);
            snprintf(text, size, "output %zu [%lld]: expected %.17g%s, got %.17g", i, (long long)k, x, within, y);
            return false;
        }
    }
    return true;
}

bool fz_same_bits(const fx_tensor *want, const fx_tensor *got, char *text, size_t size)
{
    if (!same_sizes(want, got)) {
        snprintf(text, size, "another type");
        return false;
    }
    for (int64_t k = 0; k < fx_tensor_numel(want); k++)
        if (!same_element(want, got, k)) {
            snprintf(text, size, "[%lld]: expected %.17g, bit for bit, got %.17g", (long long)k, fx_tensor_get(want, k), fx_tensor_get(got, k));
            return false;
        }
    return true;
}
