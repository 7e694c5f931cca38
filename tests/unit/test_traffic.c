/* tests/unit/test_traffic.c: bytes that statements move, and the least that a graph's must, reckoned by hand.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "driver/traffic.h"
#include "fxcc/inspect.h"
#include "tests/unit/lowering.h"

#define GRAPH(parameters, nodes) "graph \"net\" imported\n" parameters "\n" nodes
#define CALL(to, type, op, args) "%" to " : f32[" type "] = call_function[aten." op "](" args ")\n"
#define X "%x : f32[8, 16] = placeholder[x]\n"

/* float32 tensors of 8 x 16 are 512 bytes. */
static const struct {
    const char *text;
    uint64_t inputs, outputs, weights, intermediates;
} bounds[] = {
    /* nothing passes from one kernel to another */
    {GRAPH("", X CALL("a", "8, 16", "relu.default", "%x") CALL("y", "8, 16", "add.Tensor", "%a, %x") "output((%y,))\n"), 512, 512, 0, 0},
    /* a product written and read */
    {GRAPH("", X "%u : f32[32, 16] = placeholder[u]\n%v : f32[4, 32] = placeholder[v]\n" CALL("h", "8, 32", "linear.default", "%x, %u") CALL("r", "8, 32", "relu.default", "%h")
           CALL("y", "8, 4", "linear.default", "%r, %v") "output((%y,))\n"), 512 + 2048 + 512, 128, 0, 1024 + 1024},
    /* a slice of it is all that is used */
    {GRAPH("", X "%u : f32[32, 16] = placeholder[u]\n" CALL("h", "8, 32", "linear.default", "%x, %u") CALL("s", "8, 16", "slice.Tensor", "%h, 1, 0, 16")
           CALL("y", "8, 16", "cumsum.default", "%s, 1") "output((%y,))\n"), 512 + 2048, 512, 0, 512 + 512},
    /* a residual: y and z written; y read by the product and by the sum, the sum by what is behind it */
    {GRAPH("", X "%u : f32[16, 16] = placeholder[u]\n" CALL("y", "8, 16", "linear.default", "%x, %u") CALL("r", "8, 16", "relu.default", "%y") CALL("z", "8, 16", "linear.default", "%r, %u")
           CALL("a", "8, 16", "add.Tensor", "%z, %y") CALL("c", "8, 16", "cumsum.default", "%a, 1") "output((%c,))\n"), 512 + 1024, 512, 0, 5 * 512},
    /* halves of one result that meet again are both read; of one value by two ways, it is */
    {GRAPH("", X "%u : f32[32, 16] = placeholder[u]\n" CALL("h", "8, 32", "linear.default", "%x, %u") CALL("a", "8, 16", "slice.Tensor", "%h, 1, 0, 16") CALL("b", "8, 16", "slice.Tensor", "%h, 1, 16, 32")
           CALL("s", "8, 16", "silu.default", "%a") CALL("m", "8, 16", "mul.Tensor", "%s, %b") CALL("c", "8, 16", "cumsum.default", "%m, 1") "output((%c,))\n"), 512 + 2048, 512, 0, 1024 + 1024},
    {GRAPH("", X "%u : f32[16, 16] = placeholder[u]\n" CALL("h", "8, 16", "linear.default", "%x, %u") CALL("s", "8, 16", "sigmoid.default", "%h") CALL("m", "8, 16", "mul.Tensor", "%s, %h")
           CALL("c", "8, 16", "cumsum.default", "%m, 1") "output((%c,))\n"), 512 + 1024, 512, 0, 512 + 512},
    /* mean and variance: one kernel's reading; 8 means are written, and read where they are subtracted and multiplied by */
    {GRAPH("", X "%u : f32[16, 16] = placeholder[u]\n" CALL("h", "8, 16", "linear.default", "%x, %u") CALL("m", "8, 1", "mean.dim", "%h, [1], True") CALL("d", "8, 16", "sub.Tensor", "%h, %m")
           CALL("q", "8, 16", "mul.Tensor", "%d, %d") CALL("v", "8, 1", "mean.dim", "%q, [1], True") CALL("y", "8, 16", "mul.Tensor", "%d, %v") "output((%y,))\n"), 512 + 1024, 512, 0,
     512 + 512 + 32 + 32 + 32},
    /* rows of a table; a 1 x 1 convolution with stride 2 reads a quarter */
    {GRAPH("parameter t : f32[4, 2] = [1, 2, 3, 4, 5, 6, 7, 8]\n", "%i : i64[2] = placeholder[i]\n%t : f32[4, 2] = get_attr[t]\n" CALL("y", "2, 2", "embedding.default", "%t, %i") "output((%y,))\n"), 16, 16, 16, 0},
    {GRAPH("", "%x : f32[1, 2, 8, 8] = placeholder[x]\n%u : f32[3, 2, 1, 1] = placeholder[u]\n" CALL("p", "1, 2, 8, 8", "max_pool2d.default", "%x, [3, 3], [1, 1], [1, 1]")
           CALL("y", "1, 3, 4, 4", "conv2d.default", "%p, %u, None, [2, 2]") "output((%y,))\n"), 512 + 24, 192, 0, 512 + 128},
};

START_TEST(lower_bounds)
{
    job j = {.g = read_graph(bounds[_i].text), .opt = {.stop_after = "simplify"}};
    ck_assert_int_eq(fx_protect(ctx, lower, &j), FX_OK);
    fx_least l = fx_least_traffic(j.g, fx_context_arena(ctx), NULL);
    ck_assert_uint_eq(l.inputs, bounds[_i].inputs);
    ck_assert_uint_eq(l.outputs, bounds[_i].outputs);
    ck_assert_uint_eq(l.weights, bounds[_i].weights);
    ck_assert_uint_eq(l.intermediates, bounds[_i].intermediates);
}
END_TEST

typedef struct seen {
    int n;
    fx_kernel_info k[4];
} seen;

static void note(void *user, const fx_kernel_info *k)
{
    seen *s = user;
    ck_assert_int_lt(s->n, 4);
    s->k[s->n++] = *k;
    s->k[s->n - 1].step = s->k[s->n - 1].title = NULL; /* theirs */
}

/* A product with an erf-GELU behind a long sum, a loop, and what a CPU's target says. */
START_TEST(kernels_of_a_graph)
{
    fx_graph *g = read_graph(GRAPH("", "%x : f32[8, 200] = placeholder[x]\n%u : f32[16, 200] = placeholder[u]\n" CALL("h", "8, 16", "linear.default", "%x, %u")
                                   CALL("a", "8, 16", "gelu.default", "%h") CALL("y", "16, 8", "permute.default", "%a, [1, 0]") CALL("z", "16, 8", "exp.default", "%y")
                                   CALL("n", "16, 8", "neg.default", "%z") "output((%n,))\n"));
    seen s = {0};
    fx_kernel_totals t;
    ck_assert_int_eq(fx_report_kernels(g, &(fx_compile_options){.target = "cuda"}, note, &s, &t), FX_OK);
    ck_assert_int_eq(s.n, 2);
    ck_assert_str_eq(s.k[0].kernel, "matmul");
    ck_assert_int_eq(s.k[0].launches, 2);
    ck_assert_uint_eq(s.k[0].read, 8 * 200 * 4 + 16 * 200 * 4 + 512);
    ck_assert_uint_eq(s.k[0].written, 512 + 512);
    ck_assert(s.k[0].flops == 2.0 * 8 * 16 * 200);
    ck_assert_str_eq(s.k[1].kernel, "");
    ck_assert_uint_eq(s.k[1].read, 512);
    ck_assert_uint_eq(s.k[1].written, 512);
    ck_assert(s.k[1].flops == 2 * 128 && s.k[1].grid[0] > 0 && s.k[1].block[0] > 0);
    ck_assert_uint_eq(t.launches, 3);
    ck_assert_uint_eq(t.read, s.k[0].read + s.k[1].read);
    ck_assert_uint_eq(t.intermediates, 0); /* the bound has the product do all that follows */
    ck_assert_int_eq(fx_report_kernels(g, &(fx_compile_options){.target = "generic"}, NULL, NULL, NULL), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, fx_diag_count(ctx) - 1)->message, "expected such a target (cuda, cuda-sm_90, ...), got generic"));
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, lower_bounds, 0, (int)(sizeof bounds / sizeof *bounds));
    tcase_add_test(t, kernels_of_a_graph);
}

int main(void)
{
    return unit_run("traffic", 60, set_up, tear_down, add_tests);
}
