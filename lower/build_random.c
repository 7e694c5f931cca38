/* lower/build_random.c: random numbers: one loop, each element by its place alone (runtime/philox.h).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ops.h"
#include "lower/build.h"

static const fx_sexpr *word(fx_build *b, const fx_window *state, int i)
{
    fx_affine at = fx_affine_dim(fx_dim_add(b->ctx, state->offset, fx_dim_scale(b->ctx, state->strides[0], i)));
    return fx_s_load(b->p, state->buf, &at);
}

fx_status fx_build_philox(fx_build *b, fx_node *n)
{
    fx_window state, out;
    fx_dim elements = fx_dim_of(1);
    FX_TRY(fx_build_value(b, fx_node_input(n, 0), &state));
    FX_TRY(fx_build_place(b, n, NULL, &out));
    fx_step *step = fx_build_step(b, n, "philox");
    fx_nest_access to[2] = {{.buf = out.buf, .offset = out.offset}, {.buf = out.buf, .offset = fx_dim_of(fx_node_int(n, 2) * FX_PHILOX_ELEMENTS)}};
    memcpy(to[0].strides, out.strides, sizeof out.strides);
    for (int i = out.rank - 1; i >= 0; i--) { /* the place in the stream: row-major, wherever the result lies */
        to[1].strides[i] = elements;
        elements = fx_dim_mul(b->ctx, elements, out.dims[i]);
    }
    int order[FX_MAX_RANK];
    for (int i = 0; i < out.rank; i++)
        order[i] = i;
    fx_nest nest = fx_nest_make(b, out.rank, out.dims, order, 2, to);
    fx_affine place = fx_nest_index(b, &nest, &to[1]);
    const fx_sexpr *seed = word(b, &state, 0), *call = word(b, &state, 1);
    const fx_sexpr *bits = fx_s_op(b->p, FX_S_philox, FX_I64, fx_s_index(b->p, &place), seed, call);
    if (out.dtype == FX_F32) { /* the upper 24 bits, as a fraction */
        bits = fx_s_op(b->p, FX_S_shr, FX_I64, bits, fx_s_int(b->p, FX_I64, 8), NULL);
        bits = fx_s_op(b->p, FX_S_mul, FX_F32, fx_s_cast(b->p, FX_F32, bits), fx_s_const(b->p, FX_F32, 0x1p-24), NULL);
    }
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = out.buf;
    store->index = fx_nest_index(b, &nest, &to[0]);
    store->value = bits;
    step->body = fx_nest_wrap(b, &nest, store);
    b->value[n->id] = out;
    return FX_OK;
}
