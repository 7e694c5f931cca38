/* fxcc/runtime.h: the ABI between emitted code and the kernels of libfxrt, in C99 and C++.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * Every kernel takes a constant descriptor and pointers to f32 buffers. Activations are channels-last (NHWC): the channel
 * stride is 1, the others (n, h, w) are given in elements, so that a kernel can read a slice of channels and write into
 * a slice of a concatenation. Weights and biases of contractions are packed by the *_pack functions below. The tail
 * of a contraction is y = act(product + bias + residual). Pointers b, r may be NULL. Kernels neither allocate nor keep state.
 *
 * The same kernel text is used three ways: pasted into emitted files (FXRT_STATIC, names as here), in libfxrt (a copy per
 * instruction set, fxrt_avx2_conv2d), and by the JIT. */
#ifndef FXCC_RUNTIME_H
#define FXCC_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FXRT_ABI_VERSION 2

/* The version libfxrt was built with. */
int fxrt_abi_version(void);

/* Activations: X(id, parameters used). a and b are act_a and act_b of the descriptor. */
#define FXRT_ACTS(X)                                                                             \
    X(NONE, "x")                                                                                  \
    X(RELU, "max(x, 0)")                                                                          \
    X(CLAMP, "min(max(x, a), b): relu6, hardtanh, clamp")                                         \
    X(LEAKY_RELU, "x > 0 ? x : a * x")                                                            \
    X(ELU, "x > 0 ? b * x : b * a * (exp(x) - 1)")                                                \
    X(SIGMOID, "1 / (1 + exp(-x))")                                                               \
    X(TANH, "tanh(x)")                                                                            \
    X(SILU, "x * sigmoid(x)")                                                                     \
    X(HARDSWISH, "x * min(max(x + 3, 0), 6) / 6")                                                 \
    X(HARDSIGMOID, "min(max(x + 3, 0), 6) / 6")                                                   \
    X(GELU, "x * (1 + erf(x / sqrt(2))) / 2")                                                     \
    X(GELU_TANH, "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2")                         \
    X(SOFTPLUS, "a * x > b ? x : log1p(exp(a * x)) / a")                                          \
    X(MISH, "x * tanh(log1p(exp(x)))")

enum {
#define FXRT_X(id, doc) FXRT_ACT_##id,
    FXRT_ACTS(FXRT_X)
#undef FXRT_X
    FXRT_ACT_COUNT
};

/* Descriptors: lists of fields, I(int32_t) and F(float), from which the structs here, the tables of the compiler and
 * the initialisers of emitted files expand. Missing (zero) strides are errors, not defaults. */

/* conv2d, conv2d_dw, conv_transpose2d. x[n][ih][iw][groups*ic], y[n][oh][ow][groups*oc]; ic, oc count one group.
 * The output row o reads input rows o*sh - ph + k*dh, k < kh; rows outside the input are zeros.
 * Transposed: input row i adds to output rows i*sh - ph + k*dh. rs_*: strides of the residual r[n][oh][ow][groups*oc].
 * conv2d_weight_grad: ys_* are the strides of the gradient g[n][oh][ow][groups*oc]; y[kh][kw][ic][groups*oc] is dense. No r, no act. */
#define FXRT_CONV2D_FIELDS(I, F)                                                                  \
    I(n) I(ih) I(iw) I(ic) I(oh) I(ow) I(oc) I(groups) I(kh) I(kw) I(sh) I(sw) I(ph) I(pw) I(dh) I(dw)    \
    I(xs_n) I(xs_h) I(xs_w) I(ys_n) I(ys_h) I(ys_w) I(rs_n) I(rs_h) I(rs_w) I(act) F(act_a) F(act_b)

/* gemm: y[batch][m][n] = act(x[batch][m][k] * w[k][n] + b[n] + r[batch][m][n]), w packed and shared by the batch.
 * Row strides x_m, y_m, r_m; batch strides x_b, y_b, r_b; columns are dense.
 * matmul: the same, but w[batch][k][n] is a plain matrix with strides w_b, w_k, w_n, packed into the workspace. */
#define FXRT_GEMM_FIELDS(I, F)                                                                    \
    I(batch) I(m) I(n) I(k) I(x_b) I(x_m) I(y_b) I(y_m) I(r_b) I(r_m) I(w_b) I(w_k) I(w_n) I(act) F(act_a) F(act_b)

/* max_pool2d, avg_pool2d: windows as in conv2d over c channels. avg divides by divisor if not 0, else by the window's size
 * clipped to the padded input (count_include_pad) or to the input. */
#define FXRT_POOL2D_FIELDS(I, F)                                                                  \
    I(n) I(ih) I(iw) I(c) I(oh) I(ow) I(kh) I(kw) I(sh) I(sw) I(ph) I(pw) I(dh) I(dw)                     \
    I(xs_n) I(xs_h) I(xs_w) I(ys_n) I(ys_h) I(ys_w) I(count_include_pad) I(divisor) F(unused)

/* adaptive_avg_pool2d, adaptive_max_pool2d: output row o covers input rows floor(o*ih/oh) to ceil((o+1)*ih/oh) - 1.
 * upsample_nearest2d, upsample_bilinear2d: PyTorch's index rules; scale_h, scale_w are input steps per output step. */
#define FXRT_RESIZE2D_FIELDS(I, F)                                                                \
    I(n) I(ih) I(iw) I(c) I(oh) I(ow) I(xs_n) I(xs_h) I(xs_w) I(ys_n) I(ys_h) I(ys_w) I(align_corners)      \
    F(scale_h) F(scale_w)

/* softmax, log_softmax over the middle of [outer][n][inner], dense. */
#define FXRT_SOFTMAX_FIELDS(I, F) I(outer) I(n) I(inner) F(unused)

/* layer_norm over the last n of [rows][n] (row strides x_m, y_m); w, b of n elements or NULL. */
#define FXRT_LAYER_NORM_FIELDS(I, F) I(rows) I(n) I(x_m) I(y_m) F(eps)

/* group_norm over x[n][hw][c], c in groups, channels last; pixel strides xs_p, ys_p, image strides xs_n, ys_n. */
#define FXRT_GROUP_NORM_FIELDS(I, F) I(n) I(hw) I(c) I(groups) I(xs_n) I(xs_p) I(ys_n) I(ys_p) F(eps)

/* attention: o[b][h][i] = sum over j of softmax_j(scale * q[b][h][i] . k[b][g][j] + bias[b][h][i][j] + mask[b][h][i][j]) v[b][g][j], i < m,
 * j < n, g = h / (heads / kv_heads), which divides. Rows of q and k have dk elements, rows of v and o dv, dense. bias and mask may be NULL; their
 * strides may be 0; bias is added first. Where mask is below -1e30 it takes the place of the score if `fill` (where, masked_fill). causal:
 * query i sees keys 0 to i. A query whose scores are all -inf gives NaN, or 0 if zero_empty; n = 0 gives 0. o may be q, where strides are
 * the same. slots: parts of the workspace, at most so many threads run. */
#define FXRT_ATTENTION_FIELDS(I, F)                                                                \
    I(batch) I(heads) I(kv_heads) I(m) I(n) I(dk) I(dv) I(q_b) I(q_h) I(q_m) I(k_b) I(k_h) I(k_n) I(v_b) I(v_h) I(v_n)  \
    I(o_b) I(o_h) I(o_m) I(bias_b) I(bias_h) I(bias_m) I(bias_n) I(mask_b) I(mask_h) I(mask_m) I(mask_n) I(fill) I(causal) I(zero_empty) I(slots) F(scale)

#define FXRT_DESCRIPTORS(X)                                                                       \
    X(conv2d, CONV2D) X(gemm, GEMM) X(pool2d, POOL2D) X(resize2d, RESIZE2D) X(softmax, SOFTMAX)            \
    X(layer_norm, LAYER_NORM) X(group_norm, GROUP_NORM) X(attention, ATTENTION)

#define FXRT_I(f) int32_t f;
#define FXRT_F(f) float f;
#define FXRT_X(name, NAME)                                                                        \
    typedef struct fxrt_##name##_desc { FXRT_##NAME##_FIELDS(FXRT_I, FXRT_F) } fxrt_##name##_desc;
FXRT_DESCRIPTORS(FXRT_X)
#undef FXRT_X
#undef FXRT_I
#undef FXRT_F

/* The register tile code is generated for; packing and workspace depend on it. */
typedef struct fxrt_tile {
    int32_t lanes, mr, nr;
} fxrt_tile;

/* Packing, at compile time. Sizes in floats. Panels of nr output channels, zero padded:
 *   conv2d            w[groups*oc][ic][kh][kw] -> [group][ceil(oc/nr)][kh][kw][ic][nr]
 *   conv_transpose2d  w[groups*ic][oc][kh][kw] -> chosen by the kernel
 *   conv2d_dw         w[groups*oc][1][kh][kw]  -> [kh][kw][groups*oc], channels padded to lanes
 *   gemm              w[k][n] by strides w_k, w_n of the descriptor -> [ceil(n/nr)][k][nr]
 * Source weights are dense except where strides are given. Biases are padded with zeros likewise (fxrt_bias_size). */
size_t fxrt_conv2d_packed_size(const fxrt_conv2d_desc *d, const fxrt_tile *t);
void fxrt_conv2d_pack(const fxrt_conv2d_desc *d, const fxrt_tile *t, const float *w, float *packed);
size_t fxrt_conv2d_dw_packed_size(const fxrt_conv2d_desc *d, const fxrt_tile *t);
void fxrt_conv2d_dw_pack(const fxrt_conv2d_desc *d, const fxrt_tile *t, const float *w, float *packed);
size_t fxrt_conv_transpose2d_packed_size(const fxrt_conv2d_desc *d, const fxrt_tile *t);
void fxrt_conv_transpose2d_pack(const fxrt_conv2d_desc *d, const fxrt_tile *t, const float *w, float *packed);
size_t fxrt_gemm_packed_size(const fxrt_gemm_desc *d, const fxrt_tile *t);
void fxrt_gemm_pack(const fxrt_gemm_desc *d, const fxrt_tile *t, const float *w, float *packed);
/* Bias of `groups` groups of `n` values -> each group padded to a multiple of nr (of lanes for conv2d_dw, groups = 1). */
size_t fxrt_bias_packed_size(int32_t groups, int32_t n, int32_t multiple);
void fxrt_bias_pack(int32_t groups, int32_t n, int32_t multiple, const float *b, float *packed);

/* Workspace a call needs, in bytes (0: none); threads: the most that may run it. */
size_t fxrt_conv2d_workspace(const fxrt_conv2d_desc *d, const fxrt_tile *t, int32_t threads);
size_t fxrt_conv2d_dw_workspace(const fxrt_conv2d_desc *d, const fxrt_tile *t, int32_t threads);
size_t fxrt_conv_transpose2d_workspace(const fxrt_conv2d_desc *d, const fxrt_tile *t, int32_t threads);
size_t fxrt_matmul_workspace(const fxrt_gemm_desc *d, const fxrt_tile *t, int32_t threads);
size_t fxrt_attention_workspace(const fxrt_attention_desc *d, const fxrt_tile *t); /* of d->slots parts */

#ifdef __cplusplus
}
#endif
#endif
