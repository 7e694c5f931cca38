/* python/core/function.c: compiled models, called with NumPy arrays or torch tensors.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <string.h>

#include "core.h"

typedef struct fxpy_function {
    PyObject_HEAD
    fxpy_graph *graph;
    fx_function *f;
    PyObject *tree;              /* how outputs are nested: numbers of outputs in tuples, lists, dicts */
} fxpy_function;

PyObject *fxpy_function_new(fxpy_graph *graph, const fx_jit_options *options)
{
    fxpy_context *c = graph->context;
    fx_function *f = NULL;
    fx_status status;
    fxpy_enter(c);
    size_t since = fx_diag_count(c->ctx);
    Py_BEGIN_ALLOW_THREADS
    status = fx_jit_compile(graph->g, options, &f);
    Py_END_ALLOW_THREADS
    PyObject *result = NULL;
    if (status != FX_OK) {
        fxpy_raise(c, status, since);
    } else if (fxpy_warn(c, since) == 0) {
        fxpy_function *self = PyObject_New(fxpy_function, fxpy_function_type);
        if (self) {
            fx_value tree = fx_graph_output_tree(graph->g);
            Py_INCREF((PyObject *)graph);
            self->graph = graph;
            self->f = f;
            f = NULL;
            self->tree = fxpy_from_value(graph, &tree);
            result = (PyObject *)self;
            if (!self->tree)
                Py_CLEAR(result);
        }
    }
    fx_function_free(f);
    fxpy_leave(c);
    return result;
}

static void function_dealloc(PyObject *self)
{
    fxpy_function *f = (fxpy_function *)self;
    PyTypeObject *type = Py_TYPE(self);
    fx_function_free(f->f);
    Py_XDECREF(f->tree);
    Py_XDECREF((PyObject *)f->graph);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* The outputs in the model's own nesting: leaves of the tree are their numbers. Takes no reference. */
static PyObject *nest(PyObject *tree, PyObject *const *out, Py_ssize_t n)
{
    if (PyLong_Check(tree)) {
        long i = PyLong_AsLong(tree);
        if (i < 0 || i >= n)
            return PyErr_Format(PyExc_SystemError, "there is no output %ld", i);
        Py_INCREF(out[i]);
        return out[i];
    }
    if (PyTuple_Check(tree) || PyList_Check(tree)) {
        Py_ssize_t size = PySequence_Size(tree);
        PyObject *o = PyTuple_Check(tree) ? PyTuple_New(size) : PyList_New(size);
        for (Py_ssize_t i = 0; o && i < size; i++) {
            PyObject *item = nest(PyTuple_Check(tree) ? PyTuple_GetItem(tree, i) : PyList_GetItem(tree, i), out, n);
            if (!item || (PyTuple_Check(tree) ? PyTuple_SetItem(o, i, item) : PyList_SetItem(o, i, item)) != 0)
                Py_CLEAR(o);
        }
        return o;
    }
    if (PyDict_Check(tree)) {
        PyObject *o = PyDict_New(), *key, *value;
        for (Py_ssize_t at = 0; o && PyDict_Next(tree, &at, &key, &value);) {
            PyObject *item = nest(value, out, n);
            if (!item || PyDict_SetItem(o, key, item) != 0)
                Py_CLEAR(o);
            Py_XDECREF(item);
        }
        return o;
    }
    Py_INCREF(tree); /* None, a number */
    return tree;
}

enum { FEW = 16 };

/* Inputs in order, then by name. -1: an exception is set. */
static int gather(fxpy_function *self, PyObject *args, PyObject *kwargs, PyObject **in, Py_ssize_t n)
{
    Py_ssize_t given = PyTuple_Size(args), named = kwargs ? PyDict_Size(kwargs) : 0, used = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *name = fx_function_input(self->f, (size_t)i)->name;
        PyObject *by_name = named ? PyDict_GetItemString(kwargs, name) : NULL;
        used += by_name != NULL;
        if (i < given && by_name) {
            PyErr_Format(PyExc_TypeError, "input '%s' is given twice", name);
            return -1;
        }
        in[i] = i < given ? PyTuple_GetItem(args, i) : by_name;
        if (!in[i]) {
            PyErr_Format(PyExc_TypeError, "expected %zd inputs, got %zd: input %zd '%s' is missing", n, given + named, i, name);
            return -1;
        }
    }
    if (given > n || used < named) {
        PyErr_Format(PyExc_TypeError, given > n ? "expected %zd inputs, got %zd" : "expected %zd inputs, got %zd: some by names that the model does not have",
                     n, given + named);
        return -1;
    }
    return 0;
}

static PyObject *function_call(PyObject *o, PyObject *args, PyObject *kwargs)
{
    fxpy_function *self = (fxpy_function *)o;
    Py_ssize_t n_in = (Py_ssize_t)fx_function_input_count(self->f), n_out = (Py_ssize_t)fx_function_output_count(self->f), have = 0, made = 0;
    PyObject *few[2 * FEW], **objects = few, *result = NULL;
    fxpy_tensor few_tensors[2 * FEW], *tensors = few_tensors;
    fx_tensor few_t[2 * FEW], *t = few_t;
    bool many = n_in + n_out > 2 * FEW;
    char error[512] = "";
    if (many) {
        objects = PyMem_Calloc((size_t)(n_in + n_out), sizeof *objects);
        tensors = PyMem_Calloc((size_t)(n_in + n_out), sizeof *tensors);
        t = PyMem_Calloc((size_t)(n_in + n_out), sizeof *t);
        if (!objects || !tensors || !t) {
            PyErr_NoMemory();
            goto done;
        }
    }
    if (gather(self, args, kwargs, objects, n_in) != 0)
        goto done;
    for (; have < n_in; have++) {
        char what[200];
        snprintf(what, sizeof what, "input %zd '%s'", have, fx_function_input(self->f, (size_t)have)->name);
        if (fxpy_tensor_from(objects[have], what, &tensors[have]) != 0)
            goto done;
        t[have] = tensors[have].t;
    }
    fx_status status = fx_function_outputs(self->f, (size_t)n_in, t, (size_t)n_out, t + n_in, error, sizeof error);
    for (; status == FX_OK && made < n_out; made++) {
        objects[n_in + made] = fxpy_tensor_make(n_in ? objects[0] : NULL, &t[n_in + made], &tensors[n_in + made]);
        if (!objects[n_in + made])
            goto done;
    }
    if (status == FX_OK) {
        Py_BEGIN_ALLOW_THREADS
        status = fx_function_call(self->f, (size_t)n_in, t, (size_t)n_out, t + n_in, error, sizeof error);
        Py_END_ALLOW_THREADS
    }
    if (status == FX_OK)
        result = nest(self->tree, objects + n_in, n_out);
    else if (status == FX_ERR_NOMEM)
        PyErr_NoMemory();
    else
        PyErr_SetString(fxpy_exception(status), error);
done:
    for (Py_ssize_t i = 0; i < have; i++)
        fxpy_tensor_done(&tensors[i]);
    for (Py_ssize_t i = 0; i < made; i++) {
        fxpy_tensor_done(&tensors[n_in + i]);
        Py_DECREF(objects[n_in + i]);
    }
    if (many) {
        PyMem_Free(objects);
        PyMem_Free(tensors);
        PyMem_Free(t);
    }
    return result;
}

/* ---- looking at it -------------------------------------------------------------------------------------------------------------- */

/* [(name, dtype, [(min, max)])]; None for an end that is open */
static PyObject *describe(const fx_value_info *(*get)(const fx_function *, size_t), const fx_function *f)
{
    PyObject *list = PyList_New(0);
    const fx_value_info *v;
    for (size_t i = 0; list && (v = get(f, i)); i++) {
        PyObject *dims = PyList_New(0);
        for (int d = 0; dims && d < v->rank; d++) {
            PyObject *dim = v->max[d] == INT64_MAX ? Py_BuildValue("(LO)", (long long)v->min[d], Py_None)
                                                   : Py_BuildValue("(LL)", (long long)v->min[d], (long long)v->max[d]);
            if (!dim || PyList_Append(dims, dim) != 0)
                Py_CLEAR(dims);
            Py_XDECREF(dim);
        }
        PyObject *row = dims ? Py_BuildValue("(ssN)", v->name, fx_dtype_name(v->dtype), dims) : NULL;
        if (!row || PyList_Append(list, row) != 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *get_inputs(PyObject *self, void *unused)
{
    (void)unused;
    return describe(fx_function_input, ((fxpy_function *)self)->f);
}

static PyObject *get_outputs(PyObject *self, void *unused)
{
    (void)unused;
    return describe(fx_function_output, ((fxpy_function *)self)->f);
}

static PyObject *get_graph(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *graph = (PyObject *)((fxpy_function *)self)->graph;
    Py_INCREF(graph);
    return graph;
}

static PyObject *get_cached(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(fx_function_cached(((fxpy_function *)self)->f));
}

static PyObject *get_memory(PyObject *self, void *unused)
{
    (void)unused;
    uint64_t arena, weights;
    fx_function_memory(((fxpy_function *)self)->f, &arena, &weights);
    return Py_BuildValue("(KK)", (unsigned long long)arena, (unsigned long long)weights);
}

static PyGetSetDef getters[] = {{"inputs", get_inputs, NULL, "[(name, dtype, [(min, max) of each size])]; max None: open", NULL},
                                {"outputs", get_outputs, NULL, "as inputs", NULL},
                                {"graph", get_graph, NULL, "the Graph it was compiled from", NULL},
                                {"cached", get_cached, NULL, "whether the code was kept from an earlier compile", NULL},
                                {"memory", get_memory, NULL, "(bytes of the arena, bytes of weights)", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, function_dealloc},
    {Py_tp_call, function_call},
    {Py_tp_getset, getters},
    {Py_tp_doc, "A compiled model. Call it with the model's inputs, NumPy arrays or torch tensors on the CPU, in order or by name: they are read where "
                "they lie. Results are new arrays of the first input's kind, nested as the model nests them. Other threads run meanwhile."},
    {0, NULL}};
PyType_Spec fxpy_function_spec = {"fxcc._core.Function", sizeof(fxpy_function), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
