/* ir/interp.c: the reference interpreter: values, memory, nodes, graphs. The rows' functions are in interp_*.c.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ops.h"

/* ---- memory: blocks counted by the values that lie in them ---------------------------------------------------------- */

/* A run frees a value with its last use, so what is live at once bounds its memory, not the graph. Blocks are
 * storages, so that views share them as tensors do everywhere else. */
typedef struct block {
    fx_storage storage;
    struct block *prev, *next;
    int values;       /* that lie in it */
    bool scratch;     /* freed after the node's evaluation */
} block;

struct fx_heap {
    fx_context *ctx;
    block *blocks;
};

static void heap_close(void *arg)
{
    fx_heap *h = arg;
    while (h->blocks) {
        block *b = h->blocks;
        h->blocks = b->next;
        free(b->storage.data);
        free(b);
    }
}

/* Closed when the innermost fx_protect leaves. */
static fx_heap *heap_open(fx_context *ctx)
{
    fx_heap *h = FX_NEW(fx_context_arena(ctx), fx_heap);
    h->ctx = ctx;
    fx_defer(ctx, heap_close, h);
    return h;
}

static block *heap_alloc(fx_heap *h, size_t nbytes, bool scratch)
{
    block *b = calloc(1, sizeof *b);
    void *data = b ? calloc(nbytes ? nbytes : 1, 1) : NULL;
    if (!data) {
        free(b);
        fx_out_of_memory(h->ctx);
    }
    b->storage = (fx_storage){.ctx = h->ctx, .nbytes = nbytes, .data = data, .user = h};
    b->scratch = scratch;
    b->next = h->blocks;
    if (b->next)
        b->next->prev = b;
    h->blocks = b;
    return b;
}

static void heap_free(fx_heap *h, block *b)
{
    if (b->prev)
        b->prev->next = b->next;
    else
        h->blocks = b->next;
    if (b->next)
        b->next->prev = b->prev;
    free(b->storage.data);
    free(b);
}

static block *block_of(const fx_heap *h, const fx_tensor *t)
{
    return t->storage && t->storage->user == h ? (block *)t->storage : NULL;
}

/* Frees scratch, and results no value took (an evaluation that failed). New blocks stand at the front. */
static void heap_sweep(fx_heap *h)
{
    block *b = h->blocks;
    while (b) {
        block *next = b->next;
        if (b->scratch || b->values == 0)
            heap_free(h, b);
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
    return heap_alloc(((fx_eval_run *)c)->heap, bytes, true)->storage.data;
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
    t->storage = &b->storage;
    t->data = b->storage.data;
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
    else if (a->kind == FX_ARG_NODE && c->in[a->i] && c->in[a->i]->rank == 0 && fx_dtype_is_int(c->in[a->i]->dtype))
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

/* The type of a value that is a tensor, or a number where its node says so. */
static const fx_type *type_of_value(fx_context *ctx, const fx_node *def, const fx_tensor *value)
{
    fx_type_kind kind = def->type ? def->type->kind : FX_TYPE_TENSOR;
    if (kind == FX_TYPE_INT) {
        int64_t v;
        fx_row_load(FX_KIND_INT, &v, value->dtype, value->data, 0, 1);
        return fx_type_int(ctx, (fx_dim){.value = v});
    }
    if (kind == FX_TYPE_FLOAT || kind == FX_TYPE_BOOL)
        return def->type;
    return fx_type_tensor_static(ctx, value->dtype, value->rank, value->sizes);
}

/* Writes an in-place call's result into its first argument, whose memory all its views share. */
static fx_status store_inplace(fx_eval *c, const fx_heap *h)
{
    const fx_tensor *self = fx_eval_input(c, 0);
    if (!self)
        return fx_eval_fail(c, FX_ERR_TYPE, "expected a tensor to change in place");
    if (c->out[0].data == self->data && c->out[0].storage == self->storage)
        return FX_OK;
    if (!block_of(h, self))
        return fx_eval_fail(c, FX_ERR_UNSUPPORTED, "changes a parameter, buffer or constant in place");
    fx_tensor_assign(self, &c->out[0]);
    c->out[0] = *self;
    c->n_out = 1;
    return FX_OK;
}

/* Evaluates with the types of the actual operands, so that a graph with symbolic sizes runs at any size. */
static fx_status eval_node(fx_eval_run *run, const fx_type *const *types)
{
    fx_eval *c = &run->base;
    const fx_node *n = c->node;
    if (!n->op)
        return fx_fail(c->ctx, FX_ERR_UNSUPPORTED, &n->loc, "the interpreter does not know %s '%s'", fx_opcode_name(n->opcode), n->target);
    FX_TRY(fx_infer_call(n, types, &run->type));
    if (!run->type)
        return fx_fail(c->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: the result's type cannot be inferred", n->target);
    if (run->type->kind == FX_TYPE_TUPLE && run->type->n > (int)(sizeof c->out / sizeof *c->out))
        return fx_fail(c->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: expected at most %d results, got %d", n->target,
                       (int)(sizeof c->out / sizeof *c->out), run->type->n);
    FX_TRY(n->op->eval(c));
    c->n_out = run->type->kind == FX_TYPE_TUPLE ? run->type->n : run->type->kind != FX_TYPE_NONE;
    return fx_node_is_inplace(n) ? store_inplace(c, run->heap) : FX_OK;
}

/* A dense copy that lives as the context does. */
static fx_status keep(fx_context *ctx, const fx_tensor *t, fx_tensor *out)
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

static fx_status node_eval(void *arg)
{
    eval_args *a = arg;
    fx_context *ctx = a->n->graph->ctx;
    fx_heap *h = heap_open(ctx);
    const fx_type **types = FX_NEW_ARRAY(fx_context_arena(ctx), const fx_type *, a->n->n_operands + 1);
    for (int i = 0; i < a->n->n_operands; i++) {
        if (!a->in[i])
            return fx_fail(ctx, FX_ERR_UNSUPPORTED, &a->n->loc, "%s: tuples are not evaluated by themselves", a->n->target);
        types[i] = type_of_value(ctx, a->n->operands[i].def, a->in[i]);
    }
    fx_eval_run run = {.base = {.ctx = ctx, .node = a->n, .in = a->in}, .heap = h};
    FX_TRY(eval_node(&run, types));
    if (run.base.n_out > a->max_out)
        return fx_fail(ctx, FX_ERR_ARGUMENT, &a->n->loc, "expected room for %d results, got %d", run.base.n_out, a->max_out);
    for (int i = 0; i < run.base.n_out; i++)
        FX_TRY(keep(ctx, &run.base.out[i], &a->out[i]));
    *a->n_out = run.base.n_out;
    return FX_OK;
}

fx_status fx_node_eval(const fx_node *n, const fx_tensor *const *in, fx_tensor *out, int max_out, int *n_out)
{
    return fx_protect(n->graph->ctx, node_eval, &(eval_args){n, in, out, max_out, n_out});
}

/* ---- a graph --------------------------------------------------------------------------------------------------------- */

typedef struct value {
    int count;           /* tensors; -1: none (None, or freed) */
    fx_tensor *tensors;
    int uses;            /* still to come */
    const fx_type *type; /* with all sizes known */
} value;

typedef struct graph_run {
    fx_graph *g;
    fx_context *ctx;
    fx_heap *heap;
    fx_arena *arena;
    value *values;       /* by node id */
    bool copy_inputs;    /* something is changed in place */
    size_t n_in;
    const fx_tensor *in;
    const fx_interp_options *opt;
    size_t *n_out;
    fx_tensor **out;
    int64_t *symbols;    /* values of g->symbols; INT64_MIN: not bound */
} graph_run;

static void take_value(graph_run *r, const fx_node *n, const fx_type *type, int count, const fx_tensor *tensors)
{
    value *v = &r->values[n->id];
    v->type = type;
    v->count = count;
    v->tensors = fx_arena_dup(r->arena, tensors, (size_t)(count ? count : 1) * sizeof *tensors);
    for (int i = 0; i < count; i++) {
        block *b = block_of(r->heap, &v->tensors[i]);
        if (b)
            b->values++;
    }
}

static void drop_value(graph_run *r, const fx_node *n)
{
    value *v = &r->values[n->id];
    for (int i = 0; i < v->count; i++) {
        block *b = block_of(r->heap, &v->tensors[i]);
        if (b && --b->values == 0)
            heap_free(r->heap, b);
    }
    v->count = -1;
}

/* The size a placeholder's dim must have; a symbol takes the first value it meets. */
static bool dim_fits(graph_run *r, fx_dim want, int64_t have)
{
    if (!want.sym)
        return want.value == have;
    for (size_t i = 0; want.sym->kind == FX_SYM_SYMBOL && i < r->g->n_symbols; i++) {
        const fx_sym_range *s = &r->g->symbols[i];
        if (strcmp(s->name, want.sym->name))
            continue;
        if (have < s->min || have > s->max || (r->symbols[i] != INT64_MIN && r->symbols[i] != have))
            return false;
        r->symbols[i] = have;
    }
    return have >= 0;
}

static fx_status check_input(graph_run *r, const fx_node *n, const fx_tensor *t)
{
    const fx_type *want = n->type;
    bool ok = t->rank >= 0 && t->rank <= FX_MAX_RANK;
    for (int i = 0; ok && i < t->rank; i++)
        ok = t->sizes[i] >= 0;
    if (!ok || (!t->data && fx_tensor_numel(t)))
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "input '%s': expected a tensor with data", n->name);
    if (want && want->kind == FX_TYPE_TENSOR) {
        ok = want->dtype == t->dtype && want->rank == t->rank;
        for (int i = 0; ok && i < t->rank; i++)
            ok = dim_fits(r, want->dims[i], t->sizes[i]);
    } else if (want) {
        ok = t->rank == 0 && (want->kind == FX_TYPE_INT    ? fx_dtype_is_int(t->dtype) && t->dtype != FX_BOOL
                              : want->kind == FX_TYPE_FLOAT ? fx_dtype_is_float(t->dtype)
                              : want->kind == FX_TYPE_BOOL  ? t->dtype == FX_BOOL
                                                            : false);
    }
    if (ok)
        return FX_OK;
    fx_text expected, seen;
    fx_text_init(&expected, fx_context_arena(r->ctx));
    fx_text_init(&seen, fx_context_arena(r->ctx));
    fx_type_print(&expected, want);
    fx_type_print(&seen, fx_type_tensor_static(r->ctx, t->dtype, t->rank, t->sizes));
    return fx_fail(r->ctx, FX_ERR_TYPE, &n->loc, "input '%s': expected %s, got %s", n->name, expected.data, seen.data);
}

static fx_status run_placeholder(graph_run *r, const fx_node *n, size_t at)
{
    if (at >= r->n_in) {
        size_t want = 0;
        FX_FOR_NODES(r->g, p)
            want += p->opcode == FX_PLACEHOLDER;
        return fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "expected %zu inputs, got %zu", want, r->n_in);
    }
    fx_tensor t = r->in[at];
    FX_TRY(fx_tensor_touch(r->ctx, &t));
    FX_TRY(check_input(r, n, &t));
    if (r->copy_inputs) {
        fx_eval_run own = {.base = {.ctx = r->ctx, .node = n}, .heap = r->heap};
        fx_eval_new(&own.base, 0, t.dtype, t.rank, t.sizes);
        fx_tensor_assign(&own.base.out[0], &t);
        t = own.base.out[0];
    }
    take_value(r, n, type_of_value(r->ctx, n, &t), 1, &t);
    return FX_OK;
}

static fx_status run_get_attr(graph_run *r, const fx_node *n)
{
    fx_attr *a = fx_attr_find(r->g, n->target);
    if (!a)
        return fx_fail(r->ctx, FX_ERR_FORMAT, &n->loc, "expected a parameter, buffer or constant '%s' in the model", n->target);
    FX_TRY(fx_tensor_touch(r->ctx, &a->tensor));
    take_value(r, n, type_of_value(r->ctx, n, &a->tensor), 1, &a->tensor);
    return FX_OK;
}

static fx_status run_getitem(graph_run *r, const fx_node *n)
{
    const fx_arg *a = fx_node_arg(n, 0);
    const value *v = a->kind == FX_ARG_NODE ? &r->values[n->operands[a->i].def->id] : NULL;
    int64_t i = fx_node_int(n, 1);
    if (!v || v->count < 0 || v->type->kind != FX_TYPE_TUPLE)
        return fx_fail(r->ctx, FX_ERR_TYPE, &n->loc, "%s: expected a tuple of results", n->target);
    i += i < 0 ? v->count : 0;
    if (i < 0 || i >= v->count)
        return fx_fail(r->ctx, FX_ERR_TYPE, &n->loc, "%s: expected an index below %d, got %" PRId64, n->target, v->count, i);
    fx_tensor t = v->tensors[i];
    take_value(r, n, v->type->items[i], 1, &t);
    return FX_OK;
}

static fx_status run_call(graph_run *r, const fx_node *n)
{
    if (n->op && n->op->id == FX_OP_getitem)
        return run_getitem(r, n);
    const fx_tensor **in = FX_NEW_ARRAY(r->arena, const fx_tensor *, n->n_operands + 1);
    const fx_type **types = FX_NEW_ARRAY(r->arena, const fx_type *, n->n_operands + 1);
    for (int i = 0; i < n->n_operands; i++) {
        const fx_node *def = n->operands[i].def;
        const value *v = &r->values[def->id];
        if (v->count < 0)
            return fx_fail(r->ctx, FX_ERR_TYPE, &n->loc, "%s: operand '%s' has no value", n->target, def->name);
        in[i] = v->tensors;
        types[i] = v->type;
        if (v->type->kind == FX_TYPE_TUPLE)
            return fx_fail(r->ctx, FX_ERR_TYPE, &n->loc, "%s: expected a tensor, but '%s' is several", n->target, def->name);
    }
    fx_eval_run run = {.base = {.ctx = r->ctx, .node = n, .in = in}, .heap = r->heap};
    FX_TRY(eval_node(&run, types));
    take_value(r, n, run.type, run.base.n_out, run.base.out);
    return FX_OK;
}

/* The leaves of the output in order; None yields nothing. */
static fx_status collect(graph_run *r, const fx_node *n, const fx_arg *a, size_t *count, size_t *cap)
{
    fx_arena *arena = fx_context_arena(r->ctx);
    switch (a->kind) {
    case FX_ARG_NODE: {
        const value *v = &r->values[n->operands[a->i].def->id];
        for (int i = 0; i < v->count; i++) {
            fx_tensor t;
            FX_TRY(keep(r->ctx, &v->tensors[i], &t));
            FX_PUSH(arena, *r->out, *count, *cap) = t;
        }
        return FX_OK;
    }
    case FX_ARG_LIST: case FX_ARG_TUPLE: case FX_ARG_DICT:
        for (int i = 0; i < a->n; i++)
            FX_TRY(collect(r, n, a->items[i], count, cap));
        return FX_OK;
    case FX_ARG_BOOL: case FX_ARG_INT: case FX_ARG_FLOAT: {
        fx_tensor t;
        FX_TRY(fx_tensor_create(r->ctx, a->kind == FX_ARG_BOOL ? FX_BOOL : a->kind == FX_ARG_INT ? FX_I64 : FX_F64, 0, NULL, &t));
        if (a->kind == FX_ARG_FLOAT)
            memcpy(t.data, &a->f, sizeof a->f);
        else if (a->kind == FX_ARG_INT)
            memcpy(t.data, &a->i, sizeof a->i);
        else
            *(uint8_t *)t.data = a->b;
        FX_PUSH(arena, *r->out, *count, *cap) = t;
        return FX_OK;
    }
    default:
        return FX_OK;
    }
}

static fx_status run_nodes(graph_run *r)
{
    size_t placeholder = 0, n_out = 0, cap = 0;
    *r->out = NULL;
    FX_FOR_NODES(r->g, n) {
        switch (n->opcode) {
        case FX_PLACEHOLDER:
            FX_TRY(run_placeholder(r, n, placeholder++));
            break;
        case FX_GET_ATTR:
            FX_TRY(run_get_attr(r, n));
            break;
        case FX_CALL_FUNCTION:
            FX_TRY(run_call(r, n));
            break;
        case FX_OUTPUT:
            if (placeholder < r->n_in)
                return fx_fail(r->ctx, FX_ERR_ARGUMENT, &n->loc, "expected %zu inputs, got %zu", placeholder, r->n_in);
            if (n->args->n)
                FX_TRY(collect(r, n, n->args->items[0], &n_out, &cap));
            *r->n_out = n_out;
            return FX_OK;
        default:
            return fx_fail(r->ctx, FX_ERR_UNSUPPORTED, &n->loc, "the interpreter does not take %s '%s'", fx_opcode_name(n->opcode),
                           n->target);
        }
        heap_sweep(r->heap);
        const value *v = &r->values[n->id];
        if (r->opt && r->opt->after)
            FX_TRY(r->opt->after(r->opt->user, n, v->count, v->tensors));
        for (int i = 0; i < n->n_operands; i++)
            if (--r->values[n->operands[i].def->id].uses == 0)
                drop_value(r, n->operands[i].def);
        if (!n->n_uses)
            drop_value(r, n);
    }
    *r->n_out = 0;
    return FX_OK;
}

static void free_arena(void *arg)
{
    fx_arena_free(arg);
}

static fx_status graph_run_protected(void *arg)
{
    graph_run *r = arg;
    r->heap = heap_open(r->ctx);
    r->arena = fx_arena_create(r->ctx);
    fx_defer(r->ctx, free_arena, r->arena);
    r->values = FX_NEW_ARRAY(r->arena, value, r->g->n_ids + 1);
    r->symbols = FX_NEW_ARRAY(r->arena, int64_t, r->g->n_symbols + 1);
    for (size_t i = 0; i < r->g->n_symbols; i++)
        r->symbols[i] = INT64_MIN;
    FX_FOR_NODES(r->g, n) {
        r->values[n->id] = (value){.count = -1, .uses = n->n_uses};
        r->copy_inputs |= fx_node_is_inplace(n);
    }
    return run_nodes(r);
}

fx_status fx_graph_run(fx_graph *g, size_t n_in, const fx_tensor *in, const fx_interp_options *opt, size_t *n_out, fx_tensor **out)
{
    size_t count = 0;
    fx_tensor *tensors = NULL;
    graph_run r = {.g = g, .ctx = g->ctx, .n_in = n_in, .in = in, .opt = opt, .n_out = &count, .out = &tensors};
    FX_TRY(fx_protect(g->ctx, graph_run_protected, &r));
    *n_out = count;
    *out = tensors;
    return FX_OK;
}

fx_status fx_graph_interpret(fx_graph *graph, size_t n_inputs, const fx_tensor *inputs, size_t *n_outputs, fx_tensor **outputs)
{
    return fx_graph_run(graph, n_inputs, inputs, NULL, n_outputs, outputs);
}

/* ---- rows that are about values rather than numbers --------------------------------------------------------------- */

/* fx_graph_run takes getitem itself: tuples are not among an evaluation's operands. */
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

/* Inference has checked what there is to check. */
fx_status eval_assert(fx_eval *c)
{
    (void)c;
    return FX_OK;
}
