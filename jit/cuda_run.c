/* jit/cuda_run.c: calls of a loop program on a device: launches one after another on the caller's stream, and memory around them.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "jit/cuda_inner.h"

/* ---- memory --------------------------------------------------------------------------------------------------------------- */

static fx_status allocate(const fx_gpu_code *g, fx_words w, uint64_t size, const char *what, fx_cu_ptr *at)
{
    return size ? fx_gpu_check(g, w, g->D->MemAlloc(at, (size_t)size), what) : FX_OK;
}

static fx_status grow(const fx_gpu_code *g, fx_words w, fx_gpu_block *b, uint64_t size, const char *what)
{
    if (b->size >= size)
        return FX_OK;
    if (b->at)
        g->D->MemFree(b->at); /* waits for what uses it */
    *b = (fx_gpu_block){0, 0};
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

/* ---- a call ------------------------------------------------------------------------------------------------------------------- */

typedef struct run {
    fx_gpu_code *g;
    const fx_gpu_call *call;
    fx_cu_stream stream;
    fx_words w;
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
    if (own)
        g->place[buf] = 0;
    if (!bytes)
        return FX_OK;
    if ((device = on_device(g, at))) {
        int ordinal = g->ordinal;
        if (g->D->PointerGetAttribute(&ordinal, FX_CU_ORDINAL, there) == 0 && ordinal != g->ordinal)
            return fx_fail_in(r->w, FX_ERR_ARGUMENT, "%s %zu '%s': expected memory of CUDA device %d, got memory of device %d", in ? "input" : "output",
                        in ? i : i - p->n_inputs, in ? p->inputs[i].label : p->outputs[i - p->n_inputs].label, g->ordinal, ordinal);
    }
    const bool moved = own && (!device || (g->device_code.by_sixteen && g->device_code.by_sixteen[buf] && there % 16 != 0));
    r->wait |= !device;
    if (moved) {
        FX_TRY(grow(g, r->w, &g->staging[i], bytes, "allocating memory for an input or output"));
        if (in)
            FX_TRY(fx_gpu_check(g, r->w, device ? g->D->MemcpyDtoDAsync(g->staging[i].at, there, (size_t)bytes, r->stream)
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
    return fx_gpu_check(g, r->w, device ? g->D->MemcpyDtoDAsync(there, from, bytes, r->stream) : g->D->MemcpyDtoHAsync(at, from, bytes, r->stream),
                 "copying an output");
}

static fx_status place_rest(run *r)
{
    fx_gpu_code *g = r->g;
    const fx_program *p = g->p;
    uint64_t size;
    if (!fx_program_places(p, r->call->symbols, g->room, &size, g->offsets))
        return fx_fail_in(r->w, FX_ERR_ARGUMENT, "these inputs' sizes make values of more bytes than memory can have");
    FX_TRY(grow(g, r->w, &g->arena, size, "allocating the arena"));
    for (size_t i = 0; i < p->n_bufs; i++) {
        const fx_buf *b = &p->bufs[i];
        if (b->kind == FX_BUF_ARENA)
            g->place[i] = g->arena.at + g->offsets[i];
        else if (b->kind == FX_BUF_STATE)
            g->place[i] = g->state + b->offset;
        else if (b->kind == FX_BUF_COUNTER)
            g->place[i] = g->counters + b->offset;
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
    if (l->call)
        return fx_gpu_call_step(g, r->w, number, r->call->symbols, r->stream, false);
    size_t n = 0;
    for (int a = 0; a < 3; a++) {
        int64_t v = 0;
        if (!fx_dim_eval(fx_program_symbols(g->p), r->call->symbols, l->blocks[a], &v) || v > INT32_MAX)
            return fx_fail_in(r->w, FX_ERR_ARGUMENT, "step '%s': these inputs' sizes give it more work than a launch may have", l->step->name);
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
    return fx_gpu_check(g, r->w, g->D->LaunchKernel(g->functions[number], blocks[0], blocks[1], blocks[2], (unsigned)l->threads[0], (unsigned)l->threads[1],
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
        FX_TRY(fx_gpu_check(g, r->w, g->D->StreamWaitEvent(r->stream, g->done, 0), "waiting for the call before"));
    for (size_t i = 0; i < n; i++)
        FX_TRY(place_io(r, i));
    FX_TRY(place_rest(r));
    if (p->n_states)
        FX_TRY(fx_gpu_check(g, r->w, g->D->MemcpyHtoDAsync(g->state, c->state, (size_t)p->state_size, r->stream), "copying the state"));
    for (size_t i = 0; i < g->device_code.n_launches; i++)
        FX_TRY(launch(r, i));
    for (size_t i = 0; i < n; i++)
        FX_TRY(give_back(r, i));
    if (p->n_states)
        FX_TRY(fx_gpu_check(g, r->w, g->D->MemcpyDtoHAsync(c->state, g->state, (size_t)p->state_size, r->stream), "copying the state"));
    const bool checks = may_fail(&g->device_code);
    if (checks)
        FX_TRY(fx_gpu_check(g, r->w, g->D->MemcpyDtoHAsync(&failed, g->status, sizeof failed, r->stream), "reading the status"));
    FX_TRY(fx_gpu_check(g, r->w, g->D->EventRecord(g->done, r->stream), "noting the end"));
    g->last = c->stream;
    g->used = true;
    if (r->wait || checks || p->n_states)
        FX_TRY(fx_gpu_check(g, r->w, g->D->StreamSynchronize(r->stream), "waiting"));
    if (!failed)
        return FX_OK;
    FX_TRY(fx_gpu_check(g, r->w, g->D->MemsetD32Async(g->status, 0, 1, r->stream), "clearing the status"));
    const size_t reason = (size_t)failed - FX_FIRST_REASON;
    return fx_fail_in(r->w, FX_ERR_ARGUMENT, "%s", reason < g->device_code.n_reasons ? g->device_code.reasons[reason] : "a check failed that the program does not have");
}

fx_status fx_gpu_run(fx_gpu_code *g, const fx_gpu_call *call, char *error, size_t error_size)
{
    run r = {.g = g, .call = call, .stream = call->stream, .w = {error, error_size}, .wait = call->wait};
    fx_cu_context popped;
    pthread_mutex_lock(&g->turn);
    fx_status status = fx_gpu_check(g, r.w, g->D->CtxPushCurrent(g->context), "choosing the device");
    if (status == FX_OK) {
        status = work(&r);
        if (status != FX_OK) /* what is under way reads and writes what the caller may free */
            g->D->StreamSynchronize(r.stream);
        g->D->CtxPopCurrent(&popped);
    }
    pthread_mutex_unlock(&g->turn);
    return status;
}
