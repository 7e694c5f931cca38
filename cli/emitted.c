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
    "#ifdef NET_DIMS\n"
    "static net_dims dims;\n"
    "#define SIZES &dims,\n"
    "#else\n"
    "#define SIZES\n"
    "#endif\n"
    "#ifdef NET_STATE_SIZE\n"
    "static NET_ALIGNED net_state_t kept;\n"
    "#define STATE , &kept, sizeof kept\n"
    "#else\n"
    "#define STATE\n"
    "#endif\n"
    "static net_context context;\n"
    "const char *fxcc_check_init(const void *weights, size_t size, const int64_t *const *shapes, void **state);\n"
    "const char *fxcc_check_run(void *const *in, void *const *out);\n"
    "const char *fxcc_check_init(const void *weights, size_t size, const int64_t *const *shapes, void **state)\n"
    "{\n"
    "#ifdef NET_DIMS\n"
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
    "    status = net_init(&context, weights, size, arena, arena_size STATE);\n"
    "    *state = 0;\n"
    "#ifdef NET_STATE_SIZE\n"
    "    *state = &kept;\n"
    "    if (status == NET_OK)\n"
    "        status = net_state_init(&context);\n"
    "#endif\n"
    "    return status == NET_OK ? 0 : net_status_string(status);\n"
    "}\n"
    "const char *fxcc_check_run(void *const *in, void *const *out)\n"
    "{\n"
    "    const int status = net_run_v(&context, SIZES (void *)in, out);\n"
    "    return status == NET_OK ? 0 : net_status_string(status);\n"
    "}\n";

enum { MAX_WORDS = 64 };

/* Splits text at blanks and appends the words to argv. */
static void add_words(char **argv, int *argc, char *text)
{
    for (char *word = strtok(text, " \t\n"); word && *argc < MAX_WORDS; word = strtok(NULL, " \t\n"))
        argv[(*argc)++] = word;
}

/* plain: flags where $CFLAGS names none */
static int build(const char *command, fx_context *ctx, const fx_compile_options *options, const char *dir, const char *plain)
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
    snprintf(user_flags, sizeof user_flags, "%s", cflags ? cflags : plain);
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

/* What a child process runs, and what comes back: for each call, the outputs, then the inputs and buffers it changed. */
typedef struct job {
    const char *so;
    const void *weights;
    size_t weights_size;
    size_t n_in, n_out, n_changes, calls;
    const int64_t **shapes;
    void **in;                   /* of those that change, memory of our own */
    const fx_written *changes;
    fx_tensor *results;          /* of one call, n_out + n_changes: their types */
    void **at;                   /* of all calls, in memory shared with the parent */
    long runs;                   /* to time; 0: as many as a second holds */
    double *times;               /* shared: of the first call, how many were run then, and theirs; NULL: not timed */
} job;

static size_t bytes_of(const fx_tensor *t)
{
    return (size_t)fx_tensor_numel(t) * fx_dtype_size(t->dtype);
}

static size_t room_of(const fx_tensor *t)
{
    return (bytes_of(t) + 63) / 64 * 64;
}

/* In the child: loads and runs. */
static int run_here(const char *command, const job *j)
{
    void *library = dlopen(j->so, RTLD_NOW | RTLD_LOCAL);
    void *init_symbol = library ? dlsym(library, "fxcc_check_init") : NULL, *run_symbol = library ? dlsym(library, "fxcc_check_run") : NULL, *state;
    const char *(*init)(const void *, size_t, const int64_t *const *, void **), *(*run)(void *const *, void *const *);

    if (!init_symbol || !run_symbol)
        return complain(command, "expected to load the built code: %s", dlerror());
    memcpy(&init, &init_symbol, sizeof init);
    memcpy(&run, &run_symbol, sizeof run);
    const char *error = init(j->weights, j->weights_size, j->shapes, &state);
    for (size_t c = 0; c < j->calls && !error; c++) {
        void **at = j->at + c * (j->n_out + j->n_changes);
        const char *kept = state; /* the members of the state in order, each at a multiple of 64 bytes */
        double begin = seconds_now();
        error = run(j->in, at);
        if (j->times && c == 0)
            j->times[0] = seconds_now() - begin;
        for (size_t i = 0; i < j->n_changes && !error; i++) {
            const fx_tensor *t = &j->results[j->n_out + i];
            memcpy(at[j->n_out + i], j->changes[i].buffer ? kept : j->in[j->changes[i].input], bytes_of(t));
            kept += j->changes[i].buffer ? room_of(t) : 0;
        }
    }
    if (j->times && !error) {
        double begin = seconds_now();
        error = run(j->in, j->at);
        long n = runs_to_time(j->runs, seconds_now() - begin);
        for (long c = 0; c < n && !error; c++) {
            begin = seconds_now();
            error = run(j->in, j->at);
            j->times[2 + c] = seconds_now() - begin;
        }
        j->times[1] = (double)n;
    }
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
                const fx_tensor *inputs, size_t calls, size_t *n_results, fx_tensor **results, emitted_times *times)
{
    fx_compile_options o = *options;
    fx_compile_result compiled = {0};
    job j = {.n_in = fx_graph_input_count(graph), .n_out = fx_graph_output_count(graph), .calls = calls, .runs = times ? times->n : 0};
    if (fx_graph_written(graph, &j.n_changes, &j.changes) != FX_OK)
        return 1;
    size_t a_call = j.n_out + j.n_changes, total = calls * a_call, bytes = 64, timing = times ? ((size_t)runs_to_time(j.runs, 0) + 16) / 8 * 64 : 0;
    void **own = calloc(j.n_in + 1, sizeof *own);
    fx_tensor *all = calloc(total + 1, sizeof *all);
    char *so = path_join(dir, "net.so"), *bin = path_join(dir, "net.bin"), *weights = NULL, *shared = MAP_FAILED;
    int rc = 1;

    j.in = calloc(j.n_in + 1, sizeof *j.in);
    j.shapes = calloc(j.n_in + 1, sizeof *j.shapes);
    j.at = calloc(total + 1, sizeof *j.at);
    j.results = calloc(a_call + 1, sizeof *j.results);
    if (!own || !all || !j.in || !j.shapes || !j.at || !j.results || !so || !bin) {
        complain(command, "out of memory");
        goto done;
    }
    o.prefix = "net";
    o.weights = FX_WEIGHTS_IN_BIN;
    double begin = seconds_now();
    if (fx_compile(graph, &o, dir, &compiled) != FX_OK)
        goto done;
    double emitted = seconds_now();
    if (build(command, ctx, &o, dir, times ? "-O3 -fopenmp" : "-O2"))
        goto done;
    double built = seconds_now();
    weights = read_weights(bin, &j.weights_size);
    if (!weights) {
        complain(command, "%s: expected the emitted weights here", bin);
        goto done;
    }
    j.so = so;
    j.weights = weights;
    for (size_t i = 0; i < j.n_in; i++) {
        j.in[i] = inputs[i].data;
        j.shapes[i] = inputs[i].sizes;
    }
    if (call_types(graph, j.n_in, inputs, j.n_out, j.n_changes, j.changes, j.results) != FX_OK)
        goto done;
    for (size_t i = 0; i < j.n_changes; i++) {
        size_t k = j.changes[i].input, size = bytes_of(&j.results[j.n_out + i]);
        if (j.changes[i].buffer)
            continue;
        own[k] = malloc(size + 1);
        if (!own[k]) {
            complain(command, "out of memory");
            goto done;
        }
        memcpy(own[k], inputs[k].data, size);
        j.in[k] = own[k];
    }
    for (size_t i = 0; i < total; i++)
        bytes += room_of(&j.results[i % a_call]);
    bytes += timing;
    shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        complain(command, "out of memory");
        goto done;
    }
    j.times = times ? (double *)(void *)shared : NULL;
    for (size_t i = 0, at = timing; i < total; i++) {
        j.at[i] = shared + at;
        at += room_of(&j.results[i % a_call]);
    }
    progress_end(); /* its thread does not survive a fork */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_here(command, &j));
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        complain(command, "expected to run the built code: %s", strerror(errno));
        goto done;
    }
    if (WIFSIGNALED(status))
        complain(command, "the emitted code was stopped by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        goto done;
    for (size_t i = 0; i < total; i++)
        if (tensor_like(ctx, &j.results[i % a_call], j.at[i], &all[i]) != FX_OK)
            goto done;
    if (times) {
        times->emit = emitted - begin;
        times->build = built - emitted;
        times->first = j.times[0];
        times->n = (long)j.times[1];
        times->runs = malloc((size_t)times->n * sizeof *times->runs);
        if (!times->runs) {
            complain(command, "out of memory");
            goto done;
        }
        memcpy(times->runs, j.times + 2, (size_t)times->n * sizeof *times->runs);
        times->arena = compiled.arena_size;
        times->weights = compiled.weights_size;
    }
    *n_results = total;
    *results = all;
    all = NULL;
    rc = 0;
done:
    if (shared != MAP_FAILED)
        munmap(shared, bytes);
    for (size_t i = 0; own && i < j.n_in; i++)
        free(own[i]);
    free(own);
    free(weights);
    free(j.in);
    free(j.shapes);
    free(j.at);
    free(j.results);
    free(all);
    free(so);
    free(bin);
    return rc;
}
