/* codegen/cuda_host.c: NAME.h, the contract, and NAME.cu: what runs on the device, and create, run, wait, destroy around it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "codegen/emit.h"
#include "codegen/texts.h"

static const struct {
    const char *name, *text;
} statuses[] = {
    {"OK", "ok"},
    {"ERR_NULL", "a pointer is NULL"},
    {"ERR_SIZE", "the weights have not the size of this model's, or a run needs more memory than was made for it"},
    {"ERR_ALIGN", "an input or output is not aligned to its type, or not to the 16 bytes that kernels read or write at once"},
    {"ERR_WEIGHTS", "these are not the weights of this model, or they are in another byte order"},
    {"ERR_FILE", "the file with the weights cannot be read"},
    {"ERR_MEMORY", "out of memory, on the host or the device"},
    {"ERR_CUDA", "a call of CUDA or a kernel failed"},
};
enum { N_STATUSES = sizeof statuses / sizeof statuses[0] };

static bool has_checks(const fx_emit *e)
{
    bool any = false;
    for (size_t i = 0; i < e->p->n_steps; i++)
        any |= e->facts[i].checks > 0;
    return any;
}

/* ---- NAME.h -------------------------------------------------------------------------------------------------- */

static void put_usage(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX;
    fx_printf(t, " *\n * Use:\n *   %s_context *ctx;\n *   const %s_config config = {0}; // all as usual\n", n, n);
    if (e->p->n_symbols) {
        fx_printf(t, " *   const %s_dims dims = {", n);
        for (size_t i = 0; i < e->p->n_symbols; i++)
            fx_printf(t, "%s.%s = %lld", i ? ", " : "", e->symbols[i], (long long)e->p->symbols[i].min);
        fx_puts(t, "};\n");
    }
    fx_printf(t, " *   int status = %s_create(&ctx, &config);\n", n);
    fx_printf(t, " *   if (status == %s_OK)\n *       status = %s_run(ctx%s", N, n, e->p->n_symbols ? ", &dims" : "");
    for (size_t i = 0; i < e->p->n_inputs && i < 4; i++)
        fx_printf(t, ", %s", e->inputs[i]);
    fx_puts(t, e->p->n_inputs > 4 ? ", ..." : "");
    for (size_t i = 0; i < e->p->n_outputs && i < 4; i++)
        fx_printf(t, ", %s", e->outputs[i]);
    fx_puts(t, e->p->n_outputs > 4 ? ", ..., stream);\n" : ", stream);\n");
    fx_printf(t, " *   if (status == %s_OK)\n *       status = %s_wait(ctx, stream);\n", N, n);
    fx_printf(t, " *   if (status != %s_OK)\n *       printf(\"%%s: %%s\\n\", %s_status_string(status), %s_error(ctx));\n *   %s_destroy(ctx);\n", N, n, n, n);
}

static void put_config(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix;
    fx_puts(t, "/* What a context is made with. Zeros mean the usual. */\n");
    fx_printf(t, "typedef struct %s_config {\n    int device;               /* CUDA's number of it */\n", n);
    if (e->n_members)
        fx_printf(t, "    const char *weights_file; /* NULL: \"%s.bin\" */\n    const void *weights;      /* the file's content instead, in the host's memory */\n"
                     "    size_t weights_size;\n", n);
    if (e->p->n_symbols)
        fx_printf(t, "    const %s_dims *most;%*s/* sizes that there is to be memory for; NULL: %s */\n", n, (int)(strlen(n) < 9 ? 9 - strlen(n) : 1), "",
                  e->finite_arena ? "the largest" : "not allowed, as some have no end");
    fx_printf(t, "} %s_config;\n\n", n);
}

fx_status fx_cuda_header(fx_emit *e)
{
    const fx_program *p = e->p;
    const char *n = e->prefix, *N = e->PREFIX;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_c_put_title(e, t);
    fx_puts(t, " * Tensors are dense and row-major, in torch's order of dimensions, in the memory of the device. They must not overlap each other.\n");
    put_usage(e, t);
    fx_printf(t, " *\n * %s_create allocates all there will be%s. %s_run starts kernels on the caller's stream and returns at once: it may be captured in a\n"
                 " * graph. A context belongs to one run at a time; contexts share nothing. */\n", n, e->n_members ? " and loads the weights" : "", n);
    fx_printf(t, "#ifndef %s_H\n#define %s_H\n\n#include <cuda_runtime.h>\n#include <stddef.h>\n#include <stdint.h>\n\n", N, N);
    fx_puts(t, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    if (!p->n_symbols)
        fx_printf(t, "#define %s_ARENA_SIZE %llu /* bytes of the device's that intermediate results take */\n", N, (unsigned long long)e->arena_size);
    else if (e->finite_arena)
        fx_printf(t, "#define %s_ARENA_SIZE %llu /* the same with the largest sizes; %s_arena_size() says what others need */\n", N,
                  (unsigned long long)e->arena_size, n);
    if (e->n_members)
        fx_printf(t, "#define %s_WEIGHTS_SIZE %llu\n", N, (unsigned long long)e->weights_size);
    fx_c_put_io_macros(e, t);
    fx_puts(t, "\n/* What the functions return. */\nenum {\n");
    for (int i = 0; i < N_STATUSES; i++)
        fx_printf(t, "    %s_%s = %d%s /* %s */\n", N, statuses[i].name, i, i + 1 < N_STATUSES || e->n_reasons ? "," : "", statuses[i].text);
    fx_c_put_reasons(e, t);
    fx_puts(t, "};\n\n");
    if (p->n_symbols)
        fx_c_sizes_header(e, t);
    fx_c_state_header(e, t);
    put_config(e, t);
    fx_printf(t, "typedef struct %s_context %s_context;\n\n", n, n);
    fx_printf(t, "/* Makes a context. Where that fails there is one, too (but for want of the host's memory): %s_error tells more, %s_destroy frees it. */\n"
                 "int %s_create(%s_context **ctx, const %s_config *config);\n\n", n, n, n, n, n);
    if (p->n_states)
        fx_printf(t, "/* Gives the context's state the values it begins with, which it has after %s_create. */\n"
                     "int %s_state_init(%s_context *ctx, cudaStream_t stream);\n\n/* The state, in the memory of the device. */\n"
                     "%s_state_t *%s_state(%s_context *ctx);\n\n", n, n, n, n, n, n);
    fx_puts(t, fx_c_changes_inputs(e) ? "/* Computes the outputs, and new values of the inputs that are no pointers to const. */\n" : "/* Computes the outputs. */\n");
    fx_c_run_head(e, t);
    fx_puts(t, ";\n\n");
    fx_printf(t, "/* The same with arrays of pointers: %s_INPUTS inputs, %s_OUTPUTS outputs. */\n", N, N);
    fx_c_run_v_head(e, t);
    fx_puts(t, ";\n\n");
    fx_printf(t, "/* Waits for the stream; says whether a run failed since the last time. */\nint %s_wait(%s_context *ctx, cudaStream_t stream);\n\n", n, n);
    fx_printf(t, "/* Waits for the device, and frees what the context has. NULL is allowed. */\nvoid %s_destroy(%s_context *ctx);\n\n", n, n);
    fx_printf(t, "/* What a status means. Never NULL. */\nconst char *%s_status_string(int status);\n\n", n);
    fx_printf(t, "/* Which call or kernel failed last, and CUDA's words for it; \"\" when none did. Never NULL. */\nconst char *%s_error(const %s_context *ctx);\n", n, n);
    if (e->n_members)
        fx_c_weights_struct(e, t);
    fx_puts(t, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    fx_emit_file(e, ".h", t);
    return FX_OK;
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
    if (has_checks(e))
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

/* The file's first bytes: what ties weights to this model. */
static void put_load(fx_emit *e, fx_text *t)
{
    const char *n = e->prefix, *N = e->PREFIX;
    if (!e->n_members)
        return;
    unsigned char head[32] = FX_WEIGHTS_MAGIC "\0\1\0\0\0\4\3\2\1";
    for (int i = 0; i < 8; i++) {
        head[16 + i] = (unsigned char)(e->weights_size >> 8 * i);
        head[24 + i] = e->hash[i];
    }
    fx_printf(t, "\n/* How the weights of this model begin: with the magic, version, byte order, size and hash of %s_weights_t. */\nstatic const unsigned char %s_weights_head[32] = {",
              n, n);
    for (int i = 0; i < 32; i++)
        fx_printf(t, "%s%s%d", i ? "," : "", i % 16 ? " " : "\n    ", head[i]);
    fx_printf(t, "\n};\n\n/* Reads a file's weights to the device, piece by piece. */\nstatic int %s_load_file(%s_context *ctx, FILE *file)\n{\n", n, n);
    fx_printf(t, "    unsigned char piece[1 << 14];\n    for (size_t at = 0, size; at < %s_WEIGHTS_SIZE; at += size) {\n"
                 "        size = %s_WEIGHTS_SIZE - at < sizeof piece ? %s_WEIGHTS_SIZE - at : sizeof piece;\n"
                 "        if (fread(piece, 1, size, file) != size)\n            return ferror(file) ? %s_ERR_FILE : %s_ERR_SIZE;\n"
                 "        if (at == 0 && memcmp(piece, %s_weights_head, sizeof %s_weights_head) != 0)\n            return %s_ERR_WEIGHTS;\n"
                 "        %s_CUDA(\"copying weights\", cudaMemcpy((unsigned char *)ctx->weights + at, piece, size, cudaMemcpyHostToDevice));\n    }\n"
                 "    return fgetc(file) == EOF ? %s_OK : %s_ERR_SIZE;\n}\n\n", N, N, N, N, N, n, n, N, N, N, N);
    fx_printf(t, "static int %s_load_weights(%s_context *ctx, const %s_config *config)\n{\n    %s_CUDA(\"allocating weights\", cudaMalloc(&ctx->weights, %s_WEIGHTS_SIZE));\n",
              n, n, n, N, N);
    fx_printf(t, "    if (!config->weights) {\n        FILE *file = fopen(config->weights_file ? config->weights_file : \"%s.bin\", \"rb\");\n"
                 "        const int status = file ? %s_load_file(ctx, file) : %s_ERR_FILE;\n        if (file)\n            fclose(file);\n        return status;\n    }\n", n, n, N);
    fx_printf(t, "    if (config->weights_size != %s_WEIGHTS_SIZE)\n        return %s_ERR_SIZE;\n"
                 "    if (memcmp(config->weights, %s_weights_head, sizeof %s_weights_head) != 0)\n        return %s_ERR_WEIGHTS;\n"
                 "    %s_CUDA(\"copying weights\", cudaMemcpy(ctx->weights, config->weights, %s_WEIGHTS_SIZE, cudaMemcpyHostToDevice));\n    return %s_OK;\n}\n",
              N, N, n, n, N, N, N, N);
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
    if (has_checks(e))
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
    const bool has[] = {arena, e->n_members > 0, p->n_states > 0, has_checks(e)};
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
    if (has_checks(e))
        fx_printf(t, "    int status = %s_OK;\n    %s_CUDA(\"waiting\", cudaMemcpyAsync(&status, ctx->status, sizeof status, cudaMemcpyDeviceToHost, stream));\n"
                     "    %s_CUDA(\"waiting\", cudaStreamSynchronize(stream));\n    if (status != %s_OK)\n"
                     "        %s_CUDA(\"clearing the status\", cudaMemsetAsync(ctx->status, 0, sizeof status, stream));\n    return status;\n}\n", N, N, N, N, N);
    else
        fx_printf(t, "    %s_CUDA(\"waiting\", cudaStreamSynchronize(stream));\n    return %s_OK;\n}\n", N, N);
}

static void put_strings(fx_emit *e, fx_text *t)
{
    fx_printf(t, "\nconst char *%s_status_string(int status)\n{\n    switch (status) {\n", e->prefix);
    for (int i = 0; i < N_STATUSES; i++)
        fx_printf(t, "    case %s_%s: return \"%s\";\n", e->PREFIX, statuses[i].name, statuses[i].text);
    fx_c_put_reason_cases(e, t);
    fx_puts(t, "    default: return \"unknown status\";\n    }\n}\n");
    fx_printf(t, "\nconst char *%s_error(const %s_context *ctx)\n{\n    return ctx ? ctx->error : \"\";\n}\n", e->prefix, e->prefix);
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
    if (has_checks(e))
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
    put_load(e, t);
    put_state(e, t);
    if (e->p->n_symbols)
        fx_c_sizes_source(e, t);
    put_create(e, t);
    put_run(e, t);
    fx_c_run_v(e, t);
    put_wait(e, t);
    put_strings(e, t);
    fx_emit_file(e, ".cu", t);
    return FX_OK;
}
