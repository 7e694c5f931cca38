/* One emitted model as a program of its own: computes, and times itself. Compiled once a model by prepare, with the model's folder as an include path.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 *   NAME facts                             what the device is, a line of JSON
 *   NAME copy BYTES                        seconds of a copy of so many bytes within the device
 *   NAME run FOLDER OUT_BYTES...           FOLDER/in0.bin, ... and FOLDER/net.bin to FOLDER/out0.bin, ...; then as a graph, which must give the same bytes
 *   NAME time FOLDER SECONDS OUT_BYTES...  seconds of a run, on a stream and as a graph: medians of batches between two events
 *   NAME steps FOLDER RUNS OUT_BYTES...    seconds of each call that gives the stream work, medians over runs
 *
 * 0: done. 1: what is on standard error. 3: there is no device to run on. */
#include <cuda_runtime.h>

#define NET_TELL(what, stream) bench_tell(what, stream)
static void bench_tell(const char *what, cudaStream_t stream);
#include "net.cu"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#ifndef __CUDACC__
#include "cuda_host/control.h"
#endif

namespace {

enum { DONE = 0, FAILED = 1, NO_DEVICE = 3 };

struct failed {
    std::string message;
};

void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        throw failed{std::string(what) + ": " + cudaGetErrorString(error)};
}
#define CHECK(call) check(call, #call)

std::vector<char> read_file(const std::string &path)
{
    FILE *f = fopen(path.c_str(), "rb");
    if (!f)
        throw failed{path + ": " + strerror(errno)};
    std::vector<char> data;
    char block[1 << 16];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        data.insert(data.end(), block, block + n);
    fclose(f);
    return data;
}

void write_file(const std::string &path, const std::vector<char> &data)
{
    FILE *f = fopen(path.c_str(), "wb");
    bool whole = f && fwrite(data.data(), 1, data.size(), f) == data.size();
    whole = f && fclose(f) == 0 && whole;
    if (!whole)
        throw failed{path + ": " + strerror(errno)};
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/* ---- the model ----------------------------------------------------------------------------------------------------- */

/* Side streams of the emitted file's, where it has some. */
template <class C> auto side_streams(const C *ctx, int) -> decltype(ctx->side[0], std::vector<cudaStream_t>())
{
    return {std::begin(ctx->side), std::end(ctx->side)};
}
template <class C> std::vector<cudaStream_t> side_streams(const C *, long)
{
    return {};
}

class model {
public:
    model(std::string from, const std::vector<size_t> &out_sizes) : folder(std::move(from)), weights(folder + "/net.bin"), sizes(out_sizes)
    {
        if (sizes.size() != NET_OUTPUTS)
            throw failed{"expected the bytes of " + std::to_string(NET_OUTPUTS) + " outputs, got " + std::to_string(sizes.size())};
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        net_config config = {};
        give_weights(config, 0);
        told(net_create(&ctx, &config));
        for (int i = 0; i < NET_INPUTS; i++) {
            const std::vector<char> data = read_file(folder + "/in" + std::to_string(i) + ".bin");
            void *in = memory(data.size());
            CHECK(cudaMemcpy(in, data.data(), data.size(), cudaMemcpyHostToDevice));
            ins.push_back(in);
        }
        for (size_t size : sizes)
            outs.push_back(memory(size));
        CHECK(cudaDeviceSynchronize()); /* the stream does not wait for copies of the default one */
    }

    model(const model &) = delete;
    model &operator=(const model &) = delete;

    ~model()
    {
        if (graph)
            (void)cudaGraphExecDestroy(graph);
        for (void *p : owned)
            (void)cudaFree(p);
        net_destroy(ctx);
        (void)cudaStreamDestroy(stream);
    }

    void run()
    {
        told(net_run_v(ctx, ins.data(), outs.data(), stream));
    }

    void run_graph()
    {
        CHECK(cudaGraphLaunch(graph, stream));
    }

    void wait()
    {
        told(net_wait(ctx, stream));
    }

    void capture()
    {
        cudaGraph_t captured;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        run();
        CHECK(cudaStreamEndCapture(stream, &captured));
        CHECK(cudaGraphInstantiateWithFlags(&graph, captured, 0));
        CHECK(cudaGraphDestroy(captured));
    }

    /* All bytes ones, which is NaN: what is not written shows. */
    void poison()
    {
        for (size_t i = 0; i < outs.size(); i++)
            CHECK(cudaMemset(outs[i], 255, sizes[i]));
        CHECK(cudaDeviceSynchronize());
    }

    std::vector<std::vector<char>> results()
    {
        std::vector<std::vector<char>> all;
        for (size_t i = 0; i < outs.size(); i++) {
            all.emplace_back(sizes[i]);
            CHECK(cudaMemcpy(all.back().data(), outs[i], sizes[i], cudaMemcpyDeviceToHost));
        }
        return all;
    }

    std::string folder;
    cudaStream_t stream = nullptr;
    /* What the streams are given from here on waits for the event: so that layers come one after another, those of side streams, too. */
    void in_line(cudaEvent_t event) const
    {
        CHECK(cudaStreamWaitEvent(stream, event, 0));
        for (const cudaStream_t side : side_streams(ctx, 0))
            CHECK(cudaStreamWaitEvent(side, event, 0));
    }

private:
    /* Models without weights have no file of them in their configuration. */
    template <typename C> auto give_weights(C &config, int) -> decltype(config.weights_file, void())
    {
        config.weights_file = weights.c_str();
    }
    template <typename C> void give_weights(C &, long)
    {
    }

    void told(int status)
    {
        if (status != NET_OK)
            throw failed{std::string(net_status_string(status)) + ": " + net_error(ctx)};
    }

    void *memory(size_t size)
    {
        void *p = nullptr;
        CHECK(cudaMalloc(&p, size ? size : 1));
        owned.push_back(p);
        return p;
    }

    std::string weights;
    std::vector<size_t> sizes;
    net_context *ctx = nullptr;
    cudaGraphExec_t graph = nullptr;
    std::vector<void *> owned, outs;
    std::vector<const void *> ins;
};

/* ---- times --------------------------------------------------------------------------------------------------------- */

struct event {
    cudaEvent_t e = nullptr;
    event()
    {
        CHECK(cudaEventCreate(&e));
    }
    event(const event &) = delete;
    event &operator=(const event &) = delete;
    ~event()
    {
        (void)cudaEventDestroy(e);
    }
};

double between(const event &a, const event &b)
{
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, a.e, b.e));
    return ms / 1e3;
}

template <typename F> double batch(cudaStream_t stream, const event &a, const event &b, int runs, F run)
{
    CHECK(cudaEventRecord(a.e, stream));
    for (int i = 0; i < runs; i++)
        run();
    CHECK(cudaEventRecord(b.e, stream));
    CHECK(cudaEventSynchronize(b.e));
    return between(a, b) / runs;
}

/* Batches of at least 2 ms for so many seconds, 3 at least: what a run takes, as the fields of a JSON object. */
template <typename F> std::string measure(cudaStream_t stream, double seconds, F run)
{
    using clock = std::chrono::steady_clock;
    const event a, b;
    for (int i = 0; i < 3; i++)
        (void)batch(stream, a, b, 1, run); /* what is made lazily */
    const double one = batch(stream, a, b, 1, run);
    const int runs = static_cast<int>(std::min(200.0, std::max(1.0, 2e-3 / std::max(one, 1e-6))));
    std::vector<double> times;
    const auto end = clock::now() + std::chrono::duration<double>(seconds);
    while (times.size() < 3 || (clock::now() < end && times.size() < 10000))
        times.push_back(batch(stream, a, b, runs, run));
    char text[200];
    snprintf(text, sizeof text, "{\"median_s\": %.9g, \"min_s\": %.9g, \"batches\": %zu, \"runs\": %d}", median(times),
             *std::min_element(times.begin(), times.end()), times.size(), runs);
    return text;
}

/* The calls of a run: an event behind each, for which the next one waits; names. */
struct telling {
    const model *of = nullptr;
    std::vector<const char *> names;
    std::vector<event> *events = nullptr; /* none: nobody asks */
} tells;

/* Keeps the stream waiting until all of a run is in its queue, so that no kernel waits for the host; but not for long, as a queue has an end. */
std::atomic<bool> queued;
void gate(void *)
{
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (!queued.load() && std::chrono::steady_clock::now() < end) {
    }
}

void print_steps(model &m, int runs)
{
    m.run();
    m.wait();
    std::vector<event> none, events;
    tells.of = &m;
    tells.events = &none;
    m.run(); /* counts them */
    m.wait();
    const size_t n = tells.names.size();
    std::vector<event>(n + 1).swap(events);
    std::vector<std::vector<double>> times(n);
    for (int r = 0; r < runs; r++) {
        tells.names.clear();
        tells.events = &events;
        queued = false;
        CHECK(cudaLaunchHostFunc(m.stream, gate, nullptr));
        CHECK(cudaEventRecord(events[0].e, m.stream));
        m.run();
        queued = true;
        m.wait();
        for (size_t i = 0; i < n; i++)
            times[i].push_back(between(events[i], events[i + 1]));
    }
    tells.events = nullptr;
    printf("[");
    for (size_t i = 0; i < n; i++)
        printf("%s{\"name\": \"%s\", \"median_s\": %.9g}", i ? ",\n " : "", tells.names[i], median(times[i]));
    printf("]\n");
}

/* ---- what is asked ------------------------------------------------------------------------------------------------- */

std::string escaped(const char *text)
{
    std::string out;
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            out += '\\';
        out += *text;
    }
    return out;
}

void print_facts()
{
    cudaDeviceProp p;
    int driver = 0, runtime = 0, clock = 0, bits = 0, l2 = 0;
    CHECK(cudaGetDeviceProperties(&p, 0));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
#ifdef __CUDACC__
    const bool real = true;
    CHECK(cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, 0));
    CHECK(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0));
    CHECK(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0));
#else
    const bool real = false; /* the host's CUDA: it says what it stands for, and times nothing */
#endif
    /* Two transfers a clock, bits / 8 bytes each. */
    printf("{\"name\": \"%s\", \"gpu\": %s, \"capability\": \"%d.%d\", \"multiprocessors\": %d, \"memory_bytes\": %zu, \"l2_bytes\": %d, "
           "\"memory_clock_khz\": %d, \"bus_bits\": %d, \"peak_bytes_s\": %.6g, \"cuda_driver\": %d, \"cuda_runtime\": %d}\n",
           escaped(p.name).c_str(), real ? "true" : "false", p.major, p.minor, p.multiProcessorCount, p.totalGlobalMem, l2, clock, bits,
           2e3 * clock * bits / 8, driver, runtime);
}

void print_copy(size_t bytes)
{
    void *a = nullptr, *b = nullptr;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaMemset(a, 1, bytes));
    CHECK(cudaDeviceSynchronize());
    printf("%s\n", measure(stream, 0.5, [=] { CHECK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, stream)); }).c_str());
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaStreamDestroy(stream));
}

void run_both(model &m)
{
    m.poison();
    m.run();
    m.wait();
    const std::vector<std::vector<char>> first = m.results();
    for (size_t i = 0; i < first.size(); i++)
        write_file(m.folder + "/out" + std::to_string(i) + ".bin", first[i]);
    m.capture();
    m.poison();
    m.run_graph();
    m.wait();
    if (m.results() != first)
        throw failed{"the graph of a run gives other bytes than the run"};
    printf("{\"graph\": \"the same bytes\"}\n");
}

void print_times(model &m, double seconds)
{
    const std::string direct = measure(m.stream, seconds, [&] { m.run(); });
    m.capture();
    const std::string graph = measure(m.stream, seconds, [&] { m.run_graph(); });
    m.wait();
    printf("{\"stream\": %s, \"graph\": %s}\n", direct.c_str(), graph.c_str());
}

int answer(int argc, char **argv)
{
    const std::string what = argc > 1 ? argv[1] : "";
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || !devices) {
        fprintf(stderr, "there is no device: %s\n", error != cudaSuccess ? cudaGetErrorString(error) : "CUDA counts none");
        return NO_DEVICE;
    }
    if (what == "facts" && argc == 2) {
        print_facts();
        return DONE;
    }
    if (what == "copy" && argc == 3) {
        print_copy(strtoull(argv[2], nullptr, 10));
        return DONE;
    }
    const int first = what == "run" ? 3 : what == "time" || what == "steps" ? 4 : argc + 1;
    if (argc < first)
        throw failed{"expected facts, copy BYTES, run FOLDER OUT_BYTES..., time FOLDER SECONDS OUT_BYTES... or steps FOLDER RUNS OUT_BYTES..."};
    std::vector<size_t> sizes;
    for (int i = first; i < argc; i++)
        sizes.push_back(strtoull(argv[i], nullptr, 10));
    model m(argv[2], sizes);
    if (what == "run")
        run_both(m);
    else if (what == "time")
        print_times(m, atof(argv[3]));
    else
        print_steps(m, std::max(1, atoi(argv[3])));
    return DONE;
}

} // namespace

static void bench_tell(const char *what, cudaStream_t stream)
{
    if (!tells.events)
        return;
    tells.names.push_back(what);
    if (tells.names.size() >= tells.events->size())
        return;
    const cudaEvent_t done = (*tells.events)[tells.names.size()].e;
    CHECK(cudaEventRecord(done, stream));
    tells.of->in_line(done);
}

int main(int argc, char **argv)
{
#ifndef __CUDACC__
    if (getenv("FXCU_NO_DEVICE")) { /* for tests */
        fxcu_device none = fxcu_get_device();
        none.count = 0;
        fxcu_set_device(none);
    }
#endif
    try {
        return answer(argc, argv);
    } catch (const failed &f) {
        fprintf(stderr, "%s\n", f.message.c_str());
        return FAILED;
    }
}
