/* tests/unit/test_oom_cuda.c: memory runs out while a model becomes CUDA sources with their check: an error is told, nothing leaks, no file is left.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <unistd.h>

#include "fxcc/compile.h"
#include "tests/unit/unit.h"

/* State, an index that is checked, a product, an open size, loops. */
static const char *const model =
    "graph \"g\" imported\nsymbol s0 in [1, 9]\nmodule \"\" : M\nbuffer seen : f32[8] = all 0.5\nparameter table : f32[7, 8] = all 0.25\n"
    "parameter w : f32[4, 8] = all 0.125\n\n"
    "%i : i64[s0] = placeholder[i]\n%seen : f32[8] = get_attr[seen]\n%table : f32[7, 8] = get_attr[table]\n%w : f32[4, 8] = get_attr[w]\n"
    "%e : f32[s0, 8] = call_function[aten.embedding.default](%table, %i)\n%a : f32[s0, 8] = call_function[aten.add.Tensor](%e, %seen)\n"
    "%y : f32[s0, 4] = call_function[aten.linear.default](%a, %w)\n%t : f32[8] = call_function[aten.mul.Tensor](%seen, 2)\n"
    "%c : f32[8] = call_function[aten.copy_.default](%seen, %t)\noutput((%y))\n";

static char dir[] = "/tmp/fxcc-oom-cuda-XXXXXX";

static const char *file(const char *name)
{
    static char path[sizeof dir + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Whether the compile had fewer allocations than fail_at. */
static bool compiles(long fail_at, bool apart)
{
    static const char *const files[] = {"net.h", "net.cu", "net.bin", "net_check.cu", "Makefile", "CMakeLists.txt"};
    const fx_compile_options options = {.target = "cuda", .prefix = "net", .arch = "80,90", .check = true, .disable = "pays"}; /* its last steps are a region of two streams */
    unit_memory m = {.fail_at = -1};
    fx_context *ctx = apart ? unit_context_apart(&m) : unit_context(&m);
    fx_graph *g;
    ck_assert_msg(fx_graph_parse(ctx, "t", model, strlen(model), &g) == FX_OK && fx_graph_complete(g) == FX_OK, "%s", unit_message(ctx));
    fx_diag_clear(ctx);
    m.n = 0;
    m.fail_at = fail_at;
    const fx_status status = fx_compile(g, &options, dir, NULL);
    const bool ran_out = unit_ran_out(&m);
    ck_assert_msg(status == (ran_out ? FX_ERR_NOMEM : FX_OK), "allocation %ld: %d '%s'", fail_at, status, unit_message(ctx));
    ck_assert_msg(!ran_out || fx_diag_get(ctx, fx_diag_count(ctx) - 1)->status == FX_ERR_NOMEM, "allocation %ld: no message that memory ran out", fail_at);
    fx_context_free(ctx);
    ck_assert_msg(m.live == 0, "allocation %ld: %ld are not freed", fail_at, m.live);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ck_assert_msg((access(file(files[i]), F_OK) == 0) == !ran_out, "allocation %ld: %s", fail_at, files[i]);
        (void)unlink(file(files[i]));
    }
    (void)rmdir(dir);
    return !ran_out;
}

START_TEST(every_allocation)
{
    long n = 0;
    while (!compiles(n, false))
        n++;
    ck_assert_int_gt(n, 10);
}
END_TEST

/* Every piece of memory by itself: every few. */
START_TEST(every_piece)
{
    long n = 0;
    while (!compiles(n, true))
        n += 1 + n / 200;
    ck_assert_int_gt(n, 2000);
}
END_TEST

static void set_up(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
    (void)rmdir(dir);
}

static void add(TCase *t)
{
    tcase_add_test(t, every_allocation);
    tcase_add_test(t, every_piece);
}

int main(void)
{
    return unit_run("oom_cuda", 120, set_up, tear_down, add);
}
