/* tests/unit/test_barriers.c: loops over blocks and threads with barriers: what the verifier and the prover say of them, what the interpreter
 * computes, and random ones against enumeration.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "tests/unit/draw.h"
#include "tests/unit/program_text.h"
#include "tests/unit/proving.h"

/* ---- the two judges -------------------------------------------------------------------------------------------------------- */

static bool verified(const char *text, fx_text *messages)
{
    fx_program *p;
    return verify_text(text, false, messages, &p) == FX_OK;
}

/* ---- by hand ----------------------------------------------------------------------------------------------------------------- */

/* A tile in shared memory: each thread stores a column of it, all wait, each loads a row; so for each of four tiles. */
static const char *const tiles = HEAD("gpu")
    "symbol s0 in [0, 64]\n"
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[256, 8]\nbuffer y : output 0 f32[8, 8]\nbuffer tile : local f32[8, 8]\nbuffer n : input 1 f32[s0]\n"
    "input x \"x\" = x f32[256, 8]\ninput n \"n\" = n f32[s0]\noutput y \"y\" = y f32[8, 8]\n\n"
    "step s {\n"
    "    for v0 in 8 block x {\n"
    "        array tile\n"
    "        for v1 in 8 thread x {\n"
    "            local t0 = 0.0:f32\n"
    "            for v4 in 4 {\n"
    "                for v2 in 8 {\n"
    "                    tile[v1 + 8*v2] = x[256*v0 + 64*v4 + v1 + 8*v2]\n"
    "                }\n"
    "                barrier\n"
    "                for v3 in 8 {\n"
    "                    t0 = add.f32(t0:f32, tile[8*v1 + v3])\n"
    "                }\n"
    "                barrier\n"
    "            }\n"
    "            y[8*v0 + v1] = t0:f32\n"
    "        }\n"
    "    }\n"
    "}\n";

#define LAST "                }\n                barrier\n            }\n"

/* verifier, prover: what they say; NULL: nothing. */
static const struct {
    const char *from, *to, *verifier, *prover;
} cases[] = {
    {"step s", "step s", NULL, NULL},
    /* the barrier between store and load is missing; that between load and the next tile's store is */
    {"                barrier\n                for v3", "                for v3", "the thread loop v1 loads elements of 'tile' that other iterations store",
     "iterations of v1 may meet: the store to 'tile' at v1 + 8*v2 and the load of 'tile' at 8*v1 + v3"},
    {LAST, "                }\n            }\n", "the thread loop v1 loads elements of 'tile' that other iterations store",
     "iterations of v1 may meet: the store to 'tile' at v1 + 8*v2 and the load of 'tile' at 8*v1 + v3"},
    /* one tile alone needs no second barrier; the verifier does not count rounds */
    {LAST "            y[8*v0 + v1] = t0:f32\n", "                }\n                y[8*v0 + v1] = t0:f32\n            }\n",
     "the thread loop v1 loads elements of 'tile' that other iterations store", "iterations of v1 may meet"},
    /* a thread's own elements need no barrier */
    {"tile[v1 + 8*v2] = x[256*v0 + 64*v4 + v1 + 8*v2]\n                }\n                barrier\n", "tile[8*v1 + v2] = x[256*v0 + 64*v4 + 8*v1 + v2]\n                }\n", NULL, NULL},
    /* two threads at one element, whatever waits */
    {"tile[v1 + 8*v2] =", "tile[8*v2] =", "iterations of the thread loop v1 store to the same elements of 'tile'", "iterations of v1 may meet: the store to 'tile'"},
    {"y[8*v0 + v1] =", "y[8*v0] =", "iterations of the thread loop v1 store to the same elements of 'y'", "iterations of v1 may meet: the store to 'y'"},
    /* nor does a loop that never runs excuse what is beside it */
    {"            y[8*v0 + v1] = t0:f32\n", "            for v9 in 0 {\n            }\n            y[8*v0] = t0:f32\n",
     "iterations of the thread loop v1 store to the same elements of 'y'", "iterations of v1 may meet: the store to 'y'"},
    /* barriers do not stand between blocks */
    {"y[8*v0 + v1] =", "y[v1] =", "iterations of the block loop v0 store to the same elements of 'y'", "iterations of v0 may meet: the store to 'y' at v1"},
    {"            y[8*v0 + v1] = t0:f32\n", "            y[8*v0 + v1] = t0:f32\n            barrier\n            t0 = y[v1]\n",
     "the block loop v0 loads elements of 'y' that other iterations store", "iterations of v0 may meet: the store to 'y'"},
    /* not all threads come there */
    {"                barrier\n                for v3", "                if v1 - 3 >= 0 {\n                barrier\n                }\n                for v3",
     "a barrier is inside a guard", "a barrier that not all threads of the block need reach"},
    {"                barrier\n                for v3", "                for v9 in 2 vector {\n                barrier\n                }\n                for v3",
     "the vector loop v9 is inside a block loop", "a barrier that not all threads of the block need reach"},
    {"for v1 in 8 thread x", "for v1 in 8", "a barrier is outside any thread loop", "a barrier outside the threads of a block"},
    {"for v0 in 8 block x", "for v0 in 8", "the thread loop v1 is outside any block loop", "a barrier outside the threads of a block"},
    {"    }\n}\n", "        for v5 in 16 thread x {\n        }\n    }\n}\n", NULL, "a barrier that not all threads of the block reach: loop v5 runs over others"},
    {"    }\n}\n", "        for v5 in 2 thread y {\n        }\n    }\n}\n", NULL, "a barrier that not all threads of the block reach: loop v5 runs over others"},
    {"            local t0 = 0.0:f32\n", "            for v5 in 8 thread x {\n            }\n            local t0 = 0.0:f32\n", NULL, "loop v5 runs over the threads that loop v1 runs over already"},
    /* loops over threads one after another: the end of each is a barrier */
    {"    }\n}\n", "        for v5 in 8 thread x {\n            y[8*v0 + v5] = tile[63]\n        }\n    }\n}\n", NULL, NULL},
    /* a barrier in a loop that may not run stands between nothing */
    {"                barrier\n                for v3", "                for v9 in s0 {\n                barrier\n                barrier\n                }\n                for v3",
     "the thread loop v1 loads elements of 'tile' that other iterations store", "iterations of v1 may meet"},
    /* in one that runs it does: the verifier takes no account of extents */
    {"                barrier\n                for v3", "                for v9 in 2 {\n                barrier\n                barrier\n                }\n                for v3",
     "the thread loop v1 loads elements of 'tile' that other iterations store", NULL},
};

START_TEST(by_hand)
{
    const char *text = replaced(tiles, cases[_i].from, cases[_i].to);
    fx_text messages;
    proof_lines l;
    bool ok = verified(text, &messages);
    ck_assert_msg(ok == !cases[_i].verifier && (ok || strstr(messages.data, cases[_i].verifier)), "verifier: expected '%s', got '%s' of\n%s", cases[_i].verifier, messages.data, text);
    ok = proved(text, &l);
    ck_assert_msg(ok == !cases[_i].prover && (ok || strstr(l.missing, cases[_i].prover)), "prover: expected '%s', got '%s' of\n%s", cases[_i].prover, l.missing, text);
}
END_TEST

/* ---- guards ------------------------------------------------------------------------------------------------------------------ */

/* A transposition by tiles whose last ones are not full: [n, 40] to [40, n]. Only the guards keep a tile's threads in their row. */
static const char *const edges = HEAD("gpu")
    "symbol s0 in [0, 1000]\n"
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[s0, 40]\nbuffer y : output 0 f32[40, s0]\nbuffer tile : local f32[32, 33]\n"
    "input x \"x\" = x f32[s0, 40]\noutput y \"y\" = y f32[40, s0]\n\n"
    "step s {\n"
    "    for v0 in ((s0 + 31)//32) block x {\n"
    "        for v1 in 2 block y {\n"
    "            array tile\n"
    "            for v2 in 8 thread y {\n"
    "                for v3 in 32 thread x {\n"
    "                    for v4 in 4 {\n"
    "                        if -32*v1 - v3 + 39 >= 0 && -32*v0 - v2 - 8*v4 + (s0 - 1) >= 0 {\n"
    "                            tile[33*v2 + v3 + 264*v4] = x[1280*v0 + 32*v1 + 40*v2 + v3 + 320*v4]\n"
    "                        }\n"
    "                    }\n"
    "                }\n"
    "            }\n"
    "            for v5 in 8 thread y {\n"
    "                for v6 in 32 thread x {\n"
    "                    for v7 in 4 {\n"
    "                        if -32*v0 - v6 + (s0 - 1) >= 0 && -32*v1 - v5 - 8*v7 + 39 >= 0 {\n"
    "                            y[32*v0 + (32*s0)*v1 + (s0)*v5 + v6 + (8*s0)*v7] = tile[v5 + 33*v6 + 8*v7]\n"
    "                        }\n"
    "                    }\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

/* What the verifier and the prover say; NULL: nothing, of either. */
static const struct {
    const char *from, *to, *verifier, *prover;
} edge_cases[] = {
    {"step s", "step s", NULL, NULL},
    /* no guard along x: a row's last tile is the next row's */
    {"if -32*v0 - v6 + (s0 - 1) >= 0 && -32*v1 - v5 - 8*v7 + 39 >= 0", "if -32*v1 - v5 - 8*v7 + 39 >= 0", "iterations of the thread loop v6 store to the same elements of 'y'",
     "iterations of v0 may meet: the store to 'y'"},
    /* one that lets a row's end be the next one's beginning */
    {"-32*v0 - v6 + (s0 - 1) >= 0", "-32*v0 - v6 + (s0) >= 0", "iterations of the thread loop v6 store to the same elements of 'y'", "iterations of v0 may meet: the store to 'y'"},
    /* one that says nothing of the last thread */
    {"-32*v0 - v6 + (s0 - 1) >= 0", "-32*v0 + (s0 - 1) >= 0", "iterations of the thread loop v6 store to the same elements of 'y'", "iterations of v0 may meet: the store to 'y'"},
    /* tiles of 33 columns, 32 apart: guards keep them in their row, but two have one column */
    {"for v6 in 32 thread x", "for v6 in 33 thread x", "iterations of the block loop v0 store to the same elements of 'y'", "iterations of v0 may meet: the store to 'y'"},
    {"for v5 in 8 thread y", "for v5 in 9 thread y", "iterations of the thread loop v5 store to the same elements of 'y'", "iterations of v1 may meet: the store to 'y'"},
};

START_TEST(by_guards)
{
    const char *text = replaced(edges, edge_cases[_i].from, edge_cases[_i].to);
    fx_text messages;
    proof_lines l;
    bool ok = verified(text, &messages);
    ck_assert_msg(ok == !edge_cases[_i].verifier && (ok || strstr(messages.data, edge_cases[_i].verifier)), "case %d, verifier: %.400s", _i, messages.data);
    ok = proved(text, &l);
    ck_assert_msg(ok == !edge_cases[_i].prover && (ok || strstr(l.missing, edge_cases[_i].prover)), "case %d, prover: %s", _i, l.missing);
    if (ok)
        ck_assert_msg(strstr(l.by, "guards") != NULL, "%s", l.by);
}
END_TEST

/* ---- run ------------------------------------------------------------------------------------------------------------------------ */

static float *filled(fx_tensor *t, int64_t n)
{
    *t = (fx_tensor){.dtype = FX_F32, .rank = 1, .sizes = {n}, .strides = {1}, .data = fx_arena_array(fx_context_arena(ctx), (size_t)n + 1, sizeof(float))};
    for (int64_t i = 0; i < n; i++)
        ((float *)t->data)[i] = (float)(i * 37 % 101 - 50);
    return t->data;
}

static const float *result(const char *text, size_t n_in, const fx_tensor *in)
{
    fx_program *p;
    fx_text messages;
    fx_tensor *out;
    size_t n_out;
    ck_assert_msg(verify_text(text, false, &messages, &p) == FX_OK, "%s", messages.data);
    ck_assert_msg(fx_program_run(p, false, n_in, in, &n_out, &out) == FX_OK, "%s", unit_message(ctx));
    return out[0].data;
}

/* The interpreter waits at barriers: what another thread stored before one is there behind it. */
START_TEST(threads_wait)
{
    fx_tensor in[2];
    const float *x = filled(&in[0], 256 * 8);
    in[0].rank = 2;
    in[0].sizes[0] = 256;
    in[0].sizes[1] = in[0].strides[0] = 8;
    in[0].strides[1] = 1;
    filled(&in[1], 3);
    const float *y = result(tiles, 2, in);
    for (int b = 0; b < 8; b++)
        for (int t = 0; t < 8; t++) {
            float sum = 0;
            for (int k = 0; k < 4; k++)
                for (int e = 0; e < 8; e++)
                    sum += x[256 * b + 64 * k + 8 * t + e];
            ck_assert_float_eq(y[8 * b + t], sum);
        }
    /* threads on two axes, each with an array and locals of its own, in rounds: every thread gets what its opposite one had */
    y = result(HEAD("gpu") "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\nbuffer x : input 0 f32[12]\nbuffer y : output 0 f32[12]\n"
               "buffer tile : local f32[12]\nbuffer own : local f32[2]\ninput x \"x\" = x f32[12]\noutput y \"y\" = y f32[12]\n\n"
               "step s {\n for v0 in 1 block x {\n array tile\n for v1 in 4 thread y {\n for v2 in 3 thread x {\n array own\n own[0] = x[3*v1 + v2]\n"
               " for v3 in 3 {\n local t0 = add.f32(own[0], 1.0:f32)\n tile[3*v1 + v2] = t0:f32\n barrier\n own[1] = tile[-3*v1 - v2 + 11]\n barrier\n own[0] = own[1]\n }\n"
               " y[3*v1 + v2] = own[0]\n }\n }\n }\n}\n", 1, (filled(&in[0], 12), in));
    for (int i = 0; i < 12; i++)
        ck_assert_float_eq(y[i], ((float *)in[0].data)[11 - i] + 3);
}
END_TEST

/* ---- random threads against enumeration ---------------------------------------------------------------------------------------- */

enum { THREADS = 3, ELEMENTS = 16 };

/* What one thread does, as a list in prefix order: END closes a loop. */
typedef enum op { STORE, LOAD, BARRIER, LOOP, END } op;
typedef struct item {
    op op;
    int base, thread, round, extent; /* index: base + thread * v1 + round * (the innermost loop's variable) */
} item;

static int draw_items(item *v, int n, int most, int depth)
{
    for (int left = 1 + (int)draw(4); left > 0 && n < most; left--) {
        int what = (int)draw(depth < 2 ? 8 : 6);
        if (what >= 6) {
            v[n++] = (item){.op = LOOP, .extent = (int)draw(3)};
            n = draw_items(v, n, most, depth + 1);
            v[n++] = (item){.op = END};
        } else {
            v[n++] = (item){.op = what < 2 ? BARRIER : what < 4 ? STORE : LOAD, .base = (int)draw(5), .thread = (int)draw(4), .round = (int)draw(3)};
        }
    }
    return n;
}

typedef struct course {
    int thread, phase, round;     /* barriers passed */
    int written[64][ELEMENTS], read[64][ELEMENTS]; /* sets of threads */
} course;

static void follow(course *c, const item *v, int *at, int n)
{
    for (; *at < n && v[*at].op != END; ++*at) {
        const item *i = &v[*at];
        int e = i->base + i->thread * c->thread + i->round * c->round;
        if (i->op == BARRIER) {
            c->phase++;
        } else if (i->op == LOOP) {
            int start = *at + 1, round = c->round, after = start;
            for (int depth = 1; depth > 0; after++)
                depth += v[after].op == LOOP ? 1 : v[after].op == END ? -1 : 0;
            for (c->round = 0; c->round < i->extent; c->round++) {
                *at = start;
                follow(c, v, at, n);
            }
            c->round = round;
            *at = after - 1;
        } else {
            ck_assert_int_lt(c->phase, 64);
            ck_assert_int_lt(e, ELEMENTS);
            (i->op == STORE ? c->written : c->read)[c->phase][e] |= 1 << c->thread;
        }
    }
}

static bool races(const item *v, int n)
{
    static course c;
    memset(&c, 0, sizeof c);
    for (c.thread = 0; c.thread < THREADS; c.thread++) {
        int at = 0;
        c.phase = c.round = 0;
        follow(&c, v, &at, n);
    }
    for (int p = 0; p < 64; p++)
        for (int e = 0; e < ELEMENTS; e++) {
            int w = c.written[p][e], all = w | c.read[p][e];
            if (w && (all & (all - 1)))
                return true;
        }
    return false;
}

static const char *text_of(const item *v, int n)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, HEAD("gpu") "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\nbuffer x : input 0 f32[16]\nbuffer y : output 0 f32[16]\nbuffer tile : local f32[16]\n"
            "input x \"x\" = x f32[16]\noutput y \"y\" = y f32[16]\n\nstep s {\nfor v0 in 2 block x {\narray tile\nfor v1 in 3 thread x {\nlocal t0 = 0.0:f32\n");
    int loops[8] = {-1}, depth = 0, next = 2;
    for (int i = 0; i < n; i++) {
        const char *index = fx_arena_printf(fx_context_arena(ctx), "%d*v1%s + %d", v[i].thread,
                                            depth && v[i].round ? fx_arena_printf(fx_context_arena(ctx), " + %d*v%d", v[i].round, loops[depth]) : "", v[i].base);
        switch (v[i].op) {
        case BARRIER: fx_puts(&t, "barrier\n"); break;
        case STORE: fx_printf(&t, "tile[%s] = t0:f32\n", index); break;
        case LOAD: fx_printf(&t, "t0 = tile[%s]\n", index); break;
        case LOOP: fx_printf(&t, "for v%d in %d {\n", loops[++depth] = next++, v[i].extent); break;
        case END: fx_puts(&t, "}\n"); depth--; break;
        }
    }
    fx_puts(&t, "}\n}\nfor v90 in 16 {\ny[v90] = x[v90]\n}\n}\n");
    return t.data;
}

/* What is proved or verified does not race; most of what does not race is proved, without barriers all of it. */
START_TEST(random_threads)
{
    int free_of_races = 0, by_prover = 0, by_verifier = 0, racing = 0;
    seed = 2463534242u;
    for (int i = 0; i < 4000; i++) {
        item v[40];
        int n = draw_items(v, 0, 24, 0);
        bool race = races(v, n), barriers = false;
        for (int k = 0; k < n; k++)
            barriers |= v[k].op == BARRIER;
        const char *text = text_of(v, n);
        fx_text messages;
        proof_lines l;
        bool p = proved(text, &l), q = verified(text, &messages);
        ck_assert_msg(!p || !race, "proved what races:\n%s", text);
        ck_assert_msg(!q || !race, "verified what races:\n%s", text);
        ck_assert_msg(p || race || barriers, "not proved: %s\n%s", l.missing, text);
        racing += race;
        free_of_races += !race;
        by_prover += p;
        by_verifier += q;
        if (i % 50 == 0) {
            tear_down();
            set_up();
        }
    }
    ck_assert_int_gt(racing, 800);
    ck_assert_int_gt(free_of_races, 800);
    ck_assert_msg(by_prover * 100 >= free_of_races * 90 && by_verifier * 100 >= free_of_races * 40, "of %d without races %d proved, %d verified", free_of_races, by_prover, by_verifier);
    printf("%d race; of %d that do not %d are proved, %d verified\n", racing, free_of_races, by_prover, by_verifier);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_loop_test(t, by_hand, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(t, by_guards, 0, sizeof edge_cases / sizeof *edge_cases);
    tcase_add_test(t, threads_wait);
    tcase_add_test(t, random_threads);
}

int main(void)
{
    return unit_run("barriers", 300, set_up, tear_down, add);
}
