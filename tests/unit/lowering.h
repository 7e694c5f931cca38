/* tests/unit/lowering.h: graphs read from text, and lowered.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_TESTS_LOWERING_H
#define FXCC_TESTS_LOWERING_H

#include <string.h>

#include "lower/lower.h"
#include "tests/unit/fixture.h"

static fx_graph *read_graph(const char *text)
{
    fx_graph *g = NULL;
    ck_assert_int_eq(fx_graph_parse(ctx, "net.fx", text, strlen(text), &g), FX_OK);
    FX_FOR_NODES(g, n)
        if (n->op)
            ck_assert_int_eq(fx_node_normalize(n), FX_OK);
    return g;
}

typedef struct job {
    fx_graph *g;
    fx_lower_options opt;
    fx_program *program;
} job;

/* For fx_protect. */
static fx_status lower(void *arg)
{
    job *j = arg;
    return fx_lower_run(j->g, &j->opt, &j->program);
}

#endif
