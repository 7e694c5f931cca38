/* lower/select.c: contractions, pools, norms and softmax become kernel calls: descriptors, packed weights, workspace.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "lower/build.h"

/* Starts the step of a kernel call; buffers and fields are set by the caller. */
static fx_call_stmt *begin_call(fx_build *b, fx_node *root, fx_kernel_id kernel, const char *title)
{
    fx_step *s = fx_build_step(b, root, title);
    fx_stmt *st = fx_stmt_new(b->p, FX_ST_CALL);
    s->body = st;
    st->call = FX_NEW(b->p->arena, fx_call_stmt);
    st->call->kernel = kernel;
    st->call->name = s->name;
    for (int i = 0; i < FX_MAX_BUF_ARGS; i++)
        st->call->buf[i] = -1;
    return st->call;
}

/* Sets the argument called `name` of the kernel. */
static void set_buf(fx_call_stmt *c, const char *name, int buf, int64_t offset)
{
    int i = fx_kernel_buf(fx_kernel_get(c->kernel), name);
    c->buf[i] = buf;
    c->offset[i] = offset;
}

static int workspace(fx_build *b, const char *name, size_t bytes)
{
    if (!bytes)
        return -1;
    int64_t n = (int64_t)(bytes + sizeof(float) - 1) / (int64_t)sizeof(float);
    int id = fx_program_buf(b->p, FX_BUF_ARENA, fx_arena_printf(b->scratch, "%s_workspace", name), FX_F32, 1, &n);
    b->p->bufs[id].workspace = true;
    return id;
}

/* A weight buffer of n floats; *data is where to pack them. */
static int packed_buf(fx_build *b, const char *name, size_t n, const char *note, float **data)
{
    int64_t numel = (int64_t)n;
    int id = fx_program_buf(b->p, FX_BUF_WEIGHT, name, FX_F32, 1, &numel);
    *data = FX_NEW_ARRAY(b->p->arena, float, n);
    b->p->bufs[id].data = *data;
    b->p->bufs[id].note = note;
    return id;
}

/* Descriptors hold 32-bit numbers. */
static fx_status fits(fx_build *b, const fx_node *n, const fx_window *v)
{
    int64_t reach = 1;
    for (int i = 0; i < v->rank; i++) {
        int64_t s = v->strides[i] < 0 ? -v->strides[i] : v->strides[i];
        reach += (v->dims[i] > 0 ? v->dims[i] - 1 : 0) * s;
    }
    if (reach > INT32_MAX)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: a tensor of %lld elements is larger than kernels take", n->target,
                       (long long)reach);
    return FX_OK;
}

static fx_status only_f32(fx_build *b, const fx_node *n, fx_dtype dtype)
{
    if (dtype == FX_F32)
        return FX_OK;
    return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s: expected float32, got %s", n->target, fx_dtype_name(dtype));
}

/* ---- tails: bias, residual, activation -------------------------------------------------------------------- */

/* The residual of a group's tail, NULL if there is none, in memory as the result is: channels (the last memory dim) dense. */
static fx_status tail_residual(fx_build *b, fx_node *root, bool nhwc, fx_window *r, bool *has)
{
    fx_node *n = b->group[root->id].residual;
    *has = n != NULL;
    if (!n)
        return FX_OK;
    FX_TRY(nhwc ? fx_build_nhwc(b, n, r) : fx_build_dense(b, n, r));
    return fits(b, root, r);
}

/* The result may take the place of the residual when both fill their buffers in the same way: kernels read an element of r
 * right before they write it. Not when the residual is the contraction's input x too, of which other elements are read later. */
static void overlay_residual(fx_build *b, const fx_window *out, const fx_window *r, const fx_window *x)
{
    fx_buf *to = &b->p->bufs[out->buf], *from = &b->p->bufs[r->buf];
    if (r->buf == x->buf)
        return;
    if (to->kind != FX_BUF_ARENA || from->kind != FX_BUF_ARENA || to->numel != from->numel || out->offset || r->offset)
        return;
    int64_t numel = 1;
    for (int i = 0; i < out->rank; i++) {
        numel *= out->dims[i];
        if (out->dims[i] != 1 && out->strides[i] != r->strides[i])
            return;
    }
    if (numel == to->numel)
        to->overlay = r->buf;
}

static fx_status bias_buf(fx_build *b, const fx_node *n, fx_node *bias, const char *name, int32_t groups, int32_t per_group, int32_t multiple,
                          int *id)
{
    *id = -1;
    if (!bias)
        return FX_OK;
    const float *data;
    FX_TRY(fx_build_constant(b, n, bias, "bias", &data));
    float *packed;
    *id = packed_buf(b, fx_arena_printf(b->scratch, "%s_bias", name), fxrt_bias_packed_size(groups, per_group, multiple), NULL, &packed);
    fxrt_bias_pack(groups, per_group, multiple, data, packed);
    return FX_OK;
}

/* ---- convolution -------------------------------------------------------------------------------------------- */

static fx_status build_convolution(fx_build *b, fx_node *root)
{
    const fx_group g = b->group[root->id];
    fx_node *n = g.anchor, *x_node = fx_node_input(n, 0), *w_node = fx_node_input(n, 1);
    if (n->type->rank != 4)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "convolution over %d spatial dims cannot be compiled, only over 1 or 2",
                       n->type->rank - 2);
    FX_TRY(only_f32(b, n, n->type->dtype));
    fx_window x, out, r = {0};
    bool has_r;
    FX_TRY(fx_build_nhwc(b, x_node, &x));
    FX_TRY(tail_residual(b, root, true, &r, &has_r));
    fx_window pattern = fx_build_channels_last(root);
    FX_TRY(fx_build_place(b, root, &pattern, &out));
    if (out.dims[1] > 1 && out.strides[1] != 1) /* computed right into a row-major output: not with dense channels */
        return fx_fail(b->ctx, FX_INTERNAL, &n->loc, "a convolution's result was placed with strided channels");
    FX_TRY(fits(b, n, &x));
    FX_TRY(fits(b, n, &out));
    int64_t stride[2], pad[2], dil[2];
    fx_node_ints(n, 3, stride, 2);
    fx_node_ints(n, 4, pad, 2);
    fx_node_ints(n, 5, dil, 2);
    bool transposed = fx_node_bool(n, 6);
    int32_t groups = (int32_t)fx_node_int(n, 8);
    const fx_type *wt = w_node->type;
    fxrt_conv2d_desc d = {
        .n = (int32_t)x.dims[0], .ih = (int32_t)x.dims[2], .iw = (int32_t)x.dims[3], .ic = (int32_t)x.dims[1] / groups,
        .oh = (int32_t)out.dims[2], .ow = (int32_t)out.dims[3], .oc = (int32_t)out.dims[1] / groups, .groups = groups,
        .kh = (int32_t)wt->dims[2].value, .kw = (int32_t)wt->dims[3].value,
        .sh = (int32_t)stride[0], .sw = (int32_t)stride[1], .ph = (int32_t)pad[0], .pw = (int32_t)pad[1],
        .dh = (int32_t)dil[0], .dw = (int32_t)dil[1],
        .xs_n = (int32_t)x.strides[0], .xs_h = (int32_t)x.strides[2], .xs_w = (int32_t)x.strides[3],
        .ys_n = (int32_t)out.strides[0], .ys_h = (int32_t)out.strides[2], .ys_w = (int32_t)out.strides[3],
        .act = g.act, .act_a = g.act_a, .act_b = g.act_b,
    };
    if (has_r) {
        d.rs_n = (int32_t)r.strides[0];
        d.rs_h = (int32_t)r.strides[2];
        d.rs_w = (int32_t)r.strides[3];
    }
    bool depthwise = !transposed && groups > 1 && d.ic == 1 && d.oc == 1;
    fx_kernel_id kernel = transposed ? FX_K_conv_transpose2d : depthwise ? FX_K_conv2d_dw : FX_K_conv2d;
    const float *w;
    FX_TRY(fx_build_constant(b, n, w_node, "weight", &w));
    const char *title = fx_arena_printf(b->scratch, "%s %dx%d%s %d->%d%s%s", transposed ? "conv_transpose2d" : depthwise ? "depthwise conv2d" : "conv2d", d.kh, d.kw,
                                        d.sh > 1 || d.sw > 1 ? fx_arena_printf(b->scratch, "/%d", d.sh) : "", d.ic * groups, d.oc * groups,
                                        groups > 1 && !depthwise ? fx_arena_printf(b->scratch, " in %d groups", groups) : "", g.tail);
    const char *name = fx_build_name(b, n);
    float *packed;
    const char *wname = fx_arena_printf(b->scratch, "%s_weight", name);
    int wbuf;
    size_t ws;
    if (transposed) {
        wbuf = packed_buf(b, wname, fxrt_conv_transpose2d_packed_size(&d, &b->tile), "panels of the transposed convolution", &packed);
        fxrt_conv_transpose2d_pack(&d, &b->tile, w, packed);
        ws = fxrt_conv_transpose2d_workspace(&d, &b->tile, b->threads);
    } else if (depthwise) {
        wbuf = packed_buf(b, wname, fxrt_conv2d_dw_packed_size(&d, &b->tile), "[kh][kw][channels]", &packed);
        fxrt_conv2d_dw_pack(&d, &b->tile, w, packed);
        ws = fxrt_conv2d_dw_workspace(&d, &b->tile, b->threads);
    } else {
        wbuf = packed_buf(b, wname, fxrt_conv2d_packed_size(&d, &b->tile),
                          fx_arena_printf(b->p->arena, "[kh][kw][ic] in panels of %d output channels", b->tile.nr), &packed);
        fxrt_conv2d_pack(&d, &b->tile, w, packed);
        ws = fxrt_conv2d_workspace(&d, &b->tile, b->threads);
    }
    int bias;
    if (depthwise)
        FX_TRY(bias_buf(b, n, fx_node_input(n, 2), name, 1, groups, b->tile.lanes, &bias));
    else
        FX_TRY(bias_buf(b, n, fx_node_input(n, 2), name, groups, d.oc, b->tile.nr, &bias));
    int ws_buf = workspace(b, name, ws);
    fx_call_stmt *c = begin_call(b, root, kernel, title);
    fx_call_from_desc(c, &d);
    set_buf(c, "x", x.buf, x.offset);
    set_buf(c, "w", wbuf, 0);
    set_buf(c, "b", bias, 0);
    set_buf(c, "y", out.buf, out.offset);
    set_buf(c, "ws", ws_buf, 0);
    if (has_r) {
        set_buf(c, "r", r.buf, r.offset);
        overlay_residual(b, &out, &r, &x);
    }
    b->value[root->id] = out;
    return FX_OK;
}

/* ---- matrix products ------------------------------------------------------------------------------------------ */

/* Whether leading dims of v (all but the last `tail`) can be walked with one stride; *stride and *count give it. */
static bool rows_of(const fx_window *v, int tail, int64_t *count, int64_t *stride)
{
    *count = 1;
    *stride = 0;
    bool first = true;
    for (int i = v->rank - tail - 1; i >= 0; i--) {
        if (v->dims[i] == 1)
            continue;
        if (first)
            *stride = v->strides[i];
        else if (v->strides[i] != *stride * *count)
            return false;
        first = false;
        *count *= v->dims[i];
    }
    if (first)
        *stride = v->rank > tail ? v->dims[v->rank - 1] : 0;
    return true;
}

static fx_status build_linear(fx_build *b, fx_node *root)
{
    const fx_group g = b->group[root->id];
    fx_node *n = g.anchor, *x_node = fx_node_input(n, 0), *w_node = fx_node_input(n, 1);
    FX_TRY(only_f32(b, n, n->type->dtype));
    fx_window x, out, r = {0};
    bool has_r;
    int64_t m, x_m;
    FX_TRY(fx_build_value(b, x_node, &x));
    int last = x.rank - 1;
    if ((x.dims[last] != 1 && x.strides[last] != 1) || !rows_of(&x, 1, &m, &x_m) || x_m < 0) {
        FX_TRY(fx_build_dense(b, x_node, &x));
        rows_of(&x, 1, &m, &x_m);
    }
    FX_TRY(tail_residual(b, root, false, &r, &has_r));
    FX_TRY(fx_build_place(b, root, NULL, &out));
    FX_TRY(fits(b, n, &x));
    FX_TRY(fits(b, n, &out));
    int32_t k = (int32_t)x.dims[last], cols = (int32_t)out.dims[out.rank - 1];
    const float *w;
    FX_TRY(fx_build_constant(b, n, w_node, "weight", &w));
    fxrt_gemm_desc d = {.batch = 1, .m = (int32_t)m, .n = cols, .k = k, .x_m = (int32_t)x_m, .y_m = cols, .r_m = cols, .w_k = 1, .w_n = k,
                        .act = g.act, .act_a = g.act_a, .act_b = g.act_b};
    const char *name = fx_build_name(b, n);
    float *packed;
    int wbuf = packed_buf(b, fx_arena_printf(b->scratch, "%s_weight", name), fxrt_gemm_packed_size(&d, &b->tile),
                          fx_arena_printf(b->p->arena, "[in] in panels of %d outputs", b->tile.nr), &packed);
    fxrt_gemm_pack(&d, &b->tile, w, packed);
    int bias;
    FX_TRY(bias_buf(b, n, fx_node_input(n, 2), name, 1, cols, b->tile.nr, &bias));
    fx_call_stmt *c = begin_call(b, root, FX_K_gemm, fx_arena_printf(b->scratch, "linear %d->%d%s", k, cols, g.tail));
    fx_call_from_desc(c, &d);
    set_buf(c, "x", x.buf, x.offset);
    set_buf(c, "w", wbuf, 0);
    set_buf(c, "b", bias, 0);
    set_buf(c, "y", out.buf, out.offset);
    if (has_r) {
        set_buf(c, "r", r.buf, r.offset);
        overlay_residual(b, &out, &r, &x);
    }
    b->value[root->id] = out;
    return FX_OK;
}

/* mm, bmm, addmm: both matrices are computed, or constants that no rewrite made into a linear. */
static fx_status build_matmul(fx_build *b, fx_node *root)
{
    const fx_group g = b->group[root->id];
    fx_node *n = g.anchor;
    int at = n->op->id == FX_OP_addmm ? 1 : 0;
    fx_node *x_node = fx_node_input(n, at), *w_node = fx_node_input(n, at + 1), *add = at ? fx_node_input(n, 0) : NULL;
    FX_TRY(only_f32(b, n, n->type->dtype));
    if (at && (fx_node_float(n, 3) != 1 || fx_node_float(n, 4) != 1))
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "addmm with alpha or beta other than 1 cannot be compiled yet");
    fx_window x, w, out, r = {0};
    bool has_r;
    FX_TRY(fx_build_value(b, x_node, &x));
    int rank = x.rank;
    if ((x.dims[rank - 1] != 1 && x.strides[rank - 1] != 1) || x.strides[rank - 2] < 0 || (rank == 3 && x.strides[0] < 0))
        FX_TRY(fx_build_dense(b, x_node, &x));
    FX_TRY(fx_build_value(b, w_node, &w));
    for (int i = 0; i < rank; i++)
        if (w.strides[i] < 0) {
            FX_TRY(fx_build_dense(b, w_node, &w));
            break;
        }
    FX_TRY(tail_residual(b, root, false, &r, &has_r));
    FX_TRY(fx_build_place(b, root, NULL, &out));
    FX_TRY(fits(b, n, &x));
    FX_TRY(fits(b, n, &w));
    FX_TRY(fits(b, n, &out));
    bool batched = rank == 3;
    fxrt_gemm_desc d = {
        .batch = batched ? (int32_t)x.dims[0] : 1, .m = (int32_t)x.dims[rank - 2], .n = (int32_t)w.dims[rank - 1], .k = (int32_t)x.dims[rank - 1],
        .x_b = batched ? (int32_t)x.strides[0] : 0, .x_m = (int32_t)x.strides[rank - 2],
        .y_b = batched ? (int32_t)out.strides[0] : 0, .y_m = (int32_t)out.strides[rank - 2],
        .w_b = batched ? (int32_t)w.strides[0] : 0, .w_k = (int32_t)w.strides[rank - 2], .w_n = (int32_t)w.strides[rank - 1],
        .act = g.act, .act_a = g.act_a, .act_b = g.act_b,
    };
    d.r_b = d.y_b;
    d.r_m = d.y_m;
    int bias = -1;
    const char *name = fx_build_name(b, n);
    if (add && fx_build_is_constant(add) && (add->type->rank == 1 && add->type->dims[0].value == d.n)) {
        FX_TRY(bias_buf(b, n, add, name, 1, d.n, b->tile.nr, &bias));
    } else if (add) {
        if (has_r || !fx_type_same_shape(add->type, n->type))
            return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "addmm whose first operand is broadcast and computed cannot be compiled yet");
        FX_TRY(fx_build_dense(b, add, &r));
        has_r = true;
    }
    int ws = workspace(b, name, fxrt_matmul_workspace(&d, &b->tile, b->threads));
    fx_call_stmt *c = begin_call(b, root, FX_K_matmul, fx_arena_printf(b->scratch, "matmul %dx%d by %dx%d%s", d.m, d.k, d.k, d.n, g.tail));
    fx_call_from_desc(c, &d);
    set_buf(c, "x", x.buf, x.offset);
    set_buf(c, "w", w.buf, w.offset);
    set_buf(c, "b", bias, 0);
    set_buf(c, "y", out.buf, out.offset);
    set_buf(c, "ws", ws, 0);
    if (has_r)
        set_buf(c, "r", r.buf, r.offset);
    b->value[root->id] = out;
    return FX_OK;
}

fx_status fx_build_contraction(fx_build *b, fx_node *root)
{
    const fx_node *n = b->group[root->id].anchor;
    switch (n->op->id) {
    case FX_OP_convolution:
        return build_convolution(b, root);
    case FX_OP_linear:
        return build_linear(b, root);
    case FX_OP_mm:
    case FX_OP_bmm:
    case FX_OP_addmm:
        return build_matmul(b, root);
    default:
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s cannot be compiled yet", n->op->name);
    }
}

/* ---- pooling and resampling ------------------------------------------------------------------------------------ */

static void set_image(const fx_window *x, const fx_window *y, int32_t *n, int32_t *ih, int32_t *iw, int32_t *c, int32_t *oh, int32_t *ow)
{
    *n = (int32_t)x->dims[0];
    *c = (int32_t)x->dims[1];
    *ih = (int32_t)x->dims[2];
    *iw = (int32_t)x->dims[3];
    *oh = (int32_t)y->dims[2];
    *ow = (int32_t)y->dims[3];
}

static fx_status pool_values(fx_build *b, fx_node *n, fx_window *x, fx_window *y)
{
    const fx_type *t = n->type->kind == FX_TYPE_TUPLE ? n->type->items[0] : n->type;
    if (t->rank != 4)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s of a tensor of rank %d cannot be compiled yet", n->op->name, t->rank);
    FX_TRY(only_f32(b, n, t->dtype));
    FX_TRY(fx_build_nhwc(b, fx_node_input(n, 0), x));
    fx_window pattern = fx_build_channels_last(n);
    FX_TRY(fx_build_place(b, n, &pattern, y));
    FX_TRY(fits(b, n, x));
    return fits(b, n, y);
}

static void finish_pool(fx_build *b, fx_node *n, fx_call_stmt *c, const fx_window *x, const fx_window *y)
{
    set_buf(c, "x", x->buf, x->offset);
    set_buf(c, "y", y->buf, y->offset);
    b->value[n->id] = *y;
}

static fx_status build_window_pool(fx_build *b, fx_node *n)
{
    fx_window x, y;
    FX_TRY(pool_values(b, n, &x, &y));
    bool max = n->op->id == FX_OP_max_pool2d;
    int64_t k[2], s[2], p[2], dil[2] = {1, 1};
    int count = fx_node_ints(n, 1, k, 2);
    if (count == 1)
        k[1] = k[0];
    count = fx_node_ints(n, 2, s, 2);
    if (count <= 0)
        memcpy(s, k, sizeof s);
    else if (count == 1)
        s[1] = s[0];
    if (fx_node_ints(n, 3, p, 2) == 1)
        p[1] = p[0];
    if (max && fx_node_ints(n, 4, dil, 2) == 1)
        dil[1] = dil[0];
    fxrt_pool2d_desc d = {
        .kh = (int32_t)k[0], .kw = (int32_t)k[1], .sh = (int32_t)s[0], .sw = (int32_t)s[1], .ph = (int32_t)p[0], .pw = (int32_t)p[1],
        .dh = (int32_t)dil[0], .dw = (int32_t)dil[1],
        .xs_n = (int32_t)x.strides[0], .xs_h = (int32_t)x.strides[2], .xs_w = (int32_t)x.strides[3],
        .ys_n = (int32_t)y.strides[0], .ys_h = (int32_t)y.strides[2], .ys_w = (int32_t)y.strides[3],
    };
    if (!max) {
        d.count_include_pad = fx_node_bool(n, 5);
        d.divisor = fx_node_is_none(n, 6) ? 0 : (int32_t)fx_node_int(n, 6);
    }
    set_image(&x, &y, &d.n, &d.ih, &d.iw, &d.c, &d.oh, &d.ow);
    fx_call_stmt *c = begin_call(b, n, max ? FX_K_max_pool2d : FX_K_avg_pool2d,
                                 fx_arena_printf(b->scratch, "%s %dx%d/%d", max ? "max_pool2d" : "avg_pool2d", d.kh, d.kw, d.sh));
    fx_call_from_desc(c, &d);
    finish_pool(b, n, c, &x, &y);
    return FX_OK;
}

static fxrt_resize2d_desc resize_desc(const fx_window *x, const fx_window *y)
{
    fxrt_resize2d_desc d = {
        .xs_n = (int32_t)x->strides[0], .xs_h = (int32_t)x->strides[2], .xs_w = (int32_t)x->strides[3],
        .ys_n = (int32_t)y->strides[0], .ys_h = (int32_t)y->strides[2], .ys_w = (int32_t)y->strides[3],
    };
    set_image(x, y, &d.n, &d.ih, &d.iw, &d.c, &d.oh, &d.ow);
    return d;
}

/* Input steps per output step as aten's area_pixel_compute_scale: from the given factor if there is one. */
static float input_step(const fx_node *n, int param, bool align_corners, int32_t in, int32_t out)
{
    if (align_corners)
        return out > 1 ? (float)(in - 1) / (float)(out - 1) : 0;
    if (!fx_node_is_none(n, param) && fx_node_float(n, param) > 0)
        return (float)(1.0 / fx_node_float(n, param));
    return (float)in / (float)out;
}

static fx_status build_resize(fx_build *b, fx_node *n)
{
    fx_window x, y;
    FX_TRY(pool_values(b, n, &x, &y));
    fxrt_resize2d_desc d = resize_desc(&x, &y);
    fx_kernel_id kernel = FX_K_adaptive_avg_pool2d;
    const char *what = "adaptive_avg_pool2d";
    switch (n->op->id) {
    case FX_OP_adaptive_max_pool2d:
        kernel = FX_K_adaptive_max_pool2d;
        what = "adaptive_max_pool2d";
        break;
    case FX_OP_upsample_nearest2d:
        kernel = FX_K_upsample_nearest2d;
        what = "upsample_nearest2d";
        d.scale_h = input_step(n, 2, false, d.ih, d.oh);
        d.scale_w = input_step(n, 3, false, d.iw, d.ow);
        break;
    case FX_OP_upsample_bilinear2d:
        kernel = FX_K_upsample_bilinear2d;
        what = "upsample_bilinear2d";
        d.align_corners = fx_node_bool(n, 2);
        d.scale_h = input_step(n, 3, d.align_corners, d.ih, d.oh);
        d.scale_w = input_step(n, 4, d.align_corners, d.iw, d.ow);
        break;
    default:
        break;
    }
    fx_call_stmt *c = begin_call(b, n, kernel, fx_arena_printf(b->scratch, "%s to %dx%d", what, d.oh, d.ow));
    fx_call_from_desc(c, &d);
    finish_pool(b, n, c, &x, &y);
    return FX_OK;
}

fx_status fx_build_pool(fx_build *b, fx_node *n)
{
    return n->op->id == FX_OP_max_pool2d || n->op->id == FX_OP_avg_pool2d ? build_window_pool(b, n) : build_resize(b, n);
}

fx_status fx_build_global_mean(fx_build *b, fx_node *n, bool *done)
{
    int64_t dims[FX_MAX_RANK];
    fx_node *x_node = fx_node_input(n, 0);
    *done = false;
    if (x_node->type->rank != 4 || x_node->type->dtype != FX_F32 || fx_node_ints(n, 1, dims, FX_MAX_RANK) != 2)
        return FX_OK;
    int64_t a = dims[0] < 0 ? dims[0] + 4 : dims[0], c = dims[1] < 0 ? dims[1] + 4 : dims[1];
    if (!((a == 2 && c == 3) || (a == 3 && c == 2)) || b->home[n->id].cat)
        return FX_OK;
    fx_window x, y;
    FX_TRY(fx_build_nhwc(b, x_node, &x));
    FX_TRY(fx_build_place(b, n, NULL, &y));
    FX_TRY(fits(b, n, &x));
    /* One pixel, whether the result keeps the dims or not. */
    fx_window pixel = y;
    pixel.dims[2] = pixel.dims[3] = 1;
    pixel.strides[2] = pixel.strides[3] = x.dims[1];
    fxrt_resize2d_desc d = resize_desc(&x, &pixel);
    fx_call_stmt *call = begin_call(b, n, FX_K_adaptive_avg_pool2d, fx_arena_printf(b->scratch, "mean over %dx%d", d.ih, d.iw));
    fx_call_from_desc(call, &d);
    finish_pool(b, n, call, &x, &y);
    *done = true;
    return FX_OK;
}

/* ---- norms and softmax -------------------------------------------------------------------------------------------- */

static fx_status vector_buf(fx_build *b, const fx_node *n, fx_node *from, const char *what, int *id)
{
    *id = -1;
    if (!from)
        return FX_OK;
    const float *data;
    FX_TRY(fx_build_constant(b, n, from, what, &data));
    int64_t numel = fx_type_numel(from->type);
    *id = fx_program_buf(b->p, FX_BUF_WEIGHT, from->target, FX_F32, 1, &numel);
    b->p->bufs[*id].data = data;
    b->p->bufs[*id].loc = from->loc;
    return FX_OK;
}

/* Softmax works on memory order: whatever order the dims lie in, the tensor is [outer][n][inner]. */
static fx_status build_softmax(fx_build *b, fx_node *n)
{
    fx_node *x_node = fx_node_input(n, 0);
    fx_window x, y;
    FX_TRY(only_f32(b, n, n->type->dtype));
    FX_TRY(fx_build_value(b, x_node, &x));
    int order[FX_MAX_RANK];
    int64_t stride = 1;
    fx_window_order(&x, order);
    bool dense = true;
    for (int i = x.rank - 1; i >= 0; i--) {
        dense = dense && (x.dims[order[i]] == 1 || x.strides[order[i]] == stride);
        stride *= x.dims[order[i]];
    }
    if (!dense || b->home[n->id].output >= 0) {
        FX_TRY(fx_build_dense(b, x_node, &x));
        fx_window_order(&x, order);
    }
    FX_TRY(fx_build_place(b, n, &x, &y));
    int64_t d64 = fx_node_int(n, 1), outer = 1, inner = 1;
    int dim = (int)(d64 < 0 ? d64 + x.rank : d64);
    bool before = true;
    for (int i = 0; i < x.rank; i++) {
        if (order[i] == dim)
            before = false;
        else if (before)
            outer *= x.dims[order[i]];
        else
            inner *= x.dims[order[i]];
    }
    FX_TRY(fits(b, n, &x));
    fxrt_softmax_desc d = {.outer = (int32_t)outer, .n = x.rank ? (int32_t)x.dims[dim] : 1, .inner = (int32_t)inner};
    bool log = n->op->id == FX_OP__log_softmax;
    fx_call_stmt *c = begin_call(b, n, log ? FX_K_log_softmax : FX_K_softmax,
                                 fx_arena_printf(b->scratch, "%s over %d", log ? "log_softmax" : "softmax", d.n));
    fx_call_from_desc(c, &d);
    finish_pool(b, n, c, &x, &y);
    return FX_OK;
}

static fx_status build_layer_norm(fx_build *b, fx_node *n)
{
    fx_node *x_node = fx_node_input(n, 0);
    fx_window x, y;
    int64_t shape[FX_MAX_RANK], rows, x_m, size = 1, stride = 1;
    FX_TRY(only_f32(b, n, n->type->items[0]->dtype));
    int tail = fx_node_ints(n, 1, shape, FX_MAX_RANK);
    FX_TRY(fx_build_value(b, x_node, &x));
    bool dense = true;
    for (int i = 0; i < tail; i++) {
        int d = x.rank - 1 - i;
        dense = dense && (x.dims[d] == 1 || x.strides[d] == stride);
        stride *= x.dims[d];
        size *= x.dims[d];
    }
    if (!dense || !rows_of(&x, tail, &rows, &x_m) || x_m < 0) {
        FX_TRY(fx_build_dense(b, x_node, &x));
        rows_of(&x, tail, &rows, &x_m);
    }
    if (rows == 1)
        x_m = size;
    FX_TRY(fx_build_place(b, n, NULL, &y));
    FX_TRY(fits(b, n, &x));
    int w, bias;
    FX_TRY(vector_buf(b, n, fx_node_input(n, 2), "weight", &w));
    FX_TRY(vector_buf(b, n, fx_node_input(n, 3), "bias", &bias));
    fxrt_layer_norm_desc d = {.rows = (int32_t)rows, .n = (int32_t)size, .x_m = (int32_t)x_m, .y_m = (int32_t)size, .eps = (float)fx_node_float(n, 4)};
    fx_call_stmt *c = begin_call(b, n, FX_K_layer_norm, fx_arena_printf(b->scratch, "layer_norm over %d", d.n));
    fx_call_from_desc(c, &d);
    set_buf(c, "w", w, 0);
    set_buf(c, "b", bias, 0);
    finish_pool(b, n, c, &x, &y);
    return FX_OK;
}

static fx_status build_group_norm(fx_build *b, fx_node *n)
{
    fx_node *x_node = fx_node_input(n, 0);
    const fx_type *t = n->type->items[0];
    FX_TRY(only_f32(b, n, t->dtype));
    fx_window x, y;
    if (t->rank == 4) {
        FX_TRY(fx_build_nhwc(b, x_node, &x));
        if (x.dims[2] > 1 && x.strides[2] != x.strides[3] * x.dims[3])
            return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "group_norm of a window of an image cannot be compiled yet");
        fx_window pattern = fx_build_channels_last(n);
        FX_TRY(fx_build_place(b, n, &pattern, &y));
    } else {
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "group_norm of a tensor of rank %d cannot be compiled yet", t->rank);
    }
    FX_TRY(fits(b, n, &x));
    int w, bias;
    FX_TRY(vector_buf(b, n, fx_node_input(n, 1), "weight", &w));
    FX_TRY(vector_buf(b, n, fx_node_input(n, 2), "bias", &bias));
    fxrt_group_norm_desc d = {.n = (int32_t)x.dims[0], .hw = (int32_t)(x.dims[2] * x.dims[3]), .c = (int32_t)x.dims[1], .groups = (int32_t)fx_node_int(n, 6),
                              .xs_n = (int32_t)x.strides[0], .xs_p = (int32_t)(x.dims[3] > 1 ? x.strides[3] : x.strides[2]),
                              .ys_n = (int32_t)y.strides[0], .ys_p = (int32_t)y.strides[3], .eps = (float)fx_node_float(n, 7)};
    fx_call_stmt *c = begin_call(b, n, FX_K_group_norm, fx_arena_printf(b->scratch, "group_norm in %d groups", d.groups));
    fx_call_from_desc(c, &d);
    set_buf(c, "w", w, 0);
    set_buf(c, "b", bias, 0);
    finish_pool(b, n, c, &x, &y);
    return FX_OK;
}

fx_status fx_build_norm(fx_build *b, fx_node *n)
{
    switch (n->op->id) {
    case FX_OP__softmax:
    case FX_OP__log_softmax:
        return build_softmax(b, n);
    case FX_OP_native_layer_norm:
        return build_layer_norm(b, n);
    case FX_OP_native_group_norm:
        return build_group_norm(b, n);
    default:
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "%s cannot be compiled yet", n->op->name);
    }
}
