/* tests/unit/test_fuzz_rows.c: the random-graph test misses no row of op.def: each can be drawn and compiled, or stands on a list with its reason.
 * That each is drawn in a CI run, that run checks itself (fuzz --all-rows).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/unit.h"

START_TEST(every_row_is_drawn_or_listed)
{
    static fz_rows rows;
    fz_probe(&(fz_menu){.dtypes = FZ_DTYPES, .writes = true}, &rows);
    int missing = 0, drawn = 0;
    for (int id = 1; id < FX_OP_COUNT; id++) {
        const char *why = fz_row_excluded((fx_opid)id);
        drawn += rows.able[id];
        if (rows.able[id] || why)
            continue;
        printf("%s is neither drawn nor listed in tests/fuzz/rows.c: %s\n", fx_ops[id].name, rows.why[id]);
        missing++;
    }
    ck_assert_int_eq(missing, 0);
    ck_assert_int_gt(drawn, FX_OP_COUNT * 9 / 10); /* the list is short */
}
END_TEST

/* What is called rare in drawn graphs, as shares of 1000 of them, is not missing. */
START_TEST(graphs_have_everything)
{
    fz_counts counts = {0};
    for (int i = 0; i < 1000; i++) {
        fz_case c = {.seed = fz_case_seed(4, i), .ctx = fx_context_create()};
        ck_assert_int_eq(fz_draw(&c, &(fz_menu){.dtypes = FZ_DTYPES, .writes = true, .wrong = true}), FX_OK);
        fz_survey(&counts, c.g);
        fz_case_free(&c);
    }
    for (int i = 0; i < FZ_HAS_COUNT; i++)
        if (i < FZ_HAS_DTYPE || (FZ_DTYPES >> (i - FZ_HAS_DTYPE) & 1))
            ck_assert_msg(counts.has[i] >= 50, "only %d of 1000 graphs have %s", (int)counts.has[i], fz_has_name(i));
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, every_row_is_drawn_or_listed);
    tcase_add_test(t, graphs_have_everything);
}

int main(void)
{
    return unit_run("fuzz_rows", 300, NULL, NULL, add_tests);
}
