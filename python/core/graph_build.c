/* python/core/graph_build.c: graphs built and edited: nodes made, moved and removed; parameters and buffers; sizes' symbols.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "core.h"

/* ---- nodes ---------------------------------------------------------------------------------------------------------------- */

static int opcode_of(const char *name, fx_opcode *out)
{
    for (int i = FX_PLACEHOLDER; i <= FX_OUTPUT; i++)
        if (!strcmp(fx_opcode_name((fx_opcode)i), name)) {
            *out = (fx_opcode)i;
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "expected an opcode (placeholder, get_attr, call_function, call_method, call_module, output), got '%s'", name);
    return -1;
}

/* What a new node is made of. */
typedef struct parts {
    fx_opcode opcode;
    const char *target, *name, *type;
    PyObject *args, *kwargs, *before, *after;
} parts;

static fx_node *place(fxpy_graph *self, const parts *p, const fx_value *a, const fx_value *k)
{
    fx_insert_point at = {0};
    bool moved = p->before != Py_None || p->after != Py_None;
    if (p->before != Py_None)
        at = fx_graph_inserting_before(self->g, ((fxpy_node *)p->before)->n);
    else if (moved)
        at = fx_graph_inserting_after(self->g, ((fxpy_node *)p->after)->n);
    fx_node *n = fx_graph_create_node(self->g, p->opcode, p->target, a->n, a->as.items, k->n, k->keys, k->as.items, p->name);
    if (moved)
        fx_graph_restore_insert_point(at);
    return n;
}

static bool is_node_of(fxpy_graph *self, PyObject *o)
{
    return o == Py_None || (Py_TYPE(o) == fxpy_node_type && ((fxpy_node *)o)->graph->g == self->g);
}

static PyObject *make(fxpy_graph *self, const parts *p)
{
    PyObject *keep = PyList_New(0), *result = NULL;
    fx_value a = fx_v_tuple(0, NULL), k = fx_v_dict(0, NULL, NULL);
    if (!keep || (p->args && fxpy_to_value(self, p->args, keep, &a) != 0) || (p->kwargs && fxpy_to_value(self, p->kwargs, keep, &k) != 0))
        goto done;
    if ((a.kind != FX_ARG_TUPLE && a.kind != FX_ARG_LIST) || k.kind != FX_ARG_DICT) {
        PyErr_SetString(PyExc_TypeError, "expected args as a tuple and kwargs as a dict");
        goto done;
    }
    if (!is_node_of(self, p->before) || !is_node_of(self, p->after)) {
        PyErr_SetString(PyExc_TypeError, "expected before and after as Nodes of this graph");
        goto done;
    }
    fxpy_enter(self->context);
    size_t since = fx_diag_count(self->context->ctx);
    fx_node *n = place(self, p, &a, &k);
    fx_status status = n ? FX_OK : fx_graph_status(self->g);
    if (n && p->type && (status = fx_node_set_type(n, p->type)) != FX_OK)
        fx_graph_erase_node(self->g, n);
    result = status == FX_OK ? fxpy_node_new(self, n) : fxpy_raise(self->context, status, since);
    fxpy_leave(self->context);
done:
    Py_XDECREF(keep);
    return result;
}

static PyObject *create_node(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"opcode", "target", "args", "kwargs", "name", "type", "before", "after", NULL};
    parts p = {.before = Py_None, .after = Py_None};
    const char *opcode;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ss|OOzzOO:create_node", names, &opcode, &p.target, &p.args, &p.kwargs, &p.name, &p.type, &p.before,
                                     &p.after) ||
        opcode_of(opcode, &p.opcode) != 0)
        return NULL;
    return make((fxpy_graph *)o, &p);
}

static PyObject *placeholder(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "type", "default", NULL};
    parts p = {.opcode = FX_PLACEHOLDER, .before = Py_None, .after = Py_None};
    PyObject *value = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|zO:placeholder", names, &p.target, &p.type, &value))
        return NULL;
    if (value && !(p.args = PyTuple_Pack(1, value)))
        return NULL;
    p.name = p.target;
    PyObject *node = make((fxpy_graph *)o, &p);
    Py_XDECREF(p.args);
    return node;
}

static PyObject *get_attr(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "name", NULL};
    parts p = {.opcode = FX_GET_ATTR, .before = Py_None, .after = Py_None};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|z:get_attr", names, &p.target, &p.name))
        return NULL;
    return make((fxpy_graph *)o, &p);
}

static PyObject *call(PyObject *o, PyObject *args, PyObject *kwargs, fx_opcode opcode, const char *format)
{
    static char *names[] = {"target", "args", "kwargs", "name", "type", NULL};
    parts p = {.opcode = opcode, .before = Py_None, .after = Py_None};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &p.target, &p.args, &p.kwargs, &p.name, &p.type))
        return NULL;
    return make((fxpy_graph *)o, &p);
}

static PyObject *call_function(PyObject *o, PyObject *args, PyObject *kwargs)
{
    return call(o, args, kwargs, FX_CALL_FUNCTION, "s|OOzz:call_function");
}

static PyObject *call_method(PyObject *o, PyObject *args, PyObject *kwargs)
{
    return call(o, args, kwargs, FX_CALL_METHOD, "s|OOzz:call_method");
}

static PyObject *call_module(PyObject *o, PyObject *args, PyObject *kwargs)
{
    return call(o, args, kwargs, FX_CALL_MODULE, "s|OOzz:call_module");
}

static PyObject *output(PyObject *o, PyObject *value)
{
    parts p = {.opcode = FX_OUTPUT, .target = "output", .before = Py_None, .after = Py_None, .args = PyTuple_Pack(1, value)};
    PyObject *node = p.args ? make((fxpy_graph *)o, &p) : NULL;
    Py_XDECREF(p.args);
    return node;
}

static PyObject *erase_node(PyObject *o, PyObject *node)
{
    fxpy_graph *self = (fxpy_graph *)o;
    if (Py_TYPE(node) != fxpy_node_type)
        return PyErr_Format(PyExc_TypeError, "expected a Node");
    FXPY_UNLOCKED(self, fx_graph_erase_node(self->g, ((fxpy_node *)node)->n))
    return fxpy_done(c, status, since);
}

static PyObject *topological_sort(PyObject *o, PyObject *unused)
{
    fxpy_graph *self = (fxpy_graph *)o;
    (void)unused;
    FXPY_UNLOCKED(self, fx_graph_topological_sort(self->g))
    return fxpy_done(c, status, since);
}

/* _insert(node or None, after) -> what was before the point; _restore takes it. fxcc._graph makes a context manager of them. */
static PyObject *insert(PyObject *o, PyObject *args)
{
    fxpy_graph *self = (fxpy_graph *)o;
    PyObject *node;
    int after;
    if (!PyArg_ParseTuple(args, "Op:_insert", &node, &after))
        return NULL;
    if (!is_node_of(self, node))
        return PyErr_Format(PyExc_TypeError, "expected a Node of this graph, or None");
    fxpy_enter(self->context);
    size_t since = fx_diag_count(self->context->ctx);
    fx_node *at = node == Py_None ? NULL : ((fxpy_node *)node)->n;
    bool erased = at && fx_node_is_erased(at);
    fx_insert_point old = after ? fx_graph_inserting_after(self->g, at) : fx_graph_inserting_before(self->g, at);
    PyObject *result = erased ? fxpy_raise(self->context, FX_ERR_ARGUMENT, since) : fxpy_node_new(self, old.before);
    fxpy_leave(self->context);
    return result;
}

static PyObject *restore(PyObject *o, PyObject *node)
{
    fxpy_graph *self = (fxpy_graph *)o;
    if (!is_node_of(self, node))
        return PyErr_Format(PyExc_TypeError, "expected a Node of this graph, or None");
    fxpy_enter(self->context);
    fx_graph_restore_insert_point((fx_insert_point){self->g, node == Py_None ? NULL : ((fxpy_node *)node)->n});
    fxpy_leave(self->context);
    Py_RETURN_NONE;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------------------- */

static PyObject *set_tensor(PyObject *o, const char *path, PyObject *tensor, bool parameter, bool persistent)
{
    fxpy_graph *self = (fxpy_graph *)o;
    fxpy_tensor t;
    const fxpy_what what = {.text = path};
    if (fxpy_tensor_from(tensor, &what, &t) != 0)
        return NULL;
    fx_tensor given = t.t;
    if (fxpy_tensor_keep(self->context, tensor, &t) != 0)
        return NULL;
    FXPY_UNLOCKED(self, parameter ? fx_graph_set_parameter(self->g, path, &given) : fx_graph_set_buffer(self->g, path, &given, persistent))
    return fxpy_done(c, status, since);
}

static PyObject *set_parameter(PyObject *o, PyObject *args)
{
    const char *path;
    PyObject *tensor;
    return PyArg_ParseTuple(args, "sO:set_parameter", &path, &tensor) ? set_tensor(o, path, tensor, true, true) : NULL;
}

static PyObject *set_buffer(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "tensor", "persistent", NULL};
    const char *path;
    PyObject *tensor;
    int persistent = 1;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "sO|p:set_buffer", names, &path, &tensor, &persistent) ? set_tensor(o, path, tensor, false, persistent)
                                                                                                         : NULL;
}

static PyObject *tie_parameter(PyObject *o, PyObject *args)
{
    fxpy_graph *self = (fxpy_graph *)o;
    const char *path, *to;
    if (!PyArg_ParseTuple(args, "ss:tie_parameter", &path, &to))
        return NULL;
    FXPY_UNLOCKED(self, fx_graph_tie_parameter(self->g, path, to))
    return fxpy_done(c, status, since);
}

static PyObject *delete_attr(PyObject *o, PyObject *path)
{
    fxpy_graph *self = (fxpy_graph *)o;
    const char *s = PyUnicode_AsUTF8AndSize(path, NULL);
    if (!s)
        return NULL;
    FXPY_UNLOCKED(self, fx_graph_delete_attr(self->g, s))
    return fxpy_done(c, status, since);
}

static PyObject *add_submodule(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "class_name", "config", NULL};
    fxpy_graph *self = (fxpy_graph *)o;
    const char *path, *class_name = NULL;
    PyObject *config = NULL, *keep = PyList_New(0), *result = NULL;
    fx_value k = fx_v_dict(0, NULL, NULL);
    if (!keep || !PyArg_ParseTupleAndKeywords(args, kwargs, "s|zO!:add_submodule", names, &path, &class_name, &PyDict_Type, &config) ||
        (config && fxpy_to_value(self, config, keep, &k) != 0))
        goto done;
    fxpy_enter(self->context);
    size_t since = fx_diag_count(self->context->ctx);
    fx_module *m = fx_graph_add_submodule(self->g, path, class_name, k.n, k.keys, k.as.items);
    result = fxpy_done(self->context, m ? FX_OK : fx_graph_status(self->g), since);
done:
    Py_XDECREF(keep);
    return result;
}

/* ---- symbols --------------------------------------------------------------------------------------------------------------------- */

static PyObject *set_symbol(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "min", "max", NULL};
    fxpy_graph *self = (fxpy_graph *)o;
    const char *name;
    long long min = 0, most = INT64_MAX;
    PyObject *max = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|LO:set_symbol", names, &name, &min, &max))
        return NULL;
    if (max != Py_None && (most = PyLong_AsLongLong(max)) == -1 && PyErr_Occurred())
        return NULL;
    FXPY_UNLOCKED(self, fx_graph_set_symbol(self->g, name, min, most))
    return fxpy_done(c, status, since);
}

PyMethodDef fxpy_build_methods[] = {
    {"create_node", FXPY_KEYWORDS(create_node),
     "create_node($self, opcode, target, args=(), kwargs={}, name=None, type=None, before=None, after=None)\n--\n\n-> Node: "
     "A new node at the insertion point (first, the end), or before or after another. Arguments are nested in tuples, lists, dicts and slices: nodes of\n"
     "this graph, None, bool, int, float, complex, str, fxcc.Symbol, torch's dtypes, devices, layouts. A taken name gets a number. type: as Node.type.\n"
     "Raises TypeError or fxcc.ArgumentError, the graph unchanged, for what a graph cannot hold."},
    {"placeholder", FXPY_KEYWORDS(placeholder),
     "placeholder($self, name, type=None, default=...)\n--\n\n-> Node: An input. type: 'f32[1, 3, s0, 32]', which a graph built by hand needs before it can run."},
    {"get_attr", FXPY_KEYWORDS(get_attr), "get_attr($self, path, name=None)\n--\n\n-> Node: A parameter or buffer, by its dotted path."},
    {"call_function", FXPY_KEYWORDS(call_function),
     "call_function($self, target, args=(), kwargs={}, name=None, type=None)\n--\n\n-> Node: A call of a function: 'aten.relu.default', 'torch.relu', 'operator.add'."},
    {"call_method", FXPY_KEYWORDS(call_method), "call_method($self, target, args=(), kwargs={}, name=None, type=None)\n--\n\n-> Node: A method of a tensor, args[0]: 'view'."},
    {"call_module", FXPY_KEYWORDS(call_module), "call_module($self, target, args=(), kwargs={}, name=None, type=None)\n--\n\n-> Node: A call of add_submodule's module, by its path."},
    {"output", output, METH_O, "output($self, value, /)\n--\n\n-> Node: Ends the graph: a node, or nodes nested in tuples, lists and dicts."},
    {"erase_node", erase_node, METH_O, "erase_node($self, node, /)\n--\n\nRemoves a node without users; fxcc.ArgumentError names them when it has some."},
    {"topological_sort", topological_sort, METH_NOARGS, "topological_sort($self)\n--\n\nMoves nodes so that each comes before its uses; fxcc.ArgumentError names a circle."},
    {"_insert", insert, METH_VARARGS, "_insert($self, node, after, /)\n--\n\n-> old: Moves the insertion point; Graph.inserting_before and inserting_after use it."},
    {"_restore", restore, METH_O, "_restore($self, old, /)\n--\n\nPuts the insertion point back."},
    {"set_parameter", set_parameter, METH_VARARGS,
     "set_parameter($self, path, tensor, /)\n--\n\nHangs an array or a CPU tensor on the module tree, without a copy; it is kept alive as long as the graph. Compiling reads\n"
     "its values: what is to change between calls is an input (placeholder) or a buffer that the graph writes."},
    {"set_buffer", FXPY_KEYWORDS(set_buffer), "set_buffer($self, path, tensor, persistent=True)\n--\n\nAs set_parameter; a buffer may be written by the graph."},
    {"tie_parameter", tie_parameter, METH_VARARGS, "tie_parameter($self, path, to, /)\n--\n\nThe tensor at `to` under another path too."},
    {"delete_attr", delete_attr, METH_O, "delete_attr($self, path, /)\n--\n\nRemoves a parameter or buffer."},
    {"add_submodule", FXPY_KEYWORDS(add_submodule),
     "add_submodule($self, path, class_name=None, config={})\n--\n\nA module: class_name 'torch.nn.Conv2d' with its settings, or None for a plain one. It replaces one that is there."},
    {"set_symbol", FXPY_KEYWORDS(set_symbol), "set_symbol($self, name, min=0, max=None)\n--\n\nThe range of a symbol that sizes name, ends included; max None: open."},
    {NULL, NULL, 0, NULL}};
