/* tests/unit/test_partition.c: groups of supported calls: no circles, as few as can be, linear; fusing them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <time.h>

#include "tests/unit/fixture.h"
#include "unit/random_graph.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Names that begin with s, and what the random tests note in an array. */
static bool by_name(void *user, const fx_node *n)
{
    const bool *supported = user;
    return supported ? supported[n->id] : n->name[0] == 's';
}

static fx_graph *partition(const char *text, size_t min_size, int *p, size_t *n)
{
    fx_graph *g = unit_parse(ctx, text);
    ck_assert_int_eq(fx_graph_partition(g, by_name, NULL, min_size, p, n), FX_OK);
    return g;
}

/* a (supported) -> b (not) -> c (supported), and a -> c: never one group. */
START_TEST(around_an_unsupported_one)
{
    int p[16];
    size_t n = 0;
    partition("graph \"m\" imported\n"
              "%x : f32[2] = placeholder[x]\n"
              "%s_a = call_function[aten.relu.default](%x)\n"
              "%b = call_function[aten.neg.default](%s_a)\n"
              "%s_c = call_function[aten.add.Tensor](%s_a, %b)\n"
              "output((%s_c,))\n",
              1, p, &n);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(p[0], -1);
    ck_assert_int_eq(p[1], 0);
    ck_assert_int_eq(p[2], -1);
    ck_assert_int_eq(p[3], 1);
    ck_assert_int_eq(p[4], -1);
}
END_TEST

/* An unsupported start puts nothing apart; both branches around one are together (FX's horizontal fusion). */
START_TEST(as_large_as_can_be)
{
    int p[16];
    size_t n = 0;
    fx_graph *g = partition("graph \"m\" imported\n"
                            "%x : f32[2] = placeholder[x]\n"
                            "%u = call_function[aten.neg.default](%x)\n"
                            "%s_a = call_function[aten.relu.default](%u)\n"
                            "%s_b = call_function[aten.relu.default](%x)\n"
                            "%s_c = call_function[aten.relu.default](%s_b)\n"
                            "%v = call_function[aten.neg.default](%s_c)\n"
                            "output((%s_a, %v))\n",
                            2, p, &n),
             *out = NULL;
    ck_assert_uint_eq(n, 1);
    ck_assert(p[2] == 0 && p[3] == 0 && p[4] == 0 && p[1] == -1 && p[5] == -1);
    ck_assert_int_eq(fx_graph_fuse_partitions(g, p, &out), FX_OK);
    rg_sound(out);
    ck_assert_uint_eq(fx_module_graph(fx_module_find(out, "fused_0"))->n_nodes, 6);
}
END_TEST

/* Groups of fewer calls than asked for go; taking a tuple apart is no call and stays with what made the tuple. */
START_TEST(small_groups_and_tuples)
{
    int p[16];
    size_t n = 0;
    const char *text = "graph \"m\" imported\n"
                       "%x : f32[4] = placeholder[x]\n"
                       "%s_split = call_function[aten.split.Tensor](%x, 2)\n"
                       "%item = call_function[_operator.getitem](%s_split, 0)\n"
                       "%other = call_function[_operator.getitem](%s_split, 1)\n"
                       "%u = call_function[aten.neg.default](%item)\n"
                       "output((%u, %other))\n";
    partition(text, 1, p, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert(p[1] == 0 && p[2] == 0 && p[3] == 0 && p[4] == -1);
    partition(text, 2, p, &n);
    ck_assert_uint_eq(n, 0);
    ck_assert(p[1] == -1 && p[2] == -1 && p[3] == -1);
}
END_TEST

/* Any graph, any support: fusing works, which it does only without circles; nothing unsupported is in; no two groups could be one. */
START_TEST(random_graphs)
{
    rg_start((uint32_t)_i);
    fx_graph *g = rg_graph_with(ctx, 5 + (int)rg_draw(50), _i % 2), *out = NULL, *again = NULL;
    const char *before = unit_print(g);
    bool *supported = calloc(g->n_ids, 1);
    int *p = malloc(g->n_nodes * sizeof *p), *one = malloc(g->n_nodes * sizeof *p);
    size_t n = 0, i = 0;
    uint32_t share = 1 + rg_draw(9);
    FX_FOR_NODES(g, k) /* items go with their tuple */
        supported[k->id] = k->op == &fx_ops[FX_OP_getitem] ? supported[k->operands[0].def->id] : rg_draw(10) < share;
    ck_assert_int_eq(fx_graph_partition(g, by_name, supported, 1, p, &n), FX_OK);
    FX_FOR_NODES(g, k) {
        bool call = k->opcode == FX_CALL_FUNCTION;
        ck_assert((p[i] >= 0) == (call && supported[k->id]));
        ck_assert_int_lt(p[i++], (int)n);
    }
    ck_assert_msg(fx_graph_fuse_partitions(g, p, &out) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_str_eq(unit_print(g), before);
    rg_sound(out);
    ck_assert_int_eq(fx_inline_bodies(out), FX_OK);
    rg_sound(out);
    rg_same_values(g, out);
    for (int a = 0; a + 1 < (int)n; a++) {
        for (size_t k = 0; k < g->n_nodes; k++)
            one[k] = p[k] == a + 1 ? a : p[k];
        ck_assert_int_eq(fx_graph_fuse_partitions(g, one, &again), FX_ERR_ARGUMENT);
    }
    free(supported);
    free(p);
    free(one);
}
END_TEST

static double chain_seconds(int n, size_t *groups)
{
    fx_context *c = fx_context_create();
    fx_graph *g = fx_graph_new(c, "chain");
    g->stage = FX_STAGE_IMPORTED;
    fx_node *x = fx_node_new(g, FX_PLACEHOLDER, "x", NULL, NULL, 0, NULL, NULL);
    const fx_arg *op0 = fx_arg_operand(c, 0), *args = fx_arg_seq(c, FX_ARG_TUPLE, 1, &op0);
    for (int i = 0; i < n; i++)
        x = fx_node_new(g, FX_CALL_FUNCTION, i % 2 ? "aten.neg.default" : "aten.relu.default", args, NULL, 1, &x, i % 2 ? "u" : "s");
    int *p = malloc(g->n_nodes * sizeof *p);
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        double t = now();
        ck_assert_int_eq(fx_graph_partition(g, by_name, NULL, 1, p, groups), FX_OK);
        t = now() - t;
        best = t < best ? t : best;
    }
    free(p);
    fx_context_free(c);
    return best;
}

/* FX: 9.2 s for 1,000 nodes. Generous, as machines are shared. */
START_TEST(alternating_chain)
{
    size_t groups;
    double small = chain_seconds(1000, &groups);
    ck_assert_uint_eq(groups, 500);
    double large = chain_seconds(40000, &groups);
    ck_assert_uint_eq(groups, 20000);
    double huge = chain_seconds(1000000, &groups);
    printf("partition of alternating chains: 1e3 %.3f ms, 4e4 %.2f ms, 1e6 %.1f ms\n", small * 1e3, large * 1e3, huge * 1e3);
    ck_assert_double_lt(small, 0.02);
    ck_assert_double_lt(large, 0.4);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, around_an_unsupported_one);
    tcase_add_test(t, as_large_as_can_be);
    tcase_add_test(t, small_groups_and_tuples);
    tcase_add_loop_test(t, random_graphs, 0, 160);
    tcase_add_test(t, alternating_chain);
}

int main(void)
{
    return unit_run("partition", 300, set_up, tear_down, add_tests);
}
