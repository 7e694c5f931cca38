/* driver/driver.h: what the parts of a compile share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_DRIVER_H
#define FXCC_DRIVER_H

#include "codegen/codegen.h"
#include "fxcc/compile.h"
#include "ir/ir.h"

/* golden.c: golden vectors for graph g: of an .npz (inputs in order, then outputs), or seeded inputs and what the reference
 * interpreter makes of them. */
fx_status fx_golden_make(fx_graph *g, const char *npz, fx_golden *out);

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
