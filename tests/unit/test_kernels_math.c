/* test_kernels_math.c: the scalar functions of runtime/math.h against the C library in double, with and without FMA.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#define FXRT_FMA 0
#include "runtime/math.h"
#include "runtime/math64.h"
#include "tests/unit/unit.h"

static double exp_d(double x) { return exp(x); }
static double sigmoid_d(double x) { return 1 / (1 + exp(-x)); }
static double silu_d(double x) { return x / (1 + exp(-x)); }
static double gelu_d(double x) { return x * 0.5 * erfc(-x * 0.70710678118654752440); }
static double gelu_tanh_d(double x) { return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x))); }
static double mish_d(double x) { return x * tanh(log1p(exp(x))); }
static double softplus_d(double x) { return x > 20 ? x : log1p(exp(x)); }
static float softplus_f(float x) { return fxrt_softplus(x, 1, 20); }
static double elu_d(double x) { return x > 0 ? 1.5 * x : 0.75 * expm1(x); }
static float elu_f(float x) { return fxrt_elu(x, 0.5f, 1.5f); }
static double expm1_d(double x) { return expm1(x); }
static double tanh_d(double x) { return tanh(x); }
static double erf_d(double x) { return erf(x); }

/* ulp: the bound relative to the result. absolute: an error allowed besides, as a factor of float's epsilon, where the formula
 * PyTorch itself uses cancels. */
static const struct row {
    const char *name;
    float (*f)(float);
    double (*reference)(double);
    double ulp, absolute;
} rows[] = {
    { "exp", fxrt_exp, exp_d, 2, 0 },
    { "expm1", fxrt_expm1, expm1_d, 3, 0 },
    { "tanh", fxrt_tanh, tanh_d, 4, 0 },
    { "sigmoid", fxrt_sigmoid, sigmoid_d, 4, 1e-30 },
    { "silu", fxrt_silu, silu_d, 4, 1e-29 },
    { "erf", fxrt_erf, erf_d, 2, 0 },
    { "gelu", fxrt_gelu, gelu_d, 4, 3 },
    { "gelu_tanh", fxrt_gelu_tanh, gelu_tanh_d, 6, 3 },
    { "softplus", softplus_f, softplus_d, 3, 0 },
    { "mish", fxrt_mish, mish_d, 6, 1e-30 },
    { "elu", elu_f, elu_d, 4, 0 },
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static void check_at(const struct row *r, float x, double *worst)
{
    const double want = r->reference((double)x);
    const float got = r->f(x);
    if (fabs(want) > FLT_MAX) {
        ck_assert_msg(isinf(got) && (got > 0) == (want > 0), "%s(%.9g): expected infinity, got %.9g", r->name, (double)x, (double)got);
        return;
    }
    const double ulp = fmax(fabs(want) * FLT_EPSILON, 0x1p-149), error = fabs((double)got - want);
    const double over = fmax(0, error - r->absolute * FLT_EPSILON * fmin(fabs((double)x), 1)) / ulp;
    ck_assert_msg(over <= r->ulp, "%s(%.9g): expected %.9g, got %.9g", r->name, (double)x, want, (double)got);
    *worst = fmax(*worst, over);
}

START_TEST(accuracy)
{
    const struct row *r = &rows[_i];
    double worst = 0;
    for (double x = -105; x < 90; x += 0.00137)
        check_at(r, (float)x, &worst);
    for (double x = 1e-40; x < 1e4; x *= 1.0037) {
        check_at(r, (float)x, &worst);
        check_at(r, (float)-x, &worst);
    }
    check_at(r, 0.0f, &worst);
    if (getenv("FXCC_TEST_VERBOSE"))
        printf("%-10s %.2f ulp\n", r->name, worst);
}
END_TEST

START_TEST(special_values)
{
    for (int i = 0; i < N_ROWS; i++)
        ck_assert_msg(isnan(rows[i].f(NAN)), "%s(NaN)", rows[i].name);
    ck_assert(fxrt_exp(INFINITY) == INFINITY && fxrt_exp(-INFINITY) == 0 && fxrt_exp(-103.9f) >= 0);
    ck_assert(fxrt_exp(88.7f) < INFINITY && fxrt_exp(-88.0f) > 0 && fxrt_exp(-100.0f) > 0 && fxrt_exp(0) == 1);
    ck_assert(fxrt_tanh(INFINITY) == 1 && fxrt_tanh(-INFINITY) == -1 && signbit(fxrt_tanh(-0.0f)));
    ck_assert(fxrt_erf(INFINITY) == 1 && fxrt_erf(-INFINITY) == -1);
    ck_assert(fxrt_sigmoid(INFINITY) == 1 && fxrt_sigmoid(-INFINITY) == 0);
    ck_assert(isnan(fxrt_relu(NAN)) && signbit(fxrt_relu(-0.0f)) && fxrt_relu(-1) == 0 && fxrt_relu(INFINITY) == INFINITY);
    ck_assert(isnan(fxrt_max(NAN, 1)) && isnan(fxrt_max(1, NAN)) && isnan(fxrt_min(NAN, 1)) && isnan(fxrt_min(1, NAN)));
    ck_assert(isnan(fxrt_max_f64(NAN, 1)) && isnan(fxrt_min_f64(1, NAN)) && fxrt_max(2, 1) == 2 && fxrt_min(2, 1) == 1);
    ck_assert(isnan(fxrt_clamp(NAN, 0, 1)) && fxrt_clamp(3, 0, 1) == 1 && fxrt_clamp(-3, 0, 1) == 0);
    ck_assert(isnan(fxrt_leaky_relu(NAN, 0.1f)) && isnan(fxrt_hardswish(NAN)) && isnan(fxrt_hardsigmoid(NAN)));
    ck_assert(fxrt_remainder(-7, 3) == 2 && fxrt_remainder(7, -3) == -2 && fxrt_remainder(6, 3) == 0 && isnan(fxrt_remainder(1, 0)));
    ck_assert(fxrt_softplus(100, 1, 20) == 100 && fxrt_softplus(INFINITY, 1, 20) == INFINITY && fxrt_mish(INFINITY) == INFINITY);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, accuracy, 0, N_ROWS);
    tcase_add_test(t, special_values);
}

int main(void)
{
    return unit_run("kernels: scalar functions", 120, NULL, NULL, add_tests);
}
