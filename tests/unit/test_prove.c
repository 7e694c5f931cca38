/* tests/unit/test_prove.c: the prove pass: what it proves and by what, each kind of damage it must refuse, and random nests against enumeration.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "fxcc/prove.h"
#include "lower/lower.h"
#include "tests/unit/draw.h"
#include "tests/unit/program_text.h"

static const char *const target =
    "target name=\"generic\" cflags=\"\" lanes=1 fma=false mr=4 nr=4 l1=32768 l2=262144 pointer_bits=64 isa=\"generic\"\n";

typedef enum over { GRAPH, PROGRAM } over;

/* The lines of a proof, kept. */
typedef struct lines {
    int n, unproved;
    char text[64][600];
    bool proved[64];
} lines;

static void keep(void *user, const fx_proof *p)
{
    lines *l = user;
    ck_assert_int_lt(l->n, 64);
    snprintf(l->text[l->n], sizeof l->text[0], "%s: %s: %s; %s", p->step, p->loop, p->what, p->proved ? p->by : p->missing);
    l->proved[l->n++] = p->proved;
    l->unproved += !p->proved;
}

typedef struct job {
    fx_program *p;
    lines *out;
    bool warn;
} job;

static fx_status run(void *arg)
{
    job *j = arg;
    fx_lower_options o = {.unproved_warn = j->warn, .proof = keep, .proof_user = j->out};
    fx_lower l = {.ctx = ctx, .program = j->p, .opt = &o, .scratch = fx_arena_create(ctx), .piece = fx_arena_create(ctx)};
    memset(j->out, 0, sizeof *j->out);
    return fx_pass_prove(&l);
}

static fx_program *parsed(const char *text)
{
    fx_program *p;
    fx_status s = fx_program_parse(ctx, "t", text, strlen(text), &p);
    ck_assert_msg(s == FX_OK, "%s\n%s", unit_message(ctx), text);
    return p;
}

static fx_status prove(fx_program *p, bool warn, lines *out)
{
    job j = {p, out, warn};
    return fx_protect(ctx, run, &j);
}

/* Buffers for the cases: x and w are read, y is written; a, b, c lie in the arena, b at a's place. */
static const char *const buffers =
    "sizes arena=1280 weights=64 live=1280 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[8, 8]\n"
    "buffer k : input 1 i64[8]\n"
    "buffer y : output 0 f32[8, 8]\n"
    "buffer a : arena f32[8, 8] offset=0\n"
    "buffer b : arena f32[8, 8] offset=0 overlay=a\n"
    "buffer c : arena f32[8, 8] offset=256\n"
    "input x \"x\" = x f32[8, 8]\n"
    "input k \"k\" = k i64[8]\n"
    "output y \"y\" = y f32[8, 8]\n";

static void has_line(const lines *l, const char *line, const char *of)
{
    for (int i = 0; i < l->n; i++)
        if (strstr(l->text[i], line))
            return;
    for (int i = 0; i < l->n; i++)
        printf("%s %s\n", l->proved[i] ? "proved  " : "UNPROVED", l->text[i]);
    ck_abort_msg("expected a line with '%s' of\n%s", line, of);
}

static void check_case(const char *steps, const char *line)
{
    lines l;
    fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx), "program \"t\"\n%s%s\n%s", target, buffers, steps));
    prove(p, true, &l);
    has_line(&l, line, steps);
}

START_TEST(proved_by)
{
    check_case("step s {\n for v0 in 8 parallel \"h\" {\n for v1 in 8 vector \"w\" {\n y[8*v0 + v1] = x[v0 + 8*v1]\n }\n }\n}\n",
               "s: for 8 h parallel, 8 w vector: 2 accesses within their buffers, iterations of h and 1 more loops apart; intervals, strides");
    /* a window that leaves the picture, kept in by guards on one and on two variables */
    check_case("step s {\n for v0 in 10 {\n for v1 in 8 {\n if v0 - 1 >= 0 && -v0 + 8 >= 0 {\n y[8*v0 + v1 - 8] = x[8*v0 + v1 - 8]\n }\n }\n }\n}\n",
               "s: for 10 v0, 8 v1: 2 accesses within their buffers; guards");
    check_case("step s {\n for v0 in 8 {\n for v1 in 3 {\n if v0 + v1 - 1 >= 0 && -v0 - v1 + 8 >= 0 {\n y[v0] = x[8*v0 + 8*v1 - 8]\n }\n }\n }\n}\n",
               "; intervals, guards");
    /* two conditions together, with rounding: 2 v0 >= 3 and 3 v0 <= 10 leave v0 = 2, 3 */
    check_case("step s {\n for v0 in 99 {\n if 2*v0 - 3 >= 0 && -3*v0 + 10 >= 0 {\n y[32*v0 - 64] = x[v0]\n }\n }\n}\n", ", isl");
    /* an index that is data */
    check_case("step s {\n for v0 in 8 parallel {\n local t0 = k[v0]\n check t0 in 8 \"row\" {\n for v1 in 8 {\n y[8*v0 + v1] = x[8*t0 + v1]\n }\n }\n }\n}\n",
               "within their buffers, iterations of v0 apart; intervals, checks, strides");
    /* columns at once: their stride is smaller than a row's */
    check_case("step s {\n for v0 in 8 parallel {\n for v1 in 8 {\n y[v0 + 8*v1] = x[v0]\n }\n }\n}\n", "intervals, strides");
    /* even rows are written, odd ones read: no stride tells */
    check_case("step s {\n for v0 in 4 parallel {\n for v1 in 8 {\n y[16*v0 + v1] = y[16*v0 + v1 + 8]\n }\n }\n}\n", "iterations of v0 apart; intervals, strides");
    check_case("step s {\n for v0 in 7 parallel {\n for v1 in 3 {\n y[6*v0 + 2*v1] = y[4*v0 + 2*v1 + 1]\n }\n }\n}\n", "iterations of v0 apart; intervals, isl");
    /* each iteration's own array and local */
    check_case("step s {\n for v0 in 8 parallel {\n local t0 = 0.0:f32\n for v1 in 8 {\n t0 = add.f32(t0:f32, x[8*v0 + v1])\n }\n y[v0] = t0:f32\n }\n}\n",
               "iterations of v0 apart; intervals, strides");
    /* in place, element by element */
    check_case("step m {\n for v0 in 64 {\n a[v0] = x[v0]\n }\n}\nstep s {\n for v0 in 64 parallel {\n b[v0] = add.f32(a[v0], a[v0])\n }\n}\n"
               "step e {\n for v0 in 64 {\n y[v0] = b[v0]\n }\n}\n",
               "arena: lives: 2 buffers: those that live at once lie apart; intervals, order");
    /* equal statements are proved once */
    check_case("step m {\n for v0 in 64 {\n a[v0] = x[v0]\n }\n}\nstep s {\n for v0 in 64 {\n c[v0] = a[v0]\n }\n}\nstep e {\n for v0 in 64 {\n y[v0] = c[v0]\n }\n}\n"
               "step f {\n for v0 in 64 {\n c[v0] = a[v0]\n }\n}\n", "f: for 64 v0: 2 accesses within their buffers; as s");
}
END_TEST

/* Iterations of a loop meet nowhere where a loop around their stores, or inside, has none at any size. */
START_TEST(what_never_runs_does_not_meet)
{
    static const struct {
        const char *around, *inside;
        bool meet;
    } cases[] = {{"Max(n, 3) - 3", "2", false}, {"2", "Max(n, 3) - 3", false}, {"Max(n, 2) - 2", "2", true}, {"2", "Max(n, 2) - 2", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lines l;
        fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx), "program \"t\"\nsymbol n in [0, 3]\nbuffer y : output 0 f32[8]\noutput y \"y\" = y f32[8]\n"
                               "step s {\n  for v0 in %s {\n    for v1 in n vector {\n      for v2 in %s {\n        y[v2] = 0.0:f32\n      }\n    }\n  }\n}\n",
                               cases[i].around, cases[i].inside));
        ck_assert_int_eq(prove(p, false, &l), cases[i].meet ? FX_INTERNAL : FX_OK);
        ck_assert_msg(!cases[i].meet || strstr(unit_message(ctx), "iterations of v1 may meet") != NULL, "%s", unit_message(ctx));
        fx_diag_clear(ctx);
    }
}
END_TEST

START_TEST(refused)
{
    check_case("step s {\n for v0 in 8 {\n for v1 in 8 {\n y[8*v0 + v1] = x[8*v0 + v1 + 1]\n }\n }\n}\n",
               "the load of 'x' is not proved to be within its 64 elements at v0 = 7, v1 = 7");
    check_case("step s {\n for v0 in 8 {\n y[v0 - 1] = x[v0]\n }\n}\n", "the store to 'y' is not proved to be within its 64 elements at v0 = 0");
    check_case("step s {\n for v0 in 9 {\n for v1 in 8 {\n if v0 - 1 >= 0 {\n y[8*v0 + v1] = x[8*v0 + v1 - 8]\n }\n }\n }\n}\n", "at v0 = 8, v1 = 0");
    /* data without a check, or with too wide a one */
    check_case("step s {\n for v0 in 8 {\n local t0 = k[v0]\n y[v0] = x[t0]\n }\n}\n", "the load of 'x' is not proved");
    check_case("step s {\n for v0 in 8 {\n local t0 = k[v0]\n check t0 in 9 \"row\" {\n y[v0] = x[8*t0]\n }\n }\n}\n", "the load of 'x' is not proved");
    /* a reduction's loop at once: into a local, into an element */
    check_case("step s {\n local t0 = 0.0:f32\n for v0 in 64 parallel {\n t0 = add.f32(t0:f32, x[v0])\n }\n y[0] = t0:f32\n}\n",
               "all iterations set t0, which is defined outside");
    check_case("step s {\n for v0 in 8 {\n for v1 in 8 vector {\n y[v0] = add.f32(y[v0], x[8*v0 + v1])\n }\n }\n}\n",
               "iterations of v1 may meet: the store to 'y' at v0");
    /* rows that overlap by one; a neighbour's element read */
    check_case("step s {\n for v0 in 7 parallel {\n for v1 in 9 {\n y[8*v0 + v1] = 0.0:f32\n }\n }\n}\n", "iterations of v0 may meet");
    check_case("step s {\n for v0 in 7 parallel {\n y[v0] = y[v0 + 1]\n }\n}\n", "the store to 'y' at v0 and the load of 'y' at v0 + 1");
    check_case("step s {\n for v0 in 8 parallel {\n local t0 = k[v0]\n check t0 in 8 \"row\" {\n y[t0] = x[v0]\n }\n }\n}\n", "the store to 'y' at t0");
    /* freed early: c on a while a is still read */
    check_case("step m {\n for v0 in 64 {\n a[v0] = x[v0]\n }\n}\nstep s {\n for v0 in 64 {\n b[v0] = x[v0]\n }\n}\nstep e {\n for v0 in 64 {\n y[v0] = add.f32(a[v0], b[v0])\n }\n}\n",
               "'a' and 'b' lie on one another in the arena while both live (steps s to e)");
    /* in place of what is read again: reversed, a neighbour, in a later loop of the step */
    static const char *const reads[] = {"for v0 in 64 {\n b[v0] = a[-v0 + 63]\n }", "for v0 in 63 {\n b[v0 + 1] = a[v0]\n }",
                                        "for v0 in 64 {\n b[v0] = a[v0]\n }\n for v1 in 64 {\n c[v1] = a[v1]\n }",
                                        "for v0 in 8 {\n for v1 in 8 {\n b[v0] = add.f32(a[v0], x[v1])\n }\n }"};
    for (int i = 0; i < 4; i++)
        check_case(fx_arena_printf(fx_context_arena(ctx), "step m {\n for v0 in 64 {\n a[v0] = x[v0]\n }\n}\nstep s {\n %s\n}\nstep e {\n for v0 in 64 {\n y[v0] = b[v0]\n }\n}\n", reads[i]),
                   "'a' and 'b' lie on one another");
    /* a row is overwritten only after it was read: fine (row i + 1 to row i) */
    check_case("step m {\n for v0 in 64 {\n a[v0] = x[v0]\n }\n}\nstep s {\n for v0 in 8 {\n for v1 in 8 {\n local t0 = a[8*v0 + v1]\n b[8*v0 + v1] = t0:f32\n }\n }\n}\n"
               "step e {\n for v0 in 64 {\n y[v0] = b[v0]\n }\n}\n", "arena: lives: 2 buffers");
}
END_TEST

/* What is not proved fails the compile and names step and access, or warns. */
START_TEST(error_or_warning)
{
    lines l;
    fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx), "program \"t\"\n%s%s\nstep bad {\n for v0 in 65 {\n y[v0] = 0.0:f32\n }\n}\n", target, buffers));
    ck_assert_int_eq(prove(p, false, &l), FX_INTERNAL);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "not proved: step bad: the store to 'y'"));
    fx_diag_clear(ctx);
    ck_assert_int_eq(prove(p, true, &l), FX_OK);
    ck_assert_int_eq(l.unproved, 1);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "not proved: step bad: the store to 'y'"));
}
END_TEST

/* ---- symbols ------------------------------------------------------------------------------------------------------------- */

static void check_symbols(const char *body, const char *line)
{
    lines l;
    fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx),
                                           "program \"t\"\n%ssymbol batch in [1, 64]\nsymbol seq in [2, 512]\nsizes arena=0 weights=64 live=0 hash=0x0000000000000000\n"
                                           "buffer x : input 0 f32[batch, seq, 12]\nbuffer y : output 0 f32[batch, 12, seq]\n"
                                           "input x \"x\" = x f32[batch, seq, 12]\noutput y \"y\" = y f32[batch, 12, seq]\n\nstep s {\n%s}\n",
                                           target, body));
    prove(p, true, &l);
    has_line(&l, line, body);
}

START_TEST(with_symbols)
{
    const char *good = " for v0 in batch parallel {\n for v1 in 12 {\n for v2 in seq vector {\n y[(12*seq)*v0 + (seq)*v1 + v2] = x[(12*seq)*v0 + v1 + 12*v2]\n }\n }\n }\n";
    check_symbols(good, "2 accesses within their buffers, iterations of v0 and 1 more loops apart; symbols' ranges, strides");
    check_symbols(" for v0 in batch {\n for v1 in 12 {\n for v2 in seq {\n y[(12*seq)*v0 + (seq)*v1 + v2 + 1] = x[v2]\n }\n }\n }\n", "the store to 'y' is not proved to be within its 12*batch*seq elements");
    check_symbols(" for v0 in batch parallel {\n for v1 in 13 {\n for v2 in seq {\n if -v1 + 11 >= 0 {\n y[(12*seq)*v0 + (seq)*v1 + v2] = x[v2]\n }\n }\n }\n }\n", "iterations of v0 apart; symbols' ranges, guards, strides");
    check_symbols(" for v0 in batch parallel {\n for v1 in 13 {\n for v2 in seq {\n if -v1 + 12 >= 0 {\n y[(12*seq)*v0 + (seq)*v1 + v2] = x[v2]\n }\n }\n }\n }\n", "iterations of v0 may meet");
    check_symbols(" for v0 in batch {\n for v1 in 13 {\n for v2 in seq {\n if -v1 + 11 >= 0 {\n y[(12*seq)*v0 + (seq)*v1 + v2] = x[v2]\n }\n }\n }\n }\n", "; symbols' ranges, guards");
    check_symbols(" for v0 in seq parallel {\n y[v0] = y[v0 + (seq)]\n }\n", "iterations of v0 apart; symbols' ranges, strides");
    check_symbols(" for v0 in seq parallel {\n y[v0] = y[-v0 + (2*seq) - 1]\n }\n", "iterations of v0 apart");
    check_symbols(" for v0 in seq parallel {\n y[v0] = y[-v0 + (seq) - 1]\n }\n", "may meet");
}
END_TEST

/* ---- random nests against enumeration ---------------------------------------------------------------------------------------- */

typedef struct random_access {
    int64_t base, coef[3];
} random_access;

static int64_t at(const random_access *a, const int *v)
{
    return a->base + a->coef[0] * v[0] + a->coef[1] * v[1] + a->coef[2] * v[2];
}

static random_access draw_access(void)
{
    static const int coefs[] = {0, 1, 1, 2, 3, 4, 8, -1, -4, 12};
    random_access a = {.base = draw(2) ? 0 : (int)draw(30) - 4};
    for (int i = 0; i < 3; i++)
        a.coef[i] = coefs[draw(10)];
    return a;
}

static const char *text_of(const random_access *a, int first)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    for (int i = 0; i < 3; i++)
        if (a->coef[i])
            fx_printf(&t, "%s%lld*v%d", !t.size ? (a->coef[i] < 0 ? "-" : "") : a->coef[i] < 0 ? " - " : " + ", llabs(a->coef[i]), first + i);
    fx_printf(&t, !t.size ? "%s%lld" : "%s %lld", t.size ? (a->base < 0 ? " -" : " +") : a->base < 0 ? "-" : "", llabs(a->base));
    return t.data;
}

/* for v0 parallel { for v1 { for v2 { if cond >= 0 { y[store] = z[load] } } } }, z being x or y: isl makes the proofs exact. */
/* a, b and c live at once: each pair needs an order, told or implied. */
START_TEST(slots_of_open_sizes)
{
    static const struct { const char *above_b, *above_c, *line; } cases[] = {
        {" above 0", " above 1", "3 buffers: those that live at once lie apart"},
        {" above 0", " above 0, 1", "3 buffers: those that live at once lie apart"},
        {"", " above 0, 1", "'a' and 'b' lie on one another in the arena while both live (steps s to f)"},
        {" above 0", " above 0", "'b' and 'c' lie on one another"},
        {" above 0", "", "'a' and 'c' lie on one another"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx),
            "program \"t\"\n%ssymbol n in [1, 9]\nsizes arena=0 weights=64 live=0 hash=0x0000000000000000\nslot [4*n]\nslot [8*n]%s\nslot [4*n]%s\n"
            "buffer x : input 0 f32[n]\nbuffer y : output 0 f32[n]\nbuffer a : arena f32[n] slot=0\nbuffer b : arena f32[n] slot=1\n"
            "buffer c : arena f32[n] slot=2\ninput x \"x\" = x f32[n]\noutput y \"y\" = y f32[n]\n"
            "step m {\n for v0 in n {\n a[v0] = x[v0]\n }\n}\nstep s {\n for v0 in n {\n b[v0] = x[v0]\n }\n}\n"
            "step e {\n for v0 in n {\n c[v0] = x[v0]\n }\n}\nstep f {\n for v0 in n {\n y[v0] = add.f32(add.f32(a[v0], b[v0]), c[v0])\n }\n}\n",
            target, cases[i].above_b, cases[i].above_c));
        lines l;
        prove(p, true, &l);
        has_line(&l, cases[i].line, cases[i].above_c);
        ck_assert_msg((l.unproved > 0) == (i > 1), "case %zu: %d lines unproved", i, l.unproved);
    }
}
END_TEST

START_TEST(random_nests)
{
    int counts[2] = {0, 0};
    seed = 2463534242u;
    for (int i = 0; i < 1500; i++) {
        int extent[3] = {1 + (int)draw(5), 1 + (int)draw(4), 1 + (int)draw(4)};
        random_access store = draw_access(), load = draw_access(), cond = draw_access();
        bool own = draw(3) == 0, guarded = draw(3) == 0, ok = true;
        const char *read = own ? "y" : "x";
        const char *guard = guarded ? fx_arena_printf(fx_context_arena(ctx), "if %s >= 0 {\n", text_of(&cond, 0)) : "";
        fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx),
                                               "program \"t\"\n%s%s\nstep s {\n for v0 in %d parallel {\n for v1 in %d {\n for v2 in %d {\n %sy[%s] = %s[%s]\n %s}\n }\n }\n}\n",
                                               target, buffers, extent[0], extent[1], extent[2], guard, text_of(&store, 0), read, text_of(&load, 0), guarded ? "}\n" : ""));
        static int written_by[64], read_by[64][5];
        memset(written_by, -1, sizeof written_by);
        memset(read_by, 0, sizeof read_by);
        int v[3];
        for (v[0] = 0; v[0] < extent[0]; v[0]++)
            for (v[1] = 0; v[1] < extent[1]; v[1]++)
                for (v[2] = 0; v[2] < extent[2]; v[2]++) {
                    if (guarded && at(&cond, v) < 0)
                        continue;
                    int64_t s = at(&store, v), l = at(&load, v);
                    if (s < 0 || s >= 64 || l < 0 || l >= 64) {
                        ok = false;
                        continue;
                    }
                    if (written_by[s] >= 0 && written_by[s] != v[0])
                        ok = false;
                    written_by[s] = v[0];
                    read_by[l][v[0]] = 1;
                }
        for (int e = 0; own && e < 64; e++)
            for (int k = 0; k < 5; k++)
                ok &= !(read_by[e][k] && written_by[e] >= 0 && written_by[e] != k);
        lines out;
        prove(p, true, &out);
        ck_assert_msg((out.unproved == 0) == ok, "%s: %s", ok ? "not proved" : "proved what is wrong", out.text[0]);
        counts[ok]++;
        if (i % 50 == 0) {
            tear_down();
            set_up();
        }
    }
    ck_assert_int_gt(counts[0], 200);
    ck_assert_int_gt(counts[1], 200);
}
END_TEST

/* for v0 { for v1 { b[store] = a[load] } } with b in a's place: right when no element is read after it was written over. */
START_TEST(random_inplace)
{
    int counts[2] = {0, 0};
    seed = 88172645u;
    for (int i = 0; i < 600; i++) {
        int extent[3] = {1 + (int)draw(6), 1 + (int)draw(6), 1};
        random_access store = draw_access(), load = draw(2) ? store : draw_access();
        bool apart = draw(4) == 0, ok = true, inside = true, live = false; /* the load in a loop before the store's */
        static int written[64];
        memset(written, 0, sizeof written);
        int v[3] = {0, 0, 0};
        for (v[0] = 0; v[0] < extent[0]; v[0]++)
            for (v[1] = 0; v[1] < extent[1]; v[1]++) {
                int64_t s = at(&store, v), l = at(&load, v);
                if (s < 0 || s >= 64 || l < 0 || l >= 64) {
                    inside = false;
                    continue;
                }
                ok &= apart || !written[l];
                written[s] = 1;
                live = true;
            }
        if (!inside || !live)
            continue;
        const char *head = fx_arena_printf(fx_context_arena(ctx), "program \"t\"\n%s%s\nstep m {\n for v0 in 64 {\n a[v0] = x[v0]\n }\n}\n", target, buffers);
        const char *loops = fx_arena_printf(fx_context_arena(ctx), "for v0 in %d {\n for v1 in %d {\n for v2 in 1 {\n", extent[0], extent[1]);
        const char *other = fx_arena_printf(fx_context_arena(ctx), "for v3 in %d {\n for v4 in %d {\n for v5 in 1 {\n", extent[0], extent[1]);
        const char *body = apart ? fx_arena_printf(fx_context_arena(ctx), "%sc[0] = a[%s]\n}\n}\n}\n%sb[%s] = 0.0:f32\n}\n}\n}\n", loops, text_of(&load, 0),
                                                   other, text_of(&store, 3))
                                 : fx_arena_printf(fx_context_arena(ctx), "%sb[%s] = a[%s]\n}\n}\n}\n", loops, text_of(&store, 0), text_of(&load, 0));
        fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx), "%sstep s {\n%s}\nstep e {\nfor v0 in 64 {\ny[v0] = b[v0]\n}\n}\n", head, body));
        lines out;
        prove(p, true, &out);
        bool proved = true;
        for (int k = 0; k < out.n; k++)
            proved &= out.proved[k];
        ck_assert_msg(!proved || ok, "proved what is wrong: %s", body);
        counts[proved]++;
        /* Not exact: elements written twice by one loop are refused. */
        bool twice = false;
        memset(written, 0, sizeof written);
        for (v[0] = 0; v[0] < extent[0]; v[0]++)
            for (v[1] = 0; v[1] < extent[1]; v[1]++)
                twice |= written[at(&store, v)]++ > 0;
        if (ok && !twice && memcmp(&store, &load, sizeof store) == 0)
            ck_assert_msg(proved, "not proved: %s", body);
        if (i % 50 == 0) {
            tear_down();
            set_up();
        }
    }
    ck_assert_int_gt(counts[0], 50);
    ck_assert_int_gt(counts[1], 50);
}
END_TEST

/* ---- faults of lowering: found by the proofs alone, no verifier runs in between ------------------------------------------------ */

static const struct { const char *name; over over; fx_stage provides; fx_status (*run)(fx_lower *l); } passes[] = {
#define PASS(name, over, requires, provides, doc) {#name, over, provides, fx_pass_##name},
#include "lower/pass.def"
#undef PASS
};

typedef struct lower_job {
    const char *text;
    fx_fault fault;
    lines *out;
} lower_job;

static fx_status run_lower(void *arg)
{
    lower_job *j = arg;
    fx_graph *g;
    fx_lower_options o = {.threads = 8, .fault = j->fault, .unproved_warn = true, .proof = keep, .proof_user = j->out, .off = FX_OFF(SCHEDULE)};
    FX_TRY(fx_target_get(ctx, "generic", &o.target));
    FX_TRY(fx_graph_parse(ctx, "t", j->text, strlen(j->text), &g));
    fx_lower l = {.ctx = ctx, .graph = g, .opt = &o};
    memset(j->out, 0, sizeof *j->out);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (passes[i].over == GRAPH && passes[i].provides < g->stage)
            continue;
        l.scratch = fx_arena_create(ctx);
        l.piece = fx_arena_create(ctx);
        FX_TRY(passes[i].run(&l));
        fx_arena_free(l.piece);
        fx_arena_free(l.scratch);
        if (passes[i].over == GRAPH && g->stage < passes[i].provides)
            g->stage = passes[i].provides;
    }
    return FX_OK;
}

START_TEST(faults_are_found)
{
    static const struct { fx_fault fault; const char *body, *missing; } cases[] = {
        /* v lives past the step that makes z */
        {FX_FAULT_FREE_EARLY,
         "%v : f32[64, 64] = call_function[aten.mm](%x, %x)\n%w : f32[64, 64] = call_function[aten.mm](%v, %x)\n"
         "%z : f32[64, 64] = call_function[aten.mm](%w, %x)\n%y : f32[64, 64] = call_function[aten.mm](%z, %v)\n",
         "lie on one another in the arena while both live"},
        {FX_FAULT_MAP_OFF_BY_ONE,
         "%v : f32[64, 62] = call_function[aten.slice.Tensor](%x, 1, 2, 64, 1)\n%y : f32[64, 62] = call_function[aten.relu](%v)\n",
         "the load of 'x' is not proved to be within its 4096 elements"},
        {FX_FAULT_PARALLEL_REDUCTION, "%y : f32[64] = call_function[aten.sum.dim_IntList](%x, [0], False)\n", "iterations"},
        {FX_FAULT_FUSE_ACROSS_WRITE,
         "%v : f32[64, 1] = call_function[aten.sum.dim_IntList](%x, [1], True)\n%w : f32[64, 1] = call_function[aten.flip](%v, [0])\n"
         "%z : f32[64, 1] = call_function[aten.add.Tensor](%v, %w)\n%u : f32[1, 64] = call_function[aten.permute](%z, [1, 0])\n"
         "%t : f32[64, 64] = call_function[aten.mm](%z, %u)\n%y : f32[64, 64] = call_function[aten.relu](%t)\n",
         "lie on one another in the arena while both live"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int faulty = 0; faulty < 2; faulty++) {
            lines l;
            lower_job j = {.fault = faulty ? cases[i].fault : FX_FAULT_NONE, .out = &l};
            j.text = fx_arena_printf(fx_context_arena(ctx), "graph \"g\" imported\n\n%%x : f32[64, 64] = placeholder[x]\n%soutput((%%y,))\n", cases[i].body);
            ck_assert_msg(fx_protect(ctx, run_lower, &j) == FX_OK, "%s", unit_message(ctx));
            const char *missing = NULL;
            for (int k = 0; k < l.n; k++)
                if (!l.proved[k] && strstr(l.text[k], cases[i].missing))
                    missing = l.text[k];
            ck_assert_msg((missing != NULL) == faulty && (faulty || l.unproved == 0), "fault %d of case %zu: %d of %d lines not proved, '%s'", faulty, i,
                          l.unproved, l.n, l.n ? l.text[l.n - 1] : "");
        }
    }
}
END_TEST

/* ---- kernels ------------------------------------------------------------------------------------------------------------------ */

static void check_gemm(const char *fields, const char *line)
{
    lines l;
    fx_program *p = parsed(fx_arena_printf(
        fx_context_arena(ctx),
        "program \"t\"\n%ssizes arena=0 weights=256 live=0 hash=0x0000000000000000\n"
        "buffer x : input 0 f32[4, 8]\nbuffer y : output 0 f32[4, 8]\nbuffer w : weight f32[64] offset=64 hash=0x00000000000000ff\n"
        "input x \"x\" = x f32[4, 8]\noutput y \"y\" = y f32[4, 8]\n\n"
        "step s {\n call gemm s(x=x, w=w, b=null, r=null, %s, act=0, act_a=0.0, act_b=0.0}\n}\n", target, fields));
    prove(p, true, &l);
    for (int i = 0; i < l.n; i++)
        if (strstr(l.text[i], line))
            return;
    ck_abort_msg("expected '%s', got '%s'", line, l.text[0]);
}

START_TEST(kernel_calls)
{
    check_gemm("y=y) {batch=1, m=4, n=8, k=8, x_b=0, x_m=8, y_b=0, y_m=8, r_b=0, r_m=0, w_b=0, w_k=1, w_n=8", "s: call gemm: arguments within their buffers, preconditions; footprint");
    check_gemm("y=y) {batch=1, m=5, n=8, k=8, x_b=0, x_m=8, y_b=0, y_m=8, r_b=0, r_m=0, w_b=0, w_k=1, w_n=8", "argument x: elements [0, 39] of 'x' are not proved to be below 32");
    check_gemm("y=y+1) {batch=1, m=4, n=8, k=8, x_b=0, x_m=8, y_b=0, y_m=8, r_b=0, r_m=0, w_b=0, w_k=1, w_n=8", "argument y: elements [1, 32] of 'y'");
    check_gemm("y=x) {batch=1, m=4, n=8, k=8, x_b=0, x_m=8, y_b=0, y_m=8, r_b=0, r_m=0, w_b=0, w_k=1, w_n=8", "argument y may overlap x, both in 'x'");
    /* the first half of each row to the second */
    check_gemm("y=x+4) {batch=1, m=4, n=4, k=4, x_b=0, x_m=8, y_b=0, y_m=8, r_b=0, r_m=0, w_b=0, w_k=1, w_n=8", "preconditions; footprint");
}
END_TEST

/* Vectors by channel are as long as the convolution has channels, and lie on nothing that it writes. */
START_TEST(gpu_convolutions)
{
    static const struct {
        const char *from, *to, *line;
    } cases[] = {
        {"scale=scale", "scale=scale", "before: call conv2d_pre: arguments within their buffers, preconditions; footprint"},
        {"scale=scale", "scale=null", "before: call conv2d_pre: arguments within their buffers, preconditions; footprint"},
        {"gain=gain", "gain=gain", "after: call conv2d_post: arguments within their buffers, preconditions; footprint"},
        {"scale=scale", "scale=scale+1", "argument scale: elements [1, 2] of 'scale' are not proved to be below 2"},
        {"shift=shift", "shift=far", "argument shift: elements [0, 1] of 'far' are not proved to be below 1"},
        {"gain=gain", "gain=far", "argument gain: elements [0, 1] of 'far' are not proved to be below 1"},
        {"shift=shift, y=a", "shift=a, y=a", "argument y may overlap shift, both in 'a'"},
        {"r=x, gain=gain, y=y", "r=y+1, gain=gain, y=y", "argument r: elements [1, 32] of 'y' are not proved to be below 32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lines l;
        const char *text = replaced(GPU_CONVOLUTIONS, cases[i].from, cases[i].to);
        prove(parsed(text), true, &l);
        has_line(&l, cases[i].line, text);
    }
}
END_TEST

/* Sums in parts: room for each, a counter a tile. */
START_TEST(split_convolutions)
{
    static const struct {
        const char *from, *to, *line;
    } cases[] = {
        {"ws=room", "ws=room", "s: call conv2d: arguments within their buffers, preconditions; footprint"},
        {"arena f32[4096]", "arena f32[4095]", "its sums are made in parts, which need sizes that are numbers, 4096 floats of workspace and 1 counters"},
        {"ws=room", "ws=null", "its sums are made in parts, which need sizes that are numbers, 4096 floats of workspace and 1 counters"},
        {"counter i32[1]", "counter i32[0]", "its sums are made in parts, which need sizes that are numbers, 4096 floats of workspace and 1 counters"},
        {"counters=64", "counters=0", "'counts' does not lie within the counters"},
        {"counter i32[1]", "counter i32[1] offset=32", "'counts' lies on the counters before it, or is not aligned"},
        {"step s {\n", "step t {\n" SPLIT_CALL("null") "}\n\nstep s {\n", "'counts' is used by several steps"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lines l;
        const char *text = replaced(SPLIT_CONVOLUTION, cases[i].from, cases[i].to);
        prove(parsed(text), i == 0, &l);
        has_line(&l, cases[i].line, text);
    }
}
END_TEST

/* Steps on streams of their own: one that reads what another one writes, one that writes where another one's buffer lies. Verifier and prover each say so. */
START_TEST(streams_that_meet)
{
    static const struct {
        const char *c_offset, *from, *missing;
    } cases[] = {{"256", "x", NULL}, {"256", "a", "may touch the same elements of 'a'"}, {"0", "x", "lie on one another"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[3000];
        lines out;
        snprintf(text, sizeof text,
                 "program \"t\"\n%ssizes arena=512 weights=64 live=512 hash=0x0000000000000000\nbuffer x : input 0 f32[8, 8]\nbuffer y : output 0 f32[8, 8]\n"
                 "buffer a : arena f32[8, 8] offset=0\nbuffer c : arena f32[8, 8] offset=%s\ninput x \"x\" = x f32[8, 8]\noutput y \"y\" = y f32[8, 8]\n"
                 "step s region=1 stream=0 {\n    for v0 in 64 {\n        a[v0] = x[v0]\n    }\n}\nstep t region=1 stream=1 {\n    for v0 in 64 {\n        c[v0] = %s[v0]\n    }\n}\n"
                 "step u {\n    for v0 in 64 {\n        y[v0] = add.f32(a[v0], c[v0])\n    }\n}\n",
                 target, cases[i].c_offset, cases[i].from);
        fx_program *p = parsed(text);
        if (cases[i].c_offset[0] == '0')
            p->arena_size = 256;
        ck_assert_int_eq(fx_program_verify(p, true, "t") == FX_OK, !cases[i].missing);
        ck_assert_int_eq(prove(p, true, &out), FX_OK);
        ck_assert_int_eq(out.unproved > 0, cases[i].missing != NULL);
        if (cases[i].missing)
            has_line(&out, cases[i].missing, text);
    }
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, proved_by);
    tcase_add_test(t, what_never_runs_does_not_meet);
    tcase_add_test(t, refused);
    tcase_add_test(t, error_or_warning);
    tcase_add_test(t, with_symbols);
    tcase_add_test(t, slots_of_open_sizes);
    tcase_add_test(t, random_nests);
    tcase_add_test(t, random_inplace);
    tcase_add_test(t, faults_are_found);
    tcase_add_test(t, kernel_calls);
    tcase_add_test(t, gpu_convolutions);
    tcase_add_test(t, split_convolutions);
    tcase_add_test(t, streams_that_meet);
}

int main(void)
{
    return unit_run("prove", 300, set_up, tear_down, add);
}
