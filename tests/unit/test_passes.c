/* tests/unit/test_passes.c: the pass manager: pipelines as text, options, order, copies, failures that leave the graph as it was, reports.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L /* strdup, strtok_r */
#include <time.h>

#include "passes/passes.h"
#include "tests/unit/fixture.h"

static const char *const dead =
    "graph \"case\" imported\n\n"
    "%x : f32[4] = placeholder[x]\n"
    "%exp : f32[4] = call_function[aten.exp.default](%x)\n"
    "%sin : f32[4] = call_function[aten.sin.default](%exp)\n"
    "%relu : f32[4] = call_function[aten.relu.default](%x)\n"
    "output((%relu,))\n";

static void refused(const char *pipeline, const char *message)
{
    fx_graph *g = unit_parse(ctx, dead), *out = g;
    const char *before = unit_print(g);
    ck_assert_int_eq(fx_graph_run_passes(g, pipeline, NULL, &out, NULL), FX_ERR_ARGUMENT);
    ck_assert_msg(strstr(unit_message(ctx), message) != NULL, "'%s': expected '%s', got '%s'", pipeline, message, unit_message(ctx));
    ck_assert_ptr_eq(out, g);
    ck_assert_str_eq(unit_print(g), before);
}

START_TEST(bad_pipelines)
{
    refused("eliminate_dead_cod", "there is no pass 'eliminate_dead_cod'; did you mean 'eliminate_dead_code'?");
    refused("dead_code", "did you mean 'eliminate_dead_code'?");
    refused("zzzzzzzz", "there is no pass 'zzzzzzzz'; see 'fxcc passes'");
    refused("normalize_args(x=1)", "pass normalize_args has no option 'x'; it takes none");
    refused("eliminate_dead_code(unknow=1)", "did you mean 'unknown'?");
    refused("eliminate_dead_code(unknown=7)", "expected true or false, got '7'");
    refused("infer(inputs=a,inputs=b)", "given twice");
    refused("reinplace,functionalize", "pass reinplace must stand after functionalize, which follows it here");
    refused("eliminate_dead_code,", "expected the name of a pass, got the end");
    refused(",", "column 1: expected the name of a pass, got ','");
    refused("eliminate_dead_code eliminate_dead_code", "column 21: expected ',' between passes");
    refused("eliminate_dead_code(", "expected the name of an option, got the end");
    refused("eliminate_dead_code)", "expected ',' between passes, got ')'");
    ck_assert_int_eq(fx_graph_run_passes(NULL, "", NULL, NULL, NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_run_passes(unit_parse(ctx, dead), NULL, NULL, NULL, NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_run_passes(unit_parse(ctx, dead), "eliminate_dead_code", NULL, NULL, NULL), FX_ERR_ARGUMENT);
}
END_TEST

/* Words of pipelines in any order: refused or run, never more. */
START_TEST(pipelines_of_any_words)
{
    static const char *const words[] = {"eliminate_dead_code", "infer", "remove_identity", "(", ")", ",", "=", "\"", " ", "exact", "inputs", "true",
                                        "f32[4]", ";", "unknown", "[", "\\", "\n", "1e999", "-", "%", "prune", "amount", "0.5", "999999999999999999999"};
    fx_graph *g = unit_parse(ctx, dead);
    const char *before = unit_print(g);
    unsigned state = 7, ran = 0;
    for (int i = 0; i < 3000; i++) {
        /* A good one, spoilt in some places. */
        char pipeline[400] = "eliminate_dead_code(unknown=true), infer(inputs=\"f32[4]\") ,remove_identity( exact = 0 ),prune(amount=0.25)";
        for (unsigned k = 0, n = (unsigned)i % 4; k < n; k++) {
            state = state * 1103515245u + 12345u;
            size_t size = strlen(pipeline), at = (state >> 8) % size, cut = (state >> 20) % 3;
            const char *word = words[(state >> 12) % (sizeof words / sizeof *words)];
            char rest[400];
            strcpy(rest, pipeline + (at + cut < size ? at + cut : size));
            snprintf(pipeline + at, sizeof pipeline - at, "%s%s", word, rest);
        }
        fx_graph *out = NULL;
        fx_status status = fx_graph_run_passes(g, pipeline, NULL, &out, NULL);
        ck_assert_msg(status == FX_OK || status == FX_ERR_ARGUMENT || status == FX_ERR_TYPE, "'%s'", pipeline);
        ck_assert_int_eq(status == FX_OK, out != NULL);
        ran += status == FX_OK;
    }
    ck_assert_uint_gt(ran, 10);
    ck_assert_str_eq(unit_print(g), before);
}
END_TEST

START_TEST(pure_and_reported)
{
    fx_graph *g = unit_parse(ctx, dead), *out = NULL;
    const char *before = unit_print(g);
    fx_pass_report report;
    ck_assert_int_eq(fx_graph_run_passes(g, " eliminate_dead_code , eliminate_dead_code() ", NULL, &out, &report), FX_OK);
    ck_assert_ptr_ne(out, g);
    ck_assert_str_eq(unit_print(g), before);
    ck_assert_uint_eq(fx_graph_node_count(out), 3);
    ck_assert_uint_eq(report.n_changes, 2);
    ck_assert_str_eq(report.changes[0].node, "sin");
    ck_assert_str_eq(report.changes[0].what, "removed: unused");
    ck_assert_str_eq(report.changes[0].pass, "eliminate_dead_code");
    ck_assert_uint_eq(report.n_times, 2);
    ck_assert_uint_eq(report.times[0].changes, 2);
    ck_assert_uint_eq(report.times[1].changes, 0);
    ck_assert_uint_eq(report.times[1].nodes_after, 3);
    ck_assert(report.times[0].seconds >= 0);
    /* Nothing to do is allowed. */
    ck_assert_int_eq(fx_graph_run_passes(g, "", NULL, &out, &report), FX_OK);
    ck_assert_str_eq(unit_print(out), before);
    ck_assert_uint_eq(report.n_changes + report.n_times, 0);
}
END_TEST

static fx_status refuse_second(void *user, const char *pass, fx_graph *graph)
{
    int *calls = user;
    (void)graph;
    ck_assert_str_eq(pass, "eliminate_dead_code");
    return ++*calls == 2 ? FX_ERR_UNSUPPORTED : FX_OK;
}

/* A pass or check that fails leaves the graph as it was, to its list of uses; nodes keep their addresses. */
START_TEST(in_place_whole_or_not_at_all)
{
    fx_graph *g = unit_parse(ctx, dead), *out = NULL;
    const char *before = unit_print(g);
    fx_node *sin_node = fx_graph_find_node(g, "sin"), *x = fx_graph_find_node(g, "x"), *relu = fx_graph_find_node(g, "relu");
    int calls = 0;
    fx_pass_options options = {.in_place = true, .check = refuse_second, .user = &calls};
    ck_assert_int_eq(fx_graph_run_passes(g, "eliminate_dead_code,eliminate_dead_code", &options, &out, NULL), FX_ERR_UNSUPPORTED);
    ck_assert_ptr_null(out);
    ck_assert_int_eq(calls, 2);
    ck_assert_str_eq(unit_print(g), before);
    ck_assert_int_eq(fx_graph_verify(g, FX_STAGE_IMPORTED, "test"), FX_OK);
    ck_assert_ptr_eq(fx_graph_find_node(g, "sin"), sin_node);
    ck_assert(!sin_node->erased);
    ck_assert_int_eq(x->n_uses, 2);
    ck_assert_ptr_eq(x->last_use->user, relu);
    options.check = NULL;
    ck_assert_int_eq(fx_graph_run_passes(g, "eliminate_dead_code", &options, &out, NULL), FX_OK);
    ck_assert_ptr_eq(out, g);
    ck_assert(sin_node->erased);
    ck_assert_ptr_eq(fx_graph_find_node(g, "relu"), relu);
}
END_TEST

/* A graph that is broken before is the caller's fault, said before anything runs. */
START_TEST(broken_graphs_are_refused)
{
    fx_graph *g = unit_parse(ctx, dead), *out = NULL;
    fx_node *relu = fx_graph_find_node(g, "relu");
    relu->n_uses = 7;
    ck_assert_int_eq(fx_graph_run_passes(g, "eliminate_dead_code", NULL, &out, NULL), FX_ERR_ARGUMENT);
    ck_assert(strstr(unit_message(ctx), "before the passes") != NULL);
}
END_TEST

/* A snapshot brings back nodes, arguments, attributes, modules, names. */
START_TEST(snapshots)
{
    fx_graph *g = unit_parse(ctx, "graph \"case\" imported\nparameter w : f32[2] = [1.0, 2.0]\n\n"
                             "%x : f32[2] = placeholder[x]\n"
                             "%w : f32[2] = get_attr[w]\n"
                             "%add : f32[2] = call_function[aten.add.Tensor](%x, %w)\n"
                             "%relu : f32[2] = call_function[aten.relu.default](%add)\n"
                             "output((%relu,))\n");
    const char *before = unit_print(g);
    fx_arena *arena = fx_arena_create(ctx);
    fx_snapshot *s = fx_snapshot_take(g, arena);
    fx_tensor t;
    int64_t size = 3;
    fx_node *relu = fx_graph_find_node(g, "relu"), *add = fx_graph_find_node(g, "add");
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 1, &size, &t), FX_OK);
    fx_attr_add(g, "w", &t, false);
    for (int i = 0; i < 100; i++) /* the maps grow */
        fx_graph_constant(g, "deep.er.v", &t);
    fx_node_replace_uses(relu, add);
    ck_assert_int_eq(fx_node_erase(relu), FX_OK);
    fx_node_move_before(add, g->first);
    ck_assert_str_ne(unit_print(g), before);
    fx_snapshot_restore(s);
    fx_arena_free(arena);
    ck_assert_str_eq(unit_print(g), before);
    ck_assert_int_eq(fx_graph_verify(g, FX_STAGE_IMPORTED, "test"), FX_OK);
    ck_assert_ptr_null(fx_module_find(g, "deep"));
    ck_assert_ptr_null(fx_graph_find_node(g, "deep_er_v"));
    fx_node *again = fx_graph_constant(g, "deep.er.v", &t); /* the same name as if nothing had been */
    ck_assert_str_eq(again->name, "deep_er_v");
    ck_assert_uint_ge(again->id, 100);
}
END_TEST

/* The table: names are unique, constraints name passes, defaults are of their types. */
START_TEST(table)
{
    for (size_t i = 0; fx_graph_pass_get(i); i++) {
        const fx_graph_pass *p = fx_graph_pass_get(i);
        ck_assert_str_ne(p->doc, "");
        for (size_t k = 0; k < i; k++)
            ck_assert_str_ne(p->name, fx_graph_pass_get(k)->name);
        char *list = strdup(p->after), *save = NULL;
        for (char *name = strtok_r(list, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
            bool there = false;
            for (size_t k = 0; fx_graph_pass_get(k); k++)
                there = there || !strcmp(fx_graph_pass_get(k)->name, name);
            ck_assert_msg(there, "%s stands after '%s', which there is not", p->name, name);
        }
        free(list);
        for (size_t k = 0; k < p->n_params; k++) {
            const fx_pass_param *q = &p->params[k];
            ck_assert(!strcmp(q->type, "float") || !strcmp(q->type, "int") || !strcmp(q->type, "bool") || !strcmp(q->type, "str"));
            ck_assert_str_ne(q->doc, "");
        }
    }
}
END_TEST

/* ---- replacing, counting ---- */

static const char *const modules =
    "graph \"case\" captured\n"
    "module a : torch.nn.modules.activation.ReLU(inplace=True)\n"
    "module b : torch.nn.modules.activation.ReLU\n\n"
    "%x : f32[4] = placeholder[x]\n"
    "%a = call_module[a](%x)\n"
    "%b = call_module[b](%a)\n"
    "%relu = call_method[relu](%b)\n"
    "output(%relu)\n";

START_TEST(replacing)
{
    fx_graph *g = unit_parse(ctx, modules);
    size_t count = 99;
    ck_assert_int_eq(fx_graph_replace_op(g, "torch.relu", "aten.leaky_relu.default", &count), FX_OK);
    ck_assert_uint_eq(count, 3);
    ck_assert_str_eq(fx_module_class(fx_graph_get_submodule(g, "a")), "torch.nn.modules.activation.LeakyReLU");
    fx_value v;
    ck_assert(fx_module_setting(fx_graph_get_submodule(g, "a"), "inplace", &v) && v.kind == FX_ARG_BOOL && v.as.b);
    ck_assert_str_eq(fx_graph_find_node(g, "relu")->target, "aten.leaky_relu.default");
    ck_assert_int_eq(fx_graph_replace_op(g, "torch.relu", "aten.leaky_relu.default", &count), FX_OK);
    ck_assert_uint_eq(count, 0);

    const char *keys[] = {"alpha"};
    fx_value half = fx_v_float(0.5);
    ck_assert_int_eq(fx_graph_replace_module(g, "torch.nn.LeakyReLU", "torch.nn.ELU", 1, keys, &half, &count), FX_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert(fx_module_setting(fx_graph_get_submodule(g, "b"), "alpha", &v) && v.as.f[0] == 0.5);

    /* Whole or not at all: the first of two fits, the second does not. */
    g = unit_parse(ctx, modules);
    const char *before = unit_print(g);
    ck_assert_int_eq(fx_graph_replace_op(g, "aten.relu.default", "aten.erf.default", NULL), FX_ERR_TYPE); /* no class is erf */
    ck_assert_str_eq(unit_print(g), before);
    const char *wrong[] = {"negative"};
    ck_assert_int_eq(fx_graph_replace_module(g, "torch.nn.ReLU", "torch.nn.LeakyReLU", 1, wrong, &half, NULL), FX_ERR_TYPE);
    fx_value text = fx_v_str("x");
    const char *slope[] = {"negative_slope"};
    ck_assert_int_ne(fx_graph_replace_module(g, "torch.nn.ReLU", "torch.nn.LeakyReLU", 1, slope, &text, NULL), FX_OK);
    ck_assert_str_eq(unit_print(g), before);
    ck_assert_int_eq(fx_graph_replace_op(NULL, "a", "b", NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_replace_op(g, NULL, "b", NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_replace_module(g, "torch.nn.ReLU", NULL, 0, NULL, NULL, NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_replace_module(g, "torch.nn.ReLU", "torch.nn.ELU", 1, NULL, NULL, NULL), FX_ERR_ARGUMENT);
}
END_TEST

START_TEST(counting)
{
    /* Two tied parameters and a buffer; relu's input and result live at once, the view costs nothing. */
    fx_graph *g = unit_parse(ctx, "graph \"case\" imported\n"
                             "parameter a : f32[3, 2] shares 0+0 = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n"
                             "parameter b : f32[3, 2] shares 0+0 = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n"
                             "buffer c : f64[3] = [1.0, 2.0, 3.0]\n\n"
                             "%x : f32[5, 2] = placeholder[x]\n"
                             "%a : f32[3, 2] = get_attr[a]\n"
                             "%linear : f32[5, 3] = call_function[aten.linear.default](%x, %a)\n"
                             "%view : f32[15] = call_function[aten.view.default](%linear, [15])\n"
                             "%relu : f32[15] = call_function[aten.relu.default](%view)\n"
                             "output((%relu,))\n");
    fx_graph_cost cost;
    ck_assert_int_eq(fx_graph_count(g, &cost), FX_OK);
    ck_assert_int_eq(cost.flops, 2 * 5 * 3 * 2 + 15);
    ck_assert_int_eq(cost.parameters, 6);
    ck_assert_int_eq(cost.weight_bytes, 6 * 4 + 3 * 8);
    ck_assert_int_eq(cost.peak_activation_bytes, 15 * 4 + 15 * 4);
    /* The pass says so, and that is no change. */
    fx_pass_report report;
    fx_graph *same;
    ck_assert_int_eq(fx_graph_run_passes(g, "count,eliminate_dead_code", NULL, &same, &report), FX_OK);
    ck_assert_uint_eq(report.n_changes, 0);
    ck_assert_uint_eq(report.n_notes, 1);
    ck_assert_str_eq(report.notes[0].pass, "count");
    ck_assert_ptr_null(report.notes[0].node);
    ck_assert_str_eq(report.notes[0].what, "75 flops, 6 parameters, 48 bytes of weights, 120 bytes of activations at most");
    ck_assert_str_eq(unit_print(same), unit_print(g));
    /* Of modules too. */
    g = unit_parse(ctx, modules);
    ck_assert_int_eq(fx_graph_count(g, &cost), FX_OK);
    ck_assert_int_eq(cost.flops, 3 * 4);
    ck_assert_int_eq(cost.parameters + cost.weight_bytes, 0);
    g = unit_parse(ctx, "graph \"case\" imported\n\n%x : f32[s0] = placeholder[x]\noutput((%x,))\n");
    ck_assert_int_eq(fx_graph_count(g, &cost), FX_ERR_ARGUMENT);
    ck_assert(strstr(unit_message(ctx), "static shape") != NULL);
    fx_graph *out;
    ck_assert_int_eq(fx_graph_run_passes(g, "count", NULL, &out, NULL), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_count(NULL, &cost), FX_ERR_ARGUMENT);
    ck_assert_int_eq(fx_graph_count(g, NULL), FX_ERR_ARGUMENT);
}
END_TEST

/* ---- copies ---- */

/* The copy that passes change has the notes, settings and aliases of the graph; weights are shared until one side writes. */
START_TEST(copies)
{
    fx_graph *g = unit_parse(ctx, "graph \"case\" captured\n"
                             "module a : torch.nn.modules.linear.Linear(in_features=2, out_features=2, bias=False)\n"
                             "parameter a.weight : f32[2, 2] shares 0+0 = [1.0, 2.0, 3.0, 4.0]\n"
                             "module b : torch.nn.modules.linear.Linear(in_features=2, out_features=2, bias=False)\n"
                             "parameter b.weight : f32[2, 2] shares 0+0 = [1.0, 2.0, 3.0, 4.0]\n\n"
                             "%x : f32[1, 2] = placeholder[x]\n"
                             "%a = call_module[a](%x)\n"
                             "%b = call_module[b](%a)\n"
                             "%dead = call_method[relu](%b)\n"
                             "output(%b)\n");
    fx_graph *out;
    fx_value v;
    fx_tensor mine, tied, theirs;
    ck_assert_int_eq(fx_module_set_meta(fx_graph_get_submodule(g, "a"), "owner", fx_v_str("me")), FX_OK);
    ck_assert_int_eq(fx_node_set_meta(fx_graph_find_node(g, "b"), "tag", fx_v_int(7)), FX_OK);
    ck_assert_int_eq(fx_graph_run_passes(g, "eliminate_dead_code", NULL, &out, NULL), FX_OK);
    ck_assert_ptr_null(fx_graph_find_node(out, "dead"));
    ck_assert(fx_module_meta(fx_graph_get_submodule(out, "a"), "owner", &v) && !strcmp(v.as.s, "me"));
    ck_assert(fx_node_meta(fx_graph_find_node(out, "b"), "tag", &v) && v.as.i == 7);
    fx_attr_info info;
    ck_assert(fx_graph_attr_info(out, 1, &info) && info.tied_to && !strcmp(info.tied_to, "a.weight"));
    ck_assert_int_eq(fx_graph_writable_tensor(out, "b.weight", &mine), FX_OK);
    ((float *)mine.data)[0] = 9;
    ck_assert_int_eq(fx_graph_tensor(out, "a.weight", &tied), FX_OK);
    ck_assert_int_eq(fx_graph_tensor(g, "a.weight", &theirs), FX_OK);
    ck_assert(((float *)tied.data)[0] == 9 && ((float *)theirs.data)[0] == 1);
    /* Replaced by a pass, too: the tie of others holds. */
    ck_assert_int_eq(fx_graph_run_passes(g, "prune(amount=0.5)", NULL, &out, NULL), FX_OK);
    ck_assert_int_eq(fx_graph_tensor(out, "a.weight", &mine), FX_OK);
    ck_assert_int_eq(fx_graph_tensor(out, "b.weight", &tied), FX_OK);
    ck_assert_ptr_eq(mine.data, tied.data);
    ck_assert(((float *)mine.data)[0] == 0 && ((float *)mine.data)[3] == 4);
    ck_assert_int_eq(fx_graph_tensor(g, "b.weight", &theirs), FX_OK);
    ck_assert(((float *)theirs.data)[0] == 1);
}
END_TEST

/* ---- growth ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Chains of calls with writes, views, equal calls and identities. */
static fx_graph *long_graph(int n)
{
    static const char *const steps[] = {
        "%%v%d : f32[4] = call_function[aten.sin.default](%%v%d)\n", "%%v%d : f32[4] = call_function[aten.add.Tensor](%%v%d, 0, 1)\n",
        "%%v%d : f32[4] = call_function[aten.relu_.default](%%v%d)\n", "%%v%d : f32[4] = call_function[aten.view.default](%%v%d, [4])\n",
        "%%v%d : f32[4] = call_function[aten.dropout.default](%%v%d, 0.5, False)\n", "%%v%d : f32[4] = call_function[aten.cos.default](%%v%d)\n"};
    fx_text t;
    fx_graph *g;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_puts(&t, "graph \"long\" imported\nparameter w : f32[4] = [1.0, 2.0, 3.0, 4.0]\n\n%v0 : f32[4] = placeholder[v0]\n");
    for (int i = 1; i <= n; i++) {
        if (i % 50 == 0) /* a constant, and the same call twice */
            fx_printf(&t, "%%w%d : f32[4] = get_attr[w]\n%%e%d : f32[4] = call_function[aten.exp.default](%%w%d)\n"
                          "%%d%d : f32[4] = call_function[aten.sin.default](%%v%d)\n%%u%d : f32[4] = call_function[aten.sub.Tensor](%%d%d, %%e%d, 1)\n",
                      i, i, i, i, i - 1, i, i, i);
        fx_printf(&t, steps[i % 6], i, i - 1);
    }
    fx_printf(&t, "output((%%v%d,))\n", n);
    ck_assert_int_eq(fx_graph_parse(ctx, "long.fx", t.data, t.size, &g), FX_OK);
    return g;
}

static double time_of(const char *pass, int n)
{
    fx_pass_options options = {.in_place = true};
    fx_graph *g = long_graph(n);
    double start = seconds();
    ck_assert_int_eq(fx_graph_run_passes(g, pass, &options, NULL, NULL), FX_OK);
    return seconds() - start;
}

/* Sixteen times the nodes may cost eighty times the time on a busy machine, but not 256 times. */
START_TEST(linear_growth)
{
    static const char *const passes[] = {"eliminate_dead_code", "common_subexpressions", "remove_identity", "remove_dropout", "fold_constants",
                                         "infer", "normalize_args", "reinplace", "fuse_conv_bn", "functionalize", "prune", "legalize"};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        tear_down();
        set_up();
        double few = time_of(passes[i], 5000), many = time_of(passes[i], 80000);
        ck_assert_msg(many < 80 * (few + 1e-4), "%s: 5,000 nodes take %.2f ms, 80,000 take %.2f ms", passes[i], 1e3 * few, 1e3 * many);
    }
}
END_TEST

/* ---- memory that runs out ---- */

static const char *const layers =
    "graph \"case\" captured\n"
    "module conv : torch.nn.modules.conv.Conv2d(in_channels=1, out_channels=1, kernel_size=1, bias=False)\n"
    "parameter conv.weight : f32[1, 1, 1, 1] = [2.0]\n"
    "module bn : torch.nn.modules.batchnorm.BatchNorm2d(num_features=1, affine=False)\n"
    "buffer bn.running_mean : f32[1] = [1.0]\n"
    "buffer bn.running_var : f32[1] = [1.0]\n"
    "module act : torch.nn.modules.activation.ReLU\n"
    "module drop : torch.nn.modules.dropout.Dropout\n"
    "module pair : torch.nn.modules.conv.Conv2d(in_channels=1, out_channels=1, kernel_size=1, bias=False)\n"
    "parameter pair.weight : f32[1, 1, 1, 1] = [-1.0]\n"
    "module only : torch.nn.modules.activation.ReLU\n"
    "parameter w : f32[2, 2] = [1.0, 2.0, 3.0, 4.0]\n\n"
    "%x : f32[1, 1, 2, 2] = placeholder[x]\n"
    "%conv = call_module[conv](%x)\n"
    "%bn = call_module[bn](%conv)\n"
    "%drop = call_module[drop](%bn)\n"
    "%act = call_module[act](%drop)\n"
    "%act_1 = call_module[act](%drop)\n"
    "%w = get_attr[w]\n"
    "%t = call_method[t](%w)\n"
    "%exp = call_function[torch.exp](%t)\n"
    "%mul = call_function[_operator.mul](%act, %exp)\n"
    "%add = call_function[_operator.add](%mul, 0)\n"
    "%sub = call_function[_operator.sub](%add, %act_1)\n"
    "%pair = call_module[pair](%x)\n"
    "%only = call_module[only](%pair)\n"
    "output((%sub, %only))\n";

/* Each allocation fails once in turn: the status says so, the graph is as it was. */
START_TEST(every_allocation_fails_once)
{
    static const char *const pipelines[] = {
        "infer,remove_dropout,fuse_conv_bn,fold_constants,common_subexpressions,remove_identity,eliminate_dead_code,normalize_args,reinplace",
        "replace_module(from=torch.nn.ReLU,to=torch.nn.SiLU),replace_op(from=torch.exp,to=torch.sin),legalize,functionalize",
        "fuse_conv_relu,count,legalize"};
    fx_context *outer = ctx;
    for (int in_place = 0; in_place < 2; in_place++) {
        bool done = false;
        for (long k = 0; !done; k++) {
            unit_memory m = {.fail_at = -1};
            ctx = unit_context(&m);
            fx_graph *g = NULL, *out = NULL;
            ck_assert_int_eq(fx_graph_parse(ctx, "case.fx", layers, strlen(layers), &g), FX_OK);
            const char *before = unit_print(g);
            fx_pass_options options = {.in_place = in_place};
            fx_pass_report report;
            unit_fail_after(&m, k);
            fx_status status = fx_graph_run_passes(g, pipelines[_i], &options, &out, k % 2 ? &report : NULL);
            done = status == FX_OK;
            ck_assert(done || (status == FX_ERR_NOMEM && unit_ran_out(&m)));
            ck_assert(!done || k > 10);
            unit_fail_after(&m, -1);
            if (!done || !in_place)
                ck_assert_str_eq(unit_print(g), before);
            if (!done)
                ck_assert_ptr_null(out);
            fx_context_free(ctx);
        }
    }
    ctx = outer;
}
END_TEST

/* ---- ten passes, one copy ---- */

typedef struct meter {
    const fx_graph *seen;
    int passes;
} meter;

static fx_status see(void *user, const char *pass, fx_graph *graph)
{
    meter *m = user;
    (void)pass;
    ck_assert(!m->passes || m->seen == graph);
    m->seen = graph;
    m->passes++;
    return FX_OK;
}

/* What a pipeline asks of memory, on a long graph; *copy and *text: what one copy of it and its text ask for. */
static size_t bytes_of(const char *pipeline, int n_passes, size_t *copy, size_t *text)
{
    enum { NODES = 20000 };
    meter m = {0};
    unit_memory memory = {.fail_at = -1};
    ctx = unit_context(&memory);
    fx_graph *g = fx_graph_create(ctx, "long"), *out = NULL;
    fx_node *n = fx_graph_placeholder(g, "x", NULL);
    for (int i = 0; i < NODES; i++) {
        fx_value v = fx_v_node(n);
        n = fx_graph_call_function(g, i % 2 ? "torch.sin" : "torch.cos", 1, &v);
    }
    fx_graph_output(g, fx_v_node(n));
    size_t start = memory.asked;
    fx_pass_options options = {.check = see, .user = &m, .no_lint = true};
    ck_assert_int_eq(fx_graph_run_passes(g, pipeline, &options, &out, NULL), FX_OK);
    size_t bytes = memory.asked - start;
    ck_assert_int_eq(m.passes, n_passes);
    ck_assert_ptr_eq(m.seen, out);
    ck_assert_ptr_ne(out, g);
    start = memory.asked;
    ck_assert_ptr_nonnull(fx_graph_copy(g));
    *copy = memory.asked - start;
    *text = strlen(unit_print(g));
    fx_context_free(ctx);
    return bytes;
}

/* The passes of a pipeline work on one copy, one after another; nine more that find nothing to do copy nothing and write nothing: together
 * they ask for less than a tenth of what the graph's copy or its text takes. */
START_TEST(ten_passes_cost_one_copy)
{
    fx_context *outer = ctx;
    size_t copy, text, one = bytes_of("remove_dropout", 1, &copy, &text);
    size_t ten = bytes_of("remove_dropout,fuse_conv_bn,fuse_linear_bn,fuse_conv_relu,remove_dropout,prune,inline_modules,fuse_conv_bn,remove_dropout,"
                          "fuse_conv_relu", 10, &copy, &text);
    ctx = outer;
    ck_assert_uint_ge(one, copy);
    ck_assert_msg(ten < one + copy / 10 && ten < one + text / 10, "a pass asked for %zu bytes, ten for %zu; a copy is %zu, the text %zu", one, ten, copy, text);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, bad_pipelines);
    tcase_add_test(t, pipelines_of_any_words);
    tcase_add_test(t, pure_and_reported);
    tcase_add_test(t, in_place_whole_or_not_at_all);
    tcase_add_test(t, broken_graphs_are_refused);
    tcase_add_test(t, snapshots);
    tcase_add_test(t, table);
    tcase_add_test(t, replacing);
    tcase_add_test(t, counting);
    tcase_add_test(t, copies);
    tcase_add_test(t, linear_growth);
    tcase_add_loop_test(t, every_allocation_fails_once, 0, 3);
    tcase_add_test(t, ten_passes_cost_one_copy);
}

int main(void)
{
    return unit_run("passes", 120, set_up, tear_down, add_tests);
}
