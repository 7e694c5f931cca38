/* tests/unit/test_effect.c: which calls have effects, which operands they write, which values share memory.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/unit/unit.h"

static fx_context *ctx;
static fx_graph *g;
static fx_node *x, *y, *z;

static void set_up(void)
{
    ctx = fx_context_create();
    g = fx_graph_create(ctx, "m");
    x = fx_graph_placeholder(g, "x", NULL);
    y = fx_graph_placeholder(g, "y", NULL);
    z = fx_graph_placeholder(g, "z", NULL);
}

static void tear_down(void)
{
    fx_context_free(ctx);
}

enum { PURE = 0, RANDOM = FX_EFFECT_RANDOM, KEEP = FX_EFFECT_KEEP, WRITES = FX_EFFECT_WRITES, UNKNOWN = FX_EFFECT_UNKNOWN };
enum { FRESH = 0, FIRST = 1, ANY = 3 }; /* operands the result may share memory with, as bits of x, y */

static const struct {
    const char *target; /* "." in front: a method */
    const char *key;    /* with this keyword: a bool, or z for out */
    int value;
    unsigned effects, writes, returns;
} calls[] = {
    {"torch.relu", NULL, 0, PURE, 0, FRESH},
    {"aten.add.Tensor", NULL, 0, PURE, 0, FRESH},
    {"torch.nn.functional.relu", "inplace", 0, PURE, 0, FRESH},
    {"torch.nn.functional.relu", "inplace", 1, WRITES, 1, FIRST},
    {"torch.nn.functional.hardtanh", "inplace", 1, WRITES, 1, FIRST},
    {"aten.add_.Tensor", NULL, 0, WRITES, 1, FIRST},
    {"torch.relu_", NULL, 0, WRITES, 1, FIRST},
    {"torch.clamp_", NULL, 0, WRITES, 1, FIRST},
    {"aten.copy_.default", NULL, 0, WRITES, 1, FIRST},
    {"aten.index_put_.default", NULL, 0, WRITES, 1, FIRST},
    {"torch.nn.init.zeros_", NULL, 0, WRITES, 1, FIRST},
    {"_operator.iadd", NULL, 0, WRITES, 1, FIRST},
    {"operator.imul", NULL, 0, WRITES, 1, FIRST},
    {"operator.ifloordiv", NULL, 0, WRITES, 1, FIRST},
    {"operator.setitem", NULL, 0, WRITES, 1, FIRST},
    {"_operator.setitem", NULL, 0, WRITES, 1, FIRST},
    {"operator.add", NULL, 0, PURE, 0, FRESH},
    {"_operator.and_", NULL, 0, PURE, 0, FRESH},
    {"operator.or_", NULL, 0, PURE, 0, FRESH},
    {"operator.getitem", NULL, 0, PURE, 0, FIRST},
    {"builtins.getattr", NULL, 0, PURE, 0, ANY},
    {"builtins.print", NULL, 0, KEEP, 0, ANY},
    {"torch._assert", NULL, 0, KEEP, 0, ANY},
    {"torch.rand", NULL, 0, RANDOM, 0, FRESH},
    {"torch.rand_like", NULL, 0, RANDOM, 0, FRESH},
    {"aten.randn.default", NULL, 0, RANDOM, 0, FRESH},
    {"aten.bernoulli_.float", NULL, 0, RANDOM | WRITES, 1, FIRST},
    {"torch.nn.functional.dropout", NULL, 0, RANDOM, 0, FIRST},
    {"torch.nn.functional.dropout", "training", 0, PURE, 0, FIRST},
    {"torch.nn.functional.dropout", "training", 1, RANDOM, 0, FIRST},
    {"torch.nn.functional.dropout", "inplace", 1, RANDOM | WRITES, 1, FIRST},
    {"torch.nn.functional.batch_norm", NULL, 0, PURE, 0, ANY},
    {"torch.nn.functional.batch_norm", "training", 1, WRITES, 2, ANY},
    {"torch.nn.functional.instance_norm", NULL, 0, WRITES, 2, ANY},
    {"torch.nn.functional.instance_norm", "use_input_stats", 0, PURE, 0, ANY},
    {"torch.sin", "out", 2, WRITES, 4, FRESH | 4},
    {"aten.view.default", NULL, 0, PURE, 0, FIRST},
    {"torch.reshape", NULL, 0, PURE, 0, FIRST},
    {"torch.flatten", NULL, 0, PURE, 0, FIRST},
    {"aten.contiguous.default", NULL, 0, PURE, 0, FIRST},
    {"aten.clone.default", NULL, 0, PURE, 0, FRESH},
    {"aten.split.Tensor", NULL, 0, PURE, 0, FIRST},
    {"torch.unknown_function", NULL, 0, PURE, 0, ANY},
    {"their.function", NULL, 0, UNKNOWN, 3, ANY},
    {"torch.ops.theirs.op.default", NULL, 0, UNKNOWN, 3, ANY},
    {".add", NULL, 0, PURE, 0, FRESH},
    {".add_", NULL, 0, WRITES, 1, FIRST},
    {".mul_", NULL, 0, WRITES, 1, FIRST},
    {".copy_", NULL, 0, WRITES, 1, FIRST},
    {".__setitem__", NULL, 0, WRITES, 1, FIRST},
    {".append", NULL, 0, WRITES, 1, FIRST},
    {".view", NULL, 0, PURE, 0, FIRST},
    {".contiguous", NULL, 0, PURE, 0, FIRST},
    {".their_method", NULL, 0, PURE, 0, ANY},
    {".uniform_", NULL, 0, RANDOM | WRITES, 1, FIRST},
    {".__add__", NULL, 0, PURE, 0, ANY},
};

START_TEST(calls_have_the_effects_they_should)
{
    const char *target = calls[_i].target;
    bool method = *target == '.';
    fx_value args[2] = {fx_v_node(x), fx_v_node(y)}, v = calls[_i].value == 2 ? fx_v_node(z) : fx_v_bool(calls[_i].value != 0);
    fx_node *n = fx_graph_create_node(g, method ? FX_CALL_METHOD : FX_CALL_FUNCTION, target + method, 2, args, calls[_i].key != NULL,
                                      &calls[_i].key, &v, NULL);
    unsigned writes = 0, returns = 0;
    for (int i = 0; i < n->n_operands; i++) {
        writes |= fx_node_writes(n, i) ? 1u << i : 0;
        returns |= fx_node_may_return(n, i) ? 1u << i : 0;
    }
    ck_assert_msg(fx_node_effects(n) == calls[_i].effects, "%s: effects %u, expected %u", target, fx_node_effects(n), calls[_i].effects);
    ck_assert_msg(writes == calls[_i].writes, "%s: writes %u, expected %u", target, writes, calls[_i].writes);
    ck_assert_msg(returns == calls[_i].returns, "%s: returns %u, expected %u", target, returns, calls[_i].returns);
    ck_assert_int_eq(fx_node_is_impure(n), (calls[_i].effects & (RANDOM | KEEP | WRITES)) != 0);
    ck_assert(!fx_node_writes(n, -1) && !fx_node_writes(n, 9) && !fx_node_may_return(n, 9));
}
END_TEST

static fx_node *call(const char *target, int n, fx_node *a, fx_node *b)
{
    fx_value v[2] = {fx_v_node(a), b ? fx_v_node(b) : fx_v_none()};
    fx_node *made = fx_graph_call_function(g, target, n, v);
    ck_assert_ptr_nonnull(made);
    return made;
}

static fx_node *module_call(const char *path, fx_node *a)
{
    fx_value v = fx_v_node(a);
    return fx_graph_call_module(g, path, 1, &v);
}

START_TEST(numbers_are_not_written)
{
    fx_node *n = call("operator.iadd", 2, x, y);
    x->type = fx_type_int(ctx, (fx_dim){0});
    ck_assert_uint_eq(fx_node_effects(n), PURE);
    x->type = fx_type_tensor_static(ctx, FX_F32, 0, NULL);
    ck_assert_uint_eq(fx_node_effects(n), WRITES);
}
END_TEST

START_TEST(modules_have_effects_by_class_and_setting)
{
    static const struct {
        const char *class_name, *key;
        unsigned effects, writes, returns;
    } cases[] = {
        {"torch.nn.ReLU", NULL, PURE, 0, 0},        {"torch.nn.ReLU", "inplace", WRITES, 1, 1},
        {"torch.nn.Conv2d", NULL, PURE, 0, 0},      {"torch.nn.Dropout", NULL, PURE, 0, 1},
        {"torch.nn.Dropout", "training", RANDOM, 0, 1}, {"torch.nn.BatchNorm2d", NULL, PURE, 0, 0},
        {"torch.nn.BatchNorm2d", "training", WRITES, 0, 0}, {"torch.nn.InstanceNorm2d", "training", PURE, 0, 0},
        {"torch.nn.Identity", NULL, PURE, 0, 1},    {"their.Module", NULL, UNKNOWN, 1, 1},
        {"torch.nn.Flatten", NULL, PURE, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_value yes = fx_v_bool(true);
        ck_assert_ptr_nonnull(fx_graph_add_submodule(g, "m", cases[i].class_name, cases[i].key != NULL, &cases[i].key, &yes));
        fx_node *n = module_call("m", x);
        ck_assert_msg(fx_node_effects(n) == cases[i].effects, "%s %s", cases[i].class_name, cases[i].key ? cases[i].key : "");
        ck_assert_int_eq(fx_node_writes(n, 0), cases[i].writes);
        ck_assert_int_eq(fx_node_may_return(n, 0), cases[i].returns);
    }
    fx_value yes = fx_v_bool(true);
    const char *inplace = "inplace";
    fx_graph_add_submodule(g, "s", "torch.nn.Sequential", 0, NULL, NULL);
    fx_graph_add_submodule(g, "s.0", "torch.nn.Conv2d", 0, NULL, NULL);
    ck_assert_uint_eq(fx_node_effects(module_call("s", x)), PURE);
    fx_graph_add_submodule(g, "s.1", "torch.nn.ReLU", 1, &inplace, &yes);
    ck_assert_uint_eq(fx_node_effects(module_call("s", x)), PURE); /* the convolution's result is nobody else's */
    ck_assert(!fx_node_writes(module_call("s", x), 0) && !fx_node_may_return(module_call("s", x), 0));
    fx_graph_add_submodule(g, "s.0", "torch.nn.Flatten", 0, NULL, NULL);
    ck_assert_uint_eq(fx_node_effects(module_call("s", x)), WRITES);
    ck_assert(fx_node_writes(module_call("s", x), 0) && fx_node_may_return(module_call("s", x), 0));
    fx_graph_add_submodule(g, "pair", "torch.ao.nn.intrinsic.ConvReLU2d", 0, NULL, NULL);
    fx_graph_add_submodule(g, "pair.0", "torch.nn.Conv2d", 0, NULL, NULL);
    fx_graph_add_submodule(g, "pair.1", "torch.nn.ReLU", 1, &inplace, &yes);
    ck_assert_uint_eq(fx_node_effects(module_call("pair", x)), PURE);
    ck_assert(!fx_node_writes(module_call("pair", x), 0) && !fx_node_may_return(module_call("pair", x), 0));
    ck_assert_uint_eq(fx_node_effects(module_call("nothing", x)), UNKNOWN);
    /* A graph as a module: what it writes counts where it is seen from outside. */
    fx_graph *body = fx_graph_create(ctx, "body");
    fx_value p = fx_v_node(fx_graph_placeholder(body, "p", NULL));
    fx_value made = fx_v_node(fx_graph_call_function(body, "torch.exp", 1, &p));
    fx_node *write = fx_graph_call_function(body, "torch.relu_", 1, &made);
    fx_graph_output(body, fx_v_node(write));
    fx_graph_add_submodule(g, "part", "torch.fx.GraphModule", 0, NULL, NULL)->body = body;
    ck_assert_uint_eq(fx_node_effects(module_call("part", x)), PURE);
    ck_assert_int_eq(fx_node_set_args(write, 1, &p), FX_OK);
    ck_assert_uint_eq(fx_node_effects(module_call("part", x)), WRITES);
}
END_TEST

/* cos(x); the result overwritten; cos(x) again: the writes that stand between are seen. */
START_TEST(writes_are_found_where_they_are)
{
    fx_node *one = call("torch.cos", 1, x, NULL), *write = call("aten.add_.Tensor", 2, one, y), *two = call("torch.cos", 1, x, NULL);
    fx_node *plus = call("torch.add", 2, x, y), *late = call("torch.relu_", 1, x, NULL);
    fx_graph_output(g, fx_v_node(two));
    const fx_alias *a = fx_alias_new(g, fx_context_arena(ctx));
    ck_assert(fx_alias_written(a, one, one, two));
    ck_assert(fx_alias_written(a, one, NULL, NULL));
    ck_assert(fx_alias_written(a, write, one, NULL)); /* the same memory */
    ck_assert(!fx_alias_written(a, one, write, NULL));
    ck_assert(!fx_alias_written(a, one, NULL, write));
    ck_assert(!fx_alias_written(a, two, NULL, NULL));
    ck_assert(!fx_alias_written(a, x, one, two));
    ck_assert(fx_alias_written(a, x, plus, NULL)); /* x + y is to be kept apart from x: it is overwritten afterwards */
    ck_assert(!fx_alias_written(a, plus, NULL, NULL));
    ck_assert(fx_alias_may(a, late, x) && !fx_alias_may(a, x, y) && !fx_alias_may(a, one, two) && fx_alias_may(a, one, write));
    ck_assert(fx_alias_is_external(a, x) && fx_alias_is_external(a, late) && !fx_alias_is_external(a, one));
    ck_assert(fx_alias_is_returned(a, two) && !fx_alias_is_returned(a, one));
    fx_node *later = call("torch.neg", 1, y, NULL);
    ck_assert(fx_alias_may(a, later, x) && fx_alias_written(a, later, NULL, NULL) && fx_alias_is_external(a, later));
}
END_TEST

/* A view and its base are one memory, through any chain. */
START_TEST(views_share_memory)
{
    fx_node *base = call("torch.exp", 1, x, NULL), *flat = call("torch.flatten", 1, base, NULL), *t = call("aten.t.default", 1, flat, NULL);
    fx_node *parts = call("aten.chunk.default", 2, t, y), *part = call("_operator.getitem", 2, parts, y), *other = call("torch.exp", 1, base, NULL);
    fx_value v[3] = {fx_v_node(part), fx_v_int(0), fx_v_int(1)};
    fx_node *write = fx_graph_call_function(g, "_operator.setitem", 3, v);
    fx_graph_output(g, fx_v_node(flat));
    const fx_alias *a = fx_alias_new(g, fx_context_arena(ctx));
    ck_assert(fx_alias_written(a, base, other, NULL));
    ck_assert(!fx_alias_written(a, base, NULL, write));
    ck_assert(fx_alias_may(a, part, base) && fx_alias_is_returned(a, base) && !fx_alias_is_external(a, base));
    ck_assert(!fx_alias_written(a, other, NULL, NULL) && !fx_alias_may(a, other, base));
}
END_TEST

START_TEST(tied_attributes_are_one_memory)
{
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 0, NULL, &t), FX_OK);
    ck_assert_int_eq(fx_graph_set_parameter(g, "a", &t), FX_OK);
    ck_assert_int_eq(fx_graph_tie_parameter(g, "b", "a"), FX_OK);
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 0, NULL, &t), FX_OK);
    ck_assert_int_eq(fx_graph_set_buffer(g, "bn.running_mean", &t, true), FX_OK);
    fx_node *a = fx_graph_get_attr(g, "a"), *b = fx_graph_get_attr(g, "b"), *again = fx_graph_get_attr(g, "a");
    fx_node *mean = fx_graph_get_attr(g, "bn.running_mean");
    fx_node *write = call("aten.mul_.Tensor", 2, b, x);
    fx_value yes = fx_v_bool(true);
    const char *training = "training";
    fx_graph_add_submodule(g, "bn", "torch.nn.BatchNorm2d", 1, &training, &yes);
    ck_assert_int_eq(fx_graph_set_buffer(g, "bn.running_mean", &t, true), FX_OK);
    fx_node *bn = module_call("bn", x);
    fx_graph_output(g, fx_v_node(a));
    const fx_alias *al = fx_alias_new(g, fx_context_arena(ctx));
    ck_assert(fx_alias_may(al, a, b) && fx_alias_may(al, a, again) && !fx_alias_may(al, a, mean));
    ck_assert(fx_alias_written(al, a, NULL, NULL) && !fx_alias_written(al, a, write, NULL));
    ck_assert(fx_alias_written(al, mean, write, NULL) && !fx_alias_written(al, mean, NULL, bn));
    ck_assert(!fx_alias_written(al, x, NULL, NULL));
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, calls_have_the_effects_they_should, 0, (int)(sizeof calls / sizeof *calls));
    tcase_add_test(t, numbers_are_not_written);
    tcase_add_test(t, modules_have_effects_by_class_and_setting);
    tcase_add_test(t, writes_are_found_where_they_are);
    tcase_add_test(t, views_share_memory);
    tcase_add_test(t, tied_attributes_are_one_memory);
}

int main(void)
{
    return unit_run("effect", 120, set_up, tear_down, add_tests);
}
