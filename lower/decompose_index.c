/* lower/decompose_index.c: gathering and scattering in core rows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

/* _unsafe_index is index: checks stay, compiled programs have no unsafe ones. */
void fx_d_unsafe_index(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP_index_Tensor);
    fx_call_copy(&c, w->at, 0);
    fx_call_copy(&c, w->at, 1);
    fx_rw_become(w, &c);
}

/* index_fill, index_copy, index_add (self, dim, index, value or source). */
void fx_d_index_write(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    fx_node *x = fx_node_input(w->at, 0), *index = fx_node_input(w->at, 2), *values;
    int rank = x->type->rank;
    static const int64_t one = 1;
    if (rank == 0) {
        fx_rw_refuse(w, "expected a tensor with dims");
        return;
    }
    if (index->type->rank == 0)
        index = fx_rw_view(w, index, 1, &one, "index");
    if (id == FX_OP_index_fill_int_Scalar) {
        fx_call c = fx_rw_call(w, FX_OP_full);
        fx_call_ints(&c, 0, NULL);
        fx_call_copy(&c, w->at, 3);
        fx_call_arg(&c, fx_arg_dtype(w->ctx, x->type->dtype));
        values = fx_rw_node(w, &c, "value");
    } else {
        values = fx_node_input(w->at, 3);
        if (id == FX_OP_index_add && fx_node_float(w->at, 4) != 1)
            values = fx_rw_number(w, FX_OP_mul_Tensor, values, fx_node_float(w->at, 4), "scaled");
    }
    fx_rw_put(w, x, fx_wrap_dim(fx_node_int(w->at, 1), rank), index, values, id == FX_OP_index_add);
}

/* gather of operands expanded to common sizes; without a dim, of vectors. */
void fx_d_take_along(fx_rw *w)
{
    fx_node *x[2] = {fx_node_input(w->at, 0), fx_node_input(w->at, 1)};
    bool flat = fx_node_is_none(w->at, 2);
    int rank = x[0]->type->rank, dim = flat ? 0 : fx_wrap_dim(fx_node_int(w->at, 2), rank);
    for (int k = 0; k < 2; k++) {
        fx_dim sizes[FX_MAX_RANK], want[FX_MAX_RANK], n = fx_dim_of(1);
        int r = fx_sizes(x[k], sizes);
        if (flat) {
            for (int i = 0; i < r; i++)
                n = fx_dim_mul(w->ctx, n, sizes[i]);
            x[k] = r == 1 ? x[k] : fx_rw_view_to(w, x[k], 1, &n, "flat");
            continue;
        }
        fx_sizes(w->at, want);
        want[dim] = sizes[dim];
        bool same = true;
        for (int i = 0; i < r; i++)
            same = same && fx_dim_equal(sizes[i], want[i]);
        if (!same)
            x[k] = fx_rw_expand_to(w, x[k], r, want, k ? "index_all" : "self_all");
    }
    fx_call c = fx_rw_call(w, FX_OP_gather);
    fx_call_node(&c, x[0]);
    fx_call_int(&c, dim);
    fx_call_node(&c, x[1]);
    fx_rw_become(w, &c);
}
