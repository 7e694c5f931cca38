/* ir/interp_reduce.c: reference evaluation of reductions, softmax and norms. Sums are in double.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ir/ops.h"

/* x with the dims of mask last, so that every result element is one run of memory. */
static fx_tensor reduced_last(const fx_tensor *x, uint32_t mask, int64_t *rows, int64_t *n)
{
    fx_tensor t = *x;
    int k = 0;
    *rows = *n = 1;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->rank; i++) {
            if (((mask >> i) & 1) != (uint32_t)pass)
                continue;
            t.sizes[k] = x->sizes[i];
            t.strides[k++] = x->strides[i];
            *(pass ? n : rows) *= x->sizes[i];
        }
    return t;
}

static uint32_t axes(const fx_eval *c, int param, int rank)
{
    int64_t v[FX_MAX_RANK];
    int n = fx_node_is_none(c->node, param) ? 0 : fx_node_ints(c->node, param, v, FX_MAX_RANK);
    uint32_t mask = n > 0 ? 0 : (1u << rank) - 1;
    for (int i = 0; i < n; i++)
        mask |= rank ? 1u << (v[i] < 0 ? v[i] + rank : v[i]) : 0;
    return mask;
}

static fx_status sum_or_mean(fx_eval *c, const fx_tensor *t, int64_t rows, int64_t n, bool mean)
{
    const void *p;
    fx_dtype dtype = fx_eval_type(c, 0)->dtype;
    if (fx_dtype_is_int(dtype)) {
        fx_tensor whole = fx_eval_converted(c, t, dtype);
        FX_TRY(fx_eval_array(c, &whole, FX_KIND_INT, 0, NULL, &p));
        const int64_t *x = p;
        int64_t *y = fx_eval_target(c, 0, FX_KIND_INT);
        for (int64_t r = 0; r < rows; r++) {
            uint64_t sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum += (uint64_t)*x++;
            y[r] = (int64_t)sum;
        }
        fx_eval_finish(c, 0, FX_KIND_INT, y);
        return FX_OK;
    }
    fx_tensor whole = !mean && t->dtype != dtype ? fx_eval_converted(c, t, dtype) : *t; /* a mean is taken of what is given */
    FX_TRY(fx_eval_array(c, &whole, FX_KIND_F64, 0, NULL, &p));
    const double *x = p;
    double *y = fx_eval_target(c, 0, FX_KIND_F64);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += *x++;
        y[r] = mean ? sum / (double)n : sum;
    }
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    return FX_OK;
}

static fx_status extreme(fx_eval *c, const fx_tensor *t, int64_t rows, int64_t n, bool max)
{
    const void *p;
    if (fx_dtype_is_int(t->dtype)) {
        FX_TRY(fx_eval_array(c, t, FX_KIND_INT, 0, NULL, &p));
        const int64_t *x = p;
        int64_t *y = fx_eval_target(c, 0, FX_KIND_INT);
        for (int64_t r = 0; r < rows; r++, x += n) {
            y[r] = x[0];
            for (int64_t i = 1; i < n; i++)
                if (max ? x[i] > y[r] : x[i] < y[r])
                    y[r] = x[i];
        }
        fx_eval_finish(c, 0, FX_KIND_INT, y);
        return FX_OK;
    }
    FX_TRY(fx_eval_array(c, t, FX_KIND_F64, 0, NULL, &p));
    const double *x = p;
    double *y = fx_eval_target(c, 0, FX_KIND_F64);
    for (int64_t r = 0; r < rows; r++, x += n) {
        y[r] = x[0];
        for (int64_t i = 1; i < n && y[r] == y[r]; i++)
            if (x[i] != x[i] || (max ? x[i] > y[r] : x[i] < y[r]))
                y[r] = x[i];
    }
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    return FX_OK;
}

/* Sum of squared deviations over max(n - correction, 0), or its root; the means, where they are asked for. */
static fx_status variance(fx_eval *c, const fx_tensor *t, int64_t rows, int64_t n, double correction, bool root, bool means)
{
    const void *p;
    FX_TRY(fx_eval_array(c, t, FX_KIND_F64, 0, NULL, &p));
    const double *x = p;
    double *y = fx_eval_target(c, 0, FX_KIND_F64), by = (double)n - correction, *m = means ? fx_eval_target(c, 1, FX_KIND_F64) : NULL;
    for (int64_t r = 0; r < rows; r++, x += n) {
        double mean = 0, sum = 0;
        for (int64_t i = 0; i < n; i++)
            mean += x[i];
        mean /= (double)n;
        for (int64_t i = 0; i < n; i++)
            sum += (x[i] - mean) * (x[i] - mean);
        y[r] = sum / (by > 0 ? by : 0);
        y[r] = root ? sqrt(y[r]) : y[r];
        if (means)
            m[r] = mean;
    }
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    if (means)
        fx_eval_finish(c, 1, FX_KIND_F64, m);
    return FX_OK;
}

fx_status eval_reduce(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_opid id = c->node->op->id;
    bool all = id == FX_OP_sum || id == FX_OP_mean || id == FX_OP_max || id == FX_OP_min || id == FX_OP_std || id == FX_OP_var;
    int64_t rows, n;
    fx_tensor t = reduced_last(x, all ? (1u << x->rank) - 1 : axes(c, 1, x->rank), &rows, &n);
    switch (id) {
    case FX_OP_sum: case FX_OP_sum_dim_IntList:
        return sum_or_mean(c, &t, rows, n, false);
    case FX_OP_mean: case FX_OP_mean_dim:
        return sum_or_mean(c, &t, rows, n, true);
    case FX_OP_amax: case FX_OP_amin: case FX_OP_max: case FX_OP_min:
        return extreme(c, &t, rows, n, id == FX_OP_amax || id == FX_OP_max);
    case FX_OP_std: case FX_OP_var:
        return variance(c, &t, rows, n, fx_node_bool(c->node, 1), id == FX_OP_std, false);
    case FX_OP_std_dim: case FX_OP_var_dim:
        return variance(c, &t, rows, n, fx_node_bool(c->node, 2), id == FX_OP_std_dim, false);
    default: {
        fx_arg_kind kind;
        double correction = 1;
        int64_t i;
        if (!fx_node_is_none(c->node, 2))
            FX_TRY(fx_eval_number(c, 2, &kind, &correction, &i));
        return variance(c, &t, rows, n, correction, id == FX_OP_std_correction || id == FX_OP_std_mean_correction,
                        id == FX_OP_var_mean_correction || id == FX_OP_std_mean_correction);
    }
    }
}

/* single: eager has powers, and their sum, in float32. One element is its own norm, without powers. */
static double norm_of(const double *x, int64_t n, double p, bool single)
{
    double sum = 0, most = 0, least = INFINITY;
    if (n == 1 && p != 0)
        return fabs(x[0]);
    for (int64_t i = 0; i < n; i++) {
        double a = fabs(x[i]), power = p == 2 ? a * a : p == 1 ? a : p == 0 ? a != 0 : isinf(p) ? 0 : pow(a, p);
        sum += single ? (double)(float)power : power;
        most = a > most || a != a ? a : most;
        least = a < least || a != a ? a : least;
    }
    if (single)
        sum = (float)sum;
    return p == INFINITY ? most : p == -INFINITY ? least : p == 2 ? sqrt(sum) : p == 1 || p == 0 ? sum : pow(sum, 1 / p);
}

static double log_sum_exp(const double *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max || x[i] != x[i] ? x[i] : max;
    double by = isinf(max) ? 0 : max;
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - by);
    return log(sum) + by;
}

/* Norms, logsumexp, count_nonzero. */
fx_status eval_norm(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_opid id = c->node->op->id;
    int dim = id == FX_OP_linalg_vector_norm || id == FX_OP_norm_ScalarOpt_dim ? 2 : 1;
    int64_t rows, n;
    fx_tensor t = reduced_last(x, id == FX_OP_norm_Scalar ? (1u << x->rank) - 1 : axes(c, dim, x->rank), &rows, &n);
    bool norm = id != FX_OP_logsumexp && id != FX_OP_count_nonzero_dim_IntList;
    double p = norm && !fx_node_is_none(c->node, 1) ? fx_node_float(c->node, 1) : 2;
    const void *data;
    FX_TRY(fx_eval_array(c, &t, FX_KIND_F64, 0, NULL, &data));
    double *y = fx_eval_scratch(c, rows, sizeof *y);
    for (int64_t r = 0; r < rows; r++) {
        const double *from = (const double *)data + r * n;
        y[r] = id == FX_OP_logsumexp ? log_sum_exp(from, n) : norm_of(from, n, norm ? p : 0, norm && fx_eval_type(c, 0)->dtype != FX_F64);
    }
    fx_eval_out(c, 0);
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    return FX_OK;
}

/* Products, in double or wrapping. */
fx_status eval_prod(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    int64_t rows, n;
    fx_dtype dtype = fx_eval_type(c, 0)->dtype;
    bool ints = fx_dtype_is_int(dtype);
    fx_tensor whole = x->dtype != dtype ? fx_eval_converted(c, x, dtype) : *x; /* each element, then their product */
    fx_tensor t = reduced_last(&whole, c->node->op->id == FX_OP_prod ? (1u << x->rank) - 1 : axes(c, 1, x->rank), &rows, &n);
    fx_kind kind = ints ? FX_KIND_INT : FX_KIND_F64;
    const void *p;
    FX_TRY(fx_eval_array(c, &t, kind, 0, NULL, &p));
    void *y = fx_eval_target(c, 0, kind);
    for (int64_t r = 0; r < rows; r++) {
        double f = 1;
        uint64_t k = 1;
        for (int64_t i = 0; i < n; i++)
            if (ints)
                k *= ((const uint64_t *)p)[r * n + i];
            else
                f *= ((const double *)p)[r * n + i];
        if (ints)
            ((uint64_t *)y)[r] = k;
        else
            ((double *)y)[r] = f;
    }
    fx_eval_finish(c, 0, kind, y);
    return FX_OK;
}

/* Whether any, or all, are not zero; NaN is not zero. */
fx_status eval_any(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_opid id = c->node->op->id;
    bool over_all = id == FX_OP_any || id == FX_OP_all, all = id == FX_OP_all || id == FX_OP_all_dim || id == FX_OP_all_dims;
    int64_t rows, n, none;
    uint32_t mask = over_all ? (1u << x->rank) - 1 : axes(c, 1, x->rank);
    if ((id == FX_OP_any_dims || id == FX_OP_all_dims) && !fx_node_is_none(c->node, 1) && fx_node_ints(c->node, 1, &none, 1) == 0)
        mask = 0; /* an empty list is no dim here, and all of them elsewhere */
    fx_tensor t = reduced_last(x, mask, &rows, &n);
    bool ints = fx_dtype_is_int(x->dtype);
    const void *p;
    FX_TRY(fx_eval_array(c, &t, ints ? FX_KIND_INT : FX_KIND_F64, 0, NULL, &p));
    int64_t *y = fx_eval_target(c, 0, FX_KIND_INT);
    for (int64_t r = 0; r < rows; r++) {
        y[r] = all;
        for (int64_t i = 0; i < n; i++)
            if ((ints ? ((const int64_t *)p)[r * n + i] != 0 : ((const double *)p)[r * n + i] != 0) != all)
                y[r] = !all;
    }
    fx_eval_finish(c, 0, FX_KIND_INT, y);
    return FX_OK;
}

/* The first of the greatest, or least; the first NaN wins. */
fx_status eval_argmax(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    int64_t rows, n, *y;
    fx_tensor t = reduced_last(x, fx_node_is_none(c->node, 1) ? (1u << x->rank) - 1 : axes(c, 1, x->rank), &rows, &n);
    const void *p;
    bool ints = fx_dtype_is_int(x->dtype), max = c->node->op->id == FX_OP_argmax;
    FX_TRY(fx_eval_array(c, &t, ints ? FX_KIND_INT : FX_KIND_F64, 0, NULL, &p));
    y = fx_eval_out(c, 0)->data;
    for (int64_t r = 0; r < rows; r++) {
        const double *f = (const double *)p + r * n;
        const int64_t *k = (const int64_t *)p + r * n;
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++)
            if (ints ? (max ? k[i] > k[best] : k[i] < k[best])
                     : f[best] == f[best] && (f[i] != f[i] || (max ? f[i] > f[best] : f[i] < f[best])))
                best = i;
        y[r] = best;
    }
    return FX_OK;
}

/* ---- softmax ---------------------------------------------------------------------------------------------------------- */

fx_status eval_softmax(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    fx_opid id = c->node->op->id;
    bool logs = id == FX_OP__log_softmax || id == FX_OP_log_softmax_int, safe = id == FX_OP__safe_softmax;
    int64_t rows, n, axis = fx_node_int(c->node, 1);
    uint32_t mask = x->rank ? 1u << (axis < 0 ? axis + x->rank : axis) : 0;
    /* a dtype that is asked for is that of what is summed, too; only half_to_float is wider than its operand */
    fx_dtype to_dtype = fx_eval_type(c, 0)->dtype;
    bool half = (x->dtype == FX_F16 || x->dtype == FX_BF16) && (to_dtype == FX_F32 || to_dtype == FX_F64);
    fx_tensor whole = half ? *x : fx_eval_converted(c, x, to_dtype), t = reduced_last(&whole, mask, &rows, &n);
    const void *p, *given = NULL;
    FX_TRY(fx_eval_array(c, &t, FX_KIND_F64, 0, NULL, &p));
    if (safe) { /* rows of -inf are looked for before the conversion, which may make more of them */
        whole = *x;
        t = reduced_last(&whole, mask, &rows, &n);
        FX_TRY(fx_eval_array(c, &t, FX_KIND_F64, 0, NULL, &given));
    }
    double *y = fx_eval_scratch(c, rows * n, sizeof *y);
    for (int64_t r = 0; r < rows && n; r++) {
        const double *from = (const double *)p + r * n;
        double *to = y + r * n, max = from[0], sum = 0;
        for (int64_t i = 1; i < n; i++)
            max = from[i] > max || from[i] != from[i] ? from[i] : max;
        for (int64_t i = 0; i < n; i++)
            sum += exp(from[i] - max);
        for (int64_t i = 0; i < n; i++)
            to[i] = logs ? from[i] - max - log(sum) : exp(from[i] - max) / sum;
        bool none = safe;
        for (int64_t i = 0; i < n && none; i++)
            none = ((const double *)given)[r * n + i] == -INFINITY;
        if (none)
            memset(to, 0, (size_t)n * sizeof *to);
    }
    /* Back from the order with the axis last. */
    fx_tensor *out = fx_eval_out(c, 0), to = reduced_last(out, mask, &rows, &n), from = to;
    from.dtype = FX_F64;
    from.data = y;
    for (int64_t d = to.rank - 1, stride = 1; d >= 0; d--) {
        from.strides[d] = stride;
        stride *= from.sizes[d];
    }
    if (rows > 0 && n > 0)
        fx_tensor_assign(&to, &from);
    return FX_OK;
}

/* ---- norms ------------------------------------------------------------------------------------------------------------ */

static fx_status vector(fx_eval *c, int param, const double **p)
{
    const fx_tensor *t = fx_eval_input(c, param);
    const void *v = NULL;
    if (t)
        FX_TRY(fx_eval_array(c, t, FX_KIND_F64, 0, NULL, &v));
    *p = v;
    return FX_OK;
}

/* Rows of n elements to mean 0 and variance 1; statistics go to results 1 and 2 where the row has them. */
static fx_status normalize(fx_eval *c, int64_t rows, int64_t n, double eps, double *y, bool stats)
{
    const void *p;
    FX_TRY(fx_eval_array(c, fx_eval_input(c, 0), FX_KIND_F64, 0, NULL, &p));
    double *mean = stats ? fx_eval_target(c, 1, FX_KIND_F64) : NULL, *rstd = stats ? fx_eval_target(c, 2, FX_KIND_F64) : NULL;
    for (int64_t r = 0; r < rows; r++) {
        const double *x = (const double *)p + r * n;
        double m = 0, v = 0;
        for (int64_t i = 0; i < n; i++)
            m += x[i];
        m /= (double)n;
        for (int64_t i = 0; i < n; i++)
            v += (x[i] - m) * (x[i] - m);
        double s = 1 / sqrt(v / (double)n + eps);
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = (x[i] - m) * s;
        if (stats) {
            mean[r] = m;
            rstd[r] = s;
        }
    }
    if (stats) {
        fx_eval_finish(c, 1, FX_KIND_F64, mean);
        fx_eval_finish(c, 2, FX_KIND_F64, rstd);
    }
    return FX_OK;
}

fx_status eval_layer_norm(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    const double *weight, *bias;
    int dims = fx_node_arg(c->node, 1)->kind == FX_ARG_INT ? 1 : fx_node_arg(c->node, 1)->n;
    int64_t rows = 1, n = 1;
    for (int i = 0; i < x->rank; i++)
        *(i < x->rank - dims ? &rows : &n) *= x->sizes[i];
    FX_TRY(vector(c, 2, &weight));
    FX_TRY(vector(c, 3, &bias));
    double *y = fx_eval_target(c, 0, FX_KIND_F64);
    FX_TRY(normalize(c, rows, n, fx_node_float(c->node, 4), y, c->node->op->id == FX_OP_native_layer_norm));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = y[r * n + i] * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    return FX_OK;
}

/* x / sqrt(mean(x * x) + eps) * weight; eps is the accumulator's epsilon where none is given. */
fx_status eval_rms_norm(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    bool stats = c->node->op->id == FX_OP__fused_rms_norm;
    int dims = fx_node_arg(c->node, 1)->kind == FX_ARG_INT ? 1 : fx_node_arg(c->node, 1)->n;
    double eps = fx_node_is_none(c->node, 3) ? (x->dtype == FX_F64 ? DBL_EPSILON : FLT_EPSILON) : fx_node_float(c->node, 3);
    int64_t rows = 1, n = 1;
    const double *weight;
    const void *p;
    for (int i = 0; i < x->rank; i++)
        *(i < x->rank - dims ? &rows : &n) *= x->sizes[i];
    FX_TRY(vector(c, 2, &weight));
    FX_TRY(fx_eval_array(c, x, FX_KIND_F64, 0, NULL, &p));
    double *y = fx_eval_target(c, 0, FX_KIND_F64), *rstd = stats ? fx_eval_target(c, 1, FX_KIND_F64) : NULL;
    for (int64_t r = 0; r < rows; r++) {
        const double *from = (const double *)p + r * n;
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += from[i] * from[i];
        double s = 1 / sqrt(sum / (double)n + eps);
        for (int64_t i = 0; i < n; i++)
            y[r * n + i] = from[i] * s * (weight ? weight[i] : 1);
        if (stats)
            rstd[r] = s;
    }
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    if (stats)
        fx_eval_finish(c, 1, FX_KIND_F64, rstd);
    return FX_OK;
}

/* One query row against all keys: y = softmax(scale * q k^T + bias + mask) v. A row without any key allowed gives zeros. */
static void attend(const double *q, const double *k, const double *v, const double *bias, const double *mask, bool fill, int64_t s, int64_t e, int64_t ev, int64_t seen,
                   double scale, double *score, double *y)
{
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s; j++) {
        double dot = 0;
        for (int64_t i = 0; i < e; i++)
            dot += q[i] * k[j * e + i];
        double first = bias ? bias[j] : 0, add = mask ? mask[j] : 0;
        score[j] = j >= seen ? -INFINITY : fill && add < -1e30f ? add : dot * scale + first + add;
        max = score[j] > max || score[j] != score[j] ? score[j] : max;
    }
    for (int64_t j = 0; j < s; j++) {
        score[j] = max == -INFINITY ? 0 : exp(score[j] - max);
        sum += score[j];
    }
    for (int64_t i = 0; i < ev; i++)
        y[i] = 0;
    for (int64_t j = 0; j < s; j++)
        for (int64_t i = 0; i < ev && max != -INFINITY; i++)
            y[i] += score[j] / sum * v[j * ev + i];
    y[ev] = max == -INFINITY ? -INFINITY : max + log(sum);
}

/* A tensor with its leading dims broadcast to batch; its heads (dim -3) repeated where they are fewer than the query's. */
static fx_status attended(fx_eval *c, const fx_tensor *x, int n, const int64_t *batch, bool gqa, const double **p)
{
    int64_t sizes[FX_MAX_RANK];
    const void *data;
    fx_tensor t = *x;
    memcpy(sizes, batch, (size_t)n * sizeof *sizes);
    sizes[n] = x->sizes[x->rank - 2];
    sizes[n + 1] = x->sizes[x->rank - 1];
    if (gqa && x->rank >= 3 && n && x->sizes[x->rank - 3] != batch[n - 1] && x->rank < FX_MAX_RANK) {
        /* [.., H, S, E] as [.., H, repeats, S, E] */
        int h = x->rank - 3;
        t.rank = x->rank + 1;
        for (int d = x->rank; d > h + 1; d--) {
            t.sizes[d] = x->sizes[d - 1];
            t.strides[d] = x->strides[d - 1];
        }
        t.sizes[h + 1] = batch[n - 1] / x->sizes[h];
        t.strides[h + 1] = 0;
        memmove(sizes + n + 1, sizes + n, 2 * sizeof *sizes);
        sizes[n - 1] = x->sizes[h];
        sizes[n] = t.sizes[h + 1];
        n++;
    }
    FX_TRY(fx_eval_array(c, &t, FX_KIND_F64, n + 2, sizes, &data));
    *p = data;
    return FX_OK;
}

/* What is added to the scores, of these sizes, `count` in all; NULL: nothing. `hides`: float16's lowest number hides as float32's does, for scores that
 * are spelled out in float16 would sum with it to itself. */
static fx_status added(fx_eval *c, const fx_tensor *mask, bool hides, int rank, const int64_t *sizes, int64_t count, const double **out)
{
    const void *p;
    *out = NULL;
    if (!mask)
        return FX_OK;
    FX_TRY(fx_eval_array(c, mask, FX_KIND_F64, rank, sizes, &p));
    *out = p;
    if (mask->dtype != FX_BOOL && !(hides && mask->dtype == FX_F16))
        return FX_OK;
    double *low = fx_eval_scratch(c, count, sizeof *low);
    for (int64_t i = 0; i < count; i++) {
        if (mask->dtype == FX_BOOL) /* true: may be attended to */
            low[i] = (*out)[i] != 0 ? 0 : -INFINITY;
        else
            low[i] = (*out)[i] == -65504 ? -FLT_MAX : (*out)[i];
    }
    *out = low;
    return FX_OK;
}

fx_status eval_attention(fx_eval *c)
{
    const fx_tensor *t[3] = {fx_eval_input(c, 0), fx_eval_input(c, 1), fx_eval_input(c, 2)};
    bool flash = c->node->op->id == FX_OP__scaled_dot_product_flash_attention_for_cpu, spelled = c->node->op->id == FX_OP_attention;
    const fx_tensor *mask = fx_eval_input(c, flash ? 5 : 3);
    int scale_param = 6, n;
    bool causal = fx_node_bool(c->node, flash ? 4 : 5), gqa = !flash && fx_node_bool(c->node, 7);
    const fx_type *type = fx_eval_type(c, 0);
    int64_t batch[FX_MAX_RANK], sizes[FX_MAX_RANK], count = 1;
    int64_t l = t[0]->sizes[t[0]->rank - 2], e = t[0]->sizes[t[0]->rank - 1], s = t[1]->sizes[t[1]->rank - 2];
    int64_t ev = t[2]->sizes[t[2]->rank - 1];
    n = type->rank - 2;
    for (int i = 0; i < n; i++)
        count *= sizes[i] = batch[i] = type->dims[i].value;
    const double *q, *k, *v, *m, *bias;
    FX_TRY(attended(c, t[0], n, batch, false, &q));
    FX_TRY(attended(c, t[1], n, batch, gqa, &k));
    FX_TRY(attended(c, t[2], n, batch, gqa, &v));
    sizes[n] = l;
    sizes[n + 1] = s;
    FX_TRY(added(c, mask, spelled, n + 2, sizes, count * l * s, &m));
    FX_TRY(added(c, spelled ? fx_eval_input(c, 9) : NULL, false, n + 2, sizes, count * l * s, &bias));
    double scale = fx_node_is_none(c->node, scale_param) ? 1 / sqrt((double)e) : fx_node_float(c->node, scale_param);
    double *y = fx_eval_target(c, 0, FX_KIND_F64), *score = fx_eval_scratch(c, s, sizeof *score);
    double *row = fx_eval_scratch(c, ev + 1, sizeof *row), *sums = flash ? fx_eval_target(c, 1, FX_KIND_F64) : NULL;
    for (int64_t b = 0; b < count; b++)
        for (int64_t i = 0; i < l; i++) {
            attend(q + (b * l + i) * e, k + b * s * e, v + b * s * ev, bias ? bias + (b * l + i) * s : NULL, m ? m + (b * l + i) * s : NULL,
                   spelled && fx_node_bool(c->node, 8), s, e, ev, causal ? i + 1 : s, scale,
                   score, row);
            for (int64_t j = 0; j < ev && spelled && s > 0 && row[ev] == -INFINITY; j++)
                row[j] = NAN;
            memcpy(y + (b * l + i) * ev, row, (size_t)ev * sizeof *row);
            if (sums)
                sums[b * l + i] = row[ev] == -INFINITY ? 0 : row[ev]; /* as eager: a row that sees nothing */
        }
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    if (sums)
        fx_eval_finish(c, 1, FX_KIND_F64, sums);
    return FX_OK;
}

fx_status eval_instance_norm(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    int64_t channels = x->sizes[1], inner = 1;
    const double *weight, *bias;
    for (int i = 2; i < x->rank; i++)
        inner *= x->sizes[i];
    FX_TRY(vector(c, 1, &weight));
    FX_TRY(vector(c, 2, &bias));
    double *y = fx_eval_target(c, 0, FX_KIND_F64);
    FX_TRY(normalize(c, x->sizes[0] * channels, inner, fx_node_float(c->node, 7), y, false));
    for (int64_t r = 0; r < x->sizes[0] * channels; r++)
        for (int64_t i = 0; i < inner; i++)
            y[r * inner + i] = y[r * inner + i] * (weight ? weight[r % channels] : 1) + (bias ? bias[r % channels] : 0);
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    return FX_OK;
}

fx_status eval_group_norm(fx_eval *c)
{
    const fx_tensor *x = fx_eval_input(c, 0);
    bool native = c->node->op->id == FX_OP_native_group_norm;
    int64_t groups = fx_node_int(c->node, native ? 6 : 1), channels = x->sizes[1], inner = 1;
    const double *weight, *bias;
    for (int i = 2; i < x->rank; i++)
        inner *= x->sizes[i];
    FX_TRY(vector(c, native ? 1 : 2, &weight));
    FX_TRY(vector(c, native ? 2 : 3, &bias));
    double *y = fx_eval_target(c, 0, FX_KIND_F64);
    FX_TRY(normalize(c, x->sizes[0] * groups, channels / groups * inner, fx_node_float(c->node, native ? 7 : 4), y, native));
    for (int64_t r = 0; r < x->sizes[0] * channels; r++)
        for (int64_t i = 0; i < inner; i++)
            y[r * inner + i] = y[r * inner + i] * (weight ? weight[r % channels] : 1) + (bias ? bias[r % channels] : 0);
    fx_eval_finish(c, 0, FX_KIND_F64, y);
    return FX_OK;
}
