/* Bad input to emitted models: each has its status, a message that names what was wrong, and nothing leaks or ends the program.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "host.h"

#include <fcntl.h>
#include <fstream>

static std::vector<char> read(const char *name)
{
    std::vector<char> data(1 << 20);
    FILE *f = fopen(name, "rb");
    if (!f)
        exit(2);
    data.resize(fread(data.data(), 1, data.size(), f));
    fclose(f);
    return data;
}

/* A context that cannot be made: the reason is told, all functions refuse it, and all is freed. */
static void create(const char *what, const embedding_config &config, int expected, const char *message = "")
{
    embedding_context *ctx = nullptr;
    expect<embedding_model>(what, embedding_create(&ctx, &config), expected, ctx, message);
    if (expected != EMBEDDING_OK) {
        cudaGraphExec_t graph;
        expect<embedding_model>(what, embedding_run(ctx, nullptr, nullptr, nullptr, nullptr), EMBEDDING_ERR_CONTEXT, ctx, "embedding_create failed");
        expect<embedding_model>(what, embedding_capture(ctx, nullptr, nullptr, nullptr, &graph), EMBEDDING_ERR_CONTEXT, ctx);
        expect<embedding_model>(what, embedding_wait(ctx, nullptr), EMBEDDING_ERR_CONTEXT, ctx);
    }
    embedding_destroy(ctx);
    expect_none_alive(what);
}

/* Descriptors and mappings of files that this program has. */
static size_t files_held()
{
    size_t held = 0;
    for (int fd = 0; fd < 256; fd++)
        held += fcntl(fd, F_GETFD) >= 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        held += line.find(".bin") != std::string::npos;
    return held;
}

/* mapped: as files are read where they can be mapped. */
static void weights_files(bool mapped)
{
    const struct {
        const char *name;
        int status;
        const char *message;
    } files[] = {
        {"missing.bin", EMBEDDING_ERR_FILE, "missing.bin: No such file"},
        {".", EMBEDDING_ERR_FILE, ".: Is a directory"},
        {"empty.bin", EMBEDDING_ERR_SIZE, "empty.bin: expected 448 bytes, got 0"},
        {"torn.bin", EMBEDDING_ERR_SIZE, "torn.bin: expected 448 bytes, got 447"},
        {"long.bin", EMBEDDING_ERR_SIZE, mapped ? "long.bin: expected 448 bytes, got 449" : "long.bin: expected 448 bytes, got more"},
        {"/dev/null", mapped ? EMBEDDING_ERR_FILE : EMBEDDING_ERR_SIZE, mapped ? "/dev/null: No such device" : "/dev/null: expected 448 bytes, got 0"},
        {"kept/kept.bin", EMBEDDING_ERR_WEIGHTS, "kept/kept.bin: weights of another model"},
        {"text.bin", EMBEDDING_ERR_WEIGHTS, "text.bin: weights of another model, or not weights"},
        {"embedding/embedding.bin", EMBEDDING_OK, ""},
        {"trained/embedding.bin", EMBEDDING_OK, ""}, /* other values */
    };
    embedding_config config = {};
    const size_t held = files_held();
    create("no file in this folder", config, EMBEDDING_ERR_FILE, "embedding.bin: No such file");
    for (const auto &f : files) {
        config.weights_file = f.name;
        create(f.name, config, f.status, f.message);
    }
    expect_that("files are closed and unmapped", files_held() == held);
    std::vector<char> weights = read("embedding/embedding.bin");
    config = {};
    config.weights = weights.data();
    config.weights_size = weights.size();
    create("in memory", config, EMBEDDING_OK);
    config.weights_size--;
    create("torn in memory", config, EMBEDDING_ERR_SIZE, "config.weights: expected 448 bytes, got 447");
    config.weights_size += 2;
    create("too long in memory", config, EMBEDDING_ERR_SIZE, "got 449");
    config.weights_size--;
    weights[24] ^= 1;
    create("another model's in memory", config, EMBEDDING_ERR_WEIGHTS, "config.weights: weights of another model");
}

/* Each allocation of create fails in turn. Returns how many there are. */
template <class M> static int allocations(const typename M::config &config)
{
    const fxcu_device device = fxcu_get_device();
    for (int n = 1;; n++) {
        fxcu_device failing = device;
        failing.fail_allocation = n;
        fxcu_set_device(failing);
        typename M::context *ctx;
        const int status = M::create(&ctx, &config);
        if (status != 0)
            expect<M>("an allocation fails", status, M::memory, ctx, "device 0: cudaErrorMemoryAllocation");
        M::destroy(ctx);
        expect_none_alive("an allocation that fails");
        fxcu_reset();
        if (status == 0 || wrong)
            return n - 1;
    }
}

static void devices(const embedding_config &usual)
{
    embedding_config config = usual;
    for (int number : {7, -1}) {
        config.device = number;
        create("no such device", config, EMBEDDING_ERR_CUDA, "cudaErrorInvalidDevice");
        fxcu_reset();
    }
    fxcu_device device = fxcu_get_device();
    device.count = 0;
    fxcu_set_device(device);
    create("no device", usual, EMBEDDING_ERR_CUDA, "choosing the device, device 0: cudaErrorNoDevice");
    fxcu_reset();
    device = fxcu_get_device();
    device.image_major = device.major;
    device.image_minor = device.minor + 1;
    fxcu_set_device(device);
    create("no code for the device", usual, EMBEDDING_ERR_CUDA, "looking for code for the device, device 0: cudaErrorNoKernelImageForDevice");
    fxcu_reset();
    device = fxcu_get_device();
    device.memory = 100;
    fxcu_set_device(device);
    create("too small a device", usual, EMBEDDING_ERR_MEMORY, "allocating the arena, device 0: cudaErrorMemoryAllocation");
    fxcu_reset();
}

/* What run is given. */
static void pointers(embedding_config config)
{
    int64_t *i = on_device<int64_t>({0, 9, 4, 4, 1, 8});
    float *y = on_device(std::vector<float>(64)), *z = on_device(std::vector<float>(64)), host[48] = {};
    embedding_context *ctx;
    cudaGraphExec_t graph;
    expect<embedding_model>("made", embedding_create(&ctx, &config), EMBEDDING_OK, ctx);
    (void)cudaSetDevice(99); /* the caller's own mistake is nothing to a run */
    expect<embedding_model>("right", embedding_run(ctx, i, y, z, nullptr), EMBEDDING_OK, ctx);
    expect<embedding_model>("waited for", embedding_wait(ctx, nullptr), EMBEDDING_OK, ctx);
    expect<embedding_model>("no context", embedding_run(nullptr, i, y, z, nullptr), EMBEDDING_ERR_NULL, nullptr);
    expect<embedding_model>("no context", embedding_wait(nullptr, nullptr), EMBEDDING_ERR_NULL, nullptr);
    expect<embedding_model>("no input", embedding_run(ctx, nullptr, y, z, nullptr), EMBEDDING_ERR_NULL, ctx, "i is NULL");
    expect<embedding_model>("no output", embedding_run(ctx, i, y, nullptr, nullptr), EMBEDDING_ERR_NULL, ctx, "output1 is NULL");
    expect<embedding_model>("no arrays", embedding_run_v(ctx, nullptr, nullptr, nullptr), EMBEDDING_ERR_NULL, ctx);
    expect<embedding_model>("no place for a graph", embedding_capture(ctx, i, y, z, nullptr), EMBEDDING_ERR_NULL, ctx, "graph is NULL");
    expect<embedding_model>("a graph of no input", embedding_capture(ctx, nullptr, y, z, &graph), EMBEDDING_ERR_NULL, ctx, "i is NULL");
    expect_that("no graph where capture fails", graph == nullptr);
    expect<embedding_model>("an input beside its type", embedding_run(ctx, (const int64_t *)((const char *)i + 4), y, z, nullptr), EMBEDDING_ERR_ALIGN, ctx,
                            "i: expected a multiple of 8");
    expect<embedding_model>("an output written 16 bytes at a time, at 4", embedding_run(ctx, i, y, z + 1, nullptr), EMBEDDING_ERR_ALIGN, ctx, "output1: expected a multiple of 16");
    expect<embedding_model>("right again", embedding_run(ctx, i, y, z, nullptr), EMBEDDING_OK, ctx);
    expect_that("the message is gone", *embedding_error(ctx) == 0);
    expect<embedding_model>("waited for", embedding_wait(ctx, nullptr), EMBEDDING_OK, ctx);
    embedding_destroy(ctx);

    config.debug = 1;
    expect<embedding_model>("made", embedding_create(&ctx, &config), EMBEDDING_OK, ctx);
    expect<embedding_model>("right", embedding_run(ctx, i, y, z, nullptr), EMBEDDING_OK, ctx);
    expect<embedding_model>("a host's output", embedding_run(ctx, i, y, host, nullptr), EMBEDDING_ERR_POINTER, ctx, "output1: expected memory of device 0, got the host's");
    must(cudaFree(y));
    expect<embedding_model>("a freed output", embedding_run(ctx, i, y, z, nullptr), EMBEDDING_ERR_POINTER, ctx, "output0: expected memory of device 0");
    embedding_destroy(ctx);
    must(cudaFree(i));
    must(cudaFree(z));
    expect_none_alive("pointers");
}

/* A kernel fails, by writing past an output: told at once with its name where the context is for debugging, else by wait; whatever is called after
 * that fails, too, and all can still be freed. */
[[maybe_unused]] static void sticky(embedding_config config, int debug)
{
    int64_t *i = on_device<int64_t>({0, 9, 4, 4, 1, 8});
    float *y = on_device(std::vector<float>(1)), *z = on_device(std::vector<float>(48));
    embedding_context *ctx, *late;
    cudaGraphExec_t graph;
    config.debug = debug;
    expect<embedding_model>("made", embedding_create(&ctx, &config), EMBEDDING_OK, ctx);
    int status = embedding_run(ctx, i, z, y, nullptr);
    if (debug) {
        expect<embedding_model>("a kernel fails", status, EMBEDDING_ERR_CUDA, ctx, "embedding_");
        expect_that("the message has CUDA's word", strstr(embedding_error(ctx), "device 0: cudaErrorIllegalAddress"));
    } else {
        status = status == EMBEDDING_OK ? embedding_wait(ctx, nullptr) : status;
        expect<embedding_model>("a kernel fails", status, EMBEDDING_ERR_CUDA, ctx, "cudaErrorIllegalAddress");
    }
    expect<embedding_model>("run after it", embedding_run(ctx, i, z, z, nullptr), EMBEDDING_ERR_CUDA, ctx, "cudaErrorIllegalAddress");
    expect<embedding_model>("wait after it", embedding_wait(ctx, nullptr), EMBEDDING_ERR_CUDA, ctx, "cudaErrorIllegalAddress");
    expect<embedding_model>("capture after it", embedding_capture(ctx, i, z, z, &graph), EMBEDDING_ERR_CUDA, ctx, "cudaErrorIllegalAddress");
    expect<embedding_model>("create after it", embedding_create(&late, &config), EMBEDDING_ERR_CUDA, late, "cudaErrorIllegalAddress");
    embedding_destroy(late);
    embedding_destroy(ctx);
    (void)cudaFree(i);
    (void)cudaFree(y);
    (void)cudaFree(z);
    expect_none_alive("after a kernel that failed");
    fxcu_reset();
}

/* An index outside is told by wait, in whatever stream, and once. */
static void indices(const embedding_config &config)
{
    int64_t *i = on_device<int64_t>({0, 9, 4, 10, 1, 8});
    float *y = on_device(std::vector<float>(48)), *z = on_device(std::vector<float>(48));
    embedding_context *ctx;
    cudaStream_t stream;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    expect<embedding_model>("made", embedding_create(&ctx, &config), EMBEDDING_OK, ctx);
    expect<embedding_model>("run", embedding_run(ctx, i, y, z, stream), EMBEDDING_OK, ctx);
    expect_that("told by its status", strstr(embedding_status_string(embedding_wait(ctx, stream)), "out of range"));
    expect<embedding_model>("told once", embedding_wait(ctx, stream), EMBEDDING_OK, ctx);
    embedding_destroy(ctx);
    must(cudaStreamDestroy(stream));
    must(cudaFree(i));
    must(cudaFree(y));
    must(cudaFree(z));
    expect_none_alive("indices");
}

static void sizes()
{
    float *x = on_device(std::vector<float>(50 * 5)), *y = on_device(std::vector<float>(50 * 3)), *c = on_device(std::vector<float>(50 * 8)),
          *d = on_device(std::vector<float>(50 * 8));
    const open_dims most = {.s0 = 50}, larger = {.s0 = 51}, outside = {.s0 = 1001}, negative = {.s0 = -1}, none = {.s0 = 0};
    open_config config = {};
    open_context *ctx;
    config.most = &outside;
    expect<open_model>("a size outside its range", open_create(&ctx, &config), OPEN_ERR_S0, ctx);
    expect<open_model>("run without", open_run(ctx, &most, x, y, c, d, nullptr), OPEN_ERR_CONTEXT, ctx);
    open_destroy(ctx);
    config.most = &most;
    expect<open_model>("made", open_create(&ctx, &config), OPEN_OK, ctx);
    expect<open_model>("all of it", open_run(ctx, &most, x, y, c, d, nullptr), OPEN_OK, ctx);
    expect<open_model>("nothing", open_run(ctx, &none, x, y, c, d, nullptr), OPEN_OK, ctx);
    expect<open_model>("no sizes", open_run(ctx, nullptr, x, y, c, d, nullptr), OPEN_ERR_NULL, ctx, "dims is NULL");
    expect<open_model>("more than create was told", open_run(ctx, &larger, x, y, c, d, nullptr), OPEN_ERR_SIZE, ctx, "config.most made");
    expect<open_model>("a size outside its range", open_run(ctx, &outside, x, y, c, d, nullptr), OPEN_ERR_S0, ctx);
    expect<open_model>("a negative size", open_run(ctx, &negative, x, y, c, d, nullptr), OPEN_ERR_S0, ctx);
    const int64_t shape_x[] = {7, 5}, shape_y[] = {8, 3}, deep_y[] = {7, 4};
    const int64_t *shapes[] = {shape_x, shape_y};
    open_dims dims;
    expect<open_model>("shapes that contradict each other", open_dims_of(&dims, shapes), OPEN_ERR_SHAPE, ctx);
    shapes[1] = deep_y;
    expect<open_model>("a wrong shape", open_dims_of(&dims, shapes), OPEN_ERR_SHAPE, ctx);
    expect<open_model>("waited for", open_wait(ctx, nullptr), OPEN_OK, ctx);
    open_destroy(ctx);
    for (float *one : {x, y, c, d})
        must(cudaFree(one));
    expect_none_alive("sizes");
}

static void states(const kept_config &config)
{
    kept_context *ctx;
    expect<kept_model>("no context", kept_state_init(nullptr, nullptr), KEPT_ERR_NULL, nullptr);
    expect_that("no state without a context", kept_state(nullptr) == nullptr);
    kept_config bad = config;
    bad.weights_file = "missing.bin";
    expect<kept_model>("no weights", kept_create(&ctx, &bad), KEPT_ERR_FILE, ctx);
    expect<kept_model>("half made", kept_state_init(ctx, nullptr), KEPT_ERR_CONTEXT, ctx);
    kept_destroy(ctx);
    expect_none_alive("states");
}

/* Products where cuBLASLt has no answer: our own kernel's, with the same result. Nothing of cuBLASLt's is left. */
static void products(const dense_config &config)
{
    for (int refuses = 0; refuses < 3; refuses++) {
        fxcu_device device = fxcu_get_device();
        device.lt_refuses = refuses;
        fxcu_set_device(device);
        float *x = on_device(std::vector<float>(5 * 16, 0.25f)), *y = on_device(std::vector<float>(5 * 8));
        dense_context *ctx;
        expect<dense_model>("made", dense_create(&ctx, &config), DENSE_OK, ctx);
        device.fail_allocation = 1; /* nothing is allocated from here on */
        fxcu_set_device(device);
        expect<dense_model>("run", dense_run(ctx, x, y, nullptr), DENSE_OK, ctx);
        expect<dense_model>("waited for", dense_wait(ctx, nullptr), DENSE_OK, ctx);
        expect_that("the sum of relu(2 + b), a quarter of it", on_host(y, 5 * 8) == std::vector<float>(5 * 8, (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8) / 4.0f));
        expect_that("no allocation after create", fxcu_get_device().fail_allocation == 1);
        dense_destroy(ctx);
        must(cudaFree(x));
        must(cudaFree(y));
        expect_none_alive("products");
        fxcu_reset();
    }
}

/* faults [pieces]: of programs that read files piece by piece. */
int main(int argc, char **argv)
{
    const bool mapped = !(argc > 1 && strcmp(argv[1], "pieces") == 0);
    embedding_context *ctx = (embedding_context *)&ctx;
    embedding_config usual = {};
    usual.weights_file = "embedding/embedding.bin";
    kept_config kept = {};
    kept.weights_file = "kept/kept.bin";
    fxcu_quiet(1);
    expect<embedding_model>("no place", embedding_create(nullptr, &usual), EMBEDDING_ERR_NULL, nullptr);
    expect<embedding_model>("no configuration", embedding_create(&ctx, nullptr), EMBEDDING_ERR_NULL, nullptr);
    expect_that("no context then", ctx == nullptr);
    embedding_destroy(nullptr);
    create("as usual", usual, EMBEDDING_OK);
    weights_files(mapped);
    if (!mapped)
        return wrong != 0;
    expect_that("arena, status, weights", allocations<embedding_model>(usual) >= 3);
    expect_that("state, weights", allocations<kept_model>(kept) >= 2);
    expect_that("arena", allocations<open_model>({}) >= 1);
    dense_config dense = {};
    dense.weights_file = "dense/dense.bin";
    expect_that("arena, weights", allocations<dense_model>(dense) >= 2);
    products(dense);
    devices(usual);
    pointers(usual);
#ifndef __SANITIZE_ADDRESS__ /* which ends the program at such a write */
    sticky(usual, 0);
    sticky(usual, 1);
#endif
    indices(usual);
    sizes();
    states(kept);
    return wrong != 0;
}
