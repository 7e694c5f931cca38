/* The device that is pretended: its properties, limits and what a test makes of it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "blas.h"

#include <stdio.h>

namespace fxcu {

static const fxcu_device usual = {1, 9, 0, size_t(8) << 30, 0, 0, 0, 0};
fxcu_device device = usual;
fxcu_counts counts;

cudaError_t device_error() {
    if (device.count < 1) {
        return error(cudaErrorNoDevice, "no device is there");
    }
    if (device.major < device.image_major || (device.major == device.image_major && device.minor < device.image_minor)) {
        return error(cudaErrorNoKernelImageForDevice, "the device has compute capability %d.%d, the program's code begins at %d.%d",
                     device.major, device.minor, device.image_major, device.image_minor);
    }
    return cudaSuccess;
}

/* Shared memory that a block may ask for: the programming guide's table of compute capabilities. */
size_t shared_per_block_optin() {
    switch (device.major * 10 + device.minor) {
    case 75:
        return size_t(64) << 10;
    case 80:
    case 87:
        return size_t(163) << 10;
    case 86:
    case 89:
    case 120:
        return size_t(99) << 10;
    case 90:
    case 100:
        return size_t(227) << 10;
    default:
        return shared_per_block;
    }
}

static thread_local int current;
int current_device() { return current; }

bool fail_this_allocation() { return device.fail_allocation > 0 && --device.fail_allocation == 0; }

} // namespace fxcu

using namespace fxcu;

fxcu_device fxcu_get_device() { return device; }
void fxcu_set_device(fxcu_device to) { device = to; }
fxcu_counts fxcu_get_counts() { return counts; }

void fxcu_reset() {
    entry e;
    drop_pending();
    free_graphs();
    free_streams();
    free_ranges();
    reset_launch();
    reset_error();
    device = usual;
    counts = {};
    live_blas = 0; /* they are counted, not kept: a test that leaks one fails before this */
}

cudaError_t cudaGetDeviceCount(int *count) {
    entry e;
    *count = device.count;
    return device.count < 1 ? error(cudaErrorNoDevice, "no device is there") : cudaSuccess;
}

static cudaError_t check_device(int number) {
    if (device.count < 1) {
        return error(cudaErrorNoDevice, "no device is there");
    }
    if (number < 0 || number >= device.count) {
        return error(cudaErrorInvalidDevice, "device %d of %d", number, device.count);
    }
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *number) {
    entry e;
    *number = current;
    return check_device(current);
}
cudaError_t cudaSetDevice(int number) {
    entry e;
    cudaError_t failed = check_device(number);
    if (failed == cudaSuccess) {
        current = number;
    }
    return failed;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int number) {
    entry e;
    if (cudaError_t failed = check_device(number)) {
        return failed;
    }
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = static_cast<int>(shared_per_block);
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = 16;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = device.major == 7 ? 1024 : 2048;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = device.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = device.minor;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = static_cast<int>(shared_per_block_optin()) + 1024;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = static_cast<int>(shared_per_block_optin());
        break;
    default:
        return error(cudaErrorInvalidValue, "cudaDeviceGetAttribute: no attribute %d here", static_cast<int>(attribute));
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int number) {
    entry e;
    if (cudaError_t failed = check_device(number)) {
        return failed;
    }
    *p = {};
    snprintf(p->name, sizeof p->name, "fxcc host (no GPU)");
    p->totalGlobalMem = device.memory;
    p->sharedMemPerBlock = shared_per_block;
    p->sharedMemPerBlockOptin = shared_per_block_optin();
    p->sharedMemPerMultiprocessor = shared_per_block_optin() + 1024;
    p->major = device.major;
    p->minor = device.minor;
    p->multiProcessorCount = 16;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = device.major == 7 ? 1024 : 2048;
    p->regsPerBlock = 65536;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
