/* jit/bitcode.h: libfxrt's kernels as LLVM's bitcode, for copies that are made for the sizes of one call.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_JIT_BITCODE_H
#define FXCC_JIT_BITCODE_H

#include "codegen/llvm.h"

/* The kernels of an instruction set, as clang made them when fxcc was built. */
typedef struct fx_bitcode {
    const char *data;
    size_t size;
} fx_bitcode;
/* False: there are none, or this LLVM is too old for them. */
bool fx_bitcode_find(const fx_llvm *L, const char *isa, fx_bitcode *out);

/* Puts the kernels in place of the calls of "NAME" FX_LLVM_SPECIAL in m, of context c. NULL when all is well. */
LLVMErrorRef fx_bitcode_inline(const fx_llvm *L, const fx_bitcode *kernels, LLVMContextRef c, LLVMModuleRef m, LLVMTargetMachineRef machine);

#endif
