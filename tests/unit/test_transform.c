/* tests/unit/test_transform.c: graphs rebuilt while callbacks replace nodes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/passes.h"
#include "tests/unit/fixture.h"

static const char text[] = "graph \"case\" functional\n"
                           "parameter w : f32[2] = [1.0, 2.0]\n\n"
                           "%x : f32[2] = placeholder[x]\n"
                           "%w : f32[2] = get_attr[w]\n"
                           "%relu : f32[2] = call_function[aten.relu.default](%x)\n"
                           "%mul : f32[2] = call_function[aten.mul.Tensor](%relu, %w)\n"
                           "%relu_1 : f32[2] = call_function[aten.relu.default](%mul)\n"
                           "%sum : f32[] = call_function[aten.sum.default](%relu_1)\n"
                           "output((%sum, %relu))\n";

static fx_node *call(fx_graph *to, const char *target, int n, fx_node *const *operands)
{
    const fx_arg *items[2] = {fx_arg_operand(to->ctx, 0), fx_arg_operand(to->ctx, 1)};
    return fx_node_new(to, FX_CALL_FUNCTION, target, fx_arg_seq(to->ctx, FX_ARG_TUPLE, n, items), NULL, n, operands, NULL);
}

/* relu -> x * sigmoid(x) */
static fx_status swish(void *user, fx_graph *to, const fx_node *n, size_t n_args, fx_node *const *args, fx_node **out)
{
    if (n->op->id != FX_OP_relu)
        return FX_OK;
    ck_assert_uint_eq(n_args, 1);
    ck_assert_ptr_eq(args[0]->graph, to);
    fx_node *both[] = {args[0], call(to, "aten.sigmoid.default", 1, args)};
    *out = call(to, "aten.mul.Tensor", 2, both);
    ++*(int *)user;
    return FX_OK;
}

START_TEST(nodes_are_replaced_and_typed)
{
    fx_graph *g = unit_parse(ctx, text), *out = NULL;
    const char *before = unit_print(g);
    int count = 0;
    fx_transformer t = {.transform[FX_CALL_FUNCTION] = swish, .user = &count};
    ck_assert_msg(fx_graph_transform(g, &t, &out) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_int_eq(count, 2);
    ck_assert_str_eq(unit_print(g), before);
    ck_assert_str_eq(unit_print(out),
                     "graph \"case\" imported\n"
                     "parameter w : f32[2] = [1.0, 2.0]\n\n"
                     "%x : f32[2] = placeholder[x]\n"
                     "%w : f32[2] = get_attr[w]\n"
                     "%sigmoid : f32[2] = call_function[aten.sigmoid.default](%x)\n"
                     "%mul : f32[2] = call_function[aten.mul.Tensor](%x, %sigmoid)\n"
                     "%mul_1 : f32[2] = call_function[aten.mul.Tensor](%mul, %w)\n"
                     "%sigmoid_1 : f32[2] = call_function[aten.sigmoid.default](%mul_1)\n"
                     "%mul_2 : f32[2] = call_function[aten.mul.Tensor](%mul_1, %sigmoid_1)\n"
                     "%sum : f32[] = call_function[aten.sum.default](%mul_2, None)\n"
                     "output((%sum, %mul))\n");
    fx_attr_find(out, "w")->is_parameter = false; /* trees are their own */
    ck_assert(fx_attr_find(g, "w")->is_parameter);
}
END_TEST

START_TEST(without_callbacks_it_is_a_copy)
{
    fx_graph *g = unit_parse(ctx, text), *out = NULL;
    fx_node *n = fx_graph_find_node(g, "mul");
    n->loc.module = "a.b";
    fx_transformer none = {0};
    ck_assert_int_eq(fx_graph_transform(g, &none, &out), FX_OK);
    ck_assert_str_eq(fx_graph_find_node(out, "mul")->loc.module, "a.b");
    ck_assert_int_eq(fx_graph_transform(g, NULL, &out), FX_OK);
    out->stage = g->stage;
    ck_assert_str_eq(unit_print(out), unit_print(g));
    ck_assert_int_eq(fx_graph_transform(NULL, &none, &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_transform(g, &none, NULL), FX_ERR_ARGUMENT);
}
END_TEST

/* An argument stands for the node: it is dropped. */
static fx_status drop(void *user, fx_graph *to, const fx_node *n, size_t n_args, fx_node *const *args, fx_node **out)
{
    (void)user, (void)to, (void)n_args;
    *out = n->op->id == FX_OP_relu ? args[0] : NULL;
    return FX_OK;
}

/* A placeholder in double: all that depends on it is typed anew. */
static fx_status widen(void *user, fx_graph *to, const fx_node *n, size_t n_args, fx_node *const *args, fx_node **out)
{
    (void)user, (void)n_args, (void)args;
    *out = fx_node_new(to, FX_PLACEHOLDER, n->target, NULL, NULL, 0, NULL, NULL);
    (*out)->type = fx_type_tensor_static(ctx, FX_F64, 1, (int64_t[]){2});
    return FX_OK;
}

START_TEST(types_follow)
{
    fx_graph *out = NULL;
    fx_transformer t = {.transform = {[FX_CALL_FUNCTION] = drop, [FX_PLACEHOLDER] = widen}};
    ck_assert_msg(fx_graph_transform(unit_parse(ctx, text), &t, &out) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_str_eq(unit_print(out), "graph \"case\" imported\n"
                                 "parameter w : f32[2] = [1.0, 2.0]\n\n"
                                 "%x : f64[2] = placeholder[x]\n"
                                 "%w : f32[2] = get_attr[w]\n"
                                 "%mul : f64[2] = call_function[aten.mul.Tensor](%x, %w)\n"
                                 "%sum : f64[] = call_function[aten.sum.default](%mul, None)\n"
                                 "output((%sum, %x))\n");
}
END_TEST

static fx_status foreign(void *user, fx_graph *to, const fx_node *n, size_t n_args, fx_node *const *args, fx_node **out)
{
    (void)to, (void)n_args, (void)args;
    *out = user ? user : (fx_node *)n;
    return FX_OK;
}

static fx_status gone(void *user, fx_graph *to, const fx_node *n, size_t n_args, fx_node *const *args, fx_node **out)
{
    (void)user, (void)n, (void)n_args;
    *out = call(to, "aten.neg.default", 1, args);
    return fx_node_erase(*out);
}

static fx_status refuse(void *user, fx_graph *to, const fx_node *n, size_t n_args, fx_node *const *args, fx_node **out)
{
    (void)user, (void)to, (void)n, (void)n_args, (void)args, (void)out;
    return FX_ERR_UNSUPPORTED;
}

static fx_status two_outputs(void *user, fx_graph *to, const fx_node *n, size_t n_args, fx_node *const *args, fx_node **out)
{
    (void)user, (void)n, (void)n_args, (void)out;
    fx_node_new(to, FX_OUTPUT, "output", fx_arg_seq(ctx, FX_ARG_TUPLE, 1, (const fx_arg *[]){fx_arg_operand(ctx, 0)}), NULL, 1, args, NULL);
    return FX_OK;
}

static fx_status ill_typed(void *user, fx_graph *to, const fx_node *n, size_t n_args, fx_node *const *args, fx_node **out)
{
    (void)user, (void)n_args;
    *out = n->op->id == FX_OP_relu ? call(to, "aten.conv2d.default", 1, args) : NULL;
    return FX_OK;
}

START_TEST(bad_callbacks_are_told)
{
    static const struct {
        fx_opcode opcode;
        fx_status (*f)(void *, fx_graph *, const fx_node *, size_t, fx_node *const *, fx_node **);
        fx_status status;
        const char *message;
    } cases[] = {
        {FX_CALL_FUNCTION, foreign, FX_ERR_ARGUMENT, "no node of the new graph: 'relu'"},
        {FX_CALL_FUNCTION, gone, FX_ERR_ARGUMENT, "is erased"},
        {FX_CALL_FUNCTION, refuse, FX_ERR_UNSUPPORTED, "stopped by the caller's callback"},
        {FX_OUTPUT, two_outputs, FX_ERR_FORMAT, "output"},
        {FX_CALL_FUNCTION, ill_typed, FX_ERR_TYPE, "argument 'weight'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_graph *g = unit_parse(ctx, text), *out = NULL;
        const char *before = unit_print(g);
        fx_transformer t = {0};
        t.transform[cases[i].opcode] = cases[i].f;
        ck_assert_int_eq(fx_graph_transform(g, &t, &out), cases[i].status);
        ck_assert_ptr_null(out);
        ck_assert_msg(strstr(unit_diag(ctx), cases[i].message) != NULL, "%s", unit_diag(ctx));
        ck_assert_str_eq(unit_print(g), before);
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, nodes_are_replaced_and_typed);
    tcase_add_test(t, without_callbacks_it_is_a_copy);
    tcase_add_test(t, types_follow);
    tcase_add_test(t, bad_callbacks_are_told);
}

int main(void)
{
    return unit_run("transform", 120, set_up, tear_down, add_tests); /* sanitizers, busy machines */
}
