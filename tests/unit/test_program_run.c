/* tests/unit/test_program_run.c: lowering judged without the runtime and without a C compiler: the loop program, interpreted with
 * its buffers where the memory plan puts them, must give what the graph's interpreter gives.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Model files can be given as arguments: test_program_run net.pt2 ... */
#include <math.h>

#include "fxcc/compile.h"
#include "ir/program.h"
#include "lower/lower.h"
#include "tests/unit/unit.h"

static char **files;
static int n_files;

static const char *first_message(fx_context *ctx)
{
    const fx_diag *d = fx_diag_get(ctx, 0);
    return d ? d->message : "no diagnostic";
}

static double next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 33) / (double)(1u << 30) - 1;
}

/* Weights given as "all 0" would hide every mistake: f32 attributes of more than one element get random values. */
static void fill_attributes(fx_module *m, uint64_t *state)
{
    for (size_t i = 0; i < m->n_attrs; i++) {
        fx_tensor *t = &m->attrs[i]->tensor;
        bool variance = strstr(m->attrs[i]->name, "var") != NULL;
        for (int64_t k = 0; t->dtype == FX_F32 && k < fx_tensor_numel(t); k++)
            fx_tensor_set(t, k, variance ? 1.5 + next_random(state) : next_random(state));
    }
    for (size_t i = 0; i < m->n_children; i++)
        fill_attributes(m->children[i], state);
}

static void compare(fx_context *ctx, fx_graph *g, const char *target, const char *what)
{
    enum { MOST = 16 };
    uint64_t state = 3;
    size_t n_in = 0, n_want, n_got;
    fx_tensor in[MOST], *want, *got;
    FX_FOR_NODES(g, n) {
        if (n->opcode != FX_PLACEHOLDER)
            continue;
        ck_assert_uint_lt(n_in, MOST);
        ck_assert_int_eq(fx_tensor_like(ctx, n->type->dtype, n->type, &in[n_in]), FX_OK);
        for (int64_t i = 0; i < fx_tensor_numel(&in[n_in]); i++)
            fx_tensor_set(&in[n_in], i, 2 * next_random(&state));
        n_in++;
    }
    ck_assert_msg(fx_graph_interpret(g, n_in, in, &n_want, &want) == FX_OK, "%s: interpreter: %s", what, first_message(ctx));
    fx_lower_options opt = {.threads = 2};
    fx_program *p;
    ck_assert_int_eq(fx_target_get(ctx, target, &opt.target), FX_OK);
    ck_assert_msg(fx_lower_run(fx_graph_copy(g), &opt, &p) == FX_OK, "%s: lowering: %s", what, first_message(ctx));
    for (int planned = 0; planned < 2; planned++) {
        ck_assert_msg(fx_program_run(p, planned, n_in, in, &n_got, &got) == FX_OK, "%s: program: %s", what, first_message(ctx));
        ck_assert_uint_eq(n_got, n_want);
        for (size_t o = 0; o < n_want; o++) {
            double largest = 0, off = 0;
            ck_assert_int_eq(fx_tensor_numel(&got[o]), fx_tensor_numel(&want[o]));
            for (int64_t i = 0; i < fx_tensor_numel(&want[o]); i++) {
                double a = fx_tensor_get(&want[o], i), b = fx_tensor_get(&got[o], i);
                if (a == b || (a != a && b != b))
                    continue;
                largest = fmax(largest, fabs(a));
                off = fabs(a - b) > off || a != a || b != b ? fabs(a - b) : off;
                ck_assert_msg(b == b, "%s: output %zu, element %lld: expected %g, got %g", what, o, (long long)i, a, b);
            }
            ck_assert_msg(off <= 1e-4 * largest, "%s (%s): output %zu is off by %g of %g", what, planned ? "planned" : "apart", o, off, largest);
        }
    }
    /* The program's text is the program: read back, it prints the same. */
    fx_text t, u;
    fx_program *again;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_text_init(&u, fx_context_arena(ctx));
    fx_program_print(&t, p);
    ck_assert_msg(fx_program_parse(ctx, "text", t.data, t.size, &again) == FX_OK, "%s: %s", what, first_message(ctx));
    fx_program_print(&u, again);
    ck_assert_str_eq(t.data, u.data);
    ck_assert_msg(fx_program_verify(again, true, "text") == FX_OK, "%s: %s", what, first_message(ctx));
}

/* name, placeholders and attributes, calls: the graph is `graph NAME`, these lines. */
static const struct {
    const char *name, *text;
} graphs[] = {
    {"conv, batch norm, relu, residual",
     "parameter w1 : f32[6, 3, 3, 3] = all 0.0\nparameter w2 : f32[6, 6, 3, 3] = all 0.0\nparameter g : f32[6] = all 0.0\n"
     "parameter b : f32[6] = all 0.0\nbuffer mean : f32[6] = all 0.0\nbuffer var : f32[6] = all 1.0\n"
     "%x : f32[2, 3, 9, 7] = placeholder[x]\n%w1 : f32[6, 3, 3, 3] = get_attr[w1]\n%w2 : f32[6, 6, 3, 3] = get_attr[w2]\n"
     "%g : f32[6] = get_attr[g]\n%b : f32[6] = get_attr[b]\n%mean : f32[6] = get_attr[mean]\n%var : f32[6] = get_attr[var]\n"
     "%c1 = call_function[aten.conv2d.default](%x, %w1, None, [1, 1], [1, 1], [1, 1], 1)\n"
     "%r1 = call_function[aten.relu_.default](%c1)\n"
     "%c2 = call_function[aten.conv2d.default](%r1, %w2, %b, [1, 1], [1, 1], [1, 1], 1)\n"
     "%bn = call_function[aten.batch_norm.default](%c2, %g, %b, %mean, %var, False, 0.1, 1e-05, False)\n"
     "%sum = call_function[aten.add_.Tensor](%bn, %r1, 1)\n%out = call_function[aten.relu.default](%sum)\noutput((%out, %r1))\n"},
    {"depthwise, grouped, strided, dilated",
     "parameter w1 : f32[8, 1, 3, 3] = all 0.0\nparameter w2 : f32[4, 4, 2, 2] = all 0.0\n"
     "%x : f32[1, 8, 11, 11] = placeholder[x]\n%w1 : f32[8, 1, 3, 3] = get_attr[w1]\n%w2 : f32[4, 4, 2, 2] = get_attr[w2]\n"
     "%dw = call_function[aten.conv2d.default](%x, %w1, None, [2, 1], [1, 2], [1, 2], 8)\n"
     "%act = call_function[aten.hardswish.default](%dw)\n"
     "%gr = call_function[aten.conv2d.default](%act, %w2, None, [1, 1], [0, 0], [1, 1], 2)\n"
     "%s = call_function[aten.silu.default](%gr)\noutput((%s,))\n"},
    {"transposed convolution and upsampling",
     "parameter w : f32[4, 3, 3, 3] = all 0.0\nparameter b : f32[3] = all 0.0\n"
     "%x : f32[1, 4, 5, 4] = placeholder[x]\n%w : f32[4, 3, 3, 3] = get_attr[w]\n%b : f32[3] = get_attr[b]\n"
     "%t = call_function[aten.conv_transpose2d.input](%x, %w, %b, [2, 2], [1, 1], [1, 1], 1, [1, 1])\n"
     "%n = call_function[aten.upsample_nearest2d.vec](%t, [13, 8], None)\n"
     "%l = call_function[aten.upsample_bilinear2d.vec](%t, [7, 19], False, None)\noutput((%n, %l))\n"},
    {"pools, concatenation, slices",
     "%x : f32[2, 6, 9, 9] = placeholder[x]\n"
     "%m = call_function[aten.max_pool2d.default](%x, [3, 3], [2, 2], [1, 1], [1, 1], True)\n"
     "%a = call_function[aten.avg_pool2d.default](%x, [3, 2], [2, 2], [1, 0], False, False, None)\n"
     "%b = call_function[aten.adaptive_avg_pool2d.default](%x, [5, 4])\n"
     "%cat = call_function[aten.cat.default]([%m, %b_pad], 1)\n"
     "%half = call_function[aten.slice.Tensor](%cat, 1, 3, 9, 2)\n%r = call_function[aten.relu.default](%half)\noutput((%r, %a))\n"},
    {"a linear map over four dims, concatenated",
     "parameter w : f32[4, 1] = all 0.0\nparameter c : f32[2, 2, 3, 3] = all 0.0\n"
     "%x : f32[1, 2, 7, 1] = placeholder[x]\n%w : f32[4, 1] = get_attr[w]\n%c : f32[2, 2, 3, 3] = get_attr[c]\n"
     "%l = call_function[aten.linear.default](%x, %w, None)\n%a = call_function[aten.relu.default](%l)\n"
     "%y = call_function[aten.conv2d.default](%a, %c, None, [1, 1], [1, 1], [1, 1], 1)\n"
     "%z = call_function[aten.add.Tensor](%y, %a, alpha=1)\n"
     "%cat = call_function[aten.cat.default]([%a, %z], 1)\noutput((%cat,))\n"},
    {"linear, softmax, layer norm",
     "parameter w : f32[10, 12] = all 0.0\nparameter b : f32[10] = all 0.0\nparameter g : f32[10] = all 0.0\n"
     "%x : f32[3, 5, 12] = placeholder[x]\n%w : f32[10, 12] = get_attr[w]\n%b : f32[10] = get_attr[b]\n%g : f32[10] = get_attr[g]\n"
     "%l = call_function[aten.linear.default](%x, %w, %b)\n%n = call_function[aten.layer_norm.default](%l, [10], %g, %b, 1e-05, True)\n"
     "%gelu = call_function[aten.gelu.default](%n, \"none\")\n%s = call_function[aten.softmax.int](%gelu, -1, None)\n"
     "%t = call_function[aten.log_softmax.int](%gelu, 1, None)\noutput((%s, %t))\n"},
    {"matrix products and permutations",
     "%x : f32[2, 4, 6] = placeholder[x]\n%y : f32[2, 5, 6] = placeholder[y]\n"
     "%p = call_function[aten.permute.default](%y, [0, 2, 1])\n%m = call_function[aten.matmul.default](%x, %p)\n"
     "%s = call_function[aten.mul.Tensor](%m, 0.5)\n%f = call_function[aten.reshape.default](%s, [8, -1])\n"
     "%t = call_function[aten.transpose.int](%f, 0, 1)\n%e = call_function[aten.tanh.default](%t)\noutput((%e,))\n"},
    {"reductions, broadcasts, pad",
     "%x : f32[2, 3, 4, 5] = placeholder[x]\n%y : f32[3, 1, 1] = placeholder[y]\n"
     "%m = call_function[aten.mean.dim](%x, [2, 3], True, dtype=None)\n%d = call_function[aten.sub.Tensor](%x, %m, alpha=1)\n"
     "%q = call_function[aten.mul.Tensor](%d, %y)\n%s = call_function[aten.sum.dim_IntList](%q, [1], False, dtype=None)\n"
     "%a = call_function[aten.amax.default](%x, [3], False)\n"
     "%p = call_function[aten.constant_pad_nd.default](%q, [1, 2, 0, 1], 0.5)\n%sig = call_function[aten.sigmoid.default](%p)\n"
     "output((%s, %a, %sig))\n"},
    {"channel shuffle and group norm",
     "parameter g : f32[8] = all 0.0\nparameter b : f32[8] = all 0.0\n%x : f32[1, 8, 4, 4] = placeholder[x]\n"
     "%g : f32[8] = get_attr[g]\n%b : f32[8] = get_attr[b]\n"
     "%v = call_function[aten.view.default](%x, [1, 2, 4, 4, 4])\n%t = call_function[aten.transpose.int](%v, 1, 2)\n"
     "%c = call_function[aten.contiguous.default](%t)\n%w = call_function[aten.view.default](%c, [1, 8, 4, 4])\n"
     "%n = call_function[aten.group_norm.default](%w, 4, %g, %b, 1e-05, True)\n%chunk = call_function[aten.chunk.default](%n, 2, 1)\n"
     "%h0 = call_function[_operator.getitem](%chunk, 0)\n%h1 = call_function[_operator.getitem](%chunk, 1)\n"
     "%s = call_function[aten.add.Tensor](%h0, %h1, alpha=1)\noutput((%s,))\n"},
};

START_TEST(program_gives_what_the_graph_gives)
{
    static const char *const targets[] = {"generic", "x86_64-avx2"};
    fx_context *ctx = fx_context_create();
    const char *what = graphs[_i].name, *text = graphs[_i].text;
    if (strstr(text, "%b_pad")) /* max pooling gives 5 rows and columns, the adaptive one 5 x 4 */
        text = fx_arena_printf(fx_context_arena(ctx), "%.*s%%b_pad = call_function[aten.constant_pad_nd.default](%%b, [0, 1], -1.0)\n%s",
                               (int)(strstr(text, "%cat") - text), text, strstr(text, "%cat"));
    text = fx_arena_printf(fx_context_arena(ctx), "graph g\n%s", text);
    fx_graph *g;
    ck_assert_msg(fx_graph_parse(ctx, "g.fx", text, strlen(text), &g) == FX_OK, "%s: %s", what, first_message(ctx));
    uint64_t state = 5;
    fill_attributes(g->root, &state);
    FX_FOR_NODES(g, n) {
        if (n->op)
            ck_assert_msg(fx_node_normalize(n) == FX_OK, "%s: %s", what, first_message(ctx));
    }
    ck_assert_msg(fx_graph_infer(g) == FX_OK, "%s: %s", what, first_message(ctx));
    ck_assert_msg(fx_graph_verify(g, FX_STAGE_IMPORTED, "test") == FX_OK, "%s: %s", what, first_message(ctx));
    for (int t = 0; t < 2; t++)
        compare(ctx, g, targets[t], what);
    fx_context_free(ctx);
}
END_TEST

START_TEST(models_give_what_their_graphs_give)
{
    fx_context *ctx = fx_context_create();
    fx_graph *g;
    ck_assert_msg(fx_load_model(ctx, files[_i], &g) == FX_OK, "%s: %s", files[_i], first_message(ctx));
    compare(ctx, g, "generic", files[_i]);
    fx_context_free(ctx);
}
END_TEST

static void add_tests(TCase *t)
{
    if (n_files)
        tcase_add_loop_test(t, models_give_what_their_graphs_give, 0, n_files);
    else
        tcase_add_loop_test(t, program_gives_what_the_graph_gives, 0, (int)(sizeof graphs / sizeof graphs[0]));
}

int main(int argc, char **argv)
{
    files = argv + 1;
    n_files = argc - 1;
    return unit_run("program run", 600, NULL, NULL, add_tests);
}
