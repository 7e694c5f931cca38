/* tests/unit/test_build.c: lowering of reductions, rows, indices and orders: the loop program, interpreted, must give what the graph's
 * interpreter gives; and what its text must and must not hold.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "ir/program.h"
#include "lower/lower.h"
#include "tests/unit/fixture.h"

static const char *first_message(void)
{
    const fx_diag *d = fx_diag_get(ctx, 0);
    return d ? d->message : "no diagnostic";
}

static double next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 33) / (double)(1u << 30) - 1;
}

/* Random floats, with some equal ones; integers of 0 ... limit - 1, or from -limit on when `wrap`. */
static void fill(fx_tensor *t, int limit, bool wrap, uint64_t *state)
{
    for (int64_t i = 0; i < fx_tensor_numel(t); i++) {
        double r = next_random(state);
        if (fx_dtype_is_float(t->dtype))
            fx_tensor_set(t, i, i % 5 == 3 ? 0.5 : 2 * r);
        else
            fx_tensor_set_int(t, i, (int64_t)floor((r + 1) / 2 * limit * (wrap ? 2 : 1)) - (wrap ? limit : 0));
    }
}

static fx_graph *graph_of(const char *lines)
{
    const char *text = fx_arena_printf(fx_context_arena(ctx), "graph g\n%s", lines);
    fx_graph *g;
    ck_assert_msg(fx_graph_parse(ctx, "g.fx", text, strlen(text), &g) == FX_OK, "%s: %s", lines, first_message());
    FX_FOR_NODES(g, n) {
        if (n->op)
            ck_assert_msg(fx_node_normalize(n) == FX_OK, "%s: %s", lines, first_message());
    }
    ck_assert_msg(fx_graph_infer(g) == FX_OK, "%s: %s", lines, first_message());
    return g;
}

static fx_status lower_to(fx_graph *g, const char *target, unsigned off, fx_fault fault, fx_program **p)
{
    fx_lower_options opt = {.threads = 2, .off = off, .fault = fault};
    ck_assert_int_eq(fx_target_get(ctx, target, &opt.target), FX_OK);
    return fx_lower_run(fx_graph_copy(g), &opt, p);
}

enum { MOST = 8 };

static size_t inputs_of(fx_graph *g, int limit, bool wrap, fx_tensor *in)
{
    uint64_t state = 3;
    size_t n_in = 0;
    FX_FOR_NODES(g, n) {
        if (n->opcode != FX_PLACEHOLDER)
            continue;
        ck_assert_uint_lt(n_in, MOST);
        ck_assert_int_eq(fx_tensor_like(ctx, n->type->dtype, n->type, &in[n_in]), FX_OK);
        fill(&in[n_in++], limit, wrap, &state);
    }
    return n_in;
}

/* Equal; floats near, relative to the largest. */
static void same(const char *what, size_t o, const fx_tensor *want, const fx_tensor *got)
{
    double largest = 0;
    ck_assert_int_eq(fx_tensor_numel(got), fx_tensor_numel(want));
    ck_assert_int_eq(got->dtype, want->dtype);
    for (int64_t i = 0; i < fx_tensor_numel(want); i++)
        largest = fmax(largest, isfinite(fx_tensor_get(want, i)) ? fabs(fx_tensor_get(want, i)) : 0);
    double most = !fx_dtype_is_float(want->dtype) ? 0 : want->dtype == FX_F16 ? 2e-3 : want->dtype == FX_BF16 ? 1e-2 : 2e-6;
    for (int64_t i = 0; i < fx_tensor_numel(want); i++) {
        double a = fx_tensor_get(want, i), b = fx_tensor_get(got, i);
        ck_assert_msg(a == b || (a != a && b != b) || fabs(a - b) <= most * largest, "%s: output %zu, element %lld: expected %g, got %g", what,
                      o, (long long)i, a, b);
    }
}

static void agree(const char *what, fx_graph *g, int limit, bool wrap)
{
    static const struct {
        const char *target;
        unsigned off;
    } ways[] = {{"generic", 0}, {"x86_64-avx2", 0}, {"x86_64-avx2", FX_OFF(FUSE)}, {"generic", FX_OFF(INPLACE)}};
    size_t n_want, n_got;
    fx_tensor in[MOST], *want, *got;
    size_t n_in = inputs_of(g, limit, wrap, in);
    ck_assert_msg(fx_graph_interpret(g, n_in, in, &n_want, &want) == FX_OK, "%s: interpreter: %s", what, first_message());
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        fx_program *p;
        ck_assert_msg(lower_to(g, ways[w].target, ways[w].off, FX_FAULT_NONE, &p) == FX_OK, "%s: lowering: %s", what, first_message());
        for (int planned = 0; planned < 2; planned++) {
            ck_assert_msg(fx_program_run(p, planned, n_in, in, &n_got, &got) == FX_OK, "%s: program: %s", what, first_message());
            ck_assert_uint_eq(n_got, n_want);
            for (size_t o = 0; o < n_want; o++)
                same(what, o, &want[o], &got[o]);
        }
    }
}

#define IN(name, type) "%" name " : " type " = placeholder[" name "]\n"
#define CALL(to, op, args) "%" to " = call_function[aten." op "](" args ")\n"

/* Indices: limit of the integers, whether they may be negative, and a check that the program makes. */
static const struct {
    const char *text;
    int limit;
    bool wrap;
    const char *check;
} indices[] = {
    {IN("w", "f32[7, 5]") IN("i", "i64[2, 3]") CALL("y", "embedding.default", "%w, %i") "output((%y,))\n", 7, false, "check t0 in 7 \"index into the 7 of dim 0 of w\""},
    {IN("w", "f16[7, 5]") IN("i", "i32[4]") CALL("y", "embedding.default", "%w, %i") "output((%y,))\n", 7, false, "check t0 in 7"},
    {IN("x", "f32[3, 6, 4]") IN("i", "i64[5]") CALL("y", "index_select.default", "%x, 1, %i") "output((%y,))\n", 6, false, "check t0 in 6"},
    {IN("x", "i64[3, 6]") IN("i", "i64[]") CALL("y", "index_select.default", "%x, -1, %i") "output((%y,))\n", 6, false, "check t0 in 6"},
    {IN("x", "f32[3, 6, 4]") IN("i", "i64[2, 5, 3]") CALL("y", "gather.default", "%x, 1, %i") "output((%y,))\n", 6, false, "check t0 in 6"},
    {IN("x", "f32[6]") IN("i", "i64[0]") CALL("y", "gather.default", "%x, 0, %i") "output((%y,))\n", 6, false, "f32[0]"}, /* folded */
    {IN("x", "f32[4, 6]") IN("i", "i64[3]") CALL("y", "index.Tensor", "%x, [%i]") "output((%y,))\n", 4, true, "select.i64(lt.bool("},
    {IN("x", "f32[4, 5, 6]") IN("i", "i64[3, 1]") IN("j", "i64[2]") CALL("y", "index.Tensor", "%x, [None, %i, %j]") "output((%y,))\n", 4, true, "check t1"},
    {IN("x", "u8[4, 5, 6]") IN("i", "i64[3]") IN("j", "i32[3]") CALL("y", "index.Tensor", "%x, [%i, None, %j]") "output((%y,))\n", 4, true, "check t1"},
    {IN("x", "f32[4, 6]") IN("i", "i64[3, 2]") IN("s", "f32[3, 4]") CALL("y", "scatter.src", "%x, 0, %i, %s") "output((%y,))\n", 4, false, "check t0 in 4"},
    {IN("x", "f32[4, 6]") IN("i", "i64[3, 2]") CALL("y", "scatter.value", "%x, 1, %i, 2.5") "output((%y, %x))\n", 6, false, "check t0 in 6"},
    {IN("x", "f32[4, 6]") IN("i", "i64[3]") IN("v", "f32[6]") CALL("y", "index_put.default", "%x, [%i], %v, False") "output((%y,))\n", 4, true, "check t0 in 4"},
    {IN("x", "i32[4, 6]") IN("i", "i64[3]") IN("j", "i64[3]") IN("v", "i32[]") CALL("y", "index_put.default", "%x, [%i, %j], %v, True") "output((%y,))\n", 4, true, "check t1"},
    {IN("x", "f32[4, 6]") IN("i", "i64[3]") CALL("t", "permute.default", "%x, [1, 0]") CALL("y", "index.Tensor", "%t, [%i]") "output((%y,))\n", 4, true, "check t0 in 6"},
    {CALL("y", "arange.start_step", "2, 20, 3") CALL("z", "arange.start_step", "0.5, 2.0, 0.25") CALL("u", "arange.start_step", "7, -3, -2, dtype=torch.int32") "output((%y, %z, %u))\n", 0, false, "values={7, 5, 3, 1, -1}"}, /* folded */
    {CALL("y", "arange.start_step", "3, 400000, 2") CALL("z", "arange.start_step", "0.5, 200000.0, 1.5") "output((%y, %z))\n", 0, false, "index.i64("},
};

static const char *text_of(const fx_program *p)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_program_print(&t, p);
    return t.data;
}

START_TEST(indices_give_what_the_graph_gives)
{
    fx_graph *g = graph_of(indices[_i].text);
    fx_program *p;
    agree(indices[_i].text, g, indices[_i].limit, indices[_i].wrap);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
    ck_assert_msg(strstr(text_of(p), indices[_i].check) != NULL, "expected '%s' in:\n%s", indices[_i].check, text_of(p));
}
END_TEST

/* Out of range: the run fails and says where; without the check the verifier refuses the program. */
START_TEST(indices_are_checked)
{
    fx_graph *g = graph_of(IN("w", "f32[7, 5]") IN("i", "i64[2, 3]") CALL("y", "embedding.default", "%w, %i") "output((%y,))\n");
    fx_program *p;
    fx_tensor in[MOST], *out;
    size_t n_out, n_in = inputs_of(g, 7, false, in);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NONE, &p), FX_OK);
    for (int64_t bad = -1; bad <= 7; bad += 8) {
        fx_tensor_set_int(&in[1], 4, bad);
        fx_diag_clear(ctx);
        ck_assert_int_eq(fx_program_run(p, true, n_in, in, &n_out, &out), FX_ERR_ARGUMENT);
        ck_assert_msg(strstr(first_message(), "is out of range [0, 7): index into the 7 of dim 0 of w") != NULL, "%s", first_message());
    }
    fx_diag_clear(ctx);
    ck_assert_int_eq(lower_to(g, "generic", 0, FX_FAULT_NO_CHECK, &p), FX_INTERNAL);
    ck_assert_msg(strstr(first_message(), "which no check around it keeps in range") != NULL, "%s", first_message());
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof table[0])

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, indices_give_what_the_graph_gives, 0, COUNT(indices));
    tcase_add_test(t, indices_are_checked);
}

int main(void)
{
    return unit_run("build", 120, set_up, tear_down, add_tests);
}
