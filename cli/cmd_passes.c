/* cli/cmd_passes.c: fxcc passes: the passes of lowering, in their order.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>

#include "cli/cli.h"

static const struct argp argp = {
    .doc = "Lists the passes of lowering in the order they run: what each works on (the graph, or the loop program it becomes), and what it does."};

int cmd_passes(int argc, char **argv)
{
    if (argp_parse(&argp, argc, argv, 0, NULL, NULL))
        return 1;
    for (size_t i = 0; fx_pass_get(i); i++)
        printf("%-14s %-8s %s\n", fx_pass_get(i)->name, fx_pass_get(i)->over, fx_pass_get(i)->doc);
    return 0;
}
