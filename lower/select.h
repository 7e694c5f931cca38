/* lower/select.h: what the files that choose kernels (lower/select_*.c) share: calls, packed weights, workspace, tails.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_SELECT_H
#define FXCC_LOWER_SELECT_H

#include "lower/build.h"

/* A call without buffers and fields, in b->piece. Its copy joins the program by fx_call_emit, after the buffers it names have been made. */
fx_call_stmt *fx_call_new(fx_build *b, fx_kernel_id kernel);
/* Opens the step of group root `root` with the call as its body. */
void fx_call_emit(fx_build *b, fx_node *root, fx_call_stmt *c, const char *title);
/* Sets the argument called `name` of the kernel: a buffer (-1: NULL) from an element on, or a window's. */
void fx_call_set_buf(fx_call_stmt *c, const char *name, int buf, fx_dim offset);
void fx_call_set_window(fx_call_stmt *c, const char *name, const fx_window *v);
void fx_call_set_act(fx_call_stmt *c, const fx_group *g);

/* A buffer of so many bytes for the step's own use; -1 when it needs none. */
int fx_select_workspace(fx_build *b, const char *name, size_t bytes);
int fx_select_workspace_dim(fx_build *b, const char *name, fx_dim floats);
float *fx_select_floats(fx_build *b, size_t n); /* zeroed, where vectors of them lie in one line of the cache each */
/* A weight buffer of n elements of type; *data is where to pack them, as floats, of which fx_select_packed_end makes the buffer's elements. */
int fx_select_packed(fx_build *b, const char *name, fx_dtype type, size_t n, const char *note, float **data);
void fx_select_packed_end(const fx_build *b, int id);
/* A weight buffer into which fx_build_fill packs panels of nr rows of a constant: as fxrt_gemm_pack does (conv is NULL), as fxrt_conv2d_pack (oc rows are a
 * group), or by fxrt_cuda_wino_weights, whose panels are rows, spread over 36 matrices. */
typedef enum fx_fill_form { FX_FILL_GEMM, FX_FILL_CONV, FX_FILL_WINO } fx_fill_form;
typedef struct fx_fill {
    struct fx_fill *next;
    fx_weight_rows rows;
    int64_t group_rows;
    fx_fill_form form;
    fxrt_conv2d_desc conv;        /* but for products */
    int buf;                      /* -1: none, rows are only checked */
    float *packed;                /* in the end the buffer's elements, if those are of 16 bits */
} fx_fill;
fx_status fx_select_packed_later(fx_build *b, const fx_node *user, fx_node *weight, fx_dtype type, fx_fill_form form, const fxrt_conv2d_desc *conv,
                                 const char *name, const char *note, int *id);
/* A bias packed for a kernel; *id is -1 without one. */
fx_status fx_select_bias(fx_build *b, const fx_node *n, fx_node *bias, fx_dtype type, const char *name, int32_t groups, int32_t per_group,
                         int32_t multiple, int *id);
/* Descriptors hold 32-bit numbers. */
fx_status fx_select_fits(fx_build *b, const fx_node *n, const fx_window *v);

/* What n's kernel has for elements, where its result is of dtype: that, if the kernel takes it and all operands are of it; else float32, and float16 and
 * bfloat16 are converted before and after, as eager computes them. Other dtypes fail here. */
fx_status fx_select_type(fx_build *b, const fx_node *n, fx_kernel_id kernel, fx_dtype dtype, fx_dtype *type);
/* An operand as elements of type: where it lies, with channels dense (NHWC), or row-major. */
typedef enum fx_select_layout { FX_AS_IT_LIES, FX_CHANNELS_LAST, FX_ROW_MAJOR } fx_select_layout;
fx_status fx_select_input(fx_build *b, fx_node *n, fx_dtype type, fx_select_layout layout, fx_window *out);
/* Where the kernel writes elements of type: n's place (see fx_build_place), or what is converted into it by fx_select_settle, which ends the step and
 * makes *out the value of n. */
fx_status fx_select_place(fx_build *b, fx_node *n, fx_dtype type, const fx_window *like, fx_window *out);
fx_status fx_select_settle(fx_build *b, fx_node *n, const fx_window *out);

/* The residual of a group's tail, *has false if there is none, in memory as the result is: channels (the last memory dim) dense. */
fx_status fx_select_residual(fx_build *b, fx_node *root, fx_dtype type, bool nhwc, fx_window *r, bool *has);
/* The result may take the place of r when both fill their buffers in the same way, and x (or NULL) is not r too. */
void fx_select_overlay(fx_build *b, const fx_window *out, const fx_window *r, const fx_window *x);

/* Whether leading dims of v (all but the last `tail`) can be walked with one stride; *stride and *count give it. */
bool fx_window_rows(fx_build *b, const fx_window *v, int tail, fx_dim *count, fx_dim *stride);
bool fx_window_unit(const fx_window *v, int dim);    /* elements of a dim lie side by side, or there is one only */
bool fx_window_forward(fx_build *b, const fx_window *v); /* no stride is negative */

/* Emits a call whose arguments are x and y, the value of n. */
fx_status fx_select_finish(fx_build *b, fx_node *n, fx_call_stmt *c, const fx_window *x, const fx_window *y, const char *title);

/* select_pack.c: a computed weight or bias, packed by a step of its own in front of the call; *id is the buffer. d: the call's sizes. */
fx_status fx_select_packed_weight(fx_build *b, fx_node *root, fx_node *w, fx_dtype type, const fxrt_conv2d_desc *d, fx_kernel_id kernel, const char *name,
                                  int *id);
fx_status fx_select_packed_bias(fx_build *b, fx_node *root, fx_node *bias, fx_dtype type, int32_t groups, int32_t columns, int32_t multiple, const char *name,
                                int *id);

fx_status fx_select_convolution(fx_build *b, fx_node *root); /* select_conv.c */
fx_status fx_select_weight_grad(fx_build *b, fx_node *root);
fx_status fx_select_linear(fx_build *b, fx_node *root);      /* select_matmul.c */
fx_status fx_select_matmul(fx_build *b, fx_node *root);
fx_status fx_select_attention(fx_build *b, fx_node *n);      /* select_attention.c */

#endif
