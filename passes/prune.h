/* passes/prune.h: what the passes that prune weights share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PASSES_PRUNE_H
#define FXCC_PASSES_PRUNE_H

#include "passes/passes.h"

/* The first attribute added that is the same tensor. */
fx_attr *fx_tied_first(fx_attr *a);
/* The attribute, and all that are the same tensor, become t. */
void fx_tied_set(fx_attr *a, const fx_tensor *t);

/* The weight of a contraction: a parameter multiplied with the input. */
typedef struct fx_weight {
    const fx_node *node;
    fx_attr *attr;
    int out_dim;             /* of the tensor: output channels */
    bool transposed;         /* a transposed convolution: dim 0 is the input's */
} fx_weight;
/* The attribute that n is, or is a view of as a matrix: t(w); NULL when it is something else. *turned changes with each transposition. */
fx_attr *fx_matrix_of(const fx_node *n, bool *turned);
/* False when n is no contraction, or its weight is no parameter by itself. */
bool fx_weight_of(const fx_node *n, fx_weight *out);

/* The k smallest of n magnitudes, those first in order among equals: chosen[i] says whether i is one. */
void fx_choose_smallest(size_t n, const double *magnitudes, size_t k, bool *chosen);

/* ---- channels through a graph: prune_track.c finds what hangs together, prune_channels.c removes --------------------------- */

/* The channels of a value: along `axis`, one id for each index. Ids that must go together are united. */
typedef struct fx_channels {
    int rank;                /* -1: not known */
    int axis;                /* -1: the last, where the rank is not known */
    int n;
    const int *ids;
    bool flat;               /* each channel stands for several features, not known how many */
} fx_channels;

/* A dim of a parameter that follows channels. */
typedef struct fx_channel_dim {
    fx_attr *attr;
    int dim, n;
    const int *ids;
    size_t next;             /* one more than the index of another of this attribute; 0: none */
} fx_channel_dim;

/* Where channels are made: the filters whose norm decides. */
typedef struct fx_channel_source {
    const fx_node *node;
    fx_attr *attr;
    int dim, n;
    const int *ids;
} fx_channel_source;

/* A number that is a count of channels: an argument of a node, or a setting of a module. */
typedef struct fx_channel_count {
    fx_node *node;           /* ... its schema's parameter, and item of that when >= 0 */
    int param, item;
    fx_module *module;       /* ... or its setting */
    const char *setting;
    int n;
    const int *ids;
} fx_channel_count;

/* A chunk or split along channels: becomes a split into what is left of each piece. */
typedef struct fx_channel_split {
    fx_node *node;
    int n;
    fx_channels *const *pieces;
} fx_channel_split;

typedef struct fx_tracker {
    fx_graph *g;
    fx_context *ctx;
    fx_arena *arena;
    int *parent;             /* of ids: a forest; roots hang on themselves */
    bool *pinned;            /* by root: cannot be removed */
    size_t n_ids, cap_ids, cap_pinned;
    fx_channels **of;        /* by node id; NULL: not followed */
    fx_channels ***items;    /* of tuples: by node id and index */
    int *n_items;
    fx_map frozen;           /* attributes that are read in a way not understood */
    fx_map dims_of;          /* attribute -> one more than the index of its first in dims */
    fx_channel_dim *dims; size_t n_dims, cap_dims;
    fx_channel_source *sources; size_t n_sources, cap_sources;
    fx_channel_count *counts; size_t n_counts, cap_counts;
    fx_channel_split *splits; size_t n_splits, cap_splits;
} fx_tracker;

/* Follows channels from where they are made to where they are mixed. */
void fx_track_channels(fx_tracker *t, fx_graph *g, fx_arena *arena);
int fx_channel_root(const fx_tracker *t, int id);

#endif
