/* jit/cuda.c: a loop program on a device: its kernels compiled and loaded, its weights.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/cuda_inner.h"

/* ---- errors --------------------------------------------------------------------------------------------------------------- */

fx_status fx_gpu_check(const fx_gpu_code *g, fx_words w, fx_cu_status status, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (status == 0)
        return FX_OK;
    if (g->D->GetErrorName(status, &name) != 0 || !name)
        name = "an unknown error";
    if (g->D->GetErrorString(status, &text) != 0 || !text)
        text = "no more is known";
    return fx_fail_in(w, status == FX_CU_OUT_OF_MEMORY ? FX_ERR_NOMEM : FX_ERR_UNSUPPORTED, "device cuda:%d: %s: %s (%s)", g->ordinal, what, name, text);
}

/* ---- compiling -------------------------------------------------------------------------------------------------------------- */

typedef struct job {
    fx_program *p;
    const fx_gpu_options *opt;
    fx_gpu_code *g;
    bool current;                /* the context is the thread's */
} job;

/* A call of CUDA's while compiling. */
static fx_status told(job *j, fx_cu_status status, const char *what)
{
    char text[512];
    const fx_status s = fx_gpu_check(j->g, (fx_words){text, sizeof text}, status, what);
    return s == FX_OK ? FX_OK : fx_fail(j->p->ctx, s, NULL, "%s", text);
}

static fx_status choose_device(job *j, int *arch)
{
    fx_gpu_code *g = j->g;
    const char *why;
    int n = 0, major = 0, minor = 0;
    g->D = fx_cuda_driver_load(&why);
    if (!g->D)
        return fx_fail(j->p->ctx, FX_ERR_UNSUPPORTED, NULL, "device cuda: %s", why);
    g->ordinal = j->opt->device;
    FX_TRY(told(j, g->D->DeviceGetCount(&n), "counting devices"));
    if (n == 0)
        return fx_fail(j->p->ctx, FX_ERR_UNSUPPORTED, NULL, "device cuda: there is a CUDA driver, but no device");
    if (g->ordinal < 0 || g->ordinal >= n)
        return fx_fail(j->p->ctx, FX_ERR_ARGUMENT, NULL, "device cuda: expected a number from 0 to %d, got %d", n - 1, g->ordinal);
    FX_TRY(told(j, g->D->DeviceGet(&g->device, g->ordinal), "finding the device"));
    FX_TRY(told(j, g->D->DeviceGetAttribute(&major, FX_CU_MAJOR, g->device), "its compute capability"));
    FX_TRY(told(j, g->D->DeviceGetAttribute(&minor, FX_CU_MINOR, g->device), "its compute capability"));
    *arch = 10 * major + minor;
    return FX_OK;
}

static fx_status load_weights(job *j)
{
    fx_gpu_code *g = j->g;
    const fx_program *p = j->p;
    if (g->device_code.weights_size)
        FX_TRY(told(j, g->D->MemAlloc(&g->weights, (size_t)g->device_code.weights_size), "allocating weights"));
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (b->kind == FX_BUF_WEIGHT && g->device_code.weights_at[i] && fx_buf_bytes(b))
            FX_TRY(told(j, g->D->MemcpyHtoDAsync(g->weights + g->device_code.weights_at[i], b->data, (size_t)fx_buf_bytes(b), NULL), "copying weights"));
    }
    return told(j, g->D->StreamSynchronize(NULL), "copying weights");
}

/* The device's context is the thread's from here on. */
static fx_status start_device(job *j)
{
    fx_gpu_code *g = j->g;
    FX_TRY(told(j, g->D->PrimaryCtxRetain(&g->context, g->device), "starting the device"));
    FX_TRY(told(j, g->D->CtxPushCurrent(g->context), "starting the device"));
    j->current = true;
    return FX_OK;
}

/* What cuBLASLt may use of the arena: workspaces begin with it. */
static uint64_t products_workspace(const fx_gpu_code *g, bool *any)
{
    uint64_t most = 0;
    *any = false;
    for (size_t i = 0; i < g->device_code.n_launches; i++) {
        const fx_call_stmt *c = g->device_code.launches[i].call;
        if (!c || !fx_kernel_products(c->kernel))
            continue;
        const int ws = c->buf[fx_kernel_buf(fx_kernel_get(c->kernel), "ws")];
        *any = true;
        if (ws >= 0 && fx_buf_bytes(&g->p->bufs[ws]) > most)
            most = fx_buf_bytes(&g->p->bufs[ws]);
    }
    const uint64_t products = fx_target_products_workspace(&g->p->target);
    return most < products ? most : products;
}

/* Kernels of calls whose sizes are known, and how their products are done; those of other calls are compiled when they are first made. */
static fx_status plan_calls(job *j)
{
    fx_gpu_code *g = j->g;
    const char *why;
    char text[1024];
    bool any;
    const uint64_t workspace = products_workspace(g, &any);
    if (any) {
        const int error = fx_cuda_products_create((size_t)workspace, j->p->target.tf32, &g->products, &why);
        if (why)
            return fx_fail(j->p->ctx, FX_ERR_UNSUPPORTED, NULL, "device cuda: %s", why);
        FX_TRY(told(j, error, "starting cuBLASLt"));
    }
    for (size_t i = 0; i < j->p->n_bufs; i++)
        g->place[i] = 1 << 20; /* where memory of the device's begins; addresses have no other meaning here */
    for (size_t i = 0; i < g->device_code.n_launches; i++) {
        const fx_device_launch *l = &g->device_code.launches[i];
        if (!l->call || !fx_call_is_static(l->call))
            continue;
        const fx_status status = fx_gpu_call_step(g, (fx_words){text, sizeof text}, i, NULL, NULL, true);
        if (status != FX_OK)
            return fx_fail(j->p->ctx, status, &l->step->loc, "%s", text);
    }
    return FX_OK;
}

static fx_status load(job *j)
{
    fx_gpu_code *g = j->g;
    const fx_program *p = j->p;
    FX_TRY(told(j, g->D->EventCreate(&g->done, FX_CU_NO_TIMING), "making an event"));
    FX_TRY(told(j, g->D->MemAlloc(&g->status, sizeof(int)), "allocating the status"));
    FX_TRY(told(j, g->D->MemsetD32Async(g->status, 0, 1, NULL), "clearing the status"));
    if (p->counters_size) {
        FX_TRY(told(j, g->D->MemAlloc(&g->counters, (size_t)p->counters_size), "allocating counters"));
        FX_TRY(told(j, g->D->MemsetD32Async(g->counters, 0, (size_t)p->counters_size / sizeof(int32_t), NULL), "clearing counters"));
    }
    if (p->n_states)
        FX_TRY(told(j, g->D->MemAlloc(&g->state, (size_t)p->state_size), "allocating the state"));
    return load_weights(j);
}

static void make_room(fx_gpu_code *g)
{
    const fx_program *p = g->p;
    const fx_device_code *d = &g->device_code;
    size_t most = 0;
    for (size_t i = 0; i < d->n_launches; i++)
        most = d->launches[i].n_bufs > most ? d->launches[i].n_bufs : most;
    g->functions = FX_NEW_ARRAY(p->arena, fx_cu_function, d->n_launches + 1);
    g->staging = FX_NEW_ARRAY(p->arena, fx_gpu_block, p->n_inputs + p->n_outputs + 1);
    g->room = FX_NEW_ARRAY(p->arena, uint64_t, 2 * p->n_slots + 1);
    g->offsets = FX_NEW_ARRAY(p->arena, uint64_t, p->n_bufs + 1);
    g->place = FX_NEW_ARRAY(p->arena, fx_cu_ptr, p->n_bufs + 1);
    g->arguments = FX_NEW_ARRAY(p->arena, void *, p->n_symbols + most + 3);
    g->sizes = FX_NEW_ARRAY(p->arena, ptrdiff_t, p->n_symbols + 1);
}

static fx_status compile(void *user)
{
    job *j = user;
    fx_gpu_code *g = j->g;
    FX_TRY(choose_device(j, &g->arch));
    g->ctx = fx_context_create();
    if (!g->ctx)
        fx_out_of_memory(j->p->ctx);
    g->lasting = fx_arena_create(g->ctx);
    g->cache = j->opt->cache ? fx_intern(g->ctx, j->opt->cache) : NULL;
    g->cache_most = j->opt->cache_most;
    FX_TRY(fx_emit_device(j->p, &g->device_code));
    make_room(g);
    FX_TRY(start_device(j));
    FX_TRY(plan_calls(j));
    FX_TRY(fx_gpu_build(g, j->p->ctx, j->p->arena, true));
    return load(j);
}

fx_status fx_gpu_compile(fx_program *p, const fx_gpu_options *opt, fx_gpu_code **out)
{
    job j = {.p = p, .opt = opt, .g = calloc(1, sizeof(fx_gpu_code))};
    if (!j.g)
        return fx_fail(p->ctx, FX_ERR_NOMEM, NULL, "out of memory");
    j.g->p = p;
    pthread_mutex_init(&j.g->turn, NULL);
    fx_status status = fx_protect(p->ctx, compile, &j);
    fx_cu_context popped;
    if (j.current)
        j.g->D->CtxPopCurrent(&popped);
    if (status == FX_OK)
        *out = j.g;
    else
        fx_gpu_free(j.g);
    return status;
}

void fx_gpu_free(fx_gpu_code *g)
{
    fx_cu_context popped;
    if (!g)
        return;
    if (g->context && g->D->CtxPushCurrent(g->context) == 0) {
        const fx_cu_ptr memory[] = {g->weights, g->state, g->counters, g->status, g->arena.at};
        if (g->used)
            g->D->EventSynchronize(g->done);
        for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
            if (memory[i])
                g->D->MemFree(memory[i]);
        for (size_t i = 0; g->staging && i < g->p->n_inputs + g->p->n_outputs; i++)
            if (g->staging[i].at)
                g->D->MemFree(g->staging[i].at);
        if (g->done)
            g->D->EventDestroy(g->done);
        fx_cuda_products_free(g->products);
        for (size_t i = 0; i < g->n_modules; i++)
            g->D->ModuleUnload(g->modules[i]);
        g->D->CtxPopCurrent(&popped);
    }
    if (g->context)
        g->D->PrimaryCtxRelease(g->device);
    fx_context_free(g->ctx);
    pthread_mutex_destroy(&g->turn);
    free(g);
}

int fx_gpu_device(const fx_gpu_code *g)
{
    return g->ordinal;
}

bool fx_gpu_cached(const fx_gpu_code *g)
{
    return g->cached;
}

uint64_t fx_gpu_arena_size(const fx_gpu_code *g)
{
    return g->arena.size;
}

