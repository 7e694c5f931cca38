/* tests/fuzz/unit.c: many cases as emitted C in one translation unit: compiled as a shared object, run in a child process on memory
 * that ends where pages do, outputs compared here.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "tests/fuzz/fuzz.h"

/* What the unit's table holds. sizes: values of the symbols; bytes: of the inputs, then of the outputs. */
typedef struct entry {
    size_t (*arena_size)(const int64_t *sizes);
    int (*run)(const int64_t *sizes, void **in, void *const *out, void *arena, size_t arena_size, const size_t *bytes);
} entry;

/* A run: a case, or one at another size, by the entry of the case. */
typedef struct one_run {
    size_t entry;
    const fx_program *program;
    const fz_case *c;
} one_run;

/* What the child says of a case: a status of the emitted code, whose own of steps begin at FIRST_REASON, or one of these. */
enum { NOT_RUN = -1, FIRST_REASON = 16, INPUT_CHANGED = 1000, TIMEOUT = 30 };
typedef struct said {
    volatile int status;
    size_t at;                   /* of its outputs in the shared memory */
} said;

/* ---- sources -------------------------------------------------------------------------------------------------------------------- */

static bool write_text(const char *folder, const char *name, const char *data, size_t size)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(data, 1, size, f) == size;
    return (f && fclose(f) == 0) && good;
}

typedef struct emit_args {
    fz_case *c;
    const fz_build *b;
    const char *folder, *prefix;
} emit_args;

static fx_status emit(void *arg)
{
    emit_args *a = arg;
    size_t n;
    fx_file *files;
    fx_emit_options o = {.prefix = a->prefix, .weights = FX_WEIGHTS_C, .link_runtime = a->b->link_runtime, .shared = true};
    if (a->b->cuda)
        o.weights = FX_WEIGHTS_BIN;
    FX_TRY((a->b->cuda ? fx_emit_cuda : fx_emit_c)(a->c->program, &o, &n, &files));
    for (size_t i = 0; i < n; i++) {
        const char *dot = strrchr(files[i].name, '.');
        bool needed = dot && (!strcmp(dot, ".c") || !strcmp(dot, ".h") || !strcmp(dot, ".cu") || !strcmp(dot, ".bin"));
        if (needed && !write_text(a->folder, files[i].name, fx_file_data(a->c->program->arena, &files[i]), files[i].size))
            return fx_fail(a->c->ctx, FX_ERR_IO, NULL, "cannot write %s/%s", a->folder, files[i].name);
    }
    return FX_OK;
}

/* The same for CUDA, with cuda_unit.h around a run. */
static bool write_cuda_unit(const char *folder, size_t n, fz_case *const *cases, const int *which)
{
    char path[600];
    snprintf(path, sizeof path, "%s/unit.cu", folder);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    for (size_t i = 0; i < n; i++)
        fprintf(f, "#include \"g%d.cu\"\n", which[i]);
    fprintf(f, "#define FOLDER \"%s\"\n#include \"tests/fuzz/cuda_unit.h\"\n", folder);
    for (size_t i = 0; i < n; i++) {
        int k = which[i];
        const fx_program *p = cases[i]->program;
        bool symbols = p->n_symbols > 0, weights = false;
        for (size_t w = 0; w < p->n_bufs; w++)
            weights |= p->bufs[w].kind == FX_BUF_WEIGHT && !fx_dim_is(p->bufs[w].numel, 0);
        fprintf(f, "static int run_%d(const int64_t *sizes, void **in, void *const *out, void *, size_t, const size_t *bytes)\n{\n", k);
        fprintf(f, "    g%d_context *ctx = nullptr;\n    g%d_config config = {};\n", k, k);
        if (weights)
            fprintf(f, "    config.weights_file = FOLDER \"/g%d.bin\";\n", k);
        if (symbols)
            fprintf(f, "    g%d_dims dims;\n    memcpy(&dims, sizes, sizeof dims);\n    config.most = &dims;\n", k);
        else
            fputs("    (void)sizes;\n", f);
        fprintf(f, "    const unit_memory memory(%zu, %zu, in, out, bytes);\n    unit_schedule(%d);\n    int status = g%d_create(&ctx, &config);\n", p->n_inputs, p->n_outputs, k, k);
        fprintf(f, "    if (status == 0)\n        status = g%d_run_v(ctx, %smemory.in, memory.out, nullptr);\n", k, symbols ? "&dims, " : "");
        fprintf(f, "    if (status == 0)\n        status = g%d_wait(ctx, nullptr);\n    g%d_destroy(ctx);\n    return status;\n}\n", k, k);
    }
    fputs("extern \"C\" const entry entries[] = {\n", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "    {unit_no_arena, run_%d},\n", which[i]);
    fputs("};\n", f);
    return fclose(f) == 0;
}

/* The unit: all files one after another, and a table. */
static bool write_unit(const char *folder, size_t n, fz_case *const *cases, const int *which)
{
    char path[600];
    snprintf(path, sizeof path, "%s/unit.c", folder);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fputs("#include <stddef.h>\n", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "#include \"g%d.c\"\n#include \"g%d_weights.c\"\n", which[i], which[i]);
    for (size_t i = 0; i < n; i++) {
        int k = which[i];
        bool symbols = cases[i]->program->n_symbols > 0;
        if (symbols)
            fprintf(f, "static size_t size_%d(const int64_t *sizes)\n{\n    g%d_dims dims;\n    memcpy(&dims, sizes, sizeof dims);\n"
                    "    return g%d_arena_size(&dims);\n}\n", k, k, k);
        else
            fprintf(f, "static size_t size_%d(const int64_t *sizes)\n{\n    (void)sizes;\n    return G%d_ARENA_SIZE;\n}\n", k, k);
        fprintf(f, "static int run_%d(const int64_t *sizes, void **in, void *const *out, void *arena, size_t arena_size, const size_t *bytes)\n{\n"
                "    g%d_context ctx;\n    (void)bytes;\n", k, k);
        bool state = cases[i]->program->n_states > 0;
        if (state)
            fprintf(f, "    static G%d_ALIGNED g%d_state_t state;\n", k, k);
        fprintf(f, "    int status = g%d_init(&ctx, g%d_weights, sizeof g%d_weights, arena, arena_size%s);\n", k, k, k, state ? ", &state, sizeof state" : "");
        if (state)
            fprintf(f, "    status = status ? status : g%d_state_init(&ctx);\n", k);
        if (symbols)
            fprintf(f, "    g%d_dims dims;\n    memcpy(&dims, sizes, sizeof dims);\n    return status ? status : g%d_run_v(&ctx, &dims, (void *)in, out);\n}\n", k, k);
        else
            fprintf(f, "    (void)sizes;\n    return status ? status : g%d_run_v(&ctx, (void *)in, out);\n}\n", k);
    }
    fputs("typedef struct entry {\n    size_t (*arena_size)(const int64_t *sizes);\n"
          "    int (*run)(const int64_t *sizes, void **in, void *const *out, void *arena, size_t arena_size, const size_t *bytes);\n} entry;\n"
          "extern const entry entries[];\nconst entry entries[] = {\n", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "    {size_%d, run_%d},\n", which[i], which[i]);
    fputs("};\n", f);
    return fclose(f) == 0;
}

/* Functions of libm are called: of constants compilers compute them by themselves, rounded otherwise than libm does. */
#define CALLED(f) "-fno-builtin-" #f " -fno-builtin-" #f "f "
#define LIBM                                                                                                                       \
    CALLED(exp) CALLED(exp2) CALLED(expm1) CALLED(log) CALLED(log2) CALLED(log10) CALLED(log1p) CALLED(pow) CALLED(hypot) CALLED(sin) \
    CALLED(cos) CALLED(tan) CALLED(asin) CALLED(acos) CALLED(atan) CALLED(atan2) CALLED(sinh) CALLED(cosh) CALLED(tanh) CALLED(asinh) \
    CALLED(acosh) CALLED(atanh) CALLED(erf) CALLED(erfc) CALLED(lgamma)

static bool compile(const char *folder, const fz_build *b, const char *cflags)
{
    char command[5000];
    const char *runtime = b->link_runtime ? FXCC_LIBFXRT : "";
    if (b->cuda) {
        snprintf(command, sizeof command, "cd %s && %s -x c++ -std=c++17 -ffp-contract=off -Wall -Wextra -Werror " LIBM "%s -shared -fPIC -I%s -I%s/runtime/cuda/host unit.cu -x none %s"
                 " -o unit.so -ldl -lm -pthread >log.txt 2>&1", folder, b->compiler, b->level, FXCC_SOURCE_DIR, FXCC_SOURCE_DIR, b->cuda);
        return system(command) == 0;
    }
    snprintf(command, sizeof command, "cd %s && %s -std=c99 -pedantic -Wall -Wextra -Werror " LIBM "%s %s -shared -fPIC -I%s/include unit.c %s -o unit.so -lm %s"
             ">log.txt 2>&1", folder, b->compiler, b->level, cflags ? cflags : "", FXCC_SOURCE_DIR, runtime, b->link_runtime ? "-lgomp " : "");
    return system(command) == 0;
}

/* The first line of the log that says error. */
static void read_log(const char *folder, char *text, size_t size)
{
    char path[600], line[500];
    snprintf(path, sizeof path, "%s/log.txt", folder);
    FILE *f = fopen(path, "r");
    snprintf(text, size, "the compiler failed");
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, "error")) {
            line[strcspn(line, "\n")] = 0;
            snprintf(text, size, "%s", line);
            break;
        }
    if (f)
        fclose(f);
}

/* ---- running ---------------------------------------------------------------------------------------------------------------------- */

/* Memory whose last byte is the last of a page, with a page behind it that nobody may touch. */
static unsigned char *guarded(size_t size, size_t align)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size + align + page - 1) / page * page;
    unsigned char *p = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + whole, page, PROT_NONE) != 0)
        _exit(3);
    return p + whole - (size + align - 1) / align * align;
}

static size_t tensor_bytes(const fx_tensor *t)
{
    return (size_t)fx_tensor_numel(t) * fx_dtype_size(t->dtype);
}

static bool changes(const fz_case *c, size_t input)
{
    for (size_t k = 0; k < c->n_changed; k++)
        if (c->changed[k] == input)
            return true;
    return false;
}

static void run_entry(const entry *e, const fx_program *p, const fz_case *c, said *s, unsigned char *results)
{
    void *in[FZ_MAX_INPUTS];
    void *out[FZ_MAX_OUTPUTS];
    for (size_t i = 0; i < c->n_in; i++) {
        size_t bytes = tensor_bytes(&c->in[i]);
        in[i] = memcpy(guarded(bytes, fx_dtype_size(c->in[i].dtype)), c->in[i].data, bytes);
    }
    for (size_t i = 0; i < c->n_out; i++) {
        size_t bytes = tensor_bytes(&c->out[i]);
        out[i] = memset(guarded(bytes, fx_dtype_size(c->out[i].dtype)), 0xa5, bytes);
    }
    int64_t sizes[FZ_MAX_SYMBOLS] = {0};
    for (size_t i = 0; i < p->n_symbols; i++) /* "s0", "s1" */
        sizes[i] = c->sizes.value[p->symbols[i].name[1] - '0'];
    size_t bytes[FZ_MAX_INPUTS + FZ_MAX_OUTPUTS];
    for (size_t i = 0; i < c->n_in + c->n_out; i++)
        bytes[i] = tensor_bytes(i < c->n_in ? &c->in[i] : &c->out[i - c->n_in]);
    size_t arena_size = e->arena_size(sizes);
    void *arena = memset(guarded(arena_size, 64), 0xff, arena_size);
    int status = e->run(sizes, in, out, arena, arena_size, bytes);
    for (size_t i = 0; i < c->n_in; i++)
        if (!changes(c, i) && memcmp(in[i], c->in[i].data, tensor_bytes(&c->in[i])) != 0)
            status = INPUT_CHANGED + (int)i;
    size_t at = s->at;
    for (size_t i = 0; i < c->n_out + c->n_changed; i++) {
        memcpy(results + at, i < c->n_out ? out[i] : in[c->changed[i - c->n_out]], tensor_bytes(&c->out[i]));
        at += (tensor_bytes(&c->out[i]) + 63) / 64 * 64;
    }
    s->status = status;
}

/* Runs from `first` on in a child; the one it did not survive, n when it did all. *how: its wait status. */
static size_t run_child(const char *folder, size_t first, size_t n, const one_run *runs, said *say, unsigned char *results, int *how)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char path[600];
        snprintf(path, sizeof path, "%s/unit.so", folder);
        void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        const entry *entries = lib ? dlsym(lib, "entries") : NULL;
        if (!entries) {
            fprintf(stderr, "%s\n", dlerror());
            _exit(2);
        }
        for (size_t i = first; i < n; i++) {
            alarm(TIMEOUT);
            run_entry(&entries[runs[i].entry], runs[i].program, runs[i].c, &say[i], results);
        }
        _exit(0);
    }
    *how = -1;
    if (child < 0 || waitpid(child, how, 0) != child)
        return first;
    if (WIFEXITED(*how) && WEXITSTATUS(*how) == 0)
        return n;
    for (size_t i = first; i < n; i++)
        if (say[i].status == NOT_RUN)
            return i;
    return n;
}

static void judge(const fz_case *c, const said *s, unsigned char *results, fz_tally *tally, fz_failure *f)
{
    char text[300], size[80];
    fz_sizes_text(c, size, sizeof size);
    if (s->status >= INPUT_CHANGED) {
        fz_fail(f, FZ_EMITTED, NULL, "%sinput %d was written", size, s->status - INPUT_CHANGED);
        return;
    }
    if (c->refuses) {
        if (s->status < FIRST_REASON)
            fz_fail(f, FZ_EMITTED, NULL, "%sa wrong number for %s is not refused: status %d", size, c->refuses, s->status);
        return;
    }
    if (s->status != 0) {
        fz_fail(f, FZ_EMITTED, NULL, "%sstatus %d", size, s->status);
        return;
    }
    size_t at = s->at;
    for (size_t i = 0; i < c->n_out + c->n_changed; i++) {
        fx_tensor got = c->out[i];
        int64_t stride = 1;
        for (int d = got.rank - 1; d >= 0; d--) {
            got.strides[d] = stride;
            stride *= got.sizes[d];
        }
        got.data = results + at;
        at += (tensor_bytes(&got) + 63) / 64 * 64;
        if (!fz_compare(c, i, &got, tally, text, sizeof text)) {
            fz_fail(f, FZ_EMITTED, NULL, "%s%s", size, text);
            snprintf(f->kind, sizeof f->kind, "values");
            return;
        }
        if (c->jitted && !fz_same_bits(&c->jitted[i], &got, text, sizeof text)) {
            fz_fail(f, FZ_EMITTED, NULL, "%soutput %zu is not what it is in memory: %s", size, i, text);
            snprintf(f->kind, sizeof f->kind, "other bits than the JIT");
            return;
        }
    }
}

/* f[i]: what became of case i, the first failure of its runs. */
static void run_all(const char *folder, size_t n_cases, fz_case *const *cases, fz_tally *tally, fz_failure *const *f)
{
    size_t total = 64, n = 0;
    one_run *runs = malloc(n_cases * FZ_MAX_RUNS * sizeof *runs + 1);
    for (size_t i = 0; i < n_cases; i++) {
        fz_case *these[FZ_MAX_RUNS];
        int count = fz_runs(cases[i], these);
        for (int k = 0; k < count; k++)
            runs[n++] = (one_run){i, cases[i]->program, these[k]};
    }
    said *say = mmap(NULL, n * sizeof *say, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((void *)say == MAP_FAILED)
        abort();
    for (size_t i = 0; i < n; i++) {
        say[i].status = NOT_RUN;
        say[i].at = total;
        for (size_t k = 0; k < runs[i].c->n_out + runs[i].c->n_changed; k++)
            total += (tensor_bytes(&runs[i].c->out[k]) + 63) / 64 * 64;
    }
    unsigned char *results = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED)
        abort();
    for (size_t first = 0; first < n;) {
        int how;
        size_t dead = run_child(folder, first, n, runs, say, results, &how);
        for (size_t i = first; i < dead; i++)
            if (f[runs[i].entry]->stage == FZ_OK)
                judge(runs[i].c, &say[i], results, tally, f[runs[i].entry]);
        if (dead < n)
            fz_fail(f[runs[dead].entry], FZ_EMITTED, NULL, WIFSIGNALED(how) ? "killed by signal %d" : "ended with status %d",
                    WIFSIGNALED(how) ? WTERMSIG(how) : how);
        first = dead + 1;
    }
    munmap(results, total);
    munmap(say, n * sizeof *say);
    free(runs);
}

/* ---- a unit ------------------------------------------------------------------------------------------------------------------------ */

/* Compiles cases that are written; of a unit that does not compile the halves, down to those at fault. */
static void build_and_run(const char *folder, const fz_build *b, size_t n, fz_case **cases, int *which, fz_tally *tally, fz_failure **f)
{
    if (!n)
        return;
    if ((b->cuda ? write_cuda_unit : write_unit)(folder, n, cases, which) && compile(folder, b, cases[0]->program->target.cflags)) {
        run_all(folder, n, cases, tally, f);
    } else if (n == 1) {
        char text[600];
        read_log(folder, text, sizeof text);
        const char *what = strstr(text, "error");
        fz_fail(f[0], FZ_COMPILE, NULL, "%s: %s", b->compiler, what ? what : text);
    } else {
        build_and_run(folder, b, n / 2, cases, which, tally, f);
        build_and_run(folder, b, n - n / 2, cases + n / 2, which + n / 2, tally, f + n / 2);
    }
}

void fz_unit_run(const char *folder, const fz_build *b, size_t n, fz_case *const *cases, fz_tally *tally, fz_failure *f)
{
    fz_case **ready = malloc((n + 1) * sizeof *ready);
    fz_failure **where = malloc((n + 1) * sizeof *where);
    int *which = malloc((n + 1) * sizeof *which);
    size_t k = 0;
    mkdir(folder, 0777);
    for (size_t i = 0; i < n; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "g%zu", i);
        emit_args a = {cases[i], b, folder, prefix};
        f[i] = (fz_failure){.stage = FZ_OK};
        if (fx_protect(cases[i]->ctx, emit, &a) != FX_OK) {
            fz_fail(&f[i], FZ_CODEGEN, cases[i]->ctx, "%s", "");
            continue;
        }
        ready[k] = cases[i];
        where[k] = &f[i];
        which[k++] = (int)i;
    }
    build_and_run(folder, b, k, ready, which, tally, where);
    free(ready);
    free(where);
    free(which);
}
