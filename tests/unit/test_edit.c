/* tests/unit/test_edit.c: the public face of graphs: values, creating, copying, editing, looking, dead code, sorting.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/unit/unit.h"

static fx_context *ctx;
static fx_graph *g;
static fx_node *x, *w;

static void set_up(void)
{
    ctx = fx_context_create();
    g = fx_graph_create(ctx, "m");
    x = fx_graph_placeholder(g, "x", NULL);
    w = fx_graph_placeholder(g, "w", NULL);
    ck_assert(x && w);
}

static void tear_down(void)
{
    fx_context_free(ctx);
}

static fx_node *call1(const char *target, fx_node *a)
{
    fx_value v = fx_v_node(a);
    fx_node *n = fx_graph_call_function(g, target, 1, &v);
    ck_assert_ptr_nonnull(n);
    return n;
}

static fx_node *call2(const char *target, fx_node *a, fx_node *b)
{
    fx_value v[2] = {fx_v_node(a), fx_v_node(b)};
    fx_node *n = fx_graph_call_function(g, target, 2, v);
    ck_assert_ptr_nonnull(n);
    return n;
}

static const char *order(void)
{
    static char buf[2000];
    buf[0] = '\0';
    for (fx_node *n = fx_graph_first(g); n; n = fx_node_next(n)) {
        strcat(buf, buf[0] ? " " : "");
        strcat(buf, fx_node_name(n));
    }
    return buf;
}

static const char *args_of(const fx_node *n)
{
    static char buf[2000];
    buf[0] = '\0';
    for (int i = 0; i < fx_node_arg_count(n); i++) {
        fx_value v = fx_node_arg_at(n, i);
        strcat(buf, i ? ", " : "");
        fx_value_format(&v, buf + strlen(buf), sizeof buf - strlen(buf));
    }
    for (int i = 0; i < fx_node_kwarg_count(n); i++) {
        fx_value v = fx_node_kwarg_at(n, i);
        strcat(buf, buf[0] ? ", " : "");
        strcat(buf, fx_node_kwarg_key(n, i));
        strcat(buf, "=");
        fx_value_format(&v, buf + strlen(buf), sizeof buf - strlen(buf));
    }
    return buf;
}

static const char *users_of(const fx_node *n)
{
    static char buf[1000];
    fx_node *users[20];
    size_t k = fx_node_users(n, users, 20);
    buf[0] = '\0';
    for (size_t i = 0; i < k; i++) {
        strcat(buf, i ? " " : "");
        strcat(buf, fx_node_name(users[i]));
    }
    return buf;
}

/* The graph is whole; an output it may not have yet. */
static void sound(void)
{
    size_t before = fx_diag_count(ctx);
    fx_graph_lint(g, FX_LINT_STRUCTURE);
    for (size_t i = before; i < fx_diag_count(ctx); i++)
        ck_assert_str_eq(fx_diag_get(ctx, i)->message, "the graph has 0 output nodes, expected 1");
}

/* ---- creating -------------------------------------------------------------------------------------------------------- */

START_TEST(each_opcode_is_created)
{
    fx_value five = fx_v_int(5);
    fx_node *d = fx_graph_placeholder(g, "d", &five);
    fx_node *a = fx_graph_get_attr(g, "layer1.0.weight");
    fx_node *f = call2("operator.add", x, a);
    fx_value self = fx_v_node(f);
    fx_node *m = fx_graph_call_method(g, "relu_", 1, &self);
    fx_node *c = fx_graph_call_module(g, "layer1.convBlock", 1, &self);
    const char *keys[] = {"alpha"};
    fx_value both[2] = {fx_v_node(m), fx_v_node(c)}, two = fx_v_float(2.5);
    fx_node *k = fx_graph_create_node(g, FX_CALL_FUNCTION, "torch.add", 2, both, 1, keys, &two, "sum");
    fx_node *o = fx_graph_output(g, fx_v_tuple(2, both));
    static const struct {
        fx_opcode opcode;
        const char *name, *target, *args;
    } expected[] = {
        {FX_PLACEHOLDER, "d", "d", "5"},
        {FX_GET_ATTR, "layer1_0_weight", "layer1.0.weight", ""},
        {FX_CALL_FUNCTION, "add", "operator.add", "%x, %layer1_0_weight"},
        {FX_CALL_METHOD, "relu_", "relu_", "%add"},
        {FX_CALL_MODULE, "layer1_conv_block", "layer1.convBlock", "%add"},
        {FX_CALL_FUNCTION, "sum_1", "torch.add", "%relu_, %layer1_conv_block, alpha=2.5"},
        {FX_OUTPUT, "output", "output", "(%relu_, %layer1_conv_block)"},
    };
    fx_node *nodes[] = {d, a, f, m, c, k, o};
    for (size_t i = 0; i < 7; i++) {
        ck_assert_ptr_nonnull(nodes[i]);
        ck_assert_int_eq(fx_node_opcode(nodes[i]), expected[i].opcode);
        ck_assert_str_eq(fx_node_name(nodes[i]), expected[i].name);
        ck_assert_str_eq(fx_node_target(nodes[i]), expected[i].target);
        ck_assert_str_eq(args_of(nodes[i]), expected[i].args);
        ck_assert_ptr_eq(fx_node_graph(nodes[i]), g);
        ck_assert_ptr_eq(fx_graph_find_node(g, expected[i].name), nodes[i]);
    }
    ck_assert_ptr_eq(fx_graph_output_node(g), o);
    ck_assert_ptr_eq(fx_graph_last(g), o);
    ck_assert_uint_eq(fx_graph_node_count(g), 9);
    ck_assert_str_eq(users_of(f), "relu_ layer1_conv_block");
    ck_assert_uint_eq(fx_diag_count(ctx), 0);
}
END_TEST

/* Everything an argument can be goes in, reads back, prints, and goes into another node as it was read. */
START_TEST(values_go_in_and_out)
{
    fx_graph *sub = fx_graph_create(ctx, "branch");
    fx_value inner[] = {fx_v_int(-7), fx_v_node(x)};
    fx_value slice[] = {fx_v_int(1), fx_v_none(), fx_v_int(2)};
    const char *keys[] = {"a", "b c"};
    fx_value dict[] = {fx_v_list(2, inner), fx_v_bool(false)};
    fx_value all[] = {fx_v_none(), fx_v_node(x), fx_v_bool(true), fx_v_int(INT64_MIN), fx_v_float(0.1), fx_v_float(1.0 / 0.0),
                      fx_v_complex(1, -2), fx_v_str("say \"hi\"\n"), fx_v_dtype(FX_BF16), fx_v_text(FX_ARG_DEVICE, "cuda:1"),
                      fx_v_text(FX_ARG_LAYOUT, "torch.strided"), fx_v_text(FX_ARG_MEMORY_FORMAT, "torch.channels_last"),
                      fx_v_list(0, NULL), fx_v_tuple(1, inner), fx_v_dict(2, keys, dict), fx_v_seq(FX_ARG_SLICE, 3, slice),
                      fx_v_ellipsis(), fx_v_text(FX_ARG_SYM, "s0"), fx_v_graph(sub)};
    enum { N = sizeof all / sizeof *all };
    static const char *const expected =
        "None, %x, True, -9223372036854775808, 0.1, inf, complex(1.0, -2.0), \"say \\\"hi\\\"\\012\", torch.bfloat16, device(\"cuda:1\"), "
        "torch.strided, torch.channels_last, [], (-7,), {\"a\": [-7, %x], \"b c\": False}, slice(1, None, 2), ..., s0, graph branch";
    fx_node *n = fx_graph_call_function(g, "their.function", N, all);
    ck_assert_str_eq(args_of(n), expected);
    ck_assert_uint_eq(fx_node_use_count(x), 2);
    fx_value again[N];
    for (int i = 0; i < N; i++) {
        again[i] = fx_node_arg_at(n, i);
        ck_assert_int_eq(again[i].kind, all[i].kind);
    }
    ck_assert_int_eq(again[3].as.i, INT64_MIN);
    ck_assert_ptr_eq(again[1].as.node, x);
    ck_assert_ptr_eq(again[18].as.graph, sub);
    fx_value list = fx_value_item(&again[14], 0), leaf = fx_value_item(&list, 1), none = fx_value_item(&list, 2);
    ck_assert_str_eq(fx_value_key(&again[14], 1), "b c");
    ck_assert_ptr_null(fx_value_key(&again[14], 2));
    ck_assert_ptr_eq(leaf.as.node, x);
    ck_assert_int_eq(none.kind, FX_ARG_NONE);
    fx_node *m = fx_graph_call_function(g, "their.function", N, again);
    ck_assert_str_eq(args_of(m), expected);
    ck_assert_ptr_eq(m->args, n->args); /* one template */
    char small[8];
    ck_assert_uint_eq(fx_value_format(&again[14], small, sizeof small), strlen("{\"a\": [-7, %x], \"b c\": False}"));
    ck_assert_str_eq(small, "{\"a\": [");
    ck_assert_uint_eq(fx_value_format(&again[0], NULL, 0), 4);
    sound();
}
END_TEST

static fx_value nested(int depth, fx_value *room)
{
    room[0] = fx_v_int(1);
    for (int i = 1; i <= depth; i++)
        room[i] = fx_v_list(1, &room[i - 1]);
    return room[depth];
}

/* A bad value is refused with a message that says what it is, by creation and by each edit, and nothing changes. */
START_TEST(bad_values_are_refused)
{
    fx_context *other_ctx = fx_context_create();
    fx_graph *other = fx_graph_create(ctx, "other"), *far = fx_graph_create(other_ctx, "far");
    fx_node *foreign = fx_graph_placeholder(other, "stranger", NULL), *gone = call1("torch.relu", x), *n = call2("torch.add", x, w);
    ck_assert_int_eq(fx_graph_erase_node(g, gone), FX_OK);
    fx_value room[103], bad_dtype = fx_v_dtype((fx_dtype)99), bad_kind = fx_v_none(), short_slice = fx_v_seq(FX_ARG_SLICE, 2, room);
    const char *twice[] = {"k", "k"}, *null_key[] = {NULL};
    bad_kind.kind = (fx_arg_kind)55;
    nested(102, room);
    const struct {
        fx_value v;
        const char *message;
    } cases[] = {
        {fx_v_node(NULL), "NULL"},
        {fx_v_node(foreign), "'stranger', is a node of another graph, 'other'"},
        {fx_v_node(gone), "'relu', is erased"},
        {bad_kind, "kind"},
        {bad_dtype, "dtype must be below 12, got 99"},
        {fx_v_str(NULL), "a str has no text"},
        {fx_v_list(3, NULL), "a list says that it has 3 items"},
        {fx_v_list(-1, room), "-1 items"},
        {fx_v_dict(2, twice, room), "the key 'k' is given twice"},
        {fx_v_dict(1, null_key, room), "key 0 of 1 is NULL"},
        {fx_v_dict(1, NULL, room), "no keys"},
        {short_slice, "a slice has 3 items, got 2"},
        {room[102], "nested more than 100 deep"},
        {fx_v_graph(NULL), "NULL"},
        {fx_v_graph(g), "its own nodes"},
        {fx_v_graph(far), "another context"},
        {fx_v_text(FX_ARG_SYM, ""), "symbol"},
    };
    const char *key = "k";
    char *before = unit_text(g);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_value deep = fx_v_list(1, &cases[i].v), v = cases[i].v;
        fx_value *forms[] = {&v, &deep};
        for (int f = 0; f < 2; f++) {
            fx_diag_clear(ctx);
            ck_assert_ptr_null(fx_graph_call_function(g, "torch.relu", 1, forms[f]));
            ck_assert_int_eq(fx_graph_status(g), FX_ERR_ARGUMENT);
            ck_assert_msg(strstr(unit_message(ctx), cases[i].message) != NULL, "expected '%s', got '%s'", cases[i].message, unit_message(ctx));
            ck_assert_uint_eq(fx_diag_count(ctx), 1);
            ck_assert_int_eq(fx_node_set_args(n, 1, forms[f]), FX_ERR_ARGUMENT);
            ck_assert_str_eq(fx_diag_get(ctx, 1)->node, "add");
            ck_assert_int_eq(fx_node_set_kwargs(n, 1, &key, forms[f]), FX_ERR_ARGUMENT);
            ck_assert_int_eq(fx_node_update_arg(n, 0, *forms[f]), FX_ERR_ARGUMENT);
            ck_assert_int_eq(fx_node_insert_arg(n, 0, *forms[f]), FX_ERR_ARGUMENT);
            ck_assert_int_eq(fx_node_update_kwarg(n, "k", *forms[f]), FX_ERR_ARGUMENT);
            ck_assert_ptr_null(fx_graph_output(g, *forms[f]));
        }
    }
    ck_assert_ptr_null(fx_graph_create_node(g, (fx_opcode)9, "x", 0, NULL, 0, NULL, NULL, NULL));
    ck_assert_ptr_null(fx_graph_call_function(g, NULL, 0, NULL));
    ck_assert_ptr_null(fx_graph_call_function(g, "", 0, NULL));
    ck_assert_ptr_null(fx_graph_create(ctx, NULL));
    ck_assert_ptr_null(fx_graph_create(ctx, ""));
    char *after = unit_text(g);
    ck_assert_str_eq(before, after);
    sound();
    free(before);
    free(after);
    fx_context_free(other_ctx);
}
END_TEST

START_TEST(graphs_hold_no_circles)
{
    fx_graph *b = fx_graph_create(ctx, "b"), *c = fx_graph_create(ctx, "c");
    fx_value vb = fx_v_graph(b), vc = fx_v_graph(c), vg = fx_v_graph(g), deep = fx_v_tuple(1, &vg);
    ck_assert_ptr_nonnull(fx_graph_call_function(g, "their.cond", 1, &vb));
    ck_assert_ptr_nonnull(fx_graph_call_function(b, "their.cond", 1, &vc));
    ck_assert_ptr_nonnull(fx_graph_call_function(g, "their.cond", 1, &vc)); /* twice, but no circle */
    ck_assert_ptr_null(fx_graph_call_function(c, "their.cond", 1, &deep));
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "a graph it holds"));
    ck_assert_ptr_null(fx_graph_call_function(c, "their.cond", 1, &vb));
    ck_assert_int_eq(fx_node_set_meta(x, "g", vb), FX_ERR_ARGUMENT);
    fx_graph *copy = fx_graph_deepcopy(g);
    fx_value held = fx_node_arg_at(fx_graph_last(copy), 0);
    ck_assert(held.kind == FX_ARG_GRAPH && held.as.graph != c);
}
END_TEST

/* Built from the inside or from the outside: deeper than 50 is refused. What is held twice is copied and checked once: a ladder of 40
 * graphs, each holding the next one twice, has a million million ways down. */
START_TEST(graphs_nest_so_deep_and_no_deeper)
{
    int inside = 0, outside = 0;
    for (fx_graph *at = fx_graph_create(ctx, "inner"); inside < 100; inside++) {
        fx_graph *outer = fx_graph_create(ctx, "outer");
        fx_value v = fx_v_graph(at);
        if (!fx_graph_call_function(outer, "their.cond", 1, &v))
            break;
        at = outer;
    }
    ck_assert_int_eq(inside, 50);
    for (fx_graph *at = g; outside < 100; outside++) {
        fx_graph *next = fx_graph_create(ctx, "next");
        fx_value v = fx_v_graph(next);
        if (!fx_graph_call_function(at, "their.cond", 1, &v))
            break;
        at = next;
    }
    ck_assert_int_eq(outside, 50);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "50 deep"));

    fx_graph *step = fx_graph_create(ctx, "bottom");
    fx_graph_output(step, fx_v_none());
    for (int i = 0; i < 40; i++) {
        fx_graph *above = fx_graph_create(ctx, "step");
        fx_value both[] = {fx_v_graph(step), fx_v_graph(step)};
        ck_assert_ptr_nonnull(fx_graph_call_function(above, "their.cond", 2, both));
        fx_graph_output(above, fx_v_none());
        step = above;
    }
    ck_assert_int_eq(fx_graph_lint(step, FX_LINT_ALL), FX_OK);
    fx_graph *copy = fx_graph_deepcopy(step);
    fx_value one = fx_node_arg_at(fx_graph_first(copy), 0), two = fx_node_arg_at(fx_graph_first(copy), 1);
    ck_assert(one.as.graph == two.as.graph && one.as.graph != step);
    ck_assert_int_eq(fx_graph_lint(copy, FX_LINT_ALL), FX_OK);
}
END_TEST

/* No call crashes on NULL, a node of another graph or an erased node; all say so by status. */
START_TEST(null_foreign_and_erased_nodes_are_refused)
{
    fx_graph *other = fx_graph_create(ctx, "other");
    fx_node *foreign = fx_graph_placeholder(other, "stranger", NULL), *gone = call1("torch.relu", x), *n = call1("torch.neg", x);
    ck_assert_int_eq(fx_graph_erase_node(g, gone), FX_OK);
    ck_assert(fx_node_is_erased(gone) && !fx_node_is_erased(n));
    fx_node *bad[] = {NULL, foreign, gone};
    char *before = unit_text(g);
    for (int i = 0; i < 3; i++) {
        fx_insert_point at = fx_graph_inserting_before(g, bad[i]);
        if (bad[i])
            ck_assert_ptr_null(g->insert_before);
        fx_graph_restore_insert_point(at);
        ck_assert_int_eq(fx_node_replace_all_uses_with(n, bad[i], NULL, NULL, false, NULL), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_replace_input_with(n, x, bad[i]), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_replace_input_with(n, bad[i], x), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_graph_erase_node(g, bad[i]), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_prepend(n, bad[i]), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_append(n, bad[i]), FX_ERR_ARGUMENT);
    }
    fx_node *unusable[] = {NULL, gone};
    for (int i = 0; i < 2; i++) {
        fx_node *b = unusable[i];
        ck_assert_int_eq(fx_node_set_args(b, 0, NULL), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_set_kwargs(b, 0, NULL, NULL), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_update_arg(b, 0, fx_v_int(1)), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_update_kwarg(b, "k", fx_v_int(1)), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_remove_kwarg(b, "k"), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_set_target(b, "torch.neg"), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_set_name(b, "new"), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_set_location(b, "m", "f"), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_set_meta(b, "k", fx_v_int(1)), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_replace_all_uses_with(b, n, NULL, NULL, false, NULL), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_prepend(b, n), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_node_normalized_arguments(b, NULL, NULL, NULL, 0), FX_ERR_ARGUMENT);
        ck_assert_ptr_null(fx_graph_node_copy(g, b, NULL, NULL));
        ck_assert_int_eq(fx_node_arg_at(b, 0).kind, FX_ARG_NONE);
        ck_assert_uint_eq(fx_node_all_input_nodes(b, NULL, 0), 0);
        ck_assert_uint_eq(fx_node_users(b, NULL, 0), 0);
    }
    ck_assert_int_eq(fx_graph_graph_copy(g, NULL, 0, NULL, NULL, NULL, 0), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_lint(NULL, 0), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_topological_sort(NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_eliminate_dead_code(NULL, NULL, NULL, NULL), FX_ERR_ARGUMENT);
    ck_assert_ptr_null(fx_graph_deepcopy(NULL));
    ck_assert_ptr_null(fx_graph_call_function(NULL, "torch.relu", 0, NULL));
    ck_assert_ptr_null(fx_graph_first(NULL));
    ck_assert_ptr_null(fx_node_next(NULL));
    ck_assert_ptr_null(fx_node_name(NULL));
    ck_assert_ptr_null(fx_graph_find_node(g, NULL));
    char *after = unit_text(g);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
}
END_TEST

/* ---- where ------------------------------------------------------------------------------------------------------------ */

START_TEST(insertion_points_nest)
{
    fx_node *a = call1("torch.relu", x), *o = fx_graph_output(g, fx_v_node(a));
    fx_insert_point one = fx_graph_inserting_after(g, x);
    call1("torch.neg", x);
    fx_insert_point two = fx_graph_inserting_before(g, o);
    call1("torch.exp", x);
    fx_insert_point three = fx_graph_inserting_before(g, NULL);
    fx_node *end = call1("torch.sin", x);
    fx_graph_restore_insert_point(three);
    call1("torch.exp", x);
    fx_graph_restore_insert_point(two);
    call1("torch.neg", x);
    fx_insert_point first = fx_graph_inserting_after(g, NULL);
    fx_graph_placeholder(g, "first", NULL);
    fx_graph_placeholder(g, "second", NULL);
    fx_graph_restore_insert_point(first);
    fx_graph_restore_insert_point(one);
    ck_assert_str_eq(order(), "first second x neg neg_1 w relu exp exp_1 output sin");
    /* The remembered node is erased: the point moves to the one behind. */
    fx_insert_point at = fx_graph_inserting_before(g, fx_graph_find_node(g, "exp"));
    fx_insert_point inner = fx_graph_inserting_before(g, end);
    ck_assert_int_eq(fx_graph_erase_node(g, fx_graph_find_node(g, "exp")), FX_OK);
    ck_assert_int_eq(fx_graph_erase_node(g, end), FX_OK);
    fx_graph_restore_insert_point(inner);
    call1("torch.cos", x);
    fx_graph_restore_insert_point(at);
    ck_assert_str_eq(order(), "first second x neg neg_1 w relu cos exp_1 output");
    ck_assert_ptr_null(g->insert_before);
}
END_TEST

START_TEST(nodes_are_moved)
{
    fx_node *a = call1("torch.relu", x), *b = call1("torch.neg", x), *c = call1("torch.exp", x);
    ck_assert_int_eq(fx_node_prepend(a, c), FX_OK);
    ck_assert_str_eq(order(), "x w exp relu neg");
    ck_assert_int_eq(fx_node_append(b, a), FX_OK);
    ck_assert_str_eq(order(), "x w exp neg relu");
    ck_assert_int_eq(fx_node_append(a, a), FX_OK);
    ck_assert_int_eq(fx_node_prepend(x, w), FX_OK);
    ck_assert_str_eq(order(), "w x exp neg relu");
    ck_assert_int_eq(fx_node_append(c, c), FX_OK);
    ck_assert_int_eq(fx_node_append(w, c), FX_OK); /* before what it uses: lint's to find */
    ck_assert_int_eq(fx_graph_lint(g, 0), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 0)->message, "comes only later"));
    ck_assert_int_eq(fx_graph_topological_sort(g), FX_OK);
    ck_assert_str_eq(order(), "w x exp neg relu");
}
END_TEST

START_TEST(walking_while_editing)
{
    fx_node *nodes[10];
    for (int i = 0; i < 10; i++)
        nodes[i] = call1("torch.relu", x);
    int met = 0;
    for (fx_node *n = fx_graph_first(g); n; n = fx_node_next(n)) {
        met++;
        if (n == nodes[3]) { /* itself, its neighbours, and one inserted behind */
            fx_insert_point at = fx_graph_inserting_after(g, nodes[5]);
            call1("torch.neg", x);
            fx_graph_restore_insert_point(at);
            for (int i = 2; i <= 5; i++)
                ck_assert_int_eq(fx_graph_erase_node(g, nodes[i]), FX_OK);
        }
    }
    ck_assert_int_eq(met, 2 + 4 + 1 + 4);
    ck_assert_ptr_eq(fx_node_prev(nodes[3]), nodes[1]);
    ck_assert_str_eq(order(), "x w relu relu_1 neg relu_6 relu_7 relu_8 relu_9");
    sound();
}
END_TEST

START_TEST(types_and_symbols_are_set)
{
    fx_node *n = call2("torch.add", x, w);
    int64_t min, max;
    ck_assert_int_eq(fx_node_set_type(n, " f32[2, 3*s0 + 1]{s0, 1} "), FX_OK);
    ck_assert_str_eq(fx_node_type_text(n), "f32[2, 3*s0 + 1]");
    ck_assert_int_eq(fx_node_set_type(n, "(i64[], ?, f32[0])"), FX_OK);
    ck_assert_str_eq(fx_node_type_text(n), "(i64[], ?, f32[0])");
    static const char *const bad[] = {"", "f32", "f33[1]", "f32[1", "f32[1] f32[2]", "f32[-1]", "f32[1,1,1,1,1,1,1,1,1]", "((((((("};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t before = fx_diag_count(ctx);
        ck_assert_int_eq(fx_node_set_type(n, bad[i]), FX_ERR_ARGUMENT);
        ck_assert_uint_eq(fx_diag_count(ctx), before + 1);
        ck_assert_ptr_nonnull(strstr(unit_message(ctx), "expected a type such as"));
        ck_assert_str_eq(fx_node_type_text(n), "(i64[], ?, f32[0])");
    }
    ck_assert_int_eq(fx_node_set_type(n, NULL), FX_OK);
    ck_assert_ptr_null(fx_node_type_text(n));
    ck_assert_int_eq(fx_node_set_type(NULL, "f32[]"), FX_ERR_ARGUMENT);

    ck_assert_ptr_null(fx_graph_symbol(g, 0, &min, &max));
    ck_assert_int_eq(fx_graph_set_symbol(g, "s0", 2, INT64_MAX), FX_OK);
    ck_assert_int_eq(fx_graph_set_symbol(g, "batch", 1, 8), FX_OK);
    ck_assert_int_eq(fx_graph_set_symbol(g, "s0", 3, 9), FX_OK);
    ck_assert_str_eq(fx_graph_symbol(g, 0, &min, &max), "s0");
    ck_assert(min == 3 && max == 9);
    ck_assert_str_eq(fx_graph_symbol(g, 1, &min, &max), "batch");
    ck_assert_ptr_null(fx_graph_symbol(g, 2, &min, &max));
    ck_assert_int_eq(fx_graph_set_symbol(g, "s0", 4, 3), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_set_symbol(g, "2 s", 0, 1), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_set_symbol(g, NULL, 0, 1), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_set_symbol(NULL, "s0", 0, 1), FX_ERR_ARGUMENT);

    /* sizes as arguments: expressions are read; what reads as none is kept as text, without a word */
    size_t before = fx_diag_count(ctx);
    ck_assert_int_eq(fx_node_update_arg(n, 1, fx_v_text(FX_ARG_SYM, "(s0*2 + 1 + s0)//batch")), FX_OK);
    ck_assert_str_eq(args_of(n), "%x, (3*s0 + 1)//batch");
    ck_assert_int_eq(fx_node_update_arg(n, 1, fx_v_text(FX_ARG_SYM, "s0 +")), FX_OK);
    ck_assert_str_eq(args_of(n), "%x, s0 +");
    ck_assert_uint_eq(fx_diag_count(ctx), before);
}
END_TEST

/* ---- arguments ---------------------------------------------------------------------------------------------------------- */

START_TEST(arguments_are_edited)
{
    fx_node *n = call2("torch.add", x, w);
    n->type = fx_type_scalar(ctx, FX_TYPE_OTHER);
    ck_assert_int_eq(fx_node_insert_arg(n, 1, fx_v_int(7)), FX_OK);
    ck_assert_ptr_null(n->type);
    ck_assert_str_eq(args_of(n), "%x, 7, %w");
    ck_assert_int_eq(fx_node_insert_arg(n, 99, fx_v_node(x)), FX_OK);
    ck_assert_str_eq(args_of(n), "%x, 7, %w, %x");
    ck_assert_int_eq(fx_node_update_arg(n, 0, fx_v_none()), FX_OK);
    ck_assert_int_eq(fx_node_update_kwarg(n, "alpha", fx_v_node(w)), FX_OK);
    ck_assert_int_eq(fx_node_update_kwarg(n, "out", fx_v_int(1)), FX_OK);
    ck_assert_int_eq(fx_node_update_kwarg(n, "alpha", fx_v_node(x)), FX_OK);
    ck_assert_str_eq(args_of(n), "None, 7, %w, %x, alpha=%x, out=1");
    ck_assert_uint_eq(fx_node_use_count(x), 2);
    ck_assert_uint_eq(fx_node_use_count(w), 1);
    fx_value swapped[] = {fx_node_arg_at(n, 3), fx_node_arg_at(n, 2)};
    ck_assert_int_eq(fx_node_set_args(n, 2, swapped), FX_OK);
    ck_assert_int_eq(fx_node_remove_kwarg(n, "alpha"), FX_OK);
    ck_assert_str_eq(args_of(n), "%x, %w, out=1");
    ck_assert_int_eq(fx_node_remove_kwarg(n, "alpha"), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "'alpha'"));
    ck_assert_int_eq(fx_node_update_arg(n, 2, fx_v_none()), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_node_update_arg(n, -1, fx_v_none()), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_node_insert_arg(n, -1, fx_v_none()), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_node_set_args(n, -2, NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_node_set_kwargs(n, 0, NULL, NULL), FX_OK);
    fx_value out;
    ck_assert(!fx_node_kwarg(n, "out", &out));
    ck_assert_int_eq(fx_node_update_kwarg(n, "out", fx_v_str("here")), FX_OK);
    ck_assert(fx_node_kwarg(n, "out", &out));
    ck_assert_str_eq(out.as.s, "here");
    ck_assert_int_eq(fx_node_set_target(n, "torch.sub"), FX_OK);
    ck_assert_str_eq(fx_node_operator(n), "aten.sub.Tensor");
    ck_assert_int_eq(fx_node_set_target(n, ""), FX_ERR_ARGUMENT);
    sound();
}
END_TEST

START_TEST(names_are_changed)
{
    fx_node *a = call1("torch.relu", x), *b = call1("torch.neg", x);
    ck_assert_int_eq(fx_node_set_name(b, "relu"), FX_OK);
    ck_assert_str_eq(fx_node_name(b), "relu_1");
    ck_assert_ptr_null(fx_graph_find_node(g, "neg"));
    ck_assert_ptr_eq(fx_graph_find_node(g, "relu_1"), b);
    ck_assert_int_eq(fx_node_set_name(a, "a b"), FX_OK);
    ck_assert_str_eq(fx_node_name(a), "a_b");
    ck_assert_int_eq(fx_node_set_name(b, "relu"), FX_OK); /* free by now */
    ck_assert_str_eq(fx_node_name(b), "relu");
    ck_assert_int_eq(fx_node_set_name(b, "relu"), FX_OK);
    ck_assert_str_eq(fx_node_name(b), "relu");
    ck_assert_int_eq(fx_node_set_name(b, "lambda"), FX_OK);
    ck_assert_str_eq(fx_node_name(b), "lambda_1");
    ck_assert_int_eq(fx_node_set_name(b, NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_node_set_location(a, "layer1.0", "net.py:12"), FX_OK);
    ck_assert_str_eq(fx_node_module(a), "layer1.0");
    ck_assert_str_eq(fx_node_frame(a), "net.py:12");
    size_t interned = fx_arena_bytes(fx_context_arena(ctx));
    for (int i = 0; i < 10000; i++) {
        char name[20];
        snprintf(name, sizeof name, "nobody_%d", i);
        ck_assert_ptr_null(fx_graph_find_node(g, name));
    }
    ck_assert_uint_eq(fx_arena_bytes(fx_context_arena(ctx)), interned);
    sound();
}
END_TEST

/* What torch.fx itself names nodes made of these candidates, in this order; tests/unit/make_names.py wrote the table with torch 2.13. */
START_TEST(names_are_those_of_fx)
{
    static const struct {
        fx_opcode opcode;
        const char *target, *given, *expected;
    } cases[] = {
#define NAME(opcode, target, given, expected) {opcode, target, given, expected},
#include "tests/unit/names_fx.def"
#undef NAME
    };
    fx_graph *h = fx_graph_create(ctx, "names");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_node *n = fx_graph_create_node(h, cases[i].opcode, cases[i].target, 0, NULL, 0, NULL, NULL, cases[i].given);
        ck_assert_ptr_nonnull(n);
        ck_assert_msg(strcmp(fx_node_name(n), cases[i].expected) == 0, "case %zu, target '%s', name '%s': expected '%s', got '%s'", i,
                      cases[i].target, cases[i].given ? cases[i].given : "", cases[i].expected, fx_node_name(n));
    }
    ck_assert_uint_ge(sizeof cases / sizeof *cases, 400);
}
END_TEST

/* ---- uses --------------------------------------------------------------------------------------------------------------- */

static bool not_b(void *user, fx_node *n)
{
    ck_assert_str_eq(user, "user");
    return strcmp(fx_node_name(n), "mul") != 0;
}

START_TEST(uses_are_replaced)
{
    fx_node *a = call2("torch.add", x, x), *b = call2("torch.mul", x, w), *c = call1("torch.relu", x);
    fx_node *inputs[4];
    ck_assert_str_eq(users_of(x), "add mul relu");
    ck_assert_uint_eq(fx_node_use_count(x), 4);
    ck_assert_uint_eq(fx_node_all_input_nodes(b, inputs, 4), 2);
    ck_assert(inputs[0] == x && inputs[1] == w);
    ck_assert_uint_eq(fx_node_all_input_nodes(a, inputs, 0), 1);
    size_t changed = 99;
    ck_assert_int_eq(fx_node_set_meta(x, "tag", fx_v_int(4)), FX_OK);
    ck_assert_int_eq(fx_node_replace_all_uses_with(x, w, not_b, "user", true, &changed), FX_OK);
    ck_assert_uint_eq(changed, 2);
    fx_value tag;
    ck_assert(fx_node_meta(w, "tag", &tag) && tag.as.i == 4);
    ck_assert_str_eq(args_of(a), "%w, %w");
    ck_assert_str_eq(args_of(b), "%x, %w");
    ck_assert_str_eq(users_of(w), "mul add relu");
    ck_assert_int_eq(fx_node_replace_all_uses_with(x, w, NULL, NULL, true, NULL), FX_ERR_ARGUMENT); /* w has notes by now */
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "notes of 'x'"));
    /* by uses the node itself: it goes on doing so. */
    fx_node *d = call1("torch.neg", w);
    ck_assert_int_eq(fx_node_replace_all_uses_with(w, d, NULL, NULL, false, &changed), FX_OK);
    ck_assert_uint_eq(changed, 3);
    ck_assert_str_eq(users_of(w), "neg");
    ck_assert_str_eq(users_of(d), "mul add relu");
    ck_assert_int_eq(fx_node_append(w, d), FX_OK);
    ck_assert_int_eq(fx_node_replace_all_uses_with(w, w, NULL, NULL, false, &changed), FX_OK);
    ck_assert_uint_eq(changed, 0);
    ck_assert_int_eq(fx_node_replace_input_with(a, d, x), FX_OK);
    ck_assert_str_eq(args_of(a), "%x, %x");
    ck_assert_int_eq(fx_node_replace_input_with(a, c, w), FX_OK); /* c is no input of it */
    ck_assert_str_eq(args_of(a), "%x, %x");
    sound();
}
END_TEST

START_TEST(used_nodes_are_not_erased)
{
    fx_node *a = call1("torch.relu", x);
    for (int i = 0; i < 7; i++)
        call1("torch.neg", a);
    ck_assert_int_eq(fx_graph_erase_node(g, a), FX_ERR_ARGUMENT);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->node, "relu");
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "got 7, by 'neg', 'neg_1', 'neg_2', 'neg_3', 'neg_4', ..."));
    sound();
    while (fx_node_use_count(a))
        ck_assert_int_eq(fx_graph_erase_node(g, fx_graph_last(g)), FX_OK);
    ck_assert_int_eq(fx_graph_erase_node(g, a), FX_OK);
    ck_assert_int_eq(fx_graph_erase_node(g, a), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "erased"));
    ck_assert_str_eq(fx_node_name(a), "relu"); /* stays readable */
    ck_assert_str_eq(args_of(a), "None");
    ck_assert_str_eq(order(), "x w");
    sound();
}
END_TEST

/* ---- copies --------------------------------------------------------------------------------------------------------------- */

static fx_node *to_pair(void *user, fx_node *n)
{
    fx_node **pair = user;
    return n == x ? pair[0] : n == w ? pair[1] : NULL;
}

START_TEST(nodes_are_copied)
{
    fx_graph *to = fx_graph_create(ctx, "to");
    fx_node *pair[2] = {fx_graph_placeholder(to, "a", NULL), fx_graph_placeholder(to, "add", NULL)};
    fx_node *n = call2("torch.add", w, x), *deep = call1("torch.relu", n);
    n->type = fx_type_scalar(ctx, FX_TYPE_FLOAT);
    fx_node_set_meta(n, "tag", fx_v_str("t"));
    fx_node_set_location(n, "mod", "f.py:3");
    fx_node *c = fx_graph_node_copy(to, n, to_pair, pair);
    ck_assert_str_eq(fx_node_name(c), "add_1");
    ck_assert_str_eq(args_of(c), "%add, %a");
    ck_assert_str_eq(fx_node_type_text(c), "float");
    ck_assert_str_eq(fx_node_frame(c), "f.py:3");
    fx_value tag;
    ck_assert(fx_node_meta(c, "tag", &tag));
    ck_assert_ptr_null(fx_graph_node_copy(to, deep, to_pair, pair)); /* its argument is mapped to NULL */
    ck_assert_ptr_null(fx_graph_node_copy(to, deep, NULL, NULL));
    ck_assert_ptr_nonnull(fx_graph_node_copy(g, deep, NULL, NULL));
    ck_assert_uint_eq(fx_graph_node_count(to), 3);
}
END_TEST

START_TEST(graphs_are_copied_into_graphs)
{
    fx_node *a = call2("torch.add", x, w), *b = call1("torch.relu", a);
    fx_value list[] = {fx_v_node(b), fx_v_node(x)}, both[] = {fx_v_node(a), fx_v_list(2, list)};
    fx_graph_output(g, fx_v_tuple(2, both));
    fx_graph *to = fx_graph_create(ctx, "to");
    fx_node *in[2] = {fx_graph_placeholder(to, "p", NULL), fx_graph_placeholder(to, "add", NULL)}, *out[2];
    size_t n = 0;
    ck_assert_int_eq(fx_graph_graph_copy(to, g, 2, in, &n, out, 2), FX_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(fx_node_name(out[0]), "add_1");
    ck_assert_str_eq(fx_node_name(out[1]), "relu");
    ck_assert_uint_eq(fx_graph_node_count(to), 4);
    ck_assert_int_eq(fx_graph_graph_copy(to, g, 1, in, &n, out, 2), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "expected 2 inputs for the placeholders of 'm', got 1"));
    ck_assert_int_eq(fx_graph_graph_copy(to, g, 0, NULL, &n, NULL, 0), FX_OK); /* placeholders come along */
    ck_assert_uint_eq(n, 3);
    ck_assert_uint_eq(fx_graph_node_count(to), 8);
    /* Into itself. */
    fx_node *self[2] = {x, b};
    fx_insert_point at = fx_graph_inserting_before(g, fx_graph_output_node(g));
    ck_assert_int_eq(fx_graph_graph_copy(g, g, 2, self, &n, out, 2), FX_OK);
    fx_graph_restore_insert_point(at);
    ck_assert_str_eq(order(), "x w add relu add_1 relu_1 output");
    ck_assert_str_eq(args_of(out[0]), "%x, %relu");
    sound();
    /* Of a graph whose order is broken: refused, nothing left behind. */
    ck_assert_int_eq(fx_node_append(b, a), FX_OK);
    uint32_t count = (uint32_t)fx_graph_node_count(to);
    ck_assert_int_eq(fx_graph_graph_copy(to, g, 2, in, NULL, NULL, 0), FX_ERR_ARGUMENT);
    ck_assert_uint_eq(fx_graph_node_count(to), count);
    ck_assert_int_eq(fx_graph_lint(to, 0), FX_ERR_ARGUMENT); /* it has no output */
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "0 output nodes"));
}
END_TEST

START_TEST(deep_copies_are_equal_and_apart)
{
    int64_t sizes[] = {2, 3};
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, sizes, &t), FX_OK);
    fx_value two = fx_v_int(2);
    const char *key = "stride";
    fx_graph_add_submodule(g, "conv", "torch.nn.Conv2d", 1, &key, &two);
    fx_module_set_meta(fx_graph_get_submodule(g, "conv"), "mine", fx_v_str("kept"));
    ck_assert_int_eq(fx_graph_set_parameter(g, "conv.weight", &t), FX_OK);
    ck_assert_int_eq(fx_graph_tie_parameter(g, "head.weight", "conv.weight"), FX_OK);
    fx_node *a = call2("torch.add", x, fx_graph_get_attr(g, "head.weight"));
    fx_node_set_meta(a, "tag", fx_v_list(1, &two));
    fx_value v = fx_v_node(a);
    fx_node *m = fx_graph_call_module(g, "conv", 1, &v);
    fx_graph_output(g, fx_v_node(m));
    fx_graph *copy = fx_graph_deepcopy(g);
    ck_assert_ptr_nonnull(copy);
    char *one = unit_text(g), *other = unit_text(copy);
    ck_assert_str_eq(one, other);
    free(one);
    free(other);
    ck_assert_int_eq(fx_graph_lint(copy, FX_LINT_ALL), FX_OK);
    fx_value mine;
    ck_assert(fx_module_meta(fx_graph_get_submodule(copy, "conv"), "mine", &mine));
    ck_assert_str_eq(mine.as.s, "kept");
    fx_node *b = fx_graph_find_node(copy, "add");
    ck_assert(b && b != a && fx_node_graph(b) == copy);
    ck_assert_int_eq(fx_node_set_args(b, 0, NULL), FX_OK);
    ck_assert_int_eq(fx_node_arg_count(a), 2);
    fx_node *again = fx_graph_create_node(copy, FX_CALL_FUNCTION, "torch.add", 0, NULL, 0, NULL, NULL, NULL);
    ck_assert_str_eq(fx_node_name(again), "add_1");
    fx_attr_info info;
    ck_assert(fx_graph_attr_info(copy, 1, &info));
    ck_assert_str_eq(info.tied_to, "conv.weight");
}
END_TEST

/* ---- dead code, sorting ------------------------------------------------------------------------------------------------------ */

static int keep_neg(void *user, const fx_node *n)
{
    ++*(int *)user;
    return strcmp(fx_node_target(n), "torch.neg") == 0 ? 1 : strcmp(fx_node_target(n), "torch.rand_like") == 0 ? 0 : -1;
}

START_TEST(dead_code_goes_and_effects_stay)
{
    fx_node *used = call1("torch.relu", x);
    call1("torch.neg", call1("torch.exp", w));                             /* dead, as is its input */
    fx_value a[3] = {fx_v_node(x), fx_v_node(w), fx_v_int(1)}, in = fx_v_bool(true);
    const char *inplace = "inplace", *out = "out";
    fx_graph_call_method(g, "mul_", 2, a);
    fx_graph_call_function(g, "_operator.setitem", 3, a);
    fx_graph_call_function(g, "operator.iadd", 2, a);
    fx_graph_call_function(g, "aten.copy_.default", 2, a);
    fx_graph_call_function(g, "torch.rand_like", 1, a);
    fx_graph_call_function(g, "torch._assert", 2, a);
    fx_graph_create_node(g, FX_CALL_FUNCTION, "torch.nn.functional.relu", 1, a, 1, &inplace, &in, NULL);
    fx_value target = fx_v_node(w);
    fx_graph_create_node(g, FX_CALL_FUNCTION, "torch.sin", 1, a, 1, &out, &target, NULL);
    fx_graph_call_function(g, "their.function", 1, a);                    /* FX's rule: pure unless said otherwise */
    fx_graph_get_attr(g, "nothing");
    fx_graph_output(g, fx_v_node(used));
    size_t removed = 0;
    ck_assert_int_eq(fx_graph_eliminate_dead_code(g, NULL, NULL, &removed), FX_OK);
    ck_assert_str_eq(order(), "x w relu mul_ setitem iadd copy_ rand_like _assert relu_1 sin output");
    ck_assert_uint_eq(removed, 4);
    int asked = 0;
    fx_insert_point at = fx_graph_inserting_before(g, fx_graph_output_node(g));
    call1("torch.neg", x);
    fx_graph_restore_insert_point(at);
    ck_assert_int_eq(fx_graph_eliminate_dead_code(g, keep_neg, &asked, &removed), FX_OK);
    ck_assert_uint_eq(removed, 1); /* rand_like, pure by the callback's word */
    ck_assert_ptr_null(fx_graph_find_node(g, "rand_like"));
    ck_assert_ptr_nonnull(fx_graph_find_node(g, "neg")); /* kept by it */
    ck_assert_int_gt(asked, 0);
    ck_assert_int_eq(fx_graph_eliminate_dead_code(g, NULL, NULL, &removed), FX_OK);
    ck_assert_uint_eq(removed, 1);
    sound();
}
END_TEST

START_TEST(sorting_is_stable)
{
    fx_node *a = call1("torch.relu", x), *b = call1("torch.neg", a), *c = call2("torch.add", a, b), *d = call1("torch.exp", x);
    fx_graph_output(g, fx_v_node(c));
    ck_assert_int_eq(fx_graph_topological_sort(g), FX_OK);
    ck_assert_str_eq(order(), "x w relu neg add exp output"); /* as it was */
    ck_assert_int_eq(fx_node_append(d, a), FX_OK);
    ck_assert_int_eq(fx_node_prepend(x, fx_graph_output_node(g)), FX_OK);
    ck_assert_int_eq(fx_node_append(b, w), FX_OK);
    ck_assert_str_eq(order(), "output x neg w add exp relu");
    ck_assert_int_eq(fx_graph_topological_sort(g), FX_OK);
    ck_assert_str_eq(order(), "x w exp relu neg add output"); /* waiting nodes follow what they waited for */
    sound();
    /* A cycle is named and leaves the order. */
    ck_assert_int_eq(fx_node_replace_input_with(a, x, c), FX_OK);
    ck_assert_int_eq(fx_graph_topological_sort(g), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "cycle"));
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "'relu' <- 'add'"));
    ck_assert_str_eq(order(), "x w exp relu neg add output");
}
END_TEST

/* Any order of a graph without cycles can be sorted; sorted, nothing moves any more. */
START_TEST(shuffled_graphs_are_sorted)
{
    fx_node *nodes[60] = {x, w};
    unsigned state = 12345 + (unsigned)_i;
    for (int i = 2; i < 60; i++) {
        state = state * 1103515245 + 12345;
        nodes[i] = call2("torch.add", nodes[(state >> 16) % (unsigned)i], nodes[(state >> 8) % (unsigned)i]);
    }
    fx_graph_output(g, fx_v_node(nodes[59]));
    for (int i = 0; i < 100; i++) {
        state = state * 1103515245 + 12345;
        fx_node_prepend(nodes[(state >> 16) % 60], nodes[(state >> 8) % 60]);
    }
    ck_assert_int_eq(fx_graph_topological_sort(g), FX_OK);
    sound();
    char *once = unit_text(g);
    ck_assert_int_eq(fx_graph_topological_sort(g), FX_OK);
    char *twice = unit_text(g);
    ck_assert_str_eq(once, twice);
    free(once);
    free(twice);
}
END_TEST

/* ---- looking ------------------------------------------------------------------------------------------------------------------- */

START_TEST(spellings_are_one_operator)
{
    fx_node *spelled[] = {call2("torch.add", x, w), call2("operator.add", x, w), call2("_operator.add", x, w), call2("aten.add.Tensor", x, w),
                          call2("torch.ops.aten.add.Tensor", x, w), NULL};
    fx_value v[2] = {fx_v_node(x), fx_v_node(w)};
    spelled[5] = fx_graph_call_method(g, "add", 2, v);
    for (int i = 0; i < 6; i++) {
        const char *const *names;
        fx_value args[5];
        int n;
        ck_assert_str_eq(fx_node_operator(spelled[i]), "aten.add.Tensor");
        ck_assert_int_eq(fx_node_normalized_arguments(spelled[i], &n, &names, args, 5), FX_OK);
        ck_assert_int_eq(n, 3);
        ck_assert_str_eq(names[2], "alpha");
        ck_assert(args[0].as.node == x && args[1].as.node == w && args[2].kind == FX_ARG_INT && args[2].as.i == 1);
    }
    ck_assert_uint_eq(fx_graph_find_nodes(g, FX_CALL_FUNCTION, "torch.add", NULL, 0), 5);
    fx_node *found[2] = {NULL};
    ck_assert_uint_eq(fx_graph_find_nodes(g, FX_CALL_FUNCTION, "aten.add.Tensor", found, 2), 5);
    ck_assert(found[0] == spelled[0] && found[1] == spelled[1]);
    ck_assert_uint_eq(fx_graph_find_nodes(g, FX_CALL_METHOD, "add", found, 2), 1);
    ck_assert_uint_eq(fx_graph_find_nodes(g, FX_CALL_METHOD, NULL, found, 2), 1);
    ck_assert_uint_eq(fx_graph_find_nodes(g, FX_PLACEHOLDER, NULL, found, 2), 2);
    ck_assert_uint_eq(fx_graph_find_nodes(g, FX_CALL_FUNCTION, "torch.sub", found, 2), 0);
    /* Overloads are told by what is given, keywords by name, varargs become lists. */
    fx_value dim = fx_v_int(1);
    const char *key = "dim";
    fx_node *mean = fx_graph_create_node(g, FX_CALL_METHOD, "mean", 1, v, 1, &key, &dim, NULL);
    ck_assert_str_eq(fx_node_operator(mean), "aten.mean.dim");
    fx_value sizes[3] = {fx_v_node(x), fx_v_int(2), fx_v_int(-1)}, got[4];
    fx_node *view = fx_graph_call_method(g, "view", 3, sizes);
    ck_assert_int_eq(fx_node_normalized_arguments(view, NULL, NULL, got, 4), FX_OK);
    char text[40];
    fx_value_format(&got[1], text, sizeof text);
    ck_assert_str_eq(text, "[2, -1]");
    fx_node *bad = fx_graph_call_method(g, "add", 1, v), *unknown = call1("their.op", x);
    ck_assert_int_eq(fx_node_normalized_arguments(bad, NULL, NULL, NULL, 0), FX_ERR_TYPE);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "'other'"));
    ck_assert_int_eq(fx_node_normalized_arguments(unknown, NULL, NULL, NULL, 0), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_null(fx_node_operator(unknown));
    ck_assert_int_eq(fx_node_arg_count(mean), 1); /* looking changes nothing */
}
END_TEST

START_TEST(notes_are_kept)
{
    fx_value v, two[] = {fx_v_int(1), fx_v_str("s")};
    ck_assert(!fx_node_meta(x, "a", &v));
    ck_assert_int_eq(fx_node_set_meta(x, "a", fx_v_int(1)), FX_OK);
    ck_assert_int_eq(fx_node_set_meta(x, "b", fx_v_tuple(2, two)), FX_OK);
    ck_assert_int_eq(fx_node_set_meta(x, "c", fx_v_bool(true)), FX_OK);
    ck_assert_int_eq(fx_node_set_meta(x, "a", fx_v_float(0.5)), FX_OK);
    ck_assert_str_eq(fx_node_meta_key(x, 0), "a");
    ck_assert_str_eq(fx_node_meta_key(x, 2), "c");
    ck_assert_ptr_null(fx_node_meta_key(x, 3));
    ck_assert_ptr_null(fx_node_meta_key(x, -1));
    ck_assert(fx_node_meta(x, "a", &v) && v.as.f[0] == 0.5);
    ck_assert(fx_node_meta(x, "b", &v));
    fx_value item = fx_value_item(&v, 1);
    ck_assert_str_eq(item.as.s, "s");
    ck_assert_int_eq(fx_node_set_meta(x, "b", fx_v_none()), FX_OK);
    ck_assert(!fx_node_meta(x, "b", NULL));
    ck_assert_str_eq(fx_node_meta_key(x, 1), "c");
    ck_assert_int_eq(fx_node_set_meta(x, "n", fx_v_node(w)), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "only constants"));
    ck_assert_int_eq(fx_node_set_meta(x, NULL, fx_v_int(1)), FX_ERR_ARGUMENT);
}
END_TEST

/* A long random walk through all edits: after each the graph is sound, and what is refused changes nothing. */
START_TEST(random_edits_leave_sound_graphs)
{
    unsigned state = 99 + (unsigned)_i;
#define ROLL(n) ((state = state * 1103515245 + 12345) >> 16) % (unsigned)(n)
    fx_node *pool[400] = {x, w};
    int n = 2;
    for (int step = 0; step < 1500; step++) {
        unsigned what = ROLL(11);
        fx_node *a = pool[ROLL(n)], *b = pool[ROLL(n)];
        fx_value v[3] = {fx_v_node(a), fx_v_node(b), fx_v_int(ROLL(5))}, list = fx_v_list(2, v);
        const char *key = ROLL(2) ? "alpha" : "k";
        switch (what) {
        case 0:
        case 1:
        case 2:
            if (n < 400 && (pool[n] = fx_graph_create_node(g, FX_CALL_FUNCTION, "torch.add", (int)ROLL(4), v, 1, &key, &list, NULL)))
                n++;
            break;
        case 3: fx_node_update_kwarg(a, key, list); break;
        case 4: fx_node_insert_arg(a, (int)ROLL(3), v[1]); break;
        case 5: fx_node_replace_all_uses_with(a, b, NULL, NULL, false, NULL); break;
        case 6: fx_graph_erase_node(g, a); break;
        case 7: fx_node_set_name(a, fx_node_name(b)); break;
        case 8: fx_node_append(a, b); break;
        case 9: fx_node_remove_kwarg(a, key); break;
        default: fx_node_replace_input_with(a, b, pool[ROLL(n)]); break;
        }
        if (step % 50 == 0) {
            fx_diag_clear(ctx);
            fx_graph_lint(g, FX_LINT_STRUCTURE);
            /* Of all findings only these can come from edits that are allowed. */
            for (size_t i = 0; i < fx_diag_count(ctx); i++) {
                const char *m = fx_diag_get(ctx, i)->message;
                bool allowed = strstr(m, "comes only later") || strstr(m, "placeholder") || strstr(m, "output nodes") ||
                               strstr(m, "more findings");
                ck_assert_msg(allowed, "after %d edits: %s", step, m);
            }
        }
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, each_opcode_is_created);
    tcase_add_test(t, values_go_in_and_out);
    tcase_add_test(t, bad_values_are_refused);
    tcase_add_test(t, graphs_hold_no_circles);
    tcase_add_test(t, graphs_nest_so_deep_and_no_deeper);
    tcase_add_test(t, null_foreign_and_erased_nodes_are_refused);
    tcase_add_test(t, insertion_points_nest);
    tcase_add_test(t, nodes_are_moved);
    tcase_add_test(t, walking_while_editing);
    tcase_add_test(t, types_and_symbols_are_set);
    tcase_add_test(t, arguments_are_edited);
    tcase_add_test(t, names_are_changed);
    tcase_add_test(t, names_are_those_of_fx);
    tcase_add_test(t, uses_are_replaced);
    tcase_add_test(t, used_nodes_are_not_erased);
    tcase_add_test(t, nodes_are_copied);
    tcase_add_test(t, graphs_are_copied_into_graphs);
    tcase_add_test(t, deep_copies_are_equal_and_apart);
    tcase_add_test(t, dead_code_goes_and_effects_stay);
    tcase_add_test(t, sorting_is_stable);
    tcase_add_loop_test(t, shuffled_graphs_are_sorted, 0, 20);
    tcase_add_test(t, spellings_are_one_operator);
    tcase_add_test(t, notes_are_kept);
    tcase_add_loop_test(t, random_edits_leave_sound_graphs, 0, 10);
}

int main(void)
{
    return unit_run("edit", 120, set_up, tear_down, add_tests);
}
