/* tests/unit/test_dim.c: arithmetic and proofs on dimensions: what must be proved, and by brute force that nothing false is.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/unit/fixture.h"

static const fx_sym_range ranges[] = {{"b", 1, 6}, {"s", 0, 7}, {"h", 3, INT64_MAX}};
static const fx_symbols symbols = {3, ranges};

static fx_dim sym(const char *name)
{
    return fx_dim_sym(fx_sym_symbol(ctx, name));
}

static fx_dim n(int64_t v)
{
    return fx_dim_of(v);
}

static fx_dim add(fx_dim a, fx_dim b)
{
    return fx_dim_add(ctx, a, b);
}

static fx_dim mul(fx_dim a, fx_dim b)
{
    return fx_dim_mul(ctx, a, b);
}

START_TEST(sizes_of_indices_are_proved)
{
    fx_dim b = sym("b"), s = sym("s"), h = sym("h");
    /* The last element of b rows of 768 lies inside; one more does not. */
    fx_dim last = add(mul(add(b, n(-1)), n(768)), n(767)), all = mul(b, n(768));
    ck_assert(fx_dim_le(ctx, symbols, add(last, n(1)), all));
    ck_assert(!fx_dim_le(ctx, symbols, add(last, n(2)), all));
    /* Products of two symbols: (b - 1)*h + h - 1 < b*h. */
    ck_assert(fx_dim_le(ctx, symbols, add(mul(add(b, n(-1)), h), h), mul(b, h)));
    ck_assert(fx_dim_at_least(ctx, symbols, mul(s, h), 0));
    ck_assert(!fx_dim_at_least(ctx, symbols, mul(s, h), 1));
    ck_assert(fx_dim_at_least(ctx, symbols, mul(b, h), 3));
    ck_assert(fx_dim_at_least(ctx, symbols, fx_dim_sub(ctx, n(7), s), 0));
    ck_assert(!fx_dim_at_least(ctx, symbols, fx_dim_sub(ctx, n(6), s), 0));
    /* Windows 3 wide and 2 apart over h + 2: the last ends inside. */
    fx_dim windows = add(fx_dim_floordiv(ctx, add(h, n(-1)), n(2)), n(1));
    fx_dim end = add(mul(add(windows, n(-1)), n(2)), n(3));
    ck_assert(fx_dim_le(ctx, symbols, end, add(h, n(2))));
    ck_assert(!fx_dim_le(ctx, symbols, end, add(h, n(1))));
    /* Every fourth of every second: 2 * (h // 4) <= h // 2. */
    ck_assert(fx_dim_le(ctx, symbols, mul(fx_dim_floordiv(ctx, h, n(4)), n(2)), fx_dim_floordiv(ctx, h, n(2))));
    ck_assert(!fx_dim_le(ctx, symbols, mul(fx_dim_floordiv(ctx, h, n(4)), n(3)), fx_dim_floordiv(ctx, h, n(2))));
    /* Whole pieces of 32 and what is left of h: within it, and apart. */
    fx_dim whole = mul(fx_dim_floordiv(ctx, h, n(32)), n(32)), left = fx_dim_mod(ctx, h, n(32));
    ck_assert(fx_dim_le(ctx, symbols, add(whole, left), h));
    ck_assert(fx_dim_le(ctx, symbols, left, h));
    ck_assert(!fx_dim_le(ctx, symbols, add(left, n(1)), h));
    ck_assert(fx_dim_le(ctx, symbols, fx_dim_max(ctx, s, n(3)), n(7)));
}
END_TEST

static fx_dim quotient(fx_dim a, int64_t by)
{
    return fx_dim_floordiv(ctx, a, n(by));
}

static fx_dim least_of(fx_dim a, int64_t b)
{
    const fx_sym *args[2] = {a.sym, fx_sym_int(ctx, b)};
    return fx_dim_sym(fx_sym_make(ctx, FX_SYM_MIN, 2, args));
}

static bool le(fx_dim a, fx_dim b)
{
    return fx_dim_le(ctx, symbols, a, b);
}

/* What takes cases: residues of a divisor, parts of a range; h has no end. */
START_TEST(cases_are_taken_apart)
{
    fx_dim b = sym("b"), h = sym("h"), square = mul(h, h);
    for (int k = 0; k < 2; k++) { /* pieces of 64 with the rest reach as far as pieces of 32 */
        fx_dim x = k ? square : h, coarse = add(mul(n(64), quotient(x, 64)), fx_dim_mod(ctx, x, n(64)));
        ck_assert(le(mul(n(32), quotient(x, 32)), coarse));
        ck_assert(le(coarse, x) && le(x, coarse));
        ck_assert(!le(add(mul(n(32), quotient(x, 32)), n(1)), coarse));
    }
    /* the last start of a slice with a step that a minimum ends */
    fx_dim last = add(mul(n(3), quotient(add(least_of(h, 9), n(2)), 3)), n(-3));
    ck_assert(le(last, add(h, n(-1))));
    ck_assert(!le(last, add(h, n(-3))));
    ck_assert(le(mul(n(2), h), add(quotient(mul(n(8), square), 16), n(2)))); /* 2h <= h*h/2 + 2, with equality at 4 */
    ck_assert(!le(mul(n(2), h), add(quotient(mul(n(8), square), 16), n(1))));
    ck_assert(le(fx_dim_max(ctx, h, n(19)), add(h, n(16))));
    ck_assert(!le(fx_dim_max(ctx, h, n(20)), add(h, n(16))));
    /* what is divided by a symbol */
    ck_assert(le(fx_dim_mod(ctx, n(18), h), add(h, n(-1))));
    ck_assert(le(fx_dim_mod(ctx, mul(b, n(5)), h), add(h, n(-1))));
    ck_assert(le(fx_dim_floordiv(ctx, n(18), h), n(6)));
    ck_assert(!le(fx_dim_mod(ctx, n(18), h), add(h, n(-2))));
    ck_assert(fx_dim_at_least(ctx, symbols, fx_dim_sub(ctx, n(18), fx_dim_mul(ctx, h, fx_dim_floordiv(ctx, n(18), h))), 0));
    /* two symbols */
    ck_assert(le(mul(quotient(h, 4), b), quotient(mul(h, b), 4)));
    ck_assert(!le(quotient(mul(h, b), 4), mul(quotient(h, 4), b)));
    ck_assert(le(fx_dim_floordiv(ctx, mul(h, n(3)), b), mul(h, n(3))));
}
END_TEST

START_TEST(ranges_where_loops_run)
{
    fx_dim s = sym("s"), h = sym("h");
    fx_arena *a = fx_context_arena(ctx);
    fx_symbols w = fx_dim_where_positive(a, symbols, quotient(s, 4));
    ck_assert_int_eq(w.v[1].min, 4);
    ck_assert_int_eq(w.v[1].max, 7);
    w = fx_dim_where_positive(a, w, fx_dim_sub(ctx, n(6), s));
    ck_assert_int_eq(w.v[1].max, 5);
    w = fx_dim_where_positive(a, w, fx_dim_sub(ctx, h, s)); /* from 5 on: with the least s there is */
    ck_assert_int_eq(w.v[2].min, 5);
    ck_assert_int_eq(symbols.v[1].min, 0);
    ck_assert_ptr_eq(fx_dim_where_positive(a, symbols, h).v, ranges);
}
END_TEST

START_TEST(quotients_are_exact_or_kept)
{
    fx_dim s = sym("s"), h = sym("h"), q;
    ck_assert(fx_dim_divide(ctx, mul(mul(n(12), s), h), mul(n(4), s), &q));
    ck_assert(fx_dim_equal(q, mul(n(3), h)));
    ck_assert(!fx_dim_divide(ctx, mul(n(6), s), n(4), &q));
    ck_assert(fx_dim_divide(ctx, mul(add(s, n(1)), h), add(s, n(1)), &q));
    ck_assert(fx_dim_equal(q, h));
    ck_assert(!fx_dim_divide(ctx, s, n(0), &q));
    ck_assert(fx_dim_divide(ctx, n(6), n(-1), &q) && fx_dim_is(q, -6));
    ck_assert(fx_dim_divide(ctx, n(INT64_MIN), n(-1), &q) && !fx_dim_known(q)); /* there is no such number */
    ck_assert(fx_dim_is(fx_dim_mod(ctx, mul(n(6), s), n(3)), 0));
    /* a sum by a sum: the elements of a group by its channels */
    fx_dim channels = add(mul(n(3), s), n(2)), rest = add(h, n(-1));
    ck_assert(fx_dim_equal(fx_dim_floordiv(ctx, mul(channels, rest), channels), rest));
    ck_assert(fx_dim_equal(fx_dim_floordiv(ctx, mul(channels, rest), rest), channels));
    ck_assert(!fx_dim_divide(ctx, add(mul(channels, rest), n(1)), channels, &q));
    ck_assert(!fx_dim_divide(ctx, channels, mul(channels, rest), &q));
}
END_TEST

static uint32_t pick(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static fx_dim draw(uint64_t *state, int depth)
{
    uint32_t r = pick(state);
    if (depth == 0 || r % 7 == 0)
        return r % 3 == 0 ? n((int64_t)(r / 3 % 9) - 4) : sym(r % 2 ? "b" : "s");
    fx_dim x = draw(state, depth - 1), y = draw(state, depth - 1);
    switch (r % 6) {
    case 0: return add(x, y);
    case 1: return fx_dim_sub(ctx, x, y);
    case 2: return mul(x, y);
    case 3: return fx_dim_floordiv(ctx, x, n(1 + r / 6 % 4));
    case 4: return fx_dim_mod(ctx, x, n(1 + r / 6 % 4));
    default: return fx_dim_max(ctx, x, y);
    }
}

/* What is multiplied by a factor can be divided by it again; what divides otherwise gives a quotient that, multiplied, is it. */
START_TEST(products_divide_by_their_factors)
{
    fx_dim symbol[3] = {sym("b"), sym("s"), sym("h")};
    uint64_t state = 7;
    for (int round = 0; round < 2000; round++) {
        fx_dim f[2], q;
        for (int k = 0; k < 2; k++) {
            f[k] = n((int64_t)(pick(&state) % 7) - 3);
            for (int t = 0; t < 2; t++)
                f[k] = add(f[k], mul(n((int64_t)(pick(&state) % 5) - 2), symbol[pick(&state) % 3]));
        }
        fx_dim product = mul(f[0], f[1]);
        if (fx_dim_is(product, 0))
            continue;
        ck_assert(fx_dim_divide(ctx, product, f[1], &q));
        ck_assert(fx_dim_equal(q, f[0]));
        if (fx_dim_divide(ctx, add(product, symbol[round % 3]), f[1], &q))
            ck_assert(fx_dim_equal(mul(q, f[1]), add(product, symbol[round % 3])));
    }
}
END_TEST

/* Random expressions: values by evaluation within the bounds, arithmetic equal to arithmetic on values, proofs true everywhere. */
START_TEST(nothing_false_is_proved)
{
    uint64_t state = 99;
    int proved = 0, tried = 0;
    for (int i = 0; i < 3000; i++) {
        fx_dim x = draw(&state, 3), y = draw(&state, 2);
        int64_t lo, hi, least = INT64_MAX, most = INT64_MIN;
        fx_dim_bounds(symbols, x, &lo, &hi);
        for (int64_t b = 1; b <= 6; b++) {
            for (int64_t s = 0; s <= 7; s++) {
                int64_t v, w, sum, product, values[3] = {b, s, 3};
                ck_assert(fx_dim_eval(symbols, values, x, &v) && fx_dim_eval(symbols, values, y, &w));
                ck_assert(fx_dim_eval(symbols, values, add(x, y), &sum) && fx_dim_eval(symbols, values, mul(x, y), &product));
                ck_assert_int_eq(sum, v + w);
                ck_assert_int_eq(product, v * w);
                least = v < least ? v : least;
                most = v > most ? v : most;
            }
        }
        ck_assert_int_le(lo, least);
        ck_assert_int_ge(hi, most);
        for (int64_t v = least - 1; v <= least + 1; v++) {
            bool is = fx_dim_at_least(ctx, symbols, x, v);
            ck_assert_msg(!is || least >= v, "proved >= %lld, but it is %lld somewhere", (long long)v, (long long)least);
            proved += is && v == least;
        }
        tried++;
    }
    ck_assert_msg(proved == tried, "%d of %d least values proved", proved, tried);
}
END_TEST

/* What only limits tell: by factors that are numbers and symbols, by two limits; never without, and, tried everywhere, nothing false. */
START_TEST(limits_are_known)
{
    fx_dim b = sym("b"), s = sym("s"), h = sym("h"), less = fx_dim_sub(ctx, b, s), wide = fx_dim_sub(ctx, h, s);
    const struct { fx_dim d; int n; fx_dim limit[2]; } told[] = {
        {less, 1, {less}},
        {add(mul(less, n(4)), n(3)), 1, {less}},
        {mul(less, mul(h, h)), 1, {less}},
        {add(mul(less, mul(h, b)), wide), 2, {less, wide}},
        {fx_dim_sub(ctx, s, n(4)), 1, {fx_dim_sub(ctx, s, n(5))}},
        {fx_dim_sub(ctx, mul(s, h), mul(h, n(4))), 1, {fx_dim_sub(ctx, s, n(4))}},
        {fx_dim_sub(ctx, n(INT32_MAX), h), 1, {fx_dim_sub(ctx, n(INT32_MAX), mul(h, n(512)))}},
        {fx_dim_sub(ctx, n(8), mul(s, n(2))), 1, {fx_dim_sub(ctx, n(4), s)}},
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        ck_assert_msg(fx_dim_not_negative_given(ctx, symbols, told[i].d, (size_t)told[i].n, told[i].limit), "%zu", i);
        ck_assert(!fx_dim_not_negative_given(ctx, symbols, told[i].d, 0, NULL));
        ck_assert(!fx_dim_not_negative_given(ctx, symbols, fx_dim_sub(ctx, told[i].d, mul(h, n(1 << 20))), (size_t)told[i].n, told[i].limit));
    }
    ck_assert(!fx_dim_not_negative_given(ctx, symbols, mul(less, add(s, n(-1))), 1, &less)); /* times what may be -1 */
    uint64_t state = 7;
    int helped = 0;
    for (int i = 0; i < 3000; i++) {
        fx_dim x = draw(&state, 2), limits[2] = {draw(&state, 2), draw(&state, 1)};
        if (!fx_dim_not_negative_given(ctx, symbols, x, 2, limits))
            continue;
        helped += !fx_dim_at_least(ctx, symbols, x, 0);
        for (int64_t vb = 1; vb <= 6; vb++)
            for (int64_t vs = 0; vs <= 7; vs++) {
                int64_t v, first, second, values[3] = {vb, vs, 3};
                ck_assert(fx_dim_eval(symbols, values, x, &v) && fx_dim_eval(symbols, values, limits[0], &first) && fx_dim_eval(symbols, values, limits[1], &second));
                ck_assert_msg(v >= 0 || first < 0 || second < 0, "proved not negative, but it is %lld somewhere", (long long)v);
            }
    }
    ck_assert_int_gt(helped, 20);
}
END_TEST

/* What is linear, and by trying all that solving gives the values back and only those. */
START_TEST(sizes_tell_symbols)
{
    fx_dim b = sym("b"), h = sym("h");
    int64_t factor, rest, value;
    const struct { fx_dim d; int64_t factor, rest; int tells; } linear[] = {
        {b, 1, 0, 2}, {mul(b, n(2)), 2, 0, 1}, {add(mul(b, n(3)), n(-1)), 3, -1, 1}, {add(n(9), mul(b, n(-4))), -4, 9, 1},
        {add(mul(add(b, n(2)), n(5)), b), 6, 10, 1}, {add(b, n(INT64_MIN)), 1, INT64_MIN, 1},
    };
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
        const char *name = fx_dim_linear(linear[i].d, NULL, &factor, &rest);
        ck_assert(name && strcmp(name, "b") == 0);
        ck_assert_int_eq(factor, linear[i].factor);
        ck_assert_int_eq(rest, linear[i].rest);
        ck_assert_int_eq(fx_dim_tells(linear[i].d, "b"), linear[i].tells);
        ck_assert_int_eq(fx_dim_tells(linear[i].d, "h"), 0);
        for (int64_t size = -40; size <= 40 && rest > -100; size++) {
            bool found = false;
            for (int64_t v = -60; v <= 60; v++)
                found |= factor * v + rest == size;
            ck_assert_int_eq(fx_dim_solve(linear[i].d, "b", size, &value), found);
            ck_assert(!found || factor * value + rest == size);
        }
    }
    const fx_dim others[] = {n(4), add(b, h), mul(b, b), mul(b, h), fx_dim_floordiv(ctx, b, n(2)), fx_dim_mod(ctx, b, n(3)), fx_dim_max(ctx, b, n(3)), fx_dim_sub(ctx, b, b)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ck_assert_ptr_null(fx_dim_linear(others[i], NULL, &factor, &rest));
        ck_assert(!fx_dim_solve(others[i], "b", 4, &value));
    }
    /* what would overflow has no solution */
    ck_assert(!fx_dim_solve(add(b, n(INT64_MIN)), "b", 1, &value));
    ck_assert(!fx_dim_solve(mul(b, n(-1)), "b", INT64_MIN, &value));
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, sizes_tell_symbols);
    tcase_add_test(t, limits_are_known);
    tcase_add_test(t, sizes_of_indices_are_proved);
    tcase_add_test(t, cases_are_taken_apart);
    tcase_add_test(t, ranges_where_loops_run);
    tcase_add_test(t, quotients_are_exact_or_kept);
    tcase_add_test(t, products_divide_by_their_factors);
    tcase_add_test(t, nothing_false_is_proved);
}

int main(void)
{
    return unit_run("dim", 60, set_up, tear_down, add_tests);
}
