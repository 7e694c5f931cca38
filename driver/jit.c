/* driver/jit.c: a model compiled in memory: what a caller calls.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/names.h"
#include "driver/driver.h"
#include "fxcc/jit.h"
#include "jit/cache.h"
#include "jit/code.h"

/* Scratch memory of one call at a time. */
typedef struct scratch {
    struct scratch *next;
    void *arena;                 /* 64-byte aligned */
    uint64_t size;
    void **io;
} scratch;

struct fx_function {
    fx_context *ctx;
    fx_program *program;
    fx_code *code;
    const void **weights;
    fx_value_info *inputs, *outputs, *states;
    unsigned char *state;        /* what calls change and the next call reads; NULL: nothing */
    pthread_mutex_t turn;        /* calls that use it come one after another */
    uint64_t last_arena;
    pthread_mutex_t lock;        /* of free, last_arena, and of ctx when sizes are open or an error is put into words */
    scratch *free;
};

enum { ARENA_ALIGN = 64, MOST_SYMBOLS = 64 };

/* ---- compiling ------------------------------------------------------------------------------------------------------- */

static void describe(const fx_program *p, const fx_io *io, fx_value_info *v)
{
    *v = (fx_value_info){.name = io->label ? io->label : io->name, .dtype = io->dtype, .rank = io->rank, .changed = p->bufs[io->buf].changed};
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
    fx_compile_options c = {.threads = o->threads, .dims = o->dims, .n_dims = o->n_dims, .disable = o->disable};
    FX_TRY(fx_lower_quietly(job->graph, &c, &job->program));
    if (job->program->n_symbols > MOST_SYMBOLS)
        return fx_fail(ctx, FX_ERR_UNSUPPORTED, NULL, "%zu open sizes: at most %d are supported", job->program->n_symbols, MOST_SYMBOLS);
    *code = (fx_code_options){.level = o->level ? o->level : 1, .threads = c.threads ? c.threads : 8, .cache_most = o->cache_most ? o->cache_most : UINT64_C(1) << 30};
    char folder[4096];
    if (o->cache ? *o->cache != 0 : fx_cache_folder(folder, sizeof folder))
        code->cache = fx_intern(ctx, o->cache ? o->cache : folder);
    const char *debug = o->debug ? o->debug : getenv("FXCC_JIT_DEBUG"), *perf = getenv("FXCC_PERF");
    code->perf = o->perf || (perf && strcmp(perf, "1") == 0);
    if (!debug || !*debug)
        return FX_OK;
    code->cache = NULL; /* where the text lies is in the object */
    return write_listing(job, debug, code);
}

static fx_status compile(void *user)
{
    compile_job *job = user;
    fx_code_options code;
    FX_TRY(lower(job, &code));
    fx_program *p = job->program;
    fx_function *f = job->f;
    FX_TRY(fx_code_compile(p, &code, &f->code));
    f->ctx = p->ctx;
    f->program = p;
    size_t n = 0;
    f->weights = FX_NEW_ARRAY(p->arena, const void *, p->n_bufs + 1);
    for (size_t i = 0; i < p->n_bufs; i++)
        if (p->bufs[i].kind == FX_BUF_WEIGHT)
            f->weights[n++] = p->bufs[i].data;
    f->inputs = FX_NEW_ARRAY(p->arena, fx_value_info, p->n_inputs + 1);
    f->outputs = FX_NEW_ARRAY(p->arena, fx_value_info, p->n_outputs + 1);
    f->states = FX_NEW_ARRAY(p->arena, fx_value_info, p->n_states + 1);
    for (size_t i = 0; i < p->n_inputs; i++)
        describe(p, &p->inputs[i], &f->inputs[i]);
    for (size_t i = 0; i < p->n_outputs; i++)
        describe(p, &p->outputs[i], &f->outputs[i]);
    for (size_t i = 0; i < p->n_states; i++)
        describe(p, &p->states[i], &f->states[i]);
    if (p->n_states) {
        f->state = aligned_alloc(ARENA_ALIGN, (size_t)(p->state_size + ARENA_ALIGN) / ARENA_ALIGN * ARENA_ALIGN);
        if (!f->state)
            fx_out_of_memory(p->ctx);
        fx_function_reset(f);
    }
    return FX_OK;
}

fx_status fx_jit_compile(fx_graph *graph, const fx_jit_options *options, fx_function **function)
{
    static const fx_jit_options defaults = {0};
    compile_job job = {.graph = graph, .options = options ? options : &defaults, .f = calloc(1, sizeof(fx_function))};
    if (!job.f)
        return fx_fail(graph->ctx, FX_ERR_NOMEM, NULL, "out of memory");
    pthread_mutex_init(&job.f->lock, NULL);
    pthread_mutex_init(&job.f->turn, NULL);
    fx_status status = fx_protect(graph->ctx, compile, &job);
    if (status == FX_OK) {
        *function = job.f;
        return FX_OK;
    }
    job.f->program = job.program;
    fx_write_undo(&job.listing);
    fx_function_free(job.f);
    return status;
}

static fx_status emit(void *user)
{
    compile_job *job = user;
    static const fx_code_form forms[] = {FX_CODE_LLVM, FX_CODE_ASM, FX_CODE_OBJECT}; /* by fx_jit_form */
    fx_code_options code;
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
    static const fx_jit_options defaults = {0};
    fx_text text;
    compile_job job = {.graph = graph, .options = options ? options : &defaults, .form = form, .text = &text};
    fx_status status = fx_protect(graph->ctx, emit, &job);
    if (status != FX_OK)
        fx_write_undo(&job.listing);
    if (job.program)
        fx_arena_free(job.program->arena);
    if (status == FX_OK) {
        *data = text.data;
        *size = text.size;
    }
    return status;
}

static void free_scratch(scratch *s)
{
    free(s->arena);
    free(s->io);
    free(s);
}

void fx_function_free(fx_function *f)
{
    if (!f)
        return;
    for (scratch *s = f->free, *next; s; s = next) {
        next = s->next;
        free_scratch(s);
    }
    fx_code_free(f->code);
    if (f->program)
        fx_arena_free(f->program->arena);
    free(f->state);
    pthread_mutex_destroy(&f->lock);
    pthread_mutex_destroy(&f->turn);
    free(f);
}

/* ---- looking at it ------------------------------------------------------------------------------------------------------ */

size_t fx_function_input_count(const fx_function *f)
{
    return f->program->n_inputs;
}

size_t fx_function_output_count(const fx_function *f)
{
    return f->program->n_outputs;
}

const fx_value_info *fx_function_input(const fx_function *f, size_t i)
{
    return i < f->program->n_inputs ? &f->inputs[i] : NULL;
}

const fx_value_info *fx_function_output(const fx_function *f, size_t i)
{
    return i < f->program->n_outputs ? &f->outputs[i] : NULL;
}

size_t fx_function_state_count(const fx_function *f)
{
    return f->program->n_states;
}

const fx_value_info *fx_function_state(const fx_function *f, size_t i, fx_tensor *value)
{
    if (i >= f->program->n_states)
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
    fx_program_init_state(f->program, f->state);
}

void fx_function_memory(const fx_function *f, uint64_t *arena, uint64_t *weights)
{
    *arena = f->program->n_symbols ? f->last_arena : f->program->arena_size;
    *weights = f->program->weights_size;
}

bool fx_function_cached(const fx_function *f)
{
    return fx_code_cached(f->code);
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

/* ---- calling -------------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static fx_status fail(fx_status status, char *error, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (error && size)
        vsnprintf(error, size, fmt, ap);
    va_end(ap);
    return status;
}

typedef struct values_args {
    fx_function *f;
    size_t n;
    const fx_tensor *in;
    int64_t *values;
} values_args;

static fx_status find_values(void *user)
{
    values_args *a = user;
    return fx_program_values(a->f->program, a->n, a->in, a->values);
}

/* Whether inputs are of the types and fixed sizes of the function: the path of every good call of a model without open sizes. */
static bool fits(const fx_function *f, size_t n, const fx_tensor *in)
{
    if (n != f->program->n_inputs || f->program->n_symbols)
        return false;
    for (size_t i = 0; i < n; i++) {
        const fx_value_info *v = &f->inputs[i];
        if (in[i].dtype != v->dtype || in[i].rank != v->rank)
            return false;
        for (int d = 0; d < v->rank; d++)
            if (in[i].sizes[d] != v->min[d])
                return false;
    }
    return true;
}

/* Checks inputs, and finds the symbols' values. The context puts an error into words, one thread at a time. */
static fx_status check_inputs(fx_function *f, size_t n, const fx_tensor *in, int64_t *values, char *error, size_t size)
{
    if (fits(f, n, in))
        return FX_OK;
    if (n != f->program->n_inputs)
        return fail(FX_ERR_ARGUMENT, error, size, "expected %zu inputs, got %zu", f->program->n_inputs, n);
    values_args a = {f, n, in, values};
    pthread_mutex_lock(&f->lock);
    size_t before = fx_diag_count(f->ctx);
    fx_status status = fx_protect(f->ctx, find_values, &a);
    if (status != FX_OK && error && size) {
        const fx_diag *d = fx_diag_get(f->ctx, before);
        snprintf(error, size, "%s", d && d->message ? d->message : fx_status_string(status));
    }
    fx_diag_truncate(f->ctx, before);
    pthread_mutex_unlock(&f->lock);
    return status;
}

static bool output_sizes(const fx_function *f, const int64_t *values, size_t i, int64_t *sizes)
{
    const fx_io *io = &f->program->outputs[i];
    for (int d = 0; d < io->rank; d++)
        if (!fx_dim_eval(fx_program_symbols(f->program), values, io->dims[d], &sizes[d]))
            return false;
    return true;
}

fx_status fx_function_outputs(fx_function *f, size_t n_in, const fx_tensor *in, size_t n_out, fx_tensor *out, char *error, size_t error_size)
{
    int64_t values[MOST_SYMBOLS];
    if (n_out != f->program->n_outputs)
        return fail(FX_ERR_ARGUMENT, error, error_size, "expected %zu outputs, got %zu", f->program->n_outputs, n_out);
    FX_TRY(check_inputs(f, n_in, in, values, error, error_size));
    for (size_t i = 0; i < n_out; i++) {
        int64_t sizes[FX_MAX_RANK], stride = 1;
        if (!output_sizes(f, values, i, sizes))
            return fail(FX_ERR_ARGUMENT, error, error_size, "the sizes of output %zu do not fit 64 bits", i);
        out[i].dtype = f->outputs[i].dtype;
        out[i].rank = f->outputs[i].rank;
        for (int d = out[i].rank - 1; d >= 0; d--) {
            out[i].sizes[d] = sizes[d];
            out[i].strides[d] = stride;
            stride *= sizes[d] > 0 ? sizes[d] : 1;
        }
    }
    return FX_OK;
}

static fx_status check_outputs(const fx_function *f, const int64_t *values, size_t n, const fx_tensor *out, char *error, size_t size)
{
    if (n != f->program->n_outputs)
        return fail(FX_ERR_ARGUMENT, error, size, "expected %zu outputs, got %zu", f->program->n_outputs, n);
    for (size_t i = 0; i < n; i++) {
        const fx_value_info *v = &f->outputs[i];
        int64_t sizes[FX_MAX_RANK], numel = 1;
        if (!output_sizes(f, values, i, sizes))
            return fail(FX_ERR_ARGUMENT, error, size, "the sizes of output %zu do not fit 64 bits", i);
        if (out[i].dtype != v->dtype || out[i].rank != v->rank)
            return fail(FX_ERR_ARGUMENT, error, size, "output %zu '%s': expected %s of rank %d, got %s of rank %d", i, v->name, fx_dtype_name(v->dtype),
                        v->rank, (unsigned)out[i].dtype < FX_DTYPE_COUNT ? fx_dtype_name(out[i].dtype) : "no dtype", out[i].rank);
        for (int d = 0; d < v->rank; d++) {
            if (out[i].sizes[d] != sizes[d])
                return fail(FX_ERR_ARGUMENT, error, size, "output %zu '%s': expected size %lld of dim %d, got %lld", i, v->name, (long long)sizes[d], d,
                            (long long)out[i].sizes[d]);
            numel *= sizes[d];
        }
        if (numel && !fx_tensor_is_contiguous(&out[i]))
            return fail(FX_ERR_ARGUMENT, error, size, "output %zu '%s': expected dense strides", i, v->name);
        if (numel && !out[i].data)
            return fail(FX_ERR_ARGUMENT, error, size, "output %zu '%s': its data is NULL", i, v->name);
    }
    return FX_OK;
}

/* Memory for a call: of an earlier one, or new. NULL: there is none. */
static scratch *take_scratch(fx_function *f, uint64_t size)
{
    pthread_mutex_lock(&f->lock);
    scratch *s = f->free;
    if (s)
        f->free = s->next;
    f->last_arena = size;
    pthread_mutex_unlock(&f->lock);
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s)
            return NULL;
        s->io = calloc(f->program->n_inputs + f->program->n_outputs + 1, sizeof *s->io);
    }
    if (!s->arena || s->size < size) {
        free(s->arena);
        s->size = (size + ARENA_ALIGN) / ARENA_ALIGN * ARENA_ALIGN;
        s->arena = aligned_alloc(ARENA_ALIGN, s->size);
    }
    if (!s->io || !s->arena) {
        free_scratch(s);
        return NULL;
    }
    return s;
}

static void give_scratch(fx_function *f, scratch *s)
{
    pthread_mutex_lock(&f->lock);
    s->next = f->free;
    f->free = s;
    pthread_mutex_unlock(&f->lock);
}

/* The elements of a strided tensor to a dense block; back: from it. */
static void gather(const fx_tensor *t, int dim, char *strided, char **dense, bool back)
{
    size_t bytes = fx_dtype_size(t->dtype);
    if (dim == t->rank) {
        memcpy(back ? strided : *dense, back ? *dense : strided, bytes);
        *dense += bytes;
        return;
    }
    for (int64_t i = 0; i < t->sizes[dim]; i++)
        gather(t, dim + 1, strided + i * t->strides[dim] * (int64_t)bytes, dense, back);
}

/* The text of the CHECK with this number. */
static const char *check_text(const fx_stmt *s, int32_t *number)
{
    const char *text = NULL;
    for (; s && !text; s = s->next) {
        if (s->kind == FX_ST_CHECK && --*number == 0)
            return s->text ? s->text : "index";
        text = check_text(s->body, number);
    }
    return text;
}

static fx_status check_failed(const fx_function *f, int32_t number, char *error, size_t size)
{
    for (size_t i = 0; i < f->program->n_steps; i++) {
        const char *text = check_text(f->program->steps[i].body, &number);
        if (text)
            return fail(FX_ERR_ARGUMENT, error, size, "step '%s': %s: out of range", f->program->steps[i].name, text);
    }
    return fail(FX_INTERNAL, error, size, "a check failed that the program does not have");
}

fx_status fx_function_call(fx_function *f, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error, size_t error_size)
{
    int64_t values[MOST_SYMBOLS];
    FX_TRY(check_inputs(f, n_in, in, values, error, error_size));
    FX_TRY(check_outputs(f, values, n_out, out, error, error_size));
    scratch *s = take_scratch(f, fx_code_arena_size(f->code, values));
    if (!s)
        return fail(FX_ERR_NOMEM, error, error_size, "out of memory");
    fx_status status = FX_OK;
    bool copied = false; /* some input was */
    for (size_t i = 0; i < n_in; i++)
        s->io[i] = in[i].data;
    for (size_t i = 0; i < n_in && status == FX_OK; i++) {
        int64_t numel = fx_tensor_numel(&in[i]);
        if (numel && !in[i].data) {
            status = fail(FX_ERR_ARGUMENT, error, error_size, "input %zu '%s': its data is NULL", i, f->inputs[i].name);
        } else if (numel && !fx_tensor_is_contiguous(&in[i])) {
            char *dense = malloc((size_t)numel * fx_dtype_size(in[i].dtype)), *end = dense;
            if (!dense) {
                status = fail(FX_ERR_NOMEM, error, error_size, "out of memory");
                break;
            }
            gather(&in[i], 0, in[i].data, &end, false);
            s->io[i] = dense;
            copied = true;
        }
    }
    for (size_t i = 0; i < n_out; i++)
        s->io[n_in + i] = out[i].data;
    if (status == FX_OK) {
        if (f->state)
            pthread_mutex_lock(&f->turn);
        int32_t failed = fx_code_run(f->code, s->io, f->weights, s->arena, f->state, values);
        if (f->state)
            pthread_mutex_unlock(&f->turn);
        if (failed)
            status = check_failed(f, failed, error, error_size);
    }
    for (size_t i = 0; copied && i < n_in; i++)
        if (s->io[i] != in[i].data) {
            char *dense = s->io[i];
            if (status == FX_OK && f->inputs[i].changed)
                gather(&in[i], 0, in[i].data, &dense, true);
            free(s->io[i]);
        }
    give_scratch(f, s);
    return status;
}
