/* lower/build_rows.h: regions of rows: reductions and the pointwise nodes around them that become one step.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_BUILD_ROWS_H
#define FXCC_LOWER_BUILD_ROWS_H

#include "lower/build.h"

/* Reads and writes of a region, and nodes in it. */
enum { FX_ROWS_LEAVES = 14, FX_ROWS_OUTPUTS = 7, FX_ROWS_MEMBERS = 48 };

/* The sizes that all rows of a region have, and which dims go. */
typedef struct fx_row_shape {
    int rank;
    fx_dim dims[FX_MAX_RANK];
    bool gone[FX_MAX_RANK];
} fx_row_shape;

/* FULL: a value for each element of a row. STAT: one for each row. */
typedef enum fx_row_class { FX_ROW_OTHER, FX_ROW_FULL, FX_ROW_STAT } fx_row_class;

typedef struct fx_rows {
    fx_row_shape shape;
    fx_node *member[FX_ROWS_MEMBERS];
    int n, n_reads, n_writes;  /* bounds */
    fx_node *named;            /* the reduction or norm that it began with: gives the step its name */
} fx_rows;

bool fx_row_is_fold(const fx_node *n);                        /* a reduction that folds elements: sum, amax, var, ... */
bool fx_row_is_norm(const fx_node *n);                        /* softmax, layer norm, RMS norm */
void fx_row_shape_of(const fx_node *n, fx_row_shape *s);      /* of a fold or norm */
fx_row_class fx_row_class_of(const fx_row_shape *s, const fx_node *n); /* of a node in a region */
/* Whether a type has the sizes of s without the dims that go (not kept as 1). */
bool fx_row_dropped(const fx_row_shape *s, const fx_type *t);

enum { FX_ROWS_PARTS = 3, FX_ROWS_FOLDS = 2 * FX_ROWS_MEMBERS, FX_ROWS_ACCESSES = FX_ROWS_LEAVES + FX_ROWS_OUTPUTS };

/* How a leaf's dims meet the rows': by their ends, or (DROPPED) as those of a result without the dims that go. through: its index in memory,
 * read through a map; NULL: it has strides. */
typedef struct fx_row_leaf {
    fx_node *node;
    bool dropped;
    const fx_ix *through;
} fx_row_leaf;

/* A result a row: a local, or an array over the rows that are done at a time. */
typedef struct fx_row_stat {
    fx_dtype dtype;
    int local, buf;
} fx_row_stat;

typedef struct fx_row_fold {
    int member, part, pass;
    fx_sop op;
    fx_dtype dtype;            /* of the accumulator */
    const fx_sexpr *start;
    int local, buf;            /* the accumulator */
} fx_row_fold;

typedef struct fx_row_output {
    int member, part;          /* part: which result of a norm */
    fx_row_class cls;
    fx_window w;
    int access;
} fx_row_output;

typedef struct fx_row_member {
    fx_node *node;
    fx_row_class cls;
    int avail;                 /* passes that must be done before its value is known */
    fx_row_stat stat[FX_ROWS_PARTS];          /* 0: its own; norms and variance: others */
    unsigned needed;           /* passes that compute it, as bits */
    bool costly;
    /* kept[0]: its value; kept[1]: a softmax's exponentials */
    struct { bool on; int pass, access, buf; } kept[2];
    const fx_sexpr *memo[2];   /* in the loop body being made */
} fx_row_member;

typedef struct fx_row_region {
    fx_build *b;
    fx_node *root;
    const fx_row_shape *s;
    fx_row_member m[FX_ROWS_MEMBERS];
    int n;
    fx_row_leaf leaf[FX_ROWS_LEAVES];
    int n_leaves;
    fx_row_output out[FX_ROWS_OUTPUTS];
    int n_outs;
    fx_row_fold fold[FX_ROWS_FOLDS];
    int n_folds, n_passes;
    /* accesses: leaves, then outputs; by the rows' dims, then by the loops over the dims that stay and those that go */
    fx_nest_access access[FX_ROWS_ACCESSES];
    fx_nest_access stay_access[FX_ROWS_ACCESSES], row_access[FX_ROWS_ACCESSES];
    fx_nest stay, row;
    fx_affine stay_at[FX_NEST_DIMS], row_at[FX_NEST_DIMS]; /* where the code being made is */
    bool across;               /* memory runs along a dim that stays */
    bool batched;              /* several rows at a time */
    int lanes;                 /* accumulators (1: a local), or rows at a time */
    fx_dim n_lanes;            /* batched: of the rows being done */
    fx_affine lane;            /* the lane of the loop being made */
    fx_affine base;            /* batched: the first of the rows at a time */
    int pass;
    bool stat_context;
    int64_t kept_bytes;
    fx_status status;
} fx_row_region;

/* ---- build_rows_plan.c: what the region's step will do ---- */

/* Fills r from its members: reads, results, nests, passes, what is kept. */
fx_status fx_row_plan(fx_row_region *r);
int fx_row_member_at(const fx_row_region *r, const fx_node *n);   /* -1: not in it */
bool fx_row_is_result(const fx_row_region *r, const fx_node *n);  /* a getitem of a norm in it */
int fx_row_output_of(const fx_row_region *r, int i);              /* where all elements of member i are stored; -1: nowhere */
bool fx_row_is_dropped(const fx_row_region *r, const fx_row_member *m); /* a result a row without the dims that go */

/* ---- build_rows_value.c: elements, folds and results a row as expressions ---- */

fx_stmt *fx_row_append(fx_build *b, fx_stmt_kind kind);           /* at b->tail */
int fx_row_local_array(fx_row_region *r, const char *name, fx_dtype dtype, int64_t n);
fx_affine fx_row_index_of(fx_row_region *r, int access);          /* where an access is at the current element */
fx_affine fx_row_row_index(fx_row_region *r);                     /* where an array over the row holds it */
const fx_sexpr *fx_row_op2(fx_row_region *r, fx_sop op, const fx_sexpr *a, const fx_sexpr *c);
const fx_sexpr *fx_row_cast(fx_row_region *r, fx_dtype dtype, const fx_sexpr *a);
fx_dtype fx_row_wide(fx_dtype d);                                 /* what sums of a dtype are computed in */
fx_dtype fx_row_norm_dtype(const fx_node *n);
bool fx_row_is_softmax(const fx_node *n);
bool fx_row_has_elements(fx_row_region *r);                       /* proved: rows are not empty */
/* The folds of member i, whose input is known after `from` passes; how many passes until its value is. */
int fx_row_find_folds(fx_row_region *r, int i, int from);
const fx_sexpr *fx_row_fold_value(fx_row_region *r, const fx_row_fold *f); /* what a fold adds for the current element */
void fx_row_finish_fold(fx_row_region *r, const fx_row_fold *f, const fx_sexpr *acc);
fx_row_stat *fx_row_own_stat(fx_row_region *r, int i, int part);  /* the value of a member, or of a norm's result `part` */
const fx_sexpr *fx_row_stat_value(fx_row_region *r, const fx_row_stat *s);
void fx_row_declare(fx_row_region *r, fx_row_stat *s, fx_dtype dtype); /* before the loop over the rows done at a time */
void fx_row_set_stat(fx_row_region *r, fx_row_stat *s, const fx_sexpr *e);
const fx_sexpr *fx_row_value_of(void *region, fx_node *n);        /* a node's value at the current element, or row */
const fx_sexpr *fx_row_full(fx_row_region *r, int i, int part);
void fx_row_forget(fx_row_region *r);                             /* at the begin and end of a loop body */

#endif
