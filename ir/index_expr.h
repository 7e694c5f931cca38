/* ir/index_expr.h: what the files of index maps (ir/index_expr.c, index_map*.c) share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_INDEX_EXPR_H
#define FXCC_INDEX_EXPR_H

#include "ir/index_map.h"

enum { FX_IX_DIVISORS = 32, FX_IX_MOST = 200 };

bool fx_ix_same_atom(const fx_ix_term *a, const fx_ix_term *b);
fx_dim fx_ix_floor(const fx_imaps *m, fx_dim a, fx_dim by);                      /* floor(a / by) */
/* x = g * whole + rest, 0 <= rest < g; false when that cannot be proved. */
bool fx_ix_split(const fx_imaps *m, const fx_ix_space *s, const fx_ix *x, fx_dim g, const fx_ix **whole, const fx_ix **rest);
int fx_ix_divisors(const fx_imaps *m, const fx_ix *x, fx_dim of, fx_dim *out);  /* numbers worth a try as g */
/* (a // div) % mod */
const fx_ix *fx_ix_digit(const fx_imaps *m, const fx_ix_space *s, const fx_ix *a, fx_dim div, fx_dim mod);
int fx_ix_size(const fx_ix *x);                                                 /* terms, those of digits included; FX_IX_MOST: or more */

#endif
