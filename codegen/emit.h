/* codegen/emit.h: what the C printers share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_CODEGEN_EMIT_H
#define FXCC_CODEGEN_EMIT_H

#include "codegen/codegen.h"
#include "codegen/names.h"
#include "codegen/walk.h"

/* A member of the weights struct: a buffer's place in the blob. */
typedef struct fx_wmember {
    int buf;
    uint64_t offset;             /* in the blob, header included */
} fx_wmember;

enum { FX_WEIGHTS_HEADER = 64, FX_WEIGHTS_ALIGN = 64, FX_WEIGHTS_VERSION = 1 };
#define FX_WEIGHTS_MAGIC "FXCCWTS"

/* Files of runtime/ with functions for scalar expressions. */
#define FX_SCALAR_TEXTS(X) X(MATH, math) X(MATH64, math64) X(HALF, half) X(INT, int) X(PHILOX, philox)
enum {
#define FX_X(id, name) FX_TEXT_##id,
    FX_SCALAR_TEXTS(FX_X)
#undef FX_X
    FX_TEXT_COUNT
};

/* A scalar of the step being printed. */
typedef struct fx_localname {
    const char *name;
    fx_dtype dtype;
} fx_localname;

/* A loop of the step being printed. */
typedef struct fx_loopname {
    const char *name;            /* NULL: a loop of one iteration, which is not printed: its variable is 0 */
    fx_dim extent;
} fx_loopname;

/* What a step touches, found by a walk before it is printed. */
typedef struct fx_step_facts {
    struct fx_step_param { int buf; bool written; } *params; /* buffers other than weights: those read, in order of first use, then those written */
    size_t n_params, cap_params;
    bool weights;                              /* reads some */
    size_t calls, loops;
    int products;                              /* CUDA: plans that its products of matrices need; 0: it calls none */
    bool wide;                                 /* some index does not fit an int */
    bool *symbols;                             /* by symbol, then by derived size: some size or index names it */
    size_t checks;                             /* CHECK statements: the step returns a status */
    uint64_t array_bytes;                      /* of local arrays */
    int n_vars, n_locals;                      /* one more than the largest number of a loop variable, of a local */
} fx_step_facts;

/* A size that others determine, with a name of its own. */
typedef struct fx_derived {
    const fx_sym *what;          /* the quotient, remainder or extremum in it */
    int64_t offset;              /* what it is more than that */
    const fx_sym *symbol;
    fx_dim value;                /* in symbols and derived sizes before it */
    int64_t min, max;
    const char *name;
} fx_derived;

/* A reason why a run fails that depends on the model: a size or an index out of range. */
typedef struct fx_reason {
    const char *name;            /* of its status: "NET_ERR_BATCH" */
    const char *text;
} fx_reason;

/* What C and CUDA spell differently. */
typedef struct fx_spelling {
    bool gpu;                    /* steps are kernels; their text is for the device, the rest of the file for the host */
    const char *restrict_word;
    const char *null;
    const char *weights;         /* before the name of a pointer to the weights in a step */
    const char *context;         /* before NAME_context in the head of NAME_run */
    const char *stream;          /* behind the last parameter of NAME_run */
    const char *stream_argument;
    const char *const *functions, *const *macros, *const *locals; /* names beside C's: NAME_..., in capitals, in functions; NULL ends each */
} fx_spelling;
extern const fx_spelling fx_spell_c, fx_spell_cuda;

/* What an aligned loop reads or writes at once: its elements, one an iteration. */
typedef struct fx_piece {
    int buf;
    bool written;
    const fx_affine *index;
    const char *name;
} fx_piece;

/* A kernel of blocks whose threads wait for one another: how many they are along each axis, as the longest loop over them. */
typedef struct fx_block {
    int64_t threads[3];
    const char *name[3];         /* of a thread's number along the axis; NULL: there is one */
    const fx_stmt *last;         /* the statement that ends the kernel */
} fx_block;

typedef struct fx_emit {
    fx_program *p;
    const fx_emit_options *opt;
    const fx_spelling *say;
    fx_context *ctx;
    fx_arena *arena;             /* the program's: what lasts */
    fx_arena *local;             /* texts and tables of the step at hand; emptied after each, see fx_emit_done */
    const char *prefix, *PREFIX; /* "net", "NET" */
    fx_weights_mode weights;     /* never AUTO */
    fx_wmember *members; size_t n_members, cap_members; /* by offset */
    uint64_t weights_size;       /* of the blob, header included */
    uint64_t arena_size;         /* at least FX_WEIGHTS_ALIGN, so that an array of it is valid C; with symbols: for the largest sizes */
    bool finite_arena;           /* with symbols: there are such sizes */
    const char *shape_reason;    /* with symbols: status of shapes that contradict each other */
    uint64_t stack_size;
    uint8_t hash[8];
    fx_names names;              /* at file scope of NAME.c */
    fx_names weight_names;       /* members of the weights struct */
    const char **bufs;           /* by buffer: what code calls it */
    const char **steps;          /* by step: its function */
    const char **inputs, **outputs; /* parameters of NAME_run */
    const char **states;         /* members of NAME_state_t, by state */
    const char **symbols;        /* by symbol, then by derived size: what code calls it */
    struct fx_derived *derived; size_t n_derived, cap_derived; /* see c_derived.c */
    fx_sym_range *sizes; size_t n_sizes; /* symbols, then derived sizes */
    bool deriving;               /* sizes are printed with derived ones by name */
    fx_map replaced;             /* from an expression to what it is then */
    const char *symbol_prefix;   /* before those names: "(dims)->"; NULL: nothing */
    const char **ranges;         /* by symbol: the macros of its range, without _MIN and _MAX */
    fx_dim *large; size_t n_large, cap_large; /* sizes that may leave int64 */
    bool roughly;                /* sizes are printed as expressions of doubles */
    fx_step_facts *facts;        /* by step */
    bool texts[FX_TEXT_COUNT];   /* files of runtime/ that scalar code calls */
    bool casts[FX_DTYPE_COUNT];  /* conversions from float to these integers occur */
    bool int_compares;           /* integers are compared */
    bool parallel, both, vector, unrolled; /* some loop is; both: parallel, and nothing but stores within */
    fx_reason *reasons; size_t n_reasons, cap_reasons; /* symbols' ranges, limits, checks, in this order */
    fx_map checks;               /* from a CHECK statement to the name of its status */
    bool kernels[FX_K_COUNT];    /* called somewhere */
    bool *at_once;               /* CUDA, by buffer: some access is of 16 bytes, or may be; NULL: none is */
    unsigned acts;               /* mask of activations in descriptors */
    fx_file *files; size_t n_files, cap_files;

    /* While a step is printed. */
    fx_text *t;
    int indent;
    const fx_step *step;
    fx_step_facts *fact;
    fx_names *scope;             /* names in the current block of its function */
    fx_localname *locals;        /* by local */
    bool *assigned;              /* by local: set after its declaration */
    fx_loopname *loops;          /* by loop variable */
    const char **params;         /* by buffer: its name as parameter; NULL: none */
    fx_piece *pieces; size_t n_pieces, cap_pieces; /* CUDA: of the aligned loop at hand */
    const fx_stmt *nest;         /* CUDA: the outermost loop around */
    const char *block_number;    /* CUDA, a kernel of several nests: counts each one's blocks from 0; NULL: of one */
    fx_block *block;             /* CUDA: of the kernel at hand; NULL: its threads are each alone */
    int in_threads;              /* CUDA: loops over threads around */
    bool narrow;                 /* CUDA: not all threads of the block run them */
    bool reduces;                /* CUDA: some kernel reduces over threads */
    bool own_halves;             /* CUDA for NVRTC: it has no header of 16-bit floats, and kernels take some */
} fx_emit;

void fx_emit_line(fx_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* indented, with a newline */
void fx_emit_open(fx_emit *e);                   /* indentation alone */
void fx_emit_done(fx_emit *e);                   /* what was printed is printed: e->local is emptied */
fx_file *fx_emit_file(fx_emit *e, const char *suffix, const fx_text *t); /* adds prefix + suffix */
const char *fx_c_type(fx_dtype dtype);           /* of elements in memory: "float"; "uint16_t" for float16 */
const char *fx_c_value_type(fx_dtype dtype);     /* of scalars: float16 and bfloat16 are floats */

/* c_dim.c: sizes */
fx_status fx_c_scan_dim(fx_emit *e, fx_dim d, bool *used); /* marks the symbols it names; refuses what has no spelling */
const char *fx_c_dim(fx_emit *e, fx_dim d);      /* "batch * seq + 1" */
const char *fx_c_factor(fx_emit *e, fx_dim d);   /* the same in parentheses unless it is one name or number */
const char *fx_c_multiplier(fx_emit *e, fx_dim d); /* what stands after "x * " */
bool fx_c_dim_negative(fx_dim d);                /* spelt with a minus that can be taken off */
void fx_put_dims(fx_emit *e, fx_text *t, int rank, const fx_dim *dims, const char *between); /* 1x3x32x32; "scalar" */

/* c_derived.c: names for sizes that others determine */
void fx_c_find_derived(fx_emit *e, fx_names *names);
fx_dim fx_c_derive(fx_emit *e, fx_dim d);        /* with those by name, while e->deriving */
void fx_c_derived_locals(fx_emit *e, fx_text *t, const char *type, const bool *used); /* "    const ptrdiff_t h_1 = (h - 1) / 2 + 1;" */

/* c_expr.c: affine and scalar expressions */
const char *fx_c_affine(fx_emit *e, const fx_affine *a);
fx_status fx_c_value(fx_emit *e, const fx_sexpr *x, const char **out); /* may print temporaries before */
fx_status fx_c_stored(fx_emit *e, fx_dtype dtype, const fx_sexpr *x, const char **out); /* the same as what goes to memory */
fx_status fx_c_scan_value(fx_emit *e, const fx_sexpr *x); /* notes what the file must contain, refuses what has no spelling */
void fx_c_scan_buf(fx_emit *e, int buf, bool written);    /* c_stmt.c: notes a use by the step at hand */
fx_status fx_c_scan_affine(fx_emit *e, const fx_affine *a);
const char *fx_c_element(fx_emit *e, int buf, const fx_affine *index); /* "x[i * 8 + j]" */
const char *fx_c_buf(fx_emit *e, int buf);       /* a buffer in the current step: "x", "weights->conv1_weight" */
void fx_put_float(fx_text *t, float v, bool suffix); /* shortest decimal: 1.5f, INFINITY */
int fx_format_float(char buf[24], float v);      /* the same with suffix, into buf; its length */

/* c.c: names, layout and facts: all that is decided before the first text */
fx_status fx_emit_prepare(fx_emit *e);

/* c_stmt.c: steps */
extern const fx_hooks fx_c_scan_hooks, fx_c_step_hooks;
fx_status fx_c_refuse(fx_emit *e, const char *what);
double fx_c_most(const fx_emit *e, fx_dim d);    /* what the size or a part of it may be at most, without its sign */
fx_status fx_c_scan_loop(void *user, const fx_stmt *loop);
fx_status fx_c_step_begin(void *user, const fx_step *step); /* comment, head, sizes */
void fx_c_enter_block(fx_emit *e);               /* indentation and names */
void fx_c_leave_block(fx_emit *e);
fx_status fx_c_scan(fx_emit *e);                 /* fills facts and what follows from them */
fx_status fx_c_steps(fx_emit *e, fx_text *t, const fx_hooks *hooks); /* one function a step */
/* "function(before &desc, x, ... after);" behind the descriptor's declaration; workspace: also an argument for it. */
void fx_c_put_call(fx_emit *e, const fx_call_stmt *c, const char *function, const char *before, const char *after, bool workspace);

/* c_sizes.c: what a program with symbols has more of: NAME_dims, its checks, the arena's size and slots */
fx_status fx_c_scan_sizes(fx_emit *e);           /* before fx_c_scan; does nothing without symbols */
void fx_c_sizes_header(fx_emit *e, fx_text *t);  /* macros of ranges, struct, declarations */
void fx_c_sizes_source(fx_emit *e, fx_text *t);  /* NAME_check_dims, NAME_arena_size */
void fx_c_size_locals(fx_emit *e, fx_text *t, const char *type, const bool *used); /* "    const ptrdiff_t batch = ...;" */

/* c.c: adds a reason to fail, which has a status of its own; the status' name */
const char *fx_c_add_reason(fx_emit *e, const char *name, const char *text);

/* c_host.c: NAME.h and NAME.c, and their parts that CUDA has, too */
void fx_c_put_title(fx_emit *e, fx_text *t);     /* "model, from model.pt2. Made by fxcc for generic.", and lists of inputs, outputs and state */
void fx_c_put_io_macros(fx_emit *e, fx_text *t);
void fx_c_put_reasons(fx_emit *e, fx_text *t);   /* the last lines of the enum of statuses */
void fx_c_put_reason_cases(fx_emit *e, fx_text *t);
void fx_c_put_silence(fx_emit *e, fx_text *t);
void fx_c_run_head(fx_emit *e, fx_text *t);
void fx_c_call_head(fx_emit *e, fx_text *t, const char *function, const char *last); /* of a function that takes what NAME_run does, but for the last parameter */
void fx_c_run_v_head(fx_emit *e, fx_text *t);
void fx_c_run_v(fx_emit *e, fx_text *t);
void fx_c_run_begin(fx_emit *e, fx_text *t, const char *missing); /* NAME_run: checks, sizes, pointers; missing (C): a condition that returns ERR_NULL */
bool fx_c_needs_copy(const fx_program *p, size_t output); /* it is an input, weight or other output returned as it is */
fx_status fx_c_header(fx_emit *e);
fx_status fx_c_source(fx_emit *e);

/* c_kernels.c: the kernels' text or prototypes */
fx_status fx_c_kernels(fx_emit *e, fx_text *t);
bool fx_c_needs_text(const fx_emit *e, const char *name); /* a file of runtime/ */
bool fx_c_names_text(const char *files, const char *name);  /* "simd math act": whether it is one of them */
void fx_c_descriptors(fx_emit *e, fx_text *t);   /* activations, and the descriptors' types of the kernels that are called */
void fx_c_once(const fx_emit *e, fx_text *t, const char *what); /* around what several files of one translation unit have in common */
void fx_c_end_once(const fx_emit *e, fx_text *t);

/* c_stack.c: a bound on the stack NAME_run takes */
uint64_t fx_c_stack(const fx_emit *e);

/* c_weights.c */
fx_status fx_weights_layout(fx_emit *e);         /* members, weights_size, hash */
void fx_c_weights_struct(fx_emit *e, fx_text *t);
fx_status fx_c_weights(fx_emit *e);              /* NAME_weights.c, NAME.bin */
/* Elements as initialisers, eight a line, each line indented by `indent`, each element followed by a comma. */
void fx_put_elements(fx_text *t, fx_dtype dtype, const void *data, int64_t numel, const char *indent);

/* c_build.c: Makefile, CMakeLists.txt */
fx_status fx_c_build(fx_emit *e);

/* c_state.c: what a model that keeps something from run to run has more of: NAME_state_t, its size, NAME_state_init. Nothing without state. */
void fx_c_state_names(fx_emit *e);
void fx_c_state_header(fx_emit *e, fx_text *t);
void fx_c_state_source(fx_emit *e, fx_text *t);
void fx_c_state_pointers(fx_emit *e, fx_text *t, const bool *used); /* in NAME_run: the members that steps name */
bool fx_c_changes_inputs(const fx_emit *e);

/* cuda_stmt.c: launches as kernels */
int fx_cuda_side_streams(const fx_emit *e);
void fx_cuda_fork_and_join(fx_emit *e, fx_text *t); /* the functions that make side streams wait, and wait for them */
fx_status fx_cuda_launches(fx_program *p, fx_program *out); /* the same with a step for each launch; refuses what has no CUDA form */
const fx_stmt *fx_cuda_nest(const fx_stmt *s);   /* in a list: the next loop over a grid or blocks, behind comments */
fx_dim fx_cuda_blocks(fx_emit *e, const fx_stmt *nest, int axis); /* how many it needs along the axis; -1: in all */
void fx_cuda_threads(const fx_stmt *s, int64_t threads[3]); /* of a block: at least those, along each axis */
bool fx_cuda_guard(const fx_stmt *grid);         /* whether the last block of the axis has threads too many */
fx_status fx_cuda_scan(fx_emit *e);
fx_status fx_cuda_steps(fx_emit *e, fx_text *t);

/* cuda_call.c: calls of kernels: host functions that launch what they need */
bool fx_cuda_has_products(const fx_emit *e);     /* cuBLASLt is needed */
/* The context has one fxrt_cuda_products for steps that run alone, one for those beside others: whether it is used, and what it is called. */
bool fx_cuda_uses_products(const fx_emit *e, bool beside);
const char *fx_cuda_products_name(bool beside);
bool fx_cuda_has_halves(const fx_emit *e);
const char *fx_cuda_element(fx_dtype dtype); /* of a kernel's buffer */
bool fx_cuda_needs_text(const fx_emit *e, const char *name); /* a file of runtime/cuda/ */
bool fx_cuda_texts_name(fx_emit *e, const char *descriptor);  /* whether one of those has a function of it */
fx_status fx_cuda_call_begin(fx_emit *e, const fx_step *step); /* the function's head */
fx_status fx_cuda_call(void *user, const fx_stmt *s);
void fx_cuda_plan(fx_emit *e, fx_text *t);       /* NAME_plan, which create calls; nothing without products */

/* cuda_launch.c: in NAME_run, a launch for each kernel */
typedef struct fx_grid {
    const fx_stmt *nest;         /* the first of its nests */
    fx_dim blocks[3];
    int64_t threads[3];          /* of a block */
} fx_grid;
fx_grid fx_cuda_grid(fx_emit *e, const fx_step *launch);
void fx_cuda_launch_all(fx_emit *e, fx_text *t);
void fx_cuda_grid_sizes(fx_emit *e, bool *used); /* marks the symbols and derived sizes that grids name */

/* cuda_header.c: NAME.h, texts of statuses */
fx_status fx_cuda_header(fx_emit *e);
void fx_cuda_strings(fx_emit *e, fx_text *t);

/* cuda_host.c: NAME.cu */
fx_status fx_cuda_source(fx_emit *e);
void fx_cuda_put(fx_emit *e, fx_text *t, const char *s); /* a text in which @, net_ and NET_ stand for the prefixes */
fx_status fx_cuda_kernels(fx_emit *e, fx_text *t); /* its part for the device: functions and kernels */
bool fx_cuda_has_checks(const fx_emit *e);       /* some kernel may report a failure */

/* cuda_load.c, cuda_run.c: parts of it: weights; run, capture, wait */
void fx_cuda_hash(fx_emit *e, const fx_text *before, const fx_text *behind); /* e->hash: of the program's text and the weights' layout, not of their values */
void fx_cuda_load(fx_emit *e, fx_text *t);
void fx_cuda_run(fx_emit *e, fx_text *t);
void fx_cuda_run_checks(fx_emit *e, fx_text *t); /* how NAME_run begins: context, pointers, sizes, slots */

/* cuda_build.c: Makefile, CMakeLists.txt */
void fx_cuda_build(fx_emit *e);

/* cuda_check.c: NAME_check.cu, NAME_golden.bin */
fx_status fx_cuda_check(fx_emit *e);

/* c_golden.c: what the programs that check a model have of golden vectors */
/* One golden vector: an input, or what an output, a changed input or a state has to be after a call. */
typedef struct fx_vector {
    const char *name;            /* of its array in the source: "in0", "want1", "want1_2" in the second call */
    const char *got;             /* what is compared with it; NULL: an input */
    const char *what;            /* for messages: "input" */
    size_t number;
    const fx_io *io;
    fx_tensor t;                 /* dense */
} fx_vector;
typedef struct fx_vectors {
    fx_vector *v; size_t n;      /* in order: the inputs; for each call the outputs, then the inputs it changes and the states */
    int64_t *values;             /* of symbols */
    uint64_t arena_size;         /* with these */
    uint64_t file_size;          /* of NAME_golden.bin; 0: they are in the source */
} fx_vectors;
fx_status fx_golden_gather(fx_emit *e, fx_vectors *out);
size_t fx_golden_calls(const fx_emit *e);
const char *fx_golden_label(fx_emit *e, const fx_vector *v, size_t call); /* for messages */
void fx_golden_tolerances(fx_emit *e, fx_text *t);                      /* RTOL, ATOL */
void fx_golden_dims(fx_emit *e, fx_text *t, const fx_vectors *all);     /* "static const net_dims dims = ...;" */
void fx_golden_data(fx_emit *e, fx_text *t, const fx_vectors *all, const char *specifiers); /* arrays, or places in NAME_golden.bin */
void fx_golden_results(fx_emit *e, fx_text *t, const fx_vectors *all);  /* arrays got0, ..., now0, ... */
void fx_golden_comparisons(fx_text *t, size_t n, const fx_vector *v);   /* compare_float32 and the like */
void fx_golden_reader(fx_text *t);                                      /* read_file */

/* c_check.c: NAME_check.c, NAME_golden.bin */
fx_status fx_c_check(fx_emit *e);

#endif
