/* codegen/llvm_special.c: which calls of kernels are of copies made for their sizes alone.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * A copy comes from bitcode (jit/bitcode.c), is put in place of the call, and runs on the calling thread. So a call has one where its sizes are
 * numbers and libfxrt would not spread it over threads either. */
#include "codegen/llvm_emit.h"

/* What may be copied; the work from which on libfxrt's kernel uses threads, as in runtime/NAME.h; for products, the field whose size is rounded
 * up to the tile's. Work is counted by the step's operations: two each of a product's, one or more each of others. */
static const struct row {
    fx_kernel_id kernel;
    double most;
    const char *columns;
} rows[] = {
    {FX_K_conv2d, 5e5, "oc"},      {FX_K_gemm, 5e5, "n"},       {FX_K_conv2d_dw, 5e5, NULL}, {FX_K_max_pool2d, 5e5, NULL},
    {FX_K_avg_pool2d, 5e5, NULL},  {FX_K_softmax, 3e4, NULL},   {FX_K_layer_norm, 1e5, NULL}, {FX_K_rms_norm, 1e5, NULL},
};

static bool is_small(const fx_ll *e, const struct row *r, const fx_call_stmt *c)
{
    double work = (double)e->step->flops, columns = r->columns ? fx_call_field(c, r->columns) : 0, nr = e->p->target.nr;
    if (r->columns && columns > 0)
        work = work / 2 * ((double)(((int64_t)columns + (int64_t)nr - 1) / (int64_t)nr) * nr / columns);
    return e->step->flops > 0 && !e->p->n_symbols && work <= r->most;
}

const char *fx_ll_kernel(fx_ll *e, const fx_call_stmt *c)
{
    const char *name = fx_kernel_get(c->kernel)->name;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].kernel == c->kernel && e->special < e->opt->special && fx_call_is_static(c) && (e->opt->serial || is_small(e, &rows[i], c))) {
            e->special++;
            return fx_arena_printf(e->arena, "fxrt_%s_%s" FX_LLVM_SPECIAL, e->p->target.isa, name);
        }
    return fx_arena_printf(e->arena, "fxrt_%s_%s", e->p->target.isa, name);
}
