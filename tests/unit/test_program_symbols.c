/* tests/unit/test_program_symbols.c: loop programs with symbols, indices that are data, local arrays, every dtype and loops of GPUs:
 * text form, verifier, interpreter.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "tests/unit/program_text.h"

static const char *const good = ENCODER;

static void prints_back(const char *text)
{
    fx_program *p;
    fx_text t, messages;
    ck_assert_msg(verify_text(text, false, &messages, &p) == FX_OK, "%s", messages.data);
    fx_text_init(&t, fx_context_arena(ctx));
    fx_program_print(&t, p);
    ck_assert_str_eq(t.data, text);
}

START_TEST(the_good_program_verifies_and_prints_back)
{
    fx_text messages;
    fx_program *p;
    prints_back(replaced(good, "3*t0 - 3*t0 + ", ""));
    ck_assert_msg(verify_text(good, true, &messages, &p) == FX_OK, "%s", messages.data);
    ck_assert(!fx_call_is_static(p->steps[1].body->call));
    ck_assert_uint_eq(p->n_slots, 2);
    uint64_t size, offsets[6];
    ck_assert(fx_program_arena(p, (int64_t[]){2, 3}, &size, offsets));
    ck_assert_uint_eq(offsets[3], 128); /* 72 bytes before it, rounded up */
    ck_assert_uint_eq(size, 256);
    ck_assert(!fx_program_arena(p, (int64_t[]){6, INT64_MAX / 2}, &size, NULL));
    fx_program_limit_call(p, p->steps[1].body->call); /* finds that the limit is there */
    ck_assert_uint_eq(p->n_limits, 1);
    p->n_limits = 0;
    fx_program_limit_call(p, p->steps[1].body->call);
    ck_assert_uint_eq(p->n_limits, 1);
    ck_assert_str_eq(p->limits[0].text, "batch*seq must be at most 2147483647: kernels count in 32 bits");
}
END_TEST

static const struct {
    const char *from, *to, *says;
} damages[] = {
    {"[1, 6]", "[-1, 6]", "symbol batch: expected a range within [0, inf], got [-1, 6]"},
    {"[1, 6]", "[7, 6]", "symbol batch: expected a range within [0, inf], got [7, 6]"},
    {"symbol batch", "symbol bitch", "'batch' is no symbol of the program"},
    {"limit -batch*seq + 2147483647", "limit 2147483647 - seq", "no limit keeps outer = batch*seq within 32 bits"},
    {"table[3*t0 + v2]", "table[4*t0 + v2]", "a load touches elements [0, 18] of 'table', which has 15"},
    {"check t0 in 5", "check t0 in 6", "a load touches elements [0, 17] of 'table', which has 15"},
    {"check t0 in 5", "check t1 in 5", "t1 is checked where it is not defined"},
    {"check t0 in 5 \"index into the 5 rows of table\"", "if v1 >= 0", "an index uses t0, which no check around it keeps in range"},
    {"for v2 in 3 vector {", "t0 = 7:i64\n for v2 in 3 vector {", "t0 is set inside the check of it"},
    {"local t0 = ids[(seq)*v0 + v1]", "local t0 = cast.f32(ids[(seq)*v0 + v1])", "t0 of f32 is checked as an index"},
    {"ids[(seq)*v0 + v1]", "ids[(seq)*v0 + v1 + 1]", "a load touches elements [1, batch*seq] of 'ids', which has batch*seq"},
    {"ids[(seq)*v0 + v1]", "ids[(seq)*v0 + v1 - 1]", "a load touches elements [-1, "},
    {"(3*seq)*v0 + 3*v1 + v2] = ", "3*v0 + 3*v1 + v2] = ", "iterations of the parallel loop v0 store to the same elements of 'rows'"},
    {"3*t0 - 3*t0 + (3*seq)*v0 + 3*v1", "3*t0", "iterations of the parallel loop v0 store to the same elements of 'rows'"},
    {"y[3*v0 + v4] = acc[v4]", "y[3*v0 + v4] = acc[v4 + 1]", "a load touches elements [1, 3] of 'acc', which has 3"},
    {"        array acc\n", "", "a store is to the array 'acc' where it is not declared"},
    {"        array acc\n", "        array acc\n        array acc\n", "array 'acc' is declared twice"},
    {"        array acc\n", "        array rows\n", "array: expected a local buffer, got 'rows'"},
    {"    for v0 in batch parallel {\n        array acc\n", "    array acc\n    for v0 in batch parallel {\n",
     "iterations of the parallel loop v0 store to the same elements of 'acc'"},
    {"        for v1 in 3 unrolled {\n            acc[v1] = 0.0:f32\n        }\n", "", "'acc' is read before anything is written to it"},
    {"for v1 in 3 unrolled", "for v1 in seq unrolled", "the unrolled loop v1: expected a number of iterations, got seq"},
    {"acc : local f32[3]", "acc : local f32[seq]", "buffer 'acc': its size of seq elements is impossible"},
    {"acc : local f32[3]", "acc : local f32[100000]", "local array 'acc': expected at most 262144 bytes on the stack"},
    {"outer=(batch*seq)", "outer=(batch*seq - 13)", "call soft: expected outer >= 0, which is not proved of batch*seq - 13"},
    {"n=3, inner=1", "n=4, inner=1", "call soft reads elements [0, 4*batch*seq - 1] of 'rows', which has 3*batch*seq"},
    {"x=rows, y=soft", "x=rows, y=soft+(batch)", "call soft writes elements [batch, "},
    {"for v0 in batch parallel {", "for v0 in batch - 1 parallel {", "output 'y': expected all 3*batch elements to be written"},
    {"soft : arena f32[batch, seq, 3] slot=1", "soft : arena f32[batch, seq, 3] slot=0", "'rows' and 'soft' overlap in the arena while both live"},
    {"soft : arena f32[batch, seq, 3] slot=1", "soft : arena f32[batch, seq, 3] slot=2", "'soft': expected one of 2 slots, got 2"},
    {"soft : arena f32[batch, seq, 3] slot=1", "soft : arena f32[batch, seq, 3]", "'soft': expected one of 2 slots, got -1"},
    {"slot [12*batch*seq]", "slot [11*batch*seq]", "'rows': none of slot 0's sizes is proved to be at least its 12*batch*seq bytes"},
    {"seq] above 0", "seq]", "'rows' and 'soft' overlap in the arena while both live"},
    {"seq] above 0", "seq] above 1", "slot 1: expected to stand above slots before it, got 1"},
    {"seq] above 0", "seq] above 0, 7", "slot 1: expected to stand above slots before it, got 7"},
    {"arena=0", "arena=64", "arena_size: expected 0 at the upper ends of the symbols' ranges, got 64"},
    {"seq in [2, inf]", "seq in [2, 5]", "arena_size: expected 768 at the upper ends of the symbols' ranges, got 0"},
    {"index.i64(v2 + (-seq + 1))", "index.i64(t0)", "an index value uses t0, which no check"},
};

START_TEST(damage_is_named)
{
    fx_text messages;
    fx_program *p;
    fx_status st = verify_text(replaced(good, damages[_i].from, damages[_i].to), true, &messages, &p);
    ck_assert_msg(st == FX_INTERNAL, "%s: status %s: %s", damages[_i].says, fx_status_string(st), messages.data);
    ck_assert_msg(strstr(messages.data, damages[_i].says) != NULL, "expected '%s', got:\n%s", damages[_i].says, messages.data);
}
END_TEST

static const struct {
    const char *from, *to, *says;
} mistakes[] = {
    {"symbol seq", "symbol batch", "the symbol 'batch' is there twice"},
    {"[2, inf]", "[2, far]", "expected an integer"},
    {"slot [4*batch, ", "slot [4*batch; ", "expected ','"},
    {"above 0", "above", "expected an integer"},
    {"above 0", "above -1", "expected a slot from 0 to 2147483647"},
    {"(3*seq)*v0", "(3*seq*v0", "expected ')'"},
    {"unrolled", "rolled", "expected '{', got 'rolled'"},
    {"check t0 in 5", "check v0 in 5", "expected t and a number, got 'v0'"},
    {"outer=(batch*seq)", "outer=batch*seq", "expected a number"},
    {"slot=1", "slot=-1", "expected a slot from 0 to 2147483647"},
};

START_TEST(mistakes_are_told)
{
    fx_text messages;
    fx_program *p;
    ck_assert_int_eq(verify_text(replaced(good, mistakes[_i].from, mistakes[_i].to), true, &messages, &p), FX_ERR_FORMAT);
    ck_assert_msg(strstr(messages.data, mistakes[_i].says) != NULL, "expected '%s', got:\n%s", mistakes[_i].says, messages.data);
}
END_TEST

static fx_tensor ids_tensor(int64_t batch, int64_t seq)
{
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_I64, 2, (int64_t[]){batch, seq}, &t), FX_OK);
    for (int64_t i = 0; i < batch * seq; i++)
        fx_tensor_set_int(&t, i, i * 3 % 5);
    return t;
}

START_TEST(running_takes_the_sizes_of_the_inputs)
{
    fx_text messages;
    fx_program *p;
    ck_assert_int_eq(verify_text(good, true, &messages, &p), FX_OK);
    for (int64_t batch = 1; batch <= 3; batch++) {
        for (int64_t seq = 2; seq <= 4; seq++) {
            fx_tensor in = ids_tensor(batch, seq), *out;
            size_t n_out;
            double soft[3] = {exp(-2.0), exp(-1.0), 1}, sum = soft[0] + soft[1] + soft[2];
            for (int planned = 0; planned < 2; planned++) {
                ck_assert_int_eq(fx_program_run(p, planned, 1, &in, &n_out, &out), FX_OK);
                ck_assert_int_eq(fx_tensor_numel(&out[0]), 3 * batch);
                for (int64_t i = 0; i < 3 * batch; i++)
                    ck_assert_double_eq_tol(fx_tensor_get(&out[0], i), -(double)(seq * (seq - 1) / 2) * soft[i % 3] / sum, 1e-6);
            }
        }
    }
}
END_TEST

static void fails(const fx_program *p, const fx_tensor *in, fx_status status, const char *says)
{
    size_t n_out;
    fx_tensor *out;
    fx_diag_clear(ctx);
    fx_status st = fx_program_run((fx_program *)(uintptr_t)p, false, 1, in, &n_out, &out);
    const fx_diag *d = fx_diag_get(ctx, 0);
    ck_assert_msg(st == status && d, "%s: got %s", says, fx_status_string(st));
    ck_assert_msg(strstr(d->message, says) != NULL, "expected '%s', got '%s'", says, d->message);
}

START_TEST(bad_inputs_are_refused)
{
    fx_text messages;
    fx_program *p;
    ck_assert_int_eq(verify_text(good, true, &messages, &p), FX_OK);
    fx_tensor t = ids_tensor(2, 3);
    fx_tensor_set_int(&t, 4, 5);
    fails(p, &t, FX_ERR_ARGUMENT, "step embed: 5 is out of range [0, 5): index into the 5 rows of table");
    fx_tensor_set_int(&t, 4, -1);
    fails(p, &t, FX_ERR_ARGUMENT, "step embed: -1 is out of range [0, 5)");
    t = ids_tensor(7, 3);
    fails(p, &t, FX_ERR_ARGUMENT, "input 0 'ids': expected int64[batch in 1..6, seq in 2..], got int64[7, 3]");
    t = ids_tensor(1, 1);
    fails(p, &t, FX_ERR_ARGUMENT, "expected int64[batch in 1..6, seq in 2..], got int64[1, 1]");
    p->limits[0].value = fx_dim_sub(ctx, fx_dim_of(5), fx_dim_sym(fx_sym_symbol(ctx, "seq")));
    p->limits[0].text = "seq must be at most 5";
    p->n_steps = 0; /* else the call would lack its limit */
    p->outputs = NULL;
    p->n_outputs = 0;
    p->bufs[4].kind = FX_BUF_ARENA;
    t = ids_tensor(1, 6);
    fails(p, &t, FX_ERR_ARGUMENT, "seq must be at most 5");
}
END_TEST

/* ---- every dtype --------------------------------------------------------------------------------------------------- */

/* a and b combined elementwise in a dtype; what each gives, as integers or floats exact in double. */
static const struct {
    const char *dtype, *expr;
    double a, b, want;
} scalars[] = {
    {"u8", "add.u8(a[v0], b[v0])", 128, 128, 0}, {"u8", "sub.u8(a[v0], b[v0])", 3, 5, 254}, {"i8", "mul.i8(a[v0], b[v0])", 100, 2, -56},
    {"i16", "add.i16(a[v0], b[v0])", 32767, 1, -32768}, {"i32", "neg.i32(a[v0])", -2147483648.0, 0, -2147483648.0},
    {"i8", "abs.i8(a[v0])", -128, 0, -128}, {"i8", "neg.i8(a[v0])", -128, 0, -128}, {"i64", "div.i64(a[v0], b[v0])", -7, 2, -3},
    {"i64", "floor_div.i64(a[v0], b[v0])", -7, 2, -4}, {"i64", "floor_div.i64(a[v0], b[v0])", 7, -2, -4},
    {"i64", "floor_div.i64(a[v0], b[v0])", 6, -2, -3}, {"i32", "remainder.i32(a[v0], b[v0])", -7, 2, 1},
    {"i32", "remainder.i32(a[v0], b[v0])", 7, -2, -1}, {"i32", "fmod.i32(a[v0], b[v0])", -7, 2, -1}, {"i64", "div.i64(a[v0], b[v0])", 5, 0, 0},
    {"i32", "remainder.i32(a[v0], b[v0])", 5, 0, 0}, {"i8", "div.i8(a[v0], b[v0])", -128, -1, -128}, {"i64", "pow.i64(a[v0], b[v0])", 3, 5, 243},
    {"i8", "pow.i8(a[v0], b[v0])", 3, 5, -13}, {"i64", "pow.i64(a[v0], b[v0])", 2, -1, 0}, {"i64", "pow.i64(a[v0], b[v0])", -1, -3, -1},
    {"i8", "shl.i8(a[v0], b[v0])", 5, 7, -128}, {"i8", "shl.i8(a[v0], b[v0])", 5, 8, 0}, {"i8", "shr.i8(a[v0], b[v0])", -5, 31, -1},
    {"u8", "shr.u8(a[v0], b[v0])", 250, 2, 62}, {"i64", "shr.i64(a[v0], b[v0])", 5, -1, 0}, {"i32", "sign.i32(a[v0])", -9, 0, -1},
    {"i32", "relu.i32(a[v0])", -9, 0, 0}, {"u8", "not.u8(a[v0])", 1, 0, 254}, {"bool", "not.bool(a[v0])", 1, 0, 0},
    {"bool", "add.bool(a[v0], b[v0])", 1, 1, 1}, {"i32", "clamp.i32(a[v0], b[v0], 3:i32)", 9, 1, 3},
    {"u8", "cast.u8(mul.f32(cast.f32(a[v0]), -1.0:f32))", 2, 0, 254}, {"i16", "cast.i16(add.u8(cast.u8(a[v0]), cast.u8(b[v0])))", 128, 128, 0},
    {"f16", "mul.f16(a[v0], b[v0])", 30000, 200, INFINITY}, {"f16", "add.f16(a[v0], b[v0])", 2048, 1, 2048},
    {"bf16", "add.bf16(a[v0], b[v0])", 256, 1, 256}, {"bf16", "add.bf16(a[v0], b[v0])", 256, 3, 260}, {"f32", "add.f32(a[v0], b[v0])", 16777216, 1, 16777216},
    {"f64", "add.f64(a[v0], b[v0])", 16777216, 1, 16777217}, {"f64", "floor_div.f64(a[v0], b[v0])", -7, 2, -4},
    {"f32", "floor_div.f32(a[v0], b[v0])", 7, 0, INFINITY}, {"f32", "remainder.f32(a[v0], b[v0])", -7, 2, 1}, {"f32", "sign.f32(a[v0])", NAN, 0, 0},
    {"f32", "fmax.f32(a[v0], b[v0])", NAN, 2, 2}, {"f32", "max.f32(a[v0], b[v0])", 2, NAN, NAN}, {"f64", "exp2.f64(a[v0])", 10, 0, 1024},
    {"f64", "log2.f64(a[v0])", 1024, 0, 10}, {"f64", "hypot.f64(a[v0], b[v0])", 3, 4, 5}, {"f32", "copysign.f32(a[v0], b[v0])", 3, -0.0, -3},
    {"f32", "cast.f32(cast.i64(a[v0]))", 16777219, 0, 16777220}, {"f16", "cast.f16(add.i64(cast.i64(a[v0]), 30000:i64))", 60000, 0, INFINITY},
    {"i32", "select.i32(lt.bool(a[v0], b[v0]), a[v0], b[v0])", -3, 2, -3}, {"i64", "cast.i64(index.i64(v0 + 41))", 0, 0, 41},
};

START_TEST(scalars_round_and_wrap)
{
    const char *d = scalars[_i].dtype;
    const char *text = fx_arena_printf(fx_context_arena(ctx),
                                       "program \"p\"\nbuffer a : input 0 %s[1]\nbuffer b : input 1 %s[1]\nbuffer y : output 0 %s[1]\n"
                                       "input a \"a\" = a %s[1]\ninput b \"b\" = b %s[1]\noutput y \"y\" = y %s[1]\n"
                                       "step s {\n  for v0 in 1 {\n    y[v0] = %s\n  }\n}\n", d, d, d, d, d, d, scalars[_i].expr);
    fx_text messages;
    fx_program *p;
    fx_tensor in[2], *out;
    size_t n_out;
    ck_assert_msg(verify_text(text, false, &messages, &p) == FX_OK, "%s: %s", scalars[_i].expr, messages.data);
    fx_dtype dtype = p->bufs[0].dtype;
    for (int i = 0; i < 2; i++) {
        double v = i ? scalars[_i].b : scalars[_i].a;
        ck_assert_int_eq(fx_tensor_create(ctx, dtype, 1, (int64_t[]){1}, &in[i]), FX_OK);
        if (fx_dtype_is_float(dtype))
            fx_tensor_set(&in[i], 0, v);
        else
            fx_tensor_set_int(&in[i], 0, (int64_t)v);
    }
    ck_assert_int_eq(fx_program_run(p, false, 2, in, &n_out, &out), FX_OK);
    double got = fx_tensor_get(&out[0], 0), want = scalars[_i].want;
    ck_assert_msg(got == want || (got != got && want != want), "%s of %g, %g: expected %g, got %g", scalars[_i].expr, scalars[_i].a,
                  scalars[_i].b, want, got);
}
END_TEST

/* 64-bit integers are exact. */
START_TEST(large_integers_are_exact)
{
    const char *text = "program \"p\"\nbuffer x : input 0 i64[1]\nbuffer y : output 0 i64[2]\ninput x \"x\" = x i64[1]\n"
                       "output y \"y\" = y i64[2]\nstep s {\n  y[0] = add.i64(x[0], 9007199254740993:i64)\n  y[1] = -9223372036854775808:i64\n}\n";
    fx_text messages, t;
    fx_program *p;
    fx_tensor in, *out;
    size_t n_out;
    ck_assert_msg(verify_text(text, false, &messages, &p) == FX_OK, "%s", messages.data);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_I64, 1, (int64_t[]){1}, &in), FX_OK);
    fx_tensor_set_int(&in, 0, INT64_MAX);
    ck_assert_int_eq(fx_program_run(p, false, 1, &in, &n_out, &out), FX_OK);
    ck_assert_int_eq(fx_tensor_get_int(&out[0], 0), INT64_MIN + 9007199254740992);
    ck_assert_int_eq(fx_tensor_get_int(&out[0], 1), INT64_MIN);
    fx_text_init(&t, fx_context_arena(ctx));
    fx_program_print(&t, p);
    ck_assert_ptr_nonnull(strstr(t.data, "y[0] = add.i64(x[0], 9007199254740993:i64)\n"));
    ck_assert_ptr_nonnull(strstr(t.data, "y[1] = -9223372036854775808:i64\n"));
}
END_TEST

/* ---- loops of GPUs --------------------------------------------------------------------------------------------------- */

static const char *const tile = HEAD("gpu")
    "sizes arena=0 weights=0 live=0 hash=0x0000000000000000\n"
    "buffer x : input 0 f32[64, 8]\n"
    "buffer y : output 0 f32[64]\n"
    "buffer tile : local f32[8, 8]\n"
    "input x \"x\" = x f32[64, 8]\n"
    "output y \"y\" = y f32[64]\n"
    "\n"
    "step s {\n"
    "    for v0 in 8 block x {\n"
    "        array tile\n"
    "        for v1 in 8 thread x {\n"
    "            local t0 = 0.0:f32\n"
    "            for v2 in 8 {\n"
    "                tile[v1 + 8*v2] = x[64*v0 + v1 + 8*v2]\n"
    "            }\n"
    "            barrier\n"
    "            for v3 in 8 {\n"
    "                t0 = add.f32(t0:f32, tile[8*v1 + v3])\n"
    "            }\n"
    "            y[8*v0 + v1] = t0:f32\n"
    "        }\n"
    "    }\n"
    "}\n";

static const struct {
    const char *from, *to, *says;
} gpu_damages[] = {
    {"            barrier\n", "", "the thread loop v1 loads elements of 'tile' that other iterations store"},
    {"for v0 in 8 block x", "for v0 in 8", "the thread loop v1 is outside any block loop"},
    {"for v1 in 8 thread x", "for v1 in 8", "a barrier is outside any thread loop"},
    {"for v1 in 8 thread x", "for v1 in 8 parallel", "the parallel loop v1 is inside a block loop"},
    {"for v1 in 8 thread x", "for v1 in 8 block y", "a barrier is outside any thread loop"},
    {"            barrier\n", "            if v1 - 3 >= 0 {\n            barrier\n            }\n", "a barrier is inside a guard"},
    {"y[8*v0 + v1] =", "y[v1] =", "iterations of the block loop v0 store to the same elements of 'y'"},
    {"y[8*v0 + v1] =", "y[8*v0] =", "iterations of the thread loop v1 store to the same elements of 'y'"},
    {"            local t0 = 0.0:f32\n            for v2", "            for v2", "t0 is set where it is not defined"},
    {"        for v1 in 8 thread x {\n            local t0 = 0.0:f32\n", "        local t0 = 0.0:f32\n        for v1 in 8 thread x {\n",
     "t0 is set by all iterations of a parallel loop"},
};

START_TEST(threads_and_barriers)
{
    fx_text messages;
    fx_program *p;
    if (_i < (int)(sizeof gpu_damages / sizeof gpu_damages[0])) {
        ck_assert_int_eq(verify_text(replaced(tile, gpu_damages[_i].from, gpu_damages[_i].to), false, &messages, &p), FX_INTERNAL);
        ck_assert_msg(strstr(messages.data, gpu_damages[_i].says) != NULL, "expected '%s', got:\n%s", gpu_damages[_i].says, messages.data);
        return;
    }
    prints_back(tile);
    /* A loop around both phases needs a barrier at its end too. */
    const char *looped = replaced(replaced(tile, "            for v2 in 8 {\n", "            for v4 in 2 {\n            for v2 in 8 {\n"),
                                  "            y[8*v0 + v1]", "            }\n            y[8*v0 + v1]");
    ck_assert_int_eq(verify_text(looped, false, &messages, &p), FX_INTERNAL);
    ck_assert_ptr_nonnull(strstr(messages.data, "loads elements of 'tile' that other iterations store"));
    looped = replaced(looped, "            }\n            y[8*v0 + v1]", "            barrier\n            }\n            y[8*v0 + v1]");
    ck_assert_msg(verify_text(looped, false, &messages, &p) == FX_OK, "%s", messages.data);
}
END_TEST

/* ---- races with expressions --------------------------------------------------------------------------------------------- */

/* Stores inside three nested loops over b, s and 4, v0 parallel: which are races? */
static const struct {
    const char *stores;
    bool race;
} races[] = {
    {"y[(4*s)*v0 + 4*v1 + v2] = 0.0:f32", false},
    {"y[(4*b)*v1 + 4*v0 + v2] = 0.0:f32", false},
    {"y[(b*s)*v2 + (s)*v0 + v1] = 0.0:f32", false},
    {"y[(4*s)*v0 + 4*v1] = 0.0:f32", false},
    {"y[(4*s - 1)*v0 + 4*v1 + v2] = 0.0:f32", true},
    {"y[(s)*v0 + v1 + v2] = 0.0:f32", true},
    {"y[4*v1 + v2] = 0.0:f32", true},
    {"y[(4*s)*v0 + 4*v1 + v2] = y[(4*s)*v0 + 4*v1 + v2]", false},
    {"y[(4*s)*v0 + 4*v1 + v2] = y[4*v1 + v2]", true},
    {"y[(4*s)*v0 + 4*v1 + v2] = y[(4*b*s) + 4*v1 + v2]", false},
    {"y[(s)*v0 + v2] = 0.0:f32", true},
    {"y[(4*s)*v0 + 4*v1 + v2] = 0.0:f32\n        y[(4*s)*v0 + 4*v1 + v2 + 4] = 0.0:f32", true},
    {"y[(8*s)*v0 + 4*v1 + v2] = 0.0:f32\n        y[(8*s)*v0 + 4*v1 + v2 + (4*s)] = 0.0:f32", false},
    {"y[-(4*s)*v0 + 4*v1 + v2 + (4*b*s - 4*s)] = 0.0:f32", false},
    /* two loops one after the other over the same elements */
    {"for v4 in s {\n          y[v0 + (b)*v4] = 0.0:f32\n        }\n        for v5 in s {\n          y[v0 + (b)*v5] = y[v0 + (b)*v5]\n        }", false},
    {"for v4 in s {\n          y[v0 + (b)*v4] = 0.0:f32\n        }\n        for v5 in s {\n          y[v0 + (b)*v5 + 1] = 0.0:f32\n        }", true},
};

START_TEST(races_with_expressions)
{
    const char *text = fx_arena_printf(fx_context_arena(ctx),
        "program \"p\"\nsymbol b in [1, 64]\nsymbol s in [1, inf]\nbuffer y : arena f32[b, s, 8]\n"
        "step a {\n  for v3 in 8*b*s {\n    y[v3] = 0.0:f32\n  }\n}\n"
        "step r {\n  for v0 in b parallel {\n    for v1 in s {\n      for v2 in 4 {\n        %s\n      }\n    }\n  }\n}\n", races[_i].stores);
    fx_text messages;
    fx_program *p;
    fx_status st = verify_text(text, false, &messages, &p);
    ck_assert_msg(st == (races[_i].race ? FX_INTERNAL : FX_OK), "%s: %s", races[_i].stores, messages.data);
    ck_assert_msg(!races[_i].race || strstr(messages.data, "parallel loop v0"), "%s", messages.data);
}
END_TEST

/* One iteration at most meets no other; so does a loop inside one that has none. */
START_TEST(loops_that_run_once_do_not_race)
{
    static const struct {
        const char *outer, *extent;
        bool race;
    } cases[] = {{"2", "Max(s, 3) - 3", false}, {"2", "Max(s, 3) - 2", false}, {"2", "Max(s, 3) - 1", true}, {"2", "Max(s, 2) - 1", true},
                 {"Max(s, 3) - 3", "s", false}, {"Max(s, 2) - 2", "s", true}, {"Max(s, 3) - 2", "s", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = fx_arena_printf(fx_context_arena(ctx),
            "program \"p\"\nsymbol s in [0, 3]\nbuffer y : arena f32[8]\nstep a {\n  for v3 in 8 {\n    y[v3] = 0.0:f32\n  }\n}\n"
            "step r {\n  for v0 in %s {\n    for v1 in %s vector {\n      y[v0] = 1.0:f32\n    }\n  }\n}\n", cases[i].outer, cases[i].extent);
        fx_text messages;
        fx_program *p;
        fx_status st = verify_text(text, false, &messages, &p);
        ck_assert_msg(st == (cases[i].race ? FX_INTERNAL : FX_OK), "%s, %s: %s", cases[i].outer, cases[i].extent, messages.data);
        ck_assert_msg(!cases[i].race || strstr(messages.data, "vector loop v1 store to the same elements of 'y'"), "%s", messages.data);
    }
}
END_TEST

/* What only a limit tells is proved with it, and not without. */
START_TEST(limits_help_proofs)
{
    const char *text = "program \"p\"\nsymbol b in [1, 64]\nsymbol s in [1, 64]\nlimit b - s \"s must be at most b\"\nbuffer y : arena f32[b, 4]\n"
                       "step a {\n  for v0 in s {\n    for v1 in 4 {\n      y[4*v0 + v1] = 0.0:f32\n    }\n  }\n}\n";
    fx_text messages;
    fx_program *p;
    ck_assert_msg(verify_text(text, false, &messages, &p) == FX_OK, "%s", messages.data);
    ck_assert_int_eq(verify_text(replaced(text, "limit b - s \"s must be at most b\"\n", ""), false, &messages, &p), FX_INTERNAL);
    ck_assert_ptr_nonnull(strstr(messages.data, "a store touches elements [0, 4*s - 1] of 'y', which has 4*b"));
}
END_TEST

/* Nothing need be written where no size leaves an element, and no load runs there. */
START_TEST(what_is_empty_at_every_size_need_not_be_written)
{
    const char *text = "program \"p\"\nsymbol s in [0, 2]\nbuffer z : arena f32[Max(s, 2) - 2, 3]\nbuffer y : output 0 f32[Max(s, 2) - 2, 3]\n"
                       "buffer w : output 1 f32[1]\noutput y \"y\" = y f32[Max(s, 2) - 2, 3]\noutput w \"w\" = w f32[1]\nstep a {\n"
                       "  w[0] = 0.0:f32\n  for v0 in Max(s, 2) - 2 {\n    w[0] = add.f32(y[3*v0], z[3*v0])\n  }\n}\n";
    fx_text messages;
    fx_program *p;
    ck_assert_msg(verify_text(text, false, &messages, &p) == FX_OK, "%s", messages.data);
    ck_assert_int_eq(verify_text(replaced(text, "[0, 2]", "[0, 3]"), false, &messages, &p), FX_INTERNAL);
    static const char *const says[] = {"'y' is read before anything is written to it", "'z' is read before anything is written to it",
                                       "output 'y': expected all 3*Max(s, 2) - 6 elements to be written"};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        ck_assert_msg(strstr(messages.data, says[i]) != NULL, "expected '%s', got:\n%s", says[i], messages.data);
}
END_TEST

/* Any byte changed or cut: a program or a message. */
START_TEST(no_bytes_harm_the_parser)
{
    size_t n = strlen(good);
    uint64_t state = 11;
    for (size_t i = 0; i < n; i++) {
        fx_context *c = fx_context_create();
        char *text = malloc(n + 1);
        memcpy(text, good, n + 1);
        state = state * 6364136223846793005u + 1442695040888963407u;
        text[i] = "09*()vt, x"[state >> 61];
        fx_program *p = NULL, *again = NULL;
        if (fx_program_parse(c, "fuzz", text, i % 7 == 0 ? i : n, &p) == FX_OK) {
            fx_text t, u;
            fx_program_verify(p, true, "fuzz");
            fx_text_init(&t, fx_context_arena(c));
            fx_text_init(&u, fx_context_arena(c));
            fx_program_print(&t, p);
            ck_assert_msg(fx_program_parse(c, "again", t.data, t.size, &again) == FX_OK, "%s", t.data);
            fx_program_print(&u, again);
            ck_assert_str_eq(t.data, u.data);
        } else {
            ck_assert_uint_ge(fx_diag_count(c), 1);
        }
        free(text);
        fx_context_free(c);
    }
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof table[0])

static void add_tests(TCase *t)
{
    tcase_add_test(t, the_good_program_verifies_and_prints_back);
    tcase_add_loop_test(t, damage_is_named, 0, COUNT(damages));
    tcase_add_loop_test(t, mistakes_are_told, 0, COUNT(mistakes));
    tcase_add_test(t, running_takes_the_sizes_of_the_inputs);
    tcase_add_test(t, bad_inputs_are_refused);
    tcase_add_loop_test(t, scalars_round_and_wrap, 0, COUNT(scalars));
    tcase_add_test(t, large_integers_are_exact);
    tcase_add_loop_test(t, threads_and_barriers, 0, COUNT(gpu_damages) + 1);
    tcase_add_test(t, loops_that_run_once_do_not_race);
    tcase_add_loop_test(t, races_with_expressions, 0, COUNT(races));
    tcase_add_test(t, limits_help_proofs);
    tcase_add_test(t, what_is_empty_at_every_size_need_not_be_written);
    tcase_add_test(t, no_bytes_harm_the_parser);
}

int main(void)
{
    return unit_run("program symbols", 120, set_up, tear_down, add_tests);
}
