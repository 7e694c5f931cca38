/* tests/unit/test_print.c: graphs as .fx text and back, table, Graphviz, FLOPs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "ir/ir.h"
#include "tests/unit/fixture.h"

static const char *printed(const fx_graph *g)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_graph_print(&t, g);
    return t.data;
}

static const char *first_message(void)
{
    const fx_diag *d = fx_diag_get(ctx, 0);
    return d ? d->message : "no diagnostic";
}

static fx_graph *parsed(const char *text)
{
    fx_graph *g = NULL;
    fx_status st = fx_graph_parse(ctx, "test.fx", text, strlen(text), &g);
    ck_assert_msg(st == FX_OK, "%s\n%s", first_message(), text);
    return g;
}

/* Every kind of line, argument, type and name. */
static const char *const all =
    "graph \"net\" imported file \"net.pt2\" entry \"models/model.json\"\n"
    "\nsubgraph 0 \"body\" core file \"other.pt2\" {\n"
    "parameter w : f32[2] = [1.0, 2.0]\n"
    "\n"
    "%x : f32[2] = placeholder[x]\n"
    "output(%x)\n"
    "}\n"
    "\nsubgraph 1 \"outer\" captured {\n"
    "%x = placeholder[x](2)\n"
    "%c = call_function[cond](graph(0), [graph(0)], %x)\n"
    "output(%c)\n"
    "}\n\n"
    "symbol s27 in [2, 128]\n"
    "symbol \"odd name\" in [-inf, inf]\n"
    "module \"\" : torch.nn.Net\n"
    "buffer step : i64[] = [7]\n"
    "module conv : torch.nn.modules.conv.Conv2d(in_channels=1, kernel_size=(1, 1), padding=\"same\", bias=True) meta {\"k\": [1, nan]}\n"
    "parameter conv.weight : f32[2, 1, 1, 1] = [0.1, -2.5]\n"
    "parameter conv.bias : f32[2]{0} = [1.0, 1.0]\n"
    "module drop\n"
    "module relu : torch.nn.modules.activation.ReLU()\n"
    "module part body 1 meta {\"tag\": None}\n"
    "parameter fc.weight : f32[10, 20] in \"net weights.safetensors\" \"fc.weight\"\n"
    "parameter fc.tied : f32[20, 10]{1, 20} shares 2+0 in \"a\" \"t\"\n"
    "parameter fc.alias : f32[200] shares 2+0 in \"a\" \"t\"\n"
    "buffer bn.mean : f32[1000] transient = all 0.0\n"
    "buffer bn.var : f16[1000] hash 0x0123456789abcdef\n"
    "parameter tied.a : f32[2, 3] shares 0+0 = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n"
    "parameter tied.b : f32[3, 2]{1, 3} shares 0+0 = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]\n"
    "parameter tied.c : f32[2] shares 0+4 = [5.0, 6.0]\n"
    "parameter far : f32[1000, 3] in \"w.safetensors\" \"far\"\n"
    "parameter far_a : f32[2, 3] shares 1+0 in \"w.safetensors\" \"whole of a\"\n"
    "parameter far_b : f32[8] transient shares 1+4 in \"w.safetensors\" \"whole of a\"\n"
    "buffer \"a \\\"b\\\"\\n\\t*/\" : bool[2] = [True, False]\n"
    "buffer z : c64[1] = [complex(1.0, -0.5)]\n"
    "buffer nothing : f32[0, 3] = []\n"
    "buffer limits : f64[4] = [inf, -inf, nan, -0.0]\n"
    "buffer half : bf16[2] = [1.5, -0.0]\n"
    "buffer bytes : u8[2] = [0, 255]\n"
    "inputs ([0, {\"k\": 1}],)\n"
    "outputs {\"y\": 0}\n"
    "\n"
    "%x : f32[s27, 1, 8, 8] = placeholder[x] meta {\"tag\": \"a\", \"b c\": {\"d\": (1, ...)}}\n"
    "%n : int(s27) = placeholder[n](1.5)\n"
    "%conv_weight : f32[2, 1, 1, 1] = get_attr[conv.weight]\n"
    "%conv2d : f32[s27, 2, 8, 8] = call_function[aten.conv2d.default](%x, %conv_weight, None, [1, 1], [0, 0], [1, 1], 1)  "
    "# conv, models/net.py:92\n"
    "%mul : f32[2*s27 - 1, Max(s27, 4)] = call_function[_operator.mul](%x, %x)  # -, \"a, b\"\n"
    "%strided : f32[2, 3]{1, 2} = call_function[\"odd target[\"](%conv2d, alpha=2, \"odd key\"=-1)\n"
    "%many : (f32[2], i64[], int, None, float, bool, str, other, (f32[1],)) = call_function[my.op]((%x, (%n,)), [], {}, {\"a\": 1.0}, "
    "True, \"s\\\\\\u00e9\", slice(None, 1, %n), ..., complex(0.5, nan), torch.float32, torch.strided, torch.channels_last, "
    "device(\"cpu\"), sym(s27//2 + 1), layout(\"weird\"), -9223372036854775808, 1e-05, -inf)\n"
    "%m = call_method[view](%mul, -1) meta {\"g\": graph(0)}  # conv\n"
    "%c : f32[Symbol(\"odd name\"), Opaque(\"f(x)\"), Add(1, Symbol(\"odd name\"))] = call_module[conv](%m)  # -, -, other.json, other.pt2\n"
    "output((%c, %many)) : (f32[1],)\n";

START_TEST(text_reads_and_prints_back)
{
    fx_graph *g = parsed(all);
    /* What is printed may spell a sum otherwise than the text; from then on it is the same to the byte. */
    const char *once = printed(g);
    fx_graph *again = parsed(once);
    ck_assert_str_eq(printed(again), once);
    ck_assert_uint_eq(g->n_nodes, 10);
    ck_assert_uint_eq(g->n_symbols, 2);
    ck_assert_int_eq(g->symbols[0].max, 128);
    ck_assert_int_eq(g->symbols[1].min, INT64_MIN);
    fx_node *conv = fx_graph_find_node(g, "conv2d");
    ck_assert_str_eq(conv->loc.module, "conv");
    ck_assert_str_eq(conv->loc.frame, "models/net.py:92");
    ck_assert_str_eq(conv->loc.entry, "models/model.json");
    ck_assert_str_eq(conv->loc.file, "net.pt2");
    ck_assert_int_eq(conv->op->id, FX_OP_conv2d);
    ck_assert_str_eq(fx_graph_find_node(g, "mul")->loc.frame, "a, b");
    ck_assert_ptr_null(fx_graph_find_node(g, "mul")->loc.module);
    ck_assert_str_eq(fx_graph_find_node(g, "c")->loc.file, "other.pt2");
    ck_assert_int_eq(fx_graph_find_node(g, "mul")->n_operands, 2);
    ck_assert_int_eq(fx_graph_find_node(g, "x")->n_uses, 4);
    ck_assert_int_eq(fx_graph_find_node(g, "strided")->type->strides[1].value, 2);
    const fx_arg *args = fx_graph_find_node(g, "many")->args;
    ck_assert_int_eq(args->n, 18);
    ck_assert_int_eq(args->items[15]->i, INT64_MIN);
    ck_assert(args->items[16]->f == 1e-05);
    ck_assert_str_eq(args->items[5]->s, "s\\\xc3\xa9");
    ck_assert(isnan(args->items[8]->im));
    ck_assert_int_eq(args->items[11]->kind, FX_ARG_MEMORY_FORMAT);
    ck_assert_int_eq(args->items[10]->kind, FX_ARG_LAYOUT);
    /* The text of the test itself, but for the spelling of one string and one sum. */
    ck_assert_ptr_nonnull(strstr(once, "%conv2d : f32[s27, 2, 8, 8] = call_function[aten.conv2d.default](%x, %conv_weight, None, [1, 1], "
                                       "[0, 0], [1, 1], 1)  # conv, models/net.py:92\n"));
}
END_TEST

START_TEST(tensors_come_with_their_values)
{
    fx_graph *g = parsed(all);
    ck_assert(fx_tensor_get(&fx_attr_find(g, "conv.weight")->tensor, 1) == -2.5);
    ck_assert(fx_attr_find(g, "conv.weight")->is_parameter);
    ck_assert(fx_tensor_get(&fx_attr_find(g, "tied.b")->tensor, 1) == 4);
    ck_assert(fx_tensor_get(&fx_attr_find(g, "tied.c")->tensor, 1) == 6);
    ck_assert_ptr_eq(fx_attr_find(g, "tied.a")->tensor.storage, fx_attr_find(g, "tied.c")->tensor.storage);
    ck_assert_int_eq(fx_tensor_get_int(&fx_attr_find(g, "step")->tensor, 0), 7);
    ck_assert_int_eq(fx_tensor_get_int(&fx_attr_find(g, "a \"b\"\n\t*/")->tensor, 0), 1);
    ck_assert(!fx_attr_find(g, "bn.mean")->persistent);
    ck_assert_int_eq(fx_tensor_get_int(&fx_attr_find(g, "bytes")->tensor, 1), 255);
    ck_assert_str_eq(fx_module_find(g, "conv")->class_name, "torch.nn.modules.conv.Conv2d");
    ck_assert_ptr_nonnull(fx_module_find(g, "drop"));
    /* No data came with this one, and none is made up. */
    fx_tensor t = fx_attr_find(g, "bn.var")->tensor;
    ck_assert_int_eq(fx_tensor_touch(ctx, &t), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(first_message(), "no data for the tensor 'bn.var'"));
}
END_TEST

static const struct {
    const char *text, *says;
} mistakes[] = {
    {"", "line 1, column 1: expected 'graph', got the end of the text"},
    {"graph g\n%x = placeholder[x]\n%x = placeholder[x]\n", "line 3, column 2: the node 'x' is there twice"},
    {"graph g\n%y = call_method[abs](%x)\n", "line 2, column 24: there is no node 'x' before this one"},
    {"graph g\n%x : f32[1, = placeholder[x]\n", "line 2, column 13: expected an integer, a symbol or '('"},
    {"graph g\n%x = holder[x]\n", "expected placeholder, get_attr, call_function"},
    {"graph g\nwhat\n", "line 2, column 1: expected a line that begins with %, symbol"},
    {"graph g\n%x = call_method[f](1, k=2, 3)\n", "an argument by position follows one by keyword"},
    {"graph g\n%x = call_method[f](k=2, k=3)\n", "the keyword 'k' is there twice"},
    {"graph g\n%x = call_method[f]({\"a\": 1, \"a\": 2})\n", "the key \"a\" is there twice"},
    {"graph g\n%x = call_method[f](99999999999999999999)\n", "expected an integer of 64 bits"},
    {"graph g\n%x = call_method[f](torch.float33)\n", "expected a dtype, layout or memory format"},
    {"graph g\n%x = call_method[f](graph(\"h\"))\n", "line 2, column 27: expected an integer, got the string 'h'"},
    {"graph g\n%x = call_method[f](graph(0))\n", "line 2, column 27: there is no subgraph 0 before this line"},
    {"graph g\nsubgraph 1 h {\n}\n", "line 2, column 10: expected subgraph 0, got 1"},
    {"graph g\nsubgraph 0 h\n}\n", "line 2, column 13: expected '{', got the end of the line"},
    {"graph g\nsubgraph 0 h {\n%x = placeholder[x]\n", "expected '}', got the end of the text"},
    {"graph g\n}\n", "line 2, column 1: expected a line that begins with"},
    {"graph g\nsubgraph 0 h {\nsubgraph 1 i {\n}\n", "line 3, column 1: expected a line that begins with"},
    {"graph g\nmodule m : C(1)\n", "the settings of a module are constants by keyword"},
    {"graph g\n%x = placeholder[x]\nmodule m : C(a=%x)\n", "the settings of a module are constants by keyword"},
    {"graph g\nmodule m : C(a=1, a=2)\n", "the keyword 'a' is there twice"},
    {"graph g\nmodule m body 3\n", "there is no subgraph 3 before this line"},
    {"graph g\n%x = placeholder[x] meta [1]\n", "line 2, column 26: expected '{', got '['"},
    {"graph g\n%x = placeholder[x]\n%y = call_method[f](%x) meta {\"k\": %x}\n", "a note is made of constants, not of nodes"},
    {"graph g\nparameter w : f32[2] in \"f\"\n", "expected the tensor's name in it in quotes"},
    {"graph g\n%x = call_method[f](slice(1, 2))\n", "a slice has start, stop and step, got 2 items"},
    {"graph g\n%\"a b\" = placeholder[x]\n", "expected a name of letters, digits and '_'"},
    {"graph g\n%if = placeholder[x]\n", "a node cannot be named 'if'"},
    {"graph g\nparameter w : f32[2] = [1.0]\n", "line 2, column 28: expected ',', got ']'"},
    {"graph g\nparameter w : f32[2] = [1.0, 2.0, 3.0]\n", "expected ']', got ','"},
    {"graph g\nparameter w : i8[1] = [128]\n", "expected an element from -128 to 127, got 128"},
    {"graph g\nparameter w : f32[4611686018427387904, 4] = all 0.0\n", "does not fit 64 bits"},
    {"graph g\nparameter w : f32[100000, 100000] = all 0.0\n", "is too big for a text"},
    {"graph g\nparameter w : f32[2]{-1} = [0.0, 1.0]\n", "is too big for a text"},
    {"graph g\nparameter w : f32[s0] = [0.0]\n", "the sizes of a tensor with data are numbers"},
    {"graph g\nparameter w : f32[2]\n", "expected '=', 'hash' or 'in', got the end of the line"},
    {"graph g\nparameter w : f32[1] = [1.0]\nparameter w : f32[1] = [1.0]\n", "the tensor 'w' is there twice"},
    {"graph g\nsymbol s in [3, 2]\n", "the range of 's' is empty"},
    {"graph g\n%x : f32[-1] = placeholder[x]\n", "expected a size of 0 or more, got -1"},
    {"graph g\n%x : f32[1, 1, 1, 1, 1, 1, 1, 1, 1] = placeholder[x]\n", "more than 8 dimensions"},
    {"graph g\n%x : f32[Foo(1)] = placeholder[x]\n", "there is no function Foo of integers"},
    {"graph g\ninputs %x\n", "there is no node 'x' before this one"},
    {"graph g\n%x = placeholder[x]\ninputs (%x,)\n", "a tree of inputs or outputs is made of constants"},
    {"graph g\n%x = placeholder[x] # a, b, c, d, e\n", "expected at most module, frame, entry and file"},
    {"graph g\n%x = placeholder[x]\x01\n", "byte 0x01 is not allowed outside of strings"},
};

START_TEST(mistakes_have_line_and_column)
{
    fx_graph *g;
    ck_assert_int_eq(fx_graph_parse(ctx, "bad.fx", mistakes[_i].text, strlen(mistakes[_i].text), &g), FX_ERR_FORMAT);
    ck_assert_msg(strstr(first_message(), mistakes[_i].says) != NULL, "expected '%s', got '%s'", mistakes[_i].says, first_message());
    ck_assert_uint_eq(fx_diag_count(ctx), 1);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->file, "bad.fx");
}
END_TEST

/* Several mistakes are told at once, each once: lines that only follow from one are no news. */
START_TEST(mistakes_are_told_together)
{
    static const char text[] = "graph g\nsymbol\nsubgraph 0 {\n%x = place\n}\nmodule m : C(\n%x = placeholder[x\n%y = call_method[abs](%x, $)\n"
                               "%z = call_method[abs](%y, %none)\nparameter w : f33[1] = [1.0]\n%w = get_attr[w](\x02\noutput(%z, %w\n";
    static const char *const says[] = {"line 2, column 7: expected a symbol", "line 3, column 12: expected the graph's name, got '{'",
        "line 4, column 6: expected placeholder,", "line 6, column 14: expected an argument, got the end of the line",
        "line 7, column 19: expected ']'", "line 8, column 27: expected an argument, got '$'", "line 9, column 28: there is no node 'none'",
        "line 10, column 15: expected an element type", "line 11, column 18: byte 0x02", "line 12, column 14: expected ',' or ')'"};
    fx_graph *g;
    ck_assert_int_eq(fx_graph_parse(ctx, "bad.fx", text, sizeof text - 1, &g), FX_ERR_FORMAT);
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        ck_assert_uint_lt(i, fx_diag_count(ctx));
        ck_assert_msg(strstr(fx_diag_get(ctx, i)->message, says[i]) != NULL, "%s", fx_diag_get(ctx, i)->message);
    }
    ck_assert_uint_eq(fx_diag_count(ctx), sizeof says / sizeof *says);
    /* But not without end. */
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "graph g\n");
    for (int i = 0; i < 1000; i++)
        fx_puts(&t, "what\n");
    fx_diag_clear(ctx);
    ck_assert_int_eq(fx_graph_parse(ctx, "bad.fx", t.data, t.size, &g), FX_ERR_FORMAT);
    ck_assert_uint_eq(fx_diag_count(ctx), 20);
}
END_TEST

START_TEST(subgraphs_settings_and_notes_are_read)
{
    fx_graph *g = parsed(all);
    fx_module *part = fx_module_find(g, "part");
    ck_assert_ptr_nonnull(part->body);
    ck_assert_str_eq(part->body->name, "outer");
    ck_assert_int_eq(part->body->stage, FX_STAGE_CAPTURED);
    fx_node *c = fx_graph_find_node(part->body, "c");
    const fx_graph *inner = c->args->items[0]->graph;
    ck_assert_str_eq(inner->name, "body");
    ck_assert_int_eq(inner->stage, FX_STAGE_CORE);
    ck_assert_ptr_eq(c->args->items[1]->items[0]->graph, inner);
    ck_assert_ptr_eq(fx_graph_find_node(g, "m")->meta->value->graph, inner);
    ck_assert(fx_tensor_get(&fx_attr_find(inner, "w")->tensor, 1) == 2);
    const fx_arg *config = fx_module_find(g, "conv")->config;
    ck_assert_int_eq(config->n, 4);
    ck_assert_str_eq(config->keys[2], "padding");
    ck_assert_str_eq(config->items[2]->s, "same");
    ck_assert_int_eq(fx_module_find(g, "relu")->config->n, 0);
    ck_assert_ptr_null(fx_module_find(g, "drop")->config);
    ck_assert_str_eq(fx_graph_find_node(g, "x")->meta->next->key, "b c");
    const fx_attr *w = fx_attr_find(g, "fc.weight");
    ck_assert_str_eq(w->tensor.storage->file, "net weights.safetensors");
    ck_assert_str_eq(w->tensor.storage->name, "fc.weight");
    fx_tensor t = w->tensor;
    ck_assert_int_eq(fx_tensor_touch(ctx, &t), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(first_message(), "the tensor 'fc.weight' lies in the file 'net weights.safetensors'"));
    ck_assert_ptr_eq(fx_attr_find(g, "fc.tied")->tensor.storage, fx_attr_find(g, "fc.alias")->tensor.storage);
}
END_TEST

/* A graph in itself is nothing a text can hold; showing it must end all the same. */
START_TEST(a_graph_in_itself_ends)
{
    fx_graph *g = fx_graph_new(ctx, "g"), *h = fx_graph_new(ctx, "h"), *again;
    const fx_arg *in_g = fx_arg_graph(ctx, g), *in_h = fx_arg_graph(ctx, h);
    fx_node_new(g, FX_CALL_FUNCTION, "f", fx_arg_seq(ctx, FX_ARG_TUPLE, 1, &in_h), NULL, 0, NULL, NULL);
    fx_node_new(h, FX_CALL_FUNCTION, "f", fx_arg_seq(ctx, FX_ARG_TUPLE, 1, &in_g), NULL, 0, NULL, NULL);
    const char *text = printed(g);
    ck_assert_ptr_nonnull(strstr(text, "graph(-1)"));
    ck_assert_int_eq(fx_graph_parse(ctx, "t", text, strlen(text), &again), FX_ERR_FORMAT);
}
END_TEST

/* A chain of subgraphs longer than any stack of calls prints; it is not read, nor are subgraphs that would unfold to more than memory. */
START_TEST(nesting_of_subgraphs_is_limited)
{
    fx_graph *g = NULL, *again;
    for (int i = 0; i < 20000; i++) {
        if (i == 100) {
            const char *deep = printed(g);
            ck_assert_int_eq(fx_graph_parse(ctx, "t", deep, strlen(deep), &again), FX_OK);
            ck_assert_str_eq(printed(again), deep);
        }
        const fx_arg *inner = g ? fx_arg_graph(ctx, g) : fx_arg_none(ctx);
        g = fx_graph_new(ctx, "g");
        fx_node_new(g, FX_CALL_FUNCTION, "f", fx_arg_seq(ctx, FX_ARG_TUPLE, 1, &inner), NULL, 0, NULL, NULL);
    }
    const char *text = printed(g);
    ck_assert_int_eq(fx_graph_parse(ctx, "t", text, strlen(text), &again), FX_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(first_message(), "subgraph 99 is nested 100 deep"));
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "graph g\n");
    fx_puts(&t, "subgraph 0 g {\n%x = placeholder[x]\n}\n");
    for (int i = 1; i < 60; i++)
        fx_printf(&t, "subgraph %d g {\n%%x = call_function[f](graph(%d), graph(%d))\n}\n", i, i - 1, i - 1);
    fx_diag_clear(ctx);
    ck_assert_int_eq(fx_graph_parse(ctx, "t", t.data, t.size, &again), FX_ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(first_message(), "is named too often"));
}
END_TEST

/* Any byte changed or the rest cut: a graph that prints and reads back, or messages. */
START_TEST(no_bytes_harm_the_parser)
{
    size_t n = strlen(all);
    uint64_t state = 11;
    for (size_t i = 0; i < 2 * n; i++) {
        fx_context *c = fx_context_create();
        char *text = malloc(n + 1);
        memcpy(text, all, n + 1);
        state = state * 6364136223846793005u + 1442695040888963407u;
        text[i % n] = i < n ? (char)(text[i] ^ (1 << (state >> 61))) : (char)(state >> 40);
        size_t size = i % 11 == 0 ? i % n : n;
        fx_graph *g = NULL, *again = NULL;
        if (fx_graph_parse(c, "fuzz", text, size, &g) == FX_OK) {
            fx_text t, u;
            fx_text_init(&t, fx_context_arena(c));
            fx_graph_print(&t, g);
            ck_assert_msg(fx_graph_parse(c, "again", t.data, t.size, &again) == FX_OK, "%s\n%s", fx_diag_get(c, 0)->message, t.data);
            fx_text_init(&u, fx_context_arena(c));
            fx_graph_print(&u, again);
            ck_assert_str_eq(t.data, u.data);
            fx_graph_print_table(&u, g, NULL);
            fx_graph_print_dot(&u, g);
        } else {
            ck_assert_uint_ge(fx_diag_count(c), 1);
        }
        free(text);
        fx_context_free(c);
    }
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    static const char *const opens[] = {"%x = call_method[f](", "%x : f32[", "%x : "};
    static const char *const repeated[] = {"[", "(", "("};
    for (int k = 0; k < 3; k++) {
        fx_text t;
        fx_graph *g;
        fx_text_init(&t, fx_context_arena(ctx));
        fx_printf(&t, "graph g\n%s", opens[k]);
        for (int i = 0; i < 200000; i++)
            fx_puts(&t, repeated[k]);
        fx_diag_clear(ctx);
        ck_assert_int_eq(fx_graph_parse(ctx, "deep", t.data, t.size, &g), FX_ERR_FORMAT);
        ck_assert_ptr_nonnull(strstr(first_message(), "more than 100 levels of nesting"));
    }
    /* Powers nest to the right. */
    fx_text t;
    fx_graph *g;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "graph g\n%x : f32[2");
    for (int i = 0; i < 200000; i++)
        fx_puts(&t, "**s");
    fx_diag_clear(ctx);
    ck_assert_int_eq(fx_graph_parse(ctx, "deep", t.data, t.size, &g), FX_ERR_FORMAT);
}
END_TEST

START_TEST(table_counts_and_aligns)
{
    fx_graph *g = parsed("graph net\nparameter conv.weight : f32[16, 3, 3, 3] = all 0.5\n"
                         "%x : f32[1, 3, 32, 32] = placeholder[x]\n"
                         "%w : f32[16, 3, 3, 3] = get_attr[conv.weight]\n"
                         "%conv2d : f32[1, 16, 30, 30] = call_function[aten.conv2d.default](%x, %w, None, [1, 1], [0, 0], [1, 1], 1)"
                         "  # features.0.a_module_with_a_name_that_is_much_too_long_to_be_shown_\xc3\xa9_whole\n"
                         "output((%conv2d,))\n");
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_graph_print_table(&t, g, NULL);
    ck_assert_int_eq(fx_node_flops(fx_graph_find_node(g, "conv2d")), 2 * 16 * 30 * 30 * 27);
    ck_assert_ptr_nonnull(strstr(t.data, "opcode         name    target               value                 FLOPs  bytes  module\n"));
    ck_assert_ptr_nonnull(strstr(t.data, "get_attr       w       conv.weight          f32[16, 3, 3, 3]             1.7 k\n"));
    ck_assert_ptr_nonnull(strstr(t.data, "call_function  conv2d  aten.conv2d.default  f32[1, 16, 30, 30]  777.6 k"));
    ck_assert_ptr_nonnull(strstr(t.data, "features.0.a_module_w\xe2\x80\xa6"));
    ck_assert_ptr_nonnull(strstr(t.data, "\n4 nodes, 777.6 k FLOPs, 432 parameters (1.7 k bytes), 0 bytes of buffers and constants\n"));
    fx_text_init(&t, fx_context_arena(ctx));
    fx_graph_print_dot(&t, g);
    ck_assert_ptr_nonnull(strstr(t.data, "n2 [fillcolor=\"DarkOliveGreen1\", label=\"{%conv2d|op_code=call_function|target=aten.conv2d.default"
                                       "|args=(\\lNone,\\l[1, 1],\\l[0, 0],\\l[1, 1],\\l1,\\l)\\l|num_users=1|f32[1, 16, 30, 30]}\"];"));
    ck_assert_ptr_nonnull(strstr(t.data, "    n0 -> n2;\n    n1 -> n2;\n"));
}
END_TEST

START_TEST(dot_labels_are_escaped)
{
    fx_graph *g = parsed("graph \"a\\\"b\\n\"\n%x = placeholder[\"q\\\"\\\\\\n\"]\noutput(%x)\n");
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_graph_print_dot(&t, g);
    ck_assert_ptr_nonnull(strstr(t.data, "digraph \"a\\\"b?\" {"));
    ck_assert_ptr_nonnull(strstr(t.data, "label=\"{%x|op_code=placeholder|target=q\\\"\\\\?|num_users=1}\""));
}
END_TEST

/* Written by hand: types and defaults are left out. */
START_TEST(graphs_are_completed)
{
    fx_graph *g = parsed("graph g\nparameter w : f32[4, 3] = all 0.5\n%x : f32[2, 3] = placeholder[x]\n%w = get_attr[w]\n"
                         "%l = call_function[torch.ops.aten.linear.default](%x, %w)\n%v = call_function[aten.view.default](%l, size=[-1])\n"
                         "output((%v,))\n");
    ck_assert_msg(fx_graph_complete(g) == FX_OK, "%s", first_message());
    ck_assert_int_eq(fx_graph_find_node(g, "l")->args->n, 3);
    ck_assert_int_eq(fx_graph_find_node(g, "v")->type->dims[0].value, 8);
    ck_assert_int_eq(fx_graph_find_node(g, "v")->kwargs->n, 0);
    static const char *const bad[][2] = {
        {"graph g\n%x : f32[2, 3] = placeholder[x]\n%y : f32[2, 4] = call_function[aten.relu.default](%x)\noutput((%y,))\n",
         "expected f32[2, 3] by its arguments, but the model says f32[2, 4]"},
        {"graph g\n%x : f32[2, 3] = placeholder[x]\n%y = call_function[aten.relu.default](%x, 1)\noutput((%y,))\n", "relu"},
        {"graph g\n%x : f32[2, 3] = placeholder[x]\n%w = get_attr[w]\noutput((%w,))\n", "w"},
        {"graph g\n%x : f32[2, 3] = placeholder[x]\n", "output"},
    };
    for (int i = 0; i < 4; i++) {
        fx_diag_clear(ctx);
        ck_assert_int_ne(fx_graph_complete(parsed(bad[i][0])), FX_OK);
        ck_assert_msg(strstr(first_message(), bad[i][1]) != NULL, "expected '%s', got '%s'", bad[i][1], first_message());
    }
}
END_TEST

static const struct {
    const char *types, *call;
    int64_t flops;
} counted[] = {
    {"f32[2, 8, 10, 10] f32[8, 1, 3, 3]", "f32[2, 8, 8, 8] = call_function[aten.conv2d.default](%a, %b, None, [1, 1], [0, 0], [1, 1], 8)",
     2 * 2 * 8 * 64 * 9},
    {"f32[2, 8, 10, 10] f32[8, 4, 2, 2]",
     "f32[2, 4, 20, 20] = call_function[aten.convolution.default](%a, %b, None, [2, 2], [0, 0], [1, 1], True, [0, 0], 1)",
     2 * 2 * 8 * 100 * 16},
    {"f32[4, 32] f32[10, 32]", "f32[4, 10] = call_function[aten.linear.default](%a, %b, None)", 2 * 4 * 10 * 32},
    {"f32[3, 4, 5] f32[3, 5, 6]", "f32[3, 4, 6] = call_function[aten.bmm.default](%a, %b)", 2 * 3 * 4 * 6 * 5},
    {"f32[4, 8] f32[4, 8]", "f32[4, 8] = call_function[aten.add.Tensor](%a, %b, 1)", 32},
    {"f32[4, 8] f32[1]", "f32[32] = call_function[aten.view.default](%a, [32])", 0},
    {"f32[1, 4, 8, 8] f32[1]", "f32[1, 4, 4, 4] = call_function[aten.max_pool2d.default](%a, [2, 2], [2, 2], [0, 0], [1, 1], False)",
     4 * 16 * 4},
    {"f32[1, 4, 8, 8] f32[1]", "f32[1, 4, 1, 1] = call_function[aten.adaptive_avg_pool2d.default](%a, [1, 1])", 4 * 64},
    {"f32[s0, 8] f32[1]", "f32[s0, 8] = call_function[aten.relu.default](%a)", 0},
    {"f32[4611686018427387904, 8] f32[1]", "f32[4611686018427387904, 8] = call_function[aten.relu.default](%a)", INT64_MAX},
};

START_TEST(flops_of_nodes)
{
    const char *types = counted[_i].types, *second = strchr(types, ']') + 2;
    const char *text = fx_arena_printf(fx_context_arena(ctx), "graph g\n%%a : %.*s = placeholder[a]\n%%b : %s = placeholder[b]\n%%c : %s\n",
                                       (int)(second - types - 1), types, second, counted[_i].call);
    fx_graph *g = parsed(text);
    ck_assert_int_eq(fx_node_flops(fx_graph_find_node(g, "c")), counted[_i].flops);
}
END_TEST

START_TEST(running_out_of_memory_is_an_error)
{
    bool done = false;
    for (long n = 1; !done; n++) {
        ck_assert_int_lt(n, 5000);
        unit_memory m = {.fail_at = n, .for_good = true};
        fx_context *c = unit_context(&m);
        if (!c)
            continue;
        fx_graph *g = NULL;
        fx_status st = fx_graph_parse(c, "test", all, strlen(all), &g);
        ck_assert_msg(st == FX_OK || st == FX_ERR_NOMEM, "%s", fx_diag_get(c, 0)->message);
        done = st == FX_OK;
        fx_context_free(c);
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, text_reads_and_prints_back);
    tcase_add_test(t, tensors_come_with_their_values);
    tcase_add_loop_test(t, mistakes_have_line_and_column, 0, (int)(sizeof mistakes / sizeof mistakes[0]));
    tcase_add_test(t, mistakes_are_told_together);
    tcase_add_test(t, subgraphs_settings_and_notes_are_read);
    tcase_add_test(t, a_graph_in_itself_ends);
    tcase_add_test(t, nesting_of_subgraphs_is_limited);
    tcase_add_test(t, no_bytes_harm_the_parser);
    tcase_add_test(t, deep_nesting_is_refused);
    tcase_add_test(t, running_out_of_memory_is_an_error);
    tcase_add_test(t, graphs_are_completed);
    tcase_add_test(t, table_counts_and_aligns);
    tcase_add_test(t, dot_labels_are_escaped);
    tcase_add_loop_test(t, flops_of_nodes, 0, (int)(sizeof counted / sizeof counted[0]));
}

int main(void)
{
    return unit_run("print", 300, set_up, tear_down, add_tests);
}
