/* Side streams of an emitted model, `inception` (tests/cuda_emit/test_host.py): under all schedules, as graphs, several at once; each wait left out
 * in turn, and each call that makes, records or waits failing in turn. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "cuda_host/control.h"

/* ---- what stands before the model's calls --------------------------------------------------------------------------------- */

static int left_out = -1, n_waits;    /* the wait for an event that is not made, of a run's */
static int failing = -1, n_calls;     /* the call that fails instead of being made, of those below */

static cudaError_t fails()
{
    return n_calls++ == failing ? cudaErrorUnknown : cudaSuccess;
}

#define CALL(call) (fails() != cudaSuccess ? cudaErrorUnknown : (call))
static cudaError_t make_stream(cudaStream_t *stream, unsigned flags) { return CALL(cudaStreamCreateWithFlags(stream, flags)); }
static cudaError_t make_event(cudaEvent_t *event, unsigned flags) { return CALL(cudaEventCreateWithFlags(event, flags)); }
static cudaError_t make_memory(void **at, size_t bytes) { return CALL(cudaMalloc(at, bytes)); }
static cudaError_t record(cudaEvent_t event, cudaStream_t stream) { return CALL(cudaEventRecord(event, stream)); }
static cudaError_t wait(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return n_waits++ == left_out ? cudaSuccess : CALL(cudaStreamWaitEvent(stream, event, flags));
}
static cublasStatus_t make_handle(cublasLtHandle_t *handle) { return fails() != cudaSuccess ? CUBLAS_STATUS_ALLOC_FAILED : cublasLtCreate(handle); }

/* In a context for debugging, nothing is left to do when the next layer begins. */
static bool watching;
static int n_told, n_early;
static void tell(cudaStream_t stream)
{
    n_told += watching;
    n_early += watching && cudaStreamQuery(stream) != cudaSuccess;
}

#define cudaStreamCreateWithFlags(stream, flags) make_stream(stream, flags)
#define cudaEventCreateWithFlags(event, flags) make_event(event, flags)
#define cudaMalloc(at, bytes) make_memory(reinterpret_cast<void **>(at), bytes)
#define cudaEventRecord(event, stream) record(event, stream)
#define cudaStreamWaitEvent(stream, event, flags) wait(stream, event, flags)
#define cublasLtCreate(handle) make_handle(handle)
#define INCEPTION_TELL(what, stream) tell(stream)
#include "inception/inception.cu"
#undef cudaStreamCreateWithFlags
#undef cudaMalloc

/* ---- the tests ------------------------------------------------------------------------------------------------------------- */

static int wrong;

static void expect(const char *what, bool good)
{
    if (!good) {
        fprintf(stderr, "%s: not so\n", what);
        wrong++;
    }
}

static void must(cudaError_t error)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "the test itself: %s: %s\n", cudaGetErrorName(error), fxcu_message());
        exit(2);
    }
}

/* A context with its arrays and a stream of the caller's. */
struct instance {
    inception_context *ctx = nullptr;
    float *x = nullptr, *y = nullptr;
    cudaStream_t stream = nullptr;
    explicit instance(int debug = 0)
    {
        inception_config config = {};
        config.weights_file = "inception/inception.bin";
        config.debug = debug;
        must(cudaMalloc(reinterpret_cast<void **>(&x), sizeof(float) * INCEPTION_IN0_NUMEL));
        must(cudaMalloc(reinterpret_cast<void **>(&y), sizeof(float) * INCEPTION_OUT0_NUMEL));
        must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        if (inception_create(&ctx, &config) != INCEPTION_OK) {
            fprintf(stderr, "create: %s\n", inception_error(ctx));
            exit(2);
        }
    }
    instance(const instance &) = delete;
    ~instance()
    {
        inception_destroy(ctx);
        must(cudaStreamDestroy(stream));
        must(cudaFree(x));
        must(cudaFree(y));
    }
    void give(int seed) const
    {
        std::vector<float> values(INCEPTION_IN0_NUMEL);
        for (size_t i = 0; i < values.size(); i++)
            values[i] = static_cast<float>((i * 37 + static_cast<size_t>(seed) * 101) % 61) / 16.0f - 2.0f;
        must(cudaMemcpy(x, values.data(), sizeof(float) * INCEPTION_IN0_NUMEL, cudaMemcpyHostToDevice));
    }
    std::vector<float> take() const
    {
        std::vector<float> values(INCEPTION_OUT0_NUMEL);
        must(cudaMemcpy(values.data(), y, sizeof(float) * INCEPTION_OUT0_NUMEL, cudaMemcpyDeviceToHost));
        return values;
    }
    int run() const
    {
        n_waits = n_calls = 0;
        return inception_run(ctx, x, y, stream);
    }
    /* What it computes from the seed's values. */
    std::vector<float> of(int seed) const
    {
        give(seed);
        expect("a run", run() == INCEPTION_OK && inception_wait(ctx, stream) == INCEPTION_OK);
        return take();
    }
    bool sides_are_idle() const
    {
        for (const cudaStream_t side : ctx->side)
            if (cudaStreamQuery(side) != cudaSuccess)
                return false;
        return true;
    }
};

static bool same(const std::vector<float> &a, const std::vector<float> &b)
{
    return memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

static std::vector<float> right[3]; /* by seed: on a schedule that does all in the order in which it is given */

/* Runs and a graph, under the present schedule. Two contexts have work at once. */
static void usual()
{
    instance a, b;
    for (int seed = 0; seed < 3; seed++)
        expect("values", same(a.of(seed), right[seed]));
    a.give(1);
    b.give(2);
    expect("two at once", a.run() == INCEPTION_OK && b.run() == INCEPTION_OK && inception_wait(b.ctx, b.stream) == INCEPTION_OK && inception_wait(a.ctx, a.stream) == INCEPTION_OK);
    expect("values of two at once", same(a.take(), right[1]) && same(b.take(), right[2]));
    cudaGraphExec_t graph;
    expect("capture", inception_capture(a.ctx, a.x, a.y, &graph) == INCEPTION_OK);
    expect("capture leaves side streams", a.sides_are_idle());
    for (int seed = 0; seed < 3; seed++) {
        a.give(seed);
        must(cudaGraphLaunch(graph, a.stream));
        must(cudaStreamSynchronize(a.stream));
        expect("values of a graph", same(a.take(), right[seed]));
    }
    must(cudaGraphExecDestroy(graph));
    expect("values after a graph", same(a.of(0), right[0]));
}

/* Each wait left out shows under some schedule, the reverse one or by chance (a run's work has many orders): in what a run computes, and in what capture says or its graph computes. */
static void missing()
{
    int waits;
    {
        const instance a;
        a.of(0);
        waits = n_waits;
    }
    fxcu_quiet(1); /* capture's messages */
    for (int out = 0; out < waits; out++) {
        int seen = 0, seen_captured = 0;
        for (uint64_t seed = 0; seed < 100 && (seen == 0 || seen_captured == 0); seed++) {
            if (seed == 0)
                fxcu_set_schedule(FXCU_REVERSE, 0);
            else
                fxcu_set_schedule(FXCU_RANDOM, seed);
            {
                const instance a;
                left_out = out;
                seen += !same(a.of(0), right[0]);
                left_out = -1;
            }
            const instance a;
            cudaGraphExec_t graph = nullptr;
            a.give(0);
            n_waits = 0;
            left_out = out;
            const int status = inception_capture(a.ctx, a.x, a.y, &graph);
            left_out = -1;
            if (status == INCEPTION_OK) {
                must(cudaGraphLaunch(graph, a.stream));
                must(cudaStreamSynchronize(a.stream));
                must(cudaGraphExecDestroy(graph));
            }
            seen_captured += status != INCEPTION_OK || !same(a.take(), right[0]);
        }
        if (seen == 0 || seen_captured == 0) {
            fprintf(stderr, "wait %d of %d left out: seen %d and %d times\n", out + 1, waits, seen, seen_captured);
            wrong++;
        }
    }
    fxcu_quiet(0);
    fxcu_set_schedule_number(0);
    expect("there are waits of both kinds", waits == 2 * INCEPTION_SIDES && waits >= 4);
}

/* Each call that create makes fails in turn, then each of a run: nothing leaks, nothing is left on side streams, and the next run is right. */
static void failures()
{
    inception_config config = {};
    config.weights_file = "inception/inception.bin";
    int points = 0;
    for (int status = -1; status != INCEPTION_OK; points++) {
        inception_context *ctx;
        n_calls = 0;
        failing = points;
        status = inception_create(&ctx, &config);
        failing = -1;
        expect("create tells what failed", status == INCEPTION_OK || (status != INCEPTION_ERR_FILE && inception_error(ctx)[0] != 0));
        inception_destroy(ctx);
        expect("nothing is left of a create that fails", fxcu_alive() == 0);
    }
    expect("create can fail at each of them", points > 8); /* arena, weights, handles, events, streams */
    for (int schedule = 0; schedule < FXCU_SCHEDULES; schedule++) {
        fxcu_set_schedule_number(schedule);
        const instance a;
        int status = -1;
        for (int call = 0; status != INCEPTION_OK; call++) {
            a.give(1);
            failing = call;
            status = a.run();
            failing = -1;
            if (status != INCEPTION_OK)
                expect("a run tells what failed", strstr(inception_error(a.ctx), "side streams, device 0: cudaErrorUnknown") != nullptr);
            expect("a run that fails leaves side streams", status == INCEPTION_OK || a.sides_are_idle());
            must(cudaStreamSynchronize(a.stream));
            expect("the run after it", same(a.of(2), right[2]));
        }
    }
    fxcu_set_schedule_number(0);
}

/* Waits for each layer, on its stream; one that fails there is told by its name, though nothing was waited for but by debugging. */
static void debugging()
{
    for (int schedule = 0; schedule < FXCU_SCHEDULES; schedule++) {
        fxcu_set_schedule_number(schedule);
        const instance a(1);
        n_told = n_early = 0;
        watching = true;
        expect("values when debugging", same(a.of(1), right[1]));
        watching = false;
        expect("each layer is waited for", n_told > 8 && n_early == 0);
    }
    fxcu_set_schedule_number(0);
#ifndef __SANITIZE_ADDRESS__ /* which ends the program there */
    fxcu_quiet(1);
    {
        const instance a(1);
        inception_weights_t *const whole = a.ctx->weights;
        void *torn;
        must(cudaMalloc(&torn, offsetof(inception_weights_t, INCEPTION_TORN)));
        must(cudaMemcpy(torn, whole, offsetof(inception_weights_t, INCEPTION_TORN), cudaMemcpyDeviceToDevice));
        must(cudaDeviceSynchronize());
        a.ctx->weights = static_cast<inception_weights_t *>(torn);
        a.give(0);
        const int status = a.run();
        const std::string said = inception_error(a.ctx);
        if (status != INCEPTION_ERR_CUDA || said.find(INCEPTION_TORN_LAYER ", device 0: cudaErrorIllegalAddress") != 0) {
            fprintf(stderr, "a layer on a side stream fails: status %d, '%s'\n", status, said.c_str());
            wrong++;
        }
        fxcu_reset(); /* the error is sticky, and all is freed */
        a.ctx->weights = whole;
        exit(wrong != 0); /* nothing of the context is left to destroy */
    }
#endif
}

/* With an argument: only what is right. */
int main(int argc, char **)
{
    {
        const instance a;
        for (int seed = 0; seed < 3; seed++)
            right[seed] = a.of(seed);
    }
    expect("seeds differ", !same(right[0], right[1]) && !same(right[1], right[2]) && right[0][0] == right[0][0]);
    for (int schedule = 0; schedule < FXCU_SCHEDULES; schedule++) {
        fxcu_set_schedule_number(schedule);
        usual();
    }
    fxcu_set_schedule_number(0);
    expect("nothing is left", fxcu_alive() == 0);
    if (argc > 1)
        return wrong != 0;
    missing();
    failures();
    expect("nothing is left of it all", fxcu_alive() == 0);
    debugging();
    return wrong != 0;
}
