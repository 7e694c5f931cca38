/* passes/rewrite.h: what passes over graphs share: replacing nodes while keeping their names and places, looking at constants.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PASSES_REWRITE_H
#define FXCC_PASSES_REWRITE_H

#include "passes/passes.h"

/* Functions that make nodes are not called side by side as arguments of one call: compilers differ in the order, and names and texts
 * would. */

/* The rewriting of one node. New nodes come before `at`; they take their location and a name from `origin`, which is `at` unless
 * set. The first failure sticks in `status`; builders then return `at` itself, so that a rewrite need not check every call. */
typedef struct fx_rw {
    fx_graph *g;
    fx_context *ctx;
    fx_arena *scratch;
    fx_node *at;
    const fx_node *origin;
    fx_status status;
} fx_rw;

fx_rw fx_rw_at(fx_graph *g, fx_arena *scratch, fx_node *at);
/* A call of `op` about to be made; arguments by fx_call_node and friends. */
fx_call fx_rw_call(fx_rw *w, fx_opid op);
/* Makes the call a new node "<at>_<suffix>". */
fx_node *fx_rw_node(fx_rw *w, fx_call *c, const char *suffix);
fx_node *fx_rw_constant(fx_rw *w, const char *path, const fx_tensor *t); /* a get_attr of a new buffer */
/* `at` itself becomes the call: name, users and location stay. FX_INTERNAL if shape or dtype would change. */
void fx_rw_become(fx_rw *w, fx_call *c);
/* All uses of `at` become uses of `by`, and `at` goes. */
void fx_rw_replace(fx_rw *w, fx_node *by);
/* `at` becomes what y computes, converted to its dtype: y's own call where nothing else uses it, else y replaces it. */
void fx_rw_finish(fx_rw *w, fx_node *y);
/* Fails with a message at the node. */
void fx_rw_refuse(fx_rw *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Ready-made calls. A NULL suffix: `at` becomes the call, and is returned. */
fx_node *fx_rw_view(fx_rw *w, fx_node *x, int rank, const int64_t *sizes, const char *suffix);
fx_node *fx_rw_permute(fx_rw *w, fx_node *x, int rank, const int64_t *dims, const char *suffix);
fx_node *fx_rw_expand(fx_rw *w, fx_node *x, int rank, const int64_t *sizes, const char *suffix);
fx_node *fx_rw_slice(fx_rw *w, fx_node *x, int dim, int64_t start, int64_t end, int64_t step, const char *suffix);
/* The same with sizes that may be expressions. */
fx_node *fx_rw_view_to(fx_rw *w, fx_node *x, int rank, const fx_dim *sizes, const char *suffix);
fx_node *fx_rw_expand_to(fx_rw *w, fx_node *x, int rank, const fx_dim *sizes, const char *suffix);
fx_node *fx_rw_slice_to(fx_rw *w, fx_node *x, int dim, fx_dim start, fx_dim end, int64_t step, const char *suffix);
void fx_call_size(fx_call *c, fx_dim v);
void fx_call_sizes(fx_call *c, int n, const fx_dim *v);
/* at becomes index_put(x, [None, ..., index], values), the index standing for dim. */
void fx_rw_put(fx_rw *w, fx_node *x, int dim, fx_node *index, fx_node *values, bool accumulate);
fx_node *fx_rw_cat(fx_rw *w, int n, fx_node *const *x, int dim, const char *suffix);
/* sum, amax, var and the like: (x, dims, keepdim); of var, correction stands between. */
fx_node *fx_rw_reduce(fx_rw *w, fx_opid op, fx_node *x, int n, const int64_t *dims, bool keep, const char *suffix);
/* start, start + 1, ... below end, as int64. */
fx_node *fx_rw_arange(fx_rw *w, fx_dim start, fx_dim end, const char *suffix);
fx_node *fx_rw_cast(fx_rw *w, fx_node *x, fx_dtype dtype, const char *suffix);
fx_node *fx_rw_item(fx_rw *w, fx_node *tuple, int index, const char *suffix);
fx_node *fx_rw_unary(fx_rw *w, fx_opid op, fx_node *x, const char *suffix);
fx_node *fx_rw_binary(fx_rw *w, fx_opid op, fx_node *a, fx_node *b, const char *suffix); /* alpha, if any, is 1 */
/* op(x, v): an int where x is of integers, so that it does not become float. */
fx_node *fx_rw_number(fx_rw *w, fx_opid op, fx_node *x, double v, const char *suffix);
fx_node *fx_rw_where(fx_rw *w, fx_node *condition, fx_node *a, fx_node *b, const char *suffix);
/* A constant of rank 0. */
fx_node *fx_rw_scalar(fx_rw *w, double v, fx_dtype dtype, const char *suffix);
/* Eager computes whole kernels of float16 and bfloat16 in float32: x, in float32 then. */
fx_node *fx_rw_wide(fx_rw *w, fx_node *x);

/* Sizes of a static tensor; returns the rank, 0 when there is no such type. */
int fx_dims(const fx_node *n, int64_t *sizes);
int64_t fx_dim_size(const fx_node *n, int dim); /* negative dims count from the end; 0 when out of range or dynamic */
/* Sizes of any tensor, numbers or expressions; the rank, -1 when it is not one. */
int fx_sizes(const fx_node *n, fx_dim *sizes);
bool fx_is_tensor(const fx_node *n);            /* typed as a tensor whose sizes are numbers */
bool fx_same_type(const fx_node *a, const fx_node *b); /* tensors of equal shape and dtype, or tuples of such */
bool fx_is_call(const fx_node *n, fx_opid op);
/* A dim argument made non-negative; rank 0 counts as rank 1. */
int fx_wrap_dim(int64_t dim, int rank);
/* An int[n] parameter as exactly n numbers (a shorter list of one repeats; an empty one gives `def`); false if it is not one. */
bool fx_int_list(const fx_node *n, int param, int count, const int64_t *def, int64_t *out);
/* A Tensor parameter given as a plain number (add.Tensor takes one). */
bool fx_is_number(const fx_node *n, int param, double *value);
/* Whether a node's value is known at compile time: a parameter, buffer or constant, or computed from such only. */
bool fx_is_constant(const fx_node *n);
/* The tensor of a get_attr node, brought into memory. */
fx_status fx_attr_value(fx_graph *g, const fx_node *n, fx_tensor *out);
/* If every user of a multi-result node takes result 0 by getitem, they become uses of `value`, and they and (if it is not `value`'s
 * own source) the node go; otherwise refused, with `what` naming the other result. */
void fx_rw_single_result(fx_rw *w, fx_node *value, const char *what);

/* Every getitem of `at` becomes the value of its number, and they and `at` go. A value may be NULL where nothing is used. */
void fx_rw_results(fx_rw *w, int n, fx_node *const *values);

/* Gives types to nodes that have none. */
fx_status fx_infer_missing(fx_graph *g);
/* functionalize_view.c: which results share memory with their operand, and how a view is taken again or undone. */
typedef enum fx_sharing { FX_FRESH, FX_SAME_TENSOR, FX_VIEW_OF, FX_VIEWS_OF /* a list of views */ } fx_sharing;
fx_sharing fx_node_sharing(fx_graph *g, const fx_node *n);
/* Whether a view shows only a part of its operand, so that undoing it needs the rest. */
bool fx_view_is_part(const fx_node *view);
/* The operand of `view` (whose value is `base`) after the view was overwritten with `value`. */
fx_node *fx_view_write(fx_rw *w, const fx_node *view, fx_node *base, fx_node *value);
/* meshgrid as what it is: each vector viewed along its axis and expanded. */
void fx_rw_meshgrid(fx_rw *w);
/* The view taken again, of `base`. */
fx_node *fx_view_again(fx_rw *w, const fx_node *view, fx_node *base);

/* random.c: a call whose result is random, and that this file makes of philox. */
bool fx_is_random(const fx_node *n);
/* All of them; with a state that is an input, or a buffer that each run raises. *count: how many. */
fx_status fx_random_to_philox(fx_graph *g, fx_arena *scratch, bool input, size_t *count);

/* functionalize.c: in-place ops become functional ones; writes through views are propagated. The graph is at stage imported. */
fx_status fx_functionalize(fx_graph *g, fx_arena *scratch);

#endif
