/* tests/unit/test_oom_graph.c: memory runs out once at every place in a scenario that uses all of graph.h and module.h: an error is told,
 * the graph stays whole and as it was before the call that failed, nothing leaks.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "tests/unit/unit.h"

/* What the scenario works with. Each step is one public call; it returns whether the call succeeded. */
typedef struct state {
    fx_context *ctx;
    fx_graph *g, *other;
    fx_node *x, *w, *a, *b, *c, *attr, *module, *made;
} state;

static bool all(void *user, fx_node *n)
{
    (void)user;
    (void)n;
    return true;
}

static int table_says(void *user, const fx_node *n)
{
    (void)user;
    (void)n;
    return -1;
}

static fx_node *same(void *user, fx_node *n)
{
    state *s = user;
    return n == s->x ? s->w : n;
}

static fx_node *call(state *s, const char *target, fx_node *a, fx_node *b)
{
    fx_value items[3] = {fx_v_node(a), fx_v_int(77), fx_v_str("text")}, v[3] = {fx_v_node(a), b ? fx_v_node(b) : fx_v_none(), fx_v_list(3, items)};
    return fx_graph_call_function(s->g, target, b ? 2 : 3, v);
}

static bool step_graph(state *s) { return (s->g = fx_graph_create(s->ctx, "graph")) != NULL; }
static bool step_other(state *s) { return (s->other = fx_graph_create(s->ctx, "other")) != NULL; }
static bool step_x(state *s) { return (s->x = fx_graph_placeholder(s->g, "x", NULL)) != NULL; }
static bool step_w(state *s) { fx_value d = fx_v_float(0.25); return (s->w = fx_graph_placeholder(s->g, "w", &d)) != NULL; }
static bool step_parameter(state *s) { fx_tensor t; int64_t n = 5; return fx_tensor_create(s->ctx, FX_F32, 1, &n, &t) == FX_OK && fx_graph_set_parameter(s->g, "layer.one.weight", &t) == FX_OK; }
static bool step_tie(state *s) { return fx_graph_tie_parameter(s->g, "head.two.weight", "layer.one.weight") == FX_OK; }
static bool step_buffer(state *s) { fx_tensor t; int64_t n = 3; return fx_tensor_create(s->ctx, FX_I64, 1, &n, &t) == FX_OK && fx_graph_set_buffer(s->g, "idle.part.buffer", &t, false) == FX_OK; }
static bool step_module(state *s) { const char *k[] = {"stride", "padding"}; fx_value v[] = {fx_v_int(2), fx_v_str("same")}; return fx_graph_add_submodule(s->g, "net.block.conv", "torch.nn.Conv2d", 2, k, v) != NULL; }
static bool step_module_again(state *s) { return fx_graph_add_submodule(s->g, "net.block.conv", "torch.nn.ReLU", 0, NULL, NULL) != NULL; }
static bool step_setting(state *s) { return fx_module_set_setting(fx_graph_get_submodule(s->g, "net.block.conv"), "inplace", fx_v_bool(false)) == FX_OK; }
static bool step_module_meta(state *s) { return fx_module_set_meta(fx_graph_get_submodule(s->g, "net.block.conv"), "mine", fx_v_str("note of a module")) == FX_OK; }
static bool step_get_setting(state *s) { fx_value v; return fx_module_setting(fx_graph_get_submodule(s->g, "net.block.conv"), "inplace", &v); }
static bool step_attr(state *s) { return (s->attr = fx_graph_get_attr(s->g, "layer.one.weight")) != NULL; }
static bool step_a(state *s) { return (s->a = call(s, "torch.add", s->x, s->w)) != NULL; }
static bool step_b(state *s) { return (s->b = call(s, "their.function", s->a, NULL)) != NULL; }
static bool step_method(state *s) { fx_value v[2] = {fx_v_node(s->b), fx_v_node(s->attr)}; return (s->c = fx_graph_call_method(s->g, "mul_", 2, v)) != NULL; }
static bool step_call_module(state *s) { fx_value v = fx_v_node(s->c); return (s->module = fx_graph_call_module(s->g, "net.block.conv", 1, &v)) != NULL; }
static bool step_output(state *s) { fx_value v[2] = {fx_v_node(s->module), fx_v_node(s->a)}; return fx_graph_output(s->g, fx_v_tuple(2, v)) != NULL; }
static bool step_dead(state *s) { fx_insert_point at = fx_graph_inserting_before(s->g, s->c); s->made = call(s, "torch.sub", s->x, s->w); fx_graph_restore_insert_point(at); return s->made != NULL; }
static bool step_set_args(state *s) { fx_value v[20]; for (int i = 0; i < 20; i++) v[i] = fx_v_node(i % 2 ? s->x : s->w); return fx_node_set_args(s->b, 20, v) == FX_OK; }
static bool step_update_arg(state *s) { fx_value v[2] = {fx_v_node(s->a), fx_v_int(123456)}; return fx_node_update_arg(s->b, 3, fx_v_tuple(2, v)) == FX_OK; }
static bool step_insert_arg(state *s) { return fx_node_insert_arg(s->b, 1, fx_v_str("inserted")) == FX_OK; }
static bool step_kwargs(state *s) { const char *k[] = {"first", "second"}; fx_value v[2] = {fx_v_node(s->x), fx_v_dtype(FX_F16)}; return fx_node_set_kwargs(s->b, 2, k, v) == FX_OK; }
static bool step_update_kwarg(state *s) { return fx_node_update_kwarg(s->b, "third", fx_v_node(s->a)) == FX_OK; }
static bool step_remove_kwarg(state *s) { return fx_node_remove_kwarg(s->b, "first") == FX_OK; }
static bool step_target(state *s) { return fx_node_set_target(s->b, "their.other.function") == FX_OK; }
static bool step_name(state *s) { return fx_node_set_name(s->b, "a brand new name") == FX_OK; }
static bool step_location(state *s) { return fx_node_set_location(s->b, "net.block", "file.py:123") == FX_OK; }
static bool step_meta(state *s) { return fx_node_set_meta(s->b, "my key", fx_v_str("my value")) == FX_OK; }
static bool step_replace(state *s) { size_t n; return fx_node_replace_all_uses_with(s->x, s->w, all, NULL, true, &n) == FX_OK; }
static bool step_replace_input(state *s) { return fx_node_replace_input_with(s->a, s->w, s->x) == FX_OK; }
static bool step_node_copy(state *s) { fx_insert_point at = fx_graph_inserting_before(s->g, s->c); fx_node *n = fx_graph_node_copy(s->g, s->b, same, s); fx_graph_restore_insert_point(at); return n != NULL; }
static bool step_graph_copy(state *s) { size_t n; fx_node *out[4]; return fx_graph_graph_copy(s->other, s->g, 0, NULL, &n, out, 4) == FX_OK; }
static bool step_deepcopy(state *s) { return fx_graph_deepcopy(s->g) != NULL; }
static bool step_writable(state *s) { fx_tensor t; return fx_graph_writable_tensor(s->g, "head.two.weight", &t) == FX_OK; }
static bool step_tensor(state *s) { fx_tensor t; return fx_graph_tensor(s->g, "layer.one.weight", &t) == FX_OK; }
static bool step_normalized(state *s) { int n; const char *const *names; fx_value v[4]; return fx_node_normalized_arguments(s->made, &n, &names, v, 4) == FX_OK; }
static bool step_operator(state *s) { return fx_node_operator(s->c) != NULL; }
static bool step_find(state *s) { return fx_graph_find_nodes(s->g, FX_CALL_FUNCTION, "aten.sub.Tensor", NULL, 0) >= 1; }
static bool step_type(state *s) { const char *t = fx_node_type_text(s->a); return !s->a->type || t; }
static bool step_lint(state *s) { return fx_graph_lint(s->g, FX_LINT_STRUCTURE) == FX_OK; }
static bool step_lint_schema(state *s) { return fx_graph_lint(s->g, FX_LINT_ALL) == FX_OK; }
static bool step_impure(state *s) { return fx_node_is_impure(s->c); }
static bool step_sort(state *s) { return fx_graph_topological_sort(s->g) == FX_OK; }
static bool step_dead_code(state *s) { size_t n; return fx_graph_eliminate_dead_code(s->g, table_says, NULL, &n) == FX_OK; }
static bool step_unused(state *s) { size_t n; return fx_graph_delete_all_unused_submodules(s->g, &n) == FX_OK; }
static bool step_erase_used(state *s) { return fx_graph_erase_node(s->g, s->a) == FX_ERR_ARGUMENT; }
static bool step_delete_module(state *s) { return fx_graph_delete_submodule(s->g, "head") == FX_OK; }

static bool (*const steps[])(state *s) = {
    step_graph, step_other, step_x, step_w, step_parameter, step_tie, step_buffer, step_module, step_module_again, step_setting,
    step_module_meta, step_get_setting, step_attr, step_a, step_b, step_method, step_call_module, step_output, step_dead, step_normalized,
    step_operator, step_find, step_type, step_lint, step_set_args, step_update_arg, step_insert_arg, step_kwargs, step_update_kwarg,
    step_remove_kwarg, step_target, step_name, step_location, step_meta, step_replace, step_replace_input, step_node_copy,
    step_graph_copy, step_deepcopy, step_tensor, step_writable, step_lint_schema, step_impure, step_sort, step_erase_used,
    step_dead_code, step_delete_module, step_unused, step_lint,
};
enum { STEPS = sizeof steps / sizeof *steps };

/* Runs the scenario with allocation `fail_at` of step `at` failing; false when that step has fewer. A failed step is repeated and must then
 * succeed, so that the scenario goes on from a graph that is as it was. */
static bool run(int at, long fail_at, bool for_good)
{
    unit_memory m = {.fail_at = -1};
    state s = {.ctx = unit_context_apart(&m)};
    bool failed = false;
    for (int i = 0; i < STEPS; i++) {
        if (i != at) {
            ck_assert_msg(steps[i](&s), "step %d: %s", i, unit_message(s.ctx));
            continue;
        }
        char *before = s.g ? unit_text(s.g) : NULL, *other = s.other ? unit_text(s.other) : NULL;
        fx_diag_clear(s.ctx);
        m.fail_at = fail_at;
        m.n = 0;
        m.for_good = for_good;
        bool done = steps[i](&s);
        failed = m.n > fail_at;
        m.fail_at = -1;
        if (failed && !done) {
            ck_assert_msg(fx_diag_count(s.ctx) > 0, "step %d, allocation %ld: no message", i, fail_at);
            ck_assert_int_eq(fx_diag_get(s.ctx, fx_diag_count(s.ctx) - 1)->status, FX_ERR_NOMEM);
            char *after = before ? unit_text(s.g) : NULL, *other_after = other ? unit_text(s.other) : NULL;
            if (before)
                ck_assert_msg(strcmp(before, after) == 0, "step %d, allocation %ld changed the graph from\n%s\nto\n%s", i, fail_at, before, after);
            if (other)
                ck_assert_msg(strcmp(other, other_after) == 0, "step %d, allocation %ld changed the other graph", i, fail_at);
            free(after);
            free(other_after);
            fx_diag_clear(s.ctx);
            if (s.g) { /* whole but for what the scenario has not made yet */
                fx_graph_lint(s.g, FX_LINT_STRUCTURE);
                for (size_t k = 0; k < fx_diag_count(s.ctx); k++)
                    ck_assert_str_eq(fx_diag_get(s.ctx, k)->message, "the graph has 0 output nodes, expected 1");
            }
            ck_assert_msg(steps[i](&s), "step %d again after allocation %ld: %s", i, fail_at, unit_message(s.ctx));
        }
        free(before);
        free(other);
    }
    fx_context_free(s.ctx);
    ck_assert_int_eq(m.live, 0);
    return failed;
}

START_TEST(every_allocation_fails_once)
{
    long n = 0;
    while (run(_i / 2, n, _i % 2)) {
        n++;
        ck_assert_int_lt(n, 10000);
    }
}
END_TEST

START_TEST(a_context_that_cannot_be_made)
{
    for (long n = 0;; n++) {
        unit_memory m = {.fail_at = n};
        fx_context *ctx = unit_context(&m);
        fx_context_free(ctx);
        ck_assert_int_eq(m.live, 0);
        if (ctx)
            break;
        ck_assert_int_lt(n, 1000);
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, a_context_that_cannot_be_made);
    tcase_add_loop_test(t, every_allocation_fails_once, 0, 2 * STEPS);
}

int main(void)
{
    return unit_run("oom_graph", 300, NULL, NULL, add_tests);
}
