/* jit/cuda_kernels.cpp: the host's half of runtime/cuda/, as it is pasted into emitted files, compiled into fxcc: what an emitted file launches by <<<>>> is told to
 * the JIT here, with the kernel's name, which NVRTC is asked for. So there is one text that decides tiles, grids and splits (docs/cuda-plan.md, 9).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The only C++ in fxcc; it takes nothing from C++'s library but headers. Without a C++ compiler cuda_absent.c stands here. The kernels themselves are parsed, with the
 * host's headers for CUDA, and never called: the compiler drops them. */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <atomic>
#include <stdlib.h>
#include <string.h>
#include <type_traits>

#include "fxcc/runtime.h"
#include "jit/cuda_kernels.h"

/* ---- launches ------------------------------------------------------------------------------------------------------------------- */

static thread_local const fx_cuda_kernel_call *now; /* the call under way */

/* "... [with auto K = fxrt_cuda_dw<4, 3>; ...]": gcc says a function's template arguments. */
template <auto K> struct fx_cuda_site {
    static const char *text() { return __PRETTY_FUNCTION__; }
};
static const char *kernel_name(const char *text, size_t *length)
{
    const char *from = strstr(text, "K = ");
    const char *name = from ? from + 4 : text;
    const char *end = strchr(name, ']'), *more = strstr(name, "; ");
    end = more && (!end || more < end) ? more : end;
    *length = end ? static_cast<size_t>(end - name) : strlen(name);
    return name;
}

template <class... P> struct fx_cuda_bound {
    const char *text;
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    cudaError_t operator()(P... values) const
    {
        const unsigned blocks[3] = {grid.x, grid.y, grid.z}, threads[3] = {block.x, block.y, block.z};
        void *arguments[] = {const_cast<void *>(static_cast<const void *>(&values))...};
        size_t length;
        const char *name = kernel_name(text, &length);
        return static_cast<cudaError_t>(now->launch(now->user, name, length, blocks, threads, shared, reinterpret_cast<fx_cu_stream>(stream), arguments));
    }
};
template <class... P> static fx_cuda_bound<P...> fx_cuda_bind(void (*)(P...), const char *text, dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    return {text, grid, block, shared, stream};
}

#undef FXCC_LAUNCH
#define FXCC_LAUNCH(kernel, grid, block, smem, stream, ...) (fx_cuda_bind(kernel, fx_cuda_site<(kernel)>::text(), grid, block, smem, stream)(__VA_ARGS__))
#define FXRT_CUDA_GEMM_PLANS 256

#include "cuda_texts.h" /* made by CMake: all of runtime/cuda/, each behind what it needs */

/* The only call of the run-time API in the texts. */
cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    if (value != 0 || bytes % 4 != 0)
        return cudaErrorInvalidValue;
    return static_cast<cudaError_t>(now->fill(now->user, at, bytes / 4, reinterpret_cast<fx_cu_stream>(stream)));
}

/* ---- cuBLASLt -------------------------------------------------------------------------------------------------------------------- */

static std::atomic<const fx_cublaslt *> loaded;
static const fx_cublaslt *lt() { return loaded.load(std::memory_order_acquire); }

/* A function of the library by its own type. */
template <class... P> static cublasStatus_t call(void *function, P... p) { return reinterpret_cast<cublasStatus_t (*)(P...)>(function)(p...); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) { return call(lt()->Create, handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return call(lt()->Destroy, handle); }
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t desc, cublasComputeType_t compute, cudaDataType_t scale)
{
    return call(lt()->MatmulDescInit_internal, desc, sizeof *desc, compute, scale);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes)
{
    return call(lt()->MatmulDescSetAttribute, desc, attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld)
{
    return call(lt()->MatrixLayoutInit_internal, layout, sizeof *layout, type, rows, columns, ld);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value, size_t bytes)
{
    return call(lt()->MatrixLayoutSetAttribute, layout, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference)
{
    return call(lt()->MatmulPreferenceInit_internal, preference, sizeof *preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    return call(lt()->MatmulPreferenceSetAttribute, preference, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    return call(lt()->MatmulAlgoGetHeuristic, handle, desc, a, b, c, d, preference, asked, results, found);
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a, cublasLtMatrixLayout_t adesc, const void *b,
                              cublasLtMatrixLayout_t bdesc, const void *beta, const void *c, cublasLtMatrixLayout_t cdesc, void *d, cublasLtMatrixLayout_t ddesc,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, cudaStream_t stream)
{
    if (now->planning)
        return CUBLAS_STATUS_SUCCESS;
    return call(lt()->Matmul, handle, desc, alpha, a, adesc, b, bdesc, beta, c, cdesc, d, ddesc, algo, workspace, bytes, stream);
}

struct fx_cuda_products {
    fxrt_cuda_products products;
};

int fx_cuda_products_create(size_t workspace, bool tf32, fx_cuda_products **out, const char **why)
{
    *why = nullptr;
    *out = nullptr;
    loaded.store(fx_cublaslt_load(why), std::memory_order_release);
    if (!lt())
        return cudaErrorNotSupported;
    *why = nullptr;
    *out = static_cast<fx_cuda_products *>(malloc(sizeof **out));
    return *out ? fxrt_cuda_products_create(&(*out)->products, workspace, tf32) : cudaErrorMemoryAllocation;
}

void fx_cuda_products_free(fx_cuda_products *p)
{
    if (p)
        static_cast<void>(fxrt_cuda_products_destroy(&p->products));
    free(p);
}

/* ---- rows of kernel.def ----------------------------------------------------------------------------------------------------------- */

/* As the rows have their buffers, where the function has them otherwise. */
template <class T>
static cudaError_t fxrt_cuda_matmul(const fxrt_gemm_desc *d, const T *x, const T *w, const T *b, const T *r, T *y, float *ws, cudaStream_t stream)
{
    return fxrt_cuda_gemm<T>(&now->products->products, d, x, w, b, r, y, ws, stream);
}
static cudaError_t fxrt_cuda_conv2d_wino(const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b, const float *r, float *y, float *ws,
                                         cudaStream_t stream)
{
    return fxrt_cuda_conv2d_wino(&now->products->products, d, x, w, b, r, y, ws, stream);
}
template <class T>
static std::enable_if_t<sizeof(T) == 2, cudaError_t> fxrt_cuda_conv2d_half(const fxrt_conv2d_desc *d, const T *x, const T *w, const T *b, const T *r, T *y,
                                                                          float *ws, cudaStream_t stream)
{
    return fxrt_cuda_conv2d_half<T>(&now->products->products, d, x, w, b, r, y, ws, stream);
}
template <class T>
static cudaError_t fxrt_cuda_attention(const fxrt_attention_desc *d, const T *q, const T *k, const T *v, const T *bias, const T *mask, T *o, const float *,
                                       cudaStream_t stream)
{
    if (now->float_masks)
        return fxrt_cuda_attention<T, float>(d, q, k, v, reinterpret_cast<const float *>(bias), reinterpret_cast<const float *>(mask), o, stream);
    return fxrt_cuda_attention<T, T>(d, q, k, v, bias, mask, o, stream);
}

/* f(d, buffers..., stream) where that can be called: a row without a kernel for GPUs has none. Braces give buffers their order. */
struct fx_cuda_row {
    int error;
    template <class F, class D, class... B> fx_cuda_row(F f, const D *d, B... b) : error(call_if(0, f, d, b..., reinterpret_cast<cudaStream_t>(now->stream))) {}
    template <class F, class... A> static auto call_if(int, F f, A... a) -> decltype(static_cast<int>(f(a...))) { return f(a...); }
    template <class F, class... A> static int call_if(long, F, A...) { return FX_CUDA_NO_KERNEL; }
};

struct fx_cuda_buffers {
    void *const *at;
    void *take() { return *at++; }
};

template <class T> static int call_row(const fx_cuda_kernel_call *c)
{
    fx_cuda_buffers buffer = {c->buffers};
#define IN(x) , static_cast<const T *>(buffer.take())
#define OPT(x) IN(x)
#define OUT(x) , static_cast<T *>(buffer.take())
#define OVER(x) OUT(x)
#define WS(x) , static_cast<float *>(buffer.take())
#define COUNT(x) , static_cast<int *>(buffer.take())
#define KERNEL(id, desc, buffers, ...)                                                                                                            \
    if (strcmp(c->kernel, #id) == 0)                                                                                                              \
        return fx_cuda_row{[](auto... a) -> decltype(fxrt_cuda_##id(a...)) { return fxrt_cuda_##id(a...); },                                      \
                           static_cast<const fxrt_##desc##_desc *>(c->descriptor) buffers}                                                        \
            .error;
#include "ir/kernel.def"
#undef KERNEL
    return FX_CUDA_NO_KERNEL;
}

int fx_cuda_call_kernel(const fx_cuda_kernel_call *c)
{
    now = c;
    return c->element == FX_CUDA_HALF ? call_row<__half>(c) : c->element == FX_CUDA_BFLOAT16 ? call_row<__nv_bfloat16>(c) : call_row<float>(c);
}
