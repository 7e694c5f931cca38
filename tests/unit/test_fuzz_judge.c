/* tests/unit/test_fuzz_judge.c: the judge of the random-graph test: it takes eager's values where they are not the reference interpreter's, and
 * nothing much further off.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "ir/ops.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/unit.h"

/* A case of a graph of one input, whose values are given; what it computes by the reference interpreter and within which bounds. */
static void make_case(fz_case *c, const char *text, fx_dtype dtype, int64_t n, const double *values)
{
    *c = (fz_case){.seed = 7, .ctx = fx_context_create(), .n_in = 1, .settings = {.target = "generic", .threads = 1}};
    c->g = unit_parse(c->ctx, text);
    ck_assert_int_eq(fx_tensor_create(c->ctx, dtype, 1, &n, &c->in[0]), FX_OK);
    for (int64_t i = 0; i < n; i++)
        fx_tensor_set(&c->in[0], i, values[i]);
    ck_assert_int_eq(fz_reference(c), FX_OK);
}

/* Whether v as element i of the only output is right. */
static bool takes(const fz_case *c, int64_t i, double v)
{
    char text[300];
    fx_tensor got;
    ck_assert_int_eq(fx_tensor_copy(c->ctx, &c->out[0], &got), FX_OK);
    fx_tensor_set(&got, i, v);
    return fz_compare(c, 0, &got, NULL, text, sizeof text);
}

/* x times a sigmoid: from x = -88.72 on eager's float32 sigmoid is 0, as exp(-x) is infinite. The interpreter computes in double. */
START_TEST(products_with_what_fades)
{
    static const double x[] = {-80, -86, -89, -90, -92, -104, 3};
    static const char *const dtypes[] = {"f32", "bf16"}, *const ops[] = {"silu", "mish"};
    for (int d = 0; d < 2; d++)
        for (int o = 0; o < 2; o++) {
            char text[400];
            fz_case c;
            snprintf(text, sizeof text, "graph \"j\" imported\n\n%%x : %s[7] = placeholder[x]\n%%y : %s[7] = call_function[aten.%s.default](%%x)\noutput((%%y,))\n", dtypes[d],
                     dtypes[d], ops[o]);
            make_case(&c, text, d ? FX_BF16 : FX_F32, 7, x);
            for (int i = 0; i < 7; i++) {
                double want = fx_tensor_get(&c.out[0], i), by = d ? 0.05 : 1e-5;
                ck_assert(takes(&c, i, want));
                ck_assert_msg(takes(&c, i, -0.0) == (i >= 2 && i < 6), "%s of %s: 0 of %g", ops[o], dtypes[d], x[i]);
                if (i < 2 || i == 6)
                    ck_assert(!takes(&c, i, want * (1 + by)) && !takes(&c, i, want * (1 - by)) && !takes(&c, i, -want));
                ck_assert(!takes(&c, i, want + 1e-30 * (i < 6 ? 1 : 1e31)));
            }
            fz_case_free(&c);
        }
    static const double halves[] = {5, 5, 5, -20, -90, 1};
    fz_case c;
    make_case(&c, "graph \"j\" imported\n\n%x : f32[6] = placeholder[x]\n%y : f32[3] = call_function[aten.glu.default](%x, -1)\noutput((%y,))\n", FX_F32, 6, halves);
    ck_assert(takes(&c, 1, 0) && !takes(&c, 0, 0) && !takes(&c, 2, 0));
    fz_case_free(&c);
}
END_TEST

/* Integers that are summed as floats round: large ones that cancel leave what the order leaves. Small ones are exact. */
START_TEST(sums_of_large_integers)
{
    static const double large[] = {0x1p62, -0x1p62, 12345, 700, -8, 1}, small[] = {1, -7, 3, 12, 5, -100};
    static const char *const text = "graph \"j\" imported\n\n%x : i64[6] = placeholder[x]\n%y : f64[] = call_function[aten.sum.default](%x, torch.float64)\noutput((%y,))\n";
    fz_case c;
    make_case(&c, text, FX_I64, 6, large);
    double forth = 0, back = 0;
    for (int i = 0; i < 6; i++) {
        forth += large[i];
        back += large[5 - i];
    }
    ck_assert(forth != back); /* else nothing is shown */
    ck_assert(takes(&c, 0, forth) && takes(&c, 0, back) && !takes(&c, 0, 0x1p59));
    fz_case_free(&c);
    make_case(&c, text, FX_I64, 6, small);
    ck_assert(takes(&c, 0, -86) && !takes(&c, 0, -86.001) && !takes(&c, 0, -85));
    fz_case_free(&c);
}
END_TEST

/* A mean over weights that float32 has few digits of: eager gives -2, in double it is -1.625. Other weights are judged. */
START_TEST(means_over_tiny_weights)
{
    static const char *const text = "graph \"j\" imported\nparameter x : f32[1, 2] = [1.625, 3]\nparameter t : i64[1] = [0]\n\n%w : f32[2] = placeholder[w]\n"
                                    "%x : f32[1, 2] = get_attr[x]\n%t : i64[1] = get_attr[t]\n"
                                    "%y : (f32[], f32[]) = call_function[aten.nll_loss_forward.default](%x, %t, %w, 1, -100)\n"
                                    "%z : f32[] = call_function[_operator.getitem](%y, 0)\noutput((%z,))\n";
    fz_case c;
    make_case(&c, text, FX_F32, 2, (double[]){0x1p-149, 1});
    ck_assert(takes(&c, 0, -2));
    fz_case_free(&c);
    make_case(&c, text, FX_F32, 2, (double[]){0x1p-9, 1});
    ck_assert(takes(&c, 0, -1.625) && !takes(&c, 0, -2));
    fz_case_free(&c);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, products_with_what_fades);
    tcase_add_test(t, sums_of_large_integers);
    tcase_add_test(t, means_over_tiny_weights);
}

int main(void)
{
    return unit_run("fuzz_judge", 60, NULL, NULL, add_tests);
}
