/* driver/save.c: writing models back.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "fxcc/compile.h"

#include "frontend/frontend.h"

fx_status fx_model_save(fx_graph *graph, const char *path)
{
    if (!graph)
        return FX_ERR_ARGUMENT;
    if (!path)
        return fx_fail(graph->ctx, FX_ERR_ARGUMENT, NULL, "expected the path of a file to write, got NULL");
    return fx_save(graph, path);
}
