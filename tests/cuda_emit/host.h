/* What the programs share that test the host part of emitted CUDA (tests/cuda_emit/test_host.py emits the models).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "dense/dense.h"
#include "embedding/embedding.h"
#include "kept/kept.h"
#include "open/open.h"

#include "cuda_host/control.h"

static int wrong;

/* Of any model: names that the tests below use. */
#define MODEL(net, NET) \
    struct net##_model { \
        typedef net##_context context; \
        typedef net##_config config; \
        static constexpr const char *name = #net; \
        static constexpr int cuda = NET##_ERR_CUDA, memory = NET##_ERR_MEMORY; \
        static int create(context **ctx, const config *c) { return net##_create(ctx, c); } \
        static void destroy(context *ctx) { net##_destroy(ctx); } \
        static const char *text(int status) { return net##_status_string(status); } \
        static const char *error(const context *ctx) { return net##_error(ctx); } \
    }
MODEL(dense, DENSE);
MODEL(embedding, EMBEDDING);
MODEL(kept, KEPT);
MODEL(open, OPEN);

/* A status, and what the message must have in it; ctx by reference, as the call that gives the status may make it. */
template <class M> static bool expect(const char *what, int status, int expected, typename M::context *const &ctx, const char *message = "")
{
    if (status == expected && strstr(M::error(ctx), message))
        return true;
    fprintf(stderr, "%s, %s: expected '%s' and '%s', got '%s' and '%s'\n", M::name, what, M::text(expected), message, M::text(status), M::error(ctx));
    wrong++;
    return false;
}

static void expect_that(const char *what, bool good)
{
    if (good)
        return;
    fprintf(stderr, "%s: not so\n", what);
    wrong++;
}

static void expect_none_alive(const char *what)
{
    if (fxcu_alive() == 0)
        return;
    fprintf(stderr, "%s: %zu things leak\n", what, fxcu_alive());
    wrong++;
}

static void must(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "the test itself: %s: %s\n", cudaGetErrorName(error), fxcu_message());
    exit(2);
}

template <class T> static T *on_device(const std::vector<T> &data)
{
    void *at = nullptr;
    must(cudaMalloc(&at, data.size() * sizeof(T)));
    must(cudaMemcpy(at, data.data(), data.size() * sizeof(T), cudaMemcpyHostToDevice));
    must(cudaDeviceSynchronize());
    return static_cast<T *>(at);
}

template <class T> static std::vector<T> on_host(const T *at, size_t n)
{
    std::vector<T> data(n);
    must(cudaMemcpy(data.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost));
    return data;
}
