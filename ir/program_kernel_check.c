/* ir/program_kernel_check.c: the preconditions of kernel calls.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "ir/lex.h"
#include "ir/program_check.h"

static fx_dim field(const fx_call_stmt *call, const char *name)
{
    return fx_call_dim(call, name);
}

/* How often a kernel does the same again: where that is a symbol of the caller (an empty batch), none at all is fine. */
static bool counts_repeats(const fx_kernel *k, const char *name)
{
    static const char *const repeats[] = {"batch", "m", "rows", "outer"};
    if (strcmp(name, "n") == 0) /* of pictures, of columns of a product; where other kernels mean a row's length */
        return fx_kernel_field(k, "ih") >= 0 || fx_kernel_field(k, "hw") >= 0 || fx_kernel_field(k, "w_n") >= 0;
    for (size_t i = 0; i < sizeof repeats / sizeof *repeats; i++)
        if (strcmp(name, repeats[i]) == 0)
            return true;
    return false;
}

/* name >= least, for numbers (which may be floats) and expressions. */
static void at_least(fx_check *c, const fx_call_stmt *call, const char *const *names, int least)
{
    const fx_kernel *k = fx_kernel_get(call->kernel);
    for (; *names; names++) {
        int i = fx_kernel_field(k, *names);
        if (i >= 0 && call->sym[i]) {
            int from = counts_repeats(k, *names) ? 0 : least;
            if (!fx_check_le(c, fx_dim_of(from), fx_dim_sym(call->sym[i])))
                fx_check_bad(c, "call %s: expected %s >= %d, which is not proved of %s", call->name, *names, from,
                             fx_check_text(c, fx_dim_sym(call->sym[i])));
            continue;
        }
        double v = fx_call_field(call, *names);
        if (!(least > 0 ? v > 0 : v >= 0))
            fx_check_bad(c, "call %s: expected %s %s, got %g", call->name, *names, least > 0 ? "> 0" : ">= 0", v);
    }
}

static void positive(fx_check *c, const fx_call_stmt *call, const char *const *names)
{
    at_least(c, call, names, 1);
}

static void not_negative(fx_check *c, const fx_call_stmt *call, const char *const *names)
{
    at_least(c, call, names, 0);
}

/* The output's pixels must not overlap: each stride spans what lies inside it. */
static void check_pitch(fx_check *c, const fx_call_stmt *call, const char *outer, const char *n, fx_dim inside)
{
    fx_dim stride = field(call, outer);
    if (!fx_check_le(c, field(call, n), fx_dim_of(1)) && !fx_check_le(c, inside, stride))
        fx_check_bad(c, "call %s: output rows overlap: expected %s >= %s, got %s", call->name, outer, fx_check_text(c, inside),
                     fx_check_text(c, stride));
}

/* What n of something a stride apart span, when the last one spans `inside`. */
static fx_dim spanned(const fx_check *c, const fx_call_stmt *call, const char *n, const char *stride, fx_dim inside)
{
    fx_dim steps = fx_dim_mul(c->ctx, fx_dim_plus(c->ctx, field(call, n), -1), field(call, stride));
    return fx_dim_add(c->ctx, steps, inside);
}

static void check_output(fx_check *c, const fx_call_stmt *call, fx_dim channels)
{
    fx_dim row = spanned(c, call, "ow", "ys_w", channels);
    check_pitch(c, call, "ys_w", "ow", channels);
    check_pitch(c, call, "ys_h", "oh", row);
    check_pitch(c, call, "ys_n", "n", spanned(c, call, "oh", "ys_h", row));
}

static void check_act(fx_check *c, const fx_call_stmt *call)
{
    double act = fx_call_field(call, "act");
    if (!(act >= 0 && act < FXRT_ACT_COUNT))
        fx_check_bad(c, "call %s: activation %g does not exist", call->name, act);
}

/* Those that do not do without. */
static bool needs_workspace(fx_kernel_id kernel)
{
    return kernel == FX_K_conv2d_wino || kernel == FX_K_conv2d_half || kernel == FX_K_conv2d_weight_grad_split;
}

/* Only 3 x 3, each pixel of one group. */
static void check_wino(fx_check *c, const fx_call_stmt *call)
{
    static const struct { const char *name; int is; } fixed[] = {{"kh", 3}, {"kw", 3}, {"sh", 1}, {"sw", 1}, {"dh", 1}, {"dw", 1}, {"groups", 1}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!fx_dim_is(field(call, fixed[i].name), fixed[i].is))
            fx_check_bad(c, "call %s: expected %s = %d, got %s", call->name, fixed[i].name, fixed[i].is, fx_check_text(c, field(call, fixed[i].name)));
}

static void check_conv(fx_check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"n", "ih", "iw", "ic", "oh", "ow", "oc", "groups", "kh", "kw", "sh", "sw", "dh", "dw", "xs_n",
                                        "xs_h", "xs_w", "ys_n", "ys_h", "ys_w", NULL};
    static const char *const pads[] = {"ph", "pw", NULL};
    static const char *const residual[] = {"rs_n", "rs_h", "rs_w", NULL};
    positive(c, call, sizes);
    not_negative(c, call, pads);
    if (call->buf[fx_kernel_buf(fx_kernel_get(call->kernel), "r")] >= 0)
        positive(c, call, residual);
    check_act(c, call);
    check_output(c, call, fx_dim_mul(c->ctx, field(call, "groups"), field(call, "oc")));
    if (call->kernel == FX_K_conv2d_wino)
        check_wino(c, call);
    if (call->kernel == FX_K_conv2d_dw && (!fx_dim_is(field(call, "ic"), 1) || !fx_dim_is(field(call, "oc"), 1)))
        fx_check_bad(c, "call %s: expected one channel a group, got ic %s, oc %s", call->name, fx_check_text(c, field(call, "ic")),
                     fx_check_text(c, field(call, "oc")));
}

static void check_weight_grad(fx_check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"n", "ih", "iw", "ic", "oh", "ow", "oc", "groups", "kh", "kw", "sh", "sw", "dh", "dw", NULL};
    static const char *const others[] = {"ph", "pw", "xs_n", "xs_h", "xs_w", "ys_n", "ys_h", "ys_w", NULL};
    positive(c, call, sizes);
    not_negative(c, call, others);
}

static void check_gemm(fx_check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"batch", "m", "n", NULL};
    static const char *const strides[] = {"k", "x_b", "x_m", "y_b", "y_m", "r_b", "r_m", "w_b", "w_k", "w_n", NULL};
    positive(c, call, sizes);
    not_negative(c, call, strides);
    check_act(c, call);
    check_pitch(c, call, "y_m", "m", field(call, "n"));
    check_pitch(c, call, "y_b", "batch", spanned(c, call, "m", "y_m", field(call, "n")));
}

/* Unlike a convolution's, a pool's window always sees some of the input. */
static void check_windows(fx_check *c, const fx_call_stmt *call, const char *out, const char *stride, const char *pad, const char *in,
                          const char *what, const char *where)
{
    fx_dim last = spanned(c, call, out, stride, fx_dim_scale(c->ctx, field(call, pad), -1));
    if (!fx_check_le(c, fx_dim_plus(c->ctx, last, 1), field(call, in)))
        fx_check_bad(c, "call %s: its last %s of windows lies %s the input", call->name, what, where);
}

static void check_pool(fx_check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"n", "ih", "iw", "c", "oh", "ow", "kh", "kw", "sh", "sw", "dh", "dw", "xs_n", "xs_h", "xs_w",
                                        "ys_n", "ys_h", "ys_w", NULL};
    static const char *const pads[] = {"ph", "pw", "count_include_pad", NULL};
    positive(c, call, sizes);
    not_negative(c, call, pads);
    check_output(c, call, field(call, "c"));
    check_windows(c, call, "oh", "sh", "ph", "ih", "row", "below");
    check_windows(c, call, "ow", "sw", "pw", "iw", "column", "right of");
}

static void check_resize(fx_check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"n", "ih", "iw", "c", "oh", "ow", "xs_n", "xs_h", "xs_w", "ys_n", "ys_h", "ys_w", NULL};
    static const char *const others[] = {"align_corners", "scale_h", "scale_w", NULL};
    positive(c, call, sizes);
    not_negative(c, call, others);
    check_output(c, call, field(call, "c"));
}

static void check_norm(fx_check *c, const fx_call_stmt *call)
{
    static const char *const layer[] = {"rows", "n", "y_m", NULL}, *const eps_x[] = {"eps", "x_m", NULL};
    static const char *const group[] = {"n", "hw", "c", "groups", "xs_n", "xs_p", "ys_n", "ys_p", NULL};
    not_negative(c, call, eps_x); /* x_m: group norm has none, and 0 is one row again and again */
    if (call->kernel == FX_K_layer_norm || call->kernel == FX_K_rms_norm) {
        positive(c, call, layer);
        check_pitch(c, call, "y_m", "rows", field(call, "n"));
        return;
    }
    fx_dim channels = field(call, "c"), groups = field(call, "groups"), size;
    positive(c, call, group);
    if (!fx_dim_is(groups, 0) && !fx_dim_divide(c->ctx, channels, groups, &size))
        fx_check_bad(c, "call %s: %s channels do not divide into %s groups", call->name, fx_check_text(c, channels),
                     fx_check_text(c, groups));
    check_pitch(c, call, "ys_p", "hw", channels);
    check_pitch(c, call, "ys_n", "n", spanned(c, call, "hw", "ys_p", channels));
}

/* Rows of `dense` elements, told by batch, head and row, do not overlap: there is an order of the three in which each stride spans
 * what lies inside it. */
static void check_rows_apart(fx_check *c, const fx_call_stmt *call, fx_dim dense)
{
    static const char *const axis[][2] = {{"batch", "o_b"}, {"heads", "o_h"}, {"m", "o_m"}};
    static const int orders[][3] = {{1, 2, 0}, {2, 1, 0}, {0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 0, 1}}; /* innermost first */
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        fx_dim inside = dense;
        bool apart = true;
        for (int i = 0; apart && i < 3; i++) {
            const char *const *a = axis[orders[k][i]];
            if (fx_check_le(c, field(call, a[0]), fx_dim_of(1)))
                continue;
            apart = fx_check_le(c, inside, field(call, a[1]));
            inside = spanned(c, call, a[0], a[1], inside);
        }
        if (apart)
            return;
    }
    fx_check_bad(c, "call %s: output rows overlap: strides o_b %s, o_h %s, o_m %s of rows of %s", call->name, fx_check_text(c, field(call, "o_b")),
                 fx_check_text(c, field(call, "o_h")), fx_check_text(c, field(call, "o_m")), fx_check_text(c, dense));
}

static void check_attention(fx_check *c, const fx_call_stmt *call)
{
    static const char *const sizes[] = {"batch", "heads", "kv_heads", "m", "dv", "slots", NULL};
    static const char *const strides[] = {"n", "dk", "q_b", "q_h", "q_m", "k_b", "k_h", "k_n", "v_b", "v_h", "v_n", "o_b", "o_h", "o_m",
                                          "bias_b", "bias_h", "bias_m", "bias_n", "mask_b", "mask_h", "mask_m", "mask_n", "fill", "causal", "zero_empty", NULL};
    fx_dim heads = field(call, "heads"), kv_heads = field(call, "kv_heads"), group;
    positive(c, call, sizes);
    not_negative(c, call, strides);
    if (!fx_dim_is(kv_heads, 0) && !fx_dim_divide(c->ctx, heads, kv_heads, &group))
        fx_check_bad(c, "call %s: %s heads of queries do not divide by %s heads of keys", call->name, fx_check_text(c, heads),
                     fx_check_text(c, kv_heads));
    check_rows_apart(c, call, field(call, "dv"));
}

/* The strides of x and y are the same, where there is more than one of what they step over. */
static bool same_strides(const fx_call_stmt *call, int n, const char *const pairs[][3])
{
    for (int i = 0; i < n; i++)
        if (!fx_dim_is(field(call, pairs[i][2]), 1) && !fx_dim_equal(field(call, pairs[i][0]), field(call, pairs[i][1])))
            return false;
    return true;
}

/* Norms and softmax read an element of x before they write it, and no other of x's rows after; attention a row of queries. */
bool fx_call_may_be_in_place(const fx_call_stmt *call)
{
    static const char *const rows[][3] = {{"x_m", "y_m", "rows"}};
    static const char *const heads[][3] = {{"q_b", "o_b", "batch"}, {"q_h", "o_h", "heads"}, {"q_m", "o_m", "m"}};
    switch (call->kernel) {
    case FX_K_softmax:
    case FX_K_log_softmax:
        return true;
    case FX_K_layer_norm:
    case FX_K_rms_norm:
        return same_strides(call, 1, rows);
    case FX_K_attention:
        return fx_dim_equal(field(call, "dk"), field(call, "dv")) && same_strides(call, 3, heads);
    default:
        return false;
    }
}

/* A window of channels in pixels: what an argument of a convolution or pool touches. */
typedef struct window {
    fx_dim offset, channels, s_n, s_h, s_w;
} window;

static window window_of(fx_check *c, const fx_call_stmt *call, const fx_kernel *k, char arg)
{
    bool grouped = fx_kernel_field(k, "groups") >= 0;
    fx_dim channels = field(call, !grouped ? "c" : arg == 'x' ? "ic" : "oc");
    const char names[3][5] = {{arg, 's', '_', 'n'}, {arg, 's', '_', 'h'}, {arg, 's', '_', 'w'}};
    return (window){call->offset[fx_kernel_buf(k, (char[]){arg, 0})],
                    grouped ? fx_dim_mul(c->ctx, field(call, "groups"), channels) : channels, field(call, names[0]), field(call, names[1]),
                    field(call, names[2])};
}

static bool whole_pixels(fx_check *c, const window *w, fx_dim pixel)
{
    fx_dim q;
    return fx_dim_divide(c->ctx, w->s_h, pixel, &q) && fx_dim_divide(c->ctx, w->s_n, pixel, &q);
}

/* The two windows lie on different channels of the same pixels. */
static bool apart(fx_check *c, const window *a, const window *b)
{
    fx_dim p = a->s_w;
    if (!fx_dim_equal(a->s_w, b->s_w) || !whole_pixels(c, a, p) || !whole_pixels(c, b, p))
        return false;
    fx_dim at = fx_dim_mod(c->ctx, a->offset, p), to = fx_dim_mod(c->ctx, b->offset, p);
    fx_dim at_end = fx_dim_add(c->ctx, at, a->channels), to_end = fx_dim_add(c->ctx, to, b->channels);
    return fx_check_le(c, at_end, p) && fx_check_le(c, to_end, p) && (fx_check_le(c, at_end, to) || fx_check_le(c, to_end, at));
}

/* Where a call reads and writes one buffer, the elements must differ: channels of the same pixels (a concatenation that grows),
 * or else ranges. Only a residual, and the x of kernels that say so, may lie exactly on the result. */
static void check_aliases(fx_check *c, const fx_call_stmt *call, const fx_kernel *k)
{
    int y = fx_kernel_buf(k, "y");
    for (int i = 0; i < k->n_bufs; i++) {
        fx_dim lo, hi, y_lo, y_hi;
        if (i == y || call->buf[i] != call->buf[y])
            continue;
        fx_call_footprint(c->p, call, i, &lo, &hi);
        fx_call_footprint(c->p, call, y, &y_lo, &y_hi);
        if (fx_check_le(c, fx_dim_plus(c->ctx, hi, 1), y_lo) || fx_check_le(c, fx_dim_plus(c->ctx, y_hi, 1), lo))
            continue;
        char arg = k->buf[i].name[0];
        if (fx_kernel_field(k, "ys_w") >= 0 && (arg == 'x' || arg == 'r')) {
            window a = window_of(c, call, k, arg), b = window_of(c, call, k, 'y');
            bool same = fx_dim_equal(a.s_w, b.s_w) && (fx_dim_equal(a.s_h, b.s_h) || fx_dim_is(field(call, "oh"), 1)) &&
                        (fx_dim_equal(a.s_n, b.s_n) || fx_dim_is(field(call, "n"), 1));
            if ((arg == 'r' && same && fx_dim_equal(a.offset, b.offset)) || apart(c, &a, &b))
                continue;
        }
        if (arg == 'x' && fx_dim_equal(call->offset[i], call->offset[y]) && fx_call_may_be_in_place(call))
            continue;
        if (arg == 'r' && fx_dim_equal(call->offset[i], call->offset[y]) && fx_dim_equal(field(call, "r_m"), field(call, "y_m")) &&
            fx_dim_equal(field(call, "r_b"), field(call, "y_b")) && fx_kernel_field(k, "y_m") >= 0)
            continue;
        fx_check_bad(c, "call %s writes elements of '%s' that it still reads as %s", call->name, fx_check_buf_name(c, call->buf[y]),
                     k->buf[i].name);
    }
}

static void check_fields(fx_check *c, const fx_call_stmt *call)
{
    static const char *const softmax[] = {"outer", "n", "inner", NULL};
    switch (call->kernel) {
    case FX_K_conv2d:
    case FX_K_conv2d_pre:
    case FX_K_conv2d_post:
    case FX_K_conv2d_dw:
    case FX_K_conv_transpose2d:
    case FX_K_conv2d_wino:
    case FX_K_conv2d_half:
        check_conv(c, call);
        break;
    case FX_K_conv2d_weight_grad:
    case FX_K_conv2d_weight_grad_split:
        check_weight_grad(c, call);
        break;
    case FX_K_gemm:
    case FX_K_matmul:
        check_gemm(c, call);
        break;
    case FX_K_max_pool2d:
    case FX_K_avg_pool2d:
        check_pool(c, call);
        break;
    case FX_K_adaptive_avg_pool2d:
    case FX_K_adaptive_max_pool2d:
    case FX_K_upsample_nearest2d:
    case FX_K_upsample_bilinear2d:
        check_resize(c, call);
        break;
    case FX_K_softmax:
    case FX_K_log_softmax:
        positive(c, call, softmax);
        break;
    case FX_K_layer_norm:
    case FX_K_rms_norm:
    case FX_K_group_norm:
        check_norm(c, call);
        break;
    case FX_K_attention:
        check_attention(c, call);
        break;
    case FX_K_COUNT:
        break;
    }
}

/* An expression fits int32_t by the symbols' ranges or by a limit that the run checks first. */
static void check_symbolic(fx_check *c, const fx_call_stmt *call, const fx_kernel *k, int i)
{
    fx_dim v = fx_dim_sym(call->sym[i]), left = fx_dim_sub(c->ctx, fx_dim_of(INT32_MAX), v);
    bool fits = fx_check_le(c, fx_dim_of(0), left);
    for (size_t l = 0; !fits && l < c->p->n_limits; l++)
        fits = fx_check_le(c, c->p->limits[l].value, left);
    if (k->field[i].is_float)
        fx_check_bad(c, "call %s: expected a number for %s, got %s", call->name, k->field[i].name, fx_check_text(c, v));
    else if (!fits)
        fx_check_bad(c, "call %s: no limit keeps %s = %s within 32 bits", call->name, k->field[i].name, fx_check_text(c, v));
}

void fx_check_call(fx_check *c, const fx_call_stmt *call)
{
    const fx_kernel *k = call ? fx_kernel_get(call->kernel) : NULL;
    if (!k) {
        fx_check_bad(c, "a call of a kernel that does not exist");
        return;
    }
    if (!fx_is_word(call->name, false))
        fx_check_bad(c, "call of %s: expected a C identifier as name, got '%s'", k->name, call->name ? call->name : "");
    if (!*k->files && !fx_target_is_gpu(&c->p->target))
        fx_check_bad(c, "call %s: kernel %s is one of GPUs, expected one that target '%s' has", call->name, k->name, c->p->target.name);
    int before = c->findings;
    bool wide = false, narrow = false; /* what attention adds to its scores */
    fx_dtype dtype = fx_call_dtype(c->p, call);
    if (!fx_kernel_takes(&c->p->target, call->kernel, dtype))
        dtype = fx_kernel_takes(&c->p->target, call->kernel, FX_F32) ? FX_F32 : FX_F16;
    for (int i = 0; i < k->n_fields; i++) {
        double v = call->field[i];
        if (call->sym[i]) {
            check_symbolic(c, call, k, i);
            continue;
        }
        if (k->field[i].is_float ? isnan(v) : !(v >= INT32_MIN && v <= INT32_MAX && v == floor(v)))
            fx_check_bad(c, "call %s: expected %s for %s, got %g", call->name, k->field[i].is_float ? "a number" : "an int32", k->field[i].name, v);
    }
    for (int i = 0; i < k->n_bufs; i++) {
        int buf = call->buf[i];
        const char *arg = k->buf[i].name;
        bool ws = strcmp(arg, "ws") == 0;
        if (buf == -1) {
            if (!k->buf[i].optional || (ws && needs_workspace(call->kernel)))
                fx_check_bad(c, "call %s: argument %s is missing", call->name, arg);
            continue;
        }
        if (!fx_check_buf(c, buf)) {
            fx_check_bad(c, "call %s: argument %s is buffer %d, which does not exist", call->name, arg, buf);
            continue;
        }
        const fx_buf *b = &c->p->bufs[buf];
        bool added = call->kernel == FX_K_attention && (strcmp(arg, "mask") == 0 || strcmp(arg, "bias") == 0);
        if (added && b->dtype == FX_F32)
            wide = true;
        else if (added)
            narrow |= dtype != FX_F32 && b->dtype == dtype;
        if (k->buf[i].counts != (b->kind == FX_BUF_COUNTER))
            fx_check_bad(c, "call %s: expected %s for argument %s, got '%s'", call->name, k->buf[i].counts ? "counters" : "a buffer that is no counters", arg, b->name);
        else if (!ws && !k->buf[i].counts && b->dtype != dtype && !(added && b->dtype == FX_F32))
            fx_check_bad(c, "call %s: expected %s for argument %s, '%s' is %s", call->name, fx_dtype_short(dtype), arg, b->name, fx_dtype_short(b->dtype));
        if (k->buf[i].written && ((b->kind == FX_BUF_INPUT && !b->changed) || b->kind == FX_BUF_WEIGHT))
            fx_check_bad(c, "call %s writes to '%s', which is only read", call->name, b->name);
        if (ws && !b->workspace)
            fx_check_bad(c, "call %s: expected workspace for argument ws, got '%s'", call->name, b->name);
        if (!fx_check_le(c, fx_dim_of(0), call->offset[i]))
            fx_check_bad(c, "call %s: argument %s starts %s before '%s'", call->name, arg,
                         fx_check_text(c, fx_dim_scale(c->ctx, call->offset[i], -1)), b->name);
        if (b->kind == FX_BUF_LOCAL)
            fx_check_bad(c, "call %s: argument %s is the local array '%s'", call->name, arg, b->name);
    }
    if (wide && narrow)
        fx_check_bad(c, "call %s: expected mask and bias of one type", call->name);
    if (c->findings == before)
        check_fields(c, call);
    if (c->findings == before)
        check_aliases(c, call, k);
}
