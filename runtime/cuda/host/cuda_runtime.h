/* cuda_runtime.h for a host compiler: what emitted CUDA sources use of it, on a machine without a GPU (docs/cuda.md).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCU_CUDA_RUNTIME_H
#define FXCU_CUDA_RUNTIME_H
#ifndef __cplusplus
#error "CUDA sources are C++: compile them with g++ or clang++ -x c++ -std=c++17"
#endif
#define FXCU_HOST 1 /* what tells a source that it is compiled for the host */

#if defined __SANITIZE_ADDRESS__
#define FXCU_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define FXCU_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FXCU_RACES 1
#if __clang_major__ < 15 /* copies structures by plain memcpy, where later ones call these */
__asm__("memcpy = __tsan_memcpy\nmemmove = __tsan_memmove\nmemset = __tsan_memset");
#endif
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define FXCU_RACES 1 /* src/race.cpp is told of each access */
#endif

#include "cuda_host/types.h"

#include "cuda_host/api.h"

#include "cuda_host/device.h"

#include "cuda_host/math.h"

#include "cuda_host/launch.h"

#include "cuda_host/control.h"

#endif
