/* frontend/frontend.h: files to graphs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_FRONTEND_INTERNAL_H
#define FXCC_FRONTEND_INTERNAL_H

#include "ir/ir.h"

/* Reads a model by its content: .pt2 (torch.export.save) or .fx (our text). The graph is at FX_STAGE_IMPORTED, verified,
 * with parameters, buffers and constants on the module tree (get_attr nodes), user inputs as placeholders, buffer and input mutations
 * refused by name unless they are dropped ones (num_batches_tracked). Weights are mapped, not read. A .fx text's stage is what it says;
 * tensors that it says lie in a .safetensors are taken from there, in the text's own folder. */
fx_status fx_load(fx_context *ctx, const char *path, fx_graph **out);

/* The same from memory; name stands for the file in messages. data must outlive ctx: weights stay where they are.
 * A .fx text in memory has no folder: tensors that lie in a file have no data. */
fx_status fx_load_memory(fx_context *ctx, const char *name, const void *data, size_t size, fx_graph **out);

/* Writes the graph by the path's extension: .fx, with the elements of its larger tensors in a .safetensors beside it; .pt2. All files
 * appear whole or not at all. */
fx_status fx_save(const fx_graph *g, const char *path);

#endif
