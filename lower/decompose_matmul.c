/* lower/decompose_matmul.c: matrix products. A constant right-hand side becomes aten.linear, whose weight is packed at compile time.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

#include <string.h>

/* `at` becomes linear(x, weight, bias). */
static fx_node *linear(fx_rw *w, fx_node *x, fx_node *weight, fx_node *bias, const char *suffix)
{
    fx_call c = fx_rw_call(w, FX_OP_linear);
    fx_call_node(&c, x);
    fx_call_node(&c, weight);
    fx_call_node(&c, bias);
    if (suffix)
        return fx_rw_node(w, &c, suffix);
    fx_rw_become(w, &c);
    return w->at;
}

/* The transpose of a constant matrix; of a transposed one, the matrix itself. */
static fx_node *transposed(fx_rw *w, fx_node *m)
{
    int64_t dims[FX_MAX_RANK];
    if (fx_is_call(m, FX_OP_permute) && fx_node_ints(m, 1, dims, FX_MAX_RANK) == 2 && fx_wrap_dim(dims[0], 2) == 1)
        return fx_node_input(m, 0);
    static const int64_t swap[2] = { 1, 0 };
    return fx_rw_permute(w, m, 2, swap, "weight");
}

/* A single row is a matrix of one row. */
void fx_d_linear(fx_rw *w)
{
    fx_node *x = fx_node_input(w->at, 0);
    fx_dim in[FX_MAX_RANK], out[FX_MAX_RANK];
    int rank = fx_sizes(x, in), out_rank = fx_sizes(w->at, out);
    fx_node *bias = fx_node_input(w->at, 2);
    if (bias && fx_dim_is(in[rank - 1], 0)) { /* a product over nothing */
        fx_rw_expand_to(w, bias, out_rank, out, NULL);
        return;
    }
    fx_node *weight = fx_node_input(w->at, 1);
    if (fx_is_tensor(weight) && weight->type->rank == 1) { /* a vector is the one row of a matrix, whose result has no dim */
        fx_dim one[2] = { fx_dim_of(1), in[rank - 1] }, rows[2] = { fx_dim_of(1), in[rank - 1] };
        for (int i = 0; i < out_rank; i++)
            rows[0] = fx_dim_mul(w->at->graph->ctx, rows[0], out[i]);
        fx_node *matrix = fx_rw_view_to(w, weight, 2, one, "matrix");
        fx_node *y = linear(w, fx_rw_view_to(w, x, 2, rows, "rows"), matrix, NULL, "mat");
        y = fx_rw_view_to(w, y, out_rank, out, bias ? "dot" : NULL);
        if (bias)
            fx_rw_binary(w, FX_OP_add_Tensor, y, bias, NULL);
        return;
    }
    if (rank != 1)
        return;
    fx_dim row[2] = { fx_dim_of(1), in[0] };
    if (!fx_is_tensor(fx_node_input(w->at, 1)) || fx_node_input(w->at, 1)->type->rank != 2) {
        fx_rw_refuse(w, "expected a weight of rank 2");
        return;
    }
    fx_node *y = linear(w, fx_rw_view_to(w, x, 2, row, "row"), fx_node_input(w->at, 1), fx_node_input(w->at, 2), "mat");
    fx_rw_view_to(w, y, out_rank, out, NULL);
}

void fx_d_mm(fx_rw *w)
{
    fx_node *a = fx_node_input(w->at, 0), *b = fx_node_input(w->at, 1);
    if (fx_is_constant(b) && !fx_is_constant(a))
        linear(w, a, transposed(w, b), NULL, NULL);
}

/* beta * bias + alpha * (a x b) */
void fx_d_addmm(fx_rw *w)
{
    fx_node *bias = fx_node_input(w->at, 0), *a = fx_node_input(w->at, 1), *b = fx_node_input(w->at, 2);
    double beta = fx_node_float(w->at, 3), alpha = fx_node_float(w->at, 4);
    bool weights = fx_is_constant(b) && !fx_is_constant(a);
    if (weights && alpha == 1 && beta == 1 && fx_is_constant(bias) && bias->type->rank == 1 &&
        fx_dim_size(bias, 0) == fx_dim_size(b, 1)) {
        linear(w, a, transposed(w, b), bias, NULL);
        return;
    }
    a = fx_rw_wide(w, a); /* eager rounds half-wide floats once, after the sum */
    b = fx_rw_wide(w, b);
    bias = fx_rw_wide(w, bias);
    fx_node *y = weights ? linear(w, a, transposed(w, b), NULL, "mm") : fx_rw_binary(w, FX_OP_mm, a, b, "mm");
    if (alpha != 1) {
        fx_call m = fx_rw_call(w, FX_OP_mul_Tensor);
        fx_call_node(&m, y);
        fx_call_copy(&m, w->at, 4);
        y = fx_rw_node(w, &m, "scaled");
    }
    if (beta == 0) { /* eager does not read the bias then: NaN in it does not count */
        fx_rw_finish(w, y);
        return;
    }
    if (beta != 1) {
        fx_call m = fx_rw_call(w, FX_OP_mul_Tensor);
        fx_call_node(&m, bias);
        fx_call_copy(&m, w->at, 3);
        bias = fx_rw_node(w, &m, "bias");
    }
    if (y->type && y->type->dtype != w->at->type->dtype)
        fx_rw_finish(w, fx_rw_binary(w, FX_OP_add_Tensor, y, bias, "sum"));
    else
        fx_rw_binary(w, FX_OP_add_Tensor, y, bias, NULL);
}

/* x (of sizes `batch`, then its last two) expanded over the batch and viewed as [B, m, k]. */
static fx_node *as_batch(fx_rw *w, fx_node *x, int nb, const fx_dim *batch, const char *suffix)
{
    fx_dim in[FX_MAX_RANK], sizes[FX_MAX_RANK], flat[3] = { fx_dim_of(1) };
    int rank = fx_sizes(x, in);
    bool same = rank == nb + 2;
    for (int i = 0; i < nb; i++) {
        sizes[i] = batch[i];
        flat[0] = fx_dim_mul(w->ctx, flat[0], batch[i]);
        same = same && fx_dim_equal(in[i], batch[i]);
    }
    flat[1] = sizes[nb] = in[rank - 2];
    flat[2] = sizes[nb + 1] = in[rank - 1];
    if (!same)
        x = fx_rw_expand_to(w, x, nb + 2, sizes, fx_intern_f(w->ctx, "%s_expand", suffix));
    return nb == 1 ? x : fx_rw_view_to(w, x, 3, flat, suffix);
}

/* torch.matmul: vectors get a dim, batches broadcast. A matrix on the right makes one product of all rows. */
void fx_d_matmul(fx_rw *w)
{
    fx_node *a = fx_node_input(w->at, 0), *b = fx_node_input(w->at, 1), *y;
    fx_dim da[FX_MAX_RANK], db[FX_MAX_RANK], out[FX_MAX_RANK], sizes[FX_MAX_RANK];
    int ra = fx_sizes(a, da), rb = fx_sizes(b, db), ro = fx_sizes(w->at, out);
    if (ra < 1 || rb < 1) {
        fx_rw_refuse(w, "expected tensors of rank 1 or more");
        return;
    }
    if (ra == 1) {
        da[1] = da[0];
        da[0] = fx_dim_of(1);
        ra = 2;
        a = fx_rw_view_to(w, a, 2, da, "row");
    }
    if (rb == 1) {
        db[1] = fx_dim_of(1);
        rb = 2;
        b = fx_rw_view_to(w, b, 2, db, "column");
    }
    if (rb == 2 && fx_is_constant(b) && !fx_is_constant(a)) {
        y = linear(w, a, transposed(w, b), NULL, "mm");
    } else if (rb == 2) {
        if (ra > 2) {
            sizes[0] = fx_dim_of(1);
            for (int i = 0; i < ra - 1; i++)
                sizes[0] = fx_dim_mul(w->ctx, sizes[0], da[i]);
            sizes[1] = da[ra - 1];
            a = fx_rw_view_to(w, a, 2, sizes, "rows");
        }
        y = fx_rw_binary(w, FX_OP_mm, a, b, "mm");
    } else {
        int nb = (ra > rb ? ra : rb) - 2;
        for (int i = 0; i < nb; i++) {
            fx_dim sa = i - (nb - (ra - 2)) >= 0 ? da[i - (nb - (ra - 2))] : fx_dim_of(1);
            fx_dim sb = i - (nb - (rb - 2)) >= 0 ? db[i - (nb - (rb - 2))] : fx_dim_of(1);
            sizes[i] = fx_dim_is(sa, 1) ? sb : sa;
        }
        fx_node *ba = as_batch(w, a, nb, sizes, "left"), *bb = as_batch(w, b, nb, sizes, "right");
        y = fx_rw_binary(w, FX_OP_bmm, ba, bb, "bmm");
    }
    if (w->status == FX_OK && fx_same_type(y, w->at))
        fx_rw_replace(w, y);
    else
        fx_rw_view_to(w, y, ro, out, NULL);
}
