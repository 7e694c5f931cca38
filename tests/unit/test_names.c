/* tests/unit/test_names.c: codegen/names.c: whatever a model calls things, generated files stay valid.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "codegen/names.h"
#include "tests/unit/unit.h"

static fx_context *ctx;
static fx_arena *arena;

static void setup(void)
{
    ctx = fx_context_create();
    arena = fx_arena_create(ctx);
}

static void teardown(void)
{
    fx_context_free(ctx);
}

static const char *ident(const char *text)
{
    static char out[FX_IDENT_MAX + 1];
    fx_ident(out, text, FX_IDENT_MAX, "v");
    return out;
}

START_TEST(identifiers)
{
    ck_assert_str_eq(ident("layer1.0.conv1"), "layer1_0_conv1");
    ck_assert_str_eq(ident("a/b"), "a_b");
    ck_assert_str_eq(ident("__a__b__"), "a_b");
    ck_assert_str_eq(ident("1x1"), "n1x1");
    ck_assert_str_eq(ident(""), "v");
    ck_assert_str_eq(ident("*/"), "v");
    ck_assert_str_eq(ident("\xc3\xa9t\xc3\xa9"), "t");
    ck_assert_str_eq(ident("int"), "int_v");
    ck_assert_str_eq(ident("exp"), "exp_v");
    ck_assert_str_eq(ident("main"), "main_v");
    ck_assert_str_eq(ident("NULL"), "NULL_v");
    ck_assert_str_eq(ident("class"), "class_v");
    ck_assert_str_eq(ident("INT32_MAX"), "INT32_MAX_v");
    ck_assert_str_eq(ident("conv2d"), "conv2d");
    ck_assert_str_eq(ident("relu"), "relu");
}
END_TEST

/* Whatever comes in: a valid, unreserved identifier of bounded length. */
static void check_valid(const char *s, int max)
{
    size_t n = strlen(s);
    ck_assert_uint_ge(n, 1);
    ck_assert_uint_le(n, (size_t)max);
    ck_assert_uint_eq(strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"), n);
    ck_assert_msg(s[0] < '0' || s[0] > '9', "%s", s);
    ck_assert_msg(!fx_ident_reserved(s), "%s", s);
}

START_TEST(any_bytes)
{
    uint32_t seed = 12345;
    fx_names names;
    fx_names_init(&names, arena, NULL);
    for (int i = 0; i < 20000; i++) {
        char text[100], out[FX_IDENT_MAX + 1];
        int n = (int)(seed >> 8) % 99;
        for (int k = 0; k < n; k++) {
            seed = seed * 1664525u + 1013904223u;
            static const char likely[] = "_t_ _x0fF9.v";
            text[k] = seed >> 30 ? likely[seed >> 8 & 7] : (char)(1 + (seed >> 12) % 255);
        }
        seed = seed * 1664525u + 1013904223u;
        text[n] = 0;
        int max = 8 + (int)(seed >> 10) % (FX_IDENT_MAX - 7);
        fx_ident(out, text, max, "v");
        check_valid(out, max);
        check_valid(fx_names_make(&names, text, max, "v"), max);
    }
}
END_TEST

START_TEST(reserved_words_are_avoided)
{
    static const char *const words[] = {
        "auto", "_Bool", "restrict", "typeof", "alignas", "bool", "constexpr", "nullptr", "and", "xor_eq", "NAN", "INFINITY", "EOF", "errno",
        "stdin", "linux", "unix", "i386", "sinf", "fabsf", "memcpy", "printf", "y0", "j1", "index", "gamma", "int8_t", "size_t", "foo_t",
        "FLT_MAX", "UINT64_MAX", "M_PI", "vaddq_f32", "fxrt_conv2d", "FXRT_NR", "_x", "a__b", "abort", "ynl", "BUFSIZ",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ck_assert_msg(fx_ident_reserved(words[i]), "%s", words[i]);
        check_valid(ident(words[i]), FX_IDENT_MAX);
    }
    ck_assert(!fx_ident_reserved("conv1"));
    ck_assert(!fx_ident_reserved("features_0"));
    ck_assert(fx_header_reserved("math"));
    ck_assert(fx_header_reserved("string"));
    ck_assert(!fx_header_reserved("resnet18"));
}
END_TEST

START_TEST(names_are_unique)
{
    fx_names file, inner;
    fx_names_init(&file, arena, NULL);
    fx_names_init(&inner, arena, &file);
    ck_assert_str_eq(fx_names_make(&file, "conv", 63, "v"), "conv");
    ck_assert_str_eq(fx_names_make(&file, "conv", 63, "v"), "conv2");
    ck_assert_str_eq(fx_names_make(&file, "conv1", 63, "v"), "conv1");
    ck_assert_str_eq(fx_names_make(&file, "conv1", 63, "v"), "conv1_2");
    ck_assert_str_eq(fx_names_make(&inner, "conv", 63, "v"), "conv3");
    ck_assert_str_eq(fx_names_make(&inner, "a/b", 63, "v"), "a_b");
    ck_assert_str_eq(fx_names_make(&inner, "a.b", 63, "v"), "a_b2");
    fx_names_take(&file, "w");
    ck_assert(fx_names_has(&inner, "w"));
    ck_assert(!fx_names_has(&file, "a_b"));

    /* A thousand names of 10,000 characters that differ at the end only. */
    char *text = malloc(10001);
    memset(text, 'x', 10000);
    text[10000] = 0;
    fx_names set;
    fx_names_init(&set, arena, NULL);
    for (int i = 0; i < 1000; i++) {
        memcpy(text + 9990, fx_arena_printf(arena, "%010d", i), 10);
        const char *s = fx_names_make(&set, text, FX_IDENT_MAX, "v");
        check_valid(s, FX_IDENT_MAX);
    }
    ck_assert_uint_eq(set.n, 1000);
    free(text);
}
END_TEST

static const char *comment(const char *s)
{
    fx_text t;
    fx_text_init(&t, arena);
    fx_put_comment(&t, s, 60);
    return t.data ? t.data : "";
}

START_TEST(comments)
{
    ck_assert_str_eq(comment("layer1.0: conv2d 3x3, relu"), "layer1.0: conv2d 3x3, relu");
    ck_assert_str_eq(comment("a */ b"), "a * / b");
    ck_assert_str_eq(comment("a /* b"), "a / * b");
    ck_assert_str_eq(comment("a // b"), "a / / b");
    ck_assert_str_eq(comment("ends *"), "ends * ");
    ck_assert_str_eq(comment("a\nb\r\n#define x"), "a b #define x");
    ck_assert_str_eq(comment("back\\\nslash"), "back/ slash");
    ck_assert_str_eq(comment("*\\"), "* / ");
    ck_assert_str_eq(comment("what?" "?/"), "what? ?/ ");
    ck_assert_str_eq(comment("\xc3\xa9"), "<U+00E9>");
    ck_assert_str_eq(comment("\xe2\x80\xae"), "<U+202E>");
    ck_assert_str_eq(comment("\xff\xfe"), "<U+00FF><U+00FE>");
    ck_assert_str_eq(comment("\xf0\x9f\x98\x80"), "<U+1F600>");
    ck_assert_str_eq(comment("\xe2\x80"), "<U+00E2><U+0080>"); /* cut short: no read past the end */
    ck_assert_str_eq(comment(NULL), "");
    char longest[200];
    memset(longest, 'x', 199);
    longest[199] = 0;
    ck_assert_uint_eq(strlen(comment(longest)), 64); /* 60 and " ..." */
}
END_TEST

START_TEST(strings)
{
    fx_text t;
    fx_text_init(&t, arena);
    fx_put_c_string(&t, "a\"b\\c\n%d?" "?/\xc3", 60);
    ck_assert_str_eq(t.data, "\"a\\042b\\134c\\012\\045d\\077\\077/\\303\"");
    ck_assert_str_eq(fx_upper(arena, "net_1x"), "NET_1X");
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, identifiers);
    tcase_add_test(t, any_bytes);
    tcase_add_test(t, reserved_words_are_avoided);
    tcase_add_test(t, names_are_unique);
    tcase_add_test(t, comments);
    tcase_add_test(t, strings);
}

int main(void)
{
    return unit_run("names", 60, setup, teardown, add_tests);
}
