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

#endif
