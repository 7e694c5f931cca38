/* cli/cmd_target.c: fxcc target: what a target is, for build systems.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "cli/cli.h"

enum { KEY_CFLAGS = 0x100 };

typedef struct arguments {
    const char *target;
    bool cflags;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    switch (key) {
    case KEY_CFLAGS: a->cflags = true; return 0;
    case ARGP_KEY_ARG: return one_argument(state, &a->target, arg, "target");
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {{"cflags", KEY_CFLAGS, NULL, 0, "print only the compiler flags that emitted code needs", 0}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[TARGET]",
    .doc = "Tells what a target (generic, x86_64-avx2, x86_64-avx512, native, aarch64, cortex-m4, cuda, cuda-sm_75 ... cuda-sm_120, or a file of 'key = value' lines) stands for; "
           "without one, this machine."};

int cmd_target(int argc, char **argv)
{
    arguments a = {0};
    const char *command = argv[0];
    fx_target_info info;

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    fx_status status = fx_target_describe(ctx, a.target ? a.target : "native", &info);
    report(command, ctx, false);
    if (status == FX_OK && a.cflags)
        printf("%s\n", info.cflags ? info.cflags : "");
    else if (status == FX_OK)
        printf("%s: %d f32 lanes, kernels %s, flags %s\n", info.name, info.lanes, info.isa ? info.isa : "", info.cflags ? info.cflags : "");
    fx_context_free(ctx);
    return status != FX_OK;
}
