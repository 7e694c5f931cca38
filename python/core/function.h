/* python/core/function.h: compiled models as objects: of the JIT (function.c) or emitted C in a shared object (native.c).
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_PYTHON_FUNCTION_H
#define FXCC_PYTHON_FUNCTION_H

#include "core.h"

typedef struct fxpy_function fxpy_function;
typedef struct fxpy_native fxpy_native;

/* How one is run. `run` is called without the GIL. */
typedef struct fxpy_kind {
    const char *name;
    fx_status (*outputs)(fxpy_function *self, size_t n_in, const fx_tensor *in, size_t n_out, fx_tensor *out, char *error, size_t size);
    fx_status (*run)(fxpy_function *self, size_t n_in, const fx_tensor *in, size_t n_out, const fx_tensor *out, char *error, size_t size);
    void (*free)(fxpy_function *self);
} fxpy_kind;

struct fxpy_function {
    PyObject_HEAD
    PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
    fxpy_graph *graph;
    const fxpy_kind *kind;
    fx_function *f;              /* the JIT's; one of the two, NULL once freed */
    fxpy_native *native;
    Py_ssize_t n_in, n_out;
    PyObject *names;             /* of inputs, interned */
    PyObject *tree;              /* how outputs are nested: numbers of outputs in tuples, lists, dicts */
    PyObject *options;
    PyObject **made;             /* by output: what fxpy_tensor_make keeps for the next call */
    Py_ssize_t calls, looks;     /* under way; Tensors of its state */
    bool closed, freed, any_grad;
};

PyObject *fxpy_function_bare(fxpy_graph *graph, const fxpy_kind *kind, PyObject *options, size_t n_in, size_t n_out);
int fxpy_function_name(fxpy_function *self, Py_ssize_t i, const char *name);

/* native.c */
PyObject *fxpy_native_new(PyObject *graph, PyObject *args);
bool fxpy_native_changes(const fxpy_function *self, Py_ssize_t i);
int fxpy_native_info(fxpy_function *self, bool output, Py_ssize_t i, fx_value_info *out);
void fxpy_native_memory(const fxpy_function *self, uint64_t *arena, uint64_t *weights);
void fxpy_native_reset(fxpy_function *self);

#endif
