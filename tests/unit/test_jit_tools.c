/* What debuggers and profilers are told of code in memory: gdb's list, perf's map, the lines of the listing; and object files that are damaged.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fxcc/jit.h"
#include "ir/ops.h"
#include "jit/elf.h"
#include "jit/tools.h"
#include "tests/unit/unit.h"

/* As gdb's manual has it. */
struct code_entry {
    struct code_entry *next, *before;
    const char *object;
    uint64_t size;
};
extern struct {
    uint32_t version, action;
    struct code_entry *relevant, *first;
} __jit_debug_descriptor;

static const char text[] = "graph \"two layers\" imported\n\n%x : f32[300, 40] = placeholder[x]\n%a : f32[300, 40] = call_function[aten.exp.default](%x)\n"
                           "%b : f32[300] = call_function[aten.sum.dim_IntList](%a, [1])\n%c : f32[300] = call_function[aten.sqrt.default](%b)\noutput((%a, %c,))\n";

static fx_context *ctx;
static char folder[64];

static void setup(void)
{
    ctx = fx_context_create();
    strcpy(folder, "/tmp/fxcc-tools-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/two_layers.prog", folder);
    unlink(path);
    rmdir(folder);
    fx_context_free(ctx);
}

static fx_graph *graph(void)
{
    fx_graph *g = unit_parse(ctx, text);
    ck_assert_int_eq(fx_graph_complete(g), FX_OK);
    return g;
}

static fx_function *compiled(const fx_jit_options *o)
{
    fx_function *f;
    ck_assert_int_eq(fx_jit_compile(graph(), o, &f), FX_OK);
    return f;
}

static size_t n_entries(void)
{
    size_t n = 0;
    const struct code_entry *before = NULL;
    for (const struct code_entry *e = __jit_debug_descriptor.first; e; before = e, e = e->next, n++)
        ck_assert_ptr_eq(e->before, before);
    return n;
}

START_TEST(debuggers_list_what_lives)
{
    fx_jit_options o = {.debug = folder}, plain = {.debug = "", .cache = ""};
    ck_assert_uint_eq(__jit_debug_descriptor.version, 1);
    fx_function *a = compiled(&o);
    ck_assert_uint_eq(n_entries(), 1);
    fx_function *b = compiled(&o), *c = compiled(&o), *none = compiled(&plain);
    ck_assert_uint_eq(n_entries(), 3);
    fx_function_free(b);
    ck_assert_uint_eq(n_entries(), 2);
    fx_function_free(c);
    fx_function_free(none);
    ck_assert_uint_eq(n_entries(), 1);
    ck_assert_uint_eq(__jit_debug_descriptor.action, 0);
    /* what it lists is an object with the code's place in it */
    const struct code_entry *e = __jit_debug_descriptor.first;
    char *copy = malloc(e->size);
    memcpy(copy, e->object, e->size);
    fx_elf elf;
    ck_assert(fx_elf_read(copy, e->size, &elf));
    const Elf64_Sym *run = fx_elf_function(&elf, "fxjit_run");
    ck_assert_ptr_nonnull(run);
    ck_assert_uint_ne(elf.sections[run->st_shndx].sh_addr, 0);
    free(copy);
    fx_function_free(a);
    ck_assert_ptr_null(__jit_debug_descriptor.first);
}
END_TEST

/* Debuggers show what a line says: in LLVM's text each step begins at its line. */
START_TEST(lines_are_those_of_the_listing)
{
    char path[128], *line = NULL, wanted[128];
    size_t size, room = 0;
    const char *ir;
    fx_jit_options o = {.debug = folder};
    ck_assert_int_eq(fx_jit_emit(graph(), &o, FX_JIT_LLVM_IR, &ir, &size), FX_OK);
    snprintf(path, sizeof path, "%s/two_layers.prog", folder);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    int number = 0, steps = 0, stores = 0;
    while (getline(&line, &room, f) > 0) {
        number++;
        char *title = strncmp(line, "step ", 5) == 0 ? strchr(line, '"') : NULL, *end = title ? strstr(title, ": ") : NULL;
        if (end) {
            snprintf(wanted, sizeof wanted, "DISubprogram(name: \"%.*s\"", (int)(end - title - 1), title + 1);
            const char *at = strstr(ir, wanted);
            ck_assert_msg(at != NULL, "no %s", wanted);
            snprintf(wanted, sizeof wanted, ", line: %d,", number);
            ck_assert_msg(strstr(at, wanted) && strstr(at, wanted) < strchr(at, '\n'), "%.*s: expected line %d", (int)strcspn(at, "\n"), at, number);
            steps++;
        }
        if (strstr(line, "] = ")) { /* some instruction is of each store */
            snprintf(wanted, sizeof wanted, "DILocation(line: %d,", number);
            ck_assert_msg(strstr(ir, wanted) != NULL, "nothing is of line %d: %s", number, line);
            stores++;
        }
    }
    ck_assert_int_ge(steps, 1);
    ck_assert_int_ge(stores, 2);
    free(line);
    fclose(f);
}
END_TEST

START_TEST(perf_map_grows)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    unlink(path);
    fx_jit_options o = {.perf = true, .cache = ""};
    fx_function *a = compiled(&o);
    struct stat first, both;
    ck_assert_int_eq(stat(path, &first), 0);
    fx_function *b = compiled(&o);
    ck_assert_int_eq(stat(path, &both), 0);
    ck_assert_int_gt(first.st_size, 0);
    ck_assert_int_gt(both.st_size, first.st_size);
    FILE *f = fopen(path, "r");
    unsigned long long start, length, runs[8];
    size_t n_runs = 0, n = 0;
    for (char name[200]; fgets(line, sizeof line, f); n++) {
        ck_assert_msg(sscanf(line, "%llx %llx %199s", &start, &length, name) == 3, "%s", line);
        ck_assert(length > 0 && length < 1 << 20 && start > 4096);
        ck_assert_msg(strncmp(name, "two_layers.", 11) == 0, "%s", line);
        if (strcmp(name, "two_layers.fxjit_run") == 0 && n_runs < 8)
            runs[n_runs++] = start;
    }
    fclose(f);
    ck_assert_uint_eq(n_runs, 2); /* two pieces of code, in two places */
    ck_assert_uint_ne(runs[0], runs[1]);
    ck_assert_uint_gt(n, 4);
    fx_function_free(a);
    fx_function_free(b);
    unlink(path);
}
END_TEST

/* An entry of the cache is checked before it comes here, yet nothing is trusted: each byte changed, each length. */
START_TEST(damaged_objects_are_refused_or_read_within)
{
    const char *data;
    size_t size, refused = 0;
    ck_assert_int_eq(fx_jit_emit(graph(), NULL, FX_JIT_OBJECT, &data, &size), FX_OK);
    for (size_t i = 0; i < 2 * size; i++) {
        size_t n = i < size ? size : i - size;
        unsigned char *copy = malloc(n + 1);
        memcpy(copy, data, n);
        if (i < size)
            copy[i] ^= 0xff;
        fx_gdb_code *code = fx_gdb_add(copy, n, "fxjit_run", 0x10000);
        refused += !code;
        fx_gdb_remove(code);
        free(copy);
    }
    ck_assert_uint_ge(refused, size); /* at the least those cut off */
    ck_assert_ptr_null(fx_gdb_add(data, size, "no_such_function", 0x10000));
    ck_assert(!fx_perf_add(data, size, "no_such_function", 0x10000, "m"));
    ck_assert_ptr_null(__jit_debug_descriptor.first);
}
END_TEST

START_TEST(names_that_objects_cannot_have)
{
    static const char *const bad[] = {"", "a b", "1x", "expf", "int", "fxrt_x", "fxjit_parallel"};
    const char *data;
    size_t size;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fx_jit_options o = {.name = bad[i]};
        ck_assert_int_eq(fx_jit_emit(graph(), &o, FX_JIT_ASM, &data, &size), FX_ERR_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(fx_diag_get(ctx, i)->message, "expected an identifier of C"));
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, debuggers_list_what_lives);
    tcase_add_test(t, lines_are_those_of_the_listing);
    tcase_add_test(t, perf_map_grows);
    tcase_add_test(t, damaged_objects_are_refused_or_read_within);
    tcase_add_test(t, names_that_objects_cannot_have);
}

int main(void)
{
#ifdef FXCC_HAS_JIT
    return unit_run("jit_tools", 300, setup, teardown, add_tests);
#else
    (void)setup;
    (void)teardown;
    (void)add_tests;
    puts("skipped: built without LLVM's headers, so nothing is compiled in memory");
    return 0;
#endif
}
