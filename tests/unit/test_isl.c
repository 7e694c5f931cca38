/* tests/unit/test_isl.c: the wrapper of isl: answers, budget, dependences of statements, tiles; index maps as isl's functions.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <time.h>

#include "lower/isl.h"
#include "tests/unit/fixture.h"

static const char *const head =
    "program \"t\"\n"
    "target name=\"generic\" cflags=\"\" lanes=1 fma=false mr=4 nr=4 l1=32768 l2=262144 pointer_bits=64 isa=\"generic\"\n"
    "sizes arena=0 weights=64 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[64, 48]\n"
    "buffer y : output 0 f32[48, 64]\n"
    "buffer t : arena f32[48, 64]\n"
    "buffer u : arena f32[48, 64] overlay=t\n"
    "input x \"x\" = x f32[64, 48]\n"
    "output y \"y\" = y f32[48, 64]\n";

/* The statements of step k of the program with these steps. */
static fx_program *program(const char *steps)
{
    fx_program *p;
    char *text = fx_arena_printf(fx_context_arena(ctx), "%s\n%s", head, steps);
    fx_status s = fx_program_parse(ctx, "t", text, strlen(text), &p);
    ck_assert_msg(s == FX_OK, "%s", unit_message(ctx));
    return p;
}

/* Tests run inside fx_protect, as passes do: the context of isl ends there. */
typedef struct job {
    void (*f)(fx_isl *i);
} job;

static fx_status run_job(void *arg)
{
    fx_isl *i = fx_isl_open(ctx);
    ck_assert_ptr_nonnull(i);
    ((job *)arg)->f(i);
    return FX_OK;
}

static void with_isl(void (*f)(fx_isl *i))
{
    job j = {f};
    ck_assert_int_eq(fx_protect(ctx, run_job, &j), FX_OK);
}

static fx_isl_row row(int64_t constant, int n, const int64_t *coef, bool equal)
{
    fx_isl_row r = {.constant = constant, .equal = equal};
    memcpy(r.coef, coef, sizeof *coef * (size_t)n);
    return r;
}

static void systems_job(fx_isl *i)
{
    int64_t point[2];
    /* 0 <= x, y < 10, 3x + 5y = 1 has none; = 8 has (1, 1); 2x = 2y + 1 none, which bounds alone do not tell */
    fx_isl_row rows[5] = {row(0, 2, (int64_t[]){1, 0}, false), row(9, 2, (int64_t[]){-1, 0}, false), row(0, 2, (int64_t[]){0, 1}, false),
                          row(9, 2, (int64_t[]){0, -1}, false), row(-1, 2, (int64_t[]){3, 5}, true)};
    ck_assert_int_eq(fx_isl_empty(i, 2, 5, rows, point), FX_ISL_YES);
    rows[4] = row(-8, 2, (int64_t[]){3, 5}, true);
    ck_assert_int_eq(fx_isl_empty(i, 2, 5, rows, point), FX_ISL_NO);
    ck_assert_int_eq(point[0], 1);
    ck_assert_int_eq(point[1], 1);
    rows[4] = row(-1, 2, (int64_t[]){2, -2}, true);
    ck_assert_int_eq(fx_isl_empty(i, 2, 5, rows, NULL), FX_ISL_YES);
    int unknown;
    ck_assert_int_eq(fx_isl_queries(i, &unknown), 3);
    ck_assert_int_eq(unknown, 0);
    ck_assert(fx_isl_seconds(i) > 0);
}

START_TEST(systems)
{
    with_isl(systems_job);
}
END_TEST

static const char *const transpose =
    "step a {\n    for v0 in 48 {\n        for v1 in 64 {\n            y[64*v0 + v1] = x[48*v1 + v0]\n        }\n    }\n}\n";

/* Past the budget nothing is decided, nothing hangs, aborts or leaks, and the next query is a fresh one. */
static void budget_job(fx_isl *i)
{
    fx_program *p = program(transpose);
    fx_isl_group g = {0};
    ck_assert(fx_isl_collect(&g, p, p->steps[0].body));
    fx_isl_tiling t = {.depth = 2, .order = {0, 1}, .size = {16, 16}};
    fx_isl_tree tree;
    fx_isl_row one = row(0, 1, (int64_t[]){1}, false);
    int cut = 0;
    for (unsigned long n = 1; n < 4000; n += n / 8 + 1) {
        fx_isl_budget(i, n);
        cut += fx_isl_tile(i, &g, &t, &tree) == FX_ISL_UNKNOWN;
    }
    ck_assert_int_gt(cut, 5);
    fx_isl_budget(i, FX_ISL_OPERATIONS);
    ck_assert_int_eq(fx_isl_empty(i, 1, 1, &one, NULL), FX_ISL_NO);
    ck_assert_int_eq(fx_isl_tile(i, &g, &t, &tree), FX_ISL_YES);
    int unknown;
    fx_isl_queries(i, &unknown);
    ck_assert_int_eq(unknown, cut);
}

START_TEST(budget)
{
    with_isl(budget_job);
}
END_TEST

/* Runs a tree: counts[i * 64 + j] of the statement's instances, and their order. */
static int instances;
static void walk(const fx_isl_tree *t, int at, int64_t *loops, void (*f)(const fx_isl_node *n, const int64_t *args))
{
    for (; at >= 0; at = t->node[at].next) {
        const fx_isl_node *n = &t->node[at];
        if (n->kind == FX_ISL_FOR) {
            for (int64_t v = 0; v < n->extent; v++) {
                loops[n->loop] = v;
                walk(t, n->child, loops, f);
            }
        } else if (n->kind == FX_ISL_IF) {
            int64_t v = n->cond.base;
            for (int k = 0; k < FX_ISL_LOOPS; k++)
                v += n->cond.coef[k] * loops[k];
            if (v >= 0)
                walk(t, n->child, loops, f);
        } else {
            int64_t args[FX_MAX_LOOPS];
            for (int a = 0; a < FX_MAX_LOOPS; a++) {
                args[a] = n->arg[a].base;
                for (int k = 0; k < FX_ISL_LOOPS; k++)
                    args[a] += n->arg[a].coef[k] * loops[k];
            }
            f(n, args);
        }
    }
}

static char seen[48][64];
static void mark(const fx_isl_node *n, const int64_t *args)
{
    ck_assert_int_eq(n->item, 0);
    ck_assert(args[0] >= 0 && args[0] < 48 && args[1] >= 0 && args[1] < 64);
    ck_assert_int_eq(seen[args[0]][args[1]], 0);
    seen[args[0]][args[1]] = 1;
    /* tiles of 16 x 10: the tile's number never falls */
    int tile = (int)(args[0] / 16 * 7 + args[1] / 10);
    ck_assert_int_ge(tile, instances);
    instances = tile;
}

static void tiles_job(fx_isl *i)
{
    fx_program *p = program(transpose);
    fx_isl_group g = {0};
    ck_assert(fx_isl_collect(&g, p, p->steps[0].body));
    ck_assert_int_eq(g.n, 1);
    fx_isl_tiling t = {.depth = 2, .order = {0, 1}, .size = {16, 10}}; /* 10 does not divide 64: a guard */
    fx_isl_tree tree;
    int64_t loops[FX_ISL_LOOPS] = {0};
    ck_assert_int_eq(fx_isl_tile(i, &g, &t, &tree), FX_ISL_YES);
    ck_assert_int_eq(tree.n_loops, 4);
    memset(seen, 0, sizeof seen);
    instances = 0;
    walk(&tree, tree.root, loops, mark);
    for (int a = 0; a < 48; a++)
        for (int b = 0; b < 64; b++)
            ck_assert_int_eq(seen[a][b], 1);
    ck_assert(tree.node[tree.root].tile);
    ck_assert_int_eq(tree.node[tree.root].origin, 0);
}

START_TEST(tiles)
{
    with_isl(tiles_job);
}
END_TEST

/* Each column's statements in order, whatever the columns': init, 64 updates in order, store. */
static int column[48];
static void in_order(const fx_isl_node *n, const int64_t *args)
{
    int64_t c = args[0];
    ck_assert(c >= 0 && c < 48);
    if (n->item == 0)
        ck_assert_int_eq(column[c], 0);
    else if (n->item == 1)
        ck_assert_int_eq(column[c], 1 + (int)args[1]);
    else
        ck_assert_int_eq(column[c], 65);
    column[c]++;
}

static void sinks_job(fx_isl *i)
{
    fx_program *p = program("step a {\n    for v0 in 48 {\n        local t0 = 0.0:f32\n        for v1 in 64 {\n            t0 = add.f32(t0:f32, x[48*v1 + v0])\n"
                            "        }\n        y[v0] = t0:f32\n    }\n}\n");
    fx_isl_group g = {0};
    ck_assert(fx_isl_collect(&g, p, p->steps[0].body));
    ck_assert_int_eq(g.n, 3);
    fx_isl_tiling t = {.depth = 1, .order = {0}, .size = {16}, .sink = true};
    fx_isl_tree tree;
    int64_t loops[FX_ISL_LOOPS] = {0};
    ck_assert_int_eq(fx_isl_tile(i, &g, &t, &tree), FX_ISL_YES);
    memset(column, 0, sizeof column);
    walk(&tree, tree.root, loops, in_order);
    for (int c = 0; c < 48; c++)
        ck_assert_int_eq(column[c], 66);
    /* the columns of a tile are innermost: the update's loops are tile, row, column */
    int depth = 0, at = tree.root;
    while (tree.node[at].kind != FX_ISL_STMT || tree.node[at].item != 1) {
        if (tree.node[at].kind == FX_ISL_FOR && tree.node[at].child >= 0 && tree.node[at].next < 0 && depth == 0) {
            at = tree.node[at].child;
            depth++;
        } else if (depth == 1 && tree.node[at].next >= 0) {
            at = tree.node[at].next; /* past the initialisation */
            ck_assert_int_eq(tree.node[at].origin, 1);
            at = tree.node[at].child;
            ck_assert_int_eq(tree.node[at].origin, 0);
            at = tree.node[at].child;
        } else {
            ck_abort_msg("expected tile { init; rows { columns }; store }");
        }
    }
}

START_TEST(sinks)
{
    with_isl(sinks_job);
}
END_TEST

/* What dependences forbid is not done. */
static void forbidden_job(fx_isl *i)
{
    /* each row from the row before */
    fx_program *p = program("step a {\n    for v0 in 47 {\n        for v1 in 64 {\n            t[64*v0 + v1 + 64] = t[64*v0 + v1]\n        }\n    }\n}\n"
                            /* and through a buffer that overlays another */
                            "step b {\n    for v0 in 47 {\n        for v1 in 64 {\n            u[64*v0 + v1 + 64] = t[64*v0 + v1]\n        }\n    }\n}\n"
                            "step c {\n    for v0 in 47 {\n        for v1 in 64 {\n            y[64*v0 + v1 + 64] = t[64*v0 + v1]\n        }\n    }\n}\n");
    for (int k = 0; k < 3; k++) {
        fx_isl_group g = {0};
        fx_isl_tree tree;
        ck_assert(fx_isl_collect(&g, p, p->steps[k].body));
        fx_isl_tiling t = {.depth = 2, .order = {0, 1}, .size = {16, 16}};
        ck_assert_int_eq(fx_isl_tile(i, &g, &t, &tree), k == 2 ? FX_ISL_YES : FX_ISL_NO);
        /* backwards over rows is wrong, columns outermost is right */
        fx_isl_order from[FX_ISL_GROUP], to[FX_ISL_GROUP];
        fx_isl_source_order(&g, from);
        fx_isl_source_order(&g, to);
        ck_assert_int_eq(fx_isl_keeps(i, &g, from, to), FX_ISL_YES);
        to[0].key[1].var = 1;
        to[0].key[3].var = 0;
        ck_assert_int_eq(fx_isl_keeps(i, &g, from, to), FX_ISL_YES);
        to[0].key[1].var = to[0].key[3].var = -1; /* all at once */
        ck_assert_int_eq(fx_isl_keeps(i, &g, from, to), k == 2 ? FX_ISL_YES : FX_ISL_NO);
    }
}

START_TEST(forbidden)
{
    with_isl(forbidden_job);
}
END_TEST

static void fusion_job(fx_isl *i)
{
    fx_program *p = program(
        "step a {\n    for v0 in 48 {\n        for v1 in 64 {\n            t[64*v0 + v1] = x[48*v1 + v0]\n        }\n    }\n}\n"
        "step same {\n    for v0 in 48 {\n        for v1 in 64 {\n            y[64*v0 + v1] = t[64*v0 + v1]\n        }\n    }\n}\n"
        "step before {\n    for v0 in 48 {\n        for v1 in 63 {\n            y[64*v0 + v1] = t[64*v0 + v1 + 1]\n        }\n    }\n}\n"
        "step row {\n    for v0 in 48 {\n        for v1 in 64 {\n            y[64*v0 + v1] = t[64*v0]\n        }\n    }\n}\n"
        "step last {\n    for v0 in 48 {\n        for v1 in 64 {\n            y[64*v0 + v1] = t[64*v0 + 63]\n        }\n    }\n}\n"
        "step first {\n    for v0 in 48 {\n        for v1 in 64 {\n            y[64*v0 + v1] = t[v1]\n        }\n    }\n}\n"
        "step data {\n    for v0 in 48 {\n        local t0 = cast.i64(x[v0])\n        check t0 in 64 \"row\" {\n            y[v0] = t[t0]\n        }\n    }\n}\n");
    static const struct { int step, depth; fx_isl_answer answer; } cases[] = {
        {1, 2, FX_ISL_YES}, {1, 1, FX_ISL_YES}, {2, 2, FX_ISL_NO}, {2, 1, FX_ISL_YES}, {3, 2, FX_ISL_YES},
        {4, 2, FX_ISL_NO}, {4, 1, FX_ISL_YES}, {5, 2, FX_ISL_YES}, {6, 1, FX_ISL_UNKNOWN}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        ck_assert_msg(fx_isl_fusion_legal(i, p, p->steps[0].body, p->steps[cases[k].step].body, cases[k].depth, NULL) == cases[k].answer,
                      "step %s, depth %d", p->steps[cases[k].step].name, cases[k].depth);
}

START_TEST(fusion)
{
    with_isl(fusion_job);
}
END_TEST

/* Our composition is isl's. */
static void maps_job(fx_isl *i)
{
    fx_imaps m = {ctx, fx_context_arena(ctx), {0, NULL}};
    static const char *const chains[][2] = {
        /* outer, inner */
        {"(48) -> in0[d0 // 8, d0 % 8]", "(6, 8) -> in0[d1, d0]"},
        {"(8, 6) -> in0[(6*d0 + d1) // 8, (6*d0 + d1) % 8]", "(6, 8) -> in0[-d0 + 5, d1]"},
        {"(2, 3, 4) -> in0[d2, d0, d1]", "(4, 2, 3) -> in0[6*d0 + 3*d1 + d2]"},
        {"(10) -> {0:2} pad; {8:10} pad; {2:8} in0[d0 - 2]", "(6) -> in0[d0 // 2, d0 % 2]"},
        {"(12) -> in0[d0 % 6]", "(6) -> {0:2} in0[d0 + 4]; {2:6} in0[d0 - 2]"},
        {"(3, 8) -> in0[8*d0 + d1]", "(24) -> {0:8} pad; {8:24} in0[d0 - 8]"},
    };
    double isl_time = 0;
    int compared = 0;
    for (size_t k = 0; k < sizeof chains / sizeof *chains; k++) {
        const fx_imap *outer, *inner, *both;
        double seconds;
        ck_assert_int_eq(fx_imap_parse(&m, chains[k][0], &outer), FX_OK);
        ck_assert_int_eq(fx_imap_parse(&m, chains[k][1], &inner), FX_OK);
        both = fx_imap_compose(&m, outer, 0, inner, 0);
        if (!both)
            continue; /* a roll read through a repeat: no boxes */
        compared++;
        ck_assert_msg(fx_isl_composes(i, outer, inner, both, &seconds) == FX_ISL_YES, "%s through %s", chains[k][0], chains[k][1]);
        isl_time += seconds;
        /* and a wrong one is not */
        fx_imap_piece wrong = both->piece[both->n - 1];
        wrong.index[0] = fx_ix_add(&m, NULL, wrong.index[0], fx_ix_const(&m, fx_dim_of(1)));
        fx_imap bad = *both;
        fx_imap_piece pieces[8];
        memcpy(pieces, both->piece, sizeof *pieces * (size_t)both->n);
        pieces[both->n - 1] = wrong;
        bad.piece = pieces;
        ck_assert_int_eq(fx_isl_composes(i, outer, inner, &bad, &seconds), FX_ISL_NO);
    }
    ck_assert_int_ge(compared, 5);
    const fx_imap *outer, *inner;
    ck_assert_int_eq(fx_imap_parse(&m, chains[1][0], &outer), FX_OK);
    ck_assert_int_eq(fx_imap_parse(&m, chains[1][1], &inner), FX_OK);
    clock_t start = clock();
    for (int k = 0; k < 1000; k++)
        ck_assert_ptr_nonnull(fx_imap_compose(&m, outer, 0, inner, 0));
    printf("%d compositions: by isl %.0f us each, ours %.1f us\n", compared, 1e6 * isl_time / compared, 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC);
    /* A symbol is nothing that isl takes here. */
    const fx_imap *s;
    double seconds;
    ck_assert_int_eq(fx_imap_parse(&m, "(6*s) -> in0[d0 // s]", &s), FX_OK);
    ck_assert_int_eq(fx_isl_composes(i, s, s, s, &seconds), FX_ISL_UNKNOWN);
}

START_TEST(maps)
{
    with_isl(maps_job);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, systems);
    tcase_add_test(t, budget);
    tcase_add_test(t, tiles);
    tcase_add_test(t, sinks);
    tcase_add_test(t, forbidden);
    tcase_add_test(t, fusion);
    tcase_add_test(t, maps);
}

int main(void)
{
    return unit_run("isl", 120, set_up, tear_down, add);
}
