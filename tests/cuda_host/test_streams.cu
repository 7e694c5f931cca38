/* Streams, events and graphs: what is ordered gives the same under every schedule; a missing event is seen; what CUDA refuses is refused.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

static __global__ void fill(float *x, int n, float value) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        x[i] = value;
    }
}
static __global__ void add(const float *a, const float *b, float *c, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}

constexpr int n = 100;
struct side_by_side { /* two streams, and the events between them */
    cudaStream_t main, side;
    cudaEvent_t forked, joined;
    side_by_side() {
        CHECK_CUDA(cudaStreamCreate(&main));
        CHECK_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
        CHECK_CUDA(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
        CHECK_CUDA(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    }
    side_by_side(const side_by_side &) = delete;
    side_by_side &operator=(const side_by_side &) = delete;
    ~side_by_side() {
        cudaEventDestroy(forked);
        cudaEventDestroy(joined);
        cudaStreamDestroy(main);
        cudaStreamDestroy(side);
    }
};

/* a = 1 on main; b = a + a on side; c = a + b on main; then a = 5 on main. Which of the three events is left out? */
enum missing { none, fork, join, overwrite };
static void branches(const side_by_side &s, float *a, float *b, float *c, missing left_out) {
    CHECK_CUDA(FXCC_LAUNCH(fill, 1, 128, 0, s.main, a, n, 1.0f));
    CHECK_CUDA(cudaEventRecord(s.forked, s.main));
    if (left_out != fork) {
        CHECK_CUDA(cudaStreamWaitEvent(s.side, s.forked, 0));
    }
    CHECK_CUDA(FXCC_LAUNCH(add, 1, 128, 0, s.side, a, a, b, n));
    CHECK_CUDA(cudaEventRecord(s.joined, s.side));
    if (left_out == overwrite) { /* before side has read it */
        CHECK_CUDA(FXCC_LAUNCH(fill, 1, 128, 0, s.main, a, n, 5.0f));
    }
    if (left_out != join) {
        CHECK_CUDA(cudaStreamWaitEvent(s.main, s.joined, 0));
    }
    CHECK_CUDA(FXCC_LAUNCH(add, 1, 128, 0, s.main, a, b, c, n));
    CHECK_CUDA(FXCC_LAUNCH(fill, 1, 128, 0, s.main, a, n, 5.0f));
}
static bool branches_right(missing left_out) {
    side_by_side s;
    buffer<float> a(n), b(n), c(n);
    branches(s, a.at, b.at, c.at, left_out);
    CHECK_CUDA(cudaStreamSynchronize(s.main));
    return c.get() == std::vector<float>(n, 3.0f) && a.get() == std::vector<float>(n, 5.0f);
}

static void test_default_stream() { /* it comes between the work of blocking streams */
    cudaStream_t one, two;
    CHECK_CUDA(cudaStreamCreate(&one));
    CHECK_CUDA(cudaStreamCreate(&two));
    buffer<float> a(n), b(n), c(n);
    CHECK_CUDA(FXCC_LAUNCH(fill, 1, 128, 0, one, a.at, n, 2.0f));
    CHECK_CUDA(FXCC_LAUNCH(add, 1, 128, 0, nullptr, a.at, a.at, b.at, n));
    CHECK_CUDA(FXCC_LAUNCH(add, 1, 128, 0, two, a.at, b.at, c.at, n));
    CHECK_CUDA(cudaStreamSynchronize(two));
    CHECK(c.get() == std::vector<float>(n, 6.0f));
    CHECK_CUDA(cudaStreamDestroy(one));
    CHECK_CUDA(cudaStreamDestroy(two));
}

static void test_copies() {
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    float *pinned;
    CHECK_CUDA(cudaMallocHost(&pinned, n * sizeof(float)));
    for (int i = 0; i < n; i++) {
        pinned[i] = static_cast<float>(i);
    }
    buffer<float> a(n), b(n);
    std::vector<float> two(n, 2.0f);
    CHECK_CUDA(cudaMemcpyAsync(a.at, pinned, n * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK_CUDA(cudaMemcpyAsync(b.at, two.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
    two.assign(n, 3.0f); /* it was read already */
    CHECK_CUDA(FXCC_LAUNCH(add, 1, 128, 0, stream, a.at, b.at, a.at, n));
    CHECK_CUDA(cudaMemcpyAsync(pinned, a.at, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i++) {
        CHECK(pinned[i] == static_cast<float>(i + 2));
    }
    CHECK_CUDA(cudaFreeHost(pinned));
    CHECK_CUDA(cudaStreamDestroy(stream));
}

static void count_up(void *user) { ++*static_cast<int *>(user); }
static void test_events() {
    cudaStream_t stream;
    cudaEvent_t start, end;
    CHECK_CUDA(cudaStreamCreate(&stream));
    CHECK_CUDA(cudaEventCreate(&start));
    CHECK_CUDA(cudaEventCreate(&end));
    buffer<float> a(n);
    int calls = 0;
    CHECK_CUDA(cudaEventRecord(start, stream));
    CHECK_CUDA(FXCC_LAUNCH(fill, 1, 128, 0, stream, a.at, n, 2.0f));
    CHECK_CUDA(cudaLaunchHostFunc(stream, count_up, &calls));
    CHECK_CUDA(cudaEventRecord(end, stream));
    while (cudaEventQuery(end) == cudaErrorNotReady) {
    }
    CHECK(calls == 1);
    float milliseconds = -1.0f;
    CHECK_CUDA(cudaEventElapsedTime(&milliseconds, start, end));
    CHECK(milliseconds >= 0.0f);
    CHECK_CUDA(cudaStreamQuery(stream));
    CHECK_CUDA(cudaEventDestroy(start));
    CHECK_CUDA(cudaEventDestroy(end));
    CHECK_CUDA(cudaStreamDestroy(stream));
}

static void test_graph() {
    side_by_side s;
    buffer<float> a(n), b(n), c(n), total(n);
    CHECK_CUDA(cudaMemset(total.at, 0, n * sizeof(float)));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
    branches(s, a.at, b.at, c.at, none);
    CHECK_CUDA(FXCC_LAUNCH(add, 1, 128, 0, s.main, c.at, total.at, total.at, n));
    cudaStreamCaptureStatus status;
    CHECK_CUDA(cudaStreamIsCapturing(s.main, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    CHECK_CUDA(cudaStreamEndCapture(s.main, &graph));
    size_t nodes;
    CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(nodes == 5);
    CHECK(total.get() == std::vector<float>(n, 0.0f)); /* nothing has run yet */
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_CUDA(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        CHECK_CUDA(cudaGraphLaunch(exec, s.main));
    }
    CHECK_CUDA(cudaStreamSynchronize(s.main));
    CHECK(total.get() == std::vector<float>(n, 9.0f));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
}

#ifdef FXCU_HOST
/* A graph whose branches lack an event is as wrong as the streams were. */
static bool graph_right(missing left_out) {
    side_by_side s;
    buffer<float> a(n), b(n), c(n);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK_CUDA(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeThreadLocal));
    branches(s, a.at, b.at, c.at, left_out);
    CHECK_CUDA(cudaStreamEndCapture(s.main, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_CUDA(cudaGraphLaunch(exec, s.main));
    CHECK_CUDA(cudaStreamSynchronize(s.main));
    const bool right = c.get() == std::vector<float>(n, 3.0f);
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaGraphDestroy(graph));
    return right;
}

static void expect_caught(const char *name, int failed) {
    printf("%s: caught by %d of %d schedules\n", name, failed, FXCU_SCHEDULES);
    CHECK(failed > 0);
}

static void test_refused_captures() {
    fxcu_quiet(1);
    fxcu_reset();
    side_by_side s;
    buffer<float> a(n);
    cudaGraph_t graph;
    const auto begin = [&] { CHECK_CUDA(cudaStreamBeginCapture(s.main, cudaStreamCaptureModeGlobal)); };
    const auto ends_with = [&](cudaError_t want) {
        check_cuda(cudaStreamEndCapture(s.main, &graph), want, "cudaStreamEndCapture", __FILE__, __LINE__);
        CHECK(graph == nullptr && cudaGetLastError() == want);
    };
    void *memory;
    begin();
    CHECK(cudaMalloc(&memory, 4) == cudaErrorStreamCaptureUnsupported);
    CHECK(strstr(fxcu_message(), "cudaMalloc is not permitted while a stream is being captured"));
    ends_with(cudaErrorStreamCaptureInvalidated);
    begin();
    CHECK(cudaStreamSynchronize(s.main) == cudaErrorStreamCaptureUnsupported);
    CHECK(FXCC_LAUNCH(fill, 1, 128, 0, s.main, a.at, n, 1.0f) == cudaErrorStreamCaptureInvalidated);
    ends_with(cudaErrorStreamCaptureInvalidated);
    begin();
    CHECK(FXCC_LAUNCH(fill, 1, 128, 0, nullptr, a.at, n, 1.0f) == cudaErrorStreamCaptureImplicit);
    ends_with(cudaErrorStreamCaptureInvalidated);
    begin();
    CHECK(cudaMemcpy(a.at, a.at, 4, cudaMemcpyDeviceToDevice) == cudaErrorStreamCaptureUnsupported);
    ends_with(cudaErrorStreamCaptureInvalidated);
    begin(); /* side has work, and main does not wait for it */
    CHECK_CUDA(cudaEventRecord(s.forked, s.main));
    CHECK_CUDA(cudaStreamWaitEvent(s.side, s.forked, 0));
    CHECK_CUDA(FXCC_LAUNCH(fill, 1, 128, 0, s.side, a.at, n, 1.0f));
    ends_with(cudaErrorStreamCaptureUnjoined);
    CHECK_CUDA(FXCC_LAUNCH(fill, 1, 128, 0, s.side, a.at, n, 2.0f)); /* outside a capture again */
    CHECK_CUDA(cudaEventRecord(s.forked, s.side));
    begin(); /* an event from outside */
    CHECK(cudaStreamWaitEvent(s.main, s.forked, 0) == cudaErrorStreamCaptureIsolation);
    ends_with(cudaErrorStreamCaptureInvalidated);
    begin(); /* an event of a capture that has ended */
    CHECK_CUDA(cudaEventRecord(s.joined, s.main));
    CHECK_CUDA(cudaStreamEndCapture(s.main, &graph));
    CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK(cudaStreamWaitEvent(s.side, s.joined, 0) == cudaErrorCapturedEvent);
    CHECK(cudaEventSynchronize(s.joined) == cudaErrorCapturedEvent && cudaEventQuery(s.joined) == cudaErrorCapturedEvent);
    CHECK_CUDA(cudaEventRecord(s.joined, s.main));
    CHECK_CUDA(cudaEventSynchronize(s.joined));
    begin(); /* ended in another stream than it began in */
    CHECK_CUDA(cudaEventRecord(s.forked, s.main));
    CHECK_CUDA(cudaStreamWaitEvent(s.side, s.forked, 0));
    CHECK(cudaStreamEndCapture(s.side, &graph) == cudaErrorStreamCaptureUnmatched);
    ends_with(cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamEndCapture(s.main, &graph) == cudaErrorInvalidValue);
    CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(&memory)) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventRecord(nullptr, s.main) == cudaErrorInvalidResourceHandle);
    CHECK(a.get() == std::vector<float>(n, 2.0f));
    fxcu_quiet(0);
}
#endif

int main() {
    each_schedule("branches", [] { CHECK(branches_right(none)); });
    each_schedule("default stream", test_default_stream);
    each_schedule("copies", test_copies);
    each_schedule("events", test_events);
    each_schedule("graph", test_graph);
#ifdef FXCU_HOST
    expect_caught("fork without an event", schedules_that_fail([] { return branches_right(fork); }));
    expect_caught("join without an event", schedules_that_fail([] { return branches_right(join); }));
    expect_caught("overwritten too early", schedules_that_fail([] { return branches_right(overwrite); }));
    expect_caught("graph overwritten too early", schedules_that_fail([] { return graph_right(overwrite); }));
    test_refused_captures();
#endif
    return 0;
}
