/* tests/unit/test_codegen_cuda.c: loop programs of blocks and threads, as texts, to CUDA: what they are spelt as, and what is refused.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "codegen/codegen.h"
#include "tests/unit/program_text.h"

#define BUFFERS \
    HEAD("gpu") \
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n" \
    "buffer x : input 0 f32[64, 32]\n" \
    "buffer y : output 0 f32[32, 64]\n" \
    "buffer z : output 1 f32[2]\n" \
    "buffer tile : local f32[32, 33]\n" \
    "buffer own : local f32[4]\n" \
    "input x \"x\" = x f32[64, 32]\n" \
    "output y \"y\" = y f32[32, 64]\n" \
    "output z \"z\" = z f32[2]\n\n"

/* A tile a block: threads read rows and write columns, four each; then some of them add up what there is. */
static const char *const tiles = BUFFERS
    "step s {\n"
    "    for v0 in 2 block x \"row\" {\n"
    "        array tile\n"
    "        local t0 = 2.0:f32\n"
    "        for v1 in 8 thread y {\n"
    "            for v2 in 32 thread x {\n"
    "                for v3 in 4 {\n"
    "                    tile[33*v1 + v2 + 264*v3] = mul.f32(t0:f32, x[1024*v0 + 32*v1 + v2 + 256*v3])\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "        for v4 in 2 {\n"
    "            for v5 in 8 thread y {\n"
    "                for v6 in 32 thread x {\n"
    "                    array own\n"
    "                    for v7 in 4 {\n"
    "                        own[v7] = tile[v5 + 33*v6 + 8*v7]\n"
    "                    }\n"
    "                    for v8 in 4 {\n"
    "                        y[32*v0 + 64*v5 + v6 + 512*v8] = own[v8]\n"
    "                    }\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "        for v9 in 1 thread x {\n"
    "            z[v0] = tile[0]\n"
    "        }\n"
    "    }\n"
    "}\n";

static const char *const spelt =
    "static __global__ void net_s(const float *__restrict__ x, float *__restrict__ y, float *__restrict__ z)\n"
    "{\n"
    "    const int row = blockIdx.x;\n"
    "    const int tx = threadIdx.x;\n"
    "    const int ty = threadIdx.y;\n"
    "    __shared__ float tile[1056];\n"
    "    const float v = 2.0f;\n"
    "    for (int i = 0; i < 4; i++) {\n"
    "        tile[i * 264 + ty * 33 + tx] = v * x[row * 1024 + i * 256 + ty * 32 + tx];\n"
    "    }\n"
    "    __syncthreads();\n"
    "    for (int i = 0; i < 2; i++) {\n"
    "        float own[4];\n"
    "        for (int j = 0; j < 4; j++) {\n"
    "            own[j] = tile[tx * 33 + j * 8 + ty];\n"
    "        }\n"
    "        for (int j = 0; j < 4; j++) {\n"
    "            y[j * 512 + ty * 64 + row * 32 + tx] = own[j];\n"
    "        }\n"
    "        __syncthreads();\n"
    "    }\n"
    "    if (tx == 0 && ty == 0) {\n"
    "        z[row] = tile[0];\n"
    "    }\n"
    "}\n";

/* Nests of one launch: each takes its blocks of the grid, whatever their axes. */
static const char *const nests = BUFFERS
    "step s {\n"
    "    for v0 in 5 grid z 1 {\n"
    "        for v1 in 8 grid y 3 {\n"
    "            for v2 in 32 grid x 32 \"w\" {\n"
    "                y[256*v0 + 32*v1 + v2] = x[v2]\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    for v5 in 0 grid y 3 beside {\n"
    "        for v6 in 32 grid x 32 {\n"
    "            y[v6] = 0.0:f32\n"
    "        }\n"
    "    }\n"
    "    for v3 in 2 grid y 3 beside {\n"
    "        for v4 in 384 grid x 32 {\n"
    "            y[384*v3 + v4 + 1280] = 1.0:f32\n"
    "        }\n"
    "    }\n"
    "    for v7 in 2 grid x 32 {\n"
    "        z[v7] = 0.0:f32\n"
    "    }\n"
    "}\n";

static const char *const nests_spelt =
    "static __global__ void net_s(const float *__restrict__ x, float *__restrict__ y)\n"
    "{\n"
    "    int block = blockIdx.x;\n"
    "    if (block < 15) {\n"
    "        const int z = block / 3;\n"
    "        const int y2 = block % 3 * 3 + threadIdx.y;\n"
    "        const int w = threadIdx.x;\n"
    "        if (y2 >= 8)\n"
    "            return;\n"
    "        y[z * 256 + y2 * 32 + w] = x[w];\n"
    "        return;\n"
    "    }\n"
    "    block -= 15;\n"
    "    const int y2 = threadIdx.y;\n"
    "    const int x2 = block * 32 + threadIdx.x;\n"
    "    if (y2 >= 2)\n"
    "        return;\n"
    "    y[y2 * 384 + x2 + 1280] = 1.0f;\n"
    "}\n";

/* Rows of open size: what counts them is an int where all that is reckoned with it fits. */
static const char *const open = HEAD("gpu")
    "symbol s0 in [1, 53687091]\n"
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[s0, 40]\n"
    "buffer y : output 0 f32[s0, 40]\n"
    "input x \"x\" = x f32[s0, 40]\n"
    "output y \"y\" = y f32[s0, 40]\n\n"
    "step s {\n"
    "    for v0 in s0 grid y 4 {\n"
    "        for v1 in 40 grid x 40 {\n"
    "            y[40*v0 + v1] = x[40*v0 + v1]\n"
    "        }\n"
    "    }\n"
    "}\n";

static const struct {
    const char *range, *head, *row;
} widths[] = {
    {"[1, 53687090]", "net_s(int s0, ", "const int y2 = blockIdx.y * 4 + threadIdx.y;"},
    {"[1, 53687091]", "net_s(ptrdiff_t s0, ", "const ptrdiff_t y2 = (ptrdiff_t)blockIdx.y * 4 + threadIdx.y;"},
    {"[1, inf]", "net_s(ptrdiff_t s0, ", "const ptrdiff_t y2 = (ptrdiff_t)blockIdx.y * 4 + threadIdx.y;"},
};

static const struct {
    const char *from, *to, *there, *refused; /* there: in the source */
} cases[] = {
    {"step s", "step s", "NET_LAUNCH(net_s, dim3(2), dim3(32, 8), x, y, z);", NULL},
    {"for v9 in 1 thread x {\n", "for v9 in 1 thread z {\n", "if (tx == 0 && ty == 0) {", NULL},
    /* a barrier of the program's own ends the loop */
    {"            }\n        }\n        for v4", "                barrier\n            }\n        }\n        for v4", "    }\n    __syncthreads();\n    for (int i = 0; i < 2; i++) {\n", NULL},
    {"for v9 in 1 thread x {\n            z[v0] = tile[0]", "for v9 in 1 thread x {\n            barrier\n            z[v0] = tile[0]", NULL, "step 's': a barrier that not all threads of the block reach"},
    {"in 8 thread y {\n            for v2", "in 40 thread y {\n            for v2", NULL, "expected a block of 1 to 1024 threads, 1 to 64 along z, got 32 x 40 x 1"},
    {"in 1 thread x", "in 65 thread z", NULL, "expected a block of 1 to 1024 threads, 1 to 64 along z, got 32 x 8 x 65"},
    {"f32[32, 33]\n", "f32[32, 385]\n", NULL, "step 's': expected at most 49152 bytes of shared memory in a block, which every device has, got 49280"},
    {"        for v9 in 1 thread x {\n            z[v0] = tile[0]\n        }\n", "        z[v0] = tile[0]\n", NULL, "step 's': a statement outside the loops over threads is not for all of them"},
    {"        for v4", "        local t1 = tile[0]\n        for v4", NULL, "step 's': a value outside the loops over threads is read from what they store to"},
    {"                    array own\n", "                }\n                for v10 in 3 thread z {\n                    array own\n", NULL, "a loop over threads is not all of what is inside another one"},
    {"for v4 in 2 {", "for v4 in 2 block y {", NULL, "step 's': a loop of blocks is not all of what is inside another one"},
    {"    for v0 in 2 block x \"row\" {", "    z[0] = 0.0:f32\n    for v0 in 2 block x \"row\" {", NULL, "step 's': a statement outside a loop over a grid or blocks"},
};

static const char *source(const char *text, fx_status *st)
{
    fx_program *p;
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = "net"};
    fx_diag_clear(ctx);
    ck_assert_msg(fx_program_parse(ctx, "t", text, strlen(text), &p) == FX_OK, "%s\n%s", unit_message(ctx), text);
    *st = fx_emit_cuda(p, &o, &n, &files);
    for (size_t i = 0; *st == FX_OK && i < n; i++)
        if (strcmp(files[i].name, "net.cu") == 0)
            return fx_arena_printf(fx_context_arena(ctx), "%.*s", (int)files[i].size, fx_file_data(fx_context_arena(ctx), &files[i]));
    return unit_message(ctx);
}

START_TEST(blocks)
{
    fx_status st;
    const char *got = source(replaced(tiles, cases[_i].from, cases[_i].to), &st);
    ck_assert_msg((st == FX_OK) == !cases[_i].refused, "case %d: %s", _i, got);
    const char *want = cases[_i].refused ? cases[_i].refused : cases[_i].there;
    bool there = strstr(got, want) != NULL;
    if (!there)
        fprintf(stderr, "%s\n", got); /* longer than Check's messages */
    ck_assert_msg(there, "case %d: expected '%s'", _i, want);
}
END_TEST

/* The first kernel of the program, and a launch. */
static void spells(const char *text, const char *kernel, const char *launch)
{
    fx_status st;
    fx_text messages;
    fx_program *p;
    ck_assert_msg(verify_text(text, false, &messages, &p) == FX_OK, "%s", messages.data);
    const char *got = source(text, &st), *at = strstr(got, "static __global__");
    ck_assert_int_eq(st, FX_OK);
    ck_assert_ptr_nonnull(at);
    ck_assert_str_eq(fx_arena_printf(fx_context_arena(ctx), "%.*s", (int)strlen(kernel), at), kernel);
    ck_assert_msg(strstr(got, launch) != NULL, "no %s", launch);
}

START_TEST(whole_kernels)
{
    spells(tiles, spelt, "NET_LAUNCH(net_s, dim3(2), dim3(32, 8), x, y, z);");
    spells(replaced(nests, "for v7 in 2 grid x 32 {\n        z[v7] = 0.0:f32", "for v7 in 1 grid y 4 {\n        z[0] = 0.0:f32\n        z[1] = 0.0:f32"), nests_spelt,
           "    if (threadIdx.y > 0)\n        return;\n    z[0] = 0.0f;\n");
    spells(nests, nests_spelt, "NET_LAUNCH(net_s, dim3(27), dim3(32, 3), x, y);");
}
END_TEST

START_TEST(index_widths)
{
    fx_status st;
    const char *got = source(replaced(open, "[1, 53687091]", widths[_i].range), &st);
    ck_assert_msg(st == FX_OK, "%s", got);
    ck_assert_msg(strstr(got, widths[_i].head) != NULL, "no '%s'", widths[_i].head);
    ck_assert_msg(strstr(got, widths[_i].row) != NULL, "no '%s'", widths[_i].row);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_loop_test(t, index_widths, 0, sizeof widths / sizeof *widths);
    tcase_add_test(t, whole_kernels);
    tcase_add_loop_test(t, blocks, 0, sizeof cases / sizeof *cases);
}

int main(void)
{
    return unit_run("codegen_cuda", 60, set_up, tear_down, add);
}
