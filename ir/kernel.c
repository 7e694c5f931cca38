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
#define KERNEL(id, desc, buffers, files, cuda, doc) static const char id##_buffers[] = buffers;
#include "ir/kernel.def"
#undef KERNEL

/* The number of buffers: N_conv2d. */
#define IN(x) +1
#define OPT(x) +1
#define OUT(x) +1
#define OVER(x) +1
#define WS(x) +1
#define COUNT(x) +1
#define KERNEL(id, desc, buffers, files, cuda, doc) N_##id = 0 buffers,
enum {
#include "ir/kernel.def"
};
#undef KERNEL

#define IN(x) {#x, false, false, false, false},
#define OPT(x) {#x, true, false, false, false},
#define OUT(x) {#x, false, true, false, false},
#define OVER(x) {#x, false, true, true, false},
#define WS(x) {#x, true, true, false, false},
#define COUNT(x) {#x, true, true, false, true},
#define KERNEL(id, desc, buffers, files, cuda, doc)                                                          \
    {FX_K_##id, #id, #desc, id##_buffers, files, cuda, doc, N_##id, {buffers}, (int)(sizeof desc##_fields / sizeof desc##_fields[0]), \
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

int fx_kernel_in_step(const fx_kernel *k)
{
    int y = fx_kernel_buf(k, "y");
    return fx_kernel_buf(k, y >= 0 && k->buf[y].over_x ? "x" : "r");
}

bool fx_kernel_is_conv2d(fx_kernel_id id)
{
    return id == FX_K_conv2d || id == FX_K_conv2d_pre || id == FX_K_conv2d_post;
}

int fx_kernel_buf(const fx_kernel *k, const char *name)
{
    for (int i = 0; i < k->n_bufs; i++) {
        if (strcmp(k->buf[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* The kernels of runtime/cuda/ are templates over the elements' type, but for some. */
bool fx_kernel_takes(const fx_target *target, fx_kernel_id kernel, fx_dtype dtype)
{
    bool floats = kernel == FX_K_conv2d_weight_grad || kernel == FX_K_conv2d_weight_grad_split || kernel == FX_K_conv2d_wino;
    bool half = (dtype == FX_F16 || dtype == FX_BF16) && fx_target_is_gpu(target) && !floats;
    return kernel == FX_K_conv2d_half ? half : half || dtype == FX_F32;
}

bool fx_products_activate(int act)
{
    return act == FXRT_ACT_NONE || act == FXRT_ACT_RELU || act == FXRT_ACT_GELU_TANH;
}

/* Two: shares of pixels, and the last one, which may be smaller. */
int fx_kernel_products(fx_kernel_id kernel)
{
    return kernel == FX_K_matmul ? 1 : kernel == FX_K_conv2d_wino || kernel == FX_K_conv2d_half ? 2 : 0;
}

fx_dtype fx_call_dtype(const fx_program *p, const fx_call_stmt *c)
{
    int y = c->buf[fx_kernel_buf(&kernels[c->kernel], "y")];
    return y >= 0 && (size_t)y < p->n_bufs ? p->bufs[y].dtype : FX_F32;
}

bool fx_call_adds_floats(const fx_program *p, const fx_call_stmt *c)
{
    static const char *const added[] = {"bias", "mask"};
    if (c->kernel != FX_K_attention)
        return false;
    for (int i = 0; i < 2; i++) {
        int buf = c->buf[fx_kernel_buf(&kernels[c->kernel], added[i])];
        if (buf >= 0 && p->bufs[buf].dtype != fx_call_dtype(p, c))
            return true;
    }
    return false;
}

void fx_call_set(fx_call_stmt *c, const char *field, double v)
{
    int i = fx_kernel_field(&kernels[c->kernel], field);
    if (i >= 0) {
        c->field[i] = v;
        c->sym[i] = NULL;
    }
}

void fx_call_set_dim(fx_call_stmt *c, const char *field, fx_dim v)
{
    int i = fx_kernel_field(&kernels[c->kernel], field);
    if (i >= 0) {
        c->field[i] = v.sym ? 0 : (double)v.value;
        c->sym[i] = v.sym;
    }
}

double fx_call_field(const fx_call_stmt *c, const char *field)
{
    int i = fx_kernel_field(&kernels[c->kernel], field);
    return i >= 0 ? c->field[i] : 0;
}

/* What is no integer (the verifier refuses it) is cut off. */
static fx_dim field_dim(const fx_call_stmt *c, int i)
{
    double v = c->field[i];
    if (c->sym[i])
        return fx_dim_sym(c->sym[i]);
    return fx_dim_of(v >= -0x1p53 && v <= 0x1p53 ? (int64_t)v : v > 0 ? INT64_C(1) << 53 : -(INT64_C(1) << 53));
}

fx_dim fx_call_dim(const fx_call_stmt *c, const char *field)
{
    int i = fx_kernel_field(&kernels[c->kernel], field);
    return i >= 0 ? field_dim(c, i) : fx_dim_of(0);
}

bool fx_call_is_static(const fx_call_stmt *c)
{
    const fx_kernel *k = &kernels[c->kernel];
    for (int i = 0; i < k->n_fields; i++) {
        if (c->sym[i])
            return false;
    }
    for (int i = 0; i < k->n_bufs; i++) {
        if (c->offset[i].sym)
            return false;
    }
    return true;
}

bool fx_call_bind(fx_symbols symbols, const int64_t *values, const fx_call_stmt *c, fx_call_stmt *out)
{
    const fx_kernel *k = &kernels[c->kernel];
    *out = *c;
    for (int i = 0; i < k->n_fields; i++) {
        int64_t v;
        if (!c->sym[i])
            continue;
        if (!fx_dim_eval(symbols, values, fx_dim_sym(c->sym[i]), &v) || v < INT32_MIN || v > INT32_MAX)
            return false;
        out->field[i] = (double)v;
        out->sym[i] = NULL;
    }
    for (int i = 0; i < k->n_bufs; i++) {
        if (!fx_dim_eval(symbols, values, c->offset[i], &out->offset[i].value))
            return false;
        out->offset[i].sym = NULL;
    }
    return true;
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
        c->sym[i] = NULL;
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
 * A window of sizes n0 x n1 x n2 x n3 with strides s0, s1, s2, 1 spans sum((n-1) * s) + 1 elements; 0 when empty. Sizes that are
 * expressions are positive where the call runs. */

typedef struct footprint {
    fx_context *ctx;
    const fx_call_stmt *c;
    int multiple;              /* of a packed dim */
} footprint;

static fx_dim field(const footprint *f, const char *name)
{
    return fx_call_dim(f->c, name);
}

static fx_dim round_up(const footprint *f, fx_dim n)
{
    int64_t m = f->multiple > 0 ? f->multiple : 1;
    return fx_dim_scale(f->ctx, fx_dim_floordiv(f->ctx, fx_dim_plus(f->ctx, n, m - 1), fx_dim_of(m)), m);
}

static bool is_empty(fx_dim n)
{
    return !n.sym && n.value <= 0;
}

static fx_dim span(const footprint *f, int n, const fx_dim *sizes, const fx_dim *strides)
{
    fx_dim last = fx_dim_of(1);
    for (int i = 0; i < n; i++) {
        if (is_empty(sizes[i]))
            return fx_dim_of(0);
        last = fx_dim_add(f->ctx, last, fx_dim_mul(f->ctx, fx_dim_plus(f->ctx, sizes[i], -1), strides[i]));
    }
    return is_empty(last) ? fx_dim_of(0) : last;
}

/* Of n fields by name, and innermost a dense dim. */
static fx_dim spans(const footprint *f, int n, const char *const *sizes, const char *const *strides, fx_dim last)
{
    fx_dim size[5], stride[5];
    for (int i = 0; i < n; i++) {
        size[i] = field(f, sizes[i]);
        stride[i] = field(f, strides[i]);
    }
    size[n] = last;
    stride[n] = fx_dim_of(1);
    return span(f, n + 1, size, stride);
}

static fx_dim product(const footprint *f, int n, const fx_dim *v)
{
    fx_dim p = fx_dim_of(1);
    for (int i = 0; i < n; i++) {
        if (is_empty(v[i]))
            return fx_dim_of(0);
        p = fx_dim_mul(f->ctx, p, v[i]);
    }
    return p;
}

static const fx_dim no_extent = {.value = -1};

static fx_dim nhwc(const footprint *f, bool input, char arg, fx_dim channels)
{
    const char *const in[] = {"n", "ih", "iw"}, *const out[] = {"n", "oh", "ow"};
    const char *const x[] = {"xs_n", "xs_h", "xs_w"}, *const y[] = {"ys_n", "ys_h", "ys_w"}, *const r[] = {"rs_n", "rs_h", "rs_w"};
    return spans(f, 3, input ? in : out, arg == 'x' ? x : arg == 'r' ? r : y, channels);
}

static fx_dim conv2d_extent(const fx_program *p, footprint *f, char arg)
{
    bool dw = f->c->kernel == FX_K_conv2d_dw;
    fx_dim groups = field(f, "groups"), oc = field(f, "oc"), ic = field(f, "ic"), all = fx_dim_mul(f->ctx, groups, oc);
    f->multiple = dw ? p->target.lanes : p->target.nr;
    switch (arg) {
    case 'x':
        return nhwc(f, true, arg, fx_dim_mul(f->ctx, groups, ic));
    case 'y':
    case 'r':
        return nhwc(f, false, arg, all);
    case 'w':
        if (dw)
            return product(f, 3, (fx_dim[]){field(f, "kh"), field(f, "kw"), round_up(f, all)});
        if (f->c->kernel == FX_K_conv2d_wino)
            return product(f, 3, (fx_dim[]){fx_dim_of(36), oc, ic});
        if (fx_kernel_is_conv2d(f->c->kernel) || f->c->kernel == FX_K_conv2d_half)
            return product(f, 5, (fx_dim[]){groups, round_up(f, oc), field(f, "kh"), field(f, "kw"), ic});
        return no_extent;
    case 's': /* scale, shift */
        return fx_dim_mul(f->ctx, groups, ic);
    case 'g': /* gain */
        return all;
    case 'b': /* as fxrt_bias_pack lays it out */
        return dw ? round_up(f, all) : product(f, 2, (fx_dim[]){groups, round_up(f, oc)});
    default:
        return no_extent;
    }
}

static fx_dim weight_grad_extent(const footprint *f, char arg)
{
    fx_dim groups = field(f, "groups"), oc = field(f, "oc"), ic = field(f, "ic");
    switch (arg) {
    case 'x':
        return nhwc(f, true, arg, fx_dim_mul(f->ctx, groups, ic));
    case 'g':
        return nhwc(f, false, arg, fx_dim_mul(f->ctx, groups, oc));
    default:
        return product(f, 5, (fx_dim[]){field(f, "kh"), field(f, "kw"), ic, groups, oc});
    }
}

static fx_dim gemm_extent(const fx_program *p, footprint *f, char arg)
{
    const char *const rows[] = {"batch", "m"}, *const x[] = {"x_b", "x_m"}, *const y[] = {"y_b", "y_m"}, *const r[] = {"r_b", "r_m"};
    f->multiple = p->target.nr;
    switch (arg) {
    case 'x':
        return spans(f, 2, rows, x, field(f, "k"));
    case 'y':
        return spans(f, 2, rows, y, field(f, "n"));
    case 'r':
        return spans(f, 2, rows, r, field(f, "n"));
    case 'w':
        if (f->c->kernel == FX_K_matmul)
            return span(f, 3, (fx_dim[]){field(f, "batch"), field(f, "k"), field(f, "n")},
                        (fx_dim[]){field(f, "w_b"), field(f, "w_k"), field(f, "w_n")});
        return product(f, 2, (fx_dim[]){round_up(f, field(f, "n")), field(f, "k")});
    case 'b':
        return round_up(f, field(f, "n"));
    default:
        return no_extent;
    }
}

static fx_dim norm_extent(const footprint *f, char arg)
{
    const char *const rows[] = {"rows"}, *const x_m[] = {"x_m"}, *const y_m[] = {"y_m"};
    const char *const pixels[] = {"n", "hw"}, *const x[] = {"xs_n", "xs_p"}, *const y[] = {"ys_n", "ys_p"};
    if (f->c->kernel == FX_K_layer_norm || f->c->kernel == FX_K_rms_norm)
        return arg == 'x' || arg == 'y' ? spans(f, 1, rows, arg == 'x' ? x_m : y_m, field(f, "n")) : field(f, "n");
    return arg == 'x' || arg == 'y' ? spans(f, 2, pixels, arg == 'x' ? x : y, field(f, "c")) : field(f, "c");
}

/* Queries x[batch][heads][m][dk], keys k[batch][kv_heads][n][dk], values v[..][n][dv], bias and mask[batch][heads][m][n], y[batch][heads][m][dv]. */
static fx_dim attention_extent(const footprint *f, char arg)
{
    const char *const q_sizes[] = {"batch", "heads", "m"}, *const kv_sizes[] = {"batch", "kv_heads", "n"};
    const char *const q[] = {"q_b", "q_h", "q_m"}, *const k[] = {"k_b", "k_h", "k_n"}, *const v[] = {"v_b", "v_h", "v_n"};
    const char *const o[] = {"o_b", "o_h", "o_m"}, *const scores[] = {"batch", "heads", "m", "n"};
    const char *const bias[] = {"bias_b", "bias_h", "bias_m", "bias_n"}, *const mask[] = {"mask_b", "mask_h", "mask_m", "mask_n"};
    switch (arg) {
    case 'x':
        return spans(f, 3, q_sizes, q, field(f, "dk"));
    case 'k':
        return spans(f, 3, kv_sizes, k, field(f, "dk"));
    case 'v':
        return spans(f, 3, kv_sizes, v, field(f, "dv"));
    case 'y':
        return spans(f, 3, q_sizes, o, field(f, "dv"));
    case 'b':
        return spans(f, 4, scores, bias, fx_dim_of(1));
    case 'm':
        return spans(f, 4, scores, mask, fx_dim_of(1));
    default:
        return no_extent;
    }
}

/* Elements argument `arg` (x, y, w, b, r, g; k, v, b, m) spans from its offset on; -1 when the kernel does not say. */
static fx_dim extent_of(const fx_program *p, const fx_call_stmt *c, char arg)
{
    footprint f = {.ctx = p->ctx, .c = c};
    switch (c->kernel) {
    case FX_K_conv2d:
    case FX_K_conv2d_pre:
    case FX_K_conv2d_post:
    case FX_K_conv2d_dw:
    case FX_K_conv_transpose2d:
    case FX_K_conv2d_wino:
    case FX_K_conv2d_half:
        return conv2d_extent(p, &f, arg);
    case FX_K_conv2d_weight_grad:
    case FX_K_conv2d_weight_grad_split:
        return weight_grad_extent(&f, arg);
    case FX_K_gemm:
    case FX_K_matmul:
        return gemm_extent(p, &f, arg);
    case FX_K_max_pool2d:
    case FX_K_avg_pool2d:
    case FX_K_adaptive_avg_pool2d:
    case FX_K_adaptive_max_pool2d:
    case FX_K_upsample_nearest2d:
    case FX_K_upsample_bilinear2d:
        return nhwc(&f, arg == 'x', arg, field(&f, "c"));
    case FX_K_softmax:
    case FX_K_log_softmax:
        return product(&f, 3, (fx_dim[]){field(&f, "outer"), field(&f, "n"), field(&f, "inner")});
    case FX_K_layer_norm:
    case FX_K_rms_norm:
    case FX_K_group_norm:
        return norm_extent(&f, arg);
    case FX_K_attention:
        return attention_extent(&f, arg);
    case FX_K_COUNT:
        break;
    }
    return no_extent;
}

bool fx_call_footprint(const fx_program *p, const fx_call_stmt *c, int arg, fx_dim *lo, fx_dim *hi)
{
    const fx_kernel *k = &kernels[c->kernel];
    int buf = c->buf[arg];
    fx_dim whole = buf >= 0 && (size_t)buf < p->n_bufs ? p->bufs[buf].numel : fx_dim_of(0);
    const char *name = k->buf[arg].name;
    fx_dim n = strcmp(name, "ws") == 0 ? no_extent : extent_of(p, c, name[0]);
    bool says = n.sym || n.value >= 0;
    *lo = c->offset[arg];
    *hi = fx_dim_plus(p->ctx, says ? fx_dim_add(p->ctx, *lo, n) : whole, -1);
    return says;
}
