/* jit/symbols.c: what compiled code calls: kernels of libfxrt, functions of scalar expressions, parallel loops.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#if defined(_OPENMP)
#include <omp.h>
#endif
#include <pthread.h>
#include <stdbool.h>

#define FXRT_FMA 1 /* of what is taken from here nothing rounds otherwise */
#include "runtime/math.h"
#include "runtime/math64.h"
#include "runtime/half.h"
#include "runtime/int.h"
#include "runtime/philox.h"
#include "runtime/scalars.def"

#include "codegen/llvm.h"
#include "jit/code.h"
#include "jit/run.h"

/* The range in as many parts as there are threads, one call each, as OpenMP's static schedule splits it: the first ones are larger by one when it
 * does not come out even. Inside a parallel region all is the calling thread's. */
static void parallel(fx_llvm_loop_fn *fn, void *env, int64_t extent)
{
#if defined(_OPENMP)
    int most = omp_in_parallel() ? 1 : omp_get_max_threads();
    if (most > extent)
        most = (int)extent;
    if (most > 1) {
#pragma omp parallel num_threads(most)
        {
            const int64_t n = omp_get_num_threads(), i = omp_get_thread_num(), each = extent / n, more = extent % n;
            const int64_t begin = i * each + (i < more ? i : more), end = begin + each + (i < more);
            if (begin < end)
                fn(env, begin, end);
        }
        return;
    }
#endif
    fn(env, 0, extent);
}

#if defined(_OPENMP)
/* The threads that libgomp keeps for a thread do not survive a fork, but it would wait for them: what the forking thread calls in the child
 * runs on it alone. Threads that the child starts have threads of their own. */
static _Thread_local bool forked;
static pthread_once_t watching = PTHREAD_ONCE_INIT;

static void note_fork(void)
{
    forked = true;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, note_fork);
}
#endif

/* Kernels and parallel loops ask OpenMP how many threads there shall be, which is a setting of the thread that calls. */
int32_t fx_code_with_threads(int threads, fx_llvm_run_fn *run, void *const *io, const void *const *weights, unsigned char *arena,
                             unsigned char *state, const int64_t *symbols)
{
#if defined(_OPENMP)
    pthread_once(&watching, watch_forks);
    const int before = omp_get_max_threads(), most = forked ? 1 : threads;
    const bool fewer = most > 0 && most < before;
    if (fewer)
        omp_set_num_threads(most);
    const int32_t status = run(io, weights, arena, state, symbols);
    if (fewer)
        omp_set_num_threads(before);
    return status;
#else
    (void)threads;
    return run(io, weights, arena, state, symbols);
#endif
}

/* ---- libfxrt's, by instruction set ---------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define ISAS(X, k) X(generic, k) X(avx2, k) X(avx512, k)
#define VECTOR_ISAS(X, k) X(avx2, k) X(avx512, k)
#elif defined(__aarch64__)
#define ISAS(X, k) X(generic, k) X(neon, k)
#define VECTOR_ISAS(X, k) X(neon, k)
#else
#define ISAS(X, k) X(generic, k)
#define VECTOR_ISAS(X, k)
#endif
#define ALL_SCALARS(X) FXRT_SCALARS_1(X) FXRT_SCALARS_2(X) FXRT_SCALARS_3(X)

/* Only their addresses matter here. */
#define DECLARE(isa, name) void fxrt_##isa##_##name(void);
#define KERNEL(id, ...) ISAS(DECLARE, id)
#define GPU_KERNEL(...)
#include "ir/kernel.def"
#undef KERNEL
#define DECLARE_SCALAR(f) ISAS(DECLARE, s_##f) VECTOR_ISAS(DECLARE, v_##f)
ALL_SCALARS(DECLARE_SCALAR)

/* What copies of kernels call (runtime/isa.h). */
#define PARTS(X) X(conv2d_half) X(conv2d_rest) X(gemm_panel) X(act_apply)
#define DECLARE_PART(f) ISAS(DECLARE, part_##f)
PARTS(DECLARE_PART)

#define ENTRY(isa, name) {"fxrt_" #isa "_" #name, (void *)(uintptr_t)fxrt_##isa##_##name},
#define SCALAR_ENTRY(f) ISAS(ENTRY, s_##f) VECTOR_ISAS(ENTRY, v_##f)
#define PART_ENTRY(f) ISAS(ENTRY, part_##f)
#define OWN(name) {#name, (void *)(uintptr_t)name},
static const fx_code_symbol symbols[] = {
#define KERNEL(id, ...) ISAS(ENTRY, id)
#define GPU_KERNEL(...)
#include "ir/kernel.def"
#undef KERNEL
    ALL_SCALARS(SCALAR_ENTRY)
    PARTS(PART_ENTRY)
    {FX_LLVM_PARALLEL, (void *)(uintptr_t)parallel},
    OWN(fxrt_floor_div_f64) OWN(fxrt_remainder_f64) OWN(fxrt_elu_f64) OWN(fxrt_sigmoid_f64) OWN(fxrt_silu_f64) OWN(fxrt_hardswish_f64)
    OWN(fxrt_hardsigmoid_f64) OWN(fxrt_gelu_f64) OWN(fxrt_gelu_tanh_f64) OWN(fxrt_softplus_f64) OWN(fxrt_mish_f64)
    OWN(fxrt_pow_i32) OWN(fxrt_pow_i64) OWN(fxrt_from_f16) OWN(fxrt_to_f16) OWN(fxrt_philox)
};

const fx_code_symbol *fx_code_symbols(size_t *n)
{
    *n = sizeof symbols / sizeof symbols[0];
    return symbols;
}
