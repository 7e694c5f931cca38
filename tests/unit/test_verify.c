/* tests/unit/test_verify.c: the graph verifier finds every kind of damage, and says so.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "tests/unit/unit.h"

/* A small sound graph at core form:
 *     x, w = placeholder; bias = get_attr[layer.bias]
 *     mul = x * w; add = mul + bias; relu = relu(add); cat = cat([relu, mul]); output cat */
typedef struct sample {
    fx_context *ctx;
    fx_graph *g;
    fx_node *x, *w, *bias, *mul, *add, *relu, *cat, *output;
    fx_attr *attr;
} sample;

static fx_node *typed(fx_node *n, const fx_type *t)
{
    n->type = t;
    return n;
}

static fx_node *build(fx_graph *g, fx_opid op, int n, fx_node *const *in)
{
    fx_call c = fx_call_begin(g, op);
    for (int i = 0; i < n; i++)
        fx_call_node(&c, in[i]);
    fx_node *made = fx_call_end(&c, NULL);
    ck_assert_ptr_nonnull(made);
    return made;
}

static sample make(void)
{
    const int64_t sizes[] = {2, 3};
    sample s = {.ctx = fx_context_create()};
    fx_graph *g = s.g = fx_graph_new(s.ctx, "m");
    const fx_type *t = fx_type_tensor_static(s.ctx, FX_F32, 2, sizes);
    fx_tensor tensor;
    ck_assert_int_eq(fx_tensor_create(s.ctx, FX_F32, 2, sizes, &tensor), FX_OK);
    s.attr = fx_attr_add(g, "layer.bias", &tensor, false);
    s.x = typed(fx_node_new(g, FX_PLACEHOLDER, "x", NULL, NULL, 0, NULL, NULL), t);
    s.w = typed(fx_node_new(g, FX_PLACEHOLDER, "w", NULL, NULL, 0, NULL, NULL), t);
    s.bias = typed(fx_node_new(g, FX_GET_ATTR, "layer.bias", NULL, NULL, 0, NULL, "bias"), t);
    s.mul = build(g, FX_OP_mul_Tensor, 2, (fx_node *[]){s.x, s.w});
    s.add = build(g, FX_OP_add_Tensor, 2, (fx_node *[]){s.mul, s.bias});
    s.relu = build(g, FX_OP_relu, 1, &s.add);
    fx_call c = fx_call_begin(g, FX_OP_cat);
    fx_call_nodes(&c, 2, (fx_node *[]){s.relu, s.mul});
    s.cat = fx_call_end(&c, NULL);
    const fx_arg *result = fx_arg_operand(s.ctx, 0);
    s.output = fx_node_new(g, FX_OUTPUT, "output", fx_arg_seq(s.ctx, FX_ARG_TUPLE, 1, &result), NULL, 1, &s.cat, NULL);
    return s;
}

/* Each damage with a part of the message it must give, and the node the message must name. */

static void backlink(sample *s) { s->add->prev = s->x; }
static void circle(sample *s) { s->relu->next = s->mul; }
static void double_id(sample *s) { s->relu->id = s->add->id; }
static void id_too_large(sample *s) { s->relu->id = 1000; }
static void last_wrong(sample *s) { s->g->last = s->cat; }
static void count_wrong(sample *s) { s->g->n_nodes++; }
static void erased_in_list(sample *s) { s->relu->erased = true; }
static void foreign_node(sample *s) { s->relu->graph = fx_graph_new(s->ctx, "other"); }
static void wrong_order(sample *s) { fx_node_move_before(s->relu, s->mul); }
static void self_use(sample *s) { fx_node_set_operand(s->relu, 0, s->relu); s->relu->type = s->x->type; }

static void operand_erased(sample *s)
{
    fx_node *dead = fx_node_new(s->g, FX_PLACEHOLDER, "dead", NULL, NULL, 0, NULL, NULL);
    fx_node_erase(dead);
    fx_node_set_operand(s->relu, 0, dead);
}

static void operand_foreign(sample *s)
{
    fx_graph *g = fx_graph_new(s->ctx, "other");
    fx_node_set_operand(s->relu, 0, fx_node_new(g, FX_PLACEHOLDER, "alien", NULL, NULL, 0, NULL, NULL));
}

static void operand_unlisted(sample *s)
{
    s->w->prev->next = s->w->next;
    s->w->next->prev = s->w->prev;
    s->g->n_nodes--;
}

static void operand_missing(sample *s) { s->relu->operands[0].def = NULL; }
static void wrong_user(sample *s) { s->relu->operands[0].user = s->mul; }
static void use_unlinked(sample *s) { s->add->first_use = s->add->last_use = NULL; s->add->n_uses = 0; }
static void use_count(sample *s) { s->mul->n_uses = 7; }
static void use_last(sample *s) { s->mul->last_use = s->mul->first_use; }
static void use_circle(sample *s) { s->mul->last_use->next = s->mul->last_use; }

static void use_stranger(sample *s)
{
    static fx_use stranger;
    stranger = (fx_use){.def = s->relu, .user = s->cat, .prev = s->relu->last_use};
    s->relu->last_use->next = &stranger;
    s->relu->last_use = &stranger;
    s->relu->n_uses++;
}

static void two_outputs(sample *s)
{
    const fx_arg *a = fx_arg_operand(s->ctx, 0);
    s->g->insert_before = s->output;
    fx_node_new(s->g, FX_OUTPUT, "output", fx_arg_seq(s->ctx, FX_ARG_TUPLE, 1, &a), NULL, 1, &s->cat, NULL);
}

static void no_output(sample *s) { fx_node_erase(s->output); }
static void output_not_last(sample *s) { fx_node_move_before(s->output, s->cat); fx_node_set_operand(s->output, 0, s->relu); }
static void output_used(sample *s) { s->output->opcode = FX_CALL_FUNCTION; s->mul->opcode = FX_OUTPUT; }
static void output_two_args(sample *s)
{
    fx_node_assign(s->output, fx_arg_seq(s->ctx, FX_ARG_TUPLE, 2, (const fx_arg *[]){fx_arg_none(s->ctx), fx_arg_none(s->ctx)}), NULL, 0, NULL);
}

static void same_names(sample *s) { s->add->name = s->relu->name; }
static void unknown_name(sample *s) { s->add->name = fx_intern(s->ctx, "other"); }
static void no_name(sample *s) { s->add->name = NULL; }
static void name_table(sample *s) { fx_map_put(s->g->arena, &s->g->by_name, s->add->name, s->x); }
static void name_left_over(sample *s) { fx_map_put(s->g->arena, &s->g->by_name, fx_intern(s->ctx, "gone"), s->x); }

static void late_placeholder(sample *s)
{
    s->g->insert_before = s->cat;
    typed(fx_node_new(s->g, FX_PLACEHOLDER, "late", NULL, NULL, 0, NULL, NULL), s->x->type);
}

static void attr_missing(sample *s) { s->bias->target = fx_intern(s->ctx, "layer.nothing"); }
static void attr_type(sample *s) { s->attr->type = fx_type_tensor_static(s->ctx, FX_F64, 2, (int64_t[]){2, 3}); }
static void attr_node_type(sample *s) { s->bias->type = fx_type_tensor_static(s->ctx, FX_F32, 2, (int64_t[]){3, 2}); }
static void opcode_unknown(sample *s) { s->relu->opcode = 17; }
static void row_wrong(sample *s) { s->relu->op = &fx_ops[FX_OP_neg]; }
static void row_missing(sample *s) { s->relu->op = NULL; }
static void row_on_input(sample *s) { s->x->op = &fx_ops[FX_OP_relu]; }
static void template_range(sample *s)
{
    const fx_arg *a = fx_arg_operand(s->ctx, 3);
    s->relu->args = fx_arg_seq(s->ctx, FX_ARG_TUPLE, 1, &a);
}
static void template_negative(sample *s)
{
    const fx_arg *a = fx_arg_operand(s->ctx, -1);
    s->relu->args = fx_arg_seq(s->ctx, FX_ARG_TUPLE, 1, &a);
}
static void template_order(sample *s)
{
    s->mul->args = fx_arg_seq(s->ctx, FX_ARG_TUPLE, 2, (const fx_arg *[]){fx_arg_operand(s->ctx, 1), fx_arg_operand(s->ctx, 0)});
}
static void template_unused(sample *s) { s->relu->args = fx_arg_seq(s->ctx, FX_ARG_TUPLE, 0, NULL); }
static void args_no_tuple(sample *s) { s->relu->args = fx_arg_seq(s->ctx, FX_ARG_LIST, s->relu->args->n, s->relu->args->items); }
static void kwargs_no_dict(sample *s) { s->relu->kwargs = fx_arg_none(s->ctx); }
static void kwargs_twice(sample *s)
{
    const fx_arg *none = fx_arg_none(s->ctx);
    s->relu->kwargs = fx_arg_dict(s->ctx, 2, (const char *[]){"a", "a"}, (const fx_arg *[]){none, none});
}
static void keyword_left(sample *s)
{
    const fx_arg *one = fx_arg_int(s->ctx, 1);
    s->add->kwargs = fx_arg_dict(s->ctx, 1, (const char *[]){"alpha"}, &one);
}
static void too_few_args(sample *s)
{
    fx_node_assign(s->add, fx_arg_seq(s->ctx, FX_ARG_TUPLE, 2, s->add->args->items), NULL, 2, (fx_node *[]){s->mul, s->bias});
    s->add->type = s->mul->type;
}
static void set_alpha(sample *s, const fx_arg *alpha)
{
    s->add->args = fx_arg_seq(s->ctx, FX_ARG_TUPLE, 3, (const fx_arg *[]){s->add->args->items[0], s->add->args->items[1], alpha});
}
static void wrong_kind(sample *s) { set_alpha(s, fx_arg_text(s->ctx, FX_ARG_STR, "1")); }
static void not_converted(sample *s)
{
    s->cat->args = fx_arg_seq(s->ctx, FX_ARG_TUPLE, 2, (const fx_arg *[]){
        fx_arg_seq(s->ctx, FX_ARG_TUPLE, 2, s->cat->args->items[0]->items), s->cat->args->items[1]});
}
static void unknown_target(sample *s)
{
    s->relu->target = fx_intern(s->ctx, "my.relu");
    s->relu->op = NULL;
}
static void in_place(sample *s) { s->add->target = fx_intern(s->ctx, "aten.add_.Tensor"); }
static void method(sample *s)
{
    s->relu->opcode = FX_CALL_METHOD;
    s->relu->op = NULL;
}
static void method_on_nothing(sample *s)
{
    method(s);
    fx_node_assign(s->relu, NULL, NULL, 0, NULL);
}
static void module_missing(sample *s)
{
    s->relu->opcode = FX_CALL_MODULE;
    s->relu->target = fx_intern(s->ctx, "layer.relu");
    s->relu->op = NULL;
}
static void not_core(sample *s)
{
    s->relu->op = &fx_ops[FX_OP_square];
    s->relu->target = s->relu->op->name;
}
static void untyped(sample *s) { s->relu->type = NULL; }
static void type_wrong(sample *s) { s->relu->type = fx_type_tensor_static(s->ctx, FX_F32, 1, (int64_t[]){6}); }
static void dtype_wrong(sample *s) { s->relu->type = fx_type_tensor_static(s->ctx, FX_F64, 2, (int64_t[]){2, 3}); }

static const struct {
    const char *name;
    void (*damage)(sample *s);
    const char *node, *message;
} cases[] = {
    {"backlink", backlink, "add", "its link back does not lead to 'mul'"},
    {"circle", circle, "mul", "holds the id 3 twice, or runs in a circle"},
    {"double_id", double_id, "relu", "holds the id 4 twice"},
    {"id_too_large", id_too_large, "relu", "its id is 1000, expected below 8"},
    {"last_wrong", last_wrong, NULL, "the last node is 'cat', expected 'output'"},
    {"count_wrong", count_wrong, NULL, "the graph counts 9 nodes, expected 8"},
    {"erased_in_list", erased_in_list, "relu", "an erased node is still in the list"},
    {"foreign_node", foreign_node, "relu", "the node in the list belongs to another graph"},
    {"wrong_order", wrong_order, "relu", "operand 0, 'add', comes only later: a cycle or a wrong order"},
    {"self_use", self_use, "relu", "operand 0, 'relu', comes only later: a cycle or a wrong order"},
    {"operand_erased", operand_erased, "relu", "operand 0, 'dead', is erased"},
    {"operand_foreign", operand_foreign, "relu", "operand 0, 'alien', belongs to another graph"},
    {"operand_unlisted", operand_unlisted, "mul", "operand 1, 'w', is not in the list of nodes"},
    {"operand_missing", operand_missing, "relu", "operand 0 is missing"},
    {"wrong_user", wrong_user, "relu", "the use of operand 0 names another user"},
    {"use_unlinked", use_unlinked, "relu", "the list of uses of 'add' lacks this use"},
    {"use_count", use_count, "mul", "its uses are counted as 7, expected 2"},
    {"use_last", use_last, "mul", "its last use is not the last of the list"},
    {"use_circle", use_circle, "mul", "its list of uses is broken at the use by 'cat'"},
    {"use_stranger", use_stranger, "relu", "its list of uses holds one that 'cat' does not have"},
    {"two_outputs", two_outputs, NULL, "the graph has 2 output nodes, expected 1"},
    {"no_output", no_output, NULL, "the graph has 0 output nodes, expected 1"},
    {"output_not_last", output_not_last, "output", "the output is not the last node: 'cat' follows"},
    {"output_used", output_used, "add", "operand 0 is the output node"},
    {"output_two_args", output_two_args, "output", "the output takes one argument, got 2"},
    {"same_names", same_names, "add", "the name 'relu' is used by two nodes"},
    {"unknown_name", unknown_name, "add", "the name 'other' is not in the table of names"},
    {"no_name", no_name, "add", "the node has no name"},
    {"name_table", name_table, "add", "the table of names has another node under 'add'"},
    {"name_left_over", name_left_over, NULL, "the table of names has 9 entries, expected 8"},
    {"late_placeholder", late_placeholder, "late", "a placeholder stands after other nodes"},
    {"attr_missing", attr_missing, "bias", "get_attr of 'layer.nothing', which does not exist"},
    {"attr_type", attr_type, "bias", "the attribute 'layer.bias' has type f64[2, 3], but its tensor is f32[2, 3]"},
    {"attr_node_type", attr_node_type, "bias", "its type is f32[3, 2], expected that of the attribute, f32[2, 3]"},
    {"opcode_unknown", opcode_unknown, "relu", "the opcode is 17, expected 0 to 5"},
    {"row_wrong", row_wrong, "relu", "its row is aten.neg.default, expected that of its target 'aten.relu.default'"},
    {"row_missing", row_missing, "relu", "its row is missing, expected that of its target 'aten.relu.default'"},
    {"row_on_input", row_on_input, "x", "a placeholder node has a row of op.def"},
    {"template_range", template_range, "relu", "an argument names operand 3, expected one of 1"},
    {"template_negative", template_negative, "relu", "an argument names operand"},
    {"template_order", template_order, "mul", "operands are not numbered from left to right"},
    {"template_unused", template_unused, "relu", "arguments name 0 operands, expected 1"},
    {"args_no_tuple", args_no_tuple, "relu", "args is list, expected a tuple"},
    {"kwargs_no_dict", kwargs_no_dict, "relu", "kwargs is None, expected a dict"},
    {"kwargs_twice", kwargs_twice, "relu", "the keyword 'a' is given twice"},
    {"keyword_left", keyword_left, "add", "aten.add.Tensor is not normalised: it has the keyword 'alpha'"},
    {"too_few_args", too_few_args, "add", "aten.add.Tensor is not normalised: it has 2 arguments, expected 3"},
    {"wrong_kind", wrong_kind, "add", "argument 'alpha' of aten.add.Tensor is wrong: expected Scalar, got str"},
    {"not_converted", not_converted, "cat", "argument 'tensors' of aten.cat.default is not normalised: expected Tensor[], got tuple"},
    {"unknown_target", unknown_target, "relu", "the target 'my.relu' is no row of op.def"},
    {"in_place", in_place, "add", "an in-place op, 'aten.add_.Tensor', is left"},
    {"method", method, "relu", "a call_method node, expected only calls of functions"},
    {"method_on_nothing", method_on_nothing, "relu", "a call_method needs the node it is called on as its first argument"},
    {"module_missing", module_missing, "relu", "call_module of 'layer.relu', which does not exist"},
    {"not_core", not_core, "relu", "aten.square.default is no core op"},
    {"untyped", untyped, "relu", "the node has no type"},
    {"type_wrong", type_wrong, "relu", "its type is f32[6], expected f32[2, 3]"},
    {"dtype_wrong", dtype_wrong, "relu", "its type is f64[2, 3], expected f32[2, 3]"},
};

/* The first finding about the damage; others may follow from it. */
START_TEST(damage_is_found)
{
    sample s = make();
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_CORE, "start"), FX_OK);
    ck_assert_uint_eq(fx_diag_count(s.ctx), 0);
    cases[_i].damage(&s);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_CORE, "test"), FX_INTERNAL);
    bool found = false;
    for (size_t i = 0; i < fx_diag_count(s.ctx); i++) {
        const fx_diag *d = fx_diag_get(s.ctx, i);
        bool node = cases[_i].node ? d->node && strcmp(d->node, cases[_i].node) == 0 : !d->node;
        found = found || ((node || strcmp(cases[_i].name, "no_name") == 0) && strstr(d->message, cases[_i].message));
    }
    const fx_diag *first = fx_diag_get(s.ctx, 0);
    ck_assert_msg(found, "%s: expected '%s' at '%s', got '%s' at '%s'", cases[_i].name, cases[_i].message,
                  cases[_i].node ? cases[_i].node : "", first->message, first->node ? first->node : "");
    fx_context_free(s.ctx);
}
END_TEST

START_TEST(stages_differ)
{
    sample s = make();
    s.relu->type = NULL;
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_FUNCTIONAL, "test"), FX_OK);
    not_core(&s);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_FUNCTIONAL, "test"), FX_OK);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_CORE, "test"), FX_INTERNAL);
    in_place(&s);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_FUNCTIONAL, "test"), FX_INTERNAL);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_IMPORTED, "test"), FX_OK);
    unknown_target(&s);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_IMPORTED, "test"), FX_OK);
    fx_diag_clear(s.ctx);
    set_alpha(&s, fx_arg_none(s.ctx));
    s.g->file = "m.pt2";
    s.add->loc.file = s.g->file;
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_IMPORTED, "import"), FX_ERR_FORMAT);
    ck_assert_str_eq(fx_diag_get(s.ctx, 0)->message,
                     "after import: argument 'alpha' of aten.add.Tensor is wrong: expected Scalar, got None");
    ck_assert_str_eq(fx_diag_get(s.ctx, 0)->file, "m.pt2");
    fx_context_free(s.ctx);
}
END_TEST

START_TEST(subgraphs_are_verified)
{
    sample s = make(), t = {0};
    fx_graph *branch = fx_graph_new(s.ctx, "branch");
    t.x = fx_node_new(branch, FX_PLACEHOLDER, "x", NULL, NULL, 0, NULL, NULL);
    const fx_arg *args[] = {fx_arg_graph(s.ctx, branch), fx_arg_operand(s.ctx, 0)};
    s.g->insert_before = s.output;
    fx_node_new(s.g, FX_CALL_FUNCTION, "torch.ops.higher_order.cond", fx_arg_seq(s.ctx, FX_ARG_TUPLE, 2, args), NULL, 1, &s.x, NULL);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_IMPORTED, "test"), FX_ERR_FORMAT);
    ck_assert_str_eq(fx_diag_get(s.ctx, 0)->message, "after test: the graph has 0 output nodes, expected 1");
    const fx_arg *result = fx_arg_operand(s.ctx, 0);
    fx_node_new(branch, FX_OUTPUT, "output", fx_arg_seq(s.ctx, FX_ARG_TUPLE, 1, &result), NULL, 1, &t.x, NULL);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_IMPORTED, "test"), FX_OK);
    /* A branch that holds itself */
    const fx_arg *own = fx_arg_graph(s.ctx, branch);
    branch->insert_before = branch->last;
    fx_node_new(branch, FX_CALL_FUNCTION, "f", fx_arg_seq(s.ctx, FX_ARG_TUPLE, 1, &own), NULL, 0, NULL, NULL);
    fx_diag_clear(s.ctx);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_IMPORTED, "test"), FX_ERR_FORMAT);
    ck_assert_str_eq(fx_diag_get(s.ctx, 0)->message, "after test: the subgraph 'branch' holds itself");
    fx_context_free(s.ctx);
}
END_TEST

START_TEST(findings_end)
{
    sample s = make();
    s.g->insert_before = s.output;
    for (int i = 0; i < 200; i++)
        fx_node_new(s.g, FX_GET_ATTR, "nowhere", NULL, NULL, 0, NULL, NULL);
    ck_assert_int_eq(fx_graph_verify(s.g, FX_STAGE_IMPORTED, "test"), FX_ERR_FORMAT);
    ck_assert_uint_eq(fx_diag_count(s.ctx), 51);
    ck_assert_str_eq(fx_diag_get(s.ctx, 50)->message, "after test: 150 more findings");
    fx_context_free(s.ctx);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, damage_is_found, 0, sizeof cases / sizeof *cases);
    tcase_add_test(t, stages_differ);
    tcase_add_test(t, subgraphs_are_verified);
    tcase_add_test(t, findings_end);
}

int main(void)
{
    return unit_run("verify", 60, NULL, NULL, add_tests);
}
