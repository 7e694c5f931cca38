/* tests/unit/test_passes_random.c: what must hold of every pass on any graph: the graph given stays as it was, values and aliases of the result are
 * the same, twice is once, in place is as by copy. Random graphs with writes in place, views, constants, equal calls, calls that do nothing,
 * convolutions and norms; aten and captured ones.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>

#include "fxcc/pass.h"
#include "ir/ir.h"
#include "tests/unit/fixture.h"

enum { N_GRAPHS = 150, MAX_VALUES = 64, N_INPUTS = 2, NUMEL = 6 };

static uint64_t state;

static unsigned pick(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

/* Shapes of the values: [2, 3], or [6] after a view. */
typedef struct making {
    fx_text t;
    bool captured;
    int n;            /* values v0, v1, ...; the first are the inputs and the parameter */
    bool flat[MAX_VALUES];
    bool locked[MAX_VALUES]; /* memory of the second input or of a parameter: not written */
    char last[200];   /* the right side of the last pure call, to be said again */
    bool last_flat;
} making;

static void define(making *m, bool flat, const char *right)
{
    fx_printf(&m->t, "%%v%d : f32[%s] = %s\n", m->n, flat ? "6" : "2, 3", right);
    m->flat[m->n++] = flat;
}

static int any(const making *m)
{
    return (int)pick((unsigned)m->n);
}

/* A value of the shape; v0 has [2, 3], and there is one of [6] once a view was made. */
static int any_of(const making *m, bool flat)
{
    for (int tries = 0; tries < 50; tries++) {
        int i = any(m);
        if (m->flat[i] == flat)
            return i;
    }
    return -1;
}

static void add_call(making *m)
{
    static const char *const unary[] = {"sin", "cos", "relu", "neg", "tanh", "sigmoid"};
    char right[200];
    int x = any(m), y = any_of(m, m->flat[x]);
    bool flat = m->flat[x], pure = false, locked = false;
    const char *size = flat ? "[6]" : "[2, 3]";
    if (y < 0)
        y = x;
    switch (pick(16)) {
    case 0:
    case 1:
    case 2:
        snprintf(right, sizeof right, m->captured ? "call_function[torch.%s](%%v%d)" : "call_function[aten.%s.default](%%v%d)", unary[pick(6)], x);
        pure = true;
        break;
    case 3: /* sums stay small */
        snprintf(right, sizeof right, m->captured ? "call_function[torch.sub](%%v%d, %%v%d)" : "call_function[aten.sub.Tensor](%%v%d, %%v%d)", x, y);
        pure = true;
        break;
    case 4:
        snprintf(right, sizeof right, m->captured ? "call_method[mul](%%v%d, 0.5)" : "call_function[aten.mul.Tensor](%%v%d, 0.5)", x);
        pure = true;
        break;
    case 5: /* written, at times through a view; the first input at times */
        if (m->locked[x])
            return;
        snprintf(right, sizeof right, m->captured ? "call_method[%s_](%%v%d)" : "call_function[aten.%s_.default](%%v%d)", unary[pick(6)], x);
        break;
    case 6:
        if (m->locked[x] || x == y)
            return;
        snprintf(right, sizeof right, m->captured ? "call_method[mul_](%%v%d, %%v%d)" : "call_function[aten.mul_.Tensor](%%v%d, %%v%d)", x, y);
        break;
    case 7:
    case 8:
        flat = !flat;
        locked = m->locked[x];
        snprintf(right, sizeof right, m->captured ? "call_method[view](%%v%d, %s)" : "call_function[aten.view.default](%%v%d, %s)", x,
                 flat ? "[6]" : "[2, 3]");
        break;
    case 9:
        locked = m->locked[x];
        snprintf(right, sizeof right, m->captured ? "call_method[view](%%v%d, %s)" : "call_function[aten.view.default](%%v%d, %s)", x, size);
        break;
    case 10: snprintf(right, sizeof right, m->captured ? "call_function[_operator.add](%%v%d, 0)" : "call_function[aten.add.Tensor](%%v%d, 0)", x); break;
    case 11:
        locked = m->locked[x];
        snprintf(right, sizeof right, m->captured ? "call_module[drop](%%v%d)" : "call_function[aten.dropout.default](%%v%d, 0.5, False)", x);
        break;
    case 12: snprintf(right, sizeof right, m->captured ? "call_method[clone](%%v%d)" : "call_function[aten.clone.default](%%v%d)", x); break;
    case 13:
        snprintf(right, sizeof right, "get_attr[w]");
        flat = false;
        locked = true;
        break;
    default: /* the same again */
        if (!*m->last)
            return;
        strcpy(right, m->last);
        flat = m->last_flat;
        break;
    }
    m->locked[m->n] = locked;
    define(m, flat, right);
    if (pure) {
        strcpy(m->last, right);
        m->last_flat = flat;
    }
}

static void add_layers(making *m, const char *suffix, bool shared)
{
    int x = any_of(m, false);
    const char *s = suffix;
    fx_printf(&m->t, "%%r%s : f32[1, 1, 2, 3] = %s(%%v%d, [1, 1, 2, 3])\n", s, m->captured ? "call_method[reshape]" : "call_function[aten.reshape.default]", x);
    if (m->captured) {
        const char *second[] = {"call_module[bn](%%c%s)", "call_module[relu](%%c%s)",
                                "call_function[torch.nn.functional.relu](%%c%s, inplace=True)"};
        fx_printf(&m->t, "%%c%s : f32[1, 1, 2, 3] = call_module[conv](%%r%s)\n%%b%s : f32[1, 1, 2, 3] = ", s, s, s);
        fx_printf(&m->t, "%s\n", fx_arena_printf(m->t.arena, second[shared ? 0 : pick(3)], s));
    } else {
        fx_printf(&m->t, "%%cw%s : f32[1, 1, 1, 1] = get_attr[conv.weight]\n%%m%s : f32[1] = get_attr[bn.running_mean]\n", s, s);
        fx_printf(&m->t, "%%c%s : f32[1, 1, 2, 3] = call_function[aten.conv2d.default](%%r%s, %%cw%s)\n", s, s, s);
        fx_printf(&m->t, "%%b%s : f32[1, 1, 2, 3] = call_function[aten.batch_norm.default](%%c%s, None, None, %%m%s, %%m%s, False, 0.1, 1.0, True)\n", s, s, s, s);
    }
    const char *view = m->captured ? "call_method[view](%s%s, [2, 3])" : "call_function[aten.view.default](%s%s, [2, 3])";
    define(m, false, fx_arena_printf(m->t.arena, view, shared ? "%c" : "%b", s));
    if (shared)
        define(m, false, fx_arena_printf(m->t.arena, view, "%b", s));
}

static fx_graph *random_graph(uint64_t seed, bool captured)
{
    making m = {.captured = captured};
    state = seed * 977 + 13;
    fx_text_init(&m.t, fx_context_arena(ctx));
    fx_printf(&m.t, "graph \"random\" %s\nparameter w : f32[2, 3] = [0.5, -1.0, 0.25, 2.0, -0.125, 1.5]\n", captured ? "captured" : "imported");
    if (captured)
        fx_puts(&m.t, "module drop : torch.nn.modules.dropout.Dropout\n"
                      "module conv : torch.nn.modules.conv.Conv2d(in_channels=1, out_channels=1, kernel_size=1, bias=False)\n");
    fx_puts(&m.t, "parameter conv.weight : f32[1, 1, 1, 1] = [0.75]\n");
    if (captured)
        fx_puts(&m.t, "module relu : torch.nn.modules.activation.ReLU\n"
                      "module bn : torch.nn.modules.batchnorm.BatchNorm2d(num_features=1, eps=1.0, affine=False)\n");
    fx_puts(&m.t, "buffer bn.running_mean : f32[1] = [0.375]\n");
    if (captured)
        fx_puts(&m.t, "buffer bn.running_var : f32[1] = [0.375]\n");
    fx_puts(&m.t, "\n");
    for (int i = 0; i < N_INPUTS; i++)
        define(&m, false, fx_arena_printf(m.t.arena, "placeholder[v%d]", i));
    define(&m, false, "get_attr[w]");
    m.locked[1] = m.locked[N_INPUTS] = true;
    int n = 4 + (int)pick(26);
    if (pick(2))
        add_layers(&m, "1", pick(3) == 0);
    for (int i = 0; i < n; i++)
        add_call(&m);
    if (pick(2))
        add_layers(&m, "2", pick(3) == 0);
    fx_printf(&m.t, "output((%%v%d, %%v%d, %%v%d))\n", m.n - 1, any(&m), any(&m));
    fx_graph *g = NULL;
    fx_status status = fx_graph_parse(ctx, "random.fx", m.t.data, m.t.size, &g);
    if (status == FX_OK && !captured)
        status = fx_graph_complete(g);
    ck_assert_msg(status == FX_OK, "%s\n%s", m.t.data, fx_diag_count(ctx) ? fx_diag_get(ctx, 0)->message : "");
    return g;
}

/* Outputs, what is left in the inputs, and which outputs are memory of which inputs. */
typedef struct outcome {
    size_t n;
    double v[200];
    unsigned aliases;
} outcome;

static void run(fx_graph *g, outcome *o, const char *what)
{
    fx_tensor in[N_INPUTS], *out;
    size_t n_out;
    int64_t sizes[] = {2, 3};
    *o = (outcome){0};
    for (int i = 0; i < N_INPUTS; i++) {
        ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 2, sizes, &in[i]), FX_OK);
        for (int k = 0; k < NUMEL; k++)
            fx_tensor_set(&in[i], k, (double)((k * 7 + i * 5 + 3) % 11 - 5) / 4);
    }
    fx_status status = fx_graph_interpret(g, N_INPUTS, in, &n_out, &out);
    ck_assert_msg(status == FX_OK, "%s: %s\n%s", what, fx_diag_get(ctx, fx_diag_count(ctx) - 1)->message, unit_print(g));
    for (size_t k = 0; k < n_out; k++)
        for (int i = 0; i < NUMEL; i++)
            o->v[o->n++] = fx_tensor_get(&out[k], i);
    for (int i = 0; i < N_INPUTS; i++)
        for (int k = 0; k < NUMEL; k++)
            o->v[o->n++] = fx_tensor_get(&in[i], k);
    for (size_t k = 0; k < n_out; k++)
        for (int i = 0; i < N_INPUTS; i++)
            o->aliases |= (unsigned)(out[k].storage == in[i].storage) << (k * N_INPUTS + (size_t)i);
}

static void same_outcome(const outcome *a, const outcome *b, const char *what, const fx_graph *before, const fx_graph *after)
{
    ck_assert_uint_eq(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        ck_assert_msg(a->v[i] == b->v[i] || (isnan(a->v[i]) && isnan(b->v[i])) || fabs(a->v[i] - b->v[i]) <= 2e-5 * (1 + fabs(b->v[i])),
                      "%s: value %zu was %.9g and is %.9g\n%s\n%s", what, i, a->v[i], b->v[i], unit_print(before), unit_print(after));
    ck_assert_msg((b->aliases & ~a->aliases) == 0, "%s: an output has become an input\n%s\n%s", what, unit_print(before), unit_print(after));
}

/* Passes that change values, by what they are for. */
static bool is_lossy(const char *name)
{
    static const char *const names[] = {"prune", "quant", "observe"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(name, names[i]))
            return true;
    return false;
}

static bool needs_options(const fx_graph_pass *p)
{
    for (size_t i = 0; i < p->n_params; i++)
        if (!p->params[i].def)
            return true;
    return false;
}

/* Whether the pass took the graph. */
static bool check_pass(const char *pipeline, bool idempotent, bool lossy, uint64_t seed, bool captured)
{
    char what[200];
    snprintf(what, sizeof what, "%s, %s graph %u", pipeline, captured ? "captured" : "imported", (unsigned)seed);
    fx_graph *g = random_graph(seed, captured), *out = NULL, *again = NULL;
    const char *before = unit_print(g);
    outcome a, b;
    fx_pass_report report;
    run(g, &a, what);
    fx_status status = fx_graph_run_passes(g, pipeline, NULL, &out, &report);
    ck_assert_str_eq(unit_print(g), before);
    if (status == FX_ERR_UNSUPPORTED || status == FX_ERR_ARGUMENT) { /* refused, with a reason */
        ck_assert_uint_gt(fx_diag_count(ctx), 0);
        return false;
    }
    ck_assert_msg(status == FX_OK, "%s: %s\n%s", what, fx_diag_get(ctx, fx_diag_count(ctx) - 1)->message, before);
    const char *after = unit_print(out);
    ck_assert_msg(report.n_changes > 0 || !strcmp(before, after), "%s: changed the graph and noted nothing", what);
    if (idempotent) {
        ck_assert_int_eq(fx_graph_run_passes(out, pipeline, NULL, &again, &report), FX_OK);
        ck_assert_msg(!strcmp(unit_print(again), after), "%s: twice is not once\n%s\n%s\n%s", what, before, after, unit_print(again));
        ck_assert_msg(report.n_changes == 0, "%s: noted '%s' the second time", what, report.n_changes ? report.changes[0].what : "");
    }
    fx_pass_options in_place = {.in_place = true};
    ck_assert_int_eq(fx_graph_run_passes(g, pipeline, &in_place, NULL, NULL), FX_OK);
    ck_assert_msg(!strcmp(unit_print(g), after), "%s: in place it is another graph\n%s\n%s", what, after, unit_print(g));
    run(out, &b, what); /* last: observers note what they see */
    if (!lossy)
        same_outcome(&a, &b, what, g, out);
    return true;
}

START_TEST(each_pass)
{
    const fx_graph_pass *p = fx_graph_pass_get((size_t)_i / 2);
    bool captured = _i % 2;
    int taken = 0;
    for (uint64_t seed = 0; p && seed < N_GRAPHS; seed++) {
        if (needs_options(p))
            break;
        tear_down();
        set_up();
        taken += check_pass(p->name, p->idempotent, is_lossy(p->name), seed, captured);
    }
    /* functionalize wants a graph of operators whose inputs are not written, passes of quantisation what others prepare; the others take all. */
    int least = !p || needs_options(p) || is_lossy(p->name) ? 0 : strcmp(p->name, "functionalize") ? N_GRAPHS : captured ? 0 : N_GRAPHS / 3;
    ck_assert_msg(taken >= least, "%s took only %d of %d graphs", p->name, taken, N_GRAPHS);
}
END_TEST

START_TEST(pipelines)
{
    static const char *const lists[] = {
        "remove_dropout,remove_identity,common_subexpressions,fold_constants,fuse_conv_bn,eliminate_dead_code",
        "legalize,infer,fold_constants,remove_dropout,remove_identity,common_subexpressions,eliminate_dead_code,fuse_conv_bn,reinplace",
        "legalize,functionalize,common_subexpressions,eliminate_dead_code,reinplace",
        "legalize,reinplace,common_subexpressions,remove_identity,eliminate_dead_code",
        "infer,normalize_args,remove_identity,eliminate_dead_code,common_subexpressions"};
    int taken = 0;
    for (uint64_t seed = 0; seed < 2 * N_GRAPHS; seed++) {
        tear_down();
        set_up();
        taken += check_pass(lists[_i], false, false, seed, seed % 2);
    }
    ck_assert_msg(taken > 2 * N_GRAPHS / 3, "%s took only %d of %d graphs", lists[_i], taken, 2 * N_GRAPHS);
}
END_TEST

static void add_tests(TCase *t)
{
    size_t n = 0;
    while (fx_graph_pass_get(n))
        n++;
    tcase_add_loop_test(t, each_pass, 0, (int)(2 * n));
    tcase_add_loop_test(t, pipelines, 0, 5);
}

int main(void)
{
    return unit_run("passes_random", 300, set_up, tear_down, add_tests);
}
