/* frontend/pt2_write.c: graphs of aten operators to archives that torch.export.load reads.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "frontend/pt2.h"

fx_status fx_pt2_save(const fx_graph *g, const char *path)
{
    fx_loc loc = {.file = fx_intern(g->ctx, path)};
    return fx_fail(g->ctx, FX_ERR_UNSUPPORTED, &loc, "cannot write .pt2 yet: write a .fx");
}
