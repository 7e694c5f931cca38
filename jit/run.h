/* jit/run.h: running what LLVM made. Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_JIT_RUN_H
#define FXCC_JIT_RUN_H

#include "codegen/llvm.h"

/* symbols.c: run(...) with at most so many threads (0: as OpenMP is set). */
int32_t fx_code_with_threads(int threads, fx_llvm_run_fn *run, void *const *io, const void *const *weights, unsigned char *arena,
                             unsigned char *state, const int64_t *symbols);

#endif
