/* Bad input to an emitted model, the case `embedding` of graphs.py: each has its status, CUDA's own with a text, and nothing leaks. Run in the folder of
 * the case; "torn.bin" and "other.bin" there are its weights but for the end, and those of another model.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "embedding/embedding.cu"

#include <vector>

#include "cuda_host/control.h"

static int wrong;

static void expect(const char *what, int status, int expected, const embedding_context *ctx)
{
    if (status == expected && (status != EMBEDDING_ERR_CUDA || *embedding_error(ctx)))
        return;
    fprintf(stderr, "%s: expected '%s', got '%s' (%s)\n", what, embedding_status_string(expected), embedding_status_string(status), embedding_error(ctx));
    wrong++;
}

static void create(const char *what, const embedding_config &config, int expected)
{
    embedding_context *ctx = nullptr;
    const int status = embedding_create(&ctx, &config);
    expect(what, status, expected, ctx);
    embedding_destroy(ctx);
    if (fxcu_alive()) {
        fprintf(stderr, "%s: %zu things leak\n", what, fxcu_alive());
        wrong++;
    }
}

static std::vector<char> read(const char *name)
{
    std::vector<char> data(EMBEDDING_WEIGHTS_SIZE);
    FILE *f = fopen(name, "rb");
    if (!f || fread(data.data(), 1, data.size(), f) != data.size())
        exit(2);
    fclose(f);
    return data;
}

int main()
{
    const embedding_config usual = {};
    embedding_context *ctx = nullptr;
    fxcu_quiet(1);
    expect("no place", embedding_create(nullptr, &usual), EMBEDDING_ERR_NULL, nullptr);
    expect("no configuration", embedding_create(&ctx, nullptr), EMBEDDING_ERR_NULL, nullptr);
    embedding_destroy(nullptr);
    create("as usual", usual, EMBEDDING_OK);

    embedding_config config = {};
    config.weights_file = "missing.bin";
    create("no file", config, EMBEDDING_ERR_FILE);
    config.weights_file = "torn.bin";
    create("a torn file", config, EMBEDDING_ERR_SIZE);
    config.weights_file = "other.bin";
    create("another model's", config, EMBEDDING_ERR_WEIGHTS);
    std::vector<char> weights = read("embedding.bin");
    config.weights = weights.data();
    config.weights_size = weights.size();
    create("in memory", config, EMBEDDING_OK);
    config.weights_size--;
    create("torn in memory", config, EMBEDDING_ERR_SIZE);
    config.weights_size++;
    weights[24] ^= 1;
    create("another model's in memory", config, EMBEDDING_ERR_WEIGHTS);

    config = {};
    config.device = 7;
    create("no such device", config, EMBEDDING_ERR_CUDA);
    fxcu_reset();
    const fxcu_device device = fxcu_get_device();
    int allocations = 0;
    for (int status = EMBEDDING_ERR_MEMORY; status != EMBEDDING_OK;) {
        fxcu_device failing = device;
        failing.fail_allocation = ++allocations;
        fxcu_set_device(failing);
        status = embedding_create(&ctx, &usual);
        if (status != EMBEDDING_OK)
            expect("an allocation fails", status, EMBEDDING_ERR_MEMORY, ctx);
        embedding_destroy(ctx);
        fxcu_reset();
    }
    if (allocations != 4) { /* arena, status, weights: each has failed */
        fprintf(stderr, "expected 3 allocations, got %d\n", allocations - 1);
        wrong++;
    }
    fxcu_device none = device;
    none.count = 0;
    fxcu_set_device(none);
    create("no device", usual, EMBEDDING_ERR_CUDA);
    fxcu_reset();

    void *buffer = nullptr;
    if (embedding_create(&ctx, &usual) != EMBEDDING_OK || cudaMalloc(&buffer, 4096) != cudaSuccess || cudaMemset(buffer, 0, 4096) != cudaSuccess)
        return 2;
    const int64_t *i = (const int64_t *)buffer;
    float *y = (float *)buffer + 256, *z = y + 256;
    expect("right", embedding_run(ctx, i, y, z, nullptr), EMBEDDING_OK, ctx);
    expect("waited for", embedding_wait(ctx, nullptr), EMBEDDING_OK, ctx);
    expect("no context", embedding_run(nullptr, i, y, z, nullptr), EMBEDDING_ERR_NULL, nullptr);
    expect("no input", embedding_run(ctx, nullptr, y, z, nullptr), EMBEDDING_ERR_NULL, ctx);
    expect("no output", embedding_run(ctx, i, y, nullptr, nullptr), EMBEDDING_ERR_NULL, ctx);
    expect("an input beside its type", embedding_run(ctx, (const int64_t *)((const char *)buffer + 4), y, z, nullptr), EMBEDDING_ERR_ALIGN, ctx);
    expect("an output written 16 bytes at a time, at 4", embedding_run(ctx, i, y, z + 1, nullptr), EMBEDDING_ERR_ALIGN, ctx);
    int64_t host[6] = {};
    int status = embedding_run(ctx, host, y, z, nullptr);
    status = status ? status : embedding_wait(ctx, nullptr);
    expect("a pointer of the host", status, EMBEDDING_ERR_CUDA, ctx);
    embedding_destroy(ctx);
    return wrong != 0;
}
