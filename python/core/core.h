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
    long long polled;            /* when signals were last looked for, in ns */
    unsigned long stopping;      /* the thread whose work an exception ends */
    bool works;                  /* at what a signal may end: fxpy_works */
} fxpy_context;
fxpy_context *fxpy_context_new(void);
/* Takes the lock, without the GIL where another thread has it; nests. */
void fxpy_enter(fxpy_context *c);
void fxpy_leave(fxpy_context *c);
/* Raises what the context's diagnostics from `since` on say; leaves the context as before. Always NULL. */
PyObject *fxpy_raise(fxpy_context *c, fx_status status, size_t since);
/* Ends what fxpy_enter began: None, or the exception of the status. */
PyObject *fxpy_done(fxpy_context *c, fx_status status, size_t since);
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

/* Whether signals are looked for: their handlers may raise only where somebody looks whether they did. What it was. */
static inline bool fxpy_works(fxpy_context *c, bool works)
{
    bool was = c->works;
    c->works = works;
    return was;
}

/* A call on a graph that gives a status, without the GIL: `c`, `status` and `since` are then there; fxpy_leave(c) must follow. */
#define FXPY_UNLOCKED(self, call)                                   \
    fxpy_context *c = (self)->context;                              \
    fx_status status;                                               \
    fxpy_enter(c);                                                  \
    size_t since = fx_diag_count(c->ctx);                           \
    bool worked = fxpy_works(c, true);                              \
    Py_BEGIN_ALLOW_THREADS                                          \
    status = call;                                                  \
    Py_END_ALLOW_THREADS                                            \
    fxpy_works(c, worked);                                          \
    if (status == FX_OK && PyErr_Occurred()) /* a signal's handler raised when nothing was left that it could end */ \
        status = FX_ERR_CANCELLED;

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
    bool has_view, readonly;
    bool makes_own;              /* its library has DLPack's C interface: outputs can be of it */
    bool on_device;              /* its memory is a GPU's */
} fxpy_tensor;
/* For messages: "input 0 'x'" (names: a tuple), or a text. */
typedef struct fxpy_what {
    PyObject *names;
    Py_ssize_t i;
    const char *text;
    bool devices;                /* memory of a GPU is taken, too */
} fxpy_what;
PyObject *fxpy_what_text(const fxpy_what *what);
/* -1: an exception is set. */
int fxpy_tensor_from(PyObject *o, const fxpy_what *what, fxpy_tensor *out);
/* Whether o is a tensor that requires grad while grad mode is on. */
bool fxpy_tensor_has_grad(PyObject *o);
/* Of the buffer protocol and of DLPack. NULL, false: there is none. */
const char *fxpy_dtype_format(fx_dtype dtype);
bool fxpy_dtype_dl(fx_dtype dtype, uint8_t *code, uint8_t *bits);
void fxpy_tensor_done(fxpy_tensor *t);
/* The memory of t, which came from o, stays until the context goes; t is done with. */
int fxpy_tensor_keep(fxpy_context *c, PyObject *o, fxpy_tensor *t);
/* The elements of a strided tensor from dim on to a dense block, whose end is returned; back: from it. */
char *fxpy_copy(const fx_tensor *t, int dim, char *strided, char *dense, bool back);
/* The stream of o's library that is current on a GPU; false: it tells none. */
bool fxpy_stream_of(PyObject *o, int device, void **stream);
/* A new dense array of the sizes and dtype that t has, of the library of like if there is one (on this GPU, or on the CPU: -1), else NumPy's, else ours; t's
 * data is set to its elements. *made (NULL at first): what is kept for the next one. */
PyObject *fxpy_tensor_make(PyObject *like, int device, fx_tensor *t, fxpy_tensor *view, PyObject **made);

/* ---- memory.c: fxcc.Tensor ------------------------------------------------------------------------------------------------------ */

extern PyTypeObject *fxpy_memory_type;
extern PyType_Spec fxpy_memory_spec;
PyObject *fxpy_memory_new(PyObject *owner, const fx_tensor *t, bool readonly);
PyObject *fxpy_memory_make(fx_tensor *t); /* of its own */
const fx_tensor *fxpy_memory_tensor(PyObject *o, bool *readonly);

/* ---- function.c ---------------------------------------------------------------------------------------------------------------- */

/* given: the options as a dict, kept. */
PyObject *fxpy_function_new(fxpy_graph *graph, const fx_jit_options *options, PyObject *given);
/* A Tensor of the function's memory comes or goes. */
struct fxpy_function;
void fxpy_function_looked(struct fxpy_function *self, int more);
/* The items of a list in the nesting of a tree of their numbers. */
PyObject *fxpy_nest(PyObject *tree, PyObject *list);
PyObject *fxpy_output_tree(fxpy_graph *graph); /* how the outputs are nested; NULL with an exception */
extern PyTypeObject *fxpy_value_type;
extern PyStructSequence_Desc fxpy_value_desc;
PyObject *fxpy_value_new(const fx_value_info *v);

int fxpy_init_types(PyObject *module);
extern PyMethodDef fxpy_torch_functions[]; /* torch.c: functions of the module */
extern PyType_Spec fxpy_context_spec, fxpy_graph_spec, fxpy_node_spec, fxpy_function_spec;

#endif
