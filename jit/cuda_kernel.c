/* jit/cuda_kernel.c: calls of the kernels of runtime/cuda/ on a device, and modules: which kernels are compiled.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "jit/cuda_inner.h"

/* ---- modules ---------------------------------------------------------------------------------------------------------------- */

typedef struct build {
    fx_gpu_code *g;
    fx_context *ctx;             /* that is told what fails */
    fx_arena *arena;
    bool all;
    fx_nvrtc_image image;
} build;

static fx_status told(build *b, fx_cu_status status, const char *what)
{
    char text[512];
    const fx_status s = fx_gpu_check(b->g, (fx_words){text, sizeof text}, status, what);
    return s == FX_OK ? FX_OK : fx_fail(b->ctx, s, NULL, "%s", text);
}

static fx_status compile(void *user)
{
    build *b = user;
    fx_gpu_code *g = b->g;
    const fx_device_code *d = &g->device_code;
    const char **names = FX_NEW_ARRAY(b->arena, const char *, d->n_launches + g->n_kernels + 1);
    fx_cu_function **to = FX_NEW_ARRAY(b->arena, fx_cu_function *, d->n_launches + g->n_kernels + 1);
    size_t n = 0;
    for (size_t i = 0; b->all && i < d->n_launches; i++)
        if (!d->launches[i].call) {
            names[n] = d->launches[i].kernel;
            to[n++] = &g->functions[i];
        }
    for (size_t i = 0; i < g->n_kernels; i++)
        if (!g->kernels[i].function) {
            names[n] = g->kernels[i].name;
            to[n++] = &g->kernels[i].function;
        }
    const fx_nvrtc_source source = {.text = d->text, .n_kernels = n, .kernels = names, .arch = g->arch, .cache = g->cache, .cache_most = g->cache_most};
    if (n == 0)
        return FX_OK;
    FX_TRY(fx_nvrtc_build(b->ctx, b->arena, &source, &b->image));
    fx_cu_module *module = &FX_PUSH(g->lasting, g->modules, g->n_modules, g->cap_modules);
    *module = NULL;
    g->n_modules--; /* until it is one */
    FX_TRY(told(b, g->D->ModuleLoadData(module, b->image.data), "loading kernels"));
    g->n_modules++;
    for (size_t i = 0; i < n; i++)
        FX_TRY(told(b, g->D->ModuleGetFunction(to[i], *module, b->image.symbols[i]), names[i]));
    if (b->all)
        g->cached = b->image.cached;
    return FX_OK;
}

fx_status fx_gpu_build(fx_gpu_code *g, fx_context *ctx, fx_arena *arena, bool all)
{
    build b = {.g = g, .ctx = ctx, .arena = arena, .all = all};
    const fx_status status = fx_protect(ctx, compile, &b);
    free(b.image.data);
    return status;
}

/* ---- launches ------------------------------------------------------------------------------------------------------------------ */

typedef struct call {
    fx_gpu_code *g;
    fx_words w;
    const fx_device_launch *launch;
    bool plan;
    fx_status failed;            /* beside what CUDA told */
    const char *site;            /* a kernel to note */
    size_t length;
} call;

static fx_gpu_kernel *find_kernel(fx_gpu_code *g, const char *site)
{
    for (size_t i = 0; i < g->n_kernels; i++)
        if (g->kernels[i].site == site)
            return &g->kernels[i];
    return NULL;
}

static fx_status note_kernel(void *user)
{
    call *c = user;
    fx_arena *arena = c->g->lasting;
    char *name = fx_arena_alloc(arena, c->length + 1);
    memcpy(name, c->site, c->length);
    name[c->length] = 0;
    FX_PUSH(arena, c->g->kernels, c->g->n_kernels, c->g->cap_kernels) = (fx_gpu_kernel){.site = c->site, .name = name};
    return FX_OK;
}

/* A kernel that no earlier call launched. */
static fx_status add_kernel(call *c)
{
    fx_gpu_code *g = c->g;
    fx_status status = fx_protect(g->ctx, note_kernel, c);
    if (status == FX_OK && !c->plan) {
        status = fx_gpu_build(g, g->ctx, g->lasting, false);
        if (status != FX_OK)
            g->n_kernels--;
    }
    const size_t n = fx_diag_count(g->ctx);
    return status == FX_OK ? FX_OK : fx_fail_in(c->w, status, "step '%s': %s", c->launch->step->name, n ? fx_diag_get(g->ctx, n - 1)->message : "out of memory");
}

static int launch(void *user, const char *kernel, size_t length, const unsigned grid[3], const unsigned block[3], size_t shared, fx_cu_stream stream,
                  void **arguments)
{
    call *c = user;
    fx_gpu_kernel *k = find_kernel(c->g, kernel);
    if (!k) {
        c->site = kernel;
        c->length = length;
        c->failed = add_kernel(c);
        if (c->failed != FX_OK)
            return FX_CU_FAILED;
        k = find_kernel(c->g, kernel);
    }
    return c->plan ? 0 : c->g->D->LaunchKernel(k->function, grid[0], grid[1], grid[2], block[0], block[1], block[2], (unsigned)shared, stream, arguments, NULL);
}

static int fill(void *user, void *at, size_t words, fx_cu_stream stream)
{
    const call *c = user;
    return c->plan ? 0 : c->g->D->MemsetD32Async((fx_cu_ptr)(uintptr_t)at, 0, words, stream);
}

fx_status fx_gpu_call_step(fx_gpu_code *g, fx_words w, size_t number, const int64_t *symbols, fx_cu_stream stream, bool plan)
{
    const fx_program *p = g->p;
    const fx_device_launch *l = &g->device_code.launches[number];
    const fx_kernel *k = fx_kernel_get(l->call->kernel);
    fx_call_stmt bound = *l->call;
    int32_t descriptor[FX_MAX_FIELDS];
    void *buffers[FX_MAX_BUF_ARGS] = {NULL};
    if (!fx_call_is_static(l->call) && !fx_call_bind(fx_program_symbols(p), symbols, l->call, &bound))
        return fx_fail_in(w, FX_ERR_ARGUMENT, "step '%s': these inputs' sizes are more than its kernel takes", l->step->name);
    fx_call_to_desc(&bound, descriptor);
    for (int i = 0; i < k->n_bufs; i++)
        if (bound.buf[i] >= 0)
            buffers[i] = (void *)(uintptr_t)(g->place[bound.buf[i]] + (uint64_t)bound.offset[i].value * fx_dtype_size(p->bufs[bound.buf[i]].dtype));
    call c = {.g = g, .w = w, .launch = l, .plan = plan};
    const fx_dtype type = fx_call_dtype(p, l->call);
    const fx_cuda_kernel_call kernel = {.kernel = k->name, .descriptor = descriptor, .buffers = buffers, .products = g->products, .planning = plan,
                                        .element = type == FX_F16 ? FX_CUDA_HALF : type == FX_BF16 ? FX_CUDA_BFLOAT16 : FX_CUDA_FLOAT,
                                        .float_masks = fx_call_adds_floats(p, l->call), .stream = stream, .launch = launch, .fill = fill, .user = &c};
    const int error = fx_cuda_call_kernel(&kernel);
    if (c.failed != FX_OK)
        return c.failed;
    if (error == FX_CUDA_NO_KERNEL)
        return fx_fail_in(w, FX_ERR_UNSUPPORTED, "layer '%s' needs the kernel %s, which this fxcc does not run on a device", l->step->name, k->name);
    return fx_gpu_check(g, w, error, l->step->name);
}
