/* frontend/save.c: graphs to files, by the extension.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/pt2.h"

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

typedef struct request {
    const fx_graph *graph;
    const char *path;
} request;

static fx_status save(void *arg)
{
    const request *q = arg;
    if (ends_with(q->path, ".fx"))
        return fx_text_save(q->graph, q->path);
    if (ends_with(q->path, ".pt2"))
        return fx_pt2_save(q->graph, q->path);
    fx_loc loc = {.file = fx_intern(q->graph->ctx, q->path)};
    return fx_fail(q->graph->ctx, FX_ERR_ARGUMENT, &loc, "expected a file to write named .fx or .pt2");
}

fx_status fx_save(const fx_graph *g, const char *path)
{
    request q = {g, path};
    return fx_protect(g->ctx, save, &q);
}
