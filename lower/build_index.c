/* lower/build_index.c: places that are data: embedding, index_select, gather, index.Tensor, scatter, index_put; and arange.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * All are one nest of loops with two sides: one whose place follows from the loops alone, and one where integers that were read say
 * where along some dims. Each such integer is read as far out as it can be, and a CHECK around what uses it keeps it in range. */
#include <string.h>

#include "lower/build.h"

typedef struct data_index {
    fx_dim extent, stride;     /* of the dim it chooses from */
    bool wraps;                /* negative ones count from the end */
    const char *what;          /* for the message when it is out of range */
    int local, depth;          /* read inside this loop of the nest; -1: outside all */
} data_index;

/* Accesses of the nest: 0 the side with data indices, 1 the other side, then the index tensors. */
typedef struct places {
    fx_build *b;
    fx_node *n;
    int rank;
    fx_dim dims[FX_MAX_RANK];
    fx_nest_access access[2 + FX_MAX_RANK];
    fx_dtype index_dtype[FX_MAX_RANK];
    data_index data[FX_MAX_RANK];
    int n_data;
    fx_nest nest;
} places;

static int wrap_dim(int64_t d, int rank)
{
    return (int)(d < 0 ? d + (rank ? rank : 1) : d);
}

/* An index tensor whose dims are those of the nest from `at` on, broadcast. */
static fx_status add_index(places *p, fx_node *index, int at, int n_dims, fx_dim extent, fx_dim stride, bool wraps, const char *of, int dim)
{
    fx_build *b = p->b;
    fx_window v;
    FX_TRY(fx_build_value(b, index, &v));
    if (v.dtype != FX_I64 && v.dtype != FX_I32 && v.dtype != FX_I16 && v.dtype != FX_I8)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &p->n->loc, "%s: indices of %s cannot be compiled yet", p->n->op->name,
                       fx_dtype_name(v.dtype));
    fx_nest_access *a = &p->access[2 + p->n_data];
    *a = (fx_nest_access){.buf = v.buf, .offset = v.offset};
    int shift = n_dims - v.rank;
    for (int i = 0; i < v.rank; i++)
        a->strides[at + shift + i] = fx_dim_is(v.dims[i], 1) ? fx_dim_of(0) : v.strides[i];
    p->index_dtype[p->n_data] = v.dtype;
    p->data[p->n_data++] = (data_index){extent, stride, wraps,
        fx_arena_printf(b->p->arena, "index into the %s of dim %d of %s", fx_build_dims(b, 1, &extent), dim, of), 0, -1};
    return FX_OK;
}

/* LOCAL t = the index; CHECK t in its extent { body } */
static fx_stmt *checked(places *p, int k, fx_stmt *body)
{
    fx_build *b = p->b;
    data_index *d = &p->data[k];
    fx_affine at = fx_nest_index(b, &p->nest, &p->access[2 + k]), size = fx_affine_dim(d->extent);
    const fx_sexpr *v = fx_s_cast(b->p, FX_I64, fx_s_load(b->p, p->access[2 + k].buf, &at));
    fx_stmt *local = fx_stmt_new(b->p, FX_ST_LOCAL), *check = fx_stmt_new(b->p, FX_ST_CHECK);
    if (d->wraps) {
        const fx_sexpr *n = fx_dim_known(d->extent) ? fx_s_int(b->p, FX_I64, d->extent.value) : fx_s_index(b->p, &size);
        const fx_sexpr *negative = fx_s_op(b->p, FX_S_lt, FX_BOOL, v, fx_s_int(b->p, FX_I64, 0), NULL);
        v = fx_s_op(b->p, FX_S_select, FX_I64, negative, fx_s_op(b->p, FX_S_add, FX_I64, v, n, NULL), v);
    }
    local->local = d->local;
    local->value = v;
    check->local = d->local;
    check->extent = d->extent;
    check->text = d->what;
    check->body = body;
    local->next = b->opt->fault == FX_FAULT_NO_CHECK ? body : check;
    return local;
}

/* Makes the nest and gives where the side with data indices lies. */
static fx_affine places_index(places *p)
{
    fx_build *b = p->b;
    int order[FX_MAX_RANK];
    for (int i = 0; i < p->rank; i++)
        order[i] = i;
    p->nest = fx_nest_make(b, p->rank, p->dims, order, 2 + p->n_data, p->access);
    fx_affine at = fx_nest_index(b, &p->nest, &p->access[0]);
    for (int k = 0; k < p->n_data; k++) {
        data_index *d = &p->data[k];
        d->local = b->n_locals++;
        for (int i = 0; i < p->nest.n; i++)
            if (!fx_dim_is(p->access[2 + k].strides[i], 0))
                d->depth = i;
        fx_affine_add(b->ctx, &at, FX_VAR_LOCAL(d->local), d->stride);
    }
    return at;
}

/* The loops around the store. parallel: no two iterations of the outermost loop store to one place. */
static fx_stmt *places_loops(places *p, fx_stmt *body, bool parallel)
{
    fx_build *b = p->b;
    for (int i = p->nest.n - 1; i >= -1; i--) {
        bool reads = false;
        for (int k = p->n_data - 1; k >= 0; k--) {
            if (p->data[k].depth == i) {
                body = checked(p, k, body);
                reads = true;
            }
        }
        if (i < 0)
            break;
        fx_stmt *loop = fx_stmt_new(b->p, FX_ST_LOOP);
        loop->var = p->nest.var[i];
        loop->extent = p->nest.extent[i];
        loop->hint = p->nest.hint[i];
        loop->loop = i == 0 && parallel && fx_build_is_large(b, p->rank, p->dims) ? FX_LOOP_PARALLEL
                     : i == p->nest.n - 1 && !reads                               ? FX_LOOP_VECTOR
                                                                                  : FX_LOOP_SERIAL;
        loop->body = body;
        body = loop;
    }
    return body;
}

static void set_dims(places *p, int rank, const fx_dim *dims)
{
    p->rank = rank;
    memcpy(p->dims, dims, sizeof(fx_dim) * (size_t)rank);
}

static void set_plain(places *p, const fx_window *v)
{
    p->access[1] = (fx_nest_access){.buf = v->buf, .offset = v->offset};
    memcpy(p->access[1].strides, v->strides, sizeof v->strides);
}

/* out = x at the places: a step. */
static fx_status emit_read(places *p)
{
    fx_build *b = p->b;
    fx_window out;
    FX_TRY(fx_build_place(b, p->n, NULL, &out));
    set_plain(p, &out);
    const char *name = strchr(p->n->op->name, '.') + 1;
    fx_step *step = fx_build_step(b, p->n, fx_arena_printf(b->piece, "%.*s", (int)strcspn(name, "."), name));
    fx_affine from = places_index(p);
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = out.buf;
    store->index = fx_nest_index(b, &p->nest, &p->access[1]);
    store->value = fx_s_load(b->p, p->access[0].buf, &from);
    step->body = places_loops(p, store, true);
    b->value[p->n->id] = out;
    return FX_OK;
}

static const char *what_of(const fx_node *n)
{
    return n->target && n->opcode == FX_GET_ATTR ? n->target : n->name;
}

/* index_select; embedding is the same on dim 0 with an index of any rank. */
static fx_status build_select(fx_build *b, fx_node *n, fx_node *x_node, int dim, fx_node *index)
{
    places p = {.b = b, .n = n};
    fx_window x;
    FX_TRY(fx_build_value(b, x_node, &x));
    set_dims(&p, n->type->rank, n->type->dims);
    p.access[0] = (fx_nest_access){.buf = x.buf, .offset = x.offset};
    int added = x.rank ? n->type->rank - x.rank + 1 : 0; /* dims of the index in the result: 0, 1 or more */
    for (int i = 0; i < x.rank; i++) {
        if (i != dim)
            p.access[0].strides[i < dim ? i : i - 1 + added] = x.strides[i];
    }
    fx_dim extent = x.rank ? x.dims[dim] : fx_dim_of(1), stride = x.rank ? x.strides[dim] : fx_dim_of(0);
    FX_TRY(add_index(&p, index, dim, added, extent, stride, false, what_of(x_node), dim));
    return emit_read(&p);
}

/* An index has no more elements along a dim than what it chooses from: as eager, a run with other sizes is refused. */
static void at_most(fx_build *b, fx_dim d, fx_dim most)
{
    fx_program *p = b->p;
    if (fx_dim_known(d) || fx_dim_equal(d, most))
        return;
    for (size_t i = 0; i < p->n_symbols && fx_dim_known(most); i++) {
        fx_sym_range *s = &p->symbols[i];
        if (d.sym->kind == FX_SYM_SYMBOL && strcmp(d.sym->name, s->name) == 0 && most.value >= s->min) {
            s->max = most.value < s->max ? most.value : s->max;
            return;
        }
    }
    fx_program_limit(b->p, most, d, "an index is no larger than what it chooses from");
}

static fx_status build_gather(fx_build *b, fx_node *n)
{
    places p = {.b = b, .n = n};
    fx_node *x_node = fx_node_input(n, 0);
    fx_window x;
    FX_TRY(fx_build_value(b, x_node, &x));
    int dim = wrap_dim(fx_node_int(n, 1), x.rank), rank = n->type->rank;
    set_dims(&p, rank, n->type->dims);
    p.access[0] = (fx_nest_access){.buf = x.buf, .offset = x.offset};
    for (int i = 0; i < x.rank && i < rank; i++) {
        if (i == dim)
            continue;
        p.access[0].strides[i] = x.strides[i];
        at_most(b, p.dims[i], x.dims[i]);
    }
    fx_dim extent = x.rank ? x.dims[dim] : fx_dim_of(1), stride = x.rank ? x.strides[dim] : fx_dim_of(0);
    FX_TRY(add_index(&p, fx_node_input(n, 2), 0, rank, extent, stride, false, what_of(x_node), dim));
    return emit_read(&p);
}

/* The places x[indices], where the nest has the dims of what they choose: those of the indices, broadcast, in the place of the
 * indexed dims when these are neighbours, else first. */
static fx_status add_indices(places *p, const fx_node *n, const fx_window *x, const char *of, const fx_type *chosen)
{
    const fx_arg *list = fx_node_arg(n, 1);
    int first = -1, last = -1, count = 0, wide = 0;
    for (int i = 0; i < list->n; i++) {
        if (list->items[i]->kind != FX_ARG_NODE)
            continue;
        const fx_type *t = n->operands[list->items[i]->i].def->type;
        first = first < 0 ? i : first;
        last = i;
        count++;
        wide = t->rank > wide ? t->rank : wide;
    }
    bool together = count > 0 && last - first + 1 == count;
    int at = together ? first : 0, rank = x->rank - count + wide;
    if (chosen && chosen->rank != rank)
        return fx_fail(p->b->ctx, FX_INTERNAL, &n->loc, "%s: expected a result of rank %d, got %d", n->op->name, rank, chosen->rank);
    p->rank = rank;
    p->access[0] = (fx_nest_access){.buf = x->buf, .offset = x->offset};
    fx_dim broadcast[FX_MAX_RANK];
    for (int i = 0; i < wide; i++)
        broadcast[i] = fx_dim_of(1);
    for (int i = 0, to = together || count == 0 ? 0 : wide; i < x->rank; i++) {
        bool indexed = i < list->n && list->items[i]->kind == FX_ARG_NODE;
        if (together && i == first)
            to += wide;
        if (!indexed) {
            p->access[0].strides[to] = x->strides[i];
            p->dims[to++] = x->dims[i];
            continue;
        }
        fx_node *index = n->operands[list->items[i]->i].def;
        for (int k = 0; k < index->type->rank; k++) {
            if (!fx_dim_is(index->type->dims[k], 1))
                broadcast[wide - index->type->rank + k] = index->type->dims[k];
        }
        FX_TRY(add_index(p, index, at, wide, x->dims[i], x->strides[i], true, of, i));
    }
    memcpy(&p->dims[at], broadcast, sizeof(fx_dim) * (size_t)wide);
    return FX_OK;
}

static fx_status build_index(fx_build *b, fx_node *n)
{
    places p = {.b = b, .n = n};
    fx_window x;
    FX_TRY(fx_build_value(b, fx_node_input(n, 0), &x));
    FX_TRY(add_indices(&p, n, &x, what_of(fx_node_input(n, 0)), n->type));
    return emit_read(&p);
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

/* A copy of x, in the place of n's result; x itself, where it is an input that the run changes. */
static fx_status copy_of(fx_build *b, fx_node *n, fx_window *out)
{
    fx_window x;
    FX_TRY(fx_build_value(b, fx_node_input(n, 0), &x));
    if (b->in_input[n->id]) {
        *out = b->value[n->id] = x;
        return FX_OK;
    }
    FX_TRY(fx_build_place(b, n, NULL, out));
    b->value[n->id] = *out;
    return fx_build_copy(b, fx_arena_printf(b->piece, "%s_self", fx_build_name(b, n)), fx_arena_printf(b->piece, "%s: what stays", n->name),
                         n, &x, out);
}

/* The places = src, or a number where src is NULL; added where `adds`. A step; the last of several writes to one place wins. */
static fx_status emit_write(places *p, const fx_window *src, const fx_sexpr *number, bool adds)
{
    fx_build *b = p->b;
    fx_dtype dtype = p->n->type->dtype;
    if (src) {
        int shift = p->rank - src->rank;
        p->access[1] = (fx_nest_access){.buf = src->buf, .offset = src->offset};
        for (int i = 0; i < src->rank; i++)
            p->access[1].strides[shift + i] = fx_dim_is(src->dims[i], 1) ? fx_dim_of(0) : src->strides[i];
    }
    const char *name = strchr(p->n->op->name, '.') + 1;
    fx_step *step = fx_build_step(b, p->n, fx_arena_printf(b->piece, "%.*s", (int)strcspn(name, "."), name));
    fx_affine to = places_index(p), from = fx_nest_index(b, &p->nest, &p->access[1]);
    const fx_sexpr *value = src ? fx_s_cast(b->p, dtype, fx_s_load(b->p, src->buf, &from)) : number;
    if (adds)
        value = fx_s_op(b->p, FX_S_add, dtype, fx_s_load(b->p, p->access[0].buf, &to), value, NULL);
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = p->access[0].buf;
    store->index = to;
    store->value = value;
    step->body = places_loops(p, store, false);
    return FX_OK;
}

static fx_status build_scatter(fx_build *b, fx_node *n)
{
    places p = {.b = b, .n = n};
    fx_node *index = fx_node_input(n, 2), *src_node = n->op->id == FX_OP_scatter_value ? NULL : fx_node_input(n, 3);
    fx_window out, src;
    FX_TRY(copy_of(b, n, &out));
    int dim = wrap_dim(fx_node_int(n, 1), out.rank), rank = index->type->rank;
    set_dims(&p, rank, index->type->dims);
    p.access[0] = (fx_nest_access){.buf = out.buf, .offset = out.offset};
    for (int i = 0; i < rank && i < out.rank; i++) {
        if (i == dim)
            continue;
        p.access[0].strides[i] = out.strides[i];
        at_most(b, p.dims[i], out.dims[i]);
    }
    fx_dim extent = out.rank ? out.dims[dim] : fx_dim_of(1), stride = out.rank ? out.strides[dim] : fx_dim_of(0);
    FX_TRY(add_index(&p, index, 0, rank, extent, stride, false, what_of(fx_node_input(n, 0)), dim));
    if (src_node) {
        FX_TRY(fx_build_value(b, src_node, &src));
        for (int i = 0; i < src.rank && i < rank; i++) { /* only its beginning is read */
            at_most(b, index->type->dims[i], src.dims[i]);
            src.dims[i] = index->type->dims[i];
        }
    }
    return emit_write(&p, src_node ? &src : NULL, src_node ? NULL : fx_build_param(b, n, 3, n->type->dtype), n->op->id == FX_OP_scatter_add);
}

static fx_status build_index_put(fx_build *b, fx_node *n)
{
    places p = {.b = b, .n = n};
    fx_window out, values;
    FX_TRY(copy_of(b, n, &out));
    FX_TRY(fx_build_value(b, fx_node_input(n, 2), &values));
    FX_TRY(add_indices(&p, n, &out, what_of(fx_node_input(n, 0)), NULL));
    return emit_write(&p, &values, NULL, fx_node_bool(n, 3));
}

/* ---- arange -------------------------------------------------------------------------------------------------------- */

static bool is_integer(const fx_node *n, int param, fx_dim *v)
{
    const fx_arg *a = fx_node_arg(n, param);
    *v = a->kind == FX_ARG_SYM ? fx_dim_sym(a->sym) : fx_dim_of(fx_node_int(n, param));
    return a->kind == FX_ARG_SYM || a->kind == FX_ARG_INT || a->kind == FX_ARG_BOOL;
}

static fx_status build_arange(fx_build *b, fx_node *n)
{
    fx_window out;
    fx_dim start, step_by;
    bool first = is_integer(n, 0, &start), second = is_integer(n, 2, &step_by), integers = first && second;
    if (!integers && (fx_node_arg(n, 0)->kind == FX_ARG_NODE || fx_node_arg(n, 2)->kind == FX_ARG_NODE))
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "arange from or by a computed number cannot be compiled yet");
    FX_TRY(fx_build_place(b, n, NULL, &out));
    fx_step *step = fx_build_step(b, n, "arange");
    fx_nest_access to = {.buf = out.buf, .offset = out.offset};
    memcpy(to.strides, out.strides, sizeof out.strides);
    fx_nest nest = fx_nest_make(b, 1, out.dims, (int[]){0}, 1, &to);
    fx_affine i = fx_affine_dim(integers ? start : fx_dim_of(0));
    if (nest.n)
        fx_affine_add(b->ctx, &i, nest.var[0], integers ? step_by : fx_dim_of(1));
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = out.buf;
    store->index = fx_nest_index(b, &nest, &to);
    const fx_sexpr *at = fx_s_index(b->p, &i);
    if (!integers) { /* as eager: start + i * step in double, rounded once */
        at = fx_s_op(b->p, FX_S_mul, FX_F64, fx_s_cast(b->p, FX_F64, at), fx_s_const(b->p, FX_F64, fx_node_float(n, 2)), NULL);
        at = fx_s_op(b->p, FX_S_add, FX_F64, fx_s_const(b->p, FX_F64, fx_node_float(n, 0)), at, NULL);
    }
    store->value = fx_s_cast(b->p, out.dtype, at);
    step->body = fx_nest_wrap(b, &nest, store);
    b->value[n->id] = out;
    return FX_OK;
}

fx_status fx_build_gather(fx_build *b, fx_node *n)
{
    switch (n->op->id) {
    case FX_OP_embedding:
        return build_select(b, n, fx_node_input(n, 0), 0, fx_node_input(n, 1));
    case FX_OP_index_select:
        return build_select(b, n, fx_node_input(n, 0), wrap_dim(fx_node_int(n, 1), fx_node_input(n, 0)->type->rank), fx_node_input(n, 2));
    case FX_OP_gather:
        return build_gather(b, n);
    case FX_OP_index_Tensor:
        return build_index(b, n);
    case FX_OP_scatter_src:
    case FX_OP_scatter_value:
    case FX_OP_scatter_add:
        return build_scatter(b, n);
    case FX_OP_index_put:
        return build_index_put(b, n);
    case FX_OP_arange_start_step:
        return build_arange(b, n);
    case FX_OP_philox:
        return fx_build_philox(b, n);
    default:
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s cannot be compiled to loops or kernels yet", n->op->name);
    }
}
