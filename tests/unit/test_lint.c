/* tests/unit/test_lint.c: fx_graph_lint finds every kind of damage to a captured graph, and says which.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/unit/unit.h"

/* A small sound graph:
 *     x, w = placeholder; scale = get_attr[layer.scale]; mul = x * w; add = torch.add(mul, scale, alpha=2); relu = self.act(add)
 *     sum_1 = relu.sum(1); part = self.part(relu, x); cat = torch.cat([relu, mul], 1); output (cat, sum_1, part) */
typedef struct sample {
    fx_context *ctx, *other_ctx;
    fx_graph *g, *other;
    fx_node *x, *w, *scale, *mul, *add, *relu, *sum, *part, *cat, *output, *foreign;
    fx_attr *attr;
} sample;

static fx_graph *body(fx_context *ctx)
{
    fx_graph *b = fx_graph_create(ctx, "part");
    fx_value v[2] = {fx_v_node(fx_graph_placeholder(b, "p", NULL)), fx_v_none()};
    fx_value none = fx_v_none();
    v[1] = fx_v_node(fx_graph_placeholder(b, "q", NULL));
    fx_graph_placeholder(b, "r", &none);
    fx_graph_output(b, fx_v_node(fx_graph_call_function(b, "torch.add", 2, v)));
    return b;
}

static sample make(void)
{
    const int64_t sizes[] = {2, 3};
    sample s = {.ctx = fx_context_create(), .other_ctx = fx_context_create()};
    fx_graph *g = s.g = fx_graph_create(s.ctx, "m");
    s.other = fx_graph_create(s.ctx, "other");
    s.foreign = fx_graph_placeholder(s.other, "stranger", NULL);
    fx_tensor tensor;
    ck_assert_int_eq(fx_tensor_create(s.ctx, FX_F32, 2, sizes, &tensor), FX_OK);
    ck_assert_int_eq(fx_graph_set_parameter(g, "layer.scale", &tensor), FX_OK);
    s.attr = fx_attr_find(g, "layer.scale");
    fx_graph_add_submodule(g, "act", "torch.nn.ReLU", 0, NULL, NULL);
    fx_graph_add_submodule(g, "list", "torch.nn.ModuleList", 0, NULL, NULL);
    fx_graph_add_submodule(g, "part", "torch.fx.GraphModule", 0, NULL, NULL)->body = body(s.ctx);
    s.x = fx_graph_placeholder(g, "x", NULL);
    s.w = fx_graph_placeholder(g, "w", NULL);
    s.scale = fx_graph_get_attr(g, "layer.scale");
    fx_value v[3] = {fx_v_node(s.x), fx_v_node(s.w)}, two = fx_v_int(2);
    const char *alpha = "alpha";
    s.mul = fx_graph_call_function(g, "_operator.mul", 2, v);
    v[0] = fx_v_node(s.mul);
    v[1] = fx_v_node(s.scale);
    s.add = fx_graph_create_node(g, FX_CALL_FUNCTION, "torch.add", 2, v, 1, &alpha, &two, NULL);
    v[0] = fx_v_node(s.add);
    s.relu = fx_graph_create_node(g, FX_CALL_MODULE, "act", 1, v, 0, NULL, NULL, "relu");
    v[0] = fx_v_node(s.relu);
    v[1] = fx_v_int(1);
    s.sum = fx_graph_call_method(g, "sum", 2, v);
    v[1] = fx_v_node(s.x);
    s.part = fx_graph_create_node(g, FX_CALL_MODULE, "part", 2, v, 0, NULL, NULL, NULL);
    v[1] = fx_v_node(s.mul);
    fx_value cat[] = {fx_v_list(2, v), fx_v_int(1)};
    s.cat = fx_graph_call_function(g, "torch.cat", 2, cat);
    fx_value out[] = {fx_v_node(s.cat), fx_v_node(s.sum), fx_v_node(s.part)};
    s.output = fx_graph_output(g, fx_v_tuple(3, out));
    const fx_type *t = fx_type_tensor_static(s.ctx, FX_F32, 2, sizes);
    s.x->type = s.w->type = s.scale->type = s.mul->type = s.add->type = s.relu->type = t;
    s.cat->type = fx_type_tensor_static(s.ctx, FX_F32, 2, (int64_t[]){2, 6});
    s.sum->type = fx_type_tensor_static(s.ctx, FX_F32, 1, sizes);
    ck_assert_ptr_nonnull(s.output);
    return s;
}

static void set_arg(fx_node *n, int i, fx_value v)
{
    const fx_type *t = n->type;
    ck_assert_int_eq(fx_node_update_arg(n, i, v), FX_OK);
    n->type = t;
}

static void set_kwarg(fx_node *n, const char *key, fx_value v)
{
    const fx_type *t = n->type;
    ck_assert_int_eq(fx_node_update_kwarg(n, key, v), FX_OK);
    n->type = t;
}

static const fx_type *typed(sample *s, fx_dtype d, int64_t a, int64_t b)
{
    return fx_type_tensor_static(s->ctx, d, 2, (int64_t[]){a, b});
}

/* Each damage. Where an edit can do it, it does; else hands reach inside. */
static void cycle(sample *s) { ck_assert_int_eq(fx_node_replace_input_with(s->mul, s->w, s->relu), FX_OK); }
static void wrong_order(sample *s) { ck_assert_int_eq(fx_node_prepend(s->mul, s->add), FX_OK); }
static void foreign_in_list(sample *s) { s->add->graph = s->other; }
static void foreign_operand(sample *s) { s->add->operands[0].def = s->foreign; }
static void erased_operand(sample *s) { s->w->erased = true; }
static void operand_not_listed(sample *s) { s->w->next->prev = s->x; s->x->next = s->w->next; s->g->n_nodes--; fx_map_remove(&s->g->by_name, s->w->name); }
static void backlink(sample *s) { s->add->prev = s->x; }
static void circle(sample *s) { s->cat->next = s->mul; }
static void last_wrong(sample *s) { s->g->last = s->cat; }
static void count_wrong(sample *s) { s->g->n_nodes++; }
static void id_out_of_range(sample *s) { s->add->id = 5000; }
static void id_twice(sample *s) { s->add->id = s->mul->id; }
static void opcode_wrong(sample *s) { s->add->opcode = 9; }
static void use_unlinked(sample *s) { s->mul->first_use = s->mul->first_use->next; s->mul->first_use->prev = NULL; s->mul->n_uses--; }
static void use_count(sample *s) { s->mul->n_uses = 7; }
static void use_broken(sample *s) { s->mul->last_use->prev = NULL; }
static void use_last(sample *s) { s->mul->last_use = s->mul->first_use; s->mul->first_use->next = NULL; s->mul->n_uses = 1; }
static void use_of_other_user(sample *s) { s->add->operands[0].user = s->relu; }
static void output_not_last(sample *s) { ck_assert_ptr_nonnull(fx_graph_get_attr(s->g, "layer.scale")); }
static void no_output(sample *s) { ck_assert_int_eq(fx_graph_erase_node(s->g, s->output), FX_OK); }
static void two_outputs(sample *s) { fx_graph_output(s->g, fx_v_node(s->x)); }
static void output_of_two(sample *s) { ck_assert_int_eq(fx_node_insert_arg(s->output, 0, fx_v_none()), FX_OK); }
static void output_used(sample *s) { ck_assert_int_eq(fx_node_insert_arg(s->relu, 0, fx_v_node(s->output)), FX_OK); }
static void name_twice(sample *s) { s->add->name = s->mul->name; }
static void no_identifier(sample *s) { fx_map_remove(&s->g->by_name, s->add->name); s->add->name = fx_intern(s->ctx, "a b"); fx_map_put(s->g->arena, &s->g->by_name, s->add->name, s->add); }
static void keyword_name(sample *s) { fx_map_remove(&s->g->by_name, s->add->name); s->add->name = fx_intern(s->ctx, "lambda"); fx_map_put(s->g->arena, &s->g->by_name, s->add->name, s->add); }
static void name_unknown(sample *s) { fx_map_remove(&s->g->by_name, s->add->name); }
static void inputs_alike(sample *s) { ck_assert_int_eq(fx_node_set_target(s->w, "x"), FX_OK); }
static void input_late(sample *s) { ck_assert_int_eq(fx_node_prepend(s->cat, fx_graph_placeholder(s->g, "late", NULL)), FX_OK); }
static void input_of_node(sample *s) { ck_assert_int_eq(fx_node_insert_arg(s->w, 0, fx_v_node(s->x)), FX_OK); }
static void input_of_two(sample *s) { fx_node_insert_arg(s->w, 0, fx_v_int(1)); fx_node_insert_arg(s->w, 0, fx_v_int(1)); }
static void attr_missing(sample *s) { ck_assert_int_eq(fx_graph_delete_attr(s->g, "layer.scale"), FX_OK); }
static void attr_through_tensor(sample *s) { ck_assert_int_eq(fx_node_set_target(s->scale, "layer.scale.T"), FX_OK); }
static void attr_with_arguments(sample *s) { ck_assert_int_eq(fx_node_insert_arg(s->scale, 0, fx_v_int(1)), FX_OK); }
static void attr_type(sample *s) { s->attr->type = typed(s, FX_F64, 2, 3); }
static void attr_node_type(sample *s) { s->scale->type = typed(s, FX_F32, 3, 3); }
static void attr_past_storage(sample *s) { s->attr->tensor.strides[0] = 1000; }
static void no_target(sample *s) { s->relu->target = ""; }
static void row_wrong(sample *s) { s->add->op = &fx_ops[FX_OP_relu]; }
static void module_missing(sample *s) { ck_assert_int_eq(fx_graph_delete_submodule(s->g, "act"), FX_OK); }
static void module_is_tensor(sample *s) { ck_assert_int_eq(fx_node_set_target(s->relu, "layer.scale"), FX_OK); }
static void module_is_container(sample *s) { ck_assert_int_eq(fx_node_set_target(s->relu, "list"), FX_OK); }
static void module_is_plain(sample *s) { ck_assert_int_eq(fx_node_set_target(s->relu, "layer"), FX_OK); }
static void body_needs_more(sample *s) { fx_value v = fx_v_node(s->x); ck_assert_int_eq(fx_node_set_args(s->part, 1, &v), FX_OK); }
static void body_given_more(sample *s) { fx_node_insert_arg(s->part, 0, fx_v_int(1)); fx_node_insert_arg(s->part, 0, fx_v_int(1)); }
static void body_given_twice(sample *s) { set_kwarg(s->part, "p", fx_v_int(1)); }
static void body_unknown_input(sample *s) { set_kwarg(s->part, "z", fx_v_int(1)); }
static void method_without_self(sample *s) { ck_assert_int_eq(fx_node_set_args(s->sum, 0, NULL), FX_OK); }
static void args_no_tuple(sample *s) { s->add->args = fx_arg_int(s->ctx, 1); }
static void kwargs_no_dict(sample *s) { s->add->kwargs = fx_arg_int(s->ctx, 1); }
static void kwargs_twice(sample *s) { const char *k[] = {"alpha", "alpha"}; const fx_arg *a[] = {fx_arg_int(s->ctx, 1), fx_arg_int(s->ctx, 2)}; s->add->kwargs = fx_arg_dict(s->ctx, 2, k, a); }
static void operand_out_of_range(sample *s) { const fx_arg *a[] = {fx_arg_operand(s->ctx, 0), fx_arg_operand(s->ctx, 4)}; s->add->args = fx_arg_seq(s->ctx, FX_ARG_TUPLE, 2, a); }
static void operand_order(sample *s) { const fx_arg *a[] = {fx_arg_operand(s->ctx, 1), fx_arg_operand(s->ctx, 0)}; s->add->args = fx_arg_seq(s->ctx, FX_ARG_TUPLE, 2, a); }
static void note_with_node(sample *s) { fx_node_set_meta(s->add, "k", fx_v_int(1)); s->add->meta->value = fx_arg_operand(s->ctx, 0); }
static void graph_in_itself(sample *s) { const fx_arg *a = fx_arg_graph(s->ctx, s->g); s->sum->kwargs = fx_arg_dict(s->ctx, 1, (const char *[]){"body"}, &a); }
static void graph_of_other_context(sample *s) { const fx_arg *a = fx_arg_graph(s->ctx, fx_graph_create(s->other_ctx, "far")); s->sum->kwargs = fx_arg_dict(s->ctx, 1, (const char *[]){"body"}, &a); }
static void broken_subgraph(sample *s) { fx_graph *sub = fx_graph_create(s->ctx, "sub"); const fx_arg *a = fx_arg_graph(s->ctx, sub); s->sum->kwargs = fx_arg_dict(s->ctx, 1, (const char *[]){"body"}, &a); }
/* by schema */
static void too_many(sample *s) { for (int i = 0; i < 4; i++) fx_node_insert_arg(s->add, 9, fx_v_int(1)); }
static void unknown_keyword(sample *s) { set_kwarg(s->add, "beta", fx_v_int(1)); }
static void given_twice(sample *s) { set_kwarg(s->add, "other", fx_v_node(s->x)); }
static void required_missing(sample *s) { fx_value v = fx_v_node(s->x); ck_assert_int_eq(fx_node_set_args(s->add, 1, &v), FX_OK); }
static void wrong_kind(sample *s) { set_kwarg(s->add, "alpha", fx_v_str("two")); }
static void wrong_item(sample *s) { fx_value v[2] = {fx_v_node(s->x), fx_v_str("y")}; set_arg(s->cat, 0, fx_v_list(2, v)); }
static void method_argument(sample *s) { set_kwarg(s->sum, "keepdim", fx_v_str("yes")); }
static void module_setting(sample *s) { const fx_arg *a = fx_arg_int(s->ctx, 3); fx_graph_get_submodule(s->g, "act")->config = fx_arg_dict(s->ctx, 1, (const char *[]){"size"}, &a); }
static void module_setting_kind(sample *s) { const fx_arg *a = fx_arg_text(s->ctx, FX_ARG_STR, "x"); fx_graph_get_submodule(s->g, "act")->config = fx_arg_dict(s->ctx, 1, (const char *[]){"inplace"}, &a); }
static void module_arity(sample *s) { fx_node_insert_arg(s->relu, 1, fx_v_int(1)); }
/* by inference */
static void shape_wrong(sample *s) { s->mul->type = typed(s, FX_F32, 6, 1); }
static void dtype_wrong(sample *s) { s->add->type = typed(s, FX_F64, 2, 3); }
static void shapes_contradict(sample *s) { s->w->type = typed(s, FX_F32, 2, 5); }
static void method_type(sample *s) { s->sum->type = typed(s, FX_F32, 2, 3); }

enum { SHAPES = FX_LINT_TYPES, SCHEMA = FX_LINT_SCHEMA, BARE = FX_LINT_STRUCTURE };

static const struct {
    const char *name;
    void (*damage)(sample *s);
    unsigned what;
    const char *node, *message;
} cases[] = {
    {"cycle", cycle, BARE, "mul", "'relu', comes only later: a cycle or a wrong order"},
    {"wrong_order", wrong_order, BARE, "add", "'mul', comes only later: a cycle or a wrong order"},
    {"foreign_in_list", foreign_in_list, BARE, "add", "the node in the list belongs to another graph"},
    {"foreign_operand", foreign_operand, BARE, "add", "operand 0, 'stranger', belongs to another graph"},
    {"erased_operand", erased_operand, BARE, "mul", "operand 1, 'w', is erased"},
    {"erased_in_list", erased_operand, BARE, "w", "an erased node is still in the list"},
    {"operand_not_listed", operand_not_listed, BARE, "mul", "operand 1, 'w', is not in the list of nodes"},
    {"backlink", backlink, BARE, "add", "its link back does not lead to 'mul'"},
    {"circle", circle, BARE, "mul", "or runs in a circle"},
    {"last_wrong", last_wrong, BARE, NULL, "the last node is 'cat', expected 'output'"},
    {"count_wrong", count_wrong, BARE, NULL, "the graph counts 11 nodes, expected 10"},
    {"id_out_of_range", id_out_of_range, BARE, "add", "its id is 5000, expected below"},
    {"id_twice", id_twice, BARE, "add", "the list of nodes holds the id 3 twice"},
    {"opcode_wrong", opcode_wrong, BARE, "add", "the opcode is 9, expected 0 to 5"},
    {"use_unlinked", use_unlinked, BARE, "add", "the list of uses of 'mul' lacks this use"},
    {"use_count", use_count, BARE, "mul", "its uses are counted as 7, expected 2"},
    {"use_broken", use_broken, BARE, "mul", "its list of uses is broken at the use by 'cat'"},
    {"use_last", use_last, BARE, "cat", "the list of uses of 'mul' lacks this use"},
    {"use_of_other_user", use_of_other_user, BARE, "add", "the use of operand 0 names another user"},
    {"output_not_last", output_not_last, BARE, "output", "the output is not the last node: 'layer_scale_1' follows"},
    {"no_output", no_output, BARE, NULL, "the graph has 0 output nodes, expected 1"},
    {"two_outputs", two_outputs, BARE, NULL, "the graph has 2 output nodes, expected 1"},
    {"output_of_two", output_of_two, BARE, "output", "the output takes one argument, got 2"},
    {"output_used", output_used, BARE, "relu", "operand 0 is the output node"},
    {"name_twice", name_twice, BARE, "add", "the name 'mul' is used by two nodes"},
    {"no_identifier", no_identifier, BARE, NULL, "the name 'a b' is no identifier of Python"},
    {"keyword_name", keyword_name, BARE, NULL, "the name 'lambda' is a keyword of Python"},
    {"name_unknown", name_unknown, BARE, "add", "the name 'add' is not in the table of names"},
    {"name_table", name_unknown, BARE, NULL, "the table of names has 9 entries, expected 10"},
    {"inputs_alike", inputs_alike, BARE, "w", "its target 'x' is that of the placeholder 'x' too"},
    {"input_late", input_late, BARE, "late", "a placeholder stands after other nodes"},
    {"input_of_node", input_of_node, BARE, "w", "a placeholder takes no operands, got 1"},
    {"input_of_two", input_of_two, BARE, "w", "a placeholder takes a default at most, got 2"},
    {"attr_missing", attr_missing, BARE, "layer_scale", "get_attr of 'layer.scale', which does not exist"},
    {"attr_through_tensor", attr_through_tensor, BARE, "layer_scale", "get_attr of 'layer.scale.T' leads through 'layer.scale', which is no module but a tensor"},
    {"attr_with_arguments", attr_with_arguments, BARE, "layer_scale", "a get_attr node takes no arguments, got 1"},
    {"attr_type", attr_type, BARE, "layer_scale", "the attribute 'layer.scale' has type f64[2, 3], but its tensor is f32[2, 3]"},
    {"attr_node_type", attr_node_type, BARE, "layer_scale", "its type is f32[3, 3], expected that of the attribute, f32[2, 3]"},
    {"attr_past_storage", attr_past_storage, BARE, NULL, "the tensor 'layer.scale' reaches past its storage of 24 bytes"},
    {"no_target", no_target, BARE, "relu", "the node has no target"},
    {"row_wrong", row_wrong, BARE, "add", "its row is aten.relu.default, expected that of its target 'torch.add'"},
    {"module_missing", module_missing, BARE, "relu", "call_module of 'act', which does not exist"},
    {"module_is_tensor", module_is_tensor, BARE, "relu", "call_module of 'layer.scale', which is no module but a tensor"},
    {"module_is_container", module_is_container, BARE, "relu", "call_module of 'list', a torch.nn.ModuleList, which cannot be called"},
    {"module_is_plain", module_is_plain, BARE, "relu", "call_module of 'layer', a plain module, which cannot be called"},
    {"body_needs_more", body_needs_more, BARE, "part", "module 'part' needs a value for its input 'q'"},
    {"body_given_more", body_given_more, BARE, "part", "module 'part' has 3 inputs, got 4"},
    {"body_given_twice", body_given_twice, BARE, "part", "the input 'p' of module 'part' is given twice"},
    {"body_unknown_input", body_unknown_input, BARE, "part", "module 'part' has no input of a keyword given to it, 'z'"},
    {"method_without_self", method_without_self, BARE, "sum_1", "a call_method needs the node it is called on as its first argument"},
    {"args_no_tuple", args_no_tuple, BARE, "add", "args is int, expected a tuple"},
    {"kwargs_no_dict", kwargs_no_dict, BARE, "add", "kwargs is int, expected a dict"},
    {"kwargs_twice", kwargs_twice, BARE, "add", "the keyword 'alpha' is given twice"},
    {"operand_out_of_range", operand_out_of_range, BARE, "add", "an argument names operand 4, expected one of 2"},
    {"operand_order", operand_order, BARE, "add", "operands are not numbered from left to right"},
    {"note_with_node", note_with_node, BARE, "add", "its note 'k' holds a node"},
    {"graph_in_itself", graph_in_itself, BARE, NULL, "the graph holds itself as a subgraph"},
    {"graph_of_other_context", graph_of_other_context, BARE, NULL, "the subgraph 'far' belongs to another context"},
    {"broken_subgraph", broken_subgraph, BARE, NULL, "the graph has 0 output nodes, expected 1"},
    {"too_many", too_many, SCHEMA, "add", "torch.add takes at most 3 arguments, got 6"},
    {"unknown_keyword", unknown_keyword, SCHEMA, "add", "torch.add has no argument 'beta'"},
    {"given_twice", given_twice, SCHEMA, "add", "argument 'other' of torch.add is given twice"},
    {"required_missing", required_missing, SCHEMA, "add", "argument 'other' of torch.add: expected Tensor, got nothing"},
    {"wrong_kind", wrong_kind, SCHEMA, "add", "argument 'alpha' of torch.add: expected Scalar, got str"},
    {"wrong_item", wrong_item, SCHEMA, "cat", "argument 'tensors' of torch.cat: expected Tensor[], got str as item 1"},
    {"method_argument", method_argument, SCHEMA, "sum_1", "has no argument 'keepdim'|expected"},
    {"module_setting", module_setting, SCHEMA, "relu", "torch.nn.ReLU has no setting 'size'"},
    {"module_setting_kind", module_setting_kind, SCHEMA, "relu", "'inplace' of torch.nn.ReLU: expected bool, got str"},
    {"module_arity", module_arity, SCHEMA, "relu", "torch.nn.ReLU takes one input, got 2"},
    {"shape_wrong", shape_wrong, SHAPES, "mul", "its type is f32[6, 1], expected f32[2, 3]"},
    {"dtype_wrong", dtype_wrong, SHAPES, "add", "its type is f64[2, 3], expected f32[2, 3]"},
    {"shapes_contradict", shapes_contradict, SHAPES, "mul", "broadcast"},
    {"method_type", method_type, SHAPES, "sum_1", "its type is f32[2, 3], expected f32[2]"},
};

/* One of the parts that "|" separates. */
static bool holds(const char *text, const char *parts)
{
    char part[200];
    for (const char *p = parts; *p; p += strlen(part) + (p[strlen(part)] == '|')) {
        snprintf(part, sizeof part, "%.*s", (int)strcspn(p, "|"), p);
        if (strstr(text, part))
            return true;
    }
    return false;
}

START_TEST(damage_is_found)
{
    sample s = make();
    ck_assert_msg(fx_graph_lint(s.g, FX_LINT_ALL) == FX_OK, "%s", unit_message(s.ctx));
    ck_assert_uint_eq(fx_diag_count(s.ctx), 0);
    cases[_i].damage(&s);
    ck_assert_uint_eq(fx_diag_count(s.ctx), 0);
    if (cases[_i].what != BARE) /* found by no less */
        ck_assert_int_eq(fx_graph_lint(s.g, cases[_i].what == SHAPES ? SCHEMA : BARE), FX_OK);
    ck_assert_int_eq(fx_graph_lint(s.g, cases[_i].what), cases[_i].what == BARE ? FX_ERR_ARGUMENT : FX_ERR_TYPE);
    bool found = false;
    for (size_t i = 0; i < fx_diag_count(s.ctx); i++) {
        const fx_diag *d = fx_diag_get(s.ctx, i);
        found = found || (holds(d->message, cases[_i].message) && (!cases[_i].node || (d->node && strcmp(d->node, cases[_i].node) == 0)));
    }
    const fx_diag *first = fx_diag_get(s.ctx, 0);
    ck_assert_msg(found, "%s: expected '%s' at '%s', got '%s' at '%s'", cases[_i].name, cases[_i].message, cases[_i].node ? cases[_i].node : "",
                  first->message, first->node ? first->node : "");
    fx_context_free(s.ctx);
    fx_context_free(s.other_ctx);
}
END_TEST

/* Lint looks only: the graph stays as it was written. */
START_TEST(lint_changes_nothing)
{
    sample s = make();
    char *before = unit_text(s.g);
    ck_assert_int_eq(fx_graph_lint(s.g, FX_LINT_ALL), FX_OK);
    char *after = unit_text(s.g);
    ck_assert_str_eq(before, after);
    ck_assert_int_eq(s.g->stage, FX_STAGE_CAPTURED);
    free(before);
    free(after);
    fx_context_free(s.ctx);
    fx_context_free(s.other_ctx);
}
END_TEST

/* All findings are told, up to a number, and how many more there were. */
START_TEST(all_findings_are_told)
{
    sample s = make();
    for (int i = 0; i < 70; i++) {
        fx_insert_point at = fx_graph_inserting_before(s.g, s.output);
        fx_graph_get_attr(s.g, "nothing");
        fx_graph_restore_insert_point(at);
    }
    ck_assert_int_eq(fx_graph_lint(s.g, BARE), FX_ERR_ARGUMENT);
    ck_assert_uint_eq(fx_diag_count(s.ctx), 51);
    ck_assert_str_eq(unit_message(s.ctx), "20 more findings");
    fx_context_free(s.ctx);
    fx_context_free(s.other_ctx);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_loop_test(t, damage_is_found, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_test(t, lint_changes_nothing);
    tcase_add_test(t, all_findings_are_told);
}

int main(void)
{
    return unit_run("lint", 120, NULL, NULL, add_tests);
}
