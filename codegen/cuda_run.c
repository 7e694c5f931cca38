/* codegen/cuda_run.c: in NAME.cu, run and wait.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/emit.h"

static void put_run(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    fx_c_run_begin(e, t, "!ctx");
    fx_printf(t, "    const %s_on_device here(ctx->device);\n    %s_CUDA(\"choosing the device\", here.error);\n\n", e->prefix, e->PREFIX);
    fx_cuda_launch_all(e, t);
    bool streams = p->n_steps > 0;
    for (size_t i = 0; i < p->n_outputs; i++) {
        const fx_buf *b = &p->bufs[p->outputs[i].buf];
        if (!fx_c_needs_copy(p, i) || fx_dim_is(b->numel, 0))
            continue;
        streams = true;
        fx_dim bytes = fx_dim_scale(e->ctx, b->numel, (int64_t)fx_dtype_size(b->dtype));
        fx_printf(t, "    %s_CUDA(\"%s\", cudaMemcpyAsync(%s, %s%s, %s%s, cudaMemcpyDeviceToDevice, stream));\n", e->PREFIX, e->outputs[i], e->outputs[i],
                  b->kind == FX_BUF_WEIGHT ? "weights->" : "", e->bufs[b->id], fx_dim_known(bytes) ? "" : "(size_t)",
                  fx_dim_known(bytes) ? fx_c_dim(e, bytes) : fx_c_factor(e, bytes));
    }
    fx_printf(t, "%s    return %s_OK;\n}\n", streams ? "" : "    (void)stream;\n", e->PREFIX);
}

static void put_wait(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX;
    fx_printf(t, "\nint %s_wait(%s_context *ctx, cudaStream_t stream)\n{\n    if (!ctx)\n        return %s_ERR_NULL;\n    const %s_on_device here(ctx->device);\n"
                 "    %s_CUDA(\"choosing the device\", here.error);\n", n, n, N, n, N);
    if (fx_cuda_has_checks(e))
        fx_printf(t, "    int status = %s_OK;\n    %s_CUDA(\"waiting\", cudaMemcpyAsync(&status, ctx->status, sizeof status, cudaMemcpyDeviceToHost, stream));\n"
                     "    %s_CUDA(\"waiting\", cudaStreamSynchronize(stream));\n    if (status != %s_OK)\n"
                     "        %s_CUDA(\"clearing the status\", cudaMemsetAsync(ctx->status, 0, sizeof status, stream));\n    return status;\n}\n", N, N, N, N, N);
    else
        fx_printf(t, "    %s_CUDA(\"waiting\", cudaStreamSynchronize(stream));\n    return %s_OK;\n}\n", N, N);
}

void fx_cuda_run(fx_emit *e, fx_text *t)
{
    put_run(e, t);
    fx_c_run_v(e, t);
    put_wait(e, t);
}
