/* lower/map_gpu.h: what the files of the map_gpu pass share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_MAP_GPU_H
#define FXCC_LOWER_MAP_GPU_H

#include "lower/nest_edit.h"
#include "lower/prove.h"

typedef struct fx_gpu_map {
    fx_lower *l;
    fx_program *p;
    fx_prover r;                  /* asked which loops may run at once */
    int next_var, next_local;     /* of the step: free */
    uint64_t arena_size; size_t n_slots; /* as memory left them; partial results lie above */
    uint64_t top; size_t n_partials;     /* of the step's partial results */
} fx_gpu_map;

/* An outer loop that may run at once, or several that step as one. */
typedef struct fx_map_loop {
    const fx_stmt *loop;          /* the innermost of them */
    fx_dim extent;                /* of them together */
    bool merged;                  /* several */
    int axis;                     /* -1: it stays in the thread */
} fx_map_loop;

typedef struct fx_map_access {
    int buf;
    bool write;
    const fx_affine *index;
} fx_map_access;

/* What copies load from an array of the block instead. */
typedef struct fx_map_tile {
    int buf;
    const fx_affine *index;
    int array;
    fx_affine place;              /* in the array, in the copy's variables */
} fx_map_tile;

/* What a grid may have: blocks along y and z, threads of a block along z. */
enum { FX_MAP_TILES = 4, FX_MOST_BLOCKS = 65535, FX_MOST_THREADS_Z = 64 };

/* A nest that is mapped. */
typedef struct fx_map_nest {
    fx_gpu_map *m;
    const fx_stmt *nest;          /* a list */
    fx_map seen;                  /* expressions that were looked at */
    const fx_affine **affines; size_t n_affines, cap_affines; /* all in the nest */
    fx_map_access *accesses; size_t n_accesses, cap_accesses;
    int *set; size_t n_set, cap_set;                          /* locals that are SET */
    const fx_stmt *chain[FX_MAX_LOOPS]; int n_chain;          /* the outer loops that may run at once, outermost first */
    fx_map_loop loops[FX_MAX_LOOPS]; int n_loops;             /* the same, merged, innermost first; those of one iteration are gone */
    int n_inside;                 /* loops of all kinds */
    const fx_stmt *threads;       /* the last of the chain, where it is one over the grid already: the threads of a row; else NULL */
    /* Copies. */
    struct { int var; fx_affine to; } replaced[2 * FX_MAX_LOOPS]; int n_replaced;
    fx_map_tile tiles[FX_MAP_TILES]; int n_tiles;
    fx_map copies;                /* from an expression to its copy */
    int width, width_var;         /* neighbours a thread takes along x (0: one), and the loop over them */
    const fx_stmt *inner;         /* what is inside that loop */
} fx_map_nest;

/* map_nest.c: fills what is known of w->nest, whose m is set. */
void fx_map_look(fx_map_nest *w);
bool fx_map_is_stored(const fx_map_nest *w, int buf);
bool fx_map_is_gone(const fx_map_nest *w, int var);           /* of a loop that another one counts for, or of one iteration */
int64_t fx_map_most(const fx_gpu_map *m, fx_dim extent);      /* at the symbols' upper ends */
/* Copies say `to` where the nest says var. */
void fx_map_replace(fx_map_nest *w, int var, fx_affine to);
fx_affine fx_map_affine(const fx_map_nest *w, const fx_affine *a);
const fx_sexpr *fx_map_value(fx_map_nest *w, const fx_sexpr *x); /* what several users share is still one expression */
const fx_map_tile *fx_map_find_tile(const fx_map_nest *w, int buf, const fx_affine *index);
/* The list without the loops of the chain that have an axis. */
fx_stmt *fx_map_body(fx_map_nest *w, const fx_stmt *s);

/* map_gpu.c: the list as the body of a grid of a single thread. */
fx_stmt *fx_map_one_thread(fx_gpu_map *m, fx_stmt *list);

/* map_points.c: the nest, a list, as loops over a grid, a thread an iteration of all its outer loops that may run at once. With only such loops
 * around it; never refused. */
fx_stmt *fx_map_points(fx_map_nest *w);

/* Axis z for all loops without one whose numbers multiply to what it may have. */
void fx_map_choose_z(fx_map_nest *w);

/* map_rows.c: the list as a launch in which a warp or a block takes a row; NULL: it reduces no rows, or a thread a row is better. */
fx_stmt *fx_map_rows(fx_gpu_map *m, const fx_stmt *list);

/* map_split.c: where few rows are long: the list as two, one that reduces parts of the rows (columns: along which memory does not run) and one that
 * reduces the parts. */
bool fx_map_split(fx_gpu_map *m, const fx_stmt *list, fx_stmt **parts, bool *columns, fx_stmt **whole);
int fx_map_partial(fx_gpu_map *m, fx_dtype dtype, fx_dim numel); /* map_gpu.c: a buffer of the step, above all others in the arena */

/* map_transpose.c: the nest through tiles of shared memory, where it reads along another loop than it writes along; NULL: it does not, or is too small. */
fx_stmt *fx_map_transpose(fx_map_nest *w);

/* map_beside.c: nests of one launch, of steps as they are mapped; steps whose nests are in another one's launch are no steps any more. */
void fx_map_beside(fx_gpu_map *m);

#endif
