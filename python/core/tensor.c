/* python/core/tensor.c: arrays and tensors of Python, without copies: the buffer protocol and DLPack.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdarg.h>
#include <stdlib.h>
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

const char *fxpy_dtype_format(fx_dtype dtype)
{
    static const char *const formats[] = {"f", "d", "e", NULL, "b", "h", "i", "q", "B", "?", "Zf", "Zd"}; /* by fx_dtype */
    return (size_t)dtype < sizeof formats / sizeof formats[0] ? formats[dtype] : NULL;
}

bool fxpy_dtype_dl(fx_dtype dtype, uint8_t *code, uint8_t *bits)
{
    for (int k = 0; k < N_DTYPES; k++)
        if (dtypes[k].dtype == dtype) {
            *code = dtypes[k].code;
            *bits = dtypes[k].bits;
            return true;
        }
    return false;
}

/* ---- errors ---------------------------------------------------------------------------------------------------------------- */

PyObject *fxpy_what_text(const fxpy_what *what)
{
    if (!what->names)
        return PyUnicode_FromString(what->text);
    return PyUnicode_FromFormat("input %zd '%U'", what->i, PyTuple_GetItem(what->names, what->i));
}

/* Raises "input 0 'x': ..."; always -1. */
static int refuse(PyObject *type, const fxpy_what *what, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    PyObject *text = fxpy_what_text(what), *reason = text ? PyUnicode_FromFormatV(format, ap) : NULL;
    va_end(ap);
    if (reason)
        PyErr_Format(type, "%U: %U", text, reason);
    Py_XDECREF(text);
    Py_XDECREF(reason);
    return -1;
}

/* What its own library says of an object that it does not hand over: said of the input, as our error. KeyboardInterrupt and the like stay. */
static int refuse_with_theirs(const fxpy_what *what)
{
    PyObject *type, *value, *trace;
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL, *lines = text ? PyUnicode_Splitlines(text, 0) : NULL;
    PyObject *first = lines ? PyList_GetItem(lines, 0) : NULL; /* C++ shows its stack below */
    PyErr_Clear();
    refuse(fxpy_exception(FX_ERR_ARGUMENT), what, first ? "its memory cannot be read: %U" : "its memory cannot be read", first);
    Py_XDECREF(lines);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return -1;
}

static int set_sizes(fx_tensor *t, int rank, const fxpy_what *what)
{
    if (rank < 0 || rank > FX_MAX_RANK)
        return refuse(fxpy_exception(FX_ERR_ARGUMENT), what, "expected at most %d dimensions, got %d", FX_MAX_RANK, rank);
    t->rank = rank;
    return 0;
}

/* ---- the buffer protocol ---------------------------------------------------------------------------------------------------- */

static int from_buffer(PyObject *o, const fxpy_what *what, fxpy_tensor *out)
{
    if (PyObject_GetBuffer(o, &out->view, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0)
        return refuse_with_theirs(what);
    out->has_view = true;
    const Py_buffer *v = &out->view;
    const char *format = v->format ? v->format : "B";
    if (*format == '@' || *format == '=' || *format == '<') /* the machine is little-endian, and sizes are checked */
        format++;
    int k = 0;
    while (k < N_DTYPES && !(format[0] && !format[1] && strchr(dtypes[k].formats, format[0]) && fx_dtype_size(dtypes[k].dtype) == (size_t)v->itemsize))
        k++;
    if (k == N_DTYPES)
        return refuse(PyExc_TypeError, what, "fxcc has no dtype for elements of format '%s'", v->format ? v->format : "B");
    out->t.dtype = dtypes[k].dtype;
    out->t.data = v->buf;
    out->readonly = v->readonly;
    if (set_sizes(&out->t, v->ndim, what) != 0)
        return -1;
    if (v->ndim > 1 && !v->shape)
        return refuse(fxpy_exception(FX_ERR_ARGUMENT), what, "its memory cannot be read: it has %d dims, and no sizes", v->ndim);
    Py_ssize_t dense = v->itemsize; /* who gives no sizes or strides (NumPy's datetime64) has bytes in a row */
    for (int d = v->ndim - 1; d >= 0; d--) {
        Py_ssize_t stride = v->strides ? v->strides[d] : dense;
        out->t.sizes[d] = v->shape ? v->shape[d] : v->len / v->itemsize;
        if (stride % v->itemsize != 0)
            return refuse(fxpy_exception(FX_ERR_ARGUMENT), what, "stride %zd of dim %d is no multiple of the %zd bytes of an element: pass a copy",
                          stride, d, v->itemsize);
        out->t.strides[d] = stride / v->itemsize;
        (void)__builtin_mul_overflow(dense, (Py_ssize_t)out->t.sizes[d], &dense); /* what reaches further than memory is refused by its sizes */
    }
    return 0;
}

/* ---- DLPack ------------------------------------------------------------------------------------------------------------------ */

static bool has_elements(const dl_tensor *d)
{
    for (int i = 0; i < d->ndim; i++)
        if (!d->shape[i])
            return false;
    return true;
}

static int from_dl(const dl_tensor *d, const fxpy_what *what, fxpy_tensor *out)
{
    out->on_device = what->devices && d->device.type == DL_CUDA;
    if (d->device.type != DL_CPU && d->device.type != DL_CPU_PINNED && !out->on_device)
        return refuse(fxpy_exception(FX_ERR_ARGUMENT), what, "expected a tensor on the CPU, got one on device %s (type %d of DLPack): pass .cpu()",
                      d->device.type == DL_CUDA ? "cuda" : "of another kind", (int)d->device.type);
    int k = 0;
    while (k < N_DTYPES && !(d->dtype.lanes == 1 && d->dtype.code == dtypes[k].code && d->dtype.bits == dtypes[k].bits))
        k++;
    if (k == N_DTYPES)
        return refuse(PyExc_TypeError, what, "fxcc has no dtype for elements of code %d, %d bits, of DLPack", d->dtype.code, d->dtype.bits);
    if (set_sizes(&out->t, d->ndim, what) != 0)
        return -1;
    out->t.dtype = dtypes[k].dtype;
    out->t.data = d->data ? (char *)d->data + d->byte_offset : NULL;
    if ((d->ndim > 0 && !d->shape) || (!out->t.data && has_elements(d))) /* sizes, or elements */
        return refuse(fxpy_exception(FX_ERR_ARGUMENT), what, "its memory cannot be read: there is none");
    int64_t dense = 1;
    for (int i = d->ndim - 1; i >= 0; i--) {
        out->t.sizes[i] = d->shape[i];
        out->t.strides[i] = d->strides ? d->strides[i] : dense;
        (void)__builtin_mul_overflow(dense, d->shape[i], &dense);
    }
    return 0;
}

/* What a type has of DLPack's C interface; api NULL: nothing. Found once a type: the last few are remembered. */
typedef struct exchange {
    PyTypeObject *type;
    const dl_exchange *api;
    bool negates;                /* torch's: elements may be the negatives of those in memory, of which DLPack knows nothing */
} exchange;

static const exchange *exchange_of(PyObject *o)
{
    enum { RECENT = 4 };
    static exchange recent[RECENT]; /* the GIL is held */
    static int next;
    PyTypeObject *type = Py_TYPE(o);
    for (int i = 0; i < RECENT; i++)
        if (recent[i].type == type)
            return &recent[i];
    const dl_exchange *api = NULL;
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
        api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_XDECREF(capsule);
    PyErr_Clear();
    while (api && api->version.major != 1)
        api = api->previous;
    if (api && (!api->tensor_from || !api->allocate || !api->to_object))
        api = NULL;
    Py_INCREF((PyObject *)type); /* kept, so that its address stays its own */
    exchange *e = &recent[next];
    PyTypeObject *old = e->type;
    *e = (exchange){type, api, api && PyObject_HasAttrString((PyObject *)type, "is_neg")};
    next = (next + 1) % RECENT;
    Py_XDECREF((PyObject *)old);
    return e;
}

/* Whether torch has only noted that the elements are to be negated (x.conj().imag); -1: an exception. */
static int is_negated(PyObject *o)
{
    static PyObject *name;
    if (!name && !(name = PyUnicode_InternFromString("is_neg")))
        return -1;
    PyObject *yes = PyObject_CallMethodObjArgs(o, name, NULL);
    int rc = yes ? yes == Py_True : -1;
    Py_XDECREF(yes);
    return rc;
}

static int from_exchange(const exchange *e, PyObject *o, const fxpy_what *what, fxpy_tensor *out)
{
    dl_tensor d;
    if (e->api->tensor_from(o, &d) != 0)
        return refuse_with_theirs(what);
    out->makes_own = true;
    int negated = e->negates ? is_negated(o) : 0;
    if (negated > 0)
        return refuse(fxpy_exception(FX_ERR_ARGUMENT), what, "its elements are not in memory as they are (its negative bit is set): pass .resolve_neg()");
    return negated ? -1 : from_dl(&d, what, out);
}

static int from_capsule(PyObject *o, const fxpy_what *what, fxpy_tensor *out)
{
    PyObject *capsule = PyObject_CallMethod(o, "__dlpack__", NULL);
    if (!capsule)
        return refuse_with_theirs(what);
    out->capsule = capsule;
    if (PyCapsule_IsValid(capsule, "dltensor"))
        return from_dl(&((dl_managed *)PyCapsule_GetPointer(capsule, "dltensor"))->t, what, out);
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        const dl_managed_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (m->version.major != 1) /* what follows the version may be anything */
            return refuse(fxpy_exception(FX_ERR_ARGUMENT), what, "expected DLPack 1, got version %d.%d", (int)m->version.major, (int)m->version.minor);
        out->readonly = (m->flags & DL_READ_ONLY) != 0;
        return from_dl(&m->t, what, out);
    }
    return refuse(PyExc_TypeError, what, "its __dlpack__ gave no DLPack capsule");
}

/* A GPU's memory as CuPy, Numba and others show it: __cuda_array_interface__, a dict. Of what DLPack cannot show. */
static int from_cuda_interface(PyObject *o, const fxpy_what *what, fxpy_tensor *out)
{
    PyObject *dict = PyObject_GetAttrString(o, "__cuda_array_interface__"), *shape = NULL, *strides = NULL, *data = NULL, *type = NULL;
    const char *name = NULL;
    int rc = -1, k = 0;
    if (dict && PyDict_Check(dict)) {
        shape = PyDict_GetItemString(dict, "shape");
        strides = PyDict_GetItemString(dict, "strides");
        data = PyDict_GetItemString(dict, "data");
        type = PyDict_GetItemString(dict, "typestr");
        name = type && PyUnicode_Check(type) ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
    }
    if (!name || strlen(name) < 3 || !shape || !PyTuple_Check(shape) || !data || !PyTuple_Check(data) || PyTuple_Size(data) != 2 ||
        (strides && strides != Py_None && (!PyTuple_Check(strides) || PyTuple_Size(strides) != PyTuple_Size(shape)))) {
        refuse(PyExc_TypeError, what, "its __cuda_array_interface__ is not as CUDA's is");
        goto done;
    }
    const uint8_t code = name[1] == 'f' ? DL_FLOAT : name[1] == 'i' ? DL_INT : name[1] == 'u' ? DL_UINT : name[1] == 'b' ? DL_BOOL : DL_COMPLEX;
    const long bits = 8 * strtol(name + 2, NULL, 10);
    while (k < N_DTYPES && (*name == '>' || dtypes[k].code != code || dtypes[k].bits != bits))
        k++;
    if (k == N_DTYPES) {
        refuse(PyExc_TypeError, what, "fxcc has no dtype for elements of type '%s'", name);
        goto done;
    }
    out->t.dtype = dtypes[k].dtype;
    out->on_device = true;
    out->readonly = PyObject_IsTrue(PyTuple_GetItem(data, 1)) == 1;
    out->t.data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
    if (set_sizes(&out->t, (int)PyTuple_Size(shape), what) != 0)
        goto done;
    int64_t dense = 1, size = (int64_t)fx_dtype_size(out->t.dtype);
    for (int d = out->t.rank; d-- > 0;) {
        int64_t n = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
        int64_t step = strides && strides != Py_None ? PyLong_AsLongLong(PyTuple_GetItem(strides, d)) : 0;
        if (step % size != 0) {
            refuse(fxpy_exception(FX_ERR_ARGUMENT), what, "stride %lld of dim %d is no multiple of the %lld bytes of an element: pass a copy", (long long)step, d,
                   (long long)size);
            goto done;
        }
        out->t.sizes[d] = n;
        out->t.strides[d] = strides && strides != Py_None ? step / size : dense;
        (void)__builtin_mul_overflow(dense, n, &dense);
    }
    rc = PyErr_Occurred() ? -1 : 0;
done:
    Py_XDECREF(dict);
    return rc;
}

int fxpy_tensor_from(PyObject *o, const fxpy_what *what, fxpy_tensor *out)
{
    memset(out, 0, sizeof *out);
    const exchange *e = exchange_of(o);
    int rc;
    if (e->api) {
        rc = from_exchange(e, o, what, out);
    } else if (Py_TYPE(o) == fxpy_memory_type) {
        out->t = *fxpy_memory_tensor(o, &out->readonly);
        rc = 0;
    } else if (PyObject_CheckBuffer(o)) {
        rc = from_buffer(o, what, out);
    } else if (PyObject_HasAttrString(o, "__dlpack__")) {
        rc = from_capsule(o, what, out);
    } else if (what->devices && PyObject_HasAttrString(o, "__cuda_array_interface__")) {
        rc = from_cuda_interface(o, what, out);
    } else {
        PyObject *name = PyType_GetQualName(Py_TYPE(o));
        if (name)
            refuse(PyExc_TypeError, what, "expected a NumPy array or a torch tensor, got %U", name);
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

char *fxpy_copy(const fx_tensor *t, int dim, char *strided, char *dense, bool back)
{
    size_t bytes = fx_dtype_size(t->dtype);
    if (dim == t->rank) {
        memcpy(back ? strided : dense, back ? dense : strided, bytes);
        return dense + bytes;
    }
    for (int64_t i = 0; i < t->sizes[dim]; i++)
        dense = fxpy_copy(t, dim + 1, strided + i * t->strides[dim] * (int64_t)bytes, dense, back);
    return dense;
}

/* ---- results -------------------------------------------------------------------------------------------------------------------- */

static PyObject *attribute(const char *module, const char *name)
{
    PyObject *m = PyImport_ImportModule(module), *a = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    return a;
}

bool fxpy_tensor_has_grad(PyObject *o)
{
    static PyObject *name, *enabled;
    if (!name && !(name = PyUnicode_InternFromString("requires_grad")))
        return false;
    PyObject *grad = PyObject_GetAttr(o, name);
    bool has = grad == Py_True;
    Py_XDECREF(grad);
    if (has && !enabled)
        enabled = attribute("torch", "is_grad_enabled");
    if (has && enabled) {
        PyObject *mode = PyObject_CallObject(enabled, NULL);
        has = mode == Py_True;
        Py_XDECREF(mode);
    }
    PyErr_Clear();
    return has;
}

/* numpy.empty, found once; None where there is no NumPy. Borrowed. */
static PyObject *numpy_empty(void)
{
    static PyObject *empty;
    if (!empty && !(empty = attribute("numpy", "empty")) && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear();
        Py_INCREF(Py_None);
        empty = Py_None;
    }
    return empty;
}

static PyObject *numpy_dtype(fx_dtype dtype)
{
    PyObject *o = dtype == FX_BF16 ? attribute("ml_dtypes", "bfloat16") : attribute("numpy", dtype == FX_BOOL ? "bool_" : fx_dtype_name(dtype));
    if (!o && dtype == FX_BF16)
        PyErr_SetString(PyExc_TypeError, "NumPy has no bfloat16: pass torch tensors, or install ml_dtypes");
    return o;
}

/* ((sizes), dtype), the arguments of numpy.empty; those of the last call where the sizes are the same. */
static PyObject *empty_args(const fx_tensor *t, PyObject **made)
{
    bool same = *made != NULL;
    PyObject *sizes = same ? PyTuple_GetItem(*made, 0) : NULL;
    for (int d = 0; same && d < t->rank; d++)
        same = PyLong_AsLongLong(PyTuple_GetItem(sizes, d)) == t->sizes[d];
    if (same)
        return *made;
    PyObject *dtype = numpy_dtype(t->dtype);
    sizes = dtype ? PyTuple_New(t->rank) : NULL;
    for (int d = 0; sizes && d < t->rank; d++) {
        PyObject *size = PyLong_FromLongLong(t->sizes[d]);
        if (!size || PyTuple_SetItem(sizes, d, size) != 0)
            Py_CLEAR(sizes);
    }
    PyObject *args = sizes ? PyTuple_Pack(2, sizes, dtype) : NULL;
    Py_XDECREF(sizes);
    Py_XDECREF(dtype);
    Py_XDECREF(*made);
    return *made = args;
}

static void say(void *user, const char *kind, const char *message)
{
    (void)user;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, message);
}

/* A tensor of the library that has this interface. */
static PyObject *make_like(const dl_exchange *api, int device, fx_tensor *t)
{
    dl_tensor wish = {.device = {device < 0 ? DL_CPU : DL_CUDA, device < 0 ? 0 : device}, .ndim = t->rank, .dtype = {.lanes = 1}, .shape = t->sizes};
    dl_managed_versioned *m;
    void *o = NULL;
    if (!fxpy_dtype_dl(t->dtype, &wish.dtype.code, &wish.dtype.bits))
        return PyErr_Format(PyExc_TypeError, "there is no tensor of %s", fx_dtype_name(t->dtype));
    if (api->allocate(&wish, &m, NULL, say) == 0) {
        t->data = (char *)m->t.data + m->t.byte_offset;
        if (api->to_object(m, &o) != 0)
            o = NULL;
    }
    if (!o && !PyErr_Occurred())
        PyErr_NoMemory();
    return o;
}

bool fxpy_stream_of(PyObject *o, int device, void **stream)
{
    const dl_exchange *api = exchange_of(o)->api;
    const bool has = api && api->stream && api->stream(DL_CUDA, device, stream) == 0;
    PyErr_Clear();
    return has;
}

PyObject *fxpy_tensor_make(PyObject *like, int device, fx_tensor *t, fxpy_tensor *view, PyObject **made)
{
    const dl_exchange *api = like ? exchange_of(like)->api : NULL;
    memset(view, 0, offsetof(fxpy_tensor, makes_own));
    if (api)
        return make_like(api, device, t);
    PyObject *empty = numpy_empty();
    if (empty == Py_None)
        return fxpy_memory_make(t);
    PyObject *args = empty ? empty_args(t, made) : NULL, *o = args ? PyObject_CallObject(empty, args) : NULL;
    if (o && PyObject_GetBuffer(o, &view->view, PyBUF_WRITABLE) != 0)
        Py_CLEAR(o);
    if (o) {
        view->has_view = true;
        t->data = view->view.buf;
    }
    return o;
}
