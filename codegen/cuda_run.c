/* codegen/cuda_run.c: in NAME.cu, run, capture and wait.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"

/* The largest number that the address must be a multiple of. */
static size_t align_of(const fx_emit *e, const fx_io *io)
{
    size_t n = fx_dtype_size(io->dtype);
    return e->at_once && e->at_once[io->buf] ? 16 : io->dtype == FX_C64 || io->dtype == FX_C128 ? n / 2 : n;
}

static void put_check_pointers(fx_emit *e, fx_text *t)
{
    if (e->p->n_inputs + e->p->n_outputs == 0)
        return;
    fx_cuda_put(e, t,
                "\n/* A pointer that a run is given: it must be a multiple of align. */\n"
                "struct net_pointer {\n"
                "    const void *at;\n"
                "    const char *name;\n"
                "    unsigned align;\n"
                "};\n\n"
                "static int net_check_pointers(net_context *ctx, const net_pointer *p, int n)\n"
                "{\n"
                "    for (; n > 0; n--, p++) {\n"
                "        if (!p->at)\n"
                "            return net_refuse(ctx, NET_ERR_NULL, \"%s is NULL\", p->name);\n"
                "        if ((uintptr_t)p->at % p->align != 0)\n"
                "            return net_refuse(ctx, NET_ERR_ALIGN, \"%s: expected a multiple of %u, got %p\", p->name, p->align, p->at);\n"
                "        if (!ctx->debug)\n"
                "            continue;\n"
                "        cudaPointerAttributes a;\n"
                "        NET_CUDA(p->name, cudaPointerGetAttributes(&a, p->at));\n"
                "        const bool device = a.type == cudaMemoryTypeDevice;\n"
                "        if (a.type != cudaMemoryTypeManaged && !(device && a.device == ctx->device))\n"
                "            return net_refuse(ctx, NET_ERR_POINTER, \"%s: expected memory of device %d, got %s\", p->name, ctx->device,\n"
                "                               device ? \"another device's\" : \"the host's, or what was freed\");\n"
                "    }\n"
                "    return NET_OK;\n"
                "}\n");
}

void fx_cuda_run_checks(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    size_t total = p->n_inputs + p->n_outputs;
    fx_cuda_put(e, t, total || p->n_symbols ? "    int status = net_begin(ctx);\n" : "    const int status = net_begin(ctx);\n");
    fx_cuda_put(e, t, "    if (status != NET_OK)\n        return status;\n");
    if (total) {
        fx_cuda_put(e, t, "    const net_pointer pointers[] = {");
        for (size_t i = 0; i < total; i++) {
            const char *name = i < p->n_inputs ? e->inputs[i] : e->outputs[i - p->n_inputs];
            fx_printf(t, "%s{%s, \"%s\", %zu}", i % 4 ? ", " : i ? ",\n        " : "\n        ", name, name, align_of(e, i < p->n_inputs ? &p->inputs[i] : &p->outputs[i - p->n_inputs]));
        }
        fx_printf(t, ",\n    };\n    status = %s_check_pointers(ctx, pointers, %zu);\n", e->prefix, total);
        fx_cuda_put(e, t, "    if (status != NET_OK)\n        return status;\n");
    }
    if (!p->n_symbols)
        return;
    fx_cuda_put(e, t, "    if (!dims)\n        return net_refuse(ctx, NET_ERR_NULL, \"dims is NULL\");\n"
                      "    status = net_check_dims(dims);\n    if (status != NET_OK)\n        return status;\n");
    fx_printf(t, "    uint64_t at[%zu];\n", p->n_slots + 1);
    fx_cuda_put(e, t, "    net_slots(dims, at);\n");
    fx_printf(t, "    if (ctx->arena_size < at[%zu])\n", p->n_slots);
    fx_cuda_put(e, t, "        return net_refuse(ctx, NET_ERR_SIZE, \"these sizes need %llu bytes of arena, config.most made %llu\",\n");
    fx_printf(t, "                           (unsigned long long)at[%zu], (unsigned long long)ctx->arena_size);\n", p->n_slots);
}

static void put_run(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    fx_c_run_begin(e, t, NULL);
    fx_cuda_put(e, t, "    const net_on_device here(ctx->device);\n    NET_CUDA(\"choosing the device\", here.error);\n\n");
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

/* "net_run(ctx, x, output, stream);" on as few lines as it fits. */
static void put_call(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    fx_text line;
    fx_text_init(&line, e->arena);
    fx_printf(&line, "%s_run(ctx%s", e->prefix, p->n_symbols ? ", dims" : "");
    size_t size = line.size + 17;
    for (size_t i = 0; i <= p->n_inputs + p->n_outputs; i++) {
        const char *one = i < p->n_inputs ? e->inputs[i] : i < p->n_inputs + p->n_outputs ? e->outputs[i - p->n_inputs] : "stream";
        bool wrap = size + strlen(one) > 106;
        fx_printf(&line, ",%s%s", wrap ? "\n            " : " ", one);
        size = (wrap ? 12 : size + 2) + strlen(one);
    }
    fx_printf(t, "%s);\n", line.data);
}

static void put_capture(fx_emit *e, fx_text *t)
{
    fx_puts(t, "\n");
    fx_c_call_head(e, t, "capture", ", cudaGraphExec_t *graph");
    fx_cuda_put(e, t,
                "\n{\n"
                "    int status = net_begin(ctx);\n"
                "    if (status != NET_OK)\n"
                "        return status;\n"
                "    if (!graph)\n"
                "        return net_refuse(ctx, NET_ERR_NULL, \"graph is NULL\");\n"
                "    *graph = nullptr;\n"
                "    const net_on_device here(ctx->device);\n"
                "    NET_CUDA(\"choosing the device\", here.error);\n"
                "    cudaStream_t stream;\n"
                "    cudaGraph_t nodes = nullptr;\n"
                "    NET_CUDA(\"making a stream\", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));\n"
                "    cudaError_t failed = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);\n"
                "    if (failed == cudaSuccess) {\n"
                "        status = ");
    put_call(e, t);
    fx_cuda_put(e, t,
                "        failed = cudaStreamEndCapture(stream, &nodes);\n"
                "    }\n"
                "    if (failed == cudaSuccess && status == NET_OK)\n"
                "        failed = cudaGraphInstantiateWithFlags(graph, nodes, 0);\n"
                "    if (nodes)\n"
                "        (void)cudaGraphDestroy(nodes);\n"
                "    (void)cudaStreamDestroy(stream);\n"
                "    if (status != NET_OK)\n"
                "        return status;\n"
                "    NET_CUDA(\"capturing\", failed);\n"
                "    return NET_OK;\n"
                "}\n");
}

static void put_wait(fx_emit *e, fx_text *t)
{
    fx_cuda_put(e, t, "\nint net_wait(net_context *ctx, cudaStream_t stream)\n{\n"
                      "    int status = net_begin(ctx);\n    if (status != NET_OK)\n        return status;\n"
                      "    const net_on_device here(ctx->device);\n    NET_CUDA(\"choosing the device\", here.error);\n"
                      "    NET_CUDA(\"waiting for the stream (where a kernel failed, config.debug tells which)\", cudaStreamSynchronize(stream));\n");
    if (fx_cuda_has_checks(e))
        fx_cuda_put(e, t, "    NET_CUDA(\"reading the status\", cudaMemcpyAsync(&status, ctx->status, sizeof status, cudaMemcpyDeviceToHost, stream));\n"
                          "    NET_CUDA(\"reading the status\", cudaStreamSynchronize(stream));\n    if (status != NET_OK)\n"
                          "        NET_CUDA(\"clearing the status\", cudaMemsetAsync(ctx->status, 0, sizeof status, stream));\n");
    fx_puts(t, "    return status;\n}\n");
}

void fx_cuda_run(fx_emit *e, fx_text *t)
{
    put_check_pointers(e, t);
    fx_cuda_fork_and_join(e, t);
    put_run(e, t);
    fx_c_run_v(e, t);
    put_capture(e, t);
    put_wait(e, t);
}
