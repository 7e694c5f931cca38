/* Products of runtime/cuda/gemm.h against loops in double, over the random descriptors of the CPU kernels' test: each of its ways (cuBLASLt with all in
 * the epilogue, with a tail, the tile kernel), three types, the table of plans, TF32, capture, what fails.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "cuda_values.h"

#include <cublasLt.h>

#ifdef FXCU_HOST
#define __syncthreads() barrier(__FILE__, __LINE__)
#endif
#include "../../runtime/cuda/vec.h"

#include "../../runtime/cuda/act.h"
#include "../../runtime/cuda/gemm_tile.h"
#include "../../runtime/cuda/gemm.h"
#ifdef FXCU_HOST
#undef __syncthreads
#endif

enum { WORKSPACE = 1 << 16 };
enum { REFUSES_NOTHING, REFUSES_EPILOGUES, REFUSES_ALL };

static void refuse(int what) {
#ifdef FXCU_HOST
    fxcu_device device = fxcu_get_device();
    device.lt_refuses = what;
    fxcu_set_device(device);
#else
    (void)what;
#endif
}

struct products {
    fxrt_cuda_products p;
    buffer<char> ws;
    explicit products(int tf32 = 0) : ws(WORKSPACE) { CHECK_CUDA(fxrt_cuda_products_create(&p, WORKSPACE, tf32)); }
    products(const products &) = delete;
    products &operator=(const products &) = delete;
    ~products() { CHECK_CUDA(fxrt_cuda_products_destroy(&p)); }
    const fxrt_cuda_gemm_plan *only() const { /* the plan, where one was made */
        const fxrt_cuda_gemm_plan *found = nullptr;
        for (const fxrt_cuda_gemm_plan &plan : p.plans) {
            if (plan.used) {
                CHECK(found == nullptr);
                found = &plan;
            }
        }
        CHECK(found);
        return found;
    }
    int count() const {
        int n = 0;
        for (const fxrt_cuda_gemm_plan &plan : p.plans) {
            n += plan.used;
        }
        return n;
    }
};

static size_t window_size(int64_t batch, int64_t s_b, int64_t rows, int64_t s_m, int64_t n) {
    return batch > 0 && rows > 0 && n > 0 ? static_cast<size_t>((batch - 1) * s_b + (rows - 1) * s_m + n) : 0;
}

template <class T> struct operands {
    std::vector<T> x, w, b, r;
    bool bias, residual, in_place;
};

template <class T> static operands<T> draw_operands(const fxrt_gemm_desc &d, bool bias, bool residual, bool in_place) {
    operands<T> o;
    o.x = nothing<T>(window_size(d.batch, d.x_b, d.m, d.x_m, d.k));
    for (int i = 0; i < d.batch; i++) {
        for (int row = 0; row < d.m; row++) {
            for (int p = 0; p < d.k; p++) {
                o.x[static_cast<size_t>(i * d.x_b + row * d.x_m + p)] = static_cast<T>(random_float() / sqrtf(static_cast<float>(d.k)));
            }
        }
    }
    const bool all = d.batch > 0 && d.k > 0 && d.n > 0;
    o.w = random_values<T>(all ? static_cast<size_t>((d.batch - 1) * d.w_b + (d.k - 1) * d.w_k + (d.n - 1) * d.w_n + 1) : 0, 1.0f);
    o.b = random_values<T>(static_cast<size_t>(d.n), 1.0f);
    o.r = random_values<T>(window_size(d.batch, d.r_b, d.m, d.r_m, d.n), 1.0f);
    o.bias = bias;
    o.residual = residual;
    o.in_place = in_place;
    return o;
}

template <class T> static wanted expect(const fxrt_gemm_desc &d, const operands<T> &o) {
    wanted want(window_size(d.batch, d.y_b, d.m, d.y_m, d.n));
    for (int i = 0; i < d.batch; i++) {
        for (int row = 0; row < d.m; row++) {
            for (int j = 0; j < d.n; j++) {
                double s = o.bias ? number(o.b[static_cast<size_t>(j)]) : 0.0;
                for (int p = 0; p < d.k; p++) {
                    s += number(o.x[static_cast<size_t>(i * d.x_b + row * d.x_m + p)]) * number(o.w[static_cast<size_t>(i * d.w_b + p * d.w_k + j * d.w_n)]);
                }
                s += o.residual ? number(o.r[static_cast<size_t>(i * d.r_b + row * d.r_m + j)]) : 0.0;
                want.value[static_cast<size_t>(i * d.y_b + row * d.y_m + j)] = act_ref(d.act, s, static_cast<double>(d.act_a), static_cast<double>(d.act_b));
            }
        }
    }
    return want;
}

static void describe(const fxrt_gemm_desc &d, char *what, size_t size) {
    snprintf(what, size, "batch %d %dx%dx%d act %d x %d,%d y %d,%d r %d,%d w %d,%d,%d", d.batch, d.m, d.n, d.k, d.act, d.x_b, d.x_m, d.y_b, d.y_m, d.r_b,
             d.r_m, d.w_b, d.w_k, d.w_n);
}

/* Plans a product, as create does. */
template <class T> static void plan(products &with, const fxrt_gemm_desc &d, const T *x, const T *w, const T *b, const T *r, T *y) {
    with.p.planning = 1;
    CHECK_CUDA(fxrt_cuda_gemm<T>(&with.p, &d, x, w, b, r, y, nullptr, nullptr));
    with.p.planning = 0;
}

/* Plans, runs, compares. With the plan made, running allocates nothing. */
template <class T> static bool run(products &with, const fxrt_gemm_desc &d, const operands<T> &o, bool tell = true) {
    const wanted want = expect(d, o);
    const buffer<T> x(o.x), w(o.w), b(o.b), r(o.r);
    std::vector<T> before = nothing<T>(want.value.size());
    for (size_t i = 0; i < before.size() && o.in_place; i++) {
        before[i] = isnan(want.value[i]) ? before[i] : o.r[i];
    }
    const buffer<T> y(before);
    const T *const bias = o.bias ? b.at : nullptr, *const residual = !o.residual ? nullptr : o.in_place ? y.at : r.at;
    plan(with, d, x.at, w.at, bias, residual, y.at);
#ifdef FXCU_HOST
    fxcu_device device = fxcu_get_device();
    device.fail_allocation = 1;
    fxcu_set_device(device);
#endif
    cudaError_t e = fxrt_cuda_gemm<T>(&with.p, &d, x.at, w.at, bias, residual, y.at, with.ws.at, nullptr);
#ifdef FXCU_HOST
    device = fxcu_get_device();
    CHECK(device.fail_allocation == 1);
    device.fail_allocation = 0;
    fxcu_set_device(device);
#endif
    e = e ? e : cudaDeviceSynchronize();
    char what[200];
    describe(d, what, sizeof what);
    if (tell) {
        check_cuda(e, cudaSuccess, what, __FILE__, __LINE__);
    }
    return e == cudaSuccess && want.right(y.get(), tolerance_of<T>, tell ? what : nullptr);
}

/* As tests/unit/test_kernels_gemm.c draws them. */
template <class T> static bool random_product(products &with) {
    fxrt_gemm_desc d = {};
    d.batch = random_int(1, 3);
    d.m = random_int(1, 2) == 1 ? random_int(1, 3) : random_int(1, 80);
    d.n = random_int(1, 70);
    d.k = random_int(1, 2) == 1 ? random_int(1, 9) : random_int(1, 60);
    int32_t *const sizes[] = {&d.m, &d.n, &d.k, &d.batch};
    if (random_int(0, 19) == 0) {
        *sizes[random_int(0, 3)] = 0;
    }
    const bool bias = random_int(0, 1), residual = random_int(0, 1), in_place = residual && random_int(0, 1);
    const int gap = random_int(0, 1); /* without gaps a batch folds into rows */
    d.x_m = d.k + gap * random_int(0, 5);
    d.y_m = d.n + gap * random_int(0, 5);
    d.r_m = random_int(0, 4) ? d.n + gap * random_int(0, 5) : 0; /* 0: a row for all */
    d.x_b = d.x_m * d.m + gap * random_int(0, 7);
    d.y_b = d.y_m * d.m + gap * random_int(0, 7);
    d.r_b = random_int(0, 3) ? d.r_m * d.m : 0;
    if (in_place) {
        d.r_m = d.y_m;
        d.r_b = d.y_b;
    }
    switch (random_int(0, 4)) {
    case 0: /* neither is dense */
        d.w_k = 2;
        d.w_n = 2 * d.k + 1;
        break;
    case 1:
    case 2: /* columns are, as packed weights */
        d.w_k = 1;
        d.w_n = d.k + gap;
        break;
    default:
        d.w_k = d.n + gap;
        d.w_n = 1;
    }
    d.w_b = random_int(0, 1) ? d.n * d.k * 3 : 0;
    random_act(&d.act, &d.act_a, &d.act_b);
    d.act_b = d.act == FXRT_ACT_SOFTPLUS ? 40.0f : d.act_b; /* at its threshold it jumps: what was rounded may be on the other side */
    refuse(random_int(REFUSES_NOTHING, REFUSES_ALL));
    return run(with, d, draw_operands<T>(d, bias, residual, in_place));
}

template <class T> static void test_random() {
    products with;
    for (int i = 0; i < 40; i++) {
        CHECK(random_product<T>(with));
    }
}

/* x[m][k] w[n][k], dense. */
static fxrt_gemm_desc layer(int m, int n, int k, int act) {
    fxrt_gemm_desc d = {};
    d.batch = 1;
    d.m = m;
    d.n = n;
    d.k = d.x_m = d.w_n = k;
    d.y_m = d.r_m = n;
    d.w_k = 1;
    d.act = act;
    d.act_a = 0.3f;
    d.act_b = 1.25f;
    return d;
}

/* Which way is taken for what. */
static void test_ways() {
    const struct {
        int act, refuses, r_m, w_k;
        bool bias, residual;
        int tile, tail, tail_bias, tail_residual, add;
    } cases[] = {
        {FXRT_ACT_NONE, REFUSES_NOTHING, 8, 1, true, false, 0, 0, 0, 0, 0},
        {FXRT_ACT_RELU, REFUSES_NOTHING, 8, 1, true, true, 0, 0, 0, 0, 1},
        {FXRT_ACT_GELU_TANH, REFUSES_NOTHING, 8, 1, false, false, 0, 0, 0, 0, 0},
        {FXRT_ACT_GELU, REFUSES_NOTHING, 8, 1, true, true, 0, 1, 0, 0, 1},  /* by erf: not cuBLASLt's */
        {FXRT_ACT_RELU, REFUSES_NOTHING, 0, 1, true, true, 0, 1, 0, 1, 0},  /* one row for all rows */
        {FXRT_ACT_NONE, REFUSES_NOTHING, 0, 1, true, true, 0, 1, 0, 1, 0},
        {FXRT_ACT_NONE, REFUSES_NOTHING, 8, 2, true, false, 1, 0, 0, 0, 0}, /* no leading dimension */
#ifdef FXCU_HOST
        {FXRT_ACT_RELU, REFUSES_EPILOGUES, 8, 1, true, true, 0, 1, 1, 0, 1},
        {FXRT_ACT_NONE, REFUSES_EPILOGUES, 8, 1, false, true, 0, 0, 0, 0, 1},
        {FXRT_ACT_SILU, REFUSES_ALL, 8, 1, true, true, 1, 0, 0, 0, 1},
#endif
    };
    for (const auto &c : cases) {
        products with;
        fxrt_gemm_desc d = layer(20, 8, 132, c.act);
        d.r_m = c.r_m;
        d.w_k = c.w_k;
        d.w_n = 132 * c.w_k + (c.w_k > 1);
        refuse(c.refuses);
        CHECK(run(with, d, draw_operands<float>(d, c.bias, c.residual, false)));
        const fxrt_cuda_gemm_plan *const plan = with.only();
        CHECK(plan->tile == c.tile && plan->tail == c.tail && plan->tail_bias == c.tail_bias && plan->tail_residual == c.tail_residual && plan->add == c.add);
    }
    refuse(REFUSES_NOTHING);
    /* Short sums with an act that no epilogue has: one kernel. Of 16 bits, cuBLASLt's tensor cores are worth a tail. */
    for (int act : {FXRT_ACT_GELU, FXRT_ACT_RELU}) {
        products with;
        const fxrt_gemm_desc d = layer(20, 8, 128, act);
        CHECK(run(with, d, draw_operands<float>(d, true, true, false)));
        CHECK(with.only()->tile == (act == FXRT_ACT_GELU) && !with.only()->tail);
        products half;
        CHECK(run(half, d, draw_operands<__half>(d, true, true, false)));
        CHECK(!half.only()->tile && half.only()->tail == (act == FXRT_ACT_GELU));
    }
    /* Batches that follow each other are one matrix, also where each has one row; windows that overlap are a leading dimension too small. */
    for (int rows : {1, 5}) {
        products with;
        fxrt_gemm_desc d = layer(rows, 8, 12, FXRT_ACT_NONE);
        d.batch = 3;
        d.x_b = rows * 12;
        d.y_b = d.r_b = rows * 8;
        d.x_m = rows > 1 ? 12 : 0;
        CHECK(run(with, d, draw_operands<float>(d, true, true, false)));
        CHECK(with.only()->d.batch == 1 && with.only()->d.m == 3 * rows && !with.only()->tile);
    }
    products with;
    fxrt_gemm_desc d = layer(9, 8, 12, FXRT_ACT_NONE);
    d.x_m = 2;
    std::vector<float> x = random_values<float>(8 * 2 + 12, 0.5f);
    operands<float> o = draw_operands<float>(d, true, false, false);
    o.x = x;
    CHECK(run(with, d, o));
    CHECK(with.only()->tile);
}

/* Every activation at the end of each way. */
static void test_activations() {
    products with;
    for (int act = 0; act < FXRT_ACT_COUNT; act++) {
        refuse(act % 2 ? REFUSES_ALL : REFUSES_NOTHING);
        const fxrt_gemm_desc d = layer(3, 9, 4, act);
        CHECK(run(with, d, draw_operands<float>(d, true, true, true)));
    }
    refuse(REFUSES_NOTHING);
}

/* A shape that was planned is found again; other pointers of the same alignment do not matter, other alignments do; a full table forgets, and is right. */
static void test_table() {
    products with;
    const fxrt_gemm_desc d = layer(6, 8, 4, FXRT_ACT_NONE);
    const operands<float> o = draw_operands<float>(d, true, false, false);
    CHECK(run(with, d, o) && run(with, d, o) && with.count() == 1);
    plan<float>(with, d, reinterpret_cast<float *>(16), reinterpret_cast<float *>(4), nullptr, nullptr, reinterpret_cast<float *>(8));
    CHECK(with.count() == 2 && with.p.evicted == 0);
    for (int m = 1; m <= 2 * FXRT_CUDA_GEMM_PLANS; m++) {
        const fxrt_gemm_desc one = layer(m, 3, 2, FXRT_ACT_NONE);
        CHECK(run(with, one, draw_operands<float>(one, true, false, false)));
    }
    CHECK(with.p.evicted > 0 && with.count() <= FXRT_CUDA_GEMM_PLANS);
    CHECK(run(with, d, o));
}

/* 1 + 2^-12 loses its last bit in TF32, and only where TF32 was asked for. */
static void test_tf32() {
    const fxrt_gemm_desc d = layer(16, 16, 16, FXRT_ACT_NONE);
    const float fine = 1.0f + 0x1p-12f;
    std::vector<float> unit(256);
    for (size_t i = 0; i < 16; i++) {
        unit[17 * i] = 1.0f;
    }
    for (int tf32 = 0; tf32 < 2; tf32++) {
        products with(tf32);
        const buffer<float> x(std::vector<float>(256, fine)), w(unit), y(256);
        CHECK_CUDA(fxrt_cuda_gemm<float>(&with.p, &d, x.at, w.at, nullptr, nullptr, y.at, with.ws.at, nullptr));
        for (float got : y.get()) {
#ifdef FXCU_HOST
            CHECK(got == (tf32 ? 1.0f : fine));
#else
            CHECK(tf32 || got == fine); /* a GPU need not use what it may */
#endif
        }
    }
}

/* Captured once, run again with other numbers in the same places. */
static void test_capture() {
    products with;
    const fxrt_gemm_desc d = layer(5, 8, 4, FXRT_ACT_SILU); /* two kernels */
    operands<float> o = draw_operands<float>(d, true, false, false);
    buffer<float> x(o.x), w(o.w), b(o.b), y(40);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t again;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaDeviceSynchronize());
    plan<float>(with, d, x.at, w.at, b.at, nullptr, y.at);
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(fxrt_cuda_gemm<float>(&with.p, &d, x.at, w.at, b.at, nullptr, y.at, with.ws.at, stream));
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&again, graph, 0));
    for (int i = 0; i < 2; i++) {
        o.x = random_values<float>(o.x.size(), 1.0f);
        x.put(o.x);
        CHECK_CUDA(cudaDeviceSynchronize());
        CHECK_CUDA(cudaGraphLaunch(again, stream));
        CHECK_CUDA(cudaStreamSynchronize(stream));
        CHECK(expect(d, o).right(y.get(), 1e-5, "replayed"));
    }
    CHECK_CUDA(cudaGraphExecDestroy(again));
    CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK_CUDA(cudaStreamDestroy(stream));
}

static void test_statuses() {
    CHECK(fxrt_cuda_blas_error(CUBLAS_STATUS_SUCCESS) == cudaSuccess);
    CHECK(fxrt_cuda_blas_error(CUBLAS_STATUS_ALLOC_FAILED) == cudaErrorMemoryAllocation);
    CHECK(fxrt_cuda_blas_error(CUBLAS_STATUS_NOT_SUPPORTED) == cudaErrorNotSupported);
    CHECK(fxrt_cuda_blas_error(CUBLAS_STATUS_INTERNAL_ERROR) == cudaErrorUnknown);
#ifdef FXCU_HOST
    fxcu_reset();
    fxcu_quiet(1);
    fxrt_cuda_products p;
    fxcu_device device = fxcu_get_device();
    device.fail_allocation = 1;
    fxcu_set_device(device);
    CHECK(fxrt_cuda_products_create(&p, 0, 0) == cudaErrorMemoryAllocation && fxrt_cuda_products_destroy(&p) == cudaSuccess);
    {
        products with;
        const fxrt_gemm_desc d = layer(2, 8, 4, FXRT_ACT_NONE);
        const buffer<float> x(8), w(32), y(16);
        float host[16] = {};
        CHECK(fxrt_cuda_gemm<float>(&with.p, &d, x.at, w.at, nullptr, nullptr, y.at, nullptr, nullptr) == cudaErrorInvalidValue);
        CHECK(strstr(fxcu_message(), "of workspace"));
        CHECK(fxrt_cuda_gemm<float>(&with.p, &d, x.at, w.at, nullptr, nullptr, host, with.ws.at, nullptr) == cudaErrorInvalidValue);
        CHECK(strstr(fxcu_message(), "D is 0x"));
    }
    fxcu_reset();
    device = fxcu_get_device();
    device.count = 0;
    fxcu_set_device(device);
    CHECK(fxrt_cuda_products_create(&p, 0, 0) == cudaErrorInitializationError);
    fxcu_quiet(0);
    fxcu_reset();
#endif
}

int main() {
    each_schedule("products of float", test_random<float>);
    each_schedule("products of half", test_random<__half>);
    each_schedule("products of bfloat16", test_random<__nv_bfloat16>);
    each_schedule("ways", test_ways);
    each_schedule("activations", test_activations);
    each_schedule("capture", test_capture);
    test_table();
    test_tf32();
    test_statuses();
#ifdef FXCU_HOST
    each_barrier_missing("the tile kernel", 2, [] {
        fxrt_gemm_desc d = layer(20, 40, 40, FXRT_ACT_NONE);
        products with;
        refuse(REFUSES_ALL);
        return run(with, d, draw_operands<float>(d, true, true, false), !missing_barrier.file);
    });
#endif
    return 0;
}
