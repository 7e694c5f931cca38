/* cli/cmd_cache.c: fxcc cache: the code that was compiled in memory before.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "fxcc/jit.h"

typedef struct arguments {
    const char *folder;
    bool clear;
} arguments;

enum { KEY_CLEAR = 0x100 };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    switch (key) {
    case KEY_CLEAR:
        a->clear = true;
        return 0;
    case ARGP_KEY_ARG:
        return one_argument(state, &a->folder, arg, "folder");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {{"clear", KEY_CLEAR, NULL, 0, "remove all of it", 0}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[FOLDER]",
    .doc = "Tells where the code is kept that 'fxcc run' compiled, and how much of it there is. The folder is $FXCC_CACHE, or fxcc/jit in "
           "$XDG_CACHE_HOME or ~/.cache; FXCC_CACHE= keeps none. What was not used for longest goes when there is more than 1 GiB."};

int cmd_cache(int argc, char **argv)
{
    arguments a = {0};
    const char *command = argv[0];
    char path[4096];
    fx_jit_cache_info info;

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    int rc = fx_jit_cache(ctx, a.folder, a.clear, &info, path, sizeof path) != FX_OK;
    struct stat st;
    if (!rc && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        rc = complain(command, "%s: expected a folder", path);
    if (!rc)
        printf("%s: %llu compiled model%s, %.1f MB%s\n", path, (unsigned long long)info.entries, info.entries == 1 ? "" : "s", (double)info.bytes / 1e6,
               a.clear ? ", removed" : "");
    report(command, ctx, false);
    fx_context_free(ctx);
    return rc;
}
