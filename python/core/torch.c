/* python/core/torch.c: what fxcc.dynamo needs beside graphs and functions: places of nodes, whether tensors of torch are still the same.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "core.h"

static PyObject *set_location(PyObject *self, PyObject *args)
{
    PyObject *o;
    const char *module, *frame;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!zz:set_location", fxpy_node_type, &o, &module, &frame))
        return NULL;
    fxpy_node *node = (fxpy_node *)o;
    fxpy_context *c = node->graph->context;
    fxpy_enter(c);
    size_t since = fx_diag_count(c->ctx);
    fx_status status = fx_node_set_location(node->n, module, frame);
    return fxpy_done(c, status, since);
}

/* Where the elements of tensors are, and torch's count of writes to them: equal bytes, equal tensors. */
static PyObject *fingerprint(PyObject *self, PyObject *args)
{
    static PyObject *version;
    static const fxpy_what what = {.text = "a parameter"};
    PyObject *list, *which;
    (void)self;
    if (!version && !(version = PyUnicode_InternFromString("_version")))
        return NULL;
    if (!PyArg_ParseTuple(args, "O!O!:fingerprint", &PyList_Type, &list, &PyTuple_Type, &which))
        return NULL;
    Py_ssize_t n = PyTuple_Size(which);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, n * 16);
    char *out = bytes ? PyBytes_AsString(bytes) : NULL;
    for (Py_ssize_t i = 0; bytes && i < n; i++, out += 16) {
        Py_ssize_t k = PyLong_AsSsize_t(PyTuple_GetItem(which, i));
        PyObject *o = k == -1 && PyErr_Occurred() ? NULL : PyList_GetItem(list, k), *count = o ? PyObject_GetAttr(o, version) : NULL;
        int64_t seen[2] = {0, count ? PyLong_AsLongLong(count) : -1};
        fxpy_tensor t;
        if (count && fxpy_tensor_from(o, &what, &t) == 0) {
            seen[0] = (int64_t)(intptr_t)t.t.data;
            fxpy_tensor_done(&t);
        }
        Py_XDECREF(count);
        if (PyErr_Occurred())
            Py_CLEAR(bytes);
        else
            memcpy(out, seen, sizeof seen);
    }
    return bytes;
}

PyMethodDef fxpy_torch_functions[] = {
    {"set_location", set_location, METH_VARARGS, "set_location($module, node, module, frame, /)\n--\n\nWhere the node comes from, for messages; None: unknown."},
    {"fingerprint", fingerprint, METH_VARARGS,
     "fingerprint($module, tensors, which, /)\n--\n\n-> bytes: Of the tensors of torch at these indices of a list: 16 bytes each, its address and count of writes."},
    {NULL, NULL, 0, NULL}};
