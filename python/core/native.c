/* python/core/native.c: emitted C as a Function: a shared object that fxcc._native built, with its adapter, called as the JIT's code is.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "function.h"

/* What the adapter exports (fxcc/_native.py writes it). */
typedef int run_fn(const int64_t *const *shapes, void *const *in, void *const *out, void *(*room)(void *user, size_t size), void *user, void *state);
typedef const char *status_fn(int status);
typedef int reset_fn(void *state);

struct fxpy_native {
    void *library;
    run_fn *run;
    status_fn *says;
    reset_fn *reset;
    void *state;                 /* NULL: none */
    PyThread_type_lock turn;     /* calls that use the state come one after another */
    fx_graph *graph;             /* legalised: types of all inputs and outputs are known */
    bool *changes;               /* by input */
    uint64_t arena, weights;
};

enum { ALIGN = 64 };

static size_t rounded(size_t size)
{
    return (size / ALIGN + 1) * ALIGN;
}

static void *room(void *user, size_t size)
{
    void **block = user;
    return *block = size > PTRDIFF_MAX / 2 ? NULL : aligned_alloc(ALIGN, rounded(size));
}

static fx_status outputs(fxpy_function *self, size_t n_in, const fx_tensor *in, size_t n_out, fx_tensor *out, char *error, size_t size)
{
    fxpy_context *c = self->graph->context;
    (void)n_out;
    fxpy_enter(c);
    size_t since = fx_diag_count(c->ctx);
    fx_status status = fx_graph_shapes_for(self->native->graph, n_in, in, out);
    const fx_diag *d = status == FX_OK ? NULL : fx_diag_get(c->ctx, since);
    if (d)
        snprintf(error, size, "%s", d->message);
    fx_diag_truncate(c->ctx, since);
    fxpy_leave(c);
    return status;
}

/* Everything that one run needs, given back whatever happens. */
static fx_status run(fxpy_function *self, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error, size_t size)
{
    const fxpy_native *native = self->native;
    fx_status status = FX_OK;
    void *arena = NULL, **io = calloc(n_in + n_out + 1, sizeof *io);
    const int64_t **shapes = calloc(n_in + 1, sizeof *shapes);
    if (!io || !shapes)
        status = FX_ERR_NOMEM;
    for (size_t i = 0; status == FX_OK && i < n_in; i++) {
        size_t bytes = fx_dtype_size(in[i].dtype);
        shapes[i] = in[i].sizes;
        io[i] = in[i].data;
        if (!fx_tensor_is_contiguous(&in[i]) || (uintptr_t)in[i].data % bytes != 0 || !in[i].data) {
            io[i] = aligned_alloc(ALIGN, rounded((size_t)fx_tensor_numel(&in[i]) * bytes));
            if (!io[i])
                status = FX_ERR_NOMEM;
            else
                fxpy_copy(&in[i], 0, in[i].data, io[i], false);
        }
    }
    for (size_t i = 0; status == FX_OK && i < n_out; i++)
        io[n_in + i] = out[i].data;
    if (status == FX_OK) {
        if (native->state)
            PyThread_acquire_lock(native->turn, WAIT_LOCK);
        int said = native->run(shapes, io, io + n_in, room, &arena, native->state);
        if (native->state)
            PyThread_release_lock(native->turn);
        if (said == -1)
            status = FX_ERR_NOMEM;
        else if (said != 0) {
            status = FX_ERR_ARGUMENT;
            snprintf(error, size, "%s", native->says(said));
        }
    }
    for (size_t i = 0; io && i < n_in; i++)
        if (io[i] && io[i] != in[i].data) {
            if (status == FX_OK && native->changes[i])
                fxpy_copy(&in[i], 0, in[i].data, io[i], true);
            free(io[i]);
        }
    free(arena);
    free(io);
    free(shapes);
    return status;
}

static void free_native(fxpy_function *self)
{
    fxpy_native *native = self->native;
    self->native = NULL;
    if (native->library)
        dlclose(native->library);
    if (native->turn)
        PyThread_free_lock(native->turn);
    free(native->state);
    free(native->changes);
    free(native);
}

static const fxpy_kind native_kind = {"c", outputs, run, free_native};

/* ---- making one ----------------------------------------------------------------------------------------------------------------- */

static int find(fxpy_native *native, const char *path)
{
    native->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (native->library) {
        native->run = (run_fn *)(uintptr_t)dlsym(native->library, "fxcc_python_run");
        native->says = (status_fn *)(uintptr_t)dlsym(native->library, "fxcc_python_status");
        native->reset = (reset_fn *)(uintptr_t)dlsym(native->library, "fxcc_python_reset");
        const uint64_t *size = dlsym(native->library, "fxcc_python_state_size");
        if (native->run && native->says && native->reset && size) {
            if (*size && !(native->state = aligned_alloc(ALIGN, rounded((size_t)*size)))) {
                PyErr_NoMemory();
                return -1;
            }
            if (native->state)
                native->reset(native->state);
            return 0;
        }
    }
    const char *why = dlerror();
    PyErr_Format(fxpy_exception(FX_ERR_IO), "%s: %s", path, why ? why : "is not what fxcc built");
    return -1;
}

/* Names of inputs, and which of them calls write. */
static int name_inputs(fxpy_function *self, size_t n_written, const fx_written *written)
{
    fxpy_native *native = self->native;
    Py_ssize_t i = 0;
    for (fx_node *n = fx_graph_first(native->graph); n && i < self->n_in; n = fx_node_next(n))
        if (fx_node_opcode(n) == FX_PLACEHOLDER && fxpy_function_name(self, i++, fx_node_target(n)) != 0)
            return -1;
    for (size_t k = 0; k < n_written; k++)
        if (!written[k].buffer && written[k].input < (size_t)self->n_in)
            native->changes[written[k].input] = true;
    return 0;
}

typedef struct prepared {
    fx_graph *from, *graph;
    size_t n;
    const fx_written *written;
} prepared;

static fx_status prepare(prepared *p)
{
    fx_status status = fx_graph_legalize(p->from, &p->graph);
    return status == FX_OK ? fx_graph_written(p->graph, &p->n, &p->written) : status;
}

/* _native(path, arena, weights, options) -> Function */
PyObject *fxpy_native_new(PyObject *o, PyObject *args)
{
    fxpy_graph *graph = (fxpy_graph *)o;
    PyObject *path, *options, *result = NULL;
    unsigned long long arena, weights;
    if (!PyArg_ParseTuple(args, "O&KKO!:_native", PyUnicode_FSConverter, &path, &arena, &weights, &PyDict_Type, &options))
        return NULL;
    prepared p = {.from = graph->g};
    FXPY_UNLOCKED(graph, prepare(&p))
    if (status != FX_OK) {
        fxpy_raise(c, status, since);
    } else {
        size_t n_in = fx_graph_input_count(p.graph);
        fxpy_function *self = (fxpy_function *)fxpy_function_bare(graph, &native_kind, options, n_in, fx_graph_output_count(p.graph));
        fxpy_native *native = self ? calloc(1, sizeof *native) : NULL;
        if (native) {
            self->native = native;
            *native = (fxpy_native){.graph = p.graph, .arena = arena, .weights = weights, .changes = calloc(n_in + 1, 1), .turn = PyThread_allocate_lock()};
            if (!native->changes || !native->turn)
                PyErr_NoMemory();
            else if (find(native, PyBytes_AsString(path)) == 0 && name_inputs(self, p.n, p.written) == 0)
                result = (PyObject *)self;
        }
        if (self && !native)
            PyErr_NoMemory();
        if (!result)
            Py_XDECREF((PyObject *)self);
    }
    fxpy_leave(c);
    Py_DECREF(path);
    return result;
}

/* ---- looking at it -------------------------------------------------------------------------------------------------------------- */

bool fxpy_native_changes(const fxpy_function *self, Py_ssize_t i)
{
    return self->native->changes[i];
}

int fxpy_native_info(fxpy_function *self, bool output, Py_ssize_t i, fx_value_info *out)
{
    fxpy_context *c = self->graph->context;
    fxpy_enter(c);
    size_t since = fx_diag_count(c->ctx);
    fx_status status = output ? fx_graph_output_info(self->native->graph, (size_t)i, out) : fx_graph_input_info(self->native->graph, (size_t)i, out);
    if (status != FX_OK)
        fxpy_raise(c, status, since);
    else if (!output)
        out->changed = self->native->changes[i];
    fxpy_leave(c);
    return status == FX_OK ? 0 : -1;
}

void fxpy_native_memory(const fxpy_function *self, uint64_t *arena, uint64_t *weights)
{
    *arena = self->native->arena;
    *weights = self->native->weights;
}

void fxpy_native_reset(fxpy_function *self)
{
    if (self->native->state)
        self->native->reset(self->native->state);
}
