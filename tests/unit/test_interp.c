/* tests/unit/test_interp.c: the reference interpreter: graphs, memory, in-place writes, errors, callbacks, single nodes.
 * Values of every row are compared with PyTorch in tests/ops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "fxcc/interpreter.h"
#include "ir/ops.h"
#include "tests/unit/fixture.h"

static fx_graph *graph_of(const char *lines)
{
    fx_text text;
    fx_text_init(&text, fx_context_arena(ctx));
    fx_printf(&text, "graph \"case\" imported\n%s", lines);
    fx_graph *g = NULL;
    ck_assert_msg(fx_graph_parse(ctx, "case.fx", text.data, text.size, &g) == FX_OK, "%s", unit_diag(ctx));
    FX_FOR_NODES(g, n)
        if (n->op)
            ck_assert_msg(fx_node_normalize(n) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_msg(fx_graph_infer(g) == FX_OK, "%s", unit_diag(ctx));
    return g;
}

static fx_tensor floats(int rank, const int64_t *sizes, const float *v)
{
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, rank, sizes, &t), FX_OK);
    memcpy(t.data, v, (size_t)fx_tensor_numel(&t) * sizeof *v);
    return t;
}

static fx_tensor row(int n, const float *v)
{
    return floats(1, (int64_t[]){n}, v);
}

static void same(const fx_tensor *t, int n, const float *v)
{
    ck_assert_int_eq(t->dtype, FX_F32);
    ck_assert_int_eq(fx_tensor_numel(t), n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(memcmp((float *)t->data + i, v + i, sizeof *v) == 0, "element %d: %g, not %g", i, ((float *)t->data)[i], v[i]);
}

START_TEST(runs_a_graph)
{
    fx_graph *g = graph_of("parameter w : f32[2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n"
                           "\n"
                           "%x : f32[1, 3] = placeholder[x]\n"
                           "%w : f32[2, 3] = get_attr[w]\n"
                           "%linear = call_function[aten.linear.default](%x, %w)\n"
                           "%relu = call_function[aten.relu.default](%linear)\n"
                           "output((%linear, None, {\"r\": %relu}))\n");
    fx_tensor x = floats(2, (int64_t[]){1, 3}, (float[]){1, -1, 0}), *out;
    size_t n;
    ck_assert_msg(fx_graph_interpret(g, 1, &x, &n, &out) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_uint_eq(n, 2);
    same(&out[0], 2, (float[]){-1, -1});
    same(&out[1], 2, (float[]){0, 0});
}
END_TEST

START_TEST(several_results)
{
    fx_graph *g = graph_of("\n%x : f32[5] = placeholder[x]\n"
                           "%chunk = call_function[aten.chunk.default](%x, 3)\n"
                           "%a = call_function[_operator.getitem](%chunk, 0)\n"
                           "%c = call_function[_operator.getitem](%chunk, -1)\n"
                           "output((%c, %a, %chunk))\n");
    fx_tensor x = row(5, (float[]){1, 2, 3, 4, 5}), *out;
    size_t n;
    ck_assert_msg(fx_graph_interpret(g, 1, &x, &n, &out) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_uint_eq(n, 5);
    same(&out[0], 1, (float[]){5});
    same(&out[1], 2, (float[]){1, 2});
    same(&out[2], 2, (float[]){1, 2});
    same(&out[4], 1, (float[]){5});
}
END_TEST

START_TEST(in_place_writes_go_through_views)
{
    fx_graph *g = graph_of("\n%x : f32[4] = placeholder[x]\n"
                           "%view = call_function[aten.view.default](%x, [2, 2])\n"
                           "%select = call_function[aten.select.int](%view, 1, 0)\n"
                           "%mul_ = call_function[aten.mul_.Tensor](%select, 10)\n"
                           "%sum = call_function[aten.sum.default](%x)\n"
                           "output((%x, %mul_, %sum))\n");
    const float v[] = {1, 2, 3, 4};
    fx_tensor x = row(4, v), *out;
    size_t n;
    ck_assert_msg(fx_graph_interpret(g, 1, &x, &n, &out) == FX_OK, "%s", unit_diag(ctx));
    same(&out[0], 4, (float[]){10, 2, 30, 4});
    same(&out[1], 2, (float[]){10, 30});
    same(&out[2], 1, (float[]){46});
    same(&x, 4, (float[]){10, 2, 30, 4}); /* the caller sees it, as in eager */
}
END_TEST

/* Eager refuses a view that its operand's strides do not allow. Ours is a copy to read; writing where both would see it is refused. */
START_TEST(writes_through_views_that_strides_do_not_allow)
{
    static const struct {
        const char *lines, *view; /* NULL: goes well */
    } cases[] = {
        {"%y = call_function[aten.mul_.Tensor](%v, 10)\noutput((%h, %t, %y))\n", "v"},
        {"%y = call_function[aten.mul_.Tensor](%h, 10)\noutput((%v, %y))\n", "v"},
        {"%s = call_function[aten.select.int](%v, 0, 1)\n%y = call_function[aten.mul_.Tensor](%s, 10)\noutput((%h, %y))\n", "v"},
        {"%s = call_function[aten.select.int](%t, 0, 1)\n%y = call_function[aten.mul_.Tensor](%s, 10)\noutput((%v, %y))\n", "v"},
        {"%v2 = call_function[aten.view.default](%v, [2, 3])\n%t2 = call_function[aten.numpy_T.default](%v2)\n%v3 = call_function[aten.view.default]"
         "(%t2, [6])\n%y = call_function[aten.mul_.Tensor](%v3, 10)\noutput((%h, %y))\n", "v3"},
        {"%y = call_function[aten.mul_.Tensor](%v, 10)\noutput((%y,))\n", "v"}, /* nobody sees h, but as the caller's */
        {"%y = call_function[aten.mul_.Tensor](%h, 10)\noutput((%y, %t))\n", NULL}, /* nobody sees v */
        {"%z = call_function[aten.mul.Tensor](%v, 10)\noutput((%h, %z))\n", NULL},
    };
    static const char *const views[] = {"aten.view.default](%t, [6])", "aten._unsafe_view.default](%t, [6])", "aten.view_as.default](%t, %like)",
                                        "aten.reshape.default](%t, [6])", "aten.flatten.using_ints](%t)"};
    static const char *const bases[] = {"aten.add.Tensor](%x, 0)", "aten.alias.default](%x)"}; /* a value, the caller's input */
    const float v[] = {1, 2, 3, 4, 5, 6};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t i = 0; i < sizeof views / sizeof *views; i++)
            for (size_t b = 0; b < 2; b++) {
                bool copies = i >= 3, unseen = k == 5 && b == 0;
                fx_graph *g = graph_of(fx_arena_printf(fx_context_arena(ctx), "\n%%x : f32[2, 3] = placeholder[x]\n"
                                       "%%like : f32[6] = placeholder[like]\n%%h = call_function[%s\n%%t = call_function[aten.t.default](%%h)\n%%v = call_function[%s\n%s",
                                       bases[b], views[i], cases[k].lines));
                fx_tensor in[2] = {floats(2, (int64_t[]){2, 3}, v), row(6, v)}, *out;
                size_t n;
                bool refused = cases[k].view && !copies && !unseen;
                fx_status status = fx_graph_interpret(g, 2, in, &n, &out);
                ck_assert_msg(status == (refused ? FX_ERR_UNSUPPORTED : FX_OK), "case %zu, %s of %s: %s", k, views[i], bases[b], unit_diag(ctx));
                if (!refused)
                    continue;
                const char *what = fx_arena_printf(fx_context_arena(ctx), "changes in place what '%s' (aten.", cases[k].view);
                ck_assert_msg(strstr(unit_diag(ctx), what) != NULL, "expected \"%s\", got \"%s\"", what, unit_diag(ctx));
                fx_diag_clear(ctx);
            }
}
END_TEST

/* Both are views of a value that nobody sees any more, one of them through a third. */
START_TEST(writes_to_one_of_two_views_that_strides_do_not_allow)
{
    for (int written = 1; written <= 2; written++) {
        fx_graph *g = graph_of(fx_arena_printf(fx_context_arena(ctx), "\n%%x : f32[2, 3] = placeholder[x]\n%%h = call_function[aten.neg.default](%%x)\n"
                               "%%t = call_function[aten.t.default](%%h)\n%%v = call_function[aten.view.default](%%t, [2, 3])\n"
                               "%%v1 = call_function[aten.view.default](%%t, [6])\n%%vt = call_function[aten.t.default](%%v)\n"
                               "%%v2 = call_function[aten.view.default](%%vt, [6])\n%%y = call_function[aten.mul_.Tensor](%%v%d, 10)\n"
                               "output((%%v%d, %%y))\n", written, 3 - written));
        fx_tensor x = floats(2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 4, 5, 6}), *out;
        size_t n;
        ck_assert_int_eq(fx_graph_interpret(g, 1, &x, &n, &out), FX_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(unit_diag(ctx), "changes in place what 'v") != NULL, "%s", unit_diag(ctx));
        fx_diag_clear(ctx);
    }
}
END_TEST

/* What was written before such a view is taken is in it. */
START_TEST(writes_before_views_that_strides_do_not_allow)
{
    fx_graph *g = graph_of("\n%x : f32[2, 3] = placeholder[x]\n%mul_ = call_function[aten.mul_.Tensor](%x, 10)\n"
                           "%t = call_function[aten.t.default](%x)\n%v = call_function[aten.view.default](%t, [6])\noutput((%v,))\n");
    fx_tensor x = floats(2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 4, 5, 6}), *out;
    size_t n;
    ck_assert_msg(fx_graph_interpret(g, 1, &x, &n, &out) == FX_OK, "%s", unit_diag(ctx));
    same(&out[0], 6, (float[]){10, 40, 20, 50, 30, 60});
}
END_TEST

START_TEST(parameters_are_written_as_in_eager)
{
    fx_graph *g = graph_of("parameter w : f32[2] = [1.0, 2.0]\n\n"
                           "%w : f32[2] = get_attr[w]\n"
                           "%mul_ = call_function[aten.mul_.Tensor](%w, 2)\n"
                           "output((%mul_,))\n");
    size_t n;
    fx_tensor *out;
    ck_assert_msg(fx_graph_interpret(g, 0, NULL, &n, &out) == FX_OK, "%s", unit_diag(ctx));
    same(&out[0], 2, (float[]){2, 4});
    ck_assert_msg(fx_graph_interpret(g, 0, NULL, &n, &out) == FX_OK, "%s", unit_diag(ctx));
    same(&out[0], 2, (float[]){4, 8}); /* the next run finds what the last one left */
}
END_TEST

START_TEST(sizes_may_be_symbolic)
{
    fx_graph *g = graph_of("symbol s0 in [2, 6]\n\n"
                           "%x : f32[s0, s0] = placeholder[x]\n"
                           "%size = call_function[aten.sym_size.int](%x, 0)\n"
                           "%more = call_function[_operator.mul](%size, 2)\n"
                           "%cat = call_function[aten.cat.default]([%x, %x])\n"
                           "%view = call_function[aten.view.default](%cat, [%more, %size])\n"
                           "%y = call_function[aten.slice.Tensor](%view, 0, %size)\n"
                           "output((%y, %more))\n");
    for (int s = 2; s <= 6; s++) {
        float v[36];
        for (int i = 0; i < 36; i++)
            v[i] = (float)i;
        fx_tensor x = floats(2, (int64_t[]){s, s}, v), *out;
        size_t n;
        ck_assert_msg(fx_graph_interpret(g, 1, &x, &n, &out) == FX_OK, "%s", unit_diag(ctx));
        same(&out[0], s * s, v);
        ck_assert_int_eq(*(int64_t *)out[1].data, 2 * s);
    }
    fx_tensor *out, x = floats(2, (int64_t[]){7, 7}, (float[49]){0}), odd = floats(2, (int64_t[]){3, 2}, (float[6]){0});
    size_t n;
    ck_assert_int_eq(fx_graph_interpret(g, 1, &x, &n, &out), FX_ERR_TYPE);
    ck_assert_int_eq(fx_graph_interpret(g, 1, &odd, &n, &out), FX_ERR_TYPE);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "input 'x': expected f32[s0, s0], got f32[3, 2]"));
}
END_TEST

START_TEST(inputs_are_checked)
{
    fx_graph *g = graph_of("\n%x : f32[1, 3] = placeholder[x]\noutput((%x,))\n");
    fx_tensor *out, flat = row(3, (float[]){1, 2, 3}), two[2] = {flat, flat}, doubles;
    size_t n = 77;
    ck_assert_int_eq(fx_graph_interpret(g, 1, &flat, &n, &out), FX_ERR_TYPE);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "input 'x': expected f32[1, 3], got f32[3]"));
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F64, 2, (int64_t[]){1, 3}, &doubles), FX_OK);
    ck_assert_int_eq(fx_graph_interpret(g, 1, &doubles, &n, &out), FX_ERR_TYPE);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "got f64[1, 3]"));
    ck_assert_int_eq(fx_graph_interpret(g, 0, NULL, &n, &out), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "expected 1 inputs, got 0"));
    two[0] = floats(2, (int64_t[]){1, 3}, (float[3]){0});
    ck_assert_int_eq(fx_graph_interpret(g, 2, two, &n, &out), FX_ERR_ARGUMENT);
    ck_assert_uint_eq(n, 77); /* outputs untouched */
}
END_TEST

START_TEST(unknown_calls_are_refused)
{
    fx_graph *g = graph_of("\n%x : f32[3] = placeholder[x]\n%y : f32[3] = call_function[their.own.op](%x)\noutput((%y,))\n");
    fx_tensor *out, x = row(3, (float[]){1, 2, 3});
    size_t n;
    ck_assert_int_eq(fx_graph_interpret(g, 1, &x, &n, &out), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "their.own.op"));
    g = graph_of("\n%x : f32[3] = placeholder[x]\n%y : f32[3] = call_method[digamma](%x)\noutput((%y,))\n");
    ck_assert_int_eq(fx_graph_interpret(g, 1, &x, &n, &out), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "digamma"));
}
END_TEST

typedef struct seen {
    int nodes, values;
    const char *stop;
} seen;

static fx_status note(void *user, fx_interpreter *in, const fx_node *n, const fx_result *value)
{
    seen *s = user;
    fx_result same;
    s->nodes++;
    s->values += (int)value->count;
    for (size_t i = 0; i < value->count; i++)
        ck_assert_ptr_nonnull(value->tensors[i].data);
    ck_assert(n->opcode == FX_OUTPUT || (fx_interpreter_value(in, n, &same) && same.tensors == value->tensors));
    if (s->stop && !strcmp(n->name, s->stop))
        return fx_fail(ctx, FX_ERR_ARGUMENT, &n->loc, "stopped");
    return FX_OK;
}

START_TEST(callbacks_see_every_node)
{
    fx_graph *g = graph_of("\n%x : f32[4] = placeholder[x]\n"
                           "%split = call_function[aten.split.Tensor](%x, 1)\n"
                           "%a = call_function[_operator.getitem](%split, 2)\n"
                           "output((%a,))\n");
    fx_tensor x = row(4, (float[]){1, 2, 3, 4});
    const fx_tensor *out;
    size_t n;
    seen s = {0};
    fx_interpreter *in = fx_interpreter_create(g, &(fx_interpreter_options){.after = note, .user = &s});
    ck_assert_int_eq(fx_interpreter_run(in, 1, &x, &n, &out), FX_OK);
    ck_assert_int_eq(s.nodes, 4);
    ck_assert_int_eq(s.values, 7);
    s = (seen){.stop = "split"};
    ck_assert_int_eq(fx_interpreter_run(in, 1, &x, &n, &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(s.nodes, 2);
    fx_interpreter_free(in);
}
END_TEST

START_TEST(a_node_by_itself)
{
    fx_graph *g = graph_of("\n%x : f32[3] = placeholder[x]\n%y = call_function[aten.add.Tensor](%x, %x, alpha=2)\noutput((%y,))\n");
    fx_tensor x = row(3, (float[]){1, 2, 3}), out;
    const fx_tensor *in[] = {&x, &x}; /* one for each operand, also when they are the same node */
    int n;
    ck_assert_msg(fx_node_eval(fx_graph_find_node(g, "y"), in, &out, 1, &n) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_int_eq(n, 1);
    same(&out, 3, (float[]){3, 6, 9});
}
END_TEST

/* A chain of 200 tensors of 4 MB must not be held at once: the context grows by the output alone. */
START_TEST(values_go_with_their_last_use)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "\n%x : f32[1048576] = placeholder[x]\n%n0 = call_function[aten.neg.default](%x)\n");
    for (int i = 1; i < 200; i++)
        fx_printf(&t, "%%n%d = call_function[aten.neg.default](%%n%d)\n", i, i - 1);
    fx_puts(&t, "output((%n199,))\n");
    fx_graph *g = graph_of(t.data);
    fx_tensor x, *out;
    size_t n;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 1, (int64_t[]){1 << 20}, &x), FX_OK);
    ((float *)x.data)[7] = 5;
    ck_assert_int_eq(fx_graph_interpret(g, 1, &x, &n, &out), FX_OK);
    ck_assert(((float *)out[0].data)[7] == 5);
    FILE *f = fopen("/proc/self/status", "r");
    long peak = 0;
    char line[200];
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "VmHWM:", 6))
            peak = strtol(line + 6, NULL, 10);
    if (f)
        fclose(f);
#ifdef __SANITIZE_ADDRESS__ /* keeps freed memory and shadows it */
    ck_assert_int_gt(peak, 0);
#else
    ck_assert_int_lt(peak, 200 * 1024);
#endif
}
END_TEST

START_TEST(conversions_wrap_as_on_x86)
{
    ck_assert_int_eq(fx_float_to_int(300, FX_U8) & 255, 44);
    ck_assert_int_eq(fx_float_to_int(-1, FX_U8) & 255, 255);
    ck_assert_int_eq(fx_float_to_int(3e9, FX_I32), INT32_MIN);
    ck_assert_int_eq(fx_float_to_int(2147483647.9, FX_I32), INT32_MAX);
    ck_assert_int_eq(fx_float_to_int(-2147483648.9, FX_I32), INT32_MIN);
    ck_assert(fx_float_to_int((double)NAN, FX_I64) == INT64_MIN);
    ck_assert(fx_float_to_int(-1.9, FX_I64) == -1);
    ck_assert_int_eq(fx_float_to_int((double)NAN, FX_BOOL), 1);
    int64_t v[] = {-129, 128, 255, 256, 65536 + 5};
    int8_t b[5];
    uint8_t u[5];
    fx_row_store(FX_I8, b, 1, FX_KIND_INT, v, 5);
    fx_row_store(FX_U8, u, 1, FX_KIND_INT, v, 5);
    ck_assert(b[0] == 127 && b[1] == -128 && b[2] == -1 && b[3] == 0 && b[4] == 5);
    ck_assert(u[0] == 127 && u[1] == 128 && u[2] == 255 && u[3] == 0 && u[4] == 5);
}
END_TEST

/* The register tile against the plain sum, for sizes around its edges. */
START_TEST(gemm_tiles)
{
    for (int64_t o = 1; o <= 9; o += 2)
        for (int64_t k = 0; k <= 7; k++)
            for (int64_t p = 1; p <= 9; p++) {
                float w[9 * 8];
                double x[12 * 8] = {0}, buffer[4 * 8], r[9 * 12];
                for (int64_t i = 0; i < o * k; i++)
                    w[i] = (float)((i * 7) % 11 - 5);
                for (int64_t i = 0; i < p; i++)
                    for (int64_t j = 0; j < k; j++)
                        x[i / FX_PANEL * k * FX_PANEL + j * FX_PANEL + i % FX_PANEL] = (double)((i * 5 + j * 3) % 7 - 3);
                fx_gemm g = {.n_o = o, .n_i = k, .n_j = 1, .n_p = p, .kind = FX_KIND_F32, .w = w, .wo = k, .wi = 1, .x = x,
                             .buffer = buffer, .r = r, .rs = 12};
                fx_gemm_tile(&g);
                for (int64_t a = 0; a < o; a++)
                    for (int64_t b = 0; b < p; b++) {
                        double sum = 0;
                        for (int64_t j = 0; j < k; j++)
                            sum += (double)w[a * k + j] * (double)((b * 5 + j * 3) % 7 - 3);
                        ck_assert(r[a * 12 + b] == sum);
                    }
            }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, runs_a_graph);
    tcase_add_test(t, several_results);
    tcase_add_test(t, in_place_writes_go_through_views);
    tcase_add_test(t, writes_through_views_that_strides_do_not_allow);
    tcase_add_test(t, writes_to_one_of_two_views_that_strides_do_not_allow);
    tcase_add_test(t, writes_before_views_that_strides_do_not_allow);
    tcase_add_test(t, parameters_are_written_as_in_eager);
    tcase_add_test(t, sizes_may_be_symbolic);
    tcase_add_test(t, inputs_are_checked);
    tcase_add_test(t, unknown_calls_are_refused);
    tcase_add_test(t, callbacks_see_every_node);
    tcase_add_test(t, a_node_by_itself);
    tcase_add_test(t, values_go_with_their_last_use);
    tcase_add_test(t, conversions_wrap_as_on_x86);
    tcase_add_test(t, gemm_tiles);
}

int main(void)
{
    return unit_run("interp", 60, set_up, tear_down, add_tests);
}
