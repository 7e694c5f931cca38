/* driver/jit_call.c: calls of compiled models: what comes in is checked, copied where the code could not read it, and run on.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/jit.h"

/* How a call was made. */
typedef struct called {
    fx_words w;
    void *stream;                /* CUstream */
    bool on_stream;              /* the caller's: the call need not wait */
} called;

static fx_status no_memory(fx_words w, uint64_t bytes)
{
    return fx_fail_in(w, FX_ERR_NOMEM, "out of memory: a call needs %llu bytes", (unsigned long long)bytes);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------- */

static fx_status check_inputs(const fx_function *f, size_t n, const fx_tensor *in, int64_t *values, fx_words w)
{
    fx_misfit why = {.kind = FX_MISFIT_COUNT};
    if (n == f->program->n_inputs && fx_program_match(f->program, &f->open, n, in, values, &why))
        return FX_OK;
    if (w.text && w.size)
        fx_misfit_text(f->program, &why, n, in, f->expected[why.kind == FX_MISFIT_SHAPE || why.kind == FX_MISFIT_TWICE ? why.at : 0], w.text, w.size);
    return FX_ERR_ARGUMENT;
}

/* What output i is: dense, no data. */
static fx_status shape_output(const fx_function *f, const int64_t *values, size_t i, fx_tensor *out, fx_words w)
{
    const fx_io *io = &f->program->outputs[i];
    int64_t stride = 1;
    out->dtype = io->dtype;
    out->rank = io->rank;
    for (int d = io->rank - 1; d >= 0; d--) {
        int64_t v;
        out->strides[d] = stride;
        if (!fx_dim_eval(fx_program_symbols(f->program), values, io->dims[d], &v) || v < 0 ||
            __builtin_mul_overflow(stride, v > 0 ? v : 1, &stride) || stride > INT64_MAX / 32)
            return fx_fail_in(w, FX_ERR_ARGUMENT, "output %zu '%s': these inputs give it more elements than memory can have", i, f->outputs[i].name);
        out->sizes[d] = v;
    }
    return FX_OK;
}

fx_status fx_function_outputs(fx_function *f, size_t n_in, const fx_tensor *in, size_t n_out, fx_tensor *out, char *error, size_t error_size)
{
    const fx_words w = {error, error_size};
    int64_t values[FX_FUNCTION_SYMBOLS];
    const char *fault = fx_function_fault(f);
    if (fault)
        return fx_fail_in(w, FX_ERR_ARGUMENT, "%s", fault);
    if (n_out != f->program->n_outputs || (n_out && !out))
        return fx_fail_in(w, FX_ERR_ARGUMENT, out || !n_out ? "expected %zu outputs, got %zu" : "expected %zu outputs, got NULL", f->program->n_outputs, n_out);
    FX_TRY(check_inputs(f, n_in, in, values, w));
    for (size_t i = 0; i < n_out; i++)
        FX_TRY(shape_output(f, values, i, &out[i], w));
    return FX_OK;
}

static bool same_shape(const fx_tensor *a, const fx_tensor *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->sizes[d] == b->sizes[d];
    return same;
}

static bool aligned(const fx_tensor *t)
{
    size_t size = fx_dtype_size(t->dtype), to = t->dtype == FX_C64 || t->dtype == FX_C128 ? size / 2 : size;
    return (uintptr_t)t->data % to == 0;
}

static fx_status check_outputs(const fx_function *f, const int64_t *values, size_t n, const fx_tensor *out, fx_words w)
{
    if (n != f->program->n_outputs || (n && !out))
        return fx_fail_in(w, FX_ERR_ARGUMENT, out || !n ? "expected %zu outputs, got %zu" : "expected %zu outputs, got NULL", f->program->n_outputs, n);
    for (size_t i = 0; i < n; i++) {
        const char *name = f->outputs[i].name;
        char expected[256], got[256];
        fx_tensor want;
        FX_TRY(shape_output(f, values, i, &want, w));
        if (!same_shape(&want, &out[i]))
            return fx_fail_in(w, FX_ERR_ARGUMENT, "output %zu '%s': expected %s, got %s", i, name, fx_tensor_text(&want, expected, sizeof expected),
                        fx_tensor_text(&out[i], got, sizeof got));
        if (!fx_tensor_numel(&want))
            continue;
        if (!fx_tensor_is_contiguous(&out[i]))
            return fx_fail_in(w, FX_ERR_ARGUMENT, "output %zu '%s': expected dense strides", i, name);
        if (!out[i].data)
            return fx_fail_in(w, FX_ERR_ARGUMENT, "output %zu '%s': expected memory to write to, got NULL", i, name);
        if (!aligned(&out[i]))
            return fx_fail_in(w, FX_ERR_ARGUMENT, "output %zu '%s': expected memory aligned to an element of %s, got %p", i, name, fx_dtype_name(want.dtype), out[i].data);
    }
    return FX_OK;
}

/* ---- places -------------------------------------------------------------------------------------------------------------- */

/* Memory that a call reads or writes. */
typedef struct fx_span {
    uintptr_t from, to;
    size_t at;                   /* input, or output + n_in; n_in + n_out: the state */
    bool written;
} fx_span;

/* Where the elements of t lie; false: nowhere that memory could be. */
static bool span_of(const fx_tensor *t, fx_span *s)
{
    int64_t low = 0, high = 0, size = (int64_t)fx_dtype_size(t->dtype);
    for (int d = 0; d < t->rank; d++) {
        int64_t far;
        if (__builtin_mul_overflow(t->sizes[d] - 1, t->strides[d], &far) || __builtin_mul_overflow(far, size, &far) ||
            __builtin_add_overflow(far < 0 ? low : high, far, far < 0 ? &low : &high))
            return false;
    }
    return !__builtin_sub_overflow((uintptr_t)t->data, (uintptr_t)-low, &s->from) &&
           !__builtin_add_overflow((uintptr_t)t->data, (uintptr_t)high + (uintptr_t)size, &s->to);
}

/* Whether two indices may be one element: strides that do not step over what the smaller ones span. */
static bool meets_itself(const fx_tensor *t)
{
    int order[FX_MAX_RANK], n = 0;
    for (int d = 0; d < t->rank; d++) {
        int k = n;
        if (t->sizes[d] < 2)
            continue;
        for (; k > 0 && llabs(t->strides[order[k - 1]]) > llabs(t->strides[d]); k--)
            order[k] = order[k - 1];
        order[k] = d;
        n++;
    }
    int64_t spanned = 0;
    for (int k = 0; k < n; k++) {
        int64_t stride = llabs(t->strides[order[k]]);
        if (stride <= spanned)
            return true;
        spanned += stride * (t->sizes[order[k]] - 1);
    }
    return false;
}

static int by_place(const void *a, const void *b)
{
    const fx_span *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static const char *span_name(const fx_function *f, size_t at, char *buf, size_t size)
{
    size_t n_in = f->program->n_inputs, n_out = f->program->n_outputs;
    if (at < n_in)
        snprintf(buf, size, "input %zu '%s'", at, f->inputs[at].name);
    else if (at < n_in + n_out)
        snprintf(buf, size, "output %zu '%s'", at - n_in, f->outputs[at - n_in].name);
    else
        snprintf(buf, size, "the function's state");
    return buf;
}

static fx_status overlap(const fx_function *f, const fx_span *x, const fx_span *y, fx_words w)
{
    size_t a = x->at > y->at ? x->at : y->at, b = x->at > y->at ? y->at : x->at;
    char one[200], other[200];
    return fx_fail_in(w, FX_ERR_ARGUMENT, "%s overlaps %s", span_name(f, a, one, sizeof one), span_name(f, b, other, sizeof other));
}

/* That nothing written overlaps anything else: each that is written against all where few are (an inference, of however many parameters), else in
 * the order they lie in. */
static fx_status check_spans(const fx_function *f, fx_span *s, size_t n, fx_words w)
{
    enum { FEW = 4 };
    size_t n_written = 0, at[FEW];
    for (size_t i = 0; i < n; i++) {
        if (s[i].written && n_written < FEW)
            at[n_written] = i;
        n_written += s[i].written;
    }
    if (n_written <= FEW) {
        for (size_t k = 0; k < n_written; k++) {
            const fx_span *x = &s[at[k]];
            for (const fx_span *y = s; y < s + n; y++)
                if (y->from < x->to && x->from < y->to && y != x)
                    return overlap(f, x, y, w);
        }
        return FX_OK;
    }
    qsort(s, n, sizeof *s, by_place);
    const fx_span *any = NULL, *written = NULL; /* those that reach furthest */
    for (size_t i = 0; i < n; i++) {
        const fx_span *before = s[i].written ? any : written;
        if (before && before->to > s[i].from)
            return overlap(f, before, &s[i], w);
        any = !any || s[i].to > any->to ? &s[i] : any;
        written = s[i].written && (!written || s[i].to > written->to) ? &s[i] : written;
    }
    return FX_OK;
}

static bool copied(const fx_tensor *t)
{
    return !fx_tensor_is_contiguous(t) || !aligned(t);
}

static fx_status check_places(const fx_function *f, fx_scratch *s, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, fx_words w)
{
    size_t n = 0;
    for (size_t i = 0; i < n_in; i++) {
        const fx_tensor *t = &in[i];
        int64_t numel = 1;
        bool fits = true;
        for (int d = 0; d < t->rank; d++)
            fits &= !__builtin_mul_overflow(numel, t->sizes[d], &numel);
        if (numel == 0)
            continue;
        if (!t->data)
            return fx_fail_in(w, FX_ERR_ARGUMENT, "input %zu '%s': expected its elements, got NULL", i, f->inputs[i].name);
        if (!fits || numel > INT64_MAX / 32 || !span_of(t, &s->spans[n]))
            return fx_fail_in(w, FX_ERR_ARGUMENT, "input %zu '%s': its sizes and strides reach further than memory does", i, f->inputs[i].name);
        bool changed = f->inputs[i].changed;
        if (changed && meets_itself(t))
            return fx_fail_in(w, FX_ERR_ARGUMENT, "input %zu '%s': the model changes it, so its elements must lie apart", i, f->inputs[i].name);
        if (!copied(t) || changed) { /* others may lie between what is written: their copies are read */
            s->spans[n].at = i;
            s->spans[n++].written = changed;
        }
    }
    for (size_t i = 0; i < n_out; i++) {
        if (!fx_tensor_numel(&out[i]))
            continue;
        if (!span_of(&out[i], &s->spans[n]))
            return fx_fail_in(w, FX_ERR_ARGUMENT, "output %zu '%s': it reaches further than memory does", i, f->outputs[i].name);
        s->spans[n].at = n_in + i;
        s->spans[n++].written = true;
    }
    if (f->state)
        s->spans[n++] = (fx_span){(uintptr_t)f->state, (uintptr_t)f->state + (uintptr_t)f->program->state_size, n_in + n_out, true};
    return check_spans(f, s->spans, n, w);
}

/* ---- memory of a call ------------------------------------------------------------------------------------------------------ */

void fx_scratch_free(fx_scratch *s)
{
    free(s->arena);
    free(s->io);
    free(s->values);
    free(s->bytes);
    free(s->spans);
    free(s);
}

static fx_scratch *new_scratch(const fx_function *f)
{
    const fx_program *p = f->program;
    fx_scratch *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->io = calloc(p->n_inputs + p->n_outputs + 1, sizeof *s->io);
    s->bytes = f->gpu ? calloc(p->n_inputs + p->n_outputs + 1, sizeof *s->bytes) : NULL;
    s->values = calloc(p->n_symbols + 1, sizeof *s->values);
    s->spans = calloc(p->n_inputs + p->n_outputs + 1, sizeof *s->spans);
    if (s->io && s->values && s->spans && (s->bytes || !f->gpu))
        return s;
    fx_scratch_free(s);
    return NULL;
}

static void give_scratch(fx_function *f, fx_scratch *s)
{
    pthread_mutex_lock(&f->lock);
    s->next = f->free;
    f->free = s;
    if (s->sized)
        f->last_arena = s->need;
    pthread_mutex_unlock(&f->lock);
}

/* Memory of an earlier call, or new; its arena is for none yet. NULL: there is none. */
static fx_scratch *take_scratch(fx_function *f)
{
    pthread_mutex_lock(&f->lock);
    fx_scratch *s = f->free;
    if (s)
        f->free = s->next;
    pthread_mutex_unlock(&f->lock);
    return s ? s : new_scratch(f);
}

/* An arena for these sizes. */
static fx_status make_room(const fx_function *f, fx_scratch *s, const int64_t *values, fx_words w)
{
    if (f->gpu)
        return FX_OK; /* it lies on the device */
    size_t bytes = f->program->n_symbols * sizeof *values;
    if (!s->sized || memcmp(s->values, values, bytes) != 0) {
        s->sized = false;
        if (!fx_program_arena_fits(f->program, values))
            return fx_fail_in(w, FX_ERR_ARGUMENT, "these inputs' sizes make values of more bytes than memory can have");
        s->need = fx_code_arena_size(f->code, values);
        memcpy(s->values, values, bytes);
        s->sized = true;
    }
    if (s->arena && s->size >= s->need)
        return FX_OK;
    free(s->arena);
    s->size = s->need;
    s->arena = fx_aligned_alloc(s->size);
    return s->arena ? FX_OK : no_memory(w, s->size);
}

/* ---- copies ---------------------------------------------------------------------------------------------------------------- */

/* A row of elements `step` bytes apart, to (back: from) a dense one. */
static void copy_row(char *strided, char *dense, int64_t n, int64_t step, size_t size, bool back)
{
#define COPY(bytes)                                                   \
    for (int64_t i = 0; i < n; i++) {                                 \
        char *s = strided + i * step, *d = dense + i * (bytes);       \
        memcpy(back ? s : d, back ? d : s, (bytes));                  \
    }                                                                 \
    return
    if (step == (int64_t)size) {
        memcpy(back ? strided : dense, back ? dense : strided, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: COPY(1);
    case 2: COPY(2);
    case 4: COPY(4);
    case 8: COPY(8);
    default: COPY(size);
    }
#undef COPY
}

/* The elements of a strided tensor to a dense block; back: from it. */
static void gather(const fx_tensor *t, int dim, char *strided, char **dense, bool back)
{
    size_t size = fx_dtype_size(t->dtype);
    if (dim >= t->rank - 1) {
        int64_t n = t->rank ? t->sizes[dim] : 1;
        copy_row(strided, *dense, n, t->rank ? t->strides[dim] * (int64_t)size : (int64_t)size, size, back);
        *dense += (size_t)n * size;
        return;
    }
    for (int64_t i = 0; i < t->sizes[dim]; i++)
        gather(t, dim + 1, strided + i * t->strides[dim] * (int64_t)size, dense, back);
}

/* Where the code reads input i: where it lies, or in a dense copy. */
static fx_status place_input(const fx_function *f, size_t i, const fx_tensor *t, void **at, fx_words w)
{
    int64_t numel = fx_tensor_numel(t);
    *at = t->data;
    if (!numel || !copied(t))
        return FX_OK;
    if (f->gpu && fx_gpu_on_device(f->gpu, t->data))
        return fx_fail_in(w, FX_ERR_ARGUMENT, "input %zu '%s': expected dense strides and whole elements of a tensor on the device", i, f->inputs[i].name);
    size_t bytes = (size_t)numel * fx_dtype_size(t->dtype);
    char *dense = malloc(bytes), *end = dense;
    if (!dense)
        return no_memory(w, bytes);
    gather(t, 0, t->data, &end, false);
    *at = dense;
    return FX_OK;
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

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

static fx_status check_failed(const fx_function *f, int32_t number, fx_words w)
{
    for (size_t i = 0; i < f->program->n_steps; i++) {
        const char *text = check_text(f->program->steps[i].body, &number);
        if (text)
            return fx_fail_in(w, FX_ERR_ARGUMENT, "step '%s': %s: out of range", f->program->steps[i].name, text);
    }
    return fx_fail_in(w, FX_INTERNAL, "a check failed that the program does not have");
}

/* On a device: memory of the host goes there and back, memory of the device stays where it is. */
static fx_status run_on_device(fx_function *f, fx_scratch *s, const int64_t *values, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out,
                               const called *how)
{
    for (size_t i = 0; i < n_in; i++)
        s->bytes[i] = (uint64_t)fx_tensor_numel(&in[i]) * fx_dtype_size(in[i].dtype);
    for (size_t i = 0; i < n_out; i++)
        s->bytes[n_in + i] = (uint64_t)fx_tensor_numel(&out[i]) * fx_dtype_size(out[i].dtype);
    const fx_gpu_call call = {.io = s->io, .bytes = s->bytes, .symbols = values, .state = f->state, .stream = how->stream, .wait = !how->on_stream};
    return fx_gpu_run(f->gpu, &call, how->w.text, how->w.size);
}

static fx_status run_here(fx_function *f, fx_scratch *s, const int64_t *values, fx_words w)
{
    if (f->state)
        pthread_mutex_lock(&f->turn);
    int32_t failed = fx_code_run(f->code, s->io, f->weights, s->arena, f->state, values);
    if (f->state)
        pthread_mutex_unlock(&f->turn);
    return failed ? check_failed(f, failed, w) : FX_OK;
}

static fx_status run(fx_function *f, fx_scratch *s, const int64_t *values, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out,
                     const called *how)
{
    fx_status status = FX_OK;
    size_t placed = 0;
    while (placed < n_in && status == FX_OK) {
        status = place_input(f, placed, &in[placed], &s->io[placed], how->w);
        placed += status == FX_OK;
    }
    if (status == FX_OK)
        status = f->gpu ? run_on_device(f, s, values, n_in, in, n_out, out, how) : run_here(f, s, values, how->w);
    for (size_t i = 0; i < placed; i++) {
        char *dense = s->io[i];
        if (dense == in[i].data)
            continue;
        if (status == FX_OK && f->inputs[i].changed)
            gather(&in[i], 0, in[i].data, &dense, true);
        free(s->io[i]);
    }
    return status;
}

static fx_status call(fx_function *f, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, const called *how)
{
    const fx_words w = how->w;
    int64_t values[FX_FUNCTION_SYMBOLS];
    const char *fault = fx_function_fault(f);
    if (fault)
        return fx_fail_in(w, FX_ERR_ARGUMENT, "%s", fault);
    FX_TRY(check_inputs(f, n_in, in, values, w));
    FX_TRY(check_outputs(f, values, n_out, out, w));
    fx_scratch *s = take_scratch(f);
    if (!s)
        return no_memory(w, sizeof *s);
    fx_status status = check_places(f, s, n_in, in, n_out, out, w);
    if (status == FX_OK)
        status = make_room(f, s, values, w);
    if (status == FX_OK) {
        for (size_t i = 0; i < n_out; i++)
            s->io[n_in + i] = out[i].data;
        status = run(f, s, values, n_in, in, n_out, out, how);
    }
    give_scratch(f, s);
    return status;
}

fx_status fx_function_call(fx_function *f, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error, size_t error_size)
{
    return call(f, n_in, in, n_out, out, &(called){.w = {error, error_size}});
}

fx_status fx_function_call_on(fx_function *f, void *stream, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error,
                              size_t error_size)
{
    if (!fx_function_fault(f) && !f->gpu)
        return fx_fail_in((fx_words){error, error_size}, FX_ERR_ARGUMENT, "expected a function for a GPU: one for this machine's processor has no streams");
    return call(f, n_in, in, n_out, out, &(called){.w = {error, error_size}, .stream = stream, .on_stream = true});
}
