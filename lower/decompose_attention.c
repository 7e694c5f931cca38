/* lower/decompose_attention.c: attention and RMS norm in the one form core has of each.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <float.h>
#include <math.h>

/* A tensor as [batch, heads, rows, columns]: dims of 1 in front, or the leading ones merged into the batch. */
static fx_node *rank4(fx_rw *w, fx_node *x, const char *suffix)
{
    fx_dim in[FX_MAX_RANK], one = fx_dim_of(1), sizes[4] = {one, one, one, one};
    int rank = fx_sizes(x, in);
    if (rank == 4)
        return x;
    for (int i = 0; i < rank; i++)
        if (rank - 1 - i < 3)
            sizes[3 - (rank - 1 - i)] = in[i];
        else
            sizes[0] = fx_dim_mul(w->ctx, sizes[0], in[i]);
    return fx_rw_view_to(w, x, 4, sizes, suffix);
}

/* The same with leading dims that are those of the result, so that they may be merged. */
static fx_node *broadcast(fx_rw *w, fx_node *x, bool keep_heads, const char *suffix)
{
    fx_dim in[FX_MAX_RANK], out[FX_MAX_RANK];
    int rank = fx_sizes(x, in), n = fx_sizes(w->at, out);
    bool same = rank == n;
    out[n - 2] = in[rank - 2];
    out[n - 1] = in[rank - 1];
    if (keep_heads && rank >= 3 && n >= 3)
        out[n - 3] = in[rank - 3];
    for (int i = 0; same && i < n; i++)
        same = fx_dim_equal(in[i], out[i]);
    return same ? x : fx_rw_expand_to(w, x, n, out, suffix);
}

/* Core attention: query [B, Hq, L, E], key [B, H, S, E], value [B, H, S, Ev] of one batch size, Hq a multiple of H (enable_gqa says whether
 * they differ), a scale written out, no dropout; the mask is bool (true: may be attended to), float32 or of the query's dtype, broadcasts to
 * [B, Hq, L, S] and has rank 4. */
static fx_node *core(fx_rw *w, fx_node *mask, bool causal, const fx_arg *scale, bool gqa)
{
    fx_dim out[FX_MAX_RANK], q_sizes[FX_MAX_RANK], k_sizes[FX_MAX_RANK];
    fx_node *q = fx_node_input(w->at, 0), *k = fx_node_input(w->at, 1), *v = fx_node_input(w->at, 2);
    fx_sizes(q, q_sizes);
    if (q_sizes[q->type->rank - 1].sym) {
        fx_rw_refuse(w, "the size of a head is dynamic");
        return w->at;
    }
    double by = scale->kind == FX_ARG_NONE ? 1 / sqrt((double)q_sizes[q->type->rank - 1].value) : scale->kind == FX_ARG_INT ? (double)scale->i : scale->f;
    const fx_type *type = w->at->type->kind == FX_TYPE_TUPLE ? w->at->type->items[0] : w->at->type;
    int n = type->rank;
    for (int i = 0; i < n; i++)
        out[i] = type->dims[i];
    if (n > 4 && mask && mask->type->rank > 2) { /* dims that merge must be there */
        fx_dim sizes[FX_MAX_RANK];
        memcpy(sizes, out, sizeof sizes);
        sizes[n - 1] = k->type->dims[k->type->rank - 2];
        mask = fx_rw_expand_to(w, mask, n, sizes, "mask_all");
    }
    if (w->at->type->kind == FX_TYPE_TENSOR) {
        q = broadcast(w, q, false, "query_all");
        k = broadcast(w, k, gqa, "key_all");
        v = broadcast(w, v, gqa, "value_all");
    }
    q = rank4(w, q, "query");
    k = rank4(w, k, "key");
    v = rank4(w, v, "value");
    fx_sizes(q, q_sizes);
    fx_sizes(k, k_sizes);
    if (mask && mask->type->dtype != FX_BOOL && mask->type->dtype != FX_F32 && mask->type->dtype != q->type->dtype)
        mask = fx_rw_cast(w, mask, q->type->dtype, "mask_cast");
    fx_call c = fx_rw_call(w, FX_OP_scaled_dot_product_attention);
    fx_call_node(&c, q);
    fx_call_node(&c, k);
    fx_call_node(&c, v);
    fx_call_node(&c, mask ? rank4(w, mask, "mask") : NULL);
    fx_call_float(&c, 0);
    fx_call_bool(&c, causal);
    fx_call_float(&c, by);
    fx_call_bool(&c, !fx_dim_equal(q_sizes[1], k_sizes[1]));
    fx_node *y = fx_rw_node(w, &c, "attention");
    return n == 4 ? y : fx_rw_view_to(w, y, n, out, "shape");
}

void fx_d_attention(fx_rw *w)
{
    fx_rw_finish(w, core(w, fx_node_input(w->at, 3), fx_node_bool(w->at, 5), fx_node_arg(w->at, 6), fx_node_bool(w->at, 7)));
}

/* log(sum(exp(scores))) of each row, 0 where it sees nothing: [B, H, L, E] x [B, H, S, E] -> [B, H, L]; in float32 for half-wide floats. */
static fx_node *log_sums(fx_rw *w)
{
    fx_dim q_sizes[FX_MAX_RANK], k_sizes[FX_MAX_RANK];
    fx_node *q = fx_rw_wide(w, rank4(w, fx_node_input(w->at, 0), "query")), *k = fx_rw_wide(w, rank4(w, fx_node_input(w->at, 1), "key"));
    fx_node *mask = fx_node_input(w->at, 5);
    fx_sizes(q, q_sizes);
    fx_sizes(k, k_sizes);
    if (w->status != FX_OK || q_sizes[3].sym) {
        fx_rw_refuse(w, "the size of a head is dynamic");
        return w->at;
    }
    static const int64_t last = 3, swapped[3] = {0, 2, 1};
    double by = fx_node_is_none(w->at, 6) ? 1 / sqrt((double)q_sizes[3].value) : fx_node_float(w->at, 6);
    fx_dim heads = fx_dim_mul(w->ctx, q_sizes[0], q_sizes[1]), scores[4] = {q_sizes[0], q_sizes[1], q_sizes[2], k_sizes[2]};
    q = fx_rw_view_to(w, q, 3, (fx_dim[]){heads, q_sizes[2], q_sizes[3]}, "queries");
    k = fx_rw_view_to(w, k, 3, (fx_dim[]){heads, k_sizes[2], k_sizes[3]}, "keys");
    k = fx_rw_permute(w, k, 3, swapped, "keys_t");
    fx_node *s = fx_rw_view_to(w, fx_rw_binary(w, FX_OP_bmm, q, k, "products"), 4, scores, "scores");
    s = fx_rw_number(w, FX_OP_mul_Tensor, s, by, "scaled");
    if (mask && mask->type->dtype == FX_BOOL)
        s = fx_rw_where(w, mask, s, fx_rw_scalar(w, -INFINITY, s->type->dtype, "low"), "masked");
    else if (mask)
        s = fx_rw_binary(w, FX_OP_add_Tensor, s, mask->type->dtype == s->type->dtype ? mask : fx_rw_cast(w, mask, s->type->dtype, "mask_wide"), "masked");
    if (fx_node_bool(w->at, 4)) {
        fx_node *row = fx_rw_arange(w, fx_dim_of(0), scores[2], "row"), *column = fx_rw_arange(w, fx_dim_of(0), scores[3], "column");
        fx_node *seen = fx_rw_binary(w, FX_OP_ge_Tensor, fx_rw_view_to(w, row, 2, (fx_dim[]){scores[2], fx_dim_of(1)}, "rows"), column, "seen");
        s = fx_rw_where(w, seen, s, fx_rw_scalar(w, -INFINITY, s->type->dtype, "low"), "causal");
    }
    s = fx_log_sum_exp(w, s, 1, &last);
    fx_node *empty = fx_rw_number(w, FX_OP_eq_Scalar, s, -INFINITY, "empty"); /* eager has 0 there */
    s = fx_rw_where(w, empty, fx_rw_scalar(w, 0, s->type->dtype, "nothing"), s, "kept");
    return fx_rw_view_to(w, s, 3, scores, "log_sums");
}

/* What run_decompositions makes of it on CPU; the second result is for training. */
void fx_d_flash_attention(fx_rw *w)
{
    fx_node *sums = fx_uses_result(w, 1) ? log_sums(w) : NULL;
    fx_node *y = core(w, fx_node_input(w->at, 5), fx_node_bool(w->at, 4), fx_node_arg(w->at, 6), false);
    fx_rw_results(w, 2, (fx_node *[]){y, sums});
}

/* rms_norm is _fused_rms_norm's first result; there the epsilon is written out. */
void fx_d_rms_norm(fx_rw *w)
{
    bool fused = w->at->op->id == FX_OP__fused_rms_norm;
    if (fused && !fx_node_is_none(w->at, 3))
        return;
    fx_node *x = fx_node_input(w->at, 0);
    fx_call c = fx_rw_call(w, FX_OP__fused_rms_norm);
    fx_call_node(&c, x);
    for (int p = 1; p < 3; p++)
        fx_call_copy(&c, w->at, p);
    if (fx_node_is_none(w->at, 3))
        fx_call_float(&c, x->type->dtype == FX_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
    else
        fx_call_copy(&c, w->at, 3);
    if (fused)
        fx_rw_become(w, &c);
    else
        fx_rw_finish(w, fx_rw_item(w, fx_rw_node(w, &c, "all"), 0, "item"));
}
