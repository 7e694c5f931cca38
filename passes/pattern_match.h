/* passes/pattern_match.h: what pattern.c, pattern_compile.c and pattern_replace.c share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PATTERN_MATCH_H
#define FXCC_PATTERN_MATCH_H

#include "passes/passes.h"

typedef enum fx_pat_kind { FX_PAT_INPUT, FX_PAT_ATTR, FX_PAT_CALL } fx_pat_kind;

/* A node of a pattern, ready to be compared. */
typedef struct fx_pat_node {
    const fx_node *n;
    fx_pat_kind kind;
    bool is_output;
    /* CALL of a known operator: its arguments by schema, wildcards as they are */
    bool viewed;
    fx_call_args view;
    const bool *overloads;       /* by fx_opid: rows of the same packet, which arguments tell apart */
    const fx_arg *any_of;        /* a LIST of STR, or NULL */
    const fx_module *module;     /* call_module: in the pattern's tree, or NULL */
    const char *path;            /* ATTR: only that one; NULL: any */
    int dtype, rank, constant;   /* INPUT: -1 any; constant: 1 only constants, 0 only nodes */
} fx_pat_node;

/* How to come to an anchor from what is matched already: users of path[0] are tried for path[1], and so on. n 0: no way, all nodes are tried. */
typedef struct fx_pat_path {
    int *nodes;
    int n;
} fx_pat_path;

typedef struct fx_pattern {
    fx_context *ctx;
    fx_arena *arena;
    const fx_graph *graph;
    fx_pat_node *nodes;          /* in the order of the graph */
    int n;
    int *index;                  /* by id of the pattern's nodes; -1: the output node */
    int *inputs, *outputs, *anchors;
    int n_inputs, n_outputs, n_anchors;
    int n_matched;               /* ATTR and CALL */
    fx_node **matched;           /* the pattern's nodes of these, in order */
    fx_pat_path *paths;          /* by anchor; that of the first is empty */
    bool writes;                 /* a call of the pattern writes memory */
    bool to_replace;             /* matches are to say what their inputs stand for (fx_found.bound) */
    int *returned;               /* by output: the input that the replacement returns for it, or -1; NULL: none does */
} fx_pattern;

/* Checks the pattern and prepares it. FX_ERR_ARGUMENT, FX_ERR_TYPE naming the node of the pattern that is wrong. */
fx_status fx_pattern_compile(const fx_graph *graph, fx_arena *arena, fx_pattern *out);
/* Arguments of p's node by the schema of op, for a pattern that allows several operators; false when they do not fit. */
bool fx_pattern_view(const fx_node *n, const fx_op *op, fx_call_args *out);

/* A match with what its public form cannot hold. */
typedef struct fx_found {
    fx_match m;
    fx_stand *bound;             /* by input */
    fx_node *first, *last;       /* in the order of the graph */
} fx_found;

typedef struct fx_matches {
    fx_found *all;
    size_t n, cap;
    uint32_t *group;             /* by node id: number + 1 of the match that takes this call; with overlapping matches 0 */
    uint32_t *pos;               /* by node id: place in the graph */
} fx_matches;

/* All matches in order of their last node. Records live in the graph's arena, the rest in p's. */
void fx_pattern_find(const fx_pattern *p, fx_graph *g, const fx_pattern_options *options, fx_matches *out);

/* Checks that two graphs can be worked on together. */
fx_status fx_pattern_check_graph(const fx_graph *g, const fx_graph *other, const char *what);

#endif
