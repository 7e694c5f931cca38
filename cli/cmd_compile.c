/* cli/cmd_compile.c: fxcc compile: a model to C sources, or to what LLVM makes of it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct arguments {
    fx_compile_options options;
    const char *model, *dir;     /* dir: or the file to write */
    const char *c_only;          /* an option that was given and has a meaning for C alone */
    const char *form;            /* of `forms`; NULL: C */
    int level;
    bool json, verbose;
} arguments;

/* What LLVM makes, by fx_jit_form. */
static const char *const forms[] = {"llvm-ir", "asm", "obj"};
enum { N_FORMS = sizeof forms / sizeof forms[0] };

enum { KEY_PREFIX = 0x100, KEY_WEIGHTS, KEY_LINK_RUNTIME, KEY_CHECK, KEY_GOLDEN, KEY_JSON, KEY_EMIT, KEY_ARCH, KEY_TF32 };

static fx_jit_form form_of(const arguments *a)
{
    size_t i = 0;
    while (i < N_FORMS - 1 && strcmp(forms[i], a->form))
        i++;
    return (fx_jit_form)i;
}

static void parse_form(struct argp_state *state, arguments *a, const char *arg)
{
    a->form = NULL;
    for (size_t i = 0; i < N_FORMS; i++)
        if (!strcmp(arg, forms[i]))
            a->form = forms[i];
    if (!a->form && strcmp(arg, "c"))
        argp_error(state, "expected --emit=c, llvm-ir, asm or obj, got '%s'", arg);
}

/* What LLVM makes is for this machine, and one file. */
static void check_form(struct argp_state *state, const arguments *a)
{
    const fx_compile_options *o = &a->options;
    const char *given = o->target ? "--target" : o->unproved_warn ? "--unproved" : o->stop_after ? "--stop-after" : o->dump_before ? "--dump-before"
                        : o->dump_after ? "--dump-after" : o->time_passes ? "--time-passes" : a->c_only;
    if (a->form && given)
        argp_error(state, "expected --emit=c with %s, got --emit=%s", given, a->form);
    if (!a->form && a->level)
        argp_error(state, "expected --emit=llvm-ir, asm or obj with -O: C is optimised by its compiler");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *a = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->child_inputs[1] = &a->options;
        return 0;
    case 'o':
        a->dir = arg;
        return 0;
    case 'v':
        a->verbose = true;
        return 0;
    case KEY_PREFIX:
        a->options.prefix = arg;
        return 0;
    case KEY_WEIGHTS:
        a->c_only = "--weights";
        if (!strcmp(arg, "c"))
            a->options.weights = FX_WEIGHTS_IN_C;
        else if (!strcmp(arg, "bin"))
            a->options.weights = FX_WEIGHTS_IN_BIN;
        else if (!strcmp(arg, "incbin"))
            a->options.weights = FX_WEIGHTS_IN_INCBIN;
        else
            argp_error(state, "expected --weights=c, bin or incbin, got '%s'", arg);
        return 0;
    case KEY_LINK_RUNTIME:
        a->c_only = "--link-runtime";
        a->options.link_runtime = true;
        return 0;
    case KEY_CHECK:
        a->c_only = "--check";
        a->options.check = true;
        return 0;
    case KEY_GOLDEN:
        a->c_only = "--golden";
        a->options.golden = arg;
        a->options.check = true;
        return 0;
    case KEY_JSON:
        a->c_only = "--json";
        a->json = true;
        return 0;
    case KEY_ARCH:
        a->c_only = "--arch";
        a->options.arch = arg;
        return 0;
    case KEY_TF32:
        a->c_only = "--allow-tf32";
        a->options.allow_tf32 = true;
        return 0;
    case KEY_EMIT:
        parse_form(state, a, arg);
        return 0;
    case 'O': return parse_level(state, arg, &a->level);
    case ARGP_KEY_ARG: return one_argument(state, &a->model, arg, "model");
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "expected a model to compile");
        if (!a->dir && !a->options.stop_after)
            argp_error(state, a->form ? "expected -o FILE, the file to write" : "expected -o DIR, the folder to write to");
        check_form(state, a);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"output", 'o', "DIR", 0, "folder to write to, made if missing", 0},
    {"emit", KEY_EMIT, "FORM", 0, "c (default); or what LLVM makes for this machine, into the file that -o names: llvm-ir (optimised), asm or obj", 0},
    {NULL, 'O', "LEVEL", 0, "how much LLVM optimises: 1 (default) to 3", 0},
    {"prefix", KEY_PREFIX, "NAME", 0, "prefix of all symbols and file names (default: from the model's name; of what LLVM makes: fxjit)", 0},
    {"weights", KEY_WEIGHTS, "FORM", 0,
     "c: as arrays in C (default up to 1 MB); bin: a file to load or map (default above); incbin: taken in by the assembler", 0},
    {"link-runtime", KEY_LINK_RUNTIME, NULL, 0, "call libfxrt instead of pasting its kernels into the file", 0},
    {"check", KEY_CHECK, NULL, 0, "also write NAME_check.c or .cu: golden vectors, computed by the reference interpreter", 0},
    {"golden", KEY_GOLDEN, "FILE.npz", 0, "take the golden vectors from a file: the inputs in order, then the outputs", 0},
    {"arch", KEY_ARCH, "LIST", 0, "of CUDA: what to build for, 80,90,120 say: code for each, PTX of the newest for later ones (default: the target's)", 0},
    {"allow-tf32", KEY_TF32, NULL, 0, "of CUDA: products of float32 may be rounded to TF32, which is faster", 0},
    {"json", KEY_JSON, NULL, 0, "print the sizes of what was emitted, and the flags to build it with, as JSON", 0},
    {"verbose", 'v', NULL, 0, "print remarks", 0},
    {0}};

static const struct argp_child children[] = {{&lowering_argp, 0, NULL, 0}, {&looking_argp, 0, "For those who look inside:", 2}, {0}};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "MODEL",
    .children = children,
    .doc = "Compiles a saved PyTorch model (.pt2 of torch.export.save, or .fx text) to standalone C: NAME.h, NAME.c, its weights, a "
           "Makefile and a CMakeLists.txt. Or, with --emit, to what LLVM makes of it."};

/* What LLVM makes of graph. 0, or 1 with a message. */
static int emit(const char *command, fx_graph *graph, const arguments *a)
{
    char name[256];
    const fx_compile_options *o = &a->options;
    fx_jit_options options = {.level = a->level, .threads = o->threads, .dims = o->dims, .n_dims = o->n_dims, .disable = o->disable, .name = name};
    const char *data;
    size_t size;
    if (snprintf(name, sizeof name, "%s_run", o->prefix ? o->prefix : "fxjit") >= (int)sizeof name)
        return complain(command, "expected a prefix of fewer than %zu characters", sizeof name - 4);
    if (fx_jit_emit(graph, &options, form_of(a), &data, &size) != FX_OK)
        return 1;
    return write_text(command, a->dir, data, size);
}

int cmd_compile(int argc, char **argv)
{
    arguments a = {0};
    fx_compile_result result = {0};
    fx_target_info target = {0};
    fx_graph *graph = NULL;
    const char *command = argv[0];

    fx_context *ctx = start(&argp, argc, argv, &a);
    if (!ctx)
        return 1;
    progress_begin("compiling");
    fx_status status = fx_load_model(ctx, a.model, &graph);
    if (status == FX_OK && a.form) {
        int rc = emit(command, graph, &a);
        report(command, ctx, a.verbose);
        fx_context_free(ctx);
        end_options(&a.options);
        return rc;
    }
    if (status == FX_OK)
        status = fx_compile(graph, &a.options, a.dir, &result);
    if (status == FX_OK)
        status = fx_target_describe(ctx, a.options.target ? a.options.target : "native", &target);
    report(command, ctx, a.verbose);
    if (status == FX_OK && a.json)
        printf("{\"target\": \"%s\", \"cflags\": \"%s\", \"arena_size\": %" PRIu64 ", \"live_size\": %" PRIu64 ", \"weights_size\": %" PRIu64
               ", \"source_size\": %" PRIu64 ", \"kernels\": %zu, \"loops\": %zu}\n",
               target.name, result.cflags ? result.cflags : "", result.arena_size, result.live_size, result.weights_size, result.source_size,
               result.kernels, result.loops);
    fx_context_free(ctx);
    end_options(&a.options);
    return status != FX_OK;
}
