/* passes/prune.h: what the passes that prune weights share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PASSES_PRUNE_H
#define FXCC_PASSES_PRUNE_H

#include "passes/passes.h"

/* The attributes of a graph's tree by storage, so that all names of a tensor change together. */
typedef struct fx_ties {
    fx_graph *g;
    fx_map by_storage;       /* storage -> the first of a list */
} fx_ties;
fx_ties fx_ties_new(fx_graph *g, fx_arena *scratch);
/* The first attribute in the tree's order that is the same tensor. */
fx_attr *fx_ties_first(const fx_ties *t, fx_attr *a);
/* The attribute, and all that are the same tensor, become t. */
void fx_ties_set(fx_ties *ties, fx_attr *a, const fx_tensor *t);

/* The weight of a contraction: a parameter multiplied with the input. */
typedef struct fx_weight {
    const fx_node *node;
    fx_attr *attr;
    int out_dim;             /* of the tensor: output channels */
    bool transposed;         /* a transposed convolution: dim 0 is the input's */
} fx_weight;
/* False when n is no contraction, or its weight is no parameter by itself. */
bool fx_weight_of(const fx_node *n, fx_weight *out);

/* The k smallest of n magnitudes, those first in order among equals: chosen[i] says whether i is one. */
void fx_choose_smallest(size_t n, const double *magnitudes, size_t k, bool *chosen);

#endif
