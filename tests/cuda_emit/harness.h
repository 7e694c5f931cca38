/* Runs emitted models on the host's CUDA, under all its schedules: what tests/cuda_emit/test_emit.py compiles beside them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <functional>
#include <string>
#include <vector>

#include "cuda_host/control.h"

/* A file in full; `size` bytes are expected. */
static std::vector<char> test_read(const std::string &name, size_t size)
{
    std::vector<char> data(size);
    FILE *f = fopen(name.c_str(), "rb");
    if (!f || (size && fread(data.data(), 1, size, f) != size)) {
        fprintf(stderr, "%s: expected %zu bytes\n", name.c_str(), size);
        exit(2);
    }
    fclose(f);
    return data;
}

static void test_write(const std::string &name, const std::vector<char> &data)
{
    FILE *f = fopen(name.c_str(), "wb");
    if (!f || (!data.empty() && fwrite(data.data(), 1, data.size(), f) != data.size()) || fclose(f)) {
        fprintf(stderr, "%s: cannot be written\n", name.c_str());
        exit(2);
    }
}

/* A buffer of the device with these bytes. */
struct test_buffer {
    void *at = nullptr;
    size_t size;
    explicit test_buffer(const std::vector<char> &data) : size(data.size())
    {
        if (cudaMalloc(&at, size + 1) != cudaSuccess || cudaMemcpy(at, data.data(), size, cudaMemcpyHostToDevice) != cudaSuccess)
            exit(2);
    }
    std::vector<char> read() const
    {
        std::vector<char> data(size);
        if (size && cudaMemcpy(data.data(), at, size, cudaMemcpyDeviceToHost) != cudaSuccess)
            exit(2);
        return data;
    }
    ~test_buffer() { (void)cudaFree(at); }
    test_buffer(const test_buffer &) = delete;
};

template <class context> struct test_model {
    const char *name;
    std::function<int(context **)> create;
    int (*wait)(context *, cudaStream_t);
    void (*destroy)(context *);
    const char *(*status_string)(int);
    const char *(*error)(const context *);
};

/* One case: inputs are the files CASE.in0, ..., outputs become CASE.out0, ..., and inputs after the run CASE.after0, ... The run may fail: then with
 * the status whose text is `fails`. Returns how many things were wrong. */
template <class context>
static int test_run(const test_model<context> &m, const std::string &label, const std::function<int(context *, void *const *, void *const *, cudaStream_t)> &run,
                    const std::vector<size_t> &in_sizes, const std::vector<size_t> &out_sizes, const std::string &fails)
{
    int wrong = 0;
    std::vector<std::vector<char>> first;
#ifdef __SANITIZE_ADDRESS__
    const int step = 3; /* which run many times as long; other builds have all schedules */
#else
    const int step = 1;
#endif
    for (int schedule = 0; schedule < FXCU_SCHEDULES; schedule += step) {
        fxcu_reset();
        fxcu_set_schedule_number(schedule);
        context *ctx = nullptr;
        std::vector<std::vector<char>> results;
        std::string said;
        {
            cudaStream_t stream = nullptr;
            std::vector<test_buffer *> ins, outs;
            std::vector<void *> in_at, out_at;
            for (size_t i = 0; i < in_sizes.size(); i++) {
                ins.push_back(new test_buffer(test_read(label + ".in" + std::to_string(i), in_sizes[i])));
                in_at.push_back(ins.back()->at);
            }
            for (size_t size : out_sizes) {
                outs.push_back(new test_buffer(std::vector<char>(size, (char)0xCD)));
                out_at.push_back(outs.back()->at);
            }
            int status = m.create(&ctx);
            if (status == 0 && cudaStreamCreate(&stream) != cudaSuccess)
                exit(2);
            if (status == 0)
                status = run(ctx, in_at.data(), out_at.data(), stream);
            if (status == 0)
                status = m.wait(ctx, stream);
            said = status ? m.status_string(status) : "";
            if (said != fails) {
                fprintf(stderr, "%s, %s: expected '%s', got '%s' (%s)\n", label.c_str(), fxcu_schedule_name(schedule), fails.c_str(), said.c_str(), m.error(ctx));
                wrong++;
            }
            if (status != 0 && m.wait(ctx, stream) != 0) { /* told once */
                fprintf(stderr, "%s: a failure is told twice\n", label.c_str());
                wrong++;
            }
            for (const test_buffer *b : outs)
                results.push_back(b->read());
            for (const test_buffer *b : ins)
                results.push_back(b->read());
            (void)cudaStreamDestroy(stream);
            m.destroy(ctx);
            for (test_buffer *b : ins)
                delete b;
            for (test_buffer *b : outs)
                delete b;
        }
        if (fxcu_alive()) {
            fprintf(stderr, "%s: %zu things leak\n", label.c_str(), fxcu_alive());
            wrong++;
        }
        if (schedule == 0)
            first = results;
        else if (fails.empty() && results != first) {
            fprintf(stderr, "%s: another result under schedule %s\n", label.c_str(), fxcu_schedule_name(schedule));
            wrong++;
        }
    }
    for (size_t i = 0; i < first.size(); i++) {
        bool out = i < out_sizes.size();
        test_write(label + (out ? ".out" : ".after") + std::to_string(out ? i : i - out_sizes.size()), first[i]);
    }
    return wrong;
}
