/* tests/unit/test_passes_cases.c: the text cases in tests/passes/: pipelines of passes over graphs, values by the interpreter of graphs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include "fxcc/pass.h"
#include "text_cases.h"

static fx_status apply_passes(job *j, char *list, fx_graph **g, values *before)
{
    fx_graph *out;
    if ((*g)->stage != FX_STAGE_CAPTURED)
        FX_TRY(fx_graph_complete(*g));
    if (!j->c->error && !strstr(j->c->head, "(not run)") && !strstr(j->c->head, "(other values)"))
        FX_TRY(run_graph(j, *g, before));
    FX_TRY(fx_graph_run_passes(*g, list, NULL, &out, NULL));
    *g = out;
    return FX_OK;
}

int main(void)
{
    return cases_main("passes_cases", "tests/passes", add_cases);
}
