/* codegen/cuda_host.c: NAME.cu: what runs on the device, and the host's part around it: context, create, destroy; the rest is in other cuda_*.c.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"
#include "codegen/texts.h"

bool fx_cuda_has_checks(const fx_emit *e)
{
    bool any = false;
    for (size_t i = 0; i < e->p->n_steps; i++)
        any |= e->facts[i].checks > 0;
    return any;
}

/* ---- NAME.cu: for the device ------------------------------------------------------------------------------------ */

/* A text of runtime/, its functions for the device. */
static void put_device_text(fx_text *t, const char *s)
{
    static const char word[] = "static inline ";
    for (const char *at; (at = strstr(s, word)); s = at + sizeof word - 1) {
        fx_putn(t, s, (size_t)(at - s));
        fx_puts(t, "FXRT_DEVICE ");
    }
    fx_puts(t, s);
}

/* A text of runtime/cuda/. */
static void put_cuda_text(fx_emit *e, fx_text *t, const char *name)
{
    fx_c_once(e, t, fx_arena_printf(e->arena, "cuda_%s", name));
    for (int i = 0; i < fx_n_cuda_texts; i++)
        if (strcmp(fx_cuda_texts[i].name, name) == 0)
            fx_puts(t, fx_cuda_texts[i].text);
    fx_c_end_once(e, t);
}

static void put_texts(fx_emit *e, fx_text *t)
{
    bool any = false;
    for (int i = 0; i < fx_n_runtime_texts; i++) {
        if (!fx_c_needs_text(e, fx_runtime_texts[i].name))
            continue;
        if (!any)
            fx_puts(t, "\n/* ---- functions of fxcc's runtime ---- */\n#define FXRT_FMA 1 /* fused multiply-add is there and fast */\n");
        any = true;
        fx_puts(t, "\n");
        fx_c_once(e, t, fx_runtime_texts[i].name);
        put_device_text(t, fx_runtime_texts[i].text);
        fx_c_end_once(e, t);
    }
}

static void put_conversions(fx_emit *e, fx_text *t)
{
    static const struct {
        fx_dtype dtype;
        const char *name, *type, *limit, *least;
    } conversion[] = {{FX_I32, "i32", "int32_t", "2147483648.0", "INT32_MIN"}, {FX_I64, "i64", "int64_t", "9223372036854775808.0", "INT64_MIN"}};
    for (int i = 0; i < 2; i++)
        if (e->casts[conversion[i].dtype])
            fx_printf(t, "\n/* Toward zero; what does not fit, and NaN, becomes the least integer, as on x86. */\nstatic __device__ inline %s %s_to_%s(double x)\n{\n"
                         "    return x > -%s - 1 && x < %s ? (%s)x : %s;\n}\n", conversion[i].type, e->prefix, conversion[i].name, conversion[i].limit,
                      conversion[i].limit, conversion[i].type, conversion[i].least);
}

/* A model may well ask whether an unsigned number is below zero, or equals itself. */
static void put_silence(fx_emit *e, fx_text *t)
{
    fx_c_put_silence(e, t);
    if (e->int_compares)
        fx_puts(t, "#if defined(__CUDACC__)\n#pragma nv_diag_suppress 186, 514 /* pointless comparisons */\n#endif\n");
}

/* ---- NAME.cu: for the host --------------------------------------------------------------------------------------- */

static void put_context(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX;
    fx_puts(t, "\n/* ---- the interface ---- */\n\n");
    fx_printf(t, "struct %s_context {\n    int device;\n", n);
    if (e->n_members)
        fx_printf(t, "    %s_weights_t *weights;\n", n);
    fx_puts(t, "    unsigned char *arena;\n");
    if (e->p->n_symbols)
        fx_puts(t, "    size_t arena_size;\n");
    if (e->p->n_states)
        fx_printf(t, "    %s_state_t *state;\n", n);
    if (fx_cuda_has_checks(e))
        fx_puts(t, "    int *status;              /* on the device: why a run failed */\n");
    fx_puts(t, "    char error[256];\n};\n\n");
    fx_printf(t, "/* The device of a context, as long as this lives; then the caller's again. */\nstruct %s_on_device {\n    int before = 0;\n    cudaError_t error;\n"
                 "    explicit %s_on_device(int device) : error(cudaGetDevice(&before))\n    {\n        if (error == cudaSuccess && device != before)\n"
                 "            error = cudaSetDevice(device);\n    }\n    ~%s_on_device()\n    {\n        int now;\n        if (cudaGetDevice(&now) == cudaSuccess && now != before)\n"
                 "            (void)cudaSetDevice(before);\n    }\n};\n\n", n, n, n);
    fx_printf(t, "/* Notes what failed. */\nstatic int %s_fail(%s_context *ctx, const char *what, cudaError_t error)\n{\n"
                 "    snprintf(ctx->error, sizeof ctx->error, \"%%s: %%s (%%s)\", what, cudaGetErrorName(error), cudaGetErrorString(error));\n"
                 "    return error == cudaErrorMemoryAllocation ? %s_ERR_MEMORY : %s_ERR_CUDA;\n}\n\n", n, n, N, N);
    fx_printf(t, "/* A call of CUDA; a function ends where one fails. */\n#define %s_CUDA(what, call) \\\n    do { \\\n        const cudaError_t error = (call); \\\n"
                 "        if (error != cudaSuccess) \\\n            return %s_fail(ctx, what, error); \\\n    } while (0)\n", N, n);
    fx_printf(t, "#define %s_LAUNCH(kernel, grid, block, ...) %s_CUDA(#kernel, FXCC_LAUNCH(kernel, grid, block, 0, stream, __VA_ARGS__))\n", N, N);
}

static void put_create(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    const char *n = e->prefix, *N = e->PREFIX;
    fx_printf(t, "\n/* What there is to allocate and load; %s_destroy frees what was. */\nstatic int %s_allocate(%s_context *ctx, const %s_config *config)\n{\n", n, n, n, n);
    fx_printf(t, "    const %s_on_device here(ctx->device);\n    %s_CUDA(\"choosing the device\", here.error);\n", n, N);
    const char *size = fx_arena_printf(e->arena, "%s_ARENA_SIZE", N);
    if (p->n_symbols) {
        if (!e->finite_arena)
            fx_printf(t, "    if (!config->most)\n        return %s_ERR_NULL;\n", N);
        fx_printf(t, "    if (config->most) {\n        const int status = %s_check_dims(config->most);\n        if (status != %s_OK)\n            return status;\n    }\n", n, N);
        if (e->finite_arena)
            fx_printf(t, "    ctx->arena_size = config->most ? %s_arena_size(config->most) : %s_ARENA_SIZE;\n", n, N);
        else
            fx_printf(t, "    ctx->arena_size = %s_arena_size(config->most);\n", n);
        size = "ctx->arena_size";
    }
    bool arena = p->n_symbols || p->arena_size;
    if (arena)
        fx_printf(t, "    %s_CUDA(\"allocating the arena\", cudaMalloc(&ctx->arena, %s%s));\n", N, size, p->n_symbols ? " + 1" : "");
    if (fx_cuda_has_checks(e))
        fx_printf(t, "    %s_CUDA(\"allocating the status\", cudaMalloc(&ctx->status, sizeof *ctx->status));\n"
                     "    %s_CUDA(\"clearing the status\", cudaMemset(ctx->status, 0, sizeof *ctx->status));\n", N, N);
    if (p->n_states)
        fx_printf(t, "    %s_CUDA(\"allocating the state\", cudaMalloc(&ctx->state, sizeof *ctx->state));\n", N);
    const char *load = !e->n_members ? NULL : fx_arena_printf(e->arena, "%s_load_weights(ctx, config)", n);
    if (p->n_states)
        fx_printf(t, "    const int status = %s;\n    return status == %s_OK ? %s_state_init(ctx, nullptr) : status;\n}\n", load ? load : "0", N, n);
    else
        fx_printf(t, "%s    return %s;\n}\n", load || p->n_symbols ? "" : "    (void)config;\n", load ? load : fx_arena_printf(e->arena, "%s_OK", N));
    fx_printf(t, "\nint %s_create(%s_context **ctx, const %s_config *config)\n{\n    if (!ctx || !config)\n        return %s_ERR_NULL;\n"
                 "    *ctx = (%s_context *)calloc(1, sizeof **ctx);\n    if (!*ctx)\n        return %s_ERR_MEMORY;\n    (*ctx)->device = config->device;\n"
                 "    return %s_allocate(*ctx, config);\n}\n", n, n, n, N, n, N, n);
    fx_printf(t, "\nvoid %s_destroy(%s_context *ctx)\n{\n    if (!ctx)\n        return;\n    {\n        const %s_on_device here(ctx->device);\n", n, n, n);
    static const char *const owned[] = {"arena", "weights", "state", "status"};
    const bool has[] = {arena, e->n_members > 0, p->n_states > 0, fx_cuda_has_checks(e)};
    fx_puts(t, "        (void)cudaDeviceSynchronize();\n");
    for (int i = 0; i < 4; i++)
        if (has[i])
            fx_printf(t, "        (void)cudaFree(ctx->%s);\n", owned[i]);
    fx_puts(t, "    }\n    free(ctx);\n}\n");
}

static void put_state(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    const char *n = e->prefix, *N = e->PREFIX;
    if (!p->n_states)
        return;
    fx_printf(t, "\nint %s_state_init(%s_context *ctx, cudaStream_t stream)\n{\n    if (!ctx)\n        return %s_ERR_NULL;\n", n, n, N);
    for (size_t i = 0; i < p->n_states; i++)
        fx_printf(t, "    %s_CUDA(\"%s\", cudaMemcpyAsync(ctx->state->%s, ctx->weights->%s, sizeof ctx->state->%s, cudaMemcpyDeviceToDevice, stream));\n", N,
                  e->states[i], e->states[i], e->bufs[p->bufs[p->states[i].buf].initial], e->states[i]);
    fx_printf(t, "    return %s_OK;\n}\n\n%s_state_t *%s_state(%s_context *ctx)\n{\n    return ctx->state;\n}\n", N, n, n, n);
}

fx_status fx_cuda_source(fx_emit *e)
{
    const char *n = e->prefix;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_printf(t, "/* %s.cu: ", n);
    fx_put_comment(t, e->p->name, 120);
    fx_printf(t, ". Made by fxcc; see %s.h.\n * Contains functions of fxcc's runtime, under the Apache License v2.0 with LLVM Exceptions: no notice is due in a product. */\n"
                 "#include \"%s.h\"\n\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n", n, n);
    put_cuda_text(e, t, "launch");
    if (fx_cuda_has_checks(e))
        fx_printf(t, "\n/* Notes why the run fails; of several reasons one is told. */\n#define %s_FAIL(reason) atomicMax(status, (int)(reason))\n", e->PREFIX);
    put_texts(e, t);
    if (e->at_once) {
        fx_puts(t, "\n");
        put_cuda_text(e, t, "vec");
    }
    put_conversions(e, t);
    put_silence(e, t);
    fx_puts(t, "\n/* ---- the model's layers, in order: a kernel each ---- */\n");
    FX_TRY(fx_cuda_steps(e, t));
    put_context(e, t);
    fx_cuda_load(e, t);
    put_state(e, t);
    if (e->p->n_symbols)
        fx_c_sizes_source(e, t);
    put_create(e, t);
    fx_cuda_run(e, t);
    fx_cuda_strings(e, t);
    fx_emit_file(e, ".cu", t);
    return FX_OK;
}
