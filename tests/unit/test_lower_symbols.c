/* tests/unit/test_lower_symbols.c: graphs with a symbolic size through all of lowering, proofs included: run at several sizes, they must give
 * what the graph's interpreter gives. Each is of a kind that the random graphs found wrong or unproved once.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "lower/lower.h"
#include "tests/unit/fixture.h"

#define IN(name, type) "%" name " : " type " = placeholder[" name "]\n"
#define CALL(to, op, args) "%" to " = call_function[aten." op "](" args ")\n"

enum { MOST_SIZES = 5 };

static const struct {
    const char *title, *symbol, *text;
    int64_t sizes[MOST_SIZES];   /* 0: no more */
} cases[] = {
    {"tiles of 32 are within what tiles of 64 wrote", "[2, inf]",
     IN("x", "f32[s, s, 5]") CALL("a", "any.dim", "%x, 2, False") CALL("n", "amin.default", "%x, [2], False") CALL("m", "amax.default", "%n, [0, 1], False")
     CALL("b", "any.dims", "%a, [0, 1], False") "output((%b, %m))\n", {2, 7, 8, 9, 13}},
    {"tiles of 16 behind tiles of 32", "[2, inf]",
     IN("x", "f32[s, 4]") CALL("p", "prod.dim_int", "%x, 1, False") CALL("m", "amin.default", "%p, [0], False") "output((%m,))\n", {2, 16, 31, 33, 65}},
    {"several nests of a step store to one result", "[2, inf]",
     IN("x", "f32[1, s, s]") CALL("e", "sqrt.default", "%x") CALL("y", "_log_softmax.default", "%e, -2, False") CALL("z", "_softmax.default", "%e, -2, False")
     "output((%y, %z))\n", {2, 3, 64, 65}},
    {"columns of tiles and of their rest lie apart by what divides all else", "[2, inf]",
     IN("x", "f32[s]") IN("w", "f32[2]") CALL("e", "einsum.default", "\"i,j->ij\", [%x, %w], None") CALL("c", "celu.default", "%e, 1.0")
     CALL("y", "_log_softmax.default", "%c, 0, False") "output((%y,))\n", {2, 31, 32, 70}},
    {"softmax of a slice that a symbol cuts short", "[2, inf]",
     IN("x", "bool[s, s]") CALL("c", "slice.Tensor", "%x, 0, 2, 4, 3") CALL("f", "logit.default", "%c, None") CALL("y", "_log_softmax.default", "%f, -2, False")
     "output((%y,))\n", {2, 3, 9, 70}},
    {"loops that do not run at the least size", "[3, 20]",
     IN("x", "f32[s, s]") CALL("t", "einsum.default", "\"ij->ji\", [%x], None") CALL("y", "diff.default", "%t, 3, -2, None, None") "output((%y,))\n", {3, 4, 20}},
    {"ends of slices with steps", "[2, inf]", IN("x", "f32[s, 3]") CALL("c", "slice.Tensor", "%x, 0, 0, 9, 3") CALL("y", "exp.default", "%c")
     CALL("d", "slice.Tensor", "%x, 0, 1, 7, 2") "output((%y, %d))\n", {2, 3, 7, 9, 12}},
    {"a convolution's windows in the border, its weights computed", "[2, inf]",
     IN("x", "f32[1, 1, s, 2]") IN("w", "f32[2, 1, 1, 1]") CALL("y", "convolution.default", "%x, %w, None, [1, 1], [2, 2], [2, 2], False, [0, 0], 1")
     "output((%y,))\n", {2, 5}},
    {"slopes for a dynamic number of channels", "[2, 40]",
     IN("x", "f32[s, s, 2]") IN("w", "f32[s]") IN("z", "f32[3, s]") CALL("y", "prelu.default", "%x, %w") CALL("u", "prelu.default", "%z, %w") "output((%y, %u))\n", {2, 5, 33}},
    {"a convolution whose windows all lie in the border: nothing is read", "[1, 8]",
     IN("x", "f32[s, 1, 1, 4]") IN("w", "f32[4, 1, 1, 1]") CALL("e", "exp.default", "%x") CALL("y", "conv2d.default", "%e, %w, None, [2, 1], [1, 0], [1, 1], 1")
     CALL("r", "relu.default", "%y") "output((%r,))\n", {1, 3}},
    {"parts of a concatenation that a symbol pushes over an edge", "[2, inf]",
     IN("a", "i32[16, 2, 1]") IN("b", "i32[s, 2, 1]") IN("c", "i32[1, 2, 1]") IN("d", "i32[2, 1]") CALL("cat", "cat.default", "[%a, %b, %c, %a], 0")
     CALL("p", "select_scatter.default", "%cat, %d, 0, 18") CALL("y", "log1p.default", "%p") "output((%y,))\n", {2, 3, 4, 20}},
    {"a product whose rows may be empty by the range", "[0, inf]",
     IN("x", "f32[2, s, 3]") CALL("t", "transpose.int", "%x, 1, 2") CALL("y", "matmul.default", "%x, %t") "output((%y,))\n", {1, 2, 9}},
    {"an index no larger than what it chooses from, which the run's entry checks", "[1, inf]",
     IN("x", "f32[9, 40, 44]") IN("k", "i64[s, 2*s, 3*s]") CALL("a", "gather.default", "%x, 0, %k, False") CALL("b", "gather.default", "%x, 1, %k, False")
     CALL("c", "gather.default", "%x, 2, %k, False") "output((%a, %b, %c))\n", {1, 4, 9}},
    {"a scatter of fewer rows and columns than it changes", "[1, inf]",
     IN("x", "f32[40, 44]") IN("k", "i64[2*s, 3*s]") IN("v", "f32[3*s, 4*s]") CALL("a", "scatter_add.default", "%x, 0, %k, %v") CALL("b", "scatter.src", "%x, 1, %k, %v")
     "output((%a, %b))\n", {1, 4, 14}},
    {"group norm of no pixels", "[2, inf]",
     IN("x", "f32[1, 4, 1, s]") IN("w", "f32[4]") CALL("c", "constant_pad_nd.default", "%x, [-1, -1, 2, -1], 0")
     CALL("y", "group_norm.default", "%c, 2, %w, None, 0.001, False") "output((%y,))\n", {2, 3, 9}},
    {"instance norm of a dynamic number of channels", "[1, 40]",
     IN("x", "f32[2, s, 3, 5]") IN("h", "f16[s, s, 7]") IN("w", "f32[s]") IN("b", "f32[s]")
     CALL("y", "instance_norm.default", "%x, %w, %b, None, None, True, 0.1, 1e-05, False") CALL("u", "instance_norm.default", "%h, None, None, None, None, True, 0.1, 1e-05, False")
     "output((%y, %u))\n", {1, 2, 17}},
};

static const char *last_message(void)
{
    size_t n = fx_diag_count(ctx);
    return n ? fx_diag_get(ctx, n - 1)->message : "no diagnostic";
}

static fx_graph *graph_of(int i)
{
    const char *text = fx_arena_printf(fx_context_arena(ctx), "graph g imported\nsymbol s in %s\n%s", cases[i].symbol, cases[i].text);
    fx_graph *g;
    ck_assert_msg(fx_graph_parse(ctx, "g.fx", text, strlen(text), &g) == FX_OK, "%s: %s", cases[i].title, last_message());
    FX_FOR_NODES(g, n)
        if (n->op)
            ck_assert_msg(fx_node_normalize(n) == FX_OK, "%s: %s", cases[i].title, last_message());
    ck_assert_msg(fx_graph_infer(g) == FX_OK, "%s: %s", cases[i].title, last_message());
    return g;
}

static size_t inputs_at(const fx_graph *g, int64_t size, fx_tensor *in)
{
    uint64_t state = 17;
    size_t n_in = 0;
    FX_FOR_NODES(g, n) {
        int64_t sizes[FX_MAX_RANK];
        if (n->opcode != FX_PLACEHOLDER)
            continue;
        for (int d = 0; d < n->type->rank; d++)
            ck_assert(fx_dim_eval(fx_graph_symbols(g), &size, n->type->dims[d], &sizes[d]));
        ck_assert_int_eq(fx_tensor_create(ctx, n->type->dtype, n->type->rank, sizes, &in[n_in]), FX_OK);
        for (int64_t i = 0; i < fx_tensor_numel(&in[n_in]); i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            double v = (double)(state >> 33) / (double)(1u << 30) - 0.75;
            if (n->type->dtype == FX_BOOL)
                fx_tensor_set_int(&in[n_in], i, v > 0);
            else
                fx_tensor_set(&in[n_in], i, v);
        }
        n_in++;
    }
    return n_in;
}

static void same(int i, int64_t size, size_t o, const fx_tensor *want, const fx_tensor *got)
{
    ck_assert_int_eq(got->dtype, want->dtype);
    ck_assert_int_eq(got->rank, want->rank);
    for (int d = 0; d < want->rank; d++)
        ck_assert_int_eq(got->sizes[d], want->sizes[d]);
    for (int64_t k = 0; k < fx_tensor_numel(want); k++) {
        double a = fx_tensor_get(want, k), b = fx_tensor_get(got, k), most = want->dtype == FX_F16 ? 4e-3 : 1e-5;
        ck_assert_msg(a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= most * fmax(1, fabs(a)), "%s: s = %lld: output %zu, element %lld: expected %g, got %g",
                      cases[i].title, (long long)size, o, (long long)k, a, b);
    }
}

START_TEST(programs_give_what_the_graph_gives)
{
    static const struct {
        const char *target;
        unsigned off;
    } ways[] = {{"generic", 0}, {"x86_64-avx2", 0}, {"x86_64-avx512", FX_OFF(INPLACE)}, {"generic", FX_OFF(INPLACE) | FX_OFF(FUSE)}};
    fx_graph *g = graph_of(_i);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        fx_lower_options opt = {.threads = 2, .off = ways[w].off};
        fx_program *p;
        ck_assert_int_eq(fx_target_get(ctx, ways[w].target, &opt.target), FX_OK);
        ck_assert_msg(fx_lower_run(fx_graph_copy(g), &opt, &p) == FX_OK, "%s for %s: %s", cases[_i].title, ways[w].target, last_message());
        for (int k = 0; k < MOST_SIZES && cases[_i].sizes[k]; k++) {
            fx_tensor in[4], *want, *got;
            size_t n_want, n_got, n_in = inputs_at(g, cases[_i].sizes[k], in);
            ck_assert_msg(fx_graph_interpret(g, n_in, in, &n_want, &want) == FX_OK, "%s: %s", cases[_i].title, last_message());
            for (int planned = 0; planned < 2; planned++) {
                ck_assert_msg(fx_program_run(p, planned, n_in, in, &n_got, &got) == FX_OK, "%s: %s", cases[_i].title, last_message());
                ck_assert_uint_eq(n_got, n_want);
                for (size_t o = 0; o < n_want; o++)
                    same(_i, cases[_i].sizes[k], o, &want[o], &got[o]);
            }
        }
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, programs_give_what_the_graph_gives, 0, sizeof cases / sizeof cases[0]);
}

int main(void)
{
    return unit_run("lower_symbols", 60, set_up, tear_down, add_tests);
}
