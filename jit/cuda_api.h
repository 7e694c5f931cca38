/* jit/cuda_api.h: what the JIT calls of CUDA's driver (libcuda) and of NVRTC: loaded when first used, so that fxcc is built and runs without them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Prototypes and numbers are those of NVIDIA's documentation (CUDA Driver API; NVRTC), the same in versions 12 and 13. */
#ifndef FXCC_JIT_CUDA_API_H
#define FXCC_JIT_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int fx_cu_status;                  /* CUresult, nvrtcResult: 0 is success */
typedef int fx_cu_device;
typedef uint64_t fx_cu_ptr;                /* CUdeviceptr */
typedef struct CUctx_st *fx_cu_context;
typedef struct CUmod_st *fx_cu_module;
typedef struct CUfunc_st *fx_cu_function;
typedef struct CUstream_st *fx_cu_stream;
typedef struct CUevent_st *fx_cu_event;
typedef struct _nvrtcProgram *fx_nvrtc_program;

enum { FX_CU_OUT_OF_MEMORY = 2, FX_CU_NO_DEVICE = 100, FX_CU_FAILED = 999 /* CUDA_ERROR_UNKNOWN */ };
enum { FX_CU_MAJOR = 75, FX_CU_MINOR = 76 };          /* CUdevice_attribute: of the compute capability */
enum { FX_CU_MEMORY_TYPE = 2, FX_CU_ORDINAL = 9 };    /* CUpointer_attribute */
enum { FX_CU_HOST = 1, FX_CU_ON_DEVICE = 2 };         /* CUmemorytype */
enum { FX_CU_NO_TIMING = 2 };                         /* CUevent_flags */

/* X(function of the library, member here, parameters) */
#define FX_CUDA_DRIVER(X)                                                                                                               \
    X(cuInit, Init, (unsigned flags))                                                                                                   \
    X(cuGetErrorName, GetErrorName, (fx_cu_status error, const char **text))                                                            \
    X(cuGetErrorString, GetErrorString, (fx_cu_status error, const char **text))                                                        \
    X(cuDeviceGetCount, DeviceGetCount, (int *n))                                                                                       \
    X(cuDeviceGet, DeviceGet, (fx_cu_device *device, int ordinal))                                                                      \
    X(cuDeviceGetAttribute, DeviceGetAttribute, (int *value, int attribute, fx_cu_device device))                                       \
    X(cuDevicePrimaryCtxRetain, PrimaryCtxRetain, (fx_cu_context *context, fx_cu_device device))                                        \
    X(cuDevicePrimaryCtxRelease_v2, PrimaryCtxRelease, (fx_cu_device device))                                                           \
    X(cuCtxPushCurrent_v2, CtxPushCurrent, (fx_cu_context context))                                                                     \
    X(cuCtxPopCurrent_v2, CtxPopCurrent, (fx_cu_context *context))                                                                      \
    X(cuModuleLoadData, ModuleLoadData, (fx_cu_module *module, const void *image))                                                      \
    X(cuModuleUnload, ModuleUnload, (fx_cu_module module))                                                                              \
    X(cuModuleGetFunction, ModuleGetFunction, (fx_cu_function *function, fx_cu_module module, const char *name))                        \
    X(cuLaunchKernel, LaunchKernel,                                                                                                     \
      (fx_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, \
       unsigned shared, fx_cu_stream stream, void **arguments, void **extra))                                                           \
    X(cuMemAlloc_v2, MemAlloc, (fx_cu_ptr *at, size_t size))                                                                            \
    X(cuMemFree_v2, MemFree, (fx_cu_ptr at))                                                                                            \
    X(cuMemcpyHtoDAsync_v2, MemcpyHtoDAsync, (fx_cu_ptr to, const void *from, size_t size, fx_cu_stream stream))                        \
    X(cuMemcpyDtoHAsync_v2, MemcpyDtoHAsync, (void *to, fx_cu_ptr from, size_t size, fx_cu_stream stream))                              \
    X(cuMemcpyDtoDAsync_v2, MemcpyDtoDAsync, (fx_cu_ptr to, fx_cu_ptr from, size_t size, fx_cu_stream stream))                          \
    X(cuMemsetD32Async, MemsetD32Async, (fx_cu_ptr at, unsigned value, size_t n, fx_cu_stream stream))                                  \
    X(cuPointerGetAttribute, PointerGetAttribute, (void *value, int attribute, fx_cu_ptr at))                                           \
    X(cuStreamSynchronize, StreamSynchronize, (fx_cu_stream stream))                                                                    \
    X(cuStreamWaitEvent, StreamWaitEvent, (fx_cu_stream stream, fx_cu_event event, unsigned flags))                                     \
    X(cuEventCreate, EventCreate, (fx_cu_event *event, unsigned flags))                                                                 \
    X(cuEventRecord, EventRecord, (fx_cu_event event, fx_cu_stream stream))                                                             \
    X(cuEventSynchronize, EventSynchronize, (fx_cu_event event))                                                                        \
    X(cuEventDestroy_v2, EventDestroy, (fx_cu_event event))

#define FX_NVRTC(X)                                                                                                                     \
    X(nvrtcVersion, Version, (int *major, int *minor))                                                                                  \
    X(nvrtcGetNumSupportedArchs, GetNumSupportedArchs, (int *n))                                                                        \
    X(nvrtcGetSupportedArchs, GetSupportedArchs, (int *archs))                                                                          \
    X(nvrtcCreateProgram, CreateProgram,                                                                                                \
      (fx_nvrtc_program *program, const char *text, const char *name, int n, const char *const *headers, const char *const *names))     \
    X(nvrtcDestroyProgram, DestroyProgram, (fx_nvrtc_program *program))                                                                 \
    X(nvrtcAddNameExpression, AddNameExpression, (fx_nvrtc_program program, const char *expression))                                    \
    X(nvrtcCompileProgram, CompileProgram, (fx_nvrtc_program program, int n, const char *const *options))                               \
    X(nvrtcGetLoweredName, GetLoweredName, (fx_nvrtc_program program, const char *expression, const char **name))                       \
    X(nvrtcGetProgramLogSize, GetProgramLogSize, (fx_nvrtc_program program, size_t *size))                                              \
    X(nvrtcGetProgramLog, GetProgramLog, (fx_nvrtc_program program, char *log))                                                         \
    X(nvrtcGetCUBINSize, GetCUBINSize, (fx_nvrtc_program program, size_t *size))                                                        \
    X(nvrtcGetCUBIN, GetCUBIN, (fx_nvrtc_program program, char *image))                                                                 \
    X(nvrtcGetPTXSize, GetPTXSize, (fx_nvrtc_program program, size_t *size))                                                            \
    X(nvrtcGetPTX, GetPTX, (fx_nvrtc_program program, char *image))

#define FX_X(symbol, name, parameters) fx_cu_status(*name) parameters;
typedef struct fx_cuda_driver {
    FX_CUDA_DRIVER(FX_X)
} fx_cuda_driver;
typedef struct fx_nvrtc {
    FX_NVRTC(FX_X)
    int major, minor;                      /* of the version */
    const char *file;
} fx_nvrtc;
#undef FX_X

/* cuda_load.c: once a process; NULL: *why says what was not found, and where it was looked for. The driver is initialised. */
const fx_cuda_driver *fx_cuda_driver_load(const char **why);
const fx_nvrtc *fx_nvrtc_load(const char **why);
/* A symbol table filled from a library: n rows of name and offset. False: *missing is not there. */
typedef struct fx_cuda_symbol {
    const char *name;
    size_t at;
} fx_cuda_symbol;
bool fx_cuda_symbols(void *library, const fx_cuda_symbol *symbols, size_t n, void *table, const char **missing);
/* The first of STEM.so.13, STEM.so.12 that loads, where the system finds it or in the toolkit's folder (file: its name); NULL: why not. */
void *fx_cuda_open(const char *stem, const char **file, char *why, size_t size);

#endif
