/* tests/unit/test_jit_absent.c: an fxcc that was built without LLVM's headers: jit/absent.c stands in for what compiles, here before the library's own.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "jit/absent.c"
#include "tests/unit/fixture.h"
#include "tests/unit/jit.h"

static const char *const says = "this fxcc was built without LLVM's headers (Debian: llvm-19-dev), so it compiles nothing in memory";

START_TEST(compiling_says_what_is_missing)
{
    fx_graph *g = unit_parse(ctx, JIT_SMALL);
    fx_function *f = NULL;
    ck_assert_int_eq(fx_jit_compile(g, NULL, &f), FX_ERR_UNSUPPORTED);
    ck_assert(f == NULL);
    ck_assert_str_eq(unit_message(ctx), says);
    for (int form = FX_JIT_LLVM_IR; form <= FX_JIT_OBJECT; form++) {
        const char *data = NULL;
        size_t size;
        fx_diag_clear(ctx);
        ck_assert_int_eq(fx_jit_emit(g, NULL, (fx_jit_form)form, &data, &size), FX_ERR_UNSUPPORTED);
        ck_assert(data == NULL);
        ck_assert_str_eq(unit_message(ctx), says);
    }
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, compiling_says_what_is_missing);
}

int main(void)
{
    return unit_run("jit_absent", 60, set_up, tear_down, add);
}
