/* ir/program_scalar.h: scalars as the loop program's interpreter computes them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PROGRAM_SCALAR_H
#define FXCC_PROGRAM_SCALAR_H

#include "ir/program.h"

/* Floats in f (a value of their dtype), all else in i (within its width). */
typedef struct fx_scalar {
    fx_dtype dtype;
    double f;
    int64_t i;
} fx_scalar;

/* f rounded, or i wrapped, to dtype. */
fx_scalar fx_scalar_make(fx_dtype dtype, double f, int64_t i);
/* As torch converts: floats to integers toward zero, anything but 0 to true. */
fx_scalar fx_scalar_cast(fx_scalar v, fx_dtype to);
/* An operation of scalar.def on operands of one dtype (but select's condition); dtype of the result. */
fx_scalar fx_scalar_op(fx_sop op, fx_dtype dtype, const fx_scalar v[3]);

#endif
