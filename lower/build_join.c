/* lower/build_join.c: concatenation and padding.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/build.h"

/* A window of v that has the dims of `part`, starting at `start` of dim d. */
static fx_window window(fx_build *b, const fx_window *v, const fx_type *part, int d, fx_dim start)
{
    fx_window w = *v;
    memcpy(w.dims, part->dims, sizeof(fx_dim) * (size_t)w.rank);
    w.offset = fx_dim_add(b->ctx, v->offset, fx_dim_mul(b->ctx, start, v->strides[d]));
    return w;
}

static bool same_place(const fx_window *a, const fx_window *b)
{
    bool same = a->buf == b->buf && fx_dim_equal(a->offset, b->offset);
    for (int i = 0; same && i < a->rank; i++)
        same = fx_dim_is(a->dims[i], 1) || fx_dim_equal(a->strides[i], b->strides[i]);
    return same;
}

/* Parts that were computed in place need nothing; the others are copied. */
fx_status fx_build_cat(fx_build *b, fx_node *n)
{
    int total = n->n_operands;
    fx_node **parts = FX_NEW_ARRAY(b->piece, fx_node *, total + 1);
    int count = fx_node_inputs(n, 0, parts, total), rank = n->type->rank;
    int64_t d64 = fx_node_int(n, 1);
    int d = (int)(d64 < 0 ? d64 + rank : d64);
    fx_window out = b->value[n->id], first;
    if (out.buf < 0 && fx_build_lazy_join(b, n, count, parts, NULL))
        return FX_OK;
    if (out.buf < 0) {
        fx_window pattern = fx_build_channels_last(b, n);
        bool like_first = parts[0]->type->rank == rank && !fx_build_is_constant(parts[0]) && !fx_build_is_lazy(b, parts[0]);
        if (like_first)
            FX_TRY(fx_build_value(b, parts[0], &first));
        FX_TRY(fx_build_place(b, n, fx_build_cat_of_images(b, n) ? &pattern : like_first ? &first : NULL, &out));
    }
    b->value[n->id] = out;
    fx_dim at = fx_dim_of(0);
    for (int i = 0; i < count; i++) {
        fx_window part;
        const fx_type *t = parts[i]->type;
        if (t->rank == 1 && fx_dim_is(t->dims[0], 0) && rank != 1)
            continue; /* torch skips such empty tensors */
        fx_window dst = window(b, &out, t, d, at);
        at = fx_dim_add(b->ctx, at, t->dims[d]);
        const char *name = fx_arena_printf(b->piece, "%s_part%d", fx_build_name(b, n), i);
        const char *title = fx_arena_printf(b->piece, "%s: cat, part %d of %d", n->name, i + 1, count);
        if (fx_build_is_lazy(b, parts[i]))
            FX_TRY(fx_build_store_at(b, parts[i], &dst, title, name));
        FX_TRY(fx_build_value(b, parts[i], &part));
        if (!same_place(&part, &dst))
            FX_TRY(fx_build_copy(b, name, title, n, &part, &dst));
    }
    return FX_OK;
}

/* The whole is filled, then the inside copied. Negative pads cut. */
fx_status fx_build_pad(fx_build *b, fx_node *n)
{
    fx_node *x = fx_node_input(n, 0);
    fx_window v, out;
    if (fx_build_lazy_join(b, n, 1, &x, fx_build_param(b, n, 2, n->type->dtype)))
        return FX_OK;
    FX_TRY(fx_build_value(b, x, &v));
    FX_TRY(fx_build_place(b, n, &v, &out));
    int count = fx_node_arg(n, 1)->n;
    fx_step *step = fx_build_step(b, n, fx_arena_printf(b->piece, "pad with %g", fx_node_float(n, 2)));
    fx_nest_access acc = {.buf = out.buf, .offset = out.offset};
    memcpy(acc.strides, out.strides, sizeof out.strides);
    int order[FX_MAX_RANK];
    fx_window_order(b, &out, order);
    fx_nest nest = fx_nest_make(b, out.rank, out.dims, order, 1, &acc);
    fx_stmt *fill = fx_stmt_new(b->p, FX_ST_STORE);
    fill->buf = out.buf;
    fill->index = fx_nest_index(b, &nest, &acc);
    fill->value = fx_build_param(b, n, 2, out.dtype);
    step->body = fx_nest_wrap(b, &nest, fill);
    fx_window src = v, dst = out;
    bool empty = false;
    for (int i = 0; i < v.rank; i++) {
        int k = 2 * (v.rank - 1 - i);
        fx_dim none = fx_dim_of(0), before = k < count ? fx_build_size(n, 1, k) : none, after = k + 1 < count ? fx_build_size(n, 1, k + 1) : none;
        if (fx_dim_known(before) && before.value < 0) {
            src.offset = fx_dim_add(b->ctx, src.offset, fx_dim_scale(b->ctx, v.strides[i], -before.value));
            src.dims[i] = fx_dim_add(b->ctx, src.dims[i], before);
        } else {
            dst.offset = fx_dim_add(b->ctx, dst.offset, fx_dim_mul(b->ctx, out.strides[i], before));
        }
        if (fx_dim_known(after) && after.value < 0)
            src.dims[i] = fx_dim_add(b->ctx, src.dims[i], after);
        dst.dims[i] = src.dims[i];
        empty = empty || (fx_dim_known(src.dims[i]) && src.dims[i].value <= 0);
    }
    b->value[n->id] = out;
    if (empty)
        return FX_OK;
    return fx_build_copy(b, fx_arena_printf(b->piece, "%s_inside", fx_build_name(b, n)),
                         fx_arena_printf(b->piece, "%s: the inside", n->name), n, &src, &dst);
}
