/* lower/rewrite.h: what the passes of lowering over graphs share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_REWRITE_H
#define FXCC_LOWER_REWRITE_H

#include "lower/lower.h"
#include "passes/rewrite.h"

/* simplify.c: one walk of the rules below over all nodes; adds to *changed how often one applied. */
fx_status fx_apply_rules(fx_lower *l, size_t *changed);
/* fold_bn.c: batch norm and per-channel scales and shifts go into the weights before them. */
fx_status fx_fold_affine(fx_lower *l);
/* simplify_rules.c: replaces w->at by something equal and simpler; whether it did. */
bool fx_simplify_node(fx_rw *w);
/* simplify_patterns.c: the same for activations spelled out. */
bool fx_simplify_pattern(fx_rw *w);

/* decompose_reduce.c: the dtype argument of a sum or product in narrow integers; by themselves they are of int64. */
void fx_narrow_dtype(fx_rw *w, fx_call *c, fx_dtype dtype);

/* The same file: log(sum(exp(x - max))) + max, where max is not an infinity; dims stay, with size 1. */
fx_node *fx_log_sum_exp(fx_rw *w, fx_node *x, int n, const int64_t *dims);
/* attention_narrow.c: float32 attention n between casts from and to 16 bits becomes one of 16 bits. */
fx_status fx_attention_narrow(fx_lower *l, fx_node *n);
/* decompose_batch_norm.c: a vector over channels under sizes that broadcast over x. */
fx_node *fx_by_channel(fx_rw *w, fx_node *v, const fx_node *x, const char *suffix);
/* decompose.c: whether a getitem of w->at takes result k and is used. */
bool fx_uses_result(const fx_rw *w, int64_t k);

/* decompose*.c: a rewrite makes core rows of w->at; one table row each. */
typedef void fx_decompose_fn(fx_rw *w);
#define FX_DECOMPOSE(id, fn) fx_decompose_fn fn;
#include "lower/decompose.def"
#undef FX_DECOMPOSE

#endif
