/* tests/unit/test_jit.c: compiled functions: what they give, every kind of input they must refuse or copy, state, open sizes, lifetimes, memory
 * that runs out.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include "tests/unit/fixture.h"
#include "tests/unit/jit.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif

enum { ERROR_SIZE = 400 };

/* ---- what comes out ------------------------------------------------------------------------------------------------------ */

START_TEST(outputs_are_the_interpreters)
{
    static const char *const models[] = {JIT_CONV, JIT_SMALL};
    for (size_t m = 0; m < 2; m++)
        for (int level = 0; level <= 3; level++) {
            fx_graph *g = unit_parse(ctx, models[m]);
            fx_function *f = jit_compile(g, &(fx_jit_options){.cache = "", .level = level});
            fx_tensor out[2], in[2] = {m ? jit_tensor(ctx, FX_F32, 2, (int64_t[]){3, 4}, level) : jit_tensor(ctx, FX_F32, 4, (int64_t[]){2, 3, 6, 6}, level)};
            if (m)
                in[1] = jit_tensor(ctx, FX_F32, 1, (int64_t[]){4}, 9);
            jit_outputs(ctx, f, m + 1, in, out);
            for (int again = 0; again < 3; again++)
                jit_call(f, m + 1, in, out);
            jit_judge(g, m + 1, in, out);
            ck_assert(!fx_function_cached(f));
            fx_function_free(f);
        }
}
END_TEST

START_TEST(signatures)
{
    fx_function *f = jit_compile(unit_parse(ctx, JIT_CONV), NULL);
    ck_assert_uint_eq(fx_function_input_count(f), 1);
    ck_assert_uint_eq(fx_function_output_count(f), 2);
    ck_assert_uint_eq(fx_function_state_count(f), 0);
    const fx_value_info *x = fx_function_input(f, 0);
    ck_assert(!strcmp(x->name, "x") && x->dtype == FX_F32 && x->rank == 4 && !x->changed);
    ck_assert(x->min[2] == 6 && x->max[2] == 6);
    ck_assert(fx_function_input(f, 1) == NULL && fx_function_output(f, 2) == NULL);
    ck_assert_int_eq(fx_function_output(f, 1)->rank, 2);
    uint64_t arena, weights;
    fx_function_memory(f, &arena, &weights);
    ck_assert(weights >= 4 * (4 * 27 + 4));
    fx_function_free(f);
    fx_function *open = jit_compile(unit_parse(ctx, JIT_OPEN), NULL);
    x = fx_function_input(open, 0);
    ck_assert(x->min[0] == 1 && x->max[0] == 64 && x->min[1] == 2 && x->max[1] == INT64_MAX);
    fx_function_free(open);
}
END_TEST

/* ---- inputs as they may lie ------------------------------------------------------------------------------------------------ */

/* Calls the small model on x as it lies in memory, and on a dense copy: the same must come out. */
static void same_as_dense(fx_function *f, const fx_tensor *x, const fx_tensor *y)
{
    fx_tensor dense = *x, in[2] = {*x, *y}, a, b;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, x->rank, x->sizes, &dense), FX_OK);
    for (int64_t i = 0; i < x->sizes[0]; i++)
        for (int64_t k = 0; k < x->sizes[1]; k++)
            memcpy((float *)dense.data + i * x->sizes[1] + k, (const char *)x->data + 4 * (i * x->strides[0] + k * x->strides[1]), 4);
    jit_outputs(ctx, f, 2, in, &a);
    jit_outputs(ctx, f, 2, in, &b);
    jit_call(f, 2, in, &a);
    in[0] = dense;
    jit_call(f, 2, in, &b);
    ck_assert(memcmp(a.data, b.data, 48) == 0);
}

START_TEST(inputs_of_any_strides)
{
    fx_function *f = jit_compile(unit_parse(ctx, JIT_SMALL), NULL);
    fx_tensor y = jit_tensor(ctx, FX_F32, 1, (int64_t[]){4}, 2), big = jit_tensor(ctx, FX_F32, 1, (int64_t[]){200}, 1), x = y;
    float *at = big.data;
    static const struct { int64_t start, s0, s1; } ways[] = {
        {0, 4, 1}, {0, 1, 3}, {7, 10, 2}, {0, 0, 1}, {0, 4, 0}, {0, 0, 0}, {199, -4, -1}, {8, -4, 1}, {3, 4, -1}, {5, 40, 13}};
    x.rank = 2;
    x.sizes[0] = 3;
    x.sizes[1] = 4;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        x.data = at + ways[i].start;
        x.strides[0] = ways[i].s0;
        x.strides[1] = ways[i].s1;
        same_as_dense(f, &x, &y);
    }
    x.strides[0] = 4;
    x.strides[1] = 1;
    for (int off = 1; off < 4; off++) { /* not where a float may lie */
        x.data = (char *)big.data + off;
        for (int k = 0; k < 12; k++)
            memcpy((char *)x.data + 4 * k, &(float){(float)k / 4}, 4);
        same_as_dense(f, &x, &y);
    }
    fx_function_free(f);
}
END_TEST

START_TEST(empty_inputs_need_no_memory)
{
    fx_graph *g = unit_parse(ctx, "graph \"e\" imported\n\n%x : f32[0, 4] = placeholder[x]\n%y : f32[0, 4] = call_function[aten.exp.default](%x)\n"
                                  "%s : f32[4] = call_function[aten.sum.dim_IntList](%x, [0])\noutput((%y, %s))\n");
    fx_function *f = jit_compile(g, NULL);
    fx_tensor x = {.dtype = FX_F32, .rank = 2, .sizes = {0, 4}, .strides = {77, -3}}, out[2];
    float sums[4] = {1, 2, 3, 4};
    ck_assert_int_eq(fx_function_outputs(f, 1, &x, 2, out, NULL, 0), FX_OK);
    ck_assert(out[0].sizes[0] == 0 && out[1].sizes[0] == 4);
    out[0].data = NULL;
    out[1].data = sums;
    jit_call(f, 1, &x, out);
    ck_assert(sums[0] == 0 && sums[3] == 0);
    fx_function_free(f);
}
END_TEST

/* ---- what is refused --------------------------------------------------------------------------------------------------------- */

static void refuses(fx_function *f, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, const char *says)
{
    char error[ERROR_SIZE] = "";
    ck_assert_int_eq(fx_function_call(f, n_in, in, n_out, out, error, sizeof error), FX_ERR_ARGUMENT);
    ck_assert_str_eq(error, says);
    ck_assert_int_eq(fx_function_call(f, n_in, in, n_out, out, NULL, 0), FX_ERR_ARGUMENT);
    char few[8];
    memset(few, 'x', sizeof few);
    ck_assert_int_eq(fx_function_call(f, n_in, in, n_out, out, few, 5), FX_ERR_ARGUMENT);
    ck_assert(strlen(few) == 4 && few[5] == 'x');
}

START_TEST(wrong_inputs)
{
    fx_function *f = jit_compile(unit_parse(ctx, JIT_SMALL), NULL);
    fx_tensor good[2] = {jit_tensor(ctx, FX_F32, 2, (int64_t[]){3, 4}, 0), jit_tensor(ctx, FX_F32, 1, (int64_t[]){4}, 0)}, out, in[2];
    jit_outputs(ctx, f, 2, good, &out);
#define WITH(change, says)                 \
    memcpy(in, good, sizeof in);           \
    change;                                \
    refuses(f, 2, in, 1, &out, says)
    WITH(in[0].dtype = FX_F64, "input 0 'x': expected float32[3, 4], got float64[3, 4]");
    WITH(in[0].dtype = (fx_dtype)99, "input 0 'x': expected float32[3, 4], got dtype 99[3, 4]");
    WITH(in[0].dtype = (fx_dtype)-1, "input 0 'x': expected float32[3, 4], got dtype -1[3, 4]");
    WITH(in[0].sizes[1] = 5, "input 0 'x': expected float32[3, 4], got float32[3, 5]");
    WITH(in[0].sizes[1] = -4, "input 0 'x': expected float32[3, 4], got float32[3, -4]");
    WITH(in[1].rank = 2; in[1].sizes[1] = 1, "input 1 'y': expected float32[4], got float32[4, 1]");
    WITH(in[1].rank = 0, "input 1 'y': expected float32[4], got float32[]");
    WITH(in[1].rank = 1000000, "input 1 'y': expected float32[4], got float32[rank 1000000]");
    WITH(in[1].rank = -1, "input 1 'y': expected float32[4], got float32[rank -1]");
    WITH(in[0].data = NULL, "input 0 'x': expected its elements, got NULL");
    WITH(in[0].strides[0] = INT64_MAX / 2, "input 0 'x': its sizes and strides reach further than memory does");
    WITH(in[0].strides[0] = INT64_MIN, "input 0 'x': its sizes and strides reach further than memory does");
    WITH(in[0].strides[0] = -INT64_MAX / 16, "input 0 'x': its sizes and strides reach further than memory does");
#undef WITH
    refuses(f, 1, good, 1, &out, "expected 2 inputs, got 1");
    refuses(f, 3, good, 1, &out, "expected 2 inputs, got 3");
    refuses(f, 2, NULL, 1, &out, "expected 2 inputs, got NULL");
    refuses(f, 2, good, 0, NULL, "expected 1 outputs, got 0");
    refuses(f, 2, good, 1, NULL, "expected 1 outputs, got NULL");
    jit_call(f, 2, good, &out); /* it still works */
    fx_function_free(f);
}
END_TEST

START_TEST(wrong_outputs)
{
    fx_graph *g = unit_parse(ctx, JIT_CONV);
    fx_function *f = jit_compile(g, NULL);
    fx_tensor x = jit_tensor(ctx, FX_F32, 4, (int64_t[]){2, 3, 6, 6}, 0), good[2], out[2];
    jit_outputs(ctx, f, 1, &x, good);
    const char *r = fx_function_output(f, 0)->name, *s = fx_function_output(f, 1)->name;
    char says[ERROR_SIZE];
#define WITH(change, ...)                            \
    memcpy(out, good, sizeof out);                   \
    change;                                          \
    snprintf(says, sizeof says, __VA_ARGS__);        \
    refuses(f, 1, &x, 2, out, says)
    WITH(out[1].sizes[1] = 5, "output 1 '%s': expected float32[2, 4], got float32[2, 5]", s);
    WITH(out[1].dtype = FX_I32, "output 1 '%s': expected float32[2, 4], got int32[2, 4]", s);
    WITH(out[0].rank = 3, "output 0 '%s': expected float32[2, 4, 4, 4], got float32[2, 4, 4]", r);
    WITH(out[0].strides[0] = 65, "output 0 '%s': expected dense strides", r);
    WITH(out[0].data = NULL, "output 0 '%s': expected memory to write to, got NULL", r);
    WITH(out[1].data = x.data, "output 1 '%s' overlaps input 0 'x'", s);
    WITH(out[1].data = (float *)x.data + 2 * 3 * 36 - 1, "output 1 '%s' overlaps input 0 'x'", s);
    WITH(out[1].data = (float *)good[0].data + 120, "output 1 '%s' overlaps output 0 '%s'", s, r);
    WITH(out[1].data = (char *)good[1].data + 2, "output 1 '%s': expected memory aligned to an element of float32, got %p", s, out[1].data);
#undef WITH
    memcpy(out, good, sizeof out); /* side by side is well */
    float *block = (float *)jit_tensor(ctx, FX_F32, 1, (int64_t[]){136}, 0).data;
    out[0].data = block + 8;
    out[1].data = block;
    jit_call(f, 1, &x, out);
    jit_judge(g, 1, &x, out);
    fx_function_free(f);
}
END_TEST

START_TEST(indices_out_of_range)
{
    fx_graph *g = unit_parse(ctx, "graph \"e\" imported\nparameter t : f32[5, 2] = all 0.5\n\n%i : i64[3] = placeholder[i]\n%t : f32[5, 2] = get_attr[t]\n"
                                  "%y : f32[3, 2] = call_function[aten.embedding.default](%t, %i)\noutput((%y,))\n");
    fx_function *f = jit_compile(g, NULL);
    fx_tensor i = jit_tensor(ctx, FX_I64, 1, (int64_t[]){3}, 0), out;
    int64_t *at = i.data;
    char error[ERROR_SIZE] = "";
    at[0] = at[1] = at[2] = 4;
    jit_outputs(ctx, f, 1, &i, &out);
    jit_call(f, 1, &i, &out);
    at[2] = 5;
    ck_assert_int_eq(fx_function_call(f, 1, &i, 1, &out, error, sizeof error), FX_ERR_ARGUMENT);
    ck_assert_msg(strstr(error, "index into the 5 of dim 0 of t: out of range"), "%s", error);
    fx_function_free(f);
}
END_TEST

START_TEST(wrong_options)
{
    fx_graph *g = unit_parse(ctx, JIT_SMALL);
    fx_function *f = NULL;
    static const struct { fx_jit_options o; const char *says; } wrong[] = {
        {{.level = 4}, "level: expected 0 to 3, got 4"},
        {{.level = -1}, "level: expected 0 to 3, got -1"},
        {{.threads = -1}, "threads: expected at least 0, got -1"},
        {{.disable = "sleep"}, "expected parts of lowering to disable (fuse, layout, inplace, attention, merge, schedule, half, streams, pays, winograd), got 'sleep'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fx_diag_clear(ctx);
        ck_assert_int_eq(fx_jit_compile(g, &wrong[i].o, &f), FX_ERR_ARGUMENT);
        ck_assert_str_eq(unit_message(ctx), wrong[i].says);
        ck_assert(f == NULL);
    }
    ck_assert_int_eq(fx_jit_compile(g, NULL, NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_jit_compile(NULL, NULL, &f), FX_ERR_ARGUMENT);
    const char *dims[] = {"rows=2"};
    ck_assert_int_eq(fx_jit_compile(g, &(fx_jit_options){.dims = dims, .n_dims = 1}, &f), FX_ERR_ARGUMENT);
}
END_TEST

/* ---- sizes that are open ------------------------------------------------------------------------------------------------------- */

START_TEST(one_compile_serves_all_sizes)
{
    fx_graph *g = unit_parse(ctx, JIT_OPEN);
    fx_function *f = jit_compile(g, NULL);
    for (int64_t rows = 1; rows <= 64; rows += 9)
        for (int64_t cols = 2; cols <= 300; cols = cols * 3 + 1) {
            fx_tensor in[2] = {jit_tensor(ctx, FX_F32, 2, (int64_t[]){rows, cols}, rows), jit_tensor(ctx, FX_F32, 1, (int64_t[]){cols}, cols)}, out[2];
            jit_outputs(ctx, f, 2, in, out);
            jit_call(f, 2, in, out);
            jit_judge(g, 2, in, out);
        }
    fx_function_free(f);
}
END_TEST

START_TEST(sizes_out_of_range)
{
    fx_function *f = jit_compile(unit_parse(ctx, JIT_OPEN), NULL);
    fx_tensor x = jit_tensor(ctx, FX_F32, 2, (int64_t[]){65, 3}, 0), w = jit_tensor(ctx, FX_F32, 1, (int64_t[]){4}, 0), in[2], out[2];
    char error[ERROR_SIZE];
#define WITH(rows, cols, length, says)                                                           \
    memcpy(in, (fx_tensor[]){x, w}, sizeof in);                                                  \
    in[0].sizes[0] = rows;                                                                       \
    in[0].sizes[1] = cols;                                                                       \
    in[1].sizes[0] = length;                                                                     \
    ck_assert_int_eq(fx_function_outputs(f, 2, in, 2, out, error, sizeof error), FX_ERR_ARGUMENT); \
    ck_assert_str_eq(error, says)
    WITH(65, 3, 3, "input 0 'x': expected float32[rows in 1..64, cols in 2..], got float32[65, 3]");
    WITH(0, 3, 3, "input 0 'x': expected float32[rows in 1..64, cols in 2..], got float32[0, 3]");
    WITH(2, 1, 1, "input 0 'x': expected float32[rows in 1..64, cols in 2..], got float32[2, 1]");
    WITH(2, -7, 3, "input 0 'x': expected float32[rows in 1..64, cols in 2..], got float32[2, -7]");
    ck_assert_int_eq(fx_function_outputs(f, 1, in, 2, out, error, sizeof error), FX_ERR_ARGUMENT);
    ck_assert_str_eq(error, "expected 2 inputs, got 1");
    memcpy(in, (fx_tensor[]){x, w}, sizeof in);
    in[0].sizes[0] = 2;
    ck_assert_int_eq(fx_function_outputs(f, 2, in, 2, out, error, sizeof error), FX_ERR_ARGUMENT);
    ck_assert_msg(strstr(error, "got float32[") && strstr(error, "as sizes before it tell"), "%s", error);
    /* sizes that no memory has: strides of 0 say so, and more elements than numbers count */
    in[0].sizes[0] = 64;
    in[0].sizes[1] = in[1].sizes[0] = INT64_MAX / 4;
    in[0].strides[0] = in[0].strides[1] = in[1].strides[0] = 0;
    ck_assert_int_eq(fx_function_outputs(f, 2, in, 2, out, error, sizeof error), FX_ERR_ARGUMENT);
    ck_assert_msg(strstr(error, "more elements than memory can have") || strstr(error, "must be at most"), "%s", error);
#undef WITH
    fx_function_free(f);
}
END_TEST

/* Sizes that are expressions: linear in a symbol, told by it or by another size, and products; each is held to what the others tell. */
START_TEST(sizes_that_are_expressions)
{
    fx_graph *g = unit_parse(ctx, "graph \"e\" imported\nsymbol n in [1, 8]\nsymbol m in [2, 5]\n\n%x : f32[2*n + 1] = placeholder[x]\n%p : f32[m*n] = placeholder[p]\n"
                                  "%fixed : f32[3] = placeholder[fixed]\n%y : f32[m, 3*m] = placeholder[y]\n%a : f32[2*n + 1] = call_function[aten.neg.default](%x)\n"
                                  "%b : f32[m*n] = call_function[aten.exp.default](%p)\n%c : f32[m, 3*m] = call_function[aten.tanh.default](%y)\n"
                                  "%d : f32[3] = call_function[aten.neg.default](%fixed)\noutput((%a, %b, %c, %d))\n");
    fx_function *f = jit_compile(g, NULL);
    fx_tensor in[4], out[4];
    char error[ERROR_SIZE];
    for (int64_t n = 1; n <= 8; n++)
        for (int64_t m = 2; m <= 5; m++) {
            in[0] = jit_tensor(ctx, FX_F32, 1, (int64_t[]){2 * n + 1}, n);
            in[1] = jit_tensor(ctx, FX_F32, 1, (int64_t[]){m * n}, m);
            in[2] = jit_tensor(ctx, FX_F32, 1, (int64_t[]){3}, n + m);
            in[3] = jit_tensor(ctx, FX_F32, 2, (int64_t[]){m, 3 * m}, n + m);
            jit_outputs(ctx, f, 4, in, out);
            jit_call(f, 4, in, out);
            jit_judge(g, 4, in, out);
        }
    static const struct { int64_t x, p, y0, y1; const char *says; } wrong[] = { /* n = 4, m = 3 */
        {8, 12, 3, 9, "input 0 'x': expected float32[2*n + 1 with n in 1..8], got float32[8]"},
        {1, 12, 3, 9, "input 0 'x': expected float32[2*n + 1 with n in 1..8], got float32[1]"},
        {19, 12, 3, 9, "input 0 'x': expected float32[2*n + 1 with n in 1..8], got float32[19]"},
        {9, 12, 6, 9, "input 3 'y': expected float32[m in 2..5, 3*m], got float32[6, 9]"},
        {9, 13, 3, 9, "input 1 'p': expected float32[m*n], got float32[13]: dim 0 must be 12, as sizes before it tell"},
        {9, 12, 3, 10, "input 3 'y': expected float32[m in 2..5, 3*m], got float32[3, 10]: dim 1 must be 9, as sizes before it tell"},
        {INT64_MAX, 12, 3, 9, "input 0 'x': expected float32[2*n + 1 with n in 1..8], got float32[9223372036854775807]"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        in[0].sizes[0] = wrong[i].x;
        in[1].sizes[0] = wrong[i].p;
        in[3].sizes[0] = wrong[i].y0;
        in[3].sizes[1] = wrong[i].y1;
        ck_assert_int_eq(fx_function_outputs(f, 4, in, 4, out, error, sizeof error), FX_ERR_ARGUMENT);
        ck_assert_str_eq(error, wrong[i].says);
    }
    fx_function_free(f);
}
END_TEST

/* What is written may lie among many other things, or many may be written: overlaps are seen, neighbours are well. */
START_TEST(overlaps_among_many)
{
    enum { MOST = 24 };
    for (int n_out = 1; n_out <= MOST; n_out += n_out < 6 ? 1 : 6) {
        fx_text t;
        fx_text_init(&t, fx_context_arena(ctx));
        fx_puts(&t, "graph \"m\" imported\n\n");
        for (int i = 0; i < MOST; i++)
            fx_printf(&t, "%%x%d : f32[4] = placeholder[x%d]\n", i, i);
        for (int i = 0; i < n_out; i++)
            fx_printf(&t, "%%y%d : f32[4] = call_function[aten.neg.default](%%x%d)\n", i, i);
        fx_puts(&t, "output((");
        for (int i = 0; i < n_out; i++)
            fx_printf(&t, "%%y%d, ", i);
        fx_puts(&t, "))\n");
        fx_function *f = jit_compile(unit_parse(ctx, t.data), NULL);
        static float block[8 * MOST + 4];
        fx_tensor in[MOST], good[MOST], out[MOST];
        for (int i = 0; i < MOST; i++) {
            good[i] = in[i] = (fx_tensor){.dtype = FX_F32, .rank = 1, .sizes = {4}, .strides = {1}, .data = block + 8 * i};
            good[i].data = block + 8 * ((i * 7 + 5) % MOST) + 4; /* between inputs, in another order */
        }
        for (int i = 0; i < 8 * MOST; i++)
            block[i] = (float)i;
        jit_call(f, MOST, in, good);
        for (int i = 0; i < n_out; i++)
            ck_assert(((float *)good[i].data)[3] == -(float)(8 * i + 3));
        for (int i = 0; i < n_out; i++)
            for (int off = -3; off <= 3; off += 2) {
                char says[80], error[ERROR_SIZE] = "";
                memcpy(out, good, sizeof out);
                out[i].data = (float *)good[i].data + off;
                int at = (i * 7 + 5) % MOST + (off > 0);
                if (at == MOST) /* behind the last input nothing lies */
                    continue;
                snprintf(says, sizeof says, "output %d 'y%d' overlaps input %d 'x%d'", i, i, at, at);
                ck_assert_int_eq(fx_function_call(f, MOST, in, (size_t)n_out, out, error, sizeof error), FX_ERR_ARGUMENT);
                ck_assert_str_eq(error, says);
            }
        for (int i = 1; i < n_out; i++) { /* two outputs in one place */
            char says[80], error[ERROR_SIZE] = "";
            memcpy(out, good, sizeof out);
            out[i].data = out[0].data;
            snprintf(says, sizeof says, "output %d 'y%d' overlaps output 0 'y0'", i, i);
            ck_assert_int_eq(fx_function_call(f, MOST, in, (size_t)n_out, out, error, sizeof error), FX_ERR_ARGUMENT);
            ck_assert_str_eq(error, says);
        }
        fx_function_free(f);
    }
}
END_TEST

START_TEST(sizes_narrowed)
{
    const char *dims[] = {"rows=2", "x:1=3..5"};
    fx_function *f = jit_compile(unit_parse(ctx, JIT_OPEN), &(fx_jit_options){.cache = "", .dims = dims, .n_dims = 2});
    const fx_value_info *x = fx_function_input(f, 0);
    ck_assert(x->min[0] == 2 && x->max[0] == 2 && x->min[1] == 3 && x->max[1] == 5);
    fx_function_free(f);
}
END_TEST

/* ---- state, inputs that change ---------------------------------------------------------------------------------------------------- */

#define COUNTER \
    "graph \"c\" imported\nbuffer n : f32[4] = [1, 2, 3, 4]\n\n%x : f32[4] = placeholder[x]\n%n : f32[4] = get_attr[n]\n" \
    "%a : f32[4] = call_function[aten.add_.Tensor](%n, %x)\n%y : f32[4] = call_function[aten.mul.Tensor](%a, 2)\noutput((%y,))\n"

START_TEST(state_lasts)
{
    fx_function *f = jit_compile(unit_parse(ctx, COUNTER), NULL), *other = jit_compile(unit_parse(ctx, COUNTER), NULL);
    fx_tensor x = jit_tensor(ctx, FX_F32, 1, (int64_t[]){4}, 0), y, kept;
    float *at = x.data;
    at[0] = at[1] = at[2] = at[3] = 10;
    jit_outputs(ctx, f, 1, &x, &y);
    ck_assert_uint_eq(fx_function_state_count(f), 1);
    ck_assert_str_eq(fx_function_state(f, 0, &kept)->name, "n");
    ck_assert(fx_function_state(f, 1, &kept) == NULL);
    jit_call(f, 1, &x, &y);
    ck_assert(((float *)y.data)[0] == 22 && ((float *)y.data)[3] == 28);
    jit_call(f, 1, &x, &y);
    ck_assert(((float *)y.data)[0] == 42);
    ck_assert(((float *)kept.data)[0] == 21 && ((float *)kept.data)[3] == 24);
    ((float *)kept.data)[0] = -10;
    jit_call(f, 1, &x, &y);
    ck_assert(((float *)y.data)[0] == 0 && ((float *)y.data)[1] == 64);
    jit_call(other, 1, &x, &y); /* each function has its own */
    ck_assert(((float *)y.data)[0] == 22);
    fx_function_reset(f);
    jit_call(f, 1, &x, &y);
    ck_assert(((float *)y.data)[0] == 22 && ((float *)y.data)[3] == 28);
    y.data = kept.data;
    refuses(f, 1, &x, 1, &y, "the function's state overlaps output 0 'y'");
    fx_function_free(f);
    fx_function_free(other);
}
END_TEST

START_TEST(inputs_that_change)
{
    fx_graph *g = unit_parse(ctx, "graph \"c\" imported\n\n%x : f32[2, 3] = placeholder[x]\n%y : f32[3] = placeholder[y]\n"
                                  "%a : f32[2, 3] = call_function[aten.add_.Tensor](%x, %y)\n%z : f32[2, 3] = call_function[aten.mul.Tensor](%a, 2)\noutput((%z,))\n");
    fx_function *f = jit_compile(g, NULL);
    ck_assert(fx_function_input(f, 0)->changed && !fx_function_input(f, 1)->changed);
    float x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, y[3] = {100, 200, 300}, z[6];
    fx_tensor in[2] = {{.dtype = FX_F32, .rank = 2, .sizes = {2, 3}, .strides = {1, 4}, .data = x},
                       {.dtype = FX_F32, .rank = 1, .sizes = {3}, .strides = {1}, .data = y}},
              out = {.dtype = FX_F32, .rank = 2, .sizes = {2, 3}, .strides = {3, 1}, .data = z};
    jit_call(f, 2, in, &out); /* x[i][k] is at i + 4 k */
    static const float after[12] = {100, 101, 2, 3, 204, 205, 6, 7, 308, 309, 10, 11};
    ck_assert(memcmp(x, after, sizeof x) == 0);
    ck_assert(z[0] == 200 && z[1] == 408 && z[5] == 618);
    in[0].strides[0] = 0;
    refuses(f, 2, in, 1, &out, "input 0 'x': the model changes it, so its elements must lie apart");
    in[0].strides[0] = 3;
    in[0].strides[1] = 2;
    refuses(f, 2, in, 1, &out, "input 0 'x': the model changes it, so its elements must lie apart");
    in[0].strides[1] = 1;
    in[1].data = x + 5;
    refuses(f, 2, in, 1, &out, "input 1 'y' overlaps input 0 'x'");
    in[1].data = x + 6;
    jit_call(f, 2, in, &out);
    fx_function_free(f);
}
END_TEST

/* ---- lifetimes --------------------------------------------------------------------------------------------------------------------- */

START_TEST(functions_that_are_gone)
{
    fx_tensor t;
    fx_function_free(NULL);
    refuses(NULL, 0, NULL, 0, NULL, "expected a function, got NULL");
    ck_assert(fx_function_input_count(NULL) == 0 && fx_function_input(NULL, 0) == NULL && fx_function_state(NULL, 0, &t) == NULL);
    fx_context *c = fx_context_create();
    fx_function *f = jit_compile(unit_parse(c, COUNTER), NULL);
    fx_context_free(c);
    refuses(f, 0, NULL, 0, NULL, "the context that the function was compiled in was freed");
    ck_assert(fx_function_input_count(f) == 0 && fx_function_output(f, 0) == NULL && fx_function_state(f, 0, &t) == NULL && !fx_function_cached(f));
    uint64_t arena, weights;
    fx_function_memory(f, &arena, &weights);
    fx_function_reset(f);
    fx_function_free(f);
#ifndef SANITIZED /* AddressSanitizer itself tells of what follows, and stops */
    fx_function *volatile gone = f;
    refuses(gone, 0, NULL, 0, NULL, "the function was freed");
    fx_function_free(gone);
    ck_assert_uint_eq(fx_function_input_count(gone), 0);
#endif
}
END_TEST

/* The context's diagnostics, other functions and compiles go on; nothing of a function is in its context but the weights. */
START_TEST(order_of_freeing)
{
    fx_graph *g = unit_parse(ctx, JIT_CONV);
    fx_tensor x = jit_tensor(ctx, FX_F32, 4, (int64_t[]){2, 3, 6, 6}, 3), out[2];
    fx_function *f[4];
    for (int i = 0; i < 4; i++)
        f[i] = jit_compile(g, NULL);
    jit_outputs(ctx, f[0], 1, &x, out);
    static const int order[4] = {2, 0, 3, 1};
    for (int i = 0; i < 4; i++) {
        for (int k = i; k < 4; k++) {
            jit_call(f[order[k]], 1, &x, out);
            jit_judge(g, 1, &x, out);
        }
        fx_function_free(f[order[i]]);
    }
}
END_TEST

START_TEST(memory_runs_out_while_compiling)
{
    static const char *const models[] = {JIT_SMALL, COUNTER, JIT_OPEN};
    for (size_t m = 0; m < 3; m++) {
        long failures = 0;
        bool ended = false;
        for (long at = 0; !ended; at += 1 + at / 24) { /* each early one, then ever fewer: LLVM runs each time */
            unit_memory memory = {.fail_at = -1};
            fx_context *c = unit_context(&memory);
            fx_graph *g = unit_parse(c, models[m]);
            fx_function *f = NULL;
            unit_fail_after(&memory, at);
            fx_status status = fx_jit_compile(g, &(fx_jit_options){.cache = ""}, &f);
            ended = !unit_ran_out(&memory);
            memory.fail_at = -1;
            if (status != FX_OK) {
                ck_assert_int_eq(status, FX_ERR_NOMEM);
                ck_assert(f == NULL);
                ck_assert_str_eq(unit_message(c), "out of memory");
                failures++;
            } else {
                ck_assert(ended || f);
            }
            fx_function_free(f);
            fx_context_free(c);
            ck_assert_int_eq(memory.live, 0);
        }
        ck_assert_int_gt(failures, 20);
    }
}
END_TEST

static bool stops(void *left)
{
    return --*(long *)left < 0;
}

/* At each place where a compile asks whether to go on it may be told not to: that is said, nothing is left (LLVM's own by the leak checker), and
 * the next compile is whole. */
START_TEST(compiles_broken_off)
{
    for (int debug = 0; debug < 2; debug++) {
        char folder[] = "/tmp/fxcc-jit-XXXXXX", listing[64];
        ck_assert_ptr_nonnull(mkdtemp(folder));
        snprintf(listing, sizeof listing, "%s/open.prog", folder);
        fx_jit_options o = {.cache = "", .debug = debug ? folder : ""};
        long stopped = 0;
        for (long at = 0;; at += 1 + at / 8) {
            unit_memory memory = {.fail_at = -1};
            fx_context *c = unit_context(&memory);
            fx_graph *g = unit_parse(c, JIT_OPEN);
            fx_function *f = NULL;
            long left = at;
            fx_context_set_interrupt(c, stops, &left);
            fx_status status = fx_jit_compile(g, &o, &f);
            fx_context_set_interrupt(c, NULL, NULL);
            if (status != FX_OK) {
                ck_assert_int_eq(status, FX_ERR_CANCELLED);
                ck_assert(f == NULL && left < 0);
                ck_assert_int_eq(access(listing, F_OK), -1);
                f = jit_compile(g, &o);
                stopped++;
            }
            fx_function_free(f);
            fx_context_free(c);
            ck_assert_int_eq(memory.live, 0);
            unlink(listing);
            if (left >= 0)
                break;
        }
        ck_assert_int_gt(stopped, 5);
        ck_assert_int_eq(rmdir(folder), 0);
    }
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, outputs_are_the_interpreters);
    tcase_add_test(t, signatures);
    tcase_add_test(t, inputs_of_any_strides);
    tcase_add_test(t, empty_inputs_need_no_memory);
    tcase_add_test(t, wrong_inputs);
    tcase_add_test(t, wrong_outputs);
    tcase_add_test(t, indices_out_of_range);
    tcase_add_test(t, wrong_options);
    tcase_add_test(t, one_compile_serves_all_sizes);
    tcase_add_test(t, sizes_out_of_range);
    tcase_add_test(t, sizes_that_are_expressions);
    tcase_add_test(t, overlaps_among_many);
    tcase_add_test(t, sizes_narrowed);
    tcase_add_test(t, state_lasts);
    tcase_add_test(t, inputs_that_change);
    tcase_add_test(t, functions_that_are_gone);
    tcase_add_test(t, order_of_freeing);
    tcase_add_test(t, memory_runs_out_while_compiling);
    tcase_add_test(t, compiles_broken_off);
}

int main(void)
{
    return unit_run("jit", 300, set_up, tear_down, add);
}
