/* lower/select_attention.c: attention becomes one kernel call. What the kernel does not do, lower/attention.c has taken apart.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/rewrite.h"
#include "lower/select.h"

/* The value of operand `at`, its rows dense and no stride negative: by its strides where they allow it, else copied. */
static fx_status operand(fx_build *b, fx_node *n, int at, fx_window *v)
{
    fx_node *from = fx_node_input(n, at);
    FX_TRY(fx_build_value(b, from, v));
    if (!fx_window_unit(v, v->rank - 1) || !fx_window_forward(b, v))
        FX_TRY(fx_build_dense(b, from, v));
    return fx_select_fits(b, n, v);
}

static void set_strides(fx_call_stmt *c, const fx_window *v, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        fx_call_set_dim(c, names[i], v->strides[i]);
}

/* A constant mask with its columns dense, so that the kernel adds it to whole vectors of queries; false: it is not constant, or there is
 * a number for all queries. */
static fx_status turned(fx_build *b, fx_node *n, fx_node *from, fx_window *v, bool *done)
{
    const float *data;
    const fx_type *t = from->type;
    fx_window **cached = &b->turned[from->id];
    if (*cached) {
        *v = **cached;
        *done = true;
        return FX_OK;
    }
    *done = fx_build_is_constant(from) && t->dtype == FX_F32 && !fx_dim_is(t->dims[2], 1) && !fx_dim_is(t->dims[3], 1);
    if (!*done)
        return FX_OK;
    FX_TRY(fx_build_constant(b, n, from, "mask", &data));
    const int64_t rows = t->dims[2].value, columns = t->dims[3].value, all = t->dims[0].value * t->dims[1].value * rows * columns;
    float *to = NULL;
    *v = (fx_window){.dtype = FX_F32, .rank = 4};
    memcpy(v->dims, t->dims, 4 * sizeof *t->dims);
    fx_window_set_dense(b, v);
    v->strides[2] = fx_dim_of(1);
    v->strides[3] = fx_dim_of(rows);
    v->buf = fx_select_packed(b, from->target, FX_F32, (size_t)all, "columns dense", &to);
    for (int64_t i = 0; i < all; i++)
        to[i / (rows * columns) * (rows * columns) + i % columns * rows + i / columns % rows] = data[i];
    *cached = fx_arena_dup(b->scratch, v, sizeof *v);
    return FX_OK;
}

/* What the kernel adds is all of the queries' type, or else float32. */
static fx_dtype masks_type(const fx_node *n)
{
    const fx_node *added[] = {fx_node_input(n, 3), n->op->id == FX_OP_attention ? fx_node_input(n, 9) : NULL};
    for (int i = 0; i < 2; i++)
        if (added[i] && added[i]->type->dtype != n->type->dtype)
            return FX_F32;
    return n->type->dtype;
}

/* The mask, or the bias before it: dims of 1 are broadcast, without a stride. */
static fx_status set_mask(fx_build *b, fx_node *n, fx_call_stmt *c, int param, fx_dtype type)
{
    static const char *const names[2][4] = {{"mask_b", "mask_h", "mask_m", "mask_n"}, {"bias_b", "bias_h", "bias_m", "bias_n"}};
    const bool bias = param == 9;
    fx_node *from = bias && n->op->id != FX_OP_attention ? NULL : fx_node_input(n, param);
    fx_window v;
    bool done = false;
    if (!from)
        return FX_OK;
    if (from->type->dtype != type) {
        FX_TRY(fx_select_input(b, from, type, FX_ROW_MAJOR, &v));
        done = true;
    } else if (bias || !(n->op->id == FX_OP_attention && fx_node_bool(n, 8))) /* where it fills, the kernel goes by rows */
        FX_TRY(turned(b, n, from, &v, &done));
    if (!done)
        FX_TRY(fx_build_value(b, from, &v));
    if (!fx_window_forward(b, &v))
        FX_TRY(fx_build_dense(b, from, &v));
    FX_TRY(fx_select_fits(b, n, &v));
    for (int i = 0; i < 4; i++)
        fx_call_set_dim(c, names[bias][i], fx_dim_is(v.dims[i], 1) ? fx_dim_of(0) : v.strides[i]);
    fx_call_set_window(c, bias ? "bias" : "mask", &v);
    return FX_OK;
}

/* In memory as a permute after it orders the dims (heads side by side in a row, for the projection); else row-major. */
static const fx_window *place_like(const fx_node *n, const fx_window *q, fx_window *pattern)
{
    *pattern = *q;
    for (const fx_use *u = n->first_use; u; u = u->next) {
        int64_t dims[FX_MAX_RANK];
        if (!fx_is_call(u->user, FX_OP_permute) || fx_node_ints(u->user, 1, dims, FX_MAX_RANK) != 4 || (dims[3] != 3 && dims[3] != -1))
            continue;
        for (int i = 0; i < 4; i++) /* only their order counts */
            pattern->strides[dims[i] < 0 ? dims[i] + 4 : dims[i]] = fx_dim_of(8 >> i);
        return pattern;
    }
    return NULL;
}

/* For sizes that are symbols: units of the most rows there are. */
static int attention_workspace(fx_build *b, const fx_call_stmt *c, const char *name)
{
    fxrt_attention_desc d;
    fx_call_to_desc(c, &d);
    if (fx_target_is_gpu(&b->p->target))
        return -1;
    if (fx_call_is_static(c))
        return fx_select_workspace(b, name, fxrt_attention_workspace(&d, &b->tile));
    d.batch = d.heads = d.slots;
    d.m = INT16_MAX;
    d.dk = 0;
    if (fx_call_dim(c, "dv").sym)
        d.dv = 1;
    fx_dim fixed = fx_dim_of((int64_t)(fxrt_attention_workspace(&d, &b->tile) / sizeof(float)));
    d.dk = 1;
    int64_t each = (int64_t)(fxrt_attention_workspace(&d, &b->tile) / sizeof(float)) - fixed.value;
    return fx_select_workspace_dim(b, name, fx_dim_add(b->ctx, fixed, fx_dim_scale(b->ctx, fx_call_dim(c, "dk"), each)));
}

fx_status fx_select_attention(fx_build *b, fx_node *n)
{
    static const char *const q_names[] = {"q_b", "q_h", "q_m", NULL}, *const k_names[] = {"k_b", "k_h", "k_n", NULL};
    static const char *const v_names[] = {"v_b", "v_h", "v_n", NULL}, *const o_names[] = {"o_b", "o_h", "o_m", NULL};
    fx_window q, k, v, y, pattern;
    if (!fx_lower_takes(b->opt, FX_K_attention, n->type->dtype))
        return fx_fail(b->ctx, FX_INTERNAL, &n->loc, "attention of %s, which its kernel does not take", fx_dtype_name(n->type->dtype));
    FX_TRY(operand(b, n, 0, &q));
    FX_TRY(operand(b, n, 1, &k));
    FX_TRY(operand(b, n, 2, &v));
    fx_call_stmt *c = fx_call_new(b, FX_K_attention);
    const fx_dtype masks = masks_type(n);
    FX_TRY(set_mask(b, n, c, 9, masks));
    FX_TRY(set_mask(b, n, c, 3, masks));
    FX_TRY(fx_build_place(b, n, place_like(n, &q, &pattern), &y));
    FX_TRY(fx_select_fits(b, n, &y));
    fx_call_set_dim(c, "batch", q.dims[0]);
    fx_call_set_dim(c, "heads", q.dims[1]);
    fx_call_set_dim(c, "kv_heads", k.dims[1]);
    fx_call_set_dim(c, "m", q.dims[2]);
    fx_call_set_dim(c, "n", k.dims[2]);
    fx_call_set_dim(c, "dk", q.dims[3]);
    fx_call_set_dim(c, "dv", v.dims[3]);
    set_strides(c, &q, q_names);
    set_strides(c, &k, k_names);
    set_strides(c, &v, v_names);
    set_strides(c, &y, o_names);
    bool causal = fx_node_bool(n, 5);
    fx_call_set(c, "causal", causal);
    fx_call_set(c, "zero_empty", n->op->id == FX_OP_scaled_dot_product_attention);
    fx_call_set(c, "fill", n->op->id == FX_OP_attention && fx_node_bool(n, 8));
    fx_call_set(c, "slots", b->threads);
    fx_call_set(c, "scale", (float)fx_node_float(n, 6));
    fx_call_set_window(c, "k", &k);
    fx_call_set_window(c, "v", &v);
    fx_call_set_buf(c, "ws", attention_workspace(b, c, fx_build_name(b, n)), fx_dim_of(0));
    const char *kind = fx_node_input(n, 3) ? "masked " : causal ? "causal " : "";
    fx_call_set_window(c, "x", &q);
    fx_call_set_window(c, "y", &y);
    fx_call_emit(b, n, c, fx_arena_printf(b->piece, "%sattention of %s heads, %s by %s over %s", kind, fx_build_dims(b, 1, &q.dims[1]),
                                          fx_build_dims(b, 1, &q.dims[2]), fx_build_dims(b, 1, &k.dims[2]), fx_build_dims(b, 1, &q.dims[3])));
    b->value[n->id] = y;
    return FX_OK;
}
