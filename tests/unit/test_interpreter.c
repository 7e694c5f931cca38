/* tests/unit/test_interpreter.c: running graphs node by node: callbacks, values, their memory, writes, modules with graphs, Python's
 * numbers, errors. What single rows compute is in test_interp.c and tests/ops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "passes/passes.h"
#include "tests/unit/unit.h"

/* ---- a context that counts its memory, and can be told to fail ---------------------------------------------------------- */

typedef struct memory {
    size_t live, peak, blocks;
    long left; /* allocations until one fails; -1: none does */
} memory;

static memory mem;
static fx_context *ctx;

static void *count_alloc(void *user, size_t size)
{
    memory *m = user;
    if (m->left == 0 || (m->left > 0 && --m->left == 0))
        return NULL;
    size_t *p = calloc(1, size + 16);
    if (!p)
        return NULL;
    *p = size;
    m->live += size;
    m->blocks++;
    m->peak = m->live > m->peak ? m->live : m->peak;
    return (char *)p + 16;
}

static void count_free(void *user, void *p)
{
    memory *m = user;
    if (!p)
        return;
    size_t *block = (size_t *)((char *)p - 16);
    m->live -= *block;
    m->blocks--;
    free(block);
}

static void set_up(void)
{
    mem = (memory){.left = -1};
    ctx = fx_context_create_with(count_alloc, count_free, &mem);
}

static void tear_down(void)
{
    fx_context_free(ctx);
    ck_assert_uint_eq(mem.blocks, 0);
}

static fx_graph *parse(const char *stage, const char *lines)
{
    fx_text text;
    fx_text_init(&text, fx_context_arena(ctx));
    fx_printf(&text, "graph \"case\" %s\n%s", stage, lines);
    fx_graph *g = NULL;
    ck_assert_msg(fx_graph_parse(ctx, "case.fx", text.data, text.size, &g) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_msg(fx_graph_complete(g) == FX_OK, "%s", unit_diag(ctx));
    return g;
}

static fx_tensor row(int n, const float *v)
{
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 1, (int64_t[]){n}, &t), FX_OK);
    memcpy(t.data, v, (size_t)n * sizeof *v);
    return t;
}

static void same(const fx_tensor *t, int n, const float *v)
{
    ck_assert_int_eq(t->dtype, FX_F32);
    ck_assert_int_eq(fx_tensor_numel(t), n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(fx_tensor_get(t, i) == (double)v[i], "element %d: %g, not %g", i, fx_tensor_get(t, i), (double)v[i]);
}

static fx_interpreter *interpreter(fx_graph *g, fx_interpreter_options opt)
{
    fx_interpreter *in = fx_interpreter_create(g, &opt);
    ck_assert_ptr_nonnull(in);
    return in;
}

static const fx_tensor *run(fx_interpreter *in, size_t n_in, const fx_tensor *inputs, size_t want)
{
    size_t n = 99;
    const fx_tensor *out = NULL;
    ck_assert_msg(fx_interpreter_run(in, n_in, inputs, &n, &out) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_uint_eq(n, want);
    return out;
}

static void fails(fx_interpreter *in, size_t n_in, const fx_tensor *inputs, fx_status status, const char *part)
{
    size_t n = 99;
    const fx_tensor *out = NULL;
    ck_assert_int_eq(fx_interpreter_run(in, n_in, inputs, &n, &out), status);
    ck_assert_msg(strstr(unit_diag(ctx), part) != NULL, "'%s' does not say '%s'", unit_diag(ctx), part);
    ck_assert_uint_eq(n, 99);
}

/* ---- callbacks ------------------------------------------------------------------------------------------------------------ */

typedef struct record {
    char text[2000];
    const char *stop;
    fx_interpreter *other;
    bool edit;
} record;

static fx_status before(void *user, fx_interpreter *in, const fx_node *n)
{
    record *l = user;
    fx_result r;
    ck_assert(!fx_interpreter_value(in, n, &r)); /* not yet */
    sprintf(l->text + strlen(l->text), "<%s ", n->name);
    return FX_OK;
}

static fx_status after(void *user, fx_interpreter *in, const fx_node *n, const fx_result *value)
{
    record *l = user;
    fx_result r;
    sprintf(l->text + strlen(l->text), "%s:%zu%s> ", n->name, value->count, value->is_tuple ? "t" : "");
    if (n->opcode != FX_OUTPUT) {
        ck_assert(fx_interpreter_value(in, n, &r));
        ck_assert_ptr_eq(r.tensors, value->tensors);
    }
    return l->stop && !strcmp(l->stop, n->name) ? FX_ERR_IO : FX_OK;
}

static const char split_graph[] = "\n%x : f32[4] = placeholder[x]\n"
                                  "%split = call_function[aten.split.Tensor](%x, 2)\n"
                                  "%a = call_function[_operator.getitem](%split, 1)\n"
                                  "%neg = call_function[aten.neg.default](%a)\n"
                                  "output((%neg, %a))\n";

START_TEST(callbacks_around_every_node)
{
    record l = {0};
    fx_graph *g = parse("imported", split_graph);
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){.before = before, .after = after, .user = &l});
    fx_tensor x = row(4, (float[]){1, 2, 3, 4});
    const fx_tensor *out = run(in, 1, &x, 2);
    same(&out[0], 2, (float[]){-3, -4});
    same(&out[1], 2, (float[]){3, 4});
    ck_assert_str_eq(l.text, "<x x:1> <split split:2t> <a a:1> <neg neg:1> <output output:2t> ");
    l = (record){.stop = "a"};
    fails(in, 1, &x, FX_ERR_IO, "stopped by the caller's callback");
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "'a'"));
    ck_assert_str_eq(l.text, "<x x:1> <split split:2t> <a a:1> ");
    fx_result r; /* what there was when it stopped */
    ck_assert(fx_interpreter_value(in, fx_graph_find_node(g, "a"), &r));
    same(r.tensors, 2, (float[]){3, 4});
    ck_assert(!fx_interpreter_value(in, fx_graph_find_node(g, "neg"), &r));
}
END_TEST

/* neg becomes twice its input; all else as it is. */
static fx_status doubling(void *user, fx_interpreter *in, const fx_node *n, size_t n_inputs, const fx_result *inputs, fx_result *out,
                          bool *handled)
{
    static fx_tensor t;
    ++*(int *)user;
    if (strcmp(n->target, "aten.neg.default"))
        return FX_OK;
    ck_assert_uint_eq(n_inputs, 1);
    ck_assert_int_eq(fx_interpreter_tensor(in, FX_F32, 1, inputs[0].tensors[0].sizes, &t), FX_OK);
    for (int64_t i = 0; i < t.sizes[0]; i++)
        fx_tensor_set(&t, i, 2 * fx_tensor_get(&inputs[0].tensors[0], i));
    *out = (fx_result){1, &t, false};
    *handled = true;
    return FX_OK;
}

static fx_status constant_input(void *user, fx_interpreter *in, const fx_node *n, size_t n_inputs, const fx_result *inputs, fx_result *out,
                                bool *handled)
{
    (void)in, (void)n, (void)inputs;
    ck_assert_uint_eq(n_inputs, 0);
    *out = (fx_result){1, user, false};
    *handled = true;
    return FX_OK;
}

static fx_status last_only(void *user, fx_interpreter *in, const fx_node *n, size_t n_inputs, const fx_result *inputs, fx_result *out,
                           bool *handled)
{
    (void)user, (void)in, (void)n;
    *out = inputs[n_inputs - 1];
    *handled = true;
    return FX_OK;
}

START_TEST(callbacks_instead_of_an_opcode)
{
    fx_graph *g = parse("imported", split_graph);
    fx_tensor x = row(4, (float[]){1, 2, 3, 4}), y = row(4, (float[]){5, 6, 7, 8});
    int calls = 0;
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){.run[FX_CALL_FUNCTION] = doubling, .user = &calls});
    const fx_tensor *out = run(in, 1, &x, 2);
    same(&out[0], 2, (float[]){6, 8});
    ck_assert_int_eq(calls, 3);
    in = interpreter(g, (fx_interpreter_options){.run[FX_PLACEHOLDER] = constant_input, .user = &y});
    same(&run(in, 1, &x, 2)[0], 2, (float[]){-7, -8});
    in = interpreter(g, (fx_interpreter_options){.run[FX_OUTPUT] = last_only});
    same(&run(in, 1, &x, 1)[0], 2, (float[]){3, 4});
}
END_TEST

static fx_status misuse(void *user, fx_interpreter *in, const fx_node *n)
{
    record *l = user;
    size_t count;
    const fx_tensor *out;
    if (n->opcode != FX_CALL_FUNCTION)
        return FX_OK;
    if (l->edit)
        fx_node_new(n->graph, FX_CALL_FUNCTION, "aten.neg.default", NULL, NULL, 0, NULL, NULL);
    else
        ck_assert_int_eq(fx_interpreter_run(in, 0, NULL, &count, &out), FX_ERR_ARGUMENT);
    return FX_OK;
}

START_TEST(misuse_is_refused)
{
    record l = {0};
    size_t n;
    const fx_tensor *out;
    fx_result r;
    fx_graph *g = parse("imported", split_graph), *h = parse("imported", split_graph);
    fx_tensor x = row(4, (float[]){1, 2, 3, 4}), y;
    ck_assert_ptr_null(fx_interpreter_create(NULL, NULL));
    ck_assert_int_eq(fx_interpreter_run(NULL, 1, &x, &n, &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_interpreter_tensor(NULL, FX_F32, 0, NULL, &y), FX_ERR_ARGUMENT);
    ck_assert_uint_eq(fx_interpreter_bytes(NULL, &n), 0);
    ck_assert(!fx_interpreter_value(NULL, g->first, &r));
    fx_interpreter_free(NULL);
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){.before = misuse, .user = &l});
    ck_assert(!fx_interpreter_value(in, g->first, &r));
    run(in, 1, &x, 2);
    ck_assert(!fx_interpreter_value(in, h->first, &r)); /* another graph's */
    ck_assert_int_eq(fx_interpreter_run(in, 1, NULL, &n, &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_interpreter_run(in, 1, &x, NULL, &out), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_interpreter_tensor(in, FX_F32, 9, NULL, &y), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_interpreter_tensor(in, FX_F32, 1, (int64_t[]){-1}, &y), FX_ERR_ARGUMENT);
    l.edit = true;
    g->insert_before = fx_graph_find_node(g, "output");
    fails(in, 1, &x, FX_ERR_ARGUMENT, "changed while it ran");
}
END_TEST

/* ---- values and their memory ------------------------------------------------------------------------------------------------ */

static fx_graph *chain(int length)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "\n%x : f32[262144] = placeholder[x]\n%n0 = call_function[aten.neg.default](%x)\n");
    for (int i = 1; i < length; i++)
        fx_printf(&t, "%%n%d = call_function[aten.neg.default](%%n%d)\n", i, i - 1);
    fx_printf(&t, "output((%%n%d,))\n", length - 1);
    return parse("imported", t.data);
}

START_TEST(values_go_with_their_last_use)
{
    enum { MB = 1 << 20 };
    fx_graph *g = chain(50);
    fx_tensor x;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 1, (int64_t[]){1 << 18}, &x), FX_OK);
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){0}), *all = interpreter(g, (fx_interpreter_options){.keep_values = true});
    fx_result r;
    size_t peak;
    ptrdiff_t before_run = (ptrdiff_t)mem.live;
    mem.peak = mem.live;
    run(in, 1, &x, 1);
    ck_assert_uint_eq(fx_interpreter_bytes(in, &peak), MB); /* the output */
    ck_assert_uint_eq(peak, 2 * MB);                        /* one neg's operand and result; x is ours */
    ck_assert_int_lt((ptrdiff_t)mem.peak - before_run, 2 * MB + MB / 4);
    ck_assert_int_lt((ptrdiff_t)mem.live - before_run, MB + MB / 4);
    ck_assert(!fx_interpreter_value(in, fx_graph_find_node(g, "n3"), &r));
    ck_assert(!fx_interpreter_value(in, fx_graph_find_node(g, "x"), &r));
    for (int i = 0; i < 20; i++)
        run(in, 1, &x, 1);
    ck_assert_int_lt((ptrdiff_t)mem.live - before_run, MB + MB / 4); /* no run leaves anything */
    fx_interpreter_free(in);
    ck_assert_int_lt((ptrdiff_t)mem.live - before_run, MB / 4);
    run(all, 1, &x, 1);
    ck_assert_uint_eq(fx_interpreter_bytes(all, &peak), 50 * MB);
    ck_assert_uint_eq(peak, 50 * MB);
    ck_assert(fx_interpreter_value(all, fx_graph_find_node(g, "n3"), &r));
    ck_assert_int_eq(r.tensors[0].sizes[0], 1 << 18);
    fx_interpreter_free(all);
    ck_assert_int_lt((ptrdiff_t)mem.live - before_run, MB / 4);
}
END_TEST

/* Outputs of one run are inputs of the next, as a recurrent state is. */
START_TEST(outputs_may_be_the_next_inputs)
{
    fx_graph *g = parse("imported", "\n%h : f32[2] = placeholder[h]\n%add = call_function[aten.add.Tensor](%h, 1)\n"
                                    "%view = call_function[aten.view.default](%h, [2])\noutput((%add, %view))\n");
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){0});
    fx_tensor h = row(2, (float[]){0, 10});
    const fx_tensor *out = &h;
    for (int i = 0; i < 1000; i++)
        out = run(in, 1, out, 2);
    same(&out[0], 2, (float[]){1000, 1010});
    same(&out[1], 2, (float[]){999, 1009}); /* a view of the last input */
    ck_assert_uint_le(fx_interpreter_bytes(in, NULL), 2 * 2 * sizeof(float));
}
END_TEST

/* ---- writes ---------------------------------------------------------------------------------------------------------------- */

static const char writing[] = "parameter w : f32[2] = [1.0, 2.0]\n\n"
                              "%x : f32[4] = placeholder[x]\n"
                              "%y : f32[4] = placeholder[y]\n"
                              "%w = get_attr[w]\n"
                              "%early = call_function[aten.slice.Tensor](%x, 0, 2, 4)\n"
                              "%view = call_function[aten.view.default](%x, [2, 2])\n"
                              "%select = call_function[aten.select.int](%view, 1, 0)\n"
                              "%mul_ = call_function[aten.mul_.Tensor](%select, 10)\n"
                              "%sum = call_function[aten.sum.default](%early)\n"
                              "output((%x, %mul_, %sum, %view, %y))\n";

START_TEST(inputs_are_copied_before_they_are_written)
{
    const float v[] = {1, 2, 3, 4};
    fx_tensor x[2] = {row(4, v), row(4, v)};
    fx_interpreter *in = interpreter(parse("imported", writing), (fx_interpreter_options){0});
    const fx_tensor *out = run(in, 2, x, 5);
    same(&out[0], 4, (float[]){10, 2, 30, 4});
    same(&out[1], 2, (float[]){10, 30});
    same(&out[2], 1, (float[]){34});
    same(&x[0], 4, v);
    ck_assert_ptr_ne(out[0].data, x[0].data);
    ck_assert_ptr_eq(out[3].data, out[0].data); /* still a view of what became of x */
    ck_assert_ptr_eq(out[4].data, x[1].data);   /* never written, never copied */
    x[1] = x[0]; /* two inputs in one memory stay so */
    out = run(in, 2, x, 5);
    ck_assert_ptr_eq(out[4].data, out[0].data);
    same(&x[0], 4, v);
    /* the caller's memory without a storage */
    float raw[] = {1, 2, 3, 4};
    x[0].data = raw;
    x[0].storage = NULL;
    x[1] = row(4, v);
    same(&run(in, 2, x, 5)[0], 4, (float[]){10, 2, 30, 4});
    ck_assert(raw[0] == 1);
}
END_TEST

START_TEST(in_place_writes_reach_the_caller)
{
    const float v[] = {1, 2, 3, 4};
    fx_tensor x[2] = {row(4, v), row(4, v)};
    fx_interpreter *in = interpreter(parse("imported", writing), (fx_interpreter_options){.in_place = true});
    const fx_tensor *out = run(in, 2, x, 5);
    same(&x[0], 4, (float[]){10, 2, 30, 4});
    same(&x[1], 4, v);
    ck_assert_ptr_eq(out[0].data, x[0].data);
    ck_assert_uint_eq(fx_interpreter_bytes(in, NULL), sizeof(float)); /* sum */
    run(in, 2, x, 5);
    same(&x[0], 4, (float[]){100, 2, 300, 4});
}
END_TEST

/* ---- modules that hold a graph ---------------------------------------------------------------------------------------------- */

static fx_graph *with_body(const char *outer, const char *body)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_printf(&t, "module sub\n%s", outer);
    fx_graph *g = parse("captured", t.data);
    fx_module_make(g, "sub")->body = parse("imported", body);
    return g;
}

START_TEST(bodies_of_modules_run)
{
    fx_graph *g = with_body("\n%x : f32[2] = placeholder[x]\n%sub = call_module[sub](%x, b=2)\n%a = call_function[_operator.getitem](%sub, 1)\n"
                            "output((%a, %sub))\n",
                            "parameter w : f32[2] = [10.0, 20.0]\n\n%a : f32[2] = placeholder[a]\n%b = placeholder[b]\n"
                            "%c = placeholder[c](3)\n%w = get_attr[w]\n%add = call_function[aten.add.Tensor](%a, %w)\n"
                            "%mul = call_function[aten.mul.Tensor](%add, %b)\n%sub = call_function[aten.sub.Tensor](%mul, %c)\n"
                            "output((%add, %sub))\n");
    fx_tensor x = row(2, (float[]){1, 2});
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){0});
    const fx_tensor *out = run(in, 1, &x, 3);
    same(&out[0], 2, (float[]){19, 41});
    same(&out[1], 2, (float[]){11, 22});
    /* another body is seen by the next run */
    fx_module_find(g, "sub")->body = parse("imported", "\n%a : f32[2] = placeholder[a]\n%b = placeholder[b]\n%n = call_function[aten.neg.default](%a)\n"
                                                       "output((%a, %n))\n");
    same(&run(in, 1, &x, 3)[0], 2, (float[]){-1, -2});
}
END_TEST

START_TEST(bodies_are_called_as_functions_are)
{
    static const char identity[] = "\n%a : f32[2] = placeholder[a]\noutput(%a)\n";
    static const struct {
        const char *call, *message;
    } cases[] = {
        {"%sub = call_module[sub](%x, %x)", "expected 1 inputs, got 2"},
        {"%sub = call_module[sub](%x, a=%x)", "two values for input 'a'"},
        {"%sub = call_module[sub](q=%x)", "has no input 'q'"},
        {"%sub = call_module[sub]()", "expected 1 inputs, got 0"},
        {"%sub = call_module[sub]([[1], 2])", "tensors and numbers, got list"},
    };
    fx_tensor x = row(2, (float[]){1, 2});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_text t;
        fx_text_init(&t, fx_context_arena(ctx));
        fx_printf(&t, "\n%%x : f32[2] = placeholder[x]\n%s\noutput((%%sub,))\n", cases[i].call);
        fx_interpreter *in = interpreter(with_body(t.data, identity), (fx_interpreter_options){0});
        size_t n;
        const fx_tensor *out;
        ck_assert_int_ne(fx_interpreter_run(in, 1, &x, &n, &out), FX_OK);
        ck_assert_msg(strstr(unit_diag(ctx), cases[i].message) != NULL, "%s", unit_diag(ctx));
    }
    fx_graph *g = with_body("\n%x : f32[2] = placeholder[x]\n%sub = call_module[sub](%x)\noutput((%sub,))\n", identity);
    fx_graph *body = fx_module_find(g, "sub")->body;
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){0});
    ck_assert_ptr_eq(run(in, 1, &x, 1)[0].data, x.data);
    /* a body that calls itself */
    fx_module_make(body, "again")->body = body;
    fx_node *output = fx_graph_output_node(body);
    body->insert_before = output;
    const fx_arg *one = fx_arg_seq(ctx, FX_ARG_TUPLE, 1, (const fx_arg *[]){fx_arg_operand(ctx, 0)});
    fx_node *again = fx_node_new(body, FX_CALL_MODULE, "again", one, NULL, 1, &body->first, NULL);
    fx_node_assign(output, one, NULL, 1, &again);
    fails(in, 1, &x, FX_ERR_UNSUPPORTED, "more than 64 deep");
}
END_TEST

/* ---- Python's numbers -------------------------------------------------------------------------------------------------------- */

START_TEST(numbers_and_shapes_of_python)
{
    static const struct {
        const char *call;
        double want;
    } cases[] = {
        {"call_method[size](%x, 0)", 2}, {"call_method[size](%x, -1)", 6}, {"call_method[size](%x, dim=1)", 6}, {"call_method[dim](%x)", 2},
        {"call_method[numel](%x)", 12}, {"call_function[builtins.getattr](%x, \"ndim\")", 2}, {"call_function[builtins.len](%x)", 2},
        {"call_function[_operator.floordiv](7, 2)", 3}, {"call_function[_operator.floordiv](-7, 2)", -4},
        {"call_function[_operator.floordiv](7, -2)", -4}, {"call_function[_operator.mod](-7, 3)", 2}, {"call_function[_operator.mod](7, -3)", -2},
        {"call_function[_operator.mod](-7.5, 2)", 0.5}, {"call_function[_operator.floordiv](-7.5, 2)", -4},
        {"call_function[_operator.truediv](7, 2)", 3.5}, {"call_function[_operator.pow](2, 10)", 1024}, {"call_function[_operator.pow](2, -1)", 0.5},
        {"call_function[_operator.pow](-1, 1000001)", -1}, {"call_function[_operator.add](True, 1)", 2}, {"call_function[_operator.neg](3)", -3},
        {"call_function[builtins.int](-2.7)", -2}, {"call_function[math.floor](-2.5)", -3}, {"call_function[math.ceil](2.5)", 3},
        {"call_function[math.sqrt](2.25)", 1.5}, {"call_function[builtins.max](3, 5)", 5}, {"call_function[builtins.min](3, 5)", 3},
        {"call_function[_operator.lt](2, 3)", 1}, {"call_function[_operator.ge](2, 3)", 0}, {"call_function[_operator.ne](2, 2.0)", 0},
        {"call_function[_operator.eq]((1, 2), (1, 2))", 1}, {"call_function[_operator.not_](0)", 1}, {"call_function[builtins.abs](-3)", 3},
        {"call_function[_operator.getitem]((1, 2, 3), -1)", 3},
    };
    fx_tensor x;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, (int64_t[]){2, 6}, &x), FX_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_text t;
        fx_text_init(&t, fx_context_arena(ctx));
        fx_printf(&t, "\n%%x = placeholder[x]\n%%y = %s\noutput((%%y,))\n", cases[i].call);
        fx_interpreter *in = interpreter(parse("captured", t.data), (fx_interpreter_options){0});
        const fx_tensor *out = run(in, 1, &x, 1);
        ck_assert_int_eq(out->rank, 0);
        ck_assert_msg(fx_tensor_get(out, 0) == cases[i].want, "%s: %g", cases[i].call, fx_tensor_get(out, 0));
    }
    /* x.shape[:-1] + (3,), from the last to the first */
    fx_interpreter *in = interpreter(parse("captured", "\n%x = placeholder[x]\n%s = call_function[builtins.getattr](%x, \"shape\")\n"
                                                       "%h = call_function[_operator.getitem](%s, slice(None, -1, None))\n"
                                                       "%t = call_function[_operator.add](%h, (3, 4))\n"
                                                       "%r = call_function[_operator.getitem](%t, slice(None, None, -2))\noutput(%r)\n"),
                                     (fx_interpreter_options){0});
    const fx_tensor *out = run(in, 1, &x, 2);
    ck_assert_int_eq(fx_tensor_get_int(&out[0], 0), 4);
    ck_assert_int_eq(fx_tensor_get_int(&out[1], 0), 2);
}
END_TEST

START_TEST(numbers_of_python_fail_by_name)
{
    static const struct {
        const char *call, *message;
    } cases[] = {
        {"call_function[_operator.mod](7, 0)", "division by zero"}, {"call_function[_operator.pow](10, 30)", "more than 64 bits"},
        {"call_function[builtins.int](1e+30)", "more than 64 bits"}, {"call_function[_operator.getitem]((1, 2), 2)", "an index below 2, got 2"},
        {"call_method[size](%x, 2)", "a dim of a tensor of rank 2"}, {"call_function[_operator.getitem]((1, 2), slice(None, None, 0))", "step cannot be 0"},
        {"call_function[_operator.neg](-9223372036854775808)", "more than 64 bits"},
    };
    fx_tensor x;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, (int64_t[]){2, 6}, &x), FX_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_text t;
        fx_text_init(&t, fx_context_arena(ctx));
        fx_printf(&t, "\n%%x = placeholder[x]\n%%y = %s\noutput((%%y,))\n", cases[i].call);
        fx_interpreter *in = interpreter(parse("captured", t.data), (fx_interpreter_options){0});
        size_t n;
        const fx_tensor *out;
        ck_assert_int_ne(fx_interpreter_run(in, 1, &x, &n, &out), FX_OK);
        ck_assert_msg(strstr(unit_diag(ctx), cases[i].message) && strstr(unit_diag(ctx), "'y'"), "%s", unit_diag(ctx));
    }
}
END_TEST

/* ---- captured graphs: modules, methods, torch's functions --------------------------------------------------------------------- */

static const char live[] = "graph \"case\" captured\n"
                           "module act : torch.nn.ReLU\nmodule lin : torch.nn.Linear(in_features=2, out_features=2)\n"
                           "parameter lin.weight : f32[2, 2] = [1.0, 0.0, 0.0, -1.0]\n"
                           "parameter lin.bias : f32[2] = [0.0, 1.0]\n\n"
                           "%x = placeholder[x]\n"
                           "%lin = call_module[lin](%x)\n"
                           "%act = call_module[act](%lin)\n"
                           "%n = call_method[size](%act, 0)\n"
                           "%half = call_function[_operator.floordiv](%n, 2)\n"
                           "%view = call_method[view](%act, %half, -1)\n"
                           "%y = call_function[torch.add](%view, 1, alpha=2)\n"
                           "output(%y)\n";

static fx_tensor square(const float v[4])
{
    fx_tensor t;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, (int64_t[]){2, 2}, &t), FX_OK);
    memcpy(t.data, v, 4 * sizeof *v);
    return t;
}

START_TEST(modules_methods_and_functions_run)
{
    fx_graph *g = NULL;
    ck_assert_msg(fx_graph_parse(ctx, "case.fx", live, strlen(live), &g) == FX_OK, "%s", unit_diag(ctx));
    fx_tensor x = square((float[]){3, 0, -1, 5});
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){0});
    const fx_tensor *out = run(in, 1, &x, 1);
    same(out, 4, (float[]){5, 3, 2, 2});
    ck_assert_int_eq(out->sizes[0], 1);
    /* other shapes: legalised anew */
    fx_tensor longer;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, (int64_t[]){4, 2}, &longer), FX_OK);
    out = run(in, 1, &longer, 1);
    ck_assert_int_eq(out->sizes[0], 2);
    ck_assert_int_eq(out->sizes[1], 4);
    same(run(in, 1, &x, 1), 4, (float[]){5, 3, 2, 2});
}
END_TEST

/* Replacing a module, its class, its settings or its weights on a live graph is seen by the very next run. */
START_TEST(hot_replacement)
{
    fx_graph *g = NULL;
    ck_assert_msg(fx_graph_parse(ctx, "case.fx", live, strlen(live), &g) == FX_OK, "%s", unit_diag(ctx));
    fx_tensor x = square((float[]){3, 0, -1, 5});
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){0});
    run(in, 1, &x, 1);
    fx_module *act = fx_module_find(g, "act");
    act->class_name = fx_intern(ctx, "torch.nn.SiLU");
    const fx_tensor *out = run(in, 1, &x, 1);
    ck_assert(fabs(fx_tensor_get(out, 0) - (2 + 3 / (1 + exp(-3.0)))) < 1e-6);
    act->class_name = fx_intern(ctx, "torch.nn.LeakyReLU");
    ck_assert(fabs(fx_tensor_get(run(in, 1, &x, 1), 2) - (2 - 0.01)) < 1e-6);
    const char *key = "negative_slope";
    const fx_arg *slope = fx_arg_float(ctx, 0.5);
    act->config = fx_arg_dict(ctx, 1, &key, &slope);
    ck_assert(fabs(fx_tensor_get(run(in, 1, &x, 1), 2) - (2 - 0.5)) < 1e-6);
    ((float *)fx_attr_find(g, "lin.bias")->tensor.data)[0] = 10; /* elements are looked at, not remembered */
    ck_assert(fabs(fx_tensor_get(run(in, 1, &x, 1), 0) - (2 + 13)) < 1e-6);
    fx_tensor w = square((float[]){2, 0, 0, 2});
    fx_attr_add(g, "lin.weight", &w, false);
    ck_assert(fabs(fx_tensor_get(run(in, 1, &x, 1), 0) - (2 + 16)) < 1e-6);
    fx_node *y = fx_graph_find_node(g, "y"); /* and nodes */
    y->target = fx_intern(ctx, "torch.sub");
    y->op = fx_op_find(y->target, NULL);
    ck_assert(fabs(fx_tensor_get(run(in, 1, &x, 1), 0) - (16 - 2)) < 1e-6);
}
END_TEST

START_TEST(writes_of_captured_graphs)
{
    fx_graph *g = NULL;
    static const char text[] = "graph \"case\" captured\nmodule act : torch.nn.ReLU(inplace=True)\n\n"
                               "%x = placeholder[x]\n%t = call_method[t](%x)\n%act = call_module[act](%t)\n"
                               "%mul = call_method[mul_](%x, 10)\n"
                               "output((%x, %t, %act, %mul))\n";
    ck_assert_msg(fx_graph_parse(ctx, "case.fx", text, strlen(text), &g) == FX_OK, "%s", unit_diag(ctx));
    fx_tensor x = square((float[]){3, -2, -1, 5});
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){0});
    const fx_tensor *out = run(in, 1, &x, 4);
    same(&out[0], 4, (float[]){30, 0, 0, 50});
    same(&out[1], 4, (float[]){30, 0, 0, 50});
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_eq(out[i].data, out[0].data);
    same(&x, 4, (float[]){3, -2, -1, 5});
    fx_interpreter_free(in);
    in = interpreter(g, (fx_interpreter_options){.in_place = true});
    run(in, 1, &x, 4);
    same(&x, 4, (float[]){30, 0, 0, 50});
}
END_TEST

START_TEST(errors_of_captured_graphs_say_where)
{
    static const char *const cases[][2] = {
        {"%y = call_module[lin](%x)", "'lin'"},
        {"%y = call_method[frobnicate](%x)", "frobnicate"},
        {"%y = call_function[their.op](%x)", "their.op"},
        {"%y = call_function[torch.add](%x, 1, beta=3)", "beta"},
    };
    fx_tensor x = square((float[]){3, 0, -1, 5});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_graph *g = NULL;
        fx_text t;
        fx_text_init(&t, fx_context_arena(ctx));
        fx_printf(&t, "graph \"case\" captured\nmodule lin : torch.nn.Linear(in_features=3, out_features=1)\n"
                      "parameter lin.weight : f32[1, 3] = [1.0, 2.0, 3.0]\nparameter lin.bias : f32[1] = [0.5]\n\n"
                      "%%x = placeholder[x]\n%s  # net.7, net.py:12\noutput(%%y)\n", cases[i][0]);
        ck_assert_msg(fx_graph_parse(ctx, "case.fx", t.data, t.size, &g) == FX_OK, "%s", unit_diag(ctx));
        fx_interpreter *in = interpreter(g, (fx_interpreter_options){0});
        size_t n;
        const fx_tensor *out;
        for (int again = 0; again < 2; again++) { /* a failure is not remembered as a success */
            ck_assert_int_ne(fx_interpreter_run(in, 1, &x, &n, &out), FX_OK);
            const fx_diag *d = fx_diag_get(ctx, fx_diag_count(ctx) - 1);
            ck_assert_msg(d->node && !strcmp(d->node, "y") && strstr(unit_diag(ctx), "net.7") && strstr(unit_diag(ctx), "net.py:12"), "%s",
                          unit_diag(ctx));
            ck_assert_msg(i == 0 || strstr(unit_diag(ctx), cases[i][1]), "%s", unit_diag(ctx));
        }
    }
}
END_TEST

/* ---- errors ------------------------------------------------------------------------------------------------------------------ */

START_TEST(errors_say_where)
{
    fx_graph *g = parse("imported", "\n%x : f32[4] = placeholder[x]\n%y = call_function[aten.cat.default]([%x, %x])\noutput((%y,))\n");
    fx_node *y = fx_graph_find_node(g, "y");
    y->loc.module = "layer1.0.join";
    y->loc.frame = "model.py:42, in forward";
    fx_node_assign(y, fx_arg_seq(ctx, FX_ARG_TUPLE, 2, (const fx_arg *[]){fx_arg_seq(ctx, FX_ARG_LIST, 1, (const fx_arg *[]){fx_arg_operand(ctx, 0)}),
                   fx_arg_int(ctx, 5)}), NULL, 1, &g->first);
    fx_tensor x = row(4, (float[]){1, 2, 3, 4});
    fx_interpreter *in = interpreter(g, (fx_interpreter_options){0});
    fails(in, 1, &x, FX_ERR_TYPE, "'y'");
    const fx_diag *d = fx_diag_get(ctx, fx_diag_count(ctx) - 1);
    ck_assert_str_eq(d->node, "y");
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "layer1.0.join"));
    ck_assert_ptr_nonnull(strstr(unit_diag(ctx), "model.py:42"));
    fails(in, 0, &x, FX_ERR_ARGUMENT, "expected 1 inputs, got 0");
}
END_TEST

/* Every allocation fails in turn: an error, no leak (tear_down), and the interpreter goes on working. */
static void run_out_everywhere(fx_graph *g, const fx_tensor *x, size_t n_out, double first)
{
    long failures = 0;
    for (long k = 1;; k++) {
        mem.left = k;
        fx_interpreter *in = fx_interpreter_create(g, NULL);
        size_t n;
        const fx_tensor *out;
        fx_status status = in ? fx_interpreter_run(in, 1, x, &n, &out) : FX_ERR_NOMEM;
        bool done = mem.left > 0;
        mem.left = -1;
        ck_assert_int_eq(status, done ? FX_OK : FX_ERR_NOMEM);
        if (in)
            ck_assert(fx_tensor_get(&run(in, 1, x, n_out)[0], 0) == first);
        fx_interpreter_free(in);
        failures += !done;
        if (done)
            break;
    }
    ck_assert_int_gt(failures, 5);
}

START_TEST(memory_may_run_out_anywhere)
{
    fx_graph *g = with_body("\n%x : f32[2] = placeholder[x]\n%sub = call_module[sub](%x, b=2)\n%n = call_function[_operator.add](2, 3)\n"
                            "output((%sub, %n))\n",
                            "\n%a : f32[2] = placeholder[a]\n%b = placeholder[b]\n%mul_ = call_function[aten.mul_.Tensor](%a, %b)\n"
                            "%s = call_function[aten.split.Tensor](%mul_, 1)\n%i = call_function[_operator.getitem](%s, 1)\noutput((%mul_, %i))\n");
    fx_tensor x = row(2, (float[]){1, 2});
    run_out_everywhere(g, &x, 3, 2);
    same(&x, 2, (float[]){1, 2});
    ck_assert_int_eq(fx_graph_parse(ctx, "case.fx", live, strlen(live), &g), FX_OK);
    x = square((float[]){3, 0, -1, 5});
    run_out_everywhere(g, &x, 1, 5);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, callbacks_around_every_node);
    tcase_add_test(t, callbacks_instead_of_an_opcode);
    tcase_add_test(t, misuse_is_refused);
    tcase_add_test(t, values_go_with_their_last_use);
    tcase_add_test(t, outputs_may_be_the_next_inputs);
    tcase_add_test(t, inputs_are_copied_before_they_are_written);
    tcase_add_test(t, in_place_writes_reach_the_caller);
    tcase_add_test(t, bodies_of_modules_run);
    tcase_add_test(t, bodies_are_called_as_functions_are);
    tcase_add_test(t, numbers_and_shapes_of_python);
    tcase_add_test(t, numbers_of_python_fail_by_name);
    tcase_add_test(t, modules_methods_and_functions_run);
    tcase_add_test(t, hot_replacement);
    tcase_add_test(t, writes_of_captured_graphs);
    tcase_add_test(t, errors_of_captured_graphs_say_where);
    tcase_add_test(t, errors_say_where);
    tcase_add_test(t, memory_may_run_out_anywhere);
}

int main(void)
{
    return unit_run("interpreter", 120, set_up, tear_down, add_tests); /* sanitizers, busy machines */
}
