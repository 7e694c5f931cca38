/* python/core/module.c: the extension module fxcc._core: exceptions, contexts, loading.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "core.h"

#include <string.h>
#include <time.h>

PyTypeObject *fxpy_graph_type, *fxpy_node_type, *fxpy_function_type, *fxpy_context_type;
PyObject *fxpy_error;

/* ---- exceptions ------------------------------------------------------------------------------------------------------------- */

/* By status: what is raised, and a built-in exception that it also is. */
static struct {
    fx_status status;
    const char *name, *doc;
    PyObject **builtin, *type;
} exceptions[] = {
    {FX_ERR_ARGUMENT, "fxcc.ArgumentError", "A caller passed something that a function does not take.", &PyExc_ValueError, NULL},
    {FX_ERR_IO, "fxcc.FileError", "A file could not be opened, read or written.", &PyExc_OSError, NULL},
    {FX_ERR_FORMAT, "fxcc.FormatError", "A file is not what it claims to be.", &PyExc_ValueError, NULL},
    {FX_ERR_UNSUPPORTED, "fxcc.UnsupportedError", "Valid input that fxcc does not handle.", &PyExc_NotImplementedError, NULL},
    {FX_ERR_TYPE, "fxcc.ShapeError", "Shapes or dtypes that contradict each other.", &PyExc_TypeError, NULL},
    {FX_INTERNAL, "fxcc.InternalError", "A broken invariant of fxcc itself: please report.", &PyExc_RuntimeError, NULL},
};
enum { N_EXCEPTIONS = sizeof exceptions / sizeof exceptions[0] };

PyObject *fxpy_exception(fx_status status)
{
    for (int i = 0; i < N_EXCEPTIONS; i++)
        if (exceptions[i].status == status)
            return exceptions[i].type;
    return status == FX_ERR_NOMEM ? PyExc_MemoryError : fxpy_error;
}

static int add_exceptions(PyObject *module)
{
    fxpy_error = PyErr_NewExceptionWithDoc("fxcc.Error",
                                           "What fxcc refuses; the message names file, node and reason, `nodes` the nodes that it is about.", NULL, NULL);
    PyObject *none = PyTuple_New(0); /* of those that are about none */
    int rc = none && fxpy_error ? PyObject_SetAttrString(fxpy_error, "nodes", none) : -1;
    Py_XDECREF(none);
    if (rc != 0 || PyModule_AddObjectRef(module, "Error", fxpy_error) != 0)
        return -1;
    for (int i = 0; i < N_EXCEPTIONS; i++) {
        PyObject *bases = PyTuple_Pack(2, fxpy_error, *exceptions[i].builtin);
        exceptions[i].type = bases ? PyErr_NewExceptionWithDoc(exceptions[i].name, exceptions[i].doc, bases, NULL) : NULL;
        Py_XDECREF(bases);
        if (!exceptions[i].type || PyModule_AddObjectRef(module, exceptions[i].name + strlen("fxcc."), exceptions[i].type) != 0)
            return -1;
    }
    return 0;
}

/* ---- contexts ------------------------------------------------------------------------------------------------------------------ */

/* Ctrl-C ends what is being done in a context: signals are looked for 50 times a second. Called with or without the GIL. */
static bool stop(void *user)
{
    fxpy_context *c = user;
    struct timespec now;
    enum { EVERY = 20 * 1000 * 1000 };
    unsigned long self = PyThread_get_thread_ident();
    if (!c->works)
        return false;
    if (c->stopping == self)
        return true;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long t = (long long)now.tv_sec * 1000000000 + now.tv_nsec;
    if (t - c->polled < EVERY)
        return false;
    c->polled = t;
    PyGILState_STATE gil = PyGILState_Ensure();
    if (PyErr_CheckSignals() != 0)
        c->stopping = self;
    PyGILState_Release(gil);
    return c->stopping == self;
}

fxpy_context *fxpy_context_new(void)
{
    fxpy_context *c = PyObject_New(fxpy_context, fxpy_context_type);
    if (!c)
        return NULL;
    c->ctx = fx_context_create();
    c->lock = PyThread_allocate_lock();
    c->depth = 0;
    c->holder = 0;
    c->polled = 0;
    c->stopping = 0;
    c->works = false;
    c->keep = PyList_New(0);
    if (!c->keep || !c->ctx || !c->lock) {
        Py_DECREF((PyObject *)c);
        PyErr_NoMemory();
        return NULL;
    }
    fx_context_set_interrupt(c->ctx, stop, c);
    return c;
}

static void context_dealloc(PyObject *self)
{
    fxpy_context *c = (fxpy_context *)self;
    PyTypeObject *type = Py_TYPE(self);
    fx_context_free(c->ctx);
    Py_XDECREF(c->keep);
    if (c->lock)
        PyThread_free_lock(c->lock);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyType_Slot context_slots[] = {{Py_tp_dealloc, context_dealloc}, {Py_tp_doc, "What owns graphs and functions."}, {0, NULL}};
PyType_Spec fxpy_context_spec = {"fxcc.Context", sizeof(fxpy_context), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, context_slots};

void fxpy_enter(fxpy_context *c)
{
    unsigned long self = PyThread_get_thread_ident();
    if (c->depth && c->holder == self) { /* holder changes under the GIL alone */
        c->depth++;
        return;
    }
    if (!PyThread_acquire_lock(c->lock, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS
        PyThread_acquire_lock(c->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    c->holder = self;
    c->depth = 1;
    c->stopping = 0;
}

void fxpy_leave(fxpy_context *c)
{
    if (--c->depth)
        return;
    c->holder = 0;
    PyThread_release_lock(c->lock);
}

/* Raises it, with the names of the nodes that diagnostics tell of as its attribute `nodes`. */
static void raise_with(PyObject *type, PyObject *text, PyObject *nodes)
{
    PyObject *e = PyObject_CallFunctionObjArgs(type, text, NULL);
    if (e && PyObject_SetAttrString(e, "nodes", nodes) == 0)
        PyErr_SetObject(type, e);
    Py_XDECREF(e);
}

PyObject *fxpy_raise(fxpy_context *c, fx_status status, size_t since)
{
    if (PyErr_Occurred() || status == FX_ERR_CANCELLED) { /* what a signal's handler raised */
        if (!PyErr_Occurred())
            PyErr_SetNone(PyExc_KeyboardInterrupt);
        fx_diag_truncate(c->ctx, since);
        return NULL;
    }
    PyObject *lines = PyList_New(0), *nodes = PyList_New(0);
    for (size_t i = since; lines && i < fx_diag_count(c->ctx); i++) {
        const fx_diag *d = fx_diag_get(c->ctx, i);
        char text[2000];
        if (d->severity != FX_ERROR)
            continue;
        fx_diag_format(d, text, sizeof text);
        PyObject *node = nodes && d->node ? PyUnicode_FromString(d->node) : NULL;
        if (node)
            PyList_Append(nodes, node);
        Py_XDECREF(node);
        PyObject *line = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
        if (!line || PyList_Append(lines, line) != 0)
            Py_CLEAR(lines);
        Py_XDECREF(line);
    }
    if (status == FX_ERR_NOMEM) {
        Py_XDECREF(lines);
        Py_XDECREF(nodes);
        return PyErr_NoMemory();
    }
    PyObject *newline = PyUnicode_FromString("\n"), *text = lines && newline ? PyUnicode_Join(newline, lines) : NULL;
    if (text && PyUnicode_GetLength(text) == 0) {
        Py_DECREF(text);
        text = PyUnicode_FromString(fx_status_string(status));
    }
    if (text && nodes)
        raise_with(fxpy_exception(status), text, nodes);
    Py_XDECREF(nodes);
    Py_XDECREF(text);
    Py_XDECREF(newline);
    Py_XDECREF(lines);
    fx_diag_truncate(c->ctx, since);
    return NULL;
}

PyObject *fxpy_done(fxpy_context *c, fx_status status, size_t since)
{
    PyObject *result = status == FX_OK ? Py_None : fxpy_raise(c, status, since);
    fxpy_leave(c);
    Py_XINCREF(result);
    return result;
}

int fxpy_warn(fxpy_context *c, size_t since)
{
    int rc = 0;
    for (size_t i = since; rc == 0 && i < fx_diag_count(c->ctx); i++) {
        const fx_diag *d = fx_diag_get(c->ctx, i);
        char text[2000];
        if (d->severity != FX_WARNING)
            continue;
        fx_diag_format(d, text, sizeof text);
        rc = PyErr_WarnEx(PyExc_UserWarning, text, 1);
    }
    fx_diag_truncate(c->ctx, since);
    return rc;
}

/* ---- functions of the module ------------------------------------------------------------------------------------------------------ */

static PyObject *load(PyObject *self, PyObject *path)
{
    (void)self;
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    fxpy_context *c = fxpy_context_new();
    PyObject *result = NULL;
    if (c) {
        fx_graph *g = NULL;
        const char *name = PyBytes_AsString(bytes);
        fx_status status;
        fxpy_enter(c);
        fxpy_works(c, true);
        Py_BEGIN_ALLOW_THREADS
        status = fx_load_model(c->ctx, name, &g);
        Py_END_ALLOW_THREADS
        fxpy_works(c, false);
        if (status != FX_OK || PyErr_Occurred())
            fxpy_raise(c, status, 0);
        else if (fxpy_warn(c, 0) == 0)
            result = fxpy_graph_new(c, g);
        fxpy_leave(c);
        Py_DECREF((PyObject *)c);
    }
    Py_DECREF(bytes);
    return result;
}

static PyObject *passes(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    PyObject *list = PyList_New(0);
    const fx_graph_pass *p;
    for (size_t i = 0; list && (p = fx_graph_pass_get(i)); i++) {
        PyObject *params = PyList_New(0);
        for (size_t k = 0; params && k < p->n_params; k++) {
            PyObject *one = Py_BuildValue("(sszs)", p->params[k].name, p->params[k].type, p->params[k].def, p->params[k].doc);
            if (!one || PyList_Append(params, one) != 0)
                Py_CLEAR(params);
            Py_XDECREF(one);
        }
        PyObject *row = params ? Py_BuildValue("(ssN)", p->name, p->doc, params) : NULL;
        if (!row || PyList_Append(list, row) != 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"load", load, METH_O, "load($module, path, /)\n--\n\n-> Graph: Reads a model: a .pt2 of torch.export.save, or a .fx text. Raises fxcc.FileError, fxcc.FormatError, fxcc.UnsupportedError."},
    {"passes", passes, METH_NOARGS, "passes($module)\n--\n\n-> [(name, doc, [(parameter, type, default, doc)])]: The passes that Graph.run_passes takes."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "fxcc._core", "fxcc in C: graphs, passes, compiled functions.", -1, methods, NULL, NULL, NULL, NULL};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromSpec(spec);
    return *type ? PyModule_AddType(module, *type) : -1;
}

static int add_methods(PyTypeObject *type, PyMethodDef *m)
{
    for (; m->ml_name; m++) {
        PyObject *method = PyDescr_NewMethod(type, m);
        int rc = method ? PyObject_SetAttrString((PyObject *)type, m->ml_name, method) : -1;
        Py_XDECREF(method);
        if (rc != 0)
            return -1;
    }
    return 0;
}

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module && (add_exceptions(module) != 0 || add_type(module, &fxpy_context_spec, &fxpy_context_type) != 0 ||
                   add_type(module, &fxpy_graph_spec, &fxpy_graph_type) != 0 || add_type(module, &fxpy_node_spec, &fxpy_node_type) != 0 ||
                   add_type(module, &fxpy_function_spec, &fxpy_function_type) != 0 || add_type(module, &fxpy_memory_spec, &fxpy_memory_type) != 0 ||
                   !(fxpy_value_type = PyStructSequence_NewType(&fxpy_value_desc)) || PyModule_AddType(module, fxpy_value_type) != 0 ||
                   add_methods(fxpy_graph_type, fxpy_build_methods) != 0 || PyModule_AddFunctions(module, fxpy_torch_functions) != 0 ||
                   PyModule_AddStringConstant(module, "__version__", FXCC_VERSION) != 0))
        Py_CLEAR(module);
    return module;
}
