/* tests/unit/test_driver.c: compiling from file to files: all or nothing, the same bytes each time, whatever fails.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fxcc/compile.h"
#include "tests/unit/unit.h"

#define MODEL FXCC_SOURCE_DIR "/examples/digits/digits.pt2"

static fx_context *ctx;
static char top[64];

static void setup(void)
{
    ctx = fx_context_create();
    strcpy(top, "/tmp/fxcc-driver-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
}

static void teardown(void)
{
    char command[100];
    fx_context_free(ctx);
    snprintf(command, sizeof command, "rm -rf %s", top);
    if (system(command) != 0)
        perror(command);
}

static const char *path(const char *name)
{
    static char buf[32][300];
    static int at;
    at = (at + 1) % 32;
    snprintf(buf[at], sizeof buf[at], "%s/%s", top, name);
    return buf[at];
}

/* Entries of a folder without "." and ".."; -1 when it is not there. */
static int entries(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static fx_graph *digits(fx_context *c)
{
    fx_graph *g = NULL;
    ck_assert_int_eq(fx_load_model(c, MODEL, &g), FX_OK);
    return g;
}

static bool same_files(const char *a, const char *b)
{
    char command[700];
    snprintf(command, sizeof command, "diff -r %s %s >/dev/null", a, b);
    return system(command) == 0;
}

START_TEST(writes_all_files)
{
    fx_graph *g = digits(ctx);
    fx_compile_result r;
    fx_compile_options o = {.target = "generic", .prefix = "digits", .check = true};
    ck_assert_int_eq(fx_compile(g, &o, path("a/b/c"), &r), FX_OK);
    ck_assert_int_eq(entries(path("a/b/c")), 6); /* .h .c _weights.c _check.c Makefile CMakeLists.txt */
    static const char *const names[] = {"digits.h", "digits.c", "digits_weights.c", "digits_check.c", "Makefile", "CMakeLists.txt"};
    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq(access(path(fx_arena_printf(fx_context_arena(ctx), "a/b/c/%s", names[i])), R_OK), 0);
    ck_assert_uint_gt(r.arena_size, 0);
    ck_assert_uint_gt(r.weights_size, 1000);
    ck_assert_uint_gt(r.source_size, 5000);
    ck_assert_uint_lt(r.source_size, 200000);
    ck_assert_uint_ge(r.kernels, 5);
    ck_assert_uint_eq(r.arena_size % 64, 0);
    ck_assert_uint_ge(r.arena_size, r.live_size);

    /* Again, the graph being unchanged, and in another context: the same bytes. */
    ck_assert_int_eq(fx_compile(g, &o, path("again"), NULL), FX_OK);
    ck_assert(same_files(path("a/b/c"), path("again")));
    fx_context *other = fx_context_create();
    ck_assert_int_eq(fx_compile(digits(other), &o, path("other"), NULL), FX_OK);
    fx_context_free(other);
    ck_assert(same_files(path("a/b/c"), path("other")));

    /* Over what is there; a trailing slash does no harm. */
    o.weights = FX_WEIGHTS_IN_INCBIN;
    ck_assert_int_eq(fx_compile(g, &o, path("again/"), NULL), FX_OK);
    ck_assert_int_eq(entries(path("again")), 7);
}
END_TEST

START_TEST(failures_leave_nothing)
{
    fx_graph *g = digits(ctx);
    fx_compile_options o = {.target = "generic", .prefix = "digits"};

    /* a folder where a file should go */
    ck_assert_int_eq(mkdir(path("one"), 0777), 0);
    ck_assert_int_eq(mkdir(path("one/digits.h"), 0777), 0);
    ck_assert_int_eq(fx_compile(g, &o, path("one"), NULL), FX_ERR_IO);
    ck_assert_int_eq(entries(path("one")), 1);

    /* a file where the folder should be */
    FILE *f = fopen(path("file"), "w");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    ck_assert_int_eq(fx_compile(g, &o, path("file"), NULL), FX_ERR_IO);
    ck_assert_int_eq(fx_compile(g, &o, path("file/below"), NULL), FX_ERR_IO);
    ck_assert_int_eq(entries(path("new")), -1);

    o.prefix = "no-identifier";
    ck_assert_int_eq(fx_compile(g, &o, path("new"), NULL), FX_ERR_ARGUMENT);
    o.prefix = NULL;
    o.target = "z80";
    ck_assert_int_ne(fx_compile(g, &o, path("new"), NULL), FX_OK);
    o.target = "generic";
    o.golden = path("missing.npz");
    ck_assert_int_eq(fx_compile(g, &o, path("new"), NULL), FX_ERR_IO);
    ck_assert_int_eq(entries(path("new")), -1);
    ck_assert_uint_ge(fx_diag_count(ctx), 6);

    fx_graph *none = NULL;
    ck_assert_int_eq(fx_load_model(ctx, path("missing.pt2"), &none), FX_ERR_IO);
    ck_assert_ptr_null(none);
}
END_TEST

START_TEST(stops_after_a_pass)
{
    fx_graph *g = digits(ctx);
    fx_compile_options o = {.target = "generic", .stop_after = "decompose"};
    ck_assert_int_eq(fx_compile(g, &o, path("new"), NULL), FX_OK);
    o.stop_after = "memory";
    ck_assert_int_eq(fx_compile(g, &o, path("new"), NULL), FX_OK);
    ck_assert_int_eq(entries(path("new")), -1);
}
END_TEST

/* Golden vectors of a file; the built program finds them right, and wrong ones wrong. */
START_TEST(golden_vectors_from_npz)
{
    fx_graph *g = digits(ctx);
    int64_t sizes[4] = {1, 1, 8, 8};
    fx_tensor t[2], *out;
    size_t n_out;
    ck_assert_int_eq(fx_tensor_create(ctx, FX_F32, 4, sizes, &t[0]), FX_OK);
    for (int i = 0; i < 64; i++)
        ((float *)t[0].data)[i] = (float)(i % 17) / 16;
    ck_assert_int_eq(fx_graph_interpret(g, 1, t, &n_out, &out), FX_OK);
    ck_assert_uint_eq(n_out, 1);
    ck_assert_int_eq(fx_tensor_contiguous(ctx, &out[0], &t[1]), FX_OK);
    static const char *const names[] = {"x", "y"};
    ck_assert_int_eq(fx_npz_write(ctx, path("golden.npz"), 2, t, names), FX_OK);

    fx_compile_options o = {.target = "generic", .prefix = "digits", .golden = path("golden.npz")};
    char command[300];
    ck_assert_int_eq(fx_compile(g, &o, path("out"), NULL), FX_OK);
    snprintf(command, sizeof command, "cd %s && make -s CFLAGS=-O1 check >log 2>&1", path("out"));
    ck_assert_int_eq(system(command), 0);

    ((float *)t[1].data)[3] += 0.5f;
    ck_assert_int_eq(fx_npz_write(ctx, path("golden.npz"), 2, t, names), FX_OK);
    ck_assert_int_eq(fx_compile(g, &o, path("out"), NULL), FX_OK);
    ck_assert_int_ne(system(command), 0);

    ck_assert_int_eq(fx_npz_write(ctx, path("golden.npz"), 1, t, names), FX_OK);
    ck_assert_int_eq(fx_compile(g, &o, path("out"), NULL), FX_ERR_ARGUMENT);
}
END_TEST

/* Memory that runs out at the n-th request, for many n: a status, and no files. */
START_TEST(out_of_memory_unwinds)
{
    bool done = false;
    fx_compile_options o = {.target = "generic", .prefix = "digits", .check = true};
    for (long n = 1; !done; n += 1 + n / 8) {
        unit_memory m = {.fail_at = n, .for_good = true};
        fx_context *c = unit_context(&m);
        if (!c)
            continue;
        fx_graph *g = NULL;
        fx_status status = fx_load_model(c, MODEL, &g);
        if (status == FX_OK)
            status = fx_compile(g, &o, path("oom"), NULL);
        if (status == FX_OK) {
            done = true;
            ck_assert_int_eq(entries(path("oom")), 6);
        } else {
            ck_assert_int_eq(status, FX_ERR_NOMEM);
            ck_assert_int_eq(entries(path("oom")), -1);
        }
        fx_context_free(c);
        ck_assert_int_lt(n, 10000000);
    }
}
END_TEST

static void add_tests(TCase *t)
{
    tcase_add_test(t, writes_all_files);
    tcase_add_test(t, failures_leave_nothing);
    tcase_add_test(t, stops_after_a_pass);
    tcase_add_test(t, golden_vectors_from_npz);
    tcase_add_test(t, out_of_memory_unwinds);
}

int main(void)
{
    return unit_run("driver", 300, setup, teardown, add_tests);
}
