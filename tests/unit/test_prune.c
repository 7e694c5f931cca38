/* tests/unit/test_prune.c: magnitude pruning, and removal of channels through graphs: what goes, what stays, what the graph then computes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "passes/prune.h"
#include "tests/unit/unit.h"

static fx_context *ctx;
static unit_memory memory;

static void set_up(void)
{
    memory = (unit_memory){.fail_at = -1};
    ctx = unit_context(&memory);
}

static void tear_down(void)
{
    fx_context_free(ctx);
    ck_assert_int_eq(memory.live, 0);
}

static fx_graph *pass(fx_graph *g, const char *pipeline, fx_pass_report *report)
{
    fx_graph *out = NULL;
    const char *before = unit_print(g);
    ck_assert_msg(fx_graph_run_passes(g, pipeline, NULL, &out, report) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_str_eq(unit_print(g), before);
    return out;
}

static void values(const fx_graph *g, const char *path, int n, const double *want)
{
    const fx_attr *a = fx_attr_find(g, path);
    ck_assert_ptr_nonnull(a);
    ck_assert_int_eq(fx_tensor_numel(&a->tensor), n);
    for (int i = 0; i < n; i++) {
        double v = fx_tensor_get(&a->tensor, i);
        ck_assert_msg(v == want[i] || (isnan(v) && isnan(want[i])), "%s[%d]: %g, not %g", path, i, v, want[i]);
    }
}

/* ---- which are smallest -------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

START_TEST(the_smallest_are_chosen)
{
    uint64_t state = 1;
    for (int round = 0; round < 300; round++) {
        double v[200], sorted[200];
        bool chosen[200];
        size_t n = (size_t)round % 200 + 1, k = (size_t)(round * 7) % (n + 1), count = 0;
        for (size_t i = 0; i < n; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            uint64_t r = state >> 33;
            v[i] = round % 3 == 0 ? (double)(r % 5) : round % 3 == 1 ? (double)r * 1e-300 : ldexp((double)r, (int)(r % 600) - 300);
        }
        memcpy(sorted, v, sizeof v);
        qsort(sorted, n, sizeof *sorted, by_size);
        fx_choose_smallest(n, v, k, chosen);
        for (size_t i = 0; i < n; i++) {
            count += chosen[i];
            if (chosen[i])
                ck_assert(v[i] <= sorted[k - 1]);
            else
                ck_assert(k == 0 || v[i] >= sorted[k - 1]);
            bool in_order = true;
            for (size_t e = 0; e < i; e++) /* of equals the first */
                in_order = in_order && (v[e] != v[i] || chosen[e] || !chosen[i]);
            ck_assert(in_order);
        }
        ck_assert_uint_eq(count, k);
    }
    bool chosen[3];
    fx_choose_smallest(3, (double[]){NAN, INFINITY, 1}, 2, chosen);
    ck_assert(!chosen[0] && chosen[1] && chosen[2]);
}
END_TEST

/* ---- elements ------------------------------------------------------------------------------------------------------------ */

static const char two_maps[] = "graph \"case\" imported\n"
                               "parameter a.weight : f32[2, 3] = [0.5, -0.1, 0.3, -0.2, 0.0, 9.0]\n"
                               "parameter a.bias : f32[2] = [0.001, 0.002]\n"
                               "parameter b.weight : f32[2, 2] = [5.0, -6.0, 7.0, 8.0]\n\n"
                               "%x : f32[1, 3] = placeholder[x]\n"
                               "%a_weight = get_attr[a.weight]\n"
                               "%a_bias = get_attr[a.bias]\n"
                               "%b_weight = get_attr[b.weight]\n"
                               "%linear = call_function[aten.linear.default](%x, %a_weight, %a_bias)\n"
                               "%mm = call_function[aten.mm.default](%linear, %b_weight)\n"
                               "output((%mm,))\n";

START_TEST(elements_become_zero)
{
    fx_pass_report report;
    fx_graph *g = unit_parse(ctx, two_maps), *out = pass(g, "prune(amount=0.5)", &report);
    values(out, "a.weight", 6, (double[]){0.5, 0, (double)0.3f, 0, 0, 9});
    values(out, "a.bias", 2, (double[]){(double)0.001f, (double)0.002f});
    values(out, "b.weight", 4, (double[]){0, 0, 7, 8});
    values(g, "b.weight", 4, (double[]){5, -6, 7, 8});
    ck_assert_uint_eq(report.n_changes, 2);
    ck_assert_str_eq(report.changes[0].node, "linear");
    ck_assert_str_eq(report.changes[0].what, "'a.weight': 3 of 6 elements zeroed");
    out = pass(g, "prune(amount=0.5,global=true)", NULL); /* 5 of 10 */
    values(out, "a.weight", 6, (double[]){0, 0, 0, 0, 0, 9});
    values(out, "b.weight", 4, (double[]){5, -6, 7, 8});
    out = pass(g, "prune(amount=0.5,structured=true)", NULL); /* rows of the first, columns of the second */
    values(out, "a.weight", 6, (double[]){0, 0, 0, (double)-0.2f, 0, 9});
    values(out, "b.weight", 4, (double[]){0, -6, 0, 8});
    out = pass(g, "prune(amount=1)", NULL);
    values(out, "b.weight", 4, (double[]){0, 0, 0, 0});
    out = pass(g, "prune(amount=0)", &report);
    ck_assert_uint_eq(report.n_changes, 0);
    ck_assert_ptr_eq(fx_attr_find(out, "b.weight")->tensor.storage, fx_attr_find(g, "b.weight")->tensor.storage); /* not even copied */
}
END_TEST

START_TEST(pruning_again_changes_nothing)
{
    static const char *const pipelines[] = {"prune(amount=0.5)", "prune(amount=0.3,global=true)", "prune(amount=0.5,structured=true)"};
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        fx_pass_report report;
        fx_graph *once = pass(unit_parse(ctx, two_maps), pipelines[i], NULL), *twice = pass(once, pipelines[i], &report);
        ck_assert_uint_eq(report.n_changes, 0);
        ck_assert_str_eq(unit_print(once), unit_print(twice));
    }
}
END_TEST

START_TEST(bad_options_are_refused)
{
    static const struct {
        const char *pipeline, *message;
    } cases[] = {
        {"prune(amount=1.5)", "an amount from 0 to 1, got 1.5"},
        {"prune(amount=nan)", "amount"},
        {"prune(by=gradient)", "expected by=magnitude, got 'gradient'"},
        {"prune(global=true,structured=true)", "single elements"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_graph *out = NULL;
        ck_assert_int_eq(fx_graph_run_passes(unit_parse(ctx, two_maps), cases[i].pipeline, NULL, &out, NULL), FX_ERR_ARGUMENT);
        ck_assert_msg(strstr(unit_diag(ctx), cases[i].message) != NULL, "%s", unit_diag(ctx));
        ck_assert_ptr_null(out);
    }
}
END_TEST

/* Two names of one tensor stay two names of one tensor, pruned once; a view of other shape keeps the old elements. */
START_TEST(tied_weights_stay_tied)
{
    fx_graph *g = unit_parse(ctx, "graph \"case\" imported\n"
                             "parameter a : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]\n"
                             "parameter b : f32[2, 2] = [9.0, 9.0, 9.0, 9.0]\n\n"
                             "%x : f32[1, 2] = placeholder[x]\n"
                             "%a = get_attr[a]\n%b = get_attr[b]\n"
                             "%t = call_function[aten.t.default](%b)\n"
                             "%mm = call_function[aten.mm.default](%x, %t)\n"
                             "%y = call_function[aten.linear.default](%mm, %a)\n"
                             "output((%y,))\n");
    fx_attr *a = fx_attr_find(g, "a"), *b = fx_attr_find(g, "b");
    b->tensor = a->tensor;
    fx_pass_report report;
    fx_graph *out = pass(g, "prune(amount=0.25)", &report);
    ck_assert_uint_eq(report.n_changes, 1);
    values(out, "a", 4, (double[]){0, 2, 3, 4});
    ck_assert_ptr_eq(fx_attr_find(out, "a")->tensor.data, fx_attr_find(out, "b")->tensor.data);
    out = pass(g, "prune(amount=0.5,structured=true)", NULL);
    values(out, "b", 4, (double[]){0, 0, 3, 4});
}
END_TEST

START_TEST(weights_of_modules_are_pruned)
{
    fx_pass_report report;
    fx_graph *g = unit_parse(ctx, "graph \"case\" captured\n"
                             "module up : torch.nn.ConvTranspose2d\nmodule act : torch.nn.ReLU\nmodule bn : torch.nn.BatchNorm2d\n"
                             "parameter up.weight : f32[1, 2, 1, 2] = [1.0, -2.0, 0.5, 3.0]\n"
                             "parameter bn.weight : f32[2] = [0.5, 1.0]\n\n"
                             "%x = placeholder[x]\n%up = call_module[up](%x)\n%bn = call_module[bn](%up)\n%act = call_module[act](%bn)\n"
                             "output(%act)\n");
    fx_graph *out = pass(g, "prune(amount=0.5)", &report);
    values(out, "up.weight", 4, (double[]){0, -2, 0, 3});
    values(out, "bn.weight", 2, (double[]){0.5, 1});
    ck_assert_uint_eq(report.n_changes, 1);
    out = pass(g, "prune(amount=0.5,structured=true)", NULL); /* output channels of a transposed convolution: dim 1 */
    values(out, "up.weight", 4, (double[]){0, 0, 0.5, 3});
}
END_TEST

/* ---- channels ------------------------------------------------------------------------------------------------------------ */

static uint64_t seed;

static double uniform(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static void fill(fx_tensor *t, double low, double high)
{
    for (int64_t i = 0; i < fx_tensor_numel(t); i++)
        fx_tensor_set(t, i, low + (high - low) * uniform());
}

/* A text without values: all parameters are random, variances positive. */
static fx_graph *random_graph(const char *text)
{
    fx_graph *g = unit_parse(ctx, text);
    const fx_module **stack = calloc(100, sizeof *stack);
    size_t n = 0;
    stack[n++] = g->root;
    while (n) {
        const fx_module *m = stack[--n];
        for (size_t i = 0; i < m->n_attrs; i++) {
            fx_attr *a = m->attrs[i];
            ck_assert_int_eq(fx_tensor_create(ctx, a->tensor.dtype, a->tensor.rank, a->tensor.sizes, &a->tensor), FX_OK);
            fill(&a->tensor, strstr(a->name, "var") ? 0.5 : -1, 1);
        }
        for (size_t i = 0; i < m->n_children; i++)
            stack[n++] = m->children[i];
    }
    free(stack);
    return g;
}

/* All elements of index i along dim of t become zero. */
static void clear(fx_tensor *t, int dim, int i)
{
    int64_t inner = 1;
    for (int d = dim + 1; d < t->rank; d++)
        inner *= t->sizes[d];
    for (int64_t k = 0; k < fx_tensor_numel(t); k++)
        if (k / inner % t->sizes[dim] == i)
            fx_tensor_set(t, k, 0);
}

/* What was removed, by attribute: found by comparing with the original, whose vectors hold no number twice. */
static int missing(const fx_attr *was, const fx_attr *is, int *out)
{
    int n = 0, k = 0;
    for (int64_t i = 0; i < was->tensor.sizes[0]; i++) {
        if (k < is->tensor.sizes[0] && fx_tensor_get(&was->tensor, i) == fx_tensor_get(&is->tensor, k))
            k++;
        else
            out[n++] = (int)i;
    }
    ck_assert_int_eq(k, is->tensor.sizes[0]);
    return n;
}

static const fx_tensor *interpret(fx_graph *g, const fx_tensor *x)
{
    size_t n;
    fx_tensor *out = NULL;
    ck_assert_msg(fx_graph_interpret(g, 1, x, &n, &out) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_uint_eq(n, 1);
    return out;
}

/* The pruned graph computes what the graph does whose removed channels are zero where they are made: weight, bias and batch norm of each
 * module named in `makers` ("conv1 bn1"), whose biases tell which. Between makers and mixers there is only what keeps zero. */
static fx_graph *prunes_as_zeroing(const char *text, const char *makers, const char *pipeline, int removals)
{
    fx_graph *g = random_graph(text), *zeroed = fx_graph_copy(g), *out = pass(g, pipeline, NULL);
    int total = 0;
    char name[100], path[200];
    for (const char *p = makers; *p; p += strcspn(p, " "), p += *p == ' ') {
        sscanf(p, "%99s", name);
        snprintf(path, sizeof path, "%s.bias", name);
        int gone[600], n = missing(fx_attr_find(g, path), fx_attr_find(out, path), gone);
        static const char *const of[] = {"weight", "bias"};
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s.%s", name, of[k]);
            fx_attr *a = fx_attr_find(zeroed, path);
            fx_tensor was = a->tensor;
            ck_assert_int_eq(fx_tensor_create(ctx, was.dtype, was.rank, was.sizes, &a->tensor), FX_OK);
            memcpy(a->tensor.data, was.data, (size_t)fx_tensor_numel(&was) * sizeof(float));
            for (int i = 0; i < n; i++)
                clear(&a->tensor, 0, gone[i]);
        }
        total += n;
    }
    ck_assert_int_eq(total, removals);
    fx_tensor x;
    const fx_type *type = g->first->type;
    ck_assert_int_eq(fx_tensor_like(ctx, FX_F32, type, &x), FX_OK);
    fill(&x, -1, 1);
    const fx_tensor *want = interpret(zeroed, &x), *got = interpret(out, &x);
    ck_assert_int_eq(got->rank, want->rank);
    double largest = 0;
    for (int64_t i = 0; i < fx_tensor_numel(want); i++) {
        double d = fabs(fx_tensor_get(want, i) - fx_tensor_get(got, i));
        ck_assert_msg(d < 1e-5, "element %lld: %g, not %g", (long long)i, fx_tensor_get(got, i), fx_tensor_get(want, i));
        largest = fmax(largest, fabs(fx_tensor_get(want, i)));
    }
    ck_assert(largest > 0.01);
    ck_assert_int_eq(fx_graph_verify(out, out->stage, "pruning"), FX_OK);
    return out;
}

#define CONV(name, in, out) "parameter " name ".weight : f32[" #out ", " #in ", 3, 3] = all 0.0\nparameter " name ".bias : f32[" #out "] = all 0.0\n"
#define BN(name, n)                                                                                                 \
    "parameter " name ".weight : f32[" #n "] = all 0.0\nparameter " name ".bias : f32[" #n "] = all 0.0\n"          \
    "buffer " name ".mean : f32[" #n "] = all 0.0\nbuffer " name ".var : f32[" #n "] = all 0.0\n"
#define GET(name) "%" name "w = get_attr[" name ".weight]\n%" name "b = get_attr[" name ".bias]\n"
#define CALL_CONV(name, x) GET(name) "%" name " = call_function[aten.conv2d.default](%" x ", %" name "w, %" name "b, 1, 1)\n"
#define CALL_BN(name, x)                                                                                            \
    GET(name) "%" name "m = get_attr[" name ".mean]\n%" name "v = get_attr[" name ".var]\n"                         \
    "%" name " = call_function[aten.batch_norm.default](%" x ", %" name "w, %" name "b, %" name "m, %" name "v, False, 0.1, 1e-05, True)\n"
#define CALL_RELU(name, x) "%" name " = call_function[aten.relu.default](%" x ")\n"
#define LINEAR(name, in, out) "parameter " name ".weight : f32[" #out ", " #in "] = all 0.0\nparameter " name ".bias : f32[" #out "] = all 0.0\n"
#define CALL_LINEAR(name, x) GET(name) "%" name " = call_function[aten.linear.default](%" x ", %" name "w, %" name "b)\n"

START_TEST(channels_go_through_norms_pools_and_flattening)
{
    seed = 1;
    fx_graph *g = prunes_as_zeroing("graph \"case\" imported\n" CONV("c1", 3, 8) BN("n1", 8) CONV("c2", 8, 6) LINEAR("f1", 96, 10) LINEAR("f2", 10, 4)
                                    "\n%x : f32[2, 3, 8, 8] = placeholder[x]\n" CALL_CONV("c1", "x") CALL_BN("n1", "c1") CALL_RELU("r1", "n1")
                                    "%p = call_function[aten.max_pool2d.default](%r1, 2)\n" CALL_CONV("c2", "p") CALL_RELU("r2", "c2")
                                    "%f = call_function[aten.flatten.using_ints](%r2, 1)\n" CALL_LINEAR("f1", "f") CALL_RELU("r3", "f1")
                                    CALL_LINEAR("f2", "r3") "output((%f2,))\n",
                                    "c1 n1 c2 f1", "prune_channels(amount=0.5)", 4 + 4 + 3 + 5);
    ck_assert_str_eq(fx_node_type_text(fx_graph_find_node(g, "f")), "f32[2, 48]");
    const fx_attr *w = fx_attr_find(g, "f2.weight"); /* the result keeps its channels */
    ck_assert_int_eq(w->tensor.sizes[0], 4);
    ck_assert_int_eq(w->tensor.sizes[1], 5);
}
END_TEST

START_TEST(the_smallest_norms_go)
{
    fx_graph *g = unit_parse(ctx, "graph \"case\" imported\nparameter a : f32[4, 1] = [3.0, -1.0, 2.0, 0.5]\nparameter b : f32[1, 4] = [1.0, 2.0, 3.0, 4.0]\n\n"
                             "%x : f32[1, 1] = placeholder[x]\n%a = get_attr[a]\n%b = get_attr[b]\n%l = call_function[aten.linear.default](%x, %a)\n"
                             "%m = call_function[aten.linear.default](%l, %b)\noutput((%m,))\n");
    fx_pass_report report;
    fx_graph *out = pass(g, "prune_channels(amount=0.5)", &report);
    values(out, "a", 2, (double[]){3, 2});
    values(out, "b", 2, (double[]){1, 3});
    ck_assert_uint_eq(report.n_changes, 1);
    ck_assert_str_eq(report.changes[0].what, "'a': 2 of 4 output channels removed");
    values(pass(g, "prune_channels(amount=0.99)", NULL), "a", 1, (double[]){3}); /* one always stays */
    pass(g, "prune_channels(amount=0)", &report);
    ck_assert_uint_eq(report.n_changes, 0);
}
END_TEST

/* c1 and c2 add up, so they lose the same channels; so does a third by a product. The stem that ends in the output loses none. */
START_TEST(sums_tie_channels)
{
    seed = 2;
    fx_graph *g = prunes_as_zeroing("graph \"case\" imported\n" CONV("c1", 3, 8) CONV("c2", 8, 8) CONV("c3", 8, 8) CONV("c4", 8, 5)
                                    "\n%x : f32[1, 3, 6, 6] = placeholder[x]\n" CALL_CONV("c1", "x") CALL_CONV("c2", "c1")
                                    "%add = call_function[aten.add.Tensor](%c1, %c2)\n" CALL_RELU("r", "add") CALL_CONV("c3", "r")
                                    "%g = call_function[aten.mean.dim](%c3, [2, 3], True)\n%mul = call_function[aten.mul.Tensor](%r, %g)\n"
                                    CALL_CONV("c4", "mul") "output((%c4,))\n",
                                    "c1 c2 c3", "prune_channels(amount=0.25)", 2 + 2 + 2);
    int gone[3][8];
    for (int i = 0; i < 3; i++) {
        fx_graph *was = (seed = 2, random_graph("graph \"case\" imported\n" CONV("c1", 3, 8) CONV("c2", 8, 8) CONV("c3", 8, 8) CONV("c4", 8, 5)
                                               "\n%x : f32[1] = placeholder[x]\noutput((%x,))\n"));
        static const char *const names[] = {"c1.bias", "c2.bias", "c3.bias"};
        ck_assert_int_eq(missing(fx_attr_find(was, names[i]), fx_attr_find(g, names[i]), gone[i]), 2);
        ck_assert(gone[i][0] == gone[0][0] && gone[i][1] == gone[0][1]);
    }
    ck_assert_int_eq(fx_attr_find(g, "c4.weight")->tensor.sizes[0], 5);
}
END_TEST

START_TEST(concatenations_and_splits)
{
    seed = 3;
    prunes_as_zeroing("graph \"case\" imported\n" CONV("c1", 3, 8) CONV("c2", 3, 4) CONV("c3", 12, 6)
                      "\n%x : f32[1, 3, 6, 6] = placeholder[x]\n" CALL_CONV("c1", "x") CALL_CONV("c2", "x")
                      "%cat = call_function[aten.cat.default]([%c1, %c2], 1)\n" CALL_CONV("c3", "cat") "output((%c3,))\n",
                      "c1 c2", "prune_channels(amount=0.5)", 4 + 2);
    seed = 4;
    fx_graph *g = prunes_as_zeroing("graph \"case\" imported\n" CONV("c1", 3, 9) CONV("c2", 4, 6) CONV("c3", 5, 6) CONV("c4", 12, 2)
                                    "\n%x : f32[1, 3, 6, 6] = placeholder[x]\n" CALL_CONV("c1", "x")
                                    "%s = call_function[aten.split_with_sizes.default](%c1, [4, 5], 1)\n"
                                    "%a = call_function[_operator.getitem](%s, 0)\n%b = call_function[_operator.getitem](%s, 1)\n"
                                    CALL_CONV("c2", "a") CALL_CONV("c3", "b") "%cat = call_function[aten.cat.default]([%c3, %c2], 1)\n"
                                    CALL_CONV("c4", "cat") "output((%c4,))\n",
                                    "c1 c2 c3", "prune_channels(amount=0.5)", 4 + 3 + 3);
    ck_assert_str_eq(fx_graph_find_node(g, "s")->op->name, "aten.split_with_sizes.default");
    seed = 5; /* chunk leaves unequal pieces */
    g = prunes_as_zeroing("graph \"case\" imported\n" CONV("c1", 3, 8) CONV("c2", 4, 6)
                          "\n%x : f32[1, 3, 6, 6] = placeholder[x]\n" CALL_CONV("c1", "x") "%s = call_function[aten.chunk.default](%c1, 2, 1)\n"
                          "%a = call_function[_operator.getitem](%s, 0)\n%b = call_function[_operator.getitem](%s, -1)\n"
                          "%g = call_function[aten.relu.default](%b)\n%m = call_function[aten.mul.Tensor](%a, %g)\n" CALL_CONV("c2", "m") "output((%c2,))\n",
                          "c1", "prune_channels(amount=0.25)", 2);
    ck_assert_str_eq(fx_graph_find_node(g, "s")->op->name, "aten.split_with_sizes.default");
}
END_TEST

START_TEST(depthwise_convolutions_follow)
{
    seed = 6;
    fx_graph *g = prunes_as_zeroing("graph \"case\" imported\n" CONV("c1", 3, 8) CONV("dw", 1, 8) BN("n", 8) CONV("c2", 8, 4)
                                    "\n%x : f32[1, 3, 6, 6] = placeholder[x]\n" CALL_CONV("c1", "x") CALL_RELU("r", "c1")
                                    GET("dw") "%dw = call_function[aten.conv2d.default](%r, %dww, %dwb, 1, 1, 1, 8)\n" CALL_BN("n", "dw")
                                    "%h = call_function[aten.hardswish.default](%n)\n" CALL_CONV("c2", "h") "output((%c2,))\n",
                                    "c1 dw n", "prune_channels(amount=0.25)", 6);
    ck_assert_int_eq(fx_node_int(fx_graph_find_node(g, "dw"), 6), 6);
    ck_assert_int_eq(fx_attr_find(g, "dw.weight")->tensor.sizes[0], 6);
}
END_TEST

/* Explicit sizes are rewritten; transposed convolutions, matrices in both orders, parameters that broadcast. */
START_TEST(other_spellings)
{
    seed = 7;
    fx_graph *g = prunes_as_zeroing("graph \"case\" imported\n" CONV("c1", 3, 8) LINEAR("f1", 128, 6)
                                    "parameter up : f32[8, 4, 2, 2] = all 0.0\nparameter upb : f32[4] = all 0.0\nparameter scale : f32[8, 1, 1] = all 0.0\n"
                                    "parameter m : f32[6, 7] = all 0.0\n"
                                    "\n%x : f32[2, 3, 4, 4] = placeholder[x]\n" CALL_CONV("c1", "x") "%scale = get_attr[scale]\n"
                                    "%s = call_function[aten.mul.Tensor](%c1, %scale)\n"
                                    "%up = get_attr[up]\n%upb = get_attr[upb]\n%t = call_function[aten.conv_transpose2d.input](%s, %up, %upb, 2)\n"
                                    "%p = call_function[aten.avg_pool2d.default](%t, 2)\n%sum = call_function[aten.mean.dim](%p, [2, 3])\n"
                                    "%v = call_function[aten.view.default](%s, [2, 128])\n" GET("f1") "%wt = call_function[aten.t.default](%f1w)\n"
                                    "%f1 = call_function[aten.addmm.default](%f1b, %v, %wt)\n%m = get_attr[m]\n%y = call_function[aten.mm.default](%f1, %m)\n"
                                    "%cat = call_function[aten.cat.default]([%y, %sum], 1)\noutput((%cat,))\n",
                                    "c1 f1", "prune_channels(amount=0.5)", 4 + 3);
    ck_assert_str_eq(fx_node_type_text(fx_graph_find_node(g, "v")), "f32[2, 64]");
    ck_assert_int_eq(fx_attr_find(g, "up")->tensor.sizes[0], 4);
    ck_assert_int_eq(fx_attr_find(g, "up")->tensor.sizes[1], 4); /* its channels are returned */
    ck_assert_int_eq(fx_attr_find(g, "scale")->tensor.sizes[0], 4);
    ck_assert_int_eq(fx_attr_find(g, "m")->tensor.sizes[0], 3);
}
END_TEST

/* What is not understood keeps its channels: norms over them, reductions, softmax, shuffles, unknown calls, results. */
START_TEST(what_mixes_channels_pins_them)
{
    static const char *const mixers[] = {
        "call_function[aten.softmax.int](%c1, 1)", "call_function[aten.mean.dim](%c1, [1])", "call_function[aten.view.default](%c1, [1, 2, 4, 6, 6])",
        "call_function[aten.channel_shuffle.default](%c1, 2)", "call_function[aten.sum.default](%c1)", "call_function[aten.flip.default](%c1, [1])",
        "call_function[aten.permute.default](%c1, [0, 2, 3, 1])", "call_function[aten.select.int](%c1, 1, 3)",
        "call_function[aten.add.Tensor](%c1, %y)", "call_function[aten.constant_pad_nd.default](%c1, [0, 0, 0, 0, 1, 1])",
    };
    for (size_t i = 0; i < sizeof mixers / sizeof *mixers; i++) {
        fx_text t;
        fx_text_init(&t, fx_context_arena(ctx));
        fx_printf(&t, "graph \"case\" imported\n" CONV("c1", 3, 8) "\n%%x : f32[1, 3, 6, 6] = placeholder[x]\n%%y : f32[1, 8, 6, 6] = placeholder[y]\n"
                      "%%c1w = get_attr[c1.weight]\n%%c1b = get_attr[c1.bias]\n%%c1 = call_function[aten.conv2d.default](%%x, %%c1w, %%c1b, 1, 1)\n"
                      "%%m = %s\noutput((%%m,))\n", mixers[i]);
        fx_pass_report report;
        fx_graph *g = random_graph(t.data), *out = pass(g, "prune_channels(amount=0.5)", &report);
        ck_assert_msg(report.n_changes == 0, "%s: %s", mixers[i], report.n_changes ? report.changes[0].what : "");
        ck_assert_str_eq(unit_print(out), unit_print(g));
    }
}
END_TEST

/* Modules as torch.fx captures them, without types: weights and settings change together. */
START_TEST(channels_of_modules)
{
    seed = 8;
    static const char text[] =
        "graph \"case\" captured\n"
        "module c1 : torch.nn.Conv2d(in_channels=3, out_channels=8, kernel_size=3, padding=1)\n" CONV("c1", 3, 8)
        "module dw : torch.nn.Conv2d(in_channels=8, out_channels=8, kernel_size=3, padding=1, groups=8)\n" CONV("dw", 1, 8)
        "module n : torch.nn.BatchNorm2d(num_features=8)\n"
        "parameter n.weight : f32[8] = all 0.0\nparameter n.bias : f32[8] = all 0.0\n"
        "buffer n.running_mean : f32[8] = all 0.0\nbuffer n.running_var : f32[8] = all 0.0\n"
        "module act : torch.nn.ReLU\nmodule drop : torch.nn.Dropout\nmodule pool : torch.nn.AdaptiveAvgPool2d(output_size=2)\nmodule flat : torch.nn.Flatten\n"
        "module f1 : torch.nn.Linear(in_features=32, out_features=6)\n" LINEAR("f1", 32, 6)
        "module f2 : torch.nn.Linear(in_features=6, out_features=4)\n" LINEAR("f2", 6, 4)
        "\n%x : f32[2, 3, 6, 6] = placeholder[x]\n%c1 = call_module[c1](%x)\n%act = call_module[act](%c1)\n%dw = call_module[dw](%act)\n"
        "%n = call_module[n](%dw)\n%act2 = call_module[act](%n)\n%add = call_function[_operator.add](%act2, %act)\n%pool = call_module[pool](%add)\n"
        "%flat = call_module[flat](%pool)\n%drop = call_module[drop](%flat)\n%f1 = call_module[f1](%drop)\n"
        "%r = call_function[torch.nn.functional.relu](%f1)\n%f2 = call_module[f2](%r)\noutput(%f2)\n";
    fx_graph *g = prunes_as_zeroing(text, "c1 dw n f1", "prune_channels(amount=0.5)", 4 * 3 + 3);
    static const struct {
        const char *path, *key;
        int64_t want;
    } settings[] = {{"c1", "in_channels", 3}, {"c1", "out_channels", 4}, {"dw", "in_channels", 4}, {"dw", "out_channels", 4}, {"dw", "groups", 4},
                    {"n", "num_features", 4}, {"f1", "in_features", 16}, {"f1", "out_features", 3}, {"f2", "in_features", 3}, {"f2", "out_features", 4}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const fx_arg *a = fx_module_config(fx_module_find(g, settings[i].path), settings[i].key);
        ck_assert_msg(a && a->i == settings[i].want, "%s.%s: %lld", settings[i].path, settings[i].key, a ? (long long)a->i : -1);
    }
    static const char method[] =
        "graph \"case\" captured\n"
        "module c1 : torch.nn.Conv2d(in_channels=3, out_channels=8, kernel_size=3, padding=1)\n" CONV("c1", 3, 8)
        "module f1 : torch.nn.Linear(in_features=128, out_features=6)\n" LINEAR("f1", 128, 6)
        "\n%x : f32[2, 3, 4, 4] = placeholder[x]\n%c1 = call_module[c1](%x)\n%v = call_method[view](%c1, -1, 128)\n%f1 = call_module[f1](%v)\noutput(%f1)\n";
    g = prunes_as_zeroing(method, "c1", "prune_channels(amount=0.25)", 2);
    ck_assert_int_eq(fx_graph_find_node(g, "v")->args->items[2]->i, 96);
}
END_TEST

/* Every allocation fails in turn: an error, and the graph is as it was. */
START_TEST(memory_may_run_out_anywhere)
{
    seed = 10;
    fx_graph *g = random_graph("graph \"case\" imported\n" CONV("c1", 3, 4) BN("n1", 4) CONV("c2", 4, 4)
                               "\n%x : f32[1, 3, 4, 4] = placeholder[x]\n" CALL_CONV("c1", "x") CALL_BN("n1", "c1")
                               "%s = call_function[aten.chunk.default](%n1, 2, 1)\n%a = call_function[_operator.getitem](%s, 0)\n"
                               "%b = call_function[_operator.getitem](%s, 1)\n%cat = call_function[aten.cat.default]([%b, %a], 1)\n"
                               CALL_CONV("c2", "cat") "output((%c2,))\n");
    const char *before = unit_print(g);
    fx_graph *out = NULL;
    long k = 0;
    for (fx_status status = FX_ERR_NOMEM; status != FX_OK; ) {
        unit_fail_after(&memory, k++);
        status = fx_graph_run_passes(g, "prune,prune_channels,insert_observers", NULL, &out, NULL);
        bool ran_out = unit_ran_out(&memory);
        unit_fail_after(&memory, -1);
        ck_assert_int_eq(status, ran_out ? FX_ERR_NOMEM : FX_OK);
        if (k % 16 == 0)
            ck_assert_str_eq(unit_print(g), before);
    }
    ck_assert_int_gt(k, 20);
    ck_assert_int_lt(fx_attr_find(out, "c1.weight")->tensor.sizes[0], 4);
    ck_assert_str_eq(unit_print(g), before);
}
END_TEST

/* A filter used twice, a weight with two names. */
START_TEST(shared_filters)
{
    seed = 9;
    prunes_as_zeroing("graph \"case\" imported\n" CONV("c1", 3, 8) CONV("c2", 8, 8) CONV("c3", 8, 4)
                      "\n%x : f32[1, 3, 6, 6] = placeholder[x]\n" CALL_CONV("c1", "x") CALL_CONV("c2", "c1") CALL_RELU("r", "c2")
                      "%c2c = call_function[aten.conv2d.default](%r, %c2w, %c2b, 1, 1)\n" CALL_CONV("c3", "c2c") "output((%c3,))\n",
                      "c1 c2", "prune_channels(amount=0.5)", 8); /* c2's inputs are its outputs */
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, the_smallest_are_chosen);
    tcase_add_test(t, elements_become_zero);
    tcase_add_test(t, pruning_again_changes_nothing);
    tcase_add_test(t, bad_options_are_refused);
    tcase_add_test(t, tied_weights_stay_tied);
    tcase_add_test(t, weights_of_modules_are_pruned);
    tcase_add_test(t, channels_go_through_norms_pools_and_flattening);
    tcase_add_test(t, the_smallest_norms_go);
    tcase_add_test(t, sums_tie_channels);
    tcase_add_test(t, concatenations_and_splits);
    tcase_add_test(t, depthwise_convolutions_follow);
    tcase_add_test(t, other_spellings);
    tcase_add_test(t, what_mixes_channels_pins_them);
    tcase_add_test(t, channels_of_modules);
    tcase_add_test(t, memory_may_run_out_anywhere);
    tcase_add_test(t, shared_filters);
}

int main(void)
{
    return unit_run("prune", 120, set_up, tear_down, add_tests); /* sanitizers, busy machines */
}
