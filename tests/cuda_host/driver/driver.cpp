/* libcuda.so.1 for a machine without a GPU: the part of CUDA's driver API that fxcc's JIT calls (jit/cuda_api.h), over the host's CUDA. Put in front of
 * the real one by LD_LIBRARY_PATH, in tests only. An image is a shared library that driver/nvrtc.cpp made.
 *   FXCU_DEVICES=0          there is no device        FXCU_CAPABILITY=8.6     the devices' (9.0)
 *   FXCU_FAIL_ALLOCATION=n  the n-th one fails        FXCU_SCHEDULE=0..6      fxcu_set_schedule_number
 * An image of the real NVRTC is loaded, too, where its kernels are in it; a launch of one does nothing.
 *   FXCU_ALIVE=FILE         what lives when the process ends is written there: 0 where nothing leaks
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <cuda_runtime.h>

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

struct loaded {
    int fd; /* of the image: the host's CUDA reads its symbols */
    void *library;
    std::string cubin; /* where it is for a GPU: all of it */
};
typedef int (*thunk)(dim3 grid, dim3 block, size_t shared, cudaStream_t stream, void **arguments);
constexpr int NO_CONTEXT = 201; /* CUDA_ERROR_INVALID_CONTEXT */
static long contexts, modules;

static int number(const char *name, int usual) {
    const char *value = getenv(name);
    return value && *value ? atoi(value) : usual;
}

__attribute__((destructor)) static void tell_alive() {
    const char *path = getenv("FXCU_ALIVE");
    FILE *file = path ? fopen(path, "w") : nullptr;
    if (file) {
        fprintf(file, "%zu\n", fxcu_alive() + static_cast<size_t>(contexts + modules));
        fclose(file);
    }
}

extern "C" {
int cuInit(unsigned) {
    fxcu_device device = fxcu_get_device();
    const char *capability = getenv("FXCU_CAPABILITY");
    int major = 9, minor = 0;
    if (capability && sscanf(capability, "%d.%d", &major, &minor) != 2) {
        return cudaErrorInvalidValue;
    }
    device.count = number("FXCU_DEVICES", 1);
    device.major = major;
    device.minor = minor;
    device.fail_allocation = number("FXCU_FAIL_ALLOCATION", 0);
    fxcu_set_device(device);
    fxcu_set_schedule_number(number("FXCU_SCHEDULE", 0));
    return device.count > 0 ? 0 : cudaErrorNoDevice;
}
int cuGetErrorName(int error, const char **text) {
    *text = cudaGetErrorName(static_cast<cudaError_t>(error));
    return 0;
}
int cuGetErrorString(int error, const char **text) {
    *text = *fxcu_message() ? fxcu_message() : cudaGetErrorString(static_cast<cudaError_t>(error));
    return 0;
}
/* The real NVRTC asks for a table that nobody documents: it begins with its size, and one of so few bytes has nothing for it. */
int cuGetExportTable(const void **table, const void *) {
    static const uint64_t small[] = {8};
    *table = small;
    return 0;
}
int cuDeviceGetCount(int *n) { return cudaGetDeviceCount(n); }
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
    const fxcu_device device = fxcu_get_device();
    *value = attribute == 75 ? device.major : device.minor;
    return attribute == 75 || attribute == 76 ? 0 : cudaErrorInvalidValue;
}
int cuDevicePrimaryCtxRetain(void **context, int) {
    static int primary;
    *context = &primary;
    contexts++;
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
    contexts--;
    return 0;
}
static thread_local int pushed;
int cuCtxPushCurrent_v2(void *) {
    pushed++;
    return 0;
}
int cuCtxPopCurrent_v2(void **) { return pushed-- > 0 ? 0 : NO_CONTEXT; }

static int launch_nothing(dim3, dim3, size_t, cudaStream_t, void **) { return 0; }

int cuModuleLoadData(loaded **module, const void *image) {
    const Elf64_Ehdr *head = static_cast<const Elf64_Ehdr *>(image);
    const size_t size = head->e_shoff + size_t(head->e_shnum) * head->e_shentsize;
    char path[64];
    if (pushed > 0 && head->e_machine == EM_CUDA) {
        *module = new loaded{-1, nullptr, std::string(static_cast<const char *>(image), size)};
        modules++;
        return 0;
    }
    const int fd = memfd_create("fxcu", MFD_CLOEXEC);
    if (pushed == 0 || fd < 0 || write(fd, image, size) != static_cast<ssize_t>(size)) {
        return cudaErrorInvalidValue;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return cudaErrorInvalidValue;
    }
    *module = new loaded{fd, library, ""};
    modules++;
    return 0;
}
int cuModuleUnload(loaded *module) { /* the library stays: the host's CUDA knows its kernels by address */
    delete module;
    modules--;
    return 0;
}
int cuModuleGetFunction(void **function, loaded *module, const char *name) {
    const std::string whole = std::string(1, 0) + name + std::string(1, 0); /* in its table of strings */
    *function = module->library ? dlsym(module->library, name)
                : module->cubin.find(whole) != std::string::npos ? reinterpret_cast<void *>(launch_nothing) : nullptr;
    return *function ? 0 : cudaErrorInvalidValue;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, cudaStream_t stream,
                   void **arguments, void **) {
    return pushed ? reinterpret_cast<thunk>(function)({gx, gy, gz}, {bx, by, bz}, shared, stream, arguments) : NO_CONTEXT;
}

int cuMemAlloc_v2(void **at, size_t size) { return pushed ? int(cudaMalloc(at, size)) : NO_CONTEXT; }
int cuMemFree_v2(void *at) { return cudaFree(at); }
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t size, cudaStream_t s) { return cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, s); }
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t size, cudaStream_t s) { return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, s); }
int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t size, cudaStream_t s) { return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, s); }
int cuMemsetD32Async(void *at, unsigned value, size_t n, cudaStream_t s) {
    return value == 0 ? cudaMemsetAsync(at, 0, 4 * n, s) : cudaErrorNotSupported; /* all that anyone asks for */
}
int cuPointerGetAttribute(void *value, int attribute, const void *at) {
    cudaPointerAttributes a;
    if (cudaPointerGetAttributes(&a, at) != cudaSuccess || a.type == cudaMemoryTypeUnregistered) {
        return cudaErrorInvalidValue;
    }
    *static_cast<int *>(value) = attribute == 9 ? a.device : a.type;
    return attribute == 9 || attribute == 2 ? 0 : cudaErrorInvalidValue;
}
int cuStreamCreate(cudaStream_t *stream, unsigned flags) { return cudaStreamCreateWithFlags(stream, flags); }
int cuStreamSynchronize(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
int cuStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) { return cudaStreamWaitEvent(stream, event, flags); }
int cuEventCreate(cudaEvent_t *event, unsigned flags) { return cudaEventCreateWithFlags(event, flags); }
int cuEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecord(event, stream); }
int cuEventSynchronize(cudaEvent_t event) { return cudaEventSynchronize(event); }
int cuEventDestroy_v2(cudaEvent_t event) { return cudaEventDestroy(event); }
}
