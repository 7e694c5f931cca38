/* tests/unit/test_pt2_write.c: graphs written as .pt2 and read back: the same text; what a .pt2 cannot hold is named; nothing is left of
 * what fails. That torch.export.load takes them: tests/fx_models/test_pt2_write.py.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "import.h"

#include "frontend/pt2.h"

/* Every kind of argument, result and tensor. */
static const char *const graphs[] = {
    "graph \"args\" imported\n\n"
    "%x : f32[2, 3, 4, 5] = placeholder[x]\n%i : i64[2] = placeholder[i]\n"
    "%a : f32[2, 3, 4, 5] = call_function[aten.clamp.default](%x, -inf, 2)\n"
    "%b : f32[2, 3, 4, 5] = call_function[aten.add.Tensor](%a, nan, 1)\n"
    "%c : f64[2, 3, 4, 5] = call_function[aten._to_copy.default](%b, torch.float64, torch.strided, device(\"cpu\"), None, False, torch.preserve_format)\n"
    "%d : f32[2, 3, 4, 5] = call_function[aten.gelu.default](%x, \"tanh\")\n"
    "%e : f32[2, 3, 4, 5] = call_function[aten.div.Tensor_mode](%d, %x, \"floor\")\n"
    "%f : f32[2, 3, 1, 1] = call_function[aten.mean.dim](%e, [-1, -2], True, None)\n"
    "%g : f32[2, 3, 8, 10] = call_function[aten.upsample_nearest2d.vec](%x, None, [2.0, 2.0])\n"
    "%h : f32[2, 2] = call_function[aten.full.default]([2, 2], 1.5, torch.float32, None, device(\"cpu\"), False)\n"
    "%k : f32[2, 3, 4, 5] = call_function[aten.flip.default](%x, [0, 3])\n"
    "%m : f32[2, 3, 4, 5] = call_function[aten.relu_.default](%k)\n"
    "%n : f32[2, 3, 2, 2] = call_function[aten.max_pool2d.default](%x, [2, 2], [], [0, 0], [1, 1], False)\n"
    "output((%c, %f, %g, %h, %m, %n, %i, None, 3, 2.5, True)) : (f64[2, 3, 4, 5], f32[2, 3, 1, 1], f32[2, 3, 8, 10], f32[2, 2], f32[2, 3, 4, 5], "
    "f32[2, 3, 2, 2], i64[2], None, int(3), float, bool)\n",

    "graph \"results\" imported\n\n"
    "%x : f32[2, 3, 4, 4] = placeholder[x]\n"
    "%pool : (f32[2, 3, 2, 2], i64[2, 3, 2, 2]) = call_function[aten.max_pool2d_with_indices.default](%x, [2, 2], [], [0, 0], [1, 1], False)\n"
    "%best : f32[2, 3, 2, 2] = call_function[_operator.getitem](%pool, 0)\n"
    "%parts : (f32[2, 2, 4, 4], f32[2, 1, 4, 4]) = call_function[aten.split.Tensor](%x, 2, 1)\n"
    "%part : f32[2, 1, 4, 4] = call_function[_operator.getitem](%parts, 1)\n"
    "%all : f32[2, 2, 4, 4] = call_function[aten.cat.default]([%part, %part], 1)\n"
    "%loose : f32[2, 3, 4, 4] = call_function[aten.neg.default](%x)\n"
    "output((%best, %all)) : (f32[2, 3, 2, 2], f32[2, 2, 4, 4])\n",

    "graph \"tensors\" imported\n"
    "module \"\" : mine.Net\n"
    "parameter w : f32[3, 4] = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]\n"
    "parameter empty : f32[0, 4] = []\n"
    "parameter b.tied : f32[4] shares 0+0 = [1.0, 2.0, 3.0, 4.0]\n"
    "parameter a.tied : f32[4] shares 0+0 = [1.0, 2.0, 3.0, 4.0]\n"
    "parameter a.part : f32[2] shares 0+1 = [2.0, 3.0]\n"
    "buffer a.count : i64[] = [7]\n"
    "buffer a.mask : bool[3] transient = [True, False, True]\n"
    "buffer a.half : f16[2]{3} = [0.5, -2.0]\n"
    "\n"
    "%x : f32[1, 4] = placeholder[x]\n"
    "%w : f32[3, 4] = get_attr[w]\n%t : f32[4] = get_attr[a.tied]\n"
    "%y : f32[1, 4] = call_function[aten.mul.Tensor](%x, %t)  # a, net.py:7\n"
    "%z : f32[1, 3] = call_function[aten.linear.default](%y, %w, None)  # -, net.py:9\n"
    "output((%z,)) : (f32[1, 3],)\n",

    "graph \"dynamic\" imported\n"
    "symbol s0 in [2, 64]\n"
    "symbol s1 in [1, inf]\n"
    "\n"
    "%x : f32[s0, s1, 3] = placeholder[x]\n"
    "%n : int(s0) = call_function[aten.sym_size.int](%x, 0)\n%m : int(s1) = call_function[aten.sym_size.int](%x, 1)\n"
    "%p : int(s0*s1) = call_function[_operator.mul](%n, %m)\n"
    "%y : f32[s0*s1, 3] = call_function[aten.reshape.default](%x, [%p, 3])\n"
    "%z : f32[s0*s1, 3] = call_function[aten.mul.Tensor](%y, %n)\n"
    "output((%z, %p)) : (f32[s0*s1, 3], int(s0*s1))\n",

    "graph \"trees\" imported\n"
    "inputs (((0, [1]),), {\"k\": 2})\n"
    "outputs {\"a \\\"quoted\\\" key\": [0], \"b\": (1,)}\n"
    "\n"
    "%p : f32[] = placeholder[p]\n%q : f32[] = placeholder[q]\n%k : f32[] = placeholder[k]\n"
    "%y : f32[] = call_function[aten.add.Tensor](%p, %q, 1)\n"
    "output((%y, %k)) : (f32[], f32[])\n",
};

/* What fxcc does not keep of a graph without results of its own: orders of modules are those of first mention. */
START_TEST(graphs_read_back_the_same)
{
    fx_graph *g = parsed(graphs[_i]);
    char *before = unit_text(g);
    ck_assert_msg(fx_save(g, in_folder("a.pt2")) == FX_OK, "%s", all_messages(ctx));
    ck_assert_int_eq(files_there(), 1);
    char *after = unit_text(g);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    fx_graph *b = loaded("a.pt2");
    /* What the file says of strides is a hint that the text had not. Comparing without: as read a second time. */
    ck_assert_int_eq(fx_save(b, in_folder("b.pt2")), FX_OK);
    assert_same_text(b, loaded("b.pt2"));
    FX_FOR_NODES(g, n) {
        const fx_node *m = fx_graph_find_node(b, n->name);
        bool unread = n->opcode == FX_CALL_FUNCTION && n->op->id == FX_OP_getitem && !n->n_uses;
        ck_assert_msg(unread || m, "%s", n->name);
        if (unread || n->opcode == FX_OUTPUT)
            continue;
        ck_assert_msg(m->target == n->target && m->args == n->args && m->n_operands == n->n_operands, "%s", n->name);
        ck_assert_msg(n->type->kind == m->type->kind, "%s", n->name);
        ck_assert_msg(n->type->kind != FX_TYPE_TENSOR || (fx_type_same_shape(n->type, m->type) && n->type->dtype == m->type->dtype), "%s", n->name);
        ck_assert_msg((n->loc.frame == m->loc.frame) && (n->loc.module == m->loc.module), "%s", n->name);
        for (int i = 0; i < n->n_operands; i++)
            ck_assert_str_eq(n->operands[i].def->name, m->operands[i].def->name);
    }
    ck_assert(g->in_tree == b->in_tree && g->out_tree == b->out_tree);
    const fx_node *out = fx_graph_output_node(g), *out_b = fx_graph_output_node(b);
    ck_assert_ptr_eq(out->args, out_b->args);
}
END_TEST

START_TEST(tensors_read_back_the_same)
{
    fx_graph *g = parsed(graphs[2]);
    ck_assert_msg(fx_save(g, in_folder("a.pt2")) == FX_OK, "%s", all_messages(ctx));
    fx_graph *b = loaded("a.pt2");
    const char *const paths[] = {"w", "empty", "a.tied", "b.tied", "a.part", "a.count", "a.mask", "a.half"};
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
        fx_attr *s = fx_attr_find(g, paths[k]), *t = fx_attr_find(b, paths[k]);
        ck_assert_msg(s && t && s->is_parameter == t->is_parameter && s->persistent == t->persistent, "%s", paths[k]);
        ck_assert_int_eq(fx_tensor_touch(ctx, &s->tensor), FX_OK);
        ck_assert_msg(fx_tensor_touch(ctx, &t->tensor) == FX_OK, "%s", all_messages(ctx));
        ck_assert_int_eq(fx_tensor_numel(&s->tensor), fx_tensor_numel(&t->tensor));
        for (int64_t i = 0; i < fx_tensor_numel(&s->tensor); i++)
            ck_assert_double_eq(fx_tensor_get(&s->tensor, i), fx_tensor_get(&t->tensor, i));
    }
    ck_assert_ptr_eq(fx_attr_find(b, "a.tied")->tensor.data, fx_attr_find(b, "b.tied")->tensor.data);
    ck_assert_ptr_eq((char *)fx_attr_find(b, "a.tied")->tensor.data + 4, fx_attr_find(b, "a.part")->tensor.data);
    ck_assert_ptr_eq(b->root->class_name, fx_intern(ctx, "mine.Net"));
}
END_TEST

static const struct { const char *text, *message; } refused[] = {
    {"graph \"g\" captured\nmodule m : torch.nn.ReLU\n\n%x : f32[2] = placeholder[x]\n%y = call_module[m](%x)\noutput(%y)\n", "legalize"},
    {"graph \"g\" imported\nmodule m : torch.nn.ReLU\n\n%x : f32[2] = placeholder[x]\n%y : f32[2] = call_module[m](%x)\noutput((%y,))\n", "node 'y': a .pt2 cannot hold call_module 'm'"},
    {"graph \"g\" imported\n\n%x : f32[2] = placeholder[x]\n%y : f32[2] = call_function[mine.op](%x)\noutput((%y,))\n", "'mine.op'"},
    {"graph \"g\" imported\nsymbol s0 in [2, 8]\n\n%x : f32[Opaque(\"odd(s0)\")] = placeholder[x]\noutput((%x,))\n", "the size"},
    {"graph \"g\" imported\n\n%x : int(7) = placeholder[x]\noutput((%x,))\n", "an input that is no tensor"},
    {"graph \"g\" imported\n\n%x : f32[2] = placeholder[x]\noutput(%x)\n", "no tuple"},
    {"graph \"g\" imported\n\n%x : f32[2] = placeholder[x]\noutput(((%x,),))\n", "an item of a list"},
    {"graph \"g\" imported\ninputs ((0, None), {})\n\n%x : f32[2] = placeholder[x]\noutput((%x,))\n", "no tensor"},
    {"graph \"g\" imported\n\n%x : f32[2] = placeholder[x]\noutput((%x, \"\\377\"))\n", "UTF-8"},
    {"graph \"g\" imported\nparameter p : f32[100] hash 0x00000000deadbeef\n\n%p : f32[100] = get_attr[p]\noutput((%p,))\n", "only a hash"},
    {"graph \"g\" imported\nparameter p : f32[2] shares 0+0 = [1.0, 2.0]\nbuffer q : i32[2] shares 0+0 = [0, 1073741824]\n\n"
     "%x : f32[2] = placeholder[x]\noutput((%x,))\n", "another dtype"},
};

START_TEST(what_a_pt2_cannot_hold_is_named)
{
    fx_graph *g = parsed(refused[_i].text);
    fx_status status = fx_save(g, in_folder("a.pt2"));
    ck_assert_msg(status == FX_ERR_UNSUPPORTED && strstr(all_messages(ctx), refused[_i].message), "%s: expected '%s' in '%s'",
                  fx_status_string(status), refused[_i].message, all_messages(ctx));
    ck_assert_int_eq(files_there(), 0);
}
END_TEST

/* All bad nodes, not the first only. */
START_TEST(all_nodes_are_named)
{
    fx_graph *g = parsed("graph \"g\" imported\n\n%x : f32[2] = placeholder[x]\n%y : f32[2] = call_function[mine.op](%x)\n"
                         "%z : f32[2] = call_method[frob](%y)\noutput((%z,))\n");
    ck_assert_int_eq(fx_save(g, in_folder("a.pt2")), FX_ERR_UNSUPPORTED);
    ck_assert_uint_eq(fx_diag_count(ctx), 2);
}
END_TEST

START_TEST(files_appear_whole_or_not_at_all)
{
    fx_graph *g = parsed(graphs[2]);
    ck_assert_int_eq(fx_save(g, in_folder("missing/a.pt2")), FX_ERR_IO);
    ck_assert_int_eq(mkdir(in_folder("dir.pt2"), 0777), 0);
    ck_assert_int_eq(fx_save(g, in_folder("dir.pt2")), FX_ERR_IO);
    ck_assert_int_eq(files_there(), 1);
    rmdir(in_folder("dir.pt2"));
    /* Over the file the weights are mapped from. */
    ck_assert_int_eq(fx_save(g, in_folder("a.pt2")), FX_OK);
    fx_graph *b = loaded("a.pt2");
    ck_assert_int_eq(fx_save(b, in_folder("a.pt2")), FX_OK);
    assert_same_text(b, loaded("a.pt2"));
    ck_assert_int_eq(files_there(), 1);
}
END_TEST

START_TEST(memory_runs_out)
{
    fx_status status = FX_ERR_NOMEM;
    for (long fail = 0; status == FX_ERR_NOMEM; fail++) {
        unit_memory m = {.fail_at = fail};
        fx_context *c = unit_context(&m);
        fx_graph *g = NULL;
        if (!c)
            continue;
        status = fx_load_memory(c, "test.fx", graphs[_i], strlen(graphs[_i]), &g);
        if (status == FX_OK)
            status = fx_save(g, in_folder("out.pt2"));
        if (status == FX_OK)
            status = fx_load(c, in_folder("out.pt2"), &g);
        ck_assert_msg(status == FX_OK || (status == FX_ERR_NOMEM && fx_diag_count(c) > 0), "allocation %ld: %s: %s", fail,
                      fx_status_string(status), all_messages(c));
        fx_context_free(c);
        ck_assert_int_eq(m.live, 0);
        ck_assert_int_le(files_there(), 1);
    }
}
END_TEST

/* The writer's zip64 records are read as its small ones: sizes and offsets beyond 32 bits cannot be tried, many entries can. */
START_TEST(many_entries)
{
    enum { N = 70000 };
    fx_output *o;
    ck_assert_int_eq(fx_output_open(ctx, in_folder("many.zip"), &o), FX_OK);
    fx_zip_out z = {.o = o, .arena = fx_context_arena(ctx)};
    for (int i = 0; i < N; i++) {
        const char *name = fx_intern_f(ctx, "e%d", i);
        ck_assert_int_eq(fx_zip_add(&z, name, name, strlen(name)), FX_OK);
    }
    ck_assert_int_eq(fx_zip_end(&z), FX_OK);
    ck_assert_int_eq(fx_output_close(o), FX_OK);
    ck_assert_int_eq(fx_output_commit(o), FX_OK);
    fx_file *file;
    fx_zip *zip;
    ck_assert_int_eq(fx_file_map(ctx, in_folder("many.zip"), &file), FX_OK);
    ck_assert_msg(fx_zip_open(ctx, file, &zip) == FX_OK, "%s", all_messages(ctx));
    ck_assert_uint_eq(zip->n, N);
    const fx_zip_entry *e = fx_zip_find(zip, "e69999");
    const unsigned char *data;
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(fx_zip_read(zip, e, fx_context_arena(ctx), 64, &data), FX_OK);
    ck_assert_int_eq(memcmp(data, "e69999", 6), 0);
}
END_TEST

static void add(TCase *t)
{
    enum { N = sizeof graphs / sizeof *graphs };
    tcase_add_loop_test(t, graphs_read_back_the_same, 0, N);
    tcase_add_test(t, tensors_read_back_the_same);
    tcase_add_loop_test(t, what_a_pt2_cannot_hold_is_named, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, all_nodes_are_named);
    tcase_add_test(t, files_appear_whole_or_not_at_all);
    tcase_add_loop_test(t, memory_runs_out, 0, N);
    tcase_add_test(t, many_entries);
}

int main(void)
{
    return unit_run("pt2_write", 120, import_set_up, import_tear_down, add);
}
