/* tests/unit/test_module.c: the module tree: submodules, settings, parameters, tied weights, copies on writing, what is unused.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/unit/unit.h"

static fx_context *ctx;
static fx_graph *g;

static void set_up(void)
{
    ctx = fx_context_create();
    g = fx_graph_create(ctx, "m");
}

static void tear_down(void)
{
    fx_context_free(ctx);
}

static fx_tensor vector(int64_t n)
{
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 1, &n, &t), FX_OK);
    for (int64_t i = 0; i < n; i++)
        fx_tensor_set(&t, i, (double)i);
    return t;
}

static void parameter(const char *path)
{
    fx_tensor t = vector(4);
    ck_assert_int_eq(fx_graph_set_parameter(g, path, &t), FX_OK);
}

static const char *tree(const fx_graph *of)
{
    static char buf[4000];
    buf[0] = '\0';
    for (fx_module *m = fx_graph_next_module(of, NULL); m; m = fx_graph_next_module(of, m)) {
        strcat(buf, m == of->root ? "/" : " ");
        strcat(buf, fx_module_target(m));
    }
    strcat(buf, " |");
    fx_attr_info a;
    for (size_t i = 0; fx_graph_attr_info(of, i, &a); i++) {
        strcat(buf, " ");
        strcat(buf, a.path);
    }
    return buf;
}

START_TEST(modules_are_added_replaced_deleted)
{
    ck_assert_ptr_nonnull(fx_graph_add_submodule(g, "layer1.0.conv", "torch.nn.Conv2d", 0, NULL, NULL));
    ck_assert_ptr_nonnull(fx_graph_add_submodule(g, "act", "torch.nn.ReLU", 0, NULL, NULL));
    parameter("layer1.0.conv.weight");
    parameter("scale");
    ck_assert_str_eq(tree(g), "/ layer1 layer1.0 layer1.0.conv act | layer1.0.conv.weight scale");
    fx_module *conv = fx_graph_get_submodule(g, "layer1.0.conv");
    ck_assert_str_eq(fx_module_class(conv), "torch.nn.modules.conv.Conv2d");
    ck_assert_ptr_null(fx_module_class(fx_graph_get_submodule(g, "layer1")));
    /* Hot replacement: in its place, with all below it gone. */
    fx_module *linear = fx_graph_add_submodule(g, "layer1.0", "torch.nn.modules.linear.Linear", 0, NULL, NULL);
    ck_assert_str_eq(fx_module_class(linear), "torch.nn.modules.linear.Linear");
    ck_assert_str_eq(tree(g), "/ layer1 layer1.0 act | scale");
    ck_assert_ptr_nonnull(fx_graph_add_submodule(g, "theirs", "their.module.Class", 0, NULL, NULL));
    ck_assert_str_eq(fx_module_class(fx_graph_get_submodule(g, "theirs")), "their.module.Class");
    ck_assert_int_eq(fx_graph_delete_submodule(g, "layer1"), FX_OK);
    ck_assert_ptr_null(fx_graph_get_submodule(g, "layer1.0"));
    ck_assert_int_eq(fx_graph_delete_submodule(g, "layer1"), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_delete_submodule(g, ""), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_delete_submodule(g, NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_module_set_setting(linear, "bias", fx_v_bool(true)), FX_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "deleted"));
    ck_assert_str_eq(tree(g), "/ act theirs | scale");
    ck_assert_int_eq(fx_graph_delete_attr(g, "scale"), FX_OK);
    ck_assert_int_eq(fx_graph_delete_attr(g, "scale"), FX_ERR_ARGUMENT);
    ck_assert_str_eq(tree(g), "/ act theirs |");
}
END_TEST

START_TEST(bad_paths_and_settings_are_refused)
{
    fx_tensor t = vector(3), far, torn = t, negative = t, wide = t;
    fx_context *other = fx_context_create();
    ck_assert_int_eq(fx_tensor_create(other, FX_F32, 0, NULL, &far), FX_OK);
    torn.sizes[0] = 4;
    negative.sizes[0] = -1;
    wide.rank = 99;
    parameter("w");
    fx_graph_add_submodule(g, "m", "torch.nn.ReLU", 0, NULL, NULL);
    char *before = unit_text(g), deep[3000];
    memset(deep, 'a', sizeof deep);
    for (int i = 1; i < 2999; i += 2)
        deep[i] = '.';
    deep[2999] = '\0';
    const char *paths[] = {NULL, "", ".", "a.", ".a", "a..b", "w.x", "w.x.y", deep};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        ck_assert_ptr_null(fx_graph_add_submodule(g, paths[i], "torch.nn.ReLU", 0, NULL, NULL));
        ck_assert_int_eq(fx_graph_set_parameter(g, paths[i], &t), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_graph_set_buffer(g, paths[i], &t, true), FX_ERR_ARGUMENT);
        ck_assert_int_eq(fx_graph_tie_parameter(g, paths[i], "w"), FX_ERR_ARGUMENT);
    }
    ck_assert_ptr_nonnull(strstr(unit_message(ctx), "components"));
    ck_assert_ptr_null(fx_graph_add_submodule(g, "w", "torch.nn.ReLU", 0, NULL, NULL));
    ck_assert_int_eq(fx_graph_set_parameter(g, "m", &t), FX_ERR_ARGUMENT);
    const fx_tensor *bad[] = {NULL, &far, &torn, &negative, &wide};
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(fx_graph_set_parameter(g, "n.p", bad[i]), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_tie_parameter(g, "n.p", "nothing"), FX_ERR_ARGUMENT);
    static const struct {
        const char *class_name, *key;
        fx_value v;
        const char *message;
    } settings[] = {
        {"torch.nn.Conv2d", "strides", {.kind = FX_ARG_INT}, "torch.nn.Conv2d has no setting 'strides'"},
        {"torch.nn.Conv2d", "stride", {.kind = FX_ARG_STR, .as.s = "x"}, "'stride' of torch.nn.Conv2d: expected int[2], got str"},
        {"torch.nn.ReLU", "inplace", {.kind = FX_ARG_FLOAT}, "'inplace' of torch.nn.ReLU: expected bool, got float"},
        {"torch.nn.Dropout", "training", {.kind = FX_ARG_INT}, "'training' of torch.nn.Dropout: expected bool, got int"},
    };
    for (int i = 0; i < 4; i++) {
        ck_assert_ptr_null(fx_graph_add_submodule(g, "n", settings[i].class_name, 1, &settings[i].key, &settings[i].v));
        ck_assert_int_eq(fx_graph_status(g), FX_ERR_TYPE);
        ck_assert_str_eq(unit_message(ctx), settings[i].message);
    }
    char *after = unit_text(g);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    fx_context_free(other);
}
END_TEST

START_TEST(settings_have_defaults)
{
    const char *keys[] = {"in_channels", "stride"};
    fx_value three[2] = {fx_v_int(3), fx_v_int(1)}, given[] = {fx_v_int(8), fx_v_tuple(2, three)}, v;
    fx_module *m = fx_graph_add_submodule(g, "conv", "torch.nn.Conv2d", 2, keys, given);
    static const struct {
        const char *key, *text;
    } cases[] = {{"in_channels", "8"}, {"stride", "(3, 1)"}, {"padding", "0"}, {"dilation", "[1, 1]"}, {"groups", "1"},
                 {"bias", "True"}, {"padding_mode", "\"zeros\""}, {"training", "False"}};
    char text[40];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert(fx_module_setting(m, cases[i].key, &v));
        fx_value_format(&v, text, sizeof text);
        ck_assert_str_eq(text, cases[i].text);
    }
    ck_assert(!fx_module_setting(m, "nothing", &v) && !fx_module_setting(m, "out_channels", &v) && !fx_module_setting(NULL, "x", &v));
    ck_assert_int_eq(fx_module_set_setting(m, "stride", fx_v_int(2)), FX_OK);
    ck_assert_int_eq(fx_module_set_setting(m, "padding", fx_v_str("same")), FX_OK);
    ck_assert(fx_module_setting(m, "stride", &v) && v.kind == FX_ARG_INT && v.as.i == 2);
    ck_assert(fx_module_setting(m, "in_channels", &v) && v.as.i == 8);
    int64_t two[2];
    const fx_arg *stride = fx_module_config(m, "stride"); /* in the form of the schema */
    for (int i = 0; i < 2; i++)
        two[i] = stride->items[i]->i;
    ck_assert(stride->n == 2 && two[0] == 2 && two[1] == 2);
    ck_assert_int_eq(fx_module_set_setting(m, "groups", fx_v_str("x")), FX_ERR_TYPE);
    ck_assert_int_eq(fx_module_set_setting(m, NULL, fx_v_int(1)), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_module_set_meta(m, "mine", fx_v_int(4)), FX_OK);
    ck_assert(fx_module_meta(m, "mine", &v) && v.as.i == 4);
    ck_assert(!fx_module_meta(m, "yours", &v));
    fx_module *own = fx_graph_add_submodule(g, "own", "my.Class", 1, keys, given);
    ck_assert(fx_module_setting(own, "in_channels", &v) && !fx_module_setting(own, "training", &v));
    ck_assert_int_eq(fx_module_set_setting(own, "anything", fx_v_ellipsis()), FX_OK);
}
END_TEST

/* Every class of the table reads, by both names, and its defaults fit its own schema. */
START_TEST(the_table_of_classes_is_sound)
{
    for (int i = 1; i < FX_MODULE_COUNT; i++) {
        const fx_class *c = &fx_classes[i];
        const fx_schema *s = fx_class_schema(ctx, c);
        const char *got;
        ck_assert_ptr_eq(fx_class_find(c->name), c);
        ck_assert_ptr_eq(fx_class_find(c->short_name), c);
        ck_assert_uint_eq(fx_diag_count(ctx), 0);
        ck_assert(s->n > 0 || strcmp(c->settings, "()") == 0);
        for (int k = 0; k < s->n; k++)
            if (s->params[k].def)
                ck_assert_ptr_nonnull(fx_param_fit(ctx, &s->params[k], s->params[k].def, &got));
    }
    ck_assert_ptr_null(fx_class_find("torch.nn.Nothing"));
    ck_assert_ptr_null(fx_class_find(NULL));
}
END_TEST

static double value(fx_graph *of, const char *path, int64_t i)
{
    fx_tensor t;
    ck_assert_int_eq(fx_graph_tensor(of, path, &t), FX_OK);
    return fx_tensor_get(&t, i);
}

static void write(fx_graph *of, const char *path, int64_t i, double v)
{
    fx_tensor t;
    ck_assert_int_eq(fx_graph_writable_tensor(of, path, &t), FX_OK);
    fx_tensor_set(&t, i, v);
}

START_TEST(tied_weights_stay_tied)
{
    fx_attr_info a;
    parameter("embed.weight");
    ck_assert_int_eq(fx_graph_tie_parameter(g, "head.weight", "embed.weight"), FX_OK);
    fx_tensor half;
    ck_assert_int_eq(fx_graph_tensor(g, "embed.weight", &half), FX_OK);
    half.data = (char *)half.data + 2 * sizeof(float);
    half.sizes[0] = 2;
    ck_assert_int_eq(fx_graph_set_buffer(g, "tail", &half, false), FX_OK);
    ck_assert_uint_eq(fx_graph_attr_count(g), 3);
    ck_assert(fx_graph_attr_info(g, 0, &a) && !a.tied_to && a.is_parameter && a.persistent && a.rank == 1 && a.sizes[0] == 4);
    ck_assert(fx_graph_attr_info(g, 1, &a) && a.is_parameter);
    ck_assert_str_eq(a.tied_to, "embed.weight");
    ck_assert(fx_graph_attr_info(g, 2, &a) && !a.is_parameter && !a.persistent && a.sizes[0] == 2);
    ck_assert_str_eq(a.tied_to, "embed.weight");
    ck_assert(!fx_graph_attr_info(g, 3, &a));
    write(g, "head.weight", 3, 70);
    ck_assert_double_eq(value(g, "embed.weight", 3), 70);
    ck_assert_double_eq(value(g, "tail", 1), 70);
    /* A copy shares until one side writes; what is tied stays so on both. */
    fx_graph *c = fx_graph_deepcopy(g);
    fx_tensor one, other;
    fx_graph_tensor(g, "embed.weight", &one);
    fx_graph_tensor(c, "embed.weight", &other);
    ck_assert_ptr_eq(one.data, other.data);
    write(c, "tail", 1, 80);
    ck_assert_double_eq(value(c, "embed.weight", 3), 80);
    ck_assert_double_eq(value(c, "head.weight", 3), 80);
    ck_assert_double_eq(value(g, "head.weight", 3), 70);
    write(g, "embed.weight", 3, 90);
    ck_assert_double_eq(value(g, "tail", 1), 90);
    ck_assert_double_eq(value(c, "tail", 1), 80);
    ck_assert_int_eq(fx_graph_lint(c, 0), FX_ERR_ARGUMENT); /* no output, nothing else */
    ck_assert_uint_eq(fx_diag_count(ctx), 1);
    /* The first goes: the second is first. Another tensor: no longer tied. */
    ck_assert_int_eq(fx_graph_delete_attr(g, "embed.weight"), FX_OK);
    ck_assert(fx_graph_attr_info(g, 0, &a) && !a.tied_to);
    ck_assert(fx_graph_attr_info(g, 1, &a));
    ck_assert_str_eq(a.tied_to, "head.weight");
    parameter("head.weight");
    ck_assert(fx_graph_attr_info(g, 1, &a) && !a.tied_to);
}
END_TEST

static fx_status never(fx_storage *st)
{
    return fx_fail(st->ctx, FX_ERR_IO, NULL, "no data");
}

static fx_status ready(fx_storage *st)
{
    static float data[4] = {5, 6, 7, 8};
    st->data = data;
    return FX_OK;
}

START_TEST(read_only_and_callers_memory_is_copied_first)
{
    fx_tensor lazy = {.dtype = FX_F32, .rank = 1, .sizes = {4}, .strides = {1}}, mine = lazy, out;
    lazy.storage = fx_storage_lazy(ctx, 16, ready, NULL, NULL, "w");
    ck_assert_int_eq(fx_graph_set_parameter(g, "lazy", &lazy), FX_OK);
    ck_assert_int_eq(fx_graph_tensor(g, "lazy", &out), FX_OK);
    ck_assert_double_eq(fx_tensor_get(&out, 2), 7);
    const void *mapped = out.data;
    write(g, "lazy", 2, 1);
    ck_assert_double_eq(value(g, "lazy", 2), 1);
    ck_assert_double_eq(((const float *)mapped)[2], 7);
    float room[4] = {1, 2, 3, 4};
    mine.data = room;
    ck_assert_int_eq(fx_graph_set_parameter(g, "a.mine", &mine), FX_OK);
    ck_assert_int_eq(fx_graph_tie_parameter(g, "b.mine", "a.mine"), FX_OK);
    write(g, "b.mine", 0, 9);
    ck_assert_double_eq(value(g, "a.mine", 0), 9);
    ck_assert_double_eq(value(g, "a.mine", 3), 4);
    ck_assert(room[0] == 1);
    fx_tensor broken = {.dtype = FX_F32, .rank = 1, .sizes = {4}, .strides = {1}, .storage = fx_storage_lazy(ctx, 16, never, NULL, NULL, "x")};
    ck_assert_int_eq(fx_graph_set_parameter(g, "broken", &broken), FX_OK);
    ck_assert_int_eq(fx_graph_tensor(g, "broken", &out), FX_ERR_IO);
    ck_assert_int_eq(fx_graph_writable_tensor(g, "broken", &out), FX_ERR_IO);
    ck_assert_int_eq(fx_graph_writable_tensor(g, "nothing", &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_tensor(g, NULL, &out), FX_ERR_ARGUMENT);
}
END_TEST

START_TEST(what_no_node_names_is_deleted)
{
    fx_graph_add_submodule(g, "used", "torch.nn.Sequential", 0, NULL, NULL);
    fx_graph_add_submodule(g, "used.0", "torch.nn.ReLU", 0, NULL, NULL);
    fx_graph_add_submodule(g, "idle.0.deep", "torch.nn.ReLU", 0, NULL, NULL);
    parameter("used.0.weight");
    parameter("half.a");
    parameter("half.b");
    parameter("idle.0.w");
    parameter("top");
    fx_value x = fx_v_node(fx_graph_placeholder(g, "x", NULL));
    fx_graph_call_module(g, "used", 1, &x);
    fx_graph_get_attr(g, "half.b");
    fx_graph_output(g, x);
    size_t deleted = 0;
    ck_assert_int_eq(fx_graph_delete_all_unused_submodules(g, &deleted), FX_OK);
    ck_assert_str_eq(tree(g), "/ used used.0 half | used.0.weight half.b");
    ck_assert_uint_eq(deleted, 3 + 3); /* idle, idle.0, idle.0.deep; half.a, idle.0.w, top */
    ck_assert_int_eq(fx_graph_delete_all_unused_submodules(g, &deleted), FX_OK);
    ck_assert_uint_eq(deleted, 0);
    ck_assert_ptr_null(fx_graph_get_submodule(g, "idle"));
    parameter("idle.w"); /* the path is free again */
    ck_assert_str_eq(tree(g), "/ used used.0 half idle | used.0.weight half.b idle.w");
}
END_TEST

/* Wide, deep: linear, without recursion. */
START_TEST(big_trees_are_ordinary)
{
    char path[2000] = "", *p = path;
    for (int i = 0; i < 990; i++)
        p += sprintf(p, "%sa", i ? "." : "");
    parameter(path);
    fx_tensor t = vector(1);
    for (int i = 0; i < 50000; i++) {
        sprintf(path, "wide.%d.weight", i);
        ck_assert_int_eq(fx_graph_set_parameter(g, path, &t), FX_OK);
    }
    fx_graph *c = fx_graph_deepcopy(g);
    ck_assert_uint_eq(fx_graph_attr_count(c), 50001);
    size_t deleted;
    ck_assert_int_eq(fx_graph_delete_all_unused_submodules(c, &deleted), FX_OK);
    ck_assert_uint_eq(deleted, 50001 + 50001 + 989);
    ck_assert_str_eq(tree(c), "/ |");
    ck_assert_int_eq(fx_graph_delete_submodule(g, "wide"), FX_OK);
    ck_assert_int_eq(fx_graph_delete_submodule(g, "a"), FX_OK);
    ck_assert_str_eq(tree(g), "/ |");
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, modules_are_added_replaced_deleted);
    tcase_add_test(t, bad_paths_and_settings_are_refused);
    tcase_add_test(t, settings_have_defaults);
    tcase_add_test(t, the_table_of_classes_is_sound);
    tcase_add_test(t, tied_weights_stay_tied);
    tcase_add_test(t, read_only_and_callers_memory_is_copied_first);
    tcase_add_test(t, what_no_node_names_is_deleted);
    tcase_add_test(t, big_trees_are_ordinary);
}

int main(void)
{
    return unit_run("module", 120, set_up, tear_down, add_tests);
}
