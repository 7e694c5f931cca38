/* tests/unit/test_graph.c: building and editing graphs, names, uses, copies, the module tree.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/unit.h"

static fx_context *ctx;
static fx_graph *g;

static void set_up(void)
{
    ctx = fx_context_create();
    g = fx_graph_new(ctx, "m");
}

static void tear_down(void)
{
    fx_context_free(ctx);
}

static fx_node *input(const char *name)
{
    return fx_node_new(g, FX_PLACEHOLDER, name, NULL, NULL, 0, NULL, NULL);
}

static const fx_arg *operands_tuple(int n)
{
    const fx_arg *items[16];
    for (int i = 0; i < n; i++)
        items[i] = fx_arg_operand(ctx, i);
    return fx_arg_seq(ctx, FX_ARG_TUPLE, n, items);
}

static fx_node *call(const char *target, int n, fx_node *const *operands)
{
    return fx_node_new(g, FX_CALL_FUNCTION, target, operands_tuple(n), NULL, n, operands, NULL);
}

static const char *order(void)
{
    static char buf[1000];
    char *p = buf;
    *p = '\0';
    const fx_node *before = NULL;
    size_t count = 0;
    FX_FOR_NODES(g, n) {
        p += sprintf(p, "%s%s", before ? " " : "", n->name);
        ck_assert_ptr_eq(n->prev, before);
        before = n;
        count++;
    }
    ck_assert_ptr_eq(g->last, before);
    ck_assert_uint_eq(g->n_nodes, count);
    return buf;
}

START_TEST(names_follow_fx)
{
    static const struct {
        fx_opcode opcode;
        const char *target, *given, *expected;
    } cases[] = {
        {FX_PLACEHOLDER, "x", NULL, "x"},
        {FX_PLACEHOLDER, "x", NULL, "x_1"},
        {FX_CALL_FUNCTION, "torch.ops.aten.conv2d.default", NULL, "conv2d"},
        {FX_CALL_FUNCTION, "torch.ops.aten.conv2d.default", NULL, "conv2d_1"},
        {FX_CALL_FUNCTION, "torch.ops.aten.conv2d.default", NULL, "conv2d_2"},
        {FX_CALL_FUNCTION, "aten.relu_.default", NULL, "relu_"},
        {FX_CALL_FUNCTION, "aten.relu_.default", NULL, "relu__1"},
        {FX_CALL_FUNCTION, "_operator.mul", NULL, "mul"},
        {FX_CALL_FUNCTION, "torch.nn.functional.adaptive_avg_pool2d", NULL, "adaptive_avg_pool2d"},
        {FX_CALL_FUNCTION, "aten.abs.default", NULL, "abs_1"},
        {FX_CALL_FUNCTION, "aten.abs.default", NULL, "abs_2"},
        {FX_CALL_METHOD, "__add__", NULL, "add"},
        {FX_CALL_MODULE, "layer1.0.convBlock", NULL, "layer1_0_conv_block"},
        {FX_GET_ATTR, "fc.weight", NULL, "fc_weight"},
        {FX_GET_ATTR, "0.weight", NULL, "_0_weight"},
        {FX_CALL_FUNCTION, "x", "add", "add_1"},
        {FX_CALL_FUNCTION, "x", "input", "input"},
        {FX_CALL_FUNCTION, "x", "lambda", "lambda_1"},
        {FX_CALL_FUNCTION, "x", "y_7", "y_7"},
        {FX_CALL_FUNCTION, "x", "y_7", "y_8"},
        {FX_CALL_FUNCTION, "x", "y", "y"},
        {FX_CALL_FUNCTION, "x", "y", "y_9"},
        {FX_CALL_FUNCTION, "x", "a/b \xC3\xA9*/", "a_b_"},
        {FX_CALL_FUNCTION, "x", "3d", "_3d"},
        {FX_CALL_FUNCTION, "x", "", "_unnamed"},
        {FX_CALL_FUNCTION, "x", "///", "_"},
        {FX_CALL_FUNCTION, "x", "z_99999999999999999999", "z_99999999999999999999"},
        {FX_CALL_FUNCTION, "x", "z_99999999999999999999", "z_99999999999999999999_1"},
        {FX_OUTPUT, "output", NULL, "output"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_node *n = fx_node_new(g, cases[i].opcode, cases[i].target, NULL, NULL, 0, NULL, cases[i].given);
        ck_assert_str_eq(n->name, cases[i].expected);
        ck_assert_ptr_eq(fx_graph_find_node(g, n->name), n);
        ck_assert_str_eq(n->loc.node, n->name);
    }
    ck_assert_ptr_null(fx_graph_find_node(g, "nobody"));
    char *long_name = calloc(1, 10001);
    memset(long_name, 'n', 10000);
    ck_assert_str_eq(fx_node_new(g, FX_CALL_FUNCTION, "x", NULL, NULL, 0, NULL, long_name)->name, long_name);
    free(long_name);
}
END_TEST

START_TEST(operands_are_numbered_left_to_right)
{
    fx_node *x = input("x"), *y = input("y");
    const fx_arg *op0 = fx_arg_operand(ctx, 0), *op1 = fx_arg_operand(ctx, 1);
    const fx_arg *list = fx_arg_seq(ctx, FX_ARG_LIST, 2, (const fx_arg *[]){op1, op0});
    const fx_arg *args = fx_arg_seq(ctx, FX_ARG_TUPLE, 2, (const fx_arg *[]){list, op1});
    const char *key = "other";
    fx_node *n = fx_node_new(g, FX_CALL_FUNCTION, "f", args, fx_arg_dict(ctx, 1, &key, &op0), 2, (fx_node *[]){x, y}, NULL);
    ck_assert_int_eq(n->n_operands, 4);
    fx_node *expected[] = {y, x, y, x};
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_eq(n->operands[i].def, expected[i]);
    ck_assert_ptr_eq(n->args->items[0]->items[0], op0);
    ck_assert_ptr_eq(n->args->items[1], fx_arg_operand(ctx, 2));
    ck_assert_ptr_eq(n->kwargs->items[0], fx_arg_operand(ctx, 3));
    ck_assert_int_eq(x->n_uses, 2);
    ck_assert_int_eq(y->n_uses, 2);
    ck_assert_ptr_eq(x->first_use, &n->operands[1]);
    ck_assert_ptr_eq(x->last_use, &n->operands[3]);
    fx_node *square = fx_node_new(g, FX_CALL_FUNCTION, "f", fx_arg_seq(ctx, FX_ARG_TUPLE, 2, (const fx_arg *[]){op0, op0}), NULL, 1,
                                  &x, NULL);
    fx_node *product = call("f", 2, (fx_node *[]){x, y});
    fx_node_replace_uses(y, x);
    ck_assert_ptr_eq(square->args, product->args);
    ck_assert_ptr_eq(product->operands[1].def, x);
    ck_assert_int_eq(y->n_uses, 0);
    ck_assert_int_eq(x->n_uses, 8);
}
END_TEST

START_TEST(uses_follow_edits)
{
    const int64_t four[] = {4}, five[] = {5};
    fx_node *x = input("x"), *y = input("y"), *z = input("z");
    x->type = y->type = fx_type_tensor_static(ctx, FX_F32, 1, four);
    z->type = fx_type_tensor_static(ctx, FX_F32, 1, five);
    fx_node *a = call("aten.relu.default", 1, &x), *b = call("aten.mul.Tensor", 2, (fx_node *[]){x, a});
    a->type = b->type = x->type;
    fx_node_set_operand(a, 0, y);
    ck_assert_ptr_nonnull(a->type);
    fx_node_set_operand(a, 0, z);
    ck_assert_ptr_null(a->type);
    a->type = x->type;
    ck_assert_int_eq(x->n_uses, 1);
    ck_assert_int_eq(y->n_uses, 0);
    fx_node_replace_uses(x, y);
    ck_assert_ptr_nonnull(b->type);
    fx_node_replace_uses(y, z);
    ck_assert_ptr_null(b->type);
    b->type = x->type;
    fx_node_replace_uses(z, z);
    ck_assert_int_eq(z->n_uses, 2);
    fx_node_assign(b, operands_tuple(2), NULL, 2, (fx_node *[]){a, a});
    ck_assert_ptr_null(b->type);
    ck_assert_int_eq(z->n_uses, 1);
    ck_assert_int_eq(a->n_uses, 2);
    fx_node_assign(b, operands_tuple(1), NULL, 1, &a);
    ck_assert_int_eq(a->n_uses, 1);
    fx_node_assign(b, operands_tuple(3), NULL, 3, (fx_node *[]){a, x, a});
    ck_assert_int_eq(a->n_uses, 2);
    ck_assert_int_eq(x->n_uses, 1);
    ck_assert_int_eq(fx_node_erase(a), FX_ERR_ARGUMENT);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->message, "cannot be erased: expected no uses, got 2, by 'mul', 'mul'");
    ck_assert_int_eq(fx_node_erase(b), FX_OK);
    ck_assert_int_eq(fx_node_erase(b), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_node_erase(a), FX_OK);
    ck_assert_int_eq(z->n_uses, 0);
    ck_assert_str_eq(order(), "x y z");
    ck_assert_ptr_null(fx_graph_find_node(g, "mul"));
}
END_TEST

START_TEST(nodes_are_inserted_and_moved)
{
    fx_node *a = input("a"), *b = input("b"), *c = input("c");
    g->insert_before = b;
    fx_node *d = input("d");
    input("e");
    ck_assert_str_eq(order(), "a d e b c");
    fx_node_move_before(b, a);
    ck_assert_str_eq(order(), "b a d e c");
    ck_assert_ptr_eq(g->insert_before, b);
    fx_node_move_before(b, NULL);
    ck_assert_str_eq(order(), "a d e c b");
    fx_node_move_before(b, NULL);
    fx_node_move_before(c, b);
    fx_node_move_before(c, c);
    ck_assert_str_eq(order(), "a d e c b");
    fx_node_move_before(a, b);
    ck_assert_str_eq(order(), "d e c a b");
    fx_node_erase(b);
    ck_assert_ptr_null(g->insert_before);
    input("f");
    ck_assert_str_eq(order(), "d e c a f");
    g->insert_before = d;
    fx_node_erase(d);
    input("first");
    ck_assert_str_eq(order(), "first e c a f");
    for (fx_node *n = g->first; n; n = n->next)
        fx_node_erase(n);
    ck_assert_str_eq(order(), "");
    ck_assert_ptr_null(g->first);
    ck_assert_uint_eq(g->n_ids, 7);
}
END_TEST

/* A run of random edits, checked against counts kept aside and by the verifier. */
START_TEST(random_edits_keep_names_and_uses)
{
    fx_node *live[400];
    int n = 0;
    uint64_t state = 7;
    for (int step = 0; step < 20000; step++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        unsigned r = (unsigned)(state >> 33);
        if (n < 2 || (n < 400 && r % 3 != 0)) {
            char name[16];
            snprintf(name, sizeof name, "n%u", r / 8 % 50);
            fx_node *ops[2] = {n ? live[r % (unsigned)n] : NULL, n ? live[r / 64 % (unsigned)n] : NULL};
            live[n] = fx_node_new(g, FX_CALL_FUNCTION, "f", operands_tuple(n ? 2 : 0), NULL, 2, ops, name);
            n++;
        } else {
            int i = (int)(r / 8 % (unsigned)n), j = (int)(r / 4096 % (unsigned)n);
            if (live[j]->id < live[i]->id)
                fx_node_replace_uses(live[i], live[j]);
            if (live[i]->n_uses == 0) {
                ck_assert_int_eq(fx_node_erase(live[i]), FX_OK);
                live[i] = live[--n];
            }
        }
    }
    int uses = 0, operands = 0;
    for (int i = 0; i < n; i++) {
        int count = 0;
        for (fx_use *u = live[i]->first_use; u; u = u->next, count++)
            ck_assert_ptr_eq(u->def, live[i]);
        ck_assert_int_eq(count, live[i]->n_uses);
        ck_assert_ptr_eq(fx_graph_find_node(g, live[i]->name), live[i]);
        uses += count;
        operands += live[i]->n_operands;
    }
    ck_assert_int_eq(uses, operands);
    ck_assert_uint_eq(g->n_nodes, (size_t)n);
    ck_assert_uint_eq(g->by_name.n, (size_t)n);
    fx_node_new(g, FX_OUTPUT, "output", operands_tuple(1), NULL, 1, &live[0], NULL);
    ck_assert_int_eq(fx_graph_verify(g, FX_STAGE_IMPORTED, "edits"), FX_OK);
    ck_assert_int_eq(fx_graph_verify(fx_graph_copy(g), FX_STAGE_IMPORTED, "copy"), FX_OK);
}
END_TEST

START_TEST(copies_are_deep)
{
    fx_tensor t;
    const int64_t sizes[] = {2};
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 1, sizes, &t), FX_OK);
    fx_attr *a = fx_attr_add(g, "layer.weight", &t, false);
    a->is_parameter = true;
    a->persistent = false;
    fx_module_make(g, "layer")->class_name = "Linear";
    fx_module_make(g, "empty.inner");
    fx_graph *sub = fx_graph_new(ctx, "sub");
    fx_node_new(sub, FX_PLACEHOLDER, "p", NULL, NULL, 0, NULL, NULL);
    fx_node *x = input("x"), *dead = input("dead");
    fx_node *w = fx_node_new(g, FX_GET_ATTR, "layer.weight", NULL, NULL, 0, NULL, NULL);
    fx_node_erase(dead);
    const fx_arg *args = fx_arg_seq(ctx, FX_ARG_TUPLE, 3, (const fx_arg *[]){fx_arg_operand(ctx, 0), fx_arg_operand(ctx, 1),
                                                                             fx_arg_graph(ctx, sub)});
    fx_node *f = fx_node_new(g, FX_CALL_FUNCTION, "f", args, NULL, 2, (fx_node *[]){w, x}, NULL);
    f->type = fx_type_scalar(ctx, FX_TYPE_INT);
    f->loc.module = "layer";
    fx_node_new(g, FX_OUTPUT, "output", operands_tuple(1), NULL, 1, &f, NULL);
    FX_PUSH(g->arena, g->symbols, g->n_symbols, g->cap_symbols) = (fx_sym_range){"s0", 1, 9};
    fx_graph *c = fx_graph_copy(g);
    ck_assert_uint_eq(c->n_nodes, 4);
    ck_assert_uint_eq(c->n_ids, 4);
    fx_node *f2 = fx_graph_find_node(c, "f");
    ck_assert_ptr_ne(f2, f);
    ck_assert_ptr_eq(f2->graph, c);
    ck_assert_ptr_eq(f2->operands[0].def, fx_graph_find_node(c, "layer_weight"));
    ck_assert_ptr_eq(f2->type, f->type);
    ck_assert_str_eq(f2->loc.module, "layer");
    ck_assert_ptr_ne(f2->args->items[2]->graph, sub);
    ck_assert_ptr_nonnull(fx_graph_find_node(f2->args->items[2]->graph, "p"));
    fx_attr *b = fx_attr_find(c, "layer.weight");
    ck_assert(b && b != a && b->is_parameter && !b->persistent);
    ck_assert_ptr_eq(b->tensor.storage, t.storage);
    ck_assert_str_eq(fx_module_find(c, "layer")->class_name, "Linear");
    ck_assert_ptr_nonnull(fx_module_find(c, "empty.inner"));
    ck_assert_str_eq(c->symbols[0].name, "s0");
    ck_assert_str_eq(fx_graph_output_node(c)->name, "output");
    ck_assert_int_eq(x->n_uses, 1);
}
END_TEST

START_TEST(attributes_hang_on_modules)
{
    fx_tensor t = {.dtype = FX_F32};
    fx_attr *w = fx_attr_add(g, "layer1.0.conv1.weight", &t, false);
    fx_attr *top = fx_attr_add(g, "bias", &t, false);
    ck_assert_ptr_eq(fx_attr_find(g, "layer1.0.conv1.weight"), w);
    ck_assert_ptr_null(fx_attr_find(g, "layer1.0.conv1"));
    ck_assert_str_eq(w->name, "weight");
    ck_assert_str_eq(w->module->name, "conv1");
    ck_assert_ptr_eq(w->module, fx_module_find(g, "layer1.0.conv1"));
    ck_assert_ptr_eq(fx_module_find(g, "")->attrs[0], top);
    ck_assert_str_eq(fx_attr_path(g, w), "layer1.0.conv1.weight");
    ck_assert_str_eq(fx_attr_path(g, top), "bias");
    ck_assert_str_eq(fx_module_path(g, w->module->parent), "layer1.0");
    ck_assert_str_eq(fx_module_path(g, g->root), "");
    ck_assert_ptr_eq(fx_attr_add(g, "bias", &t, false), top);
    ck_assert_str_eq(fx_attr_path(g, fx_attr_add(g, "bias", &t, true)), "bias_1");
    ck_assert_str_eq(fx_attr_path(g, fx_attr_add(g, "bias", &t, true)), "bias_2");
    ck_assert_str_eq(fx_attr_path(g, fx_attr_add(g, "layer1.0", &t, true)), "layer1.0_1");
    ck_assert_ptr_null(fx_module_find(g, "layer2"));
    /* Paths of hostile files */
    static const char *const odd[] = {"", ".", "a..b", ".x", "x.", "...", "a/b \"\n.c"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        fx_attr *a = fx_attr_add(g, odd[i], &t, false);
        ck_assert_ptr_eq(fx_attr_find(g, odd[i]), a);
        ck_assert_str_eq(fx_attr_path(g, a), odd[i]);
    }
    const int64_t sizes[] = {3};
    ck_assert_int_eq(fx_tensor_create(ctx, FX_I64, 1, sizes, &t), FX_OK);
    fx_node *n = fx_graph_constant(g, "folded", &t);
    ck_assert_str_eq(n->target, "folded");
    ck_assert_ptr_eq(n->type, fx_type_tensor_static(ctx, FX_I64, 1, sizes));
    ck_assert_str_eq(fx_graph_constant(g, "folded", &t)->target, "folded_1");
}
END_TEST

static double seconds(void) /* of this process, not of a busy machine */
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* A million nodes are ordinary: time and memory grow in proportion. The bounds leave room for sanitizers and busy machines. */
START_TEST(a_million_nodes_are_ordinary)
{
    enum { N = 1000000 };
    double start = seconds();
    fx_node *x = input("x"), *n = x;
    for (int i = 0; i < N; i++)
        n = call(i % 2 ? "aten.relu.default" : "aten.neg.default", 1, &n);
    double built = seconds();
    ck_assert_str_eq(n->name, "relu_499999");
    for (int i = 0; i < N / 2; i++) {
        fx_node *before = n->prev;
        ck_assert_int_eq(fx_node_erase(n), FX_OK);
        n = before;
    }
    double erased = seconds();
    ck_assert_uint_eq(g->n_nodes, N / 2 + 1);
    printf("per node: %.0f ns to create, %.0f ns to erase, %zu bytes\n", (built - start) * 1e9 / N, (erased - built) * 2e9 / N,
           (fx_arena_bytes(g->arena) + fx_arena_bytes(fx_context_arena(ctx))) / N);
    ck_assert(built - start < 20);
    ck_assert_uint_lt(fx_arena_bytes(g->arena) / N, 700);
}
END_TEST

/* The uses of one node are a list: replacing them costs their number, removing one does not search. */
START_TEST(many_uses_of_one_node)
{
    enum { N = 200000 };
    fx_node *x = input("x"), *y = input("y");
    for (int i = 0; i < N; i++)
        call("f", 1, &x);
    fx_node_replace_uses(x, y);
    ck_assert_int_eq(y->n_uses, N);
    int i = 0;
    for (fx_use *u = y->first_use; u; u = u->next, i++)
        ck_assert_uint_eq(u->user->id, (uint32_t)i + 2);
    for (fx_node *n = g->last; n != y; n = n->prev)
        ck_assert_int_eq(fx_node_erase(n), FX_OK);
    ck_assert_int_eq(y->n_uses, 0);
}
END_TEST

START_TEST(the_public_face)
{
    fx_node *x = input("x");
    fx_node *f = call("aten.relu.default", 1, &x);
    ck_assert_ptr_eq(fx_graph_first(g), x);
    ck_assert_ptr_eq(fx_node_next(x), f);
    ck_assert_ptr_null(fx_node_next(f));
    ck_assert_int_eq(fx_node_opcode(f), FX_CALL_FUNCTION);
    ck_assert_str_eq(fx_node_name(f), "relu");
    ck_assert_str_eq(fx_node_target(f), "aten.relu.default");
    ck_assert_uint_eq(fx_graph_node_count(g), 2);
    ck_assert_str_eq(fx_opcode_name(FX_CALL_MODULE), "call_module");
    ck_assert_str_eq(fx_opcode_name((fx_opcode)77), "unknown");
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, names_follow_fx);
    tcase_add_test(t, operands_are_numbered_left_to_right);
    tcase_add_test(t, uses_follow_edits);
    tcase_add_test(t, nodes_are_inserted_and_moved);
    tcase_add_test(t, random_edits_keep_names_and_uses);
    tcase_add_test(t, copies_are_deep);
    tcase_add_test(t, attributes_hang_on_modules);
    tcase_add_test(t, a_million_nodes_are_ordinary);
    tcase_add_test(t, many_uses_of_one_node);
    tcase_add_test(t, the_public_face);
}

int main(void)
{
    return unit_run("graph", 120, set_up, tear_down, add_tests);
}
