/* lower/select_conv.c: convolutions become kernel calls.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/conv_ways.h"
#include "lower/select.h"
#include "runtime/cuda/conv_gemm.h"

/* Dims and strides of an image, under the names the descriptor has for them: "ih" "iw", "xs_n" "xs_h" "xs_w". */
static void set_image(fx_call_stmt *c, const fx_window *v, const char *h, const char *w, char stride)
{
    const char name[3][5] = {{stride, 's', '_', 'n', 0}, {stride, 's', '_', 'h', 0}, {stride, 's', '_', 'w', 0}};
    if (h) {
        fx_call_set_dim(c, h, v->dims[2]);
        fx_call_set_dim(c, w, v->dims[3]);
    }
    fx_call_set_dim(c, name[0], v->strides[0]);
    fx_call_set_dim(c, name[1], v->strides[2]);
    fx_call_set_dim(c, name[2], v->strides[3]);
}

/* Packs the weights of a call whose fields are set. */
static fx_status pack(fx_build *b, const fx_node *n, const fx_call_stmt *c, fx_dtype type, const char *name, fx_node *weight, int *id)
{
    fxrt_conv2d_desc d;
    fx_call_to_desc(c, &d);
    const char *wname = fx_arena_printf(b->piece, "%s_weight", name);
    const float *w;
    float *packed;
    if (c->kernel == FX_K_conv2d_wino)
        return fx_select_packed_later(b, n, weight, type, FX_FILL_WINO, &d, wname, "[6 * 6][oc][ic], transformed for Winograd's F(4,3)", id);
    if (fx_kernel_is_conv2d(c->kernel) || c->kernel == FX_K_conv2d_half)
        return fx_select_packed_later(b, n, weight, type, FX_FILL_CONV, &d, wname,
                                      fx_target_is_gpu(&b->p->target) ? "[groups * oc][kh][kw][ic]"
                                                                      : fx_arena_printf(b->p->arena, "[kh][kw][ic] in panels of %d output channels", b->tile.nr),
                                      id);
    FX_TRY(fx_build_constant(b, n, weight, "weight", &w));
    if (c->kernel == FX_K_conv_transpose2d) {
        *id = fx_select_packed(b, wname, type, fxrt_conv_transpose2d_packed_size(&d, &b->tile), "panels of the transposed convolution", &packed);
        fxrt_conv_transpose2d_pack(&d, &b->tile, w, packed);
    } else {
        *id = fx_select_packed(b, wname, type, fxrt_conv2d_dw_packed_size(&d, &b->tile), "[kh][kw][channels]", &packed);
        fxrt_conv2d_dw_pack(&d, &b->tile, w, packed);
    }
    fx_select_packed_end(b, *id);
    return FX_OK;
}

/* The workspace a call needs. Of sizes that are not known yet, the row of zeros that padding reads is taken to be needed. */
static size_t workspace(fx_build *b, const fx_call_stmt *c)
{
    fxrt_conv2d_desc d;
    fx_call_to_desc(c, &d);
    if (fx_target_is_gpu(&b->p->target))
        return fx_conv_workspace(&b->p->target, c);
    switch (c->kernel) {
    case FX_K_conv_transpose2d: return fxrt_conv_transpose2d_workspace(&d, &b->tile, b->threads);
    case FX_K_conv2d_dw: return fxrt_conv2d_dw_workspace(&d, &b->tile, b->threads);
    default: return fx_call_is_static(c) ? fxrt_conv2d_workspace(&d, &b->tile, b->threads) : (size_t)d.ic * sizeof(float);
    }
}

/* Counters of a call whose sums blocks make in parts; -1: it has none. */
static int counters(fx_build *b, const fx_call_stmt *c, const char *name)
{
    size_t n = fx_target_is_gpu(&b->p->target) ? fx_conv_counters(c) : 0;
    fx_dim numel = fx_dim_of((int64_t)n);
    return n ? fx_program_buf(b->p, FX_BUF_COUNTER, fx_arena_printf(b->piece, "%s_counts", name), FX_I32, 1, &numel) : -1;
}

/* For a GPU, the product of matrices that a convolution is as it lies; NULL: it is none, or ends in an activation that cuBLASLt's epilogues have
 * not, so that another kernel would read and write the result once more, where the convolution's own does it. Weights of 1 x 1 are a matrix already. */
static fx_call_stmt *as_product(fx_build *b, const fx_call_stmt *c)
{
    fxrt_conv2d_desc d;
    fxrt_gemm_desc g;
    fx_call_to_desc(c, &d);
    if (!fx_target_is_gpu(&b->p->target) || c->kernel != FX_K_conv2d || !fx_call_is_static(c) || !fxrt_cuda_conv2d_as_gemm(&d, &g))
        return NULL;
    if (!fx_products_activate(d.act))
        return NULL;
    fx_call_stmt *product = fx_call_new(b, FX_K_matmul);
    fx_call_from_desc(product, &g);
    return product;
}

/* An argument that is a vector: a number times a constant by channel, each of which may be missing (1, NULL). */
static fx_status by_channel(fx_build *b, const fx_node *n, fx_call_stmt *c, const char *argument, float number, fx_node *constant, fx_dtype type, size_t channels,
                            const char *name)
{
    const float *data = NULL;
    float *to;
    if (constant)
        FX_TRY(fx_build_constant(b, n, constant, argument, &data));
    int id = fx_select_packed(b, fx_arena_printf(b->piece, "%s_%s", name, argument), type, channels, NULL, &to);
    for (size_t i = 0; i < channels; i++)
        to[i] = data ? data[i] * number : number;
    fx_select_packed_end(b, id);
    fx_call_set_buf(c, argument, id, fx_dim_of(0));
    return FX_OK;
}

fx_status fx_select_convolution(fx_build *b, fx_node *root)
{
    const fx_group g = b->group[root->id];
    fx_node *n = g.anchor, *x_node = g.before ? g.before : fx_node_input(n, 0), *w_node = fx_node_input(n, 1);
    if (n->type->rank != 4)
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "convolution over %d spatial dims cannot be compiled, only over 1 or 2",
                       n->type->rank - 2);
    fx_dtype type;
    FX_TRY(fx_select_type(b, n, FX_K_conv2d, n->type->dtype, &type));
    if (!fx_dim_known(x_node->type->dims[1]) || !fx_dim_known(n->type->dims[1]))
        return fx_fail(b->ctx, FX_ERR_UNSUPPORTED, &n->loc, "convolution over a dynamic number of channels cannot be compiled");
    fx_window x, out, r = {0};
    bool has_r;
    FX_TRY(fx_select_input(b, x_node, type, FX_CHANNELS_LAST, &x));
    FX_TRY(fx_select_residual(b, root, type, true, &r, &has_r));
    fx_window pattern = fx_build_channels_last(b, root);
    FX_TRY(fx_select_place(b, root, type, &pattern, &out));
    if (!fx_window_unit(&out, 1)) /* computed right into a row-major output: not with dense channels */
        return fx_fail(b->ctx, FX_INTERNAL, &n->loc, "a convolution's result was placed with strided channels");
    FX_TRY(fx_select_fits(b, n, &x));
    FX_TRY(fx_select_fits(b, n, &out));
    int64_t stride[2], pad[2], dil[2], groups = fx_node_int(n, 8);
    fx_node_ints(n, 3, stride, 2);
    fx_node_ints(n, 4, pad, 2);
    fx_node_ints(n, 5, dil, 2);
    bool transposed = fx_node_bool(n, 6);
    int64_t ic = x.dims[1].value / groups, oc = out.dims[1].value / groups;
    const fx_type *wt = w_node->type;
    bool depthwise = !transposed && groups > 1 && ic == 1 && oc == 1;
    fx_call_stmt *c = fx_call_new(b, transposed  ? FX_K_conv_transpose2d
                                     : depthwise ? FX_K_conv2d_dw
                                     : g.before  ? FX_K_conv2d_pre
                                     : g.after   ? FX_K_conv2d_post
                                                 : FX_K_conv2d);
    fxrt_conv2d_desc d = {
        .ic = (int32_t)ic, .oc = (int32_t)oc, .groups = (int32_t)groups, .kh = (int32_t)wt->dims[2].value, .kw = (int32_t)wt->dims[3].value,
        .sh = (int32_t)stride[0], .sw = (int32_t)stride[1], .ph = (int32_t)pad[0], .pw = (int32_t)pad[1],
        .dh = (int32_t)dil[0], .dw = (int32_t)dil[1], .act = g.act, .act_a = g.act_a, .act_b = g.act_b,
    };
    fx_call_from_desc(c, &d);
    fx_call_set_dim(c, "n", x.dims[0]);
    set_image(c, &x, "ih", "iw", 'x');
    set_image(c, &out, "oh", "ow", 'y');
    if (has_r)
        set_image(c, &r, NULL, NULL, 'r');
    const char *title = fx_arena_printf(b->piece, "%s%s%s %dx%d%s %d->%d%s%s", g.scale || g.shift ? "scale + " : "", g.before ? "relu + " : "",
                                        transposed ? "conv_transpose2d" : depthwise ? "depthwise conv2d" : "conv2d", d.kh, d.kw,
                                        d.sh > 1 || d.sw > 1 ? fx_arena_printf(b->piece, "/%d", d.sh) : "", d.ic * d.groups, d.oc * d.groups,
                                        groups > 1 && !depthwise ? fx_arena_printf(b->piece, " in %d groups", d.groups) : "", g.tail);
    const char *name = fx_build_name(b, n);
    fx_call_stmt *product = as_product(b, c);
    if (!product)
        c->kernel = fx_conv_way(b->opt, c, type, fx_build_is_constant(w_node));
    fx_node *bias_node = fx_node_input(n, 2);
    int bias, wbuf, groups_of_bias = depthwise ? 1 : d.groups, columns = depthwise ? d.groups : d.oc;
    int multiple = depthwise ? b->tile.lanes : b->tile.nr;
    if (fx_build_is_constant(w_node))
        FX_TRY(pack(b, n, c, type, name, w_node, &wbuf));
    else
        FX_TRY(fx_select_packed_weight(b, root, w_node, type, &d, c->kernel, name, &wbuf));
    if (!bias_node || fx_build_is_constant(bias_node))
        FX_TRY(fx_select_bias(b, n, bias_node, type, name, groups_of_bias, columns, multiple, &bias));
    else
        FX_TRY(fx_select_packed_bias(b, root, bias_node, type, groups_of_bias, columns, multiple, name, &bias));
    if (g.scale)
        FX_TRY(by_channel(b, n, c, "scale", 1, g.scale, type, (size_t)d.groups * (size_t)d.ic, name));
    if (g.shift)
        FX_TRY(by_channel(b, n, c, "shift", 1, g.shift, type, (size_t)d.groups * (size_t)d.ic, name));
    if (g.after)
        FX_TRY(by_channel(b, n, c, "gain", g.gain, g.gain_by, type, (size_t)d.groups * (size_t)d.oc, name));
    size_t bytes = product ? fx_target_products_workspace(&b->p->target) : workspace(b, c);
    c = product ? product : c;
    fx_call_set_window(c, "x", &x);
    fx_call_set_buf(c, "w", wbuf, fx_dim_of(0));
    fx_call_set_buf(c, "b", bias, fx_dim_of(0));
    fx_call_set_window(c, "y", &out);
    fx_call_set_buf(c, "ws", fx_select_workspace(b, name, bytes), fx_dim_of(0));
    fx_call_set_buf(c, "counts", counters(b, c, name), fx_dim_of(0));
    if (has_r) {
        fx_call_set_window(c, "r", &r);
        fx_select_overlay(b, &out, &r, &x);
    }
    fx_call_emit(b, root, c, title);
    return fx_select_settle(b, root, &out);
}

/* The gradient of a weight (grad_output, input, weight_size, stride, padding, dilation, groups), which the kernel gives as [kh][kw][ic][oc]. */
fx_status fx_select_weight_grad(fx_build *b, fx_node *root)
{
    fx_node *n = b->group[root->id].anchor;
    fx_window g, x, out, pattern = {.rank = 4};
    fx_dtype type;
    FX_TRY(fx_select_type(b, n, FX_K_conv2d_weight_grad, n->type->dtype, &type));
    FX_TRY(fx_select_input(b, fx_node_input(n, 1), type, FX_CHANNELS_LAST, &x));
    FX_TRY(fx_select_input(b, fx_node_input(n, 0), type, FX_CHANNELS_LAST, &g));
    FX_TRY(fx_select_fits(b, n, &x));
    FX_TRY(fx_select_fits(b, n, &g));
    int64_t size[4], stride[2], pad[2], dil[2], groups = fx_node_int(n, 6);
    fx_node_ints(n, 2, size, 4);
    fx_node_ints(n, 3, stride, 2);
    fx_node_ints(n, 4, pad, 2);
    fx_node_ints(n, 5, dil, 2);
    const int64_t strides[4] = {1, size[0], size[3] * size[1] * size[0], size[1] * size[0]};
    for (int i = 0; i < 4; i++)
        pattern.strides[i] = fx_dim_of(strides[i]);
    const char *name = fx_build_name(b, n);
    FX_TRY(fx_build_new(b, n, name, type, &pattern, &out));
    for (int i = 0; i < 4; i++) /* also of sizes of 1, which the kernel does not tell from others */
        out.strides[i] = fx_dim_of(strides[i]);
    FX_TRY(fx_select_fits(b, n, &out));
    fx_call_stmt *c = fx_call_new(b, FX_K_conv2d_weight_grad);
    fxrt_conv2d_desc d = {
        .ic = (int32_t)size[1], .oc = (int32_t)(size[0] / groups), .groups = (int32_t)groups, .kh = (int32_t)size[2], .kw = (int32_t)size[3],
        .sh = (int32_t)stride[0], .sw = (int32_t)stride[1], .ph = (int32_t)pad[0], .pw = (int32_t)pad[1], .dh = (int32_t)dil[0], .dw = (int32_t)dil[1],
    };
    fx_call_from_desc(c, &d);
    fx_call_set_dim(c, "n", x.dims[0]);
    set_image(c, &x, "ih", "iw", 'x');
    set_image(c, &g, "oh", "ow", 'y');
    c->kernel = fx_conv_way(b->opt, c, type, false);
    if (c->kernel == FX_K_conv2d_weight_grad_split)
        fx_call_set_buf(c, "ws", fx_select_workspace(b, name, fx_conv_workspace(&b->p->target, c)), fx_dim_of(0));
    fx_call_set_window(c, "x", &x);
    fx_call_set_window(c, "g", &g);
    fx_call_set_window(c, "y", &out);
    fx_call_emit(b, root, c, fx_arena_printf(b->piece, "gradient of a weight %dx%d %d->%d", d.kh, d.kw, d.ic * d.groups, d.oc * d.groups));
    return fx_select_settle(b, root, &out);
}
