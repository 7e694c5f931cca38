/* driver/driver.h: what the parts of a compile share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_DRIVER_H
#define FXCC_DRIVER_H

#include "codegen/codegen.h"
#include "fxcc/compile.h"
#include "ir/ir.h"
#include "lower/lower.h"

/* compile.c: what options say to lowering; a copy of the graph with the sizes that options narrow */
fx_status fx_lower_options_from(fx_context *ctx, const fx_compile_options *o, fx_lower_options *lower);
void fx_count_statements(const fx_stmt *s, fx_compile_result *r); /* adds kernel calls and loop nests */
fx_status fx_sized_copy(fx_graph *graph, const fx_compile_options *o, fx_graph **out);
/* Lowers a copy of the graph, to the end and without dumps or times. */
fx_status fx_lower_quietly(fx_graph *graph, const fx_compile_options *o, fx_program **out);

/* report.c: a size that says something of a range: its upper end, or a usual one where there is none; a program whose open sizes are these */
int64_t fx_large_size(const fx_sym_range *range);
fx_status fx_at_largest(fx_program *p, fx_program **out);

/* golden.c: golden vectors for graph g: of an .npz (inputs in order, then for each call outputs and what it changed), or seeded inputs and what the
 * reference interpreter makes of them. */
fx_status fx_golden_make(fx_graph *g, const char *npz, fx_golden *out);

/* sizes.c: sizes that a graph leaves open: its symbols. Values are by position in g->symbols. */
fx_status fx_sizes_narrow(fx_graph *g, const char *spec); /* "s0=8", "s0=2..16", "x:0=8"; in place */
void fx_sizes_choose(const fx_graph *g, int64_t *values);
bool fx_sizes_shape(const fx_graph *g, const int64_t *values, const fx_type *type, fx_tensor *out); /* dtype, rank, sizes; false: no tensor, or not told */
/* What inputs of these nodes tell, all checked: FX_ERR_ARGUMENT names what does not fit. */
fx_status fx_sizes_of_inputs(const fx_graph *g, size_t n, const fx_node *const *nodes, const fx_tensor *in, int64_t *values);

/* public.c: the nodes of inputs; NULL past the last */
const fx_node *fx_input_node(const fx_graph *g, size_t i);

/* write.c: files that appear all or not at all. Zero-initialise; fx_write_undo removes what a failed fx_write_files left, and
 * may be called after an unwinding. */
typedef struct fx_write {
    size_t n_temps, n_done, n_folders;
    char **temps, **finals;      /* paths */
    char **folders;              /* made on the way, outermost first */
} fx_write;

fx_status fx_write_files(fx_context *ctx, const char *folder, size_t n, const fx_file *files, fx_write *w);
void fx_write_undo(fx_write *w);

#endif
