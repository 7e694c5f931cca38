/* tests/unit/test_jit_llvm.c: machines without a libLLVM that serves: none, no library, one that is none, one that is too old. Each test is a
 * process of its own, in which nothing loaded LLVM before.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <glob.h>

#include "tests/unit/jit.h"

#define NEEDED "LLVM 16 to 19 is needed (Debian: apt install libllvm19"

/* Compiling with this library says so by status and message, again too, leaves no function and no memory behind; what needs no LLVM goes on. */
static void refuses(const char *library, const char *says)
{
    ck_assert_int_eq(setenv("FXCC_LLVM", library, 1), 0);
    unit_memory memory = {.fail_at = -1};
    fx_context *c = unit_context(&memory);
    fx_graph *g = unit_parse(c, JIT_SMALL);
    const char *data;
    size_t size, n;
    for (int again = 0; again < 3; again++) {
        fx_function *f = NULL;
        fx_diag_clear(c);
        fx_status status = again < 2 ? fx_jit_compile(g, &(fx_jit_options){.cache = ""}, &f) : fx_jit_emit(g, NULL, FX_JIT_OBJECT, &data, &size);
        ck_assert_int_eq(status, FX_ERR_UNSUPPORTED);
        ck_assert(f == NULL);
        ck_assert_msg(strstr(unit_message(c), says) && strstr(unit_message(c), NEEDED), "%s", unit_message(c));
    }
    fx_tensor in[2] = {jit_tensor(c, FX_F32, 2, (int64_t[]){3, 4}, 1), jit_tensor(c, FX_F32, 1, (int64_t[]){4}, 2)}, *out;
    ck_assert_int_eq(fx_graph_interpret(g, 2, in, &n, &out), FX_OK);
    fx_context_free(c);
    ck_assert_int_eq(memory.live, 0);
}

START_TEST(no_library)
{
    refuses("/nonexistent.so", "/nonexistent.so: cannot open shared object file");
}
END_TEST

START_TEST(a_file_that_is_none)
{
    refuses(__FILE__, "names a file that is no library to load");
}
END_TEST

START_TEST(another_library)
{
    refuses("libm.so.6", "libm.so.6 is no libLLVM: ");
}
END_TEST

/* One before 16, where one is installed: Debian's lie in /usr/lib/TRIPLE. */
START_TEST(an_old_one)
{
    static const int versions[] = {11, 13, 14, 15};
    char pattern[80], says[40];
    glob_t found;
    snprintf(pattern, sizeof pattern, "/usr/lib/*/libLLVM-%d.so.1", versions[_i]);
    if (glob(pattern, 0, NULL, &found) != 0) {
        printf("an_old_one: LLVM %d is not installed\n", versions[_i]);
        return;
    }
    snprintf(says, sizeof says, "is LLVM %d: ", versions[_i]);
    refuses(found.gl_pathv[0], says);
    globfree(&found);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, no_library);
    tcase_add_test(t, a_file_that_is_none);
    tcase_add_test(t, another_library);
    tcase_add_loop_test(t, an_old_one, 0, 4);
}

int main(void)
{
    return unit_run("jit_llvm", 60, NULL, NULL, add);
}
