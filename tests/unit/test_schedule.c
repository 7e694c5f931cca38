/* tests/unit/test_schedule.c: the schedule pass: what it does to plain nests, and that random programs compute the same bits after it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <stdio.h>

#include "lower/lower.h"
#include "tests/unit/draw.h"
#include "tests/unit/fixture.h"

/* Caches so small that small nests are worth tiling. */
static const char *const target =
    "target name=\"generic\" cflags=\"\" lanes=1 fma=false mr=4 nr=4 l1=1024 l2=262144 pointer_bits=64 isa=\"generic\"\n";

typedef struct job {
    fx_program *p;
    unsigned off;
    bool all;                     /* memory and prove too */
} job;

static fx_status run_passes(void *arg)
{
    job *j = arg;
    fx_lower_options o = {.off = j->off};
    fx_lower l = {.ctx = ctx, .program = j->p, .opt = &o, .scratch = fx_arena_create(ctx), .piece = fx_arena_create(ctx)};
    FX_TRY(fx_pass_schedule(&l));
    FX_TRY(fx_program_verify(j->p, false, "schedule"));
    if (!j->all)
        return FX_OK;
    FX_TRY(fx_pass_memory(&l));
    FX_TRY(fx_program_verify(j->p, true, "memory"));
    return fx_pass_prove(&l);
}

static const char *text_of(const fx_program *p)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_program_print(&t, p);
    return strstr(t.data, "\nstep ");
}

static void schedule(fx_program *p, unsigned off, bool all)
{
    job j = {p, off, all};
    ck_assert_msg(fx_protect(ctx, run_passes, &j) == FX_OK, "%s\n%.2000s", unit_message(ctx), text_of(p));
}

static fx_program *parsed(const char *text)
{
    fx_program *p;
    fx_status s = fx_program_parse(ctx, "t", text, strlen(text), &p);
    ck_assert_msg(s == FX_OK, "%s\n%s", unit_message(ctx), text);
    return p;
}

static bool said(const char *what)
{
    for (size_t i = 0; i < fx_diag_count(ctx); i++)
        if (strstr(fx_diag_get(ctx, i)->message, what))
            return true;
    return false;
}

static const char *const buffers =
    "sizes arena=0 weights=64 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[24, 24]\nbuffer y : output 0 f32[24, 24]\nbuffer t : arena f32[24, 24]\n"
    "input x \"x\" = x f32[24, 24]\noutput y \"y\" = y f32[24, 24]\n\n";

static void check(const char *steps, const char *expected, const char *remark)
{
    fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx), "program \"t\"\n%s%s%s", target, buffers, steps));
    fx_diag_clear(ctx);
    schedule(p, 0, false);
    ck_assert_str_eq(text_of(p), expected);
    if (remark)
        ck_assert_msg(said(remark), "expected a remark '%s', got '%s'", remark, unit_message(ctx));
    else
        ck_assert_uint_eq(fx_diag_count(ctx), 0);
}

START_TEST(transposed_copy_is_tiled)
{
    const char *source = "\nstep s {\n    for v0 in 24 parallel \"i\" {\n        for v1 in 24 vector \"j\" {\n            y[24*v0 + v1] = x[v0 + 24*v1]\n        }\n    }\n}\n";
    check(source,
          "\nstep s {\n    for v2 in 3 parallel \"i_tile\" {\n        for v3 in 3 \"j_tile\" {\n            for v4 in 8 \"i\" {\n                for v5 in 8 vector \"j\" {\n"
          "                    y[192*v2 + 8*v3 + 24*v4 + v5] = x[8*v2 + 192*v3 + v4 + 24*v5]\n                }\n            }\n        }\n    }\n}\n",
          "step s: loops tiled");
    fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx), "program \"t\"\n%s%s%s", target, buffers, source));
    schedule(p, FX_OFF(SCHEDULE), false);
    ck_assert_str_eq(text_of(p), source);
}
END_TEST

START_TEST(wrong_order_is_interchanged)
{
    check("\nstep s {\n    for v0 in 24 \"i\" {\n        for v1 in 24 \"j\" {\n            y[v0 + 24*v1] = x[v0 + 24*v1]\n        }\n    }\n}\n",
          "\nstep s {\n    for v2 in 24 \"j\" {\n        for v3 in 24 vector \"i\" {\n            y[24*v2 + v3] = x[24*v2 + v3]\n        }\n    }\n}\n", "step s: loops interchanged");
    /* each row from the row before: columns may run together, rows stay in order, and nothing strides: source order */
    const char *carried = "\nstep s {\n    for v0 in 23 {\n        for v1 in 24 vector {\n            y[24*v0 + v1 + 24] = y[24*v0 + v1]\n        }\n    }\n}\n";
    check(fx_arena_printf(fx_context_arena(ctx), "\nstep f {\n    for v0 in 576 {\n        y[v0] = 0.0:f32\n    }\n}\n%s", carried),
          fx_arena_printf(fx_context_arena(ctx), "\nstep f {\n    for v0 in 576 {\n        y[v0] = 0.0:f32\n    }\n}\n%s", carried), NULL);
    /* the same with the strided loop inside: it would pay, and dependences forbid tiles of both */
    check("\nstep f {\n    for v0 in 576 {\n        y[v0] = 0.0:f32\n    }\n}\n\nstep s {\n    for v0 in 23 {\n        for v1 in 23 {\n            y[v0 + 24*v1 + 25] = y[v0 + 24*v1]\n        }\n    }\n}\n",
          "\nstep f {\n    for v0 in 576 {\n        y[v0] = 0.0:f32\n    }\n}\n\nstep s {\n    for v0 in 23 {\n        for v1 in 23 {\n            y[v0 + 24*v1 + 25] = y[v0 + 24*v1]\n        }\n    }\n}\n",
          "step s: source order: dependences forbid another");
}
END_TEST

START_TEST(column_sums_are_dense)
{
    check("\nstep s {\n    for v0 in 24 \"c\" {\n        local t0 = 0.0:f32\n        for v1 in 24 \"r\" {\n            t0 = add.f32(t0:f32, x[v0 + 24*v1])\n        }\n        y[v0] = div.f32(t0:f32, 24.0:f32)\n    }\n"
          "    for v2 in 552 {\n        y[v2 + 24] = 0.0:f32\n    }\n}\n",
          "\nstep s {\n    array t0_tile\n    for v3 in 24 vector \"c\" {\n        t0_tile[v3] = 0.0:f32\n    }\n    for v4 in 24 {\n        for v5 in 24 vector \"c\" {\n"
          "            t0_tile[v5] = add.f32(t0_tile[v5], x[24*v4 + v5])\n        }\n    }\n    for v6 in 24 vector \"c\" {\n        y[v6] = div.f32(t0_tile[v6], 24.0:f32)\n    }\n"
          "    for v2 in 552 {\n        y[v2 + 24] = 0.0:f32\n    }\n}\n",
          "step s: loops sunk");
}
END_TEST

START_TEST(steps_are_fused)
{
    const char *first = "\nstep a \"a: square\" shapes=\"24x24 -> 24x24\" flops=576 {\n    for v0 in 24 parallel {\n        local t0 = 0.0:f32\n        for v1 in 24 {\n            t0 = add.f32(t0:f32, x[24*v0 + v1])\n        }\n"
                        "        t[v0] = t0:f32\n    }\n}\n";
    check(fx_arena_printf(fx_context_arena(ctx), "%s\nstep b \"b: subtract\" shapes=\"24x24 -> 24x24\" flops=576 {\n    for v0 in 24 {\n        for v1 in 24 vector {\n            y[24*v0 + v1] = sub.f32(x[24*v0 + v1], t[v0])\n        }\n    }\n}\n", first),
          "\nstep b \"a: square; b: subtract\" shapes=\"24x24 -> 24x24\" flops=1152 {\n    for v0 in 24 parallel {\n        local t1 = 0.0:f32\n        for v3 in 24 {\n            t1 = add.f32(t1:f32, x[24*v0 + v3])\n        }\n"
          "        local t0 = t1:f32\n        for v1 in 24 vector {\n            y[24*v0 + v1] = sub.f32(x[24*v0 + v1], t0:f32)\n        }\n    }\n}\n",
          "step b: fused with a before it; 't' is a local");
    /* the neighbour's element is read; the value is read twice by others; sizes differ */
    static const char *const others[] = {
        "\nstep b {\n    for v0 in 24 {\n        y[v0] = t[-v0 + 23]\n    }\n    for v1 in 552 {\n        y[v1 + 24] = 0.0:f32\n    }\n}\n",
        "\nstep b {\n    for v0 in 24 {\n        y[v0] = t[v0]\n    }\n}\n\nstep c {\n    for v0 in 552 {\n        y[v0 + 24] = t[0]\n    }\n}\n",
        "\nstep b {\n    for v0 in 12 {\n        y[v0] = t[v0]\n    }\n}\n",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *all = fx_arena_printf(fx_context_arena(ctx), "%s%s", first, others[i]);
        fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx), "program \"t\"\n%s%s%s", target, buffers, all));
        size_t n = p->n_steps;
        job j = {p, 0, false};
        fx_protect(ctx, run_passes, &j);
        ck_assert_uint_eq(p->n_steps, n);
    }
}
END_TEST

/* Nests of different sizes, each a question of its own: past 16 the source's order stays, and a remark says why. */
START_TEST(questions_are_counted)
{
    enum { NESTS = 18, ASKED = 16 };
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    for (int i = 0; i < NESTS; i++)
        fx_printf(&t, "step s%d {\nfor v0 in %d \"c\" {\nlocal t0 = 0.0:f32\nfor v1 in 24 {\nt0 = add.f32(t0:f32, x[v0 + 24*v1])\n}\ny[v0 + %d] = t0:f32\n}\n}\n", i, 24 - i % 2 * 8, i);
    fx_puts(&t, "step rest {\nfor v0 in 552 {\ny[v0 + 24] = 0.0:f32\n}\n}\n");
    fx_program *p = parsed(fx_arena_printf(fx_context_arena(ctx), "program \"t\"\n%s%s%s", target, buffers, t.data));
    fx_diag_clear(ctx);
    schedule(p, 0, false);
    int sunk = 0, spent = 0;
    for (size_t k = 0; k < fx_diag_count(ctx); k++) {
        sunk += strstr(fx_diag_get(ctx, k)->message, "loops sunk") != NULL;
        spent += strstr(fx_diag_get(ctx, k)->message, "source order: this model's 16 questions to isl are spent") != NULL;
    }
    ck_assert_int_eq(sunk, ASKED);
    ck_assert_int_eq(spent, NESTS - ASKED);
}
END_TEST

/* ---- random programs ------------------------------------------------------------------------------------------------------- */

static const char *kind(bool outer)
{
    return draw(2) ? "" : outer ? " parallel" : " vector";
}

/* A step from buffer s (and x) to d, all of a*b elements. *elementwise: d may take s's place. */
static void draw_step(fx_text *t, int number, const char *s, const char *d, int a, int b, bool *elementwise)
{
    static const char *const ops[] = {"add", "mul", "sub", "max"};
    const char *op = ops[draw(4)];
    int form = (int)draw(10), n = a * b;
    *elementwise = form < 2;
    fx_printf(t, "step s%d {\n", number);
    switch (form) {
    case 0:
        fx_printf(t, "for v0 in %d%s {\n%s[v0] = %s.f32(%s[v0], x[v0])\n}\n", n, kind(true), d, op, s);
        break;
    case 1:
        fx_printf(t, "for v0 in %d%s {\nfor v1 in %d%s {\n%s[%d*v0 + v1] = %s.f32(%s[%d*v0 + v1], x[v0 + %d*v1])\n}\n}\n", a, kind(true), b, kind(false), d, b, op, s, b, a);
        break;
    case 2:
        fx_printf(t, "for v0 in %d%s {\nfor v1 in %d%s {\n%s[%d*v0 + v1] = %s.f32(%s[v0 + %d*v1], x[%d*v0 + v1])\n}\n}\n", a, kind(true), b, kind(false), d, b, op, s, a, b);
        break;
    case 3: /* columns summed, spread over rows */
        fx_printf(t, "for v0 in %d%s {\nlocal t0 = 0.0:f32\nfor v1 in %d {\nt0 = add.f32(t0:f32, %s[v0 + %d*v1])\n}\nfor v2 in %d {\n%s[%d*v0 + v2] = %s.f32(t0:f32, %s[%d*v0 + v2])\n}\n}\n", a,
                  kind(true), b, s, a, b, d, b, op, s, b);
        break;
    case 4: /* rows summed */
        fx_printf(t, "for v0 in %d%s {\nlocal t0 = 0.0:f32\nfor v1 in %d {\nt0 = add.f32(t0:f32, %s[%d*v0 + v1])\n}\nfor v2 in %d%s {\n%s[%d*v0 + v2] = mul.f32(t0:f32, x[%d*v0 + v2])\n}\n}\n", a,
                  kind(true), b, s, b, b, kind(false), d, b, b);
        break;
    case 5:
        fx_printf(t, "for v0 in %d%s {\n%s[v0] = %s.f32(%s[-v0 + %d], x[v0])\n}\n", n, kind(true), d, op, s, n - 1);
        break;
    case 6: /* the left neighbour, nothing at the edge */
        fx_printf(t, "for v0 in %d%s {\nfor v1 in %d {\nlocal t0 = 0.0:f32\nif v1 - 1 >= 0 {\nt0 = %s[%d*v0 + v1 - 1]\n}\n%s[%d*v0 + v1] = %s.f32(t0:f32, x[%d*v0 + v1])\n}\n}\n", a, kind(true), b, s, b, d, b, op, b);
        break;
    case 7: /* a running sum down the diagonals */
        fx_printf(t, "for v0 in %d {\n%s[v0] = %s[v0]\n}\nfor v1 in %d {\nfor v2 in %d {\n%s[v1 + %d*v2 + %d] = add.f32(%s[v1 + %d*v2], %s[v1 + %d*v2 + %d])\n}\n}\n", n, d, s, a - 1, b - 1, d, a, a + 1, d, a, s, a, a + 1);
        break;
    case 8: /* the dense loop outside */
        fx_printf(t, "for v0 in %d%s {\nfor v1 in %d {\n%s[v0 + %d*v1] = %s.f32(%s[v0 + %d*v1], x[v0])\n}\n}\n", a, kind(true), b, d, a, op, s, a);
        break;
    case 9: /* columns summed into the first row */
        fx_printf(t, "for v0 in %d%s {\nlocal t0 = 0.0:f32\nfor v1 in %d {\nt0 = add.f32(t0:f32, %s[v0 + %d*v1])\n}\n%s[v0] = t0:f32\n}\nfor v2 in %d {\n%s[v2 + %d] = %s[v2 + %d]\n}\n", a,
                  kind(true), b, s, a, d, n - a, d, a, s, a);
        break;
    }
    fx_puts(t, "}\n");
}

static fx_tensor *run(fx_program *p, bool planned, const fx_tensor *x)
{
    size_t n;
    fx_tensor *out;
    ck_assert_msg(fx_program_run(p, planned, 1, x, &n, &out) == FX_OK, "%s", unit_message(ctx));
    ck_assert_uint_eq(n, 1);
    return out;
}

START_TEST(random_programs)
{
    static const char *const done[] = {"loops tiled", "loops interchanged", "loops sunk", "fused with", "dependences forbid"};
    static const int sizes[][2] = {{24, 24}, {16, 40}, {9, 13}, {8, 8}, {30, 17}, {1, 24}};
    int counts[5] = {0};
    seed = 2463534242u;
    for (int i = 0; i < 120; i++) {
        int a = sizes[draw(6)][0], b = sizes[draw(6)][1], n = a * b, steps = 2 + (int)draw(4);
        fx_arena *mem = fx_context_arena(ctx);
        fx_text t, body;
        fx_text_init(&t, mem);
        fx_text_init(&body, mem);
        fx_printf(&t, "program \"t\"\n%ssizes arena=0 weights=64 live=0 hash=0x0000000000000000\nbuffer x : input 0 f32[%d]\nbuffer y : output 0 f32[%d]\n", target, n, n);
        const char *from = "x";
        for (int k = 0; k < steps; k++) {
            const char *to = k == steps - 1 ? "y" : fx_arena_printf(mem, "b%d", k);
            bool elementwise;
            draw_step(&body, k, from, to, a, b, &elementwise);
            if (k < steps - 1)
                fx_printf(&t, "buffer b%d : arena f32[%d]%s\n", k, n, elementwise && k > 0 ? fx_arena_printf(mem, " overlay=b%d", k - 1) : "");
            from = to;
        }
        fx_printf(&t, "input x \"x\" = x f32[%d]\noutput y \"y\" = y f32[%d]\n\n%s", n, n, body.data);
        fx_program *p = parsed(t.data);
        fx_tensor x = {.dtype = FX_F32, .rank = 1, .sizes = {n}, .strides = {1}, .data = fx_arena_array(mem, (size_t)n, sizeof(float))};
        for (int e = 0; e < n; e++)
            ((float *)x.data)[e] = (float)((int)draw(2001) - 1000) / 64.0f;
        fx_tensor *before = run(p, false, &x);
        fx_diag_clear(ctx);
        schedule(p, 0, true);
        for (int k = 0; k < 5; k++)
            counts[k] += said(done[k]);
        fx_tensor *after = run(p, false, &x), *planned = run(p, true, &x);
        ck_assert_msg(!memcmp(before->data, after->data, sizeof(float) * (size_t)n), "other numbers after:\n%s\nbefore:\n%s", text_of(p), t.data);
        ck_assert_msg(!memcmp(before->data, planned->data, sizeof(float) * (size_t)n), "other numbers when planned:\n%s", text_of(p));
        tear_down();
        set_up();
    }
    for (int k = 0; k < 5; k++)
        ck_assert_msg(counts[k] >= 3, "'%s' %d times", done[k], counts[k]);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, transposed_copy_is_tiled);
    tcase_add_test(t, wrong_order_is_interchanged);
    tcase_add_test(t, column_sums_are_dense);
    tcase_add_test(t, steps_are_fused);
    tcase_add_test(t, questions_are_counted);
    tcase_add_test(t, random_programs);
}

int main(void)
{
    return unit_run("schedule", 300, set_up, tear_down, add);
}
