/* ir/program.h: the loop program: what lowering decided and code generation spells.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A program is a list of buffers and a list of steps; a step (a layer or fused region) is a list of statements: loops, stores
 * of scalar expressions at affine indices, local scalars, guards, kernel calls. Everything is decided here: kernels,
 * layouts (by strides), offsets in the arena. Printers decide nothing. Sizes are dims (ir.h): numbers, or expressions over the
 * program's symbols, which the caller of the emitted code gives values within their ranges. */
#ifndef FXCC_PROGRAM_H
#define FXCC_PROGRAM_H

#include "fxcc/runtime.h"
#include "ir/ir.h"

/* STATE: what runs change and the next run reads, in a block of its own that the caller keeps. COUNTER: 32-bit counters of one call of a GPU's kernel, in a block
 * of their own: zeros when it is made, and again when the call is done. LOCAL: an array within a step, on the stack of who runs it (of each thread, when declared
 * inside a parallel loop). */
typedef enum fx_buf_kind { FX_BUF_INPUT, FX_BUF_OUTPUT, FX_BUF_WEIGHT, FX_BUF_ARENA, FX_BUF_STATE, FX_BUF_COUNTER, FX_BUF_LOCAL } fx_buf_kind;

typedef struct fx_buf {
    int id;
    const char *name;          /* unique, a C identifier: "layer1_0_conv1", "layer1_0_conv1_weight" */
    fx_buf_kind kind;
    fx_dtype dtype;            /* float16 and bfloat16 elements are 16-bit patterns in memory */
    fx_dim numel;              /* elements. WEIGHT, STATE, COUNTER, LOCAL: a number */
    int rank;                  /* memory order sizes, for comments: 1x56x56x64 */
    fx_dim dims[FX_MAX_RANK];
    int io;                    /* INPUT, OUTPUT, STATE: number */
    bool changed;              /* INPUT: the run writes it too; the caller sees that */
    int initial;               /* STATE: id of the WEIGHT with the values it begins with; -1 for other kinds */
    const void *data;          /* WEIGHT: numel elements (packed), in the program's arena or mapped */
    uint64_t hash;             /* WEIGHT without data (read from a text): the hash the text gives */
    const char *note;          /* WEIGHT: how it is packed; others: layout ("NHWC") */
    uint64_t offset;           /* bytes, in the arena (ARENA of a program without symbols), weights (WEIGHT), state (STATE), counters (COUNTER); set by lower/memory.c;
                                  64-byte aligned */
    int slot;                  /* ARENA of a program with symbols: its slot, see fx_slot; else -1 */
    bool workspace;            /* ARENA: lives within one step only */
    int overlay;               /* ARENA: id of a buffer this one may take the place of, element by element, because the step
                                  that defines this one reads each element before it writes it there and is the last to use
                                  the other; -1: none */
    fx_loc loc;
} fx_buf;

/* sum of coef[i] * variable var[i], plus base. Terms are sorted by var, coefs nonzero. A variable is a loop's (>= 0) or an integer
 * local's (FX_VAR_LOCAL(local) < 0): an index that is data, which a CHECK around the access keeps in range. */
enum { FX_MAX_LOOPS = 16 };
#define FX_VAR_LOCAL(local) (-1 - (local)) /* its own inverse */
typedef struct fx_affine {
    fx_dim base;
    int n;
    int var[FX_MAX_LOOPS];
    fx_dim coef[FX_MAX_LOOPS];
} fx_affine;

typedef enum fx_sop {
    FX_S_CONST,                /* imm (floats) or ival */
    FX_S_LOAD,                 /* buf[index] */
    FX_S_LOCAL,                /* a local scalar */
    FX_S_INDEX,                /* the value of an affine expression, as i64 */
    FX_S_CAST,                 /* arg[0] converted to dtype as torch does */
#define SCALAR(id, n, ...) FX_S_##id,
#include "ir/scalar.def"
#undef SCALAR
    FX_S_COUNT
} fx_sop;

/* Every operation rounds (float16, bfloat16: computes in float32 and rounds to the type) or wraps (integers) in its dtype. */
typedef struct fx_sexpr {
    fx_sop op;
    fx_dtype dtype;            /* of the value */
    double imm;
    int64_t ival;
    int buf;                   /* LOAD */
    int local;                 /* LOCAL */
    const struct fx_sexpr *arg[3];
    fx_affine index;           /* LOAD, INDEX; other operations end before it: copy expressions by fx_s_copy */
} fx_sexpr;

/* ARRAY declares buf (FX_BUF_LOCAL) for the rest of its list. CHECK, REDUCE: see below. BARRIER: of the threads of a block. */
typedef enum fx_stmt_kind {
    FX_ST_LOOP, FX_ST_STORE, FX_ST_LOCAL, FX_ST_SET, FX_ST_IF, FX_ST_CALL, FX_ST_COMMENT, FX_ST_ARRAY, FX_ST_CHECK, FX_ST_BARRIER, FX_ST_REDUCE
} fx_stmt_kind;
/* GRID: iterations are threads of a GPU's grid, each alone; the blocks have so many of them along the axis. Such a loop is outermost or all that another
 * one has in its body: together they are one launch. BLOCK, THREAD: iterations are blocks of a grid and threads of a block (CUDA); axis says which. Several
 * loops over blocks (GRID: of one thread) may be of one axis, whose blocks then count the innermost of them fastest. As of every loop, what follows a loop over
 * threads begins when all have done: its end is a barrier. Arrays of a block's body are its threads' shared memory, those of a thread's its own. */
typedef enum fx_loop_kind { FX_LOOP_SERIAL, FX_LOOP_PARALLEL, FX_LOOP_VECTOR, FX_LOOP_UNROLLED, FX_LOOP_GRID, FX_LOOP_BLOCK, FX_LOOP_THREAD } fx_loop_kind;

typedef enum fx_kernel_id {
#define KERNEL(id, ...) FX_K_##id,
#include "ir/kernel.def"
#undef KERNEL
    FX_K_COUNT
} fx_kernel_id;

enum { FX_MAX_BUF_ARGS = 9, FX_MAX_FIELDS = 40 };

typedef struct fx_kernel {
    fx_kernel_id id;
    const char *name;          /* "conv2d" */
    const char *desc;          /* "conv2d": fxrt_conv2d_desc */
    const char *buffers;       /* as in kernel.def */
    const char *files, *cuda;  /* texts of runtime/, of runtime/cuda/ */
    const char *doc;
    int n_bufs;
    struct { const char *name; bool optional, written, over_x, counts; } buf[FX_MAX_BUF_ARGS]; /* over_x: may be x itself; counts: see kernel.def */
    int n_fields;
    const struct fx_kernel_field { const char *name; bool is_float; } *field;
} fx_kernel;

const fx_kernel *fx_kernel_get(fx_kernel_id id);      /* kernel.c: a row of a constant table made from kernel.def */
const fx_kernel *fx_kernel_find(const char *name);    /* NULL if there is none */
int fx_kernel_field(const fx_kernel *k, const char *name); /* position, -1 */
int fx_kernel_buf(const fx_kernel *k, const char *name);   /* position of a buffer argument, -1 */
/* Position of the argument that is read in step with what is written, so that y may take its place; -1: none. The residual of a contraction,
 * or x where kernel.def says OVER(y). */
int fx_kernel_in_step(const fx_kernel *k);
bool fx_kernel_is_conv2d(fx_kernel_id id);            /* conv2d, also with more before or after it: the same weights and workspace */
/* Whether a kernel computes tensors of dtype as they are: float32 always, float16 and bfloat16 by the kernels of GPUs. */
bool fx_kernel_takes(const fx_target *target, fx_kernel_id kernel, fx_dtype dtype);
/* Of a GPU: how many plans of products (of cuBLASLt) a call of the kernel needs at most; 0: it multiplies none. Its workspace begins with cuBLASLt's
 * (fx_target_products_workspace), behind which is the kernel's own. */
int fx_kernel_products(fx_kernel_id kernel);
bool fx_products_activate(int act);                   /* whether cuBLASLt's epilogues have the activation; else a kernel behind the product has it */

typedef struct fx_call_stmt {
    fx_kernel_id kernel;
    const char *name;          /* of the descriptor in emitted code: "layer1_0_conv1" */
    double field[FX_MAX_FIELDS]; /* values by position; ints are exact */
    const fx_sym *sym[FX_MAX_FIELDS]; /* integer fields that are expressions (field[] is then 0); NULL: a number. They fit int32_t: the
                                  program's entry checks that (fx_program_limit_call) */
    int buf[FX_MAX_BUF_ARGS];  /* buffer ids; -1: NULL */
    fx_dim offset[FX_MAX_BUF_ARGS]; /* elements from the buffer's start */
    uint64_t bytes_read, bytes_written; /* for reports */
} fx_call_stmt;

/* Fields by name; a name the descriptor lacks is ignored and reads as 0. */
void fx_call_set(fx_call_stmt *c, const char *field, double v);
void fx_call_set_dim(fx_call_stmt *c, const char *field, fx_dim v);
double fx_call_field(const fx_call_stmt *c, const char *field);       /* 0 for an expression */
fx_dim fx_call_dim(const fx_call_stmt *c, const char *field);         /* of an integer field */
bool fx_call_is_static(const fx_call_stmt *c);                        /* no field and no offset is an expression */
/* Between the fields and the descriptor struct of runtime.h (fxrt_conv2d_desc for conv2d, ...). */
void fx_call_to_desc(const fx_call_stmt *c, void *desc);              /* expressions as 0 */
void fx_call_from_desc(fx_call_stmt *c, const void *desc);
/* A copy with the symbols' values put in; false when one cannot be computed. */
bool fx_call_bind(fx_symbols symbols, const int64_t *values, const fx_call_stmt *c, fx_call_stmt *out);

typedef struct fx_stmt {
    fx_stmt_kind kind;
    struct fx_stmt *next;
    /* LOOP: for var in [0, extent) */
    int var;                   /* unique in the step */
    fx_dim extent;             /* UNROLLED: a number */
    fx_loop_kind loop;
    int axis;                  /* GRID, BLOCK, THREAD: 0 x, 1 y, 2 z */
    int threads;               /* GRID: of a block, along the axis */
    bool aligned;              /* VECTOR in a GRID: what its iterations read or write along it is neighbours, `extent` of them, whose first one lies at a
                                  multiple of the extent: at most 16 bytes, read before and written behind the loop at once. Only stores and locals are
                                  inside, and nothing that it stores to is read */
    bool beside;               /* GRID, outermost: in one launch with the nest before it (comments aside), whose blocks are as large; what they store to is
                                  apart from all the others touch */
    const char *hint;          /* name of the axis: "n", "h", "c" */
    struct fx_stmt *body;      /* LOOP, IF, CHECK */
    /* STORE buf[index] = value; LOCAL dtype local = value; SET local = value; REDUCE local = op over all threads' local, see below */
    int buf;                   /* STORE, ARRAY */
    const fx_sexpr *value;
    int local;                 /* unique in the step */
    fx_sop op;                 /* REDUCE: add, mul, max, min, and, or */
    /* IF all cond[i] >= 0 */
    int n_cond;
    fx_affine *cond;           /* room for 2 * FX_MAX_RANK in an IF, else NULL */
    fx_call_stmt *call;        /* CALL */
    /* CHECK: if 0 <= local < extent, body; else the run fails (NAME_run returns an error that names the step) and body is skipped.
     * local is an integer LOCAL that is not SET again. The rest of the run still happens, so iterations stay independent. */
    /* REDUCE: in a GRID whose innermost loop is along x and one block's threads: 32 (a warp), or a larger power of two in a block that has no threads
     * along other axes. Every iteration of that loop comes to it equally often: no guard, no check is between. Each gets the value of op over all
     * of them, combined along a fixed tree: element by element the halves of a warp, then their halves, to one value; the warps' values likewise. It
     * orders no accesses to memory. float16 and bfloat16 have max and min alone. */
    const char *text;          /* COMMENT: one line; CHECK: what the index is: "index into the 30522 rows of embeddings.word.weight" */
    fx_affine index;           /* STORE; other statements end before it: copy them by fx_stmt_copy or fx_stmt_alone */
} fx_stmt;

typedef struct fx_step {
    const char *name;          /* a C identifier unique in the program */
    const char *title;         /* "layer1.0.conv2: conv2d 64->64 3x3, batch norm, relu" */
    fx_loc loc;
    const char *shapes;        /* "1x56x56x64 -> 1x56x56x64" */
    int64_t flops;             /* with symbols: at the lower ends of their ranges */
    int region;                /* 0: none. Steps of one region follow one another; those of different streams may run at once: what one writes, no
                                  step of another stream touches. What is before the region has ended, what is behind it waits for all of it. The
                                  order of the list is one of its orders */
    int stream;                /* within the region: 0 the caller's, below FX_MOST_STREAMS */
    fx_stmt *body;
} fx_step;

enum { FX_MOST_STREAMS = 4 };

typedef struct fx_io {
    const char *name;          /* a C identifier: "x", "output" */
    const char *label;         /* as the model calls it */
    int buf;
    fx_dtype dtype;
    int rank;
    fx_dim dims[FX_MAX_RANK];  /* logical, row-major dense */
} fx_io;

/* A place in the arena of a program with symbols: as large as the largest of its buffers, rounded up to 64 bytes; it starts where the last of the
 * slots it stands above ends, at 0 when it stands above none. Slots that do not stand above one another, directly or through others, may overlap.
 * Evaluated when the sizes are known; the arena ends where the last slot does. */
typedef struct fx_slot {
    int n;
    const fx_dim *bytes;       /* of its buffers; the largest counts */
    int n_above;
    const int *above;          /* slots before this one in the list */
} fx_slot;

/* A condition on the symbols that a run checks first: value >= 0. */
typedef struct fx_limit {
    fx_dim value;
    const char *text;          /* "batch*seq must be at most 4194303: kernels count in 32 bits" */
} fx_limit;

typedef struct fx_program {
    fx_context *ctx;
    fx_arena *arena;
    const char *name;          /* of the model, any text; codegen/names.c makes identifiers */
    const char *file;
    fx_target target;
    fx_sym_range *symbols; size_t n_symbols, cap_symbols; /* those that sizes name; names are C identifiers; each range starts at >= 0 */
    fx_limit *limits; size_t n_limits, cap_limits;
    fx_buf *bufs; size_t n_bufs, cap_bufs;
    fx_step *steps; size_t n_steps, cap_steps;
    fx_io *inputs; size_t n_inputs, cap_inputs;
    fx_io *outputs; size_t n_outputs, cap_outputs;
    fx_io *states; size_t n_states, cap_states;
    fx_slot *slots; size_t n_slots, cap_slots;
    uint64_t arena_size, weights_size, state_size, counters_size; /* bytes; set by lower/memory.c; arena_size with symbols: at the upper ends of their ranges,
                                            0 when there are none */
    uint64_t live_size;                  /* the largest live set, with workspace and alignment: the planner's lower bound */
    uint8_t model_hash[8];               /* of program text and weights; ties .bin to code */
    fx_map buf_names, step_names;        /* taken; names are interned */
} fx_program;

fx_symbols fx_program_symbols(const fx_program *p);
/* The input whose size *dim tells the symbol's value (fx_dim_solve), one that is the symbol alone if there is one; -1: none. */
int fx_program_symbol_place(const fx_program *p, size_t symbol, int *dim);
/* Bytes of the arena for values of the symbols (by position; NULL without symbols), and where each buffer lies (offsets[id], may be NULL). */
bool fx_program_arena(const fx_program *p, const int64_t *values, uint64_t *size, uint64_t *offsets);
/* The same without allocating: room for 2 * n_slots numbers is given. */
bool fx_program_places(const fx_program *p, const int64_t *values, uint64_t *room, uint64_t *size, uint64_t *offsets);
/* Whether the sizes that memory is made of are numbers and fit it, for values of the symbols: false for what overflows. Allocates nothing. */
bool fx_program_arena_fits(const fx_program *p, const int64_t *values);
/* Gives a block of state_size bytes, aligned to 64, the values that state begins with. */
void fx_program_init_state(const fx_program *p, unsigned char *state);
/* Adds the limit d <= most, which a run checks, unless it is proved or follows from one that is there. why: "kernels count in 32 bits". */
void fx_program_limit(fx_program *p, fx_dim most, fx_dim d, const char *why);
void fx_program_limit_call(fx_program *p, const fx_call_stmt *c);     /* that integer fields which are expressions fit int32_t */
/* A program without symbols that is p at these values of them; false when a size cannot be computed (or is negative). */
bool fx_program_bind(fx_program *p, const int64_t *values, fx_program **out);

/* ---- program.c: building ------------------------------------------------------------------------------- */
fx_program *fx_program_new(fx_context *ctx, const char *name, const fx_target *target);
int fx_program_buf(fx_program *p, fx_buf_kind kind, const char *name, fx_dtype dtype, int rank, const fx_dim *dims); /* id; name made unique and an identifier */
uint64_t fx_buf_bytes(const fx_buf *b);                                /* of its elements; its size is a number */
fx_step *fx_program_step(fx_program *p, const char *name);            /* pointer valid until the next step is added */
fx_stmt *fx_stmt_new(fx_program *p, fx_stmt_kind kind);
fx_stmt *fx_stmt_copy(fx_program *p, const fx_stmt *s);               /* without what follows it; its conditions are its own, all else is the same */
fx_stmt fx_stmt_alone(const fx_stmt *s);                              /* by value, without what follows it */
fx_affine fx_affine_const(int64_t base);
fx_affine fx_affine_dim(fx_dim base);
void fx_affine_add(fx_context *ctx, fx_affine *a, int var, fx_dim coef); /* merges equal variables */
fx_affine fx_affine_sum(fx_context *ctx, const fx_affine *a, const fx_affine *b);
bool fx_affine_is_static(const fx_affine *a);                         /* all coefficients are numbers */
bool fx_affine_equal(const fx_affine *a, const fx_affine *b);
fx_dim fx_affine_coef(const fx_affine *a, int var);                   /* 0 when var is not in it */
fx_sexpr *fx_s_copy(fx_program *p, const fx_sexpr *e);                /* of the node alone: the operands are the same */
fx_sexpr *fx_s_const(fx_program *p, fx_dtype dtype, double v);
fx_sexpr *fx_s_int(fx_program *p, fx_dtype dtype, int64_t v);         /* an integer constant, exact */
fx_sexpr *fx_s_load(fx_program *p, int buf, const fx_affine *index);  /* of the buffer's dtype */
fx_sexpr *fx_s_local(fx_program *p, int local, fx_dtype dtype);
fx_sexpr *fx_s_index(fx_program *p, const fx_affine *index);          /* i64 */
fx_sexpr *fx_s_cast(fx_program *p, fx_dtype dtype, const fx_sexpr *a); /* a itself when it has the dtype */
fx_sexpr *fx_s_op(fx_program *p, fx_sop op, fx_dtype dtype, const fx_sexpr *a, const fx_sexpr *b, const fx_sexpr *c);
const char *fx_sop_name(fx_sop op);
int fx_sop_arity(fx_sop op);
bool fx_sop_is_comparison(fx_sop op);                                 /* its result is a bool, whatever its operands are */
bool fx_sop_is_exact(fx_sop op);                                      /* of representable float16 or bfloat16 numbers it surely gives one */

/* Calls f for each access of a statement list: which buffer, written or not, and the smallest and largest element it may touch
 * given the loops, guards and checks around it (kernel calls by the footprint their descriptor declares). lo and hi are expressions over
 * the symbols. A statement's reads are reported before its write. Loops without iterations and guards that cannot hold report nothing. where: the
 * symbols' ranges in which the loops around it have iterations. */
typedef void fx_access_fn(void *user, int buf, bool written, fx_dim lo, fx_dim hi, fx_symbols where, const fx_stmt *at);
void fx_stmt_accesses(const fx_program *p, const fx_stmt *body, fx_access_fn *f, void *user);
/* Tells f each guard in the body that cannot hold in any iteration of the loops around it. */
void fx_stmt_impossible(const fx_program *p, const fx_stmt *body, void (*f)(void *user, const fx_stmt *guard), void *user);
/* What the elements of all arguments but the workspace are: those of y. */
fx_dtype fx_call_dtype(const fx_program *p, const fx_call_stmt *c);
bool fx_call_adds_floats(const fx_program *p, const fx_call_stmt *c); /* attention of 16 bits whose masks are float32 */
/* The elements [*lo, *hi] of buffer argument `arg` a call may touch, offset included; false when the kernel does not say (packed
 * transposed convolution weights, workspace): then from the offset to the end. *hi < *lo: none. */
bool fx_call_footprint(const fx_program *p, const fx_call_stmt *c, int arg, fx_dim *lo, fx_dim *hi);

/* Whether y may lie where x does, element for element: the kernel says so (kernel.def), and their strides are equal. */
bool fx_call_may_be_in_place(const fx_call_stmt *c);

/* ---- program_verify.c ------------------------------------------------------------------------------------ */
/* Every name defined, types agree, indices within their buffers, kernel fields complete, arena buffers written before
 * read; `planned`: offsets set and no two buffers that live at once overlap (but for overlay). Shares no code with the planner. */
fx_status fx_program_verify(fx_program *p, bool planned, const char *where);

/* ---- program_types.c: FX_ERR_UNSUPPORTED names the tensor or step of a type that the program's target has not */
fx_status fx_program_check_types(const fx_program *p);

/* ---- program_streams.c ----------------------------------------------------------------------------------------- */
/* A buffer that a step touches: elements [lo, hi]; those of a call in rows (a part of a concatenation), only the residues [from, to] by `period`
 * (0: any). */
typedef struct fx_touch {
    int step, buf;
    bool written, call;
    fx_dim lo, hi;
    int64_t period, from, to;
} fx_touch;
typedef struct fx_touches {
    fx_arena *arena;
    int step;                  /* of the next ones */
    fx_touch *v; size_t n, cap;
} fx_touches;
void fx_step_touches(const fx_program *p, const fx_stmt *body, fx_touches *t);
/* Whether steps with these two may not run at once: one of them writes what the other may touch. */
bool fx_touches_meet(const fx_program *p, const fx_touch *a, const fx_touch *b);

/* Whether two loops of a list may run at once: neither stores to an element that the other touches. */
bool fx_nests_apart(fx_program *p, const fx_stmt *a, const fx_stmt *b);

/* ---- program_print.c, program_parse.c ---------------------------------------------------------------------- */
/* Weights of at most 64 elements with their values, larger ones by name, size and hash. */
void fx_program_print(fx_text *t, const fx_program *p);
void fx_stmt_print(fx_text *t, const fx_program *p, const fx_stmt *s, int indent); /* a list; for messages and dumps */
void fx_sexpr_print(fx_text *t, const fx_program *p, const fx_sexpr *e);
fx_status fx_program_parse(fx_context *ctx, const char *file, const char *text, size_t size, fx_program **out);

/* ---- program_inputs.c ----------------------------------------------------------------------------------------------------- */
/* What does not fit: at is an input's number (SHAPE; TWICE: its size dim is not what others tell), a symbol's (UNTOLD) or a limit's. */
typedef enum fx_misfit_kind { FX_MISFIT_COUNT, FX_MISFIT_SHAPE, FX_MISFIT_TWICE, FX_MISFIT_UNTOLD, FX_MISFIT_LIMIT } fx_misfit_kind;
typedef struct fx_misfit {
    fx_misfit_kind kind;
    size_t at;
    int dim;
    int64_t expected;            /* TWICE: the size */
} fx_misfit;
/* The sizes of a program's inputs that are not numbers, found once for all calls. */
typedef struct fx_open_size {
    int input, dim;
    int symbol;                  /* it is factor * this symbol + rest; -1: another expression */
    int64_t factor, rest;
} fx_open_size;
typedef struct fx_open_sizes {
    size_t n;
    fx_open_size *v;             /* inputs and dims ascend */
    int *told_by;                /* by symbol: which of v tells its value (fx_program_symbol_place); -1: none */
} fx_open_sizes;
void fx_program_open_sizes(const fx_program *p, fx_arena *arena, fx_open_sizes *open);
/* Values of the symbols, by position, as the sizes of the inputs tell; dtypes, sizes, ranges and limits are checked. n_in may also count the
 * states. False: *why. Allocates nothing and reads the program only. */
bool fx_program_match(const fx_program *p, const fx_open_sizes *open, size_t n_in, const fx_tensor *in, int64_t *values, fx_misfit *why);
void fx_io_put(fx_text *t, const fx_program *p, const fx_io *io); /* "float32[batch in 1..64, 3, 32, 32]" */
/* "input 0 'x': expected float32[...], got ..." into buf, cut off where it does not fit; expected: fx_io_put's text of the input told about. */
void fx_misfit_text(const fx_program *p, const fx_misfit *why, size_t n_in, const fx_tensor *in, const char *expected, char *buf, size_t size);
/* The same as a status of p's context. */
fx_status fx_program_values(fx_program *p, size_t n_in, const fx_tensor *in, int64_t *values);

/* ---- program_run.c, program_kernels.c: an interpreter for the loop program ---------------------------------------------- */
/* Runs a program slowly and plainly: a judge of lowering that shares no code with the runtime (kernels are evaluated from their
 * descriptors on packed weights, as fxcc/runtime.h documents the layouts). Inputs as p->inputs; the symbols' values follow from their
 * sizes, which are checked (FX_ERR_ARGUMENT); outputs are new tensors of ctx. Inputs that the program changes are changed. n_in may also
 * count the states (p->states, after the inputs), which are read and changed then; without them each run begins with the initial values.
 * `planned`: buffers lie in one arena at their offsets, so that a wrong plan gives wrong numbers; else each has memory of its own.
 * Threads of a block that have barriers run in step, a statement at a time. What was never written is NaN (integers: a pattern). Every access is checked; FX_INTERNAL names the step that leaves its buffer. A failed
 * CHECK is FX_ERR_ARGUMENT and names the step. */
fx_status fx_program_run(fx_program *p, bool planned, size_t n_in, const fx_tensor *in, size_t *n_out, fx_tensor **out);

/* One kernel call on floats; bufs[i] is argument i with its offset, NULL when absent. The call is static (fx_call_bind). */
void fx_call_run(const fx_program *p, const fx_call_stmt *c, float *const *bufs);

#endif
