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

#endif
