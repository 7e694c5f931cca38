/* tests/unit/test_infer.c: shape and dtype inference: results, symbolic sizes, hints of the file, refusals.
 * Values of static shapes are compared with PyTorch for every row in tests/ops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "ir/ops.h"
#include "tests/unit/fixture.h"

/* Lines of a graph's text (symbols first, if any); the last call's result is what is asked for. */
static fx_graph *graph_of(const char *lines)
{
    fx_text text;
    fx_text_init(&text, fx_context_arena(ctx));
    fx_puts(&text, "graph \"case\" imported\n");
    if (strncmp(lines, "symbol", 6))
        fx_puts(&text, "\n");
    fx_puts(&text, lines);
    fx_puts(&text, "output((%y,))\n");
    fx_graph *g = NULL;
    fx_status status = fx_graph_parse(ctx, "case.fx", text.data, text.size, &g);
    if (status != FX_OK) {
        char message[500];
        fx_diag_format(fx_diag_get(ctx, 0), message, sizeof message);
        ck_abort_msg("%s\n%s", message, text.data);
    }
    return g;
}

static fx_status infer(const char *lines, fx_graph **g)
{
    *g = graph_of(lines);
    FX_FOR_NODES(*g, n)
        if (n->op)
            FX_TRY(fx_node_normalize(n));
    return fx_graph_infer(*g);
}

static const char *last_message(void)
{
    static char message[1000];
    const fx_diag *d = fx_diag_get(ctx, fx_diag_count(ctx) - 1);
    if (!d)
        return "";
    fx_diag_format(d, message, sizeof message);
    return message;
}

/* The type of %y after inference. */
static void gives(const char *lines, const char *type)
{
    fx_graph *g;
    ck_assert_msg(infer(lines, &g) == FX_OK, "%s: %s", lines, last_message());
    const fx_node *y = fx_graph_find_node(g, "y");
    fx_text text;
    fx_text_init(&text, fx_context_arena(ctx));
    if (y->type)
        fx_type_print(&text, y->type);
    ck_assert_msg(!strcmp(text.data ? text.data : "unknown", type), "%s\n gives %s, not %s", lines, text.data ? text.data : "unknown",
                  type);
}

static void fails(const char *lines, fx_status status, const char *words)
{
    fx_graph *g;
    fx_status got = infer(lines, &g);
    ck_assert_msg(got == status, "%s: %s, not %s (%s)", lines, fx_status_string(got), fx_status_string(status), last_message());
    ck_assert_msg(strstr(last_message(), words), "%s: '%s' lacks '%s'", lines, last_message(), words);
    ck_assert_msg(strstr(last_message(), "node 'y'"), "the message names the node: %s", last_message());
    fx_diag_clear(ctx);
}

#define X(type) "%x : " type " = placeholder[x]\n"
#define B(type) "%b : " type " = placeholder[b]\n"
#define Y(call) "%y = call_function[" call "\n"

START_TEST(promotes_as_torch)
{
    gives(X("i32[3]") B("f64[]") Y("aten.add.Tensor](%x, %b)"), "f64[3]");
    gives(X("f32[3]") B("f64[]") Y("aten.add.Tensor](%x, %b)"), "f32[3]");
    gives(X("i8[3]") B("i64[]") Y("aten.mul.Tensor](%x, %b)"), "i8[3]");
    gives(X("u8[3]") B("i8[3]") Y("aten.mul.Tensor](%x, %b)"), "i16[3]");
    gives(X("bool[3]") Y("aten.mul.Tensor](%x, 2)"), "i64[3]");
    gives(X("bool[3]") Y("aten.mul.Tensor](%x, True)"), "bool[3]");
    gives(X("f16[3]") Y("aten.mul.Tensor](%x, 2.5)"), "f16[3]");
    gives(X("f16[3]") B("bf16[3]") Y("aten.add.Tensor](%x, %b)"), "f32[3]");
    gives(X("i64[3]") Y("aten.mul.Tensor](%x, 2.5)"), "f32[3]");
    gives(X("i64[3]") B("i64[3]") Y("aten.div.Tensor](%x, %b)"), "f32[3]");
    gives(X("i64[3]") B("i64[3]") Y("aten.div.Tensor_mode](%x, %b, rounding_mode=\"floor\")"), "i64[3]");
    gives(X("i64[3]") Y("aten.exp.default](%x)"), "f32[3]");
    gives(X("i64[3]") Y("aten.clamp.default](%x, 0.5)"), "f32[3]");
    gives(X("i32[3]") Y("aten.sum.default](%x)"), "i64[]");
    gives(X("f32[3]") B("f32[3]") Y("aten.lt.Tensor](%x, %b)"), "bool[3]");
}
END_TEST

START_TEST(shapes)
{
    gives(X("f32[2, 1, 4]") B("f32[3, 1]") Y("aten.add.Tensor](%x, %b)"), "f32[2, 3, 4]");
    gives(X("f32[1, 3, 32, 32]") B("f32[8, 3, 3, 3]") Y("aten.conv2d.default](%x, %b, None, [2, 2], [1, 1])"), "f32[1, 8, 16, 16]");
    gives(X("f32[3, 32, 32]") B("f32[8, 3, 3, 3]") Y("aten.conv2d.default](%x, %b)"), "f32[8, 30, 30]");
    gives(X("f32[1, 4, 5, 5]") B("f32[4, 2, 3, 3]")
              Y("aten.convolution.default](%x, %b, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 2)"),
          "f32[1, 4, 10, 10]");
    gives(X("f32[1, 2, 7, 7]") Y("aten.max_pool2d.default](%x, [2, 2], [2, 2], [0, 0], [1, 1], True)"), "f32[1, 2, 4, 4]");
    gives(X("f32[1, 2, 5, 5]") Y("aten.avg_pool2d.default](%x, [2, 2], [4, 4], [1, 1], True)"), "f32[1, 2, 2, 2]");
    gives(X("f32[2, 6, 4]") Y("aten.native_layer_norm.default](%x, [4], None, None, 1e-05)"), "(f32[2, 6, 4], f32[2, 6, 1], f32[2, 6, 1])");
    gives(X("f32[2, 3, 4]") Y("aten.view.default](%x, [-1, 8])"), "f32[3, 8]");
    gives(X("f32[2, 3, 4]") Y("aten.slice.Tensor](%x, 2, -3, 9223372036854775807, 2)"), "f32[2, 3, 2]");
    gives(X("f32[2, 7]") Y("aten.chunk.default](%x, 3, 1)"), "(f32[2, 3], f32[2, 3], f32[2, 1])");
    gives(X("f32[2, 7]") B("f32[2, 1]") Y("aten.cat.default]([%x, %b], -1)"), "f32[2, 8]");
    gives(X("f32[2, 3]") Y("aten.mean.dim](%x, [1], True)"), "f32[2, 1]");
    gives(X("f32[0, 3]") Y("aten.relu.default](%x)"), "f32[0, 3]");
    gives(X("f32[2, 3, 4]") B("f32[5, 1, 4, 6]") Y("aten.matmul.default](%x, %b)"), "f32[5, 2, 3, 6]");
}
END_TEST

START_TEST(symbols_pass_through)
{
#define S "symbol s0 in [2, 100]\n\n"
    gives(S X("f32[s0, 3]") Y("aten.relu.default](%x)"), "f32[s0, 3]");
    gives(S X("f32[s0, 3]") B("f32[3]") Y("aten.add.Tensor](%x, %b)"), "f32[s0, 3]");
    gives(S X("f32[s0, 3, 4]") Y("aten.view.default](%x, [-1, 12])"), "f32[s0, 12]");
    gives(S X("f32[s0, 3, 4]") Y("aten.flatten.using_ints](%x, 1)"), "f32[s0, 12]");
    gives(S X("f32[s0, 3, 4]") Y("aten.flatten.using_ints](%x, 0)"), "f32[12*s0]");
    gives(S X("f32[s0, 3, 8, 8]") B("f32[5, 3, 3, 3]") Y("aten.conv2d.default](%x, %b)"), "f32[s0, 5, 6, 6]");
    gives(S X("f32[1, 3, s0, 8]") B("f32[5, 3, 3, 3]") Y("aten.conv2d.default](%x, %b, None, [1, 1], [1, 1])"), "f32[1, 5, s0, 8]");
    gives(S X("f32[s0]") B("f32[s0]") Y("aten.cat.default]([%x, %b])"), "f32[2*s0]");
    gives(S X("f32[s0, 4]") Y("aten.sym_size.int](%x, 0)"), "int(s0)");
#undef S
}
END_TEST

START_TEST(the_files_type_is_checked)
{
    gives(X("f32[3]") "%y : f32[3] = call_function[aten.relu.default](%x)\n", "f32[3]");
    fails(X("f32[3]") "%y : f32[4] = call_function[aten.relu.default](%x)\n", FX_ERR_TYPE,
          "expected f32[3] by its arguments, but the model says f32[4]");
    fails(X("f32[3]") "%y : f64[3] = call_function[aten.relu.default](%x)\n", FX_ERR_TYPE, "but the model says f64[3]");
    /* unknown functions keep what the file says */
    gives(X("f32[3]") "%y : f32[9] = call_function[their.own.op](%x)\n", "f32[9]");
}
END_TEST

START_TEST(contradictions_are_named)
{
    fails(X("f32[3]") B("f32[4]") Y("aten.add.Tensor](%x, %b)"), FX_ERR_TYPE, "sizes 3 and 4 of dim 0");
    fails(X("f32[1, 4, 8, 8]") B("f32[8, 3, 3, 3]") Y("aten.conv2d.default](%x, %b)"), FX_ERR_TYPE, "expected an input of 3 channels");
    fails(X("f32[1, 3, 2, 2]") B("f32[8, 3, 3, 3]") Y("aten.conv2d.default](%x, %b)"), FX_ERR_TYPE, "larger than the padded input");
    fails(X("f32[1, 3, 8, 8]") B("f32[8, 3, 3, 3]") Y("aten.conv2d.default](%x, %b, None, [0, 1])"), FX_ERR_TYPE, "'stride'");
    fails(X("f32[1, 3, 8, 8]") B("f64[8, 3, 3, 3]") Y("aten.conv2d.default](%x, %b)"), FX_ERR_TYPE, "one dtype");
    fails(X("f32[2, 3]") B("f32[4, 5]") Y("aten.mm.default](%x, %b)"), FX_ERR_TYPE, "sizes 3 and 4 do not match");
    fails(X("f32[2, 3]") Y("aten.view.default](%x, [4, 2])"), FX_ERR_TYPE, "6 elements");
    fails(X("f32[2, 3]") Y("aten.view.default](%x, [-1, -1])"), FX_ERR_TYPE, "at most one -1");
    fails(X("f32[2, 3]") Y("aten.permute.default](%x, [0, 0])"), FX_ERR_TYPE, "appears twice");
    fails(X("f32[2, 3]") Y("aten.select.int](%x, 1, 3)"), FX_ERR_TYPE, "index 3 lies outside");
    fails(X("f32[2, 3]") Y("aten.softmax.int](%x, 2)"), FX_ERR_TYPE, "expected a dim from -2 to 1, got 2");
    fails(X("bool[2]") B("bool[2]") Y("aten.sub.Tensor](%x, %b)"), FX_ERR_TYPE, "bool");
    fails(X("i64[2]") Y("aten.mean.default](%x)"), FX_ERR_TYPE, "float");
    fails(X("i64[2]") Y("aten.silu.default](%x)"), FX_ERR_TYPE, "expected a float type");
    fails(X("f32[0]") Y("aten.amax.default](%x)"), FX_ERR_TYPE, "at least one element");
    fails(X("f32[2, 3]") B("f32[4, 1]") Y("aten.inner.default](%x, %b)"), FX_ERR_TYPE, "expected equal sizes"); /* only tensordot broadcasts */
    fails(X("f32[2, 3]") B("f32[1]") Y("aten.mv.default](%x, %b)"), FX_ERR_TYPE, "expected equal sizes");
    fails(X("f32[2, 3]") Y("aten.split_with_sizes.default](%x, [1, 1], 1)"), FX_ERR_TYPE, "sum to 3, got 2");
}
END_TEST

START_TEST(overflow_is_an_error)
{
    fails("%x : f32[] = placeholder[x]\n" Y("aten.expand.default](%x, [4611686018427387904, 4])"), FX_ERR_TYPE, "overflows");
    fails("%x : f32[] = placeholder[x]\n" Y("aten.expand.default](%x, [9223372036854775807, 9223372036854775807])"), FX_ERR_TYPE,
          "overflows");
    fails(X("f32[1]") Y("aten.constant_pad_nd.default](%x, [9223372036854775807, 9223372036854775807])"), FX_ERR_TYPE, "overflows");
    fails(X("f32[1, 1, 1]") Y("aten.pixel_shuffle.default](%x, 4294967296)"), FX_ERR_TYPE, "positive number");
    fails(X("f32[1, 1, 2, 2]") Y("aten.upsample_nearest2d.vec](%x, None, [1e+30, 1.0])"), FX_ERR_TYPE, "scale_factors");
}
END_TEST

START_TEST(more_dims_than_there_is_room_for)
{
#define WIDE "f32[1, 1, 1, 1, 1, 2]"
#define WIDEST "f32[1, 1, 1, 1, 1, 1, 1, 2]"
    fails(X(WIDE) B(WIDE) Y("aten.inner.default](%x, %b)"), FX_ERR_TYPE, "more than 8 dims");
    fails(X(WIDE) B(WIDE) Y("aten.tensordot.default](%x, %b, [], [])"), FX_ERR_TYPE, "more than 8 dims");
    fails(X(WIDE) B(WIDE) Y("aten.einsum.default](\"abcdef,ghijkl->abcdefghijkl\", [%x, %b])"), FX_ERR_TYPE, "does not fit");
    fails(X(WIDEST) Y("aten.unsqueeze.default](%x, 0)"), FX_ERR_UNSUPPORTED, "at most 8");
    fails(X(WIDEST) B(WIDEST) Y("aten.stack.default]([%x, %b])"), FX_ERR_UNSUPPORTED, "at most 8");
    fails(X(WIDEST) Y("aten.unfold.default](%x, 7, 1, 1)"), FX_ERR_UNSUPPORTED, "at most 8");
    fails(X(WIDEST) Y("aten.view.default](%x, [1, 1, 1, 1, 1, 1, 1, 1, 2])"), FX_ERR_TYPE, "at most 8");
    fails(X(WIDEST) Y("aten.expand.default](%x, [2, 1, 1, 1, 1, 1, 1, 1, 2])"), FX_ERR_TYPE, "at most 8");
    fails(X(WIDEST) Y("aten.repeat.default](%x, [2, 1, 1, 1, 1, 1, 1, 1, 2])"), FX_ERR_TYPE, "at most 8");
    fails(X(WIDEST) B("i64[3, 3]") Y("aten.index.Tensor](%x, [%b])"), FX_ERR_UNSUPPORTED, "at most 8");
#undef WIDE
#undef WIDEST
}
END_TEST

START_TEST(training_mode)
{
#define V B("f32[3]")
    gives(X("f32[1, 3, 4, 4]") Y("aten.dropout.default](%x, 0.5, True)"), "f32[1, 3, 4, 4]");
    gives(X("f32[1, 3, 4, 4]") V Y("aten.batch_norm.default](%x, %b, %b, %b, %b, True, 0.1, 1e-05, True)"), "f32[1, 3, 4, 4]");
    gives(X("f32[1, 3, 4, 4]") V Y("aten.batch_norm.default](%x, %b, %b, %b, %b, False, 0.1, 1e-05, True)"), "f32[1, 3, 4, 4]");
    gives(X("f32[3]") Y("aten.dropout.default](%x, 0.5, True)"), "f32[3]");
    fails(X("f32[3]") Y("aten.dropout.default](%x, 1.5, True)"), FX_ERR_TYPE, "expected a probability, got 1.5");
#undef V
}
END_TEST

START_TEST(in_place_results_are_the_first_argument)
{
    gives(X("f32[2, 3]") B("f32[3]") Y("aten.add_.Tensor](%x, %b)"), "f32[2, 3]");
    fails(X("f32[3]") B("f32[2, 3]") Y("aten.add_.Tensor](%x, %b)"), FX_ERR_TYPE, "to store in place");
    fails(X("i64[3]") B("f32[3]") Y("aten.add_.Tensor](%x, %b)"), FX_ERR_TYPE, "cannot be stored in place");
}
END_TEST

/* torch.promote_types over all pairs is symmetric, and no narrower than its arguments. */
START_TEST(promotion_is_a_lattice)
{
    for (int a = 0; a < FX_DTYPE_COUNT; a++)
        for (int b = 0; b < FX_DTYPE_COUNT; b++) {
            fx_dtype ab = fx_promote_types((fx_dtype)a, (fx_dtype)b);
            ck_assert_int_eq(ab, fx_promote_types((fx_dtype)b, (fx_dtype)a));
            ck_assert_int_eq(fx_promote_types((fx_dtype)a, ab), ab);
            for (int c = 0; c < FX_DTYPE_COUNT; c++)
                if (fx_dtype_is_int((fx_dtype)a) == fx_dtype_is_int((fx_dtype)b) && a == c)
                    ck_assert_int_eq(fx_promote_types(ab, (fx_dtype)c), ab);
        }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, promotes_as_torch);
    tcase_add_test(t, shapes);
    tcase_add_test(t, symbols_pass_through);
    tcase_add_test(t, the_files_type_is_checked);
    tcase_add_test(t, contradictions_are_named);
    tcase_add_test(t, overflow_is_an_error);
    tcase_add_test(t, more_dims_than_there_is_room_for);
    tcase_add_test(t, training_mode);
    tcase_add_test(t, in_place_results_are_the_first_argument);
    tcase_add_test(t, promotion_is_a_lattice);
}

int main(void)
{
    return unit_run("infer", 0, set_up, tear_down, add_tests);
}
