/* Kernels as bitcode: at level 2 small calls are of copies, which compute what libfxrt's kernels do, to the bit.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "fxcc/jit.h"
#include "ir/ops.h"
#include "tests/unit/unit.h"

/* A convolution of each of these: whole tiles, a rest, few channels, many; padded, strided, grouped; then relu, a pool, softmax. */
static const struct row {
    int channels, size, outputs, kernel, stride, pad, groups;
} rows[] = {{3, 9, 5, 3, 1, 1, 1}, {16, 12, 32, 1, 1, 0, 1}, {8, 16, 40, 3, 2, 1, 1}, {6, 10, 6, 3, 1, 1, 6}, {4, 7, 8, 5, 1, 2, 2}, {1, 24, 1, 7, 3, 3, 1}};
enum { N = sizeof rows / sizeof rows[0] };

static fx_context *ctx;

static void setup(void)
{
    ctx = fx_context_create();
}

static void teardown(void)
{
    fx_context_free(ctx);
}

static int out_size(const struct row *r)
{
    return (r->size + 2 * r->pad - r->kernel) / r->stride + 1;
}

/* A tensor of small numbers, all different, which round when summed. */
static fx_tensor number(int rank, const int64_t *sizes, int64_t seed)
{
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, rank, sizes, &t), FX_OK);
    for (int64_t k = 0; k < fx_tensor_numel(&t); k++)
        ((float *)t.data)[k] = (float)((k * 37 + seed * 11) % 101 - 50) / 64.0f + (float)k * 1e-5f;
    return t;
}

static fx_graph *graph(const struct row *r)
{
    char text[2000];
    int n = out_size(r), p = n / 2, per_group = r->channels / r->groups;
    snprintf(text, sizeof text,
             "graph \"net\" imported\nparameter w : f32[%d, %d, %d, %d] = all 1.0\nparameter b : f32[%d] = all 1.0\n\n%%x : f32[2, %d, %d, %d] = placeholder[x]\n"
             "%%w : f32[%d, %d, %d, %d] = get_attr[w]\n%%b : f32[%d] = get_attr[b]\n"
             "%%c : f32[2, %d, %d, %d] = call_function[aten.convolution.default](%%x, %%w, %%b, [%d, %d], [%d, %d], [1, 1], False, [0, 0], %d)\n"
             "%%r : f32[2, %d, %d, %d] = call_function[aten.relu.default](%%c)\n"
             "%%m : f32[2, %d, %d, %d] = call_function[aten.max_pool2d.default](%%r, [2, 2], [2, 2])\n"
             "%%s : f32[2, %d, %d, %d] = call_function[aten._softmax.default](%%m, 1, False)\noutput((%%s, %%r,))\n",
             r->outputs, per_group, r->kernel, r->kernel, r->outputs, r->channels, r->size, r->size, r->outputs, per_group, r->kernel, r->kernel, r->outputs,
             r->outputs, n, n, r->stride, r->stride, r->pad,
             r->pad, r->groups, r->outputs, n, n, r->outputs, p, p, r->outputs, p, p);
    fx_graph *g = unit_parse(ctx, text);
    fx_tensor w = number(4, (int64_t[]){r->outputs, per_group, r->kernel, r->kernel}, 3), b = number(1, (int64_t[]){r->outputs}, 5);
    ck_assert_int_eq(fx_graph_set_parameter(g, "w", &w), FX_OK);
    ck_assert_int_eq(fx_graph_set_parameter(g, "b", &b), FX_OK);
    ck_assert_int_eq(fx_graph_complete(g), FX_OK);
    return g;
}

static void run(fx_graph *g, int level, int threads, fx_tensor out[2])
{
    fx_jit_options o = {.level = level, .threads = threads, .cache = ""};
    fx_function *f;
    fx_tensor in;
    char error[512] = "";
    ck_assert_int_eq(fx_jit_compile(g, &o, &f), FX_OK);
    in = number(4, fx_function_input(f, 0)->min, 1);
    ck_assert_int_eq(fx_function_outputs(f, 1, &in, 2, out, error, sizeof error), FX_OK);
    for (size_t i = 0; i < 2; i++) {
        const fx_tensor t = out[i];
        ck_assert_int_eq(fx_tensor_create(ctx, t.dtype, t.rank, t.sizes, &out[i]), FX_OK);
    }
    ck_assert_msg(fx_function_call(f, 1, &in, 2, out, error, sizeof error) == FX_OK, "%s", error);
    fx_function_free(f);
}

START_TEST(copies_compute_the_same)
{
    fx_graph *g = graph(&rows[_i]);
    fx_tensor plain[2], copied[2];
    run(g, 1, 1, plain);
    for (int threads = 1; threads <= 4; threads += 3)
        for (int level = 2; level <= 3; level++) {
            run(g, level, threads, copied);
            for (size_t i = 0; i < 2; i++)
                ck_assert_msg(memcmp(plain[i].data, copied[i].data, (size_t)fx_tensor_numel(&plain[i]) * 4) == 0, "output %zu differs at level %d", i, level);
        }
}
END_TEST

/* What an object still asks libfxrt for. */
static bool asks_for(fx_graph *g, int level, int threads, const char *kernel)
{
    fx_jit_options o = {.level = level, .threads = threads};
    const char *data;
    size_t size;
    ck_assert_int_eq(fx_jit_emit(g, &o, FX_JIT_ASM, &data, &size), FX_OK);
    for (const char *at = data; (at = strstr(at, "fxrt_")); at++) { /* fxrt_ISA_KERNEL */
        const char *name = at + 5 + strspn(at + 5, "abcdefghijklmnopqrstuvwxyz0123456789");
        if (*name == '_' && strncmp(name + 1, kernel, strlen(kernel)) == 0)
            return true;
    }
    return false;
}

START_TEST(small_calls_have_copies)
{
#ifdef FXCC_BITCODE
    bool have = !getenv("FXCC_LLVM"); /* of another version perhaps */
#else
    bool have = false;
#endif
    if (!have)
        printf("kernels are not built as bitcode, or not for this LLVM: calls stay calls\n");
    fx_graph *small = graph(&rows[0]), *large = graph(&(struct row){64, 40, 64, 3, 1, 1, 1});
    ck_assert(asks_for(small, 1, 1, "conv2d"));
    ck_assert_int_eq(asks_for(small, 2, 1, "max_pool2d"), !have);
    ck_assert_int_eq(asks_for(small, 2, 1, "conv2d"), !have);
    ck_assert_int_eq(asks_for(small, 2, 8, "max_pool2d"), !have);
    ck_assert(asks_for(large, 2, 8, "conv2d")); /* spreads over threads */
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, copies_compute_the_same, 0, N);
    tcase_add_test(t, small_calls_have_copies);
}

int main(void)
{
#ifdef FXCC_HAS_JIT
    return unit_run("jit_bitcode", 300, setup, teardown, add_tests);
#else
    (void)setup;
    (void)teardown;
    (void)add_tests;
    puts("skipped: built without LLVM's headers, so nothing is compiled in memory");
    return 0;
#endif
}
