/* python/core/graph.c: graphs: looking, editing, passes, output.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <string.h>

#include "core.h"
#include "function.h"

PyObject *fxpy_graph_new(fxpy_context *c, fx_graph *g)
{
    fxpy_graph *self = PyObject_New(fxpy_graph, fxpy_graph_type);
    if (!self)
        return NULL;
    Py_INCREF((PyObject *)c);
    self->context = c;
    self->g = g;
    return (PyObject *)self;
}

static void graph_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_DECREF((PyObject *)((fxpy_graph *)self)->context);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

/* Graph(name="graph"): an empty one, in a context of its own. */
static PyObject *graph_create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", NULL};
    const char *name = "graph";
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|s:Graph", names, &name))
        return NULL;
    fxpy_context *c = fxpy_context_new();
    if (!c)
        return NULL;
    fx_graph *g = fx_graph_create(c->ctx, name);
    PyObject *o = g ? fxpy_graph_new(c, g) : PyErr_NoMemory();
    Py_DECREF((PyObject *)c);
    return o;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------------- */

static PyObject *get_nodes(PyObject *o, void *unused)
{
    fxpy_graph *self = (fxpy_graph *)o;
    (void)unused;
    PyObject *list = PyList_New(0);
    fxpy_enter(self->context);
    for (fx_node *n = fx_graph_first(self->g); list && n; n = fx_node_next(n)) {
        PyObject *node = fxpy_node_new(self, n);
        if (!node || PyList_Append(list, node) != 0)
            Py_CLEAR(list);
        Py_XDECREF(node);
    }
    fxpy_leave(self->context);
    return list;
}

static PyObject *find(PyObject *o, PyObject *arg)
{
    fxpy_graph *self = (fxpy_graph *)o;
    const char *name = PyUnicode_AsUTF8AndSize(arg, NULL);
    if (!name)
        return NULL;
    fxpy_enter(self->context);
    fx_node *n = fx_graph_find_node(self->g, name);
    fxpy_leave(self->context);
    if (!n) {
        PyErr_Format(PyExc_KeyError, "there is no node '%s'", name);
        return NULL;
    }
    return fxpy_node_new(self, n);
}

static PyObject *eliminate_dead_code(PyObject *o, PyObject *unused)
{
    fxpy_graph *self = (fxpy_graph *)o;
    (void)unused;
    size_t removed = 0;
    FXPY_UNLOCKED(self, fx_graph_eliminate_dead_code(self->g, NULL, NULL, &removed))
    PyObject *result = status == FX_OK ? PyLong_FromSize_t(removed) : fxpy_raise(c, status, since);
    fxpy_leave(c);
    return result;
}

static PyObject *lint(PyObject *o, PyObject *unused)
{
    fxpy_graph *self = (fxpy_graph *)o;
    (void)unused;
    FXPY_UNLOCKED(self, fx_graph_lint(self->g, FX_LINT_ALL))
    return fxpy_done(c, status, since);
}

static PyObject *copy(PyObject *o, PyObject *unused)
{
    fxpy_graph *self = (fxpy_graph *)o;
    (void)unused;
    fxpy_enter(self->context);
    size_t since = fx_diag_count(self->context->ctx);
    fx_graph *g = fx_graph_deepcopy(self->g);
    PyObject *result = g ? fxpy_graph_new(self->context, g) : fxpy_raise(self->context, fx_graph_status(self->g), since);
    fxpy_leave(self->context);
    return result;
}

/* ---- texts and files -------------------------------------------------------------------------------------------------------------- */

static PyObject *format(PyObject *o, PyObject *args)
{
    static const char *const forms[] = {"table", "text", "dot", "code", "readable", "tabular", "json"}; /* by fx_form */
    fxpy_graph *self = (fxpy_graph *)o;
    const char *form = "readable", *text = NULL;
    size_t i = 0;
    if (!PyArg_ParseTuple(args, "|s:format", &form))
        return NULL;
    while (i < 7 && strcmp(forms[i], form))
        i++;
    if (i == 7)
        return PyErr_Format(PyExc_ValueError, "expected table, text, dot, code, readable, tabular or json, got '%s'", form);
    FXPY_UNLOCKED(self, fx_graph_format(self->g, (fx_form)i, &text))
    PyObject *result = status == FX_OK ? PyUnicode_FromString(text) : fxpy_raise(c, status, since);
    fxpy_leave(c);
    return result;
}

static PyObject *save(PyObject *o, PyObject *path)
{
    fxpy_graph *self = (fxpy_graph *)o;
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    const char *name = PyBytes_AsString(bytes);
    FXPY_UNLOCKED(self, fx_model_save(self->g, name))
    PyObject *result = status != FX_OK ? fxpy_raise(c, status, since) : fxpy_warn(c, since) == 0 ? Py_None : NULL;
    fxpy_leave(c);
    Py_DECREF(bytes);
    Py_XINCREF(result);
    return result;
}

/* {"s0": 8} or ["s0=8"] is the caller's business: a sequence of strings comes here. */
enum { MOST_DIMS = 64 };
static int dims_of(PyObject *o, PyObject *keep, const char **dims, size_t *n)
{
    *n = 0;
    if (!o || o == Py_None)
        return 0;
    Py_ssize_t size = PySequence_Size(o);
    if (size < 0 || size > MOST_DIMS) {
        PyErr_SetString(PyExc_ValueError, "expected at most 64 sizes, as strings");
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        if (!item || PyList_Append(keep, item) != 0) {
            Py_XDECREF(item);
            return -1;
        }
        Py_DECREF(item); /* the list has it */
        if (!(dims[i] = PyUnicode_AsUTF8AndSize(item, NULL)))
            return -1;
    }
    *n = (size_t)size;
    return 0;
}

static PyObject *emit_c(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dir", "target", "prefix", "threads", "link_runtime", "check", "dims", "disable", "weights", NULL};
    fxpy_graph *self = (fxpy_graph *)o;
    PyObject *path = NULL, *dims = NULL, *keep = PyList_New(0), *result = NULL;
    const char *texts[MOST_DIMS];
    static const char *const modes[] = {"default", "c", "bin", "incbin"}; /* by fx_weights */
    const char *weights = "default";
    int link = 0, check = 0;
    fx_compile_options options = {0};
    fx_compile_result r = {0};
    if (!keep || !PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$zzippOzs:emit_c", names, PyUnicode_FSConverter, &path, &options.target, &options.prefix,
                                              &options.threads, &link, &check, &dims, &options.disable, &weights) ||
        dims_of(dims, keep, texts, &options.n_dims) != 0)
        goto done;
    while (options.weights <= FX_WEIGHTS_IN_INCBIN && strcmp(modes[options.weights], weights))
        options.weights++;
    if (options.weights > FX_WEIGHTS_IN_INCBIN) {
        PyErr_Format(fxpy_exception(FX_ERR_ARGUMENT), "weights: expected default, c, bin or incbin, got '%s'", weights);
        goto done;
    }
    options.dims = texts;
    options.link_runtime = link;
    options.check = check;
    const char *dir = PyBytes_AsString(path);
    {
        FXPY_UNLOCKED(self, fx_compile(self->g, &options, dir, &r))
        if (status != FX_OK)
            fxpy_raise(c, status, since);
        else if (fxpy_warn(c, since) == 0)
            result = Py_BuildValue("{s:K,s:K,s:K,s:K,s:n,s:n}", "arena_size", (unsigned long long)r.arena_size, "weights_size", (unsigned long long)r.weights_size,
                                   "live_size", (unsigned long long)r.live_size, "source_size", (unsigned long long)r.source_size, "kernels",
                                   (Py_ssize_t)r.kernels, "loops", (Py_ssize_t)r.loops);
        fxpy_leave(c);
    }
done:
    Py_XDECREF(path);
    Py_XDECREF(keep);
    return result;
}

/* compile(*, level=0, threads=0, dims=None, disable=None, cache=None, device=None) -> Function */
static PyObject *compile(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"level", "threads", "dims", "disable", "cache", "device", NULL};
    PyObject *dims = NULL, *keep = PyList_New(0), *result = NULL;
    const char *texts[MOST_DIMS];
    fx_jit_options options = {0};
    if (keep && PyArg_ParseTupleAndKeywords(args, kwargs, "|$iiOzzz:compile", names, &options.level, &options.threads, &dims, &options.disable, &options.cache,
                                            &options.device) &&
        dims_of(dims, keep, texts, &options.n_dims) == 0) {
        options.dims = texts;
        result = fxpy_function_new((fxpy_graph *)o, &options, kwargs);
    }
    Py_XDECREF(keep);
    return result;
}

/* run_passes(pipeline, in_place=False) -> (Graph, [(pass, node or None, what)]) */
static PyObject *run_passes(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"pipeline", "in_place", NULL};
    fxpy_graph *self = (fxpy_graph *)o;
    const char *pipeline;
    int in_place = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|p:run_passes", names, &pipeline, &in_place))
        return NULL;
    fx_pass_options options = {.in_place = in_place};
    fx_pass_report report = {0};
    fx_graph *out = NULL;
    FXPY_UNLOCKED(self, fx_graph_run_passes(self->g, pipeline, &options, &out, &report))
    PyObject *result = NULL, *log = PyList_New(0);
    if (status != FX_OK) {
        fxpy_raise(c, status, since);
    } else if (fxpy_warn(c, since) == 0) {
        for (size_t i = 0; log && i < report.n_changes; i++) {
            const fx_change *change = &report.changes[i];
            PyObject *row = Py_BuildValue("(szs)", change->pass, change->node, change->what);
            if (!row || PyList_Append(log, row) != 0)
                Py_CLEAR(log);
            Py_XDECREF(row);
        }
        if (log) {
            PyObject *graph = out == self->g ? o : fxpy_graph_new(c, out);
            if (out == self->g)
                Py_INCREF(o);
            result = graph ? Py_BuildValue("(NO)", graph, log) : NULL;
        }
    }
    Py_XDECREF(log);
    fxpy_leave(c);
    return result;
}

static PyObject *legalize(PyObject *o, PyObject *unused)
{
    fxpy_graph *self = (fxpy_graph *)o;
    fx_graph *out = NULL;
    (void)unused;
    FXPY_UNLOCKED(self, fx_graph_legalize(self->g, &out))
    PyObject *result = status != FX_OK ? fxpy_raise(c, status, since) : fxpy_warn(c, since) == 0 ? fxpy_graph_new(c, out) : NULL;
    fxpy_leave(c);
    return result;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------------ */

static PyObject *tensor(PyObject *o, PyObject *path)
{
    fxpy_graph *self = (fxpy_graph *)o;
    const char *s = PyUnicode_AsUTF8AndSize(path, NULL);
    fx_tensor t;
    if (!s)
        return NULL;
    FXPY_UNLOCKED(self, fx_graph_tensor(self->g, s, &t))
    PyObject *result = NULL;
    if (status == FX_OK) {
        result = fxpy_memory_new(o, &t, true);
    } else if (status == FX_ERR_ARGUMENT) {
        fx_diag_truncate(c->ctx, since);
        PyErr_Format(PyExc_KeyError, "there is no parameter or buffer '%s'", s);
    } else {
        fxpy_raise(c, status, since);
    }
    fxpy_leave(c);
    return result;
}

static PyObject *get_tensors(PyObject *o, void *unused)
{
    fxpy_graph *self = (fxpy_graph *)o;
    (void)unused;
    PyObject *dict = PyDict_New();
    fxpy_enter(self->context);
    fx_attr_info a;
    for (size_t i = 0; dict && fx_graph_attr_info(self->g, i, &a); i++) {
        PyObject *sizes = PyTuple_New(a.rank);
        for (int d = 0; sizes && d < a.rank; d++)
            PyTuple_SetItem(sizes, d, PyLong_FromLongLong(a.sizes[d]));
        PyObject *row = sizes ? Py_BuildValue("(ssNz)", a.is_parameter ? "parameter" : a.persistent ? "buffer" : "transient buffer", fx_dtype_name(a.dtype),
                                              sizes, a.tied_to)
                              : NULL;
        if (!row || PyDict_SetItemString(dict, a.path, row) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(row);
    }
    fxpy_leave(self->context);
    return dict;
}

static PyObject *get_symbols(PyObject *o, void *unused)
{
    fxpy_graph *self = (fxpy_graph *)o;
    (void)unused;
    PyObject *dict = PyDict_New();
    fxpy_enter(self->context);
    const char *name;
    int64_t min, max;
    for (size_t i = 0; dict && (name = fx_graph_symbol(self->g, i, &min, &max)); i++) {
        PyObject *range = max == INT64_MAX ? Py_BuildValue("(LO)", (long long)min, Py_None) : Py_BuildValue("(LL)", (long long)min, (long long)max);
        if (!range || PyDict_SetItemString(dict, name, range) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(range);
    }
    fxpy_leave(self->context);
    return dict;
}

/* ---- running ------------------------------------------------------------------------------------------------------------------ */

/* A copy of a value that the interpreter made, which it takes back. */
static PyObject *copied(const fx_tensor *t, PyObject *like)
{
    fx_tensor out = *t;
    fxpy_tensor view;
    PyObject *made = NULL, *o = fxpy_tensor_make(like, -1, &out, &view, &made);
    Py_XDECREF(made);
    if (o) {
        fxpy_copy(t, 0, t->data, out.data, false);
        fxpy_tensor_done(&view);
    }
    return o;
}

static PyObject *interpret(PyObject *o, PyObject *inputs)
{
    fxpy_graph *self = (fxpy_graph *)o;
    Py_ssize_t n = PyTuple_Check(inputs) ? PyTuple_Size(inputs) : -1, have = 0;
    if (n < 0)
        return PyErr_Format(PyExc_TypeError, "expected a tuple of inputs");
    PyObject *result = NULL, *like = NULL, *list = NULL;
    fxpy_tensor *views = PyMem_Calloc((size_t)n + 1, sizeof *views);
    fx_tensor *t = PyMem_Calloc((size_t)n + 1, sizeof *t);
    fx_interpreter *interpreter = NULL;
    for (; views && t && have < n; have++) {
        char text[40];
        PyOS_snprintf(text, sizeof text, "input %zd", have);
        const fxpy_what what = {.text = text};
        if (fxpy_tensor_from(PyTuple_GetItem(inputs, have), &what, &views[have]) != 0)
            break;
        t[have] = views[have].t;
        like = views[have].makes_own && !like ? PyTuple_GetItem(inputs, have) : like;
    }
    if (views && t && have == n) {
        size_t n_out = 0;
        const fx_tensor *out = NULL;
        FXPY_UNLOCKED(self, (interpreter = fx_interpreter_create(self->g, NULL)) ? fx_interpreter_run(interpreter, (size_t)n, t, &n_out, &out)
                                                                               : FX_ERR_NOMEM)
        list = status == FX_OK && fxpy_warn(c, since) == 0 ? PyList_New(0) : status == FX_OK ? NULL : fxpy_raise(c, status, since);
        for (size_t i = 0; list && i < n_out; i++) {
            PyObject *one = copied(&out[i], like);
            if (!one || PyList_Append(list, one) != 0)
                Py_CLEAR(list);
            Py_XDECREF(one);
        }
        fx_interpreter_free(interpreter);
        fxpy_leave(c);
    } else if (!views || !t) {
        PyErr_NoMemory();
    }
    if (list) {
        PyObject *numbers = fxpy_output_tree(self);
        result = numbers ? fxpy_nest(numbers, list) : NULL;
        Py_XDECREF(numbers);
        Py_DECREF(list);
    }
    for (Py_ssize_t i = 0; views && i < have; i++)
        fxpy_tensor_done(&views[i]);
    PyMem_Free(views);
    PyMem_Free(t);
    return result;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------------ */

static PyObject *get_name(PyObject *o, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(fx_graph_name(((fxpy_graph *)o)->g));
}

static PyObject *get_cost(PyObject *o, void *unused)
{
    fxpy_graph *self = (fxpy_graph *)o;
    (void)unused;
    fx_graph_cost cost;
    FXPY_UNLOCKED(self, fx_graph_count(self->g, &cost))
    PyObject *result = status == FX_OK ? Py_BuildValue("{s:L,s:L,s:L,s:L}", "flops", (long long)cost.flops, "parameters", (long long)cost.parameters,
                                                       "weight_bytes", (long long)cost.weight_bytes, "peak_activation_bytes",
                                                       (long long)cost.peak_activation_bytes)
                                       : fxpy_raise(c, status, since);
    fxpy_leave(c);
    return result;
}

static Py_ssize_t length(PyObject *o)
{
    return (Py_ssize_t)fx_graph_node_count(((fxpy_graph *)o)->g);
}

static PyObject *repr(PyObject *o)
{
    fxpy_graph *self = (fxpy_graph *)o;
    return PyUnicode_FromFormat("<fxcc.Graph '%s' of %zu nodes>", fx_graph_name(self->g), fx_graph_node_count(self->g));
}

static PyMethodDef methods[] = {
    {"find", find, METH_O, "find($self, name, /)\n--\n\n-> Node: The node of that name; KeyError when there is none."},
    {"eliminate_dead_code", eliminate_dead_code, METH_NOARGS, "eliminate_dead_code($self)\n--\n\n-> int: Removes unused nodes; how many."},
    {"lint", lint, METH_NOARGS, "lint($self)\n--\n\nRaises fxcc.Error with all that is wrong with the graph."},
    {"copy", copy, METH_NOARGS, "copy($self)\n--\n\n-> Graph: Nodes, modules and notes; elements of tensors are shared until one side writes them."},
    {"format", format, METH_VARARGS, "format($self, form='readable', /)\n--\n\n-> str: As table, text, dot, code, readable, tabular or json."},
    {"save", save, METH_O, "save($self, path, /)\n--\n\nWrites .fx (and its weights beside it, .safetensors) or .pt2, by the extension. Raises fxcc.FileError, fxcc.ArgumentError for another extension."},
    {"legalize", legalize, METH_NOARGS,
     "legalize($self)\n--\n\n-> Graph: The graph as calls of aten operators alone, all typed: what compiling begins with. Raises fxcc.UnsupportedError naming all nodes that\n"
     "cannot be taken, fxcc.ShapeError where shapes contradict."},
    {"_emit_c", FXPY_KEYWORDS(emit_c), "Graph.emit_c with dims as strings"},
    {"_compile", FXPY_KEYWORDS(compile), "Graph.compile with dims as strings"},
    {"_native", fxpy_native_new, METH_VARARGS, "_native($self, path, arena, weights, options, /)\n--\n\n-> Function: Of the shared object that fxcc._native built."},
    {"_interpret", interpret, METH_O, "_interpret($self, inputs, /)\n--\n\n-> the outputs: Graph.interpret with a tuple of inputs."},
    {"tensor", tensor, METH_O, "tensor($self, path, /)\n--\n\n-> fxcc.Tensor: A parameter or buffer, where it lies: read-only. KeyError when there is none."},
    {"run_passes", FXPY_KEYWORDS(run_passes),
     "run_passes($self, pipeline, in_place=False)\n--\n\n-> (Graph, [(pass, node or None, what)]): Runs passes in order, 'fuse_conv_bn,eliminate_dead_code'; what they changed. The graph\n"
     "itself is left alone unless in_place. fxcc.passes() tells the names; raises fxcc.ArgumentError with the nearest one for a name that is none."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getters[] = {{"nodes", get_nodes, NULL, "the nodes in order, as a list", NULL},
                                {"tensors", get_tensors, NULL, "parameters and buffers: {path: (kind, dtype, sizes, path of the tensor it is tied to or None)}", NULL},
                                {"symbols", get_symbols, NULL, "the symbols that sizes name: {name: (least, most)}; most is None where it is open", NULL},
                                {"name", get_name, NULL, "the graph's name", NULL},
                                {"cost", get_cost, NULL, "flops, parameters, weight_bytes, peak_activation_bytes", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, graph_create},
                              {Py_tp_dealloc, graph_dealloc},
                              {Py_tp_repr, repr},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_sq_length, length},
                              {Py_tp_doc, "Graph(name='graph')\n--\n\nA captured model: a list of nodes over a tree of modules. Nodes are C's; Node objects look at them."},
                              {0, NULL}};
PyType_Spec fxpy_graph_spec = {"fxcc.Graph", sizeof(fxpy_graph), 0, Py_TPFLAGS_DEFAULT, slots};
