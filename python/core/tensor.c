/* python/core/tensor.c: arrays and tensors of Python, without copies: the buffer protocol and DLPack.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "core.h"
#include "dlpack.h"

/* ---- dtypes -------------------------------------------------------------------------------------------------------------- */

static const struct {
    fx_dtype dtype;
    const char *formats;         /* of the buffer protocol, native sizes */
    uint8_t code, bits;          /* of DLPack */
    const char *name;
} dtypes[] = {
    {FX_F32, "f", DL_FLOAT, 32, "float32"}, {FX_F64, "d", DL_FLOAT, 64, "float64"}, {FX_F16, "e", DL_FLOAT, 16, "float16"},
    {FX_BF16, "", DL_BFLOAT, 16, "bfloat16"}, {FX_I8, "b", DL_INT, 8, "int8"}, {FX_I16, "h", DL_INT, 16, "int16"},
    {FX_I32, "i", DL_INT, 32, "int32"}, {FX_I64, "lq", DL_INT, 64, "int64"}, {FX_U8, "B", DL_UINT, 8, "uint8"}, {FX_BOOL, "?", DL_BOOL, 8, "bool"},
};
enum { N_DTYPES = sizeof dtypes / sizeof dtypes[0] };

static int set_sizes(fx_tensor *t, int rank, const char *what)
{
    if (rank > FX_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "%s: expected at most %d dimensions, got %d", what, FX_MAX_RANK, rank);
        return -1;
    }
    t->rank = rank;
    return 0;
}

/* ---- the buffer protocol ---------------------------------------------------------------------------------------------------- */

static int from_buffer(PyObject *o, const char *what, fxpy_tensor *out)
{
    if (PyObject_GetBuffer(o, &out->view, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0)
        return -1;
    out->has_view = true;
    const Py_buffer *v = &out->view;
    const char *format = v->format ? v->format : "B";
    if (*format == '@' || *format == '=' || *format == '<') /* the machine is little-endian, and sizes are checked */
        format++;
    int k = 0;
    while (k < N_DTYPES && !(format[0] && !format[1] && strchr(dtypes[k].formats, format[0]) && fx_dtype_size(dtypes[k].dtype) == (size_t)v->itemsize))
        k++;
    if (k == N_DTYPES) {
        PyErr_Format(PyExc_TypeError, "%s: fxcc has no dtype for elements of format '%s'", what, v->format ? v->format : "B");
        return -1;
    }
    out->t.dtype = dtypes[k].dtype;
    out->t.data = v->buf;
    if (set_sizes(&out->t, v->ndim, what) != 0)
        return -1;
    for (int d = 0; d < v->ndim; d++) {
        out->t.sizes[d] = v->shape[d];
        if (v->strides[d] % v->itemsize != 0) {
            PyErr_Format(PyExc_ValueError, "%s: stride %zd of dim %d is no multiple of the %zd bytes of an element", what, v->strides[d], d, v->itemsize);
            return -1;
        }
        out->t.strides[d] = v->strides[d] / v->itemsize;
    }
    return 0;
}

/* ---- DLPack ------------------------------------------------------------------------------------------------------------------ */

static int from_dl(const dl_tensor *d, const char *what, fxpy_tensor *out)
{
    if (d->device.type != DL_CPU && d->device.type != DL_CPU_PINNED) {
        PyErr_Format(PyExc_ValueError, "%s: expected a tensor on the CPU, got one on device type %d; use .cpu()", what, (int)d->device.type);
        return -1;
    }
    int k = 0;
    while (k < N_DTYPES && !(d->dtype.lanes == 1 && d->dtype.code == dtypes[k].code && d->dtype.bits == dtypes[k].bits))
        k++;
    if (k == N_DTYPES) {
        PyErr_Format(PyExc_TypeError, "%s: fxcc has no dtype for elements of code %d, %d bits", what, d->dtype.code, d->dtype.bits);
        return -1;
    }
    out->t.dtype = dtypes[k].dtype;
    out->t.data = (char *)d->data + d->byte_offset;
    out->torch = true;
    if (set_sizes(&out->t, d->ndim, what) != 0)
        return -1;
    int64_t dense = 1;
    for (int i = d->ndim - 1; i >= 0; i--) {
        out->t.sizes[i] = d->shape[i];
        out->t.strides[i] = d->strides ? d->strides[i] : dense;
        dense *= d->shape[i];
    }
    return 0;
}

/* The functions of a type that has DLPack's C interface, found once a type; NULL: it has none. */
static const dl_exchange *exchange_of(PyObject *o)
{
    static PyTypeObject *last;   /* the GIL is held */
    static const dl_exchange *last_api;
    PyTypeObject *type = Py_TYPE(o);
    if (type == last)
        return last_api;
    const dl_exchange *api = NULL;
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
        api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_XDECREF(capsule);
    PyErr_Clear();
    while (api && api->version.major != 1)
        api = api->previous;
    if (api && !api->tensor_from)
        api = NULL;
    Py_INCREF((PyObject *)type); /* kept, so that its address stays its own */
    Py_XDECREF((PyObject *)last);
    last = type;
    last_api = api;
    return api;
}

static int from_capsule(PyObject *o, const char *what, fxpy_tensor *out)
{
    PyObject *capsule = PyObject_CallMethod(o, "__dlpack__", NULL);
    if (!capsule)
        return -1;
    out->capsule = capsule;
    if (PyCapsule_IsValid(capsule, "dltensor"))
        return from_dl(&((dl_managed *)PyCapsule_GetPointer(capsule, "dltensor"))->t, what, out);
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return from_dl(&((dl_managed_versioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned"))->t, what, out);
    PyErr_Format(PyExc_TypeError, "%s: its __dlpack__ gave no DLPack capsule", what);
    return -1;
}

int fxpy_tensor_from(PyObject *o, const char *what, fxpy_tensor *out)
{
    memset(out, 0, sizeof *out);
    const dl_exchange *api = exchange_of(o);
    int rc;
    if (api) {
        dl_tensor d;
        rc = api->tensor_from(o, &d) == 0 ? from_dl(&d, what, out) : -1;
    } else if (PyObject_CheckBuffer(o)) {
        rc = from_buffer(o, what, out);
    } else if (PyObject_HasAttrString(o, "__dlpack__")) {
        rc = from_capsule(o, what, out);
    } else {
        PyObject *name = PyType_GetQualName(Py_TYPE(o));
        PyErr_Format(PyExc_TypeError, "%s: expected a NumPy array or a torch tensor, got %U", what, name ? name : Py_None);
        Py_XDECREF(name);
        rc = -1;
    }
    if (rc != 0)
        fxpy_tensor_done(out);
    return rc;
}

void fxpy_tensor_done(fxpy_tensor *t)
{
    if (t->has_view)
        PyBuffer_Release(&t->view);
    t->has_view = false;
    Py_CLEAR(t->capsule);
}

static void release_view(PyObject *capsule)
{
    Py_buffer *view = PyCapsule_GetPointer(capsule, NULL);
    if (view)
        PyBuffer_Release(view);
    PyMem_Free(view);
}

int fxpy_tensor_keep(fxpy_context *c, PyObject *o, fxpy_tensor *t)
{
    PyObject *held = t->capsule ? t->capsule : o;
    if (t->has_view) {
        Py_buffer *view = PyMem_Malloc(sizeof *view);
        held = NULL;
        if (!view) {
            PyErr_NoMemory();
        } else if (PyObject_GetBuffer(o, view, PyBUF_STRIDED_RO) != 0) { /* one more: a view must not move */
            PyMem_Free(view);
        } else if (!(held = PyCapsule_New(view, NULL, release_view))) {
            PyBuffer_Release(view);
            PyMem_Free(view);
        }
    } else {
        Py_INCREF(held);
    }
    int rc = held ? PyList_Append(c->keep, held) : -1;
    Py_XDECREF(held);
    fxpy_tensor_done(t);
    return rc;
}

/* ---- results -------------------------------------------------------------------------------------------------------------------- */

static PyObject *attribute(const char *module, const char *name)
{
    PyObject *m = PyImport_ImportModule(module), *a = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    return a;
}

/* numpy.empty, torch.empty and their dtypes, found once. */
static PyObject *maker(bool torch)
{
    static PyObject *empty[2];
    if (!empty[torch])
        empty[torch] = attribute(torch ? "torch" : "numpy", "empty");
    return empty[torch];
}

static PyObject *dtype_object(bool torch, int k)
{
    static PyObject *made[2][N_DTYPES];
    if (!made[torch][k]) {
        if (!torch && dtypes[k].dtype == FX_BF16) {
            made[0][k] = attribute("ml_dtypes", "bfloat16");
            if (!made[0][k])
                PyErr_SetString(PyExc_TypeError, "NumPy has no bfloat16: pass torch tensors, or install ml_dtypes");
        } else {
            made[torch][k] = attribute(torch ? "torch" : "numpy", !torch && dtypes[k].dtype == FX_BOOL ? "bool_" : dtypes[k].name);
        }
    }
    return made[torch][k];
}

PyObject *fxpy_tensor_make(PyObject *like, fx_tensor *t, fxpy_tensor *view)
{
    bool torch = like && !PyObject_CheckBuffer(like);
    int k = 0;
    while (k < N_DTYPES && dtypes[k].dtype != t->dtype)
        k++;
    if (k == N_DTYPES)
        return PyErr_Format(PyExc_TypeError, "there is no array of %s", fx_dtype_name(t->dtype));
    PyObject *make = maker(torch), *dtype = dtype_object(torch, k), *shape = PyTuple_New(t->rank), *o = NULL;
    for (int d = 0; shape && d < t->rank; d++)
        PyTuple_SetItem(shape, d, PyLong_FromLongLong(t->sizes[d]));
    PyObject *args = shape ? PyTuple_Pack(1, shape) : NULL, *kwargs = PyDict_New();
    if (make && dtype && args && kwargs && !PyErr_Occurred() && PyDict_SetItemString(kwargs, "dtype", dtype) == 0)
        o = PyObject_Call(make, args, kwargs);
    Py_XDECREF(shape);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    memset(view, 0, sizeof *view);
    if (o && fxpy_tensor_from(o, "output", view) != 0)
        Py_CLEAR(o);
    if (o)
        t->data = view->t.data;
    return o;
}
