/* lower/select.c: what choosing kernels shares: calls, packed weights, workspace, tails.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "ir/ops.h"
#include "lower/select.h"

fx_call_stmt *fx_call_new(fx_build *b, fx_kernel_id kernel)
{
    fx_call_stmt *c = FX_NEW(b->piece, fx_call_stmt);
    c->kernel = kernel;
    for (int i = 0; i < FX_MAX_BUF_ARGS; i++)
        c->buf[i] = -1;
    return c;
}

void fx_call_emit(fx_build *b, fx_node *root, fx_call_stmt *c, const char *title)
{
    fx_program_limit_call(b->p, c);
    fx_step *s = fx_build_step(b, root, title);
    fx_stmt *st = fx_stmt_new(b->p, FX_ST_CALL);
    s->body = st;
    *st->call = *c;
    st->call->name = s->name;
}

void fx_call_set_buf(fx_call_stmt *c, const char *name, int buf, fx_dim offset)
{
    int i = fx_kernel_buf(fx_kernel_get(c->kernel), name);
    if (i < 0 && buf < 0)
        return; /* a row need not have an argument that is left out */
    c->buf[i] = buf;
    c->offset[i] = offset;
}

void fx_call_set_window(fx_call_stmt *c, const char *name, const fx_window *v)
{
    fx_call_set_buf(c, name, v->buf, v->offset);
}

void fx_call_set_act(fx_call_stmt *c, const fx_group *g)
{
    fx_call_set(c, "act", g->act);
    fx_call_set(c, "act_a", g->act_a);
    fx_call_set(c, "act_b", g->act_b);
}

int fx_select_workspace(fx_build *b, const char *name, size_t bytes)
{
    return bytes ? fx_select_workspace_dim(b, name, fx_dim_of((int64_t)((bytes + sizeof(float) - 1) / sizeof(float)))) : -1;
}

int fx_select_workspace_dim(fx_build *b, const char *name, fx_dim n)
{
    int id = fx_program_buf(b->p, FX_BUF_ARENA, fx_arena_printf(b->piece, "%s_workspace", name), FX_F32, 1, &n);
    b->p->bufs[id].workspace = true;
    return id;
}

float *fx_select_floats(fx_build *b, size_t n)
{
    enum { CACHE_LINE = 64 };
    float *at = FX_NEW_ARRAY(b->p->arena, float, n + CACHE_LINE / sizeof(float));
    while ((uintptr_t)at % CACHE_LINE)
        at++;
    return at;
}

int fx_select_packed(fx_build *b, const char *name, fx_dtype type, size_t n, const char *note, float **data)
{
    fx_dim numel = fx_dim_of((int64_t)n);
    int id = fx_program_buf(b->p, FX_BUF_WEIGHT, name, type, 1, &numel);
    *data = fx_select_floats(b, n);
    b->p->bufs[id].data = *data;
    b->p->bufs[id].note = note;
    return id;
}

/* In place, from the first one on: what is not read yet lies behind what is written. */
void fx_select_packed_end(const fx_build *b, int id)
{
    const fx_buf *to = &b->p->bufs[id];
    if (to->dtype != FX_F32)
        fx_row_store(to->dtype, (void *)(uintptr_t)to->data, 1, FX_KIND_F32, to->data, to->numel.value);
}

fx_status fx_select_bias(fx_build *b, const fx_node *n, fx_node *bias, fx_dtype type, const char *name, int32_t groups, int32_t per_group,
                         int32_t multiple, int *id)
{
    *id = -1;
    if (!bias)
        return FX_OK;
    const float *data;
    FX_TRY(fx_build_constant(b, n, bias, "bias", &data));
    float *packed;
    *id = fx_select_packed(b, fx_arena_printf(b->piece, "%s_bias", name), type, fxrt_bias_packed_size(groups, per_group, multiple), NULL, &packed);
    fxrt_bias_pack(groups, per_group, multiple, data, packed);
    fx_select_packed_end(b, *id);
    return FX_OK;
}

fx_status fx_select_fits(fx_build *b, const fx_node *n, const fx_window *v)
{
    fx_dim reach = fx_dim_of(1);
    for (int i = 0; i < v->rank; i++) {
        fx_dim last = fx_dim_is(v->dims[i], 0) ? fx_dim_of(0) : fx_dim_plus(b->ctx, v->dims[i], -1);
        reach = fx_dim_add(b->ctx, reach, fx_dim_mul(b->ctx, last, fx_window_magnitude(b, v->strides[i])));
    }
    if (!fx_dim_known(reach)) {
        fx_program_limit(b->p, fx_dim_of(INT32_MAX), reach, "kernels count in 32 bits");
        return FX_OK;
    }
    if (reach.value > INT32_MAX)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: a tensor of %lld elements is larger than kernels take", n->target,
                       (long long)reach.value);
    return FX_OK;
}

fx_status fx_select_type(fx_build *b, const fx_node *n, fx_kernel_id kernel, fx_dtype dtype, fx_dtype *type)
{
    if (dtype != FX_F32 && dtype != FX_F16 && dtype != FX_BF16)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: expected float32, float16 or bfloat16, got %s", n->target, fx_dtype_name(dtype));
    *type = fx_lower_takes(b->opt, kernel, dtype) ? dtype : FX_F32;
    for (int i = 0; i < n->n_operands; i++) {
        const fx_type *t = n->operands[i].def->type;
        if (t && t->kind == FX_TYPE_TENSOR && t->dtype != dtype)
            *type = FX_F32;
    }
    return FX_OK;
}

/* v, converted into a buffer of its own whose dims lie in memory as those of `like`. */
static fx_status converted(fx_build *b, fx_node *n, const fx_window *v, fx_dtype to, const fx_window *like, fx_window *out)
{
    const char *name = fx_arena_printf(b->piece, "%s_%s", n->opcode == FX_PLACEHOLDER ? n->name : fx_build_name(b, n), fx_dtype_short(to));
    FX_TRY(fx_build_new(b, n, name, to, like, out));
    return fx_build_copy(b, name, fx_arena_printf(b->piece, "%s: %s to %s", n->name, fx_dtype_name(v->dtype), fx_dtype_name(to)), n, v, out);
}

fx_status fx_select_input(fx_build *b, fx_node *n, fx_dtype type, fx_select_layout layout, fx_window *out)
{
    fx_window v;
    if (layout == FX_CHANNELS_LAST && n->type->dtype == type)
        return fx_build_nhwc(b, n, out); /* a view that is not stored yet is stored so */
    FX_TRY(fx_build_value(b, n, &v));
    if (v.dtype == type)
        return layout == FX_AS_IT_LIES ? (*out = v, FX_OK) : fx_build_dense(b, n, out);
    fx_window like = v;
    if (layout == FX_CHANNELS_LAST)
        like = fx_build_channels_last(b, n);
    else
        fx_window_set_dense(b, &like);
    return converted(b, n, &v, type, &like, out);
}

/* Whether the kernel's result is not what the place of n holds. */
static bool unsettled(const fx_build *b, const fx_node *n, fx_dtype type, const fx_window *like)
{
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    return t->dtype != type || (like && t->rank == 4 && !b->channels_last);
}

fx_status fx_select_place(fx_build *b, fx_node *n, fx_dtype type, const fx_window *like, fx_window *out)
{
    if (!unsettled(b, n, type, like))
        return fx_build_place(b, n, like, out);
    fx_node *named = b->group[n->id].anchor ? b->group[n->id].anchor : n;
    fx_window pattern = fx_build_channels_last(b, n);
    if (!like)
        fx_window_set_dense(b, &pattern);
    return fx_build_new(b, named, fx_arena_printf(b->piece, "%s_%s", fx_build_name(b, named), fx_dtype_short(type)), type, like ? like : &pattern, out);
}

fx_status fx_select_settle(fx_build *b, fx_node *n, const fx_window *out)
{
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    fx_window *v = &b->value[n->id];
    bool layout = t->rank == 4 && !b->channels_last && !fx_window_is_dense(b, out);
    if (out->dtype == t->dtype && !layout) {
        *v = *out;
        return FX_OK;
    }
    FX_TRY(fx_build_place(b, n, b->channels_last ? out : NULL, v));
    const char *what = layout ? "to row-major" : fx_arena_printf(b->piece, "float32 to %s", fx_dtype_name(t->dtype));
    return fx_build_copy(b, fx_arena_printf(b->piece, "%s_out", fx_build_name(b, n)), fx_arena_printf(b->piece, "%s: %s", n->name, what), n, out, v);
}

fx_status fx_select_residual(fx_build *b, fx_node *root, fx_dtype type, bool nhwc, fx_window *r, bool *has)
{
    fx_node *n = b->group[root->id].residual;
    *has = n != NULL;
    if (!n)
        return FX_OK;
    FX_TRY(fx_select_input(b, n, type, nhwc ? FX_CHANNELS_LAST : FX_ROW_MAJOR, r));
    return fx_select_fits(b, root, r);
}

/* Kernels read an element of r right before they write it. Not when the residual is the contraction's input x too, of which
 * other elements are read later. */
void fx_select_overlay(fx_build *b, const fx_window *out, const fx_window *r, const fx_window *x)
{
    fx_buf *to = &b->p->bufs[out->buf], *from = &b->p->bufs[r->buf];
    if ((x && r->buf == x->buf) || (b->opt->off & FX_OFF(INPLACE)))
        return;
    if (to->kind != FX_BUF_ARENA || from->kind != FX_BUF_ARENA || !fx_dim_equal(to->numel, from->numel) || !fx_dim_is(out->offset, 0) ||
        !fx_dim_is(r->offset, 0))
        return;
    for (int i = 0; i < out->rank; i++)
        if (!fx_dim_is(out->dims[i], 1) && !fx_dim_equal(out->strides[i], r->strides[i]))
            return;
    if (fx_dim_equal(fx_window_count(b, out), to->numel))
        to->overlay = r->buf;
}

bool fx_window_rows(fx_build *b, const fx_window *v, int tail, fx_dim *count, fx_dim *stride)
{
    *count = fx_dim_of(1);
    *stride = fx_dim_of(0);
    bool first = true;
    for (int i = v->rank - tail - 1; i >= 0; i--) {
        if (fx_dim_is(v->dims[i], 1))
            continue;
        if (first)
            *stride = v->strides[i];
        else if (!fx_dim_equal(v->strides[i], fx_dim_mul(b->ctx, *stride, *count)))
            return false;
        first = false;
        *count = fx_dim_mul(b->ctx, *count, v->dims[i]);
    }
    if (first)
        *stride = v->rank > tail ? v->dims[v->rank - 1] : fx_dim_of(0);
    return true;
}

bool fx_window_unit(const fx_window *v, int dim)
{
    return fx_dim_is(v->dims[dim], 1) || fx_dim_is(v->strides[dim], 1);
}

bool fx_window_forward(fx_build *b, const fx_window *v)
{
    for (int i = 0; i < v->rank; i++)
        if (!fx_build_at_least(b, v->strides[i], 0))
            return false;
    return true;
}

/* Kernels whose result may take the place of x. */
static bool may_be_x(fx_kernel_id id)
{
    const fx_kernel *k = fx_kernel_get(id);
    return fx_kernel_in_step(k) >= 0 && fx_kernel_in_step(k) == fx_kernel_buf(k, "x");
}

static bool reads_twice(const fx_call_stmt *c, int buf)
{
    int n = 0;
    for (int i = 0; i < FX_MAX_BUF_ARGS; i++)
        n += c->buf[i] == buf;
    return n > 1;
}

fx_status fx_select_finish(fx_build *b, fx_node *n, fx_call_stmt *c, const fx_window *x, const fx_window *y, const char *title)
{
    fx_call_set_window(c, "x", x);
    fx_call_set_window(c, "y", y);
    bool same = x->rank == y->rank; /* sizes of 1 included: their strides are fields, which verifiers compare */
    for (int i = 0; same && i < x->rank; i++)
        same = fx_dim_equal(x->strides[i], y->strides[i]) || c->kernel != FX_K_attention;
    if (same && may_be_x(c->kernel) && !reads_twice(c, x->buf))
        fx_select_overlay(b, y, x, NULL);
    fx_call_emit(b, n, c, title);
    return fx_select_settle(b, n, y);
}

fx_status fx_build_contraction(fx_build *b, fx_node *root)
{
    const fx_node *n = b->group[root->id].anchor;
    if (!fx_build_has_kernel(n))
        return fx_build_sums(b, root);
    switch (n->op->id) {
    case FX_OP_convolution:
        return fx_select_convolution(b, root);
    case FX_OP_conv_weight_grad:
        return fx_select_weight_grad(b, root);
    case FX_OP_linear:
        return fx_select_linear(b, root);
    case FX_OP_mm:
    case FX_OP_bmm:
    case FX_OP_addmm:
        return fx_select_matmul(b, root);
    default:
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s cannot be compiled yet", n->op->name);
    }
}
