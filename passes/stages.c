/* passes/stages.c: functionalisation as a pass of its own, for those who want to see or change what lowering begins with.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "passes/rewrite.h"

fx_status fx_gpass_functionalize(fx_pass_run *run)
{
    fx_graph *g = run->graph;
    fx_status status = FX_OK;
    size_t writes = 0;
    if (g->stage >= FX_STAGE_FUNCTIONAL)
        return FX_OK;
    if (g->stage == FX_STAGE_CAPTURED)
        return fx_fail(run->ctx, FX_ERR_ARGUMENT, NULL,
                       "pass functionalize: expected a graph of aten operators, got a captured one; run legalize first");
    FX_FOR_NODES(g, n) {
        if (n->opcode == FX_CALL_METHOD || n->opcode == FX_CALL_MODULE || (n->opcode == FX_CALL_FUNCTION && !n->op))
            status = fx_fail(run->ctx, FX_ERR_UNSUPPORTED, &n->loc,
                             "pass functionalize: '%s' is no operator of the table: what it writes is not known", n->target);
        writes += fx_node_is_inplace(n);
    }
    FX_TRY(status);
    FX_TRY(fx_functionalize(g, run->scratch));
    g->stage = FX_STAGE_FUNCTIONAL;
    fx_pass_note(run, NULL, "%zu writes in place became values; the graph is functional now", writes);
    return FX_OK;
}
