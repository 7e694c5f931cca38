/* lower/map_rows.h: code that reduces rows, as map_rows.c and map_split.c see it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_MAP_ROWS_H
#define FXCC_LOWER_MAP_ROWS_H

#include "lower/map_gpu.h"

enum { FX_ROW_PASSES = 16, FX_ROW_FOLDS = 24, FX_ROW_ARRAYS = 8 };

/* What a pass folds: local = op(local, element); place >= 0: an extreme, whose first place is that local. */
typedef struct fx_row_folded {
    int pass, local;
    fx_dtype dtype;
    fx_sop op;
    int place;
} fx_row_folded;

/* A loop of the row's code: the loops that are one another's only statement, and which of them the threads share. */
typedef struct fx_row_pass {
    const fx_stmt *loop[FX_MAX_LOOPS];
    int n, at;
    int density;                  /* accesses that are dense along the shared loop */
} fx_row_pass;

typedef struct fx_row_code {
    fx_gpu_map *m;
    const fx_stmt *outer[FX_MAX_LOOPS]; int n_outer;
    const fx_stmt *list;          /* the row's code */
    fx_row_pass pass[FX_ROW_PASSES]; int n_passes;
    fx_row_folded fold[FX_ROW_FOLDS]; int n_folds;
    int array[FX_ROW_ARRAYS], n_arrays; /* over the row: each thread has its own elements' */
    int64_t n_rows, n_elements;   /* of a pass; at most */
    int along, across;            /* accesses that are dense along the row, and along a loop around it */
    /* map_rows.c */
    int threads, x_var;
    bool failed;
} fx_row_code;

/* False: the list reduces no rows that threads could share. */
bool fx_row_code_find(fx_gpu_map *m, const fx_stmt *list, fx_row_code *w);
/* What is around the row's code in the list, with other code in its place. */
fx_stmt *fx_row_code_around(const fx_row_code *w, const fx_stmt *list, fx_stmt *code);

#endif
