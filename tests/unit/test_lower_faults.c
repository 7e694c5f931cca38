/* tests/unit/test_lower_faults.c: faults put into lowering on purpose (fx_fault) are caught, each by something that shares no code with
 * what is at fault: the verifier of loop programs, a proof, the loop program's interpreter (which checks every access), or values that are
 * not the reference interpreter's. Without a fault the same graphs give nothing to catch.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/fuzz/fuzz.h"
#include "tests/unit/unit.h"

enum { GRAPHS = 1200, SHOWN = 3 };

static const struct {
    const char *name;
    const char *rows;        /* only rows whose names hold one of these words (NULL: all): more of those that the fault is about */
    uint32_t dtypes;         /* likewise; 0: all */
} faults[FX_FAULT_COUNT] = {
    [FX_FAULT_NONE] = {"none", NULL, 0},
    [FX_FAULT_FREE_EARLY] = {"the planner frees a step too soon", NULL, 0},
    [FX_FAULT_MAP_OFF_BY_ONE] = {"a slice starts one late", "slice split chunk add relu sum", 0},
    [FX_FAULT_FUSE_ACROSS_WRITE] = {"a result takes the place of an operand that is read again", "flip permute transpose aten.add. exp2 neg",
                                    1 << FX_F32},
    [FX_FAULT_NO_WRAP] = {"narrow integers are not wrapped", "aten.add. aten.mul. aten.to. _to_copy aten.gt",
                              1 << FX_U8 | 1 << FX_I8 | 1 << FX_I16 | 1 << FX_I32},
    [FX_FAULT_PARALLEL_REDUCTION] = {"a reduction's loop is parallel", "sum mean amax amin var add", 0},
    [FX_FAULT_NO_CHECK] = {"an index that is data is not checked", "embedding index gather scatter add", 0},
};

static bool is_about(const char *words, const char *name)
{
    while (words && *words) {
        size_t n = strcspn(words, " ");
        for (const char *s = name; *s; s++)
            if (!strncmp(s, words, n))
                return true;
        words += n + strspn(words + n, " ");
    }
    return words == NULL;
}

typedef struct caught {
    int verifier, interpreter, values, other;
    char first[4][1000];
} caught;

/* Who found it: what lowering reports are verifiers' and proofs' findings. */
static void note(caught *c, const fz_failure *f)
{
    int who = f->stage == FZ_LOWER ? 0 : (f->stage == FZ_RUN || f->stage == FZ_PLANNED) ? (strcmp(f->kind, "values") ? 1 : 2) : 3;
    int *count[] = {&c->verifier, &c->interpreter, &c->values, &c->other};
    if ((*count[who])++ == 0)
        snprintf(c->first[who], sizeof c->first[who], "%s", f->text);
}

START_TEST(fault_is_caught)
{
    static const char *const who[] = {"verifier or proof", "the loop program's interpreter", "values", "other"};
    static bool able[FX_OP_COUNT];
    caught c = {0};
    int compiled = 0;
    for (int i = 1; i < FX_OP_COUNT; i++)
        able[i] = is_about(faults[_i].rows, fx_ops[i].name);
    fz_menu menu = {.able = able, .dtypes = faults[_i].dtypes ? faults[_i].dtypes : FZ_DTYPES, .writes = true};
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        fz_case one;
        fz_failure f;
        if (fz_case_make(&one, seed * 7919 + (uint64_t)_i, &menu, &f)) {
            one.settings.fault = (fx_fault)_i;
            bool good = fz_case_lower(&one, &f);
            compiled += good || f.stage == FZ_LOWER;
            if ((!good && f.stage == FZ_LOWER) || (good && !fz_case_run(&one, NULL, &f))) {
                note(&c, &f);
                if (_i == FX_FAULT_NONE)
                    fprintf(stderr, "seed %d: %s\n%s", (int)seed, f.text, unit_print(one.g)); /* a failure ends the process, and what stdout holds */
            }
        }
        fz_case_free(&one);
    }
    int total = c.verifier + c.interpreter + c.values + c.other;
    printf("%s: %d graphs, caught by verifier or proof %d, interpreter of loop programs %d, values %d\n", faults[_i].name, compiled, c.verifier,
           c.interpreter, c.values);
    ck_assert_int_gt(compiled, GRAPHS / 10);
    if (_i == FX_FAULT_NONE)
        for (int k = 0; k < 4; k++)
            ck_assert_msg(!*c.first[k], "nothing is wrong, and yet %s: %s", who[k], c.first[k]);
    else
        ck_assert_msg(total > c.other, "%s: not caught in %d graphs", faults[_i].name, compiled);
    for (int k = 0; k < SHOWN; k++)
        if (*c.first[k])
            printf("    %s: %.200s\n", who[k], c.first[k]);
    fflush(stdout);
}
END_TEST

static bool fails_by_values(void *user, fz_case *c)
{
    fz_failure f = {.stage = FZ_OK};
    (void)user;
    return fz_reference(c) == FX_OK && fz_case_lower(c, &f) && !fz_case_run(c, NULL, &f) && !strcmp(f.kind, "values");
}

/* Graphs that fail because of a fault become the fault and what shows it. */
START_TEST(failures_shrink)
{
    fz_menu menu = {.dtypes = 1 << FX_F32};
    int shrunk = 0;
    for (uint64_t seed = 1; seed < 4000 && shrunk < 5; seed++) {
        fz_case c;
        fz_failure f;
        bool made = fz_case_make(&c, seed, &menu, &f);
        c.settings.fault = FX_FAULT_MAP_OFF_BY_ONE;
        if (!made || c.g->n_nodes < 12 || !fails_by_values(NULL, &c)) {
            fz_case_free(&c);
            continue;
        }
        fz_shrink(&c, fails_by_values, NULL, 2000);
        ck_assert_msg(c.g->n_nodes <= 7, "seed %d: %zu nodes are left:\n%s", (int)seed, c.g->n_nodes, unit_print(c.g));
        ck_assert_msg(fails_by_values(NULL, &c), "seed %d: what is left does not fail", (int)seed);
        shrunk++;
        fz_case_free(&c);
    }
    ck_assert_int_eq(shrunk, 5);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, failures_shrink);
    tcase_add_loop_test(t, fault_is_caught, 0, FX_FAULT_COUNT);
}

int main(void)
{
    return unit_run("lower_faults", 600, NULL, NULL, add_tests);
}
