/* ir/interp.c: the reference interpreter of one node: values, memory. The rows' functions are in interp_*.c, graphs in
 * passes/interpreter.c.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <string.h>

#include "ir/context.h"
#include "ir/ops.h"

/* ---- memory: blocks counted by the values that lie in them ---------------------------------------------------------- */

/* Blocks are storages, so that views share them as tensors do everywhere else. */
typedef struct block {
    fx_storage *storage;
    fx_heap *heap;
    struct block *prev, *next;
    int values;       /* that lie in it */
    bool given;       /* the caller's: not to be written without asking */
    bool scratch;     /* freed after the node's evaluation */
    bool copied;      /* others are copies of what lies here, below */
    /* As a view it would lie in copy_of, whose strides do not allow it: the values are the same only until one of both is written. */
    const void *copy_of;
    const fx_node *view;
} block;

struct fx_heap {
    fx_context *ctx;
    block *blocks;
    size_t bytes, peak; /* of blocks that are not scratch */
};

/* Nobody sees b any more, but perhaps several of its copies and what it is a copy of: the first copy stands for b. */
static void pass_copies_on(const block *b)
{
    block *first = NULL;
    for (block *copy = b->heap->blocks; copy; copy = copy->next) {
        if (copy->copy_of != b->storage)
            continue;
        copy->copy_of = first ? (const void *)first->storage : b->copy_of;
        if (first)
            first->copied = true;
        else
            first = copy;
    }
}

/* Called by fx_storage_free, also where the context frees all it has. */
static void release_block(fx_storage *st)
{
    block *b = st->user;
    fx_heap *h = b->heap;
    if (b->copied)
        pass_copies_on(b);
    if (b->prev)
        b->prev->next = b->next;
    else
        h->blocks = b->next;
    if (b->next)
        b->next->prev = b->prev;
    if (!b->scratch)
        h->bytes -= st->nbytes;
    h->ctx->dealloc(h->ctx->user, b);
}

fx_heap *fx_heap_create(fx_context *ctx, fx_arena *arena)
{
    fx_heap *h = FX_NEW(arena, fx_heap);
    h->ctx = ctx;
    return h;
}

static block *block_of(const fx_heap *h, const fx_tensor *t)
{
    block *b = t->storage && t->storage->release == release_block ? t->storage->user : NULL;
    return b && b->heap == h ? b : NULL;
}

void fx_heap_clear(fx_heap *h)
{
    while (h->blocks)
        fx_storage_free(h->blocks->storage);
}

void fx_heap_reset(fx_heap *h, size_t count, const fx_tensor *tensors)
{
    for (block *b = h->blocks; b; b = b->next) {
        b->values = 0;
        b->given = b->copied = false;
        b->copy_of = NULL;
    }
    for (size_t i = 0; i < count; i++) {
        block *b = block_of(h, &tensors[i]);
        if (b) {
            b->values++;
            b->given = true;
        }
    }
    fx_heap_sweep(h);
    h->peak = h->bytes;
}

size_t fx_heap_bytes(const fx_heap *h, size_t *peak)
{
    if (peak)
        *peak = h->peak;
    return h->bytes;
}

static block *heap_alloc(fx_heap *h, size_t nbytes, bool scratch)
{
    fx_storage *st = fx_storage_new(h->ctx, nbytes);
    block *b = h->ctx->alloc(h->ctx->user, sizeof *b);
    if (!b) {
        fx_storage_free(st);
        fx_out_of_memory(h->ctx);
    }
    *b = (block){.storage = st, .heap = h, .next = h->blocks, .scratch = scratch};
    st->release = release_block;
    st->user = b;
    if (b->next)
        b->next->prev = b;
    h->blocks = b;
    if (!scratch) {
        h->bytes += nbytes;
        h->peak = h->bytes > h->peak ? h->bytes : h->peak;
    }
    return b;
}

void fx_heap_hold(fx_heap *h, const fx_tensor *t)
{
    block *b = block_of(h, t);
    if (b)
        b->values++;
}

void fx_heap_drop(fx_heap *h, const fx_tensor *t)
{
    block *b = block_of(h, t);
    if (b && --b->values == 0)
        fx_storage_free(b->storage);
}

/* New blocks stand at the front. */
void fx_heap_sweep(fx_heap *h)
{
    block *b = h->blocks;
    while (b) {
        block *next = b->next;
        if (b->scratch || b->values == 0)
            fx_storage_free(b->storage);
        b = next;
    }
}

/* ---- what the rows' functions use ------------------------------------------------------------------------------------ */

fx_status fx_eval_fail(const fx_eval *c, fx_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *message = fx_arena_vprintf(fx_context_arena(c->ctx), fmt, ap);
    va_end(ap);
    return fx_fail(c->ctx, status, &c->node->loc, "%s: %s", c->node->target, message);
}

const fx_tensor *fx_eval_input(const fx_eval *c, int param)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    return a->kind == FX_ARG_NODE ? c->in[a->i] : NULL;
}

const fx_type *fx_eval_type(const fx_eval *c, int i)
{
    const fx_type *t = ((const fx_eval_run *)c)->type;
    return t->kind == FX_TYPE_TUPLE ? t->items[i] : t;
}

void *fx_eval_scratch(fx_eval *c, int64_t count, size_t size)
{
    size_t bytes;
    if (count < 0 || __builtin_mul_overflow((size_t)count, size, &bytes))
        fx_out_of_memory(c->ctx);
    return heap_alloc(((fx_eval_run *)c)->heap, bytes, true)->storage->data;
}

void fx_eval_new(fx_eval *c, int i, fx_dtype dtype, int rank, const int64_t *sizes)
{
    fx_tensor *t = &c->out[i];
    *t = (fx_tensor){.dtype = dtype, .rank = rank};
    size_t bytes = fx_dtype_size(dtype);
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        t->sizes[d] = sizes[d];
        t->strides[d] = stride;
        stride *= sizes[d] > 0 ? sizes[d] : 1;
        if (__builtin_mul_overflow(bytes, (size_t)sizes[d], &bytes))
            fx_out_of_memory(c->ctx);
    }
    block *b = heap_alloc(((fx_eval_run *)c)->heap, bytes, false);
    t->storage = b->storage;
    t->data = b->storage->data;
    if (c->n_out <= i)
        c->n_out = i + 1;
}

fx_tensor *fx_eval_out(fx_eval *c, int i)
{
    const fx_type *t = fx_eval_type(c, i);
    int64_t sizes[FX_MAX_RANK];
    if (t->kind != FX_TYPE_TENSOR) { /* numbers are tensors of rank 0 */
        fx_eval_new(c, i, t->kind == FX_TYPE_FLOAT ? FX_F64 : t->kind == FX_TYPE_BOOL ? FX_BOOL : FX_I64, 0, sizes);
        return &c->out[i];
    }
    for (int d = 0; d < t->rank; d++)
        sizes[d] = t->dims[d].value;
    fx_eval_new(c, i, t->dtype, t->rank, sizes);
    return &c->out[i];
}

static bool is_dense(const fx_tensor *t, int rank, const int64_t *sizes)
{
    if (t->rank > rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (sizes[i] != (i < rank - t->rank ? 1 : t->sizes[i - (rank - t->rank)]))
            return false;
    return fx_tensor_is_contiguous(t);
}

static fx_dtype native_dtype(fx_kind kind)
{
    return kind == FX_KIND_F32 ? FX_F32 : kind == FX_KIND_F64 ? FX_F64 : FX_I64;
}

/* Strides of t seen through a broadcast to sizes: 0 where it repeats. */
static void broadcast_strides(const fx_tensor *t, int rank, const int64_t *sizes, int64_t *strides)
{
    for (int i = 0; i < rank; i++) {
        int k = i - (rank - t->rank);
        strides[i] = k < 0 || (t->sizes[k] == 1 && sizes[i] != 1) ? 0 : t->strides[k];
    }
}

/* Calls of body(row start in t) for all rows (along the last dim) of a shape, in order. */
#define FOR_ROWS(rank, sizes, strides, offset, body)                              \
    do {                                                                          \
        int64_t at_[FX_MAX_RANK] = {0}, offset = 0;                               \
        for (;;) {                                                                \
            body;                                                                 \
            int d_ = (rank)-2;                                                    \
            for (; d_ >= 0; d_--) {                                               \
                offset += (strides)[d_];                                          \
                if (++at_[d_] < (sizes)[d_])                                      \
                    break;                                                        \
                offset -= (strides)[d_] * (sizes)[d_];                            \
                at_[d_] = 0;                                                      \
            }                                                                     \
            if (d_ < 0)                                                           \
                break;                                                            \
        }                                                                         \
    } while (0)

static int64_t count_of(int rank, const int64_t *sizes)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= sizes[i];
    return n;
}

fx_status fx_eval_array(fx_eval *c, const fx_tensor *t, fx_kind kind, int rank, const int64_t *sizes, const void **data)
{
    if (!sizes) {
        rank = t->rank;
        sizes = t->sizes;
    }
    if (fx_dtype_is_complex(t->dtype))
        return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "dtype %s is not supported", fx_dtype_name(t->dtype));
    *data = t->data;
    if (t->dtype == native_dtype(kind) && is_dense(t, rank, sizes))
        return FX_OK;
    int64_t n = count_of(rank, sizes), strides[FX_MAX_RANK];
    char *dst = fx_eval_scratch(c, n, fx_kind_size(kind));
    *data = dst;
    if (n == 0)
        return FX_OK;
    broadcast_strides(t, rank, sizes, strides);
    int64_t row = rank ? sizes[rank - 1] : 1, step = rank ? strides[rank - 1] : 0;
    size_t size = fx_dtype_size(t->dtype);
    FOR_ROWS(rank, sizes, strides, offset, {
        fx_row_load(kind, dst, t->dtype, (const char *)t->data + offset * (int64_t)size, step, row);
        dst += (size_t)row * fx_kind_size(kind);
    });
    return FX_OK;
}

fx_tensor fx_eval_converted(fx_eval *c, const fx_tensor *t, fx_dtype dtype)
{
    if (t->dtype == dtype)
        return *t;
    fx_tensor r = {.dtype = dtype, .rank = t->rank};
    int64_t n = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        r.sizes[i] = t->sizes[i];
        r.strides[i] = n;
        n *= t->sizes[i];
    }
    r.data = fx_eval_scratch(c, n, fx_dtype_size(dtype));
    fx_tensor_assign(&r, t);
    return r;
}

fx_status fx_eval_floats(fx_eval *c, const fx_tensor *t, const float **data)
{
    const void *p = NULL;
    FX_TRY(fx_eval_array(c, t, FX_KIND_F32, 0, NULL, &p));
    *data = p;
    return FX_OK;
}

void fx_tensor_assign(const fx_tensor *dst, const fx_tensor *src)
{
    int64_t strides[FX_MAX_RANK], n = count_of(dst->rank, dst->sizes);
    int rank = dst->rank;
    if (n == 0)
        return;
    broadcast_strides(src, rank, dst->sizes, strides);
    size_t ds = fx_dtype_size(dst->dtype), ss = fx_dtype_size(src->dtype);
    int64_t row = rank ? dst->sizes[rank - 1] : 1, d_step = rank ? dst->strides[rank - 1] : 0, s_step = rank ? strides[rank - 1] : 0;
    fx_kind kind = fx_kind_of(src->dtype);
    int64_t at[FX_MAX_RANK] = {0}, d_off = 0, s_off = 0;
    for (;;) {
        char *d = (char *)dst->data + d_off * (int64_t)ds;
        const char *s = (const char *)src->data + s_off * (int64_t)ss;
        if (dst->dtype == src->dtype) {
            if (d_step == 1 && s_step == 1)
                memcpy(d, s, (size_t)row * ds);
            else
                for (int64_t i = 0; i < row; i++)
                    memcpy(d + i * d_step * (int64_t)ds, s + i * s_step * (int64_t)ss, ds);
        } else {
            double piece[256];
            for (int64_t i = 0; i < row; i += 256) {
                int64_t m = row - i < 256 ? row - i : 256;
                fx_row_load(kind, piece, src->dtype, s + i * s_step * (int64_t)ss, s_step, m);
                fx_row_store(dst->dtype, d + i * d_step * (int64_t)ds, d_step, kind, piece, m);
            }
        }
        int k = rank - 2;
        for (; k >= 0; k--) {
            d_off += dst->strides[k];
            s_off += strides[k];
            if (++at[k] < dst->sizes[k])
                break;
            d_off -= dst->strides[k] * dst->sizes[k];
            s_off -= strides[k] * dst->sizes[k];
            at[k] = 0;
        }
        if (k < 0)
            return;
    }
}

void *fx_eval_target(fx_eval *c, int i, fx_kind kind)
{
    fx_tensor *t = fx_eval_out(c, i);
    return t->dtype == native_dtype(kind) ? t->data : fx_eval_scratch(c, fx_tensor_numel(t), fx_kind_size(kind));
}

void fx_eval_finish(fx_eval *c, int i, fx_kind kind, const void *data)
{
    fx_tensor *t = &c->out[i];
    if (data != t->data)
        fx_row_store(t->dtype, t->data, 1, kind, data, fx_tensor_numel(t));
}

/* ---- numbers among the arguments ------------------------------------------------------------------------------------ */

static bool int_arg(const fx_eval *c, const fx_arg *a, int64_t *v)
{
    if (a->kind == FX_ARG_INT || a->kind == FX_ARG_BOOL)
        *v = a->kind == FX_ARG_INT ? a->i : a->b;
    else if (a->kind == FX_ARG_SYM) {
        const fx_binding *bound = ((const fx_eval_run *)c)->bound;
        return bound && fx_dim_eval(bound->symbols, bound->values, fx_dim_sym(a->sym), v);
    } else if (a->kind == FX_ARG_NODE && c->in[a->i] && c->in[a->i]->rank == 0 && fx_dtype_is_int(c->in[a->i]->dtype))
        fx_row_load(FX_KIND_INT, v, c->in[a->i]->dtype, c->in[a->i]->data, 0, 1);
    else
        return false;
    return true;
}

fx_status fx_eval_int(const fx_eval *c, int param, int64_t *v)
{
    if (!int_arg(c, fx_node_arg(c->node, param), v))
        return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "argument %d: expected an integer whose value is known", param);
    return FX_OK;
}

fx_status fx_eval_ints(const fx_eval *c, int param, int64_t *v, int max, int *n)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    if (a->kind != FX_ARG_LIST && a->kind != FX_ARG_TUPLE) {
        *n = 1;
        return fx_eval_int(c, param, v);
    }
    if (a->n > max)
        return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "argument %d: expected at most %d integers, got %d", param, max, a->n);
    for (int i = 0; i < a->n; i++)
        if (!int_arg(c, a->items[i], &v[i]))
            return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "argument %d: expected integers whose values are known", param);
    *n = a->n;
    return FX_OK;
}

fx_status fx_eval_number(const fx_eval *c, int param, fx_arg_kind *kind, double *f, int64_t *i)
{
    const fx_arg *a = fx_node_arg(c->node, param);
    *kind = a->kind;
    switch (a->kind) {
    case FX_ARG_BOOL:
        *i = a->b;
        *f = a->b;
        return FX_OK;
    case FX_ARG_INT:
        *i = a->i;
        *f = (double)a->i;
        return FX_OK;
    case FX_ARG_SYM:
        if (!int_arg(c, a, i))
            break;
        *kind = FX_ARG_INT;
        *f = (double)*i;
        return FX_OK;
    case FX_ARG_FLOAT:
        *f = a->f;
        *i = fx_float_to_int(a->f, FX_I64);
        return FX_OK;
    case FX_ARG_NODE: {
        const fx_tensor *t = c->in[a->i];
        if (!t || t->rank || fx_dtype_is_complex(t->dtype))
            break;
        *kind = fx_dtype_is_float(t->dtype) ? FX_ARG_FLOAT : t->dtype == FX_BOOL ? FX_ARG_BOOL : FX_ARG_INT;
        fx_row_load(FX_KIND_F64, f, t->dtype, t->data, 0, 1);
        if (*kind == FX_ARG_FLOAT)
            *i = fx_float_to_int(*f, FX_I64);
        else
            fx_row_load(FX_KIND_INT, i, t->dtype, t->data, 0, 1);
        return FX_OK;
    }
    default:
        break;
    }
    return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "argument %d: expected a number whose value is known", param);
}

/* ---- one node -------------------------------------------------------------------------------------------------------- */

const fx_type *fx_value_type(fx_context *ctx, const fx_type *said, const fx_tensor *value)
{
    fx_type_kind kind = said ? said->kind : FX_TYPE_TENSOR;
    if (kind == FX_TYPE_INT) {
        int64_t v;
        fx_row_load(FX_KIND_INT, &v, value->dtype, value->data, 0, 1);
        return fx_type_int(ctx, (fx_dim){.value = v});
    }
    if (kind == FX_TYPE_FLOAT || kind == FX_TYPE_BOOL)
        return said;
    return fx_type_tensor_static(ctx, value->dtype, value->rank, value->sizes);
}

/* What stands for the memory a tensor lies in; what the caller made without a storage is one. */
static const void *memory_of(const fx_heap *h, const fx_tensor *t)
{
    return t->storage ? (const void *)t->storage : h;
}

void fx_eval_copied(fx_eval *c, int i, const fx_tensor *of)
{
    fx_heap *h = ((fx_eval_run *)c)->heap;
    block *copy = block_of(h, &c->out[i]), *from = block_of(h, of);
    copy->copy_of = memory_of(h, of);
    copy->view = c->node;
    if (from)
        from->copied = true;
}

/* Eager refused the view; a write that only one of two tensors saw would be another program. */
static fx_status check_no_copy(const fx_eval_run *run, const fx_tensor *self, const block *b)
{
    const fx_node *view = b && b->copy_of ? b->view : NULL;
    const void *memory = memory_of(run->heap, self);
    for (const block *copy = !view && (!b || b->copied) ? run->heap->blocks : NULL; copy && !view; copy = copy->next)
        if (copy->copy_of == memory)
            view = copy->view;
    if (!view || !fx_tensor_numel(self))
        return FX_OK;
    return fx_eval_fail(&run->base, FX_ERR_UNSUPPORTED, "changes in place what '%s' (%s) is a view of: expected sizes that the strides of "
                        "its operand allow", view->name, view->target);
}

/* Writes a value into an operand, whose memory all its views share; *value is that operand then. */
static fx_status write_operand(fx_eval_run *run, const fx_tensor *given, fx_tensor *value)
{
    fx_eval *c = &run->base;
    if (!given)
        return fx_eval_fail(c, FX_ERR_TYPE, "expected a tensor to change in place");
    if (value->data == given->data && value->storage == given->storage)
        return FX_OK;
    fx_tensor self = *given;
    const block *b = block_of(run->heap, &self);
    FX_TRY(check_no_copy(run, &self, b));
    if (!b || b->given) {
        if (!run->writable)
            return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "changes a parameter, buffer or constant in place");
        FX_TRY(run->writable(run, &self));
    }
    fx_tensor_assign(&self, value);
    *value = self;
    return FX_OK;
}

/* What a call changes beside giving a value: its first argument, or running statistics, which stand behind its results. */
static fx_status store_changes(fx_eval_run *run)
{
    fx_eval *c = &run->base;
    if (fx_node_is_inplace(c->node)) {
        FX_TRY(write_operand(run, fx_eval_input(c, 0), &c->out[0]));
        c->n_out = 1;
    }
    if (c->node->op->infer != infer_batch_norm)
        return FX_OK;
    fx_batch_norm b = fx_batch_norm_of(c->node);
    for (int i = 0; b.writes && i < 2; i++)
        FX_TRY(write_operand(run, fx_eval_input(c, b.running + i), &c->out[b.results + i]));
    return FX_OK;
}

fx_status fx_eval_call(fx_eval_run *run, const fx_type *const *types)
{
    fx_eval *c = &run->base;
    const fx_node *n = c->node;
    if (!n->op)
        return fx_fail(c->ctx, FX_ERR_UNSUPPORTED, &n->loc, "the interpreter does not know %s '%s'", fx_opcode_name(n->opcode), n->target);
    FX_TRY(fx_infer_call(n, types, run->bound, &run->type));
    if (!run->type)
        return fx_fail(c->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: the result's type cannot be inferred", n->target);
    bool many = run->type->kind == FX_TYPE_TUPLE && run->type->n > (int)(sizeof run->few / sizeof *run->few);
    c->out = many ? fx_eval_scratch(c, run->type->n, sizeof *c->out) : run->few;
    FX_TRY(n->op->eval(c));
    for (int i = 0; run->type->kind == FX_TYPE_TUPLE && i < run->type->n; i++)
        if (run->type->items[i]->kind == FX_TYPE_NONE) /* nobody reads it: a tensor without elements */
            fx_eval_new(c, i, FX_U8, 1, (int64_t[]){0});
    c->n_out = run->type->kind == FX_TYPE_TUPLE ? run->type->n : run->type->kind != FX_TYPE_NONE;
    return store_changes(run);
}

fx_status fx_tensor_copy(fx_context *ctx, const fx_tensor *t, fx_tensor *out)
{
    FX_TRY(fx_tensor_create(ctx, t->dtype, t->rank, t->sizes, out));
    fx_tensor_assign(out, t);
    return FX_OK;
}

typedef struct eval_args {
    const fx_node *n;
    const fx_tensor *const *in;
    fx_tensor *out;
    int max_out, *n_out;
} eval_args;

static void close_heap(void *arg)
{
    fx_heap_clear(arg);
}

static fx_status node_eval(void *arg)
{
    eval_args *a = arg;
    fx_context *ctx = a->n->graph->ctx;
    fx_heap *h = fx_heap_create(ctx, fx_context_arena(ctx));
    fx_defer(ctx, close_heap, h);
    const fx_type **types = FX_NEW_ARRAY(fx_context_arena(ctx), const fx_type *, a->n->n_operands + 1);
    for (int i = 0; i < a->n->n_operands; i++) {
        if (!a->in[i])
            return fx_fail(ctx, FX_ERR_UNSUPPORTED, &a->n->loc, "%s: tuples are not evaluated by themselves", a->n->target);
        types[i] = fx_value_type(ctx, a->n->operands[i].def->type, a->in[i]);
    }
    fx_eval_run run = {.base = {.ctx = ctx, .node = a->n, .in = a->in}, .heap = h};
    FX_TRY(fx_eval_call(&run, types));
    if (run.base.n_out > a->max_out)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &a->n->loc, "expected room for %d results, got %d", run.base.n_out, a->max_out);
    for (int i = 0; i < run.base.n_out; i++)
        FX_TRY(fx_tensor_copy(ctx, &run.base.out[i], &a->out[i]));
    *a->n_out = run.base.n_out;
    return FX_OK;
}

fx_status fx_node_eval(const fx_node *n, const fx_tensor *const *in, fx_tensor *out, int max_out, int *n_out)
{
    return fx_protect(n->graph->ctx, node_eval, &(eval_args){n, in, out, max_out, n_out});
}

/* ---- rows that are about values rather than numbers --------------------------------------------------------------- */

/* The interpreter of graphs takes getitem itself: tuples are not among an evaluation's operands. */
fx_status eval_getitem(fx_eval *c)
{
    return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "tuples are not evaluated by themselves");
}

fx_status eval_sym(fx_eval *c)
{
    const fx_type *t = fx_eval_type(c, 0);
    *(int64_t *)fx_eval_out(c, 0)->data = t->value.value;
    return FX_OK;
}

/* sym_constrain_range: within its ends; _assert_scalar: true. */
fx_status eval_guard(fx_eval *c)
{
    fx_arg_kind kind;
    double f;
    int64_t v, least = INT64_MIN, most = INT64_MAX;
    FX_TRY(fx_eval_number(c, 0, &kind, &f, &v));
    if (c->node->op->id == FX_OP__assert_scalar) {
        const fx_arg *text = fx_node_arg(c->node, 1);
        return f != 0 ? FX_OK : fx_eval_fail(c, FX_ERR_ARGUMENT, "%s", text->kind == FX_ARG_STR ? text->s : "a condition does not hold");
    }
    if (!fx_node_is_none(c->node, 1))
        FX_TRY(fx_eval_int(c, 1, &least));
    if (!fx_node_is_none(c->node, 2))
        FX_TRY(fx_eval_int(c, 2, &most));
    if (v < least || v > most)
        return fx_eval_fail(c, FX_ERR_ARGUMENT, "expected a size from %" PRId64 " to %" PRId64 ", got %" PRId64, least, most, v);
    return FX_OK;
}

/* Inference has checked what there is to check. */
fx_status eval_assert(fx_eval *c)
{
    (void)c;
    return FX_OK;
}
