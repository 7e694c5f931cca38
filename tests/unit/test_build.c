/* tests/unit/test_build.c: lowering of reductions, rows, indices and orders: the loop program, interpreted, must give what the graph's
 * interpreter gives; and what its text must and must not hold.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "ir/program.h"
#include "lower/lower.h"
#include "tests/unit/fixture.h"

static const char *first_message(void)
{
    const fx_diag *d = fx_diag_get(ctx, 0);
    return d ? d->message : "no diagnostic";
}

static double next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 33) / (double)(1u << 30) - 1;
}

/* Random floats, with some equal ones; integers of 0 ... limit - 1, or from -limit on when `wrap`. */
static void fill(fx_tensor *t, int limit, bool wrap, uint64_t *state)
{
    for (int64_t i = 0; i < fx_tensor_numel(t); i++) {
        double r = next_random(state);
        if (fx_dtype_is_float(t->dtype))
            fx_tensor_set(t, i, i % 5 == 3 ? 0.5 : 2 * r);
        else
            fx_tensor_set_int(t, i, (int64_t)floor((r + 1) / 2 * limit * (wrap ? 2 : 1)) - (wrap ? limit : 0));
    }
}

static fx_graph *graph_of(const char *lines)
{
    const char *text = fx_arena_printf(fx_context_arena(ctx), "graph g\n%s", lines);
    fx_graph *g;
    ck_assert_msg(fx_graph_parse(ctx, "g.fx", text, strlen(text), &g) == FX_OK, "%s: %s", lines, first_message());
    FX_FOR_NODES(g, n) {
        if (n->op)
            ck_assert_msg(fx_node_normalize(n) == FX_OK, "%s: %s", lines, first_message());
    }
    ck_assert_msg(fx_graph_infer(g) == FX_OK, "%s: %s", lines, first_message());
    return g;
}

static fx_status lower_to(fx_graph *g, const char *target, unsigned off, fx_fault fault, fx_program **p)
{
    fx_lower_options opt = {.threads = 2, .off = off, .fault = fault};
    ck_assert_int_eq(fx_target_get(ctx, target, &opt.target), FX_OK);
    return fx_lower_run(fx_graph_copy(g), &opt, p);
}

enum { MOST = 8 };

static size_t inputs_of(fx_graph *g, int limit, bool wrap, fx_tensor *in)
{
    uint64_t state = 3;
    size_t n_in = 0;
    FX_FOR_NODES(g, n) {
        if (n->opcode != FX_PLACEHOLDER)
            continue;
        ck_assert_uint_lt(n_in, MOST);
        ck_assert_int_eq(fx_tensor_like(ctx, n->type->dtype, n->type, &in[n_in]), FX_OK);
        fill(&in[n_in++], limit, wrap, &state);
    }
    return n_in;
}

/* Equal; floats near, relative to the largest. */
static void same(const char *what, size_t o, const fx_tensor *want, const fx_tensor *got)
{
    double largest = 0;
    ck_assert_int_eq(fx_tensor_numel(got), fx_tensor_numel(want));
    ck_assert_int_eq(got->dtype, want->dtype);
    for (int64_t i = 0; i < fx_tensor_numel(want); i++)
        largest = fmax(largest, isfinite(fx_tensor_get(want, i)) ? fabs(fx_tensor_get(want, i)) : 0);
    double most = !fx_dtype_is_float(want->dtype) ? 0 : want->dtype == FX_F16 ? 2e-3 : want->dtype == FX_BF16 ? 1e-2 : 2e-6;
    for (int64_t i = 0; i < fx_tensor_numel(want); i++) {
        double a = fx_tensor_get(want, i), b = fx_tensor_get(got, i);
        ck_assert_msg(a == b || (a != a && b != b) || fabs(a - b) <= most * largest, "%s: output %zu, element %lld: expected %g, got %g", what,
                      o, (long long)i, a, b);
    }
}

static void agree(const char *what, fx_graph *g, int limit, bool wrap)
{
    static const struct {
        const char *target;
        unsigned off;
    } ways[] = {{"generic", 0}, {"x86_64-avx2", 0}, {"x86_64-avx2", FX_OFF(FUSE)}, {"generic", FX_OFF(INPLACE)}, {"cuda", 0}};
    size_t n_want, n_got;
    fx_tensor in[MOST], *want, *got;
    size_t n_in = inputs_of(g, limit, wrap, in);
    ck_assert_msg(fx_graph_interpret(g, n_in, in, &n_want, &want) == FX_OK, "%s: interpreter: %s", what, first_message());
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        fx_program *p;
        ck_assert_msg(lower_to(g, ways[w].target, ways[w].off, FX_FAULT_NONE, &p) == FX_OK, "%s: lowering: %s", what, first_message());
        for (int planned = 0; planned < 2; planned++) {
            ck_assert_msg(fx_program_run(p, planned, n_in, in, &n_got, &got) == FX_OK, "%s: program: %s", what, first_message());
            ck_assert_uint_eq(n_got, n_want);
            for (size_t o = 0; o < n_want; o++)
                same(what, o, &want[o], &got[o]);
        }
    }
}

#define IN(name, type) "%" name " : " type " = placeholder[" name "]\n"
#define CALL(to, op, args) "%" to " = call_function[aten." op "](" args ")\n"

/* Indices: limit of the integers, whether they may be negative, and a check that the program makes. */
static const struct {
    const char *text;
    int limit;
    bool wrap;
    const char *check;
} indices[] = {
    {IN("w", "f32[7, 5]") IN("i", "i64[2, 3]") CALL("y", "embedding.default", "%w, %i") "output((%y,))\n", 7, false, "check t0 in 7 \"index into the 7 of dim 0 of w\""},
    {IN("w", "f16[7, 5]") IN("i", "i32[4]") CALL("y", "embedding.default", "%w, %i") "output((%y,))\n", 7, false, "check t0 in 7"},
    {IN("x", "f32[3, 6, 4]") IN("i", "i64[5]") CALL("y", "index_select.default", "%x, 1, %i") "output((%y,))\n", 6, false, "check t0 in 6"},
    {IN("x", "i64[3, 6]") IN("i", "i64[]") CALL("y", "index_select.default", "%x, -1, %i") "output((%y,))\n", 6, false, "check t0 in 6"},
    {IN("x", "f32[3, 6, 4]") IN("i", "i64[2, 5, 3]") CALL("y", "gather.default", "%x, 1, %i") "output((%y,))\n", 6, false, "check t0 in 6"},
    {IN("x", "f32[6]") IN("i", "i64[0]") CALL("y", "gather.default", "%x, 0, %i") "output((%y,))\n", 6, false, "f32[0]"}, /* folded */
    {IN("x", "f32[4, 6]") IN("i", "i64[3]") CALL("y", "index.Tensor", "%x, [%i]") "output((%y,))\n", 4, true, "select.i64(lt.bool("},
    {IN("x", "f32[4, 5, 6]") IN("i", "i64[3, 1]") IN("j", "i64[2]") CALL("y", "index.Tensor", "%x, [None, %i, %j]") "output((%y,))\n", 4, true, "check t1"},
    {IN("x", "u8[4, 5, 6]") IN("i", "i64[3]") IN("j", "i32[3]") CALL("y", "index.Tensor", "%x, [%i, None, %j]") "output((%y,))\n", 4, true, "check t1"},
    {IN("x", "f32[4, 6]") IN("i", "i64[3, 2]") IN("s", "f32[3, 4]") CALL("y", "scatter.src", "%x, 0, %i, %s") "output((%y,))\n", 4, false, "check t0 in 4"},
    {IN("x", "f32[4, 6]") IN("i", "i64[3, 2]") CALL("y", "scatter.value", "%x, 1, %i, 2.5") "output((%y, %x))\n", 6, false, "check t0 in 6"},
    {IN("x", "f16[4, 6]") IN("i", "i64[3, 2]") IN("s", "f16[3, 4]") CALL("y", "scatter_add.default", "%x, 0, %i, %s") "output((%y,))\n", 4, false, "check t0 in 4"},
    {IN("x", "f32[4, 6]") IN("i", "i32[3]") IN("s", "f32[4, 3]") CALL("y", "index_add.default", "%x, 1, %i, %s, alpha=2") "output((%y,))\n", 6, false, "check t0 in 6"},
    {IN("i", "i64[2, 3]") CALL("y", "one_hot.default", "%i, 5") "output((%y,))\n", 5, false, "check t0 in 5"},
    {IN("x", "f32[4, 6]") IN("i", "i64[3]") IN("v", "f32[6]") CALL("y", "index_put.default", "%x, [%i], %v, False") "output((%y,))\n", 4, true, "check t0 in 4"},
    {IN("x", "i32[4, 6]") IN("i", "i64[3]") IN("j", "i64[3]") IN("v", "i32[]") CALL("y", "index_put.default", "%x, [%i, %j], %v, True") "output((%y,))\n", 4, true, "check t1"},
    {IN("x", "f32[4, 6]") IN("i", "i64[3]") CALL("t", "permute.default", "%x, [1, 0]") CALL("y", "index.Tensor", "%t, [%i]") "output((%y,))\n", 4, true, "check t0 in 6"},
    {CALL("y", "arange.start_step", "2, 20, 3") CALL("z", "arange.start_step", "0.5, 2.0, 0.25") CALL("u", "arange.start_step", "7, -3, -2, dtype=torch.int32") "output((%y, %z, %u))\n", 0, false, "values={7, 5, 3, 1, -1}"}, /* folded */
};

static const char *text_of(const fx_program *p)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_program_print(&t, p);
    return t.data;
}

START_TEST(indices_give_what_the_graph_gives)
{
    fx_graph *g = graph_of(indices[_i].text);
    fx_program *p;
    agree(indices[_i].text, g, indices[_i].limit, indices[_i].wrap);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
    ck_assert_msg(strstr(text_of(p), indices[_i].check) != NULL, "expected '%s' in:\n%s", indices[_i].check, text_of(p));
}
END_TEST

/* Out of range: the run fails and says where; without the check the verifier refuses the program. */
START_TEST(indices_are_checked)
{
    fx_graph *g = graph_of(IN("w", "f32[7, 5]") IN("i", "i64[2, 3]") CALL("y", "embedding.default", "%w, %i") "output((%y,))\n");
    fx_program *p;
    fx_tensor in[MOST], *out;
    size_t n_out, n_in = inputs_of(g, 7, false, in);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
    for (int64_t bad = -1; bad <= 7; bad += 8) {
        fx_tensor_set_int(&in[1], 4, bad);
        fx_diag_clear(ctx);
        ck_assert_int_eq(fx_program_run(p, true, n_in, in, &n_out, &out), FX_ERR_ARGUMENT);
        ck_assert_msg(strstr(first_message(), "is out of range [0, 7): index into the 7 of dim 0 of w") != NULL, "%s", first_message());
    }
    fx_diag_clear(ctx);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NO_CHECK, &p), FX_INTERNAL);
    ck_assert_msg(strstr(first_message(), "which no check around it keeps in range") != NULL, "%s", first_message());
}
END_TEST

/* What eager raises for, beside: each refused by the graph's interpreter and by the program, whatever lowering does in between. */
static const struct {
    const char *text;
    int input;
    int64_t number;            /* the wrong one, in the middle of good ones */
} wrong[] = {
    {IN("i", "i64[2, 3]") CALL("y", "one_hot.default", "%i, 5") "output((%y,))\n", 0, -1},
    {IN("i", "i64[2, 3]") CALL("y", "one_hot.default", "%i, 5") CALL("z", "to.dtype", "%y, torch.float32") "output((%z,))\n", 0, 5},
    {IN("x", "f32[4, 6]") IN("i", "i64[3]") IN("s", "f32[3, 6]") CALL("y", "index_add.default", "%x, 0, %i, %s, alpha=1") "output((%y,))\n", 1, -1},
    {IN("x", "f32[4]") IN("i", "i64[1]") IN("s", "f32[1]") CALL("y", "index_copy.default", "%x, 0, %i, %s") "output((%y,))\n", 1, -1},
    {IN("x", "f32[4]") IN("i", "i64[3]") CALL("y", "index_fill.int_Scalar", "%x, 0, %i, 2.0") "output((%y,))\n", 1, -5},
    {IN("x", "f32[4, 6]") IN("i", "i64[3]") CALL("y", "take_along_dim.default", "%x, %i") "output((%y,))\n", 1, 24},
    {IN("x", "f32[4, 6]") IN("i", "i64[2, 6]") IN("s", "f32[4, 6]") CALL("y", "scatter_add.default", "%x, 0, %i, %s") "output((%y,))\n", 1, 4},
    {IN("x", "i64[3, 4]") IN("d", "i64[3, 4]") CALL("y", "floor_divide.default", "%x, %d") "output((%y,))\n", 1, 0},
    {IN("x", "i8[3, 4]") IN("d", "i8[4]") CALL("y", "remainder.Tensor", "%x, %d") CALL("z", "add.Tensor", "%y, 1, alpha=1") "output((%z,))\n", 1, 0},
    {IN("x", "u8[3, 4]") IN("d", "u8[3, 1]") CALL("y", "fmod.Tensor", "%x, %d") CALL("z", "sum.dim_IntList", "%y, [1], False, dtype=None") "output((%z,))\n", 1, 0},
    {IN("x", "i32[3, 4]") IN("d", "i32[3, 4]") CALL("y", "div.Tensor_mode", "%x, %d, rounding_mode=\"trunc\"") "output((%y,))\n", 1, 0},
};

START_TEST(wrong_numbers_are_refused)
{
    fx_graph *g = graph_of(wrong[_i].text);
    fx_program *p;
    fx_tensor in[MOST], *out;
    size_t n_out, n_in = inputs_of(g, 3, false, in);
    for (size_t i = 0; i < n_in; i++)
        for (int64_t k = 0; k < fx_tensor_numel(&in[i]) && !fx_dtype_is_float(in[i].dtype); k++)
            fx_tensor_set_int(&in[i], k, 1 + k % 3);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
    ck_assert_int_eq(fx_program_run(p, true, n_in, in, &n_out, &out), FX_OK);
    fx_tensor *t = &in[wrong[_i].input];
    fx_tensor_set_int(t, fx_tensor_numel(t) / 2, wrong[_i].number);
    ck_assert_int_eq(fx_graph_interpret(graph_of(wrong[_i].text), n_in, in, &n_out, &out), FX_ERR_ARGUMENT);
    fx_diag_clear(ctx);
    ck_assert_int_eq(fx_program_run(p, true, n_in, in, &n_out, &out), FX_ERR_ARGUMENT);
}
END_TEST

/* Reductions and rows; steps: how many the program may have at most. */
static const struct {
    const char *text;
    int steps;
} reductions[] = {
    {IN("x", "f32[3, 40]") CALL("y", "sum.dim_IntList", "%x, [1], False, dtype=None") "output((%y,))\n", 1},
    {IN("x", "f32[40, 37]") CALL("y", "sum.dim_IntList", "%x, [0], True, dtype=None") "output((%y,))\n", 1},
    {IN("x", "f32[2, 3, 5, 7]") CALL("y", "mean.dim", "%x, [0, 2], False, dtype=None") "output((%y,))\n", 1},
    {IN("x", "f32[2, 3, 5, 70]") CALL("y", "amax.default", "%x, [], False") CALL("z", "amin.default", "%x, [1], True") "output((%y, %z))\n", 2},
    {IN("x", "i8[3, 100]") CALL("y", "sum.dim_IntList", "%x, [1], False, dtype=None") CALL("z", "amax.default", "%x, [1], False") "output((%y, %z))\n", 2},
    {IN("x", "bool[3, 10]") CALL("y", "sum.dim_IntList", "%x, [0], False, dtype=None") CALL("z", "any.dim", "%x, 1, False") "output((%y, %z))\n", 2},
    {IN("x", "u8[3, 9]") CALL("y", "prod.dim_int", "%x, 1, False, dtype=None") CALL("z", "any.dim", "%x, 0, True") "output((%y, %z))\n", 2},
    {IN("x", "f16[3, 300]") CALL("y", "sum.dim_IntList", "%x, [1], False, dtype=None") CALL("z", "mean.dim", "%x, [1], True, dtype=None") "output((%y, %z))\n", 2},
    {IN("x", "bf16[3, 30]") CALL("y", "var.correction", "%x, [1], correction=1, keepdim=False") "output((%y,))\n", 1},
    {IN("x", "f64[30, 20]") CALL("y", "var.correction", "%x, [0], correction=0, keepdim=True") CALL("z", "prod.dim_int", "%x, 0, False, dtype=None") "output((%y, %z))\n", 2},
    {IN("x", "f32[5, 1]") CALL("y", "var.correction", "%x, [1], correction=1, keepdim=False") "output((%y,))\n", 1},
    {IN("x", "f32[0, 4]") CALL("y", "sum.dim_IntList", "%x, [0], False, dtype=None") CALL("z", "mean.dim", "%x, [0], False, dtype=None") CALL("v", "var.correction", "%x, [0], correction=1, keepdim=False") "output((%y, %z, %v))\n", 3},
    {IN("x", "f32[]") CALL("y", "sum.dim_IntList", "%x, None, False, dtype=None") "output((%y,))\n", 1},
    {IN("x", "f32[6, 50]") IN("w", "f32[50]") CALL("m", "mul.Tensor", "%x, %w") CALL("y", "sum.dim_IntList", "%m, [1], False, dtype=None") CALL("r", "relu.default", "%y") "output((%r,))\n", 1},
    /* softmax with scale and mask, spelled out and not */
    {IN("x", "f32[4, 9, 33]") IN("k", "f32[9, 33]") CALL("s", "mul.Tensor", "%x, 0.125") CALL("a", "add.Tensor", "%s, %k, alpha=1") CALL("y", "_softmax.default", "%a, -1, False") "output((%y,))\n", 1},
    {IN("x", "f32[4, 9, 33]") CALL("m", "amax.default", "%x, [2], True") CALL("d", "sub.Tensor", "%x, %m, alpha=1") CALL("e", "exp.default", "%d") CALL("s", "sum.dim_IntList", "%e, [2], True, dtype=None") CALL("y", "div.Tensor", "%e, %s") "output((%y,))\n", 1},
    {IN("x", "f16[4, 5000]") CALL("y", "_softmax.default", "%x, -1, False") CALL("z", "_log_softmax.default", "%x, 0, False") "output((%y, %z))\n", 2},
    {IN("x", "f64[4, 20]") CALL("z", "_log_softmax.default", "%x, 1, False") CALL("t", "mul.Tensor", "%z, 2.0") "output((%t,))\n", 1},
    {IN("x", "f32[8, 12, 6]") CALL("s", "mul.Tensor", "%x, 3.0") CALL("y", "_softmax.default", "%s, 1, False") "output((%y,))\n", 1},
    /* log-sum-exp, without the dim that goes */
    {IN("x", "f32[7, 65]") CALL("m", "amax.default", "%x, [1], True") CALL("d", "sub.Tensor", "%x, %m, alpha=1") CALL("e", "exp.default", "%d") CALL("s", "sum.dim_IntList", "%e, [1], True, dtype=None") CALL("l", "log.default", "%s") CALL("y", "add.Tensor", "%l, %m, alpha=1") "output((%y,))\n", 1},
    /* layer norm spelled out, after a residual that is used again */
    {IN("x", "f32[5, 48]") IN("r", "f32[5, 48]") IN("w", "f32[48]") IN("b", "f32[48]")
     CALL("a", "add.Tensor", "%x, %r, alpha=1") CALL("m", "mean.dim", "%a, [-1], True, dtype=None") CALL("d", "sub.Tensor", "%a, %m, alpha=1") CALL("q", "mul.Tensor", "%d, %d")
     CALL("v", "mean.dim", "%q, [-1], True, dtype=None") CALL("e", "add.Tensor", "%v, 1e-05, alpha=1") CALL("s", "rsqrt.default", "%e") CALL("n", "mul.Tensor", "%d, %s")
     CALL("g", "mul.Tensor", "%n, %w") CALL("y", "add.Tensor", "%g, %b, alpha=1") "output((%y, %a))\n", 1},
    {IN("x", "f32[5, 4, 12]") IN("w", "f32[4, 12]") IN("b", "f32[4, 12]") CALL("n", "native_layer_norm.default", "%x, [4, 12], %w, %b, 1e-05")
     "%y = call_function[_operator.getitem](%n, 0)\n%m = call_function[_operator.getitem](%n, 1)\n%s = call_function[_operator.getitem](%n, 2)\noutput((%y, %m, %s))\n", 1},
    {IN("x", "bf16[5, 12]") CALL("n", "native_layer_norm.default", "%x, [12], None, None, 1e-05") "%y = call_function[_operator.getitem](%n, 0)\noutput((%y,))\n", 1},
    /* RMS norm spelled out and not; L2 normalised */
    {IN("x", "f32[3, 6, 64]") IN("w", "f32[64]") CALL("q", "pow.Tensor_Scalar", "%x, 2") CALL("m", "mean.dim", "%q, [-1], True, dtype=None") CALL("e", "add.Tensor", "%m, 1e-06, alpha=1")
     CALL("s", "rsqrt.default", "%e") CALL("n", "mul.Tensor", "%x, %s") CALL("y", "mul.Tensor", "%w, %n") "output((%y,))\n", 1},
    {IN("x", "f16[3, 64]") IN("w", "f16[64]") CALL("n", "_fused_rms_norm.default", "%x, [64], %w, None") "%y = call_function[_operator.getitem](%n, 0)\noutput((%y,))\n", 1},
    {IN("x", "f32[9, 10]") CALL("q", "mul.Tensor", "%x, %x") CALL("s", "sum.dim_IntList", "%q, [1], True, dtype=None") CALL("r", "sqrt.default", "%s") CALL("c", "clamp.default", "%r, 1e-12, None") CALL("y", "div.Tensor", "%x, %c") "output((%y,))\n", 1},
    /* the same along the first dim: memory runs across */
    {IN("x", "f32[9, 70]") CALL("q", "mul.Tensor", "%x, %x") CALL("s", "sum.dim_IntList", "%q, [0], False, dtype=None") CALL("r", "sqrt.default", "%s") CALL("y", "div.Tensor", "%x, %r") "output((%y, %r))\n", 1},
    /* a statistic without its dim does not meet the elements of its row */
    {IN("x", "f32[6, 6]") CALL("s", "sum.dim_IntList", "%x, [1], False, dtype=None") CALL("y", "sub.Tensor", "%x, %s, alpha=1") "output((%y,))\n", 2},
    /* of all elements, broadcast back; integers divided by a sum */
    {IN("x", "f32[4, 11]") CALL("m", "mean.dim", "%x, None, False, dtype=None") CALL("y", "sub.Tensor", "%x, %m, alpha=1") "output((%y,))\n", 1},
    {IN("x", "i64[4, 11]") CALL("s", "sum.dim_IntList", "%x, [1], True, dtype=None") CALL("o", "add.Tensor", "%s, 100, alpha=1") CALL("y", "div.Tensor_mode", "%x, %o, rounding_mode=\"floor\"") "output((%y,))\n", 1},
    /* two results of the last pass, the second of which keeps what both are computed from */
    {IN("x", "f32[3, 40]") CALL("s", "exp.default", "%x") CALL("n", "_fused_rms_norm.default", "%s, [40], None, 1e-05") "%y = call_function[_operator.getitem](%n, 0)\n"
     CALL("z", "mul.Tensor", "%y, 2.0") "output((%y, %z))\n", 1},
    /* a user between: what it needs comes before it */
    {IN("x", "f32[4, 8]") IN("w", "f32[8, 8]") CALL("m", "mean.dim", "%x, [1], True, dtype=None") CALL("d", "sub.Tensor", "%x, %m, alpha=1") CALL("p", "mm.default", "%d, %w")
     CALL("e", "mul.Tensor", "%d, %p") CALL("s", "sum.dim_IntList", "%e, [1], True, dtype=None") CALL("y", "add.Tensor", "%s, %m, alpha=1") "output((%y,))\n", 4},
    {IN("x", "f32[2, 16, 3, 3]") CALL("m", "mean.dim", "%x, [1], True, dtype=None") CALL("d", "sub.Tensor", "%x, %m, alpha=1") CALL("y", "relu.default", "%d") "output((%y,))\n", 2},
};

START_TEST(reductions_give_what_the_graph_gives)
{
    fx_graph *g = graph_of(reductions[_i].text);
    fx_program *p;
    agree(reductions[_i].text, g, 5, false);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
    ck_assert_msg((int)p->n_steps <= reductions[_i].steps, "%zu steps:\n%s", p->n_steps, text_of(p));
}
END_TEST

#define RESULT(to, of, k) "%" to " = call_function[_operator.getitem](%" of ", " k ")\n"

/* What depends on the order of a dim. */
static const char *const orders[] = {
    IN("x", "f32[3, 11]") CALL("y", "argmax.default", "%x, 1, False") CALL("z", "argmin.default", "%x, 0, True") CALL("a", "argmax.default", "%x, None, False") "output((%y, %z, %a))\n",
    IN("x", "i8[3, 4, 5]") CALL("m", "max.dim", "%x, 1, False") RESULT("v", "m", "0") RESULT("i", "m", "1") CALL("n", "min.dim", "%x, -1, True") RESULT("j", "n", "1") "output((%v, %i, %j))\n",
    IN("x", "bool[6]") CALL("m", "max.dim", "%x, 0, False") RESULT("v", "m", "0") RESULT("i", "m", "1") "output((%v, %i))\n",
    IN("x", "f16[4, 6]") CALL("y", "cumsum.default", "%x, 1, dtype=None") CALL("z", "cumprod.default", "%x, 0, dtype=None") "output((%y, %z))\n",
    IN("x", "u8[4, 6]") CALL("y", "cumsum.default", "%x, 0, dtype=None") "output((%y,))\n",
    IN("x", "f32[3, 17]") CALL("t", "topk.default", "%x, 5, -1, True, True") RESULT("v", "t", "0") RESULT("i", "t", "1") "output((%v, %i))\n",
    IN("x", "i64[7, 3]") CALL("t", "topk.default", "%x, 7, 0, False, True") RESULT("v", "t", "0") "output((%v,))\n",
    IN("x", "f32[3, 17]") CALL("t", "sort.stable", "%x, stable=True, dim=-1, descending=False") RESULT("v", "t", "0") RESULT("i", "t", "1") "output((%v, %i))\n",
    IN("x", "i32[9, 2]") CALL("t", "sort.stable", "%x, stable=True, dim=0, descending=True") RESULT("i", "t", "1") "output((%i,))\n",
    IN("x", "f32[]") CALL("t", "sort.stable", "%x, stable=True, dim=-1, descending=True") RESULT("v", "t", "0") RESULT("i", "t", "1") "output((%v, %i))\n",
};

START_TEST(orders_give_what_the_graph_gives)
{
    agree(orders[_i], graph_of(orders[_i]), 5, false);
}
END_TEST

/* Pools that no kernel takes; second results of norms, which only training reads. */
static const char *const rare[] = {
    IN("x", "f32[2, 3, 7, 9]") CALL("m", "max_pool2d_with_indices.default", "%x, [3, 2], [2, 1], [1, 0], [1, 2]") RESULT("v", "m", "0") RESULT("i", "m", "1") "output((%v, %i))\n",
    IN("x", "f32[2, 3, 7, 9]") CALL("m", "max_pool2d_with_indices.default", "%x, [3, 2], [], [1, 0], [1, 2], True") RESULT("v", "m", "0") RESULT("i", "m", "1")
    CALL("z", "zeros_like.default", "%i") "output((%v, %z))\n", /* indices that nobody reads in the end */
    IN("x", "f16[3, 6, 5]") CALL("m", "max_pool2d_with_indices.default", "%x, [2, 2], [2, 2], [1, 1], [1, 1], True") RESULT("i", "m", "1") "output((%i,))\n",
    IN("x", "f32[2, 3, 7, 9]") CALL("m", "max_pool2d_with_indices.default", "%x, [3, 2]") RESULT("v", "m", "0") RESULT("i", "m", "1") CALL("z", "zeros_like.default", "%i") "output((%v, %z))\n", /* of the indices the sizes alone */
    IN("x", "f64[2, 3, 7, 9]") CALL("m", "adaptive_max_pool2d.default", "%x, [3, 4]") RESULT("v", "m", "0") RESULT("i", "m", "1") "output((%v, %i))\n",
    IN("x", "f64[2, 3, 7, 9]") CALL("a", "adaptive_avg_pool2d.default", "%x, [3, 3]") CALL("b", "avg_pool2d.default", "%x, [3, 3], [2, 2], [1, 1], True, False")
        CALL("c", "avg_pool2d.default", "%x, [3, 3], [2, 2], [1, 1], False, True, 5") CALL("d", "max_pool2d.default", "%x, [2, 2]") "output((%a, %b, %c, %d))\n",
    IN("x", "f32[2, 6, 3, 5]") IN("w", "f32[6]") CALL("n", "native_group_norm.default", "%x, %w, None, 2, 6, 15, 3, 1e-05") RESULT("y", "n", "0") RESULT("m", "n", "1") RESULT("r", "n", "2")
        "output((%y, %m, %r))\n",
    IN("x", "f64[2, 6, 5]") IN("w", "f64[6]") IN("b", "f64[6]") CALL("y", "group_norm.default", "%x, 2, %w, %b") CALL("z", "instance_norm.default", "%x, %b, None, None, None, True, 0.1, 1e-05, False")
        "output((%y, %z))\n",
    IN("x", "f32[2, 3, 4]") IN("m", "f32[3]") CALL("v", "mul.Tensor", "%m, %m") CALL("n", "_native_batch_norm_legit_no_training.default", "%x, None, %m, %m, %v, 0.1, 0.5")
        RESULT("y", "n", "0") RESULT("e", "n", "1") "output((%y, %e))\n",
    IN("x", "bf16[2, 3, 4]") IN("w", "bf16[3]") CALL("v", "mul.Tensor", "%w, %w") CALL("y", "batch_norm.default", "%x, %w, None, %w, %v, False, 0.1, 0.5, False") "output((%y,))\n",
    IN("q", "f32[1, 2, 3, 4]") IN("k", "f32[1, 2, 3, 4]") IN("m", "f32[3, 3]") CALL("a", "_scaled_dot_product_flash_attention_for_cpu.default", "%q, %k, %q, 0.0, False, attn_mask=%m, scale=0.5")
        RESULT("y", "a", "0") RESULT("s", "a", "1") CALL("b", "_scaled_dot_product_flash_attention_for_cpu.default", "%q, %k, %q, 0.0, True") RESULT("t", "b", "1") "output((%y, %s, %t))\n",
};

START_TEST(rare_results_are_what_the_graph_gives)
{
    agree(rare[_i], graph_of(rare[_i]), 5, false);
}
END_TEST

/* NaN is the greatest; equal elements keep their order. */
START_TEST(nan_is_the_greatest)
{
    static const struct {
        const char *lines;
        int64_t want[5];
    } cases[] = {
        {CALL("t", "sort.stable", "%x, stable=True, dim=0, descending=False") RESULT("y", "t", "1"), {2, 3, 4, 0, 1}},
        {CALL("t", "sort.stable", "%x, stable=True, dim=0, descending=True") RESULT("y", "t", "1"), {1, 0, 4, 2, 3}},
        {CALL("t", "topk.default", "%x, 5, 0, True, True") RESULT("y", "t", "1"), {1, 0, 4, 2, 3}},
        {CALL("t", "topk.default", "%x, 5, 0, False, True") RESULT("y", "t", "1"), {2, 3, 4, 0, 1}},
        {CALL("a", "argmax.default", "%x, 0, True") CALL("y", "expand.default", "%a, [5]"), {1, 1, 1, 1, 1}},
    };
    static const double x[5] = {2, NAN, -0.0, 0, 1};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fx_graph *g = graph_of(fx_arena_printf(fx_context_arena(ctx), "%s%soutput((%%y,))\n", IN("x", "f32[5]"), cases[i].lines));
        fx_program *p;
        fx_tensor in[MOST], *out;
        size_t n_out, n_in = inputs_of(g, 1, false, in);
        for (int k = 0; k < 5; k++)
            fx_tensor_set(&in[0], k, x[k]);
        ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
        ck_assert_int_eq(fx_program_run(p, true, n_in, in, &n_out, &out), FX_OK);
        for (int k = 0; k < 5; k++)
            ck_assert_msg(fx_tensor_get_int(&out[0], k) == cases[i].want[k], "%s: place %d: expected %lld, got %lld", cases[i].lines, k,
                          (long long)cases[i].want[k], (long long)fx_tensor_get_int(&out[0], k));
    }
}
END_TEST

/* A reduction whose loop is marked parallel is refused, however it is folded. */
START_TEST(parallel_reductions_are_refused)
{
    static const char *const shapes[] = {"f32[5]", "f32[3, 5]", "f32[3, 100]", "f32[2, 3, 64]"};
    for (size_t i = 0; i < 4; i++) {
        for (int dim = 0; dim < 2; dim++) {
            fx_graph *g = graph_of(fx_arena_printf(fx_context_arena(ctx), "%%x : %s = placeholder[x]\n"
                                                   "%%y = call_function[aten.sum.dim_IntList](%%x, [%d], False, dtype=None)\noutput((%%y,))\n",
                                                   shapes[i], dim && i ? -1 : 0));
            fx_program *p;
            ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
            fx_diag_clear(ctx);
            ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_PARALLEL_REDUCTION, &p), FX_INTERNAL);
            ck_assert_msg(strstr(first_message(), "parallel loop") != NULL, "%s", first_message());
        }
    }
}
END_TEST

/* The variance of equal elements is 0, and its mean exact, whatever the sum rounds to. */
START_TEST(constant_rows_have_no_variance)
{
    fx_graph *g = graph_of(IN("x", "f32[2, 37]") CALL("y", "var.correction", "%x, [1], correction=1, keepdim=False") "output((%y,))\n");
    fx_program *p;
    fx_tensor in[MOST], *out;
    size_t n_out, n_in = inputs_of(g, 1, false, in);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
    for (int64_t i = 0; i < 74; i++)
        fx_tensor_set(&in[0], i, i < 37 ? 0.1 : 1e30);
    ck_assert_int_eq(fx_program_run(p, true, n_in, in, &n_out, &out), FX_OK);
    ck_assert(fx_tensor_get(&out[0], 0) == 0 && fx_tensor_get(&out[0], 1) == 0);
}
END_TEST

/* What lower/graph_gpu.c moves out of the way: steps for a CPU, for a GPU. */
static const struct {
    const char *text;
    size_t cpu, gpu;
} for_gpus[] = {
    /* queries times a number: attention's scale */
    {IN("q", "f32[2, 3, 5, 4]") IN("k", "f32[2, 3, 7, 4]") IN("v", "f32[2, 3, 7, 6]") CALL("s", "mul.Tensor", "%q, 0.3")
     CALL("y", "scaled_dot_product_attention.default", "%s, %k, %v") "output((%y,))\n", 2, 1},
    {IN("q", "f32[2, 5, 12]") IN("k", "f32[2, 3, 7, 4]") CALL("s", "mul.Tensor", "%q, 0.3") CALL("r", "view.default", "%s, [2, 5, 3, 4]") CALL("t", "permute.default", "%r, [0, 2, 1, 3]")
     CALL("y", "scaled_dot_product_attention.default", "%t, %k, %k, None, 0.0, False, scale=0.5") "output((%y,))\n", 2, 1},
    /* used twice: stays */
    {IN("q", "f32[2, 3, 5, 4]") CALL("s", "mul.Tensor", "%q, 0.3") CALL("y", "scaled_dot_product_attention.default", "%s, %s, %q") "output((%y,))\n", 2, 2},
    /* rotary: cat(-b, a) */
    {IN("x", "f32[2, 3, 8]") IN("c", "f32[3, 8]") IN("s", "f32[3, 8]") CALL("a", "slice.Tensor", "%x, 2, 0, 4") CALL("b", "slice.Tensor", "%x, 2, 4, 8") CALL("n", "neg.default", "%b")
     CALL("r", "cat.default", "[%n, %a], -1") CALL("p", "mul.Tensor", "%x, %c") CALL("t", "mul.Tensor", "%r, %s") CALL("y", "add.Tensor", "%p, %t, alpha=1") "output((%y,))\n", 2, 1},
    /* views of rows before an addition, an activation or both; rows that are transposed stay, and what is an output */
    {IN("x", "f32[6, 5]") IN("w", "f32[5, 4]") IN("r", "f32[2, 3, 4]") CALL("m", "mm.default", "%x, %w") CALL("v", "view.default", "%m, [2, 3, 4]") CALL("a", "add.Tensor", "%r, %v, alpha=1")
     CALL("t", "relu.default", "%a") CALL("y", "cumsum.default", "%t, -1, dtype=None") "output((%y,))\n", 3, 2},
    {IN("x", "f32[7, 1, 5]") IN("w", "f32[4, 5]") CALL("m", "linear.default", "%x, %w") CALL("p", "permute.default", "%m, [1, 0, 2]") CALL("t", "gelu.default", "%p")
     CALL("y", "cumsum.default", "%t, -1, dtype=None") "output((%y,))\n", 3, 2},
    {IN("x", "f32[7, 3, 5]") IN("w", "f32[4, 5]") CALL("m", "linear.default", "%x, %w") CALL("p", "permute.default", "%m, [1, 0, 2]") CALL("t", "gelu.default", "%p")
     CALL("y", "cumsum.default", "%t, -1, dtype=None") "output((%y,))\n", 3, 3},
    {IN("x", "f32[6, 5]") IN("w", "f32[5, 4]") IN("r", "f32[2, 3, 4]") CALL("m", "mm.default", "%x, %w") CALL("v", "view.default", "%m, [2, 3, 4]") CALL("a", "add.Tensor", "%r, %v, alpha=2")
     CALL("y", "cumsum.default", "%a, -1, dtype=None") "output((%y,))\n", 3, 3},
    {IN("x", "f32[6, 5]") IN("w", "f32[5, 4]") CALL("m", "mm.default", "%x, %w") CALL("v", "view.default", "%m, [2, 3, 4]") CALL("y", "relu.default", "%v") "output((%y,))\n", 2, 2},
    /* rows of pixels as an image, and a residual that is one */
    {IN("x", "f32[1, 3, 4, 4]") "%w : f32[8, 3, 1, 1] = placeholder[w]\n" IN("u", "f32[8, 8]") CALL("c", "convolution.default", "%x, %w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1")
     CALL("p", "permute.default", "%c, [0, 2, 3, 1]") CALL("m", "linear.default", "%p, %u") CALL("i", "permute.default", "%m, [0, 3, 1, 2]") CALL("a", "add.Tensor", "%i, %c, alpha=1")
     CALL("y", "avg_pool2d.default", "%a, [2, 2], [2, 2], [0, 0], False, True, None") "output((%y,))\n", 7, 5},
    /* an image that is flattened before weights */
    {"parameter u : f32[2, 8] = [1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1]\nparameter k : f32[2, 3, 1, 1] = [1, 2, 3, 4, 5, 6]\n\n" IN("x", "f32[1, 3, 2, 2]")
     "%k : f32[2, 3, 1, 1] = get_attr[k]\n%u : f32[2, 8] = get_attr[u]\n" CALL("c", "convolution.default", "%x, %k, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1")
     CALL("v", "view.default", "%c, [1, 8]") CALL("y", "linear.default", "%v, %u") "output((%y,))\n", 4, 3},
    /* equal numbers and what is made with them; the two sums are one launch */
    {"buffer z : f32[] = [0.0]\nbuffer w : f32[] = [0.0]\n\n" IN("x", "f32[4, 5]") IN("m", "bool[4, 5]") "%z : f32[] = get_attr[z]\n%w : f32[] = get_attr[w]\n" CALL("a", "where.self", "%m, %x, %z")
     CALL("b", "where.self", "%m, %x, %w") CALL("s", "cumsum.default", "%a, 0, dtype=None") CALL("t", "cumsum.default", "%b, 1, dtype=None") "output((%s, %t))\n", 4, 2},
};

START_TEST(gpus_take_fewer_steps)
{
    fx_graph *g = graph_of(for_gpus[_i].text);
    fx_program *p;
    agree(for_gpus[_i].text, g, 1, false);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
    ck_assert_msg(p->n_steps == for_gpus[_i].cpu, "%zu steps on a CPU:\n%s", p->n_steps, text_of(p));
    ck_assert_int_eq(lower_to(g, "cuda", 0, FX_FAULT_NONE, &p), FX_OK);
    ck_assert_msg(p->n_steps == for_gpus[_i].gpu, "%zu steps on a GPU:\n%s", p->n_steps, text_of(p));
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof table[0])

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, indices_give_what_the_graph_gives, 0, COUNT(indices));
    tcase_add_test(t, indices_are_checked);
    tcase_add_loop_test(t, wrong_numbers_are_refused, 0, COUNT(wrong));
    tcase_add_loop_test(t, reductions_give_what_the_graph_gives, 0, COUNT(reductions));
    tcase_add_loop_test(t, orders_give_what_the_graph_gives, 0, COUNT(orders));
    tcase_add_loop_test(t, rare_results_are_what_the_graph_gives, 0, COUNT(rare));
    tcase_add_loop_test(t, gpus_take_fewer_steps, 0, COUNT(for_gpus));
    tcase_add_test(t, nan_is_the_greatest);
    tcase_add_test(t, parallel_reductions_are_refused);
    tcase_add_test(t, constant_rows_have_no_variance);
}

int main(void)
{
    return unit_run("build", 120, set_up, tear_down, add_tests);
}
