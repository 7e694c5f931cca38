/* ir/kernel.c: the table of runtime kernels, expanded from kernel.def and the descriptors of fxcc/runtime.h.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <limits.h>
#include <string.h>

#include "ir/program.h"

/* One array of fields for each descriptor: conv2d_fields. */
#define FIELD_I(f) {#f, false},
#define FIELD_F(f) {#f, true},
#define FXRT_X(name, NAME) static const struct fx_kernel_field name##_fields[] = {FXRT_##NAME##_FIELDS(FIELD_I, FIELD_F)};
FXRT_DESCRIPTORS(FXRT_X)
#undef FXRT_X

/* The buffer lists as strings: conv2d_buffers. */
#define KERNEL(id, desc, buffers, files, doc) static const char id##_buffers[] = buffers;
#include "ir/kernel.def"
#undef KERNEL

/* The number of buffers: N_conv2d. */
#define IN(x) +1
#define OPT(x) +1
#define OUT(x) +1
#define WS(x) +1
#define KERNEL(id, desc, buffers, files, doc) N_##id = 0 buffers,
enum {
#include "ir/kernel.def"
};
#undef KERNEL

#define IN(x) {#x, false, false},
#define OPT(x) {#x, true, false},
#define OUT(x) {#x, false, true},
#define WS(x) {#x, true, true},
#define KERNEL(id, desc, buffers, files, doc)                                                          \
    {FX_K_##id, #id, #desc, id##_buffers, files, doc, N_##id, {buffers}, (int)(sizeof desc##_fields / sizeof desc##_fields[0]), \
     desc##_fields},
static const fx_kernel kernels[FX_K_COUNT] = {
#include "ir/kernel.def"
};
#undef KERNEL

/* Descriptors are read and written as arrays of 4-byte fields, in the order of their lists. */
#define FIELD_COUNT(f) +1
#define FXRT_X(name, NAME)                                                                              \
    _Static_assert(sizeof(fxrt_##name##_desc) == 4 * (0 FXRT_##NAME##_FIELDS(FIELD_COUNT, FIELD_COUNT)), #name " has no padding"); \
    _Static_assert((0 FXRT_##NAME##_FIELDS(FIELD_COUNT, FIELD_COUNT)) <= FX_MAX_FIELDS, #name " fits a call statement");
FXRT_DESCRIPTORS(FXRT_X)
#undef FXRT_X

const fx_kernel *fx_kernel_get(fx_kernel_id id)
{
    return (unsigned)id < FX_K_COUNT ? &kernels[id] : NULL;
}

const fx_kernel *fx_kernel_find(const char *name)
{
    for (int i = 0; i < FX_K_COUNT; i++) {
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    }
    return NULL;
}

int fx_kernel_field(const fx_kernel *k, const char *name)
{
    for (int i = 0; i < k->n_fields; i++) {
        if (strcmp(k->field[i].name, name) == 0)
            return i;
    }
    return -1;
}

int fx_kernel_buf(const fx_kernel *k, const char *name)
{
    for (int i = 0; i < k->n_bufs; i++) {
        if (strcmp(k->buf[i].name, name) == 0)
            return i;
    }
    return -1;
}

void fx_call_set(fx_call_stmt *c, const char *field, double v)
{
    int i = fx_kernel_field(&kernels[c->kernel], field);
    if (i >= 0)
        c->field[i] = v;
}

double fx_call_field(const fx_call_stmt *c, const char *field)
{
    int i = fx_kernel_field(&kernels[c->kernel], field);
    return i >= 0 ? c->field[i] : 0;
}

/* Values out of int32_t's range are clipped: the verifier refuses such calls, everybody else only must not trip on them. */
static int32_t to_int32(double v)
{
    if (!(v > INT32_MIN))
        return INT32_MIN;
    return v >= INT32_MAX ? INT32_MAX : (int32_t)v;
}

void fx_call_to_desc(const fx_call_stmt *c, void *desc)
{
    const fx_kernel *k = &kernels[c->kernel];
    char *at = desc;
    for (int i = 0; i < k->n_fields; i++, at += 4) {
        if (k->field[i].is_float)
            memcpy(at, &(float){(float)c->field[i]}, 4);
        else
            memcpy(at, &(int32_t){to_int32(c->field[i])}, 4);
    }
}

void fx_call_from_desc(fx_call_stmt *c, const void *desc)
{
    const fx_kernel *k = &kernels[c->kernel];
    const char *at = desc;
    for (int i = 0; i < k->n_fields; i++, at += 4) {
        if (k->field[i].is_float) {
            float f;
            memcpy(&f, at, 4);
            c->field[i] = f;
        } else {
            int32_t v;
            memcpy(&v, at, 4);
            c->field[i] = v;
        }
    }
}

/* ---- footprints: how many elements, from its offset on, each argument may touch ------------------------------
 * A window of sizes n0 x n1 x n2 x n3 with strides s0, s1, s2, 1 spans sum((n-1) * s) + 1 elements; 0 when empty. */

static int64_t round_up(int64_t n, int64_t multiple)
{
    return multiple > 0 ? (n + multiple - 1) / multiple * multiple : n;
}

/* Products of descriptor fields fit in 128 bits; past 2^62 no buffer reaches, so clip there. */
static int64_t clip(__int128 v)
{
    const int64_t top = INT64_C(1) << 62;
    return v > top ? top : v < 0 ? 0 : (int64_t)v;
}

static int64_t span(int n, const int32_t *sizes, const int32_t *strides)
{
    __int128 last = 0;
    for (int i = 0; i < n; i++) {
        if (sizes[i] <= 0)
            return 0;
        last += (__int128)(sizes[i] - 1) * strides[i];
    }
    return clip(last + 1);
}

/* n * h * w pixels of c dense channels. */
static int64_t span_nhwc(int32_t n, int32_t h, int32_t w, int64_t c, int32_t s_n, int32_t s_h, int32_t s_w)
{
    if (c <= 0)
        return 0;
    int64_t pixels = span(3, (int32_t[]){n, h, w}, (int32_t[]){s_n, s_h, s_w});
    return pixels ? clip((__int128)pixels + c - 1) : 0;
}

static int64_t product(int n, const int64_t *v)
{
    __int128 p = 1;
    for (int i = 0; i < n; i++)
        p = (__int128)clip(p) * (v[i] > 0 ? v[i] : 0);
    return clip(p);
}

/* Elements of a packed bias, as fxrt_bias_pack lays it out. */
static int64_t bias_size(int64_t groups, int64_t n, int64_t multiple)
{
    return product(2, (int64_t[]){groups, round_up(n, multiple)});
}

static int64_t conv2d_extent(const fx_program *p, const fx_call_stmt *c, char arg)
{
    const fx_target *t = &p->target;
    fxrt_conv2d_desc d;
    fx_call_to_desc(c, &d);
    bool dw = c->kernel == FX_K_conv2d_dw;
    switch (arg) {
    case 'x':
        return span_nhwc(d.n, d.ih, d.iw, (int64_t)d.groups * d.ic, d.xs_n, d.xs_h, d.xs_w);
    case 'y':
        return span_nhwc(d.n, d.oh, d.ow, (int64_t)d.groups * d.oc, d.ys_n, d.ys_h, d.ys_w);
    case 'r':
        return span_nhwc(d.n, d.oh, d.ow, (int64_t)d.groups * d.oc, d.rs_n, d.rs_h, d.rs_w);
    case 'w':
        if (dw)
            return product(3, (int64_t[]){d.kh, d.kw, round_up((int64_t)d.groups * d.oc, t->lanes)});
        if (c->kernel == FX_K_conv2d)
            return product(5, (int64_t[]){d.groups, round_up(d.oc, t->nr), d.kh, d.kw, d.ic});
        return -1;
    case 'b':
        return dw ? bias_size(1, (int64_t)d.groups * d.oc, t->lanes) : bias_size(d.groups, d.oc, t->nr);
    default:
        return -1;
    }
}

static int64_t gemm_extent(const fx_program *p, const fx_call_stmt *c, char arg)
{
    const fx_target *t = &p->target;
    fxrt_gemm_desc d;
    fx_call_to_desc(c, &d);
    switch (arg) {
    case 'x':
        return span(3, (int32_t[]){d.batch, d.m, d.k}, (int32_t[]){d.x_b, d.x_m, 1});
    case 'y':
        return span(3, (int32_t[]){d.batch, d.m, d.n}, (int32_t[]){d.y_b, d.y_m, 1});
    case 'r':
        return span(3, (int32_t[]){d.batch, d.m, d.n}, (int32_t[]){d.r_b, d.r_m, 1});
    case 'w':
        if (c->kernel == FX_K_matmul)
            return span(3, (int32_t[]){d.batch, d.k, d.n}, (int32_t[]){d.w_b, d.w_k, d.w_n});
        return product(2, (int64_t[]){round_up(d.n, t->nr), d.k});
    case 'b':
        return bias_size(1, d.n, t->nr);
    default:
        return -1;
    }
}

static int64_t pool2d_extent(const fx_call_stmt *c, char arg)
{
    fxrt_pool2d_desc d;
    fx_call_to_desc(c, &d);
    return arg == 'x' ? span_nhwc(d.n, d.ih, d.iw, d.c, d.xs_n, d.xs_h, d.xs_w)
                      : span_nhwc(d.n, d.oh, d.ow, d.c, d.ys_n, d.ys_h, d.ys_w);
}

static int64_t resize2d_extent(const fx_call_stmt *c, char arg)
{
    fxrt_resize2d_desc d;
    fx_call_to_desc(c, &d);
    return arg == 'x' ? span_nhwc(d.n, d.ih, d.iw, d.c, d.xs_n, d.xs_h, d.xs_w)
                      : span_nhwc(d.n, d.oh, d.ow, d.c, d.ys_n, d.ys_h, d.ys_w);
}

static int64_t layer_norm_extent(const fx_call_stmt *c, char arg)
{
    fxrt_layer_norm_desc d;
    fx_call_to_desc(c, &d);
    if (arg == 'x' || arg == 'y')
        return span(2, (int32_t[]){d.rows, d.n}, (int32_t[]){arg == 'x' ? d.x_m : d.y_m, 1});
    return d.n;
}

static int64_t group_norm_extent(const fx_call_stmt *c, char arg)
{
    fxrt_group_norm_desc d;
    fx_call_to_desc(c, &d);
    if (arg == 'x')
        return span(3, (int32_t[]){d.n, d.hw, d.c}, (int32_t[]){d.xs_n, d.xs_p, 1});
    if (arg == 'y')
        return span(3, (int32_t[]){d.n, d.hw, d.c}, (int32_t[]){d.ys_n, d.ys_p, 1});
    return d.c;
}

/* Elements argument `arg` (x, y, w, b, r) spans from its offset on; -1 when the kernel does not say. */
static int64_t extent_of(const fx_program *p, const fx_call_stmt *c, char arg)
{
    switch (c->kernel) {
    case FX_K_conv2d:
    case FX_K_conv2d_dw:
    case FX_K_conv_transpose2d:
        return conv2d_extent(p, c, arg);
    case FX_K_gemm:
    case FX_K_matmul:
        return gemm_extent(p, c, arg);
    case FX_K_max_pool2d:
    case FX_K_avg_pool2d:
        return pool2d_extent(c, arg);
    case FX_K_adaptive_avg_pool2d:
    case FX_K_adaptive_max_pool2d:
    case FX_K_upsample_nearest2d:
    case FX_K_upsample_bilinear2d:
        return resize2d_extent(c, arg);
    case FX_K_softmax:
    case FX_K_log_softmax: {
        fxrt_softmax_desc d;
        fx_call_to_desc(c, &d);
        return product(3, (int64_t[]){d.outer, d.n, d.inner});
    }
    case FX_K_layer_norm:
        return layer_norm_extent(c, arg);
    case FX_K_group_norm:
        return group_norm_extent(c, arg);
    case FX_K_COUNT:
        break;
    }
    return -1;
}

bool fx_call_footprint(const fx_program *p, const fx_call_stmt *c, int arg, int64_t *lo, int64_t *hi)
{
    const fx_kernel *k = &kernels[c->kernel];
    int buf = c->buf[arg];
    int64_t whole = buf >= 0 && (size_t)buf < p->n_bufs ? p->bufs[buf].numel : 0;
    const char *name = k->buf[arg].name;
    int64_t n = strcmp(name, "ws") == 0 ? -1 : extent_of(p, c, name[0]);
    *lo = c->offset[arg];
    *hi = n < 0 ? whole - 1 : clip((__int128)*lo + n) - 1;
    return n >= 0;
}
