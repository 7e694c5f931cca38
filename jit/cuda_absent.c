/* jit/cuda_absent.c: in place of cuda_kernels.cpp where there was no C++ compiler (g++) when fxcc was built: plain loops run on a device, kernels do not.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "jit/cuda_kernels.h"

int fx_cuda_products_create(size_t workspace, bool tf32, fx_cuda_products **out, const char **why)
{
    (void)workspace;
    (void)tf32;
    *out = NULL;
    *why = "this fxcc was built without g++, and runs no kernels on a device";
    return FX_CUDA_NO_KERNEL;
}

void fx_cuda_products_free(fx_cuda_products *products)
{
    (void)products; /* nobody has any */
}

int fx_cuda_call_kernel(const fx_cuda_kernel_call *call)
{
    (void)call;
    return FX_CUDA_NO_KERNEL;
}
