/* fxcc/pattern.h: finding and replacing patterns in graphs (FX's subgraph_rewriter and SubgraphMatcher).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A pattern is a graph: its placeholders match any value (the same placeholder the same value), its calls match calls of the same operator
 * (or method, or module class) with equal constants, its output names what the match yields. Constants that may be anything are
 * placeholders too. Inner nodes of a match, those that are not outputs, have no users outside it. */
#ifndef FXCC_PATTERN_H
#define FXCC_PATTERN_H

#include "fxcc/module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One match. Arrays are parallel and live in the matched graph's context. */
typedef struct fx_match {
    size_t n_nodes;                 /* call and get_attr nodes of the pattern */
    fx_node *const *pattern_nodes;
    fx_node *const *nodes;          /* what each matched */
    size_t n_inputs;
    const fx_value *inputs;         /* what each placeholder matched: a node or a constant */
    size_t n_outputs;
    fx_node *const *outputs;        /* nodes of the graph that the pattern's outputs matched */
} fx_match;

typedef struct fx_pattern_options {
    /* Whether this match counts; NULL: all do. */
    bool (*filter)(void *user, const fx_match *match);
    /* Builds the replacement at the insertion point of graph (before the last matched node) from the match, instead of a replacement
     * graph: out[i] gets the node for output i. */
    fx_status (*build)(void *user, fx_graph *graph, const fx_match *match, fx_node **out);
    void *user;
    bool overlapping;               /* fx_graph_find_pattern: also matches that share nodes; replacement never takes a node twice */
    bool ignore_literals;           /* constants in the pattern match any constant (FX's ignore_literals) */
} fx_pattern_options;

/* Wildcards and typed matches are written as meta on the pattern's nodes:
 *   placeholder  meta "dtype" = a dtype, "rank" = int, "constant" = true (a number, not a node): only such values
 *   call node    meta "any_of" = list of operator names: any of them; meta "attribute" on get_attr is not compared: any tensor
 *   call_module  matches calls of modules of the class that the pattern's own module tree gives its target */

/* All matches in order of their last node; *count and *matches. options may be NULL. Linear in the graph for a pattern whose nodes hang
 * together. */
fx_status fx_graph_find_pattern(fx_graph *graph, fx_graph *pattern, const fx_pattern_options *options, size_t *count, const fx_match **matches);

/* FX's replace_pattern: replaces each match by a copy of replacement, whose placeholders stand for the pattern's by order and whose outputs
 * for its outputs; in place; once over the graph, in order, never within what it just made. replacement may be NULL with options->build.
 * *count, *matches (may be NULL): what was replaced. FX_ERR_ARGUMENT when placeholders or outputs differ in number, FX_ERR_TYPE when an
 * output's type would change; nothing is changed then. */
fx_status fx_graph_replace_pattern(fx_graph *graph, fx_graph *pattern, fx_graph *replacement, const fx_pattern_options *options,
                                   size_t *count, const fx_match **matches);

#ifdef __cplusplus
}
#endif
#endif
