/* Contexts of emitted models: several at once, in threads, on devices, on streams, as graphs; under all schedules.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <thread>

#include "host.h"

enum { N = 2 * 40 }; /* the model `kept`: s starts as 0.5 (trained: 0.25); s += x; m = s * 0.25 (trained: 2) */

/* A context with its arrays on a device, and a stream there. */
struct instance {
    kept_context *ctx = nullptr;
    float *x, *m;
    cudaStream_t stream;
    int device, calls = 0;
    float value, start, factor;
    instance(float value, const char *weights, int device, int debug) : device(device), value(value)
    {
        const bool trained = strstr(weights, "trained") != nullptr;
        start = trained ? 0.25f : 0.5f;
        factor = trained ? 2.0f : 0.25f;
        must(cudaSetDevice(device));
        x = on_device(std::vector<float>(N, value));
        m = on_device(std::vector<float>(N));
        must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        must(cudaSetDevice(0));
        kept_config config = {};
        config.weights_file = weights;
        config.device = device;
        config.debug = debug;
        expect<kept_model>("made", kept_create(&ctx, &config), KEPT_OK, ctx); /* the last before a run: what create copies must be there for any stream */
        int now;
        must(cudaGetDevice(&now));
        expect_that("create leaves the caller's device", now == 0);
    }
    void run()
    {
        expect<kept_model>("run", kept_run(ctx, x, m, stream), KEPT_OK, ctx);
        calls++;
    }
    void check(const char *what)
    {
        expect<kept_model>(what, kept_wait(ctx, stream), KEPT_OK, ctx);
        const float kept = start + (float)calls * value;
        for (float got : on_host(m, N))
            if (got != kept * factor) {
                fprintf(stderr, "%s: expected %g, got %g\n", what, kept * factor, got);
                wrong++;
                return;
            }
        expect_that("the state", on_host((const float *)kept_state(ctx)->s, N)[N - 1] == kept);
    }
    ~instance()
    {
        kept_destroy(ctx);
        must(cudaStreamDestroy(stream));
        must(cudaFree(x));
        must(cudaFree(m));
    }
    instance(const instance &) = delete;
};

/* Two contexts in turn, one with the weights of another training. */
static void several(int debug)
{
    instance a(1, "kept/kept.bin", 0, debug), b(3, "trained/kept.bin", 0, debug);
    for (int k = 0; k < 3; k++) {
        a.run();
        b.run();
    }
    a.check("the first of two");
    b.check("the second of two");
    expect<kept_model>("from the start", kept_state_init(a.ctx, a.stream), KEPT_OK, a.ctx);
    a.calls = 0;
    a.run();
    a.check("from the start");
}

static void threads()
{
    auto work = [](float value, const char *weights) {
        instance a(value, weights, 0, 0);
        for (int k = 0; k < 5; k++) {
            a.run();
            a.check("in a thread");
        }
    };
    std::thread first(work, 2, "kept/kept.bin"), second(work, 5, "trained/kept.bin");
    first.join();
    second.join();
}

static void two_devices()
{
    fxcu_device device = fxcu_get_device();
    device.count = 2;
    fxcu_set_device(device);
    {
        instance a(1, "kept/kept.bin", 0, 1), b(2, "kept/kept.bin", 1, 1);
        a.run();
        b.run();
        int now;
        must(cudaGetDevice(&now));
        expect_that("a run leaves the caller's device", now == 0);
        a.check("on device 0");
        b.check("on device 1");
        expect<kept_model>("another device's pointer", kept_run(b.ctx, a.x, b.m, b.stream), KEPT_ERR_POINTER, b.ctx, "x: expected memory of device 1, got another device's");
        cudaGraphExec_t graph;
        expect<kept_model>("captured on device 1", kept_capture(b.ctx, b.x, b.m, &graph), KEPT_OK, b.ctx);
        must(cudaSetDevice(1));
        must(cudaGraphLaunch(graph, b.stream));
        must(cudaSetDevice(0));
        b.calls++;
        b.check("the graph of device 1");
        must(cudaGraphExecDestroy(graph));
    }
    expect_none_alive("two devices");
    fxcu_reset();
}

/* Graphs by NAME_capture, and of a caller who captures several runs. */
static void graphs(int debug)
{
    instance a(1, "kept/kept.bin", 0, debug), b(3, "trained/kept.bin", 0, debug);
    cudaGraphExec_t one;
    expect<kept_model>("captured", kept_capture(a.ctx, a.x, a.m, &one), KEPT_OK, a.ctx);
    for (int k = 0; k < 3; k++) {
        must(cudaGraphLaunch(one, a.stream));
        a.calls++;
        if (k == 1)
            a.run(); /* between launches, on the same stream */
    }
    a.check("a graph, three times");
    a.value = 7; /* what lies there may change; the state goes on */
    a.start += (float)a.calls - 7 * (float)a.calls;
    must(cudaFree(nullptr));
    std::vector<float> sevens(N, 7);
    must(cudaMemcpy(a.x, sevens.data(), N * sizeof(float), cudaMemcpyHostToDevice));
    must(cudaDeviceSynchronize());
    must(cudaGraphLaunch(one, a.stream));
    a.calls++;
    a.check("a graph on other values");
    must(cudaGraphExecDestroy(one));

    cudaGraph_t nodes;
    cudaGraphExec_t both;
    cudaEvent_t fork, join;
    must(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    must(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    must(cudaStreamBeginCapture(a.stream, cudaStreamCaptureModeGlobal));
    must(cudaEventRecord(fork, a.stream));
    must(cudaStreamWaitEvent(b.stream, fork));
    a.run();
    b.run();
    b.run();
    must(cudaEventRecord(join, b.stream));
    must(cudaStreamWaitEvent(a.stream, join));
    must(cudaStreamEndCapture(a.stream, &nodes));
    must(cudaGraphInstantiate(&both, nodes));
    must(cudaGraphDestroy(nodes));
    for (int k = 0; k < 2; k++) /* a capture runs nothing */
        must(cudaGraphLaunch(both, a.stream));
    must(cudaStreamSynchronize(a.stream));
    a.calls++;
    b.calls += 2;
    a.check("the caller's graph, first context");
    b.check("the caller's graph, second context");
    must(cudaGraphExecDestroy(both));
    must(cudaEventDestroy(fork));
    must(cudaEventDestroy(join));
}

/* Sizes belong to a graph, too. */
static void open_graph()
{
    const open_dims dims = {.s0 = 7};
    std::vector<float> in_x, in_y, want;
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 8; k++) {
            const float v = (float)((i * 8 + k) % 11 - 5);
            (k < 5 ? in_x : in_y).push_back(v);
            want.push_back(3 * v);
        }
    float *x = on_device(in_x), *y = on_device(in_y), *c = on_device(std::vector<float>(56)), *d = on_device(std::vector<float>(56));
    open_context *ctx;
    cudaGraphExec_t graph;
    cudaStream_t stream;
    open_config config = {};
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect<open_model>("made", open_create(&ctx, &config), OPEN_OK, ctx);
    expect<open_model>("captured", open_capture(ctx, &dims, x, y, c, d, &graph), OPEN_OK, ctx);
    must(cudaGraphLaunch(graph, stream));
    expect<open_model>("waited for", open_wait(ctx, stream), OPEN_OK, ctx);
    expect_that("a graph of seven rows", on_host(d, 56) == want);
    must(cudaGraphExecDestroy(graph));
    must(cudaStreamDestroy(stream));
    open_destroy(ctx);
    for (float *one : {x, y, c, d})
        must(cudaFree(one));
}

int main()
{
    for (int schedule = 0; schedule < FXCU_SCHEDULES; schedule++) {
        fxcu_reset();
        fxcu_set_schedule_number(schedule);
        for (int debug = 0; debug < 2; debug++) {
            several(debug);
            graphs(debug);
        }
        threads();
        open_graph();
        expect_none_alive(fxcu_schedule_name(schedule));
        two_devices();
    }
    return wrong != 0;
}
