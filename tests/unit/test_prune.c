/* tests/unit/test_prune.c: magnitude pruning, and removal of channels through graphs: what goes, what stays, what the graph then computes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/prune.h"

static fx_context *ctx;

static void set_up(void)
{
    ctx = fx_context_create();
}

static void tear_down(void)
{
    fx_context_free(ctx);
}

static const char *last_message(void)
{
    static char message[1000];
    const fx_diag *d = fx_diag_get(ctx, fx_diag_count(ctx) - 1);
    message[0] = '\0';
    if (d)
        fx_diag_format(d, message, sizeof message);
    return message;
}

static fx_graph *parse(const char *text)
{
    fx_graph *g = NULL;
    ck_assert_msg(fx_graph_parse(ctx, "case.fx", text, strlen(text), &g) == FX_OK, "%s", last_message());
    ck_assert_msg(fx_graph_complete(g) == FX_OK, "%s", last_message());
    return g;
}

static const char *print(const fx_graph *g)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_graph_print(&t, g);
    return t.data;
}

static fx_graph *pass(fx_graph *g, const char *pipeline, fx_pass_report *report)
{
    fx_graph *out = NULL;
    const char *before = print(g);
    ck_assert_msg(fx_graph_run_passes(g, pipeline, NULL, &out, report) == FX_OK, "%s", last_message());
    ck_assert_str_eq(print(g), before);
    return out;
}

static void values(const fx_graph *g, const char *path, int n, const double *want)
{
    const fx_attr *a = fx_attr_find(g, path);
    ck_assert_ptr_nonnull(a);
    ck_assert_int_eq(fx_tensor_numel(&a->tensor), n);
    for (int i = 0; i < n; i++) {
        double v = fx_tensor_get(&a->tensor, i);
        ck_assert_msg(v == want[i] || (isnan(v) && isnan(want[i])), "%s[%d]: %g, not %g", path, i, v, want[i]);
    }
}

/* ---- which are smallest -------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

START_TEST(the_smallest_are_chosen)
{
    uint64_t state = 1;
    for (int round = 0; round < 300; round++) {
        double v[200], sorted[200];
        bool chosen[200];
        size_t n = (size_t)round % 200 + 1, k = (size_t)(round * 7) % (n + 1), count = 0;
        for (size_t i = 0; i < n; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            uint64_t r = state >> 33;
            v[i] = round % 3 == 0 ? (double)(r % 5) : round % 3 == 1 ? (double)r * 1e-300 : ldexp((double)r, (int)(r % 600) - 300);
        }
        memcpy(sorted, v, sizeof v);
        qsort(sorted, n, sizeof *sorted, by_size);
        fx_choose_smallest(n, v, k, chosen);
        for (size_t i = 0; i < n; i++) {
            count += chosen[i];
            if (chosen[i])
                ck_assert(v[i] <= sorted[k - 1]);
            else
                ck_assert(k == 0 || v[i] >= sorted[k - 1]);
            for (size_t e = 0; e < i; e++) /* of equals the first */
                ck_assert(v[e] != v[i] || chosen[e] || !chosen[i]);
        }
        ck_assert_uint_eq(count, k);
    }
    bool chosen[3];
    fx_choose_smallest(3, (double[]){NAN, INFINITY, 1}, 2, chosen);
    ck_assert(!chosen[0] && chosen[1] && chosen[2]);
}
END_TEST

/* ---- elements ------------------------------------------------------------------------------------------------------------ */

static const char two_maps[] = "graph \"case\" imported\n"
                               "parameter a.weight : f32[2, 3] = [0.5, -0.1, 0.3, -0.2, 0.0, 9.0]\n"
                               "parameter a.bias : f32[2] = [0.001, 0.002]\n"
                               "parameter b.weight : f32[2, 2] = [5.0, -6.0, 7.0, 8.0]\n\n"
                               "%x : f32[1, 3] = placeholder[x]\n"
                               "%a_weight = get_attr[a.weight]\n"
                               "%a_bias = get_attr[a.bias]\n"
                               "%b_weight = get_attr[b.weight]\n"
                               "%linear = call_function[aten.linear.default](%x, %a_weight, %a_bias)\n"
                               "%mm = call_function[aten.mm.default](%linear, %b_weight)\n"
                               "output((%mm,))\n";

START_TEST(elements_become_zero)
{
    fx_pass_report report;
    fx_graph *g = parse(two_maps), *out = pass(g, "prune(amount=0.5)", &report);
    values(out, "a.weight", 6, (double[]){0.5, 0, (double)0.3f, 0, 0, 9});
    values(out, "a.bias", 2, (double[]){(double)0.001f, (double)0.002f});
    values(out, "b.weight", 4, (double[]){0, 0, 7, 8});
    values(g, "b.weight", 4, (double[]){5, -6, 7, 8});
    ck_assert_uint_eq(report.n_changes, 2);
    ck_assert_str_eq(report.changes[0].node, "linear");
    ck_assert_str_eq(report.changes[0].what, "'a.weight': 3 of 6 elements zeroed");
    out = pass(g, "prune(amount=0.5,global=true)", NULL); /* 5 of 10 */
    values(out, "a.weight", 6, (double[]){0, 0, 0, 0, 0, 9});
    values(out, "b.weight", 4, (double[]){5, -6, 7, 8});
    out = pass(g, "prune(amount=0.5,structured=true)", NULL); /* rows of the first, columns of the second */
    values(out, "a.weight", 6, (double[]){0, 0, 0, (double)-0.2f, 0, 9});
    values(out, "b.weight", 4, (double[]){0, -6, 0, 8});
    out = pass(g, "prune(amount=1)", NULL);
    values(out, "b.weight", 4, (double[]){0, 0, 0, 0});
    out = pass(g, "prune(amount=0)", &report);
    ck_assert_uint_eq(report.n_changes, 0);
    ck_assert_ptr_eq(fx_attr_find(out, "b.weight")->tensor.storage, fx_attr_find(g, "b.weight")->tensor.storage); /* not even copied */
}
END_TEST

START_TEST(pruning_again_changes_nothing)
{
    static const char *const pipelines[] = {"prune(amount=0.5)", "prune(amount=0.3,global=true)", "prune(amount=0.5,structured=true)"};
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        fx_pass_report report;
        fx_graph *once = pass(parse(two_maps), pipelines[i], NULL), *twice = pass(once, pipelines[i], &report);
        ck_assert_uint_eq(report.n_changes, 0);
        ck_assert_str_eq(print(once), print(twice));
    }
}
END_TEST

START_TEST(bad_options_are_refused)
{
    static const struct {
        const char *pipeline, *message;
    } cases[] = {
        {"prune(amount=1.5)", "an amount from 0 to 1, got 1.5"},
        {"prune(amount=nan)", "amount"},
        {"prune(by=gradient)", "expected by=magnitude, got 'gradient'"},
        {"prune(global=true,structured=true)", "single elements"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_graph *out = NULL;
        ck_assert_int_eq(fx_graph_run_passes(parse(two_maps), cases[i].pipeline, NULL, &out, NULL), FX_ERR_ARGUMENT);
        ck_assert_msg(strstr(last_message(), cases[i].message) != NULL, "%s", last_message());
        ck_assert_ptr_null(out);
    }
}
END_TEST

/* Two names of one tensor stay two names of one tensor, pruned once; a view of other shape keeps the old elements. */
START_TEST(tied_weights_stay_tied)
{
    fx_graph *g = parse("graph \"case\" imported\n"
                        "parameter a : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]\n"
                        "parameter b : f32[2, 2] = [9.0, 9.0, 9.0, 9.0]\n\n"
                        "%x : f32[1, 2] = placeholder[x]\n"
                        "%a = get_attr[a]\n%b = get_attr[b]\n"
                        "%t = call_function[aten.t.default](%b)\n"
                        "%mm = call_function[aten.mm.default](%x, %t)\n"
                        "%y = call_function[aten.linear.default](%mm, %a)\n"
                        "output((%y,))\n");
    fx_attr *a = fx_attr_find(g, "a"), *b = fx_attr_find(g, "b");
    b->tensor = a->tensor;
    fx_pass_report report;
    fx_graph *out = pass(g, "prune(amount=0.25)", &report);
    ck_assert_uint_eq(report.n_changes, 1);
    values(out, "a", 4, (double[]){0, 2, 3, 4});
    ck_assert_ptr_eq(fx_attr_find(out, "a")->tensor.data, fx_attr_find(out, "b")->tensor.data);
    out = pass(g, "prune(amount=0.5,structured=true)", NULL);
    values(out, "b", 4, (double[]){0, 0, 3, 4});
}
END_TEST

START_TEST(weights_of_modules_are_pruned)
{
    fx_pass_report report;
    fx_graph *g = parse("graph \"case\" captured\n"
                        "module up : torch.nn.ConvTranspose2d\nmodule act : torch.nn.ReLU\nmodule bn : torch.nn.BatchNorm2d\n"
                        "parameter up.weight : f32[1, 2, 1, 2] = [1.0, -2.0, 0.5, 3.0]\n"
                        "parameter bn.weight : f32[2] = [0.5, 1.0]\n\n"
                        "%x = placeholder[x]\n%up = call_module[up](%x)\n%bn = call_module[bn](%up)\n%act = call_module[act](%bn)\n"
                        "output(%act)\n");
    fx_graph *out = pass(g, "prune(amount=0.5)", &report);
    values(out, "up.weight", 4, (double[]){0, -2, 0, 3});
    values(out, "bn.weight", 2, (double[]){0.5, 1});
    ck_assert_uint_eq(report.n_changes, 1);
    out = pass(g, "prune(amount=0.5,structured=true)", NULL); /* output channels of a transposed convolution: dim 1 */
    values(out, "up.weight", 4, (double[]){0, 0, 0.5, 3});
}
END_TEST

int main(void)
{
    Suite *s = suite_create("prune");
    TCase *c = tcase_create("prune");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, the_smallest_are_chosen);
    tcase_add_test(c, elements_become_zero);
    tcase_add_test(c, pruning_again_changes_nothing);
    tcase_add_test(c, bad_options_are_refused);
    tcase_add_test(c, tied_weights_stay_tied);
    tcase_add_test(c, weights_of_modules_are_pruned);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
