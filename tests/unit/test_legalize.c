/* tests/unit/test_legalize.c: captured graphs become graphs of aten operators; the table is whole; what cannot be taken is named.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "import.h"

#include "fxcc/pass.h"
#include "passes/legalize.h"

/* ---- the table ------------------------------------------------------------------------------------------------------------- */

static bool has_param(const fx_schema *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->params[i].name, name) == 0)
            return true;
    return false;
}

static bool in_list(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; *p; p += strspn(p, " ")) {
        size_t length = strcspn(p, " ");
        if (strncmp(p, name, n) == 0 && (length == n || (length == n + 1 && p[n] == '=')))
            return true;
        p += length;
    }
    return false;
}

/* Rows that say all say all: each parameter and setting is one of the op's, spare, or "inplace"; spare words exist. */
START_TEST(every_row_is_whole)
{
    size_t n = 0;
    for (const fx_lg_row *r; (r = fx_lg_row_at((int)n)); n++) {
        const char *name = r->names ? r->names : fx_classes[r->module].name;
        const fx_schema *signature = fx_schema_parse(ctx, r->signature, name), none = {0};
        const fx_schema *settings = r->names ? &none : fx_class_schema(ctx, &fx_classes[r->module]);
        const fx_schema *op = r->op != FX_OP_NONE ? fx_op_schema(ctx, &fx_ops[r->op]) : &none;
        ck_assert_msg(signature->n > 0 && fx_diag_count(ctx) == 0, "%s: %s", name, all_messages(ctx));
        ck_assert_msg(r->rule != fx_lg_by_name || op->n > 0, "%s", name);
        for (const fx_schema *s = signature; s; s = s == signature ? settings : NULL)
            for (int i = s == signature && op->n; r->rule == fx_lg_by_name && i < s->n; i++)
                ck_assert_msg(has_param(op, s->params[i].name) || in_list(r->spare, s->params[i].name) || strcmp(s->params[i].name, "inplace") == 0,
                              "%s: '%s' says nothing to the op and is not spare", name, s->params[i].name);
        for (const char *p = r->spare; *p; p += strspn(p, " ")) {
            char word[64];
            size_t length = strcspn(p, " ");
            snprintf(word, sizeof word, "%.*s", (int)(length - (p[length - 1] == '=')), p);
            ck_assert_msg(has_param(signature, word) || has_param(settings, word), "%s: no '%s' to be spare", name, word);
            p += length;
        }
    }
    ck_assert_uint_gt(n, 120);
}
END_TEST

/* ---- graphs ------------------------------------------------------------------------------------------------------------------ */

static fx_graph *legal(const char *text)
{
    fx_graph *g = parsed(text), *out = NULL;
    char *before = unit_text(g);
    fx_status status = fx_graph_legalize(g, &out);
    ck_assert_msg(status == FX_OK, "%s\n%s", all_messages(ctx), text);
    char *after = unit_text(g);
    ck_assert_str_eq(before, after); /* pure */
    free(before);
    free(after);
    ck_assert_ptr_ne(g, out);
    ck_assert_int_eq(out->stage, FX_STAGE_IMPORTED);
    ck_assert_int_eq(fx_graph_verify(out, FX_STAGE_IMPORTED, "test"), FX_OK);
    FX_FOR_NODES(out, n)
        ck_assert_msg(n->type && n->opcode != FX_CALL_METHOD && n->opcode != FX_CALL_MODULE, "%s", n->name);
    /* A second time nothing changes. */
    fx_graph *again = NULL;
    ck_assert_int_eq(fx_graph_legalize(out, &again), FX_OK);
    ck_assert_ptr_eq(out, again);
    return out;
}

/* The nodes' lines of a captured graph of x : f32[2, 3, 4, 5], and what they become. */
static const struct { const char *from, *to; } cases[] = {
    /* Python's numbers */
    {"%s = call_method[size](%x)\n%b = call_function[_operator.getitem](%s, 0)\n%c = call_function[operator.floordiv](12, 5)\n"
     "%m = call_function[operator.mul](%b, %c)\n%y = call_method[reshape](%x, %m, -1)\noutput(%y)\n",
     "%y : f32[4, 30] = call_function[aten.reshape.default](%x, [4, -1])\noutput((%y,))"},
    {"%s = call_function[builtins.getattr](%x, \"shape\")\n%t = call_function[_operator.getitem](%s, slice(1, None, None))\n"
     "%n = call_function[builtins.len](%t)\n%d = call_function[operator.truediv](%n, 2)\n%y = call_function[operator.mul](%x, %d)\noutput(%y)\n",
     "%y : f32[2, 3, 4, 5] = call_function[aten.mul.Tensor](%x, 1.5)\noutput((%y,))"},
    {"%s = call_method[size](%x, -1)\noutput((%x, %s))\n", "output((%x, 5))"},
    {"%d = call_function[builtins.getattr](%x, \"dtype\")\n%y = call_method[to](%x, %d)\noutput(%y)\n", "output((%x,))"},
    /* Spellings */
    {"%y = call_function[torch.add](%x, 1)\noutput(%y)\n", "%y : f32[2, 3, 4, 5] = call_function[aten.add.Tensor](%x, 1, 1)\noutput((%y,))"},
    {"%y = call_method[add](%x, %x, alpha=2)\noutput(%y)\n", "%y : f32[2, 3, 4, 5] = call_function[aten.add.Tensor](%x, %x, 2)\noutput((%y,))"},
    {"%y = call_function[torch.ops.aten.add.Tensor](%x, %x)\noutput(%y)\n",
     "%y : f32[2, 3, 4, 5] = call_function[aten.add.Tensor](%x, %x, 1)\noutput((%y,))"},
    {"%y = call_function[torch.Tensor.mul](%x, 2)\noutput(%y)\n", "%y : f32[2, 3, 4, 5] = call_function[aten.mul.Tensor](%x, 2)\noutput((%y,))"},
    {"%y = call_function[operator.pow](%x, %x)\noutput(%y)\n", "%y : f32[2, 3, 4, 5] = call_function[aten.pow.Tensor_Tensor](%x, %x)\noutput((%y,))"},
    {"%y = call_function[operator.pow](2, %x)\noutput(%y)\n", "%y : f32[2, 3, 4, 5] = call_function[aten.pow.Scalar](2, %x)\noutput((%y,))"},
    {"%y = call_function[operator.sub](1, %x)\noutput(%y)\n", "%y : f32[2, 3, 4, 5] = call_function[aten.sub.Tensor](1, %x, 1)\noutput((%y,))"},
    {"%y = call_method[mean](%x, 1, True)\noutput(%y)\n", "%y : f32[2, 1, 4, 5] = call_function[aten.mean.dim](%x, [1], True, None)\noutput((%y,))"},
    {"%y = call_method[permute](%x, 0, 2, 3, 1)\noutput(%y)\n", "%y : f32[2, 4, 5, 3] = call_function[aten.permute.default](%x, [0, 2, 3, 1])\noutput((%y,))"},
    {"%y = call_method[view](%x, -1)\noutput(%y)\n", "%y : f32[120] = call_function[aten.view.default](%x, [-1])\noutput((%y,))"},
    {"%y = call_function[torch.masked_fill](%x, %x, 1)\n%z = call_function[torch.nn.functional.relu](%x, inplace=True)\noutput(%z)\n", NULL},
    /* Writes */
    {"%y = call_function[torch.nn.functional.relu](%x, inplace=True)\noutput(%y)\n",
     "%y : f32[2, 3, 4, 5] = call_function[aten.relu_.default](%x)\noutput((%y,))"},
    {"%y = call_method[add_](%x, 1)\noutput(%x)\n", "%y : f32[2, 3, 4, 5] = call_function[aten.add_.Tensor](%x, 1, 1)\noutput((%x,))"},
    {"%y = call_function[operator.iadd](%x, 1)\noutput(%y)\n", "%y : f32[2, 3, 4, 5] = call_function[aten.add_.Tensor](%x, 1, 1)\noutput((%y,))"},
    {"%s = call_function[operator.setitem](%x, (0, slice(None, 2, None)), 1.5)\noutput(%x)\n",
     "%s_select : f32[3, 4, 5] = call_function[aten.select.int](%x, 0, 0)\n"
     "%s_slice : f32[2, 4, 5] = call_function[aten.slice.Tensor](%s_select, 0, None, 2, 1)\n"
     "%s_write : f32[2, 4, 5] = call_function[aten.fill_.Scalar](%s_slice, 1.5)\noutput((%x,))"},
    /* Indices */
    {"%y = call_function[_operator.getitem](%x, (..., None, -1))\noutput(%y)\n",
     "%y_unsqueeze : f32[2, 3, 4, 1, 5] = call_function[aten.unsqueeze.default](%x, 3)\n"
     "%y : f32[2, 3, 4, 1] = call_function[aten.select.int](%y_unsqueeze, 4, -1)\noutput((%y,))"},
    {"%y = call_function[_operator.getitem](%x, slice(None, None, None))\noutput(%y)\n",
     "%y : f32[2, 3, 4, 5] = call_function[aten.alias.default](%x)\noutput((%y,))"},
    /* Several results */
    {"%c = call_method[chunk](%x, 2, dim=3)\n%a = call_function[_operator.getitem](%c, -1)\noutput(%a)\n",
     "%c : (f32[2, 3, 4, 3], f32[2, 3, 4, 2]) = call_function[aten.chunk.default](%x, 2, 3)\n"
     "%a : f32[2, 3, 4, 2] = call_function[_operator.getitem](%c, 1)\noutput((%a,))"},
    {"%c = call_method[chunk](%x, 2, 3)\n%y = call_function[torch.cat](%c, 3)\noutput(%y)\n",
     "%c : (f32[2, 3, 4, 3], f32[2, 3, 4, 2]) = call_function[aten.chunk.default](%x, 2, 3)\n"
     "%y_0 : f32[2, 3, 4, 3] = call_function[_operator.getitem](%c, 0)\n%y_1 : f32[2, 3, 4, 2] = call_function[_operator.getitem](%c, 1)\n"
     "%y : f32[2, 3, 4, 5] = call_function[aten.cat.default]([%y_0, %y_1], 3)\noutput((%y,))"},
    {"%u = call_method[unbind](%x)\n%y = call_function[_operator.getitem](%u, 1)\noutput(%y)\n",
     "%u_0 : f32[3, 4, 5] = call_function[aten.select.int](%x, 0, 0)\n%u_1 : f32[3, 4, 5] = call_function[aten.select.int](%x, 0, 1)\noutput((%u_1,))"},
    /* Outputs */
    {"output({\"a\": [%x, %x], \"b\": (%x,)})\n", "output((%x, %x, %x))"},
    {"output((%x, None))\n", "output((%x, None))"},
    /* Assertions hold or are refused. */
    {"%e = call_function[operator.eq](3, 3)\n%a = call_function[torch._assert](%e, \"no\")\noutput(%x)\n", "output((%x,))"},
};

static char *captured(const char *lines)
{
    static char text[4096];
    snprintf(text, sizeof text, "graph \"net\" captured\n\n%%x : f32[2, 3, 4, 5] = placeholder[x]\n%s", lines);
    return text;
}

START_TEST(calls_become_rows)
{
    if (!cases[_i].to) {
        fx_graph *g = parsed(captured(cases[_i].from)), *out = NULL;
        ck_assert_int_eq(fx_graph_legalize(g, &out), FX_ERR_TYPE); /* a mask of floats */
        ck_assert_msg(strstr(all_messages(ctx), "'y'"), "%s", all_messages(ctx));
        return;
    }
    char *text = unit_text(legal(captured(cases[_i].from)));
    ck_assert_msg(strstr(text, cases[_i].to), "expected\n%s\ngot\n%s", cases[_i].to, text);
    free(text);
}
END_TEST

START_TEST(nested_outputs_keep_their_tree)
{
    fx_graph *g = legal(captured("output({\"a\": [%x, %x], \"b\": (%x,)})\n"));
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_arg_print(&t, g->out_tree, NULL);
    ck_assert_str_eq(t.data, "{\"a\": [0, 1], \"b\": (2,)}");
    ck_assert_ptr_null(legal(captured("output((%x, %x))\n"))->out_tree);
    ck_assert_ptr_null(legal(captured("output(%x)\n"))->out_tree);
    ck_assert_ptr_nonnull(legal(captured("output((%x,))\n"))->out_tree);
}
END_TEST

/* Sizes that are symbols are asked for when the graph runs; the others are numbers. */
START_TEST(dynamic_sizes)
{
    char *text = unit_text(legal("graph \"net\" captured\nsymbol s0 in [1, 64]\n\n%x : f32[s0, 3, 4] = placeholder[x]\n%a = call_method[size](%x, 0)\n"
                                 "%s = call_function[builtins.getattr](%x, \"shape\")\n%c = call_function[_operator.getitem](%s, 1)\n"
                                 "%d = call_function[_operator.getitem](%s, 2)\n%p = call_function[operator.mul](%c, %d)\n"
                                 "%y = call_method[view](%x, %a, %p)\noutput(%y)\n"));
    const char *const lines[] = {"%a_0 : int(s0) = call_function[aten.sym_size.int](%x, 0)",
                                 "%y : f32[s0, 12] = call_function[aten.view.default](%x, [%a_0, 12])"};
    for (int i = 0; i < 2; i++)
        ck_assert_msg(strstr(text, lines[i]), "expected %s in\n%s", lines[i], text);
    free(text);
}
END_TEST

static const char modules[] =
    "graph \"net\" captured\n"
    "module features.conv : torch.nn.Conv2d(in_channels=3, out_channels=2, kernel_size=3, padding=\"same\")\n"
    "parameter features.conv.weight : f32[2, 3, 3, 3] = all 0.5\n"
    "parameter features.conv.bias : f32[2] = all 0.25\n"
    "module features.act : torch.nn.modules.activation.ReLU6(inplace=True)\n"
    "module drop : torch.nn.Dropout(p=0.3)\n"
    "\n"
    "%x : f32[1, 3, 4, 4] = placeholder[x]\n"
    "%flag = placeholder[flag](None)\n"
    "%conv = call_module[features.conv](%x)  # -, net.py:3\n"
    "%act = call_module[features.act](%conv)\n"
    "%drop : f32[1, 2, 4, 4] = call_module[drop](%act)\n"
    "output(%drop)\n";

START_TEST(modules_become_calls_with_their_tensors)
{
    char *text = unit_text(legal(modules));
    const char *const lines[] = {
        "%features_conv_weight : f32[2, 3, 3, 3] = get_attr[features.conv.weight]  # features.conv, net.py:3",
        "%conv : f32[1, 2, 4, 4] = call_function[aten.conv2d.padding](%x, %features_conv_weight, %features_conv_bias, [1, 1], \"same\", [1, 1], 1)",
        "%act : f32[1, 2, 4, 4] = call_function[aten.relu6_.default](%conv)  # features.act",
        "%drop : f32[1, 2, 4, 4] = call_function[aten.dropout.default](%act, 0.3, False)  # drop"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(strstr(text, lines[i]), "expected %s in\n%s", lines[i], text);
    ck_assert_msg(!strstr(text, "flag"), "%s", text); /* an input that nobody gives is its default */
    free(text);
}
END_TEST

/* What is refused, and that all of it is named. */
static const struct { fx_status status; const char *text; const char *messages[4]; } refused[] = {
    {FX_ERR_UNSUPPORTED, "%a = call_function[torch.fft.fft](%x)\n%b = call_method[frobnicate](%a)\n%c = call_function[torch.fft.fft](%x)\noutput((%b, %c))\n",
     {"function torch.fft.fft is not supported (2 nodes", "method frobnicate", "node 'a'", "node 'b'"}},
    {FX_ERR_TYPE, "%a = call_method[relu](%x, 1, 2)\noutput(%a)\n", {"node 'a'", "argument"}},
    {FX_ERR_TYPE, "%a = call_function[torch.nn.functional.max_pool2d](%x)\noutput(%a)\n", {"kernel_size", "node 'a'"}},
    {FX_ERR_TYPE, "%a = call_function[torch.nn.functional.relu](%x, frob=1)\noutput(%a)\n", {"no argument 'frob'"}},
    {FX_ERR_TYPE, "%a = call_function[torch.nn.functional.relu](%x, input=%x)\noutput(%a)\n", {"twice"}},
    {FX_ERR_TYPE, "%a = call_method[view](%x, 7, -1)\noutput(%a)\n", {"node 'a'"}},
    {FX_ERR_TYPE, "%a : f32[3] = call_method[relu](%x)\noutput(%a)\n", {"the model says f32[3]", "node 'a'"}},
    {FX_ERR_UNSUPPORTED, "%a = call_function[torch.nn.functional.max_pool2d](%x, 2, return_indices=True)\noutput(%a)\n", {"return_indices=True"}},
    {FX_ERR_UNSUPPORTED, "%a = call_function[_operator.getitem](%x, (0, 0, 0, 0, 0))\noutput(%a)\n", {"at most 4 indices, got 5"}},
    {FX_ERR_UNSUPPORTED, "%a = call_function[_operator.getitem](%x, %x)\noutput(%a)\n", {"indexing with a tensor"}},
    {FX_ERR_UNSUPPORTED, "%a = call_function[_operator.getitem](%x, (..., ...))\noutput(%a)\n", {"one ..."}},
    {FX_ERR_UNSUPPORTED, "%a = call_function[torch._assert](False, \"broken\")\noutput(%x)\n", {"assertion"}},
    {FX_ERR_UNSUPPORTED, "%y = placeholder[y]\noutput(%y)\n", {"no type", "example inputs", "node 'y'"}},
    {FX_ERR_TYPE, "%a = call_function[operator.floordiv](1, 0)\noutput(%a)\n", {"division by zero"}},
    {FX_ERR_UNSUPPORTED, "%a = call_function[torch.nn.functional.softshrink](%x, sym(s0))\noutput(%a)\n", {"lambd: expected a number that is known"}},
    {FX_ERR_UNSUPPORTED, "%a = call_function[builtins.getattr](%x, \"grad\")\noutput(%a)\n", {"'grad'"}},
};

START_TEST(what_cannot_be_taken_is_named)
{
    fx_graph *g = parsed(captured(refused[_i].text)), *out = NULL;
    char *before = unit_text(g);
    fx_status status = fx_graph_legalize(g, &out);
    ck_assert_msg(status == refused[_i].status, "%s: %s", fx_status_string(status), all_messages(ctx));
    ck_assert_ptr_null(out);
    for (int i = 0; i < 4 && refused[_i].messages[i]; i++)
        ck_assert_msg(strstr(all_messages(ctx), refused[_i].messages[i]), "expected '%s' in %s", refused[_i].messages[i], all_messages(ctx));
    char *after = unit_text(g);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
}
END_TEST

START_TEST(settings_nobody_reads_are_refused)
{
    static const struct { const char *module, *message; } bad[] = {
        {"torch.nn.ReLU(inplace=False, slope=1)", "'slope'"}, {"torch.nn.BatchNorm2d(num_features=3, training=True)", "training mode"},
        {"torch.nn.LSTM(input_size=3)", "torch.nn.LSTM"}, {"mine.ReLU", "mine.ReLU"},
        {"torch.nn.MaxPool2d(kernel_size=2, return_indices=True)", "return_indices=True"},
        {"torch.nn.Dropout(p=0.5, training=True)", "training mode"}, {"torch.nn.Softmax", "dim"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512];
        snprintf(text, sizeof text, "graph \"net\" captured\nmodule m : %s\n\n%%x : f32[2, 3, 4, 4] = placeholder[x]\n%%y = call_module[m](%%x)\noutput(%%y)\n",
                 bad[i].module);
        fx_graph *out = NULL;
        ck_assert_int_eq(fx_graph_legalize(parsed(text), &out), FX_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(all_messages(ctx), bad[i].message) && strstr(all_messages(ctx), "'y'"), "%s: %s", bad[i].module, all_messages(ctx));
        fx_diag_clear(ctx);
    }
}
END_TEST

/* Modules made by splitting hold graphs: they are put back first. */
static int half(void *user, const fx_node *n)
{
    (void)user;
    return strcmp(fx_node_name(n), "conv") != 0;
}

START_TEST(bodies_are_inlined)
{
    fx_graph *split = NULL, *out = NULL;
    ck_assert_msg(fx_graph_split_module(parsed(modules), half, NULL, &split) == FX_OK, "%s", all_messages(ctx));
    char *text = unit_text(split);
    ck_assert_msg(strstr(text, "call_module[submod_1]"), "%s", text);
    free(text);
    ck_assert_msg(fx_graph_legalize(split, &out) == FX_OK, "%s", all_messages(ctx));
    text = unit_text(out);
    ck_assert_msg(strstr(text, "aten.conv2d.padding") && strstr(text, "aten.relu6_.default") && !strstr(text, "call_module"), "%s", text);
    free(text);
}
END_TEST

/* One node at a time, as the interpreter does; what stands for it is told. */
START_TEST(single_nodes)
{
    fx_graph *g = parsed(modules);
    fx_node *conv = fx_graph_find_node(g, "conv"), *act = fx_graph_find_node(g, "act"), *out = NULL;
    ck_assert_int_eq(fx_legalize_node(conv, &out), FX_OK);
    ck_assert_ptr_eq(out, conv);
    ck_assert_int_eq(conv->op->id, FX_OP_conv2d_padding);
    ck_assert_int_eq(act->opcode, FX_CALL_MODULE); /* not touched */
    ck_assert_int_eq(fx_legalize_node(act, &out), FX_OK);
    ck_assert(fx_node_is_inplace(act));
    g = parsed(captured("%s = call_method[size](%x)\n%y = call_method[float](%x)\noutput((%s, %y))\n"));
    ck_assert_int_eq(fx_legalize_node(fx_graph_find_node(g, "s"), &out), FX_OK);
    ck_assert_ptr_null(out);
    ck_assert_int_eq(fx_legalize_node(fx_graph_find_node(g, "y"), &out), FX_OK);
    ck_assert_ptr_eq(out, fx_graph_find_node(g, "x"));
    char *text = unit_text(g);
    ck_assert_msg(strstr(text, "output(((2, 3, 4, 5), %x))"), "%s", text);
    free(text);
}
END_TEST

/* Forty thousand nodes, with shapes asked for on the way: time grows with the graph, not with its square. */
START_TEST(long_graphs_are_quick)
{
    fx_graph *g = fx_graph_new(ctx, "long");
    g->stage = FX_STAGE_CAPTURED;
    fx_node *x = fx_node_new(g, FX_PLACEHOLDER, "x", NULL, NULL, 0, NULL, NULL);
    x->type = fx_type_tensor_static(ctx, FX_F32, 2, (int64_t[]){2, 3});
    for (int i = 0; i < 20000; i++) {
        const fx_arg *args[3] = {fx_arg_operand(ctx, 0), fx_arg_int(ctx, 0), fx_arg_int(ctx, -1)};
        fx_node *size = fx_node_new(g, FX_CALL_METHOD, "size", fx_arg_seq(ctx, FX_ARG_TUPLE, 2, args), NULL, 1, &x, NULL), *both[2] = {x, size};
        args[1] = fx_arg_operand(ctx, 1);
        x = fx_node_new(g, FX_CALL_METHOD, "view", fx_arg_seq(ctx, FX_ARG_TUPLE, 3, args), NULL, 2, both, NULL);
    }
    const fx_arg *result = fx_arg_operand(ctx, 0);
    fx_node_new(g, FX_OUTPUT, "output", fx_arg_seq(ctx, FX_ARG_TUPLE, 1, &result), NULL, 1, &x, NULL);
    ck_assert_msg(fx_legalize(g) == FX_OK, "%s", all_messages(ctx));
    ck_assert_uint_eq(g->n_nodes, 20002);
}
END_TEST

START_TEST(memory_runs_out)
{
    const char *text = _i ? captured(cases[0].from) : modules;
    fx_status status = FX_ERR_NOMEM;
    for (long fail = 0; status == FX_ERR_NOMEM; fail++) {
        unit_memory m = {.fail_at = fail};
        fx_context *c = unit_context(&m);
        fx_graph *g = NULL, *out = NULL;
        if (!c)
            continue;
        status = fx_load_memory(c, "test.fx", text, strlen(text), &g);
        if (status == FX_OK)
            status = fx_graph_legalize(g, &out);
        ck_assert_msg(status == FX_OK || (status == FX_ERR_NOMEM && fx_diag_count(c) > 0), "allocation %ld: %s: %s", fail,
                      fx_status_string(status), all_messages(c));
        fx_context_free(c);
        ck_assert_int_eq(m.live, 0);
    }
}
END_TEST

/* Any text that parses is legalised or refused: each byte of one with everything in it, each bit. */
START_TEST(every_byte_flipped)
{
    size_t size = strlen(modules), n_ok = 0;
    char *text = malloc(size + 1);
    memcpy(text, modules, size + 1);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 7; bit++) {
            fx_context *c = fx_context_create();
            fx_graph *g = NULL, *out = NULL;
            text[i] = (char)(text[i] ^ 1 << bit);
            if (fx_load_memory(c, "test.fx", text, size, &g) == FX_OK) {
                fx_status status = fx_graph_legalize(g, &out);
                ck_assert_msg(status != FX_INTERNAL, "byte %zu bit %d: %s", i, bit, all_messages(c));
                ck_assert(status == FX_OK || fx_diag_count(c) > 0);
                n_ok += status == FX_OK;
            }
            fx_context_free(c);
            text[i] = (char)(text[i] ^ 1 << bit);
        }
    ck_assert_uint_gt(n_ok, 100);
    free(text);
}
END_TEST

/* A chain calls what is in it, however deep that lies; what cannot be taken in it is named by its path. */
START_TEST(chains_of_modules)
{
    static const char head[] = "graph \"net\" captured\nmodule s : torch.nn.modules.container.Sequential\n";
    static const char tail[] = "\n%x : f32[2, 3] = placeholder[x]\n%y = call_module[s](%x)\noutput(%y)\n";
    static const struct { const char *in, *to, *why; } chains[] = {
        {"", "output((%x,))", NULL},
        {"module s.only : torch.nn.modules.activation.ReLU\n", "%y : f32[2, 3] = call_function[aten.relu.default](%x)", NULL},
        {"module s.a : torch.nn.modules.activation.Tanh\nmodule s.b : torch.nn.modules.linear.Identity\n"
         "module \"s.c d\" : torch.nn.modules.container.Sequential\nmodule \"s.c d.class\" : torch.nn.modules.activation.ReLU\n",
         "%y_0 : f32[2, 3] = call_function[aten.tanh.default](%x)  # s\n%y : f32[2, 3] = call_function[aten.relu.default](%y_0)", NULL},
        {"module s.a : torch.nn.modules.activation.ReLU\nmodule s.b : torch.nn.modules.rnn.LSTM\n", NULL, "torch.nn.modules.rnn.LSTM"},
        {"module s.a : torch.nn.modules.dropout.Dropout(training=True)\nmodule s.b : torch.nn.modules.activation.ReLU\n", NULL, "'s.a' is in training mode"},
        {"module s.a.b : torch.nn.modules.activation.ReLU\n", NULL, "class unknown"},
    };
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        char text[4096];
        snprintf(text, sizeof text, "%s%s%s", head, chains[i].in, tail);
        if (chains[i].to) {
            char *after = unit_text(legal(text));
            ck_assert_msg(strstr(after, chains[i].to) != NULL, "expected '%s', got '%s'", chains[i].to, after);
            free(after);
        } else {
            fx_graph *out = NULL;
            ck_assert_int_eq(fx_graph_legalize(parsed(text), &out), FX_ERR_UNSUPPORTED);
            ck_assert_msg(strstr(all_messages(ctx), chains[i].why) != NULL, "expected '%s', got '%s'", chains[i].why, all_messages(ctx));
        }
    }
    for (int depth = 10; depth <= 900; depth += 890) {
        fx_graph *g = fx_graph_create(ctx, "deep"), *out = NULL;
        char path[2000] = "s";
        for (int i = 0; i < depth; i++) {
            ck_assert_ptr_nonnull(fx_graph_add_submodule(g, path, "torch.nn.Sequential", 0, NULL, NULL));
            strcat(path, ".s");
        }
        ck_assert_ptr_nonnull(fx_graph_add_submodule(g, path, "torch.nn.ReLU", 0, NULL, NULL));
        fx_node *x = fx_graph_placeholder(g, "x", NULL);
        x->type = fx_type_tensor_static(ctx, FX_F32, 1, (int64_t[]){4});
        fx_value v = fx_v_node(x);
        fx_node *y = fx_graph_call_module(g, "s", 1, &v);
        fx_graph_output(g, fx_v_node(y));
        ck_assert_int_eq(fx_graph_legalize(g, &out), depth < 50 ? FX_OK : FX_ERR_UNSUPPORTED);
        ck_assert(depth < 50 || strstr(all_messages(ctx), "nested too deep"));
    }
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, chains_of_modules);
    tcase_add_test(t, every_row_is_whole);
    tcase_add_loop_test(t, calls_become_rows, 0, sizeof cases / sizeof *cases);
    tcase_add_test(t, nested_outputs_keep_their_tree);
    tcase_add_test(t, dynamic_sizes);
    tcase_add_test(t, modules_become_calls_with_their_tensors);
    tcase_add_loop_test(t, what_cannot_be_taken_is_named, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, settings_nobody_reads_are_refused);
    tcase_add_test(t, bodies_are_inlined);
    tcase_add_test(t, single_nodes);
    tcase_add_test(t, long_graphs_are_quick);
    tcase_add_loop_test(t, memory_runs_out, 0, 2);
    tcase_add_test(t, every_byte_flipped);
}

int main(void)
{
    return unit_run("legalize", 120, import_set_up, import_tear_down, add);
}
