/* tests/unit/jit.h: what the tests of compiled functions share: models as text, calls, comparisons with the reference interpreter.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_UNIT_JIT_H
#define FXCC_UNIT_JIT_H

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "fxcc/jit.h"
#include "tests/unit/unit.h"

/* A convolution, which a kernel does, and loops; and a second, small output. */
#define JIT_CONV \
    "graph \"conv\" imported\n" \
    "parameter w : f32[4, 3, 3, 3] = all 0.25\nparameter b : f32[4] = [1, -2, 3, -4]\n\n" \
    "%x : f32[2, 3, 6, 6] = placeholder[x]\n%w : f32[4, 3, 3, 3] = get_attr[w]\n%b : f32[4] = get_attr[b]\n" \
    "%c : f32[2, 4, 4, 4] = call_function[aten.conv2d.default](%x, %w, %b)\n%r : f32[2, 4, 4, 4] = call_function[aten.relu.default](%c)\n" \
    "%s : f32[2, 4] = call_function[aten.sum.dim_IntList](%r, [2, 3])\noutput((%r, %s))\n"

/* Loops alone: what compiles fastest. */
#define JIT_SMALL \
    "graph \"small\" imported\n\n%x : f32[3, 4] = placeholder[x]\n%y : f32[4] = placeholder[y]\n" \
    "%a : f32[3, 4] = call_function[aten.mul.Tensor](%x, %y)\n%z : f32[3, 4] = call_function[aten.exp.default](%a)\noutput((%z,))\n"

/* Enough elements that the loop is divided among threads. */
#define JIT_WIDE \
    "graph \"wide\" imported\n\n%x : f32[64, 4096] = placeholder[x]\n" \
    "%a : f32[64, 4096] = call_function[aten.tanh.default](%x)\n%z : f32[64, 4096] = call_function[aten.exp.default](%a)\noutput((%z,))\n"

#define JIT_OPEN \
    "graph \"open\" imported\nsymbol rows in [1, 64]\nsymbol cols in [2, inf]\n\n" \
    "%x : f32[rows, cols] = placeholder[x]\n%w : f32[cols] = placeholder[w]\n" \
    "%y : f32[rows, cols] = call_function[aten.mul.Tensor](%x, %w)\n%z : f32[rows] = call_function[aten.sum.dim_IntList](%y, [1])\noutput((%y, %z))\n"

static inline fx_function *jit_compile(fx_graph *g, const fx_jit_options *o)
{
    fx_jit_options none = {.cache = ""};
    fx_function *f = NULL;
    ck_assert_msg(fx_jit_compile(g, o ? o : &none, &f) == FX_OK, "%s", unit_diag(g->ctx));
    return f;
}

/* Numbers from -4 to 4 that differ from place to place. */
static inline void jit_fill(fx_tensor *t, int64_t seed)
{
    for (int64_t k = 0; k < fx_tensor_numel(t); k++)
        fx_tensor_set(t, k, (double)((k * 37 + 11 * seed + 5) % 127 - 63) / 16);
}

static inline fx_tensor jit_tensor(fx_context *c, fx_dtype dtype, int rank, const int64_t *sizes, int64_t seed)
{
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(c, dtype, rank, sizes, &t), FX_OK);
    jit_fill(&t, seed);
    return t;
}

/* Room for what these inputs give. */
static inline void jit_outputs(fx_context *c, fx_function *f, size_t n_in, const fx_tensor *in, fx_tensor *out)
{
    char error[400] = "";
    size_t n = fx_function_output_count(f);
    ck_assert_msg(fx_function_outputs(f, n_in, in, n, out, error, sizeof error) == FX_OK, "%s", error);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(fx_tensor_create(c, out[i].dtype, out[i].rank, out[i].sizes, &out[i]), FX_OK);
}

static inline void jit_call(fx_function *f, size_t n_in, const fx_tensor *in, const fx_tensor *out)
{
    char error[400] = "";
    ck_assert_msg(fx_function_call(f, n_in, in, fx_function_output_count(f), out, error, sizeof error) == FX_OK, "%s", error);
}

static inline bool jit_near(const fx_tensor *got, const fx_tensor *want)
{
    for (int64_t k = 0; k < fx_tensor_numel(want); k++) {
        double a = fx_tensor_get(got, k), b = fx_tensor_get(want, k);
        if (!(fabs(a - b) <= 1e-5 * (1 + fabs(b))))
            return false;
    }
    return fx_tensor_numel(got) == fx_tensor_numel(want);
}

/* What the reference interpreter gives of dense inputs, which it may change. */
static inline void jit_judge(fx_graph *g, size_t n_in, const fx_tensor *in, const fx_tensor *got)
{
    size_t n;
    fx_tensor *want;
    ck_assert_msg(fx_graph_interpret(g, n_in, in, &n, &want) == FX_OK, "%s", unit_diag(g->ctx));
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(jit_near(&got[i], &want[i]), "output %zu differs from the reference interpreter's", i);
}

#endif
