/* The run-time API that emitted sources use, over host memory (src/memory.cpp, src/stream.cpp, src/graph.cpp, src/device.cpp).
 * Names, signatures and values are CUDA's. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_API_H
#define FXCU_API_H
#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000

#define FXCU_ERRORS(X)                                                                                                                         \
    X(cudaSuccess, 0, "no error")                                                                                                              \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                                                            \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                                                                           \
    X(cudaErrorInitializationError, 3, "initialization error")                                                                                 \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                                                      \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                                                                \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                                                           \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                                                            \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                                                   \
    X(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device")                                        \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                                                          \
    X(cudaErrorNotReady, 600, "device not ready")                                                                                              \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                                                                \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                                                           \
    X(cudaErrorMisalignedAddress, 716, "misaligned address")                                                                                   \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                                                               \
    X(cudaErrorNotSupported, 801, "operation not supported")                                                                                   \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")                                              \
    X(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture")                                       \
    X(cudaErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began")                                            \
    X(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                                                               \
    X(cudaErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream")                                         \
    X(cudaErrorStreamCaptureImplicit, 906, "operation would make the legacy stream depend on a capturing blocking stream")                     \
    X(cudaErrorCapturedEvent, 907, "operation not permitted on an event last recorded in a capturing stream")                                  \
    X(cudaErrorUnknown, 999, "unknown error")
typedef enum cudaError {
#define FXCU_ROW(name, value, text) name = value,
    FXCU_ERRORS(FXCU_ROW)
#undef FXCU_ROW
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef void (*cudaHostFn_t)(void *);
#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(1))
#define cudaStreamDefault 0x00u
#define cudaStreamNonBlocking 0x01u
#define cudaEventDefault 0x00u
#define cudaEventBlockingSync 0x01u
#define cudaEventDisableTiming 0x02u
#define cudaHostAllocDefault 0x00u

typedef enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4,
} cudaMemcpyKind;
typedef enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3,
} cudaMemoryType;
typedef struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
} cudaPointerAttributes;
typedef enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2,
} cudaStreamCaptureMode;
typedef enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0,
    cudaStreamCaptureStatusActive = 1,
    cudaStreamCaptureStatusInvalidated = 2,
} cudaStreamCaptureStatus;
typedef enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
} cudaFuncAttribute;
typedef struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
} cudaFuncAttributes;
typedef enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
} cudaDeviceAttr;
typedef struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    int major, minor, multiProcessorCount, warpSize, maxThreadsPerBlock, maxThreadsPerMultiProcessor, regsPerBlock;
    int maxThreadsDim[3], maxGridSize[3];
} cudaDeviceProp;

/* Errors and devices. */
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

/* Memory. */
cudaError_t cudaMalloc(void **pointer, size_t bytes);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaMallocHost(void **pointer, size_t bytes);
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *pointer);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void *to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream = nullptr);
template <class T> cudaError_t cudaMalloc(T **pointer, size_t bytes) { return cudaMalloc(reinterpret_cast<void **>(pointer), bytes); }
template <class T> cudaError_t cudaMallocHost(T **pointer, size_t bytes) { return cudaMallocHost(reinterpret_cast<void **>(pointer), bytes); }

/* Streams and events. */
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);

/* Graphs, made by capture. */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count); /* nodes: null, for the count alone */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

/* Kernels. */
cudaError_t fxcu_func_set_attribute(const void *kernel, cudaFuncAttribute attribute, int value);
cudaError_t fxcu_func_get_attributes(cudaFuncAttributes *attributes, const void *kernel);
template <class T> cudaError_t cudaFuncSetAttribute(T *kernel, cudaFuncAttribute attribute, int value) {
    return fxcu_func_set_attribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
template <class T> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, T *kernel) {
    return fxcu_func_get_attributes(attributes, reinterpret_cast<const void *>(kernel));
}
#endif
