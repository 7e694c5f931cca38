/* lower/build_value.c: where tensors live: views as strides, layouts, copies between them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ops.h"
#include "lower/build.h"

bool fx_build_is_constant(const fx_node *n)
{
    return n->opcode == FX_GET_ATTR;
}

/* The step from one element to the next of the dim outside one of size d: sizes of 0 count as 1, so that strides stay positive. */
static fx_dim next_stride(fx_build *b, fx_dim stride, fx_dim d)
{
    return fx_dim_is(d, 0) ? stride : fx_dim_mul(b->ctx, stride, d);
}

void fx_window_set_dense(fx_build *b, fx_window *v)
{
    fx_dim stride = fx_dim_of(1);
    for (int i = v->rank - 1; i >= 0; i--) {
        v->strides[i] = stride;
        stride = next_stride(b, stride, v->dims[i]);
    }
}

fx_dim fx_window_count(fx_build *b, const fx_window *v)
{
    fx_dim n = fx_dim_of(1);
    for (int i = 0; i < v->rank; i++)
        n = fx_dim_mul(b->ctx, n, v->dims[i]);
    return n;
}

bool fx_window_is_dense(fx_build *b, const fx_window *v)
{
    fx_dim stride = fx_dim_of(1);
    for (int i = v->rank - 1; i >= 0; i--) {
        if (!fx_dim_is(v->dims[i], 1) && !fx_dim_equal(v->strides[i], stride))
            return false;
        stride = fx_dim_mul(b->ctx, stride, v->dims[i]);
    }
    return true;
}

/* Whether stride x is proved smaller than y. */
static bool less(fx_build *b, fx_dim x, fx_dim y)
{
    if (!x.sym && !y.sym)
        return x.value < y.value;
    return !fx_dim_equal(x, y) && fx_dim_le(b->ctx, fx_build_symbols(b), x, y);
}

fx_dim fx_window_magnitude(fx_build *b, fx_dim stride)
{
    return less(b, stride, fx_dim_of(0)) ? fx_dim_scale(b->ctx, stride, -1) : stride;
}

void fx_window_order(fx_build *b, const fx_window *v, int *order)
{
    for (int i = 0; i < v->rank; i++) {
        fx_dim si = fx_window_magnitude(b, v->strides[i]);
        int at = i;
        /* dims of size 1 and broadcast dims keep their place: their stride says nothing */
        while (at > 0) {
            int prev = order[at - 1];
            if (fx_dim_is(v->dims[i], 1) || fx_dim_is(v->dims[prev], 1) || !less(b, fx_window_magnitude(b, v->strides[prev]), si))
                break;
            order[at] = prev;
            at--;
        }
        order[at] = i;
    }
}

fx_window fx_build_channels_last(fx_build *b, const fx_node *n)
{
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    fx_window v = {.dtype = t->dtype, .rank = t->rank};
    memcpy(v.dims, t->dims, sizeof(fx_dim) * (size_t)v.rank);
    fx_window_set_dense(b, &v);
    if (v.rank == 4) {
        v.strides[1] = fx_dim_of(1);
        v.strides[3] = v.dims[1];
        v.strides[2] = fx_dim_mul(b->ctx, v.strides[3], v.dims[3]);
        v.strides[0] = fx_dim_mul(b->ctx, v.strides[2], v.dims[2]);
    }
    return v;
}

/* Dense strides in the memory order of `like`. Sizes of 1 sort by like's strides too, so that NHWC stays NHWC. */
static void set_dense_like(fx_build *b, fx_window *v, const fx_window *like)
{
    int order[FX_MAX_RANK];
    for (int i = 0; i < v->rank; i++) {
        int at = i;
        while (at > 0 && less(b, like->strides[order[at - 1]], like->strides[i])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    fx_dim stride = fx_dim_of(1);
    for (int i = v->rank - 1; i >= 0; i--) {
        v->strides[order[i]] = stride;
        stride = next_stride(b, stride, v->dims[order[i]]);
    }
}

bool fx_build_cat_of_images(const fx_build *b, const fx_node *cat)
{
    int64_t d = fx_node_int(cat, 1);
    return b->channels_last && cat->type->rank == 4 && (d == 1 || d == -3);
}

/* The storage of a concatenation, made when its first part is. */
static fx_status cat_storage(fx_build *b, fx_node *cat, fx_window *out)
{
    fx_window *v = &b->value[cat->id];
    if (v->buf < 0) {
        fx_window pattern = fx_build_channels_last(b, cat);
        FX_TRY(fx_build_place(b, cat, fx_build_cat_of_images(b, cat) ? &pattern : NULL, v));
    }
    *out = *v;
    return FX_OK;
}

/* A buffer of the arena that a dense window fills. */
static int buffer_for(fx_build *b, const fx_node *n, const char *name, const fx_window *v)
{
    int order[FX_MAX_RANK];
    fx_dim dims[FX_MAX_RANK];
    fx_window_order(b, v, order);
    for (int i = 0; i < v->rank; i++)
        dims[i] = v->dims[order[i]];
    int id = fx_program_buf(b->p, FX_BUF_ARENA, name, v->dtype, v->rank, dims);
    b->p->bufs[id].loc = n->loc;
    if (v->rank == 4 && fx_dim_is(v->strides[1], 1) && !fx_dim_is(v->dims[1], 1) && !fx_dim_is(v->dims[1], 0))
        b->p->bufs[id].note = "NHWC";
    return id;
}

/* A matrix product that reads another part of the concatenation it would be computed in: kernels take whole rows of x apart, not
 * columns among those of y. (Convolutions tell channels of pixels apart.) */
static bool product_reads(const fx_build *b, const fx_node *n, int buf)
{
    const fx_node *anchor = b->group[n->id].anchor;
    if (!anchor || anchor->op->id == FX_OP_convolution)
        return false;
    for (int i = 0; i < anchor->n_operands; i++)
        if (b->value[anchor->operands[i].def->id].buf == buf)
            return true;
    return false;
}

fx_status fx_build_place(fx_build *b, fx_node *n, const fx_window *like, fx_window *out)
{
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    fx_window v = {.dtype = t->dtype, .rank = t->rank};
    memcpy(v.dims, t->dims, sizeof(fx_dim) * (size_t)v.rank);
    fx_home *home = &b->home[n->id];
    if (home->cat) {
        fx_window whole;
        FX_TRY(cat_storage(b, home->cat, &whole));
        if (product_reads(b, n, whole.buf)) {
            *home = (fx_home){.output = -1};
            return fx_build_place(b, n, like, out);
        }
        v.buf = whole.buf;
        v.offset = fx_dim_add(b->ctx, whole.offset, fx_dim_mul(b->ctx, home->offset, whole.strides[home->dim]));
        memcpy(v.strides, whole.strides, sizeof v.strides);
        *out = v;
        return FX_OK;
    }
    if (like)
        set_dense_like(b, &v, like);
    else
        fx_window_set_dense(b, &v);
    if (home->output >= 0 && fx_window_is_dense(b, &v)) {
        v.buf = b->p->outputs[home->output].buf;
        *out = v;
        return FX_OK;
    }
    fx_node *named = b->group[n->id].anchor ? b->group[n->id].anchor : n;
    v.buf = buffer_for(b, named, fx_build_name(b, named), &v);
    *out = v;
    return FX_OK;
}

fx_status fx_build_new(fx_build *b, fx_node *n, const char *name, fx_dtype dtype, const fx_window *like, fx_window *out)
{
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    fx_window v = {.dtype = dtype, .rank = t->rank};
    memcpy(v.dims, t->dims, sizeof(fx_dim) * (size_t)v.rank);
    set_dense_like(b, &v, like);
    v.buf = buffer_for(b, n, name, &v);
    *out = v;
    return FX_OK;
}

static fx_attr *constant_attr(fx_build *b, fx_node *n, const fx_node *user, fx_status *st)
{
    fx_attr *a = fx_attr_find(b->g, n->target);
    *st = a ? fx_tensor_touch(b->ctx, &a->tensor)
            : fx_fail(b->ctx, FX_INTERNAL, &user->loc, "attribute '%s' is missing", n->target);
    return a;
}

/* Elements of a constant as float32, widened into the arena if need be. */
static fx_status constant_f32(fx_build *b, const fx_node *user, fx_node *n, const char *what, fx_arena *arena, fx_tensor *out)
{
    if (!fx_build_is_constant(n))
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &user->loc, "%s of %s must be a constant of the model, but '%s' is computed", what,
                       user->target, n->name);
    fx_status st;
    fx_attr *a = constant_attr(b, n, user, &st);
    FX_TRY(st);
    fx_dtype dtype = a->tensor.dtype;
    FX_TRY(fx_tensor_contiguous(b->ctx, &a->tensor, out));
    if (dtype == FX_F32)
        return FX_OK;
    if (dtype != FX_F16 && dtype != FX_BF16)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &user->loc, "%s of %s: expected float32, float16 or bfloat16, got %s", what, user->target,
                       fx_dtype_name(dtype));
    int64_t numel = fx_tensor_numel(out);
    float *wide = FX_NEW_ARRAY(arena, float, numel + 1);
    fx_row_load(FX_KIND_F32, wide, dtype, out->data, 1, numel);
    out->dtype = FX_F32;
    out->storage = NULL;
    out->data = wide;
    return FX_OK;
}

fx_status fx_build_constant(fx_build *b, const fx_node *user, fx_node *n, const char *what, const float **data)
{
    fx_tensor t;
    FX_TRY(constant_f32(b, user, n, what, b->p->arena, &t));
    *data = t.data;
    return FX_OK;
}

fx_status fx_build_constant_rows(fx_build *b, const fx_node *user, fx_node *n, const char *what, fx_weight_rows *rows)
{
    const fx_attr *a = fx_build_is_constant(n) ? fx_attr_find(b->g, n->target) : NULL;
    if (a && a->tensor.dtype == FX_F32)
        return fx_weight_rows_of(b->ctx, b->scratch, &a->tensor, rows);
    fx_tensor t;
    FX_TRY(constant_f32(b, user, n, what, b->scratch, &t));
    return fx_weight_rows_of(b->ctx, b->scratch, &t, rows);
}

/* A constant that loops read: a weight buffer, row-major. */
static fx_status constant_value(fx_build *b, fx_node *n, fx_window *v)
{
    fx_status st;
    const fx_attr *a = fx_attr_find(b->g, n->target);
    fx_tensor dense;
    const void *data = NULL;
    if (a)
        FX_TRY(fx_build_constant_in_place(b, &a->tensor, &data));
    if (data) {
        dense = a->tensor;
    } else {
        a = constant_attr(b, n, n, &st);
        FX_TRY(st);
        FX_TRY(fx_tensor_contiguous(b->ctx, &a->tensor, &dense));
        data = dense.data;
    }
    *v = (fx_window){.dtype = dense.dtype, .rank = dense.rank};
    for (int i = 0; i < v->rank; i++)
        v->dims[i] = fx_dim_of(dense.sizes[i]);
    fx_window_set_dense(b, v);
    v->buf = fx_program_buf(b->p, FX_BUF_WEIGHT, n->target, v->dtype, v->rank, v->dims);
    b->p->bufs[v->buf].data = data;
    b->p->bufs[v->buf].loc = n->loc;
    return FX_OK;
}

fx_status fx_build_value(fx_build *b, fx_node *n, fx_window *out)
{
    fx_window *v = &b->value[n->id];
    if (v->buf < 0 && fx_build_is_constant(n))
        FX_TRY(constant_value(b, n, v));
    if (v->buf < 0 && b->again[n->id]) { /* computed again by pointwise regions; whoever else reads it finds it stored */
        b->root[n->id] = n;
        FX_TRY(fx_build_pointwise(b, n));
    }
    if (v->buf < 0 && b->lazy[n->id])
        FX_TRY(fx_build_store(b, n, NULL));
    if (v->buf < 0)
        return fx_fail(b->ctx, FX_INTERNAL, &n->loc, "no value was made for node '%s'", n->name);
    *out = *v;
    return FX_OK;
}

/* As torch's computeStride: the old dims fall into runs whose strides chain; each run's elements are split anew. */
bool fx_window_reshape(fx_build *b, const fx_window *v, int rank, const fx_dim *dims, fx_window *out)
{
    fx_window r = *v;
    r.rank = rank;
    memcpy(r.dims, dims, sizeof(fx_dim) * (size_t)rank);
    if (fx_dim_is(fx_window_count(b, v), 0) || v->rank == 0) {
        fx_window_set_dense(b, &r);
        *out = r;
        return true;
    }
    int d = rank - 1;
    const fx_dim one = fx_dim_of(1);
    fx_dim base = v->strides[v->rank - 1], run = one, done = one;
    for (int i = v->rank - 1; i >= 0; i--) {
        run = fx_dim_mul(b->ctx, run, v->dims[i]);
        bool ends = i == 0 || (!fx_dim_is(v->dims[i - 1], 1) && !fx_dim_equal(v->strides[i - 1], fx_dim_mul(b->ctx, run, base)));
        if (!ends)
            continue;
        /* of numbers the run is left when it is full; of expressions when it is, or when the next size would not divide what is left */
        while (d >= 0 && (fx_dim_is(dims[d], 1) || !fx_dim_equal(done, run))) {
            fx_dim more = fx_dim_mul(b->ctx, done, dims[d]), rest;
            if (!fx_dim_divide(b->ctx, run, more, &rest))
                return false;
            r.strides[d] = fx_dim_mul(b->ctx, done, base);
            done = more;
            d--;
        }
        if (!fx_dim_equal(done, run))
            return false;
        if (i > 0) {
            base = v->strides[i - 1];
            run = done = one;
        }
    }
    if (d >= 0)
        return false;
    *out = r;
    return true;
}

static int wrap_dim(int64_t d, int rank)
{
    return (int)(d < 0 ? d + rank : d);
}

static fx_window permuted(const fx_window *v, const fx_node *n)
{
    fx_window r = *v;
    int64_t dims[FX_MAX_RANK];
    fx_node_ints(n, 1, dims, FX_MAX_RANK);
    for (int i = 0; i < v->rank; i++) {
        int from = wrap_dim(dims[i], v->rank);
        r.dims[i] = v->dims[from];
        r.strides[i] = v->strides[from];
    }
    return r;
}

static fx_window expanded(const fx_window *v, const fx_type *t)
{
    fx_window r = *v;
    r.rank = t->rank;
    memcpy(r.dims, t->dims, sizeof(fx_dim) * (size_t)r.rank);
    int shift = r.rank - v->rank;
    for (int i = 0; i < r.rank; i++) {
        bool repeats = i < shift || (fx_dim_is(v->dims[i - shift], 1) && !fx_dim_is(r.dims[i], 1));
        r.strides[i] = repeats ? fx_dim_of(0) : v->strides[i - shift];
    }
    return r;
}

/* A number or size among the arguments: item i of a list, or the argument itself. */
fx_dim fx_build_size(const fx_node *n, int param, int i)
{
    const fx_arg *a = fx_node_arg(n, param);
    if (a->kind == FX_ARG_LIST || a->kind == FX_ARG_TUPLE)
        a = a->items[i];
    return a->kind == FX_ARG_SYM ? fx_dim_sym(a->sym) : fx_dim_of(a->i);
}

/* A place in a dim of size `size`: numbers below 0 count from its end. */
static fx_dim place_in(fx_build *b, fx_dim at, fx_dim size)
{
    return fx_dim_known(at) && at.value < 0 ? fx_dim_plus(b->ctx, size, at.value) : at;
}

static fx_window sliced(fx_build *b, const fx_window *v, const fx_node *n)
{
    fx_window r = *v;
    int d = wrap_dim(fx_node_int(n, 1), v->rank);
    int64_t step = fx_node_int(n, 4);
    fx_dim from = fx_node_is_none(n, 2) ? fx_dim_of(0) : place_in(b, fx_build_size(n, 2, 0), v->dims[d]);
    if (fx_dim_known(from) && fx_dim_known(v->dims[d]))
        from = fx_dim_of(from.value < 0 ? 0 : from.value > v->dims[d].value ? v->dims[d].value : from.value);
    if (b->opt->fault == FX_FAULT_MAP_OFF_BY_ONE)
        from = fx_dim_plus(b->ctx, from, 1);
    r.dims[d] = n->type->dims[d];
    r.offset = fx_dim_add(b->ctx, v->offset, fx_dim_mul(b->ctx, from, v->strides[d]));
    r.strides[d] = fx_dim_scale(b->ctx, v->strides[d], step);
    return r;
}

static fx_window selected(fx_build *b, const fx_window *v, const fx_node *n)
{
    fx_window r = *v;
    int d = wrap_dim(fx_node_int(n, 1), v->rank);
    fx_dim at = place_in(b, fx_build_size(n, 2, 0), v->dims[d]);
    r.offset = fx_dim_add(b->ctx, v->offset, fx_dim_mul(b->ctx, at, v->strides[d]));
    r.rank--;
    for (int i = d; i < r.rank; i++) {
        r.dims[i] = v->dims[i + 1];
        r.strides[i] = v->strides[i + 1];
    }
    return r;
}

static fx_window flipped(fx_build *b, const fx_window *v, const fx_node *n)
{
    fx_window r = *v;
    int64_t dims[FX_MAX_RANK];
    int count = fx_node_ints(n, 1, dims, FX_MAX_RANK);
    for (int i = 0; i < count; i++) {
        int d = wrap_dim(dims[i], v->rank);
        r.offset = fx_dim_add(b->ctx, r.offset, fx_dim_mul(b->ctx, fx_dim_plus(b->ctx, v->dims[d], -1), v->strides[d]));
        r.strides[d] = fx_dim_scale(b->ctx, v->strides[d], -1);
    }
    return r;
}

/* Windows of one dim, a step apart, in a new last dim: they overlap in memory. */
static fx_window unfolded(fx_build *b, const fx_window *v, const fx_node *n)
{
    fx_window r = *v;
    r.rank = n->type->rank;
    memcpy(r.dims, n->type->dims, sizeof(fx_dim) * (size_t)r.rank);
    if (v->rank == 0) {
        r.strides[0] = fx_dim_of(1);
        return r;
    }
    int d = wrap_dim(fx_node_int(n, 1), v->rank);
    r.strides[v->rank] = v->strides[d];
    r.strides[d] = fx_dim_scale(b->ctx, v->strides[d], fx_node_int(n, 3));
    return r;
}

/* Two dims become one that steps along both, the last. */
static fx_window diagonal(fx_build *b, const fx_window *v, const fx_node *n)
{
    fx_window r = *v;
    int64_t offset = fx_node_int(n, 1);
    int d1 = wrap_dim(fx_node_int(n, 2), v->rank), d2 = wrap_dim(fx_node_int(n, 3), v->rank), at = 0;
    fx_dim start = fx_dim_scale(b->ctx, v->strides[offset < 0 ? d1 : d2], offset < 0 ? -offset : offset);
    if (!fx_dim_is(n->type->dims[n->type->rank - 1], 0))
        r.offset = fx_dim_add(b->ctx, v->offset, start);
    for (int i = 0; i < v->rank; i++)
        if (i != d1 && i != d2)
            r.strides[at++] = v->strides[i];
    r.strides[at] = fx_dim_add(b->ctx, v->strides[d1], v->strides[d2]);
    r.rank = n->type->rank;
    memcpy(r.dims, n->type->dims, sizeof(fx_dim) * (size_t)r.rank);
    return r;
}

bool fx_build_is_resize(const fx_node *n)
{
    return n->op->id == FX_OP_view || n->op->id == FX_OP_unsqueeze || n->op->id == FX_OP_squeeze_dims;
}

bool fx_window_view(fx_build *b, const fx_window *v, const fx_node *n, fx_window *out)
{
    switch (n->op->id) {
    case FX_OP_permute:
        *out = permuted(v, n);
        return true;
    case FX_OP_expand:
        *out = expanded(v, n->type);
        return true;
    case FX_OP_slice_Tensor:
        *out = sliced(b, v, n);
        return true;
    case FX_OP_select_int:
        *out = selected(b, v, n);
        return true;
    case FX_OP_unfold:
        *out = unfolded(b, v, n);
        return true;
    case FX_OP_diagonal:
        *out = diagonal(b, v, n);
        return true;
    case FX_OP_flip:
        *out = flipped(b, v, n);
        return true;
    default:
        return fx_build_is_resize(n) && fx_window_reshape(b, v, n->type->rank, n->type->dims, out);
    }
}

fx_status fx_build_view(fx_build *b, fx_node *n)
{
    fx_node *x = fx_node_input(n, 0);
    fx_window v, r;
    if (b->passed[n->id] || b->value[n->id].buf >= 0)
        return FX_OK; /* x was written through it */
    if (fx_build_is_lazy(b, x)) {
        bool done = fx_build_lazy_view(b, n);
        if (!done)
            FX_TRY(fx_build_store_through(b, x, &done));
        if (done)
            return FX_OK;
    }
    FX_TRY(fx_build_value(b, x, &v));
    if (!fx_window_view(b, &v, n, &r)) {
        if (!fx_build_is_resize(n))
            return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s cannot be compiled yet", n->op->name);
        if (fx_build_lazy_view(b, n))
            return FX_OK;
        FX_TRY(fx_build_dense(b, x, &v));
        if (!fx_window_view(b, &v, n, &r))
            return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: the sizes %s of '%s' are not seen to hold as many elements as %s", n->target,
                           fx_build_dims(b, v.rank, v.dims), x->name, fx_build_dims(b, n->type->rank, n->type->dims));
    }
    b->value[n->id] = r;
    return FX_OK;
}

static fx_status copy_to(fx_build *b, fx_node *n, const fx_window *pattern, const char *layout, const char *what, fx_window *v)
{
    fx_window src = *v, dst = *v;
    dst.offset = fx_dim_of(0);
    memcpy(dst.strides, pattern->strides, sizeof dst.strides);
    int order[FX_MAX_RANK];
    fx_dim dims[FX_MAX_RANK];
    fx_window_order(b, &dst, order);
    for (int i = 0; i < v->rank; i++)
        dims[i] = v->dims[order[i]];
    const char *name = fx_arena_printf(b->piece, "%s_%s", n->opcode == FX_PLACEHOLDER ? n->name : fx_build_name(b, n), what);
    dst.buf = fx_program_buf(b->p, FX_BUF_ARENA, name, v->dtype, v->rank, dims);
    b->p->bufs[dst.buf].loc = n->loc;
    b->p->bufs[dst.buf].note = layout;
    FX_TRY(fx_build_copy(b, name, fx_arena_printf(b->piece, "%s: to %s", n->name, layout), n, &src, &dst));
    *v = dst;
    return FX_OK;
}

fx_status fx_build_dense(fx_build *b, fx_node *n, fx_window *out)
{
    fx_window v, **cached = &b->dense[n->id];
    FX_TRY(fx_build_value(b, n, &v));
    if (!fx_window_is_dense(b, &v)) {
        if (!*cached) {
            fx_window pattern = v;
            fx_window_set_dense(b, &pattern);
            FX_TRY(copy_to(b, n, &pattern, "row-major", "dense", &v));
            *cached = fx_arena_dup(b->scratch, &v, sizeof v);
        }
        v = **cached;
    }
    fx_window_set_dense(b, &v); /* strides of sizes of 1 may be any in a dense window */
    *out = v;
    return FX_OK;
}

fx_status fx_build_nhwc(fx_build *b, fx_node *n, fx_window *out)
{
    fx_window v, **cached = &b->nhwc[n->id];
    if (b->value[n->id].buf < 0 && b->lazy[n->id]) {
        fx_window pattern = fx_build_channels_last(b, n);
        FX_TRY(fx_build_store(b, n, &pattern));
    }
    FX_TRY(fx_build_value(b, n, &v));
    bool fits = fx_dim_is(v.dims[1], 1) || fx_dim_is(v.strides[1], 1);
    for (int i = 0; i < 4; i++)
        fits = fits && (fx_dim_is(v.dims[i], 1) || fx_build_at_least(b, v.strides[i], 1));
    if (!fits) {
        if (!*cached) {
            fx_window pattern = fx_build_channels_last(b, n);
            FX_TRY(copy_to(b, n, &pattern, "NHWC", "nhwc", &v));
            *cached = fx_arena_dup(b->scratch, &v, sizeof v);
        }
        v = **cached;
    }
    for (int i = 0; i < 4; i++) /* kernels ask for strides that go forward, also where they are not used */
        if (fx_dim_is(v.dims[i], 1) && !fx_build_at_least(b, v.strides[i], 1))
            v.strides[i] = fx_dim_of(1);
    *out = v;
    return FX_OK;
}

fx_status fx_build_copy(fx_build *b, const char *name, const char *title, const fx_node *at, const fx_window *src, const fx_window *dst)
{
    fx_step *s = fx_program_step(b->p, name);
    s->loc = at->loc;
    s->title = fx_arena_printf(b->p->arena, "%s", title);
    s->shapes = fx_arena_printf(b->p->arena, "%s", fx_build_dims(b, src->rank, src->dims));
    b->n_vars = b->n_locals = 0;
    fx_nest_access acc[2] = {{.buf = dst->buf, .offset = dst->offset}, {.buf = src->buf, .offset = src->offset}};
    memcpy(acc[0].strides, dst->strides, sizeof dst->strides);
    memcpy(acc[1].strides, src->strides, sizeof src->strides);
    int order[FX_MAX_RANK];
    fx_window_order(b, dst, order);
    fx_nest nest = fx_nest_make(b, dst->rank, dst->dims, order, 2, acc);
    fx_stmt *store = fx_stmt_new(b->p, FX_ST_STORE);
    store->buf = dst->buf;
    store->index = fx_nest_index(b, &nest, &acc[0]);
    fx_affine from = fx_nest_index(b, &nest, &acc[1]);
    store->value = fx_s_cast(b->p, dst->dtype, fx_s_load(b->p, src->buf, &from));
    s->body = fx_nest_wrap(b, &nest, store);
    return FX_OK;
}
