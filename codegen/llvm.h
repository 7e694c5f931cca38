/* codegen/llvm.h: loop program to LLVM's intermediate form, by LLVM's C API.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_CODEGEN_LLVM_H
#define FXCC_CODEGEN_LLVM_H

#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "ir/program.h"

/* libLLVM's functions, without the prefix: L->BuildAdd is LLVMBuildAdd. */
typedef struct fx_llvm {
    int version;                 /* 16 to 19 */
    const char *file;            /* the library's name */
    const char *instcombine;     /* this pass as it is called in a list of passes, run once without a check that once was enough */
    void (*InitializeTargetInfo)(void), (*InitializeTarget)(void), (*InitializeTargetMC)(void), (*InitializeAsmPrinter)(void);
#define LLVM(name) __typeof__(&LLVM##name) name;
#include "codegen/llvm.def"
#undef LLVM
} fx_llvm;

/* llvm_load.c: loads libLLVM once a process, and for good; thread-safe. NULL, and *why (a sentence that names the package), when there is
 * none that fits. */
const fx_llvm *fx_llvm_load(const char **why);
bool fx_llvm_was_loaded(void); /* or could not be: whether fx_llvm_load takes no time */

/* The functions a module exports. NAME runs a program. Tensors are dense. io: inputs, then outputs. weights: by the buffers of kind WEIGHT
 * in order. state: the block of buffers of kind STATE (any pointer where there are none). symbols: the values by position. Returns 0, or 1 + the number of the CHECK that failed, in order of the program.
 * NAME_arena_size: bytes of the arena for these values. */
typedef int32_t fx_llvm_run_fn(void *const *io, const void *const *weights, unsigned char *arena, unsigned char *state,
                               const int64_t *symbols);
typedef int64_t fx_llvm_size_fn(const int64_t *symbols);

/* What emitted code calls to run fn(env, begin, end) on parts of [0, extent), on several threads. */
typedef void fx_llvm_loop_fn(void *env, int64_t begin, int64_t end);
#define FX_LLVM_PARALLEL "fxjit_parallel"
typedef void fx_llvm_parallel_fn(fx_llvm_loop_fn *fn, void *env, int64_t extent);

#define FX_LLVM_SPECIAL ".here"

typedef struct fx_llvm_options {
    const char *name;            /* of the exported function */
    bool serial;                 /* parallel loops run on the calling thread */
    bool half;                   /* the CPU converts float16 (F16C) */
    int special;                 /* at most so many calls of kernels get a copy of their own: calls of NAME FX_LLVM_SPECIAL, which the caller defines */
    const char *listing;         /* the program's text, which debuggers show as source: the path of its file; NULL: nothing for debuggers */
} fx_llvm_options;

/* llvm_module.c: the program as a module of context c; in p->arena beside LLVM's own memory. FX_ERR_UNSUPPORTED names a step. The module is
 * the caller's (L->DisposeModule). */
fx_status fx_emit_llvm(fx_program *p, const fx_llvm *L, const fx_llvm_options *opt, LLVMContextRef c, LLVMModuleRef *out);

#endif
