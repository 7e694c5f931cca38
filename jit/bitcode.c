/* jit/bitcode.c: libfxrt's kernels as LLVM's bitcode, for copies that are made for the sizes of one call.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The bitcode is in this library (.incbin). FXCC_BITCODE: the version of the clang that made it, as CMake found it; FXCC_BITCODE_DIR: where. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "jit/bitcode.h"

#ifdef FXCC_BITCODE
#define TAKE(isa)                                                                                                                       \
    extern const char fx_bitcode_##isa[] __attribute__((visibility("hidden"))), fx_bitcode_##isa##_end[] __attribute__((visibility("hidden"))); \
    __asm__(".pushsection .rodata\n.balign 16\nfx_bitcode_" #isa ":\n.incbin \"" FXCC_BITCODE_DIR "/fxrt_" #isa ".bc\"\nfx_bitcode_" #isa       \
            "_end:\n.byte 0\n.popsection");
#define ENTRY(isa) {#isa, fx_bitcode_##isa, fx_bitcode_##isa##_end},
#if defined(__x86_64__)
#define ISAS(X) X(generic) X(avx2) X(avx512)
#else
#define ISAS(X) X(generic) X(neon)
#endif
ISAS(TAKE)
static const struct {
    const char *isa, *begin, *end;
} kernels[] = {ISAS(ENTRY)};
#endif

bool fx_bitcode_find(const fx_llvm *L, const char *isa, fx_bitcode *out)
{
#ifdef FXCC_BITCODE
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0] && L->version >= FXCC_BITCODE; i++)
        if (strcmp(kernels[i].isa, isa) == 0) {
            *out = (fx_bitcode){kernels[i].begin, (size_t)(kernels[i].end - kernels[i].begin)};
            return true;
        }
#else
    (void)L;
    (void)isa;
#endif
    *out = (fx_bitcode){NULL, 0};
    return false;
}

/* Of another clang's CPU: functions that are for other features than their callers are not put in place of calls. */
static void strip(const fx_llvm *L, LLVMValueRef fn)
{
    static const char *const names[] = {"target-cpu", "target-features", "tune-cpu"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        L->RemoveStringAttributeAtIndex(fn, (LLVMAttributeIndex)-1, names[i], (unsigned)strlen(names[i]));
}

static void always_inline(const fx_llvm *L, LLVMContextRef c, LLVMValueRef fn)
{
    L->RemoveEnumAttributeAtIndex(fn, (LLVMAttributeIndex)-1, L->GetEnumAttributeKindForName("noinline", 8));
    L->AddAttributeAtIndex(fn, (LLVMAttributeIndex)-1, L->CreateEnumAttribute(c, L->GetEnumAttributeKindForName("alwaysinline", 12), 0));
}

/* Names the kernels that m wants as it calls them. What they call of libfxrt's stays there. */
static void prepare(const fx_llvm *L, LLVMContextRef c, LLVMModuleRef m, LLVMModuleRef kernels)
{
    for (LLVMValueRef fn = L->GetFirstFunction(kernels); fn; fn = L->GetNextFunction(fn)) {
        char wanted[128];
        size_t size;
        const char *name = L->GetValueName2(fn, &size);
        if (L->IsDeclaration(fn))
            continue;
        strip(L, fn);
        int n = snprintf(wanted, sizeof wanted, "%.*s" FX_LLVM_SPECIAL, (int)size, name);
        if (n > 0 && (size_t)n < sizeof wanted && L->GetNamedFunction(m, wanted)) {
            L->SetValueName2(fn, wanted, (size_t)n);
            always_inline(L, c, fn);
        } else if (L->GetLinkage(fn) == LLVMExternalLinkage) {
            L->SetLinkage(fn, LLVMAvailableExternallyLinkage);
        }
    }
}

/* The next function at or after fn that a copy is of; NULL: none. */
static LLVMValueRef next_copy(const fx_llvm *L, LLVMValueRef fn)
{
    for (; fn; fn = L->GetNextFunction(fn)) {
        size_t size, end = sizeof FX_LLVM_SPECIAL - 1;
        const char *name = L->GetValueName2(fn, &size);
        if (size > end && memcmp(name + size - end, FX_LLVM_SPECIAL, end) == 0)
            return fn;
    }
    return NULL;
}

LLVMErrorRef fx_bitcode_inline(const fx_llvm *L, const fx_bitcode *bits, LLVMContextRef c, LLVMModuleRef m, LLVMTargetMachineRef machine)
{
    /* What clang optimised already learns the call's sizes; the passes of a level would take six times as long. */
    char passes[300];
    snprintf(passes, sizeof passes, "always-inline,elim-avail-extern,function(sroa,early-cse,%s,simplifycfg,sccp,%s,simplifycfg,adce),globaldce", L->instcombine,
             L->instcombine);
    LLVMModuleRef kernels;
    if (!next_copy(L, L->GetFirstFunction(m)))
        return NULL;
    LLVMMemoryBufferRef buffer = L->CreateMemoryBufferWithMemoryRange(bits->data, bits->size, "kernels", 0);
    if (L->GetBitcodeModuleInContext2(c, buffer, &kernels)) { /* takes the buffer */
        L->DisposeMemoryBuffer(buffer);
        return L->CreateStringError("the kernels' bitcode cannot be read");
    }
    L->SetTarget(kernels, L->GetTarget(m));
    L->SetDataLayout(kernels, L->GetDataLayoutStr(m));
    prepare(L, c, m, kernels);
    if (L->LinkModules2(m, kernels)) /* frees kernels */
        return L->CreateStringError("the kernels' bitcode cannot be linked");
    for (LLVMValueRef fn = L->GetFirstFunction(m); (fn = next_copy(L, fn)); fn = L->GetNextFunction(fn))
        L->SetLinkage(fn, LLVMInternalLinkage); /* nothing else calls them */
    LLVMPassBuilderOptionsRef options = L->CreatePassBuilderOptions();
    LLVMErrorRef error = L->RunPasses(m, passes, machine, options);
    L->DisposePassBuilderOptions(options);
    return error;
}
