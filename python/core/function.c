/* python/core/function.c: compiled models, called with NumPy arrays or torch tensors.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdio.h>
#include <string.h>

#include "function.h"

/* ---- how a function of the JIT runs ------------------------------------------------------------------------------------------- */

static fx_status jit_outputs(fxpy_function *self, size_t n_in, const fx_tensor *in, size_t n_out, fx_tensor *out, char *error, size_t size)
{
    return fx_function_outputs(self->f, n_in, in, n_out, out, error, size);
}

static fx_status jit_run(fxpy_function *self, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error, size_t size)
{
    return fx_function_call(self->f, n_in, in, n_out, out, error, size);
}

static void jit_free(fxpy_function *self)
{
    fxpy_context *c = self->graph->context;
    fxpy_enter(c); /* what the function has of the context's memory goes back */
    fx_function_free(self->f);
    fxpy_leave(c);
    self->f = NULL;
}

static const fxpy_kind jit_kind = {"jit", jit_outputs, jit_run, jit_free};

/* ---- making one ------------------------------------------------------------------------------------------------------------------ */

static PyObject *function_vectorcall(PyObject *o, PyObject *const *args, size_t nargsf, PyObject *names);

PyObject *fxpy_output_tree(fxpy_graph *graph)
{
    fxpy_enter(graph->context);
    fx_value tree = fx_graph_output_tree(graph->g);
    PyObject *o = PyErr_Occurred() ? NULL : fxpy_from_value(graph, &tree); /* Ctrl-C may have come meanwhile */
    fxpy_leave(graph->context);
    return o;
}

PyObject *fxpy_function_bare(fxpy_graph *graph, const fxpy_kind *kind, PyObject *options, size_t n_in, size_t n_out)
{
    fxpy_function *self = PyObject_New(fxpy_function, fxpy_function_type);
    if (!self)
        return NULL;
    memset((char *)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
    Py_INCREF((PyObject *)graph);
    Py_XINCREF(options);
    self->vectorcall = function_vectorcall;
    self->graph = graph;
    self->kind = kind;
    self->options = options;
    self->n_in = (Py_ssize_t)n_in;
    self->n_out = (Py_ssize_t)n_out;
    self->tree = fxpy_output_tree(graph);
    self->names = PyTuple_New(self->n_in);
    self->made = PyMem_Calloc(n_out + 1, sizeof *self->made);
    if (!self->made)
        PyErr_NoMemory();
    if (!self->tree || !self->names || !self->made) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

int fxpy_function_name(fxpy_function *self, Py_ssize_t i, const char *name)
{
    PyObject *text = PyUnicode_InternFromString(name);
    return text ? PyTuple_SetItem(self->names, i, text) : -1;
}

PyObject *fxpy_function_new(fxpy_graph *graph, const fx_jit_options *options, PyObject *given)
{
    fx_function *f = NULL;
    FXPY_UNLOCKED(graph, fx_jit_compile(graph->g, options, &f))
    PyObject *result = NULL;
    if (status != FX_OK) {
        fxpy_raise(c, status, since);
    } else if (fxpy_warn(c, since) == 0) {
        result = fxpy_function_bare(graph, &jit_kind, given, fx_function_input_count(f), fx_function_output_count(f));
        for (Py_ssize_t i = 0; result && i < ((fxpy_function *)result)->n_in; i++)
            if (fxpy_function_name((fxpy_function *)result, i, fx_function_input(f, (size_t)i)->name) != 0)
                Py_CLEAR(result);
        if (result) {
            ((fxpy_function *)result)->f = f;
            f = NULL;
        }
    }
    fx_function_free(f);
    fxpy_leave(c);
    return result;
}

/* Frees the code once it is closed and nobody is in it or looks at its state. */
static void settle(fxpy_function *self)
{
    if (self->closed && !self->calls && !self->looks && !self->freed) {
        self->freed = true;
        if (self->f || self->native)
            self->kind->free(self);
    }
}

void fxpy_function_looked(fxpy_function *self, int more)
{
    self->looks += more;
    settle(self);
}

static void function_dealloc(PyObject *o)
{
    fxpy_function *self = (fxpy_function *)o;
    PyTypeObject *type = Py_TYPE(o);
    self->closed = true;
    settle(self);
    for (Py_ssize_t i = 0; self->made && i < self->n_out; i++)
        Py_XDECREF(self->made[i]);
    PyMem_Free(self->made);
    Py_XDECREF(self->tree);
    Py_XDECREF(self->names);
    Py_XDECREF(self->options);
    Py_XDECREF((PyObject *)self->graph);
    PyObject_Free(o);
    Py_DECREF((PyObject *)type);
}

static int is_open(fxpy_function *self)
{
    if (!self->closed)
        return 0;
    PyErr_SetString(fxpy_exception(FX_ERR_ARGUMENT), "the function was closed: its code is freed");
    return -1;
}

/* ---- calling ----------------------------------------------------------------------------------------------------------------------- */

/* The outputs in the model's own nesting: leaves of the tree are their numbers. Takes no reference. */
static PyObject *nest(PyObject *tree, PyObject *const *out, Py_ssize_t n)
{
    if (PyLong_Check(tree)) {
        long i = PyLong_AsLong(tree);
        if (i < 0 || i >= n)
            return PyErr_Format(fxpy_exception(FX_ERR_ARGUMENT), "there is no output %ld: has the graph more than one output node? Graph.lint tells", i);
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

PyObject *fxpy_nest(PyObject *tree, PyObject *list)
{
    Py_ssize_t n = PyList_Size(list);
    PyObject **items = PyMem_Calloc((size_t)n + 1, sizeof *items);
    for (Py_ssize_t i = 0; items && i < n; i++)
        items[i] = PyList_GetItem(list, i);
    PyObject *o = items ? nest(tree, items, n) : PyErr_NoMemory();
    PyMem_Free(items);
    return o;
}

/* Puts arguments given by name where they belong. -1: an exception is set. */
static int gather(fxpy_function *self, PyObject *const *args, Py_ssize_t given, PyObject *names, PyObject **in)
{
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < self->n_in; i++)
        in[i] = i < given ? args[i] : NULL;
    for (Py_ssize_t k = 0; k < named; k++) {
        PyObject *name = PyTuple_GetItem(names, k);
        Py_ssize_t i = 0;
        while (i < self->n_in && PyUnicode_Compare(PyTuple_GetItem(self->names, i), name) != 0)
            i++;
        if (i == self->n_in || in[i]) {
            PyErr_Format(PyExc_TypeError, i == self->n_in ? "there is no input '%U': expected %R" : "input '%U' is given twice", name, self->names);
            return -1;
        }
        in[i] = args[given + k];
    }
    for (Py_ssize_t i = 0; i < self->n_in; i++)
        if (!in[i]) {
            PyErr_Format(PyExc_TypeError, "expected %zd inputs, got %zd: input %zd '%U' is missing", self->n_in, given + named, i,
                         PyTuple_GetItem(self->names, i));
            return -1;
        }
    return 0;
}

enum { FEW = 8 };

/* One call: what came in, what goes out. Most calls have few of both. */
typedef struct call {
    PyObject *few[FEW], **in;
    fxpy_tensor few_views[FEW], *views;  /* of inputs, then outputs */
    fx_tensor few_t[FEW], *t;
    PyObject *few_out[FEW], **out;
    Py_ssize_t have, made;
    bool on_device;                      /* an input of a library that makes its own is: outputs are, too */
} call;

static int make_room(fxpy_function *self, call *k)
{
    size_t n = (size_t)(self->n_in + self->n_out);
    k->in = k->few;
    k->views = k->few_views;
    k->t = k->few_t;
    k->out = k->few_out;
    k->have = k->made = 0;
    k->on_device = false;
    if (n <= FEW)
        return 0;
    k->in = PyMem_Malloc(n * sizeof *k->in);
    k->views = PyMem_Malloc(n * sizeof *k->views);
    k->t = PyMem_Malloc(n * sizeof *k->t);
    k->out = PyMem_Malloc(n * sizeof *k->out);
    if (k->in && k->views && k->t && k->out)
        return 0;
    PyErr_NoMemory();
    return -1;
}

static void clean(call *k, Py_ssize_t n_in)
{
    for (Py_ssize_t i = 0; i < k->have; i++)
        fxpy_tensor_done(&k->views[i]);
    for (Py_ssize_t i = 0; i < k->made; i++) {
        fxpy_tensor_done(&k->views[n_in + i]);
        Py_DECREF(k->out[i]);
    }
    if (k->in != k->few)
        PyMem_Free(k->in);
    if (k->views != k->few_views)
        PyMem_Free(k->views);
    if (k->t != k->few_t)
        PyMem_Free(k->t);
    if (k->out != k->few_out)
        PyMem_Free(k->out);
}

static bool writes_input(const fxpy_function *self, Py_ssize_t i)
{
    return self->f ? fx_function_input(self->f, (size_t)i)->changed : fxpy_native_changes(self, i);
}

/* Memory of a GPU is read dense: the object's own dense copy, made on its library's stream, takes the place of another one. */
static int make_dense(fxpy_function *self, const fxpy_what *what, PyObject *o, fxpy_tensor *view)
{
    if (!view->on_device || fx_tensor_is_contiguous(&view->t) || writes_input(self, what->i) || !PyObject_HasAttrString(o, "contiguous"))
        return 0; /* the function says what it expects */
    PyObject *dense = PyObject_CallMethod(o, "contiguous", NULL);
    if (!dense)
        return -1;
    fxpy_tensor_done(view);
    const int rc = fxpy_tensor_from(dense, what, view);
    if (rc == 0 && !view->capsule)
        view->capsule = dense; /* until the call is done */
    else
        Py_DECREF(dense);
    return rc;
}

static int take_inputs(fxpy_function *self, call *k, PyObject *const *objects, PyObject **like)
{
    fxpy_what what = {.names = self->names, .devices = self->f && fx_function_device(self->f) >= 0};
    for (; k->have < self->n_in; k->have++) {
        Py_ssize_t i = what.i = k->have;
        fxpy_tensor *view = &k->views[i];
        if (fxpy_tensor_from(objects[i], &what, view) != 0)
            return -1;
        if (make_dense(self, &what, objects[i], view) != 0) {
            fxpy_tensor_done(view);
            return -1;
        }
        k->t[i] = view->t;
        if (view->makes_own && (!*like || (view->on_device && !k->on_device)))
            *like = objects[i];
        k->on_device |= view->makes_own && view->on_device;
        if ((view->readonly && writes_input(self, i)) || (view->makes_own && !self->any_grad && fxpy_tensor_has_grad(objects[i]))) {
            PyObject *text = fxpy_what_text(&what);
            if (text && !PyErr_Occurred())
                PyErr_Format(fxpy_exception(FX_ERR_ARGUMENT),
                             view->readonly ? "%U: the model writes it, but it is read-only"
                                            : "%U requires grad, and nothing that comes out could be differentiated: call under torch.no_grad(), or pass .detach()",
                             text);
            Py_XDECREF(text);
            fxpy_tensor_done(view);
            return -1;
        }
    }
    return 0;
}

/* New arrays, of the first input's library if it makes its own, else NumPy's. */
static int make_outputs(fxpy_function *self, call *k, PyObject *like)
{
    for (; k->made < self->n_out; k->made++) {
        fxpy_tensor *view = &k->views[self->n_in + k->made];
        if (!(k->out[k->made] = fxpy_tensor_make(like, k->on_device ? fx_function_device(self->f) : -1, &k->t[self->n_in + k->made], view, &self->made[k->made])))
            return -1;
    }
    return 0;
}

static PyObject *function_vectorcall(PyObject *o, PyObject *const *args, size_t nargsf, PyObject *names)
{
    fxpy_function *self = (fxpy_function *)o;
    Py_ssize_t given = (Py_ssize_t)(nargsf & ~((size_t)1 << (8 * sizeof(size_t) - 1)));
    size_t n_in = (size_t)self->n_in, n_out = (size_t)self->n_out;
    PyObject *result = NULL, *like = NULL;
    char error[512];
    call k;
    if (is_open(self) != 0)
        return NULL;
    if (given > self->n_in)
        return PyErr_Format(PyExc_TypeError, "expected %zd inputs, got %zd", self->n_in, given);
    error[0] = 0;
    self->calls++;
    if (make_room(self, &k) != 0)
        goto done;
    PyObject *const *objects = args;
    if (names || given < self->n_in) {
        if (gather(self, args, given, names, k.in) != 0)
            goto done;
        objects = k.in;
    }
    if (take_inputs(self, &k, objects, &like) != 0)
        goto done;
    fx_status status = self->kind->outputs(self, n_in, k.t, n_out, k.t + n_in, error, sizeof error);
    if (status == FX_OK && make_outputs(self, &k, like) != 0)
        goto done;
    if (status == FX_OK) {
        void *stream = NULL;
        const bool on_stream = k.on_device && fxpy_stream_of(like, fx_function_device(self->f), &stream);
        Py_BEGIN_ALLOW_THREADS
        status = on_stream ? fx_function_call_on(self->f, stream, n_in, k.t, n_out, k.t + n_in, error, sizeof error)
                           : self->kind->run(self, n_in, k.t, n_out, k.t + n_in, error, sizeof error);
        Py_END_ALLOW_THREADS
    }
    if (status == FX_OK)
        result = nest(self->tree, k.out, self->n_out);
    else if (PyErr_Occurred())
        ;
    else if (status == FX_ERR_NOMEM)
        PyErr_NoMemory();
    else
        PyErr_SetString(fxpy_exception(status), error[0] ? error : fx_status_string(status));
done:
    clean(&k, self->n_in);
    self->calls--;
    settle(self);
    return result;
}

static PyObject *function_call(PyObject *o, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t given = PyTuple_Size(args), named = kwargs ? PyDict_Size(kwargs) : 0, at = 0, n = 0;
    PyObject *names = named ? PyTuple_New(named) : NULL, **all = PyMem_Calloc((size_t)(given + named) + 1, sizeof *all), *key, *value, *result = NULL;
    if (all && (names || !named)) {
        for (; n < given; n++)
            all[n] = PyTuple_GetItem(args, n);
        while (named && PyDict_Next(kwargs, &at, &key, &value)) {
            Py_INCREF(key);
            PyTuple_SetItem(names, n - given, key);
            all[n++] = value;
        }
        result = function_vectorcall(o, all, (size_t)given, names);
    } else if (!all) {
        PyErr_NoMemory();
    }
    Py_XDECREF(names);
    PyMem_Free(all);
    return result;
}

/* ---- looking at it -------------------------------------------------------------------------------------------------------------- */

PyTypeObject *fxpy_value_type;
static PyStructSequence_Field value_fields[] = {{"name", "as the model calls it"},
                                                {"dtype", "'float32'"},
                                                {"sizes", "a list of (least, most) of each size; most is None where it is open"},
                                                {"changed", "an input: whether calls write it"},
                                                {NULL, NULL}};
PyStructSequence_Desc fxpy_value_desc = {"fxcc.Value", "An input, output or state of a Function: name, dtype, sizes, changed.", value_fields, 4};

PyObject *fxpy_value_new(const fx_value_info *v)
{
    PyObject *dims = PyList_New(0), *row = PyStructSequence_New(fxpy_value_type);
    for (int d = 0; dims && d < v->rank; d++) {
        PyObject *dim = v->max[d] == INT64_MAX ? Py_BuildValue("(LO)", (long long)v->min[d], Py_None)
                                               : Py_BuildValue("(LL)", (long long)v->min[d], (long long)v->max[d]);
        if (!dim || PyList_Append(dims, dim) != 0)
            Py_CLEAR(dims);
        Py_XDECREF(dim);
    }
    PyObject *name = PyUnicode_FromString(v->name), *dtype = PyUnicode_FromString(fx_dtype_name(v->dtype));
    if (!row || !dims || !name || !dtype) {
        Py_XDECREF(row);
        Py_XDECREF(dims);
        Py_XDECREF(name);
        Py_XDECREF(dtype);
        return NULL;
    }
    PyStructSequence_SetItem(row, 0, name);
    PyStructSequence_SetItem(row, 1, dtype);
    PyStructSequence_SetItem(row, 2, dims);
    PyStructSequence_SetItem(row, 3, PyBool_FromLong(v->changed));
    return row;
}

static PyObject *describe(fxpy_function *self, bool outputs)
{
    if (is_open(self) != 0)
        return NULL;
    Py_ssize_t n = outputs ? self->n_out : self->n_in;
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        fx_value_info of_native;
        const fx_value_info *v = &of_native;
        PyObject *row = NULL;
        if (self->f)
            v = outputs ? fx_function_output(self->f, (size_t)i) : fx_function_input(self->f, (size_t)i);
        if (self->f || fxpy_native_info(self, outputs, i, &of_native) == 0)
            row = fxpy_value_new(v);
        if (!row || PyList_Append(list, row) != 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *get_inputs(PyObject *self, void *unused)
{
    (void)unused;
    return describe((fxpy_function *)self, false);
}

static PyObject *get_outputs(PyObject *self, void *unused)
{
    (void)unused;
    return describe((fxpy_function *)self, true);
}

static PyObject *shared(PyObject *o)
{
    Py_INCREF(o);
    return o;
}

static PyObject *get_graph(PyObject *self, void *unused)
{
    (void)unused;
    return shared((PyObject *)((fxpy_function *)self)->graph);
}

static PyObject *get_options(PyObject *o, void *unused)
{
    fxpy_function *self = (fxpy_function *)o;
    (void)unused;
    return self->options ? PyDict_Copy(self->options) : PyDict_New();
}

static PyObject *get_target(PyObject *o, void *unused)
{
    (void)unused;
    const fxpy_function *self = (fxpy_function *)o;
    const int device = self->f ? fx_function_device(self->f) : -1;
    return device < 0 ? PyUnicode_FromString(self->kind->name) : PyUnicode_FromFormat("cuda:%d", device);
}

static PyObject *get_tree(PyObject *o, void *unused)
{
    (void)unused;
    return shared(((fxpy_function *)o)->tree);
}

static PyObject *get_closed(PyObject *o, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((fxpy_function *)o)->closed);
}

static PyObject *get_cached(PyObject *o, void *unused)
{
    fxpy_function *self = (fxpy_function *)o;
    (void)unused;
    return is_open(self) != 0 ? NULL : PyBool_FromLong(self->f && fx_function_cached(self->f));
}

static PyObject *get_memory(PyObject *o, void *unused)
{
    fxpy_function *self = (fxpy_function *)o;
    (void)unused;
    uint64_t arena, weights;
    if (is_open(self) != 0)
        return NULL;
    if (self->f)
        fx_function_memory(self->f, &arena, &weights);
    else
        fxpy_native_memory(self, &arena, &weights);
    return Py_BuildValue("(KK)", (unsigned long long)arena, (unsigned long long)weights);
}

static PyObject *get_state(PyObject *o, void *unused)
{
    fxpy_function *self = (fxpy_function *)o;
    (void)unused;
    if (is_open(self) != 0)
        return NULL;
    PyObject *dict = PyDict_New();
    const fx_value_info *v;
    fx_tensor t;
    for (size_t i = 0; dict && self->f && (v = fx_function_state(self->f, i, &t)); i++) {
        PyObject *tensor = fxpy_memory_new(o, &t, false);
        if (!tensor || PyDict_SetItemString(dict, v->name, tensor) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(tensor);
    }
    return dict;
}

static PyObject *get_any_grad(PyObject *o, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((fxpy_function *)o)->any_grad);
}

static int set_any_grad(PyObject *o, PyObject *v, void *unused)
{
    (void)unused;
    int yes = v ? PyObject_IsTrue(v) : 0;
    if (yes < 0)
        return -1;
    ((fxpy_function *)o)->any_grad = yes;
    return 0;
}

static PyObject *reset(PyObject *o, PyObject *unused)
{
    fxpy_function *self = (fxpy_function *)o;
    (void)unused;
    if (is_open(self) != 0)
        return NULL;
    if (self->calls)
        return PyErr_Format(fxpy_exception(FX_ERR_ARGUMENT), "a call is under way in another thread: reset() comes between calls");
    if (self->f)
        fx_function_reset(self->f);
    else
        fxpy_native_reset(self);
    Py_RETURN_NONE;
}

static PyObject *close_it(PyObject *o, PyObject *unused)
{
    (void)unused;
    ((fxpy_function *)o)->closed = true;
    settle((fxpy_function *)o);
    Py_RETURN_NONE;
}

static PyObject *repr(PyObject *o)
{
    fxpy_function *self = (fxpy_function *)o;
    const char *name = fx_graph_name(self->graph->g);
    if (self->closed)
        return PyUnicode_FromFormat("<fxcc.Function '%s', closed>", name);
    PyObject *signature = PyObject_GetAttrString(o, "signature"), *target = get_target(o, NULL), *text = NULL;
    if (signature && target)
        text = PyUnicode_FromFormat("<fxcc.Function '%s' %S, %S>", name, signature, target);
    Py_XDECREF(signature);
    Py_XDECREF(target);
    return text;
}

static PyMethodDef methods[] = {
    {"reset", reset, METH_NOARGS, "reset($self)\n--\n\nGives the state the model's values again."},
    {"close", close_it, METH_NOARGS,
     "close($self)\n--\n\nFrees the code now (when calls in other threads are done and nobody holds a Tensor of its state). Calls raise fxcc.ArgumentError from then on."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getters[] = {
    {"inputs", get_inputs, NULL, "the inputs: a list of fxcc.Value(name, dtype, sizes, changed)", NULL},
    {"outputs", get_outputs, NULL, "the outputs, flattened: as inputs", NULL},
    {"graph", get_graph, NULL, "the Graph it was compiled from", NULL},
    {"options", get_options, NULL, "what it was compiled with, a dict", NULL},
    {"target", get_target, NULL, "'jit', 'c' or 'cuda:0'", NULL},
    {"tree", get_tree, NULL, "how outputs are nested: their numbers in tuples, lists and dicts", NULL},
    {"closed", get_closed, NULL, "whether close() was called", NULL},
    {"cached", get_cached, NULL, "whether the code was kept from an earlier compile", NULL},
    {"memory", get_memory, NULL, "(bytes of the arena that a call works in, bytes of weights)", NULL},
    {"state", get_state, NULL, "what the model keeps from call to call: {buffer's path: fxcc.Tensor}, to be read and written between calls", NULL},
    {"any_grad", get_any_grad, set_any_grad,
     "whether tensors that require grad are taken while grad mode is on; False: they are an fxcc.ArgumentError, since nothing is recorded", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(fxpy_function, vectorcall), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, function_dealloc},
    {Py_tp_call, function_call},
    {Py_tp_repr, repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {Py_tp_doc, "A compiled model: fxcc.compile and Graph.compile make it.\n\n"
                "Call it with the model's inputs in order or by name: NumPy arrays, torch tensors on the CPU, or anything with the buffer protocol or DLPack. They\n"
                "are read where they lie, by their strides (a dense copy is made of others than dense ones). A function for a GPU takes tensors of it, too, as DLPack or\n"
                "__cuda_array_interface__ show them; where one is torch's, results are on the GPU and all is done on torch's current stream. Results are new tensors of torch where an input is\n"
                "one, else NumPy arrays, nested as the model nests them. Other threads run meanwhile; any number may call.\n\n"
                "Raises TypeError for what is no array, for too few, too many or unknown inputs; fxcc.ArgumentError for a wrong dtype, rank or size,\n"
                "for a tensor that is not on the CPU, that requires grad in grad mode, an array that is read-only and written, an index out of range, a closed\n"
                "function; MemoryError."},
    {0, NULL}};
/* Py_TPFLAGS_HAVE_VECTORCALL, which 3.11's headers hide from the stable ABI, where it is since 3.12 */
enum { HAVE_VECTORCALL = 1 << 11 };
PyType_Spec fxpy_function_spec = {"fxcc.Function", sizeof(fxpy_function), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | HAVE_VECTORCALL, slots};
