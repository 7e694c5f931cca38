/* lower/build.h: what the files of the build pass (lower/build*.c) share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_BUILD_H
#define FXCC_LOWER_BUILD_H

#include "ir/index_map.h"
#include "lower/lower.h"

/* Where a node's tensor lives: a strided window on a buffer of the program. Offsets and strides count elements. */
typedef struct fx_window {
    int buf;                       /* -1: not made yet */
    fx_dim offset;
    fx_dtype dtype;
    int rank;
    fx_dim dims[FX_MAX_RANK], strides[FX_MAX_RANK];
} fx_window;

/* Where a value has to be put because of who uses it. */
typedef struct fx_home {
    fx_node *cat;                  /* a slice of this concatenation's storage, from `offset` of its dim `dim` on */
    int dim;
    fx_dim offset;
    int output;                    /* else graph output number, -1: none */
} fx_home;

/* A group is what becomes one step: a contraction with its tail, a region of pointwise nodes, or a node alone. It is named
 * by its root, the last node, at whose place it is emitted. */
typedef struct fx_group {
    fx_node *anchor;               /* the contraction, NULL in pointwise regions */
    fx_node *before, *scale, *shift; /* a convolution of relu(before scale + shift), by channel; before NULL: of its operand; scale, shift NULL: 1, 0 */
    fx_node *residual;             /* added after the bias; NULL: none */
    int act;                       /* FXRT_ACT_* after that */
    float act_a, act_b;
    bool after;                    /* the residual is added after the activation, whose result is first multiplied by */
    float gain;                    /* this, and */
    fx_node *gain_by;              /* by channel, if it is not NULL */
    const char *tail;              /* for titles: " + add + relu" */
    fx_node *first;                /* first node of a pointwise region */
    int n_reads;                   /* bound on the tensors a pointwise region reads */
    int n_nodes;                   /* of a pointwise region */
    struct fx_rows *rows;          /* a region of rows (build_rows.h), NULL: none */
} fx_group;

/* A value that is not stored: element by element it is one of the sources, or `fill` where the map reads none. */
typedef struct fx_lazy {
    const fx_imap *map;
    int n_src, n_operands;         /* the first n_operands sources are the node's own operands */
    fx_node **src;
    const fx_sexpr *fill;
} fx_lazy;

typedef struct fx_build {
    fx_context *ctx;
    fx_graph *g;
    fx_program *p;
    fx_arena *scratch;             /* what lasts as long as the pass */
    fx_arena *piece;               /* emptied after each node is built: texts, maps and boxes that only its steps need */
    fxrt_tile tile;
    int threads;
    bool channels_last;            /* how rank-4 activations lie: one decision a graph */
    /* side arrays by node id */
    fx_node **root;                /* the root of the node's group */
    fx_group *group;               /* at the root's id */
    fx_window *value;              /* buf -1: not made yet, or read through `lazy` */
    const fx_lazy **lazy;
    fx_node **seen;                /* the region whose leaves are being collected */
    fx_window **results;            /* of a node with several results: where each lies (buf -1: not made); NULL: value is the first */
    fx_window **nhwc;              /* a channels-last copy made of the value, NULL: none */
    fx_window **dense;             /* a row-major copy, likewise */
    fx_window **turned;            /* a constant mask with its columns dense, likewise */
    fx_home *home;
    const fx_sexpr **made;         /* expression or local of a node within the nest being made: valid where made_in is its number */
    int *made_in, n_nests;
    bool *passed;                  /* views that what they view is written through: they have no value */
    bool *again;                   /* computed in each region that reads it, and never stored */
    bool *in_input;                /* written by index into the changed input that its first operand is, or lies in already */
    int *path_uses;                /* how many groups share the node's module path */
    /* graph outputs in order */
    fx_node **outputs;
    size_t n_outputs;
    struct fx_write_back { fx_node *input, *value; } *writes; /* inputs and state that have another value after the run */
    size_t n_writes;
    struct fx_fill *fills, **last_fill; /* weights to pack (fill.c), in order */
    int n_vars, n_locals;          /* of the step being built */
    fx_stmt **tail;                /* where locals and checks of the expressions being made go, before what uses them; see fx_build_share */
    const fx_lower_options *opt;
} fx_build;

/* ---- fill.c ---------------------------------------------------------------------------------------- */
/* Packs what selection noted, by several threads. Until then these weights' buffers have no data. */
fx_status fx_build_fill(fx_build *b);
/* Where the elements of a large constant lie that was not checked yet: it will be, then. *data NULL: another, to be touched. */
fx_status fx_build_constant_in_place(fx_build *b, const fx_tensor *t, const void **data);

/* ---- build_layout.c ---------------------------------------------------------------------------- */
bool fx_build_prefers_channels_last(fx_build *b);

/* ---- build_groups.c: which nodes become one step, and where results go ------------------------- */
void fx_build_groups(fx_build *b);
void fx_build_homes(fx_build *b);
/* The activation a pointwise node is; false when it is none of runtime.h's menu. */
bool fx_build_act(const fx_node *n, int *act, float *a, float *b);
bool fx_build_is_pointwise(const fx_node *n);

/* ---- build_conv.c: what a GPU's convolutions compute besides; their groups are there --------- */
void fx_build_conv_groups(fx_build *b);

/* ---- build_value.c: values, views, layouts, copies --------------------------------------------- */
bool fx_build_is_constant(const fx_node *n);
/* The value of a node that has been emitted, of an input or of a constant (made into a weight buffer at first use). */
fx_status fx_build_value(fx_build *b, fx_node *n, fx_window *out);
/* A place for n's result, in its home or in a new buffer; like: dims are laid out in memory in the order of its strides (NULL:
 * row-major). dims of n's type. */
fx_status fx_build_place(fx_build *b, fx_node *n, const fx_window *like, fx_window *out);
/* A new buffer of n's dims, laid out likewise. */
fx_status fx_build_new(fx_build *b, fx_node *n, const char *name, fx_dtype dtype, const fx_window *like, fx_window *out);
/* Whether a concatenation is of images, which lie channels-last in this graph: one of channels. */
bool fx_build_cat_of_images(const fx_build *b, const fx_node *cat);
fx_window fx_build_channels_last(fx_build *b, const fx_node *n); /* a pattern for `like` */
fx_status fx_build_view(fx_build *b, fx_node *n);  /* sets the value of a node of class VIEW (or flip) */
/* Views v under other sizes; false when strides do not allow it. */
bool fx_window_reshape(fx_build *b, const fx_window *v, int rank, const fx_dim *dims, fx_window *out);
/* The value with channels dense (kernels' layout: positive strides, channel stride 1) or row-major dense; copied if need be. */
fx_status fx_build_nhwc(fx_build *b, fx_node *n, fx_window *out);
fx_status fx_build_dense(fx_build *b, fx_node *n, fx_window *out);
/* A step that copies src to dst (same dims). */
fx_status fx_build_copy(fx_build *b, const char *name, const char *title, const fx_node *at, const fx_window *src, const fx_window *dst);
/* A number or size among n's arguments: item i of a list, or the argument itself. */
fx_dim fx_build_size(const fx_node *n, int param, int i);
/* Data of a constant, as f32, dense. FX_ERR_UNSUPPORTED naming `what` when n is not constant, or neither f32, f16 nor bf16. */
fx_status fx_build_constant(fx_build *b, const fx_node *user, fx_node *n, const char *what, const float **data);
/* The same as rows, not touched. */
fx_status fx_build_constant_rows(fx_build *b, const fx_node *user, fx_node *n, const char *what, fx_weight_rows *rows);
/* The position of sizes' dims in memory order (largest stride first); n dims. */
void fx_window_order(fx_build *b, const fx_window *v, int *order);
/* Whether a view of the same elements in the same order under other sizes. */
bool fx_build_is_resize(const fx_node *n);
/* v seen through a view, n; false when no strides express it. */
bool fx_window_view(fx_build *b, const fx_window *v, const fx_node *n, fx_window *out);
bool fx_window_is_dense(fx_build *b, const fx_window *v); /* row-major without gaps */
void fx_window_set_dense(fx_build *b, fx_window *v);      /* its strides: row-major without gaps */
fx_dim fx_window_magnitude(fx_build *b, fx_dim stride);   /* without its sign */
fx_dim fx_window_count(fx_build *b, const fx_window *v);  /* elements */

/* Tensors a pointwise region may read. */
enum { FX_MAX_REGION_READS = 20 };
/* Nodes it may have: expressions nest as deep as its chains are long, and what walks them recurses. */
enum { FX_MAX_REGION_NODES = 64 };

/* ---- build_loops.c: loop nests -------------------------------------------------------------------- */

/* Loops of a nest: dims of a tensor, or parts that they are split into. */
enum { FX_NEST_DIMS = FX_SPLIT_MOST };

/* An access of a nest: strides by the nest's dims. */
typedef struct fx_nest_access {
    int buf;
    fx_dim offset;
    fx_dim strides[FX_NEST_DIMS];
} fx_nest_access;

/* Loops over dims, outermost first: adjacent ones merged where all accesses allow. */
typedef struct fx_nest {
    int n;
    fx_dim extent[FX_NEST_DIMS];
    int var[FX_NEST_DIMS];
    const char *hint[FX_NEST_DIMS];
} fx_nest;

/* dims in the order given by `order`; strides of the accesses are rewritten to the nest's dims. */
fx_nest fx_nest_make(fx_build *b, int rank, const fx_dim *dims, const int *order, int n_accesses, fx_nest_access *accesses);
fx_affine fx_nest_index(fx_build *b, const fx_nest *nest, const fx_nest_access *a);
fx_stmt *fx_nest_wrap(fx_build *b, const fx_nest *nest, fx_stmt *body); /* body inside the loops */
bool fx_build_is_large(fx_build *b, int rank, const fx_dim *dims);  /* so many iterations are worth several threads */

const char *fx_build_axis(int rank, int dim);              /* a name for a loop: "n" "c" "h" "w", or "i" "j" "k" ... */

/* ---- build_read.c: values read through index maps --------------------------------------------------------- */

/* What a nest over some dims reads: a strided window, or through a map whose pieces give elements of buf[source]. */
typedef struct fx_read {
    bool strided;
    fx_nest_access access;         /* strided: by those dims */
    const fx_imap *map;
    const int *buf;
    const fx_sexpr *fill;
} fx_read;
/* One of the boxes that a nest is cut into: its loops, and what each read is there: an access, or a number. */
typedef struct fx_read_box {
    fx_nest nest;
    fx_nest_access access[FX_MAX_REGION_READS + 1];
    const fx_sexpr *fill[FX_MAX_REGION_READS + 1];
} fx_read_box;
/* v as what a nest over its dims reads or writes. */
void fx_read_at(const fx_window *v, fx_read *out);
fx_imaps fx_build_imaps(fx_build *b, fx_arena *arena);
/* Whether n is not stored, but read through its map. */
bool fx_build_is_lazy(const fx_build *b, const fx_node *n);
/* n as a map over the values of `src` (those of lazy operands are read through in turn). false: no map says it. */
bool fx_build_make_lazy(fx_build *b, fx_node *n, int n_src, fx_node *const *src, const fx_sexpr *fill);
/* Makes n a value that is not stored: a view; a cat of src or a pad, where only loops or copies read it and no part lies there already. */
bool fx_build_lazy_view(fx_build *b, fx_node *n);
bool fx_build_lazy_join(fx_build *b, fx_node *n, int n_src, fx_node *const *src, const fx_sexpr *fill);
/* Whether every user of n is a pointwise region, which reads through maps, maybe behind views and other joins. */
bool fx_build_only_loops_read(fx_build *b, const fx_node *n);
/* The same, or a view that no strides express and that is copied whether or not n is stored. */
bool fx_build_copies_read(fx_build *b, const fx_node *n);
/* n read under dims it is broadcast to. */
fx_status fx_build_read(fx_build *b, fx_node *n, int rank, const fx_dim *dims, fx_read *out);
/* The boxes of a nest over dst's dims, in their order in memory, with these reads (the result is one of them); false when no split and no
 * few cuts of the loops make all affine. */
bool fx_build_read_boxes(fx_build *b, const fx_window *dst, int n, const fx_read *reads, int *n_boxes, fx_read_box **boxes);

/* ---- build_store.c: copies of what is not stored --------------------------------------------------------------- */
/* Stores a value that was not, laid out as `like` (NULL: row-major): a step that says why. */
fx_status fx_build_store(fx_build *b, fx_node *n, const fx_window *like);
/* The same at a given place, under a given title. When strides express n after all, it is a window then, and nothing is stored. */
fx_status fx_build_store_at(fx_build *b, fx_node *n, const fx_window *out, const char *title, const char *name);
/* Views of n, each used once, up to the first that no strides express and that has to be stored: `last`. What makes n may then write
 * to where `last` lies, through the map from n's index to last's. */
typedef struct fx_through {
    fx_node *last;
    const fx_imap *map;
    bool image;                /* last lies channels-last */
} fx_through;
bool fx_build_through(fx_build *b, fx_node *n, fx_through *t);
/* A place for last, and as what a nest over n's dims writes it. */
fx_status fx_build_through_place(fx_build *b, const fx_through *t, fx_window *out, fx_read *to);
/* last was made there. */
void fx_build_through_settle(fx_build *b, fx_node *n, const fx_through *t, const fx_window *out);
/* A lazy n is copied so; *done false: it cannot be. */
fx_status fx_build_store_through(fx_build *b, fx_node *n, bool *done);

/* ---- build_contract.c: contractions of dtypes that no kernel takes, as plain loops ------------------- */
fx_status fx_build_sums(fx_build *b, fx_node *root);
bool fx_build_has_kernel(const fx_node *n); /* a contraction that a kernel takes: convolutions with constant weights only */

/* ---- build_pointwise.c, build_join.c ------------------------------------------------- */
fx_status fx_build_pointwise(fx_build *b, fx_node *root);
fx_status fx_build_cat(fx_build *b, fx_node *n);
fx_status fx_build_pad(fx_build *b, fx_node *n);

/* ---- build_index.c: places that are data, arange ----------------------------------------------------- */
fx_status fx_build_gather(fx_build *b, fx_node *n);
/* build_random.c: numbers of Philox. */
fx_status fx_build_philox(fx_build *b, fx_node *n);

/* ---- build_rows.c, build_rows_emit.c: reductions and norms with what is around them ------------------- */
void fx_build_row_groups(fx_build *b, const uint32_t *position);
fx_status fx_build_rows(fx_build *b, fx_node *root);

/* ---- build_order.c: places of extremes, cumulative sums, the k best, sorting ---------------------------- */
fx_status fx_build_order(fx_build *b, fx_node *n);

/* ---- build_pool.c: pools that no kernel takes: where the greatest lies, float64 ------------------------------ */
fx_status fx_build_pool_loops(fx_build *b, fx_node *n);

/* ---- build_prune.c ----------------------------------------------------------------------------------- */
/* The body of a step without what nobody reads: locals, arrays (buffers from `first` on), loops that do nothing. */
fx_stmt *fx_build_prune(fx_build *b, fx_stmt *body, int first);
/* All steps without what is under guards that never hold (a window of a convolution that lies in the border): its operands are not read. */
void fx_build_drop_impossible(fx_build *b);

/* ---- build_expr.c: scalar expressions of pointwise ops ------------------------------------------- */

/* An i64 constant; an operation in a's dtype; a comparison; c ? a : e. */
const fx_sexpr *fx_build_int(fx_build *b, int64_t v);
const fx_sexpr *fx_build_op(fx_build *b, fx_sop op, const fx_sexpr *a, const fx_sexpr *c);
const fx_sexpr *fx_build_compare(fx_build *b, fx_sop op, const fx_sexpr *a, const fx_sexpr *c);
const fx_sexpr *fx_build_select(fx_build *b, const fx_sexpr *c, const fx_sexpr *a, const fx_sexpr *e);

/* Statements one after the other at *b->tail: of any kind; LOCAL = e; SET local = e; a loop whose body follows (*at: its variable); a CHECK
 * whose body follows. Setting b->tail to &statement->next goes behind it. */
fx_stmt *fx_build_append(fx_build *b, fx_stmt_kind kind);
const fx_sexpr *fx_build_local(fx_build *b, const fx_sexpr *e);
void fx_build_set(fx_build *b, const fx_sexpr *local, const fx_sexpr *e);
fx_stmt *fx_build_open_loop(fx_build *b, fx_dim extent, const char *hint, fx_affine *at);
fx_stmt *fx_build_open_check(fx_build *b, const fx_sexpr *local, fx_dim extent, const char *text);
/* e as a local, declared at *b->tail, when computing it twice would cost; the caller is going to use it more than once. */
const fx_sexpr *fx_build_share(fx_build *b, const fx_sexpr *e);
/* An integer divisor of node n: what follows at *b->tail runs only where it is not 0, else the run fails as eager does. */
const fx_sexpr *fx_build_divisor(fx_build *b, const fx_node *n, const fx_sexpr *e);
/* The element of a constant of one element, or of a full: a number in the dtype of n. NULL: n is no such thing. */
const fx_sexpr *fx_build_number(fx_build *b, fx_node *n);
/* The number that parameter `param` of n is, as torch converts it to dtype. */
const fx_sexpr *fx_build_param(fx_build *b, fx_node *n, int param, fx_dtype dtype);
/* The expression of node n given those of its tensor operands: get(user, node) gives an operand's, of the operand's dtype. */
fx_status fx_build_expr(fx_build *b, fx_node *n, const fx_sexpr *(*get)(void *user, fx_node *n), void *user, const fx_sexpr **out);

/* ---- select*.c: kernels --------------------------------------------------------------------------- */
fx_status fx_build_contraction(fx_build *b, fx_node *root);
fx_status fx_build_pool(fx_build *b, fx_node *n);
fx_status fx_build_norm(fx_build *b, fx_node *n);
/* mean over height and width by the pooling kernel; *done false when it does not apply. */
fx_status fx_build_global_mean(fx_build *b, fx_node *n, bool *done);

/* ---- build.c ------------------------------------------------------------------------------------- */
/* Opens a step for group root `at`; the body is set by the caller. what: title after the colon. */
fx_step *fx_build_step(fx_build *b, fx_node *at, const char *what);
/* Places for those results of n, which has several, that getitems take: b->results[n->id]. */
fx_status fx_build_results(fx_build *b, fx_node *n);
const char *fx_build_name(fx_build *b, const fx_node *n); /* a name for what n computes: "layer1_0_conv2" */
const char *fx_build_dims(fx_build *b, int rank, const fx_dim *dims); /* "1x64x56x56", in b->piece */
fx_dim fx_type_count(fx_context *ctx, const fx_type *t);    /* the product of its dims */
bool fx_build_at_least(fx_build *b, fx_dim d, int64_t v);   /* proved for all values of the symbols */
fx_symbols fx_build_symbols(const fx_build *b);

#endif
