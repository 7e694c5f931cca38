/* passes/replace_pattern.c: the pass that replaces a pattern, both given as .fx texts.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <errno.h>
#include <string.h>

#include "passes/passes.h"

static void close_file(void *arg)
{
    fclose(arg);
}

/* A .fx text without tensors of other files. */
static fx_status read_graph(fx_pass_run *run, const char *option, fx_graph **out)
{
    const char *path = fx_pass_str(run, option);
    const fx_loc loc = {.file = path};
    char *text = NULL;
    size_t n = 0, cap = 0, got;
    errno = 0;
    FILE *f = fopen(path, "rb");
    if (!f)
        return fx_fail(run->ctx, FX_ERR_IO, &loc, "%s: cannot be opened: %s", option, strerror(errno));
    fx_defer(run->ctx, close_file, f);
    do {
        while (cap < n + 4096)
            text = fx_arena_grow(run->scratch, text, cap, &cap, 1);
        got = fread(text + n, 1, cap - n, f);
        n += got;
    } while (got > 0);
    if (ferror(f))
        return fx_fail(run->ctx, FX_ERR_IO, &loc, "%s: cannot be read: %s", option, strerror(errno));
    FX_TRY(fx_graph_parse(run->ctx, path, text, n, out));
    return fx_graph_complete(*out);
}

fx_status fx_gpass_replace_pattern(fx_pass_run *run)
{
    fx_graph *pattern, *replacement;
    fx_pattern_options options = {.ignore_literals = fx_pass_bool(run, "ignore_literals")};
    size_t count;
    const fx_match *matches;
    FX_TRY(read_graph(run, "pattern", &pattern));
    FX_TRY(read_graph(run, "replacement", &replacement));
    FX_TRY(fx_graph_replace_pattern(run->graph, pattern, replacement, &options, &count, &matches));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < matches[i].n_outputs; k++)
            fx_pass_note(run, matches[i].results[k], "replaced '%s' and what leads to it (%zu nodes)", matches[i].outputs[k]->name,
                         matches[i].n_nodes);
    return FX_OK;
}
