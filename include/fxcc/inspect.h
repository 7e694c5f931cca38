/* fxcc/inspect.h: looking inside: texts of graphs and loop programs, the pass table, targets, values of nodes.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_INSPECT_H
#define FXCC_INSPECT_H

#include "fxcc/compile.h"
#include "fxcc/jit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Forms a graph is shown in. Those that are FX's are laid out as torch.fx does (docs/text.md). */
typedef enum fx_form {
    FX_FORM_TABLE,    /* a table with shapes, FLOPs and bytes */
    FX_FORM_TEXT,     /* the .fx text, which fx_load_model reads back */
    FX_FORM_DOT,      /* FxGraphDrawer's picture, for Graphviz */
    FX_FORM_CODE,     /* FX's `code`: Python that runs under torch */
    FX_FORM_READABLE, /* FX's print_readable: the same as a class, with shapes, dtypes and source lines */
    FX_FORM_TABULAR,  /* FX's print_tabular: opcode, name, target, args, kwargs */
    FX_FORM_JSON      /* all there is, for programs to read */
} fx_form;

/* The graph as text, owned by the graph's context. */
fx_status fx_graph_format(fx_graph *graph, fx_form form, const char **text);

/* The loop program the graph (left unchanged) is lowered to, as text owned by the graph's context. Of options, target, threads, dims and disable count. */
fx_status fx_program_format(fx_graph *graph, const fx_compile_options *options, const char **text);

/* The passes of lowering in their order. NULL when i is past the last. */
typedef struct fx_pass_info {
    const char *name;
    const char *over; /* "graph" or "program" */
    const char *doc;
} fx_pass_info;
const fx_pass_info *fx_pass_get(size_t i);

/* What a target preset or file stands for. Strings are owned by ctx. */
typedef struct fx_target_info {
    const char *name, *isa, *cflags; /* "x86_64-avx2", "avx2", "-mavx2 -mfma" */
    int lanes;
    bool gpu;
} fx_target_info;
fx_status fx_target_describe(fx_context *ctx, const char *name_or_file, fx_target_info *info);

/* What a model costs as compiled. Sizes the model leaves open are taken at the upper ends of their ranges (128 where there are none). */
typedef struct fx_model_report {
    uint64_t arena_size, live_size, weights_size; /* bytes; live: the largest set of tensors that live at once */
    double worst_ratio;                           /* of arena to largest live set, over so many choices of open sizes: */
    int sizes;                                    /* the largest, the smallest, drawn ones; 1 when no size is open */
    uint64_t bytes_moved;      /* read and written by all steps, each tensor at most once a step and direction */
    uint64_t bytes_unfused;    /* the same without fusion, work in place, attention, merging, scheduling */
    uint64_t bytes_copied;     /* by copies */
    size_t steps, loops, kernels, copies; /* loops: steps without kernel calls; copies: steps that only move what is there already */
    double seconds;            /* of lowering and printing */
} fx_model_report;
typedef struct fx_copy_info {
    const char *step, *why;    /* the step, and its title, which says why the copy is there */
    uint64_t bytes;
} fx_copy_info;
/* copy (NULL: no) is called for each copy left, with texts that live as long as the call. The graph is left unchanged; of options, those of
 * lowering count. */
fx_status fx_report(fx_graph *graph, const fx_compile_options *options, void (*copy)(void *user, const fx_copy_info *copy), void *user,
                    fx_model_report *out);

/* A launch of the program for a GPU, or launches of one call where a kernel needs several. Sizes that the model leaves open as in fx_report. */
typedef struct fx_kernel_info {
    const char *step, *title;  /* the step it belongs to; its title names the layer and what it computes */
    const char *kernel;        /* of runtime/cuda/: "conv2d"; "": generated */
    int launches;
    int64_t grid[3], block[3]; /* blocks, threads; 0: the launcher of the kernel chooses */
    double flops;
    uint64_t read, written;    /* bytes; each buffer in each direction at most once whole */
    uint64_t workspace;        /* of these, what its blocks pass to one another: parts of sums, written and read */
} fx_kernel_info;
/* What all launches do, and the least that any program for the graph moves (docs/cuda.md, "Bytes"). */
typedef struct fx_kernel_totals {
    size_t launches;
    double flops;
    uint64_t read, written, workspace;
    uint64_t inputs, outputs, weights, intermediates; /* the lower bound is their sum */
} fx_kernel_totals;
/* options->target is a GPU's. kernel (NULL: no) is called in the order of launches, with texts that live as long as the call. */
fx_status fx_report_kernels(fx_graph *graph, const fx_compile_options *options, void (*kernel)(void *user, const fx_kernel_info *kernel), void *user,
                            fx_kernel_totals *out);

/* Inputs and outputs of a graph, numbered as fx_graph_interpret takes and gives them. */
size_t fx_graph_input_count(const fx_graph *graph);
size_t fx_graph_output_count(const fx_graph *graph);

/* How the model nests its outputs: tuples, lists and dicts whose leaves are numbers of outputs as fx_graph_interpret gives them (a call with several
 * results is a tuple of them, a number or bool among the outputs one too), or what is no value: None, text. */
fx_value fx_graph_output_tree(const fx_graph *graph);
/* dtype, rank and sizes of input i into *out, without data. FX_ERR_UNSUPPORTED when it is no tensor or its shape is not static. */
fx_status fx_graph_input_shape(const fx_graph *graph, size_t i, fx_tensor *out);
/* The same for output i. */
fx_status fx_graph_output_shape(const fx_graph *graph, size_t i, fx_tensor *out);
/* The same for all inputs, sizes that the model leaves open being at the low ends of their ranges, which dims narrow as in fx_compile_options. */
fx_status fx_graph_least_inputs(fx_graph *graph, const char *const *dims, size_t n_dims, fx_tensor *inputs);

/* Name, dtype and range of each size, of input i; of output i. FX_ERR_UNSUPPORTED when it is no tensor or its type is not known. */
fx_status fx_graph_input_info(const fx_graph *graph, size_t i, fx_value_info *out);
fx_status fx_graph_output_info(const fx_graph *graph, size_t i, fx_value_info *out);

/* Checks inputs (dtypes, sizes, the ranges of sizes that the model leaves open: FX_ERR_ARGUMENT names what does not fit) and gives the dtypes,
 * ranks and sizes that outputs will have: as many as fx_graph_output_count says; NULL: only checks. */
fx_status fx_graph_shapes_for(const fx_graph *graph, size_t n_inputs, const fx_tensor *inputs, fx_tensor *outputs);

/* What a run changes beside giving outputs: inputs in their order, then buffers (and parameters) in the order of the emitted code's state. */
typedef struct fx_written {
    size_t input;              /* the number of the input, when buffer is NULL */
    const char *buffer;        /* the path of the buffer; NULL: an input */
} fx_written;
/* *changes is owned by the graph's context. Fails as a compile does where a write cannot be compiled. */
fx_status fx_graph_written(fx_graph *graph, size_t *n, const fx_written **changes);

/* Runs the graph `calls` times in a row by the reference interpreter, on copies of the inputs and of the buffers that it changes. *outputs gets, for
 * each call, the outputs, then what the inputs and buffers of fx_graph_written are after it: new tensors of the graph's context. */
fx_status fx_graph_calls(fx_graph *graph, size_t calls, size_t n_inputs, const fx_tensor *inputs, size_t *n_outputs, fx_tensor **outputs);

/* Whether the node's value is one tensor, so that fx_graph_with_outputs takes it. */
bool fx_node_is_tensor(const fx_node *node);

/* A copy of the graph (weights shared) that returns the values of the given nodes instead of its own outputs. */
fx_status fx_graph_with_outputs(fx_graph *graph, size_t count, fx_node *const *nodes, fx_graph **out);

#ifdef __cplusplus
}
#endif
#endif
