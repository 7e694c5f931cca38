/* tests/unit/test_frontend.c: .pt2 files: what is read, and what is said of bad ones.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <unistd.h>

#include "pt2_files.h"

static fx_context *ctx;
static bytes held[16]; /* memory that a context may look into until it is gone */
static int n_held;

static void set_up(void)
{
    ctx = fx_context_create();
    n_held = 0;
}

static void tear_down(void)
{
    fx_context_free(ctx);
    while (n_held)
        free(held[--n_held].data);
}

static void all_diags(char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = 0;
    for (size_t i = 0; i < fx_diag_count(ctx) && n + 1 < size; i++) {
        n += fx_diag_format(fx_diag_get(ctx, i), buf + n, size - n);
        if (n + 1 < size) {
            buf[n++] = '\n';
            buf[n] = 0;
        }
    }
}

static fx_graph *load(const char *name)
{
    fx_graph *g = NULL;
    char text[4000];
    fx_status status = fx_load(ctx, fixture_path(name), &g);
    all_diags(text, sizeof text);
    ck_assert_msg(status == FX_OK, "%s: %s", name, text);
    ck_assert_int_eq(g->stage, FX_STAGE_IMPORTED);
    return g;
}

static fx_node *node(const fx_graph *g, const char *name)
{
    fx_node *n = fx_graph_find_node(g, name);
    ck_assert_msg(n != NULL, "no node %s", name);
    return n;
}

static const fx_tensor *weight(fx_graph *g, const char *path)
{
    fx_attr *a = fx_attr_find(g, path);
    ck_assert_msg(a != NULL, "no attribute %s", path);
    ck_assert_int_eq(fx_tensor_touch(ctx, &a->tensor), FX_OK);
    return &a->tensor;
}

static const char *type_text(const fx_type *t)
{
    fx_text s;
    fx_text_init(&s, fx_context_arena(ctx));
    fx_type_print(&s, t);
    return s.data;
}

/* The args of a node, as print.c spells them. */
static const char *args_text(const fx_node *n)
{
    fx_text s;
    fx_text_init(&s, fx_context_arena(ctx));
    fx_arg_print(&s, n->args, n);
    return s.data;
}

START_TEST(graphs_keep_names_types_and_places)
{
    fx_graph *g = load("plain");
    ck_assert_str_eq(g->name, "plain");
    ck_assert_int_eq(g->first->opcode, FX_PLACEHOLDER);
    ck_assert_str_eq(g->first->name, "x");
    ck_assert_str_eq(type_text(g->first->type), "f32[2, 3, 8, 8]");
    fx_node *conv = node(g, "conv2d");
    ck_assert_str_eq(conv->target, "aten.conv2d.default");
    ck_assert_int_eq(conv->op->id, FX_OP_conv2d);
    ck_assert_str_eq(conv->loc.module, "conv");
    ck_assert_ptr_nonnull(strstr(conv->loc.frame, "frontend/make_fixtures.py:"));
    ck_assert_str_eq(fx_module_find(g, "conv")->class_name, "torch.nn.modules.conv.Conv2d");
    ck_assert_ptr_eq(fx_node_input(conv, 0), g->first);
    ck_assert_str_eq(fx_node_input(conv, 1)->target, "conv.weight");
    int64_t padding[2] = {0};
    ck_assert_int_eq(fx_node_ints(conv, 4, padding, 2), 2);
    ck_assert_int_eq(padding[0], 1);
    ck_assert_int_eq(fx_node_int(conv, 6), 1); /* groups: a default, filled in */
    ck_assert_str_eq(node(g, "relu_")->target, "aten.relu_.default");
    ck_assert(fx_node_is_inplace(node(g, "relu_")));
    fx_node *max = node(g, "adaptive_max_pool2d");
    ck_assert_str_eq(type_text(max->type), "(f32[2, 4, 1, 1], i64[2, 4, 1, 1])");
    ck_assert_int_eq(max->n_uses, 1); /* the index is not read */
    ck_assert_str_eq(max->first_use->user->name, "getitem_2");
    ck_assert_ptr_null(fx_graph_find_node(g, "b_bn_num_batches_tracked"));
    fx_node *out = fx_graph_output_node(g);
    ck_assert_int_eq(out->args->n, 1);
    ck_assert_int_eq(out->args->items[0]->n, 4);
    ck_assert_int_eq(out->args->items[0]->items[3]->kind, FX_ARG_NONE);
    ck_assert_int_eq(out->n_operands, 3);
}
END_TEST

START_TEST(decomposed_graphs_are_read_too)
{
    fx_graph *g = load("plain_decomposed");
    ck_assert_int_eq(node(g, "convolution")->op->id, FX_OP_convolution);
    const fx_node *bn = node(g, "_native_batch_norm_legit_no_training");
    ck_assert_str_eq(type_text(bn->type), "(f32[2, 4, 8, 8], f32[0], f32[0])");
    ck_assert_int_eq(bn->n_uses, 1);
    ck_assert_int_eq(node(g, "addmm")->n_operands, 3);
}
END_TEST

START_TEST(weights_have_the_strides_of_the_file)
{
    fx_graph *g = load("plain");
    fx_attr *a = fx_attr_find(g, "conv.weight");
    ck_assert(a->is_parameter);
    ck_assert_ptr_null(a->tensor.storage->data); /* not read yet */
    const fx_tensor *w = weight(g, "conv.weight"); /* channels last */
    ck_assert_int_eq(w->strides[1], 1);
    for (int64_t i = 0; i < 108; i++)
        ck_assert_double_eq_tol(fx_tensor_get(w, i), 0.01 * (double)i, 1e-6);
    const fx_tensor *fc = weight(g, "fc.weight"); /* transposed: element [i][j] is 5 j + i */
    ck_assert_int_eq(fc->sizes[0], 5);
    ck_assert_int_eq(fc->sizes[1], 4);
    for (int64_t i = 0; i < 5; i++)
        for (int64_t j = 0; j < 4; j++)
            ck_assert_double_eq(fx_tensor_get(fc, 4 * i + j), (double)(5 * j + i));
    ck_assert_ptr_nonnull(a->tensor.storage->data);
}
END_TEST

static void expect_values(fx_graph *g, const char *path, fx_dtype dtype, int n, const double *values)
{
    const fx_tensor *t = weight(g, path);
    ck_assert_int_eq(t->dtype, dtype);
    ck_assert_int_eq(fx_tensor_numel(t), n);
    for (int i = 0; i < n; i++)
        ck_assert_double_eq(fx_tensor_get(t, i), values[i]);
}

START_TEST(storages_are_shared_as_in_pytorch)
{
    fx_graph *g = load("storage");
    const fx_tensor *head = weight(g, "head"), *tail = weight(g, "tail"), *whole = weight(g, "whole");
    ck_assert_ptr_eq(head->storage, whole->storage);
    ck_assert_ptr_eq(tail->storage, whole->storage);
    ck_assert_ptr_eq((char *)tail->data, (char *)whole->data + 8 * sizeof(float));
    expect_values(g, "head", FX_F32, 4, (double[]){100, 101, 102, 103});
    expect_values(g, "tail", FX_F32, 4, (double[]){108, 109, 110, 111});
    expect_values(g, "b", FX_BF16, 4, (double[]){1.5, 2.5, 3.5, 4.5});
    expect_values(g, "h", FX_F16, 4, (double[]){0.25, 1.25, 2.25, 3.25});
    expect_values(g, "d", FX_F64, 4, (double[]){0, 1, 2, 3});
    expect_values(g, "i", FX_I32, 4, (double[]){0, 1, 2, 3});
    expect_values(g, "m", FX_BOOL, 4, (double[]){1, 0, 1, 0});
    expect_values(g, "hidden", FX_F32, 4, (double[]){7, 8, 9, 10});
    expect_values(g, "constant", FX_F32, 4, (double[]){-3, -2, -1, 0});
    expect_values(g, "empty", FX_F32, 0, NULL);
    expect_values(g, "lifted_tensor_0", FX_F32, 1, (double[]){2});
    ck_assert(!fx_attr_find(g, "hidden")->persistent);
    ck_assert(fx_attr_find(g, "head")->persistent);
    ck_assert(!fx_attr_find(g, "head")->is_parameter);
    const fx_node *first = node(g, "linear"), *second = node(g, "linear_1"); /* one weight for two layers */
    ck_assert_ptr_eq(fx_node_input(first, 1), fx_node_input(second, 1));
    ck_assert_str_eq(first->loc.module, "first");
    ck_assert_str_eq(second->loc.module, "second");
}
END_TEST

START_TEST(sizes_may_be_symbols)
{
    fx_graph *g = load("dynamic");
    ck_assert_uint_eq(g->n_symbols, 2);
    ck_assert_int_eq(g->symbols[0].min, 2);
    ck_assert_int_eq(g->symbols[0].max, 64);
    ck_assert_int_eq(g->symbols[1].max, INT64_MAX);
    const char *s0 = g->symbols[0].name;
    const fx_sym *batch = fx_sym_symbol(ctx, s0);
    ck_assert_ptr_eq(g->first->type->dims[0].sym, batch);
    ck_assert_int_eq(g->first->type->dims[2].value, 3);
    const fx_sym *two[2] = {fx_sym_int(ctx, 2), batch};
    const fx_node *mul = node(g, "mul_1");
    ck_assert_int_eq(mul->type->kind, FX_TYPE_INT);
    ck_assert_ptr_eq(mul->type->value.sym, fx_sym_make(ctx, FX_SYM_MUL, 2, two));
    ck_assert_str_eq(mul->target, "_operator.mul");
    ck_assert_str_eq(args_text(node(g, "reshape")), "(%x, [%mul, 3])");
}
END_TEST

static const fx_arg *leaf(int64_t i)
{
    return fx_arg_int(ctx, i);
}

START_TEST(inputs_and_outputs_may_be_nested)
{
    fx_graph *g = load("nested");
    const char *c = fx_intern(ctx, "c"), *keys[3] = {fx_intern(ctx, "scale"), fx_intern(ctx, "mask"), fx_intern(ctx, "extra")};
    const fx_arg *pair[2] = {leaf(0), leaf(1)}, *two = leaf(2), *none = fx_arg_none(ctx);
    const fx_arg *list = fx_arg_seq(ctx, FX_ARG_LIST, 1, &two);
    const fx_arg *args[2] = {fx_arg_seq(ctx, FX_ARG_TUPLE, 2, pair), fx_arg_dict(ctx, 1, &c, &list)};
    const fx_arg *kwargs[3] = {none, none, leaf(3)};
    const fx_arg *in[2] = {fx_arg_seq(ctx, FX_ARG_TUPLE, 2, args), fx_arg_dict(ctx, 3, keys, kwargs)};
    ck_assert_ptr_eq(g->in_tree, fx_arg_seq(ctx, FX_ARG_TUPLE, 2, in));
    const char *sum = fx_intern(ctx, "sum");
    const fx_arg *inner[2] = {leaf(1), fx_arg_dict(ctx, 1, &sum, &two)}, *out[2] = {leaf(0), fx_arg_seq(ctx, FX_ARG_TUPLE, 2, inner)};
    ck_assert_ptr_eq(g->out_tree, fx_arg_seq(ctx, FX_ARG_LIST, 2, out));
    ck_assert_uint_eq(fx_diag_count(ctx), 1); /* scale was baked in: a remark */
    ck_assert_int_eq(fx_diag_get(ctx, 0)->severity, FX_REMARK);
    const fx_node *last = node(g, "extra");
    ck_assert_int_eq(last->opcode, FX_PLACEHOLDER);
    ck_assert_ptr_eq(fx_node_next(last), node(g, "mul"));
    ck_assert_ptr_null(load("scalars")->in_tree);
}
END_TEST

START_TEST(arguments_of_all_kinds_are_read)
{
    fx_graph *g = load("scalars");
    ck_assert_double_eq(fx_node_float(node(g, "clamp"), 2), (double)INFINITY);
    ck_assert_int_eq(fx_node_int(node(g, "clamp"), 1), 0);
    ck_assert_double_eq(fx_node_float(node(g, "masked_fill"), 2), -(double)INFINITY);
    ck_assert(isnan(fx_node_float(node(g, "full_like"), 1)));
    ck_assert_int_eq(fx_node_arg(node(g, "to_1"), 1)->i, FX_F64);
    ck_assert_double_eq(fx_node_float(node(g, "add"), 2), 3);
    ck_assert_str_eq(fx_node_arg(node(g, "gelu"), 1)->s, "tanh");
    ck_assert_str_eq(fx_node_arg(node(g, "div"), 2)->s, "floor");
    const fx_node *to = node(g, "to");
    bool found = false;
    for (int i = 0; i < to->kwargs->n; i++)
        if (!strcmp(to->kwargs->keys[i], "memory_format")) {
            ck_assert_int_eq(to->kwargs->items[i]->kind, FX_ARG_MEMORY_FORMAT);
            ck_assert_str_eq(to->kwargs->items[i]->s, "torch.channels_last");
            found = true;
        }
    ck_assert(found || to->op);
    ck_assert_int_eq(node(g, "_assert_tensor_metadata_default")->type->kind, FX_TYPE_NONE);
}
END_TEST

START_TEST(subgraphs_are_arguments)
{
    fx_graph *g = load("cond");
    const fx_node *cond = node(g, "cond");
    ck_assert_str_eq(cond->target, "higher_order.cond");
    ck_assert_ptr_null(cond->op);
    ck_assert_int_eq(cond->args->items[1]->kind, FX_ARG_GRAPH);
    fx_graph *yes = cond->args->items[1]->graph, *no = cond->args->items[2]->graph;
    ck_assert_str_eq(yes->name, "true_graph_0");
    ck_assert_int_eq(yes->first->opcode, FX_PLACEHOLDER);
    ck_assert_int_eq(yes->first->next->op->id, FX_OP_add_Tensor);
    ck_assert_int_eq(no->first->next->op->id, FX_OP_mul_Tensor);
    ck_assert_str_eq(type_text(cond->type), "(f32[3],)");
    ck_assert_str_eq(node(g, "getitem")->target, "_operator.getitem");
}
END_TEST

START_TEST(unknown_ops_are_kept_as_written)
{
    fx_graph *g = load("unsupported");
    const fx_node *fft = node(g, "fft_fft");
    ck_assert_ptr_null(fft->op);
    ck_assert_str_eq(fft->target, "aten.fft_fft.default");
    ck_assert_str_eq(type_text(fft->type), "c64[4, 4]");
    ck_assert_int_eq(node(g, "mul")->args->items[1]->kind, FX_ARG_COMPLEX);
    ck_assert_double_eq(node(g, "mul")->args->items[1]->im, 2);
    ck_assert_ptr_null(node(g, "histc_1")->op);
}
END_TEST

START_TEST(names_are_whatever_the_model_says)
{
    fx_graph *g = load("names");
    ck_assert_ptr_nonnull(fx_attr_find(g, "a/b.weight"));
    ck_assert_ptr_nonnull(fx_attr_find(g, "*/.bias"));
    ck_assert_ptr_nonnull(fx_attr_find(g, "new\nline.bias"));
    ck_assert_ptr_nonnull(fx_attr_find(g, "\xC3\xBCn\xC3\xAF" "c\xC3\xB6" "de.bias"));
    ck_assert_str_eq(node(g, "linear_2")->loc.module, "quo\"te");
    ck_assert_str_eq(g->first->target, "input");
    ck_assert_str_eq(g->first->next->target, "int");
    expect_values(g, "int.bias", FX_F32, 2, (double[]){4, 5});
}
END_TEST

/* The signature's new values of buffers and inputs are written back by the last calls; the outputs are the user's. */
START_TEST(changed_buffers_and_inputs_are_written)
{
    static const struct {
        const char *model, *to, *value, *result;
    } cases[] = {{"counter", "b_num_batches_tracked", "add", "mul"}, {"mutation", "b_state", "add", "add_1"}, {"input_mutation", "x", "mul", "add"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_graph *g = load(cases[i].model);
        const fx_node *output = fx_graph_output_node(g), *copy = output->prev;
        ck_assert_int_eq(output->n_operands, 1);
        ck_assert_str_eq(output->operands[0].def->name, cases[i].result);
        ck_assert_str_eq(copy->target, "aten.copy_.default");
        ck_assert_str_eq(copy->operands[0].def->name, cases[i].to);
        ck_assert_str_eq(copy->operands[1].def->name, cases[i].value);
        ck_assert_int_eq(copy->n_uses, 0);
    }
    fx_graph *g = load("counter_inplace");
    ck_assert_ptr_nonnull(fx_graph_find_node(g, "add_"));
    ck_assert_ptr_nonnull(fx_graph_find_node(g, "b_num_batches_tracked"));
    ck_assert_int_eq(fx_graph_output_node(g)->n_operands, 1);
}
END_TEST

START_TEST(other_versions_with_raw_weights_are_read)
{
    static const char *const names[] = {"old/torch-2.9.1", "old/torch-2.10.0", "old/torch-2.11.0", "old/torch-2.12.1", "old/torch-2.15.0"};
    fx_graph *g = load(names[_i]);
    ck_assert_int_eq(node(g, "conv2d")->op->id, FX_OP_conv2d);
    ck_assert_str_eq(node(g, "relu_")->target, "aten.relu_.default");
    expect_values(g, "conv.bias", FX_F32, 4, (double[]){1.0f, 1.01f, 1.02f, 1.03f});
    expect_values(g, "shift", FX_F32, 4, (double[]){0, 1, 2, 3});
}
END_TEST

/* Loads bytes; the status and texts must be as said. */
static void expect_bad(bytes file, fx_status status, const char *message)
{
    fx_graph *g = NULL;
    char text[4000];
    held[n_held++] = file;
    fx_status got = fx_load_memory(ctx, "test.pt2", file.data, file.size, &g);
    all_diags(text, sizeof text);
    ck_assert_ptr_null(g);
    ck_assert_msg(got == status && strstr(text, message), "expected %s, '%s'; got %s: %s", fx_status_string(status), message,
                  fx_status_string(got), text);
}

static const struct {
    const char *fixture, *entry, *from, *to;
    fx_status status;
    const char *message;
} bad[] = {
    {"mutation", "models/model.json", "\"buffer_name\": \"state\"}", "\"buffer_name\": \"stats\"}", FX_ERR_FORMAT, "'add' is the new value of 'stats': expected a value and a buffer"},
    {"input_mutation", "models/model.json", "\"user_input_name\": \"x\"", "\"user_input_name\": \"y\"", FX_ERR_FORMAT, "'mul' is the new value of 'y': expected a value and an input"},
    {"old/torch-2.8.0", NULL, NULL, NULL, FX_ERR_UNSUPPORTED, "torch 2.8.0+cu128 pickled the weights"},
    {"counter", "models/model.json", "\"major\": 8", "\"major\": 9", FX_ERR_UNSUPPORTED, "expected export schema 8, got 9."},
    {"counter", "models/model.json", "\"major\": 8", "\"major\": 7", FX_ERR_UNSUPPORTED, "save again with torch"},
    {"counter", "archive_format", "pt2", "pt3", FX_ERR_FORMAT, "archive_format 'pt2', got 'pt3'"},
    {"counter", "archive_version", "0", "1", FX_ERR_UNSUPPORTED, "archive_version 0, got 1"},
    {"counter", "byteorder", "little", "big", FX_ERR_UNSUPPORTED, "got 'big'"},
    {"counter", "models/model.json", "\"as_tensor\": {\"name\": \"x\"}}, \"kind\"", "\"as_tensor\": {\"name\": \"y\"}}, \"kind\"",
     FX_ERR_FORMAT, "uses 'y'"},
    {"counter", "models/model.json", "{\"name\": \"self\", \"arg\": {\"as_tensor\": {\"name\": \"x\"}}",
     "{\"name\": \"self\", \"arg\": {\"as_tensor\": {\"name\": \"mul\"}}", FX_ERR_FORMAT, "uses 'mul', which no earlier node makes"},
    {"counter", "models/model.json", "\"dtype\": 7", "\"dtype\": 28", FX_ERR_UNSUPPORTED, "dtype uint16 is not supported"},
    {"counter", "models/model.json", "\"dtype\": 7", "\"dtype\": 99", FX_ERR_FORMAT, "expected the number of a dtype, got 99"},
    {"counter", "models/model.json", "\"dtype\": 7", "\"dtype\": 7.5", FX_ERR_FORMAT, "expected 'dtype' to be an integer, got a number"},
    {"counter", "models/model.json", "\"as_int\": 3}", "\"as_int\": 9223372036854775807}", FX_ERR_FORMAT, "overflows"},
    {"counter", "models/model.json", "\"as_int\": 3}", "\"as_int\": 9223372036854775808}", FX_ERR_FORMAT, "an integer of more than 64 bits"},
    {"counter", "models/model.json", "\"as_int\": 3}", "\"as_int\": -3}", FX_ERR_FORMAT, "at least 0, got -3"},
    {"counter", "models/model.json", "\"as_int\": 3}", "\"as_bool\": true}", FX_ERR_FORMAT, "expected as_int or as_expr"},
    {"counter", "models/model.json", "\"layout\": 7", "\"layout\": 1", FX_ERR_UNSUPPORTED, "torch.sparse_coo"},
    {"counter", "models/model.json", "torch.ops.aten.mul.Tensor", "torch.ops.aten.sub.Tensor\", \"target\": \"", FX_ERR_FORMAT, "is there twice"},
    {"counter", "models/model.json", "\"graph_module\": {", "\"graph_module\": {,", FX_ERR_FORMAT, "malformed JSON"},
    {"counter", "models/model.json", "\"input_specs\": [", "\"input_specs\": [{\"token\": {}}, ", FX_ERR_FORMAT, "the graph has 2 inputs, its signature 3"},
    {"counter", "models/model.json", "\"user_input\": ", "\"future_input\": ", FX_ERR_UNSUPPORTED, "'future_input'"},
    {"counter", "models/model.json", "\"user_output\": ", "\"loss_output\": ", FX_ERR_UNSUPPORTED, "'loss_output'"},
    {"counter", "models/model.json", "\"buffer_name\": \"num_batches_tracked\", \"persistent\"", "\"buffer_name\": \"a..b\", \"persistent\"",
     FX_ERR_FORMAT, "got 'a..b'"},
    {"counter", "models/model.json", "builtins.dict", "my.own.Type", FX_ERR_UNSUPPORTED, "of type 'my.own.Type'"},
    {"counter", "model_weights_config.json", "num_batches_tracked", "other", FX_ERR_FORMAT, "holds no weight 'num_batches_tracked'"},
    {"counter", "model_weights_config.json", "weight_0", "weight_9", FX_ERR_FORMAT, "weights/weight_9"},
    {"counter", "model_weights_config.json", "\"use_pickle\": false", "\"use_pickle\": true", FX_ERR_UNSUPPORTED, "never unpickles"},
    {"counter", "model_weights_config.json", "\"dtype\": 5", "\"dtype\": 4", FX_ERR_FORMAT, "another shape or dtype"},
    {"counter", "model_weights_config.json", "\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": {\"as_int\": 1}", FX_ERR_FORMAT,
     "needs 16 bytes of its storage, which has 8"},
    {"counter", "model_weights_config.json", "\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": {\"as_int\": 9223372036854775807}",
     FX_ERR_FORMAT, "overflow"},
    {"plain", "model_weights_config.json", "\"strides\": [{\"as_int\": 27}", "\"strides\": [{\"as_int\": 4611686018427387904}", FX_ERR_FORMAT, "overflow"},
    {"plain", "model_weights_config.json", "\"strides\": [{\"as_int\": 27}", "\"strides\": [{\"as_int\": 28}", FX_ERR_FORMAT, "of its storage, which has 432"},
    {"plain", "models/model.json", "\"name\": \"input\", \"arg\"", "\"name\": \"weight\", \"arg\"", FX_ERR_FORMAT, "expected argument 0 to be 'input'"},
    {"plain", "models/model.json", "\"as_ints\": [1, 1]", "\"as_ints\": [1, \"a\"]", FX_ERR_FORMAT, "node 'conv2d' (conv, "},
    {"plain", "models/model.json", "\"as_ints\": [1, 1]", "\"as_future\": [1, 1]", FX_ERR_UNSUPPORTED, "'as_future'"},
    {"plain", "models/model.json", "\"as_ints\": [1, 1]", "\"as_custom_obj\": {\"name\": \"q\", \"class_fqn\": \"a.B\"}", FX_ERR_UNSUPPORTED, "class 'a.B'"},
    {"dynamic", "models/model.json", "positive=True, integer=True)\"", "positive=True, integer=True\"", FX_ERR_FORMAT, "symbolic integer"},
};

START_TEST(bad_models_are_refused)
{
    bytes file = read_file(fixture_path(bad[_i].fixture));
    if (bad[_i].entry) {
        parts p = take_apart(file);
        replace(find_part(&p, bad[_i].entry), bad[_i].from, bad[_i].to);
        free(file.data);
        file = put_together(&p);
        free_parts(&p);
    }
    const char *message = bad[_i].message;
    expect_bad(file, bad[_i].status, message);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->file, "test.pt2");
}
END_TEST

START_TEST(shapes_that_contradict_the_graph_are_refused)
{
    bytes file = read_file(fixture_path("plain"));
    parts p = take_apart(file);
    part *json = find_part(&p, "models/model.json");
    char *at = strstr((char *)json->data, "\"linear\": {\"dtype\"");
    ck_assert_ptr_nonnull(at);
    char *size = strstr(at, "\"as_int\": 5");
    ck_assert_ptr_nonnull(size);
    size[10] = '6';
    free(file.data);
    file = put_together(&p);
    free_parts(&p);
    expect_bad(file, FX_ERR_TYPE, "the model says f32[2, 6]");
}
END_TEST

START_TEST(later_minor_versions_are_read)
{
    bytes file = read_file(fixture_path("counter"));
    parts p = take_apart(file);
    part *json = find_part(&p, "models/model.json");
    replace(json, "\"minor\": 20", "\"minor\": 99, \"patch\": [1]");
    replace(json, "\"is_hop_single_tensor_return\"", "\"future_field\": {\"a\": [null]}, \"is_hop_single_tensor_return\"");
    replace(json, "\"torch_version\"", "\"future\": 1.5e3, \"torch_version\"");
    free(file.data);
    file = put_together(&p);
    free_parts(&p);
    held[n_held++] = file;
    fx_graph *g = NULL;
    ck_assert_int_eq(fx_load_memory(ctx, "test.pt2", file.data, file.size, &g), FX_OK);
    ck_assert_ptr_nonnull(fx_graph_find_node(g, "mul"));
}
END_TEST

START_TEST(deflated_and_misaligned_entries_are_read)
{
    bytes file = read_file(fixture_path("storage"));
    parts p = take_apart(file);
    for (size_t i = 0; i < p.n; i++) {
        p.items[i].deflate = _i == 0;
        p.items[i].pad = _i == 1 ? i % 5 + 1 : 0;
    }
    free(file.data);
    file = put_together(&p);
    free_parts(&p);
    held[n_held++] = file;
    fx_graph *g = NULL;
    ck_assert_int_eq(fx_load_memory(ctx, "test.pt2", file.data, file.size, &g), FX_OK);
    expect_values(g, "tail", FX_F32, 4, (double[]){108, 109, 110, 111});
    expect_values(g, "d", FX_F64, 4, (double[]){0, 1, 2, 3});
    ck_assert_uint_eq((uintptr_t)fx_attr_find(g, "d")->tensor.data % sizeof(double), 0);
    expect_values(g, "hidden", FX_F32, 4, (double[]){7, 8, 9, 10});
}
END_TEST

START_TEST(zip64_directories_are_read)
{
    bytes file = read_file(fixture_path("storage"));
    parts p = take_apart(file);
    p.zip64 = true;
    free(file.data);
    file = put_together(&p);
    free_parts(&p);
    held[n_held++] = file;
    fx_graph *g = NULL;
    char text[2000];
    fx_status status = fx_load_memory(ctx, "test.pt2", file.data, file.size, &g);
    all_diags(text, sizeof text);
    ck_assert_msg(status == FX_OK, "%s", text);
    expect_values(g, "tail", FX_F32, 4, (double[]){108, 109, 110, 111});
    /* a size of 2^62 in a zip64 field */
    bytes bad = {malloc(file.size), file.size};
    memcpy(bad.data, file.data, file.size);
    unsigned char *last = NULL; /* the last: sample inputs are a zip of their own */
    for (unsigned char *at = bad.data; at + 46 < bad.data + bad.size; at++)
        if (!memcmp(at, "PK\1\2", 4))
            last = at;
    ck_assert_ptr_nonnull(last);
    last[46 + last[28] + 4 + 7] = last[46 + last[28] + 4 + 15] = 0x40;
    expect_bad(bad, FX_ERR_FORMAT, "and 46116860184");
}
END_TEST

START_TEST(checksums_are_compared_at_first_use)
{
    bytes file = read_file(fixture_path("plain"));
    parts p = take_apart(file);
    find_part(&p, "weights/weight_0")->crc_xor = 1;
    free(file.data);
    file = put_together(&p);
    free_parts(&p);
    held[n_held++] = file;
    fx_graph *g = NULL;
    ck_assert_int_eq(fx_load_memory(ctx, "test.pt2", file.data, file.size, &g), FX_OK);
    fx_attr *a = fx_attr_find(g, "conv.weight");
    ck_assert_int_eq(fx_tensor_touch(ctx, &a->tensor), FX_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, 0)->message, "checksum differs"));
    ck_assert_str_eq(fx_diag_get(ctx, 0)->entry, "plain/data/weights/weight_0");
    ck_assert_int_eq(fx_tensor_touch(ctx, &fx_attr_find(g, "conv.bias")->tensor), FX_OK);
}
END_TEST

START_TEST(bad_zips_are_refused)
{
    bytes file = read_file(fixture_path("counter"));
    parts p = take_apart(file);
    free(file.data);
    /* the same entry twice */
    p.items[p.n] = p.items[0];
    p.n++;
    file = put_together(&p);
    p.n--;
    expect_bad(file, FX_ERR_FORMAT, "the entry is there twice");
    /* two entries over one another: the directory's second offset is made the first's */
    file = put_together(&p);
    unsigned char *directory = file.data + file.size - 22;
    unsigned char *first = file.data + (directory[16] | directory[17] << 8), *second = first + 46 + first[28];
    memcpy(second + 42, first + 42, 4);
    fx_diag_clear(ctx);
    expect_bad(file, FX_ERR_FORMAT, "corrupt zip");
    /* a size past the end of the file */
    file = put_together(&p);
    directory = file.data + file.size - 22;
    first = file.data + (directory[16] | directory[17] << 8);
    first[23] = first[27] = 0x7F;
    fx_diag_clear(ctx);
    expect_bad(file, FX_ERR_FORMAT, "before the directory at");
    /* an unknown compression */
    file = put_together(&p);
    directory = file.data + file.size - 22;
    first = file.data + (directory[16] | directory[17] << 8);
    first[10] = 12;
    fx_diag_clear(ctx);
    expect_bad(file, FX_ERR_UNSUPPORTED, "method 12");
    free_parts(&p);
}
END_TEST

static bytes from_text(const char *text, size_t n)
{
    bytes b = {malloc(n ? n : 1), n};
    memcpy(b.data, text, n);
    return b;
}

START_TEST(other_files_are_named)
{
    expect_bad(from_text("\x80\x02}q\0", 5), FX_ERR_UNSUPPORTED, "a pickle");
    expect_bad(from_text("\x7f" "ELF\0\0", 6), FX_ERR_FORMAT, "got neither");
    expect_bad(from_text("PK\3\4", 4), FX_ERR_FORMAT, "corrupt or truncated zip");
    expect_bad(from_text("", 0), FX_ERR_FORMAT, "got neither");
    parts p = {calloc(8, sizeof *p.items), 1, false};
    p.items[0] = (part){.name = strdup("m/constants.pkl"), .data = calloc(1, 4), .size = 3};
    expect_bad(put_together(&p), FX_ERR_UNSUPPORTED, "TorchScript");
    strcpy(p.items[0].name, "m/data.pkl");
    expect_bad(put_together(&p), FX_ERR_UNSUPPORTED, "torch.save");
    free(p.items[0].name);
    p.items[0].name = strdup("serialized_exported_program.json");
    expect_bad(put_together(&p), FX_ERR_UNSUPPORTED, "older than 2.8");
    free_parts(&p);
    fx_graph *g = NULL;
    ck_assert_int_eq(fx_load(ctx, "/nonexistent/model.pt2", &g), FX_ERR_IO);
    ck_assert_int_eq(fx_load(ctx, "/", &g), FX_ERR_IO);
}
END_TEST

/* The .fx text of a model reads back as the same text. */
START_TEST(text_is_told_by_content)
{
    fx_graph *g = load("plain"), *again = NULL;
    fx_text t, u;
    fx_text_init(&t, g->arena);
    fx_graph_print(&t, g);
    ck_assert_int_eq(fx_load_memory(ctx, g->file, t.data, t.size, &again), FX_OK);
    fx_text_init(&u, again->arena);
    fx_graph_print(&u, again);
    ck_assert_str_eq(t.data, u.data);
}
END_TEST

static const struct {
    const char *text, *shown; /* NULL: an error */
} syms[] = {
    {"Integer(7)", "7"},
    {"Integer(-1)", "-1"},
    {"Symbol('s77', positive=True, integer=True)", "s77"},
    {"Mul(Integer(2), Symbol('s27', positive=True, integer=True))", "2*s27"},
    {"Add(Mul(Integer(2), Symbol('a')), Integer(1))", "2*a + 1"},
    {"FloorDiv(Integer(7), Integer(2))", "3"},
    {"Max(Integer(7), Integer(2))", "7"},
    {"Integer(99999999999999999999)", NULL},
    {"Symbol('s77'", NULL},
    {"Symbol('', integer=True)", NULL},
    {"Symbol(s77)", NULL},
    {"Add()", NULL},
    {"FloorDiv(Integer(1))", NULL},
    {"Add(Integer(1), Integer(2)) x", NULL},
    {"", NULL},
    {"Integer( 7)", "7"},
    {"Integer()", NULL},
};

START_TEST(symbolic_integers_are_read)
{
    fx_json r = {.ctx = ctx};
    fx_sympy_symbol *symbols = NULL;
    const fx_sym *s = NULL;
    fx_status status = fx_sympy_parse(&r, syms[_i].text, fx_context_arena(ctx), &symbols, &s);
    if (!syms[_i].shown) {
        ck_assert_int_eq(status, FX_ERR_FORMAT);
        return;
    }
    ck_assert_int_eq(status, FX_OK);
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_sym_print(&t, s);
    ck_assert_str_eq(t.data, syms[_i].shown);
}
END_TEST

START_TEST(unknown_functions_are_opaque)
{
    fx_json r = {.ctx = ctx};
    fx_sympy_symbol *symbols = NULL;
    const fx_sym *s = NULL;
    const char *text = "TruncToInt(IntTrueDiv(Symbol('s0', positive=True, integer=True), Integer(2)))";
    ck_assert_int_eq(fx_sympy_parse(&r, text, fx_context_arena(ctx), &symbols, &s), FX_OK);
    ck_assert_int_eq(s->kind, FX_SYM_OPAQUE);
    ck_assert_str_eq(s->name, text);
    ck_assert_str_eq(symbols->name, "s0");
    ck_assert_int_eq(symbols->min, 1);
    char deep[4000] = "";
    for (int i = 0; i < 300; i++)
        strcat(deep, "Add(");
    ck_assert_int_eq(fx_sympy_parse(&r, deep, fx_context_arena(ctx), &symbols, &s), FX_ERR_FORMAT);
}
END_TEST

static const struct {
    const char *text;
    bool ok;
} jsons[] = {
    {"{\"a\": [1, -2.5e3, \"x\\u00e9\\n\", null, true, false, {}, []]}", true},
    {" 0 ", true}, {"-0", true}, {"9223372036854775807", true}, {"-9223372036854775808", true}, {"\"\\ud83d\\ude00\"", true},
    {"", false}, {"{", false}, {"[1,]", false}, {"[1 2]", false}, {"{\"a\" 1}", false}, {"{a: 1}", false}, {"01", false}, {"1.", false},
    {"-", false}, {"1e", false}, {"1e999", false}, {"9223372036854775808", false}, {"nul", false}, {"NaN", false}, {"\"\\u0000\"", false},
    {"\"\\ud83d\"", false}, {"\"\\ude00\"", false}, {"\"\\x\"", false}, {"\"a", false}, {"\"\n\"", false}, {"\"\xff\"", false},
    {"\"\xC0\xAF\"", false}, {"\"\xED\xA0\x80\"", false}, {"[] []", false}, {"{\"a\": 1, \"a\": 2}", false},
    {"{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"10\":1,\"11\":1,\"12\":1,\"13\":1,\"14\":1}", true},
    {"{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"10\":1,\"11\":1,\"12\":1,\"13\":1,\"3\":1}", false},
};

START_TEST(json_is_strict)
{
    fx_json r = {.ctx = ctx};
    const fx_json_value *v = NULL;
    size_t n = strlen(jsons[_i].text);
    char *exact = malloc(n ? n : 1); /* no zero byte behind it: reading past the end would show */
    memcpy(exact, jsons[_i].text, n);
    fx_status status = fx_json_parse(&r, fx_context_arena(ctx), exact, n, &v);
    free(exact);
    ck_assert_int_eq(status, jsons[_i].ok ? FX_OK : FX_ERR_FORMAT);
}
END_TEST

START_TEST(json_values_are_found)
{
    fx_json r = {.ctx = ctx};
    const fx_json_value *v = NULL;
    const char *text = jsons[0].text;
    ck_assert_int_eq(fx_json_parse(&r, fx_context_arena(ctx), text, strlen(text), &v), FX_OK);
    const fx_json_value *a = fx_json_get(v, "a");
    ck_assert_uint_eq(fx_json_size(a), 8);
    ck_assert_int_eq(fx_json_at(a, 0)->i, 1);
    ck_assert_double_eq(fx_json_at(a, 1)->f, -2500);
    ck_assert_str_eq(fx_json_text(fx_json_at(a, 2)), "x\xC3\xA9\n");
    ck_assert_ptr_null(fx_json_at(a, 8));
    ck_assert_ptr_null(fx_json_get(v, "b"));
    ck_assert_ptr_null(fx_json_get(a, "a"));
    char *deep = malloc(100001);
    memset(deep, '[', 100000);
    ck_assert_int_eq(fx_json_parse(&r, fx_context_arena(ctx), deep, 100000, &v), FX_ERR_FORMAT);
    free(deep);
}
END_TEST

START_TEST(running_out_of_memory_unwinds)
{
    bytes file = read_file(fixture_path("cond"));
    long n = 1;
    for (bool done = false; !done; n++) {
        unit_memory m = {.fail_at = n, .for_good = true};
        fx_context *small = unit_context(&m);
        if (!small)
            continue;
        fx_graph *g = NULL;
        fx_status status = fx_load_memory(small, "test.pt2", file.data, file.size, &g);
        ck_assert(status == FX_OK || status == FX_ERR_NOMEM);
        done = status == FX_OK;
        fx_context_free(small);
    }
    ck_assert_int_gt(n, 3);
    free(file.data);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, graphs_keep_names_types_and_places);
    tcase_add_test(t, decomposed_graphs_are_read_too);
    tcase_add_test(t, weights_have_the_strides_of_the_file);
    tcase_add_test(t, storages_are_shared_as_in_pytorch);
    tcase_add_test(t, sizes_may_be_symbols);
    tcase_add_test(t, inputs_and_outputs_may_be_nested);
    tcase_add_test(t, arguments_of_all_kinds_are_read);
    tcase_add_test(t, subgraphs_are_arguments);
    tcase_add_test(t, unknown_ops_are_kept_as_written);
    tcase_add_test(t, names_are_whatever_the_model_says);
    tcase_add_test(t, changed_buffers_and_inputs_are_written);
    tcase_add_loop_test(t, other_versions_with_raw_weights_are_read, 0, 5);
    tcase_add_loop_test(t, bad_models_are_refused, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, shapes_that_contradict_the_graph_are_refused);
    tcase_add_test(t, later_minor_versions_are_read);
    tcase_add_loop_test(t, deflated_and_misaligned_entries_are_read, 0, 2);
    tcase_add_test(t, zip64_directories_are_read);
    tcase_add_test(t, checksums_are_compared_at_first_use);
    tcase_add_test(t, bad_zips_are_refused);
    tcase_add_test(t, other_files_are_named);
    tcase_add_test(t, text_is_told_by_content);
    tcase_add_loop_test(t, symbolic_integers_are_read, 0, sizeof syms / sizeof *syms);
    tcase_add_test(t, unknown_functions_are_opaque);
    tcase_add_loop_test(t, json_is_strict, 0, sizeof jsons / sizeof *jsons);
    tcase_add_test(t, json_values_are_found);
    tcase_add_test(t, running_out_of_memory_unwinds);
}

int main(void)
{
    return unit_run("frontend", 60, set_up, tear_down, add_tests);
}
