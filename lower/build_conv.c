/* lower/build_conv.c: what a GPU's convolutions compute besides: batch norm and ReLU of what they read, a gain and an addition behind their activation.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Each saves a kernel that would read and write a whole image. In float32 alone: in 16 bits tensor cores (a product by cuBLASLt, conv2d_half.h) gain
 * more than that, and a vector by channel would be rounded. Not where Winograd's transforms make the convolution: they save more. */
#include "lower/build.h"
#include "lower/conv_ways.h"
#include "passes/rewrite.h"

/* A constant for each channel of x: [channels, 1, 1], or one image's. */
static bool is_by_channel(const fx_node *n, const fx_node *x)
{
    const fx_type *t = n ? n->type : NULL;
    if (!t || !fx_build_is_constant(n) || t->kind != FX_TYPE_TENSOR || t->dtype != FX_F32 || (t->rank != 3 && t->rank != 4))
        return false;
    for (int i = 0; i < t->rank; i++)
        if (i == t->rank - 3 ? !fx_dim_equal(t->dims[i], x->type->dims[1]) : !fx_dim_is(t->dims[i], 1))
            return false;
    return true;
}

/* n = x op constant by channel, in either order, for a tensor x of n's type: x and the constant; NULL if n is nothing of the kind. */
static fx_node *by_channel(const fx_node *n, fx_opid op, fx_node **constant)
{
    if (!fx_is_call(n, op) || (op == FX_OP_add_Tensor && fx_node_float(n, 2) != 1))
        return NULL;
    for (int i = 0; i < 2; i++) {
        fx_node *x = fx_node_input(n, i), *c = fx_node_input(n, 1 - i);
        if (x && c && fx_same_type(x, n) && is_by_channel(c, n)) {
            *constant = c;
            return x;
        }
    }
    return NULL;
}

/* Whether Winograd's transforms make convolution n. */
static bool is_wino(const fx_build *b, const fx_node *n)
{
    const fx_node *x = fx_node_input(n, 0), *w = fx_node_input(n, 1);
    int64_t stride[2], dilation[2], groups = fx_node_int(n, 8);
    for (int i = 0; i < 4; i++)
        if (!fx_dim_known(x->type->dims[i]) || !fx_dim_known(n->type->dims[i]) || !fx_dim_known(w->type->dims[i]))
            return false;
    fx_node_ints(n, 3, stride, 2);
    fx_node_ints(n, 5, dilation, 2);
    const fx_dim *in = x->type->dims, *out = n->type->dims, *filter = w->type->dims;
    fxrt_conv2d_desc d = {
        .n = (int32_t)in[0].value, .ih = (int32_t)in[2].value, .iw = (int32_t)in[3].value, .ic = (int32_t)filter[1].value, .oh = (int32_t)out[2].value,
        .ow = (int32_t)out[3].value, .oc = (int32_t)(out[1].value / groups), .groups = (int32_t)groups, .kh = (int32_t)filter[2].value,
        .kw = (int32_t)filter[3].value, .sh = (int32_t)stride[0], .sw = (int32_t)stride[1], .dh = (int32_t)dilation[0], .dw = (int32_t)dilation[1],
    };
    return fx_conv_is_wino(b->opt, &d, fx_build_is_constant(w));
}

/* Whether n is a convolution by the kernel that takes these: of images, in floats, neither transposed nor depthwise. */
static bool is_conv2d(const fx_build *b, const fx_node *n)
{
    if (!fx_is_call(n, FX_OP_convolution) || n->type->rank != 4 || fx_node_bool(n, 6) || !fx_build_has_kernel(n) || n->type->dtype != FX_F32)
        return false;
    const fx_node *x = fx_node_input(n, 0);
    for (int i = 0; i < n->n_operands; i++)
        if (n->operands[i].def->type->dtype != FX_F32)
            return false;
    int64_t groups = fx_node_int(n, 8);
    bool depthwise = groups > 1 && fx_dim_is(x->type->dims[1], groups) && fx_dim_equal(n->type->dims[1], x->type->dims[1]);
    return !depthwise && !is_wino(b, n);
}

/* Whether a loop that reads n and nothing else reads it is there anyway: it can compute n, too. */
static bool joins_a_loop(const fx_build *b, const fx_node *n)
{
    const fx_node *user = n->n_uses == 1 ? n->first_use->user : NULL;
    return user && fx_build_is_pointwise(user) && !b->root[user->id] && fx_type_same_shape(user->type, n->type);
}

/* ---- behind the activation ------------------------------------------------------------------------------------------------ */

/* y = act(convolution) gain + r, gain a number or a constant by channel. The group grows by its nodes. */
static void take_after(fx_build *b, fx_node *act)
{
    fx_group g = b->group[act->id];
    fx_node *last = act, *user = act->n_uses == 1 ? act->first_use->user : NULL;
    double v;
    g.gain = 1;
    if (user && fx_is_call(user, FX_OP_mul_Tensor) && !b->root[user->id] && fx_same_type(user, act)) {
        if (fx_node_input(user, 0) == act && fx_is_number(user, 1, &v))
            g.gain = (float)v;
        else if (by_channel(user, FX_OP_mul_Tensor, &g.gain_by) != act)
            return;
        g.tail = fx_arena_printf(b->scratch, "%s + mul", g.tail);
        last = user;
        user = last->n_uses == 1 ? last->first_use->user : NULL;
    }
    fx_node *p = user && fx_is_call(user, FX_OP_add_Tensor) ? fx_node_input(user, 0) : NULL, *q = p ? fx_node_input(user, 1) : NULL;
    if (q && p != q && !b->root[user->id] && fx_same_type(p, user) && fx_same_type(q, user) && (p == last ? fx_node_float(user, 2) == 1 : !g.gain_by)) {
        g.residual = p == last ? q : p;
        g.gain *= p == last ? 1 : (float)fx_node_float(user, 2);
        g.tail = fx_arena_printf(b->scratch, "%s + add", g.tail);
        last = user;
    }
    if (last == act || joins_a_loop(b, last))
        return;
    g.after = true;
    for (fx_node *n = g.anchor;; n = n->first_use->user) {
        b->root[n->id] = last;
        if (n == last)
            break;
    }
    b->group[act->id] = (fx_group){0};
    b->group[last->id] = g;
}

/* ---- in front ------------------------------------------------------------------------------------------------------------- */

/* Whether a user of x is such a convolution of x, which can take what is before it. */
static bool convolves(const fx_build *b, const fx_node *n, const fx_node *x)
{
    if (!is_conv2d(b, n) || fx_node_input(n, 0) != x || !b->root[n->id] || b->group[b->root[n->id]->id].after)
        return false;
    for (int i = 1; i < n->n_operands; i++)
        if (n->operands[i].def == x)
            return false;
    return true;
}

/* relu(x scale + shift), with constants by channel or without one or both, that only convolutions read is computed as they read: x is in memory
 * anyway, and goes through it once less in each direction. */
static void take_before(fx_build *b, fx_node *relu)
{
    fx_node *x = fx_node_input(relu, 0), *scale = NULL, *shift = NULL, *parts[2], *from;
    int n = 0;
    if (relu->type->rank != 4 || relu->type->dtype != FX_F32 || !fx_dim_known(relu->type->dims[1]) || relu->n_uses == 0)
        return;
    if (x->n_uses == 1 && !b->root[x->id] && (from = by_channel(x, FX_OP_add_Tensor, &shift)) != NULL) {
        parts[n++] = x;
        x = from;
    }
    if (x->n_uses == 1 && !b->root[x->id] && (from = by_channel(x, FX_OP_mul_Tensor, &scale)) != NULL) {
        parts[n++] = x;
        x = from;
    }
    if (fx_build_is_pointwise(x) && x->n_uses == 1 && !b->root[x->id]) /* not in memory otherwise: all is one loop */
        return;
    for (const fx_use *u = relu->first_use; u; u = u->next)
        if (!convolves(b, u->user, relu))
            return;
    for (const fx_use *u = relu->first_use; u; u = u->next) {
        fx_node *root = b->root[u->user->id];
        fx_group *g = &b->group[root->id];
        g->before = x;
        g->scale = scale;
        g->shift = shift;
        b->root[relu->id] = root;
        for (int i = 0; i < n; i++)
            b->root[parts[i]->id] = root;
    }
}

void fx_build_conv_groups(fx_build *b)
{
    FX_FOR_NODES(b->g, n)
    if (n->opcode == FX_CALL_FUNCTION && b->root[n->id] == n) {
        const fx_group *g = &b->group[n->id];
        if (g->anchor && g->act != FXRT_ACT_NONE && !g->residual && is_conv2d(b, g->anchor))
            take_after(b, n);
    }
    FX_FOR_NODES(b->g, n)
    if (fx_is_call(n, FX_OP_relu) && !b->root[n->id])
        take_before(b, n);
}
