/* tests/unit/test_reduce.c: reductions over the threads of a grid: their text, what the verifier and the prover say of wrong ones, what the interpreter
 * computes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "tests/unit/program_text.h"
#include "tests/unit/proving.h"

/* Each row less its sum, and the sums: a warp a row, two rows a block. */
static const char *const rows = HEAD("gpu")
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[6, 70]\n"
    "buffer y : output 0 f32[6, 70]\n"
    "buffer z : output 1 f32[6]\n"
    "input x \"x\" = x f32[6, 70]\n"
    "output y \"y\" = y f32[6, 70]\n"
    "output z \"z\" = z f32[6]\n"
    "\n"
    "step s {\n"
    "    for v0 in 6 grid y 2 \"row\" {\n"
    "        for v1 in 32 grid x 32 \"lane\" {\n"
    "            local t0 = 0.0:f32\n"
    "            for v2 in 3 \"k\" {\n"
    "                if -v1 - 32*v2 + 69 >= 0 {\n"
    "                    t0 = add.f32(t0:f32, x[70*v0 + v1 + 32*v2])\n"
    "                }\n"
    "            }\n"
    "            reduce t0 add\n"
    "            for v3 in 3 \"k\" {\n"
    "                if -v1 - 32*v3 + 69 >= 0 {\n"
    "                    y[70*v0 + v1 + 32*v3] = sub.f32(x[70*v0 + v1 + 32*v3], t0:f32)\n"
    "                }\n"
    "            }\n"
    "            if -v1 >= 0 {\n"
    "                z[v0] = t0:f32\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

/* What the verifier and the prover say; NULL: nothing. */
static const struct {
    const char *from, *to, *verifier, *prover;
} cases[] = {
    {"reduce t0 add", "reduce t0 max", NULL, NULL},
    {"reduce t0 add", "reduce t0 sub", "t0 is reduced by sub: expected add, mul, max, min, and, or", NULL},
    {"reduce t0 add", "reduce t0 and", "t0 of f32 cannot be reduced by and", NULL},
    {"reduce t0 add", "reduce t7 add", "t7 is reduced where it is not defined", "all iterations reduce t7, which is defined outside"},
    {"reduce t0 add", "local t1 = cast.f16(t0:f32)\n            reduce t1 add", "t1 of f16 cannot be reduced by add", NULL},
    {"reduce t0 add", "local t1 = cast.f16(t0:f32)\n            reduce t1 min", NULL, NULL},
    /* not all threads come to it, or not equally often */
    {"            reduce t0 add\n", "            if -v1 + 30 >= 0 {\n            reduce t0 add\n            }\n", "t0 is reduced inside a guard", "not all threads need reach"},
    {"                    t0 = add.f32(t0:f32, x[70*v0 + v1 + 32*v2])\n", "                    reduce t0 add\n", "t0 is reduced inside a guard", "not all threads need reach"},
    {"            reduce t0 add\n", "            for v9 in 3 {\n            reduce t0 add\n            }\n", NULL, NULL},
    /* not by all threads of a warp, or of a block */
    {"32 grid x 32", "32 grid x 64", "t0 is reduced over the grid loop v1: expected one along x over a block's threads", "loop v1 runs over others"},
    {"32 grid x 32", "48 grid x 48", "t0 is reduced over the grid loop v1: expected one along x over a block's threads", "iterations of v1 may meet"},
    {"32 grid x 32", "64 grid x 32", "t0 is reduced over the grid loop v1: expected one along x over a block's threads", "iterations of v1 may meet"},
    {"32 grid x 32", "16 grid x 16", "t0 is reduced over the grid loop v1: expected one along x over a block's threads", "loop v1 runs over others"},
    {"32 grid x 32", "32 grid z 32", "t0 is reduced over the grid loop v1: expected one along x over a block's threads", "loop v1 runs over others"},
    {"6 grid y 2 \"row\" {\n        for v1 in 32 grid x 32", "6 grid y 2 \"row\" {\n        for v1 in 64 grid x 64", "t0 is reduced over 64 threads of a block that has 2 times as many",
     "iterations of v1 may meet"},
    {"6 grid y 2 \"row\" {\n        for v1 in 32 grid x 32", "6 grid y 1 \"row\" {\n        for v1 in 32 grid x 32", NULL, NULL},
    {"for v0 in 6 grid y 2 \"row\" {\n        for v1 in 32 grid x 32", "for v0 in 6 \"row\" {\n        for v1 in 32", "t0 is reduced outside any grid loop", "a reduction of t0 outside a grid"},
    /* a local that all threads share */
    {"        for v1 in 32 grid x 32 \"lane\" {\n            local t0 = 0.0:f32\n", "        local t0 = 0.0:f32\n        for v1 in 32 grid x 32 \"lane\" {\n",
     "t0 is set by all iterations of a parallel loop", "all iterations set t0, which is defined outside"},
    /* it orders no accesses to memory */
    {"sub.f32(x[70*v0 + v1 + 32*v3], t0:f32)", "sub.f32(y[70*v0], t0:f32)", "the grid loop v1 loads elements of 'y' that other iterations store", "iterations of v1 may meet: the store to 'y'"},
    /* rows whose threads are guarded to be within them: one element more, and the rows meet; pass by pass, too */
    {"-v1 - 32*v3 + 69", "-v1 - 32*v3 + 70", "iterations of the grid loop v0 store to the same elements of 'y'", "iterations of v0 may meet: the store to 'y'"},
    {"                if -v1 - 32*v3 + 69 >= 0 {\n                    y[70*v0 + v1 + 32*v3] = sub.f32(x[70*v0 + v1 + 32*v3], t0:f32)",
     "                if -v1 - 32*v3 + 69 >= 0 {\n                    y[70*v0 + v1 + 32*v3] = t0:f32\n                }\n            }\n            for v4 in 3 \"k\" {\n"
     "                if -v1 - 32*v4 + 69 >= 0 {\n                    y[70*v0 + v1 + 32*v4] = mul.f32(y[70*v0 + v1 + 32*v4], t0:f32)", NULL, NULL},
    {"                if -v1 - 32*v3 + 69 >= 0 {\n                    y[70*v0 + v1 + 32*v3] = sub.f32(x[70*v0 + v1 + 32*v3], t0:f32)",
     "                if -v1 - 32*v3 + 69 >= 0 {\n                    y[70*v0 + v1 + 32*v3] = t0:f32\n                }\n            }\n            for v4 in 3 \"k\" {\n"
     "                if -v1 - 32*v4 + 69 >= 0 {\n                    y[70*v0 + v1 + 32*v4] = mul.f32(y[70*v0 - v1 - 32*v4 + 69], t0:f32)", "the grid loop v1 loads elements of 'y' that other iterations store",
     "iterations of v1 may meet"},
    /* results a row are one thread's */
    {"if -v1 >= 0 {\n                z", "if -v1 + 1 >= 0 {\n                z", "iterations of the grid loop v1 store to the same elements of 'z'", "iterations of v1 may meet: the store to 'z'"},
    {"if -v1 >= 0 {\n                z", "if -v0 >= 0 {\n                z", "iterations of the grid loop v1 store to the same elements of 'z'", "iterations of v1 may meet: the store to 'z'"},
};

START_TEST(judged)
{
    fx_text messages, printed;
    fx_program *p;
    proof_lines l;
    const char *text = replaced(rows, cases[_i].from, cases[_i].to);
    bool ok = verify_text(text, false, &messages, &p) == FX_OK;
    ck_assert_msg(ok == !cases[_i].verifier && (ok || strstr(messages.data, cases[_i].verifier)), "case %d, verifier: %.600s", _i, messages.data);
    const bool all = proved(text, &l);
    ck_assert_msg(all == !cases[_i].prover && (all || strstr(l.missing, cases[_i].prover)), "case %d, prover: %s", _i, l.missing);
    if (!ok)
        return;
    fx_text_init(&printed, fx_context_arena(ctx));
    fx_program_print(&printed, p);
    ck_assert_ptr_nonnull(strstr(printed.data, "reduce t"));
    ck_assert_int_eq(fx_program_parse(ctx, "again", printed.data, printed.size, &p), FX_OK);
    fx_text again;
    fx_text_init(&again, fx_context_arena(ctx));
    fx_program_print(&again, p);
    ck_assert_str_eq(again.data, printed.data);
}
END_TEST

/* The tree, by its definition: halves are combined element by element, then what that gives. */
static float tree(bool product, const float *v, int n)
{
    float half[512];
    if (n == 1)
        return v[0];
    for (int i = 0; i < n / 2; i++)
        half[i] = product ? v[i] * v[i + n / 2] : v[i] + v[i + n / 2];
    return tree(product, half, n / 2);
}

static float expected(bool product, const float *v, int n)
{
    float warps[32];
    for (int i = 0; i < n / 32; i++)
        warps[i] = tree(product, v + 32 * i, 32);
    return tree(product, warps, n / 32);
}

/* Bit for bit, from every thread. */
START_TEST(trees)
{
    const int n = 32 << _i;
    for (int product = 0; product < 2; product++) {
        const char *text = fx_arena_printf(fx_context_arena(ctx),
                                           HEAD("gpu") "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\nbuffer x : input 0 f32[3, %d]\nbuffer y : output 0 f32[3, %d]\n"
                                           "input x \"x\" = x f32[3, %d]\noutput y \"y\" = y f32[3, %d]\n\nstep s {\n    for v0 in 3 grid y 1 {\n        for v1 in %d grid x %d {\n"
                                           "            local t0 = x[%d*v0 + v1]\n            reduce t0 %s\n            y[%d*v0 + v1] = t0:f32\n        }\n    }\n}\n",
                                           n, n, n, n, n, n, n, product ? "mul" : "add", n);
        float *v = fx_arena_array(fx_context_arena(ctx), (size_t)(3 * n), sizeof *v);
        uint32_t noise = 12345 + (uint32_t)_i;
        for (int i = 0; i < 3 * n; i++) {
            noise = noise * 1664525u + 1013904223u;
            v[i] = product ? 1.0f + (float)(noise >> 8) * 0x1p-27f : (float)(int32_t)noise * 0x1p-20f;
        }
        fx_tensor x = {.dtype = FX_F32, .rank = 2, .sizes = {3, n}, .strides = {n, 1}, .data = v}, *out;
        fx_program *p;
        size_t n_out;
        ck_assert_msg(fx_program_parse(ctx, "t", text, strlen(text), &p) == FX_OK, "%s", unit_message(ctx));
        ck_assert_msg(fx_program_run(p, false, 1, &x, &n_out, &out) == FX_OK, "%s", unit_message(ctx));
        for (int row = 0; row < 3; row++) {
            const float want = expected(product, v + row * n, n);
            ck_assert(isfinite(want));
            for (int i = 0; i < n; i++)
                ck_assert_mem_eq((const float *)out[0].data + row * n + i, &want, sizeof want);
        }
    }
}
END_TEST

static void add(TCase *t)
{
    tcase_add_loop_test(t, judged, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(t, trees, 0, 6);
}

int main(void)
{
    return unit_run("reduce", 60, set_up, tear_down, add);
}
