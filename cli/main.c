/* cli/main.c: the command fxcc: finds the subcommand and hands over.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *full_name, *doc;
} commands[] = {
    {"compile", cmd_compile, "fxcc compile", "a model to C sources"},
    {"show", cmd_show, "fxcc show", "a model as a table, as text or as a picture"},
    {"opt", cmd_opt, "fxcc opt", "run passes over a model's graph: a model to a model"},
    {"run", cmd_run, "fxcc run", "run a model: compiled in memory, as C, or interpreted"},
    {"check", cmd_check, "fxcc check", "compare interpreter, emitted C and JIT with a reference"},
    {"bench", cmd_bench, "fxcc bench", "time interpreter, emitted C and JIT: compile, first call, calls"},
    {"watch", cmd_watch, "fxcc watch", "recompile and rerun a model when its file changes; tell what changed"},
    {"prove", cmd_prove, "fxcc prove", "prove a model's loops: bounds, races, kernels' preconditions, memory"},
    {"report", cmd_report, "fxcc report", "a table of what models cost as compiled"},
    {"passes", cmd_passes, "fxcc passes", "list the passes over graphs and those of lowering"},
    {"cache", cmd_cache, "fxcc cache", "the compiled code that is kept: where, how much"},
    {"target", cmd_target, "fxcc target", "tell what a target stands for"},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void help(FILE *f)
{
    fprintf(f, "Usage: fxcc COMMAND [OPTION...]\nCompiles saved PyTorch models (torch.export .pt2) to C.\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].doc);
    fprintf(f, "\n  --help     this text; 'fxcc COMMAND --help' tells the options of a command\n  --version  the version\n");
}

/* The exit status rc, or 1 with a message where standard output could not take all that was printed (a full disk). */
static int written(const char *command, int rc)
{
    bool failed = ferror(stdout);

    if (fflush(stdout) != 0 || failed)
        rc = complain(command, "expected to write to standard output: %s", errno ? strerror(errno) : "it failed");
    return rc;
}

int main(int argc, char **argv)
{
    argp_err_exit_status = 1; /* usage errors exit 1 like any other */
    if (argc < 2) {
        help(stderr);
        return 1;
    }
    const char *word = argv[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        help(stdout);
        return written("fxcc", 0);
    }
    if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
        printf("fxcc %s\n", FXCC_VERSION);
        return written("fxcc", 0);
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(word, commands[i].name)) {
            argv[1] = (char *)commands[i].full_name;
            return written(commands[i].full_name, commands[i].run(argc - 1, argv + 1));
        }
    return complain("fxcc", "expected a command (compile, show, opt, run, check, bench, watch, prove, report, passes, cache, target), got '%s'; see 'fxcc --help'", word);
}
