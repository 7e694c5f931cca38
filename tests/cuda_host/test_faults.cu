/* What is wrong has to be said: each fault that the host looks for is made, and its message read.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "check.h"

/* ---- barriers ---- */

__global__ void barrier_in_half(float *out) {
    if (threadIdx.x < 16) {
        __syncthreads();
    }
    out[threadIdx.x] = 1.0f;
}
__global__ void two_barriers(float *out) {
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
        out[threadIdx.x] = 1.0f;
    } else {
        __syncthreads();
    }
}
__global__ void leaves_before_barrier(float *out, int n) {
    if (static_cast<int>(threadIdx.x) >= n) {
        return;
    }
    out[threadIdx.x] = 1.0f;
    __syncthreads();
}
__global__ void barrier_and_shuffle(float *out) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        out[threadIdx.x] = __shfl_sync(0xffffffff, 1.0f, 0);
    }
}

/* ---- warps ---- */

__global__ void differing_masks(int *out) {
    const unsigned mask = threadIdx.x < 16 ? 0xffffffffu : 0xfffffffeu;
    out[threadIdx.x] = __shfl_sync(mask, static_cast<int>(threadIdx.x), 0);
}
__global__ void not_in_own_mask(int *out) { out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0); }
__global__ void inactive_lane(int *out) {
    if (threadIdx.x < 8) {
        out[threadIdx.x] = __shfl_sync(0x000000ffu, static_cast<int>(threadIdx.x), 9);
    }
}
__global__ void finished_lane(int *out) {
    if (threadIdx.x == 3) {
        return;
    }
    out[threadIdx.x] = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), 3);
}
__global__ void other_intrinsic(int *out) {
    if (threadIdx.x < 4) {
        out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
    } else {
        out[threadIdx.x] = __any_sync(0xffffffffu, 1);
    }
}
__global__ void never_comes(int *out) {
    if (threadIdx.x < 8) {
        out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0);
    }
    __syncthreads();
}
__global__ void odd_width(int *out, int width) { out[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1, 1, width); }

/* ---- memory ---- */

__global__ void write_at(float *out, long at) { out[at] = 1.0f; }
__global__ void read_at(const float *in, float *out, long at) { out[0] = in[at]; }
struct pair {
    float *to;
    long n;
};
__global__ void write_pair(pair p) { p.to[0] = static_cast<float>(p.n); }
__global__ void deep(int *out, int depth) {
    volatile char big[80 << 10];
    for (int i = 0; i < depth; i++) {
        big[i] = 1;
    }
    out[0] = big[0] + depth;
}
__global__ void divide(int *out, int by) { out[0] = 7 / by; }
__global__ void give_up(int *out) {
    if (out != nullptr) {
        __trap();
    }
}
__global__ void unwritten_shared(float *out) {
    __shared__ float tile[32];
    FXCC_DYN_SMEM(float, dynamic);
    if (threadIdx.x % 2 == 0) {
        tile[threadIdx.x] = 1.0f;
    } else {
        dynamic[threadIdx.x] = 1.0f;
    }
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
    out[32 + threadIdx.x] = dynamic[threadIdx.x];
}
__global__ void much_shared(float *out) {
    __shared__ float tile[10000];
    FXCC_DYN_SMEM(float, dynamic);
    tile[threadIdx.x * 100] = 1.0f;
    dynamic[threadIdx.x] = 2.0f;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x * 100] + dynamic[threadIdx.x];
}
__global__ void past_dynamic(float *out, int at) {
    FXCC_DYN_SMEM(float, dynamic);
    dynamic[at] = 1.0f;
    out[0] = dynamic[at];
}

#ifdef FXCU_HOST
/* The call gives the code, and its message has all the parts. Sticky errors are taken back for the next. */
template <class F> static void expect(const char *name, cudaError_t want, const std::vector<const char *> &parts, F call) {
    fxcu_quiet(1);
    cudaError_t got = call();
    if (got == cudaSuccess) {
        got = cudaDeviceSynchronize();
    }
    const bool sticky = want == cudaErrorIllegalAddress || want == cudaErrorLaunchFailure || want == cudaErrorMisalignedAddress;
    check_cuda(got, want, name, __FILE__, __LINE__);
    for (const char *part : parts) {
        if (strstr(fxcu_message(), part) == nullptr) {
            fprintf(stderr, "%s: '%s' is not in the message '%s'\n", name, part, fxcu_message());
            exit(1);
        }
    }
    check_cuda(cudaGetLastError(), want, name, __FILE__, __LINE__);
    check_cuda(cudaGetLastError(), sticky ? want : cudaSuccess, name, __FILE__, __LINE__);
    if (sticky) { /* every later call gives it */
        void *pointer;
        check_cuda(cudaMalloc(&pointer, 4), want, name, __FILE__, __LINE__);
        check_cuda(cudaDeviceSynchronize(), want, name, __FILE__, __LINE__);
    }
    printf("%s: %s\n", name, fxcu_message());
    fflush(stdout);
    fxcu_reset();
    fxcu_quiet(0);
}

template <class T> static T *device(size_t n) {
    T *at;
    CHECK_CUDA(cudaMalloc(&at, n * sizeof(T)));
    return at;
}

static void test_barriers() {
    for (int i = 0; i < FXCU_SCHEDULES; i++) {
        fxcu_set_schedule_number(i);
        expect("barrier in half a warp", cudaErrorLaunchFailure,
               {"kernel barrier_in_half, block (", "divergent barrier: 16 of 32 threads wait at the barrier of", "16 have finished"},
               [] { return FXCC_LAUNCH(barrier_in_half, 1, 32, 0, nullptr, device<float>(32)); });
        expect(
            "two barriers", cudaErrorLaunchFailure,
            {"kernel two_barriers", "divergent barrier: 32 of 64 threads wait at the barrier of", "; 32 of 64 threads wait at the barrier of"},
            [] { return FXCC_LAUNCH(two_barriers, 1, 64, 0, nullptr, device<float>(64)); });
        expect("leaving before a barrier", cudaErrorLaunchFailure,
               {"kernel leaves_before_barrier", "divergent barrier: 50 of 64", "14 have finished"},
               [] { return FXCC_LAUNCH(leaves_before_barrier, 1, 64, 0, nullptr, device<float>(64), 50); });
        expect(
            "barrier and shuffle", cudaErrorLaunchFailure,
            {"kernel barrier_and_shuffle, block (0,0,0): divergent barrier: 32 of 64 threads wait", "thread (0,0,0) first; 32 have finished"},
            [] { return FXCC_LAUNCH(barrier_and_shuffle, 1, 64, 0, nullptr, device<float>(64)); });
    }
    fxcu_set_schedule(FXCU_FORWARD, 1);
}

static void test_warps() {
    for (int i = 0; i < FXCU_SCHEDULES; i++) {
        fxcu_set_schedule_number(i);
        expect("differing masks", cudaErrorLaunchFailure,
               {"kernel differing_masks", "differing masks: lane", "0xffffffff", "0xfffffffe", "test_faults.cu:"},
               [] { return FXCC_LAUNCH(differing_masks, 1, 32, 0, nullptr, device<int>(32)); });
        expect("not in its own mask", cudaErrorLaunchFailure,
               {"kernel not_in_own_mask", "__shfl_sync at ", "is not in its own mask 0x0000ffff"},
               [] { return FXCC_LAUNCH(not_in_own_mask, 1, 32, 0, nullptr, device<int>(32)); });
        expect("inactive lane", cudaErrorLaunchFailure,
               {"kernel inactive_lane", "__shfl_sync at ", "reads inactive lane 9, which is not in the mask (mask 0x000000ff)"},
               [] { return FXCC_LAUNCH(inactive_lane, 1, 32, 0, nullptr, device<int>(32)); });
        expect("finished lane", cudaErrorLaunchFailure, {"kernel finished_lane", "reads inactive lane 3, which has finished or does not exist"},
               [] { return FXCC_LAUNCH(finished_lane, 1, 32, 0, nullptr, device<int>(32)); });
        expect("other intrinsic", cudaErrorLaunchFailure, {"kernel other_intrinsic", "divergent warp: lane", "__shfl_sync of", "__any_sync of"},
               [] { return FXCC_LAUNCH(other_intrinsic, 1, 32, 0, nullptr, device<int>(32)); });
        expect("never comes", cudaErrorLaunchFailure,
               {"kernel never_comes, block (0,0,0): divergent barrier: 8 of 32 threads wait at __shfl_sync of",
                "(mask 0x0000ffff); 24 of 32 threads wait at the barrier"},
               [] { return FXCC_LAUNCH(never_comes, 1, 32, 0, nullptr, device<int>(32)); });
        expect("odd width", cudaErrorLaunchFailure, {"kernel odd_width", "width 12 is no power of two up to 32"},
               [] { return FXCC_LAUNCH(odd_width, 1, 32, 0, nullptr, device<int>(32), 12); });
    }
    fxcu_set_schedule(FXCU_FORWARD, 1);
}

static void test_configurations() {
    expect("1,056 threads", cudaErrorInvalidConfiguration, {"kernel write_at: a block of (33,32,1) threads, where 1024"},
           [] { return FXCC_LAUNCH(write_at, 1, dim3(33, 32), 0, nullptr, device<float>(1), 0); });
    expect("65 in z", cudaErrorInvalidConfiguration, {"a block of (1,1,65) threads", "64 in z"},
           [] { return FXCC_LAUNCH(write_at, 1, dim3(1, 1, 65), 0, nullptr, device<float>(1), 0); });
    expect("no threads", cudaErrorInvalidConfiguration, {"a block of (0,1,1) threads"},
           [] { return FXCC_LAUNCH(write_at, 1, 0, 0, nullptr, device<float>(1), 0); });
    expect("65,536 blocks in y", cudaErrorInvalidConfiguration, {"a grid of (1,65536,1) blocks"},
           [] { return FXCC_LAUNCH(write_at, dim3(1, 65536), 1, 0, nullptr, device<float>(1), 0); });
    expect("no blocks", cudaErrorInvalidConfiguration, {"a grid of (0,1,1) blocks"},
           [] { return FXCC_LAUNCH(write_at, 0, 1, 0, nullptr, device<float>(1), 0); });
    expect("dynamic shared memory", cudaErrorInvalidValue,
           {"kernel write_at: 0 bytes of static and 49153 of dynamic shared memory, where 49152 are the most without"},
           [] { return FXCC_LAUNCH(write_at, 1, 1, 49153, nullptr, device<float>(1), 0); });
    expect("static and dynamic shared memory", cudaErrorInvalidValue, {"kernel much_shared: 40000 bytes of static and 9216 of dynamic"},
           [] { return FXCC_LAUNCH(much_shared, 1, 32, 9216, nullptr, device<float>(32)); });
    expect("more than there is", cudaErrorInvalidValue,
           {"200000 bytes of dynamic and 40000 of static shared memory, where the device has 232448"},
           [] { return cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000); });
    buffer<float> out(32); /* and with the attribute, it runs */
    CHECK_CUDA(cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    CHECK_CUDA(FXCC_LAUNCH(much_shared, 1, 32, 60000, nullptr, out.at));
    CHECK(out.get() == std::vector<float>(32, 3.0f));
    cudaFuncAttributes attributes;
    CHECK_CUDA(cudaFuncGetAttributes(&attributes, much_shared));
    CHECK(attributes.sharedSizeBytes == 40000 && attributes.maxDynamicSharedSizeBytes == 60000);
}

static void test_pointers() {
    static float host[4];
    std::vector<float> heap(4);
    expect("host pointer", cudaErrorIllegalAddress,
           {"kernel write_at: argument 1 is 0x", "in no device buffer: a host pointer", "test_faults.cu:"},
           [] { return FXCC_LAUNCH(write_at, 1, 1, 0, nullptr, host, 0); });
    expect("host pointer in a structure", cudaErrorIllegalAddress,
           {"kernel write_pair: argument 1 holds a pointer that is 0x", "a host pointer"}, [&] {
               return FXCC_LAUNCH(write_pair, 1, 1, 0, nullptr, pair{heap.data(), 3});
           });
    expect("freed buffer", cudaErrorIllegalAddress,
           {"kernel write_at: argument 1 is 0x", "at byte 0 of device buffer 1 of 16 bytes, which has been freed"}, [] {
               float *at = device<float>(4);
               CHECK_CUDA(cudaFree(at));
               return FXCC_LAUNCH(write_at, 1, 1, 0, nullptr, at, 0);
           });
    expect("past the end", cudaErrorIllegalAddress,
           {"kernel read_at, block (0,0,0), thread (0,0,0): access to 0x", "0 bytes past the end of device buffer", "of 256 bytes"},
           [] { return FXCC_LAUNCH(read_at, 1, 1, 0, nullptr, device<float>(64), device<float>(1), 64); });
    expect("far past the end", cudaErrorIllegalAddress,
           {"kernel write_at, block (0,0,0), thread (0,0,0): access to 0x", "4000 bytes past the end of device buffer 1 of 256 bytes"},
           [] { return FXCC_LAUNCH(write_at, 1, 1, 0, nullptr, device<float>(64), 1064); });
    expect("before the beginning", cudaErrorIllegalAddress, {"8192 bytes before device buffer 1 of 256 bytes"},
           [] { return FXCC_LAUNCH(write_at, 1, 1, 0, nullptr, device<float>(64), -2048); });
    expect("past dynamic shared memory", cudaErrorIllegalAddress, {"kernel past_dynamic, block (0,0,0), thread (0,0,0): access to"},
           [] { return FXCC_LAUNCH(past_dynamic, 1, 1, 64, nullptr, device<float>(1), 16); });
    if (!with_asan) { /* sanitizers end the program at these (test_ends.cu), and threads have larger stacks */
        expect("null", cudaErrorIllegalAddress, {"kernel write_at, block (0,0,0), thread (0,0,0): access to a null pointer"},
               [] { return FXCC_LAUNCH(write_at, 1, 1, 0, nullptr, nullptr, 0); });
#ifdef __x86_64__ /* elsewhere it is no fault */
        expect("division by zero", cudaErrorLaunchFailure, {"kernel divide, block (0,0,0), thread (0,0,0): integer division by zero"},
               [] { return FXCC_LAUNCH(divide, 1, 1, 0, nullptr, device<int>(1), 0); });
#endif
        expect("a little past the end", cudaErrorIllegalAddress,
               {"kernel write_at [launched at", "has written to", "0 bytes past the end of device buffer 1 of 40 bytes"},
               [] { return FXCC_LAUNCH(write_at, 1, 1, 0, nullptr, device<float>(10), 10); });
        expect("a stack too small", cudaErrorIllegalAddress, {"kernel deep", "the thread's stack of 64 KiB is too small"},
               [] { return FXCC_LAUNCH(deep, 1, 1, 0, nullptr, device<int>(1), 100); });
    }
    expect("trap", cudaErrorLaunchFailure, {"kernel give_up", "__trap() at "},
           [] { return FXCC_LAUNCH(give_up, 1, 1, 0, nullptr, device<int>(1)); });
}

static void test_copies() {
    static float host[64];
    expect("copy from a host pointer", cudaErrorInvalidValue,
           {"cudaMemcpy: the source is 0x", "in no device buffer, where device memory is expected"},
           [] { return cudaMemcpy(host, host, 4, cudaMemcpyDeviceToHost); });
    expect("copy to a device pointer", cudaErrorInvalidValue, {"cudaMemcpy: the target is 0x", "where host memory is expected"},
           [] { return cudaMemcpy(device<float>(4), device<float>(4), 4, cudaMemcpyDeviceToHost); });
    expect("copy past the end", cudaErrorInvalidValue, {"cudaMemcpyAsync: the target is 0x", "where 17 bytes are to be accessed"},
           [] { return cudaMemcpyAsync(device<float>(4), host, 17, cudaMemcpyHostToDevice); });
    expect("set past the end", cudaErrorInvalidValue, {"cudaMemset: the target is 0x"}, [] { return cudaMemset(device<float>(4) + 2, 0, 9); });
    expect("set of host memory", cudaErrorInvalidValue, {"where device memory is expected"}, [] { return cudaMemset(host, 0, 4); });
    if (!with_asan) { /* UBSan sees it before */
        expect("no kind", cudaErrorInvalidMemcpyDirection, {"no kind of copy: 9"},
               [] { return cudaMemcpy(host, host, 4, static_cast<cudaMemcpyKind>(9)); });
    }
    expect("free of a middle", cudaErrorInvalidValue, {"cudaFree: 0x", "is not what cudaMalloc gave"},
           [] { return cudaFree(device<float>(4) + 1); });
    expect("free twice", cudaErrorInvalidValue, {"cudaFree: 0x", "which has been freed"}, [] {
        float *at = device<float>(4);
        CHECK_CUDA(cudaFree(at));
        return cudaFree(at);
    });
    expect("free of host memory", cudaErrorInvalidValue, {"is not what cudaMalloc gave"}, [] { return cudaFree(host); });
    float *pinned;
    CHECK_CUDA(cudaMallocHost(&pinned, 16));
    pinned[0] = 1.0f; /* host code may */
    cudaPointerAttributes attributes;
    CHECK_CUDA(cudaPointerGetAttributes(&attributes, pinned));
    CHECK(attributes.type == cudaMemoryTypeHost);
    CHECK_CUDA(cudaPointerGetAttributes(&attributes, host));
    CHECK(attributes.type == cudaMemoryTypeUnregistered);
    CHECK_CUDA(cudaPointerGetAttributes(&attributes, device<float>(1)));
    CHECK(attributes.type == cudaMemoryTypeDevice);
    CHECK(fxcu_alive() == 2);
    fxcu_reset();
    CHECK(fxcu_alive() == 0);
}

static void test_devices() {
    fxcu_device none = fxcu_get_device();
    none.count = 0;
    expect("no device", cudaErrorNoDevice, {"no device is there"}, [&] {
        fxcu_set_device(none);
        int count;
        CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0);
        void *at;
        return cudaMalloc(&at, 4);
    });
    expect("no such device", cudaErrorInvalidDevice, {"device 3 of 1"}, [] { return cudaSetDevice(3); });
    expect("an older device", cudaErrorNoKernelImageForDevice, {"compute capability 7.5, the program's code begins at 8.0"}, [] {
        fxcu_device old = fxcu_get_device();
        old.major = 7, old.minor = 5, old.image_major = 8;
        fxcu_set_device(old);
        return FXCC_LAUNCH(write_at, 1, 1, 0, nullptr, device<float>(1), 0);
    });
    expect("out of memory", cudaErrorMemoryAllocation, {"cudaMalloc: 1048577 bytes, where 1048576 of 1048576 are free"}, [] {
        fxcu_device small = fxcu_get_device();
        small.memory = 1 << 20;
        fxcu_set_device(small);
        void *at;
        return cudaMalloc(&at, (1 << 20) + 1);
    });
    expect("the second allocation", cudaErrorMemoryAllocation, {"cudaMalloc: 4 bytes"}, [] {
        fxcu_device failing = fxcu_get_device();
        failing.fail_allocation = 2;
        fxcu_set_device(failing);
        void *at;
        CHECK_CUDA(cudaMalloc(&at, 4));
        return cudaMalloc(&at, 4);
    });
}

/* What nobody wrote is a NaN, or -1: in device buffers, and in a block's shared memory, each block anew. */
static void test_poison() {
    buffer<float> fresh(3), out(64);
    for (float x : fresh.get()) {
        CHECK(isnan(x));
    }
    for (int again = 0; again < 2; again++) {
        CHECK_CUDA(FXCC_LAUNCH(unwritten_shared, 2, 32, 32 * sizeof(float), nullptr, out.at));
        const std::vector<float> got = out.get();
        for (size_t i = 0; i < 32; i++) {
            CHECK(i % 2 == 0 ? got[i] == 1.0f : isnan(got[i]));
            CHECK(i % 2 == 1 ? got[32 + i] == 1.0f : isnan(got[32 + i]));
        }
    }
}

int main() {
    test_barriers();
    test_warps();
    test_configurations();
    test_pointers();
    test_copies();
    test_devices();
    test_poison();
    return 0;
}
#else
int main() { /* on a GPU, most of these end the context or never end */
    printf("faults are the host's to find\n");
    return 0;
}
#endif
