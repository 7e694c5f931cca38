/* codegen/python.h: graphs as Python, in FX's manner: `code`, print_readable.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#ifndef FXCC_CODEGEN_PYTHON_H
#define FXCC_CODEGEN_PYTHON_H

#include "ir/ir.h"

/* FX's `code`: import lines for what the function names, then `def forward(self, ...)` as Graph.python_code writes it. It runs under torch
 * as a method of a module that has the graph's attributes and submodules. Where FX's own text would not run or compute something else,
 * this one differs: docs/text.md has the list. FX_ERR_ARGUMENT, FX_ERR_UNSUPPORTED for a node that Python cannot say. */
fx_status fx_python_code(fx_text *t, const fx_graph *g);
/* FX's print_readable: the same as a class, with types and source lines; bodies of submodules and subgraphs as classes inside. */
fx_status fx_python_readable(fx_text *t, const fx_graph *g);

/* FX's print_tabular. */
fx_status fx_python_tabular(fx_text *t, const fx_graph *g);

/* ---- between the files of python*.c ------------------------------------------------------------------------------- */

/* What a target is in Python. */
typedef enum fx_py_call { FX_PY_CALL, FX_PY_INFIX, FX_PY_INPLACE, FX_PY_GETATTR } fx_py_call;

typedef struct fx_py_target {
    fx_py_call call;
    const char *text;             /* of CALL: the callable; else what stands between the operands: " + ", " += ", "-" before one */
    int operands;                 /* of INFIX and INPLACE */
    const fx_schema *schema;      /* of calls in normal form: their arguments are by the schema's positions */
    const fx_arg *const *defaults;
} fx_py_target;

typedef struct fx_python {
    fx_context *ctx;
    fx_arena *tmp;
    const fx_graph *g;
    bool readable;
    fx_text head, binds, body;    /* the signature's parameters; lines before the body; the body */
    fx_text imports, wraps;
    const char *returns;          /* the type hint of what is returned, or NULL */
    const char **local;           /* by node id: the name in the text where it is another than the node's; NULL when none is */
    fx_map taken;                 /* interned words that are no longer free: parameters, names of globals, local names */
    fx_map globals;               /* interned "module:name" -> how it is spelled */
    fx_map targets;               /* interned target -> fx_py_target */
    fx_map symbols;               /* interned symbol -> local name */
    fx_status status;             /* the first failure */
} fx_python;

/* readable: print_readable, or any text that is not run. */
void fx_python_begin(fx_python *p, const fx_graph *g, fx_arena *tmp, bool readable);
/* An interned word like `want` that nothing else in the text has, taken from now on. */
const char *fx_python_free_name(fx_python *p, const char *want);
const char *fx_python_node_name(const fx_python *p, const fx_node *n);
/* How the text calls NAME of MODULE (NULL module: a builtin; NULL name: the module itself), imported at first use. */
const char *fx_python_global(fx_python *p, const char *module, const char *name, const char *want);
const fx_py_target *fx_python_target(fx_python *p, const fx_node *n);
/* An expression for a function: torch's by their full names, others by a name of ours that is imported. */
const char *fx_python_callable(fx_python *p, const char *target);

void fx_python_put_int(fx_text *t, int64_t v);
/* Python's repr of a string. */
void fx_python_put_string(fx_text *t, const char *s);
/* base.a.b, with getattr(base, "0") where a component is no identifier. */
void fx_python_put_path(fx_python *p, fx_text *t, const char *base, const char *path);
/* An argument of n as FX's _get_repr spells it. */
void fx_python_put_arg(fx_python *p, fx_text *t, const fx_arg *a, const fx_node *n);
/* The same in parentheses where a `.`, `[` or `**` behind it would take only a part of it. */
void fx_python_put_primary(fx_python *p, fx_text *t, const fx_arg *a, const fx_node *n);

#endif
