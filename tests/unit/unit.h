/* tests/unit/unit.h: what unit tests share: the program around the tests, memory that runs out, texts of graphs and messages.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_UNIT_H
#define FXCC_UNIT_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ir/context.h"

/* Adds a case with the tests that `add` adds, each between set_up and tear_down (NULL: none), in `timeout` seconds (0: Check's own limit). */
static inline void unit_case(Suite *s, const char *name, int timeout, void (*set_up)(void), void (*tear_down)(void), void (*add)(TCase *t))
{
    TCase *t = tcase_create(name);
    if (set_up || tear_down)
        tcase_add_checked_fixture(t, set_up, tear_down);
    if (timeout)
        tcase_set_timeout(t, timeout);
    add(t);
    suite_add_tcase(s, t);
}

/* Runs a suite and frees it: the value of main. */
static inline int unit_finish(Suite *s)
{
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

/* A suite of one case, run. */
static inline int unit_run(const char *name, int timeout, void (*set_up)(void), void (*tear_down)(void), void (*add)(TCase *t))
{
    Suite *s = suite_create(name);
    unit_case(s, name, timeout, set_up, tear_down, add);
    return unit_finish(s);
}

/* Memory of which the allocation number fail_at (from 0; -1: none) fails, alone or with all after it. */
typedef struct unit_memory {
    long fail_at, n, live;
    size_t asked; /* bytes, in all */
    bool for_good;
} unit_memory;

static inline void *unit_alloc(void *user, size_t size)
{
    unit_memory *m = user;
    long n = m->n++;
    m->asked += size;
    if (m->fail_at >= 0 && (n == m->fail_at || (m->for_good && n > m->fail_at)))
        return NULL;
    void *p = calloc(1, size);
    m->live += p != NULL;
    return p;
}

static inline void unit_free(void *user, void *p)
{
    unit_memory *m = user;
    m->live -= p != NULL;
    free(p);
}

static inline fx_context *unit_context(unit_memory *m)
{
    return fx_context_create_with(unit_alloc, unit_free, m);
}

/* The same with an allocation for each piece of memory that is asked for, however small. */
static inline fx_context *unit_context_apart(unit_memory *m)
{
    fx_context *ctx = unit_context(m);
    if (ctx)
        ctx->apart = true;
    return ctx;
}

/* From now on k allocations succeed (below 0: all do), none after them. */
static inline void unit_fail_after(unit_memory *m, long k)
{
    m->fail_at = k < 0 ? -1 : m->n + k;
    m->for_good = true;
}

static inline bool unit_ran_out(const unit_memory *m)
{
    return m->fail_at >= 0 && m->n > m->fail_at;
}

/* The .fx text of a graph, to compare with later; freed by the caller. */
static inline char *unit_text(const fx_graph *g)
{
    fx_context *ctx = fx_context_create();
    fx_text t;
    fx_text_init(&t, fx_context_arena(ctx));
    fx_graph_print(&t, g);
    char *copy = malloc(t.size + 1);
    memcpy(copy, t.data, t.size + 1);
    fx_context_free(ctx);
    return copy;
}

/* The last message about the node ("" when about none), or NULL. */
static inline const char *unit_message(const fx_context *ctx)
{
    size_t n = fx_diag_count(ctx);
    return n ? fx_diag_get(ctx, n - 1)->message : "";
}

/* The last message as users see it, with its place; good until the next call. */
static inline const char *unit_diag(const fx_context *ctx)
{
    static char text[2000];
    size_t n = fx_diag_count(ctx);
    text[0] = '\0';
    if (n)
        fx_diag_format(fx_diag_get(ctx, n - 1), text, sizeof text);
    return text;
}

/* The .fx text of a graph, in its context's memory. */
static inline const char *unit_print(const fx_graph *g)
{
    fx_text t;
    fx_text_init(&t, fx_context_arena(g->ctx));
    fx_graph_print(&t, g);
    return t.data;
}

/* The graph of a text, completed. */
static inline fx_graph *unit_parse(fx_context *ctx, const char *text)
{
    fx_graph *g = NULL;
    ck_assert_msg(fx_graph_parse(ctx, "case.fx", text, strlen(text), &g) == FX_OK, "%s", unit_diag(ctx));
    ck_assert_msg(fx_graph_complete(g) == FX_OK, "%s", unit_diag(ctx));
    return g;
}

#endif
