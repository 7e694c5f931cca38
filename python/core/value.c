/* python/core/value.c: arguments of nodes between C and Python.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* Names that are no strings of the model: fxcc.dtype("float32"), fxcc.Symbol... are of the class fxcc._symbol.Symbol, a str with a kind. */
static PyObject *symbol(const char *kind, const char *text)
{
    static PyObject *type;
    if (!type) {
        PyObject *m = PyImport_ImportModule("fxcc._symbol");
        type = m ? PyObject_GetAttrString(m, "Symbol") : NULL;
        Py_XDECREF(m);
        if (!type)
            return NULL;
    }
    return PyObject_CallFunction(type, "ss", text, kind);
}

static const struct {
    fx_arg_kind kind;
    const char *name;
} kinds[] = {{FX_ARG_DTYPE, "dtype"}, {FX_ARG_DEVICE, "device"}, {FX_ARG_LAYOUT, "layout"}, {FX_ARG_MEMORY_FORMAT, "memory_format"}, {FX_ARG_SYM, "size"}};

static PyObject *items_of(fxpy_graph *graph, const fx_value *v, bool tuple)
{
    PyObject *o = tuple ? PyTuple_New(v->n) : PyList_New(v->n);
    for (int i = 0; o && i < v->n; i++) {
        fx_value item = fx_value_item(v, i);
        PyObject *x = fxpy_from_value(graph, &item);
        if (!x || (tuple ? PyTuple_SetItem(o, i, x) : PyList_SetItem(o, i, x)) != 0)
            Py_CLEAR(o);
    }
    return o;
}

PyObject *fxpy_from_value(fxpy_graph *graph, const fx_value *v)
{
    switch (v->kind) {
    case FX_ARG_NONE: Py_RETURN_NONE;
    case FX_ARG_NODE: return fxpy_node_new(graph, v->as.node);
    case FX_ARG_BOOL: return PyBool_FromLong(v->as.b);
    case FX_ARG_INT: return PyLong_FromLongLong(v->as.i);
    case FX_ARG_FLOAT: return PyFloat_FromDouble(v->as.f[0]);
    case FX_ARG_COMPLEX: return PyComplex_FromDoubles(v->as.f[0], v->as.f[1]);
    case FX_ARG_STR: return PyUnicode_FromString(v->as.s);
    case FX_ARG_DTYPE: return symbol("dtype", fx_dtype_name(v->as.dtype));
    case FX_ARG_DEVICE: return symbol("device", v->as.s);
    case FX_ARG_LAYOUT: return symbol("layout", v->as.s);
    case FX_ARG_MEMORY_FORMAT: return symbol("memory_format", v->as.s);
    case FX_ARG_SYM: return symbol("size", v->as.s);
    case FX_ARG_LIST: return items_of(graph, v, false);
    case FX_ARG_TUPLE: return items_of(graph, v, true);
    case FX_ARG_GRAPH: return fxpy_graph_new(graph->context, v->as.graph);
    case FX_ARG_ELLIPSIS: Py_INCREF(Py_Ellipsis); return Py_Ellipsis;
    case FX_ARG_SLICE: {
        PyObject *parts = items_of(graph, v, true);
        PyObject *o = parts ? PySlice_New(PyTuple_GetItem(parts, 0), PyTuple_GetItem(parts, 1), PyTuple_GetItem(parts, 2)) : NULL;
        Py_XDECREF(parts);
        return o;
    }
    case FX_ARG_DICT: {
        PyObject *o = PyDict_New();
        for (int i = 0; o && i < v->n; i++) {
            fx_value item = fx_value_item(v, i);
            PyObject *x = fxpy_from_value(graph, &item);
            if (!x || PyDict_SetItemString(o, fx_value_key(v, i), x) != 0)
                Py_CLEAR(o);
            Py_XDECREF(x);
        }
        return o;
    }
    }
    return PyErr_Format(PyExc_SystemError, "an argument of kind %d", (int)v->kind);
}

/* Memory that lives as long as the list: a bytes object in it. */
static void *kept(PyObject *keep, size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(size ? size : 1));
    void *p = bytes && PyList_Append(keep, bytes) == 0 ? PyBytes_AsString(bytes) : NULL;
    Py_XDECREF(bytes); /* the list has it */
    return p;
}

static const char *text_of(PyObject *keep, PyObject *o)
{
    PyObject *bytes = PyUnicode_AsUTF8String(o);
    const char *s = bytes && PyList_Append(keep, bytes) == 0 ? PyBytes_AsString(bytes) : NULL;
    Py_XDECREF(bytes);
    if (s && strlen(s) != (size_t)PyBytes_Size(bytes)) {
        PyErr_SetString(PyExc_ValueError, "expected a string without zero characters");
        return NULL;
    }
    return s;
}

enum { MOST_NESTED = 90 }; /* texts of graphs take 100 levels */
static int convert(fxpy_graph *graph, PyObject *o, PyObject *keep, int depth, fx_value *v);

static int sequence(fxpy_graph *graph, fx_arg_kind kind, PyObject *o, PyObject *keep, int depth, fx_value *v)
{
    Py_ssize_t n = PySequence_Size(o);
    fx_value *items = n >= 0 ? kept(keep, (size_t)n * sizeof *items) : NULL;
    if (!items)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PySequence_GetItem(o, i);
        int rc = x ? convert(graph, x, keep, depth, &items[i]) : -1;
        Py_XDECREF(x);
        if (rc != 0)
            return -1;
    }
    *v = fx_v_seq(kind, (int)n, items);
    return 0;
}

static int dict(fxpy_graph *graph, PyObject *o, PyObject *keep, int depth, fx_value *v)
{
    Py_ssize_t n = PyDict_Size(o), at = 0;
    fx_value *items = kept(keep, (size_t)n * sizeof *items);
    const char **keys = items ? kept(keep, (size_t)n * sizeof *keys) : NULL;
    PyObject *key, *x;
    if (!keys)
        return -1;
    for (int i = 0; PyDict_Next(o, &at, &key, &x); i++) {
        if (!PyUnicode_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "expected strings as keys of a dict in arguments");
            return -1;
        }
        if (!(keys[i] = text_of(keep, key)) || convert(graph, x, keep, depth, &items[i]) != 0)
            return -1;
    }
    *v = fx_v_dict((int)n, keys, items);
    return 0;
}

/* A Symbol, or an object of torch that is one by its text: torch.float32, torch.device("cpu"). */
static int named(PyObject *o, const char *kind, PyObject *keep, fx_value *v)
{
    const char *s = text_of(keep, o);
    if (!s)
        return -1;
    if (!strncmp(s, "torch.", 6) && !strcmp(kind, "dtype"))
        s += 6;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].name, kind) && kinds[i].kind != FX_ARG_DTYPE) {
            *v = fx_v_text(kinds[i].kind, s);
            return 0;
        }
    for (int d = 0; d < FX_DTYPE_COUNT; d++)
        if (!strcmp(fx_dtype_name((fx_dtype)d), s)) {
            *v = fx_v_dtype((fx_dtype)d);
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "expected a dtype of fxcc, got '%s'", s);
    return -1;
}

static int slice(fxpy_graph *graph, PyObject *o, PyObject *keep, int depth, fx_value *v)
{
    static const char *const parts[] = {"start", "stop", "step"};
    fx_value *items = kept(keep, 3 * sizeof *items);
    for (int i = 0; items && i < 3; i++) {
        PyObject *x = PyObject_GetAttrString(o, parts[i]);
        int rc = x ? convert(graph, x, keep, depth, &items[i]) : -1;
        Py_XDECREF(x);
        if (rc != 0)
            return -1;
    }
    if (!items)
        return -1;
    *v = fx_v_seq(FX_ARG_SLICE, 3, items);
    return 0;
}

/* Of torch: by the name of the type, so that torch need not be imported. */
static const char *torch_kind(PyObject *o)
{
    static const char *const types[][2] = {{"dtype", "dtype"}, {"device", "device"}, {"layout", "layout"}, {"memory_format", "memory_format"}};
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__module__"), *name = PyType_GetName(Py_TYPE(o));
    const char *kind = NULL;
    if (module && name && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "torch") == 0)
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
            if (PyUnicode_CompareWithASCIIString(name, types[i][0]) == 0)
                kind = types[i][1];
    Py_XDECREF(module);
    Py_XDECREF(name);
    PyErr_Clear();
    return kind;
}

static int convert(fxpy_graph *graph, PyObject *o, PyObject *keep, int depth, fx_value *v)
{
    *v = fx_v_none();
    if (depth > MOST_NESTED) {
        PyErr_Format(PyExc_ValueError, "an argument is nested deeper than %d levels", MOST_NESTED);
        return -1;
    }
    if (o == Py_None)
        return 0;
    if (Py_TYPE(o) == fxpy_node_type) {
        if (((fxpy_node *)o)->graph->g != graph->g) {
            PyErr_Format(PyExc_ValueError, "node '%s' is of another graph", fx_node_name(((fxpy_node *)o)->n));
            return -1;
        }
        *v = fx_v_node(((fxpy_node *)o)->n);
        return 0;
    }
    if (PyBool_Check(o)) {
        *v = fx_v_bool(o == Py_True);
        return 0;
    }
    if (PyLong_Check(o)) {
        long long i = PyLong_AsLongLong(o);
        *v = fx_v_int(i);
        return i == -1 && PyErr_Occurred() ? -1 : 0;
    }
    if (PyFloat_Check(o)) {
        *v = fx_v_float(PyFloat_AsDouble(o));
        return 0;
    }
    if (PyComplex_Check(o)) {
        *v = fx_v_complex(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
        return 0;
    }
    if (PyUnicode_Check(o)) {
        if (PyUnicode_CheckExact(o)) {
            const char *s = text_of(keep, o);
            *v = fx_v_str(s);
            return s ? 0 : -1;
        }
        PyObject *kind = PyObject_GetAttrString(o, "kind");
        const char *name = kind ? text_of(keep, kind) : NULL;
        Py_XDECREF(kind);
        return name ? named(o, name, keep, v) : -1;
    }
    if (o == Py_Ellipsis) {
        *v = fx_v_ellipsis();
        return 0;
    }
    if (PySlice_Check(o))
        return slice(graph, o, keep, depth + 1, v);
    if (PyTuple_Check(o))
        return sequence(graph, FX_ARG_TUPLE, o, keep, depth + 1, v);
    if (PyList_Check(o))
        return sequence(graph, FX_ARG_LIST, o, keep, depth + 1, v);
    if (PyDict_Check(o))
        return dict(graph, o, keep, depth + 1, v);
    if (Py_TYPE(o) == fxpy_graph_type) {
        *v = fx_v_graph(((fxpy_graph *)o)->g);
        return 0;
    }
    const char *kind = torch_kind(o);
    if (kind) {
        PyObject *text = PyObject_Str(o);
        int rc = text ? named(text, kind, keep, v) : -1;
        Py_XDECREF(text);
        return rc;
    }
    PyObject *name = PyType_GetQualName(Py_TYPE(o));
    PyErr_Format(PyExc_TypeError, "expected an argument that a graph can hold, got %U", name ? name : Py_None);
    Py_XDECREF(name);
    return -1;
}

int fxpy_to_value(fxpy_graph *graph, PyObject *o, PyObject *keep, fx_value *v)
{
    return convert(graph, o, keep, 0, v);
}
