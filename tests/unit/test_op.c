/* tests/unit/test_op.c: the table of operators, finding rows, schemas, normalising calls.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "tests/unit/unit.h"

static fx_context *ctx;
static fx_graph *g;
static fx_node *x, *w;

static void set_up(void)
{
    ctx = fx_context_create();
    g = fx_graph_new(ctx, "m");
    x = fx_node_new(g, FX_PLACEHOLDER, "x", NULL, NULL, 0, NULL, NULL);
    w = fx_node_new(g, FX_PLACEHOLDER, "w", NULL, NULL, 0, NULL, NULL);
}

static void tear_down(void)
{
    fx_context_free(ctx);
}

START_TEST(every_row_is_whole)
{
    for (int i = 1; i < FX_OP_COUNT; i++) {
        const fx_op *op = &fx_ops[i];
        bool inplace = true;
        ck_assert_int_eq(op->id, i);
        ck_assert_msg(fx_op_find(op->name, &inplace) == op && !inplace, "%s is found", op->name);
        ck_assert_ptr_eq(fx_op_find(fx_intern_f(ctx, "torch.ops.%s", op->name), NULL), op);
        ck_assert_msg(op->doc && *op->doc && op->infer && op->eval, "%s", op->name);
        const fx_schema *s = fx_op_schema(ctx, op);
        ck_assert_msg(s->n_returns != 0 || strstr(op->schema, "-> ()"), "%s returns something, or says that it does not", op->name);
        ck_assert_msg(s->n > 0, "%s takes something", op->name);
        ck_assert_ptr_eq(fx_op_schema(ctx, op), s);
        for (int k = 0; k < s->n; k++) {
            ck_assert_msg(*s->params[k].name && *s->params[k].type, "%s parameter %d", op->name, k);
            for (int j = 0; j < k; j++)
                ck_assert_ptr_ne(s->params[k].name, s->params[j].name);
            /* a default must be what normalising makes of it */
            if (s->params[k].kind == FX_PARAM_FLOAT && s->params[k].def && s->params[k].def->kind != FX_ARG_NONE)
                ck_assert_int_eq(s->params[k].def->kind, FX_ARG_FLOAT);
        }
    }
    ck_assert_uint_eq(fx_diag_count(ctx), 0);
}
END_TEST

START_TEST(rows_are_found_under_many_names)
{
    static const struct {
        const char *name;
        fx_opid id;
        bool inplace;
    } cases[] = {
        {"torch.ops.aten.relu.default", FX_OP_relu, false},
        {"aten.relu.default", FX_OP_relu, false},
        {"aten.relu", FX_OP_relu, false},
        {"aten::relu", FX_OP_relu, false},
        {"aten::add.Tensor", FX_OP_add_Tensor, false},
        {"torch.relu", FX_OP_relu, false},
        {"torch.relu_", FX_OP_relu, true},
        {"torch.ops.aten.relu_.default", FX_OP_relu, true},
        {"aten.add_.Tensor", FX_OP_add_Tensor, true},
        {"aten::add_.Tensor", FX_OP_add_Tensor, true},
        {"_operator.mul", FX_OP_mul_Tensor, false},
        {"_operator.iadd", FX_OP_add_Tensor, true},
        {"_operator.getitem", FX_OP_getitem, false},
        {"torch.nn.functional.relu", FX_OP_relu, false},
        {"torch.flatten", FX_OP_flatten_using_ints, false},
        {"torch.add", FX_OP_add_Tensor, false},
        {"torch.batch_norm", FX_OP_batch_norm, false},
        {"aten.batch_norm", FX_OP_batch_norm, false},
        {"aten._softmax.default", FX_OP__softmax, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool inplace = !cases[i].inplace;
        const fx_op *op = fx_op_find(cases[i].name, &inplace);
        ck_assert_msg(op == &fx_ops[cases[i].id], "%s", cases[i].name);
        ck_assert_msg(inplace == cases[i].inplace, "%s", cases[i].name);
        for (int k = 0; k < 2; k++) {
            inplace = !cases[i].inplace;
            ck_assert_ptr_eq(fx_op_lookup(ctx, cases[i].name, &inplace), op);
            ck_assert(inplace == cases[i].inplace);
        }
    }
    static const char *const none[] = {"", "aten", "aten.", "relu", "aten.relu__.default", "aten.__relu__.default", "aten._.default",
                                       "torch.ops.", "aten.relu.Tensor", "torch.ops.higher_order.cond", "torch.nn.relu",
                                       "aten.relu.default.x", "_operator.mul_"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ck_assert_msg(fx_op_find(none[i], NULL) == NULL, "%s", none[i]);
    char name[5000];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert_ptr_null(fx_op_find(name, NULL));
}
END_TEST

START_TEST(schemas_say_what_they_say)
{
    const fx_schema *s = fx_op_schema(ctx, &fx_ops[FX_OP_max_pool2d_with_indices]);
    ck_assert_int_eq(s->n, 6);
    ck_assert_int_eq(s->n_returns, 2);
    ck_assert_str_eq(s->params[2].name, "stride");
    ck_assert_int_eq(s->params[2].kind, FX_PARAM_INTS);
    ck_assert_int_eq(s->params[2].list_size, 2);
    ck_assert_str_eq(s->params[2].type, "int[2]");
    ck_assert_ptr_eq(s->params[2].def, fx_arg_ints(ctx, 0, NULL));
    ck_assert_ptr_eq(s->params[4].def, fx_arg_ints(ctx, 2, (const int64_t[]){1, 1}));
    ck_assert_ptr_eq(s->params[5].def, fx_arg_bool(ctx, false));
    ck_assert_ptr_null(s->params[1].def);
    s = fx_op_schema(ctx, &fx_ops[FX_OP_gelu]);
    ck_assert(s->params[1].keyword_only && !s->params[0].keyword_only);
    ck_assert_ptr_eq(s->params[1].def, fx_arg_text(ctx, FX_ARG_STR, "none"));
    s = fx_op_schema(ctx, &fx_ops[FX_OP_layer_norm]);
    ck_assert_ptr_eq(s->params[4].def, fx_arg_float(ctx, 1e-5));
    ck_assert(s->params[2].optional);
    s = fx_op_schema(ctx, &fx_ops[FX_OP_chunk]);
    ck_assert_int_eq(s->n_returns, -1);
    ck_assert_str_eq(s->params[0].type, "Tensor");
    s = fx_op_schema(ctx, &fx_ops[FX_OP_contiguous]);
    ck_assert_ptr_eq(s->params[1].def, fx_arg_text(ctx, FX_ARG_MEMORY_FORMAT, "torch.contiguous_format"));
    s = fx_op_schema(ctx, &fx_ops[FX_OP_mean_dim]);
    ck_assert(s->params[1].optional && s->params[1].list_size == 1 && s->params[1].kind == FX_PARAM_INTS);
    ck_assert_str_eq(s->params[1].type, "int[1]?");
    s = fx_op_schema(ctx, &fx_ops[FX_OP_upsample_nearest2d_vec]);
    ck_assert(s->params[2].kind == FX_PARAM_FLOATS && s->params[2].optional);
    s = fx_op_schema(ctx, &fx_ops[FX_OP_cat]);
    ck_assert_int_eq(s->params[0].kind, FX_PARAM_TENSORS);
    s = fx_op_schema(ctx, &fx_ops[FX_OP_native_layer_norm]);
    ck_assert_int_eq(s->n_returns, 3);
}
END_TEST

/* ---- normalising ---- */

static const fx_arg *tuple(int n, const fx_arg *const *items)
{
    return fx_arg_seq(ctx, FX_ARG_TUPLE, n, items);
}

static fx_node *call(const char *target, int n, const fx_arg *const *args, int n_kw, const char *const *keys,
                     const fx_arg *const *values)
{
    fx_node *operands[] = {x, w};
    return fx_node_new(g, FX_CALL_FUNCTION, target, tuple(n, args), fx_arg_dict(ctx, n_kw, keys, values), 2, operands, NULL);
}

#define X fx_arg_operand(ctx, 0)
#define W fx_arg_operand(ctx, 1)
#define INT(v) fx_arg_int(ctx, v)
#define INTS(...) fx_arg_ints(ctx, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})
#define ARGS(...) sizeof((const fx_arg *[]){__VA_ARGS__}) / sizeof(void *), (const fx_arg *[]){__VA_ARGS__}

START_TEST(defaults_and_keywords_find_their_places)
{
    fx_node *n = call("torch.ops.aten.conv2d.default", ARGS(X), 3, (const char *[]){"padding", "weight", "stride"},
                      (const fx_arg *[]){INT(1), W, tuple(ARGS(INT(2), INT(2)))});
    n->type = fx_type_scalar(ctx, FX_TYPE_OTHER);
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    ck_assert_int_eq(n->args->n, 7);
    ck_assert_int_eq(n->kwargs->n, 0);
    ck_assert_int_eq(n->kwargs->kind, FX_ARG_DICT);
    ck_assert_ptr_eq(fx_node_input(n, 0), x);
    ck_assert_ptr_eq(fx_node_input(n, 1), w);
    ck_assert(fx_node_is_none(n, 2));
    ck_assert_ptr_eq(fx_node_arg(n, 3), INTS(2, 2));
    ck_assert_ptr_eq(fx_node_arg(n, 4), INTS(1, 1));
    ck_assert_ptr_eq(fx_node_arg(n, 5), INTS(1, 1));
    ck_assert_int_eq(fx_node_int(n, 6), 1);
    ck_assert_int_eq(fx_node_param(n, "dilation"), 5);
    ck_assert_int_eq(fx_node_param(n, "nothing"), -1);
    ck_assert_ptr_nonnull(n->type);
    const fx_arg *args = n->args;
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    ck_assert_ptr_eq(n->args, args);
    ck_assert_int_eq(x->n_uses, 1);
    ck_assert_int_eq(w->n_uses, 1);
}
END_TEST

START_TEST(keywords_may_reorder_operands)
{
    fx_node *n = call("aten.mul.Tensor", 0, NULL, 2, (const char *[]){"other", "self"}, (const fx_arg *[]){X, W});
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    ck_assert_ptr_eq(n->args, tuple(ARGS(fx_arg_operand(ctx, 0), fx_arg_operand(ctx, 1))));
    ck_assert_ptr_eq(fx_node_input(n, 0), w);
    ck_assert_ptr_eq(fx_node_input(n, 1), x);
    n = call("torch.nn.functional.relu", 0, NULL, 1, (const char *[]){"input"}, (const fx_arg *[]){X});
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    ck_assert_ptr_eq(fx_node_input(n, 0), x);
}
END_TEST

START_TEST(values_are_converted)
{
    fx_node *n = call("aten.layer_norm.default", ARGS(X, INTS(4), W, fx_arg_none(ctx), INT(1)), 0, NULL, NULL);
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    ck_assert_ptr_eq(fx_node_arg(n, 4), fx_arg_float(ctx, 1));
    ck_assert(fx_node_float(n, 4) == 1);
    ck_assert(fx_node_bool(n, 5));
    n = call("_operator.mul", ARGS(X, INT(2)), 0, NULL, NULL);
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    ck_assert_ptr_eq(fx_node_arg(n, 1), INT(2));
    n = call("aten.cat.default", ARGS(tuple(ARGS(X, W, X))), 0, NULL, NULL);
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    ck_assert_int_eq(fx_node_arg(n, 0)->kind, FX_ARG_LIST);
    fx_node *in[2];
    ck_assert_int_eq(fx_node_inputs(n, 0, in, 2), 3);
    ck_assert(in[0] == x && in[1] == w);
    ck_assert_int_eq(n->n_operands, 3);
    n = call("aten.mean.dim", ARGS(X, INTS(2, 3), fx_arg_bool(ctx, true)), 0, NULL, NULL);
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    int64_t v[4];
    ck_assert_int_eq(fx_node_ints(n, 1, v, 4), 2);
    ck_assert(v[0] == 2 && v[1] == 3);
    n = call("aten.full.default", ARGS(INTS(2), INT(1)), 1, (const char *[]){"device"},
             (const fx_arg *[]){fx_arg_text(ctx, FX_ARG_STR, "cpu")});
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    ck_assert_ptr_eq(fx_node_arg(n, fx_node_param(n, "device")), fx_arg_text(ctx, FX_ARG_DEVICE, "cpu"));
    n = call("unknown.op", ARGS(X, fx_arg_ellipsis(ctx)), 0, NULL, NULL);
    ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    ck_assert_int_eq(n->args->n, 2);
}
END_TEST

static void refused(fx_node *n, const char *message)
{
    fx_diag_clear(ctx);
    ck_assert_int_eq(fx_node_normalize(n), FX_ERR_TYPE);
    ck_assert_uint_eq(fx_diag_count(ctx), 1);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->message, message);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->node, n->name);
}

START_TEST(what_does_not_fit_is_named)
{
    const fx_arg *str = fx_arg_text(ctx, FX_ARG_STR, "same"), *none = fx_arg_none(ctx);
    refused(call("torch.ops.aten.conv2d.default", ARGS(X, W, none, str), 0, NULL, NULL),
            "argument 'stride' of aten.conv2d.default: expected int[2], got str");
    refused(call("aten.conv2d.default", ARGS(X, W, none, INTS(1, 2, 3)), 0, NULL, NULL),
            "argument 'stride' of aten.conv2d.default: expected int[2], got a list of 3");
    refused(call("aten.conv2d.default", ARGS(X, W, none, tuple(ARGS(INT(1), str))), 0, NULL, NULL),
            "argument 'stride' of aten.conv2d.default: expected int[2], got str as item 1");
    refused(call("aten.conv2d.default", ARGS(X), 0, NULL, NULL),
            "argument 'weight' of aten.conv2d.default: expected Tensor, got nothing");
    refused(call("aten.conv2d.default", ARGS(X, none), 0, NULL, NULL),
            "argument 'weight' of aten.conv2d.default: expected Tensor, got None");
    refused(call("aten.relu.default", ARGS(X, W), 0, NULL, NULL), "aten.relu.default takes at most 1 arguments, got 2");
    refused(call("aten.relu.default", ARGS(X), 1, (const char *[]){"inplace"}, (const fx_arg *[]){none}),
            "aten.relu.default has no argument 'inplace'");
    refused(call("aten.relu.default", ARGS(X), 1, (const char *[]){"self"}, (const fx_arg *[]){X}),
            "argument 'self' of aten.relu.default is given twice");
    refused(call("aten.flatten.using_ints", ARGS(X, fx_arg_float(ctx, 1)), 0, NULL, NULL),
            "argument 'start_dim' of aten.flatten.using_ints: expected int, got float");
    refused(call("aten.view.default", ARGS(X, INT(3)), 0, NULL, NULL), "argument 'size' of aten.view.default: expected int[], got int");
    refused(call("aten.add_.Tensor", ARGS(INT(2), X), 0, NULL, NULL), "argument 'self' of aten.add_.Tensor: expected Tensor, got int");
    refused(call("aten.linear.default", ARGS(X, INT(2)), 0, NULL, NULL),
            "argument 'weight' of aten.linear.default: expected Tensor, got int");
    refused(call("aten.cat.default", ARGS(tuple(ARGS(X, none))), 0, NULL, NULL),
            "argument 'tensors' of aten.cat.default: expected Tensor[], got None as item 1");
    refused(call("aten.dropout.default", ARGS(X, fx_arg_float(ctx, .5), INT(1)), 0, NULL, NULL),
            "argument 'train' of aten.dropout.default: expected bool, got int");
}
END_TEST

/* Where the schema says int, an expression over symbols is refused: what reads the parameter reads numbers. Where it says SymInt, it is taken. */
START_TEST(only_symints_are_symbolic)
{
    const fx_arg *n = fx_arg_sym(ctx, fx_sym_symbol(ctx, "n")), *mixed = fx_arg_seq(ctx, FX_ARG_LIST, 2, (const fx_arg *[]){fx_arg_int(ctx, 2), n});
    int taken = 0, refused = 0;
    for (int i = 1; i < FX_OP_COUNT; i++) {
        const fx_schema *s = fx_op_schema(ctx, &fx_ops[i]);
        int symbolic = 0, ints = 0;
        for (int k = 0; k < s->n; k++) {
            const fx_param *p = &s->params[k];
            const char *got;
            if (p->kind != FX_PARAM_INT && p->kind != FX_PARAM_INTS)
                continue;
            bool one = p->kind == FX_PARAM_INT || p->list_size, list = p->kind == FX_PARAM_INTS && p->list_size != 1;
            ints++;
            symbolic += p->symbolic;
            for (int way = 0; way < 2; way++) {
                const fx_arg *a = way ? mixed : n;
                if (!(way ? list : one) || (way && p->list_size > 2))
                    continue;
                ck_assert_msg((fx_param_fit(ctx, p, a, &got) != NULL) == p->symbolic, "%s, %s", fx_ops[i].name, p->name);
                taken += p->symbolic;
                refused += !p->symbolic;
                if (!p->symbolic)
                    ck_assert_str_eq(got, "SymInt");
            }
        }
        const char *said = strstr(fx_ops[i].schema, "SymInt"), *returns = strstr(fx_ops[i].schema, ") -> ");
        ck_assert_msg((said && said < returns) == (symbolic > 0), "%s", fx_ops[i].name);
        ck_assert(ints >= symbolic);
    }
    ck_assert_int_gt(taken, 100);
    ck_assert_int_gt(refused, 100);
}
END_TEST

START_TEST(in_place_is_known_by_name)
{
    fx_node *n = call("aten.add_.Tensor", ARGS(X, W), 0, NULL, NULL);
    ck_assert_ptr_eq(n->op, &fx_ops[FX_OP_add_Tensor]);
    ck_assert(fx_node_is_inplace(n));
    ck_assert(!fx_node_is_inplace(call("aten.add.Tensor", ARGS(X, W), 0, NULL, NULL)));
    ck_assert(!fx_node_is_inplace(call("nothing.known_", ARGS(X, W), 0, NULL, NULL)));
    ck_assert(!fx_node_is_inplace(x));
}
END_TEST

START_TEST(calls_are_built)
{
    const int64_t sizes[] = {1, 3, 8, 8}, kernel[] = {4, 3, 3, 3};
    x->type = fx_type_tensor_static(ctx, FX_F32, 4, sizes);
    w->type = fx_type_tensor_static(ctx, FX_F32, 4, kernel);
    fx_call c = fx_call_begin(g, FX_OP_conv2d);
    fx_call_node(&c, x);
    fx_call_node(&c, w);
    fx_call_node(&c, NULL);
    fx_call_int(&c, 2);
    fx_node *y = fx_call_end(&c, "conv");
    ck_assert_ptr_nonnull(y);
    ck_assert_str_eq(y->name, "conv");
    ck_assert_ptr_eq(fx_node_arg(y, 3), INTS(2, 2));
    c = fx_call_begin(g, FX_OP_conv2d);
    fx_call_copy(&c, y, 1);
    fx_call_copy(&c, y, 0);
    for (int i = 2; i < 7; i++)
        fx_call_copy(&c, y, i);
    ck_assert_int_eq(c.n_operands, 2);
    ck_assert_ptr_eq(c.operands[0], w);
    c = fx_call_begin(g, FX_OP_relu);
    fx_call_node(&c, y);
    fx_call_node(&c, y);
    size_t before = g->n_nodes;
    ck_assert_ptr_null(fx_call_end(&c, NULL));
    c = fx_call_begin(g, FX_OP_relu);
    fx_call_int(&c, 1);
    ck_assert_ptr_null(fx_call_end(&c, NULL));
    ck_assert_uint_eq(g->n_nodes, before);
    ck_assert_int_eq(y->n_uses, 0);
    c = fx_call_begin(g, FX_OP_cat);
    fx_node *many[300];
    for (int i = 0; i < 300; i++)
        many[i] = y;
    fx_call_nodes(&c, 300, many);
    ck_assert_ptr_null(fx_call_end(&c, NULL));
    c = fx_call_begin(g, FX_OP_cat);
    fx_call_nodes(&c, 200, many);
    fx_call_int(&c, 1);
    fx_node *cat = fx_call_end(&c, NULL);
    ck_assert_str_eq(cat->name, "cat");
    ck_assert_int_eq(y->n_uses, 200);
    ck_assert_int_eq(cat->n_operands, 200);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, every_row_is_whole);
    tcase_add_test(t, rows_are_found_under_many_names);
    tcase_add_test(t, schemas_say_what_they_say);
    tcase_add_test(t, defaults_and_keywords_find_their_places);
    tcase_add_test(t, keywords_may_reorder_operands);
    tcase_add_test(t, values_are_converted);
    tcase_add_test(t, what_does_not_fit_is_named);
    tcase_add_test(t, only_symints_are_symbolic);
    tcase_add_test(t, in_place_is_known_by_name);
    tcase_add_test(t, calls_are_built);
}

int main(void)
{
    return unit_run("op", 120, set_up, tear_down, add_tests);
}
