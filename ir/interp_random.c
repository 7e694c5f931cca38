/* ir/interp_random.c: random numbers: their types, and Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2,
 * 3, SC 2011), which all others are made of (passes/random.c).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Element i of stream k in call n is word i % 4 of the block with counter (i / 4, k, n) and the seed as key: it depends on nothing else, so
 * neither on threads nor on the order in which elements are computed. */
#include <inttypes.h>

#include "ir/ops.h"

void fx_philox_block(uint32_t counter[4], uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = UINT64_C(0xD2511F53) * counter[0], b = UINT64_C(0xCD9E8D57) * counter[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ counter[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ counter[3] ^ k1, (uint32_t)a};
        for (int i = 0; i < 4; i++)
            counter[i] = next[i];
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

uint32_t fx_philox(uint64_t position, uint64_t seed, uint64_t call)
{
    uint64_t block = position / 4;
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)call, (uint32_t)(call >> 32)};
    fx_philox_block(counter, seed);
    return counter[position % 4];
}

/* ---- types ------------------------------------------------------------------------------------------------------------------ */

fx_status infer_philox(fx_infer *c)
{
    const fx_type *t;
    fx_dim dims[FX_MAX_RANK];
    int n;
    FX_TRY(fx_infer_tensor(c, 0, &t));
    FX_TRY(fx_infer_dims(c, 1, dims, FX_MAX_RANK, &n));
    if (t->dtype != FX_I64 || t->rank != 1 || fx_dim_differ(t->dims[0], fx_dim_of(2)))
        return fx_infer_fail(c, "argument 'state': expected int64[2], a seed and the number of the call, got %s", fx_infer_text(c, t));
    int64_t stream = fx_node_int(c->node, 2), elements = 1;
    if (stream < 0 || stream >= FX_PHILOX_STREAMS)
        return fx_infer_fail(c, "argument 'stream': expected 0 to %d, got %" PRId64, FX_PHILOX_STREAMS - 1, stream);
    for (int i = 0; i < n; i++) {
        if (!dims[i].sym && dims[i].value < 0)
            return fx_infer_fail(c, "argument 'size': expected no negative size, got %" PRId64, dims[i].value);
        if (!dims[i].sym && (__builtin_mul_overflow(elements, dims[i].value, &elements) || elements > FX_PHILOX_ELEMENTS))
            return fx_infer_fail(c, "argument 'size': expected at most %" PRId64 " elements, which a stream has", (int64_t)FX_PHILOX_ELEMENTS);
    }
    fx_dtype dtype = fx_infer_dtype(c, 3, FX_F32);
    if (dtype != FX_F32 && dtype != FX_I64)
        return fx_infer_fail(c, "argument 'dtype': expected float32 or int64, got %s", fx_dtype_name(dtype));
    return fx_infer_set(c, dtype, n, dims);
}

/* bernoulli, uniform and the like: as self. */
fx_status infer_random(fx_infer *c)
{
    const fx_type *x;
    FX_TRY(fx_infer_tensor(c, 0, &x));
    if (fx_dtype_is_complex(x->dtype) || (c->node->op->id != FX_OP_bernoulli_p && !fx_dtype_is_float(x->dtype)))
        return fx_infer_fail(c, "expected floats, got %s", fx_infer_text(c, x));
    return fx_infer_set(c, x->dtype, x->rank, x->dims);
}

fx_status infer_native_dropout(fx_infer *c)
{
    const fx_type *x;
    double p = fx_node_float(c->node, 1);
    FX_TRY(fx_infer_tensor(c, 0, &x));
    if (!fx_dtype_is_float(x->dtype))
        return fx_infer_fail(c, "expected floats, got %s", fx_infer_text(c, x));
    if (!(p >= 0 && p <= 1))
        return fx_infer_fail(c, "argument 'p': expected a probability, got %g", p);
    FX_TRY(fx_infer_set(c, x->dtype, x->rank, x->dims));
    const fx_type *mask = fx_type_tensor(c->ctx, FX_BOOL, x->rank, x->dims, NULL);
    c->result = fx_type_tuple(c->ctx, 2, (const fx_type *[]){c->result, mask});
    return FX_OK;
}

/* By sizes, or like another tensor. */
fx_status infer_random_create(fx_infer *c)
{
    const fx_type *x;
    fx_dim dims[FX_MAX_RANK];
    int n, size = fx_node_param(c->node, "size"), dtype = fx_node_param(c->node, "dtype"), high = fx_node_param(c->node, "high");
    fx_dtype def = high < 0 ? FX_F32 : FX_I64;
    if (size >= 0) {
        FX_TRY(fx_infer_dims(c, size, dims, FX_MAX_RANK, &n));
        return fx_infer_set(c, fx_infer_dtype(c, dtype, def), n, dims);
    }
    FX_TRY(fx_infer_tensor(c, 0, &x));
    fx_dtype d = fx_infer_dtype(c, dtype, x->dtype);
    if (fx_dtype_is_complex(d) || (high < 0 && !fx_dtype_is_float(d)))
        return fx_infer_fail(c, "expected floats, got %s", fx_infer_text(c, x));
    return fx_infer_set(c, d, x->rank, x->dims);
}

/* ---- values ----------------------------------------------------------------------------------------------------------------- */

fx_status eval_philox(fx_eval *c)
{
    const void *p;
    FX_TRY(fx_eval_array(c, fx_eval_input(c, 0), FX_KIND_INT, 0, NULL, &p));
    const int64_t *state = p;
    fx_tensor *out = fx_eval_out(c, 0);
    int64_t n = fx_tensor_numel(out), first = fx_node_int(c->node, 2) * FX_PHILOX_ELEMENTS;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = fx_philox((uint64_t)(first + i), (uint64_t)state[0], (uint64_t)state[1]);
        if (out->dtype == FX_F32)
            ((float *)out->data)[i] = (float)(bits >> 8) * 0x1p-24f;
        else
            ((int64_t *)out->data)[i] = bits;
    }
    return FX_OK;
}

/* These have no numbers of their own. */
fx_status eval_random(fx_eval *c)
{
    return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "draws random numbers, and the graph has no state for them: fx_graph_add_philox_state gives it one");
}
