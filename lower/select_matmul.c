/* lower/select_matmul.c: matrix products become kernel calls.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/select.h"

static const char *size(fx_build *b, fx_dim d)
{
    return fx_build_dims(b, 1, &d);
}

fx_status fx_select_linear(fx_build *b, fx_node *root)
{
    const fx_group g = b->group[root->id];
    fx_node *n = g.anchor, *x_node = fx_node_input(n, 0), *w_node = fx_node_input(n, 1);
    FX_TRY(fx_select_f32(b, n, n->type->dtype));
    fx_window x, out, r = {0};
    bool has_r;
    fx_dim m, x_m;
    FX_TRY(fx_build_value(b, x_node, &x));
    int last = x.rank - 1;
    if (!fx_window_unit(&x, last) || !fx_window_rows(b, &x, 1, &m, &x_m) || !fx_build_at_least(b, x_m, 0)) {
        FX_TRY(fx_build_dense(b, x_node, &x));
        fx_window_rows(b, &x, 1, &m, &x_m);
    }
    FX_TRY(fx_select_residual(b, root, false, &r, &has_r));
    FX_TRY(fx_build_place(b, root, NULL, &out));
    FX_TRY(fx_select_fits(b, n, &x));
    FX_TRY(fx_select_fits(b, n, &out));
    int32_t k = (int32_t)x.dims[last].value, cols = (int32_t)out.dims[out.rank - 1].value;
    const float *w;
    FX_TRY(fx_build_constant(b, n, w_node, "weight", &w));
    fxrt_gemm_desc d = {.batch = 1, .n = cols, .k = k, .y_m = cols, .r_m = cols, .w_k = 1, .w_n = k,
                        .act = g.act, .act_a = g.act_a, .act_b = g.act_b};
    fx_call_stmt *c = fx_call_new(b, FX_K_gemm);
    fx_call_from_desc(c, &d);
    fx_call_set_dim(c, "m", m);
    fx_call_set_dim(c, "x_m", x_m);
    const char *name = fx_build_name(b, n);
    float *packed;
    int wbuf = fx_select_packed(b, fx_arena_printf(b->scratch, "%s_weight", name), fxrt_gemm_packed_size(&d, &b->tile),
                                fx_arena_printf(b->p->arena, "[in] in panels of %d outputs", b->tile.nr), &packed);
    fxrt_gemm_pack(&d, &b->tile, w, packed);
    int bias;
    FX_TRY(fx_select_bias(b, n, fx_node_input(n, 2), name, 1, cols, b->tile.nr, &bias));
    fx_call_set_window(c, "x", &x);
    fx_call_set_buf(c, "w", wbuf, fx_dim_of(0));
    fx_call_set_buf(c, "b", bias, fx_dim_of(0));
    fx_call_set_window(c, "y", &out);
    if (has_r) {
        fx_call_set_window(c, "r", &r);
        fx_select_overlay(b, &out, &r, &x);
    }
    fx_call_emit(b, root, c, fx_arena_printf(b->scratch, "linear %d->%d%s", k, cols, g.tail));
    b->value[root->id] = out;
    return FX_OK;
}

/* Bytes to pack one w into: the panels of nr columns that the kernel works on. */
static int matmul_workspace(fx_build *b, const fx_call_stmt *c, const char *name)
{
    fxrt_gemm_desc d;
    fx_call_to_desc(c, &d);
    if (fx_call_is_static(c))
        return fx_select_workspace(b, name, fxrt_matmul_workspace(&d, &b->tile, b->threads));
    fx_dim nr = fx_dim_of(b->tile.nr);
    fx_dim panels = fx_dim_floordiv(b->ctx, fx_dim_plus(b->ctx, fx_call_dim(c, "n"), b->tile.nr - 1), nr);
    return fx_select_workspace_dim(b, name, fx_dim_mul(b->ctx, fx_dim_mul(b->ctx, panels, nr), fx_call_dim(c, "k")));
}

/* mm, bmm, addmm: both matrices are computed, or constants that no rewrite made into a linear. */
fx_status fx_select_matmul(fx_build *b, fx_node *root)
{
    const fx_group g = b->group[root->id];
    fx_node *n = g.anchor;
    int at = n->op->id == FX_OP_addmm ? 1 : 0;
    fx_node *x_node = fx_node_input(n, at), *w_node = fx_node_input(n, at + 1), *add = at ? fx_node_input(n, 0) : NULL;
    FX_TRY(fx_select_f32(b, n, n->type->dtype));
    if (at && (fx_node_float(n, 3) != 1 || fx_node_float(n, 4) != 1))
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "addmm with alpha or beta other than 1 cannot be compiled yet");
    fx_window x, w, out, r = {0};
    bool has_r;
    FX_TRY(fx_build_value(b, x_node, &x));
    int rank = x.rank, row = rank - 2, col = rank - 1;
    if (!fx_window_unit(&x, col) || !fx_build_at_least(b, x.strides[row], 0) || (rank == 3 && !fx_build_at_least(b, x.strides[0], 0)))
        FX_TRY(fx_build_dense(b, x_node, &x));
    FX_TRY(fx_build_value(b, w_node, &w));
    if (!fx_window_forward(b, &w))
        FX_TRY(fx_build_dense(b, w_node, &w));
    FX_TRY(fx_select_residual(b, root, false, &r, &has_r));
    FX_TRY(fx_build_place(b, root, NULL, &out));
    FX_TRY(fx_select_fits(b, n, &x));
    FX_TRY(fx_select_fits(b, n, &w));
    FX_TRY(fx_select_fits(b, n, &out));
    fx_call_stmt *c = fx_call_new(b, FX_K_matmul);
    fx_call_set(c, "batch", 1);
    if (rank == 3) {
        fx_call_set_dim(c, "batch", x.dims[0]);
        fx_call_set_dim(c, "x_b", x.strides[0]);
        fx_call_set_dim(c, "y_b", out.strides[0]);
        fx_call_set_dim(c, "r_b", out.strides[0]);
        fx_call_set_dim(c, "w_b", w.strides[0]);
    }
    fx_call_set_dim(c, "m", x.dims[row]);
    fx_call_set_dim(c, "n", w.dims[col]);
    fx_call_set_dim(c, "k", x.dims[col]);
    fx_call_set_dim(c, "x_m", x.strides[row]);
    fx_call_set_dim(c, "y_m", out.strides[row]);
    fx_call_set_dim(c, "r_m", out.strides[row]);
    fx_call_set_dim(c, "w_k", w.strides[row]);
    fx_call_set_dim(c, "w_n", w.strides[col]);
    fx_call_set_act(c, &g);
    int bias = -1;
    const char *name = fx_build_name(b, n);
    if (add && fx_build_is_constant(add) && add->type->rank == 1 && fx_dim_equal(add->type->dims[0], w.dims[col])) {
        FX_TRY(fx_select_bias(b, n, add, name, 1, (int32_t)w.dims[col].value, b->tile.nr, &bias));
    } else if (add) {
        if (has_r || !fx_type_same_shape(add->type, n->type))
            return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "addmm whose first operand is broadcast and computed cannot be compiled yet");
        FX_TRY(fx_build_dense(b, add, &r));
        has_r = true;
    }
    fx_call_set_window(c, "x", &x);
    fx_call_set_window(c, "w", &w);
    fx_call_set_buf(c, "b", bias, fx_dim_of(0));
    fx_call_set_window(c, "y", &out);
    fx_call_set_buf(c, "ws", matmul_workspace(b, c, name), fx_dim_of(0));
    if (has_r)
        fx_call_set_window(c, "r", &r);
    fx_call_emit(b, root, c, fx_arena_printf(b->scratch, "matmul %sx%s by %sx%s%s", size(b, x.dims[row]), size(b, x.dims[col]),
                                             size(b, x.dims[col]), size(b, w.dims[col]), g.tail));
    b->value[root->id] = out;
    return FX_OK;
}
