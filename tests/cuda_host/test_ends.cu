/* Faults that end the program: host code that touches device memory, and what the sanitizers find. Each in a process of its own.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

__global__ void read_next(const float *in, float *out, int at) { out[0] = in[at]; }
__global__ void write_vector(float *out) { *reinterpret_cast<float4 *>(out) = make_float4(1.0f, 2.0f, 3.0f, 4.0f); }
__global__ void past_tile(float *out, int at) {
    __shared__ float tile[32];
    tile[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = tile[at];
}
__global__ void past_tile_by_pointer(float *out, int at) {
    __shared__ float tile[32];
    float *p = tile;
    p[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = p[at];
}
__global__ void past_dynamic(float *out, int at) {
    FXCC_DYN_SMEM(float, dynamic);
    dynamic[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = dynamic[at];
}

#ifdef FXCU_HOST
#include <sys/wait.h>
#include <unistd.h>

/* Runs it in a child, which has to end badly and to say all the parts. */
template <class F> static void expect_end(const char *name, const std::vector<const char *> &parts, F run) {
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(pipes[1], 2);
        close(pipes[0]);
        run();
        cudaDeviceSynchronize();
        _exit(0);
    }
    close(pipes[1]);
    std::vector<char> text;
    char part[4096];
    for (ssize_t n; (n = read(pipes[0], part, sizeof part)) > 0;) {
        text.insert(text.end(), part, part + n);
    }
    text.push_back('\0');
    close(pipes[0]);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        fprintf(stderr, "%s: ended well, and said '%s'\n", name, text.data());
        exit(1);
    }
    for (const char *wanted : parts) {
        if (strstr(text.data(), wanted) == nullptr) {
            fprintf(stderr, "%s: '%s' is not in '%s'\n", name, wanted, text.data());
            exit(1);
        }
    }
    printf("%s: %.*s\n", name, static_cast<int>(strcspn(text.data(), "\n")), text.data());
}

template <class T> static T *device(size_t n) {
    T *at;
    CHECK_CUDA(cudaMalloc(&at, n * sizeof(T)));
    return at;
}

int main() {
    expect_end("host code reads device memory", {"cuda_host: host code: access to 0x", "at byte 8 of device buffer 1 of 16 bytes"}, [] {
        volatile float *at = device<float>(4);
        at[0] = at[2];
    });
    expect_end("host code reads device memory after a launch",
               {"cuda_host: host code: access to 0x", "at byte 0 of device buffer 1 of 16 bytes"}, [] {
                   float *at = device<float>(4);
                   CHECK_CUDA(FXCC_LAUNCH(read_next, 1, 1, 0, nullptr, at, at, 1));
                   CHECK_CUDA(cudaDeviceSynchronize());
                   printf("%f", static_cast<double>(*static_cast<volatile float *>(at)));
               });
    if (with_asan) {
        expect_end("past a small buffer",
                   {"cuda_host: kernel read_next, block (0,0,0), thread (0,0,0):", "AddressSanitizer: use-after-poison", "test_ends.cu:5"},
                   [] { CHECK_CUDA(FXCC_LAUNCH(read_next, 1, 1, 0, nullptr, device<float>(10), device<float>(1), 10)); });
        expect_end("past a tile",
                   {"cuda_host: kernel past_tile, block (0,0,0), thread (", "test_ends.cu:11", "index 32 out of bounds for type 'float"},
                   [] { CHECK_CUDA(FXCC_LAUNCH(past_tile, 1, 32, 0, nullptr, device<float>(32), 32)); });
        expect_end("past dynamic shared memory",
                   {"cuda_host: kernel past_dynamic, block (0,0,0), thread (", "AddressSanitizer: use-after-poison", "test_ends.cu:24"},
                   [] { CHECK_CUDA(FXCC_LAUNCH(past_dynamic, 1, 32, 33 * sizeof(float), nullptr, device<float>(32), 33)); });
#ifdef __clang__ /* gcc has no fences in thread-local memory */
        expect_end("past a tile by a pointer",
                   {"cuda_host: kernel past_tile_by_pointer, block (0,0,0), thread (", "AddressSanitizer: global-buffer-overflow"},
                   [] { CHECK_CUDA(FXCC_LAUNCH(past_tile_by_pointer, 1, 32, 0, nullptr, device<float>(32), 32)); });
#else /* clang does not look at copies of structures */
        expect_end("misaligned vector",
                   {"cuda_host: kernel write_vector, block (0,0,0), thread (0,0,0):", "test_ends.cu:6", "misaligned address"},
                   [] { CHECK_CUDA(FXCC_LAUNCH(write_vector, 1, 1, 0, nullptr, device<float>(8) + 1)); });
#endif
    }
    return 0;
}
#else
int main() {
    printf("faults are the host's to find\n");
    return 0;
}
#endif
