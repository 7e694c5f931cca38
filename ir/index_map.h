/* ir/index_map.h: index maps: which element of which producer an element of a consumer is.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * What reshape, permute, slice, select, expand, flip, pad, cat, split, unfold, repeat, roll and diagonal do to indices. A map goes
 * from the consumer's dims to the producer's (or to an element offset, when flat): sums of dims, and of (sum // D) % M where dims are
 * split or merged, with coefficients, divisors and sizes that may be expressions over symbols. Pad, cat and roll have several pieces: disjoint boxes
 * that cover the consumer. Maps are immutable and live in the arena of fx_imaps. See docs/index-maps.md. */
#ifndef FXCC_INDEX_MAP_H
#define FXCC_INDEX_MAP_H

#include "ir/ir.h"

/* What functions on maps need: where to allocate, and the symbols' ranges for proofs. */
typedef struct fx_imaps {
    fx_context *ctx;
    fx_arena *arena;
    fx_symbols symbols;
} fx_imaps;

typedef struct fx_ix fx_ix;

/* coef times a dim of the consumer (var), or (var -1) times (of // div) % mod; mod is 0 where there is none. Floored, as Python's. */
typedef struct fx_ix_term {
    fx_dim coef;
    int var;
    const fx_ix *of;
    fx_dim div, mod;
} fx_ix_term;

/* base plus the sum of the terms: sorted, no two alike, coefs not 0. */
struct fx_ix {
    fx_dim base;
    int n;
    const fx_ix_term *term;
};

/* Where lo <= d < hi for each of the consumer's dims, its element is element index[] of operand `source`. */
typedef struct fx_imap_piece {
    fx_dim lo[FX_MAX_RANK], hi[FX_MAX_RANK];
    int source;                /* -1: a constant, the pad's value; rank is then 0 */
    int rank;                  /* of the producer; 1 when flat */
    const fx_ix *index[FX_MAX_RANK];
} fx_imap_piece;

typedef struct fx_imap {
    int rank;                  /* of the consumer */
    fx_dim dims[FX_MAX_RANK];
    int n;
    const fx_imap_piece *piece;
} fx_imap;

/* ---- one op: dims are the producer's unless said otherwise; the producer is source 0 ------------------------ */
const fx_imap *fx_imap_identity(const fx_imaps *m, int rank, const fx_dim *dims);
const fx_imap *fx_imap_reshape(const fx_imaps *m, int rank, const fx_dim *dims, int out_rank, const fx_dim *out);
const fx_imap *fx_imap_permute(const fx_imaps *m, int rank, const fx_dim *dims, const int *order); /* out dim i is dim order[i] */
const fx_imap *fx_imap_slice(const fx_imaps *m, int rank, const fx_dim *dims, int dim, fx_dim start, fx_dim step, fx_dim length);
const fx_imap *fx_imap_select(const fx_imaps *m, int rank, const fx_dim *dims, int dim, fx_dim index);
const fx_imap *fx_imap_expand(const fx_imaps *m, int rank, const fx_dim *dims, int out_rank, const fx_dim *out);
const fx_imap *fx_imap_flip(const fx_imaps *m, int rank, const fx_dim *dims, unsigned which); /* bit i: dim i */
/* Negative sizes crop. */
const fx_imap *fx_imap_pad(const fx_imaps *m, int rank, const fx_dim *dims, const fx_dim *before, const fx_dim *after);
/* dims: the consumer's. Operand k has size[k] along dim. */
const fx_imap *fx_imap_cat(const fx_imaps *m, int rank, const fx_dim *dims, int dim, int n, const fx_dim *size);
const fx_imap *fx_imap_repeat(const fx_imaps *m, int rank, const fx_dim *dims, int out_rank, const fx_dim *times);
const fx_imap *fx_imap_roll(const fx_imaps *m, int rank, const fx_dim *dims, int dim, fx_dim shift); /* 0 <= shift <= size */
const fx_imap *fx_imap_unfold(const fx_imaps *m, int rank, const fx_dim *dims, int dim, fx_dim size, fx_dim step);
/* The two dims go, a last one of `length` comes: element i is (i + max(-offset, 0), i + max(offset, 0)) of them. */
const fx_imap *fx_imap_diagonal(const fx_imaps *m, int rank, const fx_dim *dims, int64_t offset, int dim1, int dim2, fx_dim length);
/* Of a node: view, permute, expand, slice, select, unsqueeze, squeeze, flip, unfold, diagonal, cat, constant_pad_nd, repeat, roll and
 * their kin. Source k is tensor operand k (of cat: list item k). NULL: not such an op, or its sizes say too little. */
const fx_imap *fx_imap_of_node(const fx_imaps *m, const fx_node *n);

/* ---- chains ------------------------------------------------------------------------------------------------- */
/* Reads operand `source` of outer through inner: inner's sources become source numbers + shift. NULL when a piece of the result is not
 * a box, or there are more than FX_IMAP_MOST pieces: then make the copy. */
enum { FX_IMAP_MOST = 64 };
const fx_imap *fx_imap_compose(const fx_imaps *m, const fx_imap *outer, int source, const fx_imap *inner, int shift);
/* Pieces of `source` give element offsets in memory instead: offset + sum of index[i] * strides[i]. */
const fx_imap *fx_imap_flat(const fx_imaps *m, const fx_imap *map, int source, fx_dim offset, const fx_dim *strides);
/* The map of piece k alone, whose dims are its box: dims hi - lo, indices shifted. */
const fx_imap *fx_imap_part(const fx_imaps *m, const fx_imap *map, int k);
/* x over the dims of a box: each from 0. */
const fx_ix *fx_ix_within(const fx_imaps *m, int rank, const fx_dim *lo, const fx_dim *hi, const fx_ix *x);
/* The boxes on which all maps (of the same dims) have one piece each; those known to be empty are left out. piece has n numbers.
 * false: more than FX_IMAP_MOST. */
typedef struct fx_imap_box {
    fx_dim lo[FX_MAX_RANK], hi[FX_MAX_RANK];
    const int *piece;
} fx_imap_box;
bool fx_imap_boxes(const fx_imaps *m, int n, const fx_imap *const *maps, int *n_boxes, const fx_imap_box **boxes);

/* ---- strided form and refinement ------------------------------------------------------------------------------ */
/* x = offset + sum of stride[i] * dim i: no splitting left. */
bool fx_ix_strided(const fx_ix *x, int rank, fx_dim *offset, fx_dim *strides);

/* The consumer's dims split into parts: dim i is the sum of coef * part over its parts, outermost first. */
enum { FX_SPLIT_MOST = 16 };
typedef struct fx_split {
    int n;
    int dim[FX_SPLIT_MOST];
    fx_dim extent[FX_SPLIT_MOST], coef[FX_SPLIT_MOST];
} fx_split;
/* The coarsest split of dims (each from 0) under which all of x[] are affine in the parts; false when there is none: then copy. */
bool fx_ix_refine(const fx_imaps *m, int rank, const fx_dim *dims, int n, const fx_ix *const *x, fx_split *out);
/* x as base + sum of coef[k] * part k, for a split that fx_ix_refine gave for it. */
bool fx_ix_over(const fx_imaps *m, const fx_ix *x, const fx_split *s, fx_dim *base, fx_dim *coef);
/* The same for a whole map of one piece, read from memory through `strides`: refines its dims. */
bool fx_imap_refine(const fx_imaps *m, int n, const fx_imap *const *flat, fx_split *out);

/* ---- index expressions ------------------------------------------------------------------------------------------ */
const fx_ix *fx_ix_const(const fx_imaps *m, fx_dim v);
const fx_ix *fx_ix_dim(const fx_imaps *m, int var);
/* Simplified given lo <= d < hi of each dim (NULL: no bounds known). */
typedef struct fx_ix_space {
    int rank;
    const fx_dim *lo, *hi;     /* lo NULL: zeros */
} fx_ix_space;
const fx_ix *fx_ix_add(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, const fx_ix *b);
const fx_ix *fx_ix_scale(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, fx_dim factor);
const fx_ix *fx_ix_floordiv(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, fx_dim by); /* by > 0 */
const fx_ix *fx_ix_mod(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, fx_dim by);
/* x with dim k replaced by to[k], an expression over the dims of s. */
const fx_ix *fx_ix_replace(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, const fx_ix *const *to);
bool fx_ix_equal(const fx_ix *a, const fx_ix *b);
/* Bounds that hold everywhere in s; false when none is known. */
bool fx_ix_bounds(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, fx_dim *lo, fx_dim *hi);
bool fx_ix_eval(const fx_imaps *m, const int64_t *values, const fx_ix *x, const int64_t *point, int64_t *out);

/* ---- values and texts ---------------------------------------------------------------------------------------------- */
/* Which element of which source a point of the consumer is, for values of the symbols. */
bool fx_imap_eval(const fx_imaps *m, const int64_t *values, const fx_imap *map, const int64_t *point, int *source, int64_t *index);
bool fx_imap_equal(const fx_imap *a, const fx_imap *b);
/* "(2, 12*s) -> in0[d1 // 4, d1 % 4]", pieces "(8) -> {0:4} in0[d0]; {4:8} pad". Dims are d0, d1, ...; names of symbols may not be. */
void fx_ix_print(fx_text *t, const fx_ix *x);
void fx_imap_print(fx_text *t, const fx_imap *map);
fx_status fx_imap_parse(const fx_imaps *m, const char *text, const fx_imap **out);

#endif
