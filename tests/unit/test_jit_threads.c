/* tests/unit/test_jit_threads.c: eight threads compile and call at once; one function from eight threads; functions freed while others compile;
 * children of fork; what compiling and freeing leaves behind. The preset `tsan` builds this file alone, under ThreadSanitizer.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/fixture.h"
#include "tests/unit/jit.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#ifdef SANITIZED
enum { TIMES = 3, CALLS = 50 };
#else
enum { TIMES = 12, CALLS = 400 };
#endif
enum { THREADS = 8 };

#if defined(__SANITIZE_THREAD__)
/* libLLVM is not built with ThreadSanitizer, which so does not see the atomics that order what LLVM does (its ManagedStatic). It calls none of our
 * functions while it compiles, so nothing of ours hides behind this. Functions here run on one thread each: libgomp is not built so either. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:libLLVM\n";
}
#endif

static void on_threads(void *(*run)(void *), void *arg)
{
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, run, arg), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        ck_assert_int_eq(pthread_join(t[i], &wrong), 0);
        ck_assert_msg(wrong == NULL, "%s", (const char *)wrong);
    }
}

/* Check's assertions are for its own thread: others say what is wrong. */
static void *compile_and_call(void *arg)
{
    for (int k = 0; k < TIMES; k++) {
        fx_context *c = fx_context_create();
        fx_graph *g = NULL;
        fx_function *f = NULL;
        const char *text = k % 2 ? JIT_SMALL : JIT_OPEN;
        const fx_jit_options o = {.cache = arg, .threads = 1};
        if (fx_graph_parse(c, "case.fx", text, strlen(text), &g) != FX_OK || fx_graph_complete(g) != FX_OK || fx_jit_compile(g, &o, &f) != FX_OK)
            return "cannot be compiled";
        float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, y[4] = {0, 0.5, 0, 0}, z[12], s[3];
        fx_tensor in[2] = {{.dtype = FX_F32, .rank = 2, .sizes = {3, 4}, .strides = {4, 1}, .data = x}, {.dtype = FX_F32, .rank = 1, .sizes = {4}, .strides = {1}, .data = y}};
        fx_tensor out[2] = {{.dtype = FX_F32, .rank = 2, .sizes = {3, 4}, .strides = {4, 1}, .data = z}, {.dtype = FX_F32, .rank = 1, .sizes = {3}, .strides = {1}, .data = s}};
        for (int i = 0; i < 5; i++)
            if (fx_function_call(f, 2, in, k % 2 ? 1 : 2, out, NULL, 0) != FX_OK)
                return "a call fails";
        if (k % 2 ? fabsf(z[5] - expf(3)) > 1e-4f * expf(3) || z[0] != 1 : s[0] != 1 || s[2] != 5)
            return "a call gives something else";
        fx_function_free(f);
        fx_context_free(c);
    }
    return NULL;
}

START_TEST(eight_compile_and_call)
{
    char folder[] = "/tmp/fxcc-threads-XXXXXX", command[80];
    ck_assert(mkdtemp(folder) != NULL);
    on_threads(compile_and_call, "");
    on_threads(compile_and_call, folder);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* ---- one function ------------------------------------------------------------------------------------------------------------- */

static void *call_shared(void *arg)
{
    fx_function *f = arg;
    float x[64 * 3], w[3] = {1, 2, 3}, y[64 * 3], z[64];
    for (int k = 0; k < CALLS; k++) {
        int64_t rows = 1 + k * 7 % 64;
        for (int64_t i = 0; i < rows * 3; i++)
            x[i] = (float)(i % 5);
        fx_tensor in[2] = {{.dtype = FX_F32, .rank = 2, .sizes = {rows, 3}, .strides = {3, 1}, .data = x}, {.dtype = FX_F32, .rank = 1, .sizes = {3}, .strides = {1}, .data = w}}, out[2];
        uint64_t arena, weights;
        char error[200] = "";
        fx_function_memory(f, &arena, &weights);
        if (fx_function_outputs(f, 2, in, 2, out, error, sizeof error) != FX_OK)
            return "outputs";
        out[0].data = y;
        out[1].data = z;
        if (fx_function_call(f, 2, in, 2, out, error, sizeof error) != FX_OK)
            return "a call fails";
        for (int64_t r = 0; r < rows; r++)
            if (z[r] != x[3 * r] + 2 * x[3 * r + 1] + 3 * x[3 * r + 2])
                return "a call gives something else";
        in[0].sizes[0] = 65; /* messages too */
        if (fx_function_call(f, 2, in, 2, out, error, sizeof error) != FX_ERR_ARGUMENT || !strstr(error, "got float32[65, 3]"))
            return "another message";
    }
    return NULL;
}

START_TEST(one_function_from_eight)
{
    fx_function *f = jit_compile(unit_parse(ctx, JIT_OPEN), &(fx_jit_options){.cache = "", .threads = 1});
    on_threads(call_shared, f);
    fx_function_free(f);
}
END_TEST

#define COUNTER \
    "graph \"c\" imported\nbuffer n : f32[64] = all 0\n\n%x : f32[64] = placeholder[x]\n%n : f32[64] = get_attr[n]\n" \
    "%a : f32[64] = call_function[aten.add_.Tensor](%n, %x)\n%y : f32[64] = call_function[aten.mul.Tensor](%a, 1)\noutput((%y,))\n"

static void *count_up(void *arg)
{
    float x[64], y[64], last = 0;
    for (int i = 0; i < 64; i++)
        x[i] = 1;
    const fx_tensor in = {.dtype = FX_F32, .rank = 1, .sizes = {64}, .strides = {1}, .data = x};
    fx_tensor out = in;
    out.data = y;
    for (int k = 0; k < CALLS; k++) {
        if (fx_function_call(arg, 1, &in, 1, &out, NULL, 0) != FX_OK)
            return "a call fails";
        for (int i = 1; i < 64; i++)
            if (y[i] != y[0])
                return "calls of a function with state run into one another";
        if (y[0] <= last)
            return "a call did not see the one before";
        last = y[0];
    }
    return NULL;
}

START_TEST(state_from_eight)
{
    fx_function *f = jit_compile(unit_parse(ctx, COUNTER), &(fx_jit_options){.cache = "", .threads = 1});
    fx_tensor kept;
    on_threads(count_up, f);
    ck_assert(fx_function_state(f, 0, &kept) && ((float *)kept.data)[63] == THREADS * CALLS);
    fx_function_free(f);
}
END_TEST

/* ---- freeing elsewhere ------------------------------------------------------------------------------------------------------------ */

static void *free_it(void *f)
{
    fx_function_free(f);
    return NULL;
}

/* Functions of a context are freed in another thread while it compiles on. */
START_TEST(freed_while_the_context_is_used)
{
    fx_graph *g = unit_parse(ctx, JIT_CONV);
    pthread_t t;
    bool running = false;
    for (int k = 0; k < 2 * TIMES; k++) {
        fx_function *f = jit_compile(g, &(fx_jit_options){.cache = "", .threads = 1});
        if (running)
            pthread_join(t, NULL);
        running = pthread_create(&t, NULL, free_it, f) == 0;
        ck_assert(running);
    }
    pthread_join(t, NULL);
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* it cannot follow a process with threads through fork */

/* ---- fork --------------------------------------------------------------------------------------------------------------------------- */

/* 0 when the child ends well within a minute. */
static int child_of(int (*run)(fx_graph *, fx_function *), fx_graph *g, fx_function *f)
{
    pid_t pid = fork();
    ck_assert(pid >= 0);
    if (pid == 0) {
        signal(SIGALRM, SIG_DFL); /* Check's would end all of us */
        alarm(60);
        _exit(run(g, f));
    }
    int status;
    ck_assert(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int call_wide(fx_function *f, int seed)
{
    static float x[64 * 4096], z[64 * 4096];
    const fx_tensor in = {.dtype = FX_F32, .rank = 2, .sizes = {64, 4096}, .strides = {4096, 1}, .data = x};
    fx_tensor out = in;
    out.data = z;
    for (int i = 0; i < 64 * 4096; i++)
        x[i] = (float)((i * 31 + seed) % 257 - 128) / 64;
    if (fx_function_call(f, 1, &in, 1, &out, NULL, 0) != FX_OK)
        return 1;
    for (int i = 0; i < 64 * 4096; i += 101)
        if (fabsf(z[i] - expf(tanhf(x[i]))) > 1e-4f)
            return 2;
    return 0;
}

static int call_in_child(fx_graph *g, fx_function *f)
{
    (void)g;
    return call_wide(f, 7) ? 1 : call_wide(f, 8);
}

static int compile_in_child(fx_graph *g, fx_function *f)
{
    fx_function *own = NULL;
    if (fx_jit_compile(g, &(fx_jit_options){.cache = "", .threads = 4}, &own) != FX_OK || call_wide(own, 3) || call_wide(f, 4))
        return 1;
    fx_function_free(own);
    fx_function_free(f);
    return 0;
}

static void *call_on_thread(void *f)
{
    return (void *)(intptr_t)call_wide(f, 5);
}

static int call_on_threads_of_child(fx_graph *g, fx_function *f)
{
    pthread_t t;
    void *result;
    (void)g;
    return pthread_create(&t, NULL, call_on_thread, f) || pthread_join(t, &result) || result;
}

static int grandchild(fx_graph *g, fx_function *f)
{
    return call_wide(f, 2) || child_of(compile_in_child, g, f);
}

START_TEST(functions_in_children)
{
    setenv("OMP_NUM_THREADS", "4", 1);
    fx_graph *g = unit_parse(ctx, JIT_WIDE);
    fx_function *f = jit_compile(g, &(fx_jit_options){.cache = "", .threads = 4});
    ck_assert_int_eq(child_of(call_in_child, g, f), 0); /* no loop has run yet */
    ck_assert_int_eq(call_wide(f, 1), 0);
    ck_assert_int_eq(child_of(call_in_child, g, f), 0);
    ck_assert_int_eq(child_of(compile_in_child, g, f), 0);
    ck_assert_int_eq(child_of(call_on_threads_of_child, g, f), 0);
    ck_assert_int_eq(child_of(grandchild, g, f), 0);
    ck_assert_int_eq(call_wide(f, 1), 0); /* and here as before */
    fx_function_free(f);
}
END_TEST

#endif

#ifndef SANITIZED /* which keep what was freed for a while */

/* ---- many ------------------------------------------------------------------------------------------------------------------------------ */

static long resident(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert(f && fscanf(f, "%*s %ld", &pages) == 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Compiles, calls and frees; from the cache, or truly. */
static void cycle(fx_graph *g, const char *cache)
{
    static float x[12], y[4], z[12];
    const fx_tensor in[2] = {{.dtype = FX_F32, .rank = 2, .sizes = {3, 4}, .strides = {4, 1}, .data = x}, {.dtype = FX_F32, .rank = 1, .sizes = {4}, .strides = {1}, .data = y}},
                    out = {.dtype = FX_F32, .rank = 2, .sizes = {3, 4}, .strides = {4, 1}, .data = z};
    fx_function *f = NULL;
    ck_assert_msg(fx_jit_compile(g, &(fx_jit_options){.cache = cache, .threads = 1}, &f) == FX_OK, "%s", unit_diag(g->ctx));
    jit_call(f, 2, in, &out);
    fx_function_free(f);
    fx_diag_clear(g->ctx);
}

static void stays_flat(const char *cache, int warm, int times, bool fresh)
{
    fx_graph *g = unit_parse(ctx, JIT_SMALL);
    long before = 0;
    for (int k = 0; k < warm + times; k++) {
        fx_context *c = fresh ? fx_context_create() : ctx;
        cycle(fresh ? unit_parse(c, JIT_SMALL) : g, cache);
        if (fresh)
            fx_context_free(c);
        if (k == warm)
            before = resident();
    }
    long grown = resident() - before;
    ck_assert_msg(grown < 4096, "%d cycles: %ld kB more than after %d", times, grown, warm);
}

START_TEST(ten_thousand_functions)
{
    char folder[] = "/tmp/fxcc-many-XXXXXX", command[80];
    ck_assert(mkdtemp(folder) != NULL);
    const char *full = getenv("FXCC_FULL_TESTS");
    bool all = full && *full;
    stays_flat(folder, 300, all ? 10000 : 1500, false);
    stays_flat(folder, 300, all ? 10000 : 500, true);
    stays_flat("", 50, all ? 1000 : 200, false);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

#endif

static void add(TCase *t)
{
    tcase_add_test(t, eight_compile_and_call);
    tcase_add_test(t, one_function_from_eight);
    tcase_add_test(t, state_from_eight);
    tcase_add_test(t, freed_while_the_context_is_used);
#ifndef __SANITIZE_THREAD__
    tcase_add_test(t, functions_in_children);
#endif
#ifndef SANITIZED
    tcase_add_test(t, ten_thousand_functions);
#endif
}

int main(void)
{
    return unit_run("jit_threads", 900, set_up, tear_down, add);
}
