/* What src/race.cpp finds in one run, whatever the schedule: compiled with -fsanitize=thread (make RACES=1).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

/* ---- wrong ---- */

__global__ void lost_update(int *x) { x[0] += 1; }
__global__ void same_value(int *x) { x[threadIdx.x / 2] = 1; }
__global__ void no_barrier(float *out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = 1.0f;
    out[threadIdx.x] = tile[threadIdx.x ^ 32];
}
__global__ void no_barrier_of_vectors(const float4 *in, float4 *out) {
    __shared__ float4 tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = tile[threadIdx.x ^ 32];
}
__global__ void overwrites(float *out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = 1.0f;
    __syncthreads();
    const float other = tile[63 - threadIdx.x];
    tile[threadIdx.x] = other; /* which thread 63 - t may not have read yet */
    out[threadIdx.x] = other;
}
__global__ void shuffle_is_no_barrier(float *out) {
    __shared__ float tile[32];
    tile[threadIdx.x] = __shfl_xor_sync(0xffffffff, static_cast<float>(threadIdx.x), 1);
    const float x = __shfl_xor_sync(0xffffffff, 1.0f, 1);
    out[threadIdx.x] = tile[threadIdx.x ^ 1] + x;
}
__global__ void two_blocks(float *out) { out[threadIdx.x] = static_cast<float>(blockIdx.x); }
__global__ void reads_other_block(float *x) {
    if (blockIdx.x == 0) {
        x[threadIdx.x] = 1.0f;
    } else {
        x[32 + threadIdx.x] = x[31 - threadIdx.x];
    }
}
__global__ void plain_and_atomic(int *x) {
    if (threadIdx.x == 0) {
        x[0] = 5;
    } else {
        atomicAdd(x, 1);
    }
}
__global__ void unwritten(float *out) {
    __shared__ float tile[64];
    if (threadIdx.x != 5) {
        tile[threadIdx.x] = 1.0f;
    }
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
__global__ void next_to_buffer(const float *in, float *out, int at) { out[0] = in[at]; }
__global__ void next_to_tile(float *out, int at) {
    __shared__ float tile[32];
    float *p = tile;
    p[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = p[at];
}

/* The last block of a launch adds what each has left; `Missing` is left out of it. */
enum { NOTHING, FIRST_FENCE, SECOND_FENCE, COUNTER, BARRIER_BEFORE, BARRIER_BEHIND };
template <int Missing> __global__ void last_block(float *parts, int *count, float *out) {
    __shared__ bool last;
    parts[blockIdx.x * 64 + threadIdx.x] = 1.0f;
    if (Missing != BARRIER_BEFORE) {
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        if (Missing != FIRST_FENCE) {
            __threadfence();
        }
        last = Missing == COUNTER || atomicAdd(count, 1) == static_cast<int>(gridDim.x) - 1;
        if (Missing != SECOND_FENCE) {
            __threadfence();
        }
    }
    if (Missing != BARRIER_BEHIND) {
        __syncthreads();
    }
    if (Missing == BARRIER_BEHIND || last) {
        float sum = 0.0f;
        for (unsigned i = 0; i < gridDim.x; i++) {
            sum += __ldcg(&parts[i * 64 + (threadIdx.x ^ 32)]);
        }
        if (Missing != COUNTER || sum > 0.0f) {
            out[threadIdx.x] = sum;
        }
        if (threadIdx.x == 0 && Missing != COUNTER) {
            atomicExch(count, 0);
        }
    }
}
/* The same of blocks of a thread, as the programming guide has it; the fence does not cover what is written behind it. */
template <bool Behind> __global__ void last_thread(float *parts, unsigned *count, float *out) {
    if (!Behind) {
        parts[blockIdx.x] = 1.0f;
    }
    __threadfence();
    if (Behind) {
        parts[blockIdx.x] = 1.0f;
    }
    if (atomicInc(count, gridDim.x - 1) == gridDim.x - 1) {
        __threadfence();
        out[0] = 0.0f;
        for (unsigned i = 0; i < gridDim.x; i++) {
            out[0] += parts[i];
        }
    }
}

/* ---- right ---- */

__global__ void vectors(const float4 *in, float4 *out) {
    __shared__ float4 tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x ^ 32];
}

__global__ void atomics(int *x) {
    __shared__ int sum;
    if (threadIdx.x == 0) {
        sum = 0;
    }
    __syncthreads();
    atomicAdd(&sum, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(x, sum);
    }
}
__global__ void in_warps(float *out) {
    __shared__ float tile[64];
    const unsigned i = threadIdx.x;
    tile[i] = 1.0f;
    __syncwarp();
    const float other = tile[i ^ 1];
    __syncwarp();
    tile[i] = other + 1.0f;
    if (i % 32 < 16) { /* a part of the warp for itself */
        __syncwarp(0x0000ffff);
        out[i] = tile[i ^ 2];
    } else {
        out[i] = tile[i];
    }
}

#ifdef FXCU_RACES
template <class F> static void expect(const char *name, const std::vector<const char *> &parts, F launch) {
    for (int i = 0; i < FXCU_SCHEDULES; i++) {
        fxcu_reset();
        fxcu_quiet(1);
        fxcu_set_schedule_number(i);
        CHECK(launch() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess);
        for (const char *part : parts) {
            if (strstr(fxcu_message(), part) == nullptr) {
                fprintf(stderr, "%s, %s: '%s' is not in the message '%s'\n", name, fxcu_schedule_name(i), part, fxcu_message());
                exit(1);
            }
        }
        if (i == 0) {
            printf("%s: %s\n", name, fxcu_message());
        }
        fxcu_reset();
        fxcu_quiet(0);
    }
    fxcu_set_schedule(FXCU_FORWARD, 1);
}

template <class T> static T *device(size_t n) {
    T *at;
    CHECK_CUDA(cudaMalloc(&at, n * sizeof(T)));
    CHECK_CUDA(cudaMemset(at, 0, n * sizeof(T)));
    return at;
}

static void test_wrong() {
    expect("lost update",
           {"kernel lost_update, block (0,0,0), thread (", "race: ", "s 4 bytes at byte 0 of device buffer 1", "which thread (",
            "wrote with no barrier between them"},
           [] { return FXCC_LAUNCH(lost_update, 1, 32, 0, nullptr, device<int>(1)); });
    expect("same value", {"race: writes 4 bytes at byte ", "wrote with no barrier between them"},
           [] { return FXCC_LAUNCH(same_value, 1, 32, 0, nullptr, device<int>(16)); });
    expect("no barrier", {"kernel no_barrier", "of shared memory tile"},
           [] { return FXCC_LAUNCH(no_barrier, 1, 64, 0, nullptr, device<float>(64)); });
    expect("no barrier, vectors", {"kernel no_barrier_of_vectors", "of shared memory tile"},
           [] { return FXCC_LAUNCH(no_barrier_of_vectors, 1, 64, 0, nullptr, device<float4>(64), device<float4>(64)); });
    expect("overwrites", {"race: ", "of shared memory tile", "with no barrier between them"},
           [] { return FXCC_LAUNCH(overwrites, 1, 64, 0, nullptr, device<float>(64)); });
    expect("a shuffle is no barrier", {"race: reads 4 bytes at byte ", "of shared memory tile", "wrote with no barrier"},
           [] { return FXCC_LAUNCH(shuffle_is_no_barrier, 1, 32, 0, nullptr, device<float>(32)); });
    expect("two blocks", {"race: writes 4 bytes at byte ", "which another block of this launch wrote"},
           [] { return FXCC_LAUNCH(two_blocks, 2, 32, 0, nullptr, device<float>(32)); });
    expect("reads what another block writes", {"race: ", "which another block of this launch "},
           [] { return FXCC_LAUNCH(reads_other_block, 2, 32, 0, nullptr, device<float>(64)); });
    expect("plain and atomic", {"race: ", "byte 0 of device buffer 1"},
           [] { return FXCC_LAUNCH(plain_and_atomic, 1, 32, 0, nullptr, device<int>(1)); });
    expect("last block, no fence before", {"race: reads 4 bytes at byte ", "which another block of this launch wrote"},
           [] { return FXCC_LAUNCH(last_block<FIRST_FENCE>, 3, 64, 0, nullptr, device<float>(192), device<int>(1), device<float>(64)); });
    expect("last block, no fence behind", {"race: reads 4 bytes at byte ", "which another block of this launch wrote"},
           [] { return FXCC_LAUNCH(last_block<SECOND_FENCE>, 3, 64, 0, nullptr, device<float>(192), device<int>(1), device<float>(64)); });
    expect("last block, no counter", {"race: ", "which another block of this launch "},
           [] { return FXCC_LAUNCH(last_block<COUNTER>, 3, 64, 0, nullptr, device<float>(192), device<int>(1), device<float>(64)); });
    expect("last block, no barrier before", {"race: reads 4 bytes at byte ", "wrote"},
           [] { return FXCC_LAUNCH(last_block<BARRIER_BEFORE>, 3, 64, 0, nullptr, device<float>(192), device<int>(1), device<float>(64)); });
    expect("last block, no barrier behind", {"race: ", "another block of this launch "},
           [] { return FXCC_LAUNCH(last_block<BARRIER_BEHIND>, 3, 64, 0, nullptr, device<float>(192), device<int>(1), device<float>(64)); });
    expect("last thread, written behind the fence", {"race: reads 4 bytes at byte ", "which another block of this launch wrote"},
           [] { return FXCC_LAUNCH(last_thread<true>, 3, 1, 0, nullptr, device<float>(3), device<unsigned>(1), device<float>(1)); });
    expect("unwritten",
           {"kernel unwritten, block (0,0,0), thread (58,0,0): reads 4 bytes at byte 20 of shared memory tile",
            "which no thread of this block has written"},
           [] { return FXCC_LAUNCH(unwritten, 1, 64, 0, nullptr, device<float>(64)); });
    expect("next to a buffer", {"access to 4 bytes at 0x", "0 bytes past the end of device buffer", "of 40 bytes"},
           [] { return FXCC_LAUNCH(next_to_buffer, 1, 1, 0, nullptr, device<float>(10), device<float>(1), 10); });
    expect("next to a tile",
           {"kernel next_to_tile, block (0,0,0), thread (", " 4 bytes at byte ", "of shared memory "} /* which may be the next one's */,
           [] { return FXCC_LAUNCH(next_to_tile, 1, 32, 0, nullptr, device<float>(32), 32); });
}

static void test_right() {
    CHECK_CUDA(FXCC_LAUNCH(atomics, 3, 64, 0, nullptr, device<int>(1)));
    CHECK_CUDA(FXCC_LAUNCH(in_warps, 1, 64, 0, nullptr, device<float>(64)));
    CHECK_CUDA(FXCC_LAUNCH(vectors, 1, 64, 0, nullptr, device<float4>(64), device<float4>(64)));
    for (int i = 0; i < FXCU_SCHEDULES; i++) {
        fxcu_reset();
        fxcu_set_schedule_number(i);
        float *const parts = device<float>(192), *const out = device<float>(64);
        int *const count = device<int>(1);
        unsigned *const counter = device<unsigned>(1);
        for (int run = 0; run < 2; run++) { /* the counter is 0 again */
            CHECK_CUDA(FXCC_LAUNCH(last_block<NOTHING>, 3, 64, 0, nullptr, parts, count, out));
            CHECK_CUDA(FXCC_LAUNCH(last_thread<false>, 3, 1, 0, nullptr, parts, counter, out));
        }
        float sums[2];
        CHECK_CUDA(cudaMemcpy(sums, out, sizeof sums, cudaMemcpyDeviceToHost));
        CHECK(sums[0] == 3.0f && sums[1] == 3.0f);
    }
    fxcu_set_schedule(FXCU_FORWARD, 1);
    fxcu_reset();
}
#endif

int main() {
#ifdef FXCU_RACES
    test_wrong();
    test_right();
#else
    printf("compiled without -fsanitize=thread: nothing to see\n");
#endif
    return 0;
}
