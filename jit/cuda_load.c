/* jit/cuda_load.c: CUDA's libraries, loaded when they are first needed.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/cuda_kernels.h"

bool fx_cuda_symbols(void *library, const fx_cuda_symbol *symbols, size_t n, void *table, const char **missing)
{
    for (size_t i = 0; i < n; i++) {
        void *f = dlsym(library, symbols[i].name);
        if (!f) {
            *missing = symbols[i].name;
            return false;
        }
        memcpy((char *)table + symbols[i].at, &f, sizeof f);
    }
    return true;
}

void *fx_cuda_open(const char *stem, const char **file, char *why, size_t size)
{
    static const int versions[] = {13, 12};
    const char *toolkit = getenv("CUDA_HOME");
    char path[1024], first[512] = "";
    const char *const folder[] = {"", toolkit && *toolkit ? toolkit : "/usr/local/cuda"}, *const within[] = {"", "/lib64/"};
    for (int f = 0; f < 2; f++)
        for (size_t v = 0; v < sizeof versions / sizeof versions[0]; v++) {
            const int length = snprintf(path, sizeof path, "%s%s%s.so.%d", folder[f], within[f], stem, versions[v]);
            void *library = length < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
            if (library) {
                *file = strdup(path);
                if (*file)
                    return library;
                dlclose(library);
            }
            const char *error = dlerror();
            if (!*first)
                snprintf(first, sizeof first, "%s", error ? error : "out of memory");
        }
    snprintf(why, size, "%s.so.13 (or .12) was not found, nor in %s/lib64: %s", stem, folder[1], first);
    return NULL;
}

/* ---- the driver --------------------------------------------------------------------------------------------------------- */

static fx_cuda_driver driver;
static char driver_reason[1024];
static bool driver_there;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

static void load_driver(void)
{
    static const fx_cuda_symbol symbols[] = {
#define FX_X(symbol, name, parameters) {#symbol, offsetof(fx_cuda_driver, name)},
        FX_CUDA_DRIVER(FX_X)
#undef FX_X
    };
    const char *missing;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *error = dlerror();
        snprintf(driver_reason, sizeof driver_reason, "there is no CUDA driver: %s", error ? error : "libcuda.so.1 was not found");
        return;
    }
    if (!fx_cuda_symbols(library, symbols, sizeof symbols / sizeof symbols[0], &driver, &missing)) {
        snprintf(driver_reason, sizeof driver_reason, "the CUDA driver (libcuda.so.1) is too old: it lacks %s", missing);
        return;
    }
    const fx_cu_status status = driver.Init(0);
    const char *words = NULL;
    if (status == 0)
        driver_there = true;
    else if (status == FX_CU_NO_DEVICE)
        snprintf(driver_reason, sizeof driver_reason, "there is a CUDA driver, but no device");
    else
        snprintf(driver_reason, sizeof driver_reason, "the CUDA driver does not start: %s",
                 driver.GetErrorString(status, &words) == 0 && words ? words : "for no reason it tells");
}

const fx_cuda_driver *fx_cuda_driver_load(const char **why)
{
    pthread_once(&driver_once, load_driver);
    *why = driver_reason;
    return driver_there ? &driver : NULL;
}

/* ---- NVRTC ---------------------------------------------------------------------------------------------------------------- */

static fx_nvrtc nvrtc;
static char nvrtc_reason[1024];
static pthread_once_t nvrtc_once = PTHREAD_ONCE_INIT;

static void load_nvrtc(void)
{
    static const fx_cuda_symbol symbols[] = {
#define FX_X(symbol, name, parameters) {#symbol, offsetof(fx_nvrtc, name)},
        FX_NVRTC(FX_X)
#undef FX_X
    };
    const char *missing, *file;
    void *library = fx_cuda_open("libnvrtc", &file, nvrtc_reason, sizeof nvrtc_reason);
    if (!library)
        return;
    if (!fx_cuda_symbols(library, symbols, sizeof symbols / sizeof symbols[0], &nvrtc, &missing))
        snprintf(nvrtc_reason, sizeof nvrtc_reason, "%s is too old: it lacks %s", file, missing);
    else if (nvrtc.Version(&nvrtc.major, &nvrtc.minor) != 0)
        snprintf(nvrtc_reason, sizeof nvrtc_reason, "%s does not tell its version", file);
    else
        nvrtc.file = file;
}

const fx_nvrtc *fx_nvrtc_load(const char **why)
{
    pthread_once(&nvrtc_once, load_nvrtc);
    *why = nvrtc_reason;
    return nvrtc.file ? &nvrtc : NULL;
}

/* ---- cuBLASLt -------------------------------------------------------------------------------------------------------------- */

static fx_cublaslt cublaslt;
static char cublaslt_reason[1024];
static bool cublaslt_there;
static pthread_once_t cublaslt_once = PTHREAD_ONCE_INIT;

static void load_cublaslt(void)
{
    static const fx_cuda_symbol symbols[] = {
#define FX_X(name) {"cublasLt" #name, offsetof(fx_cublaslt, name)},
        FX_CUBLASLT(FX_X)
#undef FX_X
    };
    const char *missing, *file;
    void *library = fx_cuda_open("libcublasLt", &file, cublaslt_reason, sizeof cublaslt_reason);
    if (!library)
        return;
    cublaslt_there = fx_cuda_symbols(library, symbols, sizeof symbols / sizeof symbols[0], &cublaslt, &missing);
    if (!cublaslt_there)
        snprintf(cublaslt_reason, sizeof cublaslt_reason, "%s is too old: it lacks %s", file, missing);
}

const fx_cublaslt *fx_cublaslt_load(const char **why)
{
    pthread_once(&cublaslt_once, load_cublaslt);
    *why = cublaslt_reason;
    return cublaslt_there ? &cublaslt : NULL;
}
