/* codegen/codegen.h: loop program to sources.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_CODEGEN_H
#define FXCC_CODEGEN_H

#include "ir/program.h"

typedef enum fx_weights_mode { FX_WEIGHTS_AUTO, FX_WEIGHTS_C, FX_WEIGHTS_BIN, FX_WEIGHTS_INCBIN } fx_weights_mode;

/* Golden vectors for NAME_check.c: inputs and what is expected of so many calls in a row on them: the outputs of each call, and what it leaves in
 * the inputs it changes and in the state (in the program's order, inputs first). Models that change nothing have one call, as 0 means. */
typedef struct fx_golden {
    size_t n_inputs, n_outputs, n_after, calls;
    const fx_tensor *inputs;
    const fx_tensor *outputs;    /* calls * n_outputs */
    const fx_tensor *after;      /* calls * n_after */
    double rtol, atol;
} fx_golden;

typedef struct fx_emit_options {
    const char *prefix;          /* of all symbols and files; NULL: from the model's name */
    fx_weights_mode weights;     /* AUTO: C up to 1 MB, BIN above */
    bool link_runtime;           /* call libfxrt instead of pasting kernels */
    const fx_golden *golden;     /* write NAME_check.c; NULL: no */
    bool shared;                 /* NAME.c is one of several in a translation unit: what they paste alike is there once (for one target, and all
                                    linked or all not) */
} fx_emit_options;

/* Bytes of a file that lie in memory already, wherever the program has them. */
typedef struct fx_file_part {
    size_t at, size;             /* in the file, in order */
    const void *data;
} fx_file_part;

/* One generated file. */
typedef struct fx_file {
    const char *name;            /* "resnet18.c", without folder */
    const char *data;            /* NULL: `size` bytes that are 0 but for the parts: weights, which are not copied to be written */
    size_t size;
    const fx_file_part *parts; size_t n_parts;
} fx_file;

/* The file in one piece, copied to the arena when it is not. */
const char *fx_file_data(fx_arena *arena, const fx_file *f);

/* Everything the program becomes, as texts in p->arena: nothing is written to disk here. Deterministic to the byte. */
fx_status fx_emit_c(fx_program *p, const fx_emit_options *opt, size_t *n_files, fx_file **files);
/* The same for a program whose target is a GPU, as CUDA. */
fx_status fx_emit_cuda(fx_program *p, const fx_emit_options *opt, size_t *n_files, fx_file **files);

/* ---- cuda_device.c: the same for a process that has the text compiled by NVRTC, and launches by itself ------------------------------- */

/* A launch, in order. Its arguments: the symbols that it names (ptrdiff_t), the weights, buffers, and where a failed CHECK is noted (int *). */
typedef struct fx_device_launch {
    const fx_step *step;
    const fx_call_stmt *call;    /* a kernel of runtime/cuda/, which its function there launches, or asks cuBLASLt to; NULL: one of the text */
    const char *kernel;          /* its name in the text */
    fx_dim blocks[3];            /* none where one of them is 0 or less */
    int64_t threads[3];
    const bool *symbols;         /* by symbol */
    bool weights, checks;
    size_t n_bufs;
    const int *bufs;
} fx_device_launch;

typedef struct fx_device_code {
    const char *text;            /* of all kernels; stands alone */
    size_t size;
    fx_device_launch *launches; size_t n_launches, cap_launches;
    uint64_t weights_size;       /* of the block that launches take as weights */
    const uint64_t *weights_at;  /* by buffer: where it lies there; 0: it is not used */
    const bool *by_sixteen;      /* by buffer: inputs and outputs that must lie at multiples of 16 bytes; NULL: none */
    const bool *copied;          /* by output: it is an input, a weight or another output, returned as it is: copied behind the last launch */
    size_t n_reasons;
    const char *const *reasons;  /* a check that fails with FX_FIRST_REASON + i */
} fx_device_code;

enum { FX_FIRST_REASON = 16 };

fx_status fx_emit_device(fx_program *p, fx_device_code *out);

#endif
