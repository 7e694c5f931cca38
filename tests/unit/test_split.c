/* tests/unit/test_split.c: cutting graphs into modules, fusing parts, extracting, minimizing, and inlining it all again.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <time.h>

#include "tests/unit/fixture.h"
#include "unit/random_graph.h"

static fx_graph *body(const fx_graph *g, const char *path)
{
    fx_graph *b = fx_module_graph(fx_module_find(g, path));
    ck_assert_msg(b != NULL, "no graph in %s", path);
    return b;
}

/* ---- split_module ----------------------------------------------------------------------------------------------------------- */

static int part_by_meta(void *user, const fx_node *n)
{
    (void)user;
    return strncmp(n->name, "p", 1) == 0 ? n->name[1] - '0' : 0;
}

static const char *const two_parts =
    "graph \"m\" imported\n"
    "parameter a.weight : f32[2] = [1.0, 2.0]\n"
    "parameter b.weight : f32[2] = [3.0, 4.0]\n"
    "%x : f32[2] = placeholder[x]\n"
    "%a_weight : f32[2] = get_attr[a.weight]\n"
    "%b_weight : f32[2] = get_attr[b.weight]\n"
    "%p0_mul = call_function[aten.mul.Tensor](%x, %a_weight)\n"
    "%p0_add = call_function[aten.add.Tensor](%p0_mul, %b_weight)\n"
    "%p1_relu = call_function[aten.relu.default](%p0_mul)\n"
    "%p1_mul = call_function[aten.mul.Tensor](%p1_relu, %b_weight)\n"
    "%p1_sub = call_function[aten.sub.Tensor](%p1_mul, %p0_add)\n"
    "output((%p1_sub,))\n";

START_TEST(split_moves_what_one_part_uses)
{
    fx_graph *g = unit_parse(ctx, two_parts), *out = NULL;
    const char *before = unit_print(g);
    ck_assert_int_eq(fx_graph_split_module(g, part_by_meta, NULL, &out), FX_OK);
    ck_assert_str_eq(unit_print(g), before);
    rg_sound(out);
    const fx_node *call = fx_graph_find_node(out, "submod_0");
    ck_assert_int_eq(call->opcode, FX_CALL_MODULE);
    ck_assert_int_eq(call->n_operands, 2);
    ck_assert_str_eq(call->operands[0].def->name, "x");
    ck_assert_str_eq(call->operands[1].def->name, "b_weight");
    call = fx_graph_find_node(out, "submod_1");
    ck_assert_int_eq(call->n_operands, 3);
    ck_assert_str_eq(call->operands[0].def->name, "getitem");
    ck_assert_str_eq(call->operands[1].def->name, "b_weight");
    ck_assert_str_eq(call->operands[2].def->name, "getitem_1");
    fx_graph *first = body(out, "submod_0");
    ck_assert_ptr_nonnull(fx_attr_find(first, "a.weight"));
    ck_assert_ptr_null(fx_attr_find(out, "a.weight"));
    ck_assert_ptr_null(fx_attr_find(first, "b.weight"));
    ck_assert_ptr_nonnull(fx_attr_find(out, "b.weight"));
    ck_assert_int_eq(fx_graph_output_node(first)->n_operands, 2);
    ck_assert_str_eq(fx_graph_output_node(first)->operands[0].def->name, "p0_mul");
    ck_assert_int_eq(fx_graph_output_node(body(out, "submod_1"))->n_operands, 1);
    ck_assert_int_eq(fx_inline_bodies(out), FX_OK);
    rg_sound(out);
    ck_assert_ptr_nonnull(fx_attr_find(out, "submod_0.a.weight"));
    ck_assert_str_eq(fx_graph_find_node(out, "a_weight")->target, "submod_0.a.weight");
    ck_assert_ptr_null(fx_graph_find_node(out, "getitem"));
    ck_assert_uint_eq(out->n_nodes, g->n_nodes);
}
END_TEST

START_TEST(circles_are_named)
{
    fx_graph *g = unit_parse(ctx, "graph \"m\" imported\n"
                                "%x : f32[2] = placeholder[x]\n"
                                "%p0_a = call_function[aten.relu.default](%x)\n"
                                "%p1_b = call_function[aten.relu.default](%p0_a)\n"
                                "%p0_c = call_function[aten.add.Tensor](%p1_b, %p0_a)\n"
                                "output((%p0_c,))\n"),
             *out = NULL;
    const char *before = unit_print(g);
    ck_assert_int_eq(fx_graph_split_module(g, part_by_meta, NULL, &out), FX_ERR_ARGUMENT);
    ck_assert_ptr_null(out);
    ck_assert_str_eq(unit_print(g), before);
    const char *message = unit_diag(ctx);
    ck_assert_msg(strstr(message, "circle") && strstr(message, "p0_c") && strstr(message, "p1_b") && strstr(message, "submod_1"), "%s",
                  message);
}
END_TEST

static int minus_one(void *user, const fx_node *n)
{
    (void)user;
    (void)n;
    return -1;
}

START_TEST(bad_arguments)
{
    fx_graph *g = unit_parse(ctx, two_parts), *out = NULL;
    int partition[100] = {-1};
    ck_assert_int_eq(fx_graph_split_module(NULL, part_by_meta, NULL, &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_split_module(g, NULL, NULL, &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_split_module(g, minus_one, NULL, &out), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "p0_mul"));
    ck_assert_int_eq(fx_graph_fuse_partitions(g, NULL, &out), FX_ERR_ARGUMENT);
    partition[0] = 0; /* the placeholder */
    ck_assert_int_eq(fx_graph_fuse_partitions(g, partition, &out), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "only calls"));
    ck_assert_int_eq(fx_graph_split_by_tags(g, 1, (const char *const[]){"a"}, &out), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "missing"));
    ck_assert_int_eq(fx_graph_split_by_tags(g, 2, (const char *const[]){"a", "a"}, &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_split_by_tags(g, 1, (const char *const[]){"a.b"}, &out), FX_ERR_ARGUMENT);
    ck_assert_ptr_null(out);
    ck_assert_ptr_null(fx_module_graph(NULL));
}
END_TEST

START_TEST(tags_in_their_order)
{
    fx_graph *g = unit_parse(ctx, two_parts), *out = NULL;
    FX_FOR_NODES(g, n) {
        fx_meta *m = FX_NEW(g->arena, fx_meta);
        *m = (fx_meta){fx_intern(ctx, "tag"), fx_arg_text(ctx, FX_ARG_STR, n->name[0] == 'p' && n->name[1] == '1' ? "late" : "early"), NULL};
        n->meta = m;
    }
    ck_assert_int_eq(fx_graph_split_by_tags(g, 2, (const char *const[]){"early", "late"}, &out), FX_OK);
    rg_sound(out);
    ck_assert_ptr_nonnull(body(out, "early"));
    ck_assert_ptr_nonnull(body(out, "late"));
    ck_assert_int_eq(fx_inline_bodies(out), FX_OK);
    rg_sound(out);
}
END_TEST

/* ---- properties ---------------------------------------------------------------------------------------------------------------- */

typedef struct parts {
    int *of;
    int n;
} parts;

static int part_of(void *user, const fx_node *n)
{
    const parts *p = user;
    return p->of[n->id];
}

/* Split anyhow that has no circle, then inlined: the same values, the graph itself as it was. */
START_TEST(split_random)
{
    rg_start((uint32_t)_i);
    fx_graph *g = rg_graph_with(ctx, 5 + (int)rg_draw(60), _i % 2), *out = NULL;
    const char *before = unit_print(g);
    parts p = {calloc(g->n_ids, sizeof(int)), 1 + (int)rg_draw(6)};
    int now = 0;
    FX_FOR_NODES(g, n) /* numbers that only grow make no circle */
        p.of[n->id] = now += now < p.n && rg_draw(10) == 0;
    ck_assert_msg(fx_graph_split_module(g, part_of, &p, &out) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_str_eq(unit_print(g), before);
    rg_sound(out);
    rg_same_values(g, out); /* modules that hold graphs are run */
    const char *after = unit_print(out);
    fx_graph *read = unit_parse(ctx, after);
    ck_assert_str_eq(unit_print(read), after);
    rg_same_values(g, read);
    ck_assert_msg(fx_inline_bodies(out) == FX_OK, "%s", unit_diag(ctx));
    rg_sound(out);
    rg_same_values(g, out);
    ck_assert_uint_eq(out->n_nodes, g->n_nodes);
    free(p.of);
}
END_TEST

/* Arbitrary parts: refused with a circle named, or right. */
START_TEST(split_random_circles)
{
    rg_start((uint32_t)_i + 1000);
    fx_graph *g = rg_graph_with(ctx, 4 + (int)rg_draw(8), _i % 2), *out = NULL;
    parts p = {calloc(g->n_ids, sizeof(int)), 2};
    FX_FOR_NODES(g, n)
        p.of[n->id] = (int)rg_draw(2);
    fx_status st = fx_graph_split_module(g, part_of, &p, &out);
    if (st == FX_OK) {
        rg_sound(out);
        ck_assert_int_eq(fx_inline_bodies(out), FX_OK);
        rg_sound(out);
        rg_same_values(g, out);
    } else {
        ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "circle"));
    }
    free(p.of);
}
END_TEST

/* Nested: a split graph is split again, and inlined at one go. */
START_TEST(split_of_split)
{
    rg_start((uint32_t)_i + 2000);
    fx_graph *g = rg_graph(ctx, 40), *out = NULL, *outer = NULL;
    parts p = {calloc(g->n_ids, sizeof(int)), 4};
    int now = 0;
    FX_FOR_NODES(g, n)
        p.of[n->id] = now += rg_draw(10) == 0;
    ck_assert_int_eq(fx_graph_split_module(g, part_of, &p, &out), FX_OK);
    parts q = {calloc(out->n_ids, sizeof(int)), 2};
    now = 0;
    FX_FOR_NODES(out, n)
        q.of[n->id] = now += rg_draw(4) == 0;
    ck_assert_int_eq(fx_graph_split_module(out, part_of, &q, &outer), FX_OK);
    rg_sound(outer);
    ck_assert_int_eq(fx_inline_bodies(outer), FX_OK);
    rg_sound(outer);
    rg_same_values(g, outer);
    free(p.of);
    free(q.of);
}
END_TEST

/* Writes keep their place: x is read, written, read again, whatever parts the three are in. */
START_TEST(writes_keep_their_place)
{
    fx_graph *g = unit_parse(ctx, "graph \"m\" imported\n"
                                "%x : f32[2] = placeholder[x]\n"
                                "%p0_y = call_function[aten.relu.default](%x)\n"
                                "%p1_w = call_function[aten.add_.Tensor](%x, 1.0)\n"
                                "%p0_z = call_function[aten.neg.default](%x)\n"
                                "output((%p0_y, %p0_z))\n"),
             *out = NULL;
    ck_assert_int_eq(fx_graph_split_module(g, part_by_meta, NULL, &out), FX_ERR_ARGUMENT);
    ck_assert_msg(strstr(unit_diag(ctx), "circle") != NULL, "%s", unit_diag(ctx));
}
END_TEST

/* Draws of random numbers stay in their order. */
START_TEST(draws_keep_their_order)
{
    const char *lines = "graph \"m\" imported\n"
                        "%x : f32[2] = placeholder[x]\n"
                        "%p0_a = call_function[aten.rand_like.default](%x)\n"
                        "%p1_b = call_function[aten.rand_like.default](%x)\n"
                        "%p0_c = call_function[aten.relu.default](%x)\n"
                        "%p2_d = call_function[aten.rand_like.default](%x)\n"
                        "output((%p0_a, %p1_b, %p0_c, %p2_d))\n";
    fx_graph *out = NULL;
    ck_assert_int_eq(fx_graph_split_module(unit_parse(ctx, lines), part_by_meta, NULL, &out), FX_OK);
    ck_assert(strstr(unit_print(out), "submod_0](") < strstr(unit_print(out), "submod_1]("));
    fx_graph *g = unit_parse(ctx, lines);
    fx_node_set_name(fx_graph_find_node(g, "p2_d"), "p0_d");
    out = NULL;
    ck_assert_int_eq(fx_graph_split_module(g, part_by_meta, NULL, &out), FX_ERR_ARGUMENT);
    ck_assert_ptr_null(out);
}
END_TEST

/* A module called by two parts is in both, its parameters once in memory. */
START_TEST(modules_go_along)
{
    fx_graph *g = unit_parse(ctx, "graph \"m\" captured\n"
                                "module fc : torch.nn.modules.linear.Linear(in_features=4, out_features=4)\n"
                                "parameter fc.weight : f32[4, 4] = [0.5, 1.0, -1.0, 2.0, 0.0, 3.0, 1.5, -2.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5]\n"
                                "parameter fc.bias : f32[4] = [1.0, 2.0, 3.0, 4.0]\n"
                                "module act.0 : torch.nn.modules.activation.ReLU()\n"
                                "%in0 : f32[4, 4] = placeholder[in0]\n"
                                "%in1 : f32[4, 4] = placeholder[in1]\n"
                                "%in2 : f32[4, 4] = placeholder[in2]\n"
                                "%p0_fc = call_module[fc](%in0)\n"
                                "%p0_act = call_module[act.0](%p0_fc)\n"
                                "%p1_add = call_method[add](%p0_act, %in1)\n"
                                "%p1_fc = call_module[fc](%p1_add)\n"
                                "%p1_sum = call_function[operator.add](%p1_fc, %in2)\n"
                                "output(%p1_sum)\n"),
             *out = NULL;
    ck_assert_msg(fx_graph_split_module(g, part_by_meta, NULL, &out) == FX_OK, "%s", unit_diag(ctx));
    rg_sound(out);
    ck_assert_ptr_null(fx_module_find(out, "fc"));
    const fx_attr *a = fx_attr_find(body(out, "submod_0"), "fc.weight"), *b = fx_attr_find(body(out, "submod_1"), "fc.weight");
    ck_assert(a && b && a->tensor.data == b->tensor.data && a->tensor.storage == b->tensor.storage);
    ck_assert_str_eq(fx_module_find(body(out, "submod_0"), "act.0")->class_name, "torch.nn.modules.activation.ReLU");
    ck_assert_ptr_null(fx_module_find(body(out, "submod_1"), "act.0"));
    rg_same_values(g, out);
    ck_assert_int_eq(fx_inline_bodies(out), FX_OK);
    rg_sound(out);
    rg_same_values(g, out);
    ck_assert_str_eq(fx_graph_find_node(out, "p1_fc")->target, "submod_1.fc");
}
END_TEST

/* Results nested as deep as arguments are, taken apart inside and outside. */
START_TEST(nested_results)
{
    fx_graph *g = unit_parse(ctx, "graph \"m\" captured\n"
                                "subgraph 0 \"inner\" captured {\n"
                                "%x = placeholder[x]\n"
                                "%y = placeholder[y](3)\n"
                                "%neg = call_function[torch.neg](%x)\n"
                                "output((%neg, {\"deep\": [%x, %neg], \"y\": %y}))\n"
                                "}\n"
                                "subgraph 1 \"taker\" captured {\n"
                                "%t = placeholder[t]\n"
                                "%d = call_function[operator.getitem](%t, -1)\n"
                                "%l = call_function[operator.getitem](%d, \"deep\")\n"
                                "%n = call_function[operator.getitem](%l, 1)\n"
                                "%y = call_function[operator.getitem](%d, \"y\")\n"
                                "%add = call_function[torch.add](%n, %y)\n"
                                "output(%add)\n"
                                "}\n"
                                "module in : torch.nn.Module body 0\n"
                                "module take : torch.nn.Module body 1\n"
                                "%x = placeholder[x]\n"
                                "%got = call_module[in](%x)\n"
                                "%first = call_function[operator.getitem](%got, 0)\n"
                                "%take = call_module[take](%got)\n"
                                "output((%first, %got, %take))\n");
    ck_assert_msg(fx_inline_bodies(g) == FX_OK, "%s", unit_diag(ctx));
    rg_sound(g);
    const char *text = unit_print(g);
    ck_assert_msg(strstr(text, "%add = call_function[torch.add](%neg, 3)") && strstr(text, "output((%neg, (%neg, {\"deep\": [%x, %neg], \"y\": 3}), %add))"),
                  "%.1500s", text);
    ck_assert_uint_eq(g->n_nodes, 4);
    const char *bad[] = {"%got = call_module[in]()\noutput(%got)\n", "%got = call_module[in](%x, %x, %x)\noutput(%got)\n",
                         "%got = call_module[in](%x, z=%x)\noutput(%got)\n",
                         "%got = call_module[in](%x)\n%i = call_function[operator.getitem](%got, 2)\noutput(%i)\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        g = unit_parse(ctx, fx_intern_f(ctx, "graph \"m\" captured\nsubgraph 0 \"inner\" captured {\n%%x = placeholder[x]\noutput((%%x, %%x))\n}\n"
                                           "module in : torch.nn.Module body 0\n%%x = placeholder[x]\n%s", bad[i]));
        ck_assert_int_eq(fx_inline_bodies(g), FX_ERR_TYPE);
    }
}
END_TEST

/* A short text that stands for 2^40 nodes, or for a deep pile, is refused; not copied, inlined or checked. */
START_TEST(nested_texts_are_limited)
{
    for (int times = 1; times <= 2; times++) {
        fx_text t;
        fx_graph *g = NULL;
        fx_text_init(&t, fx_context_arena(ctx));
        fx_puts(&t, "graph \"m\" captured\n");
        int levels = times == 1 ? 20000 : 45;
        for (int i = 0; i < levels; i++) {
            fx_printf(&t, "subgraph %d \"s\" captured {\n", i);
            for (int k = 0; k < times && i; k++)
                fx_printf(&t, "module m%d : torch.nn.Module body %d\n", k, i - 1);
            fx_puts(&t, "%x = placeholder[x]\noutput(%x)\n}\n");
        }
        fx_printf(&t, "module m : torch.nn.Module body %d\n", levels - 1);
        fx_puts(&t, "%x = placeholder[x]\n%y = call_module[m](%x)\noutput(%y)\n");
        ck_assert_int_eq(fx_graph_parse(ctx, "t.fx", t.data, t.size, &g), FX_ERR_FORMAT);
        ck_assert_msg(strstr(unit_diag(ctx), "subgraph") != NULL, "%s", unit_diag(ctx));
        fx_context_free(ctx);
        ctx = fx_context_create();
    }
}
END_TEST

/* ---- extract ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(extract)
{
    fx_graph *g = unit_parse(ctx, two_parts), *out = NULL;
    const char *before = unit_print(g);
    fx_node *mul = fx_graph_find_node(g, "p0_mul"), *sub = fx_graph_find_node(g, "p1_sub"), *x = fx_graph_find_node(g, "x");
    ck_assert_int_eq(fx_graph_extract_subgraph(g, 1, &mul, 1, &sub, &out), FX_OK);
    rg_sound(out);
    ck_assert_str_eq(unit_print(g), before);
    ck_assert_uint_eq(out->n_nodes, 7); /* p0_mul, b_weight, four calls, output */
    ck_assert_int_eq(fx_graph_find_node(out, "p0_mul")->opcode, FX_PLACEHOLDER);
    ck_assert_ptr_nonnull(fx_attr_find(out, "b.weight"));
    ck_assert_ptr_null(fx_attr_find(out, "a.weight"));
    ck_assert_int_eq(fx_graph_output_node(out)->args->items[0]->kind, FX_ARG_NODE);
    out = NULL;
    ck_assert_int_eq(fx_graph_extract_subgraph(g, 0, NULL, 1, &sub, &out), FX_ERR_ARGUMENT);
    ck_assert_msg(strstr(unit_diag(ctx), "'x'") != NULL, "%s", unit_diag(ctx));
    ck_assert_int_eq(fx_graph_extract_subgraph(g, 2, (fx_node *[]){x, x}, 1, &sub, &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_extract_subgraph(g, 1, (fx_node *[]){NULL}, 1, &sub, &out), FX_ERR_ARGUMENT);
    fx_graph *other = unit_parse(ctx, two_parts);
    ck_assert_int_eq(fx_graph_extract_subgraph(other, 1, &x, 1, &sub, &out), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "another graph"));
    ck_assert_ptr_null(out);
}
END_TEST

/* Everything from the placeholders to the outputs is the graph again. */
START_TEST(extract_random)
{
    rg_start((uint32_t)_i + 3000);
    fx_graph *g = rg_graph(ctx, 30), *out = NULL;
    fx_node *in[3], *outs[8];
    const fx_node *result = fx_graph_output_node(g);
    size_t n = 0;
    FX_FOR_NODES(g, t)
        if (t->opcode == FX_PLACEHOLDER)
            in[n++] = t;
    for (int i = 0; i < result->n_operands; i++)
        outs[i] = result->operands[i].def;
    ck_assert_int_eq(fx_graph_extract_subgraph(g, n, in, (size_t)result->n_operands, outs, &out), FX_OK);
    rg_sound(out);
    rg_same_values(g, out);
}
END_TEST

/* ---- minimize ----------------------------------------------------------------------------------------------------------------------------- */

typedef struct culprits {
    const char *first, *last;
} culprits;

static bool holds_both(void *user, fx_graph *part)
{
    const culprits *c = user;
    rg_sound(part);
    const fx_node *a = fx_graph_find_node(part, c->first), *b = fx_graph_find_node(part, c->last);
    return a && b && a->opcode != FX_PLACEHOLDER && b->opcode != FX_PLACEHOLDER;
}

static bool never(void *user, fx_graph *part)
{
    (void)user;
    (void)part;
    return false;
}

static fx_graph *chain(int n)
{
    fx_graph *g = fx_graph_new(ctx, "chain");
    g->stage = FX_STAGE_IMPORTED;
    fx_node *x = fx_node_new(g, FX_PLACEHOLDER, "x", NULL, NULL, 0, NULL, NULL);
    x->type = fx_type_tensor_static(ctx, FX_F32, 2, (int64_t[]){4, 4});
    for (int i = 0; i < n; i++)
        x = rg_unary(g, i % 2 ? FX_OP_neg : FX_OP_relu, x);
    rg_output(g, 1, &x);
    return g;
}

START_TEST(minimize)
{
    fx_graph *g = chain(1000), *out = NULL;
    const char *before = unit_print(g);
    size_t tries = 0;
    culprits one = {"relu_300", "relu_300"}, two = {"relu_100", "neg_102"};
    ck_assert_int_eq(fx_graph_minimize(g, holds_both, &one, &out, &tries), FX_OK);
    ck_assert_uint_eq(out->n_nodes, 3);
    ck_assert_uint_le(tries, 22);
    ck_assert_int_eq(fx_graph_minimize(g, holds_both, &two, &out, &tries), FX_OK);
    ck_assert_uint_eq(out->n_nodes, 8); /* relu_100 neg_100 relu_101 neg_101 relu_102 neg_102 */
    ck_assert_int_eq(fx_graph_minimize(g, never, NULL, &out, &tries), FX_ERR_ARGUMENT);
    ck_assert_uint_eq(tries, 1);
    ck_assert_str_eq(unit_print(g), before);
}
END_TEST

/* ---- memory that runs out ---------------------------------------------------------------------------------------------------------------- */

static bool last_two(void *user, fx_graph *part)
{
    return fx_graph_find_node(part, user) != NULL;
}

static bool pointwise(void *user, const fx_node *n)
{
    (void)user;
    return n->id % 3 != 0;
}

typedef struct job {
    fx_graph *g;
    parts parts;
    int *partition;
    fx_node *in[3], *last;
} job;

static fx_status split_job(job *j, fx_graph **out)
{
    return fx_graph_split_module(j->g, part_of, &j->parts, out);
}

static fx_status fuse_job(job *j, fx_graph **out)
{
    size_t n;
    fx_status st = fx_graph_partition(j->g, pointwise, NULL, 1, j->partition, &n);
    return st == FX_OK ? fx_graph_fuse_partitions(j->g, j->partition, out) : st;
}

static fx_status tags_job(job *j, fx_graph **out)
{
    return fx_graph_split_by_tags(j->g, 2, (const char *const[]){"a", "b"}, out);
}

static fx_status extract_job(job *j, fx_graph **out)
{
    return fx_graph_extract_subgraph(j->g, 3, j->in, 1, &j->last, out);
}

static fx_status minimize_job(job *j, fx_graph **out)
{
    return fx_graph_minimize(j->g, last_two, (void *)j->last->name, out, NULL);
}

/* Every allocation fails once in turn: an error, the graph as it was, no leak (under ASan). What was made is inlined. */
START_TEST(every_allocation_fails)
{
    static fx_status (*const jobs[])(job *j, fx_graph **out) = {split_job, fuse_job, tags_job, extract_job, minimize_job};
    long at = 1;
    for (bool whole = false; !whole; at++) {
        unit_memory m = {.fail_at = -1};
        fx_context *c = ctx = unit_context(&m);
        rg_start(7);
        job j = {.g = rg_graph_with(c, 40, true)};
        fx_graph *g = j.g, *out = NULL;
        j.parts = (parts){calloc(g->n_ids, sizeof(int)), 2};
        j.partition = malloc(g->n_nodes * sizeof(int));
        int now = 0;
        FX_FOR_NODES(g, n) {
            j.parts.of[n->id] = now += rg_draw(10) == 0;
            if (n->opcode == FX_CALL_FUNCTION)
                ck_assert_int_eq(fx_node_set_meta(n, "tag", fx_v_str(now < 2 ? "a" : "b")), FX_OK);
        }
        const char *before = unit_print(g);
        j.last = g->last->operands[0].def;
        for (int i = 0; i < 3; i++)
            j.in[i] = i ? j.in[i - 1]->next : g->first;
        unit_fail_after(&m, at - 1);
        fx_status st = jobs[_i](&j, &out);
        ck_assert(st == FX_OK || !out);
        if (st == FX_OK && _i < 3)
            st = fx_inline_bodies(out);
        whole = !unit_ran_out(&m);
        unit_fail_after(&m, -1);
        ck_assert_msg(st == (whole ? FX_OK : FX_ERR_NOMEM), "%s", unit_diag(c));
        ck_assert_str_eq(unit_print(g), before);
        rg_sound(g);
        free(j.parts.of);
        free(j.partition);
        fx_context_free(c);
    }
    ck_assert_int_ge(at, 5);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, split_moves_what_one_part_uses);
    tcase_add_test(t, circles_are_named);
    tcase_add_test(t, bad_arguments);
    tcase_add_test(t, tags_in_their_order);
    tcase_add_loop_test(t, split_random, 0, 120);
    tcase_add_loop_test(t, split_random_circles, 0, 120);
    tcase_add_loop_test(t, split_of_split, 0, 20);
    tcase_add_test(t, writes_keep_their_place);
    tcase_add_test(t, draws_keep_their_order);
    tcase_add_test(t, modules_go_along);
    tcase_add_test(t, nested_results);
    tcase_add_test(t, nested_texts_are_limited);
    tcase_add_test(t, extract);
    tcase_add_loop_test(t, extract_random, 0, 20);
    tcase_add_test(t, minimize);
}

static void add_limits(TCase *t)
{
    tcase_add_loop_test(t, every_allocation_fails, 0, 5);
}

int main(void)
{
    Suite *s = suite_create("split");
    unit_case(s, "split", 300, set_up, tear_down, add_tests);
    unit_case(s, "memory", 300, NULL, NULL, add_limits);
    return unit_finish(s);
}
