/* driver/jit.c: a model compiled in memory: compiling it and looking at it. jit_call.c calls it.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/names.h"
#include "driver/jit.h"
#include "jit/cache.h"

/* ---- compiling ------------------------------------------------------------------------------------------------------- */

/* What a caller is told of an input, an output or a buffer that is kept. */
static void describe(const fx_program *p, fx_io *io, fx_value_info *v)
{
    const char *name = io->label ? io->label : io->name;
    io->label = fx_arena_dup(p->arena, name, strlen(name) + 1); /* of the program: the graph it was of may go */
    *v = (fx_value_info){.name = io->label, .dtype = io->dtype, .rank = io->rank, .changed = p->bufs[io->buf].changed};
    for (int d = 0; d < io->rank; d++)
        fx_dim_bounds(fx_program_symbols(p), io->dims[d], &v->min[d], &v->max[d]);
}

typedef struct compile_job {
    fx_graph *graph;
    const fx_jit_options *options;
    fx_function *f;
    fx_program *program;
    fx_write listing;
    fx_jit_form form;
    fx_text *text;
} compile_job;

/* The program's text, where debuggers find it. */
static fx_status write_listing(compile_job *job, const char *folder, fx_code_options *code)
{
    fx_program *p = job->program;
    char model[FX_IDENT_MAX + 1], whole[PATH_MAX];
    fx_ident(model, p->name ? p->name : "", FX_IDENT_MAX, "model");
    fx_text text;
    fx_text_init(&text, p->arena);
    fx_program_print(&text, p);
    const fx_file file = {.name = fx_arena_printf(p->arena, "%s.prog", model), .data = text.data, .size = text.size};
    FX_TRY(fx_write_files(p->ctx, folder, 1, &file, &job->listing));
    code->listing = fx_arena_printf(p->arena, "%s/%s", realpath(folder, whole) ? whole : folder, file.name);
    return FX_OK;
}

static fx_status lower(compile_job *job, fx_code_options *code)
{
    const fx_jit_options *o = job->options;
    fx_context *ctx = job->graph->ctx;
    if (o->level < 0 || o->level > 3)
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "level: expected 0 to 3, got %d", o->level);
    if (o->threads < 0)
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "threads: expected at least 0, got %d", o->threads);
    fx_compile_options c = {.threads = o->threads, .dims = o->dims, .n_dims = o->n_dims, .disable = o->disable, .target = o->device ? "cuda" : NULL};
    if (o->device) /* all launches are on one stream */
        c.disable = fx_arena_printf(fx_context_arena(ctx), o->disable && *o->disable ? "streams,%s" : "streams", o->disable);
    FX_TRY(fx_lower_quietly(job->graph, &c, &job->program));
    if (job->program->n_symbols > FX_FUNCTION_SYMBOLS)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, NULL, "%zu open sizes: at most %d are supported", job->program->n_symbols, FX_FUNCTION_SYMBOLS);
    *code = (fx_code_options){.level = o->level ? o->level : 1, .threads = c.threads ? c.threads : 8, .cache_most = o->cache_most ? o->cache_most : UINT64_C(1) << 30};
    char folder[4096];
    if (o->cache ? *o->cache != 0 : fx_cache_folder(folder, sizeof folder))
        code->cache = fx_intern(ctx, o->cache ? o->cache : folder);
    const char *debug = o->debug ? o->debug : getenv("FXCC_JIT_DEBUG"), *perf = getenv("FXCC_PERF");
    code->perf = o->perf || (perf && strcmp(perf, "1") == 0);
    if (!debug || !*debug || o->device)
        return FX_OK;
    code->cache = NULL; /* where the text lies is in the object */
    return write_listing(job, debug, code);
}

/* The number in "cuda" (0) and "cuda:N". */
static fx_status parse_device(fx_context *ctx, const char *device, int *number)
{
    char *end = NULL;
    long n = strncmp(device, "cuda:", 5) == 0 && device[5] >= '0' && device[5] <= '9' ? strtol(device + 5, &end, 10) : 0;
    if (end ? *end != 0 || n > INT_MAX : strcmp(device, "cuda") != 0)
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "device: expected 'cuda' or 'cuda:N', got '%s'", device);
    *number = (int)n;
    return FX_OK;
}

static fx_status compile_for_device(compile_job *job, const fx_code_options *code)
{
    fx_gpu_options gpu = {.cache = code->cache, .cache_most = code->cache_most};
    FX_TRY(parse_device(job->graph->ctx, job->options->device, &gpu.device));
    return fx_gpu_compile(job->program, &gpu, &job->f->gpu);
}

static fx_status compile(void *user)
{
    compile_job *job = user;
    fx_code_options code;
    FX_TRY(lower(job, &code));
    fx_program *p = job->program;
    fx_function *f = job->f;
    FX_TRY(job->options->device ? compile_for_device(job, &code) : fx_code_compile(p, &code, &f->code));
    f->lease = fx_context_lease(p->ctx);
    f->program = p;
    fx_program_open_sizes(p, p->arena, &f->open);
    size_t n = 0;
    f->weights = FX_NEW_ARRAY(p->arena, const void *, p->n_bufs + 1);
    for (size_t i = 0; i < p->n_bufs; i++)
        if (p->bufs[i].kind == FX_BUF_WEIGHT)
            f->weights[n++] = p->bufs[i].data;
    f->inputs = FX_NEW_ARRAY(p->arena, fx_value_info, p->n_inputs + 1);
    f->outputs = FX_NEW_ARRAY(p->arena, fx_value_info, p->n_outputs + 1);
    f->states = FX_NEW_ARRAY(p->arena, fx_value_info, p->n_states + 1);
    f->expected = FX_NEW_ARRAY(p->arena, const char *, p->n_inputs + 1);
    for (size_t i = 0; i < p->n_inputs; i++) {
        fx_text expected;
        describe(p, &p->inputs[i], &f->inputs[i]);
        fx_text_init(&expected, p->arena);
        fx_io_put(&expected, p, &p->inputs[i]);
        f->expected[i] = expected.data;
    }
    for (size_t i = 0; i < p->n_outputs; i++)
        describe(p, &p->outputs[i], &f->outputs[i]);
    for (size_t i = 0; i < p->n_states; i++)
        describe(p, &p->states[i], &f->states[i]);
    if (p->n_states) {
        f->state = fx_aligned_alloc((size_t)p->state_size);
        if (!f->state)
            fx_out_of_memory(p->ctx);
        fx_program_init_state(p, f->state);
    }
    return FX_OK;
}

/* Runs a job; what it makes of memory goes to own, which is made for it. */
static fx_status run_job(compile_job *job, fx_status (*fn)(void *), fx_context **own)
{
    fx_context *ctx = job->graph->ctx;
    *own = fx_context_create_like(ctx);
    if (!*own)
        return fx_fail(ctx, FX_ERR_NOMEM, NULL, "out of memory");
    uint64_t since = fx_context_serial(ctx);
    fx_status status = fx_protect(ctx, fn, job);
    if (status != FX_OK)
        fx_write_undo(&job->listing);
    fx_context_move(ctx, since, *own);
    return status;
}

/* What only compiling needed: copies of the graph, weights before they were folded or packed. */
static void drop_unused(fx_function *f)
{
    const fx_program *p = f->program;
    size_t n = 0;
    const void **used = malloc((p->n_bufs + 1) * sizeof *used);
    fx_context_keep(f->own, p->arena);
    for (size_t i = 0; used && i < p->n_bufs; i++)
        if (p->bufs[i].data)
            used[n++] = p->bufs[i].data;
    if (used)
        fx_context_keep_storages(f->own, n, used);
    free(used);
}

static const fx_jit_options defaults = {0};

typedef struct compile_start {
    compile_job *job;
    fx_status status;
} compile_start;

/* While libLLVM loads, the model is lowered. */
static void compile_in_threads(void *user, int thread)
{
    compile_start *s = user;
    if (thread == 0)
        s->status = run_job(s->job, compile, &s->job->f->own);
    else
        fx_code_prepare();
}

fx_status fx_jit_compile(fx_graph *graph, const fx_jit_options *options, fx_function **function)
{
    if (!graph)
        return FX_ERR_ARGUMENT; /* there is no context that could say more */
    if (!function)
        return fx_fail(graph->ctx, FX_ERR_ARGUMENT, NULL, "function: expected where to put the compiled function, got NULL");
    compile_job job = {.graph = graph, .options = options ? options : &defaults, .f = calloc(1, sizeof(fx_function))};
    if (!job.f)
        return fx_fail(graph->ctx, FX_ERR_NOMEM, NULL, "out of memory");
    pthread_mutex_init(&job.f->lock, NULL);
    pthread_mutex_init(&job.f->turn, NULL);
    job.f->magic = FX_FUNCTION_LIVE;
    compile_start start = {.job = &job};
    fx_in_parallel(!job.options->device && job.options->threads != 1 && !fx_code_is_prepared() && fx_processors() > 1 ? 2 : 1, compile_in_threads, &start);
    if (start.status != FX_OK) {
        fx_function_free(job.f);
        return start.status;
    }
    drop_unused(job.f);
    *function = job.f;
    return FX_OK;
}

static fx_status emit(void *user)
{
    compile_job *job = user;
    static const fx_code_form forms[] = {FX_CODE_LLVM, FX_CODE_ASM, FX_CODE_OBJECT}; /* by fx_jit_form */
    fx_code_options code;
    if (job->options->device)
        return fx_fail(job->graph->ctx, FX_ERR_ARGUMENT, NULL, "device: expected none, got '%s': LLVM's forms are of code for this machine's processor", job->options->device);
    if ((size_t)job->form >= sizeof forms / sizeof forms[0])
        return fx_fail(job->graph->ctx, FX_ERR_ARGUMENT, NULL, "form: expected a value of fx_jit_form, got %d", (int)job->form);
    const char *name = job->options->name;
    if (name && (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] || (*name >= '0' && *name <= '9') ||
                 fx_ident_reserved(name) || strncmp(name, "fxrt_", 5) == 0 || strcmp(name, "fxjit_parallel") == 0))
        return fx_fail(job->graph->ctx, FX_ERR_ARGUMENT, NULL, "name: expected an identifier of C that nothing else has, got '%s'", name);
    FX_TRY(lower(job, &code));
    fx_text_init(job->text, fx_context_arena(job->graph->ctx));
    code.name = name;
    return fx_code_emit(job->program, &code, forms[job->form], job->text);
}

fx_status fx_jit_emit(fx_graph *graph, const fx_jit_options *options, fx_jit_form form, const char **data, size_t *size)
{
    fx_text text;
    fx_context *own;
    compile_job job = {.graph = graph, .options = options ? options : &defaults, .form = form, .text = &text};
    fx_status status = run_job(&job, emit, &own);
    fx_context_free(own);
    if (status == FX_OK) {
        *data = text.data;
        *size = text.size;
    }
    return status;
}

void fx_function_free(fx_function *f)
{
    if (!f || f->magic != FX_FUNCTION_LIVE)
        return;
    f->magic = FX_FUNCTION_FREED;
    for (fx_scratch *s = f->free, *next; s; s = next) {
        next = s->next;
        fx_scratch_free(s);
    }
    fx_code_free(f->code);
    fx_gpu_free(f->gpu);
    fx_context_free(f->own);
    fx_lease_end(f->lease);
    free(f->state);
    pthread_mutex_destroy(&f->lock);
    pthread_mutex_destroy(&f->turn);
    free(f);
}

/* ---- looking at it ------------------------------------------------------------------------------------------------------ */

const char *fx_function_fault(const fx_function *f)
{
    if (!f)
        return "expected a function, got NULL";
    if (f->magic != FX_FUNCTION_LIVE)
        return f->magic == FX_FUNCTION_FREED ? "the function was freed" : "expected a function, got something else";
    return fx_lease_over(f->lease) ? "the context that the function was compiled in was freed" : NULL;
}

size_t fx_function_input_count(const fx_function *f)
{
    return fx_function_fault(f) ? 0 : f->program->n_inputs;
}

size_t fx_function_output_count(const fx_function *f)
{
    return fx_function_fault(f) ? 0 : f->program->n_outputs;
}

const fx_value_info *fx_function_input(const fx_function *f, size_t i)
{
    return i < fx_function_input_count(f) ? &f->inputs[i] : NULL;
}

const fx_value_info *fx_function_output(const fx_function *f, size_t i)
{
    return i < fx_function_output_count(f) ? &f->outputs[i] : NULL;
}

size_t fx_function_state_count(const fx_function *f)
{
    return fx_function_fault(f) ? 0 : f->program->n_states;
}

const fx_value_info *fx_function_state(const fx_function *f, size_t i, fx_tensor *value)
{
    if (i >= fx_function_state_count(f))
        return NULL;
    const fx_value_info *v = &f->states[i];
    int64_t stride = 1;
    *value = (fx_tensor){.dtype = v->dtype, .rank = v->rank, .data = f->state + f->program->bufs[f->program->states[i].buf].offset};
    for (int d = v->rank; d-- > 0; stride *= v->min[d]) {
        value->sizes[d] = v->min[d];
        value->strides[d] = stride;
    }
    return v;
}

void fx_function_reset(fx_function *f)
{
    if (fx_function_state_count(f))
        fx_program_init_state(f->program, f->state);
}

void fx_function_memory(const fx_function *function, uint64_t *arena, uint64_t *weights)
{
    fx_function *f = (fx_function *)(uintptr_t)function; /* its lock */
    *arena = *weights = 0;
    if (fx_function_fault(f))
        return;
    pthread_mutex_lock(&f->lock);
    *arena = !f->program->n_symbols ? f->program->arena_size : f->gpu ? fx_gpu_arena_size(f->gpu) : f->last_arena;
    pthread_mutex_unlock(&f->lock);
    *weights = f->program->weights_size;
}

bool fx_function_cached(const fx_function *f)
{
    return !fx_function_fault(f) && (f->gpu ? fx_gpu_cached(f->gpu) : fx_code_took(f->code).cached);
}

int fx_function_device(const fx_function *f)
{
    return fx_function_fault(f) || !f->gpu ? -1 : fx_gpu_device(f->gpu);
}

fx_status fx_jit_cache(fx_context *ctx, const char *folder, bool clear, fx_jit_cache_info *info, char *path, size_t path_size)
{
    char own[4096];
    if (folder && strlen(folder) < sizeof own)
        strcpy(own, folder);
    else if (folder || !fx_cache_folder(own, sizeof own))
        return fx_fail(ctx, FX_ERR_ARGUMENT, NULL, "there is no folder for compiled models: neither $FXCC_CACHE, $XDG_CACHE_HOME nor $HOME names one");
    fx_cache_info seen = fx_cache_look(own, clear);
    *info = (fx_jit_cache_info){seen.entries, seen.bytes};
    if (path && path_size)
        snprintf(path, path_size, "%s", own);
    return FX_OK;
}
