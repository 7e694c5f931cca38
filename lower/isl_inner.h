/* lower/isl_inner.h: what the files of the isl wrapper (lower/isl*.c) share; nothing else includes isl's headers.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_LOWER_ISL_INNER_H
#define FXCC_LOWER_ISL_INNER_H

#include <isl/aff.h>
#include <isl/constraint.h>
#include <isl/ctx.h>
#include <isl/map.h>
#include <isl/options.h>
#include <isl/schedule_node.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/union_map.h>
#include <isl/union_set.h>
#include <isl/val.h>

#include "lower/isl.h"

struct fx_isl {
    fx_context *ctx;
    isl_ctx *isl;
    double seconds, started;
    int queries, unknown;
};

/* A query: between the two, memory is isl's alone. End: where isl failed or ran out of operations meanwhile, `answer` counts for nothing; where it
 * ran out of memory, end does not return. All objects of the query are freed before. */
void fx_isl_begin(fx_isl *i);
fx_isl_answer fx_isl_end(fx_isl *i, fx_isl_answer answer);
fx_isl_answer fx_isl_bool(isl_bool b);

/* constant + sum of coef[k] * input dim k, over the domain of `space` (taken). */
isl_aff *fx_isl_aff(isl_space *space, int64_t constant, int n, const int64_t *coef);

/* Where it is not negative; taken. */
isl_basic_set *fx_isl_nonneg(isl_aff *a);

/* Domain, original order and dependences of a group. */
isl_union_set *fx_isl_domain(fx_isl *i, const fx_isl_group *g);
isl_set *fx_isl_item_domain(fx_isl *i, const fx_isl_group *g, int item);
isl_union_map *fx_isl_order_map(fx_isl *i, const fx_isl_group *g, const fx_isl_order *order);
isl_union_map *fx_isl_dependences(fx_isl *i, const fx_isl_group *g, isl_union_map *order);
/* Whether all dependences (kept) go forward under the order (kept), and none is between different values of its first keys [0, coincident). */
fx_isl_answer fx_isl_forward(isl_union_map *dependences, isl_union_map *order, int coincident);

#endif
