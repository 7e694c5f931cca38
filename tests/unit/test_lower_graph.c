/* tests/unit/test_lower_graph.c: the pass runner and what the graph passes share. What single passes do is in tests/lower/.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"
#include "tests/unit/lowering.h"

static const char model[] = "graph \"net\" imported\n"
                            "parameter conv.weight : f32[1, 1, 1, 1] = [2.0]\n"
                            "buffer bn.mean : f32[1] = [1.0]\n"
                            "buffer bn.var : f32[1] = [4.0]\n"
                            "\n"
                            "%x : f32[1, 1, 2, 2] = placeholder[x]\n"
                            "%w : f32[1, 1, 1, 1] = get_attr[conv.weight]\n"
                            "%m : f32[1] = get_attr[bn.mean]\n"
                            "%v : f32[1] = get_attr[bn.var]\n"
                            "%conv : f32[1, 1, 2, 2] = call_function[aten.conv2d.default](%x, %w)  # conv, net.py:3\n"
                            "%bn : f32[1, 1, 2, 2] = call_function[aten.batch_norm.default](%conv, None, None, %m, %v, False, 0.1, 0.0, True)\n"
                            "%relu_ : f32[1, 1, 2, 2] = call_function[aten.relu_.default](%bn)\n"
                            "output((%relu_,))\n";

typedef struct sink {
    char text[20000];
    size_t size;
} sink;

static void collect(void *user, const char *text)
{
    sink *s = user;
    size_t n = strlen(text);
    ck_assert_uint_lt(s->size + n, sizeof s->text);
    memcpy(s->text + s->size, text, n + 1);
    s->size += n;
}

START_TEST(stops_after_a_pass)
{
    static const struct { const char *pass; fx_stage stage; size_t nodes; } want[] = {
        { "refuse", FX_STAGE_IMPORTED, 8 }, { "functionalize", FX_STAGE_FUNCTIONAL, 8 }, { "decompose", FX_STAGE_CORE, 9 },
        { "fold", FX_STAGE_CORE, 6 },       { "simplify", FX_STAGE_CORE, 6 },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        job j = { .g = read_graph(model), .opt = { .stop_after = want[i].pass } };
        ck_assert_int_eq(fx_protect(ctx, lower, &j), FX_OK);
        ck_assert_int_eq(j.g->stage, want[i].stage);
        ck_assert_uint_eq(j.g->n_nodes, want[i].nodes);
        ck_assert_ptr_null(j.program);
    }
}
END_TEST

START_TEST(dumps)
{
    sink s = { .size = 0 };
    job j = { .g = read_graph(model),
              .opt = { .stop_after = "simplify", .dump_before = "fold", .dump_after = "fold", .out = collect, .user = &s } };
    ck_assert_int_eq(fx_protect(ctx, lower, &j), FX_OK);
    const char *before = strstr(s.text, "# before fold\n"), *after = strstr(s.text, "# after fold\n");
    ck_assert_ptr_eq(before, s.text);
    ck_assert_ptr_nonnull(after);
    ck_assert_ptr_nonnull(strstr(before, "aten._native_batch_norm_legit_no_training.default"));
    ck_assert_ptr_null(strstr(after, "aten._native_batch_norm_legit_no_training.default"));
    ck_assert_ptr_nonnull(strstr(after, "conv.weight_folded : f32[1, 1, 1, 1] = [1.0]"));
    ck_assert_ptr_nonnull(strstr(after, "conv.bias_folded : f32[1] = [-0.5]"));
    ck_assert_ptr_nonnull(strstr(after, "# conv, net.py:3"));
}
END_TEST

/* A dump of all passes shows each state once: passes that change nothing are silent. */
START_TEST(unchanged_is_silent)
{
    sink s = { .size = 0 };
    job j = { .g = read_graph("graph \"net\" imported\n\n%x : f32[2] = placeholder[x]\n"
                              "%y : f32[2] = call_function[aten.relu.default](%x)\noutput((%y,))\n"),
              .opt = { .stop_after = "simplify", .dump_after = "all", .out = collect, .user = &s } };
    ck_assert_int_eq(fx_protect(ctx, lower, &j), FX_OK);
    ck_assert_ptr_null(strstr(s.text, "# after refuse"));
    ck_assert_ptr_null(strstr(s.text, "# after fold"));
    ck_assert_ptr_null(strstr(s.text, "# after simplify"));
    ck_assert_ptr_nonnull(strstr(s.text, "# after decompose")); /* the stage is part of the text */
}
END_TEST

START_TEST(times)
{
    sink s = { .size = 0 };
    job j = { .g = read_graph(model), .opt = { .stop_after = "functionalize", .time_passes = true, .out = collect, .user = &s } };
    ck_assert_int_eq(fx_protect(ctx, lower, &j), FX_OK);
    ck_assert_ptr_nonnull(strstr(s.text, "# time refuse "));
    ck_assert_ptr_nonnull(strstr(s.text, "# time functionalize "));
    ck_assert_ptr_null(strstr(s.text, "# time decompose "));
}
END_TEST

START_TEST(unknown_pass)
{
    static const fx_lower_options wrong[] = { { .stop_after = "folding" }, { .dump_after = "?" }, { .dump_before = "al" },
                                              { .stop_after = "all" } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        job j = { .g = read_graph(model), .opt = wrong[i] };
        fx_diag_clear(ctx);
        ck_assert_int_eq(fx_protect(ctx, lower, &j), FX_ERR_ARGUMENT);
        ck_assert_uint_eq(fx_diag_count(ctx), 1);
        ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 0)->message, "refuse, functionalize, random, state, sizes, decompose, fold, simplify"));
    }
}
END_TEST

/* Every row that core form does not allow has a rewrite; of random ones the pass before makes others. */
START_TEST(every_row_is_decomposed)
{
    static const bool rewritten[FX_OP_COUNT] = {
#define FX_DECOMPOSE(id, fn) [FX_OP_##id] = true,
#include "lower/decompose.def"
#undef FX_DECOMPOSE
    };
    for (int i = 1; i < FX_OP_COUNT; i++)
        ck_assert_msg((fx_ops[i].flags & (FX_OP_CORE | FX_OP_RANDOM)) || i == FX_OP_native_dropout || rewritten[i], "%s is neither core nor in lower/decompose.def",
                      fx_ops[i].name);
}
END_TEST

static const char *rewrite_input = "graph \"net\" imported\n\n%x : f32[2, 3] = placeholder[x]\n"
                                   "%y : f32[2, 3] = call_function[aten.relu.default](%x)  # layer, net.py:1\n"
                                   "%z : f32[2, 3] = call_function[aten.neg.default](%y)\noutput((%z,))\n";

static fx_status become(void *arg)
{
    fx_graph *g = arg;
    fx_lower l = { .ctx = ctx, .graph = g, .scratch = fx_context_arena(ctx) };
    fx_node *y = fx_graph_find_node(g, "y"), *x = fx_graph_find_node(g, "x");
    fx_rw w = fx_rw_at(l.graph, l.scratch, y);
    fx_node *a = fx_rw_unary(&w, FX_OP_sigmoid, x, "inner");
    ck_assert_str_eq(a->name, "y_inner");
    ck_assert_str_eq(a->loc.module, "layer");
    ck_assert_str_eq(a->loc.node, "y_inner");
    ck_assert_ptr_eq(a->next, y);
    fx_rw_binary(&w, FX_OP_mul_Tensor, x, a, NULL);
    ck_assert_int_eq(w.status, FX_OK);
    ck_assert_str_eq(y->name, "y");
    ck_assert_str_eq(y->target, "aten.mul.Tensor");
    ck_assert_int_eq(y->op->id, FX_OP_mul_Tensor);
    ck_assert_int_eq(y->n_uses, 1);
    ck_assert_int_eq(x->n_uses, 2);
    return fx_graph_verify(g, FX_STAGE_IMPORTED, "test");
}

START_TEST(become_keeps_name_and_place)
{
    ck_assert_int_eq(fx_protect(ctx, become, read_graph(rewrite_input)), FX_OK);
}
END_TEST

static fx_status change_type(void *arg)
{
    fx_graph *g = arg;
    fx_lower l = { .ctx = ctx, .graph = g, .scratch = fx_context_arena(ctx) };
    fx_rw w = fx_rw_at(l.graph, l.scratch, fx_graph_find_node(g, "y"));
    fx_rw_view(&w, fx_graph_find_node(g, "x"), 1, (int64_t[]){ 6 }, NULL);
    return w.status;
}

/* A rewrite that changes a type is our mistake, found where it is made. */
START_TEST(become_checks_types)
{
    ck_assert_int_eq(fx_protect(ctx, change_type, read_graph(rewrite_input)), FX_INTERNAL);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 0)->message, "f32[2, 3] to f32[6]"));
}
END_TEST

/* Deep chains of constants and views: nothing recurses along them. */
START_TEST(long_chains)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "graph \"net\" imported\nbuffer c : f32[2] = [1.0, 2.0]\n\n%x : f32[2] = placeholder[x]\n%c0 : f32[2] = get_attr[c]\n"
                "%v0 : f32[2] = call_function[aten.add.Tensor](%x, 1)\n");
    enum { N = 20000 };
    for (int i = 1; i <= N; i++) {
        fx_printf(&t, "%%c%d : f32[2] = call_function[aten.neg.default](%%c%d)\n", i, i - 1);
        fx_printf(&t, "%%v%d : f32[2] = call_function[%s](%%v%d%s)\n", i, i % 2 ? "aten.view.default" : "aten.relu_.default", i - 1,
                  i % 2 ? ", [2]" : "");
    }
    fx_printf(&t, "%%y : f32[2] = call_function[aten.add.Tensor](%%v%d, %%c%d)\noutput((%%y, %%v0))\n", N, N);
    job j = { .g = read_graph(t.data), .opt = { .stop_after = "simplify" } };
    ck_assert_int_eq(fx_protect(ctx, lower, &j), FX_OK);
    ck_assert_uint_le(j.g->n_nodes, 8);
}
END_TEST

/* A list longer than a call takes operands is joined in groups. */
START_TEST(long_stack)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    enum { N = 700 };
    fx_puts(&t, "graph \"net\" imported\n\n%x : f32[2] = placeholder[x]\n");
    for (int i = 0; i < N; i++)
        fx_printf(&t, "%%v%d : f32[2] = call_function[aten.add.Tensor](%%x, %d)\n", i, i);
    fx_puts(&t, "%s : f32[700, 2] = call_function[aten.stack.default]([");
    for (int i = 0; i < N; i++)
        fx_printf(&t, "%s%%v%d", i ? ", " : "", i);
    fx_puts(&t, "])\noutput((%s,))\n");
    job j = { .g = read_graph(t.data), .opt = { .stop_after = "simplify" } };
    ck_assert_int_eq(fx_protect(ctx, lower, &j), FX_OK);
    fx_node *s = fx_graph_find_node(j.g, "s");
    ck_assert_int_eq(s->op->id, FX_OP_cat);
    ck_assert_int_eq(s->n_operands, 3 + 100); /* simplify spreads the last group out again: it fits */
    ck_assert_int_eq(s->operands[2].def->n_operands, 200);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, stops_after_a_pass);
    tcase_add_test(t, dumps);
    tcase_add_test(t, unchanged_is_silent);
    tcase_add_test(t, times);
    tcase_add_test(t, unknown_pass);
    tcase_add_test(t, every_row_is_decomposed);
    tcase_add_test(t, become_keeps_name_and_place);
    tcase_add_test(t, become_checks_types);
    tcase_add_test(t, long_chains);
    tcase_add_test(t, long_stack);
}

int main(void)
{
    return unit_run("lower_graph", 60, set_up, tear_down, add_tests);
}
