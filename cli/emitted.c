/* cli/emitted.c: emits a model's C, builds it as a shared object and runs it, in a process of its own: what it does wrong
 * must not take us along.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

/* Knows the sizes that only the emitted header tells. Compiled along with the emitted file. */
static const char shim[] =
    "#include <stdlib.h>\n"
    "#include \"net.h\"\n"
    "const char *fxcc_check_run(const void *weights, size_t size, const int64_t *const *shapes, const void *const *in, void *const *out);\n"
    "const char *fxcc_check_run(const void *weights, size_t size, const int64_t *const *shapes, const void *const *in, void *const *out)\n"
    "{\n"
    "    static net_context context;\n"
    "#ifdef NET_DIMS\n"
    "    net_dims dims;\n"
    "    const int fits = net_dims_of(&dims, shapes);\n"
    "    const size_t arena_size = net_arena_size(&dims);\n"
    "    if (fits != NET_OK)\n"
    "        return net_status_string(fits);\n"
    "#else\n"
    "    const size_t arena_size = NET_ARENA_SIZE;\n"
    "    (void)shapes;\n"
    "#endif\n"
    "    char *block = malloc(arena_size + NET_ARENA_ALIGN);\n"
    "    char *arena = block ? block + (NET_ARENA_ALIGN - (size_t)block % NET_ARENA_ALIGN) % NET_ARENA_ALIGN : 0;\n"
    "    int status;\n"
    "    if (!arena)\n"
    "        return \"out of memory\";\n"
    "    status = net_init(&context, weights, size, arena, arena_size);\n"
    "    if (status == NET_OK)\n"
    "#ifdef NET_DIMS\n"
    "        status = net_run_v(&context, &dims, in, out);\n"
    "#else\n"
    "        status = net_run_v(&context, in, out);\n"
    "#endif\n"
    "    free(block);\n"
    "    return status == NET_OK ? 0 : net_status_string(status);\n"
    "}\n";

enum { MAX_WORDS = 64 };

/* Splits text at blanks and appends the words to argv. */
static void add_words(char **argv, int *argc, char *text)
{
    for (char *word = strtok(text, " \t\n"); word && *argc < MAX_WORDS; word = strtok(NULL, " \t\n"))
        argv[(*argc)++] = word;
}

static int build(const char *command, fx_context *ctx, const fx_compile_options *options, const char *dir)
{
    const char *cc = getenv("CC"), *cflags = getenv("CFLAGS");
    fx_target_info target;
    char *argv[MAX_WORDS + 16], cc_words[1024], flags[1024], user_flags[1024];
    char *shim_c = path_join(dir, "shim.c"), *net_c = path_join(dir, "net.c"), *so = path_join(dir, "net.so");
    char *log = path_join(dir, "log");
    int argc = 0, rc = 1;

    if (!shim_c || !net_c || !so || !log) {
        complain(command, "out of memory");
        goto done;
    }
    if (fx_target_describe(ctx, options->target ? options->target : "native", &target) != FX_OK || write_text(command, shim_c, shim, sizeof shim - 1))
        goto done;
    snprintf(cc_words, sizeof cc_words, "%s", cc && *cc ? cc : "cc");
    snprintf(flags, sizeof flags, "%s", target.cflags ? target.cflags : "");
    snprintf(user_flags, sizeof user_flags, "%s", cflags ? cflags : "-O2");
    add_words(argv, &argc, cc_words);
    add_words(argv, &argc, flags);
    add_words(argv, &argc, user_flags);
    char *const rest[] = {"-std=c99", "-fPIC", "-shared", "-o", so, net_c, shim_c, "-lm", NULL};
    memcpy(argv + argc, rest, sizeof rest);
    int status = run_program(argv, log);
    if (status != 0) {
        size_t size;
        char *text = read_text(log, &size);
        complain(command, "expected '%s' to compile the emitted C, it failed with status %d:\n%s", cc && *cc ? cc : "cc", status, text ? text : "");
        free(text);
        goto done;
    }
    rc = 0;
done:
    free(shim_c);
    free(net_c);
    free(so);
    free(log);
    return rc;
}

/* In the child: loads and runs. Outputs lie in memory shared with the parent. */
static int run_here(const char *command, const char *so, const void *weights, size_t size, const int64_t *const *shapes, const void *const *in,
                    void *const *out)
{
    void *library = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "fxcc_check_run") : NULL;
    const char *(*run)(const void *, size_t, const int64_t *const *, const void *const *, void *const *);

    if (!symbol)
        return complain(command, "expected to load the built code: %s", dlerror());
    memcpy(&run, &symbol, sizeof run);
    const char *error = run(weights, size, shapes, in, out);
    return error ? complain(command, "the emitted code refused to run: %s", error) : 0;
}

/* The file at an address that emitted code takes: a multiple of 64. For the caller to free. */
static char *read_weights(const char *path, size_t *size)
{
    char *text = read_text(path, size);
    char *aligned = text ? aligned_alloc(64, (*size + 63) / 64 * 64) : NULL;

    if (aligned)
        memcpy(aligned, text, *size);
    free(text);
    return aligned;
}

int run_emitted(const char *command, fx_context *ctx, fx_graph *graph, const fx_compile_options *options, const char *dir,
                const fx_tensor *inputs, size_t *n_outputs, fx_tensor **outputs)
{
    fx_compile_options o = *options;
    size_t n_in = fx_graph_input_count(graph), n_out = fx_graph_output_count(graph), bytes = 64, size = 0;
    const void **in = calloc(n_in + 1, sizeof *in);
    const int64_t **shapes = calloc(n_in + 1, sizeof *shapes);
    void **out = calloc(n_out + 1, sizeof *out);
    fx_tensor *results = calloc(n_out + 1, sizeof *results);
    char *so = path_join(dir, "net.so"), *bin = path_join(dir, "net.bin"), *weights = NULL, *shared = MAP_FAILED;
    int rc = 1;

    if (!in || !shapes || !out || !results || !so || !bin) {
        complain(command, "out of memory");
        goto done;
    }
    o.prefix = "net";
    o.weights = FX_WEIGHTS_IN_BIN;
    if (fx_compile(graph, &o, dir, NULL) != FX_OK || build(command, ctx, &o, dir))
        goto done;
    weights = read_weights(bin, &size);
    if (!weights) {
        complain(command, "%s: expected the emitted weights here", bin);
        goto done;
    }
    for (size_t i = 0; i < n_in; i++)
        in[i] = inputs[i].data;
    for (size_t i = 0; i < n_in; i++)
        shapes[i] = inputs[i].sizes;
    if (fx_graph_shapes_for(graph, n_in, inputs, results) != FX_OK)
        goto done;
    for (size_t i = 0; i < n_out; i++) {
        bytes += ((size_t)fx_tensor_numel(&results[i]) * fx_dtype_size(results[i].dtype) + 63) / 64 * 64;
    }
    shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        complain(command, "out of memory");
        goto done;
    }
    size_t at = 0;
    for (size_t i = 0; i < n_out; i++) {
        out[i] = shared + at;
        at += ((size_t)fx_tensor_numel(&results[i]) * fx_dtype_size(results[i].dtype) + 63) / 64 * 64;
    }
    progress_end(); /* its thread does not survive a fork */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_here(command, so, weights, size, shapes, in, out));
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        complain(command, "expected to run the built code: %s", strerror(errno));
        goto done;
    }
    if (WIFSIGNALED(status))
        complain(command, "the emitted code was stopped by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        goto done;
    for (size_t i = 0; i < n_out; i++) {
        fx_tensor fresh;
        if (fx_tensor_create(ctx, results[i].dtype, results[i].rank, results[i].sizes, &fresh) != FX_OK)
            goto done;
        memcpy(fresh.data, out[i], (size_t)fx_tensor_numel(&fresh) * fx_dtype_size(fresh.dtype));
        results[i] = fresh;
    }
    *n_outputs = n_out;
    *outputs = results;
    results = NULL;
    rc = 0;
done:
    if (shared != MAP_FAILED)
        munmap(shared, bytes);
    free(weights);
    free(in);
    free(shapes);
    free(out);
    free(results);
    free(so);
    free(bin);
    return rc;
}
