/* fxcc/jit.h: models compiled in memory, by LLVM, and called.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_JIT_H
#define FXCC_JIT_H

#include "fxcc/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How to compile. Zero-initialise and set what differs. */
typedef struct fx_jit_options {
    int level;                /* of LLVM's optimisation, 1 to 3; 0: 1, the one that compiles fastest into fast code. From 2 on small kernel calls are copies made for
                                 their sizes, see docs/jit.md */
    int threads;              /* most threads a call may use, and compiling; 0: 8; 1: the calling thread alone */
    const char *const *dims;  /* sizes the model leaves open, narrowed or fixed, as in fx_compile_options */
    size_t n_dims;
    const char *cache;        /* folder of objects that were compiled before; NULL: $FXCC_CACHE, or fxcc/jit in $XDG_CACHE_HOME or ~/.cache; "": none */
    uint64_t cache_most;      /* bytes it may take; 0: 1 GiB. Those not used for longest go first */
    const char *disable;      /* parts of lowering not to do, "fuse,layout" say; NULL: none */
    const char *debug;        /* tell gdb and lldb of the code: functions bear the model's names of layers, and their source is the loop program, which
                                 is written to MODEL.prog in this folder. NULL: $FXCC_JIT_DEBUG; "": do not. Such code is not kept in the cache */
    bool perf;                /* tell perf: functions are added to /tmp/perf-PID.map, as MODEL.STEP. Also when $FXCC_PERF is 1 */
    const char *name;         /* of the function that fx_jit_emit's code exports, a C identifier; NULL: "fxjit_run" */
    const char *device;       /* "cuda" or "cuda:1": a GPU of this machine, by NVRTC and the CUDA driver, which are loaded then (docs/jit.md); level, threads, debug
                                 and perf do nothing there. NULL: this machine's processor */
} fx_jit_options;

/* Machine code of a model, for this machine. Its weights are where the graph's context has them: the context must outlive it; a call after
 * that fails with a message. It needs nothing else of the context, so that calls, and freeing it, may go on in other threads while one thread
 * uses the context; the graph may change or be compiled again. Freeing it frees its code, its memory and the weights that compiling made. */
typedef struct fx_function fx_function;

/* Compiles graph, which is left unchanged. One function serves all sizes that the graph leaves open. options may be NULL. The graph's context is
 * used by one thread at a time, as ever; threads with contexts of their own compile at once.
 * FX_ERR_UNSUPPORTED: there is no libLLVM (the message names the package), or an operation has no form, which is named. LLVM itself ends the
 * process when it finds no memory. */
fx_status fx_jit_compile(fx_graph *graph, const fx_jit_options *options, fx_function **function);

/* No call may be under way. NULL is allowed. A function that was freed must not be used: where its memory was not given to something else since,
 * calls say so (FX_ERR_ARGUMENT), counts are 0 and freeing it again does nothing; more cannot be caught. */
void fx_function_free(fx_function *function);

/* What goes in or comes out. Strings and the struct belong to the function. */
typedef struct fx_value_info {
    const char *name;         /* as the model calls it */
    fx_dtype dtype;
    int rank;
    bool changed;             /* an input that calls write, too */
    int64_t min[FX_MAX_RANK], max[FX_MAX_RANK]; /* of sizes; equal where the size is fixed; INT64_MAX: unbounded */
} fx_value_info;
size_t fx_function_input_count(const fx_function *function);
size_t fx_function_output_count(const fx_function *function);
const fx_value_info *fx_function_input(const fx_function *function, size_t i);  /* NULL past the last */
const fx_value_info *fx_function_output(const fx_function *function, size_t i);

/* What the model keeps from call to call: buffers that it changes ("bn.running_mean"). They begin with the model's values. Calls of such a function
 * come one after another, whichever threads they are from. *value gets the tensor, its data being the function's own: to be read and written
 * between calls. NULL past the last. */
size_t fx_function_state_count(const fx_function *function);
const fx_value_info *fx_function_state(const fx_function *function, size_t i, fx_tensor *value);
void fx_function_reset(fx_function *function); /* gives them the model's values again; no call may be under way */

/* Sets dtype, rank, sizes and dense strides of the outputs that these inputs give (their data and storage are left alone), so that the caller
 * can make room. Of inputs only dtype, rank and sizes are read. */
fx_status fx_function_outputs(fx_function *function, size_t n_in, const fx_tensor *in, size_t n_out, fx_tensor *out, char *error, size_t error_size);

/* Runs it. Inputs may have any strides and lie at any address; dense ones at multiples of their element's size are read where they lie, others
 * through a copy. Outputs are dense, of the sizes fx_function_outputs tells, written where their data points, at multiples of an element's size.
 * What is written overlaps nothing else of the call: neither outputs nor inputs that the model changes, which are changed whatever their strides.
 * Tensors of no elements need no data. Any number of threads may call at once.
 * FX_ERR_ARGUMENT: a count, dtype, rank, size, stride or pointer that does not fit, or an index out of range: error (of error_size bytes; may be
 * NULL) names the input, what was expected and what came; nothing was written, but after an index out of range, where what is written is
 * unspecified. FX_ERR_NOMEM: no memory for the arena; it is kept for the next call.
 * After fork, functions of the parent work in the child, and it may compile; the thread that forked runs their loops on itself alone there
 * (libgomp's threads do not survive). Fork while no other thread is in a call or a compile. */
fx_status fx_function_call(fx_function *function, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error,
                           size_t error_size);

/* Of a function for a GPU. Inputs and outputs may lie on the device, dense, or in the host's memory, from and to which they are copied. fx_function_call
 * uses the default stream and returns when all is done. This one uses the caller's (a CUstream or cudaStream_t) and returns when all is on its way, but waits where
 * an input or output is the host's, an index may be out of range, or the model keeps something from call to call; for what is freed or written next, the caller's
 * stream is in order. Calls come one after another, on the device too. */
fx_status fx_function_call_on(fx_function *function, void *stream, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error,
                              size_t error_size);

/* The device's number, or -1: the function is for this machine's processor. */
int fx_function_device(const fx_function *function);

/* Bytes of the arena that calls with the sizes of the last call needed (or will, of a model without open sizes), and of weights. */
void fx_function_memory(const fx_function *function, uint64_t *arena, uint64_t *weights);

/* Whether the code was kept from an earlier compile. */
bool fx_function_cached(const fx_function *function);

/* The entries of a cache (folder as in fx_jit_options) and their bytes; `clear` removes them. The folder's path is put into path. */
typedef struct fx_jit_cache_info {
    uint64_t entries, bytes;
} fx_jit_cache_info;
fx_status fx_jit_cache(fx_context *ctx, const char *folder, bool clear, fx_jit_cache_info *info, char *path, size_t path_size);

/* The code as LLVM's text, assembly or an object file, in memory of the context. */
typedef enum fx_jit_form { FX_JIT_LLVM_IR, FX_JIT_ASM, FX_JIT_OBJECT } fx_jit_form;
fx_status fx_jit_emit(fx_graph *graph, const fx_jit_options *options, fx_jit_form form, const char **data, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
