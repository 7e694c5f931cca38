/* python/core/memory.c: fxcc.Tensor: memory of a graph or function as an array: the buffer protocol and DLPack, without copies.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "dlpack.h"
#include "function.h"

typedef struct fxpy_memory {
    PyObject_HEAD
    PyObject *owner;             /* keeps the memory: a Graph, a Function, a bytearray */
    fx_tensor t;
    bool readonly;
    Py_ssize_t shape[FX_MAX_RANK], strides[FX_MAX_RANK]; /* of the buffer protocol: in bytes */
} fxpy_memory;

PyTypeObject *fxpy_memory_type;

PyObject *fxpy_memory_new(PyObject *owner, const fx_tensor *t, bool readonly)
{
    fxpy_memory *self = PyObject_New(fxpy_memory, fxpy_memory_type);
    if (!self)
        return NULL;
    Py_INCREF(owner);
    self->owner = owner;
    self->t = *t;
    self->readonly = readonly;
    for (int d = 0; d < t->rank; d++) {
        self->shape[d] = (Py_ssize_t)t->sizes[d];
        self->strides[d] = (Py_ssize_t)(t->strides[d] * (int64_t)fx_dtype_size(t->dtype));
    }
    if (Py_TYPE(owner) == fxpy_function_type)
        fxpy_function_looked((fxpy_function *)owner, 1);
    return (PyObject *)self;
}

PyObject *fxpy_memory_make(fx_tensor *t)
{
    int64_t numel = 1, bytes = (int64_t)fx_dtype_size(t->dtype);
    for (int d = t->rank; d-- > 0; numel *= t->sizes[d])
        t->strides[d] = numel;
    PyObject *block = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(numel * bytes)), *o = NULL;
    if (block) {
        t->data = PyByteArray_AsString(block);
        o = fxpy_memory_new(block, t, false);
    }
    Py_XDECREF(block);
    return o;
}

static void memory_dealloc(PyObject *o)
{
    fxpy_memory *self = (fxpy_memory *)o;
    PyTypeObject *type = Py_TYPE(o);
    if (Py_TYPE(self->owner) == fxpy_function_type)
        fxpy_function_looked((fxpy_function *)self->owner, -1);
    Py_DECREF(self->owner);
    PyObject_Free(o);
    Py_DECREF((PyObject *)type);
}

const fx_tensor *fxpy_memory_tensor(PyObject *o, bool *readonly)
{
    *readonly = ((fxpy_memory *)o)->readonly;
    return &((fxpy_memory *)o)->t;
}

static int get_buffer(PyObject *o, Py_buffer *view, int flags)
{
    fxpy_memory *self = (fxpy_memory *)o;
    const char *format = fxpy_dtype_format(self->t.dtype);
    bool dense = fx_tensor_is_contiguous(&self->t);
    view->obj = NULL;
    if (!format || ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && self->readonly) || ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !dense)) {
        PyErr_SetString(PyExc_BufferError, !format           ? "the buffer protocol has no form for this dtype: use torch.from_dlpack"
                                           : self->readonly ? "the tensor is read-only"
                                                            : "the tensor is not dense");
        return -1;
    }
    Py_INCREF(o);
    *view = (Py_buffer){.buf = self->t.data, .obj = o, .len = (Py_ssize_t)(fx_tensor_numel(&self->t) * (int64_t)fx_dtype_size(self->t.dtype)),
                        .itemsize = (Py_ssize_t)fx_dtype_size(self->t.dtype), .readonly = self->readonly, .ndim = self->t.rank,
                        .format = flags & PyBUF_FORMAT ? (char *)format : NULL, .shape = flags & PyBUF_ND ? self->shape : NULL,
                        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL};
    return 0;
}

/* ---- DLPack -------------------------------------------------------------------------------------------------------------------- */

typedef struct exported {
    dl_managed m;
    PyObject *owner;
} exported;

static void release(dl_managed *m)
{
    PyGILState_STATE gil = PyGILState_Ensure(); /* torch frees where it likes */
    Py_DECREF(((exported *)m)->owner);
    PyGILState_Release(gil);
    free(m);
}

static void unused_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    }
}

static PyObject *dlpack(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    fxpy_memory *self = (fxpy_memory *)o;
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    dl_dtype dtype;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
        return NULL;
    if (self->readonly || copy == Py_True || !fxpy_dtype_dl(self->t.dtype, &dtype.code, &dtype.bits)) {
        PyErr_SetString(PyExc_BufferError, self->readonly ? "the tensor is read-only, which DLPack cannot say here: use numpy()"
                                           : copy == Py_True ? "copy=True: copy what from_dlpack gives" : "DLPack has no form for this dtype");
        return NULL;
    }
    dtype.lanes = 1;
    exported *e = malloc(sizeof *e);
    if (!e)
        return PyErr_NoMemory();
    *e = (exported){.m = {.t = {.data = self->t.data, .device = {DL_CPU, 0}, .ndim = self->t.rank, .dtype = dtype, .shape = self->t.sizes,
                                .strides = self->t.strides},
                          .deleter = release},
                    .owner = o};
    Py_INCREF(o);
    PyObject *capsule = PyCapsule_New(&e->m, "dltensor", unused_capsule);
    if (!capsule)
        release(&e->m);
    return capsule;
}

static PyObject *dlpack_device(PyObject *o, PyObject *unused)
{
    (void)o;
    (void)unused;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

/* ---- as an object ------------------------------------------------------------------------------------------------------------------ */

static PyObject *call_of(const char *module, const char *function, PyObject *arg)
{
    PyObject *m = PyImport_ImportModule(module), *o = m ? PyObject_CallMethod(m, function, "O", arg) : NULL;
    Py_XDECREF(m);
    return o;
}

static PyObject *numpy(PyObject *o, PyObject *unused)
{
    (void)unused;
    PyObject *view = PyMemoryView_FromObject(o), *array = view ? call_of("numpy", "asarray", view) : NULL;
    Py_XDECREF(view);
    return array;
}

static PyObject *torch(PyObject *o, PyObject *unused)
{
    (void)unused;
    return call_of("torch", "from_dlpack", o);
}

static PyObject *tolist(PyObject *o, PyObject *unused)
{
    (void)unused;
    PyObject *view = PyMemoryView_FromObject(o), *list = view ? PyObject_CallMethod(view, "tolist", NULL) : NULL;
    Py_XDECREF(view);
    return list;
}

static PyObject *numbers(const int64_t *v, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int d = 0; tuple && d < n; d++)
        PyTuple_SetItem(tuple, d, PyLong_FromLongLong(v[d]));
    return tuple;
}

static PyObject *get_shape(PyObject *o, void *unused)
{
    (void)unused;
    return numbers(((fxpy_memory *)o)->t.sizes, ((fxpy_memory *)o)->t.rank);
}

static PyObject *get_strides(PyObject *o, void *unused)
{
    (void)unused;
    return numbers(((fxpy_memory *)o)->t.strides, ((fxpy_memory *)o)->t.rank);
}

static PyObject *get_dtype(PyObject *o, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(fx_dtype_name(((fxpy_memory *)o)->t.dtype));
}

static PyObject *get_readonly(PyObject *o, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((fxpy_memory *)o)->readonly);
}

static PyObject *repr(PyObject *o)
{
    PyObject *shape = get_shape(o, NULL);
    PyObject *text = shape ? PyUnicode_FromFormat("<fxcc.Tensor of %s %R>", fx_dtype_name(((fxpy_memory *)o)->t.dtype), shape) : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyMethodDef methods[] = {
    {"numpy", numpy, METH_NOARGS, "numpy($self)\n--\n\n-> numpy.ndarray: The same memory. BufferError for dtypes that NumPy lacks (bfloat16)."},
    {"torch", torch, METH_NOARGS, "torch($self)\n--\n\n-> torch.Tensor: The same memory. BufferError when it is read-only."},
    {"tolist", tolist, METH_NOARGS, "tolist($self)\n--\n\n-> list: Its elements in nested lists; a number when there are no dimensions."},
    {"__dlpack__", FXPY_KEYWORDS(dlpack), "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule of the same memory."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "__dlpack_device__($self)\n--\n\n-> (1, 0): The CPU."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getters[] = {{"shape", get_shape, NULL, "sizes, a tuple", NULL},
                                {"strides", get_strides, NULL, "strides in elements, a tuple", NULL},
                                {"dtype", get_dtype, NULL, "'float32'", NULL},
                                {"readonly", get_readonly, NULL, "whether its elements must not be written", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_dealloc, memory_dealloc},
                              {Py_tp_repr, repr},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_bf_getbuffer, get_buffer},
                              {Py_tp_doc, "Memory of a Graph or Function as an array, to be read and (unless readonly) written in place: numpy.asarray, memoryview and\n"
                                          "torch.from_dlpack take it. It keeps what it is of alive."},
                              {0, NULL}};
PyType_Spec fxpy_memory_spec = {"fxcc.Tensor", sizeof(fxpy_memory), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
