/* codegen/llvm_load.c: libLLVM, loaded when it is first needed. What differs between its versions is here.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE /* dlvsym */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/llvm.h"

/* The newest first: Debian's names, then upstream's. */
static const char *const libraries[] = {"libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so", "libLLVM.so.18.1", "libLLVM-18.so.1",
                                        "libLLVM-17.so.1", "libLLVM-17.so",   "libLLVM-16.so.1", "libLLVM-16.so"};
enum { OLDEST = 16, NEWEST = 19 };

#if defined(__x86_64__)
#define FX_LLVM_TARGET "X86"
#elif defined(__aarch64__)
#define FX_LLVM_TARGET "AArch64"
#else
#define FX_LLVM_TARGET "unknown"
#endif

static fx_llvm loaded;
static char reason[1024];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool tried;

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

/* The major version, as the library tells (LLVM 16 and later) or its symbols do (Debian's); 0: not known; -1: no LLVM at all. */
static int version_of(void *lib)
{
    void *symbol = dlsym(lib, "LLVMGetVersion");
    if (symbol) {
        unsigned major, minor, patch;
        void (*get)(unsigned *, unsigned *, unsigned *);
        memcpy(&get, &symbol, sizeof get);
        get(&major, &minor, &patch);
        return (int)major;
    }
    for (int v = OLDEST - 1; v > 2; v--) {
        char name[16];
        snprintf(name, sizeof name, "LLVM_%d", v);
        if (dlvsym(lib, "LLVMContextCreate", name))
            return v;
    }
    return dlsym(lib, "LLVMContextCreate") ? 0 : -1;
}

#define NEEDED "LLVM 16 to 19 is needed (Debian: apt install libllvm19; or name such a library's file in FXCC_LLVM)"

/* Whether lib can be used; else the reason. */
static bool fits(void *lib, const char *file)
{
    const char *missing;
    int version = version_of(lib);
    if (version < 0)
        snprintf(reason, sizeof reason, "%s is no libLLVM: " NEEDED, file);
    else if (version == 0)
        snprintf(reason, sizeof reason, "%s is an LLVM before %d: " NEEDED, file, OLDEST);
    else if (version < OLDEST || version > NEWEST)
        snprintf(reason, sizeof reason, "%s is LLVM %d: " NEEDED, file, version);
    else if (!take(lib, &missing))
        snprintf(reason, sizeof reason, "%s, LLVM %d, lacks %s: " NEEDED, file, version, missing);
    else {
        loaded.version = version;
        loaded.instcombine = version >= 18 ? "instcombine<no-verify-fixpoint>" : "instcombine";
        return true;
    }
    return false;
}

static void load(void)
{
    const char *named = getenv("FXCC_LLVM"); /* a library's file, for what stands elsewhere */
    size_t n = sizeof libraries / sizeof libraries[0];
    named = named && *named ? named : NULL;
    for (size_t i = 0; i < (named ? 1 : n); i++) {
        const char *file = named ? named : libraries[i];
        void *lib = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
        if (!lib) {
            const char *why = dlerror();
            if (named)
                snprintf(reason, sizeof reason, "FXCC_LLVM names a file that is no library to load (%s): " NEEDED, why ? why : named);
            continue;
        }
        if (!fits(lib, file)) {
            dlclose(lib);
            continue;
        }
        loaded.InitializeTargetInfo();
        loaded.InitializeTarget();
        loaded.InitializeTargetMC();
        loaded.InitializeAsmPrinter();
        loaded.file = file;
        reason[0] = 0;
        return;
    }
    if (!reason[0])
        snprintf(reason, sizeof reason, "libLLVM was not found: " NEEDED);
}

bool fx_llvm_was_loaded(void)
{
    return atomic_load(&tried);
}

const fx_llvm *fx_llvm_load(const char **why)
{
    pthread_once(&once, load);
    atomic_store(&tried, true);
    *why = reason;
    return loaded.file ? &loaded : NULL;
}
