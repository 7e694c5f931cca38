/* lower/isl.h: the one wrapper of isl, the integer set library (https://libisl.sourceforge.io).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A query runs with a fixed number of operations; past it, or when isl fails for another reason, the answer is FX_ISL_UNKNOWN and the caller
 * does without. Where isl finds no memory, a query ends as every other allocation of fxcc does (fx_out_of_memory). isl never aborts, and prints
 * nothing; but it does not survive that everywhere itself (isl_ctx_alloc, flow, GMP's numbers: tests/unit/test_oom_lower.c). No memory of fxcc is asked for while objects of isl
 * live, so that running out of it leaves none behind. Only this file's .c includes isl's headers. */
#ifndef FXCC_LOWER_ISL_H
#define FXCC_LOWER_ISL_H

#include "ir/index_map.h"
#include "ir/program.h"

typedef struct fx_isl fx_isl;
typedef enum fx_isl_answer { FX_ISL_NO, FX_ISL_YES, FX_ISL_UNKNOWN } fx_isl_answer;

enum { FX_ISL_OPERATIONS = 300000, FX_ISL_GROUP = 8, FX_ISL_VARS = 40, FX_ISL_NODES = 64, FX_ISL_LOOPS = 24 };

/* Freed when the innermost fx_protect leaves. */
fx_isl *fx_isl_open(fx_context *ctx);
void fx_isl_budget(fx_isl *i, unsigned long operations);   /* for each query; tests make it small */
double fx_isl_seconds(const fx_isl *i);                    /* in all queries so far */
int fx_isl_queries(const fx_isl *i, int *unknown);

/* ---- systems of conditions -------------------------------------------------------------------------------------- */

/* constant + sum of coef[k] * x[k] >= 0, or = 0. */
typedef struct fx_isl_row {
    int64_t constant, coef[FX_ISL_VARS];
    bool equal;
} fx_isl_row;
/* Whether no integers x satisfy all rows; NO: point (may be NULL) is one that does. */
fx_isl_answer fx_isl_empty(fx_isl *i, int n_vars, int n_rows, const fx_isl_row *rows, int64_t *point);

/* ---- index maps -------------------------------------------------------------------------------------------------- */

/* Whether composing the two maps (coefficients and sizes numbers) as isl's access functions, by isl_pw_multi_aff_pullback_pw_multi_aff and
 * gist, gives the same function as `composed`. One source each; pads are where neither is defined. *seconds: of composition alone. */
fx_isl_answer fx_isl_composes(fx_isl *i, const fx_imap *outer, const fx_imap *inner, const fx_imap *composed, double *seconds);

/* ---- statements: domains, accesses, dependences ------------------------------------------------------------------- */

/* A statement of plain loops: STORE, SET or LOCAL, the loops around it (outermost first) and their places. */
typedef struct fx_isl_item {
    const fx_stmt *stmt;
    int n;
    const fx_stmt *loop[FX_MAX_LOOPS];
    int pos[FX_MAX_LOOPS + 1];    /* among the statements around loop[k]; pos[n]: around the statement */
    int n_cond;
    const fx_affine *cond[2 * FX_MAX_RANK];
} fx_isl_item;

typedef struct fx_isl_access {
    int item;
    bool write;
    int buf, local;               /* one of them is -1 */
    const fx_affine *index;       /* of buf */
    int depth;                    /* of local: how many loops around its definition: each of their iterations has its own */
} fx_isl_access;

typedef struct fx_isl_group {
    const fx_program *p;
    int n, n_accesses;
    fx_isl_item item[FX_ISL_GROUP];
    fx_isl_access access[128];
} fx_isl_group;

/* Adds the statements of a list behind those that are there. False: calls, checks, barriers, arrays, sizes or indices that are no numbers,
 * more than FX_ISL_GROUP statements or too many accesses. */
bool fx_isl_collect(fx_isl_group *g, const fx_program *p, const fx_stmt *body);

/* The order of execution: for each item its loops' variables (var >= 0: loop var of the item; -1: the number `at`), compared
 * lexicographically. Missing ends count as 0. */
typedef struct fx_isl_order {
    int n;
    struct { int var; int64_t at; } key[2 * FX_MAX_LOOPS + 2];
} fx_isl_order;
void fx_isl_source_order(const fx_isl_group *g, fx_isl_order *order); /* one an item */
/* Whether every dependence (flow, anti, output: isl_union_access_info_compute_flow) of the first order is kept by the second. */
fx_isl_answer fx_isl_keeps(fx_isl *i, const fx_isl_group *g, const fx_isl_order *from, const fx_isl_order *to);
/* Whether the first `depth` loops of the two statement lists may become one nest: the second list's iteration then follows the first's at once.
 * The lists' loops are matched by position. *apart (may be NULL): whether then no dependence is between different iterations of those loops. */
fx_isl_answer fx_isl_fusion_legal(fx_isl *i, const fx_program *p, const fx_stmt *first, const fx_stmt *second, int depth, fx_isl_answer *apart);

/* ---- tiling ------------------------------------------------------------------------------------------------------------ */

/* An affine expression over the new loops. */
typedef struct fx_isl_form {
    int64_t base, coef[FX_ISL_LOOPS];
} fx_isl_form;

typedef struct fx_isl_node {
    enum { FX_ISL_FOR, FX_ISL_IF, FX_ISL_STMT } kind;
    int next, child;              /* nodes; -1: none */
    int loop;                     /* FOR: its number */
    int64_t extent;
    int origin;                   /* FOR: the loop (position in the items' loops) that it runs over, -1: several or none */
    bool tile;                    /* FOR: steps over tiles */
    fx_isl_form cond;             /* IF: >= 0 */
    int item;                     /* STMT; arg: the old loops' variables */
    fx_isl_form arg[FX_MAX_LOOPS];
} fx_isl_node;

typedef struct fx_isl_tree {
    int n, root, n_loops;
    fx_isl_node node[FX_ISL_NODES];
} fx_isl_tree;

/* How to run the first `depth` loops, which all items share and which must not carry dependences: their new order (order[k]: which old
 * one is k-th) and tile sizes (0: not tiled). sink: the loops within tiles run innermost, inside all other loops of each statement. */
typedef struct fx_isl_tiling {
    int depth, order[FX_MAX_LOOPS];
    int64_t size[FX_MAX_LOOPS];   /* of old loop k */
    bool sink;
    bool apart;                   /* known: no dependence is between iterations of the shared loops. Even tiles then need no isl */
} fx_isl_tiling;
/* Dependences, schedule, tiles, AST. NO: dependences forbid it. UNKNOWN: the budget, or the result has bounds that loop programs lack. */
fx_isl_answer fx_isl_tile(fx_isl *i, const fx_isl_group *g, const fx_isl_tiling *t, fx_isl_tree *out);

#endif
