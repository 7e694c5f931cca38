/* lower/decompose_index.c: gathering and scattering in core rows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

/* _unsafe_index is index, _unsafe_index_put index_put: checks stay, compiled programs have no unsafe ones. */
void fx_d_unsafe_index(fx_rw *w)
{
    bool put = w->at->op->id == FX_OP__unsafe_index_put;
    fx_call c = fx_rw_call(w, put ? FX_OP_index_put : FX_OP_index_Tensor);
    for (int p = 0; p < (put ? 4 : 2); p++)
        fx_call_copy(&c, w->at, p);
    fx_rw_become(w, &c);
}

/* index_copy, index_add: scattered, for a scatter takes no negative indices, as these. */
static void scattered(fx_rw *w, fx_node *x, int dim, fx_node *index, fx_node *source, bool adds)
{
    fx_dim sizes[FX_MAX_RANK], line[FX_MAX_RANK];
    int rank = x->type->rank;
    static const int64_t one = 1;
    if (source->type->rank == 0)
        source = fx_rw_view(w, source, 1, &one, "source");
    fx_sizes(source, sizes);
    for (int i = 0; i < rank; i++)
        line[i] = i == dim ? sizes[i] : fx_dim_of(1);
    index = fx_rw_view_to(w, index, rank, line, "line");
    index = rank == 1 ? index : fx_rw_expand_to(w, index, rank, sizes, "places");
    fx_call c = fx_rw_call(w, adds ? FX_OP_scatter_add : FX_OP_scatter_src);
    fx_call_node(&c, x);
    fx_call_int(&c, dim);
    fx_call_node(&c, index);
    fx_call_node(&c, source);
    fx_rw_become(w, &c);
}

/* index_fill, index_copy, index_add (self, dim, index, value or source). */
void fx_d_index_write(fx_rw *w)
{
    fx_opid id = w->at->op->id;
    fx_node *x = fx_node_input(w->at, 0), *index = fx_node_input(w->at, 2);
    int rank = x->type->rank, dim = fx_wrap_dim(fx_node_int(w->at, 1), rank);
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
        fx_rw_put(w, x, dim, index, fx_rw_node(w, &c, "value"), false);
        return;
    }
    fx_node *source = fx_node_input(w->at, 3);
    bool adds = id == FX_OP_index_add;
    if (adds && fx_node_float(w->at, 4) != 1)
        source = fx_rw_number(w, FX_OP_mul_Tensor, source, fx_node_float(w->at, 4), "scaled");
    scattered(w, x, dim, index, source, adds);
}

/* gather of operands expanded to common sizes, its indices modulo the dim; without a dim, of vectors. */
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
    fx_call c;
    if (!flat) {
        c = fx_rw_call(w, FX_OP_remainder_Tensor);
        fx_call_node(&c, x[1]);
        fx_call_size(&c, x[0]->type->dims[dim]);
        x[1] = fx_rw_node(w, &c, "index");
    }
    c = fx_rw_call(w, FX_OP_gather);
    fx_call_node(&c, x[0]);
    fx_call_int(&c, dim);
    fx_call_node(&c, x[1]);
    fx_rw_become(w, &c);
}
