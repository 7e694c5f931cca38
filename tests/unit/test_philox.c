/* tests/unit/test_philox.c: Philox 4x32-10 against the known answers of the Random123 distribution (kat_vectors, philox4x32 10), the runtime's
 * against the interpreter's, and graphs that get a state.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "fxcc/inspect.h"
#include "fxcc/interpreter.h"
#include "fxcc/pass.h"
#include "ir/ops.h"
#include "runtime/philox.h"
#include "tests/unit/unit.h"

static fx_context *ctx;

static void set_up(void)
{
    ctx = fx_context_create();
}

static void tear_down(void)
{
    fx_context_free(ctx);
}

START_TEST(known_answers)
{
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t want[4];
    } answers[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, UINT64_C(0x299f31d0a4093822), {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        uint32_t c[4];
        memcpy(c, answers[i].counter, sizeof c);
        fx_philox_block(c, answers[i].key);
        for (int k = 0; k < 4; k++)
            ck_assert_uint_eq(c[k], answers[i].want[k]);
    }
    for (int k = 0; k < 4; k++)
        ck_assert_int_eq(fxrt_philox(k, 0, 0), answers[0].want[k]);
}
END_TEST

START_TEST(the_runtime_gives_the_same)
{
    uint64_t s = 7;
    for (int i = 0; i < 100000; i++) {
        uint64_t v[3];
        for (int k = 0; k < 3; k++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            v[k] = (s ^ s >> 31) >> (s >> 58 & 31);
        }
        ck_assert_int_eq(fxrt_philox((int64_t)v[0], (int64_t)v[1], (int64_t)v[2]), fx_philox(v[0], v[1], v[2]));
    }
}
END_TEST

static fx_graph *read_graph(const char *text)
{
    fx_graph *g;
    text = fx_arena_printf(fx_context_arena(ctx), "graph \"random\" imported\n\n%s", text);
    ck_assert_int_eq(fx_graph_parse(ctx, "random.fx", text, strlen(text), &g), FX_OK);
    ck_assert_int_eq(fx_graph_complete(g), FX_OK);
    return g;
}

static fx_tensor state_of(int64_t seed, int64_t call)
{
    static const int64_t two = 2;
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_I64, 1, &two, &t), FX_OK);
    ((int64_t *)t.data)[0] = seed;
    ((int64_t *)t.data)[1] = call;
    return t;
}

/* Element i of stream k in call n is philox(seed, (i / 4, k, n))[i % 4]. */
START_TEST(elements_by_their_place)
{
    fx_graph *g = read_graph("%s : i64[2] = placeholder[s]\n"
                             "%a : i64[3, 5] = call_function[fxcc.philox.default](%s, [3, 5], stream=0, dtype=torch.int64)\n"
                             "%b : f32[7] = call_function[fxcc.philox.default](%s, [7], stream=2)\noutput((%a, %b))\n");
    fx_tensor in = state_of(INT64_C(0x123456789abcdef), INT64_C(5000000000)), *out;
    size_t n;
    ck_assert_int_eq(fx_graph_interpret(g, 1, &in, &n, &out), FX_OK);
    for (int i = 0; i < 15; i++) {
        uint32_t c[4] = {(uint32_t)i / 4, 0, (uint32_t)INT64_C(5000000000), 1};
        fx_philox_block(c, UINT64_C(0x123456789abcdef));
        ck_assert_int_eq(((int64_t *)out[0].data)[i], c[i % 4]);
    }
    for (int i = 0; i < 7; i++) {
        uint32_t c[4] = {(uint32_t)i / 4, 2, (uint32_t)INT64_C(5000000000), 1};
        fx_philox_block(c, UINT64_C(0x123456789abcdef));
        ck_assert(((float *)out[1].data)[i] == (float)ldexp(c[i % 4] >> 8, -24));
    }
}
END_TEST

/* The state as an input: equal states give equal numbers; another seed or call, or another operator, gives others. */
START_TEST(state_as_an_input)
{
    fx_graph *g = read_graph("%x : f32[1000] = placeholder[x]\n%a = call_function[aten.dropout.default](%x, 0.5, True)\n"
                             "%b = call_function[aten.dropout.default](%x, 0.5, True)\noutput((%a, %b))\n"), *with;
    fx_tensor in[2], *first, *other;
    size_t n;
    static const int64_t size = 1000;
    ck_assert_int_eq(fx_graph_add_philox_state(g, true, &with), FX_OK);
    ck_assert_ptr_ne(g, with);
    ck_assert_uint_eq(fx_graph_input_count(g), 1);
    ck_assert_uint_eq(fx_graph_input_count(with), 2);
    ck_assert_str_eq(with->first->next->target, FX_PHILOX_STATE);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 1, &size, &in[0]), FX_OK);
    for (int64_t i = 0; i < size; i++)
        fx_tensor_set(&in[0], i, 1);
    in[1] = state_of(1, 1);
    ck_assert_int_eq(fx_graph_interpret(with, 2, in, &n, &first), FX_OK);
    ck_assert_int_ne(memcmp(first[0].data, first[1].data, (size_t)size * 4), 0);
    for (int k = 0; k < 4; k++) {
        in[1] = state_of(k == 1 ? 2 : 1, k == 2 ? 2 : 1);
        ck_assert_int_eq(fx_graph_interpret(with, 2, in, &n, &other), FX_OK);
        ck_assert_uint_eq(n, 2);
        ck_assert_int_eq(memcmp(first[0].data, other[0].data, (size_t)size * 4) != 0, k == 1 || k == 2);
    }
    /* Nothing random is left, so nothing more happens. */
    fx_graph *again;
    ck_assert_int_eq(fx_graph_add_philox_state(with, true, &again), FX_OK);
    ck_assert_uint_eq(fx_graph_input_count(again), 2);
}
END_TEST

/* Without a state there are no numbers; operators that come later get streams of their own. */
START_TEST(refused_and_numbered)
{
    fx_graph *g = read_graph("%s : i64[2] = placeholder[s]\n%u : f32[4] = call_function[fxcc.philox.default](%s, [4], stream=6)\n"
                             "%a : f32[4] = call_function[aten.rand_like.default](%u)\noutput((%u, %a))\n"), *with;
    fx_tensor in = state_of(0, 0), *out;
    size_t n;
    ck_assert_int_eq(fx_graph_interpret(g, 1, &in, &n, &out), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 0)->message, "fx_graph_add_philox_state"));
    fx_diag_clear(ctx);
    ck_assert_int_eq(fx_graph_add_philox_state(g, false, &with), FX_OK);
    bool seven = false;
    FX_FOR_NODES(with, v)
        seven = seven || (v->op && v->op->id == FX_OP_philox && fx_node_int(v, 2) == 7);
    ck_assert(seven);
    /* A buffer that each run raises. */
    for (int64_t call = 0; call < 3; call++) {
        fx_tensor now;
        ck_assert_int_eq(fx_graph_tensor(with, FX_PHILOX_STATE, &now), FX_OK);
        ck_assert_int_eq(((int64_t *)now.data)[0], 0);
        ck_assert_int_eq(((int64_t *)now.data)[1], call);
        ck_assert_int_eq(fx_graph_interpret(with, 1, &in, &n, &out), FX_OK);
    }
    static const char *const wrong[] = {
        "%s : i64[3] = placeholder[s]\n%u = call_function[fxcc.philox.default](%s, [4], stream=0)\noutput((%u,))\n",
        "%s : i64[2] = placeholder[s]\n%u = call_function[fxcc.philox.default](%s, [4], stream=-1)\noutput((%u,))\n",
        "%s : i64[2] = placeholder[s]\n%u = call_function[fxcc.philox.default](%s, [1000000, 1000000], stream=0)\noutput((%u,))\n",
        "symbol n in [2, 9]\n%s : i64[2] = placeholder[s]\n%x : f32[n] = placeholder[x]\n%u = call_function[fxcc.philox.default](%s, [4], stream=sym(n))\noutput((%u,))\n",
        "%s : i64[2] = placeholder[s]\n%u = call_function[fxcc.philox.default](%s, [4], stream=0, dtype=torch.int32)\noutput((%u,))\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *text = fx_arena_printf(fx_context_arena(ctx), "graph \"random\" imported\n\n%s", wrong[i]);
        fx_diag_clear(ctx);
        ck_assert_msg(fx_graph_parse(ctx, "random.fx", text, strlen(text), &g) != FX_OK || fx_graph_complete(g) != FX_OK, "%s", wrong[i]);
        ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 0)->message, "expected"));
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, known_answers);
    tcase_add_test(t, the_runtime_gives_the_same);
    tcase_add_test(t, elements_by_their_place);
    tcase_add_test(t, state_as_an_input);
    tcase_add_test(t, refused_and_numbered);
}

int main(void)
{
    return unit_run("philox", 60, set_up, tear_down, add_tests);
}
