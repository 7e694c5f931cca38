/* lower/decompose_index.c: gathering and scattering in core rows.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

/* _unsafe_index is index: checks stay, compiled programs have no unsafe ones. */
void fx_d_unsafe_index(fx_rw *w)
{
    fx_call c = fx_rw_call(w, FX_OP_index_Tensor);
    fx_call_copy(&c, w->at, 0);
    fx_call_copy(&c, w->at, 1);
    fx_rw_become(w, &c);
}
