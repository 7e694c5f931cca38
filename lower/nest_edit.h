/* lower/nest_edit.h: copies of statements and expressions under other variables and locals.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_NEST_EDIT_H
#define FXCC_LOWER_NEST_EDIT_H

#include "ir/program.h"

/* What changes in a copy. */
typedef struct fx_nest_edit {
    fx_program *p;
    int n_vars;
    int var[FX_MAX_LOOPS];             /* is replaced by to[k] */
    const fx_affine *to[FX_MAX_LOOPS];
    int load;                          /* loads of this buffer become local `load_local`; -1: none */
    int load_local;
    /* local t becomes element `index` of array[k]; n_arrays 0: none */
    int n_arrays;
    int local[16], array[16];
    const fx_affine *index;
    int shift_vars, shift_locals;      /* added to the numbers of the others */
    fx_map *copies;                    /* from expressions to their copies, so that what several users share still is one; NULL: each has its own */
    fx_arena *copies_in;               /* of the map */
} fx_nest_edit;

fx_affine fx_nest_affine(const fx_nest_edit *e, const fx_affine *a);
const fx_sexpr *fx_nest_expr(const fx_nest_edit *e, const fx_sexpr *x);
/* A list; LOCAL and SET of what is an array now become stores. */
fx_stmt *fx_nest_copy(const fx_nest_edit *e, const fx_stmt *s);

int fx_nest_next_var(const fx_stmt *s);   /* above all variables of a list */
int fx_nest_next_local(const fx_stmt *s);

#endif
