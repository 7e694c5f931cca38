/* tests/unit/test_types.c: interned strings, literals, numbers, symbolic integers, types, argument templates.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "tests/unit/fixture.h"

START_TEST(equal_text_is_one_pointer)
{
    const char *first[2000];
    for (int i = 0; i < 2000; i++)
        first[i] = fx_intern_f(ctx, "name_%d", i);
    for (int i = 0; i < 2000; i++) {
        char buf[32];
        snprintf(buf, sizeof buf, "name_%d", i);
        ck_assert_str_eq(first[i], buf);
        ck_assert_ptr_eq(fx_intern(ctx, buf), first[i]);
        ck_assert_ptr_eq(fx_intern_n(ctx, "name_17xyz", 7), first[17]);
    }
    ck_assert_str_eq(fx_intern_n(ctx, NULL, 0), "");
    ck_assert_ptr_eq(fx_intern_n(ctx, "a\0b", 3), fx_intern(ctx, "a"));
}
END_TEST

static const char *shown(double v)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_put_double(&t, v);
    return t.data;
}

START_TEST(doubles_print_shortest_and_read_back)
{
    ck_assert_str_eq(shown(0.1), "0.1");
    ck_assert_str_eq(shown(1), "1.0");
    ck_assert_str_eq(shown(-0.0), "-0.0");
    ck_assert_str_eq(shown(1e-5), "1e-05");
    ck_assert_str_eq(shown(1e300), "1e+300");
    ck_assert_str_eq(shown(5e-324), "5e-324");
    ck_assert_str_eq(shown(1.0 / 3), "0.3333333333333333");
    ck_assert_str_eq(shown(0.1 + 0.2), "0.30000000000000004");
    ck_assert_str_eq(shown(INFINITY), "inf");
    ck_assert_str_eq(shown(-INFINITY), "-inf");
    ck_assert_str_eq(shown(NAN), "nan");
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++) {
        double v;
        const char *after;
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        memcpy(&v, &state, sizeof v);
        if (isnan(v))
            continue;
        const char *s = shown(v);
        double back = fx_parse_double(s, &after);
        ck_assert_mem_eq(&back, &v, sizeof v);
        ck_assert_int_eq(*after, 0);
    }
}
END_TEST

START_TEST(numbers_are_read_to_their_end)
{
    const char *after, *s;
    ck_assert(fx_parse_double(s = "12.5e+1x", &after) == 125 && after == s + 7);
    ck_assert(fx_parse_double(s = "-.5]", &after) == -0.5 && after == s + 3);
    ck_assert(fx_parse_double(s = "7ex", &after) == 7 && after == s + 1);
    ck_assert(fx_parse_double(s = "1e-999999999999999", &after) == 0 && *after == 0);
    ck_assert(isinf(fx_parse_double(s = "1e99999", &after)) && *after == 0);
    ck_assert(isnan(fx_parse_double(s = "-nan", &after)) && *after == 0);
    fx_parse_double(s = "0x10", &after);
    ck_assert_ptr_eq(after, s + 1);
    fx_parse_double(s = "e5", &after);
    ck_assert_ptr_eq(after, s);
    fx_parse_double(s = "", &after);
    ck_assert_ptr_eq(after, s);
    char digits[2000];
    memset(digits, '9', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    fx_parse_double(digits, &after);
    ck_assert_ptr_eq(after, digits);
}
END_TEST

START_TEST(literals_escape_and_read_back)
{
    static const char *const cases[][2] = {
        {"plain", "\"plain\""},
        {"a\"b\\c\nd\re\tf", "\"a\\\"b\\\\c\\nd\\re\\tf\""},
        {"\x01\x1F\x7F", "\"\\001\\037\\177\""},
        {"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "\"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\""},
        {"\xC3", "\"\\303\""},
        {"\xC0\x80\xED\xA0\x80", "\"\\300\\200\\355\\240\\200\""},
        {"\x01" "7", "\"\\0017\""},
        {"", "\"\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_text t;
        fx_text_init(&t, fx_context_arena(ctx));
        fx_put_quoted(&t, cases[i][0]);
        ck_assert_str_eq(t.data, cases[i][1]);
        const char *after;
        ck_assert_str_eq(fx_parse_quoted(ctx, t.data, t.data + t.size, &after), cases[i][0]);
        ck_assert_ptr_eq(after, t.data + t.size);
    }
    const char *after;
    static const char *const bad[] = {"", "x", "\"", "\"abc", "\"\\\"", "\"\\q\"", "\"\\x\"", "\"\\000\"", "\"\\u12\"", "\"\\ud800\"", "\"\\777\"", "\"\\"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_ptr_null(fx_parse_quoted(ctx, bad[i], bad[i] + strlen(bad[i]), &after));
    const char *u = "\"\\u00e9\\x41\\u20AC\\/\" tail";
    ck_assert_str_eq(fx_parse_quoted(ctx, u, u + strlen(u), &after), "\xC3\xA9" "A\xE2\x82\xAC/");
    ck_assert_str_eq(after, " tail");
}
END_TEST

START_TEST(texts_grow)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    for (int i = 0; i < 1000; i++)
        fx_printf(&t, "%d,", i % 10);
    fx_printf(&t, "%0300d", 1);
    ck_assert_uint_eq(t.size, 2300);
    ck_assert_uint_eq(strlen(t.data), 2300);
    ck_assert(strncmp(t.data + 1990, "5,6,7,8,9,000", 13) == 0);
}
END_TEST

/* ---- symbolic integers ---- */

static const fx_sym *num(int64_t v)
{
    return fx_sym_int(ctx, v);
}

static const fx_sym *op(fx_sym_kind kind, const fx_sym *a, const fx_sym *b)
{
    const fx_sym *args[] = {a, b};
    return fx_sym_make(ctx, kind, 2, args);
}

#define assert_sym(s, text)                           \
    do {                                              \
        fx_text t_;                                   \
        fx_text_init(&t_, fx_context_arena(ctx));     \
        fx_sym_print(&t_, s);                         \
        ck_assert_str_eq(t_.data, text);              \
    } while (0)

START_TEST(symbols_are_canonical)
{
    const fx_sym *a = fx_sym_symbol(ctx, "s1"), *b = fx_sym_symbol(ctx, "s27");
    ck_assert_ptr_eq(op(FX_SYM_ADD, a, b), op(FX_SYM_ADD, b, a));
    ck_assert_ptr_eq(op(FX_SYM_MUL, a, b), op(FX_SYM_MUL, b, a));
    ck_assert_ptr_eq(op(FX_SYM_ADD, op(FX_SYM_ADD, a, num(3)), num(-3)), a);
    ck_assert_ptr_eq(op(FX_SYM_ADD, a, a), op(FX_SYM_MUL, num(2), a));
    ck_assert_ptr_eq(op(FX_SYM_ADD, a, op(FX_SYM_MUL, num(-1), a)), num(0));
    ck_assert_ptr_eq(op(FX_SYM_MUL, op(FX_SYM_ADD, a, num(1)), num(2)), op(FX_SYM_ADD, op(FX_SYM_MUL, num(2), a), num(2)));
    ck_assert_ptr_eq(op(FX_SYM_MUL, a, num(0)), num(0));
    ck_assert_ptr_eq(op(FX_SYM_MUL, a, num(1)), a);
    ck_assert_ptr_eq(op(FX_SYM_FLOORDIV, a, num(1)), a);
    ck_assert_ptr_eq(op(FX_SYM_FLOORDIV, num(-7), num(2)), num(-4));
    ck_assert_ptr_eq(op(FX_SYM_CEILDIV, num(-7), num(2)), num(-3));
    ck_assert_ptr_eq(op(FX_SYM_CEILDIV, num(7), num(2)), num(4));
    ck_assert_ptr_eq(op(FX_SYM_MOD, num(-7), num(3)), num(2));
    ck_assert_ptr_eq(op(FX_SYM_MOD, num(7), num(-3)), num(-2));
    ck_assert_ptr_eq(op(FX_SYM_POW, num(3), num(4)), num(81));
    ck_assert_ptr_eq(op(FX_SYM_MAX, num(3), op(FX_SYM_MAX, a, num(5))), op(FX_SYM_MAX, a, num(5)));
    ck_assert_ptr_eq(op(FX_SYM_MIN, a, a), a);
    assert_sym(op(FX_SYM_ADD, op(FX_SYM_MUL, b, num(2)), num(1)), "2*s27 + 1");
    assert_sym(op(FX_SYM_ADD, b, op(FX_SYM_MUL, a, num(-3))), "s27 - 3*s1");
    assert_sym(op(FX_SYM_ADD, b, num(-1)), "s27 - 1");
    assert_sym(op(FX_SYM_MUL, num(-1), b), "-s27");
    assert_sym(op(FX_SYM_FLOORDIV, op(FX_SYM_ADD, b, num(-1)), num(2)), "(s27 - 1)//2");
    assert_sym(op(FX_SYM_ADD, op(FX_SYM_FLOORDIV, b, num(2)), num(1)), "s27//2 + 1");
    assert_sym(op(FX_SYM_FLOORDIV, b, op(FX_SYM_MUL, num(2), a)), "s27//(2*s1)");
    assert_sym(op(FX_SYM_MUL, op(FX_SYM_ADD, a, num(1)), op(FX_SYM_FLOORDIV, b, a)), "(s1 + 1)*(s27//s1)");
    assert_sym(op(FX_SYM_POW, op(FX_SYM_POW, a, num(2)), b), "(s1**2)**s27");
    assert_sym(op(FX_SYM_MAX, num(1), b), "Max(s27, 1)");
}
END_TEST

START_TEST(overflow_and_division_by_zero_are_opaque)
{
    ck_assert_int_eq(op(FX_SYM_ADD, num(INT64_MAX), num(1))->kind, FX_SYM_OPAQUE);
    ck_assert_int_eq(op(FX_SYM_MUL, num(INT64_MIN), num(-1))->kind, FX_SYM_OPAQUE);
    ck_assert_int_eq(op(FX_SYM_FLOORDIV, num(INT64_MIN), num(-1))->kind, FX_SYM_OPAQUE);
    ck_assert_int_eq(op(FX_SYM_MOD, num(1), num(0))->kind, FX_SYM_OPAQUE);
    ck_assert_int_eq(op(FX_SYM_POW, num(2), num(63))->kind, FX_SYM_OPAQUE);
    ck_assert_int_eq(op(FX_SYM_POW, num(2), num(-1))->kind, FX_SYM_OPAQUE);
    const fx_sym *a = fx_sym_symbol(ctx, "s1");
    ck_assert_int_eq(op(FX_SYM_MUL, op(FX_SYM_ADD, a, num(INT64_MAX)), num(2))->kind, FX_SYM_OPAQUE);
    ck_assert_int_eq(op(FX_SYM_ADD, op(FX_SYM_MUL, a, num(INT64_MAX)), a)->kind, FX_SYM_OPAQUE);
    assert_sym(op(FX_SYM_MOD, num(1), num(0)), "1%0");
}
END_TEST

/* ---- types ---- */

START_TEST(types_are_interned)
{
    const int64_t sizes[] = {1, 3, 32, 32};
    const fx_type *t = fx_type_tensor_static(ctx, FX_F32, 4, sizes);
    const fx_dim dims[] = {{.value = 1}, {.sym = num(3)}, {.value = 32}, {.value = 32}}, other[] = {{.value = 1}, {0}, {0}, {0}};
    ck_assert_ptr_eq(fx_type_tensor(ctx, FX_F32, 4, dims, NULL), t);
    ck_assert_ptr_ne(fx_type_tensor(ctx, FX_F32, 4, dims, other), t);
    ck_assert_ptr_ne(fx_type_tensor(ctx, FX_F64, 4, dims, NULL), t);
    ck_assert(fx_type_same_shape(fx_type_tensor(ctx, FX_F64, 4, dims, other), t));
    ck_assert_int_eq(fx_type_numel(t), 3072);
    ck_assert(fx_type_is_static(t));
    const fx_dim sym[] = {{.sym = fx_sym_symbol(ctx, "s0")}, {.value = 4}};
    const fx_type *d = fx_type_tensor(ctx, FX_I64, 2, sym, NULL);
    ck_assert(!fx_type_is_static(d));
    const fx_type *scalar = fx_type_tensor_static(ctx, FX_BOOL, 0, NULL);
    ck_assert_ptr_eq(scalar, fx_type_tensor_static(ctx, FX_BOOL, 0, NULL));
    ck_assert_int_eq(fx_type_numel(scalar), 1);
    const fx_type *items[] = {t, d, fx_type_scalar(ctx, FX_TYPE_NONE), fx_type_int(ctx, sym[0])};
    const fx_type *tuple = fx_type_tuple(ctx, 4, items);
    ck_assert_ptr_eq(fx_type_tuple(ctx, 4, items), tuple);
    fx_text text;
    fx_text_init(&text, fx_context_arena(ctx));
    fx_type_print(&text, tuple);
    ck_assert_str_eq(text.data, "(f32[1, 3, 32, 32], i64[s0, 4], None, int(s0))");
    fx_text_init(&text, fx_context_arena(ctx));
    fx_type_print(&text, fx_type_tuple(ctx, 1, &scalar));
    ck_assert_str_eq(text.data, "(bool[],)");
    ck_assert_int_eq(fx_type_scalar(ctx, FX_TYPE_TENSOR + 3)->kind, FX_TYPE_FLOAT);
}
END_TEST

START_TEST(dtypes_have_names_and_sizes)
{
    ck_assert_str_eq(fx_dtype_name(FX_BF16), "bfloat16");
    ck_assert_uint_eq(fx_dtype_size(FX_C128), 16);
    ck_assert(fx_dtype_is_float(FX_F16) && !fx_dtype_is_float(FX_I32) && !fx_dtype_is_float(FX_C64));
    ck_assert_str_eq(fx_dtype_name((fx_dtype)99), "unknown dtype");
    ck_assert_uint_eq(fx_dtype_size((fx_dtype)99), 0);
}
END_TEST

/* ---- argument templates ---- */

START_TEST(arguments_are_interned)
{
    ck_assert_ptr_eq(fx_arg_float(ctx, NAN), fx_arg_float(ctx, NAN));
    ck_assert_ptr_ne(fx_arg_float(ctx, 0.0), fx_arg_float(ctx, -0.0));
    ck_assert_ptr_ne(fx_arg_int(ctx, 1), fx_arg_bool(ctx, true));
    ck_assert_ptr_ne(fx_arg_int(ctx, 1), fx_arg_operand(ctx, 1));
    ck_assert_ptr_ne(fx_arg_text(ctx, FX_ARG_STR, "cpu"), fx_arg_text(ctx, FX_ARG_DEVICE, "cpu"));
    ck_assert_ptr_eq(fx_arg_sym(ctx, num(5)), fx_arg_int(ctx, 5));
    const fx_arg *items[] = {fx_arg_int(ctx, 1), fx_arg_none(ctx), fx_arg_operand(ctx, 0)};
    ck_assert_ptr_eq(fx_arg_seq(ctx, FX_ARG_LIST, 3, items), fx_arg_seq(ctx, FX_ARG_LIST, 3, items));
    ck_assert_ptr_ne(fx_arg_seq(ctx, FX_ARG_LIST, 3, items), fx_arg_seq(ctx, FX_ARG_TUPLE, 3, items));
    ck_assert_ptr_ne(fx_arg_seq(ctx, FX_ARG_LIST, 3, items), fx_arg_seq(ctx, FX_ARG_LIST, 2, items));
    char key[] = "a";
    const char *keys[] = {key, "b", "c"}, *same[] = {"a", "b", "c"}, *others[] = {"a", "b", "d"};
    const fx_arg *dict = fx_arg_dict(ctx, 3, keys, items);
    ck_assert_ptr_eq(fx_arg_dict(ctx, 3, same, items), dict);
    ck_assert_ptr_ne(fx_arg_dict(ctx, 3, others, items), dict);
    ck_assert_ptr_eq(fx_arg_dict(ctx, 0, NULL, NULL), fx_arg_dict(ctx, 0, keys, items));
    int64_t many[100];
    for (int i = 0; i < 100; i++)
        many[i] = i;
    const fx_arg *list = fx_arg_ints(ctx, 100, many);
    ck_assert_int_eq(list->n, 100);
    ck_assert_int_eq(list->items[99]->i, 99);
}
END_TEST

static const fx_arg *plus_one(void *user, const fx_arg *leaf)
{
    return leaf->kind == FX_ARG_INT ? fx_arg_int(user, leaf->i + 1) : leaf;
}

START_TEST(arguments_are_mapped)
{
    const fx_arg *in[] = {fx_arg_int(ctx, 1), fx_arg_none(ctx)}, *out[] = {fx_arg_int(ctx, 2), fx_arg_none(ctx)};
    const fx_arg *list = fx_arg_seq(ctx, FX_ARG_LIST, 2, in);
    const char *key = "k";
    const fx_arg *dict = fx_arg_dict(ctx, 1, &key, &list);
    const fx_arg *expected = fx_arg_seq(ctx, FX_ARG_LIST, 2, out);
    ck_assert_ptr_eq(fx_arg_map(ctx, dict, plus_one, ctx), fx_arg_dict(ctx, 1, &key, &expected));
    const fx_arg *nothing = fx_arg_seq(ctx, FX_ARG_SLICE, 1, &in[1]);
    ck_assert_ptr_eq(fx_arg_map(ctx, nothing, plus_one, ctx), nothing);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, equal_text_is_one_pointer);
    tcase_add_test(t, doubles_print_shortest_and_read_back);
    tcase_add_test(t, numbers_are_read_to_their_end);
    tcase_add_test(t, literals_escape_and_read_back);
    tcase_add_test(t, texts_grow);
    tcase_add_test(t, symbols_are_canonical);
    tcase_add_test(t, overflow_and_division_by_zero_are_opaque);
    tcase_add_test(t, types_are_interned);
    tcase_add_test(t, dtypes_have_names_and_sizes);
    tcase_add_test(t, arguments_are_interned);
    tcase_add_test(t, arguments_are_mapped);
}

int main(void)
{
    return unit_run("types", 120, set_up, tear_down, add_tests);
}
