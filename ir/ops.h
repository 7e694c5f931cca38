/* ir/ops.h: what the files infer*.c and interp*.c share: prototypes of every row's functions, helpers of shape inference,
 * helpers of the reference interpreter.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_IR_OPS_H
#define FXCC_IR_OPS_H

#include "ir/ir.h"

/* infer_* and eval_* of every row (many rows share them, so they are declared more than once). */
#define OP(id, name, schema, doc, cls, flags, infer, eval) \
    fx_status infer(fx_infer *c);                          \
    fx_status eval(fx_eval *c);
#include "ir/op.def"
#undef OP

/* ---- infer.c: arguments of a node under inference ------------------------------------------------------- */

/* Values of a graph's symbols, by position: in a run, where sizes that are expressions are numbers. */
typedef struct fx_binding {
    fx_symbols symbols;
    const int64_t *values;
} fx_binding;

/* What the functions of rows get. Operand types are those of the nodes, or the interpreter's actual ones. */
typedef struct fx_infer_run {
    fx_infer base;
    const fx_type *const *types;     /* by operand; NULL: the types of the operand nodes */
    const fx_binding *bound;         /* NULL: symbols stay symbols */
} fx_infer_run;

/* Infers the result of a call of a row; *result is NULL when it cannot be known (an operand without a type). Changes nothing. */
fx_status fx_infer_call(const fx_node *n, const fx_type *const *types, const fx_binding *bound, const fx_type **result);

fx_status fx_infer_fail(const fx_infer *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
fx_status fx_infer_refuse(const fx_infer *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const fx_type *fx_infer_operand(const fx_infer *c, int operand);
/* The type of a Tensor parameter; FX_ERR_TYPE when it is something else. The second allows None (then *t is NULL). */
fx_status fx_infer_tensor(const fx_infer *c, int param, const fx_type **t);
fx_status fx_infer_optional(const fx_infer *c, int param, const fx_type **t);
/* A Tensor[] parameter: up to max types; *n how many. */
fx_status fx_infer_tensors(const fx_infer *c, int param, const fx_type **t, int max, int *n);
/* An int or list of ints whose items may be symbolic. */
fx_status fx_infer_dim(const fx_infer *c, int param, fx_dim *out);
bool fx_infer_is_size(const fx_infer *c, int param);   /* an int, an expression, or a node that yields one */
fx_status fx_infer_dims(const fx_infer *c, int param, fx_dim *out, int max, int *n);
/* A list of plain ints. list_size > 0: one int stands for so many. Any other length fails. */
fx_status fx_infer_ints(const fx_infer *c, int param, int64_t *out, int list_size);
/* A dim argument: -rank <= v < rank wrapped to 0..rank-1 (rank 0 counts as 1). */
fx_status fx_infer_axis(const fx_infer *c, int64_t v, int rank, int *out);
/* A list of dims as a mask; an empty list or None is all of them when `all`. */
fx_status fx_infer_axes(const fx_infer *c, int param, int rank, bool all, uint32_t *mask);
/* An end of a slice of a dim of that size: what is surely negative counts from the end. */
fx_dim fx_slice_end(const fx_graph *g, fx_dim v, fx_dim size);
/* movedim's (source, destination), params 1 and 2, as a permutation: order[new place] = old place. */
fx_status fx_move_dims(const fx_infer *c, int rank, int *order);
fx_status fx_infer_set(fx_infer *c, fx_dtype dtype, int rank, const fx_dim *dims);
/* The dtype parameter, or `otherwise` when it is None. */
fx_dtype fx_infer_dtype(const fx_infer *c, int param, fx_dtype otherwise);
const char *fx_infer_text(const fx_infer *c, const fx_type *t);      /* a type as text, for messages */
/* Scale, shift or statistics: parameters first to first + count - 1 are float vectors of n elements, or None. The last one's dtype, in which statistics
 * are kept, goes to *dtype (may be NULL), which else stays. */
fx_status fx_infer_vectors(const fx_infer *c, int first, int count, fx_dim n, fx_dtype *dtype);
bool fx_infer_ends_with(const fx_type *x, int n, const fx_dim *dims);  /* x's last dims are these n, one or more */

/* infer_image_grad.c, for gradients: g is of the type of what was computed; indices are int64 of its shape. */
fx_status fx_infer_grad_of(const fx_infer *c, const fx_type *g, const fx_type *y);
fx_status fx_infer_grad_indices(const fx_infer *c, const fx_type *g, const fx_type *indices);
/* Sets a tuple of three, of which those that the bool[3] parameter does not ask for are None. */
fx_status fx_infer_masked(fx_infer *c, int mask, const fx_type *const *types);
bool fx_node_asks(const fx_node *n, int mask, int result);           /* whether it asks for one */
/* Batch norms of all spellings: does this one compute its statistics, and where are they written to? */
typedef struct fx_batch_norm {
    bool training, writes;           /* by the mean and variance of x; these go to the running ones */
    bool functional;                 /* the running ones are two more results */
    int results;                     /* as the row has them */
    int running, momentum, eps;      /* positions: of running_mean (running_var follows), -1: none */
} fx_batch_norm;
fx_batch_norm fx_batch_norm_of(const fx_node *n);

/* Comparisons (their arithmetic: ir.h). */
bool fx_dim_same(fx_dim a, fx_dim b);                                /* surely equal */
bool fx_dim_differ(fx_dim a, fx_dim b);                              /* surely not equal */

/* torch.result_type: operands fall in three categories of rising weight. */
typedef struct fx_promote {
    int wrapped, zero_dim, dim;      /* fx_dtype, or -1 when there is none yet */
} fx_promote;
fx_promote fx_promote_begin(void);
void fx_promote_tensor(fx_promote *p, fx_dtype dtype, int rank);
void fx_promote_number(fx_promote *p, fx_arg_kind kind);             /* BOOL, INT, FLOAT, COMPLEX */
fx_dtype fx_promote_end(const fx_promote *p);
fx_dtype fx_promote_types(fx_dtype a, fx_dtype b);                   /* torch.promote_types */
bool fx_dtype_is_int(fx_dtype d);                                    /* bool included */
bool fx_dtype_is_complex(fx_dtype d);
/* Adds a parameter that is a tensor or a number to p. *t gets its type, NULL for a number. */
fx_status fx_infer_promote(const fx_infer *c, int param, fx_promote *p, const fx_type **t);
/* dims of a broadcast with another shape, in place. */
fx_status fx_infer_broadcast(const fx_infer *c, int *rank, fx_dim *dims, const fx_type *t);

/* ---- einsum.c: products of tensors ------------------------------------------------------------------------ */

enum { FX_EINSUM_MOST = 8, FX_EINSUM_LABELS = FX_EINSUM_MOST * FX_MAX_RANK };
/* Dims of one label are one index; labels that `out` lacks are summed over. */
typedef struct fx_einsum {
    int n, rank[FX_EINSUM_MOST], label[FX_EINSUM_MOST][FX_MAX_RANK];
    int n_out, out[FX_MAX_RANK], n_labels;
} fx_einsum;
/* "bij,bjk->bik"; false: malformed, or not for operands of these ranks. */
bool fx_einsum_parse(const char *equation, int n, const int *ranks, fx_einsum *e);
/* The rows dot, mv, outer, inner, tensordot and what adds to such: their two operands of these ranks are parameters *first and the next. */
bool fx_product_of(const fx_node *node, int ra, int rb, fx_einsum *e, int *first);

/* ---- interp.c: values --------------------------------------------------------------------------------------- */

/* Memory of values: blocks, each a storage counted by the values that lie in it and freed with the last of them, so that what is live
 * at once bounds a run's memory, not the graph. Lives in the arena; clear it before that goes. */
typedef struct fx_heap fx_heap;
fx_heap *fx_heap_create(fx_context *ctx, fx_arena *arena);
void fx_heap_clear(fx_heap *h);                                      /* frees all */
/* Frees all but what these tensors lie in, which is the caller's from now on; the peak starts anew. */
void fx_heap_reset(fx_heap *h, size_t count, const fx_tensor *tensors);
void fx_heap_hold(fx_heap *h, const fx_tensor *t);                   /* one value more, or less, lies where t does; others' memory: no-op */
void fx_heap_drop(fx_heap *h, const fx_tensor *t);
void fx_heap_sweep(fx_heap *h);                                      /* frees scratch, and results that no value took */
size_t fx_heap_bytes(const fx_heap *h, size_t *peak);                /* of values */

/* What the eval functions get: memory that is freed early, and the result's type with all sizes known. */
typedef struct fx_eval_run {
    fx_eval base;
    fx_heap *heap;
    const fx_binding *bound;         /* NULL: no symbols */
    const fx_type *type;
    fx_tensor few[16];               /* base.out, where they are enough */
    /* An in-place call is about to write *self, which is not the heap's, or the caller's: makes it writable or refuses. NULL: refused. */
    fx_status (*writable)(struct fx_eval_run *run, fx_tensor *self);
    void *user;
} fx_eval_run;

/* Evaluates base.node on base.in with the types of the actual operands, so that a graph with symbolic sizes runs at any size. Results lie in
 * the heap or are views of operands. */
fx_status fx_eval_call(fx_eval_run *run, const fx_type *const *types);
/* The type of a value: a tensor, or a number where its node's type (may be NULL) says so. */
const fx_type *fx_value_type(fx_context *ctx, const fx_type *said, const fx_tensor *value);
/* A dense copy that lives as the context does. */
fx_status fx_tensor_copy(fx_context *ctx, const fx_tensor *t, fx_tensor *out);

/* Element types are computed in three kinds: f32 (also f16, bf16), f64, and int64 (all integers, bool), then rounded
 * or wrapped to the result's dtype. */
typedef enum fx_kind { FX_KIND_F32, FX_KIND_F64, FX_KIND_INT } fx_kind;
fx_kind fx_kind_of(fx_dtype dtype);
size_t fx_kind_size(fx_kind kind);

fx_status fx_eval_fail(const fx_eval *c, fx_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The type of the i-th result. */
const fx_type *fx_eval_type(const fx_eval *c, int i);
/* Memory for the node's evaluation only (zeroed), and for results. */
void *fx_eval_scratch(fx_eval *c, int64_t count, size_t size);
/* Makes out[i] a fresh dense tensor; the second of the i-th result's type. */
void fx_eval_new(fx_eval *c, int i, fx_dtype dtype, int rank, const int64_t *sizes);
fx_tensor *fx_eval_out(fx_eval *c, int i);
/* out[i], which is fresh, is a copy where eager has a view of `of` or nothing: neither is to be written while somebody may see the other. */
void fx_eval_copied(fx_eval *c, int i, const fx_tensor *of);
/* A tensor's elements as a dense array of `kind`, broadcast to sizes (NULL: its own). Not to be written: may be the tensor's. */
fx_status fx_eval_array(fx_eval *c, const fx_tensor *t, fx_kind kind, int rank, const int64_t *sizes, const void **data);
/* The tensor as t.to(dtype) gives it. */
fx_tensor fx_eval_converted(fx_eval *c, const fx_tensor *t, fx_dtype dtype);
fx_status fx_eval_floats(fx_eval *c, const fx_tensor *t, const float **data);
/* Where to compute result i in `kind`: out[i] itself, or scratch that fx_eval_finish converts. */
void *fx_eval_target(fx_eval *c, int i, fx_kind kind);
void fx_eval_finish(fx_eval *c, int i, fx_kind kind, const void *data);
/* An int parameter, also where it is the value of a node. */
fx_status fx_eval_int(const fx_eval *c, int param, int64_t *v);
fx_status fx_eval_ints(const fx_eval *c, int param, int64_t *v, int max, int *n);
/* A number: constant, or a value of rank 0. The kind of number goes to *kind. */
fx_status fx_eval_number(const fx_eval *c, int param, fx_arg_kind *kind, double *f, int64_t *i);

/* interp_cast.c: elements between dtypes and kinds. Strides in elements. */
void fx_row_load(fx_kind kind, void *dst, fx_dtype dtype, const void *src, int64_t stride, int64_t n);
void fx_row_store(fx_dtype dtype, void *dst, int64_t stride, fx_kind kind, const void *src, int64_t n);
int64_t fx_float_to_int(double v, fx_dtype dtype);                   /* as torch on x86; never undefined */
/* Copies src, broadcast, into dst; dtypes are converted as tensor.to does. Overlap is not allowed. */
void fx_tensor_assign(const fx_tensor *dst, const fx_tensor *src);

/* interp_random.c: Philox 4x32-10. A block; then the number at a position: stream * FX_PHILOX_ELEMENTS + element. */
#define FX_PHILOX_ELEMENTS (INT64_C(1) << 34)
enum { FX_PHILOX_STREAMS = 1 << 28 };
void fx_philox_block(uint32_t counter[4], uint64_t key);
uint32_t fx_philox(uint64_t position, uint64_t seed, uint64_t call);

/* interp_gemm.c: r[o * rs + p] = sum over i, j of w[o * wo + i * wi + j * wj] * x(i * n_j + j, p), in double. w is of kind f32 or
 * f64. x lies in panels of FX_PANEL columns p: x[(p / FX_PANEL * n_i * n_j + k) * FX_PANEL + p % FX_PANEL], missing columns zero.
 * buffer: room for FX_PANEL * n_i * n_j. Rows of r have room for n_p rounded up to FX_PANEL. */
enum { FX_PANEL = 4 };
typedef struct fx_gemm {
    int64_t n_o, n_i, n_j, n_p;
    fx_kind kind;
    const void *w;
    int64_t wo, wi, wj;
    const double *x;
    double *buffer, *r;
    int64_t rs;
} fx_gemm;
void fx_gemm_tile(const fx_gemm *g);
/* How many columns a tile should have so that its panels stay in cache. */
int64_t fx_gemm_columns(int64_t n_k, int64_t n_p);

#endif
