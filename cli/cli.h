/* cli/cli.h: what the subcommands of fxcc share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_CLI_H
#define FXCC_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "fxcc/compile.h"
#include "fxcc/inspect.h"
#include "fxcc/jit.h"

/* ---- subcommands: each gets its own argv, argv[0] being "fxcc NAME", and returns the exit status ---------- */

int cmd_compile(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_opt(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_passes(int argc, char **argv);
int cmd_target(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_prove(int argc, char **argv);
int cmd_cache(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_watch(int argc, char **argv);

/* ---- options.c: the options that compile, show and check have in common -------------------------------------- */

/* A child parser for `struct argp.children`; its input is a fx_compile_options. */
extern const struct argp jit_argp;      /* --threads, --dim, --disable */
extern const struct argp lowering_argp; /* those, --target and --unproved */
void end_options(fx_compile_options *options); /* frees what these parsers made */
extern const struct argp looking_argp;  /* --dump-before, --dump-after, --stop-after, --time-passes; log goes to stdout */

/* The one argument that is no option, a "model" say: stores it, or ends with a usage error when there was one already. */
error_t one_argument(struct argp_state *state, const char **argument, char *given, const char *what);

/* How a subcommand begins: its arguments, parsed into what the parser's input is, and a context. NULL, with a message, when it cannot. */
fx_context *start(const struct argp *argp, int argc, char **argv, void *input);

/* Parses the LEVEL of -O, 1 to 3, or ends with a usage error. */
error_t parse_level(struct argp_state *state, const char *arg, int *level);

/* Of a parser's ARGP_KEY_ARGS, everything that is no option: the model, then its inputs. */
void model_and_inputs(const struct argp_state *state, const char **model, char ***files, int *n_files);

/* Parses a number of the whole text; false when it is none. */
bool parse_number(const char *text, double *value);

/* ---- report.c: messages and progress -------------------------------------------------------------------------- */

/* Prints what the context has to say: errors, and warnings; remarks when verbose. Ends a line of progress first. */
void report(const char *command, const fx_context *ctx, bool verbose);
/* The same with `to` for `from` in what is said: a copy that was read for a user's file. */
void report_renamed(const char *command, const fx_context *ctx, bool verbose, const char *from, const char *to);
/* "fxcc compile: error: ..." on stderr. Returns 1, the exit status. */
int complain(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* From progress_begin on, once two seconds have passed and stderr is a terminal, a line says what goes on and for how
 * long, until progress_end takes it away. */
void progress_begin(const char *what);
void progress_end(void);

/* ---- cmd_report.c, kernels.c ---------------------------------------------------------------------------------------- */

/* The file's name without folder and extension. */
void model_name(const char *path, char *buf, size_t size);
/* For a GPU's target: a row a model, or (list) a row a kernel and one for all; as JSON, an object a model. 0, or 1 when some model failed. */
int report_kernels(const char *command, const fx_compile_options *options, int n_models, char *const *models, bool list, bool json);

/* ---- files.c ----------------------------------------------------------------------------------------------------- */

/* A fresh folder under $TMPDIR; NULL (with a message) when it cannot be made. Removed by temp_remove. */
char *temp_folder(const char *command);
void temp_remove(const char *dir);
/* "dir/name", for the caller to free; NULL when out of memory. */
char *path_join(const char *dir, const char *name);
/* Runs a program and waits; its output goes to `log` (a file) or where ours goes (NULL). The exit status, -1 when it
 * could not be started. */
int run_program(char *const *argv, const char *log);
/* Writes the file whole or not at all; 0, or 1 with a message. */
int write_text(const char *command, const char *path, const char *text, size_t size);
/* The whole file, NUL-terminated, for the caller to free; NULL when it cannot be read. */
char *read_text(const char *path, size_t *size);

/* Whether text ends in suffix. */
bool has_suffix(const char *text, const char *suffix);

/* ---- tensors.c ------------------------------------------------------------------------------------------------------ */

/* Appends the tensors of the named .npy and .npz files in order; dense. FX_ERR_* with diagnostics. */
fx_status read_tensors(fx_context *ctx, int n_files, char *const *files, size_t *count, fx_tensor **tensors);
/* The same; those of one .npz whose names are the inputs' names go to the inputs of these names. */
fx_status read_inputs(fx_context *ctx, const fx_graph *graph, int n_files, char *const *files, size_t *count, fx_tensor **tensors);
/* Writes one tensor to a .npy or any number to a .npz, whole or not at all. */
fx_status write_tensors(fx_context *ctx, const char *path, size_t count, const fx_tensor *tensors);
/* A fresh tensor of t's dtype and sizes, dense; data: its elements, dense, or NULL. out may be t. */
fx_status tensor_like(fx_context *ctx, const fx_tensor *t, const void *data, fx_tensor *out);
/* "float32[1, 3, 32, 32]" into buf; returns buf. */
const char *shape_text(const fx_tensor *t, char *buf, size_t size);

/* What one call gives: outputs, then the inputs and buffers it changes (fx_graph_written). Of types[] dtype, rank and sizes count. */
fx_status call_types(fx_graph *graph, size_t n_in, const fx_tensor *in, size_t n_out, size_t n_changes, const fx_written *changes, fx_tensor *types);

/* ---- compare.c ------------------------------------------------------------------------------------------------------ */

typedef struct difference {
    double abs, rel, max_ref; /* rel: abs / max_ref */
    bool agrees;              /* abs <= atol + rtol * max_ref */
} difference;

/* Of dense tensors of one shape. NaN agrees with NaN and an infinity with itself; any other non-finite difference is infinite. */
difference compare(const fx_tensor *got, const fx_tensor *ref, double rtol, double atol);
bool same_shape(const fx_tensor *a, const fx_tensor *b); /* and dtype */

/* ---- changes.c ------------------------------------------------------------------------------------------------------ */

/* Prints the nodes and parameters that came, went or changed, by name. 0, or 1 with a message. */
int print_changes(const char *command, fx_graph *before, fx_graph *after);

/* ---- ways.c --------------------------------------------------------------------------------------------------------- */

typedef enum way { WAY_INTERPRETER, WAY_C, WAY_JIT, N_WAYS } way;
extern const char *const way_names[N_WAYS]; /* "interpreter", "c", "jit" */
/* 1, with a message, where the target that the options name is a GPU's: none of the ways is for one. */
int refuse_gpu(const char *command, fx_context *ctx, const fx_compile_options *options);
/* "c,jit" as a mask of 1 << way; false: a name that is none, or no name. */
bool parse_ways(const char *list, unsigned *ways);

typedef struct way_options {
    const fx_compile_options *lowering;
    int level;                /* of LLVM's optimisation; 0: the default */
    bool no_cache;
    const char *debug;           /* as in fx_jit_options */
    const char *device;          /* the same: where what is compiled in memory runs */
} way_options;
fx_jit_options jit_options(const fx_compile_options *options, int level, bool no_cache);

/* Runs a model `calls` times in a row one of the ways, on dense inputs, which stay as they are. Results as fx_graph_calls gives them, in an array for
 * the caller to free. 0, or 1 with a message. */
int run_way(const char *command, fx_context *ctx, fx_graph *graph, way w, const way_options *o, const fx_tensor *inputs, size_t calls, size_t *n_results,
            fx_tensor **results);

/* How many runs to time: `wanted`, or where that is 0 as many as fit a second when one takes so long, 5 to 1000. */
long runs_to_time(long wanted, double seconds);
double seconds_now(void); /* of a clock that only goes forward */

/* ---- emitted.c ------------------------------------------------------------------------------------------------------- */

/* Emits graph's C into the folder dir, builds it with $CC (cc), runs it `calls` times in a row in a process of its own on dense inputs, which stay as
 * they are. Results as fx_graph_calls gives them, allocated in ctx's tensors. times (NULL: no): it is built with -O3 and OpenMP where $CFLAGS does not
 * say otherwise, and timed. Returns 0, or 1 with a message. */
typedef struct emitted_times {
    long n;                   /* runs to time after the first two; 0: as many as a second holds; then how many there were */
    double *runs;             /* their seconds, for the caller to free */
    double emit, build, first; /* seconds */
    uint64_t arena, weights;  /* bytes */
} emitted_times;
int run_emitted(const char *command, fx_context *ctx, fx_graph *graph, const fx_compile_options *options, const char *dir,
                const fx_tensor *inputs, size_t calls, size_t *n_results, fx_tensor **results, emitted_times *times);

/* ---- drawn.c ---------------------------------------------------------------------------------------------------------- */

/* Inputs for a graph where none are given: seeded, floats from -1 to 1, integers 0 or 1, open sizes at the low ends of their ranges (narrowed by
 * options->dims). An array for the caller to free, of tensors of ctx; says on `told` (NULL: nowhere) what was drawn. 0, or 1 with a message. */
int draw_inputs(const char *command, fx_context *ctx, fx_graph *graph, const fx_compile_options *options, unsigned seed, FILE *told, fx_tensor **inputs);
/* Those of the files, as many as the model (for messages) has, or drawn ones where no file is given. As above. */
int take_inputs(const char *command, fx_context *ctx, fx_graph *graph, const char *model, int n_files, char *const *files,
                const fx_compile_options *options, unsigned seed, FILE *told, fx_tensor **inputs);

/* ---- jitted.c -------------------------------------------------------------------------------------------------------- */

/* The same for the model compiled in memory, in this process. */
int run_jitted(const char *command, fx_context *ctx, fx_graph *graph, const fx_jit_options *options, const fx_tensor *inputs, size_t calls,
               size_t *n_results, fx_tensor **results);

#endif
