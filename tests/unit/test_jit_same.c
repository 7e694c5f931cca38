/* tests/unit/test_jit_same.c: functions that equal steps share (codegen/llvm_same.c): that they do share, that steps which differ in anything do
 * not, and that each computes what it would alone.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/unit/fixture.h"
#include "tests/unit/jit.h"

/* A block: a product with a packed weight, which a kernel does, and a loop over what comes out. */
#define BLOCK(from, i, rows, width, more, function)                                                                                       \
    "%l" i " : f32[" rows ", " width "] = call_function[aten.linear.default](%" from ", %w" i ", %b" i ")\n"                              \
    "%m" i " : f32[" rows ", " width "] = call_function[aten.mul.Tensor](%l" i ", %l" i ")\n"                                             \
    "%a" i " : f32[" rows ", " width "] = call_function[aten.add.Tensor](%m" i ", " more ")\n"                                            \
    "%e" i " : f32[" rows ", " width "] = call_function[aten." function ".default](%a" i ")\n"
#define WEIGHT(i, width, before) "parameter w" i " : f32[" width ", " before "] = all 1.0\nparameter b" i " : f32[" width "] = all 1.0\n"
#define ATTR(i, width, before) "%w" i " : f32[" width ", " before "] = get_attr[w" i "]\n%b" i " : f32[" width "] = get_attr[b" i "]\n"
/* Two blocks, and what no loop is fused with; the first of width 8, its squares more by 0.5 and then tanh. */
#define TWO(symbols, rows, width, more, function)                                                                                         \
    "graph \"two\" imported\n" symbols WEIGHT("1", "8", "8") WEIGHT("2", width, "8") "\n%x : f32[" rows ", 8] = placeholder[x]\n"         \
    ATTR("1", "8", "8") ATTR("2", width, "8") BLOCK("x", "1", rows, "8", "0.5", "tanh")                                                   \
    BLOCK("e1", "2", rows, width, more, function)                                                                                         \
    "%s : f32[" rows ", " width "] = call_function[aten.cumsum.default](%e2, 1)\noutput((%s,))\n"

static const struct row {
    const char *what, *text;
    int functions;
} rows[] = {
    {"equal", TWO("", "5", "8", "0.5", "tanh"), 3},
    {"another constant", TWO("", "5", "8", "0.25", "tanh"), 4},
    {"another constant of the same sign and size", TWO("", "5", "8", "0.5000001", "tanh"), 4},
    {"another function", TWO("", "5", "8", "0.5", "sigmoid"), 4},
    {"another width", TWO("", "5", "16", "0.5", "tanh"), 5},
    {"equal, of open size", TWO("symbol n in [1, 64]\n", "n", "8", "0.5", "tanh"), 3},
    {"another constant, of open size", TWO("symbol n in [1, 64]\n", "n", "8", "0.75", "tanh"), 4},
};
enum { N = sizeof rows / sizeof rows[0] };

static fx_graph *two(const char *text)
{
    fx_graph *g = unit_parse(ctx, text);
    static const char *const names[] = {"w1", "b1", "w2", "b2"};
    for (int i = 0; i < 4; i++) {
        const fx_attr *a = fx_attr_find(g, names[i]);
        fx_tensor t = jit_tensor(ctx, FX_F32, a->tensor.rank, a->tensor.sizes, 3 * i + 1);
        for (int64_t k = 0; k < fx_tensor_numel(&t); k++)
            ((float *)t.data)[k] /= 8;
        ck_assert_int_eq(fx_graph_set_parameter(g, names[i], &t), FX_OK);
    }
    return g;
}

/* How many functions the module has for steps. */
static int step_functions(fx_graph *g)
{
    static const char function[] = "define internal void @";
    fx_jit_options o = {.level = 1, .threads = 1};
    const char *data;
    size_t size;
    int n = 0;
    ck_assert_msg(fx_jit_emit(g, &o, FX_JIT_LLVM_IR, &data, &size) == FX_OK, "%s", unit_diag(ctx));
    for (const char *at = data; (at = strstr(at, function)); at += sizeof function - 1)
        n += strncmp(at + sizeof function - 1, "step.", 5) == 0;
    return n;
}

START_TEST(equal_steps_share)
{
    int n = step_functions(two(rows[_i].text));
    ck_assert_msg(n == rows[_i].functions, "%s: %d functions, expected %d", rows[_i].what, n, rows[_i].functions);
}
END_TEST

START_TEST(values_are_each_steps_own)
{
    for (int level = 0; level <= 3; level++)
        for (int threads = 1; threads <= 2; threads++) {
            fx_graph *g = two(rows[_i].text);
            fx_function *f = jit_compile(g, &(fx_jit_options){.cache = "", .level = level, .threads = threads});
            fx_tensor in = jit_tensor(ctx, FX_F32, 2, (int64_t[]){5, 8}, level), out;
            jit_outputs(ctx, f, 1, &in, &out);
            jit_call(f, 1, &in, &out);
            jit_judge(g, 1, &in, &out);
            fx_function_free(f);
        }
}
END_TEST

/* A check has a number of its own: equal ones share nothing, and each failure is its step's. */
START_TEST(checks_stay_apart)
{
    fx_graph *g = unit_parse(ctx, "graph \"g\" imported\nparameter w : f32[6, 4] = all 0.5\n\n%i : i64[3] = placeholder[i]\n%k : i64[3] = placeholder[k]\n"
                                  "%w : f32[6, 4] = get_attr[w]\n%first : f32[3, 4] = call_function[aten.embedding.default](%w, %i)\n"
                                  "%second : f32[3, 4] = call_function[aten.embedding.default](%w, %k)\noutput((%first, %second))\n");
    fx_function *f = jit_compile(g, NULL);
    fx_tensor in[2] = {jit_tensor(ctx, FX_I64, 1, (int64_t[]){3}, 1), jit_tensor(ctx, FX_I64, 1, (int64_t[]){3}, 1)}, out[2];
    static const char *const names[] = {"'first'", "'second'"};
    for (int bad = 0; bad < 2; bad++) {
        char error[400] = "";
        for (int64_t k = 0; k < 3; k++) {
            ((int64_t *)in[bad].data)[k] = k == 1 ? 6 : k;
            ((int64_t *)in[1 - bad].data)[k] = 5 - k;
        }
        if (!bad)
            jit_outputs(ctx, f, 2, in, out);
        ck_assert_int_eq(fx_function_call(f, 2, in, 2, out, error, sizeof error), FX_ERR_ARGUMENT);
        ck_assert_msg(strstr(error, names[bad]) && !strstr(error, names[1 - bad]), "%s", error);
        ((int64_t *)in[bad].data)[1] = 3;
        jit_call(f, 2, in, out);
        jit_judge(g, 2, in, out);
    }
    fx_function_free(f);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_loop_test(t, equal_steps_share, 0, N);
    tcase_add_loop_test(t, values_are_each_steps_own, 0, N);
    tcase_add_test(t, checks_stay_apart);
}

int main(void)
{
    return unit_run("jit_same", 120, set_up, tear_down, add);
}
