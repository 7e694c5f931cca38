/* codegen/cuda.c: a loop program for a GPU as CUDA sources: their order. The C printer's spelling of statements and expressions is CUDA's, too;
 * what differs is in fx_spell_cuda and in cuda_*.c.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "codegen/emit.h"

static const char *const functions[] = {"create", "destroy", "wait", "error", "config", "fail", "refuse", "begin", "finish", "probe", "pointer", "check_pointers", "capture", "load_file", "load_weights",
                                        "weights_head", "on_device", "allocate", "state", "set_state", "plan", "fork", "join", NULL};
static const char *const macros[] = {"ERR_CUDA", "ERR_FILE", "ERR_MEMORY", "ERR_POINTER", "ERR_CONTEXT", "CUDA", "CALL", "CALL_ON", "LAUNCH", "LAUNCH_ON", "PRODUCTS_WORKSPACE", "BESIDE_WORKSPACE", NULL};
static const char *const locals[] = {"dim3", "atomicMax", "cudaError_t", "cudaSuccess", "cudaStream_t", "cudaMemcpyAsync", "cudaMemcpyDeviceToDevice", "stream", "error", "device",
                                     "graph", "nodes", "failed", "pointers", "here", "attributes", "blockIdx", "blockDim", "threadIdx", "gridDim", "warpSize", "products", "some", "narrow", "beside", NULL};

const fx_spelling fx_spell_cuda = {.gpu = true, .restrict_word = "__restrict__ ", .null = "nullptr", .weights = "__restrict__ ", .context = "", .stream = ", cudaStream_t stream",
                                   .stream_argument = ", stream", .functions = functions, .macros = macros, .locals = locals};

static fx_status emit(fx_emit *e)
{
    if (e->opt->link_runtime)
        return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, NULL, "target %s: expected sources that stand alone: libfxrt has no kernels for GPUs", e->p->target.name);
    if (e->opt->weights != FX_WEIGHTS_AUTO && e->opt->weights != FX_WEIGHTS_BIN)
        return fx_fail(e->ctx, FX_ERR_UNSUPPORTED, NULL, "target %s: expected weights as a file (bin), which goes to the device", e->p->target.name);
    FX_TRY(fx_emit_prepare(e));
    e->weights = FX_WEIGHTS_BIN;
    FX_TRY(fx_cuda_header(e));
    FX_TRY(fx_cuda_source(e));
    if (e->n_members)
        FX_TRY(fx_c_weights(e));
    if (e->opt->golden)
        FX_TRY(fx_cuda_check(e));
    fx_cuda_build(e);
    return FX_OK;
}

fx_status fx_emit_cuda(fx_program *p, const fx_emit_options *opt, size_t *n_files, fx_file **files)
{
    fx_program launches;
    FX_TRY(fx_cuda_launches(p, &launches));
    fx_emit e = {.p = &launches, .opt = opt, .say = &fx_spell_cuda, .ctx = p->ctx, .arena = p->arena, .local = fx_arena_create(p->ctx)};
    fx_status status = emit(&e);
    fx_arena_free(e.local);
    *n_files = e.n_files;
    *files = e.files;
    return status;
}
