/* tests/fuzz/fuzz.h: the random-graph test: what its files share, in the order of a case's life.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A case is a small graph over the rows of op.def with inputs. It is drawn (gen.c, rows.c), computed by the reference interpreter
 * with a bound on the error that each element may have (oracle.c), lowered and run as a loop program, unplanned and planned
 * (case.c), and as emitted C, many cases a translation unit (unit.c); also on inputs that eager raises for (wrong.c). What fails is made
 * smaller (shrink.c) and written down. */
#ifndef FXCC_FUZZ_H
#define FXCC_FUZZ_H

#include "ir/ir.h"
#include "lower/lower.h"

/* ---- draws: everything that happens follows from a seed ------------------------------------------------------------------ */

typedef struct fz_rng {
    uint64_t state;
} fz_rng;

static inline uint64_t fz_next(fz_rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline int64_t fz_below(fz_rng *r, int64_t n) { return (int64_t)(fz_next(r) % (uint64_t)n); }
static inline int64_t fz_in(fz_rng *r, int64_t lo, int64_t hi) { return lo + fz_below(r, hi - lo + 1); } /* inclusive */
static inline bool fz_one_in(fz_rng *r, int64_t n) { return fz_below(r, n) == 0; }
/* The seed of case i of a run. */
static inline uint64_t fz_case_seed(uint64_t seed, int64_t i)
{
    fz_rng r = {seed * 0x9e3779b97f4a7c15u + (uint64_t)i};
    return fz_next(&r);
}

/* ---- cases ----------------------------------------------------------------------------------------------------------------- */

/* All but complex numbers. */
enum { FZ_DTYPES = 1 << FX_F32 | 1 << FX_F64 | 1 << FX_F16 | 1 << FX_BF16 | 1 << FX_I8 | 1 << FX_I16 | 1 << FX_I32 | 1 << FX_I64 | 1 << FX_U8 | 1 << FX_BOOL };
enum { FZ_MAX_INPUTS = 24, FZ_MAX_OUTPUTS = 8, FZ_MAX_RESULTS = FZ_MAX_INPUTS + FZ_MAX_OUTPUTS, FZ_MAX_NUMEL = 1200, FZ_MAX_VARIANTS = 3, FZ_MAX_RUNS = FZ_MAX_VARIANTS + 2 };

/* How a case is compiled; drawn, and written beside a failure. */
typedef struct fz_settings {
    const char *target;
    int threads;
    unsigned off;                /* FX_OFF_* */
    fx_fault fault;
} fz_settings;

typedef enum fz_stage { FZ_OK, FZ_DRAW, FZ_REFERENCE, FZ_REFUSED, FZ_LOWER, FZ_RUN, FZ_PLANNED, FZ_JIT, FZ_CODEGEN, FZ_COMPILE, FZ_EMITTED } fz_stage;
const char *fz_stage_name(fz_stage s);

/* What went wrong: failures are of one kind when stage and text are the same. */
typedef struct fz_failure {
    fz_stage stage;
    char kind[160];              /* without names and numbers of this case */
    char text[1000];
} fz_failure;

/* Sizes of inputs that become expressions: `from` stands for times * the symbol + plus. */
enum { FZ_MAX_SYMBOLS = 2, FZ_MAX_SIZES = 6 };
typedef struct fz_size {
    int64_t from;
    int symbol;
    int64_t times, plus;
} fz_size;
typedef struct fz_sizes {
    int n_symbols, n;            /* 0: none */
    int64_t value[FZ_MAX_SYMBOLS]; /* of the symbols, here */
    bool plain[FZ_MAX_SYMBOLS];  /* some size is the symbol alone */
    fz_size v[FZ_MAX_SIZES];
} fz_sizes;

typedef struct fz_case {
    uint64_t seed;
    fx_context *ctx;
    fx_graph *g;                 /* as imported */
    size_t n_in;
    fx_tensor in[FZ_MAX_INPUTS];
    fz_settings settings;
    bool spoil;                  /* wrong inputs are drawn */
    const char *refuses;         /* the op that raises: every stage must refuse the inputs, out tells sizes alone; NULL: none */
    struct fz_case *wrong;       /* the same with a wrong number among the inputs (wrong.c); NULL: none */
    bool reference;              /* out and error are there */
    const fx_tensor *jitted;     /* what machine code in memory gave for each; NULL: it did not run */
    size_t n_out;
    fx_tensor out[FZ_MAX_RESULTS]; /* the outputs; then what inputs are after a run that changes them */
    const double *error[FZ_MAX_RESULTS]; /* by element: how far a result may be off; NULL: not one bit */
    size_t n_changed, changed[FZ_MAX_INPUTS]; /* numbers of the inputs that change */
    fx_program *program;         /* lowered */
    /* With symbols for sizes: the graph that is lowered, and the case at other sizes. */
    fz_sizes sizes;
    fx_graph *symbolic;
    struct fz_case *variants[FZ_MAX_VARIANTS];
    int n_variants;
} fz_case;

/* ---- gen.c, rows.c: drawing a graph ------------------------------------------------------------------------------------------ */

typedef enum fz_style { FZ_PLAIN, FZ_REAL, FZ_WILD } fz_style;
/* Elements: eighths in [-4, 4]; any in [-3, 3]; these with NaN, infinities, -0, subnormals, extremes. */
void fz_fill(fz_rng *r, fz_style style, fx_tensor *t);

typedef struct fz_gen {
    fx_context *ctx;
    fx_graph *g;
    fz_rng *rng;
    fz_case *c;
    fx_node *pool[256];          /* tensors that may be operands */
    int n_pool;
    int n_consts;
    uint32_t dtypes;             /* mask of those drawn */
    fx_dtype favourite;          /* more often than all others */
    bool views;                  /* many views */
} fz_gen;

/* Draws of operands. shape: dims of a tensor type, all numbers. */
typedef struct fz_shape {
    int rank;
    int64_t dims[FX_MAX_RANK];
} fz_shape;
fz_shape fz_shape_of(const fx_node *n);
int64_t fz_numel(const fz_shape *s);
fz_shape fz_draw_shape(fz_gen *g, int rank);     /* rank -1: any */
fx_dtype fz_draw_dtype(fz_gen *g);
fx_node *fz_input(fz_gen *g, fx_dtype dtype, const fz_shape *s, fz_style style); /* a new placeholder */
fx_node *fz_constant(fz_gen *g, fx_dtype dtype, const fz_shape *s, fz_style style);
fx_node *fz_fresh(fz_gen *g, fx_dtype dtype, const fz_shape *s); /* an input, rarely a constant, of a drawn style */
/* A value of that dtype and shape: one that is there, or a new one. dtype FX_DTYPE_COUNT: any. */
fx_node *fz_value(fz_gen *g, fx_dtype dtype, const fz_shape *s);
/* Any value whose rank lies between, of a mask of dtypes (0: any); made when there is none. */
fx_node *fz_any(fz_gen *g, uint32_t dtypes, int rank_lo, int rank_hi);
fx_node *fz_broadcast(fz_gen *g, const fx_node *like, fx_dtype dtype); /* a value that broadcasts with it */
/* Integers in [lo, hi) as an input, for indices. */
fx_node *fz_indices(fz_gen *g, const fz_shape *s, int64_t lo, int64_t hi);

/* One call of the row with drawn operands, not yet in the pool; NULL when the draw did not fit. */
fx_node *fz_row(fz_gen *g, const fx_op *op);
/* rows_grad.c: what draws a call of a gradient or of batch norm in training; NULL: others do. */
typedef fx_node *fz_maker(fz_gen *g, const fx_op *op);
fz_maker *fz_grad_maker(fx_opid id);
/* Why a row is not drawn; NULL: it is. */
const char *fz_row_excluded(fx_opid id);
/* rows_loss.c: the same for losses, gradients and random numbers; NULL: no row of that file. */
fz_maker *fz_loss_maker(fx_opid id);
const char *fz_loss_excluded(fx_opid id);

/* Draws the case of a seed: graph, inputs, settings. only: rows to take (NULL: all that are drawn and `able`). */
typedef struct fz_menu {
    const bool *able;            /* by opid: rows that compile */
    uint32_t dtypes;
    fx_opid only;                /* FX_OP_NONE: any */
    bool writes;                 /* in-place calls */
    bool symbols;                /* symbolic sizes */
    bool wrong;                  /* inputs with wrong numbers, too */
} fz_menu;
fx_status fz_draw(fz_case *c, const fz_menu *menu);

/* ---- survey.c -------------------------------------------------------------------------------------------------------------------- */

/* By opid: rows that can be drawn and compiled, and of the others why not. */
typedef struct fz_rows {
    bool able[FX_OP_COUNT];
    char why[FX_OP_COUNT][160];
} fz_rows;
void fz_probe(const fz_menu *menu, fz_rows *rows);

/* What graphs may have; from FZ_HAS_DTYPE on: a value of that dtype. */
enum {
    FZ_HAS_SIZE_0, FZ_HAS_SIZE_1, FZ_HAS_PRIME, FZ_HAS_SCALAR, FZ_HAS_MANY_DIMS, FZ_HAS_VIEW, FZ_HAS_VIEW_OF_VIEW, FZ_HAS_SHARED, FZ_HAS_OUTPUTS, FZ_HAS_INPUT_OUT,
    FZ_HAS_WRITE, FZ_HAS_RAISING, FZ_HAS_DTYPE, FZ_HAS_COUNT = FZ_HAS_DTYPE + FX_DTYPE_COUNT
};
/* How many graphs had it, and each row. */
typedef struct fz_counts {
    uint64_t graphs, has[FZ_HAS_COUNT], row[FX_OP_COUNT];
} fz_counts;
const char *fz_has_name(int what);
void fz_survey(fz_counts *counts, const fx_graph *g);

/* ---- sizes.c ---------------------------------------------------------------------------------------------------------------------- */

/* Every size `from` of inputs, and in arguments that are sizes, becomes `to`; types of other nodes are forgotten. */
void fz_set_size(fx_graph *g, int64_t from, fx_dim to);
fx_tensor fz_resized(fx_context *ctx, const fx_tensor *t, int64_t from, int64_t to);
/* Sizes of inputs that become symbols, or expressions over them. */
void fz_draw_sizes(fz_case *c);
/* "s0 = 3, s1 = 7: ", or nothing. */
const char *fz_sizes_text(const fz_case *c, char *text, size_t size);
/* Fills what a case with sizes has beside; symbolic stays NULL when the graph has no form with a symbol. */
void fz_make_symbolic(fz_case *c);

/* ---- wrong.c -------------------------------------------------------------------------------------------------------------------- */

/* Whether eager raises for some values of n's operands: an index out of range, an integer divisor of 0. */
bool fz_raises(const fx_node *n);
/* Sets wrong where an output of c may raise and takes an input's numbers. */
void fz_make_wrong(fz_case *c);

/* ---- oracle.c ------------------------------------------------------------------------------------------------------------------ */

/* Fills out and error: what each element has to be, and how near; with symbols, at other sizes too. */
fx_status fz_reference(fz_case *c);
/* Interprets a copy of the case's graph on copies of its inputs (own), which are then as the run leaves them. */
fx_status fz_interpret(const fz_case *c, fx_tensor *own, size_t *n_out, fx_tensor **out);
/* How outputs compare: counts of elements asked bit for bit, within a bound, not at all. */
typedef struct fz_tally {
    uint64_t exact, bounded, unknown;
} fz_tally;
/* False with a message when got is not output i (n_out + k: changed input k). tally may be NULL. */
bool fz_compare(const fz_case *c, size_t i, const fx_tensor *got, fz_tally *tally, char *text, size_t size);
/* False with a message when got and want, which are dense and of the same type, differ in a bit; NaN is NaN. */
bool fz_same_bits(const fx_tensor *want, const fx_tensor *got, char *text, size_t size);

/* ---- case.c: through lowering and the loop program's interpreter ---------------------------------------------------------------- */

/* A new context and the case drawn in it; run in one go up to the planned loop program. */
bool fz_case_make(fz_case *c, uint64_t seed, const fz_menu *menu, fz_failure *f);
bool fz_case_lower(fz_case *c, fz_failure *f);
/* What the one program of a case is run on: the case, itself at other sizes, itself with a wrong number. How many. */
int fz_runs(fz_case *c, fz_case **runs);
bool fz_case_run(fz_case *c, fz_tally *tally, fz_failure *f);
/* Compiles the lowered case in memory and runs it. What it gives is kept: emitted C has to give the same. */
bool fz_case_jit(fz_case *c, fz_failure *f);
void fz_case_free(fz_case *c);
/* The same graph and inputs in a new context: what shrinking changes. */
bool fz_case_copy(const fz_case *c, fz_case *to);
/* Says in f what the last diagnostic is. */
void fz_fail(fz_failure *f, fz_stage stage, fx_context *ctx, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* ---- unit.c: emitted C ----------------------------------------------------------------------------------------------------------- */

typedef struct fz_build {
    const char *compiler, *level;
    bool link_runtime;
    const char *cuda;            /* the library of the host's CUDA, for programs of GPUs (docs/cuda.md); NULL: C is emitted */
} fz_build;

/* Emits, compiles and runs lowered cases as one translation unit in `folder`; f[i] says what became of case i: FZ_REFUSED is no failure, but what
 * CUDA has no form of yet. */
void fz_unit_run(const char *folder, const fz_build *b, size_t n, fz_case *const *cases, fz_tally *tally, fz_failure *f);

/* ---- shrink.c ---------------------------------------------------------------------------------------------------------------------- */

/* Whether a case fails as f says. */
typedef bool fz_fails_fn(void *user, fz_case *c);
/* Makes *c (replaced) as small as it gets while `fails` says yes; how many steps were tried. */
int fz_shrink(fz_case *c, fz_fails_fn *fails, void *user, int most);
/* Writes FOLDER/NAME.fx (seed, settings and failure as comments) and NAME.npz: inputs and expected outputs, for fxcc check --against. */
bool fz_keep(fz_case *c, const char *folder, const char *name, const fz_failure *f, const fz_build *b);

#endif
