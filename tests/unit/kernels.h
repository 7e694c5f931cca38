/* kernels.h: what the kernel tests share: variants by instruction set, guarded buffers, comparison.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_TEST_KERNELS_H
#define FXCC_TEST_KERNELS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fxcc/runtime.h"
#include "tests/unit/random.h"
#include "tests/unit/unit.h"

typedef void conv_fn(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y, float *ws);
typedef void weight_grad_fn(const fxrt_conv2d_desc *d, const float *x, const float *g, float *y);
typedef void gemm_fn(const fxrt_gemm_desc *d, const float *x, const float *w, const float *b, const float *r, float *y);
typedef void matmul_fn(const fxrt_gemm_desc *d, const float *x, const float *w, const float *b, const float *r, float *y, float *ws);
typedef void pool_fn(const fxrt_pool2d_desc *d, const float *x, float *y);
typedef void resize_fn(const fxrt_resize2d_desc *d, const float *x, float *y);
typedef void softmax_fn(const fxrt_softmax_desc *d, const float *x, float *y);
typedef void layer_norm_fn(const fxrt_layer_norm_desc *d, const float *x, const float *w, const float *b, float *y);
typedef void attention_fn(const fxrt_attention_desc *d, const float *q, const float *k, const float *v, const float *bias, const float *mask, float *o,
                          float *ws);
typedef void rms_norm_fn(const fxrt_layer_norm_desc *d, const float *x, const float *w, float *y);
typedef void group_norm_fn(const fxrt_group_norm_desc *d, const float *x, const float *w, const float *b, float *y);

#define KERNELS(X)                                                                                                      \
    X(conv_fn, conv2d) X(conv_fn, conv2d_dw) X(conv_fn, conv_transpose2d) X(weight_grad_fn, conv2d_weight_grad) X(gemm_fn, gemm) X(matmul_fn, matmul)         \
    X(pool_fn, max_pool2d) X(pool_fn, avg_pool2d) X(resize_fn, adaptive_avg_pool2d) X(resize_fn, adaptive_max_pool2d)   \
    X(resize_fn, upsample_nearest2d) X(resize_fn, upsample_bilinear2d) X(softmax_fn, softmax) X(softmax_fn, log_softmax) \
    X(layer_norm_fn, layer_norm) X(rms_norm_fn, rms_norm) X(group_norm_fn, group_norm) X(attention_fn, attention)

/* One instruction set's copy of all kernels. */
typedef struct variant {
    const char *name;
    fxrt_tile tile;
#define X(type, id) type *id;
    KERNELS(X)
#undef X
} variant;

#define DECLARE_GENERIC(type, id) extern type fxrt_generic_##id;
KERNELS(DECLARE_GENERIC)
#define FIELD_GENERIC(type, id) .id = fxrt_generic_##id,
#if defined(__x86_64__)
#define DECLARE_X86(type, id) extern type fxrt_avx2_##id, fxrt_avx512_##id;
KERNELS(DECLARE_X86)
#define FIELD_AVX2(type, id) .id = fxrt_avx2_##id,
#define FIELD_AVX512(type, id) .id = fxrt_avx512_##id,
#elif defined(__aarch64__)
#define DECLARE_NEON(type, id) extern type fxrt_neon_##id;
KERNELS(DECLARE_NEON)
#define FIELD_NEON(type, id) .id = fxrt_neon_##id,
#endif

static const variant variants[] = {
    { "generic", { 1, 4, 4 }, KERNELS(FIELD_GENERIC) },
#if defined(__x86_64__)
    { "avx2", { 8, 6, 16 }, KERNELS(FIELD_AVX2) },
    { "avx512", { 16, 12, 32 }, KERNELS(FIELD_AVX512) },
#elif defined(__aarch64__)
    { "neon", { 4, 8, 8 }, KERNELS(FIELD_NEON) },
#endif
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

static inline bool variant_runs_here(const variant *v)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (strcmp(v->name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(v->name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw");
#endif
    (void)v;
    return true;
}

/* ---- buffers between forbidden pages: a byte read or written past an end kills the test --------------------------- */

typedef struct guarded {
    float *p;
    size_t n;
    void *map;
    size_t map_size;
} guarded;

/* n floats that touch the forbidden page behind them or, now and then, the one before them. */
static inline guarded guarded_new(size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (n * sizeof(float) + page - 1) / page * page;
    guarded g = { .n = n, .map_size = body + 2 * page };
    g.map = mmap(NULL, g.map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(g.map != MAP_FAILED);
    char *at = (char *)g.map + page;
    ck_assert_int_eq(mprotect(g.map, page, PROT_NONE), 0);
    ck_assert_int_eq(mprotect(at + body, page, PROT_NONE), 0);
    g.p = (float *)(void *)(random_int(0, 3) == 0 ? at : at + body - n * sizeof(float));
    return g;
}
static inline void guarded_free(guarded *g)
{
    if (g->map)
        munmap(g->map, g->map_size);
    g->map = NULL;
}
static inline guarded guarded_random(size_t n)
{
    guarded g = guarded_new(n);
    for (size_t i = 0; i < n; i++)
        g.p[i] = random_float();
    return g;
}
static inline guarded guarded_nan(size_t n)
{
    guarded g = guarded_new(n);
    for (size_t i = 0; i < n; i++)
        g.p[i] = NAN;
    return g;
}

/* An expected output: values where written[i], all other elements must keep the NaN they started with. */
typedef struct expected {
    size_t n;
    double *value;
    bool *written;
} expected;
static inline expected expected_new(size_t n)
{
    expected e = { n, calloc(n + 1, sizeof(double)), calloc(n + 1, sizeof(bool)) };
    ck_assert(e.value && e.written);
    return e;
}
static inline void expected_set(expected *e, size_t at, double v)
{
    ck_assert_uint_lt(at, e->n);
    e->value[at] = v;
    e->written[at] = true;
}
static inline void expected_free(expected *e)
{
    free(e->value);
    free(e->written);
}
static inline void expected_check(const expected *e, const float *y, double tolerance, const char *what)
{
    for (size_t i = 0; i < e->n; i++) {
        if (!e->written[i]) {
            ck_assert_msg(isnan(y[i]), "%s: element %zu is not part of the output but holds %g", what, i, (double)y[i]);
        } else if (isnan(e->value[i])) {
            ck_assert_msg(isnan(y[i]), "%s: element %zu: expected NaN, got %g", what, i, (double)y[i]);
        } else {
            const double bound = tolerance * fmax(1, fabs(e->value[i]));
            ck_assert_msg(y[i] == e->value[i] || fabs(y[i] - e->value[i]) <= bound, "%s: element %zu: expected %.9g, got %.9g", what,
                          i, e->value[i], (double)y[i]);
        }
    }
}

/* Runs the suite of one file for every variant this machine can run: tests loop over [0, N_VARIANTS). */
static inline int run_kernel_tests(const char *name, int n, const TTest *const *tests)
{
    Suite *s = suite_create(name);
    TCase *c = tcase_create("variants");
    tcase_set_timeout(c, 300);
    for (int i = 0; i < n; i++)
        tcase_add_loop_test(c, tests[i], 0, N_VARIANTS);
    suite_add_tcase(s, c);
    return unit_finish(s);
}

#endif
