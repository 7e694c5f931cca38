/* passes/quantize.h: where values are observed or quantised, as torch.ao's FX mode has it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PASSES_QUANTIZE_H
#define FXCC_PASSES_QUANTIZE_H

#include "passes/passes.h"

/* make(user, value) creates what stands between a value and its users, at the insertion point, and returns it; NULL: it failed with
 * *status. Values are: results of convolutions, linear maps and matrix products (after the batch norm and relu that follow), of sums,
 * products and concatenations of tensors, for all their users; and other operands of these, for them alone. Calls of observers count as
 * results already observed. */
typedef struct fx_quantizer {
    fx_graph *g;
    fx_arena *scratch;
    fx_node *(*make)(void *user, fx_node *value, fx_status *status);
    void *user;
} fx_quantizer;
fx_status fx_quantize_values(const fx_quantizer *q);

/* Whether a module is an observer of torch.ao: its result is its input. */
bool fx_module_is_observer(const fx_module *m);
/* The least and greatest value an observer saw; false when it saw none, or keeps no such numbers. */
bool fx_observer_range(fx_graph *g, const fx_module *m, double *min, double *max);

#endif
