/* python/core/core.h: what the files of the extension module fxcc._core share.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE.
 *
 * The module uses CPython's stable ABI (3.11 on): one build serves all later versions. Objects: a Context owns all that C owns; a Graph, a Node
 * and a Function keep theirs alive. A context is used by one thread at a time: whoever uses it holds its lock, which long work keeps while
 * the interpreter runs other threads. */
#ifndef FXCC_PYTHON_CORE_H
#define FXCC_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>
#include <structmember.h>

#include "fxcc/compile.h"
#include "fxcc/graph.h"
#include "fxcc/inspect.h"
#include "fxcc/interpreter.h"
#include "fxcc/jit.h"
#include "fxcc/module.h"
#include "fxcc/pass.h"

/* ---- module.c: exceptions and contexts ---------------------------------------------------------------------------------- */

/* fxcc.Error and those below it, by status. */
extern PyObject *fxpy_error;
PyObject *fxpy_exception(fx_status status);

typedef struct fxpy_context {
    PyObject_HEAD
    fx_context *ctx;
    PyThread_type_lock lock;
    int depth;                   /* of enters by the thread that holds the lock */
    unsigned long holder;
    PyObject *keep;              /* objects whose memory graphs refer to */
} fxpy_context;
fxpy_context *fxpy_context_new(void);
/* Takes the lock, without the GIL where another thread has it; nests. */
void fxpy_enter(fxpy_context *c);
void fxpy_leave(fxpy_context *c);
/* Raises what the context's diagnostics from `since` on say; leaves the context as before. Always NULL. */
PyObject *fxpy_raise(fxpy_context *c, fx_status status, size_t since);
/* Emits the context's warnings from `since` on as Python's; -1 when one was raised. Remarks go. */
int fxpy_warn(fxpy_context *c, size_t since);

/* ---- graph.c, node.c -------------------------------------------------------------------------------------------------------- */

typedef struct fxpy_graph {
    PyObject_HEAD
    fxpy_context *context;
    fx_graph *g;
} fxpy_graph;

typedef struct fxpy_node {
    PyObject_HEAD
    fxpy_graph *graph;
    fx_node *n;
} fxpy_node;

extern PyTypeObject *fxpy_graph_type, *fxpy_node_type, *fxpy_function_type, *fxpy_context_type;
PyObject *fxpy_graph_new(fxpy_context *c, fx_graph *g);
PyObject *fxpy_node_new(fxpy_graph *graph, fx_node *n); /* None for NULL */

/* A call on a graph that gives a status, without the GIL: `c`, `status` and `since` are then there; fxpy_leave(c) must follow. */
#define FXPY_UNLOCKED(self, call)                                   \
    fxpy_context *c = (self)->context;                              \
    fx_status status;                                               \
    fxpy_enter(c);                                                  \
    size_t since = fx_diag_count(c->ctx);                           \
    Py_BEGIN_ALLOW_THREADS                                          \
    status = call;                                                  \
    Py_END_ALLOW_THREADS

/* graph_build.c: methods that make and move nodes, and hang tensors on the module tree */
extern PyMethodDef fxpy_build_methods[];
#define FXPY_KEYWORDS(f) (PyCFunction)(void (*)(void))f, METH_VARARGS | METH_KEYWORDS

/* ---- value.c: arguments -------------------------------------------------------------------------------------------------------- */

/* Python's form of an argument of a node of this graph: None, Node, bool, int, float, complex, str, list, tuple, dict, slice, Ellipsis; dtypes, devices,
 * layouts, memory formats and sizes are Symbol, a str. */
PyObject *fxpy_from_value(fxpy_graph *graph, const fx_value *v);
/* The other way. What the value points to is in `keep`, a list, and lives as long as that. */
int fxpy_to_value(fxpy_graph *graph, PyObject *o, PyObject *keep, fx_value *v);

/* ---- tensor.c ------------------------------------------------------------------------------------------------------------------- */

/* What an object that came in holds of: an array of NumPy (or any buffer), a tensor of torch (or any that has DLPack). */
typedef struct fxpy_tensor {
    fx_tensor t;
    PyObject *capsule;           /* a DLPack one */
    Py_buffer view;
    bool has_view;
    bool torch;                  /* came by DLPack */
} fxpy_tensor;
/* what: for messages, "input 0 'x'". -1: an exception is set. */
int fxpy_tensor_from(PyObject *o, const char *what, fxpy_tensor *out);
void fxpy_tensor_done(fxpy_tensor *t);
/* The memory of t, which came from o, stays until the context goes; t is done with. */
int fxpy_tensor_keep(fxpy_context *c, PyObject *o, fxpy_tensor *t);
/* A new dense array (like: an object that came in; of its kind) of the sizes and dtype that t has; t's data is set to its elements. */
PyObject *fxpy_tensor_make(PyObject *like, fx_tensor *t, fxpy_tensor *view);

/* ---- function.c ---------------------------------------------------------------------------------------------------------------- */

PyObject *fxpy_function_new(fxpy_graph *graph, const fx_jit_options *options);

int fxpy_init_types(PyObject *module);
extern PyMethodDef fxpy_torch_functions[]; /* torch.c: functions of the module */
extern PyType_Spec fxpy_context_spec, fxpy_graph_spec, fxpy_node_spec, fxpy_function_spec;

#endif
