/* lower/attention.c: attention that a model spells out becomes one node, which one kernel computes; attention that the kernel does not
 * compute is spelled out.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "lower/rewrite.h"

/* ---- spelled out -> one node ----------------------------------------------------------------------------------------
 * Found from its end: bmm(softmax(scores), v), where scores are bmm(q, k^T) times numbers, plus or filled by masks, with views
 * between. Nothing else may use what lies between, for it will not exist. Where the products are of 16-bit floats that the kernel takes, scores and
 * softmax may be of them or float32: casts are passed as views are, for the kernel computes all that lies between in float32. */

typedef struct match {
    fx_node *q, *kt, *v;           /* [BH, m, k], [BH, k, n], [BH, n, d] of the two bmm */
    fx_dtype dtype;                /* of q, kt, v and the result */
    fx_dim batch, heads;
    double scale;
    struct addend {
        fx_node *node;             /* broadcasts to the rank of scores where it is added */
        int rank;                  /* that rank */
        fx_dim lead[FX_MAX_RANK];  /* and the scores' sizes there */
    } mask, bias;                  /* bias is added before the mask; NULL: none */
    bool fill, safe;               /* safe: rows of -inf give 0 */
} match;

/* A tensor, whose sizes may be expressions. */
static bool is_tensor(const fx_node *n)
{
    fx_dim sizes[FX_MAX_RANK];
    return n && fx_sizes(n, sizes) >= 0;
}

/* Size `dim` of a tensor, counted from the end when negative; 0 when there is none. */
static fx_dim size_of(const fx_node *n, int dim)
{
    fx_dim sizes[FX_MAX_RANK];
    int rank = fx_sizes(n, sizes);
    dim = dim < 0 ? dim + rank : dim;
    return dim >= 0 && dim < rank ? sizes[dim] : fx_dim_of(0);
}

static bool only(const fx_node *n, fx_opid op)
{
    return n && fx_is_call(n, op) && n->n_uses == 1 && is_tensor(n);
}

static bool keeps_matrices(const fx_node *view)
{
    const fx_node *from = fx_is_call(view, FX_OP_view) ? fx_node_input(view, 0) : NULL;
    return is_tensor(view) && is_tensor(from) && view->type->rank >= 2 && from->type->rank >= 2 &&
           fx_dim_equal(size_of(view, -1), size_of(from, -1)) && fx_dim_equal(size_of(view, -2), size_of(from, -2));
}

/* Whether what lies between may be of this type. */
static bool is_between(const match *p, const fx_node *n)
{
    return is_tensor(n) && (n->type->dtype == FX_F32 || n->type->dtype == p->dtype);
}

/* Views that keep rows and columns and casts, each used once, are passed. */
static fx_node *through_views(const match *p, fx_node *n)
{
    while ((only(n, FX_OP_view) && keeps_matrices(n)) || (only(n, FX_OP__to_copy) && is_between(p, n) && is_between(p, fx_node_input(n, 0))))
        n = fx_node_input(n, 0);
    return n;
}

/* A constant of one element. */
static bool scalar(fx_graph *g, const match *p, const fx_node *n, double *v)
{
    fx_tensor t;
    if (!n || !is_between(p, n) || n->type->rank != 0)
        return false;
    if (fx_is_call(n, FX_OP_full)) {
        *v = fx_node_float(n, 1);
        return true;
    }
    if (n->opcode != FX_GET_ATTR || fx_attr_value(g, n, &t) != FX_OK)
        return false;
    *v = fx_tensor_get(&t, 0);
    return true;
}

/* Far below all scores: what hides a key in a mask of the type. The kernel reads float16's lowest number as float32's. */
static bool hides(double v, fx_dtype dtype)
{
    return dtype == FX_F16 ? v <= -65504 : v < -1e30;
}

/* What is added or fills at `at`: from the end, the mask first and then the bias. */
static bool take_mask(match *p, fx_node *mask, const fx_node *at, bool fill)
{
    struct addend *to = p->mask.node ? &p->bias : &p->mask;
    if (to->node || (p->mask.node && fill) || !is_tensor(mask) || mask->type->rank > at->type->rank)
        return false;
    to->node = mask;
    to->rank = fx_sizes(at, to->lead);
    p->fill = p->fill || fill;
    return true;
}

static bool is_product(const match *p, fx_node *x)
{
    const fx_node *from = through_views(p, x);
    return only(from, FX_OP_bmm) || only(from, FX_OP_mul_Tensor) || only(from, FX_OP_div_Tensor);
}

/* A mask as where has it: condition ? score : value, or the other way round, becomes 0 or the value, which fills. Values that are not
 * far below all scores would make a difference in rows that are masked throughout. */
static fx_node *filled(fx_rw *w, match *p, fx_node *n)
{
    fx_node *condition = fx_node_input(n, 0), *a = fx_node_input(n, 1), *b = fx_node_input(n, 2), *zero, *value;
    double va, vb;
    bool keep = scalar(w->g, p, b, &vb), drop = scalar(w->g, p, a, &va);
    if (!condition || keep == drop || !hides(keep ? vb : va, n->type->dtype) || !fx_same_type(keep ? a : b, n) || p->mask.node ||
        !is_tensor(condition) || condition->type->rank > n->type->rank)
        return NULL;
    zero = fx_rw_scalar(w, 0, n->type->dtype, "zero");
    value = keep ? b : a;
    return take_mask(p, fx_rw_where(w, condition, keep ? zero : value, keep ? value : zero, "mask"), n, true) ? keep ? a : b : NULL;
}

/* From the input of the softmax to the bmm of q and k. Scales lie within masks. */
static fx_node *trace_scores(fx_rw *w, match *p, fx_node *n)
{
    bool scaled = false;
    p->scale = 1;
    for (;;) {
        n = through_views(p, n);
        double by;
        if (only(n, FX_OP_bmm) && n->type->dtype == p->dtype)
            return n;
        if (!n || n->n_uses != 1 || !is_between(p, n) || n->type->rank < 2)
            return NULL;
        if ((fx_is_call(n, FX_OP_mul_Tensor) || fx_is_call(n, FX_OP_div_Tensor)) && fx_is_number(n, 1, &by) && isfinite(by) && by != 0) {
            p->scale = fx_is_call(n, FX_OP_mul_Tensor) ? p->scale * by : p->scale / by;
            scaled = true;
            n = fx_node_input(n, 0);
            continue;
        }
        double alpha = 1;
        if (scaled)
            return NULL;
        if (fx_is_call(n, FX_OP_add_Tensor) && fx_is_number(n, 2, &alpha) && alpha == 1) {
            fx_node *a = fx_node_input(n, 0), *b = fx_node_input(n, 1);
            if (!a || !b)
                return NULL;
            /* The scores are the operand that comes from a product, or else from another sum, and has the sum's sizes. */
            bool first = fx_same_type(a, n) && (is_product(p, a) || (!is_product(p, b) && only(through_views(p, a), FX_OP_add_Tensor)));
            if (!fx_same_type(first ? a : b, n) || !take_mask(p, first ? b : a, n, false))
                return NULL;
            n = first ? a : b;
            continue;
        }
        if (!fx_is_call(n, FX_OP_where_self) || !(n = filled(w, p, n)))
            return NULL;
    }
}

/* A tensor of zeros. */
static bool is_zeros(fx_graph *g, const match *p, const fx_node *n)
{
    fx_tensor t;
    if (!is_between(p, n))
        return false;
    if (fx_is_call(n, FX_OP_full)) {
        double v = fx_node_float(n, 1);
        return v == 0 && !signbit(v);
    }
    if (n->opcode != FX_GET_ATTR || fx_attr_value(g, n, &t) != FX_OK)
        return false;
    for (int64_t i = 0; i < fx_tensor_numel(&t); i++) {
        double v = fx_tensor_get(&t, i);
        if (v != 0 || signbit(v))
            return false;
    }
    return true;
}

/* where(not any(not (scores == -inf)), 0, softmax(scores)), as run_decompositions spells the softmax of attention: the softmax. */
static fx_node *safe_softmax(fx_rw *w, match *p, fx_node *n)
{
    fx_node *a, *s, *e;
    if (!only(n, FX_OP_where_self))
        return n;
    if (!is_zeros(w->g, p, fx_node_input(n, 1)))
        return NULL;
    a = fx_node_input(n, 0);
    if (!only(a, FX_OP_logical_not) || !(s = fx_node_input(a, 0)) || !only(s, FX_OP_any_dim) || !(a = fx_node_input(s, 0)) ||
        fx_wrap_dim(fx_node_int(s, 1), a->type->rank) != a->type->rank - 1)
        return NULL;
    if (!only(a, FX_OP_logical_not) || !(e = fx_node_input(a, 0)) || !only(e, FX_OP_eq_Scalar) || fx_node_float(e, 1) != -INFINITY)
        return NULL;
    s = fx_node_input(n, 2);
    if (!only(s, FX_OP__softmax) || fx_node_input(s, 0) != fx_node_input(e, 0) || fx_node_input(s, 0)->n_uses != 2)
        return NULL;
    p->safe = true;
    return s;
}

/* How the leading size of the products is batch times heads: as the scores are viewed, or an operand before it was. */
static void find_heads(fx_context *ctx, match *p, const fx_node *scores)
{
    const fx_node *from[] = {scores, fx_node_input(p->q, 0), fx_node_input(p->v, 0)};
    for (int i = 0; i < 3; i++) {
        bool view = i == 0 || fx_is_call(i == 1 ? p->q : p->v, FX_OP_view);
        if (!view || !is_tensor(from[i]) || from[i]->type->rank != 4)
            continue;
        fx_dim batch = size_of(from[i], 0), heads = size_of(from[i], 1);
        if (fx_dim_equal(fx_dim_mul(ctx, batch, heads), size_of(p->q, 0))) {
            p->batch = batch;
            p->heads = heads;
            return;
        }
    }
    p->batch = fx_dim_of(1);
    p->heads = size_of(p->q, 0);
}

/* A mask or bias with rank 4, broadcasting to [batch, heads, m, n]; NULL when it does not fit. */
static fx_node *mask4(fx_rw *w, const match *p, const struct addend *a, const char *suffix)
{
    const fx_dim one = fx_dim_of(1);
    fx_dim own[FX_MAX_RANK], all[FX_MAX_RANK], sizes[4] = {one, one, one, one};
    int rank = fx_sizes(a->node, own), lead = a->rank - 2, skip = 0;
    fx_node *mask = a->node;
    for (int i = 0; i < a->rank; i++)
        all[i] = i < a->rank - rank ? one : own[i - (a->rank - rank)];
    while (lead - skip > 2 && fx_dim_is(a->lead[skip], 1))
        skip++;
    sizes[2] = all[lead];
    sizes[3] = all[lead + 1];
    const fx_dim *at = a->lead + skip, *has = all + skip;
    if (lead - skip == 2 && fx_dim_equal(at[0], p->batch) && fx_dim_equal(at[1], p->heads)) {
        sizes[0] = has[0];
        sizes[1] = has[1];
    } else if (lead - skip == 3 && fx_dim_equal(fx_dim_mul(w->ctx, at[0], at[1]), p->batch) && fx_dim_equal(at[2], p->heads)) {
        /* the batch is split where it is added, as into pictures and windows of each: repeated for all pictures */
        sizes[1] = has[2];
        if (!fx_dim_is(has[0], 1) || !fx_dim_is(has[1], 1)) {
            fx_dim apart[5] = {has[0], has[1], has[2], all[lead], all[lead + 1]};
            mask = fx_rw_view_to(w, mask, 5, apart, fx_arena_printf(w->scratch, "%s_of", suffix));
            apart[0] = at[0];
            apart[1] = at[1];
            mask = fx_rw_expand_to(w, mask, 5, apart, fx_arena_printf(w->scratch, "%s_for", suffix));
            sizes[0] = p->batch;
        }
    } else if (lead - skip == 1 && fx_dim_equal(at[0], fx_dim_mul(w->ctx, p->batch, p->heads))) {
        if (!fx_dim_is(has[0], 1)) {
            sizes[0] = p->batch;
            sizes[1] = p->heads;
        }
    } else {
        for (int i = skip; i < lead; i++)
            if (!fx_dim_is(all[i], 1))
                return NULL;
    }
    return fx_rw_view_to(w, mask, 4, sizes, suffix);
}

static fx_node *operand4(fx_rw *w, const match *p, fx_node *x, const char *suffix)
{
    return fx_rw_view_to(w, x, 4, (fx_dim[]){p->batch, p->heads, size_of(x, -2), size_of(x, -1)}, suffix);
}

static bool recognise(fx_rw *w, const fx_lower_options *opt)
{
    match p = {.v = fx_node_input(w->at, 1)};
    if (!is_tensor(w->at) || !fx_lower_takes(opt, FX_K_attention, w->at->type->dtype) || !p.v)
        return false;
    p.dtype = w->at->type->dtype;
    fx_node *soft = safe_softmax(w, &p, through_views(&p, fx_node_input(w->at, 0)));
    if (!only(soft, FX_OP__softmax) || !is_between(&p, soft) || soft->type->rank < 2 ||
        fx_wrap_dim(fx_node_int(soft, 1), soft->type->rank) != soft->type->rank - 1)
        return false;
    fx_node *scores = fx_node_input(soft, 0), *start = scores;
    if (p.safe) { /* its other use is the comparison, which goes too */
        if (fx_is_call(scores, FX_OP_add_Tensor)) {
            if (!fx_is_number(scores, 2, &p.scale) || p.scale != 1 || !fx_same_type(fx_node_input(scores, 0), scores) ||
                !take_mask(&p, fx_node_input(scores, 1), scores, false))
                return false;
        } else if (!keeps_matrices(scores)) {
            return false;
        }
        start = fx_node_input(scores, 0);
    }
    fx_node *product = trace_scores(w, &p, start);
    if (!product)
        return false;
    p.q = fx_node_input(product, 0);
    p.kt = fx_node_input(product, 1);
    fx_dim rows = size_of(p.q, -2);
    if (fx_dim_is(rows, 0) || fx_dim_is(size_of(p.kt, -1), 0) || fx_dim_is(size_of(p.q, -1), 0) || !fx_dim_equal(size_of(p.v, 0), size_of(p.q, 0)))
        return false;
    find_heads(w->ctx, &p, p.mask.node && p.mask.rank == 4 ? scores : soft->type->rank == 4 ? soft : product);
    fx_node *mask = NULL, *bias = NULL;
    if (p.safe && p.bias.node)
        return false;
    if ((p.mask.node && !(mask = mask4(w, &p, &p.mask, "mask4"))) || (p.bias.node && !(bias = mask4(w, &p, &p.bias, "bias4"))))
        return false;
    fx_node *k4 = operand4(w, &p, p.kt, "key_t");
    k4 = fx_rw_permute(w, k4, 4, (int64_t[]){0, 1, 3, 2}, "key");
    fx_call c = fx_rw_call(w, p.safe ? FX_OP_scaled_dot_product_attention : FX_OP_attention);
    fx_call_node(&c, operand4(w, &p, p.q, "query"));
    fx_call_node(&c, k4);
    fx_call_node(&c, operand4(w, &p, p.v, "value"));
    fx_call_node(&c, mask);
    fx_call_float(&c, 0);
    fx_call_bool(&c, false);
    fx_call_float(&c, p.scale);
    fx_call_bool(&c, false);
    if (!p.safe) {
        fx_call_bool(&c, p.fill);
        fx_call_node(&c, bias);
    }
    fx_node *y = fx_rw_node(w, &c, "attention");
    fx_rw_view_to(w, y, 3, (fx_dim[]){size_of(p.q, 0), rows, size_of(p.v, -1)}, NULL);
    return true;
}

/* ---- one node -> spelled out ------------------------------------------------------------------------------------------- */

/* [B, H, m, n] as [B * heads, m, n]; fewer heads are repeated. */
static fx_node *matrices(fx_rw *w, fx_node *x, fx_dim heads, const char *suffix)
{
    fx_dim s[FX_MAX_RANK], times;
    fx_sizes(x, s);
    if (!fx_dim_equal(s[1], heads) && fx_dim_divide(w->ctx, heads, s[1], &times)) {
        x = fx_rw_view_to(w, x, 5, (fx_dim[]){s[0], s[1], fx_dim_of(1), s[2], s[3]}, "group");
        x = fx_rw_expand_to(w, x, 5, (fx_dim[]){s[0], s[1], times, s[2], s[3]}, "heads");
    }
    return fx_rw_view_to(w, x, 3, (fx_dim[]){fx_dim_mul(w->ctx, s[0], heads), s[2], s[3]}, suffix);
}

static void spell_out(fx_rw *w)
{
    fx_node *n = w->at, *q = fx_rw_wide(w, fx_node_input(n, 0)), *k = fx_rw_wide(w, fx_node_input(n, 1)), *v = fx_rw_wide(w, fx_node_input(n, 2));
    fx_node *mask = fx_node_input(n, 3);
    fx_dtype dtype = q->type->dtype;
    if (mask && mask->type->dtype != FX_BOOL)
        mask = fx_rw_wide(w, mask);
    fx_dim batch = size_of(q, 0), heads = size_of(q, 1), m = size_of(q, 2), keys = size_of(k, 2);
    fx_dim shape[4] = {batch, heads, m, keys}, flat[3] = {fx_dim_mul(w->ctx, batch, heads), m, keys}, out[FX_MAX_RANK];
    bool spelled = n->op->id == FX_OP_attention;
    fx_sizes(n, out);
    fx_node *kt = fx_rw_permute(w, matrices(w, k, heads, "keys"), 3, (int64_t[]){0, 2, 1}, "keys_t");
    fx_node *s = fx_rw_binary(w, FX_OP_bmm, matrices(w, q, heads, "queries"), kt, "products");
    s = fx_rw_number(w, FX_OP_mul_Tensor, fx_rw_view_to(w, s, 4, shape, "scores"), fx_node_float(n, 6), "scaled");
    fx_node *low = fx_rw_scalar(w, -INFINITY, dtype, "low");
    if (spelled && fx_node_input(n, 9)) {
        fx_node *bias = fx_rw_wide(w, fx_node_input(n, 9));
        s = fx_rw_binary(w, FX_OP_add_Tensor, s, bias, "biased");
    }
    if (mask && mask->type->dtype == FX_BOOL) {
        s = fx_rw_where(w, mask, s, low, "masked");
    } else if (mask && spelled && fx_node_bool(n, 8)) {
        fx_node *hidden = fx_rw_number(w, FX_OP_lt_Scalar, mask, (double)-1e30f, "hidden");
        s = fx_rw_where(w, hidden, mask, fx_rw_binary(w, FX_OP_add_Tensor, s, mask, "added"), "masked");
    } else if (mask) {
        s = fx_rw_binary(w, FX_OP_add_Tensor, s, mask, "masked");
    }
    if (fx_node_bool(n, 5)) {
        fx_node *row = fx_rw_view_to(w, fx_rw_arange(w, fx_dim_of(0), m, "row"), 2, (fx_dim[]){m, fx_dim_of(1)}, "rows");
        fx_node *seen = fx_rw_binary(w, FX_OP_ge_Tensor, row, fx_rw_arange(w, fx_dim_of(0), keys, "columns"), "seen");
        s = fx_rw_where(w, seen, s, low, "causal");
    }
    fx_call c = fx_rw_call(w, FX_OP__softmax);
    fx_call_node(&c, s);
    fx_call_int(&c, 3);
    fx_call_bool(&c, false);
    fx_node *p = fx_rw_node(w, &c, "softmax");
    if (!spelled) { /* rows of -inf only are zeros */
        c = fx_rw_call(w, FX_OP_amax);
        fx_call_node(&c, s);
        fx_call_ints(&c, 1, (int64_t[]){3});
        fx_call_bool(&c, true);
        fx_node *empty = fx_rw_number(w, FX_OP_eq_Scalar, fx_rw_node(w, &c, "most"), -INFINITY, "empty");
        p = fx_rw_where(w, empty, fx_rw_scalar(w, 0, dtype, "zero"), p, "weights");
    }
    fx_node *weights = fx_rw_view_to(w, p, 3, flat, "weights3"), *values = matrices(w, v, heads, "values");
    fx_node *y = fx_rw_binary(w, FX_OP_bmm, weights, values, "sums");
    if (dtype == n->type->dtype)
        fx_rw_view_to(w, y, 4, out, NULL);
    else
        fx_rw_cast(w, fx_rw_view_to(w, y, 4, out, "wide"), n->type->dtype, NULL);
}

/* The kernel adds masks of its own type, and float32 ones (-1e9 would be -inf in float16): true is 0, false -inf. Half-wide floats that it does not
 * take are computed as float32. */
static void prepare(fx_rw *w, const fx_lower_options *opt)
{
    fx_node *n = w->at, *mask = fx_node_input(n, 3);
    const fx_dtype dtype = fx_lower_takes(opt, FX_K_attention, n->type->dtype) ? n->type->dtype : FX_F32;
    bool bits = mask && mask->type->dtype == FX_BOOL, half = n->type->dtype != dtype;
    if (!bits && !half && (!mask || mask->type->dtype == dtype || mask->type->dtype == FX_F32))
        return;
    if (bits) {
        fx_node *zero = fx_rw_scalar(w, 0, dtype, "zero"), *low = fx_rw_scalar(w, -INFINITY, dtype, "low");
        mask = fx_rw_where(w, mask, zero, low, "mask");
    } else if (mask && mask->type->dtype != FX_F32) {
        mask = fx_rw_cast(w, mask, dtype, "mask");
    }
    fx_call c = fx_rw_call(w, n->op->id);
    for (int i = 0; i < 3; i++)
        fx_call_node(&c, half ? fx_rw_cast(w, fx_node_input(n, i), dtype, (const char *[]){"query", "key", "value"}[i]) : fx_node_input(n, i));
    fx_call_node(&c, mask);
    for (int i = 4; i < (n->op->id == FX_OP_attention ? 10 : 8); i++)
        fx_call_copy(&c, n, i);
    if (half)
        fx_rw_finish(w, fx_rw_node(w, &c, "wide"));
    else
        fx_rw_become(w, &c);
}

/* A constant mask that hides just what comes after the query: the kernel then need not look at what is hidden. Each query sees the first
 * key, so it makes no difference whether what is hidden is -inf or only very low. */
static void find_causal(fx_rw *w)
{
    fx_node *n = w->at, *mask = fx_node_input(n, 3);
    fx_tensor t;
    if (!mask || mask->opcode != FX_GET_ATTR || !fx_is_tensor(mask) || !fx_dtype_is_float(mask->type->dtype) || fx_node_bool(n, 5) ||
        fx_attr_value(w->g, mask, &t) != FX_OK || t.rank != 4 || t.sizes[0] != 1 || t.sizes[1] != 1 ||
        t.sizes[2] != fx_dim_size(fx_node_input(n, 0), 2) || t.sizes[3] != fx_dim_size(fx_node_input(n, 1), 2))
        return;
    for (int64_t i = 0; i < t.sizes[2]; i++)
        for (int64_t j = 0; j < t.sizes[3]; j++) {
            double v = fx_tensor_get(&t, i * t.sizes[3] + j);
            if (j > i ? !hides(v, t.dtype) : v != 0)
                return;
        }
    fx_call c = fx_rw_call(w, n->op->id);
    for (int i = 0; i < 3; i++)
        fx_call_node(&c, fx_node_input(n, i));
    fx_call_node(&c, NULL);
    fx_call_float(&c, 0);
    fx_call_bool(&c, true);
    for (int i = 6; i < (n->op->id == FX_OP_attention ? 10 : 8); i++)
        fx_call_copy(&c, n, i);
    fx_rw_become(w, &c);
}

/* What heads of x repeat: x is [batch, heads, rows, columns] viewed from [batch, heads of the source, times, rows, columns], where one of each
 * is expanded to `times`. NULL: they do not. */
static fx_node *repeated(const fx_node *x)
{
    const fx_node *e = fx_is_call(x, FX_OP_view) ? fx_node_input(x, 0) : NULL;
    fx_node *u = e && fx_is_call(e, FX_OP_expand) ? fx_node_input(e, 0) : NULL;
    fx_dim to[FX_MAX_RANK], wide[FX_MAX_RANK], one[FX_MAX_RANK];
    if (!u || fx_sizes(x, to) != 4 || fx_sizes(e, wide) != 5 || fx_sizes(u, one) != 5 || !fx_dim_is(one[2], 1))
        return NULL;
    for (int i = 0; i < 5; i++)
        if (i != 2 && !fx_dim_equal(one[i], wide[i]))
            return NULL;
    bool same = fx_dim_equal(to[0], wide[0]) && fx_dim_equal(to[2], wide[3]) && fx_dim_equal(to[3], wide[4]);
    return same && !fx_dim_equal(to[1], wide[1]) && fx_dim_known(to[1]) && fx_dim_known(wide[1]) && wide[1].value > 0 ? u : NULL;
}

/* Keys and values whose heads are repeated for groups of queries: the kernel reads each for the whole group. */
static bool group_heads(fx_rw *w)
{
    fx_node *n = w->at, *from[2];
    fx_dim s[2][FX_MAX_RANK];
    if (n->type->rank != 4 || fx_node_bool(n, 7))
        return false;
    for (int i = 0; i < 2; i++) {
        if (!(from[i] = repeated(fx_node_input(n, i + 1))))
            return false;
        fx_sizes(from[i], s[i]);
    }
    if (!fx_dim_equal(s[0][1], s[1][1]))
        return false;
    fx_call c = fx_rw_call(w, n->op->id);
    fx_call_node(&c, fx_node_input(n, 0));
    for (int i = 0; i < 2; i++)
        fx_call_node(&c, fx_rw_view_to(w, from[i], 4, (fx_dim[]){s[i][0], s[i][1], s[i][3], s[i][4]}, i ? "values" : "keys"));
    for (int i = 3; i < 7; i++)
        fx_call_copy(&c, n, i);
    fx_call_bool(&c, true);
    for (int i = 8; n->op->id == FX_OP_attention && i < 10; i++)
        fx_call_copy(&c, n, i);
    fx_rw_become(w, &c);
    return true;
}

fx_status fx_pass_attention(fx_lower *l)
{
    fx_graph *g = l->graph;
    size_t count = 0;
    bool off = l->opt->off & FX_OFF(ATTENTION), changed = false;
    fx_node **nodes = FX_NEW_ARRAY(l->scratch, fx_node *, g->n_nodes + 1);
    FX_FOR_NODES(g, n)
        nodes[count++] = n;
    for (size_t i = 0; i < count; i++) {
        fx_node *n = nodes[i];
        fx_rw w = fx_rw_at(g, l->scratch, n);
        if (n->erased)
            continue;
        if (fx_is_call(n, FX_OP_bmm) && !off) {
            changed |= recognise(&w, l->opt);
        } else if (fx_is_call(n, FX_OP_scaled_dot_product_attention)) {
            fx_dtype dtype = n->type->dtype;
            if (off || dtype == FX_F64)
                spell_out(&w);
            else
                prepare(&w, l->opt);
            changed = true;
        }
        FX_TRY(w.status);
    }
    fx_remove_dead(g);
    if (!changed)
        return FX_OK;
    FX_TRY(fx_fold_constants(g, l->scratch)); /* masks */
    FX_TRY(fx_pass_simplify(l));
    nodes = FX_NEW_ARRAY(l->scratch, fx_node *, g->n_nodes + 1);
    count = 0;
    FX_FOR_NODES(g, n)
        if (fx_is_call(n, FX_OP_attention) || fx_is_call(n, FX_OP_scaled_dot_product_attention))
            nodes[count++] = n;
    for (size_t i = 0; i < count; i++)
        FX_TRY(fx_attention_narrow(l, nodes[i]));
    fx_remove_dead(g);
    changed = false;
    FX_FOR_NODES(g, n)
        if (fx_is_call(n, FX_OP_attention) || fx_is_call(n, FX_OP_scaled_dot_product_attention)) {
            fx_rw w = fx_rw_at(g, l->scratch, n);
            find_causal(&w);
            changed |= group_heads(&w);
            FX_TRY(w.status);
        }
    fx_remove_dead(g);
    return changed ? fx_pass_simplify(l) : FX_OK;
}
