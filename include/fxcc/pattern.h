/* fxcc/pattern.h: finding and replacing patterns in graphs (FX's subgraph_rewriter and SubgraphMatcher).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A pattern is a graph: its placeholders match any value, also constants and lists (the same placeholder the same value; two placeholders
 * may match one value), its calls match calls of the same operator in any spelling (or the same method, or modules of the same class) with
 * equal arguments, however they are written: by position, by keyword, left to their defaults. Its output names what the match yields: nodes
 * that may be used outside. Inner calls have no users outside the match; get_attr nodes may have them. A match of several outputs that
 * could not be one call, because a path leaves it and comes back, is none; neither is one between whose calls the memory it reads is written.
 * docs/patterns.md has examples and what differs from FX. */
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
    /* Of a match that was replaced; its nodes are erased then, and inputs are what the graph has now. */
    fx_node *const *results;        /* what stands for the outputs: n_outputs of them */
    size_t n_new;
    fx_node *const *new_nodes;      /* made for it */
} fx_match;

typedef struct fx_pattern_options {
    /* Whether this match counts; NULL: all do. */
    bool (*filter)(void *user, const fx_match *match);
    /* Builds the replacement at the insertion point of graph (before the last matched node) from the match, instead of a replacement
     * graph: out[i] gets the node for output i, a new one or one that is there (not one of the match). */
    fx_status (*build)(void *user, fx_graph *graph, const fx_match *match, fx_node **out);
    void *user;
    bool overlapping;               /* fx_graph_find_pattern: also matches that share nodes; replacement never takes a node twice */
    bool ignore_literals;           /* constants in the pattern match any constant (FX's ignore_literals) */
} fx_pattern_options;

/* Typed and looser matches are written as notes (fx_node_set_meta) on the pattern's nodes:
 *   placeholder    "dtype" a dtype, "rank" an int: only nodes of such a tensor type; "constant" true: only constants, false: only nodes
 *   call_function, call_method, call_module
 *                  "any_of" a list of names: any of these operators, methods or classes, with the arguments that are written
 *   get_attr       matches any get_attr; "path" a text: only that one
 *   call_module    matches modules of the class that the pattern's own module tree gives its target, with the settings given there; without
 *                  such a module, calls of that very path */

/* All matches in order of their last node; *count and *matches. options may be NULL. Linear in the graph for a pattern whose nodes hang
 * together. */
fx_status fx_graph_find_pattern(fx_graph *graph, fx_graph *pattern, const fx_pattern_options *options, size_t *count, const fx_match **matches);

/* FX's replace_pattern: replaces each match by a copy of replacement, whose placeholders stand for the pattern's by order and whose outputs
 * for its outputs; in place; once over the graph, in order, never within what it just made. Attributes and modules of the
 * replacement come along, under another path when something else has theirs. replacement may be NULL with options->build.
 * *count, *matches (may be NULL): what was replaced. FX_ERR_ARGUMENT when placeholders or outputs differ in number, FX_ERR_TYPE when an
 * output's type would change or arguments do not fit (of captured graphs neither is known yet); nothing is changed then. */
fx_status fx_graph_replace_pattern(fx_graph *graph, fx_graph *pattern, fx_graph *replacement, const fx_pattern_options *options,
                                   size_t *count, const fx_match **matches);

#ifdef __cplusplus
}
#endif
#endif
