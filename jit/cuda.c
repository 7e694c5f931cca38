/* jit/cuda.c: a loop program on a device: its kernels compiled and loaded, its memory, and calls: launches one after another on the caller's stream.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "jit/cuda.h"
#include "jit/nvrtc.h"

/* Memory of the device that grows. */
typedef struct block {
    fx_cu_ptr at;
    uint64_t size;
} block;

struct fx_gpu_code {
    const fx_cuda_driver *D;
    fx_program *p;
    fx_device_code device_code;
    int ordinal;
    fx_cu_device device;
    fx_cu_context context;       /* the device's primary one, as the run-time API and torch use it; NULL: not taken */
    fx_cu_module module;
    fx_cu_function *functions;   /* by launch */
    fx_cu_ptr weights, state, status;
    block arena;
    block *staging;              /* by input, then output: for what is not on the device, or not aligned */
    fx_cu_event done;            /* the last call */
    void *last;                  /* its stream */
    bool used;                   /* there was one */
    bool cached;
    pthread_mutex_t turn;
    uint64_t *room, *offsets;    /* of the arena, see fx_program_places */
    fx_cu_ptr *place;            /* by buffer: where it lies in the call at hand */
    void **arguments;            /* of the launch at hand */
    ptrdiff_t *sizes;            /* by symbol */
};

/* ---- errors --------------------------------------------------------------------------------------------------------------- */

typedef struct words {
    char *text;                  /* NULL: nowhere */
    size_t size;
} words;

__attribute__((format(printf, 3, 4))) static fx_status fail(words w, fx_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (w.text && w.size)
        vsnprintf(w.text, w.size, fmt, ap);
    va_end(ap);
    return status;
}

/* What a call of CUDA's tells. */
static fx_status check(const fx_gpu_code *g, words w, fx_cu_status status, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (status == 0)
        return FX_OK;
    if (g->D->GetErrorName(status, &name) != 0 || !name)
        name = "an unknown error";
    if (g->D->GetErrorString(status, &text) != 0 || !text)
        text = "no more is known";
    return fail(w, status == FX_CU_OUT_OF_MEMORY ? FX_ERR_NOMEM : FX_ERR_UNSUPPORTED, "device cuda:%d: %s: %s (%s)", g->ordinal, what, name, text);
}

/* ---- memory --------------------------------------------------------------------------------------------------------------- */

static fx_status allocate(const fx_gpu_code *g, words w, uint64_t size, const char *what, fx_cu_ptr *at)
{
    return size ? check(g, w, g->D->MemAlloc(at, (size_t)size), what) : FX_OK;
}

static fx_status grow(const fx_gpu_code *g, words w, block *b, uint64_t size, const char *what)
{
    if (b->size >= size)
        return FX_OK;
    if (b->at)
        g->D->MemFree(b->at); /* waits for what uses it */
    *b = (block){0, 0};
    FX_TRY(allocate(g, w, size, what, &b->at));
    b->size = size;
    return FX_OK;
}

static bool on_device(const fx_gpu_code *g, const void *at)
{
    unsigned type = 0;
    return at && g->D->PointerGetAttribute(&type, FX_CU_MEMORY_TYPE, (fx_cu_ptr)(uintptr_t)at) == 0 && type == FX_CU_ON_DEVICE;
}

bool fx_gpu_on_device(const fx_gpu_code *g, const void *at)
{
    fx_cu_context popped;
    if (g->D->CtxPushCurrent(g->context) != 0)
        return false;
    const bool there = on_device(g, at);
    g->D->CtxPopCurrent(&popped);
    return there;
}

/* ---- compiling -------------------------------------------------------------------------------------------------------------- */

typedef struct job {
    fx_program *p;
    const fx_gpu_options *opt;
    fx_gpu_code *g;
    fx_nvrtc_image image;
    bool current;                /* the context is the thread's */
} job;

/* A call of CUDA's while compiling. */
static fx_status told(job *j, fx_cu_status status, const char *what)
{
    char text[512];
    const fx_status s = check(j->g, (words){text, sizeof text}, status, what);
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

static fx_status load(job *j)
{
    fx_gpu_code *g = j->g;
    const fx_program *p = j->p;
    FX_TRY(told(j, g->D->PrimaryCtxRetain(&g->context, g->device), "starting the device"));
    FX_TRY(told(j, g->D->CtxPushCurrent(g->context), "starting the device"));
    j->current = true;
    if (g->device_code.n_launches)
        FX_TRY(told(j, g->D->ModuleLoadData(&g->module, j->image.data), "loading the kernels"));
    for (size_t i = 0; i < g->device_code.n_launches; i++)
        FX_TRY(told(j, g->D->ModuleGetFunction(&g->functions[i], g->module, j->image.symbols[i]), g->device_code.launches[i].kernel));
    FX_TRY(told(j, g->D->EventCreate(&g->done, FX_CU_NO_TIMING), "making an event"));
    FX_TRY(told(j, g->D->MemAlloc(&g->status, sizeof(int)), "allocating the status"));
    FX_TRY(told(j, g->D->MemsetD32Async(g->status, 0, 1, NULL), "clearing the status"));
    if (p->n_states)
        FX_TRY(told(j, g->D->MemAlloc(&g->state, (size_t)p->state_size), "allocating the state"));
    return load_weights(j);
}

static fx_status compile(void *user)
{
    job *j = user;
    fx_gpu_code *g = j->g;
    fx_program *p = j->p;
    int arch = 0;
    size_t most = 0;
    FX_TRY(choose_device(j, &arch));
    FX_TRY(fx_emit_device(p, &g->device_code));
    const fx_device_code *d = &g->device_code;
    const char **kernels = FX_NEW_ARRAY(p->arena, const char *, d->n_launches + 1);
    for (size_t i = 0; i < d->n_launches; i++) {
        if (d->launches[i].call)
            return fx_fail(p->ctx, FX_ERR_UNSUPPORTED, &d->launches[i].step->loc, "layer '%s' needs the kernel %s, which device cuda does not have in memory yet",
                           d->launches[i].step->name, fx_kernel_get(d->launches[i].call->kernel)->name);
        kernels[i] = d->launches[i].kernel;
        most = d->launches[i].n_bufs > most ? d->launches[i].n_bufs : most;
    }
    const fx_nvrtc_source source = {.text = d->text, .n_kernels = d->n_launches, .kernels = kernels, .arch = arch, .cache = j->opt->cache,
                                   .cache_most = j->opt->cache_most};
    if (d->n_launches)
        FX_TRY(fx_nvrtc_build(p->ctx, p->arena, &source, &j->image));
    g->cached = j->image.cached;
    g->functions = FX_NEW_ARRAY(p->arena, fx_cu_function, d->n_launches + 1);
    g->staging = FX_NEW_ARRAY(p->arena, block, p->n_inputs + p->n_outputs + 1);
    g->room = FX_NEW_ARRAY(p->arena, uint64_t, 2 * p->n_slots + 1);
    g->offsets = FX_NEW_ARRAY(p->arena, uint64_t, p->n_bufs + 1);
    g->place = FX_NEW_ARRAY(p->arena, fx_cu_ptr, p->n_bufs + 1);
    g->arguments = FX_NEW_ARRAY(p->arena, void *, p->n_symbols + most + 3);
    g->sizes = FX_NEW_ARRAY(p->arena, ptrdiff_t, p->n_symbols + 1);
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
    free(j.image.data);
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
        const fx_cu_ptr memory[] = {g->weights, g->state, g->status, g->arena.at};
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
        if (g->module)
            g->D->ModuleUnload(g->module);
        g->D->CtxPopCurrent(&popped);
    }
    if (g->context)
        g->D->PrimaryCtxRelease(g->device);
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

/* ---- a call ------------------------------------------------------------------------------------------------------------------- */

typedef struct run {
    fx_gpu_code *g;
    const fx_gpu_call *call;
    fx_cu_stream stream;
    words w;
    bool wait;
} run;

/* Where input or output i lies for kernels: where the caller has it, or in memory of ours. */
static fx_status place_io(run *r, size_t i)
{
    fx_gpu_code *g = r->g;
    const fx_program *p = g->p;
    const bool in = i < p->n_inputs;
    const int buf = in ? p->inputs[i].buf : p->outputs[i - p->n_inputs].buf;
    void *const at = r->call->io[i];
    const uint64_t bytes = r->call->bytes[i];
    const fx_cu_ptr there = (fx_cu_ptr)(uintptr_t)at;
    const bool own = in ? p->bufs[buf].kind == FX_BUF_INPUT : p->bufs[buf].kind == FX_BUF_OUTPUT && p->bufs[buf].io == (int)(i - p->n_inputs);
    bool device = false;
    if (!bytes)
        return FX_OK;
    if ((device = on_device(g, at))) {
        int ordinal = g->ordinal;
        if (g->D->PointerGetAttribute(&ordinal, FX_CU_ORDINAL, there) == 0 && ordinal != g->ordinal)
            return fail(r->w, FX_ERR_ARGUMENT, "%s %zu '%s': expected memory of CUDA device %d, got memory of device %d", in ? "input" : "output",
                        in ? i : i - p->n_inputs, in ? p->inputs[i].label : p->outputs[i - p->n_inputs].label, g->ordinal, ordinal);
    }
    const bool moved = own && (!device || (g->device_code.by_sixteen && g->device_code.by_sixteen[buf] && there % 16 != 0));
    r->wait |= !device;
    if (moved) {
        FX_TRY(grow(g, r->w, &g->staging[i], bytes, "allocating memory for an input or output"));
        if (in)
            FX_TRY(check(g, r->w, device ? g->D->MemcpyDtoDAsync(g->staging[i].at, there, (size_t)bytes, r->stream)
                                         : g->D->MemcpyHtoDAsync(g->staging[i].at, at, (size_t)bytes, r->stream), "copying an input"));
    }
    if (own)
        g->place[buf] = moved ? g->staging[i].at : there;
    return FX_OK;
}

/* What came out of the call in memory of ours, to the caller's. */
static fx_status give_back(run *r, size_t i)
{
    fx_gpu_code *g = r->g;
    const fx_program *p = g->p;
    const bool in = i < p->n_inputs;
    const int buf = in ? p->inputs[i].buf : p->outputs[i - p->n_inputs].buf;
    const bool copied = !in && g->device_code.copied[i - p->n_inputs];
    void *const at = r->call->io[i];
    const fx_cu_ptr there = (fx_cu_ptr)(uintptr_t)at, from = g->place[buf];
    const size_t bytes = (size_t)r->call->bytes[i];
    if (!bytes || (in && !p->bufs[buf].changed) || (!copied && from == there))
        return FX_OK;
    const bool device = on_device(g, at);
    return check(g, r->w, device ? g->D->MemcpyDtoDAsync(there, from, bytes, r->stream) : g->D->MemcpyDtoHAsync(at, from, bytes, r->stream),
                 "copying an output");
}

static fx_status place_rest(run *r)
{
    fx_gpu_code *g = r->g;
    const fx_program *p = g->p;
    uint64_t size;
    if (!fx_program_places(p, r->call->symbols, g->room, &size, g->offsets))
        return fail(r->w, FX_ERR_ARGUMENT, "these inputs' sizes make values of more bytes than memory can have");
    FX_TRY(grow(g, r->w, &g->arena, size, "allocating the arena"));
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (b->kind == FX_BUF_ARENA)
            g->place[i] = g->arena.at + g->offsets[i];
        else if (b->kind == FX_BUF_STATE)
            g->place[i] = g->state + b->offset;
        else if (b->kind == FX_BUF_WEIGHT)
            g->place[i] = g->weights + g->device_code.weights_at[i];
    }
    for (size_t i = 0; i < p->n_symbols; i++)
        g->sizes[i] = (ptrdiff_t)r->call->symbols[i];
    return FX_OK;
}

static fx_status launch(run *r, size_t number)
{
    fx_gpu_code *g = r->g;
    const fx_device_launch *l = &g->device_code.launches[number];
    unsigned blocks[3];
    size_t n = 0;
    for (int a = 0; a < 3; a++) {
        int64_t v = 0;
        if (!fx_dim_eval(fx_program_symbols(g->p), r->call->symbols, l->blocks[a], &v) || v > INT32_MAX)
            return fail(r->w, FX_ERR_ARGUMENT, "step '%s': these inputs' sizes give it more work than a launch may have", l->step->name);
        if (v <= 0)
            return FX_OK;
        blocks[a] = (unsigned)v;
    }
    for (size_t i = 0; i < g->p->n_symbols; i++)
        if (l->symbols[i])
            g->arguments[n++] = &g->sizes[i];
    if (l->weights)
        g->arguments[n++] = &g->weights;
    for (size_t i = 0; i < l->n_bufs; i++)
        g->arguments[n++] = &g->place[l->bufs[i]];
    if (l->checks)
        g->arguments[n++] = &g->status;
    return check(g, r->w, g->D->LaunchKernel(g->functions[number], blocks[0], blocks[1], blocks[2], (unsigned)l->threads[0], (unsigned)l->threads[1],
                                             (unsigned)l->threads[2], 0, r->stream, g->arguments, NULL), l->kernel);
}

static bool may_fail(const fx_device_code *d)
{
    bool any = false;
    for (size_t i = 0; i < d->n_launches; i++)
        any |= d->launches[i].checks;
    return any;
}

static fx_status work(run *r)
{
    fx_gpu_code *g = r->g;
    const fx_program *p = g->p;
    const size_t n = p->n_inputs + p->n_outputs;
    const fx_gpu_call *c = r->call;
    int failed = 0;
    if (g->used && g->last != c->stream)
        FX_TRY(check(g, r->w, g->D->StreamWaitEvent(r->stream, g->done, 0), "waiting for the call before"));
    for (size_t i = 0; i < n; i++)
        FX_TRY(place_io(r, i));
    FX_TRY(place_rest(r));
    if (p->n_states)
        FX_TRY(check(g, r->w, g->D->MemcpyHtoDAsync(g->state, c->state, (size_t)p->state_size, r->stream), "copying the state"));
    for (size_t i = 0; i < g->device_code.n_launches; i++)
        FX_TRY(launch(r, i));
    for (size_t i = 0; i < n; i++)
        FX_TRY(give_back(r, i));
    if (p->n_states)
        FX_TRY(check(g, r->w, g->D->MemcpyDtoHAsync(c->state, g->state, (size_t)p->state_size, r->stream), "copying the state"));
    const bool checks = may_fail(&g->device_code);
    if (checks)
        FX_TRY(check(g, r->w, g->D->MemcpyDtoHAsync(&failed, g->status, sizeof failed, r->stream), "reading the status"));
    FX_TRY(check(g, r->w, g->D->EventRecord(g->done, r->stream), "noting the end"));
    g->last = c->stream;
    g->used = true;
    if (r->wait || checks || p->n_states)
        FX_TRY(check(g, r->w, g->D->StreamSynchronize(r->stream), "waiting"));
    if (!failed)
        return FX_OK;
    FX_TRY(check(g, r->w, g->D->MemsetD32Async(g->status, 0, 1, r->stream), "clearing the status"));
    const size_t reason = (size_t)failed - FX_FIRST_REASON;
    return fail(r->w, FX_ERR_ARGUMENT, "%s", reason < g->device_code.n_reasons ? g->device_code.reasons[reason] : "a check failed that the program does not have");
}

fx_status fx_gpu_run(fx_gpu_code *g, const fx_gpu_call *call, char *error, size_t error_size)
{
    run r = {.g = g, .call = call, .stream = call->stream, .w = {error, error_size}, .wait = call->wait};
    fx_cu_context popped;
    pthread_mutex_lock(&g->turn);
    fx_status status = check(g, r.w, g->D->CtxPushCurrent(g->context), "choosing the device");
    if (status == FX_OK) {
        status = work(&r);
        if (status != FX_OK) /* what is under way reads and writes what the caller may free */
            g->D->StreamSynchronize(r.stream);
        g->D->CtxPopCurrent(&popped);
    }
    pthread_mutex_unlock(&g->turn);
    return status;
}
