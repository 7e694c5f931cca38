/* fxcc/compile.h: models to C sources.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_COMPILE_H
#define FXCC_COMPILE_H

#include "fxcc/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a model: a .pt2 of torch.export.save or a .fx text (with the .safetensors it names). Weights are mapped, not read. The graph belongs to ctx.
 * FX_ERR_IO, FX_ERR_FORMAT, FX_ERR_UNSUPPORTED with diagnostics that name file, entry, node and reason. */
fx_status fx_load_model(fx_context *ctx, const char *path, fx_graph **graph);

/* Writes a model, by the path's extension:
 *   .fx    the text form, of any graph; the elements of tensors of more than 64 in PATH.safetensors beside it
 *   .pt2   an archive that torch.export.load reads and runs: graphs of aten operators on tensors of known type; all else is FX_ERR_UNSUPPORTED,
 *          by name
 * Files appear whole or not at all. The graph is left as it is; weights are written from where they lie, not gathered in memory. */
fx_status fx_model_save(fx_graph *graph, const char *path);

typedef enum fx_weights { FX_WEIGHTS_DEFAULT, FX_WEIGHTS_IN_C, FX_WEIGHTS_IN_BIN, FX_WEIGHTS_IN_INCBIN } fx_weights;

/* What to emit. Zero-initialise and set what differs. */
typedef struct fx_compile_options {
    const char *target;       /* preset or file; NULL: "native" */
    const char *prefix;       /* of symbols and file names; NULL: from the model's name */
    fx_weights weights;       /* default: in C up to 1 MB, .bin above */
    bool link_runtime;        /* call libfxrt instead of pasting the kernels into the file */
    bool check;               /* also NAME_check.c (NAME_check.cu), with golden vectors by the reference interpreter on seeded inputs */
    const char *golden;       /* .npz with inputs then outputs: golden vectors for NAME_check.c (implies check) */
    int threads;              /* most threads the emitted code may use; 0: 8 */
    bool unproved_warn;       /* a loop that is not proved (fxcc/prove.h) is a warning, not an error */
    /* Sizes the model leaves open, narrowed or fixed: "s0=8", "s0=2..16"; by an input's axis: "x:0=8". n_dims of them. */
    const char *const *dims;
    size_t n_dims;
    const char *arch;         /* of CUDA: architectures to build for, "80,90,120": code for each, PTX of the newest. NULL: the target's */
    bool allow_tf32;          /* of CUDA: products of float32 may be rounded to TF32 */
    const char *disable;      /* parts of lowering not to do, "fuse,layout" say: fx_part_get lists them. NULL: none */
    /* For those who look inside; NULL or false: off. Pass names are those of `fxcc passes`. */
    const char *dump_before, *dump_after, *stop_after;
    bool time_passes;
    void (*log)(void *user, const char *text); /* receives dumps and times */
    void *log_user;
} fx_compile_options;

/* The parts of lowering that `disable` names. NULL when i is past the last. */
typedef struct fx_part_info {
    const char *name, *doc;
} fx_part_info;
const fx_part_info *fx_part_get(size_t i);

/* What was emitted. */
typedef struct fx_compile_result {
    uint64_t arena_size, weights_size, live_size; /* bytes */
    uint64_t source_size;                         /* bytes of C without weights */
    size_t kernels, loops;                        /* kernel calls, loop nests */
    const char *cflags;                           /* the compiler's, of the target; owned by the graph's context. NULL: nothing was emitted */
} fx_compile_result;

/* Compiles graph (left unchanged) and writes the sources into the folder dir, made if missing. Files appear whole or not at
 * all: they are written beside and renamed once all is well. result may be NULL. */
fx_status fx_compile(fx_graph *graph, const fx_compile_options *options, const char *dir, fx_compile_result *result);

#ifdef __cplusplus
}
#endif
#endif
