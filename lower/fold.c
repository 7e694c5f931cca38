/* lower/fold.c: constants are computed (passes/fold.c) and go into the weights before them (fold_bn.c).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "lower/rewrite.h"

fx_status fx_pass_fold(fx_lower *l)
{
    fx_remove_dead(l->graph);
    FX_TRY(fx_fold_constants(l->graph, l->scratch));
    /* Activations spelled out are recognised before their additions and multiplications go into the weights before them. */
    size_t changed = 0;
    FX_TRY(fx_apply_rules(l, &changed));
    FX_TRY(fx_fold_affine(l));
    FX_TRY(fx_infer_missing(l->graph));
    fx_remove_dead(l->graph);
    return FX_OK;
}
