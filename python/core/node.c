/* python/core/node.c: nodes of graphs.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include "core.h"

PyObject *fxpy_node_new(fxpy_graph *graph, fx_node *n)
{
    if (!n)
        Py_RETURN_NONE;
    fxpy_node *self = PyObject_New(fxpy_node, fxpy_node_type);
    if (!self)
        return NULL;
    Py_INCREF((PyObject *)graph);
    self->graph = graph;
    self->n = n;
    return (PyObject *)self;
}

static void node_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF((PyObject *)((fxpy_node *)self)->graph);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *text(const char *s)
{
    if (!s)
        Py_RETURN_NONE;
    return PyUnicode_FromString(s);
}

static size_t begin(fxpy_node *self)
{
    fxpy_enter(self->graph->context);
    return fx_diag_count(self->graph->context->ctx);
}

/* ---- looking ------------------------------------------------------------------------------------------------------------------------ */

#define TEXT(name, call)                                     \
    static PyObject *get_##name(PyObject *o, void *unused)    \
    {                                                         \
        (void)unused;                                         \
        return text(call(((fxpy_node *)o)->n));               \
    }
TEXT(name, fx_node_name)
TEXT(target, fx_node_target)
TEXT(operator, fx_node_operator)
TEXT(module, fx_node_module)
TEXT(frame, fx_node_frame)
TEXT(type, fx_node_type_text)

static PyObject *get_opcode(PyObject *o, void *unused)
{
    (void)unused;
    return text(fx_opcode_name(fx_node_opcode(((fxpy_node *)o)->n)));
}

static PyObject *get_args(PyObject *o, void *unused)
{
    fxpy_node *self = (fxpy_node *)o;
    (void)unused;
    int n = fx_node_arg_count(self->n);
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) {
        fx_value v = fx_node_arg_at(self->n, i);
        PyObject *x = fxpy_from_value(self->graph, &v);
        if (!x || PyTuple_SetItem(tuple, i, x) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_kwargs(PyObject *o, void *unused)
{
    fxpy_node *self = (fxpy_node *)o;
    (void)unused;
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < fx_node_kwarg_count(self->n); i++) {
        fx_value v = fx_node_kwarg_at(self->n, i);
        PyObject *x = fxpy_from_value(self->graph, &v);
        if (!x || PyDict_SetItemString(dict, fx_node_kwarg_key(self->n, i), x) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(x);
    }
    return dict;
}

static PyObject *list_of(fxpy_node *self, size_t (*get)(const fx_node *, fx_node **, size_t))
{
    size_t n = get(self->n, NULL, 0);
    fx_node **nodes = PyMem_Calloc(n + 1, sizeof *nodes);
    PyObject *list = nodes ? PyList_New((Py_ssize_t)n) : PyErr_NoMemory();
    if (nodes)
        get(self->n, nodes, n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *x = fxpy_node_new(self->graph, nodes[i]);
        if (!x || PyList_SetItem(list, (Py_ssize_t)i, x) != 0)
            Py_CLEAR(list);
    }
    PyMem_Free(nodes);
    return list;
}

static PyObject *get_users(PyObject *o, void *unused)
{
    (void)unused;
    return list_of((fxpy_node *)o, fx_node_users);
}

static PyObject *get_inputs(PyObject *o, void *unused)
{
    (void)unused;
    return list_of((fxpy_node *)o, fx_node_all_input_nodes);
}

/* (dtype, sizes), or None when it is no tensor of known sizes */
static PyObject *get_shape(PyObject *o, void *unused)
{
    (void)unused;
    fx_tensor t;
    if (!fx_node_shape(((fxpy_node *)o)->n, &t))
        Py_RETURN_NONE;
    PyObject *sizes = PyTuple_New(t.rank);
    for (int d = 0; sizes && d < t.rank; d++)
        PyTuple_SetItem(sizes, d, PyLong_FromLongLong(t.sizes[d]));
    return sizes ? Py_BuildValue("(sN)", fx_dtype_name(t.dtype), sizes) : NULL;
}

static PyObject *get_next(PyObject *o, void *unused)
{
    (void)unused;
    return fxpy_node_new(((fxpy_node *)o)->graph, fx_node_next(((fxpy_node *)o)->n));
}

static PyObject *get_prev(PyObject *o, void *unused)
{
    (void)unused;
    return fxpy_node_new(((fxpy_node *)o)->graph, fx_node_prev(((fxpy_node *)o)->n));
}

static PyObject *get_erased(PyObject *o, void *unused)
{
    (void)unused;
    return PyBool_FromLong(fx_node_is_erased(((fxpy_node *)o)->n));
}

static PyObject *get_graph(PyObject *o, void *unused)
{
    (void)unused;
    PyObject *graph = (PyObject *)((fxpy_node *)o)->graph;
    Py_INCREF(graph);
    return graph;
}

static PyObject *get_meta(PyObject *o, void *unused)
{
    fxpy_node *self = (fxpy_node *)o;
    (void)unused;
    PyObject *dict = PyDict_New();
    const char *key;
    for (int i = 0; dict && (key = fx_node_meta_key(self->n, i)); i++) {
        fx_value v;
        PyObject *x = fx_node_meta(self->n, key, &v) ? fxpy_from_value(self->graph, &v) : NULL;
        if (!x || PyDict_SetItemString(dict, key, x) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(x);
    }
    return dict;
}

/* ---- editing -------------------------------------------------------------------------------------------------------------------------- */

static int no_delete(PyObject *v, const char *what)
{
    if (v)
        return 0;
    PyErr_Format(PyExc_AttributeError, "%s of a node cannot be deleted", what);
    return -1;
}

static int set(fxpy_node *self, fx_status status, size_t since)
{
    PyObject *done = fxpy_done(self->graph->context, status, since);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int set_args(PyObject *o, PyObject *v, void *unused)
{
    fxpy_node *self = (fxpy_node *)o;
    PyObject *keep = PyList_New(0);
    fx_value a;
    (void)unused;
    int rc = -1;
    if (no_delete(v, "args") == 0 && keep && fxpy_to_value(self->graph, v, keep, &a) == 0) {
        if (a.kind == FX_ARG_TUPLE || a.kind == FX_ARG_LIST) {
            size_t since = begin(self);
            rc = set(self, fx_node_set_args(self->n, a.n, a.as.items), since);
        } else {
            PyErr_SetString(PyExc_TypeError, "expected a tuple of arguments");
        }
    }
    Py_XDECREF(keep);
    return rc;
}

static int set_kwargs(PyObject *o, PyObject *v, void *unused)
{
    fxpy_node *self = (fxpy_node *)o;
    PyObject *keep = PyList_New(0);
    fx_value a;
    (void)unused;
    int rc = -1;
    if (no_delete(v, "kwargs") == 0 && keep && fxpy_to_value(self->graph, v, keep, &a) == 0) {
        if (a.kind == FX_ARG_DICT) {
            size_t since = begin(self);
            rc = set(self, fx_node_set_kwargs(self->n, a.n, a.keys, a.as.items), since);
        } else {
            PyErr_SetString(PyExc_TypeError, "expected a dict of arguments");
        }
    }
    Py_XDECREF(keep);
    return rc;
}

static int set_text(fxpy_node *self, PyObject *v, const char *what, fx_status (*change)(fx_node *, const char *))
{
    if (no_delete(v, what) != 0)
        return -1;
    const char *s = PyUnicode_AsUTF8AndSize(v, NULL);
    if (!s)
        return -1;
    size_t since = begin(self);
    return set(self, change(self->n, s), since);
}

static int set_target(PyObject *o, PyObject *v, void *unused)
{
    (void)unused;
    return set_text((fxpy_node *)o, v, "target", fx_node_set_target);
}

static int set_type(PyObject *o, PyObject *v, void *unused)
{
    fxpy_node *self = (fxpy_node *)o;
    (void)unused;
    if (v && v != Py_None)
        return set_text(self, v, "type", fx_node_set_type);
    size_t since = begin(self);
    return set(self, fx_node_set_type(self->n, NULL), since);
}

static int set_name(PyObject *o, PyObject *v, void *unused)
{
    (void)unused;
    return set_text((fxpy_node *)o, v, "name", fx_node_set_name);
}

static PyObject *set_meta(PyObject *o, PyObject *args)
{
    fxpy_node *self = (fxpy_node *)o;
    const char *key;
    PyObject *v, *keep = PyList_New(0), *result = NULL;
    fx_value value;
    if (keep && PyArg_ParseTuple(args, "sO:set_meta", &key, &v) && fxpy_to_value(self->graph, v, keep, &value) == 0) {
        size_t since = begin(self);
        result = fxpy_done(self->graph->context, fx_node_set_meta(self->n, key, value), since);
    }
    Py_XDECREF(keep);
    return result;
}

static fxpy_node *node_of(PyObject *o)
{
    if (Py_TYPE(o) == fxpy_node_type)
        return (fxpy_node *)o;
    PyErr_SetString(PyExc_TypeError, "expected a Node");
    return NULL;
}

static PyObject *replace_all_uses_with(PyObject *o, PyObject *by)
{
    fxpy_node *self = (fxpy_node *)o, *other = node_of(by);
    size_t n = 0;
    if (!other)
        return NULL;
    size_t since = begin(self);
    PyObject *done = fxpy_done(self->graph->context, fx_node_replace_all_uses_with(self->n, other->n, NULL, NULL, false, &n), since);
    Py_XDECREF(done);
    return done ? PyLong_FromSize_t(n) : NULL;
}

static PyObject *replace_input_with(PyObject *o, PyObject *args)
{
    fxpy_node *self = (fxpy_node *)o;
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "OO:replace_input_with", &a, &b) || !node_of(a) || !node_of(b))
        return NULL;
    size_t since = begin(self);
    return fxpy_done(self->graph->context, fx_node_replace_input_with(self->n, ((fxpy_node *)a)->n, ((fxpy_node *)b)->n), since);
}

static PyObject *move(PyObject *o, PyObject *other, fx_status (*how)(fx_node *, fx_node *))
{
    fxpy_node *self = (fxpy_node *)o, *moved = node_of(other);
    if (!moved)
        return NULL;
    size_t since = begin(self);
    return fxpy_done(self->graph->context, how(self->n, moved->n), since);
}

static PyObject *prepend(PyObject *o, PyObject *other)
{
    return move(o, other, fx_node_prepend);
}

static PyObject *append(PyObject *o, PyObject *other)
{
    return move(o, other, fx_node_append);
}

/* ---- as an object --------------------------------------------------------------------------------------------------------------------- */

static PyObject *repr(PyObject *o)
{
    return PyUnicode_FromString(fx_node_name(((fxpy_node *)o)->n)); /* interned: no edit changes the text itself */
}

static PyObject *compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(b) != fxpy_node_type || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((fxpy_node *)a)->n == ((fxpy_node *)b)->n) == (op == Py_EQ));
}

static Py_hash_t hash(PyObject *o)
{
    return (Py_hash_t)((uintptr_t)((fxpy_node *)o)->n >> 4);
}

static PyMethodDef methods[] = {
    {"replace_all_uses_with", replace_all_uses_with, METH_O, "replace_all_uses_with($self, node, /)\n--\n\n-> int: Users of this node use the other; how many."},
    {"replace_input_with", replace_input_with, METH_VARARGS, "replace_input_with($self, old, new, /)\n--\n\nEvery use of old in the arguments becomes new."},
    {"prepend", prepend, METH_O, "prepend($self, node, /)\n--\n\nMoves the other node before this one."},
    {"append", append, METH_O, "append($self, node, /)\n--\n\nMoves the other node behind this one."},
    {"set_meta", set_meta, METH_VARARGS, "set_meta($self, key, value, /)\n--\n\nA note, kept with the node; None removes it."},
    {NULL, NULL, 0, NULL}};

/* Whoever looks does so while no other thread works in the context. */
static PyObject *locked(PyObject *o, void *get)
{
    fxpy_context *c = ((fxpy_node *)o)->graph->context;
    fxpy_enter(c);
    PyObject *result = ((PyObject * (*)(PyObject *, void *)) get)(o, NULL);
    fxpy_leave(c);
    return result;
}

static PyGetSetDef getters[] = {
    {"opcode", locked, NULL, "placeholder, get_attr, call_function, call_method, call_module or output", (void *)get_opcode},
    {"op", locked, NULL, "as opcode: torch.fx's name", (void *)get_opcode},
    {"name", locked, set_name, "unique in the graph; a taken one gets a number", (void *)get_name},
    {"target", locked, set_target, "operator, method, module path, attribute path or input's name", (void *)get_target},
    {"operator", locked, NULL, "the aten operator a call_function is, or None", (void *)get_operator},
    {"args", locked, set_args, "a tuple", (void *)get_args},
    {"kwargs", locked, set_kwargs, "a dict", (void *)get_kwargs},
    {"users", locked, NULL, "nodes that use it, once each", (void *)get_users},
    {"all_input_nodes", locked, NULL, "nodes in its arguments, once each", (void *)get_inputs},
    {"type", locked, set_type, "'f32[1, 3, s0, 32]', or None when unknown; may be set, of placeholders above all", (void *)get_type},
    {"shape", locked, NULL, "(dtype, sizes), or None", (void *)get_shape},
    {"module", locked, NULL, "path of the module it comes from, or None", (void *)get_module},
    {"frame", locked, NULL, "Python source line it comes from, or None", (void *)get_frame},
    {"meta", locked, NULL, "its notes, a dict; set_meta changes them", (void *)get_meta},
    {"graph", get_graph, NULL, "its Graph", NULL},
    {"next", locked, NULL, "the node after it, or None", (void *)get_next},
    {"prev", locked, NULL, "the node before it, or None", (void *)get_prev},
    {"erased", locked, NULL, "whether it was removed from its graph: it can still be looked at, not used", (void *)get_erased},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_dealloc, node_dealloc}, {Py_tp_repr, repr},       {Py_tp_richcompare, compare}, {Py_tp_hash, hash},
                              {Py_tp_methods, methods},      {Py_tp_getset, getters}, {Py_tp_doc, "A node of a Graph."}, {0, NULL}};
PyType_Spec fxpy_node_spec = {"fxcc.Node", sizeof(fxpy_node), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
