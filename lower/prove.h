/* lower/prove.h: what the files of the prove pass (lower/prove*.c) share. Nothing here is shared with the builder, the memory planner or the
 * program's verifier: proofs start from the statements alone.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_PROVE_H
#define FXCC_LOWER_PROVE_H

#include "lower/isl.h"
#include "lower/lower.h"

/* What decided. */
enum {
    FX_BY_INTERVALS = 1,          /* ends of the loops' ranges, as numbers */
    FX_BY_SYMBOLS = 2,            /* the same as polynomials in the symbols */
    FX_BY_GUARDS = 4,             /* and conditions around the access */
    FX_BY_CHECKS = 8,             /* an index that is data: the check around it */
    FX_BY_ISL = 16,
    FX_BY_STRIDES = 32,           /* no two iterations at one element: each stride spans what lies inside it */
    FX_BY_ORDER = 64,             /* each element is read before it is written, by one iteration */
    FX_BY_FOOTPRINT = 128         /* what the kernel declares to touch */
};

typedef struct fx_prove_var {
    int var;
    fx_dim extent;
} fx_prove_var;

enum { FX_PROVE_DEPTH = 64 };

/* What holds at a statement. */
typedef struct fx_prove_scope {
    int n, n_cond;
    fx_prove_var v[FX_PROVE_DEPTH];
    const fx_affine *cond[FX_PROVE_DEPTH]; /* >= 0 */
} fx_prove_scope;

typedef struct fx_prover {
    fx_context *ctx;
    fx_program *p;
    fx_symbols symbols;
    fx_isl *isl;
    fx_arena *arena;              /* for the question at hand: emptied after each */
    fx_arena *kept;               /* lasts as long as the pass */
    int step;
    unsigned by;                  /* FX_BY_* of the line being proved */
    const char *missing;          /* the first thing that is not proved, NULL */
} fx_prover;

/* ---- prove_index.c ---- */
bool fx_prove_le(const fx_prover *r, fx_dim a, fx_dim b);
/* The symbols' ranges where a statement in this scope runs at all: its loops have iterations. */
fx_symbols fx_prove_where(const fx_prover *r, const fx_prove_scope *s, fx_symbols symbols);
/* 0 <= a < end throughout the scope. *text says, where not, what was seen. */
bool fx_prove_within(fx_prover *r, const fx_prove_scope *s, const fx_affine *a, fx_dim end, const char **text);

/* An element that an access may touch: base + sum of coef * x, 0 <= x < extent. Variables of one number in both forms of a question
 * have one value in both when they are shared, and two that differ when they are `apart`. */
typedef struct fx_prove_form {
    fx_dim base;
    int n;
    struct { int var; fx_dim coef, extent; } t[FX_PROVE_DEPTH];
} fx_prove_form;
fx_prove_form fx_prove_form_of(const fx_prover *r, const fx_prove_scope *s, const fx_affine *a);
/* That the forms never are the same element. shared: how many variables from the front of the list are shared; apart: a variable, or INT_MIN. */
bool fx_prove_distinct(fx_prover *r, const fx_prove_form *a, const fx_prove_form *b, int n_shared, const int *shared, int apart);
/* The same by isl, with the scopes' conditions: first runs in an earlier iteration of `apart` than second (or in any other one). */
bool fx_prove_distinct_isl(fx_prover *r, const fx_prove_scope *sa, const fx_affine *a, const fx_prove_scope *sb, const fx_affine *b, int n_shared,
                           int apart);

/* ---- prove_race.c ---- */
/* The iterations of a loop that run at once touch different elements. outer: the scope around the loop. */
bool fx_prove_parallel(fx_prover *r, const fx_prove_scope *outer, const fx_stmt *loop, const char **text);

/* Two loops of a list may run at once: what one stores to, the other does not touch. */
bool fx_prove_apart(fx_prover *r, const fx_stmt *a, const fx_stmt *b, const char **text);

/* ---- prove_memory.c ---- */
/* Buffers that live at once lie apart, or take each other's place element by element. f is called for each pair that is not proved. */
int fx_prove_memory(fx_prover *r, void (*f)(void *user, const char *step, const char *text), void *user);
/* Whether the two may lie on one place in memory at all, as planned. */
bool fx_prove_same_place(const fx_prover *r, int a, int b);

/* ---- prove_streams.c ---- */
/* Steps that may run at once write nothing that the other touches. Likewise; returns how many regions there are. */
int fx_prove_streams(fx_prover *r, void (*f)(void *user, const char *step, const char *text), void *user);

/* ---- prove_call.c ---- */
/* The elements of an argument, as sharp as its strides tell; else everything from the first to the last. */
fx_prove_form fx_prove_window(const fx_prover *r, const fx_call_stmt *c, int arg);
bool fx_prove_call(fx_prover *r, const fx_stmt *call, const char **text);
/* Whether the kernel reads an element of argument arg before it writes its place in y, and no other iteration needs it: a residual, or x
 * where kernel.def says OVER(y); both in the same strides from the same offset. */
bool fx_prove_in_step(const fx_prover *r, const fx_call_stmt *c, int arg);

#endif
