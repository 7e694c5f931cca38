/* ir/program_kernels.c: what each runtime kernel computes, said plainly: loops over the descriptor's sizes, sums in double. Shares
 * no code with runtime/, so that it can judge it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <math.h>
#include <string.h>

#include "ir/program.h"

static double act(int kind, double x, double a, double b)
{
    switch (kind) {
    case FXRT_ACT_RELU:
        return x > 0 || x != x ? x : 0;
    case FXRT_ACT_CLAMP:
        x = x < a ? a : x;
        return x > b ? b : x;
    case FXRT_ACT_LEAKY_RELU:
        return x > 0 ? x : a * x;
    case FXRT_ACT_ELU:
        return x > 0 ? b * x : b * a * expm1(x);
    case FXRT_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case FXRT_ACT_TANH:
        return tanh(x);
    case FXRT_ACT_SILU:
        return x / (1 + exp(-x));
    case FXRT_ACT_HARDSWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    case FXRT_ACT_HARDSIGMOID:
        return x != x ? x : fmin(fmax(x + 3, 0), 6) / 6;
    case FXRT_ACT_GELU:
        return x * (1 + erf(x / sqrt(2))) / 2;
    case FXRT_ACT_GELU_TANH:
        return x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))) / 2;
    case FXRT_ACT_SOFTPLUS:
        return a * x > b ? x : log1p(exp(a * x)) / a;
    case FXRT_ACT_MISH:
        return x * tanh(x > 30 ? x : log1p(exp(x)));
    default:
        return x;
    }
}

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Where the packed weight of (group, output, kernel row, kernel column, input) lies. */
static int64_t packed_at(const fx_program *p, const fx_call_stmt *c, const fxrt_conv2d_desc *d, int64_t g, int64_t o, int64_t kh, int64_t kw,
                         int64_t i)
{
    const fx_target *t = &p->target;
    if (c->kernel == FX_K_conv2d_dw)
        return (kh * d->kw + kw) * round_up(d->groups, t->lanes) + g;
    int64_t panels = round_up(d->oc, t->nr) / t->nr;
    return ((((g * panels + o / t->nr) * d->kh + kh) * d->kw + kw) * d->ic + i) * t->nr + o % t->nr;
}

/* The input row that kernel row k of output row o reads; -1: outside, or, transposed, none. */
static int64_t source(bool transposed, int64_t o, int64_t k, int64_t stride, int64_t pad, int64_t dilation, int64_t in)
{
    int64_t at = transposed ? o + pad - k * dilation : o * stride - pad + k * dilation;
    if (transposed) {
        if (at < 0 || at % stride != 0)
            return -1;
        at /= stride;
    }
    return at >= 0 && at < in ? at : -1;
}

/* What conv2d_pre has before the convolution, and conv2d_post after the activation; of other rows all are NULL. */
typedef struct conv_more {
    const float *scale, *shift, *gain;
} conv_more;

static double prepared(const fx_call_stmt *c, const conv_more *more, float x, int64_t channel)
{
    double v = (double)x * (more->scale ? more->scale[channel] : 1) + (more->shift ? more->shift[channel] : 0);
    return c->kernel == FX_K_conv2d_pre && v < 0 ? 0 : v;
}

/* Winograd's weights back to [oc][3][3][ic], a panel an output channel, which is what packed_at makes of a GPU's: a line t = G g gives g back by its first
 * number, by what its second and third differ in, and by its last (points 0, 5/8, -5/8, 13/8, -13/8 and infinity). */
static double wino_weight(const float *w, int64_t pairs, int row, int column)
{
    static const double a = 0.625, b = 1.625;
    const double at_a = a * (a * a - b * b);
    const double back[3][6] = {{a * a * b * b}, {0, at_a, -at_a}, {0, 0, 0, 0, 0, 1}};
    double sum = 0;
    for (int i = 0; i < 6; i++)
    for (int j = 0; j < 6; j++)
        sum += back[row][i] * back[column][j] * w[(i * 6 + j) * pairs];
    return sum;
}

static float *wino_weights(const fx_program *p, const fx_call_stmt *c, const fxrt_conv2d_desc *d, const float *w, fx_arena *scratch)
{
    int64_t pairs = (int64_t)d->oc * d->ic;
    float *to = FX_NEW_ARRAY(scratch, float, 9 * pairs + 1);
    for (int64_t o = 0; o < d->oc; o++)
    for (int kh = 0; kh < 3; kh++)
    for (int kw = 0; kw < 3; kw++)
    for (int64_t i = 0; i < d->ic; i++)
        to[packed_at(p, c, d, 0, o, kh, kw, i)] = (float)wino_weight(w + o * d->ic + i, pairs, kh, kw);
    return to;
}

static void run_conv(const fx_program *p, const fx_call_stmt *c, const fxrt_conv2d_desc *d, const float *x, const float *w, const float *b,
                     const float *r, const conv_more *more, float *y)
{
    bool transposed = c->kernel == FX_K_conv_transpose2d, dw = c->kernel == FX_K_conv2d_dw;
    int64_t padded = dw ? 1 : round_up(d->oc, p->target.nr);
    for (int64_t n = 0; n < d->n; n++)
    for (int64_t oh = 0; oh < d->oh; oh++)
    for (int64_t ow = 0; ow < d->ow; ow++)
    for (int64_t g = 0; g < d->groups; g++)
    for (int64_t o = 0; o < d->oc; o++) {
        double sum = b ? b[dw ? g : g * padded + o] : 0;
        for (int64_t kh = 0; kh < d->kh; kh++)
        for (int64_t kw = 0; kw < d->kw; kw++) {
            int64_t ih = source(transposed, oh, kh, d->sh, d->ph, d->dh, d->ih);
            int64_t iw = source(transposed, ow, kw, d->sw, d->pw, d->dw, d->iw);
            if (ih < 0 || iw < 0)
                continue;
            const float *pixel = x + n * d->xs_n + ih * d->xs_h + iw * d->xs_w + g * d->ic;
            for (int64_t i = 0; i < d->ic; i++)
                sum += prepared(c, more, pixel[i], g * d->ic + i) * w[packed_at(p, c, d, g, o, kh, kw, i)];
        }
        int64_t channel = g * d->oc + o;
        double add = r ? r[n * d->rs_n + oh * d->rs_h + ow * d->rs_w + channel] : 0;
        double result = act(d->act, more->gain ? sum : sum + add, d->act_a, d->act_b);
        y[n * d->ys_n + oh * d->ys_h + ow * d->ys_w + channel] = (float)(more->gain ? result * more->gain[channel] + add : result);
    }
}

static void run_weight_grad(const fxrt_conv2d_desc *d, const float *x, const float *g, float *y)
{
    for (int64_t kh = 0; kh < d->kh; kh++)
    for (int64_t kw = 0; kw < d->kw; kw++)
    for (int64_t i = 0; i < d->ic; i++)
    for (int64_t o = 0; o < (int64_t)d->groups * d->oc; o++) {
        double sum = 0;
        for (int64_t n = 0; n < d->n; n++)
        for (int64_t oh = 0; oh < d->oh; oh++)
        for (int64_t ow = 0; ow < d->ow; ow++) {
            int64_t ih = source(false, oh, kh, d->sh, d->ph, d->dh, d->ih), iw = source(false, ow, kw, d->sw, d->pw, d->dw, d->iw);
            if (ih >= 0 && iw >= 0)
                sum += (double)x[n * d->xs_n + ih * d->xs_h + iw * d->xs_w + o / d->oc * d->ic + i] * g[n * d->ys_n + oh * d->ys_h + ow * d->ys_w + o];
        }
        *y++ = (float)sum;
    }
}

static void run_gemm(const fx_program *p, const fx_call_stmt *c, const fxrt_gemm_desc *d, const float *x, const float *w, const float *b,
                     const float *r, float *y)
{
    int64_t nr = p->target.nr;
    for (int64_t batch = 0; batch < d->batch; batch++)
    for (int64_t m = 0; m < d->m; m++)
    for (int64_t n = 0; n < d->n; n++) {
        double sum = b ? b[n] : 0;
        for (int64_t k = 0; k < d->k; k++) {
            int64_t at = c->kernel == FX_K_matmul ? batch * d->w_b + k * d->w_k + n * d->w_n : (n / nr * d->k + k) * nr + n % nr;
            sum += (double)x[batch * d->x_b + m * d->x_m + k] * w[at];
        }
        if (r)
            sum += r[batch * d->r_b + m * d->r_m + n];
        y[batch * d->y_b + m * d->y_m + n] = (float)act(d->act, sum, d->act_a, d->act_b);
    }
}

/* A NaN that was seen stays. */
static double max_nan(double a, double b)
{
    return a != a ? a : b != b || b > a ? b : a;
}

static void run_pool(const fx_call_stmt *c, const fxrt_pool2d_desc *d, const float *x, float *y)
{
    for (int64_t n = 0; n < d->n; n++)
    for (int64_t oh = 0; oh < d->oh; oh++)
    for (int64_t ow = 0; ow < d->ow; ow++)
    for (int64_t ch = 0; ch < d->c; ch++) {
        double max = -INFINITY, sum = 0, inside = 0, padded = 0;
        for (int64_t kh = 0; kh < d->kh; kh++)
        for (int64_t kw = 0; kw < d->kw; kw++) {
            int64_t ih = oh * d->sh - d->ph + kh * d->dh, iw = ow * d->sw - d->pw + kw * d->dw;
            if (ih < d->ih + d->ph && iw < d->iw + d->pw)
                padded++;
            if (ih < 0 || iw < 0 || ih >= d->ih || iw >= d->iw)
                continue;
            double v = x[n * d->xs_n + ih * d->xs_h + iw * d->xs_w + ch];
            inside++;
            sum += v;
            max = max_nan(max, v);
        }
        double count = d->divisor ? d->divisor : d->count_include_pad ? padded : inside;
        y[n * d->ys_n + oh * d->ys_h + ow * d->ys_w + ch] = (float)(c->kernel == FX_K_max_pool2d ? max : inside ? sum / count : 0);
    }
}

static void run_adaptive(const fx_call_stmt *c, const fxrt_resize2d_desc *d, const float *x, float *y)
{
    for (int64_t n = 0; n < d->n; n++)
    for (int64_t oh = 0; oh < d->oh; oh++)
    for (int64_t ow = 0; ow < d->ow; ow++)
    for (int64_t ch = 0; ch < d->c; ch++) {
        double max = -INFINITY, sum = 0, count = 0;
        for (int64_t ih = oh * d->ih / d->oh; ih < ((oh + 1) * d->ih + d->oh - 1) / d->oh; ih++)
        for (int64_t iw = ow * d->iw / d->ow; iw < ((ow + 1) * d->iw + d->ow - 1) / d->ow; iw++) {
            double v = x[n * d->xs_n + ih * d->xs_h + iw * d->xs_w + ch];
            count++;
            sum += v;
            max = max_nan(max, v);
        }
        y[n * d->ys_n + oh * d->ys_h + ow * d->ys_w + ch] = (float)(c->kernel == FX_K_adaptive_max_pool2d ? max : sum / count);
    }
}

/* PyTorch computes source indices in float, so this does. */
static int64_t nearest(int64_t o, int64_t in, int64_t out, float scale)
{
    if (out == in)
        return o;
    if (out == 2 * in)
        return o / 2;
    int64_t at = (int64_t)floorf((float)o * scale);
    return at < in - 1 ? at : in - 1;
}

static void linear(int64_t o, int64_t in, int64_t out, float scale, bool align, int64_t *i0, int64_t *i1, double *t)
{
    float at = align ? scale * (float)o : scale * ((float)o + 0.5f) - 0.5f;
    if (out == in) { /* the neighbour is the element itself */
        *i0 = *i1 = o;
        *t = 0;
        return;
    }
    if (at < 0)
        at = 0;
    *i0 = (int64_t)at < in - 1 ? (int64_t)at : in - 1;
    *i1 = *i0 + 1 < in ? *i0 + 1 : in - 1;
    *t = fmin(fmax((double)at - (double)*i0, 0), 1);
}

static void run_upsample(const fx_call_stmt *c, const fxrt_resize2d_desc *d, const float *x, float *y)
{
    for (int64_t n = 0; n < d->n; n++)
    for (int64_t oh = 0; oh < d->oh; oh++)
    for (int64_t ow = 0; ow < d->ow; ow++) {
        int64_t h0 = nearest(oh, d->ih, d->oh, d->scale_h), h1 = h0, w0 = nearest(ow, d->iw, d->ow, d->scale_w), w1 = w0;
        double th = 0, tw = 0;
        if (c->kernel == FX_K_upsample_bilinear2d) {
            linear(oh, d->ih, d->oh, d->scale_h, d->align_corners, &h0, &h1, &th);
            linear(ow, d->iw, d->ow, d->scale_w, d->align_corners, &w0, &w1, &tw);
        }
        const float *image = x + n * d->xs_n;
        for (int64_t ch = 0; ch < d->c; ch++) {
            double a = image[h0 * d->xs_h + w0 * d->xs_w + ch], b = image[h0 * d->xs_h + w1 * d->xs_w + ch];
            double e = image[h1 * d->xs_h + w0 * d->xs_w + ch], f = image[h1 * d->xs_h + w1 * d->xs_w + ch];
            double v = c->kernel == FX_K_upsample_nearest2d ? a : (1 - th) * ((1 - tw) * a + tw * b) + th * ((1 - tw) * e + tw * f);
            y[n * d->ys_n + oh * d->ys_h + ow * d->ys_w + ch] = (float)v;
        }
    }
}

static void run_softmax(const fx_call_stmt *c, const fxrt_softmax_desc *d, const float *x, float *y)
{
    for (int64_t o = 0; o < d->outer; o++)
    for (int64_t i = 0; i < d->inner; i++) {
        const float *in = x + o * d->n * d->inner + i;
        float *out = y + o * d->n * d->inner + i;
        double max = -INFINITY, sum = 0;
        for (int64_t k = 0; k < d->n; k++)
            max = max_nan(max, in[k * d->inner]);
        for (int64_t k = 0; k < d->n; k++)
            sum += exp(in[k * d->inner] - max);
        for (int64_t k = 0; k < d->n; k++) {
            double v = in[k * d->inner] - max;
            out[k * d->inner] = (float)(c->kernel == FX_K_softmax ? exp(v) / sum : v - log(sum));
        }
    }
}

/* Mean and 1 / standard deviation of n elements at `in`, rows of them `step` apart. */
static void moments(const float *in, int64_t rows, int64_t step, int64_t n, double eps, double *mean, double *rstd)
{
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < n; k++)
        sum += in[r * step + k];
    *mean = sum / (double)(rows * n);
    for (int64_t r = 0; r < rows; r++)
    for (int64_t k = 0; k < n; k++)
        squares += (in[r * step + k] - *mean) * (in[r * step + k] - *mean);
    *rstd = 1 / sqrt(squares / (double)(rows * n) + eps);
}

static void run_layer_norm(const fxrt_layer_norm_desc *d, const float *x, const float *w, const float *b, float *y)
{
    for (int64_t m = 0; m < d->rows; m++) {
        double mean, rstd;
        moments(x + m * d->x_m, 1, 0, d->n, d->eps, &mean, &rstd);
        for (int64_t k = 0; k < d->n; k++)
            y[m * d->y_m + k] = (float)((x[m * d->x_m + k] - mean) * rstd * (w ? w[k] : 1) + (b ? b[k] : 0));
    }
}

static void run_group_norm(const fxrt_group_norm_desc *d, const float *x, const float *w, const float *b, float *y)
{
    int64_t size = d->c / d->groups;
    for (int64_t n = 0; n < d->n; n++)
    for (int64_t g = 0; g < d->groups; g++) {
        double mean, rstd;
        moments(x + n * d->xs_n + g * size, d->hw, d->xs_p, size, d->eps, &mean, &rstd);
        for (int64_t p = 0; p < d->hw; p++)
        for (int64_t c = g * size; c < (g + 1) * size; c++)
            y[n * d->ys_n + p * d->ys_p + c] =
                (float)((x[n * d->xs_n + p * d->xs_p + c] - mean) * rstd * (w ? w[c] : 1) + (b ? b[c] : 0));
    }
}

static void run_rms_norm(const fxrt_layer_norm_desc *d, const float *x, const float *w, float *y)
{
    for (int64_t m = 0; m < d->rows; m++) {
        double squares = 0;
        for (int64_t k = 0; k < d->n; k++)
            squares += (double)x[m * d->x_m + k] * x[m * d->x_m + k];
        double scale = 1 / sqrt(squares / d->n + d->eps);
        for (int64_t k = 0; k < d->n; k++)
            y[m * d->y_m + k] = (float)(x[m * d->x_m + k] * scale * (w ? w[k] : 1));
    }
}

/* One query: weights[n], out[dv] are scratch; only then is y written, which may be where q was. */
static void attend(const fxrt_attention_desc *d, int64_t i, const float *q, const float *k, const float *v, const float *bias, const float *mask,
                   double *weight, double *out, float *y)
{
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < d->n; j++) {
        weight[j] = 0;
        for (int64_t p = 0; p < d->dk; p++)
            weight[j] += (double)q[p] * k[j * d->k_n + p];
        float first = bias ? bias[j * d->bias_n] : 0, add = mask ? mask[j * d->mask_n] : 0;
        weight[j] = d->fill && add < -1e30f ? add : weight[j] * d->scale + first + add;
        if (d->causal && j > i)
            weight[j] = -INFINITY;
        max = max_nan(max, weight[j]);
    }
    for (int64_t j = 0; j < d->n; j++)
        sum += weight[j] = d->zero_empty && max == -INFINITY ? 0 : exp(weight[j] - max);
    for (int64_t c = 0; c < d->dv; c++) {
        out[c] = 0;
        for (int64_t j = 0; j < d->n && sum != 0; j++)
            out[c] += weight[j] / sum * v[j * d->v_n + c];
    }
    for (int64_t c = 0; c < d->dv; c++)
        y[c] = (float)out[c];
}

static void run_attention(const fx_program *p, const fxrt_attention_desc *d, const float *q, const float *k, const float *v, const float *bias,
                          const float *mask, float *y)
{
    fx_arena *scratch = fx_arena_create(p->ctx);
    double *weight = FX_NEW_ARRAY(scratch, double, (size_t)d->n + 1), *out = FX_NEW_ARRAY(scratch, double, (size_t)d->dv + 1);
    for (int64_t b = 0; b < d->batch; b++)
    for (int64_t h = 0; h < d->heads; h++)
    for (int64_t i = 0; i < d->m; i++) {
        int64_t g = h / (d->heads / d->kv_heads);
        attend(d, i, q + b * d->q_b + h * d->q_h + i * d->q_m, k + b * d->k_b + g * d->k_h, v + b * d->v_b + g * d->v_h,
               bias ? bias + b * d->bias_b + h * d->bias_h + i * d->bias_m : NULL,
               mask ? mask + b * d->mask_b + h * d->mask_h + i * d->mask_m : NULL, weight, out, y + b * d->o_b + h * d->o_h + i * d->o_m);
    }
    fx_arena_free(scratch);
}

/* The buffer of an argument; NULL if there is none. */
static float *argument(const fx_kernel *k, float *const *bufs, const char *name)
{
    int arg = fx_kernel_buf(k, name);
    return arg >= 0 ? bufs[arg] : NULL;
}

void fx_call_run(const fx_program *p, const fx_call_stmt *c, float *const *bufs)
{
    const fx_kernel *k = fx_kernel_get(c->kernel);
    union {
        fxrt_conv2d_desc conv2d;
        fxrt_gemm_desc gemm;
        fxrt_pool2d_desc pool2d;
        fxrt_resize2d_desc resize2d;
        fxrt_softmax_desc softmax;
        fxrt_layer_norm_desc layer_norm;
        fxrt_group_norm_desc group_norm;
        fxrt_attention_desc attention;
    } d;
    static const char *const names[] = {"x", "w", "b", "r", "y"};
    float *at[5] = {NULL};
    for (int i = 0; i < 5; i++)
        at[i] = argument(k, bufs, names[i]);
    fx_call_to_desc(c, &d);
    switch (c->kernel) {
    case FX_K_conv2d:
    case FX_K_conv2d_pre:
    case FX_K_conv2d_post:
    case FX_K_conv2d_dw:
    case FX_K_conv_transpose2d:
    case FX_K_conv2d_half:
        run_conv(p, c, &d.conv2d, at[0], at[1], at[2], at[3], &(conv_more){argument(k, bufs, "scale"), argument(k, bufs, "shift"), argument(k, bufs, "gain")}, at[4]);
        break;
    case FX_K_conv2d_wino: {
        fx_arena *scratch = fx_arena_create(p->ctx);
        run_conv(p, c, &d.conv2d, at[0], wino_weights(p, c, &d.conv2d, at[1], scratch), at[2], at[3], &(conv_more){NULL, NULL, NULL}, at[4]);
        fx_arena_free(scratch);
        break;
    }
    case FX_K_conv2d_weight_grad:
    case FX_K_conv2d_weight_grad_split:
        run_weight_grad(&d.conv2d, at[0], argument(k, bufs, "g"), at[4]);
        break;
    case FX_K_gemm:
    case FX_K_matmul:
        run_gemm(p, c, &d.gemm, at[0], at[1], at[2], at[3], at[4]);
        break;
    case FX_K_max_pool2d:
    case FX_K_avg_pool2d:
        run_pool(c, &d.pool2d, at[0], at[4]);
        break;
    case FX_K_adaptive_avg_pool2d:
    case FX_K_adaptive_max_pool2d:
        run_adaptive(c, &d.resize2d, at[0], at[4]);
        break;
    case FX_K_upsample_nearest2d:
    case FX_K_upsample_bilinear2d:
        run_upsample(c, &d.resize2d, at[0], at[4]);
        break;
    case FX_K_softmax:
    case FX_K_log_softmax:
        run_softmax(c, &d.softmax, at[0], at[4]);
        break;
    case FX_K_layer_norm:
        run_layer_norm(&d.layer_norm, at[0], at[1], at[2], at[4]);
        break;
    case FX_K_rms_norm:
        run_rms_norm(&d.layer_norm, at[0], at[1], at[4]);
        break;
    case FX_K_attention:
        run_attention(p, &d.attention, at[0], argument(k, bufs, "k"), argument(k, bufs, "v"), argument(k, bufs, "bias"),
                      argument(k, bufs, "mask"), at[4]);
        break;
    case FX_K_group_norm:
        run_group_norm(&d.group_norm, at[0], at[1], at[2], at[4]);
        break;
    case FX_K_COUNT:
        break;
    }
}
