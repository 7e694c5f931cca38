/* codegen/llvm_load.c: libLLVM, loaded when it is first needed. What differs between its versions is here.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "codegen/llvm.h"

/* The newest first: Debian's names, then upstream's. */
static const struct {
    const char *file;
    int version;
} libraries[] = {
    {"libLLVM.so.19.1", 19}, {"libLLVM-19.so.1", 19}, {"libLLVM-19.so", 19}, {"libLLVM.so.18.1", 18}, {"libLLVM-18.so.1", 18},
    {"libLLVM-17.so.1", 17}, {"libLLVM-17.so", 17},   {"libLLVM-16.so.1", 16}, {"libLLVM-16.so", 16},
};

#if defined(__x86_64__)
#define FX_LLVM_TARGET "X86"
#elif defined(__aarch64__)
#define FX_LLVM_TARGET "AArch64"
#else
#define FX_LLVM_TARGET "unknown"
#endif

static fx_llvm loaded;
static char reason[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The symbols of one library; false, and the first one it lacks. */
static bool take(void *lib, const char **missing)
{
    static const struct {
        const char *name;
        size_t at;
    } symbols[] = {
        {"LLVMInitialize" FX_LLVM_TARGET "TargetInfo", offsetof(fx_llvm, InitializeTargetInfo)},
        {"LLVMInitialize" FX_LLVM_TARGET "Target", offsetof(fx_llvm, InitializeTarget)},
        {"LLVMInitialize" FX_LLVM_TARGET "TargetMC", offsetof(fx_llvm, InitializeTargetMC)},
        {"LLVMInitialize" FX_LLVM_TARGET "AsmPrinter", offsetof(fx_llvm, InitializeAsmPrinter)},
#define LLVM(name) {"LLVM" #name, offsetof(fx_llvm, name)},
#include "codegen/llvm.def"
#undef LLVM
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *f = dlsym(lib, symbols[i].name);
        if (!f) {
            *missing = symbols[i].name;
            return false;
        }
        *(void **)((char *)&loaded + symbols[i].at) = f;
    }
    return true;
}

static void load(void)
{
    const char *named = getenv("FXCC_LLVM"), *missing = NULL; /* a library's file, for what stands elsewhere */
    size_t n = sizeof libraries / sizeof libraries[0];
    for (size_t i = 0; i < (named ? 1 : n); i++) {
        const char *file = named ? named : libraries[i].file;
        void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (!lib)
            continue;
        if (!take(lib, &missing)) {
            snprintf(reason, sizeof reason, "%s lacks %s: LLVM 16 to 19 is needed (Debian: libllvm19)", file, missing);
            dlclose(lib);
            continue;
        }
        loaded.InitializeTargetInfo();
        loaded.InitializeTarget();
        loaded.InitializeTargetMC();
        loaded.InitializeAsmPrinter();
        loaded.version = named ? 0 : libraries[i].version;
        loaded.file = named ? named : libraries[i].file;
        reason[0] = 0;
        return;
    }
    if (!reason[0])
        snprintf(reason, sizeof reason, "%s%slibLLVM was not found: install it (Debian: apt install libllvm19), or name its file in FXCC_LLVM",
                 named ? named : "", named ? ": " : "");
}

const fx_llvm *fx_llvm_load(const char **why)
{
    pthread_once(&once, load);
    *why = reason;
    return loaded.file ? &loaded : NULL;
}
