/* frontend/detect.c: which format a file has, by its first bytes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/pt2.h"

static bool starts_with(const fx_file *f, const char *magic, size_t n)
{
    return f->size >= n && memcmp(f->data, magic, n) == 0;
}

/* Text has no control bytes but white space. The beginning decides. */
static bool is_text(const fx_file *f)
{
    size_t n = f->size < 4096 ? f->size : 4096;
    for (size_t i = 0; i < n; i++)
        if (f->data[i] < 32 && !memchr("\t\n\v\f\r", f->data[i], 5))
            return false;
    return true;
}

static fx_status load_file(fx_context *ctx, fx_file *f, fx_graph **out)
{
    fx_loc loc = {.file = f->name};
    if (starts_with(f, "PK", 2))
        return fx_pt2_load(ctx, f, out);
    if (starts_with(f, "\x80", 1))
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &loc,
                       "expected a .pt2 of torch.export.save, got a pickle (torch.save); save with torch.export.save(torch.export.export(model, inputs), path)");
    if (starts_with(f, "\x89HDF", 4))
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, &loc, "expected a .pt2 of torch.export.save or a .fx text, got HDF5");
    if (f->size && is_text(f))
        return fx_text_load(ctx, f, out);
    return fx_fail(ctx, FX_ERR_FORMAT, &loc, "expected a .pt2 of torch.export.save (a zip) or a .fx text, got neither");
}

typedef struct request {
    fx_context *ctx;
    const char *name;
    const void *data; /* NULL: map the file `name` */
    size_t size;
    fx_graph *graph;
} request;

static fx_status load(void *arg)
{
    request *q = arg;
    fx_file *f;
    if (q->data)
        f = fx_file_memory(q->ctx, q->name, q->data, q->size);
    else
        FX_TRY(fx_file_map(q->ctx, q->name, &f));
    return load_file(q->ctx, f, &q->graph);
}

fx_status fx_load(fx_context *ctx, const char *path, fx_graph **out)
{
    request q = {.ctx = ctx, .name = path};
    FX_TRY(fx_protect(ctx, load, &q));
    *out = q.graph;
    return FX_OK;
}

fx_status fx_load_memory(fx_context *ctx, const char *name, const void *data, size_t size, fx_graph **out)
{
    request q = {.ctx = ctx, .name = name, .data = data ? data : "", .size = data ? size : 0};
    FX_TRY(fx_protect(ctx, load, &q));
    *out = q.graph;
    return FX_OK;
}
