/* tests/unit/test_grid.c: loops over a grid and aligned loops: their text, and what the verifier says of wrong ones.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/unit/program_text.h"

static const char *const pieces = HEAD("gpu")
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[6, 32]\n"
    "buffer z : input 1 f32[6]\n"
    "buffer y : output 0 f32[6, 32]\n"
    "input x \"x\" = x f32[6, 32]\n"
    "input z \"z\" = z f32[6]\n"
    "output y \"y\" = y f32[6, 32]\n"
    "\n"
    "step s {\n"
    "    for v0 in 6 grid y 2 \"n\" {\n"
    "        for v1 in 8 grid x 8 {\n"
    "            for v2 in 4 vector aligned \"k\" {\n"
    "                y[32*v0 + 4*v1 + v2] = add.f32(x[32*v0 + 4*v1 + v2], z[v0])\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

/* Two nests of one launch, the halves of a concatenation. */
static const char *const halves = HEAD("gpu")
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[6, 32]\n"
    "buffer y : output 0 f32[6, 64]\n"
    "input x \"x\" = x f32[6, 32]\n"
    "output y \"y\" = y f32[6, 64]\n"
    "\n"
    "step s {\n"
    "    for v0 in 6 grid y 2 {\n"
    "        for v1 in 32 grid x 16 {\n"
    "            y[64*v0 + v1] = x[32*v0 + v1]\n"
    "        }\n"
    "    }\n"
    "    for v2 in 6 grid y 2 beside {\n"
    "        for v3 in 32 grid x 16 {\n"
    "            y[64*v2 + v3 + 32] = x[32*v2 + v3]\n"
    "        }\n"
    "    }\n"
    "}\n";

/* The same of any number of rows. */
static const char *const open_halves = HEAD("gpu")
    "symbol s0 in [0, 1000]\n"
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[s0, 5]\n"
    "buffer y : output 0 f32[s0, 8]\n"
    "input x \"x\" = x f32[s0, 5]\n"
    "output y \"y\" = y f32[s0, 8]\n"
    "\n"
    "step s {\n"
    "    for v0 in s0 grid y 2 {\n"
    "        for v1 in 5 grid x 16 {\n"
    "            y[8*v0 + v1] = x[5*v0 + v1]\n"
    "        }\n"
    "    }\n"
    "    for v2 in s0 grid y 2 beside {\n"
    "        for v3 in 3 grid x 16 {\n"
    "            y[8*v2 + v3 + 5] = x[5*v2 + v3]\n"
    "        }\n"
    "    }\n"
    "}\n";

typedef struct damage {
    const char *from, *to, *says; /* NULL: it is right */
} damage;

static const damage beside_cases[] = {
    {"step s", "step s", NULL},
    {"v3 + 32]", "v3 + 31]", "the grid loops v0 and v2 are of one launch, but meet at elements of 'y'"},
    {"y 2 beside", "y 2", NULL},
    {"= x[32*v2 + v3]", "= y[64*v2 + v3]", "the grid loops v0 and v2 are of one launch, but meet at elements of 'y'"},
    {"y 2 beside", "y 3 beside", "the grid loops v0 and v2 are of one launch, but their blocks have 2 and 3 threads along y"},
    {"for v3 in 32 grid x 16", "for v3 in 32", "the grid loops v0 and v2 are of one launch, but their blocks have 16 and 1 threads along x"},
    {"y 2 {", "y 2 beside {", "the loop v0 is beside another one: expected two outermost grid loops"},
    {"    for v2 in 6", "    y[383] = 0.0:f32\n    for v2 in 6", "the loop v2 is beside another one: expected two outermost grid loops"},
};

static const damage open_cases[] = {
    {"step s", "step s", NULL},
    {"v3 + 5]", "v3 + 4]", "the grid loops v0 and v2 are of one launch, but meet at elements of 'y'"},
};

static const damage cases[] = {
    {"grid y 2", "grid y 2", NULL},
    {"grid y 2", "grid x 2", "the grid loops v0 and v1 are of one axis, where blocks have threads"},
    {"grid y 2 \"n\" {\n        for v1 in 8 grid x 8", "grid x 1 \"n\" {\n        for v1 in 8 grid x 1", NULL},
    {"grid y 2", "grid y 256", "the grid loop v1: expected blocks of 1 to 1024 threads, 1 to 64 along z, got 8, with the loops around 2048"},
    {"grid y 2", "grid z 128", "the grid loop v0: expected blocks of 1 to 1024 threads, 1 to 64 along z, got 128"},
    {"for v0 in 6 grid y 2", "for v0 in 6 parallel", "the grid loop v1 is not all that is inside v0"},
    {"        for v1 in 8 grid", "        local t0 = 0.0:f32\n        for v1 in 8 grid", "the grid loop v1 is not all that is inside v0"},
    {"for v2 in 4 vector aligned", "for v2 in 4 parallel", "the parallel loop v2 is inside a grid loop"},
    {"for v2 in 4 vector aligned", "for v2 in 4 vector", "the vector loop v2 is inside a grid loop"},
    {"for v2 in 4 vector aligned", "for v2 in 4", NULL},
    {"for v2 in 4 vector aligned", "for v2 in 3 vector aligned", "the aligned loop v2: expected a vector loop over a power of two inside a grid"},
    {"for v2 in 4 vector aligned", "for v2 in 8 vector aligned", "expected at most 16 bytes of a buffer, got 8 elements of f32"},
    {"y[32*v0 + 4*v1 + v2] =", "y[32*v0 + v1 + 8*v2] =", "the aligned loop v2: stores to 'y' are not of neighbours"},
    {"add.f32(x[32*v0 + 4*v1 + v2]", "add.f32(x[31*v0 + 4*v1 + v2]", "the aligned loop v2: loads of 'x' do not begin at multiples of 4"},
    {"add.f32(x[32*v0 + 4*v1 + v2]", "add.f32(x[24*v0 + 4*v1 + v2 + 1]", "the aligned loop v2: loads of 'x' do not begin at multiples of 4"},
    {"add.f32(x[32*v0 + 4*v1 + v2]", "add.f32(y[32*v0 + 4*v1 + v2]", "the aligned loop v2 stores to 'y', which it loads"},
    {"y[32*v0 + 4*v1 + v2] =", "y[4*v1 + v2] =", "iterations of the grid loop v0 store to the same elements of 'y'"},
};

static void judge(const char *whole, const damage *d)
{
    fx_text messages, printed;
    fx_program *p;
    const char *text = replaced(whole, d->from, d->to);
    fx_status st = verify_text(text, false, &messages, &p);
    if (d->says) {
        ck_assert_int_eq(st, FX_INTERNAL);
        ck_assert_msg(strstr(messages.data, d->says) != NULL, "expected '%s', got:\n%s", d->says, messages.data);
        return;
    }
    ck_assert_msg(st == FX_OK, "%s", messages.data);
    fx_text_init(&printed, fx_context_arena(ctx));
    fx_program_print(&printed, p);
    ck_assert_str_eq(printed.data, text);
}

START_TEST(grids)
{
    judge(pieces, &cases[_i]);
}
END_TEST

START_TEST(beside)
{
    judge(halves, &beside_cases[_i]);
}
END_TEST

START_TEST(beside_open)
{
    judge(open_halves, &open_cases[_i]);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_loop_test(t, grids, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(t, beside, 0, sizeof beside_cases / sizeof *beside_cases);
    tcase_add_loop_test(t, beside_open, 0, sizeof open_cases / sizeof *open_cases);
}

int main(void)
{
    return unit_run("grid", 60, set_up, tear_down, add);
}
