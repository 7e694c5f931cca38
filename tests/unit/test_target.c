/* tests/unit/test_target.c: target presets and the file form.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <unistd.h>

#include "ir/ir.h"
#include "tests/unit/unit.h"

static fx_context *ctx;
static char path[] = "/tmp/fxcc_target_XXXXXX";

static void set_up(void)
{
    ctx = fx_context_create();
    strcpy(path, "/tmp/fxcc_target_XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void tear_down(void)
{
    remove(path);
    fx_context_free(ctx);
}

static fx_status from_text(const char *text, size_t n, fx_target *out)
{
    FILE *f = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(text, 1, n, f), n);
    fclose(f);
    return fx_target_get(ctx, path, out);
}

static const char *const presets[] = {"generic", "x86_64-avx2", "x86_64-avx512", "aarch64", "cortex-m4"};

START_TEST(presets_print_and_read_back)
{
    fx_target a, b;
    fx_text t, u;
    ck_assert_int_eq(fx_target_get(ctx, presets[_i], &a), FX_OK);
    ck_assert_str_eq(a.name, presets[_i]);
    ck_assert_int_eq(a.nr % a.lanes, 0);
    fx_text_init(&t, fx_context_arena(ctx));
    fx_target_print(&t, &a);
    ck_assert_int_eq(from_text(t.data, t.size, &b), FX_OK);
    fx_text_init(&u, fx_context_arena(ctx));
    fx_target_print(&u, &b);
    ck_assert_str_eq(t.data, u.data);
    ck_assert_int_eq(a.mr, b.mr);
    ck_assert_int_eq(a.l2, b.l2);
    ck_assert_int_eq(a.fma, b.fma);
    ck_assert_str_eq(a.cflags, b.cflags);
}
END_TEST

START_TEST(native_is_a_concrete_preset)
{
    fx_target t, u;
    ck_assert_int_eq(fx_target_get(ctx, "native", &t), FX_OK);
    ck_assert_int_eq(fx_target_get(ctx, t.name, &u), FX_OK);
    ck_assert_int_eq(t.lanes, u.lanes);
    ck_assert_str_ne(t.name, "native");
    ck_assert_int_eq(fx_target_get(ctx, NULL, &u), FX_OK);
    ck_assert_str_eq(t.name, u.name);
}
END_TEST

START_TEST(files_need_only_what_differs)
{
    fx_target t;
    const char *text = "# a board\n\nname = my-board  # it\n  lanes=4\r\nnr = 8\n cflags = -mcpu=foo -DX=1\nfma = true";
    ck_assert_int_eq(from_text(text, strlen(text), &t), FX_OK);
    ck_assert_str_eq(t.name, "my-board");
    ck_assert_str_eq(t.cflags, "-mcpu=foo -DX=1");
    ck_assert_int_eq(t.lanes, 4);
    ck_assert_int_eq(t.nr, 8);
    ck_assert(t.fma);
    ck_assert_int_eq(t.l1, 32768);
    ck_assert_uint_eq(t.lacks, 0);
}
END_TEST

START_TEST(types_that_exist)
{
    fx_target t, u;
    fx_text printed;
    const char *text = "name = small\ntypes = f32,  i32,i64 ,bool,u8\n";
    ck_assert_int_eq(from_text(text, strlen(text), &t), FX_OK);
    for (int d = 0; d < FX_DTYPE_COUNT; d++)
        ck_assert_int_eq(t.lacks >> d & 1, d != FX_F32 && d != FX_I32 && d != FX_I64 && d != FX_BOOL && d != FX_U8);
    fx_text_init(&printed, fx_context_arena(ctx));
    fx_target_print(&printed, &t);
    ck_assert_ptr_nonnull(strstr(printed.data, "types = f32, i32, i64, u8, bool\n"));
    ck_assert_int_eq(from_text(printed.data, printed.size, &u), FX_OK);
    ck_assert_uint_eq(t.lacks, u.lacks);
}
END_TEST

static const struct {
    const char *text, *says;
} mistakes[] = {
    {"lanes = 4\nnr = 8\n", "expected a line 'name = ...'"},
    {"name = a\nlanes = four\n", "line 2: lanes: expected a number from 1 to 64, got 'four'"},
    {"name = a\nlanes = 65\n", "line 2: lanes: expected a number from 1 to 64, got '65'"},
    {"name = a\nlanes = 99999999999999999999\n", "line 2: lanes: expected a number from 1 to 64"},
    {"name = a\nlanes = -1\n", "line 2: lanes: expected a number from 1 to 64, got '-1'"},
    {"name = a\nlanes =\n", "line 2: lanes: expected a number from 1 to 64, got ''"},
    {"name = a\nlanes = 3\n", "lanes: expected a power of two, got 3"},
    {"name = a\nlanes = 4\nnr = 6\n", "nr: expected a multiple of lanes (4), got 6"},
    {"name = a\nfma = yes\n", "line 2: fma: expected true or false, got 'yes'"},
    {"name = a\nname = b\n", "line 2: name is given twice"},
    {"name = a\nwhat\n", "line 2: expected key = value, got 'what'"},
    {"name = a\nspeed = 3\n", "line 2: unknown key 'speed'"},
    {"name = a\ntypes = f32, f8\n", "line 2: types: expected all, or dtypes with commas between, as f32, i32, i64, bool, got 'f32, f8'"},
    {"name = a\ntypes = \n", "line 2: types: expected all"},
    {"name = a b\n", "line 1: name: expected letters, digits"},
    {"name = a\ncflags = -O2; rm -rf /\n", "line 2: cflags: expected compiler flags without"},
    {"name = a\ncflags = $(reboot)\n", "line 2: cflags: expected compiler flags without"},
    {"name = a\npointer_bits = 48\n", "pointer_bits: expected 16, 32 or 64, got 48"},
    {"name = a\nl1 = 8192\nl2 = 4096\n", "l2: expected at least l1 (8192), got 4096"},
};

START_TEST(mistakes_name_line_and_key)
{
    fx_target t = {.lanes = -7};
    ck_assert_int_eq(from_text(mistakes[_i].text, strlen(mistakes[_i].text), &t), FX_ERR_FORMAT);
    ck_assert_msg(strstr(fx_diag_get(ctx, 0)->message, mistakes[_i].says) != NULL, "expected '%s', got '%s'", mistakes[_i].says,
                  fx_diag_get(ctx, 0)->message);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->file, path);
    ck_assert_int_eq(t.lanes, -7);
}
END_TEST

START_TEST(no_file_and_no_sense)
{
    fx_target t;
    ck_assert_int_eq(fx_target_get(ctx, "/nowhere/x", &t), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 0)->message, "expected a target (generic"));
    char *big = malloc(70000);
    memset(big, '#', 70000);
    ck_assert_int_eq(from_text(big, 70000, &t), FX_ERR_FORMAT);
    memset(big, 0, 70000);
    ck_assert_int_eq(from_text(big, 100, &t), FX_ERR_FORMAT);
    free(big);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, presets_print_and_read_back, 0, (int)(sizeof presets / sizeof presets[0]));
    tcase_add_test(t, native_is_a_concrete_preset);
    tcase_add_test(t, files_need_only_what_differs);
    tcase_add_test(t, types_that_exist);
    tcase_add_loop_test(t, mistakes_name_line_and_key, 0, (int)(sizeof mistakes / sizeof mistakes[0]));
    tcase_add_test(t, no_file_and_no_sense);
}

int main(void)
{
    return unit_run("target", 0, set_up, tear_down, add_tests);
}
