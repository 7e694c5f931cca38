/* tests/unit/test_format.c: fx_graph_format: each form of a graph that is made by the public API; what is refused; memory that runs out.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "fxcc/inspect.h"
#include "fxcc/module.h"
#include "ir/ir.h"
#include "tests/unit/fixture.h"

enum { N_FORMS = FX_FORM_JSON + 1 };

static const char *first_message(fx_context *c)
{
    const fx_diag *d = fx_diag_get(c, 0);
    return d ? d->message : "no diagnostic";
}

static const char *format(fx_graph *g, fx_form form)
{
    const char *text = NULL;
    ck_assert_msg(fx_graph_format(g, form, &text) == FX_OK, "%s", first_message(ctx));
    ck_assert_ptr_nonnull(text);
    return text;
}

/* A module call, a function with constants of several kinds, an operator, a method, an unused call. NULL when memory runs out. */
static fx_graph *small(fx_context *c)
{
    fx_graph *g = fx_graph_create(c, "small");
    if (!g)
        return NULL;
    const char *keys[] = {"in_channels", "out_channels", "kernel_size"}, *dim[] = {"dim"};
    fx_value settings[] = {fx_v_int(3), fx_v_int(8), fx_v_int(1)};
    fx_tensor w;
    int64_t sizes[] = {8, 3, 1, 1};
    if (!fx_graph_add_submodule(g, "features.0", "torch.nn.Conv2d", 3, keys, settings) ||
        fx_tensor_create(c, FX_F32, 4, sizes, &w) != FX_OK || fx_graph_set_parameter(g, "features.0.weight", &w) != FX_OK)
        return NULL;
    fx_value two = fx_v_int(2);
    fx_node *x = fx_graph_placeholder(g, "x", NULL), *y = fx_graph_placeholder(g, "input", &two);
    fx_value xs = fx_v_node(x);
    fx_node *conv = fx_graph_call_module(g, "features.0", 1, &xs);
    fx_value sum[] = {fx_v_node(conv), fx_v_node(y)};
    fx_node *add = fx_graph_call_function(g, "operator.add", 2, sum);
    fx_value items[] = {fx_v_node(add), fx_v_node(conv)}, list = fx_v_list(2, items), axis = fx_v_int(1);
    fx_node *cat = fx_graph_create_node(g, FX_CALL_FUNCTION, "torch.cat", 1, &list, 1, dim, &axis, NULL);
    fx_value clamp[] = {fx_v_node(cat), fx_v_float(-INFINITY), fx_v_float(1e15)};
    fx_graph_call_method(g, "clamp", 3, clamp);
    fx_node *out = fx_graph_output(g, fx_v_node(cat));
    if (!x || !y || !conv || !add || !cat || !out || fx_node_set_meta(cat, "tag", fx_v_str("a\"b")) != FX_OK ||
        fx_node_set_location(cat, "features", "net.py:12") != FX_OK)
        return NULL;
    return g;
}

START_TEST(code_is_fx_s)
{
    ck_assert_str_eq(format(small(ctx), FX_FORM_CODE),
                     "import torch\nfrom math import inf\n\n\n\n"
                     "def forward(self, x, input = 2):\n"
                     "    input_1 = input\n"
                     "    features_0 = getattr(self.features, \"0\")(x);  x = None\n"
                     "    add = features_0 + input_1;  input_1 = None\n"
                     "    cat = torch.cat([add, features_0], dim = 1);  add = features_0 = None\n"
                     "    clamp = cat.clamp(-inf, 1000000000000000.0);  clamp = None\n"
                     "    return cat\n"
                     "    ");
}
END_TEST

START_TEST(readable_is_fx_s)
{
    ck_assert_str_eq(format(small(ctx), FX_FORM_READABLE),
                     "class GraphModule(torch.nn.Module):\n"
                     "    def forward(self, x, input = 2):\n"
                     "        input_1 = input\n"
                     "\n"
                     "        # No stacktrace found for following nodes\n"
                     "        features_0 = getattr(self.features, \"0\")(x);  x = None\n"
                     "        add = features_0 + input_1;  input_1 = None\n"
                     "\n"
                     "        # File: net.py:12, module: features\n"
                     "        cat = torch.cat([add, features_0], dim = 1);  add = features_0 = None\n"
                     "\n"
                     "        # No stacktrace found for following nodes\n"
                     "        clamp = cat.clamp(-inf, 1000000000000000.0);  clamp = None\n"
                     "        return cat\n");
}
END_TEST

START_TEST(tabular_is_fx_s)
{
    ck_assert_str_eq(format(small(ctx), FX_FORM_TABULAR),
                     "opcode         name        target        args                             kwargs\n"
                     "-------------  ----------  ------------  -------------------------------  ----------\n"
                     "placeholder    x           x             ()                               {}\n"
                     "placeholder    input_1     input         (2,)                             {}\n"
                     "call_module    features_0  features.0    (x,)                             {}\n"
                     "call_function  add         operator.add  (features_0, input_1)            {}\n"
                     "call_function  cat         torch.cat     ([add, features_0],)             {'dim': 1}\n"
                     "call_method    clamp       clamp         (cat, -inf, 1000000000000000.0)  {}\n"
                     "output         output      output        (cat,)                           {}\n");
}
END_TEST

START_TEST(the_table_knows_captured_graphs)
{
    fx_graph *g = NULL;
    static const char text[] = "graph \"net\" captured\n"
                               "module c : torch.nn.Conv2d(in_channels=3, out_channels=8, kernel_size=3)\n"
                               "parameter c.weight : f32[8, 3, 3, 3] = all 0.5\nparameter c.bias : f32[8] = all 0.0\n"
                               "%x : f32[1, 3, 8, 8] = placeholder[x]\n%c = call_module[c](%x)\n%flat = call_method[flatten](%c, 1)\n"
                               "%what = call_function[mine.what](%flat)\noutput(%flat)\n";
    ck_assert_int_eq(fx_graph_parse(ctx, "t.fx", text, sizeof text - 1, &g), FX_OK);
    ck_assert_ptr_nonnull(strstr(format(g, FX_FORM_TABLE), "\n5 nodes, unknown FLOPs, 224 parameters"));
    ck_assert_uint_eq(fx_diag_count(ctx), 0);
    ck_assert_int_eq(fx_graph_erase_node(g, fx_graph_find_node(g, "what")), FX_OK);
    const char *table = format(g, FX_FORM_TABLE);
    ck_assert_ptr_nonnull(strstr(table, "c        f32[1, 8, 6, 6]  15.6 k"));
    ck_assert_ptr_nonnull(strstr(table, "f32[1, 288]"));
    ck_assert_ptr_nonnull(strstr(table, "\n4 nodes, 15.6 k FLOPs, 224 parameters"));
}
END_TEST

START_TEST(json_tells_all)
{
    const char *text = format(small(ctx), FX_FORM_JSON);
    static const char *const parts[] = {
        "{\"format\": \"fxcc graph\", \"version\": 1,\n\"name\": \"small\", \"stage\": \"captured\", \"file\": null,\n",
        "\"settings\": {\"in_channels\": 3, \"out_channels\": 8, \"kernel_size\": 1}}",
        "{\"path\": \"features.0.weight\", \"kind\": \"parameter\", \"persistent\": true, \"dtype\": \"float32\", \"shape\": [8, 3, 1, 1], "
        "\"strides\": [3, 1, 1, 1], \"storage\": 0, \"offset\": 0}",
        "{\"name\": \"cat\", \"opcode\": \"call_function\", \"target\": \"torch.cat\", \"operator\": \"aten.cat.default\", "
        "\"args\": [[{\"node\": \"add\"}, {\"node\": \"features_0\"}]], \"kwargs\": {\"dim\": 1}, \"type\": null, "
        "\"users\": [\"clamp\", \"output\"], "
        "\"location\": {\"module\": \"features\", \"frame\": \"net.py:12\"}, \"meta\": {\"tag\": \"a\\\"b\"}}",
        "\"args\": [{\"node\": \"cat\"}, {\"float\": \"-inf\"}, 1e+15]",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "expected %s in\n%.2000s", parts[i], text);
}
END_TEST

START_TEST(an_empty_graph_has_every_form)
{
    fx_graph *g = fx_graph_create(ctx, "nothing");
    ck_assert_str_eq(format(g, FX_FORM_CODE), "\n\n\ndef forward(self):\n    pass\n    ");
    for (int form = 0; form < N_FORMS; form++)
        format(g, (fx_form)form);
}
END_TEST

START_TEST(null_and_unknown_forms_are_refused)
{
    const char *text = "kept";
    fx_graph *g = small(ctx);
    ck_assert_int_eq(fx_graph_format(NULL, FX_FORM_TEXT, &text), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_format(g, FX_FORM_TEXT, NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_format(g, (fx_form)99, &text), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, fx_diag_count(ctx) - 1)->message, "expected a form of fx_form, got 99"));
    ck_assert_str_eq(text, "kept");
    ck_assert_int_eq(fx_program_format(NULL, NULL, &text), FX_ERR_ARGUMENT);
}
END_TEST

/* Graphs that are wrong are shown all the same, so that one sees why; only what Python has no words for is refused. */
START_TEST(wrong_graphs_are_shown)
{
    fx_graph *g = fx_graph_create(ctx, "g");
    const char *text;
    fx_graph_call_module(g, "not.there", 0, NULL);
    fx_graph_get_attr(g, "nor.this");
    for (int form = 0; form < N_FORMS; form++)
        format(g, (fx_form)form);
    fx_graph_call_method(g, "abs", 0, NULL);
    fx_diag_clear(ctx);
    ck_assert_int_eq(fx_graph_format(g, FX_FORM_CODE, &text), FX_ERR_ARGUMENT);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->node, "abs_1");
    ck_assert_ptr_nonnull(strstr(first_message(ctx), "a call of a method needs its object as first argument"));
    format(g, FX_FORM_TABULAR);
}
END_TEST

/* A subgraph in a subgraph and so on: names in code; classes in print_readable, up to a depth. */
START_TEST(subgraphs_nest)
{
    fx_graph *g = NULL;
    for (int i = 0; i < 50; i++) {
        fx_value inner = g ? fx_v_graph(g) : fx_v_none();
        g = fx_graph_create(ctx, "inner");
        fx_graph_output(g, fx_v_node(fx_graph_call_function(g, "torch.cond", 1, &inner)));
        if (i == 3) {
            ck_assert_ptr_nonnull(strstr(format(g, FX_FORM_CODE), "cond = torch.cond(self.inner)\n"));
            ck_assert_ptr_nonnull(strstr(format(g, FX_FORM_READABLE),
                                         "\n            class inner(torch.nn.Module):\n                def forward(self):\n"));
        }
    }
    for (int form = 0; form < N_FORMS; form++)
        format(g, (fx_form)form);
}
END_TEST

START_TEST(running_out_of_memory_is_an_error)
{
    bool done = false;
    for (long n = 0; !done; n++) {
        ck_assert_int_lt(n, 5000);
        unit_memory m = {.fail_at = -1};
        fx_context *c = unit_context(&m);
        fx_graph *g = small(c);
        const char *text = NULL;
        ck_assert_ptr_nonnull(g);
        unit_fail_after(&m, n);
        fx_status st = fx_graph_format(g, (fx_form)_i, &text);
        ck_assert_msg(st == FX_OK || st == FX_ERR_NOMEM, "%s", first_message(c));
        ck_assert(st == FX_OK ? text != NULL : fx_diag_count(c) == 1);
        done = st == FX_OK;
        fx_context_free(c);
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, code_is_fx_s);
    tcase_add_test(t, readable_is_fx_s);
    tcase_add_test(t, tabular_is_fx_s);
    tcase_add_test(t, the_table_knows_captured_graphs);
    tcase_add_test(t, json_tells_all);
    tcase_add_test(t, an_empty_graph_has_every_form);
    tcase_add_test(t, null_and_unknown_forms_are_refused);
    tcase_add_test(t, wrong_graphs_are_shown);
    tcase_add_test(t, subgraphs_nest);
    tcase_add_loop_test(t, running_out_of_memory_is_an_error, 0, N_FORMS);
}

int main(void)
{
    return unit_run("format", 120, set_up, tear_down, add_tests);
}
