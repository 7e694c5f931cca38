/* tests/unit/test_quantize_nodes.c: observers and pairs of quantize and dequantize nodes: where they come, what they compute.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "passes/quantize.h"
#include "tests/unit/fixture.h"

static fx_graph *pass(fx_graph *g, const char *pipeline, fx_pass_report *report)
{
    fx_graph *out = NULL;
    ck_assert_msg(fx_graph_run_passes(g, pipeline, NULL, &out, report) == FX_OK, "%s", unit_diag(ctx));
    return out;
}

/* "x > obs > linear relu > obs ..." : calls in order; observers and pairs short. */
static const char *calls(const fx_graph *g)
{
    static char buf[2000];
    char *p = buf;
    FX_FOR_NODES(g, n) {
        const char *name = n->opcode == FX_CALL_MODULE && fx_module_is_observer(fx_module_find(g, n->target)) ? "obs"
                           : n->op && n->op->id == FX_OP_quantize_per_tensor                                ? "q"
                           : n->op && n->op->id == FX_OP_dequantize_per_tensor                              ? "dq"
                                                                                                            : n->name;
        if (n->opcode == FX_GET_ATTR || n->opcode == FX_OUTPUT)
            continue;
        p += sprintf(p, "%s%s", p == buf ? "" : " ", name);
        for (int i = 0; i < n->n_operands && n->op && n->op->id != FX_OP_dequantize_per_tensor; i++)
            if (n->operands[i].def->opcode != FX_GET_ATTR && n->operands[i].def != n->prev)
                p += sprintf(p, "<%s", n->operands[i].def->name);
    }
    return buf;
}

static const char net[] = "graph \"case\" imported\n"
                          "parameter w : f32[2, 2] = [1.0, -1.0, 0.5, 2.0]\nparameter v : f32[2, 2] = [1.0, 0.0, 0.0, 1.0]\n\n"
                          "%x : f32[1, 2] = placeholder[x]\n%i : i64[1] = placeholder[i]\n%w = get_attr[w]\n%v = get_attr[v]\n"
                          "%lin = call_function[aten.linear.default](%x, %w)\n"
                          "%relu = call_function[aten.relu.default](%lin)\n"
                          "%t = call_function[aten.t.default](%v)\n"
                          "%mm = call_function[aten.mm.default](%relu, %t)\n"
                          "%sig = call_function[aten.sigmoid.default](%x)\n"
                          "%add = call_function[aten.add.Tensor](%mm, %sig)\n"
                          "%plus = call_function[aten.add.Tensor](%add, 1)\n"
                          "%j = call_function[aten.mul.Tensor](%i, %i)\n"
                          "output((%plus, %j))\n";

START_TEST(observers_come_where_values_are_read_and_made)
{
    fx_pass_report report;
    fx_graph *g = unit_parse(ctx, net), *out = pass(g, "insert_observers", &report), *twice;
    /* x is read by linear and by sigmoid: only linear reads the observed one. relu ends linear; constants and integers are left alone. */
    ck_assert_str_eq(calls(out), "x i obs lin<activation_post_process_0 relu obs t mm<activation_post_process_1 obs sig<x obs add<activation_post_process_2 obs plus j<i<i");
    ck_assert_uint_eq(report.n_changes, 5);
    ck_assert_str_eq(report.changes[0].node, "x");
    ck_assert_str_eq(report.changes[0].what, "observed by 'activation_post_process_0'");
    ck_assert_str_eq(fx_module_find(out, "activation_post_process_3")->class_name, "torch.ao.quantization.observer.HistogramObserver");
    ck_assert_str_eq(calls(g), "x i lin<x relu t mm<relu sig<x add<mm plus j<i<i");
    twice = pass(out, "insert_observers", &report);
    ck_assert_uint_eq(report.n_changes, 0);
    ck_assert_str_eq(calls(twice), "x i obs lin<activation_post_process_0 relu obs t mm<activation_post_process_1 obs sig<x obs add<activation_post_process_2 obs plus j<i<i");
}
END_TEST

static fx_tensor vector(const float *v)
{
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, (int64_t[]){1, 2}, &t), FX_OK);
    memcpy(t.data, v, 2 * sizeof *v);
    return t;
}

static void run(fx_graph *g, const float *v, bool in_place, double out[2])
{
    fx_tensor x[2] = {vector(v)};
    const fx_tensor *result;
    size_t n;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_I64, 1, (int64_t[]){1}, &x[1]), FX_OK);
    fx_interpreter *in = fx_interpreter_create(g, &(fx_interpreter_options){.in_place = in_place});
    ck_assert_msg(fx_interpreter_run(in, 2, x, &n, &result) == FX_OK, "%s", unit_diag(ctx));
    for (int i = 0; i < 2; i++)
        out[i] = fx_tensor_get(&result[0], i);
    fx_interpreter_free(in);
}

/* prepare, calibrate, convert: as in torch.ao. */
START_TEST(observed_ranges_become_scales)
{
    fx_graph *g = pass(unit_parse(ctx, net), "insert_observers(observer=minmax)", NULL), *other;
    double low, high, plain[2], observed[2], quantized[2];
    const float a[] = {1, -3}, b[] = {0.5f, 2};
    run(unit_parse(ctx, net), b, false, plain);
    run(g, b, false, observed); /* without writes nothing is noted */
    ck_assert(!fx_observer_range(g, fx_module_find(g, "activation_post_process_0"), &low, &high));
    run(g, a, true, observed);
    run(g, b, true, observed);
    ck_assert(observed[0] == plain[0] && observed[1] == plain[1]);
    ck_assert(fx_observer_range(g, fx_module_find(g, "activation_post_process_0"), &low, &high));
    ck_assert(low == -3 && high == 2);
    ck_assert_str_eq(calls(pass(g, "insert_quantize_dequantize", NULL)),
                     "x i q<x dq lin<dequantize_per_tensor relu q dq t mm<dequantize_per_tensor_1 q dq sig<x q dq add<dequantize_per_tensor_2 q dq plus j<i<i");
    g = pass(g, "insert_quantize_dequantize", NULL);
    const fx_node *q = fx_graph_find_node(g, "quantize_per_tensor");
    ck_assert(fabs(fx_node_float(q, 1) - 5.0 / 255) < 1e-8); /* range -3 .. 2 */
    ck_assert_int_eq(fx_node_int(q, 2), -128 + 153);
    ck_assert_str_eq(fx_node_type_text((fx_node *)q), "i8[1, 2]");
    run(g, b, false, quantized);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(fabs(quantized[i] - plain[i]) < 0.1, "%g, %g", quantized[i], plain[i]);
    ck_assert(quantized[0] != plain[0] || quantized[1] != plain[1]);
    g = pass(unit_parse(ctx, net), "insert_observers(observer=minmax)", NULL);
    run(g, a, true, observed);
    other = pass(g, "insert_quantize_dequantize(symmetric=true,dtype=uint8)", NULL);
    q = fx_graph_find_node(other, "quantize_per_tensor");
    ck_assert(fabs(fx_node_float(q, 1) - 3 / 127.5) < 1e-8);
    ck_assert_int_eq(fx_node_int(q, 2), 128);
}
END_TEST

START_TEST(scales_from_options_and_notes)
{
    fx_pass_report report;
    fx_graph *g = unit_parse(ctx, net);
    fx_node *x = fx_graph_find_node(g, "x");
    ck_assert_int_eq(fx_node_set_meta(x, "scale", fx_v_float(0.25)), FX_OK);
    ck_assert_int_eq(fx_node_set_meta(x, "zero_point", fx_v_int(3)), FX_OK);
    fx_graph *out = pass(g, "insert_quantize_dequantize(scale=0.1,zero_point=-5)", &report);
    const fx_node *q = fx_graph_find_node(out, "quantize_per_tensor"), *r = fx_graph_find_node(out, "quantize_per_tensor_1");
    ck_assert(fx_node_float(q, 1) == 0.25 && fx_node_int(q, 2) == 3);
    ck_assert(fx_node_float(r, 1) == 0.1 && fx_node_int(r, 2) == -5);
    ck_assert_uint_eq(report.n_changes, 5);
    ck_assert_str_eq(report.changes[1].what, "quantised: scale 0.1, zero point -5");
    /* x = (1, -3): q = round(x / 0.25) + 3 */
    fx_node *out_node = fx_graph_output_node(out);
    fx_node_assign(out_node, fx_arg_seq(ctx, FX_ARG_TUPLE, 1, (const fx_arg *[]){fx_arg_operand(ctx, 0)}), NULL, 1, (fx_node *[]){(fx_node *)q});
    double v[2];
    run(out, (float[]){1, -3}, false, v);
    ck_assert(v[0] == 7 && v[1] == -9);
}
END_TEST

START_TEST(captured_graphs)
{
    fx_graph *g = unit_parse(ctx, "graph \"case\" captured\nmodule c : torch.nn.Conv2d(in_channels=1, out_channels=2, kernel_size=1)\n"
                             "parameter c.weight : f32[2, 1, 1, 1] = [1.0, 2.0]\nparameter c.bias : f32[2] = [0.0, 1.0]\n"
                             "module n : torch.nn.BatchNorm2d(num_features=2)\nmodule r : torch.nn.ReLU\n\n"
                             "%x = placeholder[x]\n%c = call_module[c](%x)\n%n = call_module[n](%c)\n%r = call_module[r](%n)\noutput(%r)\n");
    ck_assert_str_eq(calls(pass(g, "insert_observers", NULL)), "x obs c n r obs");
    fx_graph *out = pass(g, "insert_quantize_dequantize(scale=0.5)", NULL);
    ck_assert_str_eq(calls(out), "x q dq c n r q dq");
    ck_assert_ptr_eq(fx_graph_output_node(out)->operands[0].def, fx_graph_find_node(out, "dequantize_per_tensor_1"));
}
END_TEST

START_TEST(bad_options_are_refused)
{
    static const struct {
        const char *pipeline, *message;
    } cases[] = {
        {"insert_observers(observer=none)", "histogram, minmax or moving_average, got 'none'"},
        {"insert_quantize_dequantize", "no scale is known for 'x'"},
        {"insert_observers,insert_quantize_dequantize", "no scale is known for 'x'"},
        {"insert_quantize_dequantize(scale=-1)", "a scale above 0"},
        {"insert_quantize_dequantize(scale=inf)", "scale"},
        {"insert_quantize_dequantize(scale=1,zero_point=200)", "a zero point from -128 to 127 for 'x', got 200"},
        {"insert_quantize_dequantize(dtype=float8)", "int8, uint8 or int16, got 'float8'"},
        {"insert_quantize_dequantize(scale=1),insert_observers", "insert_observers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_graph *out = NULL;
        ck_assert_int_eq(fx_graph_run_passes(unit_parse(ctx, net), cases[i].pipeline, NULL, &out, NULL), FX_ERR_ARGUMENT);
        ck_assert_msg(strstr(unit_diag(ctx), cases[i].message) != NULL, "%s: %s", cases[i].pipeline, unit_diag(ctx));
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, observers_come_where_values_are_read_and_made);
    tcase_add_test(t, observed_ranges_become_scales);
    tcase_add_test(t, scales_from_options_and_notes);
    tcase_add_test(t, captured_graphs);
    tcase_add_test(t, bad_options_are_refused);
}

int main(void)
{
    return unit_run("quantize_nodes", 120, set_up, tear_down, add_tests); /* sanitizers, busy machines */
}
