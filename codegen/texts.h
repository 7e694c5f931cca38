/* codegen/texts.h: the kernel texts of runtime/, embedded at build time by cmake/embed.cmake.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_TEXTS_H
#define FXCC_TEXTS_H

/* One file of runtime/: name without folder and ".h" ("conv2d"), as in the files column of ir/kernel.def. */
typedef struct fx_runtime_text {
    const char *name, *text;
} fx_runtime_text;
extern const fx_runtime_text fx_runtime_texts[];
extern const int fx_n_runtime_texts;
extern const fx_runtime_text fx_cuda_texts[]; /* the same of runtime/cuda/, which CUDA sources get */
extern const int fx_n_cuda_texts;

#endif
