/* codegen/cuda_host.c: NAME.cu: what runs on the device, and the host's part around it: context, create, destroy; the rest is in other cuda_*.c.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <ctype.h>
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

static bool calls_kernels(const fx_emit *e)
{
    bool any = false;
    for (int k = 0; k < FX_K_COUNT; k++)
        any |= e->kernels[k];
    return any;
}

/* What the texts of kernels ask of the model: behind launch.h, the first of them. */
static void put_kernel_settings(fx_emit *e, fx_text *t)
{
    size_t products = 0, workspace[2] = {0}; /* bytes: of steps that run alone, of those beside others */
    if (!calls_kernels(e))
        return;
    fx_c_once(e, t, "acts_mask");
    fx_printf(t, "#define FXRT_ACT_MASK 0x%xu /* activations that occur */\n", e->opt->shared ? ~0u : e->acts);
    fx_c_end_once(e, t);
    for (size_t i = 0; i < e->p->n_steps; i++) {
        products += (size_t)e->facts[i].products;
        for (size_t k = 0; e->facts[i].products && k < e->facts[i].n_params; k++) {
            const fx_buf *b = &e->p->bufs[e->facts[i].params[k].buf];
            size_t *most = &workspace[e->p->steps[i].region > 0];
            if (b->workspace && fx_buf_bytes(b) > *most)
                *most = fx_buf_bytes(b);
        }
    }
    for (int beside = 0; beside < 2; beside++) { /* behind cuBLASLt's is a kernel's own */
        size_t lt = fx_target_products_workspace(&e->p->target) / (beside ? FX_MOST_STREAMS : 1);
        workspace[beside] = workspace[beside] < lt ? workspace[beside] : lt;
    }
    if (products) {
        enum { SHARED = 256 };
        fx_c_once(e, t, "plans");
        fx_printf(t, "#define FXRT_CUDA_GEMM_PLANS %zu /* places for what cuBLASLt says of products */\n", e->opt->shared ? SHARED : 2 * products + 8);
        fx_c_end_once(e, t);
        for (int beside = 0; beside < 2; beside++)
            if (fx_cuda_uses_products(e, beside))
                fx_printf(t, "#define %s_%s_WORKSPACE %zu /* bytes of the arena that it may use%s */\n", e->PREFIX, beside ? "BESIDE" : "PRODUCTS", workspace[beside],
                          beside ? " where layers run beside one another" : "");
    }
    fx_c_descriptors(e, t);
}

/* The texts of runtime/cuda/, each behind what it needs. */
static void put_cuda_texts(fx_emit *e, fx_text *t)
{
    for (int i = 0; i < fx_n_cuda_texts; i++) {
        if (!fx_cuda_needs_text(e, fx_cuda_texts[i].name))
            continue;
        fx_puts(t, i ? "\n" : "");
        fx_c_once(e, t, fx_arena_printf(e->arena, "cuda_%s", fx_cuda_texts[i].name));
        fx_puts(t, fx_cuda_texts[i].text);
        fx_c_end_once(e, t);
        if (i == 0)
            put_kernel_settings(e, t);
    }
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
    if (calls_kernels(e))
        fx_puts(t, "#if defined(__GNUC__)\n#pragma GCC diagnostic ignored \"-Wmissing-field-initializers\" /* in descriptors, what is left out is 0 */\n#endif\n");
    if (e->int_compares)
        fx_puts(t, "#if defined(__CUDACC__)\n#pragma nv_diag_suppress 186, 514 /* pointless comparisons */\n#endif\n");
}

fx_status fx_cuda_kernels(fx_emit *e, fx_text *t)
{
    put_cuda_texts(e, t);
    if (fx_cuda_has_checks(e))
        fx_printf(t, "\n/* Notes why the run fails; of several reasons one is told. */\n#define %s_FAIL(reason) atomicMax(status, (int)(reason))\n", e->PREFIX);
    put_texts(e, t);
    put_conversions(e, t);
    put_silence(e, t);
    fx_puts(t, "\n/* ---- the model's layers, in order: a kernel each ---- */\n");
    return fx_cuda_steps(e, t);
}

/* ---- NAME.cu: for the host --------------------------------------------------------------------------------------- */

/* A text in which the model's prefixes stand for @ (but not in make's $@), net_ and NET_. */
void fx_cuda_put(fx_emit *e, fx_text *t, const char *s)
{
    const char *from = s;
    for (; *s; s++) {
        bool begins = s == from || !(isalnum((unsigned char)s[-1]) || s[-1] == '_');
        bool alone = *s == '@' && !(s > from && s[-1] == '$'), lower = begins && strncmp(s, "net_", 4) == 0, upper = begins && strncmp(s, "NET_", 4) == 0;
        if (!alone && !lower && !upper)
            continue;
        fx_putn(t, from, (size_t)(s - from));
        fx_puts(t, upper ? e->PREFIX : e->prefix);
        from = s + (alone ? 1 : 3);
    }
    fx_puts(t, from);
}

static void put_context(fx_emit *e, fx_text *t)
{
    fx_puts(t, "\n/* ---- the interface ---- */\n\n");
    fx_cuda_put(e, t, "struct net_context {\n    int device;\n    bool made;                /* create did all it had to */\n    bool debug;\n");
    if (e->n_members)
        fx_cuda_put(e, t, "    net_weights_t *weights;\n");
    fx_puts(t, "    unsigned char *arena;\n");
    if (e->p->n_symbols)
        fx_puts(t, "    size_t arena_size;\n");
    if (e->p->n_states)
        fx_cuda_put(e, t, "    net_state_t *state;\n");
    if (e->p->counters_size)
        fx_puts(t, "    int32_t *counters;        /* of the blocks that made their parts of a sum: zero between runs */\n");
    if (fx_cuda_has_checks(e))
        fx_puts(t, "    int *status;              /* on the device: why a run failed */\n");
    if (fx_cuda_uses_products(e, false))
        fx_puts(t, "    fxrt_cuda_products products;\n");
    if (fx_cuda_uses_products(e, true))
        fx_puts(t, "    fxrt_cuda_products beside; /* of layers that run beside others: each with less workspace */\n");
    if (fx_cuda_side_streams(e))
        fx_printf(t, "    cudaStream_t side[%d];     /* for layers beside those of the caller's stream */\n"
                     "    cudaEvent_t forked;       /* the caller's stream came to where side streams begin */\n"
                     "    cudaEvent_t joined[%d];    /* a side stream came to where the caller's goes on */\n", fx_cuda_side_streams(e), fx_cuda_side_streams(e));
    fx_puts(t, "    char error[256];\n};\n\n");
    fx_cuda_put(e, t,
                "/* The device of a context, as long as this lives; then the caller's again. */\n"
                "struct net_on_device {\n"
                "    int before = 0;\n"
                "    cudaError_t error;\n"
                "    explicit net_on_device(int device) : error(cudaGetDevice(&before))\n"
                "    {\n"
                "        if (error == cudaSuccess && device != before)\n"
                "            error = cudaSetDevice(device);\n"
                "    }\n"
                "    ~net_on_device()\n"
                "    {\n"
                "        int now;\n"
                "        if (cudaGetDevice(&now) == cudaSuccess && now != before)\n"
                "            (void)cudaSetDevice(before);\n"
                "    }\n"
                "};\n\n"
                "/* Notes what failed: a call of CUDA, or a kernel by its name. */\n"
                "static int net_fail(net_context *ctx, const char *what, cudaError_t error)\n"
                "{\n"
                "    snprintf(ctx->error, sizeof ctx->error, \"%s, device %d: %s (%s)\", what, ctx->device, cudaGetErrorName(error), cudaGetErrorString(error));\n"
                "    (void)cudaGetLastError(); /* it is told */\n");
    if (fx_cuda_side_streams(e))
        fx_cuda_put(e, t,
                "    for (const cudaStream_t side : ctx->side) /* a run that ends early leaves nothing there, where the caller's stream does not wait for it */\n"
                "        if (side)\n"
                "            (void)cudaStreamSynchronize(side);\n");
    fx_cuda_put(e, t,
                "    return error == cudaErrorMemoryAllocation ? NET_ERR_MEMORY : NET_ERR_CUDA;\n"
                "}\n\n"
                "/* Notes why a call is refused; returns its status. */\n"
                "static int net_refuse(net_context *ctx, int status, const char *format, ...)\n"
                "{\n"
                "    va_list values;\n"
                "    va_start(values, format);\n"
                "    if (ctx)\n"
                "        vsnprintf(ctx->error, sizeof ctx->error, format, values);\n"
                "    va_end(values);\n"
                "    return status;\n"
                "}\n\n"
                "/* How the functions begin that a context is given to. */\n"
                "static int net_begin(net_context *ctx)\n"
                "{\n"
                "    if (!ctx)\n"
                "        return NET_ERR_NULL;\n"
                "    ctx->error[0] = 0;\n"
                "    (void)cudaGetLastError(); /* what a call of the caller's left, which launches would take for theirs */\n"
                "    return ctx->made ? NET_OK : net_refuse(ctx, NET_ERR_CONTEXT, \"net_create failed for this context\");\n"
                "}\n\n"
                "/* In a context for debugging, waits for a kernel, so that its error is told with its name. */\n"
                "[[maybe_unused]] static cudaError_t net_finish(const net_context *ctx, cudaStream_t stream)\n"
                "{\n"
                "    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;\n"
                "    const cudaError_t error = ctx->debug ? cudaStreamIsCapturing(stream, &capturing) : cudaSuccess;\n"
                "    return !ctx->debug || error != cudaSuccess || capturing != cudaStreamCaptureStatusNone ? error : cudaStreamSynchronize(stream);\n"
                "}\n\n"
                "/* A program that includes this file may define it, to be told of each call that gave a stream work. */\n"
                "#ifndef NET_TELL\n"
                "#define NET_TELL(what, stream) static_cast<void>(0)\n"
                "#endif\n\n"
                "/* A call of CUDA; a function ends where one fails. NET_CALL: one that gives a stream work. */\n"
                "#define NET_CUDA(what, call) \\\n"
                "    do { \\\n"
                "        const cudaError_t error = (call); \\\n"
                "        if (error != cudaSuccess) \\\n"
                "            return net_fail(ctx, what, error); \\\n"
                "    } while (0)\n"
                "#define NET_CALL_ON(on, what, call) \\\n"
                "    do { \\\n"
                "        NET_CUDA(what, call); \\\n"
                "        NET_CUDA(what, net_finish(ctx, on)); \\\n"
                "        NET_TELL(what, on); \\\n"
                "    } while (0)\n"
                "#define NET_CALL(what, call) NET_CALL_ON(stream, what, call)\n"
                "#define NET_LAUNCH_ON(on, kernel, grid, block, ...) NET_CALL_ON(on, #kernel, FXCC_LAUNCH(kernel, grid, block, 0, on, __VA_ARGS__))\n"
                "#define NET_LAUNCH(kernel, grid, block, ...) NET_LAUNCH_ON(stream, kernel, grid, block, __VA_ARGS__)\n\n"
                "/* Nothing: whether it can be had tells whether this program has code for the device. */\n"
                "static __global__ void net_probe()\n{\n}\n");
}

/* In NAME_allocate: how much memory the sizes take. */
static void put_sizes(fx_emit *e, fx_text *t)
{
    if (!e->finite_arena)
        fx_cuda_put(e, t, "    if (!config->most)\n        return net_refuse(ctx, NET_ERR_NULL, \"config.most is NULL, and some sizes have no end\");\n");
    fx_cuda_put(e, t, "    if (config->most) {\n        const int status = net_check_dims(config->most);\n        if (status != NET_OK)\n            return status;\n    }\n");
    fx_cuda_put(e, t, e->finite_arena ? "    ctx->arena_size = config->most ? net_arena_size(config->most) : NET_ARENA_SIZE;\n" : "    ctx->arena_size = net_arena_size(config->most);\n");
}

static void put_create(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    bool arena = p->n_symbols || p->arena_size;
    fx_cuda_put(e, t, "\n/* What there is to allocate and load; net_destroy frees what was. */\n"
                      "static int net_allocate(net_context *ctx, const net_config *config)\n{\n"
                      "    const net_on_device here(ctx->device);\n"
                      "    NET_CUDA(\"choosing the device\", here.error);\n"
                      "    cudaFuncAttributes attributes;\n"
                      "    NET_CUDA(\"looking for code for the device\", cudaFuncGetAttributes(&attributes, net_probe));\n");
    if (p->n_symbols)
        put_sizes(e, t);
    if (arena)
        fx_cuda_put(e, t, p->n_symbols ? "    NET_CUDA(\"allocating the arena\", cudaMalloc(&ctx->arena, ctx->arena_size + 1));\n"
                                       : "    NET_CUDA(\"allocating the arena\", cudaMalloc(&ctx->arena, NET_ARENA_SIZE));\n");
    if (fx_cuda_has_checks(e))
        fx_cuda_put(e, t, "    NET_CUDA(\"allocating the status\", cudaMalloc(&ctx->status, sizeof *ctx->status));\n"
                          "    NET_CUDA(\"clearing the status\", cudaMemset(ctx->status, 0, sizeof *ctx->status));\n");
    if (p->counters_size) {
        fx_cuda_put(e, t, "    NET_CUDA(\"allocating counters\", cudaMalloc(&ctx->counters, ");
        fx_printf(t, "%llu));\n", (unsigned long long)p->counters_size);
        fx_cuda_put(e, t, "    NET_CUDA(\"clearing counters\", cudaMemset(ctx->counters, 0, ");
        fx_printf(t, "%llu));\n", (unsigned long long)p->counters_size);
    }
    if (p->n_states)
        fx_cuda_put(e, t, "    NET_CUDA(\"allocating the state\", cudaMalloc(&ctx->state, sizeof *ctx->state));\n");
    if (e->n_members)
        fx_cuda_put(e, t, "    NET_CUDA(\"allocating weights\", cudaMalloc(&ctx->weights, NET_WEIGHTS_SIZE));\n"
                          "    const int status = net_load_weights(ctx, config);\n    if (status != NET_OK)\n        return status;\n");
    if (p->n_states)
        fx_cuda_put(e, t, "    if (net_set_state(ctx, nullptr) != NET_OK)\n        return NET_ERR_CUDA;\n");
    if (fx_cuda_has_products(e))
        fx_cuda_put(e, t, "    const int planned = net_plan(ctx);\n    if (planned != NET_OK)\n        return planned;\n");
    if (fx_cuda_side_streams(e))
        fx_cuda_put(e, t, "    NET_CUDA(\"making an event\", cudaEventCreateWithFlags(&ctx->forked, cudaEventDisableTiming));\n"
                          "    for (cudaEvent_t &event : ctx->joined)\n"
                          "        NET_CUDA(\"making an event\", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));\n"
                          "    for (cudaStream_t &side : ctx->side)\n"
                          "        NET_CUDA(\"making a stream\", cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));\n");
    if (!p->n_symbols && !e->n_members)
        fx_puts(t, "    (void)config;\n");
    fx_cuda_put(e, t, "    NET_CUDA(\"waiting for copies\", cudaStreamSynchronize(nullptr)); /* other streams do not */\n    return NET_OK;\n}\n"
                      "\nint net_create(net_context **ctx, const net_config *config)\n{\n"
                      "    if (ctx)\n        *ctx = nullptr;\n"
                      "    if (!ctx || !config)\n        return NET_ERR_NULL;\n"
                      "    *ctx = (net_context *)calloc(1, sizeof **ctx);\n"
                      "    if (!*ctx)\n        return NET_ERR_MEMORY;\n"
                      "    (*ctx)->device = config->device;\n"
                      "    (*ctx)->debug = config->debug != 0;\n"
                      "    (void)cudaGetLastError();\n"
                      "    const int status = net_allocate(*ctx, config);\n"
                      "    (*ctx)->made = status == NET_OK;\n"
                      "    return status;\n}\n"
                      "\nvoid net_destroy(net_context *ctx)\n{\n    if (!ctx)\n        return;\n    {\n        const net_on_device here(ctx->device);\n"
                      "        (void)cudaDeviceSynchronize();\n");
    for (int beside = 0; beside < 2; beside++)
        if (fx_cuda_uses_products(e, beside))
            fx_printf(t, "        (void)fxrt_cuda_products_destroy(&ctx->%s);\n", fx_cuda_products_name(beside));
    if (fx_cuda_side_streams(e))
        fx_puts(t, "        for (const cudaStream_t side : ctx->side)\n            if (side)\n                (void)cudaStreamDestroy(side);\n"
                   "        for (const cudaEvent_t event : ctx->joined)\n            if (event)\n                (void)cudaEventDestroy(event);\n"
                   "        if (ctx->forked)\n            (void)cudaEventDestroy(ctx->forked);\n");
    static const char *const owned[] = {"arena", "weights", "state", "counters", "status"};
    const bool has[] = {arena, e->n_members > 0, p->n_states > 0, p->counters_size > 0, fx_cuda_has_checks(e)};
    for (int i = 0; i < 5; i++)
        if (has[i])
            fx_printf(t, "        (void)cudaFree(ctx->%s);\n", owned[i]);
    fx_puts(t, "        (void)cudaGetLastError();\n    }\n    free(ctx);\n}\n");
}

static void put_state(fx_emit *e, fx_text *t)
{
    const fx_program *p = e->p;
    if (!p->n_states)
        return;
    fx_cuda_put(e, t, "\nstatic int net_set_state(net_context *ctx, cudaStream_t stream)\n{\n");
    for (size_t i = 0; i < p->n_states; i++)
        fx_printf(t, "    %s_CUDA(\"%s\", cudaMemcpyAsync(ctx->state->%s, ctx->weights->%s, sizeof ctx->state->%s, cudaMemcpyDeviceToDevice, stream));\n", e->PREFIX,
                  e->states[i], e->states[i], e->bufs[p->bufs[p->states[i].buf].initial], e->states[i]);
    fx_cuda_put(e, t, "    return NET_OK;\n}\n"
                      "\nint net_state_init(net_context *ctx, cudaStream_t stream)\n{\n"
                      "    const int status = net_begin(ctx);\n    if (status != NET_OK)\n        return status;\n"
                      "    const net_on_device here(ctx->device);\n    NET_CUDA(\"choosing the device\", here.error);\n"
                      "    return net_set_state(ctx, stream);\n}\n"
                      "\nnet_state_t *net_state(net_context *ctx)\n{\n    return ctx ? ctx->state : nullptr;\n}\n");
}

fx_status fx_cuda_source(fx_emit *e)
{
    const char *n = e->prefix;
    fx_text text, *t = &text;
    fx_text_init(t, e->arena);
    fx_printf(t, "/* %s.cu: ", n);
    fx_put_comment(t, e->p->name, 120);
    fx_printf(t, ". Made by fxcc; see %s.h.\n * Contains functions of fxcc's runtime, under the Apache License v2.0 with LLVM Exceptions: no notice is due in a product. */\n"
                 "#include \"%s.h\"\n\n%s#include <errno.h>\n#include <math.h>\n#include <stdarg.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n%s\n", n, n,
              fx_cuda_has_products(e) ? "#include <cublasLt.h>\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n"
              : fx_cuda_has_halves(e) ? "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n"
                                      : "",
              e->n_members ? "#if defined(__unix__) || defined(__APPLE__)\n#include <fcntl.h>\n#include <sys/mman.h>\n#include <sys/stat.h>\n#include <unistd.h>\n#endif\n" : "");
    FX_TRY(fx_cuda_kernels(e, t));
    put_context(e, t);
    fx_text text_behind, *behind = &text_behind; /* the weights' head, which is of all the text */
    fx_text_init(behind, e->arena);
    put_state(e, behind);
    if (e->p->n_symbols)
        fx_c_sizes_source(e, behind);
    fx_cuda_plan(e, behind);
    put_create(e, behind);
    fx_cuda_run(e, behind);
    fx_cuda_strings(e, behind);
    fx_cuda_hash(e, t, behind);
    fx_cuda_load(e, t);
    fx_puts(t, behind->data);
    fx_emit_file(e, ".cu", t);
    return FX_OK;
}
