/* jit/code.h: a loop program as machine code in memory.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_JIT_CODE_H
#define FXCC_JIT_CODE_H

#include "ir/program.h"

typedef struct fx_code_options {
    int level;                   /* of LLVM's optimisation, 0 to 3 */
    int threads;                 /* most that a run may use; 1: the calling one */
    const char *cache;           /* folder of objects compiled before (jit/cache.h); NULL: none */
    uint64_t cache_most;         /* bytes they may take */
    const char *name;            /* of the function that runs the program, in what fx_code_emit gives; NULL: "fxjit_run" */
    const char *listing;         /* tell debuggers: path of the program's text, which they show as source; NULL: nothing */
    bool perf;                   /* tell perf */
} fx_code_options;

/* Code that runs a program; kept apart from it: the program may be freed. Weights stay where the program has them. */
typedef struct fx_code fx_code;

/* Loads libLLVM, which takes tens of milliseconds once a process and may be done by another thread ahead of the first compile. */
void fx_code_prepare(void);
bool fx_code_is_prepared(void);

/* Compiles p, which is planned, for this machine. FX_ERR_UNSUPPORTED: no libLLVM, or a step that has no form; says which. */
fx_status fx_code_compile(fx_program *p, const fx_code_options *opt, fx_code **out);
/* As fx_llvm_run_fn (codegen/llvm.h). Any number of threads at once, each with an arena of its own. */
int32_t fx_code_run(const fx_code *code, void *const *io, const void *const *weights, unsigned char *arena, unsigned char *state,
                    const int64_t *symbols);
/* Bytes of the arena a run with these values of the symbols needs. */
uint64_t fx_code_arena_size(const fx_code *code, const int64_t *symbols);
/* What making it took, in milliseconds. Of code kept from an earlier compile passes and codegen are 0. */
typedef struct fx_code_times {
    double load, emit;           /* libLLVM, once a process; the program in LLVM's form */
    double passes, codegen;
    double cache;                /* looking for a kept object, and keeping one */
    double link;
    bool cached;                 /* kept from an earlier compile */
} fx_code_times;
fx_code_times fx_code_took(const fx_code *code);
void fx_code_free(fx_code *code);

/* symbols.c: the functions that compiled code may call, by name; n: how many. */
typedef struct fx_code_symbol {
    const char *name;
    void *address;
} fx_code_symbol;
const fx_code_symbol *fx_code_symbols(size_t *n);

/* Which form of a program to give as text or bytes. */
typedef enum fx_code_form { FX_CODE_LLVM, FX_CODE_ASM, FX_CODE_OBJECT } fx_code_form;
fx_status fx_code_emit(fx_program *p, const fx_code_options *opt, fx_code_form form, fx_text *out);

#endif
