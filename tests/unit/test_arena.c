/* tests/unit/test_arena.c: arenas, unwinding, deferred closing, maps.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

START_TEST(allocations_are_zeroed_aligned_and_apart)
{
    fx_context *ctx = fx_context_create();
    fx_arena *a = fx_arena_create(ctx);
    unsigned char *before = NULL;
    for (size_t i = 0; i < 3000; i++) {
        size_t n = i * 7 % 400;
        unsigned char *p = fx_arena_alloc(a, n);
        ck_assert_ptr_nonnull(p);
        ck_assert_uint_eq((uintptr_t)p % 16, 0);
        bool zero = true;
        for (size_t k = 0; k < n; k++)
            zero = zero && p[k] == 0;
        ck_assert(zero);
        memset(p, 0xAA, n);
        ck_assert_ptr_ne(p, before);
        before = p;
    }
    ck_assert_uint_ge(fx_arena_bytes(a), 3000 * 200);
    ck_assert_uint_le(fx_arena_bytes(a), 3000 * 600);
    unsigned char *big = fx_arena_alloc(a, 10 << 20);
    big[(10 << 20) - 1] = 1;
    fx_arena_reset(a);
    ck_assert_uint_lt(fx_arena_bytes(a), 4096);
    ck_assert_str_eq(fx_arena_printf(a, "%d-%s", 5, "x"), "5-x");
    fx_arena_free(a);
    fx_context_free(ctx);
}
END_TEST

START_TEST(arrays_grow)
{
    fx_context *ctx = fx_context_create();
    int *v = NULL;
    size_t n = 0, cap = 0;
    for (int i = 0; i < 10000; i++)
        FX_PUSH(fx_context_arena(ctx), v, n, cap) = i * 3;
    ck_assert_uint_eq(n, 10000);
    bool same = true;
    for (int i = 0; i < 10000; i++)
        same = same && v[i] == i * 3;
    ck_assert(same);
    fx_context_free(ctx);
}
END_TEST

static fx_status ask_too_much(void *arg)
{
    fx_arena_array(fx_context_arena(arg), SIZE_MAX / 2, 16);
    return FX_OK;
}

START_TEST(overflow_is_out_of_memory)
{
    fx_context *ctx = fx_context_create();
    ck_assert_int_eq(fx_protect(ctx, ask_too_much, ctx), FX_ERR_NOMEM);
    ck_assert_uint_eq(fx_diag_count(ctx), 1);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->message, "out of memory");
    ck_assert_int_eq(fx_diag_get(ctx, 0)->status, FX_ERR_NOMEM);
    fx_diag_clear(ctx);
    ck_assert_uint_eq(fx_diag_count(ctx), 0);
    fx_context_free(ctx);
}
END_TEST

static char closed[16];

static void close_letter(void *arg)
{
    strcat(closed, arg);
}

static fx_status inner(void *arg)
{
    fx_defer(arg, close_letter, "c");
    fx_out_of_memory(arg);
}

static fx_status outer(void *arg)
{
    fx_defer(arg, close_letter, "a");
    fx_defer(arg, close_letter, "b");
    fx_status st = fx_protect(arg, inner, arg);
    ck_assert_str_eq(closed, "c");
    return st == FX_ERR_NOMEM ? FX_ERR_IO : FX_OK;
}

START_TEST(deferred_run_last_first_in_their_frame)
{
    fx_context *ctx = fx_context_create();
    closed[0] = '\0';
    fx_defer(ctx, close_letter, "z");
    ck_assert_int_eq(fx_protect(ctx, outer, ctx), FX_ERR_IO);
    ck_assert_str_eq(closed, "cba");
    fx_context_free(ctx);
    ck_assert_str_eq(closed, "cbaz");
}
END_TEST

/* Some of everything that allocates. */
static fx_status work(void *arg)
{
    fx_context *ctx = arg;
    fx_defer(ctx, close_letter, ".");
    fx_graph *g = fx_graph_new(ctx, "m");
    fx_tensor t;
    const int64_t sizes[] = {2, 3};
    FX_TRY(fx_tensor_create(ctx, FX_F32, 2, sizes, &t));
    fx_node *w = fx_graph_constant(g, "layer.weight", &t);
    const fx_arg *x = fx_arg_operand(ctx, 0);
    for (int i = 0; i < 40; i++) {
        fx_node *n = fx_node_new(g, FX_CALL_FUNCTION, "aten.relu.default", fx_arg_seq(ctx, FX_ARG_TUPLE, 1, &x), NULL, 1, &w, NULL);
        FX_TRY(fx_node_normalize(n));
        w = n;
    }
    fx_graph_copy(g);
    return fx_fail(ctx, FX_ERR_UNSUPPORTED, NULL, "%s", fx_intern_f(ctx, "%0500d", 7));
}

START_TEST(every_allocation_may_fail)
{
    for (long n = 0;; n++) {
        unit_memory m = {.fail_at = n, .for_good = true};
        closed[0] = '\0';
        fx_context *ctx = unit_context(&m);
        if (!ctx) {
            ck_assert_int_eq(m.live, 0);
            continue;
        }
        fx_status st = fx_protect(ctx, work, ctx);
        ck_assert_uint_ge(fx_diag_count(ctx), 1);
        ck_assert_str_eq(closed, ".");
        if (st != FX_ERR_NOMEM)
            ck_assert_int_eq(st, FX_ERR_UNSUPPORTED);
        fx_context_free(ctx);
        ck_assert_int_eq(m.live, 0);
        if (st == FX_ERR_UNSUPPORTED) {
            ck_assert_int_gt(n, 10);
            break;
        }
    }
}
END_TEST

static bool stop_after(void *left)
{
    return --*(long *)left < 0;
}

/* Asked at any place, and told to stop from there on, work ends as when memory runs out there; and the context goes on. */
START_TEST(work_is_cancelled_wherever_it_asks)
{
    for (long n = 0;; n++) {
        unit_memory m = {.fail_at = -1};
        long left = n;
        closed[0] = '\0';
        fx_context *ctx = unit_context_apart(&m);
        fx_context_set_interrupt(ctx, stop_after, &left);
        fx_status st = fx_protect(ctx, work, ctx);
        ck_assert_str_eq(closed, ".");
        ck_assert_int_eq(st, left < 0 ? FX_ERR_CANCELLED : FX_ERR_UNSUPPORTED);
        ck_assert_uint_eq(fx_diag_count(ctx), 1);
        ck_assert_int_eq(fx_diag_get(ctx, 0)->status, st);
        ck_assert_str_eq(fx_status_string(FX_ERR_CANCELLED), "cancelled");
        fx_diag_truncate(ctx, 0);
        ck_assert_uint_eq(fx_diag_count(ctx), 0);
        fx_context_set_interrupt(ctx, NULL, NULL);
        ck_assert_int_eq(fx_protect(ctx, work, ctx), FX_ERR_UNSUPPORTED);
        fx_context_free(ctx);
        ck_assert_int_eq(m.live, 0);
        if (st == FX_ERR_UNSUPPORTED) {
            ck_assert_int_gt(n, 10);
            break;
        }
    }
}
END_TEST

START_TEST(failing_outside_protect_does_not_unwind)
{
    unit_memory m = {.fail_at = 1000, .for_good = true};
    fx_context *ctx = unit_context(&m);
    unit_fail_after(&m, 0);
    char *huge = malloc(1 << 20);
    memset(huge, 'x', (1 << 20) - 1);
    huge[(1 << 20) - 1] = '\0';
    ck_assert_int_eq(fx_fail(ctx, FX_ERR_IO, NULL, "%s", huge), FX_ERR_IO);
    ck_assert_str_eq(fx_diag_get(ctx, 0)->message, "out of memory");
    free(huge);
    fx_context_free(ctx);
    ck_assert_int_eq(m.live, 0);
}
END_TEST

START_TEST(maps_find_what_was_put)
{
    fx_context *ctx = fx_context_create();
    static int keys[5000];
    fx_map m = {0};
    ck_assert_ptr_null(fx_map_get(&m, &keys[0]));
    for (int i = 0; i < 5000; i++)
        fx_map_put(fx_context_arena(ctx), &m, &keys[i], &keys[4999 - i]);
    fx_map_put(fx_context_arena(ctx), &m, &keys[17], &keys[17]);
    ck_assert_uint_eq(m.n, 5000);
    for (int i = 0; i < 5000; i++)
        ck_assert_ptr_eq(fx_map_get(&m, &keys[i]), i == 17 ? &keys[17] : &keys[4999 - i]);
    ck_assert_ptr_null(fx_map_get(&m, &m));
    for (int i = 0; i < 5000; i += 2)
        fx_map_remove(&m, &keys[i]);
    fx_map_remove(&m, &keys[0]);
    ck_assert_uint_eq(m.n, 2500);
    for (int i = 0; i < 5000; i++)
        ck_assert_ptr_eq(fx_map_get(&m, &keys[i]), i % 2 == 0 ? NULL : i == 17 ? &keys[17] : &keys[4999 - i]);
    fx_context_free(ctx);
}
END_TEST

START_TEST(diagnostics_say_where)
{
    fx_context *ctx = fx_context_create();
    fx_loc loc = {.file = "m.pt2", .entry = "models/m.json", .node = "conv2d", .module = "layer1.0.conv2", .frame = "resnet.py:92"};
    ck_assert_int_eq(fx_fail(ctx, FX_ERR_TYPE, &loc, "expected %d, got %d", 3, 4), FX_ERR_TYPE);
    fx_warn(ctx, &(fx_loc){.node = "x"}, "unused");
    fx_remark(ctx, NULL, "plain");
    ck_assert_uint_eq(fx_diag_count(ctx), 3);
    ck_assert_ptr_null(fx_diag_get(ctx, 3));
    const fx_diag *d = fx_diag_get(ctx, 0);
    char buf[200];
    size_t n = fx_diag_format(d, buf, sizeof buf);
    ck_assert_str_eq(buf, "m.pt2: models/m.json: node 'conv2d' (layer1.0.conv2, resnet.py:92): expected 3, got 4");
    ck_assert_uint_eq(n, strlen(buf));
    ck_assert_uint_eq(fx_diag_format(d, buf, 6), n);
    ck_assert_str_eq(buf, "m.pt2");
    ck_assert_uint_eq(fx_diag_format(d, NULL, 0), n);
    fx_diag_format(fx_diag_get(ctx, 1), buf, sizeof buf);
    ck_assert_str_eq(buf, "node 'x': unused");
    ck_assert_int_eq(fx_diag_get(ctx, 1)->severity, FX_WARNING);
    fx_diag_format(fx_diag_get(ctx, 2), buf, sizeof buf);
    ck_assert_str_eq(buf, "plain");
    fx_context_free(ctx);
    fx_context_free(NULL);
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, allocations_are_zeroed_aligned_and_apart);
    tcase_add_test(t, arrays_grow);
    tcase_add_test(t, overflow_is_out_of_memory);
    tcase_add_test(t, deferred_run_last_first_in_their_frame);
    tcase_add_test(t, every_allocation_may_fail);
    tcase_add_test(t, work_is_cancelled_wherever_it_asks);
    tcase_add_test(t, failing_outside_protect_does_not_unwind);
    tcase_add_test(t, maps_find_what_was_put);
    tcase_add_test(t, diagnostics_say_where);
}

int main(void)
{
    return unit_run("arena", 120, NULL, NULL, add_tests);
}
